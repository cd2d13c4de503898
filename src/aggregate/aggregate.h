/* SPDX-License-Identifier: Apache-2.0
 *
 * aggregate.h - the door of this folder: algorithms, the executor that runs them, flow control.
 *
 * Layer:   aggregate; may include platform/, codec/, tune/ and base/.
 * Threads: see each header.
 * Memory:  see each header.
 */
#ifndef TUTTI_AGGREGATE_AGGREGATE_H
#define TUTTI_AGGREGATE_AGGREGATE_H

#include "aggregate/algorithm.h"
#include "aggregate/choice.h"
#include "aggregate/coding.h"
#include "aggregate/copied_stages.h"
#include "aggregate/exec.h"
#include "aggregate/flow.h"
#include "aggregate/frame.h"
#include "aggregate/scheme.h"
#include "aggregate/stage.h"

#endif
