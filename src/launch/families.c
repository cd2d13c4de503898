/* SPDX-License-Identifier: Apache-2.0
 *
 * families.c - the launchers, one row each, in order of precedence.
 *
 * The innermost launcher wins: torchrun inside srun precedes Slurm, and so does mpirun inside a
 * Slurm allocation. Variables that users set by hand precede all.
 *
 * Invariants:
 *  (1) A port that a launcher names is its own and is never bound by us: we start one above it.
 *  (2) Everything derived is the same on all ranks of a job, or the row does not provide it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "launch/family_internal.h"
#include "launch/nodelist.h"
#include "launch/tf_config.h"

enum {
    DERIVED_PORT_FIRST = 61440, /* above the kernel's ephemeral ports: 4096 remain */
    DERIVED_PORTS = 4096,
    DERIVED_PORT_RANGE = 8,
    NEIGHBOUR_PORT_RANGE = 16, /* ports above the launcher's own that are tried */
    /* Slurm numbers its own steps (batch, extern, interactive) from the top. */
    SLURM_STEP_ID_MAX = 0x7fffffff,
};

static void set_ports(tt_launch_rendezvous *rendezvous, uint32_t first, uint32_t count)
{
    const uint32_t count_max = TT_LAUNCH_PORT_MAX - first + 1;
    rendezvous->kind = TT_LAUNCH_RENDEZVOUS_TCP;
    rendezvous->port_first = (uint16_t)first;
    rendezvous->port_count = (uint16_t)(count < count_max ? count : count_max);
}

static tt_status set_host(tt_launch_rendezvous *rendezvous, const char *variable, const char *text,
                          tt_launch_why *why)
{
    tt_launch_why inner;
    if (tt_launch_host_parse(text, strlen(text), rendezvous->host, &inner) != TT_OK) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "%s: %.600s", variable, inner.text);
    }
    return TT_OK;
}

static tt_status needs_rendezvous(const tt_launch_identity *identity, const char *because,
                                  tt_launch_why *why)
{
    return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                          "launcher %s gives no rendezvous for %u ranks: %s; set "
                          "TUTTI_RENDEZVOUS=tcp://<host of rank 0>:<port> or file:///<shared path> "
                          "on every rank",
                          identity->family, identity->size, because);
}

/* The host and the ports above the port that the launcher's own store uses (1). */
static tt_status meet_beside(const tt_launch_source *source, const char *host_variable,
                             const char *port_variable, tt_launch_identity *identity,
                             tt_launch_why *why)
{
    const char *host = tt_launch_source_get(source, host_variable);
    const char *port_text = tt_launch_source_get(source, port_variable);
    uint64_t port;
    if (host == NULL || port_text == NULL) {
        char because[128];
        (void)snprintf(because, sizeof(because), "%s%s%s %s not set",
                       host == NULL ? host_variable : "",
                       host == NULL && port_text == NULL ? " and " : "",
                       port_text == NULL ? port_variable : "",
                       host == NULL && port_text == NULL ? "are" : "is");
        return needs_rendezvous(identity, because, why);
    }
    TT_TRY(set_host(&identity->rendezvous, host_variable, host, why));
    TT_TRY(tt_launch_read_number(source, port_variable, TT_LAUNCH_PORT_MAX, &port, why));
    if (port == 0 || port == TT_LAUNCH_PORT_MAX) {
        return needs_rendezvous(identity, "there is no port above the launcher's own", why);
    }
    set_ports(&identity->rendezvous, (uint32_t)port + 1, NEIGHBOUR_PORT_RANGE);
    return TT_OK;
}

static tt_status meet_mlx(const tt_launch_source *source, tt_launch_identity *identity,
                          tt_launch_why *why)
{
    return meet_beside(source, "NCCL_HOST_IP", "NCCL_PORT", identity, why);
}

static tt_status meet_jaxjob(const tt_launch_source *source, tt_launch_identity *identity,
                             tt_launch_why *why)
{
    return meet_beside(source, "COORDINATOR_ADDRESS", "COORDINATOR_PORT", identity, why);
}

/* Above the port of "host:port", the first of the list that `variable` holds (1). */
static tt_status meet_above(const char *place, const char *variable, tt_launch_identity *identity,
                            tt_launch_why *why)
{
    char text[TT_LAUNCH_HOST_BYTES + 16];
    tt_launch_why inner;
    const size_t length = strcspn(place, ",");
    const bool is_short = length + sizeof("tcp://") <= sizeof(text);
    (void)snprintf(text, sizeof(text), "tcp://%.*s", is_short ? (int)length : 0, place);
    if (!is_short || tt_launch_rendezvous_parse(text, &identity->rendezvous, &inner) != TT_OK ||
        identity->rendezvous.port_count != 1) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "%s='%.200s' is not host:port", variable,
                              place);
    }
    if (identity->rendezvous.port_first == TT_LAUNCH_PORT_MAX) {
        return needs_rendezvous(identity, "there is no port above the coordinator's own", why);
    }
    set_ports(&identity->rendezvous, identity->rendezvous.port_first + 1u, NEIGHBOUR_PORT_RANGE);
    return TT_OK;
}

static tt_status meet_coordinator(const tt_launch_source *source, const char *variable,
                                  tt_launch_identity *identity, tt_launch_why *why)
{
    const char *place = tt_launch_source_get(source, variable);
    char because[128];
    if (place != NULL) {
        return meet_above(place, variable, identity, why);
    }
    (void)snprintf(because, sizeof(because), "%s is not set", variable);
    return needs_rendezvous(identity, because, why);
}

static tt_status meet_jax(const tt_launch_source *source, tt_launch_identity *identity,
                          tt_launch_why *why)
{
    return meet_coordinator(source, "JAX_COORDINATOR_ADDRESS", identity, why);
}

static tt_status meet_keras(const tt_launch_source *source, tt_launch_identity *identity,
                            tt_launch_why *why)
{
    return meet_coordinator(source, "KERAS_DISTRIBUTION_JOB_ADDRESSES", identity, why);
}

static tt_status meet_dmlc(const tt_launch_source *source, tt_launch_identity *identity,
                           tt_launch_why *why)
{
    return meet_beside(source, "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", identity, why);
}

/* Servers and schedulers of a parameter-server job are not ranks. */
static bool is_dmlc_worker(const tt_launch_source *source)
{
    const char *role = tt_launch_source_get(source, "DMLC_ROLE");
    return role != NULL && strcmp(role, "worker") == 0;
}

static tt_status meet_by_hand(const tt_launch_source *source, tt_launch_identity *identity,
                              tt_launch_why *why)
{
    (void)source;
    return needs_rendezvous(identity, "TUTTI_RENDEZVOUS is not set", why);
}

static tt_status meet_horovod(const tt_launch_source *source, tt_launch_identity *identity,
                              tt_launch_why *why)
{
    return meet_beside(source, "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT",
                       identity, why);
}

static tt_status meet_master(const tt_launch_source *source, tt_launch_identity *identity,
                             tt_launch_why *why)
{
    return meet_beside(source, "MASTER_ADDR", "MASTER_PORT", identity, why);
}

static void name_torchrun(const tt_launch_source *source, char *job_id, size_t job_id_bytes)
{
    /* The run id is "none" unless given: the port distinguishes two such jobs of a host. */
    const char *run = tt_launch_source_get(source, "TORCHELASTIC_RUN_ID");
    const char *port = tt_launch_source_get(source, "MASTER_PORT");
    if (run != NULL) {
        (void)snprintf(job_id, job_id_bytes, "%.180s-%.8s", run, port != NULL ? port : "");
    }
}

static void name_openmpi(const tt_launch_source *source, char *job_id, size_t job_id_bytes)
{
    const char *job = tt_launch_source_get(source, "OMPI_MCA_ess_base_jobid");
    if (job == NULL) {
        job = tt_launch_source_get(source, "PMIX_NAMESPACE");
    }
    if (job != NULL) {
        (void)snprintf(job_id, job_id_bytes, "%s", job);
    }
}

static tt_status meet_openmpi(const tt_launch_source *source, tt_launch_identity *identity,
                              tt_launch_why *why)
{
    char job[TT_LAUNCH_JOB_ID_BYTES] = "";
    if (identity->local_size != (int32_t)identity->size) {
        const char *azure = tt_launch_source_get(source, "AZ_BATCH_MASTER_NODE");
        if (azure != NULL) {
            return meet_above(azure, "AZ_BATCH_MASTER_NODE", identity, why);
        }
        return needs_rendezvous(
            identity,
            "Open MPI sets no host of rank 0 when OMPI_COMM_WORLD_LOCAL_SIZE "
            "differs from OMPI_COMM_WORLD_SIZE (mpirun -x TUTTI_RENDEZVOUS passes it on)",
            why);
    }
    name_openmpi(source, job, sizeof(job));
    if (job[0] == '\0') {
        return needs_rendezvous(identity,
                                "neither OMPI_MCA_ess_base_jobid nor PMIX_NAMESPACE is set", why);
    }
    const uint64_t hash = tt_launch_hash(0, job, strlen(job));
    (void)snprintf(identity->rendezvous.host, sizeof(identity->rendezvous.host), "127.0.0.1");
    set_ports(&identity->rendezvous,
              DERIVED_PORT_FIRST + (uint32_t)(hash % (DERIVED_PORTS - DERIVED_PORT_RANGE + 1)),
              DERIVED_PORT_RANGE);
    return TT_OK;
}

static tt_status meet_pmi(const tt_launch_source *source, tt_launch_identity *identity,
                          tt_launch_why *why)
{
    if (tt_launch_source_get(source, "PMI_FD") == NULL &&
        tt_launch_source_get(source, "PMI_PORT") == NULL) {
        return needs_rendezvous(identity, "neither PMI_FD nor PMI_PORT is set", why);
    }
    identity->rendezvous.kind = TT_LAUNCH_RENDEZVOUS_PMI;
    return TT_OK;
}

static void name_pmi(const tt_launch_source *source, char *job_id, size_t job_id_bytes)
{
    static const char *const variables[] = {"PMI_JOBID", "FLUX_JOB_ID", "PALS_APID"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(variables) && job_id[0] == '\0'; i++) {
        const char *job = tt_launch_source_get(source, variables[i]);
        (void)snprintf(job_id, job_id_bytes, "%s", job != NULL ? job : "");
    }
}

static bool is_slurm_rank(const tt_launch_source *source)
{
    const char *step = tt_launch_source_get(source, "SLURM_STEP_ID");
    uint64_t step_id;
    return step != NULL && tt_launch_parse_number(step, strlen(step), SLURM_STEP_ID_MAX, &step_id);
}

static tt_status meet_slurm(const tt_launch_source *source, tt_launch_identity *identity,
                            tt_launch_why *why)
{
    uint64_t job;
    uint64_t step;
    tt_launch_why inner;
    const char *hosts = tt_launch_source_get(source, "SLURM_STEP_NODELIST");
    if (hosts == NULL || tt_launch_source_get(source, "SLURM_JOB_ID") == NULL) {
        return needs_rendezvous(identity, "SLURM_JOB_ID and SLURM_STEP_NODELIST are not both set",
                                why);
    }
    TT_TRY(tt_launch_read_number(source, "SLURM_JOB_ID", UINT32_MAX, &job, why));
    TT_TRY(tt_launch_read_number(source, "SLURM_STEP_ID", SLURM_STEP_ID_MAX, &step, why));
    if (tt_launch_nodelist_host(hosts, 0, identity->rendezvous.host, &inner) != TT_OK) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "SLURM_STEP_NODELIST: %.600s", inner.text);
    }
    set_ports(&identity->rendezvous, DERIVED_PORT_FIRST + (uint32_t)((job + step) % DERIVED_PORTS),
              DERIVED_PORT_RANGE);

    const char *counts = tt_launch_source_get(source, "SLURM_STEP_TASKS_PER_NODE");
    uint32_t tasks;
    if (counts != NULL && identity->cross_rank != TT_LAUNCH_NOT_TOLD &&
        tt_launch_tasks_on_node(counts, (uint32_t)identity->cross_rank, &tasks, &inner) == TT_OK) {
        identity->local_size = (int32_t)tasks;
    }
    return TT_OK;
}

static void name_slurm(const tt_launch_source *source, char *job_id, size_t job_id_bytes)
{
    const char *job = tt_launch_source_get(source, "SLURM_JOB_ID");
    const char *step = tt_launch_source_get(source, "SLURM_STEP_ID");
    if (job != NULL && step != NULL) {
        (void)snprintf(job_id, job_id_bytes, "%.32s.%.32s", job, step);
    }
}

/* srun --mpi=pmix: PMIx numbers the ranks, Slurm sets their number and hosts. */
static bool is_pmix_step(const tt_launch_source *source)
{
    return is_slurm_rank(source) && tt_launch_source_get(source, "SLURM_STEP_NODELIST") != NULL;
}

/* False if the text is broken: the row is then present, and reading it reports the error. */
static bool is_tf_bystander(const tt_launch_source *source)
{
    const char *text = tt_launch_source_get(source, "TF_CONFIG");
    tt_launch_tf_config config;
    tt_launch_why why;
    return text == NULL ||
           (tt_launch_tf_config_parse(text, &config, &why) == TT_OK && !config.is_rank);
}

static bool is_tf_rank(const tt_launch_source *source)
{
    return !is_tf_bystander(source);
}

static tt_status parse_tf_config(const tt_launch_source *source, tt_launch_tf_config *config,
                                 tt_launch_why *why)
{
    const char *text = tt_launch_source_get(source, "TF_CONFIG");
    tt_launch_why inner = {.text = "not set"};
    if (text == NULL || tt_launch_tf_config_parse(text, config, &inner) != TT_OK) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "TF_CONFIG: %.600s", inner.text);
    }
    return TT_OK;
}

static tt_status read_tf_config(const tt_launch_source *source, tt_launch_identity *identity,
                                tt_launch_why *why)
{
    tt_launch_tf_config config;
    TT_TRY(parse_tf_config(source, &config, why));
    if (!config.is_rank) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "TF_CONFIG: this task is neither chief nor worker of a cluster, so "
                              "not a rank; start Tutti on chiefs and workers only");
    }
    identity->rank = config.rank;
    identity->size = config.size;
    return TT_OK;
}

static tt_status meet_tf_config(const tt_launch_source *source, tt_launch_identity *identity,
                                tt_launch_why *why)
{
    tt_launch_tf_config config;
    TT_TRY(parse_tf_config(source, &config, why));
    return meet_above(config.first, "TF_CONFIG", identity, why);
}

static void name_pmix(const tt_launch_source *source, char *job_id, size_t job_id_bytes)
{
    const char *space = tt_launch_source_get(source, "PMIX_NAMESPACE");
    (void)snprintf(job_id, job_id_bytes, "%s", space != NULL ? space : "");
}

static void name_jsrun(const tt_launch_source *source, char *job_id, size_t job_id_bytes)
{
    const char *job = tt_launch_source_get(source, "LSB_JOBID");
    const char *step = tt_launch_source_get(source, "PMIX_NAMESPACE");
    if (job != NULL && step != NULL) {
        (void)snprintf(job_id, job_id_bytes, "%.100s.%.100s", job, step);
    }
}

const tt_launch_family tt_launch_families[] = {
    {
        .name = "tutti",
        .evidence = "TUTTI_*",
        .variables = {{"TUTTI_RANK"},
                      {"TUTTI_SIZE"},
                      {"TUTTI_LOCAL_RANK"},
                      {"TUTTI_LOCAL_SIZE"},
                      {"TUTTI_CROSS_RANK"},
                      {"TUTTI_CROSS_SIZE"}},
        .meet = meet_by_hand,
    },
    {
        .name = "horovod",
        .evidence = "HOROVOD_*",
        .variables = {{"HOROVOD_RANK"},
                      {"HOROVOD_SIZE"},
                      {"HOROVOD_LOCAL_RANK"},
                      {"HOROVOD_LOCAL_SIZE"},
                      {"HOROVOD_CROSS_RANK"},
                      {"HOROVOD_CROSS_SIZE"}},
        .meet = meet_horovod,
    },
    {
        .name = "torchrun",
        .evidence = "TORCHELASTIC_*",
        .covers = "plain",
        .markers = {"TORCHELASTIC_RUN_ID"},
        .variables = {{"RANK"},
                      {"WORLD_SIZE"},
                      {"LOCAL_RANK"},
                      {"LOCAL_WORLD_SIZE"},
                      {"GROUP_RANK"},
                      {"GROUP_WORLD_SIZE"}},
        .restart_count = "TORCHELASTIC_RESTART_COUNT",
        .meet = meet_master,
        .name_job = name_torchrun,
    },
    {
        /* OMPI_COMM_WORLD_NODE_RANK is a rank within the node over all jobs, not a cross rank. */
        .name = "openmpi",
        .evidence = "OMPI_COMM_WORLD_*",
        .covers = "pmix",
        .variables = {{"OMPI_COMM_WORLD_RANK"},
                      {"OMPI_COMM_WORLD_SIZE"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE"}},
        .meet = meet_openmpi,
        .name_job = name_openmpi,
    },
    {
        .name = "mvapich",
        .evidence = "MV2_COMM_WORLD_*",
        .covers = "pmi",
        .variables = {{"MV2_COMM_WORLD_RANK"},
                      {"MV2_COMM_WORLD_SIZE"},
                      {"MV2_COMM_WORLD_LOCAL_RANK"},
                      {"MV2_COMM_WORLD_LOCAL_SIZE"}},
        .meet = meet_pmi,
        .name_job = name_pmi,
    },
    {
        .name = "pals",
        .evidence = "PALS_RANKID",
        .covers = "pmi",
        .markers = {"PALS_RANKID"},
        .variables = {{"PALS_RANKID"},
                      {"PMI_SIZE"},
                      {"PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"},
                      {"PMI_LOCAL_SIZE"},
                      {"PALS_NODEID"}},
        .meet = meet_pmi,
        .name_job = name_pmi,
    },
    {
        .name = "flux",
        .evidence = "FLUX_TASK_RANK",
        .covers = "pmi",
        .markers = {"FLUX_TASK_RANK"},
        .variables = {{"FLUX_TASK_RANK"},
                      {"FLUX_JOB_SIZE", "PMI_SIZE"},
                      {"FLUX_TASK_LOCAL_ID"},
                      {NULL},
                      {NULL},
                      {"FLUX_JOB_NNODES"}},
        .meet = meet_pmi,
        .name_job = name_pmi,
    },
    {
        .name = "pmi",
        .evidence = "PMI_*",
        .variables = {{"PMI_RANK", "PMI_ID"},
                      {"PMI_SIZE"},
                      {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
                      {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}},
        .meet = meet_pmi,
        .name_job = name_pmi,
    },
    {
        .name = "jsrun",
        .evidence = "JSM_NAMESPACE_*",
        .variables = {{"JSM_NAMESPACE_RANK"},
                      {"JSM_NAMESPACE_SIZE"},
                      {"JSM_NAMESPACE_LOCAL_RANK"},
                      {"JSM_NAMESPACE_LOCAL_SIZE"}},
        .meet = meet_by_hand,
        .name_job = name_jsrun,
    },
    {
        .name = "pmix",
        .evidence = "PMIX_*, SLURM_STEP_*",
        .covers = "slurm",
        .markers = {"PMIX_RANK", "PMIX_NAMESPACE"},
        .variables = {{"PMIX_RANK"},
                      {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
                      {"SLURM_LOCALID"},
                      {NULL},
                      {"SLURM_NODEID"},
                      {"SLURM_STEP_NUM_NODES"}},
        .restart_count = "SLURM_RESTART_COUNT",
        .is_rank = is_pmix_step,
        .meet = meet_slurm,
        .name_job = name_pmix,
    },
    {
        .name = "slurm",
        .evidence = "SLURM_STEP_*",
        .markers = {"SLURM_STEP_ID", "SLURM_STEP_NODELIST"},
        .variables = {{"SLURM_PROCID"},
                      {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
                      {"SLURM_LOCALID"},
                      {NULL},
                      {"SLURM_NODEID"},
                      {"SLURM_STEP_NUM_NODES"}},
        .restart_count = "SLURM_RESTART_COUNT",
        .is_rank = is_slurm_rank,
        .meet = meet_slurm,
        .name_job = name_slurm,
    },
    {
        .name = "plain",
        .evidence = "RANK, WORLD_SIZE",
        .variables = {{"RANK"},
                      {"WORLD_SIZE"},
                      {"LOCAL_RANK"},
                      {"LOCAL_WORLD_SIZE"},
                      {"NODE_RANK", "GROUP_RANK"},
                      {"GROUP_WORLD_SIZE"}},
        .meet = meet_master,
    },
    {
        .name = "jax",
        .evidence = "JAX_PROCESS_ID, JAX_NUM_PROCESSES",
        .variables = {{"JAX_PROCESS_ID"}, {"JAX_NUM_PROCESSES"}},
        .meet = meet_jax,
    },
    {
        /* Generic names that other programs use too: a job only if all are set. */
        .name = "jaxjob",
        .evidence = "PROCESS_ID, NUM_PROCESSES",
        .markers = {"COORDINATOR_ADDRESS", "NUM_PROCESSES"},
        .variables = {{"PROCESS_ID"}, {"NUM_PROCESSES"}},
        .meet = meet_jaxjob,
    },
    {
        .name = "tf_config",
        .evidence = "TF_CONFIG",
        .markers = {"TF_CONFIG"},
        .variables = {{"TF_CONFIG"}, {"TF_CONFIG"}},
        .read = read_tf_config,
        .is_rank = is_tf_rank,
        .meet = meet_tf_config,
    },
    {
        .name = "keras",
        .evidence = "KERAS_DISTRIBUTION_*",
        .variables = {{"KERAS_DISTRIBUTION_PROCESS_ID"}, {"KERAS_DISTRIBUTION_NUM_PROCESSES"}},
        .meet = meet_keras,
    },
    {
        /* BytePS, MXNet: one worker for each node. */
        .name = "dmlc",
        .evidence = "DMLC_*",
        .markers = {"DMLC_ROLE", "DMLC_NUM_WORKER"},
        .variables = {{"DMLC_WORKER_ID"}, {"DMLC_NUM_WORKER"}},
        .is_rank = is_dmlc_worker,
        .meet = meet_dmlc,
    },
    {
        .name = "mlx",
        .evidence = "MLX_RANK, MLX_WORLD_SIZE",
        .variables = {{"MLX_RANK"}, {"MLX_WORLD_SIZE"}},
        .meet = meet_mlx,
    },
};

const size_t tt_launch_family_count = TT_ARRAY_COUNT(tt_launch_families);

static const char use_torchrun[] = "start it with torchrun, which reads the PET_* variables";
static const char use_run[] = "start the ranks of all nodes from one of them with tutti run -H";
static const char set_by_hand[] =
    "for one rank per node set TUTTI_RANK, TUTTI_SIZE and TUTTI_RENDEZVOUS on every node";

const tt_launch_scheduler tt_launch_schedulers[] = {
    {"Kubeflow", "PET_NODE_RANK", "PET_NNODES", use_torchrun},
    {"LeaderWorkerSet", "LWS_WORKER_INDEX", "LWS_GROUP_SIZE", set_by_hand},
    {"SkyPilot", "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES", use_run},
    {"dstack", "DSTACK_NODE_RANK", "DSTACK_NODES_NUM", use_run},
    {"JobSet", "JOB_COMPLETION_INDEX", NULL, set_by_hand},
    {"Volcano", "VC_TASK_INDEX", NULL, set_by_hand},
    {"Volcano", "VK_TASK_INDEX", NULL, set_by_hand},
};

const size_t tt_launch_scheduler_count = TT_ARRAY_COUNT(tt_launch_schedulers);

const char *tt_launch_family_at(size_t index, const char **evidence_out)
{
    if (index >= tt_launch_family_count) {
        return NULL;
    }
    *evidence_out = tt_launch_families[index].evidence;
    return tt_launch_families[index].name;
}
