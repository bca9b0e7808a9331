/* SPDX-License-Identifier: MIT */
/* descriptor.c - see descriptor.h. */
#include "descriptor.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int descriptor_not_standard(int fd)
{
    if (fd == -1 || fd > STDERR_FILENO)
        return fd;
    int other = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), failed = errno;
    close(fd);
    errno = failed;
    return other;
}
