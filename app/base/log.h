/* SPDX-License-Identifier: MIT */
/*
 * log.h - one line per event to stderr: time=... level=... event=... key=value ...
 *
 * A line leaves in one write(2), so lines of several threads and processes never mix; or not at all, where its reader
 * stands still: no loop, load or thread of the guard's waits for a log. What was lost is counted (log_dropped()), and
 * said by event=log_dropped as soon as the reader is back. Control characters are
 * escaped as \xNN and a line ends at LOG_LINE_BYTES, so that what a client sent cannot forge or flood lines.
 *
 * In an outage the same event repeats thousands of times: of each event LOG_BURST lines pass in LOG_WINDOW_MS, the
 * rest are counted, and the first line of the next window is preceded by one that says suppressed=N. log_flush()
 * reports what is still unreported. log_line() counts nothing: it is for one that limits its own lines, and whose
 * last one must not be lost.
 *
 * Where stderr is systemd's journal (JOURNAL_STREAM names it) a line begins with its priority, "<4>", which the
 * journal takes off and keeps: `journalctl -p warning` finds warnings and errors.
 *
 * Threads: any. One mutex guards the table of event names; it is not held while writing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOG_LINE_BYTES = 1024, LOG_BURST = 5, LOG_WINDOW_MS = 10000 };

enum log_level { LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };

/* Looks where stderr goes. Before there are threads; without it no line has a priority. */
void log_open(void);

/* `event`: a string literal, its address is kept. `format` makes the pairs, as in "key=%s reason=\"%s\"";
 * "" for none. Leaves errno as it was. */
void log_event(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Likewise, and always written. */
void log_line(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Says what was lost, if the reader is back; to be called now and then, and each line does. */
void log_catch_up(void);
/* Lines that were lost, ever. */
uint64_t log_dropped(void);

/* Writes the suppressed=N lines that are due; at shutdown. */
void log_flush(void);

/* ---- its parts, pure ---- */

/* Zeroed at first. Time is an argument. */
struct log_gate {
    bool used;
    uint32_t passed;
    uint64_t since_ms, suppressed;
};

/* True: this line may be written. *suppressed: how many were not in the window that has just ended. */
bool log_gate_pass(struct log_gate *gate, uint64_t now_ms, uint64_t *suppressed);

/* Copies with control characters as \xNN, as much as fits, always ended with NUL; returns the length. */
size_t log_escape(const char *text, char *out, size_t out_size);
