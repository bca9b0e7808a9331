/* SPDX-License-Identifier: MIT */
/*
 * bad_entry_test.c - Redis holds foreign data under the key of a value.
 *
 * In each case every request gets the row, one query replaces the entry, and from then on it is a hit again. What is
 * damaged, and what stands under the keys of leases and failures, unit/envelope_test and live/script_test have.
 */
#include "tests/support/probe.h"

#include "load/base/net.h"
#include "tests/support/test.h"

#include <hiredis/hiredis.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROCESSES = 2,
    REQUESTS = 40,
    FRESH_MS = 60000,
};

/* ---- Redis by hand ---- */

static void set_bytes(const char *key, const char *bytes, size_t count)
{
    fleet_redis_does("SET %s %b PX 50000", key, bytes, count);
}

/* The entry under the key; freeReplyObject() is the caller's. */
static struct redisReply *get_entry(const char *key)
{
    struct redisReply *reply = stack_redis_command(&fleet.redis, "GET %s", key);
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    return reply;
}

/* ---- one bad thing ---- */

struct bad_key {
    char path[BURST_PATH_BYTES];
    char id_text[40]; /* how the right document begins */
    char value_key[FLEET_KEY_BYTES], lease_key[FLEET_KEY_BYTES];
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct burst *burst; /* REQUESTS connections over both processes */
};

static struct bad_key bad;

static struct bad_key *begin(const char *const *settings)
{
    assert_true(fleet_start(PROCESSES, settings));
    uint32_t id = fleet_cold_product(bad.path);
    snprintf(bad.id_text, sizeof bad.id_text, "{\"id\":%" PRIu32 ",", id);
    fleet_redis_key(bad.value_key, id, 'v');
    fleet_redis_key(bad.lease_key, id, 'l');
    struct burst_options options = fleet_options(bad.targets, bad.path, REQUESTS);
    options.keeps_bodies = true;
    assert_true(burst_open(&options, &bad.burst));
    return &bad;
}

static bool end(void)
{
    if (bad.burst != NULL)
        burst_close(&bad.burst);
    return fleet_end();
}

static void assert_round_is_right(struct bad_key *key)
{
    struct burst_summary summary;
    assert_true(burst_run(key->burst));
    burst_summarise(key->burst, &summary);
    assert_int_equal(summary.statuses[200], REQUESTS);
    assert_int_equal(summary.bodies, 1);
    assert_ptr_equal(strstr(burst_answers(key->burst)[0].body, key->id_text),
                     burst_answers(key->burst)[0].body);
}

/* It is replaced with one query, and what replaced it is a hit for everybody. */
static void assert_replaced(struct bad_key *key)
{
    uint32_t before = fleet_loads(FLEET_LOAD_PRODUCT);
    assert_round_is_right(key);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), before + 1);
    assert_round_is_right(key);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), before + 1);
    assert_in_range(fleet_redis_number("PTTL", key->value_key), 1, FRESH_MS);
    assert_int_equal(fleet_redis_number("EXISTS", key->lease_key), 0);
}

/* ---- the value ---- */

TEST(a_value_that_is_not_ours_is_replaced, P34)
{
    static const char *const foreign[] = {
        "",
        "hello",
        "{\"id\":7,\"name\":\"from another program\"}",
        "00000000-0000-4000-8000-000000000000 0000000060000 0000000000000 csg3 v 0000000000000 0000 000 "
        "0000000000\n",
        "00000000-0000-4000-8000-000000000000 9999999999999 0000000000000 csg3 v ---------- - 0000000000000 "
        "0000 000 "
        "0000000000\n",
        "00000000-0000-4000-8000-000000000000 0000000060000 0000000059999 nothing of the kind",
        "00000000-0000-4000-8000-000000000000 0000000000000 0000000000000 csg3 a ---------- - 0000000000000 "
        "0009 000 "
        "0000000000\n",
    };
    struct bad_key *key = begin(NULL);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        set_bytes(key->value_key, foreign[i], strlen(foreign[i]));
        assert_replaced(key);
    }
    assert_true(fleet_sum("guard_entries_rejected_total") > 0);
}

TEST(the_sound_value_of_another_key_is_replaced, P34)
{
    struct bad_key *key = begin(NULL);
    char other_path[BURST_PATH_BYTES], other_key[FLEET_KEY_BYTES];
    fleet_redis_key(other_key, fleet_cold_product(other_path), 'v');
    assert_int_equal(fleet_ask_status(0, other_path), 200);
    struct redisReply *other = get_entry(other_key);
    set_bytes(key->value_key, other->str, other->len);
    assert_replaced(key);
    assert_int_equal(fleet_ask_status(0, "/products/900000000"), 404);
    freeReplyObject(other);
    other = get_entry("csg1:{fleet:product:900000000}:v"); /* "no such row", of another key */
    set_bytes(key->value_key, other->str, other->len);
    assert_replaced(key);
    freeReplyObject(other);
}

TEST(a_value_of_another_type_is_replaced)
{
    struct bad_key *key = begin(NULL);
    static const char *const makers[] = {"RPUSH %s a b c", "SADD %s a b c", "HSET %s field value",
                                         "ZADD %s 1 a", "XADD %s * field value"};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        fleet_redis_does("DEL %s", key->value_key);
        fleet_redis_does(makers[i], key->value_key);
        assert_replaced(key);
    }
}

/* ---- the channel ---- */

/* Anybody may publish there: what makes no sense is ignored, what does is a hint. */
TEST(noise_on_the_wake_channel_harms_nobody)
{
    struct bad_key *key = begin(NULL);
    static const char *const noise[] = {"",
                                        "f",
                                        "f ",
                                        "f  ",
                                        "x y z",
                                        "c",
                                        "c ",
                                        "i 0123456789abcdef product:1",
                                        "r \xff\xfe product:1",
                                        "f 0123456789abcdef "};
    for (size_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof noise / sizeof *noise; i++)
            fleet_redis_does("PUBLISH csg1:wake:fleet:0 %s", noise[i]);
    }
    assert_replaced(key);
}

TEST_GROUP(.up = fleet_up, .down = fleet_down, .after = end);
