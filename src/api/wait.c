/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - waiting for several calls. */
#include "api/api_internal.h"
#include "base/base.h"

enum { SLICE_NS = 1000 * 1000 }; /* with several contexts; progress threads drive the other calls */

static uint64_t deadline_of(double timeout_s)
{
    const bool is_endless = timeout_s < 0.0 || timeout_s > 1e9;
    return is_endless ? UINT64_MAX : tt_clock_ns() + tt_seconds_to_ns(timeout_s);
}

/* Seconds left until then, at most `slice_ns`; negative: no timeout. */
static double rest_s(uint64_t until_ns, uint64_t slice_ns)
{
    if (until_ns == UINT64_MAX && slice_ns == UINT64_MAX) {
        return -1.0;
    }
    const uint64_t now_ns = tt_clock_ns();
    return (double)tt_min_u64(now_ns < until_ns ? until_ns - now_ns : 0, slice_ns) / 1e9;
}

tutti_status tutti_wait_all(tutti_handle *const *handles, int count, double timeout_s)
{
    const uint64_t until_ns = deadline_of(timeout_s);
    tutti_status first = TUTTI_OK;
    if (handles == NULL && count > 0) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "handles is NULL");
    }
    for (int i = 0; i < count; i++) {
        if (handles[i] == NULL) {
            continue;
        }
        const tutti_status status = tutti_wait(handles[i], rest_s(until_ns, UINT64_MAX));
        if (status == TUTTI_IN_PROGRESS) {
            return status;
        }
        first = first == TUTTI_OK ? status : first;
    }
    return first;
}

static bool are_of(const tutti_context *context, tutti_handle *const *handles, int count)
{
    for (int i = 0; i < count; i++) {
        if (handles[i] != NULL && handles[i]->context != context) {
            return false;
        }
    }
    return true;
}

tutti_status tutti_wait_any(tutti_handle *const *handles, int count, double timeout_s,
                            int *index_out)
{
    const uint64_t until_ns = deadline_of(timeout_s);
    int some = 0;
    while (handles != NULL && some < count && handles[some] == NULL) {
        some++;
    }
    if (handles == NULL || index_out == NULL || some >= count) {
        return tt_error_set(TUTTI_ERR_BAD_ARGUMENT, "tutti_wait_any: handles or index_out is NULL, "
                                                    "or all handles are; pass at least one handle");
    }
    tutti_context *context = handles[some]->context;
    const bool is_common = are_of(context, handles, count);
    for (;;) {
        const int over = tt_call_find_over(handles, count);
        if (over >= 0) {
            *index_out = over;
            return tutti_wait(handles[over], 0.0);
        }
        if (tt_clock_ns() >= until_ns) {
            return TUTTI_IN_PROGRESS;
        }
        int index;
        const tutti_status status =
            tt_call_await(context, handles + some, is_common ? count - some : 1,
                          rest_s(until_ns, is_common ? UINT64_MAX : SLICE_NS), &index);
        if (index >= 0) {
            *index_out = some + index;
        }
        if (index >= 0 || status < 0) { /* else in a callback, or the context ends */
            return status;
        }
    }
}
