/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_engine.c - collectives of the site's MPI.
 *
 * One source for both ABIs: compiled by the mpicc of Open MPI it is tutti-mpi-openmpi.so, by that
 * of MPICH (MVAPICH, Intel MPI) tutti-mpi-mpich.so. Needs nothing but MPI 3 and tutti/plugin.h.
 *
 * Ops run on copies of MPI_COMM_WORLD, one communicator per process set, so that they never match
 * the program's own MPI calls. They are non-blocking; where every member only waits, the blocking
 * function is used: Open MPI's is about twice as fast. MPICH's spins while it waits, so there it is
 * used only if every rank has a core.
 *
 * MPI can be started only once in a process, and not again after its end. So the plugin leaves it
 * running when a context is closed, and ends it when the process exits normally.
 */
#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_plugin.h"

#ifdef OPEN_MPI
#define PLUGIN_NAME "mpi-openmpi"
#define PLUGIN_TAG                        \
    {                                     \
        'o', 'p', 'e', 'n', 'm', 'p', 'i' \
    }
#define PLUGIN_PACKAGE "Open MPI (Debian: libopenmpi3, openmpi-bin)"
#else
#define PLUGIN_NAME "mpi-mpich"
#define PLUGIN_TAG              \
    {                           \
        'm', 'p', 'i', 'c', 'h' \
    }
#define PLUGIN_PACKAGE "MPICH (Debian: libmpich12, mpich)"
#endif

typedef struct mpi_set {
    uint32_t id;
    MPI_Comm comm;
    int rank, size;
} mpi_set;

struct tutti_engine {
    mpi_set *sets;
    int set_count;
    int world_size;
    bool is_aborted, never_blocks;
    /* Ops in flight, at the same place in each array. */
    MPI_Request *requests;
    uint64_t *tokens;
    void **copies; /* of inputs that overlap their output; or NULL */
    int *indices;  /* room for MPI_Testsome */
    MPI_Status *statuses;
    int count, capacity;
};

/* ---- life ---- */

/* The plugin ends MPI if it has started it, unless an op of ours is still in flight. */
static struct {
    pid_t owner; /* 0: not started by us */
    int open;    /* engines that are not closed */
    bool is_broken;
} process;

static void finalize_at_exit(void)
{
    int is_over = 0;
    (void)MPI_Finalized(&is_over);
    if (!is_over && process.owner == getpid() && process.open == 0 && !process.is_broken) {
        (void)MPI_Finalize();
    }
}

static int refuse(char *why, int status, const char *text)
{
    (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES, "%s", text);
    return status;
}

static const char *level_name(int level)
{
    switch (level) {
    case MPI_THREAD_SINGLE:
        return "single";
    case MPI_THREAD_FUNNELED:
        return "funneled";
    default:
        return "serialized or more";
    }
}

/* MPI's modules search its symbols among those of the whole process. */
static void make_global(void)
{
    Dl_info info;
    int (*function)(int *, char ***) = MPI_Init;
    void *address;
    memcpy(&address, &function, sizeof(address));
    if (dladdr(address, &info) != 0 && info.dli_fname != NULL) {
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

/* Room for the longest text of any MPI: the one in the process may differ from the one that this
 * was compiled for. */
enum { VERSION_BYTES = 8192 };

/* "Open MPI v4.1.4": the first words of the library's version text. */
static void library_version(char text[VERSION_BYTES])
{
    int length = 0;
    text[0] = '\0';
    (void)MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    for (char *at = strchr(text, '\t'); at != NULL; at = strchr(at, '\t')) {
        *at = ' ';
    }
}

/* Calls go to the MPI that is in the process already, whichever this was compiled for; with
 * handles of the other kind they crash. Sites' own names of a kind are not all known, so only the
 * other kind's are refused. */
static int check_library(char *why)
{
#ifdef OPEN_MPI
    static const char *const others[] = {"MPICH", "MVAPICH", "Intel(R) MPI"};
#else
    static const char *const others[] = {"Open MPI"};
#endif
    char text[VERSION_BYTES];
    int version = 0, subversion = 0;
    library_version(text);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strstr(text, others[i]) != NULL) {
            (void)snprintf(
                why, TUTTI_PLUGIN_WHY_BYTES,
                "this process has %.64s, but the plugin is for %s; set TUTTI_ENGINE=mpi, "
                "which selects the plugin for the MPI of the process",
                text, PLUGIN_PACKAGE);
            return TUTTI_ERR_MISMATCH;
        }
    }
    (void)MPI_Get_version(&version, &subversion);
    if (version < 3) {
        (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES,
                       "%.64s implements MPI %d.%d, without non-blocking collectives; use an MPI "
                       "of version 3 or later",
                       text, version, subversion);
        return TUTTI_ERR_UNSUPPORTED;
    }
    return TUTTI_OK;
}

int tt_mpi_start(char *why)
{
    int is_started = 0, is_over = 0, level = MPI_THREAD_SINGLE;
    const int status = check_library(why);
    if (status != TUTTI_OK) {
        return status;
    }
    (void)MPI_Finalized(&is_over);
    if (is_over) {
        return refuse(why, TUTTI_ERR_UNSUPPORTED,
                      "MPI was already finalised in this process and cannot start again; join "
                      "before MPI_Finalize");
    }
    (void)MPI_Initialized(&is_started);
    if (!is_started) {
        make_global();
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS) {
            return refuse(why, TUTTI_ERR_SYSTEM, "MPI_Init_thread failed");
        }
        process.owner = getpid();
        (void)atexit(finalize_at_exit);
    } else {
        (void)MPI_Query_thread(&level);
    }
    if (level < MPI_THREAD_SERIALIZED) {
        (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES,
                       "MPI was initialised with thread level %s, but Tutti calls it from several "
                       "threads in turn; %s MPI_Init_thread with MPI_THREAD_SERIALIZED or more, or "
                       "let Tutti initialise MPI",
                       level_name(level), is_started ? "call" : "this MPI must offer");
        return TUTTI_ERR_UNSUPPORTED;
    }
    return TUTTI_OK;
}

static int add_set(tutti_engine *engine, uint32_t id, MPI_Comm comm)
{
    mpi_set *sets = realloc(engine->sets, (size_t)(engine->set_count + 1) * sizeof(*sets));
    if (sets == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    engine->sets = sets;
    mpi_set made = {.id = id, .comm = comm, .rank = -1, .size = 0};
    if (comm != MPI_COMM_NULL) {
        (void)MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        (void)MPI_Comm_rank(comm, &made.rank);
        (void)MPI_Comm_size(comm, &made.size);
    }
    engine->sets[engine->set_count++] = made;
    return TUTTI_OK;
}

static int check_world(const tutti_plugin_host *host, const mpi_set *world, char *why)
{
    if ((host->size >= 0 && host->size != world->size) ||
        (host->rank >= 0 && host->rank != world->rank)) {
        (void)snprintf(why, TUTTI_PLUGIN_WHY_BYTES,
                       "this is rank %d of %d in MPI, but rank %d of %d of the job; start the "
                       "job with mpirun or srun --mpi=..., not with another launcher",
                       world->rank, world->size, host->rank, host->size);
        return TUTTI_ERR_MISMATCH;
    }
    return TUTTI_OK;
}

/* Where the job outlives a rank, a blocking call would wait for it for ever. The launcher sets
 * these variables to the same values on all ranks. */
static bool outlives_ranks(void)
{
    const char *recovery = getenv("OMPI_MCA_orte_enable_recovery");
    const char *cleanup = getenv("HYDRA_AUTO_CLEANUP");
    return (recovery != NULL && strchr("1tTyY", recovery[0]) != NULL && recovery[0] != '\0') ||
           (cleanup != NULL && strcmp(cleanup, "0") == 0);
}

/* Would a rank in a blocking call occupy the core of a rank that it waits for? Open MPI yields if
 * its launcher counts more ranks than cores; MPICH and its derivatives keep spinning. Called by
 * every member of `world` with the same result: blocking calls match only each other. */
static bool waits_in_the_way(MPI_Comm world)
{
#ifdef OPEN_MPI
    (void)world;
    return false;
#else
    MPI_Comm host = MPI_COMM_NULL;
    cpu_set_t cores;
    int is_here = 0, is_anywhere = 0, ranks = 0;
    CPU_ZERO(&cores);
    const bool is_known = sched_getaffinity(0, sizeof(cores), &cores) == 0;
    if (MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) == MPI_SUCCESS) {
        (void)MPI_Comm_size(host, &ranks);
        (void)MPI_Allreduce(MPI_IN_PLACE, &cores, (int)sizeof(cores), MPI_BYTE, MPI_BOR, host);
        (void)MPI_Comm_free(&host);
        is_here = is_known && ranks > CPU_COUNT(&cores);
    }
    (void)MPI_Allreduce(&is_here, &is_anywhere, 1, MPI_INT, MPI_MAX, world);
    return is_anywhere != 0;
#endif
}

/* Hydra reports a death to the other ranks by SIGUSR1, which would kill them by default. */
static void survive_news_of_deaths(void)
{
    struct sigaction action;
    if (getenv("HYDRA_AUTO_CLEANUP") != NULL && sigaction(SIGUSR1, NULL, &action) == 0 &&
        (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL) {
        action.sa_handler = SIG_IGN;
        (void)sigaction(SIGUSR1, &action, NULL);
    }
}

static int mpi_open(const tutti_plugin_host *host, tutti_engine **engine_out, char *why)
{
    MPI_Comm world = MPI_COMM_NULL;
    int status = tt_mpi_start(why);
    if (status != TUTTI_OK) {
        return status;
    }
    tutti_engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        return refuse(why, TUTTI_ERR_NO_MEMORY, "out of memory for the engine");
    }
    if (MPI_Comm_dup(MPI_COMM_WORLD, &world) != MPI_SUCCESS) {
        status = refuse(why, TUTTI_ERR_SYSTEM, "MPI_Comm_dup of the world failed");
    } else {
        status = add_set(engine, 0, world);
        engine->never_blocks = waits_in_the_way(world);
    }
    if (status == TUTTI_OK) {
        engine->world_size = engine->sets[0].size;
        status = check_world(host, &engine->sets[0], why);
    }
    if (status != TUTTI_OK) {
        free(engine->sets);
        free(engine);
        return status;
    }
    process.open++;
    if (outlives_ranks()) {
        engine->never_blocks = true;
        survive_news_of_deaths();
    }
    *engine_out = engine;
    return TUTTI_OK;
}

static void mpi_abort(tutti_engine *engine)
{
    engine->is_aborted = true;
    process.is_broken = true;
}

static void mpi_close(tutti_engine *engine)
{
    process.is_broken = process.is_broken || engine->count > 0;
    for (int i = 0; i < engine->set_count && !process.is_broken; i++) {
        if (engine->sets[i].comm != MPI_COMM_NULL) {
            (void)MPI_Comm_free(&engine->sets[i].comm);
        }
    }
    process.open--;
    if (engine->count > 0) {
        return; /* MPI still uses the memory of its ops */
    }
    free(engine->sets);
    free(engine->requests);
    free(engine->tokens);
    free(engine->copies);
    free(engine->indices);
    free(engine->statuses);
    free(engine);
}

static void mpi_describe(const tutti_engine *engine, char *text)
{
    char version[VERSION_BYTES];
    int level = 0;
    library_version(version);
    if (engine == NULL) { /* called before it was opened */
        (void)snprintf(text, TUTTI_PLUGIN_WHY_BYTES, "%.128s", version);
        return;
    }
    (void)MPI_Query_thread(&level);
    (void)snprintf(text, TUTTI_PLUGIN_WHY_BYTES, "%.128s, threads %s", version,
                   level == MPI_THREAD_MULTIPLE ? "multiple" : "serialized");
}

static int mpi_world(const tutti_engine *engine, int *rank_out, int *size_out)
{
    *rank_out = engine->sets[0].rank;
    *size_out = engine->sets[0].size;
    return TUTTI_OK;
}

static int mpi_broadcast(tutti_engine *engine, void *bytes, size_t count)
{
    return MPI_Bcast(bytes, (int)count, MPI_BYTE, 0, engine->sets[0].comm) == MPI_SUCCESS
               ? TUTTI_OK
               : TUTTI_ERR_SYSTEM;
}

static int mpi_set_create(tutti_engine *engine, uint32_t set, const int *ranks, int rank_count)
{
    MPI_Group all, members;
    MPI_Comm comm = MPI_COMM_NULL;
    if (MPI_Comm_group(engine->sets[0].comm, &all) != MPI_SUCCESS ||
        MPI_Group_incl(all, rank_count, ranks, &members) != MPI_SUCCESS ||
        MPI_Comm_create(engine->sets[0].comm, members, &comm) != MPI_SUCCESS) {
        return TUTTI_ERR_SYSTEM;
    }
    (void)MPI_Group_free(&members);
    (void)MPI_Group_free(&all);
    return add_set(engine, set, comm);
}

static void mpi_set_remove(tutti_engine *engine, uint32_t set)
{
    for (int i = 1; i < engine->set_count; i++) {
        if (engine->sets[i].id == set) {
            if (engine->sets[i].comm != MPI_COMM_NULL && !process.is_broken) {
                (void)MPI_Comm_free(&engine->sets[i].comm);
            }
            engine->sets[i] = engine->sets[--engine->set_count];
            return;
        }
    }
}

/* ---- types ---- */

static bool is_reduction(tutti_collective collective)
{
    return collective == TUTTI_ALLREDUCE || collective == TUTTI_REDUCE ||
           collective == TUTTI_REDUCESCATTER;
}

/* MPI_DATATYPE_NULL: MPI has no such type (halves), or another meaning of it (bool). */
static MPI_Datatype number_type(tutti_dtype dtype)
{
    switch (dtype) {
    case TUTTI_U8:
        return MPI_UINT8_T;
    case TUTTI_I8:
        return MPI_INT8_T;
    case TUTTI_U16:
        return MPI_UINT16_T;
    case TUTTI_I16:
        return MPI_INT16_T;
    case TUTTI_I32:
        return MPI_INT32_T;
    case TUTTI_I64:
        return MPI_INT64_T;
    case TUTTI_F32:
        return MPI_FLOAT;
    case TUTTI_F64:
        return MPI_DOUBLE;
    default:
        return MPI_DATATYPE_NULL;
    }
}

/* Where bytes are only moved, their width is enough. */
static MPI_Datatype moved_type(tutti_dtype dtype)
{
    const MPI_Datatype number = number_type(dtype);
    if (number != MPI_DATATYPE_NULL) {
        return number;
    }
    return dtype == TUTTI_BOOL ? MPI_UINT8_T : MPI_UINT16_T;
}

static MPI_Op operator_of(tutti_op op)
{
    switch (op) {
    case TUTTI_SUM:
    case TUTTI_AVERAGE:
        return MPI_SUM;
    case TUTTI_MIN:
        return MPI_MIN;
    case TUTTI_MAX:
        return MPI_MAX;
    case TUTTI_PRODUCT:
        return MPI_PROD;
    case TUTTI_AND:
        return MPI_BAND;
    case TUTTI_OR:
        return MPI_BOR;
    case TUTTI_XOR:
        return MPI_BXOR;
    case TUTTI_ADASUM: /* whole vectors: mpi_supports refuses it */
        break;
    }
    return MPI_OP_NULL;
}

static int mpi_supports(const tutti_engine *engine, const tutti_engine_op *op)
{
    if (op->device >= 0 || op->collective > TUTTI_ALLTOALL || op->op == TUTTI_ADASUM ||
        op->count > (uint64_t)(INT_MAX / engine->world_size)) {
        return 0;
    }
    if (!is_reduction(op->collective)) {
        return 1;
    }
    /* MPI does not define min and max with NaN, and MPICH 4.0 compares unsigned bytes as if they
     * were signed. */
    const bool is_order = op->op == TUTTI_MIN || op->op == TUTTI_MAX;
    const bool has_order = op->dtype == TUTTI_I8 || op->dtype == TUTTI_I16 ||
                           op->dtype == TUTTI_I32 || op->dtype == TUTTI_I64;
    return number_type(op->dtype) != MPI_DATATYPE_NULL && (has_order || !is_order);
}

/* ---- launching ---- */

static bool reserve(tutti_engine *engine)
{
    if (engine->count < engine->capacity) {
        return true;
    }
    const int capacity = engine->capacity > 0 ? 2 * engine->capacity : 64;
    const size_t room = (size_t)capacity;
    void *requests = realloc(engine->requests, room * sizeof(*engine->requests));
    engine->requests = requests != NULL ? requests : engine->requests;
    void *tokens = realloc(engine->tokens, room * sizeof(*engine->tokens));
    engine->tokens = tokens != NULL ? tokens : engine->tokens;
    void *copies = realloc(engine->copies, room * sizeof(*engine->copies));
    engine->copies = copies != NULL ? copies : engine->copies;
    void *indices = realloc(engine->indices, room * sizeof(*engine->indices));
    engine->indices = indices != NULL ? indices : engine->indices;
    void *statuses = realloc(engine->statuses, room * sizeof(*engine->statuses));
    engine->statuses = statuses != NULL ? statuses : engine->statuses;
    if (requests == NULL || tokens == NULL || copies == NULL || indices == NULL ||
        statuses == NULL) {
        return false;
    }
    engine->capacity = capacity;
    return true;
}

/* A call to MPI, as its arguments. */
typedef struct mpi_call {
    const void *input;
    void *output;
    int count, root;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Comm comm;
} mpi_call;

static int run_blocking(tutti_collective collective, const mpi_call *call)
{
    const int n = call->count;
    switch (collective) {
    case TUTTI_ALLREDUCE:
        return MPI_Allreduce(call->input, call->output, n, call->type, call->op, call->comm);
    case TUTTI_REDUCE:
        return MPI_Reduce(call->input, call->output, n, call->type, call->op, call->root,
                          call->comm);
    case TUTTI_BROADCAST:
        return MPI_Bcast(call->output, n, call->type, call->root, call->comm);
    case TUTTI_ALLGATHER:
        return MPI_Allgather(call->input, n, call->type, call->output, n, call->type, call->comm);
    case TUTTI_GATHER:
        return MPI_Gather(call->input, n, call->type, call->output, n, call->type, call->root,
                          call->comm);
    case TUTTI_SCATTER:
        return MPI_Scatter(call->input, n, call->type, call->output, n, call->type, call->root,
                           call->comm);
    case TUTTI_REDUCESCATTER:
        return MPI_Reduce_scatter_block(call->input, call->output, n, call->type, call->op,
                                        call->comm);
    case TUTTI_ALLTOALL:
        return MPI_Alltoall(call->input, n, call->type, call->output, n, call->type, call->comm);
    default:
        return MPI_ERR_OP;
    }
}

static int run_started(tutti_collective collective, const mpi_call *call, MPI_Request *request)
{
    const int n = call->count;
    switch (collective) {
    case TUTTI_ALLREDUCE:
        return MPI_Iallreduce(call->input, call->output, n, call->type, call->op, call->comm,
                              request);
    case TUTTI_REDUCE:
        return MPI_Ireduce(call->input, call->output, n, call->type, call->op, call->root,
                           call->comm, request);
    case TUTTI_BROADCAST:
        return MPI_Ibcast(call->output, n, call->type, call->root, call->comm, request);
    case TUTTI_ALLGATHER:
        return MPI_Iallgather(call->input, n, call->type, call->output, n, call->type, call->comm,
                              request);
    case TUTTI_GATHER:
        return MPI_Igather(call->input, n, call->type, call->output, n, call->type, call->root,
                           call->comm, request);
    case TUTTI_SCATTER:
        return MPI_Iscatter(call->input, n, call->type, call->output, n, call->type, call->root,
                            call->comm, request);
    case TUTTI_REDUCESCATTER:
        return MPI_Ireduce_scatter_block(call->input, call->output, n, call->type, call->op,
                                         call->comm, request);
    case TUTTI_ALLTOALL:
        return MPI_Ialltoall(call->input, n, call->type, call->output, n, call->type, call->comm,
                             request);
    default:
        return MPI_ERR_OP;
    }
}

static size_t width_of(tutti_dtype dtype)
{
    switch (dtype) {
    case TUTTI_U8:
    case TUTTI_I8:
    case TUTTI_BOOL:
        return 1;
    case TUTTI_I32:
    case TUTTI_F32:
        return 4;
    case TUTTI_I64:
    case TUTTI_F64:
        return 8;
    default:
        return 2;
    }
}

/* Bytes of the input and of the output on this rank; 0 where it has none. */
static void lengths(const tutti_engine_op *op, const mpi_set *set, size_t *in_out, size_t *out_out)
{
    const size_t one = (size_t)op->count * width_of(op->dtype);
    const size_t all = one * (size_t)set->size;
    const bool is_root = op->root == set->rank;
    *in_out = *out_out = one;
    switch (op->collective) {
    case TUTTI_REDUCE:
        *out_out = is_root ? one : 0;
        break;
    case TUTTI_ALLGATHER:
        *out_out = all;
        break;
    case TUTTI_GATHER:
        *out_out = is_root ? all : 0;
        break;
    case TUTTI_SCATTER:
        *in_out = is_root ? all : 0;
        break;
    case TUTTI_REDUCESCATTER:
        *in_out = all;
        break;
    case TUTTI_ALLTOALL:
        *in_out = *out_out = all;
        break;
    default:
        break;
    }
}

/* MPI forbids buffers that overlap, except by MPI_IN_PLACE, which does not exist for every layout:
 * then the input is copied. False: no memory. */
static bool set_buffers(const tutti_engine_op *op, const mpi_set *set, mpi_call *call,
                        void **copy_out)
{
    const char *input = op->input;
    const char *output = op->output;
    size_t input_bytes, output_bytes;
    lengths(op, set, &input_bytes, &output_bytes);
    call->input = op->input;
    call->output = op->output;
    if (op->collective == TUTTI_BROADCAST) {
        if (op->root == set->rank && input != output && input != NULL) {
            memcpy(op->output, input, input_bytes);
        }
        return true;
    }
    const bool overlaps = input != NULL && output != NULL && output_bytes > 0 && input_bytes > 0 &&
                          input < output + output_bytes && output < input + input_bytes;
    if (!overlaps) {
        return true;
    }
    if (op->collective == TUTTI_ALLREDUCE && input == output) {
        call->input = MPI_IN_PLACE;
        return true;
    }
    *copy_out = malloc(input_bytes);
    if (*copy_out == NULL) {
        return false;
    }
    memcpy(*copy_out, input, input_bytes);
    call->input = *copy_out;
    return true;
}

static int mpi_launch(tutti_engine *engine, const tutti_engine_op *op, uint64_t token)
{
    const mpi_set *set = NULL;
    for (int i = 0; i < engine->set_count; i++) {
        set = engine->sets[i].id == op->set ? &engine->sets[i] : set;
    }
    mpi_call call = {.count = (int)op->count, .root = op->root};
    void *copy = NULL;
    if (set == NULL || engine->is_aborted) {
        return TUTTI_ERR_UNSUPPORTED;
    }
    if (!reserve(engine) || !set_buffers(op, set, &call, &copy)) {
        return TUTTI_ERR_NO_MEMORY;
    }
    call.comm = set->comm;
    call.type = is_reduction(op->collective) ? number_type(op->dtype) : moved_type(op->dtype);
    call.op = operator_of(op->op);
    if ((op->flags & TUTTI_LAUNCH_MAY_BLOCK) != 0 && !engine->never_blocks) {
        const int code = run_blocking(op->collective, &call);
        free(copy);
        return code == MPI_SUCCESS ? TUTTI_OK : TUTTI_ERR_SYSTEM;
    }
    if (run_started(op->collective, &call, &engine->requests[engine->count]) != MPI_SUCCESS) {
        free(copy);
        return TUTTI_ERR_SYSTEM;
    }
    engine->tokens[engine->count] = token;
    engine->copies[engine->count++] = copy;
    return TUTTI_IN_PROGRESS;
}

static int mpi_test(tutti_engine *engine, uint64_t *tokens, int *statuses, int capacity)
{
    int done = 0;
    if (engine->count == 0 || engine->is_aborted) {
        return 0;
    }
    const int asked = engine->count < capacity ? engine->count : capacity;
    const int code =
        MPI_Testsome(asked, engine->requests, &done, engine->indices, engine->statuses);
    if (done == MPI_UNDEFINED || (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)) {
        return 0;
    }
    for (int i = 0; i < done; i++) {
        const int at = engine->indices[i];
        const bool is_good = code == MPI_SUCCESS || engine->statuses[i].MPI_ERROR == MPI_SUCCESS;
        tokens[i] = engine->tokens[at];
        statuses[i] = is_good ? TUTTI_OK : TUTTI_ERR_SYSTEM;
        free(engine->copies[at]);
        engine->copies[at] = NULL;
    }
    int kept = 0;
    for (int i = 0; i < engine->count; i++) { /* those that ended are MPI_REQUEST_NULL now */
        if (engine->requests[i] != MPI_REQUEST_NULL) {
            engine->requests[kept] = engine->requests[i];
            engine->tokens[kept] = engine->tokens[i];
            engine->copies[kept++] = engine->copies[i];
        }
    }
    engine->count = kept;
    return done;
}

static int mpi_descriptor(const tutti_engine *engine)
{
    (void)engine;
    return -1;
}

static const tutti_engine_ops mpi_ops = {
    .struct_bytes = sizeof(tutti_engine_ops),
    .flags = TUTTI_ENGINE_SAME_ORDER | TUTTI_ENGINE_BOOTSTRAPS,
    .thread_level = TUTTI_THREAD_SERIALIZED,
    .open = mpi_open,
    .close = mpi_close,
    .describe = mpi_describe,
    .world = mpi_world,
    .broadcast = mpi_broadcast,
    .supports = mpi_supports,
    .set_create = mpi_set_create,
    .set_remove = mpi_set_remove,
    .launch = mpi_launch,
    .test = mpi_test,
    .descriptor = mpi_descriptor,
    .abort = mpi_abort,
};

TUTTI_PLUGIN_DEFINE = {
    .abi = TUTTI_PLUGIN_ABI,
    .struct_bytes = sizeof(tutti_plugin),
    .name = PLUGIN_NAME,
    .tag = PLUGIN_TAG,
    .summary = "collectives of the site's MPI",
    .package = PLUGIN_PACKAGE,
    .engine = &mpi_ops,
    .transport = &tt_mpi_links,
};
