/* SPDX-License-Identifier: MIT */
/*
 * change.c - what an operator may do to the cache: drop, expire, refresh, clear, and change its times.
 *
 * The thread of the connection blocks until Redis has confirmed, or for CHANGE_LIMIT_MS; a refresh and a clearing for
 * CHANGE_MANY_LIMIT_MS.
 */
#include "app/ops/paths.h"

#include "app/base/document.h"
#include "app/base/log.h"
#include "app/ops/ops_reply.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHANGE_LIMIT_MS = 1000,
    CHANGE_MANY_LIMIT_MS = 20000,
    CHANGE_KEYS_MAX = 100,
    CHANGES_MAX = 32,
    ANNOUNCE_LIMIT_MS = 5000,
};
_Static_assert(CHANGES_MAX == 32, "as a refusal says");

#define KEYS "catalog, category:{id}, category:{id}:after:{id}, product:{id} or offers:{id}"

static const struct ops_refusal BAD_TARGET = {
    MHD_HTTP_BAD_REQUEST, "Not a key",
    "Give one: ?key=" KEYS "; or a group of them: ?tag=category:{id} or listing:{id}.", NULL, NULL};
static const struct ops_refusal BAD_KEYS = {MHD_HTTP_BAD_REQUEST, "Not a list of keys",
                                            "Give 1 to 100, each as ?key=" KEYS ", with & between them.",
                                            NULL, NULL};
static const struct ops_refusal BAD_NAMESPACE = {
    MHD_HTTP_BAD_REQUEST, "Namespace required",
    "It drops everything: name what is to be dropped with ?namespace= and the NAMESPACE of this process.",
    NULL, NULL};

static const struct ops_refusal UNANNOUNCED = {
    MHD_HTTP_SERVICE_UNAVAILABLE, "Nothing was changed",
    "The database was not told within 5 s that this cache may hold entries for longer. Do it again.",
    MHD_HTTP_HEADER_RETRY_AFTER, "1"};

/* ---- one key, or a group ---- */

typedef enum guard_status change_call(struct guard *guard, const struct guard_change *change,
                                      struct guard_invalidated *result);

/* Which loads will turn out to have a tag is unknown: they name theirs after their query. */
static json_t *say_changed(const struct guard_change *change, const struct guard_invalidated *result)
{
    const bool is_tag = change->tag != NULL;
    json_t *said = json_pack("{s:s, s:b}", is_tag ? "tag" : "key", is_tag ? change->tag : change->key,
                             "value_dropped", (int)result->value_dropped);

    if (!is_tag)
        json_object_set_new(said, "load_voided", json_boolean(result->load_voided));
    return said;
}

static bool change_one(const struct ops_parts *parts, struct MHD_Connection *connection, change_call *call)
{
    struct guard_change change = {.key = ops_argument(connection, "key"),
                                  .tag = ops_argument(connection, "tag"),
                                  .deadline_ms = CHANGE_LIMIT_MS};
    const bool is_one = ops_argument_count(connection) == 1;
    const bool is_right = is_one && ((change.key != NULL && document_key_valid(change.key)) ||
                                     (change.tag != NULL && tag_valid(change.tag)));
    struct guard_invalidated result;

    if (!is_right)
        return ops_refuse(connection, &BAD_TARGET);
    const enum guard_status status = call(parts->of.guard, &change, &result);
    if (status != GUARD_OK)
        return ops_refuse_status(connection, status);
    return ops_send(connection, MHD_HTTP_OK, say_changed(&change, &result));
}

bool change_invalidate(const struct ops_parts *parts, struct MHD_Connection *connection)
{
    return change_one(parts, connection, guard_invalidate_wait);
}

bool change_expire(const struct ops_parts *parts, struct MHD_Connection *connection)
{
    return change_one(parts, connection, guard_expire_wait);
}

/* ---- refreshing ---- */

/* The keys of one request, and what has become of them so far. */
struct refresh {
    const char *keys[CHANGE_KEYS_MAX];
    size_t count;
    bool is_wrong;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t running; /* under lock, like the next one */
    struct guard_refreshed sum;
};

static enum MHD_Result take_key(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct refresh *refresh = context;

    (void)kind;
    if (strcmp(name, "key") != 0 || value == NULL || !document_key_valid(value) ||
        refresh->count == CHANGE_KEYS_MAX)
        refresh->is_wrong = true;
    else
        refresh->keys[refresh->count++] = value;
    return MHD_YES;
}

static void add_refreshed(void *context, const struct guard_refreshed *result)
{
    struct refresh *refresh = context;

    pthread_mutex_lock(&refresh->lock);
    if (result->status != GUARD_OK)
        refresh->sum.status = result->status;
    refresh->sum.loaded += result->loaded;
    refresh->sum.fresh += result->fresh;
    refresh->sum.failed += result->failed;
    refresh->sum.shed += result->shed;
    refresh->running--;
    pthread_cond_signal(&refresh->changed);
    pthread_mutex_unlock(&refresh->lock);
}

static void refresh_kind(const struct ops_parts *parts, struct refresh *refresh, enum document_kind kind)
{
    const char *keys[CHANGE_KEYS_MAX];
    struct document_key key;
    struct guard_refresh_request request = {.kind = catalog_kind(parts->of.catalog, kind),
                                            .keys = keys,
                                            .deadline_ms = CHANGE_MANY_LIMIT_MS,
                                            .done = add_refreshed,
                                            .context = refresh};

    for (size_t i = 0; i < refresh->count; i++) {
        if (document_key_parse(refresh->keys[i], &key) && key.kind == kind)
            keys[request.count++] = refresh->keys[i];
    }
    if (request.count == 0)
        return;
    pthread_mutex_lock(&refresh->lock);
    refresh->running++;
    pthread_mutex_unlock(&refresh->lock);
    const enum guard_status status = guard_refresh(parts->of.guard, &request);
    if (status != GUARD_OK)
        add_refreshed(refresh, &(struct guard_refreshed){.status = status});
}

/* The guard calls back by its deadline. */
static void refresh_all(const struct ops_parts *parts, struct refresh *refresh)
{
    pthread_mutex_init(&refresh->lock, NULL);
    pthread_cond_init(&refresh->changed, NULL);
    for (enum document_kind kind = 0; kind < DOCUMENT_KIND_COUNT; kind++)
        refresh_kind(parts, refresh, kind);
    pthread_mutex_lock(&refresh->lock);
    while (refresh->running > 0)
        pthread_cond_wait(&refresh->changed, &refresh->lock);
    pthread_mutex_unlock(&refresh->lock);
    pthread_cond_destroy(&refresh->changed);
    pthread_mutex_destroy(&refresh->lock);
}

bool change_refresh(const struct ops_parts *parts, struct MHD_Connection *connection)
{
    struct refresh refresh = {.count = 0};
    const struct guard_refreshed *sum = &refresh.sum;

    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, take_key, &refresh);
    if (refresh.is_wrong || refresh.count == 0)
        return ops_refuse(connection, &BAD_KEYS);
    refresh_all(parts, &refresh);
    if (sum->status != GUARD_OK && sum->status != GUARD_TIMEOUT)
        return ops_refuse_status(connection, sum->status);
    return ops_send(connection, MHD_HTTP_OK,
                    json_pack("{s:I, s:I, s:I, s:I, s:I}", "keys", (json_int_t)refresh.count, "loaded",
                              (json_int_t)sum->loaded, "fresh", (json_int_t)sum->fresh, "failed",
                              (json_int_t)sum->failed, "shed", (json_int_t)sum->shed));
}

/* ---- clearing ---- */

bool change_clear(const struct ops_parts *parts, struct MHD_Connection *connection)
{
    const char *name_space = ops_argument(connection, "namespace");
    struct guard_cleared result;

    if (ops_argument_count(connection) != 1 || name_space == NULL ||
        strcmp(name_space, parts->name_space) != 0)
        return ops_refuse(connection, &BAD_NAMESPACE);
    const enum guard_status status = guard_clear_wait(parts->of.guard, CHANGE_MANY_LIMIT_MS, &result);
    log_event(LOG_LEVEL_WARNING, "cleared",
              "namespace=%s status=%s reason=\"POST /clear\" hint=\"expect a load of every key\"", name_space,
              guard_status_name(status));
    if (status != GUARD_OK)
        return ops_refuse_status(connection, status);
    return ops_send(connection, MHD_HTTP_OK,
                    json_pack("{s:s, s:I}", "namespace", name_space, "entries", (json_int_t)result.entries));
}

/* ---- times ---- */

void policy_init(struct policy *policy, const struct settings *settings)
{
    pthread_mutex_init(&policy->lock, NULL);
    policy->settings = *settings;
}

void policy_clear(struct policy *policy)
{
    pthread_mutex_destroy(&policy->lock);
}

struct wanted {
    struct settings_change changes[CHANGES_MAX];
    size_t count;
    bool is_too_long;
};

static enum MHD_Result take_setting(void *context, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct wanted *wanted = context;

    (void)kind;
    wanted->is_too_long = wanted->count == CHANGES_MAX;
    if (!wanted->is_too_long)
        wanted->changes[wanted->count++] = (struct settings_change){name, value != NULL ? value : ""};
    return wanted->is_too_long ? MHD_NO : MHD_YES;
}

static bool refuse_times(struct MHD_Connection *connection, const char *why)
{
    const struct ops_refusal refusal = {MHD_HTTP_BAD_REQUEST, "Nothing was changed", why, NULL, NULL};

    return ops_refuse(connection, &refusal);
}

/* False, and *why says each reason in a line, the caller's: something is wrong. */
static bool check_times(const struct settings *now, const struct wanted *wanted, struct settings *changed,
                        char **why)
{
    size_t bytes = 0;
    FILE *messages = open_memstream(why, &bytes);

    if (messages == NULL)
        return false;
    const bool is_right = settings_change(now, wanted->changes, wanted->count, changed, messages);
    fclose(messages);
    if (*why != NULL && bytes > 0) /* no end of line after the last one */
        (*why)[bytes - 1] = '\0';
    return is_right;
}

static json_t *say_times(const struct settings *settings)
{
    json_t *told = json_object();
    const char *name = NULL;
    uint32_t value = 0;
    const size_t count = settings_changeable(settings, 0, &name, &value);

    for (size_t i = 0; i < count; i++) {
        settings_changeable(settings, i, &name, &value);
        json_object_set_new(told, name, json_integer(value));
    }
    return told;
}

/* Under the lock. */
static bool change_times(const struct ops_parts *parts, struct MHD_Connection *connection,
                         const struct wanted *wanted)
{
    struct policy *policy = parts->policy;
    struct settings changed;
    struct guard_error error = {.text = ""};
    char *why = NULL;

    if (!check_times(&policy->settings, wanted, &changed, &why)) {
        const bool queued = why != NULL && refuse_times(connection, why);

        free(why);
        return queued;
    }
    free(why);
    if (!cache_gate_set_life(parts->of.gate, &changed, ANNOUNCE_LIMIT_MS))
        return ops_refuse(connection, &UNANNOUNCED);
    if (!catalog_set_policy(parts->of.catalog, &policy->settings, &changed, &error))
        return refuse_times(connection, error.text);
    server_set_fresh_ms(parts->of.server, changed.policy.fresh_ms);
    policy->settings = changed;
    for (size_t i = 0; i < wanted->count; i++)
        log_line(LOG_LEVEL_INFO, "policy", "%s=%s", wanted->changes[i].name, wanted->changes[i].value);
    return ops_send(connection, MHD_HTTP_OK, say_times(&changed));
}

bool change_policy(const struct ops_parts *parts, struct MHD_Connection *connection)
{
    struct wanted wanted = {.count = 0};

    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, take_setting, &wanted);
    if (wanted.is_too_long)
        return refuse_times(connection, "Give at most 32 settings.");
    pthread_mutex_lock(&parts->policy->lock);
    const bool queued = change_times(parts, connection, &wanted);
    pthread_mutex_unlock(&parts->policy->lock);
    return queued;
}
