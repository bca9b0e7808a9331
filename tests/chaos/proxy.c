/* SPDX-License-Identifier: MIT */
/*
 * proxy.c - see proxy.h.
 *
 * A link is one connection, a way is one of its two directions. The thread sleeps in epoll_wait() until a socket
 * is ready or the earliest `due_us` of a way has come, and then carries each link concerned as far as it goes
 * (carry()). What a way may do now is worked out anew each time from the route's fault, so a change of the
 * fault is only: carry all links of the route.
 *
 *     way:  read when empty --> due_us (now, or later) --> written, whole or a byte at a time --> empty
 *
 * While a way is not to be read, the kernel keeps what waits and the sender feels it, as with a real network;
 * LATE reads on, since a reset by the client would throw away what the kernel keeps.
 *
 * Locking: `mutex` guards links, routes' faults and `ending`; the thread holds it except in epoll_wait().
 * hits[] are atomic.
 */
#include "tests/chaos/proxy.h"

#include "load/net.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WAY_BYTES = 65536,
    EVENTS = 64,
    BACKLOG = 512,
    LINGER_MS = 500, /* a server has this long to run what came late */
    CUT_REPLIES = 6, /* a connection is cut in one of its next so many replies */
};

#define NEVER UINT64_MAX

struct way {
    int from, to;
    size_t begin, count; /* of what is kept in bytes[] */
    uint64_t due_us;     /* when it may go on */
    unsigned char bytes[WAY_BYTES];
};

struct link {
    struct link *next;
    struct route *route;
    int client, server;                      /* -1: gone, not there yet */
    bool connected;                          /* to the server */
    bool client_gone;                        /* kept alive for what is late */
    bool lost_bytes;                         /* of DROP */
    uint32_t cut_after;                      /* replies until it is cut; 0: not chosen */
    uint64_t due_us;                         /* when it is to be carried even if no socket is ready */
    uint64_t end_us;                         /* when it is over whatever happens; NEVER; 0: it is over */
    uint32_t touched;                        /* bit per fault: counted in hits[] */
    uint32_t client_watches, server_watches; /* what epoll knows */
    struct way requests, replies;
};

struct route {
    struct proxy *proxy;
    int listener;
    uint16_t port;
    struct net_address target;
    enum proxy_fault fault;
    uint32_t amount_ms;
};

struct proxy {
    int epoll, wake;
    pthread_t thread;
    _Atomic uint64_t hits[PROXY_FAULTS];

    pthread_mutex_t mutex;
    bool ending;
    uint64_t chance; /* state of the generator */
    struct route routes[PROXY_ROUTES_MAX];
    size_t route_count;
    struct link *links;
};

static uint32_t chance_below(struct proxy *proxy, uint32_t limit)
{
    proxy->chance = proxy->chance * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((proxy->chance >> 33) % limit);
}

static void touch(struct link *link, enum proxy_fault fault)
{
    if ((link->touched & (1u << fault)) != 0)
        return;
    link->touched |= 1u << fault;
    atomic_fetch_add(&link->route->proxy->hits[fault], 1);
}

/* ---- sockets ---- */

static void shut(int *fd)
{
    if (*fd != -1)
        close(*fd);
    *fd = -1;
}

/* Closing alone would leave it in the epoll set while a child that was just forked still has its copy. */
static void unwatch_and_close(const struct proxy *proxy, int *fd)
{
    if (*fd != -1)
        epoll_ctl(proxy->epoll, EPOLL_CTL_DEL, *fd, NULL);
    shut(fd);
}

static void reset_and_close(const struct proxy *proxy, int *fd)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (*fd != -1)
        setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    unwatch_and_close(proxy, fd);
}

static void watch(struct proxy *proxy, struct link *link, int fd, uint32_t *watches, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = link};
    if (fd == -1 || *watches == events)
        return;
    *watches = events;
    epoll_ctl(proxy->epoll, EPOLL_CTL_MOD, fd, &event);
}

static bool add_watch(struct proxy *proxy, void *whose, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = whose};
    return epoll_ctl(proxy->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* ---- one way ---- */

static bool is_frozen(const struct link *link, const struct way *way)
{
    enum proxy_fault fault = link->route->fault;
    if (fault == PROXY_SILENT || (fault == PROXY_LATE && way == &link->requests && !link->client_gone))
        return true;
    return fault == (way == &link->requests ? PROXY_FREEZE_REQUESTS : PROXY_FREEZE_REPLIES);
}

static bool may_read(const struct link *link, const struct way *way)
{
    if (way->from == -1 || !link->connected)
        return false;
    if (link->route->fault == PROXY_LATE && way == &link->requests)
        return way->begin + way->count < WAY_BYTES;
    return way->count == 0 && !is_frozen(link, way);
}

static uint64_t due_of(const struct link *link, uint64_t now_us)
{
    if (link->route->fault == PROXY_DELAY)
        return now_us + (uint64_t)link->route->amount_ms * 1000;
    return now_us;
}

enum progress { NOTHING, MOVED, ENDED, BROKEN };

static enum progress way_read(struct link *link, struct way *way, uint64_t now_us)
{
    if (way->count == 0)
        way->begin = 0;
    size_t end = way->begin + way->count;
    ssize_t got = recv(way->from, way->bytes + end, WAY_BYTES - end, MSG_DONTWAIT);
    if (got == -1 && (errno == EAGAIN || errno == EINTR))
        return NOTHING;
    if (got <= 0)
        return got == 0 ? ENDED : BROKEN;
    if (link->route->fault == PROXY_DROP) {
        link->lost_bytes = true;
        touch(link, PROXY_DROP);
        return MOVED;
    }
    if (way->count == 0 && link->route->fault != PROXY_DRIBBLE)
        way->due_us = due_of(link, now_us);
    if (link->route->fault == PROXY_DELAY)
        touch(link, PROXY_DELAY);
    way->count += (size_t)got;
    return MOVED;
}

/* How much of what is kept may go now. */
static size_t portion(struct link *link, const struct way *way)
{
    struct proxy *proxy = link->route->proxy;
    if (link->route->fault == PROXY_DRIBBLE) {
        touch(link, PROXY_DRIBBLE);
        return 1;
    }
    if (link->route->fault != PROXY_CUT || way != &link->replies)
        return way->count;
    if (link->cut_after == 0)
        link->cut_after = 1 + chance_below(proxy, CUT_REPLIES);
    if (--link->cut_after > 0 || way->count < 2)
        return way->count;
    touch(link, PROXY_CUT);
    return 1 + chance_below(proxy, (uint32_t)way->count - 1);
}

static enum progress way_write(struct link *link, struct way *way, uint64_t now_us)
{
    size_t count = portion(link, way);
    bool cuts = link->route->fault == PROXY_CUT && count < way->count;
    ssize_t sent = send(way->to, way->bytes + way->begin, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == -1 && (errno == EAGAIN || errno == EINTR))
        return NOTHING;
    if (sent <= 0 || cuts)
        return BROKEN;
    way->begin += (size_t)sent;
    way->count -= (size_t)sent;
    if (link->route->fault == PROXY_DRIBBLE)
        way->due_us = now_us + 1 + (uint64_t)link->route->amount_ms * 1000;
    return MOVED;
}

static bool may_write(const struct link *link, const struct way *way, uint64_t now_us)
{
    return way->count > 0 && link->connected && !is_frozen(link, way) && way->due_us <= now_us;
}

/* One step. What comes back after the client has gone is read and forgotten. */
static enum progress way_step(struct link *link, struct way *way, uint64_t now_us)
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
static enum progress way_carry(struct link *link, struct way *way, uint64_t now_us)
{
    enum progress progress;
    do
        progress = way_step(link, way, now_us);
    while (progress == MOVED);
    return progress;
}

/* ---- one link ---- */

static void link_end(struct link *link)
{
    reset_and_close(link->route->proxy, &link->client);
    reset_and_close(link->route->proxy, &link->server);
    link->end_us = 0;
}

/* One side has said goodbye: so is said to the other. */
static void link_end_in_order(struct link *link)
{
    unwatch_and_close(link->route->proxy, &link->client);
    unwatch_and_close(link->route->proxy, &link->server);
    link->end_us = 0;
}

/* True: the requests it left are to be delivered without it. */
static bool outlives_its_client(struct link *link, uint64_t now_us)
{
    bool keeps_some = link->requests.count > 0 && link->connected;
    if (link->route->fault != PROXY_LATE || link->client_gone || !keeps_some)
        return false;
    reset_and_close(link->route->proxy, &link->client);
    link->requests.from = link->replies.to = -1;
    link->client_gone = true;
    link->requests.due_us = now_us + (uint64_t)link->route->amount_ms * 1000;
    return true;
}

/* The end of either side ends both: our clients know no half-closed connection. */
static void way_ended(struct link *link, const struct way *way, enum progress how, uint64_t now_us)
{
    if (way == &link->requests && outlives_its_client(link, now_us))
        return;
    if (how == ENDED)
        link_end_in_order(link);
    else
        link_end(link);
}

/* What came late was delivered; the server may answer, nobody listens. */
static void finish_late(struct link *link, uint64_t now_us)
{
    if (!link->client_gone || link->requests.count > 0 || link->end_us != NEVER)
        return;
    touch(link, PROXY_LATE);
    link->end_us = now_us + (uint64_t)LINGER_MS * 1000;
}

static uint32_t interest(const struct link *link, const struct way *in, const struct way *out,
                         uint64_t now_us)
{
    uint32_t blocked = may_write(link, out, now_us) ? (uint32_t)EPOLLOUT : 0;
    return blocked | (may_read(link, in) ? (uint32_t)EPOLLIN : 0);
}

static void link_watch(struct link *link, uint64_t now_us)
{
    struct proxy *proxy = link->route->proxy;
    uint32_t server =
        !link->connected ? (uint32_t)EPOLLOUT : interest(link, &link->replies, &link->requests, now_us);
    watch(proxy, link, link->client, &link->client_watches,
          interest(link, &link->requests, &link->replies, now_us));
    watch(proxy, link, link->server, &link->server_watches, server);
}

static uint64_t way_due_us(const struct link *link, const struct way *way, uint64_t now_us)
{
    if (way->count == 0 || is_frozen(link, way) || !link->connected)
        return NEVER;
    return way->due_us > now_us ? way->due_us : NEVER; /* else it waits for its socket */
}

static uint64_t link_due_us(const struct link *link, uint64_t now_us)
{
    uint64_t requests_us = way_due_us(link, &link->requests, now_us);
    uint64_t replies_us = way_due_us(link, &link->replies, now_us);
    uint64_t due_us = requests_us < replies_us ? requests_us : replies_us;
    return due_us < link->end_us ? due_us : link->end_us;
}

static void link_carry(struct link *link, uint64_t now_us)
{
    struct way *const ways[] = {&link->requests, &link->replies};
    if (link->route->fault == PROXY_RESET) {
        touch(link, PROXY_RESET);
        link_end(link);
    }
    for (size_t i = 0; i < 2 && link->end_us != 0; i++) {
        enum progress progress = way_carry(link, ways[i], now_us);
        if (progress > MOVED)
            way_ended(link, ways[i], progress, now_us);
    }
    if (link->end_us <= now_us) {
        link_end(link);
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
static void link_hung_up(struct link *link, uint64_t now_us)
{
    if (is_hung_up(link->client))
        way_ended(link, &link->requests, BROKEN, now_us);
    else if (is_hung_up(link->server))
        link_end(link);
}

static void link_connected(struct link *link)
{
    struct pollfd polled = {.fd = link->server, .events = POLLOUT};
    if (poll(&polled, 1, 0) != 1) /* it was the client that hung up */
        return;
    if (net_connect_error(link->server) != 0)
        link_end(link);
    else
        link->connected = true;
}

static void link_event(struct link *link, uint32_t events, uint64_t now_us)
{
    if (link->end_us == 0) /* ended by an earlier event of this turn */
        return;
    bool hung_up = (events & (EPOLLERR | EPOLLHUP)) != 0;
    if (!link->connected && link->server != -1 && (hung_up || (events & EPOLLOUT) != 0))
        link_connected(link);
    if (link->end_us != 0)
        link_carry(link, now_us);
    if (link->end_us != 0 && hung_up)
        link_hung_up(link, now_us);
}

static struct link *link_new(struct route *route, int client)
{
    struct link *link = calloc(1, sizeof *link);
    int one = 1;
    if (link == NULL)
        abort();
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    link->route = route;
    link->client = client;
    link->server = -1;
    link->due_us = link->end_us = NEVER;
    if (route->fault != PROXY_SILENT && route->fault != PROXY_RESET)
        link->server = net_connect_start(&route->target);
    link->requests.from = link->replies.to = client;
    link->requests.to = link->replies.from = link->server;
    return link;
}

static void accept_all(struct proxy *proxy, struct route *route, uint64_t now_us)
{
    int client;
    while ((client = accept4(route->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) != -1) {
        struct link *link = link_new(route, client);
        link->next = proxy->links;
        proxy->links = link;
        if (route->fault == PROXY_SILENT || route->fault == PROXY_RESET)
            touch(link, route->fault);
        bool good = add_watch(proxy, link, client, 0);
        if (good && link->server != -1)
            good = add_watch(proxy, link, link->server, EPOLLOUT);
        link->server_watches = EPOLLOUT;
        if (!good || (link->server == -1 && route->fault != PROXY_SILENT))
            link_end(link);
        else
            link_watch(link, now_us);
    }
}

/* ---- a change of the fault ---- */

/* Connections that lost bytes, or were never connected on, cannot go on. */
static void link_mend(struct link *link, enum proxy_fault before)
{
    if (link->lost_bytes || (before == PROXY_SILENT && link->server == -1)) {
        link_end(link);
        return;
    }
    link->cut_after = 0;
    link->requests.due_us = link->replies.due_us = 0;
}

static void link_strike(struct link *link, enum proxy_fault fault)
{
    static const bool at_once[PROXY_FAULTS] = {
        [PROXY_SILENT] = true, [PROXY_FREEZE_REQUESTS] = true, [PROXY_FREEZE_REPLIES] = true};
    if (at_once[fault])
        touch(link, fault);
}

void proxy_set(struct proxy *proxy, size_t route_number, enum proxy_fault fault, uint32_t amount_ms)
{
    struct route *route = &proxy->routes[route_number];
    const uint64_t one = 1;
    pthread_mutex_lock(&proxy->mutex);
    enum proxy_fault before = route->fault;
    route->fault = fault;
    route->amount_ms = amount_ms;
    for (struct link *link = proxy->links; link != NULL; link = link->next) {
        if (link->route != route || link->end_us == 0)
            continue;
        link->touched = 0;
        link_strike(link, fault);
        link_mend(link, before);
        if (link->end_us != 0)
            link_carry(link, net_now_us());
    }
    pthread_mutex_unlock(&proxy->mutex);
    if (write(proxy->wake, &one, sizeof one) != sizeof one) /* times have changed */
        perror("proxy");
}

/* ---- the thread ---- */

static void free_ended(struct proxy *proxy)
{
    struct link **at = &proxy->links;
    while (*at != NULL) {
        struct link *link = *at;
        if (link->end_us == 0) {
            *at = link->next;
            free(link);
        } else {
            at = &link->next;
        }
    }
}

/* Carries what is due; milliseconds until the next is, -1: nothing. */
static int carry_due(struct proxy *proxy, uint64_t now_us)
{
    uint64_t next_us = NEVER;
    for (struct link *link = proxy->links; link != NULL; link = link->next) {
        if (link->end_us != 0 && link->due_us <= now_us)
            link_carry(link, now_us);
        if (link->end_us == 0)
            continue;
        next_us = link->due_us < next_us ? link->due_us : next_us;
    }
    if (next_us == NEVER)
        return -1;
    return next_us <= now_us ? 1 : (int)((next_us - now_us) / 1000) + 1;
}

static struct route *route_of(struct proxy *proxy, const void *whose)
{
    for (size_t i = 0; i < proxy->route_count; i++) {
        if (whose == &proxy->routes[i])
            return &proxy->routes[i];
    }
    return NULL;
}

static void handle(struct proxy *proxy, const struct epoll_event *event, uint64_t now_us)
{
    uint64_t ignored;
    struct route *route = route_of(proxy, event->data.ptr);
    if (event->data.ptr == proxy)
        while (read(proxy->wake, &ignored, sizeof ignored) == sizeof ignored)
            ;
    else if (route != NULL)
        accept_all(proxy, route, now_us);
    else
        link_event(event->data.ptr, event->events, now_us);
}

/* Links are freed at the end of a turn only: the events of one turn may name a link that an earlier one ended. */
static void *run(void *context)
{
    struct proxy *proxy = context;
    struct epoll_event events[EVENTS];
    pthread_mutex_lock(&proxy->mutex);
    while (!proxy->ending) {
        int wait_ms = carry_due(proxy, net_now_us());
        free_ended(proxy);
        pthread_mutex_unlock(&proxy->mutex);
        int count = epoll_wait(proxy->epoll, events, EVENTS, wait_ms);
        pthread_mutex_lock(&proxy->mutex);
        uint64_t now_us = net_now_us();
        for (int i = 0; i < count; i++)
            handle(proxy, &events[i], now_us);
    }
    for (struct link *link = proxy->links; link != NULL; link = link->next)
        link_end(link);
    free_ended(proxy);
    pthread_mutex_unlock(&proxy->mutex);
    return NULL;
}

/* ---- opening, closing ---- */

bool proxy_open(uint64_t seed, struct proxy **out)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    if (proxy == NULL)
        return false;
    proxy->chance = seed;
    pthread_mutex_init(&proxy->mutex, NULL);
    proxy->epoll = epoll_create1(EPOLL_CLOEXEC);
    proxy->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (proxy->epoll != -1 && proxy->wake != -1 && add_watch(proxy, proxy, proxy->wake, EPOLLIN) &&
        pthread_create(&proxy->thread, NULL, run, proxy) == 0) {
        *out = proxy;
        return true;
    }
    perror("proxy");
    shut(&proxy->epoll);
    shut(&proxy->wake);
    free(proxy);
    return false;
}

static bool listen_anywhere(struct route *route)
{
    struct net_address address;
    route->port = net_free_port();
    route->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return route->listener != -1 && net_address_init(&address, "127.0.0.1", route->port) &&
           bind(route->listener, (const struct sockaddr *)&address.storage, address.bytes) == 0 &&
           listen(route->listener, BACKLOG) == 0;
}

bool proxy_add(struct proxy *proxy, uint16_t target_port, size_t *route_number)
{
    if (proxy->route_count == PROXY_ROUTES_MAX)
        return false;
    pthread_mutex_lock(&proxy->mutex);
    struct route *route = &proxy->routes[proxy->route_count];
    *route = (struct route){.proxy = proxy};
    bool good = net_address_init(&route->target, "127.0.0.1", target_port) && listen_anywhere(route) &&
                add_watch(proxy, route, route->listener, EPOLLIN);
    if (good)
        *route_number = proxy->route_count++;
    else
        perror("proxy");
    if (!good)
        shut(&route->listener);
    pthread_mutex_unlock(&proxy->mutex);
    return good;
}

uint16_t proxy_port(const struct proxy *proxy, size_t route)
{
    return proxy->routes[route].port;
}

uint64_t proxy_hits(const struct proxy *proxy, enum proxy_fault fault)
{
    return atomic_load(&proxy->hits[fault]);
}

void proxy_close(struct proxy **slot)
{
    struct proxy *proxy = *slot;
    const uint64_t one = 1;
    *slot = NULL;
    if (proxy == NULL)
        return;
    pthread_mutex_lock(&proxy->mutex);
    proxy->ending = true;
    pthread_mutex_unlock(&proxy->mutex);
    if (write(proxy->wake, &one, sizeof one) != sizeof one)
        perror("proxy");
    pthread_join(proxy->thread, NULL);
    for (size_t i = 0; i < proxy->route_count; i++)
        shut(&proxy->routes[i].listener);
    shut(&proxy->epoll);
    shut(&proxy->wake);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}
