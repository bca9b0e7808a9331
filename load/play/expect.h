/* SPDX-License-Identifier: MIT */
/*
 * expect.h - what must hold, written in words, and whether it did.
 *
 *     FIGURE [of PART] OPERATOR VALUE [from 4s to 6s] [in VARIANT]
 *
 *     loads per expiry <= 1
 *     status 200 >= 99% from 4s to 6s
 *     p99 of url 1 <= 300ms in fleet
 *
 * Figures of requests; VALUE is a number or a share of the requests (99.5%):
 *
 *     requests                 all of them; a number only
 *     answered                 a whole response came, whatever its status
 *     failed                   none came although the client stayed, or it was a 5xx; not known where nothing was served:
 *                              4xx, but not one answer below 400, unless a 4xx status is expected, too
 *     errors                   answers with 5xx
 *     refused, unconnected, reset, timeout, rubbish, left, unsent      see record.h
 *     status 200, status 5xx   answers with this status, with one of this class
 *     cache hit                answers whose Cache-Status says so: none, hit, stale, miss, collapsed, bypass, other
 *
 * Figures of latency, over answered requests, from the instant they were due; VALUE is a time (250ms, 1.5s):
 *
 *     p50, p99, p99.99, ...    nearest rank, exact; not known of so few answers that it is their slowest one's: p99
 *                              takes 100
 *     max, mean
 *
 * Figures of the database and of Redis; VALUE is a number:
 *
 *     loads                    statements that began
 *     loads per expiry         see result.h
 *     loads per key            the most that one key had
 *     loaded keys              different ones
 *     expiries
 *     peak running             the most loads at once that a sample saw
 *     loads at once            the most that ran at once, of those that began in the run; no sample, see
 *                              witness_log.h. Needs log_duration=on, which a stack has if this is expected
 *     redis commands, redis commands per request
 *     stale answers            older than a write that was over before the request was sent
 *     answered per second      over the whole run
 *
 * PART, for requests and latency: errors, status N, cache NAME, url N, target N (the N-th that was given, from 1).
 * A window counts from the barrier; a request belongs to where it was due, a load to where it began. What counts
 * the whole run only (expiry, expiries, redis, stale, per second) has none. OPERATOR: < <= = != >= >.
 *
 * What could not be measured does not hold: no check passes because nothing came.
 *
 *     no load was seen         and none before the run either: the text may be in no statement. Then what is about loads
 *                              is not known, unless it is expected that there is none: loads = 0
 *     more may have been       a log that was cut, a counter that was reset, a role that does not see all: not known,
 *                              but for "at least" what was seen nevertheless
 *     keys are not known       see result.h: not known are loads per expiry, per key, loaded keys and expiries
 *     Redis ran nothing        it may be another one; not known, unless 0 is expected
 *     no Cache-Status          no answer says what a cache did: not known, but for "cache none"
 *     versions were not seen   no answer with one, of a key that was written before: not known are stale answers
 *
 * "failed = 0" is expected by itself, in each variant of which nothing is expected about failed.
 *
 * Pure. Errors: false, and one line of text.
 */
#ifndef LOAD_PLAY_EXPECT_H
#define LOAD_PLAY_EXPECT_H

#include "load/play/words.h"
#include "load/report/result.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXPECT_WHY_BYTES = 1024, EXPECT_VARIANT_BYTES = 48 };

enum expect_figure {
    EXPECT_REQUESTS,
    EXPECT_OUTCOME, /* number: enum record_outcome */
    EXPECT_FAILED,
    EXPECT_ERRORS,
    EXPECT_STATUS, /* number: 200, or 5 for 5xx */
    EXPECT_CACHE,  /* number: enum record_cache */
    EXPECT_PERCENTILE,
    EXPECT_MEAN,
    EXPECT_LOADS,
    EXPECT_LOADS_PER_EXPIRY,
    EXPECT_LOADS_PER_KEY,
    EXPECT_LOADED_KEYS,
    EXPECT_EXPIRIES,
    EXPECT_PEAK_RUNNING,
    EXPECT_LOADS_AT_ONCE,
    EXPECT_REDIS_COMMANDS,
    EXPECT_REDIS_PER_REQUEST,
    EXPECT_STALE,
    EXPECT_RATE,
    EXPECT_FIGURES
};

enum expect_operator {
    EXPECT_LESS,
    EXPECT_AT_MOST,
    EXPECT_EQUAL,
    EXPECT_OTHER,
    EXPECT_AT_LEAST,
    EXPECT_MORE
};

enum expect_part {
    EXPECT_ALL = 0,
    EXPECT_PART_ERRORS,
    EXPECT_PART_STATUS,
    EXPECT_PART_CACHE,
    EXPECT_PART_URL,
    EXPECT_PART_TARGET
};

struct expect {
    char text[RESULT_TEXT_BYTES]; /* as it was written */
    enum expect_figure figure;
    unsigned number;   /* of a status, an outcome or a cache's word */
    double percentile; /* 100: the slowest */
    enum expect_part part;
    unsigned part_number;
    enum expect_operator operator;
    double wanted; /* a number, a share in percent, microseconds */
    bool is_share, has_window;
    uint32_t from_ms, to_ms;
    char variant[EXPECT_VARIANT_BYTES]; /* "": in each */
    bool is_default;                    /* nobody wrote it */
    bool takes_4xx;                     /* failed: a 4xx is expected */
};

/* Takes all words that are left. */
bool expect_parse(struct words *words, struct expect *out, char why[static EXPECT_WHY_BYTES]);

/* It wants answers with a 4xx. */
bool expect_wants_4xx(const struct expect *expect);

/* What a figure needs beyond the requests. */
bool expect_needs_loads(const struct expect *expect); /* somebody counts */
bool expect_needs_keys(const struct expect *expect);  /* the log, which knows keys or instants */
bool expect_needs_ends(const struct expect *expect);  /* when loads ended */
bool expect_needs_samples(const struct expect *expect);
bool expect_needs_redis(const struct expect *expect);

/* All lent until expect_judge() returns. */
struct expect_source {
    const struct result *result;
    const struct records *records;
    const struct witness_view *view; /* NULL: nobody looked */
    uint64_t begin_us;
};

/* False: no memory. */
bool expect_judge(const struct expect *expect, const struct expect_source *source, struct result_check *out);

#endif
