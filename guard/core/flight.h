/* SPDX-License-Identifier: MIT */
/*
 * flight.h - one load in progress for one key, and those who wait for it. Private to core*.c,
 * loads.c, permits.c and flight*.c (flight_parts.h says what each of those does).
 */
#ifndef GUARD_FLIGHT_H
#define GUARD_FLIGHT_H

#include "../base/alarm.h"
#include "../base/chance.h"
#include "breaker.h"
#include "core.h"
#include "permits.h"

enum {
    CORE_OP_BITS = 16, /* an op is the flight's id above these bits and a count below */
    CORE_TURNS = 64,   /* whose acquires are told apart */
};

enum flight_state {
    FLIGHT_NEW,       /* made by the get that joins it next */
    FLIGHT_ACQUIRING, /* acquire sent: cached, leased, busy or failed? */
    FLIGHT_WAITING,   /* another process has the lease: wake-up or poll */
    FLIGHT_QUEUED,    /* may load, but all workers are busy */
    FLIGHT_LOADING,   /* the loader runs */
    FLIGHT_FILLING,   /* fill sent */
    FLIGHT_RELEASING, /* release sent, everybody answered; whoever joins asks again behind it */
    FLIGHT_COOLING,   /* a load without lease failed: nobody tries again before cool_until_us */
    FLIGHT_RESTING,   /* another refresh runs or has failed: until the alarm, none is asked for */
    FLIGHT_ENDED,     /* out of the table; freed at the next event */
    FLIGHT_STATES,
};

/* Where a flight that may load waits for a worker. */
enum line {
    LINE_USERS,     /* somebody waits for it, or did when it was queued */
    LINE_REFRESHES, /* nobody does */
    LINES,
};

/*
 * How it was asked for: what is not asked for alone has its own places and waiters and half of the workers, so that
 * neither keeps the other from being loaded. See loads.c.
 */
enum share {
    SHARE_SINGLE, /* somebody asked for it alone */
    SHARE_MANY,   /* everybody asked for it with others */
    SHARES,
};

/* A place in parts: a flight that gathers has one of batch_max, for as many of them are one query. */
enum { PLACE_PARTS = 1 << 20 };

/* A load outlives its flight when the flight had to give it up. */
struct load {
    uint64_t id;
    struct flight *flight; /* NULL: given up; its result is dropped */
    struct load *prev, *next;
    uint64_t deadline_us;
    uint64_t batch; /* one query with those of the same; 0: alone */
    enum share share;
    uint32_t place_parts; /* 0: nested, it has no place */
    struct permit
        *permit; /* of its query; NULL: it runs without, or on the thread of one that may have one */
    bool cancelled;
    bool unwanted; /* cancelled because the lease was lost: its failure says nothing about the source */
    struct core_waiter *blocked_on; /* its loader waits for another key; NULL: it does not */
    struct load *lender;            /* whose thread runs it; outlives it; NULL: a worker's own load */
    bool lending;                   /* its thread runs another load */
    bool cut_short;                 /* the lender's deadline comes before its own */
    size_t key_bytes;
    char key[]; /* owned, encoded */
};

/* A stale value in hand for those who wait for a fresh one. */
struct held {
    struct guard_result result; /* status 0 and no value: none; its value is owned */
    bool there;
    uint64_t stamp;    /* who joined before it was looked up may have it */
    uint64_t read_us;  /* its age is of this instant */
    uint64_t until_us; /* end of its stale time */
};

struct flight {
    /* identity */
    struct flight *prev, *next; /* all flights of the core; `next` also links the dead */
    UT_hash_handle by_key;      /* only while joinable */
    UT_hash_handle by_id;
    struct core_key key; /* owned, in the same allocation */
    const struct guard_policy *policy;
    uint64_t id;
    bool joinable;
    bool unlisted; /* a table had no memory for it */

    /* waiters, oldest first */
    struct core_waiter *first;
    uint32_t round;          /* results delivered so far */
    uint32_t nested_waiters; /* of them nested */

    /* where it stands */
    enum flight_state state;
    struct alarm alarm;
    uint64_t op, renew_op, peek_op; /* outstanding commands; 0: none */
    uint16_t op_count;
    bool latch;                         /* a wake-up came while the acquire was under way */
    enum core_lookup lookup;            /* of the last acquire */
    char refused[TOKEN_UUID_BYTES + 1]; /* head of an unusable entry to replace; "": none */
    struct tags_clock born;             /* the tags' clock before the last acquire was answered */

    /* refreshing a value that is there */
    bool background;                   /* made, or gone on, for a refresh that nobody waits for */
    char wanted[TOKEN_UUID_BYTES + 1]; /* of an early one: the filler of the value; "": of a stale value */
    bool refreshing;                   /* a value is there: load on even if nobody waits */
    bool peeked_in_vain;               /* it was */
    struct held held;
    struct value *previous; /* owned: the value that is refreshed */
    char previous_filler[TOKEN_UUID_BYTES + 1];

    /* waiting */
    uint32_t polls, wakes, unknowns, stores;
    uint64_t waiting_since_us;          /* first BUSY of this wait; 0: none */
    char busy_tag[TOKEN_TAG_BYTES + 1]; /* of the lease that the last lookup found; "": not known */

    /* join stamps: a result goes only to those who joined before what made it was sent */
    uint64_t lookup_stamp, peek_stamp, query_stamp, fill_stamp;
    uint64_t busy_stamp;   /* who joined before it waited for the fleet */
    uint64_t leader_stamp; /* `joined` of the oldest waiter when the query was sent */

    /* the lease */
    char token[TOKEN_SIZE];
    char prev_token[TOKEN_SIZE]; /* an attempt of ours that may still hold the lease; "": none */
    bool leased;
    bool lost;                       /* while the load ran */
    uint64_t sent_us, renew_sent_us; /* of the acquire, of the last renewal */
    uint64_t valid_until_us, hold_until_us, renew_at_us;

    /* the batch */
    enum share share;
    bool alone;            /* somebody joined who asked for it alone */
    bool batched;          /* loaded with others, if others are; only in SHARE_MANY */
    bool counted;          /* in core->pending_acquires */
    uint64_t acquire_turn; /* of its last acquire */
    uint64_t queued_turn;

    /* the load */
    uint32_t place_parts; /* counted in core->parts_used; 0: it has no place */
    enum line line;       /* QUEUED: where */
    struct flight *line_prev, *line_next;
    struct load *load;
    struct value *value; /* owned: the result while it is being filled */
    bool absent;
    bool unchanged; /* the value is the previous one */
    uint64_t load_us;
    uint32_t fresh_ms;
    enum guard_failure failure; /* RELEASING, COOLING */
    bool too_big;
    uint32_t failure_ms;
    uint64_t cool_until_us;
};

/* An action that the owner could not perform. */
struct unperformed {
    uint64_t op; /* 0: it was a load */
    uint64_t load;
};

struct core {
    struct core_config config;
    struct chance chance;
    struct breaker breaker;
    struct alarms alarms;
    uint64_t last_stamp, last_id;
    bool closed;

    struct flight *by_key, *by_id; /* uthash tables */
    struct flight *flights;        /* all but the dead */
    struct flight *dead;

    /* the bulkhead (loads.c) */
    struct flight *queue[LINES][SHARES];   /* oldest first */
    uint64_t parts_used[SHARES];           /* of places, each <= load_workers + load_queue */
    uint32_t waiters[SHARES];              /* each <= max_waiters */
    uint32_t queries[SHARES];              /* running: a batch is one; together <= load_workers */
    enum share served;                     /* whose query began last */
    struct load *loads;                    /* running, given-up ones too */
    uint32_t nested_waiters;               /* waiters that are nested */
    uint32_t batched_queued;               /* queued flights that gather */
    uint32_t users_queued;                 /* flights in LINE_USERS */
    uint32_t users_batched;                /* of those, that gather */
    uint64_t turn, batch;                  /* batch: of the loads that are being started; 0: none */
    uint32_t pending_acquires[CORE_TURNS]; /* outstanding acquires of flights that gather, by their turn */
    uint64_t replied_turn[CORE_TURNS];     /* in which the last of those was answered */
    bool turn_due;

    struct permits permits; /* permits.c */

    struct core_waiter *answered; /* not fetched yet; oldest first, likewise the invalidated */
    struct core_invalidation *invalidations_by_id; /* uthash table */
    struct core_invalidation *invalidations, *invalidated;

    struct core_action *actions; /* owned ring */
    uint32_t action_first, action_count, action_capacity, action_owners;
    struct unperformed *unperformed; /* owned, room for action_capacity; the last one is told first */
    uint32_t unperformed_count;

    struct guard_stats stats;
};

/* ---- core.c ---- */

/* Every event begins with it: frees the flights that ended in the one before. */
void core_begin(struct core *core);
uint64_t core_stamp(struct core *core);
void core_end_flight(struct core *core, struct flight *flight);

/* ---- core_actions.c ---- */

/* Room for everything one more flight or invalidation may ever ask for at once. False: no memory. */
bool core_reserve_owner(struct core *core);
void core_unreserve_owner(struct core *core);
void core_emit(struct core *core, const struct core_action *action);

/* ---- core_answer.c ---- */

/* Takes the waiter out of its flight and hands it to the owner with this result. */
void core_answer(struct core *core, uint64_t now_us, struct core_waiter *waiter,
                 const struct guard_result *result);
void core_histogram_add(struct guard_histogram *histogram, uint64_t span_us);

/* ---- core_invalidate.c ---- */

/* The one whose command this op is; NULL: none. */
struct core_invalidation *core_find_invalidation(const struct core *core, uint64_t op);
void core_invalidation_replied(struct core *core, uint64_t now_us, struct core_invalidation *invalidation,
                               const struct core_reply *reply);
/* It is time for its next attempt, or over. */
void core_invalidation_rings(struct core *core, uint64_t now_us, struct core_invalidation *invalidation);
void core_answer_invalidation(struct core *core, struct core_invalidation *invalidation,
                              enum guard_status status);

/* ---- flight*.c: the events of one flight ---- */

void flight_joined(struct core *core, uint64_t now_us, struct flight *flight, struct core_waiter *waiter);
void flight_left(struct core *core, uint64_t now_us, struct flight *flight);
void flight_replied(struct core *core, uint64_t now_us, struct flight *flight, uint64_t op,
                    const struct core_reply *reply);
void flight_loaded(struct core *core, uint64_t now_us, struct flight *flight,
                   const struct core_loaded *loaded);
void flight_woken(struct core *core, uint64_t now_us, struct flight *flight, bool gone);
/* It waits, for the lease with this tag. */
bool flight_awaits(const struct flight *flight, const char *lease_tag);
/* Only if flight_awaits(). */
void flight_pushed(struct core *core, uint64_t now_us, struct flight *flight,
                   const struct core_pushed *pushed);
void flight_resync(struct core *core, uint64_t now_us, struct flight *flight);
void flight_alarm(struct core *core, uint64_t now_us, struct flight *flight);
void flight_close(struct core *core, uint64_t now_us, struct flight *flight);
/* A new flight, for a refresh that nobody waits for; filler as in core_refresh(). */
void flight_refresh(struct core *core, uint64_t now_us, struct flight *flight, const char *filler);
/* This waiter's soft limit, or his hard one, is over. */
void flight_soft_limit(struct core *core, uint64_t now_us, struct flight *flight, struct core_waiter *waiter);
void flight_hard_limit(struct core *core, uint64_t now_us, struct flight *flight, struct core_waiter *waiter);
/* A worker is free for it. */
void flight_start_load(struct core *core, uint64_t now_us, struct flight *flight);

/* ---- loads.c: the bulkhead ---- */

/* Now it is also asked for alone: it leaves those that are asked for together, if its new share has a place for it. */
void loads_single_out(struct core *core, struct flight *flight);
/* A place of its share, among workers and queue, taken before anything that may lead to a load. False: full. */
bool loads_take_place(struct core *core, struct flight *flight);
void loads_give_place(struct core *core, struct flight *flight);
void loads_enqueue(struct core *core, struct flight *flight);
/* Somebody waits for a queued flight that was a refresh nobody waited for: from here on it is a user's. */
void loads_raise(struct core *core, struct flight *flight);
/* The refresh of this share that has queued for the shortest time; NULL: none is queued. */
struct flight *loads_last_refresh(const struct core *core, enum share share);
/* Queries that workers are free for, and that only wait for permits. */
uint32_t loads_wanted(const struct core *core);
/* Those of them that somebody waits for, as if no refresh were queued. */
uint32_t loads_wanted_by_users(const struct core *core);
void loads_dequeue(struct core *core, struct flight *flight);
/* Starts what can be started; flights that gather only when the turn is over in which they were queued. Called at the
 * end of every event. */
void loads_pump(struct core *core, uint64_t now_us, bool turn_over);
/* A waiter of a load whose loader waits in this flight. The load is there for as long as its loader runs. */
void loads_block(struct core *core, struct flight *flight, struct core_waiter *waiter);
void loads_unblock(struct core *core, struct flight *flight, const struct core_waiter *waiter);
/* A load that waits in this flight and whose thread is free to run its load; NULL: none. */
struct load *loads_lender(const struct core *core, const struct flight *flight);
/* What this flight waits for waits for that load: who waited for the flight in it would wait for himself. */
bool loads_circle(const struct core *core, const struct flight *flight, uint64_t parent_load);
/* NULL: no memory. The caller has a place or a lender, and emits CORE_LOAD. */
struct load *loads_new(struct core *core, struct flight *flight, uint64_t deadline_us);
struct load *loads_find(const struct core *core, uint64_t id);
/* Gives the query's permit back with its last load. */
void loads_free(struct core *core, uint64_t now_us, struct load *load);
void loads_cancel(struct core *core, struct load *load, bool unwanted);
/* A load of this key runs under a live lease. */
bool loads_runs_key(const struct core *core, const struct core_key *key);

#endif
