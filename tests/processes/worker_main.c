/* SPDX-License-Identifier: Apache-2.0
 *
 * worker_main.c - one rank that runs the verbs of its arguments, for the tests of faults.
 *
 * Each argument is a verb, in order; a colon separates its operands:
 *     deny:memfd_create   that system call returns EPERM from now on (also pidfd_open)
 *     limit:nofile:16     lower a limit (nofile, as)
 *     init                join; prints "init STATUS TEXT" and ends with code 3 on failure
 *     serve               be a server; prints "serve STATUS TEXT", code 3 if it cannot join
 *     memory:arena        tensors in shared memory (else private)
 *     fill:BYTES          tutti_alloc of so many bytes until it returns NULL; "filled COUNT TEXT"
 *     fork                a child that makes one call and sleeps; "child PID", "forked STATUS"
 *     storm:KIND:COUNT    call again and again until a call fails; "going" after a few
 *     steps:N:KIND:COUNT  N calls, results checked
 *     sets:N              N times a set of every other rank, and a sum on it
 *     soak:N              N calls of all kinds, results checked; memory and descriptors constant
 *     try:KIND:COUNT      one call that may fail
 *     pass:FIRST:SECOND   sums that differ only in these names, started in this order: prints
 *                         "passed" once the second has ended first on all ranks, else "kept"
 *     step                tutti_step
 *     root:R              root of later calls
 *     sleep:MS  wait (for a line on standard input)  stop (SIGSTOP to itself)
 *     cpu                 prints the processor time used since the last "cpu"
 *     describe  shutdown
 *     leaks               fails if descriptors or threads are left since the start
 *     die:HOW             exit, _exit, abort, segv, kill
 *     on:RANK             the next verb is for that rank only
 * KIND is allreduce, broadcast, alltoall, allgather, reducescatter, barrier, ring (send and
 * receive), or mixed. Every event is one line on standard output, flushed. A call that failed
 * prints failed STATUS AT_NS TOOK_NS TEXT with the monotonic time of its return. Exit codes: 0; 2
 * wrong usage; 3 no init; 4 wrong result; 5 a call failed that must not; 6 leaks.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <tutti/store.h>
#include <tutti/tutti.h>

enum { USAGE = 2, NO_INIT = 3, WRONG_RESULT = 4, UNEXPECTED = 5, LEAKS = 6 };
enum { WARM_UP = 3, SOAK_COUNT_MAX = 20000, SOAK_LOOKS = 10 };

typedef enum load_kind {
    LOAD_ALLREDUCE,
    LOAD_BROADCAST,
    LOAD_ALLTOALL,
    LOAD_ALLGATHER,
    LOAD_REDUCESCATTER,
    LOAD_BARRIER,
    LOAD_RING,
    LOAD_MIXED, /* the ones above in turn */
    LOAD_NAMED, /* allreduce, each step under a name of its own */
} load_kind;

static const char *const load_names[] = {"allreduce", "broadcast",     "alltoall",
                                         "allgather", "reducescatter", "barrier",
                                         "ring",      "mixed",         "named"};

typedef struct worker {
    tutti_context *context;
    int rank; /* -1: never joined */
    int root;
    bool wants_arena;
    float *input, *output;
    uint64_t room; /* elements of each */
    uint64_t step;
    double cpu_s;
    int descriptors_first, threads_first;
} worker;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vprintf(format, arguments);
    va_end(arguments);
    (void)putchar('\n');
    (void)fflush(stdout);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static int count_entries(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;
    while (folder != NULL && readdir(folder) != NULL) {
        count++;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return count;
}

static long resident_kib(void)
{
    long pages = 0, ignored = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fscanf(file, "%ld %ld", &ignored, &pages) != 2) {
            pages = 0;
        }
        (void)fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* ---- loads: input and expected result of each rank ---- */

/* Whole numbers, small enough that every sum is exact. */
static float value_of(int rank, uint64_t step, uint64_t index)
{
    return (float)((uint64_t)rank + step % 5 + index % 7);
}

static float sum_of(const worker *self, uint64_t step, uint64_t index)
{
    float sum = 0.0f;
    for (int rank = 0; rank < tutti_size(self->context); rank++) {
        sum += value_of(rank, step, index);
    }
    return sum;
}

static void make_room(worker *self, uint64_t count)
{
    const uint64_t need = (count + 1) * (uint64_t)tutti_size(self->context);
    if (need <= self->room) {
        return;
    }
    float **buffers[] = {&self->input, &self->output};
    for (size_t i = 0; i < 2; i++) {
        if (self->wants_arena) {
            tutti_free(self->context, *buffers[i]);
            *buffers[i] = tutti_alloc(self->context, need * sizeof(float));
        } else {
            free(*buffers[i]);
            *buffers[i] = malloc(need * sizeof(float));
        }
        if (*buffers[i] == NULL) {
            say("no memory for %llu elements", (unsigned long long)need);
            exit(UNEXPECTED);
        }
    }
    self->room = need;
}

static uint64_t input_count(const worker *self, load_kind kind, uint64_t count)
{
    return kind == LOAD_ALLTOALL || kind == LOAD_REDUCESCATTER
               ? count * (uint64_t)tutti_size(self->context)
               : count;
}

/* Element `index` of the output of a call in which every rank contributed value_of(). */
static float expected(const worker *self, load_kind kind, uint64_t count, uint64_t index)
{
    const int rank = tutti_rank(self->context);
    const int size = tutti_size(self->context);
    const int part = count > 0 ? (int)(index / count) : 0;
    switch (kind) {
    case LOAD_ALLREDUCE:
        return sum_of(self, self->step, index);
    case LOAD_BROADCAST:
        return value_of(self->root, self->step, index);
    case LOAD_ALLTOALL:
        return value_of(part, self->step, (uint64_t)rank * count + index % count);
    case LOAD_ALLGATHER:
        return value_of(part, self->step, index % count);
    case LOAD_REDUCESCATTER:
        return sum_of(self, self->step, (uint64_t)rank * count + index);
    default:
        return value_of((rank + size - 1) % size, self->step, index);
    }
}

static uint64_t output_count(const worker *self, load_kind kind, uint64_t count)
{
    if (kind == LOAD_BARRIER) {
        return 0;
    }
    return kind == LOAD_ALLTOALL || kind == LOAD_ALLGATHER
               ? count * (uint64_t)tutti_size(self->context)
               : count;
}

/* Every element of a small output; a sample of a large one. */
static void check(const worker *self, load_kind kind, uint64_t count)
{
    const uint64_t total = output_count(self, kind, count);
    const uint64_t stride = total > 65536 ? total / 4096 | 1 : 1;
    const float *output = kind == LOAD_BROADCAST ? self->input : self->output;
    for (uint64_t i = 0; i < total; i += stride) {
        const float wanted = expected(self, kind, count, i);
        if (output[i] != wanted) {
            say("wrong %s of %llu, step %llu: element %llu is %g, not %g", load_names[kind],
                (unsigned long long)count, (unsigned long long)self->step, (unsigned long long)i,
                (double)output[i], (double)wanted);
            exit(WRONG_RESULT);
        }
    }
}

static tutti_status run_ring(worker *self, uint64_t count)
{
    const int rank = tutti_rank(self->context), size = tutti_size(self->context);
    tutti_call calls[2] = {TUTTI_CALL_INIT, TUTTI_CALL_INIT};
    tutti_handle *handles[2] = {NULL, NULL};
    calls[0].collective = TUTTI_SEND;
    calls[0].input = self->input;
    calls[0].root = (rank + 1) % size;
    calls[1].collective = TUTTI_RECEIVE;
    calls[1].output = self->output;
    calls[1].root = (rank + size - 1) % size;
    calls[0].count = calls[1].count = count;
    if (size == 1) { /* there is no peer, and sending to oneself is refused */
        memcpy(self->output, self->input, count * sizeof(float));
        return TUTTI_OK;
    }
    tutti_status status = tutti_start(self->context, &calls[0], &handles[0]);
    if (status == TUTTI_OK) {
        status = tutti_start(self->context, &calls[1], &handles[1]);
    }
    for (int i = 0; i < 2; i++) {
        if (handles[i] == NULL) {
            continue;
        }
        const tutti_status one = tutti_wait(handles[i], -1.0);
        status = status == TUTTI_OK ? one : status;
        tutti_handle_free(handles[i]);
    }
    return status;
}

static tutti_status run_named(worker *self, uint64_t count)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "tensor %llu", (unsigned long long)self->step);
    tutti_call call = TUTTI_CALL_INIT;
    call.name = name;
    call.input = self->input;
    call.output = self->output;
    call.count = count;
    return tutti_run(self->context, &call);
}

static tutti_status run_load(worker *self, load_kind kind, uint64_t count)
{
    tutti_context *context = self->context;
    const float *input = self->input;
    float *output = self->output;
    switch (kind) {
    case LOAD_ALLREDUCE:
        return tutti_allreduce(context, input, output, count, TUTTI_F32, TUTTI_SUM);
    case LOAD_BROADCAST:
        return tutti_broadcast(context, self->input, count, TUTTI_F32, self->root);
    case LOAD_ALLTOALL:
        return tutti_alltoall(context, input, output, count, TUTTI_F32);
    case LOAD_ALLGATHER:
        return tutti_allgather(context, input, output, count, TUTTI_F32);
    case LOAD_REDUCESCATTER:
        return tutti_reducescatter(context, input, output, count, TUTTI_F32, TUTTI_SUM);
    case LOAD_BARRIER:
        return tutti_barrier(context);
    default:
        return run_ring(self, count);
    }
}

typedef struct outcome {
    tutti_status status;
    uint64_t at_ns, took_ns;
} outcome;

static outcome call(worker *self, load_kind kind, uint64_t count)
{
    if (kind == LOAD_MIXED) {
        kind = (load_kind)(self->step % LOAD_MIXED);
    }
    const bool is_named = kind == LOAD_NAMED;
    kind = is_named ? LOAD_ALLREDUCE : kind;
    make_room(self, count);
    const uint64_t inputs = input_count(self, kind, count);
    for (uint64_t i = 0; i < inputs; i++) {
        self->input[i] = value_of(tutti_rank(self->context), self->step, i);
    }
    const uint64_t begin_ns = now_ns();
    outcome result = {.status = is_named ? run_named(self, count) : run_load(self, kind, count)};
    result.at_ns = now_ns();
    result.took_ns = result.at_ns - begin_ns;
    if (result.status == TUTTI_OK) {
        check(self, kind, count);
    }
    self->step++;
    return result;
}

static void say_failed(const worker *self, const outcome *result)
{
    say("failed %d %llu %llu %s", result->status, (unsigned long long)result->at_ns,
        (unsigned long long)result->took_ns, tutti_last_error(self->context));
}

/* ---- verbs; `text` is the rest behind the first colon ---- */

static load_kind parse_load(const char *text, uint64_t *count_out)
{
    const char *colon = strchr(text, ':');
    const size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    *count_out = colon != NULL ? strtoull(colon + 1, NULL, 10) : 1;
    for (int i = 0; i <= LOAD_NAMED; i++) {
        if (strlen(load_names[i]) == length && strncmp(load_names[i], text, length) == 0) {
            return (load_kind)i;
        }
    }
    say("no such load: %s", text);
    exit(USAGE);
}

static void verb_deny(worker *self, const char *text)
{
    (void)self;
    const unsigned number = strcmp(text, "memfd_create") == 0 ? SYS_memfd_create : SYS_pidfd_open;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = 4, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        say("seccomp: %s", strerror(errno));
        exit(77);
    }
}

static void verb_limit(worker *self, const char *text)
{
    (void)self;
    const char *colon = strchr(text, ':');
    const rlim_t value = colon != NULL ? strtoull(colon + 1, NULL, 10) : 0;
    const struct rlimit limit = {value, value};
    if (setrlimit(strncmp(text, "as", 2) == 0 ? RLIMIT_AS : RLIMIT_NOFILE, &limit) != 0) {
        say("setrlimit: %s", strerror(errno));
        exit(USAGE);
    }
}

static void verb_init(worker *self, const char *text)
{
    (void)text;
    const tutti_status status = tutti_init(NULL, &self->context);
    say("init %d %s", status, status == TUTTI_OK ? "ok" : tutti_last_error(NULL));
    if (status != TUTTI_OK) {
        exit(NO_INIT);
    }
    self->rank = tutti_rank(self->context);
}

static void verb_serve(worker *self, const char *text)
{
    (void)self;
    (void)text;
    const tutti_status status = tutti_server_run(NULL);
    say("serve %d %s", status, status == TUTTI_OK ? "ok" : tutti_last_error(NULL));
    if (status != TUTTI_OK) {
        exit(NO_INIT);
    }
}

static void verb_memory(worker *self, const char *text)
{
    self->wants_arena = strcmp(text, "arena") == 0;
}

static void verb_fill(worker *self, const char *text)
{
    enum { COUNT_MAX = 100000 };
    const size_t bytes = strtoull(text, NULL, 10);
    int count = 0;
    for (uint8_t *memory; count < COUNT_MAX; count++) {
        memory = tutti_alloc(self->context, bytes);
        if (memory == NULL) {
            break;
        }
        memset(memory, 1, bytes);
    }
    say("filled %d %s", count, tutti_last_error(self->context));
}

static void verb_fork(worker *self, const char *text)
{
    (void)text;
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        say("forked %d", self->context != NULL ? tutti_barrier(self->context) : 0);
        (void)close(STDOUT_FILENO);
        (void)close(STDERR_FILENO);
        for (;;) {
            (void)pause();
        }
    }
    say("child %d", (int)child);
}

static void verb_storm(worker *self, const char *text)
{
    uint64_t count;
    const load_kind kind = parse_load(text, &count);
    for (uint64_t calls = 1;; calls++) {
        const outcome result = call(self, kind, count);
        if (result.status != TUTTI_OK) {
            say_failed(self, &result);
            return;
        }
        if (calls == WARM_UP) {
            say("going");
        }
    }
}

static void verb_steps(worker *self, const char *text)
{
    char *load = NULL;
    uint64_t count;
    const uint64_t steps = strtoull(text, &load, 10);
    const load_kind kind = parse_load(*load == ':' ? load + 1 : load, &count);
    for (uint64_t i = 0; i < steps; i++) {
        const outcome result = call(self, kind, count);
        if (result.status != TUTTI_OK) {
            say_failed(self, &result);
            exit(UNEXPECTED);
        }
    }
    say("steps %llu", (unsigned long long)steps);
}

/* The sum of ranks 0, 2, 4 ..., on a set of those. */
static bool sum_on_set(worker *self)
{
    int members[64], count = 0, sum = 0;
    for (int rank = 0; rank < tutti_size(self->context) && count < 64; rank += 2) {
        members[count++] = rank;
        sum += rank;
    }
    tutti_set set;
    if (tutti_set_create(self->context, members, count, &set) != TUTTI_OK) {
        return false;
    }
    int32_t total = self->rank;
    tutti_call call = TUTTI_CALL_INIT;
    call.dtype = TUTTI_I32;
    call.input = call.output = &total;
    call.count = 1;
    call.set = set;
    const bool is_member = self->rank % 2 == 0;
    const bool is_right =
        !is_member || (tutti_run(self->context, &call) == TUTTI_OK && total == sum);
    return tutti_set_remove(self->context, set) == TUTTI_OK && is_right;
}

static void verb_sets(worker *self, const char *text)
{
    for (uint64_t i = strtoull(text, NULL, 10); i > 0; i--) {
        if (!sum_on_set(self)) {
            say("sets failed: %s", tutti_last_error(self->context));
            exit(UNEXPECTED);
        }
    }
    say("sets %s", text);
}

static void verb_soak(worker *self, const char *text)
{
    const uint64_t steps = strtoull(text, NULL, 10);
    uint64_t random = 1;
    make_room(self, SOAK_COUNT_MAX);
    memset(self->input, 0, self->room * sizeof(float));
    memset(self->output, 0, self->room * sizeof(float));
    for (uint64_t i = 0; i < steps; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const uint64_t pick = random >> 33;
        const uint64_t count = pick % 50 == 0 ? pick % SOAK_COUNT_MAX : pick % 200 + 1;
        self->root = (int)(pick % (uint64_t)tutti_size(self->context));
        const outcome result = call(self, LOAD_MIXED, count);
        if (result.status != TUTTI_OK) {
            say_failed(self, &result);
            exit(UNEXPECTED);
        }
        if ((i + 1) % (steps / SOAK_LOOKS) == 0) {
            say("soak %llu kib %ld descriptors %d", (unsigned long long)(i + 1), resident_kib(),
                count_entries("/proc/self/fd"));
        }
    }
}

static void verb_try(worker *self, const char *text)
{
    uint64_t count;
    const load_kind kind = parse_load(text, &count);
    const outcome result = call(self, kind, count);
    if (result.status == TUTTI_OK) {
        say("succeeded");
    } else {
        say_failed(self, &result);
    }
}

enum { PASS_COUNT = 2 * 1024 * 1024, PASS_ATTEMPTS = 30 };

typedef struct pass_end {
    atomic_int *next;
    int place; /* in the order of ends */
} pass_end;

static void pass_done(void *user, tutti_handle *handle, tutti_status status)
{
    pass_end *end = user;
    (void)handle;
    (void)status; /* the waiter sees it */
    end->place = atomic_fetch_add(end->next, 1);
}

/* True: the second, started behind the first, ended before it on this rank. */
static bool pass_try(worker *self, const char *const *names, float *values)
{
    atomic_int next = 0;
    pass_end ends[2] = {{&next, 0}, {&next, 0}};
    tutti_handle *handles[2];
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < 2 && status == TUTTI_OK; i++) {
        tutti_call call = TUTTI_CALL_INIT;
        call.dtype = TUTTI_F32;
        call.input = call.output = values + (size_t)i * PASS_COUNT;
        call.count = PASS_COUNT;
        call.name = names[i];
        call.done = pass_done;
        call.done_user = &ends[i];
        status = tutti_start(self->context, &call, &handles[i]);
    }
    if (status != TUTTI_OK || tutti_wait_all(handles, 2, -1.0) != TUTTI_OK) {
        say("pass failed: %s", tutti_last_error(self->context));
        exit(UNEXPECTED);
    }
    tutti_handle_free(handles[0]);
    tutti_handle_free(handles[1]);
    return ends[1].place < ends[0].place;
}

/* A rank that is not scheduled between its two starts may be too late: once on all is enough. */
static void verb_pass(worker *self, const char *text)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s", text);
    char *colon = strchr(name, ':');
    float *values = calloc((size_t)2 * PASS_COUNT, sizeof(*values));
    if (colon == NULL || values == NULL) {
        exit(USAGE);
    }
    *colon = 0;
    const char *const names[2] = {name, colon + 1};
    int64_t passed = 0;
    for (int i = 0; i < PASS_ATTEMPTS && passed < tutti_size(self->context); i++) {
        const int64_t own = pass_try(self, names, values) ? 1 : 0;
        if (tutti_allreduce(self->context, &own, &passed, 1, TUTTI_I64, TUTTI_SUM) != TUTTI_OK) {
            exit(UNEXPECTED);
        }
    }
    free(values);
    say(passed == tutti_size(self->context) ? "passed" : "kept");
}

static void verb_step(worker *self, const char *text)
{
    (void)text;
    if (tutti_step(self->context) != TUTTI_OK) {
        exit(UNEXPECTED);
    }
}

static void verb_root(worker *self, const char *text)
{
    self->root = atoi(text);
}

static void verb_sleep(worker *self, const char *text)
{
    (void)self;
    (void)usleep((useconds_t)(1000 * strtoul(text, NULL, 10)));
}

static void verb_wait(worker *self, const char *text)
{
    (void)self;
    (void)text;
    say("waiting");
    char line[16];
    (void)!fgets(line, sizeof(line), stdin);
}

static void verb_stop(worker *self, const char *text)
{
    (void)self;
    (void)text;
    say("stopping");
    (void)raise(SIGSTOP);
}

static void verb_cpu(worker *self, const char *text)
{
    (void)text;
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    const double now_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                         1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    say("cpu %.6f", now_s - self->cpu_s);
    self->cpu_s = now_s;
}

static void verb_describe(worker *self, const char *text)
{
    (void)text;
    char description[1024];
    (void)tutti_describe(self->context, description, sizeof(description));
    say("describe %s", description);
}

static void verb_shutdown(worker *self, const char *text)
{
    (void)text;
    if (self->wants_arena) {
        tutti_free(self->context, self->input);
        tutti_free(self->context, self->output);
    } else {
        free(self->input);
        free(self->output);
    }
    self->input = self->output = NULL;
    self->room = 0;
    const uint64_t begin_ns = now_ns();
    const tutti_status status = tutti_shutdown(self->context);
    self->context = NULL;
    say("shutdown %d %llu", status, (unsigned long long)(now_ns() - begin_ns));
    if (status != TUTTI_OK) {
        exit(UNEXPECTED);
    }
}

static void verb_leaks(worker *self, const char *text)
{
    (void)text;
    const int descriptors = count_entries("/proc/self/fd") - self->descriptors_first;
    int threads = count_entries("/proc/self/task") - self->threads_first;
    for (int i = 0; i < 500 && threads > 0; i++) { /* one may still unmap memory, then ends */
        (void)usleep(10 * 1000);
        threads = count_entries("/proc/self/task") - self->threads_first;
    }
    say("leaks %d %d", descriptors, threads);
    if (descriptors > 0 || threads > 0) {
        exit(LEAKS);
    }
}

static void verb_die(worker *self, const char *text)
{
    (void)self;
    if (strcmp(text, "exit") == 0) {
        exit(0);
    } else if (strcmp(text, "abort") == 0) {
        abort();
    } else if (strcmp(text, "segv") == 0) {
        (void)raise(SIGSEGV);
    } else if (strcmp(text, "kill") == 0) {
        (void)raise(SIGKILL);
    }
    _exit(0);
}

static const struct {
    const char *name;
    void (*run)(worker *self, const char *text);
} verbs[] = {
    {"deny", verb_deny},         {"limit", verb_limit}, {"init", verb_init},
    {"memory", verb_memory},     {"fill", verb_fill},   {"fork", verb_fork},
    {"storm", verb_storm},       {"steps", verb_steps}, {"soak", verb_soak},
    {"try", verb_try},           {"root", verb_root},   {"sleep", verb_sleep},
    {"wait", verb_wait},         {"stop", verb_stop},   {"cpu", verb_cpu},
    {"describe", verb_describe}, {"leaks", verb_leaks}, {"die", verb_die},
    {"shutdown", verb_shutdown}, {"pass", verb_pass},   {"step", verb_step},
    {"serve", verb_serve},       {"sets", verb_sets},
};

static void run_verb(worker *self, const char *argument)
{
    const char *colon = strchr(argument, ':');
    const size_t length = colon != NULL ? (size_t)(colon - argument) : strlen(argument);
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strlen(verbs[i].name) == length && strncmp(verbs[i].name, argument, length) == 0) {
            verbs[i].run(self, colon != NULL ? colon + 1 : "");
            return;
        }
    }
    say("no such verb: %s", argument);
    exit(USAGE);
}

int main(int argument_count, char **arguments)
{
    worker self = {.rank = -1,
                   .descriptors_first = count_entries("/proc/self/fd"),
                   .threads_first = count_entries("/proc/self/task")};
    for (int i = 1; i < argument_count; i++) {
        if (strncmp(arguments[i], "on:", 3) != 0) {
            run_verb(&self, arguments[i]);
        } else if (i + 1 < argument_count &&
                   (self.rank < 0 || atoi(arguments[i] + 3) != self.rank)) {
            i++;
        }
    }
    return 0;
}
