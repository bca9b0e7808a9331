/* SPDX-License-Identifier: MIT */
/*
 * view_test.c - the live view in a real browser: what it shows of a process under load and under faults, to whom, and
 * how.
 */
#include "load/base/clock.h"
#include "tests/support/browser.h"
#include "tests/support/files.h"
#include "tests/support/probe.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 512, CROWD = 200 };

#define TOKEN "the-token-of-the-test"
#define LIVE "document.querySelector('#link').textContent === 'Live'"

#define LONG "FRESH_MS=3600000"
static const char *const settings[] = {LONG, NULL};
static struct browser *browser;
static struct pg_conn *gate;
static char token_path[] = "/tmp/view_test.XXXXXX";

static bool up(void)
{
    file_make(token_path, TOKEN);
    return fleet_up() && browser_open(&browser);
}

static bool down(void)
{
    browser_close(&browser);
    return unlink(token_path) == 0 && fleet_down();
}

/* Five lines a second, so that a test takes less time. */
static bool look_at(size_t process)
{
    char url[TEXT_BYTES];

    snprintf(url, sizeof url, "http://127.0.0.1:%u/#every_ms=200", fleet.catalogd[process].ops_port);
    return browser_go(browser, "about:blank") && browser_go(browser, url);
}

static bool begin(void)
{
    return fleet_start(1, settings) && browser_resize(browser, 1200, 900) &&
           browser_prefer(browser, false, false) && look_at(0) && browser_wait(browser, LIVE);
}

static bool end(void)
{
    probe_gate_open(&gate);
    assert_true(browser_go(browser, "about:blank"));
    assert_string_equal(browser_complaints(browser), "");
    return fleet_end();
}

__attribute__((format(printf, 1, 2))) static void expect(const char *format, ...)
{
    char expression[2 * TEXT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(expression, sizeof expression, format, arguments);
    va_end(arguments);
    assert_true(browser_wait(browser, expression));
}

/* ---- what it shows ---- */

/* Who comes after the load would find the value, and have saved no query. */
static void load_for_all(void *ignored)
{
    const uint64_t end_us = clock_after_ms(BROWSER_LIMIT_MS);

    (void)ignored;
    while (fleet_sum("catalogd_connections_parked") < CROWD && clock_us() < end_us)
        clock_pause_ms(5);
    probe_gate_open(&gate);
}

TEST(a_stampede_is_seen_as_answers_that_shared_one_query, P172)
{
    char path[BURST_PATH_BYTES];
    struct burst_summary summary;
    const struct burst_event event = {.run = load_for_all};
    const uint32_t product = fleet_cold_product(path);

    assert_true(probe_gate_shut(&gate));
    assert_true(fleet_burst(path, CROWD, &event, &summary));
    assert_int_equal(summary.statuses[200], CROWD);
    expect("document.querySelector('.tile .note').textContent.includes('%d since the start')", CROWD);
    expect("document.querySelector('.area.flight').getBBox().height > 20"); /* the tall one of that peak */
    expect("document.querySelector('.curve.load').getBBox().height > 20");
    expect("document.querySelector('.rows .key')?.textContent === 'product:%u'", (unsigned)product);
    expect("document.querySelector('.curve.p99').getTotalLength() > 0");
    expect("document.body.innerText.match(/duplicate loads\\s+0/) !== null");
    expect("document.body.innerText.match(/answered 2xx\\s+[\\d.]+ .s, %d in all/) !== null", CROWD);
    expect("document.querySelector('h1').textContent === 'catalogd fleet'");
}

/* The functions of widgets.js, in the page that has them. */
TEST(numbers_mean_what_they_say, P172)
{
    static const char counts[] = "{ count: [0, 5, 0] }, { count: [98, 6, 1] }, [10, 20]";

    expect("percentile(%s, 50) === 10 && percentile(%s, 99) === 20", counts, counts);
    expect("percentile(%s, 100) === Infinity && boundText(Infinity, [10, 2e6]) === '> 2 s'", counts);
    expect("percentile({ count: [1, 2] }, { count: [1, 2] }, [10], 50) === null");
    expect("shareText(0.99999) === '99.99 %%' && shareText(1) === '100 %%' && shareText(0.5) === '50.0 %%'");
    expect("rateText(0) === '0' && rateText(0.25) === '0.3' && rateText(12345) === '12\u00a0345'");
    expect("spanText(999) === '999 ms' && spanText(61000) === '1 min 1 s' && spanText(2e8) === '2 d 7 h'");
}

struct asking {
    char path[BURST_PATH_BYTES], cache_status[TEXT_BYTES];
};

static void *ask(void *context)
{
    struct asking *asking = context;
    struct http_answer answer;

    fleet_ask(0, NULL, asking->path, &answer);
    http_header(&answer, "Cache-Status", asking->cache_status, sizeof asking->cache_status);
    http_answer_clear(&answer);
    return NULL;
}

TEST(a_running_load_is_named_until_it_ends, P172)
{
    struct asking asking;
    char load[64], named[96];
    pthread_t thread;
    const uint32_t product = fleet_cold_product(asking.path);

    assert_true(probe_gate_shut(&gate));
    assert_int_equal(pthread_create(&thread, NULL, ask, &asking), 0);
    expect("document.querySelector('.rows .key')?.textContent === 'product:%u'", (unsigned)product);
    browser_text(browser, "document.querySelector('.rows .note').textContent.match(/[0-9a-f]{16}/)[0]", load,
                 sizeof load);
    expect("parseFloat(document.querySelector('.rows .value').textContent) > 1 &&"
           "document.querySelector('.rows .value').textContent.endsWith(' s')");
    expect("document.querySelector('.tiles').innerText.includes('Waiting\\n1\\n')");
    probe_gate_open(&gate);
    pthread_join(thread, NULL);
    snprintf(named, sizeof named, "load=\"%s\"", load);
    assert_non_null(strstr(asking.cache_status, named));
    expect("document.querySelector('.rows').textContent === 'None at this instant.'");
}

TEST(a_redis_that_is_away_is_shown_until_it_is_back, P172)
{
    expect("document.querySelectorAll('.states .good').length === 4");
    stack_redis_kill(&fleet.redis);
    expect("document.querySelector('.states .bad')?.textContent === '\\u2717 Redis down'");
    expect(LIVE);
    assert_true(stack_redis_restart(&fleet.redis));
    expect("document.querySelectorAll('.states .good').length === 4");
}

/* On the same ports. */
static void start_again(void)
{
    char redis_url[TEXT_BYTES], database_url[TEXT_BYTES];
    const char *const all[] = {LONG, "NAMESPACE=fleet", redis_url, database_url, NULL};

    snprintf(redis_url, sizeof redis_url, "REDIS_URL=%s", fleet.redis.url);
    snprintf(database_url, sizeof database_url, "DATABASE_URL=%s", fleet.postgres.url);
    assert_true(stack_catalogd_restart(&fleet.catalogd[0], all));
}

TEST(a_process_that_stands_still_is_stale_and_one_that_comes_back_is_read_again, P172)
{
    proc_pause(fleet.catalogd[0].pid);
    expect("document.querySelector('#link').textContent.startsWith('Stale: nothing heard for')");
    expect("document.body.classList.contains('stale')");
    proc_resume(fleet.catalogd[0].pid);
    expect(LIVE " && !document.body.classList.contains('stale')");
    proc_kill_tree(&fleet.catalogd[0].pid);
    expect("document.querySelector('#link').textContent.includes('trying again in')");
    assert_string_equal(browser_faults(browser), "");
    start_again();
    expect(LIVE);
    expect("document.querySelector('#about').textContent.includes('pid %ld ')", (long)fleet.catalogd[0].pid);
    expect("document.querySelector('.plot svg').textContent.includes('restarted')");
}

/* ---- to whom ---- */

TEST(whoever_has_no_token_is_asked_for_it_and_it_stays_in_the_tab, P174)
{
    char setting[TEXT_BYTES];

    snprintf(setting, sizeof setting, "OPS_TOKEN_FILE=%s", token_path);
    assert_true(fleet_add((const char *const[]){LONG, setting, NULL}));
    assert_true(look_at(1));
    expect("document.activeElement.id === 'token' && document.querySelector('main').hidden");
    assert_string_equal(browser_faults(browser), "");
    assert_true(browser_type(browser, "not-the-right-token") && browser_press(browser, "Enter", false));
    expect("document.querySelector('#why').textContent.startsWith('That token was refused')");
    assert_true(browser_click(browser, "#token"));
    assert_true(browser_type(browser, TOKEN) && browser_press(browser, "Enter", false));
    expect(LIVE " && document.querySelector('#ask').hidden");
    expect("!location.href.includes('token') && document.cookie === '' && localStorage.length === 0");
    expect("!document.documentElement.outerHTML.includes('" TOKEN "')");
}

/* What the browser says it kept from a page, so far. */
static unsigned counts_blocked(unsigned *blocked)
{
    for (const char *at = browser_complaints(browser); (at = strstr(at, "blocked by CORS")) != NULL; at++)
        ++*blocked;
    return *blocked;
}

/* Its origin is the other listener of the same process: another port of the same host. */
TEST(another_page_in_the_browser_reads_nothing_and_presses_nothing, P174)
{
    char url[TEXT_BYTES], path[BURST_PATH_BYTES];
    const unsigned ops_port = fleet.catalogd[0].ops_port;
    unsigned blocked = 0;
    const uint32_t product = fleet_cold_product(path);

    assert_int_equal(fleet_ask_status(0, path), 200);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/ping", fleet.catalogd[0].port);
    assert_true(browser_go(browser, url));
    expect("fetch('http://127.0.0.1:%u/live').then(() => false, () => true)", ops_port);
    expect("fetch('http://127.0.0.1:%u/hot').then(() => false, () => true)", ops_port);
    expect("fetch('http://127.0.0.1:%u/clear?namespace=fleet', { method: 'POST', mode: 'no-cors' }).then(() "
           "=> true, () => false)",
           ops_port);
    assert_true(probe_has(product));
    WAIT_UNTIL(browser_wait(browser, "true") && counts_blocked(&blocked) == 2);
}

/* ---- how ---- */

TEST(it_fits_a_phone_and_a_desk_in_the_light_and_in_the_dark, P172)
{
    static const unsigned widths[] = {360, 768, 1200};
    char path[BURST_PATH_BYTES];
    struct burst_summary summary;

    fleet_cold_product(path);
    assert_true(fleet_burst(path, CROWD, NULL, &summary));
    for (size_t i = 0; i < 2 * sizeof widths / sizeof *widths; i++) {
        assert_true(browser_resize(browser, widths[i / 2], 800) && browser_prefer(browser, i % 2 == 1, true));
        assert_true(look_at(0));
        expect(LIVE " && document.querySelector('.area.near') !== null");
        expect("getComputedStyle(document.body).backgroundColor === 'rgb(%s)'",
               i % 2 == 1 ? "18, 21, 26" : "255, 255, 255");
        const char *faults = browser_faults(browser);
        if (*faults != '\0')
            fail_msg("%u px, %s:\n%s", widths[i / 2], i % 2 == 1 ? "dark" : "light", faults);
        expect("getComputedStyle(document.querySelector('#link'), '::before').animationName === 'none'");
    }
}

TEST(the_keyboard_reaches_every_plot_and_reads_its_values, P172)
{
    static const char *const stops[] = {"Answers per second", "Loads per second", "Waiting",
                                        "Time to an answer"};

    assert_true(browser_resize(browser, 1200, 900) && look_at(0));
    expect(LIVE " && document.querySelectorAll('.plot').length === 4");
    expect("document.querySelector('.area.near')?.getBBox().width > 10"); /* several points */
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        assert_true(browser_press(browser, "Tab", false));
        expect("document.activeElement.getAttribute('aria-label').startsWith('%s')", stops[i]);
        expect("getComputedStyle(document.activeElement).outlineStyle === 'solid'");
    }
    assert_true(browser_press(browser, "ArrowLeft", false));
    expect("document.querySelector('.when.chosen').textContent.endsWith('s ago')");
    expect("document.querySelector('.hair') !== null && document.querySelector('.legend[aria-live=polite]') "
           "!== null");
    assert_true(browser_press(browser, "Escape", false));
    expect("document.querySelector('.when.chosen') === null && document.querySelector('.hair') === null");
    assert_true(browser_press(browser, "Tab", true));
    expect("document.activeElement.getAttribute('aria-label').startsWith('%s')", stops[2]);
}

TEST_GROUP(.up = up, .down = down, .before = begin, .after = end);
