/* SPDX-License-Identifier: MIT */
/* live_test.c - what the terminal shows of a run while it goes. */
#include "load/play/live.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct live live;
static char text[LIVE_TEXT_BYTES];
static uint64_t latencies[HERD_LATENCY_BUCKETS];
static struct live_sample sample;

static const struct progress_size wide = {.columns = 79, .rows = 23, .is_utf8 = true};

static void begin(enum work_shape shape, bool counts_loads)
{
    static struct work work;
    work_init(&work);
    work.shape = shape;
    work.duration_ms = 5000;
    memset(latencies, 0, sizeof latencies);
    sample = (struct live_sample){.latencies = latencies};
    live_begin(&live, &work, "fleet", counts_loads);
}

/* So many answers within the tick, each of this time. */
static void tick(uint64_t answers, uint32_t took_us)
{
    uint32_t bucket = 0;
    while (herd_latency_us(bucket) < took_us)
        bucket++;
    latencies[bucket] += answers;
    sample.at_us += LIVE_TICK_MS * 1000;
    sample.progress.due += answers;
    sample.progress.answered += answers;
    live_add(&live, &sample);
}

static void expect_line(const struct progress_size *size, const char *line)
{
    live_text(&live, size, text);
    const char *at = strstr(text, line);
    if (at == NULL || (at != text && at[-1] != '\n') || at[strlen(line)] != '\n')
        fail_msg("no line \"%s\" in:\n%s", line, text);
}

TEST(numbers_are_of_the_last_second_and_curves_of_every_tick)
{
    begin(WORK_RATE, true);
    for (int i = 0; i < 10; i++)
        tick(100, 500000);
    for (int i = 0; i < 10; i++)
        tick(10, 1000);
    sample.loads = 3;
    sample.progress.due += 7;
    sample.progress.open_connections = 12;
    tick(5, 1000);
    expect_line(&wide, "  fleet   2.1 s of 5.0 s   due 1112   answered 1105   open 12");
    expect_line(&wide, "  answers/s           95  ██████████▂▂▂▂▂▂▂▂▂▂▁");
    expect_line(&wide, "  p50, ms           1.02  ██████████▁▁▁▁▁▁▁▁▁▁▁");
    expect_line(&wide, "  loads                3  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁█");
    expect_line(&wide, "  waiting              7  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁█");
}

TEST(where_nothing_was_answered_there_is_no_latency)
{
    begin(WORK_BURST, false);
    tick(0, 0);
    tick(3, 2000);
    expect_line(&wide, "  p99, ms           2.05   █");
    assert_null(strstr(text, "loads"));
    assert_null(strstr(text, " of "));
    for (int i = 0; i < LIVE_WINDOW; i++)
        tick(0, 0);
    expect_line(&wide, "  p99, ms              -   █          ");
}

TEST(failures_and_5xx_are_shown_together)
{
    begin(WORK_BURST, false);
    sample.progress.failed = 2;
    sample.progress.errors_5xx = 3;
    sample.progress.due = 4;
    tick(1, 2000);
    expect_line(&wide, "  failed               5  █");
    expect_line(&wide, "  waiting              2  █");
}

static size_t columns_of(const char *line, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)line[i] & 0xc0) != 0x80;
    return count;
}

TEST(it_fits_whatever_the_terminals_size)
{
    begin(WORK_RATE, true);
    snprintf(live.name, sizeof live.name, "a name of thirty columns ......");
    for (int i = 0; i < 3 * LIVE_TICKS; i++)
        tick(1000000, 1000000);
    for (size_t columns = 39; columns < 400; columns += 7) {
        for (size_t rows = 1; rows < 9; rows += 3) {
            const struct progress_size size = {columns, rows, columns % 2 == 0};
            size_t lines = 0;
            live_text(&live, &size, text);
            for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
                assert_in_range(columns_of(line, (size_t)(end - line)), 1, columns);
                lines++;
            }
            assert_in_range(lines, 1, rows);
        }
    }
}

TEST(a_terminal_without_utf8_gets_ascii)
{
    static const struct progress_size plain = {.columns = 60, .rows = 20, .is_utf8 = false};
    begin(WORK_BURST, false);
    for (uint64_t i = 0; i < 8; i++)
        tick(i, 1000);
    expect_line(&plain, "  answers/s           35  _.:-=+*#");
    for (const char *at = text; *at != '\0'; at++)
        assert_in_range((unsigned char)*at, '\n', 126);
}

TEST(a_bucket_is_an_eighth_of_an_octave)
{
    for (size_t bucket = 1; bucket < 240; bucket++) {
        uint64_t us = herd_latency_us(bucket), before = herd_latency_us(bucket - 1);
        assert_true(us > before);
        assert_true(bucket < 16 || (double)(us - before) / (double)us < 0.126);
    }
    assert_int_equal(herd_latency_us(7), 7);
    assert_int_equal(herd_latency_us(239), UINT32_MAX);
}
