/* SPDX-License-Identifier: Apache-2.0
 *
 * coded_fuzz.h - coded calls for machines under attack: whatever arrives, a call that fails leaves
 * the residuals of its tensor as they were.
 *
 * A rank has one call of each tensor in flight. A joined rank may replace the residual of the sums
 * that it owns meanwhile, so that only the residual of its values is compared.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_FUZZ_CODED_FUZZ_H
#define TUTTI_TESTS_FUZZ_CODED_FUZZ_H

#include <stdint.h>
#include <string.h>

#include "aggregate/scheme.h"
#include "base/assert.h"
#include "base/base.h"
#include "control/control_internal.h"
#include "kernel/hash64.h"

enum { CODED_FUZZ_SCHEMES = 8, CODED_FUZZ_TENSORS = 8 };

/* Of one rank; as long as its control. */
typedef struct coded_fuzz {
    tt_scheme schemes[CODED_FUZZ_SCHEMES];
    bool is_busy[CODED_FUZZ_TENSORS];
} coded_fuzz;

typedef struct coded_fuzz_call {
    coded_fuzz *rank; /* NULL: not coded */
    const tt_control *control;
    uint32_t tensor;
    uint64_t before; /* hash of the residual */
} coded_fuzz_call;

static inline void coded_fuzz_init(coded_fuzz *rank)
{
    static const char *const words[CODED_FUZZ_SCHEMES] = {
        "int8:where=all,block=16",
        "int4:where=all,block=16",
        "sign:where=all,block=32",
        "qsgd:where=all,block=16,ef=on",
        "onebit:where=all,block=16",
        "e4m3:where=all,block=16,ef=off",
        "bf16:where=all",
        "none@0,int8:where=all,block=16@1",
    };
    for (uint32_t i = 0; i < CODED_FUZZ_SCHEMES; i++) {
        tt_rule_choice choice;
        tt_text why = {0};
        const tt_status status = tt_rule_choice_parse(words[i], &choice, &why);
        TT_ASSERT(status == TT_OK);
        tt_scheme_make(&rank->schemes[i], &choice);
    }
}

/* 0: there is none, or zeros, which may have been made and dropped. */
static inline uint64_t coded_fuzz_hash(const coded_fuzz_call *call, const tt_request *request)
{
    const tt_feedback *own =
        tt_feedback_find(call->control, request->set, request->name, request->key);
    bool is_zero = true;
    for (uint64_t i = 0; own != NULL && i < own->input.count && is_zero; i++) {
        is_zero = tt_kept_now(&own->input)[i] == 0.0f;
    }
    return is_zero ? 0
                   : tt_hash64(tt_kept_now(&own->input), own->input.count * sizeof(float), 1) | 1;
}

/* Completes the request: codec, length and key. False: its tensor is in flight. */
static inline bool coded_fuzz_begin(coded_fuzz *rank, tt_control *control, uint32_t choice,
                                    coded_fuzz_call *call, tt_request *request)
{
    static const uint64_t counts[] = {48, 0, 5, 48, 60, 16, 33, 48};
    const tt_scheme *scheme = &rank->schemes[choice % CODED_FUZZ_SCHEMES];
    const uint32_t tensor =
        request->name != NULL ? (uint32_t)(request->name[0] - 'p') : 4 + (choice >> 3 & 3);
    if (rank->is_busy[tensor]) {
        return false;
    }
    rank->is_busy[tensor] = true;
    request->program = &scheme->phases[0].program;
    request->count = counts[choice >> 3 & 7];
    request->key = request->name != NULL ? 0 : tensor;
    *call = (coded_fuzz_call){.rank = rank, .control = control, .tensor = tensor};
    call->before = coded_fuzz_hash(call, request);
    return true;
}

static inline void coded_fuzz_end(coded_fuzz_call *call, const tt_request *request)
{
    if (call->rank != NULL) {
        call->rank->is_busy[call->tensor] = false;
        TT_ASSERT(request->status == TT_OK || coded_fuzz_hash(call, request) == call->before);
    }
}

#endif
