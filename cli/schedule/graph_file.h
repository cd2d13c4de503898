/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_file.h - dataflow graphs from files, and back.
 *
 * JSON: {"tensors": [{"name": "w", "bytes": 1024}, ...],
 *        "ops": [{"id": "recv/w", "kind": "recv", "tensor": "w"},
 *                {"id": "conv", "kind": "compute", "phase": "forward", "time_us": 12.5,
 *                 "after": ["recv/w"]}, ...]}
 * kind is compute (the default), recv or send; phase is forward (the default) or backward.
 *
 * Traces: lines of name, elements, first use and readiness in microseconds, separated by tabs,
 * after two comments with forward_us= and backward_us=.
 *
 * Layer:   cli.
 * Threads: pure, but for the reading of files.
 * Memory:  the caller destroys what it gets.
 */
#ifndef TUTTI_CLI_SCHEDULE_GRAPH_FILE_H
#define TUTTI_CLI_SCHEDULE_GRAPH_FILE_H

#include <stdio.h>

#include "model/model.h"

/* Parse the bytes of such a file. On failure `why` names cause and place; on success it may hold a
 * remark: that times of a trace lay outside their pass and were moved to its edge. */
tt_status tt_graph_read_json(const char *text, size_t bytes, tt_text *why, tt_graph **graph_out);
tt_status tt_graph_read_trace(const char *text, size_t bytes, tt_text *why, tt_graph **graph_out);

/* Whether the name ends in .json or .tsv: all others are those of networks. */
bool tt_graph_is_file(const char *name);

/* Such a file, or a known network; `config` is for a network. */
tt_status tt_graph_load(const char *name, const tt_network_config *config, tt_text *why,
                        tt_graph **graph_out);

/* As JSON. False if it could not be written. */
bool tt_graph_write_json(const tt_graph *graph, FILE *stream);

#endif
