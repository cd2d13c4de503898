/* SPDX-License-Identifier: Apache-2.0
 *
 * secret.c - find, check and derive the job key.
 *
 * The user's key is made under a name of its own and then linked to its place: link() is atomic
 * (over NFS too) and fails if another rank was first, so that no rank ever reads half a key. */
#include "transport/secure/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"

enum {
    HEX_BYTES = 2 * TT_SECRET_BYTES,
    RAW_BYTES_MAX = HEX_BYTES + 2, /* one more than with a newline: a longer key is an error */
    PATH_BYTES = PATH_MAX,
    FINGERPRINT_BYTES = 4,
};

__attribute__((format(printf, 2, 3))) static void say(char *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, TT_SECRET_TEXT_BYTES, format, arguments);
    va_end(arguments);
}

static bool is_hex_form(size_t count, const uint8_t *bytes)
{
    return count == HEX_BYTES || (count == HEX_BYTES + 1 && bytes[HEX_BYTES] == '\n');
}

/* 32 raw bytes, or 64 hex digits and at most one newline. An all-zero key is refused. */
static bool parse_key(const uint8_t *bytes, size_t count, uint8_t key_out[TT_SECRET_BYTES])
{
    uint8_t key[TT_SECRET_BYTES];
    size_t key_bytes = 0;

    if (count == TT_SECRET_BYTES) {
        memcpy(key, bytes, sizeof(key));
        key_bytes = sizeof(key);
    } else if (is_hex_form(count, bytes) &&
               sodium_hex2bin(key, sizeof(key), (const char *)bytes, HEX_BYTES, NULL, &key_bytes,
                              NULL) != 0) {
        key_bytes = 0;
    }
    const bool good = key_bytes == sizeof(key) && !sodium_is_zero(key, sizeof(key));
    if (good) {
        memcpy(key_out, key, sizeof(key));
    }
    sodium_memzero(key, sizeof(key));
    return good;
}

/* Reads to the end of the stream; false if that fails or there is no key in it. */
static bool read_key(int fd, uint8_t key_out[TT_SECRET_BYTES])
{
    uint8_t bytes[RAW_BYTES_MAX];
    size_t count = 0;
    ssize_t got = 1;

    while (count < sizeof(bytes) && got != 0) {
        got = read(fd, bytes + count, sizeof(bytes) - count);
        if (got < 0 && errno != EINTR) {
            break;
        }
        count += got > 0 ? (size_t)got : 0;
    }
    const bool good = got == 0 && parse_key(bytes, count, key_out);
    sodium_memzero(bytes, sizeof(bytes));
    return good;
}

static tt_status from_descriptor(const tt_secret_sources *sources, const char *value,
                                 tt_secret *secret, char *text)
{
    char *end = NULL;
    const long number = strtol(value, &end, 10);

    if (value[0] < '0' || value[0] > '9' || *end != '\0' || number > INT_MAX) {
        say(text, "TUTTI_SECRET_FD is not a descriptor number; the launcher must pass one");
        return TT_ERR_REFUSED;
    }
    /* A file can be read again by the next context of this process; a pipe is used up. */
    const bool is_file = lseek((int)number, 0, SEEK_SET) == 0;
    const bool good = read_key((int)number, secret->key);
    if (is_file) {
        (void)fcntl((int)number, F_SETFD, FD_CLOEXEC);
    } else {
        (void)close((int)number);
        sources->forget(sources->user, "TUTTI_SECRET_FD");
    }
    if (!good) {
        say(text,
            "TUTTI_SECRET_FD=%ld holds no key; the launcher must write 32 bytes or 64 hex digits "
            "to it and close it",
            number);
        return TT_ERR_REFUSED;
    }
    secret->origin = TT_SECRET_FROM_DESCRIPTOR;
    return TT_OK;
}

/* Owner, kind and mode of an open key file. */
static bool is_private_file(int fd, const char *path, char *text)
{
    struct stat status;

    if (fstat(fd, &status) != 0) {
        say(text, "cannot stat secret file %.300s: %s", path, strerror(errno));
        return false;
    }
    if (!S_ISREG(status.st_mode)) {
        say(text, "secret file %.300s is not a regular file", path);
        return false;
    }
    if (status.st_uid != geteuid()) {
        say(text, "secret file %.300s belongs to uid %u, not to you (uid %u); make your own copy",
            path, (unsigned)status.st_uid, (unsigned)geteuid());
        return false;
    }
    if ((status.st_mode & 077) != 0) {
        say(text, "secret file %.300s has mode %04o: others may read it; run: chmod 600 %.100s",
            path, (unsigned)(status.st_mode & 07777), path);
        return false;
    }
    return true;
}

/* TT_IN_PROGRESS: there is no such file. */
static tt_status load_key_file(const char *path, uint8_t key_out[TT_SECRET_BYTES], char *text)
{
    /* O_NONBLOCK: a FIFO put in its place must not block this rank. */
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) {
        const int error = errno;
        say(text, "cannot open secret file %.300s: %s; TUTTI_SECRET_FILE names another", path,
            error == ELOOP ? "it is a symbolic link, name the file itself" : strerror(error));
        return error == ENOENT ? TT_IN_PROGRESS : TT_ERR_REFUSED;
    }
    const bool private_file = is_private_file(fd, path, text);
    const bool good = private_file && read_key(fd, key_out);
    (void)close(fd);
    if (private_file && !good) {
        say(text, "secret file %.300s holds no key: need 32 bytes or 64 hex digits, not all zero",
            path);
    }
    return good ? TT_OK : TT_ERR_REFUSED;
}

static tt_status from_file(const char *path, tt_secret *secret, char *text)
{
    if (load_key_file(path, secret->key, text) != TT_OK) {
        return TT_ERR_REFUSED;
    }
    secret->origin = TT_SECRET_FROM_FILE;
    return TT_OK;
}

static tt_status from_environment(const tt_secret_sources *sources, const char *value,
                                  tt_secret *secret, char *text)
{
    const size_t count = strlen(value);
    const bool good = count == HEX_BYTES && parse_key((const uint8_t *)value, count, secret->key);

    sources->forget(sources->user, "TUTTI_SECRET");
    if (!good) {
        say(text, "TUTTI_SECRET is not a key: need 64 hex digits; better, put them in a file of "
                  "mode 600 and set TUTTI_SECRET_FILE");
        return TT_ERR_REFUSED;
    }
    secret->origin = TT_SECRET_FROM_ENVIRONMENT;
    say(text, "the job secret came in the environment (TUTTI_SECRET), where other processes and "
              "scheduler logs may see it; use TUTTI_SECRET_FILE");
    return TT_OK;
}

static tt_status from_blob(const tt_secret_sources *sources, tt_secret *secret, char *text)
{
    if (!parse_key(sources->blob, sources->blob_bytes, secret->key)) {
        say(text,
            "the launcher's key-value store holds no job key: need 32 bytes or 64 hex digits");
        return TT_ERR_REFUSED;
    }
    secret->origin = TT_SECRET_FROM_CALLER;
    return TT_OK;
}

/* "<config>", and room to append; only absolute paths count, as the XDG rules say. */
static bool find_config_directory(const tt_secret_sources *sources, char directory[PATH_BYTES],
                                  char *text)
{
    const char *config = sources->lookup(sources->user, "XDG_CONFIG_HOME");
    const bool xdg = config != NULL && config[0] == '/';
    const char *base = xdg ? config : sources->lookup(sources->user, "HOME");

    if (base == NULL || base[0] != '/') {
        say(text, "no job secret: set TUTTI_SECRET_FILE to a file of mode 600 that every rank can "
                  "read, or set HOME, or start the ranks with tutti run");
        return false;
    }
    const int length = snprintf(directory, PATH_BYTES, "%s%s", base, xdg ? "" : "/.config");
    if (length < 0 || length >= PATH_BYTES - 64) {
        say(text, "the path of your configuration directory is too long; set TUTTI_SECRET_FILE");
        return false;
    }
    return true;
}

/* "<config>/tutti", made if absent. */
static bool find_user_directory(const tt_secret_sources *sources, char directory[PATH_BYTES],
                                char *text)
{
    if (!find_config_directory(sources, directory, text)) {
        return false;
    }
    (void)mkdir(directory, 0700); /* if it fails, the next mkdir reports the cause */
    memcpy(directory + strlen(directory), "/tutti", sizeof("/tutti"));
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        say(text, "cannot make %.300s: %s; set TUTTI_SECRET_FILE", directory, strerror(errno));
        return false;
    }
    return true;
}

static bool write_new_key(int fd, const tt_noise_random *random)
{
    uint8_t key[TT_SECRET_BYTES];
    char line[HEX_BYTES + 1];

    random->fill(random->user, key, sizeof(key));
    (void)sodium_bin2hex(line, sizeof(line), key, sizeof(key));
    line[HEX_BYTES] = '\n'; /* in place of the terminator */
    const bool good = write(fd, line, sizeof(line)) == (ssize_t)sizeof(line) && fsync(fd) == 0;
    sodium_memzero(key, sizeof(key));
    sodium_memzero(line, sizeof(line));
    return good;
}

/* Makes the key file, or finds that another process was first; both are success. */
static bool create_user_key(const tt_noise_random *random, const char *path, char *text)
{
    uint8_t unique[8];
    char suffix[2 * sizeof(unique) + 1];
    char fresh[PATH_BYTES];

    random->fill(random->user, unique, sizeof(unique));
    (void)sodium_bin2hex(suffix, sizeof(suffix), unique, sizeof(unique));
    const int length = snprintf(fresh, sizeof(fresh), "%s.%s", path, suffix);
    TT_ASSERT(length > 0 && length < PATH_BYTES);
    const int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        say(text, "cannot make %.300s: %s; set TUTTI_SECRET_FILE", fresh, strerror(errno));
        return false;
    }
    const bool written = write_new_key(fd, random);
    const bool placed = written && (link(fresh, path) == 0 || errno == EEXIST);
    if (!placed) {
        say(text, "cannot write %.300s: %s; set TUTTI_SECRET_FILE", path, strerror(errno));
    }
    (void)close(fd);
    (void)unlink(fresh);
    return placed;
}

static tt_status from_user_key(const tt_secret_sources *sources, tt_secret *secret, char *text)
{
    char path[PATH_BYTES];
    uint8_t user_key[TT_SECRET_BYTES];

    if (sources->job_id == NULL || sources->job_id[0] == '\0') {
        say(text, "no job secret and no job id to derive one from: set TUTTI_SECRET_FILE to a file "
                  "of mode 600 that every rank can read, or start the ranks with tutti run");
        return TT_ERR_REFUSED;
    }
    if (!find_user_directory(sources, path, text)) {
        return TT_ERR_REFUSED;
    }
    memcpy(path + strlen(path), "/key", sizeof("/key")); /* find_user_directory left room */
    tt_status status = load_key_file(path, user_key, text);
    if (status == TT_IN_PROGRESS) {
        if (!create_user_key(&sources->random, path, text)) {
            return TT_ERR_REFUSED;
        }
        status = load_key_file(path, user_key, text);
    }
    if (status != TT_OK) {
        return TT_ERR_REFUSED;
    }
    crypto_generichash(secret->key, sizeof(secret->key), (const uint8_t *)sources->job_id,
                       strlen(sources->job_id), user_key, sizeof(user_key));
    sodium_memzero(user_key, sizeof(user_key));
    secret->origin = TT_SECRET_FROM_USER_KEY;
    return TT_OK;
}

static const char *lookup_set(const tt_secret_sources *sources, const char *name)
{
    const char *value = sources->lookup(sources->user, name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

static tt_status find(const tt_secret_sources *sources, tt_secret *secret, char *text)
{
    const char *value = lookup_set(sources, "TUTTI_SECRET_FD");

    if (value != NULL) {
        return from_descriptor(sources, value, secret, text);
    }
    value = lookup_set(sources, "TUTTI_SECRET_FILE");
    if (value != NULL) {
        return from_file(value, secret, text);
    }
    value = lookup_set(sources, "TUTTI_SECRET");
    if (value != NULL) {
        return from_environment(sources, value, secret, text);
    }
    if (sources->blob != NULL) {
        return from_blob(sources, secret, text);
    }
    return from_user_key(sources, secret, text);
}

tt_status tt_secret_find(const tt_secret_sources *sources, tt_secret *secret_out, char *text_out)
{
    tt_secret secret;

    TT_ASSERT(sources->lookup != NULL);
    TT_ASSERT(sources->forget != NULL);
    TT_ASSERT(sources->random.fill != NULL);
    memset(&secret, 0, sizeof(secret));
    text_out[0] = '\0';
    const tt_status status = find(sources, &secret, text_out);
    if (status == TT_OK) {
        *secret_out = secret;
        if (secret.origin != TT_SECRET_FROM_ENVIRONMENT) {
            text_out[0] = '\0'; /* "no such file" no longer matters once the key is made */
        }
    }
    sodium_memzero(&secret, sizeof(secret));
    return status;
}

/* ", fingerprint 1f2e3d4c": a keyed hash, from which 256 random bits cannot be recovered. */
static void add_fingerprint(const uint8_t key[TT_SECRET_BYTES], char *text)
{
    static const uint8_t message[] = "tutti secret fingerprint";
    uint8_t hash[crypto_generichash_BYTES_MIN];
    char hex[2 * FINGERPRINT_BYTES + 1];
    const size_t length = strlen(text);

    crypto_generichash(hash, sizeof(hash), message, sizeof(message) - 1, key, TT_SECRET_BYTES);
    (void)sodium_bin2hex(hex, sizeof(hex), hash, FINGERPRINT_BYTES);
    (void)snprintf(text + length, TT_SECRET_TEXT_BYTES - length, ", fingerprint %s", hex);
}

/* A pipe is not read: its rank can read it only once. */
static void describe_descriptor(const char *value, uint8_t key[TT_SECRET_BYTES], char *text)
{
    uint8_t bytes[RAW_BYTES_MAX];
    char *end = NULL;
    const long number = strtol(value, &end, 10);
    const bool is_number = *end == '\0' && number >= 0 && number <= INT_MAX;
    const ssize_t count = is_number ? pread((int)number, bytes, sizeof(bytes), 0) : -1;

    say(text, "TUTTI_SECRET_FD %.20s", value);
    if (count > 0 && parse_key(bytes, (size_t)count, key)) {
        add_fingerprint(key, text);
    }
    sodium_memzero(bytes, sizeof(bytes));
}

static void describe_file(const char *kind, const char *path, uint8_t key[TT_SECRET_BYTES],
                          char *text)
{
    const tt_status status = load_key_file(path, key, text);

    if (status == TT_OK) {
        say(text, "%s %.300s", kind, path);
        add_fingerprint(key, text);
    }
}

static void describe_environment(const char *value, uint8_t key[TT_SECRET_BYTES], char *text)
{
    const size_t count = strlen(value);
    const bool good = count == HEX_BYTES && parse_key((const uint8_t *)value, count, key);

    say(text, good ? "TUTTI_SECRET" : "TUTTI_SECRET, which is not a key: need 64 hex digits");
    if (good) {
        add_fingerprint(key, text);
    }
}

static void describe_user_key(const tt_secret_sources *sources, uint8_t key[TT_SECRET_BYTES],
                              char *text)
{
    char path[PATH_BYTES];

    if (!find_config_directory(sources, path, text)) {
        return;
    }
    memcpy(path + strlen(path), "/tutti/key", sizeof("/tutti/key"));
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        say(text, "the user's key %.300s, made when a job first needs it", path);
    } else {
        describe_file("the user's key", path, key, text);
    }
}

void tt_secret_describe(const tt_secret_sources *sources, char text_out[TT_SECRET_TEXT_BYTES])
{
    uint8_t key[TT_SECRET_BYTES];
    const char *value;

    TT_ASSERT(sources->lookup != NULL);
    if ((value = lookup_set(sources, "TUTTI_SECRET_FD")) != NULL) {
        describe_descriptor(value, key, text_out);
    } else if ((value = lookup_set(sources, "TUTTI_SECRET_FILE")) != NULL) {
        describe_file("TUTTI_SECRET_FILE", value, key, text_out);
    } else if ((value = lookup_set(sources, "TUTTI_SECRET")) != NULL) {
        describe_environment(value, key, text_out);
    } else {
        describe_user_key(sources, key, text_out);
    }
    sodium_memzero(key, sizeof(key));
}

void tt_secret_wipe(tt_secret *secret)
{
    sodium_memzero(secret, sizeof(*secret));
}
