/* SPDX-License-Identifier: MIT */
/*
 * lock_claim.c - one token at the provider: take, renew, give. See lock_core_state.h, and lock_core.h for the states.
 *
 * Asking   One take is under way at most. What happens meanwhile that would be a reason to ask (a hint, a resync, the
 *          link) is noted in `told`: asked again as soon as the refusal is there.
 * Holding  The alarm of a held claim is its renewal or the warning, whichever is first; giving back replaces it.
 * Giving   A give is repeated until it is answered, or until whatever can stand there has ended by itself. While a
 *          take is under way or in doubt, the give asks the provider to remember the token.
 */
#include "lock_core_state.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    CLAIM_POLL_FIRST_MS = 20, /* of the first in line */
    CLAIM_POLL_MOST_MS = 500,
    HINT_GRACE_MS = 2, /* asked this long after something has run out, not just before */
    GIVE_FIRST_MS = 50,
    GIVE_MOST_MS = 1000,
};

static unsigned bit(enum lock_action_kind kind)
{
    return 1u << kind;
}

/* ---- life ---- */

static bool enter_tables(struct lock_core *core, struct lock_claim *claim)
{
    unsigned hash = lock_hash(core, claim->token, LOCK_UUID_BYTES);
    HASH_ADD_BYHASHVALUE(by_id, core->claims_by_id, id, sizeof claim->id, (unsigned)claim->id, claim);
    if (claim->unlisted)
        return false;
    HASH_ADD_KEYPTR_BYHASHVALUE(by_uuid, core->claims_by_uuid, claim->token, LOCK_UUID_BYTES, hash, claim);
    if (claim->unlisted)
        HASH_DELETE(by_id, core->claims_by_id, claim);
    return !claim->unlisted;
}

/* In the line of this name and, if it is its owner's, in that share. False: no memory. */
static bool enter_line(struct lock_claim *claim, const struct lock_name *name)
{
    struct lock_core *core = claim->core;
    struct lock_request *request = claim->request;
    struct lock_place *place = &claim->places[claim->count];
    struct lock_line *line = lock_line_enter(core, name);
    if (line == NULL)
        return false;
    claim->names[claim->count++] = line->name;
    *place = (struct lock_place){.claim = claim, .line = line};
    DL_APPEND(line->waiters, place);
    if (request->lock_owner == NULL || !lock_kind_reenters(request->kind))
        return true;
    place->share = lock_share_of(core, request->lock_owner, name);
    if (place->share == NULL)
        return false;
    place->share->claim = claim;
    return true;
}

static void leave_lines(struct lock_claim *claim)
{
    for (size_t i = 0; i < claim->count; i++)
        lock_line_leave(claim->places[i].line);
}

static void leave_waiters(struct lock_claim *claim)
{
    if (claim->stays)
        lock_line_stay_no_more(claim);
    if (claim->asks_for_all)
        lock_line_hint(claim->places[0].line, claim->core->now_us);
    claim->asks_for_all = false;
    for (size_t i = 0; i < claim->count; i++)
        DL_DELETE(claim->places[i].line->waiters, &claim->places[i]);
}

/* Its owner may make another one. */
static void leave_shares(struct lock_claim *claim)
{
    for (size_t i = 0; i < claim->count; i++)
        if (claim->places[i].share != NULL) {
            claim->places[i].share->claim = NULL;
            claim->places[i].share->kept = true;
        }
    for (size_t i = 0; i < claim->count; i++) {
        struct lock_share *share = claim->places[i].share;
        claim->places[i].share = NULL;
        if (share != NULL) {
            share->kept = false;
            lock_share_move(share);
        }
    }
}

static struct lock_claim *alloc_claim(struct lock_request *request, struct lock_core *core, size_t count)
{
    size_t place_bytes = count * sizeof(struct lock_place);
    struct lock_claim *claim = calloc(1, sizeof *claim + place_bytes + count * sizeof(struct lock_name));
    if (claim == NULL)
        return NULL;
    claim->core = core;
    claim->names = (struct lock_name *)(void *)((char *)claim->places + place_bytes);
    claim->id = ++core->last_id;
    claim->alarm.owner = LOCK_ALARM_CLAIM;
    claim->state = CLAIM_WAITING;
    claim->request = request;
    claim->kind = request->kind;
    claim->units = lock_kind_excludes(request->kind) ? LOCK_ALL : request->units;
    claim->limit = lock_kind_reenters(request->kind) ? LOCK_ALL : request->limit;
    if (request->kind == GUARD_LOCK_READ)
        claim->units = 1;
    claim->lease_ms = request->lease_ms;
    claim->place_ms = request->once ? 0 : core->config.place_ms;
    claim->deadline_us = request->deadline_us;
    core->config.make_token(core->config.token_context, claim->units, claim->limit, claim->lease_ms,
                            claim->token);
    return claim;
}

struct lock_claim *lock_claim_new(struct lock_request *request, const struct lock_name *const *names,
                                  size_t count)
{
    struct lock_core *core = request->core;
    struct lock_claim *claim = alloc_claim(request, core, count);
    if (claim == NULL)
        return NULL;
    if (!alarms_reserve(&core->alarms)) {
        free(claim);
        return NULL;
    }
    bool complete = true;
    for (size_t i = 0; i < count && complete; i++)
        complete = enter_line(claim, names[i]);
    if (complete && enter_tables(core, claim)) {
        DL_APPEND(core->claims, claim);
        return claim;
    }
    leave_waiters(claim);
    leave_shares(claim);
    leave_lines(claim);
    alarms_unreserve(&core->alarms);
    free(claim);
    return NULL;
}

/* Nothing of it stands any more, and nobody has it. Its memory goes with the next event. */
static void end_claim(struct lock_claim *claim)
{
    struct lock_core *core = claim->core;
    alarm_unset(&core->alarms, &claim->alarm);
    alarms_unreserve(&core->alarms);
    HASH_DELETE(by_id, core->claims_by_id, claim);
    HASH_DELETE(by_uuid, core->claims_by_uuid, claim);
    DL_DELETE(core->claims, claim);
    leave_lines(claim);
    claim->state = CLAIM_OVER;
    claim->acting_next = core->dead_claims;
    core->dead_claims = claim;
}

/* ---- actions ---- */

static void send_action(struct lock_claim *claim, enum lock_action_kind kind)
{
    struct lock_core *core = claim->core;
    if (claim->unsent == 0)
        DL_APPEND2(core->acting, claim, acting_prev, acting_next);
    claim->out |= bit(kind);
    claim->unsent |= bit(kind);
}

static void take_from_unsent(struct lock_claim *claim, enum lock_action_kind kind)
{
    claim->unsent &= ~bit(kind);
    if (claim->unsent == 0)
        DL_DELETE2(claim->core->acting, claim, acting_prev, acting_next);
}

/* It has not been fetched: it will not be. */
static void withdraw_action(struct lock_claim *claim, enum lock_action_kind kind)
{
    if ((claim->unsent & bit(kind)) == 0)
        return;
    take_from_unsent(claim, kind);
    claim->out &= ~bit(kind);
}

void lock_claim_action(struct lock_claim *claim, enum lock_action_kind kind, struct lock_action *action)
{
    take_from_unsent(claim, kind);
    *action = (struct lock_action){
        .kind = kind,
        .op = claim->id << 2 | (uint64_t)kind,
        .lock = claim->kind,
        .names = claim->names,
        .count = claim->count,
        .token = claim->token,
        .units = claim->units,
        .limit = claim->limit,
        .lease_ms = claim->lease_ms,
        .place_ms = claim->place_ms,
        .deadline_us = claim->deadline_us,
        .overtakes = claim->kind == GUARD_LOCK_MUTEX,
        .doubt = kind == LOCK_GIVE && (claim->doubt || (claim->out & bit(LOCK_TAKE)) != 0),
    };
}

/* ---- asking ---- */

void lock_claim_ask(struct lock_claim *claim)
{
    struct lock_core *core = claim->core;
    if (claim->stays)
        lock_line_stay_no_more(claim);
    alarm_unset(&core->alarms, &claim->alarm);
    claim->told = false;
    claim->state = core->is_up ? CLAIM_ASKING : CLAIM_WAITING;
    if (!core->is_up)
        return;
    claim->sent_us = core->now_us;
    send_action(claim, LOCK_TAKE);
}

void lock_claim_told(struct lock_claim *claim)
{
    if (claim->state == CLAIM_ASKING)
        claim->told = true;
    if (claim->state != CLAIM_WAITING)
        return;
    claim->polls = 0;
    lock_claim_ask(claim);
}

static void wait_alone(struct lock_claim *claim)
{
    struct lock_core *core = claim->core;
    uint64_t span_us = lock_us(core->config.place_ms) / 3;
    if (claim->kind == GUARD_LOCK_LATCH) /* a party says so again; a place is renewed */
        span_us = lock_earlier(span_us, lock_us(claim->lease_ms) / 3);
    uint64_t at_us = lock_earlier(claim->sent_us + span_us, claim->hint_us);
    if (claim->before == 0)
        at_us =
            lock_earlier(at_us, core->now_us + lock_us(chance_backoff(&core->chance, CLAIM_POLL_FIRST_MS,
                                                                      CLAIM_POLL_MOST_MS, claim->polls++)));
    alarm_set(&core->alarms, &claim->alarm, at_us);
}

static void wait_in_line(struct lock_claim *claim)
{
    bool alone = !claim->core->config.stays || claim->count > 1 || claim->before == 0 ||
                 claim->place_ms == 0 || claim->kind == GUARD_LOCK_LATCH;
    if (claim->asks_for_all)
        lock_line_hint(claim->places[0].line, claim->hint_us);
    claim->asks_for_all = false;
    if (alone)
        wait_alone(claim);
    else
        lock_line_stay(claim);
}

/* It is not known what became of it: the same again. */
static void wait_for_another_try(struct lock_claim *claim, const char *why)
{
    struct lock_core *core = claim->core;
    uint32_t pause_ms = lock_pause_ms(core, claim->attempts++);
    if (why != NULL)
        snprintf(core->link_why, sizeof core->link_why, "%s", why);
    alarm_set(&core->alarms, &claim->alarm, core->now_us + lock_us(pause_ms));
}

static void claim_refused(struct lock_claim *claim, const struct lock_reply *reply)
{
    bool first_time = !claim->was_refused;
    claim->attempts = 0;
    claim->was_refused = true;
    claim->before = reply->before;
    claim->stands =
        claim->doubt || (claim->kind == GUARD_LOCK_LATCH ? claim->units > 0 : claim->place_ms > 0);
    claim->hint_us =
        reply->hint_ms > 0 ? claim->core->now_us + lock_us(reply->hint_ms + HINT_GRACE_MS) : UINT64_MAX;
    for (size_t i = 0; i < claim->count && first_time; i++)
        if (claim->places[i].share != NULL)
            lock_share_refused(claim->places[i].share);
    if (!lock_request_refused(claim->request, reply->before))
        return;
    if (claim->told)
        lock_claim_told(claim);
    else
        wait_in_line(claim);
}

/* ---- holding ---- */

static uint64_t warn_at_us(const struct lock_claim *claim)
{
    uint32_t warn_ms = claim->core->config.warn_ms;
    uint64_t warn_us = warn_ms > 0 ? lock_us(warn_ms) : claim->valid_us / 6;
    return claim->valid_until_us - lock_earlier(warn_us, claim->valid_us / 2);
}

static bool may_renew_at(const struct lock_claim *claim, uint64_t at_us)
{
    const struct lock_use *use;
    DL_FOREACH (claim->uses, use)
        if (use->hold->renew_until_us > at_us)
            return true;
    return false;
}

static bool can_renew(const struct lock_claim *claim)
{
    return claim->core->is_up && (claim->out & bit(LOCK_RENEW)) == 0 && may_renew_at(claim, claim->renew_us);
}

void lock_claim_set_alarm(struct lock_claim *claim)
{
    uint64_t at_us = warn_at_us(claim);
    if (claim->state == CLAIM_LOST)
        at_us = claim->valid_until_us;
    else if (can_renew(claim))
        at_us = lock_earlier(at_us, claim->renew_us);
    alarm_set(&claim->core->alarms, &claim->alarm, at_us);
}

/* Said by the provider, or what was asked for, less what clocks may differ. */
static void confirm_claim(struct lock_claim *claim, uint64_t sent_us, uint32_t valid_ms)
{
    uint64_t lease_us = lock_us(claim->lease_ms);
    claim->valid_us = valid_ms > 0 ? lock_us(valid_ms) : lease_us - lease_us / 100 - lock_us(2);
    claim->valid_until_us = sent_us + claim->valid_us;
    claim->renew_us = sent_us + (valid_ms > 0 ? claim->valid_us : lease_us) / 3;
}

static void claim_granted(struct lock_claim *claim, const struct lock_reply *reply)
{
    struct lock_request *request = claim->request;
    claim->stands = claim->kind != GUARD_LOCK_LATCH;
    if (claim->kind == GUARD_LOCK_LATCH) {
        lock_request_granted(request);
        return;
    }
    confirm_claim(claim, claim->sent_us, reply->valid_ms);
    for (size_t i = 0; i < claim->count; i++)
        claim->places[i].fence = reply->fence[i];
    claim->told = false;
    leave_waiters(claim);
    claim->state = CLAIM_HELD;
    claim->request = NULL;
    lock_claim_set_alarm(claim);
    lock_request_granted(request);
    for (size_t i = 0; i < claim->count && claim->state == CLAIM_HELD; i++)
        if (claim->places[i].share != NULL)
            lock_share_move(claim->places[i].share);
}

static void take_replied(struct lock_claim *claim, const struct lock_reply *reply)
{
    claim->state = CLAIM_WAITING;
    switch (reply->kind) {
    case LOCK_GRANTED:
        claim_granted(claim, reply);
        return;
    case LOCK_REFUSED:
        claim_refused(claim, reply);
        return;
    case LOCK_GONE:
        claim->stands = claim->doubt = false;
        lock_request_again(claim->request);
        return;
    case LOCK_IMPOSSIBLE:
        lock_request_answer(claim->request, GUARD_LOCK_INVALID,
                            reply->why != NULL ? reply->why : "the provider cannot do it");
        return;
    case LOCK_UNSENT:
        wait_for_another_try(claim, reply->why);
        return;
    case LOCK_DONE:
    case LOCK_NOT_HELD:
    case LOCK_UNANSWERED:
        break;
    }
    claim->stands = claim->doubt = true;
    wait_for_another_try(claim, reply->why);
}

/* Nobody has it any more, though its holds may be out. */
static void expire_claim(struct lock_claim *claim)
{
    while (claim->uses != NULL)
        lock_hold_leave(claim->uses);
    lock_claim_give(claim, NULL);
}

/* HELD: its holds are lost. */
static void lose_claim(struct lock_claim *claim, const char *why)
{
    struct lock_core *core = claim->core;
    struct lock_use *use, *next;
    withdraw_action(claim, LOCK_RENEW);
    claim->state = CLAIM_LOST;
    leave_shares(claim);
    DL_FOREACH_SAFE (claim->uses, use, next) {
        struct lock_hold *hold = use->hold;
        if (hold->request != NULL) {
            lock_request_restart(hold->request);
            continue;
        }
        lock_hold_lose(hold, core, why);
        if (claim->not_held)
            hold->valid_until_us = 0;
    }
    if (claim->state != CLAIM_LOST)
        return;
    if (core->now_us >= claim->valid_until_us)
        expire_claim(claim);
    else
        lock_claim_set_alarm(claim);
}

/* A hold for some names of which it has one no more protects the others to its end. */
static void claim_not_held(struct lock_claim *claim, const char *why)
{
    claim->not_held = true;
    claim->stands = claim->doubt || claim->count > 1;
    lose_claim(claim, why);
}

static void renewed(struct lock_claim *claim, uint32_t valid_ms)
{
    struct lock_use *use;
    confirm_claim(claim, claim->renew_sent_us, valid_ms);
    DL_FOREACH (claim->uses, use)
        lock_hold_refresh(use->hold);
}

void lock_claim_left(struct lock_claim *claim)
{
    if (claim->state != CLAIM_HELD)
        return;
    if (!may_renew_at(claim, claim->core->now_us))
        withdraw_action(claim, LOCK_RENEW);
    lock_claim_set_alarm(claim);
}

bool lock_claim_is_late(const struct lock_claim *claim)
{
    return claim->state == CLAIM_HELD && claim->core->now_us >= warn_at_us(claim);
}

static void held_alarm(struct lock_claim *claim)
{
    if (lock_claim_is_late(claim)) {
        lose_claim(claim, may_renew_at(claim, claim->core->now_us) ? "its renewals were not answered in time"
                                                                   : "its hold_ms is over");
        return;
    }
    if (can_renew(claim) && claim->core->now_us >= claim->renew_us) {
        claim->renew_sent_us = claim->core->now_us;
        claim->core->stats.renewals++;
        send_action(claim, LOCK_RENEW);
    }
    lock_claim_set_alarm(claim);
}

static void renew_replied(struct lock_claim *claim, const struct lock_reply *reply)
{
    if (reply->kind == LOCK_NOT_HELD) {
        claim_not_held(claim, "the provider does not know it any more");
        return;
    }
    if (reply->kind == LOCK_DONE) {
        renewed(claim, reply->valid_ms);
    } else {
        claim->core->stats.renewals_unanswered++;
        claim->renew_us =
            lock_later(claim->core->now_us, claim->renew_sent_us + lock_us(claim->lease_ms) / 12);
    }
    if (claim->told)
        claim->renew_us = claim->core->now_us;
    claim->told = false;
    held_alarm(claim);
}

/* ---- giving back ---- */

static enum guard_lock_status given_status(const struct lock_claim *claim, enum lock_reply_kind kind)
{
    if (kind == LOCK_DONE)
        return claim->given_us < claim->valid_until_us ? GUARD_LOCK_OK : GUARD_LOCK_LOST;
    return claim->given == GIVE_IN_VAIN && !claim->not_held ? GUARD_LOCK_UNKNOWN : GUARD_LOCK_LOST;
}

static void tell_giver(struct lock_claim *claim, enum guard_lock_status status)
{
    struct lock_hold *giver = claim->giver;
    claim->giver = NULL;
    if (giver != NULL)
        lock_hold_given(giver, claim->core, status);
}

static void send_give(struct lock_claim *claim)
{
    if (claim->given == GIVE_DONE)
        claim->given = GIVE_OPEN;
    claim->give_us = UINT64_MAX;
    send_action(claim, LOCK_GIVE);
}

static void set_ends(struct lock_claim *claim)
{
    uint32_t most_ms = claim->lease_ms > claim->place_ms ? claim->lease_ms : claim->place_ms;
    claim->ends_us = claim->core->now_us + lock_us(most_ms);
}

static void set_giving_alarm(struct lock_claim *claim)
{
    bool waits = claim->given != GIVE_DONE && claim->core->now_us < claim->ends_us;
    uint64_t at_us = waits ? claim->ends_us : UINT64_MAX;
    if (claim->giver != NULL)
        at_us = lock_earlier(at_us, claim->tell_us);
    if (waits && claim->core->is_up && (claim->out & bit(LOCK_GIVE)) == 0)
        at_us = lock_earlier(at_us, claim->give_us);
    lock_set_alarm(claim->core, &claim->alarm, at_us);
}

/* Is it over? */
static void settle_claim(struct lock_claim *claim)
{
    bool ended = claim->given == GIVE_DONE || claim->core->now_us >= claim->ends_us;
    if (!ended || claim->out != 0) {
        set_giving_alarm(claim);
        return;
    }
    tell_giver(claim, GUARD_LOCK_UNKNOWN);
    end_claim(claim);
}

/* Who only looks at a latch is nothing there. */
static bool nothing_stands(const struct lock_claim *claim)
{
    return (!claim->stands && (claim->out & bit(LOCK_TAKE)) == 0) ||
           (claim->kind == GUARD_LOCK_LATCH && claim->units == 0);
}

static void begin_giving(struct lock_claim *claim, struct lock_hold *giver)
{
    struct lock_core *core = claim->core;
    claim->state = CLAIM_GIVING;
    claim->giver = giver;
    claim->given_us = giver != NULL ? giver->given_us : core->now_us;
    claim->give_us = core->now_us;
    claim->tell_us = core->now_us + 2 * lock_us(core->config.limit_ms);
    set_ends(claim);
    if (nothing_stands(claim)) {
        tell_giver(claim, given_status(claim, LOCK_NOT_HELD));
        claim->given = GIVE_DONE;
    } else if (core->is_up) {
        send_give(claim);
    }
    settle_claim(claim);
}

void lock_claim_give(struct lock_claim *claim, struct lock_hold *giver)
{
    assert(claim->uses == NULL && claim->state < CLAIM_GIVING);
    withdraw_action(claim, LOCK_TAKE);
    withdraw_action(claim, LOCK_RENEW);
    if (claim->state <= CLAIM_WAITING)
        leave_waiters(claim);
    claim->request = NULL;
    begin_giving(claim, giver);
    leave_shares(claim);
}

static void give_replied(struct lock_claim *claim, const struct lock_reply *reply)
{
    struct lock_core *core = claim->core;
    if (reply->kind == LOCK_DONE || reply->kind == LOCK_NOT_HELD || reply->kind == LOCK_IMPOSSIBLE) {
        enum guard_lock_status status = given_status(claim, reply->kind);
        claim->given = GIVE_DONE;
        tell_giver(claim, status);
        return;
    }
    if (reply->kind != LOCK_UNSENT)
        claim->given = GIVE_IN_VAIN;
    claim->give_us =
        core->now_us + lock_us(chance_backoff(&core->chance, GIVE_FIRST_MS, GIVE_MOST_MS, claim->attempts++));
}

/* A take that ran after its give was answered: the provider did not remember the token. */
static void take_replied_late(struct lock_claim *claim, const struct lock_reply *reply)
{
    claim->doubt = claim->doubt || reply->kind == LOCK_UNANSWERED;
    if (reply->kind != LOCK_GRANTED && reply->kind != LOCK_UNANSWERED)
        return;
    set_ends(claim);
    if (claim->given == GIVE_DONE && reply->kind == LOCK_GRANTED && claim->kind != GUARD_LOCK_LATCH)
        send_give(claim);
}

static void replied_while_giving(struct lock_claim *claim, enum lock_action_kind kind,
                                 const struct lock_reply *reply)
{
    if (kind == LOCK_TAKE)
        take_replied_late(claim, reply);
    else if (kind == LOCK_GIVE)
        give_replied(claim, reply);
    else if (reply->kind != LOCK_NOT_HELD)
        set_ends(claim);
    settle_claim(claim);
}

static bool give_is_due(const struct lock_claim *claim)
{
    uint64_t now_us = claim->core->now_us;
    return claim->core->is_up && claim->given != GIVE_DONE && (claim->out & bit(LOCK_GIVE)) == 0 &&
           now_us >= claim->give_us && now_us < claim->ends_us;
}

static void give_if_due(struct lock_claim *claim)
{
    if (give_is_due(claim))
        send_give(claim);
    settle_claim(claim);
}

/* ---- events ---- */

void lock_claim_replied(struct lock_claim *claim, enum lock_action_kind kind, const struct lock_reply *reply)
{
    if ((claim->out & bit(kind)) == 0)
        return;
    claim->out &= ~bit(kind);
    if (claim->state == CLAIM_GIVING)
        replied_while_giving(claim, kind, reply);
    else if (kind == LOCK_TAKE)
        take_replied(claim, reply);
    else if (claim->state == CLAIM_HELD)
        renew_replied(claim, reply);
}

static void giving_alarm(struct lock_claim *claim)
{
    if (claim->giver != NULL && claim->core->now_us >= claim->tell_us)
        tell_giver(claim, GUARD_LOCK_UNKNOWN);
    give_if_due(claim);
}

void lock_claim_alarm(struct lock_claim *claim)
{
    switch (claim->state) {
    case CLAIM_ASKING:
    case CLAIM_OVER:
        break;
    case CLAIM_WAITING:
        claim->core->stats.polls++;
        lock_claim_ask(claim);
        break;
    case CLAIM_HELD:
        held_alarm(claim);
        break;
    case CLAIM_LOST:
        expire_claim(claim);
        break;
    case CLAIM_GIVING:
        giving_alarm(claim);
        break;
    }
}

void lock_claim_dropped(struct lock_claim *claim, const char *why)
{
    if (claim->state == CLAIM_HELD)
        claim_not_held(claim, why);
    else
        lock_claim_told(claim);
}

void lock_claim_resync(struct lock_claim *claim)
{
    struct lock_core *core = claim->core;
    uint64_t at_us = core->now_us + chance_below(&core->chance, lock_us(LOCK_RESYNC_MS));
    if (claim->state == CLAIM_ASKING)
        claim->told = true;
    if (claim->state == CLAIM_WAITING && !claim->stays && core->is_up)
        alarm_set(&core->alarms, &claim->alarm,
                  claim->alarm.place != 0 ? lock_earlier(claim->alarm.at_us, at_us) : at_us);
}

void lock_claim_linked(struct lock_claim *claim)
{
    switch (claim->state) {
    case CLAIM_ASKING:
    case CLAIM_WAITING:
        if (!claim->stays)
            lock_claim_told(claim);
        break;
    case CLAIM_HELD:
        claim->told = (claim->out & bit(LOCK_RENEW)) != 0;
        claim->renew_us = claim->core->now_us;
        if (!claim->told)
            held_alarm(claim);
        break;
    case CLAIM_LOST:
    case CLAIM_OVER:
        break;
    case CLAIM_GIVING:
        claim->give_us = lock_earlier(claim->give_us, claim->core->now_us);
        give_if_due(claim);
        break;
    }
}
