/* SPDX-License-Identifier: MIT */
/*
 * lock_life.c - locks from guard_locks_open() to guard_locks_close(): their settings, provider, core and thread. See
 * locks.h.
 */
#include "../base/check.h"
#include "../base/clock.h"
#include "../base/host.h"
#include "../base/key.h"
#include "../base/process.h"
#include "lock_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_NAME_BYTES = 36 };

bool guard_locks_has(enum guard_lock_provider provider)
{
    return lock_provider_find(provider, NULL) != NULL;
}

/* ---- memory ---- */

/* For want of memory some are missing. */
static bool copy_lock_texts(struct guard_locks *locks, const struct guard_locks_config *config)
{
    static const char *const HERE[] = {"redis://127.0.0.1:6379/0"};
    const char *const *from = config->urls != NULL ? config->urls : HERE;
    const char **urls = calloc(config->url_count, sizeof *urls);
    locks->config.urls = urls;
    locks->config.url_count = urls != NULL ? config->url_count : 0;
    bool copied = urls != NULL;
    for (size_t i = 0; i < config->url_count && copied; i++) {
        urls[i] = strdup(from[i]);
        copied = urls[i] != NULL;
    }
    locks->config.name_space = strdup(config->name_space);
    return copied && locks->config.name_space != NULL;
}

/* "host:pid", in what may stand in a token. */
static void write_lock_who(char who[GUARD_LOCK_WHO_BYTES])
{
    char host[HOST_NAME_BYTES + 1] = "";
    gethostname(host, sizeof host - 1);
    const size_t bytes = strlen(host);
    for (size_t at = 0; (at += key_plain_span(host + at, bytes - at)) < bytes;)
        host[at] = '-'; /* plain itself, so it goes on behind it */
    snprintf(who, GUARD_LOCK_WHO_BYTES, "%s:%ld", host[0] != '\0' ? host : "host", (long)getpid());
}

static struct guard_locks *new_locks(const struct guard_locks_config *config)
{
    struct guard_locks *locks = calloc(1, sizeof *locks);
    if (locks == NULL)
        return NULL;
    locks->config = *config;
    locks->out = 1;
    locks->forks = forked_count();
    pthread_mutex_init(&locks->mutex, NULL);
    write_lock_who(locks->who);
    bool whole = copy_lock_texts(locks, config) && clock_random(locks->hash_key, sizeof locks->hash_key) &&
                 clock_random(locks->secret.bytes, sizeof locks->secret.bytes);
    say_init(&locks->say, locks->config.name_space, config->log, config->log_context);
    if (!whole) {
        lock_one_out_less(locks);
        return NULL;
    }
    return locks;
}

/* ---- the thread ---- */

static void *run_locks(void *context)
{
    struct guard_locks *locks = context;
    blocking_callback_begins(); /* for good */
    own_host_run(locks->host);
    return NULL;
}

static struct lock_core *new_lock_core(struct guard_locks *locks)
{
    locks->kinds = locks->provider->kinds;
    const struct guard_locks_config *config = &locks->config;
    struct lock_core_config core = {
        .kinds = locks->provider->kinds,
        .all_at_once = locks->provider->all_at_once,
        .stays = locks->provider->stays,
        .limit_ms = config->limit_ms,
        .place_ms = config->place_ms,
        .warn_ms = config->warn_ms,
        .max_requests = config->max_requests,
        .once_ms = config->connect_limit_ms + 2 * config->limit_ms,
        .make_token = lock_thread_make_token,
        .token_context = locks,
    };
    memcpy(core.hash_key, locks->hash_key, sizeof core.hash_key);
    return clock_random(&core.seed, sizeof core.seed) ? lock_core_new(&core) : NULL;
}

static struct lock_provider *open_provider(struct guard_locks *locks, struct guard_error *error)
{
    const struct lock_provider_config config = {
        .host = locks->host,
        .locks = &locks->config,
        .say = &locks->say,
        .hooks = lock_thread_hooks(locks),
    };
    lock_provider_open *open = lock_provider_find(locks->config.provider, error);
    return open != NULL ? open(&config, error) : NULL;
}

/* The thread did not start: its loop runs out on this one. */
static void undo_lock_start(struct guard_locks *locks)
{
    host_timer_stop(locks->host, &locks->beat);
    if (locks->provider != NULL)
        locks->provider->close(locks->provider, lock_thread_on_provider_closed, locks);
    else
        lock_thread_ends(locks);
    own_host_run(locks->host);
    if (locks->core != NULL)
        lock_core_free(&locks->core);
    own_host_free(&locks->host);
}

static enum guard_status start_locks(struct guard_locks *locks, struct guard_error *error)
{
    struct guard_error failed = {.status = GUARD_NO_MEMORY};
    check_failed(&failed, GUARD_NO_MEMORY,
                 "guard_locks_open: no memory, thread, randomness or descriptor to be had");
    locks->host = own_host_open();
    if (locks->host != NULL) {
        host_wake_init(locks->host, &locks->wake, lock_thread_on_mail, locks);
        locks->timer = (struct host_timer){.run = lock_thread_on_timer, .context = locks};
        locks->limit = (struct host_timer){.run = lock_thread_on_limit, .context = locks};
        locks->beat = (struct host_timer){.run = lock_thread_on_beat, .context = locks};
        locks->turn_over = (struct host_soon){.run = lock_thread_on_turn_over, .context = locks};
        host_timer_set(locks->host, &locks->beat, clock_now_us());
        locks->provider = open_provider(locks, &failed);
        bool whole = locks->provider != NULL && locks->provider->perform != NULL;
        locks->core = whole ? new_lock_core(locks) : NULL;
        if (locks->core != NULL && thread_begin(&locks->thread, run_locks, locks) == 0)
            return GUARD_OK;
        undo_lock_start(locks);
    }
    if (error != NULL)
        *error = failed;
    return failed.status;
}

static void stop_locks(struct guard_locks *locks, uint32_t drain_ms)
{
    pthread_mutex_lock(&locks->mutex);
    locks->closing = true;
    locks->drain_ms = drain_ms;
    host_wake_send(&locks->wake);
    pthread_mutex_unlock(&locks->mutex);
    pthread_join(locks->thread, NULL);
    lock_core_free(&locks->core);
    own_host_free(&locks->host);
}

/* ---- from open to close ---- */

enum guard_status guard_locks_open(const struct guard_locks_config *config, struct guard_locks **out,
                                   struct guard_error *error)
{
    enum guard_status status = lock_check_config(config, error);
    if (status != GUARD_OK)
        return status;
    struct guard_locks *locks = forked_watch() ? new_locks(config) : NULL;
    if (locks == NULL)
        return check_failed(error, GUARD_NO_MEMORY, "guard_locks_open: no memory or no randomness to be had");
    status = start_locks(locks, error);
    if (status != GUARD_OK) {
        lock_one_out_less(locks);
        return status;
    }
    *out = locks;
    return GUARD_OK;
}

enum guard_lock_status guard_locks_close(struct guard_locks **closing, uint32_t drain_ms)
{
    struct guard_locks *locks = *closing;
    if (locks != NULL && !locks_are_forked(locks) && blocking_in_callback()) {
        say(&locks->say, SAY_CALLER, SAY_BAD, "guard_locks_close: " CALLBACK_TEXT);
        return GUARD_LOCK_INVALID;
    }
    *closing = NULL;
    if (locks == NULL || locks_are_forked(locks)) /* the parent's: its thread cannot be waited for here */
        return GUARD_LOCK_OK;
    stop_locks(locks, drain_ms);
    enum guard_lock_status status = locks->confirmed ? GUARD_LOCK_OK : GUARD_LOCK_UNKNOWN;
    say_rest(&locks->say, UINT64_MAX);
    lock_one_out_less(locks);
    return status;
}
