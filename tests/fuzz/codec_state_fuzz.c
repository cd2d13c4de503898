/* SPDX-License-Identifier: Apache-2.0
 *
 * codec_state_fuzz.c - any bytes as the saved state of codecs: refused, and nothing has changed; or
 * taken, and saved again as a state that is taken.
 *
 * The first byte of the input tells what is put right before loading, so that the search gets
 * beyond it: 1 the head, 2 the hash at the end.
 *
 * Labels: codec control */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "control/control_internal.h"
#include "kernel/hash64.h"
#include "platform/sim.h"

enum { SIZE = 2, HEAD_BYTES = 40, VERSION = 2, COUNT = 4, FIX_HEAD = 1, FIX_HASH = 2 };

typedef struct saved {
    uint8_t *bytes;
    size_t count;
} saved;

static saved save(const tt_control *control)
{
    tt_text text = {0};
    saved made = {0};
    tt_status status = tt_control_codec_save(control, NULL, 0, &made.count, &text);
    made.bytes = malloc(made.count);
    TT_ASSERT(status == TT_OK && made.bytes != NULL);
    status = tt_control_codec_save(control, made.bytes, made.count, &made.count, &text);
    TT_ASSERT(status == TT_OK);
    return made;
}

/* A tensor of known length. */
static void add(tt_control *control, const char *name)
{
    tt_feedback *made = tt_feedback_of(control, 0, name, 0);
    TT_ASSERT(made != NULL);
    const tt_status status = tt_kept_make(&made->input, control->platform, COUNT);
    TT_ASSERT(status == TT_OK);
    tt_kept_now(&made->input)[1] = 0.5f;
    made->occurrences = 3;
}

static void put_right(uint8_t *bytes, size_t count, uint8_t what)
{
    const uint32_t head[4] = {VERSION, 0, SIZE, 0};
    uint64_t hash;
    if ((what & FIX_HEAD) != 0 && count >= HEAD_BYTES) {
        const double unit = 2.0;
        memcpy(bytes, "TUTTI-EF", 8);
        memcpy(bytes + 8, head, sizeof(head));
        memcpy(bytes + 24, &unit, sizeof(unit));
    }
    if ((what & FIX_HASH) != 0 && count >= sizeof(hash)) {
        hash = tt_hash64(bytes, count - sizeof(hash), VERSION);
        memcpy(bytes + count - sizeof(hash), &hash, sizeof(hash));
    }
}

static void load(tt_control *control, const uint8_t *bytes, size_t count)
{
    tt_text text = {0};
    const saved before = save(control);
    const tt_status status = tt_control_codec_load(control, bytes, count, &text);
    const saved after = save(control);
    if (status == TT_OK) {
        TT_ASSERT(tt_control_codec_load(control, after.bytes, after.count, &text) == TT_OK);
        tt_control_codec_commit(control);
        tt_control_codec_undo(control);
        (void)tt_control_codec_norm(control);
    } else {
        TT_ASSERT(status == TT_ERR_BAD_ARGUMENT && text.length > 0);
        TT_ASSERT(after.count == before.count);
        TT_ASSERT(memcmp(after.bytes, before.bytes, after.count) == 0);
    }
    free(before.bytes);
    free(after.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    static const uint32_t hosts[SIZE] = {0, 1};
    if (byte_count == 0) {
        return 0;
    }
    tt_sim_config network;
    tt_control_config config;
    tt_control *control;
    tt_sim_config_init(&network);
    network.size = SIZE;
    network.host_of = hosts;
    tt_sim *sim = tt_sim_create(&network);
    tt_control_config_init(&config);
    const tt_world world = {.rank = 0, .size = SIZE, .epoch = 1, .host_of = hosts};
    const tt_status status = tt_control_create(tt_sim_platform(sim, 0), &world, &config,
                                               &(tt_control_listener){0}, &control);
    TT_ASSERT(status == TT_OK);
    add(control, "known");
    uint8_t *copy = malloc(byte_count); /* as long as it is, so that a sanitizer sees its end */
    TT_ASSERT(copy != NULL);
    memcpy(copy, bytes + 1, byte_count - 1);
    put_right(copy, byte_count - 1, bytes[0]);
    load(control, copy, byte_count - 1);
    free(copy);
    tt_control_destroy(control);
    TT_ASSERT(tt_sim_destroy(sim));
    return 0;
}
