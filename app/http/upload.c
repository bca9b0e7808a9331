/* SPDX-License-Identifier: MIT */
/* upload.c - see upload.h. What becomes of a write is one table. */
#include "app/http/upload.h"

#include "app/base/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- the request ---- */

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
    uint64_t bytes;

    if (text == NULL)
        return 0;
    return number_parse(text, strlen(text), NUMBER_DIGITS_MAX, &bytes) ? (size_t)bytes : SIZE_MAX;
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

/* ---- the answer ---- */

enum { RETRY_MS = 1000, EXTRA_BYTES = WRITE_ERRORS_BYTES + 32 };

static const struct answer_refusal REFUSALS[WRITE_OUTCOME_COUNT] = {
    [WRITE_ABSENT] = {404, false, "absent", "No such row",
                      "The catalog has no product with this id; see /catalog for what it has."},
    [WRITE_CONFLICT] =
        {412, false, "version-conflict", "The product has changed",
         "It or a category in its path is no longer as If-Match says; GET it, look, and try again."},
    [WRITE_SOLD_OUT] = {409, false, "sold-out", "Not enough in stock",
                        "Nothing was bought; ask for at most what stock says."},
    [WRITE_KEY_REUSED] = {422, false, "key-reused", "Idempotency-Key of another purchase",
                          "This key was used for another product or quantity; nothing was bought now. Use a "
                          "new key for each purchase."},
    [WRITE_BAD_BODY] = {400, false, "bad-body", "The body cannot be read", "Send a JSON object in UTF-8."},
    [WRITE_BAD_FIELDS] = {422, false, "bad-fields", "Fields are wrong",
                          "Nothing was changed; correct the fields that errors names."},
    [WRITE_SHED] = {503, false, "shed", "Too many writes are waiting",
                    "Nothing was changed; ask again after Retry-After."},
    [WRITE_FAILED] = {503, false, "write-failed", "The catalog cannot be changed right now",
                      "The database did not take it and nothing was changed; ask again after Retry-After."},
    [WRITE_TIMEOUT] = {503, false, "write-timeout", "The change took too long",
                       "It was rolled back, nothing was changed; ask again after Retry-After."},
    [WRITE_REFUSED] = {500, false, "write-refused", "The database refuses this change",
                       "Nothing was changed; see the server's log before you try again."},
    [WRITE_UNKNOWN] = {502, false, "outcome-unknown", "It is not known whether the change was made",
                       "The database was lost before it answered. GET the product to see; a purchase with an "
                       "Idempotency-Key can be repeated."},
    [WRITE_CLOSING] = {503, true, "closing", "This server is shutting down",
                       "Nothing was changed; ask again, another one will answer."},
};

static void refuse(const struct write_result *result, const char *path, struct answer *out)
{
    char extra[EXTRA_BYTES] = "";

    if (result->outcome == WRITE_SOLD_OUT)
        snprintf(extra, sizeof(extra), ",\"stock\":%" PRId64, result->stock);
    if (result->errors[0] != '\0')
        snprintf(extra, sizeof(extra), ",\"errors\":[%s]", result->errors);
    answer_refuse(&REFUSALS[result->outcome], path, extra, out);
    if (out->status == 503)
        answer_retry_after(RETRY_MS, out);
}

void upload_answer(const struct write_result *result, enum write_kind kind, uint64_t id, const char *path,
                   struct answer *out)
{
    char stock[40] = "";

    if (result->outcome != WRITE_DONE && result->outcome != WRITE_REPEATED) {
        refuse(result, path, out);
        return;
    }
    if (kind == WRITE_PURCHASE)
        snprintf(stock, sizeof(stock), ",\"stock\":%" PRId64, result->stock);
    *out = (struct answer){.status = 200, .content_type = ANSWER_JSON_TYPE, .cache_control = "no-store"};
    snprintf(out->text, sizeof(out->text),
             "{\"id\":%" PRIu64 ",\"version\":%" PRId64 "%s,\"repeated\":%s,\"visible\":%s}\n", id,
             result->version, stock, result->outcome == WRITE_REPEATED ? "true" : "false",
             result->visible ? "true" : "false");
    out->text_bytes = strlen(out->text);
    if (result->validator[0] != '\0') /* of the product as GET shows it now */
        snprintf(out->etag, sizeof(out->etag), "\"%s\"", result->validator);
}
