/* SPDX-License-Identifier: MIT */
/*
 * page_test.c - pages of reports, looked at in a real browser: chromium without a window.
 *
 * A page is shown on a phone and on a desk, and page_test.js is evaluated in it, which measures what it sees there,
 * acts as a reader would and says what is not as expected. One browser is for all tests.
 */
#include "load/base/proc.h"
#include "load/report/format.h"
#include "load/report/result_text.h"
#include "tests/support/browser.h"
#include "tests/support/files.h"
#include "tests/support/sample.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

static const unsigned widths[] = {375, 1280};
enum { HEIGHT = 2400 };
/* Three over time or of bursts; queries. */
enum { BURST_PLOTS = 3, RATE_PLOTS = 4 };

static char folder[PROC_PATH_BYTES];
static char why[RESULT_WHY_BYTES];

/* Four at a time; lent. */
static const char *path_of(const char *name)
{
    static char paths[4][PROC_PATH_BYTES + 32];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static struct report report;
static char *page; /* of the report, as it was written last */

static void write_page(void)
{
    free(page);
    if (!page_write(&report, path_of("page.html"), why))
        fail_msg("%s", why);
    page = file_read(path_of("page.html"), NULL);
}

/* ---- the browser ---- */

/* One for all tests. */
static struct browser *browser;

static bool up(void)
{
    return proc_folder("page-test", NULL, folder) && browser_open(&browser);
}

static bool down(void)
{
    browser_close(&browser);
    return true;
}

/* Writes the page. What a test does to it and expects of it, in the words of page_test.js, look() closes. */
static FILE *begin_probe(void)
{
    write_page();
    FILE *probe = fopen(path_of("probe.js"), "we");
    assert_non_null(probe);
    return probe;
}

/* Evaluates it in the page; what was not as expected fails the test. */
static void evaluate(const char *helpers, const char *probing, size_t plots)
{
    char *script = NULL;
    assert_true(asprintf(&script,
                         "(() => {\n%s\nmeasure(%zu);\n%s\nreturn wrong.join('\\n') || 'right'; })()",
                         helpers, plots, probing) > 0);
    json_t *said = browser_value(browser, script);
    free(script);
    if (!json_is_string(said) || strcmp(json_string_value(said), "right") != 0)
        fail_msg("the page does not show what it should: %s",
                 json_is_string(said) ? json_string_value(said) : browser_complaints(browser));
    json_decref(said);
}

/* probe NULL: it is only measured. */
static void look(size_t plots, bool is_dark, FILE *probe)
{
    char url[PROC_PATH_BYTES + 64], *helpers = file_read("tests/live/tester/page_test.js", NULL),
                                    *probing = NULL;
    snprintf(url, sizeof url, "file://%s", path_of("page.html"));
    if (probe != NULL) {
        assert_int_equal(fclose(probe), 0);
        probing = file_read(path_of("probe.js"), NULL);
    }
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        if (!browser_resize(browser, widths[i], HEIGHT) || !browser_prefer(browser, is_dark, false) ||
            !browser_go(browser, url))
            fail_msg("the page was not looked at; is chromium there? sh load/deps.sh page-test");
        assert_string_equal(browser_complaints(browser), "");
        assert_string_equal(browser_faults(browser), "");
        evaluate(helpers, probing != NULL ? probing : "", plots);
        const char *complaints = browser_complaints(browser); /* of what is smuggled, that it is forbidden */
        assert_true(*complaints == '\0' || strstr(complaints, "Content Security Policy") != NULL);
    }
    free(helpers);
    free(probing);
}

static void clear(void)
{
    report_clear(&report);
    free(page);
    page = NULL;
}

/* ---- tests ---- */

static void expect_colours(FILE *probe, const char *paper, const char *first, const char *second)
{
    fprintf(probe,
            "is('paper', getComputedStyle(d.body).backgroundColor, 'rgb(%s)');\n"
            "is('lines', [0, 1].map(n => getComputedStyle(all(`.line.s${n}`)[0]).stroke), ['rgb(%s)', "
            "'rgb(%s)']);\n",
            paper, first, second);
}

TEST(a_rate_with_faults_fits_a_phone_and_a_desk)
{
    sample_rate_report(&report);
    FILE *probe = begin_probe();
    expect_colours(probe, "255, 255, 255", "213, 94, 0", "0, 114, 178");
    look(RATE_PLOTS, false, probe);
}

TEST(a_burst_in_the_dark_is_drawn_in_colours_for_it)
{
    sample_burst_report(&report);
    FILE *probe = begin_probe();
    expect_colours(probe, "18, 21, 26", "255, 138, 51", "79, 179, 240");
    look(BURST_PLOTS, true, probe);
}

TEST(nothing_is_fetched_from_anywhere)
{
    static const char *const never[] = {"http:", "https:", "<link",       "<img",   "@import", " src=",
                                        "//cdn", "href=",  "javascript:", "onload", "url("};
    sample_rate_report(&report);
    write_page();
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        if (strstr(page, never[i]) != NULL)
            fail_msg("the page has %s", never[i]);
    }
    assert_non_null(strstr(page, "content=\"default-src 'none'; style-src 'sha256-"));
    assert_non_null(strstr(page, "<!DOCTYPE html>\n<html lang=\"en\">"));
    assert_non_null(strstr(page, "</html>"));
}

/* So that a page can be told again, and compared, like the file. */
TEST(a_page_holds_the_json_that_is_written)
{
    sample_rate_report(&report);
    snprintf(report.about, sizeof report.about, "</script><!--<script> & \"\\\xc3\xa9");
    write_page();
    char *at = strstr(page, "id=\"report\">");
    assert_non_null(at);
    at += strlen("id=\"report\">");
    json_t *inside = json_loadb(at, (size_t)(strstr(at, "</script>") - at), 0, NULL);
    assert_true(report_write(&report, path_of("report.json"), why));
    json_t *written = json_load_file(path_of("report.json"), 0, NULL);
    assert_non_null(written);
    assert_true(json_equal(inside, written));
    json_decref(inside);
    json_decref(written);
}

#define EVIL                                                                                                 \
    "</style></h1><script>alarm=1</script><!--<script><b id=x onclick='alarm=1'>\"&amp; \\u003c\xe2\x80\xae" \
    "\xe2\x80\xa8"
/* As it is shown, in the words of JavaScript. */
#define SHOWN                                                                                                \
    "'\\x3c/style>\\x3c/h1>\\x3cscript>alarm=1\\x3c/script>\\x3c!--\\x3cscript>\\x3cb id=x "                 \
    "onclick=\\'alarm=1\\'>\"&amp; \\\\u003c' + '?'.repeat(2)"

static void spoil(struct result *result)
{
    snprintf(result->name, sizeof result->name, EVIL);
    snprintf(result->what, sizeof result->what, EVIL);
    snprintf(result->caveat, sizeof result->caveat, EVIL);
    snprintf(result->strain.verdict, sizeof result->strain.verdict, EVIL);
    snprintf(result->hot[0].key, sizeof result->hot[0].key, "%.60s", EVIL);
    snprintf(result->commands[0].name, sizeof result->commands[0].name, "<b>\"'&");
    for (size_t i = 0; i < result->check_count; i++) {
        snprintf(result->checks[i].text, RESULT_TEXT_BYTES, EVIL);
        snprintf(result->checks[i].measured, RESULT_TEXT_BYTES, EVIL);
    }
    result_mark(result, RESULT_FAULT, 1, 9, EVIL);
}

TEST(foreign_text_stays_text)
{
    sample_rate_report(&report);
    snprintf(report.title, sizeof report.title, EVIL);
    snprintf(report.about, sizeof report.about, EVIL "\n\n" EVIL);
    snprintf(report.command, sizeof report.command, EVIL);
    snprintf(report.machine, sizeof report.machine, EVIL);
    for (size_t i = 0; i < report.result_count; i++)
        spoil(report.results[i]);
    FILE *probe = begin_probe();
    fputs("const evil = " SHOWN
          ", texts = selector => [...new Set(all(selector).map(one => one.textContent))];\n"
          "is('title', d.title, evil + ' \\u2013 stampede report');\n"
          "for (const place of ['h1', 'header > p:not([class])', '.checks th[scope=row]', 'pre',\n"
          "    '.values .what.name', '.figures thead th:not(:first-child)'])\n"
          "    is(place, texts(place), [evil]);\n"
          "for (const place of ['.events li', '.facts dd'])\n"
          "    is(place, texts(place).some(text => text.endsWith(evil)), true);\n"
          "smuggle();\n",
          probe);
    assert_null(strstr(page, "<script>alarm"));
    assert_null(strstr(page, "<b id"));
    assert_null(strstr(page, "\xe2\x80\xae"));
    assert_null(strstr(page, "\xe2\x80\xa8"));
    look(RATE_PLOTS, false, probe);
}

/* ---- what the plots show ---- */

/* Axes of time count in microseconds here. */
static double instant_of(const struct result *result, size_t slice)
{
    return ((double)slice + 0.5) * result->slice_ms * 1e3;
}

static void expect_timeline(FILE *probe, size_t plot, const struct result *result)
{
    size_t answered = 0, supported = 0, failed = 0, expiries = 0;
    for (size_t i = 0; i < result->slice_count; i++) {
        const struct result_slice *slice = &result->slices[i];
        if (slice->answered > 0 && answered++ % 7 == 0)
            fprintf(probe,
                    "{ const [x, y] = points(%zu, '.line.thick')[%zu];\n"
                    "near('p50 of %zu', scale(up(%zu), true, true).valueAt(y), %u, %g);\n"
                    "near('its instant', time(%zu).valueAt(x), %g, 30000); }\n",
                    plot, answered - 1, i, plot, slice->p50_us, slice->p50_us * 0.1 + 1, plot,
                    instant_of(result, i));
        if (slice->p99_slices > 0 && supported++ % 9 == 0)
            fprintf(probe,
                    "near('p99 of %zu', scale(up(%zu), true, true).valueAt(points(%zu, "
                    "'.line.thin')[%zu][1]), %u, %g);\n",
                    i, plot, plot, supported - 1, slice->p99_us, slice->p99_us * 0.1 + 1);
        failed += slice->failed > 0;
    }
    for (size_t i = 0; i < result->mark_count; i++)
        expiries += result->marks[i].kind == RESULT_EXPIRY;
    assert_in_range(supported, 1, result->slice_count);
    fprintf(probe,
            "is('p50', points(%zu, '.line.thick').length, %zu);\n"
            "is('p99', points(%zu, '.line.thin').length, %zu);\n"
            "is('slowest', points(%zu, '.area').length, %zu);\n"
            "is('failed', (drawn(%zu, '.cross') ? points(%zu, '.cross').length : 0), %zu);\n"
            "is('expiries', drawn(%zu, '.expiry'), %zu);\n"
            "is('events', ['.fault', '.bar', '.instant:not(.short)', '.instant.note.short', "
            "'.number'].map(kind => drawn(%zu, kind)), [1, 1, 2, 1, 3]);\n"
            "is('list', all('.events li', figure(%zu)).map(one => one.textContent), ['4.00 s \\u2013 6.00 "
            "sredis kill', "
            "'7.00 sleader pause', '8.20 sproduct 7 gets a new price']);\n",
            plot, answered, plot, supported, plot, 2 * answered, plot, plot, failed, plot, expiries, plot,
            plot);
}

TEST(every_value_of_a_result_is_drawn_where_it_belongs)
{
    sample_rate_report(&report);
    FILE *probe = begin_probe();
    for (size_t i = 0; i < report.result_count; i++) {
        const struct result *result = report.results[i];
        expect_timeline(probe, i, result);
        fprintf(probe, "is('queries', points(3, '.line.s%zu').length, %zu);\n", i,
                2 * ((result->slice_count * result->slice_ms + 199) / 200));
    }
    look(RATE_PLOTS, false, probe);
}

/* "at", then the legend of a plot of latency. */
static void expect_slice(FILE *probe, const char *after, size_t plot, const struct result *result,
                         size_t index)
{
    const struct result_slice *slice = &result->slices[index];
    char p50[TEXT_NUMBER_BYTES], p99[TEXT_NUMBER_BYTES], most[TEXT_NUMBER_BYTES], wide[32] = "";
    double from = (double)index * result->slice_ms / 1e3, to = from + result->slice_ms / 1e3;
    if (slice->p99_slices > 1)
        snprintf(wide, sizeof wide, " in %g s", slice->p99_slices * result->slice_ms / 1e3);
    fprintf(probe,
            "is('%s', values(%zu), ['%.2f\\u2013%.2f s', '%s ms', '%s ms%s', '%s ms', '%u', '%u', '%u']);\n"
            "near('%s, hair', hair(%zu), %g, 30000);\n",
            after, plot, from, to, text_ms(p50, slice->p50_us), text_ms(p99, slice->p99_us), wide,
            text_ms(most, slice->max_us), slice->answered, slice->failed, slice->loads, after, plot,
            instant_of(result, index));
}

static uint32_t loads_between(const struct result *result, size_t first, size_t count, uint32_t *needed)
{
    uint32_t loads = 0;
    *needed = 0;
    for (size_t i = first; i < first + count && i < result->slice_count; i++) {
        loads += result->slices[i].loads;
        *needed += result->slices[i].needed;
    }
    return loads;
}

/* A legend shows its lines, and what they come to in all, before anybody points. */
static void expect_whole(FILE *probe, size_t plot, const struct result *result)
{
    char p50[TEXT_NUMBER_BYTES], p99[TEXT_NUMBER_BYTES], most[TEXT_NUMBER_BYTES], all[TEXT_NUMBER_BYTES];
    fprintf(probe,
            "is('whole', values(%zu), ['all of it', '%s ms', '%s ms', '%s ms', '%s', '%" PRIu64 "', '%" PRIu64
            "']);\n"
            "for (const one of all('.values .swatch', figure(%zu))) is('a swatch', rect(one).width > 25, "
            "true);\n",
            plot, text_ms(p50, result->all.p50_us), text_ms(p99, result->all.p99_us),
            text_ms(most, result->all.max_us), text_count(all, result->all.count), result_failed(result),
            result->loads, plot);
}

/* By mouse, in all plots of a span at once; by keys; by finger. */
TEST(the_values_at_the_pointer_are_those_of_its_instant)
{
    sample_rate_report(&report);
    FILE *probe = begin_probe();
    const struct result *const *results = (const struct result *const *)report.results;
    for (size_t i = 0; i < 3; i++)
        expect_whole(probe, i, results[i]);
    fputs("is('needed', drawn(3, '.line.query'), 3);\nis('no hair', hair(0), null);\n", probe);
    fprintf(probe, "point(0, %g);\n", instant_of(results[0], 52));
    for (size_t i = 0; i < 3; i++)
        expect_slice(probe, "mouse", i, results[i], 52);
    fputs("is('dots', drawn(0, '.dot'), 3);\npress(1, 'ArrowRight');\n", probe);
    expect_slice(probe, "right", 1, results[1], 53);
    expect_slice(probe, "right of another", 0, results[0], 53);
    fputs("press(1, 'ArrowRight', { shiftKey: true });\npress(1, 'ArrowLeft');\n", probe);
    expect_slice(probe, "left", 2, results[2], 62);
    fputs("press(1, 'Home');\n", probe);
    expect_slice(probe, "home", 1, results[1], 0);
    fputs("fire(0, 'pointerleave', 0);\nis('left alone', values(2)[0], 'all of it');\n", probe);
    fprintf(probe,
            "fire(2, 'pointerdown', time(2).pixelOf(%g), 'touch');\nfire(2, 'pointerleave', 0, 'touch');\n",
            instant_of(results[2], 95));
    expect_slice(probe, "finger", 2, results[2], 95);
    fputs("point(3, 1.3e6);\nis('queries', values(3), ['1.20\\u20131.40 s'", probe);
    uint32_t least = UINT32_MAX, needed_most = 0, needed;
    for (size_t i = 0; i < 3; i++) {
        fprintf(probe, ", '%u'", loads_between(results[i], 24, 4, &needed));
        least = needed < least ? needed : least;
        needed_most = needed > needed_most ? needed : needed_most;
    }
    fprintf(probe, least < needed_most ? ", '%u\\u2013%u'" : ", '%u'", least, needed_most);
    fputs("].map(text => text.replace('1.20\\u20131.40', '1.2\\u20131.4')));\n", probe);
    look(RATE_PLOTS, false, probe);
}

static void expect_burst(FILE *probe, size_t plot, const struct result *result)
{
    const struct result_round *round = &result->rounds[0];
    const struct result_step *middle = &round->answers[round->answer_count / 2];
    assert_int_equal(round->answer_count, RESULT_STEPS_MAX);
    fprintf(probe,
            "is('points', points(%zu, '.line.thick').length, %zu);\n"
            "near('its middle', scale(up(%zu), true, false).valueAt(points(%zu, '.line.thick')[%zu][1]), %u, "
            "8);\n"
            "near('its instant', time(%zu).valueAt(points(%zu, '.line.thick')[%zu][0]), %u, 12000);\n"
            "is('queries', points(%zu, '.line.query').length, %zu);\n"
            "is('each of them', points(%zu, '.load').length, %zu);\n"
            "press(%zu, 'End'); is('all', values(%zu).slice(1), ['%u', '%" PRIu64 "']);\n"
            "press(%zu, 'Home'); is('none', values(%zu)[1], '0');\n",
            plot, round->answer_count + 3, plot, plot, round->answer_count / 2 + 2, middle->count, plot, plot,
            round->answer_count / 2 + 2, middle->us, plot, round->load_count + 3, plot, round->load_count,
            plot, plot, round->due, result->loads, plot, plot);
}

TEST(a_burst_is_drawn_as_answers_and_queries_from_its_instant_on)
{
    sample_burst_report(&report);
    FILE *probe = begin_probe();
    for (size_t i = 0; i < report.result_count; i++)
        expect_burst(probe, i, report.results[i]);
    look(BURST_PLOTS, false, probe);
}

TEST(the_first_screen_says_what_a_reader_came_for)
{
    sample_burst_report(&report);
    report.results[0]->misses_loads = true;
    report.results[0]->strain.is_bottleneck = true;
    snprintf(report.results[0]->caveat, RESULT_CAVEAT_BYTES, "the log continues elsewhere");
    FILE *probe = begin_probe();
    fputs("is('headline', all('.lead')[0].textContent, '1000 requests: off asked the database at least 1000 "
          "times, local 2 times, fleet once.');\n"
          "is('caveats', all('.caveat').map(one => one.textContent.split(':').slice(0, 2).join()), "
          "['off, queries', 'off, the generator was the bottleneck, so the latencies are unreliable']);\n"
          "for (const one of all('.lead, .caveat')) near('on it', rect(one).bottom, 400, 400);\n"
          "is('not twice', all('.facts dd').some(one => one.textContent.includes('elsewhere')), false);\n",
          probe);
    look(BURST_PLOTS, false, probe);
}

TEST(what_went_wrong_is_shown)
{
    sample_rate_report(&report);
    FILE *probe = begin_probe();
    fprintf(probe,
            "is('shown', all('.samples q').length, 9);\n"
            "is('said', all('.samples q')[0].textContent, '{\"error\": \"the cache is away\"}');\n"
            "is('how many', all('dt').filter(one => one.textContent === '503 \u00d7 %" PRIu64
            "').length > 0, true);\n",
            report.results[0]->statuses[503]);
    look(RATE_PLOTS, false, probe);
}

TEST(a_figure_that_is_not_known_is_said_to_be_so)
{
    report = (struct report){.title = "Few"};
    struct sample few = {.name = "few", .seed = 1, .per_second = 30, .duration_ms = 3000, .ttl_ms = 200};
    struct result *result = sample_result(&few);
    report_add(&report, result);
    result->expiries = 0;
    result->loads_per_expiry = 0;
    snprintf(result->caveat, sizeof result->caveat, "nobody knows the keys");
    for (size_t i = 0; i < result->slice_count; i++)
        assert_false(result_supports(result->slices[i].answered, 9900));
    FILE *probe = begin_probe();
    fputs("is('caveat', all('.caveat').map(one => one.textContent), ['Loads per expiry: not known: nobody "
          "knows the keys']);\n"
          "is('rows', all('.figures th').some(one => one.textContent === 'loads per expiry'), false);\n"
          "is('no p99', drawn(0, '.line.thin'), 0);\n"
          "point(0, 1e6);\nis('too few', values(0)[2], 'too few');\n",
          probe);
    look(2, false, probe);
}

TEST_GROUP(.up = up, .down = down, .end = clear);
