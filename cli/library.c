/* SPDX-License-Identifier: Apache-2.0
 *
 * library.c - the variables of the launcher contract and those tutti.h names. */
#include <string.h>

#include "base/base.h"
#include "environment.h"
#include "library.h"

static const tt_library_variable variables[] = {
    {"TUTTI_RANK", "", "this process's number in the job", true},
    {"TUTTI_SIZE", "", "number of ranks", true},
    {"TUTTI_LOCAL_RANK", "", "this process's number on its host", true},
    {"TUTTI_LOCAL_SIZE", "", "number of ranks on this host", true},
    {"TUTTI_CROSS_RANK", "", "number of this host in the job", true},
    {"TUTTI_CROSS_SIZE", "", "number of hosts", true},
    {"TUTTI_JOB_ID", "", "name of the job, random for each run", true},
    {"TUTTI_RENDEZVOUS", "", "where rank 0 receives the others: tcp://host:port or file:///path",
     true},
    {"TUTTI_LISTEN_FD", "", "descriptor on which rank 0 already listens", true},
    {"TUTTI_SECRET_FD", "", "descriptor from which the job's 32-byte secret is read", true},
    {"TUTTI_SECRET_FILE", "", "file with the job's secret; must be private to its owner", false},
    {"TUTTI_SECRET", "", "the secret as 64 hex digits; others can read it, so avoid it", false},
    {"TUTTI_TRANSPORT", "auto", "auto, shm or tcp", false},
    {"TUTTI_START_TIMEOUT", "60", "seconds to wait for all ranks to join", false},
    {"TUTTI_TIMEOUT", "0", "seconds until a call fails; 0 waits for ever", false},
};

typedef struct family {
    const char *name;
    const char *variable; /* its presence gives the family away */
} family;

/* In the order in which the library looks. */
static const family families[] = {
    {"tutti run", "TUTTI_RANK"},
    {"horovodrun", "HOROVOD_RANK"},
    {"torchrun", "TORCHELASTIC_RUN_ID"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK"},
    {"PMI (MPICH, Intel MPI)", "PMI_RANK"},
    {"MVAPICH2", "MV2_COMM_WORLD_RANK"},
    {"PALS", "PALS_RANKID"},
    {"Flux", "FLUX_TASK_RANK"},
    {"PMIx", "PMIX_RANK"},
    {"jsrun", "JSM_NAMESPACE_RANK"},
    {"Slurm", "SLURM_STEP_NODELIST"},
    {"plain RANK and WORLD_SIZE", "WORLD_SIZE"},
};

const tt_library_variable *tt_library_variable_at(size_t index)
{
    return index < TT_ARRAY_COUNT(variables) ? &variables[index] : NULL;
}

const tt_library_variable *tt_library_variable_find(const char *name)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(variables); i++) {
        if (strcmp(variables[i].name, name) == 0) {
            return &variables[i];
        }
    }
    return NULL;
}

const char *tt_library_launcher(void)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(families); i++) {
        if (tt_environment_get(families[i].variable) != NULL) {
            return families[i].name;
        }
    }
    return NULL;
}
