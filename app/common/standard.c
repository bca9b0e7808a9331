/* SPDX-License-Identifier: MIT */
/* standard.c - see standard.h. */
#include "app/common/standard.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* Unlike SIG_IGN a handler is not inherited by what is executed. */
static void is_no_end(int number)
{
    (void)number;
}

void standard_survive(int number)
{
    const struct sigaction survive = {.sa_handler = is_no_end, .sa_flags = SA_RESTART};
    struct sigaction present;

    if (sigaction(number, NULL, &present) == 0 && present.sa_handler == SIG_DFL)
        sigaction(number, &survive, NULL);
}

void standard_open(void)
{
    int fd;

    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
        continue;
    if (fd >= 0)
        close(fd);
    standard_survive(SIGXFSZ);
}
