/* SPDX-License-Identifier: Apache-2.0
 *
 * family_internal.h - what a row of the launcher table provides.
 *
 * Layer:   launch, private to family.c and families.c.
 * Threads: the table is const.
 * Memory:  static texts only.
 */
#ifndef TUTTI_LAUNCH_FAMILY_INTERNAL_H
#define TUTTI_LAUNCH_FAMILY_INTERNAL_H

#include <stdbool.h>

#include "launch/family.h"

enum {
    TT_LAUNCH_ALTERNATIVES_MAX =
        3, /* names a launcher may use for one value; the first that is set counts */
    TT_LAUNCH_ROLES = 6,
};

typedef enum tt_launch_role {
    TT_LAUNCH_RANK,
    TT_LAUNCH_SIZE,
    TT_LAUNCH_LOCAL_RANK,
    TT_LAUNCH_LOCAL_SIZE,
    TT_LAUNCH_CROSS_RANK,
    TT_LAUNCH_CROSS_SIZE,
} tt_launch_role;

typedef struct tt_launch_family {
    const char *name;     /* as users write it: TUTTI_LAUNCHER=<name> */
    const char *evidence; /* for the one line that names the winner */
    const char *covers;   /* a row that reads the same variables and is then not "ignored" */

    /* All must be set for the row to be present; none given: any rank or size variable is enough.
     */
    const char *markers[TT_LAUNCH_ALTERNATIVES_MAX];
    const char *variables[TT_LAUNCH_ROLES][TT_LAUNCH_ALTERNATIVES_MAX];
    const char *restart_count;

    /* Optional, for launchers without number variables: rank and size of a present row. */
    tt_status (*read)(const tt_launch_source *source, tt_launch_identity *identity,
                      tt_launch_why *why);

    /* Optional check of values: not every process that inherits the variables is a rank. */
    bool (*is_rank)(const tt_launch_source *source);

    /* Fill identity->rendezvous, and job_id and hints where the family knows more. Called for
     * size > 1 only, and only when TUTTI_RENDEZVOUS does not decide. */
    tt_status (*meet)(const tt_launch_source *source, tt_launch_identity *identity,
                      tt_launch_why *why);

    /* Write a job id that is the same on all ranks, or leave it empty. */
    void (*name_job)(const tt_launch_source *source, char *job_id, size_t job_id_bytes);
} tt_launch_family;

extern const tt_launch_family tt_launch_families[];
extern const size_t tt_launch_family_count;

/* A scheduler that starts one process for each node and sets the node's number: no family, since
 * it sets no rank. */
typedef struct tt_launch_scheduler {
    const char *name;
    const char *node_rank;
    const char *node_count; /* NULL: it does not set their number */
    const char *cure;
} tt_launch_scheduler;

extern const tt_launch_scheduler tt_launch_schedulers[];
extern const size_t tt_launch_scheduler_count;

/* The number in `variable`. The error names variable and value if it is not a number from 0 to
 * `value_max`. */
tt_status tt_launch_read_number(const tt_launch_source *source, const char *variable,
                                uint64_t value_max, uint64_t *value_out, tt_launch_why *why);

#endif
