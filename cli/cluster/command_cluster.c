/* SPDX-License-Identifier: Apache-2.0
 *
 * command_cluster.c - `tutti cluster`: the clusters that are known, and files of others. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cli/cluster/cluster_file.h"
#include "cli/cluster/cluster_fit.h"
#include "cli/cluster/fit_report.h"
#include "cli/commands.h"

enum { EXIT_USAGE = 2, HELP_COLUMN = 28, HELP_WIDTH = 100, FILES_MAX = 256 };

typedef struct cluster_values {
    bool lists;
    bool lists_fields;
    const char *shown;
    const char *checked;
    tt_option_list fitted;
    const char *base;
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
    {'\0', "fit", TT_OPTION_LIST, AT(fitted), "FILE...",
     "fit the numbers of a cluster to what tutti bench --json measured, in jobs of one or several "
     "sizes; say how well each line of measurements is modelled",
     NULL, NULL, NULL, 0, 0},
    {'\0', "base", TT_OPTION_STRING, AT(base), "NAME",
     "with --fit: the cluster, known or of a file, whose other numbers are kept; default: one of "
     "the hosts that were measured",
     NULL, NULL, NULL, 0, 0},
    {'n', "ranks", TT_OPTION_INT, AT(rank_count), "N", "with --check: so many ranks must fit", NULL,
     NULL, NULL, 1, TT_CLUSTER_RANKS_MAX},
    {'o', "output", TT_OPTION_STRING, AT(output), "FILE", "with --show or --fit: the file to write",
     NULL, NULL, NULL, 0, 0},
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

static int cluster_write(const tt_cluster *cluster, const char *path)
{
    FILE *stream = path != NULL ? fopen(path, "we") : stdout;
    bool is_written = stream != NULL && tt_cluster_write_json(cluster, stream);
    if (stream != NULL && stream != stdout) {
        is_written = fclose(stream) == 0 && is_written;
    }
    if (!is_written) {
        fprintf(stderr, "tutti cluster: cannot write %s: %s\n", path != NULL ? path : "the cluster",
                strerror(errno));
        return 1;
    }
    return 0;
}

static int show(const cluster_values *values)
{
    tt_text why = {.length = 0};
    tt_cluster cluster;
    if (tt_cluster_load(values->shown, &why, &cluster) != TT_OK) {
        return complain(why.bytes);
    }
    return cluster_write(&cluster, values->output);
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

/* ---- fit ---------------------------------------------------------------------------------------
 */

static tt_status rows_load(const cluster_values *values, char **operands, tt_bench_rows *rows,
                           tt_text *why)
{
    for (size_t i = 0; i < values->fitted.count; i++) {
        TT_TRY(tt_bench_rows_load(rows, values->fitted.items[i], why));
    }
    for (size_t i = 0; operands[i] != NULL; i++) {
        TT_TRY(tt_bench_rows_load(rows, operands[i], why));
    }
    return TT_OK;
}

static tt_status base_find(const cluster_values *values, const tt_bench_rows *rows, tt_text *why,
                           tt_cluster *cluster_out)
{
    if (values->base != NULL) {
        return tt_cluster_load(values->base, why, cluster_out);
    }
    tt_cluster_init(cluster_out);
    tt_cluster_fit_hosts(rows, cluster_out);
    return TT_OK;
}

static int fit_rows(const cluster_values *values, const tt_bench_rows *rows)
{
    tt_text why = {.length = 0};
    tt_cluster base;
    tt_fit fit;
    if (base_find(values, rows, &why, &base) != TT_OK) {
        return complain(why.bytes);
    }
    tt_cluster_name_from_path(values->output, &base);
    (void)snprintf(base.summary, sizeof(base.summary), "fitted to %zu measured calls", rows->count);
    if (tt_cluster_fit(&base, rows, &why, &fit) != TT_OK) {
        fprintf(stderr, "tutti cluster: %s; or measure sendrecv there, or give --base NAME\n",
                why.bytes);
        return 1;
    }
    tt_fit_print(&fit, stdout);
    return cluster_write(&fit.cluster, values->output);
}

static int run_fit(const cluster_values *values, char **operands)
{
    tt_text why = {.length = 0};
    tt_bench_rows rows;
    int code;
    tt_bench_rows_init(&rows);
    if (rows_load(values, operands, &rows, &why) != TT_OK) {
        code = complain(why.bytes);
    } else {
        code = fit_rows(values, &rows);
    }
    tt_bench_rows_fini(&rows);
    return code;
}

/* ---- the command -------------------------------------------------------------------------------
 */

/* Options without effect are refused. */
static const char *contradiction(const cluster_values *values, int operand_count)
{
    const bool fits = values->fitted.count > 0;
    const int asked = values->lists + values->lists_fields + (values->shown != NULL) +
                      (values->checked != NULL) + fits;
    if (asked != 1) {
        return asked == 0
                   ? "nothing to do; give --list, --fields, --show NAME, --check FILE or --fit FILE"
                   : "--list, --fields, --show, --check and --fit exclude each other; give one";
    }
    if (values->rank_count > 0 && values->checked == NULL) {
        return "--ranks has no effect without --check; leave it out";
    }
    if (values->base != NULL && !fits) {
        return "--base has no effect without --fit; leave it out";
    }
    if (operand_count > 0 && !fits) {
        return "files have no effect without --fit; leave them out";
    }
    if (fits && values->output == NULL) {
        return "--fit needs --output FILE, where the cluster is written";
    }
    if (values->output != NULL && !fits && values->shown == NULL) {
        return "--output has no effect without --show or --fit; leave it out";
    }
    return NULL;
}

static int run(const void *raw_values, int operand_count, char **operands)
{
    const cluster_values *values = raw_values;
    const char *wrong = contradiction(values, operand_count);
    if (wrong != NULL) {
        return usage(wrong);
    }
    if (values->lists) {
        return print_list();
    }
    if (values->lists_fields) {
        return print_fields();
    }
    if (values->fitted.count > 0) {
        return run_fit(values, operands);
    }
    return values->shown != NULL ? show(values) : check(values);
}

static const tt_command_note exit_status[] = {
    {"0", "Shown or fitted, or the file describes a cluster on which the ranks fit."},
    {"1", "A file cannot be read, or is none of a cluster or a measurement; the error names file "
          "and line."},
    {"2", "Wrong usage."},
    {NULL, NULL},
};

static const tt_command_note examples[] = {
    {"tutti cluster --list", "Known clusters:"},
    {"tutti cluster --show ethernet-25g -o mine.json", "A file to change:"},
    {"tutti cluster --check mine.json --ranks 64", "Whether it is right, and 64 ranks fit:"},
    {"tutti cluster --fit pairs.json sums.json -o mine.json",
     "A cluster fitted to what tutti bench sendrecv and tutti bench allreduce measured here "
     "(--json):"},
    {NULL, NULL},
};

const tt_command tt_command_cluster = {
    .name = "cluster",
    .summary = "Show, check and fit descriptions of clusters, on which training can be modelled.",
    .operands = "[FILE...]",
    .operand_max = FILES_MAX,
    .description =
        "A cluster is described by a file in JSON: groups of fields, each field with its unit in "
        "its name, and for a group an optional \"source\": measured, published or assumed. What a "
        "file leaves out is that of its \"base\", a known cluster, or the default. --fields lists "
        "all groups and fields; --show prints a file to begin with.\n\n"
        "Consecutive ranks are on one host. A frame takes the overhead of the processor at both "
        "ends, the latency of the way, and its bytes over the bandwidth of the slowest link; each "
        "card and link carries one frame after the other.\n\n"
        "--fit takes bandwidth and latency from sendrecv, between ranks of a host or between hosts "
        "(ranks of one host with --transport tcp count as hosts), and latency also from short "
        "allreduce and barrier of two ranks; the processor's overhead from those of three ranks or "
        "more; the rates of sums and copies from allreduce and broadcast of 64 KiB and more by the "
        "smallest job on one host; the limit of its memory from larger jobs. Numbers that the "
        "files do not determine are those of the base, and the report names them. Errors are those "
        "of modelled times against measured ones.",
    .options = options,
    .option_count = TT_ARRAY_COUNT(options),
    .values_bytes = sizeof(cluster_values),
    .exit_status = exit_status,
    .examples = examples,
    .run = run,
};
