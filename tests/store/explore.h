/* SPDX-License-Identifier: Apache-2.0
 *
 * explore.h - three workers and a store, in every order of frames, steps and one death.
 *
 * The machines are those of src/sync (small.h). Depth-first search over states: the memory of every
 * machine, its program, and the frames in flight. A state that was visited is not explored again.
 * Choices: any frame in flight is delivered, an owner makes a step, a worker dies or leaves, a
 * process learns of it (frames of a dead worker that had not reached it are lost; those of one that
 * left have all arrived), a push arrives twice.
 *
 * Workers pull, push and end an iteration. A push adds 1 to a counter of its own, so that a value
 * shows which pushes are in it, and how often. Invariants, of methods of stale synchronous
 * parallelism (Ho et al. 2013), for every state that is reached:
 *   I1  a read at clock c: nobody who counts is behind c - s
 *   I2  the clocks of two workers that count differ by s + 1 at most
 *   I3  a read at clock c has every push of iterations below c - s,
 *   I4  all own ones,
 *   I5  and all that an earlier read of this worker had: the value at its owner only grows, and
 *       what is sent of it stays as it is until it has arrived
 *   I6  s = 0: it has these and no other
 *   I7  async: neither clocks nor pulls wait
 *   I8  a worker that may go on does: at the end of a history only those wait that are at the bound
 *   I9  a worker that died or left holds up nobody; under bulk its death fails everyone's calls by
 *       its name, and so does under any policy that it leaves with parts that it owns
 *   I10 a push is in the value exactly once at the end; of a dead worker, its first few are
 * A worker's clock is counted at itself for I2's greater one, and at the keeper for the least:
 * frames on the way make them differ more than they may.
 *
 * Exhaustive: one tensor of one part; opening and adding are over when the search begins. Frames to
 * owners that neither have the part nor are the keeper are dropped: they are answered by nobody.
 * Fields without effect on later events are set to fixed values (explore.c, forget). A worker that
 * is stopped has a link that takes all that is sent to it.
 *
 * Bulk and one clock of the others are searched as they are. Reductions of longer scenarios:
 * is_short   A frame to a worker is delivered as soon as it is sent. It changes that worker alone,
 *            whose next frames may be as late as they like: no state of the owners is missed.
 * is_prompt  Owners make their steps after each frame: no frame arrives during a sum.
 *
 * Layer:   tests.
 * Threads: one.
 * Memory:  malloc.
 */
#ifndef TUTTI_TESTS_STORE_EXPLORE_H
#define TUTTI_TESTS_STORE_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum trouble {
    TROUBLE_NONE,
    TROUBLE_DEATH,
    TROUBLE_LEAVING, /* with the store open */
    TROUBLE_STOP,
    TROUBLE_TWICE,
} trouble;

typedef struct scenario {
    const char *name, *policy;
    bool no_servers; /* workers own all; else three servers do */
    uint32_t owner;  /* of the part; the keeper is 0 */
    uint32_t clocks;
    trouble trouble;
    bool is_started; /* a push and the clock after it are started together */
    bool is_short, is_prompt;
} scenario;

/* Search the scenario; a violation fails the test that runs. */
void explore_run(const scenario *scene);

#endif
