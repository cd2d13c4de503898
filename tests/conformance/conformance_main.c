/* SPDX-License-Identifier: Apache-2.0
 *
 * tutti-conformance: one rank of a job whose collectives an outside engine runs (TUTTI_ENGINE), or
 * a transport carries (TUTTI_TRANSPORT): every collective against the oracle, calls in flight
 * together, process sets, named tensors, and calls that must fail. Installed, for authors of
 * plugins: uses nothing but tutti/tutti.h. Prints "rank R of N: ok" and exits 0; else prints the
 * fault and aborts. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/forms.h"

enum { TOGETHER = 40, COUNT = 3000 };

static void run_forms(ranks_self *self)
{
    static const uint64_t counts[] = {0, 1, 777, 70001};
    static const tutti_dtype types[] = {TUTTI_F32, TUTTI_I64, TUTTI_U8, TUTTI_F16, TUTTI_BOOL};
    static const tutti_op ops[] = {TUTTI_SUM, TUTTI_AVERAGE, TUTTI_MAX, TUTTI_PRODUCT};
    uint64_t salt = 0;
    for (int collective = TUTTI_ALLREDUCE; collective <= TUTTI_ALLTOALL; collective++) {
        for (size_t i = 0; i < 20; i++) {
            const uint64_t count = counts[i % 4];
            if (count > 777 && forms_has_parts((tutti_collective)collective)) {
                continue;
            }
            forms_run(self,
                      (oracle_case){.collective = (tutti_collective)collective,
                                    .dtype = types[i / 4],
                                    .op = types[i / 4] == TUTTI_BOOL ? TUTTI_OR : ops[i % 4],
                                    .size = self->size,
                                    .count = count},
                      &salt);
        }
    }
}

static tutti_call sum_of(float *buffer, uint64_t count, tutti_set set)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.set = set;
    call.input = call.output = buffer;
    call.count = count;
    return call;
}

static float *fill(float value)
{
    float *buffer = malloc(COUNT * sizeof(*buffer));
    EXPECT(buffer != NULL);
    for (int i = 0; i < COUNT; i++) {
        buffer[i] = value;
    }
    return buffer;
}

static void expect_all(const float *buffer, float value)
{
    for (int i = 0; i < COUNT; i++) {
        EXPECT_SAY(buffer[i] == value, "element %d is %g, not %g", i, (double)buffer[i],
                   (double)value);
    }
}

/* Many started at once; some ranks wait in another order, and rank 0 blocks in every third. */
static void run_together(ranks_self *self)
{
    tutti_handle *handles[TOGETHER] = {NULL};
    float *buffers[TOGETHER];
    const float ranks_sum = (float)(self->size * (self->size - 1) / 2);
    for (int i = 0; i < TOGETHER; i++) {
        buffers[i] = fill((float)(self->rank + i));
        const tutti_call call = sum_of(buffers[i], COUNT, TUTTI_WORLD);
        if (i % 3 == 0 && self->rank == 0) {
            EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        } else {
            EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
        }
    }
    for (int k = 0; k < TOGETHER; k++) {
        const int i = self->rank % 2 == 0 ? k : TOGETHER - 1 - k;
        if (handles[i] != NULL) {
            EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
            tutti_handle_free(handles[i]);
        }
        expect_all(buffers[i], ranks_sum + (float)(self->size * i));
        free(buffers[i]);
    }
}

/* Overlapping sets, called in different orders: an engine that blocks would deadlock. */
static void run_sets(ranks_self *self)
{
    int ranks[64];
    tutti_set pairs[64];
    EXPECT(self->size <= 64);
    for (int first = 0; first < self->size; first++) {
        ranks[0] = first;
        ranks[1] = (first + 1) % self->size;
        EXPECT_STATUS(TUTTI_OK, tutti_set_create(self->context, ranks, self->size > 1 ? 2 : 1,
                                                 &pairs[first]));
    }
    for (int turn = 0; turn < 5; turn++) {
        tutti_handle *handles[64] = {NULL};
        float *buffers[64] = {NULL};
        for (int i = 0; i < self->size; i++) {
            const int first = (i + self->rank) % self->size;
            if (tutti_set_rank(self->context, pairs[first]) >= 0) {
                buffers[first] = fill((float)self->rank);
                const tutti_call call = sum_of(buffers[first], COUNT, pairs[first]);
                EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[first]));
            }
        }
        for (int first = 0; first < self->size; first++) {
            if (handles[first] != NULL) {
                EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[first], -1.0));
                expect_all(buffers[first], (float)(first + (first + 1) % self->size));
                tutti_handle_free(handles[first]);
                free(buffers[first]);
            }
        }
    }
    for (int first = 0; first < self->size; first++) {
        EXPECT_STATUS(TUTTI_OK, tutti_set_remove(self->context, pairs[first]));
    }
}

static tutti_call named_sum(float *buffer, uint64_t count, const char *name)
{
    tutti_call call = sum_of(buffer, count, TUTTI_WORLD);
    call.name = name;
    return call;
}

static uint64_t launched(const ranks_self *self)
{
    tutti_counters counters = TUTTI_COUNTERS_INIT;
    EXPECT_STATUS(TUTTI_OK, tutti_count(self->context, TUTTI_WORLD, &counters));
    return counters.launched;
}

static bool has_engine(void)
{
    const char *name = getenv("TUTTI_ENGINE");
    return name != NULL && name[0] != 0;
}

/* One step: named tensors, small ones and large ones, submitted in a different order on each rank,
 * between unnamed calls, and waited for in another order. */
static void named_step(ranks_self *self, int step)
{
    enum { NAMED = 24 };
    tutti_handle *handles[NAMED], *plain;
    float *buffers[NAMED];
    char names[NAMED][16];
    const float ranks_sum = (float)(self->size * (self->size - 1) / 2);
    float *unnamed = fill((float)self->rank);
    for (int k = 0; k < NAMED; k++) {
        const int i =
            (7 * k + 5 * self->rank + step) % NAMED; /* 7 and 24 have no factor in common */
        buffers[i] = fill((float)(self->rank + i + step));
        (void)snprintf(names[i], sizeof(names[i]), "t%d", i);
        const tutti_call call = named_sum(buffers[i], i % 3 == 0 ? COUNT : 5, names[i]);
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
        if (k == 3 * self->rank % NAMED) {
            const tutti_call other = sum_of(unnamed, COUNT, TUTTI_WORLD);
            EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &other, &plain));
        }
    }
    for (int k = 0; k < NAMED; k++) {
        const int i = (11 * k + self->rank) % NAMED;
        const float want = ranks_sum + (float)(self->size * (i + step));
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
        EXPECT_SAY(buffers[i][0] == want && buffers[i][4] == want, "tensor %d is %g, not %g", i,
                   (double)buffers[i][0], (double)want);
        tutti_handle_free(handles[i]);
        free(buffers[i]);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_wait(plain, -1.0));
    expect_all(unnamed, ranks_sum);
    tutti_handle_free(plain);
    free(unnamed);
}

/* A rank waits for the second tensor before it submits the first: the first launch must be of a
 * tensor that all ranks have. */
static void named_crossed(ranks_self *self, int step)
{
    float *first = fill(1.0f), *second = fill(2.0f);
    const tutti_call one = named_sum(first, COUNT, "one"), two = named_sum(second, COUNT, "two");
    tutti_handle *handle = NULL;
    if (self->rank == step % self->size) {
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &two));
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &one));
    } else {
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &one, &handle));
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &two));
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handle, -1.0));
        tutti_handle_free(handle);
    }
    expect_all(first, (float)self->size);
    expect_all(second, 2.0f * (float)self->size);
    free(first);
    free(second);
}

/* A rank that has joined contributes nothing; averages are over the contributing ranks, or over
 * all. */
static void named_join(ranks_self *self)
{
    float *buffer = fill(6.0f);
    tutti_call call = named_sum(buffer, COUNT, "joined");
    call.op = TUTTI_AVERAGE;
    call.flags = TUTTI_BY_ACTIVE;
    if (self->rank != 0) {
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        expect_all(buffer, 6.0f);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_join(self->context, TUTTI_WORLD, NULL));
    free(buffer);
}

static void run_named(ranks_self *self)
{
    const uint64_t before = launched(self);
    for (int step = 0; step < 12; step++) {
        named_step(self, step);
        named_crossed(self, step);
    }
    EXPECT_SAY(self->size == 1 || !has_engine() || launched(self) >= before + 12 * 4,
               "the engine ran %llu", (unsigned long long)(launched(self) - before));
    named_join(self);
}

/* True: an urgent call, started last, ended before those in the middle of the others. All have one
 * length: a short one would overtake the long ones by fairness alone. */
static bool overtakes(ranks_self *self)
{
    enum { LONG = 8, LONG_COUNT = 2 << 20 };
    tutti_handle *handles[LONG], *urgent;
    float *buffers = calloc(LONG + 1, LONG_COUNT * sizeof(float));
    EXPECT_SAY(buffers != NULL, "%s", "out of memory");
    float *last = buffers + (size_t)LONG * LONG_COUNT;
    last[LONG_COUNT - 1] = 1.0f;
    EXPECT_STATUS(TUTTI_OK, tutti_barrier(self->context));
    for (int i = 0; i < LONG; i++) {
        const tutti_call call = sum_of(buffers + (size_t)i * LONG_COUNT, LONG_COUNT, TUTTI_WORLD);
        EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &handles[i]));
    }
    tutti_call call = sum_of(last, LONG_COUNT, TUTTI_WORLD);
    call.flags = TUTTI_URGENT;
    EXPECT_STATUS(TUTTI_OK, tutti_start(self->context, &call, &urgent));
    EXPECT_STATUS(TUTTI_OK, tutti_wait(urgent, -1.0));
    const bool is_first = tutti_poll(handles[LONG / 2]) == TUTTI_IN_PROGRESS;
    EXPECT_SAY(last[LONG_COUNT - 1] == (float)self->size, "%g", (double)last[LONG_COUNT - 1]);
    tutti_handle_free(urgent);
    for (int i = 0; i < LONG; i++) {
        EXPECT_STATUS(TUTTI_OK, tutti_wait(handles[i], -1.0));
        tutti_handle_free(handles[i]);
    }
    free(buffers);
    return is_first;
}

/* Chunks can be overtaken on every transport; an engine orders its own calls. A rank that was not
 * scheduled between its starts may miss it: once is enough. */
static void run_urgent(ranks_self *self)
{
    int32_t seen = self->size == 1 || has_engine();
    for (int i = 0; i < 5 && seen == 0; i++) {
        seen = overtakes(self);
        EXPECT_STATUS(TUTTI_OK,
                      tutti_allreduce(self->context, &seen, &seen, 1, TUTTI_I32, TUTTI_MIN));
    }
    EXPECT_SAY(seen != 0, "%s", "an urgent call waits for long ones");
}

/* A wrong call fails everywhere and never reaches the engine; the next one works. */
static void run_mismatch(ranks_self *self)
{
    float *buffer = fill(1.0f);
    const bool is_odd_one = self->rank == self->size - 1;
    if (self->size > 1) {
        EXPECT_STATUS(TUTTI_ERR_MISMATCH,
                      tutti_allreduce(self->context, buffer, buffer, is_odd_one ? 10 : 20,
                                      TUTTI_F32, TUTTI_SUM));
        EXPECT_SAY(strstr(tutti_last_error(self->context), "20") != NULL, "%s",
                   tutti_last_error(self->context));
    }
    float *good = fill(1.0f);
    EXPECT_STATUS(TUTTI_OK,
                  tutti_allreduce(self->context, good, good, COUNT, TUTTI_F32, TUTTI_SUM));
    expect_all(good, (float)self->size);
    free(good);
    free(buffer);
}

/* A rank that does not make the call: the call ends in time, the engine holds nothing. */
static void run_deadline(ranks_self *self)
{
    float *buffer = fill(1.0f);
    tutti_call call = sum_of(buffer, COUNT, TUTTI_WORLD);
    call.timeout_s = 0.3;
    if (self->size > 1 && self->rank != 0) {
        EXPECT_STATUS(TUTTI_ERR_TIMED_OUT, tutti_run(self->context, &call));
    } else if (self->size > 1) {
        const double late = ranks_clock_s() + 1.0; /* the others have timed out by then */
        while (ranks_clock_s() < late) {
        }
        EXPECT_STATUS(TUTTI_ERR_TIMED_OUT, tutti_run(self->context, &call));
    }
    free(buffer);
    run_mismatch(self);
}

static const struct part {
    const char *name;
    ranks_fn *run;
    const char *help;
} parts[] = {
    {"forms", run_forms, "every collective, type and operator, in place and not"},
    {"together", run_together, "many calls in flight"},
    {"sets", run_sets, "overlapping process sets, called in a different order on each rank"},
    {"named", run_named, "named tensors, submitted and awaited in a different order on each rank"},
    {"urgent", run_urgent, "urgent calls overtake long ones (transports)"},
    {"mismatch", run_mismatch, "wrong calls fail everywhere, the next one works"},
    {"deadline", run_deadline, "a rank that calls too late"},
};
enum { PART_COUNT = sizeof(parts) / sizeof(parts[0]) };

static bool is_part(const char *word)
{
    for (size_t i = 0; i < PART_COUNT; i++) {
        if (strcmp(word, parts[i].name) == 0) {
            return true;
        }
    }
    return false;
}

static void tell_usage(FILE *file)
{
    (void)fprintf(file,
                  "usage: TUTTI_ENGINE=NAME tutti run -n N tutti-conformance [PART...]\n"
                  "       TUTTI_TRANSPORT=NAME tutti run -n N tutti-conformance [PART...]\n"
                  "Checks an engine or a transport; exits 0 if all is well. Parts, all if none is "
                  "named:\n");
    for (size_t i = 0; i < PART_COUNT; i++) {
        (void)fprintf(file, "  %-9s %s\n", parts[i].name, parts[i].help);
    }
}

static bool is_wanted(const struct part *part, int count, char **words)
{
    bool is_named = count < 2;
    for (int i = 1; i < count; i++) {
        is_named = is_named || strcmp(words[i], part->name) == 0;
    }
    return is_named;
}

int main(int count, char **words)
{
    ranks_self self = {.rank = 0};
    char text[1024] = "";
    for (int i = 1; i < count; i++) {
        const bool is_help = strcmp(words[i], "--help") == 0;
        if (is_help || !is_part(words[i])) {
            tell_usage(is_help ? stdout : stderr);
            return is_help ? 0 : 2;
        }
    }
    if (tutti_init(NULL, &self.context) != TUTTI_OK) {
        (void)fprintf(stderr, "tutti-conformance: %s\n", tutti_last_error(NULL));
        return 1;
    }
    self.rank = tutti_rank(self.context);
    self.size = tutti_size(self.context);
    (void)tutti_describe(self.context, text, sizeof(text));
    (void)printf("%s\n", text);
    for (size_t i = 0; i < PART_COUNT; i++) {
        if (is_wanted(&parts[i], count, words)) {
            parts[i].run(&self);
            (void)printf("rank %d: part %s is done\n", self.rank, parts[i].name);
        }
    }
    EXPECT_STATUS(TUTTI_OK, tutti_shutdown(self.context));
    (void)printf("rank %d of %d: ok\n", self.rank, self.size);
    return 0;
}
