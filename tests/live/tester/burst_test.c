/* SPDX-License-Identifier: MIT */
/* burst_test.c - the burst client, and the one of a single request, against a server that answers by path. */
#include "load/base/http.h"
#include "load/base/net.h"
#include "load/herd/burst.h"
#include "tests/support/herd_server.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

enum { LIMIT_MS = 20000, BURST_SIZE = 1000 };

static struct herd_server server;

static bool server_start(void)
{
    return herd_server_start(&server);
}

static bool server_stop(void)
{
    herd_server_stop(&server);
    return true;
}

static void gather(unsigned target)
{
    atomic_store(&server.seen->gather_target, target);
}

static struct burst_target target;

static struct burst_options options_for(const char *path, uint32_t count)
{
    target = (struct burst_target){.host = "127.0.0.1", .port = server.ports[HERD_SERVER_HTTP]};
    return (struct burst_options){.targets = &target,
                                  .target_count = 1,
                                  .connection_count = count,
                                  .connect_limit_ms = LIMIT_MS,
                                  .request_limit_ms = LIMIT_MS,
                                  .path = path};
}

static struct burst_summary run_once(const struct burst_options *options)
{
    struct burst *burst = NULL;
    struct burst_summary summary;
    assert_true(burst_open(options, &burst));
    assert_true(burst_run(burst));
    burst_summarise(burst, &summary);
    burst_close(&burst);
    assert_null(burst);
    return summary;
}

/* ---- the barrier ---- */

TEST(all_requests_are_under_way_before_one_is_answered)
{
    struct burst_options options = options_for("/gather", BURST_SIZE);
    gather(BURST_SIZE);
    struct burst_summary summary = run_once(&options);
    assert_int_equal(summary.statuses[200], BURST_SIZE);
    assert_int_equal(summary.outcomes[RECORD_ANSWERED], BURST_SIZE);
    assert_int_equal(summary.bodies, 1);
    assert_true(summary.p50_us > 0 && summary.p50_us <= summary.p99_us && summary.p99_us <= summary.max_us);
}

/* ---- events ---- */

static void open_the_gate(void *context)
{
    *(int *)context += 1;
    gather(11); /* the ten that wait, and this one */
    struct http_answer answer;
    http_ask(&(struct http_request){.host = "127.0.0.1",
                                    .port = server.ports[HERD_SERVER_HTTP],
                                    .path = "/gather",
                                    .deadline_ms = 9000},
             &answer);
    http_answer_clear(&answer);
}

static void count_only(void *context)
{
    *(int *)context += 1;
}

TEST(events_run_in_their_order_while_requests_wait)
{
    int count = 0;
    const struct burst_event events[] = {
        {0, count_only, &count}, {30, open_the_gate, &count}, {60, count_only, &count}};
    struct burst_options options = options_for("/gather", 10);
    options.events = events;
    options.event_count = 3;
    gather(1000000);
    struct burst_summary summary = run_once(&options);
    assert_int_equal(summary.statuses[200], 10);
    assert_true(summary.p50_us >= 29000);
    assert_int_equal(count, 3);
}

/* ---- one at a time ---- */

TEST(a_single_request_has_its_outcome_too)
{
    static const struct {
        const char *path;
        enum http_outcome outcome;
    } cases[] = {{"/bytes/70000", HTTP_ANSWERED},
                 {"/hang", HTTP_TIMEOUT},
                 {"/reset", HTTP_RESET},
                 {"/switching", HTTP_BAD},
                 {"/half", HTTP_RESET}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_answer answer;
        struct http_request request = {.host = "127.0.0.1",
                                       .port = server.ports[HERD_SERVER_HTTP],
                                       .path = cases[i].path,
                                       .deadline_ms = cases[i].outcome == HTTP_TIMEOUT ? 300 : LIMIT_MS};
        assert_int_equal(http_ask(&request, &answer), cases[i].outcome == HTTP_ANSWERED);
        assert_int_equal(answer.outcome, cases[i].outcome);
        if (answer.outcome == HTTP_ANSWERED)
            assert_int_equal(strlen(answer.body), 70000);
        http_answer_clear(&answer);
    }
}

TEST_GROUP(.up = server_start, .down = server_stop);
