/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.h - chosen rows of tables, pushed and pulled.
 *
 * A table is a tensor in rows of row_elements each; its parts begin at rows. For each part a worker
 * sends the numbers of the chosen rows (ROWS) and, of a push, their values (PUSH with FLAG_ROWS).
 * Both are pieces of the caller's arrays. The owner has place for the numbers beside each slot; the
 * values arrive in the slot. When both are there it spreads the values over the slot and zeroes the
 * rest: from there on the push is a dense one. An answer is gathered in the slot and sent from it.
 *
 *  (1) Either frame of a push may arrive first, or twice. A slot is full when it has both.
 *  (2) A push without rows in a part is one PUSH without payload: others may wait for it. A pull
 *      asks only the parts with chosen rows, or one part if none is chosen.
 *  (3) A worker has one request in flight per tensor. So its slot is empty when its pull, or the
 *      answer to its push, is gathered there. What other frames arrive by then is dropped.
 *  (4) A gathered answer may still be lent when the next push arrives. Then it is recalled.
 *  (5) Numbers that no worker can send fail the tensor, and the text names their sender.
 *
 * Layer:   sync, private.
 * Threads: as sync.h.
 * Memory:  with the table, at an owner 8 bytes for each row and worker.
 */
#ifndef TUTTI_SYNC_ROWS_ROWS_H
#define TUTTI_SYNC_ROWS_ROWS_H

#include "sync/sync_internal.h"

/* Of a row: the numbers of a part's rows fit one frame, and so does one row. */
enum { TT_ROWS_BYTES_MIN = 2, TT_ROWS_BYTES_MAX = TT_SPLIT_PART_BYTES };

/* ---- both sides ---- */

/* Of a row; 0: it is no table. */
uint64_t tt_rows_bytes(const tt_sync_claim *claim);
/* Could a worker claim this? */
bool tt_rows_is_claim(const tt_sync_claim *claim);
/* The split of a table: its parts begin at rows. */
tt_split tt_rows_split(const tt_split *whole, const tt_sync_claim *claim);

/* A part of some rows, the first of which is number `first` of the table's. */
typedef struct tt_rows_part {
    uint64_t first, count, row_bytes;
} tt_rows_part;

/* Are these numbers of its rows, ascending, each once? */
bool tt_rows_are_of(const tt_rows_part *part, const uint64_t *numbers, uint64_t count);
/* The values of `count` rows, one behind the other from `values` on, move to their places in the
 * part, which begins at `values`, too. All other bytes are zeros then. */
void tt_rows_spread(const tt_rows_part *part, const uint64_t *numbers, uint64_t count,
                    uint8_t *values);
/* The reverse, to other memory. */
void tt_rows_gather(const tt_rows_part *part, const uint64_t *numbers, uint64_t count,
                    const uint8_t *values, uint8_t *rows_out);

/* ---- a worker ---- */

/* TT_OK: such a table can be added. */
tt_status tt_rows_check_add(const tt_worker_store *store, const tt_sync_request *request,
                            tt_text *why);
/* TT_OK: these rows can be pushed or pulled. */
tt_status tt_rows_check(const tt_worker_key *key, const tt_sync_request *request, tt_text *why);

/* A piece of the caller's values, in bytes. */
typedef struct tt_rows_span {
    uint64_t first, bytes;
} tt_rows_span;

/* What the front request sends or receives of a part. */
tt_rows_span tt_rows_span_of(const tt_worker_key *key, uint32_t number);
/* In the order of sending, from place `at` on: the next place whose part the front request wants.
 * part_count: there is none. */
uint32_t tt_rows_next(const tt_worker_key *key, uint32_t at);
/* How many parts it wants. */
uint32_t tt_rows_wanted(const tt_worker_key *key);
/* Send the numbers of the front request's rows in a part. `head` is that of the push or pull. */
void tt_rows_transmit(tt_sync *sync, tt_worker_key *key, uint32_t number, tt_head head);

/* ---- an owner ---- */

/* Bytes of the numbers beside each slot. */
size_t tt_rows_slot_bytes(const tt_owner_part *part);
/* ROWS. As tt_owner_take_push. */
void *tt_rows_take(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part,
                   const void *payload);
/* PUSH with FLAG_ROWS. */
void *tt_rows_take_values(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part,
                          const void *payload);
/* The payload of a long one has arrived. */
void tt_rows_payload(tt_sync *sync, uint32_t worker, const tt_head *head, tt_owner_part *part);
/* The worker is gone. */
void tt_rows_worker_out(tt_slot *slot);
/* Gather the rows that the slot's worker wants, and send them. */
void tt_rows_answer(tt_sync *sync, tt_owner_part *part, uint32_t worker, tt_head head);
uint64_t tt_rows_answer_bytes(const tt_slot *slot);

#endif
