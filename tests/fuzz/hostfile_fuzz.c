/* SPDX-License-Identifier: Apache-2.0
 *
 * hostfile_fuzz.c - both host notations over any text; accepted names must be harmless.
 *
 * The program's files are compiled in: fuzz targets link the library only.
 *
 * Labels: cli */
#include "cli/buffer.c"
#include "cli/run/hostfile.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes);

static void check(tt_hosts *hosts, tt_status status, const char *error)
{
    TT_ASSERT(status == TT_OK || error[0] != '\0');
    for (size_t i = 0; i < hosts->count; i++) {
        const tt_host *host = &hosts->items[i];
        TT_ASSERT(host->slots >= 1);
        TT_ASSERT(host->slots <= TT_HOST_SLOTS_MAX);
        TT_ASSERT(host->name[0] != '\0');
        TT_ASSERT(host->name[0] != '-'); /* would be an option of the remote shell */
        TT_ASSERT(strpbrk(host->name, " ;|&$`'\"\n") == NULL);
    }
    tt_hosts_fini(hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes)
{
    char *text = tt_cli_allocate(data_bytes + 1, 1);
    if (data_bytes > 0) {
        memcpy(text, data, data_bytes);
    }
    char error[256] = "";
    tt_hosts hosts = {0};
    check(&hosts, tt_hosts_parse_file(&hosts, "file", text, error, sizeof(error)), error);
    error[0] = '\0';
    hosts = (tt_hosts){.slots_default = 2};
    check(&hosts, tt_hosts_parse_list(&hosts, text, error, sizeof(error)), error);
    free(text);
    return 0;
}
