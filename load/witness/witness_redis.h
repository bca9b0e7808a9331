/* SPDX-License-Identifier: MIT */
/*
 * witness_redis.h - which commands a Redis ran meanwhile, less our own.
 *
 * INFO commandstats is read every 250 ms, and what was added since the last reading is summed up. A Redis that is
 * started anew counts from nothing: what it ran between the last reading and its end is lost, and all that the new
 * one ran is counted. Behind an address that leads to another server now, counting goes on from what that one had
 * counted by then. Commands that scripts run are commands, and EVALSHA is one, too.
 *
 * Of one that others use, a few keys are looked at after each reading, at random, and for how long they are kept.
 *
 * Redis counts for all clients together; where others than the service may use it, the caveat says so.
 *
 * Threads: one, and its own between begin and finish. Errors: false, and the reason in `why`; no password in it.
 */
#pragma once

#include "load/witness/witness_view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- a tally: witness_tally.c ---- */

/*
 * Calls by command, out of Redis's INFO, and what was added between two readings.
 *
 * Pure.
 */

enum { WITNESS_TALLY_MAX = 512 }; /* Redis has some 400 commands; what is beyond counts as "other" */

struct witness_tally {
    struct witness_command at[WITNESS_TALLY_MAX];
    size_t count;
};

/* The lines "cmdstat_get:calls=5,..." of a text; others are passed over. */
void witness_tally_read(struct witness_tally *tally, const char *info);

uint64_t witness_tally_get(const struct witness_tally *tally, const char *name);
void witness_tally_add(struct witness_tally *tally, const char *name, uint64_t calls);
/* Not below 0. */
void witness_tally_subtract(struct witness_tally *tally, const char *name, uint64_t calls);

/* Adds to `sum` what `now` has more than `before`. A counter that went backwards was reset: it counts from 0. True:
 * one did. */
bool witness_tally_advance(struct witness_tally *sum, const struct witness_tally *before,
                           const struct witness_tally *now);

/* Into the view: the most frequent first, those without calls left out. */
void witness_tally_show(const struct witness_tally *tally, struct witness_view *view);

/* ---- the witness ---- */

struct witness_redis;

/* Speaks to the server once; within 3 s. The URL is copied; a host's name is looked up now and not again. */
bool witness_redis_open(const char *url, bool is_shared, struct witness_redis **out,
                        char why[static WITNESS_WHY_BYTES]);
bool witness_redis_begin(struct witness_redis *redis, char why[static WITNESS_WHY_BYTES]);

/* Returns at once: the last reading is under way. */
void witness_redis_end(struct witness_redis *redis);

/* Within a second or two of ..._end(): commands and has_redis go into the view. */
void witness_redis_finish(struct witness_redis *redis, struct witness_view *view);

/* Leaves NULL. Accepts NULL in *redis. */
void witness_redis_close(struct witness_redis **redis);
