/* SPDX-License-Identifier: MIT */
/*
 * flight.h - one key of one process while it is looked up, waited for, loaded and stored; and its waiters.
 * Private to the room. flight.c has the life of a flight as a diagram.
 */
#pragma once

#include "core_state.h"
#include "near.h"
#include "stale.h"

enum flight_state {
    FLIGHT_NEW,       /* made by the get that joins it next */
    FLIGHT_ACQUIRING, /* acquire sent: cached, leased, busy or failed? */
    FLIGHT_WAITING,   /* another process has the lease: wake-up or poll */
    FLIGHT_QUEUED,    /* may load, but all workers are busy */
    FLIGHT_LOADING,   /* the loader runs */
    FLIGHT_FILLING,   /* fill sent */
    FLIGHT_RELEASING, /* release sent, every waiter answered; the next one starts a new round behind it */
    FLIGHT_COOLING,   /* a load without a lease failed: none is tried before cool_until_us */
    FLIGHT_RESTING,   /* a refresh runs elsewhere or has failed: until the alarm, none is tried */
    FLIGHT_ENDED,     /* out of the tables; freed at the next event */
};
enum { FLIGHT_STATES = FLIGHT_ENDED + 1 };

struct flight {
    /* identity */
    struct core *core;
    struct flight *prev, *next; /* all flights of the core; `next` also links the dead */
    UT_hash_handle by_key;      /* only while joinable */
    UT_hash_handle by_id;
    struct core_key key; /* owned, in the same allocation */
    const struct guard_policy *policy;
    unsigned kind;
    uint64_t id;
    bool joinable;
    bool passing;  /* for one waiter; see pass.c */
    bool unlisted; /* a table had no memory for it */

    /* waiters, oldest first */
    struct core_waiter *first;
    uint32_t round;          /* results delivered so far */
    uint32_t nested_waiters; /* of them nested */
    uint32_t users;          /* of them those that do not only refresh */

    /* where it stands */
    enum flight_state state;
    struct alarm alarm;
    uint64_t op, renew_op, peek_op; /* outstanding commands; 0: none */
    uint16_t op_count;
    bool latch;                         /* a wake-up came while the acquire was under way */
    enum core_lookup lookup;            /* of the last acquire */
    char refused[TOKEN_UUID_BYTES + 1]; /* head of an unusable entry to replace; "": none */
    struct tags_clock born;             /* the tags' clock before the last acquire was answered */
    struct revalidation revalidation;

    /* refreshing a value that is there */
    bool background;                   /* made, or continued, for a background refresh */
    bool of_kept;                      /* of what is kept: it needs no lease */
    char wanted[TOKEN_UUID_BYTES + 1]; /* of an early one: the filler of the value; "": of a stale value */
    bool refreshing;                   /* a value is there: load on even without waiters */
    struct core_origin *origin;        /* to be given back: what that load goes back to; NULL: nothing */
    bool peeked_in_vain;               /* it was there */
    struct held held;
    struct value *previous; /* owned: the value that is refreshed */
    char previous_filler[TOKEN_UUID_BYTES + 1];
    struct entry_life previous_life;

    /* waiting for another process */
    uint32_t polls, wakes, unknowns;
    uint64_t waiting_since_us;          /* first BUSY of this wait; 0: none */
    char busy_tag[TOKEN_TAG_BYTES + 1]; /* of the lease that the last lookup found; "": not known */

    /* stamps: a result goes only to waiters that joined before what made it was sent */
    uint64_t lookup_stamp, peek_stamp, query_stamp, fill_stamp;
    uint64_t told_stamp;    /* of the last lookup that was answered */
    uint64_t wait_stamp;    /* of the lookup that busy_tag is of */
    uint64_t busy_stamp;    /* a waiter that joined before it waited for the fleet */
    uint64_t starter_stamp; /* its `joined` */

    /* the lease */
    char token[TOKEN_SIZE];
    char prev_token[TOKEN_SIZE]; /* an attempt of ours that may still hold the lease; "": none */
    bool leased;
    bool lost;                       /* while the load ran */
    bool abandoned;                  /* the last load of the key was, and none has begun since */
    bool spared;                     /* its load is not abandoned: the one before was */
    uint64_t sent_us, renew_sent_us; /* of the acquire, of the last renewal */
    uint64_t valid_until_us, hold_until_us, renew_at_us;

    enum lane lane;        /* loads.h */
    bool single;           /* a waiter of a request for this key alone has joined */
    bool batched;          /* waits for others of its request and is loaded in a batch; only in LANE_MANY */
    bool joint;            /* queued: its query may be that of others, too */
    uint64_t half;         /* of a query that was halved: is joined only by others of it; 0: of none */
    struct halves *halves; /* what that is part of; NULL: nothing, or its load has ended */
    bool acquire_counted;  /* in loads.pending_acquires */
    uint64_t acquire_turn; /* of its last acquire */
    uint64_t queued_turn;
    uint32_t place_parts;    /* counted in loads.parts_used; 0: it has no place */
    bool counted_apart;      /* in loads.queued_apart */
    uint32_t query_parts;    /* in loads.queued_parts */
    uint32_t expected_parts; /* in loads.expected_parts */
    enum queue queue;        /* where it is; loads_requeue() sees to it that it belongs there */
    struct flight *queue_prev, *queue_next;

    /* the load, its fill, its release */
    struct load *load;
    struct near_lookup begun; /* noted when its query began */
    uint64_t load_id;         /* of the last one, or of the one that the lease is for; 0: none */
    struct value *value;      /* owned: the result while it is being filled */
    bool absent;
    bool unchanged;         /* the value is the previous one */
    bool mark;              /* a mark is stored in its place */
    bool shares;            /* the release says what was loaded */
    struct value *shared;   /* owned: that, until the next event */
    struct entry_life life; /* as the loader has said */
    uint64_t load_us;
    uint32_t fresh_ms, stale_ms; /* fresh_ms jittered already */
    uint32_t stores;             /* attempts of the fill or release, but for those that met moving keys */
    uint32_t movings;            /* those */
    uint64_t send_again_us;      /* after one: when it is sent again; 0: it is under way */
    bool fill_told;              /* the result was answered while its fill goes on */
    enum guard_failure failure;  /* RELEASING, COOLING */
    bool too_big;
    uint32_t failure_ms;
    uint64_t cool_until_us;
};

/* To count in. */
static inline struct guard_stats *flight_counts(const struct flight *flight)
{
    return core_counts(flight->core, flight->kind);
}

/* ---- events, for core.c ---- */

/* Into its list of waiters, and out of it. Whoever takes one in sees to the queue when what follows from it is
 * done. */
void flight_list(struct flight *flight, struct core_waiter *waiter);
void flight_unlist(struct core_waiter *waiter);
/* The waiter is in its list. refused: it would wait for itself (nested.h). */
void flight_joined(struct core_waiter *waiter, bool refused);
/* A waiter of it was answered ahead of its result. */
void flight_left(struct flight *flight);
/* A new flight's background refresh; filler as in core_refresh(). */
void flight_refresh(struct flight *flight, const char *filler);
void flight_replied(struct flight *flight, uint64_t op, const struct core_reply *reply);
void flight_woken(struct flight *flight, bool gone);
/* It waits for the lease with this tag. For what is shared also while it looks again: there is nothing to find
 * then. */
bool flight_awaits(const struct flight *flight, const char *lease_tag, bool shared);
/* Only if flight_awaits(). */
void flight_pushed(struct flight *flight, const struct core_reply *pushed);
void flight_resync(struct flight *flight);
void flight_alarm(struct flight *flight);
void flight_close(struct flight *flight);

/* ---- for lease.c and stale.c ---- */

void flight_move(struct flight *flight, enum flight_state state);
void flight_end(struct flight *flight);
uint64_t flight_next_op(struct flight *flight, unsigned shard);
/* For a command that does not ask the breaker. */
uint64_t flight_next_op_at_owner(struct flight *flight);
struct core_action flight_action(const struct flight *flight, enum core_action_kind kind);
/* The last token may hold the lease, or get it later: the next acquire names it, so that the script removes it. */
void flight_keep_token(struct flight *flight);
/* It has a lease or needs none: loads on the thread of a load that waits for it, else when a worker is free. */
void flight_queue_load(struct flight *flight);
/* Redis cannot be asked, or its answer helps none of the waiters: what is kept answers those that it may. The others
 * load without a lease: who joined before the query gets the result, and nothing is stored. */
void flight_bypass(struct flight *flight);
/* A background load likewise. It has its place. */
void flight_load_kept(struct flight *flight);
/* True: this waiter has been answered with what is kept. */
bool flight_answer_kept(struct core_waiter *waiter);
/* A place for whatever leads to a load: if it has waiters and there is none, that of a queued refresh. */
bool flight_take_place(struct flight *flight);
/* Sends an acquire, or goes without Redis. */
void flight_acquire(struct flight *flight);
/* An acquire was not answered, or too late. */
void flight_reply_unanswered(struct flight *flight);
/* The reply to an acquire whose waiters have left: gives back what it may have brought. */
void flight_reply_unwanted(struct flight *flight, const struct core_reply *reply);
/* Waits for another process: a wake-up, the poll; pttl_ms and lease_tag of its lease, if known. */
void flight_wait(struct flight *flight, uint32_t pttl_ms, const char *lease_tag);
/* A round is over: the waiters left start another one, or the flight ends. */
void flight_settle(struct flight *flight);
/* The same when the round brought nothing. */
void flight_next_round(struct flight *flight);

/* ---- results ---- */

/* To the waiters that joined before this stamp; UINT64_MAX: to all. */
void flight_deliver(struct flight *flight, uint64_t stamp, struct guard_result result);
/* Of the load with this id. */
struct guard_result flight_failure_result(enum guard_source source, enum guard_failure failure,
                                          uint32_t retry_ms, uint64_t load);
/* There is no place for a load. */
void flight_shed(struct flight *flight);
struct guard_result flight_cached_result(const struct core_reply *reply, enum guard_source source);

/* ---- watch.c: the events of guard.h that are the core's to know. If nobody listens nothing is done. ---- */

/* Its load begins. */
void watch_load_started(const struct flight *flight);
/* It has come back, or is waited for no more; its flight may have given it up. */
void watch_load_ended(const struct core *core, const struct load *load, const struct core_loaded *loaded);
/* LEASE_LOST; FILL_REFUSED: what was loaded is not in the cache; SHED: so many waiters, for want of a place for a
 * load. */
void watch_flight(const struct flight *flight, enum guard_event_what what, uint64_t count);
void watch_invalidated(const struct core *core, const struct core_invalidation *invalidation);

/* ---- pass.c: loads whose value is for one request alone ---- */

/* Every waiter of this flight leaves it, for one of its own. */
void pass_part(struct flight *flight);
/* Its load has said so: what it brought is in flight->value, its keep in flight->life. */
void pass_loaded(struct flight *flight, const struct guard_keep *keep);
