/* SPDX-License-Identifier: MIT */
/* change.c - see change.h. */
#include "app/ops/change.h"

#include "app/base/document.h"
#include "app/base/log.h"
#include "app/ops/ops_reply.h"

#include <pthread.h>
#include <string.h>

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
    const enum guard_status status = call(parts->guard, &change, &result);
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
    struct guard_refresh_request request = {.kind = catalog_kind(parts->catalog, kind),
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
    const enum guard_status status = guard_refresh(parts->guard, &request);
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
    const enum guard_status status = guard_clear_wait(parts->guard, CHANGE_MANY_LIMIT_MS, &result);
    log_event(LOG_LEVEL_WARNING, "cleared",
              "namespace=%s status=%s reason=\"POST /clear\" hint=\"expect a load of every key\"", name_space,
              guard_status_name(status));
    if (status != GUARD_OK)
        return ops_refuse_status(connection, status);
    return ops_send(connection, MHD_HTTP_OK,
                    json_pack("{s:s, s:I}", "namespace", name_space, "entries", (json_int_t)result.entries));
}
