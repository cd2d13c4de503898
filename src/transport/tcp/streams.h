/* SPDX-License-Identifier: Apache-2.0
 *
 * streams.h - one link over several TCP connections, for networks that limit the rate of one.
 *
 * Every stream is a TCP link of its own (tcp.h). A frame goes whole over one of them: the first
 * that is idle, else the one with the fewest frames waiting.
 *
 * (1) The machine sees one link: while a long frame of one stream is arriving, the others are not
 *     read (the kernel buffers their bytes), because no other frame may be announced meanwhile.
 * (2) The link is LEFT when every stream is, and DOWN as soon as one is.
 * (3) Frames of different streams overtake each other, as the seam allows.
 *
 * Layer:   transport.
 * Threads: used by the baton's holder only.
 * Memory:  that of its streams, and one epoll descriptor for all their sockets.
 */
#ifndef TUTTI_TRANSPORT_TCP_STREAMS_H
#define TUTTI_TRANSPORT_TCP_STREAMS_H

#include "base/status.h"
#include "transport/transport.h"

enum { TT_STREAMS_MAX = 8 };

extern const tt_link_ops tt_streams_link_ops;

/* `links`, made by tt_tcp_link_create to the same peer and numbered alike at both ends, are adopted
 * on success. `*link_out` is set only on TT_OK; destroy it through its table. */
tt_status tt_streams_link_create(tt_link *const *links, uint32_t count, tt_link **link_out);

#endif
