/* SPDX-License-Identifier: MIT */
/* witness_follow.c - see witness_follow.h. */
#include "load/witness/witness_follow.h"

#include "load/base/clock.h"
#include "load/base/ticker.h"
#include "load/witness/witness_log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    READ_EVERY_MS = 10,
    HISTORY_BYTES = 65536,
    BEGIN_MARK_LIMIT_MS = 2000,
    BEGIN_SEEN_LIMIT_MS = 1000,
    END_MARK_LIMIT_MS = 300,
    END_SEEN_LIMIT_MS = 500,
    SETTLE_LIMIT_MS = 200,
    LOOK_AGAIN_MS = 2,
    QUIET_MS = 20,
    CUT_US = 999,  /* the log has milliseconds, cut off */
    ALL_US = 1000, /* a shorter statement shows that log_min_duration_statement is 0 */
    SET_US = 500   /* smaller steps of the wall clock go unnoticed */
};

struct witness_follow {
    const char *path, *statement; /* lent */
    struct tail *tail;            /* owned */
    struct ticker ticker;
    struct witness_log log; /* the ticker's while it runs; its loads under lock, so that others can look */
    pthread_mutex_t lock;
    _Atomic uint64_t load_count;
    bool is_marked;   /* statements of ours are logged */
    bool knows_text;  /* loads were in the log before the run */
    uint32_t running; /* loads at end_us, by the server */
    uint64_t end_us;
};

/* ---- reading ---- */

/* As far apart as before, unless the wall clock was set: loads of one millisecond stay in the order of the log. */
static struct witness_clock clock_after(const struct witness_clock *before)
{
    const uint64_t now_us = clock_us(), ahead_us = clock_wall_ahead_us();
    const uint64_t kept_us = before->wall_us - before->now_us;
    const bool was_set = ahead_us + SET_US < kept_us || kept_us + SET_US < ahead_us;
    return (struct witness_clock){.wall_us = now_us + (was_set ? ahead_us : kept_us), .now_us = now_us};
}

static void take(void *context, const char *bytes, size_t count)
{
    struct witness_log *log = context;
    if (bytes == NULL)
        witness_log_break(log);
    else
        witness_log_feed(log, bytes, count, clock_after(&log->clock));
}

static bool read_on(struct witness_follow *follow)
{
    pthread_mutex_lock(&follow->lock);
    bool any = tail_read(follow->tail, take, &follow->log);
    pthread_mutex_unlock(&follow->lock);
    atomic_store(&follow->load_count, follow->log.load_count);
    return any;
}

static void tick(void *context, bool is_last)
{
    (void)is_last;
    read_on(context);
}

/* Until our own statement is there. */
static bool read_until_seen(struct witness_follow *follow, uint32_t limit_ms)
{
    uint64_t end_us = clock_after_ms(limit_ms);
    read_on(follow);
    while (!follow->log.has_awaited && clock_us() < end_us) {
        clock_pause_ms(LOOK_AGAIN_MS);
        read_on(follow);
    }
    return follow->log.has_awaited;
}

/* Who collects the log is a moment behind those who write. */
static void read_until_quiet(struct witness_follow *follow)
{
    uint64_t end_us = clock_after_ms(SETTLE_LIMIT_MS);
    do
        clock_pause_ms(QUIET_MS);
    while (read_on(follow) && clock_us() < end_us);
}

/* A number that no other witness uses; not 0. */
static void await_new_number(struct witness_log *log)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        number = clock_us();
    log->awaited = (number >> 1) | 1;
    log->has_awaited = false;
}

/* ---- open, begin ---- */

/* What is in the log already shows whether it can be read. */
bool witness_follow_open(const char *path, const char *statement, struct witness_follow **out,
                         char why[static WITNESS_WHY_BYTES])
{
    struct witness_follow *follow = calloc(1, sizeof *follow);
    if (follow == NULL) {
        snprintf(why, WITNESS_WHY_BYTES, "no memory");
        return false;
    }
    follow->path = path;
    follow->statement = statement;
    pthread_mutex_init(&follow->lock, NULL);
    witness_log_init(&follow->log, statement);
    if (tail_open(path, HISTORY_BYTES, &follow->tail, why)) {
        read_on(follow);
        if (witness_log_is_readable(&follow->log, path, why)) {
            *out = follow;
            return true;
        }
    }
    witness_follow_close(&follow);
    return false;
}

static bool complain_unseen(const struct witness_follow *follow, struct witness_postgres *postgres, char *why)
{
    char place[100];
    if (!witness_log_is_readable(&follow->log, follow->path, why))
        return false;
    witness_postgres_log_place(postgres, place, sizeof place);
    snprintf(why, WITNESS_WHY_BYTES,
             "%.70s: a statement just made is not in it: is it the log of this server? %s", follow->path,
             place);
    return false;
}

static bool find_mark(struct witness_follow *follow, struct witness_postgres *postgres, char *why)
{
    await_new_number(&follow->log);
    enum witness_mark mark = witness_postgres_mark(postgres, follow->log.awaited, BEGIN_MARK_LIMIT_MS, why);
    follow->is_marked = mark == WITNESS_MARKED;
    if (mark == WITNESS_UNMARKED)
        return false;
    return mark == WITNESS_UNLOGGED || read_until_seen(follow, BEGIN_SEEN_LIMIT_MS) ||
           complain_unseen(follow, postgres, why);
}

/* How statements are logged stays known: the first that fails is to count. */
static void begin_anew(struct witness_follow *follow)
{
    bool is_timed = follow->log.is_timed && !follow->log.is_begun;
    witness_log_clear(&follow->log);
    witness_log_init(&follow->log, follow->statement);
    follow->log.is_timed = is_timed;
    atomic_store(&follow->load_count, 0);
    tail_close(&follow->tail);
}

/* Were there such statements before: in a warm-up, or by the way? As it was opened, or at its end as it is now. */
static void look_back(struct witness_follow *follow)
{
    char why[WITNESS_WHY_BYTES];
    follow->knows_text = follow->knows_text || follow->log.load_count > 0;
    if (follow->knows_text)
        return;
    begin_anew(follow);
    if (tail_open(follow->path, HISTORY_BYTES, &follow->tail, why))
        read_on(follow);
    follow->knows_text = follow->log.load_count > 0;
}

bool witness_follow_begin(struct witness_follow *follow, struct witness_postgres *postgres,
                          char why[static WITNESS_WHY_BYTES])
{
    look_back(follow);
    begin_anew(follow);
    if (!tail_open(follow->path, 0, &follow->tail, why) ||
        (postgres != NULL && !find_mark(follow, postgres, why)))
        return false;
    follow->log.since_us = clock_us() - CUT_US;
    if (ticker_start(&follow->ticker, READ_EVERY_MS, tick, follow))
        return true;
    snprintf(why, WITNESS_WHY_BYTES, "no thread to read the log: %s", strerror(errno));
    return false;
}

uint64_t witness_follow_count(struct witness_follow *follow)
{
    return atomic_load(&follow->load_count);
}

uint64_t witness_follow_count_of(struct witness_follow *follow, uint64_t from, uint64_t first, uint64_t last)
{
    uint64_t count = 0;
    pthread_mutex_lock(&follow->lock);
    for (uint64_t i = from; i < follow->log.load_count; i++) {
        const char *text = follow->log.loads[i].key; /* "7, ...", or an array, "{7,8}, ..." */
        uint64_t key = strtoull(text + (text[0] == '{'), NULL, 10);
        count += key >= first && key <= last;
    }
    pthread_mutex_unlock(&follow->lock);
    return count;
}

/* ---- end ---- */

void witness_follow_end(struct witness_follow *follow)
{
    ticker_end(&follow->ticker);
}

static void note_missing(struct witness_view *view, const char *what)
{
    view->misses_loads = true;
    witness_note(view, "%s", what);
}

static void read_the_rest(struct witness_follow *follow, struct witness_postgres *postgres,
                          struct witness_view *view)
{
    char why[WITNESS_WHY_BYTES];
    await_new_number(&follow->log);
    bool is_marked =
        postgres != NULL && follow->is_marked &&
        witness_postgres_mark(postgres, follow->log.awaited, END_MARK_LIMIT_MS, why) == WITNESS_MARKED;
    if (!is_marked)
        read_until_quiet(follow);
    else if (!read_until_seen(follow, END_SEEN_LIMIT_MS))
        note_missing(view, "the log goes on in another file, or is late: loads may be missing");
}

static const struct witness_other *most_frequent(const struct witness_log *log)
{
    const struct witness_other *most = &log->others[0];
    for (size_t i = 1; i < WITNESS_LOG_OTHERS; i++)
        most = log->others[i].count > most->count ? &log->others[i] : most;
    return most->count > 0 ? most : NULL;
}

/* A text with a slip of the pen is in no statement: here is what it might have been. */
static void note_nothing(const struct witness_follow *follow, struct witness_view *view)
{
    const struct witness_other *other = most_frequent(&follow->log);
    if (follow->log.load_count > 0)
        return;
    if (other != NULL)
        witness_note(view,
                     "no statement has \"%.80s\" in it; the most frequent query is %" PRIu64 " x \"%s\"",
                     follow->statement, other->count, other->form);
    else
        witness_note(view, "no statement has \"%.80s\" in it, nor was there any query", follow->statement);
}

/* At that instant, than there are loads of it. */
static bool has_more_running(const struct witness_log *log, uint32_t running, uint64_t at_us)
{
    uint32_t known = 0;
    for (size_t i = 0; i < log->load_count; i++)
        known += log->loads[i].at_us <= at_us && log->loads[i].end_us + CUT_US >= at_us;
    return running > known;
}

/* What is logged when it ends may be left out. */
static void note_ends(const struct witness_follow *follow, bool is_loud, struct witness_view *view)
{
    const struct witness_log *log = &follow->log;
    if (log->opaque_count > 0)
        note_missing(view,
                     "the proxy cannot read a connection of the service, and says why: loads may be missing");
    if (log->timed_count == 0)
        return;
    if (log->shortest_us >= ALL_US && !is_loud)
        note_missing(view, "no statement in the log took less than a millisecond: loads may be missing, "
                           "unless log_min_duration_statement is 0");
    if (has_more_running(log, follow->running, follow->end_us))
        note_missing(view, "loads still ran when the run ended, and the log has those that are over");
}

static void note_doubts(const struct witness_follow *follow, const struct witness_postgres *postgres,
                        struct witness_view *view)
{
    const struct witness_log *log = &follow->log;
    char why[WITNESS_WHY_BYTES];
    if (tail_cut_count(follow->tail) > 0)
        note_missing(view, "the log was cut during the run: loads may be missing");
    bool is_loud = follow->is_marked && postgres != NULL && witness_postgres_is_loud_by_default(postgres);
    if (postgres != NULL && !is_loud && log->load_count == 0)
        note_missing(view,
                     "neither log_statement 'all' nor log_min_duration_statement 0 is set for the role that "
                     "looked; if it is not for others, none is seen");
    note_ends(follow, is_loud, view);
    if (log->keyless_count > 0)
        witness_note(view,
                     "%" PRIu64 " loads have parameters that the log does not show: log_error_verbosity = "
                     "'default' and log_parameter_max_length = -1",
                     log->keyless_count);
    if (log->load_count > 0 && !witness_log_is_readable(log, follow->path, why))
        note_missing(view, "log_line_prefix was changed during the run: loads may be missing");
    note_nothing(follow, view);
}

static int by_time(const void *a, const void *b)
{
    const struct witness_load *left = a, *right = b;
    return (left->at_us > right->at_us) - (left->at_us < right->at_us);
}

/* By their ends, where those are in the line of each; otherwise by the order of lines. */
static bool give_at_once(struct witness_log *log, struct witness_view *view)
{
    view->at_once = log->running.most;
    view->has_ends = log->running.ended > 0 && !log->running.is_overfull;
    if (log->timed_count == 0)
        return true;
    view->has_ends = log->timed_count == log->load_count;
    return witness_most_at_once(log->loads, log->load_count, CUT_US, &view->at_once);
}

static bool give_loads(struct witness_log *log, struct witness_view *view)
{
    if (log->loads == NULL)
        log->loads = calloc(1, sizeof *log->loads);
    if (log->loads == NULL)
        return false;
    qsort(log->loads, log->load_count, sizeof *log->loads, by_time);
    if (!give_at_once(log, view))
        return false;
    if (!log->has_parameters)
        witness_key_trim(log->loads, log->load_count);
    view->loads = log->loads;
    view->load_count = log->load_count;
    view->keyless_count = log->keyless_count;
    view->is_coarse = witness_log_is_coarse(log);
    log->loads = NULL;
    log->load_count = log->load_room = 0;
    return true;
}

bool witness_follow_finish(struct witness_follow *follow, struct witness_postgres *postgres,
                           struct witness_view *view, char why[static WITNESS_WHY_BYTES])
{
    ticker_join(&follow->ticker);
    follow->end_us = clock_us();
    follow->running = postgres != NULL ? witness_postgres_running(postgres) : 0;
    view->knows_text = follow->knows_text;
    read_the_rest(follow, postgres, view);
    note_doubts(follow, postgres, view);
    bool good = follow->log.load_count > 0 || witness_log_is_readable(&follow->log, follow->path, why);
    if (good && (follow->log.is_out_of_memory || !give_loads(&follow->log, view))) {
        snprintf(why, WITNESS_WHY_BYTES, "%.100s: no memory for so many loads", follow->path);
        good = false;
    }
    if (!good)
        view->way = WITNESS_NONE;
    return good;
}

void witness_follow_close(struct witness_follow **slot)
{
    struct witness_follow *follow = *slot;
    *slot = NULL;
    if (follow == NULL)
        return;
    ticker_join(&follow->ticker);
    witness_log_clear(&follow->log);
    tail_close(&follow->tail);
    free(follow);
}
