/* SPDX-License-Identifier: MIT */
/* stage.c - what the contests share: the servers all peers have in common, the meters, the counting. */
#include "load/base/clock.h"
#include "load/base/http.h"
#include "load/base/net.h"
#include "load/base/rank.h"
#include "load/peers/peers.h"
#include "load/stack/stack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PRODUCT_COUNT = 5000,
    DATABASE_CONNECTIONS = 1200,
    ASK_LIMIT_MS = 10000,
    SETTLE_MS = 2 * QUERY_MS, /* a load under way has ended by then */
};

static const char load_marker[] = "/* load product */"; /* what PostgreSQL logs when a product is loaded */

/* ---- servers ---- */

/* It guards nothing, remembers nothing for longer than a millisecond, and has so many workers that it is never the
 * origin that makes a herd wait in a queue. */
static bool start_origin(struct stage *stage)
{
    char delay[48];
    const char *const settings[] = {delay,           "GUARD_MODE=off",   "FRESH_MS=1", "JITTER_PERCENT=0",
                                    "MAX_LOADS=256", "LOAD_QUEUE=10000", NULL};
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    return stack_catalogd_start_over(&stage->origin, &stage->redis, &stage->postgres, settings);
}

/* ---- the road to it ---- */

static void *road_open(void *stage)
{
    return stage;
}

static void road_hear(void *connection, bool is_client, const char *bytes, size_t count, uint64_t now_us)
{
    static const char name[] = "X-Worker: ";
    struct stage *stage = connection;
    const char *worker = is_client ? memmem(bytes, count, name, strlen(name)) : NULL;
    int nobody = 0;
    (void)now_us;
    if (worker != NULL) /* "\r\n" follows */
        atomic_compare_exchange_strong(&stage->loader, &nobody, atoi(worker + strlen(name)));
}

static void road_close(void *connection, uint64_t now_us)
{
    (void)connection;
    (void)now_us;
}

static bool build_road(struct stage *stage)
{
    const struct proxy_ear ear = {road_open, road_hear, road_close, stage};
    struct net_address here, there;
    stage->origin_port = net_free_port();
    return net_address_init(&here, "127.0.0.1", stage->origin_port) &&
           net_address_init(&there, "127.0.0.1", stage->origin.port) && proxy_open(1, &stage->road) &&
           proxy_add_at(stage->road, &here, &there, &ear);
}

bool stage_open(struct stage *stage)
{
    stage->next_product = 1;
    return stack_redis_start(&stage->redis, NULL) &&
           stack_postgres_start(&stage->postgres, DATABASE_CONNECTIONS) &&
           stack_postgres_load(stage->postgres.url, PRODUCT_COUNT) && start_origin(stage) &&
           build_road(stage);
}

void stage_close(struct stage *stage)
{
    proxy_close(&stage->road);
    stack_catalogd_stop(&stage->origin);
    stack_postgres_stop(&stage->postgres);
    stack_redis_stop(&stage->redis);
}

void stage_forget(struct stage *stage)
{
    stack_redis_do(&stage->redis, "FLUSHALL");
}

void stage_cold_path(struct stage *stage, char path[static BURST_PATH_BYTES])
{
    snprintf(path, BURST_PATH_BYTES, "/products/%" PRIu32, stage->next_product++);
}

/* ---- bodies ---- */

static bool ask(uint16_t port, const char *path, struct http_answer *answer)
{
    const struct http_request request = {
        .host = "127.0.0.1", .port = port, .path = path, .deadline_ms = ASK_LIMIT_MS};
    return http_ask(&request, answer) && answer->status == 200;
}

static bool same_as(const struct http_answer *answer, const struct http_answer *other)
{
    return answer->body_bytes == other->body_bytes &&
           memcmp(answer->body, other->body, other->body_bytes) == 0;
}

bool stage_same_body(const struct stage *stage, struct peer *peer, const char *path, uint64_t *body_bytes)
{
    struct http_answer origin;
    bool good = ask(stage->origin.port, path, &origin);
    if (!good)
        peer_fail(peer, "the origin does not answer");
    for (size_t i = 0; good && i < PEER_INSTANCES; i++) {
        struct http_answer answer;
        good = ask(peer->ports[i], path, &answer);
        if (answer.outcome != HTTP_ANSWERED)
            peer_fail(peer, "no answer for %.60s", path);
        else if (!good)
            peer_fail(peer, "status %u for %.60s", (unsigned)answer.status, path);
        else if (!same_as(&answer, &origin))
            good = peer_fail(peer, "another body than the origin's for %.60s", path);
        http_answer_clear(&answer);
    }
    *body_bytes = origin.body_bytes;
    http_answer_clear(&origin);
    return good;
}

/* ---- counting ---- */

bool stage_wait_for_load(const struct stage *stage, uint64_t mark, uint32_t limit_ms)
{
    return stack_postgres_wait(&stage->postgres, mark, load_marker, 1, limit_ms);
}

uint32_t stage_origin_calls(const struct stage *stage, uint64_t mark)
{
    clock_pause_ms(SETTLE_MS);
    return stack_postgres_count(&stage->postgres, mark, load_marker);
}

uint32_t stage_expiries(const struct stage *stage, uint64_t mark, uint32_t ttl_ms)
{
    return stack_postgres_expiries(&stage->postgres, mark, load_marker, ttl_ms);
}

struct meter stage_meter(const struct stage *stage, const struct peer *peer)
{
    struct meter meter = {.redis_us = peer->uses_redis ? proc_cpu_us(stage->redis.pid) : 0};
    for (size_t i = 0; i < PEER_INSTANCES; i++)
        meter.peer_us += proc_cpu_us(peer->pids[i]);
    return meter;
}

void stage_shares(const struct stage *stage, const struct peer *peer, struct meter since, uint64_t requests,
                  struct samples *share, struct samples *redis_share)
{
    struct meter now = stage_meter(stage, peer);
    double each = requests > 0 ? (double)requests : 1;
    double redis_us = (double)(now.redis_us - since.redis_us);
    samples_add(share, ((double)(now.peer_us - since.peer_us) + redis_us) / each);
    if (peer->uses_redis)
        samples_add(redis_share, redis_us / each);
}

static double rank_ms(const uint64_t *sorted_us, size_t count, double percent)
{
    return (double)rank_percentile(sorted_us, count, percent) / 1e3;
}

void score_latencies(struct score *score, uint64_t *times_us, size_t count)
{
    rank_sort(times_us, count);
    samples_add(&score->figures[FIGURE_P50], rank_ms(times_us, count, 50));
    samples_add(&score->figures[FIGURE_P99], rank_ms(times_us, count, 99));
    samples_add(&score->figures[FIGURE_P999], rank_ms(times_us, count, 99.9));
    samples_add(&score->figures[FIGURE_MAX], rank_ms(times_us, count, 100));
}

bool score_tally(struct score *score, enum record_outcome outcome, uint16_t status, bool right_body)
{
    score->asked++;
    if (outcome != RECORD_ANSWERED) {
        score->unanswered[outcome]++;
        return false;
    }
    score->statuses[status < SCORE_STATUSES ? status : 0]++;
    if (status == 200 && !right_body)
        score->wrong_bodies++;
    return status == 200 && right_body;
}
