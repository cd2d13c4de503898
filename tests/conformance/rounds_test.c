/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds_test.c - exchanges in rounds (tutti/sync.h), by real jobs: equivalences of policies, what
 * is exchanged when, failures, saved states.
 *
 * Model: rank r pulls two tensors of weights towards targets of its own, as hard as it likes, by
 * plain gradient descent. So ranks differ between rounds, and orders of mixing show.
 *
 * Labels: sync asan tsan */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/ranks.h"
#include "tutti/sync.h"

enum { COUNT = 1003, TENSORS = 2, STEPS = 24 };

typedef struct model {
    float weights[TENSORS][COUNT], gradients[TENSORS][COUNT];
} model;

static float target(int rank, int tensor, int i)
{
    return (float)((rank + 1) * (tensor + 2) + i % 7) / 8.0f;
}

static void begin(model *it)
{
    for (int k = 0; k < TENSORS; k++) {
        for (int i = 0; i < COUNT; i++) {
            it->weights[k][i] = (float)(i % 5) - 2.0f;
        }
    }
}

static void find_gradients(model *it, int rank)
{
    for (int k = 0; k < TENSORS; k++) {
        for (int i = 0; i < COUNT; i++) {
            it->gradients[k][i] =
                (1.0f + (float)rank / 4.0f) * (it->weights[k][i] - target(rank, k, i));
        }
    }
}

static void descend(model *it)
{
    for (int k = 0; k < TENSORS; k++) {
        for (int i = 0; i < COUNT; i++) {
            it->weights[k][i] -= 0.125f * it->gradients[k][i];
        }
    }
}

static tutti_sync *open_on(ranks_self *self, const char *policy)
{
    tutti_sync *sync = NULL;
    EXPECT_STATUS(TUTTI_OK, tutti_sync_open(self->context, TUTTI_WORLD, policy, NULL, &sync));
    return sync;
}

static tutti_sync *open_model(ranks_self *self, const char *policy, model *it, bool of_gradients)
{
    static const char *const names[TENSORS] = {"first", "second"};
    tutti_sync *sync = open_on(self, policy);
    for (int k = 0; k < TENSORS; k++) {
        void *values = of_gradients ? it->gradients[k] : it->weights[k];
        EXPECT_STATUS(TUTTI_OK, tutti_sync_add(sync, names[k], values, COUNT, TUTTI_F32));
    }
    return sync;
}

static tutti_sync_counts counts_of(tutti_sync *sync)
{
    tutti_sync_counts counts = TUTTI_SYNC_COUNTS_INIT;
    EXPECT_STATUS(TUTTI_OK, tutti_sync_count(sync, &counts));
    return counts;
}

/* Train so many steps under a policy of models or deltas, from the beginning. */
static void train(ranks_self *self, const char *policy, int steps, model *it)
{
    begin(it);
    tutti_sync *sync = open_model(self, policy, it, false);
    for (int t = 0; t < steps; t++) {
        find_gradients(it, self->rank);
        descend(it);
        EXPECT_STATUS(TUTTI_OK, tutti_sync_step(sync, NULL));
    }
    tutti_sync_close(sync);
}

static void train_in_bulk(ranks_self *self, int steps, model *it)
{
    begin(it);
    for (int t = 0; t < steps; t++) {
        find_gradients(it, self->rank);
        for (int k = 0; k < TENSORS; k++) {
            EXPECT_STATUS(TUTTI_OK,
                          tutti_allreduce(self->context, it->gradients[k], it->gradients[k], COUNT,
                                          TUTTI_F32, TUTTI_AVERAGE));
        }
        descend(it);
    }
}

static void expect_close(const model *a, const model *b)
{
    for (int k = 0; k < TENSORS; k++) {
        for (int i = 0; i < COUNT; i++) {
            EXPECT_SAY(fabsf(a->weights[k][i] - b->weights[k][i]) <= 2e-6f, "%g, not %g",
                       (double)a->weights[k][i], (double)b->weights[k][i]);
        }
    }
}

static bool is_same(const model *a, const model *b)
{
    return memcmp(a->weights, b->weights, sizeof(a->weights)) == 0;
}

/* ---- equivalences ---- */

static void equal_body(ranks_self *self)
{
    model *one = calloc(1, sizeof(*one)), *other = calloc(1, sizeof(*other));
    train_in_bulk(self, STEPS, one);
    train(self, "local:period=1", STEPS, other);
    expect_close(one, other);
    train(self, "local:period=4", STEPS, one);
    EXPECT(self->size == 1 || !is_same(one, other));
    train(self, "outer:period=4,lr=1,momentum=0", STEPS, other);
    expect_close(one, other);
    train(self, "outer:period=4,lr=0.5,momentum=0.5", STEPS, one);
    EXPECT(!is_same(one, other));
    train(self, "outer:period=4,lr=0.5,momentum=0.5,fragments=1,delay=0,alpha=0", STEPS, other);
    EXPECT(is_same(one, other));
    train(self, "local:inside=1,outside=4", STEPS, other); /* one host: all ranks, every step */
    train(self, "local:period=1", STEPS, one);
    EXPECT(is_same(one, other));
    free(one);
    free(other);
}

static void test_policies_equal_each_other_where_they_must(void **state)
{
    (void)state;
    ranks_run_both(3, equal_body, NULL);
    ranks_run(1, NULL, equal_body, NULL);
}

/* Of the outer optimizer, by hand for one weight and two ranks; as torch.optim.SGD steps. */
static void golden_body(ranks_self *self)
{
    const double deltas[] = {1.0, -0.5,
                             0.25}; /* of rank 0 in each round; of rank 1 thrice as much */
    double weight = 2.0, anchor = 2.0, velocity = 0.0;
    tutti_sync *sync = open_on(self, "outer:period=1,lr=0.5,momentum=0.75");
    EXPECT_STATUS(TUTTI_OK, tutti_sync_add(sync, "w", &weight, 1, TUTTI_F64));
    for (int t = 0; t < 3; t++) {
        weight -= deltas[t] * (self->rank == 0 ? 1.0 : 3.0);
        EXPECT_STATUS(TUTTI_OK, tutti_sync_step(sync, NULL));
        velocity = 0.75 * velocity + 2.0 * deltas[t];
        anchor -= 0.5 * (2.0 * deltas[t] + 0.75 * velocity);
        EXPECT(weight == anchor);
        EXPECT(fabs(counts_of(sync).distance - fabs(deltas[t])) < 1e-12);
    }
    tutti_sync_close(sync);
}

static void test_the_outer_step_is_that_of_sgd(void **state)
{
    (void)state;
    ranks_run(2, NULL, golden_body, NULL);
}

/* ---- pipelines ---- */

static void pipeline_bulk_body(ranks_self *self)
{
    model *one = calloc(1, sizeof(*one)), *other = calloc(1, sizeof(*other));
    int ready = 0;
    train_in_bulk(self, STEPS, one);
    begin(other);
    tutti_sync *sync = open_model(self, "pipeline:delay=0", other, true);
    for (int t = 0; t < STEPS; t++) {
        find_gradients(other, self->rank);
        EXPECT_STATUS(TUTTI_OK, tutti_sync_step(sync, &ready));
        EXPECT(ready == 1);
        descend(other);
    }
    EXPECT_STATUS(TUTTI_OK, tutti_sync_flush(sync, &ready));
    EXPECT(ready == 0);
    EXPECT(is_same(one, other));
    tutti_sync_close(sync);
    free(one);
    free(other);
}

static void pipeline_body(ranks_self *self)
{
    enum { DELAY = 2, TIMES = 5 };
    const double off = (double)(self->size - 1) / 2.0;
    double gradient = 0.0;
    int ready = 0;
    tutti_sync *sync = open_on(self, "pipeline:delay=2");
    EXPECT_STATUS(TUTTI_OK, tutti_sync_add(sync, "g", &gradient, 1, TUTTI_F64));
    for (int again = 0; again < 2; again++) {
        for (int t = 0; t < TIMES; t++) {
            gradient = 10.0 * t + self->rank;
            EXPECT_STATUS(TUTTI_OK, tutti_sync_step(sync, &ready));
            EXPECT(ready == (t >= DELAY));
            EXPECT(ready == 0 || gradient == 10.0 * (t - DELAY) + off);
        }
        for (int t = TIMES - DELAY; t < TIMES; t++) {
            EXPECT_STATUS(TUTTI_OK, tutti_sync_flush(sync, &ready));
            EXPECT(ready == 1 && gradient == 10.0 * t + off);
        }
        EXPECT_STATUS(TUTTI_OK, tutti_sync_flush(sync, &ready));
        EXPECT(ready == 0);
    }
    tutti_sync_close(sync);
}

static void test_a_pipeline_delivers_every_gradient_once(void **state)
{
    (void)state;
    ranks_run_both(3, pipeline_bulk_body, NULL);
    ranks_run_both(3, pipeline_body, NULL);
    ranks_run(1, NULL, pipeline_body, NULL);
}

/* ---- what is exchanged when ---- */

static void schedule_body(ranks_self *self)
{
    model *it = calloc(1, sizeof(*it));
    begin(it);
    tutti_sync *sync = open_model(self, "local:period=2,5@6", it, false);
    static const int rounds[] = {0, 1, 1, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 5};
    for (int t = 0; t < 16; t++) {
        EXPECT_STATUS(TUTTI_OK, tutti_sync_step(sync, NULL));
        EXPECT(counts_of(sync).rounds == (uint64_t)rounds[t]);
        EXPECT(counts_of(sync).bytes == (uint64_t)rounds[t] * sizeof(it->weights));
    }
    tutti_sync_close(sync);
    free(it);
}

static void test_periods_change_at_their_step(void **state)
{
    (void)state;
    ranks_run(2, NULL, schedule_body, NULL);
}

/* Four fragments: each period exchanges the model once, a quarter at a time. */
static void fragments_body(ranks_self *self)
{
    model *it = calloc(1, sizeof(*it));
    uint64_t before = 0;
    begin(it);
    tutti_sync *sync =
        open_model(self, "outer:period=8,lr=1,momentum=0,fragments=4,delay=1", it, false);
    for (int t = 1; t <= 16; t++) {
        EXPECT_STATUS(TUTTI_OK, tutti_sync_step(sync, NULL));
        const uint64_t burst = counts_of(sync).bytes - before;
        before += burst;
        EXPECT(burst == 0 || t % 2 == 0);
        EXPECT(burst <= (sizeof(it->weights) / 4 / 4 + 1) * 4);
    }
    EXPECT(before == 2 * sizeof(it->weights));
    tutti_sync_close(sync);
    free(it);
}

static void test_fragments_take_turns(void **state)
{
    (void)state;
    ranks_run(2, NULL, fragments_body, NULL);
}

/* A flush: equal models, of all fragments, in flight or not, whatever alpha keeps. */
static void flush_body(ranks_self *self)
{
    static const char *const policies[] = {
        "local:period=4", "outer:period=8,lr=0.5,momentum=0.5,fragments=4,delay=1,alpha=0.5",
        "outer:period=8,lr=1,momentum=0,delay=7"};
    model *it = calloc(1, sizeof(*it)), *sum = calloc(1, sizeof(*sum));
    for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++) {
        for (int steps = 0; steps < 11; steps += 5) {
            int ready = 0;
            begin(it);
            tutti_sync *sync = open_model(self, policies[i], it, false);
            for (int t = 0; t < steps; t++) {
                find_gradients(it, self->rank);
                descend(it);
                EXPECT_STATUS(TUTTI_OK, tutti_sync_step(sync, NULL));
            }
            EXPECT_STATUS(TUTTI_OK, tutti_sync_flush(sync, &ready));
            EXPECT(ready == (steps > 0));
            EXPECT_STATUS(TUTTI_OK, tutti_allreduce(self->context, it->weights, sum->weights,
                                                    TENSORS * COUNT, TUTTI_F32, TUTTI_MAX));
            EXPECT(is_same(it, sum));
            tutti_sync_close(sync);
        }
    }
    free(it);
    free(sum);
}

static void test_a_flush_makes_models_equal(void **state)
{
    (void)state;
    ranks_run_both(3, flush_body, NULL);
}

/* ---- the optimizer's state ---- */

static void state_body(ranks_self *self)
{
    static const struct {
        const char *policy;
        float wanted;
    } cases[] = {{"local:period=2,state=keep", -1.0f},
                 {"local:period=2,state=average", 2.0f},
                 {"local:period=2,state=reset", 0.0f}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        float weight = 1.0f, momentum = 0.0f;
        const float own = (float)(self->rank * 4);
        tutti_sync *sync = open_on(self, cases[i].policy);
        EXPECT_STATUS(TUTTI_OK, tutti_sync_add(sync, "w", &weight, 1, TUTTI_F32));
        EXPECT_STATUS(TUTTI_OK, tutti_sync_add_state(sync, "m", &momentum, 1, TUTTI_F32));
        for (int t = 0; t < 2; t++) {
            momentum = own;
            EXPECT_STATUS(TUTTI_OK, tutti_sync_step(sync, NULL));
        }
        EXPECT(momentum == (cases[i].wanted < 0.0f ? own : cases[i].wanted));
        tutti_sync_close(sync);
    }
}

static void test_state_is_kept_averaged_or_reset(void **state)
{
    (void)state;
    ranks_run(2, NULL, state_body, NULL);
}

/* ---- failures ---- */

/* Rank 1 has another length: the round fails on all, and all hold what they began with. */
static void failure_body(ranks_self *self)
{
    model *it = calloc(1, sizeof(*it)), *first = calloc(1, sizeof(*first));
    float more[8] = {0};
    begin(it);
    begin(first);
    tutti_sync *sync = open_model(self, self->user, it, false);
    EXPECT_STATUS(TUTTI_OK, tutti_sync_add(sync, "odd", more, self->rank == 1 ? 8 : 7, TUTTI_F32));
    for (int t = 0; t < 3; t++) {
        find_gradients(it, self->rank);
        descend(it);
        EXPECT_STATUS(TUTTI_OK, tutti_sync_step(sync, NULL));
        EXPECT(!is_same(it, first));
    }
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, tutti_sync_step(sync, NULL));
    EXPECT(strstr(tutti_last_error(self->context), "odd") != NULL);
    EXPECT(is_same(it, first));
    tutti_sync_close(sync);
    free(it);
    free(first);
}

static void test_a_failed_round_restores_its_beginning(void **state)
{
    (void)state;
    ranks_run_both(3, failure_body, "local:period=4");
    ranks_run_both(3, failure_body, "outer:period=4,lr=0.5");
}

static void unequal_body(ranks_self *self)
{
    float weight = 1.0f;
    tutti_sync *sync = open_on(self, "local:period=100");
    EXPECT_STATUS(TUTTI_OK, tutti_sync_add(sync, "w", &weight, 1, TUTTI_F32));
    for (int t = 0; t < (self->rank == 2 ? 6 : 5); t++) {
        EXPECT_STATUS(TUTTI_OK, tutti_sync_step(sync, NULL));
    }
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, tutti_sync_flush(sync, NULL));
    EXPECT(strstr(tutti_last_error(self->context), "rank 2 of set 0 has made 6 steps, rank 0 5") !=
           NULL);
    tutti_sync_close(sync);
}

static void differ_body(ranks_self *self)
{
    tutti_sync *sync = NULL;
    EXPECT_STATUS(TUTTI_ERR_MISMATCH,
                  tutti_sync_open(self->context, TUTTI_WORLD,
                                  self->rank == 1 ? "local:period=4" : "local:period=8", NULL,
                                  &sync));
    EXPECT(strstr(tutti_last_error(self->context), "\"local:period=8\", rank 1 with "
                                                   "\"local:period=4\"") != NULL);
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT,
                  tutti_sync_open(self->context, TUTTI_WORLD,
                                  self->rank == 1 ? "lokal:period=8" : "local:period=8", NULL,
                                  &sync));
    EXPECT(strstr(tutti_last_error(self->context), "did you mean 'local'?") != NULL);
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT,
                  tutti_sync_open(self->context, TUTTI_WORLD, "local:period=8", "int8", &sync));
    EXPECT(strstr(tutti_last_error(self->context), "outer:lr=1, which exchanges deltas") != NULL);
}

static void test_ranks_that_differ_are_named(void **state)
{
    (void)state;
    ranks_run(3, NULL, unequal_body, NULL);
    ranks_run(3, NULL, differ_body, NULL);
}

static void misuse_body(ranks_self *self)
{
    float values[4] = {0};
    int ready = -1;
    tutti_sync *sync = open_on(self, "local:period=1");
    EXPECT_STATUS(TUTTI_OK, tutti_sync_add(sync, "empty", NULL, 0, TUTTI_F32));
    EXPECT_STATUS(TUTTI_ERR_UNSUPPORTED, tutti_sync_add(sync, "i", values, 4, TUTTI_I32));
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_sync_add(sync, "n", NULL, 4, TUTTI_F32));
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_sync_add(sync, "", values, 4, TUTTI_F32));
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_sync_add_state(sync, "m", values, 4, TUTTI_F32));
    EXPECT(strstr(tutti_last_error(self->context), "add state=keep, average or reset") != NULL);
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_sync_add(sync, "empty", values, 4, TUTTI_F32));
    EXPECT_STATUS(TUTTI_OK, tutti_sync_step(sync, &ready));
    EXPECT(ready == 1);
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_sync_add(sync, "late", values, 4, TUTTI_F32));
    EXPECT(strstr(tutti_last_error(self->context), "add all before it") != NULL);
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_sync_step(NULL, NULL));
    tutti_sync_close(sync);
    tutti_sync_close(NULL);
}

static void test_misuse_is_refused(void **state)
{
    (void)state;
    ranks_run(2, NULL, misuse_body, NULL);
    ranks_run(1, NULL, misuse_body, NULL);
}

/* ---- states ---- */

static void *save(tutti_sync *sync, size_t *size_out)
{
    EXPECT_STATUS(TUTTI_ERR_NO_RESOURCE, tutti_sync_save(sync, NULL, 0, size_out));
    void *bytes = malloc(*size_out);
    EXPECT_STATUS(TUTTI_OK, tutti_sync_save(sync, bytes, *size_out, size_out));
    return bytes;
}

/* Of each kind, saved while an exchange is in flight. */
static void kept_body(ranks_self *self)
{
    static const char *const policies[] = {
        "local:period=4", "outer:period=8,lr=0.5,momentum=0.5,fragments=2,delay=3,alpha=0.25",
        "pipeline:delay=2"};
    model *whole = calloc(1, sizeof(*whole)), *half = calloc(1, sizeof(*half));
    for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++) {
        const bool of_gradients = i == 2;
        size_t size = 0;
        void *bytes = NULL;
        model *now = whole;
        begin(whole);
        tutti_sync *sync = open_model(self, policies[i], whole, of_gradients);
        for (int run = 0; run < 2; run++) {
            for (int t = run == 0 ? 1 : 10; t <= STEPS; t++) {
                int ready = 1;
                find_gradients(now, self->rank);
                if (!of_gradients) {
                    descend(now);
                }
                EXPECT_STATUS(TUTTI_OK, tutti_sync_step(sync, &ready));
                if (of_gradients && ready == 1) {
                    descend(now);
                }
                if (run == 0 && t == 9) {
                    bytes = save(sync, &size);
                    *half = *whole;
                }
            }
            tutti_sync_close(sync);
            if (run == 0) {
                now = half;
                sync = open_model(self, policies[i], half, of_gradients);
                EXPECT_STATUS(TUTTI_OK, tutti_sync_load(sync, bytes, size));
            }
        }
        EXPECT(is_same(whole, half));
        free(bytes);
    }
    free(whole);
    free(half);
}

static void damaged_body(ranks_self *self)
{
    model *it = calloc(1, sizeof(*it));
    size_t size = 0;
    begin(it);
    tutti_sync *sync = open_model(self, "local:period=2", it, false);
    uint8_t *bytes = save(sync, &size);
    EXPECT_STATUS(TUTTI_OK, tutti_sync_load(sync, bytes, size));
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_sync_load(sync, bytes, size - 1));
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_sync_load(sync, bytes, 3));
    bytes[size / 2] ^= 1;
    EXPECT_STATUS(TUTTI_ERR_BAD_ARGUMENT, tutti_sync_load(sync, bytes, size));
    EXPECT(strstr(tutti_last_error(self->context), "cut or damaged") != NULL);
    bytes[size / 2] ^= 1;
    tutti_sync_close(sync);
    sync = open_model(self, "local:period=4", it, false);
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, tutti_sync_load(sync, bytes, size));
    EXPECT(strstr(tutti_last_error(self->context), "local:period=2") != NULL);
    tutti_sync_close(sync);
    sync = open_on(self, "local:period=2");
    EXPECT_STATUS(TUTTI_OK, tutti_sync_add(sync, "first", it->weights[0], COUNT, TUTTI_F32));
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, tutti_sync_load(sync, bytes, size));
    EXPECT_STATUS(TUTTI_OK, tutti_sync_add(sync, "third", it->weights[1], COUNT, TUTTI_F32));
    EXPECT_STATUS(TUTTI_ERR_MISMATCH, tutti_sync_load(sync, bytes, size));
    EXPECT(strstr(tutti_last_error(self->context), "in place of 'third'") != NULL);
    tutti_sync_close(sync);
    free(bytes);
    free(it);
}

static void test_a_state_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    ranks_run_both(2, kept_body, NULL);
    ranks_run(2, NULL, damaged_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies_equal_each_other_where_they_must),
        cmocka_unit_test(test_the_outer_step_is_that_of_sgd),
        cmocka_unit_test(test_a_pipeline_delivers_every_gradient_once),
        cmocka_unit_test(test_periods_change_at_their_step),
        cmocka_unit_test(test_fragments_take_turns),
        cmocka_unit_test(test_a_flush_makes_models_equal),
        cmocka_unit_test(test_state_is_kept_averaged_or_reset),
        cmocka_unit_test(test_a_failed_round_restores_its_beginning),
        cmocka_unit_test(test_ranks_that_differ_are_named),
        cmocka_unit_test(test_misuse_is_refused),
        cmocka_unit_test(test_a_state_goes_on_with_the_same_bits),
    };
    return cmocka_run_group_tests_name("rounds", tests, NULL, NULL);
}
