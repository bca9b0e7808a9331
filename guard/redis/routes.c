/* SPDX-License-Identifier: MIT */
/*
 * redis/routes.c - see redis/routes.h.
 *
 * Flow      start() -> dispatch() -> a connection -> on_reply() -> settle_call(), or follow() and try_later() ->
 *           dispatch().
 * Lifetime  A route belongs to the connection that it was sent over, or to one of the lists; settle_call() frees it.
 *           Callbacks of the owner may close the routes: what is left then is settled from inside, the struct goes
 *           last.
 */
#include "routes.h"
#include "../base/chance.h"
#include "../base/clock.h"
#include "command.h"
#include "replicated.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    REDIRECTIONS_MOST = 5,
    REDIRECTIONS_AT_ONCE = 2, /* two nodes that name each other do not know yet */
    TRY_FIRST_MS = 5,
    TRY_MOST_MS = 40,
    LEAST_MS =
        50, /* for one more try, or a quarter of the limit: one that is late would end its connection */
    BEAT_KEY_SIZE = 32,
    BEAT_KEY_TRIES = 4096,
    ANY_SLOT = REDIS_SLOTS,
    MASTER_TEXT_SIZE = REDIS_LABEL_SIZE + REDIS_WHY_SIZE,
    ROUTES_TEXT_SIZE = MASTER_TEXT_SIZE + 64,
    SERVERS_SIZE = 2 * REDIS_SERVER_SIZE,
};

struct route_master {
    struct redis_routes *routes;
    unsigned node;
    struct redis_connection *connection; /* owned; NULL: it is closing */
    struct redis_replicated *replicated; /* owned; NULL: not used yet, or it is closing */
    unsigned parts_open;                 /* of both, while they are closed */
    struct redis_place *place;           /* held */
    struct redis_endpoint at;
    char beat_key[BEAT_KEY_SIZE]; /* of a slot that it has */
    unsigned owed;                /* replies */
    bool owns, leaving;           /* slots; it is named no longer */
    bool is_up, was_up;           /* told; ever */
    bool is_lost;                 /* since it was up last, or was opened: told to the map, too */
    uint64_t generation, takeovers;
    enum guard_redis_state state;
    char text[MASTER_TEXT_SIZE]; /* "": nothing has been told */
};

/* A command on its way. */
struct route {
    struct route *prev, *next; /* in one of the lists */
    struct redis_routes *routes;
    struct route_master *master; /* that owes the reply; NULL: none */
    struct redis_call call;      /* its words are those of `words` */
    struct redis_words *words;   /* owned */
    struct redis_lookup lookup;  /* of REDIS_LOOKUP */
    unsigned slot;
    uint64_t deadline_ms, due_ms;
    uint32_t tries; /* after TRYAGAIN */
    uint32_t redirections;
    bool again, asking; /* not for the first time; after ASKING */
    unsigned asked_by;  /* asking: the node that said so */
    bool moving;        /* its slot is */
};

struct redis_routes {
    struct redis_config config;    /* of each master, but for its place */
    struct redis_cluster *cluster; /* lent */
    struct guard_host *host;
    struct chance chance;
    struct redis_cluster_watch watch;
    struct route_master *masters[REDIS_NODES_MAX];
    unsigned top;          /* one more than the highest number in use */
    unsigned master_count; /* that are not closed */
    unsigned turn;         /* whose it is to be any master */
    uint64_t gone_batches; /* of those that are closed */
    struct route *waiting; /* until an instant, or for the map */
    struct route *due;     /* of these, being tried */
    struct host_timer timer;
    enum guard_redis_state told_state;
    char told_text[ROUTES_TEXT_SIZE];
    bool closing;
    struct host_soon closer;
    struct host_told told;
};

/* ---- telling ---- */

static bool is_good(const struct route_master *master)
{
    return master->is_up && master->state == GUARD_REDIS_UP;
}

static const char *server_of(const struct redis_routes *routes, unsigned node)
{
    const struct route_master *master = routes->masters[node];
    return master != NULL && master->owns && master->connection != NULL
               ? connection_server(master->connection)
               : "";
}

static bool is_named_before(const struct redis_routes *routes, unsigned node)
{
    for (unsigned i = 0; i < node; i++)
        if (strcmp(server_of(routes, i), server_of(routes, node)) == 0)
            return true;
    return server_of(routes, node)[0] == '\0';
}

/* "redis 7.0.15", or "redis 6.2.14, redis 7.0.15 ..." while they are upgraded one by one. */
static void name_servers(const struct redis_routes *routes, char out[static SERVERS_SIZE])
{
    size_t used = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < routes->top && used < SERVERS_SIZE; i++)
        if (!is_named_before(routes, i))
            used += (size_t)snprintf(out + used, SERVERS_SIZE - used, "%s%s", used > 0 ? ", " : "",
                                     server_of(routes, i));
}

static void tell_routes(struct redis_routes *routes, enum guard_redis_state state, const char *text)
{
    char line[ROUTES_TEXT_SIZE + SERVERS_SIZE], servers[SERVERS_SIZE] = "";
    if (state == GUARD_REDIS_UP)
        name_servers(routes, servers);
    bool is_news = redis_news_take(routes->config.news, servers);
    if (state == routes->told_state && strcmp(text, routes->told_text) == 0 && !is_news)
        return;
    routes->told_state = state;
    snprintf(routes->told_text, sizeof routes->told_text, "%s", text);
    snprintf(line, sizeof line, "%s%s%s", text, is_news ? "; " : "", is_news ? servers : "");
    if (routes->config.hooks.state != NULL)
        routes->config.hooks.state(routes->config.hooks.context, state, line);
}

/* How many masters are up, and the first that is not, or lacks something. */
static void tell_all(struct redis_routes *routes)
{
    char text[ROUTES_TEXT_SIZE];
    const struct route_master *lacking = NULL, *down = NULL;
    unsigned count = 0, up = 0;
    if (routes->closing || !redis_cluster_is_known(routes->cluster))
        return;
    for (unsigned i = 0; i < routes->top; i++) {
        const struct route_master *master = routes->masters[i];
        if (master == NULL || !master->owns || master->connection == NULL)
            continue;
        if (master->text[0] == '\0')
            return; /* it will tell something soon */
        count++;
        up += master->is_up;
        if (down == NULL && !is_good(master))
            down = master;
        if (lacking == NULL && is_good(master) && !connection_is_whole(master->connection))
            lacking = master;
    }
    const struct route_master *first = down != NULL ? down : lacking;
    snprintf(text, sizeof text, "%u of %u masters are up%s%s", up, count, first != NULL ? "; " : "",
             first != NULL ? first->text : "");
    if (count > 0)
        tell_routes(routes, down != NULL ? down->state : GUARD_REDIS_UP, text);
}

static void tell_master_link(struct route_master *master)
{
    const struct redis_hooks *hooks = &master->routes->config.hooks;
    bool up = master->connection != NULL && !master->leaving && connection_is_up(master->connection);
    if (up == master->is_up)
        return;
    master->is_up = up;
    if (hooks->link != NULL)
        hooks->link(hooks->context, master->node, up);
}

/* Its shard has another master than the last time, or it is the same server with another history. */
static void tell_reign(struct route_master *master, uint64_t takeovers)
{
    const struct redis_hooks *hooks = &master->routes->config.hooks;
    uint64_t generation = redis_reign_now(&master->place->reign);
    bool other = takeovers != master->takeovers || (master->was_up && generation != master->generation);
    master->takeovers = takeovers;
    master->generation = generation;
    master->was_up = true;
    if (other && hooks->reign != NULL)
        hooks->reign(hooks->context, master->node);
}

/* ---- masters ---- */

static void master_is_closed(void *context)
{
    struct route_master *master = context;
    struct redis_routes *routes = master->routes;
    const struct redis_hooks *hooks = &routes->config.hooks;
    if (--master->parts_open > 0)
        return;
    if (hooks->gone != NULL && !routes->closing)
        hooks->gone(hooks->context, master->node);
    redis_cluster_release(routes->cluster, master->node);
    if (routes->masters[master->node] == master)
        routes->masters[master->node] = NULL;
    if (!routes->closing)
        host_wake_send(&routes->watch.wake); /* the map may have named it again meanwhile */
    free(master);
    if (--routes->master_count == 0 && routes->closing)
        host_soon(routes->host, &routes->closer);
}

static void note_lost(struct route_master *master, bool is_lost)
{
    if (master->is_lost != is_lost)
        redis_cluster_lost(master->routes->cluster, master->node, is_lost);
    master->is_lost = is_lost;
}

static void close_master(struct route_master *master)
{
    struct redis_connection *connection = master->connection;
    if (connection == NULL)
        return;
    note_lost(master, false);
    master->routes->gone_batches += connection_batch(connection) + 1;
    master->connection = NULL;
    master->parts_open = 1u + (master->replicated != NULL);
    if (master->replicated != NULL)
        replicated_close(master->replicated, master_is_closed, master);
    master->replicated = NULL;
    connection_close(connection, master_is_closed, master);
}

static void close_if_idle(struct route_master *master)
{
    if (master->leaving && master->owed == 0)
        close_master(master);
}

static void ring_routes_by(struct redis_routes *routes, uint64_t at_ms)
{
    if (!routes->closing && (!routes->timer.set || at_ms * 1000 < routes->timer.at_us))
        host_timer_set(routes->host, &routes->timer, at_ms * 1000);
}

static void on_master_state(void *context, enum guard_redis_state state, const char *text)
{
    struct route_master *master = context;
    struct redis_routes *routes = master->routes;
    bool up = connection_is_up(master->connection);
    master->state = state;
    snprintf(master->text, sizeof master->text, "%s", text);
    note_lost(master, !up);
    struct redis_node node = {.takeovers = master->takeovers};
    if (up && !master->is_up && !master->leaving) {
        redis_cluster_node(routes->cluster, master->node, &node);
        tell_reign(master, node.takeovers);
    }
    tell_master_link(master);
    tell_all(routes);
}

/* A name whose slot this master has; it stays as it was if none is found soon. */
static void choose_beat_key(struct route_master *master)
{
    const struct redis_cluster *cluster = master->routes->cluster;
    char key[BEAT_KEY_SIZE];
    if (redis_cluster_owner(cluster, redis_slot(master->beat_key, strlen(master->beat_key))) == master->node)
        return;
    for (unsigned i = 0; i < BEAT_KEY_TRIES; i++) {
        int bytes = snprintf(key, sizeof key, "csg1:{beat%u}", i);
        if (redis_cluster_owner(cluster, redis_slot(key, (size_t)bytes)) != master->node)
            continue;
        memcpy(master->beat_key, key, sizeof master->beat_key);
        return;
    }
}

static struct redis_config config_of(struct route_master *master)
{
    struct redis_config config = master->routes->config;
    config.place = master->place;
    config.expected = REDIS_SERVER_NODE;
    config.news = NULL; /* tell_all() says it */
    config.beat_key = master->beat_key;
    config.jitter_seed = chance_next(&master->routes->chance);
    return config;
}

/* NULL: the number is free, no memory, or the one that had the number is still being closed. */
static struct route_master *open_master(struct redis_routes *routes, unsigned node)
{
    struct route_master *master = routes->masters[node];
    struct redis_node named;
    if (master != NULL || routes->closing)
        return master != NULL && master->connection != NULL && !routes->closing ? master : NULL;
    master = calloc(1, sizeof *master);
    if (master == NULL)
        return NULL;
    *master = (struct route_master){.routes = routes, .node = node};
    master->place = redis_cluster_hold(routes->cluster, node);
    if (master->place == NULL) {
        free(master);
        return NULL;
    }
    redis_cluster_node(routes->cluster, node, &named);
    master->at = named.at;
    snprintf(master->beat_key, sizeof master->beat_key, "csg1:{beat}");
    choose_beat_key(master);
    struct redis_config config = config_of(master);
    config.hooks = (struct redis_hooks){.context = master, .state = on_master_state};
    master->connection = connection_open(routes->host, &config);
    if (master->connection == NULL) {
        redis_cluster_release(routes->cluster, node);
        free(master);
        return NULL;
    }
    routes->masters[node] = master;
    routes->master_count++;
    if (node >= routes->top)
        routes->top = node + 1;
    return master;
}

/* What the map says of it: NULL: it is named no longer. */
static void update_master(struct redis_routes *routes, unsigned index, const struct redis_node *node)
{
    struct route_master *master = routes->masters[index];
    if (master == NULL && node != NULL && node->slots > 0)
        master = open_master(routes, index);
    if (master == NULL || master->connection == NULL)
        return;
    master->leaving = node == NULL;
    master->owns = node != NULL && node->slots > 0;
    tell_master_link(master);
    if (routes->masters[index] != master || routes->closing)
        return;
    close_if_idle(master);
    if (node == NULL || master->connection == NULL)
        return;
    choose_beat_key(master);
    if (master->is_up && node->takeovers != master->takeovers)
        tell_reign(master, node->takeovers);
}

static void wake_those_that_wait_for_the_map(struct redis_routes *routes);

static void on_map(void *context)
{
    struct redis_routes *routes = context;
    char why[MASTER_TEXT_SIZE];
    struct redis_node node;
    if (!redis_cluster_is_known(routes->cluster)) {
        enum guard_redis_state state = redis_cluster_why(routes->cluster, why);
        if (why[0] != '\0')
            tell_routes(routes, state, why);
        return;
    }
    for (unsigned i = 0; i < REDIS_NODES_MAX && !routes->closing; i++) {
        bool named = redis_cluster_node(routes->cluster, i, &node) && node.named;
        update_master(routes, i, named ? &node : NULL);
    }
    if (routes->closing)
        return;
    wake_those_that_wait_for_the_map(routes);
    tell_all(routes);
}

/* ---- the end of a route ---- */

static void free_route(struct route *route)
{
    free(route->words);
    free(route);
}

static void settle_call(struct route *route, enum redis_outcome outcome, const struct redisReply *reply)
{
    const struct redis_call call = route->call;
    int64_t pttl_ms = route->lookup.pttl_ms;
    free_route(route);
    if (call.kind == REDIS_LOOKUP) {
        struct redis_lookup *lookup = call.context;
        lookup->done(lookup->context, outcome, pttl_ms, reply);
    } else if (call.replied != NULL) {
        call.replied(call.context, outcome, reply);
    }
}

/* It has not run. */
static void settle_unsent(struct route *route)
{
    settle_call(route, route->moving ? REDIS_MOVING : REDIS_UNSENT, NULL);
}

/* ---- sending ---- */

static void on_reply(void *context, enum redis_outcome outcome, const struct redisReply *reply);

/* Over the master's other connection, whose limit is its own. */
static bool send_replicated(struct route_master *master, const struct redis_call *call)
{
    const struct redis_routes *routes = master->routes;
    if (master->replicated == NULL) {
        struct redis_config config = config_of(master);
        master->replicated = replicated_open(routes->host, &config);
    }
    return master->replicated != NULL && replicated_run(master->replicated, call);
}

static bool send_route(struct route_master *master, struct route *route)
{
    struct redis_call call = route->call;
    call.replied = on_reply;
    call.context = call.kind == REDIS_LOOKUP ? (void *)&route->lookup : route;
    return call.kind == REDIS_REPLICATED ? send_replicated(master, &call)
                                         : connection_call(master->connection, &call);
}

/* False: it takes nothing. */
static bool dispatch_to(struct route *route, struct route_master *master)
{
    if (master == NULL || master->connection == NULL || master->is_lost)
        return false;
    connection_redirected(master->connection, route->again ? route->deadline_ms : 0, route->asking);
    route->master = master;
    bool sent = send_route(master, route);
    connection_redirected(master->connection, 0, false);
    if (!sent) {
        route->master = NULL;
        return false;
    }
    route->again = true;
    master->owed++;
    return true;
}

/* The next one that is up, or will be soon. */
static struct route_master *any_master(struct redis_routes *routes)
{
    for (unsigned i = 0; i < routes->top; i++) {
        struct route_master *master = routes->masters[++routes->turn % routes->top];
        if (master != NULL && master->owns && !master->is_lost && !master->leaving)
            return master;
    }
    return NULL;
}

static bool dispatch(struct route *route)
{
    struct redis_routes *routes = route->routes;
    unsigned node;
    route->asking = false;
    if (route->slot == ANY_SLOT)
        return dispatch_to(route, any_master(routes));
    node = redis_cluster_owner(routes->cluster, route->slot);
    if (node != REDIS_NO_NODE)
        return dispatch_to(route, open_master(routes, node));
    redis_cluster_hint(routes->cluster);
    return false;
}

/* ---- waiting ---- */

/* For one more try. */
static bool has_time(const struct route *route)
{
    uint32_t quarter_ms = route->routes->config.limit_ms / 4;
    return clock_now_ms() + (quarter_ms < LEAST_MS ? quarter_ms : LEAST_MS) < route->deadline_ms;
}

static void wait_until(struct route *route, uint64_t at_ms)
{
    struct redis_routes *routes = route->routes;
    route->due_ms = at_ms < route->deadline_ms ? at_ms : route->deadline_ms;
    DL_APPEND(routes->waiting, route);
    ring_routes_by(routes, route->due_ms);
}

static void try_later(struct route *route)
{
    uint32_t wait_ms = chance_backoff(&route->routes->chance, TRY_FIRST_MS, TRY_MOST_MS, route->tries++);
    route->moving = true;
    if (route->routes->closing)
        settle_unsent(route);
    else
        wait_until(route, clock_now_ms() + wait_ms);
}

static void wake_those_that_wait_for_the_map(struct redis_routes *routes)
{
    struct route *route;
    DL_FOREACH (routes->waiting, route) {
        if (!route->again)
            route->due_ms = 0;
    }
    if (routes->waiting != NULL)
        ring_routes_by(routes, clock_now_ms());
}

static void try_again(struct route *route)
{
    bool known = redis_cluster_is_known(route->routes->cluster);
    bool timely = has_time(route);
    if (timely && !known)
        wait_until(route, route->deadline_ms);
    else if (!timely || !dispatch(route))
        settle_unsent(route);
}

static void gather_due(struct redis_routes *routes, uint64_t now_ms)
{
    struct route *route, *next;
    DL_FOREACH_SAFE (routes->waiting, route, next) {
        if (route->due_ms > now_ms) {
            ring_routes_by(routes, route->due_ms);
            continue;
        }
        DL_DELETE(routes->waiting, route);
        DL_APPEND(routes->due, route);
    }
}

static void on_routes_timer(void *context)
{
    struct redis_routes *routes = context;
    struct route *route;
    gather_due(routes, clock_now_ms());
    while ((route = routes->due) != NULL) {
        DL_DELETE(routes->due, route);
        try_again(route);
    }
}

/* ---- replies ---- */

static void follow(struct route *route, const struct route_master *from, const struct redisReply *reply)
{
    struct redis_routes *routes = route->routes;
    struct redis_redirect redirect;
    redis_cluster_hint(routes->cluster);
    route->moving = true;
    if (++route->redirections > REDIRECTIONS_MOST || !has_time(route) || routes->closing) {
        settle_unsent(route);
        return;
    }
    if (!redis_redirect_read(reply->str, reply->len, from->at.host, &redirect)) {
        try_later(route);
        return;
    }
    if (!redirect.ask)
        redis_cluster_moved(routes->cluster, from->node, redirect.slot, &redirect.to);
    unsigned node = redis_cluster_find(routes->cluster, &redirect.to);
    bool keeps_key = redirect.ask && route->call.kind == REDIS_REPLICATED; /* WAIT is for the slot's owner */
    if (route->redirections > REDIRECTIONS_AT_ONCE || node == REDIS_NO_NODE || keeps_key) {
        try_later(route);
        return;
    }
    route->asking = redirect.ask;
    route->asked_by = from->node;
    if (!dispatch_to(route, open_master(routes, node)))
        settle_unsent(route);
}

static void take_routed_error(struct route *route, const struct route_master *from,
                              const struct redisReply *reply)
{
    struct redis_routes *routes = route->routes;
    switch (redis_error_classify(reply->str, reply->len)) {
    case REDIS_ERROR_MOVED:
    case REDIS_ERROR_ASK:
        follow(route, from, reply);
        return;
    case REDIS_ERROR_MOVING:
        try_later(route);
        return;
    case REDIS_ERROR_STRAYED:
        redis_cluster_hint(routes->cluster);
        settle_call(route, REDIS_UNKNOWN, NULL);
        return;
    case REDIS_ERROR_LOADING: /* CLUSTERDOWN among them */
    case REDIS_ERROR_READONLY:
        redis_cluster_hint(routes->cluster);
        break;
    case REDIS_ERROR_NOSCRIPT:
    case REDIS_ERROR_FULL:
    case REDIS_ERROR_REFUSED:
    case REDIS_ERROR_FENCED:
    case REDIS_ERROR_DENIED:
    case REDIS_ERROR_CROWDED:
    case REDIS_ERROR_OTHER:
        break;
    }
    settle_call(route, REDIS_REPLIED, reply);
}

/* Of a node that has the slot no longer, as far as this process knows. */
static void take_old(struct route *route)
{
    const bool reads = route->call.kind == REDIS_GET || route->call.kind == REDIS_LOOKUP;
    if (!reads || ++route->redirections > REDIRECTIONS_MOST || !has_time(route) || route->routes->closing ||
        !dispatch(route))
        settle_call(route, REDIS_UNKNOWN, NULL);
}

static bool counts(const struct route *route, const struct route_master *from)
{
    unsigned owner = redis_cluster_owner(route->routes->cluster, route->slot);
    return route->slot == ANY_SLOT || owner == from->node || (route->asking && owner == route->asked_by);
}

static void judge_reply(struct route *route, const struct route_master *from, enum redis_outcome outcome,
                        const struct redisReply *reply)
{
    if (outcome != REDIS_REPLIED)
        settle_call(route, outcome, NULL);
    else if (reply->type == REDIS_REPLY_ERROR)
        take_routed_error(route, from, reply);
    else if (route->lookup.redirected)
        try_later(route); /* half of it was answered elsewhere */
    else if (!counts(route, from))
        take_old(route);
    else
        settle_call(route, REDIS_REPLIED, reply);
}

static void on_reply(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct route *route = context;
    struct route_master *from = route->master;
    route->master = NULL;
    judge_reply(route, from, outcome, reply);
    from->owed--;
    close_if_idle(from);
}

static void on_routed_lookup(void *context, enum redis_outcome outcome, int64_t pttl_ms,
                             const struct redisReply *reply)
{
    (void)pttl_ms;
    on_reply(context, outcome, reply);
}

/* ---- commands ---- */

/* The key that says where it goes is the first one, or the second word of a command. */
static unsigned slot_of(const struct redis_call *call)
{
    size_t at = call->kind == REDIS_WORDS;
    bool scripted = call->kind == REDIS_RUN || call->kind == REDIS_REPLICATED;
    if ((scripted && call->key_count == 0) || call->argc <= at ||
        (at == 1 && strcasecmp(call->argv[0], "PUBLISH") == 0))
        return ANY_SLOT;
    return redis_slot(call->argv[at], call->argv_bytes[at]);
}

/* NULL: no memory. */
static struct route *new_route(struct redis_routes *routes, const struct redis_call *call)
{
    struct route *route = calloc(1, sizeof *route);
    struct redis_words *words = redis_words_keep(0, call->argc, call->argv, call->argv_bytes);
    if (route == NULL || words == NULL) {
        free(route);
        free(words);
        return NULL;
    }
    route->routes = routes;
    route->words = words;
    route->call = *call;
    route->call.argv = words->argv;
    route->call.argv_bytes = words->argv_bytes;
    route->lookup = (struct redis_lookup){.done = on_routed_lookup, .context = route, .pttl_ms = -1};
    route->slot = slot_of(call);
    route->deadline_ms = clock_now_ms() + routes->config.limit_ms;
    return route;
}

bool routes_send(struct redis_routes *routes, const struct redis_call *call)
{
    struct route *route = new_route(routes, call);
    if (route == NULL)
        return false;
    if (!routes->closing && !redis_cluster_is_known(routes->cluster)) {
        wait_until(route, route->deadline_ms);
        return true;
    }
    if (!routes->closing && dispatch(route))
        return true;
    free_route(route);
    return false;
}

/* ---- how it is ---- */

bool routes_is_up(const struct redis_routes *routes)
{
    for (unsigned i = 0; i < routes->top; i++)
        if (routes->masters[i] != NULL && routes->masters[i]->owns && routes->masters[i]->is_up)
            return true;
    return false;
}

bool routes_is_whole(const struct redis_routes *routes)
{
    bool whole = routes_is_up(routes);
    for (unsigned i = 0; i < routes->top; i++) {
        const struct route_master *master = routes->masters[i];
        if (master != NULL && master->owns)
            whole = whole && master->connection != NULL && connection_is_whole(master->connection);
    }
    return whole;
}

unsigned routes_shard(const struct redis_routes *routes, const char *name, size_t name_bytes)
{
    unsigned node = redis_cluster_owner(routes->cluster, redis_slot(name, name_bytes));
    return node != REDIS_NO_NODE ? node : 0;
}

bool routes_next_shard(const struct redis_routes *routes, unsigned *shard)
{
    while (*shard < routes->top && (routes->masters[*shard] == NULL || !routes->masters[*shard]->owns))
        ++*shard;
    return *shard < routes->top;
}

const char *routes_shard_name(const struct redis_routes *routes, unsigned shard)
{
    const struct route_master *master = shard < routes->top ? routes->masters[shard] : NULL;
    return master != NULL ? master->beat_key : "";
}

struct redis_connection *routes_master(struct redis_routes *routes, unsigned shard)
{
    const struct route_master *master = shard < routes->top ? routes->masters[shard] : NULL;
    return master != NULL && master->is_up ? master->connection : NULL;
}

bool routes_may_look_up(const struct redis_routes *routes, const char *name, size_t name_bytes)
{
    const unsigned node = redis_cluster_owner(routes->cluster, redis_slot(name, name_bytes));
    const struct route_master *master = node != REDIS_NO_NODE ? routes->masters[node] : NULL;
    return master != NULL && master->connection != NULL && connection_may_look_up(master->connection);
}

uint64_t routes_batch(const struct redis_routes *routes)
{
    uint64_t batches = routes->gone_batches;
    for (unsigned i = 0; i < routes->top; i++)
        if (routes->masters[i] != NULL && routes->masters[i]->connection != NULL)
            batches += connection_batch(routes->masters[i]->connection);
    return batches;
}

/* ---- from open to close ---- */

static void on_routes_closed(void *context)
{
    struct redis_routes *routes = context;
    host_free_and_tell(routes, routes->told);
}

struct redis_routes *routes_open(struct guard_host *host, const struct redis_config *config)
{
    struct redis_routes *routes = calloc(1, sizeof *routes);
    if (routes == NULL)
        return NULL;
    routes->config = *config;
    routes->cluster = config->topology->cluster;
    routes->host = host;
    routes->chance.state = config->jitter_seed;
    routes->timer = (struct host_timer){.run = on_routes_timer, .context = routes};
    routes->closer = (struct host_soon){.run = on_routes_closed, .context = routes};
    redis_cluster_watch(routes->cluster, &routes->watch, host, on_map, routes);
    host_wake_send(&routes->watch.wake); /* the map may be there already */
    return routes;
}

static void settle_list(struct route **list)
{
    struct route *route;
    while ((route = *list) != NULL) {
        DL_DELETE(*list, route);
        settle_unsent(route);
    }
}

void routes_close(struct redis_routes *routes, void (*closed)(void *context), void *context)
{
    routes->closing = true;
    routes->told = (struct host_told){closed, context};
    redis_cluster_unwatch(routes->cluster, &routes->watch);
    host_timer_stop(routes->host, &routes->timer);
    settle_list(&routes->waiting);
    settle_list(&routes->due);
    for (unsigned i = 0; i < routes->top; i++)
        if (routes->masters[i] != NULL)
            close_master(routes->masters[i]);
    if (routes->master_count == 0)
        host_soon(routes->host, &routes->closer);
}

void routes_reset(struct redis_routes *routes, const char *why)
{
    for (unsigned i = 0; i < routes->top && !routes->closing; i++)
        if (routes->masters[i] != NULL && routes->masters[i]->connection != NULL)
            connection_reset(routes->masters[i]->connection, why);
}
