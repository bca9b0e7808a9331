/* SPDX-License-Identifier: MIT */
/*
 * loads.h - the bulkhead: at most max_loads queries at a time, a bounded queue before them, refusal beyond.
 * Private to the room.
 *
 * Places     A flight takes its place before it asks Redis for the lease. A lease that could only be queued and then
 *            shed would be waited for, woken for and shed again by the whole fleet. The place is kept until the load
 *            has come back: a load that its flight gave up still occupies a worker.
 * Threads    max_loads bounds the loads, load_threads those of them that are not deferred. A load starts when both
 *            allow it: so none waits for a thread once it has begun, its lease is renewed while it is queued, and its
 *            limit counts from its loader's first moment. One that runs on a loop of the owner's, or on the thread
 *            that waits for it, needs no load thread.
 * Nested     A nested load runs in the place of its outer one, and mostly on its thread: nested.h.
 * Users      Two queues: users before refreshes, which are those in the background and requests that only refresh.
 *            Which of the two a flight waits in follows from its waiters at that moment, whoever made it: it changes
 *            the queue as they come and go. A refresh that is only queued gives its place to a user that would be
 *            shed, and its lease back after lease_ms. The permits of the fleet are requested when a worker is free,
 *            at the earliest beside the lease (permits.h).
 * Batches    Flights of many start in batches, after the turn of the loop in which they were queued, and not
 *            while an acquire of the same turn as theirs has no answer. batch_max of its flights, queued, share one
 *            place. Other flights never wait for company. But what has to wait for a worker or a permit anyway leaves
 *            together: the oldest that may start takes with it what is queued of the same policy, up to batch_max,
 *            whatever requests it is for; users first, so refreshes fill what they leave free. Alone it is no batch.
 *            A batch is one query. It has one worker, one permit and at most one place until its last load is over,
 *            and counts for the lane of the flight that it began with. No key is in it twice, but in mode OFF.
 *            It is one query, and no transaction: each load ends for itself. Where all fail because of what was
 *            asked, nobody knows which key that is about: the query goes on as two halves, each of which joins no
 *            other flight, until a key stands alone, or all are to blame (halves.h).
 * Apart      Never with others, but for those of its request for many: what passes, what another load waits for (what
 *            it needs may wait for a neighbour), what the policy says, and everything in mode OFF.
 * Passing    Loads of which each is for one request (pass.c) queue for at most half of the places that may queue, so
 *            that other keys find one. Of one key there may be many.
 * Lanes      Single and many: what at least one waiter asked for by itself, and what was only asked for in a get of
 *            many. Each lane has as many places and waiters as the configuration says, so neither is refused for
 *            what the other holds. A free worker goes to the lane with fewer queries running, alternately if they
 *            are equal. So either lane gets half of the workers as they become free (with one worker every other
 *            query), and no worker is idle while a flight is queued. Refreshes and permits follow the same rule.
 *            A key asked for in both ways is loaded as a single one, unless it is queued and that lane is full.
 */
#pragma once

#include "core.h"

enum {
    LOADS_TURNS = 64,      /* whose acquires are told apart */
    LOADS_SLOTS = 512,     /* of the tables of loads */
    PLACE_PARTS = 1 << 20, /* a place or a query in parts: one of several is one of batch_max */
};

/* Where a flight that may load waits for a worker. */
enum queue {
    QUEUE_NONE,      /* it does not */
    QUEUE_USERS,     /* a waiter needs the load */
    QUEUE_REFRESHES, /* none does */
    QUEUES,
};

enum lane {
    LANE_SINGLE,
    LANE_MANY,
    LANES,
};

/* A load outlives its flight when the flight had to give it up. */
struct load {
    uint64_t id; /* guard_load_id() */
    unsigned kind;
    struct flight *flight; /* NULL: given up; its result is dropped */
    struct load *prev, *next;
    struct load *id_prev, *id_next, *key_prev, *key_next; /* in the slots of loads.by_id and by_key */
    struct load *mate_prev, *mate_next;                   /* a ring: those of its batch, and itself */
    bool had_mates;                                       /* it began with others */
    bool in_second;                                       /* which half of its batch it is in */
    uint64_t deadline_us;
    uint64_t hold_until_us; /* deferred: its place and its permit come back then, whatever happens */
    struct alarm hold;
    uint64_t batch;        /* one query with those of the same; 0: a query of its own */
    enum lane lane;        /* of its query */
    uint32_t place_parts;  /* 0: nested, or its query has a place without it */
    struct permit *permit; /* of its query; NULL: it runs without, or in another load's place */
    bool on_thread;        /* of loads.threads_used; one of a batch stands for all of it */
    bool deferred;
    bool over; /* only its place is left, for loads that are nested in it */
    bool cancelled;
    bool unwanted; /* cancelled because the lease was lost: its failure says nothing about the source */
    struct core_waiter *blocked_on; /* it waits for other keys: one, or any number if it is deferred */
    struct load *outer;             /* in whose place it runs; outlives it; NULL: in its own */
    struct load *lender;            /* whose thread runs it; outlives that; NULL: a worker's */
    struct load *lent_to;           /* runs on its thread, or in its place if it is deferred; NULL: none */
    uint32_t guests;                /* loads whose outer one it is */
    uint32_t depth;                 /* loads that it is nested in */
    bool cut_short;                 /* the outer one's or the lender's deadline comes before its own */
    uint64_t visit;                 /* the last search that came by */
    struct load *visit_next;
    struct load *visit_from; /* that waits for it, or whose mate does; NULL: the search began here */
    bool visit_by_mate;
    size_t key_bytes;
    char key[]; /* owned: encoded, and behind it the plain one and NUL */
};

struct loads {
    struct flight *queues[QUEUES][LANES]; /* oldest first */
    uint64_t parts_used[LANES];           /* of places, each <= max_loads + load_queue */
    uint64_t passing_parts[LANES];        /* of those, of passing flights that are queued */
    uint32_t passing;                     /* flights that pass */
    uint32_t waiters[LANES];              /* each <= max_waiters */
    uint32_t queries[LANES];              /* running: a batch is one; together <= max_loads */
    enum lane served;                     /* whose query began last */
    uint32_t threads_used;                /* by queries that are not deferred; <= load_threads */
    struct load *running;                 /* given-up ones too */
    struct load *by_id[LOADS_SLOTS], *by_key[LOADS_SLOTS];
    uint64_t forgotten; /* deferred loads that were over here before they were finished */
    uint64_t visit;     /* searches so far */
    uint32_t nested_waiters;
    uint32_t queued;         /* flights */
    uint32_t batched_queued; /* queued flights that are batched */
    uint32_t joint_queued;   /* queued flights that are joint */
    uint32_t queued_apart;   /* queued flights that need no load thread */
    uint64_t queued_parts;   /* of queries, that the queued flights are */
    uint64_t users_parts;    /* of those, in QUEUE_USERS: as if no refresh were queued */
    uint64_t expected_parts; /* of flights that are not queued yet, but may be soon */
    uint64_t batch;          /* of the loads that are being started; 0: none */
    struct load *batch_last; /* of those, the last that was */
    uint32_t query_parts;    /* of a place that the query has which began last */
    uint64_t turn;           /* of the owner's loop, counted */
    bool turn_due;
    uint32_t pending_acquires[LOADS_TURNS]; /* of batched flights, by the turn they were sent in */
    uint64_t replied_turn[LOADS_TURNS];     /* in which the last of those was answered */
};

/* Notes that this flight's acquire is sent (pending), or is pending no more. */
void loads_count_acquire(struct flight *flight, bool pending);

/* Of a flight without a place: that of its first waiter. */
void loads_choose_lane(struct flight *flight, bool of_many);
/* Passing flights have not queued for their half yet; or it does not pass. */
bool loads_may_queue(const struct flight *flight);
/* A place of its lane, among workers and queue, taken before anything that may lead to a load. False: full. */
bool loads_take_place(struct flight *flight);
void loads_give_place(struct flight *flight);

void loads_enqueue(struct flight *flight);
void loads_dequeue(struct flight *flight);
/* A waiter needs its load: a user, that no lookup beside a refresh is about to answer. */
bool loads_is_for_user(const struct flight *flight);
/* Who waits for it may have changed: into the queue where it belongs, if it is in one. */
void loads_requeue(struct flight *flight);
/* The refresh of this lane that was queued last and has no user. NULL: none. */
struct flight *loads_last_refresh(const struct core *core, enum lane lane);

/* Of the queries that these parts are (queued_parts, say), those that could run and only wait for permits: what may
 * leave together is counted in full queries, and what is left over as one. */
uint32_t loads_wanted(const struct core *core, uint64_t parts);
/* Notes that the acquire of this flight, which is sent, will likely lead to a load; or that it no longer does. */
void loads_expect(struct flight *flight, bool likely);
/* Starts what can be started; batched flights only after the turn in which they were queued. Called at the end
 * of every event. */
void loads_pump(struct core *core, bool turn_over);

/* Of those of the pool. */
bool loads_needs_thread(const struct flight *flight);
/* A load may begin on a thread of its own. */
bool loads_thread_free(const struct core *core);
/* Its thread has something else to do: it is over, or deferred. */
void loads_leave_thread(struct core *core, struct load *load);

/* NULL: no memory. The caller has a place or a berth (nested.h), and emits CORE_LOAD. */
struct load *loads_new(struct flight *flight, uint64_t deadline_us);
struct load *loads_find(const struct core *core, uint64_t id);
/* Gives the query's permit back with its last load, and the place once no other load runs in it. */
void loads_free(struct core *core, struct load *load);
void loads_cancel(struct core *core, struct load *load, bool unwanted);
/* The flight gives its load up: cancelled, and whatever it brings is dropped. */
void loads_abandon(struct flight *flight);
/* Its query has no other load, or the others are over. */
bool loads_is_alone(const struct load *load);
/* The half of its batch that a load is in, for flight->half. */
uint64_t loads_half(const struct load *load);
/* Another load of this flight's key runs under a live lease. One that revalidates is no other's, and no other its. */
bool loads_runs_key(const struct flight *flight);
