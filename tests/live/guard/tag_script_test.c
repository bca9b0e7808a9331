/* SPDX-License-Identifier: MIT */
/*
 * tag_script_test.c - the scripts of the tags against a real redis-server, one test per property.
 */
#include "guard/base/key.h"
#include "guard/base/tags.h"
#include "tests/live/guard/script_rig.h"

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

/* What stands there, until the next call. */
static const char *text_at(const char *key)
{
    static char text[1024];
    redisReply *reply = asked("GET %s", key);
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    snprintf(text, sizeof text, "%s", reply->str);
    freeReplyObject(reply);
    return text;
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

static const char *expiry_name(unsigned tag)
{
    static char names[TAGS][KEY_NAME_SIZE];
    char text[8];
    int bytes = snprintf(text, sizeof text, "t%u", tag);
    key_tag_expiry("test", text, (size_t)bytes, names[tag]);
    return names[tag];
}

static long long change(unsigned tag, const char *mode)
{
    struct words words = words_for(SCRIPT_TAG_INVALIDATE, "4");
    add(&words, CLOCK);
    add(&words, REIGN);
    add(&words, tag_name(tag));
    add(&words, expiry_name(tag));
    add(&words, "600000");
    add(&words, channel);
    add(&words, "t - t0");
    add(&words, mode);
    return number(run(&words));
}

static long long invalidate(unsigned tag)
{
    return change(tag, "h");
}

static void expire(unsigned tag)
{
    change(tag, "s");
}

enum { GONE = -1 };

/* How long ago the first `count` tags were expired for an entry that was born then; *newborn: when it may be called
 * born. GONE: it is out of date. */
static long long expired_ms(struct tags_clock born, unsigned count, struct tags_clock *newborn)
{
    char keys[8], text[TAGS_CLOCK_BYTES + 1];
    tags_clock_write(&born, text);
    snprintf(keys, sizeof keys, "%u", 2 * count);
    struct words words = words_for(SCRIPT_TAG_STALE, keys);
    for (unsigned tag = 0; tag < count; tag++)
        add(&words, tag_name(tag));
    for (unsigned tag = 0; tag < count; tag++)
        add(&words, expiry_name(tag));
    add(&words, text);
    redisReply *reply = run(&words);
    long long age_ms = GONE;
    if (reply->type == REDIS_REPLY_ARRAY) {
        assert_true(tags_clock_read(reply->element[0]->str, reply->element[0]->len, newborn));
        age_ms = reply->element[1]->integer;
        assert_true(age_ms >= 0);
    } else {
        assert_string_equal(reply->str, "");
    }
    freeReplyObject(reply);
    return age_ms;
}

static long long age_of(struct tags_clock born, unsigned count)
{
    struct tags_clock newborn;
    return expired_ms(born, count, &newborn);
}

/* The expiries of t0 are older by so much. */
static void let_pass(long long ms)
{
    must("PEXPIRE %s %lld", expiry_name(0), pttl(expiry_name(0)) - ms);
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

TEST(a_lost_clock_begins_another_era, P75)
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

TEST(an_entry_is_not_good_because_a_master_that_took_over_counts_the_same_numbers_again, P138)
{
    assert_true(stack_redis_start_replica(&replica, &server));
    assert_true(keep(read_clock(), 1));
    cut_replica_off();
    invalidate(1);
    invalidate(1);
    struct tags_clock born = read_clock();
    assert_true(invalidates_as_master(born));
}

TEST(a_leap_that_was_lost_does_not_come_again, P138)
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
TEST(two_leaps_soon_after_another_leap_do_not_meet, P138)
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

/* The old one has not been asked under its present reign when the new one's clock leaps, and leaps later. */
TEST(an_entry_that_is_born_at_an_old_master_does_not_outlive_what_the_new_one_invalidates, P138)
{
    assert_true(stack_redis_start_replica(&replica, &server));
    assert_true(keep(read_clock(), 1));
    cut_replica_off();
    must("SET csg1:{test:tags}:reign another PX 600000");
    assert_true(stack_redis_promote(&replica));
    change_servers();
    invalidate(0);
    struct tags_clock first = clock_at(tag_name(0));
    change_servers();
    wait_past(first.count);
    struct tags_clock born = read_clock();
    change_servers();
    assert_true(is_good(born, 0));
    wait_past(born.count);
    invalidate(0);
    bool outdated = !is_good(born, 0) && !keep(born, 1);
    bool works = keep(read_clock(), 1) && read_clock().era == first.era;
    change_servers();
    stack_redis_stop(&replica);
    assert_true(outdated && works);
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
    assert_true(read_clock().count > first.count && read_clock().era == first.era);
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

TEST(a_lost_epoch_is_the_present_clock, P75)
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

/* ---- expiring ---- */

enum { PAST_MS = 100000 };

TEST(what_was_good_when_its_tag_was_expired_is_stale_since_then_and_what_was_not_is_gone)
{
    struct tags_clock before = read_clock(), newborn;
    assert_true(keep(before, 1));
    invalidate(0);
    struct tags_clock born = read_clock();
    assert_int_equal(age_of(born, 1), GONE); /* it is good */
    expire(0);
    assert_int_equal(age_of(before, 1), GONE);
    assert_in_range(expired_ms(born, 1, &newborn), 0, SLACK_MS);
    assert_true(is_same(newborn, clock_at(tag_name(0))) && is_good(newborn, 0) && !is_good(born, 0));
    assert_false(keep(born, 1));
    assert_ttl(pttl(expiry_name(0)), MOST_MS);
    let_pass(PAST_MS);
    assert_in_range(age_of(born, 1), PAST_MS, PAST_MS + SLACK_MS);
    assert_true(keep(read_clock(), 1));
}

TEST(of_several_expiries_the_first_counts_that_an_entry_is_older_than)
{
    struct tags_clock first = read_clock();
    assert_true(keep(first, 1));
    expire(0);
    struct tags_clock second = read_clock();
    let_pass(PAST_MS);
    expire(0);
    let_pass(PAST_MS);
    assert_in_range(age_of(first, 1), 2 * PAST_MS, 2 * PAST_MS + SLACK_MS);
    assert_in_range(age_of(second, 1), PAST_MS, PAST_MS + SLACK_MS);
    let_pass(MOST_MS - 2 * PAST_MS);
    expire(0);
    assert_int_equal(age_of(first, 1), GONE);
    assert_in_range(age_of(second, 1), MOST_MS - PAST_MS, MOST_MS);
}

TEST(of_very_many_expiries_none_makes_a_stale_time_longer)
{
    enum { MANY = 40, APART_MS = 1000 };
    struct tags_clock born[MANY];
    assert_true(keep(read_clock(), 1));
    for (unsigned i = 0; i < MANY; i++) {
        born[i] = read_clock();
        expire(0);
        let_pass(APART_MS);
    }
    assert_in_range(strlen(text_at(expiry_name(0))), 1, 512);
    for (unsigned i = 0; i < MANY; i++) {
        long long least_ms = (long long)(MANY - i) * APART_MS;
        assert_in_range(age_of(born[i], 1), least_ms, (long long)MANY * APART_MS + SLACK_MS);
    }
}

TEST(expiries_that_are_lost_damaged_or_of_another_epoch_revive_nothing, P154)
{
    static const char *const spoil[] = {
        "DEL csg1:{test:tags}:s:t0",
        "PERSIST csg1:{test:tags}:s:t0",
        "PEXPIRE csg1:{test:tags}:s:t0 700000", /* Redis's time has stepped back */
        "SET csg1:{test:tags}:s:t0 nonsense PX 600000",
        "DEL csg1:{test:tags}:t:t0",
        "SET csg1:{test:tags}:t:t0 1763777777000000.000000000002 PX 600000",
        "DEL csg1:{test:tags}:clock csg1:{test:tags}:t:t0",
    };
    for (size_t i = 0; i < sizeof spoil / sizeof *spoil; i++) {
        must("FLUSHALL");
        struct tags_clock born = read_clock();
        assert_true(keep(born, 1));
        expire(0);
        assert_in_range(age_of(born, 1), 0, SLACK_MS);
        must(spoil[i]);
        assert_int_equal(age_of(born, 1), GONE);
        invalidate(1);
        keep(born, 1); /* a lost epoch is given the present clock */
        assert_int_equal(age_of(born, 1), GONE);
        expire(0);
        assert_int_equal(age_of(born, 1), GONE);
    }
}

TEST(every_tag_that_is_younger_must_have_been_expired_and_the_oldest_expiry_counts)
{
    struct tags_clock born = read_clock(), newborn;
    assert_true(keep(born, TAGS));
    expire(0);
    let_pass(PAST_MS);
    expire(TAGS - 1);
    assert_in_range(expired_ms(born, TAGS, &newborn), PAST_MS, PAST_MS + SLACK_MS);
    assert_true(is_same(newborn, clock_at(tag_name(TAGS - 1))));
    invalidate(1);
    assert_int_equal(age_of(born, TAGS), GONE);
    assert_int_equal(age_of(newborn, TAGS), GONE); /* as it may have been called meanwhile */
}

TEST(after_a_leap_an_expiry_covers_what_was_good_and_nothing_else, P154)
{
    struct tags_clock gone = read_clock();
    assert_true(keep(gone, 1));
    invalidate(0);
    struct tags_clock born = read_clock();
    wait_past(born.count);
    must("SET csg1:{test:tags}:reign another PX 600000");
    expire(0);
    assert_true(clock_at(tag_name(0)).count > born.count);
    assert_in_range(age_of(born, 1), 0, SLACK_MS);
    assert_int_equal(age_of(gone, 1), GONE);
    must("SET csg1:{test:tags}:clock 0000000000000017.900000000000 PX 600000");
    must("SET csg1:{test:tags}:reign third PX 600000");
    expire(0); /* another era */
    assert_int_equal(age_of(born, 1), GONE);
}

TEST(without_memory_an_expiry_is_an_invalidation)
{
    struct tags_clock born = read_clock();
    assert_true(keep(born, 1));
    expire(0);
    must("CONFIG SET maxmemory 1");
    expire(0);
    must("CONFIG SET maxmemory 0");
    assert_int_equal(age_of(born, 1), GONE);
    assert_false(keep(born, 1));
}

static const char ENTRY[] = "csg1:{test:k}:v", FILLER[] = "0123456789abcdef0123456789abcdef0123";

static long long made_stale(const char *filler, const char *bytes, const char *stale_ms)
{
    char head[155];
    memset(head, 'h', sizeof head - 1);
    head[sizeof head - 1] = '\0';
    memcpy(head, FILLER, 36);
    struct words words = words_for(SCRIPT_MAKE_STALE, "1");
    add(&words, ENTRY);
    add(&words, filler);
    add(&words, head);
    add(&words, "cccccccccccccccc");
    add(&words, bytes);
    add(&words, stale_ms);
    return number(run(&words));
}

TEST(only_the_entry_that_is_meant_becomes_stale_and_it_lives_no_longer)
{
    assert_int_equal(made_stale(FILLER, "180", "5000"), 0);
    must("SET %s %s%0144d PX 600000", ENTRY, FILLER, 0);
    assert_int_equal(made_stale("another", "180", "5000"), 0);
    assert_int_equal(made_stale(FILLER, "181", "5000"), 0);
    assert_int_equal(made_stale(FILLER, "180", "0"), 0);
    assert_in_range(pttl(ENTRY), 500000, 600000);
    assert_int_equal(made_stale(FILLER, "180", "300000"), 1);
    assert_in_range(pttl(ENTRY), 1, 300000);
    const char *text = text_at(ENTRY);
    assert_true(strncmp(text, FILLER, 36) == 0 && strcmp(text + 150, "hhhh0000000000cccccccccccccccc") == 0);
    assert_int_equal(made_stale(FILLER, "180", "500000"), 1);
    assert_in_range(pttl(ENTRY), 1, 300000);
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
