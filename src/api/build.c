/* SPDX-License-Identifier: Apache-2.0
 *
 * build.c - the composition root: from the environment to a running machine.
 *
 * Identity (join), secret, mesh, one link per peer, the real driver, the machine. Each step that
 * fails leaves its reason in `why`; tt_build_undo releases all that was built. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/build_internal.h"
#include "api/engine_open.h"
#include "api/measure.h"
#include "api/store/store_calls.h"
#include "base/base.h"
#include "kernel/hash64.h"

/* Errors name a dead rank within a second, even if another rank that may be storing is stopped. */
enum { STOP_NS = 400 * 1000 * 1000 };

/* A few threads saturate a host's memory channels, and the program computes meanwhile. */
enum { HANDS_AUTO_MAX = 4 };

const char *tt_build_lookup(void *user, const char *name)
{
    const tt_build_source *source = user;
    const tutti_options *options = source->options;
    const struct {
        const char *name, *value;
    } given[] = {
        {"TUTTI_RANK", source->rank[0] != 0 ? source->rank : NULL},
        {"TUTTI_SIZE", source->size[0] != 0 ? source->size : NULL},
        {"TUTTI_SERVERS", source->servers[0] != 0 ? source->servers : NULL},
        {"TUTTI_ROLE", source->servers[0] != 0 ? "" : NULL}, /* of the launcher's job */
        {"TUTTI_RENDEZVOUS", options->rendezvous},
        {"TUTTI_JOB_ID", options->job_id},
        {"TUTTI_TRANSPORT", options->transport},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(given); i++) {
        if (given[i].value != NULL && strcmp(given[i].name, name) == 0) {
            return given[i].value;
        }
    }
    return tt_config_environment.lookup(tt_config_environment.user, name);
}

static void forget(void *user, const char *name)
{
    (void)user;
    (void)unsetenv(name);
}

static void random_fill(void *user, uint8_t *bytes, size_t count)
{
    (void)user;
    randombytes_buf(bytes, count);
}

/* ---- steps ---- */

static tt_status load_settings(tt_build_work *work)
{
    tutti_context *context = work->context;
    const tt_config_source source = {.lookup = tt_build_lookup, .user = &work->variables};
    TT_TRY(tt_settings_load(&source, &context->settings, work->why));
    TT_TRY(tt_build_choose_transport(work));
    context->log = (tt_log){.level = context->settings.log_level,
                            .write = work->options->log,
                            .user = work->options->log_user};
    return TT_OK;
}

static void warn_unknown(void *user, const char *name, const char *nearest)
{
    const tutti_context *context = user;
    tt_log_write(&context->log, TT_LOG_WARN, "%s is not a setting of Tutti%s%s%s", name,
                 nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
                 nearest != NULL ? "?" : "");
}

/* A misspelt setting would have no effect. Rank 0 warns for all. */
static void look_for_typos(tt_build_work *work)
{
    const tt_config_table tables[] = {tt_settings_table, tt_launch_user_variables,
                                      tt_launch_launcher_variables};
    if (work->identity.rank == 0) {
        (void)tt_config_find_unknown(tables, TT_ARRAY_COUNT(tables), environ, warn_unknown,
                                     work->context);
    }
}

static tt_status identify(tt_build_work *work)
{
    tutti_context *context = work->context;
    work->source = tt_launch_source_process(work->command, sizeof(work->command));
    work->source.lookup = tt_build_lookup;
    work->source.context = &work->variables;
    TT_TRY(tt_build_choose_engine(work));
    TT_TRY(tt_build_find_identity(work));
    TT_TRY(tt_build_find_role(work));
    tt_build_take_names(work);
    tt_launch_describe(&work->identity, context->family);
    tt_log_write(&context->log, TT_LOG_INFO, "%s", context->family);
    if (work->identity.warning[0] != 0) {
        tt_log_write(&context->log, TT_LOG_WARN, "%s", work->identity.warning);
    }
    look_for_typos(work);
    return TT_OK;
}

/* Under PMI the launcher's key-value space carries a fresh secret, unless one is given. */
static bool takes_secret_from_launcher(tt_build_work *work)
{
    return (work->identity.rendezvous.kind == TT_LAUNCH_RENDEZVOUS_PMI ||
            work->identity.rendezvous.kind == TT_LAUNCH_RENDEZVOUS_ENGINE) &&
           work->options->secret == NULL &&
           tt_build_lookup(&work->variables, "TUTTI_SECRET_FD") == NULL &&
           tt_build_lookup(&work->variables, "TUTTI_SECRET_FILE") == NULL &&
           tt_build_lookup(&work->variables, "TUTTI_SECRET") == NULL;
}

static tt_status find_secret(tt_build_work *work)
{
    if (work->options->secret != NULL) {
        memcpy(work->secret.key, work->options->secret, sizeof(work->secret.key));
        return TT_OK;
    }
    char text[TT_SECRET_TEXT_BYTES] = "";
    const tt_secret_sources sources = {.lookup = tt_build_lookup,
                                       .forget = forget,
                                       .user = &work->variables,
                                       .job_id = work->identity.job_id,
                                       .random = {.fill = random_fill}};
    const tt_status status = tt_secret_find(&sources, &work->secret, text);
    if (status != TT_OK) {
        tt_text_add(work->why, "%s", text);
    } else if (text[0] != 0) {
        tt_log_write(&work->context->log, TT_LOG_WARN, "%s", text);
    }
    return status;
}

/* This rank's segment, made once the number of ranks on this host is known. */
static tt_status make_segment(void *user, uint32_t local_index, uint32_t local_count, int *fd_out)
{
    tt_build_work *work = user;
    tutti_context *context = work->context;
    char why[TT_SEGMENT_WHY_BYTES] = "";
    const tt_segment_config config = {.local_index = local_index,
                                      .local_count = local_count,
                                      .ring_bytes = (uint32_t)context->settings.ring_bytes,
                                      .arena_bytes = context->settings.arena_bytes};
    tt_segment *segment = NULL;
    const tt_status status = tt_segment_create(&config, &segment, why);
    if (status != TT_OK) {
        if (context->settings.transport == TT_TRANSPORT_SHM || local_count > 1) {
            tt_text_add(work->why, "shared memory: %s; TUTTI_TRANSPORT=tcp needs none", why);
            return status;
        }
        *fd_out = -1;
        return TT_OK;
    }
    tt_process_set_segment(context, segment);
    *fd_out = tt_segment_descriptor(segment);
    return TT_OK;
}

/* Can this process make shared memory? Peers learn the answer before links are chosen. */
static tt_status can_share(tt_build_work *work, bool *can_out)
{
    const tutti_context *context = work->context;
    const tt_segment_config config = {.local_index = 0,
                                      .local_count = 1,
                                      .ring_bytes = TT_SEGMENT_RING_BYTES_MIN,
                                      .arena_bytes = 4 * 1024 * 1024};
    char why[TT_SEGMENT_WHY_BYTES] = "";
    tt_segment *probe = NULL;
    *can_out = false;
    if (context->settings.transport == TT_TRANSPORT_TCP || work->transport != NULL) {
        return TT_OK;
    }
    const tt_status status = tt_segment_create(&config, &probe, why);
    if (status != TT_OK && context->settings.transport == TT_TRANSPORT_SHM) {
        tt_text_add(work->why,
                    "%s; TUTTI_TRANSPORT=shm needs shared memory, auto falls back to TCP", why);
        return status;
    }
    if (status != TT_OK) {
        tt_log_write(&context->log, TT_LOG_WARN, "no shared memory (%s): using TCP", why);
        return TT_OK;
    }
    tt_segment_release(probe);
    *can_out = true;
    return TT_OK;
}

/* Settings that must be equal on all ranks: frames and negotiation depend on them. */
static const char *const agreed_names[TT_MESH_SETTINGS_MAX] = {"ALGORITHM",
                                                               "SEGMENT",
                                                               "CONTROL_TRANSPORT",
                                                               "EAGER",
                                                               "INTEGRITY",
                                                               "SOCKETS",
                                                               "RAILS",
                                                               "GROUPS",
                                                               "CONTROL",
                                                               "CACHE_CAPACITY",
                                                               "STEPS_TO_PLAN",
                                                               "FUSE",
                                                               "FUSE_BATCH",
                                                               "SCHEDULE",
                                                               "CREDIT",
                                                               "ORDER",
                                                               "TUNE",
                                                               "RULES, TUTTI_CODEC",
                                                               "SUM",
                                                               "TRANSPORT"};

static uint64_t hash_of(const char *text)
{
    return tt_hash64(text, strlen(text), 5);
}

static tt_mesh_settings agreed_settings(const tt_settings *settings)
{
    const uint64_t values[] = {hash_of(settings->algorithm),
                               settings->segment_bytes,
                               settings->control_transport == TT_CONTROL_TRANSPORT_MPI,
                               settings->eager_bytes,
                               (uint64_t)settings->integrity,
                               (uint64_t)settings->sockets,
                               hash_of(settings->rails),
                               hash_of(settings->groups),
                               (uint64_t)settings->control,
                               (uint64_t)settings->cache_capacity,
                               (uint64_t)settings->steps_to_plan,
                               settings->fuse_bytes,
                               settings->bundle_bytes,
                               (uint64_t)settings->schedule,
                               settings->credit_bytes,
                               settings->order[0] != 0,
                               settings->tunes,
                               tt_rules_are_set(settings),
                               (uint64_t)settings->sum,
                               hash_of(settings->transport_name)};
    tt_mesh_settings agreed = {.digest = 0};
    for (size_t i = 0; i < TT_ARRAY_COUNT(values); i++) {
        TT_ASSERT(agreed_names[i] != NULL);
        agreed.digest = tt_hash64_mix(agreed.digest, values[i]);
        agreed.parts[i] = (uint16_t)tt_hash64_mix(i, values[i]);
    }
    return agreed;
}

/* The caller's, or the launcher's, which stays open for the next tutti_init of this process. */
static int given_listener(const tt_build_work *work)
{
    const tutti_options *options = work->options;
    if (work->identity.rank == 0 && options->struct_bytes >= offsetof(tutti_options, updates) &&
        options->listen_fd > 0) {
        return fcntl(options->listen_fd, F_DUPFD_CLOEXEC, 0);
    }
    const char *value =
        work->identity.rank == 0 && work->options->rendezvous == NULL
            ? tt_build_lookup((void *)(uintptr_t)&work->variables, "TUTTI_LISTEN_FD")
            : NULL;
    int64_t fd;
    if (value == NULL || !tt_config_parse_int(value, &fd) || fd < 0 || fd > INT_MAX) {
        return -1;
    }
    (void)fcntl((int)fd, F_SETFD, FD_CLOEXEC);
    return fcntl((int)fd, F_DUPFD_CLOEXEC, 0);
}

static tt_status engine_broadcast(void *user, void *bytes, size_t count)
{
    const tutti_context *context = ((tt_build_work *)user)->context;
    return (tt_status)context->engine_plugin->engine->broadcast(context->engine, bytes, count);
}

static tt_status meet(tt_build_work *work)
{
    tutti_context *context = work->context;
    tt_launch_why why = {.text = ""};
    const double timeout_s = work->options->timeout_s;
    bool can_share_memory = false;
    char *note = NULL;
    const tt_config_source variables = {.lookup = tt_build_lookup, .user = &work->variables};
    tt_facts facts;
    tt_facts_find(&facts);
    TT_TRY(can_share(work, &can_share_memory));
    tt_status status = tt_costs_note(context, &variables, &note, work->why);
    if (status != TT_OK) {
        free(note);
        return status;
    }
    tt_mesh_config config = {
        .identity = &work->identity,
        .source = &work->source,
        .secret = takes_secret_from_launcher(work) ? NULL : work->secret.key,
        .listen_fd = given_listener(work),
        .host_id = tt_mesh_host_id(&work->source),
        .facts = facts,
        .server_count = work->servers.count,
        .serves = tt_launch_servers_is_server(&work->servers) != work->is_miscast,
        .can_share_memory = can_share_memory,
        .has_aes = context->settings.integrity == TT_INTEGRITY_AEAD && tt_seal_has_aes(),
        .stream_count = (uint32_t)context->settings.sockets,
        .settings = agreed_settings(&context->settings),
        .setting_names = agreed_names,
        .timeout_ms =
            (timeout_s > 0.0 ? tt_seconds_to_ns(timeout_s) : context->settings.start_timeout_ns) /
            1000000,
        .log = &context->log,
        .note = note,
        .note_bytes = strlen(note),
        .segment = make_segment,
        .broadcast = context->engine != NULL ? engine_broadcast : NULL,
        .user = work,
    };
    tt_build_tag(work, config.engine);
    status = tt_mesh_establish(&config, &work->mesh, &why);
    free(note);
    if (status != TT_OK && work->why->length == 0) {
        tt_text_add(work->why, "%s", why.text);
    }
    return status;
}

/* ---- driver and machine ---- */

static const tt_host_facts *own_host(const tt_build_work *work)
{
    return &work->mesh.hosts[work->mesh.peers[work->identity.rank].host_index];
}

/* Threads that share this rank's long sums: its share of the cores of its host's ranks, at most the
 * cores it may run on. */
static uint32_t choose_hands(const tt_build_work *work)
{
    int64_t count;
    if (tt_config_parse_int(work->context->settings.threads, &count)) {
        return (uint32_t)count;
    }
    tt_facts own;
    tt_facts_find_cores(&own);
    const uint64_t part = own_host(work)->core_count / own_host(work)->rank_count;
    return (uint32_t)tt_min_u64(tt_min_u64(part, tt_facts_core_count(own.cores)), HANDS_AUTO_MAX);
}

static tt_status make_driver(tt_build_work *work)
{
    tutti_context *context = work->context;
    const tt_real_config config = {
        .rank = work->identity.rank,
        .rank_count = work->identity.size,
        .peers = work->peers,
        .seed = work->mesh.incarnation ^ work->identity.rank,
        .spins =
            context->settings.spins && own_host(work)->core_count >= own_host(work)->rank_count,
        .hands = choose_hands(work),
        .away = {.is_called = tt_drive_is_called, .owner = context},
        .engine = {.ops = context->engine_launches ? context->engine_plugin->engine : NULL,
                   .self = context->engine},
    };
    context->can_watch = config.spins && config.hands > 1;
    tt_real *real;
    const tt_status status = tt_real_create(&config, &real);
    if (status != TT_OK) {
        tt_text_add(work->why, status == TT_ERR_NO_RESOURCE
                                   ? "no descriptor left for epoll; raise the limit of open files "
                                     "(ulimit -n)"
                                   : "out of memory for the driver");
        return status;
    }
    tt_process_set_driver(context, real);
    for (uint32_t rank = 0; rank < work->identity.size; rank++) {
        work->peers[rank].link = NULL; /* adopted */
    }
    return TT_OK;
}

static void report(void *owner, int level, const char *text)
{
    const tutti_context *context = owner;
    tt_log_write(&context->log, level, "%s", text);
}

/* A rank of two jobs, or two ranks that are threads, see one death twice. */
static void peer_down(void *owner, uint32_t rank, const char *text)
{
    tutti_context *context = owner;
    const bool tells = tt_process_tells_death(context, rank);
    tt_log_write(&context->log, tells ? TT_LOG_ERROR : TT_LOG_INFO, "%s", text);
}

static tt_status know_peers(tt_build_work *work)
{
    tt_known_peer *peers = calloc(work->mesh.size, sizeof(*peers));
    if (peers == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    for (uint32_t rank = 0; rank < work->mesh.size; rank++) {
        peers[rank].process = work->mesh.peers[rank].process;
    }
    tt_process_adopt_peers(work->context, work->mesh.incarnation, peers);
    return TT_OK;
}

/* Ranks per host that drive network cards: the smallest number that any host needs. */
static uint32_t choose_rails(const tt_build_work *work)
{
    int64_t count;
    if (tt_config_parse_int(work->context->settings.rails, &count)) {
        return (uint32_t)count;
    }
    uint32_t rails = UINT32_MAX;
    for (uint32_t host = 0; host < work->mesh.worker_host_count; host++) {
        rails = (uint32_t)tt_min_u64(rails, tt_facts_rails(&work->mesh.hosts[host]));
    }
    return rails;
}

static tt_status make_machine(tt_build_work *work)
{
    tutti_context *context = work->context;
    const tt_settings *settings = &context->settings;
    uint32_t *host_of = calloc(work->mesh.size, sizeof(*host_of));
    if (host_of == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    context->is_crowded = tt_costs_is_crowded(&work->mesh);
    tt_world world = tt_build_world(work, host_of);
    world.rail_max = choose_rails(work);
    tt_control_config config;
    tt_control_config_init(&config);
    config.segment_bytes = (uint32_t)settings->segment_bytes;
    config.eager_bytes_max = (uint32_t)settings->eager_bytes;
    config.stall_ns = settings->stall_ns > 0 ? settings->stall_ns : UINT64_MAX / 2;
    config.deadline_ns = settings->timeout_ns;
    config.stop_ns = STOP_NS;
    config.algorithm = settings->algorithm[0] != 0 ? settings->algorithm : NULL;
    /* An engine's call for a tensor above three quarters of TUTTI_FUSE costs no more than packing
     * it. */
    config.fuse_bytes =
        settings->fuse_bytes - (context->engine_launches ? settings->fuse_bytes / 4 : 0);
    config.bundle_bytes = settings->bundle_bytes;
    config.late_ns = settings->late_ns;
    int64_t groups;
    config.groups = tt_config_parse_int(settings->groups, &groups) ? (uint32_t)groups : UINT32_MAX;
    config.credit_bytes = settings->schedule == TT_SCHEDULE_OFF ? 0 : settings->credit_bytes;
    config.is_fifo =
        settings->schedule == TT_SCHEDULE_FIFO || settings->schedule == TT_SCHEDULE_OFF;
    config.is_paced = config.credit_bytes > 0 || settings->tunes;
    config.negotiate.mode = (tt_negotiate_mode)settings->control;
    config.negotiate.capacity = (uint32_t)settings->cache_capacity;
    config.negotiate.steps_to_plan = (uint32_t)settings->steps_to_plan;
    config.negotiate.cycle_ns = settings->cycle_ns;
    config.negotiate.stall_ns = config.stall_ns;
    config.negotiate.stall_fail_ns = settings->stall_fail_ns;
    const tt_control_listener listener = {
        .owner = context, .report = report, .peer_down = peer_down};
    const tt_status status = tt_control_create(tt_real_platform(context->real), &world, &config,
                                               &listener, &context->control);
    free(host_of);
    return status;
}

static void drop_peers(tt_build_work *work)
{
    for (uint32_t rank = 0; work->peers != NULL && rank < work->identity.size; rank++) {
        if (work->peers[rank].link != NULL) {
            work->peers[rank].link->ops->destroy(work->peers[rank].link);
        }
        if (work->peers[rank].segment != NULL && rank != work->identity.rank) {
            tt_segment_release(work->peers[rank].segment); /* the driver holds its own reference */
        }
    }
    free(work->peers);
}

static tt_status connect_and_create(tt_build_work *work)
{
    work->peers = calloc(work->identity.size, sizeof(*work->peers));
    if (work->peers == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    TT_TRY(tt_build_links(work));
    tt_build_take_places(work);
    if (work->context->engine_plugin != NULL && work->context->engine == NULL) {
        TT_TRY(tt_engine_open(work->context, work->context->rank, work->context->size, work->why));
    }
    TT_TRY(tt_engine_begin(work->context, work->why));
    TT_TRY(make_driver(work));
    TT_TRY(know_peers(work));
    TT_TRY(make_machine(work));
    TT_TRY(tt_build_attach(work));
    return work->context->is_server ? TT_OK : tt_costs_take(work->context, &work->mesh, work->why);
}

tt_status tt_build(tutti_context *context, const tutti_options *options, tt_text *why)
{
    tt_build_work work = {.context = context, .options = options, .why = why};
    work.variables.options = options;
    if (options->rank >= 0) {
        (void)snprintf(work.variables.rank, sizeof(work.variables.rank), "%d", options->rank);
    }
    if (options->size >= 0) {
        (void)snprintf(work.variables.size, sizeof(work.variables.size), "%d", options->size);
    }
    if (options->struct_bytes >= offsetof(tutti_options, updates) && options->servers != 0) {
        (void)snprintf(work.variables.servers, sizeof(work.variables.servers), "%d",
                       options->servers > 0 ? options->servers : 0);
    }
    TT_TRY(tt_own_updates_take(context, options, why));
    if (sodium_init() < 0) {
        tt_text_add(why, "libsodium cannot be initialised");
        return TT_ERR_SYSTEM;
    }
    TT_TRY(load_settings(&work));
    tt_status status = identify(&work);
    if (work.refused != TT_OK && (status != TT_OK || !tt_build_can_meet(&work))) {
        return tt_build_refuse(&work);
    }
    TT_TRY(status);
    const bool needs_secret = work.identity.size > 1 && !takes_secret_from_launcher(&work);
    status = needs_secret ? find_secret(&work) : TT_OK;
    if (status == TT_OK) {
        status = meet(&work);
    }
    if (status == TT_OK) {
        status = work.refused == TT_OK ? connect_and_create(&work) : TT_OK;
        tt_mesh_fini(&work.mesh);
    }
    if (work.refused != TT_OK) {
        status = tt_build_refuse(&work);
    }
    drop_peers(&work);
    tt_secret_wipe(&work.secret);
    return status;
}

void tt_build_undo(tutti_context *context)
{
    tt_real *real = context->real;
    tt_segment *segment = context->segment;
    tt_control *control = context->control;
    const bool has_strays = control != NULL && tt_real_engine_forsake(real);
    const bool is_broken = has_strays || (control != NULL && tt_control_lost_peer(control));
    if (context->sync != NULL) {
        tt_sync_destroy(context->sync);
    }
    if (control != NULL) {
        tt_control_destroy(control);
    }
    tt_process_set_driver(context, NULL);
    tt_process_set_segment(context, NULL);
    /* Memory that the engine may still write to stays mapped. Else the driver has the last
     * reference. */
    if (segment != NULL && !has_strays) {
        tt_segment_release(segment);
    }
    if (real != NULL) {
        tt_real_close(real, 0);
    }
    tt_engine_close(context, is_broken);
    context->control = NULL;
    context->sync = NULL;
}
