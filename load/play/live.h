/* SPDX-License-Identifier: MIT */
/*
 * live.h - a run as it goes: rate, latency, loads and failures in one line.
 *
 *     live_begin()
 *     live_show()    every LIVE_TICK_MS, by progress_run()
 *     live_end()     the line that stays
 *
 * live_add() and live_text() are what live_show() does, without herd, clock and terminal.
 *
 * Threads: one.
 */
#ifndef LOAD_PLAY_LIVE_H
#define LOAD_PLAY_LIVE_H

#include "load/herd/herd.h"

enum {
    LIVE_TICK_MS = 100,
    LIVE_WINDOW = 10,      /* ticks that rate and latency are of */
    LIVE_LATENCIES = 8192, /* ... or so many answers */
    LIVE_TEXT_BYTES = 256
};

/* Sums since the barrier. */
struct live_sample {
    uint64_t at_us; /* since the barrier */
    struct herd_progress progress;
    uint64_t loads;
};

struct live {
    bool counts_loads, is_burst;
    struct live_sample last;
    size_t tick_count; /* since the barrier */
    uint64_t at_us[LIVE_WINDOW + 1], answered[LIVE_WINDOW + 1], taken[LIVE_WINDOW + 1]; /* a ring by tick */
    uint64_t latencies_us[LIVE_LATENCIES];                                              /* a ring by number */
    uint64_t taken_count, from, until; /* numbers: of all, and of the window */
    uint64_t seen[WORK_GENERATORS_MAX];
};

/* Between the rounds of a burst the latencies of the last one stay. */
void live_begin(struct live *live, bool counts_loads, bool is_burst);
void live_add(struct live *live, const struct live_sample *sample, const uint64_t *latencies_us,
              size_t count);
void live_text(const struct live *live, char text[static LIVE_TEXT_BYTES]);

/* `now_us` since the barrier. */
void live_show(struct live *live, const struct herd *herd, const struct herd_progress *progress,
               uint64_t loads, uint64_t now_us);
void live_end(const struct live *live);

#endif
