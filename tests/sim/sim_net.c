/* SPDX-License-Identifier: MIT */
/*
 * sim_net.c - between processes and Redis: one pipelined command connection and one subscription each.
 *
 * A command that is not answered within the limit breaks its connection, as the connection layer does it:
 * everything outstanding becomes unknown, and what had not reached Redis may reach it later or never.
 */
#include "sim.h"
#include <string.h>

uint64_t net_latency(struct sim *sim)
{
    return sim_between(sim, sim->params.latency_us / 4, sim->params.latency_us);
}

static const char *kind_name(enum core_action_kind kind)
{
    static const char *const names[] = {"acquire",        "renew",      "fill",           "touch",
                                        "release",        "invalidate", "permit acquire", "permit renew",
                                        "permit release", "load",       "cancel"};
    return names[kind];
}

static bool is_of_permit(enum core_action_kind kind)
{
    return kind == CORE_PERMIT_ACQUIRE || kind == CORE_PERMIT_RENEW || kind == CORE_PERMIT_RELEASE;
}

/* ---- sending ---- */

static void copy_text(char *to, size_t size, const char *from)
{
    size_t bytes = from != NULL ? strlen(from) : 0;
    if (bytes >= size)
        bytes = size - 1;
    memcpy(to, from != NULL ? from : "", bytes);
    to[bytes] = '\0';
}

static struct command *copy_of(struct sim *sim, const struct process *process,
                               const struct core_action *action)
{
    if (sim->commands == SIM_COMMANDS) {
        sim_fail(sim, "more than %d commands", SIM_COMMANDS);
        sim->commands--;
    }
    struct command *command = &sim->command[sim->commands++];
    *command = (struct command){.action = *action, .process = process->index, .life = process->life};
    command->connection = process->connection;
    command->at_former = process->at_former;
    if (!is_of_permit(action->kind))
        command->key = (uint32_t)(action->key.encoded[1] - '0'); /* or that of a tag */
    command->version = sim->row[command->key].version;
    for (uint32_t key = 0; key < SIM_KEYS && action->of_tag; key++)
        command->versions[key] = sim->row[key].version;
    command->sent_us = sim->course.now_us;
    copy_text(command->token, TOKEN_SIZE, action->token);
    copy_text(command->prev, TOKEN_SIZE, action->prev);
    copy_text(command->refused, TOKEN_UUID_BYTES + 1, action->refused);
    copy_text(command->wanted, TOKEN_UUID_BYTES + 1, action->wanted);
    copy_text(command->waiter, TOKEN_UUID_BYTES + 1, action->waiter);
    if ((action->kind == CORE_FILL || action->kind == CORE_TOUCH) && action->value != NULL)
        command->value = (struct value *)guard_value_ref(&action->value->public);
    command->action.value = command->value;
    command->action.key = action->of_tag ? tags_name(command->key) : process_key(command->key);
    if (!sim->params.pushes)
        command->action.waits = WAIT_NOT;
    command->action.token = command->action.prev = command->action.refused = command->action.wanted = NULL;
    command->action.waiter = NULL;
    return command;
}

/* As long as a load, which is when it can do most harm, or much longer. */
static uint64_t how_late(struct sim *sim)
{
    return sim_between(sim, 0, sim_one_in(sim, 2) ? sim->params.load_ms * 1500 : 3000000);
}

void net_send(struct sim *sim, struct process *process, const struct core_action *action)
{
    struct command *command = copy_of(sim, process, action);
    uint32_t index = (uint32_t)(command - sim->command);
    struct event event = {.process = process->index, .life = process->life, .subject = index};
    sim_trace(sim, "p%u  %s k%u %.8s prev %.8s %c%s", process->index, kind_name(action->kind), command->key,
              command->token, command->prev, action->kind == CORE_ACQUIRE ? (char)action->lookup : ' ',
              process->link_up ? "" : "(no link)");
    if (action->kind == CORE_RENEW)
        check_hold(sim, command);
    if (!process->link_up) {
        event.kind = EVENT_UNSENT;
        sim_at(sim, sim->course.now_us + 1, event);
        return;
    }
    event.kind = EVENT_LIMIT;
    command->limit_us = sim->course.now_us + (uint64_t)sim->params.redis_limit_ms * 1000;
    sim_at(sim, command->limit_us, event);
    if (sim_fault(sim, FAULT_COMMAND_LOST, 60))
        return;
    uint64_t at_us = sim->course.now_us + net_latency(sim);
    if (at_us <= process->sent_until_us)
        at_us = process->sent_until_us + 1;
    uint64_t late_us = 0;
    if (sim_fault(sim, FAULT_COMMAND_LATE, 40))
        late_us = (uint64_t)sim->params.redis_limit_ms * 1000 + how_late(sim);
    if (tags_companion(sim, command)) { /* others may come in between */
        event.kind = EVENT_COMPANION;
        sim_at(sim, at_us + late_us, event);
        at_us += sim_between(sim, 1, sim->params.latency_us);
    }
    process->sent_until_us = at_us;
    event.kind = EVENT_EXECUTE;
    sim_at(sim, at_us + late_us, event);
}

/* ---- at Redis ---- */

static bool connected_still(const struct sim *sim, const struct command *command)
{
    const struct process *process = &sim->process[command->process];
    return command->life == process->life && command->connection == process->connection && process->link_up;
}

static void send_reply(struct sim *sim, struct process *process, uint32_t index)
{
    if (process->mute || sim_fault(sim, FAULT_REPLY_LOST, 60)) {
        process->mute = true; /* nothing overtakes in a stream */
        return;
    }
    uint64_t at_us = sim->course.now_us + net_latency(sim);
    if (sim->command[index].action.kind == CORE_ACQUIRE && sim_fault(sim, FAULT_MESSAGE_FIRST, 20))
        at_us += sim_between(sim, 0, sim->params.redis_limit_ms * 500);
    if (at_us <= process->answered_until_us)
        at_us = process->answered_until_us + 1;
    process->answered_until_us = at_us;
    sim_at(sim, at_us,
           (struct event){
               .kind = EVENT_REPLY, .process = process->index, .life = process->life, .subject = index});
}

/* True: it does not reach Redis, or not yet. */
static bool held_up(struct sim *sim, const struct command *command, enum event_kind kind)
{
    if (sim->redis.hung)
        sim_at(sim, sim->course.now_us + 20000,
               (struct event){.kind = kind, .subject = (uint32_t)(command - sim->command)});
    return sim->redis.down || sim->redis.hung;
}

void net_companion(struct sim *sim, uint32_t index)
{
    struct command *command = &sim->command[index];
    if (command->dropped || held_up(sim, command, EVENT_COMPANION))
        return;
    if (command->at_former)
        redis_execute_at_former(sim, command, true);
    else
        tags_run_companion(sim, command);
}

void net_execute(struct sim *sim, uint32_t index)
{
    struct command *command = &sim->command[index];
    if (command->dropped || command->executed || held_up(sim, command, EVENT_EXECUTE))
        return;
    bool decides = command->action.kind == CORE_FILL || command->action.kind == CORE_TOUCH;
    command->executed = true;
    command->epoch = sim->redis.epoch;
    redis_expire(sim, command->key);
    const struct stored_lease *lease = &sim->redis.slot[command->key].lease;
    bool fenced = lease->there && strcmp(lease->token, command->token) == 0;
    if (command->at_former)
        redis_execute_at_former(sim, command, false);
    else
        redis_execute(sim, command, &command->answer);
    if (decides && command->answer.code == 1 && !command->answer.error)
        check_stored(sim, command, fenced);
    sim_trace(sim, "    redis %s k%u %.8s: %s%c %lld refresher %d%s", kind_name(command->action.kind),
              command->key, command->token, command->answer.error ? "error " : "",
              command->answer.what != 0 ? command->answer.what : '#', (long long)command->answer.code,
              command->answer.refresher, command->answered ? " (late)" : "");
    if (decides || command->action.kind == CORE_ACQUIRE)
        sim_moment(sim, command->key, EVENT_WRITE);
    sim_near_executed(sim, command);
    if (command->answer.published && !command->answer.error)
        net_publish(sim, index);
    if (connected_still(sim, command))
        send_reply(sim, &sim->process[command->process], index);
}

/* ---- replies ---- */

static uint32_t span(int64_t ms)
{
    return ms < 0 ? 0 : (uint32_t)ms;
}

static const char *tag_of(const struct redis_answer *answer)
{
    return answer->tag[0] != '\0' ? answer->tag : NULL;
}

static void read_value(const struct sim *sim, const struct command *command,
                       const struct redis_answer *answer, struct core_reply *out)
{
    const struct stored_value *value = &answer->value;
    out->kind = answer->what == 'H' ? REPLY_FRESH : REPLY_STALE;
    out->refresher = (enum core_refresher)answer->refresher;
    out->lease_tag = tag_of(answer);
    out->head = value->filler;
    out->damaged = value->damaged || value->key != command->key; /* the full key stands in the envelope */
    if (out->damaged)
        return;
    out->absent = value->absent;
    out->pttl_ms = span(answer->ttl_ms);
    out->cool_ms = answer->refresher == REFRESH_COOLING ? span(answer->failure_ms) : 0;
    out->load_us = value->load_us;
    out->age_ms = span((int64_t)value->px_ms - answer->ttl_ms);
    out->left_ms = span(answer->ttl_ms - (int64_t)value->stale_ms);
    out->value = body_of_entry(sim, value, "");
}

/* As protocol_read() does it. */
static struct core_reply read_answer(const struct sim *sim, const struct command *command,
                                     const struct redis_answer *answer)
{
    struct core_reply out = {.kind = REPLY_REFUSED};
    if (answer->error)
        return out;
    switch (answer->what) {
    case 'H':
    case 'S':
        read_value(sim, command, answer, &out);
        return out;
    case 'L':
        out.kind = REPLY_LEASE;
        return out;
    case 'B':
        out.kind = REPLY_BUSY;
        out.pttl_ms = span(answer->ttl_ms);
        out.lease_tag = tag_of(answer);
        return out;
    case 'E':
        out.kind = REPLY_FAILED;
        out.failure = answer->failure.failure;
        out.too_big = answer->failure.too_big;
        out.pttl_ms = span(answer->ttl_ms);
        return out;
    case 'M':
        out.kind = REPLY_FREE;
        return out;
    }
    if (command->action.kind == CORE_ACQUIRE)
        return out;
    out = (struct core_reply){.kind = REPLY_CODE, .code = answer->code};
    out.outdated = tags_companion(sim, command) && !command->kept;
    return out;
}

static void answer(struct sim *sim, struct process *process, struct command *command, struct core_reply reply)
{
    command->answered = true;
    if (command->action.kind == CORE_ACQUIRE)
        reply.clock = command->clock;
    command->granted =
        reply.kind == REPLY_LEASE || (reply.kind == REPLY_STALE && reply.refresher == REFRESH_OURS);
    bool false_confirm = sim->mutant == MUTANT_FALSE_CONFIRM && command->action.kind == CORE_INVALIDATE &&
                         reply.kind == REPLY_UNKNOWN;
    if (false_confirm)
        reply = (struct core_reply){.kind = REPLY_CODE, .code = 1};
    core_replied(process->core, process_now_us(process), command->action.op, &reply);
    value_unref(&reply.value);
    process_drain(sim, process);
}

/* ---- the tags of what was found ---- */

/* True: what it found is told when Redis has said whether that is good. */
static bool ask_for_epochs(struct sim *sim, struct process *process, struct command *command)
{
    const struct redis_answer *found = &command->answer;
    bool is_entry = !found->error && (found->what == 'H' || found->what == 'S') && !found->value.damaged &&
                    found->value.key == command->key;
    struct event event = {
        .process = process->index, .life = process->life, .subject = (uint32_t)(command - sim->command)};
    if (!is_entry || !found->value.tagged || sim->mutant == MUTANT_REPLY_SHIFTED)
        return false;
    command->checking = true;
    command->limit_us = sim->course.now_us + (uint64_t)sim->params.redis_limit_ms * 1000;
    event.kind = EVENT_LIMIT;
    sim_at(sim, command->limit_us, event);
    event.kind = EVENT_CHECK;
    if (!sim_fault(sim, FAULT_COMMAND_LOST, 60))
        sim_at(sim, sim->course.now_us + net_latency(sim), event);
    return true;
}

void net_check(struct sim *sim, uint32_t index)
{
    struct command *command = &sim->command[index];
    if (command->answered || held_up(sim, command, EVENT_CHECK))
        return;
    command->epochs = tags_ask(sim, command->key);
    command->check_epoch = sim->redis.epoch;
    const struct process *process = &sim->process[command->process];
    if (process->mute || sim_fault(sim, FAULT_REPLY_LOST, 60))
        return;
    sim_at(sim, sim->course.now_us + net_latency(sim),
           (struct event){
               .kind = EVENT_CHECKED, .process = command->process, .life = command->life, .subject = index});
}

void net_checked(struct sim *sim, uint32_t index)
{
    struct command *command = &sim->command[index];
    struct process *process = &sim->process[command->process];
    if (!connected_still(sim, command) || command->answered || command->check_epoch != sim->redis.epoch)
        return;
    struct core_reply reply = read_answer(sim, command, &command->answer);
    reply.outdated = tags_verdict_of(sim, &command->answer.value, &command->epochs) == TAGS_OUTDATED;
    sim->seen[SEEN_OUTDATED] += reply.outdated;
    sim_trace(sim, "p%u  what it found of k%u is %s", process->index, command->key,
              reply.outdated ? "old" : "good");
    answer(sim, process, command, reply);
}

void net_reply(struct sim *sim, uint32_t index)
{
    struct command *command = &sim->command[index];
    struct process *process = &sim->process[command->process];
    if (!connected_still(sim, command) || command->answered || command->checking ||
        command->epoch != sim->redis.epoch)
        return; /* what a Redis still said at its end is lost with its connections */
    const struct redis_answer *read = &command->answer;
    if (sim->mutant == MUTANT_REPLY_SHIFTED && process->shifted != 0) {
        const struct command *before = &sim->command[process->shifted - 1];
        process->shifted = index + 1;
        read = &before->answer;
    }
    sim_trace(sim, "p%u  reply to %s k%u %.8s", process->index, kind_name(command->action.kind), command->key,
              command->token);
    if (ask_for_epochs(sim, process, command))
        return;
    answer(sim, process, command, read_answer(sim, command, read));
    if (command->at_former && read->error)
        net_break(sim, process);
    if (command->action.kind == CORE_RENEW && !read->error && read->code == 0)
        check_lost(sim, command);
    if (command->action.kind == CORE_PERMIT_RENEW && !read->error)
        check_permit_renewed(sim, command, read->code == 0);
}

void net_unsent(struct sim *sim, uint32_t index)
{
    struct command *command = &sim->command[index];
    answer(sim, &sim->process[command->process], command, (struct core_reply){.kind = REPLY_UNSENT});
}

void net_limit(struct sim *sim, uint32_t index)
{
    struct command *command = &sim->command[index];
    struct process *process = &sim->process[command->process];
    if (command->answered || !connected_still(sim, command) || sim->course.now_us < command->limit_us)
        return;
    sim_trace(sim, "p%u  %s k%u %.8s is not answered", process->index, kind_name(command->action.kind),
              command->key, command->token);
    if (sim->mutant == MUTANT_REPLY_SHIFTED && command->executed) {
        process->shifted = index + 1; /* the connection stays in use */
        process->mute = false;
        answer(sim, process, command, (struct core_reply){.kind = REPLY_UNKNOWN});
        return;
    }
    net_break(sim, process);
}

/* ---- the command connection ---- */

void net_break(struct sim *sim, struct process *process)
{
    uint32_t broken = process->connection++, end = sim->commands;
    if (!process->link_up)
        return;
    process->link_up = process->mute = false;
    process->shifted = 0;
    sim_trace(sim, "p%u  connection broken", process->index);
    core_link(process->core, process_now_us(process), 0, false);
    for (uint32_t i = 0; i < end; i++) {
        struct command *command = &sim->command[i];
        if (command->life != process->life || command->connection != broken || command->answered)
            continue;
        if (!command->executed && sim_one_in(sim, 2))
            command->dropped = true;
        answer(sim, process, command, (struct core_reply){.kind = REPLY_UNKNOWN});
    }
    sim_at(sim, sim->course.now_us + sim_between(sim, 1000, 80000),
           (struct event){.kind = EVENT_CONNECT, .process = process->index, .life = process->life});
}

void net_connect(struct sim *sim, struct process *process)
{
    if (process->link_up)
        return;
    if (sim->redis.down || sim->redis.hung) {
        sim_at(sim, sim->course.now_us + sim_between(sim, 10000, 100000),
               (struct event){.kind = EVENT_CONNECT, .process = process->index, .life = process->life});
        return;
    }
    process->link_up = true;
    process->at_former = process->loop_at_former = false;
    process->sent_until_us = process->answered_until_us = sim->course.now_us;
    core_link(process->core, process_now_us(process), 0, true);
    process_drain(sim, process);
}

void net_forget(struct sim *sim, const struct process *process)
{
    for (uint32_t i = 0; i < sim->commands; i++) {
        struct command *command = &sim->command[i];
        if (command->life != process->life || command->answered)
            continue;
        command->answered = true;
        command->dropped = !command->executed && sim_one_in(sim, 2);
    }
}

void net_redis_gone(struct sim *sim)
{
    sim->redis.epoch++;
    for (uint32_t i = 0; i < sim->commands; i++)
        if (!sim->command[i].executed)
            sim->command[i].dropped = true;
    for (uint32_t i = 0; i < sim->params.processes; i++) {
        struct process *process = &sim->process[i];
        if (!process_runs(process))
            continue;
        net_unsubscribe(sim, process);
        sim_at(
            sim, sim->course.now_us + 1,
            (struct event){
                .kind = EVENT_BROKEN, .process = i, .life = process->life, .subject = process->connection});
    }
}

/* ---- the subscription ---- */

void net_unsubscribe(struct sim *sim, struct process *process)
{
    if (!process->subscribed)
        return;
    process->subscribed = false;
    bool soon = process->near != NULL && sim_one_in(sim, 2); /* while a lookup is under way */
    uint64_t back_us = sim_between(sim, 10000, soon ? 50000 : 2000000);
    sim_near_lost(sim, process, back_us);
    sim_at(sim, sim->course.now_us + back_us,
           (struct event){.kind = EVENT_SUBSCRIBE, .process = process->index, .life = process->life});
}

void net_subscribe(struct sim *sim, struct process *process)
{
    if (sim->redis.down || sim->redis.hung) {
        sim_at(sim, sim->course.now_us + sim_between(sim, 10000, 100000),
               (struct event){.kind = EVENT_SUBSCRIBE, .process = process->index, .life = process->life});
        return;
    }
    process->subscribed = true;
    process->subscription++;
    process->heard_from_us = 0;
    sim_near_heard(sim, process);
    core_resync(process->core, process_now_us(process));
    process_drain(sim, process);
}

static void publish_to(struct sim *sim, struct process *process, uint32_t index)
{
    const struct command *command = &sim->command[index];
    struct event event = {.kind = EVENT_MESSAGE, .process = process->index, .life = process->life};
    event.key = command->key;
    event.subscription = process->subscription;
    event.gone = command->answer.gone;
    event.of_tag = command->action.of_tag;
    event.version = (uint16_t)sim->row[command->key].gone;
    event.subject = command->answer.pushed || event.of_tag ? index + 1 : 0;
    if (sim_fault(sim, FAULT_MESSAGE_LOST, 6))
        return;
    uint64_t at_us = sim->course.now_us + net_latency(sim);
    if (sim_fault(sim, FAULT_MESSAGE_LATE, 6))
        process->heard_from_us = at_us + (sim_one_in(sim, 2) ? sim_between(sim, 0, 50000) : how_late(sim));
    if (at_us < process->heard_from_us)
        at_us = process->heard_from_us;
    sim_at(sim, at_us, event);
    if (sim_fault(sim, FAULT_MESSAGE_TWICE, 10))
        sim_at(sim, sim->course.now_us + net_latency(sim) + sim_between(sim, 0, 50000), event);
}

void net_publish(struct sim *sim, uint32_t command)
{
    for (uint32_t i = 0; i < sim->params.processes; i++)
        if (process_runs(&sim->process[i]) && sim->process[i].subscribed)
            publish_to(sim, &sim->process[i], command);
}

static void push(struct sim *sim, struct process *process, const struct command *fill)
{
    const struct stored_value *entry = &fill->answer.value;
    struct core_pushed pushed = {.lease_tag = fill->token + TOKEN_TAG_AT,
                                 .absent = entry->absent,
                                 .fresh_ms = (uint32_t)(entry->px_ms - entry->stale_ms)};
    struct value *value = body_of_entry(sim, entry, "");
    pushed.value = value;
    struct core_key key = process_key(entry->key);
    uint64_t before = sim->seen[SEEN_PUSHED];
    sim->pushed = entry;
    core_pushed(process->core, process_now_us(process), key.encoded, key.encoded_bytes, &pushed);
    value_unref(&value);
    process_drain(sim, process);
    sim->pushed = NULL;
    sim->seen[SEEN_UNPUSHED] += sim->seen[SEEN_PUSHED] == before;
}

/* As thread.c hears a message. False: it carries no entry, or none to be believed. */
static bool take_push(struct sim *sim, struct process *process, const struct event *event)
{
    const struct command *fill = event->subject != 0 ? &sim->command[event->subject - 1] : NULL;
    if (fill == NULL || fill->answer.value.damaged || fill->answer.value.key != event->key)
        return false;
    if (!fill->answer.value.tagged || sim->mutant == MUTANT_PUSH_UNCHECKED) {
        push(sim, process, fill);
        return true;
    }
    struct event check = *event;
    check.kind = EVENT_PUSH_CHECK;
    if (process->link_up)
        sim_at(sim, sim->course.now_us + net_latency(sim), check);
    return process->link_up;
}

/* `gone` then says whether the entry is out of date; without an answer it counts as that. */
void net_push_check(struct sim *sim, const struct event *event)
{
    const struct stored_value *entry = &sim->command[event->subject - 1].answer.value;
    const struct tags_epochs epochs = tags_ask(sim, event->key);
    struct event checked = *event;
    checked.kind = EVENT_PUSH_CHECKED;
    checked.gone = sim->redis.down || sim->redis.hung || tags_verdict_of(sim, entry, &epochs) != TAGS_GOOD ||
                   sim_fault(sim, FAULT_REPLY_LOST, 60);
    sim_at(sim, sim->course.now_us + net_latency(sim), checked);
}

void net_push_checked(struct sim *sim, struct process *process, const struct event *event)
{
    struct core_key key = process_key(event->key);
    if (!event->gone) {
        push(sim, process, &sim->command[event->subject - 1]);
        return;
    }
    core_woken(process->core, process_now_us(process), key.encoded, key.encoded_bytes, false);
    process_drain(sim, process);
}

void net_message(struct sim *sim, struct process *process, const struct event *event)
{
    struct core_key key = process_key(event->key);
    if (!process->subscribed || process->subscription != event->subscription)
        return;
    if (event->of_tag) {
        sim_trace(sim, "p%u  message t%u", process->index, event->key);
        sim_near_tag_message(sim, process, &sim->command[event->subject - 1]);
        return;
    }
    sim_trace(sim, "p%u  message k%u%s%s", process->index, event->key, event->gone ? " invalidated" : "",
              event->subject != 0 ? " with what was stored" : "");
    sim_near_message(sim, process, event);
    if (take_push(sim, process, event))
        return;
    core_woken(process->core, process_now_us(process), key.encoded, key.encoded_bytes, event->gone);
    process_drain(sim, process);
}

void net_tell_permit(struct sim *sim, const char *waiter)
{
    for (uint32_t i = 0; i < sim->params.processes; i++) {
        const struct process *process = &sim->process[i];
        if (!process_runs(process) || !process->subscribed || strcmp(process->waiter, waiter) != 0)
            continue;
        if (sim_fault(sim, FAULT_MESSAGE_LOST, 6))
            return;
        sim->seen[SEEN_NAMED]++;
        sim_at(sim, sim->course.now_us + net_latency(sim),
               (struct event){.kind = EVENT_PERMIT, .process = i, .life = process->life});
    }
}
