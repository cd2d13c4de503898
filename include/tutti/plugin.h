/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h - what a shared object provides to be an engine or a transport of Tutti.
 *
 * A plugin is a file tutti-<name>.so that exports one object, `tutti_plugin_1`. It is loaded when a
 * user asks for it by name (TUTTI_ENGINE=<name>, TUTTI_TRANSPORT=<name>), after its ABI number was
 * checked. docs/plugins.md is the guide.
 *
 *   An engine runs whole collectives by a library of the site (MPI; NCCL). Tutti still decides what
 *   runs when: it launches an op only after every member of the process set has asked for the same
 *   op, and launches ops of one set in the same order on every member.
 *
 *   A transport moves frames between two ranks; Tutti's own algorithms run above it.
 *
 * Versions.  TUTTI_PLUGIN_ABI changes only if a struct here changes its meaning. Structs begin with
 *            their size and only grow at the end. A plugin's tables must be at least as long as
 *            those of the Tutti that loads it; in what Tutti gives to a plugin, a member beyond
 *            struct_bytes is not there. Flags that Tutti does not know are refused.
 * Threads.   All functions of one engine or transport are called by one thread at a time, not
 *            always the same one. What a library needs of its callers is said in `thread_level`.
 * Errors.    Functions return a tutti_status and, where they are given `why`
 *            (TUTTI_PLUGIN_WHY_BYTES), write a line for people that names the cure.
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

/* What Tutti offers to a plugin; lives as long as what was opened with it. */
typedef struct tutti_plugin_host {
    size_t struct_bytes;
    int rank, size; /* of the job; -1 where the engine itself is to tell */
    void *user;
    void (*log)(void *user, int level, const char *text); /* 0 error, 1 warning, 2 information */
} tutti_plugin_host;

/* ---- engines -------------------------------------------------------------------------------- */

typedef struct tutti_engine tutti_engine;

typedef enum tutti_thread_level {
    TUTTI_THREAD_PINNED = 0,     /* one thread only; refused, for Tutti has no such thread */
    TUTTI_THREAD_SERIALIZED = 1, /* any thread, one at a time */
    TUTTI_THREAD_MULTIPLE = 2,   /* anything */
} tutti_thread_level;

enum {
    TUTTI_ENGINE_SAME_ORDER = 1, /* needs one order of launches in a set; every engine has it */
    TUTTI_ENGINE_BOOTSTRAPS = 2, /* knows rank and size, and can broadcast before ranks have met */
};

enum {
    TUTTI_LAUNCH_MAY_BLOCK = 1, /* every member waits, for ops of this set and for nothing else */
};

/* Named ops of a set have an order of their own. They come as ops of another set, of the same
 * members, whose number has this bit; `set_create` is told of it like of any other, also for the
 * world. An engine that declines that set leaves named ops to Tutti. */
#define TUTTI_ENGINE_SET_NAMED UINT32_C(0x80000000)

/* One collective, with the meaning of tutti_call. Sums are plain sums: Tutti divides and scales. */
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
    /* End it; every op launched must have landed, or was given up with `abort`. */
    void (*close)(tutti_engine *engine);
    /* "Open MPI 4.1.4": what was found; written to `text`, of TUTTI_PLUGIN_WHY_BYTES. `engine` is
     * NULL where none is open: `tutti info` asks what there is. */
    void (*describe)(const tutti_engine *engine, char *text);

    /* BOOTSTRAPS, else NULL. `broadcast` blocks; `bytes` are rank 0's afterwards. */
    int (*world)(const tutti_engine *engine, int *rank_out, int *size_out);
    int (*broadcast)(tutti_engine *engine, void *bytes, size_t count);

    /* 1: can run such an op. Must be the same on every rank: looks at collective, dtype, op, count,
     * set and device only. What an engine does not take is done by Tutti's own algorithms. */
    int (*supports)(const tutti_engine *engine, const tutti_engine_op *op);

    /* A process set has been made or removed on every rank of the job, in the same order; may block
     * until its members do the same. Set 0, the world, exists from the beginning. NULL: `supports`
     * takes ops of the world only (0, and 0 with SET_NAMED). */
    int (*set_create)(tutti_engine *engine, uint32_t set, const int *ranks, int rank_count);
    void (*set_remove)(tutti_engine *engine, uint32_t set);

    /* Start an op. TUTTI_OK: it is over. TUTTI_IN_PROGRESS: `test` will return the token. Negative:
     * it did not start. Must not block unless MAY_BLOCK is set. */
    int (*launch)(tutti_engine *engine, const tutti_engine_op *op, uint64_t token);
    /* Tokens of ops that have ended since, at most `capacity` of them, and their statuses. */
    int (*test)(tutti_engine *engine, uint64_t *tokens, int *statuses, int capacity);
    /* Readable as long as `test` has news, always the same one: Tutti then sleeps on it. -1, or
     * NULL: `test` must be called again and again. */
    int (*descriptor)(const tutti_engine *engine);
    /* A rank is gone or the job is to end: nothing launched is waited for any more. Buffers of ops
     * that have not landed may still be written to. NULL: nothing to be done. */
    void (*abort)(tutti_engine *engine);
} tutti_engine_ops;

/* ---- transports ----------------------------------------------------------------------------- */

typedef struct tutti_transport tutti_transport; /* one per context */
typedef struct tutti_link tutti_link;           /* the path to one peer */

enum {
    /* Told for later: now every transport is polled often, and none is relied on for order. */
    TUTTI_TRANSPORT_POLLED = 1,  /* `poll` finds work without a system call */
    TUTTI_TRANSPORT_ORDERED = 2, /* frames of one link never overtake each other */
};

enum { TUTTI_TRANSPORT_ADDRESS_BYTES_MAX = 4096, TUTTI_FRAME_HEAD_BYTES = 48 };

/* A head of 48 bytes, copied at once, and a payload that stays the caller's until `sent`. */
typedef struct tutti_frame {
    size_t struct_bytes;
    const void *head;
    const void *payload;
    uint32_t payload_bytes;
    int32_t urgency; /* larger first */
    uint64_t token;
} tutti_frame;

/* What a transport tells Tutti, from inside `poll` only; never nested. */
typedef struct tutti_link_upcalls {
    size_t struct_bytes;
    /* A frame has come. Payloads of up to inline_bytes_max lie at `payload`. Longer: `payload` is
     * NULL and the answer is where to store them, or NULL to drop them; then `stored` follows. */
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

    /* The bytes by which peers find this rank; Tutti carries them there, authenticated. */
    int (*address)(tutti_transport *transport, void *bytes, size_t *byte_count);
    int (*connect)(tutti_transport *transport, const tutti_link_place *place,
                   tutti_link **link_out);
    void (*disconnect)(tutti_link *link);
    /* Before the first poll. */
    void (*attach)(tutti_link *link, const tutti_link_upcalls *upcalls, void *user);

    /* TUTTI_OK: payload copied or gone, no `sent` follows. TUTTI_IN_PROGRESS: borrowed until
     * `sent`. Never blocks, never calls up. */
    int (*send)(tutti_link *link, const tutti_frame *frame);
    /* Give the payload of `token` back now; no `sent` follows. The frame may or may not arrive. */
    void (*recall)(tutti_link *link, uint64_t token);
    /* The place given for the frame that is arriving is the owner's again: drop the rest. */
    void (*discard)(tutti_link *link);

    /* Move what can be moved, on all links, without blocking; 1: something moved. */
    int (*poll)(tutti_transport *transport);
    /* Descriptor that is readable when poll has work; -1: none, poll again and again. `arm` says
     * that somebody will sleep on it: 0 done, 1 there is work already. */
    int (*descriptor)(const tutti_transport *transport);
    int (*arm)(tutti_transport *transport);

    /* Nothing handed to `send` is still here. */
    int (*is_idle)(const tutti_link *link);
    /* 0 up; 1 broken, and `why` says how. */
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
    char tag[TUTTI_PLUGIN_TAG_BYTES]; /* what ranks compare when they meet; need not end in NUL */
    const char *summary;              /* one line */
    const char *package;              /* what to install for it, for people */
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
