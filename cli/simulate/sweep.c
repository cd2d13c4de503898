/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep.c - see sweep.h. */
#include "cli/simulate/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { SHOWN_BYTES = 60 };

static tt_status refuse(const char *text, const char *cause, tt_text *why)
{
    tt_text_add_quoted(why, text, SHOWN_BYTES);
    tt_text_add(why, ": %s", cause);
    return TT_ERR_BAD_ARGUMENT;
}

static void axis_fini(tt_sweep_axis *axis)
{
    for (size_t i = 0; i < axis->value_count; i++) {
        free(axis->values[i]);
    }
    free(axis->values);
    free(axis->name);
    *axis = (tt_sweep_axis){.name = NULL};
}

static size_t count_values(const char *text)
{
    size_t count = 1;
    for (; *text != '\0'; text++) {
        count += *text == ',' ? 1 : 0;
    }
    return count;
}

/* The values between commas; false: one is empty. */
static bool split_values(const char *text, tt_sweep_axis *axis)
{
    while (text != NULL) {
        const char *comma = strchr(text, ',');
        const size_t bytes = comma != NULL ? (size_t)(comma - text) : strlen(text);
        if (bytes == 0) {
            return false;
        }
        axis->values[axis->value_count] = strndup(text, bytes);
        TT_ASSERT(axis->values[axis->value_count] != NULL);
        axis->value_count++;
        text = comma != NULL ? comma + 1 : NULL;
    }
    return true;
}

tt_status tt_sweep_add(tt_sweep *sweep, const char *text, tt_text *why)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || equals[1] == '\0') {
        return refuse(text, "give NAME=VALUE,VALUE..., such as ranks=8,64,512", why);
    }
    if (sweep->axis_count == TT_SWEEP_AXES_MAX) {
        return refuse(text, "a grid has at most four axes; leave one out", why);
    }
    const size_t count = count_values(equals + 1);
    if (count > TT_SWEEP_VALUES_MAX || tt_sweep_point_count(sweep) * count > TT_SWEEP_POINTS_MAX) {
        return refuse(text, "the grid has more than 10000 points; give fewer values", why);
    }
    tt_sweep_axis *axis = &sweep->axes[sweep->axis_count];
    *axis = (tt_sweep_axis){.name = strndup(text, (size_t)(equals - text)),
                            .values = calloc(count, sizeof(*axis->values))};
    TT_ASSERT(axis->name != NULL && axis->values != NULL);
    for (size_t i = 0; i < sweep->axis_count; i++) {
        if (strcmp(sweep->axes[i].name, axis->name) == 0) {
            axis_fini(axis);
            return refuse(text, "it is swept before; give all its values there", why);
        }
    }
    if (!split_values(equals + 1, axis)) {
        axis_fini(axis);
        return refuse(text, "a value is empty; leave out the comma", why);
    }
    sweep->axis_count++;
    return TT_OK;
}

void tt_sweep_fini(tt_sweep *sweep)
{
    for (size_t i = 0; i < sweep->axis_count; i++) {
        axis_fini(&sweep->axes[i]);
    }
    sweep->axis_count = 0;
}

size_t tt_sweep_point_count(const tt_sweep *sweep)
{
    size_t count = 1;
    for (size_t i = 0; i < sweep->axis_count; i++) {
        count *= sweep->axes[i].value_count;
    }
    return count;
}

const char *tt_sweep_value(const tt_sweep *sweep, size_t point, size_t axis)
{
    TT_ASSERT(axis < sweep->axis_count);
    for (size_t i = sweep->axis_count - 1; i > axis; i--) {
        point /= sweep->axes[i].value_count;
    }
    return sweep->axes[axis].values[point % sweep->axes[axis].value_count];
}
