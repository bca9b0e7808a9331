/* SPDX-License-Identifier: MIT */
/* servers_ask.c - what is asked of a scenario's servers beside the run: who leads, a POST, which machine. */
#include "load/play/servers.h"

#include "load/base/http.h"
#include "load/base/sql.h"

#include <hiredis/hiredis.h>

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { SQL_LIMIT_MS = 5000 };

static bool has_stack(const struct servers *servers)
{
    return servers->scenario->process_count > 0;
}

/* ---- the leader ---- */

/* A lease is "<uuid> <tag> <lease_ms> <host:pid> <since>". */
static bool find_holder(const struct servers *servers, const char *lease, size_t *process)
{
    char holder[64];
    if (sscanf(lease, "%*s %*s %*s %63s", holder) != 1)
        return false;
    const char *colon = strrchr(holder, ':');
    long pid = colon != NULL ? strtol(colon + 1, NULL, 10) : 0;
    for (size_t i = 0; pid > 0 && i < servers->scenario->process_count; i++) {
        if (servers->catalogd[i].pid == (pid_t)pid) {
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
    if (reply != NULL)
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
        if (reply != NULL)
            freeReplyObject(reply);
    }
    return found;
}

/* ---- POST ---- */

static bool post_to(const char *host, uint16_t port, const char *path, uint32_t limit_ms, char *why)
{
    struct http_answer answer;
    const struct http_request request = {
        .host = host, .port = port, .method = "POST", .path = path, .deadline_ms = limit_ms};
    bool answered = http_ask(&request, &answer);
    bool good = answered && answer.status >= 200 && answer.status < 300;
    if (!answered)
        snprintf(why, SCENARIO_WHY_BYTES, "POST %.200s: no answer", path);
    else if (!good)
        snprintf(why, SCENARIO_WHY_BYTES, "POST %.200s: status %u", path, (unsigned)answer.status);
    http_answer_clear(&answer);
    return good;
}

static bool post_to_target(const struct work_target *target, const char *path, uint32_t limit_ms, char *why)
{
    char host[64], port[8];
    if (getnameinfo((const struct sockaddr *)&target->address.storage, target->address.bytes, host,
                    sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(why, SCENARIO_WHY_BYTES, "POST to %s: no such address", target->name);
        return false;
    }
    return post_to(host, (uint16_t)strtoul(port, NULL, 10), path, limit_ms, why);
}

bool servers_post(const struct servers *servers, const char *url, uint32_t limit_ms,
                  char why[static SCENARIO_WHY_BYTES])
{
    struct work_target target;
    char server[256];
    if (strncmp(url, "http://", 7) == 0) {
        size_t bytes = strcspn(url + 7, "/");
        snprintf(server, sizeof server, "%.*s", (int)bytes, url + 7);
        const char *path = url[7 + bytes] != '\0' ? url + 7 + bytes : "/";
        return work_target_parse(server, &target, why) && post_to_target(&target, path, limit_ms, why);
    }
    if (!has_stack(servers))
        return post_to_target(&servers->scenario->work.targets[0], url, limit_ms, why);
    for (size_t i = 0; i < servers->scenario->process_count; i++) {
        if (post_to("127.0.0.1", servers->catalogd[i].ops_port, url, limit_ms, why))
            return true;
    }
    return false;
}

/* ---- the machine ---- */

static void redis_version(struct servers *servers, char *version, size_t version_bytes)
{
    struct redisReply *reply =
        has_stack(servers) ? stack_redis_command(servers_redis(servers), "INFO server") : NULL;
    const char *line =
        reply != NULL && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "redis_version:") : NULL;
    if (line != NULL) {
        line += strlen("redis_version:");
        snprintf(version, version_bytes, "; Redis %.*s", (int)strcspn(line, "\r\n"), line);
    }
    if (reply != NULL)
        freeReplyObject(reply);
}

void servers_machine(struct servers *servers, char *text, size_t text_bytes)
{
    struct utsname system;
    char redis[48] = "", postgres[32] = "", why[SQL_WHY_BYTES];
    const char *database = servers_database(servers);
    uname(&system);
    redis_version(servers, redis, sizeof redis);
    if (database != NULL)
        sql_run(database, "SELECT split_part(version(), ' ', 2)", SQL_LIMIT_MS, postgres, sizeof postgres,
                why);
    snprintf(text, text_bytes, "%ld cores, %s %s %s%s%s%s", sysconf(_SC_NPROCESSORS_ONLN), system.sysname,
             system.release, system.machine, redis, postgres[0] != '\0' ? "; PostgreSQL " : "", postgres);
}
