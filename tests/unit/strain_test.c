/* SPDX-License-Identifier: MIT */
/* strain_test.c - exact ranks, and when a generator is to blame. */
#include "load/herd/herd.h"
#include "tests/support/test.h"

TEST(ranks_are_exact_over_several_lists_and_leave_out_zeros)
{
    static uint32_t low[5000], high[5000];
    const uint32_t *const lists[] = {low, high};
    const uint32_t counts[] = {5000, 5000}, none[] = {0, 0};
    for (uint32_t i = 0; i < 5000;
         i++) { /* 1 to 10000, in disorder, stored as one more; every other is missing */
        low[(i * 7) % 5000] = i % 2 == 0 ? 0 : i + 2;
        high[(i * 3) % 5000] = i % 2 == 0 ? 0 : (i + 5000) * 70000 + 2;
    }
    assert_int_equal(strain_rank(lists, counts, 2, 100), 9999U * 70000 + 1);
    assert_int_equal(strain_rank(lists, counts, 2, 50), 5000);
    assert_int_equal(strain_rank(lists, counts, 2, 50.01), 5001U * 70000 + 1);
    assert_int_equal(strain_rank(lists, counts, 2, 0), 2);
    assert_int_equal(strain_rank(lists, none, 2, 99), 0);
}

TEST(a_generator_that_keeps_up_is_not_blamed)
{
    const struct work work = {.shape = WORK_RATE, .connection_count = 100};
    struct herd_strain strain = {.generator_count = 2, .busiest = 0.4, .late_p99_us = 300};
    strain_judge(&work, 10000, 1000, 2000, &strain);
    assert_false(strain.is_bottleneck);
    assert_string_equal(strain.verdict,
                        "The generator kept up: 99 % of the requests left within 0.3 ms of their "
                        "time (busiest of 2: 40 % of a core).");
    strain.late_p99_us = 5000; /* little, next to half a second */
    strain.waited_count = 12;
    strain_judge(&work, 10000, 100000, 500000, &strain);
    assert_false(strain.is_bottleneck);
    assert_string_equal(strain.verdict,
                        "99 % of the requests left within 5 ms of their time, a tenth of the latency or less "
                        "(busiest of 2: 40 % of a core). 12 found all 100 connections taken.");
}

TEST(a_generator_that_lags_is_blamed_with_what_was_measured)
{
    const struct work work = {.shape = WORK_RATE, .connection_count = 100};
    struct herd_strain strain = {.generator_count = 2,
                                 .busiest = 0.4,
                                 .starved = 0.3,
                                 .late_p99_us = 5000,
                                 .late_count = 800,
                                 .waited_count = 7};
    strain_judge(&work, 10000, 1000, 20000, &strain);
    assert_true(strain.is_bottleneck);
    assert_string_equal(
        strain.verdict,
        "The generator did NOT keep up: 800 of 10000 requests (8 %) were more than 1 ms late, "
        "1 % of all by 0.005 s or more (busiest of 2: 40 % of a core, 30 % waiting for one). "
        "The latencies contain its lag: ask for less, or give it cores of its own.");
    strain = (struct herd_strain){.generator_count = 1, .busiest = 0.95};
    strain_judge(&work, 10000, 1000, 2000, &strain);
    assert_true(strain.is_bottleneck);
}

TEST(a_generator_without_free_connections_did_not_keep_up)
{
    const struct work work = {.shape = WORK_RATE, .connection_count = 200};
    struct herd_strain strain = {.generator_count = 2,
                                 .busiest = 0.4,
                                 .late_p99_us = 5400000,
                                 .late_count = 269800,
                                 .waited_count = 269800};
    strain_judge(&work, 270000, 3000000, 5500000, &strain);
    assert_true(strain.is_bottleneck);
    assert_string_equal(
        strain.verdict,
        "The generator did NOT keep up: 269800 of 270000 requests (99.9 %) were more than 1 ms late, 1 % of "
        "all by 5.4 s or more (busiest of 2: 40 % of a core). 269800 found all 200 connections taken: allow "
        "more of them, or ask for less.");
}

TEST(a_burst_that_is_no_instant_next_to_its_answers_is_blamed)
{
    const struct work work = {.shape = WORK_BURST, .connection_count = 1000};
    struct herd_strain strain = {.generator_count = 2, .busiest = 1, .spread_us = 60000};
    strain_judge(&work, 10000, 200000, 300000, &strain);
    assert_false(strain.is_bottleneck);
    strain_judge(&work, 10000, 100000, 300000, &strain);
    assert_true(strain.is_bottleneck);
    assert_non_null(strstr(strain.verdict, "The 1000 requests of a round left within 60.0 ms"));
    strain.spread_us = 10000; /* no longer than a switch of a core takes, whatever the answers took */
    strain_judge(&work, 10000, 1000, 3000, &strain);
    assert_false(strain.is_bottleneck);
}
