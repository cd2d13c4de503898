/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a job whose collectives an outside engine runs (TUTTI_ENGINE): every collective
 * against the oracle, calls in flight together, process sets, and what must fail.
 * Prints "rank R of N: ok" and exits 0; else says what is wrong and aborts. */
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

/* Overlapping sets, called in different orders: an engine that blocked would never come back. */
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

/* A rank that does not come: the call ends in time, nothing is left with the engine. */
static void run_deadline(ranks_self *self)
{
    float *buffer = fill(1.0f);
    tutti_call call = sum_of(buffer, COUNT, TUTTI_WORLD);
    call.timeout_s = 0.3;
    if (self->size > 1 && self->rank != 0) {
        EXPECT_STATUS(TUTTI_ERR_TIMED_OUT, tutti_run(self->context, &call));
    } else if (self->size > 1) {
        const double late = ranks_clock_s() + 1.0; /* the others have given up by then */
        while (ranks_clock_s() < late) {
        }
        EXPECT_STATUS(TUTTI_ERR_TIMED_OUT, tutti_run(self->context, &call));
    }
    free(buffer);
    run_mismatch(self);
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        ranks_fn *run;
    } parts[] = {{"forms", run_forms},
                 {"together", run_together},
                 {"sets", run_sets},
                 {"mismatch", run_mismatch},
                 {"deadline", run_deadline}};
    ranks_self self = {.rank = 0};
    char text[1024] = "";
    EXPECT_STATUS(TUTTI_OK, tutti_init(NULL, &self.context));
    self.rank = tutti_rank(self.context);
    self.size = tutti_size(self.context);
    (void)tutti_describe(self.context, text, sizeof(text));
    (void)printf("%s\n", text);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (count < 2 || strcmp(words[1], parts[i].name) == 0) {
            parts[i].run(&self);
        }
    }
    EXPECT_STATUS(TUTTI_OK, tutti_shutdown(self.context));
    (void)printf("rank %d of %d: ok\n", self.rank, self.size);
    return 0;
}
