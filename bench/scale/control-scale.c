/* SPDX-License-Identifier: Apache-2.0
 *
 * control-scale.c - what agreeing costs with up to 27,600 members, in one process.
 *
 * usage: bench-control-scale [--quick] [--check] [--members N] [--mode M] [--steps S]
 *                            [--bursts B] [--first B] [--json FILE]
 *
 * The negotiators are those of the library; only the network is simulated: a frame costs its sender
 * and its receiver time, then latency and bandwidth, less inside a host (6 members each). In every
 * step each member submits the 161 tensors of ResNet50 in B (8) bursts of backward computation, a
 * little apart from its peers (in the first one, which takes longest, the B of --first); the next
 * begins when all is agreed. Counted: frames, their sizes, the time from the last submission to the
 * last agreement (exposed), memory, and frames simulated per second of a core, in the first step
 * and in the last. With --check it fails where one of these grows by more than it may. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/philox.h"
#include "bench/common/clock.h"
#include "negotiate/negotiate.h"
#include "sim/sim.h"
#include "tensors.h"

enum {
    PER_HOST = 6,
    INLINE_BYTES = 32,       /* payload kept in a frame; more is allocated */
    BLOCK_BYTES = 64 * 1024, /* a member's memory comes from blocks of its own */
    CLASS_BYTES = 16,        /* sizes are rounded up to this */
    LINE_BYTES = 64,         /* of the cache */
    CLASSES = BLOCK_BYTES / CLASS_BYTES + 1,
    GROUND_BYTES = 64 << 20, /* blocks come from regions of huge pages */
    NEGOTIATOR_AHEAD = 4,    /* events before which its memory is fetched */
    NEGOTIATOR_LINES = 12,
    MEMBER_BYTES_MAX = 48 << 10, /* of 64 KiB allowed; 43.1 at 64 members, 43.5 at 27,600 */
};

/* Nanoseconds; those of a cluster with a 100 Gb/s network. */
static const uint64_t burst_ns = 1000 * 1000, jitter_ns = 100 * 1000;
static const uint64_t send_ns = 300, receive_ns = 300, receive_byte_ns = 3;
static const uint64_t net_latency_ns = 1300, host_latency_ns = 350;

/* ---- events ---- */

/* A line of the cache. */
typedef struct bench_frame {
    uint64_t round, digest;
    uint32_t from; /* of a free one: the next */
    uint32_t part;
    uint16_t bytes;
    uint8_t kind, flags;
    union {
        uint8_t near[INLINE_BYTES];
        uint8_t *far;
    };
} bench_frame;

_Static_assert(sizeof(bench_frame) <= LINE_BYTES, "a frame is a line of cache");
_Static_assert(TT_NOTICE_BYTES_MAX <= UINT16_MAX, "a frame counts them in 16 bits");

typedef enum event_kind { EVENT_FRAME, EVENT_SUBMIT, EVENT_TICK } event_kind;

typedef struct bench_member {
    struct bench_world *bench;
    tt_negotiator *negotiator;
    tt_ticket *tickets; /* [RESNET50_TENSORS] */
    uint64_t now_ns;    /* it has been busy until then */
    uint64_t tick_ns;   /* that was asked for; UINT64_MAX: none */
    uint64_t bytes;     /* of its memory */
    uint8_t *block;     /* what is left of its last block */
    uint32_t block_left;
    uint32_t self, done;
} bench_member;

/* Freed memory of one size. */
typedef struct bench_free {
    struct bench_free *next;
} bench_free;

typedef struct bench_ground {
    struct bench_ground *next;
    size_t used, bytes;
} bench_ground;

typedef struct bench_world {
    uint32_t size, bursts;
    bool has_cycles;
    bench_tensor tensors[RESNET50_TENSORS];
    tt_random random;
    uint32_t *host_of, *host_first, *host_members;
    bench_member *members;
    tt_event_queue queue;
    bench_frame *frames;
    uint32_t frame_count, frame_capacity, first_free;
    uint64_t done, begin_ns, last_submit_ns, last_done_ns;
    uint64_t delivered, submitted;
    bench_free *free[CLASSES];
    bench_ground *ground;
} bench_world;

static uint32_t take_frame(bench_world *bench)
{
    if (bench->first_free != UINT32_MAX) {
        const uint32_t number = bench->first_free;
        bench->first_free = bench->frames[number].from;
        return number;
    }
    if (bench->frame_count == bench->frame_capacity) {
        bench->frame_capacity = bench->frame_capacity == 0 ? 1024 : 2 * bench->frame_capacity;
        bench->frames = realloc(bench->frames, bench->frame_capacity * sizeof(*bench->frames));
        TT_ASSERT(bench->frames != NULL);
    }
    return bench->frame_count++;
}

static void push(bench_world *bench, uint64_t at_ns, uint32_t member, uint32_t what)
{
    tt_event_queue_push(&bench->queue, (tt_event){.at_ns = at_ns, .rank = member, .what = what});
}

/* ---- the host ---- */

/* Tens of thousands of members touch gigabytes in turn: what one of them needs lies together, on
 * huge pages, so that a frame costs few misses. */
static void *ground_take(bench_world *bench, size_t bytes)
{
    bench_ground *ground = bench->ground;
    if (ground == NULL || ground->bytes - ground->used < bytes) {
        const size_t wanted = bytes + 64 > GROUND_BYTES ? bytes + 64 : GROUND_BYTES;
        void *pages =
            mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        TT_ASSERT(pages != MAP_FAILED);
        (void)madvise(pages, wanted, MADV_HUGEPAGE);
        ground = pages;
        *ground = (bench_ground){.next = bench->ground, .used = 64, .bytes = wanted};
        bench->ground = ground;
    }
    void *memory = (uint8_t *)ground + ground->used;
    ground->used += bytes;
    return memory;
}

static void ground_release(bench_world *bench)
{
    while (bench->ground != NULL) {
        bench_ground *next = bench->ground->next;
        (void)munmap(bench->ground, bench->ground->bytes);
        bench->ground = next;
    }
}

static void *member_take(bench_member *self, size_t bytes)
{
    const size_t class = (bytes + CLASS_BYTES - 1) / CLASS_BYTES;
    if (class >= CLASSES) {
        return calloc(1, bytes);
    }
    bench_world *bench = self->bench;
    if (bench->free[class] != NULL) {
        bench_free *taken = bench->free[class];
        bench->free[class] = taken->next;
        return memset(taken, 0, bytes);
    }
    const uint32_t room = (uint32_t)(class * CLASS_BYTES);
    const uint32_t skip = room >= LINE_BYTES ? self->block_left % LINE_BYTES : 0;
    if (self->block_left < room + skip) {
        self->block = ground_take(bench, BLOCK_BYTES);
        self->block_left = BLOCK_BYTES;
    } else {
        self->block += skip; /* arrays begin with a line of the cache */
        self->block_left -= skip;
    }
    void *memory = self->block; /* zeros, as it was never used */
    self->block += room;
    self->block_left -= room;
    return memory;
}

static void *host_allocate(void *owner, size_t bytes)
{
    ((bench_member *)owner)->bytes += bytes;
    return member_take(owner, bytes);
}

static void host_release(void *owner, void *memory, size_t bytes)
{
    bench_member *self = owner;
    const size_t class = (bytes + CLASS_BYTES - 1) / CLASS_BYTES;
    self->bytes -= bytes;
    if (class >= CLASSES) {
        free(memory);
        return;
    }
    bench_free *given = memory;
    given->next = self->bench->free[class];
    self->bench->free[class] = given;
}

static uint64_t host_now(void *owner)
{
    return ((const bench_member *)owner)->now_ns;
}

static void host_send(void *owner, uint32_t to, const tt_notice *notice)
{
    bench_member *self = owner;
    bench_world *bench = self->bench;
    const uint32_t number = take_frame(bench);
    bench_frame *frame = &bench->frames[number];
    *frame = (bench_frame){.round = notice->round,
                           .digest = notice->digest,
                           .from = self->self,
                           .part = notice->part,
                           .bytes = (uint16_t)notice->bytes,
                           .kind = notice->kind,
                           .flags = notice->flags};
    if (notice->bytes > INLINE_BYTES) {
        frame->far = malloc(notice->bytes);
        TT_ASSERT(frame->far != NULL);
    }
    if (notice->bytes > 0) {
        memcpy(notice->bytes > INLINE_BYTES ? frame->far : frame->near, notice->payload,
               notice->bytes);
    }
    const bool is_near = bench->host_of[self->self] == bench->host_of[to];
    self->now_ns += send_ns;
    const uint64_t wire_ns = (notice->bytes + 48) / 12; /* 12 bytes a nanosecond */
    push(bench, self->now_ns + (is_near ? host_latency_ns : net_latency_ns) + wire_ns, to,
         number << 2 | EVENT_FRAME);
}

static void count_done(bench_member *self, uint32_t count)
{
    self->done += count;
    self->bench->done += count;
    if (self->now_ns > self->bench->last_done_ns) {
        self->bench->last_done_ns = self->now_ns;
    }
}

static void host_agreed(void *owner, const tt_agreement *items, uint32_t count)
{
    (void)items;
    count_done(owner, count);
}

static void host_planned(void *owner, const tt_agreement *item)
{
    (void)item;
    count_done(owner, 1);
}

static void host_failed(void *owner, tt_ticket *ticket, tt_status status, const char *text)
{
    (void)owner;
    (void)ticket;
    (void)status;
    fprintf(stderr, "a tensor failed: %s\n", text);
    exit(1);
}

static void host_joined(void *owner, uint32_t last)
{
    (void)owner;
    (void)last;
}

static tt_status host_explain(void *owner, const char *name, const tt_claimant *claimants,
                              uint32_t count, tt_text *text)
{
    (void)owner;
    (void)claimants;
    tt_text_add(text, "%s has %u claims", name, count);
    return TT_ERR_MISMATCH;
}

static void host_report(void *owner, int level, const char *text)
{
    (void)owner;
    (void)level;
    (void)text;
}

/* ---- a world ---- */

static void place_members(bench_world *bench)
{
    const uint32_t hosts = (bench->size + PER_HOST - 1) / PER_HOST;
    bench->host_of = calloc(bench->size, sizeof(uint32_t));
    bench->host_members = calloc(bench->size, sizeof(uint32_t));
    bench->host_first = calloc(hosts + 1U, sizeof(uint32_t));
    TT_ASSERT(bench->host_of != NULL && bench->host_members != NULL && bench->host_first != NULL);
    for (uint32_t i = 0; i < bench->size; i++) {
        bench->host_of[i] = i / PER_HOST;
        bench->host_members[i] = i;
        bench->host_first[i / PER_HOST + 1] = i + 1;
    }
}

static void make_tickets(bench_world *bench, bench_member *member)
{
    member->tickets = ground_take(bench, (RESNET50_TENSORS * sizeof(tt_ticket) + 63) / 64 * 64);
    for (uint32_t i = 0; i < RESNET50_TENSORS; i++) {
        bench_tensor *tensor =
            &bench->tensors[RESNET50_TENSORS - 1 - i]; /* as backward gives them */
        member->tickets[i] = (tt_ticket){.name = tensor->name,
                                         .claim = tensor->claim,
                                         .name_bytes = (uint16_t)strlen(tensor->name),
                                         .claim_bytes = sizeof(tensor->claim)};
    }
}

static bench_world *bench_create(uint32_t size, tt_negotiate_mode mode)
{
    bench_world *bench = calloc(1, sizeof(*bench));
    TT_ASSERT(bench != NULL);
    bench->size = size;
    bench->first_free = UINT32_MAX;
    tt_event_queue_init(&bench->queue, &tt_allocator_default);
    bench->has_cycles = mode == TT_NEGOTIATE_ORIGINAL;
    make_tensors(bench->tensors);
    tt_random_init(&bench->random, size, mode);
    place_members(bench);
    bench->members = calloc(size, sizeof(*bench->members));
    TT_ASSERT(bench->members != NULL);
    tt_negotiate_config config;
    tt_negotiate_config_init(&config);
    config.mode = mode;
    for (uint32_t i = 0; i < size; i++) {
        bench_member *member = &bench->members[i];
        member->bench = bench;
        member->self = i;
        member->tick_ns = UINT64_MAX;
        make_tickets(bench, member);
        const tt_negotiate_host host = {.owner = member,
                                        .allocate = host_allocate,
                                        .release = host_release,
                                        .now = host_now,
                                        .send = host_send,
                                        .agreed = host_agreed,
                                        .planned = host_planned,
                                        .failed = host_failed,
                                        .judged = host_failed,
                                        .joined = host_joined,
                                        .explain = host_explain,
                                        .report = host_report};
        const tt_negotiate_members members = {.size = size,
                                              .self = i,
                                              .host_count = (size + PER_HOST - 1) / PER_HOST,
                                              .host_of = bench->host_of,
                                              .host_first = bench->host_first,
                                              .host_members = bench->host_members};
        const tt_status status =
            tt_negotiator_create(&host, &members, &config, &member->negotiator);
        TT_ASSERT(status == TT_OK);
    }
    return bench;
}

static void drop_frames(bench_world *bench)
{
    tt_event event;
    while (tt_event_queue_pop(&bench->queue, &event)) {
        const bench_frame *frame = &bench->frames[event.what >> 2];
        if ((event.what & 3) == EVENT_FRAME && frame->bytes > INLINE_BYTES) {
            free(frame->far);
        }
    }
}

static void bench_destroy(bench_world *bench)
{
    for (uint32_t i = 0; i < bench->size; i++) {
        tt_negotiator_shut(bench->members[i].negotiator, TT_ERR_SHUT_DOWN, "over");
        tt_negotiator_destroy(bench->members[i].negotiator);
        TT_ASSERT(bench->members[i].bytes == 0);
    }
    drop_frames(bench);
    tt_event_queue_fini(&bench->queue);
    free(bench->frames);
    free(bench->members);
    free(bench->host_of);
    free(bench->host_first);
    free(bench->host_members);
    ground_release(bench);
    free(bench);
}

/* ---- running ---- */

/* A timer is asked for again when it has rung. Only the original mode has cycles; stalls are not of
 * interest here. */
static void ask_tick(bench_world *bench, bench_member *member)
{
    if (!bench->has_cycles) {
        return;
    }
    const uint64_t due_ns = tt_negotiator_due(member->negotiator);
    const uint64_t horizon_ns = UINT64_C(1000) * 1000 * 1000;
    if (due_ns < member->tick_ns && due_ns < member->now_ns + horizon_ns) {
        member->tick_ns = due_ns;
        push(bench, due_ns > member->now_ns ? due_ns : member->now_ns, member->self, EVENT_TICK);
    }
}

static void push_burst(bench_world *bench, uint32_t member, uint32_t burst)
{
    const uint64_t jitter = tt_random_below(&bench->random, jitter_ns);
    push(bench, bench->begin_ns + burst * burst_ns + jitter, member, burst << 2 | EVENT_SUBMIT);
}

static void submit_burst(bench_world *bench, bench_member *member, uint32_t burst)
{
    const uint32_t first = RESNET50_TENSORS * burst / bench->bursts;
    const uint32_t end = RESNET50_TENSORS * (burst + 1) / bench->bursts;
    bench->submitted += end - first;
    for (uint32_t i = first; i < end; i++) {
        tt_negotiator_submit(member->negotiator, &member->tickets[i]);
    }
    if (burst + 1 < bench->bursts) {
        push_burst(bench, member->self, burst + 1);
    }
    if (member->now_ns > bench->last_submit_ns) {
        bench->last_submit_ns = member->now_ns;
    }
}

static void deliver(bench_world *bench, bench_member *member, uint32_t number)
{
    const bench_frame frame = bench->frames[number]; /* sending may move the frames */
    bench->frames[number].from = bench->first_free;
    bench->first_free = number;
    const bool is_far = frame.bytes > INLINE_BYTES;
    const tt_notice notice = {.kind = frame.kind,
                              .flags = frame.flags,
                              .part = frame.part,
                              .round = frame.round,
                              .digest = frame.digest,
                              .bytes = frame.bytes,
                              .payload = is_far ? frame.far : frame.near};
    member->now_ns += receive_ns + receive_byte_ns * notice.bytes;
    const tt_status status = tt_negotiator_notice(member->negotiator, frame.from, &notice);
    TT_ASSERT(status == TT_OK);
    if (is_far) {
        free(frame.far);
    }
    bench->delivered++;
}

static void fetch_tickets(const bench_world *bench, tt_event event)
{
    const uint32_t burst = event.what >> 2;
    const uint32_t first = RESNET50_TENSORS * burst / bench->bursts;
    const uint32_t end = RESNET50_TENSORS * (burst + 1) / bench->bursts;
    for (uint32_t i = first; i < end; i++) {
        __builtin_prefetch(&bench->members[event.rank].tickets[i], 1);
    }
}

/* What events to come will need, first the member, then what it points to. */
static void fetch_ahead(const bench_world *bench)
{
    const tt_event *far = tt_event_queue_see(&bench->queue, TT_EVENTS_AHEAD - 1);
    const tt_event *near = tt_event_queue_see(&bench->queue, NEGOTIATOR_AHEAD);
    if (far != NULL) {
        __builtin_prefetch(&bench->members[far->rank], 1);
    }
    if (near == NULL) {
        return;
    }
    const uint8_t *negotiator = (const uint8_t *)bench->members[near->rank].negotiator;
    for (uint32_t line = 0; line < NEGOTIATOR_LINES; line++) {
        __builtin_prefetch(negotiator + line * LINE_BYTES, 1);
    }
    if ((near->what & 3) == EVENT_FRAME) {
        __builtin_prefetch(&bench->frames[near->what >> 2]);
    } else if ((near->what & 3) == EVENT_SUBMIT) {
        fetch_tickets(bench, *near);
    }
}

static void run_event(bench_world *bench)
{
    tt_event event;
    const bool has_event = tt_event_queue_pop(&bench->queue, &event);
    TT_ASSERT(has_event);
    TT_ASSERT(!bench->queue.has_failed);
    fetch_ahead(bench);
    bench_member *member = &bench->members[event.rank];
    if (event.at_ns > member->now_ns) {
        member->now_ns = event.at_ns;
    }
    const uint32_t number = event.what >> 2;
    switch ((event_kind)(event.what & 3)) {
    case EVENT_FRAME:
        deliver(bench, member, number);
        break;
    case EVENT_SUBMIT:
        submit_burst(bench, member, number);
        break;
    case EVENT_TICK:
        member->tick_ns = UINT64_MAX;
        tt_negotiator_tick(member->negotiator);
        break;
    }
    tt_negotiator_flush(member->negotiator);
    ask_tick(bench, member);
}

typedef struct step_result {
    uint64_t frames, bytes;
    double exposed_us;
    uint64_t rounds, turns;
    double seconds; /* of this process: it may share its core */
} step_result;

static double seconds_now(void)
{
    return (double)bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9;
}

static void sum_counters(const bench_world *bench, step_result *result, uint64_t *sizes)
{
    memset(sizes, 0, 16 * sizeof(*sizes));
    for (uint32_t i = 0; i < bench->size; i++) {
        const tt_negotiate_counters *count = tt_negotiator_count(bench->members[i].negotiator);
        result->frames += count->notices_sent;
        result->bytes += count->bytes_sent;
        for (uint32_t k = 0; k < 16; k++) {
            sizes[k] += count->sizes_sent[k];
        }
    }
    result->rounds = tt_negotiator_count(bench->members[0].negotiator)->rounds;
    result->turns = tt_negotiator_count(bench->members[0].negotiator)->coordinator_turns;
}

static step_result run_step(bench_world *bench, uint64_t *sizes)
{
    step_result before = {0}, after = {0};
    const double begin = seconds_now();
    sum_counters(bench, &before, sizes);
    bench->begin_ns = bench->last_done_ns;
    bench->done = 0;
    bench->last_submit_ns = 0;
    for (uint32_t i = 0; i < bench->size; i++) {
        push_burst(bench, i, 0);
    }
    while (bench->done < (uint64_t)bench->size * RESNET50_TENSORS) {
        run_event(bench);
    }
    const double seconds = seconds_now() - begin;
    sum_counters(bench, &after, sizes);
    return (step_result){.seconds = seconds,
                         .frames = after.frames - before.frames,
                         .bytes = after.bytes - before.bytes,
                         .rounds = after.rounds - before.rounds,
                         .turns = after.turns - before.turns,
                         .exposed_us =
                             ((double)bench->last_done_ns - (double)bench->last_submit_ns) / 1e3};
}

/* ---- reports ---- */

static double rate_of(const step_result *step)
{
    return step->seconds > 0 ? (double)step->frames / step->seconds : 0;
}

static uint64_t most_bytes(const bench_world *bench)
{
    uint64_t most = 0;
    for (uint32_t i = 1; i < bench->size; i++) {
        most = bench->members[i].bytes > most ? bench->members[i].bytes : most;
    }
    return most;
}

static const char *const mode_names[] = {[TT_NEGOTIATE_COORDINATOR] = "coordinator",
                                         [TT_NEGOTIATE_BITVECTOR] = "bitvector",
                                         [TT_NEGOTIATE_PLAN] = "plan",
                                         [TT_NEGOTIATE_ORIGINAL] = "original"};

static void print_json(FILE *json, const char *mode, const bench_world *bench,
                       const step_result *steps)
{
    const step_result *first = &steps[0], *last = &steps[1];
    const uint64_t most = most_bytes(bench);
    uint64_t sizes[16];
    step_result all = {0};
    sum_counters(bench, &all, sizes);
    fprintf(json,
            "{\"mode\": \"%s\", \"members\": %u, \"bursts\": %u, \"first_step\": {\"frames\": "
            "%llu, \"bytes\": "
            "%llu, \"exposed_us\": %.1f}, \"step\": {\"frames\": %llu, \"bytes\": %llu, "
            "\"exposed_us\": %.1f, \"rounds\": %llu, \"turns\": %llu}, \"member_bytes_max\": %llu, "
            "\"coordinator_bytes\": %llu, \"frames_per_second\": [%.0f, %.0f], \"sizes\": [",
            mode, bench->size, bench->bursts, (unsigned long long)first->frames,
            (unsigned long long)first->bytes, first->exposed_us, (unsigned long long)last->frames,
            (unsigned long long)last->bytes, last->exposed_us, (unsigned long long)last->rounds,
            (unsigned long long)last->turns, (unsigned long long)most,
            (unsigned long long)bench->members[0].bytes, rate_of(first), rate_of(last));
    for (uint32_t i = 0; i < 16; i++) {
        fprintf(json, "%s%llu", i > 0 ? ", " : "", (unsigned long long)sizes[i]);
    }
    fprintf(json, "]}");
}

static void print_line(const char *mode, const bench_world *bench, const step_result *steps)
{
    const uint64_t most = most_bytes(bench);
    const step_result *last = &steps[1];
    printf("%7u  %-11s  %9llu %9.1f  %9llu %9.1f %6llu %6llu  %7.1f  %9.1f  %5.2f %5.2f\n",
           bench->size, mode, (unsigned long long)steps[0].frames, steps[0].exposed_us,
           (unsigned long long)last->frames, last->exposed_us, (unsigned long long)last->rounds,
           (unsigned long long)last->turns, (double)most / 1024,
           (double)bench->members[0].bytes / 1024, rate_of(&steps[0]) / 1e6, rate_of(last) / 1e6);
    fflush(stdout);
}

/* ---- what must hold ---- */

static bool expect(bool is_right, const bench_world *bench, const char *mode, const char *what)
{
    if (!is_right) {
        fprintf(stderr, "%u members, %s: %s\n", bench->size, mode, what);
    }
    return is_right;
}

/* A vector goes from each member to its leader and back, and over log2 of the leaders. */
static uint64_t frames_of_round(uint32_t size)
{
    const uint64_t hosts = (size + PER_HOST - 1) / PER_HOST;
    uint64_t power = 1, dimensions = 0;
    for (; 2 * power <= hosts; power *= 2) {
        dimensions++;
    }
    return 2 * (size - hosts) + power * dimensions + 2 * (hosts - power);
}

/* Two hops inside the host, one for each doubling of hosts and two for those beyond; each with its
 * sending and receiving, and with sends that wait for the host's others. */
static double exposed_most_us(uint32_t size)
{
    double hops = 4;
    for (uint32_t hosts = (size + PER_HOST - 1) / PER_HOST; hosts > 1; hosts /= 2) {
        hops++;
    }
    return hops * (double)(net_latency_ns + send_ns + receive_ns + 100) / 1e3 +
           (double)(PER_HOST * (send_ns + receive_ns)) / 1e3;
}

static bool check(const bench_world *bench, tt_negotiate_mode mode, const step_result *steps)
{
    const step_result *step = &steps[1];
    const char *name = mode_names[mode];
    bool is_right = true;
    if (mode != TT_NEGOTIATE_ORIGINAL) {
        is_right &= expect(most_bytes(bench) <= MEMBER_BYTES_MAX, bench, name,
                           "a member takes more than 48 KiB");
    }
    if (mode == TT_NEGOTIATE_BITVECTOR) {
        is_right &= expect(step->turns == 0 && step->rounds == bench->bursts, bench, name,
                           "a burst is not one round without the coordinator");
        is_right &= expect(step->frames == step->rounds * frames_of_round(bench->size), bench, name,
                           "a round has more frames than its exchanges");
        is_right &= expect(step->exposed_us <= exposed_most_us(bench->size), bench, name,
                           "the exposed time grows by more than hops");
    }
    if (mode == TT_NEGOTIATE_PLAN) {
        is_right &= expect(step->frames == 0 && step->exposed_us <= 0, bench, name,
                           "a planned step has frames");
    }
    return is_right;
}

typedef struct bench_options {
    bool is_quick, is_check;
    uint32_t members, steps, bursts, first; /* of the first step; 0: as the others */
    int mode;                               /* 0: all */
    const char *json;
} bench_options;

static bool run_one(uint32_t size, tt_negotiate_mode mode, const bench_options *options, FILE *json)
{
    bench_world *bench = bench_create(size, mode);
    uint64_t sizes[16];
    step_result results[2];
    for (uint32_t i = 0; i < options->steps; i++) {
        bench->bursts = i == 0 && options->first > 0 ? options->first : options->bursts;
        results[i > 0] = run_step(bench, sizes);
    }
    print_line(mode_names[mode], bench, results);
    if (json != NULL) {
        print_json(json, mode_names[mode], bench, results);
    }
    const bool is_right = !options->is_check || check(bench, mode, results);
    bench_destroy(bench);
    return is_right;
}

static bool parse_options(int count, char **words, bench_options *options)
{
    static const struct option known[] = {
        {"quick", no_argument, NULL, 'q'},         {"check", no_argument, NULL, 'c'},
        {"members", required_argument, NULL, 'n'}, {"mode", required_argument, NULL, 'm'},
        {"steps", required_argument, NULL, 's'},   {"bursts", required_argument, NULL, 'b'},
        {"json", required_argument, NULL, 'j'},    {"first", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    *options = (bench_options){.steps = 6, .bursts = 8};
    int word;
    while ((word = getopt_long(count, words, "", known, NULL)) != -1) {
        if (word == 'q') {
            options->is_quick = true;
        } else if (word == 'c') {
            options->is_check = true;
        } else if (word == 'n') {
            options->members = (uint32_t)strtoul(optarg, NULL, 10);
        } else if (word == 's') {
            options->steps = (uint32_t)strtoul(optarg, NULL, 10);
        } else if (word == 'b') {
            options->bursts = (uint32_t)strtoul(optarg, NULL, 10);
        } else if (word == 'f') {
            options->first = (uint32_t)strtoul(optarg, NULL, 10);
        } else if (word == 'j') {
            options->json = optarg;
        } else if (word == 'm') {
            for (int i = TT_NEGOTIATE_COORDINATOR; i <= TT_NEGOTIATE_ORIGINAL; i++) {
                options->mode = strcmp(optarg, mode_names[i]) == 0 ? i : options->mode;
            }
            if (options->mode == 0) {
                return false;
            }
        } else {
            return false;
        }
    }
    return options->steps >= 2 && options->bursts > 0 && options->bursts <= RESNET50_TENSORS &&
           options->first <= RESNET50_TENSORS && optind == count;
}

static bool run_all(const bench_options *options, FILE *json)
{
    static const uint32_t sizes[] = {64, 96, 768, 6000, 27600};
    const uint32_t size_count = options->is_quick ? 3 : 5;
    bool is_first = true, is_right = true;
    printf("members  mode         first step, exposed us     a step, exposed us rounds  turns"
           "   KiB each  KiB at 0  Mframes/s: first, last\n");
    for (uint32_t i = 0; i < size_count; i++) {
        for (int mode = TT_NEGOTIATE_COORDINATOR; mode <= TT_NEGOTIATE_ORIGINAL; mode++) {
            const bool is_wanted = options->members == 0 || options->members == sizes[i];
            if (!is_wanted || (options->mode != 0 && options->mode != mode)) {
                continue;
            }
            if (json != NULL && !is_first) {
                fprintf(json, ",\n");
            }
            is_first = false;
            is_right &= run_one(sizes[i], (tt_negotiate_mode)mode, options, json);
        }
    }
    if (is_first && options->members > 0) {
        is_right &=
            run_one(options->members,
                    options->mode != 0 ? (tt_negotiate_mode)options->mode : TT_NEGOTIATE_PLAN,
                    options, json);
    }
    return is_right;
}

int main(int count, char **words)
{
    bench_options options;
    if (!parse_options(count, words, &options)) {
        fprintf(stderr,
                "usage: %s [--quick] [--check] [--members N] [--mode "
                "coordinator|bitvector|plan|original] [--steps S] [--bursts B] "
                "[--first B] [--json FILE]\n",
                words[0]);
        return 2;
    }
    FILE *json = options.json != NULL ? fopen(options.json, "w") : NULL;
    if (options.json != NULL && json == NULL) {
        fprintf(stderr, "cannot write %s\n", options.json);
        return 1;
    }
    if (json != NULL) {
        fprintf(json, "[\n");
    }
    const bool is_right = run_all(&options, json);
    if (json != NULL) {
        fprintf(json, "\n]\n");
        fclose(json);
    }
    return is_right ? 0 : 1;
}
