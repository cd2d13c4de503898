/* SPDX-License-Identifier: Apache-2.0
 *
 * world.h - a job of several ranks on one of the test drivers, and cases run on it.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_CONFORMANCE_WORLD_H
#define TUTTI_TESTS_CONFORMANCE_WORLD_H

#include "conformance/cases.h"
#include "control/control.h"

typedef enum world_driver { WORLD_SHUFFLE, WORLD_SIM } world_driver;

typedef struct world_config {
    world_driver driver;
    uint32_t size;
    uint32_t host_count; /* sim: ranks are dealt to hosts in turn */
    uint64_t seed;
    uint32_t segment_bytes, eager_bytes_max;
    const char *algorithm;
    bool is_shared; /* buffers lie in the arena */
    uint64_t fail_at;
    bool fails_forever;
    bool has_engine;       /* shuffle: collectives are launched where they can be */
    uint64_t strays_at;    /* shuffle: the landing of this number, from 1, fails; 0: none */
    uint64_t credit_bytes; /* 0: endless */
    tt_negotiate_mode negotiate_mode;
} world_config;

typedef struct test_world test_world;

/* NULL: creating a machine failed (fail_at). */
test_world *world_create(const world_config *config);
/* False: memory was left behind. */
bool world_destroy(test_world *world);

tt_control *world_control(test_world *world, uint32_t rank);
uint64_t world_allocations(const test_world *world);
uint64_t world_now(const test_world *world); /* nanoseconds; 0 where there is no clock */

/* Memory for a buffer of `rank`, in the arena if the world is_shared. */
void *world_take(test_world *world, uint32_t rank, size_t bytes);
void world_give(test_world *world, uint32_t rank, void *memory, size_t bytes);

/* Submit the request to the rank's machine as an event of the driver. */
void world_submit(test_world *world, uint32_t rank, tt_request *request);
/* Run until no request of any rank is pending; false: no event is left. */
bool world_run(test_world *world);

/* One upcall; false: no event is left. */
bool world_step(test_world *world);
/* Links between `rank` and the others break: each side gets the upcall `peer`, DOWN. */
void world_lose(test_world *world, uint32_t rank);
/* sim: the process dies; or gets no upcalls for so long. */
void world_kill(test_world *world, uint32_t rank);
void world_stop(test_world *world, uint32_t rank, uint64_t duration_ns);

/* One case on all members of `set` (a member number is a rank's number in the case). */
typedef struct case_run case_run;
case_run *case_start(test_world *world, const collective_case *one, uint32_t set,
                     const uint32_t *ranks);
/* The fault, or NULL. Adds all outputs to `*hash_io`. Releases the run. */
const char *case_finish(case_run *run, uint64_t *hash_io);
/* The worst status among the ranks; before case_finish. */
tt_status case_status(const case_run *run);
/* The request of one member; before case_finish. */
const tt_request *case_request(const case_run *run, uint32_t member);

#endif
