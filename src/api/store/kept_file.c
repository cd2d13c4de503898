/* SPDX-License-Identifier: Apache-2.0
 *
 * kept_file.c - see kept_file.h. */
#include "api/store/kept_file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/base.h"
#include "kernel/hash64.h"

static const char magic[8] = {'T', 'U', 'T', 'T', 'I', '-', 'S', 'T'};

enum { KEPT_VERSION = 2, PLANES_MAX = 8 };

static const uint64_t clock_max = UINT32_MAX / 2; /* frames have clocks of 32 bits, */

typedef struct file_head {
    char magic[8];
    uint32_t version, zero;
    uint64_t list_bytes, list_hash;
} file_head;

typedef struct list_head {
    uint64_t clock;
    uint32_t change_count, tensor_count;
    char update[TT_SYNC_UPDATE_BYTES];
} list_head;

typedef struct list_change {
    uint64_t clock;
    double value;
    char option[TT_SYNC_OPTION_BYTES];
} list_change;

typedef struct list_tensor {
    uint64_t count, step;
    uint32_t planes, dtype, row_elements, zero;
    char name[TT_SYNC_NAME_BYTES];
} list_tensor;

_Static_assert(sizeof(file_head) == 32 && sizeof(list_head) == 400 && sizeof(list_change) == 48 &&
                   sizeof(list_tensor) == 288,
               "wire formats");

uint64_t tt_kept_plane_bytes(const tt_kept_tensor *tensor)
{
    return tensor->count * tt_dtype_bytes(tensor->dtype);
}

/* ---- the list as bytes ---- */

static uint64_t list_bytes(uint64_t changes, uint64_t tensors)
{
    return sizeof(list_head) + changes * sizeof(list_change) + tensors * sizeof(list_tensor);
}

size_t tt_kept_list_bytes(const tt_kept_list *list)
{
    return (size_t)list_bytes(list->options.change_count, list->tensor_count);
}

void tt_kept_list_encode(const tt_kept_list *list, uint8_t *bytes)
{
    list_head head = {.clock = list->clock,
                      .change_count = list->options.change_count,
                      .tensor_count = list->tensor_count};
    memcpy(head.update, list->options.update, sizeof(head.update));
    memcpy(bytes, &head, sizeof(head));
    bytes += sizeof(head);
    for (uint32_t i = 0; i < head.change_count; i++, bytes += sizeof(list_change)) {
        list_change change = {.clock = list->options.changes[i].clock,
                              .value = list->options.changes[i].value};
        memcpy(change.option, list->options.changes[i].option, sizeof(change.option));
        memcpy(bytes, &change, sizeof(change));
    }
    for (uint32_t i = 0; i < head.tensor_count; i++, bytes += sizeof(list_tensor)) {
        const tt_kept_tensor *source = &list->tensors[i];
        list_tensor tensor = {.count = source->count,
                              .step = source->step,
                              .planes = source->planes,
                              .dtype = (uint32_t)source->dtype,
                              .row_elements = source->row_elements};
        memcpy(tensor.name, source->name, sizeof(tensor.name));
        memcpy(bytes, &tensor, sizeof(tensor));
    }
}

static bool is_text(const char *bytes, size_t room)
{
    return bytes[0] != '\0' && memchr(bytes, '\0', room) != NULL;
}

static bool decode_changes(const uint8_t *bytes, tt_kept_list *list)
{
    bool is_sound = true;
    for (uint32_t i = 0; i < list->options.change_count && is_sound; i++) {
        list_change change;
        memcpy(&change, bytes + i * sizeof(change), sizeof(change));
        is_sound = is_text(change.option, sizeof(change.option)) && isfinite(change.value);
        list->options.changes[i].clock = change.clock;
        list->options.changes[i].value = change.value;
        memcpy(list->options.changes[i].option, change.option, sizeof(change.option));
    }
    return is_sound;
}

static bool decode_tensors(const uint8_t *bytes, tt_kept_list *list)
{
    bool is_sound = true;
    for (uint32_t i = 0; i < list->tensor_count && is_sound; i++) {
        list_tensor tensor;
        memcpy(&tensor, bytes + i * sizeof(tensor), sizeof(tensor));
        is_sound = is_text(tensor.name, sizeof(tensor.name)) && tensor.planes <= PLANES_MAX &&
                   tensor.dtype <= UINT8_MAX && tt_dtype_is_valid((int)tensor.dtype) &&
                   tensor.count <= UINT64_C(1) << 43 &&
                   (tensor.row_elements == 0 || tensor.count % tensor.row_elements == 0) &&
                   tensor.zero == 0 &&
                   (i == 0 || strcmp(list->tensors[i - 1].name, tensor.name) < 0);
        tt_kept_tensor *target = &list->tensors[i];
        *target = (tt_kept_tensor){.count = tensor.count,
                                   .step = tensor.step,
                                   .planes = tensor.planes,
                                   .row_elements = tensor.row_elements,
                                   .dtype = (tt_dtype)tensor.dtype};
        memcpy(target->name, tensor.name, sizeof(target->name));
    }
    return is_sound;
}

tt_status tt_kept_list_decode(const uint8_t *bytes, size_t byte_count, tt_kept_list *list_out,
                              tt_text *why)
{
    list_head head;
    memset(&head, 0, sizeof(head));
    memcpy(&head, bytes, tt_min_u64(byte_count, sizeof(head)));
    if (byte_count < sizeof(head) || head.change_count > TT_SYNC_CHANGES_MAX ||
        head.tensor_count > TT_KEPT_TENSORS_MAX || head.clock > clock_max ||
        list_bytes(head.change_count, head.tensor_count) != byte_count ||
        !is_text(head.update, sizeof(head.update))) {
        tt_text_add(why, "its list is damaged");
        return TT_ERR_BAD_WIRE;
    }
    tt_kept_list list = {.clock = head.clock, .tensor_count = head.tensor_count};
    list.options.change_count = head.change_count;
    memcpy(list.options.update, head.update, sizeof(head.update));
    list.tensors = calloc((size_t)head.tensor_count + 1, sizeof(*list.tensors));
    if (list.tensors == NULL) {
        tt_text_add(why, "no memory for its list");
        return TT_ERR_NO_MEMORY;
    }
    bytes += sizeof(head);
    if (!decode_changes(bytes, &list) ||
        !decode_tensors(bytes + head.change_count * sizeof(list_change), &list)) {
        tt_kept_list_release(&list);
        tt_text_add(why, "its list is damaged");
        return TT_ERR_BAD_WIRE;
    }
    *list_out = list;
    return TT_OK;
}

void tt_kept_list_release(tt_kept_list *list)
{
    free(list->tensors);
    *list = (tt_kept_list){.tensor_count = 0};
}

/* ---- files ---- */

static tt_status complain(const char *path, const char *what, tt_text *why)
{
    tt_text_add(why, "file ");
    tt_text_add_quoted(why, path, 200);
    tt_text_add(why, " %s", what);
    return TT_ERR_SYSTEM;
}

static tt_status complain_damaged(const char *path, const char *what, tt_text *why)
{
    (void)complain(path, "is not a store that was saved completely: ", why);
    tt_text_add(why, "%s; load another one", what);
    return TT_ERR_BAD_ARGUMENT;
}

static void name_beside(const char *path, char beside[TT_KEPT_PATH_BYTES + 8])
{
    (void)snprintf(beside, TT_KEPT_PATH_BYTES + 8, "%s.tmp", path);
}

static tt_status complain_written(const tt_kept_file *file, tt_text *why)
{
    (void)complain(file->path, "cannot be written: ", why);
    tt_text_add(why, "%s", strerror(errno));
    return TT_ERR_SYSTEM;
}

static tt_status set_path(tt_kept_file *file, const char *path, tt_text *why)
{
    file->stream = NULL;
    if (strlen(path) >= sizeof(file->path)) {
        return complain(path, "has too long a name", why);
    }
    memcpy(file->path, path, strlen(path) + 1);
    return TT_OK;
}

static bool put(FILE *stream, const void *bytes, uint64_t count)
{
    return count == 0 || fwrite(bytes, 1, count, stream) == count;
}

static bool get(FILE *stream, void *bytes, uint64_t count)
{
    return count == 0 || fread(bytes, 1, count, stream) == count;
}

tt_status tt_kept_create(tt_kept_file *file, const char *path, const tt_kept_list *list,
                         tt_text *why)
{
    char beside[TT_KEPT_PATH_BYTES + 8];
    TT_TRY(set_path(file, path, why));
    name_beside(path, beside);
    file->stream = fopen(beside, "wbe");
    if (file->stream == NULL ||
        fseek(file->stream, (long)(sizeof(file_head) + tt_kept_list_bytes(list)), SEEK_SET) != 0) {
        return complain_written(file, why);
    }
    return TT_OK;
}

tt_status tt_kept_write(tt_kept_file *file, const void *values, uint64_t bytes, tt_text *why)
{
    const uint64_t hash = tt_hash64(values, bytes, 0);
    return put(file->stream, values, bytes) && put(file->stream, &hash, sizeof(hash))
               ? TT_OK
               : complain_written(file, why);
}

/* The directory's entry is on disk, too. */
static void sync_folder(const char *path)
{
    char folder[TT_KEPT_PATH_BYTES];
    memcpy(folder, path, strlen(path) + 1);
    char *slash = strrchr(folder, '/');
    if (slash != NULL) {
        slash[slash == folder ? 1 : 0] = '\0';
    }
    FILE *stream = fopen(slash != NULL ? folder : ".", "re");
    if (stream != NULL) {
        (void)fsync(fileno(stream)); /* file systems that cannot do it need not */
        (void)fclose(stream);
    }
}

tt_status tt_kept_finish(tt_kept_file *file, const tt_kept_list *list, tt_text *why)
{
    char beside[TT_KEPT_PATH_BYTES + 8];
    const size_t bytes = tt_kept_list_bytes(list);
    file_head head = {.version = KEPT_VERSION, .list_bytes = bytes};
    uint8_t *encoded = malloc(bytes);
    name_beside(file->path, beside);
    if (encoded == NULL) {
        tt_kept_abandon(file);
        return complain(file->path, "cannot be written: no memory for its list", why);
    }
    tt_kept_list_encode(list, encoded);
    memcpy(head.magic, magic, sizeof(magic));
    head.list_hash = tt_hash64(encoded, bytes, 0);
    bool is_written = fseek(file->stream, 0, SEEK_SET) == 0 &&
                      put(file->stream, &head, sizeof(head)) && put(file->stream, encoded, bytes) &&
                      fflush(file->stream) == 0 && fsync(fileno(file->stream)) == 0;
    is_written = is_written && rename(beside, file->path) == 0;
    free(encoded);
    if (!is_written) {
        const tt_status status = complain_written(file, why);
        tt_kept_abandon(file);
        return status;
    }
    tt_kept_close(file);
    sync_folder(file->path);
    return TT_OK;
}

void tt_kept_abandon(tt_kept_file *file)
{
    char beside[TT_KEPT_PATH_BYTES + 8];
    if (file->stream != NULL) {
        name_beside(file->path, beside);
        tt_kept_close(file);
        (void)unlink(beside);
    }
}

void tt_kept_close(tt_kept_file *file)
{
    if (file->stream != NULL) {
        (void)fclose(file->stream);
        file->stream = NULL;
    }
}

/* Bytes of the whole file, as its list says; UINT64_MAX: more than any file has. */
static uint64_t expected_bytes(const tt_kept_list *list)
{
    uint64_t bytes = sizeof(file_head) + tt_kept_list_bytes(list);
    for (uint32_t i = 0; i < list->tensor_count && bytes < UINT64_C(1) << 60; i++) {
        const tt_kept_tensor *tensor = &list->tensors[i];
        bytes += tensor->planes * (tt_kept_plane_bytes(tensor) + sizeof(uint64_t));
    }
    return bytes < UINT64_C(1) << 60 ? bytes : UINT64_MAX;
}

static tt_status read_list(tt_kept_file *file, uint64_t file_bytes, tt_kept_list *list_out,
                           tt_text *why)
{
    file_head head;
    tt_text what = {0};
    if (!get(file->stream, &head, sizeof(head)) || memcmp(head.magic, magic, sizeof(magic)) != 0) {
        return complain_damaged(file->path, "it does not begin as such files do", why);
    }
    if (head.version != KEPT_VERSION) {
        return complain_damaged(file->path, "another version of Tutti wrote it", why);
    }
    if (file_bytes < sizeof(head) || head.list_bytes > file_bytes - sizeof(head)) {
        return complain_damaged(file->path, "it is too short", why);
    }
    uint8_t *bytes = malloc(head.list_bytes + 1);
    if (bytes == NULL) {
        return complain(file->path, "cannot be read: no memory for its list", why);
    }
    tt_status status = TT_ERR_BAD_WIRE;
    if (!get(file->stream, bytes, head.list_bytes) ||
        tt_hash64(bytes, head.list_bytes, 0) != head.list_hash) {
        tt_text_add(&what, "its list is damaged");
    } else {
        status = tt_kept_list_decode(bytes, head.list_bytes, list_out, &what);
    }
    free(bytes);
    return status == TT_OK ? TT_OK : complain_damaged(file->path, what.bytes, why);
}

tt_status tt_kept_open(tt_kept_file *file, const char *path, tt_kept_list *list_out, tt_text *why)
{
    struct stat about;
    TT_TRY(set_path(file, path, why));
    file->stream = fopen(path, "rbe");
    if (file->stream == NULL || fstat(fileno(file->stream), &about) != 0 ||
        !S_ISREG(about.st_mode)) {
        const int cause = file->stream == NULL ? errno : EINVAL;
        (void)complain(path, "cannot be read: ", why);
        tt_text_add(why, "%s", strerror(cause));
        tt_kept_close(file);
        return TT_ERR_SYSTEM;
    }
    tt_status status = read_list(file, (uint64_t)about.st_size, list_out, why);
    if (status == TT_OK && expected_bytes(list_out) != (uint64_t)about.st_size) {
        tt_kept_list_release(list_out);
        status = complain_damaged(path, "it does not have the length that its list says", why);
    }
    if (status != TT_OK) {
        tt_kept_close(file);
    }
    return status;
}

tt_status tt_kept_read(tt_kept_file *file, void *values, uint64_t bytes, tt_text *why)
{
    uint64_t hash;
    if (!get(file->stream, values, bytes) || !get(file->stream, &hash, sizeof(hash)) ||
        hash != tt_hash64(values, bytes, 0)) {
        return complain_damaged(file->path, "its values are damaged", why);
    }
    return TT_OK;
}
