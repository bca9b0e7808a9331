/* SPDX-License-Identifier: MIT */
/* progress.c - see progress.h. */
#include "load/base/progress.h"

#include "load/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { PLAIN_EVERY_MS = 2000, STEP_BYTES = 128, BLOCK_LINES_MAX = 16 };
enum { COLUMNS_USUAL = 80, ROWS_USUAL = 24, COLUMNS_LEAST = 40, ROWS_LEAST = 10 };

static struct {
    enum progress_style style;
    uint64_t step_begin_us;
    uint64_t plain_at_us;
    char step[STEP_BYTES];
    bool is_line_open; /* a step stands on the terminal without its end, and does not stay */
    size_t block[BLOCK_LINES_MAX], block_lines; /* columns of each line that stands there */
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

static bool is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0') /* the first that is set decides */
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
    }
    return false;
}

static size_t columns_of_terminal(size_t *rows)
{
    struct winsize size = {.ws_col = 0};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    *rows = known ? size.ws_row : ROWS_USUAL;
    return known ? size.ws_col : COLUMNS_USUAL;
}

/* A terminal that became narrower since has broken the lines of the block. */
static size_t rows_of_block(void)
{
    size_t rows, count = 0, columns = columns_of_terminal(&rows);
    for (size_t i = 0; i < progress.block_lines; i++)
        count += progress.block[i] > columns ? (progress.block[i] + columns - 1) / columns : 1;
    return count < rows ? count : rows - 1;
}

static void go_above_block(void)
{
    size_t rows = rows_of_block();
    if (rows > 0)
        fprintf(stderr, "\r\033[%zuA", rows);
    progress.block_lines = 0;
}

static void close_line(void)
{
    if (progress.block_lines > 0) {
        go_above_block();
        fputs("\033[J", stderr);
    }
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

bool progress_has_block(struct progress_size *size)
{
    if (progress.style == PROGRESS_QUIET || !is_terminal())
        return false;
    size->columns = columns_of_terminal(&size->rows);
    size->is_utf8 = is_utf8();
    if (size->columns < COLUMNS_LEAST || size->rows < ROWS_LEAST)
        return false;
    size->columns--; /* so that no line wraps */
    size->rows--;
    return true;
}

/* Of UTF-8: bytes that go on with a character take none. */
static size_t columns_of(const char *line, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)line[i] & 0xc0) != 0x80;
    return count;
}

void progress_block(const char *text)
{
    if (progress.is_line_open)
        close_line();
    go_above_block();
    for (const char *line = text; *line != '\0' && progress.block_lines < BLOCK_LINES_MAX;) {
        size_t bytes = strcspn(line, "\n");
        fprintf(stderr, "%.*s\033[K\n", (int)bytes, line);
        progress.block[progress.block_lines++] = columns_of(line, bytes);
        line += bytes + (line[bytes] == '\n');
    }
    fputs("\033[J", stderr);
    fflush(stderr);
}

void progress_run(const char *text)
{
    uint64_t now_us = clock_us();
    if (is_silent() || now_us < progress.plain_at_us)
        return;
    close_line();
    fprintf(stderr, "  %s\n", text);
    progress.plain_at_us = now_us + (uint64_t)PLAIN_EVERY_MS * 1000;
}

void progress_run_end(const char *text)
{
    close_line();
    if (progress.style == PROGRESS_LINES)
        fprintf(stderr, "  %s\n", text);
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
