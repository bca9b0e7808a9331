/* SPDX-License-Identifier: MIT */
/*
 * guard_loop_test.c - the guard on loops of the host's: on which thread an answer comes, and how a loop leaves. All
 * of it on each of the loops that there is an adapter for.
 */
#include "host_rig.h"

#include <signal.h>
#include <sys/wait.h>

/* ---- the tests ---- */

TEST(a_get_is_answered_on_the_loop_that_asked_even_before_its_connection_is_up)
{
    struct host host;
    struct loop_ask asked;
    fleet_open(1);
    expect_row(0, "k", "k v1");
    host_open(&host, 0);
    loop_ask_start(&host, &asked, "k");
    expect_answer(&asked.ask, "k v1");
    loop_expect(&host, "new", "new v1");
    host_close(&host);
}

TEST(a_hit_needs_no_other_thread, P162)
{
    struct host host;
    open_with_host(&host);
    host_wait_up(&host, "k", "k v1");
    struct guard_stats before = stats_of(fleet.guards[0]);
    loop_expect(&host, "k", "k v1");
    struct guard_stats after = stats_of(fleet.guards[0]);
    assert_int_equal(after.hit, before.hit + 1);
    assert_int_equal(after.lease_acquired, before.lease_acquired);
    host_close(&host);
    assert_int_equal(stats_of(fleet.guards[0]).hit, after.hit); /* what a loop counted stays */
}

TEST(every_outcome_reaches_the_loop, P162, P179)
{
    struct host host;
    struct loop_ask asked;
    open_with_host(&host);
    host_wait_up(&host, "k", "k v1");
    fleet.source.verdict = SOURCE_ABSENT;
    for (int i = 0; i < 2; i++) {
        loop_ask_start(&host, &asked, "absent");
        ask_wait(&asked.ask);
        assert_int_equal(asked.ask.result.status, GUARD_ABSENT);
    }
    fleet.source.verdict = SOURCE_FAIL;
    for (int i = 0; i < 2; i++) {
        loop_ask_start(&host, &asked, "failed");
        ask_wait(&asked.ask);
        assert_int_equal(asked.ask.result.status, GUARD_FAILED);
    }
    source_shut(&fleet.source);
    asked = (struct loop_ask){.key = "late", .deadline_ms = 20};
    host_do(&host, loop_ask, &asked);
    ask_wait(&asked.ask);
    assert_int_equal(asked.ask.result.status, GUARD_TIMEOUT);
    asked.key = "";
    host_do(&host, loop_ask, &asked);
    assert_int_equal(asked.status, GUARD_INVALID);
    host_close(&host);
}

/* Each loop has room for as many as the whole process; who is one too many there is told so by the core. */
TEST(who_is_one_too_many_in_the_process_is_shed_on_his_loop_and_counted)
{
    struct host host;
    struct loop_ask asked;
    static struct ask waiting[2];
    fleet.config.max_waiters = 2;
    fleet_open(1);
    host_open(&host, 0);
    source_shut(&fleet.source);
    for (size_t i = 0; i < 2; i++)
        ask_start(0, &waiting[i], "slow");
    WAIT_UNTIL(stats_of(fleet.guards[0]).waiters == 2);
    loop_ask_start(&host, &asked, "slow");
    ask_wait(&asked.ask);
    assert_int_equal(asked.ask.result.status, GUARD_SHED);
    assert_true(asked.ask.result.retry_ms > 0);
    assert_int_equal(stats_of(fleet.guards[0]).shed, 1);
    assert_int_equal(durations_counted(fleet.guards[0]), 1);
    source_open(&fleet.source);
    for (size_t i = 0; i < 2; i++)
        expect_answer(&waiting[i], "slow v1");
    host_close(&host);
}

static void ask_and_cancel(struct host *host, void *context)
{
    loop_ask(host, context);
    loop_cancel(host, context);
}

TEST(a_get_cancelled_in_the_turn_that_asked_is_answered_later_and_once)
{
    struct host host;
    struct loop_ask asked = {.key = "k"};
    open_with_host(&host);
    for (int i = 0; i < 50; i++) { /* before the connection is up, and after */
        host_do(&host, ask_and_cancel, &asked);
        ask_wait(&asked.ask);
        assert_true(asked.ask.result.status == GUARD_CANCELLED || asked.ask.result.status == GUARD_OK);
        ask_clear(&asked.ask);
    }
    host_wait_up(&host, "k", "k v1");
    host_do(&host, ask_and_cancel, &asked);
    ask_wait(&asked.ask);
    assert_true(asked.ask.result.status == GUARD_CANCELLED);
    host_close(&host);
}

/* A loop's ticket means nothing without it, nor the other way round. */
TEST(a_ticket_of_one_loop_cancels_nothing_elsewhere)
{
    struct host hosts[2];
    struct loop_ask first, second;
    static struct ask plain;
    fleet_open(1);
    for (size_t i = 0; i < 2; i++)
        host_open(&hosts[i], 0);
    source_shut(&fleet.source);
    loop_ask_start(&hosts[0], &first, "k");
    loop_ask_start(&hosts[1], &second, "k");
    ask_start(0, &plain, "k");
    WAIT_UNTIL(stats_of(fleet.guards[0]).waiters == 3);
    guard_cancel(fleet.guards[0], NULL, first.ask.ticket);
    guard_cancel(fleet.guards[0], NULL, second.ask.ticket);
    struct loop_ask foreign = {.ask = {.ticket = plain.ticket}};
    host_do(&hosts[0], loop_cancel, &foreign);
    foreign.ask.ticket = first.ask.ticket;
    host_do(&hosts[1], loop_cancel, &foreign);
    source_open(&fleet.source);
    struct ask *all[] = {&first.ask, &second.ask, &plain};
    for (size_t i = 0; i < 3; i++)
        expect_answer(all[i], "k v1");
    for (size_t i = 0; i < 2; i++)
        host_close(&hosts[i]);
}

TEST(detaching_answers_with_closing_who_still_waits)
{
    struct host host;
    struct loop_ask waiting[3];
    static struct ask plain;
    open_with_host(&host);
    source_shut(&fleet.source);
    for (size_t i = 0; i < 3; i++)
        loop_ask_start(&host, &waiting[i], "slow");
    ask_start(0, &plain, "slow");
    WAIT_UNTIL(stats_of(fleet.guards[0]).waiters == 4);
    host_do(&host, detach, NULL);
    WAIT_UNTIL(host.detached);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(waiting[i].ask.answers, 1);
        assert_int_equal(waiting[i].ask.result.status, GUARD_CLOSING);
    }
    host_end(&host);
    source_open(&fleet.source); /* the load went on for the other */
    expect_answer(&plain, "slow v1");
}

/* Asks many keys and detaches in the same turn: their lookups have not even been written. */
static void ask_many_and_detach(struct host *host, void *context)
{
    struct loop_ask *asked = context;
    for (int i = 0; i < 100; i++)
        loop_ask(host, &asked[i]);
    detach(host, NULL);
}

TEST(a_loop_can_be_detached_with_lookups_under_way, P162)
{
    static struct loop_ask asked[100];
    struct host host;
    open_with_host(&host);
    host_wait_up(&host, "k", "k v1");
    for (size_t i = 0; i < 100; i++)
        asked[i] = (struct loop_ask){.key = i % 2 == 0 ? "k" : "cold"};
    host_do(&host, ask_many_and_detach, asked);
    WAIT_UNTIL(host.detached);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(asked[i].ask.answers, 1);
        assert_int_equal(asked[i].ask.result.status, GUARD_CLOSING);
    }
    host_end(&host);
}

/* From inside the first answer. */
static void answered_detaches(void *context, const struct guard_result *result)
{
    const struct loop_ask *asked = context;
    (void)result;
    if (asked->host->attached != NULL)
        detach(asked->host, NULL);
}

static void ask_to_detach(struct host *host, void *context)
{
    struct loop_ask *asked = context;
    for (int i = 0; i < 3; i++) {
        asked[i] = (struct loop_ask){.key = "k", .more = {.answered = answered_detaches}};
        loop_ask(host, &asked[i]);
    }
}

TEST(a_loop_can_be_detached_inside_a_callback)
{
    struct host host;
    struct loop_ask asked[3];
    open_with_host(&host);
    host_wait_up(&host, "k", "k v1");
    host_do(&host, ask_to_detach, asked);
    WAIT_UNTIL(host.detached);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(asked[i].ask.answers, 1);
        ask_clear(&asked[i].ask);
    }
    host_end(&host);
}

TEST(a_draining_guard_refuses_gets_of_loops_and_serves_those_it_has)
{
    struct host host;
    struct loop_ask waiting, late = {.key = "k"};
    open_with_host(&host);
    source_shut(&fleet.source);
    loop_ask_start(&host, &waiting, "slow");
    WAIT_UNTIL(stats_of(fleet.guards[0]).waiters == 1);
    guard_drain(fleet.guards[0]);
    host_do(&host, loop_ask, &late);
    assert_int_equal(late.status, GUARD_CLOSING);
    source_open(&fleet.source);
    expect_answer(&waiting.ask, "slow v1");
    host_close(&host);
}

TEST(many_loops_come_and_go_while_others_ask)
{
    struct host steady;
    struct host passing[3];
    fleet_open(1);
    host_open(&steady, 0);
    for (int round = 0; round < 5; round++) {
        struct loop_ask asked[3];
        for (size_t i = 0; i < 3; i++) {
            host_open(&passing[i], 0);
            loop_ask_start(&passing[i], &asked[i], "k");
        }
        loop_expect(&steady, "k", "k v1");
        for (size_t i = 0; i < 3; i++) {
            ask_wait(&asked[i].ask);
            ask_clear(&asked[i].ask);
            host_do(&passing[i], detach, NULL);
        }
        for (size_t i = 0; i < 3; i++) {
            WAIT_UNTIL(passing[i].detached);
            host_end(&passing[i]);
        }
    }
    host_close(&steady);
}

TEST(a_loop_goes_on_while_redis_dies_and_when_it_is_back, P162)
{
    struct host host;
    struct stack_redis redis = {.pid = 0};
    assert_true(stack_redis_start(&redis, NULL));
    fleet.config.redis_url = redis.url;
    fleet.config.redis_limit_ms = 250; /* what it does not answer is asked in vain */
    fleet_open(1);
    host_open(&host, 0);
    host_wait_up(&host, "k", "k v1");
    stack_redis_kill(&redis);
    loop_expect(&host, "k", "k v1"); /* loaded, uncached */
    loop_expect(&host, "other", "other v1");
    assert_true(stack_redis_restart(&redis));
    WAIT_UNTIL(is_up(fleet.guards[0]));
    uint64_t hits = stats_of(fleet.guards[0]).hit;
    WAIT_UNTIL((loop_expect(&host, "k", "k v1"), stats_of(fleet.guards[0]).hit > hits));
    host_close(&host);
    fleet_close();
    stack_redis_stop(&redis);
}

/* ---- changes ---- */

struct loop_change {
    struct host *host;
    uint32_t deadline_ms;
    enum guard_status status;
    struct guard_invalidated result;
    atomic_uint told;
};

static void change_told(void *context, const struct guard_invalidated *result)
{
    struct loop_change *change = context;
    assert_true(pthread_equal(pthread_self(), change->host->thread));
    assert_false(change->host->detached);
    change->result = *result;
    atomic_fetch_add(&change->told, 1);
}

static void change_on_loop(struct host *host, void *context)
{
    struct loop_change *change = context;
    const struct guard_change all = {.keys = (const char *const[]){"k", "other"},
                                     .keys_count = 2,
                                     .deadline_ms = change->deadline_ms,
                                     .done = change_told,
                                     .context = change,
                                     .loop = host->attached};
    change->host = host;
    change->status = guard_invalidate(fleet.guards[0], &all);
    assert_int_equal(atomic_load(&change->told), 0);
}

static void change_and_detach(struct host *host, void *context)
{
    struct guard_loop *name = host->attached;
    struct loop_change after = {.host = host};
    change_on_loop(host, context);
    detach(host, NULL);
    assert_int_equal(
        guard_expire(fleet.guards[0], &(struct guard_change){.key = "k", .loop = name, .context = &after}),
        GUARD_CLOSING);
}

TEST(what_became_of_a_change_is_told_on_the_loop_that_it_names, P189)
{
    struct host host;
    struct loop_change change = {.deadline_ms = RIG_LIMIT_MS};
    open_with_host(&host);
    loop_expect(&host, "k", "k v1");
    host_do(&host, change_on_loop, &change);
    assert_int_equal(change.status, GUARD_OK);
    WAIT_UNTIL(atomic_load(&change.told) == 1);
    assert_int_equal(change.result.status, GUARD_OK);
    assert_true(change.result.value_dropped);
    host_close(&host);
    assert_int_equal(atomic_load(&change.told), 1);
}

TEST(a_loop_that_is_detached_stays_until_its_changes_are_told, P189)
{
    struct host host;
    struct loop_change change = {.deadline_ms = 300};
    open_with_host(&host);
    stack_redis_pause(&rig_redis);
    host_do(&host, change_and_detach, &change);
    WAIT_UNTIL(host.detached);
    assert_int_equal(atomic_load(&change.told), 1);
    assert_int_equal(change.result.status, GUARD_UNKNOWN);
    stack_redis_resume(&rig_redis);
    host_end(&host);
}

TEST(a_change_does_not_block_the_loop_that_it_names_and_names_none_of_another_guard, P189)
{
    struct host host;
    struct guard_invalidated result;
    fleet.config.log = guard_log_none;
    fleet_open(2);
    host_open(&host, 0);
    const struct guard_change change = {.key = "k", .loop = host.attached};
    assert_int_equal(guard_invalidate_wait(fleet.guards[0], &change, &result), GUARD_INVALID);
    assert_int_equal(guard_expire(fleet.guards[1], &change), GUARD_INVALID);
    host_close(&host);
}

/* ---- a connection that is lost in the turn that asks ---- */

enum { LOST_ASKS = 8 };

static struct {
    struct stack_redis redis;
    struct loop_ask asked[LOST_ASKS];
    atomic_bool all_asked;
} lost;

static void ask_at_once(void *context)
{
    struct host *host = context;
    host->rig.woken = on_work;
    for (size_t i = 0; i < LOST_ASKS; i++)
        loop_ask(host, &lost.asked[i]);
    atomic_store(&lost.all_asked, true);
}

/* The next turn finds the wake first, and behind it that the connection is closed. */
static void kill_redis_behind_a_wake(struct host *host, void *context)
{
    siginfo_t its;
    (void)context;
    host->rig.woken = ask_at_once;
    rig_kind->wake(&host->rig);
    kill(lost.redis.pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)lost.redis.pid, &its, WEXITED | WNOWAIT), 0);
}

/* Their lookups, and the question for their tags, were begun and could not be sent. */
TEST(who_asks_in_the_turn_in_which_the_connection_is_lost_is_answered, P76)
{
    static const char *const keys[] = {"a", "b", "c"};
    enum { KEY_COUNT = sizeof keys / sizeof keys[0] };
    struct host host;
    memset(&lost, 0, sizeof lost);
    assert_true(stack_redis_start(&lost.redis, NULL));
    fleet.config.redis_url = lost.redis.url;
    fleet.config.redis_limit_ms = 500; /* before they are loaded without it */
    fleet.policy.outage_ms = 0;        /* else they are answered with what is kept */
    fleet.policy.tagged = true;
    fleet.source.tag = "all";
    fleet_open(1);
    host_open(&host, 0);
    host_wait_up(&host, "a", "a v1");
    for (size_t i = 0; i < 2 * KEY_COUNT; i++) { /* from the second time on their tags are remembered */
        char row[8];
        snprintf(row, sizeof row, "%s v1", keys[i % KEY_COUNT]);
        loop_expect(&host, keys[i % KEY_COUNT], row);
    }
    for (size_t i = 0; i < LOST_ASKS; i++)
        lost.asked[i].key = keys[i % KEY_COUNT];
    const unsigned loads = fleet.source.begun;
    host_do(&host, kill_redis_behind_a_wake, NULL);
    WAIT_UNTIL(atomic_load(&lost.all_asked));
    for (size_t i = 0; i < LOST_ASKS; i++) {
        assert_int_equal(lost.asked[i].status, GUARD_OK);
        ask_wait(&lost.asked[i].ask);
        assert_int_equal(lost.asked[i].ask.result.status, GUARD_OK);
        ask_clear(&lost.asked[i].ask);
    }
    assert_in_range(fleet.source.begun - loads, KEY_COUNT,
                    LOST_ASKS); /* they join, unless the query has begun */
    host_close(&host);
    fleet_close();
    stack_redis_stop(&lost.redis);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);

int main(int argc, char **argv)
{
    return loops_main(argc, argv);
}
