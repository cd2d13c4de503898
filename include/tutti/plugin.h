/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h - the interface of shared objects that are an engine or a transport of Tutti.
 *
 * A plugin is a file tutti-<name>.so that exports one object, `tutti_plugin_1`. It is loaded when
 * the user names it (TUTTI_ENGINE=<name>, TUTTI_TRANSPORT=<name>) and its ABI number matches.
 * docs/plugins.md is the guide.
 *
 *   An engine runs whole collectives with a library of the site (MPI; NCCL). Tutti still decides
 *   what runs when: it launches an op only after every member of the process set has made the same
 *   call, and launches ops of one set in the same order on every member.
 *
 *   A transport moves frames between two ranks; Tutti's own algorithms run above it.
 *
 * Versions.  TUTTI_PLUGIN_ABI changes only if a struct here changes its meaning. Structs begin with
 *            their size and only grow at the end. A plugin's tables must be at least as long as
 *            those of the Tutti that loads it; in structs that Tutti passes to a plugin, members
 *            beyond struct_bytes do not exist. Unknown flags are refused.
 * Threads.   All functions of one engine or transport are called by one thread at a time, not
 *            always the same one. `thread_level` declares what a library requires of its callers.
 * Errors.    Functions return a tutti_status. Those that have an argument `why`
 *            (TUTTI_PLUGIN_WHY_BYTES) write one line for the user to it, which names the cure.
 */
#ifndef TUTTI_PLUGIN_H
#define TUTTI_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_PLUGIN_ABI 1
#define TUTTI_PLUGIN_SYMBOL "tutti_plugin_1"

enum { TUTTI_PLUGIN_WHY_BYTES = 512, TUTTI_PLUGIN_TAG_BYTES = 8 };

/* Services of Tutti for a plugin; valid as long as the engine or transport opened with it. */
typedef struct tutti_plugin_host {
    size_t struct_bytes;
    int rank, size; /* of the job; -1 where the engine must provide them (`world`) */
    void *user;
    void (*log)(void *user, int level, const char *text); /* 0 error, 1 warning, 2 information */
} tutti_plugin_host;

/* ---- engines -------------------------------------------------------------------------------- */

typedef struct tutti_engine tutti_engine;

typedef enum tutti_thread_level {
    TUTTI_THREAD_PINNED = 0,     /* one fixed thread; refused, for Tutti has no such thread */
    TUTTI_THREAD_SERIALIZED = 1, /* any thread, one at a time */
    TUTTI_THREAD_MULTIPLE = 2,   /* any number of threads */
} tutti_thread_level;

enum {
    TUTTI_ENGINE_SAME_ORDER = 1, /* needs one order of launches in a set; every engine sets it */
    TUTTI_ENGINE_BOOTSTRAPS = 2, /* knows rank and size, and can broadcast before the rendezvous */
};

enum {
    TUTTI_LAUNCH_MAY_BLOCK = 1, /* every member waits, and only for ops of this set */
};

/* Named ops of a set have an order of their own. They are launched as ops of another set with the
 * same members, whose number has this bit; `set_create` is called for it as for any other set, also
 * for the world. If the engine declines that set, Tutti runs the named ops itself. */
#define TUTTI_ENGINE_SET_NAMED UINT32_C(0x80000000)

/* One collective; fields as in tutti_call. Sums are plain sums: Tutti divides and scales. */
typedef struct tutti_engine_op {
    size_t struct_bytes;
    tutti_collective collective;
    tutti_dtype dtype;
    tutti_op op;
    uint32_t set;
    int root;       /* member of the set */
    uint64_t count; /* elements, as in the short forms */
    const void *input;
    void *output; /* may be the input */
    uint32_t flags;
    int priority;
    int device;   /* -1: host memory */
    void *stream; /* of the device, or NULL */
} tutti_engine_op;

typedef struct tutti_engine_ops {
    size_t struct_bytes;
    uint32_t flags;
    tutti_thread_level thread_level;

    /* Start the library. May block until all ranks do the same. */
    int (*open)(const tutti_plugin_host *host, tutti_engine **engine_out, char *why);
    /* Stop it. Every launched op has ended, or was abandoned with `abort`. */
    void (*close)(tutti_engine *engine);
    /* Write the library and its version ("Open MPI 4.1.4") to `text`, of TUTTI_PLUGIN_WHY_BYTES.
     * `engine` is NULL where none is open: `tutti info` lists what is installed. */
    void (*describe)(const tutti_engine *engine, char *text);

    /* Only with BOOTSTRAPS, else NULL. `broadcast` blocks; it copies rank 0's `bytes` to all. */
    int (*world)(const tutti_engine *engine, int *rank_out, int *size_out);
    int (*broadcast)(tutti_engine *engine, void *bytes, size_t count);

    /* 1: can run such an op. Must return the same on every rank: may depend on collective, dtype,
     * op, count, set and device only. Tutti's own algorithms run all other ops. */
    int (*supports)(const tutti_engine *engine, const tutti_engine_op *op);

    /* A process set was created or removed. Called on every rank of the job in the same order; may
     * block until its members do the same. Set 0, the world, exists from the start. NULL:
     * `supports` accepts only ops of the world (0, and 0 with SET_NAMED). */
    int (*set_create)(tutti_engine *engine, uint32_t set, const int *ranks, int rank_count);
    void (*set_remove)(tutti_engine *engine, uint32_t set);

    /* Start an op. TUTTI_OK: it is over. TUTTI_IN_PROGRESS: `test` will return the token. Negative:
     * it did not start. Must not block unless MAY_BLOCK is set. */
    int (*launch)(tutti_engine *engine, const tutti_engine_op *op, uint64_t token);
    /* Return at most `capacity` ops that have ended since the last call: tokens and statuses. */
    int (*test)(tutti_engine *engine, uint64_t *tokens, int *statuses, int capacity);
    /* A descriptor, always the same, that is readable as long as `test` has ops to return: Tutti
     * sleeps on it. -1, or NULL: Tutti polls `test`. */
    int (*descriptor)(const tutti_engine *engine);
    /* A rank died or the job must end: Tutti waits for no launched op any more. Buffers of ops that
     * have not ended may still be written to. NULL: nothing to do. */
    void (*abort)(tutti_engine *engine);
} tutti_engine_ops;

/* ---- transports ----------------------------------------------------------------------------- */

typedef struct tutti_transport tutti_transport; /* one per context */
typedef struct tutti_link tutti_link;           /* the path to one peer */

enum {
    /* Not used yet: today Tutti polls every transport often and relies on no transport's order. */
    TUTTI_TRANSPORT_POLLED = 1,  /* `poll` finds work without a system call */
    TUTTI_TRANSPORT_ORDERED = 2, /* frames of one link never overtake each other */
};

enum { TUTTI_TRANSPORT_ADDRESS_BYTES_MAX = 4096, TUTTI_FRAME_HEAD_BYTES = 48 };

/* A head of 48 bytes, copied at once, and a payload that is borrowed until `sent`. */
typedef struct tutti_frame {
    size_t struct_bytes;
    const void *head;
    const void *payload;
    uint32_t payload_bytes;
    int32_t urgency; /* larger first */
    uint64_t token;
} tutti_frame;

/* Callbacks from a transport to Tutti, from inside `poll` only; never nested. */
typedef struct tutti_link_upcalls {
    size_t struct_bytes;
    /* A frame has arrived. Payloads of up to inline_bytes_max are at `payload`. For longer ones
     * `payload` is NULL and the callback returns where to store them, and `stored` follows; or NULL
     * to drop them. */
    void *(*frame)(void *user, const void *head, const void *payload, uint32_t payload_bytes);
    void (*stored)(void *user, const void *head);
    void (*sent)(void *user, uint64_t token);
    uint32_t inline_bytes_max;
} tutti_link_upcalls;

/* Where a peer is. */
typedef struct tutti_link_place {
    size_t struct_bytes;
    int peer;
    int is_local; /* 1: on this host */
    const void *address;
    size_t address_bytes;
} tutti_link_place;

typedef struct tutti_transport_ops {
    size_t struct_bytes;
    uint32_t flags;

    int (*open)(const tutti_plugin_host *host, tutti_transport **transport_out, char *why);
    void (*close)(tutti_transport *transport);
    void (*describe)(const tutti_transport *transport, char *text); /* as an engine's */

    /* The address by which peers find this rank; Tutti sends it to them, authenticated. */
    int (*address)(tutti_transport *transport, void *bytes, size_t *byte_count);
    int (*connect)(tutti_transport *transport, const tutti_link_place *place,
                   tutti_link **link_out);
    void (*disconnect)(tutti_link *link);
    /* Before the first poll. */
    void (*attach)(tutti_link *link, const tutti_link_upcalls *upcalls, void *user);

    /* TUTTI_OK: payload copied or sent, no `sent` follows. TUTTI_IN_PROGRESS: borrowed until
     * `sent`. Never blocks, never makes an upcall. */
    int (*send)(tutti_link *link, const tutti_frame *frame);
    /* Return the payload of `token` now; no `sent` follows. The frame may or may not arrive. */
    void (*recall)(tutti_link *link, uint64_t token);
    /* Stop writing to the memory given for the frame that is arriving: drop the rest of it. */
    void (*discard)(tutti_link *link);

    /* Make progress on all links without blocking; 1: something moved. */
    int (*poll)(tutti_transport *transport);
    /* Descriptor that is readable when poll has work; -1: none, Tutti polls. `arm` is called before
     * Tutti sleeps on it: returns 0 armed, 1 there is work already. */
    int (*descriptor)(const tutti_transport *transport);
    int (*arm)(tutti_transport *transport);

    /* 1: every frame passed to `send` has left. */
    int (*is_idle)(const tutti_link *link);
    /* 0 up; 1 broken, with the cause in `why`. */
    int (*state)(const tutti_link *link, char *why);

    /* Remote access to registered memory, for a later version; NULL: none. */
    int (*register_memory)(tutti_transport *transport, void *memory, size_t bytes, void **key_out);
    void (*unregister_memory)(tutti_transport *transport, void *key);
    int (*put)(tutti_link *link, const tutti_frame *frame, uint64_t remote, const void *key);
} tutti_transport_ops;

/* ---- the object a plugin exports ------------------------------------------------------------ */

typedef struct tutti_plugin {
    uint32_t abi; /* TUTTI_PLUGIN_ABI */
    uint32_t reserved;
    size_t struct_bytes;
    const char *name;                 /* as in its file name */
    char tag[TUTTI_PLUGIN_TAG_BYTES]; /* compared by ranks when they join; need not end in NUL */
    const char *summary;              /* one line */
    const char *package;              /* what a user must install for it */
    const tutti_engine_ops *engine;   /* or NULL */
    const tutti_transport_ops *transport; /* or NULL */
} tutti_plugin;

/* TUTTI_PLUGIN_DEFINE = {.abi = TUTTI_PLUGIN_ABI, ...}; */
#define TUTTI_PLUGIN_DEFINE                                                          \
    extern __attribute__((visibility("default"))) const tutti_plugin tutti_plugin_1; \
    const tutti_plugin tutti_plugin_1

#ifdef __cplusplus
}
#endif

#endif
