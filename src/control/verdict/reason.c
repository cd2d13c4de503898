/* SPDX-License-Identifier: Apache-2.0
 *
 * reason.c - texts of the last ops that failed on this rank, for later probes. */
#include <string.h>

#include "control/control_internal.h"

void tt_agree_reason(tt_control *control, const tt_head *key, const char *text)
{
    if (control->reasons == NULL) {
        TT_ASSERT(control->reason_count == 0);
        control->reasons =
            tt_platform_allocate(control->platform, REASONS_KEPT * sizeof(*control->reasons));
    }
    if (control->reasons != NULL) {
        tt_reason *reason = &control->reasons[control->reason_count++ % REASONS_KEPT];
        tt_text words = {0};
        tt_text_add(&words, "%s", text);
        reason->key = *key;
        memcpy(reason->text, words.bytes, sizeof(reason->text));
    }
}

const char *tt_agree_reason_of(const tt_control *control, const tt_head *key)
{
    TT_ASSERT((key->flags & TT_FLAG_PAIR) == 0); /* other pairs have the same numbers */
    const uint32_t kept = control->reasons != NULL ? REASONS_KEPT : 0;
    for (uint32_t i = 0; i < kept && i < control->reason_count; i++) {
        const tt_head *other = &control->reasons[i].key;
        if (other->set == key->set && other->op == key->op &&
            ((other->flags ^ key->flags) & TT_FLAGS_SPACE) == 0) {
            return control->reasons[i].text;
        }
    }
    return NULL;
}

void tt_agree_say_silent(uint32_t peer, char words[TT_ERROR_BYTES])
{
    tt_text text = {0};
    tt_text_add(&text, "rank %u is out of memory for the reason", peer);
    memcpy(words, text.bytes, TT_ERROR_BYTES);
}

void tt_agree_release_reasons(tt_control *control)
{
    tt_platform_release(control->platform, control->reasons,
                        REASONS_KEPT * sizeof(*control->reasons));
}
