/* SPDX-License-Identifier: Apache-2.0
 *
 * cases.c - calls and their oracle are those of the conformance suite. */
#include "conformance/cases.c"
