/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_send.c - from the queue to the socket.
 *
 * Small frames, heads and sealed blocks are copied into the stage and written from it at once; the
 * payload of a long frame follows straight from the borrowed memory, its trailer behind it. Where
 * threads are lent, sealed blocks of a long frame follow the stage from memory of their own:
 * several are sealed at a time, and those ready from the front leave in one write.
 *
 * Invariants:
 *  (1) While `current` is set nothing but its own bytes is appended to the stage.
 *  (2) Only poll makes upcalls; before each the state is consistent, because `sent` may call send.
 *  (3) send writes at once only if nothing waits, so that it never finishes another's frame.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/assert.h"
#include "base/base.h"
#include "transport/tcp/tcp_internal.h"

static size_t stage_bytes(const tt_tcp_sender *sender)
{
    return sender->stage_end - sender->stage_begin;
}

static bool is_small(uint32_t payload_bytes)
{
    return payload_bytes <= TT_INLINE_BYTES_MAX;
}

static void stage_head(tt_tcp_sender *sender, const tt_head *head)
{
    TT_ASSERT(sender->stage_end + TT_SEAL_SEALED_HEAD_BYTES <= TT_TCP_STAGE_BYTES);
    uint8_t *wire = sender->stage + sender->stage_end;
    const tt_status status = tt_seal_head(&sender->seal, (const uint8_t *)head, wire);
    TT_ASSERT(status == TT_OK); /* a sending seal fails only after 2^64 heads */
    sender->stage_end += TT_SEAL_SEALED_HEAD_BYTES;
}

static void stage_block(tt_tcp_sender *sender, const uint8_t *plain, size_t plain_bytes)
{
    TT_ASSERT(sender->stage_end + plain_bytes + TT_SEAL_TAG_BYTES <= TT_TCP_STAGE_BYTES);
    uint8_t *wire = sender->stage + sender->stage_end;
    const tt_status status =
        tt_seal_payload_block(&sender->seal, plain, plain_bytes, wire, wire + plain_bytes);
    TT_ASSERT(status == TT_OK);
    sender->stage_end += plain_bytes + TT_SEAL_TAG_BYTES;
}

/* A whole small frame; its payload is free afterwards. */
static void stage_small(tt_tcp *tcp, const tt_head *head, const void *payload)
{
    tt_tcp_sender *sender = &tcp->sender;
    const size_t payload_bytes = head->payload_bytes;
    TT_ASSERT(is_small(head->payload_bytes));

    stage_head(sender, head);
    tcp->link.frames_sent++;
    if (payload_bytes == 0) {
        return;
    }
    if (tcp->mode == TT_SEAL_AEAD) {
        stage_block(sender, payload, payload_bytes);
        return;
    }
    uint8_t *wire = sender->stage + sender->stage_end;
    memcpy(wire, payload, payload_bytes);
    sender->stage_end += payload_bytes;
    if (tcp->mode == TT_SEAL_CRC) {
        tt_seal_crc_encode(tt_seal_crc_add(0, wire, payload_bytes), wire + payload_bytes);
        sender->stage_end += TT_SEAL_CRC_BYTES;
    }
}

/* The head of a long frame is staged; from here on the frame has begun. */
static void begin_long(tt_tcp *tcp, const tt_queued_frame *frame)
{
    tt_tcp_sender *sender = &tcp->sender;
    TT_ASSERT(!sender->has_current);
    stage_head(sender, &frame->head);
    sender->has_current = true;
    sender->owes_sent = true;
    sender->current = *frame;
    sender->position = 0;
    sender->is_shared =
        tcp->mode == TT_SEAL_AEAD &&
        tt_tcp_blocks_begin(&sender->blocks, tcp->link.hands, frame->head.payload_bytes);
    if (tcp->mode == TT_SEAL_CRC) {
        const uint32_t crc = tt_seal_crc_add(0, frame->payload, frame->head.payload_bytes);
        tt_seal_crc_encode(crc, sender->trailer);
    }
}

static size_t current_bytes(const tt_tcp *tcp)
{
    const size_t trailer_bytes = tcp->mode == TT_SEAL_CRC ? TT_SEAL_CRC_BYTES : 0;
    return tcp->sender.current.head.payload_bytes + trailer_bytes;
}

/* NULL if every slot is taken: then the payload is borrowed. */
static uint8_t *copy_take(tt_tcp_copies *copies)
{
    if (copies->free_count == 0) {
        return NULL;
    }
    return copies->slots + (size_t)copies->free_slots[--copies->free_count] * TT_TCP_COPY_BYTES;
}

/* True if `payload` was a slot, which is free again. */
static bool copy_give(tt_tcp_copies *copies, const void *payload)
{
    const uintptr_t offset = (uintptr_t)payload - (uintptr_t)copies->slots;
    if (offset >= (uintptr_t)TT_TCP_COPY_MAX * TT_TCP_COPY_BYTES) {
        return false;
    }
    copies->free_slots[copies->free_count++] = (uint16_t)(offset / TT_TCP_COPY_BYTES);
    return true;
}

/* A small frame is staged: returns its memory to its owner. May make an upcall. */
static void small_done(tt_tcp *tcp, const tt_queued_frame *frame)
{
    if (frame->head.payload_bytes > 0 && !copy_give(&tcp->sender.copies, frame->payload)) {
        tcp->link.machine->ops->sent(tcp->link.machine->self, frame->token);
    }
}

static void stage_current_blocks(tt_tcp_sender *sender)
{
    const size_t payload_bytes = sender->current.head.payload_bytes;
    const uint8_t *payload = sender->current.payload;
    while (sender->position < payload_bytes) {
        const size_t block_bytes =
            tt_min_u64(payload_bytes - sender->position, TT_SEAL_BLOCK_BYTES_MAX);
        if (sender->stage_end + block_bytes + TT_SEAL_TAG_BYTES > TT_TCP_STAGE_BYTES) {
            return;
        }
        stage_block(sender, payload + sender->position, block_bytes);
        sender->position += block_bytes;
    }
}

/* The same by any thread: as many blocks as there is room for. */
static void post_current_blocks(tt_tcp_sender *sender)
{
    tt_tcp_blocks *blocks = &sender->blocks;
    const size_t payload_bytes = sender->current.head.payload_bytes;
    const uint8_t *payload = sender->current.payload;
    const uint32_t before = blocks->count;
    while (sender->position < payload_bytes && blocks->count < TT_TCP_BLOCKS) {
        tt_tcp_block *block = tt_tcp_blocks_at(blocks, blocks->count);
        const tt_status status = tt_seal_take_place(&sender->seal, &block->place);
        TT_ASSERT(status == TT_OK);
        block->seal = &sender->seal;
        block->plain = payload + sender->position;
        block->plain_bytes = tt_min_u64(payload_bytes - sender->position, TT_SEAL_BLOCK_BYTES_MAX);
        sender->position += block->plain_bytes;
        tt_tcp_blocks_post(blocks);
    }
    if (blocks->count > before) {
        tt_tcp_blocks_call(blocks);
    }
}

static void seal_current(tt_tcp_sender *sender)
{
    if (sender->is_shared) {
        post_current_blocks(sender);
    } else {
        stage_current_blocks(sender);
    }
}

/* True once for each long frame that is written: it is no longer current. */
static bool take_finished(tt_tcp *tcp)
{
    tt_tcp_sender *sender = &tcp->sender;
    if (!sender->has_current || sender->position < current_bytes(tcp) ||
        (sender->is_shared && sender->blocks.count > 0)) {
        return false;
    }
    sender->has_current = false;
    tcp->link.frames_sent++;
    return true;
}

static void say_goodbye(tt_tcp_sender *sender)
{
    const tt_head goodbye = {.payload_bytes = TT_TCP_GOODBYE};
    stage_head(sender, &goodbye);
    sender->said = true;
}

/* Moves the next frames into the stage. Only for poll: it may make upcalls. */
static void refill(tt_tcp *tcp)
{
    tt_tcp_sender *sender = &tcp->sender;
    tt_queued_frame frame;
    while (!sender->has_current && sender->stage_end <= TT_TCP_STAGE_FILL && !sender->broken &&
           tt_frame_queue_pop(&sender->queue, &frame)) {
        if (is_small(frame.head.payload_bytes)) {
            stage_small(tcp, &frame.head, frame.payload);
            small_done(tcp, &frame);
        } else {
            begin_long(tcp, &frame);
        }
    }
    if (sender->has_current && tcp->mode == TT_SEAL_AEAD) {
        seal_current(sender);
    }
    if (sender->closing && !sender->said && !sender->has_current && sender->queue.count == 0 &&
        sender->stage_end <= TT_TCP_STAGE_FILL) {
        say_goodbye(sender);
    }
}

static void break_off(tt_tcp *tcp, int error)
{
    tt_tcp_sender *sender = &tcp->sender;
    char text[64];
    const char *cause = strerror_r(error, text, sizeof(text));
    strncpy(sender->why, cause, sizeof(sender->why) - 1);
    sender->broken = true;
    tt_tcp_sender_drop(tcp);
    /* The peer sees the end of this direction, and may end its own stream. */
    (void)shutdown(sender->fd, SHUT_RDWR);
}

enum { PIECES_MAX = 1 + TT_TCP_BLOCKS }; /* the stage, then blocks; or payload and trailer */

/* Gathers sealed blocks from the front; the first is sealed if need be. */
static int gather_blocks(tt_tcp_blocks *blocks, struct iovec *pieces)
{
    int piece_count = 0;
    for (uint32_t i = 0; i < blocks->count; i++) {
        if (i > 0 && !tt_tcp_blocks_is_done(blocks, i)) {
            break;
        }
        tt_tcp_blocks_finish(blocks, i);
        const tt_tcp_block *block = tt_tcp_blocks_at(blocks, i);
        const size_t written = i == 0 ? blocks->moved : 0;
        pieces[piece_count++] =
            (struct iovec){.iov_base = block->wire + written,
                           .iov_len = block->plain_bytes + TT_SEAL_TAG_BYTES - written};
    }
    return piece_count;
}

static void blocks_written(tt_tcp_blocks *blocks, size_t count)
{
    blocks->moved += count;
    while (blocks->count > 0) {
        const size_t wire_bytes = tt_tcp_blocks_at(blocks, 0)->plain_bytes + TT_SEAL_TAG_BYTES;
        if (blocks->moved < wire_bytes) {
            return;
        }
        blocks->moved -= wire_bytes;
        tt_tcp_blocks_pop(blocks);
    }
}

static int gather(tt_tcp *tcp, struct iovec pieces[PIECES_MAX])
{
    tt_tcp_sender *sender = &tcp->sender;
    int piece_count = 0;
    if (stage_bytes(sender) > 0) {
        pieces[piece_count++] = (struct iovec){.iov_base = sender->stage + sender->stage_begin,
                                               .iov_len = stage_bytes(sender)};
    }
    if (sender->has_current && sender->is_shared) {
        return piece_count + gather_blocks(&sender->blocks, pieces + piece_count);
    }
    if (!sender->has_current || tcp->mode == TT_SEAL_AEAD) {
        return piece_count;
    }
    const size_t payload_bytes = sender->current.head.payload_bytes;
    size_t trailer_sent = 0;
    if (sender->position < payload_bytes) {
        uint8_t *rest = (uint8_t *)(uintptr_t)sender->current.payload + sender->position;
        pieces[piece_count++] =
            (struct iovec){.iov_base = rest, .iov_len = payload_bytes - sender->position};
    } else {
        trailer_sent = sender->position - payload_bytes;
    }
    if (tcp->mode == TT_SEAL_CRC) {
        pieces[piece_count++] =
            (struct iovec){.iov_base = (uint8_t *)(uintptr_t)sender->trailer + trailer_sent,
                           .iov_len = TT_SEAL_CRC_BYTES - trailer_sent};
    }
    return piece_count;
}

/* One write. Returns the bytes written; 0 if the kernel's buffer is full, or the socket broken. */
static size_t write_once(tt_tcp *tcp)
{
    tt_tcp_sender *sender = &tcp->sender;
    struct iovec pieces[PIECES_MAX];
    const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)gather(tcp, pieces)};
    if (message.msg_iovlen == 0) {
        return 0;
    }
    ssize_t written;
    do {
        written = sendmsg(sender->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (written < 0 && errno == EINTR);
    if (written < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS) {
            break_off(tcp, errno);
        }
        sender->was_full = true;
        return 0;
    }
    const size_t moved = (size_t)written;
    const size_t staged = moved < stage_bytes(sender) ? moved : stage_bytes(sender);
    sender->stage_begin += staged;
    if (sender->stage_begin == sender->stage_end) {
        sender->stage_begin = sender->stage_end = 0;
    }
    if (moved > staged && sender->is_shared) {
        blocks_written(&sender->blocks, moved - staged);
    } else if (moved > staged) {
        sender->position += moved - staged;
    }
    tcp->link.bytes_sent += moved;
    return moved;
}

bool tt_tcp_sender_has_work(const tt_tcp *tcp)
{
    const tt_tcp_sender *sender = &tcp->sender;
    if (sender->broken || sender->finished) {
        return false;
    }
    return stage_bytes(sender) > 0 || sender->has_current || sender->queue.count > 0 ||
           sender->closing;
}

static bool is_idle(const tt_tcp_sender *sender)
{
    return stage_bytes(sender) == 0 && !sender->has_current && sender->queue.count == 0;
}

static tt_status send_long_now(tt_tcp *tcp, const tt_send *send)
{
    const tt_queued_frame frame = {
        .head = *send->head, .payload = send->payload, .token = send->token};
    begin_long(tcp, &frame);
    if (tcp->mode == TT_SEAL_AEAD) {
        seal_current(&tcp->sender);
    }
    if (tcp->sender.is_shared) {
        return TT_IN_PROGRESS; /* poll writes: other threads seal until then */
    }
    (void)write_once(tcp);
    if (tcp->sender.broken) {
        return TT_ERR_PEER_DOWN;
    }
    return take_finished(tcp) ? TT_OK : TT_IN_PROGRESS;
}

static tt_status send_later(tt_tcp *tcp, const tt_send *send)
{
    tt_tcp_sender *sender = &tcp->sender;
    const size_t payload_bytes = send->head->payload_bytes;
    const bool fits = payload_bytes > 0 && payload_bytes <= TT_TCP_COPY_BYTES;
    uint8_t *copy = fits ? copy_take(&sender->copies) : NULL;
    if (copy == NULL) {
        TT_TRY(tt_frame_queue_push(&sender->queue, send));
        return payload_bytes > 0 ? TT_IN_PROGRESS : TT_OK;
    }
    memcpy(copy, send->payload, payload_bytes);
    tt_send copied = *send;
    copied.payload = copy;
    copied.token = TT_TOKEN_NONE;
    const tt_status status = tt_frame_queue_push(&sender->queue, &copied);
    if (status != TT_OK) {
        (void)copy_give(&sender->copies, copy);
    }
    return status;
}

tt_status tt_tcp_sender_send(tt_tcp *tcp, const tt_send *send)
{
    tt_tcp_sender *sender = &tcp->sender;
    if (tcp->link.state == TT_LINK_LEFT) {
        return TT_ERR_PEER_LEFT;
    }
    if (tcp->link.state == TT_LINK_DOWN || sender->broken) {
        return TT_ERR_PEER_DOWN;
    }
    if (sender->closing) {
        return TT_ERR_SHUT_DOWN;
    }
    if (send->head->payload_bytes > TT_PAYLOAD_BYTES_MAX) {
        return TT_ERR_BAD_ARGUMENT;
    }
    if (!is_idle(sender)) {
        return send_later(tcp, send);
    }
    if (!is_small(send->head->payload_bytes)) {
        return send_long_now(tcp, send);
    }
    stage_small(tcp, send->head, send->payload);
    (void)write_once(tcp);
    return sender->broken ? TT_ERR_PEER_DOWN : TT_OK;
}

void tt_tcp_sender_recall(tt_tcp *tcp, uint64_t token)
{
    tt_tcp_sender *sender = &tcp->sender;
    tt_queued_frame *frame = &sender->current;
    if (token == TT_TOKEN_NONE) {
        return;
    }
    if (!sender->has_current || !sender->owes_sent || frame->token != token) {
        (void)tt_frame_queue_remove(&sender->queue, token);
        return;
    }
    const size_t payload_bytes = frame->head.payload_bytes;
    tt_tcp_blocks_finish_all(&sender->blocks);
    if (sender->position < payload_bytes) {
        memcpy(sender->kept + sender->position, (const uint8_t *)frame->payload + sender->position,
               payload_bytes - sender->position);
    }
    frame->payload = sender->kept;
    sender->owes_sent = false;
}

void tt_tcp_sender_drop(tt_tcp *tcp)
{
    tt_tcp_sender *sender = &tcp->sender;
    tt_queued_frame frame;
    while (tt_frame_queue_pop(&sender->queue, &frame)) {
        (void)copy_give(&sender->copies, frame.payload);
    }
    tt_tcp_blocks_clear(&sender->blocks);
    sender->has_current = false;
    sender->stage_begin = sender->stage_end = 0;
}

/* The peer has left and will not read waiting frames: their payloads are given back. */
static void give_back(tt_tcp *tcp)
{
    tt_tcp_sender *sender = &tcp->sender;
    const bool owes_sent = sender->has_current && sender->owes_sent;
    tt_tcp_blocks_clear(&sender->blocks);
    sender->has_current = false;
    sender->stage_begin = sender->stage_end = 0;
    if (owes_sent) {
        tcp->link.machine->ops->sent(tcp->link.machine->self, sender->current.token);
    }
    tt_queued_frame frame;
    while (tt_frame_queue_pop(&sender->queue, &frame)) {
        small_done(tcp, &frame);
    }
}

void tt_tcp_sender_end(tt_tcp *tcp)
{
    tt_tcp_sender *sender = &tcp->sender;
    if (sender->finished || sender->broken) {
        give_back(tcp);
        return;
    }
    /* A goodbye cannot follow a half-written frame; the peer has left and does not need it. */
    if (!sender->has_current && !sender->said && sender->stage_end <= TT_TCP_STAGE_FILL) {
        say_goodbye(sender);
    }
    (void)write_once(tcp);
    if (!sender->broken) {
        (void)shutdown(sender->fd, SHUT_WR);
    }
    sender->finished = true;
    give_back(tcp);
}

bool tt_tcp_sender_poll(tt_tcp *tcp)
{
    tt_tcp_sender *sender = &tcp->sender;
    size_t moved_bytes = 0;
    if (sender->was_full && !sender->broken) {
        tt_backlog_look_at(&sender->backlog, sender->fd, tcp->link.bytes_sent);
        sender->was_full = false;
    }
    while (moved_bytes < TT_TCP_CHUNK_BYTES && tt_tcp_sender_has_work(tcp)) {
        refill(tcp);
        const size_t written = write_once(tcp);
        moved_bytes += written;
        if (!sender->broken && take_finished(tcp) && sender->owes_sent) {
            tcp->link.machine->ops->sent(tcp->link.machine->self, sender->current.token);
        }
        if (sender->said && stage_bytes(sender) == 0 && !sender->broken && !sender->finished) {
            (void)shutdown(sender->fd, SHUT_WR);
            sender->finished = true;
        }
        if (written == 0) {
            break;
        }
    }
    if (!tt_tcp_sender_has_work(tcp)) {
        tt_backlog_idle(&sender->backlog);
    }
    return moved_bytes > 0;
}
