/* SPDX-License-Identifier: MIT */
/* probe.c - see probe.h. */
#include "load/base/probe.h"

#include "load/base/http_parse.h"
#include "load/base/net.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CONNECT_LIMIT_MS = 5000, SILENCE_LIMIT_MS = 10000, READ_BYTES = 65536, REQUEST_BYTES = 640 };

struct line {
    int fd; /* owned */
    bool is_busy;
    uint32_t request; /* while busy: whose answer is awaited */
    struct http_parse parse;
};

struct probe {
    struct probe_options options;
    pthread_t thread;
    struct line lines[PROBE_CONNECTIONS_MAX];
    struct pollfd polled[PROBE_CONNECTIONS_MAX]; /* of the lines, in their order */
    struct probe_answer *answers;                /* owned, request_count */
    uint64_t start_us;
    uint32_t asked_count, answered_count, busy_count;
    bool failed;
    char read_buffer[READ_BYTES];
};

static void fail(struct probe *probe, const char *why)
{
    if (!probe->failed)
        fprintf(stderr, "probe: %s\n", why);
    probe->failed = true;
}

static uint64_t due_us(const struct probe *probe, uint32_t request)
{
    return probe->start_us + (uint64_t)request * 1000000 / probe->options.per_second;
}

static struct line *free_line(struct probe *probe)
{
    for (uint32_t i = 0; i < probe->options.connection_count; i++) {
        if (!probe->lines[i].is_busy)
            return &probe->lines[i];
    }
    return NULL;
}

static void ask(struct probe *probe, struct line *line)
{
    char request[REQUEST_BYTES];
    const char *path = probe->options.paths[probe->asked_count % probe->options.path_count];
    int count = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: probe\r\n\r\n", path);
    line->is_busy = true;
    line->request = probe->asked_count++;
    probe->busy_count++;
    http_parse_next(&line->parse, false);
    if (send(line->fd, request, (size_t)count, MSG_NOSIGNAL | MSG_DONTWAIT) != count)
        fail(probe, "a request could not be written");
}

static void ask_what_is_due(struct probe *probe)
{
    struct line *line;
    while (probe->asked_count < probe->options.request_count &&
           due_us(probe, probe->asked_count) <= net_now_us() && (line = free_line(probe)) != NULL)
        ask(probe, line);
}

static void finish(struct probe *probe, struct line *line)
{
    probe->answers[line->request] =
        (struct probe_answer){.due_us = due_us(probe, line->request), .end_us = net_now_us()};
    line->is_busy = false;
    probe->busy_count--;
    probe->answered_count++;
    if (line->parse.status != 200 || !line->parse.keeps_alive)
        fail(probe, "an answer is not a 200 over a connection that stays open");
}

static void read_line(struct probe *probe, struct line *line)
{
    ssize_t count = recv(line->fd, probe->read_buffer, sizeof probe->read_buffer, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0 || !line->is_busy) {
        fail(probe, "the server hung up or spoke unasked");
        return;
    }
    http_parse_feed(&line->parse, probe->read_buffer, (size_t)count);
    if (line->parse.state == HTTP_PARSE_DONE)
        finish(probe, line);
    else if (line->parse.state == HTTP_PARSE_BAD)
        fail(probe, "an answer is not HTTP");
}

/* Until something can be read or the next request is due and can be sent. */
static void wait_turn(struct probe *probe)
{
    uint64_t now_us = net_now_us(), until_us = now_us + (uint64_t)SILENCE_LIMIT_MS * 1000;
    bool awaits_due = probe->asked_count < probe->options.request_count &&
                      probe->busy_count < probe->options.connection_count;
    if (awaits_due)
        until_us = due_us(probe, probe->asked_count);
    uint64_t left_us = until_us > now_us ? until_us - now_us : 0;
    struct timespec left = {.tv_sec = (time_t)(left_us / 1000000),
                            .tv_nsec = (long)(left_us % 1000000) * 1000};
    int ready = ppoll(probe->polled, probe->options.connection_count, &left, NULL);
    if (ready == 0 && !awaits_due)
        fail(probe, "no answer for ten seconds");
    for (uint32_t i = 0; ready > 0 && i < probe->options.connection_count; i++) {
        if (probe->polled[i].revents != 0)
            read_line(probe, &probe->lines[i]);
    }
}

static void *run(void *context)
{
    struct probe *probe = context;
    probe->start_us = net_now_us();
    while (!probe->failed && probe->answered_count < probe->options.request_count) {
        ask_what_is_due(probe);
        wait_turn(probe);
    }
    return NULL;
}

static bool connect_line(struct probe *probe, uint32_t index)
{
    struct net_address address;
    struct line *line = &probe->lines[index];
    http_parse_init(&line->parse, NULL, NULL);
    net_address_init(&address, "127.0.0.1", probe->options.port);
    line->fd = net_connect_start(&address);
    probe->polled[index] = (struct pollfd){.fd = line->fd, .events = POLLIN};
    return line->fd != -1 && net_wait(line->fd, POLLOUT, net_now_us() + (uint64_t)CONNECT_LIMIT_MS * 1000) &&
           net_connect_error(line->fd) == 0;
}

static void probe_free(struct probe *probe)
{
    for (uint32_t i = 0; i < probe->options.connection_count; i++) {
        if (probe->lines[i].fd != -1)
            close(probe->lines[i].fd);
        http_parse_clear(&probe->lines[i].parse);
    }
    free(probe->answers);
    free(probe);
}

bool probe_start(const struct probe_options *options, struct probe **out)
{
    struct probe *probe = calloc(1, sizeof *probe);
    if (probe == NULL)
        return false;
    probe->options = *options;
    probe->answers = calloc(options->request_count, sizeof *probe->answers);
    for (uint32_t i = 0; i < options->connection_count; i++)
        probe->lines[i].fd = -1;
    for (uint32_t i = 0; i < options->connection_count && !probe->failed; i++) {
        if (!connect_line(probe, i))
            fail(probe, "cannot connect");
    }
    if (probe->failed || probe->answers == NULL || pthread_create(&probe->thread, NULL, run, probe) != 0) {
        probe_free(probe);
        return false;
    }
    *out = probe;
    return true;
}

bool probe_finish(struct probe **probe, struct probe_answer *answers)
{
    pthread_join((*probe)->thread, NULL);
    memcpy(answers, (*probe)->answers, (*probe)->options.request_count * sizeof *answers);
    bool good = !(*probe)->failed;
    probe_free(*probe);
    *probe = NULL;
    return good;
}
