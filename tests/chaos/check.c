/* SPDX-License-Identifier: MIT */
/*
 * check.c - see check.h.
 *
 * Freshness is one sweep over time: requests by their begin, confirmed invalidations by their end, and between
 * them a floor for each key. What was written is another, over the edits by their begin and the requests by
 * their end. Overlap is a sweep over each key's loads.
 */
#include "tests/chaos/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[CHECK_KINDS] = {
    [CHECK_STALE] = "stale",     [CHECK_UNWRITTEN] = "unwritten", [CHECK_WRONG_ROW] = "wrong row",
    [CHECK_STATUS] = "status",   [CHECK_LATE] = "late",           [CHECK_UNANSWERED] = "unanswered",
    [CHECK_OVERLAP] = "overlap", [CHECK_KEPT] = "kept",
};

const char *check_name(enum check_kind kind)
{
    return names[kind];
}

__attribute__((format(printf, 3, 4))) static void report_add(struct check_report *report,
                                                             enum check_kind kind, const char *format, ...)
{
    va_list arguments;
    char *text = report->violation_count < CHECK_TEXTS ? report->texts[report->violation_count] : NULL;
    report->violations[kind]++;
    report->violation_count++;
    if (text == NULL)
        return;
    int used = snprintf(text, CHECK_TEXT_BYTES, "%s: ", names[kind]);
    va_start(arguments, format);
    vsnprintf(text + used, CHECK_TEXT_BYTES - (size_t)used, format, arguments);
    va_end(arguments);
}

/* ---- order ---- */

#define BY(name, type, field)                                                                                \
    static int name(const void *a, const void *b)                                                            \
    {                                                                                                        \
        const type *one = a, *other = b;                                                                     \
        return (one->field > other->field) - (one->field < other->field);                                    \
    }
BY(get_by_begin, struct history_get, begin_us)
BY(get_by_end, struct history_get, end_us)
BY(edit_by_begin, struct history_edit, begin_us)
BY(invalidation_by_end, struct history_invalidation, end_us)

static int load_by_key(const void *a, const void *b)
{
    const struct history_load *one = a, *other = b;
    if (one->key != other->key)
        return one->key < other->key ? -1 : 1;
    return (one->begin_us > other->begin_us) - (one->begin_us < other->begin_us);
}

#define SORT(list, order)                                                                                    \
    do {                                                                                                     \
        if ((list).count > 1)                                                                                \
            qsort((list).items, (list).count, sizeof *(list).items, order);                                  \
    } while (0)

/* ---- one number for each key ---- */

struct numbers {
    uint64_t *of; /* owned */
    uint32_t count;
};

static uint32_t key_count(const struct history *history)
{
    uint32_t most = 0;
    for (size_t i = 0; i < history->gets.count; i++)
        most = history->gets.items[i].key > most ? history->gets.items[i].key : most;
    for (size_t i = 0; i < history->edits.count; i++)
        most = history->edits.items[i].key > most ? history->edits.items[i].key : most;
    for (size_t i = 0; i < history->invalidations.count; i++)
        most = history->invalidations.items[i].key > most ? history->invalidations.items[i].key : most;
    return most + 1;
}

static struct numbers numbers_new(const struct history *history)
{
    struct numbers numbers = {.count = key_count(history)};
    numbers.of = calloc(numbers.count, sizeof *numbers.of);
    if (numbers.of == NULL)
        abort();
    return numbers;
}

/* ---- freshness ---- */

static bool has_row_or_absence(const struct history_get *get)
{
    return get->outcome == HTTP_ANSWERED && (get->status == 200 || get->status == 404);
}

/* A fault may have lost this one, and has not had to repay it yet when the answer began. */
static bool may_be_lost(const struct history *history, const struct history_invalidation *one,
                        const struct history_get *get, uint64_t *late_us)
{
    for (size_t i = 0; i < history->faults.count; i++) {
        const struct fault *fault = &history->faults.items[i];
        uint64_t from_us, to_us, until_us;
        if (!fault_may_lose(fault, &from_us, &to_us, &until_us) || one->end_us < from_us ||
            one->end_us > to_us || get->begin_us > until_us)
            continue;
        if (get->begin_us > fault->end_us && get->begin_us - fault->end_us > *late_us)
            *late_us = get->begin_us - fault->end_us;
        return true;
    }
    return false;
}

/* Another process was told, and not long before: what is kept may be from before that. */
static bool may_be_unheard(const struct check_rules *rules, const struct history_invalidation *one,
                           const struct history_get *get)
{
    return get->kept && one->process != get->process &&
           get->begin_us < one->end_us + (uint64_t)rules->kept_ms * 1000;
}

/* Every invalidation that the stale answer lacks. */
static bool is_allowed(const struct history *history, const struct check_rules *rules,
                       const struct history_get *get, uint64_t *late_us)
{
    for (size_t i = 0; i < history->invalidations.count; i++) {
        const struct history_invalidation *one = &history->invalidations.items[i];
        if (one->end_us >= get->begin_us)
            break;
        if (one->confirmed && one->key == get->key && one->version > get->version &&
            !may_be_unheard(rules, one, get) && !may_be_lost(history, one, get, late_us))
            return false;
    }
    return true;
}

static void judge_stale(const struct history *history, const struct check_rules *rules,
                        const struct history_get *get, uint64_t floor, struct check_report *report)
{
    uint64_t late_us = 0;
    if (!is_allowed(history, rules, get, &late_us)) {
        report_add(report, CHECK_STALE,
                   "key %" PRIu32 " from process %u begun at %" PRIu64 ": version %" PRIu64
                   "%s after %" PRIu64 " was confirmed",
                   get->key, (unsigned)get->process, get->begin_us, get->version, get->kept ? ", kept," : "",
                   floor);
        return;
    }
    report->kept_old += get->kept;
    report->allowed += !get->kept;
    if (late_us / 1000 > report->allowed_late_ms)
        report->allowed_late_ms = (uint32_t)(late_us / 1000);
}

static void check_fresh(struct history *history, const struct check_rules *rules, struct check_report *report)
{
    struct numbers floor = numbers_new(history);
    size_t next = 0;
    SORT(history->gets, get_by_begin);
    SORT(history->invalidations, invalidation_by_end);
    for (size_t i = 0; i < history->gets.count; i++) {
        const struct history_get *get = &history->gets.items[i];
        for (; next < history->invalidations.count; next++) {
            const struct history_invalidation *one = &history->invalidations.items[next];
            if (one->end_us >= get->begin_us)
                break;
            if (one->confirmed && one->version > floor.of[one->key])
                floor.of[one->key] = one->version;
        }
        if (has_row_or_absence(get) && get->version < floor.of[get->key])
            judge_stale(history, rules, get, floor.of[get->key], report);
    }
    free(floor.of);
}

/* A row begins with version 1, and each edit adds 1, also one whose fate is unknown. A committed edit says
 * itself how far it came, which a history that begins in the middle needs. */
static void note_edit(struct numbers *ceiling, const struct history_edit *edit)
{
    uint64_t *of = &ceiling->of[edit->key];
    *of = (*of == 0 ? 1 : *of) + 1;
    if (edit->version > *of)
        *of = edit->version;
}

static void check_written(struct history *history, struct check_report *report)
{
    struct numbers ceiling = numbers_new(history);
    size_t next = 0;
    SORT(history->gets, get_by_end);
    SORT(history->edits, edit_by_begin);
    for (size_t i = 0; i < history->gets.count; i++) {
        const struct history_get *get = &history->gets.items[i];
        for (; next < history->edits.count && history->edits.items[next].begin_us <= get->end_us; next++)
            note_edit(&ceiling, &history->edits.items[next]);
        uint64_t most = ceiling.of[get->key] == 0 ? 1 : ceiling.of[get->key];
        if (get->version > most)
            report_add(report, CHECK_UNWRITTEN,
                       "key %" PRIu32 " ended at %" PRIu64 ": version %" PRIu64 ", but at most %" PRIu64
                       " was written",
                       get->key, get->end_us, get->version, most);
    }
    free(ceiling.of);
}

/* ---- single answers ---- */

/* What is left of this pause from at_us on, if it comes before `next`. */
static void choose_pause(struct history_stall *next, uint64_t at_us, uint64_t begin_us, uint64_t end_us)
{
    uint64_t from_us = begin_us > at_us ? begin_us : at_us;
    if (end_us > at_us && from_us < next->begin_us)
        *next = (struct history_stall){.begin_us = from_us, .end_us = end_us};
}

/* By a fault, or with the machine; the end of the answer if nothing paused its process any more. */
static struct history_stall next_pause(const struct history *history, const struct history_get *get,
                                       uint64_t at_us)
{
    struct history_stall next = {.begin_us = get->end_us, .end_us = get->end_us};
    for (size_t i = 0; i < history->stalls.count; i++)
        choose_pause(&next, at_us, history->stalls.items[i].begin_us, history->stalls.items[i].end_us);
    for (size_t i = 0; i < history->faults.count; i++) {
        const struct fault *fault = &history->faults.items[i];
        if (fault_pauses(fault, get->process))
            choose_pause(&next, at_us, fault->begin_us, fault->end_us);
    }
    return next;
}

/* Pauses at the same time count once. */
static uint64_t paused_us(const struct history *history, const struct history_get *get)
{
    uint64_t sum_us = 0;
    for (uint64_t at_us = get->begin_us; at_us < get->end_us;) {
        struct history_stall pause = next_pause(history, get, at_us);
        at_us = pause.end_us < get->end_us ? pause.end_us : get->end_us;
        sum_us += at_us - pause.begin_us;
    }
    return sum_us;
}

static bool was_killed(const struct history *history, const struct history_get *get)
{
    for (size_t i = 0; i < history->faults.count; i++) {
        const struct fault *fault = &history->faults.items[i];
        if (fault_kills(fault, get->process) && fault->begin_us <= get->end_us &&
            fault->end_us >= get->begin_us)
            return true;
    }
    return false;
}

/* All faults were over when it began. */
static bool is_in_calm(const struct history *history, const struct history_get *get)
{
    return history->calm_us != 0 && get->begin_us >= history->calm_us;
}

/* Everybody was found healthy after the settling: what stalled before that is forgotten. Who was looked at in or just
 * after a stall may not have felt it yet. */
static bool met_stall(const struct history *history, const struct check_rules *rules,
                      const struct history_get *get)
{
    for (size_t i = 0; i < history->stalls.count; i++) {
        const struct history_stall *stall = &history->stalls.items[i];
        if (stall->end_us > history->settle_us && stall->begin_us <= get->end_us &&
            stall->end_us + (uint64_t)rules->tail_ms * 1000 >= get->begin_us)
            return true;
    }
    return false;
}

static bool status_allowed(const struct history *history, const struct check_rules *rules,
                           const struct history_get *get, struct check_report *report)
{
    bool is_in = is_in_calm(history, get), is_judged = is_in && !met_stall(history, rules, get);
    report->answered_in_calm += is_in;
    report->judged_calm += is_judged;
    if (is_judged)
        return get->status == 200;
    return get->status == 200 || get->status == 503 || get->status == 504;
}

static void check_answered(const struct history *history, const struct check_rules *rules,
                           const struct history_get *get, struct check_report *report)
{
    uint64_t limit_us = ((uint64_t)rules->deadline_ms + rules->slack_ms) * 1000;
    uint64_t took_us = get->end_us - get->begin_us;
    bool is_judged = is_in_calm(history, get) && !met_stall(history, rules, get);
    report->kept += get->kept;
    if (get->kept && is_judged && took_us < (uint64_t)rules->redis_late_ms * 1000)
        report_add(report, CHECK_KEPT,
                   "key %" PRIu32 " from process %u begun at %" PRIu64 ": what is kept, after %" PRIu64 " us",
                   get->key, (unsigned)get->process, get->begin_us, took_us);
    if (!status_allowed(history, rules, get, report))
        report_add(report, CHECK_STATUS, "key %" PRIu32 " from process %u begun at %" PRIu64 ": %u", get->key,
                   (unsigned)get->process, get->begin_us, (unsigned)get->status);
    if (get->status == 200 && get->body_key != get->key)
        report_add(report, CHECK_WRONG_ROW, "key %" PRIu32 " begun at %" PRIu64 ": row %" PRIu32, get->key,
                   get->begin_us, get->body_key);
    if (took_us > limit_us && took_us > limit_us + paused_us(history, get))
        report_add(report, CHECK_LATE,
                   "key %" PRIu32 " from process %u begun at %" PRIu64 ": %u after %" PRIu64 " ms", get->key,
                   (unsigned)get->process, get->begin_us, (unsigned)get->status, took_us / 1000);
}

/* He gave up before the process had had the time it may take, be it because it was stopped. */
static bool left_early(const struct history *history, const struct check_rules *rules,
                       const struct history_get *get)
{
    uint64_t limit_us = ((uint64_t)rules->deadline_ms + rules->slack_ms) * 1000;
    return get->outcome == HTTP_TIMEOUT && get->end_us - get->begin_us < limit_us + paused_us(history, get);
}

static void check_gets(const struct history *history, const struct check_rules *rules,
                       struct check_report *report)
{
    for (size_t i = 0; i < history->gets.count; i++) {
        const struct history_get *get = &history->gets.items[i];
        if (get->outcome == HTTP_ANSWERED)
            check_answered(history, rules, get, report);
        else if (!left_early(history, rules, get) && !was_killed(history, get))
            report_add(report, CHECK_UNANSWERED,
                       "key %" PRIu32 " from process %u begun at %" PRIu64 ": outcome %d after %" PRIu64
                       " ms",
                       get->key, (unsigned)get->process, get->begin_us, (int)get->outcome,
                       (get->end_us - get->begin_us) / 1000);
    }
}

/* ---- overlap ---- */

/* Until when what ended at end_us may have an effect. When all are calm, they have forgotten what was over before
 * they settled. */
static uint64_t felt_until(const struct history *history, const struct check_rules *rules, uint64_t end_us)
{
    uint64_t tail_end_us = end_us + (uint64_t)rules->tail_ms * 1000;
    bool calmed = history->settle_us >= end_us && history->calm_us < tail_end_us;
    return calmed ? history->calm_us : tail_end_us;
}

/* All stalls together let each process load for itself; a further query of one only runs beside that if it was given
 * up in a stall. */
static uint32_t stalls_further_loads(const struct history *history, const struct check_rules *rules,
                                     uint64_t from_us, uint64_t to_us)
{
    uint32_t stalls = 0, given_up = 0;
    for (size_t i = 0; i < history->stalls.count; i++) {
        const struct history_stall *stall = &history->stalls.items[i];
        if (stall->begin_us > to_us || felt_until(history, rules, stall->end_us) < from_us)
            continue;
        stalls++;
        given_up += (uint32_t)((stall->end_us - stall->begin_us) / ((uint64_t)rules->load_limit_ms * 1000));
    }
    return stalls > 0 ? rules->process_count + given_up : 0;
}

/* What may run at a time of this key, given all that happened from `from_us` to `to_us`. */
static uint32_t bound(const struct history *history, const struct check_rules *rules, uint32_t key,
                      uint64_t from_us, uint64_t to_us)
{
    uint32_t sum = 1 + stalls_further_loads(history, rules, from_us, to_us);
    uint32_t cap = rules->process_count * rules->workers;
    for (size_t i = 0; i < history->faults.count; i++) {
        const struct fault *fault = &history->faults.items[i];
        if (fault->begin_us <= to_us && felt_until(history, rules, fault->end_us) >= from_us)
            sum += fault_further_loads(fault, rules->process_count, rules->load_limit_ms);
    }
    for (size_t i = 0; i < history->invalidations.count; i++) {
        const struct history_invalidation *one = &history->invalidations.items[i];
        sum += one->key == key && one->begin_us <= to_us && one->end_us >= from_us;
    }
    return sum < cap ? sum : cap;
}

/* Loads of the same key before `load` that still run when it begins; the oldest of them begins at *oldest. */
static uint32_t running_at(const struct history *history, size_t load, uint64_t *oldest_us)
{
    const struct history_load *items = history->loads.items;
    uint32_t running = 1;
    *oldest_us = items[load].begin_us;
    for (size_t i = load; i-- > 0 && items[i].key == items[load].key;) {
        if (items[i].end_us <= items[load].begin_us)
            continue;
        running++;
        *oldest_us = items[i].begin_us;
    }
    return running;
}

static void check_overlap(struct history *history, const struct check_rules *rules,
                          struct check_report *report)
{
    SORT(history->loads, load_by_key);
    for (size_t i = 0; i < history->loads.count; i++) {
        const struct history_load *load = &history->loads.items[i];
        uint64_t oldest_us;
        uint32_t running = running_at(history, i, &oldest_us);
        report->most_at_a_time = running > report->most_at_a_time ? running : report->most_at_a_time;
        report->overlapping += running > 1;
        if (running == 1)
            continue;
        uint64_t memory_us = (uint64_t)rules->memory_ms * 1000;
        uint64_t from_us = oldest_us > memory_us ? oldest_us - memory_us : 0;
        uint32_t most = bound(history, rules, load->key, from_us, load->begin_us + HISTORY_LOAD_LATER_US);
        if (running > most)
            report_add(report, CHECK_OVERLAP,
                       "key %" PRIu32 " at %" PRIu64 ": %" PRIu32 " loads at a time, at most %" PRIu32,
                       load->key, load->begin_us, running, most);
    }
}

/* ---- all of it ---- */

bool check_history(struct history *history, const struct check_rules *rules, struct check_report *report)
{
    *report = (struct check_report){.violation_count = 0};
    check_written(history, report);
    check_fresh(history, rules, report);
    check_gets(history, rules, report);
    check_overlap(history, rules, report);
    return report->violation_count == 0;
}

uint64_t check_confirmed(const struct history *history, uint32_t key)
{
    uint64_t most = 0;
    for (size_t i = 0; i < history->invalidations.count; i++) {
        const struct history_invalidation *one = &history->invalidations.items[i];
        if (one->key == key && one->confirmed && one->version > most)
            most = one->version;
    }
    return most;
}
