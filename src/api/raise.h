/* SPDX-License-Identifier: Apache-2.0
 *
 * raise.h - an error about no context, for files that do not see contexts.
 *
 * Layer:   api, private.
 * Threads: any; the text is the calling thread's.
 * Memory:  none.
 */
#ifndef TUTTI_API_RAISE_H
#define TUTTI_API_RAISE_H

#include "tutti/tutti.h"

/* Leave `text` for tutti_last_error(NULL); returns `status`. */
tutti_status tt_error_raise(tutti_status status, const char *text);

#endif
