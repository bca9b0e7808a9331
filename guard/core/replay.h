/* SPDX-License-Identifier: MIT */
/*
 * replay.h - confirmed invalidations, sent again to the next master. Private to the room.
 *
 * A master confirms an invalidation before its replicas have heard of it. If it ends then and one of them takes over,
 * the value is back, and the load that it voided may store. So a process remembers what it had confirmed shortly
 * before, and says all of it again when the reign changes. That is idempotent, and costs a reload of those keys.
 *
 * What     Of every key and tag the last confirmation (that one was expired only if none of the others dropped it),
 *          if it came within REPLAY_AGE_MS of the last answer of the master that gave it. So an outage ages nothing,
 *          however long it is: what the old master said last is what its replicas have missed. The newest REPLAY_MOST
 *          are kept; those that make way for them are counted as dropped.
 * Whose    Only what was confirmed: what was not is repeated anyway (invalidate.c), or its caller knows. All but
 *          those that are still at the master which confirmed them, if that is not the one whose reign has changed:
 *          what has moved may have come from there, and a promoted replica has a number of its own.
 * When     Spread over REPLAY_SPREAD_MS, at most REPLAY_UNDER_WAY at a time; after one without a confirmation one at
 *          a time, with growing pauses. What is confirmed is not sent again before the next change, so a load that
 *          began after the change is voided once. One that the process invalidates itself meanwhile is not sent at
 *          all.
 * Dropped  For want of room or memory, and after REPLAY_ATTEMPTS: counted (replay_dropped).
 *
 *               confirmed                      reign          alarm
 *     o ----------------------------> KEPT ------------> DUE -------> SENT ---+
 *                                      ^ ^               ^  no answer  |      | REPLAY_ATTEMPTS without
 *                                      | +--- invalidated+-------------+      v
 *                                      |   and confirmed               |    dropped
 *                                      +-------------------------------+
 *                                                  confirmed
 */
#pragma once

#include "core.h"

enum {
    REPLAY_MOST = 4096,
    REPLAY_AGE_MS = 30000,
    REPLAY_SPREAD_MS = 200,
    REPLAY_UNDER_WAY = 64,
    REPLAY_ATTEMPTS = 16, /* of one and the same */
    REPLAY_PAUSE_FIRST_MS = 100,
    REPLAY_PAUSE_MOST_MS = 2000,
};

struct confirmed;

struct replay {
    bool on;
    struct confirmed *by_name;    /* uthash table; owns them */
    struct confirmed *all;        /* oldest confirmation first */
    struct confirmed *due, *sent; /* of these, in the order of their times */
    uint32_t count, sent_count;
    uint32_t failures; /* in a row, those under way at the same time counted as one */
    uint64_t pause_until_us;
    struct alarm alarm;
};

/* With the core. False: no memory. */
bool replay_open(struct core *core);
void replay_clear(struct core *core);

/* The master of this shard has confirmed it, and this process has not sent it as a replay. */
void replay_note(struct core *core, const struct core_invalidation *invalidation, unsigned shard);
/* Sends nothing and frees nothing: the alarm does. */
void replay_reign(struct core *core, unsigned shard);
/* Commands go through again. Likewise. */
void replay_linked(struct core *core);
void replay_alarm(struct core *core);
/* False: the op is not one of its. */
bool replay_replied(struct core *core, uint64_t op, const struct core_reply *reply);
/* Nothing is sent any more. */
void replay_close(struct core *core);
