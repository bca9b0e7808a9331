/* SPDX-License-Identifier: MIT */
/*
 * lock_core.h - everything that locks decide: one state machine for all kinds and all providers. Events in, actions
 * out.
 *
 * Events are calls of the functions below; each takes the time. Between two events the owner (the locks' thread, or a
 * simulator) drains lock_core_next_action() and performs what it finds; at the end of its turn, which may be several
 * events later, the three ..._next_...() that tell the application. Every action is answered by exactly one
 * lock_core_replied(), whatever happens; never from inside the draining. Only lock_core_tick() rings alarms: a
 * process that stood still passes on what has come meanwhile before it, so a reply counts however late it is read. A
 * reply, a link or a request judges the claim that it is about, and no other.
 *
 * A request is for some names. What stands at the provider under one token is a claim: a place in the queue, then a
 * hold. A request makes one claim for all its names if the provider takes several at once, otherwise one after the
 * other in the order of their encoded bytes, which lets no circle close. Names that its owner holds already make
 * none: their claims are shared. A granted request becomes a hold: the claims of its names.
 *
 *                         granted                    given back by its last hold
 *   o------> ASKING ------------------> HELD ----------------------------------------> GIVING --> over
 *            |    ^  told, poll,         |                                               ^  ^
 *    refused v    |  hint is over        | reply "not held", dropped, validity nearly    |  |
 *           WAITING --------------------------- over: LOST ------ given back, or over ---+  |
 *            | (and ASKING) cancel, deadline, close ----------------------------------------+
 *
 * A request makes its claim at once, or, while its owner waits for the same name with another request, when that one
 * is decided; a granted one is shared then. While the provider cannot be reached, what would be asked, renewed or
 * given back waits for the link.
 *
 * MUTEX, FAIR and WRITE ask for LOCK_ALL of LOCK_ALL units, READ for 1 of LOCK_ALL, PERMITS for `units` of `limit`;
 * only MUTEX overtakes. The provider grants by one rule: what others hold, what stands in front in the queue and what
 * is asked for fit into the limit.
 *
 * Rules (tests/README.md traces each to a test)
 *   L1  a claim has one token, sent again unchanged while its fate is open; giving it back ends the token, and
 *       `doubt` says that an unanswered take may still run
 *   L2  valid from the sending of the last confirmed take or renewal, for the lease less 1 % and 2 ms; a grant that
 *       has already run out on arrival is given back and requested again
 *   L3  renewed at a third of the lease, then every twelfth until answered; only "not held", a drop or the end of
 *       validity loses it
 *   L4  nothing renews a claim that is being given back
 *   L5  renewing and giving back name a token and touch no other
 *   L6  `lost` is told once, warn_us before the validity ends at the latest, never for a hold that was given back
 *   L7  a hint that comes while the claim is asking counts: it asks again at once. Behind it a poll: first in line
 *       every 20 to 500 ms (doubling, +-50 %), others every third of place_ms, all once the refusal's hint_ms is
 *       over; all within 100 ms after a resync
 *   L8  a waiter's place is renewed in time while this process runs; where the provider can (`stays`), by one action
 *       for all claims on a name that are not first. Its answer says which of them should ask; so it serves as their
 *       poll, after a resync, when the link comes up and, if they are more than 16, for a hint to all; and when a
 *       hint_ms of theirs is over, at the latest after place_ms, one of them asks for all. What is not answered is
 *       sent again after 20 to 500 ms, at most a sixth of place_ms (doubling, +-50 %)
 *   L9  a token carries its own lease
 *   L10 re-entrance is counted here; the provider sees one claim for an owner and a name
 *   L11 all kinds of a name count in the same units
 *   L12 several names: at once, or in one order
 *   L13 permits are claims like any others
 *
 * No I/O, no clock, no threads; chance comes from the seed and from make_token. Memory is taken where a request or an
 * owner is accepted, and for a claim that takes the place of another; without it the request is answered with
 * NO_MEMORY.
 *
 * Time     uint64_t now_us, the monotonic clock of clock.h.
 * Threads  none: one owner.
 */
#pragma once

#include "../base/alarm.h"
#include "../base/key.h"
#include "../base/table.h"
#include "../locks.h"
#include <stdatomic.h>

enum {
    LOCK_ALL = 1000000, /* the units of an exclusive claim, and the limit beside it */
    LOCK_UUID_BYTES = 36,
    LOCK_TOKEN_HEAD_BYTES = LOCK_UUID_BYTES + 1 + 7 + 1 + 7 + 1 + 8, /* "<uuid> <units> <limit> <lease_ms>" */
    LOCK_TOKEN_SIZE = 128, /* and behind a space "host:pid since", for people */
};

struct lock_core;
struct lock_claim;
struct lock_owner;

struct lock_core_config {
    /* the provider's */
    unsigned kinds;   /* 1u << enum guard_lock_kind */
    bool all_at_once; /* takes several names in one action */
    bool stays;       /* knows LOCK_STAY */
    /* the application's */
    uint32_t limit_ms, place_ms, warn_ms, max_requests;
    uint32_t once_ms; /* a request with wait_ms 0 is UNREACHABLE after this long without an answer */
    uint8_t hash_key[16];
    uint64_t seed;
    /* A new token in the layout above. Must not fail. */
    void (*make_token)(void *context, uint32_t units, uint32_t limit, uint32_t lease_ms,
                       char token[LOCK_TOKEN_SIZE]);
    void *token_context;
};

/* NULL: no memory. */
struct lock_core *lock_core_new(const struct lock_core_config *config);
/* After lock_core_close(), or unused. What is not given back yet is forgotten: it ends with its lease. Frees the
 * owners that are left. Accepts NULL in *core. */
void lock_core_free(struct lock_core **core);

/* NULL: no memory. */
struct lock_owner *lock_core_owner_new(struct lock_core *core);
/* Its holds are lost and given back (each is still to be given back by lock_core_give(), which frees it for the owner
 * of the memory); its requests are answered with CANCELLED. */
void lock_core_owner_free(struct lock_core *core, uint64_t now_us, struct lock_owner **owner);

/* ---- requests and holds ---- */

struct lock_name {
    const char *encoded; /* key_encode() of it; lives as long as its request and its hold */
    size_t bytes;
};

/* One hold's part in a claim. */
struct lock_use {
    struct lock_use *prev, *next; /* of the same claim */
    struct lock_claim *claim;
    struct lock_hold *hold;
};

/* What was granted; the memory is the owner's, made with the request. */
struct lock_hold {
    /* for the owner to read */
    /* The earliest of its claims, also after `lost` was told early; 0: the provider has forgotten it, or it was given
     * back. Any thread may read it: guard_hold_left_ms(). */
    _Atomic uint64_t valid_until_us;
    const char *why; /* it was lost; the core's, to be read in the same turn */
    /* For the owner to set before it gives it back: when that was asked of it. 0: at that very instant. */
    uint64_t given_us;
    bool is_lost, is_given;
    enum guard_lock_status given; /* once told: OK, LOST, UNKNOWN */

    /* the core's */
    uint64_t lost_us;
    struct lock_hold *prev, *next;             /* among the lost, then among the given back */
    struct lock_hold *owned_prev, *owned_next; /* of its owner, or of nobody */
    struct lock_owner *lock_owner;             /* NULL: it is in no such list */
    struct lock_request *request;              /* which still wants more; NULL: granted */
    struct lock_use
        uses[GUARD_LOCK_NAMES_MAX]; /* the claims it has, in the order in which they were granted */
    size_t use_count, giving_count;
    uint64_t renew_until_us;
    bool is_to_tell; /* among the lost */
};

/* One request; embedded in the owner's own. */
struct lock_request {
    /* set by the owner; sound, see guard_lock() */
    enum guard_lock_kind kind;
    const struct lock_name *names;
    size_t count;
    uint32_t units, limit;
    struct lock_owner *lock_owner;  /* NULL: nobody's */
    uint64_t start_us, deadline_us; /* UINT64_MAX: none */
    bool once;                      /* wait_ms was 0 */
    uint32_t lease_ms, hold_ms;
    struct lock_hold *hold; /* to be filled; NULL: a latch */

    /* the core's */
    struct lock_core *core;
    struct lock_request *prev, *next;               /* of its owner, or of nobody; then the answered */
    struct lock_request *queued_prev, *queued_next; /* behind another one of its owner */
    struct lock_share *queued;                      /* there; NULL: it is not */
    struct lock_claim *claim;                       /* the one it asks for; NULL: none */
    size_t taken;                                   /* names it has, in the order in which they are taken */
    size_t asked;                                   /* and so many more once its claim is granted */
    uint8_t order[GUARD_LOCK_NAMES_MAX];
    struct alarm deadline;
    bool was_refused, is_answered, has_asked;
    uint32_t before;                 /* as of the last refusal */
    struct guard_lock_result result; /* once answered; `hold` and `waited_ms` stay the owner's to fill */
};

/* OK; SHED, CLOSING, INVALID (*why says it, a static text), NO_MEMORY: it will not be answered. */
enum guard_lock_status lock_core_ask(struct lock_core *core, uint64_t now_us, struct lock_request *request,
                                     const char **why);
/* Answers it with CANCELLED unless it is answered already. */
void lock_core_cancel(struct lock_core *core, uint64_t now_us, struct lock_request *request);
/* Gives it back. It comes out of lock_core_next_given() once. */
void lock_core_give(struct lock_core *core, uint64_t now_us, struct lock_hold *hold);

/* The next answered request, oldest first; it is the owner's again. */
struct lock_request *lock_core_next_answer(struct lock_core *core);
/* The next hold that was lost, and not given back. */
struct lock_hold *lock_core_next_lost(struct lock_core *core);
/* The next hold whose giving back is confirmed, or will not be; the owner's again. */
struct lock_hold *lock_core_next_given(struct lock_core *core);

/* ---- actions ---- */

enum lock_action_kind {
    LOCK_TAKE,  /* token, names, kind, units, limit, lease_ms, place_ms, deadline_us */
    LOCK_RENEW, /* token, names, lease_ms */
    LOCK_GIVE,  /* token, names, doubt; of a latch: leaves */
    LOCK_STAY,  /* one name; tokens, token_count, place_ms */
};

/* What it points to lives until the next event. */
struct lock_action {
    enum lock_action_kind kind;
    uint64_t op; /* comes back with the reply */
    enum guard_lock_kind lock;
    const struct lock_name *names;
    size_t count;
    const char *token;
    const char *const *tokens;
    size_t token_count;
    uint32_t units, limit; /* LOCK_ALL where the kind is exclusive */
    uint32_t lease_ms;
    uint32_t place_ms;    /* 0: no place in the queue is wanted */
    uint64_t deadline_us; /* of the request; UINT64_MAX: none */
    bool overtakes;
    bool doubt; /* a take of this token was not answered and may still run */
};
/* False: there is none. In the order in which they are to run. */
bool lock_core_next_action(struct lock_core *core, struct lock_action *action);

/* ---- what came back ---- */

enum lock_reply_kind {
    LOCK_GRANTED,  /* TAKE: fence. A latch: it is open */
    LOCK_REFUSED,  /* TAKE: hint_ms, before. A latch: `before` parties are missing */
    LOCK_GONE,     /* TAKE: this token was given back before; the claim starts anew with another */
    LOCK_DONE,     /* RENEW, GIVE: it is or was held, in all names. STAY: ask_now */
    LOCK_NOT_HELD, /* RENEW, GIVE: it was not, in one of them */
    LOCK_IMPOSSIBLE, /* the provider cannot do it, by its nature or its settings: `why`; the request is INVALID */
    LOCK_UNSENT,     /* it has not run and never will; `why` if known */
    LOCK_UNANSWERED, /* it may have run, may run later, or never; `why` if known */
};

struct lock_reply {
    enum lock_reply_kind kind;
    uint64_t fence[GUARD_LOCK_NAMES_MAX]; /* in the action's order of names */
    uint32_t
        valid_ms; /* GRANTED, DONE: valid for this long from the sending; 0: for the lease, less 1 % and 2 ms */
    uint32_t hint_ms; /* REFUSED: something that may change it runs out after this long; 0: not known */
    uint32_t before;
    const uint32_t *ask_now; /* STAY: places in `tokens`, from 0, of those that should ask; lent */
    size_t ask_now_count;
    const char *why; /* lent */
};
void lock_core_replied(struct lock_core *core, uint64_t now_us, uint64_t op, const struct lock_reply *reply);

/* ---- hints and time ---- */

/* A claim may be granted now: of the token that begins with this uuid, or all on the name if uuid is NULL. */
void lock_core_told(struct lock_core *core, uint64_t now_us, const char *uuid, const char *encoded,
                    size_t encoded_bytes);
/* The provider knows that the hold of this token is gone; `why` is static or copied. */
void lock_core_dropped(struct lock_core *core, uint64_t now_us, const char *token, const char *why);
/* Hints may have been lost: every claim that waits asks again, spread over 100 ms. */
void lock_core_resync(struct lock_core *core, uint64_t now_us);
/* The provider can be reached, or not. Coming up: every claim that is held is renewed, every other is asked for.
 * `why` as above; what UNREACHABLE says. */
void lock_core_link(struct lock_core *core, uint64_t now_us, bool up, const char *why);

/* When lock_core_tick() is due next; UINT64_MAX: never. */
uint64_t lock_core_next_us(const struct lock_core *core);
void lock_core_tick(struct lock_core *core, uint64_t now_us);

/* ---- the end ---- */

/* Answers every request with CLOSING, loses every hold and gives all back. */
void lock_core_close(struct lock_core *core, uint64_t now_us);
/* Nothing stands at the provider, and no action is under way. Holds may still be out: after the close giving them
 * back is told at once. */
bool lock_core_idle(const struct lock_core *core);

/* waiting, held and what the core counts; leaves the others alone. */
void lock_core_stats(const struct lock_core *core, struct guard_locks_stats *stats);
