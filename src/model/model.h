/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h - the door of this folder: training steps on graphs and traces, planned and evaluated.
 *
 * Not part of the library: the command line, benchmarks and tests link it.
 *
 * Layer:   model; may include schedule/, tune/ and base/.
 * Threads: see each header; nothing here starts a thread, sleeps or reads a clock.
 * Memory:  see each header; always from an allocator that is passed in.
 */
#ifndef TUTTI_MODEL_MODEL_H
#define TUTTI_MODEL_MODEL_H

#include "model/evaluate.h"
#include "model/first_use.h"
#include "model/graph.h"
#include "model/graph_run.h"
#include "model/network.h"
#include "model/policy/policy.h"
#include "model/scratch.h"
#include "model/transfer_plan.h"
#include "model/workload.h"

#endif
