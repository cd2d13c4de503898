/* SPDX-License-Identifier: Apache-2.0
 *
 * launcher_variables_fuzz.c - any environment: an accepted rank lies inside the job, and every text
 * that is kept or reported is terminated.
 *
 * Input: lines NAME=value.
 *
 * Labels: launch */
#include <string.h>

#include "base/assert.h"
#include "launch/family.h"

enum { TEXT_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* `context`: lines, each ended by NUL; after the last one an empty one. */
static const char *lookup(void *context, const char *variable)
{
    const size_t bytes = strlen(variable);
    for (const char *line = context; *line != 0; line += strlen(line) + 1) {
        if (strncmp(line, variable, bytes) == 0 && line[bytes] == '=') {
            return line + bytes + 1;
        }
    }
    return NULL;
}

static void check(const tt_launch_identity *identity)
{
    char text[TT_LAUNCH_DESCRIPTION_BYTES];
    TT_ASSERT(identity->size >= 1 && identity->size <= TT_LAUNCH_SIZE_MAX);
    TT_ASSERT(identity->rank < identity->size);
    TT_ASSERT(identity->ignored_count <= TT_LAUNCH_FAMILIES_MAX);
    TT_ASSERT(memchr(identity->job_id, 0, sizeof(identity->job_id)) != NULL);
    TT_ASSERT(identity->job_id[0] != 0);
    TT_ASSERT(memchr(identity->warning, 0, sizeof(identity->warning)) != NULL);
    TT_ASSERT(identity->size == 1 || identity->rendezvous.kind != TT_LAUNCH_RENDEZVOUS_NONE);
    tt_launch_describe(identity, text);
    TT_ASSERT(memchr(text, 0, sizeof(text)) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_BYTES + 2] = "";
    size_t count = 0;
    tt_launch_identity identity;
    tt_launch_why why = {0};
    for (size_t i = 0; i < size && count < TEXT_BYTES; i++) {
        const char byte = data[i] == '\n' ? 0 : (char)data[i];
        if (byte != 0 || (count > 0 && text[count - 1] != 0)) { /* no empty line */
            text[count++] = byte;
        }
    }
    const tt_launch_source source = {.lookup = lookup, .context = text, .command = "./train"};
    if (tt_launch_identify(&source, &identity, &why) == TT_OK) {
        check(&identity);
    } else {
        TT_ASSERT(why.text[0] != 0);
        TT_ASSERT(memchr(why.text, 0, sizeof(why.text)) != NULL);
    }
    return 0;
}
