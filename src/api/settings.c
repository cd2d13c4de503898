/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c - the table of TUTTI_* variables a context reads. */
#include <string.h>

#include "aggregate/registry.h"
#include "api/api.h"
#include "base/base.h"
#include "base/log.h"
#include "codec/codec.h"
#include "negotiate/negotiate.h"
#include "platform/platform.h"
#include "transport/registry.h"

enum { RAILS_MAX = 1024, GROUPS_MAX = 65536, FRAME_GRAIN_BYTES = 64 };
_Static_assert(TT_HANDS_MAX == 64, "the texts of the table have this number");

static const char *const control_names[] = {"auto", "coordinator", "bitvector",
                                            "plan", "original",    NULL};
static const char *const sum_names[] = {"allreduce", "server", NULL}; /* tt_rule_sum */
static const char *const schedule_names[] = {"auto", "off", "fifo", "priority", NULL};
static const char *const integrity_names[] = {"crc", "none", "aead", NULL};

static const char *const control_transport_names[] = {"auto", "mpi", NULL};

static bool is_auto_or_count(const char *value, int64_t minimum, int64_t maximum)
{
    int64_t count;
    return strcmp(value, "auto") == 0 ||
           (tt_config_parse_int(value, &count) && count >= minimum && count <= maximum);
}

static bool is_thread_count(const char *value)
{
    return is_auto_or_count(value, 1, TT_HANDS_MAX);
}

static bool is_rail_count(const char *value)
{
    return is_auto_or_count(value, 1, RAILS_MAX);
}

static bool is_group_count(const char *value)
{
    return is_auto_or_count(value, 0, GROUPS_MAX);
}

static bool is_algorithm(const char *value)
{
    return tt_algorithm_find(value) != NULL;
}

static void list_algorithms(tt_text *text)
{
    for (size_t i = 0; tt_algorithm_at(i) != NULL; i++) {
        tt_text_add(text, "%s%s", i == 0 ? "one of " : ", ", tt_algorithm_at(i)->name);
    }
}

static bool is_frame_length(const char *value)
{
    uint64_t bytes;
    return tt_config_parse_bytes(value, &bytes) && bytes % FRAME_GRAIN_BYTES == 0;
}

static bool is_power_of_two(const char *value)
{
    uint64_t bytes;
    return tt_config_parse_bytes(value, &bytes) && (bytes & (bytes - 1)) == 0;
}

static const tt_config_entry entries[] = {
    {.name = "TRANSPORT",
     .kind = TT_CONFIG_STRING,
     .fallback = "auto",
     .unit = "",
     .help = "how ranks are connected: auto (shared memory inside a host, TCP between hosts), shm "
             "(shared memory or fail), tcp, or the name of a plugin: ucx",
     .offset = offsetof(tt_settings, transport_name),
     .accepted = "auto, shm, tcp, or the name of a plugin"},
    {.name = "INTEGRITY",
     .kind = TT_CONFIG_ENUM,
     .fallback = "crc",
     .unit = "",
     .help = "payloads over TCP: checksum, nothing, or encrypted and authenticated",
     .offset = offsetof(tt_settings, integrity),
     .names = integrity_names},
    {.name = "ENGINE",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "outside engine for collectives, by a plugin: mpi, or another name; empty: none",
     .offset = offsetof(tt_settings, engine),
     .accepted = "mpi, or the name of a plugin"},
    {.name = "CONTROL_TRANSPORT",
     .kind = TT_CONFIG_ENUM,
     .fallback = "auto",
     .unit = "",
     .help = "transport for what an engine does not carry: auto (as TUTTI_TRANSPORT), or mpi: "
             "messages of TUTTI_ENGINE=mpi, polled ever less often while none arrives",
     .offset = offsetof(tt_settings, control_transport),
     .names = control_transport_names},
    {.name = "PLUGIN_PATH",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "folders to search for plugins first, separated by colons",
     .offset = offsetof(tt_settings, plugin_path),
     .accepted = "folders, separated by colons"},
    {.name = "LOG",
     .kind = TT_CONFIG_ENUM,
     .fallback = "warn",
     .unit = "",
     .help = "what is logged",
     .offset = offsetof(tt_settings, log_level),
     .names = tt_log_level_names},
    {.name = "ALGORITHM",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "algorithm to use wherever it fits; empty: by size and placement",
     .offset = offsetof(tt_settings, algorithm),
     .accepts = is_algorithm,
     .list_accepted = list_algorithms},
    {.name = "COSTS",
     .kind = TT_CONFIG_STRING,
     .fallback = "auto",
     .unit = "",
     .help =
         "table of costs that rank 0 sends to all: a file, none, or auto (measured once, cached)",
     .offset = offsetof(tt_settings, costs),
     .accepted = "auto, none, or a file that tutti info --costs printed"},
    {.name = "SEGMENT",
     .kind = TT_CONFIG_BYTES,
     .fallback = "256K",
     .unit = "",
     .help = "longest frame: the unit of pipelining and of preemption",
     .offset = offsetof(tt_settings, segment_bytes),
     .minimum = 64,
     .maximum = 512 * 1024,
     .accepts = is_frame_length,
     .accepted = "a multiple of 64"},
    {.name = "BACKLOG",
     .kind = TT_CONFIG_BYTES,
     .fallback = "0",
     .unit = "",
     .help = "bytes of a TCP link in the kernel, where nothing overtakes them; 0: by its delay; "
             "above 16M: no limit",
     .offset = offsetof(tt_settings, backlog_bytes)},
    {.name = "EAGER",
     .kind = TT_CONFIG_BYTES,
     .fallback = "4K",
     .unit = "",
     .help = "frames up to this size are sent without a grant",
     .offset = offsetof(tt_settings, eager_bytes),
     .minimum = 64,
     .maximum = 16 * 1024},
    {.name = "RING",
     .kind = TT_CONFIG_BYTES,
     .fallback = "128K",
     .unit = "",
     .help = "shared memory between each pair of ranks of a host; a power of two",
     .offset = offsetof(tt_settings, ring_bytes),
     .minimum = 1024,
     .maximum = 64 * 1024 * 1024,
     .accepts = is_power_of_two,
     .accepted = "a power of two"},
    {.name = "ARENA",
     .kind = TT_CONFIG_BYTES,
     .fallback = "0",
     .unit = "",
     .help = "address space for tutti_alloc; 0: the host's memory",
     .offset = offsetof(tt_settings, arena_bytes)},
    {.name = "TIMEOUT",
     .kind = TT_CONFIG_SECONDS,
     .fallback = "30min",
     .unit = "",
     .help = "a call that takes longer fails; 0: never",
     .offset = offsetof(tt_settings, timeout_ns)},
    {.name = "STALL_WARNING",
     .kind = TT_CONFIG_SECONDS,
     .fallback = "30",
     .unit = "",
     .help = "a call that waits this long is reported, with the missing ranks",
     .offset = offsetof(tt_settings, stall_ns)},
    {.name = "START_TIMEOUT",
     .kind = TT_CONFIG_SECONDS,
     .fallback = "60",
     .unit = "",
     .help = "how long tutti_init waits for the other ranks",
     .offset = offsetof(tt_settings, start_timeout_ns)},
    {.name = "GOODBYE",
     .kind = TT_CONFIG_SECONDS,
     .fallback = "2",
     .unit = "",
     .help = "how long tutti_shutdown waits for its last frames to be sent",
     .offset = offsetof(tt_settings, goodbye_ns)},
    {.name = "KEEPALIVE",
     .kind = TT_CONFIG_SECONDS,
     .fallback = "30",
     .unit = "",
     .help = "a host that vanished is detected after about this time",
     .offset = offsetof(tt_settings, keepalive_ns)},
    {.name = "SPIN",
     .kind = TT_CONFIG_BOOL,
     .fallback = "yes",
     .unit = "",
     .help = "wait by polling for some microseconds, where ranks do not outnumber cores",
     .offset = offsetof(tt_settings, spins)},
    {.name = "THREADS",
     .kind = TT_CONFIG_STRING,
     .fallback = "auto",
     .unit = "",
     .help = "threads of a rank that share its long sums and encryption: a number, or auto (its "
             "share of the host's cores, at most 4)",
     .offset = offsetof(tt_settings, threads),
     .accepts = is_thread_count,
     .accepted = "auto, or a number from 1 to 64"},
    {.name = "SOCKETS",
     .kind = TT_CONFIG_INT,
     .fallback = "1",
     .unit = "",
     .help =
         "connections per direction to each rank of another host, for networks that limit one flow",
     .offset = offsetof(tt_settings, sockets),
     .minimum = 1,
     .maximum = TT_STREAMS_MAX},
    {.name = "CONGESTION",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help =
         "congestion control of connections to other hosts, by the kernel's name: cubic; empty: "
         "the system's",
     .offset = offsetof(tt_settings, congestion),
     .accepted = "a name in /proc/sys/net/ipv4/tcp_available_congestion_control"},
    {.name = "RAILS",
     .kind = TT_CONFIG_STRING,
     .fallback = "auto",
     .unit = "",
     .help = "ranks per host that drive network cards in a hierarchical all-reduce, at most: a "
             "number, or auto (by cards and cores)",
     .offset = offsetof(tt_settings, rails),
     .accepts = is_rail_count,
     .accepted = "auto, or a number from 1 to 1024"},
    {.name = "CONTROL",
     .kind = TT_CONFIG_ENUM,
     .fallback = "auto",
     .unit = "",
     .help = "highest negotiation mode allowed for named calls; auto: all; original: Horovod's "
             "cycles, for comparison",
     .offset = offsetof(tt_settings, control),
     .names = control_names},
    {.name = "CACHE_CAPACITY",
     .kind = TT_CONFIG_INT,
     .fallback = "1024",
     .unit = "names",
     .help = "named calls cached per process set; 0: none",
     .offset = offsetof(tt_settings, cache_capacity),
     .maximum = 65535},
    {.name = "STEPS_TO_PLAN",
     .kind = TT_CONFIG_INT,
     .fallback = "3",
     .unit = "steps",
     .help = "equal steps until a named call needs no negotiation",
     .offset = offsetof(tt_settings, steps_to_plan),
     .minimum = 1,
     .maximum = 1000000},
    {.name = "CYCLE",
     .kind = TT_CONFIG_SECONDS,
     .fallback = "1ms",
     .unit = "",
     .help = "CONTROL=original: time between gathers",
     .offset = offsetof(tt_settings, cycle_ns)},
    {.name = "STALL_FAILURE",
     .kind = TT_CONFIG_SECONDS,
     .fallback = "0",
     .unit = "",
     .help = "a named call that some rank does not make for this long fails on all; 0: never",
     .offset = offsetof(tt_settings, stall_fail_ns)},
    {.name = "FUSE",
     .kind = TT_CONFIG_BYTES,
     .fallback = "64K",
     .unit = "",
     .help = "named all-reduces up to this size may be fused, over an engine three quarters of it; "
             "0: none; CONTROL=original: 64M unless set",
     .offset = offsetof(tt_settings, fuse_bytes),
     .maximum = 64 * 1024 * 1024},
    {.name = "FUSE_BATCH",
     .kind = TT_CONFIG_BYTES,
     .fallback = "2M",
     .unit = "",
     .help = "largest fused exchange; CONTROL=original: 64M unless set",
     .offset = offsetof(tt_settings, bundle_bytes),
     .maximum = 1024 * 1024 * 1024},
    {.name = "GROUPS",
     .kind = TT_CONFIG_STRING,
     .fallback = "0",
     .unit = "",
     .help = "make this many groups of a step's named all-reduces, each one request; auto: by size "
             "and readiness; 0: none",
     .offset = offsetof(tt_settings, groups),
     .accepts = is_group_count,
     .accepted = "auto, or a number from 0 to 65536"},
    {.name = "FUSE_WAIT",
     .kind = TT_CONFIG_SECONDS,
     .fallback = "0.05",
     .unit = "",
     .help = "how long planned tensors wait for those they are fused with before they start alone; "
             "groups made by TUTTI_GROUPS wait two steps longer",
     .offset = offsetof(tt_settings, late_ns)},
    {.name = "SCHEDULE",
     .kind = TT_CONFIG_ENUM,
     .fallback = "auto",
     .unit = "",
     .help = "order of calls: auto (by priority where it helps), off (as called), fifo (as called, "
             "under credit), priority (always)",
     .offset = offsetof(tt_settings, schedule),
     .names = schedule_names},
    {.name = "CREDIT",
     .kind = TT_CONFIG_BYTES,
     .fallback = "0",
     .unit = "",
     .help = "bytes of gradients in flight: a call starts while credit is left; 0: no limit",
     .offset = offsetof(tt_settings, credit_bytes)},
    {.name = "CHUNK",
     .kind = TT_CONFIG_BYTES,
     .fallback = "0",
     .unit = "",
     .help = "pieces that tensors are cut into, which others can overtake; 0: TUTTI_SEGMENT",
     .offset = offsetof(tt_settings, chunk_bytes),
     .maximum = 512 * 1024,
     .accepts = is_frame_length,
     .accepted = "a multiple of 64"},
    {.name = "ORDER",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "file of `tutti schedule -o` with priorities of named calls; rank 0's file counts",
     .offset = offsetof(tt_settings, order),
     .accepted = "a file of tutti schedule -o"},
    {.name = "TUNE",
     .kind = TT_CONFIG_BOOL,
     .fallback = "no",
     .unit = "",
     .help =
         "find chunk, credit and fusion threshold while the job runs; the program calls tutti_step",
     .offset = offsetof(tt_settings, tunes)},
    {.name = "PROFILE",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "file in which rank 0 keeps what tuning found, for the next run to start from",
     .offset = offsetof(tt_settings, profile),
     .accepted = "a file that can be written"},
    {.name = "CODEC",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "codec of gradients that no rule of TUTTI_RULES is about; rank 0's counts",
     .offset = offsetof(tt_settings, codec),
     .accepted = "a codec of tutti codec --list: int8:block=512, or none@0,int8@500"},
    {.name = "CODEC_MIN",
     .kind = TT_CONFIG_BYTES,
     .fallback = "64K",
     .unit = "",
     .help = "tensors up to this size get no codec",
     .offset = offsetof(tt_settings, codec_min_bytes)},
    {.name = "RULES",
     .kind = TT_CONFIG_STRING,
     .fallback = "",
     .unit = "",
     .help = "file of rules, such as name=*.bias codec=none: which codec a tensor gets; rank 0's "
             "file counts",
     .offset = offsetof(tt_settings, rules),
     .accepted = "a file of rules"},
    {.name = "SUM",
     .kind = TT_CONFIG_ENUM,
     .fallback = "allreduce",
     .unit = "",
     .help = "who sums named all-reduces that no rule of TUTTI_RULES is about: allreduce (the "
             "workers), server (servers, and workers as far as they own parts)",
     .offset = offsetof(tt_settings, sum),
     .names = sum_names},
};

const tt_config_table tt_settings_table = {.entries = entries,
                                           .entry_count = TT_ARRAY_COUNT(entries)};

/* Size of Horovod's fusion buffer before it had a response cache. */
enum { ORIGINAL_FUSE_BYTES = 64 * 1024 * 1024 };

static bool is_set(const tt_config_source *source, const char *name)
{
    const char *value = source->lookup(source->user, name);
    return value != NULL && value[0] != 0;
}

/* Settings derived from others, unless `source` sets them. */
static void fit(tt_settings *settings, const tt_config_source *source)
{
    if (settings->chunk_bytes > 0) {
        settings->segment_bytes = settings->chunk_bytes;
    }
    if (settings->control != TT_NEGOTIATE_ORIGINAL) {
        return;
    }
    if (!is_set(source, "TUTTI_FUSE")) {
        settings->fuse_bytes = ORIGINAL_FUSE_BYTES;
    }
    if (!is_set(source, "TUTTI_FUSE_BATCH")) {
        settings->bundle_bytes = ORIGINAL_FUSE_BYTES;
    }
}

/* TUTTI_CODEC alone; the file of rules is rank 0's to read. */
static tt_status check_codec(const tt_settings *settings, tt_text *why)
{
    const tt_rules_source source = {.text = "", .text_name = "", .codec = settings->codec};
    tt_rules *rules = NULL;
    const tt_status status = tt_rules_create(&source, &tt_allocator_default, &rules, why);
    tt_rules_destroy(rules);
    return status;
}

tt_status tt_settings_check(const tt_settings *settings, tt_text *why)
{
    int64_t groups;
    const bool has_groups = !tt_config_parse_int(settings->groups, &groups) || groups > 0;
    if (has_groups && settings->control == TT_NEGOTIATE_PLAN) {
        tt_text_add(why,
                    "TUTTI_CONTROL=plan and TUTTI_GROUPS=%.64s exclude each other: a plan sends no "
                    "requests that groups could reduce; leave out one of them",
                    settings->groups);
        return TT_ERR_BAD_CONFIG;
    }
    return check_codec(settings, why);
}

tt_status tt_settings_load(const tt_config_source *source, tt_settings *settings, tt_text *why)
{
    TT_TRY(tt_config_load(&tt_settings_table, source, settings, why));
    fit(settings, source);
    return tt_settings_check(settings, why);
}

const char *tt_settings_transport_name(const tt_settings *settings, tt_text *why)
{
    if (settings->control_transport == TT_CONTROL_TRANSPORT_AUTO) {
        return settings->transport_name;
    }
    if (strncmp(settings->engine, "mpi", 3) != 0) {
        tt_text_add(why, "TUTTI_CONTROL_TRANSPORT=mpi needs TUTTI_ENGINE=mpi; set both or neither");
        return NULL;
    }
    return settings->engine;
}
