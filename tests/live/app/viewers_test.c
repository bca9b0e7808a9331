/* SPDX-License-Identifier: MIT */
/*
 * viewers_test.c - GET / and GET /live of the operations listener: who may, what comes, how many at a time, and when
 * it ends.
 */
#include "ops_rig.h"

#include "app/view/stream.h"
#include "load/base/clock.h"
#include "tests/support/drips.h"
#include "tests/support/files.h"
#include "tests/support/sockets.h"

#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEARD_BYTES = 1 << 16, LONG_MS = 60000 };

#define TOKEN "0123456789abcdef"
static char token_path[] = "/tmp/viewers_test.XXXXXX";
static struct service service;

static bool up(void)
{
    file_make(token_path, TOKEN "\n");
    return true;
}

static bool down(void)
{
    return unlink(token_path) == 0;
}

static bool open_without_token(void)
{
    service_open(&service, NULL, NULL);
    return true;
}

static bool close_it(void)
{
    service_close(&service);
    return true;
}

/* ---- asking ---- */

static struct http_answer ask(const char *method, const char *path, const char *headers)
{
    struct http_answer answer;
    const struct http_request request = {.host = service.host,
                                         .port = service.ops_port,
                                         .method = method,
                                         .path = path,
                                         .headers = headers,
                                         .deadline_ms = LIMIT_MS};

    assert_true(http_ask(&request, &answer));
    return answer;
}

static unsigned status_of(const char *method, const char *path, const char *headers)
{
    struct http_answer answer = ask(method, path, headers);
    const unsigned status = answer.status;

    http_answer_clear(&answer);
    return status;
}

/* ---- viewers ---- */

/* A connection that has asked for /live; lines are chunks of it. */
struct viewer {
    int fd;
    char heard[HEARD_BYTES];
    size_t bytes, at; /* heard; read of it */
};

static bool hear(struct viewer *viewer)
{
    if (viewer->at > 0) {
        memmove(viewer->heard, viewer->heard + viewer->at, viewer->bytes - viewer->at);
        viewer->bytes -= viewer->at;
        viewer->at = 0;
    }
    if (!net_wait(viewer->fd, POLLIN, clock_after_ms(LIMIT_MS)))
        fail_msg("a viewer heard nothing for too long");
    const ssize_t count =
        recv(viewer->fd, viewer->heard + viewer->bytes, HEARD_BYTES - 1 - viewer->bytes, MSG_DONTWAIT);
    viewer->bytes += count > 0 ? (size_t)count : 0;
    viewer->heard[viewer->bytes] = '\0';
    return count > 0;
}

/* The next line without its end, lent; NULL: the connection has ended. */
static char *next_line(struct viewer *viewer)
{
    char *end;

    while ((end = memchr(viewer->heard + viewer->at, '\n', viewer->bytes - viewer->at)) == NULL) {
        if (!hear(viewer))
            return NULL;
    }
    char *line = viewer->heard + viewer->at;
    *end = '\0';
    viewer->at = (size_t)(end + 1 - viewer->heard);
    return line;
}

/* The next sample, yours; NULL: the stream has ended. */
static json_t *next_sample(struct viewer *viewer)
{
    const char *line;

    do
        line = next_line(viewer);
    while (line != NULL && line[0] != '{');
    if (line == NULL)
        return NULL;
    json_t *sample = json_loads(line, 0, NULL);
    assert_non_null(sample);
    return sample;
}

/* Asks, and reads the status line. `receive_bytes`: of its socket; 0: as many as usual. */
static unsigned viewer_open(struct viewer *viewer, unsigned every_ms, int receive_bytes)
{
    char request[128];
    snprintf(request, sizeof request, "GET /live?every_ms=%u HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", every_ms);

    viewer->bytes = viewer->at = 0;
    viewer->fd = socket_connect(service.ops_port, receive_bytes);
    socket_say(viewer->fd, request);
    const char *line = next_line(viewer);
    assert_non_null(line);
    return (unsigned)strtoul(line + strlen("HTTP/1.1 "), NULL, 10);
}

static void viewer_close(struct viewer *viewer)
{
    close(viewer->fd);
}

static struct viewer viewers[STREAM_VIEWERS], fifth;

static void open_all(unsigned every_ms)
{
    for (size_t i = 0; i < STREAM_VIEWERS; i++)
        assert_int_equal(viewer_open(&viewers[i], every_ms, 0), 200);
}

static void close_all(void)
{
    for (size_t i = 0; i < STREAM_VIEWERS; i++)
        viewer_close(&viewers[i]);
}

/* One more viewer gets this status. */
static bool fifth_gets(unsigned status)
{
    const unsigned got = viewer_open(&fifth, LONG_MS, 0);

    viewer_close(&fifth);
    return got == status;
}

static long long number_of(const json_t *sample, const char *name)
{
    return json_integer_value(json_object_get(sample, name));
}

/* ---- tests ---- */

/* Each at its time: one that was late is not followed by a crowd. */
TEST(a_line_comes_at_once_and_others_follow, P173)
{
    enum { LINES = 8 };
    struct viewer *viewer = &viewers[0];

    assert_int_equal(viewer_open(viewer, 100, 0), 200);
    json_t *first = next_sample(viewer), *last = NULL;
    for (unsigned i = 0; i < LINES; i++) {
        json_decref(last);
        last = next_sample(viewer);
        assert_non_null(last);
        assert_null(json_object_get(last, "about"));
    }
    const json_t *about = json_object_get(first, "about");
    assert_int_equal(number_of(about, "pid"), getpid());
    assert_int_equal(number_of(about, "every_ms"), 100);
    assert_string_equal(json_string_value(json_object_get(about, "address")), server_address(service.server));
    assert_string_equal(json_string_value(json_object_get(json_object_get(first, "redis"), "state")), "down");
    assert_in_range(number_of(last, "up_ms") - number_of(first, "up_ms"), LINES * 100 / 4, LIMIT_MS);
    json_decref(first);
    json_decref(last);
    viewer_close(viewer);
}

TEST(a_fifth_viewer_is_told_and_gets_the_place_of_one_that_goes, P173)
{
    open_all(LONG_MS);
    struct http_answer answer = ask("GET", "/live", NULL);
    char after[16];
    assert_int_equal(answer.status, 503);
    assert_non_null(strstr(answer.body, "Four read /live already"));
    assert_string_equal(http_header(&answer, "Retry-After", after, sizeof after), "5");
    http_answer_clear(&answer);
    assert_int_equal(status_of("GET", "/healthz", NULL), 200);
    json_decref(next_sample(&viewers[2])); /* it has read everything: its end is no reset */
    viewer_close(&viewers[2]);
    WAIT_UNTIL(fifth_gets(200));
    WAIT_UNTIL(viewer_open(&viewers[2], LONG_MS, 0) == 200);
    close_all();
}

TEST(a_period_that_is_none_is_refused)
{
    static const char *const wrong[] = {
        "every_ms=99",    "every_ms=60001",        "every_ms=",        "every_ms=1e3",
        "every_ms=-1000", "every_ms=000000000100", "every_ms=100&x=1", "x=1"};
    char path[64];

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(path, sizeof path, "/live?%s", wrong[i]);
        if (status_of("GET", path, NULL) != 400)
            fail_msg("%s is taken", path);
    }
    assert_int_equal(status_of("POST", "/live", NULL), 405);
    assert_int_equal(status_of("POST", "/", NULL), 405);
}

/* A little now and then is not enough to keep a place. */
static bool fifth_gets_one_while_others_sip(void)
{
    char sip[16];

    for (size_t i = 0; i < STREAM_VIEWERS; i += 2)
        (void)!recv(viewers[i].fd, sip, sizeof sip, MSG_DONTWAIT);
    return fifth_gets(200);
}

TEST(one_that_does_not_read_makes_way, P173)
{
    for (size_t i = 0; i < STREAM_VIEWERS; i++)
        assert_int_equal(viewer_open(&viewers[i], STREAM_EVERY_MIN_MS, 2048), 200);
    assert_true(fifth_gets(503));
    WAIT_UNTIL(fifth_gets_one_while_others_sip());
    close_all();
}

TEST(of_those_that_stay_one_that_is_late_makes_way, P173)
{
    static struct places places;
    struct place *asking[STREAM_VIEWERS + 1];
    int pairs[STREAM_VIEWERS + 1][2];
    char byte;

    for (size_t i = 0; i <= STREAM_VIEWERS; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]), 0);
        asking[i] = places_take(&places, pairs[i][0]);
        assert_int_equal(places_stay(&places, asking[i], UINT64_MAX), i < STREAM_VIEWERS);
    }
    atomic_store(&asking[1]->yields_ms, 1);
    assert_true(places_stay(&places, asking[STREAM_VIEWERS], UINT64_MAX));
    for (size_t i = 0; i <= STREAM_VIEWERS; i++) {
        assert_int_equal(recv(pairs[i][1], &byte, 1, MSG_DONTWAIT), i == 1 ? 0 : -1);
        close(pairs[i][0]);
        close(pairs[i][1]);
    }
}

/* They are beside the places of those who ask in between, and stay while all of these are taken. */
TEST(viewers_stay_while_all_places_are_wanted, P173)
{
    static const char question[] = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    const struct drips_options options = {.host = service.host,
                                          .port = service.ops_port,
                                          .count = 3 * PLACES_MAX,
                                          .begun = question,
                                          .begun_bytes = sizeof question - 1,
                                          .drip = question};
    struct drips *drips = NULL;

    open_all(STREAM_EVERY_MIN_MS);
    assert_true(drips_open(&options, &drips));
    WAIT_UNTIL(drips_hung_up(drips) > options.count);
    drips_close(&drips);
    for (size_t i = 0; i < STREAM_VIEWERS; i++) {
        json_t *sample = NULL;

        for (unsigned lines = 0; lines < 10; lines++) {
            json_decref(sample);
            sample = next_sample(&viewers[i]);
            assert_non_null(sample);
        }
        json_decref(sample);
    }
    close_all();
}

TEST(a_drain_ends_the_streams_with_a_line_that_says_so, P173)
{
    open_all(LONG_MS);
    for (size_t i = 0; i < STREAM_VIEWERS; i++)
        json_decref(next_sample(&viewers[i]));
    const uint64_t drained_us = clock_us();
    ops_drain(service.ops);
    for (size_t i = 0; i < STREAM_VIEWERS; i++) {
        json_t *last = next_sample(&viewers[i]);

        assert_true(json_is_true(json_object_get(last, "draining")));
        json_decref(last);
        assert_null(next_sample(&viewers[i]));
    }
    assert_true(clock_us() - drained_us < (uint64_t)LONG_MS * 1000 / 2);
    assert_int_equal(status_of("GET", "/live", NULL), 503);
    assert_int_equal(status_of("GET", "/", NULL), 200);
    close_all();
}

/* Not even one that does not read. */
TEST(a_viewer_does_not_keep_the_listener_from_closing, P173)
{
    open_all(LONG_MS);
    const uint64_t closed_us = clock_us();
    service_close(&service);
    assert_true(clock_us() - closed_us < (uint64_t)LONG_MS * 1000 / 2);
    close_all();
    service_open(&service, NULL, NULL);
}

TEST(another_sites_page_reads_and_presses_nothing, P174)
{
    static const char *const named[] = {"shop.example", "shop.example:9090", "127.0.0.1.example", "[::g]",
                                        "1"};
    static const char *const ours[] = {"127.0.0.1", "localhost:9090", "LOCALHOST", "[::1]:9090",
                                       "10.0.0.7:80"};
    char question[256];

    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        for (size_t j = 0; j < 2; j++) {
            struct http_raw raw;
            const int bytes = snprintf(question, sizeof question,
                                       "GET /hot HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                                       j == 0 ? named[i] : ours[i]);

            http_raw_ask(service.host, service.ops_port, question, (size_t)bytes, LIMIT_MS, &raw);
            if (strncmp(raw.bytes + strlen("HTTP/1.1 "), j == 0 ? "403" : "200", 3) != 0)
                fail_msg("%s: %.20s", j == 0 ? named[i] : ours[i], raw.bytes);
            http_raw_clear(&raw);
        }
    }
    assert_int_equal(status_of("GET", "/live", "Sec-Fetch-Site: cross-site\r\n"), 403);
    assert_int_equal(status_of("POST", "/clear?namespace=default", "Sec-Fetch-Site: same-site\r\n"), 403);
    assert_int_equal(status_of("GET", "/", "Sec-Fetch-Site: cross-site\r\n"), 200);
    assert_int_equal(status_of("GET", "/hot", "Sec-Fetch-Site: same-origin\r\n"), 200);
}

TEST(the_page_says_what_it_may, P174)
{
    static const struct {
        const char *name, *value;
    } wanted[] = {{"X-Frame-Options", "DENY"},
                  {"X-Content-Type-Options", "nosniff"},
                  {"Cache-Control", "no-store"},
                  {"Access-Control-Allow-Origin", ""},
                  {"Content-Type", "text/html; charset=utf-8"}};
    struct http_answer answer = ask("GET", "/", NULL);
    char value[512];

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_string_equal(http_header(&answer, wanted[i].name, value, sizeof value), wanted[i].value);
    http_header(&answer, "Content-Security-Policy", value, sizeof value);
    assert_memory_equal(value, "default-src 'none'; style-src 'sha256-", 38);
    assert_non_null(strstr(value, "; frame-ancestors 'none'"));
    assert_null(strstr(value, "unsafe"));
    http_answer_clear(&answer);
}

TEST_GROUP(.before = open_without_token, .after = close_it);

static bool open_with_token(void)
{
    service_open(&service, NULL, token_path);
    return true;
}

TEST(the_page_needs_no_token_and_its_data_does, P174)
{
    assert_int_equal(status_of("GET", "/", NULL), 200);
    assert_int_equal(status_of("GET", "/live", NULL), 401);
    assert_int_equal(status_of("GET", "/live?token=" TOKEN, NULL), 401);
    assert_int_equal(status_of("GET", "/live", "Authorization: Bearer " TOKEN "f\r\n"), 401);
    assert_int_equal(status_of("HEAD", "/live", "Authorization: Bearer " TOKEN "\r\n"), 200);
}

TEST_GROUP(.up = up, .down = down, .before = open_with_token, .after = close_it);
