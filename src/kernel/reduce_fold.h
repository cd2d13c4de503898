/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_fold.h - the fold loops of reduce_kernel.h for one element type.
 *
 * Expects TT_NAME, and by that name: `pack` (a vector as computed), `kept` (the same number of
 * elements as stored), widen and narrow between them, and apply. One step takes four packs of
 * every source, in order, through registers and stores them to every target, so each byte is
 * read once and written once; a step is complete before it is stored, so that targets may be
 * sources. The remainder goes through one zero-filled pack.
 *
 * Layer:   kernel, private to reduce_type.h and reduce_half.h. No include guard: a template.
 * Threads: pure.
 */
TT_INLINE void TT_OWN(fold_step)(tt_redop redop, const tt_fold *fold, size_t at,
                                 size_t source_count, size_t target_count)
{
    enum { LANES = sizeof(TT_OWN(pack)) / sizeof(((TT_OWN(pack) *)0)[0][0]) };
    const TT_OWN(kept_any) *first = (const void *)((const TT_ELEM *)fold->sources[0] + at);
    TT_OWN(pack) a = TT_OWN(widen)(first[0]), b = TT_OWN(widen)(first[1]);
    TT_OWN(pack) c = TT_OWN(widen)(first[2]), d = TT_OWN(widen)(first[3]);
    for (size_t k = 1; k < source_count; k++) {
        const TT_OWN(kept_any) *source = (const void *)((const TT_ELEM *)fold->sources[k] + at);
        a = TT_OWN(apply)(redop, a, TT_OWN(widen)(source[0]));
        b = TT_OWN(apply)(redop, b, TT_OWN(widen)(source[1]));
        c = TT_OWN(apply)(redop, c, TT_OWN(widen)(source[2]));
        d = TT_OWN(apply)(redop, d, TT_OWN(widen)(source[3]));
    }
    const TT_OWN(kept) w = TT_OWN(narrow)(a), x = TT_OWN(narrow)(b);
    const TT_OWN(kept) y = TT_OWN(narrow)(c), z = TT_OWN(narrow)(d);
    for (size_t t = 0; t < target_count; t++) {
        TT_OWN(kept_any) *target = (void *)((TT_ELEM *)fold->targets[t] + at);
        target[0] = w;
        target[1] = x;
        target[2] = y;
        target[3] = z;
    }
    _Static_assert(4 * LANES == TT_OWN(STEP), "a step is four packs");
}

/* Prefetch the sources of the step at `at` into the second-level cache. For reading: lines that
 * another core has written arrive more slowly if prefetched for writing (docs/performance.md). */
TT_INLINE void TT_OWN(fold_ahead)(const tt_fold *fold, size_t at, size_t source_count)
{
    for (size_t k = 0; k < source_count; k++) {
        if (k != fold->near) {
            const uint8_t *source = (const void *)((const TT_ELEM *)fold->sources[k] + at);
            for (size_t i = 0; i < TT_OWN(STEP) * sizeof(TT_ELEM); i += LINE_BYTES) {
                __builtin_prefetch(source + i, 0, 2);
            }
        }
    }
}

TT_INLINE void TT_OWN(fold_steps)(tt_redop redop, const tt_fold *fold, size_t source_count,
                                  size_t target_count)
{
    const size_t step = TT_OWN(STEP), ahead = AHEAD_BYTES / sizeof(TT_ELEM);
    size_t at = 0;
    while (fold->is_far && at + ahead + step <= fold->count) {
        TT_OWN(fold_ahead)(fold, at + ahead, source_count);
        TT_OWN(fold_step)(redop, fold, at, source_count, target_count);
        at += step;
    }
    for (; at + step <= fold->count; at += step) {
        TT_OWN(fold_step)(redop, fold, at, source_count, target_count);
    }
}

/* Copies of the pointers: the stores cannot change these, so that they stay in registers. */
TT_INLINE void TT_OWN(fold_two)(tt_redop redop, const tt_fold *fold, size_t target_count)
{
    const void *const sources[2] = {fold->sources[0], fold->sources[1]};
    void *const targets[2] = {fold->targets[0], fold->targets[target_count - 1]};
    const tt_fold two = {.targets = targets,
                         .sources = sources,
                         .count = fold->count,
                         .is_far = fold->is_far,
                         .near = fold->near};
    TT_OWN(fold_steps)(redop, &two, 2, target_count);
}

/* One pack or less. */
TT_INLINE void TT_OWN(fold_rest)(tt_redop redop, const tt_fold *fold, size_t at, size_t count)
{
    TT_OWN(kept) kept = {0};
    memcpy(&kept, (const TT_ELEM *)fold->sources[0] + at, count * sizeof(TT_ELEM));
    TT_OWN(pack) sum = TT_OWN(widen)(kept);
    for (size_t k = 1; k < fold->source_count; k++) {
        memcpy(&kept, (const TT_ELEM *)fold->sources[k] + at, count * sizeof(TT_ELEM));
        sum = TT_OWN(apply)(redop, sum, TT_OWN(widen)(kept));
    }
    kept = TT_OWN(narrow)(sum);
    for (size_t t = 0; t < fold->target_count; t++) {
        memcpy((TT_ELEM *)fold->targets[t] + at, &kept, count * sizeof(TT_ELEM));
    }
}

/* A single element, as in small calls: never through memory, where a short store followed by a long
 * load costs more than the sum. */
TT_INLINE void TT_OWN(fold_one)(tt_redop redop, const tt_fold *fold)
{
    TT_OWN(pack) sum = TT_OWN(widen)((TT_OWN(kept)){*(const TT_ELEM *)fold->sources[0]});
    for (size_t k = 1; k < fold->source_count; k++) {
        const TT_OWN(kept) kept = {*(const TT_ELEM *)fold->sources[k]};
        sum = TT_OWN(apply)(redop, sum, TT_OWN(widen)(kept));
    }
    const TT_OWN(kept) kept = TT_OWN(narrow)(sum);
    for (size_t t = 0; t < fold->target_count; t++) {
        *(TT_ELEM *)fold->targets[t] = kept[0];
    }
}

TT_INLINE void TT_OWN(fold)(tt_redop redop, const tt_fold *fold)
{
    /* Constant numbers of sources and targets let the compiler unroll the most frequent cases. */
    if (fold->source_count == 2 && fold->target_count == 1) {
        TT_OWN(fold_two)(redop, fold, 1);
    } else if (fold->source_count == 2 && fold->target_count == 2) {
        TT_OWN(fold_two)(redop, fold, 2);
    } else {
        TT_OWN(fold_steps)(redop, fold, fold->source_count, fold->target_count);
    }
    const size_t lanes = TT_OWN(STEP) / 4;
    for (size_t at = fold->count - fold->count % TT_OWN(STEP); at < fold->count; at += lanes) {
        const size_t left = fold->count - at;
        TT_OWN(fold_rest)(redop, fold, at, left < lanes ? left : lanes);
    }
}

TT_ARITHMETIC_MAP(TT_DEFINE_FOLD, TT_NAME)
