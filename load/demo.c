/* SPDX-License-Identifier: MIT */
/*
 * demo.c - what a stampede does to a database, and what each guard mode makes of it.
 *
 *     demo demo [--scale N] [--requests N] [--delay MS]     three modes, one table
 *     demo run  [--scale N]                                 a service to play with, until Ctrl-C
 *
 * demo: private servers, two catalogd processes, and all requests at the same instant on one product that
 * nobody has asked for before; the same settings in every mode, wide enough for the whole herd. Queries are
 * counted in PostgreSQL's statement log, Redis commands by Redis. Exits with 0 if every request was answered
 * and the mode fleet made one query.
 */
#include "load/burst.h"
#include "load/net.h"
#include "load/proc.h"
#include "load/stack.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESS_COUNT = 2, MODE_COUNT = 3, READY_LIMIT_MS = 15000, DEADLINE_MS = 120000, SETTING_BYTES = 256 };
static const char *const modes[MODE_COUNT] = {"off", "local", "fleet"};
static const char query_marker[] = "/* load product */";

struct wishes {
    uint32_t scale, requests, delay_ms;
};

static struct servers {
    struct stack_redis redis;
    struct stack_postgres postgres;
    struct stack_catalogd catalogd[PROCESS_COUNT];
} servers;

struct row {
    struct burst_summary summary;
    uint32_t query_count;
    uint64_t redis_commands;
};

/* ---- progress ---- */

static uint64_t step_begin_us;

static void step(const char *text)
{
    step_begin_us = net_now_us();
    printf("  %-58s", text);
    fflush(stdout);
}

static bool step_done(bool good)
{
    if (good)
        printf("%7.1f s\n", (double)(net_now_us() - step_begin_us) / 1e6);
    else
        printf(" failed\n");
    fflush(stdout);
    return good;
}

/* ---- servers ---- */

static bool start_database(uint32_t scale, uint32_t max_connections)
{
    char text[80];
    step("private PostgreSQL");
    if (!step_done(stack_postgres_start(&servers.postgres, max_connections)))
        return false;
    snprintf(text, sizeof text, "%" PRIu32 " products", scale);
    step(text);
    return step_done(stack_postgres_load(servers.postgres.url, scale));
}

static bool start_redis(void)
{
    step("private Redis");
    return step_done(stack_redis_start(&servers.redis, NULL));
}

static void stop_services(void)
{
    for (size_t i = 0; i < PROCESS_COUNT; i++)
        stack_catalogd_stop(&servers.catalogd[i]);
}

static void stop_servers(void)
{
    stop_services();
    stack_postgres_stop(&servers.postgres);
    stack_redis_stop(&servers.redis);
}

/* Half of the herd reaches each process, and each of them can send it all on to the database. */
static bool start_services(const struct wishes *wishes, const char *mode)
{
    char redis[SETTING_BYTES], database[SETTING_BYTES], guard_mode[64], delay[64], workers[64], queue[64];
    snprintf(redis, sizeof redis, "REDIS_URL=%s", servers.redis.url);
    snprintf(database, sizeof database, "DATABASE_URL=%s", servers.postgres.url);
    snprintf(guard_mode, sizeof guard_mode, "GUARD_MODE=%s", mode);
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%" PRIu32, wishes->delay_ms);
    snprintf(workers, sizeof workers, "LOAD_WORKERS=%" PRIu32, wishes->requests / PROCESS_COUNT);
    snprintf(queue, sizeof queue, "LOAD_QUEUE=%" PRIu32, wishes->requests);
    const char *const settings[] = {redis,
                                    database,
                                    guard_mode,
                                    delay,
                                    workers,
                                    queue,
                                    "NAMESPACE=demo",
                                    "FRESH_MS=60000",
                                    "DEADLINE_MS=100000",
                                    "LOAD_LIMIT_MS=60000",
                                    "MAX_HOLD_MS=60000",
                                    NULL};
    for (size_t i = 0; i < PROCESS_COUNT; i++) {
        if (!stack_catalogd_start(&servers.catalogd[i], settings) ||
            !stack_catalogd_wait_ready(&servers.catalogd[i], READY_LIMIT_MS))
            return false;
    }
    return true;
}

/* ---- one mode ---- */

/* Different products for every mode and for warming up; the ids are whatever the seed made. */
static bool product_path(uint32_t number, char *path)
{
    char statement[96], id[32];
    snprintf(statement, sizeof statement, "SELECT id FROM products ORDER BY id OFFSET %" PRIu32 " LIMIT 1",
             number);
    if (!stack_postgres_query(servers.postgres.url, statement, id, sizeof id))
        return false;
    snprintf(path, BURST_PATH_BYTES, "/products/%s", id);
    return id[0] != '\0';
}

static bool ask_all(const char *path, uint32_t requests, struct burst_summary *summary)
{
    struct burst_target targets[PROCESS_COUNT];
    struct burst *burst = NULL;
    for (size_t i = 0; i < PROCESS_COUNT; i++)
        targets[i] = (struct burst_target){.host = "127.0.0.1", .port = servers.catalogd[i].port};
    const struct burst_options options = {.targets = targets,
                                          .target_count = PROCESS_COUNT,
                                          .connection_count = requests,
                                          .connect_limit_ms = READY_LIMIT_MS,
                                          .request_limit_ms = DEADLINE_MS,
                                          .path = path};
    if (!burst_open(&options, &burst))
        return false;
    bool ran = burst_run(burst);
    burst_summarise(burst, summary);
    burst_close(&burst);
    return ran;
}

static bool measure(const struct wishes *wishes, size_t mode, struct row *row)
{
    char warm[BURST_PATH_BYTES], cold[BURST_PATH_BYTES];
    struct burst_summary ignored;
    if (!product_path((uint32_t)mode * 2, warm) || !product_path((uint32_t)mode * 2 + 1, cold) ||
        !ask_all(warm, PROCESS_COUNT, &ignored))
        return false;
    uint64_t mark = stack_postgres_mark(&servers.postgres);
    uint64_t commands_before = stack_redis_calls(&servers.redis, NULL);
    bool ran = ask_all(cold, wishes->requests, &row->summary);
    row->redis_commands = stack_redis_calls(&servers.redis, NULL) - commands_before;
    row->query_count = stack_postgres_count(&servers.postgres, mark, query_marker);
    return ran;
}

static bool run_mode(const struct wishes *wishes, size_t mode, struct row *row)
{
    char text[96];
    snprintf(text, sizeof text, "mode %s: %" PRIu32 " requests at once", modes[mode], wishes->requests);
    step(text);
    bool good = start_services(wishes, modes[mode]) && measure(wishes, mode, row);
    stop_services();
    return step_done(good);
}

/* ---- the table ---- */

/* "200 x 998, 503 x 1, timeout x 1" */
static void describe_answers(const struct burst_summary *summary, char *text, size_t text_bytes)
{
    static const char *const outcomes[BURST_OUTCOMES] = {NULL,      "unconnected", "reset",
                                                         "timeout", "bad",         "left"};
    size_t used = 0;
    text[0] = '\0';
    for (unsigned status = 100; status < 600 && used < text_bytes; status++) {
        if (summary->statuses[status] > 0)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%u x %" PRIu32, used > 0 ? ", " : "",
                                     status, summary->statuses[status]);
    }
    for (size_t i = 1; i < BURST_OUTCOMES && used < text_bytes; i++) {
        if (summary->outcomes[i] > 0)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%s x %" PRIu32, used > 0 ? ", " : "",
                                     outcomes[i], summary->outcomes[i]);
    }
}

static void print_table(const struct row *rows)
{
    printf("\n%-6s %9s  %-22s %8s %9s %9s %9s %15s\n", "mode", "requests", "answers", "queries", "p50 ms",
           "p99 ms", "max ms", "Redis commands");
    for (size_t i = 0; i < MODE_COUNT; i++) {
        const struct burst_summary *summary = &rows[i].summary;
        char answers[128];
        describe_answers(summary, answers, sizeof answers);
        printf("%-6s %9" PRIu32 "  %-22s %8" PRIu32 " %9.1f %9.1f %9.1f %15" PRIu64 "\n", modes[i],
               summary->requests, answers, rows[i].query_count, (double)summary->p50_us / 1e3,
               (double)summary->p99_us / 1e3, (double)summary->max_us / 1e3, rows[i].redis_commands);
    }
    printf("\nqueries: statements started, from PostgreSQL's own log; Redis commands: INFO commandstats, "
           "those run\n"
           "inside scripts included.\n");
}

static bool is_as_promised(const struct row *rows)
{
    bool good = true;
    for (size_t i = 0; i < MODE_COUNT; i++) {
        if (rows[i].summary.outcomes[BURST_ANSWERED] != rows[i].summary.requests) {
            fprintf(stderr, "demo: in mode %s not every request was answered\n", modes[i]);
            good = false;
        }
    }
    const struct row *fleet = &rows[MODE_COUNT - 1];
    if (fleet->query_count != 1 || fleet->summary.statuses[200] != fleet->summary.requests) {
        fprintf(stderr, "demo: mode fleet must make 1 query and answer 200 to everybody\n");
        good = false;
    }
    return good;
}

static int demo(const struct wishes *wishes)
{
    static struct row rows[MODE_COUNT];
    printf("%" PRIu32 " requests at once on a cold product, %d processes, a query takes %" PRIu32 " ms\n\n",
           wishes->requests, PROCESS_COUNT, wishes->delay_ms);
    bool good = start_redis() && start_database(wishes->scale, wishes->requests + 100);
    for (size_t i = 0; good && i < MODE_COUNT; i++)
        good = run_mode(wishes, i, &rows[i]);
    stop_servers();
    if (!good)
        return 1;
    print_table(rows);
    return is_as_promised(rows) ? 0 : 1;
}

/* ---- a service to play with ---- */

static const char *given(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static void print_invitation(const struct stack_catalogd *catalogd)
{
    unsigned port = catalogd->port, ops_port = catalogd->ops_port;
    printf("\ncatalogd is up; its log: %s\n\n", catalogd->log_path);
    printf("  curl -i http://127.0.0.1:%u/products/7\n", port);
    printf("  curl -i http://127.0.0.1:%u/categories/30\n", port);
    printf("  curl -s http://127.0.0.1:%u/catalog | head -c 400\n", port);
    printf("  curl -X POST 'http://127.0.0.1:%u/invalidate?key=product:7'\n", ops_port);
    printf("  curl -s http://127.0.0.1:%u/metrics\n", ops_port);
    if (servers.postgres.pid > 0)
        printf("  psql %s\n", servers.postgres.url);
    if (servers.redis.pid > 0)
        printf("  redis-cli -p %u\n", (unsigned)servers.redis.port);
    printf("\nEvery setting of catalogd works here, for instance: LOAD_DELAY_MS=2000 make run. Ctrl-C ends "
           "it.\n");
    fflush(stdout);
}

static void watch(struct stack_catalogd *catalogd)
{
    print_invitation(catalogd);
    while (!proc_wait(catalogd->pid, UINT32_MAX, NULL))
        ;
    catalogd->pid = 0;
    fprintf(stderr, "demo: catalogd ended by itself; its log ends:\n");
    proc_show_tail(catalogd->log_path);
}

/* Servers named by REDIS_URL and DATABASE_URL are used as they are. */
static int run(const struct wishes *wishes)
{
    char redis[SETTING_BYTES], database[SETTING_BYTES];
    const char *settings[3] = {NULL};
    size_t count = 0;
    struct stack_catalogd *catalogd = &servers.catalogd[0];
    bool good = given("REDIS_URL") != NULL || start_redis();
    good = good && (given("DATABASE_URL") != NULL || start_database(wishes->scale, 100));
    snprintf(redis, sizeof redis, "REDIS_URL=%s", servers.redis.url);
    snprintf(database, sizeof database, "DATABASE_URL=%s", servers.postgres.url);
    if (given("REDIS_URL") == NULL)
        settings[count++] = redis;
    if (given("DATABASE_URL") == NULL)
        settings[count++] = database;
    if (good && stack_catalogd_start(catalogd, settings) &&
        stack_catalogd_wait_ready(catalogd, READY_LIMIT_MS))
        watch(catalogd);
    stop_servers();
    return 1;
}

/* ---- arguments ---- */

static const struct {
    const char *flag;
    size_t offset;
    uint32_t smallest, largest;
} flags[] = {
    {"--scale", offsetof(struct wishes, scale), 100, 99999999},
    {"--requests", offsetof(struct wishes, requests), 2, 2000},
    {"--delay", offsetof(struct wishes, delay_ms), 0, 10000},
};

static bool take_flag(const char *flag, const char *value, struct wishes *wishes)
{
    char *end;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strcmp(flag, flags[i].flag) != 0)
            continue;
        unsigned long long number = strtoull(value, &end, 10);
        if (*value == '\0' || *end != '\0' || number < flags[i].smallest || number > flags[i].largest) {
            fprintf(stderr, "demo: %s %s: not a number from %" PRIu32 " to %" PRIu32 "\n", flag, value,
                    flags[i].smallest, flags[i].largest);
            return false;
        }
        uint32_t checked = (uint32_t)number;
        memcpy((char *)wishes + flags[i].offset, &checked, sizeof checked);
        return true;
    }
    fprintf(stderr, "demo: unknown: %s\n", flag);
    return false;
}

int main(int argc, char **argv)
{
    struct wishes wishes = {.scale = 50000, .requests = 1000, .delay_ms = 200};
    int (*command)(const struct wishes *) = NULL;
    if (argc > 1)
        command = strcmp(argv[1], "demo") == 0 ? demo : strcmp(argv[1], "run") == 0 ? run : NULL;
    if (command == NULL || argc % 2 != 0) {
        fprintf(stderr, "usage: demo demo|run [--scale PRODUCTS] [--requests N] [--delay MS]\n");
        return 2;
    }
    for (int i = 2; i + 1 < argc; i += 2) {
        if (!take_flag(argv[i], argv[i + 1], &wishes))
            return 2;
    }
    if (!net_raise_file_limit(wishes.requests * 2 + 256)) {
        fprintf(stderr, "demo: the limit of open files (ulimit -n) is too low for %" PRIu32 " requests\n",
                wishes.requests);
        return 1;
    }
    proc_clean_on_signals();
    return command(&wishes);
}
