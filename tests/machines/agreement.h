/* SPDX-License-Identifier: Apache-2.0
 *
 * agreement.h - do moves and machines tell the same time of a collective?
 *
 * Both run on one model of a network: moves walk what an algorithm does, machines run the control
 * of every rank. Every algorithm that fits runs every collective.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_MACHINES_AGREEMENT_H
#define TUTTI_TESTS_MACHINES_AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A cluster: a model of a network, and where its ranks are. */
typedef struct agreement_layout {
    const char *model;
    uint32_t ranks, per_host, cards;
    bool is_shared; /* buffers are in the arena */
} agreement_layout;

/* A case that is outside of the tolerance, with what was measured: it must stay within a percent
 * of that. */
typedef struct agreement_exception {
    const char *algorithm, *collective;
    agreement_layout layout;
    uint64_t bytes;
    double percent; /* that moves take longer */
    const char *reason;
} agreement_exception;

typedef struct agreement_scope {
    const agreement_layout *layouts;
    size_t layout_count;
    const uint64_t *bytes; /* of a vector, or of all parts of one */
    size_t bytes_count;
    const agreement_exception *exceptions;
    size_t exception_count;
    uint64_t frames_max; /* runs of about more are left out */
} agreement_scope;

/* Fails with every case that is outside of 5 %, below 64 KB of 10 %, and every exception that was
 * not met. */
void agreement_check(const agreement_scope *scope);

#endif
