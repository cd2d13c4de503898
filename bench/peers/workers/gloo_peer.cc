// SPDX-License-Identifier: Apache-2.0
//
// gloo_peer.cc - Gloo itself, without a framework: its ring over TCP on the loopback interface.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "worker.h"

static std::shared_ptr<gloo::rendezvous::Context> context;

static int join(int *rank_out, int *size_out)
try {
    *rank_out = bench_variable("BENCH_RANK");
    *size_out = bench_variable("BENCH_SIZE");
    gloo::transport::tcp::attr attributes;
    attributes.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(std::getenv("BENCH_STORE"));
    context = std::make_shared<gloo::rendezvous::Context>(*rank_out, *size_out);
    context->connectFullMesh(store, device);
    return BENCH_OK;
} catch (const std::exception &error) {
    std::fprintf(stderr, "gloo: %s\n", error.what());
    return BENCH_FAILED;
}

static void allreduce(const bench_case *item)
{
    gloo::AllreduceOptions options(context);
    options.setOutput(item->output, item->count);
    options.setReduceFunction(
        static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
}

static void broadcast(const bench_case *item)
{
    gloo::BroadcastOptions options(context);
    options.setOutput(item->output, item->count);
    options.setRoot(0);
    gloo::broadcast(options);
}

static void allgather(const bench_case *item)
{
    gloo::AllgatherOptions options(context);
    options.setInput(item->input, item->input_count);
    options.setOutput(item->output, item->output_count);
    gloo::allgather(options);
}

static void alltoall(const bench_case *item)
{
    gloo::AlltoallOptions options(context);
    options.setInput(item->input, item->input_count);
    options.setOutput(item->output, item->output_count);
    gloo::alltoall(options);
}

static int call(const bench_case *item)
try {
    switch (item->collective) {
    case BENCH_ALLREDUCE:
        allreduce(item);
        return BENCH_OK;
    case BENCH_BROADCAST:
        broadcast(item);
        return BENCH_OK;
    case BENCH_ALLGATHER:
        allgather(item);
        return BENCH_OK;
    case BENCH_ALLTOALL:
        alltoall(item);
        return BENCH_OK;
    default:
        return BENCH_UNSUPPORTED;
    }
} catch (const std::exception &error) {
    std::fprintf(stderr, "gloo: %s\n", error.what());
    return BENCH_FAILED;
}

static void leave()
{
    context.reset();
}

int main()
{
    const bench_peer peer = {join, bench_allocate, bench_release, call, leave};
    return bench_worker_run(&peer);
}
