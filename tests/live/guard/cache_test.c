/* SPDX-License-Identifier: MIT */
/*
 * cache_test.c - the name of a cache, and loads that are not stored in it, with a real Redis.
 */
#include "guard_rig.h"

typedef char cache_id[GUARD_CACHE_ID_BYTES + 1];

static void id_of(size_t i, cache_id id)
{
    WAIT_UNTIL(guard_cache(fleet.guards[i], id));
    assert_int_equal(strlen(id), GUARD_CACHE_ID_BYTES);
}

static bool is_named(void)
{
    return stack_redis_number(&rig_redis, "STRLEN csg1:{%s:cache}:id", fleet.name_space) ==
           GUARD_CACHE_ID_BYTES;
}

/* ---- its name ---- */

TEST(all_who_use_a_cache_call_it_the_same_whatever_their_mode, P81)
{
    static const enum guard_mode MODES[] = {GUARD_MODE_FLEET, GUARD_MODE_LOCAL, GUARD_MODE_OFF,
                                            GUARD_MODE_SHADOW};
    cache_id ids[4];
    for (size_t i = 0; i < 4; i++) {
        fleet.config.mode = MODES[i];
        fleet_add();
    }
    for (size_t i = 0; i < 4; i++) {
        id_of(i, ids[i]);
        assert_string_equal(ids[i], ids[0]);
    }
}

TEST(another_namespace_or_database_is_another_cache, P81)
{
    cache_id here, there;
    char url[RIG_URL_BYTES];
    fleet_add();
    fleet.config.name_space = "elsewhere";
    fleet_add();
    fleet.config.name_space = fleet.name_space;
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/1", (unsigned)rig_redis.port);
    fleet.config.redis_url = url;
    fleet_add();
    id_of(0, here);
    id_of(1, there);
    assert_string_not_equal(here, there);
    id_of(2, there);
    assert_string_not_equal(here, there);
}

TEST(it_is_not_known_while_redis_cannot_be_reached)
{
    cache_id id, again;
    fleet_open(1);
    id_of(0, id);
    stack_redis_kill(&rig_redis);
    WAIT_UNTIL(!guard_cache(fleet.guards[0], again));
    assert_string_equal(again, "");
    assert_true(stack_redis_restart(&rig_redis));
    id_of(0, again); /* empty, and given the name that was known of it */
    assert_string_equal(again, id);
    fleet_add();
    id_of(1, again);
    assert_string_equal(again, id);
}

TEST(a_name_that_was_lost_is_given_again_and_another_one_is_taken, P83)
{
    cache_id id, other;
    static const char CHANGED[] = "00000000-0000-4000-8000-000000000000";
    fleet_open(1);
    id_of(0, id);
    rig_do("DEL csg1:{%s:cache}:id", fleet.name_space);
    WAIT_UNTIL(is_named());
    fleet_add();
    id_of(1, other);
    assert_string_equal(other, id);
    rig_do("SET csg1:{%s:cache}:id %s", fleet.name_space, CHANGED);
    for (size_t i = 0; i < 2; i++)
        WAIT_UNTIL(guard_cache(fleet.guards[i], other) && strcmp(other, CHANGED) == 0);
    rig_do("DEL csg1:{%s:cache}:id", fleet.name_space);
    WAIT_UNTIL(is_named());
    fleet_add();
    id_of(2, other);
    assert_string_equal(other, CHANGED);
    rig_do("LPUSH list nonsense");
    rig_do("RENAME list csg1:{%s:cache}:id", fleet.name_space); /* of another type, at one go */
    WAIT_UNTIL(is_named());
}

/* ---- what is not to be stored ---- */

static const struct guard_keep NOWHERE = {.how = GUARD_STORE};

/* All wait before the query begins, for it waits for a place: who joins later would want a newer row. */
TEST(what_is_not_to_be_stored_answers_all_who_wait_and_is_loaded_again, P83)
{
    enum { CROWD = 10 };
    static struct ask other, asks[CROWD];
    fleet_keep_near();
    fleet.config.max_loads = 1;
    fleet_open(1);
    atomic_store(&fleet.source.keep, &NOWHERE);
    source_shut(&fleet.source);
    ask_start(0, &other, "other");
    WAIT_UNTIL(fleet.source.begun == 1);
    for (size_t i = 0; i < CROWD; i++)
        ask_start(0, &asks[i], "k");
    WAIT_UNTIL(FLEET_SUM(waiters) == CROWD + 1 && FLEET_SUM(loads_queued) == 1);
    source_open(&fleet.source);
    ask_wait(&other);
    ask_clear(&other);
    for (size_t i = 0; i < CROWD; i++) {
        ask_wait(&asks[i]);
        assert_row(&asks[i].result, "k v1");
        assert_false(asks[i].result.stored);
        ask_clear(&asks[i]);
    }
    assert_false(is_cached("k"));
    assert_false(is_near(0, "k"));
    WAIT_UNTIL(!is_leased("k"));
    atomic_store(&fleet.source.keep, NULL);
    assert_true(expect_row(0, "k", "k v1").stored);
    assert_int_equal(fleet.source.begun, 3);
}

TEST(nor_are_absent_rows_and_nobody_else_is_kept_from_loading, P83)
{
    fleet.source.verdict = SOURCE_ABSENT;
    fleet_open(2);
    atomic_store(&fleet.source.keep, &NOWHERE);
    for (unsigned i = 0; i < 4; i++)
        expect(i % 2, "k", GUARD_ABSENT);
    assert_int_equal(fleet.source.begun, 4);
    atomic_store(&fleet.source.keep, NULL);
    for (unsigned i = 0; i < 4; i++)
        expect(i % 2, "k", GUARD_ABSENT);
    assert_int_equal(fleet.source.begun, 5);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
