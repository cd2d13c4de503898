/* SPDX-License-Identifier: Apache-2.0
 *
 * coded_oracle.c - the oracle of coded sums is that of the conformance suite. */
#include "conformance/coded_oracle.c"
