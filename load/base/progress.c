/* SPDX-License-Identifier: MIT */
/* progress.c - see progress.h. */
#include "load/base/progress.h"

#include "load/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { PLAIN_EVERY_MS = 2000, STEP_BYTES = 128, COLUMNS_USUAL = 80 };

static struct {
    enum progress_style style;
    uint64_t step_begin_us;
    uint64_t plain_at_us;
    char step[STEP_BYTES];
    bool is_line_open; /* what stands on the terminal's last line does not stay */
} progress;

void progress_style(enum progress_style style)
{
    progress.style = style;
}

/* ---- the terminal ---- */

static bool is_terminal(void)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    return isatty(STDERR_FILENO) == 1 && term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0 &&
           (no_color == NULL || no_color[0] == '\0');
}

/* What comes and goes without a trace; nothing is said where it cannot. */
static bool is_fleeting(void)
{
    return progress.style == PROGRESS_BRIEF && is_terminal();
}

static bool is_silent(void)
{
    return progress.style == PROGRESS_QUIET || (progress.style == PROGRESS_BRIEF && !is_terminal());
}

static int columns_of_terminal(void)
{
    struct winsize size = {.ws_col = 0};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : COLUMNS_USUAL;
}

static void close_line(void)
{
    if (progress.is_line_open)
        fputs("\r\033[K", stderr);
    progress.is_line_open = false;
}

/* ---- steps ---- */

void progress_title(const char *text)
{
    close_line();
    if (progress.style == PROGRESS_LINES)
        fprintf(stderr, "%s\n", text);
}

void progress_step(const char *text)
{
    close_line();
    progress.step_begin_us = clock_us();
    snprintf(progress.step, sizeof progress.step, "%s", text);
    if (is_silent())
        return;
    fprintf(stderr, is_fleeting() ? "  %s" : "  %-62s", progress.step);
    fflush(stderr);
    progress.is_line_open = is_fleeting();
}

bool progress_done(bool good)
{
    bool names_step = is_silent() || is_fleeting();
    if (good && names_step)
        return true;
    close_line();
    if (good)
        fprintf(stderr, "%7.1f s\n", (double)(clock_us() - progress.step_begin_us) / 1e6);
    else
        fprintf(stderr, names_step ? "  %s: failed\n" : " failed\n", progress.step);
    return good;
}

/* ---- a run ---- */

/* So that no line wraps, the terminal's last column stays free. */
static void rewrite_line(const char *text)
{
    fprintf(stderr, "\r%.*s\033[K", columns_of_terminal() - 1, text);
    fflush(stderr);
    progress.is_line_open = true;
}

void progress_run(const char *text)
{
    uint64_t now_us = clock_us();
    if (is_silent())
        return;
    if (is_terminal()) {
        rewrite_line(text);
        return;
    }
    if (now_us < progress.plain_at_us)
        return;
    fprintf(stderr, "%s\n", text);
    progress.plain_at_us = now_us + (uint64_t)PLAIN_EVERY_MS * 1000;
}

void progress_run_end(const char *text)
{
    close_line();
    if (progress.style == PROGRESS_LINES)
        fprintf(stderr, "%s\n", text);
    fflush(stderr);
    progress.plain_at_us = 0;
}

void progress_note(const char *text)
{
    close_line();
    if (!is_silent())
        fprintf(stderr, "  %s\n", text);
}

void progress_clear(void)
{
    close_line();
    fflush(stderr);
}
