/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank under a real PMI server: publishes a text, reads the others', checks all of them.
 * Prints "rank R of N: ok" and exits 0, or prints the cause and exits 1. */
#include <stdio.h>
#include <string.h>

#include "launch/launch.h"

enum { TIMEOUT_MS = 30000 };

static tt_status exchange(tt_launch_pmi *pmi, const tt_launch_identity *identity,
                          tt_launch_why *why)
{
    char key[32];
    char value[64];
    char expected[64];
    (void)snprintf(key, sizeof(key), "tutti-%u", identity->rank);
    (void)snprintf(value, sizeof(value), "from=%u;of=%u", identity->rank, identity->size);
    TT_TRY(tt_launch_pmi_put(pmi, key, value, why));
    TT_TRY(tt_launch_pmi_barrier(pmi, why));
    for (uint32_t peer = 0; peer < identity->size; peer++) {
        (void)snprintf(key, sizeof(key), "tutti-%u", peer);
        (void)snprintf(expected, sizeof(expected), "from=%u;of=%u", peer, identity->size);
        TT_TRY(tt_launch_pmi_get(pmi, key, value, sizeof(value), why));
        if (strcmp(value, expected) != 0) {
            return tt_launch_fail(why, TT_ERR_MISMATCH, "peer %u published '%s'", peer, value);
        }
    }
    return TT_OK;
}

int main(void)
{
    char command[256];
    tt_launch_identity identity;
    tt_launch_pmi *pmi = NULL;
    tt_launch_why why = {""};
    const tt_launch_source source = tt_launch_source_process(command, sizeof(command));
    tt_status status = tt_launch_identify(&source, &identity, &why);
    if (status == TT_OK) {
        status = tt_launch_pmi_create(&source, TIMEOUT_MS, &pmi, &why);
    }
    if (status == TT_OK) {
        status = exchange(pmi, &identity, &why);
    }
    if (status != TT_OK) {
        fprintf(stderr, "pmi: %s: %s\n", tt_status_text(status), why.text);
    } else {
        printf("rank %u of %u in %s: ok\n", identity.rank, identity.size, tt_launch_pmi_job(pmi));
    }
    tt_launch_pmi_destroy(pmi);
    return status == TT_OK ? 0 : 1;
}
