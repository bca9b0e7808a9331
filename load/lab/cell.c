/* SPDX-License-Identifier: MIT */
/* cell.c - see cell.h. */
#include "load/lab/cell.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t wait_us_of(const struct cell *cell)
{
    return cell->has_stuck ? cell->stuck_us : cell->has_wake ? cell->wake_us : 0;
}

/* What is wrong for others comes before what never ends: the second can be seen, the first cannot. */
static bool judge_lock(const struct cell *cell, char word[CELL_VERDICT_BYTES])
{
    const struct cell_lock *lock = &cell->lock;
    word[0] = '\0';
    if (lock->refused > 0)
        snprintf(word, CELL_VERDICT_BYTES, "refuses");
    else if (lock->lost_updates > 0)
        snprintf(word, CELL_VERDICT_BYTES, "%" PRIu32 " lost update%s", lock->lost_updates,
                 lock->lost_updates == 1 ? "" : "s");
    else if (lock->is_over && lock->late_refused > 0)
        snprintf(word, CELL_VERDICT_BYTES, "fenced");
    else if (lock->is_over)
        snprintf(word, CELL_VERDICT_BYTES, "%" PRIu32 " at once", cell->holders_peak);
    else if (lock->late_accepted > 0)
        snprintf(word, CELL_VERDICT_BYTES, "late write");
    else if (lock->has_order && lock->overtaken > 0)
        snprintf(word, CELL_VERDICT_BYTES, "%" PRIu32 " overtaken", lock->overtaken);
    return word[0] != '\0';
}

/* A holder is gone, and what others wait for is the end of its lease. */
static bool is_lease(const struct cell *cell, const struct cell_demand *demand)
{
    const uint64_t lease_us = (uint64_t)cell->lease_ms * 1000, wait_us = wait_us_of(cell);
    return demand->our_wait_leases > 0 && !cell->is_until_resumed && 2 * wait_us >= lease_us &&
           wait_us <= demand->our_wait_leases * lease_us + (uint64_t)demand->our_wait_ms * 1000;
}

/* The worst comes first: what never ends, what is wrong for others, what is wrong for long, what is too much. */
void cell_judge(struct cell *cell, const struct cell_demand *demand)
{
    char *word = cell->verdict;
    const size_t bytes = sizeof cell->verdict;
    const uint64_t wait_us = wait_us_of(cell);
    if (cell->state == CELL_NOT_RUN)
        snprintf(word, bytes, "not run");
    else if (cell->state == CELL_NO_MOMENT)
        snprintf(word, bytes, "-");
    else if (cell->state == CELL_APART || (cell->is_lock && judge_lock(cell, word)))
        return;
    else if (cell->is_for_ever)
        snprintf(word, bytes, "stuck");
    else if (cell->wrong_deletions > 0)
        snprintf(word, bytes, "wrong del");
    else if (cell->is_stale || cell->is_stale_answer)
        snprintf(word, bytes, "stale");
    else if (cell->answered + cell->failed < cell->asked)
        snprintf(word, bytes, "%" PRIu32 " lost", cell->asked - cell->answered - cell->failed);
    else if (cell->failed > 0)
        snprintf(word, bytes, "%" PRIu32 " failed", cell->failed);
    else if (!cell->is_lock && cell->load_count > demand->needed_loads)
        snprintf(word, bytes, "%" PRIu32 " loads", cell->load_count);
    else if (wait_us >= (uint64_t)CELL_NOTICE_MS * 1000)
        snprintf(word, bytes, "waits %s%.1f s%s", cell->is_until_resumed ? ">" : "", (double)wait_us / 1e6,
                 is_lease(cell, demand) ? " by design: its lease" : "");
    else if (cell->lock.crowd > 0)
        snprintf(word, bytes, "%.0f scripts/s", cell->lock.idle_sent_per_s);
    else
        snprintf(word, bytes, "holds");
}

static const char *broken_as_lock(const struct cell *cell, const struct cell_demand *demand)
{
    const struct cell_lock *lock = &cell->lock;
    if (demand->must_refuse)
        return lock->refused > 0 ? NULL : "it worked where it cannot";
    if (lock->refused > 0)
        return "it refused to work";
    if (lock->lost_updates > 0)
        return "an update was lost";
    if (lock->is_over && !demand->may_overlap)
        return "two held it at once";
    if (demand->our_hand_over_ms > 0 && lock->is_told &&
        lock->hand_over_p50_us > (uint64_t)demand->our_hand_over_ms * 1000)
        return "a slow hand-over";
    return lock->has_order && lock->overtaken > 0 ? "a request was overtaken" : NULL;
}

static const char *broken_as_cache(const struct cell *cell, const struct cell_demand *demand)
{
    const uint32_t loads_max = demand->needed_loads + demand->our_loads_each * cell->worker_count;
    if (cell->wrong_deletions > 0)
        return "another's lock was deleted";
    if (cell->is_stale || cell->is_stale_answer)
        return "a stale value was kept";
    return cell->load_count > loads_max ? "too many loads" : NULL;
}

bool cell_keeps_promise(const struct cell *cell, const struct cell_demand *demand, char *why,
                        size_t why_bytes)
{
    const uint64_t wait_max_us =
        ((uint64_t)demand->our_wait_leases * cell->lease_ms + demand->our_wait_ms) * 1000;
    const char *what = NULL;
    if (cell->state == CELL_NOT_RUN)
        what = "could not be run";
    else if (cell->state == CELL_NO_MOMENT || cell->state == CELL_APART)
        return true;
    else if (cell->is_for_ever)
        what = "stuck";
    else
        what = cell->is_lock ? broken_as_lock(cell, demand) : broken_as_cache(cell, demand);
    if (what == NULL && cell->answered + cell->lock.refused < cell->asked)
        what = "not everybody was served";
    if (what == NULL && wait_us_of(cell) > wait_max_us)
        what = "too long a wait";
    snprintf(why, why_bytes, "%s", what != NULL ? what : "");
    return what == NULL;
}
