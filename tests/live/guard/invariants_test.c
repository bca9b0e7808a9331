/* SPDX-License-Identifier: MIT */
/*
 * invariants_test.c - promises of the guard that belong to no single module: clocks, lost replies, events
 * of other processes at the worst moment. `make promises` lists them all and the tests that hold each.
 */
#include "guard/wire/protocol.h"
#include "guard_rig.h"
#include "load/stack/proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/mman.h>
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
    struct ask ask;
    expect_row(0, "k", "k v1");
    expect_row(1, "k", "k v1");
    age_value("k", 30000);
    expect_row(1, "k", "k v1"); /* stale: refreshed behind */
    WAIT_UNTIL(FLEET_SUM(fill_stored) == 2);
    rig_invalidate(0, KEY_CHANGE("k", RIG_LIMIT_MS));
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

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
