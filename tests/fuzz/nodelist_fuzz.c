/* SPDX-License-Identifier: Apache-2.0
 *
 * Any text as a node list: counting and indexing agree, every host fits, no loop is long.
 *
 * Labels: launch */
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "launch/nodelist.h"

enum { TEXT_BYTES = 512 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    char text[TEXT_BYTES];
    char host[TT_LAUNCH_HOST_BYTES];
    tt_launch_why why;
    uint32_t count = 0;
    uint32_t tasks;
    if (byte_count >= sizeof(text)) {
        return 0;
    }
    memcpy(text, bytes, byte_count);
    text[byte_count] = '\0';

    (void)tt_launch_tasks_on_node(text, (uint32_t)byte_count, &tasks, &why);
    if (tt_launch_nodelist_count(text, &count, &why) != TT_OK) {
        return 0;
    }
    TT_ASSERT(count >= 1);
    TT_ASSERT(count <= TT_LAUNCH_NODELIST_HOSTS_MAX);
    const uint32_t indices[] = {0, count / 2, count - 1};
    for (size_t i = 0; i < 3; i++) {
        /* Only a name that is too long may still be refused. */
        if (tt_launch_nodelist_host(text, indices[i], host, &why) == TT_OK) {
            TT_ASSERT(memchr(host, '\0', sizeof(host)) != NULL);
            TT_ASSERT(host[0] != '\0');
            TT_ASSERT(strpbrk(host, "[], ") == NULL);
        }
    }
    TT_ASSERT(tt_launch_nodelist_host(text, count, host, &why) == TT_ERR_BAD_CONFIG);
    return 0;
}
