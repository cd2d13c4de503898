/* SPDX-License-Identifier: Apache-2.0
 *
 * launcher.c - the launcher's event loop.
 *
 * Life of a job: every host's supervisor gets its part of the description (SPEC) and answers READY;
 * when all have, all get START with the address rank 0 listens on. The first rank that fails is
 * named, the others are asked to stop (SIGTERM) and killed after the grace time; with keep_min that
 * waits until too few are left. The launcher leaves when every supervisor has; should it be killed,
 * the supervisors see their input end.
 *
 * Servers have supervisors of their own. They end by themselves after the last worker, so signals
 * are for workers only; a server that ends early is named, and the workers decide what it means. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/run/launcher_internal.h"
#include "cli/run/tree.h"

enum {
    SERVERS_S = 3,   /* servers end with the last worker: longest wait for it */
    FIXED_POLLS = 4, /* signals, stdin, stdout, stderr */
    HOST_POLLS = 2,
    FORWARDED_GRACE_S = 30, /* after the user's signal ranks may still save their state */
    GIVE_UP_S = 5,          /* from SIGKILL to leaving without the host */
    LINGER_S = 5,
};

static const int64_t ns_per_s = 1000000000;

void tt_launcher_say(tt_launcher_job *job, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    flockfile(stderr);
    fprintf(stderr, "%s: ", job->launch->title);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(arguments);
}

static int64_t now_ns(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * ns_per_s + time.tv_nsec;
}

static void set_deadline(tt_launcher_job *job, double seconds)
{
    job->deadline_ns = now_ns() + (int64_t)(seconds * 1e9) + 1;
}

static void signal_hosts(tt_launcher_job *job, int first, int end, int number)
{
    for (int i = first; i < end; i++) {
        if (job->hosts[i].phase == TT_LAUNCHER_RUNNING) {
            tt_wire_put_number(&job->hosts[i].channel.pending, TT_WIRE_SIGNAL, (uint32_t)number);
        }
    }
}

static void signal_workers(tt_launcher_job *job, int number)
{
    signal_hosts(job, 0, job->worker_host_count, number);
}

static void host_gone(tt_launcher_host *host)
{
    tt_channel_fini(&host->channel);
    host->phase = TT_LAUNCHER_GONE;
}

static void kill_all(tt_launcher_job *job)
{
    job->is_killing = true;
    signal_hosts(job, 0, job->host_count, SIGKILL);
    for (int i = 0; i < job->host_count; i++) {
        if (job->hosts[i].phase < TT_LAUNCHER_RUNNING) {
            host_gone(&job->hosts[i]);
        }
    }
    set_deadline(job, GIVE_UP_S);
}

/* First failure: remember its code and stop the other ranks. */
static void fail(tt_launcher_job *job, int exit_code)
{
    if (job->has_failed) {
        return;
    }
    job->has_failed = true;
    job->exit_code = exit_code;
    job->is_stopping = true;
    if (job->fatal_count > 0) {
        return; /* the user's signal stopped them already; their deadline is set */
    }
    signal_workers(job, SIGTERM);
    for (int i = 0; i < job->host_count; i++) {
        if (job->hosts[i].phase < TT_LAUNCHER_RUNNING) {
            host_gone(&job->hosts[i]);
        }
    }
    set_deadline(job, job->launch->grace_s);
}

static const char *host_name(const tt_launcher_host *host)
{
    return host->is_local && host->real_name[0] != '\0' ? host->real_name : host->name;
}

static int workers_left(const tt_launcher_job *job)
{
    int left = 0;
    for (int i = 0; i < job->worker_host_count; i++) {
        left += job->hosts[i].rank_left;
    }
    return left;
}

/* May the job go on after `count` more failures? Not after a signal of the user. */
static bool goes_on(const tt_launcher_job *job, int count)
{
    const tt_launcher *launch = job->launch;
    return launch->keep_min > 0 && job->fatal_count == 0 &&
           launch->rank_count - job->failed_count - count >= launch->keep_min;
}

static const char *other_ranks(const tt_launcher_job *job)
{
    if (workers_left(job) == 0) {
        return "";
    }
    return goes_on(job, 1) ? "; the others go on" : "; stopping the others";
}

/* `count` ranks failed; the first of them all with `exit_code`. */
static void ranks_failed(tt_launcher_job *job, int count, int exit_code)
{
    const bool is_kept = goes_on(job, count);
    if (job->failed_count == 0) {
        job->exit_code = exit_code;
    }
    job->failed_count += count;
    if (!is_kept) {
        fail(job, job->exit_code);
    }
}

/* The last worker is over: the servers end by themselves, or are stopped. */
static void await_servers(tt_launcher_job *job)
{
    bool is_there = false;
    for (int i = job->worker_host_count; i < job->host_count; i++) {
        is_there = is_there || job->hosts[i].phase != TT_LAUNCHER_GONE;
    }
    if (is_there && workers_left(job) == 0 && !job->awaits_servers && !job->is_killing) {
        job->awaits_servers = true;
        set_deadline(job, SERVERS_S);
    }
}

static void report_not_begun(tt_launcher_job *job, const tt_launcher_host *where, int error)
{
    const char *host = host_name(where);
    if (error == EMFILE || error == ENFILE) {
        tt_launcher_say(job,
                        "host %s has no descriptor left for its ranks: %s; raise the limit there "
                        "(ulimit -n 4096), or start fewer ranks on it",
                        host, strerror(error));
        fail(job, 1);
        return;
    }
    tt_launcher_say(job, "cannot execute '%s' on host %s: %s",
                    where->serves ? "tutti server" : job->launch->program[0], host,
                    strerror(error));
    fail(job, error == ENOENT ? 127 : 126);
}

static void report_exit(tt_launcher_job *job, tt_launcher_host *host, const tt_wire_event *event)
{
    const char *name = host_name(host);
    const int detail = (int)event->detail;
    const int process = (int)job->processes[event->rank];
    if (event->value == TT_WIRE_NOT_BEGUN) {
        report_not_begun(job, host, detail);
    } else if (event->value == TT_WIRE_SIGNALLED) {
        const char *abbreviation = sigabbrev_np(detail);
        tt_launcher_say(job, "rank %u on host %s (pid %d) was killed by signal SIG%s (%d)%s",
                        event->rank, name, process, abbreviation != NULL ? abbreviation : "?",
                        detail, other_ranks(job));
        ranks_failed(job, 1, 128 + detail);
    } else {
        tt_launcher_say(job, "rank %u on host %s (pid %d) exited with code %d%s", event->rank, name,
                        process, detail, other_ranks(job));
        ranks_failed(job, 1, detail & 0xff);
    }
}

/* A server failed although workers are left. (One that ends in order does so after the last worker
 * has left the job, whose process may still run.) */
static void report_server(tt_launcher_job *job, tt_launcher_host *host, const tt_wire_event *event)
{
    const int number = (int)event->rank - job->launch->rank_count;
    const int detail = (int)event->detail;
    const int process = (int)job->processes[event->rank];
    if (event->value == TT_WIRE_NOT_BEGUN) {
        report_not_begun(job, host, detail); /* workers would wait for it */
    } else if (event->value == TT_WIRE_SIGNALLED) {
        const char *abbreviation = sigabbrev_np(detail);
        tt_launcher_say(job, "server %d on host %s (pid %d) was killed by signal SIG%s (%d)",
                        number, host_name(host), process, abbreviation != NULL ? abbreviation : "?",
                        detail);
    } else {
        tt_launcher_say(job, "server %d on host %s (pid %d) exited with code %d", number,
                        host_name(host), process, detail);
    }
}

static void on_exit_event(tt_launcher_job *job, tt_launcher_host *host, const tt_wire_event *event)
{
    if (job->is_over[event->rank]) {
        return;
    }
    job->is_over[event->rank] = true;
    host->rank_left--;
    const bool is_failure = event->value != TT_WIRE_EXITED || event->detail != 0;
    if (is_failure && !job->has_failed && !host->serves) {
        report_exit(job, host, event);
    } else if (is_failure && !job->has_failed && !job->has_told_servers) {
        report_server(job, host, event);
    }
    await_servers(job);
}

static void start_when_ready(tt_launcher_job *job)
{
    for (int i = 0; i < job->host_count; i++) {
        if (job->hosts[i].phase != TT_LAUNCHER_READY) {
            return;
        }
    }
    for (int i = 0; i < job->host_count; i++) {
        tt_wire_put_text(&job->hosts[i].channel.pending, TT_WIRE_START, job->rendezvous);
        job->hosts[i].phase = TT_LAUNCHER_RUNNING;
    }
    explicit_bzero(job->secret, sizeof(job->secret));
    job->deadline_ns = 0;
}

static bool on_ready(tt_launcher_job *job, tt_launcher_host *host, const tt_wire_frame *frame)
{
    tt_wire_ready ready;
    if (host->phase != TT_LAUNCHER_SPEC || tt_wire_get_ready(frame, &ready) != TT_OK) {
        return false;
    }
    snprintf(host->real_name, sizeof(host->real_name), "%s", ready.host);
    if (host->rank_first == 0) {
        snprintf(job->rendezvous, sizeof(job->rendezvous), "%s", ready.rendezvous);
        if (ready.thread_count > 0 && !job->launch->is_quiet) {
            tt_launcher_say(job, "OMP_NUM_THREADS=%u for each rank (%u cores, %d ranks on %s)",
                            ready.thread_count, ready.core_count, host->rank_count,
                            host_name(host));
        }
    }
    host->phase = TT_LAUNCHER_READY;
    start_when_ready(job);
    return true;
}

static bool on_event(tt_launcher_job *job, tt_launcher_host *host, const tt_wire_frame *frame)
{
    tt_wire_event event;
    if (host->phase != TT_LAUNCHER_RUNNING || tt_wire_get_event(frame, &event) != TT_OK ||
        event.rank < (uint32_t)host->rank_first ||
        event.rank >= (uint32_t)(host->rank_first + host->rank_count)) {
        return false;
    }
    if (frame->type == TT_WIRE_STARTED) {
        job->processes[event.rank] = (pid_t)event.value;
    } else if (frame->type == TT_WIRE_EXIT) {
        on_exit_event(job, host, &event);
    } else if (event.value < TT_OUTPUT_STREAMS) {
        tt_output_take(job->output, (int)event.rank, (int)event.value, event.bytes,
                       event.byte_count);
    } else {
        return false;
    }
    return true;
}

static bool on_refused(tt_launcher_job *job, tt_launcher_host *host, const tt_wire_frame *frame)
{
    const char *reason;
    if (tt_wire_get_text(frame, &reason) != TT_OK) {
        return false;
    }
    tt_launcher_say(job, "host %s: %.400s", host->name, reason);
    fail(job, 1);
    return true;
}

static bool handle_frame(tt_launcher_job *job, tt_launcher_host *host, const tt_wire_frame *frame)
{
    switch (frame->type) {
    case TT_WIRE_READY:
        return on_ready(job, host, frame);
    case TT_WIRE_STARTED:
    case TT_WIRE_OUTPUT:
    case TT_WIRE_EXIT:
        return on_event(job, host, frame);
    case TT_WIRE_REFUSED:
        return on_refused(job, host, frame);
    case TT_WIRE_TAKEN:
        job->awaits_taken = false;
        return true;
    default:
        return false;
    }
}

/* Output of the remote shell before the supervisor's greeting is shown to the user. */
static bool skip_greeting(tt_launcher_host *host)
{
    enum { NOISE_BYTES_MAX = 64 << 10 };
    tt_buffer *received = &host->channel.received;
    const size_t length = strlen(TT_WIRE_GREETING);
    const uint8_t *data = tt_buffer_data(received);
    const uint8_t *found = tt_buffer_bytes(received) > 0
                               ? memmem(data, tt_buffer_bytes(received), TT_WIRE_GREETING, length)
                               : NULL;
    if (found == NULL) {
        return tt_buffer_bytes(received) < NOISE_BYTES_MAX;
    }
    const size_t noise = (size_t)(found - data);
    if (noise > 0) {
        (void)!write(STDERR_FILENO, data, noise);
        (void)!write(STDERR_FILENO, "\n", 1);
    }
    tt_buffer_take(received, noise + length);
    host->phase = TT_LAUNCHER_SPEC;
    return true;
}

static void lost_host(tt_launcher_job *job, tt_launcher_host *host)
{
    const tt_launcher_phase phase = host->phase;
    const int lost = host->rank_left;
    host_gone(host);
    if (lost == 0 || job->has_failed || job->is_killing) {
        return;
    }
    if (phase == TT_LAUNCHER_RUNNING) {
        const int first = host->rank_first - (host->serves ? job->launch->rank_count : 0);
        host->rank_left = 0;
        tt_launcher_say(job, "lost the supervisor of host %s and its %s %d to %d", host_name(host),
                        host->serves ? "servers" : "ranks", first, first + host->rank_count - 1);
        if (!host->serves) {
            ranks_failed(job, lost, 1);
        }
        await_servers(job);
        return;
    }
    if (host->is_local) {
        tt_launcher_say(job, "the supervisor on this host ended before it was ready");
    } else {
        tt_launcher_say(
            job,
            "host %s: the remote shell ended before the supervisor answered; check that "
            "'%s %s tutti version' works without a password",
            host->name, job->launch->rsh, host->name);
    }
    fail(job, 1);
}

static void read_host(tt_launcher_job *job, tt_launcher_host *host)
{
    tt_wire_frame frame;
    size_t used;
    if (tt_channel_read(&host->channel) == TT_ERR_PEER_LEFT) {
        lost_host(job, host);
        return;
    }
    bool is_sound = host->phase != TT_LAUNCHER_GREETING || skip_greeting(host);
    if (is_sound && host->phase == TT_LAUNCHER_GREETING) {
        return;
    }
    tt_status status = TT_OK;
    while (is_sound && host->phase != TT_LAUNCHER_GONE && status == TT_OK) {
        status = tt_channel_peek(&host->channel, &frame, &used);
        if (status == TT_OK) {
            is_sound = handle_frame(job, host, &frame);
            if (host->phase != TT_LAUNCHER_GONE) {
                tt_channel_done(&host->channel, used);
            }
        }
    }
    if (!is_sound || status == TT_ERR_BAD_WIRE) {
        tt_launcher_say(
            job,
            "host %s sent bytes that are not Tutti's protocol; install the same version "
            "of Tutti there",
            host->name);
        fail(job, 1);
        host_gone(host);
    }
}

static void flush_host(tt_launcher_job *job, tt_launcher_host *host)
{
    (void)job;
    if (host->phase != TT_LAUNCHER_GONE) {
        (void)tt_channel_flush(&host->channel); /* the reading side detects a lost host */
    }
}

static void read_signals(tt_launcher_job *job)
{
    struct signalfd_siginfo info;
    while (read(job->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        const int number = (int)info.ssi_signo;
        const bool is_fatal = number == SIGINT || number == SIGTERM || number == SIGHUP;
        if (number == SIGCHLD) {
            continue;
        }
        job->fatal_count += is_fatal;
        const bool is_started = job->hosts[0].phase >= TT_LAUNCHER_RUNNING;
        if (is_fatal && (job->fatal_count > 1 || job->is_stopping || !is_started)) {
            if (!job->has_failed) {
                job->has_failed = true;
                job->exit_code = 128 + number;
            }
            kill_all(job);
        } else {
            signal_workers(job, number);
            if (is_fatal) {
                set_deadline(job, FORWARDED_GRACE_S);
            }
        }
    }
}

static void read_input(tt_launcher_job *job)
{
    uint8_t bytes[TT_WIRE_CHUNK_BYTES];
    const ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    job->has_input_ended = count <= 0;
    job->awaits_taken = true;
    tt_wire_put(&job->hosts[0].channel.pending, TT_WIRE_STDIN, bytes,
                count > 0 ? (size_t)count : 0);
}

static void on_deadline(tt_launcher_job *job)
{
    job->deadline_ns = 0;
    if (job->awaits_servers && !job->has_told_servers && !job->is_killing) {
        job->has_told_servers = true;
        signal_hosts(job, job->worker_host_count, job->host_count, SIGTERM);
        set_deadline(job, job->launch->grace_s);
        return;
    }
    if (job->is_killing) {
        for (int i = 0; i < job->host_count; i++) {
            if (job->hosts[i].phase != TT_LAUNCHER_GONE) {
                tt_launcher_say(job,
                                "host %s did not stop its ranks within %d s; check it for leftover "
                                "processes",
                                job->hosts[i].name, GIVE_UP_S);
                host_gone(&job->hosts[i]);
            }
        }
        return;
    }
    if (!job->is_stopping && job->fatal_count == 0 && !job->awaits_servers) {
        for (int i = 0; i < job->host_count; i++) {
            if (job->hosts[i].phase < TT_LAUNCHER_READY) {
                tt_launcher_say(job, "host %s did not answer within %g s (--timeout-start)",
                                job->hosts[i].name, job->launch->start_timeout_s);
            }
        }
        job->has_failed = true;
        job->exit_code = 1;
    }
    kill_all(job);
}

static nfds_t fill_polls(tt_launcher_job *job)
{
    const bool wants_input = job->launch->wants_stdin && !job->awaits_taken &&
                             !job->has_input_ended && job->hosts[0].phase == TT_LAUNCHER_RUNNING;
    const bool is_full = tt_output_is_full(job->output);
    job->polls[0] = (struct pollfd){.fd = job->signal_fd, .events = POLLIN};
    job->polls[1] = (struct pollfd){.fd = wants_input ? STDIN_FILENO : -1, .events = POLLIN};
    for (int stream = 0; stream < TT_OUTPUT_STREAMS; stream++) {
        const bool has_pending = tt_output_has_pending(job->output, stream);
        job->polls[2 + stream] =
            (struct pollfd){.fd = has_pending ? stream + 1 : -1, .events = POLLOUT};
    }
    nfds_t count = FIXED_POLLS;
    for (int i = 0; i < job->host_count; i++) {
        tt_launcher_host *host = &job->hosts[i];
        const bool is_here = host->phase != TT_LAUNCHER_GONE;
        const bool has_pending = is_here && tt_buffer_bytes(&host->channel.pending) > 0;
        job->polls[count++] = (struct pollfd){
            .fd = is_here && !is_full ? host->channel.read_fd : -1, .events = POLLIN};
        job->polls[count++] =
            (struct pollfd){.fd = has_pending ? host->channel.write_fd : -1, .events = POLLOUT};
    }
    return count;
}

static void flush_output(tt_launcher_job *job)
{
    for (int stream = 0; stream < TT_OUTPUT_STREAMS; stream++) {
        if (tt_output_has_pending(job->output, stream) &&
            tt_output_flush(job->output, stream) == TT_ERR_PEER_LEFT) {
            if (!job->has_failed) { /* the reader is gone: stop, as a shell pipeline does */
                job->has_failed = true;
                job->exit_code = 128 + SIGPIPE;
            }
            if (!job->is_killing) {
                kill_all(job);
            }
            return;
        }
    }
}

static bool is_over(const tt_launcher_job *job)
{
    for (int i = 0; i < job->host_count; i++) {
        if (job->hosts[i].phase != TT_LAUNCHER_GONE) {
            return false;
        }
    }
    return true;
}

static int poll_timeout_ms(const tt_launcher_job *job)
{
    if (job->deadline_ns == 0) {
        return -1;
    }
    const int64_t left_ns = job->deadline_ns - now_ns();
    return left_ns > 0 ? (int)(left_ns / 1000000) + 1 : 0;
}

static void handle_polls(tt_launcher_job *job)
{
    if (job->polls[0].revents != 0) {
        read_signals(job);
    }
    if (job->polls[1].revents != 0) {
        read_input(job);
    }
    for (int i = 0; i < job->host_count; i++) {
        tt_launcher_host *host = &job->hosts[i];
        if (job->polls[FIXED_POLLS + HOST_POLLS * i].revents != 0 &&
            host->phase != TT_LAUNCHER_GONE) {
            read_host(job, host);
        }
    }
}

static void loop(tt_launcher_job *job)
{
    while (!is_over(job)) {
        for (int i = 0; i < job->host_count; i++) {
            flush_host(job, &job->hosts[i]);
        }
        flush_output(job);
        const nfds_t poll_count = fill_polls(job);
        if (poll(job->polls, poll_count, poll_timeout_ms(job)) > 0) {
            handle_polls(job);
        }
        if (job->deadline_ns != 0 && now_ns() >= job->deadline_ns) {
            on_deadline(job);
        }
    }
}

/* Unfinished lines last: leftover processes of a rank may write until the supervisor ends. */
static void flush_rest(tt_launcher_job *job)
{
    for (int rank = 0; rank < job->launch->rank_count + job->launch->server_count; rank++) {
        tt_output_end(job->output, rank);
    }
    for (int stream = 0; stream < TT_OUTPUT_STREAMS; stream++) {
        while (tt_output_flush(job->output, stream) == TT_IN_PROGRESS) {
            struct pollfd item[2] = {{.fd = stream + 1, .events = POLLOUT},
                                     {.fd = job->signal_fd, .events = POLLIN}};
            struct signalfd_siginfo info;
            (void)poll(item, 2, -1);
            if (item[1].revents != 0 && read(job->signal_fd, &info, sizeof(info)) > 0 &&
                info.ssi_signo != SIGCHLD) {
                return;
            }
        }
    }
}

/* Under nohup, or in the background of a script, hang-ups or interrupts are ignored on purpose; the
 * ranks inherit that. */
static bool is_ignored(int number)
{
    struct sigaction action;
    return (number == SIGHUP || number == SIGINT) && sigaction(number, NULL, &action) == 0 &&
           action.sa_handler == SIG_IGN;
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
    for (size_t i = 0; i < TT_ARRAY_COUNT(numbers); i++) {
        if (!is_ignored(numbers[i])) {
            sigaddset(&set, numbers[i]);
        }
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Ranks from `first` on, `count` of them. */
static void place_ranks(tt_launcher_job *job, const tt_hosts *hosts, int first, int count)
{
    int placed = 0;
    for (size_t i = 0; i < hosts->count && placed < count; i++) {
        const tt_host *source = &hosts->items[i];
        const int left = count - placed;
        tt_launcher_host *host = &job->hosts[job->host_count++];
        *host = (tt_launcher_host){.name = source->name,
                                   .is_local = tt_launcher_host_is_local(source->name),
                                   .serves = first > 0,
                                   .phase = TT_LAUNCHER_GONE,
                                   .rank_first = first + placed,
                                   .rank_count = source->slots < left ? source->slots : left};
        host->channel.read_fd = -1;
        host->rank_left = host->rank_count;
        placed += host->rank_count;
    }
}

static bool make_secrets(tt_launcher_job *job)
{
    uint64_t id;
    if (getrandom(job->secret, sizeof(job->secret), 0) != (ssize_t)sizeof(job->secret) ||
        getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id)) {
        tt_launcher_say(job, "cannot get random bytes from the kernel: %s", strerror(errno));
        return false;
    }
    snprintf(job->job_id, sizeof(job->job_id), "%016llx", (unsigned long long)id);
    return true;
}

static pid_t host_process(void *user, size_t index)
{
    const tt_launcher_job *job = user;
    return job->hosts[index].process;
}

static int run_job(tt_launcher_job *job)
{
    if (!make_secrets(job)) {
        return 1;
    }
    tt_tree_adopt();
    job->signal_fd = open_signals();
    place_ranks(job, job->launch->hosts, 0, job->launch->rank_count);
    job->worker_host_count = job->host_count;
    if (job->launch->server_count > 0) {
        place_ranks(job, job->launch->server_hosts, job->launch->rank_count,
                    job->launch->server_count);
    }
    set_deadline(job, job->launch->start_timeout_s);
    for (int i = 0; i < job->host_count; i++) {
        if (!tt_launcher_host_start(job, &job->hosts[i])) {
            fail(job, 1);
            break;
        }
    }
    loop(job);
    flush_rest(job);
    const tt_tree_groups groups = {
        .leader_at = host_process, .user = job, .count = (size_t)job->host_count};
    (void)tt_tree_destroy(&groups, LINGER_S);
    for (int i = 0; i < job->host_count; i++) {
        tt_channel_fini(&job->hosts[i].channel);
    }
    close(job->signal_fd);
    if (job->launch->keep_min > 0 && job->failed_count > 0) {
        tt_launcher_say(job, "%d of %d ranks failed%s", job->failed_count, job->launch->rank_count,
                        job->has_failed ? "; the others were stopped" : "");
    }
    return job->has_failed ? job->exit_code : 0;
}

int tt_launcher_run(const tt_launcher *launch)
{
    const size_t rank_count = (size_t)launch->rank_count + (size_t)launch->server_count;
    const size_t host_count =
        launch->hosts->count + (launch->server_count > 0 ? launch->server_hosts->count : 0);
    tt_launcher_job job = {.launch = launch};
    job.output = tt_output_create(&(tt_output_config){.rank_count = (int)rank_count,
                                                      .server_count = launch->server_count,
                                                      .has_prefix = launch->has_prefix,
                                                      .folder = launch->output_folder});
    if (job.output == NULL) {
        return 1;
    }
    job.hosts = tt_cli_allocate(host_count, sizeof(*job.hosts));
    job.processes = tt_cli_allocate(rank_count, sizeof(*job.processes));
    job.is_over = tt_cli_allocate(rank_count, sizeof(*job.is_over));
    job.polls = tt_cli_allocate(FIXED_POLLS + HOST_POLLS * host_count, sizeof(*job.polls));
    const int code = run_job(&job);
    explicit_bzero(job.secret, sizeof(job.secret));
    tt_output_destroy(job.output);
    free(job.hosts);
    free(job.processes);
    free(job.is_over);
    free(job.polls);
    return code;
}
