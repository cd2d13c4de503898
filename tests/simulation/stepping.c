/* SPDX-License-Identifier: Apache-2.0
 *
 * stepping.c - a rank's stepper (schedule/step.h), as in api/steps.c: between the same calls of all
 * ranks it ends a step, and submits nothing until the stepper's exchanges have ended.
 *
 * All ranks must make a call under the same setting and with the same urgency, for the order is
 * rank 0's, unless a rank was lost: an exchange may end well on some ranks when one dies. */
#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "simulation/run_internal.h"

static bool has_lost_rank(const simulation *run)
{
    for (uint32_t i = 0; i < run->what->size; i++) {
        if (run->ranks[i].is_dead || run->ranks[i].is_severed) {
            return true;
        }
    }
    return false;
}

/* True: some call has a reason to fail. */
static bool is_troubled(const simulation *run)
{
    const scenario *what = run->what;
    bool is_troubled = has_lost_rank(run) || what->leaves_early || tt_sim_has_starved(run->sim);
    for (uint32_t i = 0; i < what->call_count; i++) {
        is_troubled |= what->calls[i].flaw != FLAW_NONE || what->calls[i].deadline_ns > 0;
    }
    return is_troubled;
}

/* ---- exchanges ---- */

/* All exchanges have ended. */
static void end_if_over(sim_rank_state *rank)
{
    const char *why;
    if (rank->carrier.owner != NULL) {
        return;
    }
    rank->is_ending = false;
    if (tt_stepper_status(rank->stepper, &why) < 0 && why[0] != 0) {
        run_fault(rank->simulation, "rank %u: a step ends with '%s'", rank->rank, why);
    }
    slot_count_off(rank);
}

static void do_carried(void *argument)
{
    sim_rank_state *rank = argument;
    simulation *run = rank->simulation;
    const tt_status status = rank->carrier.status;
    if (status != TT_OK && !is_troubled(run)) {
        run_fault(run, "rank %u: an exchange at the end of a step failed: %s", rank->rank,
                  rank->carrier.error);
    }
    rank->carrier.owner = NULL;
    tt_stepper_carried(rank->stepper, status);
    end_if_over(rank);
}

static void on_carried(tt_request *request)
{
    sim_rank_state *rank = request->owner;
    simulation *run = rank->simulation;
    if (!run->is_over && !rank->is_dead) { /* not from inside an upcall */
        tt_sim_call(run->sim, rank->rank, tt_sim_now(run->sim) + 1, do_carried, rank);
    }
}

static void on_carry(void *owner, const tt_carrier *carrier)
{
    sim_rank_state *rank = owner;
    TT_ASSERT(rank->carrier.owner == NULL);
    TT_ASSERT(carrier->memory != NULL);
    rank->carrier = (tt_request){.collective = TT_ALLREDUCE,
                                 .dtype = carrier->element_bytes == 1 ? TT_U8 : TT_I64,
                                 .redop = TT_SUM,
                                 .urgency = TT_URGENCY_MESSAGE,
                                 .name = carrier->name,
                                 .is_alone = true,
                                 .input = carrier->memory,
                                 .output = carrier->memory,
                                 .count = carrier->count,
                                 .prescale = 1.0,
                                 .postscale = 1.0,
                                 .finished = on_carried,
                                 .owner = rank,
                                 .status = TT_IN_PROGRESS};
    tt_control_submit(rank->control, &rank->carrier);
}

/* ---- functions for the stepper ---- */

static void on_apply(void *owner, const tt_setting *setting)
{
    const sim_rank_state *rank = owner;
    tt_control_set_segment(rank->control, (uint32_t)setting->chunk_bytes);
    tt_control_set_credit(rank->control, setting->credit_bytes);
    tt_control_set_fuse(rank->control, setting->fuse_bytes);
    rank->simulation->result.change_count += rank->rank == 0 ? 1 : 0;
}

static double on_forecast(void *owner, uint64_t bytes)
{
    const sim_rank_state *rank = owner;
    return (double)(rank->simulation->what->forecast_ns * (bytes + 1000));
}

static void on_tuned(void *owner, const tt_tuner_setting *setting, bool is_settled)
{
    (void)owner;
    (void)setting;
    (void)is_settled;
}

void stepping_create(sim_rank_state *rank)
{
    const scenario *what = rank->simulation->what;
    const tt_step_host host = {.owner = rank,
                               .carry = on_carry,
                               .apply = on_apply,
                               .forecast_ns = on_forecast,
                               .tuned = on_tuned};
    tt_step_config config = what->steps;
    config.rank = rank->rank;
    config.size = what->size;
    const tt_status status =
        tt_stepper_create(&config, &host, &tt_allocator_default, &rank->stepper);
    TT_ASSERT(status == TT_OK);
}

void stepping_destroy(sim_rank_state *rank)
{
    tt_stepper_destroy(rank->stepper);
    rank->stepper = NULL;
}

/* ---- calls and steps ---- */

static uint64_t hash_of(const call_slot *slot)
{
    const sim_rank_state *rank = &slot->simulation->ranks[slot->rank];
    const tt_setting setting = tt_stepper_count(rank->stepper).setting;
    /* Where an order gains nothing, each rank ignores urgencies by itself. */
    const bool is_own = slot->simulation->what->steps.is_auto;
    uint64_t hash = tt_hash64_mix(setting.chunk_bytes, setting.fuse_bytes);
    hash = tt_hash64_mix(hash, setting.credit_bytes);
    return tt_hash64_mix(hash, is_own ? 0 : (uint64_t)(int64_t)slot->request.urgency) | 1;
}

void stepping_submit(call_slot *slot)
{
    simulation *run = slot->simulation;
    tt_stepper *stepper = run->ranks[slot->rank].stepper;
    uint64_t *first = &run->settings[slot->call_index];
    slot->request.urgency = tt_stepper_submit(stepper, slot->name, slot->call->urgency);
    if (run->what->has_uses && slot->call->is_named) {
        (void)tt_stepper_use(stepper, slot->name);
    }
    const uint64_t own = hash_of(slot);
    *first = *first == 0 ? own : *first;
    if (*first != own && !has_lost_rank(run)) {
        run_fault(run, "call %u of rank %u: under another setting or order than on another rank",
                  slot->call_index, slot->rank);
    }
}

void stepping_end(sim_rank_state *rank)
{
    simulation *run = rank->simulation;
    const char *mode;
    const tt_control_counters counted = tt_control_count(rank->control);
    const tt_negotiate_counters *names = tt_control_set_count(rank->control, 0, &mode);
    const tt_step_moment moment = {.now_ns = tt_sim_now(run->sim),
                                   .busy_ns = counted.busy_ns,
                                   .gradient_bytes = counted.gradient_bytes,
                                   .named_count =
                                       names != NULL ? names->agreed + names->planned : 0};
    TT_ASSERT(!rank->is_ending);
    rank->is_ending = true;
    tt_stepper_end(rank->stepper, &moment);
    end_if_over(rank);
}
