/* SPDX-License-Identifier: Apache-2.0
 *
 * descriptor.h - descriptors that are passed on to ranks, and the limit on open files.
 *
 * Layer:   cli.
 * Threads: any.
 */
#ifndef TUTTI_CLI_RUN_DESCRIPTOR_H
#define TUTTI_CLI_RUN_DESCRIPTOR_H

#include <stddef.h>

/* Move `fd` (which is closed) to a number that shells leave alone; close-on-exec. -1 with errno. */
int tt_descriptor_raise(int fd);

/* strerror, with the limit and the cure where an error means that descriptors ran out. */
void tt_descriptor_explain(int error, char *text, size_t text_bytes);

#endif
