/* SPDX-License-Identifier: Apache-2.0
 *
 * fit_report.h - which numbers of a fit were determined, and how well each line is modelled.
 *
 * Layer:   cli.
 * Threads: one at a time per stream.
 * Memory:  none taken.
 */
#ifndef TUTTI_CLI_CLUSTER_FIT_REPORT_H
#define TUTTI_CLI_CLUSTER_FIT_REPORT_H

#include <stdio.h>

#include "cli/cluster/cluster_fit.h"

void tt_fit_print(const tt_fit *fit, FILE *stream);

#endif
