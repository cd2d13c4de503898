/* SPDX-License-Identifier: Apache-2.0
 *
 * codecs.c - the same training with plain and with coded gradients.
 *
 *     tutti run -n 4 build/bin/codecs
 *     tutti run -n 4 build/bin/codecs sign int4:block=64
 *
 * Every rank has rows of its own of a least-squares problem; all of them together determine the
 * weights. Gradients are averaged with a codec, which keeps what it did not send for the next step
 * (error feedback): so the weights arrive where plain gradients lead, with a fraction of the bytes.
 * Without where=all ranks of one host would exchange exact data: memory is fast enough.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

enum { WEIGHTS = 1 << 16, STEPS = 60, TEXT_BYTES = 128 };

static const float RATE = 0.4f;

static void must(tutti_context *context, tutti_status status)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_last_error(context));
        exit(1);
    }
}

/* This rank's scale of weight i: its own view of the problem. */
static float scale_of(int rank, int i)
{
    return 0.5f + 0.5f * sinf((float)(i * 7 + rank * 13));
}

static float target_of(int i)
{
    return cosf((float)i * 0.01f);
}

/* Gradient of this rank's squared error, and the error itself. */
static double gradient_of(int rank, const float *weights, float *gradient)
{
    double loss = 0.0;
    for (int i = 0; i < WEIGHTS; i++) {
        const float scale = scale_of(rank, i);
        const float error = scale * (weights[i] - target_of(i));
        gradient[i] = scale * error;
        loss += (double)error * error;
    }
    return loss;
}

static double train(tutti_context *context, const char *codec)
{
    float *weights = calloc(WEIGHTS, sizeof(float)), *gradient = calloc(WEIGHTS, sizeof(float));
    if (weights == NULL || gradient == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    tutti_call call = TUTTI_CALL_INIT;
    call.name = codec; /* residuals belong to the name */
    call.op = TUTTI_AVERAGE;
    call.input = call.output = gradient;
    call.count = WEIGHTS;
    call.codec = codec;
    double loss = 0.0;
    for (int step = 0; step < STEPS; step++) {
        loss = gradient_of(tutti_rank(context), weights, gradient);
        must(context, tutti_run(context, &call));
        for (int i = 0; i < WEIGHTS; i++) {
            weights[i] -= RATE * gradient[i];
        }
    }
    must(context, tutti_allreduce(context, &loss, &loss, 1, TUTTI_F64, TUTTI_SUM));
    free(weights);
    free(gradient);
    return loss;
}

static void report(tutti_context *context, const char *codec)
{
    tutti_counters before = TUTTI_COUNTERS_INIT, after = TUTTI_COUNTERS_INIT;
    must(context, tutti_count(context, TUTTI_WORLD, &before));
    const double loss = train(context, codec);
    must(context, tutti_count(context, TUTTI_WORLD, &after));
    const double raw = (double)(after.coded_raw_bytes - before.coded_raw_bytes);
    const double wire = (double)(after.coded_wire_bytes - before.coded_wire_bytes);
    if (tutti_rank(context) == 0) {
        printf("%-24s loss after %d steps %10.6f, bytes per value %.3f\n", codec, STEPS, loss,
               raw > 0.0 ? 4.0 * wire / raw : 4.0);
    }
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"none", "bf16", "int8", "int4", "sign"};
    tutti_context *context = NULL;
    must(NULL, tutti_init(NULL, &context));
    const int count = argc > 1 ? argc - 1 : (int)(sizeof(usual) / sizeof(usual[0]));
    for (int i = 0; i < count; i++) {
        const char *codec = argc > 1 ? argv[i + 1] : usual[i];
        char text[TEXT_BYTES];
        const char *where = strcmp(codec, "none") == 0   ? ""
                            : strchr(codec, ':') != NULL ? ",where=all"
                                                         : ":where=all";
        (void)snprintf(text, sizeof(text), "%s%s", codec, where);
        report(context, text);
    }
    must(context, tutti_shutdown(context));
    return 0;
}
