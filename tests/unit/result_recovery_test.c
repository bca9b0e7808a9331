/* SPDX-License-Identifier: MIT */
/* result_recovery_test.c - how long after a fault p99 is what it was before, and when nobody knows. */
#include "load/report/result.h"
#include "load/report/result_sheet.h"
#include "tests/support/made_run.h"
#include "tests/support/test.h"

/* A thousand requests a second for ten seconds; something is done from 2 s to 4 s. */
enum { PER_SECOND = 1000, SECONDS = 10, COUNT = PER_SECOND * SECONDS, USUAL_US = 1000, SLOW_US = 50000 };
enum { FAULT_FROM_MS = 2000, FAULT_UNTIL_MS = 4000 };

static struct made_run *begin(void)
{
    struct made_run *run = made_run_begin(WORK_RATE, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        run->at[i].due_us = MADE_BEGIN_US + i * 1000000 / PER_SECOND;
        run->at[i].end_us = USUAL_US;
    }
    run->source.fault_from_us = MADE_BEGIN_US + (uint64_t)FAULT_FROM_MS * 1000;
    run->source.fault_until_us = MADE_BEGIN_US + (uint64_t)FAULT_UNTIL_MS * 1000;
    return run;
}

/* One of so many requests that are due in [from_ms, until_ms). */
static void slow_down(struct made_run *run, size_t from_ms, size_t until_ms, size_t one_of, uint32_t us)
{
    for (size_t i = from_ms; i < until_ms; i++) {
        if (i % one_of == 0)
            run->at[i].end_us = us;
    }
}

static void expect_recovery(struct made_run *run, uint32_t ms)
{
    made_run_finish(run);
    assert_true(run->result->has_recovery);
    assert_true(run->result->has_recovered);
    assert_null(run->result->recovery_unknown);
    assert_int_equal(run->result->recovery_ms, ms);
}

static void expect_never(struct made_run *run)
{
    made_run_finish(run);
    assert_true(run->result->has_recovery);
    assert_false(run->result->has_recovered);
    assert_int_equal(run->result->recovery_ms, 0);
}

static void expect_unknown(struct made_run *run, const char *why)
{
    made_run_finish(run);
    assert_false(run->result->has_recovery);
    if (strstr(run->result->recovery_unknown, why) == NULL)
        fail_msg("%s", run->result->recovery_unknown);
}

TEST(it_counts_from_the_end_of_the_fault_until_p99_is_what_it_was, P178)
{
    struct made_run *run = begin();
    slow_down(run, FAULT_FROM_MS, FAULT_UNTIL_MS, 1, SLOW_US); /* what is slow during it is no matter */
    expect_recovery(run, 0);
    run = begin();
    slow_down(run, FAULT_FROM_MS, 5500, 1, SLOW_US);
    expect_recovery(run, 1500);
    run = begin();
    slow_down(run, FAULT_FROM_MS, 5500, 50,
              SLOW_US); /* two of a hundred: until half of the second is behind it */
    expect_recovery(run, 1000);
    run = begin();
    slow_down(run, 0, COUNT, 100, SLOW_US); /* one of a hundred is not, before or after */
    expect_recovery(run, 0);
}

static void expect_limit(uint32_t before_us, uint32_t limit_us)
{
    struct made_run *run = begin();
    slow_down(run, 0, FAULT_UNTIL_MS, 1, before_us);
    slow_down(run, FAULT_UNTIL_MS, COUNT, 1, limit_us);
    expect_recovery(run, 0);
    run = begin();
    slow_down(run, 0, FAULT_UNTIL_MS, 1, before_us);
    slow_down(run, FAULT_UNTIL_MS, COUNT, 1, limit_us + 1);
    expect_never(run);
}

TEST(twice_as_slow_or_as_slow_as_the_slowest_second_is_what_it_was)
{
    expect_limit(USUAL_US, USUAL_US + 5000);
    expect_limit(20000, 40000);
    struct made_run *run = begin();
    slow_down(run, 500, 515, 1, SLOW_US); /* p99 of that second, not of both */
    slow_down(run, FAULT_UNTIL_MS, COUNT, 1, SLOW_US);
    expect_recovery(run, 0);
}

TEST(what_does_not_come_back_or_does_not_stay_has_not_recovered, P178)
{
    struct made_run *run = begin();
    slow_down(run, FAULT_UNTIL_MS, COUNT, 1, SLOW_US);
    expect_never(run);
    run = begin();
    slow_down(run, FAULT_UNTIL_MS, 4500, 1, SLOW_US);
    slow_down(run, 6000, 8000, 1, SLOW_US); /* well for a second and a half */
    expect_recovery(run, 4000);
    run = begin();
    slow_down(run, 6000, COUNT, 1, SLOW_US);
    expect_never(run);
    run = begin();
    slow_down(run, 7000, 7015, 1, SLOW_US); /* a second that the machine was busy in */
    expect_recovery(run, 0);
}

TEST(a_request_that_failed_took_longer_than_any_answer, P178)
{
    struct made_run *run = begin();
    for (size_t i = FAULT_UNTIL_MS; i < 6000; i++)
        run->at[i].status = 503;
    expect_recovery(run, 2000);
    run = begin();
    for (size_t i = FAULT_UNTIL_MS; i < COUNT; i++)
        run->at[i].outcome = RECORD_RESET;
    expect_never(run);
}

/* Fifty a second: no second has a hundred. */
static struct made_run *begin_slowly(void)
{
    struct made_run *run = begin();
    for (size_t i = 0; i < COUNT; i++)
        run->at[i].due_us = MADE_BEGIN_US + i * 20000;
    run->source.fault_from_us = MADE_BEGIN_US + 4000000;
    run->source.fault_until_us = MADE_BEGIN_US + 6000000;
    return run;
}

TEST(where_few_requests_are_made_a_second_is_longer)
{
    struct made_run *run = begin_slowly();
    expect_recovery(run, 0);
    run = begin_slowly();
    slow_down(run, 200, 400, 1, SLOW_US); /* from 4 s to 8 s */
    expect_recovery(run, 2000);
    run = begin_slowly();
    slow_down(run, 300, COUNT, 1, SLOW_US);
    expect_never(run);
}

/* A log that is asked again may have nothing for a while. */
TEST(a_second_with_few_requests_is_not_judged)
{
    struct made_run *run = begin();
    slow_down(run, FAULT_FROM_MS, 5500, 1, SLOW_US);
    for (size_t i = 7000; i < COUNT; i++)
        run->at[i].due_us += 30000000;
    expect_recovery(run, 1500);
}

TEST(where_it_cannot_be_told_it_is_not_known, P178)
{
    struct made_run *run = begin();
    run->source.fault_from_us = 0;
    expect_unknown(run, "nothing was done");
    run = begin();
    run->source.fault_until_us = 0;
    expect_unknown(run, "did not end");
    run = begin();
    run->work.shape = WORK_BURST;
    expect_unknown(run, "requests at a rate");
    run = begin();
    run->source.fault_until_us = MADE_BEGIN_US + 9500000;
    expect_unknown(run, "no requests were made for a second");
    run = begin();
    run->source.fault_from_us = MADE_BEGIN_US + 90000; /* 90 answers are no p99 */
    expect_unknown(run, "too few answers");
    run = begin();
    for (size_t i = 0; i < FAULT_FROM_MS; i++)
        run->at[i].status = 500;
    expect_unknown(run, "too many that failed");
}

static const char *row_of(struct result *result)
{
    static struct sheet sheet;
    struct report report = {.results = {result}, .result_count = 1};
    sheet_fill(&sheet, &report);
    for (size_t i = 0; i < sheet.row_count; i++) {
        if (strcmp(sheet.rows[i].label, "recovery, s") == 0)
            return sheet.rows[i].cells[0];
    }
    return NULL;
}

TEST(a_report_has_a_row_for_it_that_says_never)
{
    struct made_run *run = begin();
    slow_down(run, FAULT_FROM_MS, 5500, 1, SLOW_US);
    made_run_finish(run);
    assert_string_equal(row_of(run->result), "1.50");
    run = begin();
    slow_down(run, FAULT_FROM_MS, COUNT, 1, SLOW_US);
    made_run_finish(run);
    assert_string_equal(row_of(run->result), "never");
    run = begin();
    run->source.fault_from_us = 0;
    made_run_finish(run);
    assert_null(row_of(run->result));
}
