/* SPDX-License-Identifier: MIT */
/*
 * redis/sentinel.h - the watcher: asks the Sentinels where the master is, and keeps the place of redis/place.h.
 *
 *     every second, at once on a doubt, on a hint, and whenever a connection wants to be confirmed: a round
 *
 *         each Sentinel, in one write   SENTINEL MASTER name                    config epoch, flags, how many
 *                                       SENTINEL GET-MASTER-ADDR-BY-NAME name   the address
 *         redis/vote.h                  what that means
 *         the place                     moves, is confirmed, answers
 *
 * There are two connections to each Sentinel: one asks, the other hears +switch-master. That is a hint, and only
 * asked about: it may be lost, and the Sentinel that leads a failover tells it last. A Sentinel that does not answer
 * within SENTINEL_LIMIT_MS delays one round at most; from then on it is not up.
 *
 * strict (of the URL): a master is given up once no majority has confirmed it for as long as the Sentinels need to
 * call one down (down-after-milliseconds); they are asked three times as often as that, if that is sooner.
 *
 * Threads    that of its loop.
 * Secrets    Sentinels have a login of their own; neither is ever sent to the other's servers.
 */
#pragma once

#include "../base/host.h"
#include "place.h"

enum { SENTINEL_LIMIT_MS = 500, SENTINEL_POLL_MS = 1000, SENTINEL_DOUBT_MS = 100 };

struct redis_watcher;

/* url: of kind REDIS_SENTINEL; lent like the place until it is closed. NULL: no memory. */
struct redis_watcher *redis_watcher_open(struct guard_host *host, const struct redis_url *url,
                                         struct redis_tls *tls, struct redis_place *place);
/* Calls `closed` once, soon. */
void redis_watcher_close(struct redis_watcher *watcher, void (*closed)(void *context), void *context);
