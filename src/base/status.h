/* SPDX-License-Identifier: Apache-2.0
 *
 * status.h - the one result type: 0 is success, > 0 is "not yet", < 0 is failure.
 *
 * Layer:   base.
 * Threads: pure.
 */
#ifndef TUTTI_BASE_STATUS_H
#define TUTTI_BASE_STATUS_H

/* name, value, text: values are public ABI (TUTTI_* in tutti.h); append, never renumber. */
#define TT_STATUS_MAP(X)                                                   \
    X(OK, 0, "success")                                                    \
    X(IN_PROGRESS, 1, "operation has not completed yet")                   \
    X(ERR_NO_MEMORY, -1, "out of memory")                                  \
    X(ERR_BAD_CONFIG, -2, "invalid configuration value")                   \
    X(ERR_BAD_WIRE, -3, "malformed bytes from a peer")                     \
    X(ERR_BAD_ARGUMENT, -4, "invalid argument")                            \
    X(ERR_MISMATCH, -5, "ranks disagree about a call")                     \
    X(ERR_PEER_DOWN, -6, "a peer process is gone")                         \
    X(ERR_PEER_LEFT, -7, "a peer has left the job")                        \
    X(ERR_TIMED_OUT, -8, "deadline passed")                                \
    X(ERR_CANCELLED, -9, "operation was cancelled")                        \
    X(ERR_SHUT_DOWN, -10, "context is shut down")                          \
    X(ERR_NO_RESOURCE, -11, "a system resource is exhausted or forbidden") \
    X(ERR_REFUSED, -12, "peer could not be authenticated")                 \
    X(ERR_UNSUPPORTED, -13, "not supported")                               \
    X(ERR_SYSTEM, -14, "a system call failed")                             \
    X(ERR_FORKED, -15, "context belongs to the parent process")            \
    X(ERR_WRONG_THREAD, -16, "call not allowed from this thread")

typedef enum tt_status {
#define X(name, value, text) TT_##name = (value),
    TT_STATUS_MAP(X)
#undef X
} tt_status;

/* Text of the map, without a name; "unknown status" beyond it. */
const char *tt_status_text(tt_status status);

/* Return early with a failure or a "not yet". Only where nothing must be undone. */
#define TT_TRY(call)                      \
    do {                                  \
        const tt_status status_ = (call); \
        if (status_ != TT_OK) {           \
            return status_;               \
        }                                 \
    } while (0)

#endif
