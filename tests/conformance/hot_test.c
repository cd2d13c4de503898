/* SPDX-License-Identifier: Apache-2.0
 *
 * hot_test.c - a blocking call whose peer is awake takes no memory, no lock and no system call.
 *
 * Two ranks sum again and again; libc calls of a calling thread are counted per call. The kernel
 * decides which rank calls first: that one waits, so it yields and sleeps, and may have to be
 * woken. The other one finds all frames arrived. So both continue until each has made calls without
 * any allocation, lock or system call; code that always makes one never gets there. Beside programs
 * that compute, a waiter does not yield to them in each call.
 *
 * Labels: asan tsan
 * Wrap: malloc calloc realloc aligned_alloc pthread_mutex_lock sched_yield ppoll
 * Wrap: epoll_wait read write send sendmsg recvmsg
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "conformance/ranks.h"

enum {
    WARM_CALLS = 8,
    QUIET_CALLS = 16,   /* enough of each rank */
    CALLS_MAX = 100000, /* within which they must occur */
    ENOUGH = 1 << 8,    /* added by a rank that has made them */
    ARENA_COUNT = 16 * 1024,
};

/* Counts of this thread. */
static _Thread_local uint64_t allocations, locks, yields, system_calls;
/* Simulates another program that takes the core for a time slice at each yield. */
static atomic_bool is_core_shared;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_sched_yield(void);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *left,
                 const sigset_t *mask);
int __real_epoll_wait(int epoll_fd, struct epoll_event *events, int count, int left_ms);
ssize_t __real_read(int fd, void *bytes, size_t count);
ssize_t __real_write(int fd, const void *bytes, size_t count);
ssize_t __real_send(int fd, const void *bytes, size_t count, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_sched_yield(void);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *left,
                 const sigset_t *mask);
int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int count, int left_ms);
ssize_t __wrap_read(int fd, void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_send(int fd, const void *bytes, size_t count, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);

void *__wrap_malloc(size_t bytes)
{
    allocations++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    allocations++;
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    allocations++;
    return __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    allocations++;
    return __real_aligned_alloc(alignment, bytes);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    locks++;
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_sched_yield(void)
{
    const struct timespec slice = {.tv_nsec = 2 * 1000 * 1000};
    yields++;
    return atomic_load(&is_core_shared) ? nanosleep(&slice, NULL) : __real_sched_yield();
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *left,
                 const sigset_t *mask)
{
    system_calls++;
    return __real_ppoll(fds, count, left, mask);
}

int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int count, int left_ms)
{
    system_calls++;
    return __real_epoll_wait(epoll_fd, events, count, left_ms);
}

ssize_t __wrap_read(int fd, void *bytes, size_t count)
{
    system_calls++;
    return __real_read(fd, bytes, count);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
    system_calls++;
    return __real_write(fd, bytes, count);
}

ssize_t __wrap_send(int fd, const void *bytes, size_t count, int flags)
{
    system_calls++;
    return __real_send(fd, bytes, count, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    system_calls++;
    return __real_sendmsg(fd, message, flags);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    system_calls++;
    return __real_recvmsg(fd, message, flags);
}

/* ---- calls ---- */

typedef enum how { SHORT_FORM, RERUN } how;

typedef struct wanted {
    how how;
    uint64_t count; /* of elements; more than one: in the arena */
    bool may_yield; /* each waits for the other in turn: on one core only one of them runs */
} wanted;

typedef struct caller {
    ranks_self *self;
    int32_t *values;
    uint64_t count;
    tutti_handle *handle; /* NULL: short forms */
} caller;

static caller caller_create(ranks_self *self, int32_t *one)
{
    const wanted *what = self->user;
    tutti_call call = TUTTI_CALL_INIT;
    caller made = {.self = self, .values = one, .count = what->count};
    if (what->count > 1) {
        made.values = tutti_alloc(self->context, what->count * sizeof(int32_t));
        EXPECT(made.values != NULL);
    }
    if (what->how == RERUN) {
        call.input = call.output = made.values;
        call.count = made.count;
        call.dtype = TUTTI_I32;
        EXPECT_STATUS(TUTTI_OK, tutti_declare(self->context, &call, &made.handle));
    }
    return made;
}

static void caller_destroy(caller *who, const int32_t *one)
{
    tutti_handle_free(who->handle);
    if (who->values != one) {
        tutti_free(who->self->context, who->values);
    }
}

static void make_call(caller *who)
{
    tutti_status status = who->handle != NULL
                              ? tutti_rerun(who->handle)
                              : tutti_allreduce(who->self->context, who->values, who->values,
                                                who->count, TUTTI_I32, TUTTI_SUM);
    EXPECT_STATUS(TUTTI_OK, status);
}

static void hot_body(ranks_self *self)
{
    int32_t one = 0;
    uint64_t quiet = 0, taken_at_once = 0;
    bool is_over = false;
    int calls = 0;
    const wanted *what = self->user;
    caller who = caller_create(self, &one);
    for (; !is_over && calls < CALLS_MAX; calls++) {
        who.values[0] = quiet >= QUIET_CALLS ? 1 + ENOUGH : 1;
        const uint64_t taken = allocations, yielded = yields, disturbed = locks + system_calls;
        make_call(&who);
        const bool has_taken = allocations != taken, has_yielded = yields != yielded;
        const bool is_disturbed = locks + system_calls != disturbed;
        /* A question about a late peer takes memory; so does, once, the first frame of each peer
         * that arrives before its call. */
        taken_at_once += calls >= WARM_CALLS && has_taken && !has_yielded && !is_disturbed ? 1 : 0;
        EXPECT_SAY(taken_at_once <= 1, "call %d took memory without a wait", calls);
        EXPECT(who.values[0] % ENOUGH == self->size);
        quiet +=
            calls >= WARM_CALLS && !has_taken && !is_disturbed && (what->may_yield || !has_yielded)
                ? 1
                : 0;
        is_over = who.values[0] / ENOUGH == self->size;
    }
    EXPECT_SAY(is_over, "%lu of %d calls took no memory, lock or system call", (unsigned long)quiet,
               calls);
    caller_destroy(&who, &one);
}

static void test_small_sums_take_no_memory_lock_or_system_call(void **state)
{
    (void)state;
    ranks_run(2, "shm", hot_body, &(wanted){.how = SHORT_FORM, .count = 1});
}

static void test_sums_in_shared_memory_take_no_memory_lock_or_system_call(void **state)
{
    (void)state;
    ranks_run(2, "shm", hot_body,
              &(wanted){.how = SHORT_FORM, .count = ARENA_COUNT, .may_yield = true});
}

static void test_persistent_calls_take_no_memory_lock_or_system_call(void **state)
{
    (void)state;
    ranks_run(2, "shm", hot_body, &(wanted){.how = RERUN, .count = 1});
    ranks_run(2, "shm", hot_body, &(wanted){.how = RERUN, .count = ARENA_COUNT, .may_yield = true});
}

/* ---- beside others that compute ---- */

static uint64_t clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void shared_body(ranks_self *self)
{
    enum { CALLS = 200, TRUSTED_MS = 100 };
    const uint64_t yielded = yields, begin_ms = clock_ms();
    for (int i = 0; i < CALLS; i++) {
        int32_t value = 1;
        if (i % self->size == self->rank) {
            (void)usleep(300); /* the other one waits */
        }
        EXPECT_STATUS(TUTTI_OK,
                      tutti_allreduce(self->context, &value, &value, 1, TUTTI_I32, TUTTI_SUM));
    }
    const uint64_t most = 8 + (clock_ms() - begin_ms) / TRUSTED_MS;
    EXPECT_SAY(yields - yielded <= most, "%lu yields, at most %lu",
               (unsigned long)(yields - yielded), (unsigned long)most);
}

static void test_a_waiter_that_lost_a_time_slice_sleeps_instead_of_yielding(void **state)
{
    (void)state;
    atomic_store(&is_core_shared, true);
    ranks_run(2, "shm", shared_body, NULL);
    ranks_run(2, "tcp", shared_body, NULL);
    atomic_store(&is_core_shared, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_sums_take_no_memory_lock_or_system_call),
        cmocka_unit_test(test_sums_in_shared_memory_take_no_memory_lock_or_system_call),
        cmocka_unit_test(test_persistent_calls_take_no_memory_lock_or_system_call),
        cmocka_unit_test(test_a_waiter_that_lost_a_time_slice_sleeps_instead_of_yielding),
    };
    return cmocka_run_group_tests_name("hot", tests, NULL, NULL);
}
