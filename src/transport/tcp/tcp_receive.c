/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_receive.c - from the socket to the machine.
 *
 * Heads and small frames are read through a buffer, several with one call. The payload of a long
 * frame is read straight into the machine's sink, and a few of the following bytes into the buffer,
 * so that trailer and next head cost no call of their own. Where threads are lent, sealed blocks of
 * a long frame are read into memory of their own and opened several at a time, into the sink: poll
 * leaves them to other threads while it has more to do, and finishes them when it has not. The
 * bytes came from a peer: a length is checked before use, and no reaction depends on an unverified
 * head.
 *
 * Invariants:
 *  (1) The buffer is empty whenever a long payload is read from the socket.
 *  (2) Every head and block takes the next counter; a gap, a repeat or a flip fails to open.
 *  (3) The phase is set before each upcall, because the machine may call discard from it.
 *  (4) Blocks count as arrived in the order of the wire, each after it was opened: the upcall
 *      `payload` follows the last of them, and the first that is not authentic ends the link.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "base/assert.h"
#include "transport/tcp/tcp_internal.h"

static size_t buffered(const tt_tcp_receiver *receiver)
{
    return receiver->end - receiver->begin;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

void tt_tcp_receiver_reject(tt_tcp *tcp)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    if (!receiver->has_rejected) {
        receiver->has_rejected = true;
        (void)send(receiver->fd, receiver->rejection, sizeof(receiver->rejection),
                   MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* Checks whether the peer rejects our frames: nothing else ever arrives on the sending socket.
 * TT_IN_PROGRESS: the socket has not ended, and a rejection may still arrive; TT_OK: none
 * arrived. */
static tt_status look_for_rejection(const tt_tcp_sender *sender)
{
    uint8_t bytes[TT_SEAL_REJECTION_BYTES];
    const ssize_t count = recv(sender->fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_PEEK);
    if (count == (ssize_t)sizeof(bytes) &&
        sodium_memcmp(bytes, sender->rejection, sizeof(bytes)) == 0) {
        return TT_ERR_REFUSED;
    }
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? TT_IN_PROGRESS : TT_OK;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A process that dies ends both sockets; one that rejects our frames sends a rejection on the
 * other. They are two connections, so this one may end first: wait briefly for the other's end. */
static bool should_wait_for_other_end(tt_tcp_receiver *receiver)
{
    if (receiver->ended_ns == 0) {
        receiver->ended_ns = now_ns();
    }
    return now_ns() - receiver->ended_ns < (uint64_t)TT_TCP_OTHER_END_MS * 1000000;
}

/* The stream has ended. LEFT if our own goodbye was sent, since nothing is lost then; otherwise
 * DOWN with the cause. */
static void stream_ended(tt_tcp *tcp, int error)
{
    const tt_status word = tcp->sender.finished ? TT_OK : look_for_rejection(&tcp->sender);
    if (word == TT_IN_PROGRESS && error == 0 && should_wait_for_other_end(&tcp->receiver)) {
        return;
    }
    tcp->receiver.phase = TT_TCP_PHASE_ENDED;
    if (tcp->sender.finished) {
        tt_tcp_leave(tcp);
        return;
    }
    if (word == TT_ERR_REFUSED) {
        tcp->link.is_rejected = true;
        tt_tcp_fail(tcp, "it rejects frames of this rank: they were not authentic");
        return;
    }
    char text[64];
    const char *cause = error == 0 ? "connection closed" : strerror_r(error, text, sizeof(text));
    if (error == 0 && tcp->sender.broken) {
        cause = tcp->sender.why;
    }
    tt_tcp_fail(tcp, "%s", cause);
}

/* Nothing is ever sent on this socket, so no data carries acknowledgements, and the kernel sends
 * one for every short message that is read: about as much work as the message itself. A delayed one
 * serves two or more; long transfers are still acknowledged every second segment. The kernel resets
 * the option when its timer had to acknowledge, so it is set again now and then. */
static void delay_acknowledgement(tt_tcp_receiver *receiver)
{
    if ((receiver->quiet_reads++ & (TT_TCP_QUIET_READS - 1)) == 0) {
        const int off = 0;
        (void)setsockopt(receiver->fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off));
    }
}

/* One read into `pieces`; 0 if nothing has arrived, or the stream has ended. */
static size_t read_once(tt_tcp *tcp, struct iovec *pieces, size_t piece_count)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = piece_count};
    size_t asked = 0;
    for (size_t i = 0; i < piece_count; i++) {
        asked += pieces[i].iov_len;
    }
    ssize_t received;
    do {
        received = recvmsg(tcp->receiver.fd, &message, MSG_DONTWAIT);
    } while (received < 0 && errno == EINTR);
    tcp->receiver.is_drained = received < (ssize_t)asked;
    if (received > 0) {
        tcp->link.bytes_received += (uint64_t)received;
        return (size_t)received;
    }
    if (received == 0) {
        stream_ended(tcp, 0);
    } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
        stream_ended(tcp, errno);
    }
    return 0;
}

/* Reads into the buffer. Returns the bytes read. */
static size_t fill_buffer(tt_tcp *tcp, size_t bytes_max)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    if (receiver->begin > 0) {
        memmove(receiver->buffer, receiver->buffer + receiver->begin, buffered(receiver));
        receiver->end -= receiver->begin;
        receiver->begin = 0;
    }
    TT_ASSERT(receiver->end < TT_TCP_BUFFER_BYTES);
    struct iovec piece = {.iov_base = receiver->buffer + receiver->end,
                          .iov_len = least(bytes_max, TT_TCP_BUFFER_BYTES - receiver->end)};
    const size_t received = read_once(tcp, &piece, 1);
    receiver->end += received;
    return received;
}

/* Wire bytes of a small payload with its tag or checksum. */
static size_t small_bytes(const tt_tcp *tcp)
{
    return tt_seal_payload_wire_bytes(tcp->mode, tcp->receiver.head.payload_bytes);
}

static size_t block_bytes(const tt_tcp_receiver *receiver)
{
    return least(TT_SEAL_BLOCK_BYTES_MAX, receiver->head.payload_bytes - receiver->position);
}

static void checksum_differs(tt_tcp *tcp)
{
    tt_tcp_receiver_reject(tcp);
    tt_tcp_fail(tcp, "payload checksum of frame from rank %u differs", tcp->link.peer);
}

static void payload_differs(tt_tcp *tcp)
{
    tt_tcp_receiver_reject(tcp);
    tt_tcp_fail(tcp, "payload of frame from rank %u is not authentic", tcp->link.peer);
}

static void take_head(tt_tcp *tcp)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    const uint8_t *wire = receiver->buffer + receiver->begin;
    receiver->begin += TT_SEAL_SEALED_HEAD_BYTES;
    if (tt_open_head(&receiver->seal, wire, (uint8_t *)&receiver->head) != TT_OK) {
        tt_tcp_receiver_reject(tcp);
        tt_tcp_fail(tcp, "head of frame from rank %u is not authentic", tcp->link.peer);
        return;
    }
    const uint32_t payload_bytes = receiver->head.payload_bytes;
    if (payload_bytes == TT_TCP_GOODBYE) {
        receiver->phase = TT_TCP_PHASE_ENDED;
        tt_tcp_leave(tcp);
        return;
    }
    if (payload_bytes > TT_PAYLOAD_BYTES_MAX) {
        tt_tcp_receiver_reject(tcp);
        tt_tcp_fail(tcp, "frame from rank %u claims %u bytes, at most %u are allowed",
                    tcp->link.peer, payload_bytes, (unsigned)TT_PAYLOAD_BYTES_MAX);
        return;
    }
    tcp->link.frames_received++;
    receiver->position = 0;
    receiver->crc = 0;
    receiver->sink = NULL;
    const tt_machine *machine = tcp->link.machine;
    if (payload_bytes == 0) {
        (void)machine->ops->frame(machine->self, tcp->link.peer, &receiver->head, wire);
        return;
    }
    if (payload_bytes <= TT_INLINE_BYTES_MAX) {
        receiver->phase = TT_TCP_PHASE_SMALL;
        return;
    }
    receiver->phase = TT_TCP_PHASE_LONG;
    receiver->arrived = 0;
    receiver->is_shared = tcp->mode == TT_SEAL_AEAD &&
                          tt_tcp_blocks_begin(&receiver->blocks, tcp->link.hands, payload_bytes);
    receiver->sink = machine->ops->frame(machine->self, tcp->link.peer, &receiver->head, NULL);
}

static void take_small(tt_tcp *tcp)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    uint8_t *wire = receiver->buffer + receiver->begin;
    const size_t payload_bytes = receiver->head.payload_bytes;
    receiver->begin += small_bytes(tcp);
    receiver->phase = TT_TCP_PHASE_HEAD;
    receiver->after_long = false;
    if (tcp->mode == TT_SEAL_CRC) {
        const uint32_t crc = tt_seal_crc_add(0, wire, payload_bytes);
        if (tt_seal_crc_check(crc, wire + payload_bytes) != TT_OK) {
            checksum_differs(tcp);
            return;
        }
    } else if (tcp->mode == TT_SEAL_AEAD &&
               tt_open_payload_block(&receiver->seal, wire, payload_bytes, wire + payload_bytes,
                                     wire) != TT_OK) {
        payload_differs(tcp);
        return;
    }
    const tt_machine *machine = tcp->link.machine;
    (void)machine->ops->frame(machine->self, tcp->link.peer, &receiver->head, wire);
}

static void finish_long(tt_tcp *tcp)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    const bool stored = receiver->sink != NULL;
    receiver->sink = NULL;
    receiver->phase = TT_TCP_PHASE_HEAD;
    receiver->after_long = true;
    if (stored) {
        const tt_machine *machine = tcp->link.machine;
        machine->ops->payload(machine->self, tcp->link.peer, &receiver->head);
    }
}

static void take_trailer(tt_tcp *tcp)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    const uint8_t *trailer = receiver->buffer + receiver->begin;
    receiver->begin += TT_SEAL_CRC_BYTES;
    if (tt_seal_crc_check(receiver->crc, trailer) != TT_OK) {
        checksum_differs(tcp);
        return;
    }
    finish_long(tcp);
}

static void long_arrived(tt_tcp *tcp, const uint8_t *bytes, size_t count)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    receiver->position += count;
    if (tcp->mode == TT_SEAL_CRC) {
        receiver->crc = tt_seal_crc_add(receiver->crc, bytes, count);
    }
    if (receiver->position < receiver->head.payload_bytes) {
        return;
    }
    if (tcp->mode == TT_SEAL_CRC) {
        receiver->phase = TT_TCP_PHASE_TRAILER;
    } else {
        finish_long(tcp);
    }
}

static void take_sealed_block(tt_tcp *tcp)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    uint8_t *wire = receiver->buffer + receiver->begin;
    const size_t plain_bytes = block_bytes(receiver);
    uint8_t *target = receiver->sink == NULL ? wire : receiver->sink + receiver->position;
    receiver->begin += plain_bytes + TT_SEAL_TAG_BYTES;
    if (tt_open_payload_block(&receiver->seal, wire, plain_bytes, wire + plain_bytes, target) !=
        TT_OK) {
        payload_differs(tcp);
        return;
    }
    long_arrived(tcp, target, plain_bytes);
}

/* Payload bytes that are in the buffer: copied out, or dropped. */
static void take_buffered_payload(tt_tcp *tcp)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    const uint8_t *bytes = receiver->buffer + receiver->begin;
    const size_t rest = receiver->head.payload_bytes - receiver->position;
    const size_t count = least(rest, buffered(receiver));
    receiver->begin += count;
    if (receiver->sink != NULL) {
        memcpy(receiver->sink + receiver->position, bytes, count);
    }
    long_arrived(tcp, bytes, count);
}

/* Reads straight from the socket into the sink. Returns the bytes read. */
static size_t read_into_sink(tt_tcp *tcp)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    TT_ASSERT(buffered(receiver) == 0);
    receiver->begin = receiver->end = 0;
    uint8_t *target = receiver->sink + receiver->position;
    const size_t rest = receiver->head.payload_bytes - receiver->position;
    struct iovec pieces[2] = {
        {.iov_base = target, .iov_len = rest},
        {.iov_base = receiver->buffer, .iov_len = TT_TCP_PEEK_BYTES},
    };
    const size_t received = read_once(tcp, pieces, 2);
    if (received == 0) {
        return 0;
    }
    const size_t stored = least(received, rest);
    receiver->end = received - stored;
    long_arrived(tcp, target, stored);
    return received;
}

/* ---- blocks that several threads open ---- */

/* Payload bytes of the block that is arriving. */
static size_t arriving_bytes(const tt_tcp_receiver *receiver, size_t arrived)
{
    return least(TT_SEAL_BLOCK_BYTES_MAX, receiver->head.payload_bytes - arrived);
}

static bool has_room(const tt_tcp_receiver *receiver)
{
    return receiver->arrived < receiver->head.payload_bytes &&
           receiver->blocks.count < TT_TCP_BLOCKS;
}

static void open_later(tt_tcp_receiver *receiver)
{
    tt_tcp_blocks *blocks = &receiver->blocks;
    tt_tcp_block *block = tt_tcp_blocks_at(blocks, blocks->count);
    const tt_status status = tt_seal_take_place(&receiver->seal, &block->place);
    TT_ASSERT(status == TT_OK); /* the link is up: it fails only after 2^64 blocks */
    block->seal = &receiver->seal;
    block->plain = NULL;
    block->plain_bytes = arriving_bytes(receiver, receiver->arrived);
    block->target = receiver->sink == NULL ? block->wire : receiver->sink + receiver->arrived;
    receiver->arrived += block->plain_bytes;
    blocks->moved = 0;
    tt_tcp_blocks_post(blocks);
}

/* Places of the next bytes: the rest of the block that is arriving, then whole blocks as long as
 * there is room. Returns the number of pieces. */
static size_t places_for_blocks(tt_tcp_receiver *receiver, struct iovec pieces[TT_TCP_BLOCKS])
{
    tt_tcp_blocks *blocks = &receiver->blocks;
    size_t arrived = receiver->arrived, moved = blocks->moved, piece_count = 0;
    for (uint32_t i = blocks->count; i < TT_TCP_BLOCKS; i++) {
        const size_t plain_bytes = arriving_bytes(receiver, arrived);
        if (plain_bytes == 0) {
            break;
        }
        pieces[piece_count++] =
            (struct iovec){.iov_base = tt_tcp_blocks_at(blocks, i)->wire + moved,
                           .iov_len = plain_bytes + TT_SEAL_TAG_BYTES - moved};
        arrived += plain_bytes;
        moved = 0;
    }
    return piece_count;
}

/* `count` bytes were stored at the pieces of places_for_blocks. */
static void blocks_arrived(tt_tcp_receiver *receiver, size_t count)
{
    tt_tcp_blocks *blocks = &receiver->blocks;
    const uint32_t before = blocks->count;
    while (count > 0) {
        const size_t wire_bytes = arriving_bytes(receiver, receiver->arrived) + TT_SEAL_TAG_BYTES;
        const size_t part = least(count, wire_bytes - blocks->moved);
        blocks->moved += part;
        count -= part;
        if (blocks->moved == wire_bytes) {
            open_later(receiver);
        }
    }
    if (blocks->count > before) {
        tt_tcp_blocks_call(blocks);
    }
}

/* Takes bytes of blocks that are in the buffer. */
static void take_buffered_blocks(tt_tcp_receiver *receiver)
{
    struct iovec pieces[TT_TCP_BLOCKS];
    const size_t piece_count = places_for_blocks(receiver, pieces);
    size_t copied = 0;
    for (size_t i = 0; i < piece_count && buffered(receiver) > 0; i++) {
        const size_t part = least(pieces[i].iov_len, buffered(receiver));
        memcpy(pieces[i].iov_base, receiver->buffer + receiver->begin, part);
        receiver->begin += part;
        copied += part;
    }
    blocks_arrived(receiver, copied);
}

/* Reads from the socket, with a few bytes that follow the frame. Returns the bytes read. */
static size_t read_into_blocks(tt_tcp *tcp)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    struct iovec pieces[TT_TCP_BLOCKS + 1];
    size_t piece_count = places_for_blocks(receiver, pieces), room = 0;
    TT_ASSERT(buffered(receiver) == 0);
    receiver->begin = receiver->end = 0;
    for (size_t i = 0; i < piece_count; i++) {
        room += pieces[i].iov_len;
    }
    const uint64_t rest = tt_seal_payload_wire_bytes(tcp->mode, receiver->head.payload_bytes -
                                                                    (uint32_t)receiver->arrived) -
                          receiver->blocks.moved;
    if (room == rest) {
        pieces[piece_count++] =
            (struct iovec){.iov_base = receiver->buffer, .iov_len = TT_TCP_PEEK_BYTES};
    }
    const size_t received = read_once(tcp, pieces, piece_count);
    if (received > 0) {
        receiver->end = received - least(received, room);
        blocks_arrived(receiver, least(received, room));
    }
    return received;
}

/* Takes the first block; this thread opens it if no other has begun. */
static void take_opened_block(tt_tcp *tcp)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    tt_tcp_block *block = tt_tcp_blocks_at(&receiver->blocks, 0);
    tt_tcp_blocks_finish(&receiver->blocks, 0);
    if (block->status != TT_OK) {
        tt_tcp_blocks_finish_all(&receiver->blocks); /* they read the keys */
        tt_seal_fini(&receiver->seal);
        payload_differs(tcp);
        return;
    }
    tt_tcp_blocks_pop(&receiver->blocks);
    long_arrived(tcp, NULL, block->plain_bytes);
}

/* One step of a frame that arrives by blocks. False: other threads are at work, or nothing
 * arrived. */
static bool step_blocks(tt_tcp *tcp, size_t *moved_bytes, bool *has_opened)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    tt_tcp_blocks *blocks = &receiver->blocks;
    if (blocks->count > 0 && tt_tcp_blocks_is_done(blocks, 0)) {
        *has_opened = true;
        take_opened_block(tcp);
        return true;
    }
    if (has_room(receiver) && buffered(receiver) > 0) {
        take_buffered_blocks(receiver);
        return true;
    }
    if (has_room(receiver) && *moved_bytes < TT_TCP_CHUNK_BYTES && !receiver->is_drained) {
        *moved_bytes += read_into_blocks(tcp);
        return true;
    }
    if (blocks->count == 0 || *moved_bytes > 0) {
        return false;
    }
    *has_opened = true;
    take_opened_block(tcp);
    return true;
}

bool tt_tcp_receiver_has_more(const tt_tcp *tcp)
{
    return !tcp->receiver.is_drained || tcp->receiver.blocks.count > 0;
}

/* Buffered bytes that the next step needs; 0 if it reads the socket by itself. */
static size_t bytes_needed(const tt_tcp *tcp)
{
    const tt_tcp_receiver *receiver = &tcp->receiver;
    switch (receiver->phase) {
    case TT_TCP_PHASE_HEAD:
        return TT_SEAL_SEALED_HEAD_BYTES;
    case TT_TCP_PHASE_SMALL:
        return small_bytes(tcp);
    case TT_TCP_PHASE_TRAILER:
        return TT_SEAL_CRC_BYTES;
    case TT_TCP_PHASE_LONG:
        if (tcp->mode == TT_SEAL_AEAD) {
            return block_bytes(receiver) + TT_SEAL_TAG_BYTES;
        }
        return receiver->sink == NULL ? 1 : 0;
    case TT_TCP_PHASE_ENDED:
        break;
    }
    return 0;
}

static void take_step(tt_tcp *tcp)
{
    switch (tcp->receiver.phase) {
    case TT_TCP_PHASE_HEAD:
        take_head(tcp);
        break;
    case TT_TCP_PHASE_SMALL:
        take_small(tcp);
        break;
    case TT_TCP_PHASE_TRAILER:
        take_trailer(tcp);
        break;
    case TT_TCP_PHASE_LONG:
        if (tcp->mode == TT_SEAL_AEAD) {
            take_sealed_block(tcp);
        } else {
            take_buffered_payload(tcp);
        }
        break;
    case TT_TCP_PHASE_ENDED:
        break;
    }
}

bool tt_tcp_receiver_poll(tt_tcp *tcp)
{
    tt_tcp_receiver *receiver = &tcp->receiver;
    size_t moved_bytes = 0;
    bool has_opened = false;
    receiver->is_drained = false;
    while (tcp->link.state == TT_LINK_UP && receiver->phase != TT_TCP_PHASE_ENDED) {
        if (receiver->phase == TT_TCP_PHASE_LONG && receiver->is_shared) {
            if (!step_blocks(tcp, &moved_bytes, &has_opened)) {
                break;
            }
            continue;
        }
        const size_t needed = bytes_needed(tcp);
        if (needed == 0 ? buffered(receiver) > 0 : buffered(receiver) >= needed) {
            take_step(tcp);
            continue;
        }
        if (moved_bytes >= TT_TCP_CHUNK_BYTES || receiver->is_drained) {
            break;
        }
        size_t received;
        if (needed == 0) {
            received = read_into_sink(tcp);
        } else {
            const size_t little = needed < TT_TCP_PEEK_BYTES ? TT_TCP_PEEK_BYTES : needed;
            received = fill_buffer(tcp, receiver->after_long && receiver->phase == TT_TCP_PHASE_HEAD
                                            ? little
                                            : TT_TCP_BUFFER_BYTES);
        }
        if (received == 0) {
            break;
        }
        moved_bytes += received;
    }
    if (moved_bytes > 0 && moved_bytes < TT_TCP_PEEK_BYTES) {
        delay_acknowledgement(receiver);
    }
    return moved_bytes > 0 || has_opened;
}

void tt_tcp_receiver_discard(tt_tcp *tcp)
{
    if (tcp->receiver.phase == TT_TCP_PHASE_LONG || tcp->receiver.phase == TT_TCP_PHASE_TRAILER) {
        tt_tcp_blocks_finish_all(&tcp->receiver.blocks);
        tcp->receiver.sink = NULL;
    }
}
