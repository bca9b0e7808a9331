/* SPDX-License-Identifier: MIT */
/*
 * witness_line.h - what one line of PostgreSQL's log is.
 *
 *     2025-11-20 12:34:56.789 UTC [4711] shop@catalog LOG:  execute p1: SELECT ... WHERE id = $1
 *     |-- log_line_prefix, whatever it is ----------| severity  |-- text
 *     <tab>AND ...                                               the line before goes on
 *     2025-11-20 12:34:56.789 UTC [4711] shop@catalog DETAIL:  parameters: $1 = '7'
 *
 * The prefix is not known; it is searched for a time with milliseconds (%m or %n) and for a number that can be a
 * process's (%p). Pure; bytes of any kind are taken.
 */
#ifndef LOAD_WITNESS_WITNESS_LINE_H
#define LOAD_WITNESS_WITNESS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum witness_line_kind {
    WITNESS_LINE_RUBBISH = 0, /* not a line of PostgreSQL's */
    WITNESS_LINE_GOES_ON,     /* begins with a tab */
    WITNESS_LINE_LOG,
    WITNESS_LINE_DETAIL,
    WITNESS_LINE_OTHER,    /* ERROR, STATEMENT, ... */
    WITNESS_LINE_UNDATED,  /* a severity, but no time with milliseconds or no process before it */
    WITNESS_LINE_WORDLESS, /* a time and a process, but no severity known here: CSV, JSON, not English */
};

struct witness_line {
    enum witness_line_kind kind;
    uint64_t process;
    uint64_t stamp_us; /* as it is written, as if it were UTC */
    bool is_utc;
    const char *text; /* lent: within the line, behind severity or tab */
    size_t text_bytes;
    size_t prefix_bytes; /* before the severity */
};

/* Without the line's end. */
void witness_line_read(const char *line, size_t bytes, struct witness_line *out);

/* NULL: this DETAIL is about something else than the parameters of a statement; otherwise where they begin. */
const char *witness_line_parameters(const char *text, size_t bytes);

/*
 * When that was, in microseconds since 1970. Names of time zones mean nothing here: a line that is read soon after
 * it was written, at wall_us, tells by itself how far its zone is off, in quarters of an hour.
 */
uint64_t witness_line_wall_us(const struct witness_line *line, uint64_t wall_us);

#endif
