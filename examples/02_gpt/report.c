/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c - messages for the user.
 */
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "random.h"

enum { BAR_WIDTH = 12, VOCABULARY_MAX = 128, CONTEXT_MAX = 1024 };

static const double plain_line_every_s = 4.0;
static const double temperature = 0.8;

void gpt_reporter_init(gpt_reporter *reporter)
{
    *reporter = (gpt_reporter){.is_terminal = isatty(STDOUT_FILENO) == 1, .spoken_s = -1e9};
}

void gpt_reporter_show(gpt_reporter *reporter, const gpt_progress *progress, double now_s)
{
    if (!reporter->is_terminal && now_s - reporter->spoken_s < plain_line_every_s) {
        return;
    }
    reporter->spoken_s = now_s;
    char bar[BAR_WIDTH + 1];
    for (int i = 0; i < BAR_WIDTH; i++) {
        bar[i] = i < (int)(progress->done * BAR_WIDTH) ? '#' : '.';
    }
    bar[BAR_WIDTH] = '\0';
    printf("%s[%s] step %4zu  loss %.3f  %6.0f char/s  waiting %2.0f %%  %2.0f s left%s",
           reporter->is_terminal ? "\r" : "", bar, progress->step, progress->loss,
           progress->characters_per_s, 100.0 * progress->wait_share, progress->left_s,
           reporter->is_terminal ? " \033[K" : "\n");
    fflush(stdout);
}

void gpt_reporter_end(const gpt_reporter *reporter)
{
    if (reporter->is_terminal) {
        printf("\n");
    }
}

/* Draw a token from the logits. */
static uint8_t token_draw(const float *logits, size_t vocabulary, gpt_random *random)
{
    double chances[VOCABULARY_MAX];
    double largest = -INFINITY;
    for (size_t i = 0; i < vocabulary; i++) {
        largest = fmax(largest, (double)logits[i]);
    }
    double sum = 0.0;
    for (size_t i = 0; i < vocabulary; i++) {
        chances[i] = exp(((double)logits[i] - largest) / temperature);
        sum += chances[i];
    }
    double rest = sum * gpt_random_uniform(random);
    size_t token = 0;
    while (token + 1 < vocabulary && (rest -= chances[token]) >= 0.0) {
        token++;
    }
    return (uint8_t)token;
}

void gpt_report_sample(gpt_model *model, const gpt_shape *shape, const gpt_text *text, size_t count)
{
    uint8_t window[CONTEXT_MAX] = {0};
    gpt_random random = {2};
    size_t filled = 1; /* starts after a line end, the first character of the alphabet */
    for (size_t i = 0; i < count; i++) {
        const float *logits = gpt_model_forward(model, window, 1);
        const uint8_t token =
            token_draw(logits + (filled - 1) * shape->vocabulary, shape->vocabulary, &random);
        putchar(text->alphabet[token]);
        if (filled == shape->context) {
            memmove(window, window + 1, shape->context - 1);
            filled--;
        }
        window[filled++] = token;
    }
    putchar('\n');
}

bool gpt_report_hashes(const uint64_t *hashes, int rank_count)
{
    bool are_equal = true;
    printf("  rank  hash of all parameters\n");
    for (int rank = 0; rank < rank_count; rank++) {
        const bool is_equal = hashes[rank] == hashes[0];
        printf("  %4d  %016llx%s\n", rank, (unsigned long long)hashes[rank],
               is_equal ? "" : "  differs from rank 0");
        are_equal = are_equal && is_equal;
    }
    printf(are_equal ? "  all equal\n" : "  NOT EQUAL: the ranks trained different models\n");
    return are_equal;
}

static void speed_print(const gpt_speed *speed, int workers, const char *where)
{
    printf("  %d worker%s %s: %.0f characters per second, %.2f cores busy\n", workers,
           workers == 1 ? "" : "s", where, speed->characters_per_s, speed->cores_busy);
}

void gpt_report_speed(const gpt_speed *together, const gpt_speed *alone, int workers, int cores)
{
    char where[32];
    snprintf(where, sizeof(where), "on %d core%s", cores, cores == 1 ? "" : "s");
    speed_print(together, workers, where);
    if (alone->characters_per_s <= 0.0) {
        return;
    }
    speed_print(alone, 1, "alone");
    printf("  %.2f times as fast as alone; at best %d times",
           together->characters_per_s / alone->characters_per_s, workers < cores ? workers : cores);
    printf(workers > cores ? ", since the workers share %d cores\n" : "\n", cores);
}
