/* SPDX-License-Identifier: Apache-2.0
 *
 * shm_ring_fuzz.c - a peer corrupts the ring: the link must stay inside its buffers and in one of
 * its three states.
 *
 * Input: images of the ring (control lines and lines), one after the other. Each overwrites the
 * ring from its start, then both ends poll.
 *
 * Labels: transport */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "machine_fuzz.h"
#include "transport/shm/line_ring.h"
#include "transport/shm/shm.h"

enum { RING_BYTES = 1024, IMAGE_BYTES = sizeof(tt_ring_control) + RING_BYTES, ROUNDS_MAX = 64 };

typedef struct bench {
    tt_segment *segments[2];
    tt_link *links[2];
    fuzz_box boxes[2];
    tt_machine machines[2];
} bench;

static void bench_init(bench *both)
{
    int sockets[2];
    memset(both, 0, sizeof *both);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
        abort();
    }
    for (uint32_t i = 0; i < 2; i++) {
        const tt_segment_config config = {
            .local_index = i, .local_count = 2, .ring_bytes = RING_BYTES, .arena_bytes = 1 << 21};
        if (tt_segment_create(&config, &both->segments[i], NULL) != TT_OK) {
            abort();
        }
        both->machines[i] = (tt_machine){.ops = &FUZZ_MACHINE_OPS, .self = &both->boxes[i]};
    }
    for (uint32_t i = 0; i < 2; i++) {
        const tt_shm_config config = {.peer = 1 - i,
                                      .own = both->segments[i],
                                      .theirs = both->segments[1 - i],
                                      .socket = sockets[i],
                                      .pidfd = -1,
                                      .machine = &both->machines[i]};
        if (tt_shm_link_create(&config, &both->links[i]) != TT_OK) {
            abort();
        }
    }
}

static void bench_fini(bench *both)
{
    for (int i = 0; i < 2; i++) {
        both->links[i]->ops->destroy(both->links[i]);
        tt_segment_release(both->segments[i]);
        free(both->boxes[i].sink);
    }
}

static void poll_and_check(tt_link *link)
{
    for (int i = 0; i < 4; i++) {
        (void)link->ops->poll(link);
    }
    if (link->state > TT_LINK_DOWN) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t payload[40000];
    bench both;
    bench_init(&both);
    const tt_head head = {.payload_bytes = sizeof payload};
    const tt_send send = {.payload = payload, .head = &head};
    uint8_t *ring = tt_segment_ring(both.segments[1], 0);
    for (int round = 0; round < ROUNDS_MAX && size > 0; round++) {
        const size_t bytes = size < IMAGE_BYTES ? size : IMAGE_BYTES;
        memcpy(ring, data, bytes);
        data += bytes;
        size -= bytes;
        poll_and_check(both.links[1]);
        (void)both.links[0]->ops->send(both.links[0], &send);
        poll_and_check(both.links[0]);
    }
    bench_fini(&both);
    return 0;
}
