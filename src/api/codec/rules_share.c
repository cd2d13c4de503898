/* SPDX-License-Identifier: Apache-2.0
 *
 * rules_share.c - TUTTI_RULES, TUTTI_CODEC and TUTTI_CODEC_MIN: rank 0's are read, sent to all
 * ranks, and compiled by each (codec/rules.h).
 *
 * As with TUTTI_ORDER: whether there are any must be the same on all ranks (settings_digest), what
 * they are is up to rank 0. A rank whose own differ warns. All ranks compile the same bytes, so
 * that all of them accept them, or refuse them in the same words. */
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "base/assert.h"
#include "codec/codec.h"

/* What rank 0 sends first; the text of the rules follows. Hosts have one byte order. */
typedef struct rules_head {
    uint64_t is_readable; /* 0: rank 0 could not read its file */
    uint64_t text_bytes;
    uint64_t plain_bytes_max;
    tt_config_string codec, path;
} rules_head;
_Static_assert(sizeof(rules_head) == 24 + 2 * TT_CONFIG_STRING_BYTES, "it is sent as it is");

bool tt_rules_are_set(const tt_settings *settings)
{
    return settings->rules[0] != 0 || settings->codec[0] != 0;
}

/* ---- compiling ---- */

static tt_status compile(const rules_head *head, const char *text, tt_rules **rules_out,
                         tt_text *why)
{
    tt_text name = {0};
    tt_text_add(&name, "TUTTI_RULES=%s", head->path);
    const tt_rules_source source = {.text = text,
                                    .text_bytes = head->text_bytes,
                                    .text_name = name.bytes,
                                    .codec = head->codec,
                                    .plain_bytes_max = head->plain_bytes_max};
    return tt_rules_create(&source, &tt_allocator_default, rules_out, why);
}

/* This rank's settings; the caller frees the text, NULL without a file. `why`: why it cannot be
 * read. */
static char *read_own(const tt_settings *settings, rules_head *head, tt_text *why)
{
    size_t bytes = 0;
    char *text = NULL;
    *head = (rules_head){.is_readable = 1, .plain_bytes_max = settings->codec_min_bytes};
    memcpy(head->codec, settings->codec, sizeof(head->codec));
    memcpy(head->path, settings->rules, sizeof(head->path));
    if (settings->rules[0] != 0) {
        text = tt_setting_read_file(settings->rules, TT_RULE_TEXT_BYTES_MAX, &bytes, why);
        head->is_readable = text != NULL;
    }
    head->text_bytes = bytes;
    return text;
}

tt_status tt_rules_check(const tt_settings *settings, tt_text *why)
{
    rules_head head;
    tt_rules *rules = NULL;
    tt_text reason = {0};
    char *text = read_own(settings, &head, &reason);
    tt_status status = TT_ERR_BAD_CONFIG;
    if (head.is_readable == 0) {
        tt_text_add(why, "TUTTI_RULES=%s: %s", settings->rules, reason.bytes);
    } else {
        status = compile(&head, text, &rules, why);
        tt_rules_destroy(rules);
    }
    free(text);
    return status;
}

/* ---- sharing ---- */

/* Rank 0's bytes to all. `memory` NULL: this rank has none, and the call fails on all. */
static tutti_status spread(tutti_context *context, void *memory, size_t bytes)
{
    const tt_call_extra refusal = {.objection = TUTTI_ERR_NO_MEMORY,
                                   .text = "out of memory for rules"};
    tutti_call call = TUTTI_CALL_INIT;
    call.collective = TUTTI_BROADCAST;
    call.root = 0;
    call.input = call.output = memory;
    call.count = bytes;
    call.dtype = TUTTI_U8;
    return tt_call_run(context, &call, memory != NULL ? NULL : &refusal);
}

/* What this rank was given, where it is not what is used. A missing file is no conflict. */
static void warn_of_differences(const tutti_context *context, const rules_head *own,
                                const char *own_text, const rules_head *head, const char *text)
{
    const bool is_other_text =
        own_text != NULL && (own->text_bytes != head->text_bytes ||
                             memcmp(own_text, text, (size_t)head->text_bytes) != 0);
    if (is_other_text) {
        tt_log_write(&context->log, TT_LOG_WARN,
                     "TUTTI_RULES=%s differs from rank 0's rules, which are used", own->path);
    }
    if (strcmp(own->codec, head->codec) != 0) {
        tt_log_write(&context->log, TT_LOG_WARN,
                     "TUTTI_CODEC=%s differs from rank 0's '%s', which is used", own->codec,
                     head->codec);
    }
    if (own->plain_bytes_max != head->plain_bytes_max) {
        tt_log_write(&context->log, TT_LOG_WARN,
                     "TUTTI_CODEC_MIN=%llu differs from rank 0's %llu, which is used",
                     (unsigned long long)own->plain_bytes_max,
                     (unsigned long long)head->plain_bytes_max);
    }
}

/* The head that arrived is rank 0's, but nothing of it is trusted. */
static bool head_is_good(rules_head *head)
{
    head->codec[sizeof(head->codec) - 1] = 0;
    head->path[sizeof(head->path) - 1] = 0;
    return head->text_bytes <= TT_RULE_TEXT_BYTES_MAX;
}

static tutti_status install(tutti_context *context, const rules_head *head, const char *text)
{
    tt_text why = {0};
    const tt_status status = compile(head, text, &context->rules, &why);
    if (status != TT_OK) {
        return tt_error_set((tutti_status)status, "%s", why.bytes);
    }
    return TUTTI_OK;
}

/* `text`: room for rank 0's, and on rank 0 the text itself. */
static tutti_status receive(tutti_context *context, rules_head *head, char *text)
{
    const tutti_status status =
        head->text_bytes > 0 ? spread(context, text, (size_t)head->text_bytes) : TUTTI_OK;
    return status == TUTTI_OK ? install(context, head, text) : status;
}

tutti_status tt_rules_begin(tutti_context *context)
{
    rules_head own, head;
    tt_text why = {0};
    if (!tt_rules_are_set(&context->settings)) {
        return TUTTI_OK;
    }
    char *own_text = read_own(&context->settings, &own, &why);
    head = own;
    tutti_status status = spread(context, &head, sizeof(head));
    if (status == TUTTI_OK && (head.is_readable == 0 || !head_is_good(&head))) {
        status = tt_error_set(TUTTI_ERR_BAD_CONFIG, "TUTTI_RULES=%s: %s", head.path,
                              context->rank == 0 ? why.bytes : "rank 0 could not read it");
    }
    char *text = status == TUTTI_OK ? calloc((size_t)head.text_bytes + 1, 1) : NULL;
    if (text != NULL && context->rank == 0 && own_text != NULL) {
        memcpy(text, own_text, (size_t)head.text_bytes);
    }
    if (status == TUTTI_OK) {
        status = receive(context, &head, text);
    }
    if (status == TUTTI_OK) {
        warn_of_differences(context, &own, own_text, &head, text);
    }
    free(text);
    free(own_text);
    return status;
}

void tt_rules_end(tutti_context *context)
{
    tt_rules_destroy(context->rules);
    context->rules = NULL;
}
