/* SPDX-License-Identifier: Apache-2.0
 *
 * store_run.h - one seed of workers, servers and a store: drawn, played, judged.
 *
 * Workers open a store, add tensors, and run iterations of pushes, pulls and clocks, while frames
 * are delayed, doubled and reordered and processes are stopped or killed. What the judge knows of
 * all workers at once is what no worker knows:
 *
 *   bulk          every value that was read has the bits of an oracle without processes
 *   stale, async  values are counters, from which the pushes in them can be read off: none is
 *                 missing that the bound promises, none is in it twice, all own ones are, and none
 *                 is lost again; a part is never torn
 *                 with gradients, and options that change, all elements of a part are the same
 *   clocks        nobody starts an iteration too early. Nobody waits under async; under bulk and
 * stale a worker that nobody is behind waits for no call of another one. At the end nobody waits
 *   counts        of own calls are exact, of parts that owners have applied within bounds
 *   ends          every request of a live worker ends; an error names a process that is gone
 *   tables        chosen rows have what pushes of whole tables with zeros elsewhere make of them
 *   servers       of bulk sums: if owners are left, workers go on. An iteration fails on a worker
 *                 only if others may have its sum, and at most one for each server that was killed.
 *                 What an owner kept of coded sums is lost with it, and that of no other
 *
 *   quorum sums   a value tells whose pushes of which iteration are in it (store_members.c): a push
 *                 is in it once, a worker's pushes of an iteration count in all parts or in none
 *                 and as it was told, all workers read the same bits of an iteration, and none
 *                 reads an older one than its clock promises, or than it has read
 *
 * Layer:   tests.
 * Threads: one.
 * Memory:  malloc.
 */
#ifndef TUTTI_TESTS_STORE_STORE_RUN_H
#define TUTTI_TESTS_STORE_STORE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/philox.h"
#include "codec/spec.h"
#include "platform/sim.h"
#include "sync/split.h"
#include "sync/sync.h"
#include "sync/sync_policy.h"
#include "sync/update.h"

enum {
    WORKERS_MAX = 5,
    SERVERS_MAX = 6,
    PROCESSES_MAX = WORKERS_MAX + SERVERS_MAX,
    TENSORS_MAX = 3,
    ITERATIONS_MAX = 8,
    FAULTS_MAX = 4,
    SETS_MAX = 2,
    COUNTER_BITS = 8, /* of a counter, per worker */
    SCENE_EPOCH = 3,
};

/* How an iteration goes. */
typedef enum habit {
    HABIT_PULL_PUSH,       /* pull, push, clock, one after the other */
    HABIT_PUSH_PULL,       /* push and pull in one, clock */
    HABIT_PUSH_CLOCK_PULL, /* push and clock at once, then pull */
    HABIT_COUNT,
    HABIT_TOGETHER = HABIT_COUNT, /* push and pull in one, and the clock, at once */
    HABIT_COUNT_ALL
} habit;

typedef enum fault_kind {
    FAULT_KILL,
    FAULT_STOP,
    FAULT_CUT,
    FAULT_SEVER, /* the link between a worker and a server is lost: of bulk sums */
    FAULT_KIND_COUNT
} fault_kind;

typedef struct fault {
    fault_kind kind;
    uint32_t rank, other;
    uint64_t at_ns, until_ns;
} fault;

/* A worker sets the learning rate before its push of iteration `at`. */
typedef struct set_call {
    uint32_t worker, at, from; /* from >= at */
    bool is_now;               /* it leaves the clock to the owners */
    float rate;
} set_call;

typedef struct scene {
    uint64_t seed;
    uint32_t workers, servers, tensors, iterations, faults;
    habit habit;
    const char *policy_text, *update_text;
    tt_policy policy;
    tt_update_spec update;
    tt_dtype dtype;
    bool has_counters; /* values are counters of pushes */
    bool is_uniform;   /* all elements of a value are equal: gradients under stale and quorum */
    bool is_in_place;  /* pushes and pulls in one: the input is the output */
    bool has_members;  /* values tell whose pushes of which iteration they are: quorum sums */
    const char *codec_text; /* NULL: none */
    tt_codec_spec codec;
    uint64_t counts[TENSORS_MAX];
    uint32_t row_elements[TENSORS_MAX]; /* of a table; else 0 */
    fault fault[FAULTS_MAX];
    uint32_t sets;
    set_call set[SETS_MAX];
    bool can_lose;  /* sums: they outlive servers */
    bool gives_way; /* workers make no call while one that nobody is behind waits */
    tt_sim_config sim;
} scene;

typedef struct store_result {
    bool is_good;
    char reason[256];
    uint64_t events, hash, reads;
    uint64_t lost;     /* calls that failed with a server, after which the store went on */
    uint32_t finished; /* workers that came to their end */
} store_result;

/* From this seed on: sums of quorums, whose servers are killed. */
enum { MEMBERS_FIRST = 20000000 };

void scene_draw(scene *drawn, uint64_t seed);
store_result store_run(const scene *drawn, bool is_verbose);
/* Named sums instead, of the same processes with the same faults: sum_run.c. */
store_result sum_run(const scene *drawn, bool is_verbose);
/* Bulk stores that move to other owners, and nobody dies: keep_run.c. `lost` counts moves. From
 * seed KEEP_FAULTS_FIRST on, stores of every policy, with deaths and loads: keep_faults.c. */
enum { KEEP_FAULTS_FIRST = 10000000, KEEP_FAULTS_COUNT_MAX = 20000 };
store_result keep_run(const scene *drawn, bool is_verbose);
scene keep_faults_draw(const scene *drawn, tt_random *random);
store_result keep_faults_run(const scene *drawn, bool is_verbose);

/* The machine that sync wraps: there are no collectives. */
tt_machine store_no_collectives(void);
/* What faults have done so far. */
typedef struct damage {
    bool is_applied[FAULTS_MAX];
    bool is_killed[PROCESSES_MAX];
    bool is_severed[PROCESSES_MAX]; /* it has lost a link: others may give it up */
    uint32_t killed, killed_servers, severed;
} damage;

/* Faults whose time has come. */
void scene_apply_faults(const scene *drawn, tt_sim *sim, damage *done);

/* ---- the oracle ---- */

typedef struct oracle oracle;

oracle *oracle_make(const scene *drawn);
void oracle_free(oracle *known);
/* What a worker pushes. */
void oracle_push(const scene *drawn, uint32_t worker, uint32_t tensor, uint32_t iteration,
                 void *values);
void oracle_first(const scene *drawn, uint32_t tensor, void *values);
/* The value after so many iterations, under bulk. */
const void *oracle_value(const oracle *known, uint32_t tensor, uint32_t iterations);
/* The same, if what owners kept of coded sums was lost before iteration `reset`. */
const void *oracle_value_after(oracle *known, uint32_t tensor, uint32_t iterations, uint32_t reset);

/* ---- coded sums whose owners die: store_losses.c ---- */

typedef struct losses losses;

losses *losses_make(const scene *drawn, oracle *known);
void losses_free(losses *all);
/* Do values that were read have the bits of so many iterations? Of parts whose first owner is gone,
 * with any one loss of what owners kept, but on all workers alike. */
bool losses_are_equal(losses *all, const damage *done, uint32_t tensor, uint32_t iterations,
                      const void *values);

/* ---- codecs ---- */

/* From numbers of their own: scenes without a codec are those of before. */
void coded_draw(scene *drawn);
bool coded_applies(const scene *drawn, uint32_t tensor);
tt_split coded_split(const scene *drawn, uint32_t tensor);

/* Who codes: a worker, or UINT32_MAX for owners; for which time; what it keeps. */
typedef struct coded_sender {
    uint32_t who, occurrence;
    float *residual;
} coded_sender;

/* values[i] = what others receive. */
void coded_pass(const scene *drawn, uint32_t tensor, coded_sender sender, float *values);
/* A short part may have no element that counts this worker's pushes. */
bool coded_has_counter(const scene *drawn, const tt_split_part *part, uint32_t rank);
/* A part of counters in floats, as counters of integers are; false: it is torn. */
bool coded_counters(const scene *drawn, const tt_split_part *part, const float *values,
                    int64_t *counters_out);

/* ---- sums of quorums: store_members.c ---- */

typedef struct members members;

typedef struct members_call {
    uint32_t worker, tensor, iteration;
} members_call;

/* From numbers of their own. */
void members_draw(scene *drawn);
members *members_make(const scene *drawn, const damage *done);
void members_free(members *all);
/* What a worker pushes. */
int64_t members_value(const scene *drawn, members_call call, uint64_t element);
/* A push is submitted; a call has ended. */
void members_pushed(members *all, members_call call);
void members_ended(members *all, members_call call, const tt_sync_request *request);
/* The value of a tensor was read, by a push that counted or not, or by a pull: then `iteration` is
 * the clock. NULL, or what is wrong. */
const char *members_read(members *all, members_call call, const tt_sync_request *request);
/* Likewise: nothing happens any more. */
const char *members_judge_end(members *all);

/* ---- rows of tables ---- */

/* From numbers of their own, too. */
void rows_draw(scene *drawn);

typedef struct rows_call {
    uint32_t worker, tensor, iteration;
    bool is_pull; /* alone; a push and pull in one is a push */
} rows_call;

/* Zero the rows that a push does not choose. */
void rows_mask(const scene *drawn, rows_call call, void *values);
/* If the call chooses rows: the request gets them, and `values` only their values. */
void rows_choose(const scene *drawn, rows_call call, tt_sync_request *request, uint64_t *rows,
                 void *values);
/* Has the request read these values, or the rows that it chose? */
bool rows_are_equal(const scene *drawn, uint32_t tensor, const tt_sync_request *request,
                    const void *wanted);

/* Pushes of each worker, as counters of integers; not known if it pushes no row that was read. */
typedef struct rows_counts {
    int64_t counters;
    bool is_known[WORKERS_MAX];
} rows_counts;

/* Of a part of a table; false: it is torn. */
bool rows_counters(const scene *drawn, uint32_t tensor, const tt_sync_request *request,
                   const tt_split_part *part, rows_counts *counts_out);

#endif
