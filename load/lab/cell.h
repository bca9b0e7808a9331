/* SPDX-License-Identifier: MIT */
/*
 * cell.h - what one trial (a scheme under a failure) has measured, and the word that stands for it.
 *
 * A cell is filled by trial.h from PostgreSQL's statement log, Redis's MONITOR and commandstats, and the
 * instants that the workers told. The verdict follows from these numbers and from nothing else.
 *
 * Pure: no I/O, any thread.
 */
#ifndef LOAD_LAB_CELL_H
#define LOAD_LAB_CELL_H

#include "load/lab/scheme.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CELL_VERDICT_BYTES = 24 };

/* Waiting for less than this is not called waiting. */
enum { CELL_NOTICE_MS = 250 };

enum cell_state {
    CELL_NOT_RUN = 0, /* it was tried and could not be */
    CELL_NO_MOMENT,   /* the scheme never comes by the point at which the failure strikes */
    CELL_MEASURED,
};

/* What a failure asks of a scheme. */
struct cell_demand {
    uint32_t needed_loads;    /* a perfect lock makes so many */
    uint32_t our_loads_extra; /* what ours may need beyond them, by its README ... */
    uint32_t our_loads_each;  /* ... and this for each worker process */
    uint32_t our_wait_leases; /* the longest that a request may have to wait for ours: so many leases ... */
    uint32_t our_wait_ms;     /* ... and this */
};

struct cell {
    enum cell_state state;
    uint32_t worker_count, lease_ms;
    uint32_t asked, answered, failed; /* requests of workers that lived; failed: answered without a value */
    uint32_t load_count;              /* queries, from PostgreSQL's statement log */
    uint32_t holders_peak;            /* workers that held the lock at the same time */
    uint32_t wrong_deletions;         /* from MONITOR */
    bool has_stuck;
    bool is_for_ever;      /* watched for stuck_us, and no request was served */
    bool is_until_resumed; /* no request was served before the paused holder went on */
    uint64_t stuck_us;     /* from the failure to the next that was served, or could be */
    int64_t
        lock_pttl_ms; /* for ever: what Redis says of the lock then; -1: it has no end, -2: there is none */
    bool has_wake;
    uint64_t wake_us; /* from the value being in Redis to the last waiter's answer */
    bool has_polling;
    double
        polling;  /* Redis commands for each waiter and second while waiting, those inside scripts included */
    double calls; /* the same, only what clients sent: round trips */
    bool is_stale; /* the value left in Redis is older than the row, after the invalidation was confirmed */
    bool is_stale_answer; /* and was given to a request that began after it */
    char verdict[CELL_VERDICT_BYTES];
};

/* Writes the verdict. */
void cell_judge(struct cell *cell, const struct cell_demand *demand);

/* True if ours may show this cell. Otherwise what is wrong goes into `why`. */
bool cell_keeps_promise(const struct cell *cell, const struct cell_demand *demand, char *why,
                        size_t why_bytes);

#endif
