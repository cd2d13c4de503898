/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_json.c - see schedule_json.h. Names of figures are those of `tutti simulate`. */
#include "cli/schedule/schedule_json.h"

#include <jansson.h>
#include <math.h>

enum { DIGITS = 9 };

/* JSON has no infinity: a step without computation has no rho. */
static json_t *number_of(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Tensors that are not cut have chunks without limit. */
static json_t *bytes_of(uint64_t bytes)
{
    return bytes >= TT_GRAPH_TENSOR_BYTES_MAX ? json_null() : json_integer((json_int_t)bytes);
}

bool tt_schedule_write_json(const tt_schedule_row *row, FILE *stream)
{
    const tt_timetable *plan = row->plan;
    const tt_evaluation *found = row->evaluation;
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:{s:f, s:f, s:f}, s:{s:o, s:f, s:f, s:f}, s:I, s:I, s:o, s:o, "
        "s:{s:f, s:f, s:f}}",
        "graph", row->graph, "policy", row->policy->name, "form",
        plan->form == TT_FORM_SERVER ? "server" : "allreduce", "us", "step", found->step_us,
        "compute", found->compute_us, "network", found->network_us, "metrics", "rho",
        number_of(found->rho), "alpha", found->alpha, "utilisation", found->utilisation,
        "efficiency", found->efficiency, "transfers", (json_int_t)plan->transfer_count, "chunks",
        (json_int_t)found->chunk_count, "chunk_bytes", bytes_of(plan->chunk_bytes), "credit_bytes",
        bytes_of(plan->credit_bytes), "wire", "overhead_us", row->wire->overhead_us, "us_per_byte",
        row->wire->byte_us, "latency_us", row->wire->latency_us);
    const bool is_written = object != NULL &&
                            json_dumpf(object, stream, JSON_REAL_PRECISION(DIGITS)) == 0 &&
                            fputc('\n', stream) != EOF;
    json_decref(object);
    return is_written;
}
