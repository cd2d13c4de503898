/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_engine.c - a modelled outside engine: launches are matched as by the toy engine, and land
 * when the model says. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/dtype.h"
#include "platform/sim_internal.h"
#include "platform/toy_engine.h"

/* The launches of one set. */
typedef struct order {
    struct order *next;
    uint32_t set, size;
    uint64_t over_at;   /* the last op that all have launched */
    uint64_t op_count;  /* ops of that kind */
    uint64_t *launched; /* [size] ops of each member */
    uint64_t *latest;   /* [open_max] of ops that some have launched: the latest launch */
    uint64_t open_max;  /* op i is at i % open_max */
} order;

struct tt_sim_orders {
    tt_toy_engine *engine;
    tt_toy_engine_landing *landings; /* [size] */
    order *first;
};

void tt_sim_orders_create(tt_sim *sim)
{
    if (sim->config.engine.collective_ns != NULL) {
        sim->orders = tt_local_take(sizeof(*sim->orders));
        sim->orders->engine = tt_toy_engine_create(&sim->ranks[0].base);
        sim->orders->landings = tt_local_take(sim->config.size * sizeof(tt_toy_engine_landing));
    }
}

void tt_sim_orders_destroy(tt_sim *sim)
{
    if (sim->orders == NULL) {
        return;
    }
    while (sim->orders->first != NULL) {
        order *gone = sim->orders->first;
        sim->orders->first = gone->next;
        free(gone->launched);
        free(gone->latest);
        free(gone);
    }
    tt_toy_engine_destroy(sim->orders->engine);
    free(sim->orders->landings);
    free(sim->orders);
}

static uint64_t collective_ns(const tt_sim *sim, const tt_launch *launch)
{
    const tt_sim_engine *engine = &sim->config.engine;
    const tt_sim_collective what = {.collective = launch->collective,
                                    .dtype = launch->dtype,
                                    .redop = launch->redop,
                                    .set = launch->set,
                                    .member_count = launch->size,
                                    .bytes = launch->count * tt_dtype_bytes(launch->dtype)};
    return engine->collective_ns(engine->owner, &what);
}

bool tt_sim_can_launch(const tt_sim *sim, const tt_launch *launch)
{
    return collective_ns(sim, launch) < UINT64_MAX;
}

static order *order_of(tt_sim_orders *orders, const tt_launch *launch)
{
    order **link = &orders->first;
    while (*link != NULL && (*link)->set != launch->set) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        *link = tt_local_take(sizeof(**link));
        (*link)->set = launch->set;
        (*link)->size = launch->size;
        (*link)->launched = tt_local_take(launch->size * sizeof(uint64_t));
    }
    TT_ASSERT((*link)->size == launch->size);
    return *link;
}

/* Room for the latest launch of op `number`. */
static void reserve(order *own, uint64_t number)
{
    if (number - own->op_count < own->open_max) {
        return;
    }
    const uint64_t larger = own->open_max > 0 ? 2 * own->open_max : 16;
    uint64_t *latest = tt_local_take(larger * sizeof(*latest));
    for (uint64_t i = own->op_count; i < own->op_count + own->open_max; i++) {
        latest[i % larger] = own->latest[i % own->open_max];
    }
    free(own->latest);
    own->latest = latest;
    own->open_max = larger;
}

void tt_sim_launch(tt_sim *sim, uint32_t rank, const tt_launch *launch, uint64_t at)
{
    tt_sim_orders *orders = sim->orders;
    order *own = order_of(orders, launch);
    const uint64_t number = own->launched[launch->self]++;
    TT_ASSERT(number >= own->op_count);
    reserve(own, number);
    uint64_t *latest = &own->latest[number % own->open_max];
    *latest = tt_max_u64(*latest, at);
    const uint32_t count = tt_toy_engine_launch(orders->engine, rank, launch, orders->landings);
    if (count == 0) {
        return;
    }
    TT_ASSERT(number == own->op_count); /* all have launched it, and all ops before it */
    own->over_at = tt_max_u64(own->over_at, *latest) + collective_ns(sim, launch);
    own->op_count++;
    *latest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const tt_toy_engine_landing *landing = &orders->landings[i];
        tt_sim_event_add(sim, TT_SIM_LANDED, landing->rank, own->over_at)->token = landing->token;
    }
}
