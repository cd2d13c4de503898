/* SPDX-License-Identifier: Apache-2.0
 *
 * sets.c - groups of ranks that work on their own: the even ones and the odd ones.
 *
 *     tutti run -n 4 build/bin/sets
 *
 * Every rank, member or not, creates both sets in the same order; after that only members make
 * calls on a set. Model-parallel training has one set per part of the model in the same way.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tutti/tutti.h>

enum { RANKS_MAX = 1024 };

static void must(tutti_context *context, tutti_status status)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_last_error(context));
        exit(1);
    }
}

/* The set of ranks first, first + 2, first + 4 ... */
static tutti_set set_every_second(tutti_context *context, int first)
{
    int ranks[RANKS_MAX];
    int count = 0;
    for (int rank = first; rank < tutti_size(context) && count < RANKS_MAX; rank += 2) {
        ranks[count++] = rank;
    }
    tutti_set set;
    must(context, tutti_set_create(context, ranks, count, &set));
    return set;
}

static int sum_over(tutti_context *context, tutti_set set, int mine)
{
    int sum = 0;
    tutti_call call = TUTTI_CALL_INIT;
    call.set = set;
    call.dtype = TUTTI_I32;
    call.input = &mine;
    call.output = &sum;
    call.count = 1;
    must(context, tutti_run(context, &call));
    return sum;
}

int main(void)
{
    tutti_context *context = NULL;
    must(NULL, tutti_init(NULL, &context));
    const int rank = tutti_rank(context);
    if (tutti_size(context) < 2) {
        fprintf(stderr, "two sets need two ranks: tutti run -n 4 build/bin/sets\n");
        return 1;
    }
    const tutti_set even = set_every_second(context, 0);
    const tutti_set odd = set_every_second(context, 1);
    const tutti_set mine = rank % 2 == 0 ? even : odd;
    const int in_set = sum_over(context, mine, rank);
    const int in_world = sum_over(context, TUTTI_WORLD, rank);
    printf("rank %d is number %d of %d in the %s set; its ranks sum to %d, all ranks to %d\n", rank,
           tutti_set_rank(context, mine), tutti_set_size(context, mine),
           rank % 2 == 0 ? "even" : "odd", in_set, in_world);
    must(context, tutti_set_remove(context, odd));
    must(context, tutti_set_remove(context, even));
    must(NULL, tutti_shutdown(context));
    return 0;
}
