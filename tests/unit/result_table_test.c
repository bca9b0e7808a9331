/* SPDX-License-Identifier: MIT */
/* result_table_test.c - the terminal's table: what stands in it, what does not, and how wide it is. */
#include "load/report/result.h"
#include "load/report/result_text.h"
#include "tests/support/sample.h"
#include "tests/support/test.h"

enum { PAGE_COLUMNS = 100 };

static struct report report;
static char *table; /* of the report, when show() was called last */

static void show_on(bool is_terminal)
{
    size_t bytes = 0;
    free(table);
    FILE *out = open_memstream(&table, &bytes);
    assert_non_null(out);
    report_table(&report, out, is_terminal);
    assert_int_equal(fclose(out), 0);
}

static void show(void)
{
    show_on(false);
}

/* The line that begins so, without its indentation; lent until the next call. "" if there is none. */
static const char *line_of(const char *begin)
{
    static char line[512];
    line[0] = '\0';
    for (const char *at = table; at != NULL && *at != '\0';
         at = strchr(at, '\n') != NULL ? strchr(at, '\n') + 1 : NULL) {
        const char *text = at + strspn(at, " ");
        if (strncmp(text, begin, strlen(begin)) == 0) {
            snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
            break;
        }
    }
    return line;
}

static void assert_row(const char *label, const char *const *cells, size_t count)
{
    const char *at = line_of(label);
    if (at[0] == '\0')
        fail_msg("no row \"%s\" in:\n%s", label, table);
    at += strlen(label);
    for (size_t i = 0; i < count; i++) {
        at += strspn(at, " ");
        if (strncmp(at, cells[i], strlen(cells[i])) != 0 ||
            (at[strlen(cells[i])] != ' ' && at[strlen(cells[i])] != '\0'))
            fail_msg("row \"%s\": \"%s\" where \"%s\" should be", label, at, cells[i]);
        at += strlen(cells[i]);
    }
    assert_string_equal(at, "");
}

#define ROW(label, ...)                                                                                      \
    assert_row(label, (const char *const[]){__VA_ARGS__},                                                    \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void assert_narrow(void)
{
    char *copy = strdup(table), *rest = copy;
    assert_non_null(copy);
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (text_columns_of(line, strlen(line)) > PAGE_COLUMNS ||
            (line[0] != '\0' && line[strlen(line) - 1] == ' '))
            fail_msg("too wide, or ends with a space: \"%s\"", line);
    }
    free(copy);
}

static void clear(void)
{
    report_clear(&report);
    free(table);
    table = NULL;
}

TEST(several_results_stand_side_by_side)
{
    sample_burst_report(&report);
    show();
    ROW("loads per expiry  ", "1000.00", "2.00", "1.00");
    ROW("queries", "1000", "2", "1");
    ROW("at the same time, most", "97", "2", "1");
    ROW("answered 200", "1000", "1000", "1000");
    ROW("collapsed", "0", "998", "999");
    ROW("Redis commands", "5786", "5786", "5786");
    ROW("evalsha", "2104", "2104", "2104");
    ROW("off ", "local", "fleet");
    assert_non_null(strstr(table, "held      fleet: loads per expiry <= 1: 1.00\n"));
    assert_non_null(strstr(table, "\ngenerator: The generator kept up"));
    assert_null(strchr(table, '\033'));
    assert_narrow();
}

TEST(all_figures_of_a_latency_are_rows)
{
    report = (struct report){.title = "all"};
    struct sample sample = {.name = "all", .seed = 3, .per_second = 1000, .duration_ms = 2000, .ttl_ms = 500};
    struct result *result = sample_result(&sample);
    static const char *const labels[] = {"min", "mean", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"};
    char cell[TEXT_NUMBER_BYTES];
    report_add(&report, result);
    show();
    const char *at = strstr(table, "\nlatency, ms\n");
    assert_non_null(at);
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        at = strchr(at + 1, '\n');
        if (strncmp(at + 3, labels[i], strlen(labels[i])) != 0)
            fail_msg("%s is not the row in: %.300s", labels[i], at);
    }
    ROW("min", text_ms(cell, result->all.min_us));
    ROW("p75", text_ms(cell, result->all.p75_us));
    ROW("mean", text_ms(cell, (uint64_t)(result->all.mean_us + 0.5)));
    ROW("received, MB", "2.80");
    ROW("received per second, MB", text_mb(cell, result->received_per_s));
    assert_non_null(strstr(table, "\ntime to the first byte, ms\n"));
    assert_non_null(strstr(table, "\ntime to connect, ms\n"));
}

TEST(the_headline_says_how_often_the_database_was_asked_and_what_changes_that)
{
    report = (struct report){.title = "one"};
    struct sample sample = {.name = "one", .seed = 3, .per_second = 1000, .duration_ms = 2000, .ttl_ms = 500};
    struct result *result = sample_result(&sample);
    report_add(&report, result);
    result->loads = 294;
    result->expiries = 10;
    result->loads_per_expiry = 29.4;
    result->most_per_expiry = 40;
    result->worst_count = 1;
    result->worst[0] = (struct result_hot){.key = "7", .loads = 40, .at_ms = 1230};
    show();
    assert_non_null(strstr(
        table, "\n2000 requests: the database was asked 294 times for 10 expiries: up to 40 times for one "
               "(key 7),\n29.40 on average, where 1 is enough. 99 % of the answers took at most "));
    assert_non_null(strstr(table, "\nmost loads of one expiry: 40 of key 7 at 1.23 s\n"));
    ROW("most loads per expiry", "40");
    assert_null(strstr(table, "! "));
    assert_non_null(strstr(table, "\ngenerator: "));
    result->loads = 10;
    snprintf(result->ttl_doubt, sizeof result->ttl_doubt, "a value lives 5 s, and 1.0 s");
    show();
    assert_non_null(strstr(table, "asked 10 times for 10 expiries, which is as few as can be."));
    assert_non_null(strstr(table, "\n! Loads per expiry: a value lives 5 s, and 1.0 s\n"));
    result->loads = 294;
    result->ttl_doubt[0] = '\0';
    result->misses_loads = result->strain.is_bottleneck = true;
    result->expiries = 0;
    snprintf(result->caveat, sizeof result->caveat, "the log continues elsewhere");
    show();
    assert_non_null(strstr(table, "asked at least 294 times. 99 %"));
    assert_non_null(
        strstr(table, "\n! Queries: the log continues elsewhere\n! The generator was the bottleneck"));
    ROW("queries", "at least 294");
    assert_null(strstr(table, "\ngenerator: ")); /* it is said above */
    assert_null(strstr(table, "\ncounting: "));
    result->statuses[404] = result->statuses[200];
    result->statuses[200] = 0;
    show();
    assert_non_null(strstr(
        table, "\n! Nothing was served: 0 answers are redirects, 2000 are 4xx, and none is a 2xx or 304\n"));
    result->has_recovery = true;
    show();
    assert_non_null(strstr(table, " After the fault p99 never was what it"));
    result->has_recovered = true;
    result->recovery_ms = 1250;
    show();
    assert_non_null(strstr(table, " 1.25 s after the fault p99 was"));
    result->check_count = 1;
    snprintf(result->checks[0].text, sizeof result->checks[0].text, "status 404 = 100%%");
    result->checks[0].held = true;
    show();
    assert_null(strstr(table, "Nothing was served"));
}

TEST(what_went_wrong_is_shown_once_of_each_kind)
{
    sample_rate_report(&report);
    assert_int_equal(report.results[0]->sample_count, 3);
    show();
    assert_non_null(strstr(table, "\nfirst off: 503 at "));
    assert_non_null(strstr(table, "{\"error\": \"the cache is away\"}"));
    size_t shown = 0;
    for (const char *at = table; (at = strstr(at, "\nfirst ")) != NULL; at++)
        shown++;
    assert_int_equal(shown, 3);
    assert_narrow();
}

TEST(a_percentile_that_too_few_answers_support_is_a_dash)
{
    report = (struct report){.title = "few"};
    struct sample sample = {
        .name = "few", .seed = 1, .round_count = 1, .connection_count = 100, .ttl_ms = 1000};
    report_add(&report, sample_result(&sample));
    sample.name = "many";
    sample.round_count = 10;
    report_add(&report, sample_result(&sample));
    show();
    const char *row = line_of("p99.9");
    assert_string_not_equal(row, "");
    assert_non_null(strstr(row, " - ")); /* of 100: it would be the maximum; of 1 000 it is something */
    assert_string_equal(line_of("p99.99"), "");
    assert_null(strstr(line_of("p99 "), "-"));
}

TEST(rows_that_nobody_has_are_left_out)
{
    report = (struct report){.title = "bare"};
    struct result *result = calloc(1, sizeof *result);
    assert_non_null(result);
    snprintf(result->name, sizeof result->name, "bare");
    result->requests = 3;
    result->outcomes[RECORD_REFUSED] = 3;
    report_add(&report, result);
    show();
    assert_string_equal(table, "bare\n\n3 requests. 3 of 3 requests failed.\n\n"
                               "                                              bare\n"
                               "requests                                         3\n"
                               "  refused                                        3\n"
                               "seconds until the last answer                 0.00\n\n");
}

TEST(what_one_result_has_and_another_has_not_is_a_dash)
{
    report = (struct report){.title = "mixed"};
    for (size_t i = 0; i < 2; i++) {
        struct result *result = calloc(1, sizeof *result);
        assert_non_null(result);
        snprintf(result->name, sizeof result->name, "r%zu", i);
        report_add(&report, result);
    }
    report.results[0]->has_writes = true;
    report.results[1]->is_partial = true;
    report.results[1]->has_loads = true;
    show();
    ROW("stale answers after a write", "0", "-");
    ROW("interrupted", "-", "yes");
    ROW("queries", "-", "0");
    assert_string_equal(line_of("loads per expiry"), "");
}

TEST(sixteen_results_with_long_names_stay_within_the_page)
{
    report = (struct report){.title = "wide"};
    memset(report.about, 'a', sizeof report.about - 1); /* a word without an end */
    for (size_t i = 0; i < REPORT_RESULTS_MAX; i++) {
        struct sample sample = {.seed = i, .per_second = 100, .duration_ms = 1000, .ttl_ms = 100};
        char name[RESULT_TEXT_BYTES];
        snprintf(name, sizeof name,
                 "%zu \xe7\xbc\x93\xe5\xad\x98\xe9\x9b\xaa\xe5\xb4\xa9 and a very long name of a variant", i);
        sample.name = name;
        report_add(&report, sample_result(&sample));
        memset(report.results[i]->checks[0].text, 'c', RESULT_TEXT_BYTES);
        memset(report.results[i]->checks[0].measured, 'm', RESULT_TEXT_BYTES);
        report.results[i]->check_count = 1;
        snprintf(report.results[i]->strain.verdict, 32, "verdict %zu", i);
    }
    show();
    assert_narrow();
    assert_non_null(strstr(table, "…"));
    assert_non_null(strstr(table, "verdict 15"));
}

TEST(foreign_text_cannot_command_the_terminal)
{
    report = (struct report){.title = "\033[2Jtitle\r\n",
                             .about = "\xc2\x9b"
                                      "31m about \xe2\x80\xae"};
    struct sample sample = {.name = "\033]0;name\a", .seed = 1, .round_count = 1, .connection_count = 10};
    report_add(&report, sample_result(&sample));
    struct result *result = report.results[0];
    snprintf(result->checks[0].text, RESULT_TEXT_BYTES, "\033[31mcheck");
    result->check_count = 1;
    snprintf(result->caveat, sizeof result->caveat, "\033caveat");
    snprintf(result->commands[0].name, sizeof result->commands[0].name, "\033get");
    show();
    for (const char *at = table; *at != '\0'; at++)
        assert_true((unsigned char)*at >= ' ' || *at == '\n');
    assert_null(strstr(table, "\xc2\x9b"));
    assert_null(strstr(table, "\xe2\x80\xae"));
}

TEST(a_terminal_gets_colours)
{
    sample_rate_report(&report);
    show_on(true);
    assert_non_null(strstr(table, "\033[31mNOT HELD  \033[0mfleet: loads per expiry <= 1"));
    assert_non_null(strstr(table, "\033[32mheld      \033[0m"));
}

TEST(a_report_without_results_is_its_title)
{
    report = (struct report){.title = "nothing yet"};
    show();
    assert_string_equal(table, "nothing yet\n\n");
}

/* ---- texts and numbers ---- */

TEST(text_is_cut_between_characters)
{
    char out[8];
    text_clean(out, sizeof out, "abcdef\xc3\xa4z", SIZE_MAX, false);
    assert_string_equal(out, "abcdef");
    text_clean(out, sizeof out, "a\nb\tc", 4, true);
    assert_string_equal(out, "a\nb ");
    text_clean(out, sizeof out, "\xc0\xaf\xed\xa0\x80", SIZE_MAX, false); /* overlong, and half of a pair */
    assert_string_equal(out, "???");
    text_clean(out, sizeof out, "\xe0\x80\xaf", SIZE_MAX, false);
    assert_string_equal(out, "???");
    assert_int_equal(text_columns_of("a\xe7\xa9\xbf", 4), 3);
    assert_int_equal(text_fit("a\xe7\xa9\xbfz", 2), 1);
    assert_int_equal(text_fit("a\xe7\xa9\xbfz", 3), 4);
}

TEST(numbers_are_grouped_and_rounded)
{
    char text[TEXT_NUMBER_BYTES];
    assert_string_equal(text_count(text, 0), "0");
    assert_string_equal(text_count(text, 1000), "1000");
    assert_string_equal(text_count(text, 12345), "12 345");
    assert_string_equal(text_count(text, UINT64_MAX), "18 446 744 073 709 551 615");
    assert_string_equal(text_ms(text, 270), "0.27");
    assert_string_equal(text_ms(text, 10000), "10.0");
    assert_string_equal(text_ms(text, 109832), "110");
    assert_string_equal(text_ms(text, 12345678), "12 346");
    assert_string_equal(text_decimal(text, 0.0 / 0.0, 2) + (text[0] == '-'), "nan");
}

TEST_GROUP(.end = clear);
