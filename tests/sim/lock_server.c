/* SPDX-License-Identifier: MIT */
/*
 * lock_server.c - a Redis with locks: lock_model.h, with a clock that steps and a replica that lags, and what goes
 * wrong in it.
 */
#include "lock_sim.h"

#include <stdlib.h>
#include <string.h>

/* ---- time ---- */

static uint64_t server_now_us(const struct lock_sim *sim)
{
    return sim->course.now_us + (uint64_t)(sim->server.clock_offset_ms * 1000);
}

static void set_clock(struct lock_sim *sim)
{
    sim->server.model.now_us = server_now_us(sim);
}

static int64_t now_ms(const struct lock_sim *sim)
{
    return (int64_t)(server_now_us(sim) / 1000);
}

void lock_server_start(struct lock_sim *sim)
{
    struct lock_server *server = &sim->server;
    lock_model_init(&server->model, LOCK_SIM_MAX_LEASE_MS, LOCK_SIM_FENCE_MS);
    lock_model_init(&server->replica, LOCK_SIM_MAX_LEASE_MS, LOCK_SIM_FENCE_MS);
    server->clock_offset_ms = (int64_t)lock_sim_between(sim, 10000000, 1000000000);
    server->down = server->hung = server->readonly = false;
    server->epoch = 0;
    server->up_since_us = server->disturbed_us = server->tombstones_us = server->orders = 0;
    server->handed = 0;
    server->handed_us = 0;
    memset(server->fence, 0, sizeof server->fence);
    memset(server->opened_us, 0, sizeof server->opened_us);
}

/* ---- commands ---- */

static void publish(struct lock_sim *sim, const struct lock_model_answer *answer)
{
    for (size_t i = 0; i < answer->told_count; i++) {
        const struct lock_model_told *told = &answer->told[i];
        uint32_t name = lock_sim_name_of(sim, told->name->encoded, strlen(told->name->encoded));
        lock_net_publish(sim, told->uuid[0] != '\0' ? lock_tokens_find(sim, told->uuid) : UINT32_MAX, name);
    }
}

static const char **texts_of(const struct lock_sim *sim, const struct lock_command *command)
{
    const char **texts = calloc(command->action.token_count + 1, sizeof *texts);
    if (texts == NULL)
        abort();
    for (size_t i = 0; i < command->action.token_count; i++)
        texts[i] = sim->token[command->tokens[i]].text;
    return texts;
}

static void keep_ask_now(struct lock_command *command)
{
    size_t count = command->reply.ask_now_count;
    command->ask_now = calloc(count + 1, sizeof *command->ask_now);
    if (command->ask_now == NULL)
        abort();
    memcpy(command->ask_now, command->reply.ask_now, count * sizeof *command->ask_now);
}

/* What a node does after a restart where nothing may be granted until all leases of before are over. */
static bool is_too_young(struct lock_sim *sim, struct lock_command *command)
{
    uint64_t since_us = sim->server.up_since_us;
    uint64_t until_us = since_us + (uint64_t)LOCK_SIM_MAX_LEASE_MS * 1000;
    bool young = sim->params.wait_after_restart && since_us != 0 && sim->course.now_us < until_us;
    if (!young || command->action.kind != LOCK_TAKE || command->action.lock == GUARD_LOCK_LATCH)
        return false;
    command->too_young = true;
    sim->server.disturbed_us = sim->course.now_us;
    command->reply = (struct lock_reply){.kind = LOCK_REFUSED,
                                         .hint_ms = (uint32_t)((until_us - sim->course.now_us) / 1000) + 1};
    return true;
}

void lock_server_run(struct lock_sim *sim, struct lock_command *command)
{
    static struct lock_model_answer answer;
    struct lock_action action = command->action;
    struct lock_name names[GUARD_LOCK_NAMES_MAX];
    const char **texts = action.kind == LOCK_STAY ? texts_of(sim, command) : NULL;
    for (size_t i = 0; i < action.count; i++) {
        const char *name = lock_sim_name(command->name[i]);
        names[i] = (struct lock_name){name, strlen(name)};
    }
    action.names = names;
    action.token = texts == NULL ? sim->token[command->token].text : NULL;
    action.tokens = texts;
    if (!is_too_young(sim, command)) {
        set_clock(sim);
        for (uint32_t i = 0; i < LOCK_SIM_NAMES; i++)
            sim->server.stored[i] = lock_server_fence(sim, i);
        lock_model_run(&sim->server.model, &action, &answer);
        command->reply = answer.reply;
        if (action.kind == LOCK_STAY)
            keep_ask_now(command);
        publish(sim, &answer);
    }
    free(texts);
}

/* ---- what it knows ---- */

static struct lock_model_name *model_name(const struct lock_sim *sim, uint32_t name)
{
    struct lock_model *model = (struct lock_model *)&sim->server.model;
    return lock_model_name(model, lock_sim_name(name), strlen(lock_sim_name(name)));
}

uint64_t lock_server_until_us(const struct lock_sim *sim, const struct lock_token *token)
{
    int64_t least_ms = INT64_MAX;
    for (size_t i = 0; i < token->count; i++) {
        struct lock_model_set *held = &model_name(sim, token->name[i])->held;
        const struct lock_model_member *member = lock_model_find(held, token->text);
        if (member == NULL || held->expires_ms <= now_ms(sim))
            return 0;
        least_ms = member->until_ms < least_ms ? member->until_ms : least_ms;
    }
    int64_t world_us = (least_ms - sim->server.clock_offset_ms) * 1000;
    return world_us > 0 ? (uint64_t)world_us : 1;
}

uint64_t lock_server_fence(const struct lock_sim *sim, uint32_t name)
{
    const struct lock_model_name *stored = model_name(sim, name);
    return stored->fence_expires_ms > now_ms(sim) ? stored->fence : 0;
}

uint64_t lock_server_clock_us(const struct lock_sim *sim)
{
    return server_now_us(sim);
}

static bool is_left(const struct lock_sim *sim, const struct lock_model_set *set)
{
    return set->count > 0 && set->expires_ms > now_ms(sim);
}

const char *lock_server_rest(const struct lock_sim *sim)
{
    for (uint32_t i = 0; i < LOCK_SIM_ALL_NAMES; i++) {
        const struct lock_model_name *name = model_name(sim, i);
        if (is_left(sim, &name->held))
            return "held";
        if (is_left(sim, &name->queue) || is_left(sim, &name->alive))
            return "a queue";
    }
    return NULL;
}

/* ---- what goes wrong in it ---- */

void lock_server_step(struct lock_sim *sim, int64_t step_ms)
{
    sim->server.clock_offset_ms += step_ms;
    set_clock(sim);
}

void lock_server_evict(struct lock_sim *sim, enum lock_fault fault, uint32_t name)
{
    struct lock_model_name *of = model_name(sim, name);
    if (fault == LOCK_FAULT_HELD_GONE)
        of->held.count = 0;
    else if (fault == LOCK_FAULT_QUEUE_GONE)
        of->queue.count = 0;
    else if (fault == LOCK_FAULT_ALIVE_GONE)
        of->alive.count = 0;
    else if (fault == LOCK_FAULT_FENCE_GONE)
        of->fence = 0;
    else
        of->gone.count = 0;
}

bool lock_server_drop(struct lock_sim *sim, uint32_t index)
{
    const struct lock_token *token = &sim->token[index];
    bool any = false;
    for (size_t i = 0; i < token->count; i++) {
        struct lock_model_set *held = &model_name(sim, token->name[i])->held;
        struct lock_model_member *member = lock_model_find(held, token->text);
        if (member == NULL)
            continue;
        *member = held->member[--held->count];
        any = true;
    }
    return any;
}

void lock_server_empty(struct lock_sim *sim)
{
    lock_model_forget(&sim->server.model);
    lock_model_forget(&sim->server.replica);
}

static void copy_set(struct lock_model_set *to, const struct lock_model_set *from)
{
    to->count = from->count;
    to->expires_ms = from->expires_ms;
    memcpy(to->member, from->member, from->count * sizeof from->member[0]);
}

/* Only what is there: most of a set never is. */
static void copy_model(struct lock_model *to, const struct lock_model *from)
{
    lock_model_forget(to);
    to->now_us = from->now_us;
    for (size_t i = 0; i < from->name_count; i++) {
        const struct lock_model_name *name = &from->name[i];
        struct lock_model_name *copy = lock_model_name(to, name->encoded, strlen(name->encoded));
        copy_set(&copy->held, &name->held);
        copy_set(&copy->queue, &name->queue);
        copy_set(&copy->alive, &name->alive);
        copy_set(&copy->gone, &name->gone);
        copy_set(&copy->latch, &name->latch);
        copy->is_open = name->is_open;
        copy->fence = name->fence;
        copy->fence_expires_ms = name->fence_expires_ms;
    }
}

void lock_server_replicate(struct lock_sim *sim)
{
    copy_model(&sim->server.replica, &sim->server.model);
}

void lock_server_fail_over(struct lock_sim *sim)
{
    copy_model(&sim->server.model, &sim->server.replica);
    set_clock(sim);
}
