/* SPDX-License-Identifier: Apache-2.0
 *
 * library.h - all that the program knows about the library's TUTTI_* variables.
 *
 * Layer:   cli.
 * Threads: const.
 */
#ifndef TUTTI_CLI_LIBRARY_H
#define TUTTI_CLI_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

typedef struct tt_library_variable {
    char name[48];            /* "TUTTI_TRANSPORT" */
    const char *default_text; /* "" if it has none */
    const char *help;         /* one sentence */
    char accepted[512];       /* what the library accepts */
    bool is_secret;           /* its value is never shown */
    bool is_set_by_launcher;  /* users read it but do not set it */
} tt_library_variable;

/* Entry `index`: first those of the launcher contract, then the settings of a context. False
 * beyond the last. */
bool tt_library_variable_at(size_t index, tt_library_variable *variable_out);
/* What may be shown of its value here: never a secret. NULL where it is not set. */
const char *tt_library_variable_show(const tt_library_variable *variable);
/* Where a job's secret would come from, and its fingerprint. */
void tt_library_secret(char *text, size_t text_bytes);

typedef void tt_library_report(void *user, const char *name, const char *nearest);
/* Every TUTTI_* variable of this process that the library does not know; `nearest` may be NULL. */
void tt_library_find_unknown(tt_library_report *report, void *user);
/* Report every value in this process that tutti_init would refuse. Returns how many. */
size_t tt_library_find_bad(void (*report)(void *user, const char *sentence), void *user);

/* The rank that the library would derive from the environment. */
typedef struct tt_library_place {
    bool is_launched; /* a launcher gave this process a rank */
    bool is_broken;   /* the variables are invalid; `text` has the cause and the cure */
    char text[1024];
    char warning[1024]; /* "" if there is none */
} tt_library_place;

void tt_library_place_find(tt_library_place *place_out);

/* The same in parts. Numbers are -1 if unknown; texts last as long as the program. */
typedef struct tt_library_identity {
    int rank, size, local_rank, local_size, cross_rank, cross_size;
    int servers;      /* of `size`, the last so many */
    const char *role; /* "worker" or "server"; "" in a job without servers */
    const char *family, *evidence;
    const char *ignored[32]; /* other launchers whose variables are set */
    size_t ignored_count;
    char rendezvous[1100], job_id[256];
    char why[1024];     /* "", or cause and cure: then the other fields are not set */
    char warning[1024]; /* "" if there is none */
} tt_library_identity;

void tt_library_identity_find(tt_library_identity *identity_out);
/* The index-th known launcher, in order of precedence; NULL beyond the last. */
const char *tt_library_launcher_at(size_t index, const char **evidence_out);

/* Node `index` of Slurm's lists of names and of counts, which may be NULL. False beyond the last,
 * with "" in `why`, or where a list is broken. */
typedef struct tt_library_node {
    char host[256];
    int slots; /* 1 without counts */
    char why[1024];
} tt_library_node;
bool tt_library_node_at(const char *names, const char *counts, uint32_t index,
                        tt_library_node *node_out);

/* A plugin that was found. */
typedef struct tt_library_plugin {
    const char *name; /* "" where it could not be loaded */
    const char *kind; /* "engine", "transport" */
    const char *path;
    const char *summary;
    char version[512]; /* of the library below it */
    const char *why;   /* why it cannot be used, or "" */
} tt_library_plugin;

typedef void tt_library_plugin_visit(void *user, const tt_library_plugin *found);
void tt_library_plugins(tt_library_plugin_visit *visit, void *user);
/* Only those skipped because others could have written them; loads nothing. */
void tt_library_plugins_passed_over(tt_library_plugin_visit *visit, void *user);
/* What TUTTI_ENGINE=mpi means here: "mpi-openmpi". */
const char *tt_library_mpi(void);
/* The plugin that a job started here would load by this name. NULL: it would be refused; `why` has
 * the cause. */
const char *tt_library_plugin_choose(const char *name, bool is_engine, char *why, size_t why_bytes);
/* The user's own folder of plugins; false: there is no home. */
bool tt_library_plugin_home(char *path, size_t path_bytes);

/* The table of costs that a job started here would use, line by line. */
void tt_library_costs(void (*print)(void *user, const char *line), void *user);

/* The algorithm that a call would run, and its time by the table of costs; 0: no prediction.
 * `bytes`: of the vector, or of one rank's part. */
typedef struct tt_library_model {
    const char *algorithm;
    double time_s;
} tt_library_model;
tt_library_model tt_library_predict(tutti_context *context, tutti_collective collective,
                                    uint64_t bytes);

#endif
