/* SPDX-License-Identifier: MIT */
/* herd_test.c - bursts, rates and their records, with real sockets and processes. */
#include "load/base/clock.h"
#include "load/stack/stack.h"
#include "tests/live/tester/herd_rig.h"

enum { CROWD = 20000, SILENCE_MS = 10000, STALL_MS = 300 };

/* ---- bursts ---- */

TEST(a_script_is_asked_line_by_line_at_its_instants)
{
    static struct work_script_request requests[] = {{"/key/7", false}, {"/ok", true}, {"/key/9?x", false}};
    static struct work_script_line lines[101];
    const struct work_script script = {lines, 101, requests, 3};
    for (size_t i = 0; i < 101; i++)
        lines[i] = (struct work_script_line){.at_us = i * i * 20, .request = (uint32_t)i % 3};
    burst_of(20, "/ok");
    work_follow(&work, &script);
    run_all();
    assert_int_equal(run.records.count, 101);
    for (size_t i = 0; i < 101; i++) {
        const struct record *record = &run.records.at[i];
        assert_int_equal(record->outcome, RECORD_ANSWERED);
        assert_int_equal(record->status, 200);
        assert_int_equal(record->due_us - run.begin_us, lines[i].at_us);
        assert_int_equal(record->key, lines[i].request);
    }
    assert_int_equal(atomic_load(&server.seen->keys[7]), 34);
    assert_int_equal(atomic_load(&server.seen->keys[9]), 33);
}

TEST(a_burst_leaves_at_the_barrier_from_all_generators)
{
    uint32_t by_generator[2] = {0};
    burst_of(1000, "/ok");
    run_all();
    assert_int_equal(run.records.count, 1000);
    assert_int_equal(count_outcome(RECORD_ANSWERED), 1000);
    for (size_t i = 0; i < run.records.count; i++) {
        const struct record *record = &run.records.at[i];
        assert_true(record->due_us == run.begin_us);
        assert_true(record->sent_us > 0 && record->sent_us <= record->first_us &&
                    record->first_us <= record->end_us);
        assert_int_equal(record->status, 200);
        assert_int_equal(record->body_bytes, 2);
        by_generator[record->generator]++;
    }
    assert_int_equal(by_generator[0], 500);
    assert_int_equal(by_generator[1], 500);
    assert_true(run.strain.spread_us > 0 && run.strain.verdict[0] != '\0');
    assert_int_equal(run.progress.due, 1000);
    assert_int_equal(run.progress.sent, 1000);
    assert_int_equal(run.progress.answered, 1000);
}

TEST(everybody_is_connected_before_anybody_asks)
{
    burst_of(300, "/ok");
    assert_true(herd_start(&work, &herd, run.why));
    wait_until_connected();
    assert_int_equal(run.progress.open_connections, 300);
    assert_int_equal(atomic_load(&server.seen->requests[HERD_SERVER_HTTP]), 0);
    assert_true(herd_release(herd, &run.begin_us, run.why));
    run_watch();
    run_end();
    assert_int_equal(count_outcome(RECORD_ANSWERED), 300);
}

/* The rounds of a run of `count` connections, each at an instant of its own. */
static void assert_rounds(uint32_t count, uint32_t rounds, uint64_t least_us)
{
    assert_int_equal(run.records.count, (size_t)count * rounds);
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t due_us = run.records.at[round * count].due_us;
        for (uint32_t i = 0; i < count; i++)
            assert_true(run.records.at[round * count + i].due_us == due_us);
        if (round > 0)
            assert_true(due_us >= run.records.at[(round - 1) * count].due_us + least_us);
    }
}

TEST(rounds_use_the_same_connections_and_do_not_overlap)
{
    burst_of(200, "/ok");
    work.round_count = 5;
    run_all();
    assert_rounds(200, 5, 1);
    assert_int_equal(count_outcome(RECORD_ANSWERED), 1000);
    for (size_t i = 0; i < 800; i++) /* over before anybody of the next round was due */
        assert_true(run.records.at[i].due_us + run.records.at[i].end_us <=
                    run.records.at[(i / 200 + 1) * 200].due_us);
    assert_int_equal(atomic_load(&server.seen->accepted[HERD_SERVER_HTTP]), 200 + 1); /* and the probe */
}

TEST(connections_that_time_out_before_the_barrier_are_made_again)
{
    enum { COUNT = 50, TIMES = 5 }; /* more than a connection is tried that does not last */
    burst_of(COUNT, "/ok");
    work.target_count = 0;
    add_target(server.ports[HERD_SERVER_IMPATIENT]);
    atomic_store(&server.seen->closing, 1 + TIMES * COUNT); /* the probe is one of them */
    assert_true(herd_start(&work, &herd, run.why));
    wait_until_connected();
    for (uint64_t end_us = clock_after_ms(RUN_LIMIT_MS);
         atomic_load(&server.seen->accepted[HERD_SERVER_IMPATIENT]) < 1 + (TIMES + 1) * COUNT ||
         run.progress.open_connections < COUNT;) {
        assert_true(clock_us() < end_us);
        clock_pause_ms(1);
        herd_watch(herd, &run.progress);
    }
    assert_true(herd_release(herd, &run.begin_us, run.why));
    run_watch();
    run_end();
    assert_int_equal(count_outcome(RECORD_ANSWERED), COUNT);
}

/* ---- catalogd ---- */

static void start_catalogd(struct stack_catalogd *catalogd, const char *max_connections)
{
    const char *const settings[] = {"REDIS_URL=redis://127.0.0.1:1",
                                    "DATABASE_URL=postgresql://127.0.0.1:1/none", max_connections,
                                    "MAX_WAITERS=100", NULL};
    assert_true(stack_catalogd_start(catalogd, settings));
}

TEST(twenty_thousand_connections_ask_two_services_at_one_instant)
{
    struct stack_catalogd one, two;
    if (!net_raise_file_limit(CROWD / 2 + 2000))
        test_skip("too few open files are allowed here for its connections");
    /* so many that none has to make way for another: close to the limit, who asks for nothing does */
    start_catalogd(&one, "MAX_CONNECTIONS=12000");
    start_catalogd(&two, "MAX_CONNECTIONS=12000");
    burst_of(CROWD, "/ping");
    work.target_count = 0;
    add_target(one.port);
    add_target(two.port);
    work.source_count = 4;
    uint64_t in_time_us = clock_after_ms(SILENCE_MS);
    work.connect_limit_ms = RUN_LIMIT_MS;
    run_all();
    /* the service closes connections that have asked for nothing for so long: of a slow machine, some of these, of
     * which some were just being made again */
    size_t closed_count =
        clock_us() < in_time_us ? 0 : count_outcome(RECORD_RESET) + count_outcome(RECORD_UNCONNECTED);
    assert_int_equal(run.records.count, CROWD);
    assert_int_equal(count_outcome(RECORD_ANSWERED) + closed_count, CROWD);
    for (size_t i = 0; i < run.records.count; i++) {
        const struct record *record = &run.records.at[i];
        assert_true(record->due_us == run.begin_us);
        assert_true(record->outcome != RECORD_ANSWERED || record->status == 200);
    }
    assert_true(stack_catalogd_stop(&one));
    assert_true(stack_catalogd_stop(&two));
}

/* Stops the service for STALL_MS; between the two instants it answers nothing. */
static void stall(struct stack_catalogd *catalogd, uint64_t *stop_us, uint64_t *go_us)
{
    proc_pause(catalogd->pid);
    *stop_us = clock_us();
    clock_pause_ms(STALL_MS);
    *go_us = clock_us();
    proc_resume(catalogd->pid);
}

TEST(whoever_was_due_while_the_server_stood_still_is_charged_for_it)
{
    enum { DURATION_MS = 4000 };
    struct stack_catalogd catalogd;
    uint64_t stop_us, go_us;
    uint32_t due_count = 0, kept_waiting = 0;
    start_catalogd(&catalogd, "MAX_CONNECTIONS=200");
    /* long enough to be stopped in its middle, whenever we come to that */
    rate_of(1000, DURATION_MS, "/ping");
    work.target_count = 0;
    add_target(catalogd.port);
    work.connection_count = 4; /* a closed loop would send four requests and measure four times the stall */
    run_begin();
    wait_until_sent(200);
    stall(&catalogd, &stop_us, &go_us);
    run_watch();
    run_end();
    assert_true(run.good);
    assert_int_equal(run.records.count, DURATION_MS);
    for (size_t i = 0; i < run.records.count; i++) {
        const struct record *record = &run.records.at[i];
        assert_int_equal(record->outcome, RECORD_ANSWERED);
        if (record->due_us < stop_us || record->due_us >= go_us)
            continue;
        due_count++;
        assert_true(record->due_us + record->end_us >= go_us);
        kept_waiting += record->due_us + record->sent_us >= go_us;
    }
    assert_true(due_count >= STALL_MS - 2); /* one each millisecond, whatever the server did */
    assert_true(kept_waiting >= due_count - 4);
    assert_true(run.strain.waited_count >= kept_waiting);
    assert_non_null(strstr(run.strain.verdict, "The generator did NOT keep up"));
    assert_non_null(strstr(run.strain.verdict, "found all 4 connections taken"));
    assert_true(run.strain.is_bottleneck && run.strain.late_count >= kept_waiting);
    assert_true(stack_catalogd_stop(&catalogd));
}

/* ---- rates ---- */

TEST(requests_are_due_at_even_distances_from_the_barrier_on)
{
    rate_of(700, 500, "/ok");
    run_all();
    assert_int_equal(run.records.count, 350);
    assert_int_equal(count_outcome(RECORD_ANSWERED), 350);
    for (uint64_t i = 0; i < run.records.count; i++) {
        const struct record *record = &run.records.at[i];
        assert_true(record->due_us == run.begin_us + i * 1000000 / 700);
        assert_true(record->sent_us > 0 && record->sent_us <= record->end_us);
        assert_int_equal(record->generator, i % 2);
    }
    assert_true(run.strain.late_max_us >= run.strain.late_p99_us && run.strain.late_max_us > 0);
    assert_true(run.strain.busiest > 0);
}

TEST(a_rate_opens_connections_only_as_they_are_needed)
{
    rate_of(200, 500, "/ok");
    run_all();
    assert_int_equal(count_outcome(RECORD_ANSWERED), 100);
    assert_in_range(atomic_load(&server.seen->accepted[HERD_SERVER_HTTP]), 2 + 1, 50 + 1);
    rate_of(200, 500, "/ok");
    work.connection_count = work.generator_count = 1;
    run_all();
    assert_int_equal(count_outcome(RECORD_ANSWERED), 100);
    assert_int_equal(atomic_load(&server.seen->accepted[HERD_SERVER_HTTP]), 1 + 1);
}

TEST(who_cannot_leave_within_the_limit_is_unsent)
{
    rate_of(1000000, 1, "/hang"); /* all at once, and there is one connection */
    work.connection_count = work.generator_count = 1;
    work.request_limit_ms = 300;
    run_all();
    assert_int_equal(run.records.count, 1000);
    assert_int_equal(run.records.at[0].outcome, RECORD_TIMEOUT);
    assert_true(count_outcome(RECORD_UNSENT) >= 1);
    assert_int_equal(count_outcome(RECORD_TIMEOUT) + count_outcome(RECORD_UNSENT), 1000);
    for (size_t i = 0; i < 1000; i++) {
        const struct record *record = &run.records.at[i];
        assert_in_range(record->end_us, 300000, RUN_LIMIT_MS * 1000 / 2); /* not one limit after the other */
        assert_int_equal(record->sent_us == 0, record->outcome == RECORD_UNSENT);
    }
    assert_int_equal(run.progress.failed, 1000);
}

/* ---- what is sent and what is recorded ---- */

TEST(a_request_says_what_it_was_told_to)
{
    char expected[256];
    burst_of(1, "/key/{12-12}?x=1");
    work.headers = "X-One: 1\r\nX-Two: 2\r\n";
    run_all();
    snprintf(expected, sizeof expected,
             "GET /key/12?x=1 HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nX-One: 1\r\nX-Two: 2\r\n\r\n",
             (unsigned)server.ports[HERD_SERVER_HTTP]);
    assert_string_equal(server.seen->last_request, expected);
    work.headers = "host: example.org\r\n";
    work.method = "POST";
    work.keeps_alive = false;
    run_all();
    assert_string_equal(server.seen->last_request, "POST /key/12?x=1 HTTP/1.1\r\nConnection: close\r\n"
                                                   "Content-Length: 0\r\nhost: example.org\r\n\r\n");
}

struct expected_outcome {
    const char *path;
    enum record_outcome outcome;
    uint16_t status;
    uint32_t body_bytes;
    const char *shown; /* in a sample */
};

static const struct expected_outcome expected_outcomes[] = {
    {"/ok", RECORD_ANSWERED, 200, 2, ""},
    {"/close", RECORD_ANSWERED, 200, 2, ""},
    {"/chunked", RECORD_ANSWERED, 200, 5, ""},
    {"/until-close", RECORD_ANSWERED, 200, 15, ""},
    {"/status/503", RECORD_ANSWERED, 503, 4, "told"},
    {"/status/404", RECORD_ANSWERED, 404, 4, "told"},
    {"/status/600", RECORD_RUBBISH, 0, 0, "HTTP/1.1 600 Told\r\nContent-Length: 4\r\n\r\n"},
    {"/garbage", RECORD_RUBBISH, 0, 0, "garbage"},
    {"/reset", RECORD_RESET, 0, 0, ""},
    {"/half", RECORD_RESET, 0, 0, ""},
    {"/hang", RECORD_TIMEOUT, 0, 0, ""},
};

/* Each of the two generators keeps three of what went wrong. */
static void assert_samples(const struct expected_outcome *expected)
{
    bool is_bad = expected->outcome != RECORD_ANSWERED || expected->status >= 400;
    assert_int_equal(run.records.sample_count, is_bad ? 2 * RECORD_SAMPLES_EACH : 0);
    for (size_t i = 0; i < run.records.sample_count; i++) {
        const struct record_sample *sample = &run.records.samples[i];
        assert_int_equal(sample->record.outcome, expected->outcome);
        assert_int_equal(sample->record.status, expected->status);
        assert_int_equal(sample->record.due_us, run.begin_us);
        assert_int_equal(sample->text_bytes, strlen(expected->shown));
        assert_memory_equal(sample->text, expected->shown, sample->text_bytes);
    }
}

TEST(everything_that_can_become_of_a_request_has_its_outcome)
{
    for (size_t i = 0; i < sizeof expected_outcomes / sizeof *expected_outcomes; i++) {
        const struct expected_outcome *expected = &expected_outcomes[i];
        burst_of(10, expected->path);
        work.request_limit_ms = expected->outcome == RECORD_TIMEOUT ? 100 : RUN_LIMIT_MS;
        run_all();
        for (size_t j = 0; j < 10; j++) {
            const struct record *record = &run.records.at[j];
            if (record->outcome != expected->outcome)
                fail_msg("%s: %s", expected->path, record_outcome_name((enum record_outcome)record->outcome));
            assert_int_equal(record->status, expected->status);
            assert_int_equal(record->body_bytes, expected->body_bytes);
            assert_true(record->end_us >= record->sent_us);
        }
        assert_int_equal(run.progress.errors_5xx, expected->status == 503 ? 10 : 0);
        assert_int_equal(run.progress.failed, expected->outcome == RECORD_ANSWERED ? 0 : 10);
        assert_samples(expected);
    }
}

TEST(as_many_hang_up_as_were_told_to)
{
    burst_of(200, "/hang");
    work.leave_percent = 30;
    work.leave_ms = 50;
    work.request_limit_ms = 3000; /* not before they leave, whatever holds them up */
    run_all();
    assert_int_equal(count_outcome(RECORD_LEFT), 60);
    assert_int_equal(count_outcome(RECORD_TIMEOUT), 140);
    assert_int_equal(run.progress.failed, 140);
    for (size_t i = 0; i < run.records.count; i++) {
        const struct record *record = &run.records.at[i];
        if (record->outcome == RECORD_LEFT)
            assert_true(record->end_us >= record->sent_us + 50000);
    }
}

TEST_GROUP(.up = start_server, .down = stop_server, .after = clear_run);
