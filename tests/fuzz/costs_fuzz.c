/* SPDX-License-Identifier: Apache-2.0
 *
 * costs_fuzz.c - any bytes as a table of costs: refused with a reason, or the same table again
 * after a round trip.
 *
 * Labels: tune */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "tune/tune.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static tt_costs costs;
    static tt_costs again;
    static char text[TT_COSTS_TEXT_BYTES_MAX];
    tt_text why = {0};
    if (tt_costs_parse((const char *)bytes, count, &costs, &why) != TT_OK) {
        TT_ASSERT(why.length > 0);
        TT_ASSERT(costs.line_count == 0);
        return 0;
    }
    const size_t text_bytes = tt_costs_format(&costs, text);
    TT_ASSERT(tt_costs_parse(text, text_bytes, &again, &why) == TT_OK);
    TT_ASSERT(again.line_count == costs.line_count);
    for (uint32_t i = 0; i < costs.line_count; i++) {
        uint64_t time_ns;
        TT_ASSERT(memcmp(&again.lines[i], &costs.lines[i], sizeof(costs.lines[i])) == 0);
        TT_ASSERT(tt_costs_time(&costs, &costs.lines[i].key, costs.lines[i].bytes_max, &time_ns));
    }
    return 0;
}
