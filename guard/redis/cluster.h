/* SPDX-License-Identifier: MIT */
/*
 * redis/cluster.h - the map of one Cluster as all loops of a process share it, and its upkeep.
 *
 *     at first, on a hint, every minute     a random known node, the URL's if that fails, is asked for its view
 *     ------------------------------->      over a connection of its own; redis/slots.h says what of it is believed
 *     the map has changed                   every watch is woken
 *
 * Hints (a redirection, a node that is lost) may come by the thousand: views follow one another after 100 ms, and
 * ever more slowly, up to 2 s, while they bring nothing new.
 *
 * Each master has a place, and with it a reign, that the connections of all loops to it share while they hold it.
 *
 * Threads    Opened and closed on the thread of the loop that asks for views; all else on any. redis_cluster_owner()
 *            takes no lock.
 * Lifetime   Closed when nothing is held and nothing watches.
 */
#pragma once

#include "../base/host.h"
#include "place.h"
#include "slots.h"

struct redis_cluster;

/* url, tls (NULL: without): lent until it is closed. `ended` is called whenever a master's reign is over, on any
 * thread, under a lock; may be NULL. NULL: no memory. */
struct redis_cluster *redis_cluster_open(struct guard_host *host, const struct redis_url *url,
                                         struct redis_tls *tls, void (*ended)(void *context), void *context);
void redis_cluster_close(struct redis_cluster *cluster, void (*closed)(void *context), void *context);

/* ---- the map ---- */

/* The number of the master that has this slot; REDIS_NO_NODE: none is known. */
unsigned redis_cluster_owner(const struct redis_cluster *cluster, unsigned slot);
/* A view has been taken. */
bool redis_cluster_is_known(const struct redis_cluster *cluster);
/* Why not: one line; "" until a node has been asked. Returns what that is, DENIED or DOWN for instance. */
enum guard_redis_state redis_cluster_why(struct redis_cluster *cluster,
                                         char why[REDIS_LABEL_SIZE + REDIS_WHY_SIZE]);
/* What the map says of a master. False: the number is free. */
bool redis_cluster_node(struct redis_cluster *cluster, unsigned node, struct redis_node *out);
/* How often a master's reign ended, or another took all of a master's slots. */
uint64_t redis_cluster_reigns(const struct redis_cluster *cluster);

/* How often the map has changed. */
uint64_t redis_cluster_changes(const struct redis_cluster *cluster);

/* As redis_slots_moved() and redis_slots_find(). */
void redis_cluster_moved(struct redis_cluster *cluster, unsigned from, unsigned slot,
                         const struct redis_endpoint *to);
unsigned redis_cluster_find(struct redis_cluster *cluster, const struct redis_endpoint *at);

/* The map may be old. */
void redis_cluster_hint(struct redis_cluster *cluster);
/* A loop cannot reach a master that it holds, or can again: views are asked for until none is lost, for a failover
 * takes its time and no command that is redirected tells of it. */
void redis_cluster_lost(struct redis_cluster *cluster, unsigned node, bool is_lost);

/* A node to subscribe at: any but `not_this` if there is another; a replica if there is one, but a master as well
 * after a replica. */
void redis_cluster_choose(struct redis_cluster *cluster, const struct redis_endpoint *not_this,
                          struct redis_endpoint *out);

/* ---- its users ---- */

/* The place of a master, which keeps its number until it is released. NULL: the number is free, or no memory. */
struct redis_place *redis_cluster_hold(struct redis_cluster *cluster, unsigned node);
void redis_cluster_release(struct redis_cluster *cluster, unsigned node);

/* Zeroed: none. */
struct redis_cluster_watch {
    struct host_wake wake;
    struct redis_cluster_watch *prev, *next;
};
/* Runs on the thread of that loop, soon after the map, or the reason why there is none, has changed. */
void redis_cluster_watch(struct redis_cluster *cluster, struct redis_cluster_watch *watch,
                         struct guard_host *host, void (*run)(void *context), void *context);
void redis_cluster_unwatch(struct redis_cluster *cluster, struct redis_cluster_watch *watch);
