/* SPDX-License-Identifier: Apache-2.0
 *
 * descriptor.c - numbers of passed descriptors, and the message when descriptors run out. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/run/descriptor.h"

enum { PASSED_FD_MIN = 64 }; /* shells use low descriptors for themselves */

static uint64_t file_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (uint64_t)limit.rlim_cur : UINT64_MAX;
}

int tt_descriptor_raise(int fd)
{
    const uint64_t half = file_limit() / 2; /* beyond the limit there are no descriptors at all */
    const int raised = fcntl(fd, F_DUPFD_CLOEXEC, half < PASSED_FD_MIN ? (int)half : PASSED_FD_MIN);
    const int error = errno;
    close(fd);
    errno = error;
    return raised;
}

void tt_descriptor_explain(int error, char *text, size_t text_bytes)
{
    if (error == EMFILE) {
        (void)snprintf(text, text_bytes,
                       "no descriptor left: only %" PRIu64 " files may be open; raise the limit "
                       "(ulimit -n 4096), or start fewer ranks on this host",
                       file_limit());
    } else if (error == ENFILE) {
        (void)snprintf(text, text_bytes,
                       "the system has no descriptor left; raise fs.file-max (sysctl)");
    } else {
        (void)snprintf(text, text_bytes, "%s", strerror(error));
    }
}
