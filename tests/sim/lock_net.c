/* SPDX-License-Identifier: MIT */
/*
 * lock_net.c - between processes and Redis: one pipelined command connection and one subscription each.
 *
 * A command that is not answered within the limit breaks its connection, as the connection layer does it: everything
 * outstanding is unanswered, and what had not reached Redis may reach it later or never.
 */
#include "lock_sim.h"

#include <stdlib.h>
#include <string.h>

static uint64_t latency(struct lock_sim *sim)
{
    return lock_sim_between(sim, sim->params.latency_us / 4, sim->params.latency_us);
}

static const char *action_name(enum lock_action_kind kind)
{
    static const char *const names[] = {"take", "renew", "give", "stay"};
    return names[kind];
}

static const char *reply_name(enum lock_reply_kind kind)
{
    static const char *const names[] = {"granted",  "refused",    "gone",   "done",
                                        "not held", "impossible", "unsent", "unanswered"};
    return names[kind];
}

/* What a process feels of a fault lasts until its connection is back. */
static void disturb(struct lock_sim *sim, struct lock_process *process)
{
    process->disturbed_us = sim->course.now_us;
}

/* ---- sending ---- */

static uint32_t *copy_tokens(struct lock_sim *sim, const struct lock_action *action)
{
    uint32_t *tokens = calloc(action->token_count + 1, sizeof *tokens);
    if (tokens == NULL)
        abort();
    for (size_t i = 0; i < action->token_count; i++)
        tokens[i] = lock_tokens_find(sim, action->tokens[i]);
    return tokens;
}

static struct lock_command *copy_of(struct lock_sim *sim, const struct lock_process *process,
                                    const struct lock_action *action)
{
    if (sim->commands == LOCK_SIM_COMMANDS) {
        lock_sim_fail(sim, "more than %d commands", LOCK_SIM_COMMANDS);
        sim->commands--;
    }
    while (sim->pending < sim->commands && sim->command[sim->pending].answered)
        sim->pending++;
    struct lock_command *command = &sim->command[sim->commands++];
    *command = (struct lock_command){.action = *action, .process = process->index, .life = process->life};
    command->connection = process->connection;
    command->sent_us = sim->course.now_us;
    command->sent_local_us = lock_process_now_us(process);
    for (size_t i = 0; i < action->count; i++)
        command->name[i] = lock_sim_name_of(sim, action->names[i].encoded, action->names[i].bytes);
    if (action->kind == LOCK_STAY)
        command->tokens = copy_tokens(sim, action);
    else
        command->token = lock_tokens_find(sim, action->token);
    command->action.names = NULL;
    command->action.token = NULL;
    command->action.tokens = NULL;
    return command;
}

/* Those moments at which an application, or death, does most harm. */
static void be_spiteful(struct lock_sim *sim, const struct lock_command *command)
{
    const struct lock_params *params = &sim->params;
    if (sim->phase != LOCK_PHASE_CHAOS || params->spite == 0 || !lock_sim_one_in(sim, params->spite))
        return;
    uint64_t at_us = sim->course.now_us + lock_sim_between(sim, 0, (uint64_t)params->latency_us * 2);
    struct event event = {.kind = LOCK_EVENT_CANCEL, .process = command->process, .life = command->life};
    if (command->action.kind == LOCK_RENEW)
        event.kind = LOCK_EVENT_GIVE;
    else if (command->action.kind != LOCK_TAKE)
        return;
    uint32_t first = (uint32_t)lock_sim_between(sim, 0, sim->clients - 1);
    for (uint32_t i = 0; i < sim->clients; i++) {
        event.subject = (first + i) % sim->clients;
        const struct lock_client *client = &sim->client[event.subject];
        bool fits = command->action.kind == LOCK_TAKE ? client->open && params->enabled[LOCK_FAULT_CANCEL]
                                                      : client->holds && !client->given;
        if (fits && client->life == command->life) {
            lock_sim_at(sim, at_us, event);
            return;
        }
    }
}

void lock_net_send(struct lock_sim *sim, struct lock_process *process, const struct lock_action *action)
{
    struct lock_command *command = copy_of(sim, process, action);
    uint32_t index = (uint32_t)(command - sim->command);
    struct event event = {.process = process->index, .life = process->life, .subject = index};
    lock_sim_trace(sim, "p%u  %s %s %s t%u%s%s", process->index, action_name(action->kind),
                   lock_sim_name(command->name[0]), action->count > 1 ? "..." : "", command->token,
                   action->doubt ? " in doubt" : "", process->link_up ? "" : " (no link)");
    lock_check_sent(sim, command);
    be_spiteful(sim, command);
    if (sim->params.masters > 0) {
        lock_masters_send(sim, index);
        return;
    }
    if (!process->link_up) {
        event.kind = LOCK_EVENT_UNSENT;
        lock_sim_at(sim, sim->course.now_us + 1, event);
        return;
    }
    event.kind = LOCK_EVENT_LIMIT;
    command->limit_us = sim->course.now_us + (uint64_t)sim->params.limit_ms * 1000;
    lock_sim_at(sim, command->limit_us, event);
    if (lock_sim_fault(sim, LOCK_FAULT_COMMAND_LOST, 60)) {
        disturb(sim, process);
        return;
    }
    uint64_t at_us = sim->course.now_us + latency(sim);
    if (at_us <= process->sent_until_us)
        at_us = process->sent_until_us + 1;
    process->sent_until_us = at_us;
    if (lock_sim_fault(sim, LOCK_FAULT_COMMAND_LATE, 40)) {
        disturb(sim, process);
        at_us = command->limit_us + lock_sim_between(sim, 0, lock_sim_one_in(sim, 2) ? 100000 : 3000000);
    }
    event.kind = LOCK_EVENT_EXECUTE;
    lock_sim_at(sim, at_us, event);
}

/* ---- at Redis ---- */

static bool is_connected(const struct lock_sim *sim, const struct lock_command *command)
{
    const struct lock_process *process = &sim->process[command->process];
    return command->life == process->life && command->connection == process->connection && process->link_up;
}

static void send_reply(struct lock_sim *sim, struct lock_process *process, uint32_t index)
{
    if (process->mute || lock_sim_fault(sim, LOCK_FAULT_REPLY_LOST, 60)) {
        process->mute = true; /* nothing overtakes in a stream */
        disturb(sim, process);
        return;
    }
    uint64_t at_us = sim->course.now_us + latency(sim);
    if (lock_sim_fault(sim, LOCK_FAULT_MESSAGE_FIRST, 20))
        at_us += lock_sim_between(sim, 0, (uint64_t)sim->params.limit_ms * 500);
    if (at_us <= process->answered_until_us)
        at_us = process->answered_until_us + 1;
    process->answered_until_us = at_us;
    lock_sim_at(
        sim, at_us,
        (struct event){
            .kind = LOCK_EVENT_REPLY, .process = process->index, .life = process->life, .subject = index});
}

/* True: it does not reach Redis, or not yet. */
static bool is_held_up(struct lock_sim *sim, uint32_t index)
{
    if (sim->server.hung)
        lock_sim_at(sim, sim->course.now_us + 20000,
                    (struct event){.kind = LOCK_EVENT_EXECUTE, .subject = index});
    return sim->server.down || sim->server.hung;
}

static void trace_executed(struct lock_sim *sim, const struct lock_command *command)
{
    const struct lock_token *token = &sim->token[command->token];
    lock_sim_trace(sim, "    redis %s t%u (%u of %u): %s, order %llu, before %u, hint %u",
                   action_name(command->action.kind), command->token, token->units, token->limit,
                   reply_name(command->reply.kind), (unsigned long long)token->order, command->reply.before,
                   command->reply.hint_ms);
}

void lock_net_execute(struct lock_sim *sim, uint32_t index)
{
    struct lock_command *command = &sim->command[index];
    if (command->dropped || command->executed || is_held_up(sim, index))
        return;
    command->executed = true;
    command->epoch = sim->server.epoch;
    if (sim->server.readonly) {
        command->reply = (struct lock_reply){.kind = LOCK_UNSENT, .why = "READONLY"};
        if (sim->params.denies)
            command->reply = (struct lock_reply){.kind = command->action.kind == LOCK_TAKE ? LOCK_IMPOSSIBLE
                                                                                           : LOCK_UNANSWERED,
                                                 .why = LOCK_SIM_DENIED};
        disturb(sim, &sim->process[command->process]);
    } else {
        lock_server_run(sim, command);
        if (!command->too_young)
            lock_tokens_executed(sim, command);
    }
    trace_executed(sim, command);
    if (is_connected(sim, command))
        send_reply(sim, &sim->process[command->process], index);
}

/* ---- replies ---- */

static void answer(struct lock_sim *sim, struct lock_command *command, const struct lock_reply *reply)
{
    struct lock_process *process = &sim->process[command->process];
    command->answered = true;
    lock_sim_trace(sim, "p%u  %s t%u: %s", process->index, action_name(command->action.kind), command->token,
                   reply_name(reply->kind));
    lock_check_replied(sim, command, reply);
    lock_core_replied(process->core, lock_process_now_us(process), command->action.op, reply);
    lock_process_drain(sim, process);
}

void lock_net_reply(struct lock_sim *sim, uint32_t index)
{
    struct lock_command *command = &sim->command[index];
    if (!is_connected(sim, command) || command->answered || command->epoch != sim->server.epoch)
        return; /* what a Redis still said at its end is lost with its connections */
    struct lock_reply reply = command->reply;
    reply.ask_now = command->ask_now;
    if (command->round != NULL)
        lock_tokens_agreed(sim, command);
    answer(sim, command, &reply);
}

void lock_net_unsent(struct lock_sim *sim, uint32_t index)
{
    answer(sim, &sim->command[index], &(struct lock_reply){.kind = LOCK_UNSENT, .why = "no link"});
}

void lock_net_limit(struct lock_sim *sim, uint32_t index)
{
    struct lock_command *command = &sim->command[index];
    if (!command->answered && is_connected(sim, command))
        lock_net_break(sim, &sim->process[command->process]);
}

/* ---- the command connection ---- */

void lock_net_break(struct lock_sim *sim, struct lock_process *process)
{
    uint32_t broken = process->connection++, end = sim->commands;
    if (!process->link_up)
        return;
    process->link_up = process->mute = false;
    disturb(sim, process);
    lock_sim_trace(sim, "p%u  connection broken", process->index);
    lock_core_link(process->core, lock_process_now_us(process), false, "connection broken");
    for (uint32_t i = sim->pending; i < end; i++) {
        struct lock_command *command = &sim->command[i];
        if (command->life != process->life || command->connection != broken || command->answered)
            continue;
        if (!command->executed && lock_sim_one_in(sim, 2))
            command->dropped = true;
        answer(sim, command, &(struct lock_reply){.kind = LOCK_UNANSWERED, .why = "no answer"});
    }
    lock_process_drain(sim, process);
    lock_sim_at(sim, sim->course.now_us + lock_sim_between(sim, 1000, 80000),
                (struct event){.kind = LOCK_EVENT_CONNECT, .process = process->index, .life = process->life});
}

static void try_again(struct lock_sim *sim, const struct lock_process *process, enum lock_event_kind kind)
{
    lock_sim_at(sim, sim->course.now_us + lock_sim_between(sim, 10000, 100000),
                (struct event){.kind = kind, .process = process->index, .life = process->life});
}

void lock_net_connect(struct lock_sim *sim, struct lock_process *process)
{
    if (process->link_up)
        return;
    disturb(sim, process);
    if (sim->server.down || sim->server.hung) {
        try_again(sim, process, LOCK_EVENT_CONNECT);
        return;
    }
    process->link_up = true;
    process->connected_us = sim->course.now_us;
    process->sent_until_us = process->answered_until_us = sim->course.now_us;
    lock_core_link(process->core, lock_process_now_us(process), true, NULL);
    lock_process_drain(sim, process);
    lock_check_linked(sim, process);
}

void lock_net_forget(struct lock_sim *sim, const struct lock_process *process)
{
    for (uint32_t i = sim->pending; i < sim->commands; i++) {
        struct lock_command *command = &sim->command[i];
        if (command->life != process->life || command->answered)
            continue;
        command->answered = true;
        command->dropped = !command->executed && lock_sim_one_in(sim, 2);
    }
}

void lock_net_redis_gone(struct lock_sim *sim)
{
    sim->server.epoch++;
    for (uint32_t i = 0; i < sim->commands; i++)
        if (!sim->command[i].executed)
            sim->command[i].dropped = true;
    for (uint32_t i = 0; i < sim->params.processes; i++) {
        struct lock_process *process = &sim->process[i];
        if (!lock_process_runs(process))
            continue;
        lock_net_unsubscribe(sim, process);
        lock_sim_at(sim, sim->course.now_us + 1,
                    (struct event){.kind = LOCK_EVENT_BROKEN,
                                   .process = i,
                                   .life = process->life,
                                   .subject = process->connection});
    }
}

/* ---- the subscription ---- */

void lock_net_unsubscribe(struct lock_sim *sim, struct lock_process *process)
{
    if (!process->subscribed)
        return;
    process->subscribed = false;
    lock_sim_trace(sim, "p%u  subscription dead", process->index);
    lock_sim_at(
        sim, sim->course.now_us + lock_sim_between(sim, 10000, 2000000),
        (struct event){.kind = LOCK_EVENT_SUBSCRIBE, .process = process->index, .life = process->life});
}

void lock_net_subscribe(struct lock_sim *sim, struct lock_process *process)
{
    if (sim->server.down || sim->server.hung) {
        try_again(sim, process, LOCK_EVENT_SUBSCRIBE);
        return;
    }
    process->subscribed = true;
    process->subscription++;
    lock_core_resync(process->core, lock_process_now_us(process));
    lock_process_drain(sim, process);
}

static void publish_to(struct lock_sim *sim, const struct lock_process *process, uint32_t token,
                       uint32_t name)
{
    struct event event = {.kind = LOCK_EVENT_MESSAGE,
                          .process = process->index,
                          .life = process->life,
                          .subject = token == UINT32_MAX ? 0 : token + 1,
                          .key = name,
                          .subscription = process->subscription};
    if (!lock_process_runs(process) || !process->subscribed ||
        lock_sim_fault(sim, LOCK_FAULT_MESSAGE_LOST, 6))
        return;
    uint64_t at_us = sim->course.now_us + latency(sim);
    if (lock_sim_fault(sim, LOCK_FAULT_MESSAGE_LATE, 6))
        at_us += lock_sim_between(sim, 0, 200000);
    lock_sim_at(sim, at_us, event);
    if (lock_sim_fault(sim, LOCK_FAULT_MESSAGE_TWICE, 10))
        lock_sim_at(sim, at_us + lock_sim_between(sim, 0, 50000), event);
}

void lock_net_publish(struct lock_sim *sim, uint32_t token, uint32_t name)
{
    for (uint32_t i = 0; i < sim->params.processes; i++) /* one channel: all hear all */
        if (token == UINT32_MAX || sim->token[token].life == sim->process[i].life)
            publish_to(sim, &sim->process[i], token, name);
    if (lock_sim_fault(sim, LOCK_FAULT_MESSAGE_STRAY, 10))
        publish_to(sim, &sim->process[lock_sim_between(sim, 0, sim->params.processes - 1)],
                   sim->tokens > 0 ? (uint32_t)lock_sim_between(sim, 0, sim->tokens - 1) : UINT32_MAX,
                   (uint32_t)lock_sim_between(sim, 0, LOCK_SIM_ALL_NAMES - 1));
}

void lock_net_message(struct lock_sim *sim, struct lock_process *process, const struct event *event)
{
    if (!process->subscribed || process->subscription != event->subscription)
        return;
    char uuid[LOCK_UUID_BYTES + 1] = "";
    if (event->subject != 0) {
        struct lock_token *token = &sim->token[event->subject - 1];
        memcpy(uuid, token->text, LOCK_UUID_BYTES);
        if (token->life == process->life && lock_token_is_of(token, event->key))
            token->told_us = sim->course.now_us;
    }
    const char *name = lock_sim_name(event->key);
    lock_sim_trace(sim, "p%u  told of %s t%d", process->index, name, (int)event->subject - 1);
    lock_core_told(process->core, lock_process_now_us(process), event->subject != 0 ? uuid : NULL, name,
                   strlen(name));
    lock_process_drain(sim, process);
}
