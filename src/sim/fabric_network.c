/* SPDX-License-Identifier: Apache-2.0
 *
 * fabric_network.c - see fabric_network.h. */
#include "sim/fabric_network.h"

#include "base/assert.h"
#include "base/base.h"

static tt_fabric_network *network_of(tt_sim_network *network)
{
    return TT_CONTAINER_OF(network, tt_fabric_network, base);
}

static const tt_fabric *fabric_of(const tt_sim_network *network)
{
    return ((const tt_fabric_network *)(const void *)network)->fabric;
}

static tt_fabric_frame fabric_frame(const tt_sim_frame *frame)
{
    return (tt_fabric_frame){
        .source = frame->source, .target = frame->target, .bytes = frame->bytes};
}

static tt_fabric_traffic *traffic_of(tt_fabric_network *self, const tt_sim_frame *frame)
{
    return &self->levels[tt_fabric_level_of(&self->fabric->config, frame->source, frame->target)];
}

static uint32_t network_card(const tt_sim_network *network, uint32_t source, uint32_t target)
{
    return tt_fabric_card(&fabric_of(network)->config, source, target);
}

static tt_sim_departure network_send(tt_sim_network *network, const tt_sim_frame *frame,
                                     uint64_t at_ns)
{
    tt_fabric_network *self = network_of(network);
    const tt_fabric_frame sent = fabric_frame(frame);
    const tt_departure departure = self->fabric->ops->send(self->fabric, &sent, at_ns);
    tt_fabric_traffic *traffic = traffic_of(self, frame);
    traffic->frames_sent++;
    traffic->bytes_sent += frame->bytes;
    return (tt_sim_departure){.released_ns = departure.released_ns,
                              .free_ns = departure.free_ns,
                              .head_ns = departure.head_ns};
}

static bool network_pass(tt_sim_network *network, const tt_sim_frame *frame, uint32_t hop,
                         uint64_t *at_ns_io)
{
    tt_fabric_network *self = network_of(network);
    const tt_fabric_frame passing = fabric_frame(frame);
    if (!self->fabric->ops->pass(self->fabric, &passing, hop, at_ns_io)) {
        return false;
    }
    tt_fabric_traffic *traffic = traffic_of(self, frame);
    traffic->frames_received++;
    traffic->bytes_received += frame->bytes;
    return true;
}

static uint64_t network_overhead(const tt_sim_network *network, uint32_t bytes)
{
    return tt_fabric_overhead(fabric_of(network), bytes);
}

static uint64_t network_work(tt_sim_network *network, uint32_t rank, tt_spend_kind kind,
                             uint64_t bytes, uint64_t at_ns)
{
    tt_fabric *fabric = network_of(network)->fabric;
    const tt_fabric_work work = kind == TT_SPEND_REDUCE ? TT_FABRIC_REDUCE : TT_FABRIC_COPY;
    return fabric->ops->work(fabric, rank, work, bytes, at_ns);
}

static const tt_sim_network_ops network_ops = {
    .card = network_card,
    .send = network_send,
    .pass = network_pass,
    .overhead = network_overhead,
    .work = network_work,
};

void tt_fabric_network_init(tt_fabric_network *network, tt_fabric *fabric)
{
    TT_ASSERT(fabric != NULL);
    *network = (tt_fabric_network){.base = {.ops = &network_ops,
                                            .card_count = tt_fabric_card_count(&fabric->config),
                                            .is_private = fabric->is_private},
                                   .fabric = fabric};
}
