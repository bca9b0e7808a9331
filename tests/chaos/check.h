/* SPDX-License-Identifier: MIT */
/*
 * check.h - decides from a history whether the promises were kept.
 *
 *     STALE        a 200 whose row is older than an invalidation that was confirmed before the request began;
 *                  a row that exists and is answered as absent is one, too
 *     UNWRITTEN    a version that nobody can have written before the answer ended
 *     WRONG_ROW    the answer to another question
 *     STATUS       anything but 200, 503 and 504; once all is calm: anything but 200
 *     LATE         answered, but not within the deadline (plus slack, plus the time its process was stopped or a
 *                  processor stood still)
 *     UNANSWERED   no answer from a process that was not killed meanwhile, to a client that did not leave
 *     KEPT         once all is calm: an answer from what its process keeps for an outage, sooner than Redis is late
 *     OVERLAP      more loads of one key at a time than its faults and invalidations excuse
 *
 * Freshness has no excuses but two. What a fault may lose with a master (fault_may_lose()): such answers are counted,
 * with how long after the fault the last of them began. And what a process answers from what it keeps for an outage
 * may lack what another process has had confirmed less than kept_ms before the request began; never what it was told
 * itself. The loads of a key that run at one instant may be
 *
 *     1 + invalidations of the key + sum of fault_further_loads() + P if there was a stall
 *       + queries given up in stalls
 *
 * over what happened since the oldest of them could have got its lease: memory_ms before it began, because a load may
 * have queued under a lease that an invalidation has made void. A fault counts until tail_ms after it was mended,
 * which is how long breakers and leases remember it, or, if it was mended before all settled, until all was calm. And
 * never more than all workers of all processes.
 *
 * A stall (stall.h) is no fault: whatever their number, stalls make each of the P processes load for itself, as
 * without Redis, and only one as long as load_limit_ms makes anybody give up a query. A request in the calm is not
 * held to its rule if it met a stall or the tail of one that came since; how many were, the report says, for
 * a calm that held nobody to its rule has shown nothing.
 *
 * Pure; one thread.
 */
#pragma once

#include "tests/chaos/history.h"

struct check_rules {
    uint32_t process_count, workers; /* workers of each process */
    uint32_t deadline_ms, slack_ms;
    uint32_t load_limit_ms;
    uint32_t memory_ms, tail_ms;
    uint32_t kept_ms;       /* for so long what is kept for an outage answers */
    uint32_t redis_late_ms; /* a lookup that takes longer is not waited for, where something is kept */
};

enum check_kind {
    CHECK_STALE,
    CHECK_UNWRITTEN,
    CHECK_WRONG_ROW,
    CHECK_STATUS,
    CHECK_LATE,
    CHECK_UNANSWERED,
    CHECK_KEPT,
    CHECK_OVERLAP,
    CHECK_KINDS
};

enum { CHECK_TEXTS = 8, CHECK_TEXT_BYTES = 200 };

struct check_report {
    uint32_t violations[CHECK_KINDS];
    uint32_t violation_count;
    uint32_t most_at_a_time;                   /* loads of one key */
    uint32_t overlapping;                      /* loads that began while another of their key ran */
    uint32_t allowed;                          /* stale, and a fault may have lost all that they lack */
    uint32_t allowed_late_ms;                  /* after the end of their fault, the last of them */
    uint32_t kept, kept_old;                   /* answers from what is kept; those that lack something */
    uint32_t answered_in_calm, judged_calm;    /* requests; the second without those that met a stall */
    char texts[CHECK_TEXTS][CHECK_TEXT_BYTES]; /* the first ones, in words */
};

const char *check_name(enum check_kind kind);

/* Sorts the lists of the history. True: no violation. */
bool check_history(struct history *history, const struct check_rules *rules, struct check_report *report);

/* The highest version of this key that was confirmed; 0: none. For a history that goes on in another one. */
uint64_t check_confirmed(const struct history *history, uint32_t key);
