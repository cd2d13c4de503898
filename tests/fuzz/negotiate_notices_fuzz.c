/* SPDX-License-Identifier: Apache-2.0
 *
 * negotiate_notices_fuzz.c - a negotiator against members that send anything.
 *
 * The input is a list of events: calls of this member, time, and notices of three others, which are
 * any bytes or nearly right ones (rounds, digests and records that this member could expect).
 * Whatever arrives, every ticket must end exactly once, and all memory must be freed.
 *
 * Labels: negotiate */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "negotiate/notice.h"
#include "negotiate/parts.h"
#include "negotiate/ranges.h"

enum { MEMBERS = 4, TICKETS_MAX = 128, EVENTS_MAX = 1024, PAYLOAD_MAX = 512 };

typedef struct fuzz_ticket {
    tt_ticket ticket;
    int ends;
} fuzz_ticket;

typedef struct fuzz_host {
    tt_counting_allocator counter;
    uint64_t now_ns, round, digest; /* of the last notice sent, so that others can forge it */
    fuzz_ticket tickets[TICKETS_MAX];
    uint32_t ticket_count;
} fuzz_host;

typedef struct fuzz_input {
    const uint8_t *bytes;
    size_t left;
} fuzz_input;

static uint64_t take(fuzz_input *input, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count && input->left > 0; i++, input->left--) {
        value |= (uint64_t)*input->bytes++ << (8 * i);
    }
    return value;
}

/* ---- the host ---- */

static void *host_allocate(void *owner, size_t bytes)
{
    const tt_allocator allocator = tt_counting_allocator_borrow(&((fuzz_host *)owner)->counter);
    return allocator.allocate(allocator.user, bytes);
}

static void host_release(void *owner, void *memory, size_t bytes)
{
    const tt_allocator allocator = tt_counting_allocator_borrow(&((fuzz_host *)owner)->counter);
    allocator.release(allocator.user, memory, bytes);
}

static uint64_t host_now(void *owner)
{
    return ((const fuzz_host *)owner)->now_ns;
}

static void host_send(void *owner, uint32_t member, const tt_notice *notice)
{
    fuzz_host *host = owner;
    TT_ASSERT(member < MEMBERS && notice->bytes <= TT_NOTICE_BYTES_MAX);
    if (notice->kind <= TT_NOTICE_CALL) {
        host->round = notice->round;
        host->digest = notice->digest;
    }
}

static void end_ticket(tt_ticket *ticket)
{
    if (ticket != NULL) {
        fuzz_ticket *mine = ticket->owner;
        TT_ASSERT(++mine->ends == 1);
    }
}

static void host_agreed(void *owner, const tt_agreement *items, uint32_t count)
{
    (void)owner;
    for (uint32_t i = 0; i < count; i++) {
        TT_ASSERT(strlen(items[i].name) <= items[i].name_bytes);
        end_ticket(items[i].ticket);
    }
}

static void host_planned(void *owner, const tt_agreement *item)
{
    (void)owner;
    end_ticket(item->ticket);
}

static void host_failed(void *owner, tt_ticket *ticket, tt_status status, const char *text)
{
    (void)owner;
    TT_ASSERT(status < 0 && text != NULL);
    end_ticket(ticket);
}

static void host_joined(void *owner, uint32_t last)
{
    (void)owner;
    TT_ASSERT(last < MEMBERS);
}

static tt_status host_explain(void *owner, const char *name, const tt_claimant *claimants,
                              uint32_t count, tt_text *text)
{
    (void)owner;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < claimants[i].member_count; k++) {
            TT_ASSERT(claimants[i].members[k] < MEMBERS);
        }
    }
    tt_text_add(text, "%s differs", name);
    return TT_ERR_MISMATCH;
}

static void host_report(void *owner, int level, const char *text)
{
    (void)owner;
    TT_ASSERT(level >= 0 && strlen(text) < TT_TEXT_BYTES);
}

/* ---- events ---- */

static bool is_open(const fuzz_host *host, const char *name)
{
    for (uint32_t i = 0; i < host->ticket_count; i++) {
        if (host->tickets[i].ends == 0 && strcmp(host->tickets[i].ticket.name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void submit(tt_negotiator *negotiator, fuzz_host *host, uint64_t choice)
{
    static const char *const names[] = {"a", "b", "c", "dd"};
    static const char *const claims[] = {"x", "y", "xx", ""};
    if (host->ticket_count == TICKETS_MAX) {
        return;
    }
    const bool is_group = (choice & 3) == 3;
    const char *name = names[choice & 3], *claim = is_group ? "=ab" : claims[choice >> 2 & 3];
    if (is_group ? is_open(host, "a") || is_open(host, "b") : is_open(host, names[3])) {
        return; /* a tensor is in one open ticket */
    }
    fuzz_ticket *mine = &host->tickets[host->ticket_count++];
    mine->ticket = (tt_ticket){.name = name,
                               .claim = claim,
                               .name_bytes = (uint16_t)strlen(name),
                               .claim_bytes = (uint16_t)strlen(claim),
                               .needs_all = (choice >> 4 & 7) == 7,
                               .owner = mine};
    tt_negotiator_submit(negotiator, &mine->ticket);
}

/* A record that nearly fits. */
static uint32_t write_record(uint8_t *at, fuzz_input *input, bool is_request)
{
    const uint64_t choice = take(input, 2);
    uint32_t used = 8;
    if (is_request) {
        const bool is_group = (choice >> 12 & 3) == 3;
        const tt_request_head head = {.kind = (uint8_t)(choice & 7),
                                      .needs_all = (choice >> 3 & 7) == 7,
                                      .name_bytes = (choice & 7) == TT_REQUEST_JOIN ? 0 : 1,
                                      .claim_bytes = is_group ? 3 : 1,
                                      .range_count = 1};
        const tt_range range = {(uint32_t)(choice >> 6 & 3), (uint32_t)(choice >> 8 & 3)};
        memcpy(at, &head, sizeof(head));
        memcpy(at + used, &range, sizeof(range));
        used += (uint32_t)sizeof(range);
        at[used] = (uint8_t)('a' + (choice >> 10 & 1));
        used += head.name_bytes;
        at[used] = (uint8_t)('x' + (choice >> 11 & 1));
        if (is_group) {
            memcpy(at + used, "=ab", 3);
        }
        return used + head.claim_bytes;
    }
    const bool is_join = (choice & 3) == TT_ANSWER_JOINED;
    const tt_answer_kind rare = (choice >> 14 & 1) != 0 ? TT_ANSWER_JUDGED : TT_ANSWER_CONTESTED;
    const tt_answer_head head = {.kind = (uint8_t)((choice & 3) == 0 ? rare : choice & 3),
                                 .needs_all = (choice >> 2 & 7) == 7,
                                 .status = (int16_t) - (int)(choice >> 5 & 15),
                                 .name_bytes = is_join ? 0 : 1,
                                 .claim_bytes = is_join ? sizeof(tt_answer_join) : 1};
    const tt_answer_join join = {(uint32_t)(choice >> 9 & 3), 1, 2};
    memcpy(at, &head, sizeof(head));
    at[used] = (uint8_t)('a' + (choice >> 12 & 1));
    used += head.name_bytes;
    at[used++] = 0;
    at[used] = (uint8_t)('x' + (choice >> 13 & 1));
    if (is_join) {
        memcpy(at + used, &join, sizeof(join));
    }
    used += head.claim_bytes;
    at[used++] = 0;
    return used;
}

static void deliver(tt_negotiator *negotiator, const fuzz_host *host, fuzz_input *input)
{
    const uint64_t shape = take(input, 2);
    uint8_t payload[PAYLOAD_MAX] = {0};
    tt_notice notice = {.kind = (uint8_t)(shape & 15),
                        .round = host->round + (shape >> 4 & 3) - 1,
                        .digest = host->digest,
                        .payload = payload};
    const bool is_request = notice.kind == TT_NOTICE_REQUESTS;
    if ((shape >> 6 & 3) == 0) { /* anything at all */
        notice.flags = (uint8_t)take(input, 1);
        notice.part = (uint32_t)take(input, 4);
        notice.round = take(input, 8);
        notice.digest = take(input, 8);
        notice.bytes = (uint32_t)take(input, 2) % PAYLOAD_MAX;
        for (uint32_t i = 0; i < 64; i++) {
            payload[i] = (uint8_t)take(input, 1);
        }
    } else if (is_request || notice.kind == TT_NOTICE_ANSWERS) {
        for (uint64_t i = shape >> 8 & 3; i > 0; i--) {
            notice.bytes += write_record(payload + notice.bytes, input, is_request);
        }
        notice.flags = (shape >> 10 & 3) != 0 ? TT_FLAG_LAST : 0;
        notice.part = (uint32_t)(shape >> 12 & 1);
    } else {
        notice.flags = (uint8_t)(take(input, 1) & 31);
        notice.bytes = (uint32_t)(shape >> 8 & 3) * ((notice.flags & 2) != 0 ? 16 : 8);
        for (uint32_t i = 0; i < 8 && notice.bytes > 0; i++) {
            payload[i % notice.bytes] = (uint8_t)take(input, 1);
        }
    }
    tt_negotiator_notice(negotiator, (uint32_t)(shape >> 13 & 3), &notice);
}

static void play(tt_negotiator *negotiator, fuzz_host *host, fuzz_input *input)
{
    for (int event = 0; event < EVENTS_MAX && input->left > 0; event++) {
        const uint64_t choice = take(input, 1);
        host->now_ns += 1000;
        if (choice < 40) {
            submit(negotiator, host, take(input, 1));
        } else if (choice < 44 && host->ticket_count > 0) {
            fuzz_ticket *mine = &host->tickets[take(input, 1) % host->ticket_count];
            if (mine->ends == 0) {
                tt_negotiator_cancel(negotiator, &mine->ticket);
            }
        } else if (choice < 46) {
            tt_negotiator_join(negotiator);
        } else if (choice < 50) {
            tt_negotiator_plan_failed(negotiator, (uint32_t)host->round, (uint32_t)(choice & 1));
        } else if (choice < 56) {
            host->now_ns += UINT64_C(1) << (choice * 3 % 40);
            if (tt_negotiator_due(negotiator) <= host->now_ns) {
                tt_negotiator_tick(negotiator);
            }
        } else {
            deliver(negotiator, host, input);
        }
        if ((choice & 1) != 0) {
            tt_negotiator_flush(negotiator);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    static const uint32_t host_of[MEMBERS] = {0, 0, 1, 2}, host_members[MEMBERS] = {0, 1, 2, 3};
    static const uint32_t host_first[] = {0, 2, 3, 4};
    fuzz_input input = {.bytes = bytes, .left = byte_count};
    fuzz_host *host = calloc(1, sizeof(*host));
    TT_ASSERT(host != NULL);
    host->now_ns = host->round = 1;
    const uint64_t choice = take(&input, 1);
    tt_negotiate_config config;
    tt_negotiate_config_init(&config);
    config.mode = (tt_negotiate_mode)((choice >> 2 & 7) % 5);
    config.capacity = (uint32_t)(choice >> 5 & 3) + 1;
    config.steps_to_plan = 1;
    config.stall_ns = 1 << 20;
    config.stall_fail_ns = UINT64_C(1) << 30;
    const tt_negotiate_members members = {.size = MEMBERS,
                                          .self = (uint32_t)(choice & 3),
                                          .host_count = 3,
                                          .host_of = host_of,
                                          .host_first = host_first,
                                          .host_members = host_members};
    const tt_negotiate_host table = {.owner = host,
                                     .allocate = host_allocate,
                                     .release = host_release,
                                     .now = host_now,
                                     .send = host_send,
                                     .agreed = host_agreed,
                                     .planned = host_planned,
                                     .failed = host_failed,
                                     .judged = host_failed,
                                     .joined = host_joined,
                                     .explain = host_explain,
                                     .part = parts_next,
                                     .report = host_report};
    tt_negotiator *negotiator = NULL;
    TT_ASSERT(tt_negotiator_create(&table, &members, &config, &negotiator) == TT_OK);
    play(negotiator, host, &input);
    tt_negotiator_shut(negotiator, TT_ERR_SHUT_DOWN, "over");
    tt_negotiator_destroy(negotiator);
    for (uint32_t i = 0; i < host->ticket_count; i++) {
        TT_ASSERT(host->tickets[i].ends == 1);
    }
    TT_ASSERT(host->counter.live_bytes == 0);
    free(host);
    return 0;
}
