/* SPDX-License-Identifier: Apache-2.0 */
#include "base/philox.h"

#include "base/assert.h"

enum {
    ROUND_COUNT = 10,
};

static tt_philox_block philox_round(tt_philox_key key, tt_philox_block in)
{
    const uint64_t product_0 = UINT64_C(0xd2511f53) * in.word[0];
    const uint64_t product_2 = UINT64_C(0xcd9e8d57) * in.word[2];
    return (tt_philox_block){{
        (uint32_t)(product_2 >> 32) ^ in.word[1] ^ key.word[0],
        (uint32_t)product_2,
        (uint32_t)(product_0 >> 32) ^ in.word[3] ^ key.word[1],
        (uint32_t)product_0,
    }};
}

tt_philox_block tt_philox_at(tt_philox_key key, tt_philox_block counter)
{
    for (int round = 0; round < ROUND_COUNT; round++) {
        counter = philox_round(key, counter);
        key.word[0] += UINT32_C(0x9e3779b9);
        key.word[1] += UINT32_C(0xbb67ae85);
    }
    return counter;
}

void tt_random_init(tt_random *random, uint64_t seed, uint64_t stream)
{
    *random = (tt_random){
        .key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}},
        .counter = {{0, 0, (uint32_t)stream, (uint32_t)(stream >> 32)}},
    };
}

uint32_t tt_random_u32(tt_random *random)
{
    if (random->ready_count == 0) {
        random->ready = tt_philox_at(random->key, random->counter);
        random->ready_count = 4;
        random->counter.word[0]++;
        random->counter.word[1] += random->counter.word[0] == 0;
    }
    random->ready_count--;
    return random->ready.word[3 - random->ready_count];
}

uint64_t tt_random_u64(tt_random *random)
{
    const uint64_t low = tt_random_u32(random);
    return low | (uint64_t)tt_random_u32(random) << 32;
}

uint64_t tt_random_below(tt_random *random, uint64_t limit)
{
    TT_ASSERT(limit != 0);
    /* Draws below 2^64 mod limit would favour the small results: draw again. */
    const uint64_t unfair = (0 - limit) % limit;
    uint64_t draw;
    do {
        draw = tt_random_u64(random);
    } while (draw < unfair);
    return draw % limit;
}

double tt_random_real(tt_random *random)
{
    return (double)(tt_random_u64(random) >> 11) * 0x1p-53;
}
