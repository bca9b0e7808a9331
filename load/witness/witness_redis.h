/* SPDX-License-Identifier: MIT */
/*
 * witness_redis.h - which commands a Redis ran meanwhile, less our own.
 *
 * INFO commandstats is read every 250 ms, and what was added since the last reading is summed up. A Redis that is
 * started anew counts from nothing: what it ran between the last reading and its end is lost, and all that the new
 * one ran is counted. Behind an address that leads to another server now, counting goes on from what that one had
 * counted by then. Commands that scripts run are commands, and EVALSHA is one, too.
 *
 * Redis counts for all clients together. Where others than the service may use it, those that used it meanwhile and are
 * still there at the end are named in the caveat, if they are of several kinds (witness_tally.h).
 *
 * Threads: one, and its own between begin and finish. Errors: false, and the reason in `why`; no password in it.
 */
#ifndef LOAD_WITNESS_WITNESS_REDIS_H
#define LOAD_WITNESS_WITNESS_REDIS_H

#include "load/witness/witness_view.h"

#include <stdbool.h>

struct witness_redis;

/* Speaks to the server once; within 3 s. The URL is copied; a host's name is looked up now and not again. */
bool witness_redis_open(const char *url, bool is_shared, struct witness_redis **out,
                        char why[static WITNESS_WHY_BYTES]);
bool witness_redis_begin(struct witness_redis *redis, char why[static WITNESS_WHY_BYTES]);

/* Returns at once: the last reading is under way. */
void witness_redis_end(struct witness_redis *redis);

/* Within a second of ..._end(): commands and has_redis go into the view. */
void witness_redis_finish(struct witness_redis *redis, struct witness_view *view);

/* Leaves NULL. Accepts NULL in *redis. */
void witness_redis_close(struct witness_redis **redis);

#endif
