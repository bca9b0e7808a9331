/* SPDX-License-Identifier: MIT */
/*
 * api.c - the public functions: check, copy, hand over to the thread it belongs to. See guard.h.
 */
#include "base/blocking.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/uv_host.h"
#include "core/near.h"
#include "guard.h"
#include "run/life.h"
#include "run/loop.h"
#include "run/mailbox.h"
#include "run/many.h"
#include "run/state.h"
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
        free(guard->kinds[kind]);
    for (size_t by = 0; by < sizeof guard->hot / sizeof *guard->hot; by++)
        hot_clear(&guard->hot[by]);
    events_clear(guard);
    pthread_mutex_destroy(&guard->mutex);
    pthread_mutex_destroy(&guard->hot_mutex);
    say_clear(&guard->say);
    near_free(&guard->near);
    free((char *)(uintptr_t)guard->config.name_space);
    free(guard->answering_name);
    free(guard);
}

/* Nobody's configuration can name that of the shadow. */
static char *copy_name(const struct guard_config *config)
{
    char name[KEY_NAMESPACE_MAX + 2];
    snprintf(name, sizeof name, "%s%s", config->name_space, config->mode == GUARD_MODE_SHADOW ? "~" : "");
    return strdup(name);
}

static struct guard *new_guard(const struct guard_config *config)
{
    struct guard *guard = calloc(1, sizeof *guard);
    if (guard == NULL)
        return NULL;
    pthread_mutex_init(&guard->mutex, NULL);
    pthread_mutex_init(&guard->hot_mutex, NULL);
    guard->config = *config;
    guard->config.redis_url = NULL; /* the topology has it; not kept, it may hold a password */
    guard->config.name_space = copy_name(config);
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
        !clock_random(guard->hash_key, sizeof guard->hash_key))
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

enum guard_status guard_open(const struct guard_config *config, struct guard **out, struct guard_error *error)
{
    enum guard_status status = check_config(config, error);
    if (status != GUARD_OK)
        return status;
    struct guard *guard = new_guard(config);
    if (guard == NULL)
        return check_failed(error, GUARD_NO_MEMORY, "guard_open: no memory");
    struct redis_url url;
    status = redis_url_read(config->redis_url, &url, error) ? start_guard(guard, config, &url, error)
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
    *closing = NULL;
    if (guard == NULL || is_forked(guard)) /* the parent's: its threads cannot be waited for here */
        return GUARD_OK;
    if (!life_stop(guard, drain_ms))
        return GUARD_TIMEOUT;
    say_rest(&guard->say, UINT64_MAX);
    free_guard(guard);
    return GUARD_OK;
}

/* Under the mutex. */
static enum guard_status list_kind(struct guard_kind *kind, struct guard_error *error)
{
    struct guard *guard = kind->guard;
    if (guard->kind_count == GUARD_KINDS_MAX)
        return check_failed(error, GUARD_INVALID,
                            "guard_kind_add: the guard has %d kinds already, which is all it can count",
                            GUARD_KINDS_MAX);
    kind->index = guard->kind_count;
    if (kind->policy.name != NULL)
        snprintf(kind->name, sizeof kind->name, "%s", kind->policy.name);
    else
        snprintf(kind->name, sizeof kind->name, "kind%u", kind->index);
    kind->policy.name = kind->name;
    for (unsigned other = 0; other < guard->kind_count; other++)
        if (strcmp(guard->kinds[other]->name, kind->name) == 0)
            return check_failed(error, GUARD_INVALID,
                                "guard_kind_add: another kind of this guard is named %s already", kind->name);
    guard->kinds[guard->kind_count++] = kind;
    return GUARD_OK;
}

enum guard_status guard_kind_add(struct guard *guard, const struct guard_policy *policy,
                                 struct guard_kind **out, struct guard_error *error)
{
    if (is_forked(guard))
        return check_failed(error, GUARD_INVALID, "guard_kind_add: " FORKED_TEXT);
    enum guard_status status = check_policy(policy, &guard->config, error);
    if (status != GUARD_OK)
        return status;
    struct guard_kind *kind = calloc(1, sizeof *kind);
    if (kind == NULL)
        return check_failed(error, GUARD_NO_MEMORY, "guard_kind_add: no memory");
    kind->guard = guard;
    kind->policy = *policy;
    pthread_mutex_lock(&guard->mutex);
    status = list_kind(kind, error);
    pthread_mutex_unlock(&guard->mutex);
    if (status == GUARD_OK)
        *out = kind;
    else
        free(kind);
    return status;
}

/* ---- getting ---- */

static const char *wrong_request(const struct guard *guard, const struct guard_request *request)
{
    if (request == NULL)
        return "request is NULL";
    if (request->answered == NULL)
        return "request->answered is NULL";
    return request_wrong(guard, request->kind, request->key);
}

enum guard_status guard_get(struct guard *guard, const struct guard_request *request, guard_ticket *ticket)
{
    const char *wrong = wrong_request(guard, request);
    return wrong == NULL ? mailbox_get(guard, request, NULL, ticket)
                         : request_refuse(guard, "guard_get", wrong);
}

void guard_cancel(struct guard *guard, guard_ticket ticket)
{
    if (is_forked(guard))
        return;
    pthread_mutex_lock(&guard->mutex);
    struct get *get = tickets_find(&guard->own->tickets, ticket);
    if (get != NULL && get->is_stand_in)
        loop_cancel_many(get->many);
    else if (get != NULL)
        mailbox_post_cancel(guard, get);
    pthread_mutex_unlock(&guard->mutex);
}

/* ---- the near cache ---- */

bool guard_near(struct guard *guard, const struct guard_kind *kind, const char *key,
                struct guard_result *result)
{
    char encoded[KEY_ENCODED_MAX + 1];
    if (guard->near == NULL || kind == NULL || kind->policy.near_ms == 0 || key == NULL ||
        atomic_load_explicit(&guard->refusing, memory_order_relaxed) || is_forked(guard))
        return false;
    size_t bytes = strnlen(key, KEY_BYTES_MAX + 1);
    if (!key_valid(key, bytes))
        return false;
    return near_answer(guard->near, encoded, key_encode(key, bytes, encoded), kind->index, clock_now_us(),
                       result);
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

/* ---- the blocking forms ---- */

static void got(void *context, const struct guard_result *result)
{
    struct blocking *blocking = context;
    struct guard_result *out = blocking->out;
    *out = *result;
    if (result->value != NULL)
        guard_value_ref(result->value);
    blocking_over(blocking);
}

static void invalidated(void *context, const struct guard_invalidated *result)
{
    struct blocking *blocking = context;
    struct guard_invalidated *out = blocking->out;
    *out = *result;
    blocking_over(blocking);
}

static void get_and_wait(struct guard *guard, const struct guard_request *request,
                         struct guard_result *result)
{
    struct blocking blocking;
    struct guard_request own = *request;
    blocking_init(&blocking, result);
    own.answered = got;
    own.context = &blocking;
    enum guard_status status = mailbox_get(guard, &own, NULL, NULL);
    if (status == GUARD_OK)
        blocking_wait(&blocking);
    else
        result->status = status;
    blocking_clear(&blocking);
}

enum guard_status guard_get_wait(struct guard *guard, const struct guard_request *request,
                                 struct guard_result *result)
{
    const char *wrong =
        request == NULL ? "request is NULL" : request_wrong(guard, request->kind, request->key);
    *result = (struct guard_result){.status = GUARD_INVALID, .wrong = wrong};
    if (wrong != NULL)
        return request_refuse(guard, "guard_get_wait", wrong);
    if (!guard_near(guard, request->kind, request->key, result))
        get_and_wait(guard, request, result);
    return result->status;
}

/* ---- many keys at once ---- */

/* As request_refuse(), naming the key if it is the only one. */
static enum guard_status refuse_many(struct guard *guard, const char *function, size_t i, const char *wrong)
{
    char text[160];
    if (is_forked(guard))
        return request_refuse(guard, function, wrong);
    snprintf(text, sizeof text, "keys[%zu]: %s", i, wrong);
    return request_refuse(guard, function, text);
}

static const char *wrong_many(const struct guard_many_request *request)
{
    if (request == NULL)
        return "request is NULL";
    if (request->keys == NULL)
        return "request->keys is NULL";
    if (request->count == 0)
        return "request->count is 0";
    return request->count > GUARD_MANY_MAX ? "request->count is above GUARD_MANY_MAX" : NULL;
}

static enum guard_status check_many(struct guard *guard, const struct guard_many_request *request,
                                    const char *function)
{
    const char *wrong = wrong_many(request);
    if (wrong != NULL)
        return request_refuse(guard, function, wrong);
    for (size_t i = 0; i < request->count; i++) {
        wrong = request_wrong(guard, request->kind, request->keys[i]);
        if (wrong != NULL)
            return refuse_many(guard, function, i, wrong);
    }
    return GUARD_OK;
}

static enum guard_status check_asynchronous(struct guard *guard, const struct guard_many_request *request,
                                            const char *function)
{
    if (request != NULL && request->answered == NULL)
        return request_refuse(guard, function, "request->answered is NULL");
    return check_many(guard, request, function);
}

enum guard_status guard_get_many(struct guard *guard, const struct guard_many_request *request,
                                 guard_ticket *ticket)
{
    enum guard_status status = check_asynchronous(guard, request, "guard_get_many");
    return status == GUARD_OK ? many_get(guard, request, ticket) : status;
}

struct many_answers {
    struct guard_result *results; /* the caller's */
    const size_t *places;         /* where in them each answer goes */
};

static void got_many(void *context, const struct guard_result *results, size_t count)
{
    struct blocking *blocking = context;
    const struct many_answers *answers = blocking->out;
    for (size_t i = 0; i < count; i++) {
        answers->results[answers->places[i]] = results[i];
        if (results[i].value != NULL)
            guard_value_ref(results[i].value);
    }
    blocking_over(blocking);
}

static enum guard_status ask_and_wait(struct guard *guard, const struct guard_many_request *request,
                                      struct many_answers *answers)
{
    struct blocking blocking;
    struct guard_many_request own = *request;
    blocking_init(&blocking, answers);
    own.answered = got_many;
    own.context = &blocking;
    enum guard_status status = many_get(guard, &own, NULL);
    if (status == GUARD_OK)
        blocking_wait(&blocking);
    blocking_clear(&blocking);
    return status;
}

enum guard_status guard_get_many_wait(struct guard *guard, const struct guard_many_request *request,
                                      struct guard_result *results)
{
    const char *keys[GUARD_MANY_MAX];
    size_t places[GUARD_MANY_MAX], count = 0;
    struct many_answers answers = {results, places};
    enum guard_status status = check_many(guard, request, "guard_get_many_wait");
    if (status != GUARD_OK)
        return status;
    memset(results, 0, request->count * sizeof *results);
    for (size_t i = 0; i < request->count; i++) {
        if (guard_near(guard, request->kind, request->keys[i], &results[i]))
            continue;
        keys[count] = request->keys[i];
        places[count++] = i;
    }
    if (count == 0)
        return GUARD_OK;
    struct guard_many_request rest = *request;
    rest.keys = keys;
    rest.count = count;
    status = ask_and_wait(guard, &rest, &answers);
    for (size_t i = 0; i < request->count && status != GUARD_OK; i++)
        guard_value_unref(&results[i].value);
    return status;
}

/* ---- on a host's loop ---- */

enum guard_status guard_loop_attach(struct guard *guard, struct uv_loop_s *loop, struct guard_loop **out,
                                    struct guard_error *error)
{
    if (is_forked(guard))
        return check_failed(error, GUARD_INVALID, "guard_loop_attach: " FORKED_TEXT);
    struct guard_host *host = uv_host_attach(loop);
    bool opened = host != NULL && loop_open(guard, host, NULL, out) == GUARD_OK;
    if (!opened && host != NULL)
        host_close(host, NULL, NULL);
    if (!opened)
        return check_failed(error, GUARD_NO_MEMORY, "guard_loop_attach: no memory or descriptor to be had");
    (*out)->attached = true;
    pthread_mutex_lock(&guard->mutex);
    DL_APPEND(guard->loops, *out);
    pthread_mutex_unlock(&guard->mutex);
    return GUARD_OK;
}

void guard_loop_detach(struct guard_loop **detaching, void (*detached)(void *context), void *context)
{
    struct guard_loop *loop = *detaching;
    *detaching = NULL;
    if (!is_forked(loop->guard))
        loop_close(loop, detached, context);
    else if (detached != NULL) /* its handles are the parent's: closing them would end its watching, too */
        detached(context);
}

enum guard_status guard_loop_get(struct guard_loop *loop, const struct guard_request *request,
                                 guard_ticket *ticket)
{
    struct get *get = NULL;
    const char *wrong = wrong_request(loop->guard, request);
    if (wrong != NULL)
        return request_refuse(loop->guard, "guard_loop_get", wrong);
    if (loop->detaching || atomic_load_explicit(&loop->guard->refusing, memory_order_relaxed))
        return GUARD_CLOSING;
    enum guard_status status = mailbox_new_get(loop, request, &get);
    if (status != GUARD_OK)
        return status;
    status = mailbox_take_ticket(loop, get);
    if (status != GUARD_OK) {
        free(get);
        return status;
    }
    if (ticket != NULL)
        *ticket = get->ticket;
    loop_accept(loop, get);
    return GUARD_OK;
}

enum guard_status guard_loop_get_many(struct guard_loop *loop, const struct guard_many_request *request,
                                      guard_ticket *ticket)
{
    struct many *many = NULL;
    enum guard_status status = check_asynchronous(loop->guard, request, "guard_loop_get_many");
    if (status != GUARD_OK)
        return status;
    if (loop->detaching || atomic_load_explicit(&loop->guard->refusing, memory_order_relaxed))
        return GUARD_CLOSING;
    status = many_new(loop, request, &many);
    if (status != GUARD_OK)
        return status;
    status = many_take_tickets(many);
    if (status != GUARD_OK) {
        many_discard(many);
        return status;
    }
    if (ticket != NULL)
        *ticket = many->stand_in->ticket;
    for (size_t i = 0; i < many->count; i++)
        loop_accept(loop, many->parts[i].get);
    return GUARD_OK;
}

void guard_loop_cancel(struct guard_loop *loop, guard_ticket ticket)
{
    struct get *get = is_forked(loop->guard) ? NULL : tickets_find(&loop->tickets, ticket);
    if (get == NULL)
        return;
    pthread_mutex_lock(&loop->guard->mutex);
    if (get->is_stand_in)
        loop_cancel_many(get->many);
    else
        loop_cancel(loop, get);
    pthread_mutex_unlock(&loop->guard->mutex);
}

/* ---- invalidating ---- */

static struct invalidation *new_invalidation(const char *text, size_t bytes, uint32_t deadline_ms)
{
    char encoded[KEY_ENCODED_MAX + 1];
    size_t encoded_bytes = key_encode(text, bytes, encoded);
    struct invalidation *invalidation = calloc(1, sizeof *invalidation + bytes + encoded_bytes + 2);
    if (invalidation == NULL)
        return NULL;
    char *encoded_at = invalidation->text + bytes + 1;
    memcpy(invalidation->text, text, bytes);
    memcpy(encoded_at, encoded, encoded_bytes);
    invalidation->core.key = (struct core_key){invalidation->text, bytes, encoded_at, encoded_bytes};
    uint32_t within_ms = deadline_ms != 0 ? deadline_ms : INVALIDATE_DEADLINE_MS;
    invalidation->core.deadline_us = clock_now_us() + (uint64_t)within_ms * 1000;
    return invalidation;
}

/* `text`: a key; of_tag: a tag, for all that have it. */
static enum guard_status invalidate(struct guard *guard, const char *text, bool of_tag, uint32_t deadline_ms,
                                    guard_invalidate_done *done, void *context)
{
    const char *wrong = of_tag ? check_tag(text) : check_key(text);
    if (is_forked(guard))
        wrong = FORKED_TEXT;
    if (wrong != NULL)
        return request_refuse(guard, of_tag ? "guard_invalidate_tag" : "guard_invalidate", wrong);
    struct invalidation *invalidation = new_invalidation(text, strlen(text), deadline_ms);
    if (invalidation == NULL)
        return GUARD_NO_MEMORY;
    invalidation->core.of_tag = of_tag;
    invalidation->done = done;
    invalidation->context = context;
    enum guard_status status = mailbox_post_invalidation(guard, invalidation);
    if (status != GUARD_OK)
        free(invalidation);
    return status;
}

static enum guard_status invalidate_wait(struct guard *guard, const char *text, bool of_tag,
                                         uint32_t deadline_ms, struct guard_invalidated *result)
{
    struct blocking blocking;
    *result = (struct guard_invalidated){.status = GUARD_INVALID};
    blocking_init(&blocking, result);
    enum guard_status status = invalidate(guard, text, of_tag, deadline_ms, invalidated, &blocking);
    if (status == GUARD_OK)
        blocking_wait(&blocking);
    else
        result->status = status;
    blocking_clear(&blocking);
    return result->status;
}

enum guard_status guard_invalidate(struct guard *guard, const char *key, uint32_t deadline_ms,
                                   guard_invalidate_done *done, void *context)
{
    return invalidate(guard, key, false, deadline_ms, done, context);
}

enum guard_status guard_invalidate_wait(struct guard *guard, const char *key, uint32_t deadline_ms,
                                        struct guard_invalidated *result)
{
    return invalidate_wait(guard, key, false, deadline_ms, result);
}

enum guard_status guard_invalidate_tag(struct guard *guard, const char *tag, uint32_t deadline_ms,
                                       guard_invalidate_done *done, void *context)
{
    return invalidate(guard, tag, true, deadline_ms, done, context);
}

enum guard_status guard_invalidate_tag_wait(struct guard *guard, const char *tag, uint32_t deadline_ms,
                                            struct guard_invalidated *result)
{
    return invalidate_wait(guard, tag, true, deadline_ms, result);
}
