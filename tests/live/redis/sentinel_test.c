/* SPDX-License-Identifier: MIT */
/*
 * sentinel_test.c - a master that Sentinels name: found, confirmed, and left for another one.
 *
 * One fleet for all: a master, two replicas, three Sentinels; min-replicas-to-write 1. Every failover is watched by
 * readers, each on a loop and a thread of its own, that share the topology of the rig's: what they may not read is a
 * number older than one that a new master had confirmed when they began to ask.
 */
#include "tests/support/redis_rig.h"
#include "tests/support/stack_sentinel.h"
#include "tests/support/uv_host.h"
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READERS = 3,
    DOWN_AFTER_MS = 2000,
    LIMIT_MS = 250,
    STILL_MS = 6000,          /* as long as the machine may stand still */
    FAILOVER_LIMIT_MS = 5000, /* of the Sentinels, for one attempt */
};

#define MASTER_PASSWORD "of-the-master"
#define WATCH_PASSWORD "of-the-sentinels"

static struct stack_sentinel fleet;

static bool start_fleet(void)
{
    static const char *const arguments[] = {"--min-replicas-to-write", "1", "--min-replicas-max-lag", "3",
                                            NULL};
    static const struct stack_sentinel_options options = {
        .replica_count = 2,
        .arguments = arguments,
        .down_after_ms = DOWN_AFTER_MS,
        .failover_limit_ms = FAILOVER_LIMIT_MS,
        .hurried = true,
        .password = MASTER_PASSWORD,
        .sentinel_password = WATCH_PASSWORD,
    };
    uv_loop_t loop; /* what libuv opens once is opened here */
    return stack_sentinel_start(&fleet, &options) && uv_loop_init(&loop) == 0 && uv_loop_close(&loop) == 0;
}

static bool stop_fleet(void)
{
    stack_sentinel_stop(&fleet);
    return true;
}

/* All that run are connected to: the rig counts descriptors. */
static void reach_all(void)
{
    for (size_t i = 0; i < fleet.node_count; i++)
        freeReplyObject(stack_redis_command(&fleet.node[i], "PING"));
    for (size_t i = 0; i < STACK_SENTINELS; i++)
        freeReplyObject(stack_redis_command(&fleet.sentinel[i], "PING"));
}

static bool is_settled(void)
{
    bool settled = stack_sentinel_wait_settled(&fleet, STACK_SENTINEL_LIMIT_MS);
    reach_all();
    return settled;
}

/* ---- readers ---- */

static _Atomic uint64_t confirmed; /* the newest number that a master has confirmed */

struct reader {
    pthread_t thread;
    uv_loop_t loop;
    struct guard_host *host;
    struct guard_host_state host_state;
    struct redis_config config;
    struct redis *redis;
    uv_timer_t pulse;
    bool reading, pinging;
    uint64_t read_from, read_ns, ping_ns; /* `confirmed` when it began to ask; when */
    atomic_bool ends;
    _Atomic uint64_t newest, newest_ns; /* number that was read; when for the first time */
    _Atomic uint64_t stale, stale_ns;   /* reads of an older one; the last */
    _Atomic uint64_t slowest_ms, hits;
};

static struct reader readers[READERS];

static void note_time(struct reader *reader, uint64_t since_ns)
{
    uint64_t ms = (uv_hrtime() - since_ns) / 1000000;
    if (ms > atomic_load(&reader->slowest_ms))
        atomic_store(&reader->slowest_ms, ms);
}

static void on_read(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct reader *reader = context;
    reader->reading = false;
    note_time(reader, reader->read_ns);
    if (outcome != REDIS_REPLIED || reply->type != REDIS_REPLY_STRING)
        return;
    uint64_t number = strtoull(reply->str, NULL, 10);
    atomic_fetch_add(&reader->hits, 1);
    if (number < reader->read_from) {
        atomic_fetch_add(&reader->stale, 1);
        atomic_store(&reader->stale_ns, uv_hrtime());
    }
    if (number > atomic_load(&reader->newest)) {
        atomic_store(&reader->newest_ns, uv_hrtime());
        atomic_store(&reader->newest, number);
    }
}

static void on_ping(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct reader *reader = context;
    (void)outcome, (void)reply;
    reader->pinging = false;
    note_time(reader, reader->ping_ns);
}

static void on_host_closed(void *context)
{
    struct reader *reader = context;
    uv_close((uv_handle_t *)&reader->pulse, NULL);
}

static void on_reader_closed(void *context)
{
    struct reader *reader = context;
    host_close(reader->host, on_host_closed, reader);
}

static void on_pulse(uv_timer_t *timer)
{
    struct reader *reader = timer->data;
    if (atomic_load(&reader->ends)) {
        uv_timer_stop(timer);
        redis_close(reader->redis, on_reader_closed, reader);
        return;
    }
    if (!reader->pinging) {
        reader->ping_ns = uv_hrtime();
        reader->pinging =
            redis_send(reader->redis, 1, (const char *[]){"PING"}, (size_t[]){4}, on_ping, reader);
    }
    if (!reader->reading && redis_may_look_up(reader->redis, "k", 1)) {
        reader->read_ns = uv_hrtime();
        reader->read_from = atomic_load(&confirmed);
        reader->reading = redis_send_get(reader->redis, "k", 1, on_read, reader);
    }
}

static void *run_reader(void *context)
{
    struct reader *reader = context;
    uv_run(&reader->loop, UV_RUN_DEFAULT);
    return NULL;
}

/* The first one is as the guard's own connection, the others are spread. */
static void start_readers(void)
{
    for (size_t i = 0; i < READERS; i++) {
        struct reader *reader = &readers[i];
        memset(reader, 0, sizeof *reader);
        reader->config = rig.config;
        reader->config.spread_ms = i == 0 ? 0 : 500;
        reader->config.hooks = (struct redis_hooks){.context = NULL};
        reader->config.jitter_seed = i;
        assert_int_equal(uv_loop_init(&reader->loop), 0);
        reader->host = uv_host_attach(&reader->loop, &reader->host_state);
        assert_non_null(reader->host);
        reader->redis = redis_open(reader->host, &reader->config);
        assert_non_null(reader->redis);
        uv_timer_init(&reader->loop, &reader->pulse);
        reader->pulse.data = reader;
        uv_timer_start(&reader->pulse, on_pulse, 0, 2);
        assert_int_equal(pthread_create(&reader->thread, NULL, run_reader, reader), 0);
    }
}

static void stop_readers(void)
{
    for (size_t i = 0; i < READERS; i++)
        atomic_store(&readers[i].ends, true);
    for (size_t i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        assert_int_equal(uv_loop_close(&readers[i].loop), 0);
        assert_false(readers[i].reading || readers[i].pinging);
    }
}

static bool all_have_read(uint64_t number)
{
    for (size_t i = 0; i < READERS; i++)
        if (atomic_load(&readers[i].newest) < number)
            return false;
    return true;
}

/* ---- one failover ---- */

static uv_timer_t pulse; /* so that the rig's loop turns */

static void on_rig_pulse(uv_timer_t *timer)
{
    (void)timer;
}

static void start_watching(const char *url)
{
    rig_prepare(url);
    rig.config.limit_ms = LIMIT_MS;
    rig.config.connect_limit_ms = 1000;
    rig.config.max_backoff_ms = 500;
    rig_open();
    uv_timer_init(&rig.loop, &pulse);
    uv_timer_start(&pulse, on_rig_pulse, 0, 5);
    rig_wait_up();
}

static void finish_watching(void)
{
    uv_close((uv_handle_t *)&pulse, NULL);
    reach_all();
    rig_finish();
}

static bool set_number(size_t node, uint64_t number)
{
    struct redisReply *reply =
        stack_redis_command(&fleet.node[node], "SET k %llu", (unsigned long long)number);
    bool done = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return done;
}

/* The number is one more, and all replicas have it. */
static void write_everywhere(size_t master)
{
    uint64_t number = atomic_load(&confirmed) + 1;
    assert_true(set_number(master, number));
    for (size_t i = 0; i < fleet.node_count; i++)
        assert_true(i == master ||
                    stack_redis_wait_in_sync(&fleet.node[i], &fleet.node[master], STACK_SENTINEL_LIMIT_MS));
    atomic_store(&confirmed, number);
}

/* The number is one more at a master that is not the old one. */
static bool is_written_at_another(size_t old)
{
    uint64_t number = atomic_load(&confirmed) + 1;
    for (size_t i = 0; i < fleet.node_count; i++)
        if (i != old && set_number(i, number)) {
            atomic_store(&confirmed, number);
            return true;
        }
    return false;
}

struct passage {
    size_t old;
    bool planned;
    uint64_t asked_ns;                                /* for it */
    uint64_t began_ns, named_ns, written_ns, read_ns; /* the last: by the first of the readers */
};

/* Again where they gave it up: the replica was too slow for them. */
static void ask_for_it(struct passage *passage)
{
    if (!passage->planned || passage->named_ns != 0 || passage->written_ns != 0 ||
        (passage->asked_ns != 0 && elapsed_ms(passage->asked_ns) < FAILOVER_LIMIT_MS + STILL_MS))
        return;
    passage->asked_ns = uv_hrtime();
    assert_true(stack_sentinel_failover(&fleet));
}

static void follow(struct passage *passage)
{
    uint64_t before = atomic_load(&confirmed);
    while (!all_have_read(before + 1)) {
        ask_for_it(passage);
        size_t master = passage->named_ns == 0 ? stack_sentinel_master(&fleet) : passage->old;
        if (master != passage->old && master != STACK_SENTINEL_NOBODY)
            passage->named_ns = uv_hrtime();
        if (passage->written_ns == 0 && is_written_at_another(passage->old))
            passage->written_ns = uv_hrtime();
        if (!rig_turn())
            fail_msg("no reader reads from another master (named: %d, written: %d): %s",
                     passage->named_ns != 0, passage->written_ns != 0, rig.text);
    }
    uv_timer_stop(&rig.tick);
    passage->read_ns = atomic_load(&readers[0].newest_ns);
    for (size_t i = 1; i < READERS; i++)
        if (atomic_load(&readers[i].newest_ns) < passage->read_ns)
            passage->read_ns = atomic_load(&readers[i].newest_ns);
}

static uint64_t ms_between(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (to_ns - from_ns) / 1000000 : 0;
}

static void show(const char *what, const struct passage *passage)
{
    uint64_t stale = 0, slowest = 0;
    for (size_t i = 0; i < READERS; i++) {
        stale += atomic_load(&readers[i].stale);
        slowest =
            atomic_load(&readers[i].slowest_ms) > slowest ? atomic_load(&readers[i].slowest_ms) : slowest;
    }
    print_message(
        "%s: named after %u ms, written %u, read %u; first read %u ms after it was named, %u after it was "
        "written; %u stale; slowest answer %u ms\n",
        what, (unsigned)ms_between(passage->began_ns, passage->named_ns),
        (unsigned)ms_between(passage->began_ns, passage->written_ns),
        (unsigned)ms_between(passage->began_ns, passage->read_ns),
        (unsigned)ms_between(passage->named_ns, passage->read_ns),
        (unsigned)ms_between(passage->written_ns, passage->read_ns), (unsigned)stale, (unsigned)slowest);
}

static struct passage begin_passage(void)
{
    struct passage passage = {.old = stack_sentinel_master(&fleet)};
    assert_int_not_equal(passage.old, STACK_SENTINEL_NOBODY);
    start_watching(fleet.url);
    start_readers();
    write_everywhere(passage.old);
    rig_wait_until(all_have_read(atomic_load(&confirmed)));
    passage.began_ns = uv_hrtime();
    return passage;
}

/* How long the Sentinels take is theirs: two may begin to lead at once, and try again later. */
static void end_passage(const char *what, const struct passage *passage, bool stale_too)
{
    stop_readers();
    show(what, passage);
    assert_in_range(ms_between(passage->named_ns, passage->read_ns), 0, 1000 + STILL_MS);
    for (size_t i = 0; i < READERS; i++) {
        assert_true(stale_too || atomic_load(&readers[i].stale) == 0);
        assert_in_range(atomic_load(&readers[i].slowest_ms), 0, LIMIT_MS + STILL_MS);
        if (atomic_load(&readers[i].stale) > 0)
            assert_in_range(ms_between(passage->written_ns, atomic_load(&readers[i].stale_ns)), 0,
                            1000 + LIMIT_MS + STILL_MS);
    }
    finish_watching();
    assert_true(is_settled());
}

/* ---- what is found, and what is not ---- */

/* The Sentinels of those ports, with these passwords. */
static void write_url(char *out, size_t size, const char *master_password, const char *watch_password,
                      const char *name, const uint16_t *ports, size_t count)
{
    int bytes = snprintf(out, size, "redis+sentinel://:%s@", master_password);
    for (size_t i = 0; i < count; i++)
        bytes += snprintf(out + bytes, size - (size_t)bytes, "%s127.0.0.1:%u", i > 0 ? "," : "",
                          (unsigned)ports[i]);
    snprintf(out + bytes, size - (size_t)bytes, "/%s%s%s", name,
             watch_password != NULL ? "?sentinel_password=" : "",
             watch_password != NULL ? watch_password : "");
}

static void list_sentinels(uint16_t ports[STACK_SENTINELS])
{
    for (size_t i = 0; i < STACK_SENTINELS; i++)
        ports[i] = fleet.sentinel[i].port;
}

static void expect_told(const char *url, enum guard_redis_state state, const char *text)
{
    rig_start(url);
    rig_wait_until(strstr(rig.text, text) != NULL);
    assert_int_equal(rig.states[rig.state_count - 1], state);
    assert_null(strstr(rig.text, "of-the-"));
    assert_false(redis_is_up(rig.redis));
    rig_finish();
}

/* Nor was another one told. A machine that stands still may connect too late at first. */
static void expect_nothing_refused(void)
{
    for (size_t i = 0; i + 1 < rig.state_count; i++)
        assert_int_equal(rig.states[i], GUARD_REDIS_DOWN);
    assert_int_equal(rig.states[rig.state_count - 1], GUARD_REDIS_UP);
}

TEST(the_master_is_found_and_takes_commands)
{
    static struct call call;
    char label[64];
    rig_start(fleet.url);
    rig_wait_up();
    snprintf(label, sizeof label, "127.0.0.1:%u: up; ",
             (unsigned)fleet.node[stack_sentinel_master(&fleet)].port);
    assert_memory_equal(rig.text, label, strlen(label)); /* and which server it is */
    call_send(&call, "SET", "found", "1");
    rig_wait_until(call.answered > 0);
    assert_string_equal(call.text, "OK");
    expect_nothing_refused();
}

TEST(a_wrong_password_is_told_to_be_that_of_the_sentinels)
{
    char url[256];
    uint16_t ports[STACK_SENTINELS];
    list_sentinels(ports);
    write_url(url, sizeof url, MASTER_PASSWORD, "not-of-the-sentinels", STACK_SENTINEL_NAME, ports,
              STACK_SENTINELS);
    expect_told(
        url, GUARD_REDIS_DENIED,
        "AUTH of a Sentinel (sentinel_username, sentinel_password) refused: WRONGPASS; correct user and "
        "password in the URL, or switch the user on (ACL SETUSER ... on)");
    write_url(url, sizeof url, MASTER_PASSWORD, NULL, STACK_SENTINEL_NAME, ports, STACK_SENTINELS);
    expect_told(
        url, GUARD_REDIS_DENIED,
        "of a Sentinel (sentinel_username, sentinel_password) refused: NOAUTH Authentication required.; this "
        "Redis wants a password: put it into the URL, redis://[USER]:PASSWORD@HOST");
}

static bool has_refused(struct stack_redis *sentinel)
{
    struct redisReply *log = stack_redis_command(sentinel, "ACL LOG");
    bool refused = log == NULL || log->type != REDIS_REPLY_ARRAY || log->elements > 0;
    freeReplyObject(log);
    return refused;
}

/* That line stands in guard/README.md. */
TEST(a_narrow_login_of_the_sentinels_is_enough)
{
    char url[STACK_SENTINEL_URL_BYTES];
    for (size_t i = 0; i < STACK_SENTINELS; i++) {
        freeReplyObject(stack_redis_command(&fleet.sentinel[i], "ACL LOG RESET"));
        freeReplyObject(stack_redis_command(
            &fleet.sentinel[i],
            "ACL SETUSER narrow on >pw -@all +auth +client|setname +ping +hello +subscribe "
            "&+switch-master +sentinel|myid +sentinel|master +sentinel|sentinels "
            "+sentinel|get-master-addr-by-name"));
    }
    snprintf(url, sizeof url,
             "redis+sentinel://:" MASTER_PASSWORD "@127.0.0.1:%u,127.0.0.1:%u/" STACK_SENTINEL_NAME
             "?sentinel_username=narrow&sentinel_password=pw",
             (unsigned)fleet.sentinel[0].port, (unsigned)fleet.sentinel[1].port);
    rig_start(url);
    rig_wait_up();
    expect_nothing_refused();
    for (size_t i = 0; i < STACK_SENTINELS; i++)
        assert_false(has_refused(&fleet.sentinel[i]));
}

TEST(a_wrong_password_is_told_to_be_that_of_the_master)
{
    char url[256];
    uint16_t ports[STACK_SENTINELS];
    list_sentinels(ports);
    write_url(url, sizeof url, "not-of-the-master", WATCH_PASSWORD, STACK_SENTINEL_NAME, ports,
              STACK_SENTINELS);
    expect_told(url, GUARD_REDIS_DENIED,
                "AUTH of the master (user and password before the @) refused: WRONGPASS");
}

TEST(a_name_that_the_sentinels_do_not_know_is_told)
{
    char url[256];
    uint16_t ports[STACK_SENTINELS];
    list_sentinels(ports);
    write_url(url, sizeof url, MASTER_PASSWORD, WATCH_PASSWORD, "another", ports, STACK_SENTINELS);
    expect_told(url, GUARD_REDIS_DENIED, "the Sentinels know no master of the name in the URL");
}

TEST(servers_with_data_are_not_taken_for_sentinels, P132)
{
    char url[256];
    uint16_t ports[] = {fleet.node[0].port, fleet.node[1].port};
    write_url(url, sizeof url, MASTER_PASSWORD, MASTER_PASSWORD, STACK_SENTINEL_NAME, ports, 2);
    expect_told(url, GUARD_REDIS_DENIED, "this is a single Redis: the URL must begin with redis://");
}

TEST(a_sentinel_is_not_taken_for_a_server_with_data, P132)
{
    char url[256];
    snprintf(url, sizeof url, "redis://:" WATCH_PASSWORD "@127.0.0.1:%u", (unsigned)fleet.sentinel[0].port);
    expect_told(url, GUARD_REDIS_DENIED, "this is a Sentinel: the URL must begin with redis+sentinel://");
}

TEST(where_no_sentinel_is_one_of_them_is_named)
{
    expect_told("redis+sentinel://127.0.0.1:1,127.0.0.1:2/cache", GUARD_REDIS_DOWN,
                "no Sentinel answers; 127.0.0.1:1: connect: connection refused");
}

static void wait_told(const char *text)
{
    rig_wait_until(strstr(rig.text, text) != NULL);
}

TEST(a_subscriber_is_confirmed_and_hears)
{
    rig_prepare(fleet.url);
    rig.config.channel = "news";
    rig_open();
    rig_wait_up();
    freeReplyObject(stack_redis_command(&fleet.node[stack_sentinel_master(&fleet)], "PUBLISH news hear"));
    rig_wait_until(rig.message_count == 1);
    assert_string_equal(rig.message, "hear");
}

/* ---- without a majority ---- */

static void pause_sentinels(size_t first)
{
    for (size_t i = first; i < STACK_SENTINELS; i++)
        stack_redis_pause(&fleet.sentinel[i]);
}

static bool resume_sentinels(void)
{
    for (size_t i = 0; i < STACK_SENTINELS; i++)
        stack_redis_resume(&fleet.sentinel[i]);
    return is_settled();
}

TEST_WITH(without_a_majority_what_is_up_stays_up_and_nothing_comes_up, NULL, resume_sentinels)
{
    rig_start(fleet.url);
    rig_wait_up();
    pause_sentinels(1);
    rig_expect_pong();
    redis_reset(rig.redis, "made anew");
    wait_told("not confirmed: 1 of 3 Sentinels agree on the master, 2 must; 127.0.0.1:");
    assert_false(redis_is_up(rig.redis));
    stack_redis_resume(&fleet.sentinel[1]);
    rig_wait_up();
    rig_expect_pong();
    rig_finish();
}

TEST_WITH(a_strict_url_gives_up_a_master_that_no_majority_confirms, NULL, resume_sentinels)
{
    char url[STACK_SENTINEL_URL_BYTES + 16];
    snprintf(url, sizeof url, "%s&strict=yes", fleet.url);
    rig_start(url);
    rig_wait_up();
    const size_t told = rig.state_count;
    struct stack_redis *master = &fleet.node[stack_sentinel_master(&fleet)];
    uint64_t beats = stack_redis_calls(master, "getex"); /* one every 500 ms */
    rig_wait_until(stack_redis_calls(master, "getex") > beats + 2);
    assert_int_equal(rig.state_count, told); /* it was up all the time */
    pause_sentinels(0);
    const uint64_t since_ns = uv_hrtime();
    wait_told("no majority of the Sentinels has confirmed this master for too long");
    assert_in_range(elapsed_ms(since_ns), 0, DOWN_AFTER_MS + STILL_MS);
    wait_told("no Sentinel answers");
    assert_false(redis_is_up(rig.redis));
    resume_sentinels();
    rig_wait_up();
    rig_finish();
}

TEST_WITH(the_sentinels_that_the_url_does_not_name_are_asked_too, NULL, resume_sentinels)
{
    char url[256];
    uint16_t port = fleet.sentinel[0].port;
    write_url(url, sizeof url, MASTER_PASSWORD, WATCH_PASSWORD, STACK_SENTINEL_NAME, &port, 1);
    rig_start(url);
    rig_wait_up(); /* a majority of three */
    stack_redis_pause(&fleet.sentinel[0]);
    redis_reset(rig.redis, "made anew");
    wait_told("made anew");
    rig_wait_up();
    rig_finish();
}

/* ---- failovers ---- */

TEST(a_planned_failover_shows_nothing_old, P134)
{
    struct passage passage = begin_passage();
    passage.planned = true;
    follow(&passage);
    end_passage("planned", &passage, false);
}

static void set_least_replicas(const char *count)
{
    for (size_t i = 0; i < fleet.node_count; i++)
        freeReplyObject(stack_redis_command(&fleet.node[i], "CONFIG SET min-replicas-to-write %s", count));
}

TEST(without_replicas_to_wait_for_what_is_old_is_shown_for_a_second_at_most, P135)
{
    set_least_replicas("0");
    struct passage passage = begin_passage();
    passage.planned = true;
    follow(&passage);
    end_passage("planned, no fence", &passage, true);
    set_least_replicas("1");
}

TEST(a_killed_master_is_left_for_the_next_one, P134)
{
    struct passage passage = begin_passage();
    stack_redis_kill(&fleet.node[passage.old]);
    follow(&passage);
    assert_true(stack_redis_restart(&fleet.node[passage.old]));
    end_passage("killed", &passage, false);
}

/* It was asked nothing meanwhile: its heartbeat is all that could notice. */
static void expect_the_idle_one_reads(uint64_t number)
{
    struct call call = {.answered = 0};
    while (call.type != REDIS_REPLY_STRING) {
        call = (struct call){.answered = 0};
        rig_wait_until(redis_may_look_up(rig.redis, "k", 1));
        assert_true(redis_send_get(rig.redis, "k", 1, call_replied, &call));
        rig_wait_until(call.answered > 0);
    }
    assert_int_equal(strtoull(call.text, NULL, 10), number);
}

TEST(a_master_that_was_stopped_and_goes_on_shows_nothing_old, P134)
{
    struct passage passage = begin_passage();
    stack_redis_pause(&fleet.node[passage.old]);
    follow(&passage);
    stack_redis_resume(&fleet.node[passage.old]);
    uint64_t hits = atomic_load(&readers[0].hits);
    expect_the_idle_one_reads(atomic_load(&confirmed));
    rig_wait_until(atomic_load(&readers[0].hits) > hits + 50);
    end_passage("stopped", &passage, false);
}

TEST_GROUP(.up = start_fleet, .down = stop_fleet, .before = rig_forget, .end = rig_finish);
