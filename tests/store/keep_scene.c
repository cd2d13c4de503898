/* SPDX-License-Identifier: Apache-2.0
 *
 * keep_scene.c - scenes of stores that move while processes are killed; see keep_faults.c. */
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "store/store_run.h"

static void draw_policy(scene *kept, tt_random *random)
{
    static const char *const policies[] = {"bulk", "stale:1", "stale:1", "stale:3", "async"};
    static const char *const quorums[] = {"quorum:1", "quorum:2", "quorum:3", "quorum:4",
                                          "quorum:5"};
    _Static_assert(TT_ARRAY_COUNT(quorums) == WORKERS_MAX, "one for each number of workers");
    static const char *const bulk[] = {"add", "momentum:lr=0.25,momentum=0.5,nesterov=1",
                                       "adam:lr=0.125,decay=0.0625"};
    static const char *const other[] = {"add", "add", "sgd:lr=0.5,tau=1,dc=0.125",
                                        "momentum:lr=0.25,tau=1", "adam:lr=0.125"};
    static const char *const quorum[] = {"add", "add", "sgd:lr=0.5", "momentum:lr=0.25",
                                         "adam:lr=0.125"};
    tt_text why = {0};
    kept->policy_text = tt_random_below(random, 4) == 0
                            ? quorums[tt_random_below(random, kept->workers)]
                            : policies[tt_random_below(random, TT_ARRAY_COUNT(policies))];
    tt_status status = tt_policy_parse(kept->policy_text, kept->workers, &kept->policy, &why);
    TT_ASSERT(status == TT_OK);
    const bool is_bulk = tt_policy_is_bulk(&kept->policy);
    kept->update_text = is_bulk ? bulk[tt_random_below(random, TT_ARRAY_COUNT(bulk))]
                        : kept->policy.quorum > 0
                            ? quorum[tt_random_below(random, TT_ARRAY_COUNT(quorum))]
                            : other[tt_random_below(random, TT_ARRAY_COUNT(other))];
    status = tt_update_parse(kept->update_text, &kept->update, &why);
    TT_ASSERT(status == TT_OK);
    kept->has_counters = !is_bulk && strcmp(kept->update_text, "add") == 0;
    kept->is_uniform = !is_bulk && !kept->has_counters;
    kept->dtype = kept->has_counters ? TT_I64 : TT_F32;
}

/* What the others draw, without codecs, tables and options; links are not severed. */
scene keep_faults_draw(const scene *drawn, tt_random *random)
{
    scene kept = *drawn;
    draw_policy(&kept, random);
    kept.codec_text = NULL;
    kept.codec = (tt_codec_spec){.codec = NULL};
    kept.can_lose = false;
    kept.sets = 0;
    for (uint32_t i = 0; i < kept.tensors; i++) {
        kept.row_elements[i] = 0;
        kept.counts[i] = tt_min_u64(kept.counts[i], KEEP_FAULTS_COUNT_MAX);
    }
    for (uint32_t i = 0; i < kept.faults; i++) {
        if (kept.fault[i].kind == FAULT_KILL || kept.fault[i].kind == FAULT_SEVER) {
            kept.fault[i].kind = FAULT_KILL;
            kept.fault[i].at_ns = tt_random_below(random, 8000000 * (uint64_t)kept.iterations);
        }
    }
    return kept;
}
