/* SPDX-License-Identifier: MIT */
/*
 * lock_masters.c - RedLock: several independent Redis, each with a clock of its own, and what
 * guard/locks/redlock/lock_quorum.h makes of their answers. What lock_redlock.c does with sockets is done here with
 * events.
 *
 * A command has a part for each master: its take, renewal or give, then perhaps a raise, a give that nobody waits
 * for, or one in doubt. Each is lost, late or unanswered by itself. A master that has lost its memory does not vote
 * for a while.
 */
#include "lock_sim.h"

#include <stdlib.h>
#include <string.h>

enum part { PART_ACTION, PART_RAISE, PART_GIVE_BACK, PART_BURY };

/* ---- masters ---- */

void lock_masters_start(struct lock_sim *sim)
{
    for (uint32_t i = 0; i < sim->params.masters; i++) {
        struct lock_master *master = &sim->master[i];
        lock_model_init(&master->model, LOCK_SIM_MAX_LEASE_MS, LOCK_SIM_FENCE_MS);
        master->clock_offset_ms = (int64_t)lock_sim_between(sim, 1000000000, 1000020000);
        master->down_until_us = master->young_until_us = 0;
        master->epoch = 0;
    }
}

static struct lock_master *some_master(struct lock_sim *sim)
{
    return &sim->master[lock_sim_between(sim, 0, sim->params.masters - 1)];
}

static uint64_t quorum(const struct lock_sim *sim)
{
    return sim->params.masters / 2 + 1;
}

/* ---- one part ---- */

static void schedule(struct lock_sim *sim, uint32_t index, uint32_t at, enum part part)
{
    const struct lock_command *command = &sim->command[index];
    struct lock_process *process = &sim->process[command->process];
    uint64_t *sent_until_us = &process->sent_to_us[at];
    struct event event = {.kind = LOCK_EVENT_MASTER_LIMIT,
                          .process = command->process,
                          .life = command->life,
                          .subject = index,
                          .key = at,
                          .subscription = sim->master[at].epoch,
                          .version = (uint16_t)part};
    uint64_t limit_us = sim->course.now_us + (uint64_t)sim->params.limit_ms * 1000;
    lock_sim_at(sim, limit_us, event);
    if (lock_sim_fault(sim, LOCK_FAULT_COMMAND_LOST, 30))
        return;
    uint64_t at_us = sim->course.now_us + lock_sim_between(sim, 1, sim->params.latency_us);
    at_us = at_us > *sent_until_us ? at_us : *sent_until_us + 1;
    *sent_until_us = at_us;
    if (lock_sim_fault(sim, LOCK_FAULT_COMMAND_LATE, 30))
        at_us = limit_us + lock_sim_between(sim, 0, 2000000);
    event.kind = LOCK_EVENT_MASTER;
    event.life = 0; /* what was sent arrives, whatever becomes of the process */
    lock_sim_at(sim, at_us, event);
}

static void go_on(struct lock_sim *sim, uint32_t index)
{
    struct lock_command *command = &sim->command[index];
    struct lock_round *round = &command->round->round;
    enum lock_round_step step;
    size_t at = 0;
    while ((step = lock_round_next(round, &at)) != LOCK_ROUND_WAIT) {
        if (step == LOCK_ROUND_TELL) {
            lock_round_reply(round, &command->reply);
            if (command->reply.kind == LOCK_REFUSED && command->reply.hint_ms == 0)
                command->reply.hint_ms = (uint32_t)lock_sim_between(sim, 25, 250);
            command->reply.before = command->reply.kind == LOCK_REFUSED;
            lock_sim_at(sim, sim->course.now_us + 1,
                        (struct event){.kind = LOCK_EVENT_REPLY,
                                       .process = command->process,
                                       .life = command->life,
                                       .subject = index});
            continue;
        }
        schedule(sim, index, (uint32_t)at,
                 step == LOCK_ROUND_RAISE  ? PART_RAISE
                 : step == LOCK_ROUND_BURY ? PART_BURY
                                           : PART_GIVE_BACK);
    }
}

static void answer(struct lock_sim *sim, uint32_t index, uint32_t at, enum part part,
                   const struct lock_reply *reply)
{
    struct lock_masters_round *of = sim->command[index].round;
    bool *answered = part == PART_RAISE ? &of->raise_answered[at] : &of->answered[at];
    if (*answered || part > PART_RAISE)
        return;
    *answered = true;
    if (part == PART_RAISE)
        lock_round_raised(&of->round, at, reply);
    else
        lock_round_replied(&of->round, at, reply);
    go_on(sim, index);
}

/* ---- events ---- */

void lock_masters_send(struct lock_sim *sim, uint32_t index)
{
    struct lock_command *command = &sim->command[index];
    command->round = calloc(1, sizeof *command->round);
    if (command->round == NULL)
        abort();
    lock_round_begin(&command->round->round, command->action.kind, sim->params.masters,
                     command->action.count);
    for (uint32_t at = 0; at < sim->params.masters; at++) {
        const struct lock_master *master = &sim->master[at];
        struct lock_reply unasked = {.kind = LOCK_UNSENT, .why = "down"};
        uint64_t young_us = master->young_until_us;
        bool young = command->action.kind == LOCK_TAKE && young_us > sim->course.now_us;
        if (young)
            unasked = (struct lock_reply){.kind = LOCK_REFUSED,
                                          .hint_ms = (uint32_t)((young_us - sim->course.now_us) / 1000) + 1};
        if (!young && master->down_until_us <= sim->course.now_us) {
            schedule(sim, index, at, PART_ACTION);
            continue;
        }
        command->round->answered[at] = true;
        lock_round_replied(&command->round->round, at, &unasked);
    }
    go_on(sim, index);
}

static void run_part(struct lock_sim *sim, const struct lock_command *command, struct lock_master *master,
                     enum part part, struct lock_model_answer *out)
{
    struct lock_action action = command->action;
    struct lock_name names[GUARD_LOCK_NAMES_MAX];
    for (size_t i = 0; i < action.count; i++) {
        const char *name = lock_sim_name(command->name[i]);
        names[i] = (struct lock_name){name, strlen(name)};
    }
    action.names = names;
    action.token = sim->token[command->token].text;
    action.place_ms = 0;
    action.doubt = part == PART_BURY || part == PART_ACTION;
    if (part >= PART_GIVE_BACK)
        action.kind = LOCK_GIVE;
    master->model.now_us = sim->course.now_us + (uint64_t)master->clock_offset_ms * 1000;
    if (part == PART_RAISE)
        lock_model_raise(&master->model, &action, command->round->round.fence, out);
    else
        lock_model_run(&master->model, &action, out);
}

void lock_masters_execute(struct lock_sim *sim, const struct event *event)
{
    static struct lock_model_answer out;
    const struct lock_command *command = &sim->command[event->subject];
    struct lock_master *master = &sim->master[event->key];
    enum part part = (enum part)event->version;
    struct event reply = *event;
    if (master->down_until_us > sim->course.now_us || master->epoch != event->subscription)
        return;
    run_part(sim, command, master, part, &out);
    if (part > PART_RAISE || lock_sim_fault(sim, LOCK_FAULT_REPLY_LOST, 30))
        return;
    if (part == PART_RAISE)
        command->round->raise_reply[event->key] = out.reply;
    else
        command->round->reply[event->key] = out.reply;
    reply.kind = LOCK_EVENT_MASTER_REPLY;
    reply.life = command->life;
    lock_sim_at(sim, sim->course.now_us + lock_sim_between(sim, 1, sim->params.latency_us), reply);
}

void lock_masters_reply(struct lock_sim *sim, const struct event *event)
{
    const struct lock_masters_round *of = sim->command[event->subject].round;
    enum part part = (enum part)event->version;
    answer(sim, event->subject, event->key, part,
           part == PART_RAISE ? &of->raise_reply[event->key] : &of->reply[event->key]);
}

void lock_masters_limit(struct lock_sim *sim, const struct event *event)
{
    answer(sim, event->subject, event->key, (enum part)event->version,
           &(struct lock_reply){.kind = LOCK_UNANSWERED, .why = "no answer"});
}

/* ---- what they know ---- */

static uint64_t until_on(const struct lock_master *master, const struct lock_sim *sim,
                         const struct lock_token *token)
{
    struct lock_model *model = (struct lock_model *)&master->model;
    int64_t least_ms = INT64_MAX;
    if (master->young_until_us > sim->course.now_us)
        return UINT64_MAX; /* it votes for nobody */
    for (size_t i = 0; i < token->count; i++) {
        const char *encoded = lock_sim_name(token->name[i]);
        struct lock_model_name *name = lock_model_name(model, encoded, strlen(encoded));
        const struct lock_model_member *member = lock_model_find(&name->held, token->text);
        if (member == NULL)
            return 0;
        least_ms = member->until_ms < least_ms ? member->until_ms : least_ms;
    }
    int64_t world_us = (least_ms - master->clock_offset_ms) * 1000;
    return world_us > 0 ? (uint64_t)world_us : 1;
}

/* Until when a quorum holds it. */
uint64_t lock_masters_until_us(const struct lock_sim *sim, const struct lock_token *token)
{
    uint64_t best_us = 0;
    for (uint32_t i = 0; i < sim->params.masters; i++) {
        uint64_t until_us = until_on(&sim->master[i], sim, token), count = 0;
        for (uint32_t n = 0; n < sim->params.masters; n++)
            count += until_on(&sim->master[n], sim, token) >= until_us;
        best_us = count >= quorum(sim) && until_us > best_us ? until_us : best_us;
    }
    return best_us;
}

/* ---- what goes wrong in one of them ---- */

void lock_masters_befall(struct lock_sim *sim, enum lock_fault fault)
{
    static const int64_t steps_ms[] = {3, 50, 700, 3600000};
    struct lock_master *master = some_master(sim);
    int64_t step_ms = steps_ms[lock_sim_between(sim, 0, 3)];
    const char *encoded = lock_sim_name((uint32_t)lock_sim_between(sim, 0, sim->params.names - 1));
    struct lock_model_name *name = lock_model_name(&master->model, encoded, strlen(encoded));
    if (fault == LOCK_FAULT_HANG)
        master->down_until_us = sim->course.now_us + lock_sim_between(sim, 10000, 2000000);
    else if (fault == LOCK_FAULT_CLOCK_FORWARD || fault == LOCK_FAULT_CLOCK_BACK)
        master->clock_offset_ms += fault == LOCK_FAULT_CLOCK_FORWARD ? step_ms : -step_ms;
    else if (fault == LOCK_FAULT_HELD_GONE)
        name->held.count = 0;
    else if (fault == LOCK_FAULT_TOMBSTONES_GONE)
        name->gone.count = 0;
    else if (fault == LOCK_FAULT_FENCE_GONE)
        name->fence = 0;
    if (fault == LOCK_FAULT_EMPTY) {
        lock_model_forget(&master->model);
        master->epoch++; /* and with it what is on its way there */
        master->young_until_us = sim->course.now_us + (uint64_t)LOCK_SIM_MAX_LEASE_MS * 1000;
    }
    lock_tokens_damaged(sim);
}
