/* SPDX-License-Identifier: Apache-2.0
 *
 * codec-rank.c - one rank of bench/codec: coded sums by name, declared once and repeated.
 *
 * usage: bench-codec-rank BYTES     (started by bench/codec/run; BYTES of f32, as the lines ask)
 *
 * Wire, in lines of text: the rank sends "RANK"; for each line "CODEC ITERATIONS" it answers
 * "NANOSECONDS CODING_NS WIRE_BYTES ERROR HASH", each of one iteration: time by the clock, time of
 * encoding, adding and decoding on this rank, bytes of the tensor as it was coded. ITERATIONS 0 is
 * one call whose result is looked at afterwards: ERROR is its distance from the exact sum over the
 * length of the exact sum (L2), HASH is over its bits. Both are 0 otherwise.
 *
 * A codec keeps its declared call, and with it what error feedback keeps. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/clock.h"
#include "bench/common/line.h"
#include "tutti/tutti.h"

enum { CODECS_MAX = 16, TEXT_BYTES = 64 };

typedef struct rank_call {
    char codec[TEXT_BYTES];
    tutti_handle *handle;
} rank_call;

typedef struct codec_rank {
    tutti_context *context;
    float *input, *output;
    size_t count;
    rank_call calls[CODECS_MAX];
    size_t call_count;
} codec_rank;

/* Element i of rank r, uniform in [-0.5, 0.5): a mixer of 32 bits (lowbias32). */
static float value_of(uint32_t rank, size_t i)
{
    uint32_t x = (uint32_t)i + rank * 0x9e3779b9u;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return (float)((x ^ (x >> 16)) >> 8) * 0x1p-24f - 0.5f;
}

static bool prepare(codec_rank *self, size_t bytes)
{
    self->count = bytes / sizeof(float);
    self->input = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    self->output = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    if (self->count == 0 || self->input == NULL || self->output == NULL) {
        fprintf(stderr, "bench-codec-rank: no memory for %zu bytes\n", bytes);
        return false;
    }
    const uint32_t rank = (uint32_t)tutti_rank(self->context);
    for (size_t i = 0; i < self->count; i++) {
        self->input[i] = value_of(rank, i);
    }
    memset(self->output, 0, self->count * sizeof(float));
    return true;
}

/* The declared call of this codec, made first if there is none; NULL on failure. */
static tutti_handle *call_of(codec_rank *self, const char *codec)
{
    for (size_t i = 0; i < self->call_count; i++) {
        if (strcmp(self->calls[i].codec, codec) == 0) {
            return self->calls[i].handle;
        }
    }
    if (self->call_count == CODECS_MAX || strlen(codec) >= TEXT_BYTES) {
        return NULL;
    }
    rank_call *made = &self->calls[self->call_count];
    memcpy(made->codec, codec, strlen(codec) + 1);
    tutti_call call = TUTTI_CALL_INIT;
    call.name = made->codec;
    call.codec = made->codec;
    call.input = self->input;
    call.output = self->output;
    call.count = self->count;
    if (tutti_declare(self->context, &call, &made->handle) != TUTTI_OK) {
        return NULL;
    }
    self->call_count++;
    return made->handle;
}

static double error_of(const codec_rank *self)
{
    const uint32_t ranks = (uint32_t)tutti_size(self->context);
    double distance = 0.0, length = 0.0;
    for (size_t i = 0; i < self->count; i++) {
        double exact = 0.0;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            exact += (double)value_of(rank, i);
        }
        const double off = (double)self->output[i] - exact;
        distance += off * off;
        length += exact * exact;
    }
    return sqrt(distance / length);
}

static uint32_t hash_of(const codec_rank *self)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < self->count; i++) {
        uint32_t bits;
        memcpy(&bits, &self->output[i], sizeof(bits));
        hash = (hash ^ bits) * 16777619u;
    }
    return hash;
}

/* False: the rank cannot go on. */
static bool obey(codec_rank *self, const char *line, FILE *answers)
{
    tutti_counters before = TUTTI_COUNTERS_INIT, after = TUTTI_COUNTERS_INIT;
    char codec[TEXT_BYTES];
    long asked = 0;
    if (sscanf(line, "%63s %ld", codec, &asked) != 2 || asked < 0) {
        return false;
    }
    const bool is_check = asked == 0;
    const long iterations = is_check ? 1 : asked;
    tutti_handle *handle = call_of(self, codec);
    if (handle == NULL || tutti_barrier(self->context) != TUTTI_OK ||
        tutti_count(self->context, TUTTI_WORLD, &before) != TUTTI_OK) {
        return false;
    }
    const int64_t begin_ns = bench_now_ns();
    for (long i = 0; i < iterations; i++) {
        if (tutti_rerun(handle) != TUTTI_OK) {
            return false;
        }
    }
    const double each_ns = (double)(bench_now_ns() - begin_ns) / (double)iterations;
    if (tutti_count(self->context, TUTTI_WORLD, &after) != TUTTI_OK) {
        return false;
    }
    const uint64_t coded = after.coded_calls - before.coded_calls;
    const double wire =
        coded > 0 ? (double)(after.coded_wire_bytes - before.coded_wire_bytes) / (double)iterations
                  : (double)(self->count * sizeof(float));
    fprintf(answers, "%.0f %.0f %.0f %.6g %u\n", each_ns,
            (double)(after.coding_ns - before.coding_ns) / (double)iterations, wire,
            is_check ? error_of(self) : 0.0, is_check ? hash_of(self) : 0u);
    return fflush(answers) == 0;
}

static int serve(codec_rank *self)
{
    FILE *commands = NULL, *answers = NULL;
    char line[128];
    if (bench_line_open(&commands, &answers) != 0) {
        fprintf(stderr, "bench-codec-rank: cannot reach BENCH_SOCKET\n");
        return 1;
    }
    fprintf(answers, "%d\n", tutti_rank(self->context));
    fflush(answers);
    int code = 0;
    while (code == 0 && fgets(line, sizeof(line), commands) != NULL) {
        code = obey(self, line, answers) ? 0 : 1;
    }
    fclose(commands);
    fclose(answers);
    return code;
}

int main(int count, char **words)
{
    codec_rank self = {0};
    if (count != 2) {
        fprintf(stderr, "usage: bench-codec-rank BYTES\n");
        return 2;
    }
    if (tutti_init(NULL, &self.context) != TUTTI_OK) {
        fprintf(stderr, "bench-codec-rank: %s\n", tutti_last_error(NULL));
        return 1;
    }
    int code = prepare(&self, strtoull(words[1], NULL, 10)) ? serve(&self) : 1;
    if (code != 0) {
        fprintf(stderr, "bench-codec-rank: %s\n", tutti_last_error(self.context));
    }
    for (size_t i = 0; i < self.call_count; i++) {
        tutti_handle_free(self.calls[i].handle);
    }
    free(self.input);
    free(self.output);
    return tutti_shutdown(self.context) == TUTTI_OK ? code : 1;
}
