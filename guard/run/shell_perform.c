/* SPDX-License-Identifier: MIT */
/* shell_perform.c - what the core wants done: scripts to Redis, loads to the workers. See shell_parts.h. */
#include "../base/clock.h"
#include "shell_parts.h"

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
        performed = shell_send(guard, action);
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
