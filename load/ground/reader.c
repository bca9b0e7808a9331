/* SPDX-License-Identifier: MIT */
/* reader.c - see reader.h. */
#include "load/ground/reader.h"

#include "load/base/clock.h"
#include "load/base/http_parse.h"
#include "load/base/net.h"
#include "load/base/text.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { AGAIN_MS = 100, CONNECT_LIMIT_MS = 1000, LINE_BYTES_MAX = 65536 };

/* One stream. */
struct stream {
    struct reader *reader;
    struct text line; /* what is there of it */
};

static void keep(struct reader *reader, const char *line, size_t count)
{
    json_t *sample = json_loadb(line, count, 0, NULL);
    if (!json_is_object(sample)) {
        json_decref(sample);
        return;
    }
    json_t *about = json_incref(json_object_get(sample, "about"));
    json_object_del(sample, "about");
    pthread_mutex_lock(&reader->lock);
    if (about != NULL) {
        json_decref(reader->about);
        reader->about = about;
    }
    json_decref(reader->sample);
    reader->sample = sample;
    reader->sample_us = clock_us();
    pthread_mutex_unlock(&reader->lock);
}

static void take_bytes(void *context, const char *bytes, size_t count)
{
    struct stream *stream = context;
    while (count > 0) {
        const char *end = memchr(bytes, '\n', count);
        size_t part = end != NULL ? (size_t)(end - bytes) : count;
        if (stream->line.count + part > LINE_BYTES_MAX)
            text_empty(&stream->line);
        text_add(&stream->line, bytes, part);
        if (end == NULL)
            return;
        keep(stream->reader, stream->line.bytes, stream->line.count);
        text_empty(&stream->line);
        bytes += part + 1;
        count -= part + 1;
    }
}

static int connect_to(uint16_t port)
{
    struct net_address address;
    net_address_init(&address, "127.0.0.1", port);
    int fd = net_connect_start(&address);
    if (fd != -1 && net_wait(fd, POLLOUT, clock_after_ms(CONNECT_LIMIT_MS)) && net_connect_error(fd) == 0)
        return fd;
    if (fd != -1)
        close(fd);
    return -1;
}

/* True: bytes or the end can be read; false: the reader is to end. */
static bool wait_readable(int fd, int end_fd)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = end_fd, .events = POLLIN}};
    while (poll(fds, 2, -1) == -1 && errno == EINTR)
        ;
    return fds[1].revents == 0;
}

static void follow(struct reader *reader, int fd)
{
    char request[128], bytes[8192];
    struct stream stream = {.reader = reader};
    struct http_parse parse;
    http_parse_init(&parse, take_bytes, &stream);
    int length =
        snprintf(request, sizeof request, "GET /live?every_ms=%d HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n",
                 READER_EVERY_MS, (unsigned)reader->port);
    ssize_t got = send(fd, request, (size_t)length, MSG_NOSIGNAL);
    while (got > 0 && parse.state != HTTP_PARSE_DONE && parse.state != HTTP_PARSE_BAD &&
           wait_readable(fd, reader->ticker.end_fd)) {
        got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got > 0)
            http_parse_feed(&parse, bytes, (size_t)got);
        else if (got < 0 && errno == EAGAIN)
            got = 1;
    }
    http_parse_clear(&parse);
    text_clear(&stream.line);
}

static void tick(void *context, bool is_last)
{
    struct reader *reader = context;
    int fd = is_last ? -1 : connect_to(reader->port);
    if (fd == -1)
        return;
    follow(reader, fd);
    close(fd);
}

bool reader_open(struct reader *reader, uint16_t port)
{
    memset(reader, 0, sizeof *reader);
    reader->port = port;
    pthread_mutex_init(&reader->lock, NULL);
    return ticker_start(&reader->ticker, AGAIN_MS, tick, reader);
}

void reader_close(struct reader *reader)
{
    ticker_join(&reader->ticker);
    json_decref(reader->about);
    json_decref(reader->sample);
    reader->about = reader->sample = NULL;
}

void reader_take(struct reader *reader, json_t **about, json_t **sample, uint64_t *age_ms)
{
    pthread_mutex_lock(&reader->lock);
    *about = json_deep_copy(reader->about); /* jansson's counts are for one thread at a time */
    *sample = json_deep_copy(reader->sample);
    *age_ms = reader->sample != NULL ? (clock_us() - reader->sample_us) / 1000 : 0;
    pthread_mutex_unlock(&reader->lock);
}
