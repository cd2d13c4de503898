/* SPDX-License-Identifier: Apache-2.0
 *
 * coded_memory.c - see coded_memory.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/codec.h"
#include "conformance/coded_memory.h"
#include "kernel/half.h"

void *garbage(size_t bytes)
{
    void *made = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(made);
    memset(made, 0xa5, bytes > 0 ? bytes : 1);
    return made;
}

float random_value(tt_random *random)
{
    return ((float)tt_random_below(random, 20001) - 10000.0f) / 10000.0f;
}

void set_value(tt_dtype dtype, void *values, uint64_t index, float value)
{
    if (dtype == TT_F32) {
        ((float *)values)[index] = value;
    } else {
        ((uint16_t *)values)[index] =
            dtype == TT_F16 ? tt_f16_from_f32(value) : tt_bf16_from_f32(value);
    }
}

float get_value(tt_dtype dtype, const void *values, uint64_t index)
{
    if (dtype == TT_F32) {
        return ((const float *)values)[index];
    }
    const uint16_t half = ((const uint16_t *)values)[index];
    return dtype == TT_F16 ? tt_f16_to_f32(half) : tt_bf16_to_f32(half);
}

void *random_values(tt_dtype dtype, uint64_t count, tt_random *random)
{
    void *values = garbage(count * tt_dtype_bytes(dtype));
    for (uint64_t i = 0; i < count; i++) {
        set_value(dtype, values, i, random_value(random));
    }
    return values;
}

void memory_make(memory *made, uint32_t size, const coded_call *call, uint64_t seed)
{
    const size_t width = tt_dtype_bytes(call->dtype);
    const uint64_t in_count = coded_input_count(call, size);
    const bool has_feedback = call->codec->has_feedback;
    tt_random random;
    tt_random_init(&random, seed, 0);
    *made = (memory){.size = size, .call = *call};
    for (uint32_t r = 0; r < size; r++) {
        uint64_t first;
        const uint64_t slice_count = coded_slice_count(call, size, r, &first);
        const size_t out_bytes = coded_output_count(call, size, r) * width;
        const bool has_owner =
            has_feedback && call->collective == TT_ALLREDUCE && !coded_is_summed(call);
        const coded_buffers old = {
            .input = random_values(call->dtype, in_count, &random),
            .residual = has_feedback ? random_values(TT_F32, in_count, &random) : NULL,
            .owner_residual = has_owner ? random_values(TT_F32, slice_count, &random) : NULL};
        coded_buffers *both[2] = {&made->got[r], &made->wanted[r]};
        const bool has_estimate = call->codec->is_tracked;
        const float *estimate = has_estimate ? random_values(TT_F32, slice_count, &random) : NULL;
        for (int i = 0; i < 2; i++) {
            *both[i] = old;
            both[i]->stamp = seed;
            both[i]->estimate = estimate;
            both[i]->estimate_out = has_estimate ? garbage(slice_count * sizeof(float)) : NULL;
            both[i]->output = garbage(out_bytes);
            both[i]->residual_out = has_feedback ? garbage(in_count * sizeof(float)) : NULL;
            both[i]->owner_residual_out = has_owner ? garbage(slice_count * sizeof(float)) : NULL;
        }
    }
}

void memory_drop(memory *made)
{
    for (uint32_t r = 0; r < made->size; r++) {
        coded_buffers *both[2] = {&made->got[r], &made->wanted[r]};
        free((void *)(uintptr_t)made->got[r].input);
        free((void *)(uintptr_t)made->got[r].residual);
        free((void *)(uintptr_t)made->got[r].owner_residual);
        free((void *)(uintptr_t)made->got[r].estimate);
        for (int i = 0; i < 2; i++) {
            if (both[i]->output != both[i]->input) {
                free(both[i]->output);
            }
            free(both[i]->residual_out);
            free(both[i]->owner_residual_out);
            free(both[i]->estimate_out);
        }
    }
}

static bool is_same(const void *a, const void *b, size_t bytes)
{
    return a == NULL || bytes == 0 || memcmp(a, b, bytes) == 0;
}

void memory_check(const memory *made, const char *what)
{
    const coded_call *call = &made->call;
    for (uint32_t r = 0; r < made->size; r++) {
        const coded_buffers *got = &made->got[r], *wanted = &made->wanted[r];
        const size_t out_bytes =
            coded_output_count(call, made->size, r) * tt_dtype_bytes(call->dtype);
        const size_t in_count = coded_input_count(call, made->size);
        uint64_t first;
        const size_t slice_count = coded_slice_count(call, made->size, r, &first);
        const bool has_output = is_same(got->output, wanted->output, out_bytes);
        const bool has_residual =
            is_same(got->residual_out, wanted->residual_out, in_count * sizeof(float));
        const bool has_owners = is_same(got->owner_residual_out, wanted->owner_residual_out,
                                        slice_count * sizeof(float));
        const bool has_estimate =
            is_same(got->estimate_out, wanted->estimate_out, slice_count * sizeof(float));
        if (!has_output || !has_residual || !has_owners || !has_estimate) {
            char text[TT_CODEC_TEXT_BYTES];
            tt_codec_print(call->codec, text);
            fail_msg("%s: %s %s %s, %u ranks, %u hosts, %llu elements: rank %u differs: output %d, "
                     "residual %d, owner's %d, estimate %d",
                     what, text, tt_collective_name(call->collective), tt_dtype_name(call->dtype),
                     made->size, call->hosts != NULL ? call->hosts->host_count : made->size,
                     (unsigned long long)call->count, r, has_output, has_residual, has_owners,
                     has_estimate);
        }
    }
}
