/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_meet.c - phase 1: all ranks send their record to rank 0 and receive the table; READY, GO and
 * FAILED use the same connections until the mesh is complete.
 */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/text.h"
#include "mesh/mesh_internal.h"

enum { RANKS_LISTED_MAX = 16 };

/* "1, 4, 7 and 12 more": the ranks whose mark is `wanted`. */
static uint32_t list_ranks(const bool *marks, uint32_t size, bool wanted, tt_text *text)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        if (marks[rank] == wanted && count++ < RANKS_LISTED_MAX) {
            tt_text_add(text, "%s%u", count == 1 ? "" : ", ", rank);
        }
    }
    if (count > RANKS_LISTED_MAX) {
        tt_text_add(text, " and %u more", count - RANKS_LISTED_MAX);
    }
    return count;
}

static void root_timed_out(tt_mesh_work *work)
{
    const bool *marks = work->linking ? work->ready : work->joined;
    tt_text missing = {.length = 0};
    tt_text present = {.length = 0};
    const uint32_t count = list_ranks(marks, work->mesh->size, false, &missing);
    (void)list_ranks(marks, work->mesh->size, true, &present);
    const char *cure = work->linking
                           ? "check firewalls, or choose TUTTI_INTERFACE and TUTTI_PORT_RANGE"
                           : "start every rank with this rendezvous, or raise TUTTI_START_TIMEOUT";
    const bool hint = work->last_refusal[0] != '\0';
    (void)tt_mesh_work_fail(
        work, TT_ERR_TIMED_OUT, "rank%s %s did not %s within %g s (%s: %s); %s%s",
        count == 1 ? "" : "s", missing.bytes, work->linking ? "reach all peers" : "join",
        (double)work->timeout_ms / 1000.0, work->linking ? "connected" : "joined", present.bytes,
        hint ? "the last connection refused was from " : cure, hint ? work->last_refusal : "");
}

void tt_mesh_meet_timed_out(tt_mesh_work *work)
{
    if (tt_mesh_work_is_root(work)) {
        root_timed_out(work);
        return;
    }
    const bool met = work->root->phase == TT_MESH_PHASE_TALKING;
    char meet[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES];
    tt_launch_rendezvous_format(&work->config->identity->rendezvous, meet);
    (void)tt_mesh_work_fail(work, TT_ERR_TIMED_OUT,
                            "rank %u %s rank 0 at %.200s within %g s%s%s; check that rank 0 runs%s",
                            work->mesh->rank, met ? "received no GO from" : "could not reach", meet,
                            (double)work->timeout_ms / 1000.0,
                            met ? "" : "; last attempt: ", met ? "" : work->root->cause,
                            met ? "" : " and no firewall blocks it, or set TUTTI_INTERFACE");
}

/* False: no memory. */
static bool keep_note(tt_mesh_work *work, const uint8_t *note, size_t bytes)
{
    TT_ASSERT(bytes <= (size_t)TT_MESH_NOTE_BYTES_MAX);
    work->mesh->note = malloc(bytes + 1);
    if (work->mesh->note == NULL) {
        return false;
    }
    if (bytes > 0) {
        memcpy(work->mesh->note, note, bytes);
    }
    work->mesh->note[bytes] = '\0';
    work->mesh->note_bytes = bytes;
    return true;
}

/* Rank 0 sends the table to all ranks, and starts its own links. */
static void hand_out_table(tt_mesh_work *work)
{
    const size_t table_bytes = tt_mesh_table_bytes(work->mesh->size);
    const size_t note_bytes = work->config->note_bytes;
    const size_t bytes = table_bytes + note_bytes;
    uint8_t *table = malloc(bytes);
    if (table == NULL || !keep_note(work, (const uint8_t *)work->config->note, note_bytes)) {
        free(table);
        (void)tt_mesh_work_fail(work, TT_ERR_NO_MEMORY, "no memory for the table of ranks");
        return;
    }
    randombytes_buf(&work->mesh->incarnation, sizeof(work->mesh->incarnation));
    work->mesh->incarnation &= INT64_MAX; /* never TT_HELLO_INCARNATION_UNKNOWN */
    tt_mesh_table_encode(work->mesh->incarnation, work->records, work->mesh->size, table);
    if (note_bytes > 0) {
        memcpy(table + table_bytes, work->config->note, note_bytes);
    }
    for (size_t i = 0; i < work->connection_count && work->status == TT_OK; i++) {
        tt_mesh_connection *each = work->connections[i];
        if (each->phase == TT_MESH_PHASE_TALKING &&
            tt_mesh_message_queue(each, TT_MESH_TABLE, table, bytes) != TT_OK) {
            (void)tt_mesh_work_fail(work, TT_ERR_NO_MEMORY, "no memory for the table of ranks");
        }
    }
    free(table);
    if (work->status == TT_OK) {
        tt_mesh_link_start(work);
    }
}

/* With two hosts, a rank on loopback cannot be reached: fail now rather than by a timeout later. */
static void check_reach(tt_mesh_work *work)
{
    for (uint32_t rank = 1; rank < work->mesh->size; rank++) {
        const tt_mesh_record *record = &work->records[rank];
        for (uint32_t other = 0; other < work->mesh->size; other++) {
            if (tt_launch_address_is_loopback(&record->address) && other > rank &&
                strcmp(work->records[other].host, record->host) != 0 &&
                work->records[other].host_id != record->host_id) {
                (void)tt_mesh_work_fail(
                    work, TT_ERR_BAD_CONFIG,
                    "rank %u on %s listens on loopback, where rank %u on %s cannot reach it; "
                    "choose its interface with TUTTI_INTERFACE",
                    rank, record->host, other, work->records[other].host);
                return;
            }
        }
    }
}

static void rank_joined_twice(tt_mesh_work *work, const tt_mesh_record *first,
                              const tt_mesh_record *second)
{
    (void)tt_mesh_work_fail(work, TT_ERR_MISMATCH,
                            "rank %u joined twice: process %u on %s and process %u on %s; give "
                            "every process a rank of its own",
                            first->rank, first->pid, first->host, second->pid, second->host);
}

static void engines_differ(tt_mesh_work *work, const tt_mesh_record *record)
{
    tt_launch_tag_text own, theirs;
    tt_launch_tag_tell(work->config->engine, own);
    tt_launch_tag_tell(record->engine, theirs);
    (void)tt_mesh_work_fail(work, TT_ERR_MISMATCH,
                            "rank 0 %s, rank %u on %s %s; give all ranks the same TUTTI_ENGINE and "
                            "TUTTI_TRANSPORT, and install its plugin on every host (tutti info "
                            "--engines)",
                            own, record->rank, record->host, theirs);
}

static void check_role(tt_mesh_work *work, const tt_mesh_record *record)
{
    const tt_launch_servers servers = {
        .rank = record->rank, .size = work->mesh->size, .count = record->server_count};
    const bool is_server = tt_launch_servers_is_server(&servers);
    const bool serves = (record->flags & TT_MESH_SERVES) != 0;
    tt_launch_why why = {.text = ""};
    if (tt_launch_servers_check(&servers, is_server, &why) != TT_OK) {
        (void)tt_mesh_work_fail(work, TT_ERR_BAD_CONFIG, "%s", why.text);
    } else if (serves != is_server) {
        (void)tt_mesh_work_fail(work, TT_ERR_BAD_CONFIG,
                                "rank %u on %s joins as a %s, but with TUTTI_SERVERS=%u rank %u of "
                                "%u is a %s; check what was started there, and its TUTTI_ROLE",
                                record->rank, record->host, serves ? "server" : "worker",
                                servers.count, servers.rank, servers.size,
                                is_server ? "server" : "worker");
    }
}

static void check_servers(tt_mesh_work *work, const tt_mesh_record *record)
{
    const tt_mesh_record *own = &work->records[TT_MESH_ROOT];
    if (record->server_count != own->server_count) {
        (void)tt_mesh_work_fail(work, TT_ERR_MISMATCH,
                                "rank 0 on %s has TUTTI_SERVERS=%u, rank %u on %s has "
                                "TUTTI_SERVERS=%u; set the same number on every process of the job",
                                own->host, own->server_count, record->rank, record->host,
                                record->server_count);
        return;
    }
    check_role(work, own);
    check_role(work, record);
}

static void settings_differ(tt_mesh_work *work, const tt_mesh_record *record)
{
    const tt_mesh_config *config = work->config;
    tt_text names = {0};
    for (uint32_t i = 0; i < TT_MESH_SETTINGS_MAX && config->setting_names[i] != NULL; i++) {
        if (record->settings.parts[i] != config->settings.parts[i]) {
            tt_text_add(&names, "%sTUTTI_%s", names.length > 0 ? ", " : " in ",
                        config->setting_names[i]);
        }
    }
    (void)tt_mesh_work_fail(work, TT_ERR_MISMATCH,
                            "rank %u on %s runs with other settings than rank 0%.400s; give all "
                            "ranks the same (tutti config prints them)",
                            record->rank, record->host, names.bytes);
}

static void record_arrived(tt_mesh_work *work, tt_mesh_connection *connection, const uint8_t *body)
{
    tt_mesh_record record;
    if (connection->body_bytes != TT_MESH_RECORD_BYTES ||
        tt_mesh_record_decode(body, &record) != TT_OK || record.rank != connection->peer) {
        (void)tt_mesh_work_fail(work, TT_ERR_BAD_WIRE, "rank %u sent a malformed record",
                                connection->peer);
        return;
    }
    if (work->joined[record.rank]) {
        rank_joined_twice(work, &work->records[record.rank], &record);
        return;
    }
    if (memcmp(record.engine, work->config->engine, sizeof(record.engine)) != 0) {
        engines_differ(work, &record);
        return;
    }
    if (record.settings.digest != work->config->settings.digest) {
        settings_differ(work, &record);
        return;
    }
    check_servers(work, &record);
    if (work->status != TT_OK) {
        return;
    }
    work->records[record.rank] = record;
    work->joined[record.rank] = true;
    if (++work->joined_count == work->mesh->size) {
        check_reach(work);
        if (work->status == TT_OK) {
            hand_out_table(work);
        }
    }
}

static void table_arrived(tt_mesh_work *work, const tt_mesh_connection *connection,
                          const uint8_t *body)
{
    const tt_mesh_record own = work->records[work->mesh->rank];
    const size_t table_bytes = tt_mesh_table_bytes(work->mesh->size);
    if (work->linking || connection->body_bytes < table_bytes ||
        connection->body_bytes - table_bytes > TT_MESH_NOTE_BYTES_MAX ||
        tt_mesh_table_decode(body, table_bytes, work->mesh->size, work->records,
                             &work->mesh->incarnation) != TT_OK) {
        (void)tt_mesh_work_fail(work, TT_ERR_BAD_WIRE, "rank 0 sent a malformed table of ranks");
        return;
    }
    work->records[work->mesh->rank] = own;
    if (!keep_note(work, body + table_bytes, connection->body_bytes - table_bytes)) {
        (void)tt_mesh_work_fail(work, TT_ERR_NO_MEMORY, "no memory for rank 0's note");
        return;
    }
    tt_mesh_link_start(work);
}

static void ready_arrived(tt_mesh_work *work, uint32_t rank)
{
    if (work->linking && !work->ready[rank]) {
        work->ready[rank] = true;
        work->ready_count++;
    }
}

static void failure_arrived(tt_mesh_work *work, const tt_mesh_connection *connection,
                            const uint8_t *body)
{
    char text[TT_MESH_TEXT_BYTES + 1];
    TT_ASSERT(connection->body_bytes <= (uint32_t)TT_MESH_TEXT_BYTES);
    for (uint32_t i = 0; i < connection->body_bytes; i++) {
        text[i] = body[i] >= ' ' && body[i] <= '~' ? (char)body[i] : '?';
    }
    text[connection->body_bytes] = '\0';
    (void)tt_mesh_work_fail(work, TT_ERR_PEER_DOWN, "%s", text);
}

void tt_mesh_meet_message(tt_mesh_work *work, tt_mesh_connection *connection, const uint8_t *body)
{
    const bool root = tt_mesh_work_is_root(work);
    if (connection->kind == TT_MESH_FAILED && connection->body_bytes <= TT_MESH_TEXT_BYTES) {
        failure_arrived(work, connection, body);
    } else if (root && connection->kind == TT_MESH_RECORD && !work->linking) {
        record_arrived(work, connection, body);
    } else if (root && connection->kind == TT_MESH_READY) {
        ready_arrived(work, connection->peer);
    } else if (!root && connection->kind == TT_MESH_TABLE) {
        table_arrived(work, connection, body);
    } else if (!root && connection->kind == TT_MESH_GO && work->said_ready) {
        work->over = true;
    } else {
        (void)tt_mesh_work_fail(work, TT_ERR_BAD_WIRE,
                                "rank %u sent unexpected message %d while the job was joining",
                                connection->peer, (int)connection->kind);
    }
}

void tt_mesh_meet_greeted(tt_mesh_work *work, tt_mesh_connection *connection)
{
    if (connection->peer >= work->mesh->size || connection->peer == work->mesh->rank ||
        tt_mesh_talk(connection) != TT_OK) {
        (void)tt_mesh_work_fail(work, TT_ERR_MISMATCH,
                                "a process of this job joined as rank %d, which is %s; give every "
                                "process a rank of its own",
                                (int)connection->peer,
                                connection->peer == work->mesh->rank ? "already taken"
                                                                     : "not below its size");
        return;
    }
    if (tt_mesh_work_is_root(work)) {
        work->greeted_count++;
        return;
    }
    uint8_t record[TT_MESH_RECORD_BYTES];
    tt_mesh_record_encode(&work->records[work->mesh->rank], record);
    if (tt_mesh_message_queue(connection, TT_MESH_RECORD, record, sizeof(record)) != TT_OK) {
        (void)tt_mesh_work_fail(work, TT_ERR_NO_MEMORY, "no memory for a message");
    }
    /* From here rank 0's timeout decides; it may have started later than this rank. */
    work->deadline_ns = tt_launch_deadline_after_ms(work->timeout_ms + TT_MESH_GRACE_MS);
}

void tt_mesh_meet_advance(tt_mesh_work *work)
{
    const uint32_t others = work->mesh->size - 1;
    if (!work->linking || work->linked_count < others || work->status != TT_OK) {
        return;
    }
    if (!work->said_ready) {
        work->said_ready = true;
        if (!tt_mesh_work_is_root(work)) {
            (void)tt_mesh_message_queue(work->root, TT_MESH_READY, NULL, 0);
            (void)tt_mesh_connection_flush(work->root);
            return;
        }
        ready_arrived(work, TT_MESH_ROOT);
    }
    if (!tt_mesh_work_is_root(work) || work->ready_count < work->mesh->size || work->going) {
        return;
    }
    work->going = true;
    for (size_t i = 0; i < work->connection_count; i++) {
        tt_mesh_connection *each = work->connections[i];
        if (each->phase == TT_MESH_PHASE_TALKING) {
            (void)tt_mesh_message_queue(each, TT_MESH_GO, NULL, 0);
            (void)tt_mesh_connection_flush(each);
        }
    }
}
