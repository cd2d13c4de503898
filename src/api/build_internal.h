/* SPDX-License-Identifier: Apache-2.0
 *
 * build_internal.h - what is known while a context is being built.
 *
 * Layer:   api, private.
 * Threads: the one that called tutti_init.
 * Memory:  on the stack of tt_build.
 */
#ifndef TUTTI_API_BUILD_INTERNAL_H
#define TUTTI_API_BUILD_INTERNAL_H

#include "api/api_internal.h"

/* What the options say goes before the environment. */
typedef struct tt_build_source {
    const tutti_options *options;
    char rank[16], size[16];
} tt_build_source;

typedef struct tt_build_work {
    tutti_context *context;
    const tutti_options *options;
    tt_text *why;
    tt_build_source variables;
    tt_join_source source;
    char command[512];
    tt_join_identity identity;
    tt_secret secret;
    tt_mesh mesh;
    tt_real_peer *peers;
    bool engine_meets;             /* TUTTI_RENDEZVOUS=mpi, or pmix */
    bool has_own_mpi;              /* the program has an MPI, without us */
    const tutti_plugin *transport; /* NULL: our own links */
    tt_outside *outside;
} tt_build_work;

/* A variable, by the options or the environment; `user` is a tt_build_source. */
const char *tt_build_lookup(void *user, const char *name);

/* identify.c */
/* Which engine is asked for, and does it only carry the meeting? */
tt_status tt_build_choose_engine(tt_build_work *work);
/* Who this rank is: by the launcher, or by the engine. */
tt_status tt_build_find_identity(tt_build_work *work);

#endif
