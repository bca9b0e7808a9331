/* SPDX-License-Identifier: MIT */
/* core_actions.c - what is to be done: a ring of actions that never lacks room. See core.h. */
#include "flight.h"
#include <assert.h>
#include <stdlib.h>

enum { ACTIONS_PER_OWNER = 4 }; /* the most that one event makes one flight or invalidation ask for */

static bool grow_actions(struct core *core, uint32_t capacity)
{
    struct unperformed *unperformed = realloc(core->unperformed, capacity * sizeof *unperformed);
    if (unperformed == NULL)
        return false;
    core->unperformed = unperformed;
    struct core_action *actions = malloc(capacity * sizeof *actions);
    if (actions == NULL)
        return false;
    for (uint32_t i = 0; i < core->action_count; i++)
        actions[i] = core->actions[(core->action_first + i) % core->action_capacity];
    free(core->actions);
    core->actions = actions;
    core->action_first = 0;
    core->action_capacity = capacity;
    return true;
}

bool core_reserve_owner(struct core *core)
{
    uint32_t needed = (core->action_owners + 1) * ACTIONS_PER_OWNER;
    if (needed > core->action_capacity && !grow_actions(core, needed * 2))
        return false;
    if (!alarms_reserve(&core->alarms))
        return false;
    core->action_owners++;
    return true;
}

void core_unreserve_owner(struct core *core)
{
    core->action_owners--;
    alarms_unreserve(&core->alarms);
}

void core_emit(struct core *core, const struct core_action *action)
{
    assert(core->action_count < core->action_capacity);
    uint32_t at = (core->action_first + core->action_count) % core->action_capacity;
    core->actions[at] = *action;
    core->action_count++;
}

bool core_next_action(struct core *core, struct core_action *out)
{
    if (core->action_count == 0)
        return false;
    *out = core->actions[core->action_first];
    core->action_first = (core->action_first + 1) % core->action_capacity;
    core->action_count--;
    return true;
}

void core_unperformed(struct core *core, const struct core_action *action)
{
    assert(core->unperformed_count < core->action_capacity);
    core->unperformed[core->unperformed_count++] = (struct unperformed){action->op, action->load};
}

bool core_tell_unperformed(struct core *core, uint64_t now_us)
{
    if (core->unperformed_count == 0)
        return false;
    struct unperformed last = core->unperformed[--core->unperformed_count];
    if (last.op != 0)
        core_replied(core, now_us, last.op, &(struct core_reply){.kind = REPLY_UNSENT});
    else
        core_loaded(core, now_us, last.load,
                    &(struct core_loaded){.outcome = LOAD_FAILED, .failure = GUARD_FAILURE_INTERNAL});
    return true;
}
