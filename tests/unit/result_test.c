/* SPDX-License-Identifier: MIT */
/* result_test.c - a result against slow, obvious computations, and at its edges. */
#include "load/base/dice.h"
#include "load/report/result.h"
#include "tests/support/made_run.h"
#include "tests/support/test.h"

#include <errno.h>

enum { MANY = 25000 };

static void assert_near(double number, double expected)
{
    if (number < expected - 1e-9 || number > expected + 1e-9)
        fail_msg("%.17g, not %.17g", number, expected);
}

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
    return (uint32_t)dice_below(&random_state, limit);
}

TEST(a_result_says_who_when_and_what)
{
    struct made_run *run = made_run_begin(WORK_BURST, 1);
    run->source.ttl_ms = 1500;
    run->source.is_partial = true;
    made_run_finish(run);
    assert_string_equal(run->result->name, "test");
    assert_string_equal(run->result->what, "by hand");
    assert_string_equal(run->result->when, "2023-11-14T22:13:20Z");
    assert_int_equal(run->result->ttl_ms, 1500);
    assert_true(run->result->is_partial);
    assert_int_equal(run->result->duration_ms, 1);
}

/* ---- percentiles ---- */

/* The smallest latency that at least so many in 10 000 do not exceed, by counting. */
static uint32_t obvious_percentile(const struct made_run *run, uint32_t per_10000)
{
    uint32_t best = UINT32_MAX;
    for (size_t i = 0; i < run->count; i++) {
        uint64_t not_above = 0, answered = 0;
        if (run->at[i].outcome != RECORD_ANSWERED || run->at[i].end_us >= best)
            continue;
        for (size_t j = 0; j < run->count; j++) {
            answered += run->at[j].outcome == RECORD_ANSWERED;
            not_above += run->at[j].outcome == RECORD_ANSWERED && run->at[j].end_us <= run->at[i].end_us;
        }
        if (not_above * 10000 >= answered * per_10000)
            best = run->at[i].end_us;
    }
    return best;
}

static void check_percentiles(const struct made_run *run)
{
    const struct result_quantiles *all = &run->result->all;
    assert_int_equal(all->p50_us, obvious_percentile(run, 5000));
    assert_int_equal(all->p90_us, obvious_percentile(run, 9000));
    assert_int_equal(all->p95_us, obvious_percentile(run, 9500));
    assert_int_equal(all->p99_us, obvious_percentile(run, 9900));
    assert_int_equal(all->p999_us, obvious_percentile(run, 9990));
    assert_int_equal(all->p9999_us, obvious_percentile(run, 9999));
    assert_int_equal(all->max_us, obvious_percentile(run, 10000));
}

TEST(percentiles_are_those_that_counting_gives)
{
    static const size_t sizes[] = {1, 2, 3, 7, 10, 99, 100, 101, 999, 1000, 1001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct made_run *run = made_run_begin(WORK_BURST, sizes[i]);
        random_state = i;
        for (size_t j = 0; j < run->count; j++)
            run->at[j].end_us = 1 + random_below(j % 2 == 0 ? 50 : 4000000);
        made_run_finish(run);
        check_percentiles(run);
    }
}

TEST(p9999_and_max_of_many_are_exact)
{
    struct made_run *run = made_run_begin(WORK_BURST, MANY);
    for (size_t i = 0; i < MANY; i++) /* every number from 1 to MANY, in disorder */
        run->at[i].end_us = (uint32_t)(i * 7919 % MANY) + 1;
    made_run_finish(run);
    assert_int_equal(run->result->all.count, MANY);
    assert_int_equal(run->result->all.min_us, 1);
    assert_int_equal(run->result->all.p50_us, 12500);
    assert_int_equal(run->result->all.p99_us, 24750);
    assert_int_equal(run->result->all.p999_us, 24975);
    assert_int_equal(run->result->all.p9999_us, 24998);
    assert_int_equal(run->result->all.max_us, MANY);
    assert_near(run->result->all.mean_us, 12500.5);
}

TEST(a_percentile_is_supported_when_something_is_above_it)
{
    assert_false(result_supports(0, 5000));
    assert_false(result_supports(1, 5000));
    assert_true(result_supports(2, 5000));
    assert_false(result_supports(99, 9900));
    assert_true(result_supports(100, 9900));
    assert_false(result_supports(9999, 9999));
    assert_true(result_supports(10000, 9999));
    assert_int_equal(result_rank(UINT64_C(1000000000000), 9999), UINT64_C(999900000000));
}

/* ---- counts ---- */

TEST(answers_failures_and_caches_are_counted_by_kind)
{
    struct made_run *run = made_run_begin(WORK_BURST, 10);
    run->at[0].status = 500;
    run->at[0].end_us = 70;
    run->at[1].status = 999; /* three digits are all that HTTP asks for */
    for (size_t i = 2; i < 6; i++) {
        run->at[i].outcome = RECORD_RESET;
        run->at[i].status = 0;
    }
    run->at[5].outcome = RECORD_LEFT;
    run->at[6].cache = RECORD_CACHE_HIT;
    run->at[6].end_us = 10;
    run->at[7].cache = RECORD_CACHE_HIT;
    run->at[7].end_us = 20;
    made_run_finish(run);
    assert_int_equal(run->result->requests, 10);
    assert_int_equal(run->result->outcomes[RECORD_ANSWERED], 6);
    assert_int_equal(run->result->outcomes[RECORD_RESET], 3);
    assert_int_equal(run->result->outcomes[RECORD_LEFT], 1);
    assert_int_equal(run->result->statuses[200], 4);
    assert_int_equal(run->result->statuses[500], 1);
    assert_int_equal(run->result->statuses[0], 1);
    assert_int_equal(run->result->caches[RECORD_CACHE_HIT], 2);
    assert_int_equal(run->result->caches[RECORD_CACHE_NONE], 4);
    assert_int_equal(run->result->errors.count, 2);
    assert_int_equal(run->result->errors.min_us, 70);
    assert_int_equal(result_failed(run->result), 5); /* who left as told did not fail */
}

TEST(an_empty_run_has_no_figures)
{
    struct made_run *run = made_run_begin(WORK_RATE, 0);
    made_run_finish(run);
    assert_int_equal(run->result->requests, 0);
    assert_int_equal(run->result->all.count, 0);
    assert_int_equal(run->result->all.max_us, 0);
    assert_int_equal(run->result->slice_count, 0);
    assert_int_equal(run->result->duration_ms, 0);
    assert_near(run->result->answered_per_s, 0);
}

TEST(a_run_that_failed_altogether_has_time_but_no_latency)
{
    struct made_run *run = made_run_begin(WORK_RATE, 300);
    for (size_t i = 0; i < run->count; i++) {
        run->at[i] = (struct record){
            .due_us = MADE_BEGIN_US + i * 10000, .end_us = i % 2 == 0 ? 500 : 0, .outcome = RECORD_REFUSED};
    }
    made_run_finish(run);
    assert_int_equal(run->result->all.count, 0);
    assert_int_equal(result_failed(run->result), 300);
    assert_int_equal(run->result->duration_ms, 2990); /* the last, at 2 990 ms, failed at once */
    assert_near(run->result->answered_per_s, 0);
    assert_near(run->result->offered_per_s, 30);
}

TEST(a_run_lasts_until_its_last_answer_whatever_fails_later)
{
    struct made_run *run = made_run_begin(WORK_BURST, 2);
    run->at[0].end_us = 40000;
    run->at[1] = (struct record){.due_us = MADE_BEGIN_US, .end_us = 5000000, .outcome = RECORD_TIMEOUT};
    made_run_finish(run);
    assert_int_equal(run->result->duration_ms, 40);
}

TEST(one_request_is_its_own_distribution)
{
    struct made_run *run = made_run_begin(WORK_BURST, 1);
    run->at[0].end_us = 1234567;
    made_run_finish(run);
    assert_int_equal(run->result->all.p50_us, 1234567);
    assert_int_equal(run->result->all.p9999_us, 1234567);
    assert_int_equal(run->result->duration_ms, 1235);
    assert_int_equal(run->result->slices[0].p99_slices, 0);
}

/* 1 000 a second, but two in 100 while a fault lasts, and these slow. */
TEST(p99_of_few_answers_is_that_of_a_longer_span)
{
    struct made_run *run = made_run_begin(WORK_RATE, 10000);
    for (size_t i = 0; i < run->count; i++) {
        run->at[i].due_us = MADE_BEGIN_US + i * 1000;
        bool is_fault = i >= 4000 && i < 6000;
        run->at[i].end_us = is_fault ? 70000 : 1000;
        if (is_fault && i % 100 > 1)
            run->at[i].outcome = RECORD_TIMEOUT;
    }
    made_run_finish(run);
    const struct result *result = run->result;
    size_t first = 4000 / result->slice_ms, last = first;
    assert_int_equal(result->slices[first - 1].p99_slices, 1);
    assert_int_equal(result->slices[first - 1].p99_us, 1000);
    assert_true(result->slices[first].p99_slices > 1);
    assert_int_equal(result->slices[first].p99_us, 70000);
    while (result->slices[last + 1].p99_slices == result->slices[first].p99_slices)
        last++;
    assert_int_equal(last - first + 1, result->slices[first].p99_slices);
    assert_int_equal(result->slices[8000 / result->slice_ms].p99_us, 1000);
}

TEST(an_interrupted_rate_offered_what_it_did_until_then)
{
    struct made_run *run = made_run_begin(WORK_RATE, 101);
    for (size_t i = 0; i < run->count; i++)
        run->at[i].due_us = MADE_BEGIN_US + i * 10000;
    run->source.is_partial = true;
    made_run_finish(run);
    assert_near(run->result->offered_per_s, 101);
}

/* ---- other times, bytes, samples ---- */

TEST(connecting_and_first_bytes_have_percentiles_of_their_own)
{
    struct made_run *run = made_run_begin(WORK_RATE, 1000);
    for (size_t i = 0; i < run->count; i++) {
        run->at[i].due_us = MADE_BEGIN_US + i * 1000;
        run->at[i].first_us = (uint32_t)i + 1;
        run->at[i].end_us = 5000;
        run->at[i].connect_us = i < 200 ? (uint32_t)(i + 1) * 10 : 0;
        run->at[i].received_bytes = 300;
        run->at[i].outcome = i == 999 ? RECORD_TIMEOUT : RECORD_ANSWERED;
    }
    made_run_finish(run);
    assert_int_equal(run->result->first.count, 999);
    assert_int_equal(run->result->first.min_us, 1);
    assert_int_equal(run->result->first.p75_us, 750);
    assert_int_equal(run->result->first.max_us, 999);
    assert_int_equal(run->result->connect.count, 200);
    assert_int_equal(run->result->connect.p50_us, 1000);
    assert_int_equal(run->result->connect.max_us, 2000);
    assert_int_equal(run->result->all.p75_us, 5000);
    assert_int_equal(run->result->received_bytes, 300000);
    assert_near(run->result->received_per_s, 300000 / (998 * 1e-3 + 5e-3));
}

TEST(samples_say_what_came_and_from_where)
{
    struct made_run *run = made_run_begin(WORK_RATE, 1);
    struct record_sample seen[5] = {{.text_bytes = 8, .text = "no\x1b\xffmore"}, {.error = ECONNRESET}};
    snprintf(run->work.targets[0].name, sizeof run->work.targets[0].name, "127.0.0.1:80");
    run->work.target_count = 1;
    assert_true(work_url_add(&run->work, "/item/{each:1-9}?a", (char[WORK_WHY_BYTES]){""}));
    for (size_t i = 0; i < 5; i++) {
        seen[i].record =
            (struct record){.due_us = MADE_BEGIN_US + 2500000, .end_us = 7000, .status = 503, .key = 7};
        if (i == 1)
            seen[i].record =
                (struct record){.due_us = MADE_BEGIN_US, .outcome = RECORD_RESET, .received_bytes = 12};
    }
    run->samples = seen;
    run->sample_count = 5;
    made_run_finish(run);
    const struct result_sample *samples = run->result->samples;
    assert_int_equal(run->result->sample_count, 4);
    assert_string_equal(samples[0].kind, "503");
    assert_string_equal(samples[0].url, "127.0.0.1:80 /item/7?a");
    assert_string_equal(samples[0].text, "no??more");
    assert_int_equal(samples[0].at_ms, 2500);
    assert_int_equal(samples[0].took_us, 7000);
    assert_string_equal(samples[1].kind, "reset");
    assert_string_equal(samples[1].text, "Connection reset by peer; 12 bytes had come");
    assert_true(result_sample_is_first(run->result, 1));
    assert_false(result_sample_is_first(run->result, 3));
}

/* ---- bursts ---- */

TEST(a_round_is_counted_from_its_instant_on)
{
    enum { ROUNDS = 40, EACH = 100 };
    struct made_run *run = made_run_begin(WORK_BURST, (size_t)ROUNDS * EACH);
    static struct witness_load loads[ROUNDS];
    for (size_t i = 0; i < run->count; i++) {
        run->at[i].due_us = MADE_BEGIN_US + i / EACH * 1000700;
        run->at[i].end_us = 1000 + (uint32_t)(i % EACH);
        run->at[i].status = i % EACH == 99 ? 500 : 200;
    }
    for (size_t i = 0; i < ROUNDS; i++) /* in whole milliseconds, as the log has them */
        loads[i].at_us = (MADE_BEGIN_US + i * 1000700 + 200) / 1000 * 1000;
    run->work.connection_count = EACH;
    run->work.round_count = ROUNDS;
    run->view = (struct witness_view){.way = WITNESS_LOG, .loads = loads, .load_count = ROUNDS};
    run->source.view = &run->view;
    made_run_finish(run);
    assert_int_equal(run->result->round_count, RESULT_ROUNDS_MAX);
    assert_int_equal(run->result->rounds[0].at_ms, 0);
    assert_int_equal(run->result->rounds[RESULT_ROUNDS_MAX - 1].at_ms, (ROUNDS - 1) * 10007 / 10);
    for (size_t i = 0; i < RESULT_ROUNDS_MAX; i++) {
        const struct result_round *round = &run->result->rounds[i];
        assert_int_equal(round->due, EACH);
        assert_int_equal(round->answer_count, RESULT_STEPS_MAX);
        assert_int_equal(round->answers[0].us, 1000);
        assert_int_equal(round->answers[0].count, 1);
        assert_int_equal(round->answers[RESULT_STEPS_MAX - 1].us, 1098);
        assert_int_equal(round->answers[RESULT_STEPS_MAX - 1].count, 99);
        assert_int_equal(round->failure_count, 1);
        assert_int_equal(round->failures[0].us, 1099);
        assert_int_equal(round->load_count, 1);
        assert_in_range(round->loads[0].us, 0, 200);
    }
}

TEST(a_rate_has_no_rounds)
{
    struct made_run *run = made_run_begin(WORK_RATE, 10);
    made_run_finish(run);
    assert_int_equal(run->result->round_count, 0);
}

/* ---- slices ---- */

TEST(slices_add_up_to_the_run)
{
    uint64_t due = 0, answered = 0, failed = 0, loads = 0;
    struct made_run *run = made_run_begin(WORK_RATE, 20000);
    struct witness_load seen[] = {
        {.at_us = MADE_BEGIN_US - 700}, {.at_us = MADE_BEGIN_US + 5000000}, {.at_us = MADE_BEGIN_US * 2}};
    run->view = (struct witness_view){.way = WITNESS_LOG, .loads = seen, .load_count = 3};
    run->source.view = &run->view;
    for (size_t i = 0; i < run->count; i++) {
        run->at[i].due_us = MADE_BEGIN_US + i * 500;
        run->at[i].status = i % 100 == 0 ? 500 : 200;
        run->at[i].outcome = i % 1000 == 1 ? RECORD_TIMEOUT : RECORD_ANSWERED;
    }
    made_run_finish(run);
    assert_int_equal(run->result->slice_ms, 50); /* 2 000 a second: 100 in each */
    assert_int_equal(run->result->slice_count, 201);
    for (size_t i = 0; i < run->result->slice_count; i++) {
        const struct result_slice *slice = &run->result->slices[i];
        due += slice->due;
        answered += slice->answered;
        failed += slice->failed;
        loads += slice->loads;
    }
    assert_int_equal(due, 20000);
    assert_int_equal(answered, 19980);
    assert_int_equal(failed, result_failed(run->result));
    assert_int_equal(loads, 3);
    assert_int_equal(run->result->slices[0].loads, 1); /* the log's clock is a little behind the barrier */
    assert_int_equal(run->result->slices[100].loads, 1);
}

TEST(a_slice_has_the_latencies_of_those_due_in_it)
{
    struct made_run *run = made_run_begin(WORK_RATE, 4000);
    for (size_t i = 0; i < run->count; i++) {
        run->at[i].due_us = MADE_BEGIN_US + i * 1000;
        run->at[i].end_us = i >= 2000 && i < 2100 ? 900000 + (uint32_t)i : 700;
    }
    made_run_finish(run);
    assert_int_equal(run->result->slice_ms, 100);
    assert_int_equal(run->result->slices[19].max_us, 700);
    assert_int_equal(run->result->slices[20].p50_us, 902049);
    assert_int_equal(run->result->slices[20].p99_us, 902098);
    assert_int_equal(run->result->slices[20].max_us, 902099);
    assert_int_equal(run->result->slices[21].max_us, 700);
}

TEST(there_are_never_too_many_slices)
{
    static const uint32_t spans_ms[] = {1, 39, 40, 299, 300, 301, 7777, 100000, 4000000};
    for (size_t i = 0; i < sizeof spans_ms / sizeof *spans_ms; i++) {
        struct made_run *run = made_run_begin(WORK_BURST, 2);
        run->at[1].due_us = MADE_BEGIN_US + (uint64_t)spans_ms[i] * 1000;
        made_run_finish(run);
        assert_in_range(run->result->slice_count, spans_ms[i] < 100 ? 1 : 100, RESULT_SLICES_MAX);
        assert_true((uint64_t)run->result->slice_ms * run->result->slice_count > spans_ms[i]);
    }
}

/* ---- marks, blocks, reports ---- */

TEST(marks_are_kept_in_order_and_faults_push_expiries_out)
{
    struct result *result = calloc(1, sizeof *result);
    size_t faults = 0;
    assert_non_null(result);
    for (uint32_t i = 0; i < RESULT_MARKS_MAX; i++)
        result_mark(result, RESULT_EXPIRY, i * 37 % RESULT_MARKS_MAX, 0, "e");
    for (uint32_t i = 0; i < 10; i++)
        result_mark(result, RESULT_FAULT, i, i + 5, "f");
    result_mark(result, RESULT_EXPIRY, 3, 0, "one too many");
    assert_int_equal(result->mark_count, RESULT_MARKS_MAX);
    assert_int_equal(result->marks_left_out, 11);
    for (size_t i = 0; i < result->mark_count; i++) {
        assert_true(i == 0 || result->marks[i - 1].at_ms <= result->marks[i].at_ms);
        faults += result->marks[i].kind == RESULT_FAULT;
        assert_string_not_equal(result->marks[i].text, "one too many");
    }
    assert_int_equal(faults, 10);
    free(result);
}

static uint64_t block_sum(const struct result *result, size_t block)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < RESULT_BUCKETS; i++)
        sum += result->blocks[block][i];
    return sum;
}

TEST(blocks_are_the_rounds_of_a_burst)
{
    struct made_run *run = made_run_begin(WORK_BURST, 3000);
    run->work.connection_count = 100;
    run->work.round_count = 30;
    for (size_t i = 0; i < run->count; i++)
        run->at[i].due_us = MADE_BEGIN_US + i / 100 * 1000000;
    made_run_finish(run);
    assert_int_equal(run->result->block_count, RESULT_BLOCKS_MAX);
    for (size_t i = 0; i < RESULT_BLOCKS_MAX; i++)
        assert_int_equal(block_sum(run->result, i) % 100, 0); /* no round is cut in two */
    run = made_run_begin(WORK_BURST, 100);
    made_run_finish(run);
    assert_int_equal(run->result->block_count, 0); /* a single burst does not know its noise */
}

TEST(blocks_are_equal_spans_of_a_rate)
{
    struct made_run *run = made_run_begin(WORK_RATE, 2000);
    for (size_t i = 0; i < run->count; i++)
        run->at[i].due_us = MADE_BEGIN_US + i * 1000;
    made_run_finish(run);
    assert_int_equal(run->result->block_count, RESULT_BLOCKS_MAX);
    for (size_t i = 0; i < RESULT_BLOCKS_MAX; i++)
        assert_in_range(block_sum(run->result, i), 99, 101);
}

TEST(a_report_holds_when_all_checks_do_and_takes_so_many_results)
{
    struct report report = {0};
    struct result *more = calloc(1, sizeof *more);
    assert_non_null(more);
    assert_true(report_held(&report));
    for (size_t i = 0; i < REPORT_RESULTS_MAX; i++)
        assert_true(report_add(&report, calloc(1, sizeof(struct result))));
    assert_false(report_add(&report, more));
    report.results[1]->check_count = 2;
    report.results[1]->checks[0].held = true;
    assert_false(report_held(&report));
    report.results[1]->checks[1].held = true;
    assert_true(report_held(&report));
    report.results[2]->is_partial = true; /* nobody judged it */
    assert_false(report_held(&report));
    report_clear(&report);
    assert_int_equal(report.result_count, 0);
    free(more);
}
