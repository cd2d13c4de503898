/* SPDX-License-Identifier: Apache-2.0
 *
 * real_internal.h - what the files of the real driver share.
 *
 * Layer:   platform.
 * Threads: the baton's holder, but for epoll_fd and event_fd, which are constant.
 */
#ifndef TUTTI_PLATFORM_REAL_INTERNAL_H
#define TUTTI_PLATFORM_REAL_INTERNAL_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/philox.h"
#include "platform/crew.h"
#include "platform/real.h"

typedef struct real_peer {
    tt_real_peer given;
    int fds[2];          /* registered with epoll; -1: not */
    bool wants_write[2]; /* as registered */
    bool ended;          /* LEFT or DOWN was reported */
    bool queued;         /* stands in ready_peers */
    bool silent;
} real_peer;

struct tt_real {
    tt_platform platform;
    tt_machine machine;
    uint32_t rank, rank_count;
    real_peer *peers;
    uint32_t *memory_peers; /* live links that are polled on every pass */
    uint32_t memory_count;
    uint32_t memory_next;   /* of memory_peers, where the next pass begins */
    tt_board *board;        /* NULL: no memory is shared */
    uint32_t *socket_peers; /* live links that wait for descriptors */
    uint32_t socket_count;
    uint32_t *ready_peers; /* those of them that have work now */
    uint32_t *ready_spare;
    uint32_t ready_count;
    uint32_t pass;
    bool look;                 /* check descriptors in the next pass */
    bool woken;                /* the wake descriptor was readable */
    _Atomic uint32_t sleepers; /* threads between sleep_begin and the end of sleep_block */
    bool in_pass;
    bool spins;
    uint64_t now_ns; /* of this pass; 0: not read yet */
    uint64_t timer_at_ns;
    tt_random random;
    uint64_t spin_ns;         /* length of a spin without events; adapts */
    uint64_t quiet_since_ns;  /* start of the last spin that ended without an event */
    uint64_t shared_until_ns; /* another thread computes on this core: waiters sleep at once */
    uint32_t shared_score;    /* evidence for that */
    uint64_t watch_at_ns;     /* next check for stopped peers */
    uint64_t place_at_ns;     /* next check which ranks share this core */
    uint32_t crowded_looks;   /* consecutive checks that found a better core */
    _Atomic uint32_t *wake_word;
    _Atomic uint32_t wake_word_alone; /* used where no memory is shared */
    int epoll_fd, event_fd;
    tt_real_engine engine;
    tt_launch *launches; /* not passed to the engine yet; in order */
    uint32_t launch_count, launch_capacity;
    uint32_t flying; /* ops in flight in the engine */
    int engine_fd;   /* readable when one has landed; -1: it must be polled. The engine owns it */
    bool is_engine_watched;
    bool is_engine_left; /* for good: see tt_real_engine_leave */
    bool keeps_memory;   /* ops were abandoned: no allocated memory is released */
    tt_call_away away;
    tt_crew *crew;  /* NULL until it is needed */
    tt_hands hands; /* the same threads, lent to links */
    bool crew_is_missing;
    cpu_set_t cores;     /* of the thread that created the driver */
    bool must_look;      /* a link has no descriptor to sleep on */
    uint64_t look_nap;   /* ns until it is polled again; grows while nothing arrives */
    uint64_t engine_nap; /* ns until it is polled again while no thread waits */
};

uint64_t tt_real_clock(void);

/* real.c */
extern const tt_platform_ops tt_real_ops;
extern const tt_hands_ops tt_real_hands_ops;
/* A pass; a short one where all links are through memory. Ends early once `done` is true. */
bool tt_real_poll_memory(tt_real *real, bool (*done)(void *), void *argument);

/* real_epoll.c */
tt_status tt_real_epoll_create(tt_real *real);
tt_status tt_real_epoll_add(tt_real *real, uint32_t peer);
void tt_real_epoll_update(tt_real *real, uint32_t peer); /* after its link was polled */
void tt_real_epoll_remove(tt_real *real, uint32_t peer);
void tt_real_epoll_look(tt_real *real); /* marks links ready; never waits */
/* Before a sleep while the engine has ops. On failure it must be polled from then on. */
void tt_real_epoll_watch_engine(tt_real *real);
void tt_real_epoll_unwatch_engine(tt_real *real);

/* real_place.c */
enum { TT_CROWD_MAX = 256 };

typedef struct tt_place_crowd {
    uint32_t rank;
    int core;
    uint32_t peer_count; /* whose core is known */
    uint32_t ranks[TT_CROWD_MAX];
    int cores[TT_CROWD_MAX];
} tt_place_crowd;

/* The core of `allowed` that this rank should move to; -1: stay. Only the last rank on a core that
 * has at least two more ranks than the new one moves. */
int tt_place_choose(const tt_place_crowd *crowd, const cpu_set_t *allowed);
/* While waiting: publish this rank's core, and move to another if that helps. */
void tt_real_place_look(tt_real *real, uint64_t now_ns);

/* real_engine.c */
bool tt_real_engine_can_launch(tt_platform *platform, const tt_launch *launch);
void tt_real_engine_launch(tt_platform *platform, const tt_launch *launch);
/* Pass launches to the engine, report ops that landed. True if anything happened. */
bool tt_real_engine_pass(tt_real *real);
/* The descriptor that is readable when an op has landed, or -1. */
int tt_real_engine_bell(const tt_real_engine *engine);
/* When a sleeping thread must poll it again; UINT64_MAX: never. */
uint64_t tt_real_engine_due(tt_real *real);

static inline bool tt_real_engine_is_busy(const tt_real *real)
{
    return real->flying + real->launch_count > 0 && !real->is_engine_left;
}

/* Does progress need the engine to be polled? */
static inline bool tt_real_engine_must_ask(const tt_real *real)
{
    return tt_real_engine_is_busy(real) && (real->launch_count > 0 || real->engine_fd < 0);
}

/* The link of `peer` has work that no descriptor signals. */
void tt_real_mark_ready(tt_real *real, uint32_t peer);

#endif
