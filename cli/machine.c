/* SPDX-License-Identifier: Apache-2.0
 *
 * machine.c - reads /proc and the limits; tries features that cannot be read. */
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/machine.h"
#include "cli/nodes.h"

static void read_memory(tt_machine *machine)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[256];
    unsigned long long kib;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "MemTotal: %llu", &kib) == 1) {
            machine->memory_bytes = kib << 10;
        } else if (sscanf(line, "MemAvailable: %llu", &kib) == 1) {
            machine->memory_free_bytes = kib << 10;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* Keep the known words of `line`. */
static void pick_features(const char *line, char *features, size_t features_bytes)
{
    static const char *const known[] = {"sse4_2",      "avx",         "f16c",     "fma",
                                        "avx2",        "avx512f",     "avx512bw", "avx512vl",
                                        "avx512_bf16", "avx512_fp16", "amx_tile", "asimd",
                                        "asimdhp",     "bf16",        "sve",      "sve2"};
    for (size_t i = 0; i < TT_ARRAY_COUNT(known); i++) {
        char word[32];
        snprintf(word, sizeof(word), " %s ", known[i]);
        if (strstr(line, word) != NULL) {
            const size_t used = strlen(features);
            snprintf(features + used, features_bytes - used, "%s%s", used > 0 ? " " : "", known[i]);
        }
    }
}

static void read_processor(tt_machine *machine)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[8192];
    while (file != NULL && fgets(line, sizeof(line), file) != NULL && line[0] != '\n') {
        const char *value = strchr(line, ':');
        line[strcspn(line, "\n")] = ' ';
        if (value == NULL) {
            continue;
        }
        if (strncmp(line, "model name", 10) == 0) {
            snprintf(machine->processor, sizeof(machine->processor), "%.120s", value + 2);
        } else if (strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0) {
            pick_features(value, machine->features, sizeof(machine->features));
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

static void read_limits(tt_machine *machine)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        machine->file_limit = limit.rlim_cur;
        machine->file_limit_max = limit.rlim_max;
    }
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
        machine->lock_limit_bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
    }
}

static void read_shm(tt_machine *machine)
{
    struct statvfs status;
    machine->has_shm = statvfs("/dev/shm", &status) == 0 && access("/dev/shm", W_OK) == 0;
    if (machine->has_shm) {
        machine->shm_bytes = (uint64_t)status.f_blocks * status.f_frsize;
        machine->shm_free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
    }
}

/* The word in brackets of "always within_size advise [never] deny force". */
static void read_huge_pages(tt_machine *machine)
{
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
    char line[128] = "";
    if (file == NULL) {
        return;
    }
    if (fgets(line, sizeof(line), file) == NULL ||
        sscanf(line, "%*[^[][%31[^]]", machine->huge_pages) != 1) {
        machine->huge_pages[0] = '\0';
    }
    fclose(file);
}

static bool try_memfd(void)
{
    enum { BYTES = 65536 };
    const int fd = memfd_create("tutti-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return false;
    }
    void *memory = MAP_FAILED;
    if (ftruncate(fd, BYTES) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
        memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (memory == MAP_FAILED) {
        return false;
    }
    memset(memory, 1, BYTES);
    (void)munmap(memory, BYTES);
    return true;
}

static bool try_pidfd(void)
{
    const long fd = syscall(SYS_pidfd_open, getpid(), 0);
    if (fd >= 0) {
        close((int)fd);
    }
    return fd >= 0;
}

void tt_machine_read(tt_machine *machine)
{
    struct utsname name;
    cpu_set_t set;
    memset(machine, 0, sizeof(*machine));
    CPU_ZERO(&set);
    (void)gethostname(machine->host, sizeof(machine->host) - 1);
    if (uname(&name) == 0) {
        snprintf(machine->kernel, sizeof(machine->kernel), "%.60s %.60s %.60s", name.sysname,
                 name.release, name.machine);
    }
    machine->core_count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    machine->allowed_core_count =
        sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : machine->core_count;
    read_memory(machine);
    read_processor(machine);
    read_limits(machine);
    read_shm(machine);
    const tt_nodes nodes = tt_nodes_read(TT_NODES_FOLDER, &set);
    machine->node_count = nodes.count;
    machine->own_node_count = nodes.own_count;
    read_huge_pages(machine);
    machine->has_memfd = try_memfd();
    machine->has_pidfd = try_pidfd();
    machine->has_proc = access("/proc/self/stat", R_OK) == 0;
}

void tt_machine_interfaces(void (*each)(void *user, const char *text), void *user)
{
    struct ifaddrs *interfaces;
    if (getifaddrs(&interfaces) != 0) {
        return;
    }
    for (struct ifaddrs *item = interfaces; item != NULL; item = item->ifa_next) {
        const int family = item->ifa_addr != NULL ? item->ifa_addr->sa_family : AF_UNSPEC;
        char address[NI_MAXHOST];
        char text[NI_MAXHOST + 64];
        const socklen_t bytes =
            family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        if ((family == AF_INET || family == AF_INET6) &&
            getnameinfo(item->ifa_addr, bytes, address, sizeof(address), NULL, 0, NI_NUMERICHOST) ==
                0) {
            snprintf(text, sizeof(text), "%.32s %s%s", item->ifa_name, address,
                     (item->ifa_flags & IFF_UP) != 0 ? "" : " (down)");
            each(user, text);
        }
    }
    freeifaddrs(interfaces);
}
