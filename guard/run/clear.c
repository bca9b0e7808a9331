/* SPDX-License-Identifier: MIT */
/* clear.c - see clear.h. */
#include "clear.h"
#include "../base/clock.h"
#include "../base/process.h"
#include "../core/near.h"
#include "../wire/sweep.h"
#include "../wire/wake.h"
#include "mailbox.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    PAUSE_US = 50000,           /* before a step that failed is taken again */
    AGAIN_WITHIN_US = 30000000, /* of the end of a run, if a reign ends: as in replay.h */
    DEADLINE_MS = 60000,
    AGAIN_LIMIT_US = DEADLINE_MS * 1000, /* of the run that follows */
    KEPT_US = 60000000,                  /* where a run stopped, since its callers gave up */
};

/* What goes in which pass; the marks of those that wait are of no use without the lease. */
static const enum key_role pass_roles[][2] = {{KEY_LEASE, KEY_WAITING}, {KEY_VALUE, KEY_FAILURE}};
enum { PASSES = sizeof pass_roles / sizeof pass_roles[0] };

/* One accepted guard_clear(). */
struct clearing {
    struct clearing *prev, *next;
    guard_clear_done *done;
    void *context;
    uint64_t asked_us, deadline_us;
};

struct clear {
    struct guard *guard;
    struct clearing *waiting; /* for the next run */
    struct clearing *served;  /* by this one */
    struct sweep sweep;
    unsigned pass, turns; /* turns: so many of each of pass_roles, one after the other */
    bool running;         /* a step is under way, or its pause */
    bool again;           /* for no caller */
    uint64_t
        given_up_us; /* the last caller of a run was answered UNKNOWN, and it stopped there; 0: none did */
    uint64_t again_until_us;
    uint64_t ended_us; /* the last run; 0: none */
    uint64_t map;      /* redis_map_changes() when it began */
    struct host_timer pause, limit;
};

static void run_clear(struct clear *clear);

/* ---- the callers ---- */

/* Those whose deadline is no later than this. */
static void tell_cleared(struct clearing **list, uint64_t until_us, enum guard_status status,
                         uint64_t entries)
{
    struct clearing *at = NULL, *next = NULL;
    DL_FOREACH_SAFE (*list, at, next) {
        if (at->deadline_us > until_us)
            continue;
        DL_DELETE(*list, at);
        if (at->done != NULL)
            at->done(at->context, &(struct guard_cleared){status, entries});
        free(at);
    }
}

static uint64_t first_deadline_us(const struct clearing *list, uint64_t us)
{
    const struct clearing *at = NULL;
    DL_FOREACH (list, at)
        us = at->deadline_us < us ? at->deadline_us : us;
    return us;
}

static void set_clear_limit(struct clear *clear)
{
    uint64_t us = first_deadline_us(clear->waiting, first_deadline_us(clear->served, UINT64_MAX));
    host_timer_set(clear->guard->host, &clear->limit, us);
}

static void on_clear_limit(void *context)
{
    struct clear *clear = context;
    uint64_t now_us = clock_now_us();
    bool served = clear->served != NULL;
    near_drop_all(clear->guard->near); /* confirmed or not, before its callers hear of it */
    tell_cleared(&clear->served, now_us, GUARD_UNKNOWN, clear->sweep.values);
    tell_cleared(&clear->waiting, now_us, GUARD_UNKNOWN, 0);
    if (served && clear->served == NULL)
        clear->given_up_us = now_us;
    set_clear_limit(clear);
}

/* ---- a run ---- */

static bool is_wanted(const struct clear *clear)
{
    return clear->served != NULL || (clear->again && clock_now_us() < clear->again_until_us);
}

static void begin_pass(struct clear *clear)
{
    clear->sweep.shard = 0;
    strcpy(clear->sweep.cursor, "0");
    memcpy(clear->sweep.roles, pass_roles[clear->pass / clear->turns], sizeof clear->sweep.roles);
}

static void begin_run(struct clear *clear)
{
    clear->map = redis_map_changes(clear->sweep.redis);
    clear->pass = 0;
    begin_pass(clear);
}

/* Before its callers hear of it. */
static void end_run(struct clear *clear)
{
    struct guard *guard = clear->guard;
    clear->running = clear->again = false;
    clear->given_up_us = 0;
    clear->ended_us = clock_now_us();
    char message[MESSAGE_SIZE];
    const char *channel = guard->answering.channel, *argv[] = {"PUBLISH", channel, message};
    const size_t argv_bytes[] = {7, strlen(channel), message_write(MESSAGE_CLEARED, NULL, "*", message)};
    redis_send(guard->own->redis, 3, argv, argv_bytes, NULL, NULL); /* a hint: near caches also have an end */
    clear_heard(guard);
    tell_cleared(&clear->served, UINT64_MAX, GUARD_OK, clear->sweep.values);
    set_clear_limit(clear);
    run_clear(clear);
}

/* It can only be on behalf of those that have been answered UNKNOWN: one that was asked for before that may be meant
 * for what was stored behind the cursor. */
static bool may_go_on(const struct clear *clear)
{
    const struct clearing *at = NULL;
    bool kept = clear->given_up_us != 0 && clock_now_us() < clear->given_up_us + KEPT_US;
    DL_FOREACH (clear->served, at)
        kept = kept && at->asked_us >= clear->given_up_us;
    return kept && redis_map_changes(clear->sweep.redis) == clear->map;
}

static void pause_clear(struct clear *clear)
{
    host_timer_set(clear->guard->host, &clear->pause, clock_now_us() + PAUSE_US);
}

/* The next master, of the next pass if need be. False: it is all over. */
static bool find_shard(struct clear *clear)
{
    while (!redis_next_shard(clear->sweep.redis, &clear->sweep.shard)) {
        if (++clear->pass == PASSES * clear->turns)
            return false;
        begin_pass(clear);
    }
    return true;
}

static void take_step(struct clear *clear)
{
    unsigned first = 0;
    struct redis *redis = clear->sweep.redis;
    bool known = redis_next_shard(redis, &first); /* a master */
    if (!is_wanted(clear)) {                      /* its callers have given up */
        clear->running = clear->again = false;
        run_clear(clear);
    } else if (known && !find_shard(clear) && redis_map_changes(redis) == clear->map) {
        end_run(clear);
    } else if (!known || clear->pass == PASSES * clear->turns || !sweep_step(&clear->sweep)) {
        pause_clear(clear);
    }
}

static void on_clear_pause(void *context)
{
    struct clear *clear = context;
    if (clear->pass == PASSES * clear->turns) /* the map had changed */
        begin_run(clear);
    take_step(clear);
}

static void on_stepped(void *context, bool done)
{
    struct clear *clear = context;
    if (clear->guard->phase == PHASE_ENDING)
        return;
    if (!done) {
        if (clear->sweep.why[0] != '\0')
            say(&clear->guard->say, SAY_REDIS, SAY_BAD, "guard_clear: redis refused: %s", clear->sweep.why);
        pause_clear(clear);
        return;
    }
    if (strcmp(clear->sweep.cursor, "0") == 0)
        clear->sweep.shard++;
    take_step(clear);
}

/* Unless a step is under way. */
static void run_clear(struct clear *clear)
{
    if (clear->running)
        return;
    DL_CONCAT(clear->served, clear->waiting);
    clear->waiting = NULL;
    if (!is_wanted(clear))
        return;
    clear->running = true;
    if (!may_go_on(clear)) {
        clear->sweep.values = 0;
        begin_run(clear);
    }
    clear->given_up_us = 0;
    take_step(clear);
}

/* ---- events ---- */

void clear_enter(struct guard *guard, struct clearing *posted)
{
    struct clear *clear = guard->clear;
    DL_CONCAT(clear->waiting, posted);
    if (guard->phase == PHASE_ENDING) {
        clear_close(guard);
        return;
    }
    set_clear_limit(clear);
    run_clear(clear);
}

bool clear_is_awaited(const struct guard *guard)
{
    return guard->clear->waiting != NULL || guard->clear->served != NULL;
}

void clear_reigned(struct guard *guard)
{
    struct clear *clear = guard->clear;
    uint64_t now_us = clock_now_us();
    if (clear->ended_us == 0 || now_us > clear->ended_us + AGAIN_WITHIN_US)
        return;
    clear->again = true;
    clear->again_until_us = now_us + AGAIN_LIMIT_US;
    run_clear(clear);
}

void clear_heard(struct guard *guard)
{
    near_drop_all(guard->near);
    guard->sweep_due = guard->near != NULL;
    guard->resync_due = true;
    host_wake_send(&guard->mail);
}

/* ---- life ---- */

bool clear_open(struct guard *guard)
{
    struct clear *clear = calloc(1, sizeof *clear);
    if (clear == NULL)
        return false;
    clear->guard = guard;
    clear->turns = guard->answering.in_cluster ? 2 : 1;
    clear->sweep.redis = guard->own->redis;
    clear->sweep.name_space = guard->answering.name_space;
    clear->sweep.stepped = on_stepped;
    clear->sweep.context = clear;
    clear->pause = (struct host_timer){.run = on_clear_pause, .context = clear};
    clear->limit = (struct host_timer){.run = on_clear_limit, .context = clear};
    guard->clear = clear;
    return true;
}

void clear_free(struct guard *guard)
{
    free(guard->clear);
    guard->clear = NULL;
}

void clear_close(struct guard *guard)
{
    struct clear *clear = guard->clear;
    if (clear == NULL)
        return;
    host_timer_stop(guard->host, &clear->pause);
    host_timer_stop(guard->host, &clear->limit);
    tell_cleared(&clear->served, UINT64_MAX, GUARD_CLOSING, clear->sweep.values);
    tell_cleared(&clear->waiting, UINT64_MAX, GUARD_CLOSING, 0);
}

/* ---- the public functions ---- */

/* Owns it if it is OK. */
static enum guard_status post_clearing(struct guard *guard, struct clearing *clearing)
{
    pthread_mutex_lock(&guard->mutex);
    enum guard_status status = guard->closing_asked ? GUARD_CLOSING : GUARD_OK;
    if (status == GUARD_OK) {
        DL_APPEND(guard->posted.clearings, clearing);
        mailbox_wake(guard);
    }
    pthread_mutex_unlock(&guard->mutex);
    return status;
}

enum guard_status guard_clear(struct guard *guard, uint32_t deadline_ms, guard_clear_done *done,
                              void *context)
{
    if (is_forked(guard))
        return request_refuse(guard, "guard_clear", FORKED_TEXT);
    struct clearing *clearing = calloc(1, sizeof *clearing);
    if (clearing == NULL)
        return GUARD_NO_MEMORY;
    uint32_t within_ms = deadline_ms != 0 ? deadline_ms : DEADLINE_MS;
    clearing->asked_us = clock_now_us();
    clearing->deadline_us = clearing->asked_us + (uint64_t)within_ms * 1000;
    clearing->done = done;
    clearing->context = context;
    near_drop_all(guard->near);
    enum guard_status status = post_clearing(guard, clearing);
    if (status != GUARD_OK)
        free(clearing);
    return status;
}

static void cleared(void *context, const struct guard_cleared *result)
{
    blocking_answer(context, result, sizeof *result);
}

enum guard_status guard_clear_wait(struct guard *guard, uint32_t deadline_ms, struct guard_cleared *result)
{
    struct blocking blocking;
    *result = (struct guard_cleared){.status = GUARD_INVALID};
    if (blocking_in_callback())
        return request_refuse(guard, "guard_clear_wait", CALLBACK_TEXT);
    blocking_init(&blocking, result);
    enum guard_status status = guard_clear(guard, deadline_ms, cleared, &blocking);
    if (status == GUARD_OK)
        blocking_wait(&blocking);
    else
        result->status = status;
    return result->status;
}
