/* SPDX-License-Identifier: MIT */
/*
 * sale_ways.c - ways of selling; see sale.h.
 *
 * A lock outside the database covers a read and a write inside it, in the order in which such code is usually written:
 *
 *     lock    SELECT stock    BEGIN; INSERT order; UPDATE stock; COMMIT    unlock
 *
 * With a fence the row hears of the grant before it is read, and takes the write only if it has heard of no later one; the
 * order goes with it. To check the fence at the write alone is not enough: a holder that has lost its lock may then write
 * between the read and the write of the next.
 *
 *     lock    UPDATE fence RETURNING stock    BEGIN; INSERT order; UPDATE stock WHERE fence is ours; COMMIT    unlock
 */
#include "load/lab/sale.h"

#include "guard/locks.h"
#include "load/base/clock.h"
#include "load/base/http.h"

#include <inttypes.h>
#include <stdio.h>

enum { LOCK_SLICE_MS = 5000, LEASE_MS = 2000, SERVICE_LIMIT_MS = 30000 };

#define ORDER "INSERT INTO sale_orders (buyer) VALUES (%" PRIu32 ")"

/* ---- in the database alone ---- */

/* COMMIT, or nothing has happened. */
static enum sale_outcome commit(struct sale_slot *slot)
{
    return sale_sql(slot, NULL, "COMMIT") ? SALE_BOUGHT : SALE_AGAIN;
}

/* Within a transaction that has seen the stock. */
static enum sale_outcome sell(struct sale_slot *slot, uint32_t buyer, int64_t stock)
{
    if (stock <= 0)
        return sale_sql(slot, NULL, "ROLLBACK") ? SALE_SOLD_OUT : SALE_AGAIN;
    if (!sale_sql(slot, NULL, ORDER "; UPDATE sale_stock SET stock = stock - 1", buyer))
        return SALE_AGAIN;
    return commit(slot);
}

static enum sale_outcome buy_for_update(struct sale_shop *shop, uint32_t buyer)
{
    struct sale_slot *slot = sale_slot_take(shop);
    int64_t stock;
    enum sale_outcome outcome = SALE_AGAIN;
    if (sale_sql(slot, NULL, "BEGIN") && sale_sql(slot, &stock, "SELECT stock FROM sale_stock FOR UPDATE"))
        outcome = sell(slot, buyer, stock);
    sale_slot_give(shop, slot);
    return outcome;
}

static enum sale_outcome buy_advisory(struct sale_shop *shop, uint32_t buyer)
{
    struct sale_slot *slot = sale_slot_take(shop);
    int64_t stock;
    enum sale_outcome outcome = SALE_AGAIN;
    if (sale_sql(slot, NULL, "BEGIN; SELECT pg_advisory_xact_lock(8)") &&
        sale_sql(slot, &stock, "SELECT stock FROM sale_stock"))
        outcome = sell(slot, buyer, stock);
    sale_slot_give(shop, slot);
    return outcome;
}

/* Of two that saw the same version, one changes no row. */
static enum sale_outcome change_version(struct sale_slot *slot, uint32_t buyer, int64_t seen)
{
    int64_t changed;
    if (!sale_sql(
            slot, &changed,
            "BEGIN; UPDATE sale_stock SET stock = stock - 1, version = version + 1 WHERE version = %" PRId64
            " AND stock > 0 RETURNING 1",
            seen))
        return SALE_AGAIN;
    if (changed != 1 || !sale_sql(slot, NULL, ORDER, buyer)) {
        sale_sql(slot, NULL, "ROLLBACK");
        return SALE_AGAIN;
    }
    return commit(slot);
}

static enum sale_outcome buy_optimistic(struct sale_shop *shop, uint32_t buyer)
{
    struct sale_slot *slot = sale_slot_take(shop);
    int64_t seen;
    enum sale_outcome outcome = SALE_AGAIN;
    if (sale_sql(slot, &seen, "SELECT CASE WHEN stock > 0 THEN version ELSE 0 END FROM sale_stock"))
        outcome = seen == 0 ? SALE_SOLD_OUT : change_version(slot, buyer, seen);
    sale_slot_give(shop, slot);
    return outcome;
}

/* ---- under a lock outside of it ---- */

/* fence 0: none is checked. *stock -1: the fence has moved on. */
static bool read_stock(struct sale_slot *slot, uint64_t fence, int64_t *stock)
{
    if (fence == 0)
        return sale_sql(slot, stock, "SELECT stock FROM sale_stock");
    return sale_sql(slot, stock,
                    "UPDATE sale_stock SET fence = %" PRIu64 " WHERE fence < %" PRIu64 " RETURNING stock",
                    fence, fence);
}

/* *changed: 1, or the fence has moved on. */
static bool take_piece(struct sale_slot *slot, uint64_t fence, int64_t *changed)
{
    if (fence == 0)
        return sale_sql(slot, changed, "UPDATE sale_stock SET stock = stock - 1 RETURNING 1");
    return sale_sql(slot, changed,
                    "UPDATE sale_stock SET stock = stock - 1 WHERE fence = %" PRIu64 " RETURNING 1", fence);
}

static enum sale_outcome refused(struct sale_shop *shop)
{
    atomic_fetch_add(&shop->sale->board->refused, 1);
    return SALE_AGAIN;
}

static enum sale_outcome write_order(struct sale_shop *shop, struct sale_slot *slot, uint32_t buyer,
                                     uint64_t fence)
{
    int64_t changed;
    if (!sale_sql(slot, NULL, "BEGIN; " ORDER, buyer) || !take_piece(slot, fence, &changed))
        return SALE_AGAIN;
    if (changed == 1)
        return commit(slot);
    sale_sql(slot, NULL, "ROLLBACK");
    return refused(shop);
}

static enum sale_outcome read_then_write(struct sale_shop *shop, uint32_t buyer, uint64_t fence)
{
    struct sale_slot *slot = sale_slot_take(shop);
    int64_t stock;
    enum sale_outcome outcome = SALE_AGAIN;
    if (read_stock(slot, fence, &stock))
        outcome = stock > 0                  ? write_order(shop, slot, buyer, fence)
                  : stock == 0 || fence == 0 ? SALE_SOLD_OUT
                                             : refused(shop);
    sale_slot_give(shop, slot);
    return outcome;
}

static enum sale_outcome buy_unlocked(struct sale_shop *shop, uint32_t buyer)
{
    return read_then_write(shop, buyer, 0);
}

static enum sale_outcome buy_locked(struct sale_shop *shop, uint32_t buyer)
{
    const struct sale_way *way = shop->sale->way;
    static const char *const names[] = {"piece"};
    struct guard_lock_request request = GUARD_LOCK_REQUEST_DEFAULTS;
    struct guard_lock_result result;
    request.kind = (enum guard_lock_kind)way->kind;
    request.names = names;
    request.wait_ms = LOCK_SLICE_MS;
    request.lease_ms = LEASE_MS;
    if (guard_lock_wait(shop->locks, &request, &result, NULL) != GUARD_LOCK_OK)
        return SALE_AGAIN;
    const enum sale_outcome outcome = read_then_write(shop, buyer, way->fenced ? result.fence[0] : 0);
    guard_unlock_wait(&result.hold);
    return outcome;
}

/* ---- the service ---- */

static enum sale_outcome buy_service(struct sale_shop *shop, uint32_t buyer)
{
    static const char body[] = "{\"quantity\": 1}";
    char path[64], headers[128];
    struct http_answer answer;
    snprintf(path, sizeof path, "/products/%d/purchase", SALE_ROW);
    snprintf(headers, sizeof headers,
             "Content-Type: application/json\r\nIdempotency-Key: buyer-%" PRIu32 "\r\n", buyer);
    const struct http_request request = {.host = "127.0.0.1",
                                         .port = shop->sale->catalogd.port,
                                         .method = "POST",
                                         .path = path,
                                         .headers = headers,
                                         .body = body,
                                         .body_bytes = sizeof body - 1,
                                         .deadline_ms = SERVICE_LIMIT_MS};
    http_ask(&request, &answer);
    const uint16_t status = answer.status;
    http_answer_clear(&answer);
    return status == 200 ? SALE_BOUGHT : status == 409 ? SALE_SOLD_OUT : SALE_AGAIN;
}

/* ---- all of them ---- */

static const struct sale_way unlocked = {
    .name = "unlocked",
    .title = "read, then write; no lock",
    .good_for = "nothing: it is here to show that overselling would be seen",
    .is_control = true,
    .buy = buy_unlocked,
};
static const struct sale_way for_update = {
    .name = "for-update",
    .title = "SELECT ... FOR UPDATE",
    .good_for = "the row is the lock: right by itself, one purchase after the other",
    .buy = buy_for_update,
};
static const struct sale_way optimistic = {
    .name = "optimistic",
    .title = "version compared, tried again",
    .good_for = "rows that few change at once; a hot one makes losers ask again and again",
    .buy = buy_optimistic,
};
static const struct sale_way advisory = {
    .name = "advisory",
    .title = "pg_advisory_xact_lock",
    .good_for = "what is not one row; ends with its transaction",
    .buy = buy_advisory,
};
static const struct sale_way unfenced = {
    .name = "unfenced",
    .title = "Redis mutex, fence not checked",
    .good_for = "work that may be done twice: it saves effort, not data",
    .is_control = true,
    .locks = true,
    .kind = GUARD_LOCK_MUTEX,
    .buy = buy_locked,
};
static const struct sale_way mutex = {
    .name = "mutex",
    .title = "Redis mutex, fenced",
    .good_for = "short work without order",
    .locks = true,
    .fenced = true,
    .kind = GUARD_LOCK_MUTEX,
    .buy = buy_locked,
};
static const struct sale_way fair = {
    .name = "fair",
    .title = "Redis fair lock, fenced",
    .good_for = "first come, first served across a fleet",
    .locks = true,
    .fenced = true,
    .kind = GUARD_LOCK_FAIR,
    .buy = buy_locked,
};
static const struct sale_way redlock = {
    .name = "redlock",
    .title = "RedLock on 3 masters, fenced",
    .good_for = "a lock service that outlives a master; not for a crowd",
    .locks = true,
    .redlock = true,
    .fenced = true,
    .kind = GUARD_LOCK_MUTEX,
    .buy = buy_locked,
};
static const struct sale_way service = {
    .name = "service",
    .title = "the service: POST /products/1/purchase",
    .good_for = "what catalogd does: FOR UPDATE in one statement, each purchase remembered by its key",
    .by_service = true,
    .buy = buy_service,
};

const struct sale_way *const sale_ways[] = {
    &unlocked, &for_update, &optimistic,    &advisory, &unfenced, &mutex,
    &fair,     &redlock,    &sale_segments, &service,  NULL,
};
