/* SPDX-License-Identifier: Apache-2.0
 *
 * coded.h - ranks that run the stages of a coded call, over the shuffle driver: a machine of flow
 * and exec alone. And the oracle: what every rank must have at the end, block by block.
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
    uint32_t shared_pattern; /* of calls with hosts, bit r: buffers of rank r lie in the arena */
    uint32_t misplaced;      /* this rank, from 1, sends wrong places of its buffers; 0: none */
    bool has_threads;        /* each hand is one */
    bool is_rushed;          /* a more urgent op is pretended: work is done in short steps */
    const char *algorithm;   /* that carries sums of levels; NULL: any */
} coded_config;

/* Ranks that share memory. */
typedef struct coded_hosts {
    uint32_t size; /* ranks */
    uint32_t host_count, rail_count;
    uint32_t host_of[CODED_RANKS_MAX]; /* numbered in the order of their first ranks */
} coded_hosts;

/* A call: the same on all ranks. */
typedef struct coded_call {
    const coded_hosts *hosts; /* NULL: no memory is shared */
    const tt_codec_spec *codec;
    uint32_t owner_block;     /* slices begin at multiples of it; 0: the codec's */
    tt_collective collective; /* ALLREDUCE, REDUCESCATTER */
    tt_dtype dtype;
    tt_redop redop;
    uint64_t count;               /* elements; reducescatter: of one part, if parts are equal */
    const uint64_t *part_offsets; /* reducescatter: in bytes, [size + 1], or NULL */
    float prescale;
    double postscale;
    const tt_codec_draw *draws; /* [size], of the oracle; NULL: coded_draw */
} coded_call;

/* One rank's memory. */
typedef struct coded_buffers {
    const void *input;
    void *output; /* may be the input */
    const float *residual, *owner_residual;
    float *residual_out, *owner_residual_out;
    const float *estimate; /* of the others' values of the own slice, negated (EF21) */
    float *estimate_out;
    uint64_t stamp;
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
/* The same, or as the call has it. */
tt_codec_draw coded_draw_of(const coded_call *call, uint32_t rank);

/* Is it exchanged along rails? Then rank r is on rail coded_local(r), if there is such a rail. */
bool coded_has_rails(const coded_call *call);
/* Number of a rank among those of its host. */
uint32_t coded_local(const coded_hosts *hosts, uint32_t rank);
/* The rank with that number on a host. */
uint32_t coded_rank_at(const coded_hosts *hosts, uint32_t host, uint32_t local);
/* Has it no owners: are levels added as they are? */
bool coded_is_summed(const coded_call *call);

/* Elements of a rank's input, of its output, and of the slice that it owns. */
uint64_t coded_input_count(const coded_call *call, uint32_t size);
uint64_t coded_output_count(const coded_call *call, uint32_t size, uint32_t rank);
uint64_t coded_slice_count(const coded_call *call, uint32_t size, uint32_t rank,
                           uint64_t *first_out);

/* The oracle: fills outputs and new residuals of all ranks, and counts what could not be coded. */
void coded_expect(const coded_call *call, uint32_t size, coded_buffers *buffers);
/* The same for calls without owners. */
void coded_expect_summed(const coded_call *call, uint32_t size, coded_buffers *buffers);

#endif
