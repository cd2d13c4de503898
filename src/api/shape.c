/* SPDX-License-Identifier: Apache-2.0
 *
 * shape.c - shapes and tags of calls: the last fields of tutti_call, which earlier headers lack. */
#include "api/api_internal.h"

static bool has_shape(const tutti_call *call)
{
    return call->struct_bytes >= sizeof(*call) && call->ndim != 0;
}

bool tt_call_shape_is_good(const tutti_call *call)
{
    return !has_shape(call) ||
           (call->ndim > 0 && call->ndim <= TT_SHAPE_DIMS_MAX && call->dims != NULL);
}

/* Where parts are put side by side, or the whole is cut, along the first dimension. */
static bool is_first_free(tutti_collective collective)
{
    return collective == TUTTI_ALLGATHER || collective == TUTTI_GATHER ||
           collective == TUTTI_SCATTER || collective == TUTTI_ALLTOALL;
}

static bool is_compared(tutti_collective collective)
{
    return collective != TUTTI_SEND && collective != TUTTI_RECEIVE && collective != TUTTI_BARRIER;
}

void tt_call_shape(const tutti_call *call, tt_request *request)
{
    request->shape[0] = 0;
    request->about = TT_ABOUT_NOTHING;
    if (has_shape(call) && tt_call_shape_is_good(call) && is_compared(call->collective)) {
        tt_shape_write(request->shape, call->dims, (uint32_t)call->ndim,
                       is_first_free(call->collective));
    }
}

bool tt_call_tag_is_good(const tutti_call *call)
{
    const bool is_pair = call->collective == TUTTI_SEND || call->collective == TUTTI_RECEIVE;
    return call->struct_bytes < sizeof(*call) || call->tag == 0 ||
           (is_pair && call->tag > 0 && call->tag <= TT_TAG_MAX);
}

uint32_t tt_call_tag(const tutti_call *call)
{
    const bool has_tag = call->struct_bytes >= sizeof(*call) && tt_call_tag_is_good(call);
    return has_tag ? (uint32_t)call->tag : 0;
}
