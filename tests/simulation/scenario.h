/* SPDX-License-Identifier: Apache-2.0
 *
 * scenario.h - the scenario of one seed: ranks, sets, a program of calls, and faults.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_SIMULATION_SCENARIO_H
#define TUTTI_TESTS_SIMULATION_SCENARIO_H

#include "aggregate/scheme.h"
#include "conformance/cases.h"
#include "control/control.h"
#include "platform/sim.h"
#include "schedule/schedule.h"

enum {
    SCENARIO_SIZE_MAX = 9,
    SCENARIO_SETS_MAX = 3,
    SCENARIO_CALLS_MAX = 640,
    SCENARIO_FAULTS_MAX = 4,
    SCENARIO_TENSORS_MAX = 8,
    SCENARIO_PHASES_MAX = 2,
    SCENARIO_ACTS_MAX = 4,
    SCENARIO_CODEC_BYTES = 160,
    SCENARIO_ALIKE_FIRST = 1000000,
    SCENARIO_REPEATS = 2000000, /* from this seed on calls repeat */
    SCENARIO_WIDE = 3000000,    /* from this seed on more is drawn: scenario_wide.c */
    SCENARIO_REMOVES = 4000000, /* from this seed on sets are removed, too */
    SCENARIO_ANY = 5000000,     /* from this seed on receives are from any source: scenario_any.c */
    SCENARIO_STARVES = 5000000, /* from this seed on named programs, too, lack memory */
    SCENARIO_ROTATES = 6000000, /* from this seed on several calls repeat: scenario_rotate.c */
    SCENARIO_STEPS = 7000000,   /* from this seed to SCENARIO_NESTS named programs end steps */
    /* From this seed on the callback of a named call submits the next, and results are spread in
     * small steps. */
    SCENARIO_NESTS = 8000000,
    SCENARIO_PROGRAMS = 9000000, /* from this seed on calls have stages: scenario_programs.c */
    SCENARIO_CODED = 10000000,   /* from this seed on sums are coded: scenario_coded.c */
    SCENARIO_TRACKED = 11000000, /* from this seed on error feedback is EF21 */
};

/* How one member's call differs from the others'. */
typedef enum call_flaw {
    FLAW_NONE,
    FLAW_DTYPE,
    FLAW_REDOP,
    FLAW_ROOT,
    FLAW_COUNT,
    FLAW_KIND,
    FLAW_ARGUMENT,
    FLAW_CANCEL,
    FLAW_COUNT_,
    FLAW_APART = FLAW_COUNT_, /* its group is submitted one by one; drawn separately */
    FLAW_CODEC,               /* another codec; drawn separately */
    FLAW_DRIFT, /* this rank has forgotten its calls, and is in another phase; likewise */
} call_flaw;

/* A tensor whose calls are coded. */
typedef struct scenario_codec {
    char text[SCENARIO_CODEC_BYTES];
    tt_scheme scheme, other; /* other: of FLAW_CODEC */
} scenario_codec;

/* Something that ranks do to the state of codecs, between two calls. */
typedef enum act_kind {
    ACT_COMMIT,
    ACT_UNDO,
    ACT_RESET,
    ACT_RESUME, /* save, forget, load */
    ACT_UNIT,
    ACT_DRIFT, /* one rank alone resets */
    ACT_KIND_COUNT
} act_kind;

typedef struct scenario_act {
    act_kind kind;
    uint32_t before; /* this step; of unnamed programs: this call */
    uint32_t rank;   /* of ACT_DRIFT */
} scenario_act;

typedef struct scenario_call {
    collective_case one;
    uint32_t set;
    call_flaw flaw;
    uint32_t culprit; /* member */
    int32_t urgency;
    bool is_shared;   /* buffers in the arena, */
    uint32_t foreign; /* except this member's (from 1 on; 0: all are) */
    bool is_named;
    uint32_t tensor, step; /* named programs: which, and when */
    uint64_t deadline_ns;  /* 0: none */
    uint32_t group_size;   /* tensors 0 .. group_size - 1 are a group; 0: not in it */
    /* Messages: members send to the next one, and `shift` further. */
    uint32_t tag, shift;
    bool is_any;      /* received from any source */
    bool is_recalled; /* the receive may be cancelled, and is made again then */
    /* Coded: a tensor's calls have the same codec. Without a name it is declared if it keeps state:
     * `tensor` is its key then, and the next one waits for the last. */
    const scenario_codec *codec; /* NULL: plain */
} scenario_call;

typedef enum fault_kind {
    FAULT_KILL,
    FAULT_STOP,
    FAULT_CUT,
    FAULT_SEVER,
    FAULT_KIND_COUNT
} fault_kind;

typedef struct scenario_fault {
    fault_kind kind;
    uint64_t at_ns;
    uint64_t duration_ns;
    uint32_t a, b;
} scenario_fault;

typedef struct scenario {
    uint64_t seed;
    uint32_t size;
    uint32_t host_of[SCENARIO_SIZE_MAX];
    uint32_t set_count; /* the world is set 0 */
    uint32_t set_size[SCENARIO_SETS_MAX];
    uint32_t members[SCENARIO_SETS_MAX][SCENARIO_SIZE_MAX];
    scenario_call calls[SCENARIO_CALLS_MAX];
    uint32_t call_count;
    uint32_t window;     /* calls of a rank in flight; 0: no limit */
    uint32_t windowless; /* ranks from this one on have no limit; 0: all have the same */
    bool is_shuffled;    /* ranks begin calls of different sets in different orders */
    uint64_t gap_ns;     /* between calls of a rank, at most */
    bool leaves_early;   /* ranks leave as soon as they are done */
    bool removes_sets;   /* a rank that has made all its calls removes its sets */
    bool has_stale;      /* frames of an older epoch are mixed in */
    bool has_duplicates; /* the network breaks the guarantee that frames arrive once */
    /* Named programs: steps of tensors, in a different order on each rank. A rank that has made its
     * steps of a phase joins. */
    bool is_named, has_joins;
    bool nests; /* callbacks submit */
    uint32_t tensor_count, steps_per_phase, phase_count;
    uint32_t rank_steps[SCENARIO_PHASES_MAX][SCENARIO_SIZE_MAX];
    uint32_t tuned_step; /* from this one on the fusion threshold is tuned_bytes; 0: never */
    uint64_t tuned_bytes;
    /* From this call on longest frame and forced algorithm are these; 0: never. */
    uint32_t change_at;
    uint32_t changed_segment_bytes;
    const char *changed_algorithm;
    /* Ranks end steps, after the calls of each: orders and settings learnt there hold from then
     * on. */
    bool has_steps;
    bool has_uses;           /* the program reports the tensors it uses */
    tt_step_config steps;    /* rank and size are each rank's own */
    uint64_t forecast_ns;    /* of a byte, by the table of costs; 0: there is none */
    uint64_t starve_after;   /* allocations, from the start on, before one that fails; 0: none */
    uint64_t starve_further; /* of the same rank, after that one, that fail, too */
    scenario_fault faults[SCENARIO_FAULTS_MAX];
    uint32_t fault_count;
    scenario_codec codecs[SCENARIO_TENSORS_MAX];
    scenario_act acts[SCENARIO_ACTS_MAX]; /* in the order of `before` */
    uint32_t act_count;
    tt_sim_config sim;
    tt_control_config control;
} scenario;

/* Everything above from the seed. */
void scenario_draw(scenario *drawn, uint64_t seed);
/* Additions of seeds from SCENARIO_WIDE on; called by those two. */
void scenario_widen(scenario *drawn);
/* Additions of unnamed seeds from SCENARIO_ANY on. */
void scenario_add_any(scenario *drawn);
/* Additions of those that repeat calls from SCENARIO_ROTATES on. */
void scenario_rotate(scenario *drawn);
/* Replacements in unnamed seeds from SCENARIO_PROGRAMS on. */
void scenario_add_programs(scenario *drawn);
/* Replacements in all seeds from SCENARIO_CODED on. */
void scenario_add_codecs(scenario *drawn);
/* True: the call is coded, and what one of its tensor leaves counts for the next. */
bool scenario_keeps_state(const scenario_call *call);
/* Additions of named seeds from SCENARIO_STEPS on. */
void scenario_add_steps(scenario *drawn);
/* The same, once the chunk is known: the bounds between which it is tuned. */
void scenario_add_ranges(scenario *drawn);
/* The same with named tensors. From SCENARIO_ALIKE_FIRST on all are small sums, so that plans fuse
 * them, and some ranks may wait for one before they submit the next. */
void scenario_draw_named(scenario *drawn, uint64_t seed);
/* True: `rank` makes the calls of `step`; false: it has joined. */
bool scenario_takes_part(const scenario *what, uint32_t rank, uint32_t step);
/* True: the call, or another of its group, differs on some rank. */
bool scenario_is_flawed(const scenario *what, uint32_t index);
/* True: only learnt orders and tuned settings change between its calls, and cannot change a bit
 * (docs/decisions/032). */
bool scenario_is_steady(const scenario *what);
/* A small fixed one, for kills at every event. */
void scenario_small(scenario *drawn);
/* The same with named tensors that are planned, changed, and planned again. */
void scenario_small_named(scenario *drawn, tt_negotiate_mode mode);

bool scenario_is_member(const scenario *what, uint32_t set, uint32_t rank, uint32_t *member_out);
bool scenario_has_fault(const scenario *what, fault_kind kind);
void scenario_describe(const scenario *what);

#endif
