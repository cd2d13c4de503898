/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.h - the door of this folder: in which order communication happens.
 *
 * Layer:   schedule; may include tune/, aggregate/, codec/, platform/ and base/.
 * Threads: see each header; nothing here starts a thread, sleeps or tells the time.
 * Memory:  see each header; always from an allocator that is passed in.
 */
#ifndef TUTTI_SCHEDULE_SCHEDULE_H
#define TUTTI_SCHEDULE_SCHEDULE_H

#include "schedule/evaluate.h"
#include "schedule/graph.h"
#include "schedule/graph_run.h"
#include "schedule/model.h"
#include "schedule/order.h"
#include "schedule/order_text.h"
#include "schedule/plan.h"
#include "schedule/policy.h"
#include "schedule/proxy.h"
#include "schedule/scheduler.h"
#include "schedule/scratch.h"
#include "schedule/task.h"
#include "schedule/workload.h"

#endif
