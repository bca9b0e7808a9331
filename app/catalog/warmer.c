/* SPDX-License-Identifier: MIT */
/*
 * warmer.c - see warmer.h.
 *
 * Locking: `lock` guards what the guard's callbacks and the end tell the thread.
 */
#include "app/catalog/warmer.h"

#include "app/base/clock.h"
#include "app/base/log.h"
#include "app/base/thread.h"
#include "app/catalog/hot_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 50, WAIT_LIMIT_MS = 60000, WARM_LIMIT_MS = 60000 };

struct warmer {
    /* constant; lent */
    const char *path;
    uint32_t save_ms;
    enum guard_mode mode;
    struct guard *guard;
    const struct catalog *catalog;
    struct cache_gate *gate;

    pthread_t thread;
    struct hot_keys keys; /* the thread's: first the file's, then those to be saved */
    struct guard_hot_key hot[HOT_KEYS_MAX];
    _Atomic size_t key_count;
    atomic_bool is_warming;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_stopping, is_stopped; /* under lock, with the next two */
    size_t running;               /* refreshes that have not called back */
    struct guard_refreshed sum;
};

/* ---- the file ---- */

static void load_keys(struct warmer *warmer)
{
    struct hot_file_damage damage;

    if (!hot_file_read(warmer->path, &warmer->keys, &damage)) {
        log_event(errno == ENOENT ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, "hot_file",
                  "path=\"%s\" reason=\"cannot be read: %s\" hint=\"chown it to the user of the service\"",
                  warmer->path, strerror(errno));
        return;
    }
    if (damage.is_foreign || damage.lines > 0)
        log_event(LOG_LEVEL_WARNING, "hot_file",
                  "path=\"%s\" keys=%zu lines_left_out=%zu reason=\"%s\" hint=\"the next save mends it\"",
                  warmer->path, warmer->keys.count, damage.lines,
                  damage.is_foreign ? "not a list of hot keys" : "damaged");
}

static void add_hot(struct warmer *warmer, enum guard_hot_by by)
{
    const size_t count = guard_hot(warmer->guard, by, warmer->hot, HOT_KEYS_MAX);

    for (size_t i = 0; i < count; i++)
        hot_keys_add(&warmer->keys, warmer->hot[i].key);
}

static void save(struct warmer *warmer)
{
    struct hot_file_damage damage;

    warmer->keys.count = 0;
    add_hot(warmer, GUARD_HOT_COLLAPSED);
    add_hot(warmer, GUARD_HOT_WAIT);
    if (warmer->keys.count == 0)
        return;
    hot_file_read(warmer->path, &warmer->keys, &damage); /* the older ones, as far as there is room */
    if (!hot_file_write(warmer->path, &warmer->keys))
        log_event(LOG_LEVEL_WARNING, "hot_file",
                  "path=\"%s\" reason=\"cannot be written: %s\" hint=\"catalogd check says why\"",
                  warmer->path, strerror(errno));
}

/* ---- waiting ---- */

/* True: stop. */
static bool wait_for_stop(struct warmer *warmer, uint32_t limit_ms)
{
    const struct timespec until = clock_in_ms(limit_ms);
    int waited = 0;

    pthread_mutex_lock(&warmer->lock);
    while (!warmer->is_stopping && waited == 0)
        waited = pthread_cond_timedwait(&warmer->changed, &warmer->lock, &until);
    const bool is_stopping = warmer->is_stopping;
    pthread_mutex_unlock(&warmer->lock);
    return is_stopping;
}

/* What is loaded now is stored. */
static bool can_store(const struct warmer *warmer)
{
    struct guard_stats stats;

    guard_stats(warmer->guard, &stats);
    return stats.redis_state == GUARD_REDIS_UP && catalog_ready(warmer->catalog) &&
           cache_gate_is_open(warmer->gate);
}

static bool wait_until_it_can_store(struct warmer *warmer)
{
    const uint64_t end_ms = clock_ms() + WAIT_LIMIT_MS;
    bool can = can_store(warmer);

    while (!can && clock_ms() < end_ms && !wait_for_stop(warmer, LOOK_MS))
        can = can_store(warmer);
    return can;
}

/* ---- warming ---- */

static void refreshed(void *context, const struct guard_refreshed *result)
{
    struct warmer *warmer = context;

    pthread_mutex_lock(&warmer->lock);
    warmer->sum.loaded += result->loaded;
    warmer->sum.fresh += result->fresh;
    warmer->sum.failed += result->failed;
    warmer->sum.shed += result->shed;
    warmer->running--;
    pthread_cond_signal(&warmer->changed);
    pthread_mutex_unlock(&warmer->lock);
}

static void refresh_kind(struct warmer *warmer, enum document_kind kind)
{
    const char *keys[HOT_KEYS_MAX];
    struct document_key key;
    struct guard_refresh_request request = {.kind = catalog_kind(warmer->catalog, kind),
                                            .keys = keys,
                                            .deadline_ms = WARM_LIMIT_MS,
                                            .done = refreshed,
                                            .context = warmer};

    for (size_t i = 0; i < warmer->keys.count; i++) {
        if (document_key_parse(warmer->keys.keys[i], &key) && key.kind == kind)
            keys[request.count++] = warmer->keys.keys[i];
    }
    if (request.count == 0)
        return;
    pthread_mutex_lock(&warmer->lock);
    warmer->running++;
    pthread_mutex_unlock(&warmer->lock);
    const enum guard_status status = guard_refresh(warmer->guard, &request);
    if (status != GUARD_OK)
        refreshed(warmer, &(struct guard_refreshed){.status = status, .shed = request.count});
}

static void wait_for_refreshes(struct warmer *warmer)
{
    pthread_mutex_lock(&warmer->lock);
    while (warmer->running > 0 && !warmer->is_stopping)
        pthread_cond_wait(&warmer->changed, &warmer->lock);
    const struct guard_refreshed sum = warmer->sum;
    const bool is_over = warmer->running == 0;
    pthread_mutex_unlock(&warmer->lock);
    log_event(LOG_LEVEL_INFO, "warmed", "keys=%zu loaded=%zu fresh=%zu failed=%zu shed=%zu over=%s",
              warmer->keys.count, sum.loaded, sum.fresh, sum.failed, sum.shed, is_over ? "yes" : "no");
}

static void warm(struct warmer *warmer)
{
    if (wait_until_it_can_store(warmer)) {
        for (enum document_kind kind = 0; kind < DOCUMENT_KIND_COUNT; kind++)
            refresh_kind(warmer, kind);
        wait_for_refreshes(warmer);
    } else {
        log_event(LOG_LEVEL_WARNING, "not_warmed",
                  "keys=%zu reason=\"nothing could be stored in time\" hint=\"is Redis up? catalogd check\"",
                  warmer->keys.count);
    }
    atomic_store(&warmer->is_warming, false);
}

static void *run(void *context)
{
    struct warmer *warmer = context;

    if (atomic_load(&warmer->is_warming))
        warm(warmer);
    while (!wait_for_stop(warmer, warmer->save_ms))
        save(warmer);
    save(warmer);
    return NULL;
}

struct warmer_state warmer_state(const struct warmer *warmer)
{
    struct warmer_state state = {.is_warming = false};

    if (warmer != NULL) {
        state.is_warming = atomic_load(&warmer->is_warming);
        state.keys = atomic_load(&warmer->key_count);
    }
    return state;
}

/* ---- opening and closing ---- */

bool warmer_open(const struct settings *settings, struct guard *guard, const struct catalog *catalog,
                 struct cache_gate *gate, struct warmer **out)
{
    const bool caches = settings->guard.mode == GUARD_MODE_FLEET || settings->guard.mode == GUARD_MODE_LOCAL;

    *out = NULL;
    if (settings->hot_file[0] == '\0')
        return true;
    struct warmer *warmer = calloc(1, sizeof(*warmer));
    if (warmer == NULL)
        return false;
    *warmer = (struct warmer){.path = settings->hot_file,
                              .save_ms = settings->hot_save_ms,
                              .mode = settings->guard.mode,
                              .guard = guard,
                              .catalog = catalog,
                              .gate = gate};
    load_keys(warmer);
    atomic_store(&warmer->key_count, warmer->keys.count);
    atomic_store(&warmer->is_warming, caches && warmer->keys.count > 0);
    pthread_mutex_init(&warmer->lock, NULL);
    thread_condition_init(&warmer->changed);
    *out = warmer;
    if (thread_start(&warmer->thread, run, warmer))
        return true;
    warmer->is_stopped = true;
    warmer_close(out);
    return false;
}

void warmer_stop(struct warmer *warmer)
{
    if (warmer == NULL || warmer->is_stopped)
        return;
    pthread_mutex_lock(&warmer->lock);
    warmer->is_stopping = warmer->is_stopped = true;
    pthread_cond_signal(&warmer->changed);
    pthread_mutex_unlock(&warmer->lock);
    pthread_join(warmer->thread, NULL);
}

void warmer_close(struct warmer **warmer)
{
    struct warmer *closing = *warmer;

    *warmer = NULL;
    if (closing == NULL)
        return;
    warmer_stop(closing);
    pthread_cond_destroy(&closing->changed);
    pthread_mutex_destroy(&closing->lock);
    free(closing);
}
