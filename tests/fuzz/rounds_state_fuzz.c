/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds_state_fuzz.c - any bytes as the saved state of a tutti_sync: refused, and nothing has
 * changed; or taken, and saved again as a state that is taken.
 *
 * The first byte of the input chooses the policy and tells what is put right before loading, so
 * that the search gets beyond it: 1 head and hash. The state is then of as many bytes as given.
 *
 * Labels: sync */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "kernel/hash64.h"
#include "tutti/sync.h"

enum { STEPS = 5, COUNT = 4, HEAD_BYTES = 304, POLICY_AT = 48, FIX = 1 };

static const char *const policies[] = {
    "local:period=2", "outer:period=4,fragments=2,delay=1,alpha=0.5", "pipeline:delay=2"};
enum { POLICIES = sizeof(policies) / sizeof(*policies) };

typedef struct saved {
    uint8_t *bytes;
    size_t count;
} saved;

static saved save(tutti_sync *sync)
{
    saved made = {0};
    tutti_status status = tutti_sync_save(sync, NULL, 0, &made.count);
    TT_ASSERT(status == TUTTI_ERR_NO_RESOURCE);
    made.bytes = malloc(made.count);
    TT_ASSERT(made.bytes != NULL);
    status = tutti_sync_save(sync, made.bytes, made.count, &made.count);
    TT_ASSERT(status == TUTTI_OK);
    return made;
}

static void put_right(uint8_t *bytes, size_t count, const char *policy)
{
    const uint32_t head[2] = {1, 2}; /* version, tensors */
    const uint64_t length = count;
    if (count < HEAD_BYTES + sizeof(uint64_t)) {
        return;
    }
    memcpy(bytes, "tt_sync", 8);
    memcpy(bytes + 8, head, sizeof(head));
    memcpy(bytes + 16, &length, sizeof(length));
    memset(bytes + POLICY_AT, 0, HEAD_BYTES - POLICY_AT);
    memcpy(bytes + POLICY_AT, policy, strlen(policy));
    const uint64_t hash = tt_hash64(bytes, count - sizeof(hash), 0);
    memcpy(bytes + count - sizeof(hash), &hash, sizeof(hash));
}

static void load(tutti_sync *sync, const uint8_t *bytes, size_t count)
{
    const saved before = save(sync);
    const tutti_status status = tutti_sync_load(sync, bytes, count);
    const saved after = save(sync);
    if (status == TUTTI_OK) {
        for (int i = 0; i < STEPS; i++) {
            TT_ASSERT(tutti_sync_step(sync, NULL) == TUTTI_OK);
        }
        TT_ASSERT(tutti_sync_flush(sync, NULL) == TUTTI_OK);
    } else {
        TT_ASSERT(after.count == before.count);
        TT_ASSERT(memcmp(after.bytes, before.bytes, after.count) == 0);
    }
    free(before.bytes);
    free(after.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    static tutti_context *context; /* of the process: joining anew for each input would be slow */
    float weights[COUNT] = {1.0f}, more[1] = {2.0f};
    tutti_sync *sync = NULL;
    if (byte_count == 0) {
        return 0;
    }
    if (context == NULL) {
        tutti_options options = TUTTI_OPTIONS_INIT;
        options.rank = 0;
        options.size = 1;
        TT_ASSERT(tutti_init(&options, &context) == TUTTI_OK);
    }
    const char *policy = policies[bytes[0] / 2 % POLICIES];
    TT_ASSERT(tutti_sync_open(context, TUTTI_WORLD, policy, NULL, &sync) == TUTTI_OK);
    TT_ASSERT(tutti_sync_add(sync, "w", weights, COUNT, TUTTI_F32) == TUTTI_OK);
    TT_ASSERT(tutti_sync_add(sync, "v", more, 1, TUTTI_F32) == TUTTI_OK);
    uint8_t *copy = malloc(byte_count); /* as long as it is, so that a sanitizer sees its end */
    TT_ASSERT(copy != NULL);
    memcpy(copy, bytes + 1, byte_count - 1);
    if ((bytes[0] & FIX) != 0) {
        put_right(copy, byte_count - 1, policy);
    }
    load(sync, copy, byte_count - 1);
    free(copy);
    tutti_sync_close(sync);
    return 0;
}
