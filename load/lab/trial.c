/* SPDX-License-Identifier: MIT */
/* trial.c - see trial.h. */
#include "load/lab/trial.h"

#include "load/base/clock.h"
#include "load/base/rank.h"
#include "load/lab/source.h"

#include <hiredis/hiredis.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONNECTIONS = 64, TAKEN_LOOK_MS = 20, DUMP_BYTES = 65536 };

/* ---- the servers ---- */

bool lab_start(struct lab *lab)
{
    return stack_redis_start(&lab->redis, NULL) && stack_postgres_start(&lab->postgres, MAX_CONNECTIONS) &&
           proc_folder("lab", NULL, lab->folder) &&
           (lab->source = source_open(lab->postgres.socket_url)) != NULL && source_prepare(lab->source);
}

void lab_stop(struct lab *lab)
{
    source_close(&lab->source);
    servers_stop(&lab->servers);
    stack_postgres_stop(&lab->postgres);
    stack_redis_stop(&lab->redis);
}

/* ---- what scripts are made of ---- */

uint32_t trial_ms(const struct trial *trial, uint32_t quarters)
{
    return trial->lab->lease_s * 250 * quarters;
}

bool trial_change(struct trial *trial, uint32_t worker)
{
    if (!source_change(trial->lab->source, trial->key))
        return false;
    trial->void_from_us = clock_us();
    const bool good = fleet_invalidate(&trial->fleet, worker);
    trial->void_until_us = clock_us();
    return good;
}

static int64_t lock_pttl_ms(struct trial *trial)
{
    struct redisReply *reply = stack_redis_command(&trial->lab->redis, "PTTL %s", trial->monitor.lock_name);
    const int64_t pttl_ms = reply != NULL && reply->type == REDIS_REPLY_INTEGER ? reply->integer : -2;
    freeReplyObject(reply);
    return pttl_ms;
}

/* Requests that their worker's death has not taken along. */
static uint32_t count_asked(const struct fleet *fleet)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < fleet->worker_count; i++)
        count += fleet_count(fleet, fleet->workers[i].pid > 0 ? NOTE_ASKED : NOTE_ANSWERED, i);
    return count;
}

bool trial_measure_stuck(struct trial *trial, uint64_t since_us)
{
    struct fleet *fleet = &trial->fleet;
    struct cell *cell = trial->cell;
    const uint64_t end_us = since_us + (uint64_t)trial_ms(trial, TRIAL_FOR_EVER_QUARTERS) * 1000;
    const struct fleet_note *next = NULL;
    while ((next = fleet_first(fleet, NOTE_ANSWERED, FLEET_ANYBODY, since_us)) == NULL) {
        const uint64_t now_us = clock_us();
        const uint32_t answered = fleet_count(fleet, NOTE_ANSWERED, FLEET_ANYBODY);
        if (now_us >= end_us || answered == count_asked(fleet) ||
            !fleet_await(fleet, NOTE_ANSWERED, FLEET_ANYBODY, answered + 1,
                         (uint32_t)((end_us - now_us) / 1000) + 1))
            break;
    }
    cell->has_stuck = true;
    cell->is_for_ever = next == NULL && fleet_count(fleet, NOTE_ANSWERED, FLEET_ANYBODY) < count_asked(fleet);
    if (next != NULL)
        cell->stuck_us = next->note.at_us - since_us;
    if (cell->is_for_ever) {
        cell->stuck_us = clock_us() - since_us;
        cell->lock_pttl_ms = lock_pttl_ms(trial);
    }
    return !fleet->is_broken;
}

bool trial_measure_taken(struct trial *trial, uint32_t worker, uint64_t since_us, uint32_t quarters)
{
    struct fleet *fleet = &trial->fleet;
    struct cell *cell = trial->cell;
    const uint64_t end_us = since_us + (uint64_t)trial_ms(trial, quarters) * 1000;
    const struct fleet_note *taken;
    while ((taken = fleet_first(fleet, NOTE_HELD, worker, since_us)) == NULL && clock_us() < end_us &&
           fleet_count(fleet, NOTE_ANSWERED, FLEET_ANYBODY) < count_asked(fleet)) {
        const uint32_t seen = fleet_count(fleet, NOTE_HELD, worker);
        fleet_await(fleet, NOTE_HELD, worker, seen + 1, TAKEN_LOOK_MS);
        if (fleet->is_broken)
            return false;
    }
    cell->has_stuck = true;
    cell->is_for_ever = taken == NULL && clock_us() >= end_us;
    cell->stuck_us = (taken != NULL ? taken->note.at_us : clock_us()) - since_us;
    cell->lock_pttl_ms = -2;
    return true;
}

bool trial_watch(struct trial *trial, uint32_t worker, uint32_t wanted, uint32_t quarters, bool *held)
{
    const bool seen = fleet_await(&trial->fleet, NOTE_HELD, worker, wanted, trial_ms(trial, quarters));
    if (held != NULL)
        *held = seen;
    return !trial->fleet.is_broken;
}

/* Nodes of this trial that end with their session, as ZooKeeper lists them, one a line. Their names encode the
 * key. */
int64_t trial_count_nodes(struct trial *trial)
{
    static char text[DUMP_BYTES];
    int64_t count = 0;
    char *rest = text;
    if (!stack_zookeeper_ask(&trial->lab->servers.zookeeper, 0, "dump", text, sizeof text))
        return -1;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        count += strstr(line, trial->failure->name) != NULL && strstr(line, trial->scheme->name) != NULL;
    return count;
}

/* By what the lock's server says; below 0: no answer. */
static int64_t count_in_line(struct trial *trial)
{
    const struct scheme *scheme = trial->scheme;
    if (scheme->place == PLACE_POSTGRES)
        return source_waiting(trial->lab->source);
    if (scheme->place == PLACE_ZOOKEEPER)
        return trial_count_nodes(trial) - 1; /* the holder's */
    return stack_redis_number(&trial->lab->redis, scheme->queue_length, trial->key);
}

bool trial_wait_in_line(struct trial *trial, uint32_t wanted)
{
    const uint64_t end_us = clock_after_ms(FLEET_ORDER_LIMIT_MS);
    while (count_in_line(trial) < (int64_t)wanted) {
        if (clock_us() >= end_us || trial->fleet.is_broken) {
            fprintf(stderr, "lab: fewer than %" PRIu32 " stand in line\n", wanted);
            return false;
        }
        clock_pause_ms(1);
    }
    return true;
}

void trial_measure_polling(struct trial *trial)
{
    struct fleet *fleet = &trial->fleet;
    const uint64_t begin_us = clock_us(), before = stack_redis_calls(&trial->lab->redis, NULL);
    clock_pause_ms(
        trial_ms(trial, TRIAL_COUNT_QUARTERS)); /* a span to count over, not a wait for something */
    const uint64_t after = stack_redis_calls(&trial->lab->redis, NULL), end_us = clock_us();
    fleet_await(fleet, NOTE_HELD, FLEET_ANYBODY, fleet->worker_count, 0);
    const uint32_t waiters = fleet->worker_count - fleet_count(fleet, NOTE_HELD, FLEET_ANYBODY);
    if (waiters == 0)
        return;
    trial->cell->has_polling = true;
    trial->waiter_s = (double)(end_us - begin_us) / 1e6 * waiters;
    trial->cell->polling = (double)(after - before) / trial->waiter_s;
    trial->monitor.count_from_us = begin_us;
    trial->monitor.count_until_us = end_us;
}

bool trial_settle(struct trial *trial)
{
    struct fleet *fleet = &trial->fleet;
    if (!source_let_go_all(trial->lab->source))
        return false;
    if (!trial->cell->is_for_ever || trial->cell->is_lock)
        fleet_await(
            fleet, NOTE_ANSWERED, FLEET_ANYBODY, count_asked(fleet),
            trial_ms(trial, trial->cell->is_for_ever ? TRIAL_WATCH_QUARTERS : TRIAL_FOR_EVER_QUARTERS));
    return !fleet->is_broken;
}

/* ---- measuring ---- */

static void count_answers(const struct fleet *fleet, struct cell *cell)
{
    cell->asked = count_asked(fleet);
    for (size_t i = 0; i < fleet->note_count; i++) {
        const struct note *note = &fleet->notes[i].note;
        cell->answered += note->kind == NOTE_ANSWERED && note->value > LAB_FAILED;
        cell->failed += note->kind == NOTE_ANSWERED && note->value == LAB_FAILED;
        cell->lock.refused += note->kind == NOTE_ANSWERED && note->value == LAB_REFUSED;
        cell->lock.told += note->kind == NOTE_LOST;
    }
}

/* The last answer to a worker that waited for another's load, after the value was there. */
static void measure_wake(const struct trial *trial, struct cell *cell)
{
    const uint64_t filled_us = monitor_filled_us(&trial->monitor);
    const struct fleet *fleet = &trial->fleet;
    for (size_t i = 0; i < fleet->note_count; i++) {
        const struct fleet_note *entry = &fleet->notes[i];
        const bool is_waiter = entry->note.kind == NOTE_ANSWERED && entry->note.at_us >= filled_us;
        const struct fleet_note *held = fleet_first(fleet, NOTE_HELD, entry->worker, 0);
        if (filled_us == 0 || !is_waiter || (held != NULL && held->note.at_us < filled_us))
            continue;
        cell->has_wake = true;
        if (entry->note.at_us - filled_us > cell->wake_us)
            cell->wake_us = entry->note.at_us - filled_us;
    }
}

/* The version of what is cached now; LAB_FAILED: nothing is. */
static int32_t cached_version(struct trial *trial)
{
    struct redisReply *reply = stack_redis_command(&trial->lab->redis, "GET %s", trial->monitor.value_name);
    int32_t version = LAB_FAILED;
    if (reply != NULL && reply->type == REDIS_REPLY_STRING)
        version = lab_body_version(reply->str, reply->len);
    freeReplyObject(reply);
    return version;
}

/* A request that began after the invalidation was confirmed must not see what was there before. */
static bool has_stale_answer(const struct trial *trial, int32_t current)
{
    const struct fleet *fleet = &trial->fleet;
    for (size_t i = 0; i < fleet->note_count; i++) {
        const struct fleet_note *asked = &fleet->notes[i];
        if (asked->note.kind != NOTE_ASKED || asked->note.at_us < trial->void_until_us)
            continue;
        const struct fleet_note *answer = fleet_first(fleet, NOTE_ANSWERED, asked->worker, asked->note.at_us);
        if (answer != NULL && answer->note.value != LAB_FAILED && answer->note.value < current)
            return true;
    }
    return false;
}

static bool measure(struct trial *trial, uint64_t log_mark)
{
    struct cell *cell = trial->cell;
    char marker[SOURCE_MARKER_BYTES];
    const int32_t current = source_version(trial->lab->source, trial->key), cached = cached_version(trial);
    if (!monitor_finish(&trial->monitor, &trial->lab->redis) || current == LAB_FAILED)
        return false;
    if (cell->has_polling)
        cell->calls = trial->monitor.call_count / trial->waiter_s;
    count_answers(&trial->fleet, cell);
    cell->load_count =
        stack_postgres_count(&trial->lab->postgres, log_mark, source_marker(trial->key, marker));
    cell->holders_peak = fleet_peak(&trial->fleet, LAB_ALL).holders;
    cell->wrong_deletions =
        monitor_wrong_deletions(&trial->monitor, &trial->fleet, trial->void_from_us, trial->void_until_us);
    cell->is_stale = cached != LAB_FAILED && cached < current;
    cell->is_stale_answer = trial->void_until_us > 0 && has_stale_answer(trial, current);
    if (trial->failure->wants_wake && !cell->is_for_ever)
        measure_wake(trial, cell);
    return true;
}

/* ---- measuring a lock ---- */

/* A write is late if another worker has taken the lock since its own did. */
static bool is_late(const struct fleet *fleet, const struct fleet_note *wrote)
{
    uint64_t mine_us = 0, another_s_us = 0;
    for (size_t i = 0; i < fleet->note_count; i++) {
        const struct fleet_note *entry = &fleet->notes[i];
        if (entry->note.kind != NOTE_HELD || entry->note.at_us > wrote->note.at_us)
            continue;
        uint64_t *last_us = entry->worker == wrote->worker ? &mine_us : &another_s_us;
        *last_us = entry->note.at_us > *last_us ? entry->note.at_us : *last_us;
    }
    return another_s_us > mine_us;
}

static void count_late_writes(const struct fleet *fleet, struct cell_lock *lock)
{
    for (size_t i = 0; i < fleet->note_count; i++) {
        const struct fleet_note *entry = &fleet->notes[i];
        if (entry->note.kind != NOTE_WROTE)
            continue;
        lock->late_refused += entry->note.value == 0;
        lock->late_accepted += entry->note.value == 1 && is_late(fleet, entry);
    }
}

/* From a release to the next that takes it, if that is another process. */
static void measure_hand_over(const struct fleet *fleet, struct cell_lock *lock)
{
    static struct fleet_hold holds[FLEET_NOTES_MAX];
    static uint64_t spans_us[FLEET_NOTES_MAX];
    const size_t count = fleet_holds(fleet, holds);
    uint32_t spans = 0;
    for (size_t i = 1; i < count; i++) {
        const struct fleet_hold *last = &holds[i - 1], *next = &holds[i];
        if (last->is_released && last->worker != next->worker && last->until_us <= next->from_us)
            spans_us[spans++] = next->from_us - last->until_us;
    }
    rank_sort(spans_us, spans);
    lock->hand_over_count = spans;
    lock->hand_over_p50_us = rank_percentile(spans_us, spans, 50);
    lock->hand_over_p99_us = rank_percentile(spans_us, spans, 99);
    if (count > 1)
        lock->sections_per_s =
            (double)(count - 1) * 1e6 / (double)(holds[count - 1].from_us - holds[0].from_us);
}

/* Those that lived, in the order in which they came and in that in which they had it. */
static void measure_order(const struct fleet *fleet, struct cell_lock *lock)
{
    for (uint32_t i = 0; i < fleet->worker_count; i++) {
        const struct fleet_note *mine = fleet_first(fleet, NOTE_HELD, i, 0);
        bool is_overtaken = false;
        for (uint32_t j = i + 1; j < fleet->worker_count && mine != NULL; j++) {
            const struct fleet_note *later = fleet_first(fleet, NOTE_HELD, j, 0);
            is_overtaken = is_overtaken || (later != NULL && later->note.at_us < mine->note.at_us);
        }
        lock->overtaken += is_overtaken;
    }
}

static bool measure_lock(struct trial *trial)
{
    struct cell *cell = trial->cell;
    const struct fleet *fleet = &trial->fleet;
    const uint32_t limit = trial->failure->limit > 0 ? trial->failure->limit : LAB_ALL;
    const struct fleet_peak peak = fleet_peak(fleet, limit);
    const int32_t lost = source_lost_updates(trial->lab->source, trial->key);
    count_answers(fleet, cell);
    cell->holders_peak = peak.holders;
    cell->lock.is_over = peak.is_over;
    cell->lock.lost_updates = lost > 0 ? (uint32_t)lost : 0;
    count_late_writes(fleet, &cell->lock);
    if (cell->lock.has_order)
        measure_order(fleet, &cell->lock);
    cell->lock.is_told = trial->scheme->place != PLACE_MASTERS;
    measure_hand_over(fleet, &cell->lock);
    return lost >= 0;
}

/* ---- a trial ---- */

/* Where the scheme's lock lives, as this worker reaches it. */
static bool lock_urls(struct trial *trial, uint32_t worker, char text[LAB_URLS_BYTES])
{
    struct lab *lab = trial->lab;
    switch (trial->scheme->place) {
    case PLACE_REDIS:
        snprintf(text, LAB_URLS_BYTES, "%s", lab->redis.url);
        return true;
    case PLACE_MASTERS:
        return servers_masters(&lab->servers, worker == 0, text);
    case PLACE_POSTGRES:
        snprintf(text, LAB_URLS_BYTES, "%s", lab->postgres.url);
        return !trial->failure->is_pooled || servers_pooler(&lab->servers, &lab->postgres, text);
    case PLACE_ZOOKEEPER:
        return servers_zookeeper(&lab->servers, worker == 0, text);
    }
    return false;
}

static bool start(struct trial *trial)
{
    struct lab *lab = trial->lab;
    char texts[FLEET_WORKERS_MAX][LAB_URLS_BYTES];
    const char *urls[FLEET_WORKERS_MAX];
    for (uint32_t i = 0; i < trial->failure->worker_count; i++) {
        if (!lock_urls(trial, i, texts[i]))
            return false;
        urls[i] = texts[i];
    }
    const struct fleet_options options = {.scheme = trial->scheme,
                                          .key = trial->key,
                                          .postgres_url = lab->postgres.socket_url,
                                          .folder = lab->folder,
                                          .lock_urls = urls,
                                          .redis_port = lab->redis.port,
                                          .worker_count = trial->failure->worker_count,
                                          .lease_s = lab->lease_s};
    return source_insert(lab->source, trial->key) &&
           (trial->cell->is_lock || monitor_start(&trial->monitor, &lab->redis, trial->scheme, trial->key)) &&
           fleet_start(&trial->fleet, &options);
}

/* Ours says why it was not granted. */
static void show_reasons(const struct trial *trial)
{
    const struct cell *cell = trial->cell;
    if (cell->failed == 0 && (cell->lock.refused == 0 || trial->failure->demand.must_refuse))
        return;
    fprintf(stderr, "lab: %s: %s: not everybody was served; the workers' log ends:\n", trial->scheme->name,
            trial->failure->name);
    proc_show_tail(trial->fleet.log_path);
}

void trial_run(struct lab *lab, const struct scheme *scheme, const struct failure *failure, struct cell *cell)
{
    static struct trial trial; /* too large for a stack; one at a time */
    *cell = (struct cell){.state = CELL_NOT_RUN,
                          .worker_count = failure->worker_count,
                          .lease_ms = lab->lease_s * 1000,
                          .is_lock = failure->group != GROUP_CACHE};
    if ((scheme->groups & failure->group) == 0) {
        cell->state = CELL_APART;
        return;
    }
    trial.lab = lab;
    trial.scheme = scheme;
    trial.failure = failure;
    trial.cell = cell;
    trial.void_from_us = trial.void_until_us = 0;
    trial.fleet.worker_count = 0;
    snprintf(trial.key, sizeof trial.key, "%s:%s", failure->name, scheme->name);
    const uint64_t log_mark = stack_postgres_mark(&lab->postgres);
    if (start(&trial)) {
        cell->state = CELL_MEASURED;
        if (!failure->run(&trial) || !trial_settle(&trial) ||
            !(cell->is_lock ? measure_lock(&trial) : measure(&trial, log_mark)))
            cell->state = CELL_NOT_RUN;
    }
    source_let_go_all(lab->source);
    servers_mend(&lab->servers);
    monitor_close(&trial.monitor);
    fleet_stop(&trial.fleet);
    cell_judge(cell, &failure->demand);
    show_reasons(&trial);
}
