/* SPDX-License-Identifier: Apache-2.0
 *
 * family.h - rank, size and rendezvous of this process, from the launcher's variables.
 *
 * Every launcher family is one row of the table in families.c. The first row whose variables are
 * present wins; the others are recorded as ignored, so that one line can report the choice.
 *
 * Layer:   launch.
 * Threads: pure over the lookup; the default lookup is getenv and shares its rules.
 * Memory:  an identity is a plain value that points at static texts only.
 */
#ifndef TUTTI_LAUNCH_FAMILY_H
#define TUTTI_LAUNCH_FAMILY_H

#include <stddef.h>
#include <stdint.h>

#include "launch/rendezvous.h"

enum {
    TT_LAUNCH_SIZE_MAX = 1 << 20,
    TT_LAUNCH_FAMILIES_MAX = 24,
    TT_LAUNCH_JOB_ID_BYTES = 256,
    TT_LAUNCH_WARNING_BYTES = 768,
    TT_LAUNCH_DESCRIPTION_BYTES = 512,
    TT_LAUNCH_NOT_TOLD = -1,
};

/* Where variables come from: the process, or a test's list. */
typedef struct tt_launch_source {
    const char *(*lookup)(void *context, const char *variable); /* NULL when not set */
    void *context;
    const char *command; /* this program's command line, for advice; may be NULL */
} tt_launch_source;

typedef struct tt_launch_identity {
    uint32_t rank;
    uint32_t size;

    /* As the launcher set them, or TT_LAUNCH_NOT_TOLD. Hints: the true ones are computed from host
     * ids. */
    int32_t local_rank;
    int32_t local_size;
    int32_t cross_rank;
    int32_t cross_size;

    const char *family;   /* "torchrun", ..., or "none" */
    const char *evidence; /* the variables it was recognised by: "TORCHELASTIC_*" */
    const char *ignored[TT_LAUNCH_FAMILIES_MAX];
    size_t ignored_count;

    tt_launch_rendezvous rendezvous;
    /* The same text on every rank, never empty. A PMI launcher that names no job in the
     * environment (MPICH) leaves it equal for all jobs of a user; tt_launch_pmi_job differs. */
    char job_id[TT_LAUNCH_JOB_ID_BYTES];
    uint32_t incarnation;                  /* restart count, 0 when not set */
    char warning[TT_LAUNCH_WARNING_BYTES]; /* empty, or one line to log */
} tt_launch_identity;

/* getenv, and the command line of this process, which is written to `command_out`. */
tt_launch_source tt_launch_source_process(char *command_out, size_t command_bytes);

/* The variable's value; NULL when it is not set or empty. */
const char *tt_launch_source_get(const tt_launch_source *source, const char *variable);

/* TT_ERR_BAD_CONFIG, with culprit and cure in `why`, for a missing variable, a value that is not a
 * number, a rank not below the size, or a size above 1 without a rendezvous.
 * `*identity_out` is set only on TT_OK. */
tt_status tt_launch_identify(const tt_launch_source *source, tt_launch_identity *identity_out,
                             tt_launch_why *why);

/* Name and evidence of the index-th row, in order of precedence; NULL beyond the last. */
const char *tt_launch_family_at(size_t index, const char **evidence_out);

/* "joined by torchrun (TORCHELASTIC_*); ignored: slurm" */
void tt_launch_describe(const tt_launch_identity *identity,
                        char text_out[TT_LAUNCH_DESCRIPTION_BYTES]);

#endif
