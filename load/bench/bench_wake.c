/* SPDX-License-Identifier: MIT */
/*
 * bench_wake.c - a thousand requests wait in one process for what the other one loads: how soon after the fill they
 * are answered, with the value in the wake-up message, with a look at Redis after it, and without any message.
 *
 * The third pair's login may not subscribe, so it polls. All three pairs run at the same time and take turns.
 */
#include "load/base/clock.h"
#include "load/bench/bench.h"
#include "load/bench/filled.h"
#include "load/bench/hall.h"

#include <pthread.h>
#include <stdio.h>

enum {
    PUSHED,
    READ_AGAIN,
    POLLED,
    WAYS,
    WAITERS = 1000,
    QUERY_MS = 1500,
    LOOK_MS = 700, /* after the last request was written: all wait by then, and the query still runs */
    REPETITIONS = 7,
};

static const char *const names[WAYS] = {"with the value in the message", "by looking again after it",
                                        "by polling, without messages"};

struct way {
    struct stack_catalogd holder, waiting;
    struct hall hall;
    struct samples first_ms, last_ms;
};

/* ---- services ---- */

static bool start_way(struct bench *bench, size_t which, struct way *way)
{
    char delay[32], path[BURST_PATH_BYTES];
    const char *const settings[] = {delay, "SERVER_LOOPS=1", which == PUSHED ? NULL : "PUSH_BYTES=0", NULL};
    struct bench servers = *bench;
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    if (which == POLLED)
        snprintf(servers.redis.url, sizeof servers.redis.url, "redis://deaf:secret@127.0.0.1:%u/0",
                 (unsigned)bench->redis.port);
    struct stack_catalogd *const both[] = {&way->holder, &way->waiting};
    for (size_t i = 0; i < 2; i++) {
        bench_cold_path(bench, path);
        if (!bench_service_start(&servers, both[i], settings) || !bench_ask(both[i]->port, path))
            return false;
    }
    return true;
}

/* ---- one repetition ---- */

struct leader {
    pthread_t thread;
    uint16_t port;
    const char *path;
    bool good;
};

static void *lead(void *leading)
{
    struct leader *leader = leading;
    leader->good = bench_ask(leader->port, leader->path);
    return NULL;
}

static bool wait_loading(const struct way *way)
{
    uint64_t end_us = clock_after_ms(QUERY_MS);
    while (stack_catalogd_metric(&way->holder, "guard_loads_running") < 1) {
        if (clock_us() >= end_us) {
            fprintf(stderr, "bench: the first process does not load\n");
            return false;
        }
        clock_pause_ms(2);
    }
    return true;
}

/* The crowd is connected before the load begins, and asks once it runs. */
static bool wait_and_be_woken(const struct bench *bench, struct way *way)
{
    struct leader leader = {.port = way->holder.port, .path = way->hall.crowd.path};
    if (pthread_create(&leader.thread, NULL, lead, &leader) != 0)
        return false;
    bool good = wait_loading(way) && hall_wait(bench, &way->hall);
    pthread_join(leader.thread, NULL);
    return good && leader.good;
}

static bool repeat(struct bench *bench, struct way *way)
{
    bool good =
        hall_open(bench, &way->hall, &way->waiting, WAITERS, LOOK_MS) && wait_and_be_woken(bench, way);
    hall_close(&way->hall);
    if (!good)
        return false;
    samples_add(&way->first_ms, way->hall.first_ms);
    samples_add(&way->last_ms, way->hall.last_ms);
    return true;
}

/* The message brought the value to nearly all waiters, or to none: then the rows mean what they say. */
static bool shows(const struct way *ways)
{
    double most = (double)WAITERS * REPETITIONS;
    double pushed = stack_catalogd_metric(&ways[PUSHED].waiting, "guard_push_answered_total");
    double others = stack_catalogd_metric(&ways[READ_AGAIN].waiting, "guard_push_answered_total") +
                    stack_catalogd_metric(&ways[POLLED].waiting, "guard_push_answered_total");
    if (pushed >= most * 0.8 && others == 0)
        return true;
    fprintf(stderr, "bench: %.0f of %.0f were answered by a message, %.0f should not have been\n", pushed,
            most, others);
    return false;
}

static void report(const struct way *ways)
{
    char what[64];
    report_heading("%d requests wait in one process while the other loads: from the fill in Redis", WAITERS);
    for (size_t i = 0; i < WAYS; i++) {
        snprintf(what, sizeof what, "to the first, %s", names[i]);
        report_row(what, "ms", 2, &ways[i].first_ms, none);
    }
    for (size_t i = 0; i < WAYS; i++) {
        snprintf(what, sizeof what, "to the last, %s", names[i]);
        report_row(what, "ms", 2, &ways[i].last_ms, none);
    }
}

bool measure_wake(struct bench *bench)
{
    static struct way ways[WAYS];
    progress_begin("1 000 waiters of another process:");
    bool good = filled_tell(bench, true) &&
                stack_redis_do(&bench->redis, "ACL SETUSER deaf on >secret ~* &* +@all -subscribe");
    for (size_t i = 0; good && i < WAYS; i++)
        good = start_way(bench, i, &ways[i]);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        for (size_t w = 0; good && w < WAYS; w++)
            good = repeat(bench, &ways[w]);
    }
    good = good && shows(ways);
    for (size_t i = 0; i < WAYS; i++) {
        stack_catalogd_stop(&ways[i].holder);
        stack_catalogd_stop(&ways[i].waiting);
    }
    if (good)
        report(ways);
    return progress_end(filled_tell(bench, false) && good);
}
