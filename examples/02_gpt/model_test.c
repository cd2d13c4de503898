/* SPDX-License-Identifier: Apache-2.0
 *
 * model_test.c - the hand-written gradients are those of the loss.
 *
 * Method: central differences, for a few elements of every parameter tensor of a small model. The
 * model computes in f32, so a difference carries rounding noise of about 1e-4; the step is large
 * enough and the tolerance wide enough for that, and far too narrow for a forgotten term.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "matrix.h"
#include "model.h"
#include "random.h"

enum { SAMPLES_PER_TENSOR = 12 };

typedef struct fixture {
    gpt_shape shape;
    float *parameters;
    float *gradients;
    gpt_model *model;
    uint8_t tokens[64];
    uint8_t targets[64];
    size_t parameter_count;
} fixture;

static int fixture_setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->shape = (gpt_shape){
        .vocabulary = 11, .context = 7, .width = 12, .heads = 3, .layers = 2, .batch = 2};
    f->parameter_count = gpt_model_parameter_count(&f->shape);
    f->parameters = calloc(f->parameter_count, sizeof(float));
    f->gradients = calloc(f->parameter_count, sizeof(float));
    f->model = gpt_model_create(&f->shape, f->parameters, f->gradients);
    assert_non_null(f->model);
    /* Larger than usual starting values, so that every path carries weight. */
    gpt_random random = {7};
    for (size_t i = 0; i < f->parameter_count; i++) {
        f->parameters[i] = (float)(gpt_random_uniform(&random) - 0.5);
    }
    for (size_t i = 0; i < f->shape.batch * f->shape.context; i++) {
        f->tokens[i] = (uint8_t)(gpt_random_next(&random) % f->shape.vocabulary);
        f->targets[i] = (uint8_t)(gpt_random_next(&random) % f->shape.vocabulary);
    }
    *state = f;
    return 0;
}

static int fixture_teardown(void **state)
{
    fixture *f = *state;
    gpt_model_destroy(f->model);
    free(f->gradients);
    free(f->parameters);
    free(f);
    return 0;
}

static double loss_of(fixture *f)
{
    gpt_model_forward(f->model, f->tokens, f->shape.batch);
    return gpt_model_loss(f->model, f->targets);
}

static double slope_at(fixture *f, size_t index)
{
    const float step = 4e-3f;
    const float kept = f->parameters[index];
    f->parameters[index] = kept + step;
    const double above = loss_of(f);
    f->parameters[index] = kept - step;
    const double below = loss_of(f);
    f->parameters[index] = kept;
    return (above - below) / (2.0 * (double)step);
}

static void test_every_tensor_has_the_gradient_of_the_loss(void **state)
{
    fixture *f = *state;
    loss_of(f);
    gpt_model_backward(f->model, NULL, NULL);
    size_t tensor_count;
    const gpt_tensor *tensors = gpt_model_tensors(f->model, &tensor_count);
    gpt_random random = {11};
    for (size_t t = 0; t < tensor_count; t++) {
        double strongest = 0.0;
        for (int sample = 0; sample < SAMPLES_PER_TENSOR; sample++) {
            const size_t element =
                gpt_random_next(&random) % (tensors[t].rows * tensors[t].columns);
            const size_t index = tensors[t].offset + element;
            const double slope = slope_at(f, index);
            const double gradient = (double)f->gradients[index];
            if (fabs(slope - gradient) > 3e-4 + 0.01 * fabs(slope)) {
                fail_msg("%s of segment %zu, element %zu: slope %g, gradient %g", tensors[t].name,
                         tensors[t].segment, element, slope, gradient);
            }
            strongest = fmax(strongest, fabs(slope));
        }
        assert_true(strongest > 1e-3); /* or the comparison above is void */
    }
}

static void test_a_character_never_sees_a_later_one(void **state)
{
    fixture *f = *state;
    const size_t before = 3;
    const size_t count = before * f->shape.vocabulary;
    float kept[64];
    memcpy(kept, gpt_model_forward(f->model, f->tokens, 1), count * sizeof(float));
    f->tokens[before] = (uint8_t)((f->tokens[before] + 1) % f->shape.vocabulary);
    const float *logits = gpt_model_forward(f->model, f->tokens, 1);
    assert_memory_equal(kept, logits, count * sizeof(float));
    assert_true(memcmp(kept, logits + count, f->shape.vocabulary * sizeof(float)) != 0);
}

static void segments_note(void *user, size_t segment_index)
{
    size_t **next = user;
    *(*next)++ = segment_index;
}

static void test_segments_finish_last_first(void **state)
{
    fixture *f = *state;
    size_t order[4] = {9, 9, 9, 9};
    size_t *next = order;
    loss_of(f);
    gpt_model_backward(f->model, segments_note, &next);
    const size_t expected[4] = {3, 2, 1, 0};
    assert_ptr_equal(next, order + 4);
    assert_memory_equal(order, expected, sizeof(expected));
}

/* The plain twin of gpt_matrix_multiply_add. */
static void multiply_add_plain(gpt_matrix sum, gpt_matrix a, gpt_matrix b)
{
    for (size_t i = 0; i < a.rows; i++) {
        for (size_t j = 0; j < b.columns; j++) {
            for (size_t k = 0; k < a.columns; k++) {
                sum.data[i * sum.row_stride + j] += a.data[i * a.row_stride + k * a.column_stride] *
                                                    b.data[k * b.row_stride + j * b.column_stride];
            }
        }
    }
}

static void test_blocked_product_equals_the_plain_one(void **state)
{
    (void)state;
    const size_t sizes[][3] = {{1, 1, 1}, {6, 16, 8}, {7, 17, 300}, {13, 33, 257}, {64, 64, 16}};
    gpt_random random = {5};
    float *a = calloc(64 * 300, sizeof(float));
    float *b = calloc(64 * 300, sizeof(float));
    for (size_t i = 0; i < 64 * 300; i++) {
        a[i] = (float)(gpt_random_uniform(&random) - 0.5);
        b[i] = (float)(gpt_random_uniform(&random) - 0.5);
    }
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (int turned = 0; turned < 4; turned++) {
            const size_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            float fast[64 * 64] = {0};
            float plain[64 * 64] = {0};
            const gpt_matrix av = turned & 1 ? gpt_matrix_transposed(gpt_matrix_view(a, k, m))
                                             : gpt_matrix_view(a, m, k);
            const gpt_matrix bv = turned & 2 ? gpt_matrix_transposed(gpt_matrix_view(b, n, k))
                                             : gpt_matrix_view(b, k, n);
            gpt_matrix_multiply_add(gpt_matrix_view(fast, m, n), av, bv);
            multiply_add_plain(gpt_matrix_view(plain, m, n), av, bv);
            for (size_t i = 0; i < m * n; i++) {
                assert_true(fabsf(fast[i] - plain[i]) < 1e-4f);
            }
        }
    }
    free(b);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocked_product_equals_the_plain_one),
        cmocka_unit_test_setup_teardown(test_every_tensor_has_the_gradient_of_the_loss,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_character_never_sees_a_later_one, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_segments_finish_last_first, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
