/* SPDX-License-Identifier: MIT */
/*
 * core.h - everything that decides. A pure state machine: events in, actions out.
 *
 * Events are calls of the functions below; each takes the time. Between two events the owner (the guard's thread, or
 * a simulator) drains core_next_action() and performs what it finds, and core_next_answer() and reports what it
 * finds. Every action that carries an `op` is answered by exactly one core_replied(), every CORE_LOAD by exactly one
 * core_loaded(), whatever happens, unless it was deferred; never from inside the draining.
 *
 * No I/O, no clock, no threads; chance comes from the seed and from make_token. Memory is taken only where
 * a get or an invalidation is accepted, and both can be refused; where waiters part because their loads pass, each of
 * which may be answered NO_MEMORY; and where a confirmed invalidation is remembered, which does without.
 *
 * Time     uint64_t now_us, monotonic, the same clock for all events of one core.
 * Threads  none: one owner. Of this room, near.h and keep.h alone are for any thread.
 * Reading  this header, flight.c, lease.c, stale.c, loads.h, core.c; the rest stands by itself.
 *
 * The words of this project, each with one meaning:
 *
 *   request             one call of the application, for one key or for many
 *   kind                what the application has registered: a loader with its policy
 *   policy              the times and limits of a kind
 *   hit                 an answer that was there: in the near cache, or found by one lookup
 *   lookup              reading what Redis has of a key
 *   near cache          values of this process, which answer without a lookup
 *   kept                said of what this process has and answers with only while Redis cannot be asked
 *   fresh               younger than its policy's fresh_ms: answers every request
 *   stale               older, but still there for stale_ms more: may answer while it is refreshed
 *   flight              one key of one process while it is looked up, waited for, loaded and stored
 *   waiter              the place of a request in a flight
 *   lease               the right to load and store a key, of one process in the fleet, for a time; a token in Redis
 *   leader              the process that holds the lease of a key; the others of the fleet wait
 *   load                one run of the application's loader for one key
 *   nested              said of a load that another load waits for, which is its outer one
 *   abandon             to cancel a load that nobody waits for any more
 *   defer               to let the loader return before its load is finished: no thread is held
 *   fill                storing what was loaded; refused without the lease
 *   bypass              a load without a lease: it answers and is not stored
 *   peek                a lookup that must not take the lease
 *   poll                the lookup of a flight that waits, at intervals
 *   revalidate          to want a value that is loaded from now on, whatever is there
 *   wake-up             a message that a key was filled, released or invalidated; a hint that may be lost
 *   invalidate          removing a value and voiding its lease, so that no load that was running is stored
 *   expire              the same, but the value stays for its stale time; of a tag: those that have it
 *   background refresh  a load for no waiter, after a stale hit
 *   early refresh       the same after a fresh hit, drawn by lot shortly before it would be stale
 *   life                how long an entry is fresh, and then stale: the policy's, or what its loader has said
 *   keep                what a loader says is to become of its answer: stored, shared or passed
 *   share               to answer all that wait for a load, in the fleet, with what is not stored
 *   starter             the waiter whose asker the query has: the oldest of its flight when it began, or see
 *                       core_starts()
 *   asker               what a request gives to the load that it starts, and to no other
 *   pass                to answer the starter alone: then each request for the key has a load of its own
 *   mark                an entry that says so of its key, for a time
 *   tag                 a name of many entries, which invalidates all of them at once
 *   tag epoch           the point of the tags' clock at which a tag was last invalidated
 *   permit              the right to run one query; the fleet shares a fixed number of them
 *   batch               loads that are one query
 *   shard               one master's part of the keys; with one master there is one, 0
 *   moving              said of keys that go from one master to another: for that time some commands do not run
 *   reign               the time of one master of a shard
 *   replay              sending confirmed invalidations again, to the next master, which may have missed them
 */
#pragma once

#include "../base/alarm.h"
#include "../base/key.h"
#include "../base/table.h"
#include "../base/tags.h"
#include "../base/value.h"
#include "../guard.h"
#include "keep.h"

enum {
    /* "<uuid 36> <tag 16> <lease_ms 7>" and up to 66 bytes for people; compared whole */
    TOKEN_SIZE = 128,
    TOKEN_UUID_BYTES = 36,
    TOKEN_TAG_AT = 37,
    TOKEN_TAG_BYTES = 16,
    /* a process that sends no acquire for so long has left the queue for permits */
    PERMIT_WAIT_MS = 2000,
    CORE_SHARDS_MAX = 256,
    CORE_KINDS_MAX = GUARD_KINDS_MAX,
    CORE_NO_KIND = CORE_KINDS_MAX,
};

/* Names the permits of a namespace as an application key names its entry: csg1:{namespace:sem:load}:p */
#define PERMIT_KEY "sem:load"
/* Likewise the clock of the tags and all their epochs: csg1:{namespace:tags} */
#define TAGS_KEY "tags"

struct core;
struct flight;
struct near;

struct core_config {
    enum guard_mode mode; /* not SHADOW: that is two cores */
    bool without_redis;   /* every get loads at once, no command is sent */
    uint32_t max_loads, load_queue, max_waiters;
    uint32_t load_threads; /* loads at a time that need a load thread, and are not deferred; 0: max_loads */
    uint32_t max_value_bytes;
    uint32_t max_value_ms;       /* what a loader says is cut to it */
    uint32_t permits, permit_ms; /* of the fleet; 0: no limit. Mode FLEET only */
    uint8_t hash_key[16];
    uint64_t seed;
    /*
     * The shard of what stands in {namespace:...}: an encoded key, TAGS_KEY or PERMIT_KEY; below CORE_SHARDS_MAX.
     * invalidated: of its invalidation, which may go to names of another namespace. Asked whenever a command is to be
     * sent, and may say something else each time. NULL: there is one shard, 0.
     */
    unsigned (*shard_of)(void *context, bool invalidated, const char *encoded, size_t encoded_bytes);
    void *shard_context;
    /* The kind that a policy is of, below `kinds`: what is counted is counted by kind. NULL: there is one, 0. */
    unsigned (*kind_of)(void *context, const struct guard_policy *policy);
    void *kind_context;
    uint32_t kinds; /* 0 stands for 1 */
    /*
     * Hears at once what happens to loads, leases and invalidations; calls no function of the core. NULL: of no
     * interest. `event` is lent until it returns; `kind` stands for event->kind, which is NULL: CORE_NO_KIND, or as
     * kind_of() says.
     */
    void (*tell)(void *context, const struct guard_event *event, unsigned kind);
    void *tell_context;
    /* Keeps what is loaded, and answers in place of a load where Redis could not be asked (keep.h). Lent; NULL:
     * none. Its clock is the core's. */
    struct near *near;
    /* The newest 4096 confirmed invalidations are remembered, and sent again when core_reign() tells of another
     * master. */
    bool replay;
    /* A new unguessable token for one acquire attempt or one permit, in the layout above. Must not fail. */
    void (*make_token)(void *context, uint32_t lease_ms, char token[TOKEN_SIZE]);
    void *token_context;
};

/* NULL: no memory. */
struct core *core_new(const struct core_config *config);
/* Only when core_idle(). Accepts NULL in *core. */
void core_free(struct core **core);

/* ---- waiters ---- */

/* A key as the core needs it; both strings live as long as the call. */
struct core_key {
    const char *plain; /* the application's */
    size_t plain_bytes;
    const char *encoded; /* key_encode() of it */
    size_t encoded_bytes;
};

/*
 * What the owner knows of a request whose answer wants a load behind it. Embedded in something of the owner's; the
 * core's from when it is given until core_next_spent() returns it: once its load has begun, or none will.
 */
struct core_origin {
    struct core_origin *next; /* the core's */
};

/* One accepted get; embedded in the owner's request and the core's until it is answered. */
struct core_waiter {
    /* set by the owner */
    struct core_origin
        *origin;            /* NULL: none, or the core has taken it: the flight loads on without waiters */
    bool lends;             /* its thread waits for the answer, and runs the load that it starts */
    uint64_t start_us;      /* on the core's clock: when the request was made */
    uint64_t parent_load;   /* the load whose loader made the request; 0: none */
    bool of_many;           /* of a request for many: waits for the others, to be loaded in a batch */
    bool passes;            /* a lookup of this get has found the mark of a pass; the core sets it, too */
    bool lookup_unanswered; /* Redis did not answer a lookup of this get in time */
    bool lookup_answered;   /* it has answered one: nothing that is kept answers this get */
    bool revalidates;       /* only a load that begins after it answers it */
    bool refreshes;         /* for no user: its load is queued behind those of users */
    /* head of an entry that a lookup of this get found out of date; "": none */
    char refused[TOKEN_UUID_BYTES + 1];

    /* the core's */
    struct core_waiter *prev, *next; /* in the flight's list, oldest first; then among the answered */
    struct flight *flight;           /* NULL once answered */
    struct alarm deadline;
    uint64_t joined;      /* stamp: what is sent after it is fresh enough for this waiter */
    uint64_t alone_us;    /* with a parent load: from here on it waits for no other process */
    uint64_t deadline_us; /* the hard one; the alarm rings at the soft one first */
    bool impatient;       /* past its soft limit */
    bool blocks;          /* in the list of its parent load, by the next two */
    struct core_waiter *nested_prev, *nested_next;
    uint32_t first_round;       /* of the flight when it joined */
    struct guard_result result; /* once answered; one reference to result.value is the owner's then */
};

/* OK, SHED (max_waiters), CLOSING, NO_MEMORY. `policy` lives as long as the core. */
enum guard_status core_get(struct core *core, uint64_t now_us, const struct core_key *key,
                           const struct guard_policy *policy, struct core_waiter *waiter,
                           uint64_t deadline_us);
/* Answers it with CANCELLED unless it is answered already. */
void core_cancel(struct core *core, uint64_t now_us, struct core_waiter *waiter);
/* The next answered waiter, oldest first; it is the owner's again. */
struct core_waiter *core_next_answer(struct core *core);

/* A hit was answered that calls for a background refresh. */
struct core_refresh {
    struct core_key key;
    const struct guard_policy *policy; /* as in core_get() */
    const char *filler; /* an early one, of the fresh value that this stored; NULL: of a stale value */
    bool of_many;       /* as in core_waiter */
    bool of_kept; /* kept, it answered in place of Redis: loaded without a lease if that is still away */
    struct core_origin *origin; /* given; NULL: none */
};
/* Nothing comes of it if the key has a flight already, there is no place for a load, or Redis is away. */
void core_refresh(struct core *core, uint64_t now_us, const struct core_refresh *refresh);
/* An origin that is the owner's again; after the actions, which may point to it. NULL: there is none. */
struct core_origin *core_next_spent(struct core *core);

/* ---- invalidations ---- */

struct core_invalidation {
    struct core_invalidation *prev, *next;
    UT_hash_handle by_id;
    bool unlisted; /* no memory for the table */
    uint64_t id;
    struct core_key key;      /* lent until it is answered */
    bool of_tag;              /* set by the owner: the key is a tag */
    bool expires;             /* likewise: the value is stale from then on, instead of gone */
    bool by_delete;           /* the attempt under way */
    uint8_t movings;          /* attempts in a row that met a moving slot */
    struct alarm retry;       /* the next attempt, or the deadline while one is under way */
    uint64_t op, deadline_us; /* op 0: none under way */
    uint64_t start_us;
    uint16_t attempts;
    struct guard_invalidated result; /* once answered */
};

/* OK, CLOSING, NO_MEMORY. */
enum guard_status core_invalidate(struct core *core, uint64_t now_us, struct core_invalidation *invalidation);
struct core_invalidation *core_next_invalidated(struct core *core);

/* ---- actions ---- */

enum core_action_kind {
    CORE_ACQUIRE, /* script acquire: key, token (may be "" to a peek), prev, refused, lease_ms, lookup, wanted,
                     waits */
    CORE_RENEW,   /* script renew: key, token, lease_ms, asks_wait */
    CORE_FILL,    /* script fill: key, token, value, absent, mark, load_us, life, fresh_ms, stale_ms, born */
    CORE_TOUCH,   /* script touch: as FILL, with the value that wanted stands for */
    CORE_RELEASE, /* script release: key, token, failure and failure_ms (0: none), too_big, abandoned_ms; shares:
                     as FILL */
    CORE_INVALIDATE,     /* script invalidate: key.encoded, expires; of_tag: tag_invalidate; by_delete */
    CORE_PERMIT_ACQUIRE, /* script permit_acquire: token, waiter, background, more */
    CORE_PERMIT_RENEW,   /* script permit_renew: token */
    CORE_PERMIT_RELEASE, /* script permit_release: token ("": leaves the queue), waiter */
    CORE_LOAD,           /* run the loader: key, policy, load, deadline_us, previous, starter */
    CORE_CANCEL,         /* tell the loader that its result is no longer wanted: load */
    CORE_FORGET, /* a deferred load has not been finished at its hold limit: it is over, whatever it says later */
};

enum core_lookup {
    LOOKUP_NORMAL = 'n',
    LOOKUP_NO_STALE = 'x',
    LOOKUP_EARLY = 'r',      /* take the lease over the fresh value `wanted` */
    LOOKUP_PEEK = 'p',       /* look, but never take the lease */
    LOOKUP_REVALIDATE = 'v', /* take the lease over any value but a fresh one that is not of `names_seen` */
    LOOKUP_REVALIDATE_PEEK = 'w',
};

/* What its sender will wait for if another process has the lease: the process that fills learns of it. */
enum core_wait {
    WAIT_NOT = 0,
    WAIT_BUSY = 'b',    /* a missing value */
    WAIT_REFRESH = 's', /* that, or the refresh of a stale one */
};

/* What it points to lives until the next event. */
struct core_action {
    enum core_action_kind kind;
    uint64_t op; /* names the flight's attempt; 0 for LOAD and CANCEL */
    struct core_key key;
    const char *token, *prev, *refused;
    const char *wanted;     /* ACQUIRE (EARLY), TOUCH: the filler of the entry that is meant */
    const char *names_seen; /* ACQUIRE (REVALIDATE): as core_reply's; "": no value counts */
    enum core_lookup lookup;
    enum core_wait waits; /* ACQUIRE */
    bool asks_wait;       /* RENEW: whether another process waits */
    uint32_t
        abandoned_ms; /* RELEASE: for so long the next lease says that this load was abandoned; 0: it was not */
    uint32_t lease_ms;
    const struct value *value; /* FILL: of an absent one NULL, or no more than its tags; TOUCH: the old one */
    bool absent;
    bool mark;              /* of a pass: no more of `value` than its tags */
    bool shares;            /* RELEASE: what others that wait for this lease may have */
    struct entry_life life; /* as its loader has said */
    struct tags_clock born; /* FILL, TOUCH, shares: known if value has tags */
    bool of_tag, expires;
    /* INVALIDATE of a key that is moving, where no script runs: DEL lease, and once that is answered DEL value, each
     * at the master that has it, then the script's message. Answered like the script. */
    bool by_delete;
    const struct value *previous; /* LOAD: the value it would replace; NULL: none to compare with */
    uint64_t load_us;
    uint32_t fresh_ms, stale_ms; /* FILL: jittered already */
    enum guard_failure failure;
    uint32_t failure_ms;
    bool too_big;
    const struct guard_policy *policy;
    uint64_t load; /* LOAD, CANCEL: guard_load_id(); RELEASE with a failure: of the load that failed */
    uint64_t deadline_us;
    struct core_waiter *starter;      /* LOAD: until the answers are fetched; NULL: no waiter needs it */
    const struct core_origin *origin; /* LOAD without a starter: what it goes back to; NULL: not known */
    uint64_t lender;    /* LOAD: the load that waits and whose thread runs this one; 0: any worker's */
    uint32_t depth;     /* LOAD: how many loads it is nested in */
    uint64_t batch;     /* LOAD: those with the same one are one query, given to one worker; 0: alone */
    const char *permit; /* LOAD: the token of the permit that its query has; NULL: none */
    const char *waiter; /* PERMIT_ACQUIRE, PERMIT_RELEASE: this process in the queue */
    bool background;    /* PERMIT_ACQUIRE: only background refreshes are queued */
    bool more;          /* PERMIT_ACQUIRE: not the last one that is wanted now */
};

bool core_next_action(struct core *core, struct core_action *out);
/* LOAD: this waiter, in the flight of action->starter, is its starter instead: what is passed is for no other. */
void core_starts(struct core *core, const struct core_action *action, const struct core_waiter *starter);
/* This one could not be performed. Needs no memory, for that may be why. */
void core_unperformed(struct core *core, const struct core_action *action);
/* One event: such a command is answered UNSENT, such a load with NO_MEMORY. Once no action is left to take, because
 * what they point to lives until the next event. False: there is none to tell. */
bool core_tell_unperformed(struct core *core, uint64_t now_us);

/* ---- what came back ---- */

enum core_reply_kind {
    /* to ACQUIRE */
    REPLY_FRESH,  /* value or absent or mark, age_ms, left_ms, life */
    REPLY_STALE,  /* likewise, but no mark; and refresher */
    REPLY_LEASE,  /* granted */
    REPLY_BUSY,   /* pttl_ms and lease_tag of another process's lease */
    REPLY_FAILED, /* failure or too_big, pttl_ms */
    REPLY_FREE,   /* to a peek: nothing there and no lease */
    /* to the others */
    REPLY_CODE, /* code, as the script returned it, or as it would have (by_delete); RENEWED_AWAITED of a renewal */
    /* to any */
    REPLY_REFUSED, /* Redis answered with an error: nothing ran */
    REPLY_UNSENT,  /* it never left: nothing ran */
    REPLY_UNKNOWN, /* it may have run, or may still run later */
    REPLY_MOVING,  /* its keys are moving: nothing ran, and Redis is not to blame */
};

/* Which process refreshes a stale value; COOLING: none for a while, after a failure. */
enum core_refresher { REFRESH_COOLING = -1, REFRESH_OTHERS = 0, REFRESH_OURS = 1 };

/* To a RENEW that asks: another process waits. */
enum { RENEWED_AWAITED = 2 };

struct core_reply {
    enum core_reply_kind kind;
    int64_t code;
    struct value *value; /* lent */
    bool absent, mark;
    struct entry_life life;
    bool
        damaged; /* FRESH, STALE: something is there, but not a sound entry of this key; or it lacks its meta */
    /* FRESH, STALE: older than an invalidation of one of its tags. To a FILL or TOUCH of a value with tags: one was
     * invalidated before it was sent, or that is not known. The owner has looked: the core sees no
     * value unchecked. */
    bool outdated;
    bool blameless;          /* UNKNOWN: this key's master has answered; another, of the tags, has not */
    struct tags_clock clock; /* to ACQUIRE: the tags' clock, read before it was answered */
    const char *tags;        /* for the owner: what is to be checked, lent; when that was born */
    size_t tags_bytes;
    struct tags_clock born;
    const char *head; /* FRESH, STALE: its first TOKEN_UUID_BYTES, the filler; lent; pushed: NULL */
    /* BUSY, to a REVALIDATE: the UUIDs of the value's filler (or blanks) and of the lease; lent; NULL: not known */
    const char *names_seen;
    enum core_refresher refresher;
    /* TOKEN_TAG_BYTES of the lease: BUSY; STALE and OTHERS; pushed: it was filled under. Lent; NULL: not known */
    const char *lease_tag;
    uint32_t age_ms, left_ms;
    uint32_t pttl_ms; /* BUSY: of the lease; FAILED: of the failure; STALE: of the value */
    uint32_t cool_ms; /* STALE and COOLING: for how long */
    uint64_t load_us; /* FRESH: how long its load took */
    bool abandoned;   /* LEASE: the load before was */
    enum guard_failure failure;
    bool too_big;
    uint64_t load; /* FAILED: the load that did; pushed: that made it; 0: not known */
    bool shared;   /* pushed: it is stored nowhere, and left_ms means nothing */
};

void core_replied(struct core *core, uint64_t now_us, uint64_t op, const struct core_reply *reply);

/* UNCHANGED: what the action's `previous` says; only if there was one. NO_MEMORY: this process had no thread for it
 * or no memory for what it brought, which says nothing about the source. */
enum core_load_outcome { LOAD_OK, LOAD_ABSENT, LOAD_FAILED, LOAD_UNCHANGED, LOAD_NO_MEMORY };

struct core_loaded {
    enum core_load_outcome outcome;
    struct value *value; /* LOAD_OK; LOAD_ABSENT: NULL, or no more than its tags; lent */
    enum guard_failure failure;
    uint64_t load_us;
    bool unwanted; /* the owner has told it to stop: a failure says nothing about the source */
    bool as_one;   /* FAILED, and so has every load of its batch: by what was asked, REJECTED or INTERNAL */
    const struct guard_keep *keep; /* as the loader has said; lent; NULL: nothing */
};

/* A load whose thread is lent comes back after the one that it is lent to. One that was deferred may be over for the
 * core already: then nothing happens. */
void core_loaded(struct core *core, uint64_t now_us, uint64_t load, const struct core_loaded *loaded);
/* Its loader has returned, and the load will be finished later: its thread is free. Told after everything that is
 * over of its batch, if it was in one. Still answered by core_loaded(), unless CORE_FORGET or the end of the core
 * comes first. */
void core_deferred(struct core *core, uint64_t now_us, uint64_t load);

/*
 * ---- batches ----
 *
 * Keys of a request for many, of a policy with a batch loader, are loaded in a batch if they get their leases at the
 * same time. Such a load does not start before the turn of the owner's loop is over in which it was queued, nor
 * while the answer to an acquire is outstanding that was sent in the same turn as its own: those are one write to
 * each master, so the answers are about to come. One that does not come is an answer, too, once the limit of a
 * command is over; where the master is known to be away or the keys are moving, at once. That is all it waits for;
 * never for a lease that another process holds, nor for a load: so no two batches can wait for each other. No other
 * load waits for the end of a turn, and none waits for it twice. Other loads of such a policy are in a batch if they
 * had to wait for a worker or a permit (loads.h): nothing waits in order to be in one.
 */
/* Something happened in this turn that makes its end worth an event. */
bool core_turn_due(const struct core *core);
/* All that was to be read has been read. */
void core_turn_over(struct core *core, uint64_t now_us);

/* ---- hints and time ---- */

/* Something happened to this key: a fill, a release (gone = false) or an invalidation (gone = true). */
void core_woken(struct core *core, uint64_t now_us, const char *encoded, size_t encoded_bytes, bool gone);
/*
 * The same of a fill or release whose message brought what was stored or is shared, as if it had been found FRESH. A
 * flight that waits, and whose last lookup found the lease with this tag, answers the waiters with it that joined
 * before that lookup was sent; for all others it is a wake-up like any other.
 */
void core_pushed(struct core *core, uint64_t now_us, const char *encoded, size_t encoded_bytes,
                 const struct core_reply *pushed);
/* The key of the flight that waits for the lease with this tag, lent until the next event; NULL: none does, and
 * what its fill, or its release (shared), has brought need not be read. */
const struct core_key *core_awaits(const struct core *core, const char *encoded, size_t encoded_bytes,
                                   const char *lease_tag, bool shared);
/* A load permit is free for the process of this name (the `waiter` of its actions). */
void core_permit_freed(struct core *core, uint64_t now_us, const char *waiter, size_t waiter_bytes);
/* Messages may have been lost: every flight that waits for one looks again, spread over 100 ms. */
void core_resync(struct core *core, uint64_t now_us);
/* The command connection to the master of this shard came up or went down. Frees nothing: an action may be under
 * way. */
void core_link(struct core *core, uint64_t now_us, unsigned shard, bool up);
/*
 * Another master of this shard was confirmed; shard_of() says so already. If the shard's number has stayed the same,
 * no reply of the new one has been told yet. What the one before it had confirmed within 30 s of its last answer is
 * sent again, spread over 200 ms: it may not have reached this one. So is what has moved from one shard to another
 * since it was confirmed. Once for each change. Frees nothing, either.
 */
void core_reign(struct core *core, uint64_t now_us, unsigned shard);
/* A loop has had a hit from this shard's master: where nothing else is asked, that is what closes its breaker. */
void core_heard(struct core *core, uint64_t now_us, unsigned shard);
/* No key is of this shard any more: what was known of its master is forgotten. The number may be used again. */
void core_shard_gone(struct core *core, unsigned shard);

/* When core_tick() is due next; UINT64_MAX: never. */
uint64_t core_next_us(const struct core *core);
void core_tick(struct core *core, uint64_t now_us);

/* ---- the end ---- */

/* From here on no deferred load is waited for: those that are, and those that are deferred later, are cancelled and
 * their waiters answered with CLOSING. */
void core_drain(struct core *core, uint64_t now_us);
/* Answers every waiter with CLOSING, cancels every load and releases every lease. Replies and loads that are not
 * deferred still come back; when they have, core_idle(). */
void core_close(struct core *core, uint64_t now_us);
bool core_has_waiters(const struct core *core);
/* Nothing is left that others could be waiting for: no load, no lease, no command under way for one. */
bool core_drained(const struct core *core);
bool core_idle(const struct core *core);

/* ---- numbers ---- */

/* All that the core counts; the others are 0. */
void core_stats(const struct core *core, struct guard_stats *out);
/* The parts that this is the sum of: what is of no kind, and what is of each. */
void core_stats_of_none(const struct core *core, struct guard_stats *out);
const struct guard_stats *core_stats_of(const struct core *core, unsigned kind);
/* The kinds whose part may have changed since the last call of this, bit by bit. */
uint64_t core_take_changed(struct core *core);
