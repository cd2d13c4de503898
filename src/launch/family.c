/* SPDX-License-Identifier: Apache-2.0
 *
 * family.c - read the table: which families are present, which one wins, are its numbers valid.
 *
 * Invariants:
 *  (1) A family that is present in part is an error, never a silent size of 1: such a job hangs.
 *  (2) Only the winner is held to (1): a stray variable of an ignored family does no harm.
 */
#include "launch/family.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "launch/family_internal.h"

enum { QUOTED_BYTES_MAX = 80 };

static const char *lookup_getenv(void *context, const char *variable)
{
    (void)context;
    return getenv(variable);
}

tt_launch_source tt_launch_source_process(char *command_out, size_t command_bytes)
{
    TT_ASSERT(command_bytes > 0);
    ssize_t read_bytes = 0;
    const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        read_bytes = read(fd, command_out, command_bytes - 1);
        close(fd);
    }
    const size_t end = read_bytes > 0 ? (size_t)read_bytes : 0;
    for (size_t i = 0; i + 1 < end; i++) {
        /* Arguments end in NUL; control characters are not repeated on a terminal. */
        if ((unsigned char)command_out[i] < ' ' || command_out[i] == 0x7f) {
            command_out[i] = ' ';
        }
    }
    command_out[end] = '\0';
    return (tt_launch_source){.lookup = lookup_getenv, .command = end > 0 ? command_out : NULL};
}

const char *tt_launch_source_get(const tt_launch_source *source, const char *variable)
{
    const char *value = source->lookup(source->context, variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

tt_status tt_launch_read_number(const tt_launch_source *source, const char *variable,
                                uint64_t value_max, uint64_t *value_out, tt_launch_why *why)
{
    const char *text = tt_launch_source_get(source, variable);
    if (text == NULL) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "%s is not set", variable);
    }
    if (!tt_launch_parse_number(text, strlen(text), value_max, value_out)) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "%s='%.*s' is not a number from 0 to %" PRIu64, variable,
                              QUOTED_BYTES_MAX, text, value_max);
    }
    return TT_OK;
}

/* The first alternative that is set, or NULL. */
static const char *variable_of(const tt_launch_source *source, const tt_launch_family *family,
                               tt_launch_role role)
{
    for (size_t i = 0; i < TT_LAUNCH_ALTERNATIVES_MAX; i++) {
        const char *variable = family->variables[role][i];
        if (variable != NULL && tt_launch_source_get(source, variable) != NULL) {
            return variable;
        }
    }
    return NULL;
}

static bool is_present(const tt_launch_source *source, const tt_launch_family *family)
{
    if (family->is_rank != NULL && !family->is_rank(source)) {
        return false;
    }
    for (size_t i = 0; i < TT_LAUNCH_ALTERNATIVES_MAX && family->markers[i] != NULL; i++) {
        if (tt_launch_source_get(source, family->markers[i]) == NULL) {
            return false;
        }
    }
    return family->markers[0] != NULL || variable_of(source, family, TT_LAUNCH_RANK) != NULL ||
           variable_of(source, family, TT_LAUNCH_SIZE) != NULL;
}

static tt_status refuse_half(const tt_launch_source *source, const tt_launch_family *family,
                             tt_launch_why *why)
{
    const char *rank = variable_of(source, family, TT_LAUNCH_RANK);
    const char *size = variable_of(source, family, TT_LAUNCH_SIZE);
    const char *there = rank != NULL ? rank : size;
    if (there == NULL) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "launcher %s: neither %s nor %s is set; start through the launcher, "
                              "set both, or choose another with TUTTI_LAUNCHER",
                              family->name, family->variables[TT_LAUNCH_RANK][0],
                              family->variables[TT_LAUNCH_SIZE][0]);
    }
    return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                          "launcher %s: %s='%.*s' is set but %s is missing; set both or neither",
                          family->name, there, QUOTED_BYTES_MAX,
                          tt_launch_source_get(source, there),
                          family->variables[rank != NULL ? TT_LAUNCH_SIZE : TT_LAUNCH_RANK][0]);
}

static tt_status read_rank_and_size(const tt_launch_source *source, const tt_launch_family *family,
                                    tt_launch_identity *identity, tt_launch_why *why)
{
    const char *rank_variable = variable_of(source, family, TT_LAUNCH_RANK);
    const char *size_variable = variable_of(source, family, TT_LAUNCH_SIZE);
    uint64_t rank;
    uint64_t size;
    if (family->read != NULL) {
        return family->read(source, identity, why);
    }
    if (rank_variable == NULL || size_variable == NULL) {
        return refuse_half(source, family, why); /* (1) */
    }
    TT_TRY(tt_launch_read_number(source, rank_variable, TT_LAUNCH_SIZE_MAX - 1, &rank, why));
    TT_TRY(tt_launch_read_number(source, size_variable, TT_LAUNCH_SIZE_MAX, &size, why));
    if (rank >= size) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "%s=%" PRIu64 " is not below %s=%" PRIu64
                              "; ranks count from 0 to size - 1",
                              rank_variable, rank, size_variable, size);
    }
    identity->rank = (uint32_t)rank;
    identity->size = (uint32_t)size;
    return TT_OK;
}

static tt_status read_hint(const tt_launch_source *source, const tt_launch_family *family,
                           tt_launch_role role, int32_t *hint, tt_launch_why *why)
{
    const char *variable = variable_of(source, family, role);
    uint64_t value;
    if (variable == NULL) {
        return TT_OK;
    }
    TT_TRY(tt_launch_read_number(source, variable, TT_LAUNCH_SIZE_MAX, &value, why));
    *hint = (int32_t)value;
    return TT_OK;
}

static tt_status read_numbers(const tt_launch_source *source, const tt_launch_family *family,
                              tt_launch_identity *identity, tt_launch_why *why)
{
    TT_TRY(read_rank_and_size(source, family, identity, why));
    TT_TRY(read_hint(source, family, TT_LAUNCH_LOCAL_RANK, &identity->local_rank, why));
    TT_TRY(read_hint(source, family, TT_LAUNCH_LOCAL_SIZE, &identity->local_size, why));
    TT_TRY(read_hint(source, family, TT_LAUNCH_CROSS_RANK, &identity->cross_rank, why));
    TT_TRY(read_hint(source, family, TT_LAUNCH_CROSS_SIZE, &identity->cross_size, why));

    const char *restart = "TUTTI_INCARNATION";
    if (tt_launch_source_get(source, restart) == NULL) {
        restart = family->restart_count;
    }
    if (restart != NULL && tt_launch_source_get(source, restart) != NULL) {
        uint64_t count;
        TT_TRY(tt_launch_read_number(source, restart, UINT32_MAX, &count, why));
        identity->incarnation = (uint32_t)count;
    }
    return TT_OK;
}

static tt_status find_rendezvous(const tt_launch_source *source, const tt_launch_family *family,
                                 tt_launch_identity *identity, tt_launch_why *why)
{
    const char *chosen = tt_launch_source_get(source, "TUTTI_RENDEZVOUS");
    if (identity->size == 1) {
        return TT_OK; /* a job of one rank needs none, whatever the launcher sets */
    }
    if (chosen == NULL) {
        return family->meet(source, identity, why);
    }
    tt_launch_why inner;
    if (tt_launch_rendezvous_parse(chosen, &identity->rendezvous, &inner) != TT_OK) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "TUTTI_RENDEZVOUS: %.600s", inner.text);
    }
    if (identity->rendezvous.kind == TT_LAUNCH_RENDEZVOUS_NONE) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "TUTTI_RENDEZVOUS=none, but the job has %u ranks; unset it, or set "
                              "tcp://<host of rank 0>:<port> or file:///<shared path>",
                              identity->size);
    }
    return TT_OK;
}

static void name_job(const tt_launch_source *source, const tt_launch_family *family,
                     tt_launch_identity *identity)
{
    const char *chosen = tt_launch_source_get(source, "TUTTI_JOB_ID");
    if (chosen != NULL) {
        (void)snprintf(identity->job_id, sizeof(identity->job_id), "%s", chosen);
    } else if (family != NULL && family->name_job != NULL) {
        family->name_job(source, identity->job_id, sizeof(identity->job_id));
    }
    if (identity->job_id[0] == '\0') {
        char place[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES];
        tt_launch_rendezvous_format(&identity->rendezvous, place);
        (void)snprintf(identity->job_id, sizeof(identity->job_id), "uid%u-%.200s",
                       (unsigned)getuid(), place);
    }
}

/* A launcher that only runs a PMIx server sets no variable with the size. */
static void tell_of_pmix(const tt_launch_source *source, tt_launch_identity *identity)
{
    const char *rank = tt_launch_source_get(source, "PMIX_RANK");
    if (rank != NULL && identity->warning[0] == '\0' &&
        tt_launch_source_get(source, "PMIX_NAMESPACE") != NULL &&
        tt_launch_source_get(source, "TUTTI_LAUNCHER") == NULL) {
        (void)snprintf(identity->warning, sizeof(identity->warning),
                       "PMIX_RANK=%.32s is set, but only the PMIx server has the job's size; "
                       "install the pmix plugin to join through it (tutti plugin lists plugins)",
                       rank);
    }
}

/* A batch script that forgot srun holds the job's task count, but is one process. */
static void warn_of_lone_batch(const tt_launch_source *source, tt_launch_identity *identity)
{
    const char *tasks = tt_launch_source_get(source, "SLURM_NTASKS");
    const char *job = tt_launch_source_get(source, "SLURM_JOB_ID");
    const char *job_name = tt_launch_source_get(source, "SLURM_JOB_NAME");
    uint64_t count;
    if (tasks == NULL || job == NULL ||
        !tt_launch_parse_number(tasks, strlen(tasks), TT_LAUNCH_SIZE_MAX, &count) || count < 2) {
        return;
    }
    if (job_name != NULL &&
        (strcmp(job_name, "bash") == 0 || strcmp(job_name, "interactive") == 0)) {
        return; /* an interactive shell: one process is intended */
    }
    (void)snprintf(identity->warning, sizeof(identity->warning),
                   "Slurm job %.32s has %" PRIu64 " tasks, but this process was not started by "
                   "srun and so runs alone, as rank 0 of 1; for %" PRIu64
                   " ranks start it with: srun --ntasks=%" PRIu64 " %.500s",
                   job, count, count, count,
                   source->command != NULL ? source->command : "<command>");
}

/* " of N" for a scheduler that sets the number of nodes. False: there is only one, or none is set.
 */
static bool describe_nodes(const tt_launch_source *source, const tt_launch_scheduler *scheduler,
                           char text_out[static 32])
{
    text_out[0] = '\0';
    if (scheduler->node_count == NULL) {
        return true;
    }
    const char *nodes = tt_launch_source_get(source, scheduler->node_count);
    uint64_t count;
    if (nodes == NULL ||
        !tt_launch_parse_number(nodes, strlen(nodes), TT_LAUNCH_SIZE_MAX, &count) || count < 2) {
        return false;
    }
    (void)snprintf(text_out, 32, " of %" PRIu64, count);
    return true;
}

/* Some schedulers number nodes and leave it to a launcher to start ranks there. */
static void warn_of_lone_node(const tt_launch_source *source, tt_launch_identity *identity)
{
    for (size_t i = 0; i < tt_launch_scheduler_count && identity->warning[0] == '\0'; i++) {
        const tt_launch_scheduler *scheduler = &tt_launch_schedulers[i];
        const char *node = tt_launch_source_get(source, scheduler->node_rank);
        char nodes[32];
        if (node == NULL || !describe_nodes(source, scheduler, nodes)) {
            continue;
        }
        (void)snprintf(identity->warning, sizeof(identity->warning),
                       "%s: node %.32s%s (%s), but this process was not started by a launcher "
                       "and so runs alone, as rank 0 of 1; %s",
                       scheduler->name, node, nodes, scheduler->node_rank, scheduler->cure);
    }
}

static const tt_launch_family *family_by_name(const char *name)
{
    for (size_t i = 0; i < tt_launch_family_count; i++) {
        if (strcmp(tt_launch_families[i].name, name) == 0) {
            return &tt_launch_families[i];
        }
    }
    return NULL;
}

static tt_status refuse_name(const char *name, tt_launch_why *why)
{
    (void)tt_launch_fail(why, TT_ERR_BAD_CONFIG, "TUTTI_LAUNCHER='%.*s' is unknown; choose one of",
                         QUOTED_BYTES_MAX, name);
    for (size_t i = 0; i < tt_launch_family_count; i++) {
        tt_launch_append(why->text, sizeof(why->text), " %s", tt_launch_families[i].name);
    }
    tt_launch_append(why->text, sizeof(why->text), " none");
    return TT_ERR_BAD_CONFIG;
}

/* The winner, or NULL for a process without a launcher. */
static tt_status choose(const tt_launch_source *source, const tt_launch_family **winner_out,
                        tt_launch_why *why)
{
    const char *forced = tt_launch_source_get(source, "TUTTI_LAUNCHER");
    *winner_out = NULL;
    if (forced != NULL) {
        *winner_out = family_by_name(forced);
        const bool is_known = *winner_out != NULL || strcmp(forced, "none") == 0;
        return is_known ? TT_OK : refuse_name(forced, why);
    }
    for (size_t i = 0; i < tt_launch_family_count; i++) {
        if (is_present(source, &tt_launch_families[i])) {
            *winner_out = &tt_launch_families[i];
            return TT_OK;
        }
    }
    return TT_OK;
}

static void list_ignored(const tt_launch_source *source, const tt_launch_family *winner,
                         tt_launch_identity *identity)
{
    TT_ASSERT(tt_launch_family_count <= TT_LAUNCH_FAMILIES_MAX);
    for (size_t i = 0; i < tt_launch_family_count; i++) {
        const tt_launch_family *family = &tt_launch_families[i];
        const bool is_covered =
            winner != NULL && winner->covers != NULL && strcmp(winner->covers, family->name) == 0;
        if (family != winner && !is_covered && is_present(source, family)) {
            identity->ignored[identity->ignored_count++] = family->name;
        }
    }
}

tt_status tt_launch_identify(const tt_launch_source *source, tt_launch_identity *identity_out,
                             tt_launch_why *why)
{
    const tt_launch_family *winner;
    tt_launch_identity identity = {
        .size = 1,
        .local_rank = TT_LAUNCH_NOT_TOLD,
        .local_size = TT_LAUNCH_NOT_TOLD,
        .cross_rank = TT_LAUNCH_NOT_TOLD,
        .cross_size = TT_LAUNCH_NOT_TOLD,
        .family = "none",
        .evidence = "",
    };
    TT_TRY(choose(source, &winner, why));
    list_ignored(source, winner, &identity);
    if (winner == NULL) {
        warn_of_lone_batch(source, &identity);
        warn_of_lone_node(source, &identity);
        tell_of_pmix(source, &identity);
    } else {
        identity.family = winner->name;
        identity.evidence = winner->evidence;
        TT_TRY(read_numbers(source, winner, &identity, why));
        TT_TRY(find_rendezvous(source, winner, &identity, why));
    }
    name_job(source, winner, &identity);
    *identity_out = identity;
    return TT_OK;
}

void tt_launch_describe(const tt_launch_identity *identity,
                        char text_out[TT_LAUNCH_DESCRIPTION_BYTES])
{
    if (strcmp(identity->family, "none") == 0) {
        (void)snprintf(text_out, TT_LAUNCH_DESCRIPTION_BYTES, "no launcher: a job of one rank");
    } else {
        (void)snprintf(text_out, TT_LAUNCH_DESCRIPTION_BYTES, "joined by %s (%s)", identity->family,
                       identity->evidence);
    }
    for (size_t i = 0; i < identity->ignored_count; i++) {
        tt_launch_append(text_out, TT_LAUNCH_DESCRIPTION_BYTES, "%s%s",
                         i == 0 ? "; ignored: " : ", ", identity->ignored[i]);
    }
}
