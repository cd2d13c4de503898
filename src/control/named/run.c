/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - from agreed and planned items to ops: small tensors together, large ones alone.
 *
 * Batches, their layout and their order depend on the agreed items alone, which are equal on all
 * members: tensors of at most fuse_bytes that differ only in their count share a batch of at most
 * bundle_bytes. Since fuse_bytes may be tuned, a claim states whether another one than the
 * configured applies (CLAIM_TUNED). A joined rank contributes the identity element. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/named/batch.h"
#include "kernel/hash64.h"

enum { ALIGN_BYTES = 64 };

/* One request of an item, or its claim on a joined rank. */
typedef struct member {
    const tt_agreement *item;
    tt_request *request; /* NULL: joined */
    bool is_refused;     /* joined: the agreed claim is an objection */
    const tt_claim *claim;
    const char *name;
} member;

void tt_run_submit(tt_run *run, const tt_agreement *item, uint8_t form, tt_request *request,
                   const tt_failure *objection)
{
    TT_DEBUG_ASSERT(run->is_planned || run->part == 0);
    const bool is_by_active = (form & CLAIM_BY_ACTIVE) != 0 || TT_PLANT(ACTIVE_ALWAYS_DIVIDES);
    tt_standing standing = {.space = &tt_space_agreed, .active = is_by_active ? item->active : 0};
    if (run->is_planned) {
        standing.space = &tt_space_planned;
        standing.generation = item->generation;
        standing.index = item->index;
        const bool is_off =
            TT_PLANT(OCCURRENCE_OFF_BY_ONE) && item->order > 2 && run->set->self == 1;
        standing.sequence = tt_planned_key(item->generation, item->index,
                                           item->order - (is_off ? 1 : 0), run->part++);
    }
    tt_op_submit(run->control, run->set, request, &standing, objection);
}

/* ---- one tensor ---- */

/* Can a joined rank run this with the identity element? Only such calls may have been planned and
 * begun before the others learned of the join; no rank can have completed any other. */
static bool can_stand_in(const tt_set *set, const tt_claim *claim)
{
    const bool is_from_root = claim->collective == TT_BROADCAST || claim->collective == TT_SCATTER;
    return (claim->form & CLAIM_UNEVEN) == 0 &&
           (claim->collective == TT_ALLREDUCE || claim->collective == TT_REDUCE ||
            (is_from_root && claim->root != set->self));
}

static bool knows_codec(const tt_run *run, const tt_claim *claim)
{
    return claim->codec == 0 || tt_feedback_knows(run->control, claim->codec);
}

static bool has_program(const tt_run *run, const tt_claim *claim)
{
    return claim->codec == 0 || tt_feedback_program(run->control, claim->codec) != NULL;
}

/* A joined rank contributes the identity element, in memory of its own. */
static void run_absent(tt_run *run, const member *one)
{
    TT_ASSERT(one->request == NULL);
    tt_batch *batch = tt_batch_open(run, POLICY_STAND_IN, one->item, one->claim, one->name);
    const bool can_run = can_stand_in(run->set, one->claim) && knows_codec(run, one->claim);
    tt_text text = {0};
    if (can_run && has_program(run, one->claim)) {
        tt_batch_stand_in(run, batch, run->objection);
        return;
    }
    if (can_run) {
        const tt_failure starved = {.status = TT_ERR_NO_MEMORY, .text = text.bytes};
        tt_name_say_starved(run->control, &text);
        tt_batch_stand_in(run, batch, &starved);
        return;
    }
    const tt_failure absent = {.status = TT_ERR_PEER_LEFT, .text = text.bytes};
    tt_text_add(&text, "tensor ");
    tt_text_add_quoted(&text, one->name, TT_NAME_BYTES);
    tt_text_add(&text, " needs every rank, but rank %u has joined; %s", run->control->world.rank,
                knows_codec(run, one->claim)
                    ? "only allreduce and reduce run without it"
                    : "it has never called it, and does not know its schedule of codecs");
    tt_batch_stand_in(run, batch, run->objection != NULL ? run->objection : &absent);
}

static void run_alone(tt_run *run, const member *one)
{
    if (one->request == NULL) {
        run_absent(run, one);
        return;
    }
    const tt_name *name = one->request->named;
    TT_ASSERT(name->phase == NAME_RUNNING && name->open_count > 0);
    const bool is_lost = one->request->is_lost;
    char text[TT_ERROR_BYTES]; /* a copy: both may be over before it is used */
    const tt_failure objection = {.status = is_lost ? TT_ERR_TIMED_OUT : name->objection,
                                  .text = text};
    if (objection.status < 0) { /* peers have begun it, or all object alike */
        memcpy(text, is_lost ? one->request->error : name->error, sizeof(text));
    }
    tt_run_submit(run, one->item, one->claim->form, one->request,
                  objection.status < 0 ? &objection : NULL);
}

/* ---- several ---- */

/* Does a tensor of this claim share an op with others of the same list of agreements? */
static bool claim_is_small(const tt_control_config *config, const tt_claim *claim)
{
    const uint64_t width = tt_dtype_bytes((tt_dtype)claim->dtype);
    return width > 0 && claim->collective == TT_ALLREDUCE && claim->salt == 0 &&
           claim->codec == 0 && (claim->form & CLAIM_ALONE) == 0 &&
           tt_redop_is_elementwise((tt_redop)claim->redop) &&
           (claim->count <= config->fuse_bytes / width) != ((claim->form & CLAIM_TUNED) != 0);
}

static bool is_small(const tt_run *run, const member *one)
{
    const bool is_good =
        one->request == NULL ? !one->is_refused : one->request->named->objection == TT_OK;
    return is_good && claim_is_small(&run->control->config, one->claim);
}

/* Equal for those that may share an op; not 0. */
static uint64_t kind_of(const tt_claim *claim)
{
    const double scales[2] = {claim->prescale, claim->postscale};
    const unsigned form = claim->form & ~(unsigned)CLAIM_TUNED;
    const uint64_t seed = (uint64_t)claim->dtype << 16 | (uint64_t)claim->redop << 8 | form;
    return tt_hash64(scales, sizeof(scales), seed) | 1;
}

void tt_run_fuse(const tt_control_config *config, const tt_claim *claim, tt_fusion *fusion)
{
    const bool may = claim->count > 0 && claim_is_small(config, claim);
    const uint64_t kind = may ? kind_of(claim) : 0;
    fusion->kind = fusion->tensors == 0 || fusion->kind == kind ? kind : 0;
    fusion->bytes = tt_round_up(fusion->bytes, ALIGN_BYTES) +
                    claim->count * tt_dtype_bytes((tt_dtype)claim->dtype);
    fusion->tensors++;
}

static void close_batch(tt_run *run, uint32_t at)
{
    tt_batch *batch = run->open[at];
    TT_ASSERT(batch->policy == POLICY_AGREED && batch->count > 0);
    run->open[at] = NULL;
    if (batch->count > 1) {
        tt_batch_send(run, batch);
        return;
    }
    tt_claim claim;
    char name[TT_NAME_BYTES];
    const tt_agreement item = batch->item;
    tt_request *request = batch->members[0].request;
    tt_claim_copy(&claim, &batch->claim);
    memcpy(name, batch->name, sizeof(name));
    tt_batch_close(batch);
    const member only = {.item = &item, .request = request, .claim = &claim, .name = name};
    run_alone(run, &only);
}

static void add_to_batch(tt_run *run, const member *one)
{
    uint32_t at = 0;
    while (at < BATCHES_OPEN_MAX && run->open[at] != NULL &&
           !tt_batch_fits(run->open[at], one->claim)) {
        at++;
    }
    if (at == BATCHES_OPEN_MAX) { /* send the oldest to make room */
        close_batch(run, 0);
        memmove(&run->open[0], &run->open[1], (BATCHES_OPEN_MAX - 1) * sizeof(run->open[0]));
        run->open[--at] = NULL;
    }
    TT_ASSERT(at < BATCHES_OPEN_MAX);
    if (run->open[at] != NULL && !tt_batch_has_room(run->open[at], one->claim)) {
        close_batch(run, at);
    }
    if (run->open[at] == NULL) {
        run->open[at] = tt_batch_open(run, POLICY_AGREED, one->item, one->claim, one->name);
    }
    TT_ASSERT(tt_batch_fits(run->open[at], one->claim));
    tt_batch_put(run->open[at], one->request, one->claim);
}

/* ---- items ---- */

static void run_item(tt_run *run, const tt_agreement *item)
{
    const tt_name *name = item->ticket != NULL ? item->ticket->owner : NULL;
    TT_ASSERT(name == NULL || name->is_apart || name->phase == NAME_RUNNING);
    tt_bid bid = {0};
    tt_claim claim;
    char text[TT_NAME_BYTES] = "";
    if (name == NULL) { /* else the requests have theirs, and the item may have none */
        memcpy(text, item->name, tt_min_u64(item->name_bytes, sizeof(text) - 1));
    }
    if (name == NULL && (!tt_bid_read(&bid, item->claim, item->claim_bytes) ||
                         (bid.is_digest && !tt_bid_recall(run->set, item, &bid)))) {
        tt_name_starve(run->control); /* cannot stand in for a malformed claim */
        return;
    }
    if (name != NULL ? name->is_apart : bid.objection == BID_APART) {
        return; /* its members run by themselves */
    }
    const uint32_t count = name != NULL ? name->member_count : bid.member_count;
    const bool is_group = name != NULL ? name->kind == NAME_GROUP : count > 1;
    for (uint32_t i = 0; i < count; i++) {
        tt_request *request = name != NULL ? name->members[i] : NULL;
        if (request != NULL) {
            tt_claim_make(&claim, request, run->set->size);
        } else if (!tt_bid_next(&bid, &claim)) {
            break;
        }
        const member one = {.item = item,
                            .request = request,
                            .is_refused = bid.objection < 0,
                            .claim = &claim,
                            .name = request != NULL ? request->name
                                                    : (claim.name[0] != 0 ? claim.name : text)};
        claim.name[0] = request != NULL ? 0 : claim.name[0];
        if (is_small(run, &one) && (is_group || !run->is_planned)) {
            add_to_batch(run, &one);
        } else {
            run_alone(run, &one);
        }
    }
}

static void run_items(tt_run *run, const tt_agreement *items, uint32_t count)
{
    TT_ASSERT(!run->is_planned || (count == 1 && run->part == 0));
    for (uint32_t i = 0; i < count; i++) {
        run_item(run, &items[i]);
    }
    for (uint32_t at = 0; at < BATCHES_OPEN_MAX && run->open[at] != NULL; at++) {
        close_batch(run, at);
    }
}

void tt_run_items(tt_control *control, tt_set *set, const tt_agreement *items, uint32_t count,
                  bool is_planned)
{
    tt_run run = {.control = control, .set = set, .is_planned = is_planned};
    run_items(&run, items, count);
}

void tt_run_tensor(tt_control *control, tt_set *set, const tt_agreement *item, tt_request *request)
{
    tt_run run = {.control = control, .set = set, .is_planned = true};
    TT_ASSERT(item->bundle_size == 0 && request->named != NULL);
    TT_DEBUG_ASSERT(request->named->objection == TT_OK && !request->is_lost);
    tt_run_submit(&run, item, tt_claim_form(request), request, NULL);
}

void tt_run_refuse(tt_control *control, tt_set *set, const tt_agreement *item,
                   const tt_failure *objection)
{
    tt_run run = {.control = control, .set = set, .is_planned = true, .objection = objection};
    TT_ASSERT(item->ticket == NULL); /* this rank's tensors are in another ticket */
    TT_ASSERT(objection->status < 0);
    if (item->bundle_size > 0) {
        tt_batch_forgo(control, set, item);
    }
    run_items(&run, item, 1);
}
