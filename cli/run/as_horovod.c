/* SPDX-License-Identifier: Apache-2.0
 *
 * as_horovod.c - find the Python modules that are installed beside this program. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/environment.h"
#include "cli/run/as_horovod.h"
#include "cli/self.h"

/* From the folder of the program to the one that holds the package tutti/. */
static const char *const places[] = {
    "../..",                        /* a wheel: site-packages/tutti/bin */
    "../../python",                 /* a build: build/bin */
    "../share/tutti/python",        /* make install: PREFIX/bin */
    "../lib/python3/dist-packages", /* Debian: /usr/bin */
};

/* The folder that holds the package, absolute; false: there is none. */
static bool find_package(char folder_out[PATH_MAX])
{
    char program[PATH_MAX];
    (void)tt_self_path(program, sizeof(program));
    char *slash = strrchr(program, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    for (size_t i = 0; i < TT_ARRAY_COUNT(places); i++) {
        char candidate[2 * PATH_MAX];
        snprintf(candidate, sizeof(candidate), "%s/%s/tutti/as_horovod", program, places[i]);
        if (access(candidate, R_OK | X_OK) == 0) {
            snprintf(candidate, sizeof(candidate), "%s/%s", program, places[i]);
            return realpath(candidate, folder_out) != NULL;
        }
    }
    return false;
}

bool tt_as_horovod_find(tt_as_horovod *self, tt_option_list *variables)
{
    char folder[PATH_MAX];
    if (!find_package(folder)) {
        return false;
    }
    const char *inherited = tt_environment_get("PYTHONPATH");
    const char *rest = inherited != NULL ? inherited : "";
    if (asprintf(&self->path, "PYTHONPATH=%s/tutti/as_horovod:%s%s%s", folder, folder,
                 *rest != '\0' ? ":" : "", rest) < 0) {
        self->path = NULL;
        return false;
    }
    self->items = calloc(variables->count + 2, sizeof(*self->items));
    if (self->items == NULL) {
        return false;
    }
    for (size_t i = 0; i < variables->count; i++) {
        self->items[i] = variables->items[i];
    }
    self->items[variables->count] = self->path;
    self->items[variables->count + 1] = TT_AS_HOROVOD_MARK;
    variables->items = self->items;
    variables->count += 2;
    return true;
}

void tt_as_horovod_fini(tt_as_horovod *self)
{
    free(self->path);
    free((void *)(uintptr_t)self->items);
}
