/* SPDX-License-Identifier: MIT */
/* nemesis.c - see nemesis.h. */
#include "tests/chaos/nemesis.h"

#include "load/base/clock.h"
#include "load/base/dice.h"
#include "tests/chaos/masters.h"

#include <libpq-fe.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    IDLE_MS = 100,
    HOUR_S = 3600,
    TRIES = 50, /* to find a party that is free */
    LATE_MOST_MS = 800,
    DELAY_MOST_MS = 400,
    DRIBBLE_MOST_MS = 3,
    LINGER_MS = 600, /* what came late may still run, see proxy.c */
    REDIS_CLIENTS_MAX = 10000,
    STEPS_MAX = NEMESIS_MAX * 2,
};

/* ---- the plan ---- */

/* When each party is free again, in ms of the plan. */
struct parties {
    uint32_t catalogd[SCENE_PROCESSES], redis, postgres, masters;
    uint32_t redis_links[SCENE_PROCESSES], postgres_links[SCENE_PROCESSES];
};

struct planner {
    uint64_t chance;
    const struct nemesis_options *options;
    enum fault_topology topology;
    struct parties free_ms;
};

static uint32_t chance_below(struct planner *planner, uint32_t limit)
{
    return (uint32_t)dice_below(&planner->chance, limit);
}

/* Where it strikes: the slots in `parties` that must be free, count of them. */
static uint32_t *slots_of(struct parties *parties, const struct fault *fault, size_t *count)
{
    uint32_t *links = fault->side == FAULT_OF_REDIS ? parties->redis_links : parties->postgres_links;
    bool everybody = fault->process == FAULT_EVERYBODY;
    *count = 1;
    switch (fault_trait(fault->kind)->party) {
    case FAULT_OF_CATALOGD:
        return &parties->catalogd[fault->process];
    case FAULT_OF_REDIS:
        return &parties->redis;
    case FAULT_OF_POSTGRES:
        return &parties->postgres;
    case FAULT_OF_MASTERS:
        return &parties->masters;
    case FAULT_OF_LINK:
        break;
    }
    *count = everybody ? SCENE_PROCESSES : 1;
    return everybody ? links : &links[fault->process];
}

static void choose_target(struct planner *planner, struct fault *fault)
{
    uint32_t first = (uint32_t)planner->options->first_mortal;
    fault->side = fault_trait(fault->kind)->party;
    fault->process = FAULT_EVERYBODY;
    if (fault->kind == FAULT_CATALOGD_KILL)
        fault->process = (uint8_t)(first + chance_below(planner, SCENE_PROCESSES - first));
    if (fault->kind == FAULT_CATALOGD_STOP || fault->kind == FAULT_READER_STOP)
        fault->process = (uint8_t)chance_below(planner, SCENE_PROCESSES);
    if (fault->side != FAULT_OF_LINK)
        return;
    fault->side = chance_below(planner, 3) == 0 || planner->topology != FAULT_ONE_REDIS ? FAULT_OF_POSTGRES
                                                                                        : FAULT_OF_REDIS;
    if (fault->kind == FAULT_REDIS_FAR)
        fault->side = FAULT_OF_REDIS;
    if (chance_below(planner, 5) != 0 || fault->kind == FAULT_REDIS_FAR)
        fault->process = (uint8_t)chance_below(planner, SCENE_PROCESSES);
}

/* Of what may take a hundred times as long, the short ones are as frequent as the long ones. */
static uint32_t choose_span_ms(struct planner *planner, const struct fault_trait *trait)
{
    enum { DOUBLED_MOST = 7, MANY_TIMES = 100 };
    uint32_t most_ms = trait->longest_ms;
    if (trait->longest_ms >= trait->shortest_ms * MANY_TIMES)
        most_ms = trait->shortest_ms << (1 + chance_below(planner, DOUBLED_MOST));
    if (most_ms > trait->longest_ms)
        most_ms = trait->longest_ms;
    return trait->shortest_ms + chance_below(planner, most_ms - trait->shortest_ms + 1);
}

static uint32_t choose_amount(struct planner *planner, enum fault_kind kind)
{
    if (kind == FAULT_LINK_DELAY)
        return 1 + chance_below(planner, DELAY_MOST_MS);
    if (kind == FAULT_LINK_DRIBBLE)
        return chance_below(planner, DRIBBLE_MOST_MS);
    return kind == FAULT_LINK_LATE ? 1 + chance_below(planner, LATE_MOST_MS) : 0;
}

/* One that this topology knows. */
static enum fault_kind choose_kind(struct planner *planner)
{
    enum fault_kind known[FAULT_KINDS];
    uint32_t count = 0;
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        if ((fault_trait((enum fault_kind)kind)->topologies & (unsigned)planner->topology) != 0)
            known[count++] = (enum fault_kind)kind;
    }
    return known[chance_below(planner, count)];
}

/* False: the party is busy, or there is not enough time left. */
static bool try_entry(struct planner *planner, uint32_t now_ms, struct nemesis_entry *entry)
{
    size_t count;
    *entry = (struct nemesis_entry){.fault.kind = choose_kind(planner)};
    const struct fault_trait *trait = fault_trait(entry->fault.kind);
    choose_target(planner, &entry->fault);
    entry->amount_ms = choose_amount(planner, entry->fault.kind);
    entry->begin_ms = now_ms;
    entry->end_ms = now_ms + choose_span_ms(planner, trait);
    uint32_t *slots = slots_of(&planner->free_ms, &entry->fault, &count);
    for (size_t i = 0; i < count; i++) {
        if (slots[i] > now_ms)
            return false;
    }
    if (entry->end_ms > planner->options->span_ms)
        return false;
    for (size_t i = 0; i < count; i++)
        slots[i] = entry->end_ms + 1;
    return true;
}

void nemesis_plan(const struct nemesis_options *options, struct nemesis_plan *out)
{
    struct planner planner = {.chance = options->seed,
                              .options = options,
                              .topology = options->topology != 0 ? options->topology : FAULT_ONE_REDIS};
    out->count = 0;
    for (uint32_t now_ms = 0; now_ms < options->span_ms && out->count < NEMESIS_MAX;) {
        bool found = false;
        for (int i = 0; i < TRIES && !found; i++)
            found = try_entry(&planner, now_ms, &out->entries[out->count]);
        out->count += found;
        now_ms += 1 + chance_below(&planner, options->gap_ms * 2);
    }
}

/* ---- blows ---- */

/* What the blows need to know of each other. */
struct run {
    struct scene *scene;
    PGconn *held[SCENE_CONNECTIONS + 8]; /* POSTGRES_FULL; owned */
    size_t held_count;
    struct masters masters;
};

/* Each does what its kind of fault is, or undoes it. */

static bool befall_catalogd(struct scene *scene, const struct fault *fault, bool mends)
{
    const uint8_t process = fault->process;
    switch (fault->kind) {
    case FAULT_CATALOGD_KILL:
        return mends ? scene_catalogd_start(scene, process) : scene_catalogd_kill(scene, process);
    case FAULT_CATALOGD_STOP:
        if (mends)
            proc_resume(scene->catalogd[process].pid);
        scene->paused[process] = !mends;
        if (!mends)
            proc_pause(scene->catalogd[process].pid);
        return true;
    case FAULT_READER_STOP:
        if (!mends)
            return scene_reader_stop(scene, process);
        kill(scene->reader[process], SIGCONT); /* or it has ended meanwhile */
        return true;
    default:
        return false;
    }
}

static bool fill_redis(struct stack_redis *redis)
{
    return stack_redis_do(redis, "CONFIG SET maxclients 1") &&
           stack_redis_do(redis, "CLIENT KILL TYPE normal SKIPME yes") &&
           stack_redis_do(redis, "CLIENT KILL TYPE pubsub SKIPME yes");
}

static bool befall_redis(struct scene *scene, enum fault_kind kind, bool mends)
{
    struct stack_redis *redis = &scene->redis;
    switch (kind) {
    case FAULT_REDIS_KILL:
    case FAULT_REDIS_AWAY:
        if (mends)
            return stack_redis_restart(redis);
        stack_redis_kill(redis);
        return true;
    case FAULT_REDIS_STOP:
        (mends ? stack_redis_resume : stack_redis_pause)(redis);
        return true;
    case FAULT_REDIS_FLUSH:
        return mends || stack_redis_do(redis, "FLUSHALL");
    case FAULT_REDIS_FULL:
        return mends ? stack_redis_do(redis, "CONFIG SET maxclients %d", REDIS_CLIENTS_MAX)
                     : fill_redis(redis);
    case FAULT_REDIS_AHEAD:
    case FAULT_REDIS_BEHIND:
        atomic_store(scene->redis_offset_s, mends ? 0 : kind == FAULT_REDIS_AHEAD ? HOUR_S : -HOUR_S);
        return true;
    default:
        return false;
    }
}

static void ignore_notice(void *context, const char *text)
{
    (void)context, (void)text;
}

static PGconn *connect_directly(struct run *run)
{
    PGconn *connection = PQconnectdb(run->scene->postgres.socket_url);
    PQsetNoticeProcessor(connection, ignore_notice, NULL);
    if (PQstatus(connection) == CONNECTION_OK)
        return connection;
    PQfinish(connection);
    return NULL;
}

static bool terminate_all(PGconn *connection)
{
    PGresult *result =
        PQexec(connection, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                           "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
    bool good = PQresultStatus(result) == PGRES_TUPLES_OK;
    PQclear(result);
    return good;
}

/* That there is no connection left for us is an exhaustion, too, but not ours to make: nothing is done then. */
static bool terminate(struct run *run)
{
    PGconn *connection = connect_directly(run);
    bool good = connection == NULL || terminate_all(connection);
    PQfinish(connection);
    return good;
}

static bool fill_postgres(struct run *run)
{
    bool good = terminate(run);
    PGconn *connection;
    while (run->held_count < sizeof run->held / sizeof *run->held &&
           (connection = connect_directly(run)) != NULL)
        run->held[run->held_count++] = connection;
    return good;
}

static bool make_room(struct run *run)
{
    while (run->held_count > 0)
        PQfinish(run->held[--run->held_count]);
    return true;
}

static bool lead_links_to(struct run *run, const struct stack_postgres *postgres)
{
    for (size_t i = 0; i < SCENE_PROCESSES; i++)
        proxy_retarget(run->scene->proxy, run->scene->postgres_route[i], postgres->port);
    return true;
}

static bool befall_postgres(struct run *run, enum fault_kind kind, bool mends)
{
    struct stack_postgres *postgres = &run->scene->postgres;
    switch (kind) {
    case FAULT_POSTGRES_KILL:
        if (mends)
            return stack_postgres_restart(postgres);
        proc_kill_tree(&postgres->pid);
        return true;
    case FAULT_POSTGRES_STOP:
        if (mends)
            proc_resume(postgres->pid);
        else
            proc_pause(postgres->pid);
        return true;
    case FAULT_POSTGRES_RESTART:
        return mends || stack_postgres_restart(postgres);
    case FAULT_POSTGRES_TERMINATE:
        return mends || terminate(run);
    case FAULT_POSTGRES_FULL:
        return mends ? make_room(run) : fill_postgres(run);
    case FAULT_POSTGRES_STANDBY:
        return lead_links_to(run, mends ? postgres : &run->scene->standby);
    default:
        return false;
    }
}

static const enum proxy_fault of_link[FAULT_KINDS] = {
    [FAULT_LINK_DELAY] = PROXY_DELAY,
    [FAULT_LINK_DROP] = PROXY_DROP,
    [FAULT_LINK_RESET] = PROXY_RESET,
    [FAULT_LINK_SILENT] = PROXY_SILENT,
    [FAULT_LINK_DRIBBLE] = PROXY_DRIBBLE,
    [FAULT_LINK_CUT] = PROXY_CUT,
    [FAULT_LINK_FREEZE_REQUESTS] = PROXY_FREEZE_REQUESTS,
    [FAULT_LINK_FREEZE_REPLIES] = PROXY_FREEZE_REPLIES,
    [FAULT_LINK_LATE] = PROXY_LATE,
    [FAULT_REDIS_FAR] = PROXY_RESET,
};

static bool befall_links(const struct scene *scene, const struct nemesis_entry *entry, bool mends)
{
    const struct fault *fault = &entry->fault;
    const size_t *routes = fault->side == FAULT_OF_REDIS ? scene->redis_route : scene->postgres_route;
    for (size_t i = 0; i < SCENE_PROCESSES; i++) {
        if (fault->process == i || fault->process == FAULT_EVERYBODY)
            proxy_set(scene->proxy, routes[i], mends ? PROXY_NONE : of_link[fault->kind],
                      mends ? 0 : entry->amount_ms);
    }
    return true;
}

static bool befall(struct run *run, const struct nemesis_entry *entry, bool mends)
{
    const enum fault_kind kind = entry->fault.kind;
    switch (fault_trait(kind)->party) {
    case FAULT_OF_CATALOGD:
        return befall_catalogd(run->scene, &entry->fault, mends);
    case FAULT_OF_REDIS:
        return befall_redis(run->scene, kind, mends);
    case FAULT_OF_POSTGRES:
        return befall_postgres(run, kind, mends);
    case FAULT_OF_LINK:
        return befall_links(run->scene, entry, mends);
    case FAULT_OF_MASTERS:
        return mends ? masters_mend(&run->masters)
                     : masters_strike(&run->masters, run->scene, kind, MASTERS_ANY_SLOT);
    }
    return false;
}

/* ---- the run ---- */

struct step {
    uint32_t at_ms;
    bool mends;
    struct nemesis_entry *entry;
};

/* At the same time what ends comes first: its party may be struck again. */
static int by_time(const void *a, const void *b)
{
    const struct step *one = a, *other = b;
    if (one->at_ms != other->at_ms)
        return one->at_ms < other->at_ms ? -1 : 1;
    return (int)other->mends - (int)one->mends;
}

static size_t make_steps(struct nemesis_plan *plan, struct step *steps)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        struct nemesis_entry *entry = &plan->entries[i];
        entry->fault.begin_us = 0;
        steps[count++] = (struct step){.at_ms = entry->begin_ms, .entry = entry};
        steps[count++] = (struct step){.at_ms = entry->end_ms, .mends = true, .entry = entry};
    }
    qsort(steps, count, sizeof *steps, by_time);
    return count;
}

/* A fault of the network is over when what it kept has been delivered. */
static bool take(struct run *run, const struct step *step, struct history *history)
{
    struct nemesis_entry *entry = step->entry;
    if (!step->mends)
        entry->fault.begin_us = clock_us();
    else if (entry->fault.begin_us == 0) /* never struck: the run was ended */
        return true;
    bool good = befall(run, entry, step->mends);
    if (!good)
        fprintf(stderr, "nemesis: %s could not be %s\n", fault_trait(entry->fault.kind)->name,
                step->mends ? "mended" : "done");
    if (!step->mends)
        return good;
    uint32_t linger_ms = fault_trait(entry->fault.kind)->party == FAULT_OF_LINK ? LINGER_MS : 0;
    entry->fault.end_us = clock_after_ms(linger_ms);
    if (entry->fault.side == FAULT_OF_MASTERS)
        entry->fault.end_us = run->masters.switched_us;
    history_add_fault(history, &entry->fault);
    return good;
}

/* False: `idle` wants an end. */
static bool wait_until(uint64_t at_us, nemesis_idle *idle, void *context)
{
    do {
        if (!idle(context))
            return false;
        uint64_t now_us = clock_us();
        uint64_t left_ms = now_us < at_us ? (at_us - now_us) / 1000 : 0;
        clock_pause_ms(left_ms < IDLE_MS ? (uint32_t)left_ms : IDLE_MS);
    } while (clock_us() + 1000 <= at_us);
    return true;
}

bool nemesis_run(struct nemesis_plan *plan, uint32_t span_ms, struct scene *scene, struct history *history,
                 nemesis_idle *idle, void *context)
{
    static struct step steps[STEPS_MAX];
    struct run run = {.scene = scene};
    uint64_t begin_us = clock_us();
    size_t count = make_steps(plan, steps);
    bool goes_on = true, good = true;
    for (size_t i = 0; i < count; i++) {
        goes_on = goes_on && wait_until(begin_us + (uint64_t)steps[i].at_ms * 1000, idle, context);
        if (goes_on || steps[i].mends)
            good = take(&run, &steps[i], history) && good;
        goes_on = goes_on && good;
    }
    return goes_on && wait_until(begin_us + (uint64_t)span_ms * 1000, idle, context) && good;
}
