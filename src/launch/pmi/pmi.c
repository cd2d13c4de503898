/* SPDX-License-Identifier: Apache-2.0
 *
 * pmi.c - the PMI-1 client.
 *
 *     request                                  reply
 *     cmd=initack pmiid=3        (TCP only)    cmd=initack, then cmd=set ... lines
 *     cmd=init pmi_version=1 pmi_subversion=1  cmd=response_to_init rc=0 ...
 *     cmd=get_maxes                            cmd=maxes kvsname_max= keylen_max= vallen_max=
 *     cmd=get_my_kvsname                       cmd=my_kvsname kvsname=
 *     cmd=put kvsname= key= value=             cmd=put_result rc=0
 *     cmd=barrier_in                           cmd=barrier_out
 *     cmd=get kvsname= key=                    cmd=get_result rc=0 value=
 *     cmd=finalize                             cmd=finalize_ack
 *
 * Invariants:
 *  (1) One request, one reply; after an error the connection is not used again (is_broken).
 *  (2) rc, where present, must be 0. Some servers omit it from replies that cannot fail.
 */
#include "launch/pmi/pmi.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "launch/deadline.h"
#include "launch/family_internal.h"
#include "launch/pmi/pmi_line.h"
#include "launch/socket.h"

enum {
    STORE_NAME_BYTES = 512,
    VALUE_BYTES_MAX = 2048, /* even if the server allows more: our line must hold it */
    GOODBYE_MS = 5000,
};

struct tt_launch_pmi {
    int fd;
    bool is_greeted;
    bool is_broken;
    uint64_t timeout_ms;
    size_t key_bytes_max;
    size_t value_bytes_max;
    char store[STORE_NAME_BYTES];
    tt_launch_pmi_text question;
    char received[TT_LAUNCH_PMI_LINE_BYTES]; /* the reply's line, then later bytes */
    size_t received_count;
    size_t line_bytes; /* of received: the line last decoded, dropped by the next read */
};

static tt_status break_off(tt_launch_pmi *pmi, tt_status status, const char *what,
                           tt_launch_why *why)
{
    const char *command = (const char *)pmi->question.bytes;
    const int command_bytes = (int)strcspn(command, " \n");
    pmi->is_broken = true; /* (1) */
    return tt_launch_fail(why, status, "PMI server, request '%.*s': %s", command_bytes, command,
                          what);
}

static tt_status send_question(tt_launch_pmi *pmi, uint64_t deadline_ns, tt_launch_why *why)
{
    size_t sent = 0;
    while (sent < pmi->question.count) {
        const tt_status status = tt_launch_wait_fd(pmi->fd, POLLOUT, deadline_ns);
        if (status != TT_OK) {
            return break_off(pmi, status, "could not be sent in time", why);
        }
        const ssize_t count = send(pmi->fd, pmi->question.bytes + sent, pmi->question.count - sent,
                                   MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) {
            sent += (size_t)count;
        } else if (errno != EINTR && errno != EAGAIN) {
            return break_off(pmi, TT_ERR_SYSTEM, strerror(errno), why);
        }
    }
    return TT_OK;
}

/* Read until `received` begins with a whole line. */
static tt_status receive_line(tt_launch_pmi *pmi, uint64_t deadline_ns,
                              tt_launch_pmi_line *line_out, tt_launch_why *why)
{
    pmi->received_count -= pmi->line_bytes;
    memmove(pmi->received, pmi->received + pmi->line_bytes, pmi->received_count);
    pmi->line_bytes = 0;

    const char *end;
    while ((end = memchr(pmi->received, '\n', pmi->received_count)) == NULL) {
        if (pmi->received_count == sizeof(pmi->received)) {
            return break_off(pmi, TT_ERR_BAD_WIRE, "sent a line longer than 4096 bytes", why);
        }
        const tt_status status = tt_launch_wait_fd(pmi->fd, POLLIN, deadline_ns);
        if (status != TT_OK) {
            return break_off(pmi, status, "no reply in time; check that every rank has started",
                             why);
        }
        const ssize_t count = recv(pmi->fd, pmi->received + pmi->received_count,
                                   sizeof(pmi->received) - pmi->received_count, MSG_DONTWAIT);
        if (count > 0) {
            pmi->received_count += (size_t)count;
        } else if (count == 0) {
            return break_off(pmi, TT_ERR_PEER_DOWN, "closed the connection", why);
        } else if (errno != EINTR && errno != EAGAIN) {
            return break_off(pmi, TT_ERR_SYSTEM, strerror(errno), why);
        }
    }
    const size_t text_bytes = (size_t)(end - pmi->received);
    pmi->line_bytes = text_bytes + 1;
    if (tt_launch_pmi_line_decode(pmi->received, text_bytes, line_out) != TT_OK) {
        return break_off(pmi, TT_ERR_BAD_WIRE, "sent a malformed line", why);
    }
    return TT_OK;
}

/* Send pmi->question and read the reply, which must be `expected` with rc 0. */
static tt_status ask(tt_launch_pmi *pmi, const char *expected, tt_launch_pmi_line *answer_out,
                     tt_launch_why *why)
{
    const uint64_t deadline_ns = tt_launch_deadline_after_ms(pmi->timeout_ms);
    if (pmi->is_broken) {
        return tt_launch_fail(why, TT_ERR_PEER_DOWN, "an earlier request to the PMI server failed");
    }
    if (!tt_launch_pmi_text_end(&pmi->question)) {
        return tt_launch_fail(why, TT_ERR_BAD_ARGUMENT,
                              "a PMI key or value is not printable ASCII without blanks, or its "
                              "line exceeds %d bytes",
                              TT_LAUNCH_PMI_LINE_BYTES);
    }
    TT_TRY(send_question(pmi, deadline_ns, why));
    TT_TRY(receive_line(pmi, deadline_ns, answer_out, why));
    if (!tt_launch_pmi_line_has(answer_out, "cmd", expected)) {
        return break_off(pmi, TT_ERR_BAD_WIRE, "sent an unexpected reply", why);
    }
    if (tt_launch_pmi_line_find(answer_out, "rc") != NULL &&
        !tt_launch_pmi_line_has(answer_out, "rc", "0")) { /* (2) */
        const tt_launch_pmi_field *message = tt_launch_pmi_line_find(answer_out, "msg");
        return tt_launch_fail(why, TT_ERR_REFUSED, "PMI server refused '%.*s': %.*s",
                              (int)strcspn(pmi->question.bytes, "\n"), pmi->question.bytes,
                              message != NULL ? (int)message->value_bytes : 0,
                              message != NULL ? message->value : "");
    }
    return TT_OK;
}

/* The server's limit; ours if it sent none, one that is not a number, or one above ours. */
static size_t limit_of(const tt_launch_pmi_line *line, const char *key, size_t limit_max)
{
    const tt_launch_pmi_field *field = tt_launch_pmi_line_find(line, key);
    uint64_t limit = limit_max;
    if (field != NULL) {
        (void)tt_launch_parse_number(field->value, field->value_bytes, INT32_MAX, &limit);
    }
    return tt_min_u64(limit, limit_max);
}

static tt_status greet(tt_launch_pmi *pmi, tt_launch_why *why)
{
    tt_launch_pmi_line answer;
    tt_launch_pmi_text_start(&pmi->question, "init");
    tt_launch_pmi_text_add(&pmi->question, "pmi_version", "1");
    tt_launch_pmi_text_add(&pmi->question, "pmi_subversion", "1");
    TT_TRY(ask(pmi, "response_to_init", &answer, why));
    pmi->is_greeted = true;

    tt_launch_pmi_text_start(&pmi->question, "get_maxes");
    TT_TRY(ask(pmi, "maxes", &answer, why));
    /* The server counts the terminator that its own buffers need. */
    pmi->key_bytes_max = limit_of(&answer, "keylen_max", 256) - 1;
    pmi->value_bytes_max = limit_of(&answer, "vallen_max", VALUE_BYTES_MAX) - 1;
    if (pmi->key_bytes_max + 1 < 8 || pmi->value_bytes_max + 1 < 32) {
        return break_off(pmi, TT_ERR_BAD_WIRE, "limits keys or values to too few bytes", why);
    }

    tt_launch_pmi_text_start(&pmi->question, "get_my_kvsname");
    TT_TRY(ask(pmi, "my_kvsname", &answer, why));
    const tt_launch_pmi_field *store = tt_launch_pmi_line_find(&answer, "kvsname");
    if (store == NULL || store->value_bytes == 0 ||
        !tt_launch_copy(pmi->store, sizeof(pmi->store), store->value, store->value_bytes)) {
        return break_off(pmi, TT_ERR_BAD_WIRE, "sent no name of its key-value space", why);
    }
    return TT_OK;
}

/* Over TCP the server needs the id of the calling process; it then repeats size and rank, which
 * the environment already has. */
static tt_status introduce(tt_launch_pmi *pmi, const char *id, tt_launch_why *why)
{
    tt_launch_pmi_line answer;
    tt_launch_pmi_text_start(&pmi->question, "initack");
    tt_launch_pmi_text_add(&pmi->question, "pmiid", id);
    TT_TRY(ask(pmi, "initack", &answer, why));
    for (int i = 0; i < 3; i++) {
        TT_TRY(receive_line(pmi, tt_launch_deadline_after_ms(pmi->timeout_ms), &answer, why));
        if (!tt_launch_pmi_line_has(&answer, "cmd", "set")) {
            return break_off(pmi, TT_ERR_BAD_WIRE, "sent no size and rank", why);
        }
    }
    return TT_OK;
}

/* `id` is NULL over an inherited descriptor. */
static tt_status create(int fd, const char *id, uint64_t timeout_ms, tt_launch_pmi **pmi_out,
                        tt_launch_why *why)
{
    tt_launch_pmi *pmi = calloc(1, sizeof(*pmi));
    if (pmi == NULL) {
        close(fd);
        return tt_launch_fail(why, TT_ERR_NO_MEMORY, "no memory for a PMI client");
    }
    pmi->fd = fd;
    pmi->timeout_ms = timeout_ms;
    /* A copy in a child of the user's program would keep the launcher waiting. */
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    tt_status status = id != NULL ? introduce(pmi, id, why) : TT_OK;
    if (status == TT_OK) {
        status = greet(pmi, why);
    }
    if (status != TT_OK) {
        tt_launch_pmi_destroy(pmi);
        return status;
    }
    *pmi_out = pmi;
    return TT_OK;
}

tt_status tt_launch_pmi_adopt(int fd, uint64_t timeout_ms, tt_launch_pmi **pmi_out,
                              tt_launch_why *why)
{
    return create(fd, NULL, timeout_ms, pmi_out, why);
}

static tt_status create_over_tcp(const char *port_text, const char *id, uint64_t timeout_ms,
                                 tt_launch_pmi **pmi_out, tt_launch_why *why)
{
    const char *colon = strrchr(port_text, ':');
    tt_launch_rendezvous server;
    tt_launch_address_list list;
    int fd = -1;
    if (id == NULL || colon == NULL) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "PMI_PORT='%.200s' is not host:port, or PMI_ID is not set; start "
                              "under mpiexec, or choose another TUTTI_RENDEZVOUS",
                              port_text);
    }
    TT_TRY(tt_launch_host_parse(port_text, (size_t)(colon - port_text), server.host, why));
    TT_TRY(tt_launch_port_range_parse(colon + 1, strlen(colon + 1), &server, why));
    TT_TRY(tt_launch_resolve(server.host, &list, why));
    const uint64_t deadline_ns = tt_launch_deadline_after_ms(timeout_ms);
    for (size_t i = 0; i < list.count && fd < 0; i++) {
        tt_launch_address_set_port(&list.addresses[i], server.port_first);
        const tt_status status = tt_launch_connect(&list.addresses[i], deadline_ns, &fd, why);
        if (status != TT_OK && i + 1 == list.count) {
            return status;
        }
    }
    return create(fd, id, timeout_ms, pmi_out, why);
}

tt_status tt_launch_pmi_create(const tt_launch_source *source, uint64_t timeout_ms,
                               tt_launch_pmi **pmi_out, tt_launch_why *why)
{
    const char *port = tt_launch_source_get(source, "PMI_PORT");
    uint64_t fd;
    if (tt_launch_source_get(source, "PMI_FD") == NULL) {
        if (port == NULL) {
            return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                                  "neither PMI_FD nor PMI_PORT is set; start under mpiexec or srun "
                                  "--mpi=pmi2, or choose another TUTTI_RENDEZVOUS");
        }
        return create_over_tcp(port, tt_launch_source_get(source, "PMI_ID"), timeout_ms, pmi_out,
                               why);
    }
    TT_TRY(tt_launch_read_number(source, "PMI_FD", INT32_MAX, &fd, why));
    if (fcntl((int)fd, F_GETFD) < 0) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "PMI_FD=%" PRIu64
                              " is not an open descriptor: another PMI client of this process "
                              "closed it, or a wrapper did not pass it on; choose another "
                              "TUTTI_RENDEZVOUS",
                              fd);
    }
    return create((int)fd, NULL, timeout_ms, pmi_out, why);
}

void tt_launch_pmi_destroy(tt_launch_pmi *pmi)
{
    tt_launch_pmi_line answer;
    tt_launch_why ignored;
    if (pmi == NULL) {
        return;
    }
    if (pmi->is_greeted && !pmi->is_broken) {
        pmi->timeout_ms = tt_min_u64(pmi->timeout_ms, GOODBYE_MS);
        tt_launch_pmi_text_start(&pmi->question, "finalize");
        (void)ask(pmi, "finalize_ack", &answer, &ignored);
    }
    close(pmi->fd);
    free(pmi);
}

void tt_launch_pmi_forsake(tt_launch_pmi *pmi)
{
    free(pmi);
}

const char *tt_launch_pmi_job(const tt_launch_pmi *pmi)
{
    return pmi->store;
}

size_t tt_launch_pmi_value_bytes_max(const tt_launch_pmi *pmi)
{
    return pmi->value_bytes_max;
}

static tt_status check_key(const tt_launch_pmi *pmi, const char *key, tt_launch_why *why)
{
    if (strlen(key) > pmi->key_bytes_max) {
        return tt_launch_fail(why, TT_ERR_BAD_ARGUMENT, "PMI key '%.80s' exceeds %zu bytes", key,
                              pmi->key_bytes_max);
    }
    return TT_OK;
}

tt_status tt_launch_pmi_put(tt_launch_pmi *pmi, const char *key, const char *value,
                            tt_launch_why *why)
{
    tt_launch_pmi_line answer;
    TT_TRY(check_key(pmi, key, why));
    if (strlen(value) > pmi->value_bytes_max) {
        return tt_launch_fail(why, TT_ERR_BAD_ARGUMENT, "PMI value of '%.80s' exceeds %zu bytes",
                              key, pmi->value_bytes_max);
    }
    tt_launch_pmi_text_start(&pmi->question, "put");
    tt_launch_pmi_text_add(&pmi->question, "kvsname", pmi->store);
    tt_launch_pmi_text_add(&pmi->question, "key", key);
    tt_launch_pmi_text_add(&pmi->question, "value", value);
    return ask(pmi, "put_result", &answer, why);
}

tt_status tt_launch_pmi_barrier(tt_launch_pmi *pmi, tt_launch_why *why)
{
    tt_launch_pmi_line answer;
    tt_launch_pmi_text_start(&pmi->question, "barrier_in");
    return ask(pmi, "barrier_out", &answer, why);
}

tt_status tt_launch_pmi_get(tt_launch_pmi *pmi, const char *key, char *value_out,
                            size_t value_bytes, tt_launch_why *why)
{
    tt_launch_pmi_line answer;
    TT_TRY(check_key(pmi, key, why));
    tt_launch_pmi_text_start(&pmi->question, "get");
    tt_launch_pmi_text_add(&pmi->question, "kvsname", pmi->store);
    tt_launch_pmi_text_add(&pmi->question, "key", key);
    TT_TRY(ask(pmi, "get_result", &answer, why));
    const tt_launch_pmi_field *value = tt_launch_pmi_line_find(&answer, "value");
    if (value == NULL ||
        !tt_launch_copy(value_out, value_bytes, value->value, value->value_bytes)) {
        return tt_launch_fail(why, TT_ERR_BAD_WIRE, "PMI value of '%.80s' is missing or too long",
                              key);
    }
    return TT_OK;
}
