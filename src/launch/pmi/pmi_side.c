/* SPDX-License-Identifier: Apache-2.0
 *
 * pmi_side.c - ranks compare their engines through the launcher's key-value space first.
 *
 * An engine that uses PMI itself (MPICH) would wait for ranks that do not start it. So all ranks
 * put their engine's tag before the first barrier, and compare it with the others' after it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "launch/family_internal.h"
#include "launch/pmi/pmi.h"

enum { KEY_BYTES = 32, SIDE_BYTES = 96, TAG_BYTES = 8, LOOKED_AT_MAX = 1024 };

/* Values are printable and have no blanks: "-", or the tag; then a slash and the host. */
static void side_text(const tt_launch_pmi_side *side, char text[SIDE_BYTES])
{
    char host[64] = "";
    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0') {
        (void)snprintf(host, sizeof(host), "?");
    }
    (void)snprintf(text, SIDE_BYTES, "%.*s/%s", TAG_BYTES,
                   side->engine[0] != '\0' ? side->engine : "-", host);
    for (char *at = text; *at != '\0'; at++) {
        *at = (char)(*at > ' ' && *at <= '~' ? *at : '_');
    }
}

static void key_of(uint32_t rank, char key[KEY_BYTES])
{
    (void)snprintf(key, KEY_BYTES, "tutti-engine-%u", rank);
}

tt_status tt_launch_pmi_announce(tt_launch_pmi *pmi, const tt_launch_pmi_side *side,
                                 tt_launch_why *why)
{
    char key[KEY_BYTES], text[SIDE_BYTES];
    key_of(side->rank, key);
    side_text(side, text);
    return tt_launch_pmi_put(pmi, key, text, why);
}

static tt_status differ(uint32_t rank, const char *root, const char *other, tt_launch_why *why)
{
    const int root_bytes = (int)strcspn(root, "/"), other_bytes = (int)strcspn(other, "/");
    const char *host = other[other_bytes] == '/' ? other + other_bytes + 1 : "?";
    char tags[2][TAG_BYTES + 1] = {"", ""};
    tt_launch_tag_text own, theirs;
    (void)snprintf(tags[0], sizeof(tags[0]), "%.*s", root[0] != '-' ? root_bytes : 0, root);
    (void)snprintf(tags[1], sizeof(tags[1]), "%.*s", other[0] != '-' ? other_bytes : 0, other);
    tt_launch_tag_tell(tags[0], own);
    tt_launch_tag_tell(tags[1], theirs);
    return tt_launch_fail(why, TT_ERR_MISMATCH,
                          "rank 0 %s, rank %u on %s %s; give all ranks the same TUTTI_ENGINE and "
                          "TUTTI_TRANSPORT, and install its plugin on every host (tutti info "
                          "--engines)",
                          own, rank, host, theirs);
}

tt_status tt_launch_pmi_compare(tt_launch_pmi *pmi, const tt_launch_pmi_side *side,
                                tt_launch_why *why)
{
    char key[KEY_BYTES], own[SIDE_BYTES], other[SIDE_BYTES];
    const bool is_root = side->rank == 0;
    const uint32_t end = is_root ? (uint32_t)tt_min_u64(side->size, LOOKED_AT_MAX) : 1;
    side_text(side, own);
    for (uint32_t rank = is_root ? 1 : 0; rank < end; rank++) {
        key_of(rank, key);
        TT_TRY(tt_launch_pmi_get(pmi, key, other, sizeof(other), why));
        const size_t bytes = strcspn(own, "/");
        if (strcspn(other, "/") != bytes || memcmp(own, other, bytes) != 0) {
            return is_root ? differ(rank, own, other, why) : differ(side->rank, other, own, why);
        }
    }
    return TT_OK;
}

tt_status tt_launch_pmi_meet_before(const tt_launch_source *source, uint64_t timeout_ms,
                                    const tt_launch_pmi_side *side, tt_launch_why *why)
{
    tt_launch_pmi *pmi = NULL;
    TT_TRY(tt_launch_pmi_create(source, timeout_ms, &pmi, why));
    tt_status status = tt_launch_pmi_announce(pmi, side, why);
    if (status == TT_OK) {
        status = tt_launch_pmi_barrier(pmi, why);
    }
    if (status == TT_OK) {
        status = tt_launch_pmi_compare(pmi, side, why);
    }
    tt_launch_pmi_forsake(pmi);
    return status;
}
