/* SPDX-License-Identifier: MIT */
/*
 * progress.h - what goes on, on stderr, while the report is not there yet.
 *
 *     progress_step("private Redis"); ... progress_done(true);      one line, with the time it took
 *     progress_block(text) again and again                          on a terminal: lines that are rewritten in place
 *     progress_run(text) again and again                            elsewhere: a line every PLAIN_EVERY_MS
 *     progress_run_end(text)                                        the block makes room for one line that stays
 *
 * It is a terminal if stderr is one, TERM is not "dumb", and NO_COLOR is not set. Nothing about it is changed but where
 * the cursor stands, and that is below the block whenever a function has returned: there is nothing to restore, however
 * the program ends.
 *
 * Threads: one.
 */
#ifndef LOAD_BASE_PROGRESS_H
#define LOAD_BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

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

struct progress_size {
    size_t columns, rows;
    bool is_utf8; /* and not only ASCII */
};

/* False: progress_run() is for you. Asked again each time, a terminal may change its size. */
bool progress_has_block(struct progress_size *size);
/* At most size.rows lines of size.columns columns, each with its "\n"; UTF-8 without wide characters. */
void progress_block(const char *text);
void progress_run(const char *text);
void progress_run_end(const char *text);
/* A line of its own between the others. */
void progress_note(const char *text);
/* Whatever does not stay is gone: the report comes next. */
void progress_clear(void);

#endif
