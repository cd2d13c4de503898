/* SPDX-License-Identifier: Apache-2.0
 *
 * forms.h - one collective in all its forms, on a real context, against the oracle.
 *
 * Forms: out of place, in place, allocated by the library, scaled, uneven; each in private and in
 * shared memory, aligned and not, differently on every rank.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_CONFORMANCE_FORMS_H
#define TUTTI_TESTS_CONFORMANCE_FORMS_H

#include "conformance/oracle.h"
#include "conformance/ranks.h"

/* True: the collective has parts that may be uneven. */
bool forms_has_parts(tutti_collective collective);
/* Run all forms of (collective, dtype, op, count); `*salt` counts them and varies root and memory.
 */
void forms_run(ranks_self *self, oracle_case one, uint64_t *salt);

#endif
