/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_test.c - whichever allocation fails, calls end with success or an error.
 *
 * The k-th allocation of the whole process fails, for every k, while two ranks join, call and
 * leave. Whichever call failed, a rank continues with the next one, as its peer does.
 *
 * Labels: asan
 * Timeout: 300
 * Wrap: malloc calloc realloc aligned_alloc mmap
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "conformance/ranks.h"

static atomic_long calls_left; /* at 1 the next one fails; 0 and below: none does */

static bool is_refused(void)
{
    const bool is_due = atomic_fetch_sub(&calls_left, 1) == 1;
    if (is_due) {
        errno = ENOMEM;
    }
    return is_due;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__real_mmap(void *start, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_mmap(void *start, size_t bytes, int protection, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t bytes)
{
    return is_refused() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_refused() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return is_refused() ? NULL : __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return is_refused() ? NULL : __real_aligned_alloc(alignment, bytes);
}

void *__wrap_mmap(void *start, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return is_refused() ? MAP_FAILED : __real_mmap(start, bytes, protection, flags, fd, offset);
}

/* ---- the life of a rank ---- */

enum { COUNT = 30000 };

typedef struct rank_life {
    const ranks_place *place;
    const char *transport;
    int rank;
    int failures;
    double patience_s; /* timeout of waiting for a peer that failed to join */
    float foreign[COUNT];
    float gathered[2 * COUNT];
} rank_life;

static void note(rank_life *life, tutti_context *context, tutti_status status)
{
    if (status != TUTTI_OK) {
        life->failures++;
        EXPECT_SAY(status < 0 && strlen(tutti_last_error(context)) > 0, "%s",
                   tutti_status_text(status));
    }
}

static void call_with_handle(rank_life *life, tutti_context *context)
{
    tutti_call call = TUTTI_CALL_INIT;
    tutti_handle *handle;
    call.input = call.output = life->foreign;
    call.count = COUNT;
    const tutti_status status = tutti_start(context, &call, &handle);
    note(life, context, status);
    if (status == TUTTI_OK) {
        note(life, context, tutti_wait(handle, -1.0));
        tutti_handle_free(handle);
    }
}

static void call_with_result(rank_life *life, tutti_context *context)
{
    tutti_call call = TUTTI_CALL_INIT;
    uint64_t counts[2];
    void *result = NULL;
    call.collective = TUTTI_ALLGATHER;
    call.input = life->foreign;
    call.count = (uint64_t)(100 + life->rank);
    call.output_counts = counts;
    call.result_out = &result;
    const tutti_status status = tutti_run(context, &call);
    note(life, context, status);
    EXPECT((status == TUTTI_OK) == (result != NULL));
    tutti_free(context, result);
}

static void call_all(rank_life *life, tutti_context *context)
{
    static const int both[] = {1, 0};
    tutti_set set;
    float *arena = tutti_alloc(context, COUNT * sizeof(*arena));
    float *values = arena != NULL ? arena : life->foreign;
    tutti_call scaled = TUTTI_CALL_INIT;
    scaled.collective = TUTTI_REDUCESCATTER;
    scaled.input = life->gathered;
    scaled.output = life->foreign;
    scaled.count = COUNT;
    scaled.prescale = 2.0;
    note(life, context, tutti_allreduce(context, values, values, 1, TUTTI_F32, TUTTI_SUM));
    note(life, context, tutti_allreduce(context, values, values, COUNT, TUTTI_F32, TUTTI_SUM));
    call_with_handle(life, context);
    note(life, context, tutti_run(context, &scaled));
    call_with_result(life, context);
    note(life, context, tutti_set_create(context, both, 2, &set));
    note(life, context, tutti_barrier(context));
    tutti_free(context, arena);
}

static void silent(void *user, int level, const char *text)
{
    (void)user;
    (void)level;
    (void)text;
}

static void *rank_main(void *argument)
{
    rank_life *life = argument;
    tutti_context *context = NULL;
    tutti_options options = ranks_options(life->place, life->rank, 2, life->transport);
    options.timeout_s = life->patience_s;
    options.log = silent;
    const tutti_status status = tutti_init(&options, &context);
    EXPECT((status == TUTTI_OK) == (context != NULL));
    note(life, NULL, status);
    if (status == TUTTI_OK) {
        call_all(life, context);
        EXPECT_STATUS(TUTTI_OK, tutti_shutdown(context));
    }
    return NULL;
}

/* True: the allocation to fail was reached. */
static bool live_with_failure(const char *transport, long k, double patience_s, int *failures_out)
{
    static rank_life lives[2];
    const ranks_place place = ranks_place_new(false);
    pthread_t second;
    for (int rank = 0; rank < 2; rank++) {
        memset(&lives[rank], 0, sizeof(lives[rank]));
        lives[rank].place = &place;
        lives[rank].transport = transport;
        lives[rank].rank = rank;
        lives[rank].patience_s = patience_s;
    }
    atomic_store(&calls_left, 0);
    EXPECT(pthread_create(&second, NULL, rank_main, &lives[1]) == 0);
    atomic_store(&calls_left, k);
    (void)rank_main(&lives[0]);
    EXPECT(pthread_join(second, NULL) == 0);
    const bool is_reached = atomic_exchange(&calls_left, 0) <= 0;
    *failures_out = lives[0].failures + lives[1].failures;
    ranks_place_drop(&place);
    return is_reached;
}

/* Bit i: descriptor i is open. */
static uint64_t open_descriptors(void)
{
    uint64_t bits = 0;
    for (int fd = 0; fd < 64; fd++) {
        bits |= (uint64_t)(fcntl(fd, F_GETFD) >= 0) << fd;
    }
    return bits;
}

static void fail_each(const char *transport)
{
    int failures = 0;
    const uint64_t open_before = open_descriptors();
    long k = 1;
    const bool is_chatty = getenv("TUTTI_TEST_VERBOSE") != NULL;
    for (bool is_reached = true; is_reached; k++) {
        const double before_s = ranks_clock_s();
        is_reached = live_with_failure(transport, k, 0.4, &failures);
        EXPECT_SAY(open_descriptors() == open_before, "allocation %ld: descriptors %llx, not %llx",
                   k, (unsigned long long)open_descriptors(), (unsigned long long)open_before);
        if (is_chatty) {
            (void)fprintf(stderr, "%s: allocation %ld: %d calls failed, %.3f s\n", transport, k,
                          failures, ranks_clock_s() - before_s);
        }
    }
    assert_true(k > 20);
    assert_false(live_with_failure(transport, 1000000, 30.0, &failures));
    assert_int_equal(failures, 0);
}

static void test_every_allocation_may_fail_over_shared_memory(void **state)
{
    (void)state;
    fail_each("shm");
}

static void test_every_allocation_may_fail_over_tcp(void **state)
{
    (void)state;
    fail_each("tcp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_may_fail_over_shared_memory),
        cmocka_unit_test(test_every_allocation_may_fail_over_tcp),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
