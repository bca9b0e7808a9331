/* SPDX-License-Identifier: MIT */
/*
 * api.c - the public functions: check, copy, hand over to the thread it belongs to. See guard.h.
 */
#include "base/check.h"
#include "base/clock.h"
#include "base/process.h"
#include "core/near.h"
#include "guard.h"
#include "host.h"
#include "run/ask.h"
#include "run/kind.h"
#include "run/loop.h"
#include "run/mailbox.h"
#include "run/numbers.h"
#include "run/state.h"
#include "run/thread.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    INVALIDATE_DEADLINE_MS = 1000,
    PUSH_CLUSTER_BYTES = 2048, /* for the default of push_bytes */
};

/* ---- opening ---- */

static void free_guard(struct guard *guard)
{
    for (unsigned kind = 0; kind < guard->kind_count; kind++)
        kind_free(guard->kinds[kind]);
    for (size_t by = 0; by < sizeof guard->hot / sizeof *guard->hot; by++)
        hot_clear(&guard->hot[by]);
    events_tell_all(guard, true);
    while (guard->loop_names != NULL) {
        struct guard_loop *name = guard->loop_names;
        LL_DELETE(guard->loop_names, name);
        free(name);
    }
    pthread_mutex_destroy(&guard->mutex);
    pthread_mutex_destroy(&guard->hot_mutex);
    say_clear(&guard->say);
    near_free(&guard->near);
    free((char *)(uintptr_t)guard->config.name_space);
    free(guard->answering_name);
    free(guard);
}

static struct guard *new_guard(const struct guard_config *config)
{
    struct guard *guard = calloc(1, sizeof *guard);
    if (guard == NULL)
        return NULL;
    pthread_mutex_init(&guard->mutex, NULL);
    pthread_mutex_init(&guard->hot_mutex, NULL);
    guard->config = *config;
    guard->config.redis_url = NULL;   /* the topology has it; not kept, it may hold a password */
    char name[KEY_NAMESPACE_MAX + 2]; /* nobody's configuration can name that of the shadow */
    snprintf(name, sizeof name, "%s%s", config->name_space, config->mode == GUARD_MODE_SHADOW ? "~" : "");
    guard->config.name_space = strdup(name);
    guard->forks = forked_count();
    say_init(&guard->say, guard->config.name_space, config->log, config->log_context);
    guard->answering_name = strdup(config->name_space);
    return guard;
}

static uint32_t push_bytes(const struct guard_config *config, const struct redis_url *url)
{
    const struct guard_config defaults = GUARD_CONFIG_DEFAULTS;
    bool is_default = config->push_bytes == defaults.push_bytes;
    return url->kind == REDIS_CLUSTER && is_default ? PUSH_CLUSTER_BYTES : config->push_bytes;
}

static enum guard_status start_guard(struct guard *guard, const struct guard_config *config,
                                     const struct redis_url *url, struct guard_error *error)
{
    size_t hot_keys = config->hot_keys != 0 ? config->hot_keys : HOT_SLOTS;
    if (guard->config.name_space == NULL || guard->answering_name == NULL || !forked_watch() ||
        !hot_init(&guard->hot[GUARD_HOT_COLLAPSED], hot_keys) ||
        !hot_init(&guard->hot[GUARD_HOT_WAIT], hot_keys) ||
        !clock_random(guard->hash_key, sizeof guard->hash_key) ||
        !clock_random(guard->secret.bytes, sizeof guard->secret.bytes))
        return check_failed(error, GUARD_NO_MEMORY, "guard_open: no memory or no randomness to be had");
    if (config->near_bytes > 0 && config->mode != GUARD_MODE_OFF && config->mode != GUARD_MODE_SHADOW &&
        (guard->near = near_new(config->near_bytes, guard->hash_key)) == NULL)
        return check_failed(error, GUARD_NO_MEMORY, "guard_open: no memory for the near cache");
    protocol_init(&guard->protocol, guard->config.name_space, url->database, config->max_lease_ms,
                  config->max_value_ms);
    protocol_init(&guard->answering, guard->answering_name, url->database, config->max_lease_ms,
                  config->max_value_ms);
    guard->protocol.in_cluster = guard->answering.in_cluster = url->kind == REDIS_CLUSTER;
    guard->protocol.waits = guard->answering.waits = url->wait_replicas > 0;
    guard->protocol.push_bytes = push_bytes(config, url);
    guard->protocol.permits = config->load_permits;
    guard->protocol.permit_ms = config->permit_ms;
    return life_start(guard, url, error);
}

enum guard_status guard_open(const struct guard_config *given, struct guard **out, struct guard_error *error)
{
    struct guard_config config;
    enum guard_status status = check_given_config(given, &config, error);
    if (status != GUARD_OK)
        return status;
    struct guard *guard = new_guard(&config);
    if (guard == NULL)
        return check_failed(error, GUARD_NO_MEMORY, "guard_open: no memory");
    struct redis_url url;
    status = redis_url_read(config.redis_url, &url, error) ? start_guard(guard, &config, &url, error)
                                                           : GUARD_INVALID;
    redis_url_clear(&url);
    if (status != GUARD_OK) {
        free_guard(guard);
        return status;
    }
    *out = guard;
    return GUARD_OK;
}

void guard_drain(struct guard *guard)
{
    if (is_forked(guard))
        return;
    pthread_mutex_lock(&guard->mutex);
    guard->draining = true;
    atomic_store(&guard->refusing, true);
    mailbox_wake(guard);
    pthread_mutex_unlock(&guard->mutex);
}

enum guard_status guard_close(struct guard **closing, uint32_t drain_ms)
{
    struct guard *guard = *closing;
    bool ours = guard != NULL && !is_forked(guard);
    if (ours && (blocking_in_callback() || blocking_here.loads_for == guard))
        return request_refuse(
            guard, "guard_close",
            "it waits for callbacks and loaders, and this is one; close it on another thread");
    *closing = NULL;
    if (!ours) /* NULL, or the parent's: its threads cannot be waited for here */
        return GUARD_OK;
    bool ended = life_stop(guard, drain_ms);
    say_rest(&guard->say, UINT64_MAX);
    if (!ended)
        return GUARD_TIMEOUT;
    free_guard(guard);
    return GUARD_OK;
}

/* ---- on a host's loop ---- */

static enum guard_status attach(struct guard *guard, struct guard_host *host, struct guard_loop **out)
{
    struct guard_loop *name = calloc(1, sizeof *name);
    enum guard_status status = name != NULL ? loop_open(guard, host, NULL, &name->there) : GUARD_NO_MEMORY;
    if (status != GUARD_OK) {
        free(name);
        return status;
    }
    name->guard = guard;
    name->there->name = name;
    pthread_mutex_lock(&guard->mutex);
    LL_PREPEND(guard->loop_names, name);
    DL_APPEND(guard->loops, name->there);
    pthread_mutex_unlock(&guard->mutex);
    *out = name;
    return GUARD_OK;
}

static const char *wrong_host(const struct guard_host *host)
{
    return host->watch == NULL   ? "watch is NULL"
           : host->timer == NULL ? "timer is NULL"
           : host->soon == NULL  ? "soon is NULL"
           : host->close == NULL ? "close is NULL"
           : host->state != NULL
               ? "state is not NULL: zero the host first; one that is attached already needs "
                 "another one beside it"
               : NULL;
}

enum guard_status guard_loop_attach_host(struct guard *guard, struct guard_host *host,
                                         struct guard_loop **out, struct guard_error *error)
{
    const char *wrong = is_forked(guard) ? FORKED_TEXT : host != NULL ? wrong_host(host) : NULL;
    if (wrong != NULL)
        return check_failed(error, GUARD_INVALID, "guard_loop_attach_host: %s", wrong);
    if (host == NULL || attach(guard, host, out) != GUARD_OK)
        return check_failed(error, GUARD_NO_MEMORY,
                            "guard_loop_attach_host: no memory or descriptor to be had");
    return GUARD_OK;
}

void guard_loop_detach(struct guard_loop **detaching, void (*detached)(void *context), void *context)
{
    struct guard_loop *loop = *detaching;
    *detaching = NULL;
    if (!is_forked(loop->guard) && (loop->there == NULL || loop->there->detaching))
        request_refuse(loop->guard, "guard_loop_detach", "the loop is detached already, or about to be");
    else if (!is_forked(loop->guard))
        loop_close(loop->there, detached, context);
    else if (detached != NULL) /* its handles are the parent's: closing them would end its watching, too */
        detached(context);
}

/* ---- invalidating ---- */

/* One of those that a change is about. */
struct target {
    const char *text;
    size_t bytes;
    bool is_tag;
};

static bool has_many(const struct guard_change *change)
{
    return change->keys_count > 0 || change->tags_count > 0;
}

static struct target target_of(const struct guard_change *change, size_t i)
{
    const bool is_tag = has_many(change) ? i >= change->keys_count : change->tag != NULL;
    const size_t at = is_tag ? i - change->keys_count : i;
    const char *text = is_tag ? change->tag : change->key;
    size_t bytes = is_tag ? change->tag_bytes : change->key_bytes;
    if (has_many(change)) {
        const size_t *lengths = is_tag ? change->tags_bytes : change->keys_bytes;
        text = (is_tag ? change->tags : change->keys)[at];
        bytes = lengths != NULL ? lengths[at] : 0;
    }
    return (struct target){text, check_length(text, bytes), is_tag};
}

static struct invalidation *new_invalidation(const struct target *target, bool expires, uint64_t deadline_us)
{
    char encoded[KEY_ENCODED_MAX + 1];
    const size_t bytes = target->bytes, encoded_bytes = key_encode(target->text, bytes, encoded);
    struct invalidation *invalidation = calloc(1, sizeof *invalidation + bytes + encoded_bytes + 2);
    if (invalidation == NULL)
        return NULL;
    char *encoded_at = invalidation->text + bytes + 1;
    memcpy(invalidation->text, target->text, bytes);
    memcpy(encoded_at, encoded, encoded_bytes);
    invalidation->core.key = (struct core_key){invalidation->text, bytes, encoded_at, encoded_bytes};
    invalidation->core.of_tag = target->is_tag;
    invalidation->core.expires = expires;
    invalidation->core.deadline_us = deadline_us;
    return invalidation;
}

/* NULL: there is none, or it is to be looked at. */
static const char *wrong_many(const struct guard_change *change)
{
    if (change->key != NULL || change->tag != NULL)
        return "change->key or change->tag is set beside change->keys or change->tags";
    if (!has_many(change))
        return "change->keys_count and change->tags_count are 0";
    if (change->keys_count > GUARD_CHANGE_MAX || change->tags_count > GUARD_CHANGE_MAX - change->keys_count)
        return "change->keys_count and change->tags_count together are above GUARD_CHANGE_MAX";
    if (change->keys == NULL && change->keys_count > 0)
        return "change->keys is NULL, and change->keys_count is not 0";
    return change->tags == NULL && change->tags_count > 0
               ? "change->tags is NULL, and change->tags_count is not 0"
               : NULL;
}

static const char *wrong_change(const struct guard *guard, const struct guard_change *change)
{
    if (is_forked(guard))
        return FORKED_TEXT;
    if (change == NULL)
        return "change is NULL";
    if (change->loop != NULL && change->loop->guard != guard)
        return "change->loop is another guard's";
    if (change->keys != NULL || change->tags != NULL || has_many(change))
        return wrong_many(change);
    if (change->key != NULL && change->tag != NULL)
        return "change->key and change->tag are both set";
    if (change->key == NULL && change->tag == NULL)
        return "change->key and change->tag are both NULL";
    return change->tag != NULL ? check_tag(change->tag, change->tag_bytes)
                               : check_key(change->key, change->key_bytes);
}

static enum guard_status check_change(struct guard *guard, const struct guard_change *change,
                                      const char *function)
{
    const char *wrong = wrong_change(guard, change);
    if (wrong != NULL)
        return request_refuse(guard, function, wrong);
    const struct ask_keys keys = {change->keys, change->keys_bytes, change->keys_count, false};
    const struct ask_keys tags = {change->tags, change->tags_bytes, change->tags_count, true};
    return ask_check_keys(guard, &keys, function) == NULL && ask_check_keys(guard, &tags, function) == NULL
               ? GUARD_OK
               : GUARD_INVALID;
}

static void free_invalidations(struct invalidation *list)
{
    struct invalidation *at = NULL, *next = NULL;
    DL_FOREACH_SAFE (list, at, next)
        free(at);
}

/* All of its targets. NULL: no memory. */
static struct invalidation *new_invalidations(const struct guard_change *change, bool expires)
{
    struct invalidation *list = NULL;
    const uint32_t within_ms = change->deadline_ms != 0 ? change->deadline_ms : INVALIDATE_DEADLINE_MS;
    const uint64_t deadline_us = clock_now_us() + (uint64_t)within_ms * 1000;
    const size_t count = has_many(change) ? change->keys_count + change->tags_count : 1;
    for (size_t i = 0; i < count; i++) {
        const struct target target = target_of(change, i);
        struct invalidation *invalidation = new_invalidation(&target, expires, deadline_us);
        if (invalidation == NULL) {
            free_invalidations(list);
            return NULL;
        }
        DL_APPEND(list, invalidation);
        invalidation->change = &list->own;
    }
    assert(list != NULL); /* check_change(): it names one at least */
    list->own =
        (struct change){.first = list, .done = change->done, .context = change->context, .left = count};
    return list;
}

static enum guard_status change_entries(struct guard *guard, const struct guard_change *change,
                                        const char *function, bool expires)
{
    enum guard_status status = check_change(guard, change, function);
    if (status != GUARD_OK)
        return status;
    struct loop *loop = change->loop != NULL ? change->loop->there : NULL;
    if (change->loop != NULL && (loop == NULL || loop->detaching))
        return GUARD_CLOSING;
    struct invalidation *list = new_invalidations(change, expires);
    if (list != NULL)
        list->own.loop = loop;
    status = list != NULL ? mailbox_post_invalidations(guard, list) : GUARD_NO_MEMORY;
    if (status != GUARD_OK)
        free_invalidations(list);
    else if (loop != NULL)
        loop->count++; /* this is its thread: it has not been told yet */
    return status;
}

enum guard_status guard_invalidate(struct guard *guard, const struct guard_change *change)
{
    return change_entries(guard, change, "guard_invalidate", false);
}

enum guard_status guard_expire(struct guard *guard, const struct guard_change *change)
{
    return change_entries(guard, change, "guard_expire", true);
}

static void invalidated(void *context, const struct guard_invalidated *result)
{
    blocking_answer(context, result, sizeof *result);
}

static enum guard_status change_and_wait(struct guard *guard, const struct guard_change *change,
                                         const char *function, bool expires, struct guard_invalidated *result)
{
    struct blocking blocking;
    struct guard_change own;
    *result = (struct guard_invalidated){.status = GUARD_INVALID};
    if (blocking_in_callback())
        return request_refuse(guard, function, CALLBACK_TEXT);
    if (change != NULL && change->loop != NULL)
        return request_refuse(guard, function,
                              "change->loop is not NULL, but the call would block that loop");
    blocking_init(&blocking, result);
    if (change != NULL) {
        own = *change;
        own.done = invalidated;
        own.context = &blocking;
    }
    enum guard_status status = change_entries(guard, change != NULL ? &own : NULL, function, expires);
    if (status == GUARD_OK)
        blocking_wait(&blocking);
    else
        result->status = status;
    return result->status;
}

enum guard_status guard_invalidate_wait(struct guard *guard, const struct guard_change *change,
                                        struct guard_invalidated *result)
{
    return change_and_wait(guard, change, "guard_invalidate_wait", false, result);
}

enum guard_status guard_expire_wait(struct guard *guard, const struct guard_change *change,
                                    struct guard_invalidated *result)
{
    return change_and_wait(guard, change, "guard_expire_wait", true, result);
}

bool guard_cache(struct guard *guard, char id[GUARD_CACHE_ID_BYTES + 1])
{
    if (is_forked(guard)) {
        id[0] = '\0';
        return false;
    }
    pthread_mutex_lock(&guard->mutex);
    memcpy(id, guard->cache_id, sizeof guard->cache_id);
    if (!atomic_exchange(&guard->cache_wanted, true) && !guard->ended)
        mailbox_wake(guard);
    pthread_mutex_unlock(&guard->mutex);
    return id[0] != '\0';
}
