/* SPDX-License-Identifier: Apache-2.0
 *
 * own_updates.c - updates that the program gives as functions: tutti_store_update. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/store/store_calls.h"
#include "tutti/store.h"

_Static_assert((int)TUTTI_STORE_STATES_MAX == (int)TT_UPDATE_STATES_MAX, "the same limits");
_Static_assert((int)TUTTI_STORE_OPTIONS_MAX == (int)TT_UPDATE_OPTIONS_MAX, "the same limits");

/* tt_update.apply */
static void apply(const tt_update_run *run)
{
    const tutti_store_update *own = run->spec->update->user;
    const float divisor = (float)run->divisor;
    for (size_t i = 0; i < run->count; i++) {
        run->gradient[i] /= divisor;
    }
    const tutti_store_update_args args = {.struct_bytes = sizeof(args),
                                          .tensor = run->tensor,
                                          .first = run->first,
                                          .count = run->count,
                                          .value = run->value,
                                          .gradient = run->gradient,
                                          .value_out = run->value_out,
                                          .states = run->states,
                                          .options = run->spec->options,
                                          .step = run->step,
                                          .clock = run->clock,
                                          .staleness = run->staleness,
                                          .workers = run->divisor};
    own->apply(own->user, &args);
}

static bool is_word(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return text != NULL && text[0] != '\0' &&
           strnlen(text, TT_UPDATE_WORD_BYTES) < TT_UPDATE_WORD_BYTES &&
           text[strspn(text, letters)] == '\0';
}

static bool are_options_sound(const tutti_store_update *own)
{
    bool are_sound =
        own->option_count == 0 || (own->option_names != NULL && own->option_values != NULL);
    for (uint32_t i = 0; are_sound && i < own->option_count; i++) {
        are_sound = is_word(own->option_names[i]) &&
                    !tt_update_is_correction(own->option_names[i]) &&
                    isfinite(own->option_values[i]) && own->option_values[i] >= 0.0f;
    }
    return are_sound;
}

static tt_status refuse(tt_text *why, size_t index, const char *cure)
{
    tt_text_add(why, "tutti_options.updates[%zu]: %s", index, cure);
    return TT_ERR_BAD_ARGUMENT;
}

static tt_status check(const tutti_store_update *updates, size_t index, tt_text *why)
{
    const tutti_store_update *own = &updates[index];
    if (own->struct_bytes != sizeof(*own)) {
        return refuse(why, index, "it is not initialised; begin with TUTTI_STORE_UPDATE_INIT");
    }
    if (!is_word(own->name) || own->apply == NULL) {
        return refuse(why, index,
                      "it needs a function, and a name of 1 to 31 letters, digits, _ and -");
    }
    if (own->state_count > TUTTI_STORE_STATES_MAX || own->option_count > TUTTI_STORE_OPTIONS_MAX) {
        return refuse(why, index, "an update has at most 4 states and 6 options");
    }
    if (!are_options_sound(own)) {
        return refuse(why, index,
                      "options need names, other than tau and dc, and finite values from 0 on");
    }
    for (size_t i = 0; i < index; i++) {
        if (strcmp(updates[i].name, own->name) == 0) {
            return refuse(why, index, "its name is that of another one; rename it");
        }
    }
    return TT_OK;
}

static void fill(tt_update *update, const tutti_store_update *own)
{
    *update = (tt_update){.name = own->name,
                          .state_count = own->state_count,
                          .option_count = own->option_count,
                          .is_own = true,
                          .apply = apply,
                          .user = (void *)(uintptr_t)own};
    for (uint32_t i = 0; i < own->option_count; i++) {
        update->option_names[i] = own->option_names[i];
        update->option_values[i] = own->option_values[i];
    }
}

tt_status tt_own_updates_take(tutti_context *context, const tutti_options *options, tt_text *why)
{
    enum { UPDATES_MAX = 1024 };
    const bool has_field = options->struct_bytes > offsetof(tutti_options, updates);
    const size_t count = has_field ? options->update_count : 0;
    if (count == 0) {
        return TT_OK;
    }
    if (options->updates == NULL || count > UPDATES_MAX) {
        tt_text_add(why, "tutti_options.updates is NULL, or update_count above %d",
                    (int)UPDATES_MAX);
        return TT_ERR_BAD_ARGUMENT;
    }
    for (size_t i = 0; i < count; i++) {
        TT_TRY(check(options->updates, i, why));
    }
    tt_update *updates = calloc(count, sizeof(*updates));
    if (updates == NULL) {
        tt_text_add(why, "out of memory for updates");
        return TT_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        fill(&updates[i], &options->updates[i]);
    }
    context->own_updates = (tt_update_list){.updates = updates, .count = (uint32_t)count};
    return TT_OK;
}

void tt_own_updates_release(tutti_context *context)
{
    free((void *)(uintptr_t)context->own_updates.updates);
}
