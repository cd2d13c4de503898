/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: every launcher family is recognised from the variables it really sets, mixed families are
 * always decided alike, and an incomplete or wrong set is refused, naming the variable. Method: one
 * list of variables per case, injected through the lookup. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/family_internal.h"

/* "NAME=value" texts, ended by NULL. */
static const char *lookup_list(void *context, const char *variable)
{
    const size_t bytes = strlen(variable);
    for (const char *const *each = context; *each != NULL; each++) {
        if (strncmp(*each, variable, bytes) == 0 && (*each)[bytes] == '=') {
            return *each + bytes + 1;
        }
    }
    return NULL;
}

#define LIST(...) ((const char *[]){__VA_ARGS__, NULL})

static tt_launch_source source_of(const char **list)
{
    return (tt_launch_source){
        .lookup = lookup_list, .context = list, .command = "python3 train.py --epochs 3"};
}

static tt_launch_identity identify(const char **list)
{
    tt_launch_identity identity;
    tt_launch_why why = {""};
    const tt_launch_source source = source_of(list);
    const tt_status status = tt_launch_identify(&source, &identity, &why);
    if (status != TT_OK) {
        fail_msg("refused: %s", why.text);
    }
    return identity;
}

static tt_launch_why refusal(const char **list)
{
    tt_launch_identity identity = {.size = 77};
    tt_launch_why why = {""};
    const tt_launch_source source = source_of(list);
    assert_int_equal(tt_launch_identify(&source, &identity, &why), TT_ERR_BAD_CONFIG);
    assert_int_equal(identity.size, 77);
    return why;
}

static void assert_says(const tt_launch_why *why, const char *part)
{
    if (strstr(why->text, part) == NULL) {
        fail_msg("'%s' does not say '%s'", why->text, part);
    }
}

static void assert_tcp(const tt_launch_identity *identity, const char *text)
{
    char rendezvous[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES];
    tt_launch_rendezvous_format(&identity->rendezvous, rendezvous);
    assert_string_equal(rendezvous, text);
}

static void assert_described(const tt_launch_identity *identity, const char *text)
{
    char description[TT_LAUNCH_DESCRIPTION_BYTES];
    tt_launch_describe(identity, description);
    assert_string_equal(description, text);
}

#define TORCHRUN                                                                       \
    "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1",    \
        "GROUP_WORLD_SIZE=2", "ROLE_RANK=3", "ROLE_NAME=default", "ROLE_WORLD_SIZE=4", \
        "MASTER_ADDR=node0", "MASTER_PORT=29500", "TORCHELASTIC_RESTART_COUNT=2",      \
        "TORCHELASTIC_MAX_RESTARTS=3", "TORCHELASTIC_RUN_ID=none",                     \
        "TORCHELASTIC_USE_AGENT_STORE=True", "OMP_NUM_THREADS=1"
#define OPENMPI                                                                         \
    "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1", \
        "OMPI_COMM_WORLD_NODE_RANK=1", "OMPI_UNIVERSE_SIZE=4", "PMIX_RANK=1",           \
        "PMIX_NAMESPACE=1717436417", "OMPI_MCA_ess_base_jobid=1717436417"
#define SLURM_STEP                                                                           \
    "SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=7", "SLURM_NTASKS=9", "SLURM_LOCALID=1",         \
        "SLURM_NODEID=2", "SLURM_STEP_NUM_NODES=4", "SLURM_STEP_TASKS_PER_NODE=2(x3),1",     \
        "SLURM_STEP_NODELIST=gpu[007-009],login1", "SLURM_JOB_ID=123456", "SLURM_STEP_ID=2", \
        "SLURM_RESTART_COUNT=1"

static void test_no_variables_give_a_job_of_one_rank(void **state)
{
    (void)state;
    const tt_launch_identity identity = identify(LIST("HOME=/", "RANK=", "WORLD_SIZE="));
    assert_int_equal(identity.rank, 0);
    assert_int_equal(identity.size, 1);
    assert_int_equal(identity.local_rank, TT_LAUNCH_NOT_TOLD);
    assert_int_equal(identity.rendezvous.kind, TT_LAUNCH_RENDEZVOUS_NONE);
    assert_string_equal(identity.warning, "");
    assert_string_not_equal(identity.job_id, "");
    assert_described(&identity, "no launcher: a job of one rank");
}

static void test_own_variables(void **state)
{
    (void)state;
    const tt_launch_identity identity = identify(
        LIST("TUTTI_RANK=2", "TUTTI_SIZE=4", "TUTTI_LOCAL_RANK=0", "TUTTI_LOCAL_SIZE=2",
             "TUTTI_CROSS_RANK=1", "TUTTI_CROSS_SIZE=2", "TUTTI_RENDEZVOUS=tcp://[::1]:4000-4003",
             "TUTTI_JOB_ID=blue", "TUTTI_INCARNATION=6"));
    assert_int_equal(identity.rank, 2);
    assert_int_equal(identity.cross_rank, 1);
    assert_int_equal(identity.cross_size, 2);
    assert_int_equal(identity.incarnation, 6);
    assert_string_equal(identity.job_id, "blue");
    assert_tcp(&identity, "tcp://[::1]:4000-4003");
    assert_described(&identity, "joined by tutti (TUTTI_*)");
}

static void test_horovodrun(void **state)
{
    (void)state;
    const tt_launch_identity identity = identify(
        LIST("HOROVOD_RANK=1", "HOROVOD_SIZE=2", "HOROVOD_LOCAL_RANK=1", "HOROVOD_LOCAL_SIZE=2",
             "HOROVOD_CROSS_RANK=0", "HOROVOD_CROSS_SIZE=1", "HOROVOD_GLOO_IFACE=lo",
             "HOROVOD_GLOO_RENDEZVOUS_ADDR=10.1.2.3", "HOROVOD_GLOO_RENDEZVOUS_PORT=17001",
             "HOROVOD_CONTROLLER=gloo", "HOROVOD_CPU_OPERATIONS=gloo", "HOROVOD_HOSTNAME=h"));
    assert_string_equal(identity.family, "horovod");
    assert_int_equal(identity.local_size, 2);
    assert_tcp(&identity, "tcp://10.1.2.3:17002-17017");
}

static void test_torchrun_never_uses_the_master_port(void **state)
{
    (void)state;
    const tt_launch_identity identity = identify(LIST(TORCHRUN));
    assert_int_equal(identity.rank, 3);
    assert_int_equal(identity.size, 4);
    assert_int_equal(identity.local_rank, 1);
    assert_int_equal(identity.cross_rank, 1);
    assert_int_equal(identity.incarnation, 2);
    assert_string_equal(identity.job_id, "none-29500");
    assert_tcp(&identity, "tcp://node0:29501-29516");
    assert_described(&identity, "joined by torchrun (TORCHELASTIC_*)");
}

static void test_master_port_near_the_top_shortens_the_range(void **state)
{
    (void)state;
    const tt_launch_identity identity =
        identify(LIST("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=::1", "MASTER_PORT=65533"));
    assert_tcp(&identity, "tcp://[::1]:65534-65535");
    const tt_launch_why why =
        refusal(LIST("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=65535"));
    assert_says(&why, "TUTTI_RENDEZVOUS");
}

static void test_openmpi_on_one_host_meets_on_loopback(void **state)
{
    (void)state;
    const tt_launch_identity identity = identify(LIST(OPENMPI, "OMPI_COMM_WORLD_LOCAL_SIZE=4"));
    assert_string_equal(identity.family, "openmpi");
    assert_int_equal(identity.local_size, 4);
    assert_int_equal(identity.cross_rank, TT_LAUNCH_NOT_TOLD);
    assert_string_equal(identity.job_id, "1717436417");
    assert_string_equal(identity.rendezvous.host, "127.0.0.1");
    assert_in_range(identity.rendezvous.port_first, 61440, 65528);
    assert_int_equal(identity.rendezvous.port_count, 8);
}

static void test_openmpi_on_two_hosts_needs_a_rendezvous(void **state)
{
    (void)state;
    const tt_launch_why why = refusal(LIST(OPENMPI, "OMPI_COMM_WORLD_LOCAL_SIZE=2"));
    assert_says(&why, "TUTTI_RENDEZVOUS=tcp://");
    assert_says(&why, "mpirun -x");
    const tt_launch_identity identity =
        identify(LIST(OPENMPI, "OMPI_COMM_WORLD_LOCAL_SIZE=2", "TUTTI_RENDEZVOUS=tcp://a:1"));
    assert_tcp(&identity, "tcp://a:1");
    const tt_launch_identity azure = identify(
        LIST(OPENMPI, "OMPI_COMM_WORLD_LOCAL_SIZE=2", "AZ_BATCH_MASTER_NODE=10.0.0.4:6000"));
    assert_tcp(&azure, "tcp://10.0.0.4:6001-6016");
    const tt_launch_why bad = refusal(
        LIST(OPENMPI, "OMPI_COMM_WORLD_LOCAL_SIZE=2", "AZ_BATCH_MASTER_NODE=10.0.0.4:none"));
    assert_says(&bad, "AZ_BATCH_MASTER_NODE");
}

static void test_hydra_meets_over_pmi(void **state)
{
    (void)state;
    const tt_launch_identity identity =
        identify(LIST("PMI_RANK=1", "PMI_SIZE=2", "PMI_FD=6", "MPI_LOCALRANKID=1",
                      "MPI_LOCALNRANKS=2", "PMI_HOSTNAME=h", "PMI_SPAWNED=0"));
    assert_string_equal(identity.family, "pmi");
    assert_int_equal(identity.local_rank, 1);
    assert_int_equal(identity.local_size, 2);
    assert_int_equal(identity.rendezvous.kind, TT_LAUNCH_RENDEZVOUS_PMI);
    const tt_launch_why why = refusal(LIST("PMI_RANK=1", "PMI_SIZE=2"));
    assert_says(&why, "PMI_FD");
}

static void test_launchers_built_on_pmi_cover_it(void **state)
{
    (void)state;
    const tt_launch_identity mvapich = identify(
        LIST("MV2_COMM_WORLD_RANK=0", "MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_LOCAL_RANK=0",
             "MV2_COMM_WORLD_LOCAL_SIZE=2", "PMI_RANK=0", "PMI_SIZE=2", "PMI_PORT=h:1"));
    assert_described(&mvapich, "joined by mvapich (MV2_COMM_WORLD_*)");
    const tt_launch_identity pals = identify(
        LIST("PALS_RANKID=1", "PALS_LOCAL_RANKID=1", "PALS_NODEID=0", "PMI_RANK=1", "PMI_SIZE=2",
             "PMI_LOCAL_RANK=1", "PMI_LOCAL_SIZE=2", "TUTTI_RENDEZVOUS=file:///shared/x"));
    assert_described(&pals, "joined by pals (PALS_RANKID)");
    assert_tcp(&pals, "file:///shared/x");
    const tt_launch_identity flux = identify(
        LIST("FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=2", "FLUX_TASK_LOCAL_ID=0", "FLUX_JOB_NNODES=2",
             "PMI_RANK=1", "PMI_SIZE=2", "PMI_FD=9", "FLUX_JOB_ID=f23"));
    assert_described(&flux, "joined by flux (FLUX_TASK_RANK)");
    assert_string_equal(flux.job_id, "f23");
    assert_int_equal(flux.cross_size, 2);
}

static void test_slurm_step(void **state)
{
    (void)state;
    const tt_launch_identity identity = identify(LIST(SLURM_STEP));
    assert_string_equal(identity.family, "slurm");
    assert_int_equal(identity.rank, 5);
    assert_int_equal(identity.size, 7);
    assert_int_equal(identity.local_rank, 1);
    assert_int_equal(identity.local_size, 2);
    assert_int_equal(identity.cross_rank, 2);
    assert_int_equal(identity.incarnation, 1);
    assert_string_equal(identity.job_id, "123456.2");
    assert_tcp(&identity, "tcp://gpu007:62018-62025"); /* 123458 % 4096 + 61440 */
}

static void test_slurm_pmi2_step_is_pmi(void **state)
{
    (void)state;
    const tt_launch_identity identity =
        identify(LIST(SLURM_STEP, "PMI_RANK=5", "PMI_SIZE=7", "PMI_FD=4", "PMI_JOBID=123456.2"));
    assert_string_equal(identity.job_id, "123456.2");
    assert_described(&identity, "joined by pmi (PMI_*); ignored: slurm");
}

static void test_batch_script_without_srun_is_warned(void **state)
{
    (void)state;
#define BATCH "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=99", "SLURM_NODELIST=n[0-1]"
    const tt_launch_identity batch = identify(LIST(BATCH, "SLURM_JOB_NAME=train"));
    assert_int_equal(batch.size, 1);
    assert_non_null(strstr(batch.warning, "srun --ntasks=4 python3 train.py --epochs 3"));
    const tt_launch_identity prompt = identify(LIST(BATCH, "SLURM_JOB_NAME=bash"));
    assert_string_equal(prompt.warning, "");
    /* Slurm numbers its own interactive step from the top. */
    const tt_launch_identity interactive = identify(
        LIST(BATCH, "SLURM_STEP_ID=4294967290", "SLURM_STEP_NODELIST=n0", "SLURM_JOB_NAME=x"));
    assert_int_equal(interactive.size, 1);
}

static void test_plain_pair(void **state)
{
    (void)state;
    const tt_launch_identity identity =
        identify(LIST("RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=train-0.train", "MASTER_PORT=23456"));
    assert_int_equal(identity.local_rank, TT_LAUNCH_NOT_TOLD);
    assert_tcp(&identity, "tcp://train-0.train:23457-23472");
    assert_described(&identity, "joined by plain (RANK, WORLD_SIZE)");
    char expected[128];
    (void)snprintf(expected, sizeof(expected), "uid%u-tcp://train-0.train:23457-23472",
                   (unsigned)getuid());
    assert_string_equal(identity.job_id, expected);
}

static void test_plain_pair_with_its_node(void **state)
{
    (void)state;
    const tt_launch_identity identity =
        identify(LIST("RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "NODE_RANK=1",
                      "MASTER_ADDR=head", "MASTER_PORT=6379"));
    assert_int_equal(identity.local_rank, 1);
    assert_int_equal(identity.local_size, 4);
    assert_int_equal(identity.cross_rank, 1);
    const tt_launch_identity group =
        identify(LIST("RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "GROUP_RANK=1", "MASTER_ADDR=h",
                      "MASTER_PORT=1"));
    assert_int_equal(group.cross_rank, 1);
}

static void test_ports_above_a_coordinator_are_used(void **state)
{
    (void)state;
    const tt_launch_identity jax = identify(
        LIST("JAX_PROCESS_ID=1", "JAX_NUM_PROCESSES=2", "JAX_COORDINATOR_ADDRESS=[::1]:1234"));
    assert_tcp(&jax, "tcp://[::1]:1235-1250");
    const tt_launch_identity job = identify(LIST(
        "PROCESS_ID=1", "NUM_PROCESSES=2", "COORDINATOR_ADDRESS=job-0", "COORDINATOR_PORT=6666"));
    assert_described(&job, "joined by jaxjob (PROCESS_ID, NUM_PROCESSES)");
    assert_tcp(&job, "tcp://job-0:6667-6682");
    assert_int_equal(identify(LIST("PROCESS_ID=1")).size, 1);
    const tt_launch_identity mlx = identify(
        LIST("MLX_RANK=0", "MLX_WORLD_SIZE=2", "NCCL_HOST_IP=10.0.0.1", "NCCL_PORT=12345"));
    assert_tcp(&mlx, "tcp://10.0.0.1:12346-12361");
    const tt_launch_identity keras =
        identify(LIST("KERAS_DISTRIBUTION_PROCESS_ID=1", "KERAS_DISTRIBUTION_NUM_PROCESSES=2",
                      "KERAS_DISTRIBUTION_JOB_ADDRESSES=10.0.0.1:7000,10.0.0.2:7000"));
    assert_described(&keras, "joined by keras (KERAS_DISTRIBUTION_*)");
    assert_tcp(&keras, "tcp://10.0.0.1:7001-7016");
    const tt_launch_identity dmlc =
        identify(LIST("DMLC_ROLE=worker", "DMLC_WORKER_ID=1", "DMLC_NUM_WORKER=2",
                      "DMLC_PS_ROOT_URI=10.0.0.9", "DMLC_PS_ROOT_PORT=9000"));
    assert_described(&dmlc, "joined by dmlc (DMLC_*)");
    assert_tcp(&dmlc, "tcp://10.0.0.9:9001-9016");
    assert_int_equal(identify(LIST("DMLC_ROLE=server", "DMLC_NUM_WORKER=2")).size, 1);
    const tt_launch_why broken =
        refusal(LIST("JAX_PROCESS_ID=1", "JAX_NUM_PROCESSES=2", "JAX_COORDINATOR_ADDRESS=host"));
    assert_says(&broken, "JAX_COORDINATOR_ADDRESS='host'");
}

static void test_srun_with_pmix(void **state)
{
    (void)state;
    const tt_launch_identity identity =
        identify(LIST(SLURM_STEP, "PMIX_RANK=5", "PMIX_NAMESPACE=slurm.pmix.123456.2",
                      "PMIX_SERVER_URI2=pmix-server.1;tcp4://127.0.0.1:4000"));
    assert_int_equal(identity.rank, 5);
    assert_int_equal(identity.size, 7);
    assert_int_equal(identity.local_size, 2);
    assert_string_equal(identity.job_id, "slurm.pmix.123456.2");
    assert_tcp(&identity, "tcp://gpu007:62018-62025");
    assert_described(&identity, "joined by pmix (PMIX_*, SLURM_STEP_*)");
    /* Without Slurm no variable has the size: the library gets it from the PMIx server. */
    const tt_launch_identity bare = identify(LIST("PMIX_RANK=5", "PMIX_NAMESPACE=prterun-1"));
    assert_int_equal(bare.size, 1);
    assert_non_null(strstr(bare.warning, "PMIX_RANK=5"));
    assert_non_null(strstr(bare.warning, "pmix plugin"));
}

#define TF_CLUSTER                                                            \
    "\"cluster\": {\"chief\": [\"a:2222\"], \"worker\": [\"b:1\", \"c:1\"], " \
    "\"ps\": [\"d:1\"]}"
#define TF_TASK(type, index) \
    "TF_CONFIG={" TF_CLUSTER ", \"task\": {\"type\": \"" type "\", \"index\": " index "}}"

static void test_tf_config_counts_chiefs_first(void **state)
{
    (void)state;
    const tt_launch_identity worker = identify(LIST(TF_TASK("worker", "1")));
    assert_int_equal(worker.rank, 2);
    assert_int_equal(worker.size, 3);
    assert_tcp(&worker, "tcp://a:2223-2238");
    assert_described(&worker, "joined by tf_config (TF_CONFIG)");
    assert_int_equal(identify(LIST(TF_TASK("chief", "\"0\""))).rank, 0);
    /* Servers, evaluators and processes without a cluster are not ranks. */
    assert_int_equal(identify(LIST(TF_TASK("ps", "0"))).size, 1);
    assert_int_equal(identify(LIST(TF_TASK("evaluator", "0"))).size, 1);
    assert_int_equal(identify(LIST("TF_CONFIG={}")).size, 1);
    const tt_launch_identity only =
        identify(LIST("TF_CONFIG={\"cluster\":{\"worker\":[\"[::1]:5\",\"[::2]:5\"]},"
                      "\"task\":{\"type\":\"worker\",\"index\":1,\"trial\":[1.5e3,null,{}]}}"));
    assert_int_equal(only.rank, 1);
    assert_tcp(&only, "tcp://[::1]:6-21");
    /* The innermost launcher wins. */
    const tt_launch_identity both = identify(LIST(TF_TASK("worker", "1"), TORCHRUN));
    assert_described(&both, "joined by torchrun (TORCHELASTIC_*); ignored: tf_config");
}

static void test_broken_tf_config_is_named(void **state)
{
    (void)state;
    static const char *const broken[] = {"TF_CONFIG={" TF_CLUSTER,
                                         "TF_CONFIG=worker",
                                         "TF_CONFIG={" TF_CLUSTER ",}",
                                         "TF_CONFIG={\"cluster\": [1], \"task\": {}}",
                                         TF_TASK("worker", "2"),
                                         TF_TASK("worker", "-1"),
                                         "TF_CONFIG={\"x\": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}",
                                         "TF_CONFIG={" TF_CLUSTER
                                         ", \"task\": {\"type\": \"worker\"}}"};
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        const tt_launch_why why = refusal(LIST(broken[i]));
        assert_says(&why, "TF_CONFIG");
    }
}

static void test_a_process_alone_on_its_node_is_warned(void **state)
{
    (void)state;
    for (size_t i = 0; i < tt_launch_scheduler_count; i++) {
        char node[64];
        char nodes[64];
        const char *count = tt_launch_schedulers[i].node_count;
        (void)snprintf(node, sizeof(node), "%s=1", tt_launch_schedulers[i].node_rank);
        (void)snprintf(nodes, sizeof(nodes), "%s=2", count != NULL ? count : "UNRELATED");
        const tt_launch_identity lone = identify(LIST(node, nodes));
        assert_int_equal(lone.size, 1);
        assert_non_null(strstr(lone.warning, tt_launch_schedulers[i].name));
        assert_non_null(strstr(lone.warning, count != NULL ? "node 1 of 2" : "node 1 ("));
        const tt_launch_identity launched = identify(LIST(node, nodes, TORCHRUN));
        assert_string_equal(launched.warning, "");
    }
}

static void test_jsrun_needs_a_rendezvous(void **state)
{
    (void)state;
#define JSRUN                                                                                    \
    "JSM_NAMESPACE_RANK=1", "JSM_NAMESPACE_SIZE=2", "JSM_NAMESPACE_LOCAL_RANK=1", "LSB_JOBID=5", \
        "PMIX_NAMESPACE=7"
    const tt_launch_why why = refusal(LIST(JSRUN));
    assert_says(&why, "launcher jsrun");
    const tt_launch_identity identity = identify(LIST(JSRUN, "TUTTI_RENDEZVOUS=file:///gpfs/x"));
    assert_string_equal(identity.job_id, "5.7");
}

static void test_inner_launcher_beats_slurm(void **state)
{
    (void)state;
    const tt_launch_identity torchrun = identify(LIST(SLURM_STEP, TORCHRUN));
    assert_int_equal(torchrun.rank, 3);
    assert_described(&torchrun, "joined by torchrun (TORCHELASTIC_*); ignored: slurm");
    const tt_launch_identity mpirun =
        identify(LIST(SLURM_STEP, OPENMPI, "OMPI_COMM_WORLD_LOCAL_SIZE=4"));
    assert_described(&mpirun, "joined by openmpi (OMPI_COMM_WORLD_*); ignored: slurm");
}

static void test_launcher_can_be_forced(void **state)
{
    (void)state;
    const tt_launch_identity slurm = identify(LIST(SLURM_STEP, TORCHRUN, "TUTTI_LAUNCHER=slurm"));
    assert_int_equal(slurm.rank, 5);
    assert_described(&slurm, "joined by slurm (SLURM_STEP_*); ignored: torchrun, plain");
    const tt_launch_identity none = identify(LIST(TORCHRUN, "TUTTI_LAUNCHER=none"));
    assert_int_equal(none.size, 1);
    const tt_launch_why unknown = refusal(LIST("TUTTI_LAUNCHER=mpirun"));
    assert_says(&unknown, "'mpirun'");
    assert_says(&unknown, "openmpi");
    const tt_launch_why absent = refusal(LIST(TORCHRUN, "TUTTI_LAUNCHER=horovod"));
    assert_says(&absent, "neither HOROVOD_RANK nor HOROVOD_SIZE");
}

static void test_an_incomplete_set_names_both_variables(void **state)
{
    (void)state;
    for (size_t i = 0; i < tt_launch_family_count; i++) {
        const tt_launch_family *family = &tt_launch_families[i];
        char force[64];
        char rank[64];
        if (family->read != NULL) {
            continue; /* both come from one variable */
        }
        (void)snprintf(force, sizeof(force), "TUTTI_LAUNCHER=%s", family->name);
        (void)snprintf(rank, sizeof(rank), "%s=1", family->variables[TT_LAUNCH_RANK][0]);
        const tt_launch_why why = refusal(LIST(force, rank));
        assert_says(&why, family->variables[TT_LAUNCH_RANK][0]);
        assert_says(&why, family->variables[TT_LAUNCH_SIZE][0]);
        assert_says(&why, "missing");
    }
    const tt_launch_why size_only = refusal(LIST("WORLD_SIZE=4"));
    assert_says(&size_only, "WORLD_SIZE='4' is set but RANK is missing");
    const tt_launch_why marker_only = refusal(LIST("TORCHELASTIC_RUN_ID=7"));
    assert_says(&marker_only, "neither RANK nor WORLD_SIZE");
}

static void test_bad_numbers_are_named(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "-1", "one", " 1", "1 ", "0x1", "1.0", "+1", "1048576", "99999999999999999999999999",
        "1\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char rank[64];
        (void)snprintf(rank, sizeof(rank), "TUTTI_RANK=%s", bad[i]);
        const tt_launch_why why = refusal(LIST(rank, "TUTTI_SIZE=4"));
        assert_says(&why, rank + sizeof("TUTTI_RANK=") - 1);
        assert_says(&why, "TUTTI_RANK");
    }
    const tt_launch_why beyond = refusal(LIST("RANK=4", "WORLD_SIZE=4"));
    assert_says(&beyond, "RANK=4 is not below WORLD_SIZE=4");
    const tt_launch_why empty = refusal(LIST("RANK=0", "WORLD_SIZE=0"));
    assert_says(&empty, "WORLD_SIZE=0");
    const tt_launch_why hint = refusal(LIST("RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=zero"));
    assert_says(&hint, "LOCAL_RANK='zero'");
}

static void test_missing_rendezvous_names_the_cure(void **state)
{
    (void)state;
    const tt_launch_why own = refusal(LIST("TUTTI_RANK=0", "TUTTI_SIZE=2"));
    assert_says(&own, "TUTTI_RENDEZVOUS=tcp://");
    const tt_launch_why both = refusal(LIST("RANK=0", "WORLD_SIZE=2"));
    assert_says(&both, "MASTER_ADDR and MASTER_PORT are not set");
    const tt_launch_why port = refusal(LIST("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a"));
    assert_says(&port, "MASTER_PORT is not set");
    const tt_launch_why broken =
        refusal(LIST("RANK=0", "WORLD_SIZE=2", "TUTTI_RENDEZVOUS=http://a:1"));
    assert_says(&broken, "TUTTI_RENDEZVOUS");
    const tt_launch_why none = refusal(LIST("RANK=0", "WORLD_SIZE=2", "TUTTI_RENDEZVOUS=none"));
    assert_says(&none, "2 ranks");
    const tt_launch_why host =
        refusal(LIST("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a b", "MASTER_PORT=1"));
    assert_says(&host, "MASTER_ADDR");
}

static void test_table_rows_are_complete(void **state)
{
    (void)state;
    for (size_t i = 0; i < tt_launch_family_count; i++) {
        assert_non_null(tt_launch_families[i].name);
        assert_non_null(tt_launch_families[i].evidence);
        assert_non_null(tt_launch_families[i].meet);
        assert_non_null(tt_launch_families[i].variables[TT_LAUNCH_RANK][0]);
        assert_non_null(tt_launch_families[i].variables[TT_LAUNCH_SIZE][0]);
    }
}

static void test_process_source_reads_the_environment(void **state)
{
    (void)state;
    char command[256];
    const tt_launch_source source = tt_launch_source_process(command, sizeof(command));
    assert_int_equal(setenv("TUTTI_LAUNCH_PROBE", "seen", 1), 0);
    assert_string_equal(tt_launch_source_get(&source, "TUTTI_LAUNCH_PROBE"), "seen");
    assert_non_null(strstr(source.command, "family"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_variables_give_a_job_of_one_rank),
        cmocka_unit_test(test_own_variables),
        cmocka_unit_test(test_horovodrun),
        cmocka_unit_test(test_torchrun_never_uses_the_master_port),
        cmocka_unit_test(test_master_port_near_the_top_shortens_the_range),
        cmocka_unit_test(test_openmpi_on_one_host_meets_on_loopback),
        cmocka_unit_test(test_openmpi_on_two_hosts_needs_a_rendezvous),
        cmocka_unit_test(test_hydra_meets_over_pmi),
        cmocka_unit_test(test_launchers_built_on_pmi_cover_it),
        cmocka_unit_test(test_slurm_step),
        cmocka_unit_test(test_slurm_pmi2_step_is_pmi),
        cmocka_unit_test(test_batch_script_without_srun_is_warned),
        cmocka_unit_test(test_plain_pair),
        cmocka_unit_test(test_plain_pair_with_its_node),
        cmocka_unit_test(test_ports_above_a_coordinator_are_used),
        cmocka_unit_test(test_srun_with_pmix),
        cmocka_unit_test(test_tf_config_counts_chiefs_first),
        cmocka_unit_test(test_broken_tf_config_is_named),
        cmocka_unit_test(test_a_process_alone_on_its_node_is_warned),
        cmocka_unit_test(test_jsrun_needs_a_rendezvous),
        cmocka_unit_test(test_inner_launcher_beats_slurm),
        cmocka_unit_test(test_launcher_can_be_forced),
        cmocka_unit_test(test_an_incomplete_set_names_both_variables),
        cmocka_unit_test(test_bad_numbers_are_named),
        cmocka_unit_test(test_missing_rendezvous_names_the_cure),
        cmocka_unit_test(test_table_rows_are_complete),
        cmocka_unit_test(test_process_source_reads_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
