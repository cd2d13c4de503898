/* SPDX-License-Identifier: Apache-2.0
 *
 * keep.c - save, load and reshard: all that a store has goes to a file, or to another store of the
 * machine that takes its place.
 *
 *  (1) All workers meet first, and again at the end: what fails on one fails on all, with one text.
 *  (2) The present store is dropped when the next one is complete on all workers. Until then a
 *      failure leaves it as it was.
 */
#include <stdlib.h>
#include <string.h>

#include "api/enter.h"
#include "api/raise.h"
#include "api/store/meeting.h"
#include "base/assert.h"
#include "base/base.h"

/* What a caller wants. */
typedef struct keep_wish {
    const char *path; /* of save and load, */
    bool has_path;    /* which need one */
    bool has_clock;   /* all must be at the same */
    int servers;      /* that may own parts */
} keep_wish;

/* Where values come from that fill the next store. */
typedef struct keep_source {
    tutti_status (*read)(tutti_store *store, tt_kept_tensor *tensor, uint32_t plane, void *values,
                         void *user);
    void *user;
    bool is_shared; /* each worker takes some tensors; else worker 0 takes all */
} keep_source;

/* ---- what a store remembers ---- */

static char *copy_of(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

bool tt_store_remember(tutti_store *store, const tutti_store_config *config)
{
    store->policy = copy_of(config->policy != NULL ? config->policy : "bulk");
    store->update = copy_of(config->update != NULL ? config->update : "sum");
    store->codec = copy_of(config->codec);
    return store->policy != NULL && store->update != NULL &&
           (store->codec != NULL) == (config->codec != NULL);
}

void tt_store_free(tutti_store *store)
{
    free(store->policy);
    free(store->update);
    free(store->codec);
    free(store->tensors);
    (void)pthread_mutex_destroy(&store->tensors_lock);
    free(store);
}

static bool note(tutti_store *store, const tt_kept_tensor *tensor)
{
    if (store->tensor_count == store->tensor_capacity) {
        const uint32_t larger = store->tensor_capacity > 0 ? 2 * store->tensor_capacity : 16;
        tt_kept_tensor *grown = realloc(store->tensors, larger * sizeof(*grown));
        if (grown == NULL) {
            return false;
        }
        store->tensors = grown;
        store->tensor_capacity = larger;
    }
    store->tensors[store->tensor_count++] = *tensor;
    return true;
}

tutti_status tt_store_note(tutti_store *store, const tt_sync_request *added)
{
    tt_kept_tensor tensor = {
        .count = added->count, .row_elements = added->row_elements, .dtype = added->dtype};
    memcpy(tensor.name, added->name, strlen(added->name) + 1);
    (void)pthread_mutex_lock(&store->tensors_lock);
    const bool is_noted = note(store, &tensor);
    (void)pthread_mutex_unlock(&store->tensors_lock);
    return is_noted ? TUTTI_OK : tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a tensor");
}

/* ---- meetings ---- */

/* Do all workers mean the same? */
static tutti_status compare(const tutti_store *store, const uint8_t *notices, bool has_clock)
{
    const tt_store_notice first = tt_store_notice_of(store, notices, 0);
    for (int i = 1; i < store->context->size; i++) {
        const tt_store_notice other = tt_store_notice_of(store, notices, i);
        if (strcmp(first.path, other.path) != 0) {
            tt_text text = {0};
            tt_text_add(&text, "ranks name different files: rank 0 ");
            tt_text_add_quoted(&text, first.path, MEETING_PATH_BYTES);
            tt_text_add(&text, ", rank %d ", i);
            tt_text_add_quoted(&text, other.path, MEETING_PATH_BYTES);
            return tt_error_set(TUTTI_ERR_MISMATCH, "%s; use the same on all", text.bytes);
        }
        if (first.servers != other.servers) {
            return tt_error_set(TUTTI_ERR_MISMATCH,
                                "ranks want different numbers of servers: rank 0 %u, rank %d %u; "
                                "use the same on all",
                                first.servers, i, other.servers);
        }
        if (has_clock && !store->has_quorum && first.clock != other.clock) {
            return tt_error_set(TUTTI_ERR_MISMATCH,
                                "ranks are at different clocks of the store: rank 0 at %llu, rank "
                                "%d at %llu; call it after the same iteration on all",
                                (unsigned long long)first.clock, i,
                                (unsigned long long)other.clock);
        }
    }
    return TUTTI_OK;
}

/* What this worker has to say about its own call. */
static tt_store_notice make_notice(const tutti_store *store, const keep_wish *wish,
                                   const tt_sync_look *look)
{
    const int rank = store->context->rank;
    tt_store_notice own = {.clock = look->clock, .servers = (uint32_t)wish->servers};
    const char *objection = NULL;
    if (wish->has_path && (wish->path == NULL || wish->path[0] == '\0')) {
        objection = "path is NULL or empty on rank %d; name a file";
    } else if (wish->servers < 0) {
        objection = "servers is negative on rank %d; use 0 or more";
    } else if (!look->is_idle) {
        objection = "calls on the store are in flight on rank %d; wait for them first";
    }
    if (objection != NULL) {
        tt_text text = {0};
        tt_text_add(&text, objection, rank);
        own.status = TUTTI_ERR_BAD_ARGUMENT;
        memcpy(own.text, text.bytes, sizeof(own.text));
    }
    if (wish->path != NULL) {
        (void)snprintf(own.path, sizeof(own.path), "%s", wish->path);
    }
    return own;
}

/* The first meeting. */
static tutti_status begin(tutti_store *store, const keep_wish *wish, tt_store_plan *plan_out)
{
    tutti_context *context = store->context;
    uint8_t *notices = NULL;
    tutti_status status = tt_enter(context);
    if (status != TUTTI_OK) {
        return status;
    }
    uint8_t *is_gone = calloc((size_t)tt_sync_server_count(context->sync) + 1, 1);
    if (is_gone == NULL) {
        tt_leave(context);
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a store");
    }
    const tt_sync_look look = tt_store_look_at(store, is_gone);
    tt_leave(context);
    const tt_store_notice own = make_notice(store, wish, &look);
    status = tt_store_gather(store, &own, is_gone, &notices);
    free(is_gone);
    if (status == TUTTI_OK) {
        status = tt_store_first_failure(store, notices);
    }
    if (status == TUTTI_OK) {
        status = compare(store, notices, wish->has_clock);
    }
    if (status == TUTTI_OK) {
        status = tt_store_make_plan(store, notices, wish->servers, plan_out);
    }
    free(notices);
    return status;
}

/* ---- planes ---- */

static tutti_status read_plane(tutti_store *store, tt_kept_tensor *tensor, uint32_t plane,
                               void *values)
{
    tt_sync_request wanted = {.verb = TT_STORE_READ,
                              .store = store->number,
                              .name = tensor->name,
                              .output = values,
                              .plane = plane};
    uint64_t step = 0;
    const tutti_status status = tt_store_run(store->context, &wanted, &step, NULL);
    tensor->step = step;
    return status;
}

static tutti_status fill_plane(tutti_store *store, uint32_t number, const tt_kept_tensor *tensor,
                               uint32_t plane, const void *values)
{
    const tt_sync_request wanted = {.verb = TT_STORE_FILL,
                                    .store = number,
                                    .name = tensor->name,
                                    .input = values,
                                    .plane = plane,
                                    .step = tensor->step};
    return tt_store_run(store->context, &wanted, NULL, NULL);
}

/* Room for any plane; the caller frees it. NULL: no memory. */
static void *make_room(const tt_kept_list *list)
{
    uint64_t most = 1;
    for (uint32_t i = 0; i < list->tensor_count; i++) {
        most = tt_max_u64(most, tt_kept_plane_bytes(&list->tensors[i]));
    }
    void *room = malloc(most);
    if (room == NULL) {
        (void)tt_error_set(TUTTI_ERR_NO_MEMORY,
                           "out of memory for a plane of %llu bytes; this host needs more of it",
                           (unsigned long long)most);
    }
    return room;
}

/* ---- the list of a store that lives ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tt_kept_tensor *)a)->name, ((const tt_kept_tensor *)b)->name);
}

/* The caller releases it. */
static tutti_status make_list(tutti_store *store, uint64_t clock, tt_kept_list *list_out)
{
    const uint32_t planes = tt_store_look_at(store, NULL).planes;
    tt_kept_list list = {.clock = clock, .tensor_count = store->tensor_count};
    const tt_sync_request wanted = {
        .verb = TT_STORE_OPTIONS, .store = store->number, .options = &list.options};
    const tutti_status status = tt_store_run(store->context, &wanted, NULL, NULL);
    if (status != TUTTI_OK) {
        return status;
    }
    list.tensors = calloc((size_t)list.tensor_count + 1, sizeof(*list.tensors));
    if (list.tensors == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a list of tensors");
    }
    for (uint32_t i = 0; i < list.tensor_count; i++) {
        list.tensors[i] = store->tensors[i];
        list.tensors[i].planes = planes;
    }
    qsort(list.tensors, list.tensor_count, sizeof(*list.tensors), by_name);
    *list_out = list;
    return TUTTI_OK;
}

/* Worker 0's list, on all; the caller releases it. */
static tutti_status share_list(tutti_store *store, tt_kept_list *list_io)
{
    tutti_context *context = store->context;
    uint64_t byte_count = context->rank == 0 ? tt_kept_list_bytes(list_io) : 0;
    tutti_status status = tutti_broadcast(context, &byte_count, sizeof(byte_count), TUTTI_U8, 0);
    uint8_t *bytes = status == TUTTI_OK ? calloc(byte_count + 1, 1) : NULL;
    if (status == TUTTI_OK && bytes == NULL) {
        status = tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a list of tensors");
    }
    if (context->rank == 0 && bytes != NULL) {
        tt_kept_list_encode(list_io, bytes);
    }
    if (status == TUTTI_OK) {
        status = tutti_broadcast(context, bytes, byte_count, TUTTI_U8, 0);
    }
    if (status == TUTTI_OK && context->rank != 0) {
        tt_text why = {0};
        status = (tutti_status)tt_kept_list_decode(bytes, byte_count, list_io, &why);
        status = status != TUTTI_OK ? tt_error_set(status, "%s", why.bytes) : TUTTI_OK;
    }
    free(bytes);
    return status;
}

/* ---- the next store ---- */

/* The worker that moves a tensor: the one with the fewest bytes so far. `loads` [workers]. */
static int mover_of(const tutti_store *store, const tt_kept_tensor *tensor, uint64_t *loads)
{
    int mover = 0;
    for (int i = 1; i < store->context->size; i++) {
        mover = loads[i] < loads[mover] ? i : mover;
    }
    loads[mover] += tt_kept_plane_bytes(tensor) + 1;
    return mover;
}

static tutti_status fill_all(tutti_store *store, uint32_t number, tt_kept_list *list,
                             const keep_source *source)
{
    uint64_t *loads = calloc((size_t)store->context->size, sizeof(*loads));
    void *room = make_room(list);
    tutti_status status = room != NULL ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
    if (loads == NULL) {
        status = tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a store");
    }
    for (uint32_t i = 0; i < list->tensor_count && status == TUTTI_OK; i++) {
        tt_kept_tensor *tensor = &list->tensors[i];
        const int mover = source->is_shared ? mover_of(store, tensor, loads) : 0;
        for (uint32_t k = tensor->planes; k > 0 && mover == store->context->rank; k--) {
            if (status == TUTTI_OK) {
                status = source->read(store, tensor, k - 1, room, source->user);
            }
            if (status == TUTTI_OK) {
                status = fill_plane(store, number, tensor, k - 1, room);
            }
        }
    }
    free(room);
    free(loads);
    return status;
}

static tutti_status add_all(const tutti_store *store, uint32_t number, const tt_kept_list *list)
{
    tutti_status status = TUTTI_OK;
    for (uint32_t i = 0; i < list->tensor_count && status == TUTTI_OK; i++) {
        const tt_sync_request wanted = {.verb = TT_STORE_ADD,
                                        .store = number,
                                        .name = list->tensors[i].name,
                                        .dtype = list->tensors[i].dtype,
                                        .count = list->tensors[i].count,
                                        .row_elements = list->tensors[i].row_elements};
        status = tt_store_run(store->context, &wanted, NULL, NULL);
    }
    return status;
}

/* Worker 0: options that change at clocks to come. */
static tutti_status set_all(const tutti_store *store, uint32_t number, const tt_kept_list *list)
{
    tutti_status status = TUTTI_OK;
    const uint32_t count = store->context->rank == 0 ? list->options.change_count : 0;
    for (uint32_t i = 0; i < count && status == TUTTI_OK; i++) {
        const tt_sync_request wanted = {
            .verb = TT_STORE_SET,
            .store = number,
            .name = list->options.changes[i].option,
            .value = list->options.changes[i].value,
            .clock = tt_max_u64(list->options.changes[i].clock, list->clock)};
        status = tt_store_run(store->context, &wanted, NULL, NULL);
    }
    return status;
}

/* Room for the list's tensors, before anything is given up. */
static tutti_status reserve(tutti_store *store, const tt_kept_list *list)
{
    tt_kept_tensor *room = NULL;
    if (list->tensor_count <= store->tensor_capacity) {
        return TUTTI_OK;
    }
    room = realloc(store->tensors, list->tensor_count * sizeof(*room));
    if (room == NULL) {
        return tt_error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a list of tensors");
    }
    store->tensors = room;
    store->tensor_capacity = list->tensor_count;
    return TUTTI_OK;
}

static void note_all(tutti_store *store, const tt_kept_list *list)
{
    store->tensor_count = list->tensor_count;
    for (uint32_t i = 0; i < list->tensor_count; i++) {
        store->tensors[i] = list->tensors[i];
    }
}

/* The next store takes the place of the present one if all goes well on all workers. */
static tutti_status replace(tutti_store *store, tt_kept_list *list, const tt_store_plan *plan,
                            const keep_source *source)
{
    uint32_t number = UINT32_MAX;
    const tt_sync_request wanted = {.verb = TT_STORE_OPEN,
                                    .store = UINT32_MAX,
                                    .policy = store->policy,
                                    .update = list->options.update,
                                    .codec = store->codec,
                                    .clock = list->clock,
                                    .may_own = plan->may_own};
    tutti_status status = tt_store_run(store->context, &wanted, NULL, &number);
    if (status == TUTTI_OK) {
        status = add_all(store, number, list);
    }
    if (status == TUTTI_OK) {
        status = fill_all(store, number, list, source);
    }
    if (status == TUTTI_OK) {
        status = set_all(store, number, list);
    }
    if (status == TUTTI_OK) {
        status = reserve(store, list);
    }
    status = tt_store_agree(store, status);
    tt_sync_request close = {.verb = TT_STORE_CLOSE, .store = number};
    if (status == TUTTI_OK) {
        close.store = store->number;
        store->number = number;
        note_all(store, list);
    }
    if (number != UINT32_MAX) {
        char text[TT_TEXT_BYTES];
        (void)snprintf(text, sizeof(text), "%s", tutti_last_error(store->context));
        (void)tt_store_run(store->context, &close, NULL, NULL); /* nobody needs it any more */
        status = status != TUTTI_OK ? tt_error_set(status, "%s", text) : TUTTI_OK;
    }
    return status;
}

/* ---- save ---- */

static tutti_status raise_text(tt_status status, const tt_text *why)
{
    return status != TT_OK ? tt_error_set((tutti_status)status, "%s", why->bytes) : TUTTI_OK;
}

static tutti_status write_planes(tutti_store *store, tt_kept_list *list, tt_kept_file *file)
{
    void *room = make_room(list);
    tutti_status status = room != NULL ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < list->tensor_count; i++) {
        tt_kept_tensor *tensor = &list->tensors[i];
        for (uint32_t k = tensor->planes; k > 0; k--) {
            tt_text why = {0};
            if (status == TUTTI_OK) {
                status = read_plane(store, tensor, k - 1, room);
            }
            if (status == TUTTI_OK) {
                status =
                    raise_text(tt_kept_write(file, room, tt_kept_plane_bytes(tensor), &why), &why);
            }
        }
    }
    free(room);
    return status;
}

static tutti_status save_here(tutti_store *store, const char *path, uint64_t clock)
{
    tt_kept_list list = {.tensor_count = 0};
    tt_kept_file file;
    tt_text why = {0};
    tutti_status status = make_list(store, clock, &list);
    if (status != TUTTI_OK) {
        return status;
    }
    status = raise_text(tt_kept_create(&file, path, &list, &why), &why);
    if (status == TUTTI_OK) {
        status = write_planes(store, &list, &file);
    }
    if (status == TUTTI_OK) {
        status = raise_text(tt_kept_finish(&file, &list, &why), &why);
    } else {
        tt_kept_abandon(&file);
    }
    tt_kept_list_release(&list);
    return status;
}

tutti_status tutti_store_save(tutti_store *store, const char *path)
{
    tt_store_plan plan = {.may_own = NULL};
    tutti_status status = tt_store_check(store);
    if (status == TUTTI_OK) {
        const keep_wish wish = {
            .path = path, .has_path = true, .has_clock = true, .servers = store->servers};
        status = begin(store, &wish, &plan);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    free(plan.may_own);
    return tt_store_agree(store, store->context->rank == 0 ? save_here(store, path, plan.clock)
                                                           : TUTTI_OK);
}

/* ---- load ---- */

static tutti_status from_file(tutti_store *store, tt_kept_tensor *tensor, uint32_t plane,
                              void *values, void *user)
{
    tt_text why = {0};
    (void)store;
    (void)plane; /* planes are in the file in the order in which they are filled */
    return raise_text(tt_kept_read(user, values, tt_kept_plane_bytes(tensor), &why), &why);
}

/* Of the name in the text of an update, "own:" included. */
static size_t name_length(const char *update)
{
    const size_t mark = tt_update_is_own(update) ? strcspn(update, ":") + 1 : 0;
    return mark + strcspn(update + mark, ":");
}

static bool is_of_update(const char *text, const char *update)
{
    const size_t length = name_length(update);
    return name_length(text) == length && strncmp(text, update, length) == 0;
}

/* A file of this library has as many planes of each tensor as the update. */
static tutti_status check_planes(tutti_store *store, const char *path, const tt_kept_list *list)
{
    const uint32_t planes = tt_store_look_at(store, NULL).planes;
    for (uint32_t i = 0; i < list->tensor_count; i++) {
        if (list->tensors[i].planes != planes) {
            tt_text text = {0};
            tt_text_add_quoted(&text, path, 200);
            return tt_error_set(TUTTI_ERR_BAD_ARGUMENT,
                                "tensor '%s' has %u planes in file %s, and update %s has %u; load "
                                "another one",
                                list->tensors[i].name, list->tensors[i].planes, text.bytes,
                                store->update, planes);
        }
    }
    return TUTTI_OK;
}

/* Does the file have every tensor of the store, and the same update? */
static tutti_status check_list(tutti_store *store, const char *path, const tt_kept_list *list)
{
    tt_text text = {0};
    tt_text_add_quoted(&text, path, 200);
    if (!is_of_update(list->options.update, store->update)) {
        return tt_error_set(TUTTI_ERR_MISMATCH,
                            "file %s is of a store with update %s, this one has %s; open it with "
                            "the update of the file",
                            text.bytes, list->options.update, store->update);
    }
    const tutti_status planes_status = check_planes(store, path, list);
    if (planes_status != TUTTI_OK) {
        return planes_status;
    }
    for (uint32_t i = 0; i < store->tensor_count; i++) {
        const tt_kept_tensor *own = &store->tensors[i];
        const tt_kept_tensor *kept =
            bsearch(own, list->tensors, list->tensor_count, sizeof(*list->tensors), by_name);
        if (kept == NULL) {
            return tt_error_set(TUTTI_ERR_MISMATCH,
                                "file %s has no tensor '%s', which was added to the store; load "
                                "before you add it",
                                text.bytes, own->name);
        }
        if (kept->count != own->count || kept->dtype != own->dtype) {
            return tt_error_set(TUTTI_ERR_MISMATCH,
                                "tensor '%s' has %llu elements of %s in file %s, and %llu of %s in "
                                "the store; add it "
                                "as in the file",
                                own->name, (unsigned long long)kept->count,
                                tt_dtype_name(kept->dtype), text.bytes,
                                (unsigned long long)own->count, tt_dtype_name(own->dtype));
        }
        if (kept->row_elements != own->row_elements) {
            return tt_error_set(TUTTI_ERR_MISMATCH,
                                "tensor '%s' has rows of %u elements in file %s, and of %u in the "
                                "store (0: it is no table); add it as in the file",
                                own->name, kept->row_elements, text.bytes, own->row_elements);
        }
    }
    return TUTTI_OK;
}

static tutti_status open_here(tutti_store *store, const char *path, tt_kept_file *file,
                              tt_kept_list *list_out)
{
    tt_text why = {0};
    const tutti_status status = raise_text(tt_kept_open(file, path, list_out, &why), &why);
    return status == TUTTI_OK ? check_list(store, path, list_out) : status;
}

tutti_status tutti_store_load(tutti_store *store, const char *path)
{
    tt_store_plan plan = {.may_own = NULL};
    tt_kept_list list = {.tensor_count = 0};
    tt_kept_file file = {.stream = NULL};
    tutti_status status = tt_store_check(store);
    if (status == TUTTI_OK) {
        const keep_wish wish = {.path = path, .has_path = true, .servers = store->servers};
        status = begin(store, &wish, &plan);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    status = tt_store_agree(store, store->context->rank == 0 ? open_here(store, path, &file, &list)
                                                             : TUTTI_OK);
    if (status == TUTTI_OK) {
        status = tt_store_agree(store, share_list(store, &list));
    }
    if (status == TUTTI_OK) {
        const keep_source source = {.read = from_file, .user = &file};
        status = replace(store, &list, &plan, &source);
    }
    tt_kept_close(&file);
    tt_kept_list_release(&list);
    free(plan.may_own);
    return status;
}

/* ---- reshard ---- */

static tutti_status from_store(tutti_store *store, tt_kept_tensor *tensor, uint32_t plane,
                               void *values, void *user)
{
    (void)user;
    return read_plane(store, tensor, plane, values);
}

tutti_status tutti_store_reshard(tutti_store *store, int servers)
{
    tt_store_plan plan = {.may_own = NULL};
    tt_kept_list list = {.tensor_count = 0};
    const keep_wish wish = {.has_clock = true, .servers = servers};
    tutti_status status = tt_store_check(store);
    if (status == TUTTI_OK) {
        status = begin(store, &wish, &plan);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    status = tt_store_agree(store, store->context->rank == 0 ? make_list(store, plan.clock, &list)
                                                             : TUTTI_OK);
    if (status == TUTTI_OK) {
        status = tt_store_agree(store, share_list(store, &list));
    }
    if (status == TUTTI_OK) {
        const keep_source source = {.read = from_store, .is_shared = true};
        status = replace(store, &list, &plan, &source);
    }
    if (status == TUTTI_OK) {
        store->servers = servers;
    }
    tt_kept_list_release(&list);
    free(plan.may_own);
    return status;
}
