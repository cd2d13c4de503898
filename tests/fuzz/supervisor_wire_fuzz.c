/* SPDX-License-Identifier: Apache-2.0
 *
 * supervisor_wire_fuzz.c - every decoder of the launcher-supervisor protocol, over any bytes.
 *
 * The program's files are compiled in: fuzz targets link the library only.
 *
 * Labels: cli */
#include <string.h>

#include "cli/buffer.c"
#include "cli/run/wire.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes);

static size_t list_bytes(const tt_wire_list *list)
{
    size_t bytes = 0;
    for (size_t i = 0; i < list->count; i++) {
        bytes += strlen(list->items[i]);
    }
    return bytes;
}

static void decode_spec(const tt_wire_frame *frame)
{
    tt_wire_spec spec;
    if (tt_wire_get_spec(frame, &spec) != TT_OK) {
        return;
    }
    TT_ASSERT(spec.program.count >= 1);
    TT_ASSERT(spec.program.items[spec.program.count] == NULL);
    TT_ASSERT(list_bytes(&spec.program) + list_bytes(&spec.variables) < frame->payload_bytes);

    /* A decoded message must decode to the same after it is encoded again. */
    tt_buffer again = {0};
    tt_wire_put_spec(&again, &spec);
    TT_ASSERT(tt_buffer_bytes(&again) == TT_WIRE_HEAD_BYTES + frame->payload_bytes);
    TT_ASSERT(memcmp(tt_buffer_data(&again) + TT_WIRE_HEAD_BYTES, frame->payload,
                     frame->payload_bytes) == 0);
    tt_buffer_fini(&again);
    tt_wire_spec_release(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes)
{
    tt_wire_frame frame;
    size_t used;
    while (tt_wire_next(data, data_bytes, &frame, &used) == TT_OK) {
        const char *text;
        uint32_t number;
        tt_wire_ready ready;
        tt_wire_event event;
        TT_ASSERT(used <= data_bytes);
        if (tt_wire_get_text(&frame, &text) == TT_OK) {
            TT_ASSERT(strlen(text) < frame.payload_bytes);
        }
        (void)tt_wire_get_number(&frame, &number);
        (void)tt_wire_get_ready(&frame, &ready);
        if (tt_wire_get_event(&frame, &event) == TT_OK) {
            TT_ASSERT(event.byte_count <= frame.payload_bytes);
        }
        decode_spec(&frame);
        data += used;
        data_bytes -= used;
    }
    return 0;
}
