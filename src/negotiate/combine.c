/* SPDX-License-Identifier: Apache-2.0
 *
 * combine.c - a reduction over all members: AND, OR or MAX.
 *
 * Members of a host send to its leader. Leaders exchange by recursive doubling: after k exchanges a
 * leader holds the values of 2^k hosts. Leaders beyond the largest power of two are folded: they
 * send their value to a partner first, and receive the result from it. Then leaders send the result
 * to their hosts: about log2(hosts) + 2 hops in all.
 *
 * AND, OR and MAX are idempotent, so a frame is applied when it arrives, in any order, even before
 * this member's own value is in; only sending keeps the order. The sender alone determines the role
 * of a frame. Frames of consistent members have equal digests and lengths; otherwise DIVERGED takes
 * the place of the values. */
#include <string.h>

#include "base/assert.h"
#include "base/plant.h"
#include "negotiate/internal.h"

tt_status tt_combine_init(tt_negotiator *self, tt_combine *combine, tt_notice_kind kind)
{
    *combine = (tt_combine){.kind = (uint8_t)kind};
    if (self->place.local == 0) {
        combine->locals_seen =
            tt_allocate(&self->memory, (self->place.local_count + 63) / 64, sizeof(uint64_t));
        return combine->locals_seen == NULL ? TT_ERR_NO_MEMORY : TT_OK;
    }
    return TT_OK;
}

void tt_combine_destroy(tt_negotiator *self, tt_combine *combine)
{
    tt_release(&self->memory, combine->locals_seen, (self->place.local_count + 63) / 64,
               sizeof(uint64_t));
    tt_release(&self->memory, combine->bytes, combine->capacity, 1);
}

void tt_combine_reset(tt_negotiator *self, tt_combine *combine, uint64_t round)
{
    TT_ASSERT(round > combine->round);
    if (combine->locals_seen != NULL) {
        memset(combine->locals_seen, 0, (self->place.local_count + 63) / 64 * sizeof(uint64_t));
    }
    *combine = (tt_combine){.kind = combine->kind,
                            .round = round,
                            .locals_seen = combine->locals_seen,
                            .bytes = combine->bytes,
                            .capacity = combine->capacity};
}

/* ---- values ---- */

static uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
    return word;
}

static void take_vector(tt_combine *combine, const uint8_t *from, bool has_marks)
{
    for (uint32_t at = 0; at < combine->size; at += 8) {
        const uint64_t both = word_at(combine->bytes + at) & word_at(from + at);
        memcpy(combine->bytes + at, &both, sizeof(both));
        if (has_marks) {
            uint8_t *invalid = combine->bytes + combine->size + at;
            const uint64_t any = word_at(invalid) | word_at(from + combine->size + at);
            memcpy(invalid, &any, sizeof(any));
        }
    }
}

static void take_counts(tt_combine *combine, const uint8_t *from)
{
    for (uint32_t at = 0; at < combine->size; at += 4) {
        uint32_t here, there;
        memcpy(&here, combine->bytes + at, sizeof(here));
        memcpy(&there, from + at, sizeof(there));
        if (there > here) {
            memcpy(combine->bytes + at, &there, sizeof(there));
        }
    }
}

/* The first value sets length and digest. */
static tt_status open_with(tt_negotiator *self, tt_combine *combine, uint64_t digest, uint32_t size)
{
    void *bytes = combine->bytes;
    TT_TRY(tt_negotiator_grow(self, &bytes, &combine->capacity, 1, 2 * size));
    combine->bytes = bytes;
    combine->is_open = true;
    combine->digest = digest;
    combine->size = size;
    if (size > 0) {
        memset(combine->bytes, combine->kind == TT_NOTICE_VECTOR ? 0xff : 0, size);
        memset(combine->bytes + size, 0, size);
    }
    return TT_OK;
}

static tt_status take(tt_negotiator *self, tt_combine *combine, const tt_notice *notice)
{
    const bool has_marks = (notice->flags & TT_FLAGS_MARKED) != 0;
    const uint32_t size = has_marks ? notice->bytes / 2 : notice->bytes;
    if ((notice->flags & TT_FLAG_DIVERGED) != 0) {
        combine->flags |= notice->flags;
        return TT_OK;
    }
    if (!combine->is_open) {
        TT_TRY(open_with(self, combine, notice->digest, size));
    }
    combine->flags |= notice->flags;
    const bool is_astray = combine->digest != notice->digest && !TT_PLANT(CACHE_SKEW);
    if (is_astray || combine->size != size) {
        combine->flags |= TT_FLAG_DIVERGED;
    } else if (combine->kind == TT_NOTICE_VECTOR) {
        take_vector(combine, notice->payload, has_marks);
    } else {
        take_counts(combine, notice->payload);
    }
    return TT_OK;
}

/* ---- sending ---- */

static void send_value(tt_negotiator *self, const tt_combine *combine, uint32_t member)
{
    uint32_t bytes = combine->size;
    bytes += (combine->flags & TT_FLAGS_MARKED) != 0 ? combine->size : 0;
    bytes = (combine->flags & TT_FLAG_DIVERGED) != 0 ? 0 : bytes;
    tt_negotiator_send(self, member,
                       &(tt_notice){.kind = combine->kind,
                                    .flags = combine->flags,
                                    .round = combine->round,
                                    .digest = combine->digest,
                                    .bytes = bytes,
                                    .payload = combine->bytes});
}

static void finish(tt_negotiator *self, tt_combine *combine)
{
    const tt_place *place = &self->place;
    TT_ASSERT(combine->is_begun); /* else this member's value would be missing */
    TT_ASSERT(!combine->is_over);
    combine->is_over = true;
    if (place->local > 0) {
        return;
    }
    if (place->turn + place->power < self->members.host_count && place->turn < place->power) {
        send_value(self, combine, tt_place_leader(self, place->turn + place->power));
    }
    for (uint32_t i = 1; i < place->local_count; i++) {
        send_value(self, combine, place->locals[i]);
    }
}

/* The leaders' exchange, once the values of this host are in. */
static void exchange(tt_negotiator *self, tt_combine *combine)
{
    const tt_place *place = &self->place;
    if (place->turn >= place->power) { /* folded */
        if (!combine->is_fold_sent) {
            combine->is_fold_sent = true;
            send_value(self, combine, tt_place_leader(self, place->turn - place->power));
        }
        if (combine->is_folded) {
            finish(self, combine);
        }
        return;
    }
    if (place->turn + place->power < self->members.host_count && !combine->is_folded) {
        return;
    }
    for (uint32_t k = 0; k < place->dimensions; k++) {
        if (combine->dimensions_sent == k) {
            combine->dimensions_sent++;
            send_value(self, combine, tt_place_leader(self, place->turn ^ 1U << k));
        }
        if ((combine->dimensions_in >> k & 1) == 0 && !TT_PLANT(COMBINE_TOO_EARLY)) {
            return;
        }
    }
    finish(self, combine);
}

static void advance(tt_negotiator *self, tt_combine *combine)
{
    if (combine->is_begun && !combine->is_over && self->place.local == 0 &&
        combine->locals_in == self->place.local_count - 1) {
        exchange(self, combine);
    }
}

tt_status tt_combine_begin(tt_negotiator *self, tt_combine *combine, const tt_notice *own)
{
    TT_ASSERT(!combine->is_begun && !combine->is_over);
    TT_TRY(take(self, combine, own));
    combine->is_begun = true;
    combine->digest = own->digest;
    if (self->place.local > 0) {
        send_value(self, combine, self->place.locals[0]);
    }
    advance(self, combine);
    return TT_OK;
}

/* ---- receiving ---- */

/* Record the frame of `member`. False: a duplicate. BAD_WIRE: `member` may not send one. */
static tt_status admit(tt_negotiator *self, tt_combine *combine, uint32_t member, bool *is_new_out)
{
    const tt_place *place = &self->place;
    const uint32_t local = tt_place_local(self, member);
    if (place->local > 0) { /* the result, from the leader */
        *is_new_out = !combine->is_over;
        return local == 0 && combine->is_begun ? TT_OK : TT_ERR_BAD_WIRE;
    }
    if (local != TT_NONE) {
        uint64_t *seen = &combine->locals_seen[local / 64];
        *is_new_out = (*seen >> (local & 63) & 1) == 0;
        *seen |= UINT64_C(1) << (local & 63);
        combine->locals_in += *is_new_out;
        TT_ASSERT(combine->locals_in < place->local_count);
        return TT_OK;
    }
    const uint32_t turn = tt_place_turn(self, member);
    if (turn != TT_NONE && (turn ^ place->power) == place->turn) {
        *is_new_out = !combine->is_folded;
        combine->is_folded = true;
        return TT_OK;
    }
    const uint32_t difference = turn ^ place->turn;
    if (turn == TT_NONE || place->turn >= place->power || turn >= place->power ||
        (difference & (difference - 1)) != 0) {
        return TT_ERR_BAD_WIRE;
    }
    *is_new_out = (combine->dimensions_in & difference) == 0;
    combine->dimensions_in |= difference;
    return TT_OK;
}

tt_status tt_combine_notice(tt_negotiator *self, tt_combine *combine, uint32_t member,
                            const tt_notice *notice)
{
    const uint32_t unit = combine->kind == TT_NOTICE_VECTOR ? 8 : 4;
    const bool has_marks = (notice->flags & TT_FLAGS_MARKED) != 0;
    if (notice->bytes % (has_marks ? 2 * unit : unit) != 0 ||
        (notice->flags & ~TT_FLAGS_COMBINED) != 0 || notice->part != 0 ||
        (has_marks && combine->kind != TT_NOTICE_VECTOR)) {
        return TT_ERR_BAD_WIRE;
    }
    bool is_new = false;
    TT_TRY(admit(self, combine, member, &is_new));
    if (!is_new) {
        return TT_OK;
    }
    TT_TRY(take(self, combine, notice));
    if (self->place.local > 0) {
        finish(self, combine);
    } else {
        advance(self, combine);
    }
    return TT_OK;
}
