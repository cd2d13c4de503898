/* SPDX-License-Identifier: Apache-2.0
 *
 * matrix.c - a blocked matrix product, fast enough without a BLAS.
 *
 * b is copied, panel by panel (DEPTH rows of LANES columns), to a buffer that fits the
 * first-level cache; with b packed, strides do not matter, so one function computes x W, x^T dy and
 * dy W^T. A tile of TILE_ROWS x LANES sums then stays in registers over the depth.
 */
#include "matrix.h"

#include <assert.h>
#include <string.h>

enum {
    LANES = 16,    /* one AVX-512 register, two AVX ones, four SSE ones */
    TILE_ROWS = 6, /* 6 x 2 AVX registers of 16 hold the sums, the rest hold the factors */
    DEPTH = 256,
};

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), may_alias));

/* One copy of the function per instruction set, chosen when the program is loaded. Sanitizers
 * cannot work that early. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif

gpt_matrix gpt_matrix_view(float *data, size_t rows, size_t columns)
{
    return (gpt_matrix){data, rows, columns, columns, 1};
}

gpt_matrix gpt_matrix_transposed(gpt_matrix matrix)
{
    return (gpt_matrix){matrix.data, matrix.columns, matrix.rows, matrix.column_stride,
                        matrix.row_stride};
}

/* Copy rows [k, k + depth) of columns [column, column + LANES) of b; missing columns are zero. */
static void panel_pack(float *panel, gpt_matrix b, size_t k, size_t depth, size_t column)
{
    const size_t columns = b.columns - column < LANES ? b.columns - column : LANES;
    if (columns < LANES) {
        memset(panel, 0, depth * LANES * sizeof(float));
    }
    for (size_t i = 0; i < depth; i++) {
        const float *source = b.data + (k + i) * b.row_stride + column * b.column_stride;
        for (size_t j = 0; j < columns; j++) {
            panel[i * LANES + j] = source[j * b.column_stride];
        }
    }
}

/* sums[r] = sum over k of row r of a times row k of the panel. The six sums are spelled out so
 * that every compiler keeps them in registers. */
static inline __attribute__((always_inline)) void tile_multiply(lanes sums[TILE_ROWS],
                                                                const float *const rows[TILE_ROWS],
                                                                size_t stride, const float *panel,
                                                                size_t depth)
{
    lanes sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0}, sum4 = {0}, sum5 = {0};
    for (size_t k = 0; k < depth; k++) {
        const lanes factor = *(const lanes *)(const void *)(panel + k * LANES);
        sum0 += rows[0][k * stride] * factor;
        sum1 += rows[1][k * stride] * factor;
        sum2 += rows[2][k * stride] * factor;
        sum3 += rows[3][k * stride] * factor;
        sum4 += rows[4][k * stride] * factor;
        sum5 += rows[5][k * stride] * factor;
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
    sums[4] = sum4;
    sums[5] = sum5;
}

/* target[0..columns) += values, at any alignment. */
static inline __attribute__((always_inline)) void lanes_add(float *target, const lanes *values,
                                                            size_t columns)
{
    if (columns == LANES) {
        lanes sum;
        memcpy(&sum, target, sizeof(sum));
        sum += *values;
        memcpy(target, &sum, sizeof(sum));
        return;
    }
    for (size_t j = 0; j < columns; j++) {
        target[j] += (*values)[j];
    }
}

/* All rows of a against one packed panel: sum[:, column...] += a[:, k...] panel. */
FOR_EACH_CPU
static void panel_multiply_add(gpt_matrix sum, gpt_matrix a, const float *panel)
{
    const size_t columns = sum.columns < LANES ? sum.columns : LANES;
    for (size_t row = 0; row < a.rows; row += TILE_ROWS) {
        const size_t row_count = a.rows - row < TILE_ROWS ? a.rows - row : TILE_ROWS;
        const float *rows[TILE_ROWS];
        for (size_t r = 0; r < TILE_ROWS; r++) { /* a short tile repeats its last row */
            rows[r] = a.data + (row + (r < row_count ? r : row_count - 1)) * a.row_stride;
        }
        lanes sums[TILE_ROWS];
        tile_multiply(sums, rows, a.column_stride, panel, a.columns);
        for (size_t r = 0; r < row_count; r++) {
            lanes_add(sum.data + (row + r) * sum.row_stride, &sums[r], columns);
        }
    }
}

void gpt_matrix_multiply_add(gpt_matrix sum, gpt_matrix a, gpt_matrix b)
{
    assert(a.rows == sum.rows && b.columns == sum.columns && a.columns == b.rows);
    assert(sum.column_stride == 1);
    _Alignas(64) float panel[DEPTH * LANES];
    for (size_t k = 0; k < b.rows; k += DEPTH) {
        const size_t depth = b.rows - k < DEPTH ? b.rows - k : DEPTH;
        gpt_matrix a_part = a;
        a_part.data += k * a.column_stride;
        a_part.columns = depth;
        for (size_t column = 0; column < b.columns; column += LANES) {
            panel_pack(panel, b, k, depth, column);
            gpt_matrix target = sum;
            target.data += column;
            target.columns -= column;
            panel_multiply_add(target, a_part, panel);
        }
    }
}
