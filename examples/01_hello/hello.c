/* SPDX-License-Identifier: Apache-2.0
 *
 * hello.c - the smallest program that uses Tutti: every rank contributes a number and gets the sum.
 *
 *     tutti run -n 4 build/bin/hello
 */
#include <stdio.h>

#include <tutti/tutti.h>

int main(void)
{
    tutti_context *context = NULL;
    if (tutti_init(NULL, &context) != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_last_error(NULL));
        return 1;
    }
    const float mine = (float)(tutti_rank(context) + 1);
    float sum = 0.0f;
    if (tutti_allreduce(context, &mine, &sum, 1, TUTTI_F32, TUTTI_SUM) != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_last_error(context));
        return 1;
    }
    printf("rank %d of %d: I gave %g, together we have %g\n", tutti_rank(context),
           tutti_size(context), (double)mine, (double)sum);
    return tutti_shutdown(context) == TUTTI_OK ? 0 : 1;
}
