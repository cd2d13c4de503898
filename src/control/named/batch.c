/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.c - small named tensors exchanged as one.
 *
 * A batch lies in the arena, so that its copy is the staging that private memory needs anyway. */
#include "control/named/batch.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "kernel/hash64.h"
#include "kernel/reduce.h"

enum {
    ALIGN_BYTES = 64,
    TIMED_ONE_IN = 16, /* one planned occurrence in so many is timed, and counted for the others */
};

void tt_batch_set_phase(tt_batch *batch, tt_batch_phase phase)
{
    enum {
        IDLE = 1 << BATCH_IDLE,
        GATHERING = 1 << BATCH_GATHERING,
        SENT = 1 << BATCH_SENT,
        SPREADING = 1 << BATCH_SPREADING,
    };
    static const uint8_t after[] = {
        [BATCH_IDLE] = GATHERING,
        [BATCH_GATHERING] = SENT | IDLE, /* IDLE: given up, or found to have one member */
        [BATCH_SENT] = SPREADING | IDLE,
        [BATCH_SPREADING] = IDLE,
    };
    TT_ASSERT((after[batch->phase] >> phase & 1) != 0);
    batch->phase = phase;
}

/* ---- memory ---- */

void tt_batch_release_memory(tt_batch *batch)
{
    TT_ASSERT((batch->memory != NULL) == (batch->capacity > 0));
    tt_platform *platform = batch->control->platform;
    if (batch->memory != NULL) {
        platform->ops->release(platform, batch->is_arena ? TT_MEMORY_SHARED : TT_MEMORY_PRIVATE,
                               batch->memory, batch->capacity);
    }
    batch->memory = NULL;
    batch->capacity = 0;
}

/* A buffer of the members; NULL: they have none here. */
static const void *caller_buffer(const tt_batch *batch)
{
    tt_request *const *requests;
    const uint32_t count = batch->count > 0 ? tt_batch_requests(&batch->members[0], &requests) : 0;
    return count > 0 ? requests[0]->input : NULL;
}

static bool memory_reserve(tt_batch *batch, size_t bytes)
{
    tt_platform *platform = batch->control->platform;
    const void *like = platform->phantom_bytes > 0 ? caller_buffer(batch) : NULL;
    const bool is_useless =
        tt_is_phantom(platform, batch->memory) && !tt_is_phantom(platform, like);
    if (bytes <= batch->capacity && !is_useless) {
        return true;
    }
    tt_batch_release_memory(batch);
    const size_t capacity = tt_round_up(bytes, 4096);
    batch->is_arena = true;
    batch->memory = tt_platform_allocate_like(platform, TT_MEMORY_SHARED, like, capacity);
    if (batch->memory == NULL) {
        batch->is_arena = false;
        batch->memory = tt_platform_allocate_like(platform, TT_MEMORY_PRIVATE, like, capacity);
    }
    batch->capacity = batch->memory != NULL ? capacity : 0;
    TT_ASSERT(batch->memory == NULL || batch->capacity >= bytes);
    return batch->memory != NULL;
}

/* ---- the pool ---- */

tt_status tt_batch_reserve(tt_control *control)
{
    tt_names *names = control->names;
    while (names->batch_count <= BATCHES_OPEN_MAX + 1) { /* all open ones, and a free one */
        tt_batch *batch = tt_platform_allocate(
            control->platform, sizeof(*batch) + TT_BUNDLE_MEMBERS_MAX * sizeof(batch->members[0]));
        if (batch == NULL) {
            return TT_ERR_NO_MEMORY;
        }
        batch->control = control;
        batch->size = TT_BUNDLE_MEMBERS_MAX;
        batch->next = names->batches;
        names->batches = batch;
        names->batch_count++;
    }
    TT_ASSERT(names->batch_count > BATCHES_OPEN_MAX + 1);
    return TT_OK;
}

/* Never fails: the op of a batch without memory ends at once, and returns the batch. */
static tt_batch *pool_take(tt_control *control, tt_set *set, tt_policy policy)
{
    tt_names *names = control->names;
    const tt_status status = tt_batch_reserve(control);
    tt_batch *batch = names->batches;
    TT_ASSERT(batch != NULL && batch->phase == BATCH_IDLE && batch->count == 0);
    TT_ASSERT(names->batch_count > 0 && !batch->is_kept);
    names->batches = batch->next;
    names->batch_count--;
    batch->next = NULL;
    batch->set = set;
    batch->policy = policy;
    batch->is_starved = status != TT_OK;
    batch->is_laid_out = batch->is_early = false;
    batch->bytes = batch->layout = 0;
    tt_batch_set_phase(batch, BATCH_GATHERING);
    return batch;
}

/* A peer may still store to memory that has strays: it is not reused. */
static void pool_give(tt_batch *batch)
{
    tt_names *names = batch->control->names;
    const bool is_lost = batch->carrier.has_strays;
    tt_batch **list = is_lost ? &names->forsaken : &names->batches;
    TT_ASSERT(!batch->is_kept);
    TT_ASSERT(batch->next == NULL); /* in no list */
    tt_batch_set_phase(batch, BATCH_IDLE);
    batch->carrier.has_strays = false;
    batch->count = 0;
    names->batch_count += is_lost ? 0 : 1;
    batch->next = *list;
    *list = batch;
}

static void release_list(tt_control *control, tt_batch *batch)
{
    while (batch != NULL) {
        tt_batch *next = batch->next;
        TT_ASSERT(!batch->is_kept);
        tt_batch_release(control, batch);
        batch = next;
    }
}

void tt_batch_release(tt_control *control, tt_batch *batch)
{
    if (batch != NULL) {
        TT_ASSERT(batch->phase == BATCH_IDLE && batch->count == 0);
        tt_batch_release_memory(batch);
        tt_platform_release(control->platform, batch,
                            sizeof(*batch) + batch->size * sizeof(batch->members[0]));
    }
}

void tt_batch_release_all(tt_control *control)
{
    release_list(control, control->names->batches);
    release_list(control, control->names->forsaken);
}

/* ---- layout ---- */

static uint64_t align_up(const tt_batch *batch, uint64_t bytes)
{
    return tt_round_up(bytes, TT_PLANT(LAYOUT_DIFFERS) && batch->set->self == 1 ? 2 * ALIGN_BYTES
                                                                                : ALIGN_BYTES);
}

static void lay_out(tt_batch *batch, uint64_t count)
{
    TT_DEBUG_ASSERT(batch->bytes % ALIGN_BYTES == 0);
    batch->bytes += align_up(batch, count * tt_dtype_bytes((tt_dtype)batch->claim.dtype));
    batch->layout = tt_hash64_mix(batch->layout, count + 1) | 1;
}

static void describe(tt_batch *batch, const tt_claim *claim, const char *name)
{
    const size_t length = tt_min_u64(strlen(name), sizeof(batch->name) - 1);
    tt_claim_copy(&batch->claim, claim);
    memcpy(batch->name, name, length);
    batch->name[length] = 0;
}

void tt_batch_lay_out(tt_batch *batch)
{
    TT_ASSERT(batch->policy == POLICY_PLANNED && !batch->is_laid_out);
    batch->bytes = batch->layout = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        const tt_name *name = batch->members[i].name;
        TT_DEBUG_ASSERT(name->phase == NAME_RUNNING);
        batch->members[i].offset = batch->bytes;
        for (uint32_t k = 0; k < name->member_count; k++) {
            if (batch->layout == 0) {
                tt_claim claim;
                tt_claim_make(&claim, name->members[k], batch->set->size);
                describe(batch, &claim, name->members[k]->name);
            }
            lay_out(batch, name->members[k]->count);
        }
    }
}

bool tt_batch_fits(const tt_batch *batch, const tt_claim *claim)
{
    TT_DEBUG_ASSERT(batch->phase == BATCH_GATHERING);
    const tt_claim *other = &batch->claim;
    return claim->dtype == other->dtype && claim->redop == other->redop &&
           ((claim->form ^ other->form) & ~CLAIM_TUNED) == 0 &&
           claim->prescale == other->prescale && claim->postscale == other->postscale;
}

bool tt_batch_has_room(const tt_batch *batch, const tt_claim *claim)
{
    TT_DEBUG_ASSERT(batch->count > 0 && batch->count <= batch->size);
    const uint64_t bytes = claim->count * tt_dtype_bytes((tt_dtype)claim->dtype);
    return batch->bytes + tt_round_up(bytes, ALIGN_BYTES) <= batch->control->config.bundle_bytes &&
           batch->count < batch->size;
}

tt_batch *tt_batch_open(const tt_run *run, tt_policy policy, const tt_agreement *item,
                        const tt_claim *claim, const char *name)
{
    TT_ASSERT(policy == POLICY_AGREED || policy == POLICY_PLANNED || policy == POLICY_STAND_IN);
    tt_batch *batch = pool_take(run->control, run->set, policy);
    batch->item = *item;
    describe(batch, claim, name);
    return batch;
}

void tt_batch_put(tt_batch *batch, tt_request *request, const tt_claim *claim)
{
    TT_ASSERT(batch->policy == POLICY_AGREED && batch->count < batch->size);
    TT_ASSERT(batch->count == 0 || (batch->members[0].request == NULL) == (request == NULL));
    batch->members[batch->count++] = (tt_batch_member){.request = request, .offset = batch->bytes};
    lay_out(batch, claim->count);
}

void tt_batch_close(tt_batch *batch)
{
    TT_ASSERT(batch->phase == BATCH_GATHERING);
    batch->carrier.has_strays = false;
    pool_give(batch);
}

/* ---- requests of members ---- */

uint32_t tt_batch_requests(const tt_batch_member *member, tt_request *const **requests_out)
{
    TT_DEBUG_ASSERT(member->name == NULL || member->request == NULL);
    *requests_out = member->name != NULL ? member->name->members : &member->request;
    if (member->name != NULL) {
        return member->name->member_count;
    }
    return member->request != NULL ? 1 : 0;
}

/* Copying begins; its time is added when it ends. */
static uint64_t copy_begin(tt_platform *platform)
{
    platform->ops->spend(platform, TT_SPEND_COPY, 0, 0); /* reads the clock again */
    return tt_now(platform);
}

static void copy_end(tt_control *control, uint64_t begun_ns, uint64_t bytes)
{
    control->platform->ops->spend(control->platform, TT_SPEND_COPY, bytes, 1);
    control->counters.copy_ns += tt_now(control->platform) - begun_ns;
}

static void copy(const tt_batch *batch, void *target, const void *source, uint64_t bytes)
{
    TT_DEBUG_ASSERT(bytes > 0);
    if (!tt_has_phantom(batch->control->platform, target, source)) {
        memcpy(target, source, bytes);
    }
}

/* Returns the bytes copied, with padding. */
static uint64_t copy_in(tt_batch *batch, const tt_batch_member *member)
{
    tt_request *const *requests;
    uint64_t at = member->offset;
    const uint64_t width = tt_dtype_bytes(batch->carrier.dtype);
    for (uint32_t i = 0, count = tt_batch_requests(member, &requests); i < count; i++) {
        const uint64_t bytes = requests[i]->count * width, end = at + align_up(batch, bytes);
        TT_ASSERT(end <= batch->bytes && end <= batch->capacity);
        if (bytes > 0 && !requests[i]->is_lost) { /* else it has no data, and the batch fails */
            copy(batch, batch->memory + at, requests[i]->input, bytes);
        }
        if (!batch->is_kept && /* else it was zeroed once, and sums of it stay zero */
            !tt_is_phantom(batch->control->platform, batch->memory)) {
            memset(batch->memory + at + bytes, 0, end - at - bytes);
        }
        at = end;
    }
    return at - member->offset;
}

static void copy_all_in(tt_batch *batch)
{
    const uint64_t begun_ns = copy_begin(batch->control->platform);
    if (batch->carrier.is_identity && !tt_is_phantom(batch->control->platform, batch->memory)) {
        tt_fill_identity(batch->carrier.dtype, batch->carrier.redop, batch->memory,
                         batch->carrier.count);
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        (void)copy_in(batch, &batch->members[i]);
    }
    copy_end(batch->control, begun_ns, batch->bytes);
}

void tt_batch_copy_early(tt_batch *batch, const tt_batch_member *member)
{
    tt_platform *platform = batch->control->platform;
    const bool is_timed = batch->item.order % TIMED_ONE_IN == 0;
    TT_ASSERT(batch->is_early && batch->phase == BATCH_GATHERING);
    const uint64_t begun_ns = is_timed ? copy_begin(platform) : 0;
    platform->ops->spend(platform, TT_SPEND_COPY, copy_in(batch, member), 1);
    if (is_timed) {
        batch->control->counters.copy_ns += TIMED_ONE_IN * (tt_now(platform) - begun_ns);
    }
}

/* Copy the results; the request's status is negative if its output is too small. */
static void copy_out(const tt_batch *batch, const tt_batch_member *member)
{
    tt_request *const *requests;
    uint64_t at = member->offset;
    const uint64_t width = tt_dtype_bytes(batch->carrier.dtype);
    for (uint32_t i = 0, count = tt_batch_requests(member, &requests); i < count; i++) {
        tt_request *request = requests[i];
        const uint64_t bytes = request->count * width;
        TT_DEBUG_ASSERT(at + bytes <= batch->capacity);
        if (request->output == NULL && request->allocate != NULL) {
            request->output = request->allocate(request, bytes > 0 ? bytes : 1);
        }
        request->status = bytes > 0 && request->output == NULL ? TT_ERR_NO_MEMORY : TT_OK;
        if (bytes > 0 && request->output != NULL) {
            copy(batch, request->output, batch->memory + at, bytes);
        }
        at += align_up(batch, bytes);
    }
}

/* Copy results to members from `copied` on, at most spread_bytes or one member. True: all are
 * copied. */
static bool spread(tt_batch *batch)
{
    TT_ASSERT(batch->copied < batch->count);
    const uint64_t begun_ns = copy_begin(batch->control->platform);
    const uint64_t first = batch->members[batch->copied].offset;
    uint64_t end = first;
    while (batch->copied < batch->count && end - first < batch->control->config.spread_bytes) {
        copy_out(batch, &batch->members[batch->copied++]);
        end = batch->copied < batch->count ? batch->members[batch->copied].offset : batch->bytes;
    }
    copy_end(batch->control, begun_ns, end - first);
    return batch->copied == batch->count;
}

/* ---- the end ---- */

uint32_t tt_batch_detach(tt_batch *batch, tt_batch_member *members_out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < batch->size && count < batch->count; i++) {
        if (batch->members[i].name != NULL) {
            members_out[count++] = batch->members[i];
            batch->members[i].name = NULL;
        }
    }
    TT_ASSERT(count == batch->count);
    batch->count = 0;
    return count;
}

/* Memory that a peer may still store to is handed to a record of the pool. */
static void reset(tt_batch *batch)
{
    TT_ASSERT(batch->is_kept && batch->count == 0);
    if (batch->carrier.has_strays) {
        tt_batch *other = pool_take(batch->control, batch->set, batch->policy);
        tt_batch_release_memory(other);
        other->memory = batch->memory;
        other->capacity = batch->capacity;
        other->is_arena = batch->is_arena;
        other->carrier.has_strays = true;
        batch->memory = NULL;
        batch->capacity = 0;
        batch->carrier.has_strays = false;
        pool_give(other);
    }
    tt_batch_set_phase(batch, BATCH_IDLE);
    if (batch->item.order >= batch->limit || batch->item.order >= batch->end) {
        tt_batch_release_memory(batch);
    }
}

static void end_requests(const tt_control *control, const tt_batch_member *member,
                         const tt_request *carrier)
{
    tt_request *const *requests;
    for (uint32_t i = 0, count = tt_batch_requests(member, &requests); i < count; i++) {
        tt_request *request = requests[i]; /* the last one closes the name */
        tt_text text;
        tt_text_clear(&text);
        if (carrier->status == TT_OK && request->status < 0) {
            tt_text_add(&text, "rank %u is out of memory for an output", control->world.rank);
        }
        tt_request_end(request, carrier->status < 0 ? carrier->status : request->status,
                       carrier->status < 0 ? carrier->error : text.bytes);
    }
}

static void tell(tt_batch *batch)
{
    tt_control *control = batch->control;
    TT_ASSERT(batch->count <= TT_BUNDLE_MEMBERS_MAX);
    const tt_request *carrier = &batch->carrier;
    tt_batch_member members[TT_BUNDLE_MEMBERS_MAX];
    const tt_batch_member *told = batch->is_kept ? members : batch->members;
    const uint32_t count = batch->is_kept ? tt_batch_detach(batch, members) : batch->count;
    const bool is_late = TT_PLANT(BATCH_TOLD_BEFORE_RESET);
    if (batch->is_kept && !is_late) { /* a callback may submit again */
        reset(batch);
    }
    for (uint32_t i = 0; i < count; i++) {
        end_requests(control, &told[i], carrier);
    }
    if (batch->is_kept && is_late) {
        reset(batch);
    }
    if (!batch->is_kept) {
        tt_set *set = carrier->is_identity ? batch->set : NULL;
        pool_give(batch);
        if (set != NULL) {
            TT_ASSERT(set->absent_count > 0);
            set->absent_count--;
            tt_host_settle_join(set);
        }
    }
}

static void planned_ended(tt_control *control, tt_set *set, const tt_agreement *item)
{
    const uint64_t key = tt_planned_key(item->generation, item->bundle, item->order, 0);
    tt_batch **place = tt_planned_batch(control, set, key, false);
    if (place != NULL && *place != NULL) {
        (*place)->end = tt_min_u64((*place)->end, item->order);
        if ((*place)->phase == BATCH_IDLE) {
            tt_batch_release_memory(*place);
        }
    }
}

/* A planned batch that failed: its tensors run one by one, on every rank. */
static void dissolve(tt_batch *batch)
{
    TT_ASSERT(batch->policy == POLICY_PLANNED && batch->carrier.status < 0);
    tt_control *control = batch->control;
    tt_set *set = batch->set;
    tt_batch_member members[TT_BUNDLE_MEMBERS_MAX];
    tt_agreement item = batch->item;
    tt_text error = {0};
    const tt_status status = batch->carrier.status;
    const bool is_final = status == TT_ERR_TIMED_OUT || status == TT_ERR_NO_MEMORY;
    if (!is_final) { /* else others may have completed it, and continue with the next */
        planned_ended(control, set, &item);
    }
    tt_text_add(&error, "%s", batch->carrier.error);
    const uint32_t count = tt_batch_detach(batch, members);
    if (batch->is_kept) {
        reset(batch);
    } else {
        pool_give(batch);
    }
    for (uint32_t i = 0; i < count; i++) {
        tt_name *name = members[i].name;
        item.index = members[i].index;
        item.ticket = &name->ticket;
        if (is_final) { /* for ranks that run them one by one */
            tt_name_object(name, status, error.bytes);
        }
        tt_run_items(control, set, &item, 1, true);
    }
}

static void finished(tt_request *carrier)
{
    tt_batch *batch = carrier->owner;
    batch->copied = 0;
    const bool goes_on =
        tt_policies[batch->policy].fails == FAILS_ALONE && batch->control->shut_down == TT_OK;
    TT_ASSERT(batch->phase == BATCH_SENT);
    if (carrier->status < 0 && goes_on) {
        dissolve(batch);
        return;
    }
    if (carrier->status < 0 || batch->count == 0 || spread(batch)) {
        tell(batch);
        return;
    }
    tt_batch **end = &batch->control->names->spreading;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = batch;
    tt_batch_set_phase(batch, BATCH_SPREADING);
    batch->control->pending++;
    batch->control->has_work = true;
}

bool tt_batch_step(tt_control *control)
{
    tt_batch *batch = control->names != NULL ? control->names->spreading : NULL;
    if (batch == NULL) {
        return false;
    }
    TT_ASSERT(batch->phase == BATCH_SPREADING && batch->carrier.status == TT_OK);
    if (spread(batch)) {
        TT_ASSERT(control->pending > 0);
        control->names->spreading = batch->next;
        batch->next = NULL;
        control->pending--;
        tell(batch);
    }
    return true;
}

bool tt_batch_is_planned(const tt_request *request)
{
    return request->finished == finished &&
           ((const tt_batch *)request->owner)->policy == POLICY_PLANNED;
}

/* ---- running ---- */

/* A claim as a request: `first` is the request of one of its members, or NULL. */
static void carrier_fill(tt_batch *batch, const tt_claim *claim, const tt_request *first)
{
    batch->carrier = (tt_request){
        .collective = (tt_collective)claim->collective,
        .dtype = (tt_dtype)claim->dtype,
        .redop = (tt_redop)claim->redop,
        .set = batch->set->id,
        .root = claim->root,
        .urgency = first != NULL ? first->urgency : 0,
        .segment_bytes =
            first != NULL ? first->segment_bytes : batch->control->config.segment_bytes,
        .name = batch->name,
        .count = claim->count,
        .salt = claim->salt,
        .program = claim->codec != 0 ? tt_feedback_program(batch->control, claim->codec) : NULL,
        .prescale = claim->prescale,
        .postscale = claim->postscale,
        .is_by_active = (claim->form & CLAIM_BY_ACTIVE) != 0,
        .is_alone = (claim->form & CLAIM_ALONE) != 0,
        .is_tuned = (claim->form & CLAIM_TUNED) != 0,
        .is_identity = batch->policy == POLICY_STAND_IN,
        .finished = finished,
        .owner = batch,
    };
    memcpy(batch->carrier.shape, claim->shape, sizeof(claim->shape));
}

/* The claim of the whole batch. */
static void carrier_fill_whole(tt_batch *batch)
{
    TT_ASSERT(batch->bytes % ALIGN_BYTES == 0);
    tt_claim whole;
    tt_claim_copy(&whole, &batch->claim);
    whole.count = batch->bytes / tt_dtype_bytes((tt_dtype)whole.dtype);
    whole.salt = batch->layout;
    memset(whole.shape, 0, sizeof(whole.shape));
    whole.form &= (uint8_t)~CLAIM_TUNED; /* its members may differ in that */
    carrier_fill(batch, &whole, NULL);
}

/* Set the fields that change per occurrence: the urgency of its most urgent member, and the
 * earliest deadline of its members. True: a member has ended on this rank, so it has no data. */
static bool carrier_renew(tt_batch *batch, tt_text *text)
{
    tt_request *carrier = &batch->carrier;
    uint64_t deadline_ns = UINT64_MAX;
    bool is_lost = false, is_first = true;
    for (uint32_t i = 0; i < batch->count; i++) {
        tt_request *const *requests;
        const uint32_t count = tt_batch_requests(&batch->members[i], &requests);
        for (uint32_t k = 0; k < count; k++) {
            const tt_request *request = requests[k];
            TT_DEBUG_ASSERT(request->named->phase == NAME_RUNNING);
            carrier->segment_bytes = is_first ? request->segment_bytes : carrier->segment_bytes;
            carrier->urgency = is_first || request->urgency > carrier->urgency ? request->urgency
                                                                               : carrier->urgency;
            is_first = false;
            deadline_ns = tt_min_u64(deadline_ns, request->named->deadline_ns);
            if (request->is_lost && !is_lost) {
                is_lost = true;
                tt_text_add(text, "%s", request->error);
            }
        }
    }
    carrier->deadline_ns = 0;
    if (deadline_ns != UINT64_MAX) {
        const uint64_t now_ns = tt_now(batch->control->platform);
        carrier->deadline_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 1;
    }
    return is_lost;
}

static void carrier_submit(tt_run *run, tt_batch *batch, const tt_failure *objection,
                           bool has_memory)
{
    tt_text text;
    tt_text_clear(&text);
    const bool is_planned = batch->policy == POLICY_PLANNED; /* alone they need less memory */
    const tt_failure starved = {.status = is_planned ? TT_ERR_CANCELLED : TT_ERR_NO_MEMORY,
                                .text = text.bytes};
    if (!has_memory) {
        tt_text_add(&text, "rank %u is out of memory", run->control->world.rank);
    }
    TT_ASSERT(batch->carrier.owner == batch && batch->carrier.set == batch->set->id);
    const tt_agreement item = batch->item; /* it may be over before it is submitted */
    batch->set->absent_count += batch->carrier.is_identity ? 1 : 0;
    tt_batch_set_phase(batch, BATCH_SENT);
    tt_run_submit(run, &item, batch->claim.form, &batch->carrier,
                  has_memory || objection != NULL ? objection : &starved);
}

void tt_batch_send(tt_run *run, tt_batch *batch)
{
    tt_text text;
    tt_text_clear(&text);
    const tt_failure expired = {.status = TT_ERR_TIMED_OUT, .text = text.bytes};
    const tt_failure *objection = run->objection;
    TT_ASSERT(!batch->is_kept || batch->count == batch->size);
    TT_ASSERT(batch->count > 0 || objection != NULL);
    if (batch->policy == POLICY_AGREED && batch->members[0].request == NULL) {
        batch->policy = POLICY_STAND_IN;
    }
    if (!batch->is_laid_out) {
        carrier_fill_whole(batch);
        batch->is_laid_out = batch->is_kept;
    }
    if (carrier_renew(batch, &text) && objection == NULL) {
        objection = &expired;
    }
    const bool has_memory =
        !batch->is_starved && objection == NULL && memory_reserve(batch, batch->bytes + 1);
    if (has_memory && !batch->is_early) {
        copy_all_in(batch);
    }
    batch->control->counters.packed_bytes += has_memory ? batch->bytes : 0;
    batch->control->counters.bundles += has_memory ? 1 : 0;
    batch->carrier.input = batch->carrier.output = batch->memory;
    carrier_submit(run, batch, objection, has_memory);
}

void tt_batch_stand_in(tt_run *run, tt_batch *batch, const tt_failure *objection)
{
    TT_ASSERT(batch->policy == POLICY_STAND_IN && batch->count == 0);
    const tt_claim *claim = &batch->claim;
    const uint64_t bytes = claim->count * tt_dtype_bytes((tt_dtype)claim->dtype);
    carrier_fill(batch, claim, NULL);
    bool has_memory = objection != NULL;
    if (objection == NULL) {
        has_memory =
            !batch->is_starved && memory_reserve(batch, tt_round_up(bytes, ALIGN_BYTES) + 1);
    }
    if (objection == NULL && has_memory) {
        tt_fill_identity((tt_dtype)claim->dtype,
                         TT_PLANT(IDENTITY_IS_ZERO) ? TT_SUM : (tt_redop)claim->redop,
                         batch->memory, claim->count);
        batch->carrier.input = batch->carrier.output = batch->memory;
    }
    carrier_submit(run, batch, objection, has_memory);
}
