/* SPDX-License-Identifier: MIT */
/*
 * redis_rig.h - a loop with one Redis connection, for tests.
 *
 * Everything is waited for on that loop, until it has happened or RIG_WAIT_MS are over: then the test fails.
 * Closing looks that nothing is left, in the loop or among the process's descriptors.
 */
#pragma once

#include "guard/redis/redis.h"
#include "tests/support/test.h"
#include <uv.h>

enum { RIG_WAIT_MS = 40000, RIG_TICK_MS = 20, RIG_LIMIT_MS = 20000, RIG_TOLD_MAX = 64 };

/* The one of the program. */
extern struct rig {
    uv_loop_t loop;
    struct guard_host *host; /* NULL: finished, or not begun */
    struct guard_host_state host_state;
    uv_timer_t tick;
    uint64_t wait_began_us;
    struct redis_topology *topology; /* of the url; NULL: closed */
    struct redis_config config;
    struct redis_counters counters;
    struct redis *redis; /* NULL: closed */
    bool closed;
    enum guard_redis_state states[RIG_TOLD_MAX]; /* all that were told */
    size_t state_count;
    char text[600]; /* the last one */
    size_t message_count;
    char message[64];        /* the last one */
    size_t descriptor_count; /* before */
} rig;

/* One command and its answer. */
struct call {
    unsigned answered;
    enum redis_outcome outcome;
    int type;
    long long integer;
    char text[160];
    size_t bytes;
};

/* A loop, and a configuration that the test may change before rig_open(). */
void rig_prepare(const char *url);
void rig_open(void);
/* Both. */
void rig_start(const char *url);

/* Once the connection is up. */
void rig_wait_up(void);
void rig_expect_pong(void);

/* One turn of the loop; false once RIG_WAIT_MS have passed since the wait began. A turn in which a timer has rung
 * still waits for a descriptor (libuv before 1.45): the tick ends it, for that timer may be all that is waited
 * for. */
bool rig_turn(void);

#define rig_wait_until(condition)                                                                            \
    do {                                                                                                     \
        while (!(condition))                                                                                 \
            if (!rig_turn())                                                                                 \
                fail_msg("waited for %s; last state: %s", #condition, rig.text);                             \
        uv_timer_stop(&rig.tick);                                                                            \
    } while (0)

/* Closes the connection and waits until it is; does nothing if the test has. */
void rig_close(void);
/* The same, then the loop; does nothing if the test has, or has no rig. Before each test of a group that ends with
 * it: rig_forget(), since one that failed has left its rig as it was. */
void rig_finish(void);
bool rig_forget(void);
void rig_closed(void *unused); /* for a test that calls redis_close() itself */

/* Sends the words as one command. */
#define call_send(call, ...)                                                                                 \
    call_send_words(call, (const char *const[]){__VA_ARGS__},                                                \
                    sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
void call_send_words(struct call *call, const char *const *words, size_t word_count);
/* Renews the lease of this name: 1 if it is there with the token "token", else 0. */
void call_renew(struct call *call, const char *name);
/* redis_replied, with a call as the context. */
void call_replied(void *call, enum redis_outcome outcome, const struct redisReply *reply);

uint64_t elapsed_ms(uint64_t since_ns);
