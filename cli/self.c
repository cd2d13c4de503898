/* SPDX-License-Identifier: Apache-2.0
 *
 * self.c - /proc/self/exe, else the auxiliary vector's name. */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "cli/self.h"

const char *tt_self_path(char *path, size_t path_bytes)
{
    const ssize_t length = readlink("/proc/self/exe", path, path_bytes - 1);
    path[length > 0 ? length : 0] = '\0';
    if (length <= 0) {
        const char *executed = (const char *)(uintptr_t)getauxval(AT_EXECFN);
        char *found = executed != NULL ? realpath(executed, NULL) : NULL;
        (void)snprintf(path, path_bytes, "%s", found != NULL ? found : "");
        free(found);
    }
    return path;
}
