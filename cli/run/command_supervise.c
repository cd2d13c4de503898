/* SPDX-License-Identifier: Apache-2.0
 *
 * command_supervise.c - the process that stands between the launcher and the ranks of one host.
 *
 * Invariants:
 *  (1) Nothing it started outlives it: it is the subreaper of all its descendants and leaves only
 *      when none is left. Its ranks die with it by PR_SET_PDEATHSIG. Where /proc is not mounted it
 *      cannot know descendants that left their rank's process group, and leaves without them.
 *  (2) The launcher's death is the end of its input, however the launcher died.
 *  (3) It sits in a session of its own: the terminal's signals reach the launcher only.
 *  (4) A rank's output is sent before its exit.
 *  (5) While the launcher does not read, ranks' output is not read either: memory is bounded. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/run/channel.h"
#include "cli/run/listen.h"
#include "cli/run/rank.h"
#include "cli/run/tree.h"

enum {
    PENDING_BYTES_MAX = 256 << 10,
    DRAIN_BYTES_MAX = 1 << 20,
    KILL_PERIOD_MS = 5,
    FIXED_POLLS = 4, /* launcher in, launcher out, signals, input of rank 0 */
    LEFTOVER_SECONDS = 5,
};

typedef struct supervisor {
    tt_channel channel;
    tt_buffer spec_memory; /* holds the strings of `spec` */
    tt_wire_spec spec;
    bool has_spec;
    bool is_started;
    bool is_killing;
    bool has_launcher;
    int signal_fd;
    int listen_fd;
    tt_buffer input; /* for rank 0, not yet written */
    bool has_input_chunk;
    bool has_input_ended;
    tt_rank *ranks;
    uint32_t started_count; /* the first so many of `ranks` */
    uint32_t running_count;
    int cores[CPU_SETSIZE];
    uint32_t core_count;
    uint32_t thread_count;
    struct pollfd *polls;
} supervisor;

static void refuse(supervisor *self, const char *reason)
{
    tt_wire_put_text(&self->channel.pending, TT_WIRE_REFUSED, reason);
}

static void read_cores(supervisor *self)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    (void)sched_getaffinity(0, sizeof(set), &set);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET((size_t)core, &set)) {
            self->cores[self->core_count++] = core;
        }
    }
}

/* Without this every rank would start a thread per core, and the ranks would compete for cores. */
static uint32_t choose_threads(const supervisor *self)
{
    for (size_t i = 0; i < self->spec.variables.count; i++) {
        if (strncmp(self->spec.variables.items[i], "OMP_NUM_THREADS=", 16) == 0) {
            return 0;
        }
    }
    if (tt_environment_get("OMP_NUM_THREADS") != NULL) {
        return 0;
    }
    const uint32_t share = self->spec.binds_cores ? 1 : self->core_count / self->spec.local_size;
    return share > 0 ? share : 1;
}

static void on_spec(supervisor *self, const tt_wire_frame *frame)
{
    tt_buffer_append(&self->spec_memory, frame->payload, frame->payload_bytes);
    const tt_wire_frame kept = {.type = frame->type,
                                .payload = tt_buffer_data(&self->spec_memory),
                                .payload_bytes = frame->payload_bytes};
    if (self->has_spec || tt_wire_get_spec(&kept, &self->spec) != TT_OK) {
        refuse(self, "the launcher sent an invalid job description; install the same version of "
                     "Tutti on all hosts");
        return;
    }
    self->has_spec = true;
    explicit_bzero(tt_buffer_data(&self->spec_memory) + TT_WIRE_SECRET_OFFSET,
                   TT_WIRE_SECRET_BYTES);
    char text[512] = "";
    if (self->spec.folder[0] != '\0' && chdir(self->spec.folder) != 0) {
        snprintf(text, sizeof(text), "cannot enter folder %.300s: %s", self->spec.folder,
                 strerror(errno));
        refuse(self, text);
        return;
    }
    if (self->spec.rank_first == 0) {
        self->listen_fd = tt_listen_open(&self->spec, text, sizeof(text));
        if (self->listen_fd < 0) {
            refuse(self, text);
            return;
        }
    }
    char host[256] = "";
    (void)gethostname(host, sizeof(host) - 1);
    self->thread_count = choose_threads(self);
    tt_wire_put_ready(&self->channel.pending, &(tt_wire_ready){.core_count = self->core_count,
                                                               .thread_count = self->thread_count,
                                                               .host = host,
                                                               .rendezvous = text});
}

static void report_exit(supervisor *self, uint32_t index, tt_wire_outcome outcome, int detail)
{
    const tt_wire_event event = {.rank = self->spec.rank_first + index,
                                 .value = (uint32_t)outcome,
                                 .detail = (uint32_t)detail};
    tt_wire_put_event(&self->channel.pending, TT_WIRE_EXIT, &event);
}

static void on_start(supervisor *self, const tt_wire_frame *frame)
{
    const char *rendezvous;
    if (!self->has_spec || self->is_started || tt_wire_get_text(frame, &rendezvous) != TT_OK) {
        refuse(self, "the launcher sent an unexpected START; install the same version of Tutti on "
                     "all hosts");
        return;
    }
    const tt_rank_plan plan = {.spec = &self->spec,
                               .rendezvous = rendezvous,
                               .listen_fd = self->listen_fd,
                               .cores = self->cores,
                               .core_count = self->core_count,
                               .thread_count = self->thread_count};
    self->is_started = true;
    self->ranks = tt_cli_allocate(self->spec.local_size, sizeof(*self->ranks));
    for (uint32_t i = 0; i < self->spec.local_size; i++) {
        self->ranks[i] = (tt_rank){.input_fd = -1, .output_fds = {-1, -1}};
    }
    for (uint32_t i = 0; i < self->spec.local_size; i++) {
        const int error = tt_rank_start(&self->ranks[i], &plan, i);
        if (error != 0) { /* the job ends here: start no more */
            report_exit(self, i, TT_WIRE_NOT_BEGUN, error);
            break;
        }
        self->started_count++;
        self->running_count++;
        const tt_wire_event event = {.rank = self->spec.rank_first + i,
                                     .value = (uint32_t)self->ranks[i].process};
        tt_wire_put_event(&self->channel.pending, TT_WIRE_STARTED, &event);
    }
    if (self->listen_fd >= 0) {
        close(self->listen_fd);
        self->listen_fd = -1;
    }
    explicit_bzero(self->spec.secret, sizeof(self->spec.secret));
}

static void on_signal(supervisor *self, const tt_wire_frame *frame)
{
    uint32_t number;
    if (tt_wire_get_number(frame, &number) != TT_OK || number == 0 || number >= NSIG) {
        return;
    }
    if (number == SIGKILL) {
        self->is_killing = true;
        return;
    }
    for (uint32_t i = 0; self->is_started && i < self->spec.local_size; i++) {
        if (self->ranks[i].is_running) {
            (void)kill(-self->ranks[i].process, (int)number);
        }
    }
}

static void on_input(supervisor *self, const tt_wire_frame *frame)
{
    if (!self->is_started || self->has_input_chunk || self->spec.rank_first != 0) {
        return;
    }
    self->has_input_chunk = true;
    self->has_input_ended = self->has_input_ended || frame->payload_bytes == 0;
    tt_buffer_append(&self->input, frame->payload, frame->payload_bytes);
}

/* Pass input on to rank 0 as far as it takes it. A rank may close its input early. */
static void pass_input(supervisor *self)
{
    tt_rank *rank = &self->ranks[0];
    if (rank->input_fd >= 0 && tt_buffer_bytes(&self->input) > 0) {
        const ssize_t bytes =
            write(rank->input_fd, tt_buffer_data(&self->input), tt_buffer_bytes(&self->input));
        if (bytes > 0) {
            tt_buffer_take(&self->input, (size_t)bytes);
        } else if (errno != EAGAIN && errno != EINTR) {
            self->has_input_ended = true;
            tt_buffer_fini(&self->input);
        }
    }
    if (tt_buffer_bytes(&self->input) > 0 && rank->input_fd >= 0) {
        return;
    }
    if (self->has_input_ended && rank->input_fd >= 0) {
        close(rank->input_fd);
        rank->input_fd = -1;
    }
    tt_buffer_fini(&self->input);
    self->has_input_chunk = false;
    tt_wire_put(&self->channel.pending, TT_WIRE_TAKEN, NULL, 0);
}

static void handle_frame(supervisor *self, const tt_wire_frame *frame)
{
    switch (frame->type) {
    case TT_WIRE_SPEC:
        on_spec(self, frame);
        break;
    case TT_WIRE_START:
        on_start(self, frame);
        break;
    case TT_WIRE_SIGNAL:
        on_signal(self, frame);
        break;
    case TT_WIRE_STDIN:
        on_input(self, frame);
        break;
    default:
        self->has_launcher = false; /* no launcher sends this */
        break;
    }
}

static void read_launcher(supervisor *self)
{
    tt_wire_frame frame;
    size_t used;
    if (tt_channel_read(&self->channel) == TT_ERR_PEER_LEFT) {
        self->has_launcher = false;
        return;
    }
    tt_status status = tt_channel_peek(&self->channel, &frame, &used);
    while (status == TT_OK) {
        handle_frame(self, &frame);
        if (frame.type == TT_WIRE_SPEC) { /* it held the secret */
            explicit_bzero((void *)(uintptr_t)frame.payload, frame.payload_bytes);
        }
        tt_channel_done(&self->channel, used);
        status = tt_channel_peek(&self->channel, &frame, &used);
    }
    if (status == TT_ERR_BAD_WIRE) {
        self->has_launcher = false;
    }
}

/* One read of one stream; false when there is nothing more now. */
static bool relay_once(supervisor *self, uint32_t index, int stream)
{
    uint8_t bytes[TT_WIRE_CHUNK_BYTES];
    int *fd = &self->ranks[index].output_fds[stream];
    const ssize_t count = *fd >= 0 ? read(*fd, bytes, sizeof(bytes)) : -1;
    if (count > 0) {
        const tt_wire_event event = {.rank = self->spec.rank_first + index,
                                     .value = (uint32_t)stream,
                                     .bytes = bytes,
                                     .byte_count = (size_t)count};
        tt_wire_put_event(&self->channel.pending, TT_WIRE_OUTPUT, &event);
        return true;
    }
    if (*fd >= 0 && (count == 0 || (errno != EAGAIN && errno != EINTR))) {
        close(*fd);
        *fd = -1;
    }
    return false;
}

static void drain_rank(supervisor *self, uint32_t index)
{
    for (int stream = 0; stream < TT_RANK_STREAMS; stream++) {
        const size_t before = tt_buffer_bytes(&self->channel.pending);
        while (tt_buffer_bytes(&self->channel.pending) < before + DRAIN_BYTES_MAX &&
               relay_once(self, index, stream)) {
        }
    }
}

static void on_rank_over(supervisor *self, pid_t process, int wait_status)
{
    for (uint32_t i = 0; i < self->spec.local_size; i++) {
        tt_rank *rank = &self->ranks[i];
        if (rank->process != process || !rank->is_running) {
            continue;
        }
        rank->is_running = false;
        self->running_count--;
        drain_rank(self, i);
        if (WIFSIGNALED(wait_status)) {
            report_exit(self, i, TT_WIRE_SIGNALLED, WTERMSIG(wait_status));
        } else {
            report_exit(self, i, TT_WIRE_EXITED, WEXITSTATUS(wait_status));
        }
    }
}

static void read_signals(supervisor *self)
{
    struct signalfd_siginfo info;
    while (read(self->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGTERM) {
            self->has_launcher = false;
        }
    }
    int wait_status;
    pid_t process;
    while ((process = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        if (self->is_started) {
            on_rank_over(self, process, wait_status);
        }
    }
}

static nfds_t fill_polls(supervisor *self)
{
    const bool has_pending = tt_buffer_bytes(&self->channel.pending) > 0;
    const bool is_full = tt_buffer_bytes(&self->channel.pending) > PENDING_BYTES_MAX;
    const bool feeds = self->is_started && self->has_input_chunk;
    self->polls[0] = (struct pollfd){.fd = self->channel.read_fd, .events = POLLIN};
    self->polls[1] =
        (struct pollfd){.fd = has_pending ? self->channel.write_fd : -1, .events = POLLOUT};
    self->polls[2] = (struct pollfd){.fd = self->signal_fd, .events = POLLIN};
    self->polls[3] = (struct pollfd){.fd = feeds ? self->ranks[0].input_fd : -1, .events = POLLOUT};
    nfds_t count = FIXED_POLLS;
    for (uint32_t i = 0; i < self->started_count; i++) { /* poll takes no more than ulimit -n */
        for (int stream = 0; stream < TT_RANK_STREAMS; stream++) {
            const int fd = is_full ? -1 : self->ranks[i].output_fds[stream];
            self->polls[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
    }
    return count;
}

static void handle_polls(supervisor *self)
{
    if (self->polls[2].revents != 0) {
        read_signals(self);
    }
    if (self->polls[0].revents != 0) {
        read_launcher(self);
    }
    if (self->has_input_chunk && (self->polls[3].revents != 0 || self->ranks[0].input_fd < 0)) {
        pass_input(self);
    }
}

static void relay_output(supervisor *self, nfds_t poll_count)
{
    for (nfds_t i = FIXED_POLLS; i < poll_count; i++) {
        if (self->polls[i].revents != 0) {
            const nfds_t place = i - FIXED_POLLS;
            (void)relay_once(self, (uint32_t)(place / TT_RANK_STREAMS),
                             (int)(place % TT_RANK_STREAMS));
        }
    }
}

/* Send what is still queued; the launcher may leave meanwhile. */
static void say_goodbye(supervisor *self)
{
    while (tt_channel_flush(&self->channel) == TT_IN_PROGRESS) {
        struct pollfd out = {.fd = self->channel.write_fd, .events = POLLOUT};
        if (poll(&out, 1, -1) < 0 && errno != EINTR) {
            return;
        }
    }
}

static pid_t rank_process(void *user, size_t index)
{
    const supervisor *self = user;
    return self->ranks[index].process;
}

static tt_tree_groups rank_groups(supervisor *self)
{
    return (tt_tree_groups){.leader_at = rank_process,
                            .user = self,
                            .count = self->ranks != NULL ? self->spec.local_size : 0};
}

static int finish(supervisor *self)
{
    const tt_tree_groups groups = rank_groups(self);
    (void)tt_tree_destroy(&groups, LEFTOVER_SECONDS);
    for (uint32_t i = 0; i < self->spec.local_size; i++) {
        drain_rank(self, i);
        tt_rank_close(&self->ranks[i]);
    }
    say_goodbye(self);
    return 0;
}

static int supervise(supervisor *self)
{
    while (self->has_launcher) {
        if (self->is_started && self->running_count == 0) {
            return finish(self);
        }
        const tt_tree_groups groups = rank_groups(self);
        if (self->is_killing) {
            (void)tt_tree_kill(&groups);
        }
        if (tt_channel_flush(&self->channel) == TT_ERR_PEER_LEFT) {
            break;
        }
        const nfds_t poll_count = fill_polls(self);
        if (poll(self->polls, poll_count, self->is_killing ? KILL_PERIOD_MS : -1) > 0) {
            relay_output(self, poll_count);
            handle_polls(self);
        }
    }
    const tt_tree_groups groups = rank_groups(self);
    while (!tt_tree_destroy(&groups, LEFTOVER_SECONDS) && tt_tree_kill(&groups)) { /* (1) */
    }
    return 1;
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    const int blocked[] = {SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU};
    for (size_t i = 0; i < TT_ARRAY_COUNT(blocked); i++) {
        sigaddset(&set, blocked[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run(const void *values, int operand_count, char **operands)
{
    (void)values;
    (void)operand_count;
    (void)operands;
    if (isatty(STDIN_FILENO)) {
        fputs("tutti supervise: for internal use; run 'tutti run' instead\n", stderr);
        return 2;
    }
    (void)setsid(); /* (3); fails where the launcher's fork did it already */
    tt_tree_adopt();
    supervisor self = {.has_launcher = true, .listen_fd = -1, .signal_fd = open_signals()};
    tt_channel_init(&self.channel, STDIN_FILENO, STDOUT_FILENO);
    read_cores(&self);
    self.polls = tt_cli_allocate(FIXED_POLLS + TT_RANK_STREAMS * TT_WIRE_LOCAL_COUNT_MAX,
                                 sizeof(*self.polls));
    tt_buffer_append(&self.channel.pending, TT_WIRE_GREETING, strlen(TT_WIRE_GREETING));
    const int code = supervise(&self);
    tt_channel_fini(&self.channel);
    tt_wire_spec_release(&self.spec);
    tt_buffer_fini(&self.spec_memory);
    tt_buffer_fini(&self.input);
    free(self.ranks);
    free(self.polls);
    return code;
}

const tt_command tt_command_supervise = {
    .name = "supervise",
    .summary = "Start and watch the ranks of one host (used by 'tutti run').",
    .operands = "",
    .description = "Uses the protocol of cli/run/wire.h on its standard input and output.",
    .is_internal = true,
    .run = run,
};
