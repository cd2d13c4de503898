/* SPDX-License-Identifier: Apache-2.0
 *
 * store_coded_test.c - texts of codecs, what is coded, residuals that are put back, bytes of peers,
 * and pushes that are sent again when a server dies.
 *
 * Two workers and a server over frames that the test delivers itself, so that it sees their bytes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/codec.h"
#include "codec/registry.h"
#include "sync/store_coded.h"

enum { WORKERS = 2, RANKS = 3, FRAMES_MAX = 256, COUNT = 70000, EPOCH = 5 };

typedef struct frame {
    uint32_t from, to;
    tt_head head;
    uint8_t *payload;
} frame;

typedef struct world world;

typedef struct process {
    tt_platform platform; /* first */
    world *all;
    uint32_t rank;
    tt_sync *sync;
    tt_sync_request request, clock;
    float *values, *result;
    int ends;
    bool is_gone;
} process;

struct world {
    process processes[RANKS];
    frame frames[FRAMES_MAX];
    uint32_t frame_count;
    uint64_t push_bytes, value_bytes; /* payloads of PUSH, of VALUE */
    bool spoils;                      /* the scales of the next push or value */
    uint8_t spoiled;                  /* the kind of frame that is spoiled */
};

/* ---- a driver ---- */

static uint64_t zero(tt_platform *platform)
{
    (void)platform;
    return 0;
}

static void *allocate(tt_platform *platform, tt_memory_kind kind, size_t bytes)
{
    (void)platform, (void)kind;
    return calloc(1, bytes);
}

static void release(tt_platform *platform, tt_memory_kind kind, void *memory, size_t bytes)
{
    (void)platform, (void)kind, (void)bytes;
    free(memory);
}

static tt_status send_frame(tt_platform *platform, const tt_send *send)
{
    process *own = (process *)platform;
    world *all = own->all;
    assert_true(all->frame_count < FRAMES_MAX);
    frame *made = &all->frames[all->frame_count++];
    *made = (frame){.from = own->rank, .to = send->peer, .head = *send->head};
    if (made->head.payload_bytes > 0) {
        made->payload = malloc(made->head.payload_bytes);
        memcpy(made->payload, send->payload, made->head.payload_bytes);
    }
    all->push_bytes += made->head.kind == TT_SYNC_PUSH ? made->head.payload_bytes : 0;
    all->value_bytes += made->head.kind == TT_SYNC_VALUE ? made->head.payload_bytes : 0;
    if (all->spoils && made->head.kind == all->spoiled) {
        const float infinite = INFINITY;
        memcpy(made->payload, &infinite, sizeof(infinite));
        all->spoils = false;
    }
    return TT_OK;
}

static void recall(tt_platform *platform, uint32_t peer, uint64_t token)
{
    (void)platform, (void)peer, (void)token;
}

static void discard(tt_platform *platform, uint32_t peer)
{
    (void)platform, (void)peer;
}

static void spend(tt_platform *platform, tt_spend_kind kind, size_t bytes, uint32_t times)
{
    (void)platform, (void)kind, (void)bytes, (void)times;
}

static const tt_platform_ops driver = {.now = zero,
                                       .random = zero,
                                       .allocate = allocate,
                                       .release = release,
                                       .send = send_frame,
                                       .recall = recall,
                                       .discard = discard,
                                       .spend = spend};

static bool no_step(void *machine)
{
    (void)machine;
    return false;
}

static const tt_machine_ops nothing = {.step = no_step};

static void drop_report(void *owner, int level, const char *text)
{
    (void)owner, (void)level, (void)text;
}

/* ---- a world ---- */

static void world_make(world *all)
{
    const tt_machine inner = {.ops = &nothing};
    const tt_sync_listener listener = {.report = drop_report};
    *all = (world){.frame_count = 0};
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        process *own = &all->processes[rank];
        const tt_roles roles = {
            .rank = rank, .workers = WORKERS, .servers = RANKS - WORKERS, .epoch = EPOCH};
        *own = (process){.platform.ops = &driver, .all = all, .rank = rank};
        own->values = calloc(COUNT, sizeof(float));
        own->result = calloc(COUNT, sizeof(float));
        assert_int_equal(tt_sync_create(&own->platform, &roles, inner, &listener, &own->sync),
                         TT_OK);
    }
}

static void world_end(world *all)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        tt_sync_shut_down(all->processes[rank].sync, TT_ERR_SHUT_DOWN, "over");
        tt_sync_destroy(all->processes[rank].sync);
        free(all->processes[rank].values);
        free(all->processes[rank].result);
    }
}

static bool step_all(const world *all)
{
    bool has_more = false;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const tt_machine machine = tt_sync_machine(all->processes[rank].sync);
        has_more = (!all->processes[rank].is_gone && machine.ops->step(machine.self)) || has_more;
    }
    return has_more;
}

static void deliver(const world *all, const frame *one)
{
    const tt_machine machine = tt_sync_machine(all->processes[one->to].sync);
    const bool is_long = one->head.payload_bytes > TT_INLINE_BYTES_MAX;
    if (all->processes[one->to].is_gone || all->processes[one->from].is_gone) {
        return;
    }
    void *room =
        machine.ops->frame(machine.self, one->from, &one->head, is_long ? NULL : one->payload);
    if (is_long && room != NULL) {
        memcpy(room, one->payload, one->head.payload_bytes);
        machine.ops->payload(machine.self, one->from, &one->head);
    }
}

/* Deliver everything, in the order in which it was sent. */
static void settle(world *all)
{
    bool has_more = true;
    while (has_more) {
        has_more = false;
        has_more = step_all(all);
        if (all->frame_count > 0) {
            const frame one = all->frames[0];
            memmove(all->frames, all->frames + 1, --all->frame_count * sizeof(one));
            deliver(all, &one);
            free(one.payload);
            has_more = true;
        }
    }
}

static void take_end(tt_sync_request *request)
{
    process *own = request->owner;
    own->ends++;
}

static void submit(world *all, uint32_t rank, tt_sync_request wanted)
{
    process *own = &all->processes[rank];
    tt_sync_request *request = wanted.verb == TT_STORE_CLOCK ? &own->clock : &own->request;
    *request = wanted;
    request->name = "w";
    request->input = own->values;
    request->output = own->result;
    request->dtype = TT_F32;
    request->count = COUNT;
    request->owner = own;
    request->finished = take_end;
    tt_sync_submit(own->sync, request);
}

static void all_do(world *all, tt_sync_request wanted)
{
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        submit(all, rank, wanted);
    }
    settle(all);
}

static void begin(world *all, const char *policy, const char *update, const char *codec)
{
    world_make(all);
    all_do(all, (tt_sync_request){
                    .verb = TT_STORE_OPEN, .policy = policy, .update = update, .codec = codec});
    all_do(all, (tt_sync_request){.verb = TT_STORE_ADD});
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        assert_int_equal(all->processes[rank].request.status, TT_OK);
        assert_int_equal(all->processes[rank].ends, 2);
    }
}

/* ---- tests ---- */

static void test_texts_that_a_store_cannot_have(void **state)
{
    static const struct {
        const char *text, *culprit, *cure;
    } cases[] = {{"int8sum", "codec int8sum", "use int8"},
                 {"terngrad", "codec terngrad", "use int8"},
                 {"majority", "codec majority", "sign"},
                 {"int8:ef=21", "ef=21", "ef=on"},
                 {"itn8", "itn8", "int8"},
                 {"none@0,int8@5", "none@0", "none"}};
    tt_codec_spec spec;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        tt_text why = {0};
        assert_true(tt_coded_parse(cases[i].text, &spec, &why) < 0);
        assert_non_null(strstr(why.bytes, cases[i].culprit));
        assert_non_null(strstr(why.bytes, cases[i].cure));
        assert_null(spec.codec);
    }
    tt_text why = {0};
    assert_int_equal(tt_coded_parse(NULL, &spec, &why), TT_OK);
    assert_null(spec.codec);
    assert_int_equal(tt_coded_parse("none", &spec, &why), TT_OK);
    assert_null(spec.codec);
}

static void test_short_tensors_and_other_types_are_plain(void **state)
{
    tt_codec_spec spec, none = {.codec = NULL};
    tt_text why = {0};
    (void)state;
    assert_int_equal(tt_coded_parse("int8", &spec, &why), TT_OK);
    assert_true(tt_coded_applies(&spec, &(tt_sync_claim){.dtype = TT_F32, .count = 16385}));
    assert_false(tt_coded_applies(&spec, &(tt_sync_claim){.dtype = TT_F32, .count = 16384}));
    assert_false(tt_coded_applies(&spec, &(tt_sync_claim){.dtype = TT_F64, .count = 1 << 20}));
    assert_false(tt_coded_applies(&spec, &(tt_sync_claim){.dtype = TT_F16, .count = 1 << 20}));
    assert_false(tt_coded_applies(
        &spec, &(tt_sync_claim){.dtype = TT_F32, .count = 1 << 20, .row_elements = 4}));
    assert_false(tt_coded_applies(&none, &(tt_sync_claim){.dtype = TT_F32, .count = 1 << 20}));
}

/* A sum store that nobody has pushed to answers zeros: its memory as it was allocated. */
static void test_no_bytes_are_zeros_in_every_codec(void **state)
{
    (void)state;
    for (size_t i = 0; tt_codec_at(i) != NULL; i++) {
        tt_codec_spec spec;
        tt_text why = {0};
        if (tt_coded_parse(tt_codec_at(i)->name, &spec, &why) != TT_OK || spec.codec == NULL) {
            continue;
        }
        const size_t count = 5000;
        const size_t bytes = tt_codec_wire_bytes(&spec, count);
        uint8_t *wire = calloc(1, bytes);
        float *values = calloc(count, sizeof(float));
        const tt_codec_target target = {
            .values = values, .dtype = TT_F32, .factor = 1.0f, .count = count};
        assert_int_equal(tt_codec_check(&spec, wire, bytes, count), TT_OK);
        tt_codec_decode(&spec, wire, &target);
        for (size_t k = 0; k < count; k++) {
            assert_true(values[k] == 0.0f);
        }
        free(wire);
        free(values);
    }
}

/* One iteration of push and pull: workers push rank + 1 + some. */
static void push_once(world *all)
{
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            all->processes[rank].values[i] = (float)(rank + 1) + (float)(i % 100) / 100.0f;
        }
    }
    all_do(all, (tt_sync_request){.verb = TT_STORE_PUSH_PULL});
}

static void test_bytes_of_frames(void **state)
{
    static const struct {
        const char *codec, *update;
        double push, value; /* bytes of plain frames over these */
    } cases[] = {{NULL, "sum", 1.0, 1.0},
                 {"int8", "sum", 3.98, 3.98},
                 {"int8", "add", 3.98, 1.0},
                 {"sign", "sum", 30.2, 30.2},
                 {"fp16", "sgd:lr=1", 2.0, 1.0}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        world all;
        begin(&all, "bulk", cases[i].update, cases[i].codec);
        /* The server owns some of it; what workers own themselves needs no frame, but half of it
         * belongs to the other worker. */
        push_once(&all);
        const double push_bytes = (double)all.push_bytes, value_bytes = (double)all.value_bytes;
        world_end(&all);
        world plain;
        begin(&plain, "bulk", cases[i].update, NULL);
        push_once(&plain);
        const double push = (double)plain.push_bytes / push_bytes;
        const double value = (double)plain.value_bytes / value_bytes;
        print_message("%s %s: pushes %.3f, answers %.3f times fewer bytes\n",
                      cases[i].codec != NULL ? cases[i].codec : "none", cases[i].update, push,
                      value);
        assert_true(fabs(push / cases[i].push - 1.0) < 0.01);
        assert_true(fabs(value / cases[i].value - 1.0) < 0.01);
        world_end(&plain);
    }
}

/* With error feedback the sum of all answers approaches the sum of all pushes. */
static void test_feedback_makes_up_for_errors(void **state)
{
    static const char *const codecs[] = {"int4:ef=off", "int4"};
    double errors[2] = {0.0, 0.0};
    enum { TIMES = 20 };
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        world all;
        double *sums = calloc(COUNT, sizeof(double));
        begin(&all, "bulk", "sum", codecs[k]);
        for (int time = 0; time < TIMES; time++) {
            push_once(&all);
            assert_memory_equal(all.processes[0].result, all.processes[1].result,
                                COUNT * sizeof(float));
            for (uint32_t i = 0; i < COUNT; i++) {
                sums[i] += (double)all.processes[0].result[i];
            }
        }
        for (uint32_t i = 0; i < COUNT; i++) {
            const double wanted = TIMES * (3.0 + 2.0 * (double)(i % 100) / 100.0);
            errors[k] += fabs(sums[i] - wanted) / COUNT;
        }
        free(sums);
        world_end(&all);
    }
    assert_true(errors[1] < errors[0] / 4.0);
}

/* Worker 1 pushes too late for a quorum of one: what it pushed is in its next push. */
static void test_a_push_that_did_not_count_is_sent_with_the_next(void **state)
{
    world all;
    (void)state;
    begin(&all, "quorum:1", "sum", "int8");
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            all.processes[rank].values[i] = rank == 0 ? 0.0f : 127.0f;
        }
    }
    submit(&all, 0, (tt_sync_request){.verb = TT_STORE_PUSH});
    submit(&all, 0, (tt_sync_request){.verb = TT_STORE_CLOCK});
    settle(&all);
    assert_int_equal(all.processes[0].clock.clock, 1);
    submit(&all, 1, (tt_sync_request){.verb = TT_STORE_PUSH});
    settle(&all);
    assert_true(all.processes[1].request.is_uncounted);
    submit(&all, 1, (tt_sync_request){.verb = TT_STORE_CLOCK});
    settle(&all);
    submit(&all, 1, (tt_sync_request){.verb = TT_STORE_PUSH});
    submit(&all, 1, (tt_sync_request){.verb = TT_STORE_CLOCK});
    settle(&all);
    assert_false(all.processes[1].request.is_uncounted);
    submit(&all, 1, (tt_sync_request){.verb = TT_STORE_PULL});
    settle(&all);
    assert_int_equal(all.processes[1].request.status, TT_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(all.processes[1].result[i] == 254.0f);
    }
    world_end(&all);
}

static void test_bad_bytes_name_their_sender(void **state)
{
    (void)state;
    for (int is_value = 0; is_value < 2; is_value++) {
        world all;
        begin(&all, "bulk", "sum", "int8");
        all.spoils = true;
        all.spoiled = is_value ? TT_SYNC_VALUE : TT_SYNC_PUSH;
        push_once(&all);
        uint32_t failed = 0;
        for (uint32_t rank = 0; rank < WORKERS; rank++) {
            const tt_sync_request *request = &all.processes[rank].request;
            failed += request->status == TT_ERR_BAD_WIRE ? 1 : 0;
            if (request->status < 0) {
                assert_non_null(strstr(request->error, "(rank "));
                assert_non_null(strstr(request->error, "codec"));
            }
        }
        assert_int_equal(failed, WORKERS);
        world_end(&all);
    }
}

static void test_a_nan_is_seen_once_and_stays_in_no_residual(void **state)
{
    world all;
    (void)state;
    begin(&all, "bulk", "sum", "int8");
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        memset(all.processes[rank].values, 0, COUNT * sizeof(float));
    }
    all.processes[1].values[5] = NAN;
    all_do(&all, (tt_sync_request){.verb = TT_STORE_PUSH_PULL});
    assert_true(isnan(all.processes[0].result[5]) && isnan(all.processes[1].result[5]));
    assert_true(all.processes[0].result[COUNT - 1] == 0.0f);
    push_once(&all);
    assert_true(fabsf(all.processes[0].result[5] - 3.1f) < 0.1f);
    world_end(&all);
}

static void test_codecs_that_differ_are_refused_with_both_texts(void **state)
{
    world all;
    (void)state;
    world_make(&all);
    submit(&all, 0,
           (tt_sync_request){
               .verb = TT_STORE_OPEN, .policy = "bulk", .update = "sum", .codec = "int8"});
    submit(&all, 1, (tt_sync_request){.verb = TT_STORE_OPEN, .policy = "bulk", .update = "sum"});
    settle(&all);
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        const tt_sync_request *request = &all.processes[rank].request;
        assert_int_equal(request->status, TT_ERR_MISMATCH);
        assert_non_null(strstr(request->error, "bulk sum codec=int8"));
        assert_non_null(strstr(request->error, "use the same on all"));
    }
    world_end(&all);
}

/* ---- a server dies ---- */

/* The server is rank WORKERS: frames of its own are lost with it. */
static void kill_server(world *all)
{
    all->processes[WORKERS].is_gone = true;
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        const tt_machine machine = tt_sync_machine(all->processes[rank].sync);
        machine.ops->peer(machine.self, WORKERS, TT_PEER_DOWN, "killed");
    }
}

static const frame *find_push(const frame *frames, uint32_t count, uint32_t from, uint32_t lane)
{
    for (uint32_t i = 0; i < count; i++) {
        if (frames[i].head.kind == TT_SYNC_PUSH && frames[i].from == from &&
            frames[i].head.lane == lane) {
            return &frames[i];
        }
    }
    return NULL;
}

/* Each push that the server had answered to nobody is sent to another owner, with its bytes. */
static void test_a_push_is_sent_again_as_it_was_encoded(void **state)
{
    world all;
    frame lost[FRAMES_MAX];
    uint32_t lost_count = 0, again = 0;
    (void)state;
    begin(&all, "bulk", "sum", "int4");
    push_once(&all);
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        submit(&all, rank, (tt_sync_request){.verb = TT_STORE_PUSH_PULL});
    }
    while (step_all(&all)) {
    }
    for (uint32_t i = 0; i < all.frame_count; i++) {
        if (all.frames[i].to == WORKERS) {
            lost[lost_count++] = all.frames[i];
        }
    }
    const uint32_t before = all.frame_count;
    kill_server(&all);
    for (uint32_t i = 0; i < before; i++) { /* until all has been adopted */
        all.frames[i].payload = all.frames[i].to == WORKERS ? NULL : all.frames[i].payload;
    }
    for (uint32_t at = 0; at < all.frame_count; at++) {
        const frame one = all.frames[at];
        const frame *old = find_push(lost, lost_count, one.from, one.head.lane);
        if (at >= before && one.head.kind == TT_SYNC_PUSH) {
            assert_non_null(old);
            assert_int_equal(one.head.argument, old->head.argument);
            assert_int_equal(one.head.payload_bytes, old->head.payload_bytes);
            assert_memory_equal(one.payload, old->payload, one.head.payload_bytes);
            again++;
        }
        deliver(&all, &one);
        free(one.payload);
        (void)step_all(&all);
    }
    all.frame_count = 0;
    settle(&all);
    assert_true(again > 0);
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        assert_int_equal(all.processes[rank].request.status, TT_OK);
        assert_int_equal(all.processes[rank].ends, 4);
    }
    assert_memory_equal(all.processes[0].result, all.processes[1].result, COUNT * sizeof(float));
    for (uint32_t i = 0; i < lost_count; i++) {
        free(lost[i].payload);
    }
    world_end(&all);
}

/* What the owner kept is lost: the next sums are those of a store that begins. Workers have what
 * their codes lacked. */
static void test_sums_go_on_without_what_the_server_kept(void **state)
{
    double error = 0.0;
    double *sums = calloc(COUNT, sizeof(double));
    enum { TIMES = 20, DEATH = 7 };
    world all;
    (void)state;
    begin(&all, "bulk", "sum", "int4");
    for (int time = 0; time < TIMES; time++) {
        if (time == DEATH) {
            kill_server(&all);
            settle(&all);
        }
        push_once(&all);
        for (uint32_t rank = 0; rank < WORKERS; rank++) {
            assert_int_equal(all.processes[rank].request.status, TT_OK);
        }
        assert_memory_equal(all.processes[0].result, all.processes[1].result,
                            COUNT * sizeof(float));
        for (uint32_t i = 0; i < COUNT; i++) {
            sums[i] += (double)all.processes[0].result[i];
        }
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        error += fabs(sums[i] - TIMES * (3.0 + 2.0 * (double)(i % 100) / 100.0)) / COUNT;
    }
    assert_true(error < 1.0); /* two residuals, of at most a step of the codec each */
    free(sums);
    world_end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_that_a_store_cannot_have),
        cmocka_unit_test(test_short_tensors_and_other_types_are_plain),
        cmocka_unit_test(test_no_bytes_are_zeros_in_every_codec),
        cmocka_unit_test(test_bytes_of_frames),
        cmocka_unit_test(test_feedback_makes_up_for_errors),
        cmocka_unit_test(test_a_push_that_did_not_count_is_sent_with_the_next),
        cmocka_unit_test(test_bad_bytes_name_their_sender),
        cmocka_unit_test(test_a_nan_is_seen_once_and_stays_in_no_residual),
        cmocka_unit_test(test_codecs_that_differ_are_refused_with_both_texts),
        cmocka_unit_test(test_a_push_is_sent_again_as_it_was_encoded),
        cmocka_unit_test(test_sums_go_on_without_what_the_server_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
