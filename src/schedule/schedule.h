/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.h - the door of this folder: in which order communication happens.
 *
 * Layer:   schedule; may include tune/ and base/.
 * Threads: see each header; nothing here starts a thread, sleeps or reads a clock.
 * Memory:  see each header; always from an allocator that is passed in.
 */
#ifndef TUTTI_SCHEDULE_SCHEDULE_H
#define TUTTI_SCHEDULE_SCHEDULE_H

#include "schedule/name_table.h"
#include "schedule/order_text.h"
#include "schedule/overlap.h"
#include "schedule/pacer.h"
#include "schedule/proxy.h"
#include "schedule/scheduler.h"
#include "schedule/step.h"
#include "schedule/task.h"

#endif
