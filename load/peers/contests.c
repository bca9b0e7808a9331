/* SPDX-License-Identifier: MIT */
/*
 * contests.c - what the caches are asked for.
 *
 *     burst    500 requests at once for a document that nobody has asked for, half of them on each instance.
 *              Every repetition takes a document of its own
 *     rolling  one hot document that expires every second, asked for 2 000 times a second over both instances. An
 *              expiry is one time that the document had to be loaded: loads that began within its TTL belong
 *              together. One load for each is what a cache can do; two instances that know nothing of each other have
 *              two
 *     hits     one document that does not expire: as fast as one instance answers (wrk, 64 connections), then 1 000 a
 *              second over both, timed from when each was due
 */
#include "load/herd/herd.h"
#include "load/peers/peers.h"
#include "load/stack/rival.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    STALE_MS = 10000,
    LONG_TTL_MS = 600000,
    SHORT_TTL_MS = 1000,
    BURST_LIMIT_MS = 30000,
    CONNECT_LIMIT_MS = 5000,
    PACED_LIMIT_MS = 5000,
    ROLLING_PER_SECOND = 2000,
    ROLLING_CONNECTIONS = 200,
    HITS_PER_SECOND = 1000,
    HITS_SECONDS = 2,
    HITS_CONNECTIONS = 64,
    WRK_SECONDS = 2,
    WARM_SECONDS = 1,
};

/* ---- a cold burst ---- */

static const enum figure figures_of_burst[] = {FIGURE_ORIGIN_CALLS, FIGURE_GOOD,  FIGURE_P50,  FIGURE_P99,
                                               FIGURE_P999,         FIGURE_MAX,   FIGURE_SPAN, FIGURE_RATE,
                                               FIGURE_CPU,          FIGURE_REDIS, FIGURE_COUNT};

bool herd_gather(struct peer *peer, const char *path, const struct burst_event *event, struct burst **burst)
{
    static struct burst_target targets[PEER_INSTANCES]; /* lent until the burst is closed */
    for (size_t i = 0; i < PEER_INSTANCES; i++)
        targets[i] = (struct burst_target){.host = "127.0.0.1", .port = peer->ports[i]};
    const struct burst_options options = {.targets = targets,
                                          .target_count = PEER_INSTANCES,
                                          .connection_count = HERD,
                                          .connect_limit_ms = BURST_LIMIT_MS,
                                          .request_limit_ms = BURST_LIMIT_MS,
                                          .path = path,
                                          .events = event,
                                          .event_count = event != NULL};
    return burst_open(&options, burst) || peer_fail(peer, "not everybody could be connected");
}

static void judge_burst(const struct burst *burst, uint64_t body_bytes, struct score *score)
{
    const struct burst_answer *answers = burst_answers(burst);
    static uint64_t times_us[HERD];
    uint64_t first_us = UINT64_MAX, last_us = 0;
    size_t answered = 0, good = 0;
    for (size_t i = 0; i < HERD; i++) {
        if (answers[i].outcome == RECORD_ANSWERED) {
            times_us[answered++] = answers[i].end_us - answers[i].sent_us;
            first_us = answers[i].end_us < first_us ? answers[i].end_us : first_us;
            last_us = answers[i].end_us > last_us ? answers[i].end_us : last_us;
        }
        good +=
            score_tally(score, answers[i].outcome, answers[i].status, answers[i].body_bytes == body_bytes);
    }
    struct burst_summary summary;
    burst_summarise(burst, &summary);
    score_latencies(score, times_us, answered);
    samples_add(&score->figures[FIGURE_SPAN], answered > 0 ? (double)(last_us - first_us) / 1e3 : 0);
    samples_add(&score->figures[FIGURE_GOOD], 100.0 * (double)good / HERD);
    samples_add(&score->figures[FIGURE_RATE],
                summary.span_us > 0 ? (double)answered * 1e6 / (double)summary.span_us : 0);
}

static bool run_burst(struct stage *stage, struct peer *peer, struct score *score)
{
    char path[BURST_PATH_BYTES];
    struct burst *burst = NULL;
    uint64_t body_bytes;
    stage_cold_path(stage, path);
    if (!herd_gather(peer, path, NULL, &burst))
        return false;
    uint64_t mark = stack_postgres_mark(&stage->postgres);
    struct meter before = stage_meter(stage, peer);
    bool ran = burst_run(burst) || peer_fail(peer, "the burst could not be run");
    stage_shares(stage, peer, before, HERD, &score->figures[FIGURE_CPU], &score->figures[FIGURE_REDIS]);
    samples_add(&score->figures[FIGURE_ORIGIN_CALLS], stage_origin_calls(stage, mark));
    ran = ran && stage_same_body(stage, peer, path, &body_bytes);
    if (ran)
        judge_burst(burst, body_bytes, score);
    burst_close(&burst);
    return ran;
}

/* One burst that does not count: threads, connections to Redis and compiled code are there afterwards. */
static bool prepare_burst(struct stage *stage, struct peer *peer)
{
    static struct score unread;
    unread = (struct score){.asked = 0};
    return run_burst(stage, peer, &unread);
}

const struct contest contest_burst = {
    .name = "burst",
    .title = "A cold burst: 500 requests at once over two instances, the query takes 200 ms",
    .terms = {.ttl_ms = LONG_TTL_MS, .stale_ms = STALE_MS},
    .figures = figures_of_burst,
    .prepare = prepare_burst,
    .run = run_burst,
};

/* ---- at a fixed rate ---- */

/* Requests for one document, in turn over both instances, which have it when it begins. */
struct paced {
    const char *path;
    uint32_t per_second, seconds;
    uint32_t connection_count;
    uint32_t limit_ms;
    uint32_t ttl_ms;
};

/* Answers a second: what came at the pace that was asked for counts as that pace, whatever its last answer took. */
static double rate_of(const struct paced *paced, size_t answered, uint64_t span_us)
{
    uint64_t planned_us = (uint64_t)paced->seconds * 1000000;
    if (span_us < planned_us + planned_us / 100)
        span_us = planned_us;
    return (double)answered * 1e6 / (double)span_us;
}

static void judge_paced(const struct paced *paced, const struct records *records, uint64_t body_bytes,
                        struct score *score)
{
    uint64_t *times_us = calloc(records->count + 1, sizeof *times_us), last_us = 0;
    size_t answered = 0, good = 0;
    if (times_us == NULL)
        abort();
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->at[i];
        if (record->outcome == RECORD_ANSWERED)
            times_us[answered++] = record->end_us;
        if (record->due_us + record->end_us > last_us)
            last_us = record->due_us + record->end_us;
        good += score_tally(score, (enum record_outcome)record->outcome, record->status,
                            record->body_bytes == body_bytes);
    }
    score_latencies(score, times_us, answered);
    samples_add(&score->figures[FIGURE_GOOD], 100.0 * (double)good / (double)records->count);
    samples_add(&score->figures[FIGURE_RATE], rate_of(paced, answered, last_us - records->at[0].due_us));
    free(times_us);
}

static void note_strain(struct score *score, const struct herd_strain *strain)
{
    if (!strain->is_bottleneck)
        return;
    score->strained_count++;
    snprintf(score->strain, sizeof score->strain, "%s", strain->verdict);
}

static void count_calls(const struct stage *stage, const struct paced *paced, uint64_t mark,
                        struct score *score)
{
    uint32_t calls = stage_origin_calls(stage, mark);
    uint32_t expiries = stage_expiries(stage, mark, paced->ttl_ms);
    samples_add(&score->figures[FIGURE_ORIGIN_CALLS], calls);
    if (expiries > 0)
        samples_add(&score->figures[FIGURE_CALLS_PER_EXPIRY], (double)calls / expiries);
}

/* By one generator, over both instances in turn. *records is the caller's to clear. */
static bool ask_at_pace(const struct peer *peer, const struct paced *paced, struct records *records,
                        struct herd_strain *strain, char why[static WORK_WHY_BYTES])
{
    static struct work work; /* the herd takes a copy */
    struct herd *herd = NULL;
    char target[32], ignored[WORK_WHY_BYTES];
    uint64_t begin_us;
    work_init(&work);
    work.shape = WORK_RATE;
    work.per_second = paced->per_second;
    work.duration_ms = paced->seconds * 1000;
    work.connection_count = paced->connection_count;
    work.connect_limit_ms = CONNECT_LIMIT_MS;
    work.request_limit_ms = paced->limit_ms;
    work.generator_count = 1;
    for (size_t i = 0; i < PEER_INSTANCES; i++) {
        snprintf(target, sizeof target, "127.0.0.1:%u", (unsigned)peer->ports[i]);
        if (!work_target_parse(target, &work.targets[work.target_count++], why))
            return false;
    }
    if (!work_url_add(&work, paced->path, why) || !herd_start(&work, &herd, why))
        return false;
    if (herd_release(herd, &begin_us, why))
        return herd_end(&herd, records, strain, why);
    herd_abort(herd);
    herd_end(&herd, records, strain, ignored);
    return false;
}

/* Samples of FIGURE_ORIGIN_CALLS, of FIGURE_CALLS_PER_EXPIRY if there were any, and FIGURE_GOOD to FIGURE_REDIS. */
static bool run_paced(struct stage *stage, struct peer *peer, const struct paced *paced, struct score *score)
{
    struct records records = {0};
    struct herd_strain strain;
    uint64_t body_bytes;
    char why[WORK_WHY_BYTES] = "";
    if (!stage_same_body(stage, peer, paced->path, &body_bytes))
        return false;
    uint64_t mark = stack_postgres_mark(&stage->postgres);
    struct meter before = stage_meter(stage, peer);
    bool ran = ask_at_pace(peer, paced, &records, &strain, why) && records.count > 0;
    if (ran) {
        stage_shares(stage, peer, before, records.count, &score->figures[FIGURE_CPU],
                     &score->figures[FIGURE_REDIS]);
        count_calls(stage, paced, mark, score);
        judge_paced(paced, &records, body_bytes, score);
        note_strain(score, &strain);
    }
    records_clear(&records);
    return ran || peer_fail(peer, "%s", why);
}

/* ---- rolling expiry ---- */

static const enum figure figures_of_rolling[] = {FIGURE_ORIGIN_CALLS, FIGURE_CALLS_PER_EXPIRY,
                                                 FIGURE_GOOD,         FIGURE_P50,
                                                 FIGURE_P99,          FIGURE_P999,
                                                 FIGURE_MAX,          FIGURE_RATE,
                                                 FIGURE_CPU,          FIGURE_REDIS,
                                                 FIGURE_COUNT};

static bool run_rolling(struct stage *stage, struct peer *peer, struct score *score)
{
    char path[BURST_PATH_BYTES];
    stage_cold_path(stage, path);
    const struct paced paced = {.path = path,
                                .per_second = ROLLING_PER_SECOND,
                                .seconds = stage->rolling_s,
                                .connection_count = ROLLING_CONNECTIONS,
                                .limit_ms = PACED_LIMIT_MS,
                                .ttl_ms = SHORT_TTL_MS};
    return run_paced(stage, peer, &paced, score);
}

bool contest_prepare(struct stage *stage, struct peer *peer)
{
    uint64_t body_bytes;
    char path[BURST_PATH_BYTES];
    stage_cold_path(stage, path);
    return stage_same_body(stage, peer, path, &body_bytes);
}

const struct contest contest_rolling = {
    .name = "rolling",
    .title = "Rolling expiry: one hot document, TTL 1 s, 2 000 requests a second over two instances",
    .terms = {.ttl_ms = SHORT_TTL_MS, .stale_ms = STALE_MS},
    .figures = figures_of_rolling,
    .prepare = contest_prepare,
    .run = run_rolling,
};

/* ---- hits ---- */

static const enum figure figures_of_hits[] = {
    FIGURE_FULL_RATE, FIGURE_FULL_CPU, FIGURE_FULL_REDIS, FIGURE_GOOD,         FIGURE_P50,
    FIGURE_P99,       FIGURE_P999,     FIGURE_MAX,        FIGURE_ORIGIN_CALLS, FIGURE_COUNT};

static bool run_full(struct stage *stage, struct peer *peer, const char *path, uint32_t seconds,
                     struct score *score)
{
    const struct wrk_options options = {
        .port = peer->ports[0], .path = path, .connection_count = HITS_CONNECTIONS, .seconds = seconds};
    struct wrk_result result;
    struct meter before = stage_meter(stage, peer);
    if (!wrk_run(&options, &result))
        return peer_fail(peer, "wrk saw errors");
    stage_shares(stage, peer, before, result.requests, &score->figures[FIGURE_FULL_CPU],
                 &score->figures[FIGURE_FULL_REDIS]);
    samples_add(&score->figures[FIGURE_FULL_RATE], result.requests_per_s);
    return true;
}

static bool run_hits(struct stage *stage, struct peer *peer, struct score *score)
{
    char path[BURST_PATH_BYTES];
    uint64_t body_bytes;
    stage_cold_path(stage, path);
    const struct paced paced = {.path = path,
                                .per_second = HITS_PER_SECOND,
                                .seconds = HITS_SECONDS,
                                .connection_count = HITS_CONNECTIONS,
                                .limit_ms = PACED_LIMIT_MS,
                                .ttl_ms = LONG_TTL_MS};
    return stage_same_body(stage, peer, path, &body_bytes) &&
           run_full(stage, peer, path, WRK_SECONDS, score) && run_paced(stage, peer, &paced, score);
}

static bool prepare_hits(struct stage *stage, struct peer *peer)
{
    static struct score unread;
    unread = (struct score){.asked = 0};
    char path[BURST_PATH_BYTES];
    uint64_t body_bytes;
    stage_cold_path(stage, path);
    return stage_same_body(stage, peer, path, &body_bytes) &&
           run_full(stage, peer, path, WARM_SECONDS, &unread);
}

const struct contest contest_hits = {
    .name = "hits",
    .title = "Hits on one document: wrk on one instance, then 1 000 requests a second over two",
    .terms = {.ttl_ms = LONG_TTL_MS, .stale_ms = STALE_MS},
    .figures = figures_of_hits,
    .needs_wrk = true,
    .prepare = prepare_hits,
    .run = run_hits,
};
