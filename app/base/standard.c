/* SPDX-License-Identifier: MIT */
/* standard.c - see standard.h. */
#include "app/base/standard.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* Unlike SIG_IGN a handler is not inherited by what is executed. */
static void is_no_end(int number)
{
    (void)number;
}

static void survive_limit_of_files(void)
{
    const struct sigaction survive = {.sa_handler = is_no_end, .sa_flags = SA_RESTART};
    struct sigaction present;

    if (sigaction(SIGXFSZ, NULL, &present) == 0 && present.sa_handler == SIG_DFL)
        sigaction(SIGXFSZ, &survive, NULL);
}

void standard_open(void)
{
    int fd;

    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
        continue;
    if (fd >= 0)
        close(fd);
    survive_limit_of_files();
}
