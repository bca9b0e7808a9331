/* SPDX-License-Identifier: MIT */
/* result_compare_test.c - what is called a change between two runs, and what is not. */
#include "load/report/result.h"
#include "tests/support/sample.h"
#include "tests/support/test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { PAIRS = 5 }; /* what is drawn again and again takes ten times as long */
#else
enum { PAIRS = 40 };
#endif

/* ---- comparing two results ---- */

static char *text;                   /* of the last comparison */
static struct result *now, *earlier; /* owned */
static bool allows_different;

static void drop(struct result *result)
{
    if (result != NULL)
        result_clear(result);
    free(result);
}

/* In the place of those before. */
static void take(struct result *taken_now, struct result *taken_earlier)
{
    drop(now);
    drop(earlier);
    now = taken_now;
    earlier = taken_earlier;
}

static bool clear(void)
{
    take(NULL, NULL);
    free(text);
    text = NULL;
    allows_different = false;
    return true;
}

static enum report_verdict judge_reports(const struct report *mine, const struct report *theirs)
{
    size_t bytes = 0;
    free(text);
    text = NULL;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    enum report_verdict verdict = report_compare(mine, theirs, allows_different, out);
    assert_int_equal(fclose(out), 0);
    return verdict;
}

static bool compare_reports(const struct report *mine, const struct report *theirs)
{
    return judge_reports(mine, theirs) == REPORT_NOT_WORSE;
}

static enum report_verdict judge(struct result *one, struct result *other)
{
    const struct report mine = {.results = {one}, .result_count = 1};
    const struct report theirs = {.results = {other}, .result_count = 1};
    return judge_reports(&mine, &theirs);
}

static bool compare(struct result *one, struct result *other)
{
    return judge(one, other) == REPORT_NOT_WORSE;
}

/* Does the line about this figure end so? */
static void assert_verdict(const char *figure, const char *verdict)
{
    const char *line = strstr(text, figure);
    if (line == NULL)
        fail_msg("no line about %s in:\n%s", figure, text);
    size_t bytes = strcspn(line, "\n"), verdict_bytes = strlen(verdict);
    if (bytes < verdict_bytes || memcmp(line + bytes - verdict_bytes, verdict, verdict_bytes) != 0)
        fail_msg("not \"%s\": \"%.*s\"", verdict, (int)bytes, line);
}

static struct result *bare(void)
{
    struct result *result = calloc(1, sizeof *result);
    assert_non_null(result);
    snprintf(result->name, sizeof result->name, "fleet");
    result->requests = 1000;
    result->outcomes[RECORD_ANSWERED] = 1000;
    return result;
}

static struct result *with_loads(uint64_t loads, uint64_t expiries)
{
    struct result *result = bare();
    result->has_loads = true;
    result->loads = loads;
    result->expiries = expiries;
    result->loads_per_expiry = (double)loads / (double)expiries;
    return result;
}

/* ---- counts ---- */

TEST(one_load_too_many_is_worse_where_there_was_none)
{
    static const struct {
        uint64_t now, earlier;
        const char *verdict;
        bool is_as_good;
    } cases[] = {
        {100, 100, "same", true},     {101, 100, "WORSE", false},  {100, 101, "better", true},
        {1000, 1004, "noise", true},  {1004, 1000, "noise", true}, {1500, 1000, "WORSE", false},
        {1000, 1500, "better", true}, {125, 110, "noise", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        take(with_loads(cases[i].now, 100), with_loads(cases[i].earlier, 100));
        assert_int_equal(compare(now, earlier), cases[i].is_as_good);
        assert_verdict("loads per expiry", cases[i].verdict);
    }
}

/* The mean of 5 000 expiries does not show it. */
TEST(a_stampede_of_one_expiry_is_worse)
{
    static const struct {
        uint64_t now, earlier;
        const char *verdict;
    } cases[] = {{1, 1, "same"}, {2, 1, "WORSE"}, {1, 12, "better"}, {12, 13, "noise"}, {300, 20, "WORSE"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        take(with_loads(5012, 5000), with_loads(5012, 5000));
        now->most_per_expiry = cases[i].now;
        earlier->most_per_expiry = cases[i].earlier;
        assert_int_equal(compare(now, earlier), strcmp(cases[i].verdict, "WORSE") != 0);
        assert_verdict("most loads per expiry", cases[i].verdict);
    }
}

TEST(loads_are_compared_per_expiry_however_long_the_runs_were)
{
    take(with_loads(300, 300), with_loads(100, 100));
    assert_true(compare(now, earlier));
    assert_verdict("loads per expiry", "same");
}

TEST(what_was_known_of_loads_and_is_not_any_more_is_worse, P106)
{
    take(with_loads(0, 1), with_loads(100, 100));
    now->expiries = 0; /* no load was seen, or its key is not known */
    assert_false(compare(now, earlier));
    assert_verdict("loads per expiry", "WORSE");
    now->has_loads = false; /* nobody could count */
    assert_false(compare(now, earlier));
    now->is_partial = true; /* it may have come to that later */
    assert_true(compare(now, earlier));
    assert_verdict("loads per expiry", "not judged");
    assert_true(compare(earlier, now));
}

TEST(the_first_failure_is_worse)
{
    take(bare(), bare());
    now->outcomes[RECORD_LEFT] = 500; /* as told */
    assert_true(compare(now, earlier));
    assert_verdict("failed requests", "same");
    now->statuses[503] = 1;
    assert_false(compare(now, earlier));
    assert_verdict("failed requests", "WORSE");
    earlier->outcomes[RECORD_RESET] = 2;
    assert_true(compare(now, earlier));
    assert_verdict("failed requests", "noise");
    now->statuses[503] = 40;
    assert_false(compare(now, earlier));
}

TEST(a_stale_answer_is_worse_and_so_is_not_to_know_of_any, P106)
{
    take(bare(), bare());
    assert_true(compare(now, earlier));
    assert_null(strstr(text, "stale"));
    now->has_writes = earlier->has_writes = true;
    now->stale_answers = 1;
    assert_false(compare(now, earlier));
    assert_verdict("stale answers", "WORSE");
    now->has_writes = false; /* no answer has a version any more */
    now->stale_answers = 0;
    assert_false(compare(now, earlier));
    assert_verdict("stale answers", "WORSE");
}

TEST(a_check_that_no_longer_holds_is_worse)
{
    take(bare(), bare());
    now->check_count = 3;
    earlier->check_count = 2;
    for (size_t i = 0; i < 3; i++) {
        snprintf(now->checks[i].text, RESULT_TEXT_BYTES, "check %zu", i);
        snprintf(earlier->checks[i].text, RESULT_TEXT_BYTES, "check %zu", i);
    }
    earlier->checks[0].held = now->checks[1].held = true;
    assert_false(compare(now, earlier));
    assert_verdict("check 0", "WORSE: held before");
    assert_verdict("check 1", "holds again");
    assert_null(strstr(text, "check 2"));
    assert_non_null(strstr(text, "verdict: WORSE (1 worse, 1 better)"));
}

/* ---- latency ---- */

static struct result *rounds(uint32_t count, double slowness, uint64_t seed)
{
    struct sample sample = {.name = "fleet",
                            .guard = SAMPLE_FLEET,
                            .seed = seed,
                            .round_count = count,
                            .connection_count = 1000,
                            .ttl_ms = 1000,
                            .slowness = slowness};
    return sample_result(&sample);
}

static void judge_rounds(uint32_t count, double slowness, const char *verdict)
{
    take(rounds(count, slowness, 11), rounds(count, 1, 12));
    bool is_as_good = compare(now, earlier);
    assert_verdict("latency p50", verdict);
    assert_verdict("latency p99, ms", verdict);
    assert_int_equal(is_as_good, strcmp(verdict, "WORSE") != 0);
}

TEST(a_latency_beyond_the_noise_of_many_rounds_is_a_change)
{
    judge_rounds(10, 1.5, "WORSE");
    judge_rounds(10, 1 / 1.5, "better");
    judge_rounds(10, 1.1, "noise"); /* their intervals are narrower than that; two runs differ by more */
}

TEST(of_few_rounds_only_a_factor_of_two_is_a_change)
{
    judge_rounds(1, 1.5, "noise");
    assert_non_null(strstr(text, "Fewer than 8 rounds"));
    judge_rounds(1, 2.5, "WORSE");
    judge_rounds(7, 1.5, "noise");
    judge_rounds(8, 1.5, "WORSE");
}

static struct result *rate(double slowness, uint64_t seed)
{
    struct sample sample = {.name = "fleet",
                            .guard = SAMPLE_LOCAL,
                            .seed = seed,
                            .per_second = 1000,
                            .duration_ms = 6000,
                            .ttl_ms = 900,
                            .slowness = slowness};
    return sample_result(&sample);
}

TEST(two_runs_of_the_same_are_not_called_different)
{
    size_t changes = 0;
    for (uint64_t i = 0; i < PAIRS; i++) {
        take(rate(1, 2 * i + 1), rate(1, 2 * i + 2));
        for (size_t j = 0; j < 2; j++) /* what races for loads is another matter */
            (j == 0 ? now : earlier)->has_loads = false;
        changes += !compare(now, earlier) || strstr(text, "better (") != NULL;
    }
    assert_int_equal(changes, 0);
}

TEST(a_run_half_as_fast_is_always_found)
{
    size_t found = 0;
    for (uint64_t i = 0; i < PAIRS; i++) {
        take(rate(2, 2 * i + 1), rate(1, 2 * i + 2));
        found += !compare(now, earlier);
        assert_verdict("latency p99, ms", "WORSE");
    }
    assert_int_equal(found, PAIRS);
}

/* One pause of the machine within a run happens to anybody. */
TEST(one_bad_moment_is_noise)
{
    take(rate(1, 1), rate(1, 2));
    uint32_t worst = rank_bucket(3000000);
    for (size_t i = 0; i < RESULT_BUCKETS; i++) {
        now->blocks[3][worst] += i == worst ? 0 : now->blocks[3][i];
        now->blocks[3][i] = i == worst ? now->blocks[3][i] : 0;
    }
    now->all.p99_us = 3000000;
    assert_true(compare(now, earlier));
    assert_verdict("latency p99, ms", "noise");
    for (size_t block = 0; block < now->block_count; block += 2)
        memcpy(now->blocks[block], now->blocks[3], sizeof now->blocks[3]);
    assert_false(compare(now, earlier));
    assert_verdict("latency p99, ms", "WORSE");
}

TEST(less_than_half_a_millisecond_is_no_change)
{
    take(rate(1.9, 1), rate(1, 2));
    assert_false(compare(now, earlier));
    assert_verdict("latency p50", "noise"); /* 0.4 ms and 0.8 ms */
}

TEST(a_percentile_with_few_answers_above_it_is_not_judged)
{
    take(rate(1, 1), rate(1, 2));
    compare(now, earlier);
    assert_verdict("latency p99.9", "not judged"); /* 6 of 6 000 */
    assert_verdict("latency max", "x 1.00");
    take(rounds(10, 1, 1), rounds(10, 1, 2));
    compare(now, earlier);
    assert_verdict("latency p99.9", "noise");
}

TEST(times_are_not_judged_when_something_else_explains_them)
{
    take(rounds(10, 3, 1), rounds(10, 1, 2));
    now->is_partial = true;
    assert_true(compare(now, earlier));
    assert_verdict("latency p99, ms", "not judged");
    assert_non_null(strstr(text, "interrupted"));
    now->is_partial = false;
    earlier->strain.is_bottleneck = true;
    assert_true(compare(now, earlier));
    assert_non_null(strstr(text, "The generator was the bottleneck"));
}

static void set(struct result *result, const char *name, const char *value)
{
    struct result_setting *setting = &result->settings[result->setting_count++];
    snprintf(setting->name, sizeof setting->name, "%s", name);
    snprintf(setting->value, sizeof setting->value, "%s", value);
}

TEST(runs_of_other_settings_are_not_comparable_unless_that_is_allowed)
{
    take(with_loads(175, 100), with_loads(30000, 100));
    set(now, "requests", "100 a second for 5 s");
    set(earlier, "requests", "100 a second for 6 s");
    set(now, "asked for", "GET /");
    set(earlier, "asked for", "GET /");
    set(now, "loads", "none");
    set(earlier, "loads", "the log: FROM items");
    assert_int_equal(judge(now, earlier), REPORT_NOT_COMPARABLE);
    assert_non_null(strstr(text, "  requests: 100 a second for 6 s -> 100 a second for 5 s\n"
                                 "  loads: the log: FROM items -> none\n"));
    assert_non_null(
        strstr(text, "verdict: not comparable: these runs had other settings; --allow-different"));
    assert_null(strstr(text, "loads per expiry"));
    allows_different = true;
    assert_int_equal(judge(now, earlier), REPORT_NOT_WORSE);
    assert_non_null(strstr(text, "  requests: 100 a second for 6 s -> 100 a second for 5 s\n"));
    assert_verdict("loads per expiry", "better");
    assert_int_equal(judge(earlier, now), REPORT_WORSE);
}

TEST(throughput_is_judged_when_the_same_was_offered)
{
    take(bare(), bare());
    now->offered_per_s = earlier->offered_per_s = 2000;
    now->answered_per_s = 1500;
    earlier->answered_per_s = 2000;
    assert_false(compare(now, earlier));
    assert_verdict("answered per second", "WORSE");
    now->answered_per_s = 1900;
    assert_true(compare(now, earlier));
    assert_verdict("answered per second", "noise");
    now->offered_per_s = 1000;
    now->answered_per_s = 1000;
    assert_true(compare(now, earlier));
    assert_verdict("answered per second", "not judged");
}

/* ---- noise ---- */

TEST(buckets_cover_every_latency_within_two_percent)
{
    uint32_t last = 0;
    for (uint64_t us = 0; us <= UINT32_MAX; us += us / 200 + 1) {
        uint32_t bucket = rank_bucket((uint32_t)us);
        double middle_us = rank_bucket_us(bucket), error_us = middle_us - (double)us;
        assert_true(bucket >= last && bucket < RESULT_BUCKETS);
        assert_true((error_us < 0 ? -error_us : error_us) <= 0.02 * (double)us);
        last = bucket;
    }
    assert_int_equal(rank_bucket(UINT32_MAX), RESULT_BUCKETS - 1);
}

TEST(the_interval_is_the_same_each_time_and_holds_the_ratio)
{
    take(rate(1.3, 1), rate(1, 2));
    struct noise_interval first, second;
    assert_true(noise_of_percentile(now, earlier, 9900, &first));
    assert_true(noise_of_percentile(now, earlier, 9900, &second));
    assert_true(first.low >= second.low && first.low <= second.low && first.high <= second.high);
    double ratio = (double)now->all.p99_us / (double)earlier->all.p99_us;
    assert_true(first.low < ratio && ratio < first.high);
    assert_true(first.low > 1 && first.high < 2);
    now->block_count = NOISE_BLOCKS_LEAST - 1;
    assert_false(noise_of_percentile(now, earlier, 9900, &first));
}

/* ---- reports ---- */

TEST(results_are_matched_by_name)
{
    struct report after, before;
    sample_burst_report(&after);
    sample_burst_report(&before);
    struct result *first = before.results[0];
    before.results[0] = before.results[2];
    before.results[2] = first;
    snprintf(before.results[1]->name, RESULT_TEXT_BYTES, "renamed\033");
    assert_true(compare_reports(&after, &before));
    assert_non_null(strstr(text, "only now: local: not compared"));
    assert_non_null(strstr(text, "only earlier: renamed?: not compared"));
    assert_non_null(strstr(text, "verdict: no change (0 worse, 0 better)"));
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        assert_in_range(end - line, 0, 100);
    report_clear(&after);
    report_clear(&before);
}

TEST(a_comparison_of_nothing_is_no_success)
{
    struct report burst, none = {.result_count = 0};
    sample_burst_report(&burst);
    assert_false(compare_reports(&burst, &none));
    assert_non_null(strstr(text, "verdict: not comparable: nothing that both have could be judged"));
    report_clear(&burst);
}

TEST(what_cannot_be_judged_is_not_called_unchanged)
{
    take(calloc(1, sizeof *now), calloc(1, sizeof *earlier));
    assert_non_null(now);
    assert_non_null(earlier);
    assert_int_equal(judge(now, earlier), REPORT_NOT_COMPARABLE);
    assert_null(strstr(text, "no change"));
}

TEST_GROUP(.after = clear);
