/* SPDX-License-Identifier: Apache-2.0
 *
 * command_bench.c - `tutti bench`: time collectives over a range of sizes and check every result.
 *
 * Without a launcher in the environment it restarts itself as the ranks of a job. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/bench/bench.h"
#include "cli/buffer.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/library.h"
#include "cli/run/launcher.h"
#include "cli/self.h"
#include "cli/stopwatch.h"
#include "kernel/dtype.h"
#include "kernel/reduce.h"

enum { EXIT_USAGE = 2, ARGUMENT_BYTES_MAX = 1 << 16, ARGUMENT_COUNT_MAX = 256 };
enum { ITERATIONS_MIN = 20, ITERATIONS_MAX = 5000 };

static const double MEASURE_S = 0.02;

typedef struct bench_values {
    int64_t rank_count;
    uint64_t bytes_min;
    uint64_t bytes_max;
    int64_t factor;
    int dtype;
    int op;
    bool is_arena;
    bool is_foreign;
    bool is_in_place;
    bool is_touched;
    bool has_model;
    int transport;
    const char *engine;
    const char *json_path;
    int64_t iteration_count;
    int64_t warmup_count;
} bench_values;

#define AT(member) offsetof(bench_values, member)

static const char *const transports[] = {"auto", "shm", "tcp"};

static const tt_option options[] = {
    {'n', "ranks", TT_OPTION_INT, AT(rank_count), "N",
     "ranks to start, unless a launcher did; default: one for each core, at least 2", NULL, NULL,
     "-np --np", 1, 4096},
    {'b', "min", TT_OPTION_BYTES, AT(bytes_min), "BYTES", "smallest size", "8", NULL, "--minbytes",
     0, 0},
    {'e', "max", TT_OPTION_BYTES, AT(bytes_max), "BYTES", "largest size", "64M", NULL, "--maxbytes",
     0, 0},
    {'f', "factor", TT_OPTION_INT, AT(factor), "N", "ratio of successive sizes", "2", NULL,
     "--stepfactor", 2, 1 << 20},
    {'d', "dtype", TT_OPTION_CHOICE, AT(dtype), NULL, "element type", "f32",
     "u8|i8|u16|i16|i32|i64|f16|bf16|f32|f64|bool", "--datatype", 0, 0},
    {'o', "op", TT_OPTION_CHOICE, AT(op), NULL, "reduction", "sum",
     "sum|average|min|max|product|and|or|xor", NULL, 0, 0},
    {'\0', "arena", TT_OPTION_FLAG, AT(is_arena), NULL,
     "buffers from tutti_alloc, shared on a host (the default)", NULL, NULL, NULL, 0, 0},
    {'\0', "foreign", TT_OPTION_FLAG, AT(is_foreign), NULL, "buffers from malloc", NULL, NULL, NULL,
     0, 0},
    {'\0', "in-place", TT_OPTION_FLAG, AT(is_in_place), NULL,
     "output over input (allreduce, alltoall)", NULL, NULL, NULL, 0, 0},
    {'\0', "touch", TT_OPTION_FLAG, AT(is_touched), NULL,
     "rewrite the buffers before each timed call, as a backward pass does", NULL, NULL, NULL, 0, 0},
    {'\0', "model", TT_OPTION_FLAG, AT(has_model), NULL,
     "also show the algorithm and the time that the table of costs predicts", NULL, NULL, NULL, 0,
     0},
    {'\0', "transport", TT_OPTION_CHOICE, AT(transport), NULL, "transport between ranks", "auto",
     "auto|shm|tcp", NULL, 0, 0},
    {'\0', "engine", TT_OPTION_STRING, AT(engine), "NAME",
     "outside engine for the collectives: mpi (uses mpirun), or a plugin's name", NULL, NULL, NULL,
     0, 0},
    {'\0', "json", TT_OPTION_STRING, AT(json_path), "FILE", "also write one JSON object per size",
     NULL, NULL, "-J", 0, 0},
    {'i', "iterations", TT_OPTION_INT, AT(iteration_count), "N",
     "timed calls per size; default: as many as take 20 ms, 20 to 5000", NULL, NULL, "--iters", 1,
     1000000},
    {'w', "warmup", TT_OPTION_INT, AT(warmup_count), "N", "untimed calls per size", "5", NULL,
     "--warmup-iters --warmup_iters", 0, 1000000},
};

#define TRY(call)                            \
    do {                                     \
        const tutti_status status_ = (call); \
        if (status_ != TUTTI_OK) {           \
            return status_;                  \
        }                                    \
    } while (0)

/* Seconds of one call on this rank. */
static tutti_status time_call(tt_bench_case *item, double *time_s_out)
{
    if (item->plan->is_touched) {
        tt_bench_fill(item);
        TRY(tutti_barrier(item->plan->context));
    }
    const double start = tt_stopwatch_now_s();
    TRY(tt_bench_call(item));
    *time_s_out = tt_stopwatch_now_s() - start;
    return TUTTI_OK;
}

/* As given, or enough to outlast a job's first milliseconds, in which the kernel still migrates its
 * ranks between cores; the same on all ranks. */
static tutti_status choose_iterations(tt_bench_case *item, double call_s)
{
    item->iteration_count = item->plan->iteration_count;
    if (item->iteration_count == 0) {
        TRY(tutti_allreduce(item->plan->context, &call_s, &call_s, 1, TUTTI_F64, TUTTI_MAX));
        item->iteration_count = (int)fmin(fmax(MEASURE_S / call_s, ITERATIONS_MIN), ITERATIONS_MAX);
    }
    return TUTTI_OK;
}

static tutti_status time_calls(tt_bench_case *item, double *times)
{
    const int least = item->plan->iteration_count == 0 ? 1 : 0; /* to choose the iterations by */
    const int warmup_count = item->plan->warmup_count > least ? item->plan->warmup_count : least;
    double last_s = 0;
    for (int i = 0; i < warmup_count; i++) {
        TRY(time_call(item, &last_s));
    }
    TRY(choose_iterations(item, last_s));
    for (int i = 0; i < item->iteration_count; i++) {
        TRY(time_call(item, &times[i]));
    }
    return TUTTI_OK;
}

/* Fresh data, one call, every element compared; the count is summed over the ranks. */
static tutti_status count_wrong(tt_bench_case *item, uint64_t *wrong_count_out)
{
    tt_bench_fill(item);
    TRY(tutti_barrier(item->plan->context));
    TRY(tt_bench_call(item));
    int64_t wrong_count = (int64_t)tt_bench_check(item);
    TRY(tutti_allreduce(item->plan->context, &wrong_count, &wrong_count, 1, TUTTI_I64, TUTTI_SUM));
    *wrong_count_out = (uint64_t)wrong_count;
    return TUTTI_OK;
}

static tutti_status measure(tt_bench_case *item, double *times, tt_bench_result *result_out)
{
    const tt_bench_plan *plan = item->plan;
    tt_bench_fill(item);
    TRY(tutti_barrier(plan->context));
    TRY(time_calls(item, times));
    TRY(tutti_allreduce(plan->context, times, times, (uint64_t)item->iteration_count, TUTTI_F64,
                        TUTTI_MAX));
    result_out->time_s = tt_stopwatch_median(times, (size_t)item->iteration_count);
    result_out->algorithm_bandwidth =
        result_out->time_s > 0 ? (double)item->bytes / result_out->time_s : 0;
    result_out->bus_bandwidth =
        result_out->algorithm_bandwidth * tt_bench_bus_factor(plan->collective, plan->size);
    const tt_library_model model =
        plan->collective == TUTTI_SEND /* of pairs, which the table of costs leaves out */
            ? (tt_library_model){.algorithm = "none"}
            : tt_library_predict(plan->context, plan->collective,
                                 item->count * tutti_dtype_bytes(plan->dtype));
    result_out->algorithm = model.algorithm;
    result_out->model_s = model.time_s;
    return count_wrong(item, &result_out->wrong_count);
}

typedef struct sweep {
    FILE *json;
    double *times;
    double bus_bandwidth_sum;
    uint64_t wrong_count;
    int case_count;
} sweep;

static tutti_status run_size(const tt_bench_plan *plan, uint64_t bytes, sweep *totals)
{
    tt_bench_case item;
    tt_bench_result result = {0};
    TRY(tt_bench_open(&item, plan, bytes));
    const tutti_status status = measure(&item, totals->times, &result);
    if (status == TUTTI_OK && plan->rank == 0) {
        tt_bench_print_row(&item, &result);
    }
    if (status == TUTTI_OK && totals->json != NULL) {
        tt_bench_print_json(totals->json, &item, &result);
    }
    tt_bench_close(&item);
    totals->bus_bandwidth_sum += result.bus_bandwidth;
    totals->wrong_count += result.wrong_count;
    totals->case_count++;
    return status;
}

static tutti_status run_sizes(const tt_bench_plan *plan, const bench_values *values, sweep *totals)
{
    const uint64_t factor = (uint64_t)values->factor;
    uint64_t bytes = values->bytes_min;
    if (plan->collective == TUTTI_BARRIER) {
        return run_size(plan, 0, totals);
    }
    while (bytes <= values->bytes_max) {
        TRY(run_size(plan, bytes, totals));
        if (bytes > UINT64_MAX / factor) {
            break;
        }
        bytes = bytes > 0 ? bytes * factor : 1;
    }
    return TUTTI_OK;
}

static int run_bench(const tt_bench_plan *plan, const bench_values *values)
{
    const int times_max = plan->iteration_count > 0 ? plan->iteration_count : ITERATIONS_MAX;
    sweep totals = {.times = tt_cli_allocate((size_t)times_max, sizeof(double))};
    if (plan->rank == 0 && values->json_path != NULL) {
        totals.json = fopen(values->json_path, "we");
        if (totals.json == NULL) {
            fprintf(stderr, "tutti bench: cannot write %s: %s\n", values->json_path,
                    strerror(errno));
            free(totals.times);
            return 1;
        }
    }
    if (plan->rank == 0) {
        tt_bench_print_header(plan);
    }
    const tutti_status status = run_sizes(plan, values, &totals);
    if (status != TUTTI_OK) {
        fprintf(stderr, "tutti bench: rank %d: %s: %s\n", plan->rank, tutti_status_text(status),
                tutti_last_error(plan->context));
    } else if (plan->rank == 0) {
        tt_bench_print_footer(totals.case_count > 0 ? totals.bus_bandwidth_sum / totals.case_count
                                                    : 0,
                              totals.wrong_count);
    }
    if (totals.json != NULL) {
        fclose(totals.json);
    }
    free(totals.times);
    return status != TUTTI_OK || totals.wrong_count > 0 ? 1 : 0;
}

static int join_and_run(const bench_values *values, tutti_collective collective)
{
    tutti_options job_options = TUTTI_OPTIONS_INIT;
    tutti_context *context;
    if (values->transport != 0) {
        job_options.transport = transports[values->transport];
    }
    if (tutti_init(&job_options, &context) != TUTTI_OK) {
        fprintf(stderr, "tutti bench: %s\n", tutti_last_error(NULL));
        return 1;
    }
    const tt_bench_plan plan = {.context = context,
                                .collective = collective,
                                .dtype = (tutti_dtype)values->dtype,
                                .op = (tutti_op)values->op,
                                .rank = tutti_rank(context),
                                .size = tutti_size(context),
                                .host_count = tutti_cross_size(context),
                                .iteration_count = (int)values->iteration_count,
                                .warmup_count = (int)values->warmup_count,
                                .is_foreign = values->is_foreign,
                                .is_in_place = values->is_in_place,
                                .is_touched = values->is_touched,
                                .has_model = values->has_model,
                                .transport = transports[values->transport]};
    int code = EXIT_USAGE;
    if (collective == TUTTI_SEND && plan.size < 2) {
        fputs("tutti bench: sendrecv needs two ranks or more; give -n 2\n", stderr);
    } else {
        code = run_bench(&plan, values);
    }
    const tutti_status status = tutti_shutdown(context);
    return code != 0 ? code : status != TUTTI_OK;
}

/* The arguments this process was started with, as the kernel keeps them: the parser has moved
 * those in argv. Cuts `text` into words. */
static bool read_own_arguments(char *text, char **words)
{
    const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd >= 0 ? read(fd, text, ARGUMENT_BYTES_MAX) : -1;
    if (fd >= 0) {
        close(fd);
    }
    size_t count = 0;
    for (ssize_t start = 0; start < bytes && count < ARGUMENT_COUNT_MAX - 1;
         start += (ssize_t)strlen(text + start) + 1) {
        words[count++] = text + start;
    }
    words[count] = NULL;
    return bytes > 0 && bytes < ARGUMENT_BYTES_MAX && count > 1;
}

static int core_count(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* MPI knows its ranks only if its own mpirun started them. Returns only on failure. */
static int become_mpirun(const bench_values *values, char **words, int rank_count)
{
    enum { MPIRUN_WORDS = 8 };
    char count[16];
    char *all[ARGUMENT_COUNT_MAX + MPIRUN_WORDS];
    size_t used = 0;
    const char *name = strcmp(values->engine, "mpi") == 0 ? tt_library_mpi() : values->engine;
    const bool is_open = strcmp(name, "mpi-openmpi") == 0;
    (void)snprintf(count, sizeof(count), "%d", rank_count);
    all[used++] = is_open ? "mpirun.openmpi" : "mpirun.mpich";
    if (is_open) {
        all[used++] = "--oversubscribe";
    }
    if (is_open && geteuid() == 0) {
        all[used++] = "--allow-run-as-root";
    }
    all[used++] = "-n";
    all[used++] = count;
    for (size_t i = 0; words[i] != NULL; i++) {
        all[used++] = words[i];
    }
    all[used] = NULL;
    (void)execvp(all[0], all);
    all[0] = "mpirun";
    (void)execvp(all[0], all);
    fprintf(stderr, "tutti bench: cannot run mpirun: %s; install the MPI of plugin %s\n",
            strerror(errno), name);
    return 1;
}

static int launch_self(const bench_values *values)
{
    char path[4096];
    (void)tt_self_path(path, sizeof(path));
    char *text = tt_cli_allocate(ARGUMENT_BYTES_MAX, 1);
    char *words[ARGUMENT_COUNT_MAX];
    const int cores = core_count();
    const int rank_count = values->rank_count > 0 ? (int)values->rank_count : cores > 2 ? cores : 2;
    tt_hosts hosts = {.slots_default = rank_count};
    int code = 1;
    if (path[0] == '\0' || !read_own_arguments(text, words) ||
        tt_hosts_parse_list(&hosts, "localhost", NULL, 0) != TT_OK) {
        fputs("tutti bench: cannot restart itself as ranks; use: tutti run -n 4 tutti bench ...\n",
              stderr);
    } else if (values->engine != NULL && strncmp(values->engine, "mpi", 3) == 0) {
        words[0] = path;
        code = become_mpirun(values, words, rank_count);
    } else {
        words[0] = path;
        code = tt_launcher_run(&(tt_launcher){.title = "tutti bench",
                                              .hosts = &hosts,
                                              .rank_count = rank_count,
                                              .program = words,
                                              .rsh = "",
                                              .start_timeout_s = 60,
                                              .grace_s = 1,
                                              .is_quiet = true});
    }
    tt_hosts_fini(&hosts);
    free(text);
    return code;
}

static int run(const void *raw_values, int operand_count, char **operands)
{
    const bench_values *values = raw_values;
    tutti_collective collective;
    if (operand_count != 1 || !tt_bench_find(operands[0], &collective)) {
        fputs("tutti bench: no known collective; give one of allreduce, broadcast, allgather, "
              "reducescatter, alltoall, sendrecv, barrier\n",
              stderr);
        return EXIT_USAGE;
    }
    if (tt_bench_reduces(collective) &&
        !tt_redop_allowed((tt_dtype)values->dtype, (tt_redop)values->op)) {
        fprintf(stderr, "tutti bench: %s is not defined for %s; choose another --op or --dtype\n",
                tt_redop_name((tt_redop)values->op), tt_dtype_name((tt_dtype)values->dtype));
        return EXIT_USAGE;
    }
    if (values->bytes_min > values->bytes_max) {
        fprintf(stderr,
                "tutti bench: --min %" PRIu64 " is larger than --max %" PRIu64
                "; lower one or raise the other\n",
                values->bytes_min, values->bytes_max);
        return EXIT_USAGE;
    }
    if (values->is_arena && values->is_foreign) {
        fputs("tutti bench: --arena and --foreign exclude each other; leave one out\n", stderr);
        return EXIT_USAGE;
    }
    if (values->is_in_place && collective != TUTTI_ALLREDUCE && collective != TUTTI_BROADCAST &&
        collective != TUTTI_ALLTOALL) {
        fprintf(stderr, "tutti bench: %s has no in-place form; leave out --in-place\n",
                operands[0]);
        return EXIT_USAGE;
    }
    tt_library_place place;
    if (values->engine != NULL) {
        tt_environment changed;
        tt_environment_init(&changed);
        tt_environment_set(&changed, "TUTTI_ENGINE", values->engine);
        tt_environment_install(tt_environment_adopt(&changed));
    }
    tt_library_place_find(&place);
    return place.is_launched ? join_and_run(values, collective) : launch_self(values);
}

static const tt_command_note environment[] = {
    {"TUTTI_*", "As in any job; for example TUTTI_ALGORITHM=ring."},
    {"variables of launchers",
     "If a launcher started this process, it is a rank of that job; otherwise bench starts ranks."},
    {NULL, NULL},
};

static const tt_command_note exit_status[] = {
    {"0", "Every element was correct."},
    {"1", "An element was wrong, or a call failed."},
    {"2", "Wrong usage."},
    {NULL, NULL},
};

static const tt_command_note examples[] = {
    {"tutti bench -n 2 allreduce", "Two ranks on this host, from 8 bytes to 64 MiB:"},
    {"tutti run -H node1:1,node2:1 tutti bench allreduce -b 1M -e 1G", "Between two hosts:"},
    {"tutti bench -n 4 allreduce --touch --json result.json",
     "As after a backward pass, saved as JSON:"},
    {NULL, NULL},
};

const tt_command tt_command_bench = {
    .name = "bench",
    .summary = "Time a collective over a range of sizes and check its results.",
    .operands = "allreduce|broadcast|allgather|reducescatter|alltoall|sendrecv|barrier",
    .operand_max = 1,
    .description =
        "Prints one line per size in the columns of nccl-tests; busbw is computed by its formulas, "
        "so numbers can be compared. The time is the median over the iterations of the slowest "
        "rank's time. After the timed calls one more is made on fresh data and every element is "
        "compared on every rank; #wrong counts those that differ.\n\n"
        "sendrecv: every rank sends to the next one and receives from the one before, at the same "
        "time, as in nccl-tests. barrier: one line, without data. For a file of tutti cluster, "
        "measure both with --json, and allreduce on one host.",
    .options = options,
    .option_count = TT_ARRAY_COUNT(options),
    .values_bytes = sizeof(bench_values),
    .environment = environment,
    .exit_status = exit_status,
    .examples = examples,
    .run = run,
};
