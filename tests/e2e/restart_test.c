/* SPDX-License-Identifier: MIT */
/*
 * restart_test.c - the service is stopped and started while clients ask, and none of them notices: no connection is
 * refused, none is reset, no request goes unanswered, and a cold product is still loaded once.
 *
 * The test stands in for systemd: it holds the listening socket that each process is given.
 */
#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/stack/proxy.h"
#include "tests/support/files.h"
#include "tests/support/fleet.h"
#include "tests/support/probe.h"
#include "tests/support/regulars.h"
#include "tests/support/sockets.h"
#include "tests/support/test.h"
#include "tests/support/writes.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { RESTARTS = 5, ANSWERS_BETWEEN = 400, BACKLOG = 4096 };

static int listening = -1;
static uint16_t listening_at;

/* A fifth of DRAIN_MS is what an idle connection is kept for: longer than a machine stands still. */
static const char *const settings[] = {"DRAIN_MS=28000", "LOAD_DELAY_MS=5", NULL};

static bool listen_for_it(void)
{
    listening = socket_listen(0, BACKLOG, &listening_at);
    fleet.given = &listening;
    fleet.given_count = 1;
    return true;
}

static bool end_with_socket(void)
{
    const bool good = fleet_end();
    close(listening);
    listening = -1;
    fleet.given = NULL;
    fleet.given_count = 0;
    return good;
}

static uint32_t fresh_products(void)
{
    enum { OF_A_TEST = 1200 };
    const uint32_t first = fleet.next_product;
    fleet.next_product += OF_A_TEST;
    return first;
}

static void expect_nobody_noticed(const struct regulars_score *score)
{
    print_message("%llu answers, %llu on kept connections, %llu the last of theirs, %u products\n",
                  (unsigned long long)score->answers, (unsigned long long)score->kept,
                  (unsigned long long)score->last, (unsigned)score->products);
    assert_int_equal(score->refused, 0);
    assert_int_equal(score->reset, 0);
    assert_int_equal(score->unanswered, 0);
    assert_int_equal(score->late, 0);
    assert_int_equal(score->others, 0);
    assert_true(score->kept > 0 && score->last > 0);
}

/* ---- a socket that is kept ---- */

TEST_WITH(five_restarts_under_load_are_not_noticed_by_any_client, listen_for_it, end_with_socket, P166)
{
    struct regulars_score score;
    assert_true(fleet_start(1, settings));
    assert_true(regulars_start(fleet.catalogd[0].port, fresh_products()));
    for (int i = 0; i < RESTARTS; i++) {
        regulars_wait_answers(ANSWERS_BETWEEN);
        assert_true(fleet_retire(0));
        assert_true(fleet_put(0, settings));
    }
    regulars_wait_answers(ANSWERS_BETWEEN);
    regulars_stop(&score);
    expect_nobody_noticed(&score);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), score.products);
}

TEST_WITH(five_successors_that_start_before_the_old_one_stops_are_not_noticed_either, listen_for_it,
          end_with_socket, P166)
{
    struct regulars_score score;
    assert_true(fleet_start(1, settings));
    assert_true(regulars_start(fleet.catalogd[0].port, fresh_products()));
    for (size_t i = 0; i < RESTARTS; i++) {
        regulars_wait_answers(ANSWERS_BETWEEN);
        assert_true(fleet_put((i + 1) % 2, settings));
        assert_true(fleet_wait_ready((i + 1) % 2));
        assert_true(fleet_retire(i % 2));
    }
    regulars_wait_answers(ANSWERS_BETWEEN);
    regulars_stop(&score);
    expect_nobody_noticed(&score);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), score.products);
}

/* ---- a Redis that takes its time to let a process in ---- */

enum { WARM = 300, SLOW_MS = 700 };
/* Without a connection a request gives up after twice this. */
#define IMPATIENT "REDIS_LIMIT_MS=250", "LEASE_MS=3000", "FRESH_MS=3600000"

struct slow_start {
    struct proxy *proxy;
    const char *const *settings;
    uint32_t first_product;
};

static void warm_path(void *context, uint32_t index, char *path)
{
    const struct slow_start *start = context;
    snprintf(path, BURST_PATH_BYTES, "/products/%u", (unsigned)(start->first_product + index));
}

static void *connect_slowly(void *context)
{
    struct proxy *proxy = context;
    if (proxy_wait_marked(proxy, 0, 1, FLEET_LIMIT_MS))
        clock_pause_ms(SLOW_MS); /* so slow is the connection */
    proxy_set(proxy, 0, PROXY_NONE, 0);
    return NULL;
}

/* All have asked: they wait in the listening socket. */
static void start_behind_the_proxy(void *context)
{
    const struct slow_start *start = context;
    pthread_t thread;
    proxy_mark(start->proxy, 0, "CLIENT", PROXY_FREEZE_REPLIES);
    assert_int_equal(pthread_create(&thread, NULL, connect_slowly, start->proxy), 0);
    assert_true(fleet_put(0, start->settings));
    pthread_join(thread, NULL);
}

static void ask_for_all(struct slow_start *start, const struct burst_event *event)
{
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct burst_options options = fleet_options(targets, NULL, WARM);
    struct burst *burst = NULL;
    struct burst_summary summary;
    targets[0] = (struct burst_target){.host = "127.0.0.1", .port = listening_at};
    options.target_count = 1;
    options.path_of = warm_path;
    options.path_context = start;
    options.events = event;
    options.event_count = event != NULL;
    assert_true(burst_open(&options, &burst) && burst_run(burst));
    burst_summarise(burst, &summary);
    burst_close(&burst);
    assert_int_equal(summary.statuses[200], WARM);
}

TEST_WITH(a_start_behind_a_slow_connection_loads_nothing_that_is_cached, listen_for_it, end_with_socket)
{
    char url[64];
    const char *const warm[] = {IMPATIENT, NULL}, *const slow[] = {IMPATIENT, url, NULL};
    struct slow_start start = {.settings = slow, .first_product = fresh_products()};
    const struct burst_event event = {.run = start_behind_the_proxy, .context = &start};
    assert_true(fleet_start(1, warm));
    ask_for_all(&start, NULL);
    assert_true(fleet_retire(0));
    assert_true(proxy_open_to(fleet.redis.port, &start.proxy));
    snprintf(url, sizeof url, "REDIS_URL=redis://127.0.0.1:%u/0", (unsigned)proxy_port(start.proxy, 0));
    fleet_mark();
    ask_for_all(&start, &event);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 0);
    assert_true(fleet_retire(0));
    proxy_close(&start.proxy);
}

/* ---- its own sockets ---- */

TEST(a_process_that_is_stopped_for_good_answers_what_was_asked_and_resets_nobody, P167)
{
    struct regulars_score score;
    assert_true(fleet_start(1, settings));
    assert_true(regulars_start(fleet.catalogd[0].port, fresh_products()));
    regulars_wait_answers(ANSWERS_BETWEEN);
    assert_true(fleet_retire(0));
    regulars_wait_refused(&score);
    assert_int_equal(score.reset, 0);
    assert_int_equal(score.unanswered, 0);
    assert_int_equal(score.late, 0);
    assert_int_equal(score.others, 0);
    assert_int_equal(score.refused, REGULARS);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), score.products);
}

static void expect_said(int fd, const char *request, const char *status, bool is_last)
{
    char answer[4096] = "";
    size_t count = 0;
    socket_say(fd, request);
    do {
        assert_true(net_wait(fd, POLLIN, clock_after_ms(FLEET_LIMIT_MS)));
        const ssize_t more = recv(fd, answer + count, sizeof answer - 1 - count, 0);
        assert_true(more > 0);
        count += (size_t)more;
        answer[count] = '\0';
    } while (strstr(answer, "\r\n\r\n") == NULL);
    assert_non_null(strstr(answer, status));
    assert_true((strstr(answer, "Connection: close") != NULL) == is_last);
}

static void expect_end(int fd)
{
    char rest[4096];
    ssize_t count = 1;
    while (count > 0 && net_wait(fd, POLLIN, clock_after_ms(FLEET_LIMIT_MS)))
        count = recv(fd, rest, sizeof rest, 0);
    assert_int_equal(count, 0); /* no reset */
    close(fd);
}

#define PING "GET /ping HTTP/1.1\r\nHost: c\r\n\r\n"
#define TREE "GET /catalog HTTP/1.1\r\nHost: c\r\n\r\n"
#define BUY                                                                                                  \
    "POST /products/5999/purchase HTTP/1.1\r\nHost: c\r\nContent-Type: application/json\r\n"                 \
    "Content-Length: 15\r\n\r\n{\"quantity\": 1}"

/* Each loop has closed its listener: it drains. /readyz knows before any of them does. */
static bool takes_nobody(void)
{
    int fd = net_connect_by("127.0.0.1", fleet.catalogd[0].port, clock_after_ms(FLEET_LIMIT_MS));
    const bool refused = fd == -1;
    net_shut(&fd);
    return refused;
}

/* One of them has not said anything yet, and the last one never will. */
TEST(what_is_asked_on_an_open_connection_after_sigterm_is_answered_and_then_the_connection_ends, P167)
{
    enum { PINGS, READS, BUYS, SILENT, COUNT };
    int fds[COUNT], status = -1;
    assert_true(fleet_start(1, writes_settings(settings)));
    for (size_t i = 0; i < COUNT; i++)
        fds[i] = socket_connect(fleet.catalogd[0].port, 0);
    expect_said(fds[READS], PING, "200 OK", false);
    expect_said(fds[BUYS], PING, "200 OK", false);
    assert_int_equal(kill(fleet.catalogd[0].pid, SIGTERM), 0);
    WAIT_UNTIL(takes_nobody());
    expect_said(fds[PINGS], PING, "200 OK", true);
    expect_said(fds[READS], TREE, "200 OK", true);
    expect_said(fds[BUYS], BUY, "200 OK", true);
    for (size_t i = 0; i < COUNT; i++)
        expect_end(fds[i]);
    assert_true(probe_wait_end(0, &status));
    assert_int_equal(status, 0);
}

/* ---- what systemd is told ---- */

static int manager = -1;
static char notify_setting[160];

/* An abstract socket: nothing to clean up. */
static bool be_the_manager(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int bytes =
        snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "restart_test.%d", getpid());
    snprintf(notify_setting, sizeof notify_setting, "NOTIFY_SOCKET=@%s", address.sun_path + 1);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return bind(manager, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)bytes)) == 0;
}

static bool be_it_no_longer(void)
{
    close(manager);
    return fleet_end();
}

/* The next message with this text; those before it are gone. */
static void expect_told(const char *text)
{
    const uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    char message[1024] = "";
    while (strstr(message, text) == NULL) {
        if (!net_wait(manager, POLLIN, end_us))
            fail_msg("systemd is not told %s", text);
        const ssize_t count = recv(manager, message, sizeof message - 1, 0);
        message[count > 0 ? count : 0] = '\0';
    }
}

TEST(systemd_hears_when_it_is_ready_alive_reloading_and_stopping, P168)
{
    const char *const told[] = {"DRAIN_MS=28000", notify_setting, "WATCHDOG_USEC=200000", NULL};
    int status = -1;
    assert_true(fleet_start(1, told));
    expect_told("READY=1");
    expect_told("WATCHDOG=1");
    expect_told("WATCHDOG=1");
    assert_int_equal(kill(fleet.catalogd[0].pid, SIGHUP), 0);
    expect_told("RELOADING=1");
    expect_told("READY=1");
    assert_int_equal(kill(fleet.catalogd[0].pid, SIGTERM), 0);
    expect_told("STOPPING=1");
    /* The SIGTERM of fleet_end() would be its second one. */
    assert_true(probe_wait_end(0, &status));
    assert_int_equal(status, 0);
}

/* ---- reload ---- */

static unsigned hot_with(const char *token)
{
    char header[64];
    struct http_answer answer;
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", token);
    fleet_ask_port(fleet.catalogd[0].ops_port, NULL, "/hot", header, &answer);
    const unsigned status = answer.status;
    http_answer_clear(&answer);
    return status;
}

static void write_token(const char *path, const char *token)
{
    file_write(path, token);
    assert_int_equal(chmod(path, 0600), 0);
}

static void reload_and_wait(const char *line)
{
    assert_int_equal(kill(fleet.catalogd[0].pid, SIGHUP), 0);
    WAIT_UNTIL(stack_log_count(fleet.catalogd[0].log_path, 0, line) > 0);
}

TEST(sighup_takes_the_new_token_and_keeps_the_old_one_if_the_file_is_no_good, P168)
{
    char folder[PROC_PATH_BYTES], path[PROC_PATH_BYTES + 8], setting[PROC_PATH_BYTES + 32];
    assert_true(proc_folder("token", NULL, folder));
    snprintf(path, sizeof path, "%s/token", folder);
    snprintf(setting, sizeof setting, "OPS_TOKEN_FILE=%s", path);
    const char *const with_token[] = {setting, NULL};
    write_token(path, "the-first-token-of-all");
    assert_true(fleet_put(0, with_token));
    assert_int_equal(hot_with("the-first-token-of-all"), 200);

    write_token(path, "the-second-token-of-all");
    reload_and_wait("event=reload access_log=none ops_token=read revalidate_token=none");
    assert_int_equal(hot_with("the-first-token-of-all"), 401);
    assert_int_equal(hot_with("the-second-token-of-all"), 200);

    write_token(path, "short");
    reload_and_wait("event=reload access_log=none ops_token=kept revalidate_token=none");
    assert_int_equal(hot_with("the-second-token-of-all"), 200);
    proc_remove(folder);
}

TEST_GROUP(.up = writes_up, .down = fleet_down, .before = be_the_manager, .after = be_it_no_longer);
