/* SPDX-License-Identifier: MIT */
/*
 * lock_tokens.c - the oracle at the server: what a claim has there, as far as the commands that ran can have brought
 * it.
 *
 * Order        no claim but a MUTEX is granted past one that came before it, keeps its place, and does not fit beside
 *              it
 * Place        one whose process runs and is answered keeps its place
 * Number       every grant has a higher number than all before it of its name, unless the counter was lost while the
 *              clock stood behind
 * Dead         a take that runs after its claim was given back takes nothing, while the tombstone stands
 * Prompt       where nothing is wrong, no claim waits once nothing stands in its way: 50 ms and the round trips after
 *              something was given back or ran out; without messages, until the next poll
 * Quorum       of several masters, a hold that fewer than a quorum still have is damaged, as one that Redis has
 *              forgotten
 * Hand-over    costs a crowd four commands and one for each process, and what time makes its processes ask anyhow
 */
#include "lock_sim.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDING_US = 2000 }; /* Redis counts whole milliseconds */

/* ---- tokens ---- */

void lock_tokens_make(void *context, uint32_t units, uint32_t limit, uint32_t lease_ms,
                      char token[LOCK_TOKEN_SIZE])
{
    const struct lock_process *process = context;
    struct lock_sim *sim = process->sim;
    if (sim->tokens == LOCK_SIM_TOKENS) {
        lock_sim_fail(sim, "more than %d tokens", LOCK_SIM_TOKENS);
        sim->tokens--;
    }
    struct lock_token *made = &sim->token[sim->tokens++];
    *made = (struct lock_token){.process = process->index, .life = process->life};
    made->units = units;
    made->limit = limit;
    made->lease_ms = lease_ms;
    snprintf(made->text, sizeof made->text, "%08x-0000-4000-8000-000000000000 %07u %07u %08u p%u",
             sim->tokens - 1, units, limit, lease_ms, process->index);
    memcpy(token, made->text, sizeof made->text);
}

uint32_t lock_tokens_find(struct lock_sim *sim, const char *text)
{
    uint32_t index = 0;
    for (int i = 0; i < 8; i++)
        index = index * 16 + (uint32_t)(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);
    if (index >= sim->tokens) {
        lock_sim_fail(sim, "a token that nobody has made: %s", text);
        return 0;
    }
    return index;
}

bool lock_token_is_of(const struct lock_token *token, uint32_t name)
{
    for (size_t i = 0; i < token->count; i++)
        if (token->name[i] == name)
            return true;
    return false;
}

static uint32_t index_of(const struct lock_sim *sim, const struct lock_token *token)
{
    return (uint32_t)(token - sim->token);
}

static bool holds_there(const struct lock_sim *sim, const struct lock_token *token)
{
    return token->given_us == 0 && token->until_us > sim->course.now_us;
}

static bool stands_there(const struct lock_sim *sim, const struct lock_token *token)
{
    return token->given_us == 0 && token->order != 0 && token->place_until_us > sim->course.now_us;
}

/* ---- its place ---- */

/* Since the last time that it was renewed, whatever was wrong has kept its process from doing so again. */
static bool was_disturbed(const struct lock_sim *sim, const struct lock_token *token)
{
    const struct lock_process *process = &sim->process[token->process];
    uint64_t since_us = token->place_until_us - (uint64_t)token->place_ms * 1000;
    return process->life != token->life || process->disturbed_us >= since_us ||
           process->stalled_until_us >= since_us || sim->server.disturbed_us >= since_us;
}

/* It says that it still waits. False: its place is gone. */
static bool keep_place(struct lock_sim *sim, struct lock_token *token)
{
    uint64_t now_us = sim->course.now_us;
    if (now_us + ROUNDING_US > token->place_until_us)
        token->excused = true;
    if (now_us > token->place_until_us + ROUNDING_US) {
        sim->seen[LOCK_SEEN_PLACE_LOST]++;
        if (!was_disturbed(sim, token) && token->state != LOCK_TOKEN_GIVEN)
            lock_sim_fail(sim, "p%u runs and lets the place of t%u end, by %llu us", token->process,
                          index_of(sim, token), (unsigned long long)(now_us - token->place_until_us));
        token->order = 0;
        return false;
    }
    token->place_until_us = now_us + (uint64_t)token->place_ms * 1000;
    return true;
}

static void queue(struct lock_sim *sim, struct lock_token *token)
{
    if (token->order != 0 && keep_place(sim, token))
        return;
    token->order = ++sim->server.orders;
    token->place_until_us = sim->course.now_us + (uint64_t)token->place_ms * 1000;
}

/* ---- order ---- */

static bool is_before(const struct lock_token *other, const struct lock_token *token)
{
    return other->order != 0 && (token->order == 0 || other->order < token->order);
}

static void check_order(struct lock_sim *sim, const struct lock_token *token, uint32_t name)
{
    uint64_t units = token->units;
    const struct lock_token *first = NULL;
    for (uint32_t i = 0; i < sim->tokens; i++) {
        const struct lock_token *other = &sim->token[i];
        if (other == token || !lock_token_is_of(other, name))
            continue;
        bool waits = stands_there(sim, other) && is_before(other, token) && !other->excused &&
                     other->place_until_us > sim->course.now_us + ROUNDING_US;
        if (waits && first == NULL)
            first = other;
        bool held =
            !waits && holds_there(sim, other) && lock_server_until_us(sim, other) > sim->course.now_us;
        units +=
            waits || held ? other->units : 0; /* a clock that stepped back may have been made good by now */
    }
    if (first == NULL || units <= token->limit || token->excused)
        return;
    if (token->overtakes)
        sim->seen[LOCK_SEEN_OVERTAKEN]++;
    else
        lock_sim_fail(sim, "t%u of p%u is granted %s past t%u of p%u, which came before it: %llu units of %u",
                      index_of(sim, token), token->process, lock_sim_name(name), index_of(sim, first),
                      first->process, (unsigned long long)units, token->limit);
}

/* ---- promptness ---- */

static uint64_t later(uint64_t one, uint64_t other, uint64_t now_us)
{
    return other <= now_us && other > one ? other : one;
}

/* The last instant at which something that stood in its way was given back or ran out. */
static uint64_t last_change_us(const struct lock_sim *sim, const struct lock_token *token, uint32_t name)
{
    uint64_t now_us = sim->course.now_us, last_us = 0;
    for (uint32_t i = 0; i < sim->tokens; i++) {
        const struct lock_token *other = &sim->token[i];
        if (other == token || !lock_token_is_of(other, name))
            continue;
        last_us = later(last_us, other->given_us, now_us);
        if (other->given_us != 0)
            continue;
        last_us = later(last_us, other->until_us, now_us);
        last_us = later(last_us, other->place_until_us, now_us);
    }
    return last_us;
}

static bool is_free_for(const struct lock_sim *sim, const struct lock_token *token, uint32_t name)
{
    uint64_t units = token->units;
    for (uint32_t i = 0; i < sim->tokens; i++) {
        const struct lock_token *other = &sim->token[i];
        if (other == token || !lock_token_is_of(other, name))
            continue;
        bool before =
            stands_there(sim, other) && is_before(other, token); /* a mutex may overtake, but need not */
        if (before || holds_there(sim, other))
            units += other->units;
    }
    return units <= token->limit;
}

/* What is given back is told; when something runs out is known beforehand. Without messages the first in line asks
 * every half second or so, the others when they say again that they wait. */
static uint64_t bound_us(const struct lock_sim *sim)
{
    enum { QUIET_US = 50000, POLL_US = 850000 };
    uint64_t place_us = (uint64_t)sim->params.place_ms * 1000 / 3;
    uint64_t held_up_us = (uint64_t)sim->params.limit_ms * 500; /* a reply, and then it asks */
    uint64_t span_us = QUIET_US + held_up_us + (uint64_t)sim->params.latency_us * 6;
    return sim->params.quiet ? span_us : span_us + place_us + POLL_US;
}

void lock_tokens_check_prompt(struct lock_sim *sim, const struct lock_token *token)
{
    uint64_t since_us = later(token->first_us, token->told_us, sim->course.now_us);
    if (!sim->params.calm || token->first_us == 0 || token->kind == GUARD_LOCK_LATCH)
        return;
    for (size_t i = 0; i < token->count; i++) {
        since_us = later(since_us, last_change_us(sim, token, token->name[i]), sim->course.now_us);
        if (!is_free_for(sim, token, token->name[i]))
            return;
    }
    if (sim->course.now_us > since_us + bound_us(sim))
        lock_sim_fail(sim, "t%u of p%u waits for %s for %llu us although nothing stands in its way",
                      index_of(sim, token), token->process, lock_sim_name(token->name[0]),
                      (unsigned long long)(sim->course.now_us - since_us));
}

/* ---- what a hand-over costs ---- */

static void count_command(struct lock_sim *sim, const struct lock_command *command)
{
    enum { COMMANDS = 4, POLL_LEAST_US = 100000, POLLS_FIRST = 6 };
    struct lock_server *server = &sim->server;
    bool is_first = command->action.kind == LOCK_TAKE && sim->token[command->token].first_us == 0;
    if (!sim->params.crowd || is_first || command->action.kind == LOCK_RENEW)
        return;
    server->handed++;
    if (command->reply.kind != LOCK_GRANTED)
        return;
    uint64_t span_us = sim->course.now_us - server->handed_us;
    uint64_t polls = span_us / POLL_LEAST_US + (span_us > POLL_LEAST_US ? POLLS_FIRST : 0);
    uint64_t stays = sim->params.processes * (span_us / ((uint64_t)sim->params.place_ms * 250) + 1);
    if (server->handed_us != 0 && server->handed > COMMANDS + polls + stays)
        lock_sim_fail(sim, "a hand-over cost %u commands in %llu us", server->handed,
                      (unsigned long long)span_us);
    sim->seen[LOCK_SEEN_HANDED] += server->handed_us != 0;
    server->handed = 0;
    server->handed_us = sim->course.now_us;
}

/* ---- what ran ---- */

static void check_number(struct lock_sim *sim, const struct lock_token *token, uint32_t name, uint64_t fence)
{
    uint64_t *highest = &sim->server.fence[name];
    bool lost = sim->server.stored[name] < *highest && lock_server_clock_us(sim) <= *highest;
    if (fence <= *highest && !lost)
        lock_sim_fail(sim, "t%u is granted %s with %llu, after %llu", index_of(sim, token),
                      lock_sim_name(name), (unsigned long long)fence, (unsigned long long)*highest);
    *highest = fence;
}

static void check_dead(struct lock_sim *sim, const struct lock_token *token)
{
    uint64_t tombstone_us = token->given_us + (uint64_t)LOCK_SIM_MAX_LEASE_MS * 1000;
    if (token->given_us != 0 && sim->server.tombstones_us < token->given_us &&
        sim->course.now_us + ROUNDING_US < tombstone_us)
        lock_sim_fail(sim, "t%u of p%u was given back, and is taken by a command that was late",
                      index_of(sim, token), token->process);
}

static void granted(struct lock_sim *sim, struct lock_token *token, const struct lock_reply *reply)
{
    check_dead(sim, token);
    lock_tokens_check_prompt(sim, token);
    for (size_t i = 0; i < token->count; i++) {
        check_number(sim, token, token->name[i], reply->fence[i]);
        bool in_part = token->damaged_us != 0 && token->count > 1; /* it holds the other names still */
        if (!holds_there(sim, token) && !in_part && token->given_us == 0)
            check_order(sim, token, token->name[i]);
    }
    token->damaged_us = 0;
    token->granted_us = token->granted_us == 0 ? sim->course.now_us : token->granted_us;
    token->until_us = sim->course.now_us + (uint64_t)token->lease_ms * 1000;
    token->order = token->place_until_us = 0;
}

/* Parties that are here: the dead are for their lease. */
static uint32_t count_parties(const struct lock_sim *sim, uint32_t latch)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->tokens; i++) {
        const struct lock_token *token = &sim->token[i];
        count += lock_token_is_of(token, latch) && token->units > 0 && token->given_us == 0 &&
                 token->until_us + ROUNDING_US > sim->course.now_us;
    }
    return count;
}

static void latch_taken(struct lock_sim *sim, struct lock_token *token, const struct lock_command *command)
{
    uint64_t *opened_us = &sim->server.opened_us[token->name[0] - LOCK_SIM_NAMES];
    if (command->reply.kind != LOCK_GONE)
        token->until_us = sim->course.now_us + (uint64_t)token->lease_ms * 1000;
    if (command->reply.kind != LOCK_GRANTED || *opened_us != 0)
        return;
    *opened_us = sim->course.now_us;
    uint32_t count = count_parties(sim, token->name[0]);
    bool excused = sim->hit[LOCK_FAULT_CLOCK_BACK] > 0 || sim->server.tombstones_us != 0;
    if (count < token->limit && !excused)
        lock_sim_fail(sim, "%s is open for %u, and %u are there", lock_sim_name(token->name[0]), token->limit,
                      count);
}

static void taken(struct lock_sim *sim, struct lock_token *token, const struct lock_command *command)
{
    const struct lock_reply *reply = &command->reply;
    if (token->kind == GUARD_LOCK_LATCH)
        latch_taken(sim, token, command);
    else if (reply->kind == LOCK_GRANTED)
        granted(sim, token, reply);
    else if (reply->kind == LOCK_REFUSED && command->action.place_ms > 0 && token->given_us == 0)
        queue(sim, token);
    if (reply->kind == LOCK_GONE) {
        sim->seen[LOCK_SEEN_GONE]++;
        if (token->given_us == 0)
            lock_sim_fail(sim, "t%u of p%u is refused as given back, and was not", index_of(sim, token),
                          token->process);
    }
    token->first_us = token->first_us == 0 ? sim->course.now_us : token->first_us;
}

static void stayed(struct lock_sim *sim, const struct lock_command *command)
{
    for (size_t i = 0; i < command->action.token_count; i++) {
        struct lock_token *token = &sim->token[command->tokens[i]];
        if (token->order != 0 && token->given_us == 0)
            sim->seen[LOCK_SEEN_STAYED] += keep_place(sim, token);
    }
}

void lock_tokens_executed(struct lock_sim *sim, const struct lock_command *command)
{
    struct lock_token *token = &sim->token[command->token];
    count_command(sim, command);
    switch (command->action.kind) {
    case LOCK_TAKE:
        taken(sim, token, command);
        break;
    case LOCK_RENEW:
        if (command->reply.kind != LOCK_DONE)
            break;
        token->damaged_us = 0;
        token->until_us = sim->course.now_us + (uint64_t)token->lease_ms * 1000;
        break;
    case LOCK_GIVE:
        token->given_us = token->given_us == 0 ? sim->course.now_us : token->given_us;
        token->order = token->place_until_us = token->until_us = 0;
        break;
    case LOCK_STAY:
        stayed(sim, command);
        break;
    }
}

void lock_tokens_agreed(struct lock_sim *sim, const struct lock_command *command)
{
    struct lock_token *token = &sim->token[command->token];
    bool taken = command->action.kind == LOCK_TAKE && command->reply.kind == LOCK_GRANTED;
    bool renewed = command->action.kind == LOCK_RENEW && command->reply.kind == LOCK_DONE;
    sim->seen[LOCK_SEEN_AGREED] += taken;
    sim->seen[LOCK_SEEN_DISAGREED] += command->action.kind == LOCK_TAKE && !taken;
    if (command->action.kind == LOCK_GIVE)
        token->given_us = sim->course.now_us;
    uint64_t until_us = command->sent_us + (uint64_t)token->lease_ms * 990;
    if ((!taken && !renewed) || until_us <= sim->course.now_us)
        return; /* what comes too late is of no use to anybody */
    for (size_t i = 0; i < token->count && taken; i++) {
        uint64_t *highest = &sim->server.fence[token->name[i]];
        uint64_t fence = command->reply.fence[i];
        bool lost = sim->hit[LOCK_FAULT_FENCE_GONE] + sim->hit[LOCK_FAULT_EMPTY] +
                        sim->hit[LOCK_FAULT_CLOCK_FORWARD] > /* which ends the life of counters */
                    0;
        bool stands =
            lock_masters_until_us(sim, token) + ROUNDING_US >= until_us; /* else others may have it */
        if (fence <= *highest && !lost && stands)
            lock_sim_fail(sim, "t%u is granted %s with %llu, after %llu", index_of(sim, token),
                          lock_sim_name(token->name[i]), (unsigned long long)fence,
                          (unsigned long long)*highest);
        *highest = fence > *highest ? fence : *highest;
    }
    token->granted_us = sim->course.now_us;
    token->damaged_us = 0;
    token->until_us = until_us;
    lock_tokens_damaged(sim); /* what went wrong while it was asked for */
}

/* ---- faults ---- */

void lock_tokens_damaged(struct lock_sim *sim)
{
    for (uint32_t i = 0; i < sim->tokens; i++) {
        struct lock_token *token = &sim->token[i];
        if (token->kind == GUARD_LOCK_LATCH || token->given_us != 0 || token->granted_us == 0 ||
            token->until_us == 0)
            continue;
        uint64_t until_us =
            sim->params.masters > 0 ? lock_masters_until_us(sim, token) : lock_server_until_us(sim, token);
        if (until_us + ROUNDING_US < token->until_us)
            token->damaged_us = sim->course.now_us;
        token->until_us = until_us;
    }
}

void lock_tokens_excuse(struct lock_sim *sim)
{
    for (uint32_t i = 0; i < sim->tokens; i++)
        sim->token[i].excused = true;
}
