/* SPDX-License-Identifier: MIT */
/* ops_reply.c - see ops_reply.h. */
#include "app/ops/ops_reply.h"

#include "app/http/reply.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HOST_BYTES = 64 };

static const struct ops_refusal UNCONFIRMED = {
    MHD_HTTP_SERVICE_UNAVAILABLE, "Not confirmed",
    "Redis did not confirm; it may or may not have happened. Do it again.", MHD_HTTP_HEADER_RETRY_AFTER, "1"};
static const struct ops_refusal SHUTTING_DOWN = {MHD_HTTP_SERVICE_UNAVAILABLE, "Shutting down",
                                                 "Do it again on another process.", NULL, NULL};
static const struct ops_refusal NOT_DONE = {MHD_HTTP_INTERNAL_SERVER_ERROR, "Not done",
                                            "Out of memory, or a bug; see the log.", NULL, NULL};

static bool send_json(struct MHD_Connection *connection, struct reply_document document, json_t *json)
{
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;

    document.body = text;
    const bool queued = text != NULL && reply_document(connection, &document);
    free(text);
    json_decref(json);
    return queued;
}

bool ops_send(struct MHD_Connection *connection, unsigned status, json_t *json)
{
    return send_json(connection,
                     (struct reply_document){.status = status, .content_type = "application/json"}, json);
}

bool ops_refuse(struct MHD_Connection *connection, const struct ops_refusal *refusal)
{
    const struct reply_document document = {.status = refusal->status,
                                            .content_type = "application/problem+json",
                                            .header = refusal->header,
                                            .header_value = refusal->header_value};

    return send_json(connection, document,
                     json_pack("{s:s, s:s, s:i, s:s}", "type", "about:blank", "title", refusal->title,
                               "status", (int)refusal->status, "detail", refusal->detail));
}

bool ops_refuse_status(struct MHD_Connection *connection, enum guard_status status)
{
    switch (status) {
    case GUARD_UNKNOWN:
    case GUARD_SHED:
    case GUARD_TIMEOUT:
        return ops_refuse(connection, &UNCONFIRMED);
    case GUARD_CLOSING:
        return ops_refuse(connection, &SHUTTING_DOWN);
    case GUARD_OK:
    case GUARD_ABSENT:
    case GUARD_FAILED:
    case GUARD_CANCELLED:
    case GUARD_INVALID:
    case GUARD_NO_MEMORY:
    case GUARD_MISS:
    case GUARD_NOW:
        break;
    }
    return ops_refuse(connection, &NOT_DONE);
}

/* Of "%3A", 0x3A; 0: it is not such a text. */
static char byte_of(const char *text)
{
    if (!isxdigit((unsigned char)text[1]) || !isxdigit((unsigned char)text[2]))
        return '\0';
    return (char)strtoul((const char[]){text[1], text[2], '\0'}, NULL, 16);
}

size_t ops_decode(void *nothing, struct MHD_Connection *connection, char *text)
{
    char *end = text;

    (void)nothing;
    (void)connection;
    for (const char *at = strchr(text, '%'); at != NULL; at = strchr(at + 1, '%')) {
        if (byte_of(at) == '\0')
            return strlen(text);
    }
    for (const char *at = text; *at != '\0'; end++) {
        const bool is_encoded = *at == '%';

        *end = is_encoded ? byte_of(at) : *at;
        at += is_encoded ? 3 : 1;
    }
    *end = '\0';
    return (size_t)(end - text);
}

unsigned ops_argument_count(struct MHD_Connection *connection)
{
    return (unsigned)MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, NULL, NULL);
}

const char *ops_argument(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
}

/* ---- who asks ---- */

static const char *header(struct MHD_Connection *connection, const char *name)
{
    const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);

    return value != NULL ? value : "";
}

bool ops_is_foreign(struct MHD_Connection *connection)
{
    const char *site = header(connection, "Sec-Fetch-Site");

    return strcmp(site, "cross-site") == 0 || strcmp(site, "same-site") == 0;
}

bool ops_host_is_address(struct MHD_Connection *connection)
{
    const char *host = header(connection, MHD_HTTP_HEADER_HOST);
    const bool is_v6 = host[0] == '[';
    const size_t bytes = strcspn(host += is_v6, is_v6 ? "]" : ":");
    unsigned char address[sizeof(struct in6_addr)];
    char name[HOST_BYTES];

    if (bytes >= sizeof(name))
        return false;
    snprintf(name, sizeof(name), "%.*s", (int)bytes, host);
    return strcasecmp(name, "localhost") == 0 || inet_pton(is_v6 ? AF_INET6 : AF_INET, name, address) == 1;
}
