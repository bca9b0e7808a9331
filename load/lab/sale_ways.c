/* SPDX-License-Identifier: MIT */
/*
 * sale_ways.c - ways of selling but for sale_segments.c; see sale.h.
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

#include <inttypes.h>
#include <stdio.h>

enum { LOCK_SLICE_MS = 5000, LEASE_MS = 2000 };

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
    static const char *const names[] = {"piece"};
    struct guard_lock_request request = GUARD_LOCK_REQUEST_DEFAULTS;
    struct guard_lock_result result;
    request.names = names;
    request.wait_ms = LOCK_SLICE_MS;
    request.lease_ms = LEASE_MS;
    if (guard_lock_wait(shop->locks, &request, &result, NULL) != GUARD_LOCK_OK)
        return SALE_AGAIN;
    const enum sale_outcome outcome = read_then_write(shop, buyer, result.fence[0]);
    guard_unlock_wait(&result.hold);
    return outcome;
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
static const struct sale_way mutex = {
    .name = "mutex",
    .title = "Redis mutex, fenced",
    .good_for = "work outside of the database: it saves effort, and the database checks the fence",
    .locks = true,
    .buy = buy_locked,
};

const struct sale_way *const sale_ways[] = {&unlocked, &for_update, &sale_segments, &mutex, NULL};
