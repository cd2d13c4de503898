/* SPDX-License-Identifier: Apache-2.0
 *
 * programs.c - calls of several stages are those of the conformance suite. */
#include "conformance/programs.c"
