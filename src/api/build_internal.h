/* SPDX-License-Identifier: Apache-2.0
 *
 * build_internal.h - state while a context is being built.
 *
 * Layer:   api, private.
 * Threads: the one that called tutti_init.
 * Memory:  on the stack of tt_build.
 */
#ifndef TUTTI_API_BUILD_INTERNAL_H
#define TUTTI_API_BUILD_INTERNAL_H

#include "api/api_internal.h"

/* Options take precedence over the environment. */
typedef struct tt_build_source {
    const tutti_options *options;
    char rank[16], size[16], servers[16];
} tt_build_source;

typedef struct tt_build_work {
    tutti_context *context;
    const tutti_options *options;
    tt_text *why;
    tt_build_source variables;
    tt_launch_source source;
    char command[512];
    tt_launch_identity identity; /* among all processes, servers included */
    tt_launch_servers servers;
    tt_secret secret;
    tt_mesh mesh;
    tt_real_peer *peers;
    bool engine_meets;             /* TUTTI_RENDEZVOUS=mpi, or pmix */
    bool has_own_mpi;              /* the program itself has loaded an MPI */
    const tutti_plugin *transport; /* NULL: our own links */
    tt_outside *outside;
    /* A requested plugin cannot be loaded: reported after rendezvous, so that ranks with and
     * without the plugin all fail with the reason. */
    tt_status refused; /* TT_OK: nothing is refused */
    tt_text refusal;
    bool is_miscast; /* refused because it is no process of the role it joins as */
} tt_build_work;

/* A variable, from the options or the environment; `user` is a tt_build_source. */
const char *tt_build_lookup(void *user, const char *name);

/* identify.c */
/* Keep `work->why` as the refusal: it is reported after rendezvous. */
void tt_build_put_off(tt_build_work *work, tt_status status);
/* Can a rank that will be refused still take part in rendezvous? Not if an MPI of the program may
 * use the launcher's PMI already. */
bool tt_build_can_meet(const tt_build_work *work);
/* The peers' error, if ranks differ, then this rank's. */
tt_status tt_build_refuse(tt_build_work *work);
/* The plugin of TUTTI_TRANSPORT, unless it names one of ours. */
tt_status tt_build_choose_transport(tt_build_work *work);
/* Tag of this rank's plugin, which ranks compare at rendezvous; zeros: no plugin. */
void tt_build_tag(const tt_build_work *work, char tag_out[TUTTI_PLUGIN_TAG_BYTES]);
/* Which engine is requested, and does it carry only the rendezvous? */
tt_status tt_build_choose_engine(tt_build_work *work);
/* Rank and size, from the launcher or the engine. */
tt_status tt_build_find_identity(tt_build_work *work);
/* Worker or server? A process that is not what it was called as is refused after rendezvous. */
tt_status tt_build_find_role(tt_build_work *work);

/* role.c */
/* Rank and size of the context and of its log lines. */
void tt_build_take_names(tt_build_work *work);
/* The places of workers among workers, of a server alone. */
void tt_build_take_places(tt_build_work *work);
/* The world that the context's collectives see; `host_of` has room for all processes. */
tt_world tt_build_world(const tt_build_work *work, uint32_t *host_of);
/* From now on the machine gets the driver's upcalls; in jobs with servers through tt_sync. */
tt_status tt_build_attach(tt_build_work *work);

/* links.c */
/* A link to every peer of the mesh, into work->peers. */
tt_status tt_build_links(tt_build_work *work);

#endif
