/* SPDX-License-Identifier: MIT */
/* live_test.c - what the terminal shows of a run while it goes. */
#include "load/play/live.h"
#include "tests/support/test.h"

static struct live live;
static uint64_t latencies[RANK_BUCKETS];
static struct live_sample sample;

static void begin(bool counts_loads)
{
    memset(latencies, 0, sizeof latencies);
    sample = (struct live_sample){.latencies = latencies};
    live_begin(&live, counts_loads);
}

/* So many answers within the tick, each of this time. */
static void tick(uint64_t answers, uint32_t took_us)
{
    latencies[rank_bucket(took_us)] += answers;
    sample.at_us += LIVE_TICK_MS * 1000;
    sample.progress.due += answers;
    sample.progress.answered += answers;
    live_add(&live, &sample);
}

static void expect_text(const char *expected)
{
    char text[LIVE_TEXT_BYTES];
    live_text(&live, text);
    assert_string_equal(text, expected);
}

TEST(rate_and_latency_are_of_the_last_second)
{
    begin(true);
    for (int i = 0; i < 10; i++)
        tick(100, 500000);
    for (int i = 0; i < 10; i++)
        tick(10, 1000);
    sample.loads = 3;
    sample.progress.due += 7;
    sample.progress.open_connections = 12;
    tick(5, 1000);
    expect_text("    2.1 s  due 1112  answered 1105 (95/s)  p50 1.00  p99 1.00 ms  failed 0  5xx 0  open 12  "
                "loads 3");
}

TEST(where_nothing_was_answered_there_is_no_latency)
{
    begin(false);
    tick(0, 0);
    tick(3, 2000);
    expect_text("    0.2 s  due 3  answered 3 (15/s)  p50 2.00  p99 2.00 ms  failed 0  5xx 0  open 0");
    for (int i = 0; i < LIVE_WINDOW; i++)
        tick(0, 0);
    expect_text("    1.2 s  due 3  answered 3 (0/s)  p50 -  p99 - ms  failed 0  5xx 0  open 0");
}
