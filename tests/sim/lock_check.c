/* SPDX-License-Identifier: MIT */
/*
 * lock_check.c - the oracle in the processes: what they send, answer and believe.
 *
 * Alone        no two holds that are valid, each by its own process's clock, take more units of a name than there
 *              are; unless the server has lost or shortened one of them (its memory, its clock ahead) and no renewal
 *              has told since; one third of a lease and a round trip later one has
 * Validity     no hold is believed in beyond the lease, less 1 % and 2 ms, counted from the sending of what confirmed
 *              it
 * Lost         is told once, never of what was given back, and `warn` before the validity ends, unless the server has
 *              said that it is gone; and not without a reason
 * Once         a request is answered once, in time, with what can be true; one that is denied for good, at once; an
 *              action is for a claim that lives
 * Rest         when the faults are over, everything ends: no request, hold, claim or alarm is left
 */
#include "lock_sim.h"

#include <string.h>

enum { SLACK_US = 1000 };

static uint32_t number_of(const struct lock_sim *sim, const struct lock_client *client)
{
    return (uint32_t)(client - sim->client);
}

/* Alarms, and what is told at the end of a turn. */
static uint64_t late_us_of(const struct lock_sim *sim)
{
    return sim->params.tick_late_us + sim->params.turn_us;
}

static const char *action_of(enum lock_action_kind kind)
{
    static const char *const names[] = {"asks for", "renews", "gives back", "keeps the place of"};
    return names[kind];
}

/* It has only just come back: what it finds first need not be its alarms. */
static bool has_slept(const struct lock_sim *sim, const struct lock_process *process)
{
    return process->stalled_until_us != 0 &&
           process->stalled_until_us + SLACK_US + late_us_of(sim) > sim->course.now_us;
}

/* ---- what is sent ---- */

static void check_names(struct lock_sim *sim, const struct lock_token *token,
                        const struct lock_command *command)
{
    bool same = token->count == command->action.count;
    for (size_t i = 0; same && i < token->count; i++)
        same = token->name[i] == command->name[i];
    if (!same)
        lock_sim_fail(sim, "p%u %s t%u, of other names than before", command->process,
                      action_of(command->action.kind), command->token);
}

static void note_take(struct lock_token *token, const struct lock_command *command)
{
    const struct lock_action *action = &command->action;
    token->kind = action->lock;
    token->place_ms = action->place_ms;
    token->overtakes = action->overtakes;
    token->count = action->count;
    memcpy(token->name, command->name, sizeof token->name);
    token->asked = true;
    token->state = LOCK_TOKEN_ASKING;
}

static bool is_renewed_rightly(const struct lock_sim *sim, uint32_t token, uint64_t now_us)
{
    for (uint32_t i = 0; i < sim->held_count; i++) {
        const struct lock_client *client = &sim->client[sim->held[i]];
        uint64_t until_us = client->granted_us + (uint64_t)client->request.hold_ms * 1000;
        until_us += late_us_of(sim) + SLACK_US;
        if (client->given || (client->request.hold_ms != 0 && now_us > until_us))
            continue;
        for (size_t n = 0; n < client->request.count; n++)
            if (client->token[n] == token)
                return true;
    }
    return false;
}

/* A request for several names that has some of them: taken before the others, or shared with its owner's hold. Or one
 * that has been granted and is told at the end of the turn. */
static bool is_wanted(const struct lock_sim *sim, const struct lock_token *token)
{
    for (uint32_t i = 0; i < sim->clients; i++) {
        const struct lock_client *client = &sim->client[i];
        if (client->life == token->life && client->open &&
            (client->request.count > 1 || sim->params.turn_us > 0))
            return true;
    }
    return false;
}

static void check_renewal(struct lock_sim *sim, const struct lock_command *command)
{
    const struct lock_process *process = &sim->process[command->process];
    if (sim->token[command->token].heard_us == sim->course.now_us)
        return; /* late, and the request is about to be answered */
    if (!has_slept(sim, process) && !is_wanted(sim, &sim->token[command->token]) &&
        !is_renewed_rightly(sim, command->token, command->sent_local_us))
        lock_sim_fail(sim, "p%u renews t%u, which nobody holds any more", command->process, command->token);
}

/* It may have stopped waiting a moment ago, in the same turn: saying that it waits creates nothing. */
static void check_stay(struct lock_sim *sim, const struct lock_command *command)
{
    if (!sim->params.stays)
        lock_sim_fail(sim, "p%u keeps places where that is not known", command->process);
    for (size_t i = 0; i < command->action.token_count; i++) {
        const struct lock_token *token = &sim->token[command->tokens[i]];
        bool waits = token->state != LOCK_TOKEN_NEW && token->state != LOCK_TOKEN_OVER;
        if (!waits || token->life != command->life || !lock_token_is_of(token, command->name[0]))
            lock_sim_fail(sim, "p%u keeps the place of t%u, which has none", command->process,
                          command->tokens[i]);
    }
}

static bool may_be_sent(const struct lock_token *token, enum lock_action_kind kind, uint64_t now_us)
{
    switch (kind) {
    case LOCK_TAKE:
        return token->state == LOCK_TOKEN_NEW || token->state == LOCK_TOKEN_WAITING;
    case LOCK_RENEW:
        return token->state == LOCK_TOKEN_HELD;
    case LOCK_GIVE:
        /* what ends it may be heard when its request is over, which is noticed first */
        return token->state != LOCK_TOKEN_NEW &&
               (token->state != LOCK_TOKEN_OVER || token->over_us == now_us);
    case LOCK_STAY:
        break;
    }
    return false;
}

static void note_give(struct lock_sim *sim, struct lock_token *token)
{
    uint64_t now_us = sim->course.now_us;
    if (token->gave_us == 0 && now_us != sim->process[token->process].connected_us)
        token->gave_first_us = now_us;
    token->state = LOCK_TOKEN_GIVEN;
    token->gave_us = now_us;
}

void lock_check_sent(struct lock_sim *sim, const struct lock_command *command)
{
    static const char *const states[] = {"new", "being asked for", "waiting", "held", "given back", "over"};
    struct lock_token *token = &sim->token[command->token];
    enum lock_action_kind kind = command->action.kind;
    if (kind == LOCK_STAY) {
        check_stay(sim, command);
        return;
    }
    if (token->life != command->life || !may_be_sent(token, kind, sim->course.now_us))
        lock_sim_fail(sim, "p%u %s t%u, which is %s", command->process, action_of(kind), command->token,
                      states[token->state]);
    if (token->asked)
        check_names(sim, token, command);
    if (kind == LOCK_GIVE && token->state == LOCK_TOKEN_WAITING)
        lock_tokens_check_prompt(sim, token);
    if (kind == LOCK_GIVE)
        note_give(sim, token);
    if (kind == LOCK_TAKE)
        note_take(token, command);
    if (kind == LOCK_RENEW) {
        token->renewals_out++;
        check_renewal(sim, command);
    }
}

/* ---- what is answered ---- */

static uint64_t rightly_valid_us(const struct lock_token *token, const struct lock_command *command)
{
    return command->sent_local_us + (uint64_t)token->lease_ms * 990 - 2000;
}

static void take_replied(struct lock_sim *sim, struct lock_token *token, const struct lock_command *command,
                         const struct lock_reply *reply)
{
    if (reply->kind == LOCK_GRANTED) {
        memcpy(token->fence, reply->fence, sizeof token->fence);
        token->valid_us = rightly_valid_us(token, command);
        token->not_held = false;
        token->heard_us = sim->course.now_us;
        sim->seen[LOCK_SEEN_LATE_GRANT] +=
            lock_process_now_us(&sim->process[command->process]) >= token->valid_us;
    }
    if (reply->kind == LOCK_IMPOSSIBLE && token->state == LOCK_TOKEN_ASKING) {
        struct lock_process *process = &sim->process[command->process];
        process->denials += token->units > 0;
        process->denied_us = sim->course.now_us;
    }
    token->doubt = token->doubt || reply->kind == LOCK_UNANSWERED;
    if (token->state == LOCK_TOKEN_OVER && reply->kind == LOCK_GRANTED)
        token->state = LOCK_TOKEN_GIVEN; /* several masters answer in any order: it is given back again */
    if (token->state != LOCK_TOKEN_ASKING)
        return;
    bool over = reply->kind == LOCK_GONE || (reply->kind == LOCK_GRANTED && token->kind == GUARD_LOCK_LATCH);
    if (over)
        token->over_us = sim->course.now_us;
    token->state = over                          ? LOCK_TOKEN_OVER
                   : reply->kind == LOCK_GRANTED ? LOCK_TOKEN_HELD
                                                 : LOCK_TOKEN_WAITING;
}

void lock_check_replied(struct lock_sim *sim, const struct lock_command *command,
                        const struct lock_reply *reply)
{
    struct lock_token *token = &sim->token[command->token];
    switch (command->action.kind) {
    case LOCK_TAKE:
        take_replied(sim, token, command, reply);
        break;
    case LOCK_RENEW:
        token->renewals_out--;
        token->not_held = token->not_held || reply->kind == LOCK_NOT_HELD;
        sim->seen[LOCK_SEEN_RENEWED] += reply->kind == LOCK_DONE;
        if (reply->kind == LOCK_DONE && rightly_valid_us(token, command) > token->valid_us)
            token->valid_us = rightly_valid_us(token, command);
        break;
    case LOCK_GIVE:
        if (reply->kind == LOCK_DONE || reply->kind == LOCK_NOT_HELD)
            token->state = LOCK_TOKEN_OVER;
        break;
    case LOCK_STAY:
        break;
    }
}

/* What was given back without an answer is given back again. */
void lock_check_linked(struct lock_sim *sim, const struct lock_process *process)
{
    for (uint32_t i = 0; i < sim->tokens; i++) {
        const struct lock_token *token = &sim->token[i];
        uint64_t ends_us = token->gave_first_us + (uint64_t)token->lease_ms * 980;
        bool open = token->life == process->life && token->state == LOCK_TOKEN_GIVEN;
        if (open && token->gave_first_us != 0 && sim->course.now_us + SLACK_US < ends_us &&
            token->gave_us != sim->course.now_us && !has_slept(sim, process))
            lock_sim_fail(sim, "p%u can be answered again and does not give back t%u", process->index, i);
    }
}

/* ---- requests ---- */

/* Under its owner's own READ it is refused, at once or when that is granted. */
static bool is_exclusive(const struct lock_client *client)
{
    return client->request.kind <= GUARD_LOCK_WRITE;
}

void lock_check_refused(struct lock_sim *sim, const struct lock_client *client, enum guard_lock_status status)
{
    const struct lock_process *process = &sim->process[client->process];
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < sim->clients; i++)
        waiting += sim->client[i].open && sim->client[i].life == client->life;
    bool right = (status == GUARD_LOCK_CLOSING && process->closing) ||
                 (status == GUARD_LOCK_SHED && waiting >= sim->params.max_requests) ||
                 (status == GUARD_LOCK_INVALID && is_exclusive(client) && client->owner != 0);
    sim->seen[LOCK_SEEN_REFUSED]++;
    lock_sim_trace(sim, "p%u  refuses #%u: %s", client->process, number_of(sim, client),
                   lock_status_names[status]);
    if (!right || client->probe)
        lock_sim_fail(sim, "p%u refuses #%u with %s, and %u wait", client->process, number_of(sim, client),
                      lock_status_names[status], waiting);
}

static void check_in_time(struct lock_sim *sim, const struct lock_client *client)
{
    const struct lock_process *process = &sim->process[client->process];
    enum guard_lock_status status = client->request.result.status;
    uint64_t now_us = sim->course.now_us, deadline_us = client->deadline_us;
    bool timed_out = status == GUARD_LOCK_BUSY || status == GUARD_LOCK_UNREACHABLE;
    if (deadline_us != UINT64_MAX && now_us > deadline_us + late_us_of(sim) + SLACK_US &&
        !has_slept(sim, process))
        lock_sim_fail(sim, "#%u is answered %llu us after its deadline", number_of(sim, client),
                      (unsigned long long)(now_us - deadline_us));
    if (timed_out && !client->request.once && now_us + SLACK_US < deadline_us)
        lock_sim_fail(sim, "#%u is %s before its deadline", number_of(sim, client),
                      lock_status_names[status]);
}

static bool shares_with(const struct lock_client *client, const struct lock_client *other)
{
    bool permits = client->request.kind == GUARD_LOCK_PERMITS || other->request.kind == GUARD_LOCK_PERMITS;
    return client->owner != 0 && client->owner == other->owner && !permits;
}

/* Holds that have this claim, and, if they are `strangers`, share nothing with this one. */
static bool has_others(const struct lock_sim *sim, const struct lock_client *client, uint32_t token,
                       bool strangers)
{
    for (uint32_t i = 0; i < sim->held_count; i++) {
        const struct lock_client *other = &sim->client[sim->held[i]];
        if (other == client || other->given || (strangers && shares_with(client, other)))
            continue;
        for (size_t n = 0; n < other->request.count; n++)
            if (other->token[n] == token)
                return true;
    }
    return false;
}

static uint32_t least_units(const struct lock_request *request)
{
    if (request->kind == GUARD_LOCK_PERMITS)
        return request->units;
    return request->kind == GUARD_LOCK_READ ? 1 : LOCK_ALL;
}

/* The claim of this name that was granted with this number, for as much as it asked for; another's only if they are
 * of one owner. */
static bool find_token(const struct lock_sim *sim, const struct lock_client *client, uint32_t name,
                       uint64_t fence, uint32_t *out)
{
    const struct lock_token *found =
        NULL; /* after a fault two may have the same number: the last that was heard of */
    for (uint32_t i = sim->tokens; i > 0; i--) {
        const struct lock_token *token = &sim->token[i - 1];
        bool held = token->state == LOCK_TOKEN_HELD && !token->not_held;
        if (token->life != client->life || token->units < least_units(&client->request) ||
            !(held || client->hold.is_lost))
            continue;
        if (has_others(sim, client, i - 1, true))
            continue;
        for (size_t n = 0; n < token->count; n++)
            if (token->name[n] == name && token->fence[n] == fence &&
                (found == NULL || token->heard_us > found->heard_us))
                found = token;
    }
    if (found != NULL)
        *out = (uint32_t)(found - sim->token);
    return found != NULL;
}

static uint64_t warn_us(const struct lock_sim *sim, const struct lock_client *client, bool most)
{
    uint64_t lease_ms = sim->token[client->token[0]].lease_ms;
    for (size_t i = 1; i < client->request.count; i++) {
        uint64_t other_ms = sim->token[client->token[i]].lease_ms;
        lease_ms = most == (other_ms > lease_ms) ? other_ms : lease_ms;
    }
    return sim->params.warn_ms != 0 ? (uint64_t)sim->params.warn_ms * 1000 : (lease_ms * 990 - 2000) / 6;
}

/* A grant that is nearly over is none. One that is shared may be. */
static void check_worth(struct lock_sim *sim, const struct lock_client *client)
{
    uint64_t now_us = lock_process_now_us(&sim->process[client->process]);
    uint64_t until_us = client->hold.valid_until_us;
    if (client->request.hold != NULL && client->owner == 0 && sim->params.turn_us == 0 &&
        sim->params.all_at_once && until_us < now_us + warn_us(sim, client, false))
        lock_sim_fail(sim, "#%u is granted for %lld us", number_of(sim, client),
                      (long long)(until_us - now_us));
}

static void check_granted(struct lock_sim *sim, struct lock_client *client)
{
    const struct lock_request *request = &client->request;
    for (size_t i = 0; i < request->count && request->kind != GUARD_LOCK_LATCH; i++) {
        if (!find_token(sim, client, client->index[i], request->result.fence[i], &client->token[i])) {
            lock_sim_fail(sim, "#%u of p%u is granted %s with %llu, which nobody gave it",
                          number_of(sim, client), client->process, client->name[i].encoded,
                          (unsigned long long)request->result.fence[i]);
            return;
        }
        sim->seen[LOCK_SEEN_REENTERED] += has_others(sim, client, client->token[i], false);
    }
    check_worth(sim, client);
    sim->seen[LOCK_SEEN_LATCHED] += request->kind == GUARD_LOCK_LATCH;
    sim->seen[LOCK_SEEN_SEVERAL] += request->count > 1;
    sim->seen[request->was_refused ? LOCK_SEEN_WAITED : LOCK_SEEN_GRANTED]++;
}

static void check_latch_busy(struct lock_sim *sim, const struct lock_client *client)
{
    enum { SOON_US = 1000000 };
    uint64_t opened_us = sim->server.opened_us[client->index[0] - LOCK_SIM_NAMES];
    uint64_t since_us = opened_us > client->start_us ? opened_us : client->start_us;
    if (sim->params.calm && opened_us != 0 && !client->request.once &&
        sim->course.now_us > since_us + SOON_US)
        lock_sim_fail(sim, "#%u waits for %s, which is open", number_of(sim, client),
                      client->name[0].encoded);
}

/* Not even for one round trip; a reply may be held up for half the limit. */
static bool had_no_time(const struct lock_sim *sim, const struct lock_client *client)
{
    uint64_t span_us = (uint64_t)sim->params.latency_us * 3 + (uint64_t)sim->params.limit_ms * 500;
    return client->deadline_us < client->start_us + span_us + SLACK_US;
}

/* True: it was denied for good, and is told at once. */
static bool is_denied(struct lock_sim *sim, const struct lock_client *client)
{
    struct lock_process *process = &sim->process[client->process];
    const struct guard_lock_result *result = &client->request.result;
    if (result->status != GUARD_LOCK_INVALID || result->why == NULL ||
        strcmp(result->why, LOCK_SIM_DENIED) != 0)
        return false;
    process->told_denials +=
        client->request.units > 0; /* who only looks at a latch leaves it without a word */
    return process->told_denials <= process->denials &&
           sim->course.now_us <= process->denied_us + late_us_of(sim) + SLACK_US;
}

void lock_check_answer(struct lock_sim *sim, struct lock_client *client)
{
    enum guard_lock_status status = client->request.result.status;
    const struct lock_process *process = &sim->process[client->process];
    uint32_t index = number_of(sim, client);
    sim->answers[status]++;
    course_note(&sim->course, (uint64_t)index << 32 | status);
    course_note(&sim->course, client->request.result.fence[0]);
    if (client->answers != 1)
        lock_sim_fail(sim, "#%u is answered %u times", index, client->answers);
    check_in_time(sim, client);
    bool denied = is_denied(sim, client); /* counts */
    bool right =
        denied || status == GUARD_LOCK_OK || (status == GUARD_LOCK_CANCELLED && client->cancelled) ||
        (status == GUARD_LOCK_CLOSING && process->closing) ||
        (status == GUARD_LOCK_BUSY && (client->request.once || client->request.deadline_us != UINT64_MAX)) ||
        (status == GUARD_LOCK_INVALID && is_exclusive(client) && client->owner != 0) ||
        (status == GUARD_LOCK_UNREACHABLE && (!sim->params.calm || had_no_time(sim, client)));
    if (!right || (client->probe && status != GUARD_LOCK_OK))
        lock_sim_fail(sim, "#%u of p%u: %s", index, client->process, lock_status_names[status]);
    if (status == GUARD_LOCK_OK)
        check_granted(sim, client);
    if (status == GUARD_LOCK_BUSY && client->request.kind == GUARD_LOCK_LATCH)
        check_latch_busy(sim, client);
}

/* ---- holds ---- */

static bool has_reason(const struct lock_sim *sim, const struct lock_client *client)
{
    if (client->owner_gone || sim->process[client->process].closing)
        return true;
    for (size_t i = 0; i < client->request.count; i++)
        if (sim->token[client->token[i]].not_held)
            return true;
    return false;
}

/* By its own hold_ms, or because it came to a hold whose renewals had stopped, too late for another one. */
static bool may_end(const struct lock_sim *sim, const struct lock_client *client)
{
    for (uint32_t i = 0; i < sim->held_count; i++) {
        const struct lock_client *other = &sim->client[sim->held[i]];
        if (other->request.hold_ms != 0 && (other == client || shares_with(client, other)))
            return true;
    }
    return false;
}

void lock_check_lost(struct lock_sim *sim, const struct lock_client *client)
{
    const struct lock_process *process = &sim->process[client->process];
    uint32_t index = number_of(sim, client);
    uint64_t now_us = lock_process_now_us(process);
    uint64_t left_us = client->valid_until_us > now_us ? client->valid_until_us - now_us : 0;
    uint64_t late_us = late_us_of(sim) * 2 + SLACK_US;
    sim->seen[LOCK_SEEN_LOST]++;
    if (client->lost || client->given || !client->holds)
        lock_sim_fail(sim, "#%u is told to be lost%s", index,
                      client->lost ? " twice" : " and was given back");
    if (client->hold.why == NULL)
        lock_sim_fail(sim, "#%u is lost for no reason", index);
    if (has_reason(sim, client))
        return;
    sim->seen[LOCK_SEEN_LOST_EARLY]++;
    if (sim->params.calm && !may_end(sim, client))
        lock_sim_fail(sim, "#%u is lost although nothing is wrong", index);
    bool seen = client->valid_until_us != 0; /* else it was over when it was granted, with what it shares */
    if (seen && left_us + late_us < warn_us(sim, client, false) && !has_slept(sim, process))
        lock_sim_fail(sim, "#%u is told only %llu us before it ends", index, (unsigned long long)left_us);
    if (left_us > warn_us(sim, client, true) + SLACK_US)
        lock_sim_fail(sim, "#%u is given up %llu us before it ends", index, (unsigned long long)left_us);
}

void lock_check_given(struct lock_sim *sim, const struct lock_client *client)
{
    enum guard_lock_status given = client->hold.given;
    bool known = given == GUARD_LOCK_OK || given == GUARD_LOCK_LOST || given == GUARD_LOCK_UNKNOWN;
    sim->seen[LOCK_SEEN_GAVE_LOST] += given == GUARD_LOCK_LOST;
    sim->seen[LOCK_SEEN_GAVE_UNKNOWN] += given == GUARD_LOCK_UNKNOWN;
    if (!client->given || client->is_back || !known)
        lock_sim_fail(sim, "#%u is told to be given back%s: %s", number_of(sim, client),
                      client->is_back ? " twice" : "", lock_status_names[given]);
    if (sim->params.calm && !client->lost && !has_reason(sim, client) && given != GUARD_LOCK_OK)
        lock_sim_fail(sim, "#%u is given back, %s, although nothing is wrong", number_of(sim, client),
                      lock_status_names[given]);
}

/* Also once it is told that it will be lost: that is the time to stop in. */
static bool is_valid(const struct lock_sim *sim, const struct lock_client *client)
{
    return client->holds && !client->given &&
           client->hold.valid_until_us > lock_process_now_us(&sim->process[client->process]);
}

/* Counts a claim once, however many share it. */
static bool is_counted(uint32_t *counted, size_t *count, uint32_t token)
{
    for (size_t i = 0; i < *count; i++)
        if (counted[i] == token)
            return true;
    counted[(*count)++] = token;
    return false;
}

static void check_alone(struct lock_sim *sim, const struct lock_client *client, size_t at)
{
    static uint32_t counted[LOCK_SIM_REQUESTS * GUARD_LOCK_NAMES_MAX];
    const struct lock_token *token = &sim->token[client->token[at]];
    uint32_t name = client->index[at];
    uint64_t units = token->units, limit = token->limit, excused = token->damaged_us != 0;
    size_t count = 0;
    const struct lock_client *beside = NULL;
    is_counted(counted, &count, client->token[at]);
    for (uint32_t i = 0; i < sim->held_count; i++) {
        const struct lock_client *other = &sim->client[sim->held[i]];
        for (size_t n = 0; is_valid(sim, other) && n < other->request.count; n++) {
            const struct lock_token *its = &sim->token[other->token[n]];
            if (other->index[n] != name || is_counted(counted, &count, other->token[n]))
                continue;
            units += its->damaged_us == 0 ? its->units : 0;
            limit = its->limit > limit ? its->limit : limit; /* permits are nothing to a reader */
            excused += its->damaged_us != 0;
            beside = other;
        }
    }
    sim->seen[LOCK_SEEN_TOGETHER] += beside != NULL && excused == 0;
    sim->seen[LOCK_SEEN_EXCUSED] += excused != 0 && beside != NULL;
    if (token->damaged_us == 0 && units > limit)
        lock_sim_fail(sim, "#%u of p%u and #%u of p%u hold %s at once, %llu units of %llu",
                      number_of(sim, client), client->process, number_of(sim, beside), beside->process,
                      lock_sim_name(name), (unsigned long long)units, (unsigned long long)limit);
}

/* The server has forgotten it: its process has to hear of that. */
static void check_told(struct lock_sim *sim, const struct lock_client *client, const struct lock_token *token)
{
    const struct lock_process *process = &sim->process[client->process];
    uint64_t span_us = (uint64_t)token->lease_ms * (client->request.hold_ms != 0 ? 1000 : 420);
    span_us += (uint64_t)sim->params.limit_ms * 2000;
    uint64_t from_us = token->damaged_us;
    from_us = process->disturbed_us > from_us ? process->disturbed_us : from_us;
    from_us = sim->server.disturbed_us > from_us ? sim->server.disturbed_us : from_us;
    bool is_new = lock_process_now_us(process) <= client->granted_us + span_us; /* re-entered, and renewed */
    if (token->damaged_us != 0 && sim->course.now_us > from_us + span_us && process->link_up && !is_new &&
        !has_slept(sim, process))
        lock_sim_fail(sim, "#%u of p%u goes on for %llu us, and the server has forgotten it",
                      number_of(sim, client), client->process,
                      (unsigned long long)(sim->course.now_us - token->damaged_us));
}

static void check_hold(struct lock_sim *sim, struct lock_client *client)
{
    const struct lock_process *process = &sim->process[client->process];
    uint64_t now_us = lock_process_now_us(process), until_us = client->hold.valid_until_us;
    bool longer = until_us > client->valid_until_us;
    for (size_t i = 0; i < client->request.count; i++) {
        const struct lock_token *token = &sim->token[client->token[i]];
        if (until_us > token->valid_us)
            lock_sim_fail(sim, "#%u of p%u believes in t%u for %llu us too long", number_of(sim, client),
                          client->process, client->token[i],
                          (unsigned long long)(until_us - token->valid_us));
        if (longer && is_valid(sim, client))
            check_alone(sim, client, i);
        if (sim->params.masters == 0) /* of several masters, those that know may not be reached */
            check_told(sim, client, token);
    }
    client->valid_until_us = until_us;
    if (now_us > until_us + late_us_of(sim) + SLACK_US && !has_slept(sim, process))
        lock_sim_fail(sim, "#%u of p%u is over, and nobody was told", number_of(sim, client),
                      client->process);
}

void lock_check_holds(struct lock_sim *sim, const struct lock_process *process)
{
    for (uint32_t i = 0; i < sim->held_count && !sim->course.failed; i++) {
        struct lock_client *client = &sim->client[sim->held[i]];
        if (client->life == process->life && !client->given && !client->hold.is_lost)
            check_hold(sim, client);
    }
}

/* ---- the end ---- */

static void check_core(struct lock_sim *sim, const struct lock_process *process)
{
    struct guard_locks_stats stats = {0};
    lock_core_stats(process->core, &stats);
    if (stats.waiting != 0 || stats.held != 0)
        lock_sim_fail(sim, "p%u is at rest and counts %llu that wait, %llu held", process->index,
                      (unsigned long long)stats.waiting, (unsigned long long)stats.held);
    if (!lock_core_idle(process->core))
        lock_sim_fail(sim, "p%u is at rest, but its core is not idle", process->index);
    if (process->told_denials != process->denials)
        lock_sim_fail(sim, "p%u heard %u times that it may not, and told %u", process->index,
                      process->denials, process->told_denials);
    if (lock_core_next_us(process->core) != UINT64_MAX)
        lock_sim_fail(sim, "p%u is at rest, but its core has an alarm set", process->index);
}

/* Nothing of it stands at the server, as far as its process can know. */
static bool is_over(const struct lock_token *token)
{
    bool stood = token->doubt || (token->kind == GUARD_LOCK_LATCH ? token->units > 0 : token->place_ms > 0);
    switch (token->state) {
    case LOCK_TOKEN_NEW:
    case LOCK_TOKEN_GIVEN:
    case LOCK_TOKEN_OVER:
        return true;
    case LOCK_TOKEN_WAITING:
        return !stood;
    case LOCK_TOKEN_HELD:
        return token->not_held;
    case LOCK_TOKEN_ASKING:
        break;
    }
    return false;
}

void lock_check_rest(struct lock_sim *sim)
{
    for (uint32_t i = 0; i < sim->clients; i++)
        if (sim->client[i].open || sim->client[i].holds)
            lock_sim_fail(sim, "#%u of p%u was never %s", i, sim->client[i].process,
                          sim->client[i].open ? "answered" : "given back");
    for (uint32_t i = 0; i < sim->tokens; i++) {
        const struct lock_token *token = &sim->token[i];
        bool lives = sim->process[token->process].life == token->life;
        if (lives && sim->params.calm && token->asked && !is_over(token))
            lock_sim_fail(sim, "t%u of p%u is left behind", i, token->process);
    }
    for (uint32_t i = 0; i < sim->params.processes; i++)
        if (lock_process_runs(&sim->process[i]))
            check_core(sim, &sim->process[i]);
}

void lock_check_end(struct lock_sim *sim)
{
    const char *left = lock_server_rest(sim);
    lock_check_rest(sim);
    if (left != NULL)
        lock_sim_fail(sim, "%s is left at the server", left);
}
