/* SPDX-License-Identifier: Apache-2.0
 *
 * launcher_host.c - how the launcher reaches one host: fork for this one, a remote shell for
 * others.
 *
 * The secret goes through the supervisor's input only. A remote host gets the variables a program
 * needs to be found and configured (forwarded_names), and those the user asked for. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/environment.h"
#include "cli/run/descriptor.h"
#include "cli/run/launcher_internal.h"
#include "cli/self.h"

enum { SHELL_WORDS_MAX = 64 };

/* Names may differ by a domain that one of them leaves out. */
static bool is_same_host(const char *name, const char *own)
{
    const size_t length = strcspn(name, ".");
    const bool is_short = name[length] == '\0' || own[strcspn(own, ".")] == '\0';
    return strcmp(name, own) == 0 || (is_short && length > 0 && length == strcspn(own, ".") &&
                                      strncmp(name, own, length) == 0);
}

bool tt_launcher_host_is_local(const char *name)
{
    char own[256] = "";
    const char *node = tt_environment_get("SLURMD_NODENAME"); /* need not be the host's name */
    (void)gethostname(own, sizeof(own) - 1);
    return (node != NULL && strcmp(name, node) == 0) || strcmp(name, "localhost") == 0 ||
           strcmp(name, "127.0.0.1") == 0 || strcmp(name, "::1") == 0 || is_same_host(name, own);
}

/* The remote side passes the words to a shell: quote the path, which may hold any character. */
static void quote(const char *text, char *quoted, size_t quoted_bytes)
{
    size_t used = 0;
    quoted[used++] = '\'';
    for (; *text != '\0' && used + 6 < quoted_bytes; text++) {
        if (*text == '\'') {
            memcpy(quoted + used, "'\\''", 4);
            used += 4;
        } else {
            quoted[used++] = *text;
        }
    }
    quoted[used++] = '\'';
    quoted[used] = '\0';
}

/* In the child: never returns. */
static _Noreturn void become_remote_shell(const tt_launcher *launch, const char *host)
{
    char rsh[1024];
    char path[4096];
    char command[8192];
    char *words[SHELL_WORDS_MAX];
    size_t count = 0;
    char *rest = rsh;
    snprintf(rsh, sizeof(rsh), "%s", launch->rsh);
    for (char *word = strsep(&rest, " \t"); word != NULL && count < SHELL_WORDS_MAX - 4;
         word = strsep(&rest, " \t")) {
        if (word[0] != '\0') {
            words[count++] = word;
        }
    }
    quote(launch->remote_tutti != NULL ? launch->remote_tutti : tt_self_path(path, sizeof(path)),
          command, sizeof(command));
    char supervise[] = "supervise";
    words[count++] = (char *)(uintptr_t)host;
    words[count++] = command;
    words[count++] = supervise;
    words[count] = NULL;
    (void)execvp(words[0], words);
    fprintf(stderr, "%s: cannot execute remote shell '%s': %s\n", launch->title, words[0],
            strerror(errno));
    _exit(127);
}

static _Noreturn void become_supervisor(const tt_launcher *launch)
{
    char path[4096];
    (void)execl("/proc/self/exe", "tutti", "supervise",
                (char *)NULL); /* works even if the file was replaced */
    (void)execl(tt_self_path(path, sizeof(path)), "tutti", "supervise", (char *)NULL);
    fprintf(stderr, "%s: cannot start the supervisor: %s\n", launch->title, strerror(errno));
    _exit(127);
}

static _Noreturn void become_host(const tt_launcher *launch, const tt_launcher_host *host,
                                  int in_fd, int out_fd)
{
    sigset_t none;
    sigemptyset(&none);
    (void)setsid();
    (void)dup2(in_fd, STDIN_FILENO);
    (void)dup2(out_fd, STDOUT_FILENO);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (host->is_local) {
        become_supervisor(launch);
    }
    become_remote_shell(launch, host->name);
}

static void say_no_pipe(tt_launcher_job *job, const tt_launcher_host *host)
{
    char reason[256];
    tt_descriptor_explain(errno, reason, sizeof(reason));
    tt_launcher_say(job, "cannot open a pipe to host %s: %s", host->name, reason);
}

bool tt_launcher_host_start(tt_launcher_job *job, tt_launcher_host *host)
{
    int to_host[2];
    int from_host[2];
    if (pipe2(to_host, O_CLOEXEC) != 0) {
        say_no_pipe(job, host);
        return false;
    }
    if (pipe2(from_host, O_CLOEXEC) != 0) {
        say_no_pipe(job, host);
        close(to_host[0]);
        close(to_host[1]);
        return false;
    }
    host->process = fork();
    if (host->process == 0) {
        become_host(job->launch, host, to_host[0], from_host[1]);
    }
    close(to_host[0]);
    close(from_host[1]);
    tt_channel_init(&host->channel, from_host[0], to_host[1]);
    host->phase = TT_LAUNCHER_GREETING;
    if (host->process < 0) {
        tt_launcher_say(job, "cannot start a process for host %s: %s", host->name, strerror(errno));
        return false;
    }
    tt_launcher_host_describe(job, host);
    if (tt_buffer_bytes(&host->channel.pending) > TT_WIRE_HEAD_BYTES + TT_WIRE_PAYLOAD_BYTES_MAX) {
        tt_launcher_say(job, "arguments and variables exceed %d MiB; pass less",
                        TT_WIRE_PAYLOAD_BYTES_MAX >> 20);
        return false;
    }
    return true;
}

static bool is_forwarded(const char *variable)
{
    static const char *const forwarded_names[] = {
        "TUTTI_", "PATH=", "LD_LIBRARY_PATH=", "PYTHON", "VIRTUAL_ENV=", "CONDA_", "OMP_", "MKL_",
    };
    for (size_t i = 0; i < TT_ARRAY_COUNT(forwarded_names); i++) {
        if (strncmp(variable, forwarded_names[i], strlen(forwarded_names[i])) == 0) {
            return strncmp(variable, "TUTTI_SECRET", 12) != 0 &&
                   strncmp(variable, "TUTTI_SERVERS=", 14) != 0 && /* this job's, by rank.c */
                   strncmp(variable, "TUTTI_ROLE=", 11) != 0;
        }
    }
    return false;
}

static size_t environment_count(void)
{
    size_t count = 0;
    while (tt_environment_at(count) != NULL) {
        count++;
    }
    return count;
}

/* "NAME" stands for this process's value of it; `storage` keeps those built here. */
static void add_requested(const tt_launcher *launch, tt_wire_list *list, char **storage)
{
    for (size_t i = 0; launch->variables != NULL && i < launch->variables->count; i++) {
        const char *item = launch->variables->items[i];
        const char *value = strchr(item, '=') == NULL ? tt_environment_get(item) : NULL;
        if (value != NULL) {
            const size_t bytes = strlen(item) + strlen(value) + 2;
            storage[i] = tt_cli_allocate(bytes, 1);
            snprintf(storage[i], bytes, "%s=%s", item, value);
            item = storage[i];
        }
        if (strchr(item, '=') != NULL) {
            list->items[list->count++] = item;
        }
    }
}

/* A relative folder is relative to this process's. */
static const char *rank_folder(const tt_launcher *launch, char *path, size_t path_bytes)
{
    const char *wanted = launch->folder != NULL ? launch->folder : "";
    char own[PATH_MAX / 2] = "";
    if (wanted[0] == '/') {
        return wanted;
    }
    if (getcwd(own, sizeof(own)) == NULL) {
        return wanted;
    }
    snprintf(path, path_bytes, "%s%s%s", own, wanted[0] != '\0' ? "/" : "", wanted);
    return path;
}

static bool is_all_local(const tt_launcher_job *job)
{
    bool is_local = true;
    for (int i = 0; i < job->host_count; i++) {
        is_local = is_local && job->hosts[i].is_local;
    }
    return is_local;
}

void tt_launcher_host_describe(tt_launcher_job *job, tt_launcher_host *host)
{
    const tt_launcher *launch = job->launch;
    const size_t requested = launch->variables != NULL ? launch->variables->count : 0;
    const size_t inherited = host->is_local ? 0 : environment_count();
    char folder[PATH_MAX];
    char **storage = tt_cli_allocate(requested + 1, sizeof(*storage));
    tt_wire_list variables = {tt_cli_allocate(requested + inherited + 1, sizeof(char *)), 0};
    tt_wire_list peers = {tt_cli_allocate((size_t)job->host_count, sizeof(char *)), 0};
    tt_wire_list program = {(const char **)(uintptr_t)launch->program, 0};
    for (size_t i = 0; i < inherited; i++) {
        if (is_forwarded(tt_environment_at(i))) {
            variables.items[variables.count++] = tt_environment_at(i);
        }
    }
    add_requested(launch, &variables, storage);
    for (int i = 0; i < job->host_count; i++) {
        peers.items[peers.count++] = job->hosts[i].name;
    }
    while (launch->program[program.count] != NULL) {
        program.count++;
    }
    const int server_host_count = job->host_count - job->worker_host_count;
    const int host_index = (int)(host - job->hosts);
    tt_wire_spec spec = {
        .rank_first = (uint32_t)host->rank_first,
        .local_size = (uint32_t)host->rank_count,
        .world_size = (uint32_t)(launch->rank_count + launch->server_count),
        .server_count = (uint32_t)launch->server_count,
        .cross_rank = (uint32_t)(host_index - (host->serves ? job->worker_host_count : 0)),
        .cross_size = (uint32_t)(host->serves ? server_host_count : job->worker_host_count),
        .binds_cores = launch->binds_cores,
        .wants_stdin = launch->wants_stdin,
        .is_loopback_only = job->worker_host_count == 1 && is_all_local(job),
        .job_id = job->job_id,
        .folder = rank_folder(launch, folder, sizeof(folder)),
        .interface = launch->interface != NULL ? launch->interface : "",
        .peers = peers,
        .program = program,
        .variables = variables};
    memcpy(spec.secret, job->secret, sizeof(spec.secret));
    tt_wire_put_spec(&host->channel.pending, &spec);
    explicit_bzero(spec.secret, sizeof(spec.secret));
    for (size_t i = 0; i < requested; i++) {
        free(storage[i]);
    }
    free(storage);
    free(variables.items);
    free(peers.items);
}
