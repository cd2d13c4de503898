/* SPDX-License-Identifier: Apache-2.0
 *
 * deadline.h - deadlines: every blocking call of this layer takes one.
 *
 * Layer:   launch.
 * Threads: pure over the monotonic clock.
 * Memory:  none.
 */
#ifndef TUTTI_LAUNCH_DEADLINE_H
#define TUTTI_LAUNCH_DEADLINE_H

#include <stdint.h>

#include "base/status.h"

/* Monotonic nanoseconds; a deadline is a value of this clock. */
uint64_t tt_launch_now_ns(void);
uint64_t tt_launch_deadline_after_ms(uint64_t timeout_ms);

/* Wait until poll(2) reports any of `events` or a failure of `fd`.
 * TT_OK, TT_ERR_TIMED_OUT, or TT_ERR_SYSTEM with errno set. Signals do not end it early. */
tt_status tt_launch_wait_fd(int fd, short events, uint64_t deadline_ns);

/* Sleep, but never past the deadline; TT_ERR_TIMED_OUT once it has passed. */
tt_status tt_launch_wait_time(uint64_t sleep_ns, uint64_t deadline_ns);

#endif
