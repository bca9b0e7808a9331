/* SPDX-License-Identifier: MIT */
/*
 * proxy.c - see proxy.h.
 *
 * The thread sleeps in epoll_wait() until a socket is ready or the earliest `due_us` of a link has come, and then
 * carries each link concerned as far as it goes (proxy_link.c).
 *
 * Locking: `mutex` guards links, routes and `ending`; the thread holds it except in epoll_wait(). hits[] are atomic.
 */
#include "load/stack/proxy.h"

#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/stack/proxy_link.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 64, BACKLOG = 512 };

static void wake(const struct proxy *proxy)
{
    const uint64_t one = 1;
    if (write(proxy->wake, &one, sizeof one) != sizeof one)
        perror("proxy: its thread cannot be woken");
}

/* ---- the thread ---- */

static void free_ended(struct proxy *proxy)
{
    struct proxy_link **at = &proxy->links;
    while (*at != NULL) {
        struct proxy_link *link = *at;
        if (link->end_us == 0) {
            *at = link->next;
            if (link->heard != NULL)
                link->route->ear.close(link->heard, clock_us());
            free(link);
        } else {
            at = &link->next;
        }
    }
}

/* Carries what is due; milliseconds until the next is, -1: nothing. */
static int carry_due(struct proxy *proxy, uint64_t now_us)
{
    uint64_t next_us = PROXY_NEVER;
    for (struct proxy_link *link = proxy->links; link != NULL; link = link->next) {
        if (link->end_us != 0 && link->due_us <= now_us)
            proxy_link_carry(link, now_us);
        if (link->end_us == 0)
            continue;
        next_us = link->due_us < next_us ? link->due_us : next_us;
    }
    if (next_us == PROXY_NEVER)
        return -1;
    return next_us <= now_us ? 1 : (int)((next_us - now_us) / 1000) + 1;
}

static void accept_all(struct proxy *proxy, struct proxy_route *route, uint64_t now_us)
{
    int client;
    while ((client = accept4(route->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) != -1) {
        struct proxy_link *link = proxy_link_new(route, client, now_us);
        link->next = proxy->links;
        proxy->links = link;
        link->heard = route->ear.open != NULL ? route->ear.open(route->ear.context) : NULL;
    }
}

static struct proxy_route *route_of(struct proxy *proxy, const void *whose)
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
    struct proxy_route *route = route_of(proxy, event->data.ptr);
    if (event->data.ptr == proxy)
        while (read(proxy->wake, &ignored, sizeof ignored) == sizeof ignored)
            ;
    else if (route != NULL)
        accept_all(proxy, route, now_us);
    else
        proxy_link_event(event->data.ptr, event->events, now_us);
}

/* Links are freed at the end of a turn only: the events of one turn may name a link that an earlier one ended. */
static void *run(void *context)
{
    struct proxy *proxy = context;
    struct epoll_event events[EVENTS];
    pthread_mutex_lock(&proxy->mutex);
    while (!proxy->ending) {
        int wait_ms = carry_due(proxy, clock_us());
        free_ended(proxy);
        pthread_mutex_unlock(&proxy->mutex);
        int count = epoll_wait(proxy->epoll, events, EVENTS, wait_ms);
        pthread_mutex_lock(&proxy->mutex);
        uint64_t now_us = clock_us();
        for (int i = 0; i < count; i++)
            handle(proxy, &events[i], now_us);
    }
    for (struct proxy_link *link = proxy->links; link != NULL; link = link->next)
        proxy_link_end(link);
    free_ended(proxy);
    pthread_mutex_unlock(&proxy->mutex);
    return NULL;
}

/* ---- what happens to a route ---- */

/* With the mutex held. */
static void turn_links(struct proxy_route *route, enum proxy_fault fault, uint32_t amount_ms)
{
    enum proxy_fault before = route->fault;
    route->fault = fault;
    route->amount_ms = amount_ms;
    for (struct proxy_link *link = route->proxy->links; link != NULL; link = link->next) {
        if (link->route == route && link->end_us != 0)
            proxy_link_turn(link, before, clock_us());
    }
}

static void forget_marks(struct proxy_route *route)
{
    route->mark = NULL;
    for (struct proxy_link *link = route->proxy->links; link != NULL; link = link->next) {
        if (link->route == route)
            link->is_marked = false;
    }
}

void proxy_set(struct proxy *proxy, size_t route_number, enum proxy_fault fault, uint32_t amount_ms)
{
    struct proxy_route *route = &proxy->routes[route_number];
    pthread_mutex_lock(&proxy->mutex);
    turn_links(route, fault, amount_ms);
    if (fault == PROXY_NONE)
        forget_marks(route);
    pthread_mutex_unlock(&proxy->mutex);
    wake(proxy); /* times have changed */
}

void proxy_mark(struct proxy *proxy, size_t route_number, const char *text, enum proxy_fault fault)
{
    struct proxy_route *route = &proxy->routes[route_number];
    pthread_mutex_lock(&proxy->mutex);
    route->mark = text;
    route->marked_count = 0;
    turn_links(route, fault, 0);
    pthread_mutex_unlock(&proxy->mutex);
    wake(proxy);
}

bool proxy_wait_marked(struct proxy *proxy, size_t route_number, uint32_t wanted, uint32_t limit_ms)
{
    uint64_t end_us = clock_after_ms(limit_ms);
    for (;;) {
        pthread_mutex_lock(&proxy->mutex);
        bool is_reached = proxy->routes[route_number].marked_count >= wanted;
        pthread_mutex_unlock(&proxy->mutex);
        if (is_reached || clock_us() >= end_us)
            return is_reached;
        clock_pause_ms(1);
    }
}

/* It is an address of this machine, so it is one. */
static void set_target(struct proxy_route *route, uint16_t port)
{
    bool good = net_address_init(&route->target, "127.0.0.1", port);
    assert(good);
    (void)good;
}

void proxy_retarget(struct proxy *proxy, size_t route_number, uint16_t target_port)
{
    struct proxy_route *route = &proxy->routes[route_number];
    pthread_mutex_lock(&proxy->mutex);
    set_target(route, target_port);
    for (struct proxy_link *link = proxy->links; link != NULL; link = link->next) {
        if (link->route == route && link->end_us != 0)
            proxy_link_end(link);
    }
    pthread_mutex_unlock(&proxy->mutex);
    wake(proxy); /* to free them */
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
    if (proxy->epoll != -1 && proxy->wake != -1 && proxy_watch(proxy, proxy, proxy->wake, EPOLLIN) &&
        pthread_create(&proxy->thread, NULL, run, proxy) == 0) {
        *out = proxy;
        return true;
    }
    perror("proxy: no thread or descriptor for it");
    net_shut(&proxy->epoll);
    net_shut(&proxy->wake);
    free(proxy);
    return false;
}

static bool listen_on(struct proxy_route *route, const struct net_address *address)
{
    const int yes = 1;
    route->listener = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return route->listener != -1 &&
           setsockopt(route->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
           bind(route->listener, (const struct sockaddr *)&address->storage, address->bytes) == 0 &&
           listen(route->listener, BACKLOG) == 0;
}

bool proxy_add(struct proxy *proxy, uint16_t target_port, size_t *route_number)
{
    struct net_address listen, target;
    uint16_t port = net_free_port();
    *route_number = proxy->route_count;
    if (!net_address_init(&listen, "127.0.0.1", port) ||
        !net_address_init(&target, "127.0.0.1", target_port) || !proxy_add_at(proxy, &listen, &target, NULL))
        return false;
    proxy->routes[*route_number].port = port;
    return true;
}

bool proxy_add_at(struct proxy *proxy, const struct net_address *listen, const struct net_address *target,
                  const struct proxy_ear *ear)
{
    if (proxy->route_count == PROXY_ROUTES_MAX)
        return false;
    pthread_mutex_lock(&proxy->mutex);
    struct proxy_route *route = &proxy->routes[proxy->route_count];
    *route = (struct proxy_route){.proxy = proxy, .target = *target};
    if (ear != NULL)
        route->ear = *ear;
    bool good = listen_on(route, listen) && proxy_watch(proxy, route, route->listener, EPOLLIN);
    if (good)
        proxy->route_count++;
    else
        perror("proxy: no port to listen on");
    if (!good)
        net_shut(&route->listener);
    pthread_mutex_unlock(&proxy->mutex);
    return good;
}

bool proxy_open_to(uint16_t target_port, struct proxy **out)
{
    size_t route;
    if (!proxy_open(1, out))
        return false;
    if (!proxy_add(*out, target_port, &route))
        proxy_close(out);
    return *out != NULL;
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
    *slot = NULL;
    if (proxy == NULL)
        return;
    pthread_mutex_lock(&proxy->mutex);
    proxy->ending = true;
    pthread_mutex_unlock(&proxy->mutex);
    wake(proxy);
    pthread_join(proxy->thread, NULL);
    for (size_t i = 0; i < proxy->route_count; i++)
        net_shut(&proxy->routes[i].listener);
    net_shut(&proxy->epoll);
    net_shut(&proxy->wake);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}
