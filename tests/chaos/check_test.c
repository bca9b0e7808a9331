/* SPDX-License-Identifier: MIT */
/*
 * check_test.c - the checker of histories: hand-made ones that keep every promise, and one for each way to
 * break it.
 *
 * A history is a text of events, BEGIN END and what else there is, in whole milliseconds from 0, of one key and
 * process 0:
 *
 *     kept 5 9 1          a row of that version, from what its process keeps for an outage
 *     got 5 9 1           a row of that version             refused 5 9 503    a status without one
 *     reset, unconnected, timeout 5 9 [LIMIT]               no answer; the client would have left after 5000
 *     edit 5 9 2          committed; 0: its fate is unknown
 *     confirmed 5 9 2     an invalidation                   unconfirmed 5 9 2
 *     elsewhere 5 9 2     one that process 1 was told of, confirmed
 *     load 5 9            load+ 5 9                         of another key
 *     FAULT 5 9           one of fault.h, of everybody      FAULT 5 9 1       of that process
 *     stall 5 9           calm 5 9                          settled from 5 on, calm from 9
 */
#include "tests/chaos/check.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <unistd.h>

static const struct check_rules rules = {
    .process_count = 4,
    .workers = 4,
    .deadline_ms = 1000,
    .slack_ms = 100,
    .load_limit_ms = 500,
    .memory_ms = 50,
    .tail_ms = 200,
    .kept_ms = 300,
    .redis_late_ms = 50,
};

enum { KEY = 7, CLIENT_LIMIT_MS = 5000 };

static struct history history;

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

static uint64_t ms(uint64_t instant_ms)
{
    return instant_ms * 1000;
}

/* ---- histories as text ---- */

struct event {
    char name[40];
    unsigned begin_ms, end_ms, number;
    bool has_number;
};

static bool is_called(const struct event *event, const char *name)
{
    return strcmp(event->name, name) == 0;
}

static void add_get(const struct event *event)
{
    struct history_get get = {.begin_us = ms(event->begin_ms),
                              .end_us = ms(event->end_ms),
                              .key = KEY,
                              .limit_ms = CLIENT_LIMIT_MS};
    get.kept = is_called(event, "kept");
    if (is_called(event, "got") || get.kept) {
        get.body_key = KEY;
        get.version = event->number;
        get.status = 200;
    } else if (is_called(event, "refused")) {
        get.status = (uint16_t)event->number;
    } else {
        get.outcome = is_called(event, "reset")     ? HTTP_RESET
                      : is_called(event, "timeout") ? HTTP_TIMEOUT
                                                    : HTTP_UNCONNECTED;
        get.limit_ms = event->has_number ? event->number : CLIENT_LIMIT_MS;
    }
    history_add_get(&history, &get);
}

static void add_change(const struct event *event)
{
    if (is_called(event, "edit"))
        history_add_edit(&history, &(struct history_edit){.begin_us = ms(event->begin_ms),
                                                          .end_us = ms(event->end_ms),
                                                          .key = KEY,
                                                          .committed = event->number > 0,
                                                          .version = event->number});
    else
        history_add_invalidation(&history,
                                 &(struct history_invalidation){.begin_us = ms(event->begin_ms),
                                                                .end_us = ms(event->end_ms),
                                                                .key = KEY,
                                                                .process = is_called(event, "elsewhere"),
                                                                .confirmed = !is_called(event, "unconfirmed"),
                                                                .version = event->number});
}

static void add_fault(const struct event *event)
{
    enum fault_kind kind;
    if (!fault_find(event->name, &kind))
        fail_msg("no event and no fault: %s", event->name);
    history_add_fault(&history,
                      &(struct fault){.kind = kind,
                                      .side = fault_trait(kind)->party,
                                      .process = event->has_number ? (uint8_t)event->number : FAULT_EVERYBODY,
                                      .begin_us = ms(event->begin_ms),
                                      .end_us = ms(event->end_ms)});
}

static void add_event(const struct event *event)
{
    static const char gets[] = "got kept refused reset unconnected timeout ",
                      changes[] = "edit confirmed unconfirmed elsewhere ";
    char name[sizeof event->name + 1];
    snprintf(name, sizeof name, "%s ", event->name);
    if (strstr(gets, name) != NULL) {
        add_get(event);
    } else if (strstr(changes, name) != NULL) {
        add_change(event);
    } else if (strncmp(name, "load", 4) == 0) {
        history_add_load(&history, &(struct history_load){.begin_us = ms(event->begin_ms),
                                                          .end_us = ms(event->end_ms),
                                                          .key = KEY + (name[4] == '+')});
    } else if (is_called(event, "stall")) {
        history_add_stall(
            &history, &(struct history_stall){.begin_us = ms(event->begin_ms), .end_us = ms(event->end_ms)});
    } else if (is_called(event, "calm")) {
        history.settle_us = ms(event->begin_ms);
        history.calm_us = ms(event->end_ms);
    } else {
        add_fault(event);
    }
}

/* Events end with commas. */
static void add_events(const char *text)
{
    for (const char *at = text; *at != '\0'; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        struct event event = {.number = 0};
        int fields = sscanf(at, " %39s %u %u%u", event.name, &event.begin_ms, &event.end_ms, &event.number);
        if (fields < 3)
            fail_msg("no event: %s", at);
        event.has_number = fields == 4;
        add_event(&event);
    }
}

/* ---- what is good, and what is added that is not ---- */

struct story {
    const char *good; /* NULL: there is none without what is added */
    const char *added;
    enum check_kind kind;
    unsigned times; /* that it is broken; 0: it is still good */
};

static void expect_verdict(const struct story *story, unsigned times)
{
    struct check_report report;
    bool is_good = check_history(&history, &rules, &report);
    if (is_good != (times == 0) || report.violations[story->kind] != times || report.violation_count != times)
        fail_msg("\"%s\" and \"%s\": %u times broken, not %u; %s", story->good, story->added,
                 (unsigned)report.violation_count, times, is_good ? "" : report.texts[0]);
    if (times > 0)
        assert_memory_equal(report.texts[0], check_name(story->kind), strlen(check_name(story->kind)));
}

static void expect_stories(const struct story *stories, size_t count)
{
    for (const struct story *story = stories; story < stories + count; story++) {
        history_clear(&history);
        history_init(&history);
        if (story->good != NULL) {
            add_events(story->good);
            expect_verdict(story, 0);
        }
        add_events(story->added);
        expect_verdict(story, story->times);
    }
}
#define EXPECT_STORIES(stories) expect_stories(stories, sizeof(stories) / sizeof *(stories))

#define CHANGED "edit 10 20 2, confirmed 21 30 2, "

TEST(a_row_is_as_new_as_what_was_confirmed_before_it_was_asked_for)
{
    static const struct story stories[] = {
        {"", "", CHECK_STALE, 0},
        /* the new row from the edit on; the old one until the confirmation, in the same microsecond, too */
        {CHANGED "got 5 9 1, got 9 11 2, got 29 90 1, got 30 90 1, got 31 90 2",
         "got 31 40 1, got 4000 4010 1", CHECK_STALE, 2},
        {"edit 10 20 2, unconfirmed 21 30 2, got 31 40 1", "", CHECK_STALE, 0},
        /* a confirmation of an older version does not lower the floor */
        {"edit 10 20 2, edit 11 21 3, confirmed 22 30 3, confirmed 22 40 2", "got 41 50 2", CHECK_STALE, 1},
        /* before anybody can have written it */
        {CHANGED "got 22 31 2", "got 1 9 2, got 1 50 3", CHECK_UNWRITTEN, 2},
        /* an edit of unknown fate may have happened */
        {"edit 10 20 0, got 5 11 2, got 30 40 1", "", CHECK_UNWRITTEN, 0},
    };
    EXPECT_STORIES(stories);
}

TEST(what_is_kept_may_lack_what_another_process_has_had_confirmed_for_so_long_and_no_longer)
{
    static const struct story stories[] = {
        {"edit 10 20 2, elsewhere 21 30 2, kept 31 40 1, kept 329 340 1", "kept 330 340 1", CHECK_STALE, 1},
        {NULL, CHANGED "kept 31 40 1", CHECK_STALE, 1},                         /* its own process has */
        {NULL, "edit 10 20 2, elsewhere 21 30 2, got 31 40 1", CHECK_STALE, 1}, /* it is not kept */
    };
    struct check_report report;
    EXPECT_STORIES(stories);
    history_clear(&history);
    history_init(&history);
    add_events("edit 10 20 2, elsewhere 21 30 2, kept 31 40 1, kept 31 40 2");
    assert_true(check_history(&history, &rules, &report));
    assert_int_equal(report.kept, 2);
    assert_int_equal(report.kept_old, 1);
    assert_int_equal(report.allowed, 0);
}

TEST(nothing_that_is_kept_answers_in_the_calm_before_redis_is_late)
{
    static const struct story stories[] = {
        {"calm 100 100, kept 90 110 1, kept 100 150 1", "kept 100 149 1", CHECK_KEPT, 1},
        {"calm 100 100, stall 110 120, kept 100 149 1", "", CHECK_KEPT, 0},
    };
    EXPECT_STORIES(stories);
}

TEST(a_row_answered_as_absent_is_stale_and_a_status_that_is_not_allowed)
{
    struct check_report report;
    add_events(CHANGED "refused 31 40 404");
    assert_false(check_history(&history, &rules, &report));
    assert_int_equal(report.violations[CHECK_STALE], 1);
    assert_int_equal(report.violations[CHECK_STATUS], 1);
}

TEST(the_row_of_another_key_is_a_wrong_row, P16)
{
    add_events("got 1 9 1");
    history.gets.items[0].body_key = KEY + 1;
    expect_verdict(&(struct story){.kind = CHECK_WRONG_ROW}, 1);
}

TEST(refusals_are_allowed_until_all_is_calm)
{
    static const struct story stories[] = {
        {"refused 10 20 503, refused 10 900 504, calm 15 15", "calm 10 10", CHECK_STATUS, 2},
        {NULL, "refused 10 20 500", CHECK_STATUS, 1}, /* never */
        /* a fault before the calm excuses nothing in it, nor does what stood still before it */
        {"redis-stop 100 290, stall 200 300, calm 300 300, refused 299 310 503", "refused 300 310 503",
         CHECK_STATUS, 1},
        /* a stall in the calm excuses whom it met, and nobody after its tail, whose last instant counts */
        {"calm 100 100, stall 500 800, refused 400 500 503, refused 600 700 504, refused 1000 1010 503",
         "refused 400 499 503, refused 1001 1010 503", CHECK_STATUS, 2},
        /* one while all settled may be felt in the calm */
        {"stall 200 290, calm 289 300, refused 300 310 503", "calm 290 300", CHECK_STATUS, 1},
    };
    EXPECT_STORIES(stories);
}

TEST(the_report_says_how_many_were_held_to_the_rule_of_the_calm)
{
    struct check_report report;
    add_events("calm 100 100, stall 500 800, got 99 110 1, got 100 110 1, got 600 610 1, got 1001 1010 1");
    assert_true(check_history(&history, &rules, &report));
    assert_int_equal(report.answered_in_calm, 3);
    assert_int_equal(report.judged_calm, 2);
}

TEST(an_answer_comes_within_deadline_and_slack_but_for_what_stood_still)
{
    static const struct story stories[] = {
        {"refused 10 1110 504", "refused 10 1111 504", CHECK_LATE, 1},
        {"refused 10 1600 504, stall 5 500", "", CHECK_LATE, 0},
        {NULL, "refused 10 1600 504, stall 5 499", CHECK_LATE, 1},
        {"refused 10 1600 504, catalogd-stop 5 500 0", "", CHECK_LATE, 0},
        {NULL, "refused 10 1600 504, catalogd-stop 5 500 1", CHECK_LATE, 1},
        /* stopped while a processor stood still, it was paused once */
        {"refused 10 1600 504, catalogd-stop 100 300 0, catalogd-stop 150 250 0, stall 200 500, stall 1510 "
         "2000",
         "", CHECK_LATE, 0},
        {NULL,
         "refused 10 1600 504, catalogd-stop 100 300 0, catalogd-stop 150 250 0, stall 200 500, stall 1511 "
         "2000",
         CHECK_LATE, 1},
    };
    EXPECT_STORIES(stories);
}

TEST(no_answer_is_excused_by_a_kill_or_by_leaving_and_by_nothing_else)
{
    static const struct story stories[] = {
        {"timeout 100 5100, catalogd-stop 50 4500 0", "", CHECK_UNANSWERED, 0},
        {NULL, "timeout 100 5100, catalogd-stop 50 3900 0", CHECK_UNANSWERED, 1},
        {"catalogd-kill 100 200 0, reset 50 100, unconnected 150 151, timeout 300 330 30",
         "catalogd-kill 250 350 1, reset 50 99, unconnected 300 310, timeout 300 5300", CHECK_UNANSWERED, 3},
    };
    EXPECT_STORIES(stories);
}

/* ---- loads ---- */

TEST(a_second_load_at_a_time_needs_an_invalidation_or_a_fault)
{
    static const struct story stories[] = {
        {"load 10 20, load 20 30, load+ 15 25", "", CHECK_OVERLAP, 0},
        {"load 10 20", "load 19 30", CHECK_OVERLAP, 1},
        /* each invalidation during a load excuses one more */
        {"load 100 200, load 150 250, unconfirmed 140 145 1", "load 160 260", CHECK_OVERLAP, 1},
        {NULL, "load 100 200, load 150 250, confirmed 40 45 1, confirmed 151 152 1", CHECK_OVERLAP, 1},
        /* until its tail is over; an earlier one may have been of a lease from before that */
        {"redis-flush 100 101, load 351 400, load 360 400", "load+ 352 400, load+ 360 400", CHECK_OVERLAP, 1},
        {"redis-flush 100 101, load 180 300, load 190 300, load+ 220 300, load+ 230 300", "calm 101 150",
         CHECK_OVERLAP, 1},
        /* without Redis every process may load, and no more */
        {"redis-stop 90 1000, load 100 200, load 101 200, load 102 200, load 103 200, load 104 200",
         "load 106 200", CHECK_OVERLAP, 1},
        {"postgres-stop 100 1200, load 1200 1300, load 1201 1300, load 1202 1300, load 1203 1300",
         "load 1205 1300", CHECK_OVERLAP, 1},
    };
    EXPECT_STORIES(stories);
}

TEST(an_invalidation_in_the_millisecond_of_the_load_may_have_come_before_it)
{
    add_events("load 100 200, load 150 250, confirmed 150 155 1");
    history.invalidations.items[0].begin_us = ms(150) + 999;
    expect_verdict(&(struct story){.kind = CHECK_OVERLAP}, 0);
    history.invalidations.items[0].begin_us = ms(151);
    expect_verdict(&(struct story){.kind = CHECK_OVERLAP}, 1);
    history.invalidations.items[0].begin_us = ms(140);
    history.invalidations.items[0].key = KEY + 1;
    expect_verdict(&(struct story){.kind = CHECK_OVERLAP}, 1);
}

TEST(a_stall_excuses_loads_until_its_tail_is_over)
{
    static const struct story stories[] = {
        {"stall 90 100, load 350 400, load 360 400", "load+ 351 400, load+ 360 400", CHECK_OVERLAP, 1},
        {"stall 90 100, load 220 300, load 230 300", "calm 101 150", CHECK_OVERLAP, 1}, /* none in the calm */
        /* but one while all settled */
        {"stall 90 100, load 220 300, load 230 300, calm 99 150", "calm 100 150", CHECK_OVERLAP, 1},
        /* any number of stalls lets each process load for itself, and no more: in the last no query was given up */
        {"stall 90 190, stall 210 310, stall 330 829, load 350 900, load 351 900, load 352 900, load 353 "
         "900, "
         "load 354 900",
         "load 356 900", CHECK_OVERLAP, 1},
        {"stall 90 190, stall 210 310, stall 330 830, load 350 900, load 351 900, load 352 900, load 353 "
         "900, "
         "load 354 900, load 356 900",
         "", CHECK_OVERLAP, 0},
    };
    EXPECT_STORIES(stories);
}

TEST(no_faults_excuse_more_loads_than_there_are_workers)
{
    for (unsigned i = 0; i < 30; i++)
        add_events("redis-stop 100 200");
    for (unsigned i = 0; i < 17; i++)
        add_event(&(struct event){.name = "load", .begin_ms = 100 + i, .end_ms = 200});
    expect_verdict(&(struct story){.kind = CHECK_OVERLAP}, 1);
}

TEST(stalls_that_overlap_are_one)
{
    add_events("stall 100 200, stall 300 400, stall 350 500"); /* the last of another processor */
    assert_int_equal(history.stalls.count, 2);
    assert_int_equal(history.stalls.items[1].begin_us, ms(300));
    assert_int_equal(history.stalls.items[1].end_us, ms(500));
    add_events("stall 90 501");
    assert_int_equal(history.stalls.count, 1);
    assert_int_equal(history.stalls.items[0].begin_us, ms(90));
    assert_int_equal(history.stalls.items[0].end_us, ms(501));
}

/* ---- in a file ---- */

TEST(what_was_written_is_read_again_and_judged_alike)
{
    char path[] = "/tmp/check_test.XXXXXX";
    struct history copy;
    struct check_report report, again;
    add_events("edit 10 20 2, elsewhere 21 30 2, got 31 40 1, kept 31 40 1, reset 50 99, load 10 20, load 11 "
               "20, link-cut 5000 5001 2, stall 6100 6400, "
               "calm 5900 6000");
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
    assert_int_equal(again.kept_old, 1);
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
    static const struct story last[] = {{"edit 4000 4010 2, confirmed 4020 4500 2, master-kill 5000 8000, "
                                         "got 6000 6010 1, got 8900 8910 1",
                                         "", CHECK_STALE, 0}};
    /* what it had confirmed earlier may not, and nothing once it was repaid: one lacks both, one is too late */
    static const struct story earlier[] = {{"edit 1000 1010 2, confirmed 1020 2900 2, edit 4000 4010 3, "
                                            "confirmed 4020 4500 3, master-kill 5000 8000, got 6000 6010 2",
                                            "got 6100 6110 1, got 9100 9110 2", CHECK_STALE, 2}};
    EXPECT_STORIES(last);
    expect_allowed(2, 900);
    EXPECT_STORIES(earlier);
    expect_allowed(1, 0);
}

TEST(a_planned_failover_loses_nothing_and_a_master_that_nobody_guards_is_believed_for_a_while)
{
    static const char all[] =
        "edit 5500 5510 2, confirmed 5520 5600 2, master-failover 5000 5500, got 5700 5710 1, "
        "master-unguarded 5000 5500";
    static const struct story stories[] = {
        {NULL, "edit 5500 5510 2, confirmed 5520 5600 2, master-failover 5000 5500, got 5700 5710 1",
         CHECK_STALE, 1},
        {all, "got 6800 6810 1", CHECK_STALE, 1}, /* a second and a command later */
    };
    EXPECT_STORIES(stories);
}

TEST_GROUP(.before = new_history, .after = clear_history);
