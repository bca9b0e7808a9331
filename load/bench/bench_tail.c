/* SPDX-License-Identifier: MIT */
/*
 * bench_tail.c - what requests for other products feel while thousands wait for a cold one.
 *
 * Cached products are asked for at a fixed rate, see pace.h; in the middle of it 10 000 connections ask for one cold
 * product at once, of a service with one server loop and of one with two. What was due while they were answered, from
 * the first answer to the last, counts apart; the same hits of a bystander, a process that has no part in the burst, show
 * what of that the machine takes, for ten thousand answers keep every core busy, and so does reading them. It is the
 * service of the other row, and shares Redis.
 *
 * What comes before is the server library's: it reads all that have asked before it looks at anybody twice. A burst of as many
 * constants (/ping) shows that.
 */
#include "load/base/clock.h"
#include "load/bench/bench.h"
#include "load/bench/crowd.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    HERD = 10000,
    QUERY_MS = 600, /* all ask and wait by then */
    WARM_COUNT = 100,
    PER_SECOND = 2000,
    PACE_MS = 1600,
    BEFORE_MS = 300, /* the burst comes this long after the first request */
    CALM_MS = 300,   /* without a burst: about as long as ten thousand are answered */
    CONNECTIONS = 32,
    REPETITIONS = 5,
    LIMIT_MS = 30000,
};

struct tail {
    struct stack_catalogd catalogd;
    uint32_t first; /* of the hundred products that are cached */
    struct samples calm_p50_ms, calm_p99_ms;
    struct samples burst_max_ms, ping_max_ms; /* from the first request to the last answer */
    struct samples p50_ms, p99_ms, max_ms;    /* while they are answered */
    struct samples p99_ratio;                 /* that / without */
    struct samples bystander_p99_ms, bystander_ratio;
};
enum { LOOPS_MAX = 2 };

/* ---- requests for other products ---- */

static bool begin(const struct tail *tail, uint16_t port, struct herd **herd, uint64_t *begin_us)
{
    char path[BURST_PATH_BYTES];
    const struct pace pace = {.ports = {port},
                              .port_count = 1,
                              .path = path,
                              .per_second = PER_SECOND,
                              .duration_ms = PACE_MS,
                              .connection_count = CONNECTIONS,
                              .limit_ms = LIMIT_MS};
    snprintf(path, sizeof path, "/products/{each:%" PRIu32 "-%" PRIu32 "}", tail->first,
             tail->first + WARM_COUNT - 1);
    return bench_pace_begin(&pace, herd, begin_us);
}

static bool run_calm(struct tail *tail)
{
    struct herd *herd = NULL;
    struct latencies latencies;
    uint64_t begin_us;
    if (!begin(tail, tail->catalogd.port, &herd, &begin_us))
        return false;
    begin_us += (uint64_t)BEFORE_MS * 1000;
    const struct bench_span calm = {begin_us, begin_us + (uint64_t)CALM_MS * 1000};
    if (!bench_pace_end(&herd, &calm, 1, &latencies))
        return false;
    samples_add(&tail->calm_p50_ms, latencies.p50_ms);
    samples_add(&tail->calm_p99_ms, latencies.p99_ms);
    return true;
}

enum { ANSWERED, ALL_OF_IT, PART_COUNT };

/* The burst, and meanwhile the others at this port. */
static bool ask_beside(const struct tail *tail, uint16_t port, struct crowd *crowd,
                       struct latencies out[PART_COUNT])
{
    struct herd *herd = NULL;
    uint64_t begin_us;
    if (!begin(tail, port, &herd, &begin_us))
        return false;
    clock_pause_ms(BEFORE_MS);
    bool good = crowd_ask(crowd);
    const struct bench_span spans[PART_COUNT] = {
        [ANSWERED] = {crowd->first_us, crowd->last_us}, [ALL_OF_IT] = {crowd->sent_us, crowd->last_us}};
    return bench_pace_end(&herd, spans, PART_COUNT, out) && good;
}

static bool run_burst(const struct tail *tail, const char *path, uint16_t port,
                      struct latencies latencies[PART_COUNT])
{
    struct crowd crowd = {.ports = {tail->catalogd.port}, .port_count = 1, .size = HERD};
    snprintf(crowd.path, sizeof crowd.path, "%s", path);
    bool good = crowd_open(&crowd) && ask_beside(tail, port, &crowd, latencies);
    crowd_close(&crowd);
    return good;
}

static bool repeat(struct bench *bench, struct tail *tail, uint16_t bystander)
{
    const uint16_t port = tail->catalogd.port;
    char path[BURST_PATH_BYTES], another[BURST_PATH_BYTES];
    struct latencies parts[PART_COUNT], pings[PART_COUNT], aside[PART_COUNT];
    bench_cold_path(bench, path);
    bench_cold_path(bench, another);
    if (!run_calm(tail) || !run_burst(tail, path, port, parts) ||
        !run_burst(tail, another, bystander, aside) || !run_burst(tail, "/ping", port, pings))
        return false;
    samples_add(&tail->burst_max_ms, parts[ALL_OF_IT].max_ms);
    samples_add(&tail->ping_max_ms, pings[ALL_OF_IT].max_ms);
    samples_add(&tail->p50_ms, parts[ANSWERED].p50_ms);
    samples_add(&tail->p99_ms, parts[ANSWERED].p99_ms);
    samples_add(&tail->max_ms, parts[ANSWERED].max_ms);
    samples_add(&tail->bystander_p99_ms, aside[ANSWERED].p99_ms);
    samples_add(&tail->bystander_ratio, parts[ANSWERED].p99_ms / aside[ANSWERED].p99_ms);
    samples_add(&tail->p99_ratio, parts[ANSWERED].p99_ms / tail->calm_p99_ms.at[tail->calm_p99_ms.count - 1]);
    return true;
}

static void report(const struct tail *tail, unsigned loops)
{
    report_heading("Hits on other keys, %d a second, while %d wait for one cold key; %u server loop%s",
                   PER_SECOND, HERD, loops, loops > 1 ? "s" : "");
    report_row("without a burst: p50", "ms", 2, &tail->calm_p50_ms, none);
    report_row("without a burst: p99", "ms", 2, &tail->calm_p99_ms, none);
    report_row("from their first request to their last answer: slowest", "ms", 2, &tail->burst_max_ms, none);
    report_row("the same of as many constants: slowest", "ms", 2, &tail->ping_max_ms, none);
    report_row("while they are answered: p50", "ms", 2, &tail->p50_ms, none);
    report_row("while they are answered: p99", "ms", 2, &tail->p99_ms, none);
    report_row("while they are answered: slowest", "ms", 2, &tail->max_ms, none);
    report_row("while they are answered: p99 of a bystander", "ms", 2, &tail->bystander_p99_ms, none);
    report_row("p99 while they are answered / without", "", 2, &tail->p99_ratio, at_most(3));
    report_row("p99 while they are answered / a bystander's", "", 2, &tail->bystander_ratio, none);
}

/* The cached ones are loaded by a service whose queries are quick. */
static bool start(struct bench *bench, struct tail *tail, unsigned loops)
{
    char delay[32], server_loops[32];
    const char *const settings[] = {server_loops, delay, NULL};
    static const char *const quick[] = {"SERVER_LOOPS=1", NULL};
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    snprintf(server_loops, sizeof server_loops, "SERVER_LOOPS=%u", loops);
    tail->first = bench_cold_products(bench, WARM_COUNT);
    return bench_service_start(bench, &tail->catalogd, quick) &&
           bench_ask_each(tail->catalogd.port, tail->first, WARM_COUNT) &&
           stack_catalogd_stop(&tail->catalogd) && bench_service_start(bench, &tail->catalogd, settings);
}

bool measure_tail(struct bench *bench)
{
    static struct tail tails[LOOPS_MAX];
    bool good = true;
    progress_begin("hits during a burst of 10 000:");
    for (unsigned loops = 1; good && loops <= LOOPS_MAX; loops++)
        good = start(bench, &tails[loops - 1], loops);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        for (unsigned loops = 1; good && loops <= LOOPS_MAX; loops++)
            good = repeat(bench, &tails[loops - 1], tails[LOOPS_MAX - loops].catalogd.port);
    }
    for (unsigned loops = 1; loops <= LOOPS_MAX; loops++) {
        stack_catalogd_stop(&tails[loops - 1].catalogd);
        if (good)
            report(&tails[loops - 1], loops);
    }
    return progress_end(good);
}
