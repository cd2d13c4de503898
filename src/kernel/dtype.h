/* SPDX-License-Identifier: Apache-2.0
 *
 * dtype.h - element types and reduction operators: numbers, names, sizes, what goes with what.
 *
 * Layer:   kernel.
 * Threads: pure.
 * Memory:  none taken; names are string constants.
 */
#ifndef TUTTI_KERNEL_DTYPE_H
#define TUTTI_KERNEL_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

/* enum suffix, value, name, bytes. Values travel on the wire and are public ABI: append, never
 * renumber. Reserved for later: 11 u32, 12 u64, 13 f8e4m3, 14 f8e5m2. */
#define TT_DTYPE_MAP(X)   \
    X(U8, 0, "u8", 1)     \
    X(I8, 1, "i8", 1)     \
    X(U16, 2, "u16", 2)   \
    X(I16, 3, "i16", 2)   \
    X(I32, 4, "i32", 4)   \
    X(I64, 5, "i64", 8)   \
    X(F16, 6, "f16", 2)   \
    X(BF16, 7, "bf16", 2) \
    X(F32, 8, "f32", 4)   \
    X(F64, 9, "f64", 8)   \
    X(BOOL, 10, "bool", 1)

typedef enum tt_dtype {
#define X(suffix, value, name, bytes) TT_##suffix = (value),
    TT_DTYPE_MAP(X)
#undef X
        TT_DTYPE_COUNT
} tt_dtype;

/* enum suffix, value, name. The same promise as above. */
#define TT_REDOP_MAP(X)      \
    X(SUM, 0, "sum")         \
    X(AVERAGE, 1, "average") \
    X(MIN, 2, "min")         \
    X(MAX, 3, "max")         \
    X(PRODUCT, 4, "product") \
    X(AND, 5, "and")         \
    X(OR, 6, "or")           \
    X(XOR, 7, "xor")         \
    X(ADASUM, 8, "adasum")

typedef enum tt_redop {
#define X(suffix, value, name) TT_##suffix = (value),
    TT_REDOP_MAP(X)
#undef X
        TT_REDOP_COUNT
} tt_redop;

/* Take an int so that a number from a peer or a caller is checked before it becomes an enum. */
bool tt_dtype_is_valid(int dtype);
bool tt_redop_is_valid(int redop);

/* Bytes of one element, the same on every host; 0 for an invalid type. */
size_t tt_dtype_bytes(tt_dtype dtype);

/* As users write it; "invalid" beyond the map, so that it can always be printed. */
const char *tt_dtype_name(tt_dtype dtype);
const char *tt_redop_name(tt_redop redop);

/* Exact, lower-case names, and the long ones frameworks use ("float32", "int64", "bfloat16",
 * "mean", "prod"). `*_out` is set only if the result is true. */
bool tt_dtype_parse(const char *name, tt_dtype *dtype_out);
bool tt_redop_parse(const char *name, tt_redop *redop_out);

bool tt_dtype_is_float(tt_dtype dtype);
bool tt_dtype_is_integer(tt_dtype dtype); /* bool is neither */

/* And, or, xor: integers and bool only. Average: everything but bool. Adasum: floats only. */
bool tt_redop_allowed(tt_dtype dtype, tt_redop redop);

/* Does a result's element depend on that element of the inputs alone? In Adasum it depends on whole
 * vectors, so that they cannot be split or folded (kernel/adasum_math.h). */
bool tt_redop_is_elementwise(tt_redop redop);

#endif
