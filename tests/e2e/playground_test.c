/* SPDX-License-Identifier: MIT */
/*
 * playground_test.c - `stampede serve`, as somebody sees it who opens its page: in a real browser, over real servers.
 *
 * One playground and one browser for all tests; what a test breaks it waits for to be well again. The last one ends
 * it. LONG=1 presses each button and each key, and any button after any other.
 */
#include "load/base/clock.h"
#include "load/base/dice.h"
#include "load/base/http.h"
#include "load/base/net.h"
#include "load/base/proc.h"
#include "load/stack/stack.h"
#include "tests/support/browser.h"
#include "tests/support/playground.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = PLAYGROUND_LIMIT_MS, FAMILY_MAX = 256, ASK_LIMIT_MS = PLAYGROUND_ASK_LIMIT_MS };

static struct browser *browser;

/* Short queries, so that a crowd without a guard is over soon; the tests that need long ones choose them on the
 * page. */
static bool up(void)
{
    static const char *const settings[] = {"LOAD_DELAY_MS=200", "LEASE_MS=3000", "REDIS_LIMIT_MS=1000", NULL};
    return playground_start(settings) && browser_open(&browser) && browser_go(browser, playground.url);
}

static bool down(void)
{
    browser_close(&browser);
    playground_stop();
    return true;
}

/* ---- what a reader sees and does ---- */

static void expect(const char *expression)
{
    if (!browser_wait(browser, expression))
        fail_msg("does not hold: %s", expression);
}

static void click(const char *selector)
{
    if (!browser_click(browser, selector))
        fail_msg("cannot be clicked: %s", selector);
}

/* A text of the page, spaces that do not break made plain. */
static void expect_text(const char *selector, const char *pattern)
{
    char expression[512];
    snprintf(expression, sizeof expression,
             "/%s/.test(document.querySelector('%s').textContent.replace(/\\u00a0/g, ' '))", pattern,
             selector);
    if (!browser_wait(browser, expression)) {
        snprintf(expression, sizeof expression, "document.querySelector('%s').textContent", selector);
        char seen[512];
        fail_msg("%s is not like %s: %s", selector, pattern,
                 browser_text(browser, expression, seen, sizeof seen));
    }
}

static void choose(const char *selector, const char *value)
{
    char expression[256];
    snprintf(expression, sizeof expression,
             "{ const box = document.querySelector('%s'); box.value = '%s'; box.dispatchEvent(new "
             "Event('change', {bubbles: true})); box.blur(); true }",
             selector, value);
    json_decref(browser_value(browser, expression));
}

#define IS_WELL "document.querySelectorAll('.card.ill').length === 0"
#define IS_IDLE "document.querySelector('[data-crowd=cold]').getAttribute('aria-disabled') === 'false'"

static bool is_calm(void)
{
    return browser_wait(browser, IS_WELL " && " IS_IDLE);
}

/* Each crowd's: "100 requests, 1 query. A: 1 asked the database, 49 waited for it. B: 50 waited for it." */
#define EACH_REQUEST_IS_TOLD                                                                                 \
    "state.story.map(one => one.text.replace(/(\\d)[ \\u00a0](?=\\d)/g, '$1'))"                              \
    ".filter(text => /^\\d+ requests/.test(text))"                                                           \
    ".every(text => [...text.matchAll(/\\. [AB]: ([^.]*)/g)].flatMap(process => process[1].split(', '))"     \
    ".reduce((left, count) => left - parseInt(count), parseInt(text)) === 0)"

TEST(the_first_screen_shows_a_stampede_and_what_the_guard_does_about_it)
{
    expect("document.querySelector('#link').classList.contains('good')");
    expect(
        "[...document.querySelectorAll('.view')].every(link => /^http:..127.0.0.1:\\d+.$/.test(link.href))");
    expect("document.querySelector('#step-off').classList.contains('next')");
    click("#step-off .go");
    expect_text("#step-off .outcome", "^[1-9][ 0-9]{2,4}queriesslowest");
    expect_text("#said", "^1 000 requests, [1-9][ 0-9]{2,4} queries. A: [1-9][0-9]* asked the database.* B: "
                         "[1-9][0-9]* asked");
    expect("document.querySelector('#step-fleet').classList.contains('next')");
    click("#step-fleet .go");
    expect_text("#step-fleet .outcome", "^1queryslowest");
    expect_text("#said",
                "^1 000 requests, 1 query. A: (1 asked the database.* B: |.* B: 1 asked the database)");
    expect(EACH_REQUEST_IS_TOLD);
}

#define WAS_TOLD(text) "state.story.some(one => one.text.startsWith('" text "'))"

/* Who looks for a lease every few milliseconds writes to a connection that has ended. */
TEST(a_redis_that_dies_and_comes_back_ends_nothing)
{
    assert_int_equal(playground_press("{\"do\":\"hit\",\"verb\":\"kill\"}"), 200);
    assert_int_equal(playground_press("{\"do\":\"deed\",\"name\":\"redis-kill\"}"), 200);
    expect(WAS_TOLD("Redis was killed"));
    assert_int_equal(playground_press("{\"do\":\"deed\",\"name\":\"redis-start\"}"), 200);
    expect(WAS_TOLD("Redis is back, and empty"));
    expect(WAS_TOLD("No process was seen to load product 7"));
}

/* A button that goes once another has the focus stands in front of it. */
TEST(a_button_stays_under_the_pointer_until_it_is_released)
{
    click("#postgres [data-deed=break]");
    expect(WAS_TOLD("Every query of products fails"));
    click("#postgres [data-deed=repair]");
    expect(WAS_TOLD("Queries of products work again"));
    expect(
        "(addEventListener('pointerdown', () => { window.pressed_ms = state.at_ms; }, {once: true}), true)");
    assert_true(
        browser_hold(browser, "#postgres [data-deed=pause]", "state.at_ms > window.pressed_ms + 400"));
    expect(WAS_TOLD("PostgreSQL stands still"));
    click("#postgres [data-deed=resume]");
}

TEST(a_process_that_is_killed_while_it_loads_is_told)
{
    test_needs_long();
    choose("#delay", "2000");
    expect_text("#query-time", "2.0 s");
    expect(IS_WELL);
    click("#step-hit .go");
    expect("document.querySelector('.process.ill .health').textContent.startsWith('killed')");
    expect_text(".process.ill .lease", "its lease on product:7 still stands for");
    expect_text("#step-hit .outcome", "^[23]queriesslowest .* 500 did not get the product");
    expect_text("#said", ": 500 lost their connection|is back");
    expect(IS_WELL); /* it is started again by itself */
    choose("#delay", "500");
    expect_text("#query-time", "half a second");
}

/* ---- each button ---- */

/* What stands for an element in a list of them. */
#define NAME_OF                                                                                              \
    "(e => e.id || JSON.stringify(e.dataset) + (e.closest('[data-party]')?.dataset.party ?? '') + "          \
    "e.className)"

/* In an order in which each can be pressed; what is said then; and what /proc has, where a program is named. */
static const struct {
    const char *button, *said, *program;
    size_t running, stopped;
} BUTTONS[] = {
    {"#A [data-deed=pause]", "^Process A was stopped", "catalogd", 1, 1},
    {"#A [data-deed=resume]", "^Process A goes on", "catalogd", 2, 0},
    {"#A [data-deed=kill]", "^Process A was killed", "catalogd", 1, 0},
    {"#A [data-deed=start]", "^Process A is back", "catalogd", 2, 0},
    {"#B [data-deed=pause]", "^Process B was stopped", "catalogd", 1, 1},
    {"#B [data-deed=resume]", "^Process B goes on", "catalogd", 2, 0},
    {"#B [data-deed=kill]", "^Process B was killed", "catalogd", 1, 0},
    {"#B [data-deed=start]", "^Process B is back", "catalogd", 2, 0},
    {"#redis [data-deed=hang]", .said = "^Redis hangs"},
    {"#redis [data-deed=heal]", .said = "^Redis answers again"},
    {"#redis [data-deed=kill]", "^Redis was killed", "redis-server", 0, 0},
    {"#redis [data-deed=start]", "^Redis is back, and empty", "redis-server", 1, 0},
    {"#postgres [data-deed=lock]", .said = "^The lock on the table of products is gone"}, /* by itself */
    {"#postgres [data-deed=break]", .said = "^Every query of products fails"},
    {"#postgres [data-deed=repair]", .said = "^Queries of products work again"},
    {"#postgres [data-deed=pause]", "^PostgreSQL stands still", "postgres", 0, 1},
    {"#postgres [data-deed=resume]", "^PostgreSQL goes on", "postgres", 1, 0},
    {"#postgres [data-deed=kill]", "^PostgreSQL was killed", "postgres", 0, 0},
    {"#postgres [data-deed=start]", "^PostgreSQL is back, with its data", "postgres", 1, 0},
    {"#redis [data-deed=flush]", .said = "^Everything in Redis was deleted"},
    {"[data-crowd=cold]", .said = "^100 requests, [1-9]"},
    {"[data-crowd=warm]", .said = "^100 requests, 0 queries. A: 50 came from the cache. B: 50 came from"},
    {"[data-do=expire]", .said = "^Product 7 has expired"},
    {"[data-do=invalidate]", .said = "^Product 7 was dropped from the cache"},
    {"[data-do=change]", .said = "^The price is "},
    {"[data-do=buy]", .said = "^One was bought from "},
    /* Strikes if the edit is being loaded still. */
    {"[data-hit=kill]", .said = "there was none to kill|^Process [AB] (was killed|is back)"},
    {"[data-hit=pause]", .said = "there was none to stop|^Process [AB] (was stopped|goes on)"},
    {"#redis [data-deed=hang]", .said = "^Redis hangs"},
    {"[data-do=mend]", .said = "^Redis answers again"},
};

/* In the story since the last mark: what follows within one line of the stream takes the place under the buttons. */
static void expect_told(const char *pattern)
{
    char expression[512], told[512];
    snprintf(expression, sizeof expression, "since().some(text => /%s/.test(text.replace(/\\u00a0/g, ' ')))",
             pattern);
    if (!browser_wait(browser, expression))
        fail_msg("nothing like %s was told, but: %s", pattern,
                 browser_text(browser, "since().join(' | ')", told, sizeof told));
}

/* Of the playground itself: children of PostgreSQL have its name. */
static size_t children(const char *program, bool stopped)
{
    pid_t family[FAMILY_MAX];
    size_t count = 0;
    for (size_t i = proc_family(playground.pid, family, FAMILY_MAX); i-- > 1;) {
        struct proc_look look;
        count += proc_look(family[i], &look) && look.parent == playground.pid &&
                 strcmp(look.name, program) == 0 && (look.state == 'T') == stopped;
    }
    return count;
}

/* What breaks comes back by itself after some seconds; the button that does it sooner is pressed before. */
TEST(each_button_does_what_the_sentence_after_it_says)
{
    char expression[512], missed[512];
    test_needs_long();
    choose("#requests", "100");
    expect(IS_WELL " && " IS_IDLE);
    expect("(window.pressed = new Set(), addEventListener('click', event => window.pressed.add(" NAME_OF
           "(event.target.closest('button') ?? document.body)), true), true)");
    expect("(window.since = () => state.story.filter(({n}) => n > window.mark).map(({text}) => text), true)");
    for (size_t i = 0; i < sizeof BUTTONS / sizeof *BUTTONS; i++) {
        snprintf(expression, sizeof expression,
                 "(button => !button.hidden && button.getAttribute('aria-disabled') !== "
                 "'true')(document.querySelector('%s'))",
                 BUTTONS[i].button);
        expect(expression);
        expect(IS_IDLE); /* what a crowd still under way has to say would come in between */
        expect("(window.mark = state.story.at(-1)?.n ?? -1, true)");
        click(BUTTONS[i].button);
        expect_told(BUTTONS[i].said);
        if (BUTTONS[i].program == NULL)
            continue;
        assert_int_equal(children(BUTTONS[i].program, false), BUTTONS[i].running);
        assert_int_equal(children(BUTTONS[i].program, true), BUTTONS[i].stopped);
    }
    expect(IS_WELL " && " IS_IDLE);
    /* Those of the first screen have tests of their own above. */
    assert_string_equal(browser_text(browser,
                                     "[...document.querySelectorAll('button:not(.go)')].map(" NAME_OF
                                     ").filter(name => !window.pressed.has(name)).join(' ')",
                                     missed, sizeof missed),
                        "");
}

/* ---- by keyboard ---- */

TEST(everything_is_reached_by_tab_and_pressed_by_enter_or_space)
{
    test_needs_long();
    expect("(window.reached = new Set(), document.activeElement.blur(), true)");
    for (int i = 0; i < 90; i++) {
        assert_true(browser_press(browser, "Tab", false));
        expect("(window.reached.add(" NAME_OF "(document.activeElement)), true)");
    }
    char missed[512];
    assert_string_equal(
        browser_text(
            browser,
            "[...document.querySelectorAll('button, select')].filter(e => e.checkVisibility()).map(" NAME_OF
            ").filter(name => !window.reached.has(name)).join(' ')",
            missed, sizeof missed),
        "");
    expect("(document.querySelector('[data-do=change]').focus(), true)");
    assert_true(browser_press(browser, "Enter", false));
    expect_text("#said", "^The price is \\d+.\\d\\d .PUT with If-Match to A.*B shows the new price");
    expect("(document.querySelector('[data-do=buy]').focus(), true)");
    assert_true(browser_press(browser, " ", false));
    expect_text("#said", "^One was bought from A, \\d+ are left");
    expect("document.activeElement.dataset.do === 'buy'"); /* what is drawn anew takes nobody's focus away */
}

/* ---- phone, dark and light ---- */

TEST(it_fits_a_phone_in_the_dark_and_in_the_light)
{
    char light[64], dark[64];
    assert_true(browser_resize(browser, 360, 740));
    expect("document.documentElement.scrollWidth <= 360");
    expect("[...document.querySelectorAll('button, select')].filter(e => e.checkVisibility())"
           ".every(e => e.getBoundingClientRect().right <= 360)");
    browser_text(browser, "getComputedStyle(document.body).backgroundColor", light, sizeof light);
    assert_true(browser_prefer(browser, true, true));
    expect("matchMedia('(prefers-color-scheme: dark)').matches");
    browser_text(browser, "getComputedStyle(document.body).backgroundColor", dark, sizeof dark);
    assert_string_not_equal(light, dark);
    expect("getComputedStyle(document.querySelector('.meter span')).transitionDuration === '0s'");
    assert_true(browser_prefer(browser, false, false));
    assert_true(browser_resize(browser, 1280, 800));
    assert_string_equal(browser_complaints(browser), "");
}

/* ---- who may press ---- */

#define CHANGE "{\"do\":\"change\"}"
#define JSON_BODY "application/json"

#define STORY_LENGTH "state.story.length === 0 ? 0 : state.story[state.story.length - 1].n"

TEST(no_other_page_presses_its_buttons)
{
    char expression[128];
    double told = browser_number(browser, STORY_LENGTH);
    assert_int_equal(playground_act(CHANGE, playground.token, playground.origin, "text/plain"), 415);
    assert_int_equal(playground_act(CHANGE, "0123456789abcdef0123456789abcdef", playground.origin, JSON_BODY),
                     401);
    assert_int_equal(playground_act(CHANGE, playground.token, "Origin: http://evil.example\r\n", JSON_BODY),
                     403);
    assert_int_equal(playground_act(CHANGE, playground.token, "", JSON_BODY), 403);
    assert_int_equal(playground_ask("POST /act HTTP/1.1\r\nHost: evil.example:%u\r\nOrigin: "
                                    "http://evil.example:%u\r\nAuthorization: Bearer %s\r\n"
                                    "Content-Type: " JSON_BODY
                                    "\r\nConnection: close\r\nContent-Length: 15\r\n\r\n" CHANGE,
                                    (unsigned)playground.port, (unsigned)playground.port, playground.token),
                     403);
    assert_int_equal(
        playground_ask("GET /stream HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", playground.host),
        401);
    assert_int_equal(playground_ask("GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"),
                     403);
    assert_int_equal(
        playground_ask("OPTIONS /act HTTP/1.1\r\nHost: %s\r\nOrigin: "
                       "http://evil.example\r\nAccess-Control-Request-Method: POST\r\n"
                       "Access-Control-Request-Headers: authorization\r\nConnection: close\r\n\r\n",
                       playground.host),
        405);
    assert_int_equal(playground_press("{\"do\":\"expire\"}"), 200); /* and ours does */
    snprintf(expression, sizeof expression,
             "state.story.at(-1).n === %d && state.story.at(-1).text.startsWith('Product 7')", (int)told + 1);
    expect(expression);
}

TEST(a_wish_that_is_none_is_refused_and_says_so)
{
    static char large[8192];
    memset(large, ' ', sizeof large - 1);
    assert_int_equal(playground_press("{"), 400);
    assert_int_equal(playground_press("{\"do\":\"explode\"}"), 400);
    assert_int_equal(playground_press("{\"do\":\"rush\",\"requests\":1000000}"), 400);
    assert_int_equal(playground_press("{\"do\":\"set\",\"mode\":\"best\"}"), 400);
    assert_int_equal(playground_press("{\"do\":\"deed\",\"name\":\"redis-start\"}"), 409);
    assert_int_equal(playground_press(large), 413);
    assert_int_equal(
        playground_ask("GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody",
                       playground.host),
        200);
}

/* ---- any button after any other ---- */

enum { WALK_MS = 40000, TRAIL = 12, NAME_BYTES = 256 };

struct walk {
    uint64_t seed, chance;
    char trail[TRAIL][NAME_BYTES]; /* pressed last, the ring */
    unsigned pressed;
};

static void fail_walk(const struct walk *walk, const char *what)
{
    fprintf(stderr, "SEED=%" PRIu64 ", press %u; the last presses:\n", walk->seed, walk->pressed);
    for (unsigned i = walk->pressed > TRAIL ? walk->pressed - TRAIL : 0; i < walk->pressed; i++)
        fprintf(stderr, "  %s\n", walk->trail[i % TRAIL]);
    fail_msg("%s", what);
}

/* Any button that is there and can be pressed, or none. */
static void press_any(struct walk *walk)
{
    char expression[512], *name = walk->trail[walk->pressed % TRAIL];
    snprintf(expression, sizeof expression,
             "(all => { const one = all[%u %% all.length]; if (!one.checkVisibility() || one.getAttribute("
             "'aria-disabled') === 'true') return ''; one.click(); return " NAME_OF
             "(one); })(document.querySelectorAll('button'))",
             (unsigned)dice_below(&walk->chance, 1000000));
    walk->pressed += browser_text(browser, expression, name, NAME_BYTES)[0] != '\0';
}

/* SEED=n draws the same numbers again; which buttons can be pressed then, the playground says. */
TEST(buttons_in_any_order_break_nothing_that_cannot_be_mended)
{
    const char *given = getenv("SEED");
    const uint64_t end_us = clock_after_ms(WALK_MS);
    static struct walk walk;
    test_needs_long();
    walk.seed = walk.chance =
        given != NULL && given[0] != '\0' ? strtoull(given, NULL, 10) : clock_wall_us() % 100000;
    while (clock_us() < end_us) {
        press_any(&walk);
        if (proc_wait(playground.pid, 0, NULL)) {
            playground.pid = 0;
            fail_walk(&walk, "the playground has ended");
        }
        if (!browser_wait(browser, EACH_REQUEST_IS_TOLD))
            fail_walk(&walk, "not every request of a crowd is accounted for");
    }
    print_message("SEED=%" PRIu64 ", %u presses\n", walk.seed, walk.pressed);
    WAIT_UNTIL(playground_press("{\"do\":\"mend\"}") == 200); /* 409: too much is still to be done */
    /* What was to be done before is done first, which may take longer than one look. */
    assert_true(is_calm() || is_calm());
    assert_string_equal(browser_complaints(browser), "");
}

/* ---- the end ---- */

static bool is_listening(void)
{
    struct http_raw raw;
    http_raw_ask("127.0.0.1", playground.port, "GET / HTTP/1.1\r\n\r\n", 18, PLAYGROUND_ASK_LIMIT_MS, &raw);
    bool connected = raw.connected;
    http_raw_clear(&raw);
    return connected;
}

TEST_WITH(ctrl_c_leaves_nothing_behind, NULL, NULL)
{
    pid_t family[FAMILY_MAX];
    int status = 0;
    size_t count = proc_family(playground.pid, family, FAMILY_MAX);
    assert_true(count > 4); /* Redis, PostgreSQL and two processes at least */
    assert_int_equal(access(playground.folder, F_OK), 0);
    kill(playground.pid, SIGINT);
    assert_true(proc_wait(playground.pid, LIMIT_MS, &status));
    playground.pid = 0;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    for (size_t i = 0; i < count; i++) {
        struct proc_look look;
        assert_false(proc_look(family[i], &look));
    }
    assert_int_equal(access(playground.folder, F_OK), -1);
    assert_false(is_listening());
}

TEST_GROUP(.up = up, .down = down, .before = is_calm);
