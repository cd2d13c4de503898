/* SPDX-License-Identifier: Apache-2.0
 *
 * drive.h - which thread runs the machine, and how the others wait: see drive.c.
 *
 * Layer:   api.
 * Threads: any; "baton's holder" where only the holder of the baton may call.
 */
#ifndef TUTTI_API_DRIVE_H
#define TUTTI_API_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "control/control.h"
#include "tutti/tutti.h"

tutti_status tt_drive_start(tutti_context *context);
void tt_drive_stop(tutti_context *context);
/* Take the baton, waiting for it if need be; release it. */
void tt_drive_acquire(tutti_context *context);
bool tt_drive_try_acquire(tutti_context *context);
/* tt_call_away: does a submitted call, or a thread that needs the baton, wait for its holder? */
bool tt_drive_is_called(void *context);
void tt_drive_release(tutti_context *context);
/* Make sure that some thread will drain the queue. */
void tt_drive_notify(tutti_context *context);
/* The same after a call was started, or left in flight, that the caller may be about to wait for.
 */
void tt_drive_started(tutti_context *context);
/* How long a started call may stay in the queue if `starts` calls were started within `passed_ns`.
 */
uint64_t tt_drive_patience_ns(uint64_t passed_ns, unsigned starts);
/* Baton's holder: submit the queued calls. */
void tt_drive_drain(tutti_context *context);
/* Submit the handle's request, in state STARTED, and wait for its end; false: timeout. */
bool tt_drive_run(tutti_handle *handle, uint64_t until_ns);
/* Wait until the handle is done, or `until_ns`; drives if no other thread does. */
bool tt_drive_wait(tutti_handle *handle, uint64_t until_ns);
/* A thread waits for a call that is over already. If it was the last one started, that counts as a
 * wait at once, too: else calls that the progress thread finished quickly would count as never
 * waited for. */
void tt_drive_note_over(tutti_handle *handle);
/* Wait until one of them is done; NULL entries are skipped. */
bool tt_drive_wait_any(tutti_context *context, tutti_handle *const *handles, int count,
                       uint64_t until_ns);
/* Baton's holder: deliver finished calls to their owners; callbacks run without the baton. */
void tt_drive_deliver(tutti_context *context);
/* Baton's holder: wait until every waiting thread has seen its call's end and returned. */
void tt_drive_send_away(tutti_context *context);
/* Called by the machine. */
void tt_drive_finished(tt_request *request);

#endif
