/* SPDX-License-Identifier: MIT */
/* http.c - see http.h. */
#include "load/base/http.h"

#include "load/base/clock.h"
#include "load/base/http_parse.h"
#include "load/base/net.h"
#include "load/base/text.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 16384 };

/*
 * One step of sending: what the server says early is left for the reading that follows, so a server that
 * refuses in the middle of a body is heard, too. False: nothing more can be sent.
 */
static bool send_some(int fd, const char *bytes, size_t count, size_t *sent, uint64_t end_us)
{
    ssize_t got = send(fd, bytes + *sent, count - *sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (got >= 0) {
        *sent += (size_t)got;
        return true;
    }
    if (errno == EINTR)
        return true;
    return errno == EAGAIN && net_wait(fd, POLLOUT, end_us);
}

static void send_all(int fd, const char *bytes, size_t count, uint64_t end_us)
{
    size_t sent = 0;
    while (sent < count && send_some(fd, bytes, count, &sent, end_us))
        ;
}

/* Bytes read, 0 at the end of the connection, -1 when it broke (errno) or the deadline passed (ETIMEDOUT). */
static ssize_t receive(int fd, char *bytes, size_t room, uint64_t end_us)
{
    for (;;) {
        ssize_t count = recv(fd, bytes, room, MSG_DONTWAIT);
        if (count >= 0)
            return count;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return -1;
        if (!net_wait(fd, POLLIN, end_us)) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
}

static enum http_outcome read_answer(int fd, struct http_parse *parse, uint64_t end_us)
{
    char bytes[READ_BYTES];
    while (parse->state != HTTP_PARSE_DONE && parse->state != HTTP_PARSE_BAD) {
        ssize_t count = receive(fd, bytes, sizeof bytes, end_us);
        if (count == -1)
            return errno == ETIMEDOUT ? HTTP_TIMEOUT : HTTP_RESET;
        if (count == 0) {
            http_parse_end(parse);
            return parse->state == HTTP_PARSE_DONE ? HTTP_ANSWERED : HTTP_RESET;
        }
        http_parse_feed(parse, bytes, (size_t)count);
    }
    return parse->state == HTTP_PARSE_DONE ? HTTP_ANSWERED : HTTP_BAD;
}

static void write_request(const struct http_request *request, struct text *out)
{
    char line[128];
    text_add_line(out, request->method != NULL ? request->method : "GET");
    text_add_line(out, " ");
    text_add_line(out, request->path);
    snprintf(line, sizeof line, " HTTP/1.1\r\nHost: %.64s\r\nConnection: close\r\n",
             strncmp(request->host, "unix:", 5) == 0 ? "localhost" : request->host);
    text_add_line(out, line);
    text_add_line(out, request->headers != NULL ? request->headers : "");
    if (request->body != NULL) {
        snprintf(line, sizeof line, "Content-Length: %zu\r\n", request->body_bytes);
        text_add_line(out, line);
    }
    text_add_line(out, "\r\n");
    if (request->body != NULL)
        text_add(out, request->body, request->body_bytes);
}

static enum http_outcome exchange(const struct http_request *request, struct http_parse *parse)
{
    uint64_t end_us = clock_after_ms(request->deadline_ms);
    int fd = net_connect_by(request->host, request->port, end_us);
    if (fd == -1)
        return clock_us() >= end_us ? HTTP_TIMEOUT : HTTP_UNCONNECTED;
    struct text text = {.bytes = NULL};
    write_request(request, &text);
    send_all(fd, text.bytes, text.count, end_us);
    enum http_outcome outcome = read_answer(fd, parse, end_us);
    free(text.bytes);
    close(fd);
    return outcome;
}

static void on_body(void *context, const char *bytes, size_t count)
{
    text_add(context, bytes, count);
}

bool http_ask(const struct http_request *request, struct http_answer *out)
{
    struct text body = {.bytes = NULL};
    struct http_parse parse;
    uint64_t begin_us = clock_us();
    http_parse_init(&parse, on_body, &body);
    http_parse_next(&parse, request->method != NULL && strcmp(request->method, "HEAD") == 0);
    enum http_outcome outcome = exchange(request, &parse);
    text_add(&body, NULL, 0);
    *out = (struct http_answer){
        .outcome = outcome,
        .status = outcome == HTTP_ANSWERED ? parse.status : 0,
        .head = parse.status != 0 ? strdup(parse.head) : NULL,
        .body = body.bytes,
        .body_bytes = body.count,
        .total_us = clock_us() - begin_us,
    };
    http_parse_clear(&parse);
    return outcome == HTTP_ANSWERED;
}

void http_answer_clear(struct http_answer *answer)
{
    free(answer->head);
    free(answer->body);
    *answer = (struct http_answer){.outcome = HTTP_UNCONNECTED};
}

const char *http_header(const struct http_answer *answer, const char *name, char *value, size_t value_bytes)
{
    return http_parse_value(answer->head, name, value, value_bytes);
}

void http_raw_ask(const char *host, uint16_t port, const char *bytes, size_t count, uint32_t deadline_ms,
                  struct http_raw *out)
{
    char read_bytes[READ_BYTES];
    struct text text = {.bytes = NULL};
    uint64_t end_us = clock_after_ms(deadline_ms);
    int fd = net_connect_by(host, port, end_us);
    *out = (struct http_raw){.connected = fd != -1};
    text_add(&text, NULL, 0);
    if (fd != -1) {
        send_all(fd, bytes, count, end_us);
        ssize_t got;
        while ((got = receive(fd, read_bytes, sizeof read_bytes, end_us)) > 0)
            text_add(&text, read_bytes, (size_t)got);
        out->closed = got == 0 || errno != ETIMEDOUT;
        close(fd);
    }
    out->bytes = text.bytes;
    out->count = text.count;
}

void http_raw_clear(struct http_raw *raw)
{
    free(raw->bytes);
    *raw = (struct http_raw){.bytes = NULL};
}
