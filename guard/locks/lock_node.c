/* SPDX-License-Identifier: MIT */
/* lock_node.c - see lock_node.h. */
#include "lock_node.h"
#include "../base/check.h"
#include "../base/clock.h"
#include "../redis/subscription.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NODE_REPLY_MOST_BYTES = 1 << 20,
    NODE_PENDING_BYTES = 64 << 20,
    NODE_BACKOFF_MS = 50,
    NODE_MAX_BACKOFF_MS = 1000,
};

/* ---- its age ---- */

uint32_t lock_node_young_ms(const struct lock_node *node, uint64_t now_us)
{
    uint64_t grown_us = node->born_us + (uint64_t)node->config.locks->max_lease_ms * 1000;
    if (!node->waits)
        return 0;
    if (node->born_us == 0)
        return node->config.locks->limit_ms;
    return now_us < grown_us ? (uint32_t)((grown_us - now_us) / 1000 + 1) : 0;
}

const char *lock_node_ageless(const struct lock_node *node)
{
    return node->ageless ? "this login may not ask Redis how long it has been up: it needs +info" : NULL;
}

const char *lock_node_denied(const struct lock_node *node)
{
    return node->denied ? node->why : NULL;
}

static void tell_node_up(struct lock_node *node)
{
    node->config.hooks.link(node->config.hooks.context, true, node->why);
}

/* The latest that it can be. Redis takes one whole second of its clock from another, which is up to a second too
 * much. Never 0: that is a birth that is not known. */
static uint64_t birth_of(uint64_t now_us, unsigned long long uptime_s)
{
    unsigned long long least_s = uptime_s > 0 ? uptime_s - 1 : 0;
    return least_s < now_us / 1000000 ? now_us - least_s * 1000000 : 1;
}

static void read_run_id(struct lock_node *node, const char *info)
{
    static const char FIELD[] = "run_id:";
    const char *field = strstr(info, FIELD);
    if (field != NULL)
        snprintf(node->run_id, sizeof node->run_id, "%.*s", (int)strcspn(field + sizeof FIELD - 1, "\r\n"),
                 field + sizeof FIELD - 1);
}

static void on_node_info(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    static const char FIELD[] = "uptime_in_seconds:";
    struct lock_node *node = context;
    if (node->closing || outcome != REDIS_REPLIED)
        return; /* the connection is given up; the next one asks again */
    const char *field = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, FIELD) : NULL;
    node->ageless = reply->type == REDIS_REPLY_ERROR && redis_error_is_permanent(reply->str, reply->len);
    if (field != NULL) {
        node->born_us = birth_of(clock_now_us(), strtoull(field + sizeof FIELD - 1, NULL, 10));
        read_run_id(node, reply->str);
    }
    if (field != NULL || node->ageless)
        tell_node_up(node);
    else
        redis_reset(node->redis, "it does not say how long it has been up");
}

/* ---- the connections ---- */

static void on_node_state(void *context, enum guard_redis_state state, const char *text)
{
    struct lock_node *node = context;
    bool was_up = node->is_up, up = redis_is_up(node->redis);
    bool good = state == GUARD_REDIS_UP && redis_is_whole(node->redis);
    snprintf(node->why, sizeof node->why, "redis %s", text);
    say(node->config.say, SAY_REDIS, good ? SAY_GOOD : SAY_BAD, "locks: %s", node->why);
    node->is_up = up;
    node->denied = state == GUARD_REDIS_DENIED && !up;
    if (up && was_up)
        return; /* only what is said of it has changed */
    node->born_us = 0;
    node->run_id[0] = '\0';
    const char *argv[] = {"INFO", "server"};
    const size_t bytes[] = {4, 6};
    if (!up)
        node->config.hooks.link(node->config.hooks.context, node->denied, node->why);
    else if (!node->waits)
        tell_node_up(node);
    else if (!redis_send(node->redis, 2, argv, bytes, on_node_info, node))
        redis_reset(node->redis, "no memory to ask for its uptime");
}

static void on_node_message(void *context, const char *payload, size_t payload_bytes)
{
    struct lock_node *node = context;
    struct lock_message message;
    if (lock_message_read(payload, payload_bytes, &message))
        node->config.hooks.told(node->config.hooks.context, message.uuid, message.encoded,
                                message.encoded_bytes);
}

static void on_node_resync(void *context)
{
    struct lock_node *node = context;
    node->config.hooks.resync(node->config.hooks.context);
}

static void on_node_hears(void *context, const char *text)
{
    struct lock_node *node = context;
    bool up = subscription_state(node->subscription) == GUARD_REDIS_UP;
    say(node->config.say, SAY_WAKE, up ? SAY_GOOD : SAY_BAD, "locks: messages: %s", text);
}

/* ---- from open to close ---- */

static void node_closed(void *context)
{
    struct lock_node *node = context;
    host_free_and_tell(node, node->told);
}

/* The topology goes last: the others are connected over it. */
static void node_part_closed(void *context)
{
    struct lock_node *node = context;
    if (--node->parts_open == 0)
        redis_topology_close(node->topology, node_closed, node);
}

void lock_node_close(struct lock_node *node, void (*closed)(void *context), void *context)
{
    node->closing = true;
    node->told = (struct host_told){closed, context};
    node->parts_open = 1u + (node->redis != NULL) + (node->subscription != NULL);
    if (node->subscription != NULL)
        subscription_close(node->subscription, node_part_closed, node);
    if (node->redis != NULL)
        redis_close(node->redis, node_part_closed, node);
    node_part_closed(node); /* of this call */
}

static bool node_redis_config(struct lock_node *node, struct redis_config *config)
{
    *config = (struct redis_config){
        .topology = node->topology,
        .limit_ms = node->config.locks->limit_ms,
        .connect_limit_ms = node->config.locks->connect_limit_ms,
        .backoff_ms = NODE_BACKOFF_MS,
        .max_backoff_ms = NODE_MAX_BACKOFF_MS,
        .max_reply_bytes = NODE_REPLY_MOST_BYTES,
        .max_pending_bytes = NODE_PENDING_BYTES,
        .client_name = "stampede-locks",
        .scripts = lock_scripts,
        .script_count = LOCK_SCRIPT_COUNT,
    };
    return clock_random(&config->jitter_seed, sizeof config->jitter_seed);
}

/* As far as memory goes. */
static void connect_node(struct lock_node *node)
{
    const struct subscription_hooks hooks = {node, on_node_message, on_node_resync, on_node_hears, NULL};
    struct redis_config config;
    if (!node_redis_config(node, &config))
        return;
    config.hooks = (struct redis_hooks){.context = node, .state = on_node_state};
    node->redis = redis_open(node->config.host, &config);
    if (node->redis != NULL && node_redis_config(node, &config))
        node->subscription =
            subscription_open(node->config.host, node->wire.channel, &config, node->redis, &hooks);
}

/* In a Cluster the names of one request would be on several masters, and a failover of one forgets what it granted. A
 * replica that takes over may lack what a member of RedLock granted, and its age does not tell. */
static bool check_topology(const struct lock_provider_config *config, const struct redis_url *url,
                           struct guard_error *error)
{
    if (url->wait_replicas > 0)
        check_failed(
            error, GUARD_INVALID,
            "guard_locks_open: ?wait_replicas= is not for locks: a grant does not wait for replicas");
    else if (url->kind == REDIS_CLUSTER)
        check_failed(
            error, GUARD_INVALID,
            "guard_locks_open: no locks in a redis+cluster://; use one Redis (redis+sentinel:// finds its "
            "master), or RedLock over independent masters");
    else if (url->kind == REDIS_SENTINEL && config->locks->provider == GUARD_LOCKS_REDLOCK)
        check_failed(error, GUARD_INVALID,
                     "guard_locks_open: no RedLock over redis+sentinel://, a failover forgets what was "
                     "granted; name independent masters without replicas by redis://");
    else
        return true;
    return false;
}

static struct redis_topology *open_topology(const struct lock_provider_config *config, const char *url,
                                            struct guard_error *error)
{
    struct redis_url parsed;
    struct redis_topology *topology = NULL;
    if (redis_url_read(url, &parsed, error) && check_topology(config, &parsed, error))
        topology =
            redis_topology_open(config->host, &parsed, &(struct redis_topology_hooks){NULL, NULL}, error);
    redis_url_clear(&parsed);
    return topology;
}

struct lock_node *lock_node_open(const struct lock_provider_config *config, const char *url, bool waits,
                                 struct guard_error *error)
{
    const struct guard_locks_config *locks = config->locks;
    struct lock_node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        check_failed(error, GUARD_NO_MEMORY, "guard_locks_open: no memory");
        return NULL;
    }
    node->topology = open_topology(config, url, error);
    if (node->topology == NULL) {
        free(node);
        return NULL;
    }
    node->config = *config;
    node->waits = waits;
    redis_url_label(&node->topology->url, node->label);
    snprintf(node->why, sizeof node->why, "redis %s: not reached yet", node->label);
    lock_wire_init(&node->wire, locks->name_space, node->topology->url.database, locks->max_lease_ms,
                   locks->fence_ms);
    connect_node(node);
    if (node->subscription == NULL)
        check_failed(error, GUARD_NO_MEMORY,
                     "guard_locks_open: no memory, randomness or descriptor to be had");
    return node;
}
