/* SPDX-License-Identifier: Apache-2.0
 *
 * counters.c - tutti_count: counters of named calls, stages and steps. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/api_internal.h"
#include "base/base.h"

/* Fields of the first version of the struct, which every caller has. */
static void copy_negotiation(tutti_counters *out, const tt_negotiate_counters *count)
{
    out->steps = count->steps;
    out->rounds = count->rounds;
    out->turns = count->coordinator_turns;
    out->messages = count->notices_sent;
    out->bytes = count->bytes_sent;
    for (size_t i = 0; i < TT_ARRAY_COUNT(out->sizes); i++) {
        out->sizes[i] = count->sizes_sent[i];
    }
    out->agreed = count->agreed;
    out->planned = count->planned;
    out->failed = count->failed;
    out->plans_made = count->plans_made;
    out->plans_cut = count->plans_cut;
    out->evictions = count->evictions;
    out->invalidations = count->invalidations;
}

tutti_status tutti_count(tutti_context *context, tutti_set set, tutti_counters *counters_out)
{
    const tutti_status status = tt_call_check(context);
    tt_set_place place;
    if (status != TUTTI_OK) {
        return status;
    }
    const size_t first_bytes = offsetof(tutti_counters, launched); /* of the first version */
    if (counters_out == NULL || counters_out->struct_bytes < first_bytes) {
        return tt_error_set(
            TUTTI_ERR_BAD_ARGUMENT,
            "counters_out is NULL or not initialised; begin with TUTTI_COUNTERS_INIT");
    }
    if (!tt_set_place_find(context, set, &place)) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "process set %u does not exist", set);
    }
    tutti_counters out = TUTTI_COUNTERS_INIT;
    tt_drive_acquire(context);
    const char *mode = "";
    const tt_negotiate_counters *count = tt_control_set_count(context->control, set, &mode);
    const tt_control_counters own = tt_control_count(context->control);
    if (count != NULL) {
        copy_negotiation(&out, count);
    }
    (void)snprintf(out.mode, sizeof(out.mode), "%s", mode);
    tt_steps_count(context, &out);
    out.codec_bytes = tt_control_codec_bytes(context->control);
    tt_drive_release(context);
    out.bundles = own.bundles;
    out.copied_bytes = own.packed_bytes;
    out.launched = own.launched;
    out.queueing_ns = own.queued_ns;
    out.negotiation_ns = own.negotiation_ns;
    out.late_ns = own.waiting_ns;
    out.exchange_ns = own.exchange_ns;
    out.copying_ns = own.copy_ns;
    out.struct_bytes = counters_out->struct_bytes;
    out.held = own.held;
    out.overtaken = own.overtaken;
    out.coded_calls = own.coded_calls;
    out.coded_raw_bytes = own.coded_bytes;
    out.coded_wire_bytes = own.wire_bytes;
    out.coding_ns = own.coding_ns;
    out.uncoded = own.uncoded;
    memcpy(counters_out, &out, tt_min_u64(out.struct_bytes, sizeof(out)));
    return TUTTI_OK;
}
