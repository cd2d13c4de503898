/* SPDX-License-Identifier: Apache-2.0
 *
 * codec-rates.c - how fast one core encodes and decodes, beside memcpy.
 *
 * usage: bench-codec-rates [--quick] [--rounds N] [--json FILE] [--bytes N]
 *
 * 64 MiB of f32, beyond every cache but the largest. encode: values to wire bytes; with error
 * feedback the residual is read and written, too. decode-add: what an owner does with the bytes of
 * each rank. Rates are bytes of f32 a second; memcpy of the same f32 is measured in the same turns.
 * The ratios come last.
 *
 * `tutti codec --bench` is the same for users; its measurement is compiled in, since benchmarks
 * link the library only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/codec/codec_rates.c"
#include "codec/registry.h"

enum { ROUNDS = 21, ROUNDS_QUICK = 5 };

typedef struct rate_case {
    const char *text;
    double encode_wanted, add_wanted; /* of memcpy; 0: not a target */
    tt_codec_spec spec;
    double encode_s[ROUNDS], add_s[ROUNDS];
} rate_case;

static rate_case cases[] = {
    {.text = "fp16", .encode_wanted = 0.8, .add_wanted = 0.8},
    {.text = "bf16", .encode_wanted = 0.8, .add_wanted = 0.8},
    {.text = "e4m3:ef=off", .encode_wanted = 0.6, .add_wanted = 0.6},
    {.text = "e5m2:ef=off", .encode_wanted = 0.6, .add_wanted = 0.6},
    {.text = "int8:ef=off", .encode_wanted = 0.8, .add_wanted = 0.8},
    {.text = "int8:ef=on", .encode_wanted = 0.4},
    {.text = "int4:ef=off", .encode_wanted = 0.6, .add_wanted = 0.6},
    {.text = "sign:ef=off", .encode_wanted = 0.8, .add_wanted = 0.8},
    {.text = "sign:ef=on"},
    {.text = "onebit:ef=off"},
    {.text = "qsgd"},
    {.text = "natural"},
};

static void report(double copy_s, size_t rounds, size_t count, FILE *json)
{
    const double gb = (double)count * sizeof(float) * 1e-9;
    printf("memcpy %.2f GB/s\n", gb / copy_s);
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        rate_case *one = &cases[i];
        const double encode_s = tt_stopwatch_median(one->encode_s, rounds),
                     add_s = tt_stopwatch_median(one->add_s, rounds);
        printf("%-12s encode %6.2f GB/s   decode-add %6.2f GB/s\n", one->text, gb / encode_s,
               gb / add_s);
        if (json != NULL) {
            fprintf(json,
                    "{\"bench\": \"codec-rates\", \"codec\": \"%s\", \"encode_gbs\": %.3f, "
                    "\"decode_add_gbs\": %.3f, \"memcpy_gbs\": %.3f, \"rounds\": %zu, "
                    "\"encode_wanted\": %.1f, \"decode_add_wanted\": %.1f}\n",
                    one->text, gb / encode_s, gb / add_s, gb / copy_s, rounds, one->encode_wanted,
                    one->add_wanted);
        }
    }
    printf("\nover memcpy    encode (wanted)   decode-add (wanted)\n");
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        rate_case *one = &cases[i];
        printf("%-12s   %6.2f (%4.1f)     %6.2f (%4.1f)\n", one->text,
               copy_s / tt_stopwatch_median(one->encode_s, rounds), one->encode_wanted,
               copy_s / tt_stopwatch_median(one->add_s, rounds), one->add_wanted);
    }
}

static bool prepare(void)
{
    for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
        tt_text why;
        if (tt_codec_parse(cases[i].text, &cases[i].spec, &why) != TT_OK) {
            fprintf(stderr, "bench-codec-rates: %s\n", why.bytes);
            return false;
        }
    }
    return true;
}

int main(int count, char **words)
{
    size_t rounds = ROUNDS, bytes = 64u << 20;
    const char *path = NULL;
    static double copy_s[ROUNDS];
    tt_rates_room room;
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--quick") == 0) {
            rounds = ROUNDS_QUICK;
        } else if (strcmp(words[i], "--json") == 0 && i + 1 < count) {
            path = words[++i];
        } else if (strcmp(words[i], "--rounds") == 0 && i + 1 < count) {
            const size_t wanted = strtoull(words[++i], NULL, 10);
            rounds = wanted < 1 ? 1 : wanted > ROUNDS ? ROUNDS : wanted;
        } else if (strcmp(words[i], "--bytes") == 0 && i + 1 < count) {
            bytes = strtoull(words[++i], NULL, 10) / 4096 * 4096;
        } else {
            fprintf(stderr, "usage: bench-codec-rates [--quick] [--rounds N] [--json FILE] "
                            "[--bytes N]\n");
            return strcmp(words[i], "--help") == 0 ? 0 : 2;
        }
    }
    FILE *json = path != NULL ? fopen(path, "w") : NULL;
    if (!prepare() || bytes == 0 || !tt_rates_room_take(&room, bytes / sizeof(float)) ||
        (path != NULL && json == NULL)) {
        perror("bench-codec-rates");
        return 1;
    }
    for (size_t round = 0; round < rounds; round++) {
        copy_s[round] = tt_rates_copy_s(&room);
        for (size_t i = 0; i < TT_ARRAY_COUNT(cases); i++) {
            cases[i].encode_s[round] = tt_rates_encode_s(&cases[i].spec, &room);
            cases[i].add_s[round] = tt_rates_add_s(&cases[i].spec, &room);
        }
    }
    report(tt_stopwatch_median(copy_s, rounds), rounds, room.count, json);
    if (json != NULL) {
        (void)fclose(json);
    }
    tt_rates_room_give(&room);
    return 0;
}
