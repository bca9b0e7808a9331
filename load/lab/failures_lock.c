/* SPDX-License-Identifier: MIT */
/*
 * failures_lock.c - what goes wrong with a lock, wherever it lives; see trial.h.
 *
 * The holder is worker 0, and its section lasts as long as its query is held. Those that come after it are asked one
 * by one, each once the former stands in line.
 */
#include "load/lab/trial.h"

#include "load/base/clock.h"
#include "load/lab/source.h"

enum {
    ANSWER_LIMIT_MS = 10000,
    HAND_OVERS = 6,
    ROUNDS = 60,
    ROUNDS_MS = 2000,
    LINE = 6,
    DEAD_HEADS = 5,
    PLACE_MS_MAX = 6000
};

/* The rest is for a busy machine: half of the hand-overs of ours take less than OUR_HAND_OVER_MS. Places in our queue
 * last 3 s. */
enum {
    SLACK_MS = 700,
    OUR_POLL_MS = 750 + SLACK_MS,
    OUR_PLACE_MS = 3000 + OUR_POLL_MS,
    OUR_HAND_OVER_MS = 100
};

/* So many quarters of a lease are watched: the longest that any scheme has been seen to take, and some. */
enum { WATCH_HEAD_QUARTERS = 24, WATCH_HEADS_QUARTERS = 72 };

static bool ask_as(struct trial *trial, uint32_t worker, enum lab_mode mode, uint32_t fixed_lease_ms)
{
    const struct order order = {.kind = ORDER_ASK, .mode = (int32_t)mode, .fixed_lease_ms = fixed_lease_ms};
    return fleet_ask_for(&trial->fleet, worker, &order);
}

/* They hold what they asked for, and their queries last. */
static bool hold_as(struct trial *trial, uint32_t worker, enum lab_mode mode, uint32_t fixed_lease_ms)
{
    return source_hold(trial->lab->source, trial->key, worker, worker) &&
           ask_as(trial, worker, mode, fixed_lease_ms) &&
           fleet_await(&trial->fleet, NOTE_HELD, worker, 1, ANSWER_LIMIT_MS);
}

/* The section of this worker ends; the instant at which it begins to give the lock back. 0: it does not. */
static uint64_t finish(struct trial *trial, uint32_t worker)
{
    if (!source_let_go(trial->lab->source, trial->key, worker) ||
        !fleet_await(&trial->fleet, NOTE_RELEASED, worker, 1, ANSWER_LIMIT_MS))
        return 0;
    return fleet_first(&trial->fleet, NOTE_RELEASED, worker, 0)->note.at_us;
}

/* ... and how soon `next` has it then. */
static bool pass_on(struct trial *trial, uint32_t worker, uint32_t next, uint32_t quarters)
{
    const uint64_t released_us = finish(trial, worker);
    return released_us > 0 && trial_measure_taken(trial, next, released_us, quarters);
}

/* What seemed to last for ever lasts as long as the paused one is paused. */
static void until_resumed(struct cell *cell)
{
    cell->is_until_resumed = cell->is_for_ever;
    cell->is_for_ever = false;
}

/* Workers 1 to `last` stand in line behind worker 0, in that order. */
static bool hold_and_line_up(struct trial *trial, uint32_t last)
{
    if (!hold_as(trial, 0, MODE_ALONE, 0))
        return false;
    for (uint32_t i = 1; i <= last; i++) {
        if (!ask_as(trial, i, MODE_ALONE, 0) || !trial_wait_in_line(trial, i))
            return false;
    }
    return true;
}

/* ---- nothing goes wrong ---- */

static bool run_hand_over(struct trial *trial)
{
    const struct order order = {.kind = ORDER_ASK, .rounds = ROUNDS, .rounds_ms = ROUNDS_MS};
    for (uint32_t i = 0; i < trial->fleet.worker_count; i++) {
        if (!fleet_ask_for(&trial->fleet, i, &order))
            return false;
    }
    return fleet_await(&trial->fleet, NOTE_ANSWERED, FLEET_ANYBODY, trial->fleet.worker_count,
                       LAB_REQUEST_LIMIT_MS);
}

static bool run_in_line(struct trial *trial)
{
    trial->cell->lock.has_order = true;
    return hold_and_line_up(trial, trial->fleet.worker_count - 1) && finish(trial, 0) > 0;
}

/* ---- the holder dies, or is paused ---- */

static bool run_dead_holder(struct trial *trial)
{
    struct fleet *fleet = &trial->fleet;
    bool reached;
    return fleet_stop_at(fleet, 0, STEP_HELD, &reached) && fleet_ask_from(fleet, 1, 0) &&
           trial_measure_taken(trial, FLEET_ANYBODY, fleet_kill(fleet, 0), TRIAL_FOR_EVER_QUARTERS);
}

static bool run_late_write(struct trial *trial)
{
    struct fleet *fleet = &trial->fleet;
    bool reached;
    if (!fleet_stop_at(fleet, 0, STEP_LOADED, &reached))
        return false;
    const uint64_t paused_us = clock_us();
    if (!ask_as(trial, 1, MODE_ALONE, trial_ms(trial, TRIAL_LONG_LEASE_QUARTERS)) ||
        !trial_measure_taken(trial, 1, paused_us, TRIAL_OTHERS_QUARTERS))
        return false;
    until_resumed(trial->cell);
    if (!trial->cell->is_until_resumed && !fleet_await(fleet, NOTE_ANSWERED, 1, 1, ANSWER_LIMIT_MS))
        return false;
    fleet_resume(fleet, 0);
    return true;
}

/* ---- the queue ---- */

static bool run_heads(struct trial *trial, uint32_t dead, uint32_t quarters)
{
    if (!hold_and_line_up(trial, dead + 1))
        return false;
    for (uint32_t i = 1; i <= dead; i++)
        fleet_kill(&trial->fleet, i);
    return pass_on(trial, 0, dead + 1, quarters);
}

static bool run_dead_head(struct trial *trial)
{
    return run_heads(trial, 1, WATCH_HEAD_QUARTERS);
}

static bool run_dead_heads(struct trial *trial)
{
    return run_heads(trial, DEAD_HEADS, WATCH_HEADS_QUARTERS);
}

static bool run_paused_waiter(struct trial *trial)
{
    if (!hold_and_line_up(trial, 2))
        return false;
    fleet_pause(&trial->fleet, 1);
    if (!pass_on(trial, 0, 2, WATCH_HEAD_QUARTERS))
        return false;
    until_resumed(trial->cell);
    fleet_resume(&trial->fleet, 1);
    return true;
}

/* Longer than any scheme here keeps a place for a waiter that it does not hear of. */
static bool run_long_hold(struct trial *trial)
{
    if (!hold_and_line_up(trial, 1))
        return false;
    clock_pause_ms(trial_ms(trial, 4) + PLACE_MS_MAX);
    return pass_on(trial, 0, 1, TRIAL_FOR_EVER_QUARTERS);
}

/* ---- readers and writers ---- */

static bool run_dead_reader(struct trial *trial)
{
    if (!hold_as(trial, 0, MODE_SHARED, 0) || !hold_as(trial, 1, MODE_SHARED, 0) ||
        !ask_as(trial, 2, MODE_ALONE, 0))
        return false;
    fleet_kill(&trial->fleet, 0); /* by the end of the watch its lease is over */
    return trial_watch(trial, 2, 1, TRIAL_OTHERS_QUARTERS, NULL) &&
           pass_on(trial, 1, 2, TRIAL_FOR_EVER_QUARTERS);
}

/* Leases of the caller's own are not renewed. */
static bool run_shorter_lease(struct trial *trial)
{
    const uint32_t lease_ms = trial_ms(trial, 4);
    if (!hold_as(trial, 0, MODE_SHARED, 3 * lease_ms) || !hold_as(trial, 1, MODE_SHARED, lease_ms) ||
        !ask_as(trial, 2, MODE_ALONE, 0))
        return false;
    /* After six quarters the shorter lease is over, the longer one is not. */
    return trial_watch(trial, 2, 1, 6, NULL) && finish(trial, 1) > 0 &&
           trial_watch(trial, 2, 1, TRIAL_WATCH_QUARTERS, NULL) && finish(trial, 0) > 0;
}

static bool run_read_unlock(struct trial *trial)
{
    return hold_as(trial, 0, MODE_READ_UNDER, 0) && ask_as(trial, 1, MODE_ALONE, 0) &&
           trial_watch(trial, 1, 1, TRIAL_WATCH_QUARTERS, NULL) && finish(trial, 0) > 0;
}

/* ---- permits ---- */

static bool run_dead_permit(struct trial *trial)
{
    if (!hold_as(trial, 0, MODE_SHARED, 0) || !hold_as(trial, 1, MODE_SHARED, 0) ||
        !ask_as(trial, 2, MODE_SHARED, 0))
        return false;
    return trial_measure_taken(trial, 2, fleet_kill(&trial->fleet, 0), TRIAL_FOR_EVER_QUARTERS);
}

/* ---- a crowd ---- */

enum { CROWD_PROCESSES = 4, CROWD_EACH = 250, CROWD = CROWD_PROCESSES * CROWD_EACH, IDLE_QUARTERS = 4 };
enum { CROWD_LIMIT_MS = 45000 };

struct calls {
    uint64_t at_us, sent, run;
};

static struct calls count_calls(struct trial *trial)
{
    struct stack_redis *redis = &trial->lab->redis;
    return (struct calls){.at_us = clock_us(),
                          .sent = stack_redis_calls(redis, "evalsha") + stack_redis_calls(redis, "eval"),
                          .run = stack_redis_calls(redis, NULL)};
}

static bool gather_crowd(struct trial *trial)
{
    const struct order order = {.kind = ORDER_ASK, .crowd = CROWD_EACH};
    for (uint32_t i = 1; i <= CROWD_PROCESSES; i++) {
        if (!fleet_ask_for(&trial->fleet, i, &order))
            return false;
    }
    return fleet_await(&trial->fleet, NOTE_WAITING, FLEET_ANYBODY, CROWD_PROCESSES, ANSWER_LIMIT_MS) &&
           (trial->scheme->queue_length == NULL || trial_wait_in_line(trial, CROWD));
}

static bool run_crowd(struct trial *trial)
{
    struct cell_lock *lock = &trial->cell->lock;
    if (!hold_as(trial, 0, MODE_ALONE, 0) || !gather_crowd(trial))
        return false;
    const struct calls before = count_calls(trial);
    clock_pause_ms(trial_ms(trial, IDLE_QUARTERS)); /* a span to count over, not a wait for something */
    const struct calls idle = count_calls(trial);
    if (finish(trial, 0) == 0 ||
        !fleet_await(&trial->fleet, NOTE_ANSWERED, FLEET_ANYBODY, CROWD_PROCESSES + 1, CROWD_LIMIT_MS))
        return false;
    const struct calls after = count_calls(trial);
    const double idle_s = (double)(idle.at_us - before.at_us) / 1e6;
    lock->crowd = CROWD;
    lock->idle_sent_per_s = (double)(idle.sent - before.sent) / idle_s;
    lock->idle_run_per_s = (double)(idle.run - before.run) / idle_s;
    lock->hand_over_sent = (double)(after.sent - idle.sent) / CROWD;
    lock->hand_over_run = (double)(after.run - idle.run) / CROWD;
    lock->hand_overs_per_s = CROWD / ((double)(after.at_us - idle.at_us) / 1e6);
    return true;
}

/* ---- the table ---- */

const struct failure failures_lock[] = {
    {"hand-over", "Nothing goes wrong",
     "6 processes want the lock 60 times each, or for 2 s, with nothing between; it goes from one to the "
     "next.",
     GROUP_LOCK, HAND_OVERS, run_hand_over, .demand = {.our_hand_over_ms = OUR_HAND_OVER_MS}},
    {"dead-holder", "The holder is killed (SIGKILL)", "3 others wait.", GROUP_LOCK, 4, run_dead_holder,
     .demand = {.our_wait_leases = 1, .our_wait_ms = OUR_POLL_MS}},
    {"late-write", "The holder is paused (SIGSTOP) past its lease, right before it writes",
     "Another takes the lock, reads, writes, and gives it back; then the old holder writes what it had read "
     "before.",
     GROUP_LOCK, 2, run_late_write,
     .demand = {.our_wait_leases = 1, .our_wait_ms = OUR_POLL_MS, .may_overlap = true}},
    {"in-line", "Nothing goes wrong: are they served in the order in which they came?",
     "5 stand in line behind the holder, each there before the next one comes.", GROUP_FAIR, LINE,
     run_in_line, .limit = LAB_ALL},
    {"dead-head", "The first of the queue is killed (SIGKILL)",
     "The holder gives the lock back, and one more waits behind the dead one.", GROUP_FAIR, 3, run_dead_head,
     .demand = {.our_wait_ms = OUR_PLACE_MS}},
    {"dead-heads", "The first five of the queue are killed (SIGKILL)",
     "The holder gives the lock back, and one more waits behind the dead ones.", GROUP_FAIR, DEAD_HEADS + 2,
     run_dead_heads, .demand = {.our_wait_ms = OUR_PLACE_MS}},
    {"paused-waiter", "The first of the queue is paused (SIGSTOP) past its place",
     "The holder gives the lock back, one more waits; once that one has it the paused one goes on, and wants "
     "it still.",
     GROUP_FAIR, 3, run_paused_waiter, .demand = {.our_wait_ms = OUR_PLACE_MS}},
    {"long-hold", "The holder works for long: its lease and 6 s, the lease renewed",
     "One waits, and is well. Does it still have its place when the holder gives the lock back?", GROUP_FAIR,
     2, run_long_hold, .demand = {.our_wait_ms = SLACK_MS}},
    {"dead-reader", "A reader is killed (SIGKILL) beside one that lives and reads on for 2.5 leases",
     "A writer waits. How long does it wait once the living reader has given its lock back?", GROUP_RW, 3,
     run_dead_reader, .demand = {.our_wait_ms = OUR_POLL_MS}},
    {"shorter-lease", "A reader with a shorter lease comes beside one with a longer lease",
     "The shorter lease runs out and is given back late, while the other reads on; a writer waits.", GROUP_RW,
     3, run_shorter_lease, .demand = {.our_wait_ms = OUR_POLL_MS}},
    {"read-unlock", "A writer takes a read lock under its own write lock, and gives that back",
     "It still has the write lock; another writer waits.", GROUP_RW, 2, run_read_unlock,
     .demand = {.our_wait_ms = OUR_POLL_MS}},
    {"dead-permit", "One of two that have a permit is killed (SIGKILL)",
     "There are two permits. A third one waits, and the second goes on. When does the dead one's come back?",
     GROUP_PERMITS, 3, run_dead_permit, .limit = LAB_PERMITS,
     .demand = {.our_wait_leases = 1, .our_wait_ms = OUR_POLL_MS}},
    {"thousand", "Nothing goes wrong: 1 000 wait for one name, 250 in each of 4 processes",
     "What do they cost Redis while they wait, and for each hand-over once the holder gives the lock back?",
     GROUP_CROWD, CROWD_PROCESSES + 1, run_crowd, .limit = LAB_ALL},
    {.name = NULL},
};
