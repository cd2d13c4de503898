/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a job over several "hosts" (TUTTI_HOSTID): every collective against the oracle.
 * Prints "rank R of N on host H of M: ok" and exits 0; else prints the fault and aborts. */
#include <stdio.h>

#include "conformance/forms.h"

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
    (void)printf("rank %d of %d on host %d of %d: ok\n", self.rank, self.size,
                 tutti_cross_rank(self.context), tutti_cross_size(self.context));
    EXPECT_STATUS(TUTTI_OK, tutti_shutdown(self.context));
    return 0;
}
