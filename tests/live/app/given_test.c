/* SPDX-License-Identifier: MIT */
/*
 * given_test.c - which sockets a process may be given, by what names, and where they win.
 *
 * The environment is systemd's: descriptors from 3 on belong to this program while a test runs.
 */

#include "app/http/listener.h"
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST = 3, BACKLOG = 10 };

static int v4_socket(int type, const char *host, bool listens)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && inet_pton(AF_INET, host, &address.sin_addr) == 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_true(!listens || listen(fd, BACKLOG) == 0);
    return fd;
}

static int v6_socket(int only_v6)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, BACKLOG), 0);
    return fd;
}

/* In a child, where 3, 4, ... are free to be taken. 0: what was expected. */
typedef int judgement(const struct given *given, bool good);

static int in_a_child(const int *fds, size_t count, const char *names, judgement *judge)
{
    char number[32];
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        struct given given;
        for (size_t i = 0; i < count; i++)
            dup2(fds[i], 100 + (int)i);
        for (size_t i = 0; i < count; i++)
            dup2(100 + (int)i, FIRST + (int)i);
        snprintf(number, sizeof number, "%ld", (long)getpid());
        setenv("LISTEN_PID", number, 1);
        snprintf(number, sizeof number, "%zu", count);
        setenv("LISTEN_FDS", number, 1);
        if (names != NULL)
            setenv("LISTEN_FDNAMES", names, 1);
        const bool good = given_read(&given);
        _exit(judge(&given, good));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    return status;
}

static int is_refused(const struct given *given, bool good)
{
    (void)given;
    return good;
}

static int is_two_http_one_ops(const struct given *given, bool good)
{
    int http[GIVEN_MAX], ops[GIVEN_MAX];
    return !good || given_for(given, GIVEN_HTTP, http) != 2 || given_for(given, GIVEN_OPS, ops) != 1 ||
           http[0] != FIRST || http[1] != FIRST + 2 || ops[0] != FIRST + 1;
}

static int is_http_then_ops(const struct given *given, bool good)
{
    int http[GIVEN_MAX], ops[GIVEN_MAX];
    return !good || given_for(given, GIVEN_HTTP, http) != 1 || given_for(given, GIVEN_OPS, ops) != 1 ||
           http[0] != FIRST || ops[0] != FIRST + 1;
}

static int is_not_blocking_and_closed_on_exec(const struct given *given, bool good)
{
    return !good || given->count != 1 || (fcntl(FIRST, F_GETFL) & O_NONBLOCK) == 0 ||
           (fcntl(FIRST, F_GETFD) & FD_CLOEXEC) == 0 || getenv("LISTEN_FDS") != NULL;
}

#define LISTENING v4_socket(SOCK_STREAM, "127.0.0.1", true)

TEST(names_say_what_a_socket_is_for)
{
    assert_int_equal(
        in_a_child((const int[]){LISTENING, LISTENING, LISTENING}, 3, "http:ops:http", is_two_http_one_ops),
        0);
}

TEST(without_names_of_ours_the_order_says_it)
{
    assert_int_equal(in_a_child((const int[]){LISTENING, LISTENING}, 2, NULL, is_http_then_ops), 0);
    assert_int_equal(in_a_child((const int[]){LISTENING, LISTENING}, 2, "catalogd.socket:catalogd.socket",
                                is_http_then_ops),
                     0);
}

TEST(a_given_socket_never_blocks_and_is_not_inherited_again)
{
    assert_int_equal(in_a_child((const int[]){LISTENING}, 1, "http", is_not_blocking_and_closed_on_exec), 0);
}

TEST(what_is_no_listening_stream_socket_or_has_a_strange_name_is_refused, P166)
{
    assert_int_equal(
        in_a_child((const int[]){v4_socket(SOCK_STREAM, "127.0.0.1", false)}, 1, "http", is_refused), 0);
    assert_int_equal(
        in_a_child((const int[]){v4_socket(SOCK_DGRAM, "127.0.0.1", false)}, 1, "http", is_refused), 0);
    assert_int_equal(in_a_child((const int[]){open("/dev/null", O_RDONLY)}, 1, "http", is_refused), 0);
    assert_int_equal(in_a_child((const int[]){LISTENING, LISTENING}, 2, "http:metrics", is_refused), 0);
    assert_int_equal(in_a_child((const int[]){LISTENING, LISTENING}, 2, "ops:ops", is_refused), 0);
    assert_int_equal(in_a_child((const int[]){LISTENING, LISTENING, LISTENING}, 3, NULL, is_refused), 0);
}

TEST(only_loopback_and_paths_count_as_local)
{
    const int here = LISTENING, everywhere = v4_socket(SOCK_STREAM, "0.0.0.0", true), v6 = v6_socket(0);
    assert_true(given_is_local(here));
    assert_false(given_is_local(everywhere));
    assert_false(given_is_local(v6));
    close(here);
    close(everywhere);
    close(v6);
}

/* ---- listeners on them ---- */

TEST(a_given_socket_wins_over_the_setting_and_is_shared_by_all_loops, P166)
{
    enum { LOOPS = 3 };
    const struct given given = {.sockets = {{LISTENING, GIVEN_HTTP}}, .count = 1};
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    char name[LISTENER_NAME_SIZE];
    struct listener listener;
    const struct listener_options options = {
        .setting = "192.0.2.1:1", .given = &given, .use = GIVEN_HTTP, .fd_count = LOOPS};

    assert_true(listener_open(&options, &listener));
    assert_int_equal(listener.fd_count, LOOPS);
    for (size_t i = 0; i < LOOPS; i++) {
        assert_int_equal(getsockname(listener.fds[i], (struct sockaddr *)&address, &bytes), 0);
        snprintf(name, sizeof name, "127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
        assert_string_equal(listener.name, name);
    }
    assert_true(listener.is_given);
    listener_clear(&listener);
    close(given.sockets[0].fd);
}

static bool a_listener_is_unix(int given_fd, const char *setting)
{
    const struct given given = {.sockets = {{given_fd, GIVEN_OPS}}, .count = 1};
    const struct listener_options options = {
        .setting = setting, .given = &given, .use = GIVEN_OPS, .fd_count = 1};
    struct listener listener;

    assert_true(listener_open(&options, &listener));
    const bool is_unix = listener.is_unix;
    listener_clear(&listener);
    close(given_fd);
    return is_unix;
}

/* A browser reaches the one and not the other. */
TEST(the_given_socket_says_whether_it_is_a_path_and_not_the_setting, P174)
{
    const int path = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_un unnamed = {.sun_family = AF_UNIX};

    assert_int_equal(bind(path, (const struct sockaddr *)&unnamed, sizeof unnamed.sun_family), 0);
    assert_int_equal(listen(path, BACKLOG), 0);
    assert_true(a_listener_is_unix(path, "127.0.0.1:1"));
    assert_false(a_listener_is_unix(LISTENING, "unix:/tmp/ops"));
}

TEST(every_given_socket_has_a_loop)
{
    const struct given given = {
        .sockets = {{LISTENING, GIVEN_HTTP}, {v6_socket(1), GIVEN_HTTP}, {LISTENING, GIVEN_OPS}}, .count = 3};
    struct listener listener;
    const struct listener_options options = {
        .setting = "192.0.2.1:1", .given = &given, .use = GIVEN_HTTP, .fd_count = 1};

    assert_true(listener_open(&options, &listener));
    assert_int_equal(listener.fd_count, 2);
    assert_non_null(strstr(listener.name, ",[::]:"));
    listener_clear(&listener);
    for (size_t i = 0; i < given.count; i++)
        close(given.sockets[i].fd);
}

TEST(a_socket_that_holds_off_keeps_what_it_has_accepted_and_takes_no_more, P167)
{
    struct listener listener;
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    const struct listener_options options = {.setting = "127.0.0.1:0", .use = GIVEN_HTTP, .fd_count = 1};
    assert_true(listener_open(&options, &listener));
    assert_int_equal(getsockname(listener.fds[0], (struct sockaddr *)&address, &bytes), 0);
    const int before = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int after = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(connect(before, (struct sockaddr *)&address, bytes), 0);
    listener_hold_off(listener.fds[0]);
    assert_int_equal(connect(after, (struct sockaddr *)&address, bytes), -1);
    assert_int_equal(errno, EINPROGRESS);
    const int first = accept4(listener.fds[0], NULL, NULL, SOCK_CLOEXEC);
    assert_true(first >= 0);
    assert_int_equal(accept4(listener.fds[0], NULL, NULL, SOCK_CLOEXEC), -1);
    listener_clear(&listener);
    struct pollfd ready = {.fd = after, .events = POLLOUT};
    int error = 0;
    bytes = sizeof error;
    assert_int_equal(poll(&ready, 1, 30000), 1); /* its kernel tries again a second later */
    getsockopt(after, SOL_SOCKET, SO_ERROR, &error, &bytes);
    assert_int_equal(error, ECONNREFUSED);
    close(before);
    close(after);
    close(first);
}
