/* SPDX-License-Identifier: Apache-2.0
 *
 * matrix.h - views of float matrices, and the one product that the whole model uses.
 *
 * Layer:   example; does not use Tutti.
 * Threads: none; a product writes only its first argument.
 * Memory:  a view owns nothing.
 */
#ifndef GPT_MATRIX_H
#define GPT_MATRIX_H

#include <stddef.h>

typedef struct gpt_matrix {
    float *data;
    size_t rows;
    size_t columns;
    size_t row_stride; /* floats from one row to the next */
    size_t column_stride;
} gpt_matrix;

/* A dense matrix, row after row. */
gpt_matrix gpt_matrix_view(float *data, size_t rows, size_t columns);
/* The same numbers, rows and columns exchanged; nothing is copied. */
gpt_matrix gpt_matrix_transposed(gpt_matrix matrix);

/* sum += a b. `sum` must have column_stride 1 and overlap neither factor. */
void gpt_matrix_multiply_add(gpt_matrix sum, gpt_matrix a, gpt_matrix b);

#endif
