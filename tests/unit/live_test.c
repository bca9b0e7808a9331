/* SPDX-License-Identifier: MIT */
/* live_test.c - what the terminal shows of a run while it goes. */
#include "load/play/live.h"
#include "tests/support/test.h"

static struct live live;
static struct live_sample sample;

static void begin(bool counts_loads, bool is_burst)
{
    sample = (struct live_sample){.at_us = 0};
    live_begin(&live, counts_loads, is_burst);
}

/* So many answers within the tick, each of this time. */
static void tick(uint64_t answers, uint32_t took_us)
{
    static uint64_t latencies_us[LIVE_LATENCIES];
    for (size_t i = 0; i < answers; i++)
        latencies_us[i] = took_us;
    sample.at_us += LIVE_TICK_MS * 1000;
    sample.progress.due += answers;
    sample.progress.answered += answers;
    live_add(&live, &sample, latencies_us, answers);
}

static void expect_text(const char *expected)
{
    char text[LIVE_TEXT_BYTES];
    live_text(&live, text);
    assert_string_equal(text, expected);
}

TEST(rate_and_latency_are_of_the_last_second_and_exact)
{
    begin(true, false);
    for (int i = 0; i < 10; i++)
        tick(100, 500000);
    for (int i = 0; i < 10; i++)
        tick(10, 1017);
    sample.loads = 3;
    sample.progress.due += 7;
    sample.progress.open_connections = 12;
    tick(15, 123457);
    expect_text("    2.1 s  due 1122  answered 1115 (105/s)  p50 1.02  p99 123 ms  failed 0  5xx 0  open 12  "
                "loads 3");
}

TEST(where_too_few_were_answered_there_is_no_latency)
{
    begin(false, false);
    tick(0, 0);
    tick(3, 2000);
    expect_text("    0.2 s  due 3  answered 3 (15/s)  p50 2.00  p99 - ms  failed 0  5xx 0  open 0");
    for (int i = 0; i < LIVE_WINDOW; i++)
        tick(0, 0);
    expect_text("    1.2 s  due 3  answered 3 (0/s)  p50 -  p99 - ms  failed 0  5xx 0  open 0");
}

TEST(between_rounds_the_latencies_of_the_last_one_stay)
{
    begin(false, true);
    tick(200, 2000);
    for (int i = 0; i < 2 * LIVE_WINDOW; i++)
        tick(0, 0);
    expect_text("    2.1 s  due 200  answered 200 (0/s)  p50 2.00  p99 2.00 ms  failed 0  5xx 0  open 0");
    for (int i = 0; i < 3; i++)
        tick(LIVE_LATENCIES, 3000); /* more than are kept */
    expect_text(
        "    2.4 s  due 24776  answered 24776 (24576/s)  p50 3.00  p99 3.00 ms  failed 0  5xx 0  open 0");
}
