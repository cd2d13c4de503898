/* SPDX-License-Identifier: Apache-2.0
 *
 * command_codec.c - `tutti codec`: the codecs there are, and how fast they are here. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/memory.h"
#include "cli/buffer.h"
#include "cli/codec/codec_rates.h"
#include "cli/commands.h"
#include "cli/stopwatch.h"
#include "codec/registry.h"

enum { EXIT_USAGE = 2, ROUNDS = 11 };

#define SIZE_MIN ((uint64_t)4 << 10)
#define SIZE_MAX_BYTES ((uint64_t)16 << 30)

typedef struct codec_values {
    bool lists;
    bool measures;
    uint64_t bytes;
    tt_option_list codecs;
} codec_values;

#define AT(member) offsetof(codec_values, member)

static const tt_option options[] = {
    {'\0', "list", TT_OPTION_FLAG, AT(lists), NULL,
     "show codecs: wire bytes, guarantees, options and their defaults", NULL, NULL, NULL, 0, 0},
    {'\0', "bench", TT_OPTION_FLAG, AT(measures), NULL,
     "measure how fast one core of this machine encodes, and decodes and adds", NULL, NULL, NULL, 0,
     0},
    {'\0', "size", TT_OPTION_BYTES, AT(bytes), "BYTES",
     "bytes of 32-bit floats to code, 4K to 16G; needs five times that memory", "64M", NULL, NULL,
     0, 0},
    {'\0', "codec", TT_OPTION_LIST, AT(codecs), "CODEC",
     "only this codec, with or without options: int8, int8:block=512,ef=off; may be repeated", NULL,
     NULL, NULL, 0, 0},
};

/* ---- the codecs that are meant ---- */

typedef struct codec_case {
    tt_codec_spec spec;
    char text[TT_CODEC_TEXT_BYTES];
    double encode_s[ROUNDS], add_s[ROUNDS];
} codec_case;

static size_t registered_count(void)
{
    size_t count = 0;
    while (tt_codec_at(count) != NULL) {
        count++;
    }
    return count;
}

/* Those of --codec, or all; the caller frees. NULL: one is unknown, which was reported. */
static codec_case *find_cases(const tt_option_list *codecs, size_t *count_out)
{
    const size_t count = codecs->count > 0 ? codecs->count : registered_count();
    codec_case *cases = tt_cli_allocate(count, sizeof(*cases));
    for (size_t i = 0; i < count; i++) {
        const char *text = codecs->count > 0 ? codecs->items[i] : tt_codec_at(i)->name;
        tt_text why = {0}, shown = {0};
        if (tt_codec_parse(text, &cases[i].spec, &why) != TT_OK) {
            tt_text_add_words(&shown, why.bytes, why.length);
            fprintf(stderr, "tutti codec: --codec: %s\n", shown.bytes);
            free(cases);
            return NULL;
        }
        tt_codec_print(&cases[i].spec, cases[i].text);
    }
    *count_out = count;
    return cases;
}

/* ---- the list ---- */

static double bytes_per_element(const tt_codec_spec *spec)
{
    return (double)tt_codec_wire_bytes(spec, spec->block) / spec->block;
}

static void print_traits(uint32_t traits)
{
    static const struct {
        uint32_t trait;
        const char *name;
    } names[] = {{TT_CODEC_UNBIASED, "unbiased"},
                 {TT_CODEC_CONTRACTION, "contraction"},
                 {TT_CODEC_CAST, "cast"},
                 {TT_CODEC_SUMMABLE, "summable"}};
    const char *before = "";
    for (size_t i = 0; i < TT_ARRAY_COUNT(names); i++) {
        if ((traits & names[i].trait) != 0) {
            printf("%s%s", before, names[i].name);
            before = ", ";
        }
    }
}

static void print_options(const tt_codec_spec *spec)
{
    const tt_codec *codec = spec->codec;
    if (codec->has_block) {
        printf(" block=%u", spec->block);
    }
    if (codec->bits_min != codec->bits_max) {
        printf(" bits=%u (or %u)", spec->bits,
               spec->bits == codec->bits_max ? codec->bits_min : codec->bits_max);
    }
    if ((codec->traits & TT_CODEC_CONTRACTION) != 0) {
        printf(" ef=%s", spec->has_feedback ? "on" : "off");
    } else if (!codec->has_block) {
        printf(" none");
    }
}

static int print_list(const codec_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const tt_codec_spec *spec = &cases[i].spec;
        printf("%-9s%s\n         %.3f bytes an element; ", tt_codec_name(spec),
               spec->codec->summary, bytes_per_element(spec));
        print_traits(tt_codec_traits(spec));
        printf("; options:");
        print_options(spec);
        putchar('\n');
    }
    printf(
        "\nblock: elements that share a scale, a power of two from %d to %d. ef: error feedback, "
        "on, off or 21 (EF21; not of summable codecs).\nwhere: across (the default) codes between "
        "hosts, all between all ranks.\n"
        "unbiased: right on average. contraction: may be used with error feedback. "
        "cast: another type of float.\nsummable: ranks share scales, so that their codes are added "
        "as they are, by any algorithm.\n",
        (int)TT_CODEC_BLOCK_MIN, (int)TT_CODEC_BLOCK_MAX);
    return 0;
}

/* ---- rates ---- */

static void print_rates(codec_case *cases, size_t count, double copy_s, double gb)
{
    printf("%-28s %12s %10s %16s %10s\n", "codec", "encode GB/s", "/ memcpy", "decode-add GB/s",
           "/ memcpy");
    for (size_t i = 0; i < count; i++) {
        const double encode_s = tt_stopwatch_median(cases[i].encode_s, ROUNDS);
        const double add_s = tt_stopwatch_median(cases[i].add_s, ROUNDS);
        printf("%-28s %12.2f %10.2f %16.2f %10.2f\n", cases[i].text, gb / encode_s,
               copy_s / encode_s, gb / add_s, copy_s / add_s);
    }
}

/* Turns, not one codec after the other: what else runs here slows all of them alike. */
static void measure(codec_case *cases, size_t count, const tt_rates_room *room)
{
    double copy_s[ROUNDS];
    for (size_t round = 0; round < ROUNDS; round++) {
        copy_s[round] = tt_rates_copy_s(room);
        for (size_t i = 0; i < count; i++) {
            cases[i].encode_s[round] = tt_rates_encode_s(&cases[i].spec, room);
            cases[i].add_s[round] = tt_rates_add_s(&cases[i].spec, room);
        }
    }
    const double gb = (double)room->count * sizeof(float) * 1e-9;
    const double middle_s = tt_stopwatch_median(copy_s, ROUNDS);
    printf("# bytes of f32 a second, on one core; median of %d; %zu bytes\nmemcpy %.2f GB/s\n",
           (int)ROUNDS, room->count * sizeof(float), gb / middle_s);
    print_rates(cases, count, middle_s, gb);
}

static int run_bench(codec_case *cases, size_t count, uint64_t bytes)
{
    const size_t grain_bytes = TT_RATES_GRAIN * sizeof(float);
    const uint64_t used = bytes / grain_bytes * grain_bytes;
    tt_rates_room room = {0};
    if (tt_memory_available() < TT_RATES_MEMORY_TIMES * used ||
        !tt_rates_room_take(&room, (size_t)(used / sizeof(float)))) {
        fprintf(stderr,
                "tutti codec: --size %" PRIu64 " needs %" PRIu64
                " MiB of memory, more than there is; choose a smaller one\n",
                bytes, TT_RATES_MEMORY_TIMES * used >> 20);
        tt_rates_room_give(&room);
        return 1;
    }
    measure(cases, count, &room);
    tt_rates_room_give(&room);
    return 0;
}

/* ---- the command ---- */

static int run(const void *raw_values, int operand_count, char **operands)
{
    const codec_values *values = raw_values;
    (void)operand_count;
    (void)operands;
    if (values->lists == values->measures) {
        fputs(values->lists ? "tutti codec: --list and --bench exclude each other; leave one out\n"
                            : "tutti codec: nothing to do; give --list or --bench\n",
              stderr);
        return EXIT_USAGE;
    }
    if (values->bytes < SIZE_MIN || values->bytes > SIZE_MAX_BYTES) {
        fprintf(stderr, "tutti codec: --size %" PRIu64 " is not between 4K and 16G\n",
                values->bytes);
        return EXIT_USAGE;
    }
    size_t count = 0;
    codec_case *cases = find_cases(&values->codecs, &count);
    if (cases == NULL) {
        return EXIT_USAGE;
    }
    const int code =
        values->lists ? print_list(cases, count) : run_bench(cases, count, values->bytes);
    free(cases);
    return code;
}

static const tt_command_note exit_status[] = {
    {"0", "Shown or measured."},
    {"1", "There is not enough memory for --size."},
    {"2", "Wrong usage; an unknown codec, too."},
    {NULL, NULL},
};

static const tt_command_note examples[] = {
    {"tutti codec --list", "All codecs, their options and defaults:"},
    {"tutti codec --bench", "How fast they are here:"},
    {"tutti codec --bench --codec int8:ef=off --codec int8:ef=on --size 256M",
     "What error feedback costs:"},
    {NULL, NULL},
};

const tt_command tt_command_codec = {
    .name = "codec",
    .summary = "List the codecs for gradients, or measure how fast they are on this machine.",
    .operands = "",
    .description =
        "A codec turns the 32-bit floats of a gradient into fewer bytes. --list shows what each "
        "sends for an element, what it guarantees, and its options with their defaults. --bench "
        "gives rates in bytes of floats a second on one core, beside memcpy of the same floats: "
        "encode makes wire bytes (with error feedback it reads and writes the residual, too), "
        "decode-add adds the wire bytes of a peer to a sum. No call uses a codec yet.",
    .options = options,
    .option_count = TT_ARRAY_COUNT(options),
    .values_bytes = sizeof(codec_values),
    .exit_status = exit_status,
    .examples = examples,
    .run = run,
};
