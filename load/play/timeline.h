/* SPDX-License-Identifier: MIT */
/*
 * timeline.h - the events of a scenario during a run: when they are due, and when they really were.
 *
 *     WAITING ---due---> TRYING ---done---> DONE  (its "for" makes the opposite WAITING)
 *                          |  ^              |
 *                          |  +-- no leader  +--> a command that ends badly: FAILED
 *                          +-----failed, or no leader within LEADER_LIMIT_MS of the first try-----> FAILED
 *
 * Entries are begun in the order of the instants they were planned for. What takes long (a server that starts) delays
 * what comes behind it and leaves nothing out; a fault lasts at least as long as its "for". Waiting
 * for a leader holds up nothing.
 *
 * Faults become marks from when they began to when their opposite was done, or to the end of the run. What failed,
 * and what never came to happen, becomes a check that did not hold.
 *
 * Threads: one, that of proc.h.
 */
#pragma once

#include "load/play/act.h"
#include "load/play/servers.h"

enum { TIMELINE_ENTRIES_MAX = SCENARIO_EVENTS_MAX * 2 };

struct timeline_entry {
    enum { TIMELINE_WAITING = 0, TIMELINE_TRYING, TIMELINE_DONE, TIMELINE_FAILED } state;
    const struct scenario_event *event; /* lent: of the scenario */
    struct scenario_action action;      /* the event's, or its opposite */
    bool is_opposite;
    bool is_due_known;      /* on load: after that load */
    bool is_under_way;      /* a statement, POST or command that is not over yet; done_us is then its begin */
    uint64_t due_us;        /* as planned */
    uint64_t not_before_us; /* an opposite: the fault has lasted long enough */
    uint64_t tried_us;      /* for the first time */
    uint64_t begun_us, done_us;
    uint64_t until_us; /* when the opposite was done; 0: not yet */
    size_t process;    /* of catalogd, that it happened to, by index; with SCENARIO_ALL and others 0 */
    char why[SCENARIO_WHY_BYTES];
};

struct timeline {
    const struct scenario *scenario; /* lent */
    struct act act;
    struct timeline_entry entries[TIMELINE_ENTRIES_MAX];
    size_t count;
    uint64_t begin_us;
};

/* Begins with the barrier. */
void timeline_begin(struct timeline *timeline, const struct scenario *scenario, struct servers *servers,
                    uint64_t begin_us);
/* Does what is due; `loads` have begun since the barrier. */
void timeline_tick(struct timeline *timeline, uint64_t loads);
/* An event waits for a load, so loads have to be counted often. */
bool timeline_waits_for_load(const struct timeline *timeline);
/* No statement, POST or command is under way any more. */
bool timeline_is_quiet(struct timeline *timeline);
/* Ends what still runs. */
void timeline_end(struct timeline *timeline);
/* When something was done that may have dropped values: Redis emptied, a POST, a command; how often. */
size_t timeline_drops(const struct timeline *timeline, uint64_t drops_us[static TIMELINE_ENTRIES_MAX]);
/* The first thing that was done to the service began, the last ended; notes are none. 0: none, or it did not end. */
void timeline_faults(const struct timeline *timeline, uint64_t *from_us, uint64_t *until_us);
/* Adds marks and, unless the run was ended early, failed checks. */
void timeline_report(const struct timeline *timeline, uint64_t run_end_us, struct result *result);

/* ---- rows that change meanwhile: writer.c ---- */

/*
 * Changes rows while they are requested, and says when each change is over.
 *
 *     every_ms:  sql with the next key  -->  the new version  -->  POST to say so  -->  over
 *
 * A change is over, and every later request must see its version, once the POST has been answered with 2xx; until
 * then it is posted again. A change whose POST is not answered so within POST_LIMIT_MS has failed: it promises
 * nothing.
 *
 * Threads: one of its own for each; begun and ended by one.
 */

struct writer;

/* Both lent until writer_end(). NULL: no thread or memory, the reason on stderr. */
struct writer *writer_begin(const struct servers *servers, const struct scenario_write *write);

/* At most 10 s after it was told to. *writes is the caller's: free(). `failed`: how many changes were not over. */
void writer_end(struct writer **writer, struct result_write **writes, size_t *write_count, size_t *failed,
                char why[static SCENARIO_WHY_BYTES]);
