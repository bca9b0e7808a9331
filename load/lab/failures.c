/* SPDX-License-Identifier: MIT */
/*
 * failures.c - what goes wrong with a lock around a cached value, one function each, and the table of all failures;
 * see trial.h.
 *
 * It happens to worker 0. Nothing is timed to hit a window: a worker stops itself at the step
 * that matters, a query lasts until it is let go.
 */
#include "load/lab/trial.h"

#include "load/base/clock.h"
#include "load/lab/source.h"

#include <hiredis/hiredis.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HERD = 16, GROUP = 8, FEW = 4, HELD_LIMIT_MS = 5000, ANSWER_LIMIT_MS = 10000, ARRIVAL_MS = 7 };

/* Ours waits for the lease where its holder is gone, and for a message otherwise, or for a poll (500 ms +- 50 %)
 * when the message is lost. The rest is for a busy machine. */
enum { SLACK_MS = 700, OUR_POLL_MS = 750 + SLACK_MS, OUR_WAKE_MS = SLACK_MS };

/* Worker 0 holds the lock and its query lasts; all others come after it, pause_ms apart, and wait. */
static bool load_and_herd(struct trial *trial, uint32_t pause_ms)
{
    struct fleet *fleet = &trial->fleet;
    return source_hold(trial->lab->source, trial->key, 0, fleet->worker_count - 1) &&
           fleet_ask(fleet, 0, STEP_NONE) && fleet_await(fleet, NOTE_HELD, 0, 1, HELD_LIMIT_MS) &&
           source_wait_held(trial->lab->source, 1, HELD_LIMIT_MS) && fleet_ask_from(fleet, 1, pause_ms);
}

/* Lets worker 0's query end and waits for its answer. */
static bool finish_first(struct trial *trial)
{
    return source_let_go(trial->lab->source, trial->key, 0) &&
           fleet_await(&trial->fleet, NOTE_ANSWERED, 0, 1, ANSWER_LIMIT_MS);
}

/* Worker 0 stands still at the step. False with CELL_NO_MOMENT: it never comes by there. */
static bool stop_first_at(struct trial *trial, enum lab_step step)
{
    bool reached;
    if (fleet_stop_at(&trial->fleet, 0, step, &reached))
        return true;
    if (!reached && !trial->fleet.is_broken && fleet_count(&trial->fleet, NOTE_ANSWERED, 0) > 0)
        trial->cell->state = CELL_NO_MOMENT;
    return false;
}

static bool has_no_moment(const struct trial *trial)
{
    return trial->cell->state == CELL_NO_MOMENT;
}

/* ---- nothing goes wrong ---- */

/* They do not come in step: the last of them would be woken early or late by chance. */
static bool run_calm(struct trial *trial)
{
    if (!load_and_herd(trial, ARRIVAL_MS))
        return false;
    trial_measure_polling(trial);
    return true;
}

/* ---- between the look and the lock ---- */

static bool run_late_look(struct trial *trial)
{
    struct fleet *fleet = &trial->fleet;
    if (!stop_first_at(trial, STEP_LOOKED))
        return has_no_moment(trial);
    if (!fleet_ask(fleet, 1, STEP_NONE) || !fleet_await(fleet, NOTE_ANSWERED, 1, 1, ANSWER_LIMIT_MS))
        return false;
    fleet_resume(fleet, 0);
    return true;
}

/* ---- the holder dies ---- */

static bool kill_first_at(struct trial *trial, enum lab_step step)
{
    struct fleet *fleet = &trial->fleet;
    if (!stop_first_at(trial, step))
        return has_no_moment(trial);
    return fleet_ask_from(fleet, 1, 0) && trial_measure_stuck(trial, fleet_kill(fleet, 0));
}

static bool run_killed(struct trial *trial)
{
    return kill_first_at(trial, STEP_HELD);
}

static bool run_gap(struct trial *trial)
{
    return kill_first_at(trial, STEP_CLAIMED);
}

/* ---- the work outlives the lease ---- */

/* The first holder ends while the second still loads, if there is a second. */
static bool run_slow(struct trial *trial)
{
    if (!load_and_herd(trial, 0))
        return false;
    return trial_watch(trial, FLEET_ANYBODY, 2, TRIAL_OTHERS_QUARTERS, NULL) && finish_first(trial);
}

/* ---- the holder is paused past its lease ---- */

/* Asks worker 1 to take over from the paused one. The stuck time ends when it can: a later query may last. */
static bool take_over(struct trial *trial, uint64_t since_us, bool *taken)
{
    struct fleet *fleet = &trial->fleet;
    if (!fleet_ask(fleet, 1, STEP_NONE))
        return false;
    const bool good = trial_watch(trial, 1, 1, TRIAL_OTHERS_QUARTERS, taken);
    trial->cell->has_stuck = true;
    trial->cell->is_until_resumed = !*taken;
    trial->cell->stuck_us =
        (*taken ? fleet_first(fleet, NOTE_HELD, 1, 0)->note.at_us : clock_us()) - since_us;
    return good;
}

static bool run_late_release(struct trial *trial)
{
    struct fleet *fleet = &trial->fleet;
    bool taken;
    if (!stop_first_at(trial, STEP_RELEASING))
        return has_no_moment(trial);
    const uint64_t paused_us = clock_us();
    if (!trial_change(trial, 3) || !source_hold(trial->lab->source, trial->key, 1, 3) ||
        !take_over(trial, paused_us, &taken))
        return false;
    fleet_resume(fleet, 0);
    if (!fleet_await(fleet, NOTE_ANSWERED, 0, 1, ANSWER_LIMIT_MS) || !fleet_ask_from(fleet, 2, 0))
        return false;
    return trial_watch(trial, FLEET_ANYBODY, 3, TRIAL_WATCH_QUARTERS, NULL); /* does a third one come in? */
}

static bool run_late_fill(struct trial *trial)
{
    struct fleet *fleet = &trial->fleet;
    bool taken;
    if (!stop_first_at(trial, STEP_LOADED))
        return has_no_moment(trial);
    if (!take_over(trial, clock_us(), &taken) ||
        (taken && !fleet_await(fleet, NOTE_ANSWERED, 1, 1, ANSWER_LIMIT_MS)))
        return false;
    if (!trial_change(trial, 3) || !fleet_ask(fleet, 2, STEP_NONE) ||
        (taken && !fleet_await(fleet, NOTE_ANSWERED, 2, 1, ANSWER_LIMIT_MS)))
        return false;
    fleet_resume(fleet, 0);
    return trial_settle(trial) && fleet_ask(fleet, 3, STEP_NONE);
}

/* ---- the row changes ---- */

static bool run_changed(struct trial *trial)
{
    struct fleet *fleet = &trial->fleet;
    return source_hold(trial->lab->source, trial->key, 0, 0) && fleet_ask(fleet, 0, STEP_NONE) &&
           source_wait_held(trial->lab->source, 1, HELD_LIMIT_MS) && trial_change(trial, 1) &&
           finish_first(trial) && fleet_ask(fleet, 1, STEP_NONE);
}

/* ---- Redis comes back empty ---- */

/* Its port opens when MONITOR listens, so that nothing of the new one goes unseen. */
static bool restart_redis(struct trial *trial)
{
    static const char *const closed[] = {"--port", "0", NULL};
    struct stack_redis *redis = &trial->lab->redis;
    stack_redis_kill(redis);
    monitor_lost(&trial->monitor);
    redis->arguments = closed;
    const bool is_up = stack_redis_restart(redis);
    redis->arguments = NULL;
    if (!is_up || !monitor_again(&trial->monitor, redis))
        return false;
    return stack_redis_do(redis, "CONFIG SET port %u", (unsigned)redis->port);
}

static bool run_restart(struct trial *trial)
{
    if (!load_and_herd(trial, 0) || !restart_redis(trial))
        return false;
    return trial_watch(trial, FLEET_ANYBODY, 2, TRIAL_OTHERS_QUARTERS, NULL) && finish_first(trial);
}

/* ---- the release message is lost ---- */

static uint32_t count_subscribers(struct stack_redis *redis)
{
    uint32_t count = 0;
    struct redisReply *reply = stack_redis_command(redis, "CLIENT LIST TYPE pubsub");
    for (const char *at = reply != NULL && reply->str != NULL ? reply->str : ""; *at != '\0'; at++)
        count += *at == '\n';
    freeReplyObject(reply);
    return count;
}

/* How many have subscribed: all waiters as soon as they have, otherwise what a quarter of a lease has brought. */
static uint32_t wait_subscribed(struct trial *trial)
{
    const uint64_t end_us = clock_us() + (uint64_t)trial_ms(trial, TRIAL_WATCH_QUARTERS) * 1000;
    uint32_t count;
    while ((count = count_subscribers(&trial->lab->redis)) < trial->fleet.worker_count - 1 &&
           clock_us() < end_us)
        clock_pause_ms(1);
    return count;
}

/* Subscriptions are cut, and Redis takes no new connection until the message has gone out, unheard. */
static bool run_lost_message(struct trial *trial)
{
    struct stack_redis *redis = &trial->lab->redis;
    if (!load_and_herd(trial, 0))
        return false;
    if (wait_subscribed(trial) == 0) {
        trial->cell->state = CELL_NO_MOMENT;
        return true;
    }
    const bool good = stack_redis_do(redis, "CONFIG SET maxclients 1") &&
                      stack_redis_do(redis, "CLIENT KILL TYPE pubsub") && finish_first(trial);
    return stack_redis_do(redis, "CONFIG SET maxclients 10000") && good; /* also for the cells to come */
}

/* ---- the table ---- */

const struct failure failures_cache[] = {
    {"calm", "Nothing goes wrong",
     "16 processes want a cold key within a tenth of a second; the query lasts longer than that.",
     GROUP_CACHE, HERD, run_calm, .wants_wake = true,
     .demand = {.needed_loads = 1, .our_wait_ms = OUR_WAKE_MS}},
    {"late-look", "A process is held up between its look and its lock",
     "It saw no value. By the time it asks for the lock, another has loaded, filled and released.",
     GROUP_CACHE, 2, run_late_look, .demand = {.needed_loads = 1, .our_wait_ms = OUR_WAKE_MS}},
    {"killed", "The holder is killed (SIGKILL) right after it took the lock",
     "7 others wait. It dies before its query.", GROUP_CACHE, GROUP, run_killed,
     .demand = {.needed_loads = 1, .our_wait_leases = 1, .our_wait_ms = OUR_POLL_MS}},
    {"gap", "The holder is killed between taking the lock and giving it an end",
     "Only a scheme that takes the lock in two steps has this moment.", GROUP_CACHE, FEW, run_gap,
     .demand = {.needed_loads = 1, .our_wait_leases = 1, .our_wait_ms = OUR_POLL_MS}},
    {"slow", "The query lasts longer than the lease",
     "3 others wait; the query ends once another has taken the lock, or after 2.5 leases.", GROUP_CACHE, FEW,
     run_slow, .wants_wake = true, .demand = {.needed_loads = 1, .our_wait_ms = OUR_WAKE_MS}},
    {"late-release", "The holder is paused (SIGSTOP) past its lease, right before it deletes the lock",
     "Meanwhile the row changes, the key is invalidated and another takes the lock; then it goes on.",
     GROUP_CACHE, FEW, run_late_release,
     .demand = {.needed_loads = 2, .our_wait_leases = 1, .our_wait_ms = OUR_POLL_MS}},
    {"late-fill", "The holder is paused (SIGSTOP) past its lease, between its query and its fill",
     "Another loads and fills; the row changes, is invalidated and loaded again; then the old holder fills.",
     GROUP_CACHE, FEW, run_late_fill,
     .demand = {.needed_loads = 3, .our_wait_leases = 1, .our_wait_ms = OUR_POLL_MS}},
    {"changed", "The row changes and the key is invalidated while the query runs",
     "The query has read the old row. Afterwards somebody asks again.", GROUP_CACHE, 2, run_changed,
     .demand = {.needed_loads = 2, .our_wait_ms = OUR_WAKE_MS}},
    {"restart", "Redis is killed and comes back empty while the query runs",
     "3 others wait for a lock that is gone.", GROUP_CACHE, FEW, run_restart,
     .demand = {.needed_loads = 1, .our_loads_each = 2, .our_wait_leases = 1, .our_wait_ms = OUR_POLL_MS}},
    {"lost-message", "The message that wakes the waiters is lost",
     "Subscriptions are cut and cannot come back before the value is there.", GROUP_CACHE, FEW,
     run_lost_message, .wants_wake = true, .demand = {.needed_loads = 1, .our_wait_ms = OUR_POLL_MS}},
    {.name = NULL},
};

const struct failure *failure_at(size_t index)
{
    const struct failure *const tables[] = {failures_cache, failures_lock, failures_servers};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const struct failure *failure = tables[i]; failure->name != NULL; failure++) {
            if (index-- == 0)
                return failure;
        }
    }
    return NULL;
}
