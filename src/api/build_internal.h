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
    tt_launch_source source;
    char command[512];
    tt_launch_identity identity;
    tt_secret secret;
    tt_mesh mesh;
    tt_real_peer *peers;
    bool engine_meets;             /* TUTTI_RENDEZVOUS=mpi, or pmix */
    bool has_own_mpi;              /* the program has an MPI, without us */
    const tutti_plugin *transport; /* NULL: our own links */
    tt_outside *outside;
    /* A plugin that was asked for cannot be had: told after the ranks have met, so that both sides
     * learn of it where others have it. */
    tt_status refused; /* TT_OK: not so */
    tt_text refusal;
} tt_build_work;

/* A variable, by the options or the environment; `user` is a tt_build_source. */
const char *tt_build_lookup(void *user, const char *name);

/* identify.c */
/* Take `work->why` as the refusal: the ranks meet before it is told. */
void tt_build_put_off(tt_build_work *work, tt_status status);
/* Can a rank that will be refused meet the others? An MPI of the program's own may speak to the
 * launcher already. */
bool tt_build_can_meet(const tt_build_work *work);
/* What the others said, if they differ, then what is wrong here. */
tt_status tt_build_refuse(tt_build_work *work);
/* The plugin of TUTTI_TRANSPORT, unless it names one of ours. */
tt_status tt_build_choose_transport(tt_build_work *work);
/* What this rank runs on, as ranks compare it when they meet; zeros: nothing from outside. */
void tt_build_tag(const tt_build_work *work, char tag_out[TUTTI_PLUGIN_TAG_BYTES]);
/* Which engine is asked for, and does it only carry the meeting? */
tt_status tt_build_choose_engine(tt_build_work *work);
/* Who this rank is: by the launcher, or by the engine. */
tt_status tt_build_find_identity(tt_build_work *work);

/* links.c */
/* A link to every peer of the mesh, into work->peers. */
tt_status tt_build_links(tt_build_work *work);

#endif
