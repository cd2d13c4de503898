/* SPDX-License-Identifier: Apache-2.0
 *
 * whole_job.h - a job's steps by the machines of all its ranks, negotiation included.
 *
 * Nothing is planned or walked: every rank submits its gradients by name, and its own control
 * agrees, fuses, orders and exchanges them on the modelled network (machines/named_step.h). So
 * ranks that are late, all-reduces that overlap and messages of negotiation share cards as they
 * would. Up to some 2,048 ranks, for jobs that run Tutti.
 *
 * Layer:   sim.
 * Threads: one at a time.
 * Memory:  machines.h.
 */
#ifndef TUTTI_SIM_TRAIN_WHOLE_JOB_H
#define TUTTI_SIM_TRAIN_WHOLE_JOB_H

#include "sim/train/job.h"

/* TT_ERR_BAD_ARGUMENT: the job, or one of its settings, cannot be run so; `why` has the cure. */
tt_status tt_whole_job_check(const tt_job *job, tt_text *why);

/* The job's training, traffic and exchanges; what it does not find out is 0: what a step would take
 * without agreement, and the metrics of one wire. A job that fits memory and passed the check. */
tt_status tt_whole_job_run(const tt_job *job, const tt_rank_noise *noise, double input_us,
                           tt_text *why, tt_job_result *result);

#endif
