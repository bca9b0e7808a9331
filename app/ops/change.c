/* SPDX-License-Identifier: MIT */
/* change.c - see change.h. */
#include "app/ops/change.h"

#include "app/base/document.h"
#include "app/base/log.h"
#include "app/ops/ops_reply.h"

#include <string.h>

#define KEYS "catalog, category:{id}, category:{id}:after:{id}, product:{id} or offers:{id}"

static const struct ops_refusal BAD_TARGET = {
    MHD_HTTP_BAD_REQUEST, "Not a key",
    "Give one: ?key=" KEYS "; or a group of them: ?tag=category:{id} or listing:{id}.", NULL, NULL};
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

/* ---- clearing ---- */

bool change_clear(const struct ops_parts *parts, struct MHD_Connection *connection)
{
    const char *name_space = ops_argument(connection, "namespace");
    struct guard_cleared result;

    if (ops_argument_count(connection) != 1 || name_space == NULL ||
        strcmp(name_space, parts->name_space) != 0)
        return ops_refuse(connection, &BAD_NAMESPACE);
    const enum guard_status status = guard_clear_wait(parts->guard, CHANGE_CLEAR_LIMIT_MS, &result);
    log_event(LOG_LEVEL_WARNING, "cleared", "namespace=%s status=%s", name_space, guard_status_name(status));
    if (status != GUARD_OK)
        return ops_refuse_status(connection, status);
    return ops_send(connection, MHD_HTTP_OK,
                    json_pack("{s:s, s:I}", "namespace", name_space, "entries", (json_int_t)result.entries));
}
