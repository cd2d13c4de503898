/* SPDX-License-Identifier: Apache-2.0
 *
 * coordinate.c - see coordinate.h. */
#include "cli/simulate/coordinate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/nearest.h"
#include "cli/allocate.h"

enum { SHOWN_BYTES = 60, WORD_BYTES_MAX = 200, CYCLE_MS_MAX = 60000 };

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

static tt_status refuse(const tt_scenario_rules *rules, const char *name, tt_text *why)
{
    const tt_command *command = rules->command;
    tt_nearest nearest;
    tt_nearest_init(&nearest, "", name);
    for (size_t i = 0; i < command->option_count; i++) {
        if (tt_scenario_can_vary(rules, &command->options[i])) {
            tt_nearest_offer(&nearest, command->options[i].name);
        }
    }
    tt_text_add_quoted(why, name, SHOWN_BYTES);
    tt_text_add(why, " cannot be swept; ");
    if (nearest.best[0] != '\0') {
        tt_text_add(why, "did you mean %s", nearest.best);
    } else {
        tt_text_add(why, "give an option of the job, or a field of clusters: ");
        tt_cluster_field_suggest(name, why);
    }
    return TT_ERR_BAD_ARGUMENT;
}

static void set_text(const tt_command *command, const tt_option *option, const char *text,
                     void *values)
{
    char *place = (char *)values + command->given_offset;
    uint64_t given;
    memcpy(&given, place, sizeof(given));
    given |= UINT64_C(1) << (option - command->options);
    memcpy(place, &given, sizeof(given));
    memcpy((char *)values + option->offset, &text, sizeof(text));
}

/* Texts are borrowed as they are; all else is parsed. */
static tt_status set_option(const tt_command *command, const tt_option *option, const char *text,
                            void *values, tt_text *why)
{
    const bool is_flag = option->kind == TT_OPTION_FLAG;
    const bool is_set = !is_flag || strcmp(text, "true") == 0;
    char word[WORD_BYTES_MAX];
    char *argv[] = {word, NULL};
    tt_option_result result;
    if (option->kind == TT_OPTION_STRING) {
        set_text(command, option, text, values);
        return TT_OK;
    }
    if ((is_flag && !is_set && strcmp(text, "false") != 0) ||
        snprintf(word, sizeof(word), "--%s%s%s", option->name, is_flag ? "" : "=",
                 is_flag ? "" : text) >= (int)sizeof(word)) {
        tt_text_add(why, "%s: ", option->name);
        tt_text_add_quoted(why, text, SHOWN_BYTES);
        tt_text_add(why, is_flag ? " is neither true nor false" : " is too long; give a number");
        return TT_ERR_BAD_ARGUMENT;
    }
    void *parsed = tt_cli_allocate(1, command->values_bytes + 1);
    const tt_status status = tt_option_parse(command, parsed, 1, argv, &result);
    if (status != TT_OK) {
        tt_text_add_words(why, result.error + strspn(result.error, "-"), TT_TEXT_BYTES);
    } else if (is_set) {
        tt_option_override(command, values, parsed);
    } else {
        *(bool *)((char *)values + option->offset) = false;
    }
    tt_option_release(command, parsed);
    free(parsed);
    return status;
}

tt_status tt_coordinate_set(const tt_scenario_rules *rules, void *values,
                            const tt_simulate_coordinate *coordinate, tt_text *why)
{
    const tt_command *command = rules->command;
    for (size_t i = 0; i < command->option_count; i++) {
        const tt_option *option = &command->options[i];
        if (strcmp(option->name, coordinate->name) == 0 && tt_scenario_can_vary(rules, option)) {
            return set_option(command, option, coordinate->value, values, why);
        }
    }
    return refuse(rules, coordinate->name, why);
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
    if (settings->cycle_us > CYCLE_MS_MAX * 1000.0) {
        tt_text_add(why, "--cycle: %g ms; give at most %d", settings->cycle_us / 1000,
                    CYCLE_MS_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    for (size_t i = 0; i < TT_ARRAY_COUNT(rules); i++) {
        if (rules[i].is_unused) {
            tt_text_add(why, "%s has no effect on strategy %s with engine %s; leave it out",
                        rules[i].name, strategy->name, tt_engine_name(engine));
            return TT_ERR_BAD_ARGUMENT;
        }
    }
    return TT_OK;
}
