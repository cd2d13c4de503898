/* SPDX-License-Identifier: Apache-2.0
 *
 * trust.c - owner and mode of a plugin and of every folder on its path.
 *
 * (1) The folder that is searched and the folder that holds the file may be writable by their owner
 *     only. Folders above may be sticky, as /tmp is: others cannot replace files there.
 * (2) The checked path is the one that is opened: it has no symbolic links, and only trusted owners
 *     can change any part of it, so there is no race between check and use.
 */
#include "plugin/trust.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

tt_plugin_owners tt_plugin_owners_here(const char *own_file)
{
    struct stat status;
    tt_plugin_owners owners = {.user = geteuid(), .system = 0, .library = geteuid()};
    if (stat("/", &status) == 0) {
        owners.system = status.st_uid;
    }
    if (own_file != NULL && stat(own_file, &status) == 0) {
        owners.library = status.st_uid;
    }
    return owners;
}

static bool is_owner(const tt_plugin_owners *owners, uid_t uid)
{
    return uid == 0 || uid == owners->user || uid == owners->system || uid == owners->library;
}

static bool is_one_trusted(const char *path, const tt_plugin_owners *owners, bool may_be_sticky,
                           tt_text *why)
{
    struct stat status;
    if (lstat(path, &status) != 0) {
        tt_text_add(why, "%s: %s", path, strerror(errno));
        return false;
    }
    if (!is_owner(owners, status.st_uid)) {
        tt_text_add(why, "%s belongs to uid %u, not to you (uid %u) or root; make your own copy",
                    path, (unsigned)status.st_uid, (unsigned)owners->user);
        return false;
    }
    const bool is_sticky = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !(may_be_sticky && is_sticky)) {
        tt_text_add(why, "%s has mode %04o: others may write it; run: chmod go-w %s", path,
                    (unsigned)(status.st_mode & 07777), path);
        return false;
    }
    return true;
}

/* A folder and all above it. `folder` has no symbolic links; it is truncated to "". */
static bool is_way_trusted(char *folder, const tt_plugin_owners *owners, tt_text *why)
{
    TT_ASSERT(folder[0] == '/');
    bool is_trusted = is_one_trusted(folder, owners, false, why);
    for (char *end = strrchr(folder, '/'); is_trusted && end != NULL; end = strrchr(folder, '/')) {
        *end = '\0';
        is_trusted = is_one_trusted(folder[0] != '\0' ? folder : "/", owners, true, why);
    }
    return is_trusted;
}

/* All folders on the path of the file `path`. */
static bool is_folder_trusted(const char *path, const tt_plugin_owners *owners, tt_text *why)
{
    char folder[PATH_MAX];
    char real[PATH_MAX];
    const char *end = strrchr(path, '/');
    const size_t length = end != NULL ? (size_t)(end - path) : 0;
    if (length >= sizeof(folder)) {
        tt_text_add(why, "%s: %s", path, strerror(ENAMETOOLONG));
        return false;
    }
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)length, path);
    if (realpath(length > 0 ? folder : end != NULL ? "/" : ".", real) == NULL) {
        tt_text_add(why, "%s: %s", path, strerror(errno));
        return false;
    }
    return is_way_trusted(real, owners, why);
}

bool tt_plugin_is_trusted(const char *path, const tt_plugin_owners *owners, char real_out[PATH_MAX],
                          tt_text *why)
{
    if (realpath(path, real_out) == NULL) {
        tt_text_add(why, "%s: %s", path, strerror(errno));
        return false;
    }
    return is_folder_trusted(path, owners, why) && is_folder_trusted(real_out, owners, why) &&
           is_one_trusted(real_out, owners, false, why);
}
