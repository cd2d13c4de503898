/* SPDX-License-Identifier: Apache-2.0
 *
 * codecs.c - codecs of calls, and what error feedback keeps.
 *
 * Each text and each rule becomes one scheme (aggregate/scheme.h), which stays until the context is
 * freed: requests and recipes point to it. Threads look them up in a list that only grows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "api/enter.h"
#include "codec/codec.h"

typedef struct tt_codec_entry {
    struct tt_codec_entry *next;
    const tt_rule_choice *choice; /* of a rule; else NULL */
    bool is_plain;
    tt_scheme scheme;
    char text[]; /* "": of a rule */
} tt_codec_entry;

/* ---- schemes ---- */

static const tt_codec_entry *entry_find(const tt_codec_entry *entry, const tt_rule_choice *choice,
                                        const char *text)
{
    while (entry != NULL && (entry->choice != choice || strcmp(entry->text, text) != 0)) {
        entry = entry->next;
    }
    return entry;
}

/* NULL: no memory. Two threads may add the same one. */
static const tt_codec_entry *entry_add(tutti_context *context, const tt_rule_choice *choice,
                                       const tt_rule_choice *rule, const char *text)
{
    tt_codec_entry *entry = calloc(1, sizeof(*entry) + strlen(text) + 1);
    if (entry == NULL) {
        return NULL;
    }
    entry->choice = rule;
    entry->is_plain = choice->is_plain;
    tt_scheme_make(&entry->scheme, choice);
    memcpy(entry->text, text, strlen(text) + 1);
    entry->next = atomic_load(&context->codecs);
    while (!atomic_compare_exchange_weak(&context->codecs, &entry->next, entry)) {
    }
    return entry;
}

void tt_codecs_end(tutti_context *context)
{
    tt_codec_entry *entry = atomic_load(&context->codecs);
    while (entry != NULL) {
        tt_codec_entry *next = entry->next;
        free(entry);
        entry = next;
    }
    atomic_store(&context->codecs, NULL);
}

static tutti_status entry_of_text(tutti_context *context, const char *text,
                                  const tt_codec_entry **entry_out, tt_text *why)
{
    tt_rule_choice choice;
    const tt_codec_entry *entry = entry_find(atomic_load(&context->codecs), NULL, text);
    if (entry == NULL) {
        if (tt_rule_choice_parse(text, &choice, why) != TT_OK) {
            return TUTTI_ERR_BAD_ARGUMENT;
        }
        entry = entry_add(context, &choice, NULL, text);
    }
    *entry_out = entry;
    return entry != NULL ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
}

static bool is_codable(const tt_request *request)
{
    const bool is_reduction =
        request->collective == TT_ALLREDUCE || request->collective == TT_REDUCESCATTER;
    const bool is_copy = request->collective == TT_ALLGATHER || request->collective == TT_BROADCAST;
    return (is_copy && !request->is_uneven) ||
           (is_reduction && (request->redop == TT_SUM || request->redop == TT_AVERAGE));
}

static tutti_status entry_of_rule(tutti_context *context, bool is_gradient,
                                  const tt_request *request, const tt_codec_entry **entry_out)
{
    const tt_rule_choice *choice = is_codable(request)
                                       ? tt_rules_find(context->rules, request->name,
                                                       request->count, request->dtype, is_gradient)
                                       : NULL;
    const tt_codec_entry *entry = NULL;
    if (choice != NULL) {
        entry = entry_find(atomic_load(&context->codecs), choice, "");
        entry = entry != NULL ? entry : entry_add(context, choice, choice, "");
    }
    *entry_out = entry;
    return choice == NULL || entry != NULL ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
}

/* Once: a user who asks for a codec on one host may wonder why nothing changes. */
static void tell_host(tutti_context *context, const tt_scheme *scheme)
{
    bool is_everywhere = false;
    for (uint32_t i = 0; i < scheme->phase_count; i++) {
        is_everywhere = is_everywhere || scheme->phases[i].spec.is_everywhere;
    }
    if (context->cross_size > 1 || context->size == 1 || is_everywhere || context->rank != 0 ||
        atomic_exchange(&context->has_told_host, true)) {
        return;
    }
    tt_log_write(&context->log, TT_LOG_WARN,
                 "all ranks are on one host, where data are not coded; add where=all to the codec "
                 "to code them all the same");
}

/* Set the request's program. */
static tutti_status choose(tutti_context *context, const char *text, bool is_gradient,
                           tt_request *request, tt_text *why)
{
    const tt_codec_entry *entry = NULL;
    const tutti_status status = text != NULL ? entry_of_text(context, text, &entry, why)
                                             : entry_of_rule(context, is_gradient, request, &entry);
    if (status == TUTTI_ERR_NO_MEMORY) {
        tt_text_add(why, "out of memory for a codec");
    }
    if (status == TUTTI_OK && entry != NULL && !entry->is_plain) {
        request->program = &entry->scheme.phases[0].program;
        tell_host(context, &entry->scheme);
    }
    return status;
}

void tt_call_choose_codec(const tutti_call *call, tutti_handle *handle, bool is_gradient)
{
    const char *text = tt_call_codec(call);
    tt_request *request = &handle->request;
    if (text == NULL && handle->context->rules == NULL) {
        return;
    }
    tt_text why = {0};
    const tutti_status status = choose(handle->context, text, is_gradient, request, &why);
    if (status != TUTTI_OK && request->objection == TT_OK) {
        request->objection = (tt_status)status;
        (void)snprintf(request->error, sizeof(request->error), "%s", why.bytes);
    }
}

/* ---- what is kept ---- */

/* Enter and take the baton; calls that were started before are submitted. */
static tutti_status begin(tutti_context *context)
{
    const tutti_status status = tt_enter(context);
    if (status == TUTTI_OK) {
        tt_error_about(context);
        tt_drive_acquire(context);
        tt_drive_drain(context);
    }
    return status;
}

static tutti_status end(tutti_context *context, const char *what, tt_status status,
                        const tt_text *text)
{
    tt_drive_deliver(context);
    tt_drive_release(context);
    tt_leave(context);
    return status == TT_OK ? TUTTI_OK
                           : tt_error_set((tutti_status)status, "%s: %s", what,
                                          text->length > 0 ? text->bytes : tt_status_text(status));
}

void tt_codec_forget(tutti_context *context, const tt_request *request)
{
    tt_drive_acquire(context);
    tt_control_codec_forget(context->control, request->set, request->key);
    tt_drive_release(context);
}

tutti_status tutti_step_undo(tutti_context *context)
{
    const tt_text none = {0};
    const tutti_status status = begin(context);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_control_codec_undo(context->control);
    return end(context, "tutti_step_undo", TT_OK, &none);
}

tutti_status tutti_codec_unit(tutti_context *context, double unit)
{
    tt_text text = {0};
    const tutti_status status = begin(context);
    if (status != TUTTI_OK) {
        return status;
    }
    const tt_status done = tt_control_codec_unit(context->control, unit, &text);
    return end(context, "tutti_codec_unit", done, &text);
}

tutti_status tutti_codec_reset(tutti_context *context, tutti_set set, const char *name)
{
    tt_text text = {0};
    const tutti_status status = begin(context);
    if (status != TUTTI_OK) {
        return status;
    }
    const tt_status done = tt_control_codec_reset(context->control, set, name, &text);
    return end(context, "tutti_codec_reset", done, &text);
}

tutti_status tutti_codec_save(tutti_context *context, void *bytes, size_t capacity,
                              size_t *bytes_out)
{
    tt_text text = {0};
    size_t needed = 0;
    const tutti_status status = begin(context);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_status done = TT_ERR_BAD_ARGUMENT;
    if (bytes_out == NULL) {
        tt_text_add(&text, "bytes_out is NULL");
    } else {
        done = tt_control_codec_save(context->control, bytes, capacity, &needed, &text);
        *bytes_out = needed;
    }
    return end(context, "tutti_codec_save", done, &text);
}

tutti_status tutti_codec_load(tutti_context *context, const void *bytes, size_t byte_count)
{
    tt_text text = {0};
    const tutti_status status = begin(context);
    if (status != TUTTI_OK) {
        return status;
    }
    const tt_status done = tt_control_codec_load(context->control, bytes, byte_count, &text);
    return end(context, "tutti_codec_load", done, &text);
}

tutti_status tutti_codec_norm(tutti_context *context, double *norm_out)
{
    tt_text text = {0};
    const tutti_status status = begin(context);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_status done = TT_OK;
    if (norm_out == NULL) {
        done = TT_ERR_BAD_ARGUMENT;
        tt_text_add(&text, "norm_out is NULL");
    } else {
        *norm_out = tt_control_codec_norm(context->control);
    }
    return end(context, "tutti_codec_norm", done, &text);
}
