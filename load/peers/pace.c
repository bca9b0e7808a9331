/* SPDX-License-Identifier: MIT */
/*
 * pace.c - see pace.h.
 *
 * Each instance is a lane with its own share of the requests and of the connections, so that one that is slow
 * does not hold up the other. A connection:
 *
 *     CLOSED --> CONNECTING --> IDLE <--> BUSY
 *        ^_________|______________|_________|      refused, ended, out of time; opened again at the next tick
 */
#include "load/peers/pace.h"

#include "load/http_parse.h"
#include "load/net.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { LANES_MAX = 4, LINES_MAX = 1024, BATCH_EVENTS = 256, READ_BYTES = 65536, REQUEST_BYTES = 640 };
enum { TICK_US = 10000, TIMER = LINES_MAX, CONNECT_LIMIT_MS = 5000 };

enum line_state { LINE_CLOSED = 0, LINE_CONNECTING, LINE_IDLE, LINE_BUSY };

struct line {
    enum line_state state;
    int fd; /* owned; -1 when closed */
    size_t lane;
    uint32_t request; /* BUSY: whose answer is awaited */
    struct http_parse parse;
};

struct lane {
    struct net_address address;
    char text[REQUEST_BYTES]; /* the request */
    size_t text_bytes;
    uint32_t next;            /* the next of its requests; every lane_count-th is */
    uint32_t idle[LINES_MAX]; /* the one that is idle for longest first, so that all are used */
    size_t idle_count;
};

struct pace {
    const struct pace_options *options;
    struct pace_answer *answers; /* the caller's */
    struct lane lanes[LANES_MAX];
    struct line lines[LINES_MAX];
    int epoll, timer; /* owned */
    uint64_t start_us, tick_us;
    uint32_t done_count;
    char read_buffer[READ_BYTES];
};

static uint64_t due_us(const struct pace *pace, uint32_t request)
{
    return pace->start_us + (uint64_t)request * 1000000 / pace->options->per_second;
}

static void settle(struct pace *pace, uint32_t request, enum burst_outcome outcome,
                   const struct http_parse *parse)
{
    struct pace_answer *answer = &pace->answers[request];
    *answer =
        (struct pace_answer){.due_us = due_us(pace, request), .end_us = net_now_us(), .outcome = outcome};
    if (outcome == BURST_ANSWERED) {
        answer->status = parse->status;
        answer->body_bytes = parse->body_bytes;
    }
    pace->done_count++;
}

/* ---- connections ---- */

static void line_idle(struct pace *pace, uint32_t index)
{
    struct line *line = &pace->lines[index];
    struct lane *lane = &pace->lanes[line->lane];
    line->state = LINE_IDLE;
    lane->idle[lane->idle_count++] = index;
}

static void idle_remove(struct lane *lane, size_t at)
{
    lane->idle_count--;
    memmove(&lane->idle[at], &lane->idle[at + 1], (lane->idle_count - at) * sizeof *lane->idle);
}

static void line_close(struct pace *pace, uint32_t index)
{
    struct line *line = &pace->lines[index];
    struct lane *lane = &pace->lanes[line->lane];
    size_t at = 0;
    while (at < lane->idle_count && lane->idle[at] != index)
        at++;
    if (at < lane->idle_count)
        idle_remove(lane, at);
    if (line->fd != -1)
        close(line->fd); /* also leaves the epoll set */
    line->fd = -1;
    line->state = LINE_CLOSED;
}

static void line_open(struct pace *pace, uint32_t index)
{
    struct line *line = &pace->lines[index];
    struct epoll_event event = {.events = EPOLLOUT, .data.u32 = index};
    line->fd = net_connect_start(&pace->lanes[line->lane].address);
    line->state = LINE_CONNECTING;
    if (line->fd == -1 || epoll_ctl(pace->epoll, EPOLL_CTL_ADD, line->fd, &event) == -1)
        line_close(pace, index);
}

static void line_connected(struct pace *pace, uint32_t index)
{
    struct line *line = &pace->lines[index];
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};
    if (net_connect_error(line->fd) != 0 || epoll_ctl(pace->epoll, EPOLL_CTL_MOD, line->fd, &event) == -1)
        line_close(pace, index);
    else
        line_idle(pace, index);
}

static void line_fail(struct pace *pace, uint32_t index, enum burst_outcome outcome)
{
    struct line *line = &pace->lines[index];
    if (line->state == LINE_BUSY)
        settle(pace, line->request, outcome, &line->parse);
    line_close(pace, index);
}

/* ---- asking and reading ---- */

/* Over the connection that has been idle for longest. */
static void ask(struct pace *pace, uint32_t index, uint32_t request)
{
    struct line *line = &pace->lines[index];
    struct lane *lane = &pace->lanes[line->lane];
    idle_remove(lane, 0);
    line->state = LINE_BUSY;
    line->request = request;
    http_parse_next(&line->parse, false);
    if (send(line->fd, lane->text, lane->text_bytes, MSG_NOSIGNAL | MSG_DONTWAIT) !=
        (ssize_t)lane->text_bytes)
        line_fail(pace, index, BURST_RESET);
}

/* What is due leaves over a free connection, or is given up when it has waited too long for one. */
static void ask_what_is_due(struct pace *pace, struct lane *lane, uint64_t now_us)
{
    const struct pace_options *options = pace->options;
    uint64_t limit_us = (uint64_t)options->request_limit_ms * 1000;
    while (lane->next < options->request_count && due_us(pace, lane->next) <= now_us) {
        if (due_us(pace, lane->next) + limit_us <= now_us)
            settle(pace, lane->next, BURST_TIMEOUT, NULL);
        else if (lane->idle_count > 0)
            ask(pace, lane->idle[0], lane->next);
        else
            return;
        lane->next += (uint32_t)options->port_count;
    }
}

static void line_read(struct pace *pace, uint32_t index)
{
    struct line *line = &pace->lines[index];
    ssize_t count = recv(line->fd, pace->read_buffer, sizeof pace->read_buffer, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0 || line->state != LINE_BUSY) {
        line_fail(pace, index, BURST_RESET);
        return;
    }
    http_parse_feed(&line->parse, pace->read_buffer, (size_t)count);
    if (line->parse.state == HTTP_PARSE_BAD) {
        line_fail(pace, index, BURST_BAD);
    } else if (line->parse.state == HTTP_PARSE_DONE) {
        settle(pace, line->request, BURST_ANSWERED, &line->parse);
        line_idle(pace, index);
        if (!line->parse.keeps_alive)
            line_close(pace, index);
    }
}

/* ---- time ---- */

/* Every TICK_US: ends what is out of time and opens what was closed. */
static void tick(struct pace *pace, uint64_t now_us)
{
    uint64_t limit_us = (uint64_t)pace->options->request_limit_ms * 1000;
    if (now_us < pace->tick_us)
        return;
    pace->tick_us = now_us + TICK_US;
    for (uint32_t i = 0; i < pace->options->connection_count; i++) {
        struct line *line = &pace->lines[i];
        if (line->state == LINE_BUSY && due_us(pace, line->request) + limit_us <= now_us)
            line_fail(pace, i, BURST_TIMEOUT);
        if (line->state == LINE_CLOSED)
            line_open(pace, i);
    }
}

/* When the next request is due that can leave; the next tick at the latest. */
static uint64_t next_us(const struct pace *pace)
{
    uint64_t next = pace->tick_us;
    for (size_t i = 0; i < pace->options->port_count; i++) {
        const struct lane *lane = &pace->lanes[i];
        if (lane->idle_count > 0 && lane->next < pace->options->request_count &&
            due_us(pace, lane->next) < next)
            next = due_us(pace, lane->next);
    }
    return next;
}

static void wait_turn(struct pace *pace)
{
    struct epoll_event events[BATCH_EVENTS];
    uint64_t until_us = next_us(pace), expirations;
    const struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(until_us / 1000000), .tv_nsec = (long)(until_us % 1000000) * 1000}};
    timerfd_settime(pace->timer, TFD_TIMER_ABSTIME, &when, NULL);
    int count = epoll_wait(pace->epoll, events, BATCH_EVENTS, TICK_US / 1000);
    for (int i = 0; i < count; i++) {
        uint32_t index = events[i].data.u32;
        if (index == TIMER) {
            if (read(pace->timer, &expirations, sizeof expirations) < 0)
                continue; /* set anew meanwhile */
        } else if (pace->lines[index].state == LINE_CONNECTING) {
            line_connected(pace, index);
        } else if (pace->lines[index].state != LINE_CLOSED) {
            line_read(pace, index);
        }
    }
}

/* Each pass of it is bounded: what is not answered is out of time sooner or later. */
static void run(struct pace *pace)
{
    while (pace->done_count < pace->options->request_count) {
        uint64_t now_us = net_now_us();
        tick(pace, now_us);
        for (size_t i = 0; i < pace->options->port_count; i++)
            ask_what_is_due(pace, &pace->lanes[i], now_us);
        wait_turn(pace);
    }
}

/* ---- opening and closing ---- */

static bool lanes_init(struct pace *pace)
{
    const struct pace_options *options = pace->options;
    for (size_t i = 0; i < options->port_count; i++) {
        struct lane *lane = &pace->lanes[i];
        int bytes = snprintf(lane->text, sizeof lane->text, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n",
                             options->path, (unsigned)options->ports[i]);
        if (bytes < 0 || (size_t)bytes >= sizeof lane->text ||
            !net_address_init(&lane->address, "127.0.0.1", options->ports[i]))
            return false;
        lane->text_bytes = (size_t)bytes;
        lane->next = (uint32_t)i;
    }
    return true;
}

/* Everybody is connected before the first request is due. */
static bool connect_all(struct pace *pace)
{
    uint64_t end_us = net_now_us() + (uint64_t)CONNECT_LIMIT_MS * 1000;
    for (uint32_t i = 0; i < pace->options->connection_count; i++) {
        struct line *line = &pace->lines[i];
        line_open(pace, i);
        if (line->fd == -1 || !net_wait(line->fd, POLLOUT, end_us))
            return false;
        line_connected(pace, i);
        if (line->state != LINE_IDLE)
            return false;
    }
    return true;
}

static bool pace_init(struct pace *pace, const struct pace_options *options, struct pace_answer *answers)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = TIMER};
    pace->options = options;
    pace->answers = answers;
    for (uint32_t i = 0; i < LINES_MAX; i++) {
        pace->lines[i].fd = -1;
        pace->lines[i].lane = options->port_count > 0 ? i % options->port_count : 0;
        http_parse_init(&pace->lines[i].parse, NULL, NULL);
    }
    pace->epoll = epoll_create1(EPOLL_CLOEXEC);
    pace->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    return pace->epoll != -1 && pace->timer != -1 && options->port_count > 0 &&
           options->port_count <= LANES_MAX && options->connection_count <= LINES_MAX &&
           options->per_second > 0 && epoll_ctl(pace->epoll, EPOLL_CTL_ADD, pace->timer, &event) == 0 &&
           lanes_init(pace);
}

static void pace_clear(struct pace *pace)
{
    for (uint32_t i = 0; i < LINES_MAX; i++) {
        line_close(pace, i);
        http_parse_clear(&pace->lines[i].parse);
    }
    if (pace->epoll != -1)
        close(pace->epoll);
    if (pace->timer != -1)
        close(pace->timer);
}

bool pace_run(const struct pace_options *options, struct pace_answer *answers)
{
    struct pace *pace = calloc(1, sizeof *pace);
    if (pace == NULL)
        return false;
    bool good = pace_init(pace, options, answers) && connect_all(pace);
    if (good) {
        pace->start_us = net_now_us();
        run(pace);
    } else {
        fprintf(stderr, "pace: cannot connect, or options that make no sense\n");
    }
    pace_clear(pace);
    free(pace);
    return good;
}
