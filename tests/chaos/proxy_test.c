/* SPDX-License-Identifier: MIT */
/* proxy_test.c - each fault of the proxy, seen from both ends of a connection. */
#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/stack/proxy.h"
#include "tests/support/sockets.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 5000, QUIET_MS = 60, BIG_BYTES = 1000000 };

/* Both ends are ours: what leaves one is looked for at the other. */
static struct rig {
    struct proxy *proxy;
    size_t route;
    int listener;
    int client, server; /* the two ends of the connection under test */
} rig;

static uint64_t end_us(uint32_t limit_ms)
{
    return clock_after_ms(limit_ms);
}

static int connect_client(void)
{
    struct net_address address;
    assert_true(net_address_init(&address, "127.0.0.1", proxy_port(rig.proxy, rig.route)));
    int fd = net_connect_start(&address);
    assert_int_not_equal(fd, -1);
    assert_true(net_wait(fd, POLLOUT, end_us(LIMIT_MS)));
    return fd;
}

static int accept_server(void)
{
    assert_true(net_wait(rig.listener, POLLIN, end_us(LIMIT_MS)));
    int fd = accept4(rig.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_int_not_equal(fd, -1);
    return fd;
}

static bool rig_up(void)
{
    uint16_t port;
    rig = (struct rig){.listener = socket_listen(0, 16, &port)};
    assert_true(proxy_open(1, &rig.proxy));
    assert_true(proxy_add(rig.proxy, port, &rig.route));
    rig.client = connect_client();
    rig.server = accept_server();
    return true;
}

static bool rig_down(void)
{
    proxy_close(&rig.proxy);
    close(rig.client);
    close(rig.server);
    close(rig.listener);
    return true;
}

static void hear(int fd, const char *text)
{
    char got[64] = "";
    size_t count = 0, wanted = strlen(text);
    while (count < wanted && net_wait(fd, POLLIN, end_us(LIMIT_MS))) {
        ssize_t some = recv(fd, got + count, wanted - count, MSG_DONTWAIT);
        assert_true(some > 0);
        count += (size_t)some;
    }
    assert_string_equal(got, text);
}

static void passes(int from, int to, const char *text)
{
    socket_say(from, text);
    hear(to, text);
}

static void hear_nothing(int fd)
{
    assert_false(net_wait(fd, POLLIN, end_us(QUIET_MS)));
}

/* 0: an orderly end; otherwise errno. What came before is read past. */
static int hear_end(int fd)
{
    char bytes[4096];
    for (;;) {
        assert_true(net_wait(fd, POLLIN, end_us(LIMIT_MS)));
        ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got <= 0)
            return got == 0 ? 0 : errno;
    }
}

static void hang_up_with_reset(int *fd)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(*fd);
    *fd = -1;
}

static void set(enum proxy_fault fault, uint32_t amount_ms)
{
    proxy_set(rig.proxy, rig.route, fault, amount_ms);
}

/* ---- without a fault ---- */

TEST(bytes_pass_in_both_directions)
{
    passes(rig.client, rig.server, "PING\r\n");
    passes(rig.server, rig.client, "+PONG\r\n");
}

TEST(a_megabyte_arrives_as_it_was_although_nobody_reads_for_a_while)
{
    static unsigned char sent[BIG_BYTES], got[BIG_BYTES];
    size_t out = 0, in = 0;
    for (size_t i = 0; i < BIG_BYTES; i++)
        sent[i] = (unsigned char)(i * 7 + i / 251);
    while (in < BIG_BYTES) {
        ssize_t some = out < BIG_BYTES ? send(rig.server, sent + out, BIG_BYTES - out, MSG_DONTWAIT) : -1;
        out += some > 0 ? (size_t)some : 0;
        if (some > 0)
            continue;
        assert_true(net_wait(rig.client, POLLIN, end_us(LIMIT_MS)));
        some = recv(rig.client, got + in, BIG_BYTES - in, MSG_DONTWAIT);
        assert_true(some > 0);
        in += (size_t)some;
    }
    assert_memory_equal(sent, got, BIG_BYTES);
}

TEST(an_orderly_end_is_passed_on_behind_the_last_bytes)
{
    socket_say(rig.server, "-ERR max number of clients reached\r\n");
    shutdown(rig.server, SHUT_WR);
    hear(rig.client, "-ERR max number of clients reached\r\n");
    assert_int_equal(hear_end(rig.client), 0);
}

TEST(a_reset_is_passed_on)
{
    hang_up_with_reset(&rig.client);
    assert_int_equal(hear_end(rig.server), ECONNRESET);
}

TEST(a_server_that_is_not_there_resets_the_client)
{
    close(rig.listener);
    rig.listener = -1;
    int client = connect_client();
    assert_int_equal(hear_end(client), ECONNRESET);
    close(client);
}

/* ---- faults ---- */

TEST(delayed_bytes_arrive_after_their_time)
{
    set(PROXY_DELAY, 50);
    uint64_t begin_us = clock_us();
    passes(rig.client, rig.server, "one");
    assert_true(clock_us() - begin_us >= 50000);
    passes(rig.server, rig.client, "two");
    assert_true(clock_us() - begin_us >= 100000);
    assert_int_equal(proxy_hits(rig.proxy, PROXY_DELAY), 1);
}

TEST(a_connection_that_lost_bytes_is_reset_when_the_fault_ends)
{
    set(PROXY_DROP, 0);
    socket_say(rig.client, "lost");
    hear_nothing(rig.server);
    set(PROXY_NONE, 0);
    assert_int_equal(hear_end(rig.client), ECONNRESET);
    assert_int_equal(hear_end(rig.server), ECONNRESET);
    assert_int_equal(proxy_hits(rig.proxy, PROXY_DROP), 1);
}

TEST(a_connection_that_lost_nothing_survives_the_loss_of_others)
{
    set(PROXY_DROP, 0);
    set(PROXY_NONE, 0);
    bytes_pass_in_both_directions();
    assert_int_equal(proxy_hits(rig.proxy, PROXY_DROP), 0);
}

TEST(a_reset_ends_what_there_is_and_what_comes)
{
    set(PROXY_RESET, 0);
    assert_int_equal(hear_end(rig.client), ECONNRESET);
    assert_int_equal(hear_end(rig.server), ECONNRESET);
    int client = connect_client();
    assert_int_equal(hear_end(client), ECONNRESET);
    close(client);
}

TEST(half_open_connections_are_accepted_and_silent)
{
    set(PROXY_SILENT, 0);
    int client = connect_client();
    socket_say(client, "hello?");
    socket_say(rig.client, "hello?");
    hear_nothing(client);
    hear_nothing(rig.server);
    set(PROXY_NONE, 0);
    assert_int_equal(hear_end(client), ECONNRESET); /* nobody was ever behind it */
    hear(rig.server, "hello?");                     /* it only hung */
    close(client);
}

TEST(dribbled_bytes_come_one_at_a_time)
{
    char got[8];
    size_t count = 0, portions = 0;
    set(PROXY_DRIBBLE, 5);
    socket_say(rig.server, "abcdef");
    while (count < 6) {
        assert_true(net_wait(rig.client, POLLIN, end_us(LIMIT_MS)));
        count += (size_t)recv(rig.client, got + count, sizeof got - count, MSG_DONTWAIT);
        portions++;
    }
    assert_memory_equal(got, "abcdef", 6);
    assert_true(portions > 2); /* some may have met in our socket */
}

TEST(a_reply_is_cut_in_the_middle_and_nothing_follows)
{
    size_t replies = 0;
    ssize_t got = 10;
    set(PROXY_CUT, 0);
    while (got == 10) {
        char bytes[16];
        socket_say(rig.server, "0123456789");
        assert_true(net_wait(rig.client, POLLIN, end_us(LIMIT_MS)));
        got = recv(rig.client, bytes, sizeof bytes, MSG_DONTWAIT);
        assert_true(++replies <= 6);
    }
    assert_in_range(got, 1, 9);
    assert_int_equal(hear_end(rig.client), ECONNRESET);
    assert_int_equal(proxy_hits(rig.proxy, PROXY_CUT), 1);
}

TEST(frozen_requests_wait_while_replies_flow)
{
    set(PROXY_FREEZE_REQUESTS, 0);
    socket_say(rig.client, "ask");
    passes(rig.server, rig.client, "told");
    hear_nothing(rig.server);
    set(PROXY_NONE, 0);
    hear(rig.server, "ask");
}

TEST(frozen_replies_wait_while_requests_flow)
{
    set(PROXY_FREEZE_REPLIES, 0);
    socket_say(rig.server, "told");
    passes(rig.client, rig.server, "ask");
    hear_nothing(rig.client);
    set(PROXY_NONE, 0);
    hear(rig.client, "told");
}

TEST(a_client_that_leaves_a_frozen_connection_is_noticed)
{
    set(PROXY_FREEZE_REQUESTS, 0);
    hang_up_with_reset(&rig.client);
    assert_int_equal(hear_end(rig.server), ECONNRESET);
}

TEST(a_mute_server_hears_everything_and_its_connection_lives_on)
{
    set(PROXY_MUTE, 0);
    socket_say(rig.server, "lost");
    hear_nothing(rig.client);
    passes(rig.client, rig.server, "ask");
    assert_int_equal(proxy_hits(rig.proxy, PROXY_MUTE), 1);
    set(PROXY_NONE, 0);
    passes(rig.server, rig.client, "told");
}

/* ---- only connections that say something ---- */

static void mark(const char *text, enum proxy_fault fault)
{
    proxy_mark(rig.proxy, rig.route, text, fault);
}

static bool is_marked(uint32_t limit_ms)
{
    return proxy_wait_marked(rig.proxy, rig.route, 1, limit_ms);
}

TEST(a_request_with_the_text_waits_with_all_that_follow)
{
    mark("EVAL", PROXY_FREEZE_REQUESTS);
    passes(rig.client, rig.server, "GET");
    assert_false(is_marked(0));
    socket_say(rig.client, "EVAL");
    assert_true(is_marked(LIMIT_MS));
    socket_say(rig.client, "GET");
    hear_nothing(rig.server);
    set(PROXY_NONE, 0);
    hear(rig.server, "EVALGET");
}

TEST(replies_wait_from_the_request_with_the_text_on)
{
    mark("EVAL", PROXY_FREEZE_REPLIES);
    passes(rig.server, rig.client, "before");
    passes(rig.client, rig.server, "EVAL");
    assert_true(is_marked(LIMIT_MS));
    socket_say(rig.server, "after");
    hear_nothing(rig.client);
    mark("nothing of this kind", PROXY_FREEZE_REPLIES); /* who is held stays held */
    hear_nothing(rig.client);
    set(PROXY_NONE, 0);
    hear(rig.client, "after");
}

TEST(who_has_not_said_it_is_spared)
{
    mark("SUBSCRIBE", PROXY_NONE);
    int client = connect_client(), server = accept_server();
    socket_say(client, "SUBSCRIBE");
    hear(server, "SUBSCRIBE");
    set(PROXY_RESET, 0);
    assert_int_equal(hear_end(client), ECONNRESET);
    bytes_pass_in_both_directions();
    set(PROXY_NONE, 0);
    set(PROXY_RESET, 0); /* the text is forgotten: it is everybody's */
    assert_int_equal(hear_end(rig.client), ECONNRESET);
    close(client);
    close(server);
}

/* ---- what comes late ---- */

TEST(a_late_request_arrives_after_its_client_has_gone)
{
    set(PROXY_LATE, 40);
    socket_say(rig.client, "SET ");
    hear_nothing(rig.server);
    socket_say(rig.client, "late");
    hear_nothing(rig.server);
    uint64_t begin_us = clock_us();
    hang_up_with_reset(&rig.client);
    hear(rig.server, "SET late");
    assert_true(clock_us() - begin_us >= 40000);
    socket_say(rig.server, "+OK");
    assert_int_equal(hear_end(rig.server), ECONNRESET);
    assert_int_equal(proxy_hits(rig.proxy, PROXY_LATE), 1);
}

TEST(a_kept_request_of_a_client_that_stayed_goes_on_when_the_fault_ends)
{
    set(PROXY_LATE, 40);
    socket_say(rig.client, "kept");
    hear_nothing(rig.server);
    set(PROXY_NONE, 0);
    hear(rig.server, "kept");
    passes(rig.server, rig.client, "+OK");
    assert_int_equal(proxy_hits(rig.proxy, PROXY_LATE), 0);
}

/* ---- another server ---- */

TEST(after_a_failover_old_connections_are_reset_and_new_ones_reach_the_other_server)
{
    uint16_t port;
    passes(rig.client, rig.server, "hello");
    close(rig.listener);
    rig.listener = socket_listen(0, 16, &port);
    proxy_retarget(rig.proxy, rig.route, port);
    assert_int_equal(hear_end(rig.client), ECONNRESET);
    assert_int_equal(hear_end(rig.server), ECONNRESET);
    close(rig.client);
    close(rig.server);
    rig.client = connect_client();
    rig.server = accept_server(); /* of the other listener: the first one is closed */
    bytes_pass_in_both_directions();
}

TEST(a_failover_leaves_other_routes_alone_and_the_fault_in_place)
{
    uint16_t port;
    size_t other;
    int listener = socket_listen(0, 16, &port);
    assert_true(proxy_add(rig.proxy, port, &other));
    proxy_set(rig.proxy, other, PROXY_FREEZE_REQUESTS, 0);
    proxy_retarget(rig.proxy, other, port);
    bytes_pass_in_both_directions();
    rig.route = other;
    int client = connect_client();
    socket_say(client, "frozen");
    assert_true(net_wait(listener, POLLIN, end_us(LIMIT_MS)));
    int server = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    hear_nothing(server);
    proxy_set(rig.proxy, other, PROXY_NONE, 0);
    hear(server, "frozen");
    close(client);
    close(server);
    close(listener);
}

/* Generators are forked from us and keep what was open then for as long as they live. */
TEST(a_reset_is_heard_although_a_child_has_a_copy_of_the_connection)
{
    int ends[2];
    bytes_pass_in_both_directions(); /* the proxy has it */
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ends[0]);
    set(PROXY_RESET, 0);
    assert_int_equal(hear_end(rig.client), ECONNRESET);
    assert_int_equal(hear_end(rig.server), ECONNRESET);
    close(ends[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

TEST_GROUP(.before = rig_up, .after = rig_down);
