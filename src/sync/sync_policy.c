/* SPDX-License-Identifier: Apache-2.0
 *
 * sync_policy.c - see sync_policy.h. */
#include "sync/sync_policy.h"

#include <string.h>

#include "base/config.h"

/* The number behind "NAME:"; false: there is none, or it is no number below 2^31. */
static bool number_behind(const char *text, const char *name, uint32_t *number_out)
{
    const size_t length = strlen(name);
    int64_t number = 0;
    if (strncmp(text, name, length) != 0 || text[length] != ':' ||
        !tt_config_parse_int(text + length + 1, &number) || number < 0 || number > INT32_MAX) {
        return false;
    }
    *number_out = (uint32_t)number;
    return true;
}

static tt_status refuse(const char *text, tt_text *why)
{
    tt_text_add(why, "policy ");
    tt_text_add_quoted(why, text, 64);
    tt_text_add(why, " is not one of bulk, stale:S (S from 0), async, quorum:K (K from 1)");
    return TT_ERR_BAD_ARGUMENT;
}

tt_status tt_policy_parse(const char *text, uint32_t workers, tt_policy *policy_out, tt_text *why)
{
    tt_policy policy = {.staleness = 0};
    if (strcmp(text, "async") == 0) {
        policy.staleness = TT_STALENESS_ANY;
    } else if (number_behind(text, "quorum", &policy.quorum)) {
        if (policy.quorum == 0) {
            return refuse(text, why);
        }
        if (policy.quorum > workers) {
            tt_text_add(why,
                        "policy quorum:%u needs more workers than the %u of this job; use "
                        "quorum:%u or less",
                        policy.quorum, workers, workers);
            return TT_ERR_BAD_ARGUMENT;
        }
    } else if (!number_behind(text, "stale", &policy.staleness) && strcmp(text, "bulk") != 0) {
        return refuse(text, why);
    }
    *policy_out = policy;
    return TT_OK;
}
