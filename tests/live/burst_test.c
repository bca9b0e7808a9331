/* SPDX-License-Identifier: MIT */
/*
 * burst_test.c - the burst client against a server of our own that answers by path:
 *
 *     /bytes/N    200 with N times 'x'                /hang     never
 *     /gather     200, but to nobody before all       /reset    closes without an answer
 *                 expected requests have arrived      /garbage  no HTTP
 *     /close      200, then closes the connection     /half     half of a body, then closes
 */
#include "load/base/burst.h"
#include "load/base/http.h"
#include "load/base/net.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FILES_MAX = 65536, REQUEST_MAX_BYTES = 4096, LIMIT_MS = 20000, BURST_SIZE = 1000, LARGE_BURST = 9000 };

/* One thread; a connection is its descriptor. */
static struct server {
    int listener, epoll;
    uint16_t port;
    pthread_t thread;
    char *requests[FILES_MAX]; /* what has arrived of a request, by descriptor */
    int gathered[FILES_MAX];   /* descriptors that wait in /gather */
    size_t gathered_count;
    atomic_size_t gather_target; /* set before the requests are sent */
    atomic_size_t accepted_count;
    atomic_size_t closed_count;
} server;

static void server_close(int fd)
{
    free(server.requests[fd]);
    server.requests[fd] = NULL;
    close(fd);
    atomic_fetch_add(&server.closed_count, 1);
}

static void say(int fd, const char *text, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(fd, text, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        text += sent;
        count -= (size_t)sent;
    }
}

static void say_200(int fd, size_t body_bytes, const char *header)
{
    char *text = malloc(body_bytes + 256);
    int head = snprintf(text, 256, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n%s\r\n", body_bytes, header);
    memset(text + head, 'x', body_bytes);
    say(fd, text, (size_t)head + body_bytes);
    free(text);
}

static void gather(int fd)
{
    server.gathered[server.gathered_count++] = fd;
    if (server.gathered_count < atomic_load(&server.gather_target))
        return;
    for (size_t i = 0; i < server.gathered_count; i++)
        say_200(server.gathered[i], 3, "Cache-Status: test; hit\r\n");
    server.gathered_count = 0;
}

static void server_answer(int fd, const char *path)
{
    static const char half[] = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nxxxxx";
    if (strncmp(path, "/bytes/", 7) == 0)
        say_200(fd, strtoul(path + 7, NULL, 10), "");
    else if (strncmp(path, "/gather", 7) == 0)
        gather(fd);
    else if (strncmp(path, "/close", 6) == 0)
        say_200(fd, 2, "Connection: close\r\n"), server_close(fd);
    else if (strncmp(path, "/garbage", 8) == 0)
        say(fd, "garbage\r\n\r\n", 11);
    else if (strncmp(path, "/half", 5) == 0)
        say(fd, half, sizeof half - 1), server_close(fd);
    else if (strncmp(path, "/reset", 6) == 0)
        server_close(fd);
}

static void server_read(int fd)
{
    char *request = server.requests[fd];
    size_t have = strlen(request);
    ssize_t count = recv(fd, request + have, REQUEST_MAX_BYTES - have - 1, MSG_DONTWAIT);
    if (count <= 0) {
        server_close(fd);
        return;
    }
    request[have + (size_t)count] = '\0';
    if (strstr(request, "\r\n\r\n") == NULL)
        return;
    char path[64] = "";
    sscanf(request, "%*s %63s", path);
    request[0] = '\0';
    server_answer(fd, path);
}

static void server_accept(void)
{
    int fd = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd == -1)
        return;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    server.requests[fd] = calloc(1, REQUEST_MAX_BYTES);
    atomic_fetch_add(&server.accepted_count, 1);
    epoll_ctl(server.epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Ends when the listener is shut down. */
static void *server_run(void *unused)
{
    struct epoll_event event;
    for (;;) {
        if (epoll_wait(server.epoll, &event, 1, -1) != 1)
            continue;
        if (event.data.fd != server.listener)
            server_read(event.data.fd);
        else if ((event.events & EPOLLHUP) != 0)
            return unused;
        else
            server_accept();
    }
}

static int server_start(void **state)
{
    (void)state;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof any;
    if (!net_raise_file_limit(2 * LARGE_BURST + 256))
        return -1;
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    server.epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = server.listener};
    if (bind(server.listener, (struct sockaddr *)&any, sizeof any) == -1 ||
        listen(server.listener, 4096) == -1 ||
        getsockname(server.listener, (struct sockaddr *)&any, &bytes) == -1 ||
        epoll_ctl(server.epoll, EPOLL_CTL_ADD, server.listener, &event) == -1)
        return -1;
    server.port = ntohs(any.sin_port);
    return pthread_create(&server.thread, NULL, server_run, NULL);
}

static int server_stop(void **state)
{
    (void)state;
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    for (int fd = 0; fd < FILES_MAX; fd++) {
        if (server.requests[fd] != NULL)
            server_close(fd);
    }
    close(server.listener);
    close(server.epoll);
    return 0;
}

static struct burst_target target;

static struct burst_options options_for(const char *path, uint32_t count)
{
    target = (struct burst_target){.host = "127.0.0.1", .port = server.port};
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
    atomic_store(&server.gather_target, BURST_SIZE);
    struct burst_summary summary = run_once(&options);
    assert_int_equal(summary.statuses[200], BURST_SIZE);
    assert_int_equal(summary.outcomes[BURST_ANSWERED], BURST_SIZE);
    assert_int_equal(summary.bodies, 1);
    assert_true(summary.p50_us > 0 && summary.p50_us <= summary.p99_us && summary.p99_us <= summary.max_us);
}

TEST(thousands_of_connections_come_from_several_addresses)
{
    struct burst_options options = options_for("/gather", LARGE_BURST);
    atomic_store(&server.gather_target, LARGE_BURST);
    assert_int_equal(run_once(&options).statuses[200], LARGE_BURST);
}

TEST(connections_are_kept_for_another_round)
{
    struct burst *burst = NULL;
    struct burst_summary summary;
    struct burst_options options = options_for("/bytes/10", 50);
    size_t before = atomic_load(&server.accepted_count);
    assert_true(burst_open(&options, &burst));
    for (int round = 0; round < 5; round++) {
        assert_true(burst_run(burst));
        burst_summarise(burst, &summary);
        assert_int_equal(summary.statuses[200], 50);
    }
    burst_close(&burst);
    assert_int_equal(atomic_load(&server.accepted_count) - before, 50);
}

TEST(closed_connections_are_made_again)
{
    struct burst *burst = NULL;
    struct burst_summary summary;
    struct burst_options options = options_for("/close", 50);
    size_t before = atomic_load(&server.accepted_count);
    assert_true(burst_open(&options, &burst));
    for (int round = 0; round < 3; round++) {
        assert_true(burst_run(burst));
        burst_summarise(burst, &summary);
        assert_int_equal(summary.statuses[200], 50);
    }
    burst_close(&burst);
    assert_int_equal(atomic_load(&server.accepted_count) - before, 150);
}

/* ---- what is recorded ---- */

static void path_by_connection(void *context, uint32_t index, char *path)
{
    (void)context;
    snprintf(path, BURST_PATH_BYTES, "/bytes/%u", index);
}

TEST(every_connection_may_ask_for_another_path)
{
    struct burst *burst = NULL;
    struct burst_summary summary;
    struct burst_options options = options_for(NULL, 400);
    options.path_of = path_by_connection;
    options.keeps_bodies = true;
    assert_true(burst_open(&options, &burst));
    assert_true(burst_run(burst));
    const struct burst_answer *answers = burst_answers(burst);
    for (uint32_t i = 0; i < 400; i++) {
        assert_int_equal(answers[i].body_bytes, i);
        assert_int_equal(strlen(answers[i].body), i);
        assert_int_equal(strspn(answers[i].body, "x"), i);
        assert_true(answers[i].sent_us <= answers[i].first_us && answers[i].first_us <= answers[i].end_us);
    }
    burst_summarise(burst, &summary);
    assert_int_equal(summary.bodies, 400);
    burst_close(&burst);
}

TEST(a_body_of_megabytes_arrives_whole)
{
    struct burst *burst = NULL;
    struct burst_options options = options_for("/bytes/3000000", 4);
    options.keeps_bodies = true;
    assert_true(burst_open(&options, &burst));
    assert_true(burst_run(burst));
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(burst_answers(burst)[i].body_bytes, 3000000);
        assert_int_equal(strlen(burst_answers(burst)[i].body), 3000000);
    }
    burst_close(&burst);
}

TEST(headers_are_read_from_the_answer)
{
    char value[32];
    struct burst *burst = NULL;
    struct burst_options options = options_for("/gather", 1);
    atomic_store(&server.gather_target, 1);
    assert_true(burst_open(&options, &burst));
    assert_true(burst_run(burst));
    assert_string_equal(burst_header(burst_answers(burst), "cache-status", value, sizeof value), "test; hit");
    assert_string_equal(burst_header(burst_answers(burst), "Age", value, sizeof value), "");
    burst_close(&burst);
}

/* ---- what goes wrong ---- */

struct failure {
    const char *path;
    enum burst_outcome outcome;
};

TEST(every_failure_has_its_outcome)
{
    static const struct failure failures[] = {
        {"/hang", BURST_TIMEOUT}, {"/reset", BURST_RESET}, {"/garbage", BURST_BAD}, {"/half", BURST_RESET}};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct burst_options options = options_for(failures[i].path, 20);
        options.request_limit_ms = failures[i].outcome == BURST_TIMEOUT ? 100 : LIMIT_MS;
        struct burst_summary summary = run_once(&options);
        assert_int_equal(summary.outcomes[failures[i].outcome], 20);
        assert_int_equal(summary.statuses[200], 0);
        assert_int_equal(summary.max_us, 0);
    }
}

TEST(nobody_listening_is_refused_when_opening)
{
    struct burst *burst = NULL;
    struct burst_options options = options_for("/", 5);
    target.port = net_free_port();
    assert_false(burst_open(&options, &burst));
    assert_null(burst);
}

TEST(absurd_options_are_refused)
{
    struct burst *burst = NULL;
    struct burst_options none = options_for("/", 0), many = options_for("/", 20001),
                         pathless = options_for(NULL, 1);
    assert_false(burst_open(&none, &burst));
    assert_false(burst_open(&many, &burst));
    assert_false(burst_open(&pathless, &burst));
    assert_null(burst);
}

static void path_of_the_patient(void *context, uint32_t index, char *path)
{
    (void)context;
    snprintf(path, BURST_PATH_BYTES, index < 30 ? "/hang" : "/bytes/5");
}

TEST(the_first_ones_hang_up_and_the_rest_is_served)
{
    struct burst_options options = options_for(NULL, 100);
    options.path_of = path_of_the_patient;
    options.leave_count = 30;
    options.leave_ms = 50;
    struct burst_summary summary = run_once(&options);
    assert_int_equal(summary.outcomes[BURST_LEFT], 30);
    assert_int_equal(summary.statuses[200], 70);
}

/* ---- events ---- */

static void open_the_gate(void *context)
{
    *(int *)context += 1;
    atomic_store(&server.gather_target, 11); /* the ten that wait, and this one */
    struct http_answer answer;
    http_ask(
        &(struct http_request){
            .host = "127.0.0.1", .port = server.port, .path = "/gather", .deadline_ms = 9000},
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
    atomic_store(&server.gather_target, 1000000);
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
                 {"/garbage", HTTP_BAD},
                 {"/half", HTTP_RESET}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_answer answer;
        struct http_request request = {.host = "127.0.0.1",
                                       .port = server.port,
                                       .path = cases[i].path,
                                       .deadline_ms = cases[i].outcome == HTTP_TIMEOUT ? 300 : LIMIT_MS};
        assert_int_equal(http_ask(&request, &answer), cases[i].outcome == HTTP_ANSWERED);
        assert_int_equal(answer.outcome, cases[i].outcome);
        if (answer.outcome == HTTP_ANSWERED)
            assert_int_equal(strlen(answer.body), 70000);
        http_answer_clear(&answer);
    }
}

TEST(raw_bytes_bring_back_what_the_server_said)
{
    struct http_raw raw;
    const char *request = "GET /garbage HTTP/1.1\r\n\r\n", *reset = "GET /reset HTTP/1.1\r\n\r\n";
    http_raw_ask("127.0.0.1", server.port, request, strlen(request), 3000, &raw);
    assert_true(raw.connected);
    assert_false(raw.closed);
    assert_string_equal(raw.bytes, "garbage\r\n\r\n");
    http_raw_clear(&raw);
    http_raw_ask("127.0.0.1", server.port, reset, strlen(reset), 9000, &raw);
    assert_true(raw.closed);
    assert_int_equal(raw.count, 0);
    http_raw_clear(&raw);
    http_raw_ask("127.0.0.1", net_free_port(), reset, strlen(reset), 9000, &raw);
    assert_false(raw.connected);
    http_raw_clear(&raw);
}

TEST(percentiles_are_the_nearest_rank)
{
    uint64_t values[1000];
    for (uint64_t i = 0; i < 1000; i++)
        values[i] = i + 1;
    assert_int_equal(burst_percentile(values, 1000, 50), 500);
    assert_int_equal(burst_percentile(values, 1000, 99), 990);
    assert_int_equal(burst_percentile(values, 1000, 99.9), 999);
    assert_int_equal(burst_percentile(values, 1000, 99.91), 1000);
    assert_int_equal(burst_percentile(values, 1000, 0.0001), 1);
    assert_int_equal(burst_percentile(values, 1000, 99.95), 1000);
    assert_int_equal(burst_percentile(values, 1000, 100), 1000);
    assert_int_equal(burst_percentile(values, 3, 50), 2);
    assert_int_equal(burst_percentile(values, 1, 1), 1);
    assert_int_equal(burst_percentile(values, 0, 50), 0);
}

TEST_GROUP(.up = server_start, .down = server_stop);
