/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a job over several "hosts" (TUTTI_HOSTID): every collective against the oracle, and
 * coded sums, which are exact inside a host and coded between hosts.
 * Prints "rank R of N on host H of M: ok" and exits 0; else prints the fault and aborts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/forms.h"

enum { CODED_COUNT = 9001, CODED_STEPS = 6 };

static float coded_value(int rank, int step, int i)
{
    return sinf((float)i * 0.11f + (float)(step + rank)) * (float)(1 + rank % 3);
}

/* All ranks have rank 0's bits; what is lost in one call comes with the next ones. */
static void run_coded(const ranks_self *self, const char *codec, double error_max)
{
    static float input[CODED_COUNT], output[CODED_COUNT], first[CODED_COUNT];
    static double missing[CODED_COUNT];
    tutti_call call = TUTTI_CALL_INIT;
    call.name = codec;
    call.input = input;
    call.output = output;
    call.count = CODED_COUNT;
    call.codec = codec;
    memset(missing, 0, sizeof(missing));
    for (int step = 0; step < CODED_STEPS; step++) {
        for (int i = 0; i < CODED_COUNT; i++) {
            input[i] = coded_value(self->rank, step, i);
        }
        EXPECT_STATUS(TUTTI_OK, tutti_run(self->context, &call));
        memcpy(first, output, sizeof(first));
        EXPECT_STATUS(TUTTI_OK, tutti_broadcast(self->context, first, CODED_COUNT, TUTTI_F32, 0));
        EXPECT(memcmp(first, output, sizeof(first)) == 0);
        for (int i = 0; i < CODED_COUNT; i++) {
            for (int rank = 0; rank < self->size; rank++) {
                missing[i] += coded_value(rank, step, i);
            }
            missing[i] -= output[i];
        }
    }
    for (int i = 0; i < CODED_COUNT; i++) {
        EXPECT_SAY(fabs(missing[i]) <= error_max * self->size, "%s: %g is missing of element %d",
                   codec, missing[i], i);
    }
    const tutti_counters counters = ranks_counters(self);
    const bool is_coded =
        tutti_cross_size(self->context) > 1 || (self->size > 1 && strstr(codec, "all") != NULL);
    EXPECT((counters.coded_calls > 0) == is_coded);
}

static void run_all(ranks_self *self)
{
    static const uint64_t counts[] = {0, 1, 100, 5000, 70001};
    uint64_t salt = 0;
    for (int collective = TUTTI_ALLREDUCE; collective <= TUTTI_ALLTOALL; collective++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            if (counts[i] > 5000 && forms_has_parts((tutti_collective)collective)) {
                continue;
            }
            forms_run(self,
                      (oracle_case){.collective = (tutti_collective)collective,
                                    .dtype = i % 2 == 0 ? TUTTI_F32 : TUTTI_I64,
                                    .op = TUTTI_AVERAGE,
                                    .size = self->size,
                                    .count = counts[i]},
                      &salt);
        }
    }
}

int main(void)
{
    ranks_self self = {.rank = 0};
    EXPECT_STATUS(TUTTI_OK, tutti_init(NULL, &self.context));
    self.rank = tutti_rank(self.context);
    self.size = tutti_size(self.context);
    run_all(&self);
    run_coded(&self, "int8:block=64", 0.1);
    run_coded(&self, "bf16:ef=on", 0.1);
    run_coded(&self, "int8sum:block=64", 0.2);
    run_coded(&self, "int8:block=64,where=all", 0.1);
    (void)printf("rank %d of %d on host %d of %d: ok\n", self.rank, self.size,
                 tutti_cross_rank(self.context), tutti_cross_size(self.context));
    EXPECT_STATUS(TUTTI_OK, tutti_shutdown(self.context));
    return 0;
}
