/* SPDX-License-Identifier: MIT */
/*
 * outbox.c - see outbox.h.
 *
 * Locking: `lock` guards the transactions to settle. A batch has a lock of its own, because the guard calls back on
 * its thread. Lifetime: a batch belongs to the thread and to the callbacks under way; the last of them frees it, so
 * that the thread can end without waiting for Redis.
 */
#include "app/write/outbox.h"

#include "app/base/clock.h"
#include "app/base/document.h"
#include "app/base/log.h"
#include "app/pg/pg_listen.h"
#include "app/pg/rows.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    BATCH_ROWS = 500,
    PAY_LIMIT_MS = 1500, /* of the guard's attempts for one batch */
    CLAIM_MS = 3000,     /* longer than that, so that no other process tries the same meanwhile */
    CONNECT_LIMIT_MS = 2000,
    CONNECT_PAUSE_MS = 500,
    SETTLE_MAX = 4096, /* transactions; more come due, and are paid once more */
    SETTLE_PAUSE_MS = 20,
    TROUBLE_PAUSE_MS = 200,
    HELD_PAUSE_MS = 100,   /* rows are due, but another session holds them */
    OWING_PAUSE_MS = 1000, /* others are owed something, and nothing tells when they have been paid */
    FORGET_EVERY_MS = 60000,
    FORGET_PAUSE_MS = 100, /* when there are more */
    FORGET_ROWS = 1000,
    NAME_PAUSE_MS = 50, /* between looks for a cache that can be registered */
    ROWS_BYTES_MAX = 4 << 20,
};

/* A row of a batch. Of several with one key the first one invalidates, the others share its result. */
struct batch_row {
    struct batch *batch;
    size_t same_as; /* index of the first row with its key, perhaps itself */
    bool paid;
};

struct batch {
    struct guard *guard;                  /* lent */
    char cache[GUARD_CACHE_ID_BYTES + 1]; /* that is paid */
    pthread_mutex_t lock;
    int done_fd;       /* owned: readable when all have been answered */
    size_t unanswered; /* under lock: callbacks to come, and one while the thread starts them */
    bool is_left;      /* under lock: the thread is gone */
    size_t row_count;
    struct batch_row rows[BATCH_ROWS];
};

struct outbox {
    struct pg_pool *store; /* lent, like the next two */
    struct guard *guard;
    struct cache_gate *gate;
    uint32_t poll_ms; /* looks at the table at least this often */
    pthread_t thread;
    int stop_fd, wake_fd, settle_fd; /* owned */
    pthread_mutex_t lock;
    int64_t transactions[SETTLE_MAX]; /* under lock */
    size_t transaction_count;
    char settled_cache[GUARD_CACHE_ID_BYTES + 1]; /* under lock: the one that has confirmed them */

    /* the thread's */
    char cache[GUARD_CACHE_ID_BYTES + 1]; /* registered, and the one in use; "": none is */
    uint64_t beat_at_ms;
    struct pg_listener *listener; /* owned */
    uint64_t connect_at_ms, forget_at_ms;
    bool is_troubled; /* something in this round did not work: no hurry */
    struct rows rows;

    /* anyone may read */
    _Atomic uint64_t paid, unpaid, settled, notified, row_count, oldest_ms, cache_count, caches_dropped;
    atomic_bool listening;
};

static bool is_stopped(const struct outbox *outbox)
{
    struct pollfd fd = {.fd = outbox->stop_fd, .events = POLLIN};

    return poll(&fd, 1, 0) > 0;
}

/* ---- a batch ---- */

static struct batch *batch_new(const struct outbox *outbox)
{
    struct batch *batch = calloc(1, sizeof(*batch));

    if (batch == NULL)
        return NULL;
    batch->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (batch->done_fd < 0) {
        free(batch);
        return NULL;
    }
    pthread_mutex_init(&batch->lock, NULL);
    batch->guard = outbox->guard;
    memcpy(batch->cache, outbox->cache, sizeof(batch->cache));
    batch->row_count = outbox->rows.row_count;
    batch->unanswered = 1;
    return batch;
}

static void batch_free(struct batch *batch)
{
    close(batch->done_fd);
    pthread_mutex_destroy(&batch->lock);
    free(batch);
}

/* One answer less to come; the last one tells the thread. True: that is gone, and the batch is the caller's. */
static bool batch_answer(struct batch *batch)
{
    pthread_mutex_lock(&batch->lock);
    const bool last = --batch->unanswered == 0;
    const bool is_left = batch->is_left;
    if (last && !is_left)
        eventfd_write(batch->done_fd, 1); /* under the lock: afterwards the batch may be gone */
    pthread_mutex_unlock(&batch->lock);
    return last && is_left;
}

/* The guard's callback, on its thread. What was confirmed in another cache is not paid in this one. */
static void confirmed(void *context, const struct guard_invalidated *result)
{
    struct batch_row *row = context;
    struct batch *batch = row->batch;

    row->paid = result->status == GUARD_OK && cache_gate_is_cache(batch->guard, batch->cache);
    if (batch_answer(batch))
        batch_free(batch);
}

static void batch_invalidate(struct batch *batch, size_t at, const char *key, struct guard *guard)
{
    struct batch_row *row = &batch->rows[at];

    if (!target_valid(key)) {
        log_event(LOG_LEVEL_ERROR, "outbox_strange_key",
                  "key=\"%s\" reason=\"neither a key nor a tag of this service\""
                  " hint=\"see what writes to the table outbox\"",
                  key);
        row->paid = true;
        return;
    }
    pthread_mutex_lock(&batch->lock);
    batch->unanswered++;
    pthread_mutex_unlock(&batch->lock);
    if (outbox_invalidate(guard, key, PAY_LIMIT_MS, confirmed, row) != GUARD_OK)
        batch_answer(batch);
}

/* Many rows may have the same key, of a product that sells well: it is invalidated once. */
static void batch_begin(struct outbox *outbox, struct batch *batch)
{
    for (size_t at = 0; at < batch->row_count; at++) {
        const char *key = rows_text(&outbox->rows, at, 1);
        size_t first = 0;

        while (strcmp(rows_text(&outbox->rows, first, 1), key) != 0)
            first++;
        batch->rows[at] = (struct batch_row){.batch = batch, .same_as = first};
    }
    for (size_t at = 0; at < batch->row_count; at++) {
        if (batch->rows[at].same_as == at)
            batch_invalidate(batch, at, rows_text(&outbox->rows, at, 1), outbox->guard);
    }
    batch_answer(batch);
}

/* False: told to stop before all were answered; the batch is no longer the thread's. */
static bool batch_wait(struct outbox *outbox, struct batch *batch)
{
    struct pollfd fds[2] = {{.fd = batch->done_fd, .events = POLLIN},
                            {.fd = outbox->stop_fd, .events = POLLIN}};

    /* the guard answers within PAY_LIMIT_MS, or when it closes */
    while (poll(fds, 2, -1) <= 0)
        continue;
    pthread_mutex_lock(&batch->lock); /* also so that what the callbacks wrote is seen */
    const bool all = batch->unanswered == 0;
    batch->is_left = !all;
    pthread_mutex_unlock(&batch->lock);
    return all;
}

/* ---- settling ---- */

/* The ids of the rows that were paid, or of the others. */
static void list_rows(const struct outbox *outbox, const struct batch *batch, bool paid, struct pg_array *ids)
{
    for (size_t at = 0; at < batch->row_count; at++) {
        if (batch->rows[batch->rows[at].same_as].paid == paid)
            pg_array_add(ids, rows_text(&outbox->rows, at, 0));
    }
}

/* False: some could not be paid, or that they were could not be noted. */
static bool settle_batch(struct outbox *outbox, const struct batch *batch)
{
    char text[PG_ARRAY_NUMBERS_SIZE(BATCH_ROWS)];
    struct pg_array ids;

    pg_array_init(&ids, text, sizeof(text));
    list_rows(outbox, batch, true, &ids);
    atomic_fetch_add(&outbox->paid, ids.count);
    if (ids.count > 0 && !store_settle(outbox->store, text, "{}", batch->cache))
        return false;
    pg_array_init(&ids, text, sizeof(text));
    list_rows(outbox, batch, false, &ids);
    atomic_fetch_add(&outbox->unpaid, ids.count);
    if (ids.count == 0)
        return true;
    log_event(LOG_LEVEL_WARNING, "outbox_unpaid",
              "rows=%zu reason=\"Redis did not confirm\" hint=\"they are tried again; is Redis up?\"",
              ids.count);
    store_return(outbox->store, text, batch->cache);
    return false;
}

/* What cannot be settled comes due, and is paid once more. */
static void settle_writes(struct outbox *outbox)
{
    static const size_t text_bytes = PG_ARRAY_NUMBERS_SIZE(SETTLE_MAX);
    char cache[GUARD_CACHE_ID_BYTES + 1];
    char *text = malloc(text_bytes);
    struct pg_array ids;

    if (text == NULL)
        return;
    pg_array_init(&ids, text, text_bytes);
    pthread_mutex_lock(&outbox->lock);
    for (size_t i = 0; i < outbox->transaction_count; i++)
        pg_array_add_number(&ids, outbox->transactions[i]);
    outbox->transaction_count = 0;
    memcpy(cache, outbox->settled_cache, sizeof(cache));
    pthread_mutex_unlock(&outbox->lock);
    if (ids.count > 0) {
        store_settle(outbox->store, "{}", text, cache);
        atomic_fetch_add(&outbox->settled, ids.count);
    }
    free(text);
}

/* ---- the caches ---- */

static void drop_silent(struct outbox *outbox)
{
    struct rows rows;

    rows_init(&rows, ROWS_BYTES_MAX);
    if (store_drop_caches(outbox->store, outbox->stop_fd, &rows)) {
        atomic_fetch_add(&outbox->caches_dropped, rows.row_count);
        for (size_t row = 0; row < rows.row_count; row++)
            log_event(LOG_LEVEL_WARNING, "cache_dropped",
                      "cache=\"%s\" id=%s silent_ms=%s reason=\"silent for too long: nothing in it can still "
                      "be alive\" hint=\"if it runs, see whether it reaches the database\"",
                      rows_text(&rows, row, 1), rows_text(&rows, row, 0), rows_text(&rows, row, 2));
    }
    rows_clear(&rows);
}

/* True: it is another cache than before, or the first. */
static bool note_beat(struct outbox *outbox, const char *id, bool is_new, uint32_t cache_count)
{
    const bool was_registered = strcmp(outbox->cache, id) == 0;

    atomic_store(&outbox->cache_count, cache_count);
    memcpy(outbox->cache, id, sizeof(outbox->cache));
    if (is_new && was_registered)
        log_event(LOG_LEVEL_WARNING, "cache_was_dropped",
                  "cache=\"%s\" id=%s reason=\"silent for too long, or deleted by hand\""
                  " hint=\"did this process reach its database?\"",
                  outbox->gate->label, id);
    else if (!was_registered)
        log_event(LOG_LEVEL_INFO, "cache_registered", "cache=\"%s\" id=%s caches=%" PRIu32,
                  outbox->gate->label, id, cache_count);
    return !was_registered;
}

/* While Redis is away its cache is not said to be in use: this process can neither read nor fill it, and what it
 * answers meanwhile of its own has OUTAGE_MS, or NEAR_MS, for that. True: from now on debts can be paid that could
 * not before. */
static bool beat(struct outbox *outbox)
{
    struct cache_gate *gate = outbox->gate;
    char id[GUARD_CACHE_ID_BYTES + 1];
    bool is_new, is_news;
    const struct store_beat said = {.cache = id,
                                    .label = gate->label,
                                    .beat_ms = gate->beat_ms,
                                    .silence_ms = cache_gate_silence_ms(gate, &is_news)};
    uint32_t cache_count;

    if (!guard_cache(outbox->guard, id)) {
        outbox->cache[0] = '\0';
        outbox->beat_at_ms = 0;
    }
    if (id[0] == '\0' || (clock_ms() < outbox->beat_at_ms && !is_news))
        return false;
    const uint64_t since_ms = clock_boot_ms();
    const bool is_said = store_beat(outbox->store, &said, outbox->stop_fd, &is_new, &cache_count);
    outbox->beat_at_ms = clock_ms() + (is_said ? gate->beat_ms : TROUBLE_PAUSE_MS);
    if (!is_said)
        return false;
    const bool is_another = note_beat(outbox, id, is_new, cache_count);
    cache_gate_registered(gate, id, said.silence_ms, since_ms);
    drop_silent(outbox);
    return is_another;
}

/* ---- a round ---- */

/* True: there may be more that is due. */
static bool pay_some(struct outbox *outbox)
{
    outbox->is_troubled = false;
    if (outbox->cache[0] == '\0')
        return false;
    outbox->is_troubled =
        !store_claim(outbox->store, outbox->cache, BATCH_ROWS, CLAIM_MS, outbox->stop_fd, &outbox->rows);
    const size_t row_count = outbox->is_troubled ? 0 : outbox->rows.row_count;
    struct batch *batch = row_count > 0 ? batch_new(outbox) : NULL;

    if (batch == NULL)
        return false;
    batch_begin(outbox, batch);
    if (!batch_wait(outbox, batch))
        return false;
    outbox->is_troubled = !settle_batch(outbox, batch);
    batch_free(batch);
    return !outbox->is_troubled && row_count == BATCH_ROWS;
}

static void forget_purchases(struct outbox *outbox)
{
    uint32_t count = 0;

    if (clock_ms() < outbox->forget_at_ms)
        return;
    store_forget(outbox->store, FORGET_ROWS, outbox->stop_fd, &count);
    outbox->forget_at_ms = clock_ms() + (count == FORGET_ROWS ? FORGET_PAUSE_MS : FORGET_EVERY_MS);
}

static uint32_t least_of(uint32_t left, uint32_t right)
{
    return left < right ? left : right;
}

/* Everything that is due; returns the time until more is. */
static uint32_t work_off(struct outbox *outbox)
{
    struct store_owing owing;

    beat(outbox);
    settle_writes(outbox);
    while (pay_some(outbox) && !is_stopped(outbox)) {
        settle_writes(outbox);
        beat(outbox);
    }
    forget_purchases(outbox);
    const char *cache = outbox->cache[0] != '\0' ? outbox->cache : NULL;
    if (store_measure(outbox->store, cache, outbox->stop_fd, &owing)) {
        atomic_store(&outbox->row_count, owing.row_count);
        atomic_store(&outbox->oldest_ms, owing.oldest_ms);
    } else { /* something may be due without a notification */
        outbox->is_troubled = true;
        return TROUBLE_PAUSE_MS;
    }
    const uint32_t next_ms = owing.next_ms > 0 ? owing.next_ms : HELD_PAUSE_MS;
    const uint32_t look_ms = owing.row_count > 0 ? OWING_PAUSE_MS : outbox->poll_ms;
    return least_of(least_of(next_ms, least_of(look_ms, outbox->poll_ms)),
                    clock_left_ms(outbox->forget_at_ms));
}

/* ---- listening and waiting ---- */

/* A round follows in any case, for notifications that were missed. */
static void listen_again(struct outbox *outbox)
{
    struct pg_fault fault;

    if (pg_listener_is_up(outbox->listener) || clock_ms() < outbox->connect_at_ms)
        return;
    outbox->connect_at_ms = clock_ms() + CONNECT_PAUSE_MS;
    const enum pg_outcome outcome =
        pg_listener_connect(outbox->listener, CONNECT_LIMIT_MS, outbox->stop_fd, &fault);
    const bool was_listening = atomic_exchange(&outbox->listening, outcome == PG_OK);
    if (outcome == PG_OK && !was_listening)
        log_event(LOG_LEVEL_INFO, "outbox_listening", "%s", "");
    else if (outcome != PG_OK && outcome != PG_CANCELLED)
        log_event(LOG_LEVEL_WARNING, "outbox_deaf", "outcome=%s reason=\"%s\"", pg_outcome_name(outcome),
                  fault.text);
}

static void be_deaf(struct outbox *outbox, const char *why)
{
    atomic_store(&outbox->listening, false);
    log_event(LOG_LEVEL_WARNING, "outbox_deaf", "reason=\"%s\" hint=\"it is tried again\"", why);
}

static uint32_t hear(struct outbox *outbox)
{
    const uint32_t count = pg_listener_hear(outbox->listener);

    atomic_fetch_add(&outbox->notified, count);
    if (!pg_listener_is_up(outbox->listener))
        be_deaf(outbox, "the connection was lost");
    return count;
}

/* True: it must listen anew. A session that was only old is replaced without a word. */
static bool has_gone_deaf(struct outbox *outbox)
{
    const char *why;

    if (!pg_listener_is_up(outbox->listener) || pg_listener_look(outbox->listener, &why))
        return false;
    if (why != NULL)
        be_deaf(outbox, why);
    outbox->connect_at_ms = 0;
    return true;
}

static bool drain_event(int fd, short revents)
{
    eventfd_t ignored;

    return revents != 0 && eventfd_read(fd, &ignored) == 0;
}

/* Sleeps until an event or `until_ms`. True: a round is due, or the end. */
static bool wait_for_event(struct outbox *outbox, uint64_t until_ms, uint64_t *settle_at_ms)
{
    struct pollfd fds[4] = {{.fd = outbox->stop_fd, .events = POLLIN},
                            {.fd = outbox->wake_fd, .events = POLLIN},
                            {.fd = outbox->settle_fd, .events = POLLIN},
                            {.fd = pg_listener_fd(outbox->listener), .events = POLLIN}};

    if (poll(fds, 4, (int)clock_left_ms(until_ms)) <= 0)
        return false;
    if (drain_event(outbox->settle_fd, fds[2].revents) && *settle_at_ms == UINT64_MAX)
        *settle_at_ms = clock_ms() + SETTLE_PAUSE_MS;
    const bool is_news = fds[3].revents != 0 && (hear(outbox) > 0 || !pg_listener_is_up(outbox->listener));
    return fds[0].revents != 0 || drain_event(outbox->wake_fd, fds[1].revents) || is_news;
}

static uint64_t beat_due_ms(const struct outbox *outbox)
{
    const uint64_t look_ms = outbox->cache[0] != '\0' ? 0 : clock_ms() + NAME_PAUSE_MS;

    return outbox->beat_at_ms > look_ms ? outbox->beat_at_ms : look_ms;
}

static uint64_t earliest_of(uint64_t left_ms, uint64_t right_ms)
{
    return left_ms < right_ms ? left_ms : right_ms;
}

/* Until the next round. Paid writes are no reason for one: their rows go a little later, together. Nor is a beat,
 * except the first: from then on debts can be paid. */
static void wait_some(struct outbox *outbox, uint32_t pause_ms)
{
    const bool deaf = !pg_listener_is_up(outbox->listener);
    const uint64_t end_ms = clock_ms() + (deaf && pause_ms > CONNECT_PAUSE_MS ? CONNECT_PAUSE_MS : pause_ms);
    uint64_t settle_at_ms = UINT64_MAX;

    while (clock_ms() < end_ms) {
        const uint64_t look_ms = earliest_of(pg_listener_due_ms(outbox->listener), beat_due_ms(outbox));
        const uint64_t until_ms = earliest_of(earliest_of(settle_at_ms, look_ms), end_ms);

        if (wait_for_event(outbox, until_ms, &settle_at_ms) || has_gone_deaf(outbox))
            return;
        if (clock_ms() >= settle_at_ms) {
            settle_writes(outbox);
            settle_at_ms = UINT64_MAX;
        }
        if (beat(outbox))
            return;
    }
}

static void *run(void *context)
{
    struct outbox *outbox = context;

    while (!is_stopped(outbox)) {
        listen_again(outbox);
        const uint32_t pause_ms = work_off(outbox);
        const uint32_t least_ms = outbox->is_troubled ? TROUBLE_PAUSE_MS : 1;
        wait_some(outbox, pause_ms > least_ms ? pause_ms : least_ms);
    }
    settle_writes(outbox);
    return NULL;
}

/* ---- from other threads ---- */

/* A transaction that another cache confirmed than those already waiting comes due, and is paid once more. */
void outbox_settle(struct outbox *outbox, int64_t transaction_id, const char *cache)
{
    pthread_mutex_lock(&outbox->lock);
    if (outbox->transaction_count == 0)
        snprintf(outbox->settled_cache, sizeof(outbox->settled_cache), "%s", cache);
    if (outbox->transaction_count < SETTLE_MAX && strcmp(outbox->settled_cache, cache) == 0)
        outbox->transactions[outbox->transaction_count++] = transaction_id;
    const bool first = outbox->transaction_count == 1;
    pthread_mutex_unlock(&outbox->lock);
    if (first)
        eventfd_write(outbox->settle_fd, 1);
}

enum guard_status outbox_invalidate(struct guard *guard, const char *target, uint32_t limit_ms,
                                    guard_invalidate_done *done, void *context)
{
    const char *tag = target_tag(target);
    const struct guard_change change = {.key = tag == NULL ? target : NULL,
                                        .tag = tag,
                                        .deadline_ms = limit_ms,
                                        .done = done,
                                        .context = context};

    return guard_invalidate(guard, &change);
}

void outbox_wake(struct outbox *outbox)
{
    eventfd_write(outbox->wake_fd, 1);
}

void outbox_stats(struct outbox *outbox, struct outbox_stats *out)
{
    *out = (struct outbox_stats){
        .paid = atomic_load(&outbox->paid),
        .unpaid = atomic_load(&outbox->unpaid),
        .settled = atomic_load(&outbox->settled),
        .notified = atomic_load(&outbox->notified),
        .row_count = atomic_load(&outbox->row_count),
        .oldest_age_ms = atomic_load(&outbox->oldest_ms),
        .listening = atomic_load(&outbox->listening),
        .cache_count = atomic_load(&outbox->cache_count),
        .caches_dropped = atomic_load(&outbox->caches_dropped),
    };
}

/* ---- opening and closing ---- */

static void outbox_free(struct outbox *outbox)
{
    const int fds[] = {outbox->stop_fd, outbox->wake_fd, outbox->settle_fd};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    pg_listener_close(&outbox->listener);
    rows_clear(&outbox->rows);
    pthread_mutex_destroy(&outbox->lock);
    free(outbox);
}

struct outbox *outbox_open(const struct settings *settings, struct pg_pool *store, struct guard *guard,
                           struct cache_gate *gate)
{
    struct outbox *outbox = calloc(1, sizeof(*outbox));

    if (outbox == NULL)
        return NULL;
    outbox->store = store;
    outbox->guard = guard;
    outbox->gate = gate;
    outbox->poll_ms = settings->outbox_poll_ms;
    pthread_mutex_init(&outbox->lock, NULL);
    rows_init(&outbox->rows, ROWS_BYTES_MAX);
    outbox->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    outbox->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    outbox->settle_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    outbox->listener =
        pg_listener_open(settings->write_database_url, "invalidations", settings->database_session_ms);
    if (outbox->stop_fd < 0 || outbox->wake_fd < 0 || outbox->settle_fd < 0 || outbox->listener == NULL ||
        !thread_start(&outbox->thread, run, outbox)) {
        outbox_free(outbox);
        return NULL;
    }
    return outbox;
}

void outbox_close(struct outbox **outbox)
{
    struct outbox *closing = *outbox;

    *outbox = NULL;
    if (closing == NULL)
        return;
    eventfd_write(closing->stop_fd, 1);
    pthread_join(closing->thread, NULL);
    outbox_free(closing);
}
