/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.h - the simulated cluster: ranks, links and faults as seeded discrete events.
 *
 * Every rank has a clock that upcalls and local work advance. Every pair has a link per direction
 * with a queue in which urgency overtakes, and a wire of its own with latency, bandwidth and
 * jitter; or a model of the network (tt_sim_network) says when frames depart and arrive. The same
 * seed and calls give the same events, which `tt_sim_hash` proves.
 *
 * Calls into a machine (submit) are made from a call event, so that they happen at the rank's own
 * time and never inside another upcall.
 *
 * Layer:   platform.
 * Threads: one at a time.
 * Memory:  malloc; links when first used, events from a free list.
 */
#ifndef TUTTI_PLATFORM_SIM_H
#define TUTTI_PLATFORM_SIM_H

#include "platform/platform.h"

typedef struct tt_sim tt_sim;

/* How many of 1000 frames are disturbed, and how. */
typedef struct tt_sim_noise {
    uint32_t spike;     /* late by up to spike_ns */
    uint32_t drop;      /* lost and sent again: late by resend_ns */
    uint32_t reorder;   /* overtakes frames sent before it */
    uint32_t duplicate; /* arrives twice: breaks promise (2) of platform.h; machines must cope */
    uint64_t spike_ns, resend_ns;
} tt_sim_noise;

typedef struct tt_sim_frame {
    uint32_t source, target;
    uint32_t bytes; /* payload */
} tt_sim_frame;

typedef struct tt_sim_departure {
    uint64_t released_ns; /* the payload is off the card: it is the sender's again */
    uint64_t free_ns;     /* the card can take the next frame */
    uint64_t head_ns;     /* the first byte is at the next link */
} tt_sim_departure;

typedef struct tt_sim_network tt_sim_network;

/* A model of what connects the ranks, in place of wires. It is asked in the order of times,
 * `at_ns`, except as is_private allows. Every slot is required.
 *
 * Frames wait at their link, most urgent first and then by age, as in jobs, until the card that
 * serves the link is free. Then it takes the first frame of one link: links that have frames take
 * turns. So an urgent frame overtakes all others of its link, and waits for at most one frame of
 * each other link. What has left a card is overtaken no more. */
typedef struct tt_sim_network_ops {
    /* Which card takes the frames of a link, below card_count. */
    uint32_t (*card)(const tt_sim_network *network, uint32_t source, uint32_t target);
    /* The card, which is free, takes a frame. */
    tt_sim_departure (*send)(tt_sim_network *network, const tt_sim_frame *frame, uint64_t at_ns);
    /* The first byte is at link `hop`, from 1. True: it was the last one, and the frame is in
     * memory at *at_ns_io; false: the first byte is then at the next link. */
    bool (*pass)(tt_sim_network *network, const tt_sim_frame *frame, uint32_t hop,
                 uint64_t *at_ns_io);
    /* Time of the processor for a frame, at each of its ends. */
    uint64_t (*overhead)(const tt_sim_network *network, uint32_t bytes);
    /* When the rank has added or copied so many bytes, from `at_ns` on. Work of an upcall may be
     * asked for ahead of other ranks' times. */
    uint64_t (*work)(tt_sim_network *network, uint32_t rank, tt_spend_kind kind, uint64_t bytes,
                     uint64_t at_ns);
} tt_sim_network_ops;

/* Models embed it as their first member. */
struct tt_sim_network {
    const tt_sim_network_ops *ops;
    uint32_t card_count;
    bool is_private; /* a card serves one rank alone: `send` may be asked ahead of others' times */
};

/* A whole collective, as the model of an outside engine sees it. */
typedef struct tt_sim_collective {
    uint8_t collective, dtype, redop; /* as in tt_launch */
    uint32_t set, member_count;
    uint64_t bytes; /* of the elements that the call counts: of a gather, one member's */
} tt_sim_collective;

/* A model of an outside engine. Each order of launches (tt_launch.set) runs one op after the other:
 * an op begins when all members have launched it and the one before is over. */
typedef struct tt_sim_engine {
    const void *owner;
    /* How long it takes; UINT64_MAX: the engine cannot run it, whatever its length. NULL: there is
     * no engine. */
    uint64_t (*collective_ns)(const void *owner, const tt_sim_collective *what);
} tt_sim_engine;

typedef struct tt_sim_config {
    uint32_t size;
    uint64_t seed;
    const uint32_t *host_of; /* [size], or NULL: one host; copied */
    bool has_views;          /* ranks of one host have views of each other's regions */
    /* NULL: wires. Outlives the simulation. With it, latency, jitter, speeds of wires and work,
     * borrow, post and noise have no meaning: every payload is borrowed until it is off the card,
     * and an upcall costs upcall_ns, that of a frame its overhead. */
    tt_sim_network *network;
    tt_sim_engine engine;
    uint64_t latency_ns, local_latency_ns;
    uint64_t jitter_ns;
    uint64_t bytes_per_us, local_bytes_per_us;
    uint64_t upcall_ns;         /* cost of one upcall */
    uint64_t work_bytes_per_us; /* of copies and sums */
    uint64_t code_bytes_per_us; /* of values that are encoded or decoded */
    uint64_t detect_ns;         /* until an exit is detected */
    uint64_t silence_ns;        /* until a stopped rank is reported silent */
    uint32_t borrow;            /* of 1000 payloads, borrowed until they are on the wire */
    uint32_t post;              /* of 1000 frames to a whole host, accepted; 0: always refused */
    tt_sim_noise noise;
    uint64_t phantom_bytes; /* room for callers' phantom buffers, of each kind; 0: none */
    uint64_t fail_at;       /* this allocation of the machines fails, from 1; 0: none */
} tt_sim_config;

/* A plain cluster without faults; set size and seed. */
void tt_sim_config_init(tt_sim_config *config);

tt_sim *tt_sim_create(const tt_sim_config *config);
/* Machines must have been destroyed. False: memory left behind, or a region written to after its
 * release. */
bool tt_sim_destroy(tt_sim *sim);

/* Where callers' phantom buffers of this kind begin; the same address for every rank, which may use
 * it for several buffers. */
uint8_t *tt_sim_phantom(const tt_sim *sim, tt_memory_kind kind);

tt_platform *tt_sim_platform(tt_sim *sim, uint32_t rank);
void tt_sim_attach(tt_sim *sim, uint32_t rank, tt_machine machine);

/* Call `call(argument)` as rank `rank` at `at_ns`, or as soon after as it runs. */
typedef void tt_sim_call_fn(void *argument);
void tt_sim_call(tt_sim *sim, uint32_t rank, uint64_t at_ns, tt_sim_call_fn *call, void *argument);

/* One event; false: there is none left. */
bool tt_sim_step(tt_sim *sim);
/* Events until nothing is left or the next one is later than `until_ns`. */
void tt_sim_run(tt_sim *sim, uint64_t until_ns);

uint64_t tt_sim_now(const tt_sim *sim);
/* When the rank has done what it was called for and has spent so far. */
uint64_t tt_sim_free_at(const tt_sim *sim, uint32_t rank);
/* What machines and driver hold, without frames under way; phantom memory is none. */
uint64_t tt_sim_bytes(const tt_sim *sim);
uint64_t tt_sim_events(const tt_sim *sim);
uint64_t tt_sim_hash(const tt_sim *sim);
uint64_t tt_sim_allocations(const tt_sim *sim);
/* The machines' allocation after `count` more fails, and the next `further` ones of the same rank;
 * in place of config.fail_at. */
void tt_sim_starve(tt_sim *sim, uint64_t count, uint64_t further);
/* While `is_fed`, no allocation fails: for the caller's own. */
void tt_sim_feed(tt_sim *sim, bool is_fed);
/* Has an allocation failed? */
bool tt_sim_has_starved(const tt_sim *sim);
/* One of this rank's? */
bool tt_sim_is_starved(const tt_sim *sim, uint32_t rank);
uint64_t tt_sim_live_allocations(const tt_sim *sim, uint32_t rank);

/* ---- faults, now ---- */

/* The process is gone: no more upcalls. Frames on the wire still arrive, except that a long frame
 * may be cut in the middle; then the others get DOWN. */
void tt_sim_kill(tt_sim *sim, uint32_t rank);
/* It leaves in order: its frames still arrive, then LEFT. Its machine gets no more upcalls. */
void tt_sim_leave(tt_sim *sim, uint32_t rank);
/* No upcalls until then; others get SILENT and BACK. */
void tt_sim_stop(tt_sim *sim, uint32_t rank, uint64_t until_ns);
/* Frames between the two are held until then. */
void tt_sim_cut(tt_sim *sim, uint32_t a, uint32_t b, uint64_t until_ns);
/* The link between the two is lost for good: both get DOWN. */
void tt_sim_sever(tt_sim *sim, uint32_t a, uint32_t b);

bool tt_sim_is_alive(const tt_sim *sim, uint32_t rank);

/* For tests of how machines treat untrusted bytes: send a frame as if from `from`. The payload is
 * copied. */
void tt_sim_forge(tt_sim *sim, uint32_t from, const tt_send *send);

/* Called for every frame that is announced; may be NULL. */
typedef struct tt_sim_spy {
    void *owner;
    void (*seen)(void *owner, uint32_t from, const tt_send *send);
} tt_sim_spy;

void tt_sim_watch(tt_sim *sim, tt_sim_spy spy);

#endif
