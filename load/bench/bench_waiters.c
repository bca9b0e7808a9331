/* SPDX-License-Identifier: MIT */
/*
 * bench_waiters.c - ten thousand requests wait in one process for one product: how soon after the fill the
 * last of them is answered, what answering them costs, and what memory each takes.
 *
 * The measure is a constant: /ping, asked at once on the same ten thousand connections, after they have been
 * answered. Answering is what the process does from when all wait to the last answer; a constant is also read and
 * parsed. Every repetition has a new process, for one that has held ten thousand before keeps some of their memory.
 *
 * All ask a constant first, for the memory of each connection: the server library touches the last of it when it has
 * answered the first request. That has nothing to do with waiting, and is dear where a page fault is: 11 us in some
 * virtual machines. Memory is the growth of the process's resident set from before the first connected to when all
 * wait: connection, buffers and waiter, but not the kernel's socket. What asking the process costs how many wait in
 * it is in no number.
 */
#include "app/common/redis_link.h"
#include "load/base/clock.h"
#include "load/bench/bench.h"
#include "load/herd/burst.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    WAITERS = 10000,
    QUERY_MS = 2000,
    LOOK_MS = 1200, /* after the last request was written: all wait by then, and the query still runs */
    REPETITIONS = 3,
    LIMIT_MS = 60000,
};

/* ---- when a value is stored ---- */

/* The instant at which Redis stores a product's value, of which a keyspace notification tells. */
struct filled {
    pthread_t thread;
    redisContext *context; /* owned */
    uint64_t heard_us;     /* 0: never; valid once the thread is joined */
};

static void *listen_once(void *listening)
{
    struct filled *filled = listening;
    redisReply *reply = NULL;
    if (redisGetReply(filled->context, (void **)&reply) == REDIS_OK)
        filled->heard_us = clock_us();
    freeReplyObject(reply);
    return NULL;
}

/* Tells of every SET whose key names the product's value. */
static bool subscribe(struct filled *filled, const char *path)
{
    const char *id = strrchr(path, '/') + 1;
    redisReply *reply = redisCommand(filled->context, "PSUBSCRIBE __keyspace@0__:*product:%s}:v", id);
    bool good = reply != NULL && reply->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    return good;
}

/* Whether Redis tells of such things at all. */
static bool filled_tell(struct bench *bench, bool tells)
{
    return stack_redis_do(&bench->redis, "CONFIG SET notify-keyspace-events %s", tells ? "K$" : "");
}

/* From now on, for the product of this path ("/products/{id}"). If true, filled_wait() must follow. */
static bool filled_listen(const struct bench *bench, const char *path, struct filled *filled)
{
    *filled = (struct filled){.context = redis_link_to_path(bench->redis.socket_path, LIMIT_MS)};
    if (filled->context != NULL && subscribe(filled, path) &&
        pthread_create(&filled->thread, NULL, listen_once, filled) == 0)
        return true;
    fprintf(stderr, "bench: cannot listen to Redis\n");
    redisFree(filled->context);
    return false;
}

/* When it was stored, by clock_us(); 0: not within a minute. */
static uint64_t filled_wait(struct filled *filled)
{
    pthread_join(filled->thread, NULL);
    redisFree(filled->context);
    if (filled->heard_us == 0)
        fprintf(stderr, "bench: Redis told of no fill within %d s\n", LIMIT_MS / 1000);
    return filled->heard_us;
}

/* ---- one repetition ---- */

struct waiters {
    struct stack_catalogd catalogd;
    char path[BURST_PATH_BYTES]; /* what all ask for */
    struct burst *burst;         /* owned; NULL: none */
    uint64_t sent_us, last_us;   /* the first request and the last answer */

    bool asked, all_wait; /* what look() found */
    uint64_t alone_kib, waiting_kib, looking_us, waiting_us;

    struct samples last_ms, kib_each, cpu_us_each, answer_us_each;
    struct samples constant_last_ms, constant_us_each, last_ratio, answer_ratio, whole_ratio;
};

static void look(void *context)
{
    struct waiters *waiters = context;
    const pid_t pid = waiters->catalogd.pid;
    if (!waiters->asked) /* a constant, for which nobody waits */
        return;
    waiters->waiting_kib = proc_status(pid, "VmRSS");
    waiters->looking_us = proc_cpu_us(pid);
    const double waiting = stack_catalogd_metric(&waiters->catalogd, "catalogd_connections_parked");
    waiters->all_wait = waiting >= WAITERS;
    if (!waiters->all_wait)
        fprintf(stderr, "bench: only %.0f of %d requests wait\n", waiting, WAITERS);
    waiters->waiting_us = proc_cpu_us(pid);
}

static bool connect_all(struct waiters *waiters)
{
    const struct burst_target target = {.host = "127.0.0.1", .port = waiters->catalogd.port};
    const struct burst_event meanwhile = {.after_ms = LOOK_MS, .run = look, .context = waiters};
    const struct burst_options options = {.targets = &target,
                                          .target_count = 1,
                                          .connection_count = WAITERS,
                                          .connect_limit_ms = LIMIT_MS,
                                          .request_limit_ms = LIMIT_MS,
                                          .path = waiters->path,
                                          .events = &meanwhile,
                                          .event_count = 1};
    waiters->alone_kib = proc_status(waiters->catalogd.pid, "VmRSS");
    return burst_open(&options, &waiters->burst);
}

/* All at once; *cpu_us is what it took of the process. */
static bool ask_all(struct waiters *waiters, uint64_t *cpu_us)
{
    const uint64_t before_us = proc_cpu_us(waiters->catalogd.pid);
    struct burst_summary summary;
    bool ran = burst_run(waiters->burst);
    *cpu_us = proc_cpu_us(waiters->catalogd.pid) - before_us;
    const struct burst_answer *answers = burst_answers(waiters->burst);
    burst_summarise(waiters->burst, &summary);
    waiters->sent_us = answers[0].sent_us;
    waiters->last_us = 0;
    for (uint32_t i = 0; i < WAITERS; i++)
        waiters->last_us = answers[i].end_us > waiters->last_us ? answers[i].end_us : waiters->last_us;
    const uint32_t good = summary.statuses[200];
    if (good != WAITERS)
        fprintf(stderr, "bench: only %" PRIu32 " of %d requests were answered with 200\n", good, WAITERS);
    return ran && good == WAITERS;
}

static bool wait_all(const struct bench *bench, struct waiters *waiters)
{
    struct filled filled;
    uint64_t cpu_us;
    if (!filled_listen(bench, waiters->path, &filled))
        return false;
    waiters->asked = true;
    bool good = ask_all(waiters, &cpu_us) && waiters->all_wait;
    waiters->asked = false;
    const uint64_t after_us = proc_cpu_us(waiters->catalogd.pid), filled_us = filled_wait(&filled);
    samples_add(&waiters->last_ms, ((double)waiters->last_us - (double)filled_us) / 1e3);
    samples_add(&waiters->cpu_us_each,
                (double)(cpu_us - (waiters->waiting_us - waiters->looking_us)) / WAITERS);
    samples_add(&waiters->answer_us_each, (double)(after_us - waiters->waiting_us) / WAITERS);
    samples_add(&waiters->kib_each, (double)(waiters->waiting_kib - waiters->alone_kib) / WAITERS);
    return good && filled_us != 0;
}

static bool ask_constants(struct waiters *waiters, uint64_t *cpu_us)
{
    snprintf(waiters->path, sizeof waiters->path, "/ping");
    return ask_all(waiters, cpu_us);
}

static void compare(struct waiters *waiters, uint64_t cpu_us)
{
    const size_t i = waiters->last_ms.count - 1;
    const double last_ms = (double)(waiters->last_us - waiters->sent_us) / 1e3;
    const double us_each = (double)cpu_us / WAITERS;
    samples_add(&waiters->constant_us_each, us_each);
    samples_add(&waiters->constant_last_ms, last_ms);
    samples_add(&waiters->last_ratio, waiters->last_ms.at[i] / last_ms);
    samples_add(&waiters->answer_ratio, waiters->answer_us_each.at[i] / us_each);
    samples_add(&waiters->whole_ratio, waiters->cpu_us_each.at[i] / us_each);
}

static bool gather(struct bench *bench, struct waiters *waiters)
{
    uint64_t cpu_us;
    bool good = connect_all(waiters) && ask_constants(waiters, &cpu_us);
    bench_cold_path(bench, waiters->path);
    good = good && wait_all(bench, waiters) && ask_constants(waiters, &cpu_us);
    burst_close(&waiters->burst);
    if (good)
        compare(waiters, cpu_us);
    return good;
}

static bool repeat(struct bench *bench, struct waiters *waiters)
{
    char delay[32], warm[BURST_PATH_BYTES];
    const char *const settings[] = {delay, NULL};
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    bench_cold_path(bench, warm);
    bool good = bench_service_start(bench, &waiters->catalogd, settings) &&
                bench_ask(waiters->catalogd.port, warm) && gather(bench, waiters);
    stack_catalogd_stop(&waiters->catalogd);
    return good;
}

bool measure_waiters(struct bench *bench)
{
    static struct waiters waiters;
    progress_begin("10 000 waiters in one process:");
    bool good = filled_tell(bench, true);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        good = repeat(bench, &waiters);
    }
    if (good) {
        report_heading("%d requests wait in one process for one product", WAITERS);
        report_row("from the fill to the last answer", "ms", 1, &waiters.last_ms, none);
        report_row("constants at once: from the first request to the last answer", "ms", 1,
                   &waiters.constant_last_ms, none);
        report_row("last answer / constants'", "", 2, &waiters.last_ratio, at_most(1.5));
        report_row("CPU of the process to answer each that waits", "us", 1, &waiters.answer_us_each, none);
        report_row("CPU of the process for each, from request to answer", "us", 1, &waiters.cpu_us_each,
                   none);
        report_row("CPU of the process for each constant", "us", 1, &waiters.constant_us_each, none);
        report_row("CPU to answer / constants'", "", 2, &waiters.answer_ratio, at_most(1.2));
        report_row("CPU from request to answer / constants'", "", 2, &waiters.whole_ratio, none);
        report_row("memory of the process for each", "KiB", 2, &waiters.kib_each, at_most(10));
    }
    return progress_end(filled_tell(bench, false) && good);
}
