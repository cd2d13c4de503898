/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_peer.c - no library: what the memory of this host gives to P processes that access it as
 * a direct all-reduce must.
 *
 * The ranks' buffers lie in one shared file. Rank r reads slice r of every buffer, adds in
 * registers, and stores the sum to slice r of every buffer, once, without a barrier inside: each
 * byte of P buffers is read once and written once, 2 P S bytes a call. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker.h"

enum { LINE_FLOATS = 16, RANKS_MAX = 64 };

typedef float line __attribute__((vector_size(LINE_FLOATS * sizeof(float))));

typedef struct host_memory {
    char *start;
    size_t buffer_bytes;
    int rank;
    int size;
} host_memory;

static host_memory memory;

static int join(int *rank_out, int *size_out)
{
    const char *path = getenv("BENCH_MEMORY");
    const char *bytes_text = getenv("BENCH_MEMORY_BYTES");
    const int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    *rank_out = memory.rank = bench_variable("BENCH_RANK");
    *size_out = memory.size = bench_variable("BENCH_SIZE");
    if (fd < 0 || bytes_text == NULL || memory.size < 1 || memory.size > RANKS_MAX) {
        return BENCH_FAILED;
    }
    memory.buffer_bytes = (size_t)strtoull(bytes_text, NULL, 10);
    memory.start = mmap(NULL, memory.buffer_bytes * (size_t)memory.size, PROT_READ | PROT_WRITE,
                        MAP_SHARED, fd, 0);
    close(fd);
    return memory.start == MAP_FAILED ? BENCH_FAILED : BENCH_OK;
}

static void *allocate(size_t bytes, int is_arena)
{
    (void)is_arena;
    return bytes <= memory.buffer_bytes ? memory.start + memory.buffer_bytes * (size_t)memory.rank
                                        : NULL;
}

static void release(void *unused, int is_arena)
{
    (void)unused;
    (void)is_arena;
}

static void sum_two(line *a, line *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const line sum = a[i] + b[i];
        a[i] = sum;
        b[i] = sum;
    }
}

static void sum_slices(line **slices, int size, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        line sum = slices[0][i];
        for (int peer = 1; peer < size; peer++) {
            sum += slices[peer][i];
        }
        for (int peer = 0; peer < size; peer++) {
            slices[peer][i] = sum;
        }
    }
}

static int call(const bench_case *item)
{
    line *slices[RANKS_MAX];
    const size_t line_count = item->count / LINE_FLOATS / (size_t)item->size;
    if (item->collective != BENCH_ALLREDUCE) {
        return BENCH_UNSUPPORTED;
    }
    for (int peer = 0; peer < item->size; peer++) {
        slices[peer] = (line *)(void *)(memory.start + memory.buffer_bytes * (size_t)peer) +
                       line_count * (size_t)item->rank;
    }
    if (item->size == 2) {
        sum_two(slices[0], slices[1], line_count);
    } else {
        sum_slices(slices, item->size, line_count);
    }
    return BENCH_OK;
}

static void leave(void)
{
    munmap(memory.start, memory.buffer_bytes * (size_t)memory.size);
}

int main(void)
{
    const bench_peer peer = {join, allocate, release, call, leave};
    return bench_worker_run(&peer);
}
