/* SPDX-License-Identifier: MIT */
/*
 * redis/redis.h - the face of the room redis/: the masters of one URL as one loop sees them. Others include only this
 * header, and subscription.h on top of it.
 *
 *     url --> topology ---------------------> struct redis, one per loop --> connection, one per master
 *             where the masters are,          which master a command          limits, login, fence,
 *             shared by all loops             goes to                         pipeline, socket
 *
 * With one master every call goes straight to its connection. In a Cluster a command goes to the master that has the
 * slot of its key, is asked again where Redis says that the slot has moved, and comes back as MOVING if it still
 * moves when its limit is over. A shard is one master's part of the keys: a small number.
 *
 * Every command is answered exactly once, never from inside redis_send(). Commands sent while the master's connection
 * is not up wait for it within their limit: a caller need not know. Not in a Cluster: there what another node could
 * answer does not wait for one that is lost.
 *
 * Owns       Connections, their sockets and the threads that resolve names. It knows neither keys nor scripts: those
 *            come from above as bytes.
 * Threads    All functions only on the thread of the loop; a topology and the counters on any.
 * Callbacks  May call every function here. redis_close() and redis_reset() answer what is pending, from
 *            inside the call, or right after the callback in which they were called.
 * Signals    Nothing raises SIGPIPE, on whatever thread the loop runs.
 * Secrets    No text given out contains the password, not even one that the server echoes.
 *
 * Read in this order: types.h; connection (one connection: its stages, and what they are for), pipeline (commands in
 * their order), command (their words and bytes), reader (replies within bounds), greeting (the login), fence
 * (one master), error (what errors mean), socket, tls, tls_context (DNS, connect, TLS, reset); view, slots, cluster
 * and routes (a Cluster); url, place (where the masters are, and whose word counts); redis.c (this header);
 * subscription stands on top of all.
 */
#pragma once

#include "../base/host.h"
#include "../guard.h"
#include "cluster.h"
#include "place.h"
#include "server.h"
#include "types.h"

/*
 * ---- where the masters are ----
 *
 * One URL, opened, for all connections of a process to its masters.
 *
 *     ONE        a place that never changes
 *     SENTINEL   a place that the Sentinels name
 *     CLUSTER    a place for each node of the Cluster, and which of them has which slots
 *
 * Ownership  It owns what all loops share: places with their reigns, login, what TLS needs. A struct redis
 *            is opened over it for each loop and closed before it.
 * Threads    Opened and closed on the thread of its loop, or before that runs; the rest on any.
 */

struct redis_topology_hooks {
    void *context;
    /* A master's reign is over: what it said last may be old. On any thread, under a lock; may be NULL. */
    void (*ended)(void *context);
};

/* NULL: INVALID (what the URL asks for is not built in, a file cannot be read), NO_MEMORY. The URL is copied. */
struct redis_topology *redis_topology_open(struct guard_host *host, const struct redis_url *url,
                                           const struct redis_topology_hooks *hooks,
                                           struct guard_error *error);
/* Calls `closed` once, soon. No struct redis over it is left. */
void redis_topology_close(struct redis_topology *topology, void (*closed)(void *context), void *context);

/* How often a master's reign ended. */
uint64_t redis_topology_reigns(const struct redis_topology *topology);

struct redis;

enum { REDIS_SHARDS_MAX = 256 };

/* Starts connecting. What only a connection is told, it finds in the topology. NULL: no memory. */
struct redis *redis_open(struct guard_host *host, const struct redis_config *config);
/* Answers everything pending (UNSENT or UNKNOWN), then frees and calls `closed` once, soon (host.h); from then on it
 * has nothing on the loop. A DNS lookup that is still running cannot be interrupted: it outlives `closed`, touches
 * nothing of the connection or the loop, and frees itself when it returns (base/resolve.h says how many there may
 * be). */
void redis_close(struct redis *redis, void (*closed)(void *context), void *context);

/* To one master at least. */
bool redis_is_up(const struct redis *redis);
/* All are up, their login may do all that is of use, and the servers are verified; what is not so is in the text of
 * the state. */
bool redis_is_whole(const struct redis *redis);

/* Which master's the key of that name is; name: as in Redis. 0: with one master. */
unsigned redis_shard(const struct redis *redis, const char *name, size_t name_bytes);
/*
 * What is not about one key. The masters, one after the other: the first shard from *shard on that has keys; false:
 * there is none. A name that its master has (lent until the next call), and a command for it, of whatever words: what
 * comes back is that server's word, for good or ill. As redis_send() else. The number moves on when keys may have got
 * another master, or the master another reign.
 */
bool redis_next_shard(const struct redis *redis, unsigned *shard);
const char *redis_shard_name(const struct redis *redis, unsigned shard);
bool redis_send_to(struct redis *redis, unsigned shard, size_t argc, const char *const *argv,
                   const size_t *argv_bytes, redis_replied *replied, void *context);
uint64_t redis_map_changes(const struct redis *redis);

/* Its master's connection is up, and as far as is known that is the master: redis_look_up() is worth while. */
bool redis_may_look_up(const struct redis *redis, const char *name, size_t name_bytes);

/* No lookup can be sent, whatever its key is. What changes that is told by `state`. */
bool redis_is_away(const struct redis *redis);

/* A number that moves on when commands are written: what was sent under the present one has not left yet. */
uint64_t redis_batch(const struct redis *redis);

/* All commands of one turn of the loop to one master leave in one write. False: no memory, too much pending, closing,
 * or in a Cluster that master is not up; then `replied` will never be called. argv is copied. In a Cluster argv[1] is
 * the key that says where it goes; without one, or with PUBLISH, to any master, each in its turn. */
bool redis_send(struct redis *redis, size_t argc, const char *const *argv, const size_t *argv_bytes,
                redis_replied *replied, void *context);

/* As GET, but only a master that works answers: `replied` never has a value of another's. */
bool redis_send_get(struct redis *redis, const char *name, size_t name_bytes, redis_replied *replied,
                    void *context);

/* The value as redis_send_get() reads it. Lent until it is done. False: as above. */
bool redis_look_up(struct redis *redis, struct redis_lookup *lookup, const char *name, size_t name_bytes);

/* The script of that number in its config by EVALSHA; on NOSCRIPT the same arguments again by EVAL, which is
 * safe because nothing ran. Within one limit_ms in all. EVAL at once while the digest is not known: before
 * the first greeting, or if the login may not SCRIPT LOAD.
 *
 * REDIS_RUN, or REDIS_REPLICATED: of a script that replies with a number, which counts as done only once the URL's
 * wait_replicas have what it did (redis/replicated.h): else it is UNKNOWN, wait_ms later at most. With none wanted
 * both are the same. */
bool redis_run(struct redis *redis, enum redis_call_kind kind, unsigned script, const struct redis_args *args,
               redis_replied *replied, void *context);

/* Drops the connection now and connects again: a subscriber whose canary has died. */
void redis_reset(struct redis *redis, const char *why);
