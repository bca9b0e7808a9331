/* SPDX-License-Identifier: MIT */
/*
 * history.h - what happened: every request, edit, invalidation, load, fault and stall of one run, with its times.
 *
 * Times are clock_us() of this machine's one clock; loads come from PostgreSQL's log and are converted to it
 * by their reader. A request begins before its first byte is sent and ends after its last byte was read, an
 * invalidation is confirmed when its answer was read: so what the checker calls "before" was before.
 *
 * Threads: history_add_*() any; the rest when nobody adds. Out of memory ends the program: it is a tester.
 */
#pragma once

#include "tests/chaos/fault.h"

#include "load/base/http.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct history_get {
    uint64_t begin_us, end_us;
    uint32_t key;
    uint32_t limit_ms; /* when the client would have left */
    uint64_t version;  /* of the row in the answer; 0: no row */
    uint32_t body_key; /* the row's own id, as the body has it */
    uint16_t status;   /* 0: no answer */
    uint8_t process;
    bool kept; /* its process answered from what it keeps for an outage of Redis, and said so */
    enum http_outcome outcome;
};

/* One UPDATE. With `committed` false its fate is unknown. */
struct history_edit {
    uint64_t begin_us, end_us;
    uint32_t key;
    bool committed;
    uint64_t version; /* the row's new one; 0 if unknown */
};

/* One POST /invalidate after the commit of `version`. */
struct history_invalidation {
    uint64_t begin_us, end_us;
    uint32_t key;
    uint8_t process; /* that was told */
    bool confirmed;  /* 200 */
    uint64_t version;
};

/* One statement, from just before it ran to after it ended, as the log has it: in whole milliseconds, cut off. */
enum { HISTORY_LOAD_LATER_US = 999 }; /* at most, than it says */
struct history_load {
    uint64_t begin_us, end_us;
    uint32_t key;
    uint32_t pid; /* of the backend */
};

/* A processor stood still, and with it some or all of the fleet. */
struct history_stall {
    uint64_t begin_us, end_us;
};

/* One of each kind of list; `items` is owned. */
#define HISTORY_LIST(type)                                                                                   \
    struct {                                                                                                 \
        type *items;                                                                                         \
        size_t count, capacity;                                                                              \
    }

struct history {
    HISTORY_LIST(struct history_get) gets;
    HISTORY_LIST(struct history_edit) edits;
    HISTORY_LIST(struct history_invalidation) invalidations;
    HISTORY_LIST(struct history_load) loads;
    HISTORY_LIST(struct fault) faults; /* planned ones only */
    HISTORY_LIST(struct history_stall) stalls;
    uint64_t calm_us;   /* from here on all faults were over and everybody healthy; 0: never */
    uint64_t settle_us; /* after this, a while before the calm, everybody was found healthy once more */
    pthread_mutex_t mutex;
};

void history_init(struct history *history);
void history_clear(struct history *history);

void history_add_get(struct history *history, const struct history_get *get);
void history_add_edit(struct history *history, const struct history_edit *edit);
void history_add_invalidation(struct history *history, const struct history_invalidation *invalidation);
void history_add_load(struct history *history, const struct history_load *load);
void history_add_fault(struct history *history, const struct fault *fault);
/* In the order of their ends. Those that overlap become one. */
void history_add_stall(struct history *history, const struct history_stall *stall);

/* One line an event, six lists; history_read() reads what history_write() wrote. False: errno. */
bool history_write(const struct history *history, const char *path);
bool history_read(struct history *history, const char *path);
