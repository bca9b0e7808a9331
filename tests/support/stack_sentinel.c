/* SPDX-License-Identifier: MIT */
/* stack_sentinel.c - see stack_sentinel.h. */
#include "tests/support/stack_sentinel.h"

#include "load/base/clock.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_EVERY_MS = 10, SETTINGS_BYTES = 1024, QUORUM = 2 };

/* ---- start ---- */

static const char *host_of(const struct stack_sentinel *fleet, bool is_sentinel, size_t at)
{
    const struct stack_sentinel_options *options = &fleet->options;
    return options->host_of != NULL ? options->host_of(options->host_context, is_sentinel, at) : "127.0.0.1";
}

static bool start_node(struct stack_sentinel *fleet, size_t at)
{
    const struct stack_sentinel_options *options = &fleet->options;
    char settings[SETTINGS_BYTES] = "# what the Sentinels tell it comes here\n";
    if (at > 0)
        snprintf(settings, sizeof settings, "replicaof %s %u\n", fleet->node[0].host,
                 (unsigned)stack_redis_used_port(&fleet->node[0]));
    if (options->password != NULL)
        snprintf(settings + strlen(settings), sizeof settings - strlen(settings),
                 "requirepass \"%s\"\nmasterauth \"%s\"\n", options->password, options->password);
    if (options->tls != NULL)
        strcat(settings, "tls-replication yes\n");
    return stack_redis_start_as(&fleet->node[at],
                                &(struct stack_redis_options){.host = host_of(fleet, false, at),
                                                              .arguments = options->arguments,
                                                              .tls = options->tls,
                                                              .settings = settings,
                                                              .password = options->password});
}

/* Who may ask, and how the Sentinels ask each other. */
static void describe_access(const struct stack_sentinel_options *options, char *out, size_t bytes)
{
    if (options->sentinel_password == NULL)
        return;
    if (options->sentinel_user == NULL)
        snprintf(out, bytes, "requirepass \"%s\"\nsentinel sentinel-pass %s\n", options->sentinel_password,
                 options->sentinel_password);
    else
        snprintf(out, bytes,
                 "user %s on >%s ~* &* +@all\nuser default off\nsentinel sentinel-user %s\n"
                 "sentinel sentinel-pass %s\n",
                 options->sentinel_user, options->sentinel_password, options->sentinel_user,
                 options->sentinel_password);
}

static bool start_sentinel(struct stack_sentinel *fleet, size_t at)
{
    const struct stack_sentinel_options *options = &fleet->options;
    char settings[SETTINGS_BYTES], access[SETTINGS_BYTES / 2] = "", password[SETTINGS_BYTES / 4] = "";
    if (options->password != NULL)
        snprintf(password, sizeof password, "sentinel auth-pass " STACK_SENTINEL_NAME " %s\n",
                 options->password);
    describe_access(options, access, sizeof access);
    snprintf(settings, sizeof settings,
             "sentinel monitor " STACK_SENTINEL_NAME " %s %u %u\n"
             "sentinel down-after-milliseconds " STACK_SENTINEL_NAME " %" PRIu32 "\n"
             "sentinel failover-timeout " STACK_SENTINEL_NAME " %" PRIu32 "\n%s%s%s",
             fleet->node[0].host, (unsigned)stack_redis_used_port(&fleet->node[0]), (unsigned)QUORUM,
             options->down_after_ms, options->failover_limit_ms,
             options->tls != NULL ? "tls-replication yes\n" : "", password, access);
    return stack_redis_start_as(&fleet->sentinel[at],
                                &(struct stack_redis_options){.host = host_of(fleet, true, at),
                                                              .tls = options->tls,
                                                              .settings = settings,
                                                              .user = options->sentinel_user,
                                                              .password = options->sentinel_password,
                                                              .is_sentinel = true});
}

/* How often a Sentinel tells of itself, and so how soon they know each other, and how often it asks the servers. In a
 * failover it asks the replicas once a second. So five pings must take longer than that, or it takes none of them for
 * good; and four times the telling, or another one turns the promoted replica back before the first has
 * noticed it. */
static bool set_periods(struct stack_redis *sentinel, bool hurried)
{
    return stack_redis_do(
        sentinel,
        hurried ? "SENTINEL DEBUG info-period 1000 ping-period 400 ask-period 100 publish-period 500"
                : "SENTINEL DEBUG info-period 10000 ping-period 1000 ask-period 1000 publish-period 2000");
}

static bool set_all_periods(struct stack_sentinel *fleet, bool hurried)
{
    bool good = true;
    for (size_t i = 0; i < STACK_SENTINELS; i++)
        good = set_periods(&fleet->sentinel[i], hurried) && good;
    return good;
}

bool stack_sentinel_restart(struct stack_sentinel *fleet, size_t sentinel)
{
    return stack_redis_restart(&fleet->sentinel[sentinel]) &&
           set_periods(&fleet->sentinel[sentinel], fleet->options.hurried);
}

static void write_url(struct stack_sentinel *fleet)
{
    const struct stack_sentinel_options *options = &fleet->options;
    const bool has_user = options->sentinel_user != NULL, has_password = options->sentinel_password != NULL;
    snprintf(fleet->url, sizeof fleet->url,
             "%s+sentinel://%s%s%s%s:%u,%s:%u,%s:%u/" STACK_SENTINEL_NAME "%s%s%s%s",
             options->tls != NULL ? "rediss" : "redis", options->password != NULL ? ":" : "",
             options->password != NULL ? options->password : "", options->password != NULL ? "@" : "",
             fleet->sentinel[0].host, (unsigned)stack_redis_used_port(&fleet->sentinel[0]),
             fleet->sentinel[1].host, (unsigned)stack_redis_used_port(&fleet->sentinel[1]),
             fleet->sentinel[2].host, (unsigned)stack_redis_used_port(&fleet->sentinel[2]),
             has_user ? "?sentinel_username=" : "", has_user ? options->sentinel_user : "",
             !has_password ? ""
             : has_user    ? "&sentinel_password="
                           : "?sentinel_password=",
             has_password ? options->sentinel_password : "");
}

bool stack_sentinel_start(struct stack_sentinel *fleet, const struct stack_sentinel_options *options)
{
    *fleet = (struct stack_sentinel){.node_count = 1 + options->replica_count, .options = *options};
    assert(fleet->node_count <= STACK_SENTINEL_NODES_MAX);
    if (fleet->options.down_after_ms == 0)
        fleet->options.down_after_ms = 1000;
    if (fleet->options.failover_limit_ms == 0)
        fleet->options.failover_limit_ms = 10000;
    for (size_t i = 0; i < fleet->node_count; i++) {
        if (!start_node(fleet, i))
            return false;
    }
    for (size_t i = 0; i < STACK_SENTINELS; i++) {
        if (!start_sentinel(fleet, i))
            return false;
    }
    write_url(fleet);
    return set_all_periods(fleet, true) && stack_sentinel_wait_settled(fleet, STACK_SENTINEL_LIMIT_MS) &&
           (options->hurried || set_all_periods(fleet, false));
}

void stack_sentinel_stop(struct stack_sentinel *fleet)
{
    for (size_t i = 0; i < STACK_SENTINELS; i++)
        stack_redis_stop(&fleet->sentinel[i]);
    for (size_t i = 0; i < STACK_SENTINEL_NODES_MAX; i++)
        stack_redis_stop(&fleet->node[i]);
    *fleet = (struct stack_sentinel){.node_count = 0};
}

/* ---- what they say ---- */

/* The port of the master by one Sentinel's word; 0: it says none. */
static unsigned named_port(struct stack_redis *sentinel)
{
    struct redisReply *reply =
        stack_redis_command(sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME " STACK_SENTINEL_NAME);
    unsigned port = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2
                        ? (unsigned)strtoul(reply->element[1]->str, NULL, 10)
                        : 0;
    freeReplyObject(reply);
    return port;
}

size_t stack_sentinel_master(struct stack_sentinel *fleet)
{
    unsigned votes[STACK_SENTINEL_NODES_MAX] = {0};
    for (size_t i = 0; i < STACK_SENTINELS; i++) {
        unsigned port = stack_redis_runs(&fleet->sentinel[i]) ? named_port(&fleet->sentinel[i]) : 0;
        for (size_t node = 0; port != 0 && node < fleet->node_count; node++)
            votes[node] += stack_redis_used_port(&fleet->node[node]) == port;
    }
    for (size_t node = 0; node < fleet->node_count; node++) {
        if (votes[node] > STACK_SENTINELS / 2)
            return node;
    }
    return STACK_SENTINEL_NOBODY;
}

static bool is_master(struct stack_redis *redis)
{
    struct redisReply *reply = stack_redis_runs(redis) ? stack_redis_command(redis, "ROLE") : NULL;
    bool good =
        reply != NULL && reply->type == REDIS_REPLY_ARRAY && strcmp(reply->element[0]->str, "master") == 0;
    freeReplyObject(reply);
    return good;
}

size_t stack_sentinel_wait_switch(struct stack_sentinel *fleet, size_t old, uint32_t limit_ms)
{
    for (uint64_t end_us = clock_after_ms(limit_ms); clock_us() < end_us; clock_pause_ms(LOOK_EVERY_MS)) {
        size_t node = stack_sentinel_master(fleet);
        if (node != STACK_SENTINEL_NOBODY && node != old && is_master(&fleet->node[node]))
            return node;
    }
    fprintf(stderr, "stack: no other master after %" PRIu32 " ms; the log of a Sentinel ends:\n", limit_ms);
    proc_show_tail(fleet->sentinel[0].log_path);
    return STACK_SENTINEL_NOBODY;
}

/* A field of SENTINEL MASTER, which alternates names and values. */
static const char *field(const struct redisReply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        if (strcmp(reply->element[i]->str, name) == 0)
            return reply->element[i + 1]->str;
    }
    return "";
}

static bool knows_all(struct stack_redis *sentinel, size_t others, size_t replicas)
{
    struct redisReply *reply = stack_redis_command(sentinel, "SENTINEL MASTER " STACK_SENTINEL_NAME);
    bool good = reply != NULL && reply->type == REDIS_REPLY_ARRAY &&
                strcmp(field(reply, "flags"), "master") == 0 &&
                strtoul(field(reply, "num-other-sentinels"), NULL, 10) >= others &&
                strtoul(field(reply, "num-slaves"), NULL, 10) >= replicas;
    freeReplyObject(reply);
    return good;
}

/* It has heard from each replica that it is one: else it turns back what is promoted next. */
static bool sees_replicas(struct stack_redis *sentinel)
{
    struct redisReply *reply = stack_redis_command(sentinel, "SENTINEL REPLICAS " STACK_SENTINEL_NAME);
    bool good = reply != NULL && reply->type == REDIS_REPLY_ARRAY;
    for (size_t i = 0; good && i < reply->elements; i++)
        good = strcmp(field(reply->element[i], "role-reported"), "slave") == 0 ||
               strstr(field(reply->element[i], "flags"), "s_down") != NULL;
    freeReplyObject(reply);
    return good;
}

static bool is_settled(struct stack_sentinel *fleet)
{
    size_t master = stack_sentinel_master(fleet), replicas = 0, sentinels = 0;
    if (master == STACK_SENTINEL_NOBODY || !is_master(&fleet->node[master]))
        return false;
    for (size_t i = 0; i < fleet->node_count; i++) {
        if (i == master || !stack_redis_runs(&fleet->node[i]))
            continue;
        if (!stack_redis_follows(&fleet->node[i], stack_redis_used_port(&fleet->node[master])))
            return false;
        replicas++;
    }
    for (size_t i = 0; i < STACK_SENTINELS; i++)
        sentinels += stack_redis_runs(&fleet->sentinel[i]);
    for (size_t i = 0; i < STACK_SENTINELS; i++) {
        if (stack_redis_runs(&fleet->sentinel[i]) &&
            (named_port(&fleet->sentinel[i]) != stack_redis_used_port(&fleet->node[master]) ||
             !knows_all(&fleet->sentinel[i], sentinels - 1, replicas) || !sees_replicas(&fleet->sentinel[i])))
            return false;
    }
    return true;
}

bool stack_sentinel_wait_settled(struct stack_sentinel *fleet, uint32_t limit_ms)
{
    for (uint64_t end_us = clock_after_ms(limit_ms); !is_settled(fleet); clock_pause_ms(LOOK_EVERY_MS)) {
        if (clock_us() < end_us)
            continue;
        fprintf(stderr, "stack: Sentinels and replicas do not agree after %" PRIu32 " ms; one's log ends:\n",
                limit_ms);
        proc_show_tail(fleet->sentinel[0].log_path);
        return false;
    }
    return true;
}

bool stack_sentinel_failover(struct stack_sentinel *fleet)
{
    bool good = false;
    for (size_t i = 0; !good && i < STACK_SENTINELS; i++) {
        good = stack_redis_runs(&fleet->sentinel[i]) &&
               stack_redis_do(&fleet->sentinel[i], "SENTINEL FAILOVER " STACK_SENTINEL_NAME);
    }
    return good;
}
