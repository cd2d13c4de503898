/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_stream_fuzz.c - a hostile peer that has the key: lengths, payloads, tags and ends of frames,
 * over one TCP connection or several that are one link.
 *
 * Input: a byte for mode, number of streams and whether threads are lent, then steps. A step is a
 * byte that chooses the bytes to send, the stream, and the rest: a sealed head with any length,
 * payload with or without its tag, raw bytes, the end of the stream. The link must stay inside its
 * buffers and in one of its three states, and never leave DOWN or LEFT.
 *
 * Labels: transport */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "machine_fuzz.h"
#include "transport/tcp/streams.h"
#include "transport/tcp/tcp.h"

enum { STREAMS_MAX = 3, STEPS_MAX = 64, PIECE_BYTES_MAX = 4096 };

typedef struct liar {
    tt_seal seal;
    int fd;      /* it writes */
    int drop_fd; /* what the link sends to it, unread */
} liar;

typedef struct bench {
    tt_seal_mode mode;
    uint32_t count;
    liar liars[STREAMS_MAX];
    tt_link *link;
    fuzz_box box;
    tt_machine machine;
} bench;

typedef struct input {
    const uint8_t *bytes;
    size_t count;
} input;

static uint8_t take(input *from)
{
    if (from->count == 0) {
        return 0;
    }
    from->count--;
    return *from->bytes++;
}

/* Lent threads that never run: every task is done when it is finished. */
static void hands_post(void *owner, tt_task *task)
{
    (void)owner, (void)task;
}

static void hands_call(void *owner)
{
    (void)owner;
}

static bool hands_is_done(void *owner, const tt_task *task)
{
    (void)owner, (void)task;
    return false;
}

static void hands_finish(void *owner, tt_task *task)
{
    (void)owner;
    task->run(task);
}

static const tt_hands_ops HANDS_OPS = {
    .post = hands_post, .call = hands_call, .is_done = hands_is_done, .finish = hands_finish};
static const tt_hands HANDS = {.ops = &HANDS_OPS};

static tt_link *stream_make(bench *self, liar *peer)
{
    int to_link[2], from_link[2];
    tt_link *made = NULL;
    tt_tcp_config config = {.peer = 1, .mode = self->mode, .machine = &self->machine};
    TT_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to_link) == 0);
    TT_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, from_link) == 0);
    memset(config.receive_key, 7, sizeof(config.receive_key));
    config.receive_fd = to_link[0];
    config.send_fd = from_link[0];
    peer->fd = to_link[1];
    peer->drop_fd = from_link[1];
    TT_ASSERT(tt_seal_init(&peer->seal, config.receive_key) == TT_OK);
    TT_ASSERT(tt_tcp_link_create(&config, &made) == TT_OK);
    return made;
}

static void bench_init(bench *self, uint8_t choice)
{
    tt_link *links[STREAMS_MAX];
    memset(self, 0, sizeof(*self));
    self->mode = (tt_seal_mode)(choice % 3);
    self->count = 1 + choice / 3 % STREAMS_MAX;
    self->machine = (tt_machine){.ops = &FUZZ_MACHINE_OPS, .self = &self->box};
    for (uint32_t i = 0; i < self->count; i++) {
        links[i] = stream_make(self, &self->liars[i]);
    }
    self->link = links[0];
    if (self->count > 1) {
        TT_ASSERT(tt_streams_link_create(links, self->count, &self->link) == TT_OK);
    }
    self->link->hands = choice / 9 % 2 == 1 ? &HANDS : NULL;
}

static void bench_fini(bench *self)
{
    self->link->ops->destroy(self->link);
    for (uint32_t i = 0; i < self->count; i++) {
        close(self->liars[i].fd);
        close(self->liars[i].drop_fd);
        tt_seal_fini(&self->liars[i].seal);
    }
    free(self->box.sink);
}

/* Bytes that do not fit the socket are lost, which is one more fault. */
static void say(const liar *self, const void *bytes, size_t count)
{
    (void)!send(self->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void say_head(liar *self, uint32_t payload_bytes)
{
    const tt_head head = {.kind = 1, .payload_bytes = payload_bytes};
    uint8_t sealed[TT_SEAL_SEALED_HEAD_BYTES];
    TT_ASSERT(tt_seal_head(&self->seal, (const uint8_t *)&head, sealed) == TT_OK);
    say(self, sealed, sizeof(sealed));
}

/* The payload of a whole frame, with its tag; flipped: wrong in its last byte. */
static void say_payload(const bench *self, liar *peer, uint32_t count, bool is_flipped)
{
    static uint8_t bytes[TT_SEAL_BLOCK_BYTES_MAX + TT_SEAL_TAG_BYTES];
    size_t wire = count;
    TT_ASSERT(count > 0 && count <= TT_SEAL_BLOCK_BYTES_MAX);
    memset(bytes, 0x5a, count);
    if (self->mode == TT_SEAL_CRC) {
        tt_seal_crc_encode(tt_seal_crc_add(0, bytes, count), bytes + count);
        wire += TT_SEAL_CRC_BYTES;
    } else if (self->mode == TT_SEAL_AEAD) {
        TT_ASSERT(tt_seal_payload_block(&peer->seal, bytes, count, bytes, bytes + count) == TT_OK);
        wire += TT_SEAL_TAG_BYTES;
    }
    bytes[wire - 1] ^= is_flipped ? 1 : 0;
    say(peer, bytes, wire);
}

static uint32_t take_length(input *from)
{
    static const uint32_t lengths[] = {0,
                                       1,
                                       TT_INLINE_BYTES_MAX,
                                       TT_INLINE_BYTES_MAX + 1,
                                       TT_SEAL_BLOCK_BYTES_MAX,
                                       TT_SEAL_BLOCK_BYTES_MAX + 1,
                                       TT_PAYLOAD_BYTES_MAX,
                                       TT_PAYLOAD_BYTES_MAX + 1,
                                       UINT32_MAX - 1,
                                       UINT32_MAX};
    const uint8_t choice = take(from);
    if (choice < sizeof(lengths) / sizeof(lengths[0])) {
        return lengths[choice];
    }
    return (uint32_t)choice << 8 | take(from);
}

static void step(bench *self, input *from)
{
    const uint8_t choice = take(from);
    liar *peer = &self->liars[choice / 16 % self->count];
    uint32_t count;
    switch (choice % 8) {
    case 0: /* a valid frame, except for a flip */
    case 1:
        count = 1 + take_length(from) % TT_SEAL_BLOCK_BYTES_MAX;
        say_head(peer, count);
        say_payload(self, peer, count, choice % 8 == 1);
        break;
    case 2: /* a head alone: what follows is taken for its payload */
        say_head(peer, take_length(from));
        break;
    case 3: /* raw bytes */
        count = take(from);
        count = from->count < count ? (uint32_t)from->count : count;
        say(peer, from->bytes, count);
        from->bytes += count;
        from->count -= count;
        break;
    case 4: /* a block that no head announced */
        say_payload(self, peer, choice >= 128 ? TT_SEAL_BLOCK_BYTES_MAX : 1U + take(from), false);
        break;
    case 5:
        self->box.drops = !self->box.drops;
        break;
    case 6:
        self->link->ops->discard(self->link);
        break;
    default:
        (void)shutdown(peer->fd, SHUT_WR);
        break;
    }
    if ((choice & 8) != 0) { /* else more is sent before the link is polled */
        const tt_link_state before = self->link->state;
        (void)self->link->ops->poll(self->link);
        TT_ASSERT(self->link->state <= TT_LINK_DOWN);
        TT_ASSERT(before == TT_LINK_UP || self->link->state == before);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input from = {.bytes = data, .count = size};
    bench self;
    bench_init(&self, take(&from));
    for (int i = 0; i < STEPS_MAX && from.count > 0; i++) {
        step(&self, &from);
    }
    for (int i = 0; i < 4; i++) {
        (void)self.link->ops->poll(self.link);
    }
    bench_fini(&self);
    return 0;
}
