/* SPDX-License-Identifier: MIT */
/*
 * proxy.h - TCP between processes and their servers, with a network that can be broken at any time.
 *
 *     client ---- route: a port of ours ----> proxy ----> server
 *
 * One thread carries all connections of all routes. A route has one fault at a time; proxy_set() takes effect
 * on the connections that exist and on those to come. The faults are in proxy_fault.h.
 *
 * What was frozen, delayed or kept goes on when the fault ends. A server that cannot be reached resets the
 * client. Nothing is lost, reordered or invented but by the faults.
 *
 * A fault may be kept to some connections of its route: those that have said a certain text, from the request with it
 * on. So an event of another process can be put between a command and its execution (FREEZE_REQUESTS), or between its
 * execution and its reply (FREEZE_REPLIES), without knowing how long anything takes.
 *
 * Threads: all functions from one thread, except proxy_hits() and proxy_wait_marked(): any.
 */
#pragma once

#include "load/stack/proxy_fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proxy;

/* `seed`: where replies are cut. False: the reason is on stderr. */
bool proxy_open(uint64_t seed, struct proxy **out);

/* A new route to this port of 127.0.0.1; its number goes into *route, its port is proxy_port(). */
bool proxy_add(struct proxy *proxy, uint16_t target_port, size_t *route);
uint16_t proxy_port(const struct proxy *proxy, size_t route);

/* A route from this address to that one, with an ear. False: the reason is on stderr. */
struct net_address;
bool proxy_add_at(struct proxy *proxy, const struct net_address *listen, const struct net_address *target,
                  const struct proxy_ear *ear);

/* Both for who needs one route: it is number 0. */
bool proxy_open_to(uint16_t target_port, struct proxy **out);

/* Has happened to every connection of the route when it returns. */
void proxy_set(struct proxy *proxy, size_t route, enum proxy_fault fault, uint32_t amount_ms);

/*
 * From here on the route has this fault, and faults of it strike only connections that say the text, each from the
 * request with it on. Connections that were marked by an earlier text stay so. proxy_set() to NONE forgets all marks
 * and the text, which is lent until then.
 */
void proxy_mark(struct proxy *proxy, size_t route, const char *text, enum proxy_fault fault);

/* Until so many connections have been marked since proxy_mark(); false after limit_ms. */
bool proxy_wait_marked(struct proxy *proxy, size_t route, uint32_t wanted, uint32_t limit_ms);

/*
 * What a failover looks like to clients behind an address that moves: when it returns, every connection of the
 * route has been reset, and new ones go to this port of 127.0.0.1. What faults kept of the old ones is lost; the
 * fault stays.
 */
void proxy_retarget(struct proxy *proxy, size_t route, uint16_t target_port);

/* How many connections this fault has touched on all routes: delayed, dropped, ... something of them. For LATE:
 * those whose requests were delivered after the client had gone. */
uint64_t proxy_hits(const struct proxy *proxy, enum proxy_fault fault);

/* Leaves NULL. Accepts NULL in *proxy. */
void proxy_close(struct proxy **proxy);
