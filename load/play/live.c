/* SPDX-License-Identifier: MIT */
/* live.c - see live.h. */
#include "load/play/live.h"

#include "load/report/result_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LABEL_COLUMNS = 12, NUMBER_COLUMNS = 10, LINE_BYTES = 1200 };

void live_begin(struct live *live, const struct work *work, const char *name, bool counts_loads)
{
    memset(live, 0, sizeof *live);
    snprintf(live->name, sizeof live->name, "%s", name);
    live->span_ms = work->shape == WORK_RATE ? work->duration_ms : 0;
    live->counts_loads = counts_loads;
}

/* ---- ticks ---- */

static size_t slot_of(size_t tick)
{
    return tick % (LIVE_WINDOW + 1);
}

/* The tick that the window begins with; tick 0 is the barrier. */
static size_t window_begin(const struct live *live)
{
    return live->tick_count > LIVE_WINDOW ? live->tick_count - LIVE_WINDOW : 0;
}

/* Among the answers between two ticks; negative: there are none. */
static double percentile_ms(const struct live *live, size_t from, size_t to, double share)
{
    const uint64_t *before = live->latencies[slot_of(from)], *after = live->latencies[slot_of(to)];
    uint64_t count = 0, seen = 0;
    for (size_t i = 0; i < HERD_LATENCY_BUCKETS; i++)
        count += after[i] - before[i];
    for (size_t i = 0; i < HERD_LATENCY_BUCKETS; i++) {
        seen += after[i] - before[i];
        if (seen > 0 && (double)seen >= share * (double)count)
            return (double)herd_latency_us(i) / 1e3;
    }
    return -1;
}

/* Per second, between two ticks. */
static double rate(const struct live *live, size_t from, size_t to)
{
    uint64_t us = live->at_us[slot_of(to)] - live->at_us[slot_of(from)];
    uint64_t count = live->answered[slot_of(to)] - live->answered[slot_of(from)];
    return us > 0 ? (double)count / (double)us * 1e6 : 0;
}

static uint64_t failures(const struct herd_progress *progress)
{
    return progress->failed + progress->errors_5xx;
}

static uint64_t waiting(const struct herd_progress *progress)
{
    uint64_t over = progress->answered + progress->failed;
    return progress->due > over ? progress->due - over : 0;
}

void live_add(struct live *live, const struct live_sample *sample)
{
    size_t before = live->tick_count, tick = ++live->tick_count, at = tick % LIVE_TICKS;
    memcpy(live->latencies[slot_of(tick)], sample->latencies, sizeof live->latencies[0]);
    live->at_us[slot_of(tick)] = sample->at_us;
    live->answered[slot_of(tick)] = sample->progress.answered;
    live->ticks[LIVE_ANSWERS][at] = rate(live, before, tick);
    live->ticks[LIVE_P50][at] = percentile_ms(live, before, tick, 0.50);
    live->ticks[LIVE_P99][at] = percentile_ms(live, before, tick, 0.99);
    live->ticks[LIVE_LOADS][at] = (double)(sample->loads - live->last.loads);
    live->ticks[LIVE_FAILED][at] = (double)(failures(&sample->progress) - failures(&live->last.progress));
    live->ticks[LIVE_WAITING][at] = (double)waiting(&sample->progress);
    live->last = *sample;
    live->last.latencies = NULL;
}

/* ---- lines ---- */

struct lines {
    char *text;
    size_t used, left; /* bytes; lines */
};

static void add_line(struct lines *lines, const char *line, size_t columns)
{
    if (lines->left == 0)
        return;
    int bytes = snprintf(lines->text + lines->used, LIVE_TEXT_BYTES - lines->used, "%.*s\n",
                         (int)text_fit(line, columns), line);
    lines->used += (size_t)bytes;
    lines->left--;
}

/* Levels above zero; a value that is not there is a space. */
static const char *level(double value, double most, bool is_utf8)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    if (value < 0)
        return " ";
    size_t step = most > 0 ? (size_t)(value / most * 7 + 0.5) : 0;
    return is_utf8 ? blocks[step] : plain[step];
}

/* The last ticks, as many as there are columns. */
static void draw(const double *ticks, size_t tick_count, size_t columns, bool is_utf8, char *out,
                 size_t out_bytes)
{
    size_t shown = tick_count < LIVE_TICKS ? tick_count : LIVE_TICKS, used = 0;
    double most = 0;
    shown = shown < columns ? shown : columns;
    out[0] = '\0';
    for (size_t tick = tick_count - shown + 1; tick <= tick_count; tick++)
        most = ticks[tick % LIVE_TICKS] > most ? ticks[tick % LIVE_TICKS] : most;
    for (size_t tick = tick_count - shown + 1; tick <= tick_count && used + 4 < out_bytes; tick++)
        used += (size_t)snprintf(out + used, out_bytes - used, "%s",
                                 level(ticks[tick % LIVE_TICKS], most, is_utf8));
}

static void add_curve(struct lines *lines, const struct live *live, const struct progress_size *size,
                      enum live_curve curve, const char *number)
{
    static const char *const labels[LIVE_CURVES] = {"answers/s", "p50, ms", "p99, ms",
                                                    "loads",     "failed",  "waiting"};
    char line[LINE_BYTES], drawn[LINE_BYTES - 64];
    size_t used = LABEL_COLUMNS + NUMBER_COLUMNS + 4;
    draw(live->ticks[curve], live->tick_count, size->columns - used, size->is_utf8, drawn, sizeof drawn);
    snprintf(line, sizeof line, "  %-*s%*s  %s", LABEL_COLUMNS, labels[curve], NUMBER_COLUMNS, number, drawn);
    add_line(lines, line, size->columns);
}

static const char *latency(const struct live *live, double share, char out[static TEXT_NUMBER_BYTES])
{
    double ms = percentile_ms(live, window_begin(live), live->tick_count, share);
    if (ms < 0)
        snprintf(out, TEXT_NUMBER_BYTES, "-");
    else
        text_ms(out, (uint64_t)(ms * 1e3));
    return out;
}

static void add_head(struct lines *lines, const struct live *live, size_t columns)
{
    char line[LINE_BYTES], due[TEXT_NUMBER_BYTES], answered[TEXT_NUMBER_BYTES], span[32] = "";
    const struct herd_progress *progress = &live->last.progress;
    if (live->span_ms > 0)
        snprintf(span, sizeof span, " of %.1f s", live->span_ms / 1e3);
    snprintf(line, sizeof line, "  %s%s%.1f s%s   due %s   answered %s   open %" PRIu32, live->name,
             live->name[0] != '\0' ? "   " : "", (double)live->last.at_us / 1e6, span,
             text_count(due, progress->due), text_count(answered, progress->answered),
             progress->open_connections);
    add_line(lines, line, columns);
}

void live_text(const struct live *live, const struct progress_size *size, char text[static LIVE_TEXT_BYTES])
{
    struct lines lines = {.text = text, .left = size->rows};
    char number[TEXT_NUMBER_BYTES];
    text[0] = '\0';
    add_head(&lines, live, size->columns);
    add_curve(&lines, live, size, LIVE_ANSWERS,
              text_decimal(number, rate(live, window_begin(live), live->tick_count), 0));
    add_curve(&lines, live, size, LIVE_P50, latency(live, 0.50, number));
    add_curve(&lines, live, size, LIVE_P99, latency(live, 0.99, number));
    if (live->counts_loads)
        add_curve(&lines, live, size, LIVE_LOADS, text_count(number, live->last.loads));
    add_curve(&lines, live, size, LIVE_FAILED, text_count(number, failures(&live->last.progress)));
    add_curve(&lines, live, size, LIVE_WAITING, text_count(number, waiting(&live->last.progress)));
}

/* ---- without a terminal ---- */

static void plain_text(const struct live *live, char *text, size_t text_bytes)
{
    const struct herd_progress *progress = &live->last.progress;
    char loads[48] = "", p50[TEXT_NUMBER_BYTES], p99[TEXT_NUMBER_BYTES];
    if (live->counts_loads)
        snprintf(loads, sizeof loads, "  loads %" PRIu64, live->last.loads);
    snprintf(text, text_bytes,
             "%5.1f s  due %" PRIu64 "  answered %" PRIu64 " (%.0f/s)  p50 %s  p99 %s ms  failed %" PRIu64
             "  5xx %" PRIu64 "  open %" PRIu32 "%s",
             (double)live->last.at_us / 1e6, progress->due, progress->answered,
             rate(live, window_begin(live), live->tick_count), latency(live, 0.50, p50),
             latency(live, 0.99, p99), progress->failed, progress->errors_5xx, progress->open_connections,
             loads);
}

void live_show(struct live *live, const struct herd *herd, const struct herd_progress *progress,
               uint64_t loads, uint64_t now_us)
{
    char text[LIVE_TEXT_BYTES];
    uint64_t latencies[HERD_LATENCY_BUCKETS];
    struct progress_size size;
    herd_latencies(herd, latencies);
    live_add(live, &(struct live_sample){
                       .at_us = now_us, .progress = *progress, .loads = loads, .latencies = latencies});
    if (progress_has_block(&size)) {
        live_text(live, &size, text);
        progress_block(text);
        return;
    }
    plain_text(live, text, sizeof text);
    progress_run(text);
}

void live_end(const struct live *live)
{
    const struct herd_progress *progress = &live->last.progress;
    char text[256], loads[48] = "";
    if (live->counts_loads)
        snprintf(loads, sizeof loads, "  loads %" PRIu64, live->last.loads);
    snprintf(text, sizeof text,
             "%5.1f s  due %" PRIu64 "  answered %" PRIu64 "  failed %" PRIu64 "  5xx %" PRIu64 "%s",
             (double)live->last.at_us / 1e6, progress->due, progress->answered, progress->failed,
             progress->errors_5xx, loads);
    progress_run_end(text);
}
