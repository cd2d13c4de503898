/* SPDX-License-Identifier: Apache-2.0
 *
 * config.h - configuration as data: one typed table per module, read from TUTTI_* variables.
 *
 * A module declares a struct of settings and a table with one entry per member; loading fills the
 * struct from defaults and from the environment. The same table documents accepted values (`tutti
 * config`), finds every bad value (`tutti doctor`) and misspelt variables.
 *
 * Layer:   base; the only reader of the environment.
 * Threads: pure except for the lookup; the default one is getenv.
 * Memory:  none taken; strings are copied into the target.
 */
#ifndef TUTTI_BASE_CONFIG_H
#define TUTTI_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

enum {
    TT_CONFIG_STRING_BYTES = 256, /* the terminating zero included */
};

/* Kind, the C type of the member it fills, and what users write. */
typedef enum tt_config_kind {
    TT_CONFIG_BOOL,    /* bool: 1 0 true false yes no on off */
    TT_CONFIG_INT,     /* int64_t: decimal, with a sign if need be */
    TT_CONFIG_REAL,    /* double: 0.01, 1e-3; finite */
    TT_CONFIG_BYTES,   /* uint64_t: 4096, 64K, 64KB, 1MiB; always powers of 1024 */
    TT_CONFIG_SECONDS, /* uint64_t nanoseconds: 1.5, 200ms, 50us, 2min, 1h; no unit: seconds */
    TT_CONFIG_STRING,  /* tt_config_string */
    TT_CONFIG_ENUM,    /* int: index in `names` */
} tt_config_kind;

typedef char tt_config_string[TT_CONFIG_STRING_BYTES];

/* A REAL is limited by the integers too; 0 and 0 mean no limits. Bytes and seconds use `maximum`
 * in bytes and nanoseconds. */
typedef struct tt_config_entry {
    const char *name; /* without TUTTI_ */
    tt_config_kind kind;
    const char *fallback; /* the default, as a user would write it */
    const char *unit;     /* what an INT or REAL counts; "" otherwise */
    const char *help;     /* one sentence */
    size_t offset;        /* of the member in the target */
    int64_t minimum;
    int64_t maximum;
    const char *const *names; /* ENUM: ends in NULL */

    /* A check beyond the kind. `accepts` NULL: anything; it is not called for "". */
    bool (*accepts)(const char *value);
    const char *accepted; /* what it accepts, for messages; replaces STRING's text */
    void (*list_accepted)(tt_text *text); /* the same where known at run time only */
    bool is_secret;                       /* its value is never shown, not even a wrong one */
} tt_config_entry;

/* One module's part of the configuration, for the printer and the search for typos. */
typedef struct tt_config_table {
    const tt_config_entry *entries;
    size_t entry_count;
} tt_config_table;

/* Where values come from. `name` is complete ("TUTTI_CHUNK"); NULL means not set. */
typedef struct tt_config_source {
    const char *(*lookup)(void *user, const char *name);
    void *user;
} tt_config_source;

extern const tt_config_source tt_config_environment;

/* Fill `target` from defaults and `source`; an empty value counts as not set. At the first bad
 * value it returns TT_ERR_BAD_CONFIG, and `error` names variable, value and what is accepted;
 * `target` is then filled in part. A bad default is a bug of ours and asserts. */
tt_status tt_config_load(const tt_config_table *table, const tt_config_source *source, void *target,
                         tt_text *error);

/* One entry from one text, as load does it. `error` gets only what is accepted. */
tt_status tt_config_set(const tt_config_entry *entry, const char *value, void *target,
                        tt_text *error);

/* What is accepted, as in errors of load. */
void tt_config_describe(const tt_config_entry *entry, tt_text *text);

/* Called per bad value, with the error text of load. */
typedef void tt_config_bad_fn(void *user, const char *sentence);

/* Fill `target` as load does, but continue after a bad value. Returns the number of bad values. */
size_t tt_config_find_bad(const tt_config_table *table, const tt_config_source *source,
                          void *target, tt_config_bad_fn *report, void *user);

/* Called per unknown TUTTI_* variable; `nearest` is a full known name, or NULL if none is near. */
typedef void tt_config_unknown_fn(void *user, const char *name, const char *nearest);

/* Look through `environment` ("NAME=value" strings, ending in NULL). Returns how many are unknown.
 */
size_t tt_config_find_unknown(const tt_config_table *tables, size_t table_count,
                              char *const *environment, tt_config_unknown_fn *report, void *user);

/* The parsers, pure: false, and nothing written, unless all of `text` is a value in range. */
bool tt_config_parse_bool(const char *text, bool *value_out);
bool tt_config_parse_int(const char *text, int64_t *value_out);
bool tt_config_parse_real(const char *text, double *value_out);
bool tt_config_parse_bytes(const char *text, uint64_t *bytes_out);
bool tt_config_parse_seconds(const char *text, uint64_t *ns_out);

#endif
