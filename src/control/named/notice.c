/* SPDX-License-Identifier: Apache-2.0
 *
 * notice.c - frames between negotiators.
 *
 * A notice lies in a head: kind and flags in `stage`, part in `lane`, round in `op`, digest in
 * `descriptor`. Payloads of up to TT_NOTICE_BYTES_MAX are copied (outgoing.h). A notice for a set
 * that this rank has not created yet is kept until it has. */
#include <string.h>

#include "base/base.h"
#include "control/named/name.h"

_Static_assert((int)TT_NOTICE_BYTES_MAX <= (int)TT_INLINE_BYTES_MAX,
               "a notice is in memory when it arrives");

void tt_notice_send(tt_control *control, tt_set *set, uint32_t member, const tt_notice *notice)
{
    TT_ASSERT(member < set->size && member != set->self);
    const tt_head head = {.kind = TT_FRAME_NOTICE,
                          .stage = (uint16_t)(notice->kind | notice->flags << 8),
                          .set = set->id,
                          .op = notice->round,
                          .lane = notice->part,
                          .descriptor = notice->digest,
                          .epoch = control->world.epoch};
    if (!tt_outgoing_send(control, set->members[member], head, notice->payload, notice->bytes)) {
        tt_name_starve(control);
    }
}

static void notice_take(tt_control *control, tt_set *set, uint32_t peer, const tt_head *head,
                        const void *payload)
{
    TT_ASSERT(peer < control->world.size);
    const uint32_t member = set->member_of[peer];
    if (set->self == UINT32_MAX || member == UINT32_MAX) {
        return;
    }
    if (tt_host_ready(control, set) != TT_OK) {
        tt_name_starve(control);
        return;
    }
    const tt_notice notice = {.kind = (uint8_t)(head->stage & 0xff),
                              .flags = (uint8_t)(head->stage >> 8),
                              .part = head->lane,
                              .round = head->op,
                              .digest = head->descriptor,
                              .bytes = head->payload_bytes,
                              .payload = payload};
    const tt_status status = tt_negotiator_notice(set->negotiator, member, &notice);
    if (status == TT_ERR_BAD_WIRE) {
        control->flow.frames_dropped++;
    } else if (status == TT_ERR_NO_MEMORY) {
        tt_name_starve(control);
    }
    tt_host_touch(control, set);
}

static void notice_keep(tt_control *control, uint32_t peer, const tt_head *head,
                        const void *payload)
{
    TT_ASSERT(head->payload_bytes <= TT_NOTICE_BYTES_MAX); /* the caller has checked it */
    const size_t bytes = sizeof(tt_early) + head->payload_bytes;
    tt_peer_state *state = &control->peers[peer];
    TT_ASSERT(state->early_bytes <= EARLY_BYTES_MAX);
    if (bytes > EARLY_BYTES_MAX - state->early_bytes) {
        return;
    }
    tt_early *early = tt_platform_allocate(control->platform, bytes);
    if (early == NULL) {
        tt_name_starve(control);
        return;
    }
    state->early_bytes += bytes;
    early->peer = peer;
    early->head = *head;
    if (head->payload_bytes > 0) {
        memcpy(early->payload, payload, head->payload_bytes);
    }
    tt_early **end = &control->early;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = early;
}

static void early_release(tt_control *control, tt_early *early)
{
    const size_t bytes = sizeof(tt_early) + early->head.payload_bytes;
    TT_ASSERT(control->peers[early->peer].early_bytes >= bytes);
    control->peers[early->peer].early_bytes -= bytes;
    tt_platform_release(control->platform, early, bytes);
}

void tt_notice_frame(tt_control *control, uint32_t peer, const tt_head *head, const void *payload)
{
    tt_set *set = tt_set_find(control, head->set);
    if (head->payload_bytes > TT_NOTICE_BYTES_MAX) {
        return;
    }
    if (set != NULL) {
        notice_take(control, set, peer, head, payload);
    } else if (tt_set_is_future(control, head->set)) {
        notice_keep(control, peer, head, payload);
    }
}

void tt_notice_replay(tt_control *control, tt_set *set)
{
    for (tt_early **link = &control->early; *link != NULL;) {
        tt_early *early = *link;
        if (early->head.set != set->id) {
            link = &early->next;
            continue;
        }
        *link = early->next;
        notice_take(control, set, early->peer, &early->head, early->payload);
        early_release(control, early);
    }
}

void tt_notice_release_all(tt_control *control)
{
    while (control->early != NULL) {
        tt_early *next = control->early->next;
        early_release(control, control->early);
        control->early = next;
    }
}
