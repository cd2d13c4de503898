/* SPDX-License-Identifier: Apache-2.0
 *
 * coordinate.c - see coordinate.h. */
#include "cli/simulate/coordinate.h"

#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "base/config.h"
#include "base/nearest.h"
#include "cli/cluster/cluster_file.h"
#include "cli/option.h"

enum { SHOWN_BYTES = 60 };

tt_status tt_coordinate_strategy(const char *name, tt_text *why, const tt_strategy **strategy_out)
{
    const tt_strategy *strategy = tt_strategy_find(name);
    if (strategy == NULL) {
        tt_nearest nearest;
        tt_nearest_init(&nearest, "", name);
        for (size_t i = 0; tt_strategy_at(i) != NULL; i++) {
            tt_nearest_offer(&nearest, tt_strategy_at(i)->name);
        }
        tt_text_add(why, "unknown strategy ");
        tt_text_add_quoted(why, name, SHOWN_BYTES);
        tt_text_add(why, "%s%s; --list shows them",
                    nearest.best[0] != '\0' ? "; did you mean " : "", nearest.best);
        return TT_ERR_BAD_ARGUMENT;
    }
    *strategy_out = strategy;
    return TT_OK;
}

static tt_status set_bytes(const char *text, uint64_t *bytes_out, tt_text *why)
{
    if (tt_option_parse_bytes(text, bytes_out) != TT_OK) {
        tt_text_add_quoted(why, text, SHOWN_BYTES);
        tt_text_add(why, " is no size; give bytes, or a number with K, M or G");
        return TT_ERR_BAD_ARGUMENT;
    }
    return TT_OK;
}

static tt_status set_count(const char *text, uint64_t most, uint64_t *count_out, tt_text *why)
{
    int64_t value;
    if (!tt_config_parse_int(text, &value) || value < 0 || (uint64_t)value > most) {
        tt_text_add_quoted(why, text, SHOWN_BYTES);
        tt_text_add(why, " is no number from 0 to %" PRIu64, most);
        return TT_ERR_BAD_ARGUMENT;
    }
    *count_out = (uint64_t)value;
    return TT_OK;
}

static tt_status set_number32(const char *text, uint32_t *count_out, tt_text *why)
{
    uint64_t number = 0;
    TT_TRY(set_count(text, TT_CLUSTER_RANKS_MAX, &number, why));
    *count_out = (uint32_t)number;
    return TT_OK;
}

static tt_status set_cycle(const char *text, double *cycle_us_out, tt_text *why)
{
    double value;
    if (!tt_config_parse_real(text, &value) || !(value > 0 && value <= 1e6)) {
        tt_text_add_quoted(why, text, SHOWN_BYTES);
        tt_text_add(why, " is no time; give milliseconds above 0");
        return TT_ERR_BAD_ARGUMENT;
    }
    *cycle_us_out = 1000 * value;
    return TT_OK;
}

/* The place of a word among `count` names. */
static tt_status set_word(const char *text, const char *const *names, int count, tt_text *why,
                          int *place_out)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *place_out = i;
            return TT_OK;
        }
    }
    tt_text_add_quoted(why, text, SHOWN_BYTES);
    tt_text_add(why, " is none of");
    for (int i = 0; i < count; i++) {
        tt_text_add(why, "%s %s", i > 0 ? "," : "", names[i]);
    }
    return TT_ERR_BAD_ARGUMENT;
}

static tt_status set_mode(tt_job *job, const char *name, const char *text, tt_text *why)
{
    const char *names[TT_ENGINES];
    const bool is_engine = strcmp(name, "engine") == 0, is_depth = strcmp(name, "depth") == 0;
    const int count = is_engine ? TT_ENGINE_SERVERS : is_depth ? TT_DEPTHS : TT_AGREE_MODES;
    int place = 0;
    for (int i = 0; i < count; i++) {
        names[i] = is_engine  ? tt_engine_name((tt_engine)i)
                   : is_depth ? tt_depth_name((tt_depth)i)
                              : tt_agree_mode_name((tt_agree_mode)i);
    }
    TT_TRY(set_word(text, names, count, why, &place));
    if (is_engine) {
        job->engine = (tt_engine)place;
    } else if (is_depth) {
        job->depth = (tt_depth)place;
    } else {
        job->settings.control = (tt_agree_mode)place;
    }
    return TT_OK;
}

static tt_status set_field(tt_cluster *cluster, const char *name, const char *value, tt_text *why)
{
    const tt_cluster_field *field = tt_cluster_field_find(name);
    if (field == NULL) {
        tt_text_add_quoted(why, name, SHOWN_BYTES);
        tt_text_add(why, " cannot be swept; give ranks, strategy, cluster, chunk, credit, "
                         "fuse, groups, cycle, control, servers, engine, depth, algorithm, "
                         "seed, or a field of clusters: ");
        tt_cluster_field_suggest(name, why);
        return TT_ERR_BAD_ARGUMENT;
    }
    return tt_cluster_field_parse(cluster, field, value, why);
}

tt_status tt_coordinate_set(tt_job *job, tt_cluster *cluster, const char *name, const char *value,
                            tt_text *why)
{
    if (strcmp(name, "strategy") == 0) {
        return tt_coordinate_strategy(value, why, &job->strategy);
    } else if (strcmp(name, "cluster") == 0) {
        return tt_cluster_load(value, why, cluster);
    } else if (strcmp(name, "chunk") == 0) {
        return set_bytes(value, &job->settings.chunk_bytes, why);
    } else if (strcmp(name, "credit") == 0) {
        return set_bytes(value, &job->settings.credit_bytes, why);
    } else if (strcmp(name, "fuse") == 0) {
        return set_bytes(value, &job->settings.fuse_bytes, why);
    } else if (strcmp(name, "algorithm") == 0) {
        job->algorithm = value;
        return TT_OK;
    } else if (strcmp(name, "seed") == 0) {
        return set_count(value, INT64_MAX, &job->seed, why);
    } else if (strcmp(name, "ranks") == 0) {
        return set_number32(value, &job->rank_count, why);
    } else if (strcmp(name, "groups") == 0) {
        return set_number32(value, &job->settings.group_count, why);
    } else if (strcmp(name, "servers") == 0) {
        return set_number32(value, &job->settings.server_count, why);
    } else if (strcmp(name, "cycle") == 0) {
        return set_cycle(value, &job->settings.cycle_us, why);
    } else if (strcmp(name, "engine") == 0 || strcmp(name, "depth") == 0 ||
               strcmp(name, "control") == 0) {
        return set_mode(job, name, value, why);
    }
    return set_field(cluster, name, value, why);
}

tt_status tt_coordinate_check(const tt_job *job, tt_text *why)
{
    const tt_strategy *strategy = job->strategy;
    const tt_strategy_settings *settings = &job->settings;
    const tt_engine engine =
        tt_strategy_engine(strategy, job->engine, job->cluster->generation != TT_CLUSTER_NO_GPU);
    const struct {
        bool is_unused;
        const char *name;
    } rules[] = {
        {settings->crosses_steps && !strategy->can_cross, "--cross"},
        {settings->credit_bytes > 0 && !strategy->takes_credit, "--credit"},
        {settings->fuse_bytes > 0 && !strategy->takes_fuse, "--fuse"},
        {settings->chunk_bytes > 0 && (strategy->takes_cycles || strategy->pushes), "--chunk"},
        {settings->group_count > 0 && !strategy->takes_cycles, "--groups"},
        {settings->cycle_us > 0 && !strategy->takes_cycles &&
             settings->control != TT_AGREE_ORIGINAL,
         "--cycle"},
        {settings->control != TT_AGREE_PLAN && !strategy->takes_control, "--control"},
        {settings->server_count > 0 && !strategy->takes_servers, "--servers"},
        {job->algorithm != NULL && engine != TT_ENGINE_TUTTI, "--algorithm"},
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(rules); i++) {
        if (rules[i].is_unused) {
            tt_text_add(why, "%s has no effect on strategy %s with engine %s; leave it out",
                        rules[i].name, strategy->name, tt_engine_name(engine));
            return TT_ERR_BAD_ARGUMENT;
        }
    }
    return TT_OK;
}
