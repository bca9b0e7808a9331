/* SPDX-License-Identifier: MIT */
/* live.c - see live.h. */
#include "load/play/live.h"

#include "load/base/progress.h"
#include "load/base/rank.h"
#include "load/report/result_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void live_begin(struct live *live, bool counts_loads, bool is_burst)
{
    memset(live, 0, sizeof *live);
    live->counts_loads = counts_loads;
    live->is_burst = is_burst;
}

static size_t slot_of(size_t tick)
{
    return tick % (LIVE_WINDOW + 1);
}

/* The tick that the window begins with; tick 0 is the barrier. */
static size_t window_begin(const struct live *live)
{
    return slot_of(live->tick_count > LIVE_WINDOW ? live->tick_count - LIVE_WINDOW : 0);
}

void live_add(struct live *live, const struct live_sample *sample, const uint64_t *latencies_us, size_t count)
{
    size_t slot = slot_of(++live->tick_count);
    for (size_t i = 0; i < count; i++)
        live->latencies_us[live->taken_count++ % LIVE_LATENCIES] = latencies_us[i];
    live->at_us[slot] = sample->at_us;
    live->answered[slot] = sample->progress.answered;
    live->taken[slot] = live->taken_count;
    live->last = *sample;
    uint64_t from = live->taken[window_begin(live)], until = live->taken_count;
    if (live->is_burst && from == until)
        return;
    live->from = until - from > LIVE_LATENCIES ? until - LIVE_LATENCIES : from;
    live->until = until;
}

/* Per second. */
static double rate(const struct live *live)
{
    size_t from = window_begin(live), to = slot_of(live->tick_count);
    uint64_t us = live->at_us[to] - live->at_us[from], count = live->answered[to] - live->answered[from];
    return us > 0 ? (double)count / (double)us * 1e6 : 0;
}

/* "-": there are too few answers in the window. */
static const char *latency(const struct live *live, double percent, char out[static TEXT_NUMBER_BYTES])
{
    static uint64_t sorted[LIVE_LATENCIES]; /* large; there is one thread */
    size_t count = (size_t)(live->until - live->from);
    for (size_t i = 0; i < count; i++)
        sorted[i] = live->latencies_us[(live->from + i) % LIVE_LATENCIES];
    rank_sort(sorted, count);
    if (count < rank_percentile_least(percent))
        snprintf(out, TEXT_NUMBER_BYTES, "-");
    else
        text_ms(out, rank_percentile(sorted, count, percent));
    return out;
}

static const char *loads_text(const struct live *live, char out[static 48])
{
    out[0] = '\0';
    if (live->counts_loads)
        snprintf(out, 48, "  loads %" PRIu64, live->last.loads);
    return out;
}

void live_text(const struct live *live, char text[static LIVE_TEXT_BYTES])
{
    const struct herd_progress *progress = &live->last.progress;
    char loads[48], p50[TEXT_NUMBER_BYTES], p99[TEXT_NUMBER_BYTES];
    snprintf(text, LIVE_TEXT_BYTES,
             "  %5.1f s  due %" PRIu64 "  answered %" PRIu64 " (%.0f/s)  p50 %s  p99 %s ms  failed %" PRIu64
             "  5xx %" PRIu64 "  open %" PRIu32 "%s",
             (double)live->last.at_us / 1e6, progress->due, progress->answered, rate(live),
             latency(live, 50, p50), latency(live, 99, p99), progress->failed, progress->errors_5xx,
             progress->open_connections, loads_text(live, loads));
}

void live_show(struct live *live, const struct herd *herd, const struct herd_progress *progress,
               uint64_t loads, uint64_t now_us)
{
    char text[LIVE_TEXT_BYTES];
    uint64_t latencies_us[LIVE_LATENCIES];
    size_t count = herd_recent(herd, live->seen, latencies_us, LIVE_LATENCIES);
    live_add(live, &(struct live_sample){.at_us = now_us, .progress = *progress, .loads = loads},
             latencies_us, count);
    live_text(live, text);
    progress_run(text);
}

void live_end(const struct live *live)
{
    const struct herd_progress *progress = &live->last.progress;
    char text[LIVE_TEXT_BYTES], loads[48];
    snprintf(text, sizeof text,
             "  %5.1f s  due %" PRIu64 "  answered %" PRIu64 "  failed %" PRIu64 "  5xx %" PRIu64 "%s",
             (double)live->last.at_us / 1e6, progress->due, progress->answered, progress->failed,
             progress->errors_5xx, loads_text(live, loads));
    progress_run_end(text);
}
