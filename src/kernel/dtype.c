/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/dtype.h"

#include <string.h>

#include "base/base.h"

typedef struct alias {
    const char *name;
    int value;
} alias;

static const alias dtype_names[] = {
#define X(suffix, value, name, bytes) {name, TT_##suffix},
    TT_DTYPE_MAP(X)
#undef X
        {"uint8", TT_U8},
    {"int8", TT_I8},
    {"uint16", TT_U16},
    {"int16", TT_I16},
    {"int32", TT_I32},
    {"int64", TT_I64},
    {"float16", TT_F16},
    {"bfloat16", TT_BF16},
    {"float32", TT_F32},
    {"float64", TT_F64},
    {"half", TT_F16},
    {"float", TT_F32},
    {"double", TT_F64},
};

static const alias redop_names[] = {
#define X(suffix, value, name) {name, TT_##suffix},
    TT_REDOP_MAP(X)
#undef X
        {"mean", TT_AVERAGE},
    {"prod", TT_PRODUCT},
};

static bool alias_find(const alias *names, size_t name_count, const char *name, int *value_out)
{
    for (size_t i = 0; i < name_count; i++) {
        if (strcmp(names[i].name, name) == 0) {
            *value_out = names[i].value;
            return true;
        }
    }
    return false;
}

bool tt_dtype_is_valid(int dtype)
{
    return dtype >= 0 && dtype < TT_DTYPE_COUNT;
}

bool tt_redop_is_valid(int redop)
{
    return redop >= 0 && redop < TT_REDOP_COUNT;
}

size_t tt_dtype_bytes(tt_dtype dtype)
{
    static const unsigned char dtype_bytes[TT_DTYPE_COUNT] = {
#define X(suffix, value, name, bytes) [TT_##suffix] = (bytes),
        TT_DTYPE_MAP(X)
#undef X
    };
    return tt_dtype_is_valid((int)dtype) ? dtype_bytes[dtype] : 0;
}

const char *tt_dtype_name(tt_dtype dtype)
{
    switch (dtype) {
#define X(suffix, value, name, bytes) \
    case TT_##suffix:                 \
        return name;
        TT_DTYPE_MAP(X)
#undef X
    case TT_DTYPE_COUNT:
        break;
    }
    return "invalid";
}

const char *tt_redop_name(tt_redop redop)
{
    switch (redop) {
#define X(suffix, value, name) \
    case TT_##suffix:          \
        return name;
        TT_REDOP_MAP(X)
#undef X
    case TT_REDOP_COUNT:
        break;
    }
    return "invalid";
}

bool tt_dtype_parse(const char *name, tt_dtype *dtype_out)
{
    int value;
    if (!alias_find(dtype_names, TT_ARRAY_COUNT(dtype_names), name, &value)) {
        return false;
    }
    *dtype_out = (tt_dtype)value;
    return true;
}

bool tt_redop_parse(const char *name, tt_redop *redop_out)
{
    int value;
    if (!alias_find(redop_names, TT_ARRAY_COUNT(redop_names), name, &value)) {
        return false;
    }
    *redop_out = (tt_redop)value;
    return true;
}

bool tt_dtype_is_float(tt_dtype dtype)
{
    return dtype == TT_F16 || dtype == TT_BF16 || dtype == TT_F32 || dtype == TT_F64;
}

bool tt_dtype_is_integer(tt_dtype dtype)
{
    return tt_dtype_is_valid((int)dtype) && !tt_dtype_is_float(dtype) && dtype != TT_BOOL;
}

bool tt_redop_allowed(tt_dtype dtype, tt_redop redop)
{
    if (!tt_dtype_is_valid((int)dtype) || !tt_redop_is_valid((int)redop)) {
        return false;
    }
    if (redop == TT_AND || redop == TT_OR || redop == TT_XOR) {
        return !tt_dtype_is_float(dtype);
    }
    if (redop == TT_ADASUM) {
        return tt_dtype_is_float(dtype);
    }
    return redop != TT_AVERAGE || dtype != TT_BOOL;
}

bool tt_redop_is_elementwise(tt_redop redop)
{
    return redop != TT_ADASUM;
}
