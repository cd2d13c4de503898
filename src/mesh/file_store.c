/* SPDX-License-Identifier: Apache-2.0
 *
 * file_store.c - put writes aside and renames; get polls.
 *
 * Invariants:
 *  (1) A name that readers look for is only ever created by rename: the file is whole.
 *  (2) The directory is reopened for each look: network file systems refresh their cache of a
 *      directory when it is opened, and may hide a new file for minutes otherwise.
 *  (3) Only regular files of this user or of the directory's owner are read; links are not
 *      followed.
 */
#include "mesh/file_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"

enum { NAME_BYTES = 192 };
static const uint64_t poll_ns_first = 1000000; /* 1 ms: most ranks start together */
static const uint64_t poll_ns_max = 250000000; /* spares the file server while a rank is late */

static tt_status name_of(const tt_mesh_file_store *store, const char *key, char name[NAME_BYTES],
                         tt_launch_why *why)
{
    const size_t key_bytes = strlen(key);
    const size_t allowed_bytes = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789-_");
    if (key_bytes == 0 || key_bytes > TT_MESH_KEY_BYTES_MAX || allowed_bytes != key_bytes) {
        return tt_launch_fail(why, TT_ERR_BAD_ARGUMENT,
                              "file store key '%.80s' must be 1-%d letters, digits, '-' or '_'",
                              key, TT_MESH_KEY_BYTES_MAX);
    }
    (void)snprintf(name, NAME_BYTES, "tutti.%016" PRIx64 ".%" PRIu32 ".%s", store->job,
                   store->incarnation, key);
    return TT_OK;
}

static int open_directory(const tt_mesh_file_store *store)
{
    return open(store->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* (2) */
}

static tt_status refuse(const tt_mesh_file_store *store, const char *name, const char *what,
                        tt_launch_why *why)
{
    return tt_launch_fail(why, TT_ERR_SYSTEM, "rendezvous file://%.300s: %s %s: %s", store->path,
                          what, name, strerror(errno));
}

tt_status tt_mesh_file_store_init(tt_mesh_file_store *store, const char *path, const char *job_id,
                                  uint32_t incarnation, tt_launch_why *why)
{
    struct stat status;
    TT_ASSERT(path[0] == '/');
    *store = (tt_mesh_file_store){.job = tt_launch_hash(0, job_id, strlen(job_id)),
                                  .incarnation = incarnation};
    if (!tt_launch_copy(store->path, sizeof(store->path), path, strlen(path))) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG, "rendezvous path exceeds %d bytes",
                              TT_LAUNCH_PATH_BYTES - 1);
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return refuse(store, path, "cannot create directory", why);
    }
    if (stat(path, &status) != 0) {
        return refuse(store, path, "cannot stat", why);
    }
    if (!S_ISDIR(status.st_mode)) {
        return tt_launch_fail(
            why, TT_ERR_BAD_CONFIG,
            "rendezvous file://%.300s is a file; name a directory, or a path that "
            "does not exist yet",
            path);
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0) {
        return tt_launch_fail(why, TT_ERR_BAD_CONFIG,
                              "rendezvous file://%.300s is writable by others, who could pose as "
                              "a rank; run chmod 700 on it",
                              path);
    }
    return TT_OK;
}

static bool write_all(int fd, const void *bytes, size_t byte_count)
{
    const char *source = bytes;
    for (size_t written = 0; written < byte_count;) {
        const ssize_t count = write(fd, source + written, byte_count - written);
        if (count < 0 && errno != EINTR) {
            return false;
        }
        written += count > 0 ? (size_t)count : 0;
    }
    return true;
}

/* Write `name` aside and rename it into place (1). False with errno. */
static bool publish(int directory, const char *name, const void *bytes, size_t byte_count)
{
    char aside[NAME_BYTES + 32];
    uint64_t nonce = 0;
    if (getrandom(&nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce)) {
        return false;
    }
    (void)snprintf(aside, sizeof(aside), ".%s.%016" PRIx64, name, nonce);
    const int fd = openat(directory, aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return false;
    }
    bool is_done = write_all(fd, bytes, byte_count);
    /* Network file systems may report a full disk only at close. */
    is_done = close(fd) == 0 && is_done;
    is_done = is_done && renameat(directory, aside, directory, name) == 0;
    if (!is_done) {
        const int error = errno;
        (void)unlinkat(directory, aside, 0);
        errno = error;
    }
    return is_done;
}

tt_status tt_mesh_file_store_put(const tt_mesh_file_store *store, const char *key,
                                 const void *bytes, size_t byte_count, tt_launch_why *why)
{
    char name[NAME_BYTES];
    TT_TRY(name_of(store, key, name, why));
    if (byte_count > TT_MESH_BLOB_BYTES_MAX) {
        return tt_launch_fail(why, TT_ERR_BAD_ARGUMENT, "blob '%s' of %zu bytes exceeds %d", key,
                              byte_count, TT_MESH_BLOB_BYTES_MAX);
    }
    const int directory = open_directory(store);
    if (directory < 0) {
        return refuse(store, name, "cannot open the directory of", why);
    }
    const bool is_done = publish(directory, name, bytes, byte_count);
    const int error = errno;
    close(directory);
    errno = error;
    return is_done ? TT_OK : refuse(store, name, "cannot write", why);
}

static bool read_all(int fd, tt_mesh_blob *blob, size_t byte_count)
{
    char *target = blob->bytes;
    size_t filled = 0;
    while (filled < byte_count) {
        const ssize_t count = read(fd, target + filled, byte_count - filled);
        if (count == 0 || (count < 0 && errno != EINTR)) {
            return false;
        }
        filled += count > 0 ? (size_t)count : 0;
    }
    blob->count = byte_count;
    return true;
}

/* Check the open file, then read it. */
static tt_status take(const tt_mesh_file_store *store, int fd, const char *name, tt_mesh_blob *blob,
                      tt_launch_why *why)
{
    struct stat file;
    struct stat directory;
    if (fstat(fd, &file) != 0 || stat(store->path, &directory) != 0) {
        return refuse(store, name, "cannot stat", why);
    }
    if (!S_ISREG(file.st_mode) ||
        (file.st_uid != geteuid() && file.st_uid != directory.st_uid)) { /* (3) */
        return tt_launch_fail(why, TT_ERR_REFUSED,
                              "rendezvous file://%.300s: %s is not a file of this user; use a "
                              "directory of your own",
                              store->path, name);
    }
    if (file.st_size < 0 || (uint64_t)file.st_size > blob->capacity) {
        return tt_launch_fail(why, TT_ERR_BAD_WIRE,
                              "rendezvous file://%.300s: %s exceeds %zu bytes", store->path, name,
                              blob->capacity);
    }
    errno = EIO; /* for a file that ends early */
    if (!read_all(fd, blob, (size_t)file.st_size)) {
        return refuse(store, name, "cannot read", why);
    }
    return TT_OK;
}

/* One look. TT_IN_PROGRESS when the file is not there yet. */
static tt_status look(const tt_mesh_file_store *store, const char *name, tt_mesh_blob *blob,
                      tt_launch_why *why)
{
    const int directory = open_directory(store);
    if (directory < 0) {
        return refuse(store, name, "cannot open the directory of", why);
    }
    const int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const int error = errno;
    close(directory);
    if (fd < 0) {
        errno = error;
        /* ESTALE: replaced meanwhile on a network file system. */
        const bool is_missing = error == ENOENT || error == ESTALE;
        return is_missing ? TT_IN_PROGRESS : refuse(store, name, "cannot open", why);
    }
    const tt_status status = take(store, fd, name, blob, why);
    close(fd);
    return status;
}

tt_status tt_mesh_file_store_get(const tt_mesh_file_store *store, const char *key,
                                 uint64_t deadline_ns, tt_mesh_blob *blob, tt_launch_why *why)
{
    char name[NAME_BYTES];
    uint64_t sleep_ns = poll_ns_first;
    TT_TRY(name_of(store, key, name, why));
    for (;;) {
        const tt_status status = look(store, name, blob, why);
        if (status != TT_IN_PROGRESS) {
            return status;
        }
        if (tt_launch_wait_time(sleep_ns, deadline_ns) != TT_OK) {
            return tt_launch_fail(
                why, TT_ERR_TIMED_OUT,
                "rendezvous file://%.300s: %s did not appear in time; check that all "
                "ranks see this directory and that rank 0, which writes it, runs",
                store->path, name);
        }
        sleep_ns = tt_min_u64(2 * sleep_ns, poll_ns_max);
    }
}

void tt_mesh_file_store_remove(const tt_mesh_file_store *store, const char *key)
{
    char name[NAME_BYTES];
    tt_launch_why ignored;
    const int directory = open_directory(store);
    if (directory >= 0 && name_of(store, key, name, &ignored) == TT_OK) {
        (void)unlinkat(directory, name, 0);
    }
    if (directory >= 0) {
        close(directory);
    }
}

/* Is `name`, whole or still aside, of this job and an earlier incarnation? */
static bool is_stale(const tt_mesh_file_store *store, const char *name)
{
    char prefix[32];
    uint64_t incarnation;
    const char *at = name[0] == '.' ? name + 1 : name;
    (void)snprintf(prefix, sizeof(prefix), "tutti.%016" PRIx64 ".", store->job);
    if (strncmp(at, prefix, strlen(prefix)) != 0) {
        return false;
    }
    at += strlen(prefix);
    const size_t digits = strspn(at, "0123456789");
    return at[digits] == '.' && tt_launch_parse_number(at, digits, UINT32_MAX, &incarnation) &&
           incarnation < store->incarnation;
}

size_t tt_mesh_file_store_sweep(const tt_mesh_file_store *store)
{
    size_t removed = 0;
    DIR *directory = opendir(store->path);
    if (directory == NULL) {
        return 0;
    }
    for (const struct dirent *each; (each = readdir(directory)) != NULL;) {
        if (is_stale(store, each->d_name) && unlinkat(dirfd(directory), each->d_name, 0) == 0) {
            removed++;
        }
    }
    (void)closedir(directory);
    return removed;
}
