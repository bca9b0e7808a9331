/* SPDX-License-Identifier: MIT */
/*
 * shell_life.c - the guard's thread from its start to its end. See shell.h.
 *
 * The end, in phases: DRAINING until nobody waits or the drain time is over; CANCELLING, every waiter answered
 * and every load told to stop, until the core is idle or STUCK_LOADER_MS are over; ENDING, handles closing.
 */
#include "../base/check.h"
#include "../base/clock.h"
#include "shell_parts.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    STUCK_LOADER_MS = 5000,                          /* a loader has this long to notice its cancellation */
    REPLY_MOST_BYTES = CHECK_VALUE_MAX_BYTES + 8192, /* what any process may have filled, and its head */
    BEAT_MS = 500,
    LOOP_DESCRIPTORS = 6, /* epoll, two pipes, eventfd */
    PENDING_BYTES = 64 << 20,
    BACKOFF_MS = 50,
    MAX_BACKOFF_MS = 1000,
};

/* ---- the end ---- */

/* The loop runs out when the last of these is closed. */
static void close_everything(struct guard *guard)
{
    guard->phase = SHELL_ENDING;
    shell_empty_mailbox(guard);
    pthread_mutex_lock(&guard->mutex);
    guard->ended = true;
    pthread_mutex_unlock(&guard->mutex);
    uv_close((uv_handle_t *)&guard->async, NULL);
    uv_close((uv_handle_t *)&guard->timer, NULL);
    uv_close((uv_handle_t *)&guard->limit, NULL);
    uv_close((uv_handle_t *)&guard->beat, NULL);
    uv_close((uv_handle_t *)&guard->turn, NULL);
    uv_close((uv_handle_t *)&guard->awake, NULL);
    if (guard->wake != NULL)
        wake_close(guard->wake, NULL, NULL);
    if (guard->own != NULL)
        loop_close(guard->own, NULL, NULL);
}

static void on_limit(uv_timer_t *timer);

static void cancel_everything(struct guard *guard)
{
    guard->phase = SHELL_CANCELLING;
    pthread_mutex_lock(&guard->mutex);
    guard->cancelling = true;
    pthread_mutex_unlock(&guard->mutex);
    uv_timer_start(&guard->limit, on_limit, STUCK_LOADER_MS, 0);
    core_close(guard->core, clock_now_us());
    if (guard->shadow != NULL) {
        shell_perform_all(guard);
        core_close(guard->fleet, clock_now_us());
    }
    shell_after_events(guard);
}

/* The drain time is over; or the loaders have had their time to notice that they are cancelled. */
static void on_limit(uv_timer_t *timer)
{
    struct guard *guard = timer->data;
    if (guard->phase == SHELL_DRAINING)
        cancel_everything(guard);
    else
        close_everything(guard);
}

/* Gets that have not been taken out of the mailbox or are still looked up are not known to the core yet. */
static bool nothing_to_finish(const struct guard *guard, bool mail)
{
    return !mail && guard->own->count == 0 && !core_has_waiters(guard->core) && core_drained(guard->core);
}

void shell_advance_end(struct guard *guard)
{
    pthread_mutex_lock(&guard->mutex);
    bool closing = guard->closing_asked;
    bool mail = guard->incoming != NULL || guard->invalidations != NULL;
    uint32_t drain_ms = guard->drain_ms;
    pthread_mutex_unlock(&guard->mutex);
    if (guard->phase == SHELL_RUNNING && closing) {
        guard->phase = SHELL_DRAINING;
        uv_update_time(&guard->loop);
        uv_timer_start(&guard->limit, on_limit, drain_ms, 0);
    }
    if (guard->phase == SHELL_DRAINING && nothing_to_finish(guard, mail))
        cancel_everything(guard);
    else if (guard->phase == SHELL_CANCELLING && core_idle(guard->core) && core_idle(guard->fleet))
        close_everything(guard);
}

void shell_rested(struct guard *guard)
{
    if (guard->phase == SHELL_DRAINING)
        shell_advance_end(guard);
}

/* ---- the start ---- */

void shell_redis_config(struct guard *guard, struct redis_config *config)
{
    *config = (struct redis_config){
        .address = &guard->address,
        .limit_ms = guard->config.redis_limit_ms,
        .connect_limit_ms = guard->config.connect_limit_ms,
        .backoff_ms = BACKOFF_MS,
        .max_backoff_ms = MAX_BACKOFF_MS,
        .max_reply_bytes = REPLY_MOST_BYTES,
        .max_pending_bytes = PENDING_BYTES + (size_t)guard->config.max_value_bytes,
        .client_name = "stampede-guard",
        .counters = &guard->redis_counters,
        .reign = &guard->reign,
    };
}

static void make_token(void *context, uint32_t lease_ms, char token[TOKEN_SIZE])
{
    struct guard *guard = context;
    uint8_t random[24];
    if (!clock_random(random, sizeof random))
        abort(); /* it worked when the guard was opened; a guessable token would break every promise */
    protocol_token(&guard->protocol, random, lease_ms, clock_wall_s(), token);
}

static struct core *new_core(struct guard *guard, enum guard_mode mode, bool without_redis)
{
    struct core_config config = {
        .mode = mode,
        .without_redis = without_redis,
        .load_workers = guard->config.load_workers,
        .load_queue = guard->config.load_queue,
        .max_waiters = guard->config.max_waiters,
        .max_value_bytes = guard->config.max_value_bytes,
        .permits = guard->config.mode == GUARD_MODE_FLEET ? guard->config.load_permits : 0,
        .permit_ms = guard->config.permit_ms,
        .make_token = make_token,
        .token_context = guard,
    };
    memcpy(config.hash_key, guard->hash_key, sizeof config.hash_key);
    return clock_random(&config.seed, sizeof config.seed) ? core_new(&config) : NULL;
}

static struct wake *open_wake(struct guard *guard)
{
    struct redis_config config;
    struct wake_hooks hooks = {guard, shell_on_message, shell_on_resync, shell_on_wake_state};
    shell_redis_config(guard, &config);
    if (!clock_random(&config.jitter_seed, sizeof config.jitter_seed))
        return NULL;
    return wake_open(&guard->loop, &guard->protocol, &config, guard->own->redis, &hooks);
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

static bool open_parts(struct guard *guard)
{
    if (!open_cores(guard) || !shell_cache_open(guard))
        return false;
    guard->workers = workers_open(guard->config.load_workers, shell_finished, guard);
    if (guard->workers == NULL || loop_open(guard, &guard->loop, &guard->own) != GUARD_OK)
        return false;
    guard->wake = open_wake(guard);
    return guard->wake != NULL;
}

/* This thread is alive: see beat_age_ms in guard_stats(). */
static void on_beat(uv_timer_t *timer)
{
    struct guard *guard = timer->data;
    uint64_t now_us = clock_now_us();
    atomic_store_explicit(&guard->beat_us, now_us, memory_order_relaxed);
    say_rest(&guard->say, now_us);
    shell_ask_cache(guard);
}

static void *run(void *context)
{
    struct guard *guard = context;
    uv_run(&guard->loop, UV_RUN_DEFAULT);
    return NULL;
}

/* The host's signals, SIGPIPE among them, are no business of this thread. */
static bool start_thread(struct guard *guard)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&guard->thread, NULL, run, guard) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* False: a loader keeps the memory. */
static bool clear(struct guard *guard)
{
    bool idle =
        (guard->core == NULL || core_idle(guard->core)) && (guard->fleet == NULL || core_idle(guard->fleet));
    if (!workers_close(&guard->workers) || !idle)
        return false;
    if (guard->fleet != guard->core)
        core_free(&guard->fleet);
    core_free(&guard->core);
    shadow_close(&guard->shadow);
    uv_loop_close(&guard->loop);
    return true;
}

/* uv_loop_init() of libuv 1.44 leaks the descriptor of its epoll when it has none for its two pipes and its
 * eventfd: those it needs are tried first. */
static bool descriptors_to_spare(void)
{
    int fds[LOOP_DESCRIPTORS];
    int count = 0;
    while (count < LOOP_DESCRIPTORS && (fds[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
        count++;
    bool enough = count == LOOP_DESCRIPTORS;
    while (count > 0)
        close(fds[--count]);
    return enough;
}

enum guard_status shell_start(struct guard *guard)
{
    if (!descriptors_to_spare() || uv_loop_init(&guard->loop) != 0)
        return GUARD_NO_MEMORY;
    guard->loop.data = guard;
    atomic_init(&guard->beat_us, clock_now_us());
    guard->async.data = guard->timer.data = guard->limit.data = guard->beat.data = guard->turn.data = guard;
    if (uv_async_init(&guard->loop, &guard->async, shell_on_async) != 0) {
        uv_loop_close(&guard->loop);
        return GUARD_NO_MEMORY;
    }
    uv_timer_init(&guard->loop, &guard->timer);
    uv_timer_init(&guard->loop, &guard->limit);
    uv_timer_init(&guard->loop, &guard->beat);
    uv_timer_start(&guard->beat, on_beat, 0, BEAT_MS);
    uv_check_init(&guard->loop, &guard->turn);
    uv_check_start(&guard->turn, shell_on_turn_over);
    uv_idle_init(&guard->loop, &guard->awake);
    if (open_parts(guard) && start_thread(guard))
        return GUARD_OK;
    close_everything(guard);
    uv_run(&guard->loop, UV_RUN_DEFAULT);
    clear(guard);
    return GUARD_NO_MEMORY;
}

bool shell_stop(struct guard *guard, uint32_t drain_ms)
{
    pthread_mutex_lock(&guard->mutex);
    guard->draining = guard->closing_asked = true;
    atomic_store(&guard->refusing, true);
    guard->drain_ms = drain_ms;
    uv_async_send(&guard->async);
    pthread_mutex_unlock(&guard->mutex);
    pthread_join(guard->thread, NULL);
    return clear(guard);
}
