/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c - residuals as a whole: committed, undone, reset, rescaled, saved and loaded.
 *
 * Saved bytes, in the byte order of the host (little-endian everywhere Tutti runs):
 *
 *   "TUTTI-EF" | u32 version | u32 rank | u32 ranks | u32 zero | f64 unit | u64 records | records
 *   a record: u32 set, u32 length of the name, u64 occurrences, u64 number of floats of the values,
 *     of the sums and of the estimates, u64 first sum, u64 first estimate, u64 stamp, u64 form; the
 *     name, zeros up to a multiple of 8; floats of the values, of the sums, of the estimates
 *   u64 hash of all before it
 */
#include "control/coded/state.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "control/control_internal.h"
#include "kernel/hash64.h"

typedef struct state_head {
    char magic[8];
    uint32_t version, rank, size, zero;
    double unit;
    uint64_t records;
} state_head;

typedef struct state_record {
    uint32_t set, name_bytes;
    uint64_t occurrences, input_count, owner_count, estimate_count;
    uint64_t owner_first, estimate_first, stamp, form;
} state_record;

_Static_assert(sizeof(state_head) == 40 && sizeof(state_record) == 72,
               "they are saved as they are");

enum { STATE_VERSION = 2, STATE_ALIGN = 8 };

static const char MAGIC[8] = {'T', 'U', 'T', 'T', 'I', '-', 'E', 'F'};

#define FLOATS_MAX (UINT64_C(1) << 48)

/* The record after `last`, in the order of buckets; NULL: the first; returns NULL at the end. */
static tt_feedback *record_next(const tt_control *control, const tt_feedback *last)
{
    tt_feedback **buckets = control->feedbacks.buckets;
    if (buckets == NULL || (last != NULL && last->next != NULL)) {
        return last != NULL ? last->next : NULL;
    }
    uint64_t at = last != NULL ? last->hash % FEEDBACK_BUCKETS + 1 : 0;
    while (at < FEEDBACK_BUCKETS && buckets[at] == NULL) {
        at++;
    }
    return at < FEEDBACK_BUCKETS ? buckets[at] : NULL;
}

/* Is a call in flight that uses residuals? Then the text names it. */
static tt_status refuse_busy(const tt_control *control, tt_text *text)
{
    for (const tt_feedback *one = record_next(control, NULL); one != NULL;
         one = record_next(control, one)) {
        if (one->is_busy) {
            tt_text_add(text, "a coded call of tensor ");
            tt_text_add_quoted(text, one->name, TT_NAME_BYTES);
            tt_text_add(text, " is in flight; wait for it first");
            return TT_ERR_BAD_ARGUMENT;
        }
    }
    return TT_OK;
}

/* ---- steps ---- */

void tt_control_codec_commit(tt_control *control)
{
    control->feedbacks.has_steps = true;
    for (tt_feedback *one = record_next(control, NULL); one != NULL;
         one = record_next(control, one)) {
        tt_feedback_commit(one);
    }
}

void tt_control_codec_undo(tt_control *control)
{
    for (tt_feedback *one = record_next(control, NULL); one != NULL;
         one = record_next(control, one)) {
        tt_feedback_undo(one);
        one->is_undone = one->is_busy;
    }
}

/* ---- all at once ---- */

static void forget(tt_control *control, tt_feedback *one)
{
    tt_feedback_clear(control, one);
    one->occurrences = 0;
}

tt_status tt_control_codec_reset(tt_control *control, uint32_t set, const char *name, tt_text *text)
{
    TT_TRY(refuse_busy(control, text));
    tt_feedback *found = name != NULL ? tt_feedback_find(control, set, name, 0) : NULL;
    if (name != NULL && found == NULL) {
        return TT_OK; /* nothing is kept of it */
    }
    if (found != NULL) {
        forget(control, found);
        return TT_OK;
    }
    for (tt_feedback *one = record_next(control, NULL); one != NULL;
         one = record_next(control, one)) {
        forget(control, one);
    }
    return TT_OK;
}

/* All ranks must be in the same unit: it is part of the stamp, unless there is nothing to scale. */
static uint64_t stamp_in(uint64_t stamp, double unit)
{
    uint64_t bits;
    memcpy(&bits, &unit, sizeof(bits));
    return stamp != 0 ? tt_hash64_mix(stamp, bits) | 1 : 0;
}

static void scale(tt_feedback *one, double last, double unit)
{
    const float factor = (float)(unit / last);
    TT_DEBUG_ASSERT(!one->is_busy);
    tt_kept_scale(&one->input, factor);
    tt_kept_scale(&one->owner, factor);
    tt_kept_scale(&one->estimate, factor);
    one->stamp = stamp_in(one->stamp, unit);
    one->stamp_last = stamp_in(one->stamp_last, unit);
}

tt_status tt_control_codec_unit(tt_control *control, double unit, tt_text *text)
{
    const double last = control->feedbacks.unit > 0.0 ? control->feedbacks.unit : 1.0;
    if (!isfinite(unit) || unit <= 0.0) {
        tt_text_add(text, "unit %g is not a positive number", unit);
        return TT_ERR_BAD_ARGUMENT;
    }
    TT_TRY(refuse_busy(control, text));
    for (tt_feedback *one = record_next(control, NULL); one != NULL && unit != last;
         one = record_next(control, one)) {
        scale(one, last, unit);
    }
    control->feedbacks.unit = unit;
    return TT_OK;
}

uint64_t tt_control_codec_bytes(const tt_control *control)
{
    uint64_t bytes = 0;
    for (const tt_feedback *one = record_next(control, NULL); one != NULL;
         one = record_next(control, one)) {
        bytes +=
            tt_kept_bytes(&one->input) + tt_kept_bytes(&one->owner) + tt_kept_bytes(&one->estimate);
    }
    return bytes;
}

double tt_control_codec_norm(const tt_control *control)
{
    double sum = 0.0;
    for (const tt_feedback *one = record_next(control, NULL); one != NULL;
         one = record_next(control, one)) {
        sum += one->form == FORM_RESIDUAL ? tt_kept_squares(&one->input) : 0.0;
        sum += tt_kept_squares(&one->owner);
    }
    return sqrt(sum);
}

/* ---- saving ---- */

static bool is_saved(const tt_feedback *one)
{
    return one->name[0] != 0;
}

static uint64_t name_room(uint32_t name_bytes)
{
    return tt_round_up(name_bytes, STATE_ALIGN);
}

static uint64_t floats_room(uint64_t count)
{
    return tt_round_up(count * sizeof(float), STATE_ALIGN);
}

static state_record record_of(const tt_feedback *one)
{
    return (state_record){.set = one->set,
                          .name_bytes = (uint32_t)strlen(one->name),
                          .occurrences = one->occurrences,
                          .input_count = one->input.count,
                          .owner_count = one->owner.count,
                          .estimate_count = one->estimate.count,
                          .owner_first = one->owner_first,
                          .estimate_first = one->estimate_first,
                          .stamp = one->stamp,
                          .form = one->form};
}

static uint64_t record_room(const state_record *record)
{
    return sizeof(*record) + name_room(record->name_bytes) + floats_room(record->input_count) +
           floats_room(record->owner_count) + floats_room(record->estimate_count);
}

/* Bytes behind which the room is zero. */
static uint8_t *put(uint8_t *at, const void *source, uint64_t bytes, uint64_t room)
{
    if (bytes > 0) {
        memcpy(at, source, bytes);
    }
    memset(at + bytes, 0, room - bytes);
    return at + room;
}

static uint8_t *put_floats(uint8_t *at, const tt_kept *kept)
{
    return put(at, tt_kept_now(kept), kept->count * sizeof(float), floats_room(kept->count));
}

static uint8_t *record_write(const tt_feedback *one, uint8_t *at)
{
    const state_record record = record_of(one);
    at = put(at, &record, sizeof(record), sizeof(record));
    at = put(at, one->name, record.name_bytes, name_room(record.name_bytes));
    at = put_floats(at, &one->input);
    at = put_floats(at, &one->owner);
    return put_floats(at, &one->estimate);
}

tt_status tt_control_codec_save(const tt_control *control, void *bytes, size_t capacity,
                                size_t *bytes_out, tt_text *text)
{
    state_head head = {.version = STATE_VERSION,
                       .rank = control->world.rank,
                       .size = control->world.size,
                       .unit = control->feedbacks.unit > 0.0 ? control->feedbacks.unit : 1.0};
    uint64_t needed = sizeof(head) + sizeof(uint64_t);
    TT_TRY(refuse_busy(control, text));
    memcpy(head.magic, MAGIC, sizeof(MAGIC));
    for (const tt_feedback *one = record_next(control, NULL); one != NULL;
         one = record_next(control, one)) {
        const state_record record = record_of(one);
        needed += is_saved(one) ? record_room(&record) : 0;
        head.records += is_saved(one) ? 1 : 0;
    }
    *bytes_out = needed;
    if (capacity < needed || bytes == NULL) {
        return TT_OK;
    }
    uint8_t *at = put(bytes, &head, sizeof(head), sizeof(head));
    for (const tt_feedback *one = record_next(control, NULL); one != NULL;
         one = record_next(control, one)) {
        at = is_saved(one) ? record_write(one, at) : at;
    }
    const uint64_t hash = tt_hash64(bytes, (size_t)(at - (uint8_t *)bytes), STATE_VERSION);
    at = put(at, &hash, sizeof(hash), sizeof(hash));
    TT_ASSERT((size_t)(at - (uint8_t *)bytes) == needed);
    return TT_OK;
}

/* ---- loading ---- */

/* Bytes that are being read; they may be anything. */
typedef struct reader {
    state_head head;
    const uint8_t *at;
    uint64_t left;
} reader;

/* The next bytes, NULL: there are not so many. */
static const uint8_t *get(reader *from, uint64_t bytes)
{
    if (bytes > from->left) {
        return NULL;
    }
    const uint8_t *found = from->at;
    from->at += bytes;
    from->left -= bytes;
    return found;
}

typedef struct loaded {
    state_record record;
    char name[TT_NAME_BYTES];
    const uint8_t *inputs, *owners, *estimates; /* floats, which may lie at any address */
} loaded;

static bool record_read(reader *from, loaded *one)
{
    const uint8_t *bytes = get(from, sizeof(one->record));
    if (bytes == NULL) {
        return false;
    }
    memcpy(&one->record, bytes, sizeof(one->record));
    const state_record *record = &one->record;
    if (record->name_bytes == 0 || record->name_bytes >= TT_NAME_BYTES ||
        record->input_count >= FLOATS_MAX || record->owner_count >= FLOATS_MAX ||
        record->estimate_count >= FLOATS_MAX || record->form >= FORM_COUNT) {
        return false;
    }
    const uint8_t *name = get(from, name_room(record->name_bytes));
    one->inputs = get(from, floats_room(record->input_count));
    one->owners = get(from, floats_room(record->owner_count));
    one->estimates = get(from, floats_room(record->estimate_count));
    if (name == NULL || one->inputs == NULL || one->owners == NULL || one->estimates == NULL) {
        return false;
    }
    memcpy(one->name, name, record->name_bytes);
    one->name[record->name_bytes] = 0;
    return strlen(one->name) == record->name_bytes;
}

static tt_status refuse_damaged(tt_text *text)
{
    tt_text_add(text, "the state of codecs is damaged; load another checkpoint, or start without");
    return TT_ERR_BAD_ARGUMENT;
}

static tt_status head_check(const tt_control *control, const state_head *head, tt_text *text)
{
    if (head->size != control->world.size) {
        tt_text_add(text, "the state is of %u ranks, the job has %u; start without it", head->size,
                    control->world.size);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (head->rank != control->world.rank) {
        tt_text_add(text, "the state is of rank %u, this is rank %u; each rank loads its own",
                    head->rank, control->world.rank);
        return TT_ERR_BAD_ARGUMENT;
    }
    return isfinite(head->unit) && head->unit > 0.0 ? TT_OK : refuse_damaged(text);
}

static tt_status begin_reading(const tt_control *control, const void *bytes, size_t byte_count,
                               reader *from, tt_text *text)
{
    uint64_t hash = 0;
    state_head *head = &from->head;
    const bool is_long = byte_count >= sizeof(*head) + sizeof(hash);
    *from = (reader){.at = bytes};
    if (bytes != NULL && is_long) {
        memcpy(head, bytes, sizeof(*head));
        memcpy(&hash, (const uint8_t *)bytes + byte_count - sizeof(hash), sizeof(hash));
    }
    if (bytes == NULL || !is_long || memcmp(head->magic, MAGIC, sizeof(MAGIC)) != 0 ||
        head->version != STATE_VERSION ||
        hash != tt_hash64(bytes, byte_count - sizeof(hash), STATE_VERSION)) {
        tt_text_add(text, "these are not the bytes of tutti_codec_save, or not all of them");
        return TT_ERR_BAD_ARGUMENT;
    }
    from->at += sizeof(*head);
    from->left = byte_count - sizeof(*head) - sizeof(hash);
    return head_check(control, head, text);
}

/* Would it fit the tensor, as far as it is known? */
static tt_status fit_check(const tt_control *control, const loaded *one, tt_text *text)
{
    const tt_feedback *known = tt_feedback_find(control, one->record.set, one->name, 0);
    const bool fits = known == NULL || known->input.count == 0 ||
                      (known->input.count == one->record.input_count &&
                       known->owner.count == one->record.owner_count);
    if (!fits) {
        tt_text_add(text, "the state of tensor ");
        tt_text_add_quoted(text, one->name, TT_NAME_BYTES);
        tt_text_add(text, " has %llu elements, the tensor has %llu",
                    (unsigned long long)one->record.input_count,
                    (unsigned long long)known->input.count);
    }
    return fits ? TT_OK : TT_ERR_BAD_ARGUMENT;
}

/* A state that is complete in memory, and does not count yet. */
typedef struct ready {
    struct ready *next;
    tt_feedback *own;
    state_record record;
    tt_kept input, owner, estimate;
} ready;

static tt_status kept_fill(tt_control *control, tt_kept *kept, const uint8_t *floats,
                           uint64_t count)
{
    TT_TRY(tt_kept_make(kept, control->platform, count));
    if (count > 0) {
        memcpy(tt_kept_now(kept), floats, count * sizeof(float));
    }
    return TT_OK;
}

static tt_status make_ready(tt_control *control, const loaded *one, ready **list)
{
    ready *made = tt_platform_allocate(control->platform, sizeof(*made));
    if (made == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    made->next = *list;
    *list = made;
    made->record = one->record;
    made->own = tt_feedback_of(control, one->record.set, one->name, 0);
    if (made->own == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    TT_TRY(kept_fill(control, &made->input, one->inputs, one->record.input_count));
    TT_TRY(kept_fill(control, &made->owner, one->owners, one->record.owner_count));
    return kept_fill(control, &made->estimate, one->estimates, one->record.estimate_count);
}

/* Replace the state of a tensor. */
static void take(ready *made)
{
    tt_feedback *own = made->own;
    TT_ASSERT(!own->is_busy);
    const tt_kept input = own->input, owner = own->owner, estimate = own->estimate;
    own->input = made->input;
    own->owner = made->owner;
    own->estimate = made->estimate;
    own->owner_first = made->record.owner_first;
    own->estimate_first = made->record.estimate_first;
    own->stamp = own->stamp_last = made->record.stamp;
    own->form = (tt_feedback_form)made->record.form;
    own->is_spread = true;
    own->occurrences = made->record.occurrences;
    made->input = input; /* released with it */
    made->owner = owner;
    made->estimate = estimate;
}

static void ready_release(tt_control *control, ready *list)
{
    while (list != NULL) {
        ready *gone = list;
        list = gone->next;
        tt_kept_clear(&gone->input, control->platform);
        tt_kept_clear(&gone->owner, control->platform);
        tt_kept_clear(&gone->estimate, control->platform);
        tt_platform_release(control->platform, gone, sizeof(*gone));
    }
}

/* All records, which were checked. */
static tt_status take_all(tt_control *control, reader *from)
{
    ready *list = NULL;
    loaded one;
    tt_status status = TT_OK;
    for (uint64_t i = 0; i < from->head.records && status == TT_OK; i++) {
        const bool is_good = record_read(from, &one);
        TT_ASSERT(is_good);
        status = make_ready(control, &one, &list);
    }
    for (ready *made = list; made != NULL && status == TT_OK; made = made->next) {
        take(made);
    }
    ready_release(control, list);
    return status;
}

tt_status tt_control_codec_load(tt_control *control, const void *bytes, size_t byte_count,
                                tt_text *text)
{
    reader from;
    loaded one;
    TT_TRY(refuse_busy(control, text));
    TT_TRY(begin_reading(control, bytes, byte_count, &from, text));
    reader checked = from;
    for (uint64_t i = 0; i < from.head.records; i++) {
        if (!record_read(&checked, &one)) {
            return refuse_damaged(text);
        }
        TT_TRY(fit_check(control, &one, text));
    }
    if (checked.left > 0) {
        return refuse_damaged(text);
    }
    TT_TRY(take_all(control, &from));
    control->feedbacks.unit = from.head.unit;
    return TT_OK;
}
