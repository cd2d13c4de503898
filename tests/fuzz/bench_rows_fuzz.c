/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_rows_fuzz.c - any bytes as a file of measured calls; accepted ones are calls that were
 * possible.
 *
 * The program's files are compiled in: fuzz targets link the library only.
 *
 * Labels: cli sim */
#include "base/assert.h"
#include "cli/cluster/bench_rows.c"
#include "cli/file_text.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes)
{
    tt_text why = {.length = 0};
    tt_bench_rows rows;
    char *text = malloc(data_bytes + 1);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data, data_bytes);
    text[data_bytes] = '\0';
    tt_bench_rows_init(&rows);
    if (tt_bench_rows_read(&rows, "fuzz.json", text, &why) != TT_OK) {
        TT_ASSERT(why.length > 0);
        TT_ASSERT(strchr(why.bytes, '\n') == NULL);
    } else {
        TT_ASSERT(rows.count > 0);
    }
    for (size_t i = 0; i < rows.count; i++) {
        const tt_bench_row *row = &rows.rows[i];
        TT_ASSERT(row->ranks >= 2 && row->ranks <= TT_BENCH_RANKS_MAX);
        TT_ASSERT(row->hosts >= 1 && row->hosts <= row->ranks);
        TT_ASSERT(row->time_us > 0);
        TT_ASSERT(strlen(row->algorithm) < sizeof(row->algorithm));
    }
    tt_bench_rows_fini(&rows);
    free(text);
    return 0;
}
