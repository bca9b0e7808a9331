/* SPDX-License-Identifier: MIT */
/*
 * permit_script_test.c - the three scripts of the load permits against a real redis-server.
 *
 * Nothing sleeps. The test sets the instants of everything that has to be old, or from before a clock step.
 */
#include "tests/live/guard/script_rig.h"

enum { PERMIT_MS = 30000, WAIT_MS = 20000 };

/* ---- commands ---- */

static long long score(const char *key, const char *member)
{
    redisReply *reply = asked("ZSCORE %s %s", key, member);
    long long at = reply->type == REDIS_REPLY_STRING ? atoll(reply->str) : -1;
    freeReplyObject(reply);
    return at;
}

static long long now_ms(void)
{
    redisReply *reply = asked("TIME");
    long long ms = atoll(reply->element[0]->str) * 1000 + atoll(reply->element[1]->str) / 1000;
    freeReplyObject(reply);
    return ms;
}

static void set_score(const char *key, const char *member, long long at_ms)
{
    must("ZADD %s %lld %s", key, at_ms, member);
}

/* Arguments without blanks; "-": an empty one. */
static long long run_words(enum script script, const char *key_count, const char *arguments)
{
    struct words words = words_for(script, key_count);
    char copy[256], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", arguments);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        add(&words, strcmp(word, "-") == 0 ? "" : word);
    return number(run(&words));
}

static long long acquire_of(const char *token, const char *waiter, int limit, char class, bool more)
{
    char arguments[256];
    snprintf(arguments, sizeof arguments, "{t}:p {t}:q {t}:a %s %s %d %d %d %c %d wake", token, waiter, limit,
             PERMIT_MS, WAIT_MS, class, more);
    return run_words(SCRIPT_PERMIT_ACQUIRE, "3", arguments);
}

/* Of a user, the only one. */
static long long acquire(const char *token, const char *waiter, int limit)
{
    return acquire_of(token, waiter, limit, 'u', false);
}

static long long renew(const char *token)
{
    char arguments[128];
    snprintf(arguments, sizeof arguments, "{t}:p %s %d", token, PERMIT_MS);
    return run_words(SCRIPT_PERMIT_RENEW, "1", arguments);
}

/* "-": leaves the queue. */
static long long release(const char *token, const char *waiter, int limit)
{
    char arguments[128];
    snprintf(arguments, sizeof arguments, "{t}:p {t}:q {t}:a %s %s %d wake", token, waiter, limit);
    return run_words(SCRIPT_PERMIT_RELEASE, "3", arguments);
}

static void assert_refused(long long answer)
{
    assert_in_range(-answer, 1, PERMIT_MS > WAIT_MS ? PERMIT_MS : WAIT_MS);
}

/* ---- permits ---- */

TEST(every_key_has_a_ttl, P48)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    assert_refused(acquire("t2", "B", 1));
    assert_in_range(number(asked("PTTL {t}:p")), PERMIT_MS + 1000 - SLACK_MS, PERMIT_MS + 1000);
    assert_in_range(number(asked("PTTL {t}:q")), WAIT_MS + 1000 - SLACK_MS, WAIT_MS + 1000);
    assert_in_range(number(asked("PTTL {t}:a")), WAIT_MS + 1000 - SLACK_MS, WAIT_MS + 1000);
    must("PERSIST {t}:p");
    assert_int_equal(renew("t1"), 1);
    assert_in_range(number(asked("PTTL {t}:p")), PERMIT_MS + 1000 - SLACK_MS, PERMIT_MS + 1000);
}

TEST(the_same_token_is_the_same_permit, P48)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    assert_int_equal(acquire("t1", "A", 1), 1);
    assert_int_equal(number(asked("ZCARD {t}:p")), 1);
    assert_int_equal(release("t1", "A", 1), 1);
    assert_int_equal(release("t1", "A", 1), 0);
    assert_int_equal(number(asked("ZCARD {t}:p")), 0);
}

/* It takes one that nobody uses, never one too many, and runs out. */
TEST(a_duplicate_after_the_release_takes_one_and_never_one_too_many)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    assert_int_equal(release("t1", "A", 1), 1);
    assert_int_equal(acquire("t1", "A", 1), 1); /* late */
    assert_refused(acquire("t2", "B", 1));
    set_score("{t}:p", "t1", now_ms() - 1);
    assert_int_equal(acquire("t2", "B", 1), 1);
    assert_int_equal(number(asked("ZCARD {t}:p")), 1);
}

TEST(a_foreign_token_gives_nothing_back)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    assert_refused(acquire("t2", "B", 1));
    assert_int_equal(release("t9", "C", 1), 0);
    told("");
    assert_true(score("{t}:p", "t1") > 0);
}

TEST(the_permit_of_a_dead_holder_runs_out)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    long long refused = -acquire("t2", "B", 1);
    assert_in_range(refused, PERMIT_MS - SLACK_MS, PERMIT_MS);
    set_score("{t}:p", "t1", now_ms() - 1);
    assert_int_equal(acquire("t3", "B", 1), 1);
    assert_int_equal(score("{t}:p", "t1"), -1);
}

TEST(a_refusal_says_when_the_first_runs_out)
{
    assert_int_equal(acquire("t1", "A", 2), 1);
    assert_int_equal(acquire("t2", "A", 2), 1);
    set_score("{t}:p", "t2", now_ms() + 5000);
    assert_in_range(-acquire("t3", "B", 2), 1, 5000);
}

TEST(a_renewal_lengthens_and_counts_again_what_was_lost)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    set_score("{t}:p", "t1", now_ms() + 5000);
    assert_int_equal(renew("t1"), 1);
    assert_true(score("{t}:p", "t1") > now_ms() + 5000);
    must("FLUSHALL");
    assert_int_equal(acquire("t2", "B", 1), 1);
    assert_int_equal(renew("t1"), 0); /* its load runs: both count */
    assert_int_equal(number(asked("ZCARD {t}:p")), 2);
    assert_int_equal(release("t2", "B", 1), 1);
    assert_refused(acquire("t3", "B", 1));
    assert_int_equal(renew("t1"), 1);
}

TEST(after_a_clock_step_back_permits_are_shortened_not_dropped)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    set_score("{t}:p", "t1", now_ms() + 3600000);
    assert_in_range(-acquire("t2", "B", 1), 1, PERMIT_MS);
    assert_in_range(score("{t}:p", "t1"), now_ms() + 1, now_ms() + PERMIT_MS);
    set_score("{t}:a", "B", now_ms() + 3600000);
    assert_refused(acquire("t3", "C", 1));
    assert_in_range(score("{t}:a", "B"), now_ms() + 1, now_ms() + WAIT_MS);
}

TEST(permits_are_granted_and_given_back_without_memory)
{
    must("CONFIG SET maxmemory-policy noeviction");
    must("CONFIG SET maxmemory 1");
    redisReply *denied = asked("SET x 1");
    assert_int_equal(denied->type, REDIS_REPLY_ERROR); /* it is really full */
    freeReplyObject(denied);
    assert_int_equal(acquire("t1", "A", 1), 1);
    assert_refused(acquire("t2", "B", 1));
    assert_int_equal(renew("t1"), 1);
    assert_int_equal(release("t1", "A", 1), 1);
    told("p - B");
    assert_int_equal(renew("t1"), 0);
}

/* ---- the queue ---- */

TEST(who_gives_one_back_does_not_get_it_again_while_another_waits)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    assert_refused(acquire("t2", "B", 1));
    for (int round = 0; round < 10; round++) { /* both always want one */
        const char *holder = round % 2 == 0 ? "A" : "B", *next = round % 2 == 0 ? "B" : "A";
        char message[8];
        assert_int_equal(release("t1", holder, 1), 1);
        assert_refused(acquire("t9", holder, 1));
        snprintf(message, sizeof message, "p - %s", next);
        told(message);
        assert_int_equal(acquire("t1", next, 1), 1);
    }
}

TEST(who_asks_again_keeps_his_place)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    assert_refused(acquire("t2", "B", 1));
    assert_refused(acquire("t3", "C", 1));
    assert_refused(acquire("t4", "B", 1));
    assert_int_equal(release("t1", "A", 1), 1);
    told("p - B");
    assert_refused(acquire("t5", "C", 1));
    assert_int_equal(acquire("t6", "B", 1), 1);
}

TEST(as_many_are_told_as_permits_are_free_and_the_one_who_gives_back_is_not)
{
    assert_int_equal(acquire("t1", "A", 2), 1);
    assert_int_equal(acquire("t2", "A", 2), 1);
    assert_refused(acquire("t3", "A", 2));
    assert_refused(acquire("t4", "B", 2));
    assert_refused(acquire("t5", "C", 2));
    assert_int_equal(release("t1", "A", 2), 1);
    told("");
    assert_int_equal(release("t2", "A", 2), 1);
    told("p - B");
    assert_int_equal(acquire("t6", "A", 2), 1);
    assert_int_equal(acquire("t7", "B", 2), 1);
}

TEST(who_wants_more_goes_to_the_end_of_the_queue)
{
    assert_int_equal(acquire_of("t1", "A", 3, 'u', true), 3); /* two more are free */
    assert_int_equal(acquire_of("t2", "A", 3, 'u', true), 2);
    assert_refused(acquire("t3", "B", 2)); /* A is ahead: he asks for the last one */
    assert_int_equal(acquire_of("t4", "A", 3, 'u', true), 1);
    assert_refused(acquire("t5", "A", 3));
    assert_int_equal(release("t1", "A", 3), 1);
    told("p - B");
    assert_refused(acquire("t6", "A", 3));
    assert_int_equal(acquire("t7", "B", 3), 1);
}

TEST(users_come_before_refreshes_wherever_they_wait)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    assert_refused(acquire_of("t2", "R", 1, 'r', false));
    assert_refused(acquire_of("t3", "U", 1, 'u', false));
    assert_int_equal(release("t1", "A", 1), 1);
    told("p - U");
    assert_refused(acquire_of("t4", "R", 1, 'r', false));
    assert_int_equal(acquire("t5", "U", 1), 1);
    assert_int_equal(release("t5", "U", 1), 1);
    told("p - R");
    assert_int_equal(acquire_of("t6", "R", 1, 'r', false), 1);
}

TEST(a_process_that_gets_a_user_leaves_the_refreshes_behind_and_back)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    assert_refused(acquire_of("t2", "B", 1, 'r', false));
    assert_refused(acquire_of("t3", "C", 1, 'r', false));
    assert_refused(acquire_of("t4", "C", 1, 'u', false));
    assert_int_equal(number(asked("ZRANK {t}:q C")), 0);
    assert_refused(acquire_of("t5", "C", 1, 'r', false));
    assert_int_equal(number(asked("ZRANK {t}:q C")), 1);
    assert_int_equal(number(asked("ZCARD {t}:q")), 2);
}

/* He was told, and it is for users before him. */
TEST(who_falls_back_from_a_permit_that_is_free_tells_whom_it_is_for, P48)
{
    assert_int_equal(acquire("t1", "C", 1), 1);
    assert_refused(acquire("t2", "A", 1));
    assert_refused(acquire("t3", "D", 1));
    assert_refused(acquire("t4", "E", 1));
    assert_int_equal(release("t1", "C", 1), 1);
    told("p - A");
    assert_refused(acquire_of("t5", "A", 1, 'r', false)); /* his user has left */
    told("p - D");
    assert_int_equal(acquire("t6", "D", 1), 1);
    assert_refused(acquire_of("t7", "E", 1, 'r', false)); /* none is free */
    told("");
}

TEST(who_falls_back_tells_as_many_as_permits_are_free)
{
    assert_int_equal(acquire("t1", "C", 2), 1);
    assert_int_equal(acquire("t2", "C", 2), 1);
    assert_refused(acquire("t3", "A", 2));
    assert_refused(acquire("t4", "D", 2));
    assert_refused(acquire("t5", "E", 2));
    assert_int_equal(release("t1", "C", 2), 1);
    told("p - A");
    assert_int_equal(release("t2", "C", 2), 1);
    told("p - A, p - D");
    assert_refused(acquire_of("t6", "A", 2, 'r', false));
    told("p - D, p - E");
}

TEST(nobody_waits_behind_the_dead)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    assert_refused(acquire("t2", "dead", 1));
    assert_refused(acquire("t3", "B", 1));
    set_score("{t}:a", "dead", now_ms() - 1);
    assert_int_equal(release("t1", "A", 1), 1);
    told("p - B");
    assert_int_equal(number(asked("ZCARD {t}:q")), 1);
    assert_int_equal(acquire("t4", "B", 1), 1);
    assert_refused(acquire("t5", "dead", 1));
    set_score("{t}:a", "dead", now_ms() - 1);
    assert_refused(acquire("t6", "C", 1)); /* which sweeps, too */
    assert_int_equal(number(asked("ZRANK {t}:q C")), 0);
}

TEST(a_queue_that_lost_one_of_its_keys_starts_anew)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    assert_refused(acquire("t2", "B", 1));
    must("DEL {t}:a");
    assert_int_equal(release("t1", "A", 1), 1);
    assert_int_equal(acquire("t3", "C", 1), 1);
    assert_refused(acquire("t4", "C", 1));
    must("DEL {t}:q");
    assert_refused(acquire("t5", "D", 1));
    assert_int_equal(number(asked("ZCARD {t}:q")), 1);
    assert_int_equal(number(asked("ZCARD {t}:a")), 1);
}

TEST(who_leaves_the_queue_tells_the_next)
{
    assert_int_equal(acquire("t1", "A", 1), 1);
    assert_refused(acquire("t2", "B", 1));
    assert_refused(acquire("t3", "C", 1));
    assert_int_equal(release("t1", "A", 1), 1);
    told("p - B");
    assert_int_equal(release("-", "B", 1), 0);
    told("p - C");
    assert_int_equal(number(asked("ZCARD {t}:q")), 1);
    assert_int_equal(number(asked("ZCARD {t}:a")), 1);
}

TEST_GROUP(.up = server_up, .down = server_down, .before = server_empty);
