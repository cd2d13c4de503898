/* SPDX-License-Identifier: Apache-2.0
 *
 * workload.c - checks and orders of a step's tensors. */
#include "model/workload.h"

#include <math.h>
#include <stdbool.h>

#include "base/assert.h"
#include "base/base.h"
#include "model/graph.h"

enum {
    NAME_BYTES_SHOWN = 100,
};

const uint64_t tt_workload_size_limits[TT_WORKLOAD_SIZES] = {64 << 10, 1 << 20, 16 << 20,
                                                             UINT64_MAX};

static void name_add(tt_text *why, const tt_tensor *tensor)
{
    tt_text_add(why, "tensor ");
    tt_text_add_quoted(why, tensor->name != NULL ? tensor->name : "?", NAME_BYTES_SHOWN);
    tt_text_add(why, " is ");
}

static tt_status tensor_check(const tt_workload *workload, const tt_tensor *tensor, tt_text *why)
{
    const double compute_us = tt_workload_compute_us(workload);
    if (!(tensor->first_use_us >= 0 && tensor->first_use_us <= workload->forward_us)) {
        name_add(why, tensor);
        tt_text_add(why, "first used at %g us, outside the forward pass of %g us",
                    tensor->first_use_us, workload->forward_us);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (!(tensor->ready_us >= workload->forward_us && tensor->ready_us <= compute_us)) {
        name_add(why, tensor);
        tt_text_add(why, "ready at %g us, outside the backward pass (%g to %g us)",
                    tensor->ready_us, workload->forward_us, compute_us);
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

tt_status tt_workload_check(const tt_workload *workload, tt_text *why)
{
    if (workload->tensor_count == 0) {
        tt_text_add(why, "there is no tensor to exchange");
        return TT_ERR_BAD_ARGUMENT;
    }
    const bool is_negative = !(workload->forward_us >= 0 && workload->backward_us >= 0);
    if (is_negative || tt_workload_compute_us(workload) > TT_WORKLOAD_US_MAX) {
        tt_text_add(why, "forward of %g us and backward of %g us: ", workload->forward_us,
                    workload->backward_us);
        if (is_negative) {
            tt_text_add(why, "times must not be negative");
        } else {
            tt_text_add(why, "a step has at most %g us", TT_WORKLOAD_US_MAX);
        }
        return TT_ERR_BAD_ARGUMENT;
    }
    for (size_t i = 0; i < workload->tensor_count; i++) {
        TT_TRY(tensor_check(workload, &workload->tensors[i], why));
    }
    return TT_OK;
}

uint64_t tt_workload_bytes(const tt_workload *workload)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < workload->tensor_count; i++) {
        bytes += workload->tensors[i].bytes;
    }
    return bytes;
}

tt_status tt_workload_change_apply(const tt_workload_change *change, const tt_workload *workload,
                                   tt_scratch *scratch, tt_text *why, tt_workload *workload_out)
{
    TT_ASSERT(change->pass_count > 0 && change->time_scale > 0 && change->bytes_scale > 0);
    const double scale = change->time_scale;
    const double before_us = (change->pass_count - 1) * scale * tt_workload_compute_us(workload);
    tt_tensor *tensors = tt_scratch_take(scratch, workload->tensor_count, sizeof(*tensors));
    TT_TRY(tt_scratch_status(scratch));
    const tt_workload changed = {.tensors = tensors,
                                 .tensor_count = workload->tensor_count,
                                 .forward_us = before_us + scale * workload->forward_us,
                                 .backward_us = scale * workload->backward_us};
    for (size_t i = 0; i < workload->tensor_count; i++) {
        const tt_tensor *tensor = &workload->tensors[i];
        const double bytes = round((double)tensor->bytes * change->bytes_scale);
        if (bytes > (double)TT_GRAPH_TENSOR_BYTES_MAX) {
            name_add(why, tensor);
            tt_text_add(why, "%g bytes long: at most %g; scale it less", bytes,
                        (double)TT_GRAPH_TENSOR_BYTES_MAX);
            return TT_ERR_BAD_ARGUMENT;
        }
        tensors[i] = *tensor;
        tensors[i].bytes = bytes < 1 ? tt_min_u64(tensor->bytes, 1) : (uint64_t)bytes;
        tensors[i].first_use_us = fmin(scale * tensor->first_use_us, changed.forward_us);
        tensors[i].ready_us =
            fmin(fmax(before_us + scale * tensor->ready_us, changed.forward_us),
                 tt_workload_compute_us(&changed)); /* rounded times stay in their pass */
    }
    *workload_out = changed;
    return TT_OK;
}

static bool use_before(const void *user, uint32_t a, uint32_t b)
{
    const tt_workload *workload = user;
    return workload->tensors[a].first_use_us < workload->tensors[b].first_use_us;
}

static bool ready_before(const void *user, uint32_t a, uint32_t b)
{
    const tt_workload *workload = user;
    return workload->tensors[a].ready_us < workload->tensors[b].ready_us;
}

static uint32_t *sorted(const tt_workload *workload, tt_scratch *scratch, tt_sort_before_fn *before,
                        bool is_reversed)
{
    const size_t count = workload->tensor_count;
    uint32_t *indices = tt_scratch_take(scratch, count, sizeof(indices[0]));
    uint32_t *spare = tt_scratch_take(scratch, count, sizeof(spare[0]));
    if (indices == NULL || spare == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        indices[i] = (uint32_t)(is_reversed ? count - 1 - i : i);
    }
    tt_sort_indices(indices, spare, count, before, workload);
    return indices;
}

uint32_t *tt_workload_by_use(const tt_workload *workload, tt_scratch *scratch)
{
    return sorted(workload, scratch, use_before, false);
}

uint32_t *tt_workload_by_ready(const tt_workload *workload, tt_scratch *scratch)
{
    return sorted(workload, scratch, ready_before, true);
}

tt_workload_sizes tt_workload_measure(const tt_workload *workload)
{
    tt_workload_sizes sizes = {.largest_bytes = 0};
    for (size_t i = 0; i < workload->tensor_count; i++) {
        const uint64_t bytes = workload->tensors[i].bytes;
        size_t bin = 0;
        while (bin + 1 < TT_WORKLOAD_SIZES && bytes >= tt_workload_size_limits[bin]) {
            bin++;
        }
        sizes.count[bin]++;
        sizes.bytes[bin] += bytes;
        sizes.largest_bytes = tt_max_u64(sizes.largest_bytes, bytes);
    }
    return sizes;
}
