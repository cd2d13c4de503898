/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - see run.h. */
#include "simulation/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/frame.h"
#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"
#include "simulation/run_internal.h"

#define SECONDS UINT64_C(1000000000)

enum {
    EPOCH = 5,
    EVENTS_MAX = 3 * 1000 * 1000,
    PHANTOM_BYTES = 1 << 30,
    SALT_STRIDE = 1000003, /* of network seeds, so that salts of adjacent seeds do not collide */
};

void run_fault(simulation *run, const char *format, ...)
{
    if (!run->result.is_good) {
        return;
    }
    run->result.is_good = false;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(run->result.reason, sizeof(run->result.reason), format, arguments);
    va_end(arguments);
}

/* ---- the world ---- */

static void report(void *owner, int level, const char *text)
{
    const sim_rank_state *rank = owner;
    (void)level;
    if (rank->simulation->options->is_verbose) {
        printf("%12llu us rank %u: %s\n",
               (unsigned long long)(tt_sim_now(rank->simulation->sim) / 1000), rank->rank, text);
    }
}

/* ---- a machine that knows when its callbacks may submit ---- */

static void *nest_frame(void *self, uint32_t peer, const tt_head *head, const void *payload)
{
    sim_rank_state *rank = self;
    rank->is_in_data = head->kind == TT_FRAME_DATA;
    void *sink = rank->machine.ops->frame(rank->machine.self, peer, head, payload);
    rank->is_in_data = false;
    return sink;
}

static void nest_payload(void *self, uint32_t peer, const tt_head *head)
{
    sim_rank_state *rank = self;
    rank->is_in_data = true;
    rank->machine.ops->payload(rank->machine.self, peer, head);
    rank->is_in_data = false;
}

static void nest_sent(void *self, uint64_t token)
{
    const sim_rank_state *rank = self;
    rank->machine.ops->sent(rank->machine.self, token);
}

static void nest_timer(void *self)
{
    const sim_rank_state *rank = self;
    rank->machine.ops->timer(rank->machine.self);
}

static void nest_peer(void *self, uint32_t peer, tt_peer_event event, const char *why)
{
    const sim_rank_state *rank = self;
    rank->machine.ops->peer(rank->machine.self, peer, event, why);
}

static bool nest_step(void *self)
{
    const sim_rank_state *rank = self;
    return rank->machine.ops->step(rank->machine.self);
}

static const tt_machine_ops nest_ops = {
    .frame = nest_frame,
    .payload = nest_payload,
    .sent = nest_sent,
    .timer = nest_timer,
    .peer = nest_peer,
    .step = nest_step,
};

static void rank_create(simulation *run, uint32_t number)
{
    const scenario *what = run->what;
    sim_rank_state *rank = &run->ranks[number];
    rank->simulation = run;
    rank->rank = number;
    const tt_world world = {.rank = number,
                            .size = what->size,
                            .epoch = EPOCH,
                            .host_of = what->host_of,
                            .has_views = what->sim.has_views};
    const tt_control_listener listener = {.owner = rank, .report = report};
    tt_status status = tt_control_create(tt_sim_platform(run->sim, number), &world, &what->control,
                                         &listener, &rank->control);
    TT_ASSERT(status == TT_OK);
    if (what->control.is_paced && number % 3 == 1) { /* credit may differ between ranks */
        tt_control_set_credit(rank->control, what->control.credit_bytes / 2 + number);
    }
    for (uint32_t set = 1; set < what->set_count; set++) {
        uint32_t id;
        status = tt_control_set_create(rank->control, what->members[set], what->set_size[set], &id);
        TT_ASSERT(status == TT_OK && id == set);
    }
    rank->machine = tt_control_machine(rank->control);
    tt_sim_attach(run->sim, number,
                  what->nests ? (tt_machine){.ops = &nest_ops, .self = rank} : rank->machine);
    if (what->has_steps) {
        stepping_create(rank);
    }
    if (what->seed >= SCENARIO_CODED) {
        coded_create(rank);
    }
}

/* A duplicate of the frame, although drivers guarantee that none arrives twice. Not of eager ones:
 * a credit pays for one frame. */
static void duplicate(simulation *run, uint32_t from, const tt_send *send)
{
    if ((send->head->flags & TT_FLAG_EAGER) == 0 && tt_random_below(&run->random, 8) == 0) {
        tt_sim_forge(run->sim, from, send);
    }
}

/* Some frames are followed by one of an earlier epoch of the job, or of a later one. */
static void on_seen(void *owner, uint32_t from, const tt_send *send)
{
    simulation *run = owner;
    if (run->options->is_verbose) {
        const tt_head *head = send->head;
        printf("%12llu us %u -> %u kind %u set %u op %llu stage %u lane %u round %u bytes %u "
               "flags %u argument %llu\n",
               (unsigned long long)(tt_sim_now(run->sim) / 1000), from, send->peer, head->kind,
               head->set, (unsigned long long)head->op, head->stage, head->lane, head->round,
               head->payload_bytes, head->flags, (unsigned long long)head->argument);
    }
    if (send->head->epoch != EPOCH || !tt_sim_is_alive(run->sim, from)) {
        return;
    }
    if (run->what->has_duplicates) {
        duplicate(run, from, send);
    }
    if (!run->what->has_stale || tt_random_below(&run->random, 8) != 0) {
        return;
    }
    tt_head head = *send->head;
    head.epoch = tt_sim_now(run->sim) % 2 == 0 ? EPOCH - 1 : EPOCH + 1;
    head.flags &= (uint8_t)~TT_FLAG_EAGER;
    head.op += tt_random_below(&run->random, 2);
    uint8_t *garbage = malloc((size_t)head.payload_bytes + 1);
    TT_ASSERT(garbage != NULL);
    memset(garbage, 0x3f, (size_t)head.payload_bytes + 1);
    const tt_send stale = {.peer = send->peer, .payload = garbage, .head = &head};
    tt_sim_forge(run->sim, from, &stale);
    free(garbage);
}

/* ---- faults ---- */

static void kill_rank(simulation *run, uint32_t rank)
{
    if (!run->ranks[rank].has_left) {
        run->ranks[rank].is_dead = true;
        tt_sim_kill(run->sim, rank);
    }
}

static void fault_apply(simulation *run, const scenario_fault *fault)
{
    const scenario *what = run->what;
    const uint64_t until = fault->at_ns + fault->duration_ns;
    switch (fault->kind) {
    case FAULT_KILL:
        kill_rank(run, fault->a);
        break;
    case FAULT_STOP:
        tt_sim_stop(run->sim, fault->a, until);
        break;
    case FAULT_CUT:
        tt_sim_cut(run->sim, fault->a, fault->b, until);
        break;
    case FAULT_SEVER:
        run->ranks[fault->a].is_severed = run->ranks[fault->b].is_severed = true;
        if (what->sim.has_views && what->host_of[fault->a] == what->host_of[fault->b]) {
            run->ranks[fault->a].is_parted = run->ranks[fault->b].is_parted = true;
        }
        tt_sim_sever(run->sim, fault->a, fault->b);
        break;
    case FAULT_KIND_COUNT:
        break;
    }
}

static const scenario_fault *next_fault(const scenario *what, uint32_t *done)
{
    const scenario_fault *first = NULL;
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < what->fault_count; i++) {
        if ((*done >> i & 1) == 0 && (first == NULL || what->faults[i].at_ns < first->at_ns)) {
            first = &what->faults[i];
            chosen = i;
        }
    }
    if (first != NULL) {
        *done |= UINT32_C(1) << chosen;
    }
    return first;
}

/* ---- the run ---- */

static bool is_finished(const simulation *run)
{
    for (uint32_t i = 0; i < run->what->size; i++) {
        if (!run->ranks[i].is_dead && run->ranks[i].unfinished > 0) {
            return false;
        }
    }
    return true;
}

static void report_hang(simulation *run)
{
    for (uint32_t i = 0; i < run->what->size; i++) {
        if (!run->ranks[i].is_dead && run->ranks[i].is_ending) {
            run_fault(run, "rank %u never ended a step", i);
        }
    }
    for (uint32_t i = 0; i < run->slot_count; i++) {
        const call_slot *slot = &run->slots[i];
        if (!run->ranks[slot->rank].is_dead && slot->finished_count == 0) {
            const char *state = slot->is_submitted ? "submitted" : "not submitted";
            run_fault(run, "call %u of rank %u never ended (%s)", slot->call_index, slot->rank,
                      state);
            if (run->options->is_verbose) { /* the first alone seldom shows the deadlock */
                printf("call %u of rank %u never ended (%s%s)\n", slot->call_index, slot->rank,
                       slot->is_join ? "join, " : "", state);
            }
        }
    }
}

static uint64_t heal_time(const scenario *what)
{
    uint64_t heal = 0;
    for (uint32_t i = 0; i < what->fault_count; i++) {
        heal = tt_max_u64(heal, what->faults[i].at_ns + what->faults[i].duration_ns);
    }
    const uint64_t work = what->is_named ? what->call_count * SECONDS : 0; /* lossy, in 64 bytes */
    return heal + what->gap_ns * what->call_count + work;
}

static void drive(simulation *run)
{
    const run_options *options = run->options;
    const uint64_t give_up = heal_time(run->what) + 60 * SECONDS;
    uint32_t done = 0;
    const scenario_fault *fault = next_fault(run->what, &done);
    while (run->result.is_good && !is_finished(run)) {
        if (fault != NULL && tt_sim_now(run->sim) >= fault->at_ns) {
            fault_apply(run, fault);
            fault = next_fault(run->what, &done);
            continue;
        }
        if (options->kill_at_event > 0 && tt_sim_events(run->sim) >= options->kill_at_event &&
            !run->ranks[options->kill_rank].is_dead) {
            kill_rank(run, options->kill_rank);
        }
        if (!tt_sim_step(run->sim) || tt_sim_now(run->sim) > give_up ||
            tt_sim_events(run->sim) > EVENTS_MAX) {
            report_hang(run);
        }
    }
    run->result.simulated_ns = tt_sim_now(run->sim);
    /* Frames still in flight arrive now, and must do no harm. */
    tt_sim_run(run->sim, tt_sim_now(run->sim) + 5 * SECONDS);
}

static void clean_up(simulation *run)
{
    run->is_over = true;
    for (uint32_t i = 0; i < run->what->size; i++) {
        tt_control *control = run->ranks[i].control;
        if (tt_control_pending(control) > 0) {
            /* A rank that left may have waited until the others removed a set. */
            const bool may_wait = run->ranks[i].has_left && run->what->removes_sets;
            if (!run->ranks[i].is_dead && !may_wait && run->result.is_good) {
                run_fault(run, "rank %u still has requests", i);
            }
            tt_control_shut_down(control, TT_ERR_SHUT_DOWN, "swept up");
            tt_control_shut_down(control, TT_ERR_SHUT_DOWN, "swept up");
        }
        stepping_destroy(&run->ranks[i]);
        tt_control_destroy(control);
        coded_destroy(&run->ranks[i]);
    }
    slots_release(run);
    if (!tt_sim_destroy(run->sim)) {
        run_fault(run, "memory was left behind, or written after its release");
    }
}

run_result run_scenario(const scenario *what, const run_options *options)
{
    simulation run = {.what = what, .options = options, .result = {.is_good = true}};
    tt_sim_config network = what->sim;
    network.seed += options->salt * SALT_STRIDE;
    network.phantom_bytes = options->has_phantoms ? PHANTOM_BYTES : 0;
    tt_random_init(&run.random, what->seed + options->salt * SALT_STRIDE, 79);
    run.sim = tt_sim_create(&network);
    tt_sim_watch(run.sim, (tt_sim_spy){.owner = &run, .seen = on_seen});
    for (uint32_t i = 0; i < what->size; i++) {
        rank_create(&run, i);
    }
    slots_make(&run);
    if (what->starve_after > 0) {
        tt_sim_starve(run.sim, what->starve_after, what->starve_further);
    }
    for (uint32_t i = 0; i < what->size; i++) {
        run.ranks[i].is_pump_due = true;
        tt_sim_call(run.sim, i, 1 + tt_random_below(&run.random, 1000), slot_pump, &run.ranks[i]);
    }
    drive(&run);
    if (run.result.is_good) {
        judge_calls(&run);
    }
    if (run.result.is_good && !options->has_phantoms) {
        judge_coded(&run);
        judge_poison(&run);
    }
    run.result.hash = tt_sim_hash(run.sim);
    run.result.bits_hash = tt_hash64(run.bits, sizeof(run.bits), 0);
    run.result.event_count = tt_sim_events(run.sim);
    clean_up(&run);
    return run.result;
}
