/* SPDX-License-Identifier: MIT */
/*
 * sale_segments.c - the counter in parts: a hot number that Redis keeps in SEGMENTS keys, each in a slot of its own.
 *
 *     reserve a piece in a segment, the next one if it is empty      Redis, one script
 *     order, if the generation is still the row's                    PostgreSQL
 *     confirm: the reservation goes                                  Redis
 *
 * Asking twice for one reservation takes one piece. It ends after RESERVED_MS, and what its buyer never ordered (a process
 * that was killed) goes back into its segment: the buyer that finds it overdue settles it. A reservation is settled once, by its
 * order or by that, which the primary key of sale_settled decides; so a late order and a piece that went back exclude each
 * other. 100 pieces do not divide by 16: the first segments have the remainder, also of a restock.
 *
 * A Redis that comes back empty has no segments. Then one buyer, under a fair lock of the fleet, makes them anew from the
 * orders, with the fencing number of its grant as their generation, which it first writes into the row. An order names the
 * generation of its reservation and is refused if the row has another: so what was reserved before the loss cannot be
 * ordered beside what was counted after it. The orders' FOR SHARE of the row makes that exact.
 *
 * "Sold out" needs all segments empty and no reservation open: one of those may come back.
 */
#include "load/lab/sale.h"

#include "guard/locks.h"
#include "load/base/clock.h"

#include <hiredis/hiredis.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEGMENTS = 16, RESERVED_MS = 1000, MAKE_LEASE_MS = 2000, MAKE_WAIT_MS = 1000 };

/* KEYS left, reserved    ARGV reservation, RESERVED_MS
 * -1: there is no such segment, 0: empty and nothing may come back, 1: reserved, 2: empty for now */
static const char reserve_script[] =
    "local left = tonumber(redis.call('GET', KEYS[1]) or -1) "
    "if left < 0 then return -1 end "
    "local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) "
    "if redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 1 end "
    "if left == 0 then return redis.call('ZCARD', KEYS[2]) > 0 and 2 or 0 end "
    "redis.call('DECR', KEYS[1]) "
    "redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1]) "
    "return 1";

/* KEYS reserved: those whose time is over. */
static const char overdue_script[] =
    "local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) "
    "return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)";

/* KEYS left, reserved    ARGV reservation: its piece goes back, once */
static const char return_script[] =
    "if redis.call('ZREM', KEYS[2], ARGV[1]) == 1 then redis.call('INCR', KEYS[1]) end return 1";

/* KEYS left    ARGV pieces */
static const char fill_script[] = "return redis.call('SET', KEYS[1], ARGV[1])";
static const char restock_script[] =
    "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('INCRBY', KEYS[1], ARGV[1]) end return 1";

/* ---- Redis ---- */

struct segment {
    char left[48], reserved[48];
};

static struct segment segment_names(uint64_t generation, uint32_t number)
{
    struct segment segment;
    snprintf(segment.left, sizeof segment.left, "{sale:%" PRIu32 "}:%" PRIu64 ":left", number, generation);
    snprintf(segment.reserved, sizeof segment.reserved, "{sale:%" PRIu32 "}:%" PRIu64 ":held", number,
             generation);
    return segment;
}

enum { NO_ANSWER = -2 };

static long long number_of(struct redisReply *reply)
{
    const long long number = reply != NULL && reply->type == REDIS_REPLY_INTEGER ? reply->integer : NO_ANSWER;
    freeReplyObject(reply);
    return number;
}

static long long reserve(struct redisContext *redis, const struct segment *segment, uint64_t reservation)
{
    return number_of(redisCommand(redis, "EVAL %s 2 %s %s %llu %d", reserve_script, segment->left,
                                  segment->reserved, (unsigned long long)reservation, (int)RESERVED_MS));
}

/* ---- segments anew ---- */

/* What is left, in shares that differ by one at most. */
static bool fill_segments(struct redisContext *redis, uint64_t generation, int64_t pieces, const char *script)
{
    bool good = pieces >= 0;
    for (uint32_t i = 0; good && i < SEGMENTS; i++) {
        const struct segment segment = segment_names(generation, i);
        const int64_t share = pieces / SEGMENTS + (i < pieces % SEGMENTS ? 1 : 0);
        struct redisReply *reply =
            redisCommand(redis, "EVAL %s 1 %s %lld", script, segment.left, (long long)share);
        good = reply != NULL && reply->type != REDIS_REPLY_ERROR;
        freeReplyObject(reply);
    }
    return good;
}

/* Under the lock: the row's generation becomes the fence, unless another's has already. */
static bool begin_generation(struct sale_slot *slot, uint64_t fence, int64_t *left)
{
    int64_t changed;
    if (!sale_sql(slot, &changed,
                  "BEGIN; UPDATE sale_stock SET fence = %" PRIu64 " WHERE fence < %" PRIu64 " RETURNING 1",
                  fence, fence))
        return false;
    if (changed != 1 ||
        !sale_sql(slot, left, "SELECT stock - (SELECT count(*) FROM sale_orders) FROM sale_stock")) {
        sale_sql(slot, NULL, "ROLLBACK");
        return false;
    }
    return sale_sql(slot, NULL, "COMMIT");
}

static bool has_segments(struct redisContext *redis, uint64_t generation)
{
    const struct segment last = segment_names(generation, SEGMENTS - 1); /* it is filled last */
    return number_of(redisCommand(redis, "EXISTS %s", last.left)) == 1;
}

/* The row's generation; its segments are made if Redis does not have them. 0: not now. */
static uint64_t make_segments(struct sale_shop *shop, struct sale_slot *slot, struct redisContext *redis,
                              uint64_t fence)
{
    int64_t present, left;
    if (!sale_sql(slot, &present, "SELECT fence FROM sale_stock"))
        return 0;
    if (present > 0 && has_segments(redis, (uint64_t)present))
        return (uint64_t)present;
    if (begin_generation(slot, fence, &left))
        return fill_segments(redis, fence, left, fill_script) ? fence : 0;
    atomic_fetch_add(&shop->sale->board->refused, 1);
    return 0;
}

static uint64_t get_generation(struct sale_shop *shop)
{
    pthread_mutex_lock(&shop->mutex);
    const uint64_t generation = shop->generation;
    pthread_mutex_unlock(&shop->mutex);
    return generation;
}

/* The generation under the lock of the fleet; 0: not now. Without a slot: it waits for the lock. */
static uint64_t ask_generation(struct sale_shop *shop)
{
    static const char *const names[] = {"segments"};
    struct guard_lock_request request = GUARD_LOCK_REQUEST_DEFAULTS;
    struct guard_lock_result result;
    request.names = names;
    request.wait_ms = MAKE_WAIT_MS;
    request.lease_ms = MAKE_LEASE_MS;
    if (guard_lock_wait(shop->locks, &request, &result, NULL) != GUARD_LOCK_OK)
        return 0;
    struct sale_slot *slot = sale_slot_take(shop);
    struct redisContext *redis = sale_redis(shop->sale, slot);
    const uint64_t generation = redis != NULL ? make_segments(shop, slot, redis, result.fence[0]) : 0;
    sale_slot_give(shop, slot);
    guard_unlock_wait(&result.hold);
    return generation;
}

/* One thread of a process looks for it, and only if no other has found one since. */
static void find_generation(struct sale_shop *shop, uint64_t lost)
{
    pthread_mutex_lock(&shop->mutex);
    const bool is_mine = shop->generation == lost && !shop->finds_generation;
    shop->finds_generation = shop->finds_generation || is_mine;
    pthread_mutex_unlock(&shop->mutex);
    if (!is_mine)
        return;
    const uint64_t generation = ask_generation(shop);
    pthread_mutex_lock(&shop->mutex);
    shop->generation = generation != 0 ? generation : lost;
    shop->finds_generation = false;
    pthread_mutex_unlock(&shop->mutex);
}

/* The row first: a maker of a new generation in between counts it already, and the old one's keys are of no use. The same
 * if Redis is lost meanwhile. */
static bool restock_segments(struct sale *sale)
{
    static const char statement[] = "UPDATE sale_stock SET stock = stock + %d RETURNING fence";
    struct sale_slot slot = {.redis = NULL};
    char text[sizeof statement + 16], fence[24];
    snprintf(text, sizeof text, statement, (int)SALE_RESTOCK);
    if (!stack_postgres_query(sale->postgres->url, text, fence, sizeof fence))
        return false;
    struct redisContext *redis = sale_redis(sale, &slot);
    if (redis == NULL)
        return true;
    fill_segments(redis, strtoull(fence, NULL, 10), SALE_RESTOCK, restock_script);
    redisFree(redis);
    return true;
}

/* ---- buying ---- */

/* A reservation that was refused is not used again. */
static _Thread_local uint64_t attempt;
enum { ATTEMPTS = 1000 };

/* What is overdue is settled as not ordered, unless its order was first. */
static void reap(struct sale_slot *slot, struct redisContext *redis, const struct segment *segment)
{
    struct redisReply *overdue = redisCommand(redis, "EVAL %s 1 %s", overdue_script, segment->reserved);
    for (size_t i = 0; overdue != NULL && overdue->type == REDIS_REPLY_ARRAY && i < overdue->elements; i++) {
        const char *reservation = overdue->element[i]->str;
        int64_t ordered;
        if (!sale_sql(slot, &ordered,
                      "INSERT INTO sale_settled VALUES (%s) ON CONFLICT DO NOTHING; "
                      "SELECT count(*) FROM sale_orders WHERE reservation = %s",
                      reservation, reservation))
            break;
        if (ordered > 0)
            freeReplyObject(redisCommand(redis, "ZREM %s %s", segment->reserved, reservation));
        else
            freeReplyObject(redisCommand(redis, "EVAL %s 2 %s %s %s", return_script, segment->left,
                                         segment->reserved, reservation));
    }
    freeReplyObject(overdue);
}

static enum sale_outcome order(struct sale_shop *shop, struct sale_slot *slot, uint32_t buyer,
                               uint64_t generation, uint64_t reservation)
{
    int64_t ordered;
    if (!sale_sql(slot, &ordered,
                  "WITH present AS MATERIALIZED (SELECT FROM sale_stock WHERE fence = %" PRIu64
                  " FOR SHARE), "
                  "settled AS (INSERT INTO sale_settled SELECT %" PRIu64
                  " FROM present ON CONFLICT DO NOTHING RETURNING reservation) "
                  "INSERT INTO sale_orders (buyer, reservation) SELECT %" PRIu32
                  ", reservation FROM settled RETURNING 1",
                  generation, reservation, buyer))
        return SALE_AGAIN;
    if (ordered == 1)
        return SALE_BOUGHT;
    atomic_fetch_add(&shop->sale->board->refused, 1);
    attempt++;
    return SALE_AGAIN;
}

enum found { FOUND_NO_SEGMENT, FOUND_EMPTY, FOUND_PENDING, FOUND_PIECE };

/* From the buyer's own segment on; *segment is where it has a piece. */
static enum found find_piece(struct sale_slot *slot, struct redisContext *redis, uint64_t generation,
                             uint64_t reservation, struct segment *segment)
{
    enum found found = FOUND_EMPTY;
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        *segment = segment_names(generation, (uint32_t)((reservation / ATTEMPTS + i) % SEGMENTS));
        const long long reserved = reserve(redis, segment, reservation);
        if (reserved < 0)
            return FOUND_NO_SEGMENT;
        if (reserved == 1)
            return FOUND_PIECE;
        if (reserved == 2) {
            reap(slot, redis, segment);
            found = FOUND_PENDING;
        }
    }
    return found;
}

/* *missing: the segments of this generation are not there, or it is not the row's any more. */
static enum sale_outcome buy_in(struct sale_shop *shop, struct sale_slot *slot, uint64_t generation,
                                uint32_t buyer, bool *missing)
{
    const uint64_t reservation = (uint64_t)buyer * ATTEMPTS + attempt % ATTEMPTS;
    struct redisContext *redis = sale_redis(shop->sale, slot);
    struct segment segment;
    *missing = false;
    if (redis == NULL)
        return SALE_AGAIN;
    const enum found found = find_piece(slot, redis, generation, reservation, &segment);
    *missing = found == FOUND_NO_SEGMENT;
    if (found != FOUND_PIECE)
        return found == FOUND_EMPTY ? SALE_SOLD_OUT : SALE_AGAIN;
    const enum sale_outcome outcome = order(shop, slot, buyer, generation, reservation);
    if (outcome == SALE_BOUGHT)
        freeReplyObject(
            redisCommand(redis, "ZREM %s %llu", segment.reserved, (unsigned long long)reservation));
    *missing = outcome != SALE_BOUGHT;
    return outcome;
}

static enum sale_outcome buy_segments(struct sale_shop *shop, uint32_t buyer)
{
    const uint64_t generation = get_generation(shop);
    bool missing = generation == 0;
    enum sale_outcome outcome = SALE_AGAIN;
    if (!missing) {
        struct sale_slot *slot = sale_slot_take(shop);
        outcome = buy_in(shop, slot, generation, buyer, &missing);
        sale_slot_give(shop, slot);
    }
    if (missing)
        find_generation(shop, generation);
    return outcome;
}

const struct sale_way sale_segments = {
    .name = "segments",
    .title = "counter in 16 parts, reserved, ordered",
    .good_for = "more buyers a second than one row can take; needs a generation and a reaper",
    .by_parts = true,
    .locks = true,
    .restock = restock_segments,
    .buy = buy_segments,
};
