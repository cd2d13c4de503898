/* SPDX-License-Identifier: Apache-2.0
 *
 * bundle.c - from agreed tickets to ops: small tensors together, large ones alone.
 *
 * What runs together, in which layout and in which order, depends on the agreed items alone, which
 * all members see alike: tensors of at most fuse_bytes that agree in all but their count share a
 * bundle of at most bundle_bytes. Since fuse_bytes may be tuned, a claim says if it was another one
 * by which the tensor goes (CLAIM_TUNED). A bundle lies in the arena, so that its packing is the
 * staging that foreign memory needs anyway. A rank that has joined takes part with the identity.
 */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/hash64.h"
#include "base/plant.h"
#include "base/reduce.h"
#include "control/named.h"

enum { OPEN_MAX = 4, ALIGN_BYTES = 64 };

/* One call of tt_bundle_run. */
typedef struct run {
    tt_control *control;
    tt_set *set;
    bool is_planned;
    const tt_agreement *item;
    const tt_failure *objection; /* of a pack: it is not to run */
    uint32_t part;               /* of a planned ticket */
    tt_bundle *open[OPEN_MAX];
} run;

/* One request of an item, or what a joined rank knows of it. */
typedef struct member {
    const tt_agreement *item;
    tt_request *request; /* NULL: joined */
    bool is_refused;     /* joined: by those that have not; their requests know it */
    const tt_claim *claim;
    const char *name;
} member;

/* ---- bundles ---- */

static tt_bundle *bundle_make(tt_control *control)
{
    tt_bundle *bundle = tt_platform_allocate(control->platform, sizeof(*bundle));
    if (bundle != NULL) {
        bundle->control = control;
        bundle->next = control->names->free_bundles;
        control->names->free_bundles = bundle;
        control->names->free_bundle_count++;
    }
    return bundle;
}

tt_status tt_bundle_reserve(tt_control *control)
{
    while (control->names->free_bundle_count <= OPEN_MAX + 1) { /* all open, and one that is not */
        if (bundle_make(control) == NULL) {
            return TT_ERR_NO_MEMORY;
        }
    }
    return TT_OK;
}

/* There is always one: of a bundle without memory the op ends at once, and it comes back. */
static tt_bundle *bundle_take(tt_control *control)
{
    tt_names *names = control->names;
    const tt_status status = tt_bundle_reserve(control);
    tt_bundle *bundle = names->free_bundles;
    TT_ASSERT(bundle != NULL);
    names->free_bundles = bundle->next;
    names->free_bundle_count--;
    bundle->is_starved = status != TT_OK;
    bundle->member_count = 0;
    bundle->bytes = 0;
    bundle->layout = 0;
    bundle->pack.bundle_size = 0;
    return bundle;
}

static void bundle_recycle(tt_bundle *bundle)
{
    tt_names *names = bundle->control->names;
    tt_bundle **list = bundle->carrier.has_strays ? &names->forsaken : &names->free_bundles;
    names->free_bundle_count += bundle->carrier.has_strays ? 0 : 1;
    bundle->next = *list;
    *list = bundle;
}

static void bundle_release_memory(tt_bundle *bundle)
{
    tt_platform *platform = bundle->control->platform;
    if (bundle->memory != NULL) {
        platform->ops->release(platform, bundle->is_arena ? TT_MEMORY_SHARED : TT_MEMORY_PRIVATE,
                               bundle->memory, bundle->capacity);
    }
    bundle->memory = NULL;
    bundle->capacity = 0;
}

static bool bundle_reserve_memory(tt_bundle *bundle, size_t bytes)
{
    tt_platform *platform = bundle->control->platform;
    if (bytes <= bundle->capacity) {
        return true;
    }
    bundle_release_memory(bundle);
    const size_t capacity = tt_round_up(bytes, 4096);
    bundle->is_arena = true;
    bundle->memory = platform->ops->allocate(platform, TT_MEMORY_SHARED, capacity);
    if (bundle->memory == NULL) {
        bundle->is_arena = false;
        bundle->memory = tt_platform_allocate(platform, capacity);
    }
    bundle->capacity = bundle->memory != NULL ? capacity : 0;
    return bundle->memory != NULL;
}

static void release_list(tt_control *control, tt_bundle *bundle)
{
    while (bundle != NULL) {
        tt_bundle *next = bundle->next;
        bundle_release_memory(bundle);
        tt_platform_release(control->platform, bundle, sizeof(*bundle));
        bundle = next;
    }
}

void tt_bundle_release_all(tt_control *control)
{
    release_list(control, control->names->free_bundles);
    release_list(control, control->names->forsaken);
}

/* ---- packing ---- */

/* Copying begins; what it took is added when it ends. */
static uint64_t copy_begin(tt_platform *platform)
{
    platform->ops->spend(platform, TT_SPEND_COPY, 0); /* a fresh look at the clock */
    return tt_now(platform);
}

static void copy_end(tt_control *control, uint64_t begun_ns, uint64_t bytes)
{
    control->platform->ops->spend(control->platform, TT_SPEND_COPY, bytes);
    control->counters.copy_ns += tt_now(control->platform) - begun_ns;
}

static void bundle_pack(tt_bundle *bundle)
{
    const uint64_t begun_ns = copy_begin(bundle->control->platform);
    uint64_t end = 0;
    for (uint32_t i = 0; i < bundle->member_count; i++) {
        const uint64_t offset = bundle->members[i].offset, bytes = bundle->members[i].bytes;
        const tt_request *request = bundle->members[i].request;
        memset(bundle->memory + end, 0, offset - end);
        if (request == NULL) {
            tt_fill_identity(bundle->carrier.dtype, bundle->carrier.redop, bundle->memory + offset,
                             bytes / tt_dtype_bytes(bundle->carrier.dtype));
        } else if (bytes > 0) {
            memcpy(bundle->memory + offset, request->input, bytes);
        }
        end = offset + bytes;
    }
    memset(bundle->memory + end, 0, bundle->bytes - end);
    copy_end(bundle->control, begun_ns, bundle->bytes);
    bundle->control->counters.packed_bytes += bundle->bytes;
}

static tt_status unpack(tt_request *request, const uint8_t *source, uint64_t bytes)
{
    if (request->output == NULL && request->allocate != NULL) {
        request->output = request->allocate(request, bytes > 0 ? bytes : 1);
    }
    if (bytes > 0 && request->output == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    if (bytes > 0) {
        memcpy(request->output, source, bytes);
    }
    return TT_OK;
}

/* A pack that did not hold: its tensors go one by one, on every rank. */
static void pack_dissolve(tt_bundle *bundle)
{
    tt_control *control = bundle->control;
    tt_set *set = tt_set_find(control, bundle->carrier.set);
    const tt_status status = bundle->carrier.status;
    const bool is_final = status == TT_ERR_TIMED_OUT || status == TT_ERR_NO_MEMORY;
    if (!is_final) { /* else others may have completed it, and go on with the next */
        tt_pack_ended(control, set, &bundle->pack);
    }
    for (uint32_t i = 0; i < bundle->member_count;) {
        tt_request *request = bundle->members[i].request;
        tt_named *named = request->named;
        tt_agreement item = bundle->pack;
        item.index = bundle->members[i].index;
        i += named->member_count; /* those of a group lie together, and are over together */
        if (is_final) {           /* for a rank that has them one by one */
            named->objection = status;
            memcpy(named->error, bundle->carrier.error, sizeof(named->error));
        }
        if (named->member_max > 0) {
            item.ticket = &named->ticket;
            tt_bundle_run(control, set, &item, 1, true);
        } else {
            tt_bundle_run_alone(control, set, &item, request);
        }
    }
    bundle_recycle(bundle);
}

/* Copy what was summed to the members; `own` says for each whether there was room. */
static void bundle_unpack(tt_bundle *bundle, tt_status *own)
{
    const uint64_t begun_ns = copy_begin(bundle->control->platform);
    for (uint32_t i = 0; i < bundle->member_count; i++) {
        tt_request *request = bundle->members[i].request;
        own[i] = request == NULL ? TT_OK
                                 : unpack(request, bundle->memory + bundle->members[i].offset,
                                          bundle->members[i].bytes);
    }
    copy_end(bundle->control, begun_ns, bundle->bytes);
}

static void end_unpacked(const tt_bundle *bundle, tt_request *request, tt_status own)
{
    tt_text text;
    tt_text_clear(&text);
    if (own < 0) {
        tt_text_add(&text, "rank %u is out of memory for an output", bundle->control->world.rank);
    }
    tt_request_end(request, own, text.bytes);
}

static void bundle_finished(tt_request *carrier)
{
    tt_bundle *bundle = carrier->owner;
    const tt_status status = carrier->status;
    tt_status own[TT_BUNDLE_MEMBERS_MAX];
    const bool is_pack = bundle->pack.bundle_size > 0 && bundle->control->shut_down == TT_OK;
    if (is_pack && status < 0) {
        pack_dissolve(bundle);
        return;
    }
    if (status == TT_OK) {
        bundle_unpack(bundle, own);
    }
    for (uint32_t i = 0; i < bundle->member_count; i++) {
        tt_request *request = bundle->members[i].request;
        if (request != NULL && status == TT_OK) {
            end_unpacked(bundle, request, own[i]);
        } else if (request != NULL) {
            tt_request_end(request, status, carrier->error);
        }
    }
    tt_set *set = carrier->is_identity ? tt_set_find(bundle->control, carrier->set) : NULL;
    bundle_recycle(bundle);
    if (set != NULL) {
        set->absent_count--;
        tt_named_settle_join(set);
    }
}

bool tt_bundle_is_pack(const tt_request *request)
{
    return request->finished == bundle_finished &&
           ((const tt_bundle *)request->owner)->pack.bundle_size > 0;
}

/* ---- running ---- */

static void submit(run *it, const member *one, tt_request *request, const tt_failure *objection)
{
    const tt_agreement *item = one->item;
    const bool is_by_active =
        (one->claim->form & CLAIM_BY_ACTIVE) != 0 || TT_PLANT(ACTIVE_ALWAYS_DIVIDES);
    tt_standing standing = {.space = SPACE_AGREED, .active = is_by_active ? item->active : 0};
    if (it->is_planned) {
        standing.space = SPACE_PLANNED;
        standing.generation = item->generation;
        standing.index = item->index;
        standing.slot = item->slot;
        const bool is_off =
            TT_PLANT(OCCURRENCE_OFF_BY_ONE) && item->order > 2 && it->set->self == 1;
        standing.sequence = tt_planned_key(item->generation, item->index,
                                           item->order - (is_off ? 1 : 0), it->part++);
    }
    tt_op_submit(it->control, it->set, request, &standing, objection);
}

static void carrier_fill(tt_bundle *bundle, const member *one, uint32_t set)
{
    const tt_claim *claim = one->claim;
    const size_t length = tt_min_u64(strlen(one->name), sizeof(bundle->name) - 1);
    memcpy(bundle->name, one->name, length);
    bundle->name[length] = 0;
    bundle->carrier = (tt_request){
        .collective = (tt_collective)claim->collective,
        .dtype = (tt_dtype)claim->dtype,
        .redop = (tt_redop)claim->redop,
        .set = set,
        .root = claim->root,
        .urgency = one->request != NULL ? one->request->urgency : 0,
        .segment_bytes = one->request != NULL ? one->request->segment_bytes
                                              : bundle->control->config.segment_bytes,
        .name = bundle->name,
        .count = claim->count,
        .salt = claim->salt,
        .prescale = claim->prescale,
        .postscale = claim->postscale,
        .is_by_active = (claim->form & CLAIM_BY_ACTIVE) != 0,
        .is_alone = (claim->form & CLAIM_ALONE) != 0,
        .is_tuned = (claim->form & CLAIM_TUNED) != 0,
        .finished = bundle_finished,
        .owner = bundle,
    };
    memcpy(bundle->carrier.shape, claim->shape, sizeof(claim->shape));
}

static void carrier_submit(run *it, tt_bundle *bundle, const member *one, bool has_memory)
{
    tt_text text;
    tt_text_clear(&text);
    const bool is_pack = bundle->pack.bundle_size > 0; /* alone they may need less */
    const tt_failure starved = {.status = is_pack ? TT_ERR_CANCELLED : TT_ERR_NO_MEMORY,
                                .text = text.bytes};
    const tt_failure *objection = it->objection;
    it->set->absent_count += bundle->carrier.is_identity ? 1 : 0;
    if (!has_memory) {
        tt_text_add(&text, "rank %u is out of memory", it->control->world.rank);
    }
    submit(it, one, &bundle->carrier, has_memory || objection != NULL ? objection : &starved);
}

/* It has the identity to give, and can take what others give: what was planned and begun before the
 * others heard that this rank has joined. Of the rest nobody can have completed any. */
static bool can_stand_in(const tt_set *set, const tt_claim *claim)
{
    const bool is_from_root = claim->collective == TT_BROADCAST || claim->collective == TT_SCATTER;
    return (claim->form & CLAIM_UNEVEN) == 0 &&
           (claim->collective == TT_ALLREDUCE || claim->collective == TT_REDUCE ||
            (is_from_root && claim->root != set->self));
}

static void refuse_absent(run *it, tt_bundle *bundle, const member *one)
{
    tt_text text = {0};
    const tt_failure absent = {.status = TT_ERR_PEER_LEFT, .text = text.bytes};
    const tt_failure *kept = it->objection;
    tt_text_add(&text, "tensor ");
    tt_text_add_quoted(&text, one->name, TT_NAME_BYTES);
    tt_text_add(&text,
                " needs every rank, but rank %u has joined; only allreduce and reduce go on "
                "without it",
                it->control->world.rank);
    it->objection = kept != NULL ? kept : &absent;
    carrier_submit(it, bundle, one, true);
    it->objection = kept;
}

/* A rank that has joined takes part with the identity, in memory of its own. */
static void run_absent(run *it, const member *one)
{
    tt_bundle *bundle = bundle_take(it->control);
    const tt_claim *claim = one->claim;
    const uint64_t width = tt_dtype_bytes((tt_dtype)claim->dtype);
    const uint64_t bytes = tt_round_up(claim->count * width, ALIGN_BYTES);
    carrier_fill(bundle, one, it->set->id);
    bundle->carrier.is_identity = true;
    if (!can_stand_in(it->set, claim)) {
        refuse_absent(it, bundle, one);
        return;
    }
    const bool has_memory = !bundle->is_starved && bundle_reserve_memory(bundle, bytes + 1);
    if (has_memory) {
        tt_fill_identity((tt_dtype)claim->dtype,
                         TT_PLANT(IDENTITY_IS_ZERO) ? TT_SUM : (tt_redop)claim->redop,
                         bundle->memory, claim->count);
        bundle->carrier.input = bundle->carrier.output = bundle->memory;
    }
    carrier_submit(it, bundle, one, has_memory);
}

static void run_alone(run *it, const member *one)
{
    if (one->request == NULL) {
        run_absent(it, one);
        return;
    }
    const tt_named *named = one->request->named;
    const bool is_lost = one->request->is_lost;
    char text[TT_ERROR_BYTES]; /* both may be over before it is told */
    const tt_failure objection = {.status = is_lost ? TT_ERR_TIMED_OUT : named->objection,
                                  .text = text};
    if (objection.status < 0) { /* peers have begun it, or all object alike */
        memcpy(text, is_lost ? one->request->error : named->error, sizeof(text));
    }
    submit(it, one, one->request, objection.status < 0 ? &objection : NULL);
}

/* Of members that have other deadlines the first one counts. */
static uint64_t patience_of(const tt_bundle *bundle, uint64_t now_ns)
{
    uint64_t deadline_ns = UINT64_MAX;
    for (uint32_t i = 0; i < bundle->member_count; i++) {
        const tt_request *request = bundle->members[i].request;
        deadline_ns =
            request != NULL ? tt_min_u64(deadline_ns, request->named->deadline_ns) : deadline_ns;
    }
    return deadline_ns == UINT64_MAX ? 0 : deadline_ns > now_ns ? deadline_ns - now_ns : 1;
}

/* Has the time of a member passed here? Then nothing of the bundle can be given. */
static bool find_lost(const tt_bundle *bundle, tt_text *text)
{
    for (uint32_t i = 0; i < bundle->member_count; i++) {
        const tt_request *request = bundle->members[i].request;
        if (request != NULL && request->is_lost) {
            tt_text_add(text, "%s", request->error);
            return true;
        }
    }
    return false;
}

/* All members are in: pack them, and run them as one. */
static void bundle_send(run *it, tt_bundle *bundle)
{
    const tt_request *first = bundle->members[0].request;
    tt_claim whole;
    char name[TT_NAME_BYTES];
    tt_claim_copy(&whole, &bundle->claim);
    whole.count = bundle->bytes / tt_dtype_bytes((tt_dtype)whole.dtype);
    whole.salt = bundle->layout;
    memset(whole.shape, 0, sizeof(whole.shape));
    whole.form &= (uint8_t)~CLAIM_TUNED; /* its members may differ in that */
    memcpy(name, bundle->name, sizeof(name));
    const member all = {.item = bundle->first_item,
                        .request = bundle->members[0].request,
                        .claim = &whole,
                        .name = name};
    carrier_fill(bundle, &all, it->set->id);
    for (uint32_t i = 0; i < bundle->member_count; i++) { /* as urgent as its most urgent member */
        const tt_request *request = bundle->members[i].request;
        if (request != NULL && request->urgency > bundle->carrier.urgency) {
            bundle->carrier.urgency = request->urgency;
        }
    }
    bundle->carrier.is_identity = first == NULL && bundle->pack.bundle_size == 0;
    bundle->carrier.deadline_ns = patience_of(bundle, tt_now(it->control->platform));
    tt_text text;
    tt_text_clear(&text);
    const tt_failure expired = {.status = TT_ERR_TIMED_OUT, .text = text.bytes};
    const tt_failure *kept = it->objection;
    it->objection = kept == NULL && find_lost(bundle, &text) ? &expired : kept;
    const bool has_memory = !bundle->is_starved && it->objection == NULL &&
                            bundle_reserve_memory(bundle, bundle->bytes + 1);
    if (has_memory) {
        bundle_pack(bundle);
        it->control->counters.bundles++;
    }
    bundle->carrier.input = bundle->carrier.output = bundle->memory;
    carrier_submit(it, bundle, &all, has_memory);
    it->objection = kept;
}

static void bundle_close(run *it, uint32_t at)
{
    tt_bundle *bundle = it->open[at];
    it->open[at] = NULL;
    if (bundle->member_count > 1) {
        bundle_send(it, bundle);
        return;
    }
    tt_claim claim;
    char name[TT_NAME_BYTES];
    tt_claim_copy(&claim, &bundle->claim);
    memcpy(name, bundle->name, sizeof(name));
    const member only = {.item = bundle->first_item,
                         .request = bundle->members[0].request,
                         .claim = &claim,
                         .name = name};
    bundle->carrier.has_strays = false;
    bundle_recycle(bundle);
    run_alone(it, &only);
}

/* Does a tensor of this claim share an op with others that are agreed in the same go? */
static bool claim_is_small(const tt_control_config *config, const tt_claim *claim)
{
    const uint64_t width = tt_dtype_bytes((tt_dtype)claim->dtype);
    return width > 0 && claim->collective == TT_ALLREDUCE && claim->salt == 0 &&
           (claim->form & CLAIM_ALONE) == 0 && tt_redop_is_elementwise((tt_redop)claim->redop) &&
           (claim->count <= config->fuse_bytes / width) != ((claim->form & CLAIM_TUNED) != 0);
}

static bool is_small(const run *it, const member *one)
{
    const bool is_good =
        one->request == NULL ? !one->is_refused : one->request->named->objection == TT_OK;
    return is_good && claim_is_small(&it->control->config, one->claim);
}

/* Do they agree in all but their count? */
static bool fits(const tt_bundle *bundle, const tt_claim *claim)
{
    const tt_claim *other = &bundle->claim;
    return claim->dtype == other->dtype && claim->redop == other->redop &&
           ((claim->form ^ other->form) & ~CLAIM_TUNED) == 0 &&
           claim->prescale == other->prescale && claim->postscale == other->postscale;
}

/* Equal for those that may share an op; not 0. */
static uint64_t kind_of(const tt_claim *claim)
{
    const double scales[2] = {claim->prescale, claim->postscale};
    const unsigned form = claim->form & ~(unsigned)CLAIM_TUNED;
    const uint64_t seed = (uint64_t)claim->dtype << 16 | (uint64_t)claim->redop << 8 | form;
    return tt_hash64(scales, sizeof(scales), seed) | 1;
}

void tt_bundle_fuse(const tt_control_config *config, const tt_claim *claim, tt_fusion *fusion)
{
    const bool is_small = claim->count > 0 && claim_is_small(config, claim);
    const uint64_t kind = is_small ? kind_of(claim) : 0;
    fusion->kind = fusion->tensors == 0 || fusion->kind == kind ? kind : 0;
    fusion->bytes = tt_round_up(fusion->bytes, ALIGN_BYTES) +
                    claim->count * tt_dtype_bytes((tt_dtype)claim->dtype);
    fusion->tensors++;
}

static void bundle_open(tt_bundle *bundle, const member *one)
{
    bundle->first_item = one->item;
    tt_claim_copy(&bundle->claim, one->claim);
    const size_t length = tt_min_u64(strlen(one->name), sizeof(bundle->name) - 1);
    memcpy(bundle->name, one->name, length);
    bundle->name[length] = 0;
}

static void bundle_put(const run *it, tt_bundle *bundle, const member *one)
{
    const uint64_t bytes = one->claim->count * tt_dtype_bytes((tt_dtype)one->claim->dtype);
    const uint32_t index = bundle->member_count++;
    bundle->members[index].request = one->request;
    bundle->members[index].index = one->item->index;
    bundle->members[index].offset = bundle->bytes;
    bundle->members[index].bytes = bytes;
    bundle->bytes += tt_round_up(
        bytes, TT_PLANT(LAYOUT_DIFFERS) && it->set->self == 1 ? 2 * ALIGN_BYTES : ALIGN_BYTES);
    bundle->layout = tt_hash64_mix(bundle->layout, one->claim->count + 1) | 1;
}

static void bundle_add(run *it, const member *one)
{
    const uint64_t bytes = one->claim->count * tt_dtype_bytes((tt_dtype)one->claim->dtype);
    const uint64_t room = it->control->config.bundle_bytes;
    uint32_t at = 0;
    while (at < OPEN_MAX && it->open[at] != NULL && !fits(it->open[at], one->claim)) {
        at++;
    }
    if (at == OPEN_MAX) { /* the one that was opened first makes room */
        bundle_close(it, 0);
        memmove(&it->open[0], &it->open[1], (OPEN_MAX - 1) * sizeof(it->open[0]));
        it->open[--at] = NULL;
    }
    tt_bundle *bundle = it->open[at];
    if (bundle != NULL && (bundle->bytes + tt_round_up(bytes, ALIGN_BYTES) > room ||
                           bundle->member_count == TT_BUNDLE_MEMBERS_MAX)) {
        bundle_close(it, at);
        bundle = NULL;
    }
    if (bundle == NULL) {
        bundle = it->open[at] = bundle_take(it->control);
        bundle_open(bundle, one);
    }
    bundle_put(it, bundle, one);
}

static void close_all(run *it)
{
    for (uint32_t at = 0; at < OPEN_MAX && it->open[at] != NULL; at++) {
        bundle_close(it, at);
    }
}

static void run_item(run *it, const tt_agreement *item)
{
    tt_named *named = item->ticket != NULL ? item->ticket->owner : NULL;
    tt_bid bid = {0};
    tt_claim claim;
    char name[TT_NAME_BYTES] = "";
    if (named == NULL) { /* else the requests know theirs, and the item may have none */
        memcpy(name, item->name, tt_min_u64(item->name_bytes, sizeof(name) - 1));
    }
    if (named == NULL && (!tt_bid_read(&bid, item->claim, item->claim_bytes) ||
                          (bid.is_digest && !tt_bid_recall(it->set, item, &bid)))) {
        tt_named_starve(it->control); /* cannot stand in for what it cannot read */
        return;
    }
    if (named != NULL ? named->is_apart : bid.objection == BID_APART) {
        return; /* its members go by themselves */
    }
    const uint32_t count = named != NULL ? named->member_count : bid.member_count;
    const bool is_group = named != NULL ? named->member_max > 0 : count > 1;
    for (uint32_t i = 0; i < count; i++) {
        tt_request *request = named != NULL ? named->members[i] : NULL;
        if (request != NULL) {
            tt_claim_make(&claim, request, it->set->size);
        } else if (!tt_bid_next(&bid, &claim)) {
            break;
        }
        const member one = {.item = item,
                            .request = request,
                            .is_refused = bid.objection < 0,
                            .claim = &claim,
                            .name = request != NULL ? request->name
                                                    : (claim.name[0] != 0 ? claim.name : name)};
        claim.name[0] = request != NULL ? 0 : claim.name[0];
        if (is_small(it, &one) && (is_group || !it->is_planned)) {
            bundle_add(it, &one);
        } else {
            run_alone(it, &one);
        }
    }
}

void tt_bundle_run(tt_control *control, tt_set *set, const tt_agreement *items, uint32_t count,
                   bool is_planned)
{
    run it = {.control = control, .set = set, .is_planned = is_planned};
    for (uint32_t i = 0; i < count; i++) {
        run_item(&it, &items[i]);
    }
    close_all(&it);
}

void tt_bundle_refuse(tt_control *control, tt_set *set, const tt_agreement *item,
                      const tt_failure *objection)
{
    run it = {.control = control, .set = set, .is_planned = true, .objection = objection};
    if (item->bundle_size > 0) {
        tt_pack_forgo(control, set, item);
    }
    run_item(&it, item);
    close_all(&it);
}

void tt_bundle_run_alone(tt_control *control, tt_set *set, const tt_agreement *item,
                         tt_request *request)
{
    run it = {.control = control, .set = set, .is_planned = true};
    tt_claim claim;
    tt_claim_make(&claim, request, set->size);
    const member one = {.item = item, .request = request, .claim = &claim, .name = request->name};
    run_alone(&it, &one);
}

static void put_planned(run *it, tt_bundle *bundle, const tt_agreement *item, tt_request *request)
{
    tt_claim claim;
    tt_claim_make(&claim, request, it->set->size);
    const member one = {.item = item, .request = request, .claim = &claim, .name = request->name};
    if (bundle->member_count == 0) {
        bundle_open(bundle, &one);
    }
    bundle_put(it, bundle, &one);
}

void tt_bundle_run_pack(tt_control *control, tt_pack *pack, const tt_failure *objection)
{
    run it = {.control = control, .set = pack->set, .is_planned = true, .objection = objection};
    const tt_agreement item = {.generation = pack->generation,
                               .index = pack->index,
                               .order = pack->order,
                               .bundle = pack->index,
                               .bundle_size = pack->size};
    const tt_claim nothing = {.collective = TT_ALLREDUCE, .dtype = TT_F32, .redop = TT_SUM};
    tt_bundle *bundle = bundle_take(control);
    bundle->pack = item;
    bundle->members[0].request = NULL;
    const member none = {.item = &item, .claim = &nothing, .name = "a planned bundle"};
    bundle_open(bundle, &none);
    for (uint32_t i = 0; i < pack->size && pack->count > 0; i++) {
        const tt_named *named = pack->members[i].named;
        tt_agreement alone = item;
        alone.index = pack->members[i].index;
        for (uint32_t k = 0; named != NULL && k < named->member_count; k++) {
            put_planned(&it, bundle, &alone, named->members[k]);
        }
        pack->count -= named != NULL ? 1 : 0;
        pack->members[i].named = NULL;
    }
    bundle->first_item = &item;
    bundle_send(&it, bundle);
}
