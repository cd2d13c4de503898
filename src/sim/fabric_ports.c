/* SPDX-License-Identifier: Apache-2.0
 *
 * fabric_ports.c - every card serves frame by frame, and nothing else is busy: LogGOPS.
 *
 * The model of Alexandrov et al. (LogGP, 1995) and Hoefler et al. (LogGOPSim, 2010): a frame of n
 * bytes occupies its sender's card for g + n G from when that is free, its first byte is at the
 * target's card L later and occupies that one for g + n G. So a frame between idle ranks takes
 * L + n G, and o + n O of the processor at both ends, which is the caller's. S, from which on
 * frames wait for their receiver, are the grants of moves.c. Between ranks of a host frames pass a
 * card of the rank's own, at the speed of that level.
 */
#include "sim/fabric_internal.h"
#include "sim/registry.h"

typedef struct ports {
    tt_fabric base;
    tt_cards cards;
} ports;

static ports *ports_of(tt_fabric *fabric)
{
    TT_DEBUG_ASSERT(fabric->ops == &tt_fabric_ports);
    return TT_CONTAINER_OF(fabric, ports, base);
}

static uint64_t ports_bytes(const tt_fabric_config *config)
{
    return sizeof(ports) + tt_cards_bytes(config);
}

static tt_status ports_create(const tt_fabric_config *config, const tt_allocator *allocator,
                              tt_fabric **fabric_out)
{
    ports *self = tt_allocate(allocator, 1, sizeof(*self));
    if (self == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    self->base = (tt_fabric){.ops = &tt_fabric_ports,
                             .allocator = allocator,
                             .config = *config,
                             .is_private = config->ranks_per_host == 1};
    const tt_status status = tt_cards_init(&self->cards, config, allocator);
    if (status != TT_OK) {
        tt_release(allocator, self, 1, sizeof(*self));
        return status;
    }
    *fabric_out = &self->base;
    return TT_OK;
}

static void ports_destroy(tt_fabric *fabric)
{
    ports *self = ports_of(fabric);
    const tt_allocator *allocator = fabric->allocator;
    tt_cards_fini(&self->cards, allocator);
    tt_release(allocator, self, 1, sizeof(*self));
}

static void ports_reset(tt_fabric *fabric)
{
    tt_cards_reset(&ports_of(fabric)->cards);
}

static tt_departure ports_send(tt_fabric *fabric, const tt_fabric_frame *frame, uint64_t at_ns)
{
    return tt_card_send(&ports_of(fabric)->cards, &fabric->config, frame, at_ns);
}

static bool ports_pass(tt_fabric *fabric, const tt_fabric_frame *frame, uint32_t hop,
                       uint64_t *at_ns_io)
{
    TT_DEBUG_ASSERT(hop == 1);
    (void)hop;
    *at_ns_io = tt_card_receive(&ports_of(fabric)->cards, &fabric->config, frame, *at_ns_io);
    return true;
}

static uint64_t ports_work(tt_fabric *fabric, uint32_t rank, tt_fabric_work work, uint64_t bytes,
                           uint64_t at_ns)
{
    (void)rank;
    return at_ns + tt_work_ns(&fabric->config, work, bytes);
}

const tt_fabric_ops tt_fabric_ports = {
    .name = "ports",
    .bytes = ports_bytes,
    .create = ports_create,
    .destroy = ports_destroy,
    .reset = ports_reset,
    .send = ports_send,
    .pass = ports_pass,
    .work = ports_work,
};
