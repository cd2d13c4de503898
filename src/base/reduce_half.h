/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_half.h - the loops of reduce_kernel.h for one 16-bit float type.
 *
 * Expects, and undefines at the end: TT_NAME (f16 or bf16). Conversion is a matter of whole vectors
 * that no compiler finds by itself: where the instruction set has them, whole vectors are folded in
 * registers. The rest is widened block by block, folded as f32 in L1, and narrowed.
 *
 * Layer:   base, private to reduce_kernel.h. No include guard: a template.
 * Threads: pure.
 */
#define TT_PASTE_(a, b) a##_##b
#define TT_PASTE(a, b) TT_PASTE_(a, b)
#define TT_OWN(verb) TT_PASTE(verb, TT_NAME)

#if defined(TT_VECTOR_LANES)
/* In registers, as far as whole vectors go. Returns the number of elements done. */
TT_INLINE size_t TT_OWN(fold_vectors)(tt_redop redop, void *target, const tt_fold *fold,
                                      size_t source_count)
{
    const size_t last = fold->count - fold->count % TT_VECTOR_LANES;
    for (size_t i = 0; i < last; i += TT_VECTOR_LANES) {
        const size_t at = fold->start + i;
        vector sum = TT_OWN(vector_load)((const elem_u16 *)fold->sources[0] + at);
        for (size_t k = 1; k < source_count; k++) {
            const elem_u16 *source = (const elem_u16 *)fold->sources[k] + at;
            sum = vector_apply(redop, sum, TT_OWN(vector_load)(source));
        }
        TT_OWN(vector_store)((elem_u16 *)target + i, sum);
    }
    return last;
}
#else
TT_INLINE size_t TT_OWN(fold_vectors)(tt_redop redop, void *target, const tt_fold *fold,
                                      size_t source_count)
{
    (void)redop;
    (void)target;
    (void)fold;
    (void)source_count;
    return 0;
}
#endif

TT_INLINE void TT_OWN(fold)(tt_redop redop, void *target, const tt_fold *fold)
{
    /* A constant number of sources lets the compiler unroll the most frequent case. */
    const size_t whole = fold->source_count == 2
                             ? TT_OWN(fold_vectors)(redop, target, fold, 2)
                             : TT_OWN(fold_vectors)(redop, target, fold, fold->source_count);
    float sum[TT_REDUCE_BLOCK];
    float next[TT_REDUCE_BLOCK];
    for (size_t done = whole; done < fold->count; done += TT_REDUCE_BLOCK) {
        const size_t left = fold->count - done;
        const size_t count = left < TT_REDUCE_BLOCK ? left : TT_REDUCE_BLOCK;
        const size_t first = fold->start + done;
        TT_OWN(widen)(sum, (const elem_u16 *)fold->sources[0] + first, count);
        for (size_t k = 1; k < fold->source_count; k++) {
            TT_OWN(widen)(next, (const elem_u16 *)fold->sources[k] + first, count);
            for (size_t i = 0; i < count; i++) {
                sum[i] = apply_f32(redop, sum[i], next[i]);
            }
        }
        TT_OWN(narrow)((elem_u16 *)target + done, sum, count);
    }
}

#define TT_DEFINE(verb, redop)                                                  \
    static void TT_PASTE(TT_OWN(fold), verb)(void *target, const tt_fold *fold) \
    {                                                                           \
        TT_OWN(fold)(redop, target, fold);                                      \
    }
TT_DEFINE(sum, TT_SUM)
TT_DEFINE(min, TT_MIN)
TT_DEFINE(max, TT_MAX)
TT_DEFINE(product, TT_PRODUCT)

static void TT_OWN(scale)(void *target, const void *source, size_t count, double factor)
{
    float block[TT_REDUCE_BLOCK];
    for (size_t done = 0; done < count; done += TT_REDUCE_BLOCK) {
        const size_t left = count - done;
        const size_t part = left < TT_REDUCE_BLOCK ? left : TT_REDUCE_BLOCK;
        TT_OWN(widen)(block, (const elem_u16 *)source + done, part);
        for (size_t i = 0; i < part; i++) {
            block[i] = scaled_f32(block[i], factor);
        }
        TT_OWN(narrow)((elem_u16 *)target + done, block, part);
    }
}

static void TT_OWN(divide)(void *target, size_t count, uint64_t divisor)
{
    float block[TT_REDUCE_BLOCK];
    for (size_t done = 0; done < count; done += TT_REDUCE_BLOCK) {
        const size_t left = count - done;
        const size_t part = left < TT_REDUCE_BLOCK ? left : TT_REDUCE_BLOCK;
        TT_OWN(widen)(block, (const elem_u16 *)target + done, part);
        for (size_t i = 0; i < part; i++) {
            block[i] = divided_f32(block[i], divisor);
        }
        TT_OWN(narrow)((elem_u16 *)target + done, block, part);
    }
}

#undef TT_DEFINE
#undef TT_OWN
#undef TT_PASTE
#undef TT_PASTE_
#undef TT_NAME
