/* SPDX-License-Identifier: MIT */
/*
 * proxy_link.c - see proxy_link.h.
 *
 * What a way may do now is worked out anew each time from the route's fault, so a change of the fault is only:
 * carry all links of the route.
 *
 *     way:  read when empty --> due_us (now, or later) --> written, whole or a byte at a time --> empty
 *
 * While a way is not to be read, the kernel keeps what waits and the sender feels it, as with a real network;
 * LATE reads on, since a reset by the client would throw away what the kernel keeps.
 */
#include "load/stack/proxy_link.h"

#include "load/base/dice.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LINGER_MS = 500, /* a server has this long to run what came late */
    CUT_REPLIES = 6, /* a connection is cut in one of its next so many replies */
};

static enum proxy_fault fault_of(const struct proxy_link *link)
{
    return link->route->mark == NULL || link->is_marked ? link->route->fault : PROXY_NONE;
}

static void touch(struct proxy_link *link, enum proxy_fault fault)
{
    if ((link->touched & (1u << fault)) != 0)
        return;
    link->touched |= 1u << fault;
    atomic_fetch_add(&link->route->proxy->hits[fault], 1);
}

/* ---- sockets ---- */

/*
 * A child that was forked from us may have a copy of the descriptor for as long as it lives. Closing alone would
 * then neither take it out of the epoll set nor tell the other side anything.
 */
static void unwatch_and_close(const struct proxy *proxy, int *fd)
{
    if (*fd != -1) {
        epoll_ctl(proxy->epoll, EPOLL_CTL_DEL, *fd, NULL);
        shutdown(*fd, SHUT_RDWR);
    }
    net_shut(fd);
}

/* To connect it to nothing sends the reset at once. */
static void reset_and_close(const struct proxy *proxy, int *fd)
{
    const struct sockaddr nothing = {.sa_family = AF_UNSPEC};
    if (*fd != -1)
        (void)connect(*fd, &nothing, sizeof nothing);
    unwatch_and_close(proxy, fd);
}

static void watch(struct proxy *proxy, struct proxy_link *link, int fd, uint32_t *watches, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = link};
    if (fd == -1 || *watches == events)
        return;
    *watches = events;
    epoll_ctl(proxy->epoll, EPOLL_CTL_MOD, fd, &event);
}

bool proxy_watch(struct proxy *proxy, void *whose, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = whose};
    return epoll_ctl(proxy->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* ---- one way ---- */

static bool is_frozen(const struct proxy_link *link, const struct proxy_way *way)
{
    enum proxy_fault fault = fault_of(link);
    if (fault == PROXY_SILENT || (fault == PROXY_LATE && way == &link->requests && !link->client_gone))
        return true;
    return fault == (way == &link->requests ? PROXY_FREEZE_REQUESTS : PROXY_FREEZE_REPLIES);
}

static bool may_read(const struct proxy_link *link, const struct proxy_way *way)
{
    if (way->from == -1 || !link->connected)
        return false;
    if (fault_of(link) == PROXY_LATE && way == &link->requests)
        return way->begin + way->count < PROXY_WAY_BYTES;
    return way->count == 0 && !is_frozen(link, way);
}

enum progress { NOTHING, MOVED, ENDED, BROKEN };

static void strike(struct proxy_link *link)
{
    static const bool at_once[PROXY_FAULTS] = {
        [PROXY_SILENT] = true, [PROXY_FREEZE_REQUESTS] = true, [PROXY_FREEZE_REPLIES] = true};
    if (at_once[fault_of(link)])
        touch(link, fault_of(link));
}

static void look_for_mark(struct proxy_link *link, const unsigned char *bytes, size_t count)
{
    const char *mark = link->route->mark;
    if (mark == NULL || link->is_marked || memmem(bytes, count, mark, strlen(mark)) == NULL)
        return;
    link->is_marked = true;
    link->route->marked_count++;
    strike(link);
}

static bool vanishes(const struct proxy_link *link, const struct proxy_way *way)
{
    return fault_of(link) == PROXY_DROP || (fault_of(link) == PROXY_MUTE && way == &link->replies);
}

static enum progress way_read(struct proxy_link *link, struct proxy_way *way, uint64_t now_us)
{
    if (way->count == 0)
        way->begin = 0;
    size_t end = way->begin + way->count;
    ssize_t got = recv(way->from, way->bytes + end, PROXY_WAY_BYTES - end, MSG_DONTWAIT);
    if (got == -1 && (errno == EAGAIN || errno == EINTR))
        return NOTHING;
    if (got <= 0)
        return got == 0 ? ENDED : BROKEN;
    if (link->heard != NULL)
        link->route->ear.hear(link->heard, way == &link->requests, (const char *)way->bytes + end,
                              (size_t)got, now_us);
    if (way == &link->requests)
        look_for_mark(link, way->bytes + end, (size_t)got);
    if (vanishes(link, way)) {
        link->lost_bytes = fault_of(link) == PROXY_DROP;
        touch(link, fault_of(link));
        return MOVED;
    }
    if (way->count == 0 && fault_of(link) != PROXY_DRIBBLE)
        way->due_us = now_us + (fault_of(link) == PROXY_DELAY ? (uint64_t)link->route->amount_ms * 1000 : 0);
    if (fault_of(link) == PROXY_DELAY)
        touch(link, PROXY_DELAY);
    way->count += (size_t)got;
    return MOVED;
}

/* How much of what is kept may go now. */
static size_t portion(struct proxy_link *link, const struct proxy_way *way)
{
    struct proxy *proxy = link->route->proxy;
    if (fault_of(link) == PROXY_DRIBBLE) {
        touch(link, PROXY_DRIBBLE);
        return 1;
    }
    if (fault_of(link) != PROXY_CUT || way != &link->replies)
        return way->count;
    if (link->cut_after == 0)
        link->cut_after = 1 + (uint32_t)dice_below(&proxy->chance, CUT_REPLIES);
    if (--link->cut_after > 0 || way->count < 2)
        return way->count;
    touch(link, PROXY_CUT);
    return 1 + dice_below(&proxy->chance, way->count - 1);
}

static enum progress way_write(struct proxy_link *link, struct proxy_way *way, uint64_t now_us)
{
    size_t count = portion(link, way);
    bool cuts = fault_of(link) == PROXY_CUT && count < way->count;
    ssize_t sent = send(way->to, way->bytes + way->begin, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == -1 && (errno == EAGAIN || errno == EINTR))
        return NOTHING;
    if (sent <= 0 || cuts)
        return BROKEN;
    way->begin += (size_t)sent;
    way->count -= (size_t)sent;
    if (fault_of(link) == PROXY_DRIBBLE)
        way->due_us = now_us + 1 + (uint64_t)link->route->amount_ms * 1000;
    return MOVED;
}

static bool may_write(const struct proxy_link *link, const struct proxy_way *way, uint64_t now_us)
{
    return way->count > 0 && link->connected && !is_frozen(link, way) && way->due_us <= now_us;
}

/* One step. What comes back after the client has gone is read and forgotten. */
static enum progress way_step(struct proxy_link *link, struct proxy_way *way, uint64_t now_us)
{
    enum progress progress = may_read(link, way) ? way_read(link, way, now_us) : NOTHING;
    if (way->to == -1)
        way->count = 0;
    if (progress > MOVED || !may_write(link, way, now_us))
        return progress;
    enum progress written = way_write(link, way, now_us);
    return written == NOTHING ? progress : written;
}

/* As far as it goes now. */
static enum progress way_carry(struct proxy_link *link, struct proxy_way *way, uint64_t now_us)
{
    enum progress progress;
    do
        progress = way_step(link, way, now_us);
    while (progress == MOVED);
    return progress;
}

/* ---- one link ---- */

void proxy_link_end(struct proxy_link *link)
{
    reset_and_close(link->route->proxy, &link->client);
    reset_and_close(link->route->proxy, &link->server);
    link->end_us = 0;
}

/* One side has said goodbye: so is said to the other. */
static void link_end_in_order(struct proxy_link *link)
{
    unwatch_and_close(link->route->proxy, &link->client);
    unwatch_and_close(link->route->proxy, &link->server);
    link->end_us = 0;
}

/* True: the requests it left are to be delivered without it. */
static bool outlives_its_client(struct proxy_link *link, uint64_t now_us)
{
    bool keeps_some = link->requests.count > 0 && link->connected;
    if (fault_of(link) != PROXY_LATE || link->client_gone || !keeps_some)
        return false;
    reset_and_close(link->route->proxy, &link->client);
    link->requests.from = link->replies.to = -1;
    link->client_gone = true;
    link->requests.due_us = now_us + (uint64_t)link->route->amount_ms * 1000;
    return true;
}

/* The end of either side ends both: our clients know no half-closed connection. */
static void way_ended(struct proxy_link *link, const struct proxy_way *way, enum progress how,
                      uint64_t now_us)
{
    if (way == &link->requests && outlives_its_client(link, now_us))
        return;
    if (how == ENDED)
        link_end_in_order(link);
    else
        proxy_link_end(link);
}

/* What came late was delivered; the server may answer, nobody listens. */
static void finish_late(struct proxy_link *link, uint64_t now_us)
{
    if (!link->client_gone || link->requests.count > 0 || link->end_us != PROXY_NEVER)
        return;
    touch(link, PROXY_LATE);
    link->end_us = now_us + (uint64_t)LINGER_MS * 1000;
}

static uint32_t interest(const struct proxy_link *link, const struct proxy_way *in,
                         const struct proxy_way *out, uint64_t now_us)
{
    uint32_t blocked = may_write(link, out, now_us) ? (uint32_t)EPOLLOUT : 0;
    return blocked | (may_read(link, in) ? (uint32_t)EPOLLIN : 0);
}

static void link_watch(struct proxy_link *link, uint64_t now_us)
{
    struct proxy *proxy = link->route->proxy;
    uint32_t server =
        !link->connected ? (uint32_t)EPOLLOUT : interest(link, &link->replies, &link->requests, now_us);
    watch(proxy, link, link->client, &link->client_watches,
          interest(link, &link->requests, &link->replies, now_us));
    watch(proxy, link, link->server, &link->server_watches, server);
}

static uint64_t way_due_us(const struct proxy_link *link, const struct proxy_way *way, uint64_t now_us)
{
    if (way->count == 0 || is_frozen(link, way) || !link->connected)
        return PROXY_NEVER;
    return way->due_us > now_us ? way->due_us : PROXY_NEVER; /* else it waits for its socket */
}

static uint64_t link_due_us(const struct proxy_link *link, uint64_t now_us)
{
    uint64_t requests_us = way_due_us(link, &link->requests, now_us);
    uint64_t replies_us = way_due_us(link, &link->replies, now_us);
    uint64_t due_us = requests_us < replies_us ? requests_us : replies_us;
    return due_us < link->end_us ? due_us : link->end_us;
}

void proxy_link_carry(struct proxy_link *link, uint64_t now_us)
{
    struct proxy_way *const ways[] = {&link->requests, &link->replies};
    if (fault_of(link) == PROXY_RESET) {
        touch(link, PROXY_RESET);
        proxy_link_end(link);
    }
    for (size_t i = 0; i < 2 && link->end_us != 0; i++) {
        enum progress progress = way_carry(link, ways[i], now_us);
        if (progress > MOVED)
            way_ended(link, ways[i], progress, now_us);
    }
    if (link->end_us <= now_us) {
        proxy_link_end(link);
        return;
    }
    finish_late(link, now_us);
    link->due_us = link_due_us(link, now_us);
    link_watch(link, now_us);
}

static bool is_hung_up(int fd)
{
    struct pollfd polled = {.fd = fd};
    return fd != -1 && poll(&polled, 1, 0) == 1;
}

/* A hang-up is told even while nothing is read: without this the thread would be told for ever. */
static void link_hung_up(struct proxy_link *link, uint64_t now_us)
{
    if (is_hung_up(link->client))
        way_ended(link, &link->requests, BROKEN, now_us);
    else if (is_hung_up(link->server))
        proxy_link_end(link);
}

static void link_connected(struct proxy_link *link)
{
    struct pollfd polled = {.fd = link->server, .events = POLLOUT};
    if (poll(&polled, 1, 0) != 1) /* it was the client that hung up */
        return;
    if (net_connect_error(link->server) != 0)
        proxy_link_end(link);
    else
        link->connected = true;
}

void proxy_link_event(struct proxy_link *link, uint32_t events, uint64_t now_us)
{
    if (link->end_us == 0) /* ended by an earlier event of this turn */
        return;
    bool hung_up = (events & (EPOLLERR | EPOLLHUP)) != 0;
    if (!link->connected && link->server != -1 && (hung_up || (events & EPOLLOUT) != 0))
        link_connected(link);
    if (link->end_us != 0)
        proxy_link_carry(link, now_us);
    if (link->end_us != 0 && hung_up)
        link_hung_up(link, now_us);
}

static struct proxy_link *link_make(struct proxy_route *route, int client)
{
    struct proxy_link *link = calloc(1, sizeof *link);
    int one = 1;
    if (link == NULL)
        abort();
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    link->route = route;
    link->client = client;
    link->server = -1;
    link->due_us = link->end_us = PROXY_NEVER;
    if (fault_of(link) != PROXY_SILENT && fault_of(link) != PROXY_RESET)
        link->server = net_connect_start(&route->target);
    link->requests.from = link->replies.to = client;
    link->requests.to = link->replies.from = link->server;
    return link;
}

struct proxy_link *proxy_link_new(struct proxy_route *route, int client, uint64_t now_us)
{
    struct proxy *proxy = route->proxy;
    struct proxy_link *link = link_make(route, client);
    if (fault_of(link) == PROXY_SILENT || fault_of(link) == PROXY_RESET)
        touch(link, fault_of(link));
    bool good = proxy_watch(proxy, link, client, 0);
    if (good && link->server != -1)
        good = proxy_watch(proxy, link, link->server, EPOLLOUT);
    link->server_watches = EPOLLOUT;
    if (!good || (link->server == -1 && fault_of(link) != PROXY_SILENT))
        proxy_link_end(link);
    else
        link_watch(link, now_us);
    return link;
}

/* ---- a change of the fault ---- */

/* Connections that lost bytes, or were never connected on, cannot go on. */
static void link_mend(struct proxy_link *link, enum proxy_fault before)
{
    if (link->lost_bytes || (before == PROXY_SILENT && link->server == -1)) {
        proxy_link_end(link);
        return;
    }
    link->cut_after = 0;
    link->requests.due_us = link->replies.due_us = 0;
}

void proxy_link_turn(struct proxy_link *link, enum proxy_fault before, uint64_t now_us)
{
    link->touched = 0;
    strike(link);
    link_mend(link, before);
    if (link->end_us != 0)
        proxy_link_carry(link, now_us);
}
