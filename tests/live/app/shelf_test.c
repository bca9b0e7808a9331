/* SPDX-License-Identifier: MIT */
/*
 * shelf_test.c - prepared responses over libmicrohttpd and sockets: each byte as in an answer that was made for its
 * request alone, never another value, never more memory than stated.
 *
 * The daemon runs in the test's own thread, as in a server loop. What the guard would have answered is the test's to
 * say.
 */
#include "app/http/reply.h"
#include "guard/base/value.h"
#include "tests/support/sockets.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRESH_MS = 60000, PATIENCE = 100000, ANSWER_BYTES = 1 << 20, SOCKETS = 2 };
enum { MOST_BYTES = 32 << 20, VALUE_BYTES = MOST_BYTES / SHELF_VALUE_SHARE };

static const struct route SEVEN = {.target = ROUTE_PRODUCT, .id = 7};

/* ---- a server of one thread ---- */

static struct {
    struct MHD_Daemon *daemon;
    struct shelf shelf;
    int clients[SOCKETS];
    /* what the next requests get */
    struct guard_result result;
    struct route route;
    bool is_prepared, held;
    uint32_t grows_ms;          /* from answer to answer */
    struct MHD_Response *found; /* by the latest request; NULL: none */
    unsigned queued;            /* of them, prepared */
} server;

static enum MHD_Result answer_made(struct MHD_Connection *connection)
{
    struct answer answer;
    unsigned status;

    answer_from_result(&server.result, NULL, FRESH_MS, &answer);
    return reply_queue(connection, &answer, &status) ? MHD_YES : MHD_NO;
}

static struct shelf_wish wish(bool held)
{
    return (struct shelf_wish){
        .result = &server.result, .route = &server.route, .fresh_ms = FRESH_MS, .held = held};
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *body, size_t *body_bytes,
                              void **slot)
{
    const bool conditional =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH) != NULL;
    struct shelf_wish wanted = wish(conditional);
    unsigned status;

    (void)context, (void)path, (void)method, (void)version, (void)body, (void)body_bytes;
    if (*slot == NULL) {
        *slot = &server; /* an answer to the first call would close the connection */
        return MHD_YES;
    }
    *slot = NULL;
    if (server.is_prepared)
        shelf_expect(&server.shelf, &server.route);
    struct prepared *item =
        server.is_prepared ? reply_queue_prepared(connection, &server.shelf, &wanted, &status) : NULL;
    const bool queued = item != NULL;
    server.queued += queued;
    *slot = item;
    const enum MHD_Result result = queued ? MHD_YES : answer_made(connection);
    server.result.age_ms += server.grows_ms;
    return result;
}

static void completed(void *context, struct MHD_Connection *connection, void **slot,
                      enum MHD_RequestTerminationCode code)
{
    (void)context, (void)connection, (void)code;
    if (*slot != &server)
        shelf_sent((struct prepared **)slot);
}

static int client_open(uint16_t port)
{
    const int fd = socket_connect(port, 0);

    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static bool open_server(void)
{
    memset(&server, 0, sizeof(server));
    server.shelf.seed = 20261123;
    server.shelf.bytes_max = MOST_BYTES;
    server.route = SEVEN;
    server.daemon =
        MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, handle, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)8192, MHD_OPTION_NOTIFY_COMPLETED, completed, NULL, MHD_OPTION_END);
    assert_non_null(server.daemon);
    const uint16_t port = MHD_get_daemon_info(server.daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    for (size_t i = 0; i < SOCKETS; i++)
        server.clients[i] = client_open(port);
    return true;
}

static bool close_server(void)
{
    for (size_t i = 0; i < SOCKETS; i++)
        close(server.clients[i]);
    shelf_clear(&server.shelf);
    if (server.daemon != NULL)
        MHD_stop_daemon(server.daemon);
    guard_value_unref(&server.result.value);
    return true;
}

static void say(size_t client, const char *request)
{
    assert_int_equal(send(server.clients[client], request, strlen(request), 0), strlen(request));
}

/* All of one answer, without its date, which may be another second's; to be freed. */
static char *hear(size_t client, bool has_body)
{
    static char text[ANSWER_BYTES + 1];
    size_t bytes = 0, needed = 0;

    for (unsigned tries = 0; needed == 0 || bytes < needed; tries++) {
        assert_true(tries < PATIENCE);
        MHD_run(server.daemon);
        const size_t most = needed == 0 ? sizeof(text) - 1 : needed;
        const ssize_t more =
            recv(server.clients[client], text + bytes, most - bytes, needed == 0 ? MSG_PEEK : 0);
        text[bytes + (more > 0 ? (size_t)more : 0)] = '\0';
        bytes += needed > 0 && more > 0 ? (size_t)more : 0;
        const char *end = strstr(text, "\r\n\r\n"), *length = strstr(text, "Content-Length: ");
        if (end != NULL && needed == 0)
            needed = (size_t)(end + 4 - text) + (has_body ? strtoul(length + 16, NULL, 10) : 0);
    }
    char *date = strstr(text, "Date: "), *rest = strstr(date, "\r\n") + 2;
    memmove(date, rest, bytes - (size_t)(rest - text) + 1);
    char *copy = malloc(bytes - (size_t)(rest - date) + 1);
    assert_non_null(copy);
    return memcpy(copy, text, bytes - (size_t)(rest - date) + 1);
}

static char *ask(const char *request)
{
    const bool has_body = strncmp(request, "HEAD", 4) != 0 && strstr(request, "If-None-Match: *") == NULL &&
                          strstr(request, "\"v1\"") == NULL;

    say(0, request);
    return hear(0, has_body);
}

#define GET "GET / HTTP/1.1\r\nHost: shop\r\n\r\n"

/* ---- values ---- */

static void answer_with(const char *body, size_t body_bytes, const char *validator, enum guard_source source)
{
    guard_value_unref(&server.result.value);
    server.result = (struct guard_result){
        .status = GUARD_OK,
        .source = source,
        .value = &value_new(body, body_bytes, validator, strlen(validator), NULL, 0)->public,
        .age_ms = 3000,
        .left_ms = 57000,
        .stored = true,
        .load = UINT64_C(0x3f0a6c2d8b7e4f11),
    };
    assert_non_null(server.result.value);
}

static struct MHD_Response *look(void)
{
    const struct shelf_wish wanted = wish(false);
    struct prepared *item = shelf_find(&server.shelf, &wanted);
    struct MHD_Response *response = item != NULL ? shelf_response(item) : NULL;

    shelf_sent(&item);
    return response;
}

/* The second time at the latest. */
static struct MHD_Response *prepare(void)
{
    struct MHD_Response *response = look();

    if (response == NULL)
        response = look();
    assert_non_null(response);
    return response;
}

/* ---- the same bytes ---- */

/* The first, the second and two more prepared, each against a made one. */
static void assert_same(const char *request)
{
    server.is_prepared = false;
    char *made = ask(request);
    server.is_prepared = true;
    server.queued = 0;
    for (unsigned i = 0; i < 4; i++) {
        char *prepared = ask(request);

        assert_string_equal(prepared, made);
        free(prepared);
    }
    assert_true(server.queued >= 2);
    free(made);
}

TEST(every_kind_of_answer_has_the_bytes_of_one_that_was_made_for_it)
{
    static const char *const requests[] = {
        GET,
        "HEAD / HTTP/1.1\r\nHost: shop\r\n\r\n",
        "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: shop\r\nRange: bytes=0-1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: shop\r\nIf-None-Match: \"v1\"\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: shop\r\nIf-None-Match: \"v0\"\r\nIf-None-Match: W/\"v1\"\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: shop\r\nIf-None-Match: *\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: shop\r\nIf-None-Match: \"v0\"\r\n\r\n",
    };
    static const enum guard_source sources[] = {GUARD_FROM_LOAD,  GUARD_FROM_FLIGHT, GUARD_FROM_FLEET,
                                                GUARD_FROM_CACHE, GUARD_FROM_NEAR,   GUARD_FROM_STALE};

    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        for (size_t k = 0; k < sizeof(requests) / sizeof(requests[0]) * 2; k++) {
            answer_with("{\"id\":7}", 8, "v1", sources[i]);
            server.result.stored = k % 2 == 0;
            server.result.load = k % 5 == 0 ? 0 : server.result.load;
            assert_same(requests[k / 2]);
        }
    }
}

TEST(a_value_without_an_etag_or_a_body_is_prepared_too)
{
    answer_with("", 0, "", GUARD_FROM_NEAR);
    assert_same(GET);
    answer_with("[]", 2, "no etag", GUARD_FROM_NEAR);
    assert_same(GET);
}

TEST(ages_and_what_is_left_grow_and_lose_digits)
{
    static const uint32_t seconds[] = {0, 1, 9, 10, 11, 99, 100, 9, 101, 3599, 4294967};
    static const enum guard_source sources[] = {GUARD_FROM_NEAR, GUARD_FROM_STALE, GUARD_FROM_CACHE};

    for (size_t i = 0; i < 3; i++) {
        answer_with("{}", 2, "v1", sources[i]);
        for (size_t k = 0; k < sizeof(seconds) / sizeof(seconds[0]); k++) {
            server.result.age_ms = seconds[k] * 1000;
            server.result.left_ms = seconds[sizeof(seconds) / sizeof(seconds[0]) - 1 - k] * 1000;
            server.is_prepared = false;
            char *made = ask(GET);
            server.is_prepared = true;
            for (unsigned n = 0; n < 3; n++) {
                char *prepared = ask(GET);

                assert_string_equal(prepared, made);
                free(prepared);
            }
            free(made);
        }
    }
}

TEST(answers_of_one_turn_have_each_its_age)
{
    answer_with("{}", 2, "v1", GUARD_FROM_NEAR);
    prepare();
    server.is_prepared = true;
    server.grows_ms = 1000;
    say(0, GET);
    say(1, GET);
    char *one = hear(0, true), *other = hear(1, true);
    assert_int_equal(server.queued, 2);
    const bool first = strstr(one, "Age: 3\r\n") != NULL;
    assert_non_null(strstr(one, first ? "Age: 3\r\n" : "Age: 4\r\n"));
    assert_non_null(strstr(other, first ? "Age: 4\r\n" : "Age: 3\r\n"));
    free(one);
    free(other);
}

/* ---- one response for all that say the same ---- */

TEST(only_what_is_seen_a_second_time_is_prepared)
{
    enum { SCANNED = 20000 };
    answer_with("{}", 2, "v1", GUARD_FROM_CACHE);
    unsigned prepared = 0;
    for (uint64_t id = 1; id <= SCANNED; id++) {
        server.route.id = id;
        prepared += look() != NULL;
    }
    assert_true(prepared <= SCANNED / 1000);
    server.route.id = SCANNED + 1;
    assert_null(look());
    assert_non_null(look());
}

TEST(a_near_value_was_seen_when_it_came_from_redis)
{
    answer_with("{}", 2, "v1", GUARD_FROM_NEAR);
    assert_non_null(look());
}

TEST(a_response_stays_while_only_digits_change)
{
    answer_with("{}", 2, "v1", GUARD_FROM_NEAR);
    struct MHD_Response *response = prepare();
    server.result.age_ms += 999;
    server.result.left_ms += 999;
    assert_ptr_equal(look(), response);
    server.result.age_ms++;
    assert_ptr_equal(look(), response); /* with other lines: nobody is being sent it */
}

TEST(the_same_value_looked_up_again_finds_it)
{
    answer_with("{\"id\":7}", 8, "v1", GUARD_FROM_CACHE);
    struct MHD_Response *response = prepare();
    answer_with("{\"id\":7}", 8, "v1", GUARD_FROM_CACHE);
    assert_ptr_equal(look(), response);
}

TEST(one_answer_in_other_words_does_not_displace_it)
{
    answer_with("{}", 2, "v1", GUARD_FROM_NEAR);
    struct MHD_Response *response = prepare();
    server.result.source = GUARD_FROM_CACHE;
    assert_null(look());
    server.result.source = GUARD_FROM_NEAR;
    assert_ptr_equal(look(), response);
    server.result.source = GUARD_FROM_CACHE;
    prepare();
}

/* ---- never another value ---- */

TEST(another_value_finds_nothing_and_takes_the_place)
{
    static const struct {
        const char *body, *validator;
        uint64_t load;
    } others[] = {{"[1]", "v2", 5}, {"[2]", "v1", 5}, {"[11]", "v1", 5}, {"[1]", "v1", 6}, {"[1]", "", 5}};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        shelf_clear(&server.shelf);
        answer_with("[1]", 3, "v1", GUARD_FROM_NEAR);
        server.result.load = 5;
        prepare();
        answer_with(others[i].body, strlen(others[i].body), others[i].validator, GUARD_FROM_NEAR);
        server.result.load = others[i].load;
        assert_null(look());
        prepare();
        assert_same(GET);
        const size_t bytes = server.shelf.bytes;
        answer_with("[1]", 3, "v1", GUARD_FROM_NEAR);
        server.result.load = 5;
        assert_null(look());
        prepare();
        assert_in_range(bytes, server.shelf.bytes - 64, server.shelf.bytes + 64); /* one for each key */
    }
}

TEST(two_keys_never_share_an_answer)
{
    answer_with("[1]", 3, "v1", GUARD_FROM_NEAR);
    prepare();
    const struct route others[] = {{.target = ROUTE_PRODUCT, .id = 8},
                                   {.target = ROUTE_CATEGORY, .id = 7},
                                   {.target = ROUTE_PRODUCT, .id = 7, .after = 1}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        answer_with("[2]", 3, "v1", GUARD_FROM_NEAR);
        server.route = others[i];
        prepare();
        assert_same(GET);
    }
}

TEST(a_long_body_is_the_same_only_as_the_same_object)
{
    char *body = calloc(1, SHELF_COMPARED_MAX + 1);
    assert_non_null(body);
    answer_with(body, SHELF_COMPARED_MAX + 1, "v1", GUARD_FROM_NEAR);
    struct MHD_Response *response = prepare();
    assert_ptr_equal(look(), response);
    answer_with(body, SHELF_COMPARED_MAX + 1, "v1", GUARD_FROM_NEAR);
    assert_null(look());
    free(body);
}

/* ---- memory ---- */

TEST(what_is_being_sent_outlives_the_shelf)
{
    enum { LONG = VALUE_BYTES, ANSWERS = 60 };
    char *body = malloc(LONG);
    assert_non_null(body);
    memset(body, 'x', LONG);
    answer_with(body, LONG, "v1", GUARD_FROM_NEAR);
    prepare();
    server.is_prepared = true;
    for (unsigned i = 0; i < ANSWERS; i++) /* more of them than the socket takes */
        say(0, GET);
    for (unsigned i = 0; i < 100; i++)
        MHD_run(server.daemon);
    assert_in_range(server.queued, 1, ANSWERS - 1);
    answer_with("new", 3, "v2", GUARD_FROM_NEAR);
    prepare();
    shelf_clear(&server.shelf);
    for (unsigned i = server.queued; i > 0; i--) {
        char *answer = hear(0, true);

        assert_int_equal(strlen(strstr(answer, "\r\n\r\n") + 4), LONG);
        assert_memory_equal(strstr(answer, "\r\n\r\n") + 4, body, LONG);
        free(answer);
    }
    char *answer = hear(0, true);
    assert_string_equal(strstr(answer, "\r\n\r\n") + 4, "new");
    free(answer);
    free(body);
}

static unsigned refs(void)
{
    return atomic_load(&value_behind(server.result.value)->refs);
}

TEST(a_cleared_shelf_holds_no_value)
{
    answer_with("{}", 2, "v1", GUARD_FROM_NEAR);
    assert_int_equal(refs(), 1);
    prepare();
    assert_int_equal(refs(), 2);
    shelf_clear(&server.shelf);
    assert_int_equal(refs(), 1);
    assert_int_equal(server.shelf.bytes, 0);
    prepare();
}

/* What malloc() itself says; a sanitizer's says nothing. */
static size_t heap_bytes(void)
{
    const struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

TEST(it_never_takes_more_memory_than_stated)
{
    static const size_t sizes[] = {0, 500, 5000, VALUE_BYTES};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *body = calloc(1, sizes[i] + 1);
        const size_t before = heap_bytes();

        assert_non_null(body);
        for (uint64_t id = 1; id <= 60000 && sizes[i] * id < 4 * (size_t)MOST_BYTES; id++) {
            answer_with(body, sizes[i], "validator-of-a-usual-length", GUARD_FROM_NEAR);
            server.route.id = id;
            look();
            look();
            assert_true(server.shelf.bytes <= MOST_BYTES);
        }
        assert_true(server.shelf.bytes > MOST_BYTES / 10 * 9);
        assert_true(heap_bytes() <= before + MOST_BYTES + MOST_BYTES / 16);
        shelf_clear(&server.shelf);
        free(body);
    }
}

TEST(without_room_nothing_is_kept)
{
    server.shelf.bytes_max = 0;
    answer_with("", 0, "v1", GUARD_FROM_NEAR);
    for (unsigned i = 0; i < 4; i++)
        assert_null(look());
    assert_null(server.shelf.places);
}

TEST(a_value_beyond_its_share_is_not_kept)
{
    char *body = calloc(1, VALUE_BYTES + 1);
    assert_non_null(body);
    answer_with(body, VALUE_BYTES + 1, "v1", GUARD_FROM_NEAR);
    for (unsigned i = 0; i < 4; i++)
        assert_null(look());
    assert_int_equal(server.shelf.bytes, 0);
    free(body);
}

TEST(what_is_asked_for_stays_when_room_is_made)
{
    char *body = calloc(1, VALUE_BYTES);
    assert_non_null(body);
    answer_with("{}", 2, "v1", GUARD_FROM_NEAR);
    const struct guard_result hot = server.result;
    struct MHD_Response *response = prepare();
    const struct prepared *oldest = server.shelf.queue;
    server.result.value = NULL;
    for (uint64_t id = 100; id < 100 + 2 * MOST_BYTES / VALUE_BYTES; id++) {
        const struct guard_result cold = server.result;

        server.result = hot;
        server.route = SEVEN;
        assert_ptr_equal(look(), response);
        server.result = cold;
        answer_with(body, VALUE_BYTES, "v1", GUARD_FROM_NEAR);
        server.route.id = id;
        assert_non_null(look());
    }
    assert_ptr_equal(server.shelf.queue, oldest); /* one that was made again would be the newest */
    const struct guard_value *value = hot.value;
    guard_value_unref(&value);
    free(body);
}

TEST_GROUP(.before = open_server, .after = close_server);
