/* SPDX-License-Identifier: MIT */
/* result_loads_test.c - which loads belong to which expiry, and which answers are stale. */
#include "load/report/result.h"
#include "tests/support/made_run.h"
#include "tests/support/test.h"

static void assert_near(double number, double expected)
{
    if (number < expected - 1e-9 || number > expected + 1e-9)
        fail_msg("%.17g, not %.17g", number, expected);
}

/* ---- expiries ---- */

struct load_at {
    const char *key;
    uint32_t at_ms;
};

/* Asks for more different things than any test loads. */
static struct made_run *begin(void)
{
    struct made_run *run = made_run_begin(WORK_RATE, RESULT_MARKS_MAX);
    for (size_t i = 0; i < run->count; i++)
        run->at[i].key = (uint32_t)i;
    return run;
}

static void make_loads(struct made_run *run, const struct load_at *loads, size_t count, uint32_t ttl_ms,
                       uint32_t jitter)
{
    struct witness_load *seen = calloc(count + 1, sizeof *seen);
    assert_non_null(seen);
    for (size_t i = 0; i < count; i++) {
        seen[i].at_us = MADE_BEGIN_US + (uint64_t)loads[i].at_ms * 1000;
        snprintf(seen[i].key, sizeof seen[i].key, "%s", loads[i].key);
    }
    run->view.way = WITNESS_LOG;
    run->view.loads = seen;
    run->view.load_count = count;
    run->source.view = &run->view;
    run->source.ttl_ms = ttl_ms;
    run->source.jitter_percent = jitter;
    made_run_finish(run);
    free(seen);
}

#define MAKE_LOADS(run, loads, ttl_ms, jitter)                                                               \
    make_loads(run, loads, sizeof(loads) / sizeof *(loads), ttl_ms, jitter)

TEST(loads_of_a_key_within_its_life_are_one_expiry)
{
    static const struct load_at loads[] = {{"7", 0},    {"9", 5},    {"7", 10},   {"7", 999},
                                           {"7", 1000}, {"7", 1001}, {"7", 1999}, {"7", 2000}};
    struct made_run *run = begin();
    MAKE_LOADS(run, loads, 1000, 0);
    assert_int_equal(run->result->loads, 8);
    assert_int_equal(run->result->loaded_keys, 2);
    assert_int_equal(run->result->expiries, 4); /* of 7: at 0, 1000 and 2000; of 9: at 5 */
    assert_near(run->result->loads_per_expiry, 2);
    assert_string_equal(run->result->way, "log");
    assert_int_equal(run->result->mark_count, 4);
    assert_string_equal(run->result->marks[0].text, "key 7: 3 loads");
    assert_string_equal(run->result->marks[1].text, "key 9: 1 load");
    assert_int_equal(run->result->marks[2].at_ms, 1000);
    assert_int_equal(run->result->marks[2].kind, RESULT_EXPIRY);
    uint32_t needed = 0;
    for (size_t i = 0; i < run->result->slice_count; i++)
        needed += run->result->slices[i].needed;
    assert_int_equal(needed, 4);
    assert_int_equal(run->result->slices[0].needed, 1 + (run->result->slice_ms > 5));
}

TEST(jitter_lets_a_value_expire_earlier)
{
    static const struct load_at loads[] = {{"7", 0}, {"7", 899}, {"7", 900}, {"7", 1700}, {"7", 1800}};
    struct made_run *run = begin();
    MAKE_LOADS(run, loads, 1000, 10);
    assert_int_equal(run->result->expiries, 3);
}

TEST(a_key_without_a_known_life_is_one_expiry_if_its_loads_come_at_once)
{
    static const struct load_at loads[] = {{"7", 0}, {"7", 249}, {"8", 1}, {"", 2}, {"", 12}};
    struct made_run *run = begin();
    MAKE_LOADS(run, loads, 0, 0);
    assert_int_equal(run->result->expiries, 3);
    assert_int_equal(run->result->most_per_expiry, 2);
    assert_int_equal(run->result->hot_count, 3);
    assert_string_equal(run->result->ttl_doubt, "");
}

/* ---- a life that nobody told ---- */

static void assert_doubt(const struct result *result, const char *text)
{
    if (strstr(result->ttl_doubt, text) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", text, result->ttl_doubt);
}

TEST(a_reload_is_not_condemned_where_nobody_knows_how_long_a_value_lives)
{
    static const struct load_at loads[] = {{"7", 0}, {"7", 700}, {"7", 3000}, {"8", 0}, {"8", 1500}};
    struct made_run *run = begin();
    MAKE_LOADS(run, loads, 0, 0);
    assert_int_equal(run->result->loads, 5);
    assert_int_equal(run->result->expiries, 0);
    assert_int_equal(run->result->most_per_expiry, 0);
    assert_int_equal(run->result->loaded_keys, 2);
    assert_int_equal(run->result->hot[0].loads, 3);
    assert_int_equal(run->result->ttl_seen_ms, 0);
    assert_doubt(run->result,
                 "was not said (--ttl): a load after an expiry cannot be told from one too many");
}

/* 100 a second for 6 s on one value that lives 1 s, with a hit of 12 in its third expiry or none. */
static struct made_run *reload_each_second(size_t crowd, uint32_t ttl_ms)
{
    static struct load_at loads[32];
    size_t count = 0;
    for (uint32_t second = 0; second < 6; second++) {
        for (size_t i = 0; i < (second == 2 ? crowd : 1); i++)
            loads[count++] = (struct load_at){"7", second * 1010 + (uint32_t)i * 4};
    }
    struct made_run *run = begin();
    make_loads(run, loads, count, ttl_ms, 0);
    return run;
}

TEST(a_life_is_seen_in_the_times_of_loads_where_it_was_not_told)
{
    struct made_run *run = reload_each_second(1, 0);
    assert_int_equal(run->result->ttl_seen_ms, 1010);
    assert_int_equal(run->result->expiries, 6);
    assert_near(run->result->loads_per_expiry, 1);
    assert_doubt(run->result, "was not said (--ttl): expiries are judged by the 1.0 s that was seen");
    run = reload_each_second(12, 0);
    assert_int_equal(run->result->expiries, 6);
    assert_int_equal(run->result->most_per_expiry, 12);
}

TEST(a_life_that_is_not_the_one_that_was_told_is_named)
{
    struct made_run *run = reload_each_second(1, 5000);
    assert_int_equal(run->result->expiries, 2); /* by what was told */
    assert_doubt(run->result, "lives 5 s by what was said (--ttl), and 1.0 s by what was seen");
    assert_string_equal(reload_each_second(12, 1000)->result->ttl_doubt, "");
    assert_string_equal(reload_each_second(1, 100)->result->ttl_doubt, ""); /* the same expiries */
    static const struct load_at spread[] = {{"7", 0},    {"7", 120},  {"7", 240}, {"7", 1000},
                                            {"7", 1120}, {"7", 2000}, {"7", 3000}};
    run = begin();
    MAKE_LOADS(run, spread, 100, 0); /* each of a crowd would be an expiry */
    assert_doubt(run->result, "lives 0.1 s by what was said (--ttl), and 1.0 s by what was seen");
}

TEST(redis_knows_for_how_long_a_value_is_kept)
{
    static const struct load_at loads[] = {{"7, x", 0}, {"7, x", 1010}, {"8", 5}, {"8", 900}};
    struct made_run *run = begin();
    run->view.kept[0] = (struct witness_kept){"item:7:v", 990};
    run->view.kept[1] = (struct witness_kept){"lock:7", 300};
    run->view.kept[2] = (struct witness_kept){"item:9", 50};
    run->view.kept[3] = (struct witness_kept){"session", 60000};
    run->view.kept_count = 4;
    MAKE_LOADS(run, loads, 0, 0);
    assert_int_equal(run->result->ttl_seen_ms, 990);
    assert_int_equal(run->result->expiries, 4);
    run = begin();
    run->view.kept[0] = (struct witness_kept){"item:7:v", 990};
    run->view.kept_count = 1;
    MAKE_LOADS(run, loads, 5000, 0);
    assert_doubt(run->result, "lives 5 s by what was said (--ttl), and 0.99 s by what was seen");
    run = begin();
    run->view.kept[0] = (struct witness_kept){"item:7:v", 60000}; /* it is kept stale, too */
    run->view.kept_count = 1;
    MAKE_LOADS(run, loads, 800, 0);
    assert_string_equal(run->result->ttl_doubt, "");
}

static struct made_run *begin_rounds(uint32_t round_count, uint32_t every_ms);

/* A value is fresh for 1 s and kept for 60, and a round asks every 2 s. */
TEST(for_how_long_a_value_is_kept_condemns_nobody)
{
    static const struct load_at loads[] = {{"7", 0}, {"7", 2000}, {"7", 4000}, {"7", 6000}, {"7", 8000}};
    static const struct load_at few[] = {{"7", 0}, {"7", 1010}, {"7", 2020}};
    for (int is_rate = 0; is_rate < 2; is_rate++) {
        struct made_run *run = is_rate ? begin() : begin_rounds(5, 2000);
        run->view.kept[0] = (struct witness_kept){"item:7", 60000};
        run->view.kept_count = 1;
        make_loads(run, is_rate ? few : loads, is_rate ? 3 : 5, 0, 0);
        assert_int_equal(run->result->expiries, 0);
        assert_int_equal(run->result->most_per_expiry, 0);
        assert_int_equal(run->result->ttl_seen_ms, 0);
        assert_doubt(run->result, "a load after an expiry cannot be told from one too many");
    }
}

TEST(a_service_that_keeps_nothing_shows_no_life)
{
    static struct load_at loads[20];
    for (uint32_t i = 0; i < 20; i++)
        loads[i] = (struct load_at){"7", i * 300};
    struct made_run *run = made_run_begin(WORK_RATE, 20);
    MAKE_LOADS(run, loads, 0, 0);
    assert_int_equal(run->result->ttl_seen_ms, 0);
    assert_int_equal(run->result->expiries, 0);
}

TEST(what_was_done_to_a_service_shows_no_life)
{
    static const uint64_t drops_us[] = {MADE_BEGIN_US + 1000000};
    static struct load_at loads[6];
    for (uint32_t i = 0; i < 6; i++)
        loads[i] = (struct load_at){"7", i * 1010};
    struct made_run *run = begin();
    run->source.drops_us = drops_us;
    run->source.drop_count = 1;
    MAKE_LOADS(run, loads, 5000, 0);
    assert_string_equal(run->result->ttl_doubt, "");
    run = begin();
    run->source.fault_from_us = MADE_BEGIN_US;
    MAKE_LOADS(run, loads, 5000, 0);
    assert_string_equal(run->result->ttl_doubt, "");
}

/* ---- the most of one expiry ---- */

/* 5 000 quiet keys that are loaded once, and a hot one with up to 12 loads of an expiry: the mean is 1.00. */
TEST(a_stampede_of_one_key_among_many_quiet_ones_is_seen)
{
    static struct load_at loads[5040];
    static char keys[5000][8];
    size_t count = 0;
    for (size_t i = 0; i < 5000; i++) {
        snprintf(keys[i], sizeof keys[i], "%zu", i + 1);
        loads[count++] = (struct load_at){keys[i], (uint32_t)i};
    }
    for (uint32_t expiry = 0; expiry < 5; expiry++) {
        for (uint32_t i = 0; i < (expiry == 3 ? 12 : expiry + 1); i++)
            loads[count++] = (struct load_at){"hot", expiry * 1000 + i};
    }
    struct made_run *run = made_run_begin(WORK_RATE, 6000);
    for (size_t i = 0; i < run->count; i++)
        run->at[i].key = (uint32_t)i;
    make_loads(run, loads, count, 1000, 0);
    const struct result *result = run->result;
    assert_int_equal(result->expiries, 5005);
    assert_int_equal(result->most_per_expiry, 12);
    assert_int_equal(result->per_expiry[0], 5001);
    assert_int_equal(result->per_expiry[1], 1);
    assert_int_equal(result->per_expiry[2], 1);
    assert_int_equal(result->per_expiry[4], 1); /* of 5 */
    assert_int_equal(result->per_expiry[5], 1); /* of 12 */
    assert_int_equal(result->worst_count, 4);
    assert_string_equal(result->worst[0].key, "hot");
    assert_int_equal(result->worst[0].loads, 12);
    assert_int_equal(result->worst[0].at_ms, 3000);
    assert_int_equal(result->worst[1].loads, 5);
    assert_int_equal(result->worst[1].at_ms, 4000);
}

TEST(a_write_explains_one_load_of_its_key)
{
    static const struct load_at loads[] = {{"7", 0},      {"7", 120},  {"7", 130},  {"8", 5}, {"8", 125},
                                           {"7, 1", 125}, {"7, 1", 5}, {"7x", 125}, {"7x", 5}};
    static const struct result_write writes[] = {{.key = 7,
                                                  .version = 2,
                                                  .begun_us = MADE_BEGIN_US + 100000, /* 100 ms */
                                                  .over_us = MADE_BEGIN_US + 126000},
                                                 {.key = 70, .version = 9, .over_us = MADE_BEGIN_US + 1}};
    struct made_run *run = begin();
    run->source.writes = writes;
    run->source.write_count = 2;
    MAKE_LOADS(run, loads, 1000, 0);
    assert_int_equal(run->result->expiries, 6); /* of 7 and "7, 1": two; of 8 and "7x": one */
    assert_int_equal(run->result->loads, 9);
}

TEST(a_write_that_was_over_before_the_load_explains_nothing_more)
{
    static const struct load_at loads[] = {{"7", 200}, {"7", 210}};
    static const struct result_write writes[] = {{.key = 7, .version = 2, .over_us = MADE_BEGIN_US + 100000}};
    struct made_run *run = begin();
    run->source.writes = writes;
    run->source.write_count = 1;
    MAKE_LOADS(run, loads, 1000, 0);
    assert_int_equal(run->result->expiries, 1);
}

TEST(a_write_of_a_word_explains_a_load_of_that_word)
{
    static const struct load_at loads[] = {{"tea-cup", 0}, {"tea-cup", 120}, {"tea", 0}, {"tea", 120},
                                           {"tea, 2", 0},  {"tea, 2", 120},  {"1", 0},   {"1", 120}};
    static const struct result_write writes[] = {
        {.key = 1, .word = "tea", .version = 3, .begun_us = MADE_BEGIN_US + 100000},
        {.key = 0, .word = "cup", .version = 2, .begun_us = MADE_BEGIN_US + 100000}};
    struct made_run *run = begin();
    run->source.writes = writes;
    run->source.write_count = 2;
    MAKE_LOADS(run, loads, 1000, 0);
    assert_int_equal(run->result->expiries, 6); /* of "tea" and "tea, 2": two; of the others: one */
}

TEST(a_write_of_a_long_word_explains_a_load_whose_key_was_cut)
{
    static const char word[] =
        "a-slug-of-more-bytes-than-a-key-has-room-for-is-cut-and-has-a-digest-at-its-end";
    static const struct result_write writes[] = {
        {.key = 1, .word = word, .version = 3, .begun_us = MADE_BEGIN_US + 100000}};
    static char key[] = "a-slug-of-more-bytes-than-a-key-has-room-for-is-cut-an~0123abcd";
    const struct load_at loads[] = {{key, 0}, {key, 120}};
    for (int is_other = 0; is_other < 2; is_other++) {
        struct made_run *run = begin();
        key[9] = is_other ? 'x' : '-';
        run->source.writes = writes;
        run->source.write_count = 1;
        MAKE_LOADS(run, loads, 1000, 0);
        assert_int_equal(run->result->expiries, is_other ? 1 : 2);
    }
}

/* ---- what the tester itself did ---- */

/* Rounds of as many requests each, for all keys. */
static struct made_run *begin_rounds(uint32_t round_count, uint32_t every_ms)
{
    struct made_run *run = made_run_begin(WORK_BURST, RESULT_MARKS_MAX);
    run->work.round_count = round_count;
    for (size_t i = 0; i < run->count; i++) {
        uint64_t round = i * round_count / run->count;
        run->at[i].key = (uint32_t)i;
        run->at[i].due_us = MADE_BEGIN_US + round * every_ms * 1000;
    }
    return run;
}

/* Nothing is stored, so the loads of a round take longer than a value would live. */
TEST(what_a_round_asks_for_is_one_expiry_however_long_its_loads_take)
{
    static struct load_at loads[3 * 98];
    for (size_t i = 0; i < 3 * 98; i++)
        loads[i] = (struct load_at){"7", (uint32_t)(i / 98 * 2000 + i % 98 * 15)};
    struct made_run *run = begin_rounds(3, 2000);
    MAKE_LOADS(run, loads, 300, 0);
    assert_int_equal(run->result->expiries, 3);
    assert_near(run->result->loads_per_expiry, 98);
    assert_string_equal(run->result->marks[1].text, "key 7: 98 loads");
    assert_int_equal(run->result->marks[1].at_ms, 2000);
}

TEST(a_round_within_the_life_of_a_value_is_no_expiry_of_its_own)
{
    static const struct load_at loads[] = {{"7", 0}, {"7", 100}, {"7", 200}, {"7", 300}, {"7", 301}};
    struct made_run *run = begin_rounds(4, 100);
    MAKE_LOADS(run, loads, 250, 0);
    assert_int_equal(run->result->expiries, 2);
    run = begin_rounds(4, 100);
    MAKE_LOADS(run, loads, 0, 0);
    assert_int_equal(run->result->expiries, 0); /* nobody knows */
    assert_doubt(run->result, "was not said (--ttl)");
}

/* A crowd that takes a service several lives to serve. */
TEST(a_value_may_expire_within_a_round)
{
    static const struct load_at loads[] = {{"7", 0}, {"7", 1000}, {"7", 1100}, {"7", 2100}};
    struct made_run *run = begin_rounds(1, 0);
    MAKE_LOADS(run, loads, 1000, 0);
    assert_int_equal(run->result->expiries, 3);
}

/* A log cuts instants to the millisecond: the first load of a round may seem to be before it. */
TEST(the_first_load_of_a_round_belongs_to_it)
{
    static const struct load_at loads[] = {{"7", 0}, {"7", 250}, {"7", 499}, {"7", 500}};
    struct made_run *run = begin_rounds(2, 499);
    for (size_t i = 0; i < run->count; i++)
        run->at[i].due_us += run->at[i].due_us > MADE_BEGIN_US ? 999 : 0;
    MAKE_LOADS(run, loads, 300, 0);
    assert_int_equal(run->result->expiries, 2);
    assert_int_equal(run->result->marks[1].at_ms, 499);
}

TEST(a_flush_explains_one_load_of_each_key)
{
    static const struct load_at loads[] = {{"7", 0}, {"8", 0}, {"7", 99}, {"7", 101}, {"7", 102}, {"8", 130}};
    static const uint64_t drops_us[] = {MADE_BEGIN_US + 200000, MADE_BEGIN_US + 101000};
    struct made_run *run = begin();
    run->source.drops_us = drops_us;
    run->source.drop_count = 2;
    MAKE_LOADS(run, loads, 1000, 0);
    assert_int_equal(run->result->expiries, 4);
    assert_near(run->result->loads_per_expiry, 1.5);
}

/* ---- keys that are not known ---- */

static struct made_run *count_without_keys(uint64_t load_count, uint32_t ttl_ms)
{
    struct made_run *run = made_run_begin(WORK_BURST, 1);
    run->view = (struct witness_view){
        .way = WITNESS_STATEMENTS, .load_count = load_count, .caveat = "no failed ones"};
    run->source.view = &run->view;
    run->source.ttl_ms = ttl_ms;
    made_run_finish(run);
    return run;
}

static void assert_withheld(const struct result *result, uint64_t loads, const char *why)
{
    assert_true(result->has_loads);
    assert_int_equal(result->loads, loads);
    assert_int_equal(result->expiries, 0);
    assert_int_equal(result->loaded_keys, 0);
    assert_int_equal(result->hot_count, 0);
    assert_int_equal(result->mark_count, 0);
    assert_near(result->loads_per_expiry, 0);
    assert_non_null(result->keys_unknown);
    if (strstr(result->caveat, why) == NULL)
        fail_msg("%s", result->caveat);
}

TEST(a_way_of_counting_without_keys_has_no_loads_per_expiry, P101)
{
    for (uint32_t ttl_ms = 0; ttl_ms <= 10; ttl_ms += 10) {
        struct made_run *run = count_without_keys(12, ttl_ms);
        assert_withheld(run->result, 12,
                        "no failed ones; this way of counting knows neither keys nor instants");
    }
}

TEST(where_the_log_lacks_parameters_there_are_no_loads_per_expiry)
{
    static const struct load_at loads[] = {{"7", 0}, {"", 5}, {"", 10}};
    struct made_run *run = made_run_begin(WORK_BURST, 9);
    run->view.keyless_count = 2;
    MAKE_LOADS(run, loads, 1000, 0);
    assert_withheld(run->result, 3, "the log does not have the parameters");
}

/* Each load is another "7, 12:00:01.234": every one of them would be an expiry of its own. */
TEST(more_keys_than_urls_are_no_keys, P101)
{
    static const struct load_at loads[] = {{"7, a", 0}, {"7, b", 1}, {"8, c", 2}};
    struct made_run *run = made_run_begin(WORK_BURST, 50);
    for (size_t i = 0; i < run->count; i++)
        run->at[i].key = i % 2 == 0 ? 7 : 8;
    MAKE_LOADS(run, loads, 1000, 0);
    assert_withheld(run->result, 3, "more different statements than URLs");
    run = made_run_begin(WORK_BURST, 50);
    for (size_t i = 0; i < run->count; i++)
        run->at[i].key = (uint32_t)i % 3;
    MAKE_LOADS(run, loads, 1000, 0);
    assert_int_equal(run->result->expiries, 3);
    assert_null(run->result->keys_unknown);
}

TEST(where_loads_may_be_missing_there_are_no_loads_per_expiry)
{
    static const struct load_at loads[] = {{"7", 0}, {"8", 5}};
    struct made_run *run = begin();
    run->view.misses_loads = true;
    MAKE_LOADS(run, loads, 1000, 0);
    assert_withheld(run->result, 2, "not all loads could be counted");
}

/* Two processes of a service, named by URLs of their own, have the same rows. */
TEST(the_same_path_at_two_targets_is_one_url)
{
    static const struct load_at loads[] = {{"7, a", 0}, {"7, b", 1}};
    for (int same = 0; same < 2; same++) {
        struct made_run *run = made_run_begin(WORK_BURST, 50);
        snprintf(run->work.urls[0].path, sizeof run->work.urls[0].path, "/item/7");
        snprintf(run->work.urls[1].path, sizeof run->work.urls[1].path, "%s",
                 same == 1 ? "/item/7" : "/item/8");
        for (size_t i = 0; i < run->count; i++)
            run->at[i].url = i % 2;
        MAKE_LOADS(run, loads, 1000, 0);
        assert_int_equal(run->result->expiries, same == 1 ? 0 : 2);
    }
}

TEST(that_not_one_query_was_seen_is_said)
{
    struct made_run *run = count_without_keys(0, 0);
    assert_non_null(strstr(run->result->caveat, "no failed ones; no query was seen"));
}

TEST(the_hottest_keys_are_kept_in_order)
{
    struct load_at loads[400];
    char keys[40][8];
    size_t count = 0;
    for (size_t key = 0; key < 40; key++) {
        snprintf(keys[key], sizeof keys[key], "%zu", key);
        for (size_t i = 0; i <= key * 7 % 40 / 4; i++)
            loads[count++] = (struct load_at){keys[key], 0};
    }
    struct made_run *run = begin();
    make_loads(run, loads, count, 0, 0);
    assert_int_equal(run->result->loaded_keys, 40);
    assert_int_equal(run->result->hot_count, RESULT_HOT_MAX);
    for (size_t i = 0; i < RESULT_HOT_MAX; i++)
        assert_int_equal(run->result->hot[i].loads, i < 4 ? 10 : i < 8 ? 9 : 8);
}

TEST(too_many_expiries_are_counted_and_not_marked)
{
    struct load_at loads[RESULT_MARKS_MAX / 2 + 1];
    char keys[RESULT_MARKS_MAX / 2 + 1][8];
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        snprintf(keys[i], sizeof keys[i], "%zu", i);
        loads[i] = (struct load_at){keys[i], (uint32_t)i};
    }
    struct made_run *run = begin();
    MAKE_LOADS(run, loads, 0, 0);
    assert_int_equal(run->result->expiries, RESULT_MARKS_MAX / 2 + 1);
    assert_int_equal(run->result->mark_count, 0);
}

TEST(foreign_keys_become_text_that_anybody_can_read)
{
    static const struct load_at loads[] = {{"a\033[31m\xff\xe2\x80\xae", 0}, {"\xe7\xa9\xbf", 1}};
    struct made_run *run = begin();
    MAKE_LOADS(run, loads, 0, 0);
    assert_string_equal(run->result->hot[0].key, "a?[31m??");
    assert_string_equal(run->result->hot[1].key, "\xe7\xa9\xbf");
    assert_string_equal(run->result->marks[0].text, "key a?[31m??: 1 load");
}

/* ---- writes ---- */

TEST(an_answer_older_than_a_finished_write_is_stale, P106)
{
    static const struct result_write writes[] = {
        {.key = 7, .version = 4, .over_us = MADE_BEGIN_US + 300},
        {.key = 7, .version = 2, .over_us = MADE_BEGIN_US + 100},
        {.key = 7, .version = 3, .over_us = MADE_BEGIN_US + 400}, /* began earlier, ended later */
        {.key = 6, .version = 9, .over_us = MADE_BEGIN_US},
    };
    static const struct {
        uint32_t key, version, sent_us;
        uint8_t outcome;
        bool is_stale;
    } requests[] = {
        {7, 1, 50, RECORD_ANSWERED, false},  {7, 1, 100, RECORD_ANSWERED, false}, /* not after, but at */
        {7, 1, 101, RECORD_ANSWERED, true},  {7, 2, 101, RECORD_ANSWERED, false},
        {7, 3, 350, RECORD_ANSWERED, true},  {7, 3, 500, RECORD_ANSWERED, true},
        {7, 4, 500, RECORD_ANSWERED, false}, {7, 0, 500, RECORD_ANSWERED, false},
        {8, 1, 500, RECORD_ANSWERED, false}, {7, 1, 500, RECORD_RESET, false},
    };
    uint64_t expected = 0;
    struct made_run *run = made_run_begin(WORK_BURST, sizeof requests / sizeof *requests);
    for (size_t i = 0; i < run->count; i++) {
        run->at[i].key = requests[i].key;
        run->at[i].version = requests[i].version;
        run->at[i].sent_us = requests[i].sent_us;
        run->at[i].outcome = requests[i].outcome;
        expected += requests[i].is_stale;
    }
    run->source.writes = writes;
    run->source.write_count = 4;
    made_run_finish(run);
    assert_true(run->result->has_writes);
    assert_int_equal(run->result->stale_answers, expected);
    result_clear(run->result);
    for (size_t i = 0; i < run->count; i++)
        run->at[i].version = 0;
    made_run_finish(run);
    assert_false(run->result->has_writes); /* no version, no figure */
}

TEST(a_request_without_a_key_of_its_own_is_about_the_number_in_its_path)
{
    static const struct result_write writes[] = {{.key = 20, .version = 4, .over_us = MADE_BEGIN_US + 100}};
    char why[WORK_WHY_BYTES];
    struct made_run *run = made_run_begin(WORK_BURST, 3);
    run->work.url_count = 0;
    assert_true(work_url_add(&run->work, "/item/20", why) && work_url_add(&run->work, "/item/{20-20}", why) &&
                work_url_add(&run->work, "/items", why));
    for (uint16_t i = 0; i < 3; i++) {
        run->at[i].url = i;
        run->at[i].key = i == 1 ? 20 : 0;
        run->at[i].version = 3;
        run->at[i].sent_us = 500;
    }
    run->source.writes = writes;
    run->source.write_count = 1;
    made_run_finish(run);
    assert_true(run->result->has_writes);
    assert_int_equal(run->result->stale_answers, 2);
}
