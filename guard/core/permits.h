/* SPDX-License-Identifier: MIT */
/*
 * permits.h - the fleet's load permits, as one process holds them. Private to core*.c, loads.c and flight*.c.
 *
 *                 a load could start         granted           it starts
 *   o--> FREE -----------------------> ASKING -------> READY ------------> USED
 *         ^ ^            refused         |               | none wanted      | its query is over
 *         | +----------------------------+               v                  v
 *         +------------------------------------------ RETURNING <-----------+
 *
 * One permit is one query: that of a load, or of a batch. Asked for once a worker is free and a load is queued, so that
 * neither a worker nor a permit waits for the other; the loads stay queued meanwhile, with leases that go on being
 * renewed. Permits are alike: who gets one is decided when it comes, users before refreshes, the two shares
 * as they get workers (loads.c).
 *
 * Waiting    A refusal has put this process into Redis's queue. It asks again when a message names it, when it has given
 *            a permit back itself, or when the poll says so; then for as many as the reply says are free.
 * Classes    For users as many are asked for as workers are free for queued users; for refreshes only while no user
 *            is queued or has an ask under way: this process has one place in Redis's queue, and who asks for the
 *            other class loses it.
 * Tokens     Every permit has a new one. An acquire without an answer is sent again with the same one, which
 *            scripts/permit_acquire.lua says why; once its release was sent it is not used again.
 * Lost       Who could not renew in time, or hears that Redis no longer knew the permit, counts it and loads on: the
 *            query runs already. Renewals go on, so that what runs is counted again.
 * Without    Redis away, the breaker open, or Redis refusing the script: loads start without, B at a time
 *            (permit_spared).
 */
#ifndef GUARD_PERMITS_H
#define GUARD_PERMITS_H

#include "core.h"

enum permit_state {
    PERMIT_FREE,
    PERMIT_REQUESTED, /* acquire sent */
    PERMIT_READY,     /* granted; a load starts before the event, or the turn, is over */
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
    bool background;   /* asked for a refresh */
    bool more;         /* as one of several */
    bool doubtful;     /* an acquire of this token was not answered: it may have run, or may yet */
    bool lost;         /* its validity is over, or was */
    uint32_t attempts; /* of the command that is outstanding */
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
    bool refused;         /* and some are still wanted: from here on only `chances` are asked for */
    uint32_t chances;     /* permits that may have become free for us */
    uint32_t polls;       /* in a row, for the backoff */
    uint64_t earliest_us; /* the first that is out runs out then */
    struct alarm poll;
    uint32_t spared; /* loads that may start without, because Redis did not say */
};

/* With the core. False: no memory. */
bool permits_open(struct core *core);
void permits_clear(struct core *core);
/* Nothing is held, asked for or being given back. */
bool permits_idle(const struct core *core);

/* A queued load may start as far as the fleet is concerned. */
bool permits_allow(struct core *core);
/* For the query that begins now, after permits_allow(). NULL: it runs without. */
struct permit *permits_use(struct core *core);
void permits_give_back(struct core *core, struct permit *permit);
/* At the end of every event: asks for what is wanted, gives back what is not. */
void permits_balance(struct core *core);

/* False: the op is not one of theirs. */
bool permits_replied(struct core *core, uint64_t op, const struct core_reply *reply);
/* A message says that one is free for the process of that name. */
void permits_freed(struct core *core, const char *waiter, size_t waiter_bytes);
void permits_alarm(struct core *core, struct permit *permit);
void permits_poll(struct core *core);
/* Messages may have been lost. */
void permits_resync(struct core *core);
/* Redis can be spoken to again, and may have forgotten what is out. */
void permits_linked(struct core *core);

#endif
