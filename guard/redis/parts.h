/* SPDX-License-Identifier: MIT */
/*
 * redis/parts.h - what the files of a connection know of each other. Private to redis.c and redis/send.c.
 *
 *   redis.c       the stages: made, greeted, up, lost; what is written and read, limits
 *   redis/send.c  commands: the owner's, and those by which the connection knows that it is at the master
 *
 * Threads  the loop's.
 */
#ifndef GUARD_REDIS_PARTS_H
#define GUARD_REDIS_PARTS_H

#include "../base/chance.h"
#include "../base/clock.h"
#include "greeting.h"
#include "pipeline.h"
#include "reader.h"
#include "socket.h"

enum { REDIS_TEXT_SIZE = REDIS_LABEL_SIZE + REDIS_WHY_SIZE };

#define REDIS_FENCED_TEXT "fenced: a master without its replicas; another may have taken its place"

enum stage {
    STAGE_RESTING,  /* until rest is over; no socket */
    STAGE_REACHING, /* DNS and connect */
    STAGE_GREETING, /* login and what belongs to it is sent */
    STAGE_PROVING,  /* it was greeted and will be asked once more */
    STAGE_UP,
    STAGE_CLOSED,
    STAGE_COUNT,
};

struct redis {
    struct redis_config config; /* channel and client_name are owned copies */
    char label[REDIS_LABEL_SIZE];
    struct redis_counters own_counters; /* where the owner has none */
    struct redis_counters *counters;
    struct redis_reign own_reign; /* likewise */
    struct redis_reign *reign;
    struct chance chance;

    struct guard_host *host;
    struct host_timer timer;
    struct host_soon flusher, closer;
    void (*closed)(void *context);
    void *closed_context;

    enum stage stage;
    uint64_t stage_ends_ms; /* RESTING: the next attempt; REACHING, GREETING: the limit; PROVING: its end */
    uint32_t failures;      /* in a row */
    uint64_t epoch;
    uint64_t batches;                /* written, or begun to be */
    struct redis_socket *socket;     /* owned; NULL: RESTING, CLOSED */
    struct redis_reader reader;      /* open while there is a socket */
    struct redis_greeting greeting;  /* its fence is the connection's */
    struct redis_buffer hello;       /* the greeting's commands */
    unsigned greetings;              /* answered on this socket */
    bool proves;                     /* the server did not answer in time: greeted twice */
    bool is_master;                  /* the last ROLE said so */
    uint64_t reign_seen, generation; /* before the greeting; under which it came up */

    struct redis_pipeline pipeline;
    bool counted; /* something of it has been, since the last batch */

    enum guard_redis_state told_state;
    char told_text[REDIS_TEXT_SIZE];
    uint64_t denied_until_ms; /* UP, but told DENIED: for this long */
};

static inline uint64_t redis_now_ms(void)
{
    return clock_now_us() / 1000;
}

static inline void redis_count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- redis.c ---- */

/* Another master was confirmed, or this one is none: nothing that comes over it reaches anybody. */
bool redis_is_void(const struct redis *redis);
/* What it is while it is up: told after whatever may have changed that. */
void redis_tell_up(struct redis *redis);
/* An earlier ring that is set already will do: it sets the next one. */
void redis_ring_by(struct redis *redis, uint64_t at_ms);
/* Commands leave before the loop waits again. */
void redis_flush_this_turn(struct redis *redis);
/* Gives the connection up. What waited for it to come up goes on waiting; what was entrusted to it is answered. Callers
 * touch nothing afterwards that belongs to the old epoch. */
void redis_lose(struct redis *redis, enum guard_redis_state state, const char *why);
/* The server is a replica: no connection of the process has any business with it. */
void redis_lose_demoted(struct redis *redis, const struct redisReply *reply);

/* ---- redis/send.c ---- */

/* The heartbeat; a subscriber may not ask, but notices that its reign is over. */
void redis_beat_if_due(struct redis *redis);

#endif
