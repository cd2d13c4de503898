/* SPDX-License-Identifier: Apache-2.0
 *
 * command_doctor.c - `tutti doctor`: checks with a verdict each, and the cure where one is needed.
 *
 * A check is one function in the table at the end; it fills in verdict, finding and cure. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <netdb.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/library.h"
#include "cli/machine.h"

typedef enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL } verdict;

typedef struct finding {
    verdict verdict;
    char text[4096]; /* perhaps several lines */
    char cure[1024]; /* "" when all is well */
} finding;

typedef struct check {
    const char *name;
    void (*run)(const tt_machine *machine, finding *finding);
} check;

typedef struct doctor_values {
    bool is_json;
} doctor_values;

static const tt_option options[] = {
    {'\0', "json", TT_OPTION_FLAG, offsetof(doctor_values, is_json), NULL,
     "print a JSON array of findings", NULL, NULL, NULL, 0, 0},
};

static void __attribute__((format(printf, 2, 3))) say(finding *found, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(found->text, sizeof(found->text), format, arguments);
    va_end(arguments);
}

static void advise(finding *found, verdict how_bad, const char *cure)
{
    found->verdict = how_bad;
    snprintf(found->cure, sizeof(found->cure), "%s", cure);
}

static void check_memfd(const tt_machine *machine, finding *found)
{
    say(found, machine->has_memfd ? "memory files can be created, sealed and mapped"
                                  : "memfd_create does not work here");
    if (!machine->has_memfd) {
        advise(found, VERDICT_FAIL,
               "allow memfd_create in the container's seccomp profile; use kernel 3.17 or newer");
    }
}

static void check_shm(const tt_machine *machine, finding *found)
{
    const uint64_t low = (uint64_t)256 << 20;
    say(found, "/dev/shm has %" PRIu64 " MiB free", machine->shm_free_bytes >> 20);
    if (!machine->has_shm) {
        say(found, "/dev/shm is missing or cannot be written");
        advise(found, VERDICT_WARN, "mount a tmpfs at /dev/shm; other libraries need it");
    } else if (machine->shm_free_bytes < low) {
        advise(found, VERDICT_WARN,
               "frameworks' data loaders need more: docker run --shm-size=1g, or remount it");
    }
}

static void check_files(const tt_machine *machine, finding *found)
{
    enum { FILES_WANTED = 1024, FILES_NEEDED = 128 };
    say(found, "%" PRIu64 " open files allowed", machine->file_limit);
    if (machine->file_limit < FILES_WANTED) {
        advise(found, machine->file_limit < FILES_NEEDED ? VERDICT_FAIL : VERDICT_WARN,
               "raise it: ulimit -n 4096 (large jobs need about two per rank)");
    }
}

static void check_locked(const tt_machine *machine, finding *found)
{
    const uint64_t low = (uint64_t)64 << 20;
    if (machine->lock_limit_bytes == UINT64_MAX) {
        say(found, "locked memory is unlimited");
        return;
    }
    say(found, "%" PRIu64 " KiB may be locked", machine->lock_limit_bytes >> 10);
    if (machine->lock_limit_bytes < low) {
        advise(found, VERDICT_WARN,
               "only RDMA engines need more: ulimit -l unlimited, or docker run --ulimit "
               "memlock=-1");
    }
}

static void check_pidfd(const tt_machine *machine, finding *found)
{
    say(found, machine->has_pidfd ? "exits of peers are detected at once (pidfd)"
                                  : "pidfd_open does not work here");
    if (!machine->has_pidfd) {
        advise(found, VERDICT_WARN,
               "use kernel 5.3 or newer: without pidfd only sockets show that a peer died");
    }
}

/* Listen there and connect. */
static bool try_loopback(struct sockaddr *address, socklen_t bytes)
{
    const int listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int client = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_good = listener >= 0 && client >= 0 && bind(listener, address, bytes) == 0 &&
                         listen(listener, 1) == 0 && getsockname(listener, address, &bytes) == 0 &&
                         connect(client, address, bytes) == 0;
    const int error = errno;
    close(listener);
    close(client);
    errno = error;
    return is_good;
}

static void check_loopback(const tt_machine *machine, finding *found)
{
    (void)machine;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    if (try_loopback((void *)&v4, sizeof(v4))) {
        say(found, "TCP over 127.0.0.1 connects");
    } else if (try_loopback((void *)&v6, sizeof(v6))) {
        say(found, "TCP over ::1 connects; this host has no 127.0.0.1");
    } else {
        say(found, "TCP over 127.0.0.1 and ::1 fails: %s", strerror(errno));
        advise(found, VERDICT_FAIL, "bring up the loopback interface: ip link set lo up");
    }
}

static void check_proc(const tt_machine *machine, finding *found)
{
    say(found, "/proc is mounted");
    if (!machine->has_proc) {
        say(found, "/proc is not mounted");
        advise(found, VERDICT_WARN,
               "mount it: without it 'tutti run' cannot find processes that left their rank's "
               "process group, 'tutti bench' needs 'tutti run', and 'tutti info' shows less");
    }
}

static void check_host_name(const tt_machine *machine, finding *found)
{
    struct addrinfo *result = NULL;
    const int error = getaddrinfo(machine->host, NULL, NULL, &result);
    if (error != 0) {
        say(found, "host name '%s' does not resolve: %s", machine->host, gai_strerror(error));
        advise(found, VERDICT_WARN, "add it to /etc/hosts; jobs on one host do not need it");
        return;
    }
    freeaddrinfo(result);
    say(found, "host name '%s' resolves", machine->host);
}

/* A key that others can read is no key; the library refuses it. */
static void check_key_file(const tt_machine *machine, finding *found)
{
    (void)machine;
    const char *path = tt_environment_get("TUTTI_SECRET_FILE");
    const char *home = tt_environment_get("HOME");
    char home_path[4096];
    if (path == NULL) {
        const char *folder = tt_environment_get("XDG_CONFIG_HOME");
        const bool has_folder = folder != NULL && folder[0] == '/';
        snprintf(home_path, sizeof(home_path), "%s%s/tutti/key",
                 has_folder     ? folder
                 : home != NULL ? home
                                : "",
                 has_folder ? "" : "/.config");
        path = home_path;
    }
    struct stat status;
    if (stat(path, &status) != 0) {
        say(found, "no key file %.300s (not needed under 'tutti run')", path);
        if (tt_environment_get("TUTTI_SECRET_FILE") != NULL) {
            advise(found, VERDICT_FAIL, "TUTTI_SECRET_FILE names a file that cannot be read");
        }
    } else if (status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
        say(found, "key file %.300s can be read by others", path);
        advise(found, VERDICT_FAIL, "make it private: chown it to your user and chmod 600");
    } else {
        say(found, "key file %.300s is private", path);
    }
}

static void add_passed_over(void *user, const tt_library_plugin *plugin)
{
    finding *found = user;
    if (found->verdict == VERDICT_OK) {
        say(found, "a job would not load:");
        advise(found, VERDICT_WARN, plugin->why);
    }
    const size_t used = strlen(found->text);
    snprintf(found->text + used, sizeof(found->text) - used, " %s", plugin->path);
}

/* A plugin that others can replace is their code in our process; the library skips it. */
static void check_plugins(const tt_machine *machine, finding *found)
{
    (void)machine;
    tt_library_plugins_passed_over(add_passed_over, found);
    if (found->verdict == VERDICT_OK) {
        say(found, "no plugin is in a place where others can write");
    }
}

static void check_launcher(const tt_machine *machine, finding *found)
{
    (void)machine;
    tt_library_place place;
    tt_library_place_find(&place);
    say(found, "%s", place.text);
    if (place.is_broken) {
        say(found, "the launcher's variables contradict each other");
        advise(found, VERDICT_FAIL, place.text);
    } else if (place.warning[0] != '\0') {
        advise(found, VERDICT_WARN, place.warning);
    }
}

static void __attribute__((format(printf, 2, 3))) add(finding *found, const char *format, ...)
{
    const size_t used = strlen(found->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(found->text + used, sizeof(found->text) - used, format, arguments);
    va_end(arguments);
}

static void add_unknown(void *user, const char *name, const char *nearest)
{
    finding *found = user;
    add(found, "%s %s", found->text[0] == '\0' ? "unknown:" : "", name);
    if (nearest != NULL) {
        add(found, " (did you mean %s?)", nearest);
    }
    advise(found, VERDICT_WARN, "unset or rename them; 'tutti config' lists the known ones");
}

static void check_variables(const tt_machine *machine, finding *found)
{
    (void)machine;
    tt_library_find_unknown(add_unknown, found);
    if (found->verdict == VERDICT_OK) {
        say(found, "every TUTTI_ variable is known");
    }
}

static void add_bad(void *user, const char *sentence)
{
    finding *found = user;
    add(found, "%s%s", found->text[0] == '\0' ? "" : "\n", sentence);
}

static void check_values(const tt_machine *machine, finding *found)
{
    (void)machine;
    if (tt_library_find_bad(add_bad, found) > 0) {
        advise(found, VERDICT_FAIL,
               "tutti_init refuses this; 'tutti config' lists what is accepted");
    } else {
        say(found, "every TUTTI_ variable has a value that is accepted");
    }
}

static void check_clock(const tt_machine *machine, finding *found)
{
    (void)machine;
    const int64_t built = INT64_C(1735689600); /* 2025-01-01: older than any release */
    struct timespec resolution;
    if (time(NULL) < built) {
        say(found, "the clock shows a date before 2025");
        advise(found, VERDICT_WARN, "set it (NTP): traces of several hosts will not line up");
    } else if (clock_getres(CLOCK_MONOTONIC, &resolution) != 0 || resolution.tv_sec > 0 ||
               resolution.tv_nsec > 1000) {
        say(found, "the monotonic clock is coarser than a microsecond");
        advise(found, VERDICT_WARN, "use a kernel clock source such as tsc or kvm-clock");
    } else {
        say(found, "the clock is set and fine-grained");
    }
}

static const check checks[] = {
    {"memfd", check_memfd},          {"shared memory", check_shm},   {"open files", check_files},
    {"locked memory", check_locked}, {"pidfd", check_pidfd},         {"/proc", check_proc},
    {"loopback", check_loopback},    {"host name", check_host_name}, {"key file", check_key_file},
    {"plugins", check_plugins},      {"launcher", check_launcher},   {"variables", check_variables},
    {"values", check_values},        {"clock", check_clock},
};

static void print(json_t *array, const char *name, const finding *found)
{
    static const char *const words[] = {"ok", "warn", "fail"};
    if (array != NULL) {
        (void)json_array_append_new(array, json_pack("{s:s, s:s, s:s, s:s}", "check", name,
                                                     "verdict", words[found->verdict], "finding",
                                                     found->text, "cure", found->cure));
        return;
    }
    printf("%-5s %-15s", words[found->verdict], name);
    for (const char *line = found->text; line != NULL; line = strchr(line, '\n')) {
        line += line != found->text;
        printf("%s%.*s\n", line == found->text ? "" : "                     ",
               (int)strcspn(line, "\n"), line);
    }
    if (found->cure[0] != '\0') {
        printf("%20s  -> %s\n", "", found->cure);
    }
}

static int run(const void *raw_values, int operand_count, char **operands)
{
    const doctor_values *values = raw_values;
    (void)operand_count;
    (void)operands;
    tt_machine machine;
    tt_machine_read(&machine);
    json_t *array = values->is_json ? json_array() : NULL;
    bool has_failed = false;
    for (size_t i = 0; i < TT_ARRAY_COUNT(checks); i++) {
        finding found = {.verdict = VERDICT_OK};
        checks[i].run(&machine, &found);
        has_failed = has_failed || found.verdict == VERDICT_FAIL;
        print(array, checks[i].name, &found);
    }
    if (array != NULL) {
        (void)json_dumpf(array, stdout, JSON_INDENT(2));
        fputc('\n', stdout);
        json_decref(array);
    }
    return has_failed ? 1 : 0;
}

static const tt_command_note environment[] = {
    {"TUTTI_*", "Checked by the code that tutti_init runs."},
    {NULL, NULL},
};

static const tt_command_note exit_status[] = {
    {"0", "No check failed; some may warn."},
    {"1", "At least one failed."},
    {"2", "Wrong usage."},
    {NULL, NULL},
};

static const tt_command_note examples[] = {
    {"tutti doctor", "Problems of this machine, and their cures:"},
    {"TUTTI_RING=3000 tutti doctor", "Would this value be accepted?"},
    {"tutti run -H node1:1,node2:1 tutti doctor", "On every host:"},
    {NULL, NULL},
};

const tt_command tt_command_doctor = {
    .name = "doctor",
    .summary = "Check this machine and environment; name a cure for every problem.",
    .operands = "",
    .description = "Every check ends in ok, warn or fail. The exit code is 1 if one failed: jobs "
                   "will not run well, or not at all, until it is cured.",
    .options = options,
    .option_count = TT_ARRAY_COUNT(options),
    .values_bytes = sizeof(doctor_values),
    .environment = environment,
    .exit_status = exit_status,
    .examples = examples,
    .run = run,
};
