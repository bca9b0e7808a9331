/* SPDX-License-Identifier: MIT */
/*
 * redis/routes.h - one loop's part in a Cluster: a connection to each master, and the way of each command to the one
 * that has its slot.
 *
 *                        MOVED, ASK: where it says, at once; after two, a little later
 *                  +---------------------------------------------------------------+
 *                  v                                                               |
 *     sent --> the slot's owner --> reply: the map still names this node --> answered
 *                  ^                    |  it names another --> a read is asked again there, the rest is UNKNOWN
 *                  |   5, 10, 20, 40 ms |
 *                  +--------------------+ TRYAGAIN
 *
 * A command that is redirected has not run: the same words may be sent again. All of it happens within the one limit
 * of the command and five redirections; one whose slot is on the move for longer comes back as MOVING. A reply counts
 * only if the map, when it arrives, still says that this node has the slot: what a master that was replaced says
 * reaches no caller from the instant on at which one loop of the process has heard of the new one.
 *
 * A master that is not up takes nothing, so that no caller waits for it; one that is being connected to for
 * the first time does. What is sent before the first view of the map waits for it.
 *
 * Masters are connected to when the map names them, and given up when it does not and they have answered what they
 * owe.
 *
 * Threads, Callbacks   as redis/redis.h has it.
 */
#pragma once

#include "cluster.h"
#include "connection.h"

struct redis_routes;

/* To each master of the topology's Cluster. Of the hooks all but `message`. NULL: no memory. */
struct redis_routes *routes_open(struct guard_host *host, const struct redis_config *config);
void routes_close(struct redis_routes *routes, void (*closed)(void *context), void *context);
void routes_reset(struct redis_routes *routes, const char *why);

/* One master is, at least. */
bool routes_is_up(const struct redis_routes *routes);
/* All are, and the login may do all that is of use. */
bool routes_is_whole(const struct redis_routes *routes);
unsigned routes_shard(const struct redis_routes *routes, const char *name, size_t name_bytes);
/* As those of redis.h. */
bool routes_next_shard(const struct redis_routes *routes, unsigned *shard);
const char *routes_shard_name(const struct redis_routes *routes, unsigned shard);
/* Lent until the next turn; NULL: it is not up. */
struct redis_connection *routes_master(struct redis_routes *routes, unsigned shard);
bool routes_may_look_up(const struct redis_routes *routes, const char *name, size_t name_bytes);
/* Moves on when any connection's does. */
uint64_t routes_batch(const struct redis_routes *routes);

/* REDIS_REPLICATED goes over a second connection to its master, as redis/replicated.h has it. A lookup's PTTL and
 * value are one node's. False: no memory, too much pending, or the master is not up; then nothing is ever called. */
bool routes_send(struct redis_routes *routes, const struct redis_call *call);
