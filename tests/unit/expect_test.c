/* SPDX-License-Identifier: MIT */
/* expect_test.c - what may be expected, how it is measured, and that nothing unmeasured holds. */
#include "load/play/expect.h"
#include "tests/support/test.h"

enum { BEGIN_US = 5000000 };

static bool parse(const char *line, struct expect *out, char *why)
{
    static struct words words;
    why[0] = '\0';
    assert_null(words_split(&words, line));
    return expect_parse(&words, out, why);
}

/* ---- a run of our own making ---- */

static struct record request(uint32_t due_ms, uint16_t status, uint32_t end_us)
{
    return (struct record){.due_us = BEGIN_US + (uint64_t)due_ms * 1000,
                           .end_us = end_us,
                           .status = status,
                           .outcome = status > 0 ? RECORD_ANSWERED : RECORD_RESET};
}

/* Ten requests, one every 100 ms: seven 200s of 1 to 7 ms, two 503s of 50 and 60 ms, and one reset. */
static struct record requests[10];
static struct witness_load loads[] = {{.at_us = BEGIN_US + 50000, .key = "7"},
                                      {.at_us = BEGIN_US + 150000, .key = "8"},
                                      {.at_us = BEGIN_US + 700000, .key = "7"}};
static struct records records;
static struct witness_view view;
static struct result result;

static bool set_up(void)
{
    for (uint32_t i = 0; i < 7; i++)
        requests[i] = request(i * 100, 200, (i + 1) * 1000);
    requests[3].cache = RECORD_CACHE_HIT;
    requests[4].url = 1;
    requests[7] = request(700, 503, 50000);
    requests[8] = request(800, 503, 60000);
    requests[9] = request(900, 0, 1000);
    records = (struct records){.at = requests, .count = 10};
    view = (struct witness_view){.way = WITNESS_LOG, .load_count = 3, .loads = loads, .command_sum = 25};
    memset(&result, 0, sizeof result);
    result.requests = 10;
    result.outcomes[RECORD_ANSWERED] = 9;
    result.has_loads = result.has_redis = result.has_writes = true;
    result.loads = 3;
    result.expiries = 2;
    result.loads_per_expiry = 1.5;
    result.most_per_expiry = 2;
    result.worst_count = 1;
    result.worst[0] = (struct result_hot){.key = "7", .loads = 2, .at_ms = 50};
    result.command_sum = 25;
    result.stale_answers = 1;
    result.write_count = 3;
    result.offered_per_s = 10;
    return true;
}

static bool judge(const char *line, struct result_check *out)
{
    struct expect expect;
    char why[EXPECT_WHY_BYTES];
    const struct expect_source source = {
        .result = &result, .records = &records, .view = &view, .begin_us = BEGIN_US};
    if (!parse(line, &expect, why))
        fail_msg("%s: %s", line, why);
    assert_true(expect_judge(&expect, &source, out));
    return out->held;
}

static void expect_held(const char *line)
{
    struct result_check check;
    if (!judge(line, &check))
        fail_msg("%s did not hold: %s", line, check.measured);
}

static void expect_broken(const char *line, const char *measured)
{
    struct result_check check;
    if (judge(line, &check))
        fail_msg("%s held: %s", line, check.measured);
    assert_string_equal(check.text, line);
    assert_string_equal(check.measured, measured);
}

/* ---- requests ---- */

TEST(requests_are_counted_and_shared)
{
    expect_held("requests = 10");
    expect_held("answered = 9");
    expect_held("answered >= 90%");
    expect_held("failed = 3");
    expect_held("status 5xx = 20%");
    expect_held("status 5xx = 2");
    expect_held("reset = 1");
    expect_held("refused = 0");
    expect_held("cache hit = 1");
    expect_broken("status 200 >= 71%", "7 of 10 (70%)");
    expect_broken("failed < 3", "3 of 10 (30%)");
    expect_broken("answered = 100%", "9 of 10 (90%)");
}

TEST(where_nothing_was_served_nobody_knows_what_failed)
{
    static const char unknown[] = "not known: nothing was served: no answer is a 2xx or 304; where "
                                  "another is right, expect that status";
    for (size_t i = 0; i < 7; i++)
        requests[i].status = 404;
    expect_broken("failed = 0", unknown);
    expect_broken("failed <= 50%", unknown);
    expect_held("status 404 = 7");
    expect_held("status 5xx = 2");
    static struct expect takes;
    char why[EXPECT_WHY_BYTES];
    struct result_check check;
    const struct expect_source source = {.result = &result, .records = &records, .begin_us = BEGIN_US};
    assert_true(parse("failed = 3", &takes, why));
    takes.takes_unserved = true; /* it is expected, too */
    assert_true(expect_judge(&takes, &source, &check));
    assert_true(check.held);
    for (size_t i = 0; i < 7; i++)
        requests[i].status = 302; /* where to, nobody asked */
    expect_broken("failed <= 3", unknown);
    requests[0].status = 304;
    expect_held("failed = 3");
    for (size_t i = 0; i < 10; i++)
        requests[i] = request((uint32_t)i * 100, 503, 1000);
    expect_broken("failed = 0", "10 of 10 (100%)");
}

TEST(whoever_was_told_to_leave_did_not_fail)
{
    requests[0] = request(0, 0, 100);
    requests[0].outcome = RECORD_LEFT;
    expect_held("failed = 3");
    expect_held("left = 1");
}

TEST(a_part_is_measured_by_itself)
{
    expect_held("requests of url 2 = 1");
    expect_held("max of status 200 = 7ms");
    expect_broken("p50 of status 404 <= 1s", "not known: no such request was answered");
}

TEST(a_window_takes_what_was_due_in_it)
{
    expect_held("requests = 3 from 100ms to 400ms");
    expect_held("status 5xx = 0 from 0s to 700ms");
    expect_held("status 5xx = 2 from 700ms to 900ms");
    expect_held("loads = 1 from 600ms to 1s");
    expect_broken("answered = 100% from 2s to 3s", "not known: no such request was made");
}

TEST(latency_is_nearest_rank_over_those_answered)
{
    expect_held("p50 = 5ms");
    expect_held("min = 1ms");
    expect_held("min of status 503 = 50ms");
    expect_held("max <= 60ms");
    expect_broken("max < 60ms", "60.0 ms");
    expect_broken("p80 <= 300us", "50.0 ms");
}

/* ---- the database and Redis ---- */

TEST(loads_are_counted_by_key_and_by_expiry)
{
    expect_held("loads = 3");
    expect_held("loads per key = 2");
    expect_held("loaded keys = 2");
    expect_held("expiries = 2");
    expect_held("redis commands = 25");
    expect_held("stale answers > 0");
    expect_broken("loads per expiry <= 1", "1.50: 3 loads of 2 expiries, at most 2 of one");
    expect_held("most loads per expiry = 2");
    expect_broken("most loads per expiry <= 1", "2 (key 7 at 0.05 s)");
    expect_broken("stale answers = 0", "1 of 9 (11.11%)");
}

TEST(a_figure_has_as_many_digits_as_decide)
{
    result.loads = 1161;
    result.expiries = 1159;
    result.loads_per_expiry = 1161.0 / 1159;
    expect_broken("loads per expiry <= 1", "1.002: 1161 loads of 1159 expiries, at most 2 of one");
    result.loads = 10000001;
    result.expiries = 10000000;
    result.loads_per_expiry = 1.0000001;
    expect_broken("loads per expiry <= 1",
                  "1.0000001: 10000001 loads of 10000000 expiries, at most 2 of one");
    result.loads = 3;
    requests[6].end_us = 7001;
    expect_broken("max of status 200 <= 7ms", "7.001 ms");
    result.has_recovered = true;
    result.recovery_ms = 2001;
    expect_broken("recovery <= 2s", "2.001 s");
    static struct record many[20001];
    for (size_t i = 0; i < 20001; i++)
        many[i] = request(0, i < 3 ? 503 : 200, 1);
    records = (struct records){.at = many, .count = 20001};
    expect_broken("status 5xx >= 0.015%", "3 of 20001 (0.01%)");
    expect_broken("status 5xx <= 0.01%", "3 of 20001 (0.014%)");
}

TEST(where_the_life_of_values_is_not_sure_nothing_about_expiries_holds)
{
    snprintf(result.ttl_doubt, sizeof result.ttl_doubt, "nobody said it");
    expect_broken("loads per expiry <= 2", "not known: nobody said it");
    expect_broken("most loads per expiry <= 2", "not known: nobody said it");
    expect_broken("expiries >= 1", "not known: nobody said it");
    expect_held("loads = 3");
    expect_held("loads per key = 2");
}

TEST(a_service_that_does_not_come_back_has_no_recovery_that_is_short_enough, P178)
{
    result.recovery_unknown = "nothing was done to the service";
    expect_broken("recovery <= 1h", "not known: nothing was done to the service");
    result.recovery_unknown = NULL;
    expect_broken("recovery <= 24h", "never");
    result.has_recovered = true;
    result.recovery_ms = 1250;
    expect_held("recovery <= 1250ms");
    expect_broken("recovery <= 1s", "1.25 s");
}

TEST(a_percentile_takes_so_many_answers_that_it_is_not_the_slowest, P105)
{
    static struct record many[100];
    expect_held("p50 = 5ms");
    expect_held("p88 = 50ms");
    expect_broken("p90 <= 1s", "not known: it takes 10 answers, and there are 9");
    expect_broken("p99.99 <= 1s", "not known: it takes 10000 answers, and there are 9");
    expect_broken("p99.99999 <= 1s", "not known: it takes 1000000 answers, and there are 9");
    expect_broken("p50 <= 1s from 0s to 50ms", "not known: it takes 2 answers, and there are 1");
    for (uint32_t i = 0; i < 100; i++)
        many[i] = request(1, 200, 1000 * (i + 1));
    records = (struct records){.at = many, .count = 100};
    expect_held("p99 <= 99ms");
    records.count = 99;
    expect_broken("p99 <= 99ms", "not known: it takes 100 answers, and there are 99");
}

TEST(where_no_load_was_seen_only_that_there_is_none_may_hold, P103)
{
    static const char unknown[] =
        "not known: no load was seen: see \"counting\"; where none is right, expect loads = 0";
    view.load_count = 0;
    result.loads = 0;
    expect_broken("loads <= 3", unknown);
    expect_broken("loads <= 3 from 0s to 1s", unknown);
    expect_broken("loads >= 0", unknown);
    expect_broken("loads per key <= 1", unknown);
    expect_held("loads = 0");
    expect_held("loads <= 0 from 0s to 1s");
    expect_held("loads < 1");
    expect_held("p50 = 5ms");
    view.knows_text = true; /* seen before: it is no slip of the pen */
    expect_held("loads <= 3");
    view.load_count = 3;
    view.knows_text = false;
    expect_held("loads <= 3 from 2s to 3s"); /* others were seen */
}

TEST(a_redis_that_ran_nothing_may_be_another, P106)
{
    static const char unknown[] =
        "not known: this Redis ran nothing: is it the service's? Where that is right, expect = 0";
    view.command_sum = result.command_sum = 0;
    expect_broken("redis commands <= 25", unknown);
    expect_held("redis commands = 0");
}

TEST(what_no_header_says_is_not_known_of_caches, P106)
{
    requests[3].cache = RECORD_CACHE_NONE;
    expect_broken("cache miss = 0",
                  "not known: no answer has a Cache-Status, CF-Cache-Status, X-Cache-Status or X-Cache");
    expect_broken("cache hit < 50%",
                  "not known: no answer has a Cache-Status, CF-Cache-Status, X-Cache-Status or X-Cache");
    expect_held("cache none = 9");
    requests[3].cache = RECORD_CACHE_HIT;
    expect_held("cache miss = 0");
}

TEST(what_may_be_more_is_not_less, P106)
{
    static const char unknown[] = "not known: some may not have been counted: see \"counting\"";
    view.misses_loads = view.misses_commands = true;
    expect_broken("loads <= 3", unknown);
    expect_broken("loads = 3", unknown);
    expect_broken("loads >= 4", unknown);
    expect_held("loads >= 3");
    expect_held("loads > 2");
    expect_broken("loads per expiry > 1", unknown);
    expect_broken("loads per key <= 2", unknown);
    expect_broken("redis commands <= 25", unknown);
    expect_held("redis commands >= 25");
    expect_held("requests = 10");
}

TEST(where_keys_are_not_known_nothing_about_them_holds, P101)
{
    result.keys_unknown = "no keys";
    expect_broken("loads per expiry <= 1", "not known: no keys");
    expect_broken("expiries >= 1", "not known: no keys");
    expect_broken("loads per key <= 9", "not known: no keys");
    expect_broken("loaded keys >= 1", "not known: no keys");
    expect_held("loads = 3");
    expect_held("loads = 1 from 600ms to 1s");
}

TEST(loads_at_once_are_known_where_the_log_has_their_ends)
{
    static const char unknown[] = "not known: the log does not say when loads ended: log_duration = on";
    view.at_once = 9;
    expect_broken("loads at once <= 9", unknown);
    expect_broken("loads at once > 8", unknown);
    view.has_ends = true;
    expect_held("loads at once <= 9");
    expect_broken("loads at once <= 8", "9");
}

TEST(what_nobody_measured_does_not_hold)
{
    result.has_loads = result.has_redis = result.has_writes = false;
    result.write_count = 0;
    view.way = WITNESS_NONE;
    expect_broken("loads <= 1", "not known: loads were not counted");
    expect_broken("loads per key <= 1", "not known: only the statement log knows keys and instants");
    expect_broken("redis commands <= 1", "not known: Redis was not asked");
    expect_broken("stale answers = 0", "not known: nothing was written");
    result.write_count = 3;
    expect_broken(
        "stale answers <= 1",
        "not known: no answer has the version of a key that was written before: is its text in the bodies?");
    result.offered_per_s = 0;
    expect_broken("answered per second <= 9", "not known: only requests at a rate have it");
    result.has_loads = true;
    result.expiries = 0;
    expect_broken("loads per expiry <= 1", "not known: there was no load");
}

TEST(a_share_is_never_rounded_up_to_all)
{
    static struct record many[100000];
    records = (struct records){.at = many, .count = 100000};
    for (size_t i = 0; i < records.count; i++)
        many[i] = request(1, 200, 1);
    many[5].outcome = RECORD_RESET;
    expect_broken("answered = 100%", "99999 of 100000 (99.99%)");
}

/* ---- words ---- */

TEST(every_comparison_means_what_it_says)
{
    static const struct {
        const char *operator;
        bool below, equal, above; /* 3 loads compared with 4, 3 and 2 */
    } table[] = {{"<", true, false, false},  {"<=", true, true, false}, {"=", false, true, false},
                 {"==", false, true, false}, {">=", false, true, true}, {">", false, false, true}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const bool wanted[] = {table[i].below, table[i].equal, table[i].above};
        for (unsigned k = 0; k < 3; k++) {
            char line[40];
            struct result_check check;
            snprintf(line, sizeof line, "loads %s %u", table[i].operator, 4 - k);
            assert_int_equal(judge(line, &check), wanted[k]);
        }
    }
}

TEST(the_variant_and_the_needs_are_told)
{
    struct expect expect;
    char why[EXPECT_WHY_BYTES];
    assert_true(parse("p99 of url 1 <= 300ms from 1s to 2.5s in fleet", &expect, why));
    assert_string_equal(expect.variant, "fleet");
    assert_string_equal(expect.text, "p99 of url 1 <= 300ms from 1s to 2.5s in fleet");
    assert_int_equal(expect.from_ms, 1000);
    assert_int_equal(expect.to_ms, 2500);
    assert_int_equal(expect.part, EXPECT_PART_URL);
    assert_int_equal(expect.part_number, 0);
    assert_int_equal(expect_needs(&expect), 0);
    static const struct {
        const char *line;
        unsigned needs;
    } table[] = {
        {"loads <= 1", EXPECT_NEEDS_LOADS},
        {"loads <= 1 from 1s to 2s", EXPECT_NEEDS_LOADS | EXPECT_NEEDS_KEYS},
        {"loads per key <= 1", EXPECT_NEEDS_LOADS | EXPECT_NEEDS_KEYS},
        {"loads at once <= 8", EXPECT_NEEDS_LOADS | EXPECT_NEEDS_KEYS},
        {"redis commands < 9", EXPECT_NEEDS_REDIS},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_true(parse(table[i].line, &expect, why));
        assert_int_equal(expect_needs(&expect), table[i].needs);
    }
}

TEST_WITH(a_wrong_expectation_is_refused_with_what_would_be_right, NULL, NULL)
{
    static const struct {
        const char *line, *why;
    } table[] = {
        {"", "an expectation is missing"},
        {"lodas <= 1", "unknown figure \"lodas\"; there are: requests,"},
        {"loads of url 1 <= 1", "\"of\" is for figures of requests"},
        {"loads", "a comparison is missing"},
        {"loads is 1", "unknown figure \"loads is 1\""},
        {"answered of url 1 is 1", "a comparison is one of"},
        {"loads <=", "a value is missing after the comparison"},
        {"loads <= 50%", "a number is needed, not \"50%\""},
        {"answered >= lots", "a number or a share"},
        {"answered >= 101%", "a number or a share"},
        {"p99 <= 300", "a time is like 300ms"},
        {"p99 <= -3ms", "a time is like 300ms"},
        {"p101 <= 1s", "unknown figure"},
        {"recovery <= 1", "a time is like 300ms"},
        {"recovery <= 1s from 1s to 2s", "this figure is about the whole run"},
        {"recovery of url 1 <= 1s", "\"of\" is for figures of requests"},
        {"mean <= 1s", "unknown figure \"mean\""},
        {"answered of target 1 = 1", "after \"of\": status N or url N"},
        {"p0 <= 1s", "unknown figure"},
        {"status 99 = 0", "a status is 100 to 599"},
        {"status 6xx = 0", "a status is 100 to 599"},
        {"cache warm = 0", "a cache status is"},
        {"answered of = 1", "after \"of\""},
        {"answered of url 0 = 1", "after \"of\""},
        {"loads <= 1 from 2s to 1s", "a window is written"},
        {"loads <= 1 from 2s", "a window is written"},
        {"loads per expiry <= 1 from 1s to 2s", "this figure is about the whole run"},
        {"loads <= 1 in", "is missing after \"in\""},
        {"loads <= 1 please", "unexpected: \"please\""},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct expect expect;
        char why[EXPECT_WHY_BYTES];
        assert_false(parse(table[i].line, &expect, why));
        if (strstr(why, table[i].why) == NULL)
            fail_msg("%s: %s", table[i].line, why);
    }
}

TEST_GROUP(.before = set_up);
