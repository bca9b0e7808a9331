/* SPDX-License-Identifier: MIT */
/*
 * result.h - everything that one run showed, and a report: several of them, side by side.
 *
 *     records + witness_view + marks ---> result_make() ---> struct result --+--> result_table.c  the terminal
 *                                                                ^           +--> result_json.c   a file
 *                                                                +-----------+--> page.c          one HTML page
 *
 * No I/O, no clock in result.c. What is written to JSON can be read back: tables, pages and comparisons are made
 * from the file as well as from the run.
 *
 * Percentiles are exact: nearest rank over all answered requests, no sampling, no buckets. Instants in a result
 * are milliseconds or microseconds since the barrier of its run.
 */
#ifndef LOAD_RESULT_H
#define LOAD_RESULT_H

#include "load/herd.h"
#include "load/record.h"
#include "load/witness.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    RESULT_TEXT_BYTES = 160,
    RESULT_SLICE_MS = 100,  /* of the series */
    RESULT_CURVE_MAX = 256, /* points of the distribution */
    RESULT_MARKS_MAX = 512,
    RESULT_CHECKS_MAX = 64,
    RESULT_HOT_MAX = 10,
    REPORT_RESULTS_MAX = 16,
    RESULT_WHY_BYTES = 256,
};

struct result_quantiles {
    uint64_t count;
    uint64_t min_us, p50_us, p90_us, p95_us, p99_us, p999_us, p9999_us, max_us; /* 0 without a count */
    double mean_us;
};

/* A percentile and its latency; the curve of the distribution on a log scale. */
struct result_point {
    double percent;
    uint64_t us;
};

/* RESULT_SLICE_MS of the run. Requests belong to the slice in which they were due. */
struct result_slice {
    uint32_t due, answered, failed; /* failed: no answer, or 5xx */
    uint32_t p50_us, p99_us, max_us;
    uint32_t loads;   /* that began; LOG only */
    uint32_t running; /* the most that ran at once in a sample */
};

enum result_mark_kind { RESULT_EXPIRY = 0, RESULT_FAULT, RESULT_NOTE };

struct result_mark {
    enum result_mark_kind kind;
    uint32_t at_ms, until_ms; /* until_ms 0: an instant */
    char text[RESULT_TEXT_BYTES];
};

/* Something that had to hold. */
struct result_check {
    char text[RESULT_TEXT_BYTES];     /* as it was written: "loads per expiry <= 1" */
    char measured[RESULT_TEXT_BYTES]; /* "1.00", with its unit */
    bool held;
};

struct result_hot {
    char key[WITNESS_KEY_BYTES];
    uint64_t loads;
};

struct result {
    char name[RESULT_TEXT_BYTES];         /* "fleet", or what the user called it */
    char what[RESULT_TEXT_BYTES];         /* "1000 connections at one instant, 2 targets" */
    char when[32];                        /* ISO 8601, UTC */
    bool is_partial;                      /* interrupted: what there is until then */
    uint32_t duration_ms;                 /* from the barrier to the last answer */
    double offered_per_s, answered_per_s; /* rate only, otherwise 0 */

    uint64_t requests;
    uint64_t outcomes[RECORD_OUTCOMES];
    uint64_t statuses[600];
    uint64_t caches[RECORD_CACHES];
    uint64_t
        stale_answers; /* older than a version whose write was over before the request was sent; see writes */
    bool has_writes;
    struct result_quantiles all, errors; /* all answered; those of them with 5xx */
    struct result_quantiles by_cache[RECORD_CACHES];
    struct result_point curve[RESULT_CURVE_MAX];
    size_t curve_count;
    struct result_slice *slices; /* owned */
    size_t slice_count;

    /* the database's side */
    bool has_loads, has_samples, has_redis;
    char way[24], caveat[192];
    uint64_t loads;
    uint64_t loaded_keys;    /* different ones; LOG only */
    uint32_t ttl_ms;         /* as told; 0: unknown, and then a key counts as one expiry */
    uint64_t expiries;       /* see result_make() */
    double loads_per_expiry; /* the headline; 0 without loads */
    uint32_t peak_running, gaps;
    struct result_hot hot[RESULT_HOT_MAX]; /* the most loaded first */
    size_t hot_count;
    struct witness_command commands[WITNESS_COMMANDS_MAX];
    size_t command_count;
    uint64_t command_sum;

    struct herd_strain strain;
    struct result_mark marks[RESULT_MARKS_MAX]; /* by at_ms */
    size_t mark_count;
    struct result_check checks[RESULT_CHECKS_MAX];
    size_t check_count;
};

/* A write whose new version must be seen by every request that is sent after over_us. */
struct result_write {
    uint32_t key, version;
    uint64_t over_us; /* CLOCK_MONOTONIC */
};

/* What result_make() is made from; everything is lent until it returns. */
struct result_source {
    const char *name, *what;
    const struct work *work;
    const struct records *records;
    const struct witness_view *view; /* NULL: nobody looked */
    const struct herd_strain *strain;
    const struct result_write *writes;
    size_t write_count;
    uint64_t begin_us; /* the barrier */
    uint64_t wall_s;   /* when that was */
    uint32_t ttl_ms;
    uint32_t jitter_percent; /* a value may expire so much earlier than ttl_ms */
    bool is_partial;
};

/*
 * Loads per expiry: the loads of one key are cut into groups; a load belongs to the group of the one before it
 * unless at least ttl_ms, less the jitter, has passed since the group's first. Groups are expiries: the value had
 * to be loaded then. What a group has beyond one is a load that a guard should have saved. Every group is a mark
 * (RESULT_EXPIRY) where there are not more of them than RESULT_MARKS_MAX / 2. Without ttl_ms a key is one group; a
 * way of counting that knows no keys makes one group of everything.
 *
 * False: no memory.
 */
bool result_make(const struct result_source *source, struct result *out);
void result_clear(struct result *result);

void result_mark(struct result *result, enum result_mark_kind kind, uint32_t at_ms, uint32_t until_ms,
                 const char *text);

/* Several runs under one title: one scenario in several variants, or today's and an earlier one. */
struct report {
    char title[RESULT_TEXT_BYTES];
    char about[1024];                           /* what was done and what had to hold, in words */
    char command[512];                          /* how to have it again */
    char machine[256];                          /* cores, kernel, versions of the servers */
    struct result *results[REPORT_RESULTS_MAX]; /* owned */
    size_t result_count;
};

/* The result is the report's from now on. False: too many. */
bool report_add(struct report *report, struct result *result);
bool report_held(const struct report *report); /* every check of every result */
void report_clear(struct report *report);

/* ---- result_table.c: 100 columns at most; no colour unless `is_terminal` ---- */
void report_table(const struct report *report, FILE *out, bool is_terminal);

/* ---- result_json.c ---- */
/* Written to a temporary name first, then renamed: there is never half a file. */
bool report_write(const struct report *report, const char *path, char why[static RESULT_WHY_BYTES]);
/* Names file, place and reason when it is not one of ours. */
bool report_read(struct report *report, const char *path, char why[static RESULT_WHY_BYTES]);

/* ---- result_compare.c ---- */
/* One line per figure that both have (results are matched by name), with the ratio; what the noise of one run can
 * explain is not called a change. True: nothing that matters became worse. */
bool report_compare(const struct report *now, const struct report *earlier, FILE *out);

#endif
