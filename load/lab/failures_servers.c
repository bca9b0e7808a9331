/* SPDX-License-Identifier: MIT */
/*
 * failures_servers.c - what goes wrong with the servers that a lock lives on: masters, sessions, poolers; see
 * trial.h.
 *
 * Worker 0 takes the lock first. Of three masters it can often reach only two, which is a majority: RedLock promises
 * to work then.
 */
#include "load/lab/trial.h"

#include "load/base/clock.h"
#include "load/lab/source.h"

#include <hiredis/hiredis.h>

#include <stdio.h>

enum { ANSWER_LIMIT_MS = 10000, GRANT_LIMIT_MS = 25000, SLACK_MS = 700, OUR_POLL_MS = 750 + SLACK_MS };
enum { MEMORY_MASTER = 0, CUT_OFF_MASTER = 2 };

enum { LEASE_OVER_QUARTERS = 5 };

/* Worker 0 holds the lock, and its query lasts. *refused: it says that it cannot work here. */
static bool hold_first(struct trial *trial, uint32_t fixed_lease_ms, bool *refused)
{
    struct fleet *fleet = &trial->fleet;
    const struct order order = {.kind = ORDER_ASK, .fixed_lease_ms = fixed_lease_ms};
    const uint64_t end_us = clock_after_ms(GRANT_LIMIT_MS);
    if (!source_hold(trial->lab->source, trial->key, 0, 0) || !fleet_ask_for(fleet, 0, &order))
        return false;
    while (fleet_count(fleet, NOTE_HELD, 0) == 0 && fleet_count(fleet, NOTE_ANSWERED, 0) == 0 &&
           !fleet->is_broken && clock_us() < end_us)
        fleet_await(fleet, NOTE_HELD, 0, 1, SLACK_MS);
    const struct fleet_note *answered = fleet_first(fleet, NOTE_ANSWERED, 0, 0);
    *refused = answered != NULL && answered->note.value == LAB_REFUSED;
    return !fleet->is_broken && (*refused || fleet_count(fleet, NOTE_HELD, 0) > 0);
}

/* If worker 1 gets the lock, though worker 0 has it, it may end before worker 0 writes. */
static bool let_second_in(struct trial *trial)
{
    struct fleet *fleet = &trial->fleet;
    const struct order order = {.kind = ORDER_ASK,
                                .fixed_lease_ms = trial_ms(trial, TRIAL_LONG_LEASE_QUARTERS)};
    if (!fleet_ask_for(fleet, 1, &order))
        return false;
    bool held;
    if (trial_watch(trial, 1, 1, TRIAL_OTHERS_QUARTERS, &held) && held)
        fleet_await(fleet, NOTE_ANSWERED, 1, 1, ANSWER_LIMIT_MS);
    return !fleet->is_broken && source_let_go(trial->lab->source, trial->key, 0);
}

/* ---- masters ---- */

/* Two of the masters do what worker 0 says, and it does not hear of it. Before that it has had the lock once: masters
 * that have just been started may not be asked at all. */
static bool ask_unheard(struct trial *trial)
{
    struct servers *servers = &trial->lab->servers;
    if (!fleet_ask(&trial->fleet, 0, STEP_NONE) ||
        !fleet_await(&trial->fleet, NOTE_ANSWERED, 0, 1, GRANT_LIMIT_MS))
        return false;
    const uint64_t end_us = clock_after_ms(ANSWER_LIMIT_MS);
    for (size_t i = 0; i < SERVERS_MASTERS; i++)
        freeReplyObject(stack_redis_command(&servers->masters[i], "FLUSHALL"));
    for (size_t i = 1; i < SERVERS_MASTERS; i++)
        servers_fault(servers, i, PROXY_FREEZE_REPLIES);
    if (!fleet_ask(&trial->fleet, 0, STEP_NONE))
        return false;
    for (size_t i = 1; i < SERVERS_MASTERS;) {
        i += stack_redis_number(&servers->masters[i], "DBSIZE") > 0;
        if (clock_us() >= end_us) {
            fprintf(stderr, "lab: the masters were not asked\n");
            return false;
        }
        clock_pause_ms(1);
    }
    return true;
}

static bool run_slow_quorum(struct trial *trial)
{
    struct fleet *fleet = &trial->fleet;
    if (!ask_unheard(trial) || !source_hold(trial->lab->source, trial->key, 1, 1))
        return false;
    clock_pause_ms(trial_ms(trial, LEASE_OVER_QUARTERS)); /* what the masters did has run out */
    const uint64_t asked_us = clock_us();
    if (!fleet_ask(fleet, 1, STEP_NONE) || !trial_measure_taken(trial, 1, asked_us, TRIAL_FOR_EVER_QUARTERS))
        return false;
    for (size_t i = 1; i < SERVERS_MASTERS; i++)
        servers_fault(&trial->lab->servers, i, PROXY_NONE);
    return trial_watch(trial, 0, 2, TRIAL_WATCH_QUARTERS, NULL) &&
           source_let_go(trial->lab->source, trial->key, 1);
}

static bool run_clock_step(struct trial *trial)
{
    struct servers *servers = &trial->lab->servers;
    bool refused;
    servers_fault(servers, CUT_OFF_MASTER, PROXY_RESET);
    return hold_first(trial, trial_ms(trial, TRIAL_LONG_LEASE_QUARTERS), &refused) &&
           servers_step_clock(servers, (int64_t)trial->lab->lease_s * TRIAL_LONG_LEASE_QUARTERS) &&
           let_second_in(trial);
}

static bool run_lost_memory(struct trial *trial)
{
    struct servers *servers = &trial->lab->servers;
    bool refused;
    servers_fault(servers, CUT_OFF_MASTER, PROXY_RESET);
    if (!hold_first(trial, trial_ms(trial, TRIAL_LONG_LEASE_QUARTERS), &refused))
        return false;
    stack_redis_kill(&servers->masters[MEMORY_MASTER]);
    return stack_redis_restart(&servers->masters[MEMORY_MASTER]) && let_second_in(trial);
}

/* ---- sessions of PostgreSQL ---- */

static bool run_backend_killed(struct trial *trial)
{
    bool refused;
    return hold_first(trial, 0, &refused) && source_end_holders(trial->lab->source) && let_second_in(trial);
}

static bool run_pooler(struct trial *trial)
{
    bool refused;
    return hold_first(trial, 0, &refused) && (refused || let_second_in(trial));
}

/* ---- ZooKeeper ---- */

static bool run_cut_off(struct trial *trial)
{
    bool refused;
    if (!hold_first(trial, 0, &refused))
        return false;
    proxy_set(trial->lab->servers.zookeeper_proxy, 0, PROXY_SILENT, 0);
    const bool good =
        let_second_in(trial) && fleet_await(&trial->fleet, NOTE_RELEASED, 0, 1, ANSWER_LIMIT_MS);
    proxy_set(trial->lab->servers.zookeeper_proxy, 0, PROXY_NONE, 0);
    return good;
}

/* Worker 1 has the lock, worker 0's node is made behind it. The reply is kept until the connection is gone. */
static bool lose_reply(struct trial *trial)
{
    struct proxy *proxy = trial->lab->servers.zookeeper_proxy;
    const uint64_t end_us = clock_after_ms(ANSWER_LIMIT_MS);
    proxy_mark(proxy, 0, "_c_", PROXY_FREEZE_REPLIES);
    if (!fleet_ask(&trial->fleet, 0, STEP_NONE))
        return false;
    while (trial_count_nodes(trial) < 2) {
        if (clock_us() >= end_us)
            return false;
        clock_pause_ms(1);
    }
    proxy_set(proxy, 0, PROXY_RESET, 0);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    return true;
}

static bool run_create_lost(struct trial *trial)
{
    struct fleet *fleet = &trial->fleet;
    if (!source_hold(trial->lab->source, trial->key, 1, 1) || !fleet_ask(fleet, 1, STEP_NONE) ||
        !fleet_await(fleet, NOTE_HELD, 1, 1, ANSWER_LIMIT_MS) || !lose_reply(trial) ||
        !source_let_go(trial->lab->source, trial->key, 1) ||
        !fleet_await(fleet, NOTE_RELEASED, 1, 1, ANSWER_LIMIT_MS))
        return false;
    return trial_measure_taken(trial, 0, fleet_first(fleet, NOTE_RELEASED, 1, 0)->note.at_us,
                               TRIAL_FOR_EVER_QUARTERS);
}

/* ---- the table ---- */

const struct failure failures_servers[] = {
    {"slow-quorum", "Two of three masters grant the lock, and their replies come after its lease",
     "Meanwhile another takes it; it still has it when the replies arrive.", GROUP_REDLOCK, 2,
     run_slow_quorum, .demand = {.our_wait_leases = 1, .our_wait_ms = OUR_POLL_MS}},
    {"clock-step", "The clock of one of the two masters that granted the lock steps ahead of its lease",
     "The holder cannot reach the third one; others can. Another asks, reads, writes; then the holder "
     "writes.",
     GROUP_REDLOCK, 2, run_clock_step, .demand = {.may_overlap = true}},
    {"lost-memory", "One of the two masters that granted the lock is killed and comes back empty",
     "The holder cannot reach the third one; others can. Another asks, reads, writes; then the holder "
     "writes.",
     GROUP_REDLOCK, 2, run_lost_memory, .limit = LAB_ALL},
    {"backend-killed", "The server ends the session that has the lock (pg_terminate_backend)",
     "The holder's work goes on over its other connection. Another asks, reads, writes; then the holder "
     "writes.",
     GROUP_ADVISORY, 2, run_backend_killed, .demand = {.may_overlap = true}},
    {"pooler", "Locks are taken through a pooler in transaction mode (PgBouncer)",
     "All its clients share the sessions of the server. While one has the lock another asks.", GROUP_ADVISORY,
     2, run_pooler, .is_pooled = true, .demand = {.must_refuse = true}},
    {"cut-off", "The holder is cut off from ZooKeeper until its session is over",
     "Its work goes on. Another asks, reads, writes; then the holder writes.", GROUP_ZOOKEEPER, 2,
     run_cut_off, .limit = LAB_ALL},
    {"create-lost", "ZooKeeper makes a waiter's node, and the reply is lost with the connection",
     "Then the holder gives the lock back. A waiter that makes a second node waits behind its own first one.",
     GROUP_ZOOKEEPER, 2, run_create_lost, .demand = {.our_wait_ms = OUR_POLL_MS}},
    {.name = NULL},
};
