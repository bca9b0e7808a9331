/* SPDX-License-Identifier: MIT */
/*
 * check_test.c - the checker of histories: hand-made ones that keep every promise, and one for each way to
 * break it.
 *
 * Times in the histories are whole milliseconds from 0.
 */
#include "tests/chaos/check.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct check_rules rules = {
    .process_count = 4,
    .workers = 4,
    .deadline_ms = 1000,
    .slack_ms = 100,
    .load_limit_ms = 500,
    .memory_ms = 50,
    .tail_ms = 200,
};

enum { KEY = 7 };

static struct history history;

static uint64_t ms(uint64_t instant_ms)
{
    return instant_ms * 1000;
}

static bool new_history(void)
{
    history_init(&history);
    return true;
}

static bool clear_history(void)
{
    history_clear(&history);
    return true;
}

static void answered(uint64_t begin_ms, uint64_t end_ms, uint64_t version)
{
    history_add_get(&history, &(struct history_get){.begin_us = ms(begin_ms),
                                                    .end_us = ms(end_ms),
                                                    .key = KEY,
                                                    .body_key = KEY,
                                                    .version = version,
                                                    .status = 200,
                                                    .limit_ms = 5000});
}

static void refused(uint64_t begin_ms, uint64_t end_ms, uint16_t status)
{
    history_add_get(
        &history,
        &(struct history_get){
            .begin_us = ms(begin_ms), .end_us = ms(end_ms), .key = KEY, .status = status, .limit_ms = 5000});
}

static void unanswered(uint64_t begin_ms, uint64_t end_ms, enum http_outcome outcome, uint32_t limit_ms)
{
    history_add_get(&history, &(struct history_get){.begin_us = ms(begin_ms),
                                                    .end_us = ms(end_ms),
                                                    .key = KEY,
                                                    .outcome = outcome,
                                                    .limit_ms = limit_ms});
}

static void edited(uint64_t begin_ms, uint64_t end_ms, uint64_t version)
{
    history_add_edit(&history, &(struct history_edit){.begin_us = ms(begin_ms),
                                                      .end_us = ms(end_ms),
                                                      .key = KEY,
                                                      .committed = true,
                                                      .version = version});
}

static void invalidated(uint64_t begin_ms, uint64_t end_ms, uint64_t version, bool confirmed)
{
    history_add_invalidation(&history, &(struct history_invalidation){.begin_us = ms(begin_ms),
                                                                      .end_us = ms(end_ms),
                                                                      .key = KEY,
                                                                      .confirmed = confirmed,
                                                                      .version = version});
}

static void loaded(uint32_t key, uint64_t begin_ms, uint64_t end_ms)
{
    history_add_load(&history,
                     &(struct history_load){.begin_us = ms(begin_ms), .end_us = ms(end_ms), .key = key});
}

static void broke(enum fault_kind kind, uint8_t process, uint64_t begin_ms, uint64_t end_ms)
{
    history_add_fault(&history, &(struct fault){.kind = kind,
                                                .side = fault_trait(kind)->party,
                                                .process = process,
                                                .begin_us = ms(begin_ms),
                                                .end_us = ms(end_ms)});
}

static void stood_still(uint64_t begin_ms, uint64_t end_ms)
{
    history_add_stall(&history, &(struct history_stall){.begin_us = ms(begin_ms), .end_us = ms(end_ms)});
}

static void calm(uint64_t settle_ms, uint64_t calm_ms)
{
    history.settle_us = ms(settle_ms);
    history.calm_us = ms(calm_ms);
}

/* A confirmed change from version 1 to 2, from 10 ms to 30 ms. */
static void changed(void)
{
    edited(10, 20, 2);
    invalidated(21, 30, 2, true);
}

static void expect_good(void)
{
    struct check_report report;
    if (!check_history(&history, &rules, &report))
        fail_msg("%s", report.texts[0]);
}

static void expect_only(enum check_kind kind, uint32_t times)
{
    struct check_report report;
    assert_false(check_history(&history, &rules, &report));
    assert_int_equal(report.violations[kind], times);
    assert_int_equal(report.violation_count, times);
    assert_memory_equal(report.texts[0], check_name(kind), strlen(check_name(kind)));
}

/* ---- freshness ---- */

TEST(an_empty_history_keeps_every_promise)
{
    expect_good();
}

TEST(the_new_row_is_allowed_from_the_edit_on_and_the_old_one_until_the_confirmation)
{
    changed();
    answered(5, 9, 1);
    answered(9, 11, 2);
    answered(29, 90, 1);
    answered(30, 90, 1); /* in the same microsecond: not before */
    answered(31, 90, 2);
    expect_good();
}

TEST(an_old_row_to_who_began_after_the_confirmation_is_stale)
{
    changed();
    answered(31, 40, 1);
    answered(4000, 4010, 1);
    expect_only(CHECK_STALE, 2);
}

TEST(an_invalidation_that_was_not_confirmed_promises_nothing)
{
    edited(10, 20, 2);
    invalidated(21, 30, 2, false);
    answered(31, 40, 1);
    expect_good();
}

TEST(a_confirmation_of_an_older_version_does_not_lower_the_floor)
{
    edited(10, 20, 2);
    edited(11, 21, 3);
    invalidated(22, 30, 3, true);
    invalidated(22, 40, 2, true);
    answered(41, 50, 2);
    expect_only(CHECK_STALE, 1);
}

TEST(a_row_answered_as_absent_is_stale_and_a_status_that_is_not_allowed)
{
    struct check_report report;
    changed();
    refused(31, 40, 404);
    assert_false(check_history(&history, &rules, &report));
    assert_int_equal(report.violations[CHECK_STALE], 1);
    assert_int_equal(report.violations[CHECK_STATUS], 1);
}

TEST(a_version_before_anybody_can_have_written_it_is_unwritten)
{
    changed();
    answered(1, 9, 2);
    answered(1, 50, 3);
    expect_only(CHECK_UNWRITTEN, 2);
}

TEST(an_edit_of_unknown_fate_may_have_happened)
{
    history_add_edit(&history, &(struct history_edit){.begin_us = ms(10), .end_us = ms(20), .key = KEY});
    answered(5, 11, 2);
    answered(30, 40, 1);
    expect_good();
}

TEST(the_row_of_another_key_is_a_wrong_row)
{
    answered(1, 9, 1);
    history.gets.items[0].body_key = KEY + 1;
    expect_only(CHECK_WRONG_ROW, 1);
}

/* ---- answers ---- */

TEST(refusals_are_allowed_until_all_is_calm)
{
    refused(10, 20, 503);
    refused(10, 900, 504);
    expect_good();
    calm(15, 15);
    expect_good();
    calm(10, 10);
    expect_only(CHECK_STATUS, 2);
}

TEST(a_fault_before_the_calm_excuses_nothing_in_it)
{
    broke(FAULT_REDIS_STOP, FAULT_EVERYBODY, 100, 290);
    stood_still(200, 300); /* nor what stood still before it */
    calm(300, 300);
    refused(299, 310, 503);
    expect_good();
    refused(300, 310, 503);
    expect_only(CHECK_STATUS, 1);
}

TEST(a_stall_in_the_calm_excuses_whom_it_met_and_nobody_after_its_tail)
{
    calm(100, 100);
    stood_still(500, 800);
    refused(400, 500, 503);
    refused(600, 700, 504);
    refused(1000, 1010, 503); /* the tail's last instant */
    expect_good();
    refused(400, 499, 503);
    refused(1001, 1010, 503);
    expect_only(CHECK_STATUS, 2);
}

TEST(a_stall_while_all_settled_may_be_felt_in_the_calm)
{
    stood_still(200, 290);
    calm(290, 300);
    refused(300, 310, 503);
    expect_only(CHECK_STATUS, 1);
    calm(289, 300);
    expect_good();
}

TEST(the_report_says_how_many_were_held_to_the_rule_of_the_calm)
{
    struct check_report report;
    calm(100, 100);
    stood_still(500, 800);
    answered(99, 110, 1);
    answered(100, 110, 1);
    answered(600, 610, 1);
    answered(1001, 1010, 1);
    assert_true(check_history(&history, &rules, &report));
    assert_int_equal(report.answered_in_calm, 3);
    assert_int_equal(report.judged_calm, 2);
}

TEST(an_internal_error_is_never_allowed)
{
    refused(10, 20, 500);
    expect_only(CHECK_STATUS, 1);
}

TEST(an_answer_past_deadline_and_slack_is_late)
{
    refused(10, 1110, 504);
    expect_good();
    refused(10, 1111, 504);
    expect_only(CHECK_LATE, 1);
}

TEST(the_time_a_processor_stood_still_does_not_count)
{
    refused(10, 1600, 504);
    stood_still(5, 500);
    expect_good();
    history.stalls.items[0].end_us = ms(499);
    expect_only(CHECK_LATE, 1);
}

TEST(the_time_a_process_was_stopped_does_not_count)
{
    refused(10, 1600, 504);
    broke(FAULT_CATALOGD_STOP, 0, 5, 500);
    expect_good();
    history.faults.items[0].process = 1;
    expect_only(CHECK_LATE, 1);
}

TEST(a_process_that_was_stopped_while_a_processor_stood_still_was_paused_once)
{
    refused(10, 1600, 504);
    broke(FAULT_CATALOGD_STOP, 0, 100, 300);
    broke(FAULT_CATALOGD_STOP, 0, 150, 250);
    stood_still(200, 500);
    stood_still(1510, 2000);
    expect_good();
    history.stalls.items[1].begin_us = ms(1511);
    expect_only(CHECK_LATE, 1);
}

TEST(who_leaves_a_stopped_process_did_not_wait_in_vain)
{
    unanswered(100, 5100, HTTP_TIMEOUT, 5000);
    broke(FAULT_CATALOGD_STOP, 0, 50, 4500);
    expect_good();
    history.faults.items[0].end_us = ms(3900);
    expect_only(CHECK_UNANSWERED, 1);
}

TEST(no_answer_is_excused_by_a_kill_or_by_leaving)
{
    broke(FAULT_CATALOGD_KILL, 0, 100, 200);
    unanswered(50, 100, HTTP_RESET, 5000);
    unanswered(150, 151, HTTP_UNCONNECTED, 5000);
    unanswered(300, 330, HTTP_TIMEOUT, 30);
    expect_good();
}

TEST(no_answer_from_a_living_process_is_a_violation)
{
    broke(FAULT_CATALOGD_KILL, 0, 100, 200);
    broke(FAULT_CATALOGD_KILL, 1, 250, 350);
    unanswered(50, 99, HTTP_RESET, 5000);
    unanswered(300, 310, HTTP_UNCONNECTED, 5000);
    unanswered(300, 5300, HTTP_TIMEOUT, 5000);
    expect_only(CHECK_UNANSWERED, 3);
}

/* ---- loads ---- */

TEST(loads_one_after_another_and_of_different_keys_need_no_excuse)
{
    loaded(KEY, 10, 20);
    loaded(KEY, 20, 30);
    loaded(KEY + 1, 15, 25);
    expect_good();
}

TEST(a_second_load_at_a_time_without_a_fault_is_an_overlap)
{
    loaded(KEY, 10, 20);
    loaded(KEY, 19, 30);
    expect_only(CHECK_OVERLAP, 1);
}

TEST(each_invalidation_during_a_load_excuses_one_more)
{
    loaded(KEY, 100, 200);
    loaded(KEY, 150, 250);
    invalidated(140, 145, 1, false);
    expect_good();
    loaded(KEY, 160, 260);
    expect_only(CHECK_OVERLAP, 1);
}

TEST(an_invalidation_in_the_millisecond_of_the_load_may_have_come_before_it)
{
    loaded(KEY, 100, 200);
    loaded(KEY, 150, 250);
    invalidated(150, 155, 1, true);
    history.invalidations.items[0].begin_us = ms(150) + 999;
    expect_good();
    history.invalidations.items[0].begin_us = ms(151);
    expect_only(CHECK_OVERLAP, 1);
}

TEST(an_invalidation_of_another_key_or_another_time_excuses_nothing)
{
    loaded(KEY, 100, 200);
    loaded(KEY, 150, 250);
    invalidated(40, 45, 1, true);
    invalidated(151, 152, 1, true);
    invalidated(140, 145, 1, true);
    history.invalidations.items[2].key = KEY + 1;
    expect_only(CHECK_OVERLAP, 1);
}

TEST(a_fault_excuses_loads_until_its_tail_is_over)
{
    broke(FAULT_REDIS_FLUSH, FAULT_EVERYBODY, 100, 101);
    loaded(KEY, 351, 400);
    loaded(KEY, 360, 400);
    expect_good();
    loaded(KEY + 1, 352, 400);
    loaded(KEY + 1, 360, 400);
    expect_only(CHECK_OVERLAP, 1);
}

TEST(a_fault_excuses_nothing_once_all_is_calm)
{
    broke(FAULT_REDIS_FLUSH, FAULT_EVERYBODY, 100, 101);
    loaded(KEY, 180, 300); /* its lease may be from before 150 */
    loaded(KEY, 190, 300);
    loaded(KEY + 1, 220, 300);
    loaded(KEY + 1, 230, 300);
    expect_good();
    calm(101, 150);
    expect_only(CHECK_OVERLAP, 1);
}

TEST(without_redis_every_process_may_load_and_no_more)
{
    broke(FAULT_REDIS_STOP, FAULT_EVERYBODY, 90, 1000);
    for (uint64_t i = 0; i < 5; i++)
        loaded(KEY, 100 + i, 200);
    expect_good();
    loaded(KEY, 106, 200);
    expect_only(CHECK_OVERLAP, 1);
}

TEST(a_longer_outage_of_postgresql_excuses_more_abandoned_queries)
{
    broke(FAULT_POSTGRES_STOP, FAULT_EVERYBODY, 100, 1200);
    for (uint64_t i = 0; i < 4; i++)
        loaded(KEY, 1200 + i, 1300);
    expect_good();
    loaded(KEY, 1205, 1300);
    expect_only(CHECK_OVERLAP, 1);
}

TEST(any_number_of_stalls_lets_each_process_load_for_itself_and_no_more)
{
    stood_still(90, 190);
    stood_still(210, 310);
    stood_still(330, 829); /* a moment less than a query is waited for */
    for (uint64_t i = 0; i < 5; i++)
        loaded(KEY, 350 + i, 900);
    expect_good();
    loaded(KEY, 356, 900);
    expect_only(CHECK_OVERLAP, 1);
    history.stalls.items[2].end_us = ms(830); /* one query was given up in it */
    expect_good();
}

TEST(a_stall_excuses_loads_until_its_tail_is_over)
{
    stood_still(90, 100);
    loaded(KEY, 350, 400); /* its lease may be from 300 */
    loaded(KEY, 360, 400);
    expect_good();
    loaded(KEY + 1, 351, 400);
    loaded(KEY + 1, 360, 400);
    expect_only(CHECK_OVERLAP, 1);
}

TEST(a_stall_before_the_calm_excuses_no_loads_in_it)
{
    stood_still(90, 100);
    loaded(KEY, 220, 300);
    loaded(KEY, 230, 300);
    expect_good();
    calm(101, 150);
    expect_only(CHECK_OVERLAP, 1);
}

TEST(a_stall_while_all_settled_excuses_loads_in_the_calm)
{
    stood_still(90, 100);
    loaded(KEY, 220, 300);
    loaded(KEY, 230, 300);
    calm(100, 150);
    expect_only(CHECK_OVERLAP, 1);
    calm(99, 150);
    expect_good();
}

TEST(no_faults_excuse_more_loads_than_there_are_workers)
{
    for (uint64_t i = 0; i < 30; i++)
        broke(FAULT_REDIS_STOP, FAULT_EVERYBODY, 100, 200);
    for (uint64_t i = 0; i < 17; i++)
        loaded(KEY, 100 + i, 200);
    expect_only(CHECK_OVERLAP, 1);
}

/* ---- stalls ---- */

TEST(stalls_that_overlap_are_one)
{
    stood_still(100, 200);
    stood_still(300, 400);
    stood_still(350, 500); /* of another processor */
    assert_int_equal(history.stalls.count, 2);
    assert_int_equal(history.stalls.items[1].begin_us, ms(300));
    assert_int_equal(history.stalls.items[1].end_us, ms(500));
    stood_still(90, 501);
    assert_int_equal(history.stalls.count, 1);
    assert_int_equal(history.stalls.items[0].begin_us, ms(90));
    assert_int_equal(history.stalls.items[0].end_us, ms(501));
}

/* ---- as text ---- */

TEST(what_was_written_is_read_again_and_judged_alike)
{
    char path[] = "/tmp/check_test.XXXXXX";
    struct history copy;
    struct check_report report, again;
    changed();
    answered(31, 40, 1);
    unanswered(50, 99, HTTP_RESET, 5000);
    loaded(KEY, 10, 20);
    loaded(KEY, 11, 20);
    broke(FAULT_LINK_CUT, 2, 5000, 5001);
    stood_still(6100, 6400);
    calm(5900, 6000);
    file_make(path, "");
    history_init(&copy);
    assert_true(history_write(&history, path));
    assert_true(history_read(&copy, path));
    unlink(path);
    assert_int_equal(copy.calm_us, history.calm_us);
    assert_int_equal(copy.settle_us, history.settle_us);
    assert_int_equal(copy.faults.items[0].kind, FAULT_LINK_CUT);
    assert_int_equal(copy.stalls.count, 1);
    assert_memory_equal(copy.stalls.items, history.stalls.items, sizeof *copy.stalls.items);
    assert_false(check_history(&history, &rules, &report));
    assert_false(check_history(&copy, &rules, &again));
    assert_memory_equal(&report, &again, sizeof report);
    history_clear(&copy);
}

TEST(a_line_that_is_no_event_is_refused)
{
    char path[] = "/tmp/check_test.XXXXXX";
    file_make(path, "load 1 2\n");
    assert_false(history_read(&history, path));
    unlink(path);
}

/* ---- what may be lost with a master ---- */

static void expect_allowed(uint32_t times, uint32_t late_ms)
{
    struct check_report report;
    check_history(&history, &rules, &report);
    assert_int_equal(report.allowed, times);
    assert_int_equal(report.allowed_late_ms, late_ms);
}

TEST(what_a_killed_master_had_confirmed_last_may_be_missed_for_a_second_and_is_counted)
{
    edited(4000, 4010, 2);
    invalidated(4020, 4500, 2, true);
    broke(FAULT_MASTER_KILL, FAULT_EVERYBODY, 5000, 8000);
    answered(6000, 6010, 1);
    answered(8900, 8910, 1);
    expect_good();
    expect_allowed(2, 900);
}

TEST(what_it_had_confirmed_earlier_may_not_be_missed_and_nothing_is_once_it_was_repaid)
{
    edited(1000, 1010, 2);
    invalidated(1020, 2900, 2, true);
    edited(4000, 4010, 3);
    invalidated(4020, 4500, 3, true);
    broke(FAULT_MASTER_KILL, FAULT_EVERYBODY, 5000, 8000);
    answered(6000, 6010, 2);
    expect_good();
    answered(6100, 6110, 1); /* lacks both */
    answered(9100, 9110, 2); /* too late */
    expect_only(CHECK_STALE, 2);
    expect_allowed(1, 0);
}

TEST(a_planned_failover_loses_nothing_and_a_master_that_nobody_guards_is_believed_for_a_while)
{
    edited(5500, 5510, 2);
    invalidated(5520, 5600, 2, true);
    broke(FAULT_MASTER_FAILOVER, FAULT_EVERYBODY, 5000, 5500);
    answered(5700, 5710, 1);
    expect_only(CHECK_STALE, 1);
    broke(FAULT_MASTER_UNGUARDED, FAULT_EVERYBODY, 5000, 5500);
    expect_good();
    answered(6800, 6810, 1); /* a second and a command later */
    expect_only(CHECK_STALE, 1);
}

TEST_GROUP(.before = new_history, .after = clear_history);
