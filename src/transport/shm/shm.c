/* SPDX-License-Identifier: Apache-2.0
 *
 * shm.c - frames through rings in shared memory; see shm.h for the invariants, line_ring.h for the
 * format and segment.h for the place of the rings.
 *
 * One argument covers waking in both directions: one side stores (a line; free lines) with a full
 * barrier and then reads the peer's wake word; the other side stores ASLEEP with a full barrier
 * and then checks the ring. At least one of them sees the other's store. Only the sender whose
 * exchange replaces ASLEEP rings the bell, so one sleep costs one byte however many senders there
 * are.
 */
#include "transport/shm/shm.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "transport/frame_queue.h"
#include "transport/shm/line_ring.h"

enum { POLL_BYTES_MAX = 256 * 1024 };

/* The frame that is being written. */
typedef struct outgoing {
    tt_queued_frame frame;
    uint32_t bytes_written;
    bool active;
    bool begun;
    bool tells_sent; /* the payload is borrowed: `sent` is due */
} outgoing;

/* The frame that is being read. */
typedef struct incoming {
    tt_head head;
    uint8_t *sink; /* NULL: drop */
    uint32_t bytes_read;
    bool active;
    bool is_inline;
} incoming;

typedef struct shm_link {
    tt_link link;
    tt_segment *own, *theirs;
    _Atomic uint32_t *peer_wake;
    tt_ring_out out;
    tt_ring_in in;
    tt_ring_in board;     /* the peer's */
    tt_ring_line silence; /* in place of its lines, where the link is apart; never written */
    outgoing current;
    incoming arriving;
    tt_frame_queue queue;
    uint8_t *bounce;      /* TT_INLINE_BYTES_MAX: small payloads of several lines */
    uint8_t *recall_copy; /* TT_PAYLOAD_BYTES_MAX: the rest of a recalled frame */
    const char *gone;     /* how the end of the peer was detected; NULL while it lives */
    int socket, pidfd;
    bool starved; /* as published to the peer */
    bool closing, goodbye_put;
} shm_link;

static shm_link *shm_of(tt_link *link)
{
    return TT_CONTAINER_OF(link, shm_link, link);
}

static void end(shm_link *shm, const char *why)
{
    shm->link.state = TT_LINK_DOWN;
    snprintf(shm->link.why, sizeof shm->link.why, "%s", why);
    shm->current.active = false;
    shm->arriving.active = false;
    shm->queue.count = 0;
}

static void end_malformed(shm_link *shm)
{
    end(shm, "malformed frame in shared memory");
}

static void wake_peer(shm_link *shm)
{
    if (atomic_load_explicit(shm->peer_wake, memory_order_seq_cst) != TT_WAKE_ASLEEP ||
        atomic_exchange_explicit(shm->peer_wake, TT_WAKE_DRIVING, memory_order_seq_cst) !=
            TT_WAKE_ASLEEP) {
        return;
    }
    /* A full socket already wakes the peer; a broken one is detected by poll. */
    const char bell = 0;
    (void)!send(shm->socket, &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* True: the ring has room for a fragment. If not, request a wake-up and check once more. */
static bool has_room(shm_link *shm, tt_ring_kind kind, uint32_t bytes)
{
    tt_status status = tt_ring_room(&shm->out, kind, bytes);
    if (status == TT_IN_PROGRESS && !shm->starved) {
        shm->starved = true;
        tt_ring_set_starved(&shm->out, true);
        status = tt_ring_room(&shm->out, kind, bytes);
    }
    if (status == TT_ERR_BAD_WIRE) {
        end_malformed(shm);
    }
    return status == TT_OK;
}

/* Write fragments of the current frame while there is room; true when all are written. */
static bool write_current(shm_link *shm, uint32_t *budget)
{
    outgoing *current = &shm->current;
    const uint32_t total = current->frame.head.payload_bytes;
    do {
        const tt_ring_kind kind = current->begun ? TT_RING_NEXT : TT_RING_FIRST;
        const uint32_t bytes = (uint32_t)tt_min_u64(total - current->bytes_written,
                                                    tt_ring_fragment_bytes_max(&shm->out, kind));
        if (*budget == 0 || !has_room(shm, kind, bytes)) {
            return false;
        }
        const uint8_t *payload = current->frame.payload;
        tt_ring_put(&shm->out, kind, &current->frame.head,
                    bytes > 0 ? payload + current->bytes_written : NULL, bytes);
        wake_peer(shm);
        current->begun = true;
        current->bytes_written += bytes;
        *budget -= (uint32_t)tt_min_u64(*budget, bytes + TT_RING_LINE_BYTES);
    } while (current->bytes_written < total);
    current->active = false;
    shm->link.bytes_sent += total;
    shm->link.frames_sent++;
    return true;
}

/* Send a frame of one fragment through an idle link with room; false: it must be queued. */
static bool send_whole(shm_link *shm, const tt_send *send)
{
    const uint32_t bytes = send->head->payload_bytes;
    if (shm->current.active || shm->queue.count > 0 ||
        bytes > tt_ring_fragment_bytes_max(&shm->out, TT_RING_FIRST) ||
        tt_ring_room(&shm->out, TT_RING_FIRST, bytes) != TT_OK) {
        return false;
    }
    tt_ring_put(&shm->out, TT_RING_FIRST, send->head, send->payload, bytes);
    wake_peer(shm);
    shm->link.bytes_sent += bytes;
    shm->link.frames_sent++;
    return true;
}

/* Set link->arrivals to the words of the next fragments. */
static void watch_rings(shm_link *shm)
{
    const tt_ring_in *in = &shm->in, *board = &shm->board;
    const bool has_more = shm->current.active || shm->queue.count > 0 || shm->starved ||
                          shm->closing || shm->gone != NULL;
    shm->link.arrivals[0] = has_more ? NULL : &in->lines[in->position & in->mask].word;
    shm->link.arrivals[1] = has_more ? NULL : &board->lines[board->position & board->mask].word;
}

static tt_status shm_send(tt_link *link, const tt_send *send)
{
    shm_link *shm = shm_of(link);
    TT_ASSERT(send->head->payload_bytes <= TT_PAYLOAD_BYTES_MAX);
    TT_ASSERT(send->payload != NULL || send->head->payload_bytes == 0);
    if (link->state != TT_LINK_UP) {
        return link->state == TT_LINK_LEFT ? TT_ERR_PEER_LEFT : TT_ERR_PEER_DOWN;
    }
    if (shm->closing) {
        return TT_ERR_SHUT_DOWN;
    }
    if (send_whole(shm, send)) {
        return TT_OK;
    }
    if (!shm->current.active && shm->queue.count == 0) {
        shm->current = (outgoing){
            .frame = {.head = *send->head, .payload = send->payload, .token = send->token},
            .active = true,
        };
        uint32_t budget = UINT32_MAX;
        if (write_current(shm, &budget)) {
            return TT_OK;
        }
        if (link->state != TT_LINK_UP) {
            return TT_ERR_PEER_DOWN;
        }
        if (shm->current.begun) {
            shm->current.tells_sent = true;
            watch_rings(shm);
            return TT_IN_PROGRESS;
        }
        shm->current.active = false;
    }
    const tt_status status = tt_frame_queue_push(&shm->queue, send);
    watch_rings(shm);
    return status == TT_OK ? TT_IN_PROGRESS : status;
}

static void shm_recall(tt_link *link, uint64_t token)
{
    shm_link *shm = shm_of(link);
    outgoing *current = &shm->current;
    if (current->active && current->tells_sent && current->frame.token == token) {
        const uint32_t rest = current->frame.head.payload_bytes - current->bytes_written;
        memcpy(shm->recall_copy + current->bytes_written,
               (const uint8_t *)current->frame.payload + current->bytes_written, rest);
        current->frame.payload = shm->recall_copy;
        current->tells_sent = false;
        return;
    }
    (void)tt_frame_queue_remove(&shm->queue, token);
}

static void shm_discard(tt_link *link)
{
    incoming *arriving = &shm_of(link)->arriving;
    if (arriving->active && !arriving->is_inline) {
        arriving->sink = NULL;
    }
}

static bool put_goodbye(shm_link *shm)
{
    if (!has_room(shm, TT_RING_GOODBYE, 0)) {
        return false;
    }
    tt_ring_put(&shm->out, TT_RING_GOODBYE, NULL, NULL, 0);
    wake_peer(shm);
    shm->goodbye_put = true;
    return true;
}

/* The peer has left and will not read waiting frames: their payloads are given back. The peer may
 * still wait for other ranks; after our goodbye it does not take the end of this process for a
 * death. */
static void leave(shm_link *shm)
{
    const tt_machine *machine = shm->link.machine;
    const outgoing current = shm->current;
    const bool is_between_frames = !current.active || !current.begun;
    if (!shm->goodbye_put && is_between_frames) {
        (void)put_goodbye(shm);
    }
    if (shm->link.state != TT_LINK_UP) {
        return; /* its ring is corrupt */
    }
    shm->current.active = false;
    shm->arriving.active = false;
    shm->link.state = TT_LINK_LEFT;
    snprintf(shm->link.why, sizeof shm->link.why, "left");
    if (current.active && current.tells_sent) {
        machine->ops->sent(machine->self, current.frame.token);
    }
    tt_queued_frame frame;
    while (tt_frame_queue_pop(&shm->queue, &frame)) {
        machine->ops->sent(machine->self, frame.token);
    }
}

/* Make the most urgent waiting frame the current one, but only once it can begin: until then a
 * more urgent one may still overtake it. */
static bool begin_next(shm_link *shm)
{
    const tt_queued_frame *top = tt_frame_queue_top(&shm->queue);
    if (top == NULL) {
        return false;
    }
    const uint32_t bytes_max = tt_ring_fragment_bytes_max(&shm->out, TT_RING_FIRST);
    const uint32_t bytes = (uint32_t)tt_min_u64(top->head.payload_bytes, bytes_max);
    if (!has_room(shm, TT_RING_FIRST, bytes)) {
        return false;
    }
    shm->current = (outgoing){.active = true, .tells_sent = true};
    return tt_frame_queue_pop(&shm->queue, &shm->current.frame);
}

/* Write waiting frames. */
static bool pump_out(shm_link *shm)
{
    const tt_machine *machine = shm->link.machine;
    uint32_t budget = POLL_BYTES_MAX;
    while (shm->link.state == TT_LINK_UP && budget > 0) {
        outgoing *current = &shm->current;
        if (!current->active && !begin_next(shm)) {
            break;
        }
        if (!write_current(shm, &budget)) {
            break;
        }
        if (current->tells_sent) {
            machine->ops->sent(machine->self, current->frame.token);
        }
    }
    if (shm->link.state != TT_LINK_UP) {
        return true;
    }
    const bool drained = !shm->current.active && shm->queue.count == 0;
    bool moved = budget < POLL_BYTES_MAX;
    if (drained && shm->closing && !shm->goodbye_put) {
        moved |= put_goodbye(shm);
    }
    if (drained && shm->starved && shm->closing == shm->goodbye_put) {
        shm->starved = false;
        tt_ring_set_starved(&shm->out, false);
    }
    return moved;
}

/* A frame begins. False: it is malformed. */
static bool begin_frame(shm_link *shm, const tt_ring_fragment *fragment)
{
    incoming *arriving = &shm->arriving;
    memcpy(&arriving->head, fragment->first, sizeof arriving->head);
    const uint32_t total = arriving->head.payload_bytes;
    if (total > TT_PAYLOAD_BYTES_MAX || fragment->bytes > total ||
        (fragment->bytes == 0 && total > 0)) {
        return false;
    }
    arriving->active = true;
    arriving->bytes_read = 0;
    arriving->is_inline = total <= TT_INLINE_BYTES_MAX;
    arriving->sink = shm->bounce;
    if (!arriving->is_inline) {
        const tt_machine *machine = shm->link.machine;
        void *sink = machine->ops->frame(machine->self, shm->link.peer, &arriving->head, NULL);
        arriving->sink = sink;
    }
    return true;
}

static void finish_frame(shm_link *shm)
{
    const tt_machine *machine = shm->link.machine;
    /* The upcall may send, recall or discard, so the state is consistent before it. */
    const tt_head head = shm->arriving.head;
    const bool has_sink = shm->arriving.sink != NULL;
    shm->arriving.active = false;
    shm->link.bytes_received += head.payload_bytes;
    shm->link.frames_received++;
    if (shm->arriving.is_inline) {
        (void)machine->ops->frame(machine->self, shm->link.peer, &head, shm->bounce);
    } else if (has_sink) {
        machine->ops->payload(machine->self, shm->link.peer, &head);
    }
}

/* Take a short frame of one fragment, the usual case. False: it is another kind; nothing was
 * taken. */
static bool take_whole(shm_link *shm, tt_ring_in *ring, const tt_ring_fragment *fragment)
{
    const tt_machine *machine = shm->link.machine;
    const tt_head *head = (const void *)fragment->first;
    if (shm->arriving.active || fragment->kind != TT_RING_FIRST ||
        head->payload_bytes != fragment->bytes || head->payload_bytes > TT_INLINE_BYTES_MAX) {
        return false;
    }
    const bool is_here = fragment->bytes <= TT_RING_FIRST_BYTES;
    tt_ring_take(ring, fragment, is_here ? NULL : shm->bounce);
    shm->link.bytes_received += head->payload_bytes;
    shm->link.frames_received++;
    (void)machine->ops->frame(machine->self, shm->link.peer, head,
                              is_here ? fragment->first + sizeof *head : shm->bounce);
    return true;
}

/* Take the next post. False: it is malformed, and the link is DOWN. */
static bool take_post(shm_link *shm)
{
    tt_ring_fragment fragment;
    if (tt_ring_peek(&shm->board, &fragment) != TT_OK || !take_whole(shm, &shm->board, &fragment)) {
        end_malformed(shm);
        return false;
    }
    return true;
}

/* Read the peer's posts, except while a long frame from it is arriving. */
static bool pump_board(shm_link *shm)
{
    const uint64_t begin = shm->board.position;
    while (!shm->arriving.active && !tt_ring_is_empty(&shm->board) &&
           shm->board.position - begin < POLL_BYTES_MAX / TT_RING_LINE_BYTES) {
        if (!take_post(shm)) {
            return true;
        }
    }
    return shm->board.position > begin;
}

/* Take one checked fragment. False: it does not fit the fragments before it. */
static bool take_fragment(shm_link *shm, const tt_ring_fragment *fragment)
{
    incoming *arriving = &shm->arriving;
    if (fragment->kind == TT_RING_GOODBYE) {
        if (arriving->active || fragment->bytes != 0) {
            return false;
        }
        tt_ring_take(&shm->in, fragment, NULL);
        (void)pump_board(shm); /* posts that preceded the goodbye */
        if (shm->link.state == TT_LINK_UP) {
            leave(shm);
        }
        return true;
    }
    if (arriving->active != (fragment->kind == TT_RING_NEXT)) {
        return false;
    }
    if (fragment->kind == TT_RING_FIRST && !begin_frame(shm, fragment)) {
        return false;
    }
    const uint32_t rest = arriving->head.payload_bytes - arriving->bytes_read;
    if (fragment->bytes > rest || (fragment->bytes == 0 && rest > 0)) {
        return false;
    }
    uint8_t *target = arriving->sink == NULL ? NULL : arriving->sink + arriving->bytes_read;
    tt_ring_take(&shm->in, fragment, target);
    arriving->bytes_read += fragment->bytes;
    if (arriving->bytes_read == arriving->head.payload_bytes) {
        finish_frame(shm);
    }
    return true;
}

/* Read arrived fragments; `*empty_out` is true when none are left. */
static bool pump_in(shm_link *shm, bool *empty_out)
{
    uint32_t bytes = 0;
    tt_status status = TT_OK;
    while (shm->link.state == TT_LINK_UP && bytes < POLL_BYTES_MAX) {
        tt_ring_fragment fragment;
        status = tt_ring_peek(&shm->in, &fragment);
        if (status == TT_IN_PROGRESS) {
            break;
        }
        if (status != TT_OK ||
            (!take_whole(shm, &shm->in, &fragment) && !take_fragment(shm, &fragment))) {
            end_malformed(shm);
            return true;
        }
        bytes += fragment.bytes + TT_RING_LINE_BYTES;
    }
    *empty_out = status == TT_IN_PROGRESS;
    if (bytes > 0 && tt_ring_announce(&shm->in)) {
        wake_peer(shm);
    }
    return bytes > 0;
}

/* Drain the bell, and check whether the peer is gone. */
static void look_at_descriptors(shm_link *shm)
{
    char bells[256];
    ssize_t count = 0;
    do { /* one read; the rest stays readable: a peer that keeps ringing must not hold this rank */
        count = recv(shm->socket, bells, sizeof bells, MSG_DONTWAIT);
    } while (count < 0 && errno == EINTR);
    if (count == 0 || (count < 0 && errno != EAGAIN)) {
        shm->gone = "connection closed";
    }
    struct pollfd exit_watch = {.fd = shm->pidfd, .events = POLLIN};
    if (shm->pidfd >= 0 && poll(&exit_watch, 1, 0) == 1 && exit_watch.revents != 0) {
        shm->gone = "exited";
    }
}

static bool has_to_write(const shm_link *shm)
{
    return shm->current.active || shm->queue.count > 0 || shm->starved || shm->closing;
}

/* True: the only work is to read posts. The rings are watched then. */
static bool is_plain(const shm_link *shm)
{
    const tt_link *link = &shm->link;
    return link->arrivals[0] != NULL && link->state == TT_LINK_UP && !link->ready &&
           !shm->arriving.active &&
           atomic_load_explicit(link->arrivals[0], memory_order_seq_cst) == 0;
}

/* Take one post, without a load of the next one's line: the peer has just written there, so the
 * load would miss the cache, for a post that is not needed yet. */
static bool poll_board(shm_link *shm)
{
    tt_link *link = &shm->link;
    const tt_ring_in *board = &shm->board;
    if (tt_ring_is_empty(board)) {
        return false;
    }
    (void)take_post(shm);
    if (link->arrivals[1] != NULL) { /* unless the upcall gave the link more to do */
        link->arrivals[1] = &board->lines[board->position & board->mask].word;
    }
    return true;
}

static bool shm_poll(tt_link *link)
{
    shm_link *shm = shm_of(link);
    if (is_plain(shm)) {
        return poll_board(shm);
    }
    if (link->state != TT_LINK_UP) {
        return false;
    }
    if (link->ready) {
        link->ready = false;
        look_at_descriptors(shm); /* before the ring: it holds all that a dead peer sent by now */
    }
    bool empty = tt_ring_is_empty(&shm->in);
    bool moved = !empty && pump_in(shm, &empty);
    if (link->state == TT_LINK_UP && !tt_ring_is_empty(&shm->board)) {
        /* The rest of a long frame never arrives if its sender is gone. */
        shm->arriving.active = shm->arriving.active && (shm->gone == NULL || !empty);
        moved |= pump_board(shm);
    }
    if (link->state == TT_LINK_UP && has_to_write(shm)) {
        moved |= pump_out(shm);
    }
    if (link->state == TT_LINK_UP && shm->gone != NULL && empty && tt_ring_is_empty(&shm->board)) {
        /* After our goodbye the peer may exit, and may have had no room for its own goodbye. */
        if (shm->goodbye_put) {
            leave(shm);
        } else {
            end(shm, shm->gone);
        }
        moved = true;
    }
    watch_rings(shm);
    return moved;
}

static void shm_descriptors(const tt_link *link, int fds_out[2], bool wants_write_out[2])
{
    const shm_link *shm = TT_CONTAINER_OF(link, const shm_link, link);
    fds_out[0] = shm->socket;
    fds_out[1] = shm->pidfd;
    wants_write_out[0] = false;
    wants_write_out[1] = false;
}

static void shm_close(tt_link *link)
{
    shm_of(link)->closing = true;
    watch_rings(shm_of(link));
}

static void shm_forsake(const tt_link *link)
{
    const shm_link *shm = TT_CONTAINER_OF(link, const shm_link, link);
    (void)close(shm->socket);
    if (shm->pidfd >= 0) {
        (void)close(shm->pidfd);
    }
}

static bool shm_idle(const tt_link *link)
{
    const shm_link *shm = TT_CONTAINER_OF(link, const shm_link, link);
    return !shm->current.active && shm->queue.count == 0;
}

static bool shm_closed(const tt_link *link)
{
    const shm_link *shm = TT_CONTAINER_OF(link, const shm_link, link);
    return link->state != TT_LINK_UP || shm->goodbye_put;
}

static void shm_destroy(tt_link *link)
{
    shm_link *shm = shm_of(link);
    close(shm->socket);
    if (shm->pidfd >= 0) {
        close(shm->pidfd);
    }
    tt_segment_release(shm->own);
    tt_segment_release(shm->theirs);
    tt_frame_queue_fini(&shm->queue);
    free(shm->bounce);
    free(shm->recall_copy);
    free(shm);
}

const tt_link_ops tt_shm_link_ops = {
    .name = "shm",
    .polls_memory = true,
    .send = shm_send,
    .recall = shm_recall,
    .discard = shm_discard,
    .poll = shm_poll,
    .descriptors = shm_descriptors,
    .idle = shm_idle,
    .close = shm_close,
    .closed = shm_closed,
    .forsake = shm_forsake,
    .destroy = shm_destroy,
};

tt_status tt_shm_link_create(const tt_shm_config *config, tt_link **link_out)
{
    const tt_segment_config *own = tt_segment_facts(config->own);
    const tt_segment_config *theirs = tt_segment_facts(config->theirs);
    TT_ASSERT(own->local_index != theirs->local_index);
    TT_ASSERT(own->local_count == theirs->local_count);
    shm_link *shm = calloc(1, sizeof *shm);
    uint8_t *bounce = malloc(TT_INLINE_BYTES_MAX);
    uint8_t *recall_copy = malloc(TT_PAYLOAD_BYTES_MAX);
    if (shm == NULL || bounce == NULL || recall_copy == NULL) {
        free(shm);
        free(bounce);
        free(recall_copy);
        return TT_ERR_NO_MEMORY;
    }
    shm->link.ops = &tt_shm_link_ops;
    shm->link.machine = config->machine;
    shm->link.peer = config->peer;
    shm->bounce = bounce;
    shm->recall_copy = recall_copy;
    shm->own = tt_segment_retain(config->own);
    shm->theirs = tt_segment_retain(config->theirs);
    shm->socket = config->socket;
    shm->pidfd = config->pidfd;
    shm->peer_wake = tt_segment_wake_word(config->theirs);
    tt_ring_out_init(&shm->out, tt_segment_ring(config->theirs, own->local_index),
                     theirs->ring_bytes);
    tt_ring_in_init(&shm->in, tt_segment_ring(config->own, theirs->local_index), own->ring_bytes);
    tt_ring_in_init(&shm->board, tt_segment_ring(config->theirs, theirs->local_index),
                    theirs->ring_bytes);
    shm->board.consumed = &shm->in.control->board_consumed;
    if (config->is_apart) {
        shm->board.lines = &shm->silence;
        shm->board.mask = 0;
    }
    watch_rings(shm);
    *link_out = &shm->link;
    return TT_OK;
}

/* ---- the board ---- */

struct tt_board {
    tt_ring_out out;
    uint32_t reader_count;
    shm_link *readers[];
};

tt_status tt_board_create(tt_segment *own, tt_link *const links[], uint32_t link_count,
                          tt_board **board_out)
{
    const tt_segment_config *facts = tt_segment_facts(own);
    tt_board *board = calloc(1, sizeof *board + link_count * sizeof board->readers[0]);
    if (board == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    tt_ring_out_init(&board->out, tt_segment_ring(own, facts->local_index), facts->ring_bytes);
    for (uint32_t i = 0; i < link_count; i++) {
        TT_ASSERT(links[i]->ops == &tt_shm_link_ops);
        board->readers[board->reader_count++] = shm_of(links[i]);
    }
    *board_out = board;
    return TT_OK;
}

void tt_board_destroy(tt_board *board)
{
    free(board);
}

static bool board_has_room(tt_board *board, uint32_t bytes)
{
    tt_ring_out *out = &board->out;
    if (bytes > tt_ring_fragment_bytes_max(out, TT_RING_FIRST)) {
        return false;
    }
    if (tt_ring_fits(out, TT_RING_FIRST, bytes)) {
        return true;
    }
    uint64_t least = out->position;
    for (uint32_t i = 0; i < board->reader_count; i++) {
        const uint64_t consumed = atomic_load_explicit(
            &board->readers[i]->out.control->board_consumed, memory_order_acquire);
        if (consumed < out->consumed || consumed > out->position) {
            return false; /* a peer that corrupts the ring gets no more posts */
        }
        least = tt_min_u64(least, consumed);
    }
    out->consumed = least;
    return tt_ring_fits(out, TT_RING_FIRST, bytes);
}

void tt_board_expect(const tt_board *board)
{
    tt_ring_expect(&board->out);
}

tt_status tt_board_post(tt_board *board, const tt_send *send)
{
    const uint32_t bytes = send->head->payload_bytes;
    for (uint32_t i = 0; i < board->reader_count; i++) {
        if (board->readers[i]->link.state != TT_LINK_UP || board->readers[i]->closing) {
            return TT_ERR_UNSUPPORTED;
        }
    }
    if (bytes > TT_INLINE_BYTES_MAX || !board_has_room(board, bytes)) {
        return TT_ERR_UNSUPPORTED;
    }
    tt_ring_put(&board->out, TT_RING_FIRST, send->head, send->payload, bytes);
    for (uint32_t i = 0; i < board->reader_count; i++) {
        wake_peer(board->readers[i]);
        board->readers[i]->link.bytes_sent += bytes;
        board->readers[i]->link.frames_sent++;
    }
    return TT_OK;
}
