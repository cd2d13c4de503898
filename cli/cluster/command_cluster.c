/* SPDX-License-Identifier: Apache-2.0
 *
 * command_cluster.c - `tutti cluster`: the clusters that are known, and files of others. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cli/cluster/cluster_file.h"
#include "cli/commands.h"

enum { EXIT_USAGE = 2, HELP_COLUMN = 28, HELP_WIDTH = 100 };

typedef struct cluster_values {
    bool lists;
    bool lists_fields;
    const char *shown;
    const char *checked;
    int64_t rank_count; /* 0: not given */
    const char *output;
} cluster_values;

#define AT(member) offsetof(cluster_values, member)

static const tt_option options[] = {
    {'\0', "list", TT_OPTION_FLAG, AT(lists), NULL, "list the known clusters", NULL, NULL, NULL, 0,
     0},
    {'\0', "fields", TT_OPTION_FLAG, AT(lists_fields), NULL,
     "list groups and fields of a cluster: what they mean, what is accepted, defaults", NULL, NULL,
     NULL, 0, 0},
    {'\0', "show", TT_OPTION_STRING, AT(shown), "NAME",
     "print a known cluster, or that of a file, as a complete file", NULL, NULL, NULL, 0, 0},
    {'\0', "check", TT_OPTION_STRING, AT(checked), "FILE",
     "read a file, say what is wrong with it, and what it describes", NULL, NULL, NULL, 0, 0},
    {'n', "ranks", TT_OPTION_INT, AT(rank_count), "N", "with --check: so many ranks must fit", NULL,
     NULL, NULL, 1, TT_CLUSTER_RANKS_MAX},
    {'o', "output", TT_OPTION_STRING, AT(output), "FILE", "write to a file; with --show", NULL,
     NULL, NULL, 0, 0},
};

static int complain(const char *sentence)
{
    fprintf(stderr, "tutti cluster: %s\n", sentence);
    return 1;
}

static int usage(const char *sentence)
{
    (void)complain(sentence);
    return EXIT_USAGE;
}

/* ---- lists -------------------------------------------------------------------------------------
 */

static void print_hosts(const tt_cluster *cluster)
{
    if (cluster->host_count == 0) {
        printf("hosts");
    } else {
        printf("%" PRIu32 " host%s", cluster->host_count, cluster->host_count == 1 ? "" : "s");
    }
    printf(" of %" PRIu32 " rank%s", cluster->ranks_per_host,
           cluster->ranks_per_host == 1 ? "" : "s");
    if (cluster->host_count != 1) {
        printf(", %" PRIu32 " card%s of %g GB/s each", cluster->cards_per_host,
               cluster->cards_per_host == 1 ? "" : "s", cluster->network.bandwidth_gbs);
    }
}

static int print_list(void)
{
    const tt_cluster *cluster;
    for (size_t i = 0; (cluster = tt_cluster_preset_at(i)) != NULL; i++) {
        printf("%-15s%s\n%-15s", cluster->name, cluster->summary, "");
        print_hosts(cluster);
        printf("\n");
    }
    return 0;
}

static void print_field(const tt_cluster_field *field)
{
    tt_cluster plain;
    tt_text text = {.length = 0};
    tt_cluster_init(&plain);
    const int used = printf("  %s ", field->name);
    printf("%*s", used < HELP_COLUMN ? HELP_COLUMN - used : 0, "");
    tt_text_add(&text, "%s: ", field->help);
    tt_cluster_field_describe(field, &text);
    tt_text_add(&text, "; default ");
    tt_cluster_field_print(&plain, field, &text);
    tt_option_print_wrapped(text.bytes, used < HELP_COLUMN ? HELP_COLUMN : used, HELP_COLUMN,
                            HELP_WIDTH, stdout);
}

static int print_fields(void)
{
    const tt_cluster_field *field;
    int group = -1;
    for (size_t i = 0; (field = tt_cluster_field_at(i)) != NULL; i++) {
        if ((int)field->group != group) {
            group = (int)field->group;
            printf("%s: %s\n", tt_cluster_group_name(field->group),
                   tt_cluster_group_help(field->group));
        }
        print_field(field);
    }
    return 0;
}

/* ---- files -------------------------------------------------------------------------------------
 */

static int show(const cluster_values *values)
{
    tt_text why = {.length = 0};
    tt_cluster cluster;
    if (tt_cluster_load(values->shown, &why, &cluster) != TT_OK) {
        return complain(why.bytes);
    }
    FILE *stream = values->output != NULL ? fopen(values->output, "we") : stdout;
    bool is_written = stream != NULL && tt_cluster_write_json(&cluster, stream);
    if (stream != NULL && stream != stdout) {
        is_written = fclose(stream) == 0 && is_written;
    }
    if (!is_written) {
        fprintf(stderr, "tutti cluster: cannot write %s: %s\n",
                values->output != NULL ? values->output : "the cluster", strerror(errno));
        return 1;
    }
    return 0;
}

static int check(const cluster_values *values)
{
    tt_text why = {.length = 0};
    tt_cluster cluster;
    tt_fabric_config config;
    if (tt_cluster_load(values->checked, &why, &cluster) != TT_OK ||
        (values->rank_count > 0 &&
         tt_cluster_place(&cluster, (uint32_t)values->rank_count, &why, &config) != TT_OK)) {
        return complain(why.bytes);
    }
    printf("%s: ", cluster.name);
    print_hosts(&cluster);
    printf("; model: %s\n", tt_cluster_model(&cluster)->name);
    return 0;
}

/* ---- the command -------------------------------------------------------------------------------
 */

static int run(const void *raw_values, int operand_count, char **operands)
{
    const cluster_values *values = raw_values;
    const int asked =
        values->lists + values->lists_fields + (values->shown != NULL) + (values->checked != NULL);
    (void)operand_count;
    (void)operands;
    if (asked != 1) {
        return usage(asked == 0
                         ? "nothing to do; give --list, --fields, --show NAME or --check FILE"
                         : "--list, --fields, --show and --check exclude each other; give one");
    }
    if (values->rank_count > 0 && values->checked == NULL) {
        return usage("--ranks has no effect without --check; leave it out");
    }
    if (values->output != NULL && values->shown == NULL) {
        return usage("--output has no effect without --show; leave it out");
    }
    if (values->lists) {
        return print_list();
    }
    if (values->lists_fields) {
        return print_fields();
    }
    return values->shown != NULL ? show(values) : check(values);
}

static const tt_command_note exit_status[] = {
    {"0", "Shown, or the file describes a cluster on which the ranks fit."},
    {"1", "The file cannot be read, or describes none; the error names file and line."},
    {"2", "Wrong usage."},
    {NULL, NULL},
};

static const tt_command_note examples[] = {
    {"tutti cluster --list", "Known clusters:"},
    {"tutti cluster --show ethernet-25g -o mine.json", "A file to change:"},
    {"tutti cluster --check mine.json --ranks 64", "Whether it is right, and 64 ranks fit:"},
    {NULL, NULL},
};

const tt_command tt_command_cluster = {
    .name = "cluster",
    .summary = "Show and check descriptions of clusters, on which training can be modelled.",
    .operands = "",
    .description =
        "A cluster is described by a file in JSON: groups of fields, each field with its unit in "
        "its name, and for a group an optional \"source\": measured, published or assumed. What a "
        "file leaves out is that of its \"base\", a known cluster, or the default. --fields lists "
        "all groups and fields; --show prints a file to begin with.\n\n"
        "Consecutive ranks are on one host. A frame takes the overhead of the processor at both "
        "ends, the latency of the way, and its bytes over the bandwidth of the slowest link; each "
        "card and link carries one frame after the other.",
    .options = options,
    .option_count = TT_ARRAY_COUNT(options),
    .values_bytes = sizeof(cluster_values),
    .exit_status = exit_status,
    .examples = examples,
    .run = run,
};
