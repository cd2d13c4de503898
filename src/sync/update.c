/* SPDX-License-Identifier: Apache-2.0
 *
 * update.c - the updates, their texts and their loops; see update.h. */
#include "sync/update.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/config.h"
#include "base/nearest.h"

#define OWN_MARK "own:"

enum { WORD_BYTES = TT_UPDATE_WORD_BYTES };

/* ---- loops ---- */

static float divisor_of(const tt_update_run *run, uint32_t tau_option)
{
    const bool has_tau = run->spec->options[tau_option] != 0.0f && run->staleness > 1;
    return (float)run->divisor * (has_tau ? (float)run->staleness : 1.0f);
}

enum { SGD_LR, SGD_TAU, SGD_DC };

static void sgd_apply(const tt_update_run *run)
{
    const float rate = run->spec->options[SGD_LR];
    const float divisor = divisor_of(run, SGD_TAU);
    const float dc = run->spec->options[SGD_DC];
    for (size_t i = 0; dc > 0.0f && run->read != NULL && i < run->count; i++) {
        const float pushed = run->gradient[i];
        run->gradient[i] = pushed + dc * (pushed * pushed) * (run->value[i] - run->read[i]);
    }
    for (size_t i = 0; i < run->count; i++) {
        run->value_out[i] = run->value[i] - rate * (run->gradient[i] / divisor);
    }
}

enum { MOMENTUM_LR, MOMENTUM_MU, MOMENTUM_NESTEROV, MOMENTUM_TAU };

static void momentum_apply(const tt_update_run *run)
{
    const float rate = run->spec->options[MOMENTUM_LR];
    const float mu = run->spec->options[MOMENTUM_MU];
    const bool is_nesterov = run->spec->options[MOMENTUM_NESTEROV] != 0.0f;
    const float divisor = divisor_of(run, MOMENTUM_TAU);
    float *velocity = run->states[0];
    for (size_t i = 0; i < run->count; i++) {
        const float gradient = run->gradient[i] / divisor;
        velocity[i] = mu * velocity[i] + gradient;
        const float step = is_nesterov ? gradient + mu * velocity[i] : velocity[i];
        run->value_out[i] = run->value[i] - rate * step;
    }
}

/* By squaring: the same bits with any C library. */
static double power(double base, uint64_t exponent)
{
    double product = 1.0;
    for (; exponent > 0; exponent >>= 1) {
        product = (exponent & 1) != 0 ? product * base : product;
        base *= base;
    }
    return product;
}

enum { ADAM_LR, ADAM_BETA1, ADAM_BETA2, ADAM_EPS, ADAM_DECAY, ADAM_TAU };

/* Kingma and Ba (2015), algorithm 1; decay as in Loshchilov and Hutter (2019). */
static void adam_apply(const tt_update_run *run)
{
    const float *options = run->spec->options;
    const float rate = options[ADAM_LR], eps = options[ADAM_EPS];
    const float beta1 = options[ADAM_BETA1], beta2 = options[ADAM_BETA2];
    const float kept = 1.0f - rate * options[ADAM_DECAY];
    const float divisor = divisor_of(run, ADAM_TAU);
    const float bias1 = (float)(1.0 - power((double)beta1, run->step));
    const float bias2 = (float)(1.0 - power((double)beta2, run->step));
    float *mean = run->states[0], *square = run->states[1];
    for (size_t i = 0; i < run->count; i++) {
        const float gradient = run->gradient[i] / divisor;
        mean[i] = beta1 * mean[i] + (1.0f - beta1) * gradient;
        square[i] = beta2 * square[i] + (1.0f - beta2) * (gradient * gradient);
        const float step = mean[i] / bias1 / (sqrtf(square[i] / bias2) + eps);
        run->value_out[i] = kept * run->value[i] - rate * step;
    }
}

/* ---- the list ---- */

static const tt_update updates[] = {
    {.name = "sum", .is_sum = true, .takes_any_type = true},
    {.name = "add", .takes_any_type = true},
    {.name = "sgd",
     .option_count = 3,
     .option_names = {"lr", "tau", "dc"},
     .option_values = {0.01f, 0.0f, 0.0f},
     .apply = sgd_apply},
    {.name = "momentum",
     .state_count = 1,
     .option_count = 4,
     .option_names = {"lr", "momentum", "nesterov", "tau"},
     .option_values = {0.01f, 0.9f, 0.0f, 0.0f},
     .apply = momentum_apply},
    {.name = "adam",
     .state_count = 2,
     .option_count = 6,
     .option_names = {"lr", "beta1", "beta2", "eps", "decay", "tau"},
     .option_values = {0.001f, 0.9f, 0.999f, 1e-8f, 0.0f, 0.0f},
     .apply = adam_apply},
};

const tt_update *tt_update_at(size_t index)
{
    return index < TT_ARRAY_COUNT(updates) ? &updates[index] : NULL;
}

float tt_update_option(const tt_update_spec *spec, const char *name)
{
    float value = 0.0f;
    for (uint32_t i = 0; i < spec->update->option_count; i++) {
        value = strcmp(spec->update->option_names[i], name) == 0 ? spec->options[i] : value;
    }
    return value;
}

bool tt_update_is_correction(const char *option)
{
    return strcmp(option, "tau") == 0 || strcmp(option, "dc") == 0;
}

bool tt_update_is_corrected(const tt_update_spec *spec)
{
    return tt_update_option(spec, "tau") != 0.0f || tt_update_option(spec, "dc") != 0.0f;
}

/* ---- texts ---- */

static tt_status unknown_update(const char *name, tt_text *why)
{
    tt_nearest nearest;
    tt_nearest_init(&nearest, "", name);
    for (size_t i = 0; tt_update_at(i) != NULL; i++) {
        tt_nearest_offer(&nearest, tt_update_at(i)->name);
    }
    tt_text_add(why, "there is no update ");
    tt_text_add_quoted(why, name, WORD_BYTES);
    if (nearest.best[0] != '\0') {
        tt_text_add(why, "; did you mean '%s'?", nearest.best);
    } else {
        tt_text_add(why, "; there are sum, add, sgd, momentum, adam, own:NAME");
    }
    return TT_ERR_BAD_ARGUMENT;
}

void tt_update_add_unknown(const tt_update *update, const char *option, tt_text *why)
{
    tt_text_add(why, "update %s has no option ", update->name);
    tt_text_add_quoted(why, option, WORD_BYTES);
    for (uint32_t k = 0; k < update->option_count; k++) {
        tt_text_add(why, "%s %s", k == 0 ? "; it has" : ",", update->option_names[k]);
    }
}

static tt_status read_option(tt_update_spec *spec, const char *key, const char *value, tt_text *why)
{
    const tt_update *update = spec->update;
    uint32_t i = 0;
    double number = 0.0;
    while (i < update->option_count && strcmp(update->option_names[i], key) != 0) {
        i++;
    }
    if (i == update->option_count) {
        tt_update_add_unknown(update, key, why);
        return TT_ERR_BAD_ARGUMENT;
    }
    if (!tt_config_parse_real(value, &number) || !isfinite((float)number) || number < 0.0) {
        tt_text_add(why, "update %s: %s=", update->name, key);
        tt_text_add_quoted(why, value, WORD_BYTES);
        tt_text_add(why, " is not a number from 0 on");
        return TT_ERR_BAD_ARGUMENT;
    }
    spec->options[i] = (float)number;
    return TT_OK;
}

static const tt_update *find_update(const char *name, tt_text *why)
{
    size_t index = 0;
    while (tt_update_at(index) != NULL && strcmp(tt_update_at(index)->name, name) != 0) {
        index++;
    }
    if (tt_update_at(index) == NULL) {
        (void)unknown_update(name, why);
    }
    return tt_update_at(index);
}

static const tt_update *find_own(const char *name, const tt_update_list *own, tt_text *why)
{
    for (uint32_t i = 0; i < own->count; i++) {
        if (strcmp(own->updates[i].name, name) == 0) {
            return &own->updates[i];
        }
    }
    tt_text_add(why, "this process has no function for update own:%s", name);
    tt_text_add(why, "; give it in tutti_options.updates");
    return NULL;
}

bool tt_update_is_own(const char *text)
{
    return strncmp(text, OWN_MARK, sizeof(OWN_MARK) - 1) == 0;
}

const tt_update *tt_update_absent(void)
{
    static const tt_update absent = {.name = "own", .is_own = true};
    return &absent;
}

void tt_update_describe(const tt_update *update, tt_text *text)
{
    tt_text_add(text, "%u", update->state_count);
    for (uint32_t i = 0; i < update->option_count; i++) {
        tt_text_add(text, " %s", update->option_names[i]);
    }
}

tt_status tt_update_read_description(const char *text, const char *description,
                                     tt_update_described *described_out)
{
    tt_update_described *described = described_out;
    char word[WORD_BYTES];
    int64_t states = 0;
    *described = (tt_update_described){.update = {.is_own = true}};
    text += tt_update_is_own(text) ? sizeof(OWN_MARK) - 1 : 0;
    if (!tt_text_take_word(&text, ":", described->name, WORD_BYTES) ||
        !tt_text_take_word(&description, " ", word, sizeof(word)) ||
        !tt_config_parse_int(word, &states) || states < 0 || states > TT_UPDATE_STATES_MAX) {
        return TT_ERR_BAD_WIRE;
    }
    uint32_t count = 0;
    while (*description != '\0') {
        description++; /* ' ' */
        if (count == TT_UPDATE_OPTIONS_MAX ||
            !tt_text_take_word(&description, " ", described->option_names[count], WORD_BYTES) ||
            described->option_names[count][0] == '\0') {
            return TT_ERR_BAD_WIRE;
        }
        described->update.option_names[count] = described->option_names[count];
        count++;
    }
    described->update.name = described->name;
    described->update.state_count = (uint32_t)states;
    described->update.option_count = count;
    return TT_OK;
}

void tt_update_print(const tt_update *update, const float *options, tt_text *text)
{
    tt_text_add(text, "%s%s", update->is_own ? OWN_MARK : "", update->name);
    for (uint32_t i = 0; i < update->option_count; i++) {
        tt_text_add(text, "%c%s=", i == 0 ? ':' : ',', update->option_names[i]);
        tt_text_add_real(text, (double)options[i]);
    }
}

tt_status tt_update_parse(const char *text, tt_update_spec *spec_out, tt_text *why)
{
    const tt_update_list none = {.count = 0};
    return tt_update_parse_own(text, &none, spec_out, why);
}

tt_status tt_update_parse_own(const char *text, const tt_update_list *own, tt_update_spec *spec_out,
                              tt_text *why)
{
    char name[WORD_BYTES], key[WORD_BYTES], value[WORD_BYTES];
    const bool is_own = tt_update_is_own(text);
    text += is_own ? sizeof(OWN_MARK) - 1 : 0;
    if (!tt_text_take_word(&text, ":", name, WORD_BYTES)) {
        return unknown_update("", why);
    }
    tt_update_spec spec = {.update = is_own ? find_own(name, own, why) : find_update(name, why)};
    if (spec.update == NULL) {
        return TT_ERR_BAD_ARGUMENT;
    }
    memcpy(spec.options, spec.update->option_values, sizeof(spec.options));
    while (*text != '\0') {
        text++; /* ':' or ',' */
        if (!tt_text_take_word(&text, "=,", key, WORD_BYTES) || *text != '=') {
            tt_text_add(why, "update %s: options are KEY=VALUE, with a comma between two", name);
            return TT_ERR_BAD_ARGUMENT;
        }
        text++;
        if (!tt_text_take_word(&text, ",", value, WORD_BYTES)) {
            tt_text_add(why, "update %s: the value of %s is too long", name, key);
            return TT_ERR_BAD_ARGUMENT;
        }
        TT_TRY(read_option(&spec, key, value, why));
    }
    *spec_out = spec;
    return TT_OK;
}
