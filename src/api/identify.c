/* SPDX-License-Identifier: Apache-2.0
 *
 * identify.c - which plugins are requested, how ranks that lack them fail, and where rank, size and
 * role come from: the launcher or the engine. */
#include <string.h>

#include "api/build_internal.h"
#include "api/engine_open.h"
#include "base/base.h"

void tt_build_put_off(tt_build_work *work, tt_status status)
{
    if (work->refused == TT_OK) {
        work->refused = status;
        work->refusal = *work->why;
    }
    *work->why = (tt_text){0};
}

tt_status tt_build_refuse(tt_build_work *work)
{
    if (work->is_miscast && strstr(work->why->bytes, " has TUTTI_SERVERS=") != NULL) {
        return work->refused; /* numbers of servers differ, so this rank's own role means nothing */
    }
    if (work->is_miscast) {
        *work->why = (tt_text){0}; /* the peers' error is about this rank */
    }
    tt_text_add(work->why, "%s%s", work->why->length > 0 ? "; this rank: " : "",
                work->refusal.bytes);
    return work->refused;
}

bool tt_build_can_meet(const tt_build_work *work)
{
    const tt_launch_rendezvous_kind kind = work->identity.rendezvous.kind;
    return work->identity.size > 1 && !(work->has_own_mpi && kind == TT_LAUNCH_RENDEZVOUS_PMI) &&
           !(work->context->engine == NULL && kind == TT_LAUNCH_RENDEZVOUS_ENGINE);
}

tt_status tt_build_choose_transport(tt_build_work *work)
{
    static const char *const own[] = {"auto", "shm", "tcp"};
    tt_settings *settings = &work->context->settings;
    const tt_plugin_source source = {.lookup = tt_build_lookup, .user = &work->variables};
    const char *name = tt_settings_transport_name(settings, work->why);
    if (name == NULL) {
        tt_build_put_off(work, TT_ERR_BAD_CONFIG);
        return TT_OK;
    }
    for (size_t i = 0; i < TT_ARRAY_COUNT(own); i++) {
        if (strcmp(name, own[i]) == 0) {
            settings->transport = (int)i;
            return TT_OK;
        }
    }
    tt_text inner = {0};
    settings->transport = TT_TRANSPORT_PLUGIN;
    work->transport = tt_plugin_load(&source, name, TT_PLUGIN_TRANSPORT, &inner);
    if (work->transport == NULL) {
        const bool is_asked = name == settings->transport_name;
        tt_text_add(work->why, "%s=%.64s: %s%s",
                    is_asked ? "TUTTI_TRANSPORT" : "TUTTI_CONTROL_TRANSPORT", name,
                    is_asked ? "not auto, shm or tcp, and " : "", inner.bytes);
        tt_build_put_off(work, TT_ERR_BAD_CONFIG);
    }
    return TT_OK;
}

/* The engine provides rank and size and carries rank 0's address: nothing else need be set. */
static tt_status identify_by_engine(tt_build_work *work)
{
    tutti_context *context = work->context;
    int rank = 0, size = 1;
    TT_TRY(tt_engine_open(context, -1, -1, work->why));
    const tt_status status =
        (tt_status)context->engine_plugin->engine->world(context->engine, &rank, &size);
    work->identity = (tt_launch_identity){
        .rank = (uint32_t)rank,
        .size = (uint32_t)size,
        .local_rank = TT_LAUNCH_NOT_TOLD,
        .local_size = TT_LAUNCH_NOT_TOLD,
        .cross_rank = TT_LAUNCH_NOT_TOLD,
        .cross_size = TT_LAUNCH_NOT_TOLD,
        .family = "engine",
        .evidence = context->engine_plugin->name,
        .rendezvous.kind = size > 1 ? TT_LAUNCH_RENDEZVOUS_ENGINE : TT_LAUNCH_RENDEZVOUS_NONE,
        .job_id = "engine",
    };
    return status;
}

/* Does PMIx carry the rendezvous: because it was requested, or because no other launcher's
 * variables are set? */
static bool is_pmix(tt_build_work *work, const char *meet)
{
    static const char *const others[] = {"TUTTI_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                         "SLURM_PROCID", "RANK"};
    if (meet != NULL) {
        return strcmp(meet, "pmix") == 0 || strcmp(meet, "pmix:") == 0;
    }
    bool is_alone = tt_build_lookup(&work->variables, "PMIX_RANK") != NULL &&
                    tt_build_lookup(&work->variables, "PMIX_NAMESPACE") != NULL &&
                    work->context->settings.engine[0] == 0;
    for (size_t i = 0; i < TT_ARRAY_COUNT(others); i++) {
        is_alone = is_alone && tt_build_lookup(&work->variables, others[i]) == NULL;
    }
    return is_alone;
}

tt_status tt_build_choose_engine(tt_build_work *work)
{
    tutti_context *context = work->context;
    const tt_plugin_source source = {.lookup = tt_build_lookup, .user = &work->variables};
    const char *meet = tt_build_lookup(&work->variables, "TUTTI_RENDEZVOUS");
    const bool by_mpi = meet != NULL && (strcmp(meet, "mpi") == 0 || strcmp(meet, "mpi:") == 0);
    const bool by_pmix = is_pmix(work, meet);
    const bool meets = by_mpi || by_pmix;
    const char *by = by_pmix ? "pmix" : "mpi";
    const char *name = context->settings.engine[0] != 0 ? context->settings.engine : by;
    if (context->settings.engine[0] == 0 && !meets) {
        return TT_OK;
    }
    const char *servers = tt_build_lookup(&work->variables, "TUTTI_SERVERS");
    if (context->settings.engine[0] != 0 && servers != NULL &&
        strspn(servers, "0") != strlen(servers)) {
        tt_text_add(work->why,
                    "TUTTI_ENGINE=%.64s and TUTTI_SERVERS=%.16s exclude each other: the engine's "
                    "world would contain the servers; unset one of them",
                    context->settings.engine, servers);
        return TT_ERR_BAD_CONFIG;
    }
    if (by_pmix && context->settings.engine[0] != 0) {
        tt_text_add(work->why,
                    "TUTTI_RENDEZVOUS=pmix and TUTTI_ENGINE exclude each other: an engine started "
                    "by PMIx brings its own rendezvous; leave out one of them");
        return TT_ERR_BAD_CONFIG;
    }
    work->has_own_mpi = tt_plugin_has_mpi();
    const tt_status status = tt_engine_load(context, &source, name, work->why);
    if (status != TT_OK) {
        tt_build_put_off(work, status);
        return TT_OK;
    }
    context->engine_launches = context->settings.engine[0] != 0;
    work->engine_meets = meets;
    return TT_OK;
}

void tt_build_tag(const tt_build_work *work, char tag_out[TUTTI_PLUGIN_TAG_BYTES])
{
    const tutti_context *context = work->context;
    const bool is_wanted =
        context->settings.engine[0] != 0 || context->settings.transport == TT_TRANSPORT_PLUGIN;
    const tutti_plugin *plugin =
        context->engine_launches ? context->engine_plugin : work->transport;
    memset(tag_out, 0, TUTTI_PLUGIN_TAG_BYTES);
    if (work->refused != TT_OK && is_wanted) {
        memcpy(tag_out, TT_LAUNCH_TAG_MISSING, sizeof(TT_LAUNCH_TAG_MISSING));
    } else if (plugin != NULL) {
        memcpy(tag_out, plugin->tag, TUTTI_PLUGIN_TAG_BYTES);
    }
}

/* Under Hydra (mpirun of MPICH) ranks can compare plugins before MPI waits for all of them, unless
 * the program has an MPI of its own, which may have used the launcher's PMI already. */
static tt_status compare_by_pmi(tt_build_work *work)
{
    char tag[TUTTI_PLUGIN_TAG_BYTES] = "";
    const uint64_t timeout_ms = work->context->settings.start_timeout_ns / 1000000;
    const tt_launch_pmi_side side = {
        .rank = work->identity.rank, .size = work->identity.size, .engine = tag};
    tt_launch_why why = {.text = ""};
    if (work->identity.rendezvous.kind != TT_LAUNCH_RENDEZVOUS_PMI || work->has_own_mpi ||
        tt_build_lookup(&work->variables, "HYDI_CONTROL_FD") == NULL) {
        return TT_OK;
    }
    tt_build_tag(work, tag);
    const tt_status status = tt_launch_pmi_meet_before(&work->source, timeout_ms, &side, &why);
    if (status != TT_OK) {
        tt_text_add(work->why, "%s", why.text);
    }
    return status;
}

/* A rendezvous before the engine opens finds ranks that lack it; but the launcher's PMI serves
 * either us or MPI, and some launchers do not provide rank 0's address. */
tt_status tt_build_find_identity(tt_build_work *work)
{
    const tutti_plugin *plugin = work->context->engine_plugin;
    tt_launch_why why = {.text = ""};
    const bool can_tell = plugin != NULL &&
                          (plugin->engine->flags & TUTTI_ENGINE_BOOTSTRAPS) != 0 &&
                          tt_build_lookup(&work->variables, "TUTTI_RANK") == NULL;
    tt_status status = TT_ERR_BAD_CONFIG;
    if (!work->engine_meets) {
        status = tt_launch_identify(&work->source, &work->identity, &why);
    }
    const bool is_met = status == TT_OK &&
                        work->identity.rendezvous.kind != TT_LAUNCH_RENDEZVOUS_PMI &&
                        work->identity.size > 1;
    if (can_tell && !is_met) {
        if (status == TT_OK) {
            TT_TRY(compare_by_pmi(work));
        }
        return identify_by_engine(work);
    }
    if (status != TT_OK) {
        tt_text_add(
            work->why, "%s",
            why.text[0] != 0
                ? why.text
                : "TUTTI_RENDEZVOUS names an engine, but TUTTI_RANK is set too; unset one of them");
    }
    return status;
}

tt_status tt_build_find_role(tt_build_work *work)
{
    tt_launch_why why = {.text = ""};
    tt_status status = tt_launch_servers_read(&work->source, &work->identity, &work->servers, &why);
    if (status != TT_OK) {
        tt_text_add(work->why, "%s", why.text);
        return status;
    }
    status = tt_launch_servers_check(&work->servers, work->context->is_server, &why);
    if (status != TT_OK) {
        /* The others must not wait for a rank that gives up: it joins, and all fail. */
        tt_text_add(work->why, "%s", why.text);
        tt_build_put_off(work, status);
        work->is_miscast = true;
    }
    return TT_OK;
}
