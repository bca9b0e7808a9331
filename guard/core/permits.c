/* SPDX-License-Identifier: MIT */
/* permits.c - see permits.h. */
#include "permits.h"
#include "core_state.h"
#include <stdlib.h>
#include <string.h>

enum {
    PERMITS_PER_WORKER = 2,  /* one is given back while the next one is requested */
    PERMIT_ATTEMPTS_MAX = 2, /* of one token; then the load starts without */
    PERMIT_RETURNS_MAX = 3,
    PERMIT_POLL_FIRST_MS = 20,
    PERMIT_POLL_MOST_MS = 500, /* and half of that for jitter: well below PERMIT_WAIT_MS */
    PERMIT_POLL_GRACE_MS = 6,  /* request this long after one has run out, not just before */
    PERMIT_RESYNC_MS = 100,
    PERMIT_TURN_MS = 50, /* a hundred round trips */
    PERMIT_TURN_QUERIES = 8,
};

static const struct core_key PERMITS_KEY = {PERMIT_KEY, sizeof PERMIT_KEY - 1, PERMIT_KEY,
                                            sizeof PERMIT_KEY - 1};

/* ---- life ---- */

static bool add_permit(struct core *core, struct permit *permit)
{
    if (!core_reserve(core, ACTIONS_PER_OWNER))
        return false;
    permit->id = ++core->last_id;
    permit->alarm.owner = ALARM_PERMIT;
    core->permits.count++;
    core->permits.in_state[PERMIT_FREE]++;
    return true;
}

bool permits_open(struct core *core)
{
    struct permits *permits = &core->permits;
    char token[TOKEN_SIZE];
    if (core->config.permits == 0 || core->config.mode != GUARD_MODE_FLEET || core->config.without_redis)
        return true;
    uint32_t count = core->config.max_loads * PERMITS_PER_WORKER;
    permits->all = calloc(count, sizeof *permits->all);
    bool complete = permits->all != NULL && alarms_reserve(&core->alarms);
    while (complete && permits->count < count)
        complete = add_permit(core, &permits->all[permits->count]);
    if (!complete)
        return false;
    permits->poll.owner = ALARM_PERMITS;
    core->config.make_token(core->config.token_context, core->config.permit_ms, token);
    memcpy(permits->waiter, token, TOKEN_UUID_BYTES);
    return true;
}

void permits_clear(struct core *core)
{
    free(core->permits.all);
    core->permits.all = NULL;
}

bool permits_idle(const struct core *core)
{
    return core->permits.in_state[PERMIT_FREE] == core->permits.count;
}

static unsigned permits_shard(const struct core *core)
{
    return core_shard_of(core, false, PERMITS_KEY.encoded, PERMITS_KEY.encoded_bytes);
}

/* ---- one permit ---- */

static void move_permit(struct core *core, struct permit *permit, enum permit_state state)
{
    core->permits.in_state[permit->state]--;
    core->permits.in_state[state]++;
    permit->state = state;
    core->stats.permits_held = core->permits.in_state[PERMIT_READY] + core->permits.in_state[PERMIT_USED];
}

static struct permit *permit_in(struct core *core, enum permit_state state)
{
    struct permits *permits = &core->permits;
    uint32_t at = 0;
    if (permits->in_state[state] == 0)
        return NULL;
    while (permits->all[at].state != state)
        at++;
    return &permits->all[at];
}

/* Returns its op. */
static uint64_t send_of_permit(struct core *core, struct permit *permit, enum core_action_kind kind)
{
    const uint64_t op = core_op(permit->id, permits_shard(core), ++permit->op_count);
    core_emit(core, &(struct core_action){.kind = kind,
                                          .op = op,
                                          .key = PERMITS_KEY,
                                          .token = permit->token,
                                          .waiter = core->permits.waiter,
                                          .background = permit->background,
                                          .more = permit->more});
    return op;
}

static void send_permit_acquire(struct core *core, struct permit *permit)
{
    permit->op = send_of_permit(core, permit, CORE_PERMIT_ACQUIRE);
    permit->attempts++;
    permit->sent_us = core->now_us;
}

static void send_permit_release(struct core *core, struct permit *permit)
{
    permit->op = send_of_permit(core, permit, CORE_PERMIT_RELEASE);
    permit->attempts++;
}

static void set_permit_alarm(struct core *core, struct permit *permit)
{
    uint64_t at_us = permit->lost ? UINT64_MAX : permit->valid_until_us;
    if (permit->renew_op == 0)
        at_us = earlier_us(at_us, permit->renew_at_us);
    if (at_us != UINT64_MAX)
        alarm_set(&core->alarms, &permit->alarm, at_us);
}

static void give_back(struct core *core, struct permit *permit)
{
    alarm_unset(&core->alarms, &permit->alarm);
    move_permit(core, permit, PERMIT_RETURNING);
    permit->renew_op = 0;
    permit->attempts = 0;
    permit->valid_until_us = core->now_us + us(core->config.permit_ms);
    core->permits.chances++;
    send_permit_release(core, permit);
}

static bool permits_apply(const struct core *core)
{
    return core->shards[permits_shard(core)].breaker.state == BREAKER_CLOSED;
}

void permits_query_over(struct core *core, struct permit *permit)
{
    /* Only to a user's load: a refresh would pass those that users of other processes wait for. */
    bool may_pass_on = permit->queries < PERMIT_TURN_QUERIES && core->now_us < permit->turn_until_us &&
                       loads_wanted(core, core->loads.users_parts) > core->permits.in_state[PERMIT_READY];
    if (may_pass_on)
        move_permit(core, permit, PERMIT_READY);
    else
        give_back(core, permit);
}

/* ---- requesting ---- */

uint32_t permits_allow(struct core *core)
{
    /* A grant may have taken long to come, or we were stopped since; and nothing that has run out shall be used
     * because Redis has just gone. */
    struct permit *permit = NULL;
    while ((permit = permit_in(core, PERMIT_READY)) != NULL && core->now_us >= permit->valid_until_us)
        give_back(core, permit);
    return permits_apply(core) ? core->permits.in_state[PERMIT_READY] + core->permits.spared : UINT32_MAX;
}

struct permit *permits_use(struct core *core)
{
    struct permits *permits = &core->permits;
    struct permit *permit = permit_in(core, PERMIT_READY);
    if (permit != NULL) {
        move_permit(core, permit, PERMIT_USED);
        permit->queries++;
        return permit;
    }
    permits->spared -= permits->spared > 0;
    core->stats.permit_spared++;
    return NULL;
}

static void request_permit(struct core *core, bool more)
{
    struct permit *permit = permit_in(core, PERMIT_FREE);
    move_permit(core, permit, PERMIT_REQUESTED);
    core->config.make_token(core->config.token_context, core->config.permit_ms, permit->token);
    permit->background = core->permits.background;
    permit->more = more;
    permit->doubtful = permit->lost = false;
    permit->attempts = 0;
    send_permit_acquire(core, permit);
}

/* Nothing is wanted any more: no other process shall wait for our place in the queue. */
static void leave_permit_queue(struct core *core)
{
    struct permit *permit = permit_in(core, PERMIT_FREE);
    if (permit == NULL)
        return; /* the next reply is the next occasion */
    core->permits.in_queue = false;
    permit->token[0] = '\0';
    give_back(core, permit);
}

static void want_no_permits(struct core *core)
{
    struct permits *permits = &core->permits;
    permits->refused = false;
    permits->polls = permits->spared = 0;
    alarm_unset(&core->alarms, &permits->poll);
    if (permits->in_queue && permits->in_state[PERMIT_REQUESTED] == 0)
        leave_permit_queue(core);
    permits->chances = 0;
}

/* After a refusal a message will say when to; but a process that is neither in the queue nor about to enter it gets
 * none, so it requests a place. */
static bool may_request_permit(struct permits *permits)
{
    bool waits = permits->in_queue || permits->in_state[PERMIT_REQUESTED] > 0;
    if (permits->in_state[PERMIT_FREE] == 0 || (permits->refused && waits && permits->chances == 0))
        return false;
    permits->chances -= permits->chances > 0;
    return true;
}

static void set_permit_poll(struct core *core)
{
    struct permits *permits = &core->permits;
    uint32_t poll_ms =
        chance_backoff(&core->chance, PERMIT_POLL_FIRST_MS, PERMIT_POLL_MOST_MS, permits->polls);
    uint64_t at_us = core->now_us + us(poll_ms);
    if (permits->earliest_us > core->now_us)
        at_us = earlier_us(at_us, permits->earliest_us);
    alarm_set(&core->alarms, &permits->poll, at_us);
}

static uint32_t permits_requested_for_users(const struct permits *permits)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < permits->count && permits->in_state[PERMIT_REQUESTED] > 0; i++)
        count += permits->all[i].state == PERMIT_REQUESTED && !permits->all[i].background;
    return count;
}

static void want_permits(struct core *core, uint32_t wanted)
{
    struct permits *permits = &core->permits;
    uint32_t users = loads_wanted(core, core->loads.users_parts + core->loads.expected_parts);
    uint32_t requested = permits_requested_for_users(permits);
    uint32_t ready = permits->in_state[PERMIT_READY];
    bool background = users == 0 && requested == 0;
    if (permits->background && !background && permits->chances == 0)
        permits->chances = 1; /* a user has come: it does not wait behind refreshes */
    permits->background = background;
    uint32_t most = permits->background ? wanted : users;
    uint32_t have = ready + (permits->background ? permits->in_state[PERMIT_REQUESTED] : requested);
    uint32_t all = ready + permits->in_state[PERMIT_REQUESTED];
    for (; have < most && all < wanted && may_request_permit(permits); have++, all++)
        request_permit(core, have + 1 < most);
    if (permits->refused && permits->in_state[PERMIT_REQUESTED] == 0 && permits->poll.place == 0)
        set_permit_poll(core);
}

void permits_balance(struct core *core)
{
    struct permits *permits = &core->permits;
    bool apply = permits_apply(core) && !core->closed;
    uint32_t wanted = apply ? loads_wanted(core, core->loads.queued_parts + core->loads.expected_parts) : 0;
    while (permits->in_state[PERMIT_READY] > wanted)
        give_back(core, permit_in(core, PERMIT_READY));
    if (wanted > 0)
        want_permits(core, wanted);
    else
        want_no_permits(core);
    uint32_t waiting = apply ? loads_wanted(core, core->loads.queued_parts) : 0;
    const uint32_t ready = permits->in_state[PERMIT_READY];
    core->stats.permits_waiting = waiting > ready ? waiting - ready : 0;
}

/* ---- what came back ---- */

static void permit_granted(struct core *core, struct permit *permit, uint32_t further)
{
    struct permits *permits = &core->permits;
    uint64_t life_us = us(core->config.permit_ms);
    permits->in_queue = permit->more;
    permits->polls = 0;
    alarm_unset(&core->alarms, &permits->poll);
    permit->valid_until_us = permit->sent_us + life_us;
    permit->renew_at_us = permit->sent_us + life_us / 3;
    permit->turn_until_us = core->now_us + us(PERMIT_TURN_MS);
    permit->queries = 0;
    if (permits->chances < further)
        permits->chances = further;
    core->stats.permit_granted++;
    move_permit(core, permit, PERMIT_READY);
    set_permit_alarm(core, permit);
}

static void permit_refused(struct core *core, struct permit *permit, uint32_t earliest_ms)
{
    struct permits *permits = &core->permits;
    core->stats.permit_refused++;
    permits->refused = permits->in_queue = true;
    permits->earliest_us = core->now_us + us(earliest_ms) + us(PERMIT_POLL_GRACE_MS);
    move_permit(core, permit, PERMIT_FREE);
}

/* Whatever Redis says. */
static uint32_t clamp_count(int64_t number, uint32_t most)
{
    if (number < 0)
        return 0;
    return number < most ? (uint32_t)number : most;
}

/* For a user, if one has come for which nothing was requested. */
static void repeat_permit_request(struct core *core, struct permit *permit)
{
    struct permits *permits = &core->permits;
    if (loads_wanted(core, core->loads.users_parts) >
        permits->in_state[PERMIT_READY] + permits_requested_for_users(permits))
        permit->background = false;
    send_permit_acquire(core, permit);
}

static void permit_acquire_replied(struct core *core, struct permit *permit, const struct core_reply *reply)
{
    if (reply->kind == REPLY_UNKNOWN)
        permit->doubtful = core->permits.in_queue = true;
    if (reply->kind == REPLY_CODE && reply->code > 0)
        permit_granted(core, permit, clamp_count(reply->code - 1, core->config.max_loads));
    else if (reply->kind == REPLY_CODE)
        permit_refused(core, permit, clamp_count(-1 - reply->code, core->config.permit_ms));
    else if (reply->kind == REPLY_REFUSED || reply->kind == REPLY_MOVING ||
             permit->attempts >= PERMIT_ATTEMPTS_MAX || core->closed || !permits_apply(core)) {
        core->permits.spared++;
        if (permit->doubtful) /* what may have run, or may yet */
            give_back(core, permit);
        else
            move_permit(core, permit, PERMIT_FREE);
    } else {
        repeat_permit_request(core, permit);
    }
}

static void permit_release_replied(struct core *core, struct permit *permit, const struct core_reply *reply)
{
    bool answered = reply->kind == REPLY_CODE || reply->kind == REPLY_REFUSED;
    if (!answered && permit->attempts < PERMIT_RETURNS_MAX && core->now_us < permit->valid_until_us)
        send_permit_release(core, permit);
    else
        move_permit(core, permit, PERMIT_FREE);
}

static void permit_renew_replied(struct core *core, struct permit *permit, const struct core_reply *reply)
{
    permit->renew_op = 0;
    if (reply->kind == REPLY_CODE) {
        core->stats.permit_lost += reply->code == 0 && !permit->lost;
        if (reply->code == 0 || permit->lost)
            permit->turn_until_us = 0; /* there may be too many */
        permit->lost = false;
        permit->valid_until_us = permit->renew_sent_us + us(core->config.permit_ms);
    }
    set_permit_alarm(core, permit);
}

static struct permit *find_permit(const struct core *core, uint64_t op)
{
    const struct permits *permits = &core->permits;
    uint64_t id = op >> CORE_OP_BITS;
    if (permits->count == 0 || id < permits->all[0].id || id - permits->all[0].id >= permits->count)
        return NULL;
    return &permits->all[id - permits->all[0].id];
}

bool permits_replied(struct core *core, uint64_t op, const struct core_reply *reply)
{
    struct permit *permit = find_permit(core, op);
    if (permit == NULL)
        return false;
    if (op == permit->renew_op) {
        permit_renew_replied(core, permit, reply);
    } else if (op == permit->op) {
        permit->op = 0;
        if (permit->state == PERMIT_REQUESTED)
            permit_acquire_replied(core, permit, reply);
        else
            permit_release_replied(core, permit, reply);
    }
    return true;
}

/* ---- messages and time ---- */

void permits_freed(struct core *core, const char *waiter, size_t waiter_bytes)
{
    struct permits *permits = &core->permits;
    bool ours = permits->all != NULL && waiter_bytes == TOKEN_UUID_BYTES &&
                memcmp(waiter, permits->waiter, TOKEN_UUID_BYTES) == 0;
    if (ours && permits->chances < core->config.max_loads)
        permits->chances++;
}

void permits_alarm(struct core *core, struct permit *permit)
{
    if (!permit->lost && core->now_us >= permit->valid_until_us) {
        permit->lost = true;
        core->stats.permit_lost++;
    }
    if (permit->renew_op == 0 && core->now_us >= permit->renew_at_us) {
        permit->renew_op = send_of_permit(core, permit, CORE_PERMIT_RENEW);
        permit->renew_sent_us = core->now_us;
        permit->renew_at_us = core->now_us + us(core->config.permit_ms) / 3;
    }
    set_permit_alarm(core, permit);
}

void permits_poll(struct core *core)
{
    core->permits.polls++;
    if (core->permits.chances == 0)
        core->permits.chances = 1;
}

void permits_resync(struct core *core)
{
    struct alarm *poll = &core->permits.poll;
    uint64_t at_us = core->now_us + chance_below(&core->chance, us(PERMIT_RESYNC_MS));
    if (poll->place != 0 && at_us < poll->at_us)
        alarm_set(&core->alarms, poll, at_us);
}

void permits_linked(struct core *core, unsigned shard)
{
    if (!permits_exist(core) || shard != permits_shard(core))
        return;
    for (uint32_t i = 0; i < core->permits.count; i++) {
        struct permit *permit = &core->permits.all[i];
        if (permit->state != PERMIT_READY && permit->state != PERMIT_USED)
            continue;
        permit->renew_at_us = core->now_us;
        set_permit_alarm(core, permit);
    }
}
