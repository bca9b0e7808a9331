/* SPDX-License-Identifier: MIT */
/* wire_http.c - requests and responses of HTTP/1.1; see wire.h. */
#include "load/witness/wire.h"

#include <ctype.h>
#include <string.h>

enum { HEAD_MAX_BYTES = 65536 };

/* Where a head ends; 0: not yet. */
static size_t head_bytes(const char *bytes, size_t count)
{
    const char *end = memmem(bytes, count, "\r\n\r\n", 4);
    return end != NULL ? (size_t)(end - bytes) + 4 : 0;
}

/* GET /item/7 HTTP/1.1: its target is what tells one load from another. */
static void begin_request(struct wire *wire, const char *head, uint64_t now_us)
{
    struct text text = {.bytes = NULL};
    size_t method = strcspn(head, " \r\n"), target = strcspn(head + method + 1, " \r\n");
    text_add(&text, head, method);
    text_add(&text, " '", 2);
    for (const char *at = head + method + 1; at < head + method + 1 + target; at++)
        text_add(&text, *at == '\'' ? "''" : at, *at == '\'' ? 2 : 1);
    text_add(&text, "'", 1);
    wire_begin(wire, text.bytes, text.count, "", WIRE_COUNTS, now_us);
    text_clear(&text);
}

/* Its body is framed as that of a response with these headers would be; without them it has none. */
static void begin_body(struct wire *wire, const char *head, size_t count)
{
    static const char status[] = "HTTP/1.1 200 OK";
    size_t line = strcspn(head, "\r"), bytes;
    wire->in_body = http_parse_header(head, "Content-Length", &bytes) != NULL ||
                    http_parse_header(head, "Transfer-Encoding", &bytes) != NULL;
    if (!wire->in_body)
        return;
    http_parse_next(&wire->request, false);
    http_parse_feed(&wire->request, status, sizeof status - 1);
    http_parse_feed(&wire->request, head + line, count - line);
    wire->in_body = wire->request.state != HTTP_PARSE_DONE;
}

static size_t take_head(struct wire *wire, const char *bytes, size_t count, uint64_t now_us)
{
    size_t whole = head_bytes(bytes, count);
    if (!isalpha((unsigned char)bytes[0])) {
        wire->opaque = "it is encrypted, or no HTTP/1.1: have the service connect to the proxy with http://";
        return 0;
    }
    if (whole == 0 || memchr(bytes, '\0', whole) != NULL ||
        memchr(bytes, ' ', strcspn(bytes, "\r")) == NULL) {
        if (whole > 0 || count > HEAD_MAX_BYTES)
            wire->opaque = "it does not speak HTTP/1.1";
        return 0;
    }
    struct text head = {.bytes = NULL};
    text_add(&head, bytes, whole);
    begin_request(wire, head.bytes, now_us);
    begin_body(wire, head.bytes, whole);
    text_clear(&head);
    return whole;
}

void wire_http_client(struct wire *wire, const char *bytes, size_t count, uint64_t now_us)
{
    struct text *part = &wire->client.part;
    size_t at = 0, used;
    text_add(part, bytes, count);
    do {
        const char *rest = part->bytes + at;
        used = wire->in_body ? http_parse_feed(&wire->request, rest, part->count - at)
                             : take_head(wire, rest, part->count - at, now_us);
        if (wire->in_body && wire->request.state == HTTP_PARSE_BAD)
            wire->opaque = "a request has no body that can be read";
        wire->in_body = wire->in_body && wire->request.state != HTTP_PARSE_DONE;
        at += used;
    } while (used > 0 && wire->opaque == NULL && at < part->count);
    memmove(part->bytes, part->bytes + at, part->count - at);
    part->count -= at;
    part->bytes[part->count] = '\0';
}

void wire_http_server(struct wire *wire, const char *bytes, size_t count, uint64_t now_us)
{
    while (count > 0 && wire->count > 0) {
        if (!wire->is_started)
            http_parse_next(&wire->answer, strncmp(wire->open[wire->first].text, "HEAD ", 5) == 0);
        wire->is_started = true;
        size_t used = http_parse_feed(&wire->answer, bytes, count);
        if (wire->answer.state == HTTP_PARSE_BAD) {
            wire->opaque = "a response is not HTTP/1.1, or the connection was upgraded";
            return;
        }
        if (wire->answer.state != HTTP_PARSE_DONE)
            return;
        wire_end(wire, true, now_us);
        wire->is_started = false;
        bytes += used;
        count -= used;
    }
}
