/* SPDX-License-Identifier: MIT */
/* stack_catalogd.c - the service as a private process, and the machine it runs on; see stack.h. */
#include "load/base/clock.h"
#include "load/base/home.h"
#include "load/base/http.h"
#include "load/base/net.h"
#include "load/base/sql.h"
#include "load/stack/stack.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    START_LIMIT_MS = 60000,
    STOP_LIMIT_MS = 20000,
    ASK_LIMIT_MS = 1000,
    READ_LIMIT_MS =
        5000, /* of what is asked once: one that is busy must not be taken for one without the sample */
    SQL_LIMIT_MS = 5000,
    SETTINGS_MAX = 62,
    SETTING_BYTES = 256
};

static bool ops_answers_200(const struct stack_catalogd *catalogd, const char *path)
{
    struct http_answer answer;
    const struct http_request request = {
        .host = "127.0.0.1", .port = catalogd->ops_port, .path = path, .deadline_ms = ASK_LIMIT_MS};
    bool good = http_ask(&request, &answer) && answer.status == 200;
    http_answer_clear(&answer);
    return good;
}

static bool is_up(void *catalogd)
{
    return ops_answers_200(catalogd, "/healthz");
}

const char *stack_catalogd_program(void)
{
    static char path[HOME_PATH_BYTES];
    const char *given = getenv("CATALOGD");
    return given != NULL ? given : home_program("catalogd", path);
}

/* What it is started with; `sockets` are what systemd hands over. */
struct start {
    struct stack_catalogd *catalogd;
    const char *const *settings;
    const int *sockets;
    size_t socket_count;
};

static bool launch(const struct start *start)
{
    struct stack_catalogd *catalogd = start->catalogd;
    char listen[40], ops_listen[40], given_count[24];
    const char *all[SETTINGS_MAX + 4] = {listen, ops_listen, given_count};
    size_t count = 3;
    snprintf(given_count, sizeof given_count, "LISTEN_FDS=%zu", start->socket_count);
    snprintf(listen, sizeof listen, "LISTEN=127.0.0.1:%u", (unsigned)catalogd->port);
    snprintf(ops_listen, sizeof ops_listen, "OPS_LISTEN=127.0.0.1:%u", (unsigned)catalogd->ops_port);
    for (size_t i = 0; start->settings[i] != NULL && count < SETTINGS_MAX + 3; i++)
        all[count++] = start->settings[i];
    const char *const argv[] = {stack_catalogd_program(), NULL};
    const char *const with_pid[] = {"sh", "-c", "export LISTEN_PID=$$; exec \"$0\"", argv[0], NULL};
    const struct proc_options options = {.argv = start->socket_count > 0 ? with_pid : argv,
                                         .settings = all,
                                         .output_path = catalogd->log_path,
                                         .descriptors = start->sockets,
                                         .descriptor_count = start->socket_count};
    catalogd->pid = proc_start_up(&options, is_up, catalogd, START_LIMIT_MS);
    return catalogd->pid > 0;
}

static uint16_t port_of(int socket)
{
    struct sockaddr_in address = {0};
    socklen_t bytes = sizeof address;
    getsockname(socket, (struct sockaddr *)&address, &bytes);
    return ntohs(address.sin_port);
}

static bool launch_anew(void *context)
{
    const struct start *start = context;
    start->catalogd->port = start->socket_count > 0 ? port_of(start->sockets[0]) : net_free_port();
    start->catalogd->ops_port = net_free_port();
    return launch(start);
}

bool stack_catalogd_start_given(struct stack_catalogd *catalogd, const char *const *settings,
                                const int *sockets, size_t count)
{
    struct start start = {catalogd, settings, sockets, count};
    *catalogd = (struct stack_catalogd){.pid = 0};
    return private_begin("catalogd", NULL, catalogd->folder, catalogd->log_path) &&
           private_launch(launch_anew, &start, "catalogd", catalogd->log_path);
}

bool stack_catalogd_start(struct stack_catalogd *catalogd, const char *const *settings)
{
    return stack_catalogd_start_given(catalogd, settings, NULL, 0);
}

bool stack_catalogd_restart(struct stack_catalogd *catalogd, const char *const *settings)
{
    const struct start start = {.catalogd = catalogd, .settings = settings};
    if (catalogd->pid > 0)
        proc_stop(&catalogd->pid, SIGTERM, STOP_LIMIT_MS);
    return launch(&start) || private_complain("catalogd", "did not start", catalogd->log_path);
}

bool stack_catalogd_stop(struct stack_catalogd *catalogd)
{
    bool went = catalogd->pid <= 0 || proc_stop(&catalogd->pid, SIGTERM, STOP_LIMIT_MS);
    if (!went)
        private_complain("catalogd", "did not end on SIGTERM", catalogd->log_path);
    private_end(&catalogd->pid, SIGTERM, STOP_LIMIT_MS, catalogd->folder);
    *catalogd = (struct stack_catalogd){.pid = 0};
    return went;
}

bool stack_catalogd_wait_ready(const struct stack_catalogd *catalogd, uint32_t limit_ms)
{
    uint64_t end_us = clock_after_ms(limit_ms);
    while (!ops_answers_200(catalogd, "/readyz")) {
        if (clock_us() >= end_us)
            return private_complain("catalogd", "is not ready", catalogd->log_path);
        clock_pause_ms(5);
    }
    return true;
}

bool stack_catalogd_metrics(const struct stack_catalogd *catalogd, uint32_t limit_ms, size_t count,
                            const char *const *samples, double *values)
{
    struct http_answer answer;
    const struct http_request request = {
        .host = "127.0.0.1", .port = catalogd->ops_port, .path = "/metrics", .deadline_ms = limit_ms};
    size_t found = 0;
    http_ask(&request, &answer);
    for (size_t i = 0; i < count; i++) {
        const size_t bytes = strlen(samples[i]);
        const char *line = answer.body;
        while (line != NULL && (strncmp(line, samples[i], bytes) != 0 || line[bytes] != ' ')) {
            line = strchr(line, '\n');
            line = line != NULL ? line + 1 : NULL;
        }
        values[i] = line != NULL ? strtod(line + bytes, NULL) : -1;
        found += line != NULL;
    }
    http_answer_clear(&answer);
    return found == count;
}

double stack_catalogd_metric(const struct stack_catalogd *catalogd, const char *sample)
{
    double value;
    stack_catalogd_metrics(catalogd, READ_LIMIT_MS, 1, &sample, &value);
    return value;
}

/* A login that may not subscribe polls. */
static bool is_connected(const struct stack_catalogd *catalogd)
{
    return stack_catalogd_metric(catalogd, "guard_redis_state{connection=\"commands\",state=\"up\"}") == 1 &&
           (stack_catalogd_metric(catalogd, "guard_redis_state{connection=\"wake\",state=\"up\"}") == 1 ||
            stack_catalogd_metric(catalogd, "guard_redis_state{connection=\"wake\",state=\"denied\"}") == 1);
}

bool stack_catalogd_wait_joined(const struct stack_catalogd *catalogd, uint32_t limit_ms)
{
    uint64_t end_us = clock_after_ms(limit_ms);
    while (!is_connected(catalogd)) {
        if (clock_us() >= end_us)
            return private_complain("catalogd", "is not connected to its Redis", catalogd->log_path);
        clock_pause_ms(2);
    }
    return true;
}

bool stack_catalogd_start_over(struct stack_catalogd *catalogd, const struct stack_redis *redis,
                               const struct stack_postgres *postgres, const char *const *settings)
{
    char redis_url[SETTING_BYTES], database_url[SETTING_BYTES];
    const char *all[SETTINGS_MAX + 1] = {redis_url, database_url};
    size_t count = 2;
    snprintf(redis_url, sizeof redis_url, "REDIS_URL=%s", redis->url);
    snprintf(database_url, sizeof database_url, "DATABASE_URL=%s", postgres->url);
    for (size_t i = 0; settings[i] != NULL && count < SETTINGS_MAX; i++)
        all[count++] = settings[i];
    return stack_catalogd_start(catalogd, all) && stack_catalogd_wait_ready(catalogd, START_LIMIT_MS) &&
           stack_catalogd_wait_joined(catalogd, START_LIMIT_MS);
}

/* ---- logs ---- */

/* Lines are counted as they are; the last one may still lack its end. */
uint32_t stack_log_count(const char *log_path, uint64_t mark, const char *text)
{
    char *line = NULL;
    size_t line_bytes = 0;
    uint32_t count = 0;
    FILE *file = fopen(log_path, "re");
    if (file == NULL)
        return 0;
    if (fseek(file, (long)mark, SEEK_SET) == 0) {
        while (getline(&line, &line_bytes, file) != -1)
            count += strstr(line, text) != NULL;
    }
    free(line);
    fclose(file);
    return count;
}

/* ---- the machine ---- */

void machine_describe(struct stack_redis *redis, const char *database_url, char text[static MACHINE_BYTES])
{
    struct utsname system = {.sysname = "?"};
    char version[48], why[SQL_WHY_BYTES];
    uname(&system);
    size_t used =
        (size_t)snprintf(text, MACHINE_BYTES, "%ld cores, %.20s %.60s %.20s", sysconf(_SC_NPROCESSORS_ONLN),
                         system.sysname, system.release, system.machine);
    if (redis != NULL) {
        stack_redis_version(redis, version, sizeof version);
        used += (size_t)snprintf(text + used, MACHINE_BYTES - used, "; Redis %s", version);
    }
    if (database_url == NULL)
        return;
    bool is_told = sql_run(database_url, "SELECT split_part(version(), ' ', 2)", SQL_LIMIT_MS, version,
                           sizeof version, why);
    snprintf(text + used, MACHINE_BYTES - used, "%s PostgreSQL %s", redis != NULL ? "," : ";",
             is_told ? version : "?");
}
