/* SPDX-License-Identifier: Apache-2.0
 *
 * shape.c - shapes, tags and sources: the last fields of tutti_call, which earlier headers lack. */
#include "api/api_internal.h"

_Static_assert((uint32_t)TUTTI_ANY_SOURCE == TT_ANY_SOURCE, "a peer is public ABI");

/* Size of tutti_call in earlier headers: up to the group, the shape, the source, the codec. */
enum {
    CALL_BYTES_FIRST = offsetof(tutti_call, group),
    CALL_BYTES_SECOND = offsetof(tutti_call, ndim),
    CALL_BYTES_THIRD = offsetof(tutti_call, source_out),
    CALL_BYTES_FOURTH = offsetof(tutti_call, codec),
};

bool tt_struct_is_known(const void *given, size_t given_bytes, size_t known_bytes)
{
    const uint8_t *bytes = given;
    if (given_bytes < known_bytes) {
        return false;
    }
    for (size_t i = known_bytes; i < given_bytes && given_bytes < 4 * known_bytes; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return given_bytes < 4 * known_bytes;
}

bool tt_call_is_known(const tutti_call *call)
{
    return call->struct_bytes == CALL_BYTES_FIRST || call->struct_bytes == CALL_BYTES_SECOND ||
           call->struct_bytes == CALL_BYTES_THIRD || call->struct_bytes == CALL_BYTES_FOURTH ||
           tt_struct_is_known(call, call->struct_bytes, sizeof(*call));
}

int *tt_call_source(const tutti_call *call)
{
    return call->struct_bytes > CALL_BYTES_THIRD ? call->source_out : NULL;
}

const char *tt_call_codec(const tutti_call *call)
{
    return call->struct_bytes > CALL_BYTES_FOURTH ? call->codec : NULL;
}

/* The shape and the tag. */
static bool has_last_fields(const tutti_call *call)
{
    return call->struct_bytes >= CALL_BYTES_THIRD;
}

static bool has_shape(const tutti_call *call)
{
    return has_last_fields(call) && call->ndim != 0;
}

bool tt_call_shape_is_good(const tutti_call *call)
{
    return !has_shape(call) ||
           (call->ndim > 0 && call->ndim <= TT_SHAPE_DIMS_MAX && call->dims != NULL);
}

/* Collectives that concatenate or split along the first dimension. */
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
    return !has_last_fields(call) || call->tag == 0 ||
           (is_pair && call->tag > 0 && call->tag <= TT_TAG_MAX);
}

uint32_t tt_call_tag(const tutti_call *call)
{
    const bool has_tag = has_last_fields(call) && tt_call_tag_is_good(call);
    return has_tag ? (uint32_t)call->tag : 0;
}
