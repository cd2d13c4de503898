/* SPDX-License-Identifier: Apache-2.0
 *
 * feedback.c - see feedback.h. */
#include "control/coded/feedback.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/plant.h"
#include "control/control_internal.h"
#include "control/named/name.h"
#include "kernel/hash64.h"

struct tt_known_scheme {
    tt_known_scheme *next;
    const tt_scheme *scheme;
    tt_scheme made[]; /* one, if it was made from a code */
};

static uint64_t hash_of(uint32_t set, const char *name, uint64_t key)
{
    return tt_hash64(name, strlen(name), tt_hash64_mix(set, key));
}

static const char *text_of(const char *name)
{
    return name != NULL ? name : "";
}

/* ---- records ---- */

tt_feedback *tt_feedback_find(const tt_control *control, uint32_t set, const char *name,
                              uint64_t key)
{
    const tt_feedbacks *all = &control->feedbacks;
    const uint64_t hash = hash_of(set, text_of(name), key);
    tt_feedback *found = all->buckets != NULL ? all->buckets[hash % FEEDBACK_BUCKETS] : NULL;
    while (found != NULL && (found->hash != hash || found->set != set || found->key != key ||
                             strcmp(found->name, text_of(name)) != 0)) {
        found = found->next;
    }
    return found;
}

static size_t record_bytes(const char *name)
{
    return sizeof(tt_feedback) + strlen(name) + 1;
}

tt_feedback *tt_feedback_of(tt_control *control, uint32_t set, const char *name, uint64_t key)
{
    tt_feedbacks *all = &control->feedbacks;
    tt_feedback *made = tt_feedback_find(control, set, name, key);
    if (made != NULL) {
        return made;
    }
    if (all->buckets == NULL) {
        all->buckets =
            tt_platform_allocate(control->platform, FEEDBACK_BUCKETS * sizeof(*all->buckets));
    }
    made = all->buckets != NULL
               ? tt_platform_allocate(control->platform, record_bytes(text_of(name)))
               : NULL;
    if (made == NULL) {
        return NULL;
    }
    made->set = set;
    made->key = key;
    made->hash = hash_of(set, text_of(name), key);
    memcpy(made->name, text_of(name), strlen(text_of(name)) + 1);
    made->next = all->buckets[made->hash % FEEDBACK_BUCKETS];
    all->buckets[made->hash % FEEDBACK_BUCKETS] = made;
    all->count++;
    return made;
}

void tt_feedback_clear(tt_control *control, tt_feedback *own)
{
    TT_ASSERT(!own->is_busy);
    tt_kept_clear(&own->input, control->platform);
    tt_kept_clear(&own->owner, control->platform);
    tt_kept_clear(&own->estimate, control->platform);
    own->stamp = own->stamp_last = 0;
    own->form = FORM_RESIDUAL;
}

void tt_feedback_commit(tt_feedback *own)
{
    tt_kept_commit(&own->input);
    tt_kept_commit(&own->owner);
    tt_kept_commit(&own->estimate);
    own->stamp_last = own->stamp;
}

void tt_feedback_undo(tt_feedback *own)
{
    tt_kept_undo(&own->input);
    tt_kept_undo(&own->owner);
    tt_kept_undo(&own->estimate);
    own->stamp = own->stamp_last;
}

static void record_release(tt_control *control, tt_feedback **link)
{
    tt_feedback *gone = *link;
    TT_ASSERT(!gone->is_busy && control->feedbacks.count > 0);
    *link = gone->next;
    tt_feedback_clear(control, gone);
    tt_platform_release(control->platform, gone, record_bytes(gone->name));
    control->feedbacks.count--;
}

void tt_control_codec_forget(tt_control *control, uint32_t set, uint64_t key)
{
    const tt_feedback *gone = tt_feedback_find(control, set, NULL, key);
    if (gone == NULL || gone->is_busy) {
        return;
    }
    tt_feedback **link = &control->feedbacks.buckets[gone->hash % FEEDBACK_BUCKETS];
    while (*link != gone) {
        link = &(*link)->next;
    }
    record_release(control, link);
}

/* Release the records of one set; or, NULL, of all. */
static void release_records(tt_control *control, const tt_set *set)
{
    tt_feedback **buckets = control->feedbacks.buckets;
    for (uint32_t i = 0; buckets != NULL && i < FEEDBACK_BUCKETS; i++) {
        tt_feedback **link = &buckets[i];
        while (*link != NULL) {
            if (set == NULL || (*link)->set == set->id) {
                record_release(control, link);
            } else {
                link = &(*link)->next;
            }
        }
    }
}

void tt_feedback_forget_set(tt_control *control, const tt_set *set)
{
    TT_ASSERT(set != NULL);
    release_records(control, set);
}

static size_t scheme_bytes(const tt_known_scheme *known)
{
    return sizeof(*known) + (known->scheme == known->made ? sizeof(tt_scheme) : 0);
}

void tt_feedback_release_all(tt_control *control)
{
    tt_feedbacks *all = &control->feedbacks;
    release_records(control, NULL);
    TT_ASSERT(all->count == 0);
    tt_platform_release(control->platform, all->buckets, FEEDBACK_BUCKETS * sizeof(*all->buckets));
    while (all->schemes != NULL) {
        tt_known_scheme *known = all->schemes;
        all->schemes = known->next;
        tt_platform_release(control->platform, known, scheme_bytes(known));
    }
}

/* ---- schemes ---- */

static const tt_scheme *scheme_find(const tt_control *control, uint64_t code)
{
    const tt_known_scheme *known = control->feedbacks.schemes;
    while (known != NULL && known->scheme->code != code) {
        known = known->next;
    }
    return known != NULL ? known->scheme : NULL;
}

static tt_known_scheme *scheme_add(tt_control *control, size_t bytes)
{
    tt_known_scheme *known = tt_platform_allocate(control->platform, sizeof(*known) + bytes);
    if (known != NULL) {
        known->next = control->feedbacks.schemes;
        control->feedbacks.schemes = known;
    }
    return known;
}

const tt_program *tt_feedback_program(tt_control *control, uint64_t code)
{
    tt_scheme made;
    const tt_scheme *scheme = scheme_find(control, code);
    if (scheme == NULL && tt_scheme_from_code(&made, code)) {
        tt_known_scheme *known = scheme_add(control, sizeof(tt_scheme));
        if (known != NULL) {
            (void)tt_scheme_from_code(known->made, code);
            known->scheme = scheme = known->made;
        }
    }
    return scheme != NULL ? &scheme->phases[0].program : NULL;
}

bool tt_feedback_knows(const tt_control *control, uint64_t code)
{
    tt_scheme made;
    return scheme_find(control, code) != NULL || tt_scheme_from_code(&made, code);
}

tt_status tt_feedback_learn(tt_control *control, const tt_scheme *scheme)
{
    if (scheme->phase_count == 1 || scheme_find(control, scheme->code) != NULL) {
        return TT_OK;
    }
    tt_known_scheme *known = scheme_add(control, 0);
    if (known == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    known->scheme = scheme;
    return TT_OK;
}

/* ---- ops ---- */

tt_status tt_feedback_bind(tt_control *control, const tt_set *set, tt_request *request)
{
    const tt_scheme *scheme = request->program->scheme;
    uint64_t occurrence = 0;
    TT_DEBUG_ASSERT(scheme != NULL);
    if (scheme->keeps_state) {
        TT_TRY(tt_feedback_learn(control, scheme));
        tt_feedback *own = tt_feedback_of(control, set->id, request->name, request->key);
        if (own == NULL) {
            return TT_ERR_NO_MEMORY;
        }
        occurrence = own->occurrences++;
    }
    request->program = &scheme->phases[tt_scheme_phase_at(scheme, occurrence)].program;
    return TT_OK;
}

/* The stage that has the problem of the call. */
static const tt_problem *problem_of(const tt_op *op)
{
    const tt_recipe *recipe = op->recipe;
    uint32_t at = 0;
    while (recipe->stages[at].problem.codec == NULL) {
        at++;
        TT_ASSERT(at < recipe->stage_count);
    }
    return &recipe->stages[at].problem;
}

/* Memory for as many floats; an earlier call may have had another number of them. If it failed and
 * left none but zeros, it does not matter. */
static tt_status keep(tt_control *control, tt_kept *kept, uint64_t count)
{
    if (kept->count != count && tt_kept_is_zero(kept)) {
        tt_kept_clear(kept, control->platform);
        TT_TRY(tt_kept_make(kept, control->platform, count));
    }
    return kept->count == count ? TT_OK : TT_ERR_BAD_ARGUMENT;
}

/* The residual of an owner is of the slice it owns; a run without owners leaves it as it is. */
static tt_status keep_owner(tt_op *op, tt_feedback *own)
{
    const tt_problem *problem = problem_of(op);
    const uint64_t count = tt_coding_owned(problem);
    const uint64_t first = count > 0 ? tt_owned_slice(problem, problem->self).first : 0;
    own->has_owned = count > 0;
    if (count == 0) {
        return TT_OK;
    }
    TT_TRY(keep(op->control, &own->owner, count));
    if (own->owner_first != first && !tt_kept_is_zero(&own->owner)) {
        return TT_ERR_BAD_ARGUMENT;
    }
    own->owner_first = first;
    return TT_OK;
}

/* So is the sum of estimates, also of a reducescatter. */
static tt_status keep_estimate(tt_op *op, tt_feedback *own)
{
    const tt_problem *problem = problem_of(op);
    const uint64_t count = tt_coding_estimated(problem);
    const uint64_t first = count > 0 ? tt_owned_slice(problem, problem->self).first : 0;
    own->has_estimate = count > 0;
    if (own->form == FORM_RESIDUAL) {
        return TT_OK;
    }
    TT_TRY(keep(op->control, &own->estimate, count));
    if (own->estimate_first != first && !tt_kept_is_zero(&own->estimate)) {
        return TT_ERR_BAD_ARGUMENT;
    }
    own->estimate_first = first;
    return TT_OK;
}

/* Is what is kept of the form that the op has? Zeros become so. */
static tt_status keep_form(const tt_op *op, tt_feedback *own, tt_text *text)
{
    const tt_problem *problem = problem_of(op);
    const tt_feedback_form tracked =
        tt_coding_has_rails(problem) ? FORM_ESTIMATE_RAILS : FORM_ESTIMATE;
    const tt_feedback_form form = problem->codec->is_tracked ? tracked : FORM_RESIDUAL;
    if (own->form == form) {
        return TT_OK;
    }
    if (tt_kept_is_zero(&own->input) && tt_kept_is_zero(&own->estimate)) {
        own->form = form;
        return TT_OK;
    }
    tt_text_add(text, "what is kept of tensor ");
    tt_text_add_quoted(text, own->name, TT_NAME_BYTES);
    tt_text_add(text, " is %s; tutti_codec_reset drops it",
                own->form == FORM_RESIDUAL ? "the residual of ef=on"
                : form == FORM_RESIDUAL    ? "the estimate of ef=21"
                                           : "the estimate of a codec with another where=");
    return TT_ERR_BAD_ARGUMENT;
}

/* On rails a run writes the residuals of its own rail alone. Those of other elements, of earlier
 * calls with another codec, stay. */
static void keep_others(const tt_op *op, tt_feedback *own)
{
    if (!tt_coding_has_rails(problem_of(op))) {
        own->is_spread = true;
    } else if (own->is_spread && own->input.count > 0) {
        memcpy(tt_kept_next(&own->input), tt_kept_now(&own->input),
               own->input.count * sizeof(float));
    }
}

static tt_status residuals_begin(tt_op *op, tt_feedback *own, tt_text *text)
{
    tt_control *control = op->control;
    tt_request *request = op->request;
    const uint64_t count = tt_request_input_count(request, op->self, op->size);
    TT_TRY(keep_form(op, own, text));
    tt_status status = keep(control, &own->input, count);
    if (status == TT_OK) {
        status = keep_owner(op, own);
    }
    if (status == TT_OK) {
        status = keep_estimate(op, own);
    }
    if (status == TT_ERR_BAD_ARGUMENT) {
        tt_text_add(text, "the %s of tensor ",
                    own->form == FORM_RESIDUAL ? "residual" : "estimate");
        tt_text_add_quoted(text, own->name, TT_NAME_BYTES);
        if (own->input.count != count) {
            tt_text_add(text, " has %llu elements, the call %llu; tutti_codec_reset drops it",
                        (unsigned long long)own->input.count, (unsigned long long)count);
        } else {
            tt_text_add(text,
                        " is of a codec with another block or where=; tutti_codec_reset drops "
                        "it");
        }
        return status;
    }
    TT_TRY(status);
    TT_TRY(tt_kept_begin(&own->input, control->platform));
    TT_TRY(tt_kept_begin(&own->owner, control->platform));
    TT_TRY(tt_kept_begin(&own->estimate, control->platform));
    keep_others(op, own);
    return TT_OK;
}

/* The residuals of this run. A joined rank contributes zeros: what it has not sent yet waits until
 * it contributes again. But on rails its residual is that of its host's sums. */
static void residuals_use(tt_op *op, tt_coded_run *run, tt_feedback *own)
{
    const bool is_sender = !op->request->is_identity || tt_coding_has_rails(problem_of(op));
    TT_ASSERT(!own->is_busy);
    own->is_busy = true;
    own->is_undone = false;
    run->feedback = own;
    run->coding.residual = is_sender ? tt_kept_now(&own->input) : NULL;
    run->coding.residual_out = is_sender ? tt_kept_next(&own->input) : NULL;
    run->coding.owner_residual = own->has_owned ? tt_kept_now(&own->owner) : NULL;
    run->coding.owner_residual_out = own->has_owned ? tt_kept_next(&own->owner) : NULL;
    run->coding.estimate = own->has_estimate ? tt_kept_now(&own->estimate) : NULL;
    run->coding.estimate_out = own->has_estimate ? tt_kept_next(&own->estimate) : NULL;
    run->coding.stamp = own->stamp;
    own->stamp_next = own->form != FORM_RESIDUAL
                          ? tt_hash64_mix(own->stamp, op->sequence) | 1 /* not 0 */
                          : own->stamp;
}

/* Sender and owner move their estimates together, so that no rank can leave them out. */
static tt_status refuse_absent(const tt_op *op, const tt_feedback *own, tt_text *text)
{
    if (op->request->is_identity) {
        tt_text_add(text, "a rank that has joined contributes no more to the estimates of ef=21; "
                          "use ef=on beside tutti_join");
        return TT_ERR_BAD_ARGUMENT;
    }
    if (own->is_busy) {
        tt_text_add(text, "a call that this rank joined has not released the state of tensor ");
        tt_text_add_quoted(text, own->name, TT_NAME_BYTES);
        tt_text_add(text, ", which ef=21 needs; use ef=on beside tutti_join");
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

static tt_codec_draw draw_of(const tt_op *op, const tt_feedback *own)
{
    const uint64_t tensor = own != NULL ? own->hash : op->set->id;
    const uint64_t count = own != NULL ? own->occurrences : op->sequence;
    return (tt_codec_draw){.seed = tt_hash64_mix(op->control->world.rank, op->control->world.epoch),
                           .tensor = (uint32_t)tensor,
                           .occurrence = (uint32_t)tt_hash64_mix(count, tensor)};
}

tt_status tt_feedback_prepare(tt_op *op, tt_text *text)
{
    tt_control *control = op->control;
    const tt_request *request = op->request;
    const tt_program *program = request->program;
    TT_ASSERT((op->recipe->traits & TRAIT_CODED) != 0 && program->codec != NULL);
    if (op->exec.coding == NULL) {
        tt_coded_run *made = tt_platform_allocate(control->platform, sizeof(*made));
        if (made == NULL) {
            return TT_ERR_NO_MEMORY;
        }
        op->exec.coding = &made->coding;
    }
    tt_coded_run *run = TT_CONTAINER_OF(op->exec.coding, tt_coded_run, coding);
    tt_feedback *own = program->scheme->keeps_state
                           ? tt_feedback_find(control, op->set->id, request->name, request->key)
                           : NULL;
    *run =
        (tt_coded_run){.coding.draw = draw_of(op, own), .coding.factor = (float)request->prescale};
    if (own == NULL || !program->codec->has_feedback || tt_copied_fits(problem_of(op))) {
        return TT_OK;
    }
    if (program->codec->is_tracked) {
        TT_TRY(refuse_absent(op, own, text));
    } else if (own->is_busy) {
        return TT_OK;
    }
    TT_TRY(residuals_begin(op, own, text));
    residuals_use(op, run, own);
    return TT_OK;
}

static void count_up(const tt_op *op, const tt_coding *coding)
{
    const tt_request *request = op->request;
    const uint64_t elements = request->collective == TT_BROADCAST
                                  ? request->count
                                  : tt_request_input_count(request, op->self, op->size);
    tt_control_counters *counters = &op->control->counters;
    counters->coded_calls++;
    counters->coded_bytes += elements * tt_dtype_bytes(request->dtype);
    counters->wire_bytes += tt_codec_wire_bytes(request->program->codec, elements);
    counters->coding_ns += coding->spent_ns;
    counters->uncoded += coding->uncoded;
}

/* The call that used them is over: do its residuals count? */
static void conclude(const tt_control *control, tt_feedback *own, tt_status status)
{
    TT_ASSERT(own->is_busy && !own->is_grouped);
    own->is_busy = false;
    if (TT_PLANT(ESTIMATE_KEPT_AFTER_FAILURE) && status != TT_OK && own->has_estimate) {
        tt_kept_turn(&own->estimate);
    }
    if (status != TT_OK || own->is_undone) {
        return;
    }
    if (own->has_sent && !TT_PLANT(RESIDUAL_COUNTED_TWICE)) {
        tt_kept_turn(&own->input);
    }
    if (own->has_owned) {
        tt_kept_turn(&own->owner);
    }
    if (own->has_estimate) {
        tt_kept_turn(&own->estimate);
    }
    own->stamp = own->stamp_next;
    if (!control->feedbacks.has_steps) {
        tt_feedback_commit(own);
    }
}

bool tt_feedback_is_astray(const tt_op *op, tt_text *text)
{
    const tt_coding *coding = op->exec.coding;
    TT_DEBUG_ASSERT(op->exec.status == TT_ERR_MISMATCH);
    if ((op->recipe->traits & TRAIT_CODED) == 0 || coding == NULL || !coding->is_astray) {
        return false;
    }
    tt_text_add(text, "rank %u and rank %u keep different estimates", op->members[op->exec.culprit],
                op->control->world.rank);
    if (op->request->name != NULL) {
        tt_text_add(text, " of tensor ");
        tt_text_add_quoted(text, op->request->name, TT_NAME_BYTES);
    }
    tt_text_add(text, " (ef=21); call tutti_codec_reset on all ranks");
    return true;
}

void tt_feedback_settle(tt_op *op, tt_status status)
{
    if (op->exec.coding == NULL) {
        return; /* it has not begun */
    }
    tt_coded_run *run = TT_CONTAINER_OF(op->exec.coding, tt_coded_run, coding);
    tt_feedback *own = run->feedback;
    run->feedback = NULL;
    run->coding.is_astray = false;
    if (own != NULL && TT_PLANT(OCCURRENCE_NOT_COUNTED) && status < 0) {
        own->occurrences--;
    }
    if (status == TT_OK) {
        count_up(op, &run->coding);
    }
    if (own == NULL) {
        return;
    }
    TT_ASSERT(own->is_busy);
    own->has_sent = run->coding.residual_out != NULL;
    own->is_grouped =
        status == TT_OK && tt_name_is_grouped(op->request) && !TT_PLANT(RESIDUAL_OF_FAILED_GROUP);
    if (!own->is_grouped) {
        conclude(op->control, own, status);
    }
}

void tt_feedback_settle_part(tt_control *control, const tt_request *request, tt_status status)
{
    tt_feedback *own = tt_feedback_find(control, request->set, request->name, request->key);
    if (own != NULL && own->is_grouped) {
        own->is_grouped = false;
        conclude(control, own, status);
    }
}
