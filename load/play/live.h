/* SPDX-License-Identifier: MIT */
/*
 * live.h - a run as it goes: rate, latency, loads and failures beside each other, on the terminal.
 *
 *     live_begin()
 *     live_show()    every LIVE_TICK_MS: a block of lines with the last ticks as curves; without a terminal a plain line
 *     live_end()     one line that stays
 *
 * live_add() and live_text() are what live_show() does, without herd, clock and terminal.
 *
 * Threads: one.
 */
#ifndef LOAD_PLAY_LIVE_H
#define LOAD_PLAY_LIVE_H

#include "load/base/progress.h"
#include "load/herd/herd.h"

enum {
    LIVE_TICK_MS = 100,
    LIVE_TICKS = 256, /* that are kept */
    LIVE_WINDOW = 10, /* ticks that a number beside its curve is about */
    LIVE_NAME_BYTES = 32,
    LIVE_TEXT_BYTES = 8192
};

/* Sums since the barrier. */
struct live_sample {
    uint64_t at_us; /* since the barrier */
    struct herd_progress progress;
    uint64_t loads;
    const uint64_t *latencies; /* HERD_LATENCY_BUCKETS, lent */
};

enum live_curve { LIVE_ANSWERS = 0, LIVE_P50, LIVE_P99, LIVE_LOADS, LIVE_FAILED, LIVE_WAITING, LIVE_CURVES };

struct live {
    char name[LIVE_NAME_BYTES]; /* of the variant; "" */
    uint32_t span_ms;           /* how long requests are due; 0: until the last one is over */
    bool counts_loads;

    struct live_sample last;
    double ticks[LIVE_CURVES][LIVE_TICKS];                     /* a ring; negative: no value */
    size_t tick_count;                                         /* since the barrier */
    uint64_t latencies[LIVE_WINDOW + 1][HERD_LATENCY_BUCKETS]; /* a ring, likewise */
    uint64_t at_us[LIVE_WINDOW + 1], answered[LIVE_WINDOW + 1];
};

/* `work` is looked at, not kept. */
void live_begin(struct live *live, const struct work *work, const char *name, bool counts_loads);
void live_add(struct live *live, const struct live_sample *sample);
/* Lines for progress_block(). */
void live_text(const struct live *live, const struct progress_size *size, char text[static LIVE_TEXT_BYTES]);

/* `now_us` since the barrier. */
void live_show(struct live *live, const struct herd *herd, const struct herd_progress *progress,
               uint64_t loads, uint64_t now_us);
void live_end(const struct live *live);

#endif
