/* SPDX-License-Identifier: MIT */
/*
 * bench_gate.c - what each kind of request costs in numbers that a busy machine does not change, held against those
 * in gate.txt.
 *
 * Instructions and allocations are callgrind's, system calls strace's, commands Redis's own, round trips and what
 * leaves the process's memory for another entry catalogd's: of the service as it is shipped, over a real Redis and
 * PostgreSQL, all threads included. One client asks, one request after the other over one connection, so that nothing
 * is shared; and 64 at once, where lookups, writes and reads are. Hits in Redis are also asked of more products than
 * the process keeps for an outage, where each could put another one out. What runs beside the requests (ticks,
 * probes) is in the numbers and is small, and of three rounds the cheapest counts.
 *
 * A number may grow by its tolerance, of a crowd by twice as much; and by three times as much the calls of what goes
 * through several threads, because how often they find each other asleep is up to the machine. What has shrunk by
 * more is told, for gate.txt should follow. Hits say their age in seconds: how many of them find an answer that says
 * another one is up to how fast the machine is, so their allocations may grow by what that costs. Instructions differ
 * a little between processors, compilers and libraries, the others do not: 5 % finds a header formatted or a value
 * copied once more, and lets a point release of Debian through.
 */
#include "load/base/http.h"
#include "load/bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEYS = 100,                          /* in turn */
    MANY_KEYS = BENCH_GATE_PRODUCTS / 2, /* of those that do not fit, and of two services */
    AT_ONCE = 64,                        /* connections of a crowd */
    REQUESTS = 320,                      /* of one phase: a multiple of AT_ONCE */
    REPETITIONS = 3,                     /* the least counts: what else happens only adds */
    ASK_LIMIT_MS = 20000,
    AGE_ALLOCATIONS = 6, /* three for each line */
};
_Static_assert(REQUESTS % AT_ONCE == 0, "whole crowds");

static const char numbers_path[] = "load/bench/gate.txt";

enum metric { INSTRUCTIONS, ALLOCATIONS, CALLS, COMMANDS, TRIPS, EVICTIONS, METRIC_COUNT };

static const struct {
    const char *name, *word;
    unsigned decimals;
    double share, slack; /* what it may grow by: a share of it, and so much */
} metrics[METRIC_COUNT] = {
    [INSTRUCTIONS] = {"instructions", "instructions", 0, 0.05, 200},
    [ALLOCATIONS] = {"allocations", "allocations", 1, 0.02, 0.2},
    [CALLS] = {"system calls", "calls", 1, 0.05, 0.5},
    [COMMANDS] = {"Redis commands", "commands", 1, 0, 0.2},
    [TRIPS] = {"round trips to Redis", "trips", 1, 0, 0.2},
    [EVICTIONS] = {"entries evicted here", "evictions", 2, 0, 0.1},
};

/* One catalogd each. */
enum service { FAR, NEAR_BY, FULL, SERVICE_COUNT };

static const char *const settings_of[SERVICE_COUNT][3] = {
    [FAR] = {"NEAR_MS=0", "NEAR_BYTES=67108864"},
    [NEAR_BY] = {"NEAR_MS=60000", "NEAR_BYTES=67108864"},
    [FULL] = {"NEAR_MS=0", "NEAR_BYTES=262144"}, /* of MANY_KEYS one third fits */
};

enum errand { PING, NEAR, HIT, HIT_MANY, MISS, INVALIDATION, PING_64, NEAR_64, HIT_64, ERRAND_COUNT };

static const struct {
    const char *name, *word;
    enum service service;
    uint32_t at_once, keys, warm_up; /* requests */
    bool takes_threads;
    bool says_age; /* whichever finds an answer that says another age replaces two of its lines */
} errands[ERRAND_COUNT] = {
    [PING] = {"constant (/ping)", "ping", FAR, 1, KEYS, 64, false, false},
    [NEAR] = {"near hit", "near", NEAR_BY, 1, KEYS, 3 * KEYS, false, true},
    [HIT] = {"hit in Redis", "hit", FAR, 1, KEYS, 3 * KEYS, false, true},
    [HIT_MANY] = {"hit in Redis, more than fit", "hit_many", FULL, 1, MANY_KEYS, 3 * MANY_KEYS, false, true},
    [MISS] = {"miss", "miss", FAR, 1, KEYS, 64, true, false},
    [INVALIDATION] = {"invalidation", "invalidation", FAR, 1, KEYS, 64, true, false},
    [PING_64] = {"constant, 64 at once", "ping_64", FAR, AT_ONCE, KEYS, AT_ONCE, false, false},
    [NEAR_64] = {"near hit, 64 at once", "near_64", NEAR_BY, AT_ONCE, KEYS, 8 * AT_ONCE, false, true},
    [HIT_64] = {"hit in Redis, 64 at once", "hit_64", FAR, AT_ONCE, KEYS, 8 * AT_ONCE, false, true},
};

/* ---- a catalogd under callgrind or strace: watch.sh does it ---- */

struct watched {
    struct stack_catalogd catalogd;
    char folder[PROC_PATH_BYTES];
};

enum { COMMAND_BYTES = 2 * PROC_PATH_BYTES + 64, SETTINGS_MAX = 16 };

static const char watch_path[] = "load/bench/watch.sh";

static bool tell(const struct watched *watched, const char *what, char *text, size_t text_bytes)
{
    char command[COMMAND_BYTES];
    snprintf(command, sizeof command, "sh %s %s %s %d", watch_path, what, watched->folder,
             (int)watched->catalogd.pid);
    bool good = proc_output(command, text, text_bytes);
    if (!good)
        fprintf(stderr, "bench: %s: %s\n", command, text);
    return good;
}

/* One server loop, and the settings. Stop it also if it did not start. */
static bool watched_start(const struct bench *bench, struct watched *watched, const char *tool,
                          const char *const *settings)
{
    static char program[256], folder[PROC_PATH_BYTES + 16], tool_text[32];
    const char *all[SETTINGS_MAX + 1] = {program, folder, tool_text, "SERVER_LOOPS=1"};
    for (size_t i = 0, count = 4; settings[i] != NULL && count < SETTINGS_MAX; i++)
        all[count++] = settings[i];
    if (!proc_folder("watch", NULL, watched->folder))
        return false;
    snprintf(program, sizeof program, "WATCH_PROGRAM=%s", stack_catalogd_program());
    snprintf(folder, sizeof folder, "WATCH_FOLDER=%s", watched->folder);
    snprintf(tool_text, sizeof tool_text, "WATCH_TOOL=%s", tool);
    setenv("CATALOGD", watch_path, 1);
    bool good = bench_service_start(bench, &watched->catalogd, all);
    setenv("CATALOGD", strchr(program, '=') + 1, 1);
    return good;
}

static void watched_stop(struct watched *watched)
{
    stack_catalogd_stop(&watched->catalogd);
    if (watched->folder[0] != '\0')
        proc_remove(watched->folder);
    watched->folder[0] = '\0';
}

/* From here on. */
static bool watched_mark(const struct watched *watched)
{
    char ignored[64];
    return tell(watched, "--mark", ignored, sizeof ignored);
}

/* What it did since, as watch.sh says it. */
static bool watched_count(const struct watched *watched, char *text, size_t text_bytes)
{
    return tell(watched, "--count", text, text_bytes);
}

/* One service under one tool, and what is asked of it. */
struct asked {
    struct bench *bench;
    struct watched watched;
    uint32_t first; /* of the keys */
    uint32_t turn;  /* of them, so far: they are asked in turn */
    enum errand errand;
};

struct gate {
    struct samples at[ERRAND_COUNT][METRIC_COUNT];
    double expected[ERRAND_COUNT][METRIC_COUNT]; /* -1: gate.txt does not say */
    unsigned passed, failed;
};

/* ---- what is asked ---- */

static void path_of(void *context, uint32_t index, char *path)
{
    struct asked *asked = context;
    (void)index;
    if (asked->errand == PING || asked->errand == PING_64)
        snprintf(path, BURST_PATH_BYTES, "/ping");
    else if (asked->errand == MISS)
        bench_cold_path(asked->bench, path);
    else
        snprintf(path, BURST_PATH_BYTES, "/products/%" PRIu32,
                 asked->first + asked->turn++ % errands[asked->errand].keys);
}

/* Over connections that stay open. */
static bool ask_products(struct asked *asked, uint32_t count)
{
    const struct burst_target target = {.host = "127.0.0.1", .port = asked->watched.catalogd.port};
    const struct burst_options options = {.targets = &target,
                                          .target_count = 1,
                                          .connection_count = errands[asked->errand].at_once,
                                          .connect_limit_ms = ASK_LIMIT_MS,
                                          .request_limit_ms = ASK_LIMIT_MS,
                                          .path_of = path_of,
                                          .path_context = asked};
    struct burst *burst = NULL;
    struct burst_summary summary;
    bool good = burst_open(&options, &burst);
    for (uint32_t done = 0; good && done < count; done += options.connection_count) {
        good = burst_run(burst);
        burst_summarise(burst, &summary);
        good = good && summary.statuses[200] == options.connection_count;
    }
    burst_close(&burst);
    return good;
}

/* Each over a connection of its own, as an operator's are. */
static bool invalidate(struct asked *asked, uint32_t count)
{
    bool good = true;
    for (uint32_t i = 0; good && i < count; i++) {
        char path[BURST_PATH_BYTES];
        const struct http_request request = {.host = "127.0.0.1",
                                             .port = asked->watched.catalogd.ops_port,
                                             .method = "POST",
                                             .path = path,
                                             .deadline_ms = ASK_LIMIT_MS};
        struct http_answer answer;
        snprintf(path, sizeof path, "/invalidate?key=product:%" PRIu32, asked->first + asked->turn++ % KEYS);
        good = http_ask(&request, &answer) && answer.status == 200;
        if (!good)
            fprintf(stderr, "bench: gate: POST %s: status %u: %s\n", path, (unsigned)answer.status,
                    answer.body);
        http_answer_clear(&answer);
    }
    return good;
}

static bool ask(struct asked *asked, uint32_t count)
{
    bool good = asked->errand == INVALIDATION ? invalidate(asked, count) : ask_products(asked, count);
    if (!good)
        fprintf(stderr, "bench: gate: %s: not every answer was a 200\n", errands[asked->errand].name);
    return good;
}

/* ---- one phase ---- */

static double trips_of(const struct asked *asked)
{
    return stack_catalogd_metric(&asked->watched.catalogd, "guard_redis_round_trips_total");
}

static double evictions_of(const struct asked *asked)
{
    return stack_catalogd_metric(&asked->watched.catalogd, "guard_near_removed_total{reason=\"evicted\"}");
}

/* From mark to count there is nothing but the requests. */
static bool phase(struct asked *asked, enum errand errand, char *counted, size_t counted_bytes)
{
    asked->errand = errand;
    return ask(asked, errands[errand].warm_up) && watched_mark(&asked->watched) && ask(asked, REQUESTS) &&
           watched_count(&asked->watched, counted, counted_bytes);
}

static bool count_instructions(struct asked *asked, enum errand errand, struct gate *gate)
{
    char counted[256];
    uint64_t instructions = 0, allocations = 0;
    if (!phase(asked, errand, counted, sizeof counted) ||
        sscanf(counted, "%" SCNu64 " %" SCNu64, &instructions, &allocations) != 2)
        return false;
    samples_add(&gate->at[errand][INSTRUCTIONS], (double)instructions / REQUESTS);
    samples_add(&gate->at[errand][ALLOCATIONS], (double)allocations / REQUESTS);
    return true;
}

static bool count_calls(struct asked *asked, enum errand errand, struct gate *gate)
{
    char counted[256];
    uint64_t calls = 0;
    asked->errand = errand;
    if (!ask(asked, errands[errand].warm_up))
        return false;
    double trips = trips_of(asked), evictions = evictions_of(asked);
    uint64_t commands = stack_redis_calls(&asked->bench->redis, NULL);
    if (!watched_mark(&asked->watched) || !ask(asked, REQUESTS) ||
        !watched_count(&asked->watched, counted, sizeof counted) || sscanf(counted, "%" SCNu64, &calls) != 1)
        return false;
    commands = stack_redis_calls(&asked->bench->redis, NULL) - commands;
    samples_add(&gate->at[errand][CALLS], (double)calls / REQUESTS);
    samples_add(&gate->at[errand][COMMANDS], (double)commands / REQUESTS);
    samples_add(&gate->at[errand][TRIPS], (trips_of(asked) - trips) / REQUESTS);
    samples_add(&gate->at[errand][EVICTIONS], (evictions_of(asked) - evictions) / REQUESTS);
    return true;
}

/* ---- one service, one tool ---- */

static bool watch_service(struct bench *bench, struct gate *gate, const char *tool, enum service service)
{
    const uint32_t keys = service == FULL ? MANY_KEYS : KEYS;
    struct asked asked = {.bench = bench, .first = bench_cold_products(bench, keys)};
    const bool calls = strcmp(tool, "strace") == 0;
    bool good = watched_start(bench, &asked.watched, tool, settings_of[service]);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        for (enum errand errand = 0; good && errand < ERRAND_COUNT; errand++) {
            if (errands[errand].service == service)
                good = calls ? count_calls(&asked, errand, gate) : count_instructions(&asked, errand, gate);
        }
    }
    watched_stop(&asked.watched);
    return good;
}

/* ---- gate.txt: "errand metric number", "#" begins a comment ---- */

/* Of a crowd only those: how much of it shares a turn of the loop is up to the machine. */
static enum metric metric_end(enum errand errand)
{
    return errands[errand].at_once == 1 ? METRIC_COUNT : CALLS;
}

static double *place_of(struct gate *gate, const char *errand_word, const char *metric_word)
{
    for (enum errand errand = 0; errand < ERRAND_COUNT; errand++) {
        for (enum metric metric = 0; metric < METRIC_COUNT; metric++) {
            if (strcmp(errands[errand].word, errand_word) == 0 &&
                strcmp(metrics[metric].word, metric_word) == 0)
                return &gate->expected[errand][metric];
        }
    }
    return NULL;
}

static bool read_line(struct gate *gate, const char *line)
{
    char errand[32], metric[32];
    double number;
    if (line[0] == '#' || line[0] == '\n')
        return true;
    double *place =
        sscanf(line, "%31s %31s %lf", errand, metric, &number) == 3 ? place_of(gate, errand, metric) : NULL;
    if (place == NULL)
        fprintf(stderr, "bench: %s: not \"WORK METRIC NUMBER\": %s", numbers_path, line);
    else
        *place = number;
    return place != NULL;
}

static bool read_numbers(struct gate *gate)
{
    char line[128];
    for (enum errand errand = 0; errand < ERRAND_COUNT; errand++) {
        for (enum metric metric = 0; metric < METRIC_COUNT; metric++)
            gate->expected[errand][metric] = -1;
    }
    FILE *file = fopen(numbers_path, "re");
    if (file == NULL) {
        fprintf(stderr, "bench: %s cannot be read: run it from the project's folder\n", numbers_path);
        return false;
    }
    bool good = true;
    while (good && fgets(line, sizeof line, file) != NULL)
        good = read_line(gate, line);
    fclose(file);
    return good;
}

static bool write_numbers(const struct gate *gate)
{
    FILE *file = fopen(numbers_path, "we");
    if (file == NULL)
        return false;
    fprintf(file, "# What a request costs: bench_gate.c. Written by make bench T=gate RENEW=1.\n");
    for (enum errand errand = 0; errand < ERRAND_COUNT; errand++) {
        for (enum metric metric = 0; metric < metric_end(errand); metric++)
            fprintf(file, "%s %s %.*f\n", errands[errand].word, metrics[metric].word,
                    (int)metrics[metric].decimals, samples_smallest(&gate->at[errand][metric]));
    }
    return fclose(file) == 0;
}

/* ---- the verdict ---- */

static double may_grow(enum errand errand, enum metric metric, double expected)
{
    const bool by_chance = metric == CALLS && errands[errand].takes_threads;
    const double times = by_chance ? 3 : errands[errand].at_once > 1 ? 2 : 1;
    const double by_age = metric == ALLOCATIONS && errands[errand].says_age ? AGE_ALLOCATIONS : 0;
    return expected * times * metrics[metric].share + metrics[metric].slack + by_age;
}

static void judge(struct gate *gate, enum errand errand, enum metric metric)
{
    struct samples least = {.count = 0};
    samples_add(&least, samples_smallest(&gate->at[errand][metric]));
    const double expected = gate->expected[errand][metric], number = least.at[0];
    const double may = may_grow(errand, metric, expected);
    const int decimals = (int)metrics[metric].decimals;
    const bool good = expected >= 0 && number <= expected + may;
    report_row_of(errands[errand].name, metrics[metric].name, "", metrics[metric].decimals, &least,
                  expected < 0 ? none : at_most(samples_rounded(expected + may, 1)));
    gate->passed += good;
    gate->failed += !good;
    if (expected < 0)
        printf("gate: %s has no line \"%s %s\"\n", numbers_path, errands[errand].word, metrics[metric].word);
    else if (!good)
        printf("gate: %s: %.*f %s, %.*f in %s, and it may grow by %.*f: find what costs more; if it is "
               "wanted, make bench T=gate RENEW=1\n",
               errands[errand].name, decimals, number, metrics[metric].name, decimals, expected, numbers_path,
               decimals, may);
    else if (number < expected - may)
        printf("gate: %s: %.*f %s, %.*f in %s: it has become cheaper; make bench T=gate RENEW=1\n",
               errands[errand].name, decimals, number, metrics[metric].name, decimals, expected,
               numbers_path);
}

static void report(struct gate *gate)
{
    report_heading("What one request costs, whatever else runs; the goals are %s and its tolerance",
                   numbers_path);
    for (enum errand errand = 0; errand < ERRAND_COUNT; errand++) {
        for (enum metric metric = 0; metric < metric_end(errand); metric++)
            judge(gate, errand, metric);
    }
    printf("%u passed, %u failed\n", gate->passed, gate->failed);
}

bool measure_gate(struct bench *bench)
{
    static struct gate gate;
    const char *renew = getenv("GATE_RENEW");
    const bool renews = renew != NULL && renew[0] != '\0';
    bool good = renews || read_numbers(&gate);
    progress_begin("what a request costs, under callgrind and strace:");
    for (enum service service = 0; good && service < SERVICE_COUNT; service++)
        good = watch_service(bench, &gate, "callgrind", service) &&
               watch_service(bench, &gate, "strace", service);
    progress_end(good);
    if (good && renews)
        good = write_numbers(&gate) && read_numbers(&gate);
    if (good)
        report(&gate);
    bench->gate_closed = gate.failed > 0;
    return good;
}
