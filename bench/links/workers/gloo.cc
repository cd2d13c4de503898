/* SPDX-License-Identifier: Apache-2.0
 *
 * gloo.cc - Gloo over TCP as a worker: BENCH_RANK of BENCH_SIZE, at BENCH_ADDRESS, meeting in the
 * folder BENCH_STORE. */
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "worker.h"

namespace {

using context_pointer = std::shared_ptr<gloo::rendezvous::Context>;

int allreduce(void *self, float *values, size_t count) try {
    gloo::AllreduceOptions options(*static_cast<context_pointer *>(self));
    options.setOutput(values, count);
    options.setReduceFunction([](void *c, const void *a, const void *b, size_t n) {
        gloo::sum<float>(c, a, b, n);
    });
    gloo::allreduce(options);
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "gloo: %s\n", error.what());
    return 1;
}

int barrier(void *self) try {
    gloo::BarrierOptions options(*static_cast<context_pointer *>(self));
    gloo::barrier(options);
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "gloo: %s\n", error.what());
    return 1;
}

} // namespace

int main() try {
    const int rank = std::atoi(std::getenv("BENCH_RANK"));
    const int size = std::atoi(std::getenv("BENCH_SIZE"));
    gloo::transport::tcp::attr attributes;
    attributes.hostname = std::getenv("BENCH_ADDRESS");
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(std::getenv("BENCH_STORE"));
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(store, device);
    std::vector<float> values(worker_bytes_max() / sizeof(float));
    worker_library library = {};
    library.allreduce = allreduce;
    library.barrier = barrier;
    library.self = &context;
    library.values = values.data();
    library.count_max = values.size();
    library.rank = rank;
    library.size = size;
    return worker_serve(&library);
} catch (const std::exception &error) {
    std::fprintf(stderr, "gloo: %s\n", error.what());
    return 1;
}
