/* SPDX-License-Identifier: MIT */
/* peers_test.c - the figures of the comparison of caches, how they are made, and what is said of them. */
#include "load/peers/peers.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct samples samples_of(double first, double second, double third)
{
    struct samples samples = {.count = 0};
    samples_add(&samples, first);
    samples_add(&samples, second);
    samples_add(&samples, third);
    return samples;
}

/* Three peers; ours is the first. */
static struct figure_row row_of(enum figure figure, const struct samples samples[static 3])
{
    struct figure_row row = {
        .figure = figure, .names = {"ours", "other", "third"}, .count = 3, .ours = "ours"};
    for (size_t i = 0; i < 3; i++)
        row.samples[i] = &samples[i];
    return row;
}

static void expect_words(enum figure figure, const struct samples samples[static 3], const char *best,
                         const char *sentence)
{
    struct figure_row row = row_of(figure, samples);
    char text[FIGURE_SENTENCE_BYTES];
    figure_best(&row, text, sizeof text);
    assert_string_equal(text, best);
    figure_sentence(&row, text, sizeof text);
    assert_string_equal(text, sentence);
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

TEST(a_peer_that_is_better_than_ours_is_named_with_both_numbers)
{
    const struct samples samples[] = {samples_of(10, 11, 12), samples_of(9, 9.5, 10.5),
                                      samples_of(2, 2.2, 3)};
    expect_words(FIGURE_P99, samples, "third",
                 "p99: better than ours with 11.00 ms: third with 2.20 ms, 5.0 times; "
                 "other with 9.50 ms, 1.2 times (repetitions overlap).");
}

TEST(more_is_better_where_it_is)
{
    const struct samples samples[] = {samples_of(100, 100, 100), samples_of(300, 300, 300),
                                      samples_of(50, 50, 50)};
    expect_words(FIGURE_FULL_RATE, samples, "other",
                 "wrk, one instance: better than ours with 100 1/s: other with 300 1/s, 3.0 times.");
}

TEST(when_ours_is_best_the_next_one_is_named)
{
    const struct samples samples[] = {samples_of(1, 1, 1), samples_of(2, 2, 2), samples_of(20, 20, 20)};
    expect_words(FIGURE_ORIGIN_CALLS, samples, "ours",
                 "origin calls: ours is best with 1; next is other with 2, 2.0 times.");
}

TEST(equal_as_printed_is_equal)
{
    const struct samples shared[] = {samples_of(1.001, 1.001, 1.001), samples_of(2, 2, 2),
                                     samples_of(1.004, 1.004, 1.004)};
    expect_words(FIGURE_P50, shared, "ours, third",
                 "p50: ours, third are best with 1.00 ms; next is other with 2.00 ms, 2.0 times.");
    const struct samples equal[] = {samples_of(100, 100, 100), samples_of(100.04, 100, 100),
                                    samples_of(100, 100, 100)};
    expect_words(FIGURE_GOOD, equal, "all", "answered, 200: equal, 100.0 %.");
}

TEST(where_neither_direction_is_better_nobody_is)
{
    const struct samples samples[] = {samples_of(1, 1, 1), samples_of(2, 2, 2), samples_of(3, 3, 3)};
    expect_words(FIGURE_REDIS, samples, "", "");
}

TEST(a_row_without_ours_still_has_a_best)
{
    const struct samples samples[] = {samples_of(5, 5, 5), samples_of(2, 2, 2), samples_of(3, 3, 3)};
    struct figure_row row = row_of(FIGURE_MAX, samples);
    char text[FIGURE_SENTENCE_BYTES];
    row.ours = "absent";
    figure_sentence(&row, text, sizeof text);
    assert_string_equal(text,
                        "slowest answer: other is best with 2.00 ms; next is third with 3.00 ms, 1.5 times.");
}

TEST(a_sentence_is_cut_where_the_room_ends)
{
    const struct samples samples[] = {samples_of(5, 5, 5), samples_of(2, 2, 2), samples_of(3, 3, 3)};
    struct figure_row row = row_of(FIGURE_MAX, samples);
    char text[16];
    memset(text, '?', sizeof text);
    figure_sentence(&row, text, sizeof text);
    assert_int_equal(strlen(text), sizeof text - 1);
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
