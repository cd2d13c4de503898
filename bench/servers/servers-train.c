/* SPDX-License-Identifier: Apache-2.0
 *
 * servers-train.c - one worker of bench/servers that trains a small network. Lines of the driver:
 *
 *   store POLICY UPDATE         close the store, open another. Answer: 0
 *   train STEPS SEED EXP_US     one hidden layer of tanh and a softmax, labels by a network of the
 *                               same kind; each worker has its share of the samples, and sleeps for
 *                               an exponential time in each step, so that workers drift apart.
 *                               Answer: mean loss over all samples at the first and last weights */
#include <math.h>

#include "servers_rank.h"

enum { INPUTS = 32, HIDDEN = 32, CLASSES = 10, SAMPLES = 4096, BATCH = 32 };
enum { FIRST = HIDDEN * (INPUTS + 1), SECOND = CLASSES * (HIDDEN + 1) };

typedef struct network {
    float first[FIRST]; /* rows of weights, the bias last */
    float second[SECOND];
} network;

typedef struct trainer {
    float inputs[SAMPLES][INPUTS];
    int labels[SAMPLES];
    network weights, gradient;
    char names[2][32];
} trainer;

static float normal(uint64_t *random)
{
    const double radius = sqrt(-2 * log(servers_unit(random)));
    return (float)(radius * cos(6.283185307179586 * servers_unit(random)));
}

static void network_draw(network *net, uint64_t *random, float scale)
{
    for (int i = 0; i < FIRST; i++) {
        net->first[i] = scale * normal(random) / sqrtf(INPUTS);
    }
    for (int i = 0; i < SECOND; i++) {
        net->second[i] = scale * normal(random) / sqrtf(HIDDEN);
    }
}

/* Hidden values and probabilities; returns the likeliest class. */
static int forward(const network *net, const float *input, float *hidden, float *out)
{
    float most = -1e30F, total = 0;
    int best = 0;
    for (int i = 0; i < HIDDEN; i++) {
        const float *row = &net->first[i * (INPUTS + 1)];
        float sum = row[INPUTS];
        for (int j = 0; j < INPUTS; j++) {
            sum += row[j] * input[j];
        }
        hidden[i] = tanhf(sum);
    }
    for (int i = 0; i < CLASSES; i++) {
        const float *row = &net->second[i * (HIDDEN + 1)];
        out[i] = row[HIDDEN];
        for (int j = 0; j < HIDDEN; j++) {
            out[i] += row[j] * hidden[j];
        }
        best = out[i] > most ? i : best;
        most = out[best];
    }
    for (int i = 0; i < CLASSES; i++) {
        out[i] = expf(out[i] - most);
        total += out[i];
    }
    for (int i = 0; i < CLASSES; i++) {
        out[i] /= total;
    }
    return best;
}

static double loss_of(const trainer *self)
{
    float hidden[HIDDEN], out[CLASSES];
    double sum = 0;
    for (int i = 0; i < SAMPLES; i++) {
        (void)forward(&self->weights, self->inputs[i], hidden, out);
        sum -= log((double)out[self->labels[i]] + 1e-12);
    }
    return sum / SAMPLES;
}

static void sample_backward(trainer *self, int sample)
{
    float hidden[HIDDEN], out[CLASSES], back[HIDDEN] = {0};
    (void)forward(&self->weights, self->inputs[sample], hidden, out);
    out[self->labels[sample]] -= 1;
    for (int i = 0; i < CLASSES; i++) {
        const float error = out[i] / BATCH;
        float *row = &self->gradient.second[i * (HIDDEN + 1)];
        for (int j = 0; j < HIDDEN; j++) {
            row[j] += error * hidden[j];
            back[j] += error * self->weights.second[i * (HIDDEN + 1) + j];
        }
        row[HIDDEN] += error;
    }
    for (int i = 0; i < HIDDEN; i++) {
        const float error = back[i] * (1 - hidden[i] * hidden[i]);
        float *row = &self->gradient.first[i * (INPUTS + 1)];
        for (int j = 0; j < INPUTS; j++) {
            row[j] += error * self->inputs[sample][j];
        }
        row[INPUTS] += error;
    }
}

static void problem_make(trainer *self, uint64_t seed)
{
    network teacher;
    float hidden[HIDDEN], out[CLASSES];
    network_draw(&teacher, &seed, 3);
    for (int i = 0; i < SAMPLES; i++) {
        for (int j = 0; j < INPUTS; j++) {
            self->inputs[i][j] = normal(&seed);
        }
        self->labels[i] = forward(&teacher, self->inputs[i], hidden, out);
    }
    network_draw(&self->weights, &seed, 1);
}

static void exchange(servers_rank *rank, trainer *self, tutti_store_verb verb)
{
    float *weights[2] = {self->weights.first, self->weights.second};
    float *gradient[2] = {self->gradient.first, self->gradient.second};
    tutti_handle *handles[2];
    for (int i = 0; i < 2; i++) {
        tutti_store_call call = TUTTI_STORE_CALL_INIT;
        call.verb = verb;
        call.name = self->names[i];
        call.input = gradient[i];
        call.output = weights[i];
        handles[i] = servers_start(rank, call);
    }
    for (int i = 0; i < 2; i++) {
        servers_finish(rank, handles[i], "exchange");
    }
}

static void train(servers_rank *rank, trainer *self, int steps, uint64_t seed, double exp_us)
{
    const float *first[2] = {self->weights.first, self->weights.second};
    const size_t counts[2] = {FIRST, SECOND};
    problem_make(self, seed);
    const double before = loss_of(self);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(self->names[i], sizeof(self->names[i]), "w%u.%d", rank->serial, i);
        rank_must(rank->context,
                  tutti_store_add(rank->store, self->names[i], first[i], counts[i], TUTTI_F32),
                  "add");
    }
    rank->serial++;
    rank->random = seed * 1000 + rank->rank;
    servers_meet(rank);
    for (int step = 0; step < steps; step++) {
        exchange(rank, self, TUTTI_STORE_PULL);
        memset(&self->gradient, 0, sizeof(self->gradient));
        for (int i = 0; i < BATCH; i++) {
            const uint64_t drawn = servers_random(&rank->random) % (SAMPLES / rank->size);
            sample_backward(self, (int)(drawn * rank->size + rank->rank));
        }
        servers_present(rank);
        servers_compute(rank, -exp_us * log(servers_unit(&rank->random)));
        exchange(rank, self, TUTTI_STORE_PUSH);
        rank_must(rank->context, tutti_store_clock(rank->store, NULL), "clock");
    }
    servers_meet(rank); /* all pushes have been applied */
    exchange(rank, self, TUTTI_STORE_PULL);
    fprintf(rank->line.answers, "%.9f %.9f\n", before, loss_of(self));
}

static void obey(servers_rank *rank, trainer *self, const char *line)
{
    char policy[128], update[128];
    unsigned long long seed;
    int steps;
    double exp_us;
    if (sscanf(line, "store %127s %127s", policy, update) == 2) {
        servers_store_open(rank, policy, update);
    } else if (sscanf(line, "train %d %llu %lf", &steps, &seed, &exp_us) == 3) {
        train(rank, self, steps, seed, exp_us);
    } else {
        fprintf(stderr, "bench-servers-train: what is '%s'?\n", line);
        exit(1);
    }
    fflush(rank->line.answers);
}

int main(void)
{
    servers_rank rank = {.store = NULL};
    trainer *self = servers_memory(sizeof(*self));
    char line[640];
    servers_join(&rank);
    while (fgets(line, sizeof(line), rank.line.commands) != NULL) {
        obey(&rank, self, line);
    }
    free(self);
    return servers_leave(&rank);
}
