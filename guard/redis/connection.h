/* SPDX-License-Identifier: MIT */
/*
 * redis/connection.h - one connection to one Redis, on an event loop: pipelined commands with limits, or one
 * subscription.
 *
 *                             reached               greeting answered
 *   connection_open        REACHING ------> GREETING ----------------------> UP
 *       |               ^    |           ^ |   ^                          |
 *       |       rested  |    |           | |   | 100 ms later: once more  | limit, end of file, nonsense,
 *       |               |    | no        | |   PROVING <- after a limit   | READONLY, another reign,
 *       |               |    | address,  | | refused, limit               | connection_reset()
 *       v               |    v limit       v                              v
 *       +------------> RESTING <---------- reset (RST, never reused) -----+     connection_close -> CLOSED
 *
 * Every command is answered exactly once, never from inside connection_send(). A command that is not answered
 * within its limit resets the connection; so does anything that leaves it in doubt, because a connection
 * whose replies no longer match its commands would hand one caller's reply to the next. After a reset, what
 * had not been written is UNSENT, what had been is UNKNOWN: it may have run, or may still run later.
 * Commands sent while the connection is not up wait for it within their limit: a caller need not know. They are
 * written at the end of their turn of the loop; if that is held up, their time begins when it goes on. A login that
 * is refused a command while UP stays connected and UP, but is told DENIED until a second has passed without a
 * refusal.
 *
 * Only the master's replies reach a caller: redis/fence.h says how a value is read and what the heartbeat is for,
 * redis/place.h what happens to the connections of a process when one of them finds another master: from that instant
 * their replies reach no caller (UNKNOWN). PROVING follows a server that did not answer in time: one that was stopped
 * and goes on says at first what it was, not what it has become. CONFIRMING stands between GREETING and UP where
 * Sentinels have named the master: redis/place.h.
 *
 * Threads    All functions only on the thread of the loop; a place and the counters on any.
 * Callbacks, Signals, Secrets   as redis/redis.h has it.
 */
#pragma once

#include "../base/host.h"
#include "../guard.h"
#include "place.h"
#include "server.h"
#include "types.h"
#include "url.h"

struct redis_connection;

/* Starts connecting. All of the config counts but its topology. NULL: no memory. */
struct redis_connection *connection_open(struct guard_host *host, const struct redis_config *config);
/* As redis_close(). */
void connection_close(struct redis_connection *connection, void (*closed)(void *context), void *context);

bool connection_is_up(const struct redis_connection *connection);
/* Up, and as far as is known at the master: a REDIS_GET is worth while. */
bool connection_may_look_up(const struct redis_connection *connection);
/* Up, its login may do all that is of use, and the server is verified; what is not so is in the text of its state. */
bool connection_is_whole(const struct redis_connection *connection);

/* "redis 7.0.15": which server it is up to; "": not known. */
const char *connection_server(const struct redis_connection *connection);

/* A number that moves on when commands are written: what was sent under the present one has not left yet. */
uint64_t connection_batch(const struct redis_connection *connection);

/* Of a command that was redirected: what is sent from here on has to be answered by then, counts as sent before, and
 * is not counted again; `asking`: each behind an ASKING. 0: within limit_ms, as at first. */
void connection_redirected(struct redis_connection *connection, uint64_t deadline_ms, bool asking);

/* All commands of one turn of the loop leave in one write. False: no memory, too much pending or closing;
 * then `replied` will never be called. argv is copied. Command connections only. */
bool connection_send(struct redis_connection *connection, size_t argc, const char *const *argv,
                     const size_t *argv_bytes, redis_replied *replied, void *context);

/* Of any kind; a replicated one runs as any other does. False: as above. */
bool connection_call(struct redis_connection *connection, const struct redis_call *call);

/* Drops the connection now and connects again: a subscriber whose canary has died. */
void connection_reset(struct redis_connection *connection, const char *why);
