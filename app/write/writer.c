/* SPDX-License-Identifier: MIT */
/*
 * writer.c - see writer.h.
 *
 * Locking: `lock` guards the queue and the fields below it; it is not held while a job runs.
 */
#include "app/write/writer.h"

#include "app/base/clock.h"
#include "app/base/log.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    INVALIDATE_LIMIT_MS = 500, /* at least; once to read what is owed, once for Redis; then it is answered */
    INVALIDATE_COMMANDS = 2,   /* at least so many attempts of REDIS_LIMIT_MS fit in */
    PAYS_SLACK_MS = 1000,      /* for the rest of a write, before other processes pay for it */
    ROWS_BYTES_MAX = 1 << 20,
};

struct writer {
    struct guard *guard;               /* lent */
    struct pg_pool *store;             /* owned */
    struct other_caches *other_caches; /* owned */
    struct outbox *outbox;             /* owned */
    struct cache_gate *gate;           /* lent */
    uint32_t limit_ms, queue_max, invalidate_limit_ms;
    pthread_t *threads; /* owned */
    size_t thread_count;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under lock */
    struct write_job *queue;
    uint32_t queued, running;
    bool draining, closing;
    uint64_t
        refuse_at_ms; /* draining: what comes from then on is refused, what is still queued is not begun */

    _Atomic uint64_t outcomes[WRITE_OUTCOME_COUNT];
    _Atomic uint64_t invisible;
};

struct write_job *write_job_new(enum write_kind kind, uint64_t id, size_t body_size)
{
    const size_t room = body_size < WRITE_ROOM_BYTES ? body_size : WRITE_ROOM_BYTES;
    struct write_job *job = malloc(sizeof(*job) + room);

    if (job == NULL)
        return NULL;
    memset(job, 0, sizeof(*job));
    job->kind = kind;
    job->id = id;
    job->body_room = room;
    job->body_size = body_size;
    return job;
}

size_t write_job_room(const struct write_job *job, size_t bytes)
{
    size_t room = job->body_room;

    while (room < bytes && room < job->body_size)
        room *= 2;
    return room < job->body_size ? room : job->body_size;
}

bool write_job_grow(struct write_job **job, size_t room)
{
    struct write_job *grown = realloc(*job, sizeof(**job) + room);

    if (grown == NULL)
        return false;
    grown->body_room = room;
    *job = grown;
    return true;
}

/* ---- the end of a job ---- */

static void finish(struct write_job *job)
{
    struct writer *writer = job->writer;
    const struct write_result *result = &job->result;
    const bool committed = result->outcome == WRITE_DONE || result->outcome == WRITE_REPEATED;

    atomic_fetch_add(&writer->outcomes[result->outcome], 1);
    if (committed && !result->visible)
        atomic_fetch_add(&writer->invisible, 1);
    job->done(job);
}

/* ---- between COMMIT and the answer ---- */

static void end(struct write_job *job, bool visible)
{
    job->result.visible = visible;
    if (!visible)
        outbox_wake(job->writer->outbox); /* it has to learn when this falls due */
    finish(job);
}

static void others_confirmed(struct other_caches_wait *wait, bool all_confirmed)
{
    end(wait->context, all_confirmed);
}

/* The last invalidation to end ends the job, or makes it wait for other caches. */
static void confirm(struct write_job *job)
{
    if (atomic_fetch_sub(&job->unconfirmed, 1) != 1)
        return;
    const bool confirmed_here = !atomic_load(&job->missed);
    if (confirmed_here && job->to_others) {
        other_caches_await(job->writer->other_caches, &job->others_wait);
        return;
    }
    if (confirmed_here)
        outbox_settle(job->writer->outbox, job->transaction_id, job->cache);
    end(job, confirmed_here);
}

/* The guard's callback, on its thread. */
static void confirmed(void *context, const struct guard_invalidated *result)
{
    struct write_job *job = context;

    if (result->status != GUARD_OK || !cache_gate_is_cache(job->writer->guard, job->cache))
        atomic_store(&job->missed, true);
    confirm(job);
}

static void invalidate(struct write_job *job, const char *key)
{
    atomic_fetch_add(&job->unconfirmed, 1);
    if (outbox_invalidate(job->writer->guard, key, job->writer->invalidate_limit_ms, confirmed, job) ==
        GUARD_OK)
        return;
    atomic_store(&job->missed, true);
    confirm(job);
}

static void invalidate_owed(struct write_job *job)
{
    const char *cache = guard_cache(job->writer->guard, job->cache) ? job->cache : NULL;
    struct rows rows;

    rows_init(&rows, ROWS_BYTES_MAX);
    if (!store_owed(job->writer->store, job->transaction_id, cache,
                    clock_ms() + job->writer->invalidate_limit_ms, &rows))
        atomic_store(&job->missed, true);
    job->to_others = rows.row_count > 0 && strcmp(rows_text(&rows, 0, 1), "t") == 0;
    for (size_t row = 0; row < rows.row_count; row++)
        invalidate(job, rows_text(&rows, row, 0));
    rows_clear(&rows);
}

/* Also for a repeated purchase: the process of the first one may have died before it answered. */
static void publish(struct write_job *job)
{
    atomic_store(&job->unconfirmed, 1);
    atomic_store(&job->missed, false);
    invalidate_owed(job);
    memcpy(job->others_wait.cache, job->cache, sizeof(job->cache));
    job->others_wait.transaction_id = job->transaction_id;
    job->others_wait.deadline_ms = clock_ms() + job->writer->invalidate_limit_ms;
    job->others_wait.told = others_confirmed;
    job->others_wait.context = job;
    confirm(job);
}

/* ---- a job ---- */

static void carry_out(struct write_job *job)
{
    struct write_fields fields;
    const struct store_write write = {
        .kind = job->kind,
        .id = job->id,
        .fields = &fields,
        .versions = job->any_version ? NULL : job->versions,
        .key = job->key[0] != '\0' ? job->key : NULL,
        .deadline_ms = job->deadline_ms,
        .trace = job->trace,
    };

    job->result.outcome =
        write_fields_parse(job->kind, job->body, job->body_bytes, &fields, job->result.errors);
    if (job->result.outcome != WRITE_DONE) {
        finish(job);
        return;
    }
    store_write(job->writer->store, &write, &job->result, &job->transaction_id);
    write_fields_clear(&fields);
    if (job->result.outcome == WRITE_UNKNOWN)
        outbox_wake(job->writer->outbox);
    if (job->result.outcome == WRITE_DONE || job->result.outcome == WRITE_REPEATED)
        publish(job);
    else
        finish(job);
}

static bool is_closed(const struct writer *writer, uint64_t now_ms)
{
    return writer->draining && now_ms >= writer->refuse_at_ms;
}

/* Why it is not begun; WRITE_DONE: it is. */
static enum write_outcome refusal(const struct writer *writer, const struct write_job *job, uint64_t now)
{
    if (is_closed(writer, now))
        return WRITE_CLOSING;
    return now >= job->deadline_ms ? WRITE_SHED : WRITE_DONE;
}

/* NULL: closing and nothing left. */
static struct write_job *take(struct writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    while (writer->queue == NULL && !writer->closing)
        pthread_cond_wait(&writer->changed, &writer->lock);
    struct write_job *job = writer->queue;
    if (job != NULL) {
        DL_DELETE(writer->queue, job);
        writer->queued--;
        writer->running++;
        job->result.outcome = refusal(writer, job, clock_ms());
    }
    pthread_mutex_unlock(&writer->lock);
    return job;
}

static void *work(void *context)
{
    struct writer *writer = context;

    for (struct write_job *job = take(writer); job != NULL; job = take(writer)) {
        if (job->result.outcome == WRITE_DONE)
            carry_out(job);
        else
            finish(job);
        pthread_mutex_lock(&writer->lock);
        writer->running--;
        pthread_mutex_unlock(&writer->lock);
    }
    return NULL;
}

/* ---- from other threads ---- */

enum write_outcome writer_submit(struct writer *writer, struct write_job *job)
{
    enum write_outcome outcome = WRITE_DONE;

    job->writer = writer;
    job->deadline_ms = clock_ms() + writer->limit_ms;
    pthread_mutex_lock(&writer->lock);
    if (is_closed(writer, clock_ms()))
        outcome = WRITE_CLOSING;
    else if (writer->queued >= writer->queue_max)
        outcome = WRITE_SHED;
    if (outcome == WRITE_DONE) {
        DL_APPEND(writer->queue, job);
        writer->queued++;
        pthread_cond_signal(&writer->changed);
    }
    pthread_mutex_unlock(&writer->lock);
    if (outcome != WRITE_DONE)
        atomic_fetch_add(&writer->outcomes[outcome], 1);
    return outcome;
}

void writer_stats(struct writer *writer, struct writer_stats *out)
{
    *out = (struct writer_stats){
        .invisible = atomic_load(&writer->invisible),
        .unstored = atomic_load(&writer->gate->unstored),
        .may_store = cache_gate_is_open(writer->gate),
    };
    for (size_t i = 0; i < WRITE_OUTCOME_COUNT; i++)
        out->outcomes[i] = atomic_load(&writer->outcomes[i]);
    pthread_mutex_lock(&writer->lock);
    out->running = writer->running;
    out->queued = writer->queued;
    pthread_mutex_unlock(&writer->lock);
    outbox_stats(writer->outbox, &out->outbox);
}

/* ---- opening and closing ---- */

static bool start_workers(struct writer *writer, size_t count)
{
    writer->threads = calloc(count, sizeof(*writer->threads));
    if (writer->threads == NULL)
        return false;
    while (writer->thread_count < count && thread_start(&writer->threads[writer->thread_count], work, writer))
        writer->thread_count++;
    return writer->thread_count == count;
}

static bool open_parts(struct writer *writer, const struct settings *settings)
{
    const uint32_t pays_ms = 2 * writer->invalidate_limit_ms + PAYS_SLACK_MS;

    if (!store_open(settings, pays_ms, &writer->store))
        return false;
    writer->other_caches = other_caches_open(writer->store);
    if (writer->other_caches == NULL)
        return false;
    writer->outbox = outbox_open(settings, writer->store, writer->guard, writer->gate);
    return writer->outbox != NULL && start_workers(writer, settings->write_workers);
}

struct writer *writer_open(const struct settings *settings, struct guard *guard, struct cache_gate *gate)
{
    struct writer *writer = calloc(1, sizeof(*writer));

    if (writer == NULL)
        return NULL;
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->changed, NULL);
    writer->guard = guard;
    writer->gate = gate;
    writer->limit_ms = settings->write_limit_ms;
    writer->queue_max = settings->write_queue;
    writer->invalidate_limit_ms = settings->guard.redis_limit_ms * INVALIDATE_COMMANDS;
    if (writer->invalidate_limit_ms < INVALIDATE_LIMIT_MS)
        writer->invalidate_limit_ms = INVALIDATE_LIMIT_MS;
    if (!open_parts(writer, settings)) {
        log_event(
            LOG_LEVEL_ERROR, "writer",
            "reason=\"no memory, descriptor or thread\" hint=\"raise MemoryMax, ulimit -n or TasksMax\"");
        writer_close(&writer);
    }
    return writer;
}

void writer_drain(struct writer *writer, uint32_t drain_ms)
{
    pthread_mutex_lock(&writer->lock);
    writer->draining = true;
    writer->refuse_at_ms = clock_ms() + drain_ms;
    pthread_mutex_unlock(&writer->lock);
}

void writer_close(struct writer **writer_slot)
{
    struct writer *writer = *writer_slot;

    *writer_slot = NULL;
    if (writer == NULL)
        return;
    pthread_mutex_lock(&writer->lock);
    writer->closing = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    for (size_t i = 0; i < writer->thread_count; i++)
        pthread_join(writer->threads[i], NULL);
    other_caches_close(&writer->other_caches);
    outbox_close(&writer->outbox);
    pg_pool_close(&writer->store);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    free(writer->threads);
    free(writer);
}
