/* SPDX-License-Identifier: Apache-2.0
 *
 * run_internal.h - a run in progress: run.c drives it, slot.c makes calls, judge.c checks.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_SIMULATION_RUN_INTERNAL_H
#define TUTTI_TESTS_SIMULATION_RUN_INTERNAL_H

#include "base/philox.h"
#include "simulation/run.h"

enum { POISON = 0x9e, SLACK_BYTES = 64, SOURCE_NONE = -7 };

typedef struct simulation simulation;

/* Hashes of a tensor's residuals on one rank; 0: there are none, or zeros. */
typedef struct coded_state {
    uint64_t input, owner, estimate;
    bool is_known;
} coded_state;

/* A coded op of one rank, at the end of its exchange. */
typedef struct coded_record coded_record;

/* One request of one rank. */
typedef struct call_slot {
    simulation *simulation;
    const scenario_call *call;
    uint32_t call_index, member, rank;
    bool is_receive; /* the second leg of send and receive */
    bool ends_step;  /* the last one of its rank in a step */
    bool is_join;    /* no call: the rank joins */
    char name[16], group[16];
    tt_request request, twin; /* twin: of the same name, refused */
    uint8_t *memory;
    size_t bytes;
    uint64_t counts[SCENARIO_SIZE_MAX], got_counts[SCENARIO_SIZE_MAX];
    int source;    /* of a receive: sender of the message it has taken; SOURCE_NONE: none */
    bool is_taken; /* of a send with a tag: some receive has it */
    bool is_submitted, is_cancelled;
    uint32_t finished_count;
    uint64_t submitted_ns, finished_ns;
    coded_state before;         /* residuals, at submission */
    const coded_record *record; /* NULL: it was not coded */
    uint64_t output_hash;       /* of a call that succeeded */
    struct call_slot *next;     /* of the same rank, in the order of submission */
} call_slot;

typedef struct sim_rank_state {
    simulation *simulation;
    uint32_t rank;
    tt_control *control;
    tt_machine machine; /* the control's */
    bool is_in_data;    /* an upcall with data is running, in which no negotiator takes part */
    call_slot *next;    /* to submit */
    uint32_t in_flight, unfinished;
    bool is_dead;    /* killed */
    bool is_severed; /* lost a link for good */
    bool is_parted;  /* the same, to a rank of its host that maps its memory, and lives */
    bool has_left, has_removed;
    bool is_changed; /* its settings, see scenario.change_at */
    uint64_t left_ns;
    bool is_pump_due;
    bool has_joined;     /* the slot last submitted is a join */
    tt_stepper *stepper; /* see stepping.c; NULL: it ends no steps */
    bool is_ending;      /* a step: nothing is submitted meanwhile */
    tt_request carrier;
    const call_slot *busy[SCENARIO_TENSORS_MAX]; /* tensors whose call has not ended */
    tt_tracer tracer;
    coded_record *records;                  /* the last one first */
    coded_state kept[SCENARIO_TENSORS_MAX]; /* after the last call */
    coded_state committed[SCENARIO_TENSORS_MAX];
    bool has_commits;
    uint32_t act_count; /* of the scenario's, done */
    double unit;
    struct {
        uint32_t set;
        struct tt_name *hint;
        uint64_t stamp;
    } hints[SCENARIO_TENSORS_MAX]; /* as the last request of the tensor has them */
} sim_rank_state;

struct simulation {
    const scenario *what;
    const run_options *options;
    tt_sim *sim;
    tt_random random;
    sim_rank_state ranks[SCENARIO_SIZE_MAX];
    call_slot *slots;
    uint32_t slot_count;
    uint32_t
        joined_last[SCENARIO_PHASES_MAX];  /* + 1: last rank to join, as the first rank got it */
    uint64_t bits[SCENARIO_CALLS_MAX];     /* of all-reduces: hash of the first rank's result */
    uint64_t settings[SCENARIO_CALLS_MAX]; /* hash of the first rank's settings for the call */
    bool is_over; /* requests that end now do so because the run cleans up */
    run_result result;
};

/* The first failure counts. */
void run_fault(simulation *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* slot.c */
void slots_make(simulation *run);
void slots_release(simulation *run);
/* Submit the requests that may be submitted now; as a call event of the rank. */
void slot_pump(void *rank_state);
/* The same soon, if there is anything to submit. */
void slot_pump_later(sim_rank_state *rank, uint64_t delay_ns);
/* One of the rank's requests and steps has ended; it may leave after the last. */
void slot_count_off(sim_rank_state *rank);

/* stepping.c */
void stepping_create(sim_rank_state *rank);
void stepping_destroy(sim_rank_state *rank);
/* The call is about to be submitted: sets its urgency, and checks that all ranks make it under one
 * setting. */
void stepping_submit(call_slot *slot);
/* The rank ends a step. */
void stepping_end(sim_rank_state *rank);

/* judge_values.c */
/* A request has succeeded: checks its output. */
void judge_output(call_slot *slot);

/* judge_coded.c */
/* Watch the rank's coded ops. */
void coded_create(sim_rank_state *rank);
void coded_destroy(sim_rank_state *rank);
/* The call is about to be submitted; it has ended: checks the residuals of its tensor. */
void judge_coded_begin(call_slot *slot);
void judge_coded_end(call_slot *slot);
/* All requests have ended: checks results and residuals against the oracle. */
void judge_coded(simulation *run);
/* What the rank does to the state of codecs; none of its calls is in flight. */
void coded_act(sim_rank_state *rank, const scenario_act *act);
/* The slot of a request; NULL: it is none of the program's. */
call_slot *slot_of(const tt_request *request);

/* judge_text.c */
/* A request has failed because ranks differ: checks that its error names them. */
void judge_text(simulation *run, const call_slot *slot);
/* True: `a` and `b` are one call, or of one group in one step. */
bool judge_are_grouped(const scenario_call *a, const scenario_call *b);
/* True: the request returned the error of an earlier call. */
bool judge_is_late(const call_slot *slot);

/* judge.c */
void judge_join(call_slot *slot);
/* All requests have ended. */
void judge_calls(simulation *run);
/* Nothing was written after the end. */
void judge_poison(simulation *run);

#endif
