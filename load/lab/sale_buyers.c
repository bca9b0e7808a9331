/* SPDX-License-Identifier: MIT */
/* sale_buyers.c - a process of buyers; see sale.h. */
#include "load/lab/sale.h"

#include "app/common/redis_link.h"
#include "guard/locks.h"
#include "load/base/clock.h"

#include <hiredis/hiredis.h>
#include <libpq-fe.h>

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    REDIS_LIMIT_MS = 1000,
    SLOTS = sizeof((struct sale_shop *)0)->slots / sizeof(struct sale_slot),
    STACK_BYTES = 256 << 10,
    STATEMENT_BYTES = 1024,
    AGAIN_MS = 20,
};

static _Noreturn void die(const struct sale_shop *shop, const char *what, const char *why)
{
    fprintf(stderr, "lab: sale: process %" PRIu32 ": %s: %s\n", shop->index, what, why);
    _exit(1);
}

/* ---- slots ---- */

static void stand_in_line(struct sale_shop *shop, struct sale_place *place)
{
    *(shop->places == NULL ? &shop->places : &shop->last_place->next) = place;
    shop->last_place = place;
}

struct sale_slot *sale_slot_take(struct sale_shop *shop)
{
    static _Thread_local struct sale_place place = {.lent = PTHREAD_COND_INITIALIZER};
    place.slot = NULL;
    place.next = NULL;
    pthread_mutex_lock(&shop->mutex);
    if (shop->free_slots != 0) {
        const unsigned at = (unsigned)__builtin_ctz(shop->free_slots);
        shop->free_slots &= ~(1U << at);
        place.slot = &shop->slots[at];
    } else {
        stand_in_line(shop, &place);
    }
    while (place.slot == NULL)
        pthread_cond_wait(&place.lent, &shop->mutex);
    pthread_mutex_unlock(&shop->mutex);
    return place.slot;
}

void sale_slot_give(struct sale_shop *shop, struct sale_slot *slot)
{
    pthread_mutex_lock(&shop->mutex);
    struct sale_place *first = shop->places;
    if (first != NULL) {
        shop->places = first->next;
        first->slot = slot;
        pthread_cond_signal(&first->lent);
    } else {
        shop->free_slots |= 1U << (slot - shop->slots);
    }
    pthread_mutex_unlock(&shop->mutex);
}

bool sale_sql(struct sale_slot *slot, int64_t *value, const char *format, ...)
{
    char statement[STATEMENT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(statement, sizeof statement, format, arguments);
    va_end(arguments);
    PGresult *result = PQexec(slot->postgres, statement);
    const ExecStatusType status = PQresultStatus(result);
    const bool good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    if (value != NULL)
        *value = good && PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : -1;
    PQclear(result);
    if (!good && slot->complains)
        fprintf(stderr, "lab: sale: %s: %s", statement, PQerrorMessage(slot->postgres));
    if (!good && PQtransactionStatus(slot->postgres) == PQTRANS_INERROR)
        PQclear(PQexec(slot->postgres, "ROLLBACK"));
    return good;
}

struct redisContext *sale_redis(const struct sale *sale, struct sale_slot *slot)
{
    if (slot->redis != NULL && slot->redis->err == 0)
        return slot->redis;
    redisFree(slot->redis);
    slot->redis = redis_link_to_port(sale->redis->port, REDIS_LIMIT_MS);
    return slot->redis;
}

/* ---- buyers ---- */

struct buyer_thread {
    struct sale_shop *shop;
    uint32_t buyer;
    pthread_t thread;
};

/* Until it has bought, everything is sold, or it gives up. */
static void *shop_for(void *context)
{
    struct buyer_thread *self = context;
    struct sale_board *board = self->shop->sale->board;
    struct sale_buyer *buyer = &board->buyers[self->buyer];
    pthread_mutex_lock(&self->shop->mutex);
    atomic_fetch_add(&board->ready, 1);
    while (!self->shop->begun)
        pthread_cond_wait(&self->shop->begins, &self->shop->mutex);
    pthread_mutex_unlock(&self->shop->mutex);
    buyer->turn = atomic_fetch_add(&board->asked, 1);
    buyer->asked_us = clock_us();
    const uint64_t end_us = clock_after_ms(SALE_LIMIT_MS);
    enum sale_outcome outcome = SALE_AGAIN;
    while (outcome == SALE_AGAIN && clock_us() < end_us) {
        /* More pieces are announced: who comes between the two finds none, and asks again. */
        const bool restocked = atomic_load(&self->shop->sale->board->restocked);
        outcome = self->shop->sale->way->buy(self->shop, self->buyer);
        if (outcome == SALE_SOLD_OUT && !restocked)
            outcome = SALE_AGAIN;
        if (outcome == SALE_AGAIN)
            clock_pause_ms(AGAIN_MS);
    }
    outcome = outcome == SALE_AGAIN ? SALE_GAVE_UP : outcome;
    buyer->answered_us = clock_us();
    atomic_store(&buyer->outcome, outcome);
    return NULL;
}

/* ---- the process ---- */

static void open_locks(struct sale_shop *shop)
{
    const struct sale *sale = shop->sale;
    struct guard_locks_config config = GUARD_LOCKS_CONFIG_DEFAULTS;
    struct guard_error error;
    const char *urls[] = {sale->redis->url};
    config.provider = GUARD_LOCKS_REDIS;
    config.urls = urls;
    config.url_count = 1;
    config.name_space = "sale";
    config.log = guard_log_none;
    if (guard_locks_open(&config, &shop->locks, &error) != GUARD_OK)
        die(shop, "locks", error.text);
}

static void open_slots(struct sale_shop *shop)
{
    char url[256];
    snprintf(url, sizeof url, "%s?application_name=sale%" PRIu32, shop->sale->postgres->url, shop->index);
    for (size_t i = 0; i < SLOTS; i++) {
        shop->slots[i].postgres = PQconnectdb(url);
        if (PQstatus(shop->slots[i].postgres) != CONNECTION_OK)
            die(shop, "PostgreSQL", PQerrorMessage(shop->slots[i].postgres));
    }
    shop->free_slots = (1U << SLOTS) - 1;
}

static void close_shop(struct sale_shop *shop)
{
    guard_locks_close(&shop->locks, 1000);
    for (size_t i = 0; i < SLOTS; i++) {
        PQfinish(shop->slots[i].postgres);
        redisFree(shop->slots[i].redis);
    }
}

_Noreturn void sale_shop_run(const struct sale *sale, uint32_t index)
{
    enum { MINE = SALE_BUYERS / SALE_PROCESSES };
    static struct buyer_thread threads[MINE];
    static struct sale_shop shop = {.mutex = PTHREAD_MUTEX_INITIALIZER, .begins = PTHREAD_COND_INITIALIZER};
    pthread_attr_t small;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    shop.sale = sale;
    shop.index = index;
    open_slots(&shop);
    if (sale->way->locks)
        open_locks(&shop);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    for (uint32_t i = 0; i < MINE; i++) {
        threads[i].shop = &shop;
        threads[i].buyer = i * SALE_PROCESSES + index;
        if (pthread_create(&threads[i].thread, &small, shop_for, &threads[i]) != 0)
            die(&shop, "thread", "none to be had");
    }
    while (!atomic_load(&sale->board->begun))
        clock_pause_ms(1);
    pthread_mutex_lock(&shop.mutex);
    shop.begun = true;
    pthread_cond_broadcast(&shop.begins);
    pthread_mutex_unlock(&shop.mutex);
    for (uint32_t i = 0; i < MINE; i++)
        pthread_join(threads[i].thread, NULL);
    close_shop(&shop);
    _exit(0);
}
