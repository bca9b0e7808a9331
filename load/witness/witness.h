/* SPDX-License-Identifier: MIT */
/*
 * witness.h - what the database and Redis say about a run: nobody believes a counter of the service under test.
 *
 *     witness_open()   looks whether what is asked for can be had at all
 *     witness_begin()  marks the log, takes the counters, starts to sample
 *     witness_end()    takes them again: *out is the difference; then begin again, or
 *     witness_close()
 *
 * Three ways to count the loads:
 *
 *     LOG         the server's statement log, as text and in English (log_statement=all, log_line_prefix containing
 *                 %m or %n, and %p; log_error_verbosity not terse, for the keys). The only one that knows *when*
 *                 each load began and for which key, parameter or literal, and that has the failed and the cancelled
 *                 ones. What is a load in it, witness_log.h says.
 *     STATEMENTS  pg_stat_statements: calls of the statements whose text contains `statement`, in the database of
 *                 the URL. Leaves out those that failed or were cancelled, and takes statements for one that differ
 *                 in comments and constants only: the text should be in more than a comment, or these be unlike.
 *     SQL         a query of the user's own that returns one whole number which only grows. (Those of PostgreSQL's
 *                 own statistics may be a second late.)
 *
 * Beside it, every SAMPLE_EVERY_MS, pg_stat_activity: how many such statements run in this instant. The text must be
 * in the first 1 KiB of them (track_activity_query_size). Redis: INFO commandstats, less our own looking.
 *
 * Threads: begun and ended by one thread; the log, the samples and Redis are read by three of its own between begin
 * and end. Time: CLOCK_MONOTONIC; the log's wall clock is converted as it is read.
 * Errors: false, and the reason in `why`. A server that is away during the run, killed or stopped, is no error, and
 * holds nobody up: `gaps` and `caveat` say what is missing.
 */
#ifndef LOAD_WITNESS_WITNESS_H
#define LOAD_WITNESS_WITNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WITNESS_WHY_BYTES = 256,
    WITNESS_SAMPLE_EVERY_MS = 20,
    WITNESS_COMMANDS_MAX = 48,
    WITNESS_KEY_BYTES = 64
};

enum witness_way { WITNESS_NONE = 0, WITNESS_LOG, WITNESS_STATEMENTS, WITNESS_SQL };

/* Texts are lent until witness_close(). */
struct witness_options {
    enum witness_way way;
    const char *database_url; /* for STATEMENTS, SQL and the samples; NULL: no samples */
    const char *log_path;     /* for LOG */
    const char *statement;    /* LOG, STATEMENTS, samples: a load is a statement that contains this text */
    const char *counter_sql;  /* for SQL */
    const char *redis_url;    /* redis://..., unix://...; NULL: none */
};

struct witness_load {
    uint64_t at_us;              /* when the statement began, cut to the millisecond that the log has */
    char key[WITNESS_KEY_BYTES]; /* its values, "7" or "3, 120"; "" where it has none; see witness_key.h */
};

struct witness_sample {
    uint64_t at_us;
    uint32_t running; /* loads in this instant */
};

struct witness_command {
    char name[24];
    uint64_t calls;
};

/* All owned. */
struct witness_view {
    enum witness_way way; /* NONE also if the loads could not be counted after all */
    uint64_t load_count;
    struct witness_load *loads; /* LOG: load_count of them, by time, not NULL; otherwise NULL */
    struct witness_sample *samples;
    size_t sample_count;
    uint32_t peak_running; /* the most that a sample saw */
    uint32_t at_once;      /* LOG: the most that ran at once, no sample (see witness_log.h), if ... */
    bool has_ends;         /* ... the log has the ends of loads, too (log_duration=on) */
    struct witness_command commands[WITNESS_COMMANDS_MAX]; /* of Redis, the most frequent first */
    size_t command_count;
    uint64_t command_sum;
    bool has_redis;
    uint32_t gaps; /* samples that could not be taken: the server was away */

    /* What `caveat` says in words. Nobody may take a count for less than it could be because of these. */
    uint64_t keyless_count; /* LOG: loads with parameters that the log does not have */
    bool misses_loads;      /* more may have begun than were counted */
    bool misses_samples;    /* more may have run than samples could see */
    bool misses_commands;   /* Redis ran more than was counted */
    bool knows_text;        /* the text of `statement` is right: such statements were seen before this run */
    char caveat[512];       /* what this way of counting cannot see, or did not in this run; "" if nothing */
};

struct witness;

/* Each server is given a few seconds to answer. */
bool witness_open(const struct witness_options *options, struct witness **out,
                  char why[static WITNESS_WHY_BYTES]);

/* After false: witness_close(). */
bool witness_begin(struct witness *witness, char why[static WITNESS_WHY_BYTES]);

/* Within 2 s, whatever the servers do. False: the loads are unknown; all else that was seen is in *out. */
bool witness_end(struct witness *witness, struct witness_view *out, char why[static WITNESS_WHY_BYTES]);

/* Leaves NULL. Accepts NULL in *witness, and one that was not ended. */
void witness_close(struct witness **witness);

/* Loads that have begun since witness_begin(), some 10 ms ago; LOG only, otherwise 0. Any thread. */
uint64_t witness_loads_now(struct witness *witness);

void witness_view_clear(struct witness_view *view);

#endif
