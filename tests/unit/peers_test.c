/* SPDX-License-Identifier: MIT */
/* peers_test.c - the figures of the comparison of caches and how they are made. */
#include "load/peers/peers.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <unistd.h>

static struct samples samples_of(double first, double second, double third)
{
    struct samples samples = {.count = 0};
    samples_add(&samples, first);
    samples_add(&samples, second);
    samples_add(&samples, third);
    return samples;
}

TEST(the_median_stands_between_the_smallest_and_the_largest)
{
    struct samples samples = samples_of(9, 1, 4);
    assert_true(samples_median(&samples) == 4);
    assert_true(samples_smallest(&samples) == 1);
    assert_true(samples_largest(&samples) == 9);
    samples_add(&samples, 6);
    assert_true(samples_median(&samples) == 5);
    assert_true(samples_median(&(struct samples){.count = 0}) == 0);
}

/* ---- how they are made ---- */

TEST(loads_within_the_ttl_of_the_first_are_one_expiry)
{
    static struct stage stage;
    static const char log[] = "17 1763640000.000 LOG:  statement: SELECT 1 /* load product */\n"
                              "17 1763640100.000 LOG:  execute load: SELECT 2 /* load product */\n"
                              "18 1763640100.300 LOG:  execute load: SELECT 2 /* load product */\n"
                              "18 1763640100.999 LOG:  execute load: SELECT 2 /* load product */\n"
                              "18 1763640101.000 LOG:  execute load: SELECT 2 /* load product */\n"
                              "\tand a line of that statement's text /* load product */\n"
                              "19 1763640150.000 LOG:  execute load: SELECT 2 /* load category */\n"
                              "17 1763640200.000 LOG:  execute load: SELECT 2 /* load product */\n";
    snprintf(stage.postgres.log_path, sizeof stage.postgres.log_path, "/tmp/peers_test.XXXXXX");
    file_make(stage.postgres.log_path, log);
    assert_int_equal(stage_expiries(&stage, 0, 1000), 4);
    assert_int_equal(stage_expiries(&stage, (uint64_t)(strchr(log, '\n') - log) + 1, 1000), 3);
    assert_int_equal(stage_expiries(&stage, 0, 300), 5);
    assert_int_equal(stage_expiries(&stage, sizeof log, 1000), 0);
    unlink(stage.postgres.log_path);
    assert_int_equal(stage_expiries(&stage, 0, 1000), 0);
}

TEST(only_a_200_with_the_right_body_is_good)
{
    static struct score score;
    assert_true(score_tally(&score, RECORD_ANSWERED, 200, true));
    assert_false(score_tally(&score, RECORD_ANSWERED, 200, false));
    assert_false(score_tally(&score, RECORD_ANSWERED, 503, true));
    assert_false(score_tally(&score, RECORD_TIMEOUT, 0, true));
    assert_false(score_tally(&score, RECORD_ANSWERED, 999, false));
    assert_int_equal(score.asked, 5);
    assert_int_equal(score.statuses[200], 2);
    assert_int_equal(score.statuses[503], 1);
    assert_int_equal(score.wrong_bodies, 1);
    assert_int_equal(score.unanswered[RECORD_TIMEOUT], 1);
}

TEST(percentiles_are_those_of_the_sorted_times)
{
    static struct score score;
    uint64_t times_us[1000];
    for (size_t i = 0; i < 1000; i++)
        times_us[i] = (1000 - i) * 1000;
    score_latencies(&score, times_us, 1000);
    assert_true(samples_median(&score.figures[FIGURE_P50]) == 500);
    assert_true(samples_median(&score.figures[FIGURE_P99]) == 990);
    assert_true(samples_median(&score.figures[FIGURE_P999]) == 999);
    assert_true(samples_median(&score.figures[FIGURE_MAX]) == 1000);
}
