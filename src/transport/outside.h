/* SPDX-License-Identifier: Apache-2.0
 *
 * outside.h - links by a transport of a plugin (tutti/plugin.h), beside the sockets of the
 * handshake.
 *
 * Frames go through the plugin. The two sockets that the mesh opened stay. Over them the ranks
 * exchange the plugin's addresses and send goodbyes with the number of frames they sent; end of
 * stream shows a death. Every message there carries a tag made with the link's key.
 *
 *  (1) The plugin holds at most FLYING_MAX long frames of a link at a time; the others wait in a
 *      queue by urgency, then age, then order of sending: an urgent frame waits for no more.
 *  (2) LEFT only after as many frames have arrived as the goodbye counts; DOWN at an end of stream
 *      without a goodbye.
 *  (3) DOWN and LEFT give every borrowed payload back: no `sent` follows.
 *
 * Layer:   transport.
 * Threads: used by the baton's holder only.
 * Memory:  the queue only grows.
 */
#ifndef TUTTI_TRANSPORT_OUTSIDE_H
#define TUTTI_TRANSPORT_OUTSIDE_H

#include <stdint.h>

#include "base/status.h"
#include "transport/transport.h"
#include "tutti/plugin.h"

enum { TT_OUTSIDE_KEY_BYTES = 32 };

/* A transport of a context, shared by its links, each of which holds a reference. */
typedef struct tt_outside tt_outside;

tt_status tt_outside_open(const tutti_plugin *plugin, const tutti_plugin_host *host,
                          tt_outside **outside_out, char why[TUTTI_PLUGIN_WHY_BYTES]);
void tt_outside_release(tt_outside *outside);

typedef struct tt_outside_config {
    uint32_t peer;
    bool is_local;
    int send_fd, receive_fd;               /* connected; adopted on success */
    const uint8_t *send_key, *receive_key; /* TT_OUTSIDE_KEY_BYTES each */
} tt_outside_config;

/* Send our address to the peer: once per peer, on all links before any is created. */
tt_status tt_outside_greet(tt_outside *outside, const tt_outside_config *config);
/* Wait for the peer's address, at most `timeout_ms`, and make the link. */
tt_status tt_outside_link_create(tt_outside *outside, const tt_outside_config *config,
                                 uint64_t timeout_ms, tt_link **link_out);

#endif
