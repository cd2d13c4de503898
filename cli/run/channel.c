/* SPDX-License-Identifier: Apache-2.0
 *
 * channel.c - non-blocking reads and writes between buffers and descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cli/run/channel.h"

enum { READ_BYTES = 64 << 10 };

static void make_nonblocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0) {
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    }
}

void tt_channel_init(tt_channel *channel, int read_fd, int write_fd)
{
    *channel = (tt_channel){.read_fd = read_fd, .write_fd = write_fd};
    make_nonblocking(read_fd);
    make_nonblocking(write_fd);
}

void tt_channel_fini(tt_channel *channel)
{
    if (channel->read_fd >= 0) {
        close(channel->read_fd);
        close(channel->write_fd);
    }
    tt_buffer_fini(&channel->received);
    tt_buffer_fini(&channel->pending);
    channel->read_fd = -1;
    channel->write_fd = -1;
}

tt_status tt_channel_read(tt_channel *channel)
{
    const ssize_t bytes =
        read(channel->read_fd, tt_buffer_reserve(&channel->received, READ_BYTES), READ_BYTES);
    if (bytes > 0) {
        tt_buffer_fill(&channel->received, (size_t)bytes);
        return TT_OK;
    }
    return bytes < 0 && (errno == EAGAIN || errno == EINTR) ? TT_IN_PROGRESS : TT_ERR_PEER_LEFT;
}

tt_status tt_channel_flush(tt_channel *channel)
{
    while (tt_buffer_bytes(&channel->pending) > 0) {
        const ssize_t bytes = write(channel->write_fd, tt_buffer_data(&channel->pending),
                                    tt_buffer_bytes(&channel->pending));
        if (bytes < 0) {
            return errno == EAGAIN || errno == EINTR ? TT_IN_PROGRESS : TT_ERR_PEER_LEFT;
        }
        tt_buffer_take(&channel->pending, (size_t)bytes);
    }
    return TT_OK;
}

tt_status tt_channel_peek(const tt_channel *channel, tt_wire_frame *frame_out, size_t *used_out)
{
    return tt_wire_next(tt_buffer_data(&channel->received), tt_buffer_bytes(&channel->received),
                        frame_out, used_out);
}

void tt_channel_done(tt_channel *channel, size_t used_bytes)
{
    tt_buffer_take(&channel->received, used_bytes);
}
