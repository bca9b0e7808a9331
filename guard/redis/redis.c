/* SPDX-License-Identifier: MIT */
/*
 * redis/redis.c - see redis/redis.h: with one master one connection, in a Cluster routes to all of them, and to
 * subscribe a connection to some node.
 */
#include "redis.h"
#include "connection.h"
#include "replicated.h"
#include "routes.h"
#include "sentinel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct redis {
    struct redis_hooks hooks;
    struct redis_topology *topology;     /* lent */
    struct redis_connection *connection; /* owned; NULL: routes */
    struct redis_routes *routes;         /* owned; NULL: connection */
    struct redis_cluster *cluster;       /* lent; NULL: one master */
    struct redis_endpoint node_at;       /* of a Cluster, that is subscribed to */
    struct redis_place node;             /* likewise */
    bool is_up;                          /* as it was told last */
    uint64_t generation;                 /* under which it was up last */
    bool was_up;                         /* ever */
    struct redis_replicated *replicated; /* owned; NULL: not used yet, or routes */
    struct guard_host *host;
    struct redis_config terms; /* of `replicated` */
    unsigned parts_open;       /* while it is closed */
    struct host_told told;
};

/* ---- what a connection tells ---- */

static void tell_face_link(struct redis *redis, bool up)
{
    uint64_t generation = redis_topology_reigns(redis->topology);
    bool other = up && redis->was_up && generation != redis->generation;
    if (up == redis->is_up)
        return;
    redis->is_up = up;
    if (up) {
        redis->generation = generation;
        redis->was_up = true;
    }
    if (other && redis->hooks.reign != NULL)
        redis->hooks.reign(redis->hooks.context, 0);
    if (redis->hooks.link != NULL)
        redis->hooks.link(redis->hooks.context, 0, up);
}

/* Another one will do as well. */
static void leave_node(struct redis *redis)
{
    struct redis_endpoint from = redis->node_at;
    redis_cluster_choose(redis->cluster, &from, &redis->node_at);
    redis_place_set(&redis->node, &redis->node_at);
}

static void on_connection_state(void *context, enum guard_redis_state state, const char *text)
{
    struct redis *redis = context;
    if (redis->cluster != NULL && state != GUARD_REDIS_UP) {
        leave_node(redis);
        redis_cluster_hint(redis->cluster); /* nothing else tells of a lost replica */
    }
    tell_face_link(redis, connection_is_up(redis->connection));
    if (redis->hooks.state != NULL)
        redis->hooks.state(redis->hooks.context, state, text);
}

static void on_connection_message(void *context, const char *payload, size_t payload_bytes)
{
    struct redis *redis = context;
    if (redis->hooks.message != NULL)
        redis->hooks.message(redis->hooks.context, payload, payload_bytes);
}

/* ---- from open to close ---- */

static struct redis_config connection_terms(const struct redis_config *config)
{
    const struct redis_url *url = &config->topology->url;
    struct redis_config terms = *config;
    terms.login = &url->login;
    terms.database = url->database;
    terms.tls = config->topology->tls;
    terms.fence_by_role = url->fence_by_role;
    terms.news = config->channel == NULL ? &config->topology->news : NULL;
    return terms;
}

static void connect_one(struct redis *redis, struct redis_config connection)
{
    connection.place = &redis->topology->place;
    connection.hooks = (struct redis_hooks){
        .context = redis, .state = on_connection_state, .message = on_connection_message};
    if (redis->cluster != NULL) {
        leave_node(redis);
        connection.place = &redis->node;
        connection.expected = REDIS_SERVER_NODE;
        connection.any_role = true;
    }
    redis->connection = connection_open(redis->host, &connection);
    redis->terms = connection;
}

static void free_face(struct redis *redis)
{
    redis_place_clear(&redis->node);
    free(redis);
}

struct redis *redis_open(struct guard_host *host, const struct redis_config *config)
{
    struct redis *redis = calloc(1, sizeof *redis);
    if (redis == NULL)
        return NULL;
    redis->hooks = config->hooks;
    redis->topology = config->topology;
    redis->cluster = config->topology->cluster;
    redis_place_init(&redis->node, NULL, NULL, NULL);
    redis->host = host;
    const struct redis_config terms = connection_terms(config);
    if (redis->cluster == NULL || config->channel != NULL)
        connect_one(redis, terms);
    else
        redis->routes = routes_open(host, &terms);
    if (redis->connection != NULL || redis->routes != NULL)
        return redis;
    free_face(redis);
    return NULL;
}

static void on_face_closed(void *context)
{
    struct redis *redis = context;
    struct host_told told = redis->told;
    if (--redis->parts_open > 0)
        return;
    free_face(redis);
    host_tell(told);
}

void redis_close(struct redis *redis, void (*closed)(void *context), void *context)
{
    redis->told = (struct host_told){closed, context};
    redis->parts_open = 1u + (redis->replicated != NULL);
    if (redis->replicated != NULL)
        replicated_close(redis->replicated, on_face_closed, redis);
    if (redis->routes != NULL)
        routes_close(redis->routes, on_face_closed, redis);
    else
        connection_close(redis->connection, on_face_closed, redis);
}

void redis_reset(struct redis *redis, const char *why)
{
    if (redis->routes != NULL)
        routes_reset(redis->routes, why);
    else
        connection_reset(redis->connection, why);
}

/* ---- how it is ---- */

bool redis_is_up(const struct redis *redis)
{
    return redis->routes != NULL ? routes_is_up(redis->routes) : connection_is_up(redis->connection);
}

bool redis_is_whole(const struct redis *redis)
{
    return redis->routes != NULL ? routes_is_whole(redis->routes) : connection_is_whole(redis->connection);
}

unsigned redis_shard(const struct redis *redis, const char *name, size_t name_bytes)
{
    return redis->routes != NULL ? routes_shard(redis->routes, name, name_bytes) : 0;
}

bool redis_next_shard(const struct redis *redis, unsigned *shard)
{
    return redis->routes != NULL ? routes_next_shard(redis->routes, shard) : *shard == 0;
}

const char *redis_shard_name(const struct redis *redis, unsigned shard)
{
    return redis->routes != NULL ? routes_shard_name(redis->routes, shard) : "csg1:{beat}";
}

uint64_t redis_map_changes(const struct redis *redis)
{
    uint64_t changes = redis->cluster != NULL ? redis_cluster_changes(redis->cluster) : 0;
    return redis_topology_reigns(redis->topology) + changes;
}

bool redis_may_look_up(const struct redis *redis, const char *name, size_t name_bytes)
{
    return redis->routes != NULL ? routes_may_look_up(redis->routes, name, name_bytes)
                                 : connection_may_look_up(redis->connection);
}

bool redis_is_away(const struct redis *redis)
{
    return redis->routes != NULL ? !routes_is_up(redis->routes) : !connection_may_look_up(redis->connection);
}

uint64_t redis_batch(const struct redis *redis)
{
    return redis->routes != NULL ? routes_batch(redis->routes) : connection_batch(redis->connection);
}

/* ---- commands ---- */

static bool call_redis(struct redis *redis, const struct redis_call *call)
{
    if (redis->routes != NULL)
        return routes_send(redis->routes, call);
    if (call->kind != REDIS_REPLICATED)
        return connection_call(redis->connection, call);
    if (redis->replicated == NULL)
        redis->replicated = replicated_open(redis->host, &redis->terms);
    return redis->replicated != NULL && replicated_run(redis->replicated, call);
}

bool redis_send(struct redis *redis, size_t argc, const char *const *argv, const size_t *argv_bytes,
                redis_replied *replied, void *context)
{
    return call_redis(redis,
                      &(struct redis_call){REDIS_WORDS, 0, 0, argc, argv, argv_bytes, replied, context});
}

bool redis_send_to(struct redis *redis, unsigned shard, size_t argc, const char *const *argv,
                   const size_t *argv_bytes, redis_replied *replied, void *context)
{
    struct redis_connection *connection =
        redis->routes != NULL ? routes_master(redis->routes, shard) : redis->connection;
    return connection != NULL && connection_send(connection, argc, argv, argv_bytes, replied, context);
}

bool redis_send_get(struct redis *redis, const char *name, size_t name_bytes, redis_replied *replied,
                    void *context)
{
    return call_redis(redis, &(struct redis_call){REDIS_GET, 0, 0, 1, &name, &name_bytes, replied, context});
}

bool redis_look_up(struct redis *redis, struct redis_lookup *lookup, const char *name, size_t name_bytes)
{
    return call_redis(redis, &(struct redis_call){REDIS_LOOKUP, 0, 0, 1, &name, &name_bytes, NULL, lookup});
}

bool redis_run(struct redis *redis, enum redis_call_kind kind, unsigned script, const struct redis_args *args,
               redis_replied *replied, void *context)
{
    if (redis->topology->url.wait_replicas == 0)
        kind = REDIS_RUN;
    return call_redis(redis, &(struct redis_call){kind, script, args->key_count, args->count, args->at,
                                                  args->bytes, replied, context});
}

/* ---- where the masters are ---- */

static void free_topology(struct redis_topology *topology)
{
    redis_place_clear(&topology->place);
    redis_news_clear(&topology->news);
    redis_tls_close(&topology->tls);
    redis_url_clear(&topology->url);
    free(topology);
}

static void on_topology_closed(void *context)
{
    struct redis_topology *topology = context;
    struct host_told told = topology->told;
    free_topology(topology);
    host_tell(told);
}

static struct redis_topology *refuse_topology(struct guard_error *error, enum guard_status status,
                                              const char *why)
{
    if (error != NULL) {
        error->status = status;
        snprintf(error->text, sizeof error->text, "redis_url: %s", why);
    }
    return NULL;
}

struct redis_topology *redis_topology_open(struct guard_host *host, const struct redis_url *url,
                                           const struct redis_topology_hooks *hooks,
                                           struct guard_error *error)
{
    struct redis_topology *topology = calloc(1, sizeof *topology);
    if (topology == NULL)
        return refuse_topology(error, GUARD_NO_MEMORY, "no memory");
    topology->tls = url->tls.on ? redis_tls_open(&url->tls, error) : NULL;
    if (url->tls.on && topology->tls == NULL) {
        free(topology);
        return NULL;
    }
    topology->url = *url;
    topology->host = host;
    topology->closer = (struct host_soon){.run = on_topology_closed, .context = topology};
    redis_news_init(&topology->news);
    redis_place_init(&topology->place, url->kind == REDIS_ONE ? &url->hosts[0] : NULL, hooks->ended,
                     hooks->context);
    if (url->kind == REDIS_SENTINEL)
        topology->watcher = redis_watcher_open(host, &topology->url, topology->tls, &topology->place);
    if (url->kind == REDIS_CLUSTER)
        topology->cluster =
            redis_cluster_open(host, &topology->url, topology->tls, hooks->ended, hooks->context);
    if (url->kind == REDIS_ONE || topology->watcher != NULL || topology->cluster != NULL)
        return topology;
    free_topology(topology);
    return refuse_topology(error, GUARD_NO_MEMORY, "no memory");
}

void redis_topology_close(struct redis_topology *topology, void (*closed)(void *context), void *context)
{
    topology->told = (struct host_told){closed, context};
    if (topology->cluster != NULL)
        redis_cluster_close(topology->cluster, on_topology_closed, topology);
    else if (topology->watcher != NULL)
        redis_watcher_close(topology->watcher, on_topology_closed, topology);
    else
        host_soon(topology->host, &topology->closer);
}

uint64_t redis_topology_reigns(const struct redis_topology *topology)
{
    if (topology->cluster != NULL)
        return redis_cluster_reigns(topology->cluster);
    return redis_reign_now(&topology->place.reign);
}
