/* SPDX-License-Identifier: Apache-2.0
 *
 * outside_fuzz.c - input of a link by a plugin's transport: greeting and goodbye over the socket,
 * frames of any length from the plugin.
 *
 * Input: a byte that chooses a valid greeting (of any address) or raw bytes; its length; the
 * greeting; then steps: frames, stored payloads, raw bytes on the socket, a valid goodbye with any
 * number of frames, the end of the stream. The link must stay in one of its three states; it has
 * LEFT only after a goodbye, and only with as many frames as that counts.
 *
 * Labels: transport */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "machine_fuzz.h"
#include "transport/outside.h"

enum { STEPS_MAX = 64, TIMEOUT_MS = 2000 };

typedef struct input {
    const uint8_t *bytes;
    size_t count;
} input;

struct tutti_transport {
    const uint8_t *address; /* sent to the peer */
    size_t address_bytes;
};

struct tutti_link {
    tutti_link_upcalls upcalls;
    void *user;
};

/* ---- a transport that carries nothing; the input makes its upcalls ---- */

static tutti_transport *last_opened;
static tutti_link *last_attached;

static int fake_open(const tutti_plugin_host *host, tutti_transport **out, char *why)
{
    (void)host;
    (void)why;
    *out = last_opened = calloc(1, sizeof(**out));
    return *out != NULL ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
}

static void fake_close(tutti_transport *self)
{
    free(self);
}

static int fake_address(tutti_transport *self, void *bytes, size_t *count)
{
    memcpy(bytes, self->address, self->address_bytes);
    *count = self->address_bytes;
    return TUTTI_OK;
}

static int fake_connect(tutti_transport *self, const tutti_link_place *place, tutti_link **out)
{
    uint8_t copy[TUTTI_TRANSPORT_ADDRESS_BYTES_MAX];
    (void)self;
    TT_ASSERT(place->address_bytes <= sizeof(copy));
    memcpy(copy, place->address, place->address_bytes);
    *out = calloc(1, sizeof(**out));
    return *out != NULL ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
}

static void fake_disconnect(tutti_link *self)
{
    free(self);
}

static void fake_attach(tutti_link *self, const tutti_link_upcalls *upcalls, void *user)
{
    self->upcalls = *upcalls;
    self->user = user;
    last_attached = self;
}

static int fake_send(tutti_link *self, const tutti_frame *frame)
{
    (void)self;
    (void)frame;
    return TUTTI_OK;
}

static void fake_recall(tutti_link *self, uint64_t token)
{
    (void)self;
    (void)token;
}

static void fake_discard(tutti_link *self)
{
    (void)self;
}

static int fake_poll(tutti_transport *self)
{
    (void)self;
    return 0;
}

static int fake_descriptor(const tutti_transport *self)
{
    (void)self;
    return -1;
}

static int fake_is_idle(const tutti_link *self)
{
    (void)self;
    return 1;
}

static int fake_state(const tutti_link *self, char *why)
{
    (void)self;
    (void)why;
    return 0;
}

static const tutti_transport_ops fake_ops = {
    .struct_bytes = sizeof(tutti_transport_ops),
    .flags = TUTTI_TRANSPORT_POLLED,
    .open = fake_open,
    .close = fake_close,
    .address = fake_address,
    .connect = fake_connect,
    .disconnect = fake_disconnect,
    .attach = fake_attach,
    .send = fake_send,
    .recall = fake_recall,
    .discard = fake_discard,
    .poll = fake_poll,
    .descriptor = fake_descriptor,
    .arm = fake_poll,
    .is_idle = fake_is_idle,
    .state = fake_state,
};

/* ---- two ends: ours, and a hostile one ---- */

typedef struct bench {
    tt_outside *outside[2];
    tt_outside_config configs[2];
    tt_link *links[2];
    tutti_link *plugin_link; /* ours */
    fuzz_box boxes[2];
    tt_machine machines[2];
    bool has_goodbye, is_closing; /* the hostile end's was sent; ours is to be sent */
    uint64_t said_count;          /* frames, by the valid goodbye */
} bench;

static void bench_init(bench *self)
{
    static const uint8_t keys[2][TT_OUTSIDE_KEY_BYTES] = {{1}, {2}};
    int fds[2][2];
    memset(self, 0, sizeof(*self));
    for (int i = 0; i < 2; i++) {
        const tutti_plugin plugin = {.abi = TUTTI_PLUGIN_ABI, .transport = &fake_ops};
        const tutti_plugin_host host = {.struct_bytes = sizeof(host), .size = 2};
        char why[TUTTI_PLUGIN_WHY_BYTES];
        TT_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds[i]) == 0);
        TT_ASSERT(tt_outside_open(&plugin, &host, &self->outside[i], why) == TT_OK);
        last_opened->address = (const uint8_t *)"a";
        last_opened->address_bytes = 1;
        self->machines[i] = (tt_machine){.ops = &FUZZ_MACHINE_OPS, .self = &self->boxes[i]};
    }
    for (int i = 0; i < 2; i++) {
        self->configs[i] = (tt_outside_config){.peer = 1,
                                               .send_fd = fds[i][0],
                                               .receive_fd = fds[1 - i][1],
                                               .send_key = keys[i],
                                               .receive_key = keys[1 - i]};
    }
}

static void bench_fini(bench *self)
{
    for (int i = 0; i < 2; i++) {
        if (self->links[i] != NULL) {
            self->links[i]->ops->destroy(self->links[i]);
        } else {
            (void)close(self->configs[i].send_fd);
            (void)close(self->configs[i].receive_fd);
        }
        tt_outside_release(self->outside[i]);
        free(self->boxes[i].sink);
    }
}

static uint8_t take(input *from)
{
    if (from->count == 0) {
        return 0;
    }
    from->count--;
    return *from->bytes++;
}

static input take_bytes(input *from, size_t count)
{
    const input taken = {.bytes = from->bytes, .count = from->count < count ? from->count : count};
    from->bytes += taken.count;
    from->count -= taken.count;
    return taken;
}

/* False: there is no link. */
static bool meet(bench *self, input *from)
{
    const bool is_true = take(from) % 2 == 0;
    const input words = take_bytes(from, take(from));
    if (is_true && words.count > 0) { /* `last_opened` is the hostile end's */
        last_opened->address = words.bytes;
        last_opened->address_bytes = words.count;
        TT_ASSERT(tt_outside_greet(self->outside[1], &self->configs[1]) == TT_OK);
    } else {
        (void)!send(self->configs[1].send_fd, words.bytes, words.count, MSG_NOSIGNAL);
        (void)shutdown(self->configs[1].send_fd, SHUT_WR);
    }
    TT_ASSERT(tt_outside_greet(self->outside[0], &self->configs[0]) == TT_OK);
    for (int i = 1; i >= 0; i--) {
        if (tt_outside_link_create(self->outside[i], &self->configs[i], TIMEOUT_MS,
                                   &self->links[i]) != TT_OK) {
            self->links[i] = NULL;
            return false;
        }
        self->links[i]->machine = &self->machines[i];
    }
    return true;
}

static void say_frame(const tutti_link *link, input *from)
{
    static uint8_t payload[TT_INLINE_BYTES_MAX];
    const uint32_t bytes = (uint32_t)take(from) << 8 | take(from);
    const bool is_honest = take(from) % 4 != 0;
    const bool is_long = bytes > TT_INLINE_BYTES_MAX;
    const tt_head head = {.kind = 1, .payload_bytes = is_honest ? bytes : bytes * 65537};
    void *sink = link->upcalls.frame(link->user, &head, is_long ? NULL : payload, bytes);
    if (sink != NULL) {
        memset(sink, 1, bytes);
        link->upcalls.stored(link->user, &head);
    }
}

static void say_goodbye(bench *self, uint8_t frame_count)
{
    tt_link *liar = self->links[1];
    const tt_head head = {.kind = 1};
    const tt_send send = {.head = &head, .token = TT_TOKEN_NONE};
    for (uint8_t i = 0; i < frame_count && !self->has_goodbye; i++) {
        (void)liar->ops->send(liar, &send);
        self->said_count++;
    }
    self->has_goodbye = true;
    liar->ops->close(liar);
    (void)liar->ops->poll(liar);
}

static void step(bench *self, input *from)
{
    const uint8_t choice = take(from);
    tt_link *link = self->links[0];
    const tt_link_state before = link->state;
    input raw;
    switch (choice % 8) {
    case 0:
    case 1:
    case 2:
        say_frame(self->plugin_link, from);
        break;
    case 3:
        raw = take_bytes(from, take(from));
        (void)!send(self->configs[1].send_fd, raw.bytes, raw.count, MSG_NOSIGNAL | MSG_DONTWAIT);
        break;
    case 4:
        say_goodbye(self, take(from));
        break;
    case 5:
        (void)shutdown(self->configs[1].send_fd, SHUT_WR);
        break;
    case 6:
        link->ops->discard(link);
        break;
    default:
        link->ops->close(link);
        self->is_closing = true;
        break;
    }
    link->ready = true;
    (void)link->ops->poll(link);
    TT_ASSERT(link->state <= TT_LINK_DOWN);
    TT_ASSERT(before == TT_LINK_UP || link->state == before);
    TT_ASSERT(link->state != TT_LINK_LEFT || self->is_closing ||
              (self->has_goodbye && link->frames_received >= self->said_count));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input from = {.bytes = data, .count = size};
    bench self;
    bench_init(&self);
    if (meet(&self, &from)) {
        self.plugin_link = last_attached; /* ours was made last */
        for (int i = 0; i < STEPS_MAX && from.count > 0; i++) {
            step(&self, &from);
        }
    }
    bench_fini(&self);
    return 0;
}
