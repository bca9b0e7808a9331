/* SPDX-License-Identifier: MIT */
/*
 * permits.h - the fleet's load permits, as one process holds them. Private to the room.
 *
 *        a load could start, or is expected  granted         it starts
 *   o--> FREE -------------------> REQUESTED -------> READY ------------> USED
 *         ^ ^         refused          |              | ^    its turn      | its query is over
 *         | +--------------------------+  none wanted | +------------------+
 *         |                                           v                    v
 *         +-------------------------------- RETURNING <--------------------+
 *
 * A permit is for one query at a time: that of a load, or of a batch. It is requested once a worker is free and a
 * load is queued or expected, so that neither a worker nor a permit waits for the other for long; the loads stay
 * queued meanwhile, and their leases go on being renewed. Permits are alike: which load gets one is decided when it
 * comes, users before refreshes, the two lanes as they get workers (loads.h).
 *
 * Expected   It is requested in one write with the first acquire of a user's lease; while permits are short only as
 *            `chances` allow. One that comes before the lease does waits for that answer, and goes back if it brings
 *            none.
 * Together   What may leave as one query (loads.h) is counted so, queued and expected: a permit for each batch_max of
 *            them, and one for the rest.
 * Turn       When its query is over it passes to the next user's load of this process without a word to Redis, for a
 *            turn of PERMIT_TURN_QUERIES or PERMIT_TURN_MS, whichever is over first. So short queries do not leave it
 *            idle for round trips, and a process that waits in Redis's queue waits little longer: beside queries that
 *            take longer than a turn a round trip is nothing, and there is none. Refreshes have no turn, for users of
 *            other processes come before them; nor has a permit that was lost.
 * Waiting    A refusal has put this process into Redis's queue. It requests again when a message names it, when it
 *            has given a permit back itself, or when the poll is due; then as many as the reply says are free.
 * Classes    For users as many are requested as workers are free for queued users; for refreshes only while no user
 *            is queued and none is requested for one: this process has one place in Redis's queue, and a request of
 *            the other class loses it.
 * Tokens     Every permit has a new one. An acquire without an answer is sent again with the same one, which
 *            scripts/permit_acquire.lua explains; once its release was sent it is not used again.
 * Lost       A permit that could not be renewed in time, or that Redis no longer knows, is counted, and its query
 *            runs on. Renewals go on, so that what runs is counted in the fleet again.
 * Without    Redis away, the breaker open, the permits moving to another master, or Redis refusing the script: loads
 *            start without, max_loads at a time (permit_spared).
 */
#pragma once

#include "core.h"

enum permit_state {
    PERMIT_FREE,
    PERMIT_REQUESTED, /* acquire sent */
    PERMIT_READY,     /* granted; a load starts soon, or it goes back */
    PERMIT_USED,      /* its query runs */
    PERMIT_RETURNING, /* release sent; without a token: this process leaves the queue */
    PERMIT_STATES,
};

struct permit {
    enum permit_state state;
    struct alarm alarm;    /* READY, USED: renewal, or the end of its validity */
    uint64_t id;           /* the upper part of its ops */
    uint64_t op, renew_op; /* outstanding commands; 0: none */
    uint16_t op_count;
    char token[TOKEN_SIZE];
    bool background;   /* requested for a refresh */
    bool more;         /* as one of several */
    bool doubtful;     /* an acquire of this token was not answered: it may have run, or may yet */
    bool lost;         /* its validity is over, or was */
    uint32_t attempts; /* of the command that is outstanding */
    uint32_t queries;  /* that began under it */
    uint64_t turn_until_us;
    uint64_t sent_us, renew_sent_us, valid_until_us, renew_at_us;
};

struct permits {
    struct permit *all; /* owned; NULL: there is no limit */
    uint32_t count;
    uint32_t in_state[PERMIT_STATES];
    char waiter[TOKEN_UUID_BYTES + 1]; /* this process in the queue */
    bool in_queue;                     /* as far as we know */
    bool background;                   /* only refreshes wanted one last */
    /* waiting */
    bool refused;         /* and some are still wanted: from here on only `chances` are requested */
    uint32_t chances;     /* permits that may have become free for us */
    uint32_t polls;       /* in a row, for the backoff */
    uint64_t earliest_us; /* the first that is out runs out then */
    struct alarm poll;
    uint32_t spared; /* loads that may start without, because Redis did not say */
};

/* With the core. False: no memory. */
bool permits_open(struct core *core);
void permits_clear(struct core *core);
/* Nothing is held, requested or being given back. */
bool permits_idle(const struct core *core);

/* ---- only if permits_exist() ---- */

/* So many queries may start as far as the fleet is concerned. */
uint32_t permits_allow(struct core *core);
/* For the query that begins now, after permits_allow(). NULL: it runs without. */
struct permit *permits_use(struct core *core);
/* Its query is over: to the next one, or back. */
void permits_query_over(struct core *core, struct permit *permit);
/* At the end of every event: requests what is wanted, gives back what is not. */
void permits_balance(struct core *core);

/* ---- what came back, messages and time ---- */

/* False: the op is not one of theirs. */
bool permits_replied(struct core *core, uint64_t op, const struct core_reply *reply);
/* A message says that one is free for the process of that name. */
void permits_freed(struct core *core, const char *waiter, size_t waiter_bytes);
void permits_alarm(struct core *core, struct permit *permit);
void permits_poll(struct core *core);
/* Messages may have been lost. */
void permits_resync(struct core *core);
/* The master of this shard can be spoken to again, and may have forgotten what is out. */
void permits_linked(struct core *core, unsigned shard);
