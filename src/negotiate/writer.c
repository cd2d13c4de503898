/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.c - writes records into parts that fit a frame; no record crosses two parts. */
#include <string.h>

#include "base/assert.h"
#include "negotiate/internal.h"

void tt_writer_begin(tt_writer *writer, tt_negotiator *self, tt_notice_kind kind)
{
    writer->self = self;
    writer->kind = kind;
    writer->part = 0;
    writer->used = 0;
    writer->status = TT_OK;
}

static void put_out(tt_writer *writer, bool is_last)
{
    tt_negotiator *self = writer->self;
    if (writer->part == TT_NOTICE_PARTS_MAX) {
        writer->status = TT_ERR_NO_RESOURCE;
    }
    if (writer->status != TT_OK) {
        return;
    }
    if (writer->kind == TT_NOTICE_ANSWERS) {
        writer->status = tt_turn_keep(self, writer->part, is_last, writer->bytes, writer->used);
    } else {
        tt_negotiator_send(self, tt_place_parent(self),
                           &(tt_notice){.kind = (uint8_t)writer->kind,
                                        .flags = is_last ? TT_FLAG_LAST : 0,
                                        .part = writer->part,
                                        .round = self->done + 1,
                                        .digest = self->cache.digest,
                                        .bytes = writer->used,
                                        .payload = writer->bytes});
    }
    writer->part++;
    writer->used = 0;
}

uint8_t *tt_writer_take(tt_writer *writer, uint32_t bytes)
{
    TT_ASSERT(bytes <= TT_NOTICE_BYTES_MAX);
    if (writer->used + bytes > TT_NOTICE_BYTES_MAX) {
        put_out(writer, false);
        writer->used = 0;
    }
    uint8_t *place = writer->bytes + writer->used;
    writer->used += bytes;
    return place;
}

tt_status tt_writer_end(tt_writer *writer)
{
    put_out(writer, true);
    return writer->status;
}

void tt_writer_answer(tt_writer *writer, const tt_answer_head *head, const char *name,
                      const void *claim)
{
    uint8_t *at = tt_writer_take(writer, (uint32_t)sizeof(*head) + head->name_bytes + 1U +
                                             head->claim_bytes + 1U);
    memcpy(at, head, sizeof(*head));
    at += sizeof(*head);
    if (head->name_bytes > 0) {
        memcpy(at, name, head->name_bytes);
    }
    at += head->name_bytes;
    *at++ = 0;
    if (head->claim_bytes > 0) {
        memcpy(at, claim, head->claim_bytes);
    }
    at[head->claim_bytes] = 0;
}
