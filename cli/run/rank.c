/* SPDX-License-Identifier: Apache-2.0
 *
 * rank.c - fork, environment, descriptors, exec.
 *
 * The job's secret travels in a sealed memory file, one per rank, and the rendezvous socket as an
 * open descriptor: neither can be read from the command line or the environment, and no port can
 * be lost between choosing and using it. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/environment.h"
#include "cli/run/as_horovod.h"
#include "cli/run/descriptor.h"
#include "cli/run/listen.h"
#include "cli/run/rank.h"
#include "cli/self.h"

typedef struct rank_setup {
    const tt_rank_plan *plan;
    uint32_t index;
    pid_t supervisor;
    int listen_fd;
    int secret_fd;
    int standard_fds[3];
    int failure_fd;
    char **variables;
} rank_setup;

static int secret_open(const uint8_t *secret)
{
    const int fd = memfd_create("tutti-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return -1;
    }
    const int passed_fd = tt_descriptor_raise(fd);
    if (passed_fd >= 0 && (write(passed_fd, secret, TT_WIRE_SECRET_BYTES) != TT_WIRE_SECRET_BYTES ||
                           fcntl(passed_fd, F_ADD_SEALS,
                                 F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0 ||
                           lseek(passed_fd, 0, SEEK_SET) != 0)) {
        close(passed_fd);
        return -1;
    }
    return passed_fd;
}

static void __attribute__((format(printf, 3, 4)))
set_variable(tt_environment *environment, const char *name, const char *format, ...)
{
    char value[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof(value), format, arguments);
    va_end(arguments);
    tt_environment_set(environment, name, value);
}

/* What Horovod's launcher sets, for scripts that read it themselves. */
static void set_horovod_variables(tt_environment *environment, const rank_setup *start)
{
    const tt_wire_spec *spec = start->plan->spec;
    char host[256] = "";
    (void)gethostname(host, sizeof(host) - 1);
    set_variable(environment, "HOROVOD_HOSTNAME", "%s", host);
    set_variable(environment, "HOROVOD_RANK", "%u", spec->rank_first + start->index);
    set_variable(environment, "HOROVOD_SIZE", "%u", spec->world_size - spec->server_count);
    set_variable(environment, "HOROVOD_LOCAL_RANK", "%u", start->index);
    set_variable(environment, "HOROVOD_LOCAL_SIZE", "%u", spec->local_size);
    set_variable(environment, "HOROVOD_CROSS_RANK", "%u", spec->cross_rank);
    set_variable(environment, "HOROVOD_CROSS_SIZE", "%u", spec->cross_size);
    set_variable(environment, "HOROVOD_CONTROLLER", "gloo");
    set_variable(environment, "HOROVOD_CPU_OPERATIONS", "gloo");
}

/* Rank numbers of an outer job or of this shell are not valid here: only -x overrides. */
static bool is_asked_for(const tt_wire_spec *spec, const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < spec->variables.count; i++) {
        if (strncmp(spec->variables.items[i], name, length) == 0 &&
            spec->variables.items[i][length] == '=') {
            return true;
        }
    }
    return false;
}

static void set_number(tt_environment *environment, const tt_wire_spec *spec, const char *name,
                       uint32_t number)
{
    if (!is_asked_for(spec, name)) {
        set_variable(environment, name, "%u", number);
    }
}

/* Variables that torch.distributed's env:// reads, and those that trainers read, too: some count
 * nodes by GROUP_RANK. The store listens on rank 0's host, TT_LISTEN_STORE_OFFSET above the
 * rendezvous port; an address that the user has set is kept. */
static void set_torch_variables(tt_environment *environment, const rank_setup *start)
{
    const tt_rank_plan *plan = start->plan;
    const tt_wire_spec *spec = plan->spec;
    set_number(environment, spec, "RANK", spec->rank_first + start->index);
    set_number(environment, spec, "WORLD_SIZE", spec->world_size - spec->server_count);
    set_number(environment, spec, "LOCAL_RANK", start->index);
    set_number(environment, spec, "LOCAL_WORLD_SIZE", spec->local_size);
    set_number(environment, spec, "GROUP_RANK", spec->cross_rank);
    set_number(environment, spec, "GROUP_WORLD_SIZE", spec->cross_size);
    char host[256];
    unsigned port;
    const bool is_outer = tt_environment_get("TUTTI_RANK") != NULL;
    if (sscanf(plan->rendezvous, "tcp://[%255[^]]]:%u", host, &port) != 2 &&
        sscanf(plan->rendezvous, "tcp://%255[^:]:%u", host, &port) != 2) {
        return;
    }
    if (!tt_environment_has(environment, "MASTER_ADDR") || is_outer) {
        set_variable(environment, "MASTER_ADDR", "%s", host);
    }
    if (!tt_environment_has(environment, "MASTER_PORT") || is_outer) {
        set_variable(environment, "MASTER_PORT", "%u", port + TT_LISTEN_STORE_OFFSET);
    }
}

/* Without --servers the numbers of an outer job are removed; a program whose last ranks call
 * tutti_server_run asks for them with -x. */
static void set_role(tt_environment *environment, const tt_wire_spec *spec)
{
    const bool has_servers = spec->server_count > 0;
    char count[16];
    snprintf(count, sizeof(count), "%u", spec->server_count);
    if (has_servers || !is_asked_for(spec, "TUTTI_SERVERS")) {
        tt_environment_set(environment, "TUTTI_SERVERS", has_servers ? count : NULL);
    }
    if (has_servers || !is_asked_for(spec, "TUTTI_ROLE")) {
        const char *role = tt_wire_spec_serves(spec) ? "server" : "worker";
        tt_environment_set(environment, "TUTTI_ROLE", has_servers ? role : NULL);
    }
}

/* Variables of an outer job must not reach this one: those that are not set here are removed. */
static char **build_variables(const rank_setup *start)
{
    const tt_rank_plan *plan = start->plan;
    const tt_wire_spec *spec = plan->spec;
    tt_environment environment;
    tt_environment_init(&environment);
    for (size_t i = 0; i < spec->variables.count; i++) {
        tt_environment_put(&environment, spec->variables.items[i]);
        if (strcmp(spec->variables.items[i], TT_AS_HOROVOD_MARK) == 0 &&
            !tt_wire_spec_serves(spec)) {
            set_horovod_variables(&environment, start);
        }
    }
    tt_environment_set(&environment, "TUTTI_LISTEN_FD", NULL);
    set_variable(&environment, "TUTTI_RANK", "%u", spec->rank_first + start->index);
    set_variable(&environment, "TUTTI_SIZE", "%u", spec->world_size);
    set_variable(&environment, "TUTTI_LOCAL_RANK", "%u", start->index);
    set_variable(&environment, "TUTTI_LOCAL_SIZE", "%u", spec->local_size);
    set_variable(&environment, "TUTTI_CROSS_RANK", "%u", spec->cross_rank);
    set_variable(&environment, "TUTTI_CROSS_SIZE", "%u", spec->cross_size);
    set_variable(&environment, "TUTTI_JOB_ID", "%s", spec->job_id);
    set_variable(&environment, "TUTTI_RENDEZVOUS", "%s", plan->rendezvous);
    set_variable(&environment, "TUTTI_SECRET_FD", "%d", start->secret_fd);
    if (start->listen_fd >= 0) {
        set_variable(&environment, "TUTTI_LISTEN_FD", "%d", start->listen_fd);
    }
    set_role(&environment, spec);
    if (!tt_wire_spec_serves(spec)) { /* other tools know workers only */
        set_torch_variables(&environment, start);
    }
    if (plan->thread_count > 0) {
        set_variable(&environment, "OMP_NUM_THREADS", "%u", plan->thread_count);
    }
    return tt_environment_adopt(&environment);
}

static void bind_core(const tt_rank_plan *plan, uint32_t index)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)plan->cores[index % plan->core_count], &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Returns if it fails, with errno. */
static void execute(const tt_wire_spec *spec)
{
    char path[4096];
    if (tt_wire_spec_serves(spec)) {
        (void)execl("/proc/self/exe", "tutti", "server",
                    (char *)NULL); /* works even if the file was replaced */
        (void)execl(tt_self_path(path, sizeof(path)), "tutti", "server", (char *)NULL);
        return;
    }
    char **program = (char **)(uintptr_t)spec->program.items;
    (void)execvp(program[0], program);
}

/* In the child. A rank must not outlive its supervisor, not even if that dies between fork and
 * prctl; hence the parent is checked again. */
static _Noreturn void become_program(const rank_setup *start)
{
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != start->supervisor) {
        _exit(1);
    }
    reset_signals();
    if (start->plan->spec->binds_cores && !tt_wire_spec_serves(start->plan->spec) &&
        start->plan->core_count > 0) {
        bind_core(start->plan, start->index);
    }
    for (int fd = 0; fd < 3; fd++) {
        (void)dup2(start->standard_fds[fd], fd);
    }
    (void)fcntl(start->secret_fd, F_SETFD, 0);
    if (start->listen_fd >= 0) {
        (void)fcntl(start->listen_fd, F_SETFD, 0);
    }
    tt_environment_install(start->variables);
    execute(start->plan->spec);
    const int error = errno;
    (void)!write(start->failure_fd, &error, sizeof(error));
    _exit(127);
}

/* The pipe closes by itself when exec succeeds; an errno in it means that exec failed. */
static int await_exec(tt_rank *rank, int failure_fd)
{
    int error = 0;
    ssize_t bytes;
    do {
        bytes = read(failure_fd, &error, sizeof(error));
    } while (bytes < 0 && errno == EINTR);
    if (bytes == sizeof(error)) {
        (void)waitpid(rank->process, NULL, 0);
        return error;
    }
    rank->is_running = true;
    return 0;
}

static int fork_program(tt_rank *rank, rank_setup *start)
{
    int failure_pipe[2];
    if (pipe2(failure_pipe, O_CLOEXEC) != 0) {
        return errno;
    }
    start->failure_fd = failure_pipe[1];
    start->supervisor = getpid();
    rank->process = fork();
    if (rank->process == 0) {
        become_program(start);
    }
    const int fork_error = errno;
    close(failure_pipe[1]);
    const int error = rank->process < 0 ? fork_error : await_exec(rank, failure_pipe[0]);
    close(failure_pipe[0]);
    return error;
}

/* Pipes for the standard streams: the supervisor's ends in `rank`, the program's in `start`. */
static int open_streams(tt_rank *rank, rank_setup *start)
{
    const tt_wire_spec *spec = start->plan->spec;
    int ends[2];
    if (spec->wants_stdin && spec->rank_first + start->index == 0) {
        if (pipe2(ends, O_CLOEXEC) != 0) {
            return errno;
        }
        start->standard_fds[0] = ends[0];
        rank->input_fd = ends[1];
        (void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
    } else {
        start->standard_fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    for (int stream = 0; stream < TT_RANK_STREAMS; stream++) {
        if (pipe2(ends, O_CLOEXEC) != 0) {
            return errno;
        }
        start->standard_fds[stream + 1] = ends[1];
        rank->output_fds[stream] = ends[0];
        (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

static void close_if_open(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

int tt_rank_start(tt_rank *rank, const tt_rank_plan *plan, uint32_t index)
{
    *rank = (tt_rank){.input_fd = -1, .output_fds = {-1, -1}};
    rank_setup start = {.plan = plan,
                        .index = index,
                        .listen_fd = plan->spec->rank_first + index == 0 ? plan->listen_fd : -1,
                        .standard_fds = {-1, -1, -1}};
    start.secret_fd = secret_open(plan->spec->secret);
    int error = start.secret_fd < 0 ? errno : open_streams(rank, &start);
    if (error == 0) {
        start.variables = build_variables(&start);
        error = fork_program(rank, &start);
        tt_environment_free(start.variables);
    }
    for (int fd = 0; fd < 3; fd++) {
        close_if_open(&start.standard_fds[fd]);
    }
    close_if_open(&start.secret_fd);
    if (error != 0) {
        tt_rank_close(rank);
    }
    return error;
}

void tt_rank_close(tt_rank *rank)
{
    close_if_open(&rank->input_fd);
    for (int stream = 0; stream < TT_RANK_STREAMS; stream++) {
        close_if_open(&rank->output_fds[stream]);
    }
}
