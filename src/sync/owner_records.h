/* SPDX-License-Identifier: Apache-2.0
 *
 * owner_records.h - what an owner keeps: stores, tensors, parts, slots, clocks; see store_owner.h.
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  as store_owner.h.
 */
#ifndef TUTTI_SYNC_OWNER_RECORDS_H
#define TUTTI_SYNC_OWNER_RECORDS_H

#include "base/heap.h"
#include "base/list.h"
#include "codec/codec.h"
#include "platform/platform.h"
#include "sync/clock.h"
#include "sync/split.h"
#include "sync/sync.h"
#include "sync/sync_policy.h"
#include "sync/sync_wire.h"
#include "sync/update.h"

enum { OWNER_BUCKETS = 256, OWNER_CLOCKS_MAX = 16, OWNER_SETS_MAX = 32 };

typedef struct tt_owner_store tt_owner_store;
typedef struct tt_owner_key tt_owner_key;
typedef struct tt_owner_part tt_owner_part;
typedef struct tt_relays tt_relays;

typedef enum tt_slot_phase {
    TT_SLOT_EMPTY,
    TT_SLOT_ARRIVING,
    TT_SLOT_FULL,
    TT_SLOT_CHOSEN, /* of a quorum: to be added next */
    TT_SLOT_SUMMED, /* being added */
} tt_slot_phase;

/* Of a push of rows: their numbers, or their values. */
typedef enum tt_half {
    TT_HALF_NONE,
    TT_HALF_ARRIVING,
    TT_HALF_HERE,
} tt_half;

/* What an answer is sent from: two versions of the value, or rows that were gathered in the slot.
 */
enum { TT_VERSION_ROWS = 2, TT_VERSION_COUNT };

/* What an owner has of one worker, of one part. */
typedef struct tt_slot {
    tt_owner_part *part;
    tt_slot_phase phase;
    bool is_answered;      /* the push in it wants the value */
    bool owes;             /* consumed; the answer has not been sent yet */
    bool owes_value;       /* with the value */
    bool is_uncounted;     /* consumed, but not applied: it was too late */
    bool is_pulled;        /* a pull waits, in store->pulls */
    bool is_lent[3];       /* a send has this version */
    bool is_declared;      /* of a part that is adopted: ADOPT has arrived, */
    bool is_repeat;        /* and a push will be that had been sent to the owner before, */
    uint64_t repeat_clock; /* of this iteration, */
    bool is_repeat_lost;   /* unless its sum is lost */
    uint64_t pushes;       /* of this worker that have arrived */
    uint64_t consumed;     /* of them */
    uint64_t clock;        /* of the push in it */
    bool has_read;         /* a value */
    uint64_t read_step;    /* sums in the value that this worker has read last */
    bool has_waited;       /* the pull was held back */
    uint64_t asked;        /* number of the request that pushed, */
    uint64_t pull_asked;   /* and of the one that pulls */
    uint64_t pull_clock;   /* iterations that must be complete */
    uint64_t pull_pushes;  /* of its own that must be applied */
    bool is_read;          /* a plane of the part is wanted: */
    uint32_t plane;        /* this one, */
    uint64_t plane_asked;  /* by this request */
    tt_list_node pull;
    bool is_rows;    /* the push in it, or the last one, is of rows (rows/rows.h) */
    bool pulls_rows; /* so is the pull that waits */
    tt_half numbers, values;
    uint32_t row_count, value_rows; /* of either */
    uint32_t ranks;                 /* of named sums: workers in the push, */
    uint64_t held; /* and sums that workers behind this relay have pushed to, as of HELD */
} tt_slot;

struct tt_owner_part {
    tt_owner_key *key;
    uint32_t index;  /* in sync->parts */
    uint32_t number; /* of the tensor's parts */
    uint64_t first, bytes;
    uint64_t push_bytes, answer_bytes; /* of frames: fewer than `bytes` if they are coded */
    uint8_t *memory;                   /* slots' data, two versions, state, residual */
    size_t memory_bytes;
    tt_slot *slots;     /* [workers] */
    uint8_t *values[2]; /* versions */
    uint8_t *reads;     /* [workers] what each has read last; NULL unless the update has dc */
    float *states[TT_UPDATE_STATES_MAX];
    float *residual;       /* of coded answers, or NULL */
    uint64_t *row_numbers; /* of a table, else NULL: [workers] of all rows of the part */
    uint8_t current;
    bool is_valid;          /* it has a value */
    bool is_first_arriving; /* the first value is */
    bool is_summing;
    bool is_adopting;        /* not every worker has declared what it has of it */
    uint32_t repeats;        /* of a quorum: pushes that are sent again, and have not arrived */
    bool is_late;            /* likewise: they are added, of iterations that have begun here */
    bool is_lost;            /* likewise: its value was that of an owner that is gone */
    uint64_t seen;           /* likewise: iterations up to the last one whose sum a worker has */
    uint64_t value_end;      /* of sums: iterations up to the one it is the sum of */
    uint32_t lent[3];        /* sends per version */
    uint32_t full;           /* slots that are FULL */
    uint32_t chosen;         /* slots that are CHOSEN */
    uint32_t sum_sources;    /* of the sum that is being computed */
    uint64_t sum_at;         /* bytes done */
    uint32_t sum_worker;     /* of a sum of one push: whose it is, */
    uint64_t sum_staleness;  /* and how stale */
    tt_update_spec sum_spec; /* with the options of its clock */
    uint64_t step;           /* sums made */
    int32_t urgency;         /* of the last push or pull */
    uint64_t age;
    tt_heap_node due;
    uint64_t sum_clock;  /* of the sum that is being computed: the latest iteration in it */
    uint32_t owner;      /* its rank */
    uint32_t sum_ranks;  /* of a named sum: workers in it */
    bool is_relay;       /* the part's pushes of this host go to its owner as one (sum_relay.h); */
    bool is_up;          /* then, such a push was sent, */
    bool is_up_lent;     /* the send has its value, */
    bool is_up_arriving; /* the answer is arriving there */
    uint64_t ups;        /* pushes sent */
    uint64_t held;       /* as of the last HELD that was sent */
};

/* What an owner knows of one worker, of one named sum. */
typedef struct tt_sum_member {
    bool has_moved;
    uint64_t moved; /* sums after which it took the next generation of the key */
} tt_sum_member;

struct tt_owner_key {
    tt_owner_key *next; /* in its bucket */
    tt_owner_store *store;
    uint64_t id;
    tt_sync_claim claim;
    uint32_t claim_from;    /* the worker that sent it first */
    bool *has_added;        /* [workers] */
    tt_sum_member *members; /* [workers] of a named sum, else NULL */
    uint64_t base;          /* then, hash of its name, for all generations */
    bool is_told;           /* workers were told that it is there */
    tt_status status;       /* negative: it has failed */
    uint64_t good;          /* then, of a named sum: sums before that */
    tt_owner_part *parts;   /* own ones */
    bool is_coded;          /* pushes are, and sums */
    uint32_t part_count;
    tt_owner_part **adopted; /* [adopted_capacity] from owners that are gone, ascending */
    uint32_t adopted_count, adopted_capacity;
    tt_owner_part *relayed; /* of named sums: those that this rank relays, ascending */
    uint32_t relayed_count;
    char error[TT_SYNC_TEXT_BYTES];
    char name[TT_SYNC_NAME_BYTES];
};

/* A name with calls that a worker had open when it joined. */
typedef struct tt_sum_busy tt_sum_busy;

struct tt_sum_busy {
    tt_sum_busy *next;
    uint64_t base;
    uint32_t joins;
    bool is_busy, is_idle; /* BUSY and IDLE have arrived */
    bool is_join;          /* no name, but a JOIN that has overtaken one; base: its argument */
};

/* An option that a worker is about to set: pushes from this clock on wait. */
typedef struct tt_owner_hold {
    uint64_t number; /* of the request */
    uint64_t clock;
    uint32_t option;
    float value;
    bool is_held;
} tt_owner_hold;

/* An option that has this value from a clock on. */
typedef struct tt_owner_entry {
    uint64_t clock;
    uint32_t option;
    float value;
} tt_owner_entry;

typedef struct tt_owner_set {
    uint64_t applied; /* pushes of clocks below may have been applied */
    uint32_t holds;   /* workers that hold back pushes */
    uint32_t count;
    tt_owner_entry entries[OWNER_SETS_MAX]; /* ascending; older ones are in store->update */
} tt_owner_set;

/* Of all parts of a store here. */
typedef struct tt_owner_tally {
    uint64_t dropped; /* frames that came twice, or that no worker could send */
    uint64_t staleness[TT_SYNC_STALENESS_MAX + 1];
} tt_owner_tally;

/* What an owner knows of one worker, of one store. */
typedef struct tt_owner_worker {
    bool has_opened, is_told, has_closed;
    uint32_t joins, forgotten; /* of named sums: as of JOIN and FORGET */
    uint64_t busy_wanted;      /* as of JOIN */
    uint64_t busy_count;       /* BUSY that have arrived */
    uint32_t busy_total;       /* in `busy` */
    tt_sum_busy *busy;         /* names of BUSY and IDLE, of joins that are not forgotten */
    bool asks;                 /* waits for its next iteration; of the keeper */
    uint64_t asks_clock;       /* that iteration */
    uint64_t arrived;          /* pushes */
    uint64_t consumed;         /* of them */
    uint64_t declared;         /* iterations completed, as far as is known */
    tt_owner_hold hold;
    uint32_t clock_count; /* iterations that were completed, with the pushes before their end */
    struct {
        uint64_t clock, pushes;
    } clocks[OWNER_CLOCKS_MAX];
} tt_owner_worker;

/* Iterations that K workers have completed. The keeper decides whose pushes count, and sends it to
 * all owners; each one closes iterations in their order, once the pushes that count have arrived.
 */
typedef struct tt_decision tt_decision;

struct tt_decision {
    tt_decision *next; /* ascending, or in the list of free ones */
    uint64_t iteration;
    uint8_t is_member[]; /* [workers] */
};

/* Of a worker's pushes of an iteration. */
typedef enum tt_counting {
    TT_COUNTING,
    TT_COUNTING_NOT,
    TT_COUNTING_UNKNOWN, /* it is not decided, or forgotten */
} tt_counting;

/* What a keeper waits for all owners to reply to. */
typedef enum tt_keeping {
    TT_KEEPING_NOTHING,
    TT_KEEPING_ASK,
    TT_KEEPING_QUORUM, /* of the last iteration decided */
} tt_keeping;

typedef struct tt_quorum {
    uint64_t decided;    /* iterations, as far as is known here */
    uint64_t sure;       /* whose decisions all owners know; not of update sum: as decided */
    uint64_t begun;      /* whose pushes are chosen, or were added */
    uint64_t closed;     /* whose pushes have been added */
    uint64_t sums_open;  /* parts that still add those of the last one begun */
    uint32_t adopting;   /* parts that wait for ADOPT, or for pushes that are sent again */
    tt_decision *queue;  /* to come */
    tt_decision *past;   /* begun, of update sum: the last ones, */
    uint32_t past_count; /* so many */
    tt_decision *free;
    uint32_t keeper;    /* number of the last owner that has decided, or asked */
    tt_keeping keeping; /* of the keeper; */
    bool *has_replied;  /* [processes] to that */
} tt_quorum;

struct tt_owner_store {
    uint32_t id;
    tt_split split;
    uint32_t self; /* number of this rank among the store's owners */
    bool has_settings;
    char settings[TT_SYNC_TEXT_BYTES]; /* as the first worker sent them */
    uint32_t settings_from;
    tt_policy policy;
    tt_update_spec update;
    tt_codec_spec codec; /* codec NULL: none */
    tt_status status;    /* negative: it has failed for good */
    char error[TT_SYNC_TEXT_BYTES];
    tt_clock clock;
    tt_owner_worker *workers; /* [workers] */
    tt_owner_key **buckets;   /* [OWNER_BUCKETS] */
    tt_list pulls;            /* slots whose pull waits */
    tt_quorum quorum;
    uint32_t lost;         /* of named sums: the first worker that is gone, */
    tt_status lost_status; /* negative, if one is; */
    tt_text lost_text;     /* and how */
    tt_owner_set set;
    tt_owner_tally tally;
    const tt_relays *relays; /* of named sums; NULL: there are none */
};

#endif
