/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_blocks.c - blocks of long sealed payloads that several threads seal or open.
 *
 * Each direction of a link has a queue of TT_TCP_BLOCKS of them, 256 KiB of memory allocated for
 * the first frame with more than one block, if the driver lends threads.
 *
 * Invariants:
 *  (1) The driving thread takes the nonces, in the order of the wire; a posted block is the only
 *      one with its nonce.
 *  (2) Between post and finish the block, its payload and the seal belong to the thread that runs
 *      it: they are not given back, freed or wiped. Recall, discard and the end of the link finish
 *      the block first, which never waits for a thread that has not begun.
 *  (3) Blocks are reported and written in their order, whichever is ready first.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/base.h"
#include "transport/tcp/tcp_internal.h"

static void block_run(tt_task *task)
{
    tt_tcp_block *block = TT_CONTAINER_OF(task, tt_tcp_block, task);
    if (block->plain != NULL) {
        tt_seal_block_at(block->seal, block->place, block->plain, block->plain_bytes, block->wire);
    } else {
        block->status = tt_open_block_at(block->seal, block->place, block->wire, block->plain_bytes,
                                         block->target);
    }
}

bool tt_tcp_blocks_begin(tt_tcp_blocks *blocks, const tt_hands *hands, uint32_t payload_bytes)
{
    TT_ASSERT(blocks->count == 0);
    if (hands == NULL || payload_bytes <= TT_SEAL_BLOCK_BYTES_MAX || blocks->is_missing) {
        return false;
    }
    blocks->hands = hands;
    blocks->moved = 0;
    if (blocks->memory == NULL) {
        blocks->memory = aligned_alloc(64, (size_t)TT_TCP_BLOCKS * TT_TCP_BLOCK_STRIDE);
        blocks->is_missing = blocks->memory == NULL;
        for (uint32_t i = 0; i < TT_TCP_BLOCKS && !blocks->is_missing; i++) {
            blocks->blocks[i].wire = blocks->memory + (size_t)i * TT_TCP_BLOCK_STRIDE;
        }
    }
    return !blocks->is_missing;
}

tt_tcp_block *tt_tcp_blocks_at(tt_tcp_blocks *blocks, uint32_t index)
{
    TT_ASSERT(index < TT_TCP_BLOCKS);
    return &blocks->blocks[(blocks->first + index) % TT_TCP_BLOCKS];
}

void tt_tcp_blocks_post(tt_tcp_blocks *blocks)
{
    tt_tcp_block *block = tt_tcp_blocks_at(blocks, blocks->count++);
    block->task.run = block_run;
    block->status = TT_OK;
    block->is_finished = false;
    blocks->hands->ops->post(blocks->hands->owner, &block->task);
}

void tt_tcp_blocks_call(const tt_tcp_blocks *blocks)
{
    blocks->hands->ops->call(blocks->hands->owner);
}

bool tt_tcp_blocks_is_done(tt_tcp_blocks *blocks, uint32_t index)
{
    const tt_tcp_block *block = tt_tcp_blocks_at(blocks, index);
    return block->is_finished || blocks->hands->ops->is_done(blocks->hands->owner, &block->task);
}

void tt_tcp_blocks_finish(tt_tcp_blocks *blocks, uint32_t index)
{
    tt_tcp_block *block = tt_tcp_blocks_at(blocks, index);
    TT_ASSERT(index < blocks->count);
    if (!block->is_finished) {
        blocks->hands->ops->finish(blocks->hands->owner, &block->task);
        block->is_finished = true;
    }
}

void tt_tcp_blocks_finish_all(tt_tcp_blocks *blocks)
{
    for (uint32_t i = 0; i < blocks->count; i++) {
        tt_tcp_blocks_finish(blocks, i);
    }
}

void tt_tcp_blocks_pop(tt_tcp_blocks *blocks)
{
    TT_ASSERT(blocks->count > 0);
    TT_ASSERT(blocks->blocks[blocks->first].is_finished);
    blocks->first = (blocks->first + 1) % TT_TCP_BLOCKS;
    blocks->count--;
}

void tt_tcp_blocks_clear(tt_tcp_blocks *blocks)
{
    tt_tcp_blocks_finish_all(blocks);
    blocks->count = 0;
    blocks->moved = 0;
}

void tt_tcp_blocks_fini(tt_tcp_blocks *blocks)
{
    tt_tcp_blocks_clear(blocks);
    free(blocks->memory);
}
