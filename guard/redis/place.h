/* SPDX-License-Identifier: MIT */
/*
 * redis/place.h - where one master is, and its reign, as all connections of a process share them.
 *
 * A place that nothing watches never changes. One that a watcher of Sentinels keeps (redis/sentinel.h) may move, and
 * each connection to it is confirmed before it is used:
 *
 *     connection                                place                        watcher, on a loop of its own
 *
 *     redis_place_where()  <------------------  endpoint  <--------------.
 *     connects, is greeted: ROLE says master                             |
 *     redis_place_confirm()  -------------------->  asked  ------ wake ----> redis_place_round_begins()
 *                                                                        asks the Sentinels
 *     redis_place_answer()  <----- wake ------  answered  <------------- redis_place_round_ends()
 *
 *     is lost  -- redis_place_doubt() ------->  doubted  ---- wake ----> the same, sooner than it would have
 *
 * So an answer comes from a round that began after the server had said that it is the master: address, role, and the
 * address again. When a round confirms another master than the last one did, the reign is over (below) before
 * anything is asked of the new one.
 *
 * Locking    Its mutex is taken before that of its reign. host_wake_send() is called under it, so that nothing wakes
 *            a member that has left.
 * Threads    any; a member's functions on the thread of its loop, the watcher's on that of its own.
 * Time       Instants of clock_now_us(), in ms.
 */
#pragma once

#include "../base/host.h"
#include "../guard.h"
#include "server.h"
#include "types.h"
#include "url.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * ---- whose word counts ----
 *
 * Which master the connections of one process work for: the same one, or none is answered.
 *
 * A reign is the time of one master: it has the name that the master gives its history (INFO replication,
 * master_replid), which a promotion and a restart change (so does its first replica: then only connections are lost).
 * The generation is its number in this process:
 *
 *     a connection is made            seen = redis_reign_now()
 *     its greeting has been answered  redis_reign_join(seen, name): the present reign, or one that begins with it
 *     the connection is told that     redis_reign_end(): READONLY, a replica. The master is not known until one is
 *     its server is no master         confirmed
 *     a reply comes, a while passes   its generation is no longer redis_reign_now(): the connection is given up
 *
 * So the first connection that finds a new master ends all others of its process, whatever the old one still says:
 * each looks at the number before it takes a reply. What began to be asked after an invalidation was confirmed at
 * the new master is never answered by the old one.
 *
 * A login that may not ask for the name has no reigns that follow one another: only redis_reign_end() moves the
 * number on then.
 *
 * Threads  any.
 */

enum { REDIS_REIGN_BYTES = 40 };

struct redis_reign {
    _Atomic uint64_t generation;
    pthread_mutex_t mutex;            /* below */
    char name[REDIS_REIGN_BYTES + 1]; /* "": not known, or over */
    void (*ended)(void *context);     /* the generation has moved on; under the mutex; may be NULL */
    void *context;
};

void redis_reign_init(struct redis_reign *reign, void (*ended)(void *context), void *context);
void redis_reign_clear(struct redis_reign *reign);

static inline uint64_t redis_reign_now(const struct redis_reign *reign)
{
    return atomic_load(&reign->generation);
}

/* name: "": unknown. False: while it was asked, another master was confirmed or this one's reign ended; ask again. */
bool redis_reign_join(struct redis_reign *reign, uint64_t seen, const char *name, uint64_t *generation);

/* Nothing happens if that generation is over already. */
void redis_reign_end(struct redis_reign *reign, uint64_t generation);

enum redis_confirm {
    REDIS_CONFIRM_NONE,
    REDIS_CONFIRM_WAITS,
    REDIS_CONFIRM_UNDER_WAY,
    REDIS_CONFIRM_YES,
    REDIS_CONFIRM_NO
};

/* One connection's part; its owner keeps it. */
struct redis_member {
    struct host_wake wake;
    uint64_t version;           /* of the endpoint that it was given */
    enum redis_confirm confirm; /* under the place's mutex */
    struct redis_member *prev, *next;
};

/* What a round has found. */
struct redis_finding {
    struct redis_endpoint master; /* host "": not known; the place stays where it is */
    uint64_t epoch;               /* config epoch */
    bool confirmed;
    uint64_t good_until_ms; /* if confirmed: connections are given up then; UINT64_MAX: not */
    /* if not confirmed: */
    enum guard_redis_state state;
    char why[REDIS_WHY_SIZE];
};

struct redis_place {
    struct redis_reign reign;
    _Atomic uint64_t good_until_ms;
    pthread_mutex_t mutex;          /* below */
    struct redis_endpoint endpoint; /* with host "": not known yet */
    uint64_t version;               /* of the endpoint */
    bool watched;                   /* for good */
    struct host_wake *watcher;      /* NULL: none yet, or it has left */
    bool doubted;                   /* since a round began */
    struct redis_member *members;
    struct redis_finding found, confirmed; /* by the last round; by the last that confirmed one */
    uint64_t ended_version, ended_seen;    /* that round ended this generation for those of this endpoint */
};

/* `ended` as in redis_reign_init(). endpoint: copied; NULL: not known yet. */
void redis_place_init(struct redis_place *place, const struct redis_endpoint *endpoint,
                      void (*ended)(void *context), void *context);
void redis_place_clear(struct redis_place *place);

/* ---- a connection ---- */

/* `changed` runs on its loop when the place may have moved, a master was confirmed, or its answer is there. */
void redis_place_join(struct redis_place *place, struct redis_member *member, struct guard_host *host,
                      void (*changed)(void *context), void *context);
void redis_place_leave(struct redis_place *place, struct redis_member *member);

/* False: not known; then out->host is "". */
bool redis_place_where(struct redis_place *place, struct redis_member *member, struct redis_endpoint *out);
/* Another answer than the last one. */
bool redis_place_has_moved(struct redis_place *place, const struct redis_member *member);
/* A majority said so in the last round; of a place that nothing watches always. */
bool redis_place_is_confirmed(struct redis_place *place);
/* Why it is not known, or not confirmed, by the last round; "": there was none yet. */
enum guard_redis_state redis_place_why(struct redis_place *place, char why[REDIS_WHY_SIZE]);

/* The master may be another one by now. */
void redis_place_doubt(struct redis_place *place);

/* Whether it still is where the member was told, as of now. False: nothing watches it, so it is. */
bool redis_place_confirm(struct redis_place *place, struct redis_member *member);
/* NONE: not asked; YES and NO are given once. With YES, *seen, a generation that was read before the connection was
 * made, becomes that of the confirmed master if only its confirmation has ended the other. */
enum redis_confirm redis_place_answer(struct redis_place *place, struct redis_member *member, uint64_t *seen);

/* When no majority has confirmed its master for longer than it is trusted without; UINT64_MAX: never. */
static inline uint64_t redis_place_good_until_ms(const struct redis_place *place)
{
    return atomic_load_explicit(&place->good_until_ms, memory_order_relaxed);
}

/* ---- the watcher ---- */

/* From here on the place is confirmed, or not, by what is woken; NULL: it has left, and no ask is answered. */
void redis_place_watch(struct redis_place *place, struct host_wake *watcher);

enum redis_wish { REDIS_WISH_NONE, REDIS_WISH_SOON, REDIS_WISH_NOW };
/* SOON: doubted; NOW: a member waits. */
enum redis_wish redis_place_wish(struct redis_place *place);

void redis_place_round_begins(struct redis_place *place);
void redis_place_round_ends(struct redis_place *place, const struct redis_finding *finding);

/* Without a round: its connections look whether it has lapsed. */
void redis_place_wake(struct redis_place *place);

/* For a place without watcher. Connections that are made from here on lead there; nobody is woken. */
void redis_place_set(struct redis_place *place, const struct redis_endpoint *endpoint);
/* The same, and those that rest need not any longer. */
void redis_place_move(struct redis_place *place, const struct redis_endpoint *endpoint);

/* ---- the masters of one URL: redis.h opens and closes it ---- */

struct redis_cluster;
struct redis_watcher;

/* Its URL, what TLS needs and which of them it has do not change until it is closed. */
struct redis_topology {
    struct redis_url url;
    struct redis_tls *tls;         /* owned; NULL: without TLS */
    struct redis_place place;      /* of the one master of ONE and SENTINEL */
    struct redis_watcher *watcher; /* owned; of SENTINEL; else NULL */
    struct redis_cluster *cluster; /* owned; of CLUSTER; else NULL */
    struct redis_news news;        /* of all its masters */
    /* redis.c's: */
    struct guard_host *host;
    struct host_soon closer;
    struct host_told told;
};
