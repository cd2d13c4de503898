/* SPDX-License-Identifier: Apache-2.0
 *
 * Any text as a rendezvous: an accepted address is in range and is written back to the same value.
 *
 * Labels: launch */
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "launch/rendezvous.h"

enum { TEXT_BYTES = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    char text[TEXT_BYTES];
    char host[TT_LAUNCH_HOST_BYTES];
    char formatted[TT_LAUNCH_RENDEZVOUS_TEXT_BYTES];
    tt_launch_rendezvous first;
    tt_launch_rendezvous second;
    tt_launch_why why;
    if (byte_count >= sizeof(text)) {
        return 0;
    }
    memcpy(text, bytes, byte_count);
    text[byte_count] = '\0';

    (void)tt_launch_host_parse(text, byte_count, host, &why);
    if (tt_launch_rendezvous_parse(text, &first, &why) != TT_OK) {
        TT_ASSERT(memchr(why.text, '\0', sizeof(why.text)) != NULL);
        return 0;
    }
    if (first.kind == TT_LAUNCH_RENDEZVOUS_TCP) {
        TT_ASSERT(first.port_first >= 1);
        TT_ASSERT(first.port_count >= 1);
        TT_ASSERT(first.port_first + first.port_count <= TT_LAUNCH_PORT_MAX + 1);
        TT_ASSERT(first.host[0] != '\0');
    }
    tt_launch_rendezvous_format(&first, formatted);
    TT_ASSERT(tt_launch_rendezvous_parse(formatted, &second, &why) == TT_OK);
    TT_ASSERT(first.kind == second.kind);
    TT_ASSERT(first.port_first == second.port_first);
    TT_ASSERT(first.port_count == second.port_count);
    TT_ASSERT(strcmp(first.host, second.host) == 0);
    TT_ASSERT(strcmp(first.path, second.path) == 0);
    return 0;
}
