/* SPDX-License-Identifier: MIT */
/*
 * sim_net.c - between processes and Redis: one pipelined command connection and one subscription each.
 *
 * A command that is not answered within the limit breaks its connection, as the connection layer does it:
 * everything outstanding becomes unknown, and what had not reached Redis may reach it later or never.
 */
#include "guard/base/load_id.h"
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

static uint32_t shard_of_command(const struct sim *sim, const struct process *process,
                                 const struct core_action *action, uint32_t key)
{
    if (is_of_permit(action->kind))
        return shard_of_permits(sim);
    return action->of_tag ? shard_of_tags(sim) : process->map[key];
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
    if (!is_of_permit(action->kind))
        command->key = (uint32_t)(action->key.encoded[1] - '0'); /* or that of a tag */
    command->shard = shard_of_command(sim, process, action, command->key);
    command->connection = process->link[command->shard].connection;
    command->at_former = process->link[command->shard].at_former;
    command->tags_connection = process->link[shard_of_tags(sim)].connection;
    command->tags_at_former = process->link[shard_of_tags(sim)].at_former;
    command->version = sim->row[command->key].version;
    for (uint32_t key = 0; key < SIM_KEYS && action->of_tag; key++)
        command->versions[key] = command->sent_versions[key] = sim->row[key].version;
    command->sent_us = sim->course.now_us;
    copy_text(command->token, TOKEN_SIZE, action->token);
    copy_text(command->prev, TOKEN_SIZE, action->prev);
    copy_text(command->refused, TOKEN_UUID_BYTES + 1, action->refused);
    copy_text(command->wanted, TOKEN_UUID_BYTES + 1, action->wanted);
    copy_text(command->names_seen, sizeof command->names_seen, action->names_seen);
    copy_text(command->waiter, TOKEN_UUID_BYTES + 1, action->waiter);
    bool has_entry = action->kind == CORE_FILL || action->kind == CORE_TOUCH || action->shares;
    if (has_entry && action->value != NULL)
        command->value = (struct value *)guard_value_ref(&action->value->public);
    command->action.value = command->value;
    command->action.key = action->of_tag ? tags_name(command->key) : process_key(command->key);
    command->action.token = command->action.prev = command->action.refused = command->action.wanted = NULL;
    command->action.names_seen = command->action.waiter = NULL;
    return command;
}

/* As long as a load, which is when it can do most harm, or much longer. */
static uint64_t how_late(struct sim *sim)
{
    return sim_between(sim, 0, sim_one_in(sim, 2) ? sim->params.load_ms * 1500 : 3000000);
}

/* It may be lost, or late, by itself. */
static void send_apart(struct sim *sim, const struct process *process, struct command *command)
{
    const struct link_model *link = &process->link[shard_of_tags(sim)];
    command->tags_dropped = !link->up || sim_fault(sim, FAULT_COMMAND_LOST, 60);
    if (!command->tags_dropped)
        sim_at(sim, sim->course.now_us + net_latency(sim),
               (struct event){.kind = EVENT_COMPANION, .subject = (uint32_t)(command - sim->command)});
}

/* Nothing overtakes in a stream, and nothing waits in it: many that are sent at once are at once on their way. */
static uint64_t behind(const struct link_model *link, uint64_t at_us)
{
    return at_us > link->sent_until_us ? at_us : link->sent_until_us + 1;
}

void net_send(struct sim *sim, struct process *process, const struct core_action *action)
{
    struct command *command = copy_of(sim, process, action);
    uint32_t index = (uint32_t)(command - sim->command);
    struct link_model *link = &process->link[command->shard];
    struct event event = {.process = process->index, .life = process->life, .subject = index};
    sim_trace(sim, "p%u  %s k%u %.8s prev %.8s %c%s", process->index, kind_name(action->kind), command->key,
              command->token, command->prev, action->kind == CORE_ACQUIRE ? (char)action->lookup : ' ',
              link->up ? "" : "(no link)");
    if (action->kind == CORE_RENEW) {
        check_hold(sim, command);
        change_check_renewal(sim, command);
    }
    defer_check_command(sim, process, action);
    if (!link->up) {
        event.kind = EVENT_UNSENT;
        sim_at(sim, sim->course.now_us + 1, event);
        return;
    }
    event.kind = EVENT_LIMIT;
    command->limit_us = sim->course.now_us + (uint64_t)sim->params.redis_limit_ms * 1000;
    sim_at(sim, command->limit_us, event);
    if (sim_fault(sim, FAULT_COMMAND_LOST, 60))
        return;
    uint64_t on_its_way_us = net_latency(sim), late_us = 0;
    uint64_t at_us = behind(link, sim->course.now_us + on_its_way_us);
    if (sim_fault(sim, FAULT_COMMAND_LATE, 40))
        late_us = (uint64_t)sim->params.redis_limit_ms * 1000 + how_late(sim);
    command->apart = tags_companion(sim, command) && command->shard != shard_of_tags(sim);
    if (command->apart) {
        send_apart(sim, process, command);
    } else if (tags_companion(sim, command)) { /* others may come in between */
        event.kind = EVENT_COMPANION;
        sim_at(sim, at_us + late_us, event);
        on_its_way_us += sim_between(sim, 1, sim->params.latency_us);
        link->sent_until_us = at_us;
        at_us = behind(link, sim->course.now_us + on_its_way_us);
    }
    link->sent_until_us = at_us;
    event.kind = EVENT_EXECUTE;
    sim_at(sim, at_us + late_us, event);
}

/* ---- at Redis ---- */

static bool connected_still(const struct sim *sim, const struct command *command)
{
    const struct process *process = &sim->process[command->process];
    uint32_t shard = command->checking ? shard_of_tags(sim) : command->shard;
    const struct link_model *link = &process->link[shard];
    uint32_t connection = command->checking ? command->tags_connection : command->connection;
    return command->life == process->life && connection == link->connection && link->up;
}

static void send_reply(struct sim *sim, struct process *process, uint32_t index)
{
    struct link_model *link = &process->link[sim->command[index].shard];
    if (link->mute || sim_fault(sim, FAULT_REPLY_LOST, 60)) {
        link->mute = true; /* nothing overtakes in a stream */
        return;
    }
    uint64_t at_us = sim->course.now_us + net_latency(sim);
    if (sim->command[index].action.kind == CORE_ACQUIRE && sim_fault(sim, FAULT_MESSAGE_FIRST, 20))
        at_us += sim_between(sim, 0, sim->params.redis_limit_ms * 500);
    at_us = outage_back_us(process, at_us);
    if (at_us <= link->answered_until_us)
        at_us = link->answered_until_us + 1;
    link->answered_until_us = at_us;
    sim_at(sim, at_us,
           (struct event){
               .kind = EVENT_REPLY, .process = process->index, .life = process->life, .subject = index});
}

/* Its process is cut off. */
static void come_later(struct sim *sim, const struct command *command, enum event_kind kind)
{
    uint64_t at_us = outage_resent_us(sim, &sim->process[command->process]);
    if (at_us != 0)
        sim_at(sim, at_us, (struct event){.kind = kind, .subject = (uint32_t)(command - sim->command)});
}

/* True: it does not reach Redis, or not yet. All that waits for a server that is stopped tries again at the same
 * times, so that it takes up its streams in their order. */
static bool held_up(struct sim *sim, const struct command *command, uint32_t shard, enum event_kind kind)
{
    enum { AGAIN_US = 20000 };
    const struct server_model *server = &sim->redis.server[shard];
    bool at_former = kind == EVENT_EXECUTE ? command->at_former : command->tags_at_former;
    if (outage_is_cut(sim, &sim->process[command->process])) {
        come_later(sim, command, kind);
        return true;
    }
    if (server->hung)
        sim_at(sim, (sim->course.now_us / AGAIN_US + 1) * AGAIN_US,
               (struct event){.kind = kind, .subject = (uint32_t)(command - sim->command)});
    return server->down || server->hung || (at_former && server->former == FORMER_STOPPED);
}

/* Nothing ran. The same command goes to the master that has its key, if it is connected to that. */
static void redirect(struct sim *sim, struct command *command)
{
    uint32_t home = sim->redis.home[command->key];
    struct process *process = &sim->process[command->process];
    struct event event = {.kind = EVENT_EXECUTE, .subject = (uint32_t)(command - sim->command)};
    command->dropped = command->answered || !connected_still(sim, command);
    if (command->dropped)
        return; /* nobody hears of it */
    const struct link_model *link = &process->link[process->map[command->key] = home];
    command->shard = home;
    command->connection = link->connection;
    command->at_former = link->at_former;
    sim->seen[SEEN_REDIRECTED]++;
    if (sim->mutant == MUTANT_REDIRECT_NEW_TOKEN && command->action.kind == CORE_ACQUIRE) {
        command->token[TOKEN_UUID_BYTES - 1] ^= 1;
        command->prev[0] = '\0';
    }
    if (!link->up) {
        event = (struct event){.kind = EVENT_UNSENT, .process = process->index, .life = process->life};
        event.subject = (uint32_t)(command - sim->command);
    } else if (sim_fault(sim, FAULT_COMMAND_LOST, 20)) {
        return;
    }
    sim_at(sim, sim->course.now_us + 2 * net_latency(sim), event);
}

static bool is_of_key(const struct command *command)
{
    return !command->action.of_tag && !is_of_permit(command->action.kind);
}

/* Some of its names are at one master and some at the other; or, by chance, all are at this one. */
static bool is_torn(struct sim *sim, const struct command *command)
{
    const struct core_action *action = &command->action;
    bool one_name = action->kind == CORE_RENEW || (action->kind == CORE_INVALIDATE && action->by_delete);
    return sim->redis.moving[command->key] && !one_name && !sim_one_in(sim, 4);
}

/* True: it does not run here, or not yet. */
static bool is_elsewhere(struct sim *sim, struct command *command)
{
    enum { REDIRECTIONS = 5, AGAIN_US = 5000 };
    if (!is_of_key(command) || command->at_former)
        return false;
    bool moved = command->shard != sim->redis.home[command->key];
    if (!moved && !is_torn(sim, command))
        return false;
    uint64_t again_us = sim->course.now_us + ((uint64_t)AGAIN_US << command->redirections);
    command->moved = ++command->redirections > REDIRECTIONS || again_us >= command->limit_us;
    if (command->moved)
        return false;
    if (moved)
        redirect(sim, command);
    else
        sim_at(sim, again_us,
               (struct event){.kind = EVENT_EXECUTE, .subject = (uint32_t)(command - sim->command)});
    return true;
}

/* True: the other one of lease and value is deleted when the first deletion is answered. */
static bool deletes_half(struct sim *sim, struct command *command)
{
    if (command->action.kind != CORE_INVALIDATE || !command->action.by_delete || command->half ||
        command->moved)
        return false;
    uint64_t half_us = (uint64_t)sim->params.redis_limit_ms * 500; /* it may be redirected, too */
    uint64_t again_us = sim->course.now_us + 2 * net_latency(sim) + sim_between(sim, 0, half_us);
    command->half = true;
    redis_delete(sim, command, sim->mutant == MUTANT_DELETE_VALUE_FIRST);
    if (!sim_fault(sim, FAULT_COMMAND_LOST, 20))
        sim_at(sim, again_us,
               (struct event){.kind = EVENT_EXECUTE, .subject = (uint32_t)(command - sim->command)});
    return true;
}

/* What goes beside a command, at the master that has the tags. */
void net_companion(struct sim *sim, uint32_t index)
{
    struct command *command = &sim->command[index];
    bool dropped = command->apart ? command->tags_dropped : command->dropped;
    if (dropped || held_up(sim, command, shard_of_tags(sim), EVENT_COMPANION))
        return;
    command->tags_us = sim->course.now_us + (command->apart ? net_latency(sim) : 0);
    if (command->tags_at_former)
        redis_execute_at_former(sim, command, true);
    else
        tags_run_companion(sim, command);
}

void net_execute(struct sim *sim, uint32_t index)
{
    struct command *command = &sim->command[index];
    if (command->dropped || command->executed || held_up(sim, command, command->shard, EVENT_EXECUTE) ||
        is_elsewhere(sim, command) || deletes_half(sim, command))
        return;
    bool decides = command->action.kind == CORE_FILL || command->action.kind == CORE_TOUCH;
    command->executed = true;
    command->epoch = sim->redis.server[command->shard].epoch;
    redis_expire(sim, command->key);
    const struct stored_lease *lease = &sim->redis.slot[command->key].lease;
    bool fenced = lease->there && strcmp(lease->token, command->token) == 0;
    sim->seen[SEEN_MOVING] += command->moved;
    if (command->moved)
        command->answer = (struct redis_answer){.error = false};
    else if (command->at_former)
        redis_execute_at_former(sim, command, false);
    else if (command->half)
        redis_delete(sim, command, sim->mutant != MUTANT_DELETE_VALUE_FIRST);
    else
        redis_execute(sim, command, &command->answer);
    if (decides && command->answer.code == 1 && !command->answer.error && !command->at_former)
        check_stored(sim, command, fenced);
    sim_trace(sim, "    redis %s k%u %.8s: %s%c %lld refresher %d%s", kind_name(command->action.kind),
              command->key, command->token, command->answer.error ? "error " : "",
              command->answer.what != 0 ? command->answer.what : '#', (long long)command->answer.code,
              command->answer.refresher, command->answered ? " (late)" : "");
    if (decides || command->action.kind == CORE_ACQUIRE)
        sim_moment(sim, command->key, EVENT_WRITE);
    sim_near_executed(sim, command);
    if (command->answer.published && !command->answer.error && !command->at_former)
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
    out->damaged = value->damaged || value->key != command->key || /* the full key stands in the envelope */
                   keep_is_foreign(sim, command->process, value);
    if (out->damaged)
        return;
    out->absent = value->absent;
    out->mark = value->mark;
    out->life = value->life;
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
    struct core_reply out = {.kind = command->moved ? REPLY_MOVING : REPLY_REFUSED};
    if (answer->error || command->moved)
        return out;
    switch (answer->what) {
    case 'H':
    case 'S':
        read_value(sim, command, answer, &out);
        return out;
    case 'L':
        out.kind = REPLY_LEASE;
        out.abandoned = answer->abandoned;
        return out;
    case 'B':
        out.kind = REPLY_BUSY;
        out.pttl_ms = span(answer->ttl_ms);
        out.lease_tag = tag_of(answer);
        out.names_seen = answer->names_seen[0] != '\0' ? answer->names_seen : NULL;
        return out;
    case 'E':
        out.kind = REPLY_FAILED;
        out.load = answer->failure.load;
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
    if (command->action.kind == CORE_ACQUIRE && reply.kind <= REPLY_FREE)
        outage_told_core(sim, command);
    command->granted =
        reply.kind == REPLY_LEASE || (reply.kind == REPLY_STALE && reply.refresher == REFRESH_OURS);
    bool false_confirm = sim->mutant == MUTANT_FALSE_CONFIRM && command->action.kind == CORE_INVALIDATE &&
                         reply.kind == REPLY_UNKNOWN;
    if (false_confirm)
        reply = (struct core_reply){.kind = REPLY_CODE, .code = 1};
    if (command->action.kind == CORE_INVALIDATE && reply.kind == REPLY_CODE)
        check_confirmed(sim, command);
    if (command->action.kind == CORE_RENEW && reply.kind == REPLY_CODE)
        defer_renewed(sim, command, reply.code);
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
                    found->value.key == command->key && !keep_is_foreign(sim, process->index, &found->value);
    struct event event = {
        .process = process->index, .life = process->life, .subject = (uint32_t)(command - sim->command)};
    if (!is_entry || !found->value.tagged || sim->mutant == MUTANT_REPLY_SHIFTED)
        return false;
    const struct link_model *link = &process->link[shard_of_tags(sim)];
    if (!link->up) {
        answer(sim, process, command, (struct core_reply){.kind = REPLY_UNKNOWN});
        return true;
    }
    command->checking = true;
    command->tags_connection = link->connection;
    command->tags_at_former = link->at_former;
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
    uint32_t shard = shard_of_tags(sim);
    if (command->answered || held_up(sim, command, shard, EVENT_CHECK))
        return;
    command->epochs = tags_ask_at(sim, command->key, command->tags_at_former);
    command->check_epoch = sim->redis.server[shard].epoch;
    const struct process *process = &sim->process[command->process];
    if (process->link[shard].mute || sim_fault(sim, FAULT_REPLY_LOST, 60))
        return;
    sim_at(sim, outage_back_us(process, sim->course.now_us + net_latency(sim)),
           (struct event){
               .kind = EVENT_CHECKED, .process = command->process, .life = command->life, .subject = index});
}

void net_checked(struct sim *sim, uint32_t index)
{
    struct command *command = &sim->command[index];
    struct process *process = &sim->process[command->process];
    enum former former = sim->redis.server[shard_of_tags(sim)].former;
    if (!connected_still(sim, command) || command->answered ||
        command->check_epoch != sim->redis.server[shard_of_tags(sim)].epoch)
        return;
    if (!command->epochs.answered && former != FORMER_FENCED) { /* refused: no longer the master */
        net_break(sim, process, shard_of_tags(sim));
        return;
    }
    if (!command->epochs.answered) {
        answer(sim, process, command, (struct core_reply){.kind = REPLY_UNKNOWN});
        return;
    }
    struct core_reply reply = read_answer(sim, command, &command->answer);
    reply.outdated = tags_verdict_of(sim, &command->answer.value, &command->epochs) == TAGS_OUTDATED;
    sim->seen[SEEN_OUTDATED] += reply.outdated;
    sim_trace(sim, "p%u  what it found of k%u is %s", process->index, command->key,
              reply.outdated ? "old" : "good");
    answer(sim, process, command, reply);
}

/* The reply of another master to what went beside a command is awaited, too: until its time is over. */
static bool awaits_tags(struct sim *sim, const struct process *process, struct command *command)
{
    enum { LOOK_AGAIN_US = 500 };
    const struct link_model *link = &process->link[shard_of_tags(sim)];
    bool stands = link->up && link->connection == command->tags_connection;
    bool there = command->tags_us != 0 && command->tags_us <= sim->course.now_us;
    command->replied = command->apart && stands && !there;
    if (command->replied)
        sim_at(sim, sim->course.now_us + LOOK_AGAIN_US,
               (struct event){.kind = EVENT_REPLY,
                              .process = process->index,
                              .life = process->life,
                              .subject = (uint32_t)(command - sim->command)});
    else if (command->apart && !there)
        command->clock = (struct tags_clock){0, 0}, command->kept = false;
    return command->replied;
}

void net_reply(struct sim *sim, uint32_t index)
{
    struct command *command = &sim->command[index];
    struct process *process = &sim->process[command->process];
    struct link_model *link = &process->link[command->shard];
    if (!connected_still(sim, command) || command->answered || command->checking ||
        command->epoch != sim->redis.server[command->shard].epoch)
        return; /* what a Redis still said at its end is lost with its connections */
    if (awaits_tags(sim, process, command))
        return;
    const struct redis_answer *read = &command->answer;
    if (sim->mutant == MUTANT_REPLY_SHIFTED && link->shifted != 0) {
        const struct command *before = &sim->command[link->shifted - 1];
        link->shifted = index + 1;
        read = &before->answer;
    }
    sim_trace(sim, "p%u  reply to %s k%u %.8s", process->index, kind_name(command->action.kind), command->key,
              command->token);
    if (ask_for_epochs(sim, process, command))
        return;
    sim_near_replied(sim, process, command);
    answer(sim, process, command, read_answer(sim, command, read));
    if (command->at_former && read->error && sim->redis.server[command->shard].former != FORMER_FENCED)
        net_break(sim, process, command->shard);
    if (command->action.kind == CORE_RENEW && !read->error && !command->moved && read->code == 0)
        check_lost(sim, command);
    if (command->action.kind == CORE_PERMIT_RENEW && !read->error && !command->moved)
        check_permit_renewed(sim, command, read->code == 0);
}

void net_unsent(struct sim *sim, uint32_t index)
{
    struct command *command = &sim->command[index];
    if (!command->answered || command->redirections == 0)
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
    if (sim_is_calm(sim))
        sim_fail(sim, "p%u has no answer about k%u in time although nothing is wrong", process->index,
                 command->key);
    if (sim->mutant == MUTANT_REPLY_SHIFTED && command->executed) {
        process->link[command->shard].shifted = index + 1; /* the connection stays in use */
        process->link[command->shard].mute = false;
        answer(sim, process, command, (struct core_reply){.kind = REPLY_UNKNOWN});
        return;
    }
    bool is_of_tags = command->checking || command->replied;
    net_break(sim, process, is_of_tags ? shard_of_tags(sim) : command->shard);
    if (command->replied)
        net_reply(sim, index);
}

/* ---- the command connection ---- */

static void connect_after(struct sim *sim, const struct process *process, uint32_t shard, uint64_t low_us,
                          uint64_t high_us)
{
    sim_at(sim, sim->course.now_us + sim_between(sim, low_us, high_us),
           (struct event){
               .kind = EVENT_CONNECT, .process = process->index, .life = process->life, .key = shard});
}

/* A command, or the question after the tags of what it has found, which is another connection's if these are
 * there. */
static bool goes_by(const struct sim *sim, const struct command *command, uint32_t shard, uint32_t connection)
{
    if (command->checking)
        return shard_of_tags(sim) == shard && command->tags_connection == connection;
    return command->shard == shard && command->connection == connection;
}

void net_break(struct sim *sim, struct process *process, uint32_t shard)
{
    struct link_model *link = &process->link[shard];
    uint32_t broken = link->connection++, end = sim->commands;
    if (!link->up)
        return;
    link->up = link->mute = false;
    link->shifted = 0;
    sim_trace(sim, "p%u  connection broken", process->index);
    core_link(process->core, process_now_us(process), shard, false);
    for (uint32_t i = 0; i < end; i++) {
        struct command *command = &sim->command[i];
        if (command->life != process->life || command->answered || !goes_by(sim, command, shard, broken))
            continue;
        if (!command->executed && sim_one_in(sim, 2))
            command->dropped = true;
        answer(sim, process, command, (struct core_reply){.kind = REPLY_UNKNOWN});
    }
    connect_after(sim, process, shard, 1000, 80000);
}

/* It has been asked twice by then, and perhaps the Sentinels, too. */
static bool is_believed(const struct sim *sim, uint32_t shard)
{
    bool contradicted = sim->params.sentinels && sim->mutant != MUTANT_NO_CONFIRMING;
    return redis_former_serves(sim, shard) && !contradicted;
}

static void hear_of_another(struct sim *sim, const struct process *process, uint32_t shard)
{
    enum { HEARD_US = 1000000 };
    sim_at(sim, sim->course.now_us + sim_between(sim, 0, HEARD_US),
           (struct event){.kind = EVENT_BROKEN,
                          .process = process->index,
                          .life = process->life,
                          .subject = process->link[shard].connection,
                          .key = shard});
}

static void change_master(struct sim *sim, struct process *process, uint32_t shard)
{
    sim_near_reign(sim, process);
    core_reign(process->core, process_now_us(process), shard);
}

void net_connect(struct sim *sim, struct process *process, uint32_t shard, bool greeted)
{
    const struct server_model *server = &sim->redis.server[shard];
    struct link_model *link = &process->link[shard];
    bool at_former = greeted && is_believed(sim, shard);
    bool elsewhere = link->greets && !greeted;
    if (link->up)
        return;
    link->greets = elsewhere;
    if (elsewhere || (!at_former && (server->down || server->hung)) || outage_is_cut(sim, process)) {
        connect_after(sim, process, shard, 10000, 100000);
        return;
    }
    uint64_t reign = server->reign - at_former;
    link->up = true;
    if (link->reign != 0 && link->reign != reign)
        change_master(sim, process, shard);
    link->reign = reign;
    link->at_former = at_former;
    link->loop_at_former = at_former || (link->loop_at_former && sim->mutant == MUTANT_NO_GENERATION);
    link->sent_until_us = link->answered_until_us = sim->course.now_us;
    core_link(process->core, process_now_us(process), shard, true);
    process_drain(sim, process);
    if (at_former)
        hear_of_another(sim, process, shard);
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

/* Any node of a Cluster passes on what is published at another. */
static uint32_t shard_heard(const struct sim *sim, const struct process *process)
{
    return (process->index + process->subscription) % sim->params.shards;
}

void net_drop_commands(struct sim *sim, uint32_t shard)
{
    sim->redis.server[shard].epoch++;
    for (uint32_t i = 0; i < sim->commands; i++)
        if (!sim->command[i].executed && sim->command[i].shard == shard)
            sim->command[i].dropped = true;
}

void net_redis_gone(struct sim *sim, uint32_t shard)
{
    net_drop_commands(sim, shard);
    for (uint32_t i = 0; i < sim->params.processes; i++) {
        struct process *process = &sim->process[i];
        if (!process_runs(process))
            continue;
        if (shard_heard(sim, process) == shard)
            net_unsubscribe(sim, process);
        sim_at(sim, sim->course.now_us + 1,
               (struct event){.kind = EVENT_BROKEN,
                              .process = i,
                              .life = process->life,
                              .subject = process->link[shard].connection,
                              .key = shard});
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
    const struct server_model *server = &sim->redis.server[shard_heard(sim, process)];
    if (server->down || server->hung || outage_is_cut(sim, process)) {
        process->subscription += sim->params.shards - 1; /* then another one */
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
    event.filled = command->action.kind == CORE_FILL || command->action.kind == CORE_TOUCH;
    event.lease = event.filled ? load_id_of_tag(command->token + TOKEN_TAG_AT) : 0;
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
    sim_at(sim, outage_in_order_us(sim, process, at_us), event);
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
    struct core_reply pushed = {.lease_tag = fill->token + TOKEN_TAG_AT,
                                .absent = entry->absent,
                                .mark = entry->mark,
                                .shared = fill->action.kind == CORE_RELEASE,
                                .left_ms = (uint32_t)(entry->px_ms - entry->stale_ms)};
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
    if (fill == NULL || fill->answer.value.damaged || fill->answer.value.key != event->key ||
        keep_is_foreign(sim, process->index, &fill->answer.value))
        return false;
    if (!fill->answer.value.tagged || sim->mutant == MUTANT_PUSH_UNCHECKED) {
        push(sim, process, fill);
        return true;
    }
    struct event check = *event;
    check.kind = EVENT_PUSH_CHECK;
    if (process->link[shard_of_tags(sim)].up)
        sim_at(sim, sim->course.now_us + net_latency(sim), check);
    return process->link[shard_of_tags(sim)].up;
}

/* `gone` then says whether the entry is out of date; without an answer it counts as that. */
void net_push_check(struct sim *sim, const struct event *event)
{
    const struct stored_value *entry = &sim->command[event->subject - 1].answer.value;
    const struct server_model *server = &sim->redis.server[shard_of_tags(sim)];
    const struct tags_epochs epochs = tags_ask(sim, event->key);
    struct event checked = *event;
    checked.kind = EVENT_PUSH_CHECKED;
    checked.gone = server->down || server->hung || outage_is_cut(sim, &sim->process[event->process]) ||
                   tags_verdict_of(sim, entry, &epochs) != TAGS_GOOD || sim_fault(sim, FAULT_REPLY_LOST, 60);
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
        sim_at(sim, outage_back_us(process, sim->course.now_us + net_latency(sim)),
               (struct event){.kind = EVENT_PERMIT, .process = i, .life = process->life});
    }
}
