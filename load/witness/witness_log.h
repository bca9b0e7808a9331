/* SPDX-License-Identifier: MIT */
/*
 * witness_log.h - loads out of PostgreSQL's statement log, from bytes as they come: stderr, csvlog or jsonlog,
 * whichever a line looks like; or out of the access log of an origin that speaks HTTP.
 *
 *     4711 1763642096.789 LOG:  execute p1: SELECT ...       a load, if this contains the text
 *     <tab>... WHERE id = $1
 *     4711 1763642096.789 DETAIL:  parameters: $1 = '7'      its key; the same process
 *     4711 1763642096.801 LOG:  statement: SELECT ... WHERE id = 7    a load with its key in it; see
 *                                                                     witness_key_read()
 *
 * A load is one message "statement: ..." or "execute NAME: ..." whose statement contains the text, however often.
 * With log_min_duration_statement = 0 in place of log_statement = all a statement is logged when it has ended:
 *
 *     4711 1763642096.801 LOG:  duration: 12.003 ms  execute p1: SELECT ...
 *     4711 1763642096.901 ERROR:  canceling statement due to statement timeout     a load, too, which says when it
 *     4711 1763642096.901 STATEMENT:  SELECT ...                                   ended only
 *
 * No load is: what is only prepared (parsing is not logged, "statement: PREPARE ..." is passed over), the further
 * rows of a cursor ("execute fetch from"), durations, errors that repeat a statement that was logged before, our own
 * looking. With "statement: EXECUTE p1(7)" the text is looked for in what was prepared, which DETAIL has.
 *
 * How many run at once is read out of the order of the log, every load, no samples. With log_duration = on a server
 * process writes a line when a statement begins and one when it has ended, before its client hears of it: the loads
 * between their two lines are those that run. The end of a load is the next message of its process, of whatever kind:
 * an error has no duration, and a warning out of the middle of a load ends it too early. A process that is killed
 * writes none: its load ends with the line that the postmaster writes about it, or about all. Loads that are logged
 * at their end say by themselves when they ran, to the millisecond. A load that began before the log was followed is
 * not counted.
 *
 * No I/O, no clock. Threads: one at a time.
 */
#pragma once

#include "load/base/text.h"
#include "load/witness/witness_view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every statement of ours begins with this; they are not loads. */
#define WITNESS_OURS "/* stampede witness"
/* Who wrote a record, if it was `stampede proxy`: it leaves none out. */
#define WITNESS_PROXY "stampede proxy"

/* ---- a key: witness_key.c ---- */

/*
 * Which row a statement is about: its values, be they parameters or literals.
 *
 *     SELECT n FROM t WHERE id = 7 AND k = 'it''s'     key "7, it's"   form "SELECT n FROM t WHERE id = ? AND k = ?"
 *     EXECUTE p1(7, NULL)                              key "7, NULL"
 *     $1 = '7', $2 = NULL                              key "7, NULL"   what DETAIL has of parameters
 *
 * Values are numbers and strings of every kind ('..', E'..', U&'..', B'..', X'..', $$..$$, $tag$..$tag$), and TRUE,
 * FALSE and NULL where a value can stand ("= NULL", not "IS NULL"). No values are comments, names ("x7", "\"id 7\"")
 * and the numbers of parameters ("$1").
 *
 * Nobody knows which of the values is the key. The first and last literals that are the same in each load are none of
 * it, and are dropped in the end; one that is another each time (an instant) makes each statement a key of its own,
 * which result.h notices.
 *
 * Pure; bytes of any kind are taken.
 */

enum { WITNESS_FORM_BYTES = 96 };

struct witness_key {
    char text[WITNESS_KEY_BYTES];  /* one that does not fit ends with "~" and a digest of all of it */
    char form[WITNESS_FORM_BYTES]; /* "?" for each value, without comments, one blank for many; cut */
    bool has_parameters;           /* values stand elsewhere: "$1" */
};

void witness_key_read(const char *text, size_t bytes, struct witness_key *out);

/* Drops the first and the last values that are the same in all. */
void witness_key_trim(struct witness_load *loads, size_t count);

/* ---- a line: witness_line.c ---- */

/*
 * What one line of PostgreSQL's log is.
 *
 *     2025-11-20 12:34:56.789 UTC [4711] shop@catalog LOG:  execute p1: SELECT ... WHERE id = $1
 *     |-- log_line_prefix, whatever it is ----------| severity  |-- text
 *     <tab>AND ...                                               the line before goes on
 *     2025-11-20 12:34:56.789 UTC [4711] shop@catalog DETAIL:  parameters: $1 = '7'
 *
 * The prefix is not known; it is searched for a time with milliseconds (%m or %n) and for a number that can be a
 * process's (%p). Pure; bytes of any kind are taken.
 */

enum witness_line_kind {
    WITNESS_LINE_RUBBISH = 0, /* not a line of PostgreSQL's */
    WITNESS_LINE_GOES_ON,     /* begins with a tab */
    WITNESS_LINE_LOG,
    WITNESS_LINE_DETAIL,
    WITNESS_LINE_STATEMENT, /* what an error is about */
    WITNESS_LINE_OTHER,     /* ERROR, HINT, ... */
    WITNESS_LINE_UNDATED,   /* a severity, but no time with milliseconds or no process before it */
    WITNESS_LINE_WORDLESS,  /* a time and a process, but no severity known here: not English */
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

/* LOG, DETAIL, ...; RUBBISH: the word is none. */
enum witness_line_kind witness_line_severity(const char *word, size_t bytes);

/* "2025-11-20 12:34:56.789 UTC" at the begin of a text, and its bytes; false: none with milliseconds. */
bool witness_line_date(const char *text, size_t bytes, struct witness_line *out, size_t *used);

/* Without the line's end. */
void witness_line_read(const char *line, size_t bytes, struct witness_line *out);

/* NULL: this DETAIL is about something else than the parameters of a statement; otherwise where they begin. */
const char *witness_line_parameters(const char *text, size_t bytes);

/*
 * When that was, in microseconds since 1970. Names of time zones mean nothing here: a line that is read soon after
 * it was written, at wall_us, tells by itself how far its zone is off, in quarters of an hour.
 */
uint64_t witness_line_wall_us(const struct witness_line *line, uint64_t wall_us);

/* ---- csvlog, jsonlog, and an origin's access log: witness_record.c ---- */

enum witness_format { WITNESS_STDERR = 0, WITNESS_CSV, WITNESS_JSON, WITNESS_ACCESS };

/* By how a line begins, of JSON or an access log by all of it; STDERR for whatever is none of the others. */
enum witness_format witness_format_of(const char *line, size_t bytes);

/* A message with what belongs to it; its texts are empty where it has none. Zeros are one without memory. */
struct witness_record {
    struct witness_line line; /* its text is the message */
    struct text message, detail, statement;
    bool is_of_proxy;
    bool is_coarse; /* its time is a whole second */
};

/* False: it is no record of PostgreSQL's, and no line of an access log. What was asked of an origin is a statement,
 * "GET /item/7", and its own key. */
bool witness_record_read(enum witness_format format, const char *text, size_t bytes,
                         struct witness_record *out);
void witness_record_clear(struct witness_record *record);

/* ---- the log ---- */

enum { WITNESS_LOG_PENDING = 64, WITNESS_LOG_OTHERS = 16 };

/* The loads that run. */
enum { WITNESS_RUNNING_MAX = 1024 };

struct witness_running {
    uint64_t process[WITNESS_RUNNING_MAX]; /* of each */
    size_t count;
    uint32_t most;
    uint64_t ended;   /* whose end was logged */
    bool is_overfull; /* more than there is room for: `most` is too low */
};

/* The same instant by two clocks: since 1970, and CLOCK_MONOTONIC. */
struct witness_clock {
    uint64_t wall_us, now_us;
};

/* A statement that a DETAIL line may still say something about. */
struct witness_pending {
    uint64_t process; /* 0: none */
    size_t load;      /* its index; SIZE_MAX: it has not counted, or not yet */
    uint64_t at_us;
    bool is_ours, is_execute; /* EXECUTE: loads if what was prepared does */
    bool is_keyless;          /* it has parameters, and they have not come yet */
    uint64_t end_us;          /* 0: it is logged when it begins */
    char key[WITNESS_KEY_BYTES];
};

/* A kind of statement that is no load; while a place is needed for another, all counts go down by one. */
struct witness_other {
    char form[WITNESS_FORM_BYTES];
    uint64_t count;
};

struct witness_log {
    const char *statement;      /* lent */
    struct witness_load *loads; /* owned; in the order of the log */
    size_t load_count, load_room;
    uint64_t keyless_count; /* loads whose parameters the log does not have */
    bool has_parameters;    /* some keys are parameters, not literals */
    struct witness_other
        others[WITNESS_LOG_OTHERS]; /* queries before the first load: what it might have been */

    uint64_t readable_count; /* messages */
    uint64_t rubbish_count;  /* lines that are nothing of PostgreSQL's */
    struct witness_running running;
    uint64_t since_us;       /* loads that are logged at their end and began before do not count */
    uint64_t timed_count;    /* loads that were logged when they ended; */
    uint64_t shortest_us;    /* the shortest of all statements so logged: shows which are left out; */
    uint64_t opaque_count;   /* how often `stampede proxy` said that it cannot read a connection */
    uint64_t coarse_count;   /* records whose time is a whole second, */
    uint64_t fine_count;     /* and those that show more */
    bool is_timed, is_begun; /* there are statements of others that are logged so, or when they begin */
    enum witness_line_kind last_kind; /* of the last line that is a message, or should be */
    char last_bad[96];                /* how the last one that cannot be read begins */
    uint64_t awaited;                 /* set by who waits for the statement of ours with this number in it */
    bool has_awaited;                 /* it was there */
    bool is_out_of_memory;            /* loads are missing */

    struct text line, message; /* the torn line at the end; the message of the lines before it */
    struct text csv;           /* lines of a record that goes on ... */
    bool is_quoted;            /* ... within quotes */
    struct witness_record record;
    struct witness_line head; /* of the message; its text is not used */
    bool is_judged;           /* what the message is has been found out */
    struct witness_clock clock;
    struct witness_pending pending[WITNESS_LOG_PENDING];
    size_t next_pending;
};

/* `statement` must not be empty; NULL: everything that our own looking leaves. */
void witness_log_init(struct witness_log *log, const char *statement);

/* `clock`: about when these bytes were written. Cut anywhere; what is whole by now is counted when it returns. */
void witness_log_feed(struct witness_log *log, const char *bytes, size_t count, struct witness_clock clock);

/* Its times are whole seconds, all of them: one in a thousand of any log is. */
static inline bool witness_log_is_coarse(const struct witness_log *log)
{
    return log->coarse_count > 0 && log->fine_count == 0;
}

/* What follows does not continue what came before. */
void witness_log_break(struct witness_log *log);

/* False: what was fed is not a log that can be read; says in `why` what to set. An empty log can be. */
bool witness_log_is_readable(const struct witness_log *log, const char *path,
                             char why[static WITNESS_WHY_BYTES]);

void witness_log_clear(struct witness_log *log);

void witness_running_begin(struct witness_running *running, uint64_t process);
