/* SPDX-License-Identifier: MIT */
/*
 * lock_life.c - guard_locks_open() and guard_locks_close(). See locks.h.
 */
#include "../base/check.h"
#include "../base/clock.h"
#include "../base/key.h"
#include "lock_check.h"
#include "lock_thread.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_NAME_BYTES = 36 };

bool guard_locks_has(enum guard_lock_provider provider)
{
    return lock_provider_opener(provider) != NULL;
}

/* For want of memory some are missing. */
static bool copy_lock_texts(struct guard_locks *locks, const struct guard_locks_config *config)
{
    const char **urls = calloc(config->url_count, sizeof *urls);
    locks->config.urls = urls;
    locks->config.url_count = urls != NULL ? config->url_count : 0;
    bool copied = urls != NULL;
    for (size_t i = 0; i < config->url_count && copied; i++) {
        urls[i] = strdup(config->urls[i]);
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
    for (char *c = host; *c != '\0'; c++)
        if (!key_is_plain(*c))
            *c = '-';
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
    bool whole = copy_lock_texts(locks, config) && clock_random(locks->hash_key, sizeof locks->hash_key);
    say_init(&locks->say, locks->config.name_space, config->log, config->log_context);
    if (!whole) {
        lock_one_out_less(locks);
        return NULL;
    }
    return locks;
}

enum guard_status guard_locks_open(const struct guard_locks_config *config, struct guard_locks **out,
                                   struct guard_error *error)
{
    enum guard_status status = lock_check_config(config, error);
    if (status != GUARD_OK)
        return status;
    struct guard_locks *locks = forked_watch() ? new_locks(config) : NULL;
    if (locks == NULL)
        return check_failed(error, GUARD_NO_MEMORY, "guard_locks_open: no memory or no randomness to be had");
    status = lock_thread_start(locks, error);
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
    if (locks != NULL && !locks_are_forked(locks) && lock_is_own_thread(locks))
        return GUARD_LOCK_INVALID; /* it would wait for itself */
    *closing = NULL;
    if (locks == NULL || locks_are_forked(locks)) /* the parent's: its thread cannot be waited for here */
        return GUARD_LOCK_OK;
    lock_thread_stop(locks, drain_ms);
    enum guard_lock_status status = locks->confirmed ? GUARD_LOCK_OK : GUARD_LOCK_UNKNOWN;
    say_rest(&locks->say, UINT64_MAX);
    lock_one_out_less(locks);
    return status;
}
