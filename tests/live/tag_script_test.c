/* SPDX-License-Identifier: MIT */
/*
 * tag_script_test.c - the scripts of the tags against a real redis-server, one test per property.
 */
#include "guard/base/key.h"
#include "guard/base/tags.h"
#include "tests/live/script_rig.h"

#include <inttypes.h>

enum { MOST_MS = 600000, TAGS = GUARD_TAGS_MAX };

static const char CLOCK[] = "csg1:{test:tags}:clock", REIGN[] = "csg1:{test:tags}:reign";

/* What stands there; era 0: nothing, or no clock. */
static struct tags_clock clock_at(const char *key)
{
    struct tags_clock clock = {0, 0};
    redisReply *reply = asked("GET %s", key);
    if (reply->type == REDIS_REPLY_STRING)
        tags_clock_read(reply->str, reply->len, &clock);
    freeReplyObject(reply);
    return clock;
}

static const char *tag_name(unsigned tag)
{
    static char names[TAGS][KEY_NAME_SIZE];
    char text[8];
    int bytes = snprintf(text, sizeof text, "t%u", tag);
    key_tag("test", text, (size_t)bytes, names[tag]);
    return names[tag];
}

/* ---- the scripts ---- */

static redisReply *clock_raw(void)
{
    struct words words = words_for(SCRIPT_TAG_CLOCK, "2");
    add(&words, CLOCK);
    add(&words, REIGN);
    add(&words, "600000");
    return run(&words);
}

static struct tags_clock read_clock(void)
{
    struct tags_clock clock;
    redisReply *reply = clock_raw();
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    assert_true(tags_clock_read(reply->str, reply->len, &clock));
    freeReplyObject(reply);
    return clock;
}

static long long invalidate(unsigned tag)
{
    struct words words = words_for(SCRIPT_TAG_INVALIDATE, "3");
    add(&words, CLOCK);
    add(&words, REIGN);
    add(&words, tag_name(tag));
    add(&words, "600000");
    add(&words, channel);
    add(&words, "t - t0");
    return number(run(&words));
}

/* An entry with the first `count` tags. */
static bool keep(struct tags_clock born, unsigned count)
{
    char keys[8], text[TAGS_CLOCK_BYTES + 1];
    tags_clock_write(&born, text);
    snprintf(keys, sizeof keys, "%u", count + 2);
    struct words words = words_for(SCRIPT_TAG_KEEP, keys);
    add(&words, CLOCK);
    add(&words, REIGN);
    for (unsigned tag = 0; tag < count; tag++)
        add(&words, tag_name(tag));
    add(&words, text);
    add(&words, "600000");
    return number(run(&words)) == 1;
}

static bool is_same(struct tags_clock a, struct tags_clock b)
{
    return a.era == b.era && a.count == b.count;
}

/* ---- the clock ---- */

TEST(the_clock_begins_with_an_era_and_stands_until_something_is_invalidated)
{
    struct tags_clock first = read_clock();
    assert_int_equal(first.count, 1);
    assert_true(is_same(read_clock(), first));
    assert_true(is_same(clock_at(CLOCK), first));
    assert_int_equal(invalidate(0), 0);
    struct tags_clock next = read_clock();
    assert_true(next.era == first.era && next.count == 2);
    assert_true(is_same(clock_at(tag_name(0)), next));
    assert_int_equal(invalidate(0), 1);
    assert_int_equal(read_clock().count, 3);
}

TEST(a_lost_clock_begins_another_era)
{
    struct tags_clock first = read_clock();
    must("DEL csg1:{test:tags}:clock");
    assert_true(read_clock().era != first.era);
    must("DEL csg1:{test:tags}:clock");
    invalidate(0);
    assert_true(clock_at(tag_name(0)).era != first.era);
}

TEST(what_is_no_clock_is_replaced)
{
    static const char *const wrong[] = {"SET csg1:{test:tags}:clock 17", "LPUSH csg1:{test:tags}:clock 1",
                                        "SET csg1:{test:tags}:clock 0000000000000000000000000000.",
                                        "SET csg1:{test:tags}:clock 1763777777000000-000000000001"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        must("DEL csg1:{test:tags}:clock");
        must(wrong[i]);
        assert_int_equal(read_clock().count, 1);
        must("DEL csg1:{test:tags}:clock");
        must(wrong[i]);
        invalidate(0);
        assert_true(is_same(clock_at(tag_name(0)), read_clock()));
    }
}

TEST(every_key_has_a_ttl_and_what_is_used_lives_on)
{
    struct tags_clock clock = read_clock();
    assert_ttl(pttl(CLOCK), MOST_MS);
    must("PEXPIRE csg1:{test:tags}:clock 1000");
    read_clock();
    assert_ttl(pttl(CLOCK), MOST_MS);
    assert_ttl(pttl(REIGN), MOST_MS);
    must("PERSIST csg1:{test:tags}:clock");
    read_clock();
    assert_ttl(pttl(CLOCK), MOST_MS);
    keep(clock, 1);
    assert_ttl(pttl(tag_name(0)), MOST_MS);
    must("PEXPIRE csg1:{test:tags}:t:t0 1000");
    keep(clock, 1);
    assert_ttl(pttl(tag_name(0)), MOST_MS);
    invalidate(1);
    assert_ttl(pttl(tag_name(1)), MOST_MS);
}

/* ---- the leap ---- */

static struct stack_redis replica;

/* Which of the two the scripts run on. */
static void change_servers(void)
{
    struct stack_redis other = replica;
    replica = server;
    server = other;
}

static bool is_good(struct tags_clock born, unsigned tag)
{
    struct tags_epochs epochs = {.answered = true, .count = 1, .of = {clock_at(tag_name(tag))}};
    return tags_judge(&epochs, 1, &born) == TAGS_GOOD;
}

/* From here on it hears nothing of what the master does. */
static void cut_replica_off(void)
{
    assert_true(stack_redis_wait_in_sync(&replica, &server, 10000));
    freeReplyObject(stack_redis_command(&replica, "REPLICAOF 127.0.0.1 1"));
}

/* As the leap sees it. */
static uint64_t redis_ms_since_2026(void)
{
    redisReply *reply = asked("TIME");
    uint64_t s = strtoull(reply->element[0]->str, NULL, 10), us = strtoull(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return (s - 1767225600) * 1000 + us / 1000;
}

static void wait_past(uint64_t count)
{
    for (unsigned asked_times = 0; redis_ms_since_2026() <= count; asked_times++)
        assert_in_range(asked_times, 0, 100000);
}

/* t0 is invalidated at the replica, once it is the master and its time is later than that; false: an entry that was
 * born then, and which another node of a Cluster has, would still be good. */
static bool invalidates_as_master(struct tags_clock born)
{
    assert_true(is_good(born, 0));
    assert_true(stack_redis_promote(&replica));
    change_servers();
    wait_past(born.count);
    assert_int_equal(invalidate(0), 1);
    bool outdated = !is_good(born, 0) && !keep(born, 1);
    bool works = keep(read_clock(), 1) && read_clock().era == born.era;
    change_servers();
    stack_redis_stop(&replica);
    return outdated && works;
}

TEST(an_entry_is_not_good_because_a_master_that_took_over_counts_the_same_numbers_again)
{
    assert_true(stack_redis_start_replica(&replica, &server));
    assert_true(keep(read_clock(), 1));
    cut_replica_off();
    invalidate(1);
    invalidate(1);
    struct tags_clock born = read_clock();
    assert_int_equal(born.count, 3);
    assert_true(invalidates_as_master(born));
}

TEST(a_leap_that_was_lost_does_not_come_again)
{
    assert_true(stack_redis_start_replica(&replica, &server));
    assert_true(keep(read_clock(), 1));
    must("SET csg1:{test:tags}:reign another PX 600000");
    cut_replica_off();
    invalidate(1);
    invalidate(1);
    struct tags_clock born = read_clock();
    assert_true(born.count > 1000000);
    assert_true(invalidates_as_master(born));
}

/* The clock of the first is what both of the next two masters had of it. */
TEST(two_leaps_soon_after_another_leap_do_not_meet)
{
    char first[96];
    must("SET csg1:{test:tags}:clock 0000000000000017.000000000001 PX 600000");
    must("SET csg1:{test:tags}:reign first PX 600000");
    uint64_t count = read_clock().count;
    snprintf(first, sizeof first, "SET %s 0000000000000017.%012" PRIu64 " PX 600000", CLOCK, count);
    wait_past(count);
    must("SET csg1:{test:tags}:reign second PX 600000");
    struct tags_clock second = read_clock();
    assert_int_equal(second.era, 17);
    wait_past(second.count);
    must(first);
    must("SET csg1:{test:tags}:reign third PX 600000");
    assert_int_equal(read_clock().era, 17);
    assert_true(read_clock().count > second.count);
}

TEST(a_master_whose_time_is_not_later_than_the_clock_begins_an_era)
{
    must("SET csg1:{test:tags}:clock 0000000000000017.900000000000 PX 600000");
    struct tags_clock clock = read_clock();
    assert_true(clock.era > 17 && clock.count == 1);
}

TEST(the_clock_leaps_once_whatever_asks_it_first_under_another_reign)
{
    read_clock();
    must("SET csg1:{test:tags}:reign another PX 600000");
    struct tags_clock clock = read_clock();
    assert_in_range(redis_ms_since_2026() - clock.count, 0, SLACK_MS);
    assert_int_equal(read_clock().count, clock.count);
    assert_ttl(pttl(REIGN), MOST_MS);
    wait_past(clock.count);
    must("SET csg1:{test:tags}:reign another PX 600000");
    invalidate(0);
    struct tags_clock of_t0 = clock_at(tag_name(0));
    assert_true(of_t0.count > clock.count + 1 && of_t0.era == clock.era);
    assert_int_equal(read_clock().count, of_t0.count);
    wait_past(of_t0.count);
    must("DEL csg1:{test:tags}:reign");
    assert_false(keep(clock, 2)); /* t1 gets the present clock */
    assert_true(clock_at(tag_name(1)).count > of_t0.count);
    assert_int_equal(read_clock().count, clock_at(tag_name(1)).count);
}

TEST(a_clock_whose_digits_are_used_up_begins_another_era)
{
    struct tags_clock clock = read_clock();
    must("SET csg1:{test:tags}:clock 0000000000000017.999999999999 PX 600000");
    assert_int_equal(read_clock().count, 999999999999);
    invalidate(0);
    assert_true(read_clock().era > 17 && read_clock().era != clock.era && read_clock().count == 1);
    must("SET csg1:{test:tags}:clock 0000000000000017.999998951424 PX 600000");
    must("DEL csg1:{test:tags}:reign");
    assert_true(read_clock().era > 17 && read_clock().count == 1);
}

TEST(a_login_without_info_has_no_leaps_and_its_tags_work)
{
    must("ACL SETUSER narrow reset on nopass ~* &* +@all -info");
    must("AUTH narrow any");
    struct tags_clock first = read_clock();
    assert_true(keep(first, 1));
    must("SET csg1:{test:tags}:reign another PX 600000");
    invalidate(0);
    assert_int_equal(read_clock().count, first.count + 1);
    assert_false(keep(first, 1));
    must("AUTH default any");
}

TEST(without_memory_a_leap_is_another_era)
{
    struct tags_clock born = read_clock();
    assert_true(keep(born, 1));
    must("SET csg1:{test:tags}:reign another PX 600000");
    must("CONFIG SET maxmemory 1");
    redisReply *reply = clock_raw();
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    assert_int_equal(clock_at(CLOCK).era, 0);
    must("CONFIG SET maxmemory 0");
    assert_true(read_clock().era != born.era);
    assert_false(keep(born, 1));
}

/* ---- keeping ---- */

TEST(an_entry_is_good_unless_a_tag_was_invalidated_since_it_was_born)
{
    struct tags_clock born = read_clock();
    assert_true(keep(born, TAGS));
    invalidate(TAGS - 1);
    assert_false(keep(born, TAGS));
    assert_true(keep(born, TAGS - 1));
    assert_true(keep(read_clock(), TAGS));
    assert_false(keep(born, TAGS));
}

TEST(a_lost_epoch_is_the_present_clock)
{
    struct tags_clock born = read_clock();
    invalidate(0);
    must("DEL csg1:{test:tags}:t:t0");
    assert_false(keep(born, 1));
    assert_true(is_same(clock_at(tag_name(0)), read_clock()));
    assert_true(keep(read_clock(), 1));
}

TEST(an_epoch_of_an_era_that_is_over_is_replaced)
{
    struct tags_clock born = read_clock();
    assert_true(keep(born, 1));
    must("DEL csg1:{test:tags}:clock");
    struct tags_clock now = read_clock();
    assert_true(keep(now, 1));
    assert_true(is_same(clock_at(tag_name(0)), now));
    assert_false(keep(born, 1));
    must("DEL csg1:{test:tags}:clock");
    assert_false(keep(now, 1)); /* begins another clock itself */
    assert_true(clock_at(CLOCK).era != 0 && clock_at(CLOCK).era != now.era);
}

/* ---- without memory ---- */

TEST(without_memory_an_invalidation_takes_epoch_and_clock_away)
{
    struct tags_clock born = read_clock();
    assert_true(keep(born, 1));
    must("CONFIG SET maxmemory 1");
    assert_int_equal(invalidate(0), 1);
    assert_int_equal(clock_at(tag_name(0)).era, 0);
    assert_int_equal(clock_at(CLOCK).era, 0);
    redisReply *reply = clock_raw();
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    must("CONFIG SET maxmemory 0");
    assert_false(keep(born, 1));
}

TEST_GROUP(.up = server_up, .down = server_down, .before = server_empty);
