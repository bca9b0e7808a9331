/* SPDX-License-Identifier: MIT */
/*
 * stalls_test.c - a process that stands still, and what it then thinks of its clients: its own stall is not held
 * against them, and what has arrived meanwhile is answered.
 *
 * It is stopped (SIGSTOP), its clocks leap (tests/chaos/clock_shim.c), and it goes on: no test waits for a limit.
 */
#include "load/base/clock.h"
#include "load/base/net.h"
#include "tests/support/sockets.h"
#include "tests/support/test.h"
#include "tests/support/writes.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ASK_LIMIT_MS = 10000, IDLE_LIMIT_S = 60, BODY_LIMIT_S = 5, LEAP_MORE_S = 1 };

#define PING "GET /ping HTTP/1.1\r\nHost: shop\r\n\r\n"

/* ---- a process whose clocks leap ---- */

/* As clock_shim.c has them: the wall clock and those that only run. */
static struct {
    char folder[PROC_PATH_BYTES];
    _Atomic int64_t *offsets_s; /* mapped */
} leap;

static bool leap_open(void)
{
    const int64_t none[2] = {0, 0};
    char path[PROC_PATH_BYTES + 16];
    if (!proc_folder("clock", NULL, leap.folder))
        return false;
    snprintf(path, sizeof path, "%s/clock", leap.folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *map = fd != -1 && write(fd, none, sizeof none) == sizeof none
                    ? mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                    : MAP_FAILED;
    net_shut(&fd);
    leap.offsets_s = map != MAP_FAILED ? map : NULL;
    return leap.offsets_s != NULL;
}

/* One loop: whoever is answered by it knows that it has gone on. */
static void start_process(void)
{
    char shim[PATH_MAX], preload[PATH_MAX + 16], clock[PROC_PATH_BYTES + 40], sanitizer[256];
    const char *others = getenv("ASAN_OPTIONS");
    if (realpath(getenv("CHAOS_SHIM") != NULL ? getenv("CHAOS_SHIM") : "", shim) == NULL)
        fail_msg("CHAOS_SHIM names no library: make test sets it");
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", shim);
    snprintf(clock, sizeof clock, "CHAOS_CLOCK_FILE=%s/clock", leap.folder);
    /* it wants to be the first of all libraries */
    snprintf(sanitizer, sizeof sanitizer, "ASAN_OPTIONS=verify_asan_link_order=0:%s",
             others != NULL ? others : "");
    assert_true(
        fleet_start(1, writes_settings((const char *[]){"SERVER_LOOPS=1", preload, clock, sanitizer, NULL})));
}

/* It stood still for so long. */
static void go_on_after(int64_t stall_s)
{
    atomic_fetch_add(&leap.offsets_s[1], stall_s);
    proc_resume(fleet.catalogd[0].pid);
}

/* ---- a client ---- */

/* The status of the one answer that has been asked for; 0: the connection has ended. */
static unsigned hear(int fd)
{
    char text[4096];
    assert_true(net_wait(fd, POLLIN, clock_after_ms(ASK_LIMIT_MS)));
    ssize_t got = recv(fd, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    return strncmp(text, "HTTP/1.1 ", 9) == 0 ? (unsigned)strtoul(text + 9, NULL, 10) : 0;
}

/* A body of which the process has the head alone. */
static int begin_upload(void)
{
    int fd = socket_connect(fleet.catalogd[0].port, 0);
    socket_say(fd,
               "PUT /products/9 HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\nIf-Match: *\r\n"
               "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_int_equal(hear(fd), 100);
    return fd;
}

/* ---- what has arrived meanwhile ---- */

TEST(a_request_that_came_during_a_stall_is_answered_however_long_its_client_was_idle, P60)
{
    start_process();
    int fd = socket_connect(fleet.catalogd[0].port, 0);
    socket_say(fd, PING);
    assert_int_equal(hear(fd), 200);
    proc_pause(fleet.catalogd[0].pid);
    socket_say(fd, PING);
    go_on_after(IDLE_LIMIT_S + LEAP_MORE_S);
    assert_int_equal(hear(fd), 200);
    close(fd);
}

TEST(a_body_that_came_during_a_stall_is_taken, P60)
{
    start_process();
    int fd = begin_upload();
    proc_pause(fleet.catalogd[0].pid);
    socket_say(fd, "[]");
    go_on_after(BODY_LIMIT_S + LEAP_MORE_S);
    assert_int_equal(hear(fd), 400);
    close(fd);
}

/* ---- what arrives behind it ---- */

/* When the last ping is answered it has looked at everybody's time. */
TEST(a_body_that_was_on_its_way_before_a_stall_has_its_time_behind_it, P60)
{
    start_process();
    int fd = begin_upload();
    proc_pause(fleet.catalogd[0].pid);
    go_on_after(BODY_LIMIT_S + LEAP_MORE_S);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fleet_ask_status(0, "/ping"), 200);
    socket_say(fd, "[]");
    assert_int_equal(hear(fd), 400);
    close(fd);
}

static bool up(void)
{
    return leap_open() && writes_up();
}

TEST_GROUP(.up = up, .down = fleet_down, .after = fleet_end);
