/* SPDX-License-Identifier: MIT */
/*
 * burst.c - see burst.h.
 *
 * A connection in a round:
 *
 *     IDLE --written--> WAITING --first byte--> WAITING --last byte--> IDLE, or NONE if it does not stay open
 *                          +-- end of file, reset, time, leave ------> NONE
 *
 * All requests of a round are written in one pass before the first answer is read, in the order of the
 * connections; so their limits run out in that order, too, and one index follows the oldest waiting one.
 */
#include "load/base/burst.h"

#include "load/base/http_parse.h"
#include "load/base/net.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    BATCH_EVENTS = 512,
    CONNECTING_MAX = 256,    /* at a time: below any listener's backlog */
    CONNECT_TRIES = 3,       /* a full backlog refuses now and then */
    PER_SOURCE_COUNT = 8000, /* connections from one address: well below the number of ephemeral ports */
    READ_BYTES = 65536,
    SPARE_FILES = 64, /* descriptors the rest of the program may need */
};

enum link_state {
    LINK_NONE = 0,   /* no connection */
    LINK_CONNECTING, /* waiting for the connection */
    LINK_IDLE,       /* connected, nothing asked */
    LINK_WAITING,    /* asked, answer not complete */
};

struct link {
    enum link_state state;
    int fd; /* owned; -1 in LINK_NONE */
    uint8_t tries;
    struct http_parse parse;
    struct burst_answer *answer; /* its own element of burst->answers */
};

struct burst {
    struct burst_options options;
    struct net_address *addresses; /* owned, one per target */
    struct link *links;            /* owned, connection_count */
    struct burst_answer *answers;  /* owned, connection_count */
    int epoll;                     /* owned */
    uint32_t waiting_count;        /* links in LINK_WAITING */
    uint32_t oldest_limit;         /* all links before it are past their limit or done */
    uint32_t oldest_leave;         /* likewise for the ones that hang up */
    uint64_t written_us;           /* when the last request was written */
    size_t event_next;             /* events are taken in the order given */
    char *read_buffer;             /* owned, READ_BYTES */
};

static uint64_t fnv1a(uint64_t hash, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3U;
    return hash;
}

/* Appends to the kept body; grows by doubling. */
static void keep_body(struct burst_answer *answer, const char *bytes, size_t count)
{
    size_t have = (size_t)answer->body_bytes, needed = have + count + 1;
    size_t capacity = 256, old_capacity = answer->body != NULL ? 256 : 0;
    while (old_capacity != 0 && old_capacity < have + 1)
        old_capacity *= 2;
    while (capacity < needed)
        capacity *= 2;
    if (capacity > old_capacity) {
        char *body = realloc(answer->body, capacity);
        if (body == NULL)
            abort();
        answer->body = body;
    }
    memcpy(answer->body + have, bytes, count);
    answer->body[have + count] = '\0';
}

struct body_sink {
    struct burst_answer *answer;
    bool keeps;
};

static void on_body(void *context, const char *bytes, size_t count)
{
    struct body_sink *sink = context;
    if (sink->keeps)
        keep_body(sink->answer, bytes, count);
    sink->answer->body_hash = fnv1a(sink->answer->body_hash, bytes, count);
    sink->answer->body_bytes += count;
}

static void answer_clear(struct burst_answer *answer)
{
    free(answer->head);
    free(answer->body);
    *answer = (struct burst_answer){.outcome = BURST_UNCONNECTED, .body_hash = 0xcbf29ce484222325U};
}

/* ---- connecting ---- */

static void link_drop(struct link *link)
{
    if (link->fd != -1)
        close(link->fd); /* also leaves the epoll set */
    link->fd = -1;
    link->state = LINK_NONE;
}

/*
 * Every PER_SOURCE_COUNT connections come from another address of 127.0.0.0/8, for one address has fewer
 * ports than a large burst needs.
 */
static int connect_from(const struct net_address *to, uint32_t index)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&to->storage;
    bool is_loopback = to->storage.ss_family == AF_INET && (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
    if (!is_loopback || index < PER_SOURCE_COUNT)
        return net_connect_start(to);
    return net_connect_start_from(to, htonl(INADDR_LOOPBACK + index / PER_SOURCE_COUNT));
}

static void link_connect(struct burst *burst, uint32_t index)
{
    struct link *link = &burst->links[index];
    const struct net_address *to = &burst->addresses[index % burst->options.target_count];
    struct epoll_event event = {.events = EPOLLOUT, .data.u32 = index};
    link->tries++;
    link->fd = connect_from(to, index);
    if (link->fd == -1)
        return;
    link->state = LINK_CONNECTING;
    if (epoll_ctl(burst->epoll, EPOLL_CTL_ADD, link->fd, &event) == -1)
        link_drop(link);
}

/* The socket became writable: connected, or refused and then tried again. */
static void link_connected(struct burst *burst, uint32_t index)
{
    struct link *link = &burst->links[index];
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u32 = index};
    int error = net_connect_error(link->fd);
    if (error == 0) {
        link->state = LINK_IDLE;
        epoll_ctl(burst->epoll, EPOLL_CTL_MOD, link->fd, &event);
        return;
    }
    link_drop(link);
    errno = error;
    if (link->tries < CONNECT_TRIES)
        link_connect(burst, index);
}

struct connecting {
    uint32_t next, under_way, open_count, failed_count;
    int error; /* of the last one that failed */
};

static void connecting_judge(struct connecting *now, const struct link *link)
{
    if (link->state == LINK_CONNECTING)
        return;
    now->under_way--;
    if (link->state == LINK_IDLE) {
        now->open_count++;
    } else {
        now->failed_count++;
        now->error = errno;
    }
}

static void connecting_fill(struct burst *burst, struct connecting *now)
{
    for (; now->next < burst->options.connection_count && now->under_way < CONNECTING_MAX; now->next++) {
        struct link *link = &burst->links[now->next];
        now->under_way++;
        link->tries = 0;
        if (link->state == LINK_NONE)
            link_connect(burst, now->next);
        connecting_judge(now, link);
    }
}

static void connecting_turn(struct burst *burst, struct connecting *now, uint64_t end_us)
{
    struct epoll_event events[BATCH_EVENTS];
    uint64_t now_us = net_now_us();
    int limit_ms = now_us < end_us ? (int)((end_us - now_us) / 1000) + 1 : 0;
    int count = epoll_wait(burst->epoll, events, BATCH_EVENTS, limit_ms);
    for (int i = 0; i < count; i++) {
        uint32_t index = events[i].data.u32;
        if (burst->links[index].state != LINK_CONNECTING)
            continue; /* closed by the server already; asking it will tell */
        link_connected(burst, index);
        connecting_judge(now, &burst->links[index]);
    }
}

static void connecting_give_up(struct burst *burst)
{
    for (uint32_t i = 0; i < burst->options.connection_count; i++) {
        if (burst->links[i].state == LINK_CONNECTING)
            link_drop(&burst->links[i]);
    }
}

/* True: everybody has a connection. The others are left in LINK_NONE. */
static bool connect_all(struct burst *burst)
{
    struct connecting now = {.error = ETIMEDOUT};
    uint32_t wanted = burst->options.connection_count;
    uint64_t end_us = net_now_us() + (uint64_t)burst->options.connect_limit_ms * 1000;
    connecting_fill(burst, &now);
    while (now.open_count + now.failed_count < wanted && net_now_us() < end_us) {
        connecting_turn(burst, &now, end_us);
        connecting_fill(burst, &now);
    }
    if (now.open_count == wanted)
        return true;
    connecting_give_up(burst);
    fprintf(stderr, "burst: %" PRIu32 " of %" PRIu32 " connected; the others: %s\n", now.open_count, wanted,
            strerror(now.error));
    return false;
}

/* A server may have closed a kept connection: read() tells without waiting. */
static void drop_closed(struct burst *burst)
{
    char byte;
    for (uint32_t i = 0; i < burst->options.connection_count; i++) {
        struct link *link = &burst->links[i];
        if (link->fd == -1)
            continue;
        ssize_t count = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (link->state != LINK_IDLE || count >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
            link_drop(link);
    }
}

/* ---- asking ---- */

static size_t write_request(const struct burst *burst, uint32_t index, char *text, size_t text_bytes)
{
    const struct burst_options *options = &burst->options;
    const struct burst_target *target = &options->targets[index % options->target_count];
    char path[BURST_PATH_BYTES];
    if (options->path_of != NULL)
        options->path_of(options->path_context, index, path);
    int count = snprintf(text, text_bytes, "%s %s HTTP/1.1\r\nHost: %s:%u\r\n%s\r\n",
                         options->method != NULL ? options->method : "GET",
                         options->path_of != NULL ? path : options->path, target->host,
                         (unsigned)target->port, options->headers != NULL ? options->headers : "");
    return count > 0 && (size_t)count < text_bytes ? (size_t)count : 0;
}

static void link_end(struct burst *burst, struct link *link, enum burst_outcome outcome)
{
    link->answer->outcome = outcome;
    link->answer->end_us = net_now_us();
    burst->waiting_count--;
    link_drop(link);
}

static void link_ask(struct burst *burst, uint32_t index, const char *text, size_t text_bytes)
{
    struct link *link = &burst->links[index];
    bool answers_head = burst->options.method != NULL && strcmp(burst->options.method, "HEAD") == 0;
    http_parse_next(&link->parse, answers_head);
    link->answer->sent_us = net_now_us();
    link->answer->outcome = BURST_TIMEOUT;
    link->state = LINK_WAITING;
    burst->waiting_count++;
    /* A request is far smaller than a socket's buffer, so it goes out whole or the connection is gone. */
    if (send(link->fd, text, text_bytes, MSG_NOSIGNAL) != (ssize_t)text_bytes)
        link_end(burst, link, BURST_RESET);
}

static bool ask_all(struct burst *burst)
{
    char text[8192];
    for (uint32_t i = 0; i < burst->options.connection_count; i++) {
        size_t count = write_request(burst, i, text, sizeof text);
        if (count == 0) {
            fprintf(stderr, "burst: a request longer than %zu bytes\n", sizeof text);
            return false;
        }
        if (burst->links[i].state == LINK_IDLE)
            link_ask(burst, i, text, count);
    }
    burst->written_us = net_now_us();
    return true;
}

/* ---- reading ---- */

static void link_finish(struct burst *burst, struct link *link)
{
    link->answer->outcome = BURST_ANSWERED;
    link->answer->status = link->parse.status;
    link->answer->head = strdup(link->parse.head);
    if (burst->options.keeps_bodies && link->answer->body == NULL)
        link->answer->body = strdup("");
    link->answer->end_us = net_now_us();
    burst->waiting_count--;
    link->state = LINK_IDLE;
    if (!link->parse.keeps_alive)
        link_drop(link);
}

/* After each piece: complete, broken, or more to come. */
static void link_judge(struct burst *burst, struct link *link)
{
    if (link->parse.state == HTTP_PARSE_DONE)
        link_finish(burst, link);
    else if (link->parse.state == HTTP_PARSE_BAD)
        link_end(burst, link, BURST_BAD);
}

static void link_closed(struct burst *burst, struct link *link)
{
    http_parse_end(&link->parse);
    if (link->parse.state == HTTP_PARSE_DONE)
        link_finish(burst, link);
    else
        link_end(burst, link, BURST_RESET);
}

static void link_read(struct burst *burst, struct link *link)
{
    struct body_sink sink = {.answer = link->answer, .keeps = burst->options.keeps_bodies};
    link->parse.context = &sink;
    link->parse.body = on_body;
    while (link->state == LINK_WAITING) {
        ssize_t count = recv(link->fd, burst->read_buffer, READ_BYTES, MSG_DONTWAIT);
        if (count > 0) {
            if (link->answer->first_us == 0)
                link->answer->first_us = net_now_us();
            http_parse_feed(&link->parse, burst->read_buffer, (size_t)count);
            link_judge(burst, link);
        } else if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
            link_closed(burst, link);
        } else if (errno != EINTR) {
            return;
        }
    }
}

/* Ends the waiting ones among the first `count` links whose span since their request has passed. */
static uint64_t expire(struct burst *burst, uint32_t *oldest, uint32_t count, uint64_t span_us,
                       enum burst_outcome outcome)
{
    uint64_t now_us = net_now_us();
    for (; *oldest < count; ++*oldest) {
        struct link *link = &burst->links[*oldest];
        if (link->state != LINK_WAITING)
            continue;
        if (link->answer->sent_us + span_us > now_us)
            return link->answer->sent_us + span_us;
        link_end(burst, link, outcome);
    }
    return UINT64_MAX;
}

static uint64_t run_events(struct burst *burst)
{
    for (; burst->event_next < burst->options.event_count; burst->event_next++) {
        const struct burst_event *event = &burst->options.events[burst->event_next];
        uint64_t at_us = burst->written_us + (uint64_t)event->after_ms * 1000;
        if (at_us > net_now_us())
            return at_us;
        event->run(event->context);
    }
    return UINT64_MAX;
}

/* Does what is due and returns when the next thing will be. */
static uint64_t run_clock(struct burst *burst)
{
    const struct burst_options *options = &burst->options;
    uint64_t event_us = run_events(burst);
    uint64_t leave_us = expire(burst, &burst->oldest_leave, options->leave_count,
                               (uint64_t)options->leave_ms * 1000, BURST_LEFT);
    uint64_t limit_us = expire(burst, &burst->oldest_limit, options->connection_count,
                               (uint64_t)options->request_limit_ms * 1000, BURST_TIMEOUT);
    uint64_t next_us = leave_us < limit_us ? leave_us : limit_us;
    return event_us < next_us ? event_us : next_us;
}

static int turn_timeout_ms(uint64_t next_us)
{
    uint64_t now_us = net_now_us();
    if (next_us <= now_us)
        return 0;
    uint64_t left_ms = (next_us - now_us + 999) / 1000;
    return left_ms < 1000 ? (int)left_ms : 1000;
}

static void read_turn(struct burst *burst, uint64_t next_us)
{
    struct epoll_event events[BATCH_EVENTS];
    int count = epoll_wait(burst->epoll, events, BATCH_EVENTS, turn_timeout_ms(next_us));
    for (int i = 0; i < count; i++) {
        struct link *link = &burst->links[events[i].data.u32];
        if (link->state == LINK_WAITING)
            link_read(burst, link);
        else
            link_drop(link); /* closed by the server after its answer */
    }
}

/* The events still to come are run, too: who orders a server stopped and continued gets both. */
static void read_all(struct burst *burst)
{
    for (;;) {
        uint64_t next_us = run_clock(burst);
        if (burst->waiting_count == 0 && burst->event_next == burst->options.event_count)
            return;
        read_turn(burst, next_us);
    }
}

bool burst_run(struct burst *burst)
{
    for (uint32_t i = 0; i < burst->options.connection_count; i++)
        answer_clear(&burst->answers[i]);
    burst->waiting_count = 0;
    burst->oldest_limit = 0;
    burst->oldest_leave = 0;
    burst->event_next = 0;
    drop_closed(burst);
    connect_all(burst);
    if (!ask_all(burst))
        return false;
    read_all(burst);
    return true;
}

/* ---- opening and closing ---- */

static bool options_are_right(const struct burst_options *options)
{
    const char *wrong = NULL;
    if (options->connection_count == 0 || options->connection_count > BURST_MAX_CONNECTIONS)
        wrong = "connection_count is not within 1..20000";
    else if (options->target_count == 0)
        wrong = "no targets";
    else if (options->path == NULL && options->path_of == NULL)
        wrong = "neither path nor path_of";
    else if (options->connect_limit_ms == 0 || options->request_limit_ms == 0)
        wrong = "a limit of 0 ms";
    else if (options->leave_count > options->connection_count)
        wrong = "leave_count is more than connection_count";
    else if (!net_raise_file_limit(options->connection_count + SPARE_FILES))
        wrong = "the limit of open files (ulimit -n) is too low for so many connections";
    if (wrong != NULL)
        fprintf(stderr, "burst: %s\n", wrong);
    return wrong == NULL;
}

static bool burst_init(struct burst *burst, const struct burst_options *options)
{
    burst->options = *options;
    burst->epoll = epoll_create1(EPOLL_CLOEXEC);
    burst->addresses = calloc(options->target_count, sizeof *burst->addresses);
    burst->links = calloc(options->connection_count, sizeof *burst->links);
    burst->answers = calloc(options->connection_count, sizeof *burst->answers);
    burst->read_buffer = malloc(READ_BYTES);
    if (burst->epoll == -1 || burst->addresses == NULL || burst->links == NULL || burst->answers == NULL ||
        burst->read_buffer == NULL)
        return false;
    for (uint32_t i = 0; i < options->connection_count; i++) {
        burst->links[i].fd = -1;
        burst->links[i].answer = &burst->answers[i];
        http_parse_init(&burst->links[i].parse, NULL, NULL);
        answer_clear(&burst->answers[i]);
    }
    for (size_t i = 0; i < options->target_count; i++) {
        if (!net_address_init(&burst->addresses[i], options->targets[i].host, options->targets[i].port)) {
            fprintf(stderr, "burst: not a numeric address: %s\n", options->targets[i].host);
            return false;
        }
    }
    return true;
}

bool burst_open(const struct burst_options *options, struct burst **out)
{
    if (!options_are_right(options))
        return false;
    struct burst *burst = calloc(1, sizeof *burst);
    if (burst == NULL)
        return false;
    if (!burst_init(burst, options) || !connect_all(burst)) {
        burst_close(&burst);
        return false;
    }
    *out = burst;
    return true;
}

void burst_close(struct burst **burst)
{
    struct burst *closing = *burst;
    *burst = NULL;
    if (closing == NULL)
        return;
    for (uint32_t i = 0;
         closing->links != NULL && closing->answers != NULL && i < closing->options.connection_count; i++) {
        link_drop(&closing->links[i]);
        http_parse_clear(&closing->links[i].parse);
        answer_clear(&closing->answers[i]);
    }
    if (closing->epoll != -1)
        close(closing->epoll);
    free(closing->addresses);
    free(closing->links);
    free(closing->answers);
    free(closing->read_buffer);
    free(closing);
}

/* ---- results ---- */

const struct burst_answer *burst_answers(const struct burst *burst)
{
    return burst->answers;
}

const char *burst_header(const struct burst_answer *answer, const char *name, char *value, size_t value_bytes)
{
    size_t count;
    const char *found = answer->head != NULL ? http_parse_header(answer->head, name, &count) : NULL;
    if (found == NULL)
        count = 0;
    snprintf(value, value_bytes, "%.*s", (int)count, found != NULL ? found : "");
    return value;
}

/* 99.9 % of 1 000 is 999, not 999.0000001; and what is below 100 % does not become it. */
static uint64_t millionths_of(double percent)
{
    uint64_t millionths = (uint64_t)(percent * 1e4 + 0.5);
    return percent < 100 && millionths == 1000000 ? 999999 : millionths;
}

uint64_t burst_percentile_least(double percent)
{
    uint64_t above = 1000000 - millionths_of(percent);
    return above > 0 ? (1000000 + above - 1) / above : 1;
}

uint64_t burst_percentile(const uint64_t *sorted, size_t count, double percent)
{
    if (count == 0)
        return 0;
    uint64_t millionths = millionths_of(percent);
    uint64_t rank = ((uint64_t)count * millionths + 999999) / 1000000;
    if (rank == 0)
        rank = 1;
    return sorted[rank <= count ? rank - 1 : count - 1];
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static uint32_t count_different(uint64_t *values, size_t count)
{
    uint32_t different = 0;
    qsort(values, count, sizeof *values, by_value);
    for (size_t i = 0; i < count; i++)
        different += i == 0 || values[i] != values[i - 1];
    return different;
}

static void summarise_times(const struct burst *burst, uint64_t *values, struct burst_summary *out)
{
    size_t count = 0;
    uint64_t first_us = UINT64_MAX, last_us = 0;
    for (uint32_t i = 0; i < out->requests; i++) {
        const struct burst_answer *answer = &burst->answers[i];
        if (answer->outcome != BURST_ANSWERED)
            continue;
        values[count++] = answer->end_us - answer->sent_us;
        first_us = answer->sent_us < first_us ? answer->sent_us : first_us;
        last_us = answer->end_us > last_us ? answer->end_us : last_us;
    }
    qsort(values, count, sizeof *values, by_value);
    out->p50_us = burst_percentile(values, count, 50);
    out->p99_us = burst_percentile(values, count, 99);
    out->max_us = burst_percentile(values, count, 100);
    out->span_us = count > 0 ? last_us - first_us : 0;
}

void burst_summarise(const struct burst *burst, struct burst_summary *out)
{
    size_t ok_count = 0;
    *out = (struct burst_summary){.requests = burst->options.connection_count};
    uint64_t *values = calloc(out->requests, sizeof *values);
    if (values == NULL)
        abort();
    for (uint32_t i = 0; i < out->requests; i++) {
        const struct burst_answer *answer = &burst->answers[i];
        out->outcomes[answer->outcome]++;
        out->statuses[answer->status < 600 ? answer->status : 0]++;
        if (answer->status == 200)
            values[ok_count++] = answer->body_hash;
    }
    out->bodies = count_different(values, ok_count);
    summarise_times(burst, values, out);
    free(values);
}
