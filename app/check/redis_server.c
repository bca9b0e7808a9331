/* SPDX-License-Identifier: MIT */
/* redis_server.c - see redis_server.h. */
#include "app/check/redis_server.h"

#include "app/base/clock.h"
#include "app/check/check.h"
#include "common/redis_link.h"

#include <stdlib.h>
#include <string.h>

enum { PART_BYTES = 512 };

static const char WHAT[] = "redis settings";

/* ---- asking ---- */

static struct redisReply *ask(struct redisContext *context, const char *command)
{
    struct redisReply *reply = redisCommand(context, command);

    if (reply != NULL && reply->type == REDIS_REPLY_ERROR) {
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

/* False: the login may not look, or the server has no such setting. */
static bool setting(struct redisContext *context, const char *name, char value[static PART_BYTES])
{
    char command[PART_BYTES];
    snprintf(command, sizeof(command), "CONFIG GET %s", name);
    struct redisReply *reply = ask(context, command);
    const bool told = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;

    value[0] = '\0';
    if (told)
        snprintf(value, PART_BYTES, "%s", reply->element[1]->str);
    freeReplyObject(reply);
    return told;
}

/* A field of INFO; 0: not told. */
static long info(struct redisContext *context, const char *section, const char *field, char text[static 32])
{
    char command[64], line[64];
    snprintf(command, sizeof(command), "INFO %s", section);
    snprintf(line, sizeof(line), "\n%s:", field);
    struct redisReply *reply = ask(context, command);
    const char *found = reply != NULL && reply->str != NULL ? strstr(reply->str, line) : NULL;

    text[0] = '\0';
    if (found != NULL)
        snprintf(text, 32, "%.*s", (int)strcspn(found + strlen(line), "\r\n"), found + strlen(line));
    freeReplyObject(reply);
    return strtol(text, NULL, 10);
}

/* ---- judging ---- */

static void check_persistence(struct redisContext *context, struct findings *findings)
{
    static const char advice[] = "CONFIG SET save \"\" and appendonly no, in redis.conf too: a restart must "
                                 "not bring back what was invalidated";
    char save[PART_BYTES], append[PART_BYTES];

    setting(context, "save", save);
    setting(context, "appendonly", append);
    if (strcmp(append, "yes") == 0)
        findings_add(findings, VERDICT_WRONG, WHAT, advice, "appendonly is yes");
    if (save[0] != '\0')
        findings_add(findings, VERDICT_WRONG, WHAT, advice, "save is \"%s\"", save);
    if (strcmp(append, "yes") != 0 && save[0] == '\0')
        findings_ok(findings, WHAT, "nothing is kept over a restart");
}

static void check_eviction(struct redisContext *context, struct findings *findings)
{
    char policy[PART_BYTES], most[PART_BYTES];

    if (!setting(context, "maxmemory-policy", policy) || !setting(context, "maxmemory", most))
        return;
    const bool bounded = strtoull(most, NULL, 10) > 0;
    if (strcmp(policy, "volatile-ttl") == 0)
        findings_add(findings, VERDICT_WRONG, WHAT, "CONFIG SET maxmemory-policy allkeys-lfu",
                     "maxmemory-policy is volatile-ttl, which evicts leases first");
    else if (bounded && strcmp(policy, "noeviction") == 0)
        findings_add(findings, VERDICT_WARNING, WHAT, "CONFIG SET maxmemory-policy allkeys-lfu",
                     "maxmemory-policy is noeviction: when it is full nothing more is cached");
    else if (!bounded)
        findings_add(findings, VERDICT_WARNING, WHAT, "CONFIG SET maxmemory, below what the machine has",
                     "maxmemory is 0: it may grow until the kernel ends it");
    else
        findings_ok(findings, WHAT, "maxmemory %s, %s", most, policy);
}

static void check_replicas(struct redisContext *context, struct findings *findings)
{
    char text[32], least[PART_BYTES];

    const long replicas = info(context, "replication", "connected_slaves", text);
    if (replicas == 0 || !setting(context, "min-replicas-to-write", least))
        return;
    if (strcmp(least, "0") != 0)
        findings_ok(findings, WHAT, "%ld replicas, min-replicas-to-write %s", replicas, least);
    else
        findings_add(findings, VERDICT_WARNING, WHAT,
                     "CONFIG SET min-replicas-to-write 1: a master that was cut off answers no hits then",
                     "%ld replicas, but min-replicas-to-write is 0", replicas);
}

static void check_time(struct redisContext *context, struct findings *findings)
{
    const int64_t before_ms = (int64_t)clock_wall_ms();
    struct redisReply *reply = ask(context, "TIME");

    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
        check_clock(findings, "clock of redis",
                    strtoll(reply->element[0]->str, NULL, 10) * 1000 +
                        strtoll(reply->element[1]->str, NULL, 10) / 1000,
                    before_ms);
    freeReplyObject(reply);
}

void redis_server_check(const char *redis_url, struct findings *findings)
{
    static const char advice[] =
        "compare CONFIG GET save, appendonly, maxmemory-policy of each master with guard/README.md";
    struct redis_url url;
    char ignored[PART_BYTES], why[REDIS_URL_WHY_BYTES];

    if (!redis_url_parse(redis_url, &url, why)) {
        findings_add(findings, VERDICT_WARNING, WHAT, advice, "nobody looked: Sentinel, Cluster or TLS");
        return;
    }
    struct redisContext *context = redis_link_open(&url, CHECK_LIMIT_MS);
    explicit_bzero(&url, sizeof(url));
    if (context == NULL) {
        findings_add(findings, VERDICT_WARNING, WHAT, advice, "nobody looked: it could not be asked");
        return;
    }
    check_time(context, findings);
    check_replicas(context, findings);
    if (setting(context, "save", ignored)) {
        check_persistence(context, findings);
        check_eviction(context, findings);
    } else {
        findings_add(findings, VERDICT_WARNING, WHAT, advice, "nobody looked: the user may not CONFIG GET");
    }
    redisFree(context);
}
