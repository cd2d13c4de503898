/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.c - frames in and out. Decoders trust nothing: every count is compared with the bytes that
 * are really there before memory is taken, and a payload must be used up to its last byte. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "cli/run/wire.h"

typedef struct wire_reader {
    const uint8_t *next;
    size_t left;
    bool is_bad;
} wire_reader;

typedef struct frame_head {
    uint32_t payload_bytes;
    uint16_t type;
    uint16_t zero;
} frame_head;
_Static_assert(sizeof(frame_head) == TT_WIRE_HEAD_BYTES, "frame_head is a wire format");

tt_status tt_wire_next(const uint8_t *bytes, size_t byte_count, tt_wire_frame *frame_out,
                       size_t *used_out)
{
    frame_head head;
    if (byte_count < sizeof(head)) {
        return TT_IN_PROGRESS;
    }
    memcpy(&head, bytes, sizeof(head));
    if (head.payload_bytes > TT_WIRE_PAYLOAD_BYTES_MAX || head.zero != 0 ||
        head.type < TT_WIRE_SPEC || head.type > TT_WIRE_TAKEN) {
        return TT_ERR_BAD_WIRE;
    }
    if (byte_count - sizeof(head) < head.payload_bytes) {
        return TT_IN_PROGRESS;
    }
    *frame_out = (tt_wire_frame){.type = (tt_wire_type)head.type,
                                 .payload = bytes + sizeof(head),
                                 .payload_bytes = head.payload_bytes};
    *used_out = sizeof(head) + head.payload_bytes;
    return TT_OK;
}

static void put_u32(tt_buffer *target, uint32_t number)
{
    tt_buffer_append(target, &number, sizeof(number));
}

static void put_string(tt_buffer *target, const char *text)
{
    const size_t bytes = strlen(text);
    put_u32(target, (uint32_t)bytes);
    tt_buffer_append(target, text, bytes + 1);
}

static void put_list(tt_buffer *target, const tt_wire_list *list)
{
    put_u32(target, (uint32_t)list->count);
    for (size_t i = 0; i < list->count; i++) {
        put_string(target, list->items[i]);
    }
}

void tt_wire_put(tt_buffer *target, tt_wire_type type, const void *payload, size_t payload_bytes)
{
    const frame_head head = {.payload_bytes = (uint32_t)payload_bytes, .type = (uint16_t)type};
    tt_buffer_append(target, &head, sizeof(head));
    tt_buffer_append(target, payload, payload_bytes);
}

static void put_built(tt_buffer *target, tt_wire_type type, tt_buffer *payload)
{
    tt_wire_put(target, type, tt_buffer_data(payload), tt_buffer_bytes(payload));
    tt_buffer_fini(payload);
}

void tt_wire_put_text(tt_buffer *target, tt_wire_type type, const char *text)
{
    tt_buffer payload = {0};
    put_string(&payload, text);
    put_built(target, type, &payload);
}

void tt_wire_put_number(tt_buffer *target, tt_wire_type type, uint32_t number)
{
    tt_wire_put(target, type, &number, sizeof(number));
}

void tt_wire_put_spec(tt_buffer *target, const tt_wire_spec *spec)
{
    tt_buffer payload = {0};
    put_u32(&payload, spec->rank_first);
    put_u32(&payload, spec->local_size);
    put_u32(&payload, spec->world_size);
    put_u32(&payload, spec->cross_rank);
    put_u32(&payload, spec->cross_size);
    put_u32(&payload, spec->binds_cores);
    put_u32(&payload, spec->wants_stdin);
    put_u32(&payload, spec->is_loopback_only);
    put_u32(&payload, spec->server_count);
    TT_ASSERT(tt_buffer_bytes(&payload) == TT_WIRE_SECRET_OFFSET);
    tt_buffer_append(&payload, spec->secret, sizeof(spec->secret));
    put_string(&payload, spec->job_id);
    put_string(&payload, spec->folder);
    put_string(&payload, spec->interface);
    put_list(&payload, &spec->peers);
    put_list(&payload, &spec->program);
    put_list(&payload, &spec->variables);
    put_built(target, TT_WIRE_SPEC, &payload);
}

void tt_wire_put_ready(tt_buffer *target, const tt_wire_ready *ready)
{
    tt_buffer payload = {0};
    put_u32(&payload, ready->core_count);
    put_u32(&payload, ready->thread_count);
    put_string(&payload, ready->host);
    put_string(&payload, ready->rendezvous);
    put_built(target, TT_WIRE_READY, &payload);
}

void tt_wire_put_event(tt_buffer *target, tt_wire_type type, const tt_wire_event *event)
{
    const uint32_t numbers[3] = {event->rank, event->value, event->detail};
    const frame_head head = {.payload_bytes = (uint32_t)(sizeof(numbers) + event->byte_count),
                             .type = (uint16_t)type};
    tt_buffer_append(target, &head, sizeof(head));
    tt_buffer_append(target, numbers, sizeof(numbers));
    tt_buffer_append(target, event->bytes, event->byte_count);
}

static void get_raw(wire_reader *reader, void *target, size_t bytes)
{
    if (reader->is_bad || reader->left < bytes) {
        reader->is_bad = true;
        memset(target, 0, bytes);
        return;
    }
    memcpy(target, reader->next, bytes);
    reader->next += bytes;
    reader->left -= bytes;
}

static uint32_t get_u32(wire_reader *reader)
{
    uint32_t number;
    get_raw(reader, &number, sizeof(number));
    return number;
}

static bool get_bool(wire_reader *reader)
{
    const uint32_t number = get_u32(reader);
    reader->is_bad = reader->is_bad || number > 1;
    return number == 1;
}

static const char *get_string(wire_reader *reader)
{
    const uint32_t bytes = get_u32(reader);
    if (reader->is_bad || bytes >= reader->left || reader->next[bytes] != 0 ||
        memchr(reader->next, 0, bytes) != NULL) {
        reader->is_bad = true;
        return "";
    }
    const char *text = (const char *)reader->next;
    reader->next += bytes + 1;
    reader->left -= bytes + 1;
    return text;
}

static void get_list(wire_reader *reader, tt_wire_list *list_out)
{
    enum { STRING_BYTES_MIN = 5 };
    const uint32_t count = get_u32(reader);
    if (reader->is_bad || count > reader->left / STRING_BYTES_MIN) {
        reader->is_bad = true;
        return;
    }
    list_out->items = tt_cli_allocate(count + (size_t)1, sizeof(*list_out->items));
    list_out->count = count;
    for (uint32_t i = 0; i < count; i++) {
        list_out->items[i] = get_string(reader);
    }
}

static wire_reader reader_of(const tt_wire_frame *frame)
{
    return (wire_reader){.next = frame->payload, .left = frame->payload_bytes};
}

static tt_status reader_end(const wire_reader *reader)
{
    return reader->is_bad || reader->left != 0 ? TT_ERR_BAD_WIRE : TT_OK;
}

tt_status tt_wire_get_text(const tt_wire_frame *frame, const char **text_out)
{
    wire_reader reader = reader_of(frame);
    const char *text = get_string(&reader);
    TT_TRY(reader_end(&reader));
    *text_out = text;
    return TT_OK;
}

tt_status tt_wire_get_number(const tt_wire_frame *frame, uint32_t *number_out)
{
    wire_reader reader = reader_of(frame);
    const uint32_t number = get_u32(&reader);
    TT_TRY(reader_end(&reader));
    *number_out = number;
    return TT_OK;
}

static bool spec_is_sound(const tt_wire_spec *spec)
{
    const bool has_workers = spec->server_count < spec->world_size;
    const uint32_t worker_count = has_workers ? spec->world_size - spec->server_count : 0;
    const bool is_mixed =
        spec->rank_first < worker_count && spec->local_size > worker_count - spec->rank_first;
    return has_workers && !is_mixed && spec->local_size >= 1 &&
           spec->local_size <= TT_WIRE_LOCAL_COUNT_MAX &&
           spec->world_size <= TT_WIRE_RANK_COUNT_MAX && spec->rank_first < spec->world_size &&
           spec->local_size <= spec->world_size - spec->rank_first &&
           spec->cross_rank < spec->cross_size && spec->program.count >= 1;
}

tt_status tt_wire_get_spec(const tt_wire_frame *frame, tt_wire_spec *spec_out)
{
    wire_reader reader = reader_of(frame);
    tt_wire_spec spec = {0};
    spec.rank_first = get_u32(&reader);
    spec.local_size = get_u32(&reader);
    spec.world_size = get_u32(&reader);
    spec.cross_rank = get_u32(&reader);
    spec.cross_size = get_u32(&reader);
    spec.binds_cores = get_bool(&reader);
    spec.wants_stdin = get_bool(&reader);
    spec.is_loopback_only = get_bool(&reader);
    spec.server_count = get_u32(&reader);
    get_raw(&reader, spec.secret, sizeof(spec.secret));
    spec.job_id = get_string(&reader);
    spec.folder = get_string(&reader);
    spec.interface = get_string(&reader);
    get_list(&reader, &spec.peers);
    get_list(&reader, &spec.program);
    get_list(&reader, &spec.variables);
    if (reader_end(&reader) != TT_OK || !spec_is_sound(&spec)) {
        tt_wire_spec_release(&spec);
        return TT_ERR_BAD_WIRE;
    }
    *spec_out = spec;
    return TT_OK;
}

void tt_wire_spec_release(tt_wire_spec *spec)
{
    free(spec->peers.items);
    free(spec->program.items);
    free(spec->variables.items);
    explicit_bzero(spec, sizeof(*spec));
}

tt_status tt_wire_get_ready(const tt_wire_frame *frame, tt_wire_ready *ready_out)
{
    wire_reader reader = reader_of(frame);
    tt_wire_ready ready = {0};
    ready.core_count = get_u32(&reader);
    ready.thread_count = get_u32(&reader);
    ready.host = get_string(&reader);
    ready.rendezvous = get_string(&reader);
    TT_TRY(reader_end(&reader));
    *ready_out = ready;
    return TT_OK;
}

tt_status tt_wire_get_event(const tt_wire_frame *frame, tt_wire_event *event_out)
{
    wire_reader reader = reader_of(frame);
    tt_wire_event event = {0};
    event.rank = get_u32(&reader);
    event.value = get_u32(&reader);
    event.detail = get_u32(&reader);
    if (reader.is_bad || (frame->type != TT_WIRE_OUTPUT && reader.left != 0)) {
        return TT_ERR_BAD_WIRE;
    }
    event.bytes = reader.next;
    event.byte_count = reader.left;
    *event_out = event;
    return TT_OK;
}
