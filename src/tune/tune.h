/* SPDX-License-Identifier: Apache-2.0
 *
 * tune.h - the door of this folder: costs of calls, as a table and as a line; settings with the
 * least cost.
 *
 * Layer:   tune; may include base/ only. No I/O, no clock.
 * Threads: pure.
 * Memory:  the caller's.
 */
#ifndef TUTTI_TUNE_TUNE_H
#define TUTTI_TUNE_TUNE_H

#include "tune/costs.h"
#include "tune/gauss.h"
#include "tune/linear.h"
#include "tune/tuner.h"

#endif
