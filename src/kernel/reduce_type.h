/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_type.h - the kernels of reduce_kernel.h for one element type that is computed as stored.
 *
 * Expects, and undefines at the end: TT_NAME (suffix of the functions), TT_ELEM (as stored, any
 * alignment), TT_VALUE (the same, aligned), TT_WRAP (in which sums do not overflow: unsigned),
 * TT_MASK (signed integer of that width), TT_LOAD and TT_STORE (of one element, for scale and
 * divide), TT_CLEAN (of a pack, before it is stored), TT_KIND (TT_NUMBER or TT_TRUTH).
 *
 * Layer:   kernel, private to reduce_kernel.h. No include guard: a template.
 * Threads: pure.
 */
#define TT_PASTE_(a, b) a##_##b
#define TT_PASTE(a, b) TT_PASTE_(a, b)
#define TT_OWN(verb) TT_PASTE(verb, TT_NAME)

enum { TT_OWN(STEP) = 4 * TT_VECTOR_BYTES / sizeof(TT_VALUE) };

typedef TT_VALUE TT_OWN(pack) __attribute__((vector_size(TT_VECTOR_BYTES)));
typedef TT_OWN(pack) TT_OWN(kept);
typedef TT_OWN(pack) TT_OWN(kept_any) __attribute__((may_alias, aligned(1)));
typedef TT_WRAP TT_OWN(wrap) __attribute__((vector_size(TT_VECTOR_BYTES)));
typedef TT_MASK TT_OWN(mask) __attribute__((vector_size(TT_VECTOR_BYTES)));

TT_INLINE TT_OWN(pack)
    TT_OWN(select)(TT_OWN(mask) is_first, TT_OWN(pack) first, TT_OWN(pack) second)
{
    return (TT_OWN(pack))((is_first & (TT_OWN(mask))first) | (~is_first & (TT_OWN(mask))second));
}

TT_INLINE TT_OWN(mask) TT_OWN(differ)(TT_OWN(pack) a, TT_OWN(pack) b)
{
    return (TT_OWN(mask))(a != b);
}

TT_INLINE TT_OWN(pack) TT_OWN(widen)(TT_OWN(kept) kept)
{
    return TT_KIND == TT_TRUTH ? (TT_OWN(pack))((TT_OWN(mask))(kept != 0) & 1) : kept;
}

/* A NaN becomes the canonical one. */
TT_INLINE TT_OWN(kept) TT_OWN(narrow)(TT_OWN(pack) pack)
{
    return TT_CLEAN(pack);
}

/* `redop` is a constant at every call, so only one arm remains. Of equals the earlier wins; a NaN
 * operand gives a NaN. */
TT_INLINE TT_OWN(pack) TT_OWN(apply)(tt_redop redop, TT_OWN(pack) a, TT_OWN(pack) b)
{
    switch (redop) {
    case TT_MIN:
        return TT_OWN(select)((TT_OWN(mask))(b < a) | TT_OWN(differ)(b, b), b, a);
    case TT_MAX:
        return TT_OWN(select)((TT_OWN(mask))(b > a) | TT_OWN(differ)(b, b), b, a);
    case TT_PRODUCT:
        return (TT_OWN(pack))((TT_OWN(wrap))a * (TT_OWN(wrap))b);
    case TT_AND:
        return (TT_OWN(pack))((TT_OWN(mask))a & (TT_OWN(mask))b);
    case TT_OR:
        return (TT_OWN(pack))((TT_OWN(mask))a | (TT_OWN(mask))b);
    case TT_XOR:
        return (TT_OWN(pack))((TT_OWN(mask))a ^ (TT_OWN(mask))b);
    default:
        return TT_KIND == TT_TRUTH ? (TT_OWN(pack))((TT_OWN(mask))a | (TT_OWN(mask))b)
                                   : (TT_OWN(pack))((TT_OWN(wrap))a + (TT_OWN(wrap))b);
    }
}

#include "kernel/reduce_fold.h"

static void TT_OWN(scale)(void *target, const void *source, size_t count, double factor)
{
    TT_ELEM *out = target;
    const TT_ELEM *in = source;
    TT_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        out[i] = TT_STORE(TT_OWN(scaled)(TT_LOAD(in[i]), factor));
    }
}

static void TT_OWN(divide)(void *target, size_t count, uint64_t divisor)
{
    TT_ELEM *out = target;
    for (size_t i = 0; i < count; i++) {
        out[i] = TT_STORE(TT_OWN(divided)(TT_LOAD(out[i]), divisor));
    }
}

#undef TT_OWN
#undef TT_PASTE
#undef TT_PASTE_
#undef TT_NAME
#undef TT_ELEM
#undef TT_VALUE
#undef TT_WRAP
#undef TT_MASK
#undef TT_LOAD
#undef TT_STORE
#undef TT_KIND
#undef TT_CLEAN
