/* SPDX-License-Identifier: MIT */
/*
 * redis/cluster.c - see redis/cluster.h.
 *
 * Locking   `mutex` is for the map but its owners, the places' comings and goings, the watches and `why`. What asks
 *           for views belongs to the thread of the loop.
 */
#include "cluster.h"
#include "../base/chance.h"
#include "../base/clock.h"
#include "connection.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    VIEW_LIMIT_MS = 1000,  /* of one attempt */
    VIEW_EVERY_MS = 60000, /* +-20 % */
    VIEW_FIRST_MS = 100,   /* between two */
    VIEW_MOST_MS = 2000,
    QUESTIONS_BYTES = 256, /* of all that is asked of a node */
    KNOWN_TRIES = 3,       /* nodes that are known, before those of the URL */
};

struct redis_cluster {
    const struct redis_url *url; /* lent */
    struct redis_tls *tls;       /* likewise */
    struct guard_host *host;
    struct chance chance; /* of the loop */

    pthread_mutex_t mutex; /* below */
    struct redis_slots slots;
    struct redis_place *places[REDIS_NODES_MAX]; /* of those that are held */
    struct redis_cluster_watch *watches;
    enum guard_redis_state state; /* while no map is known; `why` says more, once a node was asked */
    char why[REDIS_LABEL_SIZE + REDIS_WHY_SIZE];

    void (*ended)(void *context);
    void *context;
    _Atomic uint64_t reigns, changes;
    atomic_bool known, hinted;
    _Atomic unsigned lost; /* masters, by each loop */
    struct host_wake hint;

    /* the loop's */
    struct host_timer timer;
    uint64_t taken_ms;                   /* when the last view came */
    uint32_t wait_ms;                    /* until the next one, if there is a hint */
    uint32_t failures;                   /* in a row */
    struct redis_endpoint asked_at;      /* the node that is being asked, or was last */
    struct redis_place asked;            /* likewise */
    struct redis_connection *connection; /* owned; NULL: none is */
    struct redis_view view;              /* its, so far */
    unsigned connections;                /* that are not closed */
    bool closing;
    struct host_soon closer;
    struct host_told told;
};

/* ---- the map ---- */

unsigned redis_cluster_owner(const struct redis_cluster *cluster, unsigned slot)
{
    return redis_slots_owner(&cluster->slots, slot);
}

bool redis_cluster_is_known(const struct redis_cluster *cluster)
{
    return atomic_load(&cluster->known);
}

enum guard_redis_state redis_cluster_why(struct redis_cluster *cluster,
                                         char why[REDIS_LABEL_SIZE + REDIS_WHY_SIZE])
{
    pthread_mutex_lock(&cluster->mutex);
    enum guard_redis_state state = cluster->state;
    memcpy(why, cluster->why, sizeof cluster->why);
    pthread_mutex_unlock(&cluster->mutex);
    return state;
}

bool redis_cluster_node(struct redis_cluster *cluster, unsigned node, struct redis_node *out)
{
    pthread_mutex_lock(&cluster->mutex);
    *out = cluster->slots.nodes[node];
    pthread_mutex_unlock(&cluster->mutex);
    return out->at.host[0] != '\0';
}

uint64_t redis_cluster_reigns(const struct redis_cluster *cluster)
{
    return atomic_load(&cluster->reigns);
}

uint64_t redis_cluster_changes(const struct redis_cluster *cluster)
{
    return atomic_load(&cluster->changes);
}

static void wake_watches(struct redis_cluster *cluster)
{
    struct redis_cluster_watch *watch;
    DL_FOREACH (cluster->watches, watch) {
        host_wake_send(&watch->wake);
    }
}

/* Under the mutex. */
static void map_changed(struct redis_cluster *cluster)
{
    atomic_fetch_add(&cluster->changes, 1);
    wake_watches(cluster);
}

/* Under the mutex of a reign, or that of the cluster. */
static void reign_over(void *context)
{
    struct redis_cluster *cluster = context;
    atomic_fetch_add(&cluster->reigns, 1);
    if (cluster->ended != NULL)
        cluster->ended(cluster->context);
}

void redis_cluster_moved(struct redis_cluster *cluster, unsigned from, unsigned slot,
                         const struct redis_endpoint *to)
{
    pthread_mutex_lock(&cluster->mutex);
    uint64_t takeovers = cluster->slots.takeovers;
    if (redis_slots_moved(&cluster->slots, from, slot, to))
        map_changed(cluster);
    if (cluster->slots.takeovers != takeovers)
        reign_over(cluster);
    pthread_mutex_unlock(&cluster->mutex);
}

unsigned redis_cluster_find(struct redis_cluster *cluster, const struct redis_endpoint *at)
{
    pthread_mutex_lock(&cluster->mutex);
    unsigned node = redis_slots_find(&cluster->slots, at);
    pthread_mutex_unlock(&cluster->mutex);
    return node;
}

/* ---- users ---- */

struct redis_place *redis_cluster_hold(struct redis_cluster *cluster, unsigned node)
{
    struct redis_place *place = NULL;
    pthread_mutex_lock(&cluster->mutex);
    const struct redis_endpoint *at = &cluster->slots.nodes[node].at;
    if (at->host[0] != '\0' && cluster->places[node] == NULL) {
        place = calloc(1, sizeof *place);
        if (place != NULL)
            redis_place_init(place, at, reign_over, cluster);
        cluster->places[node] = place;
    }
    place = cluster->places[node];
    if (place != NULL)
        redis_slots_hold(&cluster->slots, node);
    pthread_mutex_unlock(&cluster->mutex);
    return place;
}

void redis_cluster_release(struct redis_cluster *cluster, unsigned node)
{
    struct redis_place *place = NULL;
    pthread_mutex_lock(&cluster->mutex);
    if (cluster->slots.nodes[node].holders == 1) {
        place = cluster->places[node];
        cluster->places[node] = NULL;
    }
    redis_slots_release(&cluster->slots, node);
    pthread_mutex_unlock(&cluster->mutex);
    if (place != NULL)
        redis_place_clear(place);
    free(place);
}

void redis_cluster_watch(struct redis_cluster *cluster, struct redis_cluster_watch *watch,
                         struct guard_host *host, void (*run)(void *context), void *context)
{
    host_wake_init(host, &watch->wake, run, context);
    pthread_mutex_lock(&cluster->mutex);
    DL_APPEND(cluster->watches, watch);
    pthread_mutex_unlock(&cluster->mutex);
}

void redis_cluster_unwatch(struct redis_cluster *cluster, struct redis_cluster_watch *watch)
{
    pthread_mutex_lock(&cluster->mutex);
    DL_DELETE(cluster->watches, watch);
    pthread_mutex_unlock(&cluster->mutex);
    host_wake_clear(&watch->wake);
}

/* ---- which node ---- */

/* One of the masters that are named. False: there is none but this one. */
static bool choose_master(struct redis_cluster *cluster, uint64_t dice, const struct redis_endpoint *not_this,
                          struct redis_endpoint *out)
{
    const struct redis_endpoint *others[REDIS_NODES_MAX];
    size_t count = 0;
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        const struct redis_node *node = &cluster->slots.nodes[i];
        if (node->named && !redis_endpoint_equal(&node->at, not_this))
            others[count++] = &node->at;
    }
    if (count > 0)
        *out = *others[dice % count];
    return count > 0;
}

static bool choose_replica(struct redis_cluster *cluster, uint64_t dice,
                           const struct redis_endpoint *not_this, struct redis_endpoint *out)
{
    size_t count = cluster->slots.replica_count;
    for (size_t i = 0; i < count; i++) {
        const struct redis_endpoint *at = &cluster->slots.replicas[(dice + i) % count];
        if (redis_endpoint_equal(at, not_this))
            continue;
        *out = *at;
        return true;
    }
    return false;
}

static uint64_t roll(void)
{
    uint64_t dice = 0;
    if (!clock_random(&dice, sizeof dice))
        dice = clock_now_us();
    return dice;
}

static bool names_as_replica(const struct redis_cluster *cluster, const struct redis_endpoint *at)
{
    for (size_t i = 0; i < cluster->slots.replica_count; i++)
        if (redis_endpoint_equal(&cluster->slots.replicas[i], at))
            return true;
    return false;
}

/* The replicas may all be dead, and a view names a dead one no longer only after a while. */
void redis_cluster_choose(struct redis_cluster *cluster, const struct redis_endpoint *not_this,
                          struct redis_endpoint *out)
{
    uint64_t dice = roll();
    pthread_mutex_lock(&cluster->mutex);
    bool any = (dice & 1) != 0 && names_as_replica(cluster, not_this);
    if ((any || !choose_replica(cluster, dice >> 1, not_this, out)) &&
        !choose_master(cluster, dice >> 1, not_this, out)) {
        const struct redis_url *url = cluster->url;
        const size_t at = (size_t)((dice >> 1) % url->host_count);
        const bool other = redis_endpoint_equal(&url->hosts[at], not_this);
        *out = url->hosts[(at + other) % url->host_count];
    }
    pthread_mutex_unlock(&cluster->mutex);
}

/* Masters and replicas by turns. */
static bool choose_known(struct redis_cluster *cluster, struct redis_endpoint *out)
{
    static const struct redis_endpoint nobody;
    uint64_t dice = chance_next(&cluster->chance);
    bool found;
    pthread_mutex_lock(&cluster->mutex);
    if ((dice & 1) != 0)
        found = choose_replica(cluster, dice >> 1, &nobody, out) ||
                choose_master(cluster, dice >> 1, &nobody, out);
    else
        found = choose_master(cluster, dice >> 1, &nobody, out);
    pthread_mutex_unlock(&cluster->mutex);
    return found;
}

/* ---- asking ---- */

static void set_view_timer(struct redis_cluster *cluster, uint64_t at_ms)
{
    host_timer_set(cluster->host, &cluster->timer, at_ms * 1000);
}

static void cluster_part_closed(void *context)
{
    struct redis_cluster *cluster = context;
    cluster->connections--;
    if (cluster->closing && cluster->connections == 0)
        host_soon(cluster->host, &cluster->closer);
}

static void hang_up_on_asked(struct redis_cluster *cluster)
{
    struct redis_connection *connection = cluster->connection;
    cluster->connection = NULL; /* what it still answers is of no interest */
    if (connection != NULL)
        connection_close(connection, cluster_part_closed, cluster);
}

/* text: NULL: none. */
static void view_failed(struct redis_cluster *cluster, enum guard_redis_state state, const char *text)
{
    hang_up_on_asked(cluster);
    cluster->failures++;
    set_view_timer(cluster, clock_now_ms() + chance_backoff(&cluster->chance, VIEW_FIRST_MS, VIEW_MOST_MS,
                                                            cluster->failures / KNOWN_TRIES));
    pthread_mutex_lock(&cluster->mutex);
    if (text != NULL && strcmp(text, cluster->why) != 0) {
        snprintf(cluster->why, sizeof cluster->why, "%s", text);
        cluster->state = state;
        wake_watches(cluster);
    }
    pthread_mutex_unlock(&cluster->mutex);
}

static void view_refused(struct redis_cluster *cluster, const struct redisReply *reply, const char *why)
{
    bool denied = reply != NULL && reply->type == REDIS_REPLY_ERROR &&
                  redis_error_classify(reply->str, reply->len) == REDIS_ERROR_DENIED;
    char label[REDIS_LABEL_SIZE], text[REDIS_LABEL_SIZE + REDIS_WHY_SIZE];
    redis_endpoint_label(&cluster->asked_at, label);
    snprintf(text, sizeof text, "%s: %s", label, why);
    view_failed(cluster, denied ? GUARD_REDIS_DENIED : GUARD_REDIS_DOWN, text);
}

static bool take_view(struct redis_cluster *cluster)
{
    pthread_mutex_lock(&cluster->mutex);
    uint64_t takeovers = cluster->slots.takeovers;
    bool changed = redis_slots_take(&cluster->slots, &cluster->view);
    atomic_store(&cluster->known, true);
    if (cluster->slots.takeovers != takeovers)
        reign_over(cluster);
    if (changed)
        map_changed(cluster);
    pthread_mutex_unlock(&cluster->mutex);
    return changed;
}

/* A node that has gone to another Cluster, at the address that it had. Only a host of the URL may say that the whole
 * Cluster is another one. */
static bool view_is_strange(struct redis_cluster *cluster)
{
    for (size_t i = 0; i < cluster->url->host_count; i++)
        if (redis_endpoint_equal(&cluster->asked_at, &cluster->url->hosts[i]))
            return false;
    pthread_mutex_lock(&cluster->mutex);
    bool knows = redis_slots_knows(&cluster->slots, &cluster->view);
    pthread_mutex_unlock(&cluster->mutex);
    return !knows;
}

static void view_is_here(struct redis_cluster *cluster)
{
    bool changed = take_view(cluster);
    uint64_t now_ms = clock_now_ms();
    uint64_t jitter_ms = chance_below(&cluster->chance, VIEW_EVERY_MS * 2 / 5);
    hang_up_on_asked(cluster);
    cluster->failures = 0;
    cluster->taken_ms = now_ms;
    cluster->wait_ms = changed ? VIEW_FIRST_MS : cluster->wait_ms * 2;
    if (cluster->wait_ms > VIEW_MOST_MS)
        cluster->wait_ms = VIEW_MOST_MS;
    set_view_timer(cluster, now_ms + VIEW_EVERY_MS * 4 / 5 + jitter_ms);
    if (atomic_load(&cluster->hinted) || atomic_load(&cluster->lost) > 0)
        host_wake_send(&cluster->hint);
}

static void on_epochs_reply(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redis_cluster *cluster = context;
    char why[REDIS_WHY_SIZE] = "CLUSTER NODES: no answer";
    if (cluster->connection == NULL)
        return;
    if (outcome != REDIS_REPLIED || !redis_view_read_epochs(&cluster->view, reply, why))
        view_refused(cluster, reply, why);
    else if (view_is_strange(cluster))
        view_refused(cluster, NULL, "a node of another Cluster");
    else
        view_is_here(cluster);
}

static void on_slots_reply(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redis_cluster *cluster = context;
    char why[REDIS_WHY_SIZE] = "CLUSTER SLOTS: no answer";
    if (cluster->connection == NULL)
        return;
    if (outcome != REDIS_REPLIED ||
        !redis_view_read_slots(&cluster->view, reply, cluster->asked_at.host, why))
        view_refused(cluster, reply, why);
}

static void on_asked_state(void *context, enum guard_redis_state state, const char *text)
{
    struct redis_cluster *cluster = context;
    if (cluster->connection != NULL && state != GUARD_REDIS_UP)
        view_failed(cluster, state, text);
}

static void ask_for_view(struct redis_cluster *cluster)
{
    const struct redis_config config = {
        .place = &cluster->asked,
        .login = &cluster->url->login,
        .tls = cluster->tls,
        .expected = REDIS_SERVER_NODE,
        .any_role = true,
        .limit_ms = VIEW_LIMIT_MS,
        .connect_limit_ms = VIEW_LIMIT_MS,
        .backoff_ms = VIEW_MOST_MS,
        .max_backoff_ms = VIEW_MOST_MS,
        .max_reply_bytes = REDIS_VIEW_BYTES_MAX,
        .max_reply_elements = REDIS_VIEW_ELEMENTS_MAX,
        .max_pending_bytes = QUESTIONS_BYTES,
        .jitter_seed = chance_next(&cluster->chance),
        .hooks = {.context = cluster, .state = on_asked_state},
    };
    const uint32_t turn = cluster->failures % (uint32_t)(KNOWN_TRIES + cluster->url->host_count);
    if (turn >= KNOWN_TRIES || !choose_known(cluster, &cluster->asked_at))
        cluster->asked_at = cluster->url->hosts[cluster->failures % cluster->url->host_count];
    redis_place_set(&cluster->asked, &cluster->asked_at);
    atomic_store(&cluster->hinted, false);
    cluster->connection = connection_open(cluster->host, &config);
    cluster->connections += cluster->connection != NULL;
    const char *const slots[] = {"CLUSTER", "SLOTS"}, *const nodes[] = {"CLUSTER", "NODES"};
    const size_t bytes[] = {7, 5};
    if (cluster->connection == NULL ||
        !connection_send(cluster->connection, 2, slots, bytes, on_slots_reply, cluster) ||
        !connection_send(cluster->connection, 2, nodes, bytes, on_epochs_reply, cluster))
        view_failed(cluster, GUARD_REDIS_DOWN, "no memory to ask about the Cluster");
}

static void on_view_timer(void *context)
{
    struct redis_cluster *cluster = context;
    if (cluster->connection == NULL)
        ask_for_view(cluster);
}

/* A view after a while without any begins anew with the short wait. */
static void on_hint(void *context)
{
    struct redis_cluster *cluster = context;
    uint64_t now_ms = clock_now_ms();
    if (cluster->connection != NULL || cluster->failures > 0)
        return; /* there will be one soon */
    if (now_ms >= cluster->taken_ms + 2 * VIEW_MOST_MS)
        cluster->wait_ms = VIEW_FIRST_MS;
    set_view_timer(cluster, cluster->taken_ms + cluster->wait_ms);
}

void redis_cluster_hint(struct redis_cluster *cluster)
{
    if (!atomic_exchange(&cluster->hinted, true))
        host_wake_send(&cluster->hint);
}

void redis_cluster_lost(struct redis_cluster *cluster, unsigned node, bool is_lost)
{
    pthread_mutex_lock(&cluster->mutex);
    redis_slots_lost(&cluster->slots, node, is_lost);
    pthread_mutex_unlock(&cluster->mutex);
    atomic_fetch_add(&cluster->lost, is_lost ? 1u : -1u);
    redis_cluster_hint(cluster);
}

/* ---- from open to close ---- */

static void on_cluster_closed(void *context)
{
    struct redis_cluster *cluster = context;
    assert(cluster->watches == NULL);
    redis_place_clear(&cluster->asked);
    pthread_mutex_destroy(&cluster->mutex);
    host_free_and_tell(cluster, cluster->told);
}

struct redis_cluster *redis_cluster_open(struct guard_host *host, const struct redis_url *url,
                                         struct redis_tls *tls, void (*ended)(void *context), void *context)
{
    struct redis_cluster *cluster = calloc(1, sizeof *cluster);
    if (cluster == NULL)
        return NULL;
    cluster->url = url;
    cluster->tls = tls;
    cluster->host = host;
    cluster->ended = ended;
    cluster->context = context;
    cluster->chance.state = roll();
    cluster->wait_ms = VIEW_FIRST_MS;
    pthread_mutex_init(&cluster->mutex, NULL);
    redis_slots_init(&cluster->slots);
    redis_place_init(&cluster->asked, NULL, NULL, NULL);
    cluster->state = GUARD_REDIS_DOWN;
    cluster->timer = (struct host_timer){.run = on_view_timer, .context = cluster};
    cluster->closer = (struct host_soon){.run = on_cluster_closed, .context = cluster};
    host_wake_init(host, &cluster->hint, on_hint, cluster);
    set_view_timer(cluster, clock_now_ms());
    return cluster;
}

void redis_cluster_close(struct redis_cluster *cluster, void (*closed)(void *context), void *context)
{
    cluster->told = (struct host_told){closed, context};
    cluster->closing = true;
    host_timer_stop(cluster->host, &cluster->timer);
    host_wake_clear(&cluster->hint);
    hang_up_on_asked(cluster);
    if (cluster->connections == 0)
        host_soon(cluster->host, &cluster->closer);
}
