/* SPDX-License-Identifier: MIT */
/*
 * lock_core_state.h - the memory of the locks' core, and what its files get from each other. Private to them.
 *
 *   lock_events.c   the functions of lock_core.h, in which events come and actions go
 *   lock_request.c  what a request still needs, and how it is answered
 *   lock_hold.c     what was granted, until it is given back
 *   lock_owner.c    owners, and what each of them has of a name
 *   lock_claim.c    one token at the provider: take, renew, give
 *   lock_line.c     those that wait for one name here, and the places they renew together
 *
 * Lifetime  A claim is there until nothing of its token can stand at the provider and no action of it is under way; a
 *           line, a name's, until its last claim and its last LOCK_STAY. Both leave the tables at once and are freed
 *           at the beginning of the next event, because actions may point to them until then.
 */
#pragma once

#include "../base/chance.h"
#include "lock_core.h"

enum claim_state {
    CLAIM_ASKING,  /* a take is under way */
    CLAIM_WAITING, /* for a hint, its alarm or the link */
    CLAIM_HELD,
    CLAIM_LOST,   /* its holds were told; it may still stand at the provider */
    CLAIM_GIVING, /* whatever stands there is given back */
    CLAIM_OVER,
};

/* Of a claim that is given back. */
enum claim_given {
    GIVE_OPEN,
    GIVE_IN_VAIN /* one was not answered */,
    GIVE_DONE /* nothing of it stands there */
};

/*
 * What a claim's flags may be (x) in each state; where there is a blank they are not looked at:
 *
 *                  ASKING  WAITING  HELD  LOST  GIVING
 *     told           x               x                   a reason to ask again came while that was under way: asks at
 *                                                        once when the answer is there; HELD: renews
 *     was_refused    x       x                           only the first refusal is told to those behind it
 *     asks_for_all   x       x                           one asks for all that stay; given on with the hint
 *     stays                  x                           its place is renewed with those of others, not by its alarm
 *     doubt          x       x       x     x     x       a take was not answered and may still run: never taken back
 *                                                        but by the provider's word that the token is gone
 *     stands         x       x       x     x     x       a give is needed; without it and without a take under way
 *                                                        there is none. HELD: always
 *     not_held                             x     x       the provider's word: the giver hears LOST, not UNKNOWN
 *     given                                      x
 */

/* What an alarm belongs to. */
enum lock_alarm_owner { LOCK_ALARM_REQUEST, LOCK_ALARM_CLAIM, LOCK_ALARM_LINE };

enum {
    LOCK_STAY_MAX = 1000,
    LOCK_WHY_SIZE = 200,
    LOCK_WHYS = 16, /* different ones in a turn; a provider has nine sessions at most */
    LOCK_RESYNC_MS = 100,
    LOCK_PAUSE_FIRST_MS = 20,
    LOCK_PAUSE_MOST_MS = 500,
};

/* A claim's part in a line. */
struct lock_place {
    struct lock_place *prev, *next; /* of those that wait there */
    struct lock_claim *claim;
    struct lock_line *line;
    struct lock_share *share; /* ASKING, WAITING, HELD and if it has an owner; else NULL */
    uint64_t fence;           /* of the last grant */
};

struct lock_claim {
    struct lock_core *core;
    uint64_t id; /* the upper part of its ops */
    UT_hash_handle by_id, by_uuid;
    struct lock_claim *prev, *next;               /* all */
    struct lock_claim *acting_prev, *acting_next; /* those with something in `unsent`; then the dead */
    struct lock_claim *stay_prev, *stay_next;
    struct alarm alarm;
    enum claim_state state;
    unsigned out, unsent; /* 1u << enum lock_action_kind: under way, and of these not fetched yet */
    bool unlisted;
    bool doubt, stands, not_held;

    char token[LOCK_TOKEN_SIZE];
    enum guard_lock_kind kind;
    uint32_t units, limit, lease_ms, place_ms;
    uint64_t deadline_us;

    bool told;

    /* ASKING, WAITING */
    struct lock_request *request;
    bool was_refused, asks_for_all, stays;
    size_t stay_at; /* its place in the batch that is under way, from 1; 0: none */
    uint32_t before, polls, attempts;
    uint64_t sent_us, hint_us, stay_us;

    /* HELD, LOST */
    struct lock_use *uses;
    uint64_t renew_sent_us, renew_us, valid_until_us, valid_us;

    /* GIVING */
    struct lock_hold *giver; /* is told; NULL: nobody */
    enum claim_given given;
    uint64_t given_us, give_us, tell_us, ends_us;

    size_t count;
    struct lock_name *names; /* behind the places */
    struct lock_place places[];
};

/* What this process has on one name. */
struct lock_line {
    struct lock_core *core;
    uint64_t id;
    UT_hash_handle by_name, by_id;
    struct lock_line *all_prev, *all_next;
    struct lock_line *prev, *next; /* those with a stay to be fetched; then the dead */
    struct alarm alarm;
    bool unlisted, is_out, is_unsent;
    size_t claim_count;
    struct lock_place *waiters; /* ASKING and WAITING */
    struct lock_claim *stayers; /* of these; the one whose place was renewed longest ago first */
    size_t stayer_count;
    size_t urgent; /* so many, from the first, are due at urgent_us */
    uint64_t urgent_us, pause_us, hint_us;
    struct lock_claim **batch; /* owned; NULL: it has left. Likewise `tokens` */
    const char **tokens;
    size_t batch_count, batch_capacity;
    uint64_t sent_us;
    uint32_t attempts;
    struct lock_name name;
    char encoded[];
};

/* What one owner has of one name: a claim, and behind it requests until that is decided. */
struct lock_share {
    struct lock_owner *owner;
    UT_hash_handle hh;
    bool unlisted, is_moving, kept;
    struct lock_claim *claim; /* ASKING, WAITING, HELD; NULL: none */
    struct lock_request *queued;
    char encoded[];
};

struct lock_owner {
    struct lock_owner *prev, *next;
    struct lock_share *shares;     /* uthash table by name */
    struct lock_request *requests; /* that wait */
    struct lock_hold *holds;       /* granted, and not given back */
    bool is_ending;
};

struct lock_core {
    struct lock_core_config config;
    uint64_t now_us; /* of the event that is being handled */
    struct chance chance;
    struct alarms alarms;
    uint64_t last_id;
    bool is_up, is_closed;
    char link_why[LOCK_WHY_SIZE];
    char whys[LOCK_WHYS][LOCK_WHY_SIZE]; /* what became of requests and holds, each text once */
    unsigned why_count;                  /* ever */

    struct lock_claim *claims_by_id, *claims_by_uuid; /* uthash tables, likewise the lines */
    struct lock_line *lines_by_name, *lines_by_id;
    struct lock_claim *claims, *dead_claims;
    struct lock_line *lines, *dead_lines;
    struct lock_claim *acting; /* with actions that are to be fetched */
    struct lock_line *staying;

    struct lock_owner nobody; /* of requests without an owner */
    struct lock_owner *owners;

    struct lock_request *answered; /* not fetched yet; oldest first, likewise the next two */
    struct lock_hold *lost, *given;
    struct guard_locks_stats stats;
};

static inline uint64_t lock_us(uint32_t ms)
{
    return (uint64_t)ms * 1000;
}

static inline uint64_t lock_earlier(uint64_t a_us, uint64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static inline uint64_t lock_later(uint64_t a_us, uint64_t b_us)
{
    return a_us > b_us ? a_us : b_us;
}

/* Every event begins with it. */
void lock_begin(struct lock_core *core, uint64_t now_us);
unsigned lock_hash(const struct lock_core *core, const char *text, size_t bytes);
/* UINT64_MAX: it is unset. */
void lock_set_alarm(struct lock_core *core, struct alarm *alarm, uint64_t at_us);

/* ---- lock_line.c ---- */

struct lock_line *lock_line_find(const struct lock_core *core, const char *encoded, size_t bytes);
/* Finds or makes it, with room for one more claim. NULL: no memory. */
struct lock_line *lock_line_enter(struct lock_core *core, const struct lock_name *name);
void lock_line_leave(struct lock_line *line);
/* Its place is renewed with the others', until it leaves them. */
void lock_line_stay(struct lock_claim *claim);
void lock_line_stay_no_more(struct lock_claim *claim);
/* All that stay there are due within this span. */
void lock_line_hurry(struct lock_line *line, uint64_t span_us);
/* One of them is to ask for all, then at the latest. */
void lock_line_hint(struct lock_line *line, uint64_t at_us);
void lock_line_told(struct lock_line *line);
void lock_line_alarm(struct lock_line *line);
void lock_line_replied(struct lock_line *line, const struct lock_reply *reply);
void lock_line_action(struct lock_line *line, struct lock_action *action);
/* If nothing is under way. */
void lock_line_free(struct lock_line *line);

/* ---- lock_claim.c ---- */

/* For these names of the request, which must not have another one. NULL: no memory. */
struct lock_claim *lock_claim_new(struct lock_request *request, const struct lock_name *const *names,
                                  size_t count);
/* ASKING, if the link is up. */
void lock_claim_ask(struct lock_claim *claim);
void lock_claim_told(struct lock_claim *claim);
/* Whatever stands at the provider is given back; `giver`, if not NULL, is told. */
void lock_claim_give(struct lock_claim *claim, struct lock_hold *giver);
/* HELD: its holds are lost, for the provider has said so. */
void lock_claim_dropped(struct lock_claim *claim, const char *why);
void lock_claim_resync(struct lock_claim *claim);
void lock_claim_linked(struct lock_claim *claim);
void lock_claim_alarm(struct lock_claim *claim);
/* HELD, and its alarm will lose it unless a reply comes first. */
bool lock_claim_is_late(const struct lock_claim *claim);
/* One of its holds has, and others have it still. */
void lock_claim_left(struct lock_claim *claim);
void lock_claim_set_alarm(struct lock_claim *claim);
void lock_claim_replied(struct lock_claim *claim, enum lock_action_kind kind, const struct lock_reply *reply);
void lock_claim_action(struct lock_claim *claim, enum lock_action_kind kind, struct lock_action *action);

/* After the n-th take or stay in a row without an answer: a place outlasts four of them. */
static inline uint32_t lock_pause_ms(struct lock_core *core, uint32_t attempt)
{
    uint32_t sixth_ms = core->config.place_ms / 6;
    uint32_t most_ms = sixth_ms < LOCK_PAUSE_MOST_MS ? sixth_ms : LOCK_PAUSE_MOST_MS;
    return chance_backoff(&core->chance, LOCK_PAUSE_FIRST_MS, most_ms, attempt);
}

/* A copy, which stands until LOCK_WHYS others have come; NULL for NULL. */
const char *lock_why_kept(struct lock_core *core, const char *why);

/* ---- lock_request.c ---- */

/* MUTEX, FAIR, WRITE; these and READ; these. */
bool lock_kind_excludes(enum guard_lock_kind kind);
bool lock_kind_reenters(enum guard_lock_kind kind);
/* Takes what its owner has, and asks for the next that it lacks; or answers it. */
void lock_request_advance(struct lock_request *request);
void lock_request_answer(struct lock_request *request, enum guard_lock_status status, const char *why);
/* What became of its claim. A refusal may answer it: false. */
bool lock_request_refused(struct lock_request *request, uint32_t before);
void lock_request_granted(struct lock_request *request);
/* It needs another claim: this one is gone, or came too late. */
void lock_request_again(struct lock_request *request);
/* It has lost something that it had. */
void lock_request_restart(struct lock_request *request);
void lock_request_deadline(struct lock_request *request);

/* ---- lock_hold.c ---- */

void lock_hold_add(struct lock_hold *hold, struct lock_claim *claim);
/* It lets go of its claims, the last one first; those that nobody else has are given back. */
void lock_hold_drop(struct lock_hold *hold);
/* The claim is over. */
void lock_hold_leave(struct lock_use *use);
void lock_hold_grant(struct lock_hold *hold, struct lock_owner *owner, uint32_t hold_ms);
/* One of its claims was renewed. */
void lock_hold_refresh(struct lock_hold *hold);
void lock_hold_lose(struct lock_hold *hold, struct lock_core *core, const char *why);
/* One of its claims is given back, or will never be said to be. */
void lock_hold_given(struct lock_hold *hold, struct lock_core *core, enum guard_lock_status status);

/* ---- lock_owner.c ---- */

struct lock_share *lock_share_find(const struct lock_core *core, const struct lock_owner *owner,
                                   const struct lock_name *name);
/* Finds or makes it. NULL: no memory. */
struct lock_share *lock_share_of(struct lock_core *core, struct lock_owner *owner,
                                 const struct lock_name *name);
bool lock_share_is_open(const struct lock_share *share);
void lock_share_queue(struct lock_share *share, struct lock_request *request);
/* Its own claim is about to go. */
void lock_share_queue_first(struct lock_share *share, struct lock_request *request);
void lock_share_unqueue(struct lock_request *request);
/* Its claim was refused for the first time. */
void lock_share_refused(struct lock_share *share);
/* Its claim was granted or has gone: those behind it go on. It may free itself. */
void lock_share_move(struct lock_share *share);
/* Answers all requests, loses all holds and gives them back. */
void lock_owner_end(struct lock_core *core, struct lock_owner *owner, enum guard_lock_status status,
                    const char *why);
