/* SPDX-License-Identifier: Apache-2.0
 *
 * costs_file.c - where a table of costs is kept: a file of the user's, or one per machine below
 * the cache folder.
 *
 * The cache's file is replaced atomically (write a temporary file, rename), after its current lines
 * were merged in: jobs that measure at the same time lose a measurement at worst, never the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api_internal.h"
#include "api/measure.h"
#include "kernel/hash64.h"

enum { FACT_BYTES_MAX = 4096, MEASURED_SEED = 2 };

/* Bytes read, at most `bytes_max`; -1: cannot be read. */
static ssize_t read_file(const char *path, char *bytes_out, size_t bytes_max)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t count = 0;
    ssize_t got = -1;
    while (fd >= 0 && count < bytes_max &&
           ((got = read(fd, bytes_out + count, bytes_max - count)) > 0 ||
            (got < 0 && errno == EINTR))) {
        count += got > 0 ? (size_t)got : 0;
    }
    const int error = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = error;
    return fd < 0 || got < 0 ? -1 : (ssize_t)count;
}

tt_status tt_costs_file_read(const char *path, tt_costs *costs_out, tt_text *why)
{
    char *text = malloc(TT_COSTS_TEXT_BYTES_MAX + 1);
    costs_out->line_count = 0;
    if (text == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    const ssize_t bytes = read_file(path, text, TT_COSTS_TEXT_BYTES_MAX + 1);
    tt_status status = TT_ERR_SYSTEM;
    if (bytes >= 0) {
        status = tt_costs_parse(text, (size_t)bytes, costs_out, why);
    } else {
        tt_text_add(why, "%s", strerror(errno));
    }
    free(text);
    return status;
}

/* ---- the cache ---- */

/* Hash of a line of a system file that distinguishes machines; `seed` if there is none. */
static uint64_t fact_hash(const char *path, const char *prefix, uint64_t seed)
{
    char *text = calloc(1, FACT_BYTES_MAX + 1);
    const ssize_t bytes = text != NULL ? read_file(path, text, FACT_BYTES_MAX) : -1;
    const char *line = bytes > 0 ? strstr(text, prefix) : NULL;
    const uint64_t hash = line != NULL ? tt_hash64(line, strcspn(line, "\n"), seed) : seed;
    free(text);
    return hash;
}

/* Machine, processor, version, and the settings that change what calls cost. Increment the seed
 * when the way of measuring changes. */
static uint64_t machine_key(const tt_settings *settings)
{
    char host[256] = "";
    uint64_t key = fact_hash("/etc/machine-id", "", MEASURED_SEED);
    (void)gethostname(host, sizeof(host) - 1);
    key = tt_hash64(host, strlen(host), key);
    key = fact_hash("/proc/cpuinfo", "model name", key);
    key = tt_hash64_mix(key, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    key = tt_hash64(tutti_version(), strlen(tutti_version()), key);
    key = tt_hash64_mix(key, settings->segment_bytes);
    key = tt_hash64_mix(key, settings->eager_bytes);
    key = tt_hash64_mix(key, settings->ring_bytes);
    return tt_hash64_mix(key, (uint64_t)settings->integrity);
}

bool tt_costs_cache_path(const tt_config_source *source, const tt_settings *settings,
                         char path_out[TT_COSTS_PATH_BYTES])
{
    const char *cache = source->lookup(source->user, "XDG_CACHE_HOME");
    const char *home = source->lookup(source->user, "HOME");
    const bool has_cache = cache != NULL && cache[0] == '/';
    if (!has_cache && (home == NULL || home[0] != '/')) {
        return false;
    }
    const int length =
        snprintf(path_out, TT_COSTS_PATH_BYTES, "%s%s/tutti/costs-%016" PRIx64,
                 has_cache ? cache : home, has_cache ? "" : "/.cache", machine_key(settings));
    return length > 0 && length < TT_COSTS_PATH_BYTES;
}

/* Make the last two folders of the path, if need be. */
static void make_folders(const char *path)
{
    char folder[TT_COSTS_PATH_BYTES];
    (void)snprintf(folder, sizeof(folder), "%s", path);
    char *last = strrchr(folder, '/');
    *last = '\0';
    char *above = strrchr(folder, '/');
    if (above != NULL && above != folder) {
        *above = '\0';
        (void)mkdir(folder, 0700);
        *above = '/';
    }
    (void)mkdir(folder, 0700);
}

bool tt_costs_cache_is_writable(const char *path)
{
    char folder[TT_COSTS_PATH_BYTES];
    make_folders(path);
    (void)snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    return access(folder, W_OK | X_OK) == 0;
}

static tt_status write_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t written = write(fd, bytes, count);
        if (written < 0 && errno != EINTR) {
            return TT_ERR_SYSTEM;
        }
        bytes += written > 0 ? written : 0;
        count -= written > 0 ? (size_t)written : 0;
    }
    return TT_OK;
}

static tt_status replace_file(const char *path, const char *text, size_t bytes)
{
    char beside[TT_COSTS_PATH_BYTES + 8];
    (void)snprintf(beside, sizeof(beside), "%s.XXXXXX", path);
    const int fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0) {
        return TT_ERR_SYSTEM;
    }
    tt_status status = write_all(fd, text, bytes);
    if (close(fd) != 0) {
        status = TT_ERR_SYSTEM;
    }
    if (status == TT_OK && rename(beside, path) != 0) {
        status = TT_ERR_SYSTEM;
    }
    if (status != TT_OK) {
        (void)unlink(beside);
    }
    return status;
}

tt_status tt_costs_cache_save(const char *path, const tt_costs *costs)
{
    tt_text why = {0};
    tt_costs *merged = calloc(1, sizeof(*merged));
    char *text = malloc(TT_COSTS_TEXT_BYTES_MAX);
    tt_status status = TT_ERR_NO_MEMORY;
    if (merged != NULL && text != NULL) {
        if (tt_costs_file_read(path, merged, &why) != TT_OK) {
            merged->line_count = 0;
        }
        for (uint32_t i = 0; i < costs->line_count; i++) {
            if (tt_costs_put(merged, &costs->lines[i]) != TT_OK) { /* full: keep the new lines */
                *merged = *costs;
                break;
            }
        }
        status = replace_file(path, text, tt_costs_format(merged, text));
    }
    free(text);
    free(merged);
    return status;
}
