/* SPDX-License-Identifier: MIT */
/*
 * progress.h - what goes on, on stderr, while the report is not there yet.
 *
 *     progress_step("private Redis"); ... progress_done(true);      one line, with the time it took
 *     progress_run(text) again and again; progress_run_end()        on a terminal one line that is rewritten; elsewhere
 *                                                                   a line every PLAIN_EVERY_MS
 *
 * Threads: one.
 */
#ifndef LOAD_BASE_PROGRESS_H
#define LOAD_BASE_PROGRESS_H

#include <stdbool.h>

void progress_title(const char *text);
void progress_step(const char *text);
bool progress_done(bool good); /* returns it */
void progress_run(const char *text);
void progress_run_end(void);
/* A line of its own between the others. */
void progress_note(const char *text);

#endif
