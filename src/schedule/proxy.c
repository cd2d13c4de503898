/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy.c - see proxy.h. Invariant: paid_count <= owed_count; `done` is set only while they
 * differ. */
#include "schedule/proxy.h"

#include <stddef.h>

#include "base/assert.h"

void tt_proxy_post(tt_proxy *proxy, uint64_t task_count)
{
    TT_ASSERT(proxy->paid_count <= proxy->owed_count);
    proxy->owed_count += task_count;
}

static tt_status status_take(tt_proxy *proxy)
{
    const tt_status status = proxy->status;
    proxy->status = TT_OK;
    return status;
}

tt_status tt_proxy_pay(tt_proxy *proxy, tt_status status)
{
    if (tt_proxy_is_open(proxy)) {
        return TT_ERR_BAD_ARGUMENT;
    }
    proxy->paid_count++;
    proxy->status = proxy->status == TT_OK ? status : proxy->status;
    if (tt_proxy_is_open(proxy) && proxy->done != NULL) {
        tt_proxy_done_fn *done = proxy->done;
        proxy->done = NULL;
        done(proxy->done_user, status_take(proxy));
    }
    return TT_OK;
}

tt_status tt_proxy_wait(tt_proxy *proxy, tt_proxy_block_fn *block, void *user)
{
    TT_ASSERT(proxy->done == NULL);
    while (!tt_proxy_is_open(proxy)) {
        TT_TRY(block(user));
    }
    return status_take(proxy);
}

tt_status tt_proxy_defer(tt_proxy *proxy, tt_proxy_done_fn *done, void *user)
{
    if (proxy->done != NULL) {
        return TT_ERR_BAD_ARGUMENT;
    }
    if (tt_proxy_is_open(proxy)) {
        return status_take(proxy);
    }
    proxy->done = done;
    proxy->done_user = user;
    return TT_IN_PROGRESS;
}
