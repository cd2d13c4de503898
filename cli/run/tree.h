/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.h - the processes below this one, however they were started.
 *
 * A caller that made itself the subreaper of its descendants (tt_tree_adopt) inherits every orphan
 * below it, also those that left their session or process group. So "no child left" means
 * "nothing left". They are found in /proc; without it only the process groups that the
 * caller knows can be killed.
 *
 * Layer:   cli.
 * Threads: one at a time.
 */
#ifndef TUTTI_CLI_RUN_TREE_H
#define TUTTI_CLI_RUN_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* From now on orphaned descendants become children of this process. */
void tt_tree_adopt(void);

/* Process groups of which this process started the leaders; an item <= 0 is skipped. */
typedef struct tt_tree_groups {
    pid_t (*leader_at)(void *user, size_t index);
    void *user;
    size_t count;
} tt_tree_groups;

/* Kill every descendant seen now. New ones may start meanwhile: call until none is left.
 * False: there is no /proc, and only `known` were killed. */
bool tt_tree_kill(const tt_tree_groups *known);

/* Reap all that are left, killing again and again, for at most `seconds`.
 * False: something could not be killed in time. */
bool tt_tree_destroy(const tt_tree_groups *known, double seconds);

#endif
