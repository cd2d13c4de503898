/* SPDX-License-Identifier: Apache-2.0
 *
 * when.c - texts of policies, and what is due at a step; see when.h. */
#include "sync/when/when.h"

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "base/config.h"
#include "base/nearest.h"

enum { WORD_BYTES = 48 };

static const tt_when_policy *const policies[] = {&tt_when_local, &tt_when_outer, &tt_when_pipeline};

const tt_when_policy *tt_when_policy_at(size_t index)
{
    return index < TT_ARRAY_COUNT(policies) ? policies[index] : NULL;
}

/* ---- what is due ---- */

tt_when_level tt_when_due(const tt_when *when, uint32_t fragment, uint64_t step)
{
    uint32_t last = 0;
    while (last + 1 < when->period_count && when->periods[last + 1].from < step) {
        last++;
    }
    const tt_when_period *period = &when->periods[last];
    const uint64_t phase = (uint64_t)fragment * (period->steps / when->fragments);
    const uint64_t since = step > period->from ? step - period->from : 0;
    if (since > 0 && since % period->steps == phase) {
        return TT_LEVEL_ALL;
    }
    return since > 0 && when->inside > 0 && since % when->inside == 0 ? TT_LEVEL_HOST
                                                                      : TT_LEVEL_NONE;
}

uint64_t tt_when_slice(const tt_when *when, uint32_t fragment, uint64_t elements,
                       uint64_t *first_out)
{
    const uint64_t each = elements / when->fragments, rest = elements % when->fragments;
    *first_out = fragment * each + tt_min_u64(fragment, rest);
    return each + (fragment < rest ? 1 : 0);
}

/* ---- texts ---- */

typedef struct reader {
    const char *text;
    tt_when *when;
    tt_text *why;
} reader;

static tt_status refuse(const reader *own, const char *key, const char *value, const char *want)
{
    tt_text_add(own->why, "policy ");
    tt_text_add_quoted(own->why, own->text, 128);
    tt_text_add(own->why, ": %s=", key);
    tt_text_add_quoted(own->why, value, WORD_BYTES);
    tt_text_add(own->why, " is not %s", want);
    return TT_ERR_BAD_ARGUMENT;
}

static bool read_count(const char *value, uint64_t least, uint64_t most, uint64_t *count_out)
{
    int64_t count = 0;
    if (!tt_config_parse_int(value, &count) || count < 0 || (uint64_t)count < least ||
        (uint64_t)count > most) {
        return false;
    }
    *count_out = (uint64_t)count;
    return true;
}

/* "8", or "16@1000" behind another one. */
static tt_status read_period(const reader *own, const char *key, const char *value)
{
    static const char want[] = "STEPS, or STEPS@FROM with ascending FROM (steps from 1 to 2^31)";
    tt_when *when = own->when;
    char steps[WORD_BYTES];
    const char *rest = value;
    uint64_t count = 0, from = 0;
    const bool is_first = when->period_count == 0;
    if (!tt_text_take_word(&rest, "@", steps, sizeof(steps)) ||
        !read_count(steps, 1, INT32_MAX, &count) || is_first != (*rest == '\0') ||
        when->period_count == TT_WHEN_PERIODS_MAX ||
        (!is_first &&
         !read_count(rest + 1, when->periods[when->period_count - 1].from + 1, INT64_MAX, &from))) {
        return refuse(own, key, value, want);
    }
    when->periods[when->period_count++] = (tt_when_period){.from = from, .steps = (uint32_t)count};
    return TT_OK;
}

static tt_status read_state(const reader *own, const char *value)
{
    static const char *const names[] = {"", "keep", "average", "reset"};
    for (uint32_t i = TT_STATE_KEEP; i <= TT_STATE_RESET; i++) {
        if (strcmp(names[i], value) == 0) {
            own->when->state = (tt_when_state)i;
            return TT_OK;
        }
    }
    return refuse(own, "state", value, "keep, average or reset");
}

static tt_status read_real(const reader *own, const char *key, const char *value, double *out)
{
    if (!tt_config_parse_real(value, out) || !isfinite(*out) || *out < 0.0) {
        return refuse(own, key, value, "a number from 0 on");
    }
    return TT_OK;
}

static tt_status read_into(const reader *own, const char *key, const char *value, uint64_t most,
                           uint32_t *out)
{
    uint64_t count = 0;
    const uint64_t least = out == &own->when->delay ? 0 : 1;
    if (!read_count(value, least, most, &count)) {
        return refuse(own, key, value, least == 0 ? "a number from 0 on" : "a number from 1 on");
    }
    *out = (uint32_t)count;
    return TT_OK;
}

static tt_status read_option(const reader *own, const char *key, const char *value)
{
    tt_when *when = own->when;
    if (strcmp(key, "period") == 0 || strcmp(key, "outside") == 0) {
        return read_period(own, key, value);
    }
    if (strcmp(key, "inside") == 0) {
        return read_into(own, key, value, INT32_MAX, &when->inside);
    }
    if (strcmp(key, "state") == 0) {
        return read_state(own, value);
    }
    if (strcmp(key, "fragments") == 0) {
        return read_into(own, key, value, 1 << 16, &when->fragments);
    }
    if (strcmp(key, "delay") == 0) {
        return read_into(own, key, value, TT_WHEN_DELAY_MAX, &when->delay);
    }
    if (strcmp(key, "nesterov") == 0) {
        when->is_nesterov = strcmp(value, "1") == 0;
        return when->is_nesterov || strcmp(value, "0") == 0 ? TT_OK
                                                            : refuse(own, key, value, "0 or 1");
    }
    return read_real(own, key, value,
                     strcmp(key, "lr") == 0         ? &when->lr
                     : strcmp(key, "momentum") == 0 ? &when->momentum
                                                    : &when->alpha);
}

static bool has_option(const tt_when_policy *policy, const char *key)
{
    char word[WORD_BYTES + 2];
    const size_t length = strlen(key);
    word[0] = ' ';
    memcpy(word + 1, key, length);
    memcpy(word + 1 + length, " ", 2);
    return length > 0 && strstr(policy->options, word) != NULL;
}

static tt_status unknown_option(const reader *own, const char *key)
{
    tt_text_add(own->why, "policy %s has no option ", own->when->policy->name);
    tt_text_add_quoted(own->why, key, WORD_BYTES);
    tt_text_add(own->why, "; it has%.*s", (int)strlen(own->when->policy->options) - 1,
                own->when->policy->options);
    return TT_ERR_BAD_ARGUMENT;
}

static tt_status unknown_policy(const char *name, tt_text *why)
{
    tt_nearest nearest;
    tt_nearest_init(&nearest, "", name);
    for (size_t i = 0; tt_when_policy_at(i) != NULL; i++) {
        tt_nearest_offer(&nearest, tt_when_policy_at(i)->name);
    }
    tt_text_add(why, "there is no policy ");
    tt_text_add_quoted(why, name, WORD_BYTES);
    tt_text_add(why,
                nearest.best[0] != '\0' ? "; did you mean '%s'?"
                                        : "; there are local, outer, pipeline%s",
                nearest.best);
    return TT_ERR_BAD_ARGUMENT;
}

/* Options are KEY=VALUE with commas between them; a value without a key belongs to the one before
 * it (period=1,16@1000). */
static tt_status read_options(const reader *own, const char *text)
{
    char key[WORD_BYTES] = "", value[WORD_BYTES];
    while (*text != '\0') {
        text++; /* ':' or ',' */
        const size_t length = strcspn(text, ",");
        if (memchr(text, '=', length) != NULL) {
            if (!tt_text_take_word(&text, "=", key, sizeof(key))) {
                return unknown_option(own, "...");
            }
            text++;
        }
        if (!has_option(own->when->policy, key)) {
            return unknown_option(own, key);
        }
        if (!tt_text_take_word(&text, ",", value, sizeof(value))) {
            return refuse(own, key, "...", "so long");
        }
        TT_TRY(read_option(own, key, value));
    }
    return TT_OK;
}

static const tt_when_policy *find_policy(const char *name)
{
    for (size_t i = 0; tt_when_policy_at(i) != NULL; i++) {
        if (strcmp(tt_when_policy_at(i)->name, name) == 0) {
            return tt_when_policy_at(i);
        }
    }
    return NULL;
}

tt_status tt_when_parse(const char *text, tt_when *when_out, tt_text *why)
{
    char name[WORD_BYTES];
    const char *rest = text;
    tt_when when = {.fragments = 1, .lr = 1.0, .is_nesterov = true};
    const reader own = {.text = text, .when = &when, .why = why};
    if (!tt_text_take_word(&rest, ":", name, sizeof(name))) {
        return unknown_policy("...", why);
    }
    when.policy = find_policy(name);
    if (when.policy == NULL) {
        return unknown_policy(name, why);
    }
    TT_TRY(read_options(&own, rest));
    if (when.policy->quantity == TT_QUANTITY_GRADIENT) {
        when.periods[when.period_count++] = (tt_when_period){.from = 0, .steps = 1};
    }
    if (when.period_count == 0) {
        tt_text_add(why, "policy ");
        tt_text_add_quoted(why, text, 128);
        tt_text_add(why, " has no period; say %s:period=STEPS", when.policy->name);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (when.period_count > 1 && (when.fragments > 1 || when.delay > 0 || when.inside > 0)) {
        tt_text_add(why, "policy ");
        tt_text_add_quoted(why, text, 128);
        tt_text_add(why, ": a schedule of periods goes with neither fragments, delay nor inside; "
                         "give one period");
        return TT_ERR_BAD_ARGUMENT;
    }
    TT_TRY(when.policy->check(&when, text, why));
    *when_out = when;
    return TT_OK;
}
