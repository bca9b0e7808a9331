/* SPDX-License-Identifier: MIT */
/*
 * result.h - everything that one run showed, and a report: several of them, side by side.
 *
 *     records + witness_view + marks ---> result_make() ---> struct result --+--> result_table.c    the terminal
 *                          result_make.c   |                     ^           +--> result_json.c     a file
 *       result_latency.c   percentiles, series, noise            |           +--> result_compare.c  then and now
 *       result_expiries.c  loads, keys, expiries                 +-----------+--> page.c            one HTML page
 *       result_ttl.c       how long values live, as it is seen   |           |
 *       result_rounds.c    bursts, from their instants on        |           +--> headline.c        one sentence
 *       result_recovery.c  after a fault                         |
 *
 * What it consists of, its names in JSON and its rows are one table: result_fields.c.
 *
 * No I/O, no clock in result_make(). What is written to JSON can be read back: tables, pages and comparisons are made
 * from the file as well as from the run.
 *
 * Percentiles are exact: nearest rank over all answered requests, no sampling, no buckets. Instants in a result
 * are milliseconds or microseconds since the barrier of its run.
 *
 * Texts may be foreign (a service's keys, a user's words): result_make(), result_mark() and report_read()
 * keep valid UTF-8 without control characters; tables and pages clean and escape what they print once more.
 */
#pragma once

#include "load/base/rank.h"
#include "load/herd/herd.h"
#include "load/herd/record.h"
#include "load/witness/witness.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    RESULT_TEXT_BYTES = 160,
    RESULT_CAVEAT_BYTES = 640,
    RESULT_CONNECTING_BYTES = 400,
    RESULT_SLICES_MAX = 300, /* of the series */
    RESULT_BLOCKS_MAX = 20,  /* of the noise */
    RESULT_BUCKETS = RANK_BUCKETS,
    RESULT_MARKS_MAX = 512,
    RESULT_CHECKS_MAX = 64,
    RESULT_SETTINGS_MAX = 6,
    RESULT_HOT_MAX = 10,
    RESULT_WORST_MAX = 5,
    RESULT_LIFE_LEAST_MS = 250, /* no cache keeps a value for less */
    RESULT_PER_EXPIRY = 8,      /* classes of field_expiry_class() */
    RESULT_STATUSES = 600,
    RESULT_ROUNDS_MAX = 32,
    RESULT_STEPS_MAX = 48,
    RESULT_SAMPLES_MAX = 30,
    RESULT_SAMPLES_EACH = 3,
    RESULT_SAMPLE_BYTES = 256,
    REPORT_RESULTS_MAX = 16,
    RESULT_WHY_BYTES = 256,
};

struct result_quantiles {
    uint64_t count;
    uint64_t min_us, p50_us, p75_us, p90_us, p95_us, p99_us, p999_us, p9999_us,
        max_us; /* 0 without a count */
    double mean_us;
};

/* slice_ms of the run. Requests belong to the slice in which they were due. */
struct result_slice {
    uint32_t due, answered, failed; /* failed: see result_failed() */
    uint32_t p50_us, p99_us, max_us;
    uint32_t
        p99_slices; /* p99_us is that of so many slices together, of which each has it; 0: of too few answers */
    uint32_t loads;  /* that began; LOG only */
    uint32_t needed; /* expiries that began */
};

/* So many of something by so long after the instant of a burst. */
struct result_step {
    uint32_t us, count;
};

/* One burst. Steps are evenly spread over what they count, the first and the last among them. */
struct result_round {
    uint32_t at_ms, due; /* its instant; how many were asked */
    struct result_step answers[RESULT_STEPS_MAX], failures[RESULT_STEPS_MAX];
    struct result_step loads[RESULT_STEPS_MAX]; /* that began before the next round; LOG only */
    size_t answer_count, failure_count, load_count;
};

/* What an answer with a 4xx or 5xx, or a request that failed, looked like. */
struct result_sample {
    char kind[24];                  /* "503", "reset" */
    uint32_t at_ms, took_us;        /* when it was due; until the answer or the failure */
    char url[RESULT_TEXT_BYTES];    /* "127.0.0.1:8080 /products/7" */
    char text[RESULT_SAMPLE_BYTES]; /* the beginning of the body, or what the connection said */
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

/* What a run was set to, which its figures depend on. */
struct result_setting {
    char name[16]; /* "requests" */
    char value[2 * RESULT_TEXT_BYTES];
};

/* Loads of a key, or of one of its expiries. */
struct result_hot {
    char key[WITNESS_KEY_BYTES];
    uint64_t loads;
    uint32_t at_ms; /* the first of them */
};

struct result {
    char name[RESULT_TEXT_BYTES];         /* "fleet", or what the user called it */
    char what[RESULT_TEXT_BYTES];         /* "1000 connections at one instant, 2 targets" */
    char when[32];                        /* ISO 8601, UTC */
    bool is_partial;                      /* interrupted: what there is until then */
    uint32_t duration_ms;                 /* from the barrier to the last answer */
    double offered_per_s, answered_per_s; /* rate only, otherwise 0 */
    bool has_recovery, has_recovered;     /* it is known; p99 came back */
    uint32_t recovery_ms;                 /* see result_recovery.c */
    const char *recovery_unknown;         /* why it is not, a constant; NULL: it is, or read from a file */

    uint64_t requests;
    uint64_t outcomes[RECORD_OUTCOMES];
    uint64_t statuses[RESULT_STATUSES]; /* [0]: those of 600 and more */
    uint64_t caches[RECORD_CACHES];
    bool has_writes;        /* an answer had a version, of a key that was written before */
    uint64_t stale_answers; /* older than a version whose write was over before the request was sent */
    uint64_t write_count;   /* that were over; not in a file */
    struct result_quantiles all, errors; /* all answered; those of them with 5xx */
    struct result_quantiles first;       /* all answered: until their first byte */
    struct result_quantiles connect;     /* by itself; of the requests that a connection was opened for */
    uint64_t received_bytes;             /* heads and bodies */
    double received_per_s;               /* rate only, otherwise 0 */
    uint32_t slice_ms;           /* 1, 2, 5, 10, ...: short enough to see something, long enough for a p99 */
    struct result_slice *slices; /* owned */
    size_t slice_count;
    struct result_round *rounds; /* owned; of a burst: RESULT_ROUNDS_MAX at most, evenly chosen */
    size_t round_count;
    struct result_sample samples[RESULT_SAMPLES_MAX]; /* by kind: the first RESULT_SAMPLES_EACH of it */
    size_t sample_count;

    /*
     * How the latency varied within the run: it is cut into blocks (rounds of a burst, equal spans of a rate), and
     * of each the answers are counted by latency, in buckets 3 % wide. Only for judging noise; see result_compare.c.
     */
    uint32_t (*blocks)[RESULT_BUCKETS]; /* owned; NULL without */
    size_t block_count;

    char connecting[RESULT_CONNECTING_BYTES]; /* why connections were slow or missing; "": not known */

    /* the database's side */
    bool has_loads, has_peak, has_redis;
    bool misses_loads; /* there may have been more: "at least" */
    char way[24];      /* "log", "statements" */
    char caveat[RESULT_CAVEAT_BYTES];
    uint64_t loads;
    uint64_t loaded_keys; /* different ones; LOG only */
    uint32_t ttl_ms;      /* as told; 0: unknown */
    uint32_t ttl_seen_ms; /* what expiries are judged by where nothing was told; see result_ttl.c */
    char ttl_doubt[RESULT_TEXT_BYTES];      /* why nobody may trust the expiries; "": they can be trusted */
    uint64_t expiries;                      /* see result_make(); 0 although there are loads: not known */
    double loads_per_expiry;                /* the headline; 0 without expiries */
    uint64_t most_per_expiry;               /* the most loads of one; the mean hides it; 0 without expiries */
    uint64_t per_expiry[RESULT_PER_EXPIRY]; /* how many expiries had 1 load, 2 loads, ... */
    struct result_hot worst[RESULT_WORST_MAX]; /* the expiries with the most loads, and more than one */
    size_t worst_count;
    const char *keys_unknown; /* why they are not known, a constant; NULL: known, or read from a file */
    uint32_t peak_running;    /* if has_peak: the log has starts and ends */
    struct result_hot hot[RESULT_HOT_MAX]; /* the most loaded first */
    size_t hot_count;
    struct witness_command commands[WITNESS_COMMANDS_MAX];
    size_t command_count;
    uint64_t command_sum;

    struct herd_strain strain;
    struct result_mark marks[RESULT_MARKS_MAX]; /* by at_ms */
    size_t mark_count, marks_left_out;
    struct result_check checks[RESULT_CHECKS_MAX];
    size_t check_count;
    struct result_setting settings[RESULT_SETTINGS_MAX]; /* after result_make() */
    size_t setting_count;
};

/* A write whose new version must be seen by every request that is sent after over_us. CLOCK_MONOTONIC. */
struct result_write {
    uint32_t key, version;
    const char *word; /* what the key is the number of; lent until result_make() returns. NULL: a number */
    uint64_t begun_us, over_us; /* begun_us 0: as over_us */
};

/* What result_make() is made from; everything is lent until it returns. */
struct result_source {
    const char *name, *what;
    const struct work *work;
    const struct records *records;
    const struct witness_view *view; /* NULL: there was no witness */
    const struct herd_strain *strain;
    const struct result_write *writes;
    size_t write_count;
    const uint64_t *drops_us; /* when the tester did what may drop values; CLOCK_MONOTONIC */
    size_t drop_count;
    uint64_t fault_from_us, fault_until_us; /* the first began, the last ended; 0: none, or it did not end */
    const char *connecting;                 /* NULL: nothing */
    uint64_t begin_us;                      /* the barrier */
    uint64_t wall_s;                        /* when that was */
    uint32_t ttl_ms;
    uint32_t jitter_percent; /* a value may expire so much earlier than ttl_ms */
    bool is_partial;
};

/*
 * Loads per expiry: the loads of one key are cut into groups; a load belongs to the group of the one before it unless
 * at least ttl_ms, less the jitter, has passed since the group's first, or a write of that key (the first value of
 * the statement) or what may drop values has begun since the load before. All who ask in a round of a burst ask at
 * the same instant, so a round has one group of a key unless no load came for a whole life. Groups are expiries: the
 * value had to be loaded then. What a group has beyond one is a load that a guard should have saved. Every group is a
 * mark (RESULT_EXPIRY) where there are not more of them than RESULT_MARKS_MAX / 2.
 *
 * Without ttl_ms a key is one group but for writes, as long as its loads come within RESULT_LIFE_LEAST_MS, or in one
 * round. Where they do not, groups are cut by the life that the times of loads show; if they show none, expiries are
 * not known. Either is said in ttl_doubt, and so is a life that is seen, is not the one that was told, and would
 * change the groups.
 *
 * Where the keys are not known there are loads, but neither expiries nor keys nor loads per expiry, and the caveat
 * says why: a way of counting without keys; loads or parameters that the log does not have; or keys that cannot be
 * those of what was asked for, see result_expiries.c.
 *
 * *out needs no init; it is large: allocate it. False: no memory, and nothing to clear.
 */
bool result_make(const struct result_source *source, struct result *out);
void result_clear(struct result *result);

/* Kept in order. Expiries make room for the others when there are too many; marks_left_out counts. */
void result_mark(struct result *result, enum result_mark_kind kind, uint32_t at_ms, uint32_t until_ms,
                 const char *text);
const char *result_mark_name(enum result_mark_kind kind);

/* A percentile in parts of 10 000 (9990: p99.9). Its nearest rank among `count`, from 1; 0 of none. */
uint64_t result_rank(uint64_t count, uint32_t per_10000);
/* False: too few for it, it would only repeat the maximum; tables then print "-". */
bool result_supports(uint64_t count, uint32_t per_10000);
/* No answer, or 5xx; neither hung up as told nor left under way by an interrupted run. */
uint64_t result_failed(const struct result *result);
/* A 2xx, or a 304. A redirect, a 4xx or a 5xx brings nobody what was asked for. */
bool result_status_serves(unsigned status);
/* So many of its checks. */
size_t result_held(const struct result *result);
/* Of its kind. */
bool result_sample_is_first(const struct result *result, size_t index);
bool result_record_failed(const struct record *record);
/* Of a run, since its barrier; what happened before it happened at it. */
uint64_t result_offset_us(const struct result_source *source, uint64_t instant_us);
uint32_t result_offset_ms(const struct result_source *source, uint64_t instant_us);

/* Several runs under one title: one scenario in several variants, or today's and an earlier one. {0} is empty. */
struct report {
    char title[RESULT_TEXT_BYTES];
    char about[1024];                           /* what was done and what had to hold, in words */
    char command[512];                          /* how to have it again */
    char machine[256];                          /* cores, kernel, versions of the servers */
    struct result *results[REPORT_RESULTS_MAX]; /* owned */
    size_t result_count;
};

/* The result, from malloc(), is the report's from now on. False: too many, it is still yours. */
bool report_add(struct report *report, struct result *result);
bool report_held(const struct report *report); /* every check of every result, and none was interrupted */
void report_clear(struct report *report);
/* Result i has texts[i]. True: texts[index] is not "", and no result before it has the same. `who`: "off, local", the
 * names of those that have it, each cut to 60 bytes; "" if all have. */
bool report_shares(const struct report *report, const char *const *texts, size_t index, char *who,
                   size_t who_bytes);

/* ---- result_table.c: 100 columns at most; no colour unless `is_terminal` ---- */
void report_table(const struct report *report, FILE *out, bool is_terminal);
/* Ten lines for those who see it for the first time. */
void report_brief(const struct report *report, FILE *out);

/* ---- result_json.c ---- */
/* Written to a temporary name first, then renamed: there is never half a file. */
bool report_write(const struct report *report, const char *path, char why[static RESULT_WHY_BYTES]);
/* Into an empty report. Names file, place and reason when it is not one of ours; *report is empty again then. */
bool report_read(struct report *report, const char *path, char why[static RESULT_WHY_BYTES]);

/* ---- result_compare.c, which says how it is judged ---- */
/* NULL: none is called so. Two of one name: the first. */
struct result *report_find(const struct report *report, const char *name);
/* "off, local, fleet", cut to fit; "no result". Returns `text`. */
const char *report_names(const struct report *report, char text[static RESULT_WHY_BYTES]);
/* Each setting that is not the same, as "name: earlier -> now". How many there are. */
size_t report_print_differences(const struct result *now, const struct result *earlier, FILE *out);
/* The exit status, too. */
enum report_verdict { REPORT_NOT_WORSE = 0, REPORT_WORSE = 1, REPORT_NOT_COMPARABLE = 2 };
/* One line per figure that both have (results are matched by name), with the ratio; what the noise of one run can
 * explain is not called a change. Runs of other settings are compared only if that is allowed. */
enum report_verdict report_compare(const struct report *now, const struct report *earlier,
                                   bool allows_different, FILE *out);

/* ---- noise: result_noise.c ---- */

/*
 * By how much a figure could differ if the same thing were measured twice.
 *
 * The answers of one run are not independent: they wait for the same query, the same pause of the machine. So it is
 * not single answers but whole blocks of the run (see result.h) that are drawn again, with replacement, both runs
 * apart; the ratio of the two figures is taken each time, and the middle 99 % of these ratios are the interval.
 *
 * Pure: the draws are always the same ones.
 */

enum {
    NOISE_BLOCKS_LEAST = 8, /* with fewer the interval would be too narrow */
    NOISE_DRAWS = 1000,
};

struct noise_interval {
    double low, high; /* of the ratio now / earlier */
};

/* Of a percentile in parts of 10 000. False: too few blocks in one of them, or no answers. */
bool noise_of_percentile(const struct result *now, const struct result *earlier, uint32_t per_10000,
                         struct noise_interval *out);
