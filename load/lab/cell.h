/* SPDX-License-Identifier: MIT */
/*
 * cell.h - what one trial (a scheme under a failure) has measured, and the word that stands for it.
 *
 * A cell is filled by trial.h from PostgreSQL's statement log and the row itself, Redis's MONITOR and commandstats,
 * and the instants that the workers told. The verdict follows from these numbers and from nothing else.
 *
 * Pure: no I/O, any thread.
 */
#pragma once

#include "load/lab/scheme.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CELL_VERDICT_BYTES = 40 };

/* Waiting for less than this is not called waiting. */
enum { CELL_NOTICE_MS = 250 };

enum cell_state {
    CELL_NOT_RUN = 0, /* it was tried and could not be */
    CELL_NO_MOMENT,   /* the scheme never comes by the point at which the failure strikes */
    CELL_MEASURED,
    CELL_APART, /* the failure does not concern the scheme's groups: nothing was tried */
};

/* What a failure asks of a scheme. */
struct cell_demand {
    uint32_t needed_loads;     /* a perfect lock makes so many */
    uint32_t our_loads_each;   /* what ours may need beyond them for each worker process, by its README */
    uint32_t our_wait_leases;  /* the longest that a request may have to wait for ours: so many leases ... */
    uint32_t our_wait_ms;      /* ... and this */
    uint32_t our_hand_over_ms; /* at most, in the middle, where a waiter is told; 0: whatever it is */
    bool may_overlap; /* guard/locks.h allows two holders here; what it fences is safe all the same */
    bool must_refuse; /* the right answer is that the scheme cannot work here */
};

/* What is measured of a lock, beside what struct cell has. */
struct cell_lock {
    bool is_over;           /* more held it at once than may */
    uint32_t lost_updates;  /* writes that another one overwrote unseen: counted by the row */
    uint32_t late_accepted; /* writes that the row took from a holder after another one had taken the lock */
    uint32_t late_refused;  /* ... and that it refused */
    uint32_t told;          /* holders that heard that they no longer are */
    uint32_t refused;       /* requests that the scheme refused to try */
    bool has_order;         /* who came first is known */
    uint32_t overtaken;     /* requests that were served after a later one */
    bool is_told;           /* the scheme wakes the next one; it does not try again from time to time */
    uint32_t hand_over_count; /* from one process's release to another's having it */
    uint64_t hand_over_p50_us, hand_over_p99_us;
    double sections_per_s;
    uint32_t crowd; /* so many waited; 0: not measured so */
    double idle_sent_per_s,
        idle_run_per_s; /* scripts that clients sent, and all that Redis ran, while they waited */
    double hand_over_sent, hand_over_run; /* the same for each hand-over while the crowd was served */
    double hand_overs_per_s;
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
    bool is_lock;         /* measured as a lock; the others as a cache */
    struct cell_lock lock;
    char verdict[CELL_VERDICT_BYTES];
};

/* Writes the verdict. */
void cell_judge(struct cell *cell, const struct cell_demand *demand);

/* True if ours may show this cell. Otherwise what is wrong goes into `why`. */
bool cell_keeps_promise(const struct cell *cell, const struct cell_demand *demand, char *why,
                        size_t why_bytes);
