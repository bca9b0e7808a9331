/* SPDX-License-Identifier: MIT */
/* redis_reign_test.c - which connections of a process still count. */
#include "guard/redis/place.h"
#include "tests/support/test.h"

#define FIRST "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SECOND "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static unsigned ended;

static void on_ended(void *context)
{
    assert_ptr_equal(context, &ended);
    ended++;
}

static void begin(struct redis_reign *reign)
{
    ended = 0;
    redis_reign_init(reign, on_ended, &ended);
}

/* A whole greeting. */
static uint64_t join(struct redis_reign *reign, const char *name)
{
    uint64_t generation = UINT64_MAX;
    assert_true(redis_reign_join(reign, redis_reign_now(reign), name, &generation));
    assert_int_equal(generation, redis_reign_now(reign));
    return generation;
}

TEST(another_master_ends_all_that_was_there)
{
    struct redis_reign reign;
    begin(&reign);
    join(&reign, FIRST);
    assert_int_equal(join(&reign, SECOND), 1);
    assert_int_equal(ended, 1);
    assert_int_equal(join(&reign, SECOND), 1);
    assert_int_equal(join(&reign, FIRST), 2); /* back again is another one, too */
    assert_int_equal(ended, 2);
    redis_reign_clear(&reign);
}

/* What it heard may be older than what another connection has found out meanwhile. */
TEST(who_was_greeted_before_the_change_asks_again, P85)
{
    struct redis_reign reign;
    uint64_t seen = 0, generation = 0;
    begin(&reign);
    join(&reign, FIRST);
    join(&reign, SECOND);
    assert_false(redis_reign_join(&reign, seen, FIRST, &generation));
    assert_false(redis_reign_join(&reign, seen, "", &generation));
    assert_int_equal(redis_reign_now(&reign), 1);
    assert_true(redis_reign_join(&reign, seen, SECOND, &generation)); /* it has found the same */
    assert_int_equal(generation, 1);
    assert_int_equal(ended, 1);
    redis_reign_clear(&reign);
}

TEST(a_reign_that_ended_is_followed_by_whichever_is_confirmed_first)
{
    struct redis_reign reign;
    uint64_t first = 0, generation = 0;
    begin(&reign);
    first = join(&reign, FIRST);
    redis_reign_end(&reign, first);
    assert_int_equal(ended, 1);
    redis_reign_end(&reign, first); /* the next connection is told the same */
    assert_int_equal(ended, 1);
    assert_false(redis_reign_join(&reign, first, FIRST, &generation));
    assert_int_equal(join(&reign, SECOND), 1);
    assert_int_equal(ended, 1);
    redis_reign_clear(&reign);
}
