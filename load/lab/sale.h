/* SPDX-License-Identifier: MIT */
/*
 * sale.h - the flash sale (秒杀): two thousand buyers, a hundred pieces, one row; by one way of selling after the other.
 *
 *     sale.c           controller: servers, the sale, what is struck down in the middle, the figures
 *     sale_buyers.c    a process of buyers: threads that all ask at one instant, and the connections they share
 *     sale_ways.c      without a lock, the row as the one counter, under a lock whose fence the database checks
 *     sale_segments.c  the counter in parts
 *
 * 70 pieces are there at the beginning, 30 more come when 34 were ordered. Every way sells twice: once with nothing wrong,
 * and once (`struck`) where the process that is about to commit the 34th order is killed, and Redis is killed and comes
 * back empty under the 67th; under the last one, where a lock outside of the database guards it. Neither is timed: a trigger
 * on the orders waits for an advisory lock of the controller's.
 *
 * The truth is the table of orders in PostgreSQL; a buyer's own idea of it counts only for its latency and its turn.
 *
 * Threads    a slot is one thread's at a time; everything else as it says.
 */
#ifndef LOAD_LAB_SALE_H
#define LOAD_LAB_SALE_H

#include "load/stack/stack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pg_conn;
struct guard_locks;
struct redisContext;

enum {
    SALE_PROCESSES = 4,
    SALE_BUYERS = 2000,
    SALE_FIRST = 70,
    SALE_RESTOCK = 30,
    SALE_PIECES = SALE_FIRST + SALE_RESTOCK,
    SALE_LIMIT_MS = 45000, /* a buyer gives up */
    SALE_GATE = 7,         /* class of the controller's advisory locks; the number is that of the order */
    SALE_RESTOCK_AT = 34,
    SALE_STRIKE_AT = 67,
};

enum sale_outcome {
    SALE_WAITS = 0,
    SALE_BOUGHT,
    SALE_SOLD_OUT,
    SALE_GAVE_UP,
    SALE_AGAIN /* never a last one */
};

struct sale_buyer {
    _Atomic uint32_t outcome;
    uint32_t turn; /* it was the so-manieth to ask, from 0 */
    uint64_t asked_us, answered_us;
};

/* Shared by all processes, any of which may be killed: no lock in here. */
struct sale_board {
    _Atomic bool begun, restocked;
    _Atomic uint32_t ready, asked;
    _Atomic uint32_t refused; /* writes that came too late and were refused */
    struct sale_buyer buyers[SALE_BUYERS];
};

/* What a way works with; the same in all processes of a sale. */
struct sale {
    const struct sale_way *way;
    struct sale_board *board;
    struct stack_postgres *postgres;
    struct stack_redis *redis;
};

/* Connections for one buyer at a time. */
struct sale_slot {
    struct pg_conn *postgres;
    struct redisContext *redis; /* NULL: none yet, or it broke */
    bool complains;             /* of refused statements, on stderr: the controller's */
};

/* A thread that waits for a slot. */
struct sale_place {
    pthread_cond_t lent;
    struct sale_slot *slot; /* NULL: not yet */
    struct sale_place *next;
};

/* One process of buyers. */
struct sale_shop {
    const struct sale *sale;
    uint32_t index;
    struct guard_locks *locks; /* of ways with one */
    pthread_mutex_t mutex;     /* of what follows */
    pthread_cond_t begins;
    bool begun;
    uint64_t generation;   /* of the segments, as far as this process knows; 0: not */
    bool finds_generation; /* a thread does */
    struct sale_slot slots[8];
    uint32_t free_slots;                    /* a bit for each; none while somebody waits */
    struct sale_place *places, *last_place; /* in the queue for a slot */
};

struct sale_way {
    const char *name, *title;
    const char *good_for;
    bool is_control;                    /* it is here to show that overselling would be seen */
    bool by_parts;                      /* its stock is what the orders leave of the total */
    bool locks;                         /* it needs guard/locks.h */
    bool (*restock)(struct sale *sale); /* in the controller; NULL: the row's stock grows, no more */
    enum sale_outcome (*buy)(struct sale_shop *shop, uint32_t buyer);
};

extern const struct sale_way *const sale_ways[]; /* ends with NULL */

/* `lab sale [WAY...]`; the exit status. */
int sale_main(int argc, char **argv);

/* ---- sale_buyers.c ---- */

/* The process of these buyers; does not return. */
_Noreturn void sale_shop_run(const struct sale *sale, uint32_t index);

/* Waits for a slot; first come, first served. */
struct sale_slot *sale_slot_take(struct sale_shop *shop);
void sale_slot_give(struct sale_shop *shop, struct sale_slot *slot);

/* Statements, printf-like, one after the other; the first column of the last one's first row goes into *value (may be NULL;
 * -1: no row). False: refused or the connection broke; a transaction that was open is then rolled back. */
bool sale_sql(struct sale_slot *slot, int64_t *value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A connection to Redis, made again if it broke; NULL: not now. */
struct redisContext *sale_redis(const struct sale *sale, struct sale_slot *slot);

/* ---- sale_segments.c ---- */

extern const struct sale_way sale_segments;

#endif
