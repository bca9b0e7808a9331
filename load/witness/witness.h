/* SPDX-License-Identifier: MIT */
/*
 * witness.h - what the database and Redis say about a run: nobody believes a counter of the service under test.
 *
 *     witness_open()   looks whether what is asked for can be had at all
 *     witness_begin()  marks the log, takes the counters
 *     witness_end()    takes them again: *out is the difference; then begin again, or
 *     witness_close()
 *
 * Two ways to count the loads:
 *
 *     LOG         the server's statement log in English: log_statement=all or log_min_duration_statement=0; csvlog,
 *                 jsonlog, or stderr with %m or %n, and %p in log_line_prefix; log_error_verbosity not terse, for
 *                 the keys. The only one that knows *when* each load began and for which key, parameter or literal,
 *                 and that has the failed and the cancelled ones. What is a load in it, witness_log.h says.
 *     STATEMENTS  pg_stat_statements: calls of the statements whose text contains `statement`, in the database of
 *                 the URL. Leaves out those that failed or were cancelled, and takes statements for one that differ
 *                 in comments and constants only: the text should be in more than a comment, or these be unlike.
 *
 * Redis: INFO commandstats, less our own looking.
 *
 * Threads: begun and ended by one thread; the log and Redis are read by two of its own between begin and end.
 * Time: CLOCK_MONOTONIC; the log's wall clock is converted as it is read.
 * Errors: false, and the reason in `why`. A server that is away during the run, killed or stopped, is no error, and
 * holds nobody up: `caveat` says what is missing.
 */
#pragma once

#include "load/witness/witness_view.h"

#include <stdbool.h>
#include <stdint.h>

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
/* Of those behind the first `from` of them: those whose key begins with a number from `first` to `last`, or with
 * an array of which that is the first. */
uint64_t witness_loads_of(struct witness *witness, uint64_t from, uint64_t first, uint64_t last);
