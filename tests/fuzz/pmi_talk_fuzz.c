/* SPDX-License-Identifier: Apache-2.0
 *
 * pmi_talk_fuzz.c - any bytes as a PMI server's part of the exchange: greeting, put, barrier, get,
 * goodbye. Values taken from it are terminated and fit, and an exchange that failed stays failed.
 *
 * Input: all that the server sends before it closes. First byte: room for values, in 16 bytes.
 *
 * Labels: launch */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "launch/pmi/pmi.h"

enum { SAID_BYTES_MAX = 32 * 1024, TIMEOUT_MS = 2000, ROOM_MAX = 256 * 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void talk(tt_launch_pmi *pmi, size_t room)
{
    static const tt_launch_pmi_side side = {.rank = 0, .size = 3, .engine = "mpi\0\0\0\0"};
    static char value[ROOM_MAX];
    tt_launch_why why;
    TT_ASSERT(strlen(tt_launch_pmi_job(pmi)) > 0);
    TT_ASSERT(tt_launch_pmi_value_bytes_max(pmi) >= 31);
    const tt_status put = tt_launch_pmi_put(pmi, "key", "value", &why);
    (void)tt_launch_pmi_announce(pmi, &side, &why);
    const tt_status barrier = tt_launch_pmi_barrier(pmi, &why);
    memset(value, 1, sizeof(value));
    if (tt_launch_pmi_get(pmi, "key", value, room, &why) == TT_OK) {
        TT_ASSERT(memchr(value, 0, room) != NULL);
        TT_ASSERT(barrier != TT_ERR_PEER_DOWN && put != TT_ERR_PEER_DOWN);
    }
    for (size_t i = room; i < sizeof(value); i++) {
        TT_ASSERT(value[i] == 1);
    }
    (void)tt_launch_pmi_compare(pmi, &side, &why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fds[2];
    tt_launch_pmi *pmi = NULL;
    tt_launch_why why;
    if (size < 2 || size > SAID_BYTES_MAX) {
        return 0;
    }
    TT_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    TT_ASSERT(send(fds[1], data + 1, size - 1, MSG_DONTWAIT) == (ssize_t)size - 1);
    TT_ASSERT(shutdown(fds[1], SHUT_WR) == 0);
    if (tt_launch_pmi_adopt(fds[0], TIMEOUT_MS, &pmi, &why) == TT_OK) {
        talk(pmi, 16 * (size_t)(data[0] > 0 ? data[0] : 1));
        tt_launch_pmi_destroy(pmi);
    }
    (void)close(fds[1]);
    return 0;
}
