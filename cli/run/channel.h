/* SPDX-License-Identifier: Apache-2.0
 *
 * channel.h - one end of the launcher-supervisor protocol: two descriptors, two queues.
 *
 * Layer:   cli.
 * Threads: one at a time. Nothing here blocks.
 * Memory:  the channel owns its queues and descriptors.
 */
#ifndef TUTTI_CLI_RUN_CHANNEL_H
#define TUTTI_CLI_RUN_CHANNEL_H

#include "cli/run/wire.h"

typedef struct tt_channel {
    int read_fd;
    int write_fd;
    tt_buffer received;
    tt_buffer pending; /* to be written */
} tt_channel;

/* Adopts both descriptors and makes them non-blocking. */
void tt_channel_init(tt_channel *channel, int read_fd, int write_fd);
void tt_channel_fini(tt_channel *channel);

/* Read once. TT_IN_PROGRESS: nothing there now. TT_ERR_PEER_LEFT: the other end is gone. */
tt_status tt_channel_read(tt_channel *channel);
/* Write what can be written. TT_ERR_PEER_LEFT as above. */
tt_status tt_channel_flush(tt_channel *channel);

/* The next frame received; valid until tt_channel_done. As tt_wire_next otherwise. */
tt_status tt_channel_peek(const tt_channel *channel, tt_wire_frame *frame_out, size_t *used_out);
void tt_channel_done(tt_channel *channel, size_t used_bytes);

#endif
