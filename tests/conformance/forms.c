/* SPDX-License-Identifier: Apache-2.0
 *
 * forms.c - see forms.h. */
#include "conformance/forms.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE_MAX_RANKS = 8, CANARY = 0xa5, CANARY_BYTES = 64 };

/* Memory of a buffer. */
typedef enum memory_kind { FOREIGN, FOREIGN_ODD, ARENA, ARENA_ODD, MEMORY_KINDS } memory_kind;

typedef struct buffer {
    uint8_t *base; /* as it was allocated */
    uint8_t *data; /* between canaries */
    size_t bytes;
    memory_kind kind;
} buffer;

typedef struct form {
    bool is_in_place;
    bool is_allocated; /* through result_out */
    uint64_t salt;     /* chooses the memory */
} form;

/* ---- buffers ---- */

static buffer buffer_new(tutti_context *context, memory_kind kind, size_t bytes)
{
    const bool is_arena = kind == ARENA || kind == ARENA_ODD;
    const size_t odd = kind == FOREIGN_ODD ? 1 : kind == ARENA_ODD ? 3 : 0;
    const size_t room = bytes + 2 * CANARY_BYTES + 8;
    buffer made = {.bytes = bytes, .kind = kind};
    made.base = is_arena ? tutti_alloc(context, room) : malloc(room);
    EXPECT_SAY(made.base != NULL, "%zu bytes", bytes);
    memset(made.base, CANARY, room);
    made.data = made.base + CANARY_BYTES + odd;
    return made;
}

static void buffer_free(tutti_context *context, buffer *old)
{
    for (size_t i = 0; i < CANARY_BYTES; i++) {
        EXPECT_SAY(old->data[-1 - (ptrdiff_t)i] == CANARY, "byte -%zu was written", i + 1);
        EXPECT_SAY(old->data[old->bytes + i] == CANARY, "byte %zu + %zu was written", old->bytes,
                   i);
    }
    if (old->kind == ARENA || old->kind == ARENA_ODD) {
        tutti_free(context, old->base);
    } else {
        free(old->base);
    }
}

/* ---- one call ---- */

typedef struct attempt {
    const oracle_case *one;
    tutti_call call;
    size_t element;
    buffer input, output;
    uint64_t input_counts[SIZE_MAX_RANKS], output_counts[SIZE_MAX_RANKS];
    void *result;
} attempt;

static bool shares_buffer(const oracle_case *one, form how)
{
    return how.is_in_place || one->collective == TUTTI_BROADCAST;
}

static void place_buffers(ranks_self *self, attempt *try, form how)
{
    const oracle_case *one = try->one;
    const size_t in_bytes = oracle_input_count(one, self->rank) * try->element;
    const size_t out_bytes = oracle_output_count(one, self->rank) * try->element;
    const uint64_t pick = how.salt * 5 + (uint64_t)self->rank * (how.salt % 3);
    const bool is_shared = shares_buffer(one, how);
    const size_t room = is_shared && in_bytes > out_bytes ? in_bytes : out_bytes;
    size_t offset = 0;
    try->output = buffer_new(self->context, (memory_kind)(pick % MEMORY_KINDS), room);
    try->input =
        buffer_new(self->context, (memory_kind)(pick / 4 % MEMORY_KINDS), is_shared ? 0 : in_bytes);
    if (is_shared && (one->collective == TUTTI_ALLGATHER || one->collective == TUTTI_GATHER) &&
        out_bytes > 0) {
        offset = oracle_own_offset(one, self->rank) * try->element;
    }
    uint8_t *input = is_shared ? try->output.data + offset : try->input.data;
    oracle_fill_input(one, self->rank, input);
    try->call.input = input;
    try->call.output = how.is_allocated ? NULL : try->output.data;
}

static void set_counts(ranks_self *self, attempt *try)
{
    const oracle_case *one = try->one;
    tutti_call *call = &try->call;
    if (!one->is_uneven) {
        return;
    }
    call->output_capacity = call->output != NULL ? oracle_output_count(one, self->rank) : 0;
    for (int to = 0; to < one->size; to++) {
        try->input_counts[to] = oracle_part(one, self->rank, to);
    }
    const bool is_gather = one->collective == TUTTI_ALLGATHER || one->collective == TUTTI_GATHER;
    const bool gives = one->collective != TUTTI_SCATTER || self->rank == one->root;
    call->input_counts = !is_gather && gives ? try->input_counts : NULL;
    call->output_counts = one->collective == TUTTI_REDUCESCATTER ? NULL : try->output_counts;
    call->count = is_gather ? oracle_part(one, self->rank, 0) : 0;
}

static void check_counts(ranks_self *self, const attempt *try)
{
    const oracle_case *one = try->one;
    const bool is_silent = one->collective == TUTTI_REDUCESCATTER ||
                           (one->collective == TUTTI_GATHER && self->rank != one->root);
    if (!one->is_uneven || is_silent) {
        return;
    }
    if (one->collective == TUTTI_SCATTER) {
        EXPECT(try->output_counts[0] == oracle_part(one, one->root, self->rank));
        return;
    }
    for (int from = 0; from < one->size; from++) {
        EXPECT(try->output_counts[from] == oracle_part(one, from, self->rank));
    }
}

static void check_result(ranks_self *self, const attempt *try, form how)
{
    const oracle_case *one = try->one;
    char text[160];
    oracle_describe(one, text, sizeof(text));
    const size_t out_bytes = oracle_output_count(one, self->rank) * try->element;
    const size_t in_bytes = oracle_input_count(one, self->rank) * try->element;
    const uint8_t *got = how.is_allocated ? try->result : try->output.data;
    uint8_t *wanted = malloc(out_bytes + in_bytes + 1);
    EXPECT(wanted != NULL);
    oracle_fill_expected(one, self->rank, wanted);
    for (size_t i = 0; i < out_bytes; i++) {
        EXPECT_SAY(got[i] == wanted[i], "%s: rank %d byte %zu of %zu is %02x, not %02x (salt %llu)",
                   text, self->rank, i, out_bytes, got[i], wanted[i], (unsigned long long)how.salt);
    }
    if (!shares_buffer(one, how)) {
        oracle_fill_input(one, self->rank, wanted);
        EXPECT_SAY(in_bytes == 0 || memcmp(try->input.data, wanted, in_bytes) == 0,
                   "%s: rank %d: the input was written", text, self->rank);
    }
    free(wanted);
}

static void run_case(ranks_self *self, const oracle_case *one, form how)
{
    attempt try = {.one = one, .call = TUTTI_CALL_INIT, .element = tutti_dtype_bytes(one->dtype)};
    char text[160];
    oracle_describe(one, text, sizeof(text));
    place_buffers(self, &try, how);
    try.call.collective = one->collective;
    try.call.dtype = one->dtype;
    try.call.op = one->op;
    try.call.root = one->root;
    try.call.count = one->count;
    try.call.prescale = one->prescale;
    try.call.postscale = one->postscale;
    try.call.result_out = how.is_allocated ? &try.result : NULL;
    set_counts(self, &try);
    const tutti_status status = tutti_run(self->context, &try.call);
    EXPECT_SAY(status == TUTTI_OK, "%s: rank %d salt %llu: %s: %s", text, self->rank,
               (unsigned long long)how.salt, tutti_status_text(status),
               tutti_last_error(self->context));
    check_counts(self, &try);
    check_result(self, &try, how);
    if (how.is_allocated) {
        tutti_free(self->context, try.result);
    }
    buffer_free(self->context, &try.input);
    buffer_free(self->context, &try.output);
}

/* ---- forms ---- */

static bool may_alias(tutti_collective collective)
{
    return collective != TUTTI_SCATTER && collective != TUTTI_REDUCESCATTER &&
           collective != TUTTI_BARRIER;
}

bool forms_has_parts(tutti_collective collective)
{
    return collective >= TUTTI_ALLGATHER && collective <= TUTTI_ALLTOALL;
}

void forms_run(ranks_self *self, oracle_case one, uint64_t *salt)
{
    one.root = (int)(*salt % (uint64_t)self->size);
    one.prescale = one.postscale = 1.0;
    one.seed = ++*salt;
    run_case(self, &one, (form){.salt = one.seed});
    one.seed = ++*salt;
    if (one.collective != TUTTI_BROADCAST && one.collective != TUTTI_BARRIER) {
        run_case(self, &one, (form){.is_allocated = true, .salt = one.seed});
    }
    if (may_alias(one.collective)) {
        one.seed = ++*salt;
        run_case(self, &one, (form){.is_in_place = true, .salt = one.seed});
    }
    if (oracle_is_reduction(one.collective)) {
        one.prescale = one.op == TUTTI_PRODUCT ? 1.0 : 2.0;
        one.postscale = 0.5;
        one.seed = ++*salt;
        run_case(self, &one,
                 (form){.is_in_place = may_alias(one.collective) && one.seed % 2 == 0,
                        .is_allocated = one.seed % 4 == 1,
                        .salt = one.seed});
        one.prescale = one.postscale = 1.0;
    }
    if (forms_has_parts(one.collective)) {
        one.is_uneven = true;
        one.seed = ++*salt;
        run_case(self, &one, (form){.salt = one.seed});
        one.seed = ++*salt;
        run_case(self, &one, (form){.is_allocated = true, .salt = one.seed});
    }
}
