/* SPDX-License-Identifier: MIT */
/*
 * progress.h - what goes on, on stderr, while the report is not there yet.
 *
 *     progress_step("private Redis"); ... progress_done(true);      one line, with the time it took
 *     progress_run(text) again and again                            on a terminal: one line that is rewritten in
 *                                                                   place; elsewhere a line every PLAIN_EVERY_MS
 *     progress_run_end(text)                                        the line that stays
 *
 * It is a terminal if stderr is one, TERM is not "dumb", and NO_COLOR is not set. Nothing about it is changed: there
 * is nothing to restore, however the program ends.
 *
 * Threads: one.
 */
#pragma once

#include <stdbool.h>

enum progress_style {
    PROGRESS_LINES = 0, /* all of it */
    PROGRESS_BRIEF,     /* on a terminal nothing stays, elsewhere there is only what failed */
    PROGRESS_QUIET      /* only what failed */
};

/* Before anything else; LINES without it. */
void progress_style(enum progress_style style);

void progress_title(const char *text);
void progress_step(const char *text);
bool progress_done(bool good); /* returns it */

/* ASCII, of one line. */
void progress_run(const char *text);
void progress_run_end(const char *text);
/* A line of its own between the others. */
void progress_note(const char *text);
/* Whatever does not stay is gone: the report comes next. */
void progress_clear(void);
