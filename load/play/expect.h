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
 * `stampede scenario --help` has the figures, parts and operators: expect.c prints them from its table.
 *
 * What could not be measured does not hold: no check passes because nothing came. load/README.md says what that is
 * ("How honest the numbers are").
 *
 * Pure. Errors: false, and one line of text.
 */
#pragma once

#include "load/play/words.h"
#include "load/report/result.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXPECT_WHY_BYTES = WORDS_WHY_BYTES, EXPECT_VARIANT_BYTES = 48 };

enum expect_figure {
    EXPECT_REQUESTS,
    EXPECT_OUTCOME, /* number: enum record_outcome */
    EXPECT_FAILED,
    EXPECT_STATUS, /* number: 200, or 5 for 5xx */
    EXPECT_CACHE,  /* number: enum record_cache */
    EXPECT_PERCENTILE,
    EXPECT_LOADS,
    EXPECT_LOADS_PER_EXPIRY,
    EXPECT_MOST_PER_EXPIRY,
    EXPECT_LOADS_PER_KEY,
    EXPECT_LOADED_KEYS,
    EXPECT_EXPIRIES,
    EXPECT_LOADS_AT_ONCE,
    EXPECT_REDIS_COMMANDS,
    EXPECT_STALE,
    EXPECT_RATE,
    EXPECT_RECOVERY,
    EXPECT_FIGURES
};

enum expect_operator { EXPECT_LESS, EXPECT_AT_MOST, EXPECT_EQUAL, EXPECT_AT_LEAST, EXPECT_MORE };

enum expect_part { EXPECT_ALL = 0, EXPECT_PART_STATUS, EXPECT_PART_URL };

struct expect {
    char text[RESULT_TEXT_BYTES]; /* as it was written */
    enum expect_figure figure;
    unsigned number;   /* of a status, an outcome or a cache's word */
    double percentile; /* 100: the slowest; 0: the quickest */
    enum expect_part part;
    unsigned part_number;
    enum expect_operator operator;
    double wanted; /* a number, a share in percent, microseconds */
    bool is_share, has_window;
    uint32_t from_ms, to_ms;
    char variant[EXPECT_VARIANT_BYTES]; /* "": in each */
    bool is_default;                    /* added by scenario_complete() */
    bool takes_unserved;                /* failed: a redirect or a 4xx is expected */
};

/* Takes all words that are left. */
bool expect_parse(struct words *words, struct expect *out, char why[static EXPECT_WHY_BYTES]);

/* It wants redirects, or answers with a 4xx. */
bool expect_wants_unserved(const struct expect *expect);

/* How the index-th figure is written and what it means; NULL: there are no more. */
const struct words_help *expect_word(size_t index);

/* What a figure needs beyond the requests. */
enum expect_needs {
    EXPECT_NEEDS_LOADS = 1 << 0, /* something counts them */
    EXPECT_NEEDS_KEYS = 1 << 1,  /* the log, which knows keys or instants */
    EXPECT_NEEDS_REDIS = 1 << 2,
    EXPECT_NEEDS_ALL = (1 << 3) - 1
};

unsigned expect_needs(const struct expect *expect);

/* All lent until expect_judge() returns. */
struct expect_source {
    const struct result *result;
    const struct records *records;
    const struct witness_view *view; /* NULL: there was no witness */
    uint64_t begin_us;
};

/* False: no memory. */
bool expect_judge(const struct expect *expect, const struct expect_source *source, struct result_check *out);
