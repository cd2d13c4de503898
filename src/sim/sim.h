/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.h - the door of this folder: what a training job would do on a cluster that is modelled.
 *
 * The driver under the seam that runs whole machines in one process is platform/sim.h.
 *
 * Layer:   sim; may include model and all layers below api. For cli, bench and tests alone.
 * Threads: see each header.
 * Memory:  see each header.
 */
#ifndef TUTTI_SIM_SIM_H
#define TUTTI_SIM_SIM_H

#include "sim/closed/agreement.h"
#include "sim/closed/closed_time.h"
#include "sim/closed/nccl_time.h"
#include "sim/closed/server_time.h"
#include "sim/cluster.h"
#include "sim/event_queue.h"
#include "sim/fabric.h"
#include "sim/fabric_network.h"
#include "sim/machines/machines.h"
#include "sim/machines/named_step.h"
#include "sim/moves.h"
#include "sim/strategy/launch_times.h"
#include "sim/strategy/strategy.h"
#include "sim/train/job.h"
#include "sim/train/rank_noise.h"
#include "sim/train/rank_replay.h"
#include "sim/train/trainer.h"
#include "sim/train/walked_wire.h"
#include "sim/train/whole_job.h"

#endif
