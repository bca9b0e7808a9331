/* SPDX-License-Identifier: MIT */
/*
 * monitor.h - what Redis itself says happened to a lock and a value: its MONITOR stream.
 *
 *     monitor_start() -> everything Redis runs is buffered for us --> monitor_finish() --> events
 *                          |
 *                          +--> Redis was killed: monitor_lost(), then monitor_again() to the new one
 *
 * Kept are the commands that touch the lock or fill the value, in the order in which Redis ran them, with
 * Redis's own instants (turned into clock_us(); both clocks are this machine's) and the address of the
 * client; a command inside a script counts as its caller's.
 *
 * MONITOR shows no replies. Whether an attempt (SETNX, SET NX, the script of Redisson) took the lock is known
 * from the worker, which tells when it holds the lock: between this attempt and its next one. An unconditional
 * SET needs no such witness.
 *
 * Threads: one. Errors: false, and the reason on stderr.
 */
#pragma once

#include "load/lab/fleet.h"
#include "load/lab/scheme.h"
#include "load/stack/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MONITOR_EVENTS_MAX = 16384, MONITOR_ADDRESS_BYTES = 48 };

enum monitor_kind {
    MONITOR_ATTEMPT = 0, /* may have taken the lock */
    MONITOR_TAKE,        /* took it */
    MONITOR_EXPIRE,      /* the lock lives for ttl_ms from now on */
    MONITOR_DELETE,      /* the lock */
    MONITOR_FILL,        /* the value */
    MONITOR_LOST,        /* Redis was killed and is empty */
};

struct monitor_event {
    enum monitor_kind kind;
    uint64_t at_us;
    uint32_t ttl_ms;                     /* ATTEMPT, TAKE, EXPIRE; 0: for ever */
    char address[MONITOR_ADDRESS_BYTES]; /* of the client */
};

struct monitor {
    struct redisContext *context; /* owned; NULL: closed */
    char value_name[LAB_NAME_BYTES], lock_name[LAB_NAME_BYTES];
    char caller[MONITOR_ADDRESS_BYTES]; /* of the script that runs */
    struct monitor_event events[MONITOR_EVENTS_MAX];
    size_t event_count;
    bool is_full;
    uint64_t count_from_us,
        count_until_us;  /* calls between the two are counted; set before monitor_finish() */
    uint32_t call_count; /* commands that clients sent, not those that a script ran */
};

/* Forgets all events and begins to listen. */
bool monitor_start(struct monitor *monitor, const struct stack_redis *redis, const struct scheme *scheme,
                   const char *key);
/* Redis is dead: reads what it still sent. */
void monitor_lost(struct monitor *monitor);
/* Listens to the new one. */
bool monitor_again(struct monitor *monitor, const struct stack_redis *redis);
/* Reads everything up to now and closes. */
bool monitor_finish(struct monitor *monitor, struct stack_redis *redis);
void monitor_close(struct monitor *monitor);

/* The instant of the first fill; 0: none. */
uint64_t monitor_filled_us(const struct monitor *monitor);

/*
 * How often a client deleted a living lock that another one had taken. Deletions between the two instants are
 * an invalidation's, which voids a running load on purpose, and do not count.
 */
uint32_t monitor_wrong_deletions(const struct monitor *monitor, const struct fleet *fleet,
                                 uint64_t void_from_us, uint64_t void_until_us);
