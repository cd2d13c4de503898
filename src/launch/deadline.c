/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/deadline.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "base/base.h"

enum { NS_PER_MS = 1000000, POLL_MS_MAX = 60000 };
static const uint64_t ns_per_s = UINT64_C(1000000000);

uint64_t tt_launch_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * ns_per_s + (uint64_t)now.tv_nsec;
}

uint64_t tt_launch_deadline_after_ms(uint64_t timeout_ms)
{
    const uint64_t now_ns = tt_launch_now_ns();
    const uint64_t timeout_ms_max = (UINT64_MAX - now_ns) / NS_PER_MS;
    return timeout_ms > timeout_ms_max ? UINT64_MAX : now_ns + timeout_ms * NS_PER_MS;
}

tt_status tt_launch_wait_fd(int fd, short events, uint64_t deadline_ns)
{
    struct pollfd entry = {.fd = fd, .events = events};
    for (;;) {
        const uint64_t now_ns = tt_launch_now_ns();
        const uint64_t left_ns = now_ns < deadline_ns ? deadline_ns - now_ns : 0;
        /* Rounded up: less than 1 ms left must not become a busy loop. */
        const uint64_t left_ms = left_ns / NS_PER_MS + (left_ns % NS_PER_MS != 0);
        const int ready = poll(&entry, 1, (int)tt_min_u64(left_ms, POLL_MS_MAX));
        if (ready > 0) {
            return TT_OK;
        }
        if (ready < 0 && errno != EINTR) {
            return TT_ERR_SYSTEM;
        }
        if (ready == 0 && left_ns == 0) {
            return TT_ERR_TIMED_OUT;
        }
    }
}

tt_status tt_launch_wait_time(uint64_t sleep_ns, uint64_t deadline_ns)
{
    const uint64_t now_ns = tt_launch_now_ns();
    if (now_ns >= deadline_ns) {
        return TT_ERR_TIMED_OUT;
    }
    const uint64_t rest_ns = tt_min_u64(sleep_ns, deadline_ns - now_ns);
    const struct timespec rest = {.tv_sec = (time_t)(rest_ns / ns_per_s),
                                  .tv_nsec = (long)(rest_ns % ns_per_s)};
    (void)nanosleep(&rest, NULL); /* a signal ends it early; the caller checks again */
    return TT_OK;
}
