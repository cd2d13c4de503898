/* SPDX-License-Identifier: Apache-2.0
 *
 * keep_worker.c - requests that read and fill planes, or ask for options; see keep.h. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/base.h"
#include "sync/keep/keep.h"

/* ---- planes ---- */

static uint32_t plane_count(const tt_worker_store *store)
{
    const tt_update *update = store->update.update;
    return update->is_sum ? 0 : 1 + update->state_count;
}

bool tt_sync_look_at(const tt_sync *sync, uint32_t number, tt_sync_look *look_out)
{
    const tt_worker_store *store = number < TT_STORES_MAX ? sync->stores[number] : NULL;
    if (store != NULL) {
        *look_out = (tt_sync_look){.is_idle = tt_worker_store_is_idle(store),
                                   .clock = store->clock,
                                   .planes = plane_count(store)};
    }
    return store != NULL;
}

uint32_t tt_sync_server_count(const tt_sync *sync)
{
    return sync->roles.servers;
}

bool tt_sync_server_is_gone(const tt_sync *sync, uint32_t server)
{
    TT_ASSERT(server < sync->roles.servers);
    return sync->is_gone[sync->roles.workers + server];
}

tt_status tt_keep_check(const tt_worker_store *store, const tt_sync_request *request, tt_text *why)
{
    if (request->plane < plane_count(store)) {
        return TT_OK;
    }
    tt_text_add(why, "update %s has no plane %u of tensor '%s'", store->update.update->name,
                request->plane, request->name);
    return TT_ERR_BAD_ARGUMENT;
}

void tt_keep_head(const tt_sync_request *request, tt_head *head)
{
    head->kind = request->verb == TT_STORE_READ ? TT_SYNC_READ : TT_SYNC_FILL;
    head->round = request->plane;
    head->argument = request->verb == TT_STORE_FILL ? request->step : 0;
}

/* ---- options ---- */

static void print_options(const tt_update *update, const float *options, tt_sync_options *out)
{
    tt_text text = {0};
    tt_update_print(update, options, &text);
    TT_ASSERT(text.length < sizeof(out->update));
    memcpy(out->update, text.bytes, text.length + 1);
}

static void end(tt_sync *sync, tt_worker_store *store, tt_status status, const char *text)
{
    tt_sync_request *request = store->asks.first;
    tt_worker_next_ask(sync, store);
    tt_worker_end(sync, request, status, text);
}

/* Only the keeper is asked: a SET is over when all owners have it. */
void tt_keep_ask_options(tt_sync *sync, tt_worker_store *store)
{
    const tt_update *update = store->update.update;
    tt_sync_options *options = store->asks.first->options;
    store->ask_number++;
    options->change_count = 0;
    if (update->option_count == 0) {
        print_options(update, NULL, options);
        end(sync, store, TT_OK, "");
        return;
    }
    const tt_head head = {
        .kind = TT_SYNC_OPTIONS, .set = store->id, .descriptor = store->ask_number};
    const uint32_t keeper = tt_sync_keeper(sync, &store->split);
    tt_sync_signal(sync, tt_split_rank(&store->split, keeper), head);
}

static bool is_value(float value)
{
    return isfinite(value) && value >= 0.0f;
}

static bool is_sound(const tt_update *update, const tt_sync_kept_options *kept)
{
    bool sound = kept->change_count <= TT_SYNC_CHANGES_MAX;
    for (uint32_t i = 0; i < update->option_count; i++) {
        sound = sound && is_value(kept->options[i]);
    }
    for (uint32_t i = 0; sound && i < kept->change_count; i++) {
        sound = kept->changes[i].option < update->option_count && is_value(kept->changes[i].value);
    }
    return sound;
}

void tt_keep_options_reply(tt_sync *sync, tt_worker_store *store, uint32_t peer,
                           const tt_head *head, const void *payload)
{
    const tt_update *update = store->update.update;
    tt_sync_request *request = store->asks.first;
    tt_sync_kept_options kept;
    if (request == NULL || request->verb != TT_STORE_OPTIONS ||
        head->descriptor != store->ask_number ||
        tt_split_number(&store->split, peer) >= store->split.owners) {
        return;
    }
    if (head->payload_bytes != sizeof(kept)) {
        end(sync, store, TT_ERR_NO_MEMORY, "an owner has no memory to send its options; try again");
        return;
    }
    memcpy(&kept, payload, sizeof(kept));
    if (!is_sound(update, &kept)) {
        end(sync, store, TT_ERR_BAD_WIRE,
            "an owner sent options that its update does not have; use one version of Tutti on all");
        return;
    }
    print_options(update, kept.options, request->options);
    memset(request->options->changes, 0, sizeof(request->options->changes));
    request->options->change_count = kept.change_count;
    for (uint32_t i = 0; i < kept.change_count; i++) {
        request->options->changes[i].clock = kept.changes[i].clock;
        (void)strncpy(request->options->changes[i].option,
                      update->option_names[kept.changes[i].option], TT_SYNC_OPTION_BYTES - 1);
        request->options->changes[i].value = (double)kept.changes[i].value;
    }
    end(sync, store, TT_OK, "");
}
