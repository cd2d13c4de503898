/* SPDX-License-Identifier: Apache-2.0
 *
 * Any text as TF_CONFIG: an accepted rank is below the size, rank 0's address is terminated.
 *
 * Labels: launch */
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "launch/tf_config.h"

enum { TEXT_BYTES = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    char text[TEXT_BYTES];
    tt_launch_tf_config config;
    tt_launch_why why;
    if (byte_count >= sizeof(text)) {
        return 0;
    }
    memcpy(text, bytes, byte_count);
    text[byte_count] = '\0';
    if (tt_launch_tf_config_parse(text, &config, &why) == TT_OK) {
        TT_ASSERT(memchr(config.first, '\0', sizeof(config.first)) != NULL);
        TT_ASSERT(!config.is_rank || config.rank < config.size);
    }
    return 0;
}
