/* SPDX-License-Identifier: Apache-2.0
 *
 * coded_sum_oracle.c - the oracle of sums of levels is that of the conformance suite, too. */
#include "conformance/coded_sum_oracle.c"
