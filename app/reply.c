/* SPDX-License-Identifier: MIT */
/*
 * reply.c - headers and bodies in and out of libmicrohttpd. A cached body is sent from where the guard holds
 * it: the response keeps a reference, not a copy.
 */
#include "app/reply.h"

#include "app/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- out ---- */

static void drop_value(void *value)
{
    const struct guard_value *held = value;

    guard_value_unref(&held);
}

static struct MHD_Response *response_of_body(const struct answer *answer)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(answer->body_bytes, answer->body, MHD_RESPMEM_MUST_FREE);

    if (response == NULL)
        free(answer->body);
    return response;
}

static struct MHD_Response *response_of(const struct answer *answer)
{
    if (answer->body != NULL)
        return response_of_body(answer);
    if (answer->value == NULL)
        return MHD_create_response_from_buffer(answer->text_bytes, (void *)(uintptr_t)answer->text,
                                               MHD_RESPMEM_MUST_COPY);

    const struct guard_value *held = guard_value_ref(answer->value);
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        held->body_bytes, (void *)(uintptr_t)held->body, drop_value, (void *)(uintptr_t)held);
    if (response == NULL)
        guard_value_unref(&held);
    return response;
}

static bool add(struct MHD_Response *response, const char *name, const char *value)
{
    return value == NULL || value[0] == '\0' || MHD_add_response_header(response, name, value) == MHD_YES;
}

static bool add_headers(struct MHD_Response *response, const struct answer *answer)
{
    return add(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->content_type) &&
           add(response, MHD_HTTP_HEADER_X_CONTENT_TYPE_OPTIONS,
               answer->content_type != NULL ? "nosniff" : NULL) &&
           add(response, MHD_HTTP_HEADER_CACHE_CONTROL, answer->cache_control) &&
           add(response, "Cache-Status", answer->cache_status) &&
           add(response, MHD_HTTP_HEADER_ETAG, answer->etag) &&
           add(response, MHD_HTTP_HEADER_AGE, answer->age) &&
           add(response, MHD_HTTP_HEADER_RETRY_AFTER, answer->retry_after) &&
           add(response, MHD_HTTP_HEADER_ALLOW, answer->allow) &&
           add(response, MHD_HTTP_HEADER_CONNECTION, answer->close ? "close" : NULL);
}

struct etag_search {
    const struct answer *answer;
    bool found;
};

static enum MHD_Result match_etag(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct etag_search *search = context;

    (void)kind;
    if (value != NULL && strcasecmp(name, MHD_HTTP_HEADER_IF_NONE_MATCH) == 0)
        search->found = search->found || answer_etag_matches(search->answer, value);
    return MHD_YES;
}

static bool client_holds_it(struct MHD_Connection *connection, const struct answer *answer)
{
    struct etag_search search = {.answer = answer};

    if (answer->status != MHD_HTTP_OK ||
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH) == NULL)
        return false;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, match_etag, &search);
    return search.found;
}

static struct MHD_Response *response_with_headers(const struct answer *answer)
{
    struct MHD_Response *response = response_of(answer);

    if (response == NULL || add_headers(response, answer))
        return response;
    MHD_destroy_response(response);
    return NULL;
}

bool reply_queue(struct MHD_Connection *connection, struct answer *answer, unsigned *status)
{
    if (client_holds_it(connection, answer))
        answer_not_modified(answer);

    struct MHD_Response *response = response_with_headers(answer);
    if (response == NULL)
        return false;
    const bool queued = MHD_queue_response(connection, answer->status, response) == MHD_YES;
    MHD_destroy_response(response);
    *status = answer->status;
    return queued;
}

/* ---- the memo ---- */

void reply_memo_clear(struct reply_memo *memo)
{
    if (memo->response != NULL)
        MHD_destroy_response(memo->response);
    memo->response = NULL;
    guard_value_unref(&memo->result.value);
}

/* Nothing that is answered differs: the value is the same object, spans are told in seconds. */
static bool memo_fits(const struct reply_memo *memo, const struct guard_result *result)
{
    return memo->response != NULL && memo->result.value == result->value &&
           memo->result.source == result->source && memo->result.stored == result->stored &&
           memo->result.age_ms / 1000 == result->age_ms / 1000 &&
           memo->result.left_ms / 1000 == result->left_ms / 1000;
}

static bool memo_fill(struct reply_memo *memo, const struct guard_result *result, uint32_t fresh_ms)
{
    reply_memo_clear(memo);
    answer_from_result(result, NULL, fresh_ms, &memo->answer);
    memo->response = response_with_headers(&memo->answer);
    if (memo->response == NULL)
        return false;
    memo->result = *result;
    memo->result.value = guard_value_ref(result->value);
    return true;
}

bool reply_queue_value(struct MHD_Connection *connection, struct reply_memo *memo,
                       const struct guard_result *result, uint32_t fresh_ms, unsigned *status)
{
    if (!memo_fits(memo, result) && !memo_fill(memo, result, fresh_ms))
        return false;
    if (client_holds_it(connection, &memo->answer)) {
        struct answer answer = memo->answer;
        return reply_queue(connection, &answer, status);
    }
    *status = memo->answer.status;
    return MHD_queue_response(connection, *status, memo->response) == MHD_YES;
}

/* ---- documents ---- */

bool reply_document(struct MHD_Connection *connection, const struct reply_document *document)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(document->body), (void *)(uintptr_t)document->body, MHD_RESPMEM_MUST_COPY);

    if (response == NULL)
        return false;
    const bool queued =
        add(response, MHD_HTTP_HEADER_CONTENT_TYPE, document->content_type) &&
        add(response, MHD_HTTP_HEADER_X_CONTENT_TYPE_OPTIONS, "nosniff") &&
        add(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") &&
        (document->header == NULL || add(response, document->header, document->header_value)) &&
        MHD_queue_response(connection, document->status, response) == MHD_YES;
    MHD_destroy_response(response);
    return queued;
}

/* ---- in ---- */

struct head {
    unsigned length_count, encoding_count, host_count;
    bool has_body;
};

static enum MHD_Result look_at_header(void *context, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct head *head = context;

    (void)kind;
    if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0)
        head->encoding_count++;
    if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0)
        head->host_count++;
    if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        head->length_count++;
        head->has_body = value == NULL || strspn(value, "0") != strlen(value);
    }
    return MHD_YES;
}

bool reply_refuses_head(struct MHD_Connection *connection, const char *version, enum problem *problem)
{
    const unsigned hosts_needed = strcmp(version, MHD_HTTP_VERSION_1_0) == 0 ? 0 : 1;
    struct head head = {0};

    MHD_get_connection_values(connection, MHD_HEADER_KIND, look_at_header, &head);
    if (head.encoding_count != 0 || head.length_count > 1)
        *problem = PROBLEM_FRAMING;
    else if (head.host_count < hosts_needed || head.host_count > 1)
        *problem = PROBLEM_HOST;
    else if (head.has_body)
        *problem = PROBLEM_BODY;
    else
        return false;
    return true;
}

size_t reply_keep_raw(void *nothing, struct MHD_Connection *connection, char *text)
{
    (void)nothing;
    (void)connection;
    return strlen(text);
}

void reply_log(void *nothing, const char *format, va_list arguments)
{
    char text[256];

    (void)nothing;
    vsnprintf(text, sizeof(text), format, arguments);
    text[strcspn(text, "\n")] = '\0';
    log_event(LOG_LEVEL_INFO, "http", "text=\"%s\"", text);
}
