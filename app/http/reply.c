/* SPDX-License-Identifier: MIT */
/*
 * reply.c - headers and bodies in and out of libmicrohttpd. A cached body is sent from where the guard holds
 * it: the response keeps a reference, not a copy.
 */
#include "app/http/reply.h"

#include "app/base/clock.h"
#include "app/base/log.h"
#include "app/base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

/* ---- out ---- */

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
    return shelf_hold(answer->value);
}

static bool add(struct MHD_Response *response, const char *name, const char *value)
{
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

static bool add_headers(struct MHD_Response *response, const struct answer *answer)
{
    struct answer_line lines[ANSWER_LINES_MAX];
    const size_t count = answer_lines(answer, lines);
    bool added = !answer->close || add(response, MHD_HTTP_HEADER_CONNECTION, "close");

    for (size_t i = 0; i < count && added; i++)
        added = add(response, lines[i].name, lines[i].value);
    return added;
}

struct etag_search {
    const char *etag;
    bool found;
};

static enum MHD_Result match_etag(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct etag_search *search = context;

    (void)kind;
    if (value != NULL && strcasecmp(name, MHD_HTTP_HEADER_IF_NONE_MATCH) == 0)
        search->found = search->found || answer_etag_matches(search->etag, value);
    return MHD_YES;
}

/* The 200 that has this ETag. */
static bool client_holds(struct MHD_Connection *connection, const char *etag)
{
    struct etag_search search = {.etag = etag};

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
    if (answer->status == MHD_HTTP_OK && client_holds(connection, answer->etag))
        answer_not_modified(answer);

    struct MHD_Response *response = response_with_headers(answer);
    if (response == NULL)
        return false;
    const bool queued = MHD_queue_response(connection, answer->status, response) == MHD_YES;
    MHD_destroy_response(response);
    *status = answer->status;
    return queued;
}

static bool holds_value(struct MHD_Connection *connection, const struct guard_value *value)
{
    char etag[ANSWER_ETAG_SIZE];

    answer_etag(value->validator, etag);
    return client_holds(connection, etag);
}

struct prepared *reply_queue_prepared(struct MHD_Connection *connection, struct shelf *shelf,
                                      struct shelf_wish *wish, unsigned *status)
{
    wish->held = wish->held && holds_value(connection, wish->result->value);
    struct prepared *item = shelf_find(shelf, wish);
    *status = wish->held ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK;
    if (item != NULL && MHD_queue_response(connection, *status, shelf_response(item)) != MHD_YES)
        shelf_sent(&item);
    return item;
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

bool reply_refuses_head(struct MHD_Connection *connection, const struct strict_line *line,
                        enum problem *problem, struct head_names *names)
{
    const unsigned hosts_needed = strcmp(line->version, MHD_HTTP_VERSION_1_0) == 0 ? 0 : 1;
    struct head head;

    const bool is_sound = strict_head(connection, line, &head);
    *names = is_sound ? head.names : (struct head_names){.request = NULL};
    if (!is_sound || head.encodings != 0 || head.lengths > 1 || head.length_is_wrong)
        *problem = PROBLEM_FRAMING;
    else if (head.hosts < hosts_needed || head.hosts > 1)
        *problem = PROBLEM_HOST;
    else if (head.has_body)
        *problem = PROBLEM_BODY;
    else
        return false;
    return true;
}

/* ---- what libmicrohttpd would refuse itself ---- */

bool reply_complains_of_length(const char *format)
{
    return strstr(format, MHD_HTTP_HEADER_CONTENT_LENGTH) != NULL;
}

/* Past libmicrohttpd, which has sent all earlier answers. What the socket does not take at once is lost. */
static void send_past(int fd, const struct answer *answer)
{
    char text[sizeof(answer->text) + 512], date[40];
    const bool has_id = answer->request[0] != '\0';
    struct tm now;
    const struct timespec wall = clock_wall();

    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&wall.tv_sec, &now));
    const int bytes = snprintf(
        text, sizeof(text),
        "HTTP/1.1 %u %s\r\nDate: %s\r\nConnection: close\r\nContent-Type: %s\r\n"
        "X-Content-Type-Options: nosniff\r\nCache-Control: %s\r\n%s%s%sContent-Length: %zu\r\n\r\n%.*s",
        answer->status, MHD_get_reason_phrase_for(answer->status), date, answer->content_type,
        answer->cache_control, has_id ? ANSWER_REQUEST_ID ": " : "", answer->request, has_id ? "\r\n" : "",
        answer->text_bytes, (int)answer->text_bytes, answer->text);
    (void)!send(fd, text, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_RDWR);
}

unsigned reply_refuse_length(struct MHD_Connection *connection, const char *request)
{
    const char *length =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const size_t digits = length != NULL ? number_span(length) : 0;
    struct answer answer;

    if (length == NULL || (digits > 0 && digits <= NUMBER_DIGITS_MAX && length[digits] == '\0'))
        return 0;
    answer_problem(digits > 0 && length[digits] == '\0' ? PROBLEM_TOO_LARGE : PROBLEM_FRAMING, NULL, &answer);
    answer_name_request(request, &answer);
    send_past(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd, &answer);
    return answer.status;
}

size_t reply_keep_raw(void *nothing, struct MHD_Connection *connection, char *text)
{
    (void)nothing;
    (void)connection;
    return strlen(text);
}

void reply_log(const char *format, va_list arguments)
{
    char text[256];

    vsnprintf(text, sizeof(text), format, arguments);
    text[strcspn(text, "\n")] = '\0';
    log_event(LOG_LEVEL_INFO, "http", "text=\"%s\"", text);
}

/* ---- past the cache ---- */

bool revalidate_is_asked(const char *cache_control)
{
    static const char directive[] = "no-cache";
    const size_t bytes = sizeof(directive) - 1;

    for (const char *at = cache_control; *at != '\0';) {
        at += strspn(at, ", \t");
        const size_t length = strcspn(at, ", \t");

        if (length == bytes && strncasecmp(at, directive, bytes) == 0)
            return true;
        at += length;
    }
    return false;
}

static enum MHD_Result look(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    bool *is_asked = context;

    (void)kind;
    if (value != NULL && strcasecmp(name, MHD_HTTP_HEADER_CACHE_CONTROL) == 0)
        *is_asked = *is_asked || revalidate_is_asked(value);
    return MHD_YES;
}

bool revalidate_wanted(struct MHD_Connection *connection, const struct token *token)
{
    bool is_asked = false;

    if (!token->required)
        return false;
    const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Revalidate-Token");
    if (given == NULL || !token_matches(token, given))
        return false;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, look, &is_asked);
    return is_asked;
}
