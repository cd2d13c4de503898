/* SPDX-License-Identifier: Apache-2.0
 *
 * validation_file_fuzz.c - any bytes as a file of rows: an error is one line with a place, and
 * accepted rows have all that they need.
 *
 * The program's files are compiled in: fuzz targets link the library only.
 *
 * Labels: cli sim */
#include "base/assert.h"
#include "cli/buffer.c"
#include "cli/cluster/json_line.c"
#include "cli/file_text.c"
#include "cli/option.c"
#include "cli/simulate/scenario_file.c"
#include "cli/simulate/validation_file.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes);

static void check_row(const tt_validation_row *row)
{
    TT_ASSERT(row->name[0] != '\0');
    TT_ASSERT(row->figure[0] != '\0');
    TT_ASSERT(row->source[0] != '\0');
    TT_ASSERT(row->assumption == NULL || strchr(row->assumption, '\n') == NULL);
    TT_ASSERT(json_is_object(row->scenario));
    TT_ASSERT(row->against == NULL || json_is_object(row->against));
    if (row->has_expected) {
        TT_ASSERT(fabs(row->expected) > 0);
        TT_ASSERT(row->tolerance_percent >= 0);
    } else {
        TT_ASSERT(isfinite(row->at_least) || isfinite(row->at_most));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes)
{
    tt_text why = {.length = 0};
    tt_validation validation;
    if (tt_validation_read("fuzz.json", (const char *)data, data_bytes, &why, &validation) !=
        TT_OK) {
        TT_ASSERT(strncmp(why.bytes, "fuzz.json:", 10) == 0);
        TT_ASSERT(strchr(why.bytes, '\n') == NULL);
        return 0;
    }
    TT_ASSERT(validation.row_count > 0);
    for (size_t i = 0; i < validation.row_count; i++) {
        check_row(&validation.rows[i]);
    }
    tt_validation_fini(&validation);
    return 0;
}
