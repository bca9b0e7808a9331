/* SPDX-License-Identifier: MIT */
/* progress.c - see progress.h. */
#include "load/base/progress.h"

#include "load/base/clock.h"

#include <stdio.h>
#include <unistd.h>

enum { PLAIN_EVERY_MS = 2000 };

static struct {
    uint64_t step_begin_us;
    uint64_t plain_at_us;
    bool is_line_open; /* a line of progress_run() stands on the terminal, without its end */
} progress;

static bool is_terminal(void)
{
    return isatty(STDERR_FILENO) == 1;
}

static void close_line(void)
{
    if (progress.is_line_open)
        fputs("\r\033[K", stderr);
    progress.is_line_open = false;
}

void progress_title(const char *text)
{
    close_line();
    fprintf(stderr, "%s\n", text);
}

void progress_step(const char *text)
{
    close_line();
    progress.step_begin_us = clock_us();
    fprintf(stderr, "  %-62s", text);
    fflush(stderr);
}

bool progress_done(bool good)
{
    if (good)
        fprintf(stderr, "%7.1f s\n", (double)(clock_us() - progress.step_begin_us) / 1e6);
    else
        fprintf(stderr, " failed\n");
    return good;
}

void progress_run(const char *text)
{
    uint64_t now_us = clock_us();
    if (is_terminal()) {
        fprintf(stderr, "\r\033[K  %s", text);
        fflush(stderr);
        progress.is_line_open = true;
    } else if (now_us >= progress.plain_at_us) {
        fprintf(stderr, "  %s\n", text);
        progress.plain_at_us = now_us + (uint64_t)PLAIN_EVERY_MS * 1000;
    }
}

void progress_run_end(void)
{
    if (progress.is_line_open)
        fputc('\n', stderr);
    progress.is_line_open = false;
    progress.plain_at_us = 0;
}

void progress_note(const char *text)
{
    close_line();
    fprintf(stderr, "  %s\n", text);
}
