/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_internal.h - what the files of the simulated driver share.
 *
 * sim.c ranks and the platform's table | sim_event.c the heap of events and what they do |
 * sim_network.c links, parcels, wires | sim_card.c cards of a model | sim_engine.c an outside
 * engine | sim_fault.c kills, stops, cuts.
 *
 * Layer:   platform; private to sim*.c.
 * Threads: one at a time.
 * Memory:  see sim.h.
 */
#ifndef TUTTI_PLATFORM_SIM_INTERNAL_H
#define TUTTI_PLATFORM_SIM_INTERNAL_H

#include "base/philox.h"
#include "platform/local.h"
#include "platform/sim.h"

typedef struct tt_sim_link tt_sim_link;
typedef struct tt_sim_card tt_sim_card;
typedef struct tt_sim_orders tt_sim_orders;

typedef enum tt_sim_event_kind {
    TT_SIM_DEPART,  /* link: the wire is free again */
    TT_SIM_ARRIVE,  /* parcel */
    TT_SIM_PAYLOAD, /* parcel, its second half */
    TT_SIM_SENT,    /* rank, token */
    TT_SIM_TIMER,   /* rank */
    TT_SIM_WORK,    /* rank: step */
    TT_SIM_PEER,    /* upcall `peer` of rank about peer */
    TT_SIM_CALL,    /* rank, call */
    TT_SIM_CARD,    /* card: it may take a frame */
    TT_SIM_HOP,     /* parcel: its first byte is at a link */
    TT_SIM_LANDED,  /* rank, token: an engine's */
    TT_SIM_FREE,    /* rank: an event that waits for it is next */
} tt_sim_event_kind;

typedef struct tt_sim_event {
    size_t place;              /* in the heap, from 1 (TT_SIM_SOMEWHERE: not known which); 0: not
                                  in it, or not first of its train */
    struct tt_sim_event *next; /* in the free list, in its train, or at its rank */
    struct tt_sim_event *last; /* of a train's first: its last, if there are others */
    uint32_t behind;           /* of a train's first: others */
    tt_sim_event_kind kind;
    uint32_t rank, peer;
    uint64_t token;
    tt_parcel *parcel; /* NULL: it is of another kind */
    tt_sim_link *link;
    union {
        struct { /* CALL */
            tt_sim_call_fn *call;
            void *argument;
        };
        struct { /* PEER */
            const char *why;
            tt_peer_event peer_event;
        };
        tt_sim_card *card;
    };
} tt_sim_event;

#define TT_SIM_SOMEWHERE SIZE_MAX

/* An event in the heap, with what the order needs. */
typedef struct tt_sim_due {
    uint64_t at;
    uint64_t sequence;
    tt_sim_event *event;
    bool has_place; /* it may be moved or dropped: the event keeps its place */
} tt_sim_due;

/* One direction between two ranks. */
struct tt_sim_link {
    uint32_t from, to;
    tt_parcel *queue;    /* most urgent first */
    bool is_busy;        /* a departure is due */
    uint64_t free_at;    /* of the wire */
    bool is_down;        /* DOWN is due or was delivered to `to`: nothing more arrives */
    bool has_said_down;  /* DOWN was delivered to `to` */
    uint32_t under_way;  /* parcels on the wire or half arrived */
    tt_parcel *arriving; /* long frame, half of it arrived */
    uint64_t held_until; /* cut */
    uint64_t latest;     /* arrival of the latest parcel, to keep order */
    /* With a model of the network: */
    tt_sim_card *card;
    tt_sim_link *next; /* at the card */
    bool is_waiting;   /* it is in the card's list */
};

/* A card of the model, and the links that have frames for it. */
struct tt_sim_card {
    tt_sim_link *first, *last; /* in turn */
    uint64_t free_at;
    uint64_t due_at;   /* of `due` */
    tt_sim_event *due; /* its CARD; NULL: none */
};

typedef enum tt_sim_life { TT_SIM_ALIVE, TT_SIM_KILLED, TT_SIM_LEFT } tt_sim_life;

typedef struct tt_sim_rank {
    tt_platform base; /* first */
    tt_sim *sim;
    uint32_t rank;
    tt_sim_life life;
    tt_machine machine;
    bool has_machine;
    bool is_stepping; /* a WORK event is due */
    uint64_t now;     /* of the upcall in progress */
    uint64_t busy_until;
    uint64_t stopped_until;
    tt_sim_event *timer;
    tt_sim_event *waiting, *waiting_last; /* until it is free, with a model of the network */
    tt_local local;
    uint64_t phantom_bytes; /* of those in `local` */
    tt_random random;
} tt_sim_rank;

struct tt_sim {
    tt_sim_config config;
    uint32_t *host_of;
    tt_random random;
    tt_local_shortage shortage;
    uint8_t *phantom; /* addresses without memory; NULL: none */
    uint64_t phantom_bytes;
    tt_sim_due *due; /* a heap of four children each: those of i are 4 i + 1 to 4 i + 4 */
    size_t due_count, due_capacity;
    tt_sim_event *events_free;
    uint64_t events_made;  /* in the heap or free */
    tt_sim_event *put_off; /* the train deferred last; NULL: other events were added since */
    uint64_t put_off_end;  /* sequence after its last */
    uint64_t sequence;
    uint64_t now;
    uint64_t event_count;
    uint64_t hash;
    tt_sim_rank *ranks;
    tt_sim_link **links; /* open hashing by (from, to) */
    size_t link_count, link_capacity;
    bool has_gone;         /* DOWN or LEFT was delivered somewhere */
    tt_sim_card *cards;    /* [network->card_count]; NULL: wires */
    tt_sim_orders *orders; /* the engine's; NULL: none */
    tt_sim_spy spy;
};

/* sim_event.c */
tt_sim_event *tt_sim_event_add(tt_sim *sim, tt_sim_event_kind kind, uint32_t rank, uint64_t at);
void tt_sim_event_move(tt_sim *sim, tt_sim_event *event, uint64_t at);
void tt_sim_event_drop(tt_sim *sim, tt_sim_event *event);
void tt_sim_events_fini(tt_sim *sim);
/* Drop `sent` of (rank, peer, token), or all to `peer` if `is_all`. */
void tt_sim_sent_forget(tt_sim *sim, const tt_sim_event *like, bool is_all);

/* sim_network.c */
tt_sim_link *tt_sim_link_of(tt_sim *sim, uint32_t from, uint32_t to);
/* NULL: never used. */
tt_sim_link *tt_sim_link_find(const tt_sim *sim, uint32_t from, uint32_t to);
void tt_sim_links_fini(tt_sim *sim);
tt_status tt_sim_link_send(tt_sim *sim, uint32_t from, const tt_send *send);
tt_status tt_sim_link_post(tt_sim *sim, uint32_t from, const tt_send *send);
void tt_sim_link_recall(tt_sim *sim, uint32_t from, uint32_t to, uint64_t token);
void tt_sim_link_depart(tt_sim *sim, tt_sim_link *link);
void tt_sim_link_arrive(tt_sim *sim, tt_sim_event *event);
void tt_sim_link_complete(tt_sim *sim, tt_sim_event *event);
/* Drop queued parcels. */
void tt_sim_link_empty(tt_sim *sim, tt_sim_link *link);

/* Put the parcel into the queue of its link, by urgency and age. */
void tt_sim_link_enqueue(tt_sim_link *link, tt_parcel *parcel);
/* `parcel` is on its way to the rank of `event`, which is made for it. */
tt_sim_event *tt_sim_link_launch(tt_sim *sim, tt_sim_link *link, tt_parcel *parcel,
                                 tt_sim_event_kind kind, uint64_t at);

/* sim_card.c */
void tt_sim_cards_init(tt_sim *sim);
/* A parcel was put into the queue of the link. */
void tt_sim_card_offer(tt_sim *sim, tt_sim_link *link, const tt_parcel *parcel);
void tt_sim_card_serve(tt_sim *sim, tt_sim_card *card);
/* The first byte of the event's parcel is at a link: moves the event. */
void tt_sim_card_pass(tt_sim *sim, tt_sim_event *event);
static inline tt_sim_frame tt_sim_frame_of(const tt_parcel *parcel)
{
    return (tt_sim_frame){
        .source = parcel->from, .target = parcel->send.peer, .bytes = parcel->head.payload_bytes};
}

/* sim_engine.c */
void tt_sim_orders_create(tt_sim *sim);
void tt_sim_orders_destroy(tt_sim *sim);
bool tt_sim_can_launch(const tt_sim *sim, const tt_launch *launch);
/* The rank launches at `at`. */
void tt_sim_launch(tt_sim *sim, uint32_t rank, const tt_launch *launch, uint64_t at);

/* sim_fault.c */
/* Deliver the peer event to event->rank once all frames have arrived; true: the event is done. */
bool tt_sim_peer_told(tt_sim *sim, tt_sim_event *event);

#endif
