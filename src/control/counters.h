/* SPDX-License-Identifier: Apache-2.0
 *
 * counters.h - what a machine counts.
 *
 * Layer:   control; part of its door.
 * Threads: as control.h.
 * Memory:  none.
 */
#ifndef TUTTI_CONTROL_COUNTERS_H
#define TUTTI_CONTROL_COUNTERS_H

#include <stdint.h>

typedef struct tt_control_counters {
    uint64_t ops_finished, ops_failed;
    uint64_t frames_received, frames_dropped;
    uint64_t bundles, packed_bytes; /* batches of small named tensors */
    uint64_t launched;              /* ops that an engine was given */
    uint64_t queued_ns;             /* sums over ops: from submission to the beginning */
    uint64_t negotiation_ns;        /* of tickets, from submission until agreed */
    uint64_t waiting_ns;            /* from the beginning until a frame of each partner arrived */
    uint64_t exchange_ns;           /* from there to the end */
    uint64_t held, demanded; /* gradients that waited for credit; that began on a peer's demand */
    uint64_t overtaken;      /* ops that began after one that was submitted later */
    uint64_t busy_ns;        /* time with a gradient in flight */
    uint64_t gradient_bytes; /* of gradients that succeeded */
    uint64_t copy_ns;        /* of small tensors into bundles and out of them */
    uint64_t coded_calls;    /* that succeeded; of them: */
    uint64_t coded_bytes;    /* of their tensors */
    uint64_t wire_bytes;     /* of these tensors, coded once */
    uint64_t coding_ns;      /* encoding, adding and decoding */
    uint64_t uncoded;        /* elements that were NaN or infinite, or in a block with such */
} tt_control_counters;

#endif
