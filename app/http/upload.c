/* SPDX-License-Identifier: MIT */
/* upload.c - see upload.h. */
#include "app/http/upload.h"

#include "app/http/head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool upload_is_write(const struct route *route, const char *method)
{
    return (route->target == ROUTE_PRODUCT && strcmp(method, MHD_HTTP_METHOD_PUT) == 0) ||
           (route->target == ROUTE_PURCHASE && strcmp(method, MHD_HTTP_METHOD_POST) == 0);
}

const char *upload_allowed(const struct route *route, bool writes_on)
{
    if (route->target == ROUTE_PURCHASE)
        return "POST";
    return route->target == ROUTE_PRODUCT && writes_on ? "GET, HEAD, PUT" : "GET, HEAD";
}

struct condition {
    struct write_versions versions;
    bool given, wrong;
};

static enum MHD_Result take_condition(void *context, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct condition *condition = context;

    (void)kind;
    if (strcasecmp(name, MHD_HTTP_HEADER_IF_MATCH) == 0) {
        condition->given = true;
        condition->wrong = condition->wrong || value == NULL || !write_if_match(value, &condition->versions);
    }
    return MHD_YES;
}

static enum problem read_condition(struct MHD_Connection *connection, struct write_job *job)
{
    struct condition condition = {.given = false};

    MHD_get_connection_values(connection, MHD_HEADER_KIND, take_condition, &condition);
    if (!condition.given)
        return PROBLEM_CONDITION;
    if (condition.wrong)
        return PROBLEM_BAD_CONDITION;
    job->any_version = condition.versions.any;
    write_versions_text(&condition.versions, job->versions);
    return PROBLEM_COUNT;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum problem read_key(struct MHD_Connection *connection, struct write_job *job)
{
    const char *key = header(connection, "Idempotency-Key");

    return key == NULL || write_key_parse(key, job->key) ? PROBLEM_COUNT : PROBLEM_BAD_KEY;
}

/* libmicrohttpd has refused what is no number. */
static size_t length_of(struct MHD_Connection *connection)
{
    const char *text = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);

    if (text == NULL)
        return 0;
    return strlen(text) <= HEAD_LENGTH_DIGITS_MAX ? (size_t)strtoull(text, NULL, 10) : SIZE_MAX;
}

enum problem upload_open(struct MHD_Connection *connection, const struct route *route, struct write_job **out)
{
    const bool is_product = route->target == ROUTE_PRODUCT;
    const char *type = header(connection, MHD_HTTP_HEADER_CONTENT_TYPE);
    const size_t bytes = length_of(connection);

    if (type == NULL || !write_type_is_json(type))
        return PROBLEM_MEDIA_TYPE;
    if (bytes > WRITE_BODY_BYTES_MAX)
        return PROBLEM_TOO_LARGE;
    struct write_job *job = write_job_new(is_product ? WRITE_PRODUCT : WRITE_PURCHASE, route->id, bytes);
    if (job == NULL)
        return PROBLEM_SHED;
    const enum problem problem = is_product ? read_condition(connection, job) : read_key(connection, job);
    if (problem == PROBLEM_COUNT)
        *out = job;
    else
        free(job);
    return problem;
}

bool upload_take(struct write_job *job, const char *bytes, size_t count)
{
    if (count > job->body_room - job->body_bytes)
        return false;
    memcpy(job->body + job->body_bytes, bytes, count);
    job->body_bytes += count;
    return true;
}
