/* SPDX-License-Identifier: MIT */
/*
 * proxy_link.h - the inside of the proxy: one connection through it, and what a fault does to it.
 *
 * A link is one connection, a way is one of its two directions.
 *
 *     proxy_link_new() --> carried whenever a socket is ready, due_us has come or the fault changes --+
 *                          ^                                                                          |
 *                          +--------------------------------------------------------------------------+
 *                          +--> proxy_link_end(): end_us is 0, the proxy frees it at the end of its turn
 *
 * Threads: every function is called with the proxy's mutex held.
 */
#pragma once

#include "load/base/net.h"
#include "load/stack/proxy_fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROXY_ROUTES_MAX = 32, PROXY_WAY_BYTES = 65536 };

#define PROXY_NEVER UINT64_MAX

struct proxy_way {
    int from, to;
    size_t begin, count; /* of what is kept in bytes[] */
    uint64_t due_us;     /* when it may go on */
    unsigned char bytes[PROXY_WAY_BYTES];
};

struct proxy_link {
    struct proxy_link *next;
    struct proxy_route *route;
    int client, server; /* -1: gone, not there yet */
    bool connected;     /* to the server */
    bool client_gone;   /* kept alive for what is late */
    bool lost_bytes;    /* of DROP */
    bool is_marked;     /* has said the route's mark */
    uint32_t cut_after; /* replies until it is cut; 0: not chosen */
    uint64_t due_us;    /* when it is to be carried even if no socket is ready */
    uint64_t end_us;    /* when it is over whatever happens; PROXY_NEVER; 0: it is over */
    uint32_t touched;   /* bit per fault: counted in hits[] */
    uint32_t client_watches, server_watches; /* what epoll knows */
    void *heard;                             /* the ear's; NULL: nobody hears */
    struct proxy_way requests, replies;
};

struct proxy_route {
    struct proxy *proxy;
    int listener;
    uint16_t port;
    struct net_address target;
    enum proxy_fault fault;
    uint32_t amount_ms;
    struct proxy_ear ear; /* its `open` is NULL: none */
    const char *mark;     /* lent: faults strike only connections that say this; NULL: all */
    uint32_t marked_count;
};

struct proxy {
    int epoll, wake;
    pthread_t thread;
    _Atomic uint64_t hits[PROXY_FAULTS];

    pthread_mutex_t mutex; /* guards all below and every link */
    bool ending;
    uint64_t chance; /* state of the generator */
    struct proxy_route routes[PROXY_ROUTES_MAX];
    size_t route_count;
    struct proxy_link *links; /* owned */
};

/* A new member of the epoll set; `whose` comes back with its events. */
bool proxy_watch(struct proxy *proxy, void *whose, int fd, uint32_t events);

/* For a client just accepted; takes the descriptor. It may be over at once. Never NULL. */
struct proxy_link *proxy_link_new(struct proxy_route *route, int client, uint64_t now_us);

/* As far as it goes now; tells epoll what it waits for. */
void proxy_link_carry(struct proxy_link *link, uint64_t now_us);
void proxy_link_event(struct proxy_link *link, uint32_t events, uint64_t now_us);

/* The fault of its route is another one than `before`. */
void proxy_link_turn(struct proxy_link *link, enum proxy_fault before, uint64_t now_us);

/* Resets both sides. */
void proxy_link_end(struct proxy_link *link);
