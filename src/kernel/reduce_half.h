/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_half.h - the kernels of reduce_kernel.h for one 16-bit float type, computed in f32.
 *
 * Expects, and undefines at the end: TT_NAME (f16 or bf16). widen and narrow of that name are
 * defined before: by vectors of 16-bit and 32-bit elements, NaN narrowed to the canonical one.
 *
 * Layer:   kernel, private to reduce_kernel.h. No include guard: a template.
 * Threads: pure.
 */
#define TT_PASTE_(a, b) a##_##b
#define TT_PASTE(a, b) TT_PASTE_(a, b)
#define TT_OWN(verb) TT_PASTE(verb, TT_NAME)
#define TT_ELEM elem_u16

enum { TT_OWN(STEP) = 4 * TT_VECTOR_BYTES / sizeof(float) };

typedef pack_f32 TT_OWN(pack);
typedef kept_half TT_OWN(kept);
typedef kept_half TT_OWN(kept_any) __attribute__((may_alias, aligned(1)));

TT_INLINE pack_f32 TT_OWN(apply)(tt_redop redop, pack_f32 a, pack_f32 b)
{
    return apply_f32(redop, a, b);
}

#include "kernel/reduce_fold.h"

/* target = source * factor, or / divisor if that is not 0; a pack at a time. */
TT_INLINE void TT_OWN(rescale)(elem_u16 *target, const elem_u16 *source, size_t count, float factor,
                               float divisor)
{
    const size_t lanes = TT_OWN(STEP) / 4;
    for (size_t at = 0; at < count; at += lanes) {
        const size_t bytes = (count - at < lanes ? count - at : lanes) * sizeof(*target);
        kept_half kept = {0};
        memcpy(&kept, source + at, bytes);
        const pack_f32 pack = TT_OWN(widen)(kept);
        kept = TT_OWN(narrow)(divisor != 0.0F ? pack / divisor : pack * factor);
        memcpy(target + at, &kept, bytes);
    }
}

static void TT_OWN(scale)(void *target, const void *source, size_t count, double factor)
{
    TT_OWN(rescale)(target, source, count, (float)factor, 0.0F);
}

static void TT_OWN(divide)(void *target, size_t count, uint64_t divisor)
{
    TT_OWN(rescale)(target, target, count, 1.0F, (float)divisor);
}

#undef TT_ELEM
#undef TT_OWN
#undef TT_PASTE
#undef TT_PASTE_
#undef TT_NAME
