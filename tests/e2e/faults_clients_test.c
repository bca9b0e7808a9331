/* SPDX-License-Identifier: MIT */
/*
 * faults_clients_test.c - clients that leave, that do not read, and very many of them.
 *
 * A client of its own (struct lone) is a socket that asks and is then at the test's mercy: it hangs up or
 * does not read when the test says so, not when a clock does.
 */
#include "tests/support/probe.h"

#include "load/base/clock.h"
#include "load/base/net.h"
#include "tests/support/sockets.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CROWD = 10000,
    CROWD_DESCRIPTORS = CROWD + 200,
    WAITER_BYTES = 10 * 1024,
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

/* ---- a client of its own ---- */

struct lone {
    int fd;
    size_t sent, answers; /* bytes written; whole answers read */
};

static struct lone lone_connect(size_t process, int receive_bytes)
{
    return (struct lone){.fd = socket_connect(fleet.catalogd[process].port, receive_bytes)};
}

static size_t lone_request(const char *path, char *text, size_t text_bytes)
{
    return (size_t)snprintf(text, text_bytes, "GET %s HTTP/1.1\r\nHost: shop\r\n\r\n", path);
}

static void lone_ask(struct lone *lone, const char *path)
{
    char text[BURST_PATH_BYTES + 64];
    lone_request(path, text, sizeof text);
    socket_say(lone->fd, text);
}

/* Reads what comes until `wanted` answers have begun. */
static void lone_read(struct lone *lone, size_t wanted)
{
    static char text[1 << 16];
    static const char status_line[] = "HTTP/1.1 200 OK\r\n";
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    size_t kept = 0; /* a status line may be cut */
    while (lone->answers < wanted) {
        assert_true(net_wait(lone->fd, POLLIN, end_us));
        ssize_t got = recv(lone->fd, text + kept, sizeof text - 1 - kept, 0);
        assert_true(got > 0);
        size_t count = kept + (size_t)got;
        const char *at = text, *end = text + count, *found;
        while ((found = memmem(at, (size_t)(end - at), status_line, sizeof status_line - 1)) != NULL) {
            lone->answers++;
            at = found + sizeof status_line - 1;
        }
        kept = (size_t)(end - at) < sizeof status_line - 2 ? (size_t)(end - at) : sizeof status_line - 2;
        memmove(text, end - kept, kept);
    }
}

static void lone_hang_up(struct lone *lone)
{
    close(lone->fd);
    lone->fd = -1;
}

/* ---- those who leave ---- */

static const char *const one_loop[] = {"SERVER_LOOPS=1", NULL};
static const char *const patient[] = {"SERVER_LOOPS=1", "REDIS_LIMIT_MS=1000", NULL};

static void lone_reset(struct lone *lone)
{
    const struct linger at_once = {.l_onoff = 1};
    assert_int_equal(setsockopt(lone->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    lone_hang_up(lone);
}

/* In each round one leaves while Redis has its question, in the moment in which another asks: the guard's last word
 * to the first may come before libmicrohttpd has closed its connection. */
TEST(a_client_that_resets_beside_anothers_request_leaves_nothing_behind, P58)
{
    enum { ROUNDS = 300 };
    char path[BURST_PATH_BYTES];
    assert_true(fleet_start(1, one_loop));
    fleet_cold_product(path);
    struct lone stays = lone_connect(0, 0);
    for (size_t i = 0; i < ROUNDS; i++) {
        struct lone leaves = lone_connect(0, 0);
        lone_ask(&leaves, "/ping");
        lone_read(&leaves, 1); /* it is accepted */
        lone_ask(&leaves, path);
        if (i % 2 == 0)
            lone_ask(&stays, path);
        lone_reset(&leaves);
        if (i % 2 != 0)
            lone_ask(&stays, path);
        lone_read(&stays, i + 1);
    }
    lone_hang_up(&stays);
    assert_true(probe_wait_quiet(0));
}

static bool has_an_answer(const struct lone *lone)
{
    struct pollfd fd = {.fd = lone->fd, .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

TEST(a_request_that_waits_for_redis_holds_up_no_other, P60)
{
    char path[BURST_PATH_BYTES], other[BURST_PATH_BYTES];
    assert_true(fleet_start(1, patient));
    fleet_cold_product(path);
    fleet_cold_product(other);
    struct lone first = lone_connect(0, 0), second = lone_connect(0, 0), pings = lone_connect(0, 0);
    stack_redis_pause(&fleet.redis);
    lone_ask(&first, path);
    lone_ask(&pings, "/ping");
    lone_read(&pings, 1);
    lone_ask(&second, other);
    lone_ask(&pings, "/ping");
    lone_read(&pings, 2);
    assert_false(has_an_answer(&first) || has_an_answer(&second));
    stack_redis_resume(&fleet.redis);
    lone_read(&first, 1);
    lone_read(&second, 1);
    lone_hang_up(&first);
    lone_hang_up(&second);
    lone_hang_up(&pings);
}

/* ---- those who do not read ---- */

/* ---- large documents that nobody reads ---- */

enum {
    LARGE_IDS = 100,
    LARGE_BYTES = 5 << 20, /* each document is larger */
    UNREAD = 60,
    UNREAD_KIB =
        96 << 10, /* the budget of a loop, what one answer is made of, and what malloc() keeps of them */
};

/* A hundred products as large as they may be, and what a document of them looks like. */
static void ask_for_large(char path[BURST_PATH_BYTES], struct http_answer *first)
{
    uint32_t product = fleet.next_product;
    fleet.next_product += LARGE_IDS;
    assert_true(fleet_sql(
        NULL, 0, "UPDATE products SET description = repeat(U&'\\20AC', 20000) WHERE id >= %u AND id < %u",
        product, product + LARGE_IDS));
    size_t used = (size_t)snprintf(path, BURST_PATH_BYTES, "/products?ids=%u", product);
    for (uint32_t i = 1; i < LARGE_IDS; i++)
        used += (size_t)snprintf(path + used, BURST_PATH_BYTES - used, ",%u", product + i);
    assert_true(used < BURST_PATH_BYTES);
    assert_true(fleet_ask(0, NULL, path, first));
    assert_int_equal(first->status, 200);
    assert_true(first->body_bytes > LARGE_BYTES);
}

/* Who is told to come back later does. */
static void ask_until_served(const char *path, struct http_answer *out)
{
    char retry[16];
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    assert_true(fleet_ask(0, NULL, path, out));
    while (out->status == 503 && clock_us() < end_us) {
        assert_non_null(strstr(out->body, "/problems/unread"));
        assert_string_equal(http_header(out, "Retry-After", retry, sizeof retry), "1");
        http_answer_clear(out);
        poll(NULL, 0, 10);
        assert_true(fleet_ask(0, NULL, path, out));
    }
    assert_int_equal(out->status, 200);
}

static bool is_served(const struct lone *lone)
{
    static const char served[] = "HTTP/1.1 200";
    char text[sizeof served - 1];
    assert_true(net_wait(lone->fd, POLLIN, clock_after_ms(FLEET_LIMIT_MS)));
    ssize_t got = recv(lone->fd, text, sizeof text, MSG_PEEK | MSG_WAITALL);
    return got == (ssize_t)sizeof text && memcmp(text, served, sizeof text) == 0;
}

TEST(documents_that_nobody_reads_share_a_budget_and_do_not_keep_others_from_theirs, P93)
{
    enum { RECEIVE_BYTES = 2048 };
    struct lone unread[UNREAD];
    char path[BURST_PATH_BYTES], small[64];
    struct http_answer first, last;
    size_t served = 0;
    assert_true(fleet_start(1, one_loop));
    ask_for_large(path, &first);
    uint64_t resident_kib = proc_status(fleet.catalogd[0].pid, "VmRSS"), most_kib = resident_kib;
    for (size_t i = 0; i < UNREAD; i++) {
        unread[i] = lone_connect(0, RECEIVE_BYTES);
        lone_ask(&unread[i], path);
        served += is_served(&unread[i]);
        uint64_t now_kib = proc_status(fleet.catalogd[0].pid, "VmRSS");
        most_kib = now_kib > most_kib ? now_kib : most_kib;
    }
    print_message("%d unread answers of %zu bytes, %zu served: %" PRIu64 " KiB more\n", UNREAD,
                  first.body_bytes, served, most_kib - resident_kib);
    assert_true(SANITIZED || most_kib - resident_kib <= UNREAD_KIB);
    snprintf(small, sizeof small, "/products?ids=%u", fleet.next_product);
    assert_int_equal(fleet_ask_status(0, small), 200); /* takes the place of a larger one */
    ask_until_served(path, &last);
    assert_int_equal(last.body_bytes, first.body_bytes);
    assert_memory_equal(last.body, first.body, first.body_bytes);
    http_answer_clear(&first);
    http_answer_clear(&last);
    for (size_t i = 0; i < UNREAD; i++)
        lone_hang_up(&unread[i]);
    assert_true(probe_wait_quiet(0));
}

/* Whoever asks and reads takes the place of one who does not, for a second at least. */
TEST(answers_that_nobody_reads_keep_nobody_out, P88)
{
    enum { HOLDERS = 4, RECEIVE_BYTES = 2048 };
    struct lone unread[HOLDERS];
    char path[BURST_PATH_BYTES];
    struct http_answer first;
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    unsigned status = 0;
    assert_true(fleet_start(1, (const char *[]){"MAX_CONNECTIONS=4", "SERVER_LOOPS=1", NULL}));
    ask_for_large(path, &first);
    http_answer_clear(&first);
    for (size_t i = 0; i < HOLDERS; i++) {
        unread[i] = lone_connect(0, RECEIVE_BYTES);
        lone_ask(&unread[i], path);
        assert_true(is_served(&unread[i]));
    }
    while (status != 200 && clock_us() < end_us)
        status = fleet_ask_status(0, "/ping");
    assert_int_equal(status, 200);
    for (size_t i = 0; i < HOLDERS; i++)
        lone_hang_up(&unread[i]);
    assert_true(probe_wait_quiet(0));
}

/* ---- a crowd on one key ---- */

struct crowd {
    struct pg_conn *gate;
    bool all_waited;
    uint64_t resident_kib, threads; /* while everybody waits */
};

static void look_at_the_crowd(void *context)
{
    struct crowd *crowd = context;
    pid_t pid = fleet.catalogd[0].pid;
    crowd->all_waited = fleet_wait_waiters(CROWD);
    crowd->resident_kib = proc_status(pid, "VmRSS");
    crowd->threads = probe_thread_count(pid);
    probe_gate_open(&crowd->gate);
}

/* Redis's clock when the fill was done: the instant of expiry less the TTL, which the envelope repeats. */
static int64_t filled_at_ms(uint32_t product)
{
    enum { PX_BEGIN = 37, PX_END = 49 };
    char name[FLEET_KEY_BYTES];
    fleet_redis_key(name, product, 'v');
    long long expires_ms = fleet_redis_number("PEXPIRETIME", name);
    char px[PX_END - PX_BEGIN + 2];
    assert_true(stack_redis_text(&fleet.redis, px, sizeof px, "GETRANGE %s %d %d", name, PX_BEGIN, PX_END));
    long long px_ms = strtoll(px, NULL, 10);
    assert_true(expires_ms > px_ms && px_ms > 0);
    return expires_ms - px_ms;
}

static uint64_t last_answer_us(const struct burst *burst)
{
    uint64_t last_us = 0;
    for (uint32_t i = 0; i < CROWD; i++) {
        if (burst_answers(burst)[i].end_us > last_us)
            last_us = burst_answers(burst)[i].end_us;
    }
    return last_us;
}

static void report_crowd(uint32_t product, const struct burst *burst, double waiter_bytes)
{
    int64_t ago_ms = (int64_t)((clock_us() - last_answer_us(burst)) / 1000);
    int64_t took_ms = (int64_t)(clock_wall_us() / 1000) - ago_ms - filled_at_ms(product);
    print_message("%d waiters: %.0f bytes each; last answer %" PRId64 " ms after the fill%s\n", CROWD,
                  waiter_bytes, took_ms, SANITIZED ? " (sanitized build: memory is not judged)" : "");
}

TEST(ten_thousand_waiters_on_one_key_cost_one_load_little_memory_and_no_thread, P27)
{
    const char *const crowd_settings[] = {"DEADLINE_MS=60000", "LOAD_LIMIT_MS=30000", "MAX_LOADS=1", NULL};
    char path[BURST_PATH_BYTES];
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct burst_summary summary;
    struct burst *burst = NULL;
    struct crowd crowd = {0};
    const struct burst_event event = {.run = look_at_the_crowd, .context = &crowd};
    if (!net_raise_file_limit(CROWD_DESCRIPTORS))
        fail_msg("%d connections need as many descriptors: raise the limit of open files (ulimit -n) to %d",
                 CROWD, CROWD_DESCRIPTORS);
    assert_true(fleet_start(1, crowd_settings));
    fleet_cold_product(path);
    assert_int_equal(fleet_ask_status(0, path), 200); /* the worker's thread is there */
    uint64_t resident_kib = proc_status(fleet.catalogd[0].pid, "VmRSS");
    uint64_t threads = probe_thread_count(fleet.catalogd[0].pid);
    uint32_t product = fleet_cold_product(path);
    fleet_mark();
    assert_true(probe_gate_shut(&crowd.gate));
    struct burst_options options = fleet_options(targets, path, CROWD);
    options.events = &event;
    options.event_count = 1;
    options.request_limit_ms = 2 * FLEET_LIMIT_MS;
    assert_true(burst_open(&options, &burst));
    assert_true(burst_run(burst));
    burst_summarise(burst, &summary);
    double waiter_bytes = ((double)crowd.resident_kib - (double)resident_kib) * 1024 / CROWD;
    report_crowd(product, burst, waiter_bytes);
    burst_close(&burst);
    assert_true(crowd.all_waited);
    assert_int_equal(summary.statuses[200], CROWD);
    assert_int_equal(summary.bodies, 1);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
    assert_int_equal(crowd.threads, threads);
    assert_true(SANITIZED || waiter_bytes <= WAITER_BYTES);
    assert_true(probe_wait_quiet(0));
    assert_true(fleet_metric(0, "guard_waiters") == 0);
    assert_true(fleet_metric(0, "guard_flights") == 0);
}

TEST_GROUP(.up = fleet_up, .down = fleet_down, .after = fleet_end);
