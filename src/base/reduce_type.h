/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_type.h - the loops of reduce_kernel.h for one element type.
 *
 * Expects, and undefines at the end: TT_NAME (suffix of the functions), TT_ELEM (as stored),
 * TT_VALUE (as computed), TT_LOAD and TT_STORE (from one to the other). Two to four sources, and
 * eight, are folded in registers; other numbers go through a block of TT_VALUE that stays in L1.
 *
 * Layer:   base, private to reduce_kernel.h. No include guard: a template.
 * Threads: pure.
 */
#define TT_PASTE_(a, b) a##_##b
#define TT_PASTE(a, b) TT_PASTE_(a, b)
#define TT_OWN(verb) TT_PASTE(verb, TT_NAME)

TT_INLINE const TT_ELEM *TT_OWN(source_at)(const tt_fold *fold, size_t index)
{
    return (const TT_ELEM *)fold->sources[index] + fold->start;
}

TT_INLINE void TT_OWN(fold_two)(tt_redop redop, TT_ELEM *target, const tt_fold *fold)
{
    const TT_ELEM *a = TT_OWN(source_at)(fold, 0);
    const TT_ELEM *b = TT_OWN(source_at)(fold, 1);
    const size_t count = fold->count;
    TT_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        target[i] = TT_STORE(TT_OWN(apply)(redop, TT_LOAD(a[i]), TT_LOAD(b[i])));
    }
}

TT_INLINE void TT_OWN(fold_three)(tt_redop redop, TT_ELEM *target, const tt_fold *fold)
{
    const TT_ELEM *a = TT_OWN(source_at)(fold, 0);
    const TT_ELEM *b = TT_OWN(source_at)(fold, 1);
    const TT_ELEM *c = TT_OWN(source_at)(fold, 2);
    const size_t count = fold->count;
    TT_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        const TT_VALUE ab = TT_OWN(apply)(redop, TT_LOAD(a[i]), TT_LOAD(b[i]));
        target[i] = TT_STORE(TT_OWN(apply)(redop, ab, TT_LOAD(c[i])));
    }
}

TT_INLINE void TT_OWN(fold_four)(tt_redop redop, TT_ELEM *target, const tt_fold *fold)
{
    const TT_ELEM *a = TT_OWN(source_at)(fold, 0);
    const TT_ELEM *b = TT_OWN(source_at)(fold, 1);
    const TT_ELEM *c = TT_OWN(source_at)(fold, 2);
    const TT_ELEM *d = TT_OWN(source_at)(fold, 3);
    const size_t count = fold->count;
    TT_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        const TT_VALUE ab = TT_OWN(apply)(redop, TT_LOAD(a[i]), TT_LOAD(b[i]));
        const TT_VALUE abc = TT_OWN(apply)(redop, ab, TT_LOAD(c[i]));
        target[i] = TT_STORE(TT_OWN(apply)(redop, abc, TT_LOAD(d[i])));
    }
}

/* Eight ranks on a host are common enough for their own loop. */
TT_INLINE void TT_OWN(fold_eight)(tt_redop redop, TT_ELEM *target, const tt_fold *fold)
{
    const TT_ELEM *a = TT_OWN(source_at)(fold, 0);
    const TT_ELEM *b = TT_OWN(source_at)(fold, 1);
    const TT_ELEM *c = TT_OWN(source_at)(fold, 2);
    const TT_ELEM *d = TT_OWN(source_at)(fold, 3);
    const TT_ELEM *e = TT_OWN(source_at)(fold, 4);
    const TT_ELEM *f = TT_OWN(source_at)(fold, 5);
    const TT_ELEM *g = TT_OWN(source_at)(fold, 6);
    const TT_ELEM *h = TT_OWN(source_at)(fold, 7);
    const size_t count = fold->count;
    TT_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        TT_VALUE sum = TT_OWN(apply)(redop, TT_LOAD(a[i]), TT_LOAD(b[i]));
        sum = TT_OWN(apply)(redop, sum, TT_LOAD(c[i]));
        sum = TT_OWN(apply)(redop, sum, TT_LOAD(d[i]));
        sum = TT_OWN(apply)(redop, sum, TT_LOAD(e[i]));
        sum = TT_OWN(apply)(redop, sum, TT_LOAD(f[i]));
        sum = TT_OWN(apply)(redop, sum, TT_LOAD(g[i]));
        target[i] = TT_STORE(TT_OWN(apply)(redop, sum, TT_LOAD(h[i])));
    }
}

/* Add source `index` and, where there is one, the next to `sum`. Returns how many were added. */
TT_INLINE size_t TT_OWN(fold_more)(tt_redop redop, TT_VALUE *sum, const tt_fold *fold, size_t index)
{
    const TT_ELEM *a = TT_OWN(source_at)(fold, index);
    const size_t count = fold->count;
    if (index + 1 == fold->source_count) {
        for (size_t i = 0; i < count; i++) {
            sum[i] = TT_OWN(apply)(redop, sum[i], TT_LOAD(a[i]));
        }
        return 1;
    }
    const TT_ELEM *b = TT_OWN(source_at)(fold, index + 1);
    for (size_t i = 0; i < count; i++) {
        const TT_VALUE partial = TT_OWN(apply)(redop, sum[i], TT_LOAD(a[i]));
        sum[i] = TT_OWN(apply)(redop, partial, TT_LOAD(b[i]));
    }
    return 2;
}

TT_INLINE void TT_OWN(fold_many)(tt_redop redop, TT_ELEM *target, const tt_fold *fold)
{
    TT_VALUE sum[TT_REDUCE_BLOCK];
    for (size_t done = 0; done < fold->count; done += TT_REDUCE_BLOCK) {
        tt_fold part = *fold;
        part.start += done;
        part.count = fold->count - done;
        part.count = part.count < TT_REDUCE_BLOCK ? part.count : TT_REDUCE_BLOCK;

        const TT_ELEM *first = TT_OWN(source_at)(&part, 0);
        for (size_t i = 0; i < part.count; i++) {
            sum[i] = TT_LOAD(first[i]);
        }
        for (size_t k = 1; k < part.source_count;) {
            k += TT_OWN(fold_more)(redop, sum, &part, k);
        }
        for (size_t i = 0; i < part.count; i++) {
            target[done + i] = (TT_ELEM)TT_STORE(sum[i]);
        }
    }
}

TT_INLINE void TT_OWN(fold)(tt_redop redop, void *target, const tt_fold *fold)
{
    switch (fold->source_count) {
    case 2:
        TT_OWN(fold_two)(redop, target, fold);
        break;
    case 3:
        TT_OWN(fold_three)(redop, target, fold);
        break;
    case 4:
        TT_OWN(fold_four)(redop, target, fold);
        break;
    case 8:
        TT_OWN(fold_eight)(redop, target, fold);
        break;
    default:
        TT_OWN(fold_many)(redop, target, fold);
        break;
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

#undef TT_DEFINE
#undef TT_OWN
#undef TT_PASTE
#undef TT_PASTE_
#undef TT_NAME
#undef TT_ELEM
#undef TT_VALUE
#undef TT_LOAD
#undef TT_STORE
