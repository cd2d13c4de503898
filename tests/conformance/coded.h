/* SPDX-License-Identifier: Apache-2.0
 *
 * coded.h - ranks that run one stage of a coded exchange each, over the shuffle driver: a machine
 * of flow and exec alone. And the oracle: what every rank must have at the end, block by block.
 *
 * Layer:   tests.
 */
#ifndef TUTTI_TESTS_CONFORMANCE_CODED_H
#define TUTTI_TESTS_CONFORMANCE_CODED_H

#include "aggregate/aggregate.h"
#include "codec/codec.h"
#include "platform/shuffle.h"

enum { CODED_RANKS_MAX = 9 };

typedef struct coded_config {
    uint32_t size;
    uint64_t seed;
    uint32_t segment_bytes, eager_bytes_max;
    uint32_t hands;
    bool has_threads; /* each hand is one */
    bool is_rushed;   /* a more urgent op is pretended: work is done in short steps */
} coded_config;

/* A call: the same on all ranks. */
typedef struct coded_call {
    const tt_codec_spec *codec;
    tt_collective collective; /* ALLREDUCE, REDUCESCATTER */
    tt_dtype dtype;
    tt_redop redop;
    uint64_t count;               /* elements; reducescatter: of one part, if parts are equal */
    const uint64_t *part_offsets; /* reducescatter: in bytes, [size + 1], or NULL */
    float prescale;
    double postscale;
} coded_call;

/* One rank's memory. */
typedef struct coded_buffers {
    const void *input;
    void *output; /* may be the input */
    const float *residual, *owner_residual;
    float *residual_out, *owner_residual_out;
    uint64_t uncoded; /* out */
} coded_buffers;

/* A frame of data that arrives at `rank`: may change its payload, or the length in its head. */
typedef void coded_tamper(void *user, uint32_t rank, uint32_t peer, tt_head *head,
                          uint8_t *payload);

typedef struct coded_job coded_job;

coded_job *coded_job_create(const coded_config *config);
/* False: memory was left behind. */
bool coded_job_destroy(coded_job *job);
void coded_job_tamper(coded_job *job, coded_tamper *tamper, void *user);
uint64_t coded_job_allocations(const coded_job *job);

/* Plan `call`, which later runs make. */
void coded_job_plan(coded_job *job, const coded_call *call);
/* Run it on all ranks, which begin at different times. Ranks that cannot end are stopped. */
void coded_job_run(coded_job *job, coded_buffers *buffers);
/* Of the last run. TT_IN_PROGRESS: it was stopped. */
tt_status coded_job_status(const coded_job *job, uint32_t rank, uint32_t *culprit_out);

/* The seed of a rank's random draws. */
tt_codec_draw coded_draw(uint32_t rank);

/* Elements of a rank's input, of its output, and of the slice that it owns. */
uint64_t coded_input_count(const coded_call *call, uint32_t size);
uint64_t coded_output_count(const coded_call *call, uint32_t size, uint32_t rank);
uint64_t coded_slice_count(const coded_call *call, uint32_t size, uint32_t rank,
                           uint64_t *first_out);

/* The oracle: fills outputs and new residuals of all ranks, and counts what could not be coded. */
void coded_expect(const coded_call *call, uint32_t size, coded_buffers *buffers);

#endif
