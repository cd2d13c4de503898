/* SPDX-License-Identifier: Apache-2.0
 *
 * command_run.c - `tutti run`: options in, a tt_launcher out. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/buffer.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/run/allocation.h"
#include "cli/run/as_horovod.h"
#include "cli/run/launcher.h"
#include "cli/run/wire.h"

enum { EXIT_USAGE = 2, HOSTFILE_BYTES_MAX = 16 << 20 };

typedef struct run_values {
    int64_t rank_count;
    const char *hosts;
    const char *hostfile;
    const char *per_host;
    int64_t server_count;
    const char *server_hosts;
    int64_t keep_min;
    const char *rsh;
    const char *remote_tutti;
    const char *interface;
    int bind;
    tt_option_list variables;
    bool has_no_prefix;
    const char *output_folder;
    const char *folder;
    double start_timeout_s;
    double grace_s;
    bool wants_stdin;
    bool is_quiet;
    bool is_as_horovod;
} run_values;

#define AT(member) offsetof(run_values, member)

static const tt_option options[] = {
    {'n', "ranks", TT_OPTION_INT, AT(rank_count), "N",
     "ranks to start; default: all slots of the hosts, or 1", NULL, NULL, "-np --np --num-proc", 1,
     TT_WIRE_RANK_COUNT_MAX},
    {'H', "hosts", TT_OPTION_STRING, AT(hosts), "HOST:SLOTS,...",
     "hosts to run on; default: the nodes of the batch job (Slurm, PBS, LSF), else this host", NULL,
     NULL, "--host", 0, 0},
    {'\0', "hostfile", TT_OPTION_STRING, AT(hostfile), "FILE",
     "file with a host per line: 'host', 'host:4' or 'host slots=4 max_slots=8'", NULL, NULL,
     "-hostfile --host-file -machinefile", 0, 0},
    {'\0', "nproc-per-node", TT_OPTION_STRING, AT(per_host), "N|auto",
     "slots of a host given without them; auto: one for each core of this host", NULL, NULL,
     "--nproc_per_node --slots-per-host -ppn", 0, 0},
    {'\0', "servers", TT_OPTION_INT, AT(server_count), "K",
     "also start K processes of 'tutti server', behind the ranks (TUTTI_SERVERS=K)", "0", NULL,
     NULL, 0, TT_WIRE_LOCAL_COUNT_MAX},
    {'\0', "server-hosts", TT_OPTION_STRING, AT(server_hosts), "HOST[:N],...",
     "hosts of the servers, evenly; default: the hosts of the job, one server each in turn", NULL,
     NULL, NULL, 0, 0},
    {'\0', "keep-going", TT_OPTION_MAYBE, AT(keep_min), "MIN",
     "when a rank fails, name it and let the others run while at least MIN (1) have not failed",
     NULL, NULL, NULL, 1, TT_WIRE_RANK_COUNT_MAX},
    {'\0', "rsh", TT_OPTION_STRING, AT(rsh), "COMMAND", "remote shell", "ssh -x -o BatchMode=yes",
     NULL, NULL, 0, 0},
    {'\0', "remote-tutti", TT_OPTION_STRING, AT(remote_tutti), "PATH",
     "path of this program on remote hosts; default: as here", NULL, NULL, NULL, 0, 0},
    {'\0', "interface", TT_OPTION_STRING, AT(interface), "NAME",
     "network interface for rank 0 to listen on; default: the one that leads to the peers", NULL,
     NULL, "--network-interface --network-interfaces", 0, 0},
    {'\0', "bind", TT_OPTION_CHOICE, AT(bind), NULL, "bind each rank to one core, round-robin",
     "none", "none|core", "--bind-to -bind-to", 0, 0},
    {'x', "env", TT_OPTION_LIST, AT(variables), "NAME[=VALUE]",
     "set a variable for the ranks, or pass on this shell's", NULL, NULL, NULL, 0, 0},
    {'\0', "chdir", TT_OPTION_STRING, AT(folder), "FOLDER",
     "working folder of the ranks, on every host; default: this one", NULL, NULL,
     "--wdir -wdir --wd -wd", 0, 0},
    {'\0', "no-prefix", TT_OPTION_FLAG, AT(has_no_prefix), NULL,
     "show output without the rank in front of each line", NULL, NULL, NULL, 0, 0},
    {'\0', "output-dir", TT_OPTION_STRING, AT(output_folder), "FOLDER",
     "also write FOLDER/rank.N/stdout and stderr; of servers, FOLDER/server.N", NULL, NULL,
     "--output-filename --log-dir --log_dir", 0, 0},
    {'\0', "timeout-start", TT_OPTION_SECONDS, AT(start_timeout_s), "SECONDS",
     "longest wait for all hosts to answer", "60", NULL, "--start-timeout", 0, 0},
    {'\0', "grace", TT_OPTION_SECONDS, AT(grace_s), "SECONDS",
     "after a failure, time from SIGTERM to SIGKILL of the other ranks", "1", NULL, NULL, 0, 0},
    {'\0', "stdin", TT_OPTION_FLAG, AT(wants_stdin), NULL, "connect standard input to rank 0", NULL,
     NULL, NULL, 0, 0},
    {'\0', "as-horovod", TT_OPTION_FLAG, AT(is_as_horovod), NULL,
     "make Python's 'import horovod' load Tutti, and set HOROVOD_RANK and the like", NULL, NULL,
     NULL, 0, 0},
    {'q', "quiet", TT_OPTION_FLAG, AT(is_quiet), NULL, "print nothing unless something fails", NULL,
     NULL, NULL, 0, 0},
};

static int complain(const char *what)
{
    fprintf(stderr, "tutti run: %s\n", what);
    return EXIT_USAGE;
}

/* The whole file, NUL-terminated; NULL with a message. */
static char *read_file(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fprintf(stderr, "tutti run: cannot read %s: %s\n", path, strerror(errno));
        return NULL;
    }
    tt_buffer text = {0};
    ssize_t bytes;
    while ((bytes = read(fd, tt_buffer_reserve(&text, 65536), 65535)) > 0 &&
           tt_buffer_bytes(&text) < HOSTFILE_BYTES_MAX) {
        tt_buffer_fill(&text, (size_t)bytes);
    }
    close(fd);
    if (bytes != 0) {
        fprintf(stderr, "tutti run: cannot read %s: %s\n", path,
                bytes < 0 ? strerror(errno) : "too large for a hostfile");
        tt_buffer_fini(&text);
        return NULL;
    }
    tt_buffer_append(&text, "", 1);
    return (char *)text.memory;
}

static const tt_allocation_source own_source = {tt_environment_get, read_file};

static bool read_hosts(const run_values *values, tt_hosts *hosts, tt_allocation *allocation_out)
{
    char error[512] = "";
    tt_status status = TT_OK;
    *allocation_out = (tt_allocation){NULL, ""};
    if (values->hosts == NULL && values->hostfile == NULL) {
        status = tt_allocation_find(&own_source, hosts, allocation_out, error, sizeof(error));
    }
    if (values->hosts != NULL) {
        status = tt_hosts_parse_list(hosts, values->hosts, error, sizeof(error));
    }
    if (values->hostfile != NULL && status == TT_OK) {
        char *text = read_file(values->hostfile);
        if (text == NULL) {
            return false;
        }
        status = tt_hosts_parse_file(hosts, values->hostfile, text, error, sizeof(error));
        free(text);
    }
    if (status != TT_OK) {
        fprintf(stderr, "tutti run: %s\n", error);
    }
    return status == TT_OK;
}

static int own_core_count(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* 0: not given; -1: not a number. */
static int per_host_count(const char *text)
{
    if (text == NULL) {
        return 0;
    }
    if (strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0) {
        return own_core_count();
    }
    char *end;
    const long count = strtol(text, &end, 10);
    return *end == '\0' && count >= 1 && count <= TT_HOST_SLOTS_MAX ? (int)count : -1;
}

/* `is_allocation`: the slots come from a batch system; more ranks than slots are allowed. */
static bool choose_ranks(const run_values *values, tt_hosts *hosts, bool is_allocation,
                         int *rank_count_out)
{
    if (is_allocation && values->rank_count > tt_hosts_slots(hosts)) {
        tt_allocation_widen(hosts, (int)values->rank_count);
    }
    const int slots = tt_hosts_slots(hosts);
    *rank_count_out = (int)values->rank_count;
    if (hosts->count == 0) {
        const int per_host = hosts->slots_default > 0 ? hosts->slots_default : 1;
        *rank_count_out = values->rank_count > 0 ? (int)values->rank_count : per_host;
        hosts->slots_default = *rank_count_out;
        if (*rank_count_out > TT_WIRE_LOCAL_COUNT_MAX) {
            fprintf(stderr, "tutti run: %d ranks are too many for one host (at most %d)\n",
                    *rank_count_out, TT_WIRE_LOCAL_COUNT_MAX);
            return false;
        }
        return tt_hosts_parse_list(hosts, "localhost", NULL, 0) == TT_OK;
    }
    if (values->rank_count == 0) {
        *rank_count_out = slots;
    }
    if (*rank_count_out > slots) {
        fprintf(stderr,
                "tutti run: %d ranks do not fit the hosts' %d slots; raise the slots "
                "(host:SLOTS) or lower -n\n",
                *rank_count_out, slots);
        return false;
    }
    return true;
}

/* Where servers run: each host as often as --server-hosts has it, or once; more if they need it. */
static bool read_server_hosts(const run_values *values, const tt_hosts *hosts, tt_hosts *servers)
{
    char error[512] = "";
    tt_status status = TT_OK;
    if (values->server_hosts != NULL) {
        status = tt_hosts_parse_list(servers, values->server_hosts, error, sizeof(error));
    }
    for (size_t i = 0; values->server_hosts == NULL && i < hosts->count; i++) {
        status = tt_hosts_add(servers, hosts->items[i].name, 1, error, sizeof(error)) == TT_OK
                     ? status
                     : TT_ERR_BAD_ARGUMENT;
    }
    if (status != TT_OK) {
        fprintf(stderr, "tutti run: --server-hosts: %s\n", error);
        return false;
    }
    tt_allocation_widen(servers, (int)values->server_count);
    return true;
}

static void tell_allocation(const tt_allocation *allocation, const tt_hosts *hosts, int rank_count)
{
    size_t used = 0;
    for (int placed = 0; used < hosts->count && placed < rank_count; used++) {
        placed += hosts->items[used].slots;
    }
    fprintf(stderr,
            "tutti run: %d rank%s on %zu of the %zu nodes of %s job %s (-H chooses others)\n",
            rank_count, rank_count == 1 ? "" : "s", used, hosts->count, allocation->system,
            allocation->job);
}

/* Warn about names that are not set in this shell: the ranks would silently lack them. */
static void tell_unset(const tt_option_list *variables)
{
    for (size_t i = 0; i < variables->count; i++) {
        const char *name = variables->items[i];
        if (strchr(name, '=') == NULL && tt_environment_get(name) == NULL) {
            fprintf(stderr,
                    "tutti run: -x %s: this shell has no such variable, so the ranks get none; "
                    "export it, or give a value: -x %s=VALUE\n",
                    name, name);
        }
    }
}

/* TUTTI_SERVERS of this shell reaches the ranks only by -x: tutti run starts servers itself. */
static void tell_servers(const run_values *values)
{
    const char *count = tt_environment_get("TUTTI_SERVERS");
    bool is_asked = values->server_count > 0 || tt_environment_get("TUTTI_RANK") != NULL;
    for (size_t i = 0; i < values->variables.count; i++) {
        is_asked = is_asked || strncmp(values->variables.items[i], "TUTTI_SERVERS", 13) == 0;
    }
    if (!is_asked && count != NULL && count[0] != '\0' && strcmp(count, "0") != 0) {
        fprintf(stderr,
                "tutti run: TUTTI_SERVERS=%.16s of this shell is not passed on; start servers with "
                "--servers %.16s\n",
                count, count);
    }
}

static int launch(const run_values *values, const tt_hosts *hosts, const tt_hosts *server_hosts,
                  int rank_count, char **program)
{
    tell_unset(&values->variables);
    tell_servers(values);
    tt_option_list variables = values->variables;
    tt_as_horovod disguise = {0};
    if (values->is_as_horovod && !tt_as_horovod_find(&disguise, &variables)) {
        return complain("--as-horovod: Tutti's Python modules were not found beside this program; "
                        "install the wheel (pip install tutti), or run from the source tree");
    }
    const tt_launcher job = {.title = "tutti run",
                             .hosts = hosts,
                             .rank_count = rank_count,
                             .server_hosts = server_hosts,
                             .server_count = (int)values->server_count,
                             .keep_min = (int)values->keep_min,
                             .program = program,
                             .variables = &variables,
                             .rsh = values->rsh,
                             .remote_tutti = values->remote_tutti,
                             .interface = values->interface,
                             .output_folder = values->output_folder,
                             .folder = values->folder,
                             .start_timeout_s = values->start_timeout_s,
                             .grace_s = values->grace_s,
                             .binds_cores = values->bind == 1,
                             .wants_stdin = values->wants_stdin,
                             .has_prefix = !values->has_no_prefix,
                             .is_quiet = values->is_quiet};
    const int code = tt_launcher_run(&job);
    tt_as_horovod_fini(&disguise);
    return code;
}

static int run(const void *raw_values, int operand_count, char **operands)
{
    const run_values *values = raw_values;
    if (operand_count == 0) {
        return complain("no program given; for example: tutti run -n 4 python train.py");
    }
    tt_hosts hosts = {.slots_default = per_host_count(values->per_host)};
    if (hosts.slots_default < 0) {
        return complain("--nproc-per-node needs a number from 1 to 4096, or 'auto'");
    }
    if (values->server_hosts != NULL && values->server_count == 0) {
        return complain("--server-hosts needs the number of servers: --servers K");
    }
    tt_allocation allocation;
    tt_hosts server_hosts = {0};
    int rank_count;
    int code = EXIT_USAGE;
    if (read_hosts(values, &hosts, &allocation) &&
        choose_ranks(values, &hosts, allocation.system != NULL, &rank_count)) {
        if (allocation.system != NULL && !values->is_quiet) {
            tell_allocation(&allocation, &hosts, rank_count);
        }
        if (values->keep_min > rank_count) {
            fprintf(
                stderr,
                "tutti run: --keep-going=%lld needs as many ranks, and there are %d; lower it\n",
                (long long)values->keep_min, rank_count);
        } else if (read_server_hosts(values, &hosts, &server_hosts)) {
            code = launch(values, &hosts, &server_hosts, rank_count, operands);
        }
    }
    tt_hosts_fini(&hosts);
    tt_hosts_fini(&server_hosts);
    return code;
}

static const tt_command_note environment[] = {
    {"TUTTI_*",
     "Passed on to the ranks on every host, except secrets; tutti-config(1) explains each."},
    {"SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE, SLURM_JOB_CPUS_PER_NODE, SLURM_STEP_NUM_TASKS, "
     "SLURMD_NODENAME",
     "The nodes and slots of a Slurm job, used without -H and --hostfile."},
    {"PBS_NODEFILE", "Likewise of a PBS job: a file with a line for each slot."},
    {"LSB_MCPU_HOSTS", "Likewise of an LSF job: names and slots in turn."},
    {"RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE",
     "Set for the ranks unless -x does, so that torch.distributed's env:// finds its job; GROUP_* "
     "number the hosts."},
    {"MASTER_ADDR, MASTER_PORT",
     "Kept if set; otherwise a free port of rank 0's host, for torch.distributed's store."},
    {"OMP_NUM_THREADS", "Kept if set; otherwise each rank gets its share of the cores."},
    {"PATH, LD_LIBRARY_PATH, PYTHON*, VIRTUAL_ENV, CONDA_*, OMP_*, MKL_*",
     "Passed on to other hosts; name more with -x."},
    {NULL, NULL},
};

static const tt_command_note exit_status[] = {
    {"0", "Every rank ended with 0; with --keep-going at least MIN of them. Servers do not count."},
    {"1", "The job could not be started, or a host was lost."},
    {"2", "Wrong usage."},
    {"126, 127", "The program may not be executed, or does not exist."},
    {"128 + N", "The first rank that failed was killed by signal N; also 128 + 2 after Ctrl-C."},
    {"any other", "The exit code of the first rank that failed."},
    {NULL, NULL},
};

static const tt_command_note examples[] = {
    {"tutti run -n 4 ./train", "Four ranks on this host:"},
    {"tutti run -H node1:8,node2:8 python train.py", "Two hosts over ssh, eight ranks each:"},
    {"tutti run --hostfile hosts --chdir /scratch/run -x DATA=/data ./train",
     "Hosts from a file, in another folder, with a variable:"},
    {"tutti run -n 4 --servers 2 ./train", "Four ranks and, beside them, two servers:"},
    {"tutti run -n 8 --keep-going=4 ./train",
     "Eight ranks, of which up to four may fail before the job does:"},
    {"tutti run --as-horovod -n 4 python train.py", "A script for Horovod, unchanged:"},
    {NULL, NULL},
};

const tt_command tt_command_run = {
    .name = "run",
    .summary = "Start a program as the ranks of one job.",
    .operands = "PROGRAM [ARGUMENT...]",
    .description =
        "Starts PROGRAM once for each rank, on this host or, through a remote shell, on others. "
        "Inside a job of Slurm, PBS or LSF it uses the nodes of that job, unless -H or --hostfile "
        "is given. "
        "Every rank gets its number from TUTTI_RANK, TUTTI_SIZE and similar variables, finds the "
        "others through TUTTI_RENDEZVOUS, and authenticates with a random secret that is passed "
        "as an open descriptor.\n"
        "Each line of output begins with its rank. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 "
        "are passed on; a second SIGINT or SIGTERM kills. When a rank fails, tutti run names it, "
        "stops the others, and returns its exit code (or 128 + signal). No process that the ranks "
        "started outlives the job, even if tutti run itself is killed.\n"
        "With --servers the job has K more processes, behind the ranks; their output begins with "
        "s0, s1 and so on. WORLD_SIZE and other tools' variables count the ranks only. Signals are "
        "not passed on to servers: they end after the last rank, and are stopped if they have not "
        "3 s later. A server that ends before is named; the job goes on, and its exit code does "
        "not depend on servers.\n"
        "With --keep-going a rank that fails is named, and the others go on while at least MIN "
        "have not failed; the last line has the number of failed ranks.",
    .options = options,
    .option_count = TT_ARRAY_COUNT(options),
    .values_bytes = sizeof(run_values),
    .options_first = true,
    .environment = environment,
    .exit_status = exit_status,
    .examples = examples,
    .run = run,
};
