/* SPDX-License-Identifier: MIT */
/*
 * loads.h - the bulkhead: at most max_loads queries at a time, a bounded queue before them, refusal beyond.
 * Private to the room.
 *
 * Places     A flight takes its place before it asks Redis for the lease. A lease that could only be queued and then
 *            shed would be waited for, woken for and shed again by the whole fleet. The place is kept until the load
 *            has come back: a load that its flight gave up still occupies a worker.
 * Nested     A loader that waits for another key has its thread to spare. If that key is to be loaded here, the same
 *            thread loads it: a nested load needs no place and no worker, and never queues behind the load that waits
 *            for it. No more than max_loads loaders are at work at a time even so, because the outer one stands
 *            still. What is left to wait for is a load on another thread of this process, where a circle is refused
 *            at the moment it would close (loads_circle), or one of another process, for a limited time (alone_us).
 * Users      Two queues: users before background refreshes. A refresh moves to the users' queue once a waiter needs
 *            it, and one that is only queued gives its place to a user that would be shed. The permits of the
 *            fleet are requested when a worker is free (permits.h): until then only the lease is held.
 * Batches    Flights of many start in batches, after the turn of the loop in which they were queued, and not
 *            while an acquire of the same turn as theirs has no answer. A batch is one query: it occupies one
 *            worker until its last load is over, and batch_max of its flights, queued, share one place.
 * Passing    Loads of which each is for one request (pass.h) queue for at most half of the places that may queue, so
 *            that other keys find one. Of one key there may be many; no two of them are in one batch.
 * Shares     Single and many: what at least one waiter asked for by itself, and what was only asked for in a get of
 *            many. Each share has as many places and waiters as the configuration says, so neither is refused for
 *            what the other holds. A free worker goes to the share with fewer queries running, alternately if they
 *            are equal. So either share gets half of the workers as they become free (with one worker every other
 *            query), and no worker is idle while a flight is queued. Refreshes and permits follow the same rule.
 *            A key asked for in both ways is loaded as a single one, unless it is queued and that share is full.
 */
#ifndef GUARD_LOADS_H
#define GUARD_LOADS_H

#include "core.h"

enum {
    LOADS_TURNS = 64,      /* whose acquires are told apart */
    PLACE_PARTS = 1 << 20, /* a place in parts: a batched flight has one of batch_max */
};

/* Where a flight that may load waits for a worker. */
enum queue {
    QUEUE_USERS,     /* a waiter needs it, or did when it was queued */
    QUEUE_REFRESHES, /* none does */
    QUEUES,
};

enum share {
    SHARE_SINGLE,
    SHARE_MANY,
    SHARES,
};

/* A load outlives its flight when the flight had to give it up. */
struct load {
    uint64_t id; /* guard_load_id() */
    unsigned kind;
    struct flight *flight; /* NULL: given up; its result is dropped */
    struct load *prev, *next;
    uint64_t deadline_us;
    uint64_t batch; /* one query with those of the same; 0: a query of its own */
    enum share share;
    uint32_t place_parts;  /* 0: nested, it has no place */
    struct permit *permit; /* of its query; NULL: it runs without, or on a lent thread */
    bool cancelled;
    bool unwanted; /* cancelled because the lease was lost: its failure says nothing about the source */
    struct core_waiter *blocked_on; /* its loader waits for another key; NULL: it does not */
    struct load *lender;            /* whose thread runs it; outlives it; NULL: a worker's own load */
    bool lending;                   /* its thread runs another load */
    bool cut_short;                 /* the lender's deadline comes before its own */
    size_t key_bytes;
    char key[]; /* owned: encoded, and behind it the plain one and NUL */
};

struct loads {
    struct flight *queues[QUEUES][SHARES]; /* oldest first */
    uint64_t parts_used[SHARES];           /* of places, each <= max_loads + load_queue */
    uint64_t passing_parts[SHARES];        /* of those, of passing flights that are queued */
    uint32_t passing;                      /* flights that pass */
    uint32_t waiters[SHARES];              /* each <= max_waiters */
    uint32_t queries[SHARES];              /* running: a batch is one; together <= max_loads */
    enum share served;                     /* whose query began last */
    struct load *running;                  /* given-up ones too */
    uint32_t nested_waiters;
    uint32_t queued;         /* flights */
    uint32_t batched_queued; /* queued flights that are batched */
    uint32_t users_queued;   /* flights in QUEUE_USERS */
    uint32_t users_batched;  /* of those, batched */
    uint64_t batch;          /* of the loads that are being started; 0: none */
    uint64_t turn;           /* of the owner's loop, counted */
    bool turn_due;
    uint32_t pending_acquires[LOADS_TURNS]; /* of batched flights, by the turn they were sent in */
    uint64_t replied_turn[LOADS_TURNS];     /* in which the last of those was answered */
};

/* Notes that this flight's acquire is sent (pending), or is pending no more. */
void loads_count_acquire(struct flight *flight, bool pending);

/* Of a flight without a place: that of its first waiter. */
void loads_choose_share(struct flight *flight, bool of_many);
/* Passing flights have not queued for their half yet; or it does not pass. */
bool loads_may_queue(const struct flight *flight);
/* A place of its share, among workers and queue, taken before anything that may lead to a load. False: full. */
bool loads_take_place(struct flight *flight);
void loads_give_place(struct flight *flight);

void loads_enqueue(struct flight *flight);
void loads_dequeue(struct flight *flight);
/* A waiter needs a queued refresh: from here on it is a user's. */
void loads_promote(struct flight *flight);
/* A waiter asked for it by itself: it changes its share, if the new one has a place for it. */
void loads_single_out(struct flight *flight);
/* The refresh of this share that was queued last and has no waiter; NULL: none. */
struct flight *loads_last_refresh(const struct core *core, enum share share);

/* Queries that workers are free for, and that only wait for permits. */
uint32_t loads_wanted(const struct core *core);
/* Those of them that have waiters, as if no refresh were queued. */
uint32_t loads_wanted_by_users(const struct core *core);
/* Starts what can be started; batched flights only after the turn in which they were queued. Called at the end
 * of every event. */
void loads_pump(struct core *core, bool turn_over);

/* This nested waiter joins its flight, or leaves it. Its parent load is there for as long as its loader runs. */
void loads_block(struct core_waiter *waiter);
void loads_unblock(struct core_waiter *waiter);
/* A load that waits in this flight and whose thread is free to run its load; NULL: none. */
struct load *loads_lender(const struct flight *flight);
/* What this flight waits for waits for that load: if that load waited for the flight, it would wait for itself. */
bool loads_circle(const struct flight *flight, uint64_t parent_load);

/* NULL: no memory. The caller has a place or a lender, and emits CORE_LOAD. */
struct load *loads_new(struct flight *flight, uint64_t deadline_us);
struct load *loads_find(const struct core *core, uint64_t id);
/* Gives the query's permit back with its last load. */
void loads_free(struct core *core, struct load *load);
void loads_cancel(struct core *core, struct load *load, bool unwanted);
/* The flight gives its load up: cancelled, and whatever it brings is dropped. */
void loads_abandon(struct flight *flight);
/* A load of this key runs under a live lease. */
bool loads_runs_key(const struct core *core, const struct core_key *key);

#endif
