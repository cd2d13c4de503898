/* SPDX-License-Identifier: Apache-2.0
 *
 * config_parse.c - text to number, for config.h. Pure functions: no locale, no allocation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"
#include "base/config.h"

typedef struct unit {
    const char *name;
    uint64_t factor;
} unit;

static bool unit_find(const unit *units, size_t unit_count, const char *name, uint64_t *factor_out)
{
    name += strspn(name, " ");
    for (size_t i = 0; i < unit_count; i++) {
        if (strcasecmp(units[i].name, name) == 0) {
            *factor_out = units[i].factor;
            return true;
        }
    }
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Read the digits at *at and move past them. False: no digit, or too large. */
static bool take_digits(const char **at, uint64_t *value_out)
{
    uint64_t value = 0;
    const char *start = *at;
    for (; is_digit(**at); (*at)++) {
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(**at - '0'), &value)) {
            return false;
        }
    }
    *value_out = value;
    return *at != start;
}

bool tt_config_parse_bool(const char *text, bool *value_out)
{
    static const char *const names[2][5] = {{"0", "false", "no", "off", "n"},
                                            {"1", "true", "yes", "on", "y"}};
    for (int value = 0; value < 2; value++) {
        for (size_t i = 0; i < TT_ARRAY_COUNT(names[value]); i++) {
            if (strcasecmp(text, names[value][i]) == 0) {
                *value_out = value != 0;
                return true;
            }
        }
    }
    return false;
}

bool tt_config_parse_int(const char *text, int64_t *value_out)
{
    const bool is_negative = *text == '-';
    const char *at = text + (*text == '-' || *text == '+');
    uint64_t magnitude;
    if (!take_digits(&at, &magnitude) || *at != '\0' ||
        magnitude > (uint64_t)INT64_MAX + is_negative) {
        return false;
    }
    *value_out = (int64_t)(is_negative ? 0 - magnitude : magnitude);
    return true;
}

/* A decimal mantissa of up to 19 digits times a power of ten; enough for settings, and unlike
 * strtod it means the same in every locale. */
bool tt_config_parse_real(const char *text, double *value_out)
{
    const char *at = text + (*text == '-' || *text == '+');
    uint64_t mantissa = 0;
    int exponent = 0;
    size_t digit_count = 0;
    bool has_point = false;
    for (; is_digit(*at) || (*at == '.' && !has_point); at++) {
        if (*at == '.') {
            has_point = true;
            continue;
        }
        digit_count++;
        if (mantissa > (UINT64_MAX - 9) / 10) {
            return false;
        }
        mantissa = mantissa * 10 + (uint64_t)(*at - '0');
        exponent -= has_point;
    }
    if (digit_count == 0) {
        return false;
    }
    if (*at == 'e' || *at == 'E') {
        int64_t power;
        if (!tt_config_parse_int(at + 1, &power) || power > 400 || power < -400) {
            return false;
        }
        exponent += (int)power;
    } else if (*at != '\0') {
        return false;
    }
    /* Dividing by an exact power rounds once: 0.1 is then the double 0.1. */
    const double scale = pow(10.0, abs(exponent));
    const double value = exponent < 0 ? (double)mantissa / scale : (double)mantissa * scale;
    if (!isfinite(value)) {
        return false;
    }
    *value_out = *text == '-' ? -value : value;
    return true;
}

bool tt_config_parse_bytes(const char *text, uint64_t *bytes_out)
{
    static const unit units[] = {
        {"", 1},
        {"B", 1},
        {"K", 1 << 10},
        {"KB", 1 << 10},
        {"KiB", 1 << 10},
        {"M", 1 << 20},
        {"MB", 1 << 20},
        {"MiB", 1 << 20},
        {"G", 1 << 30},
        {"GB", 1 << 30},
        {"GiB", 1 << 30},
        {"T", UINT64_C(1) << 40},
        {"TB", UINT64_C(1) << 40},
        {"TiB", UINT64_C(1) << 40},
    };
    uint64_t value;
    uint64_t factor;
    if (!take_digits(&text, &value) || !unit_find(units, TT_ARRAY_COUNT(units), text, &factor) ||
        __builtin_mul_overflow(value, factor, &value)) {
        return false;
    }
    *bytes_out = value;
    return true;
}

bool tt_config_parse_seconds(const char *text, uint64_t *ns_out)
{
    static const unit units[] = {
        {"", 1000000000},
        {"s", 1000000000},
        {"ms", 1000000},
        {"us", 1000},
        {"ns", 1},
        {"min", UINT64_C(60000000000)},
        {"h", UINT64_C(3600000000000)},
    };
    const char *at = text;
    uint64_t whole;
    uint64_t fraction = 0;
    uint64_t fraction_scale = 1;
    uint64_t factor;
    uint64_t ns;
    if (!take_digits(&at, &whole)) {
        return false;
    }
    if (*at == '.') {
        /* Nine digits reach the nanosecond; later ones are ignored. */
        for (at++; is_digit(*at); at++) {
            if (fraction_scale < 1000000000) {
                fraction = fraction * 10 + (uint64_t)(*at - '0');
                fraction_scale *= 10;
            }
        }
    }
    if (!unit_find(units, TT_ARRAY_COUNT(units), at, &factor) ||
        __builtin_mul_overflow(whole, factor, &ns)) {
        return false;
    }
    const double part = (double)fraction / (double)fraction_scale * (double)factor;
    if (__builtin_add_overflow(ns, (uint64_t)(part + 0.5), &ns)) {
        return false;
    }
    *ns_out = ns;
    return true;
}
