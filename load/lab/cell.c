/* SPDX-License-Identifier: MIT */
/* cell.c - see cell.h. */
#include "load/lab/cell.h"

#include <inttypes.h>
#include <stdio.h>

/* The worst comes first: what never ends, what is wrong for others, what is wrong for long, what is too much. */
void cell_judge(struct cell *cell, const struct cell_demand *demand)
{
    char *word = cell->verdict;
    const size_t bytes = sizeof cell->verdict;
    const uint64_t wait_us = cell->has_stuck ? cell->stuck_us : cell->has_wake ? cell->wake_us : 0;
    if (cell->state == CELL_NOT_RUN)
        snprintf(word, bytes, "not run");
    else if (cell->state == CELL_NO_MOMENT)
        snprintf(word, bytes, "-");
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
    else if (cell->load_count > demand->needed_loads)
        snprintf(word, bytes, "%" PRIu32 " loads", cell->load_count);
    else if (wait_us >= (uint64_t)CELL_NOTICE_MS * 1000)
        snprintf(word, bytes, "waits %s%.1f s", cell->is_until_resumed ? ">" : "", (double)wait_us / 1e6);
    else
        snprintf(word, bytes, "holds");
}

bool cell_keeps_promise(const struct cell *cell, const struct cell_demand *demand, char *why,
                        size_t why_bytes)
{
    const uint32_t loads_max =
        demand->needed_loads + demand->our_loads_extra + demand->our_loads_each * cell->worker_count;
    const uint64_t wait_us = cell->has_stuck ? cell->stuck_us : cell->has_wake ? cell->wake_us : 0;
    const uint64_t wait_max_us =
        ((uint64_t)demand->our_wait_leases * cell->lease_ms + demand->our_wait_ms) * 1000;
    const char *what = NULL;
    if (cell->state == CELL_NOT_RUN)
        what = "could not be run";
    else if (cell->state == CELL_NO_MOMENT)
        return true;
    else if (cell->is_for_ever)
        what = "stuck";
    else if (cell->wrong_deletions > 0)
        what = "another's lock was deleted";
    else if (cell->is_stale || cell->is_stale_answer)
        what = "a stale value was kept";
    else if (cell->answered < cell->asked)
        what = "not everybody was served";
    else if (cell->load_count > loads_max)
        what = "too many loads";
    else if (wait_us > wait_max_us)
        what = "too long a wait";
    snprintf(why, why_bytes, "%s", what != NULL ? what : "");
    return what == NULL;
}
