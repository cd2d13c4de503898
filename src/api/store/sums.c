/* SPDX-License-Identifier: Apache-2.0
 *
 * sums.c - TUTTI_SUM=server and sum=server of rules: named all-reduces of the world that owners
 * sum.
 *
 * The choice depends on rank 0's rules and on settings that are equal on all ranks, so all ranks
 * make the same one. Adasum is not elementwise: the workers compute it. */
#include <stdio.h>
#include <string.h>

#include "api/store/store_calls.h"
#include "codec/codec.h"

tutti_status tt_sums_begin(tutti_context *context)
{
    const bool is_wanted =
        context->settings.sum == TT_RULE_SUM_SERVER || tt_rules_have_servers(context->rules);
    if (!is_wanted) {
        return TUTTI_OK;
    }
    const tutti_status status = tt_store_open_sums(context);
    context->has_sums = status == TUTTI_OK;
    return status;
}

/* Horovod's names of calls without one are used once. Owners keep each name for its next call. */
static bool is_of_one_call(const char *name)
{
    static const char *const prefixes[] = {"allreduce.noname.", "grouped_allreduce.noname."};
    bool is_of_one = false;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        is_of_one = is_of_one || strncmp(name, prefixes[i], strlen(prefixes[i])) == 0;
    }
    return is_of_one;
}

void tt_sums_choose(tutti_handle *handle, bool is_gradient)
{
    const tt_request *request = &handle->request;
    const tt_rule_subject subject = {.name = request->name,
                                     .elements = request->count,
                                     .dtype = request->dtype,
                                     .is_gradient = is_gradient};
    const tt_rule_sum otherwise = (tt_rule_sum)handle->context->settings.sum;
    handle->is_by_owners =
        request->collective == TT_ALLREDUCE && request->name != NULL && request->set == 0 &&
        request->redop != TT_ADASUM && request->program == NULL && !is_of_one_call(request->name) &&
        tt_rules_sum(handle->context->rules, &subject, otherwise) == TT_RULE_SUM_SERVER;
}

static void check(const tutti_context *context, tt_request *request)
{
    tt_text why = {0};
    if (request->objection != TT_OK) {
        return;
    }
    request->objection =
        tt_request_check(request, (uint32_t)context->rank, (uint32_t)context->size, &why);
    if (request->objection != TT_OK) {
        (void)snprintf(request->error, sizeof(request->error), "%s", why.bytes);
    }
}

bool tt_sums_submit(tutti_handle *handle)
{
    tutti_context *context = handle->context;
    if (handle->request.is_join) {
        return tt_sync_join(context->sync, &handle->request);
    }
    check(context, &handle->request);
    tt_sync_sum(context->sync, &handle->request);
    return true;
}
