/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of the MPI engine goes: the same sums in several ways, in turns, in one process,
 * with the time inside MPI's function taken apart from the time around it.
 *
 * usage: mpirun -n N PROGRAM ROUNDS BYTES|small|all...
 * BYTES: one in-place sum of floats; small, all: ResNet50's 109 tensors under 64 KB, all 161.
 *   direct    MPI called by this program
 *   again     the same once more: what the measurement itself is worth
 *   exchange  (BYTES) a sum of one byte by MPI before each: the least that agreeing costs
 *   replay    (tensors) MPI called by this program as the engine called it: same order, same bundle
 *   engine    tutti_allreduce, or one group, with TUTTI_ENGINE=mpi
 * Prints "WHAT WAY us over_us low high outside_us blocking started switches": the median of the
 * slowest rank's time; the median and the quartiles of what each round has over its direct; on
 * rank 0, of one step, the median time outside MPI's function, the calls of it that blocked and
 * that did not, and how often the process was switched away, all rounds together. */
#include <mpi.h>
#include <string.h>
#include <sys/resource.h>

#include "bench/common/median.h"
#include "model.h"

enum { ROUNDS_MAX = 500, CALLS_MAX = 1000, RECORD_MAX = 512, WAYS = 4 };
static const double SAMPLE_S = 0.004; /* a sample has as many steps as fit, two at least */

/* What went through MPI's function; of a step of the engine, in order. */
static struct {
    double inside_s;
    int blocking, started;
    bool is_recording;
    int count;
    float *buffers[RECORD_MAX];
    int counts[RECORD_MAX];
} seen;

static void record(void *buffer, int count)
{
    if (seen.is_recording && seen.count < RECORD_MAX) {
        seen.buffers[seen.count] = buffer;
        seen.counts[seen.count++] = count;
    }
}

int MPI_Allreduce(const void *input, void *output, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    const double start = MPI_Wtime();
    const int code = PMPI_Allreduce(input, output, count, type, op, comm);
    seen.inside_s += MPI_Wtime() - start;
    seen.blocking++;
    record(output, count);
    return code;
}

int MPI_Iallreduce(const void *input, void *output, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    seen.started++;
    record(output, count);
    return PMPI_Iallreduce(input, output, count, type, op, comm, request);
}

/* ---- ways ---- */

static MPI_Comm comm;
static float *spare; /* for bundles, which lie in memory that is not ours */

static void sum(float *buffer, int count)
{
    (void)MPI_Allreduce(MPI_IN_PLACE, buffer, count, MPI_FLOAT, MPI_SUM, comm);
}

static void step_direct(const model *self)
{
    for (int i = 0; i < self->count; i++) {
        (void)MPI_Allreduce(MPI_IN_PLACE, self->calls[i].output, (int)self->calls[i].count,
                            MPI_FLOAT, MPI_SUM, comm);
    }
}

static void step_exchange(const model *self)
{
    unsigned char byte = 1;
    (void)PMPI_Allreduce(MPI_IN_PLACE, &byte, 1, MPI_UNSIGNED_CHAR, MPI_BAND, comm);
    step_direct(self);
}

static void step_replay(const model *self)
{
    (void)self; /* all of it was seen */
    for (int i = 0; i < seen.count; i++) {
        sum(seen.buffers[i], seen.counts[i]);
    }
}

static void step_call(const model *self)
{
    const tutti_call *call = &self->calls[0];
    if (tutti_allreduce(self->context, call->output, call->output, call->count, TUTTI_F32,
                        TUTTI_SUM) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error(self->context));
        exit(1);
    }
}

/* How the engine calls MPI for one group: the same on all ranks. */
static void learn(const model *self)
{
    seen.count = 0;
    seen.is_recording = true;
    step_engine(self);
    seen.is_recording = false;
    for (int i = 0; i < seen.count; i++) {
        bool is_ours = false;
        for (int j = 0; j < self->count; j++) {
            is_ours = is_ours || seen.buffers[i] == self->calls[j].output;
        }
        seen.buffers[i] = is_ours ? seen.buffers[i] : spare;
    }
}

/* ---- samples ---- */

typedef struct way {
    const char *name;
    void (*step)(const model *);
    double slowest_s[ROUNDS_MAX], outside_s[ROUNDS_MAX];
    int blocking, started, steps;
    long switches;
} way;

static long switches(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw + usage.ru_nivcsw;
}

static void sample(const model *self, way *one, int round, int steps)
{
    double slowest;
    one->step(self);
    (void)MPI_Barrier(comm);
    memset(&seen, 0, offsetof(__typeof__(seen), is_recording));
    const long before = switches();
    const double start = MPI_Wtime();
    for (int i = 0; i < steps; i++) {
        one->step(self);
    }
    const double mine = (MPI_Wtime() - start) / steps;
    one->switches += switches() - before;
    one->outside_s[round] = mine - seen.inside_s / steps;
    one->blocking += seen.blocking;
    one->started += seen.started;
    one->steps += steps;
    (void)PMPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, comm);
    one->slowest_s[round] = slowest;
}

static double at(double *values, int rounds, int quarter)
{
    bench_sort(values, (size_t)rounds);
    return values[rounds * quarter / 4] * 1e6;
}

static void print(const char *what, const way *direct, way *one, int rounds)
{
    double over[ROUNDS_MAX], times[ROUNDS_MAX];
    for (int i = 0; i < rounds; i++) {
        times[i] = one->slowest_s[i];
        over[i] = one->slowest_s[i] - direct->slowest_s[i];
    }
    const double low = at(over, rounds, 1), middle = at(over, rounds, 2),
                 high = at(over, rounds, 3);
    (void)printf("%s %s %.2f %.2f %.2f %.2f %.2f %.1f %.2f %ld\n", what, one->name,
                 at(times, rounds, 2), middle, low, high, at(one->outside_s, rounds, 2),
                 (double)one->blocking / one->steps, (double)one->started / one->steps,
                 one->switches);
    (void)fflush(stdout);
}

static void run(const model *self, const char *what, int rounds, int rank)
{
    static way ways[WAYS];
    const bool is_group = self->count > 1;
    memset(ways, 0, sizeof(ways));
    ways[0].name = "direct", ways[0].step = step_direct;
    ways[1].name = "again", ways[1].step = step_direct;
    ways[2].name = is_group ? "replay" : "exchange";
    ways[2].step = is_group ? step_replay : step_exchange;
    ways[3].name = "engine", ways[3].step = is_group ? step_engine : step_call;
    for (int i = 0; i < 3; i++) { /* until memory is touched and the names are cached */
        sample(self, &ways[0], 0, 3);
        sample(self, &ways[3], 0, 3);
    }
    if (is_group) {
        learn(self);
    }
    const double steps = SAMPLE_S / ways[0].slowest_s[0];
    int count = steps < 2 ? 2 : steps > CALLS_MAX ? CALLS_MAX : (int)steps;
    (void)MPI_Bcast(&count, 1, MPI_INT, 0, comm);
    for (int i = 0; i < WAYS; i++) {
        ways[i].blocking = ways[i].started = ways[i].steps = 0;
        ways[i].switches = 0;
    }
    for (int i = 0; i < rounds; i++) { /* each is first in a quarter of the rounds */
        for (int j = 0; j < WAYS; j++) {
            sample(self, &ways[(i + j) % WAYS], i, count);
        }
    }
    for (int i = 0; i < WAYS && rank == 0; i++) {
        print(what, &ways[0], &ways[i], rounds);
    }
}

int main(int count, char **words)
{
    static model self;
    int level, rank;
    const int rounds = count > 1 ? atoi(words[1]) : 15;
    (void)MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    spare = calloc((size_t)16 << 20, 1);
    if (rounds < 1 || rounds > ROUNDS_MAX || spare == NULL ||
        tutti_init(NULL, &self.context) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error(NULL));
        return 1;
    }
    for (int i = 2; i < count; i++) {
        self.count = 0;
        if (strcmp(words[i], "small") == 0 || strcmp(words[i], "all") == 0) {
            fill(&self, words[i][0] == 's');
        } else {
            add(&self, (int)(strtoull(words[i], NULL, 10) / sizeof(float)), false);
        }
        run(&self, words[i], rounds, rank);
        empty(&self);
    }
    free(spare);
    (void)tutti_shutdown(self.context);
    (void)MPI_Finalize();
    return 0;
}
