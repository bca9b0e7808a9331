/* SPDX-License-Identifier: MIT */
/* life.c - the guard's thread from its start to its end: see thread.h. */
#include "../base/check.h"
#include "../base/clock.h"
#include "../base/host.h"
#include "../base/process.h"
#include "../core/near.h"
#include "../redis/subscription.h"
#include "clear.h"
#include "connected.h"
#include "load.h"
#include "loop.h"
#include "mailbox.h"
#include "numbers.h"
#include "shadow.h"
#include "thread.h"
#include "workers.h"
#include <stdio.h>
#include <string.h>

enum { BEAT_MS = 500 };

/* Which master's it is, as the guard's own loop sees it. Mode shadow invalidates what the others answer from. */
static unsigned shard_of_encoded(void *context, bool invalidated, const char *encoded, size_t encoded_bytes)
{
    const struct guard *guard = context;
    const struct protocol *protocol = invalidated ? &guard->answering : &guard->protocol;
    char name[KEY_NAME_SIZE];
    (void)encoded_bytes;
    return redis_shard(guard->own->redis, name, key_name(protocol->name_space, encoded, KEY_VALUE, name));
}

static struct core *new_core(struct guard *guard, enum guard_mode mode, bool without_redis)
{
    struct core_config config = {
        .mode = mode,
        .without_redis = without_redis,
        .max_loads = guard->config.max_loads,
        .load_queue = guard->config.load_queue,
        .load_threads = guard->config.load_threads,
        .max_waiters = guard->config.max_waiters,
        .max_value_bytes = guard->config.max_value_bytes,
        .max_value_ms = guard->config.max_value_ms,
        .permits = guard->config.mode == GUARD_MODE_FLEET ? guard->config.load_permits : 0,
        .permit_ms = guard->config.permit_ms,
        .shard_of = guard->protocol.in_cluster ? shard_of_encoded : NULL,
        .shard_context = guard,
        .kind_of = thread_kind_of,
        .kinds = GUARD_KINDS_MAX,
        .tell_context = guard,
        .near = guard->near,
        .replay = !without_redis,
        .make_token = thread_make_token,
        .token_context = guard,
    };
    if (guard->config.event != NULL)
        config.tell =
            guard->config.mode == GUARD_MODE_SHADOW && !without_redis ? events_note_shadow : events_note;
    memcpy(config.hash_key, guard->hash_key, sizeof config.hash_key);
    return clock_random(&config.seed, sizeof config.seed) ? core_new(&config) : NULL;
}

static struct subscription *open_wake(struct guard *guard)
{
    struct redis_config config;
    struct subscription_hooks hooks = {guard, thread_on_message, thread_on_resync, thread_on_wake_state,
                                       guard->protocol.in_cluster ? NULL : thread_on_touched};
    loop_redis_config(guard, &config);
    if (!clock_random(&config.jitter_seed, sizeof config.jitter_seed))
        return NULL;
    return subscription_open(guard->host, guard->protocol.channel, &config, guard->own->redis, &hooks);
}

static bool open_cores(struct guard *guard)
{
    if (guard->config.mode != GUARD_MODE_SHADOW) {
        guard->core = guard->fleet = new_core(guard, guard->config.mode, false);
        return guard->core != NULL;
    }
    guard->core = new_core(guard, GUARD_MODE_OFF, true);
    guard->fleet = new_core(guard, GUARD_MODE_FLEET, false);
    guard->shadow = guard->core != NULL && guard->fleet != NULL ? shadow_open(guard->fleet) : NULL;
    return guard->shadow != NULL;
}

static struct workers *open_workers(struct guard *guard)
{
    const struct guard_config *config = &guard->config;
    guard->desk = desk_open(mailbox_post_finished, mailbox_refuse, guard);
    return guard->desk == NULL
               ? NULL
               : workers_open(&(struct workers_config){
                     .count = config->load_threads > 0 ? config->load_threads : config->max_loads,
                     .desk = guard->desk,
                     .thread_begins = config->thread_begins,
                     .thread_ends = config->thread_ends,
                     .thread_context = config->thread_context,
                 });
}

static bool open_parts(struct guard *guard)
{
    if (!open_cores(guard) || !cache_open(guard))
        return false;
    static const struct redis_hooks hooks = {
        .link = thread_on_link, .reign = thread_on_reign, .gone = thread_on_gone};
    guard->workers = open_workers(guard);
    if (guard->workers == NULL || loop_open(guard, guard->host, &hooks, &guard->own) != GUARD_OK)
        return false;
    guard->own->stated = thread_on_state;
    guard->wake = open_wake(guard);
    return guard->wake != NULL && clear_open(guard);
}

/* This thread is alive: see beat_age_ms in guard_stats(). */
static void on_beat(void *context)
{
    struct guard *guard = context;
    uint64_t now_us = clock_now_us();
    host_timer_set(guard->host, &guard->beat, now_us + BEAT_MS * 1000);
    atomic_store_explicit(&guard->beat_us, now_us, memory_order_relaxed);
    say_rest(&guard->say, now_us);
    load_give_back_late(guard->desk, now_us);
    cache_ask(guard);
    if (atomic_load_explicit(&guard->doubts, memory_order_relaxed))
        thread_on_heard(guard);
}

static void *run(void *context)
{
    struct guard *guard = context;
    blocking_callback_begins(); /* for good */
    own_host_run(guard->host);
    return NULL;
}

/* None: the last has returned too late to be heard, or a command to Redis has had no answer for so long. */
static void say_still_running(struct guard *guard, uint32_t count, const char *key)
{
    char more[32] = "";
    if (count > 1)
        snprintf(more, sizeof more, " and %u more", (unsigned)count - 1);
    if (count > 0)
        say(&guard->say, SAY_LOADER, SAY_BAD,
            "guard_close: the loader of \"%s\"%s still %s %u ms after cancellation: the guard's "
            "memory stays; a long loader looks at guard_load_cancelled() or polls guard_load_cancel_fd()",
            key, more, count > 1 ? "run" : "runs", (unsigned)((clock_now_us() - guard->cancelled_us) / 1000));
}

/* False: a loader keeps the memory. */
static bool clear(struct guard *guard)
{
    char key[SAID_KEY_SIZE] = "";
    uint32_t running = 0;
    const bool idle =
        (guard->core == NULL || core_idle(guard->core)) && (guard->fleet == NULL || core_idle(guard->fleet));
    if (guard->desk != NULL) {
        running = load_still_running(guard->desk, key);
        desk_close(guard->desk);
    }
    if (!workers_close(&guard->workers, idle) || !idle) {
        say_still_running(guard, running, key);
        return false;
    }
    if (guard->desk != NULL)
        desk_unref(guard->desk);
    if (guard->fleet != guard->core)
        core_free(&guard->fleet);
    core_free(&guard->core);
    shadow_close(&guard->shadow);
    clear_free(guard);
    own_host_free(&guard->host);
    return true;
}

/* What is kept from the old master is gone before any request can have the new one's word. */
static void on_reign_ended(void *context)
{
    struct guard *guard = context;
    near_drop_all(guard->near);
}

enum guard_status life_start(struct guard *guard, const struct redis_url *url, struct guard_error *error)
{
    uint64_t now_us = clock_now_us();
    const struct redis_topology_hooks hooks = {guard, on_reign_ended};
    struct guard_error why = {GUARD_NO_MEMORY, "guard_open: no memory, thread or descriptor to be had"};
    guard->host = own_host_open();
    if (guard->host == NULL)
        return check_failed(error, why.status, "%s", why.text);
    host_wake_init(guard->host, &guard->mail, thread_on_mail, guard);
    guard->timer = (struct host_timer){.run = thread_on_timer, .context = guard};
    guard->limit = (struct host_timer){.run = thread_on_limit, .context = guard};
    guard->beat = (struct host_timer){.run = on_beat, .context = guard};
    guard->turn_over = (struct host_soon){.run = thread_on_turn_over, .context = guard};
    atomic_init(&guard->beat_us, now_us);
    host_timer_set(guard->host, &guard->beat, now_us);
    connected_open(guard);
    guard->topology = redis_topology_open(guard->host, url, &hooks, &why);
    if (guard->topology != NULL && open_parts(guard) && thread_begin(&guard->thread, run, guard) == 0)
        return GUARD_OK;
    thread_close_everything(guard);
    own_host_run(guard->host);
    clear(guard);
    return check_failed(error, why.status, "%s", why.text);
}

bool life_stop(struct guard *guard, uint32_t drain_ms)
{
    pthread_mutex_lock(&guard->mutex);
    guard->draining = guard->closing_asked = true;
    atomic_store(&guard->refusing, true);
    guard->drain_ms = drain_ms;
    mailbox_wake(guard);
    pthread_mutex_unlock(&guard->mutex);
    pthread_join(guard->thread, NULL);
    return clear(guard);
}
