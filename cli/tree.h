/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.h - the processes below this one, however they were started.
 *
 * A caller that made itself the subreaper of its descendants (tt_tree_adopt) inherits every orphan
 * below it, also those that left their session or process group. So "no child left" means
 * "nothing left".
 *
 * Layer:   cli.
 * Threads: one at a time.
 */
#ifndef TUTTI_CLI_TREE_H
#define TUTTI_CLI_TREE_H

#include <stdbool.h>
#include <sys/types.h>

/* From now on orphaned descendants become children of this process. */
void tt_tree_adopt(void);

/* Kill every descendant seen now. New ones may be born meanwhile: call until none is left. */
void tt_tree_kill(void);

/* Reap all that are left, killing again and again, for at most `seconds`.
 * False: something could not be killed in time. */
bool tt_tree_destroy(double seconds);

#endif
