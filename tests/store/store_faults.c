/* SPDX-License-Identifier: Apache-2.0
 *
 * store_faults.c - what plays of stores share: faults, and a machine without collectives; see
 * store_run.h. */
#include "base/base.h"
#include "store/store_run.h"

/* ---- the machine that sync wraps: there are no collectives here ---- */

static void *no_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    (void)machine, (void)peer, (void)head, (void)payload;
    return NULL;
}

static void no_payload(void *machine, uint32_t peer, const tt_head *head)
{
    (void)machine, (void)peer, (void)head;
}

static void no_sent(void *machine, uint64_t token)
{
    (void)machine, (void)token;
}

static void no_timer(void *machine)
{
    (void)machine;
}

static void no_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    (void)machine, (void)peer, (void)event, (void)why;
}

static bool no_step(void *machine)
{
    (void)machine;
    return false;
}

static const tt_machine_ops nothing = {.frame = no_frame,
                                       .payload = no_payload,
                                       .sent = no_sent,
                                       .timer = no_timer,
                                       .peer = no_peer,
                                       .step = no_step};

tt_machine store_no_collectives(void)
{
    return (tt_machine){.ops = &nothing};
}

/* ---- faults ---- */

static void apply_fault(const scene *drawn, const fault *one, tt_sim *sim, damage *done)
{
    const uint64_t until_ns = tt_max_u64(one->until_ns, tt_sim_now(sim) + 1);
    if (done->is_killed[one->rank] || (one->kind >= FAULT_CUT && done->is_killed[one->other])) {
        return;
    }
    switch (one->kind) {
    case FAULT_KILL:
        done->is_killed[one->rank] = true;
        done->killed++;
        done->killed_servers += one->rank >= drawn->workers ? 1 : 0;
        tt_sim_kill(sim, one->rank);
        break;
    case FAULT_STOP:
        tt_sim_stop(sim, one->rank, until_ns);
        break;
    case FAULT_CUT:
        tt_sim_cut(sim, one->rank, one->other, until_ns);
        break;
    case FAULT_SEVER:
        done->is_severed[one->rank] = done->is_severed[one->other] = true;
        done->severed++;
        tt_sim_sever(sim, one->rank, one->other);
        break;
    case FAULT_KIND_COUNT:
        break;
    }
}

void scene_apply_faults(const scene *drawn, tt_sim *sim, damage *done)
{
    for (uint32_t i = 0; i < drawn->faults; i++) {
        if (!done->is_applied[i] && tt_sim_now(sim) >= drawn->fault[i].at_ns) {
            done->is_applied[i] = true;
            apply_fault(drawn, &drawn->fault[i], sim, done);
        }
    }
}
