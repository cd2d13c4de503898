/* SPDX-License-Identifier: Apache-2.0
 *
 * pmix_engine.c - joining by PMIx: srun --mpi=pmix, PRRTE, Open MPI's mpirun.
 *
 * It runs no collectives. The launcher's key-value store gives rank and size, and carries rank 0's
 * address and secret to the others (TUTTI_RENDEZVOUS=pmix).
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/plugin.h"

struct tutti_engine {
    pmix_proc_t self, job; /* job: all its ranks */
    int size;
    unsigned broadcasts; /* so far: each has a key of its own */
};

static int pmix_open(const tutti_plugin_host *host, tutti_engine **engine_out, char *why)
{
    tutti_engine *engine = calloc(1, sizeof(*engine));
    pmix_value_t *value = NULL;
    (void)host;
    if (engine == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    pmix_status_t status = PMIx_Init(&engine->self, NULL, 0);
    if (status != PMIX_SUCCESS) {
        (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES,
                       "PMIx_Init: %s; start the job with srun --mpi=pmix, prterun or mpirun",
                       PMIx_Error_string(status));
        free(engine);
        return TUTTI_ERR_SYSTEM;
    }
    PMIX_LOAD_PROCID(&engine->job, engine->self.nspace, PMIX_RANK_WILDCARD);
    status = PMIx_Get(&engine->job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (status != PMIX_SUCCESS || value->type != PMIX_UINT32) {
        (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES, "PMIx does not give the number of ranks: %s",
                       PMIx_Error_string(status));
        (void)PMIx_Finalize(NULL, 0);
        free(engine);
        return TUTTI_ERR_SYSTEM;
    }
    engine->size = (int)value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    *engine_out = engine;
    return TUTTI_OK;
}

static void pmix_close(tutti_engine *engine)
{
    (void)PMIx_Finalize(NULL, 0);
    free(engine);
}

static void pmix_describe(const tutti_engine *engine, char *text)
{
    (void)engine;
    const char *version = PMIx_Get_version();
    (void)snprintf(text, TUTTI_PLUGIN_WHY_BYTES, "%.*s", (int)strcspn(version, ",("), version);
}

static int pmix_world(const tutti_engine *engine, int *rank_out, int *size_out)
{
    *rank_out = (int)engine->self.rank;
    *size_out = engine->size;
    return TUTTI_OK;
}

static pmix_status_t publish(const char *key, void *bytes, size_t count)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    value.data.bo.bytes = bytes;
    value.data.bo.size = count;
    const pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
    return status == PMIX_SUCCESS ? PMIx_Commit() : status;
}

static int pmix_broadcast(tutti_engine *engine, void *bytes, size_t count)
{
    char key[32];
    bool collects = true;
    pmix_info_t info;
    pmix_proc_t root = engine->self;
    pmix_value_t *value = NULL;
    root.rank = 0;
    (void)snprintf(key, sizeof(key), "tutti.%u", engine->broadcasts++);
    pmix_status_t status = engine->self.rank == 0 ? publish(key, bytes, count) : PMIX_SUCCESS;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collects, PMIX_BOOL);
    if (status == PMIX_SUCCESS) {
        status = PMIx_Fence(&engine->job, 1, &info, 1);
    }
    PMIX_INFO_DESTRUCT(&info);
    if (status != PMIX_SUCCESS || engine->self.rank == 0) {
        return status == PMIX_SUCCESS ? TUTTI_OK : TUTTI_ERR_SYSTEM;
    }
    status = PMIx_Get(&root, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS) {
        return TUTTI_ERR_SYSTEM;
    }
    const bool is_good = value->type == PMIX_BYTE_OBJECT && value->data.bo.size == count;
    if (is_good) {
        memcpy(bytes, value->data.bo.bytes, count);
    }
    PMIX_VALUE_RELEASE(value);
    return is_good ? TUTTI_OK : TUTTI_ERR_BAD_WIRE;
}

static int pmix_supports(const tutti_engine *engine, const tutti_engine_op *op)
{
    (void)engine;
    (void)op;
    return 0;
}

static int pmix_launch(tutti_engine *engine, const tutti_engine_op *op, uint64_t token)
{
    (void)engine;
    (void)op;
    (void)token;
    return TUTTI_ERR_UNSUPPORTED;
}

static int pmix_test(tutti_engine *engine, uint64_t *tokens, int *statuses, int capacity)
{
    (void)engine;
    (void)tokens;
    (void)statuses;
    (void)capacity;
    return 0;
}

static const tutti_engine_ops pmix_ops = {
    .struct_bytes = sizeof(tutti_engine_ops),
    .flags = TUTTI_ENGINE_BOOTSTRAPS,
    .thread_level = TUTTI_THREAD_MULTIPLE,
    .open = pmix_open,
    .close = pmix_close,
    .describe = pmix_describe,
    .world = pmix_world,
    .broadcast = pmix_broadcast,
    .supports = pmix_supports,
    .launch = pmix_launch,
    .test = pmix_test,
};

TUTTI_PLUGIN_DEFINE = {
    .abi = TUTTI_PLUGIN_ABI,
    .struct_bytes = sizeof(tutti_plugin),
    .name = "pmix",
    .tag = {'p', 'm', 'i', 'x'},
    .summary = "joining by PMIx: srun --mpi=pmix, PRRTE, mpirun",
    .package = "PMIx (Debian: libpmix2)",
    .engine = &pmix_ops,
};
