/* SPDX-License-Identifier: Apache-2.0
 *
 * kept_list_fuzz.c - any bytes as the list of a saved store: refused with a reason, or the same
 * bytes again.
 *
 * Labels: sync */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/store/kept_file.h"
#include "base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    tt_kept_list list = {.tensor_count = 0}, again = {.tensor_count = 0};
    tt_text why = {0};
    if (tt_kept_list_decode(bytes, count, &list, &why) != TT_OK) {
        TT_ASSERT(why.length > 0 && list.tensors == NULL);
        return 0;
    }
    const size_t byte_count = tt_kept_list_bytes(&list);
    uint8_t *encoded = malloc(byte_count);
    TT_ASSERT(byte_count == count && encoded != NULL);
    tt_kept_list_encode(&list, encoded);
    TT_ASSERT(memcmp(encoded, bytes, count) == 0);
    TT_ASSERT(tt_kept_list_decode(encoded, byte_count, &again, &why) == TT_OK);
    for (uint32_t i = 0; i < list.tensor_count; i++) {
        TT_ASSERT(list.tensors[i].name[0] != '\0' &&
                  memchr(list.tensors[i].name, '\0', TT_SYNC_NAME_BYTES) != NULL);
    }
    tt_kept_list_release(&list);
    tt_kept_list_release(&again);
    free(encoded);
    return 0;
}
