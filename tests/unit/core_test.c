/* SPDX-License-Identifier: MIT */
/*
 * core_test.c - from a get to its answer: lookups, loads, fills, rounds, waiting, the bulkhead.
 */
#include "core_bench.h"
#include "guard/base/chance.h"

static struct caller caller, one, two, leader, joiner, early, late, before_query, after_query, after_fill,
    other, patient, others, cooling, third, later, probe, between, after, loader, hit, cold, three, hasty,
    follower;

/* ---- lookups ---- */

TEST(a_fresh_value_answers_everybody_who_asked_before_the_lookup, P13)
{
    struct seen *acquire = lookup_of("k", &caller);
    assert_int_equal(acquire->action.lookup, LOOKUP_NO_STALE);
    assert_string_equal(acquire->key, "k");
    reply_fresh(acquire, "v1");
    assert_int_equal(caller.waiter.result.age_ms, 10);
    assert_int_equal(caller.waiter.result.left_ms, 20);
    assert_true(caller.waiter.result.stored);
    answered_value(&caller, "v1", GUARD_FROM_CACHE);
    assert_int_equal(stats_of().hit, 1);
    at_rest();
}

TEST(an_absent_entry_is_an_answer)
{
    reply(lookup_of("k", &caller), (struct core_reply){.kind = REPLY_FRESH, .absent = true});
    answered_from(&caller, GUARD_ABSENT, GUARD_FROM_CACHE);
    assert_int_equal(stats_of().absent_hit, 1);
}

TEST(a_remembered_failure_answers_without_a_load)
{
    reply(lookup_of("k", &caller),
          (struct core_reply){.kind = REPLY_FAILED, .failure = GUARD_FAILURE_REJECTED, .pttl_ms = 700});
    answered_from(&caller, GUARD_FAILED, GUARD_FROM_CACHE);
    assert_int_equal(caller.waiter.result.failure, GUARD_FAILURE_REJECTED);
    assert_int_equal(caller.waiter.result.retry_ms, 700);
    assert_int_equal(stats_of().failed_hit, 1);
    sent_nothing();
}

TEST(two_keys_never_share_a_flight, P16)
{
    get("k1", &one);
    get("k2", &two);
    struct seen *first = expect(CORE_ACQUIRE), *second = expect(CORE_ACQUIRE);
    assert_string_equal(first->key, "k1");
    assert_string_equal(second->key, "k2");
    assert_string_not_equal(first->token, second->token);
    reply_fresh(second, "of k2");
    still_waits(&one);
    answered_value(&two, "of k2", GUARD_FROM_CACHE);
    reply_fresh_for(first, "of k1", &one, GUARD_FROM_CACHE);
}

/* ---- load and fill ---- */

TEST(a_lease_leads_to_one_load_one_fill_and_one_answer_each, P13)
{
    struct seen *acquire = lookup_of("k", &leader);
    get("k", &joiner);
    struct seen *load = lease(acquire);
    sent_nothing();
    loaded(load, "v1");
    still_waits(&leader);
    struct seen *fill = expect(CORE_FILL);
    assert_string_equal(fill->token, acquire->token);
    assert_int_equal(fill->action.fresh_ms, bench.policy.fresh_ms);
    assert_int_equal(fill->action.load_us, 5000);
    reply_code(fill, 1);
    assert_true(leader.waiter.result.stored);
    assert_int_equal(leader.waiter.result.left_ms, bench.policy.fresh_ms);
    answered_value(&leader, "v1", GUARD_FROM_LOAD);
    answered_value(&joiner, "v1", GUARD_FROM_FLIGHT);
    sent_nothing();
    struct guard_stats stats = stats_of();
    assert_int_equal(stats.load_started, 1);
    assert_int_equal(stats.load_ok, 1);
    assert_int_equal(stats.fill_stored, 1);
    assert_int_equal(stats.loaded, 1);
    assert_int_equal(stats.collapsed_process, 1);
    assert_int_equal(stats.load_duplicate, 0);
}

TEST(an_absent_row_is_filled_with_its_own_time_and_never_stale, P36)
{
    bench.policy.stale_ms = 5000;
    load_is_absent(begin_load("k", &caller));
    struct seen *fill = expect(CORE_FILL);
    assert_null(fill->action.value);
    assert_int_equal(fill->action.fresh_ms, bench.policy.absent_ms);
    assert_int_equal(fill->action.stale_ms, 0);
    reply_code(fill, 1);
    answered_from(&caller, GUARD_ABSENT, GUARD_FROM_LOAD);
}

TEST(a_failed_load_is_released_with_its_failure)
{
    struct seen *load = begin_load_of_two("k", &early, &late);
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    answered_from(&early, GUARD_FAILED, GUARD_FROM_LOAD);
    assert_int_equal(early.waiter.result.failure, GUARD_FAILURE_UNAVAILABLE);
    struct seen *release = expect(CORE_RELEASE);
    assert_string_equal(release->token, load->token);
    assert_int_equal(release->action.failure, GUARD_FAILURE_UNAVAILABLE);
    assert_int_equal(release->action.failure_ms, bench.policy.failure_ms);
    /* a waiter that joined after the query was sent gets another round, behind the release */
    still_waits(&late);
    struct seen *acquire = expect(CORE_ACQUIRE);
    assert_string_equal(acquire->prev, release->token);
    assert_string_not_equal(acquire->token, release->token);
    reply_code(release, 1);
    reply(acquire,
          (struct core_reply){.kind = REPLY_FAILED, .failure = GUARD_FAILURE_UNAVAILABLE, .pttl_ms = 900});
    answered_from(&late, GUARD_FAILED, GUARD_FROM_CACHE);
    sent_nothing();
}

/* The owner has no thread for it. */
static void cannot_begin(struct seen *load)
{
    load->over = true;
    core_unperformed(bench.core, &load->action);
    assert_true(core_tell_unperformed(bench.core, bench.now_us));
    drain();
}

/* Nor is one whose answer finds no memory: loaded NO_MEMORY, in the same way. */
TEST(a_load_that_cannot_begin_is_no_failure_and_its_lease_goes_back, P15)
{
    struct seen *load = begin_load_of_two("k", &early, &late);
    cannot_begin(load);
    answered(&early, GUARD_NO_MEMORY);
    answered(&late, GUARD_NO_MEMORY);
    struct seen *released = expect(CORE_RELEASE);
    assert_int_equal(released->action.failure, GUARD_FAILURE_NONE);
    reply_code(released, 1);
    assert_int_equal(stats_of().load_failed, 0);
    assert_true(core_idle(bench.core));
}

TEST(without_redis_a_load_that_cannot_begin_is_not_remembered)
{
    for (int i = 0; i < 2; i++) {
        reply_kind(lookup_of("k", &early), REPLY_REFUSED);
        cannot_begin(expect(CORE_LOAD));
        answered(&early, GUARD_NO_MEMORY);
        assert_true(core_idle(bench.core));
    }
}

TEST(a_refresh_that_cannot_begin_leaves_the_stale_value_to_those_who_ask)
{
    bench.policy.stale_ms = 1000;
    reply_stale(lookup_of("k", &early), REFRESH_OURS, "old");
    answered_value(&early, "old", GUARD_FROM_STALE);
    struct seen *load = expect(CORE_LOAD);
    lookup_of("k", &late);
    cannot_begin(load);
    still_waits(&late);
    assert_int_equal(expect(CORE_RELEASE)->action.failure, GUARD_FAILURE_NONE);
    reply_stale(expect(CORE_ACQUIRE), REFRESH_OTHERS, "old");
    answered_value(&late, "old", GUARD_FROM_STALE);
}

TEST(a_value_that_is_too_big_is_answered_and_marked)
{
    bench.config.max_value_bytes = 3;
    bench_open();
    loaded_for(begin_load("k", &caller), "four", &caller, GUARD_FROM_LOAD);
    assert_false(caller.waiter.result.stored);
    struct seen *release = expect(CORE_RELEASE);
    assert_true(release->action.too_big);
    assert_int_equal(release->action.failure, GUARD_FAILURE_NONE);
    reply_code(release, 1);
    assert_int_equal(stats_of().fill_too_big, 1);
}

TEST(a_too_big_mark_leads_to_a_load_without_a_lease, P33)
{
    reply(lookup_of("k", &caller), (struct core_reply){.kind = REPLY_FAILED, .too_big = true});
    loaded_for(expect(CORE_LOAD), "big", &caller, GUARD_FROM_LOAD);
    sent_nothing();
    assert_int_equal(stats_of().load_uncached, 1);
}

TEST(an_unanswered_fill_is_answered_at_once_and_repeated_with_its_token, P32)
{
    struct seen *load = begin_load_of_two("k", &before_query, &after_query);
    loaded(load, "v1");
    struct seen *first = expect(CORE_FILL);
    reply_kind(first, REPLY_UNKNOWN);
    answered_value(&before_query, "v1", GUARD_FROM_LOAD);
    still_waits(&after_query);
    struct seen *second = expect(CORE_FILL);
    assert_string_equal(second->token, first->token);
    reply_code(second, 2);
    answered_value(&after_query, "v1", GUARD_FROM_FLIGHT);
    assert_true(after_query.waiter.result.stored);
    sent_nothing();
    assert_int_equal(stats_of().fill_unknown, 1);
}

TEST(a_fill_without_answer_is_given_up_and_its_lease_superseded)
{
    struct seen *load = begin_load_of_two("k", &before_query, &after_query);
    loaded(load, "v1");
    struct seen *fill = NULL;
    for (int attempt = 0; attempt < 3; attempt++) {
        fill = expect(CORE_FILL);
        reply_code(&(struct seen){.action.op = 1}, 1); /* Redis lives: no breaker */
        reply_kind(fill, REPLY_UNKNOWN);
    }
    answered_value(&before_query, "v1", GUARD_FROM_LOAD);
    struct seen *acquire = expect(CORE_ACQUIRE);
    assert_string_equal(acquire->prev, fill->token);
    reply_fresh_for(acquire, "v1", &after_query, GUARD_FROM_CACHE);
}

TEST(a_rejected_fill_answers_only_who_joined_before_the_query, P19)
{
    struct seen *load = begin_load_of_two("k", &before_query, &after_query);
    loaded(load, "old");
    reply_code(expect(CORE_FILL), 0);
    assert_false(before_query.waiter.result.stored);
    answered_value(&before_query, "old", GUARD_FROM_LOAD);
    still_waits(&after_query);
    finish_load_for(lease(expect(CORE_ACQUIRE)), "new", &after_query, GUARD_FROM_LOAD);
    assert_int_equal(stats_of().fill_late, 1);
}

TEST(an_accepted_fill_answers_who_joined_before_it_was_sent_and_no_later_one, P18)
{
    struct seen *load = begin_load_of_two("k", &leader, &after_query);
    loaded(load, "v1");
    get("k", &after_fill);
    reply_code(expect(CORE_FILL), 1);
    answered_value(&leader, "v1", GUARD_FROM_LOAD);
    answered_value(&after_query, "v1", GUARD_FROM_FLIGHT);
    still_waits(&after_fill);
    reply_fresh_for(expect(CORE_ACQUIRE), "v1", &after_fill, GUARD_FROM_CACHE);
}

TEST(a_store_that_redis_refuses_leaves_nothing_behind)
{
    loaded(begin_load("k", &caller), "v1");
    reply_code(expect(CORE_FILL), -1);
    answered_value(&caller, "v1", GUARD_FROM_LOAD);
    sent_nothing(); /* the script has released the lease */
    loaded(begin_load("k2", &other), "v2");
    reply_kind(expect(CORE_FILL), REPLY_REFUSED);
    answered_value(&other, "v2", GUARD_FROM_LOAD);
    reply_code(expect(CORE_RELEASE), 1); /* an error did not */
    assert_int_equal(stats_of().fill_refused, 2);
}

TEST(after_three_rounds_a_waiter_gets_a_load_without_a_lease, P44)
{
    struct seen *acquire = lookup_of("k", &caller);
    get("k", &patient); /* joined after the first lookup */
    reply(acquire, (struct core_reply){.kind = REPLY_FAILED, .pttl_ms = 1});
    /* every load it then takes part in is voided under it */
    struct seen *load = lease(expect(CORE_ACQUIRE));
    for (int voided = 0; voided < 2; voided++) {
        still_waits(&patient);
        pass(1000);
        struct seen *renew = expect(CORE_RENEW);
        reply_code(renew, 0);
        expect(CORE_CANCEL);
        load_fails(load, GUARD_FAILURE_UNAVAILABLE);
        if (voided == 0)
            load = lease(expect(CORE_ACQUIRE));
    }
    load = expect(CORE_LOAD); /* no acquire before it */
    loaded_for(load, "v1", &patient, GUARD_FROM_LOAD);
    sent_nothing();
    assert_int_equal(stats_of().load_uncached, 1);
}

/* ---- stale ---- */

TEST(a_stale_value_that_others_refresh_or_that_cools_down_is_only_answered)
{
    bench.policy.stale_ms = 5000;
    reply_stale(lookup_of("k", &others), REFRESH_OTHERS, "old");
    answered_value(&others, "old", GUARD_FROM_STALE);
    reply_stale(lookup_of("k", &cooling), REFRESH_COOLING, "old");
    answered_value(&cooling, "old", GUARD_FROM_STALE);
    at_rest();
    assert_int_equal(stats_of().stale, 2);
}

TEST(a_stale_hit_never_waits_for_the_refresh_of_its_own_process, P46)
{
    bench.policy.stale_ms = 5000;
    static struct caller first, second;
    struct seen *granted = lookup_of("k", &first);
    assert_int_equal(granted->action.lookup, LOOKUP_NORMAL);
    reply_stale(granted, REFRESH_OURS, "old");
    struct seen *load = expect(CORE_LOAD);
    struct seen *peek = lookup_of("k", &second);
    assert_int_equal(peek->action.lookup, LOOKUP_PEEK);
    assert_string_equal(peek->prev, ""); /* naming our own lease would remove it */
    assert_string_not_equal(peek->token, granted->token);
    get("k", &third); /* joined after the peek */
    sent_nothing();
    reply_stale(peek, REFRESH_OTHERS, "old");
    answered_value(&second, "old", GUARD_FROM_STALE);
    still_waits(&third);
    reply_stale(expect(CORE_ACQUIRE), REFRESH_OTHERS, "old");
    answered_value(&third, "old", GUARD_FROM_STALE);
    finish_load(load, "new");
    answered_value(&first, "old", GUARD_FROM_STALE);
    sent_nothing();
}

TEST(a_value_that_went_during_its_refresh_is_waited_for, P47)
{
    bench.policy.stale_ms = 5000;
    static struct caller first, second;
    reply_stale(lookup_of("k", &first), REFRESH_OURS, "old");
    answered_value(&first, "old", GUARD_FROM_STALE);
    struct seen *load = expect(CORE_LOAD);
    reply_busy(lookup_of("k", &second), 2000);
    get("k", &third);
    still_waits(&second);
    sent_nothing(); /* no second load, no further peek */
    finish_load_for(load, "new", &second, GUARD_FROM_FLIGHT);
    answered_value(&third, "new", GUARD_FROM_FLIGHT);
}

TEST(who_joined_behind_the_lookup_does_not_wait_for_the_refresh_either)
{
    bench.policy.stale_ms = 5000;
    static struct caller first, second;
    struct seen *acquire = lookup_of("k", &first);
    get("k", &second);
    reply_stale(acquire, REFRESH_OURS, "old");
    answered_value(&first, "old", GUARD_FROM_STALE);
    struct seen *peek = expect(CORE_ACQUIRE);
    assert_int_equal(peek->action.lookup, LOOKUP_PEEK);
    struct seen *load = expect(CORE_LOAD);
    reply_stale(peek, REFRESH_OTHERS, "old");
    answered_value(&second, "old", GUARD_FROM_STALE);
    finish_load(load, "new");
}

TEST(a_failed_refresh_leaves_who_waits_to_the_stale_value)
{
    bench.policy.stale_ms = 5000;
    static struct caller first, second;
    struct seen *acquire = lookup_of("k", &first);
    get("k", &second); /* after the lookup, before the query */
    reply_stale(acquire, REFRESH_OURS, "old");
    answered_value(&first, "old", GUARD_FROM_STALE);
    assert_int_equal(expect(CORE_ACQUIRE)->action.lookup, LOOKUP_PEEK);
    struct seen *load = expect(CORE_LOAD);
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    still_waits(&second);
    reply_code(expect(CORE_RELEASE), 1);
    reply_stale(expect(CORE_ACQUIRE), REFRESH_COOLING, "old");
    answered_value(&second, "old", GUARD_FROM_STALE);
}

/* ---- damaged entries ---- */

TEST(a_damaged_entry_is_named_and_replaced_under_the_lease)
{
    const char *head = "this-is-not-the-head-of-an-entry-0123";
    struct seen *acquire = lookup_of("k", &caller);
    assert_string_equal(acquire->refused, "");
    reply(acquire, (struct core_reply){.kind = REPLY_FRESH, .damaged = true, .head = head});
    acquire = expect(CORE_ACQUIRE);
    assert_memory_equal(acquire->refused, head, TOKEN_UUID_BYTES);
    assert_int_equal(strlen(acquire->refused), TOKEN_UUID_BYTES);
    finish_load_for(lease(acquire), "sound", &caller, GUARD_FROM_LOAD);
    assert_int_equal(stats_of().entry_rejected, 1);
}

TEST(a_damaged_stale_entry_that_comes_with_the_lease_is_never_answered)
{
    bench.policy.stale_ms = 5000;
    reply(lookup_of("k", &caller), (struct core_reply){.kind = REPLY_STALE,
                                                       .refresher = REFRESH_OURS,
                                                       .damaged = true,
                                                       .head = "this-is-not-the-head-of-an-entry-0123"});
    still_waits(&caller);
    finish_load_for(expect(CORE_LOAD), "sound", &caller, GUARD_FROM_LOAD);
}

TEST(entries_that_are_damaged_again_and_again_end_in_a_load_without_a_lease)
{
    get("k", &caller);
    char head[] = "this-is-not-the-head-of-an-entry-012-0";
    for (int attempt = 0; attempt < 3; attempt++) {
        head[0]++;
        reply(expect(CORE_ACQUIRE), (struct core_reply){.kind = REPLY_FRESH, .damaged = true, .head = head});
    }
    loaded_for(expect(CORE_LOAD), "v1", &caller, GUARD_FROM_LOAD);
}

/* ---- waiting for another process ---- */

TEST(who_joins_while_the_flight_waits_is_collapsed_across_the_fleet_too)
{
    reply_busy(lookup_of("k", &early), 3000);
    get("k", &late);
    message("k", false);
    reply_fresh_for(expect(CORE_ACQUIRE), "v1", &early, GUARD_FROM_FLEET);
    answered_value(&late, "v1", GUARD_FROM_FLEET);
}

TEST(a_busy_key_is_asked_for_again_when_the_message_comes, P27)
{
    reply_busy(lookup_of("k", &caller), 3000);
    sent_nothing();
    message("other", false);
    sent_nothing();
    message("k", false);
    reply_fresh_for(expect(CORE_ACQUIRE), "v1", &caller, GUARD_FROM_FLEET);
    assert_int_equal(stats_of().collapsed_fleet, 1);
    assert_int_equal(stats_of().wake_messages, 2);
}

TEST(a_message_that_overtakes_the_busy_reply_is_latched, P23)
{
    struct seen *acquire = lookup_of("k", &caller);
    message("k", false);
    sent_nothing();
    reply_busy(acquire, 3000);
    reply_busy(expect(CORE_ACQUIRE), 3000); /* at once; the latch is used up */
    sent_nothing();
    still_waits(&caller);
}

TEST(a_lost_message_is_made_good_by_the_poll, P24)
{
    get("k", &caller);
    uint64_t longest_us = 0;
    for (int poll = 0; poll < 12; poll++) {
        reply_busy(expect(CORE_ACQUIRE), 3000);
        uint64_t sent_us = bench.now_us;
        assert_true(core_next_us(bench.core) != UINT64_MAX);
        pass_us(core_next_us(bench.core) - bench.now_us);
        uint64_t span_us = bench.now_us - sent_us;
        longest_us = span_us > longest_us ? span_us : longest_us;
        assert_true(poll > 0 || span_us <= 30000);
    }
    assert_true(longest_us > 200000 && longest_us <= 750000);
    assert_int_equal(stats_of().wake_polls, 12);
}

TEST(the_poll_does_not_wait_long_beyond_the_end_of_the_lease)
{
    reply_busy(lookup_of("k", &caller), 2);
    pass(7);
    reply_kind(expect(CORE_ACQUIRE), REPLY_LEASE);
    finish_load_for(expect(CORE_LOAD), "v1", &caller, GUARD_FROM_LOAD);
}

TEST(a_resync_makes_all_who_wait_look_again_spread_over_a_tenth_of_a_second, P24)
{
    static struct caller callers[40];
    char key[40][16];
    for (int i = 0; i < 40; i++) {
        snprintf(key[i], sizeof key[i], "k%d", i);
        struct seen *acquire = lookup_of(key[i], &callers[i]);
        for (int poll = 0; poll < 6; poll++) {
            reply_busy(acquire, 3000);
            message(key[i], false);
            if (poll < 4)
                acquire = expect(CORE_ACQUIRE);
        }
    }
    pass(2000); /* the polls have backed off */
    while (bench.seen_first < bench.seen_count) {
        struct seen *seen = expect(CORE_ACQUIRE);
        if (!seen->over)
            reply_busy(seen, 3000);
    }
    resync();
    sent_nothing();
    size_t before = bench.seen_count;
    pass(10);
    size_t soon = bench.seen_count - before;
    pass(90);
    assert_int_equal(bench.seen_count - before, 40);
    assert_true(soon < 20);
    assert_int_equal(stats_of().wake_resyncs, 40);
}

TEST(a_resync_during_the_lookup_is_latched)
{
    struct seen *acquire = lookup_of("k", &caller);
    resync();
    reply_busy(acquire, 3000);
    expect(CORE_ACQUIRE);
}

TEST(a_flood_of_messages_is_slowed_down, P29)
{
    get("k", &caller);
    size_t lookups = 0;
    for (int i = 0; i < 1000; i++) {
        message("k", false);
        pass_us(1000);
        while (bench.seen_first < bench.seen_count) {
            reply_busy(expect(CORE_ACQUIRE), 3000);
            lookups++;
        }
    }
    assert_in_range(lookups, 10, 60);
}

TEST(who_gives_up_waiting_leaves_no_flight_behind)
{
    reply_busy(lookup_of("k", &caller), 3000);
    cancel(&caller);
    answered(&caller, GUARD_CANCELLED);
    assert_true(core_idle(bench.core));
    cancel(&caller); /* late: ignored */
}

/* ---- no Redis ---- */

TEST(an_unanswered_acquire_is_tried_again_with_a_new_token_that_names_the_old, P5)
{
    struct seen *first = lookup_of("k", &caller);
    assert_string_equal(first->prev, "");
    reply_kind(first, REPLY_UNKNOWN);
    struct seen *second = expect(CORE_ACQUIRE);
    assert_string_equal(second->prev, first->token);
    assert_string_not_equal(second->token, first->token);
    struct seen *load = lease(second);
    loaded(load, "v1");
    struct seen *fill = expect(CORE_FILL);
    assert_string_equal(fill->token, second->token);
    reply_code(fill, 1);
    answered_value(&caller, "v1", GUARD_FROM_LOAD);
}

TEST(two_unanswered_acquires_lead_to_a_load_without_redis)
{
    reply_kind(lookup_of("k", &caller), REPLY_UNKNOWN);
    struct seen *second = expect(CORE_ACQUIRE);
    reply_kind(second, REPLY_UNKNOWN);
    struct seen *load = expect(CORE_LOAD);
    get("k", &later);
    loaded(load, "v1");
    assert_false(caller.waiter.result.stored);
    answered_value(&caller, "v1", GUARD_FROM_LOAD);
    /* joined after the query: asks again, and removes what the second attempt may have left */
    struct seen *acquire = expect(CORE_ACQUIRE);
    assert_string_equal(acquire->prev, second->token);
    reply_fresh_for(acquire, "v2", &later, GUARD_FROM_CACHE);
}

/* Three unsent commands. */
static void open_the_breaker(void)
{
    reply_kind(lookup_of("opener", &caller), REPLY_UNSENT);
    reply_kind(expect(CORE_ACQUIRE), REPLY_UNSENT);
    loaded_for(expect(CORE_LOAD), "x", &caller, GUARD_FROM_LOAD);
    reply_kind(lookup_of("opener", &caller), REPLY_UNSENT);
    loaded_for(expect(CORE_LOAD), "x", &caller, GUARD_FROM_LOAD);
    assert_true(stats_of().breaker_open);
    assert_int_equal(stats_of().breaker_opened, 1);
}

TEST(an_open_breaker_lets_nothing_wait_for_redis_until_one_probe_is_answered, P55)
{
    open_the_breaker();
    get("k", &caller);
    loaded_for(expect(CORE_LOAD), "v1", &caller, GUARD_FROM_LOAD);
    pass(400);
    struct seen *acquire = lookup_of("k", &probe);
    get("k2", &between);
    loaded(expect(CORE_LOAD), "v2"); /* one probe at a time */
    answered_value(&between, "v2", GUARD_FROM_LOAD);
    reply_fresh_for(acquire, "v1", &probe, GUARD_FROM_CACHE);
    assert_false(stats_of().breaker_open);
    reply_fresh_for(lookup_of("k3", &after), "v3", &after, GUARD_FROM_CACHE);
}

TEST(without_redis_a_failure_is_remembered_in_the_process)
{
    open_the_breaker();
    core_link(bench.core, bench.now_us, 0, false);
    static struct caller first, second;
    get("k", &first);
    struct seen *load = expect(CORE_LOAD);
    get("k", &joiner);
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    answered_from(&first, GUARD_FAILED, GUARD_FROM_LOAD);
    answered_from(&joiner, GUARD_FAILED, GUARD_FROM_FLIGHT);
    pass(400);
    get("k", &second);
    answered_from(&second, GUARD_FAILED, GUARD_FROM_CACHE);
    assert_int_equal(second.waiter.result.retry_ms, 600);
    sent_nothing();
    pass(601);
    get("k", &third);
    loaded_for(expect(CORE_LOAD), "v1", &third, GUARD_FROM_LOAD);
}

TEST(an_invalidation_ends_what_the_process_remembers_of_a_failure)
{
    open_the_breaker();
    static struct caller first, second;
    get("k", &first);
    load_fails(expect(CORE_LOAD), GUARD_FAILURE_UNAVAILABLE);
    answered(&first, GUARD_FAILED);
    message("k", false); /* another process's release says nothing about us */
    assert_false(core_idle(bench.core));
    message("k", true);
    assert_true(core_idle(bench.core));
    get("k", &second);
    loaded_for(expect(CORE_LOAD), "v1", &second, GUARD_FROM_LOAD);
}

/* ---- the bulkhead ---- */

TEST(without_a_place_a_get_only_looks_and_is_shed_if_it_would_have_to_load)
{
    bench_open_with(1, 0);
    struct seen *load = begin_load("k", &loader);
    struct seen *peek = lookup_of("k2", &hit);
    assert_int_equal(peek->action.lookup, LOOKUP_PEEK);
    reply_fresh_for(peek, "v2", &hit, GUARD_FROM_CACHE);
    reply_kind(lookup_of("k3", &cold), REPLY_FREE);
    answered(&cold, GUARD_SHED);
    assert_int_equal(cold.waiter.result.retry_ms, 1000);
    assert_int_equal(stats_of().shed, 1);
    finish_load_for(load, "v1", &loader, GUARD_FROM_LOAD);
}

TEST(a_place_that_came_free_during_the_peek_is_used)
{
    bench_open_with(1, 0);
    static struct caller second;
    struct seen *load = begin_load("k", &loader);
    struct seen *peek = lookup_of("k2", &second);
    finish_load_for(load, "v1", &loader, GUARD_FROM_LOAD);
    reply_kind(peek, REPLY_FREE);
    finish_load_for(lease(expect(CORE_ACQUIRE)), "v2", &second, GUARD_FROM_LOAD);
}

TEST(a_lease_that_a_peek_cannot_have_got_is_given_back)
{
    bench_open_with(1, 0);
    static struct caller second;
    struct seen *load = begin_load("k", &loader);
    reply_kind(lookup_of("k2", &second), REPLY_LEASE);
    answered(&second, GUARD_SHED);
    reply_code(expect(CORE_RELEASE), 1);
    finish_load_for(load, "v1", &loader, GUARD_FROM_LOAD);
}

TEST(without_redis_and_without_a_place_a_get_is_shed_at_once, P50)
{
    bench_open_with(1, 0);
    open_the_breaker();
    static struct caller second;
    get("k", &loader);
    struct seen *load = expect(CORE_LOAD);
    get("k2", &second);
    answered(&second, GUARD_SHED);
    sent_nothing();
    loaded_for(load, "v1", &loader, GUARD_FROM_LOAD);
}

TEST(the_waiter_limit_refuses_and_leaves_the_table_unchanged, P28)
{
    bench.config.max_waiters = 2;
    bench_open();
    get("k", &one);
    get("k", &two);
    get("k3", &three);
    assert_int_equal(three.accepted, GUARD_SHED);
    assert_int_equal(stats_of().flights, 1);
    struct seen *acquire = expect(CORE_ACQUIRE);
    sent_nothing();
    cancel(&two);
    get("k3", &three);
    assert_int_equal(three.accepted, GUARD_OK);
    reply_fresh_for(acquire, "v", &one, GUARD_FROM_CACHE);
}

/* ---- deadlines and cancels ---- */

TEST(each_waiter_is_answered_by_its_own_deadline_and_the_load_goes_on)
{
    get_until("k", &hasty, bench.now_us + 50000);
    get_until("k", &patient, bench.now_us + 90000);
    struct seen *load = lease(expect(CORE_ACQUIRE));
    pass_us(49999);
    still_waits(&hasty);
    pass_us(1);
    answered(&hasty, GUARD_TIMEOUT);
    still_waits(&patient);
    pass(40);
    answered(&patient, GUARD_TIMEOUT);
    finish_load(load, "v1");
    assert_int_equal(stats_of().timed_out, 2);
    assert_int_equal(stats_of().fill_stored, 1);
    assert_true(core_idle(bench.core));
}

TEST(a_deadline_in_the_past_is_answered_at_the_next_tick)
{
    get_until("k", &caller, bench.now_us);
    still_waits(&caller);
    pass_us(0);
    answered(&caller, GUARD_TIMEOUT);
}

TEST(many_deadlines_ring_in_their_order, P27)
{
    enum { MANY = 3000 };
    bench.config.max_waiters = MANY;
    bench_open();
    static struct caller callers[MANY];
    struct chance chance = {.state = 7};
    for (int i = 0; i < MANY; i++)
        get_until("k", &callers[i], bench.now_us + chance_below(&chance, 1000000));
    uint64_t last_us = bench.now_us;
    while (bench.answered_count < MANY) {
        uint64_t next_us = core_next_us(bench.core);
        assert_true(next_us >= last_us);
        last_us = bench.now_us = next_us;
        core_tick(bench.core, next_us);
        drain();
    }
    reply_kind(expect(CORE_ACQUIRE), REPLY_FREE);
    assert_true(core_idle(bench.core));
}

TEST(the_leader_may_leave_at_any_stage_and_the_rest_is_served, P14)
{
    for (int stage = 0; stage < 4; stage++) {
        bench_again();
        struct seen *acquire = lookup_of("k", &leader);
        get("k", &follower);
        if (stage == 0)
            cancel(&leader);
        struct seen *load = lease(acquire);
        if (stage == 1)
            cancel(&leader);
        loaded(load, "v1");
        if (stage == 2)
            cancel(&leader);
        reply_code(expect(CORE_FILL), 1);
        cancel(&leader); /* too late in stage 3 */
        answered_value(&follower, "v1", stage < 2 && stage == 0 ? GUARD_FROM_LOAD : GUARD_FROM_FLIGHT);
        if (stage == 3)
            answered_value(&leader, "v1", GUARD_FROM_LOAD);
        else
            answered(&leader, GUARD_CANCELLED);
    }
}

TEST(a_lease_that_nobody_waits_for_is_given_back)
{
    struct seen *acquire = lookup_of("k", &caller);
    cancel(&caller);
    sent_nothing();
    reply_kind(acquire, REPLY_LEASE);
    struct seen *release = expect(CORE_RELEASE);
    assert_string_equal(release->token, acquire->token);
    assert_int_equal(release->action.failure, GUARD_FAILURE_NONE);
    reply_code(release, 1);
    assert_true(core_idle(bench.core));
}

TEST(an_unanswered_acquire_that_nobody_waits_for_is_given_back_too)
{
    struct seen *acquire = lookup_of("k", &caller);
    cancel(&caller);
    reply_kind(acquire, REPLY_UNKNOWN);
    for (int attempt = 0; attempt < 3; attempt++) {
        struct seen *release = expect(CORE_RELEASE);
        assert_string_equal(release->token, acquire->token);
        reply_kind(release, REPLY_UNKNOWN);
    }
    at_rest();
}

TEST(a_join_behind_a_release_asks_again)
{
    static struct caller first, second;
    load_fails(begin_load("k", &first), GUARD_FAILURE_INTERNAL);
    struct seen *release = expect(CORE_RELEASE);
    struct seen *acquire = lookup_of("k", &second);
    assert_string_equal(acquire->prev, release->token);
    reply_kind(release, REPLY_UNKNOWN); /* no matter: prev does it */
    sent_nothing();
    reply_fresh_for(acquire, "v", &second, GUARD_FROM_CACHE);
}

/* ---- modes ---- */

TEST(in_local_mode_a_busy_key_is_loaded_at_once_and_once)
{
    bench.config.mode = GUARD_MODE_LOCAL;
    bench_open();
    struct seen *acquire = lookup_of("k", &one);
    get("k", &two);
    reply_busy(acquire, 3000);
    struct seen *load = expect(CORE_LOAD);
    loaded_for(load, "v1", &one, GUARD_FROM_LOAD);
    answered_value(&two, "v1", GUARD_FROM_FLIGHT);
    sent_nothing();
}

TEST(in_off_mode_every_miss_loads)
{
    bench.config.mode = GUARD_MODE_OFF;
    bench_open();
    get("k", &one);
    get("k", &two);
    struct seen *first = expect(CORE_ACQUIRE), *second = expect(CORE_ACQUIRE);
    struct seen *leased = lease(first);
    reply_busy(second, 3000);
    struct seen *bare = expect(CORE_LOAD);
    load_fails(bare, GUARD_FAILURE_UNAVAILABLE);
    answered_from(&two, GUARD_FAILED, GUARD_FROM_LOAD);
    finish_load_for(leased, "v1", &one, GUARD_FROM_LOAD);
    sent_nothing();
}

/* ---- counters that wrap ---- */

TEST(the_action_ring_keeps_its_order_while_it_grows_and_wraps)
{
    bench_open_with(64, 2);
    static struct caller callers[60];
    char key[60][16];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 60; i++) {
            snprintf(key[i], sizeof key[i], "k%d", i);
            get(key[i], &callers[i]);
            assert_string_equal(expect(CORE_ACQUIRE)->key, key[i]);
        }
        close_core();
        for (int i = 0; i < 60; i++)
            answered(&callers[i], GUARD_CLOSING);
        for (size_t i = bench.seen_count - 60; i < bench.seen_count; i++)
            if (bench.seen[i].action.kind == CORE_ACQUIRE)
                reply_kind(&bench.seen[i], REPLY_UNSENT);
        assert_true(core_idle(bench.core));
        bench_close();
        bench_open();
    }
}

TEST(one_flight_may_send_more_commands_than_its_count_can_hold)
{
    get_until("k", &caller, UINT64_MAX - 1);
    struct seen *first = expect(CORE_ACQUIRE), last = *first;
    for (unsigned i = 0; i < (1u << 16) + 10; i++) {
        core_replied(bench.core, bench.now_us, last.action.op,
                     &(struct core_reply){.kind = REPLY_BUSY, .pttl_ms = 1});
        bench.now_us = core_next_us(bench.core);
        core_tick(bench.core, bench.now_us);
        assert_true(core_next_action(bench.core, &last.action));
        assert_int_equal(last.action.kind, CORE_ACQUIRE);
        assert_true(last.action.op != 0);
    }
    core_replied(bench.core, bench.now_us, last.action.op - 1, &(struct core_reply){.kind = REPLY_FREE});
    drain();
    still_waits(&caller); /* not the reply to the last command */
    reply_fresh_for(&last, "v1", &caller, GUARD_FROM_FLEET);
    first->over = true;
}

TEST_GROUP(.before = bench_up, .end = bench_close);
