/* SPDX-License-Identifier: Apache-2.0
 *
 * secret_file_fuzz.c - any bytes as a key file: descriptor, file, store and (hex) environment
 * agree whether they hold a key, and on the key; no text shows it.
 *
 * Labels: transport */
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "transport/secure/secret.h"

enum { HEX_BYTES = 2 * TT_SECRET_BYTES };

typedef struct variable {
    const char *name, *value;
} variable;

static const char *lookup(void *user, const char *name)
{
    const variable *only = user;
    return only->value != NULL && strcmp(only->name, name) == 0 ? only->value : NULL;
}

static void forget(void *user, const char *name)
{
    (void)user;
    (void)name;
}

static void no_random(void *user, uint8_t *bytes, size_t count)
{
    (void)user;
    memset(bytes, 0, count);
}

/* The text shows neither the key nor the contents of the source. */
static void check_text(const char *text, const tt_secret *secret)
{
    char hex[HEX_BYTES + 1];
    TT_ASSERT(memchr(text, 0, TT_SECRET_TEXT_BYTES) != NULL);
    (void)sodium_bin2hex(hex, sizeof(hex), secret->key, sizeof(secret->key));
    hex[16] = 0;
    TT_ASSERT(strstr(text, hex) == NULL);
}

static tt_status find(variable only, const uint8_t *blob, size_t blob_bytes, tt_secret *secret)
{
    char text[TT_SECRET_TEXT_BYTES];
    const tt_secret_sources sources = {.lookup = lookup,
                                       .forget = forget,
                                       .user = &only,
                                       .blob = blob,
                                       .blob_bytes = blob_bytes,
                                       .random = {.fill = no_random}};
    memset(secret, 0, sizeof(*secret));
    const tt_status status = tt_secret_find(&sources, secret, text);
    TT_ASSERT(status == TT_OK || status == TT_ERR_REFUSED);
    TT_ASSERT(status == TT_OK || text[0] != 0);
    if (status == TT_OK) {
        check_text(text, secret);
        tt_secret_describe(&sources, text);
        check_text(text, secret);
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char number[16], path[] = "/tmp/tutti-secret-fuzz-XXXXXX", text[HEX_BYTES + 2] = "";
    const int descriptor = memfd_create("fuzz", MFD_CLOEXEC), file = mkstemp(path);
    tt_secret by_descriptor, by_file, by_blob, by_text;
    TT_ASSERT(descriptor >= 0 && file >= 0);
    TT_ASSERT(write(descriptor, data, size) == (ssize_t)size);
    TT_ASSERT(write(file, data, size) == (ssize_t)size);
    (void)snprintf(number, sizeof(number), "%d", descriptor);
    const tt_status status =
        find((variable){.name = "TUTTI_SECRET_FD", .value = number}, NULL, 0, &by_descriptor);
    TT_ASSERT(find((variable){.name = "TUTTI_SECRET_FILE", .value = path}, NULL, 0, &by_file) ==
              status);
    TT_ASSERT(find((variable){.name = ""}, data, size, &by_blob) == status);
    TT_ASSERT(memcmp(by_descriptor.key, by_file.key, sizeof(by_file.key)) == 0);
    TT_ASSERT(memcmp(by_descriptor.key, by_blob.key, sizeof(by_blob.key)) == 0);
    if (size == HEX_BYTES && memchr(data, 0, size) == NULL) {
        memcpy(text, data, size);
        TT_ASSERT(find((variable){.name = "TUTTI_SECRET", .value = text}, NULL, 0, &by_text) ==
                  status);
        TT_ASSERT(memcmp(by_descriptor.key, by_text.key, sizeof(by_text.key)) == 0);
    }
    (void)close(descriptor);
    (void)close(file);
    (void)unlink(path);
    return 0;
}
