/* SPDX-License-Identifier: Apache-2.0
 *
 * drive.h - which thread runs the machine, and how the others wait: see drive.c.
 *
 * Layer:   api.
 * Threads: any, unless it says baton's holder.
 */
#ifndef TUTTI_API_DRIVE_H
#define TUTTI_API_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "control/control.h"
#include "tutti/tutti.h"

tutti_status tt_drive_start(tutti_context *context);
void tt_drive_stop(tutti_context *context);
/* Take the baton, waiting for it if need be; let it go. */
void tt_drive_acquire(tutti_context *context);
bool tt_drive_try_acquire(tutti_context *context);
/* tt_call_away: does a submitted call, or a thread that needs the baton, wait for its holder? */
bool tt_drive_is_called(void *context);
void tt_drive_release(tutti_context *context);
/* Make sure somebody will look at the queue. */
void tt_drive_notify(tutti_context *context);
/* The same after a call was started, or left open, that the caller may be about to wait for. */
void tt_drive_started(tutti_context *context);
/* How long what was started may lie unseen if `starts` calls were started within `passed_ns`. */
uint64_t tt_drive_patience_ns(uint64_t passed_ns, unsigned starts);
/* Baton's holder: submit what is queued. */
void tt_drive_drain(tutti_context *context);
/* Submit the handle's request, in state STARTED, and wait for its end; false: time is out. */
bool tt_drive_run(tutti_handle *handle, uint64_t until_ns);
/* Until the handle is done, or `until_ns`; drives if nobody else does. */
bool tt_drive_wait(tutti_handle *handle, uint64_t until_ns);
/* Somebody waits for a call that is over already. If it is of the last start, that counts as a wait
 * at once, too: else what the progress thread was quick with seems never to be waited for. */
void tt_drive_note_over(tutti_handle *handle);
/* Until one of them is done; NULL among them is none. */
bool tt_drive_wait_any(tutti_context *context, tutti_handle *const *handles, int count,
                       uint64_t until_ns);
/* Baton's holder: tell the owners of finished calls; callbacks run without the baton. */
void tt_drive_deliver(tutti_context *context);
/* Baton's holder: let every thread that waits see its call's end and go. */
void tt_drive_send_away(tutti_context *context);
/* Called by the machine. */
void tt_drive_finished(tt_request *request);

#endif
