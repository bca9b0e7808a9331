/* SPDX-License-Identifier: MIT */
/*
 * ops.h - the operations listener: what operators and their machines ask, apart from what clients ask.
 *
 *     GET  /                           the live view, a page that draws /live; it holds no data and needs no token
 *     GET  /healthz                    200 while every server loop and the guard's thread turn, else 503; nothing else
 *                                      matters
 *     GET  /readyz                     200 if requests can be answered: the database is reached and the process is not
 *                                      shutting down. Redis away, or refusing us, is "degraded": right but uncached
 *     GET  /metrics                    Prometheus text
 *     GET  /hot                        the keys for which the guard saved the most loads, and those with the longest
 *                                      waits, as JSON
 *     GET  /live[?every_ms=1000]       what this process does, a line of JSON each second until the reader goes: live.h
 *     POST /invalidate?key=product:7   drops an entry and voids its running load. 503: not confirmed, repeat it
 *     POST /invalidate?tag=category:7  the same for a group of entries, see document.h: they count as missing from then
 *                                      on, and so does what their running loads will store. Says whether there may
 *                                      have been any, not whether a load ran
 *
 *     POST /expire?key= or ?tag=       the same, but what was there under the key is served as stale, if its stale time
 *                                      allows, while one process refreshes it
 *     POST /refresh?key=A&key=B        loads those of 1 to 100 keys that are missing or stale, and counts them
 *     POST /clear?namespace=catalog    drops everything; the name must be that of this process
 *     POST /policy?FRESH_MS=5000       times of this process from now on
 *
 * All but the first three ask for the token, if there is one; ops_reply.h says what pages of other sites are kept
 * from. A thread per connection: an invalidation blocks while Redis is slow, and a stuck server loop must not take
 * this listener with it. There are few; places.h says which makes way when all places are taken.
 *
 * The room ops/: this file asks who may, look.c tells, change.c does what is to be done (paths.h), ops_reply.h
 * answers, metrics.h prints the numbers, places.h says who makes way. The room view/ before it has the page, the
 * samples that it draws and their streams.
 *
 * Threads: open, close and drain on one thread.
 */
#ifndef APP_OPS_H
#define APP_OPS_H

#include "app/base/settings.h"
#include "app/ops/paths.h"
#include "app/ops/places.h"

enum { OPS_CONNECTIONS = PLACES_SOCKETS };

struct ops;

/* Everything is lent until ops_close() returns. A socket that was given for it (given.h; NULL: none) wins over the
 * setting. False: the reason was logged. *out is NULL for "off". */
bool ops_open(const struct settings *settings, const struct given *given, const struct ops_service *service,
              struct ops **out);
/* The token of OPS_TOKEN_FILE as it is in the file by now. False: the reason was logged, and the old one counts. Accepts
 * NULL. */
bool ops_read_token(struct ops *ops, const char *ops_token_file);
/* /readyz says no from now on. Accepts NULL. */
void ops_drain(struct ops *ops);
/* Leaves NULL. Accepts NULL in *ops. */
void ops_close(struct ops **ops);

#endif
