/* SPDX-License-Identifier: MIT */
/*
 * lock_script_test.c - the rules that the scripts of the locks keep, one test each. What a test does not assert itself the
 * model does: both must agree after every step, see lock_script_rig.h.
 */
#include "tests/live/lock_script_rig.h"

enum { JUMP_MS = 10000 };

static struct asker writer(const char *names)
{
    return asker_for(GUARD_LOCK_WRITE, names, LOCK_ALL, LOCK_ALL, LEASE_MS);
}

static struct asker reader(const char *names)
{
    return asker_for(GUARD_LOCK_READ, names, 1, LOCK_ALL, LEASE_MS);
}

static struct asker party(uint32_t parties)
{
    return asker_for(GUARD_LOCK_LATCH, "a", 1, parties, LEASE_MS);
}

static bool rules_begin(void)
{
    begin_steps();
    return true;
}

static bool both_agree(void)
{
    if (world.difference[0] != '\0')
        fail_msg("step %u: %s", world.step - 1, world.difference);
    return true;
}

static int64_t held_until_ms(const struct asker *asker)
{
    const struct lock_model_member *member = lock_model_find(&model_name(0)->held, asker->token);
    return member != NULL ? member->until_ms - (int64_t)(model.now_us / 1000) : -1;
}

static void assert_told(size_t at, const struct asker *asker)
{
    assert_in_range(at, 0, answer.told_count - 1);
    assert_memory_equal(answer.told[at].uuid, asker->token, LOCK_UUID_BYTES);
}

static void hold(struct asker *asker)
{
    assert_int_equal(take(asker), LOCK_GRANTED);
}

static void wait_behind(struct asker *asker, uint32_t before)
{
    assert_int_equal(take(asker), LOCK_REFUSED);
    assert_int_equal(answer.reply.before, before);
}

TEST(a_name_that_nobody_has_is_granted_with_the_clock_as_its_number)
{
    struct asker one = writer("a");
    hold(&one);
    assert_int_equal(answer.reply.fence[0], model.now_us);
    assert_int_equal(give(&one, false), LOCK_DONE);
    assert_int_equal(answer.told_count, 0);
}

TEST(the_same_token_has_the_same_grant_with_a_higher_number)
{
    struct asker one = writer("a");
    hold(&one);
    const uint64_t first = answer.reply.fence[0];
    hold(&one);
    assert_int_equal(answer.reply.fence[0], first + 1);
    assert_int_equal(model_name(0)->held.count, 1);
}

TEST(a_token_that_was_given_back_in_doubt_is_refused_when_it_comes_late, P107)
{
    struct asker one = writer("a"), two = writer("ab");
    hold(&one);
    give(&one, true);
    assert_int_equal(take(&one), LOCK_GONE);
    give(&two, true);
    assert_int_equal(take(&two), LOCK_GONE);
}

TEST(who_comes_first_is_served_first_and_a_mutex_may_overtake)
{
    struct asker one = writer("a"), two = writer("a"), three = writer("a"), four = writer("a");
    struct asker mutex = asker_for(GUARD_LOCK_MUTEX, "a", LOCK_ALL, LOCK_ALL, LEASE_MS);
    hold(&one);
    wait_behind(&two, 0);
    wait_behind(&three, 1);
    give(&one, false);
    assert_int_equal(answer.told_count, 1);
    assert_told(0, &two);
    wait_behind(&three, 1);
    wait_behind(&four, 2);
    hold(&mutex);
    give(&mutex, false);
    hold(&two);
}

TEST(a_reader_goes_in_beside_readers_but_not_past_a_writer_that_waits)
{
    struct asker one = reader("a"), two = reader("a"), late = reader("a"), writes = writer("a");
    hold(&one);
    hold(&two);
    wait_behind(&writes, 0);
    wait_behind(&late, 1);
    give(&one, false);
    assert_int_equal(answer.told_count, 0);
    give(&two, false);
    assert_told(0, &writes);
    hold(&writes);
    wait_behind(&late, 0);
}

TEST(permits_count_units_not_holders, P116)
{
    struct asker three = asker_for(GUARD_LOCK_PERMITS, "a", 3, 5, LEASE_MS);
    struct asker two = asker_for(GUARD_LOCK_PERMITS, "a", 2, 5, LEASE_MS);
    struct asker one = asker_for(GUARD_LOCK_PERMITS, "a", 1, 5, LEASE_MS);
    hold(&three);
    hold(&two);
    wait_behind(&one, 0);
    give(&three, false);
    assert_told(0, &one);
    hold(&one);
}

TEST(several_names_are_taken_all_or_none)
{
    struct asker one = writer("b"), both = writer("ab"), next = writer("a");
    hold(&one);
    wait_behind(&both, 0);
    assert_int_equal(model_name(0)->held.count, 0);
    wait_behind(&next, 1); /* what it is first for is kept for it */
    give(&one, false);
    assert_told(0, &both);
    hold(&both);
    assert_int_equal(give(&both, false), LOCK_DONE);
    assert_told(0, &next);
}

TEST(a_part_of_what_was_asked_for_is_given_back)
{
    struct asker both = writer("ab"), other = writer("b"), next = writer("a");
    hold(&both);
    wait_behind(&next, 0);
    lose(1, KEY_LOCK_HELD);
    hold(&other);
    wait_behind(&both, 0); /* where it is refused */
    assert_told(0, &next);
    hold(&next);
}

TEST(a_place_lost_in_one_name_is_lost_in_all)
{
    struct asker one = writer("ab"), both = writer("ab"), other = writer("b");
    hold(&one);
    wait_behind(&both, 0);
    wait_behind(&other, 1);
    lose(0, KEY_LOCK_QUEUE);
    wait_behind(&both, 0);
    wait_behind(&other, 0); /* it is in front of them now */
    assert_string_equal(model_name(1)->queue.member[0].token, other.token);
}

TEST(fencing_numbers_rise_when_the_counter_is_lost_or_the_clock_steps_back, P119)
{
    struct asker one = writer("a"), two = writer("a"), three = writer("a");
    hold(&one);
    const uint64_t first = answer.reply.fence[0];
    give(&one, false);
    lose(0, KEY_LOCK_FENCE);
    pass_ms(JUMP_MS);
    hold(&two);
    assert_true(answer.reply.fence[0] > first);
    const uint64_t second = answer.reply.fence[0];
    give(&two, false);
    pass_ms(-6 * JUMP_MS);
    hold(&three);
    assert_int_equal(answer.reply.fence[0], second + 1);
}

TEST(a_dead_holder_blocks_for_its_lease_and_whoever_comes_tells_the_first)
{
    struct asker dead = writer("a"), two = writer("a"), three = writer("a");
    hold(&dead);
    wait_behind(&two, 0);
    wait_behind(&three, 1);
    pass_ms(LEASE_MS);
    wait_behind(&three, 1);
    assert_told(0, &two);
    hold(&two);
}

TEST(a_dead_waiter_blocks_until_its_place_ends, P113)
{
    struct asker one = writer("a"), dead = writer("a"), three = writer("a");
    hold(&one);
    wait_behind(&dead, 0);
    pass_ms(JUMP_MS);
    wait_behind(&three, 1);
    assert_int_equal(answer.reply.hint_ms,
                     LEASE_MS - JUMP_MS); /* of the holder, though it stands behind another */
    give(&one, false);
    wait_behind(&three, 1);
    assert_int_equal(answer.reply.hint_ms, PLACE_MS - JUMP_MS);
    pass_ms(PLACE_MS - JUMP_MS);
    hold(&three);
}

TEST(what_ends_at_this_millisecond_has_ended)
{
    struct asker one = writer("a"), two = writer("a"), three = writer("a");
    hold(&one);
    wait_behind(&two, 0);
    pass_ms(LEASE_MS - 1);
    wait_behind(&three, 1);
    pass_ms(1);
    wait_behind(&three, 1);
    assert_told(0, &two);
    pass_ms(PLACE_MS - LEASE_MS);
    hold(&three);
}

TEST(after_a_step_back_of_the_clock_a_dead_holder_blocks_for_its_lease_and_no_more)
{
    struct asker dead = writer("a"), two = writer("a");
    hold(&dead);
    pass_ms(-20 * JUMP_MS);
    wait_behind(&two, 0);
    assert_int_equal(answer.reply.hint_ms, LEASE_MS);
    assert_int_equal(held_until_ms(&dead), LEASE_MS);
    pass_ms(LEASE_MS);
    hold(&two);
}

TEST(after_a_step_back_of_the_clock_a_dead_waiter_keeps_its_place_as_long_as_any)
{
    struct asker dead = writer("a"), gone = writer("a"), three = writer("a");
    hold(&dead);
    wait_behind(&gone, 0);
    pass_ms(-20 * JUMP_MS);
    wait_behind(&three, 1);
    assert_int_equal(answer.reply.hint_ms, PLACE_MS);
    pass_ms(2 * JUMP_MS);
    wait_behind(&three, 1);
    pass_ms(2 * JUMP_MS);
    wait_behind(&three, 0);
    assert_int_equal(held_until_ms(&dead), LEASE_MS);
}

TEST(a_renewal_lengthens_creates_nothing_and_wants_all_names, P110)
{
    struct asker both = writer("ab");
    assert_int_equal(renew(&both), LOCK_NOT_HELD);
    hold(&both);
    pass_ms(JUMP_MS);
    assert_int_equal(renew(&both), LOCK_DONE);
    assert_int_equal(held_until_ms(&both), LEASE_MS);
    lose(1, KEY_LOCK_HELD);
    pass_ms(JUMP_MS);
    assert_int_equal(renew(&both), LOCK_NOT_HELD);
    assert_int_equal(held_until_ms(&both), LEASE_MS - JUMP_MS);
}

TEST(a_hold_past_its_lease_that_nobody_has_dropped_is_held)
{
    struct asker one = writer("a"), two = writer("a");
    hold(&one);
    pass_ms(LEASE_MS + 1);
    assert_int_equal(renew(&one), LOCK_DONE);
    pass_ms(LEASE_MS + 1);
    assert_int_equal(give(&one, false), LOCK_DONE);
    hold(&two);
}

TEST(a_quorums_number_is_where_fences_go_on_and_never_back)
{
    struct asker both = writer("ab");
    const struct lock_action action = action_of(&both, LOCK_RENEW);
    const uint64_t higher[] = {model.now_us + 7000000, 1};
    hold(&both);
    run_in_both(&action, higher);
    assert_int_equal(model_name(0)->fence, higher[0]);
    assert_int_equal(model_name(1)->fence, model.now_us);
    hold(&both);
    assert_int_equal(answer.reply.fence[0], higher[0] + 1);
}

TEST(a_release_gives_back_its_own_and_tells_all_that_fit, P110)
{
    struct asker one = writer("a"), stranger = writer("a"), many[18];
    hold(&one);
    for (size_t i = 0; i < COUNT(many); i++) {
        many[i] = reader("a");
        wait_behind(&many[i], (uint32_t)i);
    }
    assert_int_equal(give(&stranger, false), LOCK_NOT_HELD);
    assert_int_equal(model_name(0)->held.count, 1);
    give(&many[17], false);
    give(&many[16], false);
    give(&one, false);
    assert_int_equal(answer.told_count, 16);
    assert_told(15, &many[15]);
}

TEST(a_release_before_more_than_sixteen_tells_everybody)
{
    struct asker one = writer("a"), many[70];
    hold(&one);
    for (size_t i = 0; i < COUNT(many); i++) {
        many[i] = reader("a");
        wait_behind(&many[i], (uint32_t)i);
    }
    give(&one, false);
    assert_int_equal(answer.told_count, 17);
    assert_string_equal(answer.told[16].uuid, "");
    hold(&many[69]);
}

TEST(who_gives_up_leaves_the_queue_and_the_next_is_told)
{
    struct asker one = reader("a"), two = writer("a"), three = reader("a");
    hold(&one);
    wait_behind(&two, 0);
    wait_behind(&three, 1);
    assert_int_equal(give(&two, false), LOCK_NOT_HELD);
    assert_told(0, &three);
    hold(&three);
}

TEST(half_a_queue_is_none)
{
    struct asker one = writer("a"), dead = writer("a"), three = writer("a"), four = writer("a");
    hold(&one);
    wait_behind(&dead, 0);
    lose(0, KEY_LOCK_ALIVE);
    wait_behind(&three, 0);
    lose(0, KEY_LOCK_QUEUE);
    give(&one, false);
    hold(&four);
}

TEST(a_shorter_lease_does_not_shorten_a_longer_one, P114)
{
    struct asker longer = asker_for(GUARD_LOCK_READ, "a", 1, LOCK_ALL, MAX_LEASE_MS), shorter = reader("a");
    hold(&longer);
    hold(&shorter);
    pass_ms(4 * JUMP_MS);
    assert_int_equal(renew(&longer), LOCK_DONE);
}

TEST(without_a_place_nothing_is_left_in_the_queue)
{
    struct asker one = writer("a"), once = writer("a");
    hold(&one);
    once.place_ms = 0;
    wait_behind(&once, 0);
    assert_int_equal(answer.reply.hint_ms, LEASE_MS);
    assert_int_equal(model_name(0)->queue.count, 0);
}

TEST(to_stay_keeps_the_places_of_many_and_says_which_should_ask)
{
    struct asker one = reader("a"), two = writer("a"), three = reader("a"), never = writer("a");
    struct asker *mine[] = {&three, &never, &two};
    hold(&one);
    wait_behind(&two, 0);
    wait_behind(&three, 1);
    pass_ms(LEASE_MS);
    stay(mine, COUNT(mine));
    assert_int_equal(answer.reply.ask_now_count, 2); /* the hold of the first has ended */
    assert_int_equal(answer.reply.ask_now[0], 1);
    assert_int_equal(answer.reply.ask_now[1], 2);
    pass_ms(LEASE_MS);
    hold(&two);
    wait_behind(&three, 0);
}

TEST(more_than_one_command_takes_keep_their_places)
{
    enum { MANY = 120, GONE = 7 };
    struct asker one = writer("a"), many[MANY], *mine[MANY];
    hold(&one);
    for (size_t i = 0; i < MANY; i++) {
        many[i] = writer("a");
        mine[i] = &many[i];
        wait_behind(mine[i], (uint32_t)i);
    }
    give(&many[GONE], false);
    give(&many[MANY - 1], false);
    stay(mine, MANY);
    assert_int_equal(answer.reply.ask_now_count, 3);
    assert_int_equal(answer.reply.ask_now[0], 0);
    assert_int_equal(answer.reply.ask_now[1], GONE);
    assert_int_equal(answer.reply.ask_now[2], MANY - 1);
}

TEST(what_stays_and_has_become_the_first_asks_though_it_does_not_fit)
{
    struct asker one = writer("a"), two = writer("a"), three = writer("a"), *mine[] = {&three};
    hold(&one);
    wait_behind(&two, 0);
    wait_behind(&three, 1);
    stay(mine, COUNT(mine));
    assert_int_equal(answer.reply.ask_now_count, 0);
    give(&two, false);
    stay(mine, COUNT(mine));
    assert_int_equal(answer.reply.ask_now_count, 1);
}

TEST(to_stay_tells_others_on_behalf_of_the_dead)
{
    struct asker dead = writer("a"), other = reader("a"), own = reader("a"), *mine[] = {&own};
    hold(&dead);
    wait_behind(&other, 0);
    wait_behind(&own, 1);
    pass_ms(LEASE_MS);
    stay(mine, COUNT(mine));
    assert_int_equal(answer.reply.ask_now_count, 1);
    assert_int_equal(answer.told_count, 1);
    assert_told(0, &other);
}

TEST(to_stay_shortens_a_dead_ones_place_after_a_step_back_of_the_clock)
{
    struct asker one = writer("a"), dead = writer("a"), own = writer("a"), *mine[] = {&own};
    hold(&one);
    wait_behind(&dead, 0);
    wait_behind(&own, 1);
    pass_ms(-20 * JUMP_MS);
    stay(mine, COUNT(mine));
    assert_int_equal(answer.reply.ask_now_count, 0);
    give(&one, false);
    pass_ms(2 * JUMP_MS);
    stay(mine, COUNT(mine));
    pass_ms(2 * JUMP_MS);
    stay(mine, COUNT(mine));
    assert_int_equal(answer.reply.ask_now_count, 1);
    hold(&own);
}

TEST(a_latch_opens_when_enough_are_there_and_stays_open)
{
    struct asker one = party(2), two = party(2), looks = party(2);
    looks.units = 0;
    assert_int_equal(take(&one), LOCK_REFUSED);
    assert_int_equal(answer.reply.before, 1);
    assert_int_equal(take(&one), LOCK_REFUSED);
    assert_int_equal(take(&looks), LOCK_REFUSED);
    assert_int_equal(take(&two), LOCK_GRANTED);
    assert_int_equal(answer.told_count, 1);
    assert_string_equal(answer.told[0].uuid, "");
    give(&one, false);
    pass_ms(FENCE_MS - 1);
    assert_int_equal(take(&looks), LOCK_GRANTED);
    pass_ms(FENCE_MS - 1);
    assert_int_equal(take(&looks), LOCK_GRANTED);
}

TEST(the_dead_and_those_that_left_do_not_open_a_latch)
{
    struct asker one = party(2), two = party(2), three = party(2);
    take(&one);
    give(&one, true);
    assert_int_equal(take(&one), LOCK_GONE);
    take(&two);
    pass_ms(-20 * JUMP_MS);
    give(&one, false); /* whoever comes sees to it that the dead one goes in time */
    pass_ms(LEASE_MS);
    assert_int_equal(take(&three), LOCK_REFUSED);
    assert_int_equal(answer.reply.before, 1);
}

TEST(everything_works_without_memory)
{
    struct asker one = writer("ab"), two = writer("a"), lone = writer("c"), here = party(1), *mine[] = {&two};
    world.trouble = &no_memory;
    hold(&one);
    hold(&lone);
    wait_behind(&two, 0);
    assert_int_equal(renew(&one), LOCK_DONE);
    stay(mine, COUNT(mine));
    assert_int_equal(give(&one, true), LOCK_DONE);
    hold(&two);
    assert_int_equal(take(&here), LOCK_GRANTED);
}

/* A replica may know less than the master does. */
TEST(one_that_may_not_write_says_neither_held_nor_not)
{
    struct asker one = writer("a"), two = writer("a"), here = party(2), *mine[] = {&two};
    hold(&one);
    world.trouble = &read_only;
    assert_int_equal(renew(&two), LOCK_UNANSWERED);
    assert_int_equal(take(&two), LOCK_UNANSWERED);
    assert_int_equal(give(&two, false), LOCK_UNANSWERED);
    stay(mine, COUNT(mine));
    assert_int_equal(answer.reply.kind, LOCK_UNANSWERED);
    assert_int_equal(take(&here), LOCK_UNANSWERED);
}

/* As much as one command may carry; the keys of the rig are not these. */
TEST(eight_names_of_the_greatest_length_travel)
{
    static const enum lock_action_kind kinds[] = {LOCK_TAKE, LOCK_RENEW, LOCK_GIVE};
    static char texts[GUARD_LOCK_NAMES_MAX][KEY_ENCODED_MAX];
    struct lock_name names[GUARD_LOCK_NAMES_MAX];
    uint64_t floors[GUARD_LOCK_NAMES_MAX];
    struct asker asker = writer("a");
    struct lock_action action = action_of(&asker, LOCK_TAKE);
    for (size_t i = 0; i < GUARD_LOCK_NAMES_MAX; i++) {
        memset(texts[i], 'a' + (int)i, sizeof texts[i]);
        names[i] = (struct lock_name){texts[i], sizeof texts[i]};
        floors[i] = UINT64_MAX / 4096;
    }
    action.names = names;
    action.count = GUARD_LOCK_NAMES_MAX;
    action.doubt = true;
    align_time();
    for (size_t i = 0; i < COUNT(kinds); i++) {
        action.kind = kinds[i];
        struct exchange exchange = {.asked = lock_asked_of(&action)};
        run_in_redis(&action, kinds[i] == LOCK_RENEW ? floors : NULL, &exchange);
        assert_int_equal(exchange.reply.kind, kinds[i] == LOCK_TAKE ? LOCK_GRANTED : LOCK_DONE);
    }
}

/* ---- what they cost ---- */

struct spent {
    unsigned long long calls, us;
};

/* On one command since CONFIG RESETSTAT. */
static struct spent spent_on(const char *command)
{
    struct spent spent = {0, 0};
    char line[48];
    redisReply *info = asked("INFO commandstats");
    const int bytes = snprintf(line, sizeof line, "cmdstat_%s:", command);
    const char *at = strstr(info->str, line);
    if (at != NULL)
        assert_int_equal(sscanf(at + bytes, "calls=%llu,usec=%llu", &spent.calls, &spent.us), 2);
    freeReplyObject(info);
    return spent;
}

/* By the scripts; what the connection does for itself is not among them. */
static unsigned long long commands_called(void)
{
    static const char *const commands[] = {"lrange", "exists", "zadd",          "pexpire", "pttl",
                                           "get",    "set",    "zrem",          "zcard",   "zrank",
                                           "zscore", "zrange", "zrangebyscore", "del"};
    unsigned long long calls = 0;
    for (size_t i = 0; i < COUNT(commands); i++)
        calls += spent_on(commands[i]).calls;
    return calls;
}

static void run_alone(struct asker *asker, enum lock_action_kind kind)
{
    const struct lock_action action = action_of(asker, kind);
    struct exchange exchange = {.asked = lock_asked_of(&action)};
    run_in_redis(&action, NULL, &exchange);
    assert_in_range(exchange.reply.kind, LOCK_GRANTED, LOCK_DONE);
}

/* TIME, EXISTS, ZADD, PEXPIRE, GET, SET; and ZREM, EXISTS. */
TEST(a_lone_take_costs_redis_six_commands_and_its_release_two)
{
    struct asker one = writer("a");
    align_time();
    run_alone(&one, LOCK_TAKE); /* the scripts are loaded */
    run_alone(&one, LOCK_GIVE);
    must("CONFIG RESETSTAT");
    run_alone(&one, LOCK_TAKE);
    assert_int_equal(commands_called(), 6);
    must("CONFIG RESETSTAT");
    run_alone(&one, LOCK_GIVE);
    assert_int_equal(commands_called(), 2);
}

/* LOCK_COST=1: the microseconds of Redis that such a pair costs, beside those of the plainest lock. */
TEST(what_a_lone_pair_costs_is_told_if_asked_for)
{
    enum { RUNS = 5, PAIRS = 3000 };
    static const char compare_and_delete[] =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    struct asker one = writer("a");
    align_time();
    for (int run = 0; getenv("LOCK_COST") != NULL && run < RUNS; run++) {
        redisReply *digest = asked("SCRIPT LOAD %s", compare_and_delete);
        must("CONFIG RESETSTAT");
        for (int i = 0; i < PAIRS; i++) {
            run_alone(&one, LOCK_TAKE);
            run_alone(&one, LOCK_GIVE);
        }
        const unsigned long long ours_us = spent_on("evalsha").us;
        must("CONFIG RESETSTAT");
        for (int i = 0; i < PAIRS; i++) {
            must("SET plain token NX PX 10000");
            must("EVALSHA %s 1 plain token", digest->str);
        }
        const unsigned long long plain_us = spent_on("evalsha").us + spent_on("set").us;
        printf("take and give: %.1f us; SET NX PX and compare-and-delete: %.1f us\n", (double)ours_us / PAIRS,
               (double)plain_us / PAIRS);
        freeReplyObject(digest);
    }
}

/* ---- looking ---- */

struct looked {
    bool answered, sound;
    struct guard_lock_view view;
};

static void on_looked(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct looked *looked = context;
    const char *why = "";
    looked->answered = true;
    looked->sound = lock_wire_read_look(outcome, reply, &looked->view, &why);
    assert_string_equal(why, "");
}

TEST(a_look_shows_those_that_hold_then_those_that_wait_and_none_that_is_dead)
{
    struct asker one = writer("a"), dead = reader("a"), two = reader("a");
    const struct lock_name name = {"a", 1};
    struct looked looked = {.answered = false};
    hold(&one);
    wait_behind(&dead, 0);
    pass_ms(2 * JUMP_MS);
    assert_int_equal(renew(&one), LOCK_DONE);
    wait_behind(&two, 1);
    pass_ms(2 * JUMP_MS);
    align_time();
    assert_true(lock_wire_send_look(&world.wire, rig.redis, &name, on_looked, &looked));
    rig_wait_until(looked.answered);
    assert_true(looked.sound);
    assert_int_equal(looked.view.fence, model_name(0)->fence);
    assert_int_equal(looked.view.holder_count, 1);
    assert_int_equal(looked.view.waiter_count, 1);
    assert_int_equal(looked.view.seen_count, 2);
    assert_int_equal(looked.view.seen[0].left_ms, LEASE_MS - 2 * JUMP_MS);
    assert_string_equal(looked.view.seen[0].who, "host:7");
    assert_int_equal(looked.view.seen[0].since_s, 1);
    assert_int_equal(looked.view.seen[1].units, 1);
    assert_true(looked.view.seen[0].holds && !looked.view.seen[1].holds);
}

TEST_GROUP(.up = lock_rig_up, .down = lock_rig_down, .before = rules_begin, .after = both_agree);
