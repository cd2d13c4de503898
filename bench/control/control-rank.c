/* SPDX-License-Identifier: Apache-2.0
 *
 * control-rank.c - one rank of bench/control: a model's tensors, by name, in an order of its own.
 *
 * usage: bench-control-rank MODEL STEPS GROUPS SHRINK   (started by bench/control/run)
 *
 * MODEL is resnet50, bert-large, or equal tensors: 64x16384 is 64 of 16384 elements.
 * Every step submits all tensors one by one, shuffled differently on each rank, and waits for all.
 * Rank 0 prints one line of JSON: time from its last submission to its last completion, of the
 * whole step, control messages, processor time, and where calls spent their time; and what one
 * small repeated call costs with and without a name. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/clock.h"
#include "bench/common/median.h"
#include "bench/common/resnet50.h"
#include "shuffle.h"
#include "tutti/tutti.h"

enum { TENSORS_MAX = 512, NAME_BYTES = 32, WARM_UP = 8, SMALL_CALLS = 2000 };

typedef struct rank_bench {
    tutti_context *context;
    uint32_t tensor_count, group_count, steps;
    uint64_t elements[TENSORS_MAX];
    float *memory[TENSORS_MAX];
    tutti_handle *handles[TENSORS_MAX];
    uint32_t order[TENSORS_MAX];
    uint64_t random;
    double *tail_us, *step_us;
} rank_bench;

static void die(const rank_bench *self, const char *what)
{
    fprintf(stderr, "bench-control-rank: %s: %s\n", what, tutti_last_error(self->context));
    exit(1);
}

static void add(rank_bench *self, uint64_t elements)
{
    self->elements[self->tensor_count++] = elements;
}

static void add_resnet50(rank_bench *self)
{
    resnet50_tensor tensors[RESNET50_TENSORS];
    resnet50_make(tensors);
    for (int i = 0; i < RESNET50_TENSORS; i++) {
        add(self, tensors[i].elements);
    }
}

static void add_bert_large(rank_bench *self)
{
    add(self, 30522 * 1024);
    add(self, 512 * 1024);
    add(self, 2 * 1024);
    for (int layer = 0; layer < 24; layer++) {
        for (int i = 0; i < 4; i++) {
            add(self, 1024 * 1024);
            add(self, 1024);
        }
        add(self, 4 * 1024 * 1024);
        add(self, 4 * 1024);
        add(self, 4 * 1024 * 1024);
        for (int i = 0; i < 5; i++) {
            add(self, 1024);
        }
    }
    for (int i = 0; i < 11; i++) {
        add(self, 1024);
    }
}

/* False: it does not exist. */
static bool add_model(rank_bench *self, const char *name)
{
    unsigned tensors = 0;
    unsigned long long elements = 0;
    if (strcmp(name, "resnet50") == 0) {
        add_resnet50(self);
    } else if (strcmp(name, "bert-large") == 0) {
        add_bert_large(self);
    } else if (sscanf(name, "%ux%llu", &tensors, &elements) == 2 && tensors <= TENSORS_MAX) {
        for (unsigned i = 0; i < tensors; i++) {
            add(self, elements);
        }
    }
    return self->tensor_count > 0;
}

static void submit(rank_bench *self, uint32_t tensor)
{
    char name[NAME_BYTES], group[NAME_BYTES];
    tutti_call call = TUTTI_CALL_INIT;
    snprintf(name, sizeof(name), "tensor.%u", tensor);
    call.name = name;
    call.input = call.output = self->memory[tensor];
    call.count = self->elements[tensor];
    if (self->group_count > 0) {
        const uint32_t number = tensor * self->group_count / self->tensor_count;
        int members = 0;
        for (uint32_t i = 0; i < self->tensor_count; i++) {
            members += i * self->group_count / self->tensor_count == number;
        }
        snprintf(group, sizeof(group), "group.%u", number);
        call.group = group;
        call.group_size = members;
    }
    if (tutti_start(self->context, &call, &self->handles[tensor]) != TUTTI_OK) {
        die(self, "tutti_start");
    }
}

static void step(rank_bench *self, double *tail_out, double *step_out)
{
    shuffle(self->order, self->tensor_count, &self->random);
    tutti_barrier(self->context);
    const double begin = bench_now_us();
    for (uint32_t i = 0; i < self->tensor_count; i++) {
        submit(self, self->order[i]);
    }
    const double submitted = bench_now_us();
    for (uint32_t i = 0; i < self->tensor_count; i++) {
        if (tutti_wait(self->handles[i], -1.0) != TUTTI_OK) {
            die(self, tutti_handle_error(self->handles[i]));
        }
        tutti_handle_free(self->handles[i]);
    }
    *tail_out = bench_now_us() - submitted;
    *step_out = bench_now_us() - begin;
}

/* Median time of a blocking sum of one element, alone on the job. */
static double small_us(rank_bench *self, const char *name)
{
    static double samples[SMALL_CALLS];
    tutti_call call = TUTTI_CALL_INIT;
    tutti_handle *handle;
    call.name = name;
    call.input = call.output = self->memory[0];
    call.count = 1;
    if (tutti_declare(self->context, &call, &handle) != TUTTI_OK) {
        die(self, "tutti_declare");
    }
    for (int i = -SMALL_CALLS / 10; i < SMALL_CALLS; i++) {
        const double begin = bench_now_us();
        if (tutti_rerun(handle) != TUTTI_OK) {
            die(self, "tutti_rerun");
        }
        if (i >= 0) {
            samples[i] = bench_now_us() - begin;
        }
    }
    tutti_handle_free(handle);
    return bench_median(samples, SMALL_CALLS);
}

static void report(rank_bench *self, const tutti_counters *from, double cpu_per_step_us)
{
    tutti_counters to = TUTTI_COUNTERS_INIT;
    tutti_count(self->context, TUTTI_WORLD, &to);
    const double steps = self->steps, calls = steps * self->tensor_count;
    const double tail = bench_median(self->tail_us, self->steps);
    const double whole = bench_median(self->step_us, self->steps);
    const double named = small_us(self, "small"), unnamed = small_us(self, NULL);
    if (tutti_rank(self->context) != 0) {
        return;
    }
    printf("{\"tensors\": %u, \"ranks\": %d, \"mode\": \"%s\", \"groups\": %u, "
           "\"tail_us\": %.1f, \"step_us\": %.1f, \"messages\": %.2f, \"message_bytes\": %.0f, "
           "\"rounds\": %.2f, \"turns\": %.2f, \"cpu_us\": %.0f, \"bundles\": %.1f, ",
           self->tensor_count, tutti_size(self->context), to.mode, self->group_count, tail, whole,
           (double)(to.messages - from->messages) / steps, (double)(to.bytes - from->bytes) / steps,
           (double)(to.rounds - from->rounds) / steps, (double)(to.turns - from->turns) / steps,
           cpu_per_step_us, (double)(to.bundles - from->bundles) / steps);
    printf("\"negotiation_us\": %.2f, \"queueing_us\": %.2f, \"late_us\": %.2f, "
           "\"copying_us\": %.2f, \"exchange_us\": %.2f, \"small_named_us\": %.2f, "
           "\"small_unnamed_us\": %.2f}\n",
           (double)(to.negotiation_ns - from->negotiation_ns) * 1e-3 / calls,
           (double)(to.queueing_ns - from->queueing_ns) * 1e-3 / calls,
           (double)(to.late_ns - from->late_ns) * 1e-3 / calls,
           (double)(to.copying_ns - from->copying_ns) * 1e-3 / calls,
           (double)(to.exchange_ns - from->exchange_ns) * 1e-3 / calls, named, unnamed);
}

int main(int argc, char **argv)
{
    rank_bench self = {0};
    if (argc != 5) {
        fprintf(stderr,
                "usage: bench-control-rank MODEL STEPS GROUPS SHRINK; see bench/control/run\n");
        return 2;
    }
    self.steps = (uint32_t)atoi(argv[2]);
    self.group_count = (uint32_t)atoi(argv[3]);
    const uint64_t shrink = strtoull(argv[4], NULL, 10);
    if (!add_model(&self, argv[1]) || shrink == 0) {
        fprintf(stderr, "bench-control-rank: %s: no such model, or nothing of it\n", argv[1]);
        return 2;
    }
    if (tutti_init(NULL, &self.context) != TUTTI_OK) {
        die(&self, "tutti_init");
    }
    self.random = (uint64_t)tutti_rank(self.context) + 1;
    self.tail_us = calloc(self.steps, sizeof(double));
    self.step_us = calloc(self.steps, sizeof(double));
    for (uint32_t i = 0; i < self.tensor_count; i++) {
        self.elements[i] = self.elements[i] / shrink + (shrink > 1 ? 1 : 0);
        self.memory[i] = tutti_alloc(self.context, self.elements[i] * sizeof(float));
        if (self.memory[i] == NULL) {
            die(&self, "tutti_alloc");
        }
    }
    double unused;
    for (int i = 0; i < WARM_UP; i++) {
        step(&self, &unused, &unused);
    }
    tutti_counters from = TUTTI_COUNTERS_INIT;
    tutti_count(self.context, TUTTI_WORLD, &from);
    const double cpu = bench_cpu_us();
    for (uint32_t i = 0; i < self.steps; i++) {
        step(&self, &self.tail_us[i], &self.step_us[i]);
    }
    report(&self, &from, (bench_cpu_us() - cpu) / self.steps);
    free(self.tail_us);
    free(self.step_us);
    return tutti_shutdown(self.context) == TUTTI_OK ? 0 : 1;
}
