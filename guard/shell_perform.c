/* SPDX-License-Identifier: MIT */
/* shell_perform.c - what the core wants done: scripts to Redis, loads to the workers. See shell_parts.h. */
#include "clock.h"
#include "shell_parts.h"
#include <stdlib.h>
#include <string.h>

/* One command on its way. */
struct call {
    struct guard *guard;
    enum core_action_kind kind;
    uint64_t op;
    size_t key_bytes;
    char key[]; /* the application's: entries are checked against it */
};

static void on_reply(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct call *call = context;
    struct guard *guard = call->guard;
    struct core_reply core_reply;
    struct value *value = NULL;
    if (guard->phase == SHELL_ENDING) { /* the core has ended already */
        free(call);
        return;
    }
    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_ERROR)
        shell_log(guard, "redis refused a script: %.200s", reply->str);
    protocol_read(call->kind, call->key, call->key_bytes, outcome, reply, &core_reply, &value);
    core_replied(guard->fleet, clock_now_us(), call->op, &core_reply);
    value_unref(&value);
    free(call);
    shell_after_events(guard);
}

static bool send_script(struct guard *guard, const struct core_action *action)
{
    struct call *call = malloc(sizeof *call + action->key.plain_bytes);
    if (call == NULL)
        return false;
    call->guard = guard;
    call->kind = action->kind;
    call->op = action->op;
    call->key_bytes = action->key.plain_bytes;
    memcpy(call->key, action->key.plain, call->key_bytes);
    if (protocol_send(&guard->protocol, guard->own->redis, action, on_reply, call))
        return true;
    free(call);
    return false;
}

static bool start_load(struct guard *guard, const struct core_action *action)
{
    const struct job job = {
        .load = action->load,
        .key = action->key.plain,
        .key_bytes = action->key.plain_bytes,
        .policy = action->policy,
        .deadline_us = action->deadline_us,
        .lender = action->lender,
        .previous_validator = action->previous != NULL ? action->previous->public.validator : NULL,
        .batch = action->batch,
    };
    return workers_start(guard->workers, &job);
}

static void perform(struct guard *guard, const struct core_action *action)
{
    bool performed = true;
    switch (action->kind) {
    case CORE_ACQUIRE:
    case CORE_RENEW:
    case CORE_FILL:
    case CORE_TOUCH:
    case CORE_RELEASE:
    case CORE_INVALIDATE:
    case CORE_PERMIT_ACQUIRE:
    case CORE_PERMIT_RENEW:
    case CORE_PERMIT_RELEASE:
        performed = send_script(guard, action);
        break;
    case CORE_LOAD:
        performed = start_load(guard, action);
        break;
    case CORE_CANCEL:
        workers_cancel(guard->workers, action->load);
        break;
    }
    if (!performed)
        core_unperformed(action->op != 0 ? guard->fleet : guard->core, action);
}

/* Its loads are those of the gets. */
void shell_perform_shadow(struct guard *guard)
{
    struct core_action action;
    do {
        while (core_next_action(guard->fleet, &action)) {
            if (action.kind == CORE_LOAD)
                shadow_load(guard->shadow, &action);
            else if (action.kind == CORE_CANCEL)
                shadow_cancel(guard->shadow, action.load);
            else
                perform(guard, &action);
        }
        shadow_answers(guard->shadow);
    } while (shadow_step(guard->shadow, clock_now_us()));
}

void shell_perform_all(struct guard *guard)
{
    struct core_action action;
    do {
        while (core_next_action(guard->core, &action))
            perform(guard, &action);
    } while (core_tell_unperformed(guard->core, clock_now_us()));
    if (guard->shadow != NULL)
        shell_perform_shadow(guard);
    workers_commit(guard->workers);
}
