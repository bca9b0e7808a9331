/* SPDX-License-Identifier: MIT */
/*
 * bad_heads_test.c - heads that have fooled proxies: each is followed by a request that a server which reads the head
 * differently takes for a body. Exactly one 400 comes, or where libmicrohttpd hangs up first none, the connection
 * ends, and the hidden request is never carried out: the database and Redis show that, not the answers.
 */
#include "tests/support/probe.h"
#include "tests/support/writes.h"

#include "load/base/clock.h"
#include "load/base/net.h"
#include "tests/support/files.h"
#include "tests/support/sockets.h"
#include "tests/support/test.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ASK_LIMIT_MS = 10000, REQUEST_BYTES = 2048, ANSWER_BYTES = 4096, HIDDEN_PRODUCT = 7 };

#define HOST "Host: shop\r\n"
#define END "\r\n\r\n"
#define BYTES(text) text, sizeof(text) - 1
#define FIRST "GET /ping HTTP/1.1\r\n"
#define HEAD(line) BYTES(FIRST HOST line END)

struct head {
    const char *name, *bytes;
    size_t count;
};

static const struct head WRONG[] = {
    {"a space before the colon", HEAD("Content-Length : 135")},
    {"a tab before the colon", HEAD("Content-Length\t: 135")},
    {"a VT before the colon", HEAD("Content-Length\v: 135")},
    {"a form feed before the colon", HEAD("Content-Length\f: 135")},
    {"a space before the first name", BYTES(FIRST " Content-Length: 135\r\n" HOST "\r\n")},
    {"a tab before the first name", BYTES(FIRST "\tContent-Length: 135\r\n" HOST "\r\n")},
    {"a folded line", HEAD("X: a\r\n Content-Length: 135")},
    {"a folded length", HEAD("Content-Length:\r\n 135")},
    {"a folded encoding", HEAD("Transfer-Encoding:\r\n\tchunked")},
    {"a NUL before the colon", HEAD("Content-Length\0: 135")},
    {"a NUL before the name", HEAD("\0Content-Length: 135")},
    {"a NUL in the name", HEAD("Content\0-Length: 135")},
    {"a NUL in a value", HEAD("X: a\0b\r\nContent-Length\v: 135")},
    {"a NUL behind a value", HEAD("X: a\0\r\nY: b")},
    {"a line within NULs", HEAD("X: a\0\0Content-Length: 135")},
    {"a line within NULs, without a colon", HEAD("X: a\0\0Content-Length\0 135")},
    {"an end within NULs", HEAD("X: a\0\0\0\0Content-Length\0 135")},
    {"a line of one NUL", HEAD("\0\r\nContent-Length: 135")},
    {"a last line of one NUL", HEAD("X: a\r\n\0")},
    {"a bare CR in a value", HEAD("X: a\rContent-Length: 135")},
    {"a bare CR in a name", HEAD("X\rContent-Length: 135")},
    {"a CR more at the end of a line", HEAD("X: a\r\r\nContent-Length\v: 135")},
    {"a bare CR as the empty line", BYTES(FIRST HOST "\r\r\nContent-Length: 135\r\n\r\n")},
    {"a bare LF in a head", HEAD("X: a\nContent-Length\v: 135")},
    {"bare LFs", BYTES("GET /ping HTTP/1.1\nHost: shop\n\n")},
    {"a bare LF as the empty line", BYTES(FIRST HOST "\nContent-Length: 135\r\n\r\n")},
    {"an encoding with a VT", HEAD("Transfer-Encoding\v: chunked")},
    {"an encoding with a space", HEAD("Transfer-Encoding : chunked")},
    {"an encoding with a VT in its value", HEAD("Transfer-Encoding: \vchunked")},
    {"an encoding that is none", HEAD("Transfer-Encoding: xchunked")},
    {"an encoding of identity", HEAD("Transfer-Encoding: identity")},
    {"an encoding without one", HEAD("Transfer-Encoding:")},
    {"two encodings", HEAD("Transfer-Encoding: chunked, identity")},
    {"two lines of encodings", HEAD("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked")},
    {"chunks and a length", HEAD("Content-Length: 135\r\nTransfer-Encoding: chunked")},
    {"a length and a wrong encoding", HEAD("Content-Length: 0\r\nTransfer-Encoding\v: chunked")},
    {"two lengths", HEAD("Content-Length: 0\r\nContent-Length: 135")},
    {"two lengths that agree", HEAD("Content-Length: 0\r\nContent-Length: 0")},
    {"a list of lengths", HEAD("Content-Length: 0, 135")},
    {"a length with a sign", HEAD("Content-Length: +135")},
    {"a length below 0", HEAD("Content-Length: -135")},
    {"a length in hexadecimal", HEAD("Content-Length: 0x87")},
    {"a length and a half", HEAD("Content-Length: 13.5")},
    {"a length with a space within", HEAD("Content-Length: 1 35")},
    {"no length", HEAD("Content-Length:")},
    {"a length of words", HEAD("Content-Length: many")},
    {"no name", HEAD(": 135")},
    {"no colon", HEAD("Content-Length 135")},
    {"a name with a slash", HEAD("Content/Length: 135")},
    {"a name beyond ASCII", HEAD("Content-Length\xa0: 135")},
    {"a control character in a value", HEAD("X: \x01")},
    {"a DEL in a value", HEAD("X: \x7f")},
    {"two spaces in the request line", BYTES("GET  /ping HTTP/1.1\r\n" HOST "\r\n")},
    {"a tab in the method", BYTES("GET\t/ping /ping HTTP/1.1\r\n" HOST "\r\n")},
    {"a NUL in the method", BYTES("GET\0 /ping HTTP/1.1\r\n" HOST "\r\n")},
    {"a NUL in the target", BYTES("GET /ping\0 HTTP/1.1\r\n" HOST "\r\n")},
    {"a space in the target", BYTES("GET /ping /ping HTTP/1.1\r\n" HOST "\r\n")},
    {"two versions", BYTES("GET /ping HTTP/1.1 HTTP/1.1\r\n" HOST "\r\n")},
    {"a tab in the target", BYTES("GET /ping\tHTTP/1.1 HTTP/1.1\r\n" HOST "\r\n")},
    {"a CR in the target", BYTES("GET /ping\r HTTP/1.1\r\n" HOST "\r\n")},
    {"an encoding of an older client", BYTES("GET /ping HTTP/1.0\r\nTransfer-Encoding: chunked" END)},
};
enum { WRONG_COUNT = sizeof WRONG / sizeof *WRONG };

static const struct head UNUSUAL[] = {
    {"no header of an older client", BYTES("GET /ping HTTP/1.0\r\n\r\n")},
    {"a name of every character", HEAD("!#$%&'*+-.^_`|~09azAZ: a")},
    {"an empty value", HEAD("X:")},
    {"no space behind the colon", HEAD("X:a")},
    {"tabs and spaces around a value", HEAD("X: \t a \t")},
    {"a tab within a value", HEAD("X: a\tb")},
    {"colons in a value", HEAD("X: a:b:c")},
    {"a value beyond ASCII", HEAD("X: \xc3\xa4\xff")},
    {"a length of 0", HEAD("Content-Length: 0")},
    {"an empty line before it", BYTES("\r\n" FIRST HOST "\r\n")},
};

/* ---- sending ---- */

/* Until the server closes; false: it did not. A reset may have taken the rest of its answer along. */
static bool read_all(int fd, char out[static ANSWER_BYTES])
{
    uint64_t end_us = clock_after_ms(ASK_LIMIT_MS);
    size_t count = 0;
    ssize_t got = 1;
    while (got > 0 && count < ANSWER_BYTES - 1 && net_wait(fd, POLLIN, end_us)) {
        got = recv(fd, out + count, ANSWER_BYTES - 1 - count, 0);
        count += got > 0 ? (size_t)got : 0;
    }
    out[count] = '\0';
    return got <= 0;
}

/* `piece_bytes` at a time: what is cut is judged like what comes at once. */
static bool ask(uint16_t port, const char *bytes, size_t count, size_t piece_bytes,
                char out[static ANSWER_BYTES])
{
    const int on = 1, fd = socket_connect(port, 0);
    bool taken = true;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (size_t sent = 0; sent < count && taken; sent += piece_bytes) {
        size_t left = count - sent;
        taken = send(fd, bytes + sent, left < piece_bytes ? left : piece_bytes, MSG_NOSIGNAL) > 0;
    }
    bool closed = read_all(fd, out);
    close(fd);
    return closed;
}

/* libmicrohttpd 1.0 does, without an answer. */
static bool hangs_up(const struct head *head)
{
    const size_t line_bytes = (size_t)((const char *)memchr(head->bytes, '\n', head->count) - head->bytes);
    return memchr(head->bytes, '\0', line_bytes) != NULL && MHD_VERSION >= 0x01000000;
}

/* With what was never read still in its socket the server's end is a reset, which may overtake the answer to one who
 * is still sending; nothing but the answer may be missing. */
static bool is_refused(uint16_t port, const struct head *head, const char *hidden, size_t piece_bytes)
{
    char request[REQUEST_BYTES], answer[ANSWER_BYTES];
    size_t hidden_bytes = strlen(hidden);
    memcpy(request, head->bytes, head->count);
    memcpy(request + head->count, hidden, hidden_bytes);
    bool closed = ask(port, request, head->count + hidden_bytes, piece_bytes, answer);
    bool lost = answer[0] == '\0' && piece_bytes < REQUEST_BYTES;
    bool silent = hangs_up(head);
    bool right = silent ? answer[0] == '\0'
                        : strncmp(answer, "HTTP/1.1 400 ", 13) == 0 && text_times(answer, "HTTP/1.") == 1;
    if (closed && (lost || right))
        return true;
    print_error("%s, in pieces of %zu: %s%s\n", head->name, piece_bytes, answer,
                closed ? "" : " (left open)");
    return false;
}

static void assert_all_refused(uint16_t port, const char *hidden)
{
    static const size_t pieces[] = {REQUEST_BYTES, 1, 33};
    unsigned taken = 0;
    for (size_t i = 0; i < WRONG_COUNT * (sizeof pieces / sizeof *pieces); i++)
        taken += !is_refused(port, &WRONG[i % WRONG_COUNT], hidden, pieces[i / WRONG_COUNT]);
    assert_int_equal(taken, 0);
}

/* ---- the tests ---- */

#define PURCHASE                                                                                             \
    "POST /products/7/purchase HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\nContent-Length: " \
    "14\r\n"                                                                                                 \
    "Connection: close\r\n\r\n{\"quantity\":1}"
_Static_assert(sizeof(PURCHASE) - 1 == 135, "the heads announce it");

TEST(what_a_wrong_head_hides_is_never_carried_out, P90, P91)
{
    assert_true(fleet_start(1, writes_settings(NULL)));
    long stock = writes_number("SELECT stock FROM products WHERE id = %d", HIDDEN_PRODUCT);
    fleet_mark();
    assert_all_refused(fleet.catalogd[0].port, PURCHASE);
    assert_int_equal(fleet_loads("/* purchase product */"), 0);
    assert_int_equal(writes_number("SELECT stock FROM products WHERE id = %d", HIDDEN_PRODUCT), stock);
    assert_int_equal(fleet_metric(0, "catalogd_writes_total{outcome=\"done\"}"), 0);
    char answer[ANSWER_BYTES];
    assert_true(ask(fleet.catalogd[0].port, BYTES(PURCHASE), REQUEST_BYTES, answer));
    assert_int_equal(fleet_loads("/* purchase product */"), 1); /* by itself it is one */
}

/* The same heads to those who operate it; there an invalidation is what must not happen. */
TEST(the_operations_listener_judges_heads_likewise, P90, P91)
{
    static const char invalidation[] =
        "POST /invalidate?key=product:7 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
        "Connection: close\r\n\r\n";
    assert_true(fleet_start(1, NULL));
    assert_int_equal(fleet_ask_status(0, "/products/7"), 200);
    assert_true(probe_wait_for(HIDDEN_PRODUCT));
    assert_all_refused(fleet.catalogd[0].ops_port, invalidation);
    assert_true(probe_has(HIDDEN_PRODUCT));
    char answer[ANSWER_BYTES];
    assert_true(ask(fleet.catalogd[0].ops_port, BYTES(invalidation), REQUEST_BYTES, answer));
    assert_false(probe_has(HIDDEN_PRODUCT)); /* by itself it is one */
}

TEST(what_is_unusual_and_right_is_answered, P90)
{
    static const char last[] = "GET /ping HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n";
    assert_true(fleet_start(1, NULL));
    for (size_t i = 0; i < sizeof UNUSUAL / sizeof *UNUSUAL; i++) {
        char request[REQUEST_BYTES], answer[ANSWER_BYTES];
        bool older = strstr(UNUSUAL[i].bytes, "HTTP/1.0") != NULL;
        memcpy(request, UNUSUAL[i].bytes, UNUSUAL[i].count);
        memcpy(request + UNUSUAL[i].count, BYTES(last));
        bool closed =
            ask(fleet.catalogd[0].port, request, UNUSUAL[i].count + sizeof last - 1, REQUEST_BYTES, answer);
        if (!closed || text_times(answer, " 200 OK\r\n") != (older ? 1 : 2) ||
            text_times(answer, "HTTP/1.1 4") != 0)
            fail_msg("%s: %s", UNUSUAL[i].name, answer);
    }
}

TEST_GROUP(.up = writes_up, .down = fleet_down, .after = fleet_end);
