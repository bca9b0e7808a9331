/* SPDX-License-Identifier: MIT */
/*
 * bench_sizes.c - hits of 1 KiB to 1 MiB, beside a server of libmicrohttpd's that has nothing else to do than to send as
 * many bytes (rival.h); which copies are made of a value on its way; and what small hits feel of large ones that the
 * same loop takes from Redis. Each repetition has new processes: where a large body comes to lie in memory can double its CPU
 * or halve it, for as long as a process lives.
 *
 * Copies are counted by valgrind's DHAT: what memcpy and its relatives moved inside the process, by who called them, in
 * bodies per request. What the kernel moves (out of the socket of Redis, into that of the client) comes on top, once each;
 * a constant has the second, too.
 *
 * Small hits come at a fixed rate; beside them a large value is asked for fifty times a second. The measure is what one large hit
 * takes alone: a loop that is handed its bytes all at once is busy with them for no longer.
 */
#include "load/base/http.h"
#include "load/bench/bench.h"
#include "load/bench/contenders.h"
#include "load/bench/watched.h"
#include "load/stack/wrk.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIZES = 4,
    CONNECTIONS = 16,
    SECONDS = 2,
    REPETITIONS = 5,
    LARGE = SIZES - 1,
    COPIED = 2, /* the size at which copies are counted */
    COPY_REQUESTS = 64,
    COPY_ROWS_MAX = 8,
    PER_SECOND = 1000,
    LARGE_PER_SECOND = 50,
    PACE_MS = 3000,
    LIMIT_MS = 10000,
    REST_BYTES = 400, /* what a product has besides its description, and a little more */
    STATEMENT_BYTES = 256,
};
/* Of a near cache one entry may take a 64th: guard/core/near.c. */
#define NEAR_SETTING "NEAR_BYTES=268435456"
static const uint32_t sizes[SIZES] = {1 << 10, 16 << 10, 256 << 10, 1 << 20};
static const char *const size_names[SIZES] = {"1 KiB", "16 KiB", "256 KiB", "1 MiB"};

struct copy {
    char who[64];
    double bodies; /* per request */
};

struct contest {
    struct contenders contenders; /* no rivals; the constants are these */
    struct rival constants[SIZES];
    char paths[SIZES][BURST_PATH_BYTES], small[BURST_PATH_BYTES];
    size_t body_bytes[SIZES];
    struct samples cpu_us[SIZES][HIT + 1], cpu_ratio[SIZES][HIT + 1], rate[SIZES][HIT + 1];
    struct samples large_ms, alone_ms, beside_ms, delay_ratio;
    struct copy copies[2][COPY_ROWS_MAX]; /* near, in Redis; the largest first */
};

/* ---- the products ---- */

static bool make_product(struct bench *bench, struct contest *contest, size_t i)
{
    char statement[STATEMENT_BYTES], ignored[64];
    snprintf(statement, sizeof statement,
             "UPDATE products SET description = repeat('x', %" PRIu32 ") WHERE id = %" PRIu32,
             sizes[i] - REST_BYTES, bench->next_product);
    bench_cold_path(bench, contest->paths[i]);
    return stack_postgres_query(bench->postgres.url, statement, ignored, sizeof ignored);
}

/* Cached, and as long as it should be. */
static bool take_product(struct contest *contest, size_t i)
{
    struct http_answer answer;
    const struct http_request request = {.host = "127.0.0.1",
                                         .port = contest->contenders.near.port,
                                         .path = contest->paths[i],
                                         .deadline_ms = LIMIT_MS};
    bool good =
        bench_ask(contest->contenders.catalogd.port, contest->paths[i]) && http_ask(&request, &answer);
    if (!good)
        return false;
    contest->body_bytes[i] = answer.body_bytes;
    good =
        answer.status == 200 && answer.body_bytes <= sizes[i] && answer.body_bytes > sizes[i] * 3 / 4 - 100;
    if (!good)
        fprintf(stderr, "bench: sizes: a body of %zu bytes instead of %" PRIu32 "\n", answer.body_bytes,
                sizes[i]);
    http_answer_clear(&answer);
    return good && constant_start(&contest->constants[i], contest->body_bytes[i]);
}

/* ---- CPU ---- */

static bool run_one(struct contest *contest, size_t i, enum contender who)
{
    const struct rival *constant = &contest->constants[i];
    const bool is_constant = who == CONSTANT;
    const pid_t pid = is_constant ? constant->pid : contest->contenders.at[who].pid;
    const struct wrk_options options = {.port =
                                            is_constant ? constant->port : contest->contenders.at[who].port,
                                        .path = contest->paths[i],
                                        .connection_count = CONNECTIONS,
                                        .seconds = SECONDS};
    struct wrk_result result;
    uint64_t before_us = proc_cpu_us(pid);
    if (!wrk_run(&options, &result))
        return false;
    samples_add(&contest->cpu_us[i][who], (double)(proc_cpu_us(pid) - before_us) / (double)result.requests);
    samples_add(&contest->rate[i][who], result.requests_per_s);
    return true;
}

static bool run_sizes(struct contest *contest, size_t repetition)
{
    for (size_t i = 0; i < SIZES; i++) {
        for (enum contender who = 0; who <= HIT; who++) {
            if (!run_one(contest, i, who))
                return false;
            samples_add(&contest->cpu_ratio[i][who],
                        contest->cpu_us[i][who].at[repetition] / contest->cpu_us[i][CONSTANT].at[repetition]);
        }
    }
    return true;
}

/* ---- small hits beside large ones ---- */

static struct pace pace_of(const struct contest *contest, const char *path, uint32_t per_second)
{
    return (struct pace){.ports = {contest->contenders.catalogd.port},
                         .port_count = 1,
                         .path = path,
                         .per_second = per_second,
                         .duration_ms = PACE_MS,
                         .connection_count = CONNECTIONS,
                         .limit_ms = LIMIT_MS};
}

static bool run_beside(struct contest *contest)
{
    const struct pace small = pace_of(contest, contest->small, PER_SECOND);
    const struct pace many_bytes = pace_of(contest, contest->paths[LARGE], LARGE_PER_SECOND);
    struct latencies alone, large, beside, ignored;
    struct herd *herd = NULL;
    uint64_t begin_us;
    if (!bench_pace(&small, &alone) || !bench_pace(&many_bytes, &large) ||
        !bench_pace_begin(&many_bytes, &herd, &begin_us))
        return false;
    bool good = bench_pace(&small, &beside);
    if (!bench_pace_end(&herd, &ignored) || !good)
        return false;
    samples_add(&contest->large_ms, large.p50_ms);
    samples_add(&contest->alone_ms, alone.p99_ms);
    samples_add(&contest->beside_ms, beside.p99_ms);
    samples_add(&contest->delay_ratio, (beside.p99_ms - alone.p99_ms) / large.p50_ms);
    return true;
}

/* ---- copies ---- */

static void add_copy(struct copy *copies, const char *who, double bodies)
{
    for (size_t i = 0; i < COPY_ROWS_MAX; i++) {
        if (copies[i].who[0] == '\0')
            snprintf(copies[i].who, sizeof copies[i].who, "%s", who);
        if (strcmp(copies[i].who, who) != 0)
            continue;
        copies[i].bodies += bodies;
        return;
    }
}

/* "0x1234: name (file.c:12)": the name alone. */
static void name_of(const char *frame, char name[static 64])
{
    const char *begin = strstr(frame, ": ");
    begin = begin != NULL ? begin + 2 : frame;
    snprintf(name, 64, "%.*s", (int)strcspn(begin, " ("), begin);
}

/* Where memcpy and its like were called from; what is less than a hundredth of the bodies is left out. */
static bool read_copies(const char *folder, double all_bytes, struct copy *copies)
{
    char path[PROC_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/copies", folder);
    json_t *whole = json_load_file(path, 0, NULL), *point;
    const json_t *frames = json_object_get(whole, "ftbl");
    size_t i;
    json_array_foreach(json_object_get(whole, "pps"), i, point)
    {
        const json_t *stack = json_object_get(point, "fs");
        const double bodies = (double)json_integer_value(json_object_get(point, "tb")) / all_bytes;
        char name[64];
        name_of(
            json_string_value(json_array_get(frames, (size_t)json_integer_value(json_array_get(stack, 1)))),
            name);
        if (bodies >= 0.01)
            add_copy(copies, name, bodies);
    }
    json_decref(whole);
    if (frames == NULL)
        fprintf(stderr, "bench: sizes: %s: DHAT wrote nothing\n", path);
    return frames != NULL;
}

static bool count_copies(struct bench *bench, struct contest *contest, bool is_near)
{
    const char *const settings[] = {is_near ? NEAR_SETTING : "NEAR_BYTES=0", is_near ? "NEAR_MS=60000" : NULL,
                                    NULL};
    const double all_bytes = (double)COPY_REQUESTS * (double)contest->body_bytes[COPIED];
    struct watched watched = {.folder = ""};
    bool good = watched_start(bench, &watched, "copies", settings);
    for (size_t i = 0; good && i < COPY_REQUESTS; i++)
        good = bench_ask(watched.catalogd.port, contest->paths[COPIED]);
    good = stack_catalogd_stop(&watched.catalogd) && good &&
           read_copies(watched.folder, all_bytes, contest->copies[!is_near]);
    watched_stop(&watched);
    return good;
}

/* ---- all of it ---- */

static bool make_products(struct bench *bench, struct contest *contest)
{
    static const char longer[] =
        "ALTER TABLE products DROP CONSTRAINT products_description_length"; /* for once */
    char ignored[64];
    bool good = stack_postgres_query(bench->postgres.url, longer, ignored, sizeof ignored);
    for (size_t i = 0; good && i < SIZES; i++)
        good = make_product(bench, contest, i);
    bench_cold_path(bench, contest->small);
    return good;
}

static bool start(struct bench *bench, struct contest *contest)
{
    bool good = contenders_start(bench, &contest->contenders, NEAR_SETTING);
    for (size_t i = 0; good && i < SIZES; i++)
        good = take_product(contest, i);
    return good && bench_ask(contest->contenders.catalogd.port, contest->small);
}

static void stop(struct contest *contest)
{
    for (size_t i = 0; i < SIZES; i++)
        rival_stop(&contest->constants[i]);
    contenders_stop(&contest->contenders);
}

static bool repeat(struct bench *bench, struct contest *contest, size_t repetition)
{
    bool good = start(bench, contest) && run_sizes(contest, repetition) && run_beside(contest);
    stop(contest);
    return good;
}

static void report_size(const struct contest *contest, size_t i)
{
    static const struct goal near = {GOAL_AT_MOST, 1.10};
    static const char *const names[] = {[CONSTANT] = "constant", [NEAR] = "near hit", [HIT] = "hit in Redis"};
    char text[64];
    for (enum contender who = 0; who <= HIT; who++) {
        snprintf(text, sizeof text, "%s, %s", size_names[i], names[who]);
        report_row_of(text, "answers", "1/s", 0, &contest->rate[i][who], none);
        report_row_of(text, "CPU", "us", 2, &contest->cpu_us[i][who], none);
        if (who != CONSTANT)
            report_row_of(text, "CPU / constant's", "", 2, &contest->cpu_ratio[i][who],
                          who == NEAR ? near : none);
    }
}

static void report_copies(const char *name, const struct copy *copies)
{
    char text[64];
    for (size_t i = 0; i < COPY_ROWS_MAX && copies[i].who[0] != '\0'; i++) {
        struct samples bodies = {.count = 0};
        samples_add(&bodies, copies[i].bodies);
        snprintf(text, sizeof text, "%s: bodies copied by %.30s()", name, copies[i].who);
        report_row(text, "", 2, &bodies, none);
    }
}

static void report(const struct contest *contest)
{
    report_heading("Sizes: 1 server loop, %d connections, beside a constant as long", CONNECTIONS);
    for (size_t i = 0; i < SIZES; i++)
        report_size(contest, i);
    report_heading("Copies of a value of %s in each of %d requests, a miss or a first hit among them",
                   size_names[COPIED], COPY_REQUESTS);
    report_copies("near hit", contest->copies[0]);
    report_copies("hit in Redis", contest->copies[1]);
    report_heading("Small hits in Redis, %d a second, beside %d of %s from the same loop", PER_SECOND,
                   LARGE_PER_SECOND, size_names[LARGE]);
    report_row("p99 alone", "ms", 2, &contest->alone_ms, none);
    report_row("p99 beside large ones", "ms", 2, &contest->beside_ms, none);
    report_row("a large hit alone, p50", "ms", 2, &contest->large_ms, none);
    report_row("what p99 grows by / a large hit", "", 2, &contest->delay_ratio, at_most(1));
}

bool measure_sizes(struct bench *bench)
{
    static struct contest contest;
    progress_begin("hits of 1 KiB to 1 MiB, beside constants:");
    bool good = make_products(bench, &contest);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        good = repeat(bench, &contest, i);
    }
    good = good && count_copies(bench, &contest, true) && count_copies(bench, &contest, false);
    if (good)
        report(&contest);
    return progress_end(good);
}
