/* SPDX-License-Identifier: MIT */
/*
 * others.c - see others.h.
 *
 * Locking: `lock` guards the list of who has come and the end; the list of who waits is the thread's.
 */
#include "app/write/others.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>
#include <uv.h>

enum { PAUSE_MS = 5, AT_ONCE = 500, ID_BYTES = 21, ROWS_BYTES_MAX = 1 << 20 };

struct others {
    struct store *store; /* lent */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct others_wait *come; /* under lock */
    bool is_closing;          /* under lock */
    struct others_wait *waiting;
};

static uint64_t now_ms(void)
{
    return uv_hrtime() / 1000000;
}

/* "{1,2}": of one cache and not handed over yet, or of all; AT_ONCE at the most. */
struct batch {
    char list[AT_ONCE * ID_BYTES + 2];
    size_t used, count;
    const char *cache;
    uint64_t deadline_ms; /* the last one's */
};

static void batch_add(struct batch *batch, const struct others_wait *wait)
{
    batch->used += (size_t)sprintf(batch->list + batch->used, "%s%" PRId64, batch->count > 0 ? "," : "",
                                   wait->transaction_id);
    batch->count++;
    if (wait->deadline_ms > batch->deadline_ms)
        batch->deadline_ms = wait->deadline_ms;
}

static void batch_begin(struct batch *batch)
{
    *batch = (struct batch){.list = "{", .used = 1};
}

static void batch_end(struct batch *batch)
{
    memcpy(batch->list + batch->used, "}", 2);
}

/* What could not be handed over comes due by itself, when its writer's time is over. */
static void hand_over(struct others *others)
{
    struct batch batch;
    struct others_wait *wait;

    batch_begin(&batch);
    DL_FOREACH (others->waiting, wait) {
        if (wait->is_handed_over || batch.count == AT_ONCE)
            continue;
        if (batch.cache == NULL)
            batch.cache = wait->cache;
        if (strcmp(batch.cache, wait->cache) != 0)
            continue;
        batch_add(&batch, wait);
        wait->is_handed_over = true;
    }
    batch_end(&batch);
    if (batch.count > 0)
        store_settle(others->store, "{}", batch.list, batch.cache);
}

static bool is_among(const struct rows *rows, int64_t transaction_id)
{
    for (size_t row = 0; row < rows->row_count; row++) {
        if (strtoll(rows_text(rows, row, 0), NULL, 10) == transaction_id)
            return true;
    }
    return false;
}

static void tell(struct others *others, struct others_wait *wait, bool all_confirmed)
{
    DL_DELETE(others->waiting, wait);
    wait->told(wait, all_confirmed);
}

/* The first AT_ONCE of those that wait: they came first. */
static void look(struct others *others)
{
    struct batch batch;
    struct rows unpaid;
    struct others_wait *wait, *next;
    size_t at = 0;

    batch_begin(&batch);
    DL_FOREACH (others->waiting, wait) {
        if (batch.count < AT_ONCE)
            batch_add(&batch, wait);
    }
    batch_end(&batch);
    rows_init(&unpaid, ROWS_BYTES_MAX);
    const bool looked = store_unpaid(others->store, batch.list, batch.deadline_ms, &unpaid);
    const uint64_t now = now_ms();
    DL_FOREACH_SAFE (others->waiting, wait, next) {
        const bool is_paid = looked && at++ < batch.count && !is_among(&unpaid, wait->transaction_id);
        if (is_paid || now >= wait->deadline_ms)
            tell(others, wait, is_paid);
    }
    rows_clear(&unpaid);
}

static void pause_a_little(struct others *others)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PAUSE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&others->changed, &others->lock, &until);
}

/* False: the end. */
static bool wait_for_work(struct others *others)
{
    pthread_mutex_lock(&others->lock);
    if (others->waiting != NULL && others->come == NULL && !others->is_closing)
        pause_a_little(others);
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
    struct others *others = context;

    while (wait_for_work(others)) {
        hand_over(others);
        look(others);
    }
    while (others->waiting != NULL)
        tell(others, others->waiting, false);
    return NULL;
}

void others_ask(struct others *others, struct others_wait *wait)
{
    wait->is_handed_over = false;
    pthread_mutex_lock(&others->lock);
    DL_APPEND(others->come, wait);
    pthread_cond_signal(&others->changed);
    pthread_mutex_unlock(&others->lock);
}

/* ---- opening and closing ---- */

/* Signals belong to the thread that waits for them. */
static bool start(struct others *others)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&others->thread, NULL, run, others) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static void others_free(struct others *others)
{
    pthread_cond_destroy(&others->changed);
    pthread_mutex_destroy(&others->lock);
    free(others);
}

struct others *others_open(struct store *store)
{
    struct others *others = calloc(1, sizeof(*others));
    pthread_condattr_t monotonic;

    if (others == NULL)
        return NULL;
    others->store = store;
    pthread_mutex_init(&others->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&others->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (!start(others)) {
        others_free(others);
        return NULL;
    }
    return others;
}

void others_close(struct others **others)
{
    struct others *closing = *others;

    *others = NULL;
    if (closing == NULL)
        return;
    pthread_mutex_lock(&closing->lock);
    closing->is_closing = true;
    pthread_cond_signal(&closing->changed);
    pthread_mutex_unlock(&closing->lock);
    pthread_join(closing->thread, NULL);
    others_free(closing);
}
