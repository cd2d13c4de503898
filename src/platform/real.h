/* SPDX-License-Identifier: Apache-2.0
 *
 * real.h - the driver that runs a machine on this host: links, clock, timer, sleep.
 *
 * The holder of the rank's baton calls tt_real_poll as long as there is work, and sleeps when there
 * is none. A pass over links through shared memory makes no system call; sockets, exits of peers
 * and the wake descriptor are checked every few passes through one epoll.
 *
 * Sleeping with the baton released:
 *     if (tt_real_sleep_begin(real, until, &until)) {
 *         ...release the baton...   tt_real_sleep_block(real, until);   ...take it again...
 *         tt_real_sleep_end(real);
 *     }
 * A thread that takes the baton while another blocks calls tt_real_drive, and before it releases
 * the baton tt_real_sleep_begin or tt_real_linger. Otherwise peers take the rank for awake, do not
 * ring, and the blocked thread sleeps on.
 *
 * Layer:   platform; may include transport/ and base/.
 * Threads: the baton's holder; tt_real_wake and tt_real_sleep_block from any thread.
 * Memory:  after create, only the machine's own allocations.
 */
#ifndef TUTTI_PLATFORM_REAL_H
#define TUTTI_PLATFORM_REAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "platform/crew.h"
#include "platform/platform.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"
#include "tutti/plugin.h"

typedef struct tt_real tt_real;

typedef struct tt_real_peer {
    tt_link *link;       /* adopted on success; NULL for this rank */
    tt_segment *segment; /* retained; the peer's, or this rank's; NULL where memory is not shared */
    pid_t pid;           /* of another process on this host, as the kernel reports it; 0: none */
    bool is_apart;       /* gets no frame that is sent to TT_PEER_HOST; its link is apart, too */
} tt_real_peer;

/* An outside engine that runs whole collectives (tutti/plugin.h). Stays the caller's, and must
 * outlive the driver. */
typedef struct tt_real_engine {
    const tutti_engine_ops *ops;
    tutti_engine *self;
} tt_real_engine;

typedef struct tt_real_config {
    uint32_t rank, rank_count;
    const tt_real_peer *peers; /* rank_count of them; copied */
    uint64_t seed;
    bool spins;            /* the host has a core for each of its ranks: waiting may spin briefly */
    uint32_t hands;        /* threads that share a long sum, the caller's included; 0: as 1 */
    tt_call_away away;     /* ends long work early */
    tt_real_engine engine; /* ops NULL: none */
} tt_real_config;

/* The caller ends it with tt_real_close. */
tt_status tt_real_create(const tt_real_config *config, tt_real **real_out);

/* The table that a machine is created with; valid as long as the driver. */
tt_platform *tt_real_platform(tt_real *real);

/* From now on `machine` (copied) gets the upcalls. Before the first poll. */
void tt_real_attach(tt_real *real, const tt_machine *machine);

/* From now on no frame is longer than `frame_bytes`, on any link. */
void tt_real_expect(tt_real *real, uint32_t frame_bytes);

/* One pass: links, timer, peer events, step. True if anything happened or the machine wants
 * another step: call again before sleeping. */
bool tt_real_poll(tt_real *real);

/* Monotonic nanoseconds, as tt_platform_ops.now. */
uint64_t tt_real_now(tt_real *real);

/* Send a goodbye on every link, and poll until all are sent or `until_ns` has passed. */
void tt_real_goodbye(tt_real *real, uint64_t until_ns);

/* Goodbye, unless `until_ns` is 0, then destroy everything. The machine gets upcalls during the
 * goodbye only; a machine whose memory came from this platform is destroyed between the two. */
void tt_real_close(tt_real *real, uint64_t until_ns);

/* Peers ring only a sleeping rank. Both are cheap when the rank is awake: the shared word is
 * written only to leave sleep, because each write costs every sender a cache miss. */
void tt_real_drive(tt_real *real); /* the calling thread polls from now on */
/* No thread polls now, but one soon will: wakes the blocked thread. */
void tt_real_linger(tt_real *real);

/* Make peers ring from now on, and check once more. False: there is work, do not sleep. True: sleep
 * until `*until_ns_out`, the earlier of `until_ns` and the machine's timer. */
bool tt_real_sleep_begin(tt_real *real, uint64_t until_ns, uint64_t *until_ns_out);
void tt_real_sleep_block(tt_real *real, uint64_t until_ns);
void tt_real_sleep_end(tt_real *real);

/* The three in one, where the baton need not be released. UINT64_MAX: no limit. */
void tt_real_sleep(tt_real *real, uint64_t until_ns);

/* End the current sleep, or the next one. From any thread, also from a signal handler. */
void tt_real_wake(tt_real *real);

/* Poll until `done`, or until nothing has happened for so long that sleeping is better: a spin that
 * adapts to earlier waits, or yields where ranks outnumber cores. True if done. */
bool tt_real_spin(tt_real *real, bool (*done)(void *), void *argument, uint64_t until_ns);

/* While waiting: report peers of this host that are stopped as SILENT, and BACK when they run
 * again. Checks at most once a second; returns when the next check is due. */
uint64_t tt_real_watch(tt_real *real);

/* Poll, spin and sleep until `done` (TT_OK) or `until_ns` (TT_ERR_TIMED_OUT). */
tt_status tt_real_wait(tt_real *real, bool (*done)(void *), void *argument, uint64_t until_ns);

/* Ops in flight in the engine. */
uint32_t tt_real_engine_flying(const tt_real *real);
/* Do not call the engine any more: its ops in flight will not land. */
void tt_real_engine_leave(tt_real *real);
/* Abandon the engine's ops in flight. They cannot be recalled: if there are any (true), no memory
 * is released from here on. */
bool tt_real_engine_forsake(tt_real *real);

/* In a forked child: close the descriptors and make shared memory read-only. Safe after fork.
 * Afterwards the child may call nothing of this header; the memory is left as it is. */
void tt_real_child_after_fork(tt_real *real);

#endif
