/* SPDX-License-Identifier: Apache-2.0
 *
 * store_coded.h - codecs of a store: what workers push, and sums that owners answer, in fewer
 * bytes.
 *
 * A tensor of f32 above CODED_PLAIN_BYTES is coded, unless it is a table. A worker encodes each
 * part before it sends it; the owner decodes and adds in the order of workers. The answer is coded
 * where the value is the sum of an iteration (update sum), once for all workers; else it is the
 * model, and stays as it is: coding it would round the weights at every read.
 *
 *  (1) Parts begin at multiples of the codec's block, and draws depend on worker, tensor, push and
 *      element. So bits do not depend on the number of owners.
 *  (2) A worker's residual is of the tensor's elements, not of its parts. It is renewed when a part
 *      is encoded. If the push did not count (quorum), what was sent is added to it again: nothing
 *      is lost. A tensor that fails takes its residual with it.
 *  (3) An owner's residual is of the sums it codes. A sum that has begun always ends, unless its
 *      owner dies: then the residual is lost, and that of the next owner begins at zero.
 *  (4) The coded push is kept until its answer has arrived. If the part moves to another owner, the
 *      same bytes are sent again: nothing is encoded twice.
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  with the tensor; at a worker its residual and one or two coded copies, at an owner coded
 *          slots in place of plain ones, and the residual of sums.
 */
#ifndef TUTTI_SYNC_STORE_CODED_H
#define TUTTI_SYNC_STORE_CODED_H

#include "sync/sync_internal.h"

enum { CODED_PLAIN_BYTES = 64 * 1024 };

/* ---- both sides ---- */

/* NULL and "none": no codec, spec_out->codec is NULL. BAD_ARGUMENT, UNSUPPORTED: `why` names the
 * codec and the cure. */
tt_status tt_coded_parse(const char *text, tt_codec_spec *spec_out, tt_text *why);
/* Is such a tensor coded? */
bool tt_coded_applies(const tt_codec_spec *spec, const tt_sync_claim *claim);
/* The split of a tensor: its parts begin at multiples of the block. */
tt_split tt_coded_split(const tt_split *whole, const tt_codec_spec *spec, bool is_coded);

/* ---- a worker ---- */

/* Memory of a tensor whose parts are known. */
tt_status tt_coded_key_make(tt_sync *sync, tt_worker_key *key);
void tt_coded_key_release(tt_sync *sync, tt_worker_key *key);
/* The push at the front of the tensor's queue is to be encoded; the most urgent tensor first. */
void tt_coded_key_queue(tt_sync *sync, tt_worker_key *key);
void tt_coded_key_unqueue(tt_sync *sync, tt_worker_key *key);
/* Encode this part of the request at the front. */
void tt_coded_encode(tt_sync *sync, tt_worker_key *key, uint32_t number);
/* The last push of this part did not count. */
void tt_coded_put_back(tt_sync *sync, tt_worker_key *key, uint32_t number);
bool tt_coded_has_answers(const tt_worker_key *key);
/* Decode an answer that is in parts[number].answer. BAD_WIRE: nothing was written. */
tt_status tt_coded_decode(tt_sync *sync, tt_worker_key *key, uint32_t number);

/* ---- an owner ---- */

/* How many bytes a push of this part has, and an answer. */
void tt_coded_sizes(const tt_owner_key *key, tt_owner_part *part);
bool tt_coded_has_residual(const tt_owner_key *key);
/* Could a worker have sent these bytes? */
bool tt_coded_is_sound(const tt_owner_part *part, const uint8_t *wire);
/* Add a piece of what was pushed, from part->sum_at on, and encode it if answers are coded. Returns
 * its bytes as floats. `slot_bytes`: from one slot's data to the next. */
uint64_t tt_coded_sum(tt_sync *sync, tt_owner_part *part, size_t slot_bytes);

#endif
