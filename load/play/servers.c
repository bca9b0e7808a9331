/* SPDX-License-Identifier: MIT */
/* servers.c - see servers.h. */
#include "load/play/servers.h"

#include "load/base/clock.h"
#include "load/base/home.h"
#include "load/base/http.h"
#include "load/base/net.h"
#include "load/base/progress.h"
#include "load/stack/stack.h"

#include <hiredis/hiredis.h>

#include <inttypes.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

enum {
    READY_LIMIT_MS = 15000,
    DEFAULT_WORKERS = 8,
    SPARE_CONNECTIONS = 24, /* of PostgreSQL: for the witness, writers, sql "..." and its reserved ones */
    SPARE_FILES = 4096
};

static bool has_stack(const struct servers *servers)
{
    return servers->scenario != NULL && servers->scenario->process_count > 0;
}

struct stack_redis *servers_redis(struct servers *servers)
{
    return servers->has_failed_over ? &servers->replica : &servers->redis;
}

/* ---- what lasts for the whole scenario ---- */

/* The most that any variant needs. */
static uint32_t database_connections(const struct scenario *scenario)
{
    uint32_t workers = scenario_number(scenario, "", "MAX_LOADS", DEFAULT_WORKERS);
    for (size_t i = 0; i < scenario->variant_count; i++) {
        uint32_t other = scenario_number(scenario, scenario->variants[i], "MAX_LOADS", workers);
        workers = other > workers ? other : workers;
    }
    return workers * scenario->process_count + SPARE_CONNECTIONS;
}

static bool start_replica(struct servers *servers)
{
    if (!servers->scenario->has_replica)
        return true;
    progress_step("its replica");
    return progress_done(stack_redis_start_replica(&servers->replica, &servers->redis));
}

static bool start_proxy(struct servers *servers)
{
    const struct scenario *scenario = servers->scenario;
    if (!scenario->proxies_redis && !scenario->proxies_postgres)
        return true;
    return proxy_open(scenario->work.seed, &servers->proxy) &&
           (!scenario->proxies_redis ||
            proxy_add(servers->proxy, servers->redis.port, &servers->redis_route)) &&
           (!scenario->proxies_postgres ||
            proxy_add(servers->proxy, servers->postgres.port, &servers->postgres_route));
}

static bool start_postgres(struct servers *servers)
{
    char text[80];
    progress_step("private PostgreSQL");
    bool started =
        stack_postgres_start(&servers->postgres, database_connections(servers->scenario)) &&
        stack_postgres_log_ends(&servers->postgres, true); /* open sessions would hear of it later */
    if (!progress_done(started))
        return false;
    snprintf(text, sizeof text, "%u products", (unsigned)servers->scenario->product_count);
    progress_step(text);
    return progress_done(stack_postgres_load(servers->postgres.url, servers->scenario->product_count));
}

/* catalogd ignores what it does not know in its environment: a typo would go unnoticed. */
static bool knows_setting(const char *help, const char *setting)
{
    char name[SCENARIO_SETTING_BYTES];
    snprintf(name, sizeof name, ", %.*s\n", (int)strcspn(setting, "="), setting);
    return strstr(help, name) != NULL;
}

static bool check_settings(const struct scenario *scenario)
{
    static char help[32768];
    char command[HOME_PATH_BYTES + 32];
    const char *program = stack_catalogd_program();
    bool good = true;
    snprintf(command, sizeof command, "'%s' --help", program);
    if (!proc_output(command, help, sizeof help)) {
        fprintf(stderr, "stampede: %s does not run: `make` builds it, CATALOGD names another\n", program);
        return false;
    }
    for (size_t i = 0; i < scenario->setting_count; i++) {
        if (knows_setting(help, scenario->settings[i]))
            continue;
        fprintf(stderr, "%s: %s: catalogd has no such setting; build/catalogd --help\n", scenario->path,
                scenario->settings[i]);
        good = false;
    }
    if (scenario->vary[0] != '\0' && !knows_setting(help, scenario->vary)) {
        fprintf(stderr, "%s: vary %s: catalogd has no such setting; build/catalogd --help\n", scenario->path,
                scenario->vary);
        return false;
    }
    return good;
}

bool servers_open(struct servers *servers, const struct scenario *scenario)
{
    memset(servers, 0, sizeof *servers);
    servers->scenario = scenario;
    if (!has_stack(servers))
        return true;
    if (!check_settings(scenario))
        return false;
    net_raise_file_limit(scenario->work.connection_count +
                         SPARE_FILES); /* as far as it goes; herd_start() judges */
    progress_step("private Redis");
    return progress_done(stack_redis_start(&servers->redis, NULL)) && start_replica(servers) &&
           start_postgres(servers) && start_proxy(servers);
}

void servers_close(struct servers *servers)
{
    if (!has_stack(servers))
        return;
    servers_stop_variant(servers);
    proxy_close(&servers->proxy);
    stack_postgres_stop(&servers->postgres);
    stack_redis_resume(&servers->replica);
    stack_redis_resume(&servers->redis);
    stack_redis_stop(&servers->replica);
    stack_redis_stop(&servers->redis);
    servers->scenario = NULL;
}

/* ---- the processes of a variant ---- */

bool servers_set(struct servers *servers, const char *name, const char *value)
{
    size_t count = 0, name_bytes = strlen(name);
    while (servers->settings[count] != NULL && (strncmp(servers->settings[count], name, name_bytes) != 0 ||
                                                servers->settings[count][name_bytes] != '='))
        count++;
    if (count == SERVERS_SETTINGS_MAX)
        return false;
    int length = snprintf(servers->texts[count], sizeof servers->texts[count], "%s=%s", name, value);
    servers->settings[count] = servers->texts[count];
    return length < (int)sizeof servers->texts[count];
}

static void make_settings(struct servers *servers, const char *variant)
{
    char url[128];
    const struct scenario *scenario = servers->scenario;
    memset(servers->settings, 0, sizeof servers->settings);
    uint16_t redis_port =
        scenario->proxies_redis ? proxy_port(servers->proxy, servers->redis_route) : servers->redis.port;
    uint16_t postgres_port = scenario->proxies_postgres ? proxy_port(servers->proxy, servers->postgres_route)
                                                        : servers->postgres.port;
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/0", (unsigned)redis_port);
    servers_set(servers, "REDIS_URL", url);
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%u/postgres", (unsigned)postgres_port);
    servers_set(servers, "DATABASE_URL", url);
    if (scenario->vary[0] != '\0')
        servers_set(servers, scenario->vary, variant);
    for (size_t i = 0; i < scenario->setting_count; i++) {
        size_t name_bytes = strcspn(scenario->settings[i], "=");
        char name[SCENARIO_SETTING_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)name_bytes, scenario->settings[i]);
        if (strcmp(name, scenario->vary) != 0)
            servers_set(servers, name, scenario->settings[i] + name_bytes + 1);
    }
}

bool servers_empty_redis(struct servers *servers)
{
    return stack_redis_do(servers_redis(servers), "FLUSHALL");
}

bool servers_start_variant(struct servers *servers, const char *variant)
{
    char text[160];
    bool good = true;
    if (!has_stack(servers))
        return true;
    const struct scenario *scenario = servers->scenario;
    make_settings(servers, variant);
    snprintf(text, sizeof text, "%u x catalogd%s%s%s%s", (unsigned)scenario->process_count,
             variant[0] != '\0' ? ", " : "", scenario->vary, variant[0] != '\0' ? "=" : "", variant);
    progress_step(text);
    good = servers_empty_redis(servers);
    for (size_t i = 0; good && i < scenario->process_count; i++)
        good = stack_catalogd_start(&servers->catalogd[i], servers->settings);
    for (size_t i = 0; good && i < scenario->process_count; i++)
        good = stack_catalogd_wait_ready(&servers->catalogd[i], READY_LIMIT_MS) &&
               stack_catalogd_wait_joined(&servers->catalogd[i], SERVERS_JOIN_LIMIT_MS);
    return progress_done(good);
}

void servers_stop_variant(struct servers *servers)
{
    for (size_t i = 0; i < SCENARIO_PROCESSES_MAX; i++)
        stack_catalogd_stop(&servers->catalogd[i]);
}

/* ---- addresses ---- */

void servers_name_targets(const struct servers *servers, struct work *work)
{
    char name[32], why[WORK_WHY_BYTES];
    if (!has_stack(servers))
        return;
    work->target_count = 0;
    for (size_t i = 0; i < servers->scenario->process_count; i++) {
        snprintf(name, sizeof name, "127.0.0.1:%u", (unsigned)servers->catalogd[i].port);
        work->target_count += work_target_parse(name, &work->targets[work->target_count], why);
    }
}

bool servers_witness(const struct servers *servers, struct witness_options *out)
{
    const struct scenario *scenario = servers->scenario;
    *out = (struct witness_options){.way = scenario->way};
    if (has_stack(servers)) {
        *out = (struct witness_options){.way = WITNESS_LOG,
                                        .database_url = servers->postgres.socket_url,
                                        .log_path = servers->postgres.log_path,
                                        .statement = "/* load ",
                                        .redis_url = servers->redis.socket_url};
        return true;
    }
    out->database_url = scenario->database_url[0] != '\0' ? scenario->database_url : NULL;
    out->log_path = scenario->log_path[0] != '\0' ? scenario->log_path : NULL;
    out->statement = scenario->statement[0] != '\0' ? scenario->statement : NULL;
    out->redis_url = scenario->redis_url[0] != '\0' ? scenario->redis_url : NULL;
    out->shares_redis = true;
    return out->way != WITNESS_NONE || out->redis_url != NULL ||
           (out->database_url != NULL && out->statement != NULL);
}

const char *servers_database(const struct servers *servers)
{
    if (has_stack(servers))
        return servers->postgres.socket_url;
    return servers->scenario->database_url[0] != '\0' ? servers->scenario->database_url : NULL;
}

/* ---- the leader ---- */

pid_t servers_lease_holder(const char *lease, uint32_t *lease_ms)
{
    char holder[64];
    if (sscanf(lease, "%*s %*s %" SCNu32 " %63s", lease_ms, holder) != 2)
        return 0;
    const char *colon = strrchr(holder, ':');
    return colon != NULL ? (pid_t)strtol(colon + 1, NULL, 10) : 0;
}

static bool find_holder(const struct servers *servers, const char *lease, size_t *process)
{
    uint32_t lease_ms;
    pid_t pid = servers_lease_holder(lease, &lease_ms);
    for (size_t i = 0; pid > 0 && i < servers->scenario->process_count; i++) {
        if (servers->catalogd[i].pid == pid) {
            *process = i;
            return true;
        }
    }
    return false;
}

static bool look_at(struct servers *servers, const char *key, size_t *process)
{
    struct redisReply *reply = stack_redis_command(servers_redis(servers), "GET %s", key);
    bool found =
        reply != NULL && reply->type == REDIS_REPLY_STRING && find_holder(servers, reply->str, process);
    freeReplyObject(reply);
    return found;
}

bool servers_find_leader(struct servers *servers, size_t *process)
{
    char cursor[24] = "0";
    bool found = false, more = true;
    while (more && !found) {
        struct redisReply *reply =
            stack_redis_command(servers_redis(servers), "SCAN %s MATCH csg1:{*}:l COUNT 1000", cursor);
        more = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;
        const struct redisReply *keys = more ? reply->element[1] : NULL;
        for (size_t i = 0; more && !found && i < keys->elements; i++)
            found = look_at(servers, keys->element[i]->str, process);
        if (more)
            snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
        more = more && strcmp(cursor, "0") != 0;
        freeReplyObject(reply);
    }
    return found;
}

/* ---- POST ---- */

static bool send_to(const char *host, uint16_t port, const char *method, const char *path, uint32_t limit_ms,
                    char *why)
{
    struct http_answer answer;
    const struct http_request request = {
        .host = host, .port = port, .method = method, .path = path, .deadline_ms = limit_ms};
    bool answered = http_ask(&request, &answer);
    bool good = answered && answer.status >= 200 && answer.status < 300;
    if (!answered)
        snprintf(why, SCENARIO_WHY_BYTES, "%s %.200s: no answer", method, path);
    else if (!good)
        snprintf(why, SCENARIO_WHY_BYTES, "%s %.200s: status %u", method, path, (unsigned)answer.status);
    http_answer_clear(&answer);
    return good;
}

static bool send_to_target(const struct work_target *target, const char *method, const char *path,
                           uint32_t limit_ms, char *why)
{
    char host[64], port[8];
    if (getnameinfo((const struct sockaddr *)&target->address.storage, target->address.bytes, host,
                    sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(why, SCENARIO_WHY_BYTES, "%s to %s: no such address", method, target->name);
        return false;
    }
    return send_to(host, (uint16_t)strtoul(port, NULL, 10), method, path, limit_ms, why);
}

bool servers_ask(const struct servers *servers, const char *method, const char *url, uint32_t limit_ms,
                 char why[static SCENARIO_WHY_BYTES])
{
    struct work_target target;
    char server[256];
    if (strncmp(url, "http://", 7) == 0) {
        size_t bytes = strcspn(url + 7, "/");
        snprintf(server, sizeof server, "%.*s", (int)bytes, url + 7);
        const char *path = url[7 + bytes] != '\0' ? url + 7 + bytes : "/";
        return work_target_parse(server, &target, why) &&
               send_to_target(&target, method, path, limit_ms, why);
    }
    if (has_stack(servers))
        return send_to("127.0.0.1", servers->catalogd[0].port, method, url, limit_ms, why);
    return send_to_target(&servers->scenario->work.targets[0], method, url, limit_ms, why);
}

bool servers_post(const struct servers *servers, const char *url, uint32_t limit_ms,
                  char why[static SCENARIO_WHY_BYTES])
{
    if (url[0] != '/' || !has_stack(servers))
        return servers_ask(servers, "POST", url, limit_ms, why);
    for (size_t i = 0; i < servers->scenario->process_count; i++) {
        if (send_to("127.0.0.1", servers->catalogd[i].ops_port, "POST", url, limit_ms, why))
            return true;
    }
    return false;
}
