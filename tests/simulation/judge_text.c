/* SPDX-License-Identifier: Apache-2.0
 *
 * judge_text.c - checks the error of a mismatch. The text lists ranks by their claims:
 *
 *   ranks disagree about ...: ranks 0, 2-4: <claim>; rank 1: <claim>; no claim from rank 5
 *
 * Two ranks that made the same call are listed together, and the one rank that made another is
 * listed separately. */
#include <stdlib.h>
#include <string.h>

#include "simulation/run_internal.h"

enum { CLAIMS_MAX = SCENARIO_SIZE_MAX };

/* Ranks listed with the same claim, as bits. */
typedef struct told {
    uint32_t claims[CLAIMS_MAX];
    uint32_t count;
} told;

bool judge_are_grouped(const scenario_call *a, const scenario_call *b)
{
    return a == b ||
           (a->group_size > 0 && b->group_size > 0 && a->set == b->set && a->step == b->step);
}

bool judge_is_late(const call_slot *slot)
{
    return strstr(slot->request.error, "an earlier call failed") != NULL;
}

/* ---- reading ---- */

/* The first `wanted` outside of quotes; NULL: none. */
static const char *find_plain(const char *text, char wanted)
{
    bool is_quoted = false;
    for (; *text != 0; text++) {
        is_quoted ^= *text == '"';
        if (*text == wanted && !is_quoted) {
            return text;
        }
    }
    return NULL;
}

/* Reads "rank 3", "ranks 0, 2-4". Returns the text behind it; NULL: there is no list. */
static const char *read_ranks(const char *text, uint32_t *bits_out)
{
    if (strncmp(text, "rank", 4) != 0) {
        return NULL;
    }
    text += text[4] == 's' ? 5 : 4;
    *bits_out = 0;
    do {
        char *end;
        const unsigned long first = strtoul(text + (*text == ',' ? 1 : 0), &end, 10);
        unsigned long last = first;
        if (end == text) {
            return NULL;
        }
        text = end;
        if (*text == '-') {
            last = strtoul(text + 1, &end, 10);
            text = end;
        }
        for (unsigned long rank = first; rank <= last && rank < 32; rank++) {
            *bits_out |= UINT32_C(1) << rank;
        }
    } while (*text == ',');
    return text;
}

static told told_read(const char *text)
{
    told result = {0};
    const char *at = find_plain(text, ':');
    while (at != NULL && result.count < CLAIMS_MAX) {
        uint32_t ranks;
        at += strspn(at, ":; ");
        at = read_ranks(at, &ranks);
        if (at == NULL || *at != ':') { /* cut off, or "no claim from", or another text */
            break;
        }
        result.claims[result.count++] = ranks;
        at = find_plain(at, ';');
    }
    return result;
}

/* ---- truth ---- */

/* Ranks whose call, or another that may have failed with it, was not as drawn; of these: the ranks
 * with another claim. */
static uint32_t culprits_of(const scenario *what, const scenario_call *call, bool *differ_out)
{
    uint32_t culprits = 0;
    *differ_out = false;
    for (uint32_t i = 0; i < what->call_count; i++) {
        const scenario_call *other = &what->calls[i];
        const bool is_near =
            judge_are_grouped(call, other) || (what->control.groups > 0 && other->set == call->set);
        if (is_near && other->flaw != FLAW_NONE) {
            culprits |= UINT32_C(1) << what->members[other->set][other->culprit];
            *differ_out = *differ_out || other->flaw != FLAW_CANCEL;
        }
    }
    return culprits;
}

void judge_text(simulation *run, const call_slot *slot)
{
    if (slot->request.status != TT_ERR_MISMATCH || judge_is_late(slot) || slot->is_join ||
        slot->call->one.collective == TT_SEND) {
        return;
    }
    bool is_different;
    const uint32_t culprits = culprits_of(run->what, slot->call, &is_different);
    const bool is_one = (culprits & (culprits - 1)) == 0;
    const told all = told_read(slot->request.error);
    uint32_t honest_claims = 0;
    for (uint32_t i = 0; i < all.count; i++) {
        const uint32_t honest = all.claims[i] & ~culprits;
        honest_claims += honest != 0;
        if (honest != 0 && is_one && (all.claims[i] & culprits) != 0) {
            run_fault(run, "call %u of rank %u lists the culprit among the others: %s",
                      slot->call_index, slot->rank, slot->request.error);
        }
    }
    if (honest_claims > 1 || !is_different) {
        run_fault(run, "call %u of rank %u separates ranks that agree: %s", slot->call_index,
                  slot->rank, slot->request.error);
    }
}
