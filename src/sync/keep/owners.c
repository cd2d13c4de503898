/* SPDX-License-Identifier: Apache-2.0
 *
 * owners.c - see owners.h. */
#include "sync/keep/owners.h"

#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "sync/sync_internal.h"

static const char digits[] = "0123456789abcdef";

tt_status tt_owners_make(tt_sync *sync, const uint8_t *may_own, tt_split *split_out, tt_text *why)
{
    const uint32_t servers = sync->roles.servers;
    uint32_t count = 0;
    *split_out = sync->split;
    if (may_own == NULL || servers == 0) {
        return TT_OK;
    }
    if (servers > TT_OWNERS_SERVERS_MAX) {
        tt_text_add(why, "stores with some of the servers need a job of at most %d, this has %u",
                    (int)TT_OWNERS_SERVERS_MAX, servers);
        return TT_ERR_UNSUPPORTED;
    }
    uint32_t *chosen = tt_platform_allocate(sync->platform, servers * sizeof(*chosen));
    if (chosen == NULL) {
        tt_text_add(why, "no memory for a store");
        return TT_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < servers; i++) {
        if (may_own[i] != 0) {
            chosen[count++] = i;
        }
    }
    *split_out = tt_split_make_of(sync->roles.workers, servers, chosen, count);
    return TT_OK;
}

void tt_owners_release(tt_sync *sync, tt_split *split)
{
    tt_platform_release(sync->platform, (void *)(uintptr_t)split->chosen,
                        split->servers * sizeof(*split->chosen));
    split->chosen = NULL;
}

void tt_owners_print(const tt_split *split, uint64_t clock, tt_text *settings)
{
    char text[TT_OWNERS_SERVERS_MAX / 4 + 1] = {0};
    uint8_t bits[TT_OWNERS_SERVERS_MAX / 4] = {0};
    if (clock > 0) {
        tt_text_add(settings, " clock=%llu", (unsigned long long)clock);
    }
    if (split->chosen == NULL) {
        return;
    }
    for (uint32_t i = 0; i < split->used; i++) {
        bits[split->chosen[i] / 4] |= (uint8_t)(1U << split->chosen[i] % 4);
    }
    for (uint32_t i = 0; i < (split->servers + 3) / 4; i++) {
        text[i] = digits[bits[i]];
    }
    tt_text_add(settings, " servers=%s", text);
}

static bool read_clock(const char *text, uint64_t *clock_out)
{
    uint64_t clock = 0;
    bool is_sound = *text != '\0';
    for (; *text != '\0' && is_sound; text++) {
        is_sound = *text >= '0' && *text <= '9' && clock <= UINT32_MAX;
        clock = 10 * clock + (uint64_t)(uint8_t)(*text - '0');
    }
    *clock_out = clock;
    return is_sound && clock <= UINT32_MAX;
}

static bool read_servers(const char *text, uint32_t servers, uint8_t *may_own)
{
    const size_t length = (servers + 3) / 4;
    bool is_sound = strlen(text) == length;
    for (uint32_t i = 0; i < servers && is_sound; i++) {
        const char *digit = strchr(digits, text[i / 4]);
        is_sound = digit != NULL;
        may_own[i] = is_sound ? (uint8_t)((uint32_t)(digit - digits) >> i % 4 & 1) : 0;
    }
    return is_sound;
}

tt_status tt_owners_read(tt_sync *sync, const char *word, tt_split *split_io, uint64_t *clock_io)
{
    static const char clock_mark[] = "clock=", servers_mark[] = "servers=";
    uint8_t may_own[TT_OWNERS_SERVERS_MAX] = {0};
    tt_text why = {0};
    if (strncmp(word, clock_mark, sizeof(clock_mark) - 1) == 0) {
        return read_clock(word + sizeof(clock_mark) - 1, clock_io) ? TT_OK : TT_ERR_BAD_WIRE;
    }
    if (strncmp(word, servers_mark, sizeof(servers_mark) - 1) != 0 || split_io->chosen != NULL ||
        sync->roles.servers > TT_OWNERS_SERVERS_MAX ||
        !read_servers(word + sizeof(servers_mark) - 1, sync->roles.servers, may_own)) {
        return TT_ERR_BAD_WIRE;
    }
    return tt_owners_make(sync, may_own, split_io, &why);
}
