/* SPDX-License-Identifier: MIT */
/*
 * herd_shared.h - the memory that a herd and its generators share, and the barrier in it.
 *
 *     begin_us   0 --herd_release()--> instant of round 1 --last generator to be ready--> instant of round 2 ...
 *
 * A round is known by its instant. A generator that has done a round and is ready for the next one sets done_us to
 * the instant of the round it has done; who finds that nobody is missing moves begin_us on, with compare-and-swap,
 * so it moves once. A generator that died counts as ready (the parent sets is_gone).
 *
 * Everything is written by one process, except begin_us; counters may be read at any time. The bell is an eventfd
 * that all epolls know: whoever changes something that others wait for writes to it.
 */
#pragma once

#include "load/herd/record.h"
#include "load/herd/work.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    HERD_AHEAD_US = 20000,     /* so far in the future a barrier is: time for everybody to hear of it */
    HERD_HOLD_LIMIT_MS = 60000 /* the longest that a round may be held */
};

enum herd_stage {
    HERD_CONNECTING = 0, /* before the first barrier */
    HERD_READY,
    HERD_ENDED, /* its records are complete */
};

/* One generator's; a cache line's neighbours are its own. */
struct herd_post {
    _Alignas(64) _Atomic uint32_t stage; /* enum herd_stage */
    _Atomic bool is_gone;                /* by the parent: the process is no more */
    _Atomic uint64_t done_us;
    _Atomic uint64_t due, sent, answered, failed, errors_5xx;
    _Atomic uint32_t open_connections;
    _Atomic uint64_t waited_count;
    _Atomic uint64_t active_us, cpu_us, starved_us; /* over the rounds that are done */
    char error[WORK_WHY_BYTES];                     /* why it could not work; "" */
};

struct herd_shared {
    _Atomic uint64_t begin_us;
    _Atomic bool is_aborted;
    struct herd_post posts[WORK_GENERATORS_MAX];
};

/* What one generator is given. Lent to it; in shared memory, except `work`. */
struct herd_job {
    const struct work *work; /* generator_count and source_count are no longer 0 */
    struct herd_shared *shared;
    uint32_t index;
    int bell;
    uint32_t slot_count;
    struct record *records;         /* slot_count, by due time; due_us 0: not yet due */
    struct record_samples *samples; /* NULL: none are kept */
    /* slot_count: 1 + how late a request left, or how long it waited in vain; 0: neither */
    uint32_t *late_us;
};

/* When the round after the one at done_us may begin; 0: not all generators are ready for it. */
uint64_t herd_round_due_us(const struct herd_shared *shared, const struct work *work, uint64_t done_us);
/* If all generators are ready for that round, names its instant and rings, unless the parent holds it. */
void herd_next_round(struct herd_shared *shared, const struct work *work, uint64_t done_us, int bell);

void herd_ring(int bell);
