/* SPDX-License-Identifier: Apache-2.0
 *
 * real_test.c - the real driver with shm links: two ranks as threads (one mapping, so that a race
 * detector sees everything) and as processes; sleep, wake, timer, death, stop, goodbye, fork.
 * A wait that would hang ends by a generous limit and fails the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "platform/real.h"
#include "support/burnt.h"
#include "transport/shm/shm.h"

enum { MIB = 1024 * 1024, PAYLOAD_BYTES = 60000, TURNS = 2000 };

static const uint64_t SECOND = 1000000000;

/* A rank with the simplest machine. */
typedef struct player {
    tt_real *real;
    tt_segment *segment;
    uint64_t frame_count, timer_count, sent_count;
    uint64_t wanted;
    uint8_t sink[PAYLOAD_BYTES];
    uint8_t last; /* last byte of the last payload */
    pid_t note;   /* first bytes of the last payload, where it has so many */
    int event;    /* last tt_peer_event, -1: none */
    char why[64];
    int events[8], event_count;
} player;

static void *player_frame(void *machine, uint32_t peer, const tt_head *head, const void *payload)
{
    player *self = machine;
    (void)peer;
    if (payload == NULL) {
        return self->sink;
    }
    if (head->payload_bytes == sizeof self->note) {
        memcpy(&self->note, payload, sizeof self->note);
    }
    self->frame_count++;
    self->last = head->payload_bytes > 0 ? ((const uint8_t *)payload)[head->payload_bytes - 1] : 0;
    return NULL;
}

static void player_payload(void *machine, uint32_t peer, const tt_head *head)
{
    player *self = machine;
    (void)peer;
    self->frame_count++;
    self->last = self->sink[head->payload_bytes - 1];
}

static void player_sent(void *machine, uint64_t token)
{
    (void)token;
    ((player *)machine)->sent_count++;
}

static void player_timer(void *machine)
{
    ((player *)machine)->timer_count++;
}

static void player_peer(void *machine, uint32_t peer, tt_peer_event event, const char *why)
{
    player *self = machine;
    (void)peer;
    self->event = (int)event;
    if (self->event_count < 8) {
        self->events[self->event_count++] = (int)event;
    }
    strncpy(self->why, why, sizeof self->why - 1);
}

static bool player_step(void *machine)
{
    (void)machine;
    return false;
}

static const tt_machine_ops PLAYER_OPS = {
    .frame = player_frame,
    .payload = player_payload,
    .sent = player_sent,
    .timer = player_timer,
    .peer = player_peer,
    .step = player_step,
};

static bool has_wanted(void *argument)
{
    const player *self = argument;
    return self->frame_count >= self->wanted;
}

static bool has_event(void *argument)
{
    return ((const player *)argument)->event >= 0;
}

static bool has_timer(void *argument)
{
    return ((const player *)argument)->timer_count > 0;
}

static bool never(void *argument)
{
    (void)argument;
    return false;
}

static tt_segment *make_segment(uint32_t index)
{
    const tt_segment_config config = {
        .local_index = index, .local_count = 2, .ring_bytes = 8192, .arena_bytes = 4 * MIB};
    tt_segment *segment = NULL;
    assert_int_equal(tt_segment_create(&config, &segment, NULL), TT_OK);
    return segment;
}

typedef struct seat {
    uint32_t rank;
    tt_segment *own, *theirs;
    int socket;
    pid_t peer_pid; /* 0: same process */
    bool spins;
} seat;

static void player_init(player *self, const seat *place)
{
    memset(self, 0, sizeof *self);
    self->event = -1;
    self->segment = place->own;
    const tt_shm_config link_config = {
        .peer = 1 - place->rank,
        .own = place->own,
        .theirs = place->theirs,
        .socket = place->socket,
        .pidfd = place->peer_pid > 0 ? (int)syscall(SYS_pidfd_open, place->peer_pid, 0) : -1,
    };
    tt_real_peer peers[2] = {{0}};
    peers[place->rank].segment = place->own;
    peers[1 - place->rank].segment = place->theirs;
    peers[1 - place->rank].pid = place->peer_pid;
    if (tt_shm_link_create(&link_config, &peers[1 - place->rank].link) != TT_OK) {
        abort();
    }
    const tt_real_config config = {
        .rank = place->rank, .rank_count = 2, .peers = peers, .seed = 5, .spins = place->spins};
    if (tt_real_create(&config, &self->real) != TT_OK) {
        abort();
    }
    const tt_machine machine = {.ops = &PLAYER_OPS, .self = self};
    tt_real_attach(self->real, &machine);
}

/* Two ranks in this process. */
typedef struct table {
    player players[2];
    tt_segment *segments[2];
} table;

static table *table_create(bool spins)
{
    table *both = calloc(1, sizeof *both);
    assert_non_null(both);
    int sockets[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    for (uint32_t i = 0; i < 2; i++) {
        both->segments[i] = make_segment(i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        const seat place = {.rank = i,
                            .own = both->segments[i],
                            .theirs = both->segments[1 - i],
                            .socket = sockets[i],
                            .spins = spins};
        player_init(&both->players[i], &place);
    }
    return both;
}

static void table_destroy(table *both)
{
    for (int i = 0; i < 2; i++) {
        if (both->players[i].real != NULL) {
            tt_real_close(both->players[i].real, 0);
        }
        tt_segment_release(both->segments[i]);
    }
    free(both);
}

static tt_status send_bytes(player *self, uint32_t peer, const void *bytes, uint32_t count)
{
    tt_platform *platform = tt_real_platform(self->real);
    const tt_head head = {.payload_bytes = count};
    const tt_send send = {.peer = peer, .payload = bytes, .head = &head};
    return platform->ops->send(platform, &send);
}

typedef struct pong {
    player *self;
    uint32_t rank;
    bool failed;
} pong;

/* Take turns; sizes range from within one line to several rings. Every few turns one side pauses
 * long enough for the other to fall asleep. */
static void *play(void *argument)
{
    pong *game = argument;
    player *self = game->self;
    uint8_t *bytes = malloc(PAYLOAD_BYTES);
    uint64_t borrowed = 0;
    for (uint32_t turn = 0; turn < TURNS && !game->failed; turn++) {
        if (turn % 2 == game->rank) {
            if (turn % 16 == game->rank) {
                usleep(300);
            }
            const uint32_t count = turn % 50 < 2 ? PAYLOAD_BYTES : 1 + turn % 200;
            memset(bytes, (int)(turn & 0xff), count);
            const tt_status status = send_bytes(self, 1 - game->rank, bytes, count);
            borrowed += status == TT_IN_PROGRESS;
            game->failed |= status < 0;
        } else {
            self->wanted++;
            const uint64_t until_ns = tt_real_now(self->real) + 20 * SECOND;
            game->failed |= tt_real_wait(self->real, has_wanted, self, until_ns) != TT_OK;
            game->failed |= self->last != (turn & 0xff);
            game->failed |= self->sent_count != borrowed;
        }
    }
    free(bytes);
    return NULL;
}

static void run_threads(bool spins)
{
    table *both = table_create(spins);
    pong games[2];
    pthread_t threads[2];
    for (uint32_t i = 0; i < 2; i++) {
        games[i] = (pong){.self = &both->players[i], .rank = i};
        assert_int_equal(pthread_create(&threads[i], NULL, play, &games[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_false(games[0].failed);
    assert_false(games[1].failed);
    table_destroy(both);
}

static void test_threads_take_turns_and_no_wake_is_lost(void **state)
{
    (void)state;
    run_threads(false);
    run_threads(true);
}

/* A peer in a process of its own, with its own mapping, that runs `body`. */
typedef struct fellow {
    player self;
    pid_t pid;
    tt_segment *own, *theirs;
} fellow;

static void fellow_start(fellow *pair, void (*body)(player *, pid_t))
{
    tt_segment *segments[2] = {make_segment(0), make_segment(1)};
    int sockets[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    const pid_t parent = getpid();
    pair->pid = fork();
    const uint32_t rank = pair->pid == 0 ? 1 : 0;
    const tt_segment_config expected = {.local_index = 1 - rank, .local_count = 2};
    seat place = {.rank = rank,
                  .own = segments[rank],
                  .socket = sockets[rank],
                  .peer_pid = rank == 1 ? parent : pair->pid};
    close(sockets[1 - rank]);
    if (tt_segment_attach(tt_segment_descriptor(segments[1 - rank]), &expected, &place.theirs,
                          NULL) != TT_OK) {
        abort();
    }
    tt_segment_release(segments[1 - rank]);
    player_init(&pair->self, &place);
    pair->own = place.own;
    pair->theirs = place.theirs;
    if (rank == 1) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        body(&pair->self, parent);
        _exit(0);
    }
}

static void fellow_stop(fellow *pair)
{
    tt_real_close(pair->self.real, tt_real_now(pair->self.real) + SECOND);
    tt_segment_release(pair->own);
    tt_segment_release(pair->theirs);
    if (pair->self.note > 0) {
        kill(pair->self.note, SIGKILL);
    }
    if (pair->pid > 0) {
        kill(pair->pid, SIGKILL);
        waitpid(pair->pid, NULL, 0);
    }
}

static void body_plays(player *self, pid_t parent)
{
    (void)parent;
    pong game = {.self = self, .rank = 1};
    play(&game);
    if (game.failed) {
        abort();
    }
    tt_real_close(self->real, tt_real_now(self->real) + 10 * SECOND);
}

static void test_processes_take_turns_and_part_with_goodbye(void **state)
{
    (void)state;
    fellow *pair = malloc(sizeof *pair);
    fellow_start(pair, body_plays);
    pong game = {.self = &pair->self, .rank = 0};
    play(&game);
    assert_false(game.failed);
    const uint64_t until_ns = tt_real_now(pair->self.real) + 10 * SECOND;
    assert_int_equal(tt_real_wait(pair->self.real, has_event, &pair->self, until_ns), TT_OK);
    assert_int_equal(pair->self.event, TT_PEER_LEFT);
    assert_int_equal(send_bytes(&pair->self, 1, "x", 1), TT_ERR_PEER_LEFT);
    int status = -1;
    assert_int_equal(waitpid(pair->pid, &status, 0), pair->pid);
    assert_int_equal(status, 0);
    pair->pid = 0;
    pair->self.note = 0;
    fellow_stop(pair);
    free(pair);
}

/* Sends one frame, leaves a child that keeps every descriptor, and waits for its end. */
static void body_waits(player *self, pid_t parent)
{
    (void)parent;
    const pid_t grandchild = fork();
    if (grandchild == 0) {
        alarm(60); /* even if the test fails */
        pause();
        _exit(0);
    }
    (void)send_bytes(self, 0, &grandchild, sizeof grandchild);
    pause();
}

static void wait_for_first_frame(player *self)
{
    self->wanted = 1;
    const uint64_t until_ns = tt_real_now(self->real) + 20 * SECOND;
    assert_int_equal(tt_real_wait(self->real, has_wanted, self, until_ns), TT_OK);
}

static void test_a_killed_peer_is_reported_while_we_sleep(void **state)
{
    (void)state;
    fellow *pair = malloc(sizeof *pair);
    fellow_start(pair, body_waits);
    wait_for_first_frame(&pair->self);
    kill(pair->pid, SIGKILL);
    const uint64_t until_ns = tt_real_now(pair->self.real) + 20 * SECOND;
    assert_int_equal(tt_real_wait(pair->self.real, has_event, &pair->self, until_ns), TT_OK);
    assert_int_equal(pair->self.event, TT_PEER_DOWN);
    assert_string_equal(pair->self.why, "exited");
    fellow_stop(pair);
    free(pair);
}

static void test_a_stopped_peer_is_silent_and_comes_back(void **state)
{
    (void)state;
    fellow *pair = malloc(sizeof *pair);
    fellow_start(pair, body_waits);
    wait_for_first_frame(&pair->self);
    kill(pair->pid, SIGSTOP);
    const uint64_t until_ns = tt_real_now(pair->self.real) + 20 * SECOND;
    assert_int_equal(tt_real_wait(pair->self.real, has_event, &pair->self, until_ns), TT_OK);
    assert_int_equal(pair->self.event, TT_PEER_SILENT);
    pair->self.event = -1;
    kill(pair->pid, SIGCONT);
    assert_int_equal(tt_real_wait(pair->self.real, has_event, &pair->self, until_ns), TT_OK);
    assert_int_equal(pair->self.event, TT_PEER_BACK);
    fellow_stop(pair);
    free(pair);
}

static void wait_in_vain(void *argument)
{
    tt_real *real = argument;
    const uint64_t until_ns = tt_real_now(real) + SECOND / 5;
    assert_int_equal(tt_real_wait(real, never, NULL, until_ns), TT_ERR_TIMED_OUT);
    assert_true(tt_real_now(real) >= until_ns);
}

static void test_waiting_costs_next_to_no_processor_time(void **state)
{
    (void)state;
    for (int spins = 0; spins < 2; spins++) {
        table *both = table_create(spins != 0);
        const uint64_t enough_ns = SECOND / 100;
        assert_true(burnt_least_ns(CLOCK_THREAD_CPUTIME_ID, wait_in_vain, both->players[0].real,
                                   enough_ns) < enough_ns);
        table_destroy(both);
    }
}

static void test_the_timer_ends_a_sleep_and_fires_once(void **state)
{
    (void)state;
    table *both = table_create(false);
    player *self = &both->players[0];
    tt_platform *platform = tt_real_platform(self->real);
    const uint64_t at_ns = tt_real_now(self->real) + SECOND / 100;
    platform->ops->timer(platform, at_ns);
    assert_int_equal(tt_real_wait(self->real, has_timer, self, at_ns + 20 * SECOND), TT_OK);
    assert_true(tt_real_now(self->real) >= at_ns);
    for (int i = 0; i < 100; i++) {
        tt_real_poll(self->real);
    }
    assert_int_equal(self->timer_count, 1);
    platform->ops->timer(platform, at_ns);
    platform->ops->timer(platform, UINT64_MAX);
    for (int i = 0; i < 100; i++) {
        tt_real_poll(self->real);
    }
    assert_int_equal(self->timer_count, 1);
    table_destroy(both);
}

static void *wake_soon(void *argument)
{
    usleep(2000);
    tt_real_wake(argument);
    return NULL;
}

static void test_a_wake_before_or_during_sleep_ends_it(void **state)
{
    (void)state;
    table *both = table_create(false);
    tt_real *real = both->players[0].real;
    tt_real_wake(real);
    tt_real_wake(real);
    tt_real_sleep(real, UINT64_MAX);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wake_soon, real), 0);
    tt_real_sleep(real, UINT64_MAX);
    pthread_join(thread, NULL);
    while (tt_real_poll(real)) {
    }
    uint64_t until_ns = 0;
    assert_true(tt_real_sleep_begin(real, 77, &until_ns));
    assert_int_equal(until_ns, 77);
    tt_real_sleep_end(real);
    table_destroy(both);
}

static void test_a_frame_before_the_last_check_prevents_sleep(void **state)
{
    (void)state;
    table *both = table_create(false);
    while (tt_real_poll(both->players[1].real)) {
    }
    assert_int_equal(send_bytes(&both->players[0], 1, "x", 1), TT_OK);
    uint64_t until_ns = 0;
    assert_false(tt_real_sleep_begin(both->players[1].real, UINT64_MAX, &until_ns));
    assert_int_equal(both->players[1].frame_count, 1);
    assert_true(tt_real_sleep_begin(both->players[1].real, UINT64_MAX, &until_ns));
    assert_int_equal(send_bytes(&both->players[0], 1, "x", 1), TT_OK);
    tt_real_sleep_block(both->players[1].real, UINT64_MAX); /* returns: the peer has rung */
    tt_real_sleep_end(both->players[1].real);
    tt_real_poll(both->players[1].real);
    assert_int_equal(both->players[1].frame_count, 2);
    table_destroy(both);
}

static void test_lingering_wakes_a_thread_that_blocks(void **state)
{
    (void)state;
    table *both = table_create(false);
    tt_real *real = both->players[1].real;
    while (tt_real_poll(real)) {
    }
    uint64_t until_ns = 0;
    const uint64_t limit_ns = tt_real_now(real) + 20 * SECOND;
    assert_true(tt_real_sleep_begin(real, limit_ns, &until_ns));
    tt_real_drive(real);  /* another thread takes over, */
    tt_real_linger(real); /* and releases it: from now on peers do not ring */
    assert_int_equal(send_bytes(&both->players[0], 1, "x", 1), TT_OK);
    tt_real_sleep_block(real, until_ns);
    assert_true(tt_real_now(real) < limit_ns);
    tt_real_sleep_end(real);
    tt_real_poll(real);
    assert_int_equal(both->players[1].frame_count, 1);
    table_destroy(both);
}

static void test_shared_memory_is_viewed_where_its_owner_located_it(void **state)
{
    (void)state;
    table *both = table_create(false);
    tt_platform *platforms[2];
    for (int i = 0; i < 2; i++) {
        platforms[i] = tt_real_platform(both->players[i].real);
    }
    uint8_t *memory = platforms[0]->ops->allocate(platforms[0], TT_MEMORY_SHARED, 1000);
    assert_non_null(memory);
    tt_place place;
    assert_true(platforms[0]->ops->locate(platforms[0], memory, 1000, &place));
    assert_ptr_equal(platforms[1]->ops->view(platforms[1], 0, place, 1000), memory);
    assert_ptr_equal(platforms[0]->ops->view(platforms[0], 0, place, 1000), memory);
    place.offset = UINT64_MAX - 10;
    assert_null(platforms[1]->ops->view(platforms[1], 0, place, 1000));
    place = (tt_place){.region = 1};
    assert_null(platforms[1]->ops->view(platforms[1], 0, place, 1));
    assert_false(platforms[0]->ops->locate(platforms[0], &place, 1, &place));
    platforms[0]->ops->release(platforms[0], TT_MEMORY_SHARED, memory, 1000);
    uint8_t *private_memory = tt_platform_allocate(platforms[0], 100);
    assert_int_equal((uintptr_t)private_memory % 64, 0);
    assert_false(platforms[0]->ops->locate(platforms[0], private_memory, 1, &place));
    tt_platform_release(platforms[0], private_memory, 100);
    assert_null(tt_platform_allocate(platforms[0], SIZE_MAX));
    table_destroy(both);
}

static void test_random_numbers_follow_seed_and_rank(void **state)
{
    (void)state;
    table *both = table_create(false);
    table *again = table_create(false);
    for (int i = 0; i < 10; i++) {
        const uint64_t value = tt_platform_random(tt_real_platform(both->players[0].real));
        assert_int_equal(value, tt_platform_random(tt_real_platform(again->players[0].real)));
        assert_int_not_equal(value, tt_platform_random(tt_real_platform(both->players[1].real)));
    }
    table_destroy(both);
    table_destroy(again);
}

/* A link over a descriptor that copies on send and writes in poll. */
typedef struct lazy_link {
    tt_link link;
    int fd;
    uint32_t unwritten, poll_count;
} lazy_link;

static tt_status lazy_send(tt_link *link, const tt_send *send)
{
    (void)send;
    ((lazy_link *)link)->unwritten++;
    return TT_OK;
}

static void lazy_recall(tt_link *link, uint64_t token)
{
    (void)link;
    (void)token;
}

static void lazy_nothing(tt_link *link)
{
    (void)link;
}

/* Writes one frame in every second poll, so that it also has to wait for its descriptor. */
static bool lazy_poll(tt_link *link)
{
    lazy_link *self = (lazy_link *)link;
    self->poll_count++;
    if (self->unwritten == 0 || self->poll_count % 2 == 1) {
        return false;
    }
    self->unwritten--;
    return true;
}

static void lazy_descriptors(const tt_link *link, int fds_out[2], bool wants_write_out[2])
{
    const lazy_link *self = (const lazy_link *)link;
    fds_out[0] = self->fd;
    fds_out[1] = -1;
    wants_write_out[0] = self->unwritten > 0;
    wants_write_out[1] = false;
}

static bool lazy_closed(const tt_link *link)
{
    (void)link;
    return true;
}

static void lazy_forsake(const tt_link *link)
{
    (void)link;
}

static const tt_link_ops LAZY_OPS = {
    .name = "lazy",
    .send = lazy_send,
    .recall = lazy_recall,
    .discard = lazy_nothing,
    .poll = lazy_poll,
    .descriptors = lazy_descriptors,
    .idle = lazy_closed,
    .close = lazy_nothing,
    .closed = lazy_closed,
    .forsake = lazy_forsake,
    .destroy = lazy_nothing,
};

static bool has_written(void *argument)
{
    return ((const lazy_link *)argument)->unwritten == 0;
}

enum { LAZY_MAX = 3 };

/* This rank and `count` peers, all over lazy links. */
typedef struct lazy_world {
    lazy_link links[LAZY_MAX];
    int far_ends[LAZY_MAX];
    player self;
} lazy_world;

static void lazy_create(lazy_world *world, uint32_t count)
{
    tt_real_peer peers[1 + LAZY_MAX] = {{0}};
    *world = (lazy_world){.self = {.event = -1}};
    for (uint32_t i = 0; i < count; i++) {
        int sockets[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
        world->links[i] = (lazy_link){.link = {.ops = &LAZY_OPS, .peer = 1 + i}, .fd = sockets[0]};
        world->far_ends[i] = sockets[1];
        peers[1 + i].link = &world->links[i].link;
    }
    const tt_real_config config = {.rank_count = 1 + count, .peers = peers};
    assert_int_equal(tt_real_create(&config, &world->self.real), TT_OK);
    const tt_machine machine = {.ops = &PLAYER_OPS, .self = &world->self};
    tt_real_attach(world->self.real, &machine);
}

static void lazy_destroy(lazy_world *world, uint32_t count)
{
    tt_real_close(world->self.real, 0);
    for (uint32_t i = 0; i < count; i++) {
        close(world->links[i].fd);
        close(world->far_ends[i]);
    }
}

static void test_a_copied_frame_is_written_and_an_idle_one_of_many_sockets_left_alone(void **state)
{
    (void)state;
    lazy_world world;
    lazy_create(&world, LAZY_MAX);
    lazy_link *lazy = &world.links[0];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(send_bytes(&world.self, 1, "x", 1), TT_OK);
        const uint64_t until_ns = tt_real_now(world.self.real) + 20 * SECOND;
        assert_int_equal(tt_real_wait(world.self.real, has_written, lazy, until_ns), TT_OK);
    }
    while (tt_real_poll(world.self.real)) {
    }
    const uint32_t poll_count = lazy->poll_count;
    for (int i = 0; i < 100; i++) {
        assert_false(tt_real_poll(world.self.real));
    }
    assert_in_range(lazy->poll_count, poll_count, poll_count + 1);
    lazy_destroy(&world, LAZY_MAX);
}

static void test_few_sockets_are_read_without_epoll_unless_they_wait_to_write(void **state)
{
    (void)state;
    lazy_world world;
    lazy_create(&world, 1);
    lazy_link *lazy = &world.links[0];
    for (int i = 0; i < 64; i++) {
        assert_false(tt_real_poll(world.self.real));
    }
    assert_in_range(lazy->poll_count, 48, 64);
    assert_int_equal(send_bytes(&world.self, 1, "x", 1), TT_OK);
    const uint64_t until_ns = tt_real_now(world.self.real) + 20 * SECOND;
    assert_int_equal(tt_real_wait(world.self.real, has_written, lazy, until_ns), TT_OK);
    lazy_destroy(&world, 1);
}

static int open_descriptor_count(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static void test_a_forked_child_keeps_no_descriptor(void **state)
{
    (void)state;
    const int before = open_descriptor_count();
    table *both = table_create(false);
    const pid_t child = fork();
    if (child == 0) {
        tt_real_child_after_fork(both->players[0].real);
        tt_real_child_after_fork(both->players[1].real);
        _exit(open_descriptor_count() == before ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(send_bytes(&both->players[0], 1, "x", 1), TT_OK);
    tt_real_poll(both->players[1].real);
    assert_int_equal(both->players[1].frame_count, 1);
    table_destroy(both);
    assert_int_equal(open_descriptor_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_take_turns_and_no_wake_is_lost),
        cmocka_unit_test(test_processes_take_turns_and_part_with_goodbye),
        cmocka_unit_test(test_a_killed_peer_is_reported_while_we_sleep),
        cmocka_unit_test(test_a_stopped_peer_is_silent_and_comes_back),
        cmocka_unit_test(test_waiting_costs_next_to_no_processor_time),
        cmocka_unit_test(test_the_timer_ends_a_sleep_and_fires_once),
        cmocka_unit_test(test_a_wake_before_or_during_sleep_ends_it),
        cmocka_unit_test(test_a_frame_before_the_last_check_prevents_sleep),
        cmocka_unit_test(test_lingering_wakes_a_thread_that_blocks),
        cmocka_unit_test(test_shared_memory_is_viewed_where_its_owner_located_it),
        cmocka_unit_test(test_random_numbers_follow_seed_and_rank),
        cmocka_unit_test(test_a_copied_frame_is_written_and_an_idle_one_of_many_sockets_left_alone),
        cmocka_unit_test(test_few_sockets_are_read_without_epoll_unless_they_wait_to_write),
        cmocka_unit_test(test_a_forked_child_keeps_no_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
