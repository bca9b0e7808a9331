/* SPDX-License-Identifier: MIT */
/* fleet.c - see fleet.h. */
#include "tests/support/fleet.h"

#include "load/base/clock.h"
#include "load/base/net.h"

#include <libpq-fe.h>

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { MAX_CONNECTIONS = 120, SETTINGS_MAX = 48, STATEMENT_BYTES = 1024, PAUSE_MS = 10 };

struct fleet fleet;

/* ---- for a group of tests, and after each ---- */

bool fleet_up(void)
{
    fleet.next_product = 1;
    return net_raise_file_limit(4096) && stack_redis_start(&fleet.redis, NULL) &&
           stack_postgres_start_seeded(&fleet.postgres, MAX_CONNECTIONS, FLEET_PRODUCTS);
}

bool fleet_down(void)
{
    stack_postgres_stop(&fleet.postgres);
    stack_redis_stop(&fleet.redis);
    return true;
}

/* A test that failed half-way may have left them paused or dead. */
static bool revive_servers(void)
{
    if (fleet.redis.pid > 0)
        stack_redis_resume(&fleet.redis);
    else if (!stack_redis_restart(&fleet.redis))
        return false;
    if (fleet.postgres.pid <= 0)
        return stack_postgres_restart(&fleet.postgres);
    proc_resume(fleet.postgres.pid);
    return true;
}

bool fleet_end(void)
{
    bool revived = revive_servers();
    return fleet_stop() && revived;
}

/* ---- processes ---- */

bool fleet_names(const char *const *settings, const char *name)
{
    size_t bytes = strlen(name);
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
        if (strncmp(settings[i], name, bytes) == 0 && settings[i][bytes] == '=')
            return true;
    }
    return false;
}

/* Settings that are set together, unless the test names one of those that bound them. */
struct patience {
    const char *settings[2], *bounds[4];
};

/* A machine that stands still for seconds must neither time a command of Redis out nor end a lease, a load or a
 * request. */
static const struct patience patience[] = {
    {{FLEET_PATIENT}, {"REDIS_LIMIT_MS", "LEASE_MS", "MAX_HOLD_MS", "DEADLINE_MS"}},
    {{"LOAD_LIMIT_MS=25000", "DEADLINE_MS=28000"}, {"LOAD_LIMIT_MS", "DEADLINE_MS", "MAX_HOLD_MS"}},
};

static size_t add_patience(const char *const *settings, const char **all)
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof patience / sizeof *patience; i++) {
        bool named = false;
        for (size_t k = 0; k < 4 && patience[i].bounds[k] != NULL; k++)
            named = named || fleet_names(settings, patience[i].bounds[k]);
        for (size_t k = 0; k < 2 && !named; k++)
            all[count++] = patience[i].settings[k];
    }
    return count;
}

static bool start_in(struct stack_catalogd *place, const char *const *settings)
{
    if (fleet.given_count > 0)
        return stack_catalogd_start_given(place, settings, fleet.given, fleet.given_count);
    return stack_catalogd_start(place, settings);
}

bool fleet_put(size_t process, const char *const *settings)
{
    char redis[128], database[160];
    const char *all[SETTINGS_MAX + 8];
    size_t count = 0;
    snprintf(redis, sizeof redis, "REDIS_URL=%s", fleet.redis.url);
    snprintf(database, sizeof database, "DATABASE_URL=%s", fleet.postgres.url);
    if (!fleet_names(settings, "REDIS_URL"))
        all[count++] = redis;
    if (!fleet_names(settings, "DATABASE_URL"))
        all[count++] = database;
    if (!fleet_names(settings, "NAMESPACE"))
        all[count++] = "NAMESPACE=fleet";
    count += add_patience(settings, all + count);
    for (size_t i = 0; settings != NULL && settings[i] != NULL && i < SETTINGS_MAX; i++)
        all[count++] = settings[i];
    all[count] = NULL;
    if (process >= FLEET_PROCESSES_MAX || !start_in(&fleet.catalogd[process], all))
        return false;
    if (process >= fleet.count)
        fleet.count = process + 1;
    return true;
}

bool fleet_add(const char *const *settings)
{
    return fleet_put(fleet.count, settings);
}

/* What a process that has ended had asked for may still run in its backend. */
static bool wait_for_no_backend(void)
{
    const uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    char count[16] = "";
    while (fleet_sql(count, sizeof count,
                     "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'catalogd%%'")) {
        if (strcmp(count, "0") == 0)
            return true;
        if (clock_us() >= end_us) {
            fprintf(stderr, "fleet: PostgreSQL still has %s connections of ended processes\n", count);
            return false;
        }
        clock_pause_ms(PAUSE_MS);
    }
    return false;
}

/* Nobody need wait until what was in them would have expired: they are empty. */
static bool forget_caches(void)
{
    return wait_for_no_backend() && fleet_sql(NULL, 0, "DELETE FROM caches");
}

bool fleet_start(size_t count, const char *const *settings)
{
    if (!revive_servers() || !fleet_stop() || !stack_redis_do(&fleet.redis, "FLUSHALL") || !forget_caches())
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!fleet_add(settings))
            return false;
    }
    const bool writes = fleet_names(settings, "WRITE_DATABASE_URL");
    for (size_t i = 0; i < count; i++) {
        if (!fleet_wait_ready(i) || (writes && !fleet_wait_registered(i)))
            return false;
    }
    fleet_mark();
    return true;
}

bool fleet_wait_ready(size_t process)
{
    return stack_catalogd_wait_ready(&fleet.catalogd[process], FLEET_LIMIT_MS) &&
           fleet_wait_metric(process, "guard_redis_state{connection=\"commands\",state=\"up\"}", 1) &&
           fleet_wait_metric(process, "guard_redis_state{connection=\"wake\",state=\"up\"}", 1);
}

bool fleet_wait_registered(size_t process)
{
    return fleet_wait_metric(process, "catalogd_cache_in_use", 1);
}

bool fleet_ended_in_order(struct stack_catalogd *catalogd)
{
    int status = 0;
    if (catalogd->pid <= 0)
        return true;
    proc_resume(catalogd->pid);
    kill(catalogd->pid, SIGTERM);
    if (!proc_wait(catalogd->pid, FLEET_LIMIT_MS, &status)) {
        fprintf(stderr, "fleet: a process did not end on SIGTERM\n");
        return false;
    }
    catalogd->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    fprintf(stderr, "fleet: a process ended with status %#x\n", (unsigned)status);
    return false;
}

bool fleet_log_is_clean(const struct stack_catalogd *catalogd)
{
    static const char *const reports[] = {"Sanitizer", "runtime error:", "Assertion"};
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        if (stack_log_count(catalogd->log_path, 0, reports[i]) > 0) {
            fprintf(stderr, "fleet: \"%s\" stands in %s\n", reports[i], catalogd->log_path);
            return false;
        }
    }
    return true;
}

bool fleet_retire(size_t process)
{
    struct stack_catalogd *catalogd = &fleet.catalogd[process];
    const bool in_order = fleet_ended_in_order(catalogd);
    const bool good = in_order && fleet_log_is_clean(catalogd);
    if (!good) {
        fprintf(stderr, "fleet: the log of process %zu ends:\n", process);
        proc_show_tail(catalogd->log_path);
    }
    stack_catalogd_stop(catalogd);
    return good;
}

bool fleet_stop(void)
{
    bool good = true;
    for (size_t i = 0; i < fleet.count; i++)
        good = fleet_retire(i) && good;
    fleet.count = 0;
    return good;
}

/* ---- requests ---- */

uint32_t fleet_cold_product(char path[static BURST_PATH_BYTES])
{
    uint32_t id = fleet.next_product++;
    snprintf(path, BURST_PATH_BYTES, "/products/%u", (unsigned)id);
    return id;
}

struct burst_options fleet_options(struct burst_target targets[FLEET_PROCESSES_MAX], const char *path,
                                   uint32_t request_count)
{
    size_t count = 0;
    for (size_t i = 0; i < fleet.count; i++) {
        if (fleet.catalogd[i].pid > 0)
            targets[count++] = (struct burst_target){.host = "127.0.0.1", .port = fleet.catalogd[i].port};
    }
    return (struct burst_options){.targets = targets,
                                  .target_count = count,
                                  .connection_count = request_count,
                                  .connect_limit_ms = FLEET_LIMIT_MS,
                                  .request_limit_ms = FLEET_LIMIT_MS,
                                  .path = path};
}

bool fleet_burst(const char *path, uint32_t request_count, const struct burst_event *event,
                 struct burst_summary *out)
{
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct burst_options options = fleet_options(targets, path, request_count);
    struct burst *burst = NULL;
    options.events = event;
    options.event_count = event != NULL ? 1 : 0;
    if (!burst_open(&options, &burst))
        return false;
    bool ran = burst_run(burst);
    burst_summarise(burst, out);
    burst_close(&burst);
    return ran;
}

bool fleet_ask_port(uint16_t port, const char *method, const char *path, const char *headers,
                    struct http_answer *out)
{
    return http_ask(&(struct http_request){.host = "127.0.0.1",
                                           .port = port,
                                           .method = method,
                                           .path = path,
                                           .headers = headers,
                                           .deadline_ms = FLEET_LIMIT_MS},
                    out);
}

bool fleet_ask(size_t process, const char *method, const char *path, struct http_answer *out)
{
    return fleet_ask_port(fleet.catalogd[process].port, method, path, NULL, out);
}

bool fleet_ask_ops(size_t process, const char *method, const char *path, struct http_answer *out)
{
    return fleet_ask_port(fleet.catalogd[process].ops_port, method, path, NULL, out);
}

unsigned fleet_ask_status(size_t process, const char *path)
{
    struct http_answer answer;
    fleet_ask(process, NULL, path, &answer);
    unsigned status = answer.status;
    http_answer_clear(&answer);
    return status;
}

void fleet_invalidate(size_t process, const char *key, struct fleet_invalidated *out)
{
    struct http_answer answer;
    char path[BURST_PATH_BYTES];
    snprintf(path, sizeof path, "/invalidate?key=%s", key);
    fleet_ask_ops(process, "POST", path, &answer);
    out->status = answer.status;
    out->value_dropped = strstr(answer.body, "\"value_dropped\":true") != NULL;
    out->load_voided = strstr(answer.body, "\"load_voided\":true") != NULL;
    http_answer_clear(&answer);
}

/* ---- counting and waiting ---- */

void fleet_mark(void)
{
    fleet.mark = stack_postgres_mark(&fleet.postgres);
}

uint32_t fleet_loads(const char *marker)
{
    return stack_postgres_count(&fleet.postgres, fleet.mark, marker);
}

bool fleet_wait_loads(const char *marker, uint32_t at_least)
{
    return stack_postgres_wait(&fleet.postgres, fleet.mark, marker, at_least, FLEET_LIMIT_MS);
}

/* The marker is split in the question, so that the question does not count itself, here or in the log. */
static uint32_t loads_running(const char *marker)
{
    char value[32] = "";
    unsigned running = 0;
    fleet_sql(
        value, sizeof value,
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND strpos(query, '/' || '%s') > 0",
        marker + 1);
    sscanf(value, "%u", &running);
    return running;
}

bool fleet_wait_running(const char *marker, uint32_t wanted)
{
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    while (loads_running(marker) != wanted) {
        if (clock_us() >= end_us)
            return false;
        clock_pause_ms(PAUSE_MS);
    }
    return true;
}

double fleet_metric(size_t process, const char *sample)
{
    return stack_catalogd_metric(&fleet.catalogd[process], sample);
}

double fleet_sum(const char *sample)
{
    double sum = 0;
    for (size_t i = 0; i < fleet.count; i++) {
        if (fleet.catalogd[i].pid > 0)
            sum += fleet_metric(i, sample);
    }
    return sum;
}

bool fleet_wait_metric(size_t process, const char *sample, double at_least)
{
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    while (fleet_metric(process, sample) < at_least) {
        if (clock_us() >= end_us) {
            fprintf(stderr, "fleet: process %zu never had %s at %g\n", process, sample, at_least);
            return false;
        }
        clock_pause_ms(PAUSE_MS);
    }
    return true;
}

bool fleet_wait_waiters(uint32_t at_least)
{
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    while (fleet_sum("guard_waiters") < at_least) {
        if (clock_us() >= end_us) {
            fprintf(stderr, "fleet: there were never %u waiters\n", (unsigned)at_least);
            return false;
        }
        clock_pause_ms(PAUSE_MS);
    }
    return true;
}

/* ---- the servers' own words ---- */

bool fleet_sql(char *value, size_t value_bytes, const char *format, ...)
{
    char statement[STATEMENT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(statement, sizeof statement, format, arguments);
    va_end(arguments);
    return stack_postgres_query(fleet.postgres.url, statement, value, value_bytes);
}

__attribute__((format(printf, 2, 0))) static bool runs_in(PGconn *session, const char *format,
                                                          va_list arguments)
{
    char statement[STATEMENT_BYTES];
    vsnprintf(statement, sizeof statement, format, arguments);
    PGresult *result = PQexec(session, statement);
    const ExecStatusType status = PQresultStatus(result);
    const bool good = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    if (!good)
        fprintf(stderr, "fleet: %s: %s", statement, PQerrorMessage(session));
    PQclear(result);
    return good;
}

bool fleet_session_does(struct pg_conn *session, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const bool good = runs_in(session, format, arguments);
    va_end(arguments);
    return good;
}

struct pg_conn *fleet_session(const char *format, ...)
{
    PGconn *session = PQconnectdb(fleet.postgres.url);
    va_list arguments;
    va_start(arguments, format);
    if (!fleet_session_does(session, "BEGIN") || !runs_in(session, format, arguments)) {
        PQfinish(session);
        session = NULL;
    }
    va_end(arguments);
    return session;
}

bool fleet_commit(struct pg_conn *session)
{
    const bool good = fleet_session_does(session, "COMMIT");
    PQfinish(session);
    return good;
}

void fleet_redis_key(char out[static FLEET_KEY_BYTES], uint32_t product, char role)
{
    snprintf(out, FLEET_KEY_BYTES, "csg1:{fleet:product:%u}:%c", (unsigned)product, role);
}

long long fleet_redis_number(const char *command, const char *key)
{
    char text[FLEET_KEY_BYTES + 32];
    snprintf(text, sizeof text, "%s %s", command, key);
    return stack_redis_number(&fleet.redis, text);
}
