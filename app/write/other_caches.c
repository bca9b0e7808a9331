/* SPDX-License-Identifier: MIT */
/*
 * other_caches.c - see outbox.h.
 *
 * Locking: `lock` guards the list of newcomers and the end; the list of waiting writes is the thread's.
 */
#include "app/write/outbox.h"

#include "app/base/clock.h"
#include "app/base/log.h"
#include "app/pg/rows.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { PAUSE_MS = 5, AT_ONCE = 500, ROWS_BYTES_MAX = 1 << 20 };

struct other_caches {
    struct pg_pool *store; /* lent */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct other_caches_wait *come; /* under lock */
    bool is_closing;                /* under lock */
    struct other_caches_wait *waiting;
    /* The cache that the log has named last; "": all have answered since. */
    char silent[GUARD_CACHE_ID_BYTES + 1];
};

/* Transactions of one cache that are not handed over yet, or of all; at most AT_ONCE. */
struct batch {
    char text[PG_ARRAY_NUMBERS_SIZE(AT_ONCE)];
    struct pg_array ids;
    const char *cache;
    uint64_t deadline_ms; /* the latest */
};

static void batch_add(struct batch *batch, const struct other_caches_wait *wait)
{
    pg_array_add_number(&batch->ids, wait->transaction_id);
    if (wait->deadline_ms > batch->deadline_ms)
        batch->deadline_ms = wait->deadline_ms;
}

static void batch_begin(struct batch *batch)
{
    batch->cache = NULL;
    batch->deadline_ms = 0;
    pg_array_init(&batch->ids, batch->text, sizeof(batch->text));
}

/* What could not be handed over comes due by itself, once its writer's time is over. */
static void hand_over(struct other_caches *others)
{
    struct batch batch;
    struct other_caches_wait *wait;

    batch_begin(&batch);
    DL_FOREACH (others->waiting, wait) {
        if (wait->is_handed_over || batch.ids.count == AT_ONCE)
            continue;
        if (batch.cache == NULL)
            batch.cache = wait->cache;
        if (strcmp(batch.cache, wait->cache) != 0)
            continue;
        batch_add(&batch, wait);
        wait->is_handed_over = true;
    }
    if (batch.ids.count > 0)
        store_settle(others->store, "{}", batch.text, batch.cache);
}

/* Once for as long as it is silent. */
static void say_silent(struct other_caches *others, const struct rows *unpaid, size_t row)
{
    const char *id = rows_text(unpaid, row, 1);

    if (strcmp(others->silent, id) == 0)
        return;
    snprintf(others->silent, sizeof(others->silent), "%s", id);
    log_event(
        LOG_LEVEL_WARNING, "cache_silent",
        "cache=\"%s\" id=%s silent_ms=%s reason=\"it has missed three beats: no write waits for it, and none "
        "is visible until it is back or dropped\" hint=\"once you know that its Redis came back empty: "
        "DELETE FROM caches WHERE id = '%s'\"",
        rows_text(unpaid, row, 2), id, rows_text(unpaid, row, 3), id);
}

/* What a transaction still owes, and whether it is worth waiting for. */
enum debt { PAID, OWED, OWED_TO_SILENT };

static enum debt debt_of(struct other_caches *others, const struct rows *unpaid, int64_t transaction_id)
{
    enum debt debt = PAID;

    for (size_t row = 0; row < unpaid->row_count; row++) {
        int64_t id;

        if (!number_parse_signed(rows_text(unpaid, row, 0), &id) || id != transaction_id)
            continue;
        if (rows_text(unpaid, row, 1) != NULL) {
            say_silent(others, unpaid, row);
            return OWED_TO_SILENT;
        }
        debt = OWED;
    }
    return debt;
}

static void tell(struct other_caches *others, struct other_caches_wait *wait, bool all_confirmed)
{
    if (all_confirmed)
        others->silent[0] = '\0';
    DL_DELETE(others->waiting, wait);
    wait->told(wait, all_confirmed);
}

/* At the first AT_ONCE that wait: they came first. */
static void tell_paid(struct other_caches *others)
{
    struct batch batch;
    struct rows unpaid;
    struct other_caches_wait *wait, *next;
    size_t at = 0;

    batch_begin(&batch);
    DL_FOREACH (others->waiting, wait) {
        if (batch.ids.count < AT_ONCE)
            batch_add(&batch, wait);
    }
    rows_init(&unpaid, ROWS_BYTES_MAX);
    const bool is_known = store_unpaid(others->store, batch.text, batch.deadline_ms, &unpaid);
    const uint64_t now = clock_ms();
    DL_FOREACH_SAFE (others->waiting, wait, next) {
        const bool is_looked_at = is_known && at++ < batch.ids.count;
        const enum debt debt = is_looked_at ? debt_of(others, &unpaid, wait->transaction_id) : OWED;

        if (debt != OWED || now >= wait->deadline_ms)
            tell(others, wait, debt == PAID);
    }
    rows_clear(&unpaid);
}

/* False: the end. */
static bool wait_for_work(struct other_caches *others)
{
    const struct timespec until = clock_in_ms(PAUSE_MS);

    pthread_mutex_lock(&others->lock);
    if (others->waiting != NULL && others->come == NULL && !others->is_closing)
        pthread_cond_timedwait(&others->changed, &others->lock, &until);
    while (others->waiting == NULL && others->come == NULL && !others->is_closing)
        pthread_cond_wait(&others->changed, &others->lock);
    DL_CONCAT(others->waiting, others->come);
    others->come = NULL;
    const bool goes_on = !others->is_closing;
    pthread_mutex_unlock(&others->lock);
    return goes_on;
}

static void *run(void *context)
{
    struct other_caches *others = context;

    while (wait_for_work(others)) {
        hand_over(others);
        tell_paid(others);
    }
    while (others->waiting != NULL)
        tell(others, others->waiting, false);
    return NULL;
}

void other_caches_await(struct other_caches *others, struct other_caches_wait *wait)
{
    wait->is_handed_over = false;
    pthread_mutex_lock(&others->lock);
    DL_APPEND(others->come, wait);
    pthread_cond_signal(&others->changed);
    pthread_mutex_unlock(&others->lock);
}

/* ---- opening and closing ---- */

static void other_caches_free(struct other_caches *others)
{
    pthread_cond_destroy(&others->changed);
    pthread_mutex_destroy(&others->lock);
    free(others);
}

struct other_caches *other_caches_open(struct pg_pool *store)
{
    struct other_caches *others = calloc(1, sizeof(*others));

    if (others == NULL)
        return NULL;
    others->store = store;
    pthread_mutex_init(&others->lock, NULL);
    thread_condition_init(&others->changed);
    if (!thread_start(&others->thread, run, others)) {
        other_caches_free(others);
        return NULL;
    }
    return others;
}

void other_caches_close(struct other_caches **others)
{
    struct other_caches *closing = *others;

    *others = NULL;
    if (closing == NULL)
        return;
    pthread_mutex_lock(&closing->lock);
    closing->is_closing = true;
    pthread_cond_signal(&closing->changed);
    pthread_mutex_unlock(&closing->lock);
    pthread_join(closing->thread, NULL);
    other_caches_free(closing);
}
