/* SPDX-License-Identifier: MIT */
/* interrupt.c - see interrupt.h. */
#include "load/base/interrupt.h"

#include "load/base/proc.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t is_seen;

static void on_signal(int signal)
{
    static const char text[] =
        "\nended early: the report is made of what there is; once more to end at once\n";
    int error = errno;
    (void)signal;
    is_seen = 1;
    proc_clean_on_signals(); /* sigaction() only: allowed here */
    if (write(STDERR_FILENO, text, sizeof text - 1) == -1)
        errno = error;
    errno = error;
}

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&action.sa_mask, signals[i]);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

bool interrupt_seen(void)
{
    return is_seen != 0;
}
