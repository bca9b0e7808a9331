/* SPDX-License-Identifier: MIT */
/*
 * faults.c - what caches with several workers do when something breaks: a herd of 500 over both instances each time.
 *
 *     killed   the document is in no cache, and the worker that was the first to ask the origin is killed in
 *              mid-load. Whoever was connected to it is reset
 *     expired  the origin dies, which resets every connection, and the document has expired
 *     dead     the same, and the document is in no cache: how often is the origin tried, and when do clients hear of
 *              it?
 *     purged   all have the document, it changes, one instance is told to drop it; once that is confirmed all ask
 */
#include "load/base/clock.h"
#include "load/base/http.h"
#include "load/peers/peers.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { TTL_MS = 1000, STALE_MS = 10000, KILL_LIMIT_MS = 10000, PURGE_LIMIT_MS = 10000 };
enum { PURGE_BYTES = BURST_PATH_BYTES + 64 };

static const enum figure figures_of_faults[] = {
    FIGURE_KILLED_CALLS, FIGURE_KILLED_GOOD, FIGURE_KILLED_MAX, FIGURE_EXPIRED_GOOD, FIGURE_EXPIRED_MAX,
    FIGURE_DEAD_CALLS,   FIGURE_DEAD_MAX,    FIGURE_PURGE_OLD,  FIGURE_PURGE_CALLS,  FIGURE_COUNT};

/* ---- a herd ---- */

/* What became of it. */
struct reply {
    double good_percent, slowest_ms;
    uint64_t body_hash; /* of the last good answer */
};

static struct reply reply_of(const struct burst *burst, uint64_t body_bytes, struct score *score)
{
    const struct burst_answer *answers = burst_answers(burst);
    struct reply reply = {.body_hash = 0};
    size_t good = 0;
    for (size_t i = 0; i < HERD; i++) {
        const struct burst_answer *answer = &answers[i];
        const double ms = (double)(answer->end_us - answer->sent_us) / 1e3;
        if (answer->outcome == RECORD_ANSWERED && ms > reply.slowest_ms)
            reply.slowest_ms = ms;
        if (!score_tally(score, answer->outcome, answer->status, answer->body_bytes == body_bytes))
            continue;
        reply.body_hash = answer->body_hash;
        good++;
    }
    reply.good_percent = 100.0 * (double)good / HERD;
    return reply;
}

static bool ask(struct peer *peer, struct burst *burst)
{
    return burst_run(burst) || peer_fail(peer, "the burst could not be run");
}

/* ---- killed ---- */

struct killing {
    const struct stage *stage;
    uint64_t mark;
    bool is_killed;
};

/* All requests are written, and the road holds the origin's answers back: the load is under way, however slow the
 * machine is. */
static void kill_loader(void *context)
{
    struct killing *killing = context;
    const struct stage *stage = killing->stage;
    const bool is_begun = stage_wait_for_load(stage, killing->mark, KILL_LIMIT_MS);
    const pid_t loader = atomic_load(&stage->loader);
    killing->is_killed = is_begun && loader > 0 && kill(loader, SIGKILL) == 0;
    proxy_set(stage->road, 0, PROXY_NONE, 0);
}

static bool run_killed(struct stage *stage, struct peer *peer, struct score *score)
{
    struct killing killing = {.stage = stage, .mark = stack_postgres_mark(&stage->postgres)};
    const struct burst_event event = {.run = kill_loader, .context = &killing};
    char path[BURST_PATH_BYTES];
    struct burst *burst = NULL;
    uint64_t body_bytes;
    stage_cold_path(stage, path);
    if (!herd_gather(peer, path, &event, &burst))
        return false;
    atomic_store(&stage->loader, 0);
    proxy_set(stage->road, 0, PROXY_FREEZE_REPLIES, 0);
    bool ran =
        ask(peer, burst) &&
        (killing.is_killed || peer_fail(peer, "not measured: no worker could be killed while it loads"));
    proxy_set(stage->road, 0, PROXY_NONE, 0); /* if the burst could not be run */
    if (ran)
        samples_add(&score->figures[FIGURE_KILLED_CALLS], stage_origin_calls(stage, killing.mark));
    ran = ran && stage_same_body(stage, peer, path, &body_bytes);
    if (ran) {
        const struct reply reply = reply_of(burst, body_bytes, score);
        samples_add(&score->figures[FIGURE_KILLED_GOOD], reply.good_percent);
        samples_add(&score->figures[FIGURE_KILLED_MAX], reply.slowest_ms);
    }
    burst_close(&burst);
    return ran;
}

/* ---- the origin is dead ---- */

static bool ask_dead(struct peer *peer, struct burst *expired, struct burst *cold, struct proxy *road,
                     uint64_t *calls)
{
    proxy_set(road, 0, PROXY_RESET, 0);
    const uint64_t before = proxy_hits(road, PROXY_RESET);
    bool ran = ask(peer, cold);
    *calls = proxy_hits(road, PROXY_RESET) - before;
    ran = ran && ask(peer, expired); /* last: it is renewed after its answers */
    proxy_set(road, 0, PROXY_NONE, 0);
    return ran;
}

static bool run_dead(struct stage *stage, struct peer *peer, struct score *score)
{
    char path[BURST_PATH_BYTES], cold_path[BURST_PATH_BYTES];
    struct burst *expired = NULL, *cold = NULL;
    uint64_t body_bytes, calls;
    stage_cold_path(stage, path);
    stage_cold_path(stage, cold_path);
    if (!stage_same_body(stage, peer, path, &body_bytes))
        return false;
    clock_pause_ms(2 * TTL_MS); /* for nginx, which counts whole seconds */
    bool ran = herd_gather(peer, path, NULL, &expired) && herd_gather(peer, cold_path, NULL, &cold) &&
               ask_dead(peer, expired, cold, stage->road, &calls);
    if (ran) {
        const struct reply of_expired = reply_of(expired, body_bytes, score);
        samples_add(&score->figures[FIGURE_EXPIRED_GOOD], of_expired.good_percent);
        samples_add(&score->figures[FIGURE_EXPIRED_MAX], of_expired.slowest_ms);
        samples_add(&score->figures[FIGURE_DEAD_CALLS], (double)calls);
        samples_add(&score->figures[FIGURE_DEAD_MAX], reply_of(cold, body_bytes, score).slowest_ms);
    }
    burst_close(&expired);
    burst_close(&cold);
    return ran;
}

/* ---- a purge ---- */

static bool change(const struct stage *stage, const char *path)
{
    char statement[PURGE_BYTES];
    snprintf(statement, sizeof statement, "UPDATE products SET price_cents = price_cents + 1 WHERE id = %s",
             strrchr(path, '/') + 1);
    return stack_postgres_query(stage->postgres.url, statement, NULL, 0);
}

static bool purge(struct peer *peer, const char *path)
{
    char text[PURGE_BYTES];
    struct http_answer answer;
    snprintf(text, sizeof text, "%s%s", peer->purge_path, path);
    const struct http_request request = {
        .host = "127.0.0.1", .port = peer->ports[0], .path = text, .deadline_ms = PURGE_LIMIT_MS};
    const bool good = http_ask(&request, &answer) && answer.status == 200;
    http_answer_clear(&answer);
    return good || peer_fail(peer, "the purge was not confirmed");
}

static bool run_purge(struct stage *stage, struct peer *peer, struct score *score)
{
    char path[BURST_PATH_BYTES];
    struct burst *burst = NULL;
    uint64_t body_bytes;
    size_t old = 0;
    stage_cold_path(stage, path);
    if (!stage_same_body(stage, peer, path, &body_bytes) || !herd_gather(peer, path, NULL, &burst))
        return false;
    bool ran = ask(peer, burst);
    const uint64_t old_hash = ran ? reply_of(burst, body_bytes, score).body_hash : 0;
    ran = ran && change(stage, path) && purge(peer, path);
    const uint64_t mark = stack_postgres_mark(&stage->postgres);
    ran = ran && ask(peer, burst);
    samples_add(&score->figures[FIGURE_PURGE_CALLS], stage_origin_calls(stage, mark));
    ran = ran && stage_same_body(stage, peer, path, &body_bytes);
    if (ran) {
        reply_of(burst, body_bytes, score);
        for (size_t i = 0; i < HERD; i++)
            old += burst_answers(burst)[i].body_hash == old_hash;
        samples_add(&score->figures[FIGURE_PURGE_OLD], (double)old);
    }
    burst_close(&burst);
    return ran;
}

/* ---- all of it ---- */

static bool run_faults(struct stage *stage, struct peer *peer, struct score *score)
{
    return run_killed(stage, peer, score) && run_dead(stage, peer, score) &&
           (peer->purge_path == NULL || run_purge(stage, peer, score));
}

const struct contest contest_faults = {
    .name = "faults",
    .title =
        "Faults: 500 requests at once over two instances of two workers, the query takes 200 ms, TTL 1 s",
    .terms = {.ttl_ms = TTL_MS, .stale_ms = STALE_MS},
    .figures = figures_of_faults,
    .needs_workers = true,
    .prepare = contest_prepare,
    .run = run_faults,
};

bool contest_is_for(const struct contest *contest, const struct peer *peer)
{
    return !contest->needs_workers || peer->has_workers;
}
