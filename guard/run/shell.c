/* SPDX-License-Identifier: MIT */
/* shell.c - the turn of the guard's thread, what it hears, what it says of itself. See shell.h. */
#include "../base/clock.h"
#include "shell_parts.h"

enum guard_status shell_refuse(struct guard *guard, const char *function, const char *wrong)
{
    if (!shell_forked(guard))
        say(&guard->say, SAY_CALLER, SAY_BAD, "%s: %s", function, wrong);
    else if (!atomic_exchange(&guard->forked_said, true))
        say_in_child(&guard->say, "%s: %s", function, wrong);
    return GUARD_INVALID;
}

/* ---- the turn ---- */

static void on_timer(uv_timer_t *timer)
{
    struct guard *guard = timer->data;
    core_tick(guard->core, clock_now_us());
    shell_perform_all(guard);
    if (guard->shadow != NULL)
        core_tick(guard->fleet, clock_now_us());
    shell_after_events(guard);
}

static void set_timer(struct guard *guard)
{
    uint64_t next_us = core_next_us(guard->core), fleet_us = core_next_us(guard->fleet);
    if (fleet_us < next_us)
        next_us = fleet_us;
    if (next_us == UINT64_MAX) {
        uv_timer_stop(&guard->timer);
        return;
    }
    uint64_t now_us = clock_now_us();
    uint64_t in_ms = next_us > now_us ? (next_us - now_us + 999) / 1000 : 0;
    uv_update_time(&guard->loop);
    uv_timer_start(&guard->timer, on_timer, in_ms, 0);
}

static void publish_stats(struct guard *guard)
{
    struct guard_stats stats;
    core_stats(guard->core, &stats);
    if (guard->shadow != NULL)
        shadow_stats(guard->shadow, &stats);
    stats.redis_state = guard->own->redis_state;
    stats.wake_state = wake_state(guard->wake);
    pthread_mutex_lock(&guard->mutex);
    guard->published = stats;
    pthread_mutex_unlock(&guard->mutex);
}

/* What the answered gets have loaded goes on from here. */
static void end_shadows(struct guard *guard)
{
    shell_perform_shadow(guard);
    publish_stats(guard);
}

/* Only keeps the loop from blocking before shell_on_turn_over(). */
static void on_awake(uv_idle_t *idle)
{
    (void)idle;
}

/* After every batch of events: do what the core wants, tell whom it answered. Who is told finds himself in the
 * counters. */
void shell_after_events(struct guard *guard)
{
    if (guard->phase == SHELL_ENDING)
        return;
    shell_perform_all(guard);
    publish_stats(guard);
    shell_tell_answered(guard);
    if (guard->shadow != NULL)
        end_shadows(guard);
    shell_tell_invalidated(guard);
    set_timer(guard);
    if (core_iteration_due(guard->core) || guard->sweep_due)
        uv_idle_start(&guard->awake, on_awake);
    shell_advance_end(guard);
}

/* After all that was to be read in this turn of the loop has been read. */
void shell_on_turn_over(uv_check_t *check)
{
    struct guard *guard = check->data;
    if (guard->phase == SHELL_ENDING)
        return;
    guard->sweep_due = guard->sweep_due && near_sweep(guard->near);
    if (!guard->sweep_due)
        uv_idle_stop(&guard->awake);
    if (!core_iteration_due(guard->core))
        return;
    core_iteration_over(guard->core, clock_now_us());
    shell_after_events(guard);
}

/* ---- messages and the link ---- */

void shell_on_message(void *context, const struct message *message)
{
    struct guard *guard = context;
    bool invalidated = message->kind == MESSAGE_INVALIDATED;
    if (message->kind == MESSAGE_TAG) {
        near_heard_tag(guard->near, message->subject, message->subject_bytes);
        return; /* no key: nobody waits for it */
    }
    near_heard(guard->near, invalidated, message->subject, message->subject_bytes);
    if (message->kind == MESSAGE_PERMIT)
        core_permit_freed(guard->fleet, clock_now_us(), message->subject, message->subject_bytes);
    else if (!shell_take_push(guard, message))
        core_woken(guard->fleet, clock_now_us(), message->subject, message->subject_bytes, invalidated);
    shell_after_events(guard);
}

void shell_on_resync(void *context)
{
    struct guard *guard = context;
    core_resync(guard->fleet, clock_now_us());
    shell_after_events(guard);
}

void shell_on_wake_state(void *context, const char *text)
{
    struct guard *guard = context;
    bool up = wake_state(guard->wake) == GUARD_REDIS_UP;
    say(&guard->say, SAY_WAKE, up ? SAY_GOOD : SAY_BAD, "wake-ups: %s", text);
    near_subscribed(guard->near, up);
    guard->sweep_due = guard->near != NULL && (guard->sweep_due || !up);
    shell_after_events(guard); /* nothing else may happen for long, and guard_stats() tells of it */
}

void shell_link(struct guard *guard, bool up)
{
    if (guard->phase == SHELL_ENDING)
        return;
    if (up)
        shell_ask_cache(guard);
    else
        shell_forget_cache(guard);
    core_link(guard->fleet, clock_now_us(), up);
    shell_after_events(guard);
}
