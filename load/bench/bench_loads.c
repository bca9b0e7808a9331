/* SPDX-License-Identifier: MIT */
/*
 * bench_loads.c - the two ways to load with libpq: a thread that waits for each query, and deferred loads on the loop that
 * asks (guard/example/queries.h).
 *
 * Each run is a process of its own with a guard and an epoll loop, which asks for cold keys and has as many connections as
 * loads. Only the loader differs. A first round connects, and makes the threads; the second one is measured.
 */
#include "guard/adapters/epoll.h"
#include "guard/example/queries.h"
#include "load/base/clock.h"
#include "load/base/proc.h"
#include "load/bench/bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { LIMIT_MS = 60000, TURN_MS = 1000, TEXT_BYTES = 192 };
enum way { THREADS, DEFERRED, WAY_COUNT };

static const struct course {
    uint32_t loads, load_threads[WAY_COUNT];
    uint32_t open;          /* requests at a time */
    uint32_t first, second; /* keys of the two rounds */
    uint32_t query_ms;
    size_t repetitions;
} quick = {.loads = 8, .load_threads = {8, 1}, .open = 64, .first = 500, .second = 3000, .repetitions = 15},
  slow = {.loads = 1000,
          .load_threads = {1000, 2},
          .open = 1000,
          .first = 1000,
          .second = 1000,
          .query_ms = 1000,
          .repetitions = 5};

/* What a process found. */
struct outcome {
    double misses_per_s, elapsed_ms;
    double cpu_us, switches; /* for each miss */
    double kib, threads;     /* for each load: memory at the peak, beyond what it began with */
};

struct measured {
    struct samples misses_per_s[WAY_COUNT], elapsed_ms[WAY_COUNT], cpu_us[WAY_COUNT], switches[WAY_COUNT],
        kib[WAY_COUNT], threads[WAY_COUNT];
    struct samples misses_ratio, cpu_ratio, kib_ratio;
};

/* ---- a thread for each query ---- */

struct blocking {
    const char *conninfo, *text;
};

static _Thread_local PGconn *mine;

static void thread_begins(void *context)
{
    const struct blocking *blocking = context;
    mine = PQconnectdb(blocking->conninfo);
}

static void thread_ends(void *context)
{
    (void)context;
    PQfinish(mine);
}

static void load_blocking(struct guard_load *load, void *context)
{
    const struct blocking *blocking = context;
    const char *key = guard_load_key(load);
    PGresult *result = PQexecParams(mine, blocking->text, 1, NULL, &key, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
    else if (PQntuples(result) == 0)
        guard_load_absent(load);
    else
        guard_load_done(load, PQgetvalue(result, 0, 0), (size_t)PQgetlength(result, 0, 0), NULL);
    PQclear(result);
}

/* ---- the process ---- */

struct host {
    const struct course *course;
    enum way way;
    const char *redis_url, *name_space;
    struct blocking blocking;
    struct queries queries;
    struct guard *guard;
    struct guard_kind *rows;
    struct guard_loop *loop;
    struct guard_epoll *ours;
    int epoll;
    uint32_t asked, answered, good;
};

static bool host_watch(const struct host *host, int fd, void *what)
{
    struct epoll_event event = {EPOLLIN, {.ptr = what}};
    return epoll_ctl(host->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool host_open(struct host *host)
{
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    struct guard_policy policy = GUARD_POLICY_DEFAULTS;
    struct guard_error error = {.text = ""};
    config.redis_url = host->redis_url;
    config.name_space = host->name_space;
    config.max_loads = host->course->loads;
    config.load_threads = host->course->load_threads[host->way];
    config.redis_limit_ms = policy.lease_ms / 3;
    policy.load_limit_ms = policy.deadline_ms = policy.max_hold_ms = LIMIT_MS;
    policy.loader = queries_load;
    policy.context = &host->queries;
    if (host->way == THREADS) {
        config.thread_begins = thread_begins;
        config.thread_ends = thread_ends;
        config.thread_context = policy.context = &host->blocking;
        policy.loader = load_blocking;
    }
    host->epoll = epoll_create1(EPOLL_CLOEXEC);
    bool good = guard_open(&config, &host->guard, &error) == GUARD_OK &&
                guard_kind_add(host->guard, &policy, &host->rows, &error) == GUARD_OK &&
                guard_epoll_attach(host->guard, &host->ours, &host->loop, &error) == GUARD_OK &&
                host_watch(host, host->ours->fd, host->ours);
    if (!good)
        fprintf(stderr, "bench: %s\n", error.text);
    return good &&
           (host->way == THREADS || (queries_open(&host->queries, host->blocking.conninfo,
                                                  host->blocking.text, host->course->loads, host->loop) &&
                                     host_watch(host, host->queries.fd, &host->queries)));
}

static void host_turn(struct host *host)
{
    struct epoll_event events[2];
    int count = epoll_wait(host->epoll, events, 2, guard_epoll_before_wait(host->ours, TURN_MS));
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == &host->queries)
            queries_ready(&host->queries);
        else
            guard_epoll_ready(host->ours);
    }
}

static void note_answer(void *context, const struct guard_result *result)
{
    struct host *host = context;
    host->answered++;
    host->good += result->status == GUARD_OK && result->source == GUARD_FROM_LOAD;
}

static bool ask(struct host *host)
{
    char key[16];
    struct guard_request request = {
        .kind = host->rows, .key = key, .loop = host->loop, .answered = note_answer, .context = host};
    snprintf(key, sizeof key, "%u", (unsigned)++host->asked);
    return guard_get(host->guard, &request, NULL, NULL) == GUARD_OK;
}

/* So many keys that nobody has asked for. */
static bool ask_round(struct host *host, uint32_t count)
{
    const uint32_t end = host->asked + count;
    while (host->answered < end) {
        while (host->asked < end && host->asked - host->answered < host->course->open)
            if (!ask(host))
                return false;
        host_turn(host);
    }
    return host->good == end;
}

static double cpu_us(const struct rusage *usage)
{
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1e6 +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

static bool host_measure(struct host *host, struct outcome *outcome)
{
    const struct course *course = host->course;
    const pid_t self = getpid();
    struct rusage before, after;
    const uint64_t began_kib = proc_status(self, "VmRSS");
    if (!host_open(host) || !ask_round(host, course->first))
        return false;
    const uint64_t began_us = clock_us();
    getrusage(RUSAGE_SELF, &before);
    if (!ask_round(host, course->second))
        return false;
    getrusage(RUSAGE_SELF, &after);
    outcome->elapsed_ms = (double)(clock_us() - began_us) / 1000;
    outcome->misses_per_s = course->second / outcome->elapsed_ms * 1000;
    outcome->cpu_us = (cpu_us(&after) - cpu_us(&before)) / course->second;
    outcome->switches = (double)(after.ru_nvcsw - before.ru_nvcsw) / course->second;
    outcome->kib = (double)(proc_status(self, "VmHWM") - began_kib) / course->loads;
    outcome->threads = (double)proc_status(self, "Threads");
    return true;
}

/* In a process of its own, which ends without closing anything: what it has found is all that counts. */
static void be_host(const struct bench *bench, const struct course *course, enum way way, int pipe)
{
    static struct host host;
    static unsigned runs;
    char text[TEXT_BYTES], name_space[32];
    struct outcome outcome;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(LIMIT_MS / 1000);
    snprintf(name_space, sizeof name_space, "loads.%d.%u", (int)getpid(), runs++);
    snprintf(text, sizeof text,
             course->query_ms > 0 ? "SELECT row_to_json(p)::text FROM products AS p, pg_sleep(%u / 1000.0) "
                                    "WHERE p.id = $1::bigint"
                                  : "SELECT row_to_json(p)::text FROM products AS p WHERE p.id = $1::bigint",
             (unsigned)course->query_ms);
    host = (struct host){.course = course,
                         .way = way,
                         .redis_url = bench->redis.url,
                         .name_space = name_space,
                         .blocking = {bench->postgres.url, text}};
    bool good = host_measure(&host, &outcome) && write(pipe, &outcome, sizeof outcome) == sizeof outcome;
    if (!good)
        fprintf(stderr, "bench: %u of %u requests were answered with a row\n", (unsigned)host.good,
                (unsigned)host.asked);
    _exit(good ? 0 : 1);
}

/* ---- both ways in turns ---- */

/* PostgreSQL has room for the connections of one process, not of two. */
static bool wait_disconnected(const struct bench *bench)
{
    enum { PIDS = 64, OWN = 20 };
    pid_t pids[PIDS];
    const uint64_t end_us = clock_us() + (uint64_t)LIMIT_MS * 1000;
    while (proc_family(bench->postgres.pid, pids, PIDS) > OWN) {
        if (clock_us() > end_us)
            return false;
        clock_pause_ms(10);
    }
    return true;
}

static bool run(const struct bench *bench, const struct course *course, enum way way, struct outcome *outcome)
{
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        be_host(bench, course, way, ends[1]);
    close(ends[1]);
    bool good = child > 0 && read(ends[0], outcome, sizeof *outcome) == sizeof *outcome;
    close(ends[0]);
    return child > 0 && proc_wait(child, LIMIT_MS, NULL) && wait_disconnected(bench) && good;
}

static bool repeat(const struct bench *bench, const struct course *course, bool turned, struct measured *out)
{
    struct outcome outcome[WAY_COUNT];
    for (enum way i = 0; i < WAY_COUNT; i++) {
        enum way way = turned ? (enum way)(DEFERRED - i) : i;
        if (!run(bench, course, way, &outcome[way]))
            return false;
        samples_add(&out->misses_per_s[way], outcome[way].misses_per_s);
        samples_add(&out->elapsed_ms[way], outcome[way].elapsed_ms);
        samples_add(&out->cpu_us[way], outcome[way].cpu_us);
        samples_add(&out->switches[way], outcome[way].switches);
        samples_add(&out->kib[way], outcome[way].kib);
        samples_add(&out->threads[way], outcome[way].threads);
    }
    samples_add(&out->misses_ratio, outcome[DEFERRED].misses_per_s / outcome[THREADS].misses_per_s);
    samples_add(&out->cpu_ratio, outcome[DEFERRED].cpu_us / outcome[THREADS].cpu_us);
    samples_add(&out->kib_ratio, outcome[DEFERRED].kib / outcome[THREADS].kib);
    return true;
}

static bool run_course(const struct bench *bench, const struct course *course, const char *name,
                       struct measured *out)
{
    progress_begin(name);
    bool good = true;
    for (size_t i = 0; good && i < course->repetitions; i++) {
        progress_repetition(i + 1);
        good = repeat(bench, course, i % 2 == 1, out);
    }
    return progress_end(good);
}

static const struct goal none = {GOAL_NONE, 0};
static const char *const names[WAY_COUNT] = {"threads", "deferred"};

static void report_both(const char *what, const char *unit, unsigned decimals, const struct samples *samples)
{
    for (enum way way = 0; way < WAY_COUNT; way++)
        report_row_of(names[way], what, unit, decimals, &samples[way], none);
}

static void report(const struct measured *many, const struct measured *once)
{
    report_heading(
        "Loads by libpq: %d threads, or deferred to the loop; 8 connections, %d requests at a time",
        (int)quick.loads, (int)quick.open);
    report_both("misses", "1/s", 0, many->misses_per_s);
    report_both("CPU of the process for each miss", "us", 1, many->cpu_us);
    report_both("times that one of its threads waits, for each", "", 1, many->switches);
    report_row("deferred / threads: misses", "", 2, &many->misses_ratio, none);
    report_row("deferred / threads: CPU", "", 2, &many->cpu_ratio, none);
    report_heading("%d loads at once, a connection each, the query takes %d ms", (int)slow.loads,
                   (int)slow.query_ms);
    report_both("threads of the process", "", 0, once->threads);
    report_both("from the first request to the last answer", "ms", 0, once->elapsed_ms);
    report_both("CPU of the process for each load", "us", 1, once->cpu_us);
    report_both("memory for each, its connection included", "KiB", 1, once->kib);
    report_row("deferred / threads: CPU", "", 2, &once->cpu_ratio, none);
    report_row("deferred / threads: memory", "", 2, &once->kib_ratio, none);
}

bool measure_loads(struct bench *bench)
{
    static struct measured many, once;
    if (!run_course(bench, &quick, "loads by threads and deferred:", &many) ||
        !run_course(bench, &slow, "1 000 loads at once:", &once))
        return false;
    report(&many, &once);
    return true;
}
