/* SPDX-License-Identifier: MIT */
/* live.c - see live.h. */
#include "load/play/live.h"

#include "load/base/progress.h"
#include "load/report/result_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void live_begin(struct live *live, bool counts_loads)
{
    memset(live, 0, sizeof *live);
    live->counts_loads = counts_loads;
}

static size_t slot_of(size_t tick)
{
    return tick % (LIVE_WINDOW + 1);
}

void live_add(struct live *live, const struct live_sample *sample)
{
    size_t slot = slot_of(++live->tick_count);
    memcpy(live->latencies[slot], sample->latencies, sizeof live->latencies[0]);
    live->at_us[slot] = sample->at_us;
    live->answered[slot] = sample->progress.answered;
    live->last = *sample;
    live->last.latencies = NULL;
}

/* The tick that the window begins with; tick 0 is the barrier. */
static size_t window_begin(const struct live *live)
{
    return slot_of(live->tick_count > LIVE_WINDOW ? live->tick_count - LIVE_WINDOW : 0);
}

/* Per second. */
static double rate(const struct live *live)
{
    size_t from = window_begin(live), to = slot_of(live->tick_count);
    uint64_t us = live->at_us[to] - live->at_us[from], count = live->answered[to] - live->answered[from];
    return us > 0 ? (double)count / (double)us * 1e6 : 0;
}

/* Among the answers of the window; "-": there are none. */
static const char *latency(const struct live *live, double share, char out[static TEXT_NUMBER_BYTES])
{
    const uint64_t *before = live->latencies[window_begin(live)];
    const uint64_t *after = live->latencies[slot_of(live->tick_count)];
    uint64_t count = 0, seen = 0;
    for (size_t i = 0; i < RANK_BUCKETS; i++)
        count += after[i] - before[i];
    for (size_t i = 0; i < RANK_BUCKETS; i++) {
        seen += after[i] - before[i];
        if (seen > 0 && (double)seen >= share * (double)count) {
            text_ms(out, (uint64_t)rank_bucket_us((uint32_t)i));
            return out;
        }
    }
    snprintf(out, TEXT_NUMBER_BYTES, "-");
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
             latency(live, 0.50, p50), latency(live, 0.99, p99), progress->failed, progress->errors_5xx,
             progress->open_connections, loads_text(live, loads));
}

void live_show(struct live *live, const struct herd *herd, const struct herd_progress *progress,
               uint64_t loads, uint64_t now_us)
{
    char text[LIVE_TEXT_BYTES];
    uint64_t latencies[RANK_BUCKETS];
    herd_latencies(herd, latencies);
    live_add(live, &(struct live_sample){
                       .at_us = now_us, .progress = *progress, .loads = loads, .latencies = latencies});
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
