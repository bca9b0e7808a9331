/* SPDX-License-Identifier: MIT */
/*
 * redis_hostile_test.c - the Redis connection against a server that misbehaves on purpose.
 *
 * The server is an actor: a thread with a blocking socket that plays what a function of the test says, one
 * connection after another.
 */
#include "guard/wire/protocol.h"
#include "tests/support/redis_rig.h"
#include "tests/support/sockets.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LIMIT_MS = 2000 };

/* ---- the actor ---- */

struct actor {
    pthread_t thread;
    int listener;
    uint16_t port;
    /* What it does with its n-th connection, which it closes afterwards. */
    void (*play)(int fd, unsigned number);
    const char *line; /* what to say, if the play needs that */
    size_t line_bytes;
    _Atomic unsigned accepted;
};

static struct actor actor; /* of the test */

/* recv() with a limit of time ends early when the process is stopped and goes on. */
static ssize_t hear(int fd, void *bytes, size_t count, int flags)
{
    ssize_t got;

    do
        got = recv(fd, bytes, count, flags);
    while (got < 0 && errno == EINTR);
    return got;
}

/* False: the other side has gone, or says nothing for RIG_WAIT_MS. */
static bool hear_line(int fd, char *line, size_t size)
{
    size_t length = 0;

    while (length + 1 < size) {
        if (hear(fd, &line[length], 1, 0) != 1)
            return false;
        if (line[length++] == '\n') {
            line[length - 2] = '\0';
            return true;
        }
    }
    return false;
}

/* One command; its first word in `word`. */
static bool hear_command(int fd, char *word, size_t size)
{
    char line[64], skipped[8192];

    if (!hear_line(fd, line, sizeof line) || line[0] != '*')
        return false;
    for (unsigned i = 0, count = (unsigned)atoi(line + 1); i < count; i++) {
        if (!hear_line(fd, line, sizeof line) || line[0] != '$')
            return false;
        size_t bytes = (size_t)atoi(line + 1);
        if (bytes + 2 > sizeof skipped || hear(fd, skipped, bytes + 2, MSG_WAITALL) != (ssize_t)bytes + 2)
            return false;
        if (i == 0)
            snprintf(word, size, "%.*s", (int)bytes, skipped);
    }
    return true;
}

static void say(int fd, const char *text)
{
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

/* Plays Redis until the connection is up; after `steps` commands if that is earlier. */
static bool welcome(int fd, unsigned steps)
{
    char word[32];

    for (unsigned heard = 0, scripts = 0; heard < steps && scripts < SCRIPT_COUNT; heard++) {
        if (!hear_command(fd, word, sizeof word))
            return false;
        if (strcmp(word, "SCRIPT") == 0) {
            say(fd, "$40\r\n0123456789012345678901234567890123456789\r\n");
            scripts++;
        } else if (strcmp(word, "ROLE") == 0) {
            say(fd, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
        } else {
            say(fd, "+OK\r\n");
        }
    }
    return true;
}

static void *act(void *argument)
{
    struct timeval limit = {.tv_sec = RIG_WAIT_MS / 1000};

    for (;;) {
        int fd = accept(actor.listener, NULL, NULL);
        if (fd < 0)
            return argument;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        actor.play(fd, actor.accepted++);
        close(fd);
    }
}

static void hire(void (*play)(int, unsigned), const char *line, size_t line_bytes)
{
    actor = (struct actor){.play = play, .line = line, .line_bytes = line_bytes};
    actor.listener = socket_listen(0, 16, &actor.port);
    assert_int_equal(pthread_create(&actor.thread, NULL, act, &actor), 0);
}

/* The connection first: that ends the play, and the actor can hear that it is dismissed. */
static void finish_actor(void)
{
    rig_close();
    shutdown(actor.listener, SHUT_RDWR);
    pthread_join(actor.thread, NULL);
    close(actor.listener);
    rig.descriptor_count--; /* the listener was there before */
    rig_finish();
}

static void prepare_actor(const char *login)
{
    char url[96];

    snprintf(url, sizeof url, "redis://%s127.0.0.1:%u", login, (unsigned)actor.port);
    rig_prepare(url);
}

/* Waits for the other side to hang up. */
static void hear_out(int fd)
{
    char word[32];

    while (hear_command(fd, word, sizeof word))
        ;
}

static void play_line_after_command(int fd, unsigned number)
{
    char word[32];

    (void)number;
    if (!welcome(fd, UINT32_MAX) || !hear_command(fd, word, sizeof word))
        return;
    (void)!send(fd, actor.line, actor.line_bytes, MSG_NOSIGNAL);
    hear_out(fd);
}

/* One command is answered with these bytes: the connection must be given up, with the reason. */
static void expect_lost(const char *line, size_t line_bytes, const char *said)
{
    struct call call;

    hire(play_line_after_command, line, line_bytes);
    prepare_actor("");
    rig.config.max_reply_bytes = 100000;
    rig_open();
    rig_wait_up();
    call_send(&call, "PING");
    rig_wait_until(call.answered > 0);
    assert_int_equal(call.outcome, REDIS_UNKNOWN);
    if (strstr(rig.text, said) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", rig.text, said);
    assert_false(redis_is_up(rig.redis));
    finish_actor();
}

static void lost_to(const char *line, const char *said)
{
    expect_lost(line, strlen(line), said);
}

TEST(nonsense_is_a_reason_to_leave)
{
    lost_to("HTTP/1.1 400 Bad Request\r\n\r\n", "Protocol error, got \"H\"");
    expect_lost("\0\0\0\0", 4, "Protocol error");
    lost_to(":12x\r\n", "Bad integer value");
    lost_to("$x\r\n", "Bad bulk string length");
    lost_to("$-2\r\n", "out of range");
    lost_to("*x\r\n", "Bad multi-bulk length");
    lost_to("%1\r\n", "a map of RESP3");
    lost_to("*1025\r\n", "more elements than allowed");
}

/* Many elements, each small and soon consumed: the bytes of one reply count together. */
TEST(a_reply_without_bounds_is_a_reason_to_leave, P57)
{
    enum { ELEMENTS = 40, BYTES = 10000, SIZE = 6 + ELEMENTS * (BYTES + 10) };
    char *flood = malloc(SIZE + 1);
    assert_non_null(flood);
    int at = sprintf(flood, "*900\r\n");
    for (int i = 0; i < ELEMENTS; i++)
        at += sprintf(flood + at, "$%d\r\n%0*d\r\n", BYTES, BYTES, i);
    expect_lost(flood, (size_t)at, "larger than allowed");
    free(flood);
}

static void play_two_answers(int fd, unsigned number)
{
    char word[32];

    (void)number;
    if (welcome(fd, UINT32_MAX) && hear_command(fd, word, sizeof word)) {
        say(fd, "+FIRST\r\n+SECOND\r\n");
        hear_out(fd);
    }
}

TEST(a_reply_that_nobody_asked_for_is_never_given_to_the_next_caller, P52)
{
    struct call call;

    hire(play_two_answers, NULL, 0);
    prepare_actor("");
    rig_open();
    rig_wait_up();
    call_send(&call, "PING");
    rig_wait_until(rig.state_count > 1);
    assert_int_equal(call.answered, 1);
    assert_string_equal(call.text, "FIRST");
    assert_non_null(strstr(rig.text, "nobody has asked for"));
    finish_actor();
}

static void play_silence(int fd, unsigned number)
{
    (void)number;
    hear_out(fd);
}

TEST(a_server_that_accepts_and_says_nothing_is_left_after_the_connect_limit, P56)
{
    hire(play_silence, NULL, 0);
    prepare_actor("");
    rig.config.connect_limit_ms = 250;
    rig_open();
    rig_wait_until(rig.state_count > 0 && actor.accepted >= 2); /* and tried again */
    assert_int_equal(rig.states[0], GUARD_REDIS_DOWN);
    assert_non_null(strstr(rig.text, "login: no answer within 250 ms"));
    finish_actor();
}

/* Hangs up after as many commands of the greeting as it has had connections before; then behaves. */
static void play_hang_up(int fd, unsigned number)
{
    if (welcome(fd, number) && number > 5 + SCRIPT_COUNT)
        hear_out(fd);
}

TEST(a_server_that_hangs_up_at_any_stage_is_tried_again_until_it_stays)
{
    hire(play_hang_up, NULL, 0);
    prepare_actor("");
    rig_open();
    rig_wait_until(redis_is_up(rig.redis) && actor.accepted > 6 + SCRIPT_COUNT);
    finish_actor();
}

/* Hangs up as soon as it is up, with a RST, while commands are on their way to it. */
static void play_slam(int fd, unsigned number)
{
    (void)number;
    (void)welcome(fd, UINT32_MAX);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
}

TEST(writing_to_a_connection_that_is_gone_raises_no_signal, P183)
{
    struct call calls[20];
    struct sigaction action;

    sigaction(SIGPIPE, NULL, &action);
    assert_ptr_equal(action.sa_handler, SIG_DFL);
    hire(play_slam, NULL, 0);
    prepare_actor("");
    rig_open();
    for (size_t i = 0; i < 20; i++) {
        rig_wait_until(redis_is_up(rig.redis));
        while (atomic_load(&actor.accepted) < rig.counters.connects)
            ;
        call_send(&calls[i], "PING");
        rig_wait_until(calls[i].answered > 0);
        assert_int_not_equal(calls[i].outcome, REDIS_REPLIED);
    }
    finish_actor();
}

static _Atomic int heard_error;

static void play_until_reset(int fd, unsigned number)
{
    char word[32], byte;

    if (number == 0 && welcome(fd, UINT32_MAX) && hear_command(fd, word, sizeof word))
        heard_error = hear(fd, &byte, 1, 0) < 0 ? errno : 0;
}

TEST(a_connection_in_doubt_is_reset_so_that_the_server_knows, P52)
{
    struct call call;

    heard_error = -1;
    hire(play_until_reset, NULL, 0);
    prepare_actor("");
    rig.config.limit_ms = LIMIT_MS;
    rig_open();
    rig_wait_up();
    call_send(&call, "PING");
    rig_wait_until(call.answered > 0 && heard_error != -1);
    assert_int_equal(heard_error, ECONNRESET);
    finish_actor();
}

static void play_line_at_once(int fd, unsigned number)
{
    (void)number;
    say(fd, actor.line);
    hear_out(fd);
}

static void expect_greeting_of(const char *login, const char *line, enum guard_redis_state state,
                               const char *said)
{
    hire(play_line_at_once, line, 0);
    prepare_actor(login);
    rig_open();
    rig_wait_until(rig.state_count > 0);
    if (strstr(rig.text, said) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", rig.text, said);
    assert_int_equal(rig.states[0], state);
    assert_null(strstr(rig.text, "hunter2"));
    finish_actor();
}

static void expect_greeting(const char *line, enum guard_redis_state state, const char *said)
{
    expect_greeting_of("hunter2:hunter2@", line, state, said);
}

TEST(what_the_greeting_hears_decides_between_down_and_denied, P54)
{
    expect_greeting("-ERR unknown command `AUTH`, with args beginning with: `hunter2`, `hunter2`\r\n",
                    GUARD_REDIS_DENIED, "AUTH refused: error withheld");
    expect_greeting("-hunter2 is wrong\r\n", GUARD_REDIS_DENIED, "AUTH refused: error withheld");
    expect_greeting("-DENIED Redis is running in protected mode\r\n", GUARD_REDIS_DENIED, "DENIED");
    expect_greeting_of("", "-DENIED Redis is running in protected mode\r\n", GUARD_REDIS_DENIED, "DENIED");
    expect_greeting_of("", "-NOAUTH HELLO must be called\r\n-NOAUTH Authentication required.\r\n",
                       GUARD_REDIS_DENIED, "wants a password");
    expect_greeting("-LOADING Redis is loading the dataset in memory\r\n", GUARD_REDIS_DOWN, "LOADING");
    expect_greeting("-ERR max number of clients reached\r\n", GUARD_REDIS_DOWN,
                    "max number of clients; raise");
    expect_greeting(":1\r\n", GUARD_REDIS_DOWN, "AUTH: not an answer of Redis");
    expect_greeting("+OK\r\n+OK\r\n+OK\r\n*1\r\n$5\r\nslave\r\n", GUARD_REDIS_REPLICA, "a replica");
    expect_greeting("+OK\r\n+OK\r\n+OK\r\n*1\r\n$8\r\nsentinel\r\n", GUARD_REDIS_DENIED, "redis+sentinel://");
    expect_greeting("+OK\r\n+OK\r\n+OK\r\n*0\r\n", GUARD_REDIS_DOWN, "not a master");
    expect_greeting(
        "+OK\r\n+OK\r\n-NOPERM no\r\n-NOPERM no\r\n-NOPERM no\r\n-NOPERM no\r\n-NOPERM no\r\n$1\r\nx\r\n",
        GUARD_REDIS_DOWN, "SCRIPT LOAD: not an answer");
    expect_greeting("+OK\r\n+OK\r\n+OK\r\n*1\r\n$6\r\nmaster\r\n+OK\r\n+OK\r\n-READONLY no\r\n",
                    GUARD_REDIS_REPLICA, "GETEX refused: READONLY");
    expect_greeting("+OK\r\n+OK\r\n-BUSY a\x1b[31m script\r\n", GUARD_REDIS_DOWN, "BUSY a?[31m script");
}

/* To AUTH, HELLO, CLIENT SETNAME, ROLE and INFO. */
#define WELCOME_UNTIL_INFO "+OK\r\n-ERR unknown command `HELLO`\r\n+OK\r\n*1\r\n$6\r\nmaster\r\n$0\r\n\r\n"

TEST(a_server_that_is_too_old_is_refused_by_name_and_version)
{
    expect_greeting(
        WELCOME_UNTIL_INFO "$32\r\n# Server\r\nredis_version:5.0.14\r\n\r\n", GUARD_REDIS_DENIED,
        "redis 5.0.14 is too old, it has no HELLO and no GETEX: use Redis 6.2 or later, or Valkey");
    expect_greeting(WELCOME_UNTIL_INFO "$50\r\n# Server\r\nredis_version:4.0.9\r\nserver_name:keydb\r\n\r\n",
                    GUARD_REDIS_DENIED, "keydb 4.0.9 is too old");
    expect_greeting(WELCOME_UNTIL_INFO "-NOPERM no\r\n-LOADING x\r\n", GUARD_REDIS_DOWN, "LOADING");
}

TEST(another_protocol_is_refused_by_name)
{
    static const char *const rows[][2] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server, not Redis"},
        {"<html>\r\n<head>", "an HTTP server, not Redis"},
        {"ERROR\r\nERROR\r\n", "memcached, not Redis"},
        {"SSH-2.0-OpenSSH_9.2\r\n", "an SSH server, not Redis"},
        {"\x15\x03\x01", "an alert of TLS is the answer: begin the URL with rediss"},
        {"220 mail ESMTP\r\n", "does not speak the protocol of Redis"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_greeting(rows[i][0], GUARD_REDIS_DENIED, rows[i][1]);
    expect_greeting("%1\r\n", GUARD_REDIS_DOWN, "a map of RESP3");
}

/* Was stopped; says first what it was, then what it has become. */
static void play_woken(int fd, unsigned number)
{
    char word[32];

    if (!welcome(fd, UINT32_MAX))
        return;
    if (number > 0 && hear_command(fd, word, sizeof word)) {
        assert_string_equal(word, "ROLE");
        say(fd, actor.line);
    }
    hear_out(fd);
}

/* The first connection's only command is not answered. */
static void too_late_then(const char *line)
{
    struct call call;

    hire(play_woken, line, 0);
    prepare_actor("");
    rig.config.limit_ms = LIMIT_MS;
    rig_open();
    rig_wait_up();
    call_send(&call, "PING");
    rig_wait_until(call.answered > 0 && rig.state_count > 2);
    assert_int_equal(rig.states[1], GUARD_REDIS_DOWN);
}

TEST(whoever_was_too_late_is_believed_when_it_has_said_twice_that_it_is_the_master, P84)
{

    too_late_then("*1\r\n$5\r\nslave\r\n");
    assert_int_equal(rig.states[2], GUARD_REDIS_REPLICA);
    assert_int_equal(rig.counters.connects, 1);
    finish_actor();
    too_late_then("*1\r\n$6\r\nmaster\r\n$0\r\n\r\n$-1\r\n");
    assert_int_equal(rig.states[2], GUARD_REDIS_UP);
    assert_int_equal(rig.counters.connects, 2);
    finish_actor();
}

static void play_message(int fd, unsigned number)
{
    char word[32];

    (void)number;
    for (unsigned i = 0; i < 5; i++) /* HELLO, CLIENT SETNAME, ROLE, INFO, SUBSCRIBE */
        if (!hear_command(fd, word, sizeof word))
            return;
    say(fd, "+OK\r\n+OK\r\n*1\r\n$6\r\nmaster\r\n$0\r\n\r\n*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    (void)!send(fd, actor.line, actor.line_bytes, MSG_NOSIGNAL);
    hear_out(fd);
}

static void expect_message(const char *line, const char *said)
{
    hire(play_message, line, strlen(line));
    prepare_actor("");
    rig.config.channel = "news";
    rig_open();
    rig_wait_until(rig.state_count > 1);
    assert_int_equal(rig.states[0], GUARD_REDIS_UP);
    assert_int_equal(rig.states[1], GUARD_REDIS_DOWN);
    assert_non_null(strstr(rig.text, said));
    assert_int_equal(rig.message_count, 0);
    finish_actor();
}

TEST(a_subscriber_takes_messages_of_its_channel_only)
{
    expect_message("*3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$1\r\nx\r\n", "not a message of the channel");
    expect_message("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n:1\r\n", "not a message of the channel");
    expect_message("*0\r\n", "not a message of the channel");
    expect_message("+PONG\r\n", "not a message of the channel");
    expect_message("-ERR no more\r\n", "ERR no more");
}

/* libuv's signal pipe is opened once per process: here, not within a test that counts descriptors. */
static bool open_once(void)
{
    uv_loop_t loop;

    return uv_loop_init(&loop) == 0 && uv_loop_close(&loop) == 0;
}

TEST_GROUP(.up = open_once);
