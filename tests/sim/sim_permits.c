/* SPDX-License-Identifier: MIT */
/*
 * sim_permits.c - the model Redis: the scripts of the load permits, guard/wire/scripts/permit_*.lua in C; and what
 * must be true of permits.
 *
 * Limit        at most as many queries run at a time as there are permits, not counting those whose permit was lost;
 *              in a calm run all count
 * Under it     a load that begins under a permit holds it, unless Redis has lost its data or its clock was stepped
 * Turn         no process is granted a permit that one ahead of it in the queue would get
 * Told         if a permit is free, the processes whose turn it is know: a message was sent (it may be lost), or
 *              their own reply says so
 * Given back   in a calm run every permit that is out is used or about to be; at the end of every run none is out
 */
#include "sim.h"
#include <string.h>

enum { USERS_FIRST = 1, REFRESHES_FIRST = 1000000 };

/* ---- permits that are out, processes that wait ---- */

static struct permit_out *find_out(struct sim *sim, const char *token)
{
    for (uint32_t i = 0; i < SIM_PERMITS; i++) {
        struct permit_out *out = &sim->redis.permits.out[i];
        if (out->there && strcmp(out->token, token) == 0)
            return out;
    }
    return NULL;
}

static uint32_t count_out(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SIM_PERMITS; i++)
        count += sim->redis.permits.out[i].there;
    return count;
}

static struct permit_waiter *find_waiter(struct sim *sim, const char *name)
{
    for (uint32_t i = 0; i < SIM_WAITERS; i++) {
        struct permit_waiter *waiter = &sim->redis.permits.waiter[i];
        if (waiter->order != 0 && strcmp(waiter->name, name) == 0)
            return waiter;
    }
    return NULL;
}

/* Of others, before this order. */
static uint32_t count_ahead(const struct sim *sim, uint64_t order, const char *name)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SIM_WAITERS; i++) {
        const struct permit_waiter *waiter = &sim->redis.permits.waiter[i];
        count += waiter->order != 0 && waiter->order < order && strcmp(waiter->name, name) != 0;
    }
    return count;
}

static uint64_t last_of(const struct sim *sim, uint64_t first, uint64_t end)
{
    uint64_t last = first - 1;
    for (uint32_t i = 0; i < SIM_WAITERS; i++) {
        uint64_t order = sim->redis.permits.waiter[i].order;
        if (order >= first && order < end && order > last)
            last = order;
    }
    return last;
}

/* No message tells of a permit that runs out: the poll finds it. */
static void excuse_all(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_WAITERS; i++)
        sim->redis.permits.waiter[i].told = true;
}

/* Drops what has run out. */
static void sweep_permits(struct sim *sim)
{
    int64_t now_ms = redis_now_ms(sim);
    for (uint32_t i = 0; i < SIM_PERMITS; i++) {
        struct permit_out *out = &sim->redis.permits.out[i];
        if (out->there && out->expires_ms <= now_ms && sim->mutant != MUTANT_PERMIT_FOR_EVER) {
            out->there = false;
            excuse_all(sim);
        }
        if (out->expires_ms > now_ms + sim->params.permit_ms)
            out->expires_ms = now_ms + sim->params.permit_ms;
    }
    for (uint32_t i = 0; i < SIM_WAITERS; i++) {
        struct permit_waiter *waiter = &sim->redis.permits.waiter[i];
        if (waiter->order != 0 && waiter->alive_ms <= now_ms) {
            waiter->order = 0;
            excuse_all(sim);
        }
        if (waiter->alive_ms > now_ms + PERMIT_WAIT_MS)
            waiter->alive_ms = now_ms + PERMIT_WAIT_MS;
    }
}

static void put_out(struct sim *sim, const char *token)
{
    struct permit_out *out = find_out(sim, token);
    for (uint32_t i = 0; i < SIM_PERMITS && out == NULL; i++)
        if (!sim->redis.permits.out[i].there)
            out = &sim->redis.permits.out[i];
    if (out == NULL) {
        sim_fail(sim, "more than %d permits are out", SIM_PERMITS);
        return;
    }
    out->there = true;
    memcpy(out->token, token, strlen(token) + 1);
    out->expires_ms = redis_now_ms(sim) + sim->params.permit_ms;
    out->since_us = sim->course.now_us;
}

/* At the end of its class. */
static void line_up(struct sim *sim, const char *name, bool background)
{
    uint64_t first = background ? REFRESHES_FIRST : USERS_FIRST;
    uint64_t last = last_of(sim, first, background ? UINT64_MAX : REFRESHES_FIRST);
    struct permit_waiter *waiter = find_waiter(sim, name);
    for (uint32_t i = 0; i < SIM_WAITERS && waiter == NULL; i++)
        if (sim->redis.permits.waiter[i].order == 0)
            waiter = &sim->redis.permits.waiter[i];
    if (waiter == NULL) {
        sim_fail(sim, "more than %d processes wait for permits", SIM_WAITERS);
        return;
    }
    memcpy(waiter->name, name, strlen(name) + 1);
    waiter->order = last + 1;
    waiter->alive_ms = redis_now_ms(sim) + PERMIT_WAIT_MS;
    waiter->told = false;
}

/* ---- what must be true ---- */

static bool is_lossless(const struct sim *sim)
{
    return sim->hit[FAULT_REDIS_EMPTY] + sim->hit[FAULT_REDIS_FAILOVER] + sim->hit[FAULT_CLOCK_FORWARD] +
               sim->hit[FAULT_CLOCK_BACK] ==
           0;
}

static void check_turn(struct sim *sim, const struct command *command, uint32_t others)
{
    const struct permit_waiter *own = find_waiter(sim, command->waiter);
    uint64_t end = command->action.background ? UINT64_MAX : REFRESHES_FIRST;
    bool in_class = own != NULL && (own->order >= REFRESHES_FIRST) == command->action.background;
    uint32_t ahead = count_ahead(sim, in_class ? own->order : end, command->waiter);
    if (others + ahead >= sim->params.permits)
        sim_fail(sim, "p%u is granted a permit%s before %u who wait for %u", command->process,
                 command->action.background ? " for a refresh" : "", ahead, sim->params.permits - others);
}

/* For each free permit a process in the queue knows of it. */
static void check_told(struct sim *sim)
{
    uint32_t out = count_out(sim);
    for (uint32_t i = 0; i < SIM_WAITERS && out < sim->params.permits; i++) {
        const struct permit_waiter *waiter = &sim->redis.permits.waiter[i];
        bool next = waiter->order != 0 && count_ahead(sim, waiter->order, "") < sim->params.permits - out;
        if (next && !waiter->told)
            sim_fail(sim, "%u permits are free and nobody has told %.8s, whose turn it is",
                     sim->params.permits - out, waiter->name);
    }
}

/* Its query runs, has just ended, or is about to begin. */
static bool is_in_use(const struct sim *sim, const struct permit_out *out)
{
    enum { SOON_US = 100000 };
    if (out->since_us + SOON_US > sim->course.now_us)
        return true;
    for (uint32_t i = 0; i < sim->loads; i++) {
        const struct load_model *load = &sim->load[i];
        if (strcmp(load->permit, out->token) == 0 &&
            (!load->ended || load->ended_us + SOON_US > sim->course.now_us))
            return true;
    }
    return false;
}

static void check_left_behind(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_PERMITS && sim_is_calm(sim); i++) {
        const struct permit_out *out = &sim->redis.permits.out[i];
        if (out->there && !is_in_use(sim, out))
            sim_fail(sim, "somebody waits for a permit, and %.8s is out although nobody uses it", out->token);
    }
}

static bool is_first_of_batch(const struct sim *sim, const struct load_model *load)
{
    for (const struct load_model *at = sim->load; at < load; at++)
        if (load->batch != 0 && at->batch == load->batch && at->life == load->life && !at->ended)
            return false;
    return true;
}

/* Queries that run under permits: all of them, or those whose process can know that it still has its permit. */
static uint32_t count_queries(const struct sim *sim, bool all)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->loads; i++) {
        const struct load_model *load = &sim->load[i];
        const struct process *process = &sim->process[load->process];
        bool left = load->defer.returned && (process->life != load->life || process->closing);
        if (load->ended || left || load->depth > 0 || !is_first_of_batch(sim, load))
            continue;
        count += load->permit[0] != '\0' && (all || load->permit_until_us > sim->course.now_us);
    }
    return count;
}

void check_permit_of_load(struct sim *sim, const struct load_model *load)
{
    enum { CONNECTED_US = 1000 }; /* after its start; its first commands show whether Redis answers */
    const struct permit_out *out = find_out(sim, load->permit);
    bool limited = sim->params.permits > 0 && sim->params.mode == GUARD_MODE_FLEET && load->depth == 0;
    if (!limited)
        return;
    sim->seen[SEEN_PERMITTED] += load->permit[0] != '\0';
    uint64_t answer_us = (uint64_t)sim->params.latency_us * (sim->params.tagged ? 4 : 2);
    bool connected = sim->course.now_us > sim->process[load->process].since_us + CONNECTED_US + answer_us;
    if (sim_is_calm(sim) && connected && load->permit[0] == '\0')
        sim_fail(sim, "p%u loads k%u without a permit although nothing is wrong", load->process, load->key);
    if (sim_is_calm(sim) && count_queries(sim, true) > sim->params.permits)
        sim_fail(sim, "%u queries run with %u permits", count_queries(sim, true), sim->params.permits);
    if (!is_lossless(sim))
        return;
    bool stands = out != NULL && out->expires_ms + 1 >= redis_now_ms(sim);
    if (load->permit[0] != '\0' && !stands)
        sim_fail(sim, "p%u loads k%u under a permit that it no longer has", load->process, load->key);
    if (count_queries(sim, false) > sim->params.permits)
        sim_fail(sim, "%u queries run under permits that they still have, of %u", count_queries(sim, false),
                 sim->params.permits);
}

/* Lost too if it ran out first, whatever Redis says: a renewal that ran late, and whose reply nobody read, may have
 * put it back beside the one that another process had got meanwhile. */
void check_permit_renewed(struct sim *sim, const struct command *renewal, bool lost)
{
    for (uint32_t i = sim->loads; i > 0; i--) {
        struct load_model *load = &sim->load[i - 1];
        if (load->life != renewal->life || strcmp(load->permit, renewal->token) != 0)
            continue;
        sim->seen[SEEN_REENTERED] += lost;
        bool ran_out = sim->course.now_us >= load->permit_until_us;
        load->permit_lost = load->permit_lost || lost || ran_out;
        if (!load->permit_lost)
            load->permit_until_us = renewal->sent_us + (uint64_t)sim->params.permit_ms * 1000;
        else
            load->permit_until_us = 0;
    }
}

/* The next command shortens what a clock step has lengthened. */
void check_permits_rest(struct sim *sim)
{
    sweep_permits(sim);
    if (sim->hit[FAULT_CLOCK_BACK] > 0)
        return;
    if (count_out(sim) > 0)
        sim_fail(sim, "%u permits are still out", count_out(sim));
    if (count_ahead(sim, UINT64_MAX, "") > 0)
        sim_fail(sim, "somebody still waits for a permit");
}

/* ---- the scripts ---- */

/* As many as are free are named, without the one that asks or gives one back: it knows. */
static void name_next(struct sim *sim, const char *by)
{
    uint32_t out = count_out(sim);
    for (uint32_t i = 0; i < SIM_WAITERS && out < sim->params.permits; i++) {
        struct permit_waiter *waiter = &sim->redis.permits.waiter[i];
        if (waiter->order == 0 || count_ahead(sim, waiter->order, "") >= sim->params.permits - out)
            continue;
        waiter->told = true;
        if (strcmp(waiter->name, by) != 0)
            net_tell_permit(sim, waiter->name);
    }
}

static void grant(struct sim *sim, const struct command *command, uint32_t others, struct redis_answer *out)
{
    struct permit_waiter *waiter = find_waiter(sim, command->waiter);
    out->code = 1;
    put_out(sim, command->token);
    if (!command->action.more) {
        if (waiter != NULL)
            waiter->order = 0;
        return;
    }
    line_up(sim, command->waiter, command->action.background);
    waiter = find_waiter(sim, command->waiter);
    uint32_t taken = others + 1 + (waiter != NULL ? count_ahead(sim, waiter->order, command->waiter) : 0);
    if (taken >= sim->params.permits)
        return;
    out->code += sim->params.permits - taken;
    if (waiter != NULL)
        waiter->told = true;
}

static void refuse(struct sim *sim, const struct command *command, struct permit_waiter *waiter,
                   bool fell_back, struct redis_answer *out)
{
    int64_t first_ms = redis_now_ms(sim) + PERMIT_WAIT_MS;
    if (waiter == NULL)
        line_up(sim, command->waiter, command->action.background);
    else
        waiter->alive_ms = redis_now_ms(sim) + PERMIT_WAIT_MS;
    if (fell_back && sim->mutant != MUTANT_PERMIT_NOT_PASSED)
        name_next(sim, command->waiter);
    for (uint32_t i = 0; i < SIM_PERMITS; i++)
        if (sim->redis.permits.out[i].there && sim->redis.permits.out[i].expires_ms < first_ms)
            first_ms = sim->redis.permits.out[i].expires_ms;
    out->code = redis_now_ms(sim) - first_ms < 0 ? redis_now_ms(sim) - first_ms : -1;
    sim->seen[SEEN_REFUSED]++;
    check_left_behind(sim);
}

static void acquire(struct sim *sim, const struct command *command, struct redis_answer *out)
{
    bool mine = find_out(sim, command->token) != NULL;
    uint32_t others = count_out(sim) - mine;
    struct permit_waiter *waiter = find_waiter(sim, command->waiter);
    bool fell_back = waiter != NULL && (waiter->order >= REFRESHES_FIRST) != command->action.background;
    if (waiter != NULL)
        waiter->told = false;
    if (fell_back) {
        waiter->order = 0;
        waiter = NULL;
    }
    uint64_t end = command->action.background ? UINT64_MAX : REFRESHES_FIRST;
    uint32_t ahead = count_ahead(sim, waiter != NULL ? waiter->order : end, command->waiter);
    if (sim->mutant == MUTANT_PERMIT_NO_QUEUE ||
        (sim->mutant == MUTANT_REFRESH_FIRST && command->action.background))
        ahead = 0;
    if (mine || others + ahead < sim->params.permits) {
        if (!mine)
            check_turn(sim, command, others);
        grant(sim, command, others, out);
    } else {
        refuse(sim, command, waiter, fell_back, out);
    }
}

static void renew(struct sim *sim, const struct command *command, struct redis_answer *out)
{
    out->code = find_out(sim, command->token) != NULL;
    put_out(sim, command->token);
}

static void release(struct sim *sim, const struct command *command, struct redis_answer *out)
{
    struct permit_out *given = find_out(sim, command->token);
    if (sim->mutant == MUTANT_PERMIT_RELEASE_ANY)
        given = &sim->redis.permits.out[0];
    struct permit_waiter *waiter = find_waiter(sim, command->waiter);
    if (command->token[0] == '\0' && waiter != NULL)
        waiter->order = 0;
    out->code = given != NULL;
    if (given != NULL)
        given->there = false;
    name_next(sim, command->waiter);
}

void permits_execute(struct sim *sim, const struct command *command, struct redis_answer *out)
{
    if (sim->redis.readonly) {
        out->error = true;
        return;
    }
    sweep_permits(sim);
    if (command->action.kind == CORE_PERMIT_ACQUIRE)
        acquire(sim, command, out);
    else if (command->action.kind == CORE_PERMIT_RENEW)
        renew(sim, command, out);
    else
        release(sim, command, out);
    if (is_lossless(sim))
        check_told(sim);
}
