/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster_file_fuzz.c - any bytes as the file of a cluster; an accepted one is read as it was
 * written, and ranks can be placed on it.
 *
 * The program's files are compiled in: fuzz targets link the library only.
 *
 * Labels: cli sim */
#include "base/assert.h"
#include "cli/cluster/cluster_file.c"
#include "cli/cluster/json_line.c"
#include "cli/file_text.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes);

enum { FABRIC_BYTES_MAX = 1 << 20 };

static void check_same(const tt_cluster *a, const tt_cluster *b)
{
    const tt_cluster_field *field;
    for (size_t i = 0; (field = tt_cluster_field_at(i)) != NULL; i++) {
        TT_ASSERT(tt_cluster_field_get(a, field) == tt_cluster_field_get(b, field));
    }
    TT_ASSERT(strcmp(a->name, b->name) == 0);
    TT_ASSERT(strcmp(a->summary, b->summary) == 0);
    TT_ASSERT(memcmp(a->sources, b->sources, sizeof(a->sources)) == 0);
}

static void check_round_trip(const tt_cluster *cluster)
{
    char *text = NULL;
    size_t bytes = 0;
    tt_text why = {.length = 0};
    tt_cluster read;
    FILE *stream = open_memstream(&text, &bytes);
    if (stream == NULL) {
        return;
    }
    TT_ASSERT(tt_cluster_write_json(cluster, stream));
    fclose(stream);
    const tt_cluster_text source = {.path = "again.json", .text = text, .bytes = bytes};
    TT_ASSERT(tt_cluster_read_json(&source, &why, &read) == TT_OK);
    check_same(cluster, &read);
    free(text);
}

static void check_place(const tt_cluster *cluster, uint32_t rank_count)
{
    const tt_fabric_ops *ops = tt_cluster_model(cluster);
    tt_text why = {.length = 0};
    tt_fabric_config config;
    tt_fabric *fabric;
    if (tt_cluster_place(cluster, rank_count, &why, &config) != TT_OK) {
        TT_ASSERT(why.length > 0);
    } else if (ops->bytes(&config) <= FABRIC_BYTES_MAX) {
        TT_ASSERT(tt_fabric_create(ops, &config, &tt_allocator_default, &why, &fabric) == TT_OK);
        ops->destroy(fabric);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes)
{
    const tt_cluster_text source = {
        .path = "fuzz.json", .text = (const char *)data, .bytes = data_bytes};
    tt_text why = {.length = 0};
    tt_cluster cluster;
    if (tt_cluster_read_json(&source, &why, &cluster) != TT_OK) {
        TT_ASSERT(why.length > 0);
        TT_ASSERT(strchr(why.bytes, '\n') == NULL);
        return 0;
    }
    TT_ASSERT(tt_cluster_check(&cluster, &why) == TT_OK);
    check_round_trip(&cluster);
    check_place(&cluster, 1);
    check_place(&cluster, 48);
    check_place(&cluster, TT_CLUSTER_RANKS_MAX);
    return 0;
}
