/* SPDX-License-Identifier: Apache-2.0
 *
 * short.c - the blocking calls on the world, as short forms of tutti_run. */
#include "api/api_internal.h"

static tutti_call call_of(tutti_collective collective, const void *input, void *output,
                          uint64_t count, tutti_dtype dtype)
{
    tutti_call call = TUTTI_CALL_INIT;
    call.collective = collective;
    call.input = input;
    call.output = output;
    call.count = count;
    call.dtype = dtype;
    return call;
}

tutti_status tutti_allreduce(tutti_context *context, const void *input, void *output,
                             uint64_t count, tutti_dtype dtype, tutti_op op)
{
    tutti_call call = call_of(TUTTI_ALLREDUCE, input, output, count, dtype);
    call.op = op;
    return tt_call_run(context, &call, NULL);
}

tutti_status tutti_reduce(tutti_context *context, const void *input, void *output, uint64_t count,
                          tutti_dtype dtype, tutti_op op, int root)
{
    tutti_call call = call_of(TUTTI_REDUCE, input, output, count, dtype);
    call.op = op;
    call.root = root;
    return tt_call_run(context, &call, NULL);
}

tutti_status tutti_broadcast(tutti_context *context, void *buffer, uint64_t count,
                             tutti_dtype dtype, int root)
{
    tutti_call call = call_of(TUTTI_BROADCAST, buffer, buffer, count, dtype);
    call.root = root;
    return tt_call_run(context, &call, NULL);
}

tutti_status tutti_allgather(tutti_context *context, const void *input, void *output,
                             uint64_t count, tutti_dtype dtype)
{
    const tutti_call call = call_of(TUTTI_ALLGATHER, input, output, count, dtype);
    return tt_call_run(context, &call, NULL);
}

tutti_status tutti_gather(tutti_context *context, const void *input, void *output, uint64_t count,
                          tutti_dtype dtype, int root)
{
    tutti_call call = call_of(TUTTI_GATHER, input, output, count, dtype);
    call.root = root;
    return tt_call_run(context, &call, NULL);
}

tutti_status tutti_scatter(tutti_context *context, const void *input, void *output, uint64_t count,
                           tutti_dtype dtype, int root)
{
    tutti_call call = call_of(TUTTI_SCATTER, input, output, count, dtype);
    call.root = root;
    return tt_call_run(context, &call, NULL);
}

tutti_status tutti_reducescatter(tutti_context *context, const void *input, void *output,
                                 uint64_t count, tutti_dtype dtype, tutti_op op)
{
    tutti_call call = call_of(TUTTI_REDUCESCATTER, input, output, count, dtype);
    call.op = op;
    return tt_call_run(context, &call, NULL);
}

tutti_status tutti_alltoall(tutti_context *context, const void *input, void *output, uint64_t count,
                            tutti_dtype dtype)
{
    const tutti_call call = call_of(TUTTI_ALLTOALL, input, output, count, dtype);
    return tt_call_run(context, &call, NULL);
}

tutti_status tutti_send(tutti_context *context, const void *buffer, uint64_t count,
                        tutti_dtype dtype, int peer)
{
    tutti_call call = call_of(TUTTI_SEND, buffer, NULL, count, dtype);
    call.root = peer;
    return tt_call_run(context, &call, NULL);
}

tutti_status tutti_receive(tutti_context *context, void *buffer, uint64_t count, tutti_dtype dtype,
                           int peer)
{
    tutti_call call = call_of(TUTTI_RECEIVE, NULL, buffer, count, dtype);
    call.root = peer;
    return tt_call_run(context, &call, NULL);
}

tutti_status tutti_barrier(tutti_context *context)
{
    const tutti_call call = call_of(TUTTI_BARRIER, NULL, NULL, 0, TUTTI_U8);
    return tt_call_run(context, &call, NULL);
}
