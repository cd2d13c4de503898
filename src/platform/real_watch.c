/* SPDX-License-Identifier: Apache-2.0
 *
 * real_watch.c - is a peer of this host stopped? A debugger, a batch system or ^Z may stop it. It
 * is not dead and is waited for, but users want to know which rank it is. Idle links carry no
 * heartbeats: the waiting thread reads the peer's state from /proc instead, once a second.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "platform/real_internal.h"

static const uint64_t WATCH_NS = 1000000000;

/* State letter of the process as proc(5) has it, 0 if it cannot be read. */
static char process_state(pid_t pid)
{
    char path[48];
    char text[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    const ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    /* The name before it may contain any character, also brackets and blanks. */
    const char *name_end = strrchr(text, ')');
    return name_end != NULL && name_end[1] == ' ' ? name_end[2] : '\0';
}

static void watch_peer(tt_real *real, uint32_t peer)
{
    real_peer *state = &real->peers[peer];
    const char letter = process_state(state->given.pid);
    const bool stopped = letter == 'T' || letter == 't';
    if (stopped == state->silent) {
        return;
    }
    state->silent = stopped;
    real->in_pass = true; /* `now` is constant during the upcall */
    real->machine.ops->peer(real->machine.self, peer, stopped ? TT_PEER_SILENT : TT_PEER_BACK,
                            stopped ? "its process is stopped" : "running again");
    real->in_pass = false;
    real->now_ns = 0;
}

uint64_t tt_real_watch(tt_real *real)
{
    const uint64_t now_ns = tt_real_clock();
    bool any = false;
    /* Not called for a while: this is a new wait, and most waits end before the first check. */
    if (now_ns > real->watch_at_ns + WATCH_NS) {
        real->watch_at_ns = now_ns + WATCH_NS;
    }
    const bool due = now_ns >= real->watch_at_ns;
    for (uint32_t i = 0; i < real->rank_count; i++) {
        const real_peer *state = &real->peers[i];
        if (state->given.pid <= 0 || state->given.link == NULL || state->ended) {
            continue;
        }
        any = true;
        if (due) {
            watch_peer(real, i);
        }
    }
    if (due) {
        real->watch_at_ns = now_ns + WATCH_NS;
    }
    return any ? real->watch_at_ns : UINT64_MAX;
}
