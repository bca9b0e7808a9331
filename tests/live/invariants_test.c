/* SPDX-License-Identifier: MIT */
/*
 * invariants_test.c - promises of the guard that belong to no single module: clocks, lost replies, events
 * of other processes at the worst moment. tests/README.md lists them all and the test that holds each.
 */
#include "guard/wire/scripts.h"
#include "guard_rig.h"
#include "load/base/net.h"
#include "load/stack/proxy.h"
#include "tests/support/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- the clock of Redis ---- */

enum { HOUR_S = 3600, CLOCK_LEASE_MS = 3000, CLOCK_KEYS = 40 };

/* A redis-server whose wall clock is what this program says. */
struct clocked {
    struct stack_redis redis;
    char folder[PROC_PATH_BYTES];
    _Atomic int64_t *offset_s; /* mapped */
};

static void copy_file(const char *from, const char *to)
{
    char bytes[65536];
    FILE *in = fopen(from, "re"), *out = fopen(to, "we");
    if (in == NULL || out == NULL)
        fail_msg("%s: %s (CHAOS_SHIM names the preloaded clock; make test sets it)", from, strerror(errno));
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, in)) > 0;)
        assert_int_equal(fwrite(bytes, 1, got, out), got);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(to, 0755), 0);
}

static void clocked_start(struct clocked *clocked)
{
    char clock[PROC_PATH_BYTES + 16], shim[PROC_PATH_BYTES + 16];
    const int64_t none = 0;
    memset(clocked, 0, sizeof *clocked);
    assert_true(proc_folder("clock", proc_plain_user(), clocked->folder));
    snprintf(clock, sizeof clock, "%s/clock", clocked->folder);
    snprintf(shim, sizeof shim, "%s/shim.so", clocked->folder);
    copy_file(getenv("CHAOS_SHIM") != NULL ? getenv("CHAOS_SHIM") : "", shim);
    int fd = open(clock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, &none, sizeof none), sizeof none);
    clocked->offset_s = mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(clocked->offset_s != MAP_FAILED);
    close(fd);
    assert_int_equal(setenv("CHAOS_CLOCK_FILE", clock, 1) | setenv("LD_PRELOAD", shim, 1), 0);
    bool started = stack_redis_start(&clocked->redis, NULL);
    unsetenv("LD_PRELOAD");
    unsetenv("CHAOS_CLOCK_FILE");
    assert_true(started);
}

static void clocked_stop(struct clocked *clocked)
{
    stack_redis_stop(&clocked->redis);
    munmap((void *)clocked->offset_s, sizeof *clocked->offset_s);
    proc_remove(clocked->folder);
}

static void clocked_fleet(struct clocked *clocked)
{
    clocked_start(clocked);
    fleet_init();
    fleet.config.redis_url = clocked->redis.url;
    snprintf(fleet.name_space, sizeof fleet.name_space, "t");
    fleet_open(2);
}

TEST(a_redis_clock_set_back_lengthens_no_wait_and_no_value, P12)
{
    struct clocked clocked;
    static struct ask asks[2];
    clocked_fleet(&clocked);
    expect_row(0, "k", "k v1");
    assert_true(stack_redis_do(&clocked.redis, "SET csg1:{t:dead}:l %s PX %d",
                               "11111111-1111-4111-8111-111111111111 0123456789abcdef 0003000 dead:1 0",
                               60000));
    *clocked.offset_s = -HOUR_S;
    assert_true(stack_redis_number(&clocked.redis, "PTTL csg1:{t:dead}:l") > HOUR_S * 1000LL);
    assert_true(stack_redis_number(&clocked.redis, "PTTL csg1:{t:k}:v") > HOUR_S * 1000LL);

    uint64_t begun_ms = rig_now_ms();
    for (size_t i = 0; i < 2; i++)
        ask_start(i, &asks[i], "dead");
    for (size_t i = 0; i < 2; i++)
        expect_answer(&asks[i], "dead v1");
    assert_in_range(rig_now_ms() - begun_ms, CLOCK_LEASE_MS, CLOCK_LEASE_MS + 10000);
    assert_int_equal(fleet.source.begun, 2);

    struct guard_result hit = expect_row(1, "k", "k v1");
    assert_int_equal(hit.source, GUARD_FROM_CACHE);
    assert_in_range(hit.left_ms, 1, fleet.policy.fresh_ms);
    assert_in_range(stack_redis_number(&clocked.redis, "PTTL csg1:{t:k}:v"), 1, fleet.policy.fresh_ms);
    fleet_close();
    clocked_stop(&clocked);
}

TEST(a_redis_clock_set_forward_expires_all_and_the_bulkhead_holds, P12)
{
    enum { WORKERS = 2 };
    static struct ask asks[2 * CLOCK_KEYS];
    struct clocked clocked;
    char key[16], row[24];
    clocked_start(&clocked);
    fleet.config.redis_url = clocked.redis.url;
    fleet.config.max_loads = WORKERS;
    fleet_open(2);
    for (int i = 0; i < CLOCK_KEYS; i++) {
        snprintf(key, sizeof key, "k%d", i);
        snprintf(row, sizeof row, "k%d v1", i);
        expect_row(0, key, row);
    }
    atomic_store(&fleet.source.most, 0);
    fleet.source.version = 2;
    source_shut(&fleet.source);
    *clocked.offset_s = HOUR_S;
    for (int i = 0; i < 2 * CLOCK_KEYS; i++) { /* each has one half to load and waits for the other */
        snprintf(key, sizeof key, "k%d", i % CLOCK_KEYS);
        ask_start((size_t)(i + i / CLOCK_KEYS) % 2, &asks[i], key);
        if (i == CLOCK_KEYS - 1)
            WAIT_UNTIL(fleet.source.running == 2 * WORKERS);
    }
    WAIT_UNTIL(FLEET_SUM(waiters) == 2 * CLOCK_KEYS);
    source_open(&fleet.source);
    for (int i = 0; i < 2 * CLOCK_KEYS; i++) {
        snprintf(row, sizeof row, "k%d v2", i % CLOCK_KEYS);
        expect_answer(&asks[i], row);
    }
    assert_int_equal(fleet.source.most, 2 * WORKERS);
    assert_int_equal(fleet.source.begun, 2 * CLOCK_KEYS);
    fleet_close();
    clocked_stop(&clocked);
}

/* ---- hearing of others ---- */

TEST(who_may_not_subscribe_polls_and_is_served, P26)
{
    static struct ask holder, waiter;
    char url[96];
    rig_do("ACL SETUSER deaf on >x allkeys allchannels +@all");
    snprintf(url, sizeof url, "redis://deaf:x@127.0.0.1:%u/0", (unsigned)rig_redis.port);
    fleet.config.redis_url = url;
    fleet_open(2);
    rig_do("ACL SETUSER deaf resetchannels"); /* which also ends the subscriptions */
    for (size_t i = 0; i < 2; i++) {
        WAIT_UNTIL(stats_of(fleet.guards[i]).wake_state == GUARD_REDIS_DENIED);
        assert_int_equal(stats_of(fleet.guards[i]).redis_state, GUARD_REDIS_UP);
    }
    source_shut(&fleet.source);
    ask_start(0, &holder, "k");
    WAIT_UNTIL(fleet.source.begun == 1);
    ask_start(1, &waiter, "k");
    WAIT_UNTIL(stats_of(fleet.guards[1]).lease_busy > 0);
    source_open(&fleet.source);
    ask_wait(&holder);
    ask_wait(&waiter);
    assert_row(&waiter.result, "k v1");
    assert_int_equal(waiter.result.source, GUARD_FROM_FLEET);
    assert_int_equal(fleet.source.begun, 1);
    assert_true(stats_of(fleet.guards[1]).wake_polls > 0);
    assert_int_equal(stats_of(fleet.guards[1]).wake_messages, 0);
    ask_clear(&holder);
    ask_clear(&waiter);
    fleet_close();
    rig_do("ACL DELUSER deaf");
}

TEST(a_subscription_is_up_only_once_redis_has_confirmed_it, P25)
{
    struct proxy *proxy = NULL;
    char url[64];
    assert_true(proxy_open_to(rig_redis.port, &proxy));
    proxy_mark(proxy, 0, "SUBSCRIBE", PROXY_FREEZE_REPLIES);
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/0", (unsigned)proxy_port(proxy, 0));
    fleet.config.redis_url = url;
    fleet_add();
    assert_true(proxy_wait_marked(proxy, 0, 1, RIG_LIMIT_MS));
    WAIT_UNTIL(stats_of(fleet.guards[0]).redis_state == GUARD_REDIS_UP);
    assert_int_not_equal(stats_of(fleet.guards[0]).wake_state, GUARD_REDIS_UP);
    expect_row(0, "k", "k v1");
    assert_int_not_equal(stats_of(fleet.guards[0]).wake_state, GUARD_REDIS_UP);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    WAIT_UNTIL(is_up(fleet.guards[0]));
    fleet_close();
    proxy_close(&proxy);
}

/* No failure lease here: the lease is simply given back, and everybody hears of it at once. */
TEST(all_wake_when_a_lease_is_given_back_and_one_takes_it, P30)
{
    enum { EACH = 5 };
    static struct ask holder, asks[3 * EACH];
    uint64_t acquired = 0;
    fleet.policy.lease_ms = fleet.policy.max_hold_ms = 30000;
    fleet_open(4);
    source_shut(&fleet.source);
    ask_start(0, &holder, "k");
    WAIT_UNTIL(fleet.source.begun == 1);
    for (size_t i = 0; i < COUNT(asks); i++)
        ask_start(1 + i % 3, &asks[i], "k");
    for (size_t i = 1; i < 4; i++)
        WAIT_UNTIL(stats_of(fleet.guards[i]).lease_busy > 0 && stats_of(fleet.guards[i]).waiters == EACH);
    assert_int_equal(guard_close(&fleet.guards[0], 0), GUARD_OK);
    ask_wait(&holder);
    assert_int_equal(holder.result.status, GUARD_CLOSING);
    WAIT_UNTIL(fleet.source.begun == 2);
    source_open(&fleet.source);
    for (size_t i = 0; i < COUNT(asks); i++)
        expect_answer(&asks[i], "k v1");
    for (size_t i = 1; i < 4; i++)
        acquired += stats_of(fleet.guards[i]).lease_acquired;
    assert_int_equal(acquired, 1);
    assert_int_equal(fleet.source.begun, 2);
}

/* ---- what is written ---- */

/* One line of MONITOR: +TIME [DB CLIENT] "COMMAND" "ARGUMENT"... */
static bool monitored(const char *line, const char *client, char command[32], char argument[64])
{
    char from[64];
    argument[0] = '\0';
    return sscanf(line, "%*s [%*u %63[^]]] \"%31[^\"]\" \"%63[^\"]\"", from, command, argument) >= 2 &&
           (client == NULL || strcmp(from, client) == 0);
}

static bool is_among(const char *text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(text, list[i]) == 0)
            return true;
    return false;
}

static void assert_ours(const char *line, char digests[SCRIPT_COUNT][48])
{
    static const char *const READING[] = {"GETEX",   "PTTL", "PUBLISH",   "EVALSHA", "CLIENT",
                                          "ROLE",    "PING", "SUBSCRIBE", "SCRIPT",  "SELECT",
                                          "PEXPIRE", "INFO", "HELLO"};
    char command[32], argument[64];
    bool known = false;
    assert_true(monitored(line, NULL, command, argument));
    if (!is_among(command, READING, COUNT(READING)))
        fail_msg("outside the scripts: %s", line);
    for (size_t i = 0; i < SCRIPT_COUNT; i++)
        known = known || strcasecmp(argument, digests[i]) == 0;
    if (strcasecmp(command, "EVALSHA") == 0 && !known)
        fail_msg("not a script of ours: %s", line);
}

/* Everything a guard does to Redis in a life with all outcomes. PEXPIRE is the test's own, to age a value. */
static void live_through_everything(void)
{
    struct guard_invalidated dropped;
    struct ask ask;
    expect_row(0, "k", "k v1");
    expect_row(1, "k", "k v1");
    age_value("k", 30000);
    expect_row(1, "k", "k v1"); /* stale: refreshed behind */
    WAIT_UNTIL(FLEET_SUM(fill_stored) == 2);
    assert_int_equal(guard_invalidate_wait(fleet.guards[0], KEY_CHANGE("k", RIG_LIMIT_MS), &dropped),
                     GUARD_OK);
    fleet.source.verdict = SOURCE_ABSENT;
    expect(0, "nobody", GUARD_ABSENT);
    fleet.source.verdict = SOURCE_FAIL;
    expect(1, "bad", GUARD_FAILED);
    fleet.source.verdict = SOURCE_ROW;
    source_shut(&fleet.source);
    ask_start(0, &ask, "long");
    WAIT_UNTIL(FLEET_SUM(lease_renewed) > 0);
    guard_cancel(fleet.guards[0], NULL, ask.ticket);
    ask_wait(&ask);
    source_open(&fleet.source);
    WAIT_UNTIL(FLEET_SUM(loads_running) == 0 && FLEET_SUM(flights) == 0);
}

TEST(nothing_is_written_but_by_the_scripts, P38)
{
    char digests[SCRIPT_COUNT][48], command[32], argument[64];
    size_t written = 0;
    for (unsigned i = 0; i < SCRIPT_COUNT; i++) {
        assert_true(stack_redis_text(&rig_redis, digests[i], sizeof digests[i], "SCRIPT LOAD %s",
                                     protocol_scripts[i].source));
    }
    redisContext *monitor = redisConnect("127.0.0.1", rig_redis.port);
    assert_true(monitor != NULL && monitor->err == 0);
    freeReplyObject(redisCommand(monitor, "MONITOR"));
    fleet.config.redis_limit_ms = 1500;
    fleet.policy.lease_ms = 4500; /* it is waited for until it is renewed */
    fleet.policy.stale_ms = 60000;
    fleet_open(2);
    live_through_everything();
    fleet_close();
    rig_do("PING the-end");
    for (bool more = true; more;) {
        redisReply *line = NULL;
        assert_int_equal(redisGetReply(monitor, (void **)&line), REDIS_OK);
        more = strstr(line->str, "the-end") == NULL;
        if (monitored(line->str, "lua", command, argument))
            written += strcasecmp(command, "SET") == 0;
        else
            assert_ours(line->str, digests);
        freeReplyObject(line);
    }
    redisFree(monitor);
    assert_true(written >= 8); /* four leases and more, three values, one failure */
}

TEST(the_stale_time_is_not_shortened_by_jitter, P37)
{
    enum { FRESH_MS = 10000, STALE_MS = 50000, KEYS = 20 };
    char key[16], row[24];
    fleet.policy.fresh_ms = FRESH_MS;
    fleet.policy.stale_ms = STALE_MS;
    fleet.policy.jitter_percent = 90;
    fleet_open(1);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "j%d", i);
        snprintf(row, sizeof row, "j%d v1", i);
        uint64_t begun_ms = rig_now_ms();
        struct guard_result loaded = expect_row(0, key, row);
        long long ttl_ms = redis_number("PTTL", key, 'v');
        long long took_ms = (long long)(rig_now_ms() - begun_ms) + 2;
        assert_in_range(loaded.left_ms, FRESH_MS / 10, FRESH_MS);
        assert_in_range(ttl_ms, (long long)loaded.left_ms + STALE_MS - took_ms,
                        loaded.left_ms + STALE_MS + 2);
    }
}

/* ---- invalidating ---- */

TEST(an_invalidation_whose_reply_is_lost_is_repeated_without_harm, P41)
{
    struct proxy *proxy = NULL;
    char url[64];
    struct guard_invalidated result;
    assert_true(proxy_open_to(rig_redis.port, &proxy));
    fleet.config.redis_limit_ms = 1000;
    fleet_add();
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/0", (unsigned)proxy_port(proxy, 0));
    fleet.config.redis_url = url;
    fleet_open(2);
    expect_row(0, "k", "k v1");
    fleet.source.version = 2;
    proxy_mark(proxy, 0, "i - k", PROXY_FREEZE_REPLIES);
    assert_int_equal(guard_invalidate_wait(fleet.guards[1], KEY_CHANGE("k", 3500), &result), GUARD_UNKNOWN);
    assert_false(is_cached("k")); /* it ran */
    expect_row(0, "k", "k v2");
    fleet.source.version = 3;
    proxy_set(proxy, 0, PROXY_NONE, 0);
    assert_int_equal(guard_invalidate_wait(fleet.guards[1], KEY_CHANGE("k", 10000), &result), GUARD_OK);
    assert_true(result.value_dropped);
    expect_row(1, "k", "k v3");
    assert_true(stats_of(fleet.guards[1]).redis_timeouts > 0);
    fleet_close();
    proxy_close(&proxy);
}

struct restless {
    atomic_uint begun;
};

/* What it reads is out of date before it can be stored, every time. */
static void load_and_invalidate(struct guard_load *load, void *context)
{
    struct restless *restless = context;
    struct guard_invalidated result;
    unsigned version = atomic_fetch_add(&restless->begun, 1) + 1;
    char row[32];
    source_pass(&fleet.source, load); /* once all have come */
    guard_invalidate_wait(fleet.guards[1], KEY_CHANGE(guard_load_key(load), 10000), &result);
    int bytes = snprintf(row, sizeof row, "k v%u", version);
    guard_load_done(load, row, (size_t)bytes, NULL);
}

TEST(a_key_that_is_invalidated_during_every_load_is_answered_after_few, P44)
{
    enum { EACH = 10, ROUNDS = 3, LOADS_EACH = ROUNDS + 1 };
    static struct restless restless;
    static struct ask asks[2 * EACH];
    fleet.policy.loader = load_and_invalidate;
    fleet.policy.context = &restless;
    fleet_open(2);
    source_shut(&fleet.source);
    for (size_t i = 0; i < COUNT(asks); i++)
        ask_start(i % 2, &asks[i], "k");
    WAIT_UNTIL(FLEET_SUM(waiters) == COUNT(asks));
    source_open(&fleet.source);
    for (size_t i = 0; i < COUNT(asks); i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].result.status, GUARD_OK);
        assert_false(asks[i].result.stored);
        ask_clear(&asks[i]);
    }
    assert_in_range(restless.begun, 1, 2 * LOADS_EACH);
    assert_false(is_cached("k"));
    assert_false(is_leased("k"));
}

/* ---- connections ---- */

/* One get after another, a little apart, so that there is always one under way whose time is not over when a
 * late reply to an earlier one comes. */
static void ask_for_all(struct ask *asks, int count)
{
    char key[16];
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof key, "k%d", i);
        ask_start(0, &asks[i], key);
        for (int apart = 0; apart < 4; apart++)
            test_pause();
    }
}

static void expect_all_own_rows(struct ask *asks, int count)
{
    char row[24];
    for (int i = 0; i < count; i++) {
        snprintf(row, sizeof row, "k%d v1", i);
        expect_answer(&asks[i], row);
    }
}

/* They ask no breaker, and nobody else asks anything. */
static bool hits_close_the_breaker(void)
{
    expect_row(0, "k0", "k0 v1");
    return !stats_of(fleet.guards[0]).breaker_open;
}

/* Replies come half a limit too late, again and again, while every key has an answer of its own. The key that
 * stands in every entry would give a shifted reply away: it would be counted as rejected. */
TEST(a_reply_beyond_its_limit_never_reaches_a_later_caller, P52)
{
    enum { LIMIT_MS = 100, ROUNDS = 6, KEYS = 100 };
    static struct ask asks[KEYS];
    struct proxy *proxy = NULL;
    size_t route = 0;
    char url[64];
    assert_true(proxy_open(1, &proxy));
    assert_true(proxy_add(proxy, rig_redis.port, &route));
    fleet.config.redis_limit_ms = LIMIT_MS;
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/0", (unsigned)proxy_port(proxy, route));
    fleet.config.redis_url = url;
    fleet_open(1);
    ask_for_all(asks, KEYS);
    expect_all_own_rows(asks, KEYS);
    for (unsigned round = 0; round < ROUNDS; round++) {
        proxy_set(proxy, route, PROXY_DELAY, LIMIT_MS * 3 / 2);
        ask_for_all(asks, KEYS);
        proxy_set(proxy, route, PROXY_NONE, 0);
        expect_all_own_rows(asks, KEYS);
        WAIT_UNTIL(is_up(fleet.guards[0]));
        WAIT_UNTIL(hits_close_the_breaker());
    }
    assert_true(stats_of(fleet.guards[0]).redis_timeouts >= ROUNDS / 2);
    assert_int_equal(stats_of(fleet.guards[0]).entry_rejected, 0);
    fleet_close();
    proxy_close(&proxy);
}

/* A listener whose queue is full answers no SYN: what a firewall that drops looks like. */
static int open_black_hole(uint16_t *port, int fillers[3])
{
    struct net_address address;
    int fd = socket_listen(0, 0, port);
    assert_true(net_address_init(&address, "127.0.0.1", *port));
    for (size_t i = 0; i < 3; i++) {
        fillers[i] = net_connect_start(&address);
        assert_int_not_equal(fillers[i], -1);
    }
    struct pollfd last = {.fd = fillers[2], .events = POLLOUT};
    assert_int_equal(poll(&last, 1, 50), 0); /* the queue is full indeed */
    return fd;
}

TEST(a_redis_behind_a_black_hole_is_given_up_at_the_connect_limit, P56)
{
    enum { CONNECT_MS = 200 };
    uint16_t port = 0;
    int fillers[3];
    char url[64];
    int hole = open_black_hole(&port, fillers);
    fleet.config.connect_limit_ms = CONNECT_MS;
    fleet.config.redis_limit_ms = CONNECT_MS;
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/0", (unsigned)port);
    fleet.config.redis_url = url;
    fleet_add();
    uint64_t begun_ms = rig_now_ms();
    assert_false(expect_row(0, "k", "k v1").stored);
    WAIT_UNTIL(stats_of(fleet.guards[0]).redis_timeouts >= 2); /* given up, and tried again */
    assert_in_range(rig_now_ms() - begun_ms, CONNECT_MS, 10000);
    assert_int_equal(stats_of(fleet.guards[0]).redis_connects, 0);
    fleet_close();
    for (size_t i = 0; i < 3; i++)
        close(fillers[i]);
    close(hole);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
