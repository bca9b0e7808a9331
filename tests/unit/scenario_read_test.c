/* SPDX-License-Identifier: MIT */
/* scenario_read_test.c - scenarios out of files: what is read, and that every mistake is told with its line. */
#include "load/play/scenario.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <unistd.h>

#include <glob.h>

/* ---- reading a text as a file ---- */

static struct outcome {
    bool good;
    struct scenario *scenario; /* until the next one is read, or the test is over */
    char complaints[8192];     /* with FILE for the file's name */
} outcome;

static bool forget(void)
{
    scenario_free(&outcome.scenario);
    return true;
}

static void read_text(const char *text, const struct scenario_set *sets, size_t set_count)
{
    char path[] = "/tmp/scenario-test-XXXXXX", *complaints = NULL;
    size_t bytes = 0;
    file_make(path, text);
    FILE *stream = open_memstream(&complaints, &bytes);
    forget();
    outcome.good = scenario_read(path, sets, set_count, stream, &outcome.scenario);
    fclose(stream);
    unlink(path);
    outcome.complaints[0] = '\0';
    for (const char *line = complaints; *line != '\0'; line += strcspn(line, "\n") + 1) {
        size_t used = strlen(outcome.complaints);
        assert_int_equal(strncmp(line, path, strlen(path)), 0);
        snprintf(outcome.complaints + used, sizeof outcome.complaints - used, "%.*s\n",
                 (int)(strcspn(line, "\n") - strlen(path)), line + strlen(path));
    }
    free(complaints);
    assert_int_equal(outcome.good, outcome.scenario != NULL);
    assert_int_equal(outcome.good, outcome.complaints[0] == '\0');
}

static void read_good(const char *text)
{
    read_text(text, NULL, 0);
    if (!outcome.good)
        fail_msg("%s", outcome.complaints);
}

/* Every part of `expected`, one a line, begins one complaint, in this order, and there are no others. */
static void expect_complaints(const char *text, const char *expected)
{
    read_text(text, NULL, 0);
    const char *got = outcome.complaints;
    while (*expected != '\0') {
        size_t bytes = strcspn(expected, "\n");
        if (strncmp(got, expected, bytes) != 0)
            fail_msg("expected: %.*s\ngot: %s", (int)bytes, expected, got);
        expected += bytes + (expected[bytes] == '\n');
        got += strcspn(got, "\n");
        got += *got == '\n';
    }
    assert_string_equal(got, "");
}

/* ---- what is read ---- */

static void assert_work(const struct work *work)
{
    assert_int_equal(work->url_count, 2);
    assert_int_equal(work->urls[0].weight, 3);
    assert_int_equal(work->connection_count, 1000);
    assert_int_equal(work->round_count, 3);
    assert_int_equal(work->every_ms, 2000);
    assert_int_equal(work->leave_percent, 50);
    assert_int_equal(work->request_limit_ms, 30000);
    assert_false(work->keeps_alive);
    assert_string_equal(work->method, "HEAD");
    assert_string_equal(work->headers, "Accept: text/html\r\nX: y\r\n");
    assert_string_equal(work->version_after, "\"version\":");
    assert_int_equal(work->seed, 9);
}

TEST(a_whole_scenario_is_read_as_it_is_written)
{
    read_good(
        "# SPDX-License-Identifier: MIT\n"
        "# A template's words to whoever copies it.\n\n"
        "title   A hot key's end   \n"
        "about   It's about this,  \n  about in two lines. # and all of them\nabout\nabout And a paragraph.\n"
        "stack   3 LOAD_DELAY_MS=200 \\\n        FRESH_MS=1500\n"
        "products 700\n"
        "vary GUARD_MODE off fleet\n"
        "proxy redis postgres\nreplica\n"
        "warm /products/{each:1-20}\n"
        "ask /products/{zipf:1-500} weight 3   # most of them\n"
        "ask /catalog\n"
        "burst 1000 connections 3 rounds every 2s\n"
        "leave 50% after 20ms\nlimit 30s\nclose\nmethod HEAD\n"
        "header \"Accept: text/html\"\nheader \"X: y\"\nversion \"\\\"version\\\":\"\n"
        "write every 100ms keys 1-20 sql \"UPDATE t SET v = {key}\" then /invalidate?key={key}\n"
        "generators 2\nsources 4\nseed 9\n"
        "at 2s redis pause for 500ms\n"
        "on load 3 after 20ms leader kill\n"
        "at 3s link redis delay 20ms\n"
        "at 4s invalidate product:7\n"
        "at 5s catalogd 2 restart as \"a new version\"\n"
        "expect loads per expiry <= 1 in fleet\n"
        "expect p99 <= 300ms from 1s to 2s\n");
    const struct scenario *scenario = outcome.scenario;
    assert_string_equal(scenario->title, "A hot key's end");
    assert_string_equal(scenario->about,
                        "It's about this, in two lines. # and all of them\n\nAnd a paragraph.");
    assert_int_equal(scenario->process_count, 3);
    assert_string_equal(scenario_setting(scenario, "FRESH_MS"), "1500");
    assert_null(scenario_setting(scenario, "FRESH"));
    assert_int_equal(scenario->product_count, 700);
    assert_string_equal(scenario->variants[1], "fleet");
    assert_int_equal(scenario->variant_count, 2);
    assert_true(scenario->proxies_redis && scenario->proxies_postgres && scenario->has_replica);
    assert_int_equal(scenario->warm.url_count, 1);
    assert_work(&scenario->work);
    assert_int_equal(scenario->writes[0].last_key, 20);
    assert_int_equal(scenario->event_count, 5);
    assert_string_equal(scenario->events[0].text, "redis pause for 500ms");
    assert_int_equal(scenario->events[0].for_ms, 500);
    assert_true(scenario->events[1].is_on_load);
    assert_int_equal(scenario->events[1].load, 3);
    assert_int_equal(scenario->events[1].at_ms, 20);
    assert_int_equal(scenario->events[2].action.fault, PROXY_DELAY);
    assert_int_equal(scenario->events[2].action.amount_ms, 20);
    assert_string_equal(scenario->events[3].action.argument, "/invalidate?key=product:7");
    assert_int_equal(scenario->events[4].action.process, 2);
    assert_string_equal(scenario->events[4].text, "a new version");
    assert_int_equal(scenario->expect_count, 3);
    assert_string_equal(scenario->expects[2].text, "failed = 0");
}

TEST(ones_own_service_is_named_with_its_servers)
{
    read_good(
        "target 127.0.0.1:8080 127.0.0.1:8082\ndatabase postgresql:///shop\nredis redis://127.0.0.1:6379/0\n"
        "count log:/var/log/pg\nqueries FROM\nttl 1s jitter 10%\n"
        "ask /\nrate 2_000 per second for 1.5s poisson over 200 connections\n"
        "at 1s run 'exit 0'\n");
    const struct scenario *scenario = outcome.scenario;
    assert_int_equal(scenario->work.target_count, 2);
    assert_int_equal(scenario->way, WITNESS_LOG);
    assert_string_equal(scenario->log_path, "/var/log/pg");
    assert_int_equal(scenario->ttl_ms, 1000);
    assert_int_equal(scenario->jitter_percent, 10);
    assert_int_equal(scenario->work.per_second, 2000);
    assert_int_equal(scenario->work.duration_ms, 1500);
    assert_true(scenario->work.is_poisson);
    assert_int_equal(scenario->expect_count, 1); /* nothing was expected: then that nobody fails */
    assert_string_equal(scenario->expects[0].text, "failed = 0");
}

static const char with_names[] = "let DELAY 200\nlet PATH /products/7\n"
                                 "stack 2 LOAD_DELAY_MS=${DELAY} FRESH_MS=1000\nvary GUARD_MODE off fleet\n"
                                 "ask ${PATH}\nexpect loads = 1 in fleet\n";

TEST(names_stand_for_their_values)
{
    read_good(with_names);
    assert_string_equal(scenario_setting(outcome.scenario, "LOAD_DELAY_MS"), "200");
    assert_string_equal(outcome.scenario->work.urls[0].path, "/products/7");
}

TEST(a_value_can_be_set_from_outside)
{
    const struct scenario_set sets[] = {{"DELAY", "5"}, {"FRESH_MS", "7"}, {"GUARD_MODE", "local"}};
    const struct scenario_set wrong[] = {{"DELY", "5"}};
    read_text(with_names, sets, 3);
    assert_true(outcome.good);
    assert_string_equal(scenario_setting(outcome.scenario, "LOAD_DELAY_MS"), "5");
    assert_string_equal(scenario_setting(outcome.scenario, "FRESH_MS"), "7");
    assert_int_equal(outcome.scenario->variant_count, 1);
    assert_string_equal(outcome.scenario->variants[0], "local");
    read_text(with_names, wrong, 1);
    assert_false(outcome.good);
    assert_non_null(strstr(outcome.complaints,
                           "--set DELY: the scenario has no such name; it has: DELAY PATH LOAD_DELAY_MS"));
}

TEST(a_comment_is_not_in_the_report_and_too_long_a_text_is_refused)
{
    static char lines[4096];
    read_good("# For whoever copies this.\n\nstack 2\nask /ok\nburst 2 connections\n");
    assert_string_equal(outcome.scenario->about, "");
    size_t used = 0;
    for (size_t i = 0; i < 20; i++)
        used += (size_t)snprintf(lines + used, sizeof lines - used, "about %0100zu\n", i);
    snprintf(lines + used, sizeof lines - used, "stack 2\nask /ok\nburst 2 connections\n");
    read_text(lines, NULL, 0);
    assert_false(outcome.good);
    assert_non_null(
        strstr(outcome.complaints, ":11: about: the text about it is too long: at most 1023 bytes"));
}

TEST(all_scenarios_of_ours_can_be_read)
{
    glob_t found;
    assert_int_equal(glob("load/scenarios/*.scenario", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct scenario *scenario = NULL;
        if (!scenario_read(found.gl_pathv[i], NULL, 0, stderr, &scenario))
            fail_msg("%s", found.gl_pathv[i]);
        assert_true(scenario->about[0] != '\0' && strcmp(scenario->title, scenario->name) != 0);
        scenario_free(&scenario);
    }
    assert_true(found.gl_pathc >= 19);
    globfree(&found);
}

static void expect_expects(const char *lines, const char *const *wanted)
{
    char text[600];
    snprintf(text, sizeof text, "stack 1\nvary GUARD_MODE off fleet\nask /products/7\n%s", lines);
    read_good(text);
    size_t count = 0;
    for (; wanted[count] != NULL; count++)
        assert_string_equal(outcome.scenario->expects[count].text, wanted[count]);
    assert_int_equal(outcome.scenario->expect_count, count);
}

#define EXPECTS(lines, ...) expect_expects(lines, (const char *const[]){__VA_ARGS__, NULL})

TEST(that_nobody_fails_is_expected_unless_a_line_is_about_it, P104)
{
    EXPECTS("", "failed = 0");
    EXPECTS("expect p99 <= 1s\nexpect answered = 100%\n", "p99 <= 1s", "answered = 100%", "failed = 0");
    EXPECTS("expect failed <= 50%\n", "failed <= 50%");
    EXPECTS("expect failed = 0 from 1s to 2s\n", "failed = 0 from 1s to 2s");
    EXPECTS("expect failed of url 1 <= 1\n", "failed of url 1 <= 1");
    EXPECTS("expect failed <= 9 in off\n", "failed <= 9 in off", "failed = 0");
    read_good("stack 1\nvary GUARD_MODE off fleet\nask /x\nexpect failed <= 9 in off\n");
    assert_true(scenario_says_failed(outcome.scenario, "off"));
    assert_false(scenario_says_failed(outcome.scenario, "fleet"));
    assert_false(outcome.scenario->expects[0].is_default);
    assert_true(outcome.scenario->expects[1].is_default);
    assert_false(outcome.scenario->expects[1].takes_unserved);
    static const struct {
        const char *line;
        bool takes_unserved;
    } statuses[] = {{"status 404 = 100%", true}, {"status 4xx >= 10%", true}, {"status 404 > 0", true},
                    {"status 302 = 100%", true}, {"status 3xx > 5", true},    {"status 404 = 0", false},
                    {"status 404 <= 9", false},  {"status 200 = 100%", false}};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        char text[120];
        snprintf(text, sizeof text, "stack 1\nask /x\nexpect %s\n", statuses[i].line);
        read_good(text);
        assert_int_equal(outcome.scenario->expects[1].takes_unserved, statuses[i].takes_unserved);
    }
}

TEST(there_is_room_for_what_nobody_wrote)
{
    char text[4096] = "stack 1\nask /x\n";
    for (int i = 0; i < SCENARIO_EXPECTS_MAX; i++)
        strcat(text, "expect requests > 0\n");
    read_good(text);
    assert_string_equal(outcome.scenario->expects[SCENARIO_EXPECTS_MAX].text, "failed = 0");
    strcat(text, "expect requests > 0\n");
    expect_complaints(text, ":65: expect: too many expectations: at most 62\n");
}

/* ---- mistakes ---- */

TEST(of_a_file_that_is_no_scenario_only_the_first_mistakes_are_told)
{
    char text[3 * 30 + 1] = "";
    for (size_t i = 0; i < 30; i++)
        strcat(text, "no\n");
    read_text(text, NULL, 0);
    assert_false(outcome.good);
    assert_non_null(strstr(outcome.complaints, ":20: unknown word \"no\""));
    assert_null(strstr(outcome.complaints, ":21: "));
    assert_non_null(strstr(outcome.complaints, ": 10 more mistakes\n"));
}

TEST(every_mistake_is_told_with_its_line)
{
    expect_complaints("# head\n"
                      "stack two\n"
                      "askk /products/7\n"
                      "ask /products/{7\n"
                      "rate 100 per second \\\n  for ever\n"
                      "at soon redis kill\n"
                      "at 1s redis explode\n"
                      "at 1s flood\n"
                      "on start redis kill\n"
                      "expect lodas <= 1\n"
                      "note \"unclosed\n"
                      "let x y\n"
                      "ask ${NOWHERE}\n"
                      "at 1s redis flush for 2s\n"
                      "at 1s link redis wobble\n"
                      "at 1s redis kill as\n",
                      ":2: stack: a number from 1 to 8 is needed, not \"two\"; write: stack PROCESSES\n"
                      ":3: unknown word \"askk\"; there are: let, title, about, stack,\n"
                      ":4: ask: \n"
                      ":5: rate: a time like 250ms, 1.5s or 2m is needed, not \"ever\"; write: rate N\n"
                      ":7: at: a time like 250ms, 1.5s or 2m is needed, not \"soon\"\n"
                      ":8: at: write: \"redis kill|start|restart|pause|resume|flush|failover\"\n"
                      ":9: at: unknown action \"flood\"; there are: redis, postgres, catalogd,\n"
                      ":10: on: write: on load\n"
                      ":11: expect: unknown figure \"lodas\"; there are: requests,\n"
                      ":12: a quote is not closed\n"
                      ":13: let: a name is written in capital letters, not \"x\"; write: let NAME VALUE\n"
                      ":14: ${NOWHERE}: there is no line \"let NOWHERE VALUE\" above\n"
                      ":15: at: \"for\" needs an action with an opposite\n"
                      ":16: at: write: link redis|postgres\n"
                      ":17: at: a name is missing after \"as\"; write: at TIME ACTION\n");
}

TEST(a_directive_that_was_told_twice_or_too_much_is_refused)
{
    expect_complaints(
        "stack 2\nstack 2\nask /a b\nlimit 1s 2s\nburst\nleave 50%\nheader \"no colon\"\n"
        "stack 2 LISTEN=1\nmethod get\nvary X\ncount maybe\nwrite every 0s key 1 sql x\nwarm /{1-5}\n",
        ":2: a second line with \"stack\"\n"
        ":3: ask: \n"
        ":4: limit: unexpected: \"2s\"; write: limit TIME\n"
        ":5: burst: write: burst N\n"
        ":6: leave: write: leave PERCENT% after TIME\n"
        ":7: header: a header is \"Name: value\", not \"no colon\"\n"
        ":8: a second line with \"stack\"\n"
        ":9: method: a method is written in capital letters, not \"get\"\n"
        ":10: vary: write: vary NAME VALUE\n"
        ":11: count: write: count log:PATH\n"
        ":12: write: every 0ms is too often\n"
        ":13: warm: a warm-up requests each key once\n");
}

/* Whatever follows a word, it is read or refused with how the word is written: the tables fit their arguments. */
TEST(every_word_is_read_as_it_is_said_to_be_written)
{
    static const char *const values[] = {"7",     "1s",     "50%", "/x",    "for",
                                         "after", "rounds", "sql", "redis", "at"};
    enum { VALUES = sizeof values / sizeof *values, LINES = 400 };
    static struct words words;
    struct scenario *scenario = scenario_new();
    const struct words_help *word;
    char why[SCENARIO_WHY_BYTES], usage[64];
    uint32_t chance = 1;
    for (size_t i = 0; (word = scenario_word(i)) != NULL; i++) {
        assert_true(word->help[0] != '\0');
        if (strcmp(word->name, "target") == 0)
            continue; /* it would look up hosts called so */
        snprintf(usage, sizeof usage, "write: %s", word->name);
        for (size_t line = 0; line < LINES; line++) {
            memset(&words, 0, sizeof words);
            words_add(&words, word->name);
            for (size_t k = 0; k < line % 8; k++) {
                chance = chance * 1664525 + 1013904223;
                words_add(&words, values[(chance >> 16) % VALUES]);
            }
            if (!scenario_take(scenario, &words, 1, why) && strstr(why, usage) == NULL)
                assert_non_null(strstr(why, "a second line with"));
        }
    }
    scenario_free(&scenario);
}

TEST(a_database_is_counted_in_unless_it_is_told_otherwise_or_only_takes_statements)
{
    static const struct {
        const char *lines, *statement;
        enum witness_way way;
    } cases[] = {
        {"database x\n", "SELECT", WITNESS_LOG},
        {"database x\nqueries y\n", "y", WITNESS_LOG},
        {"database x\ncount none\n", "", WITNESS_NONE},
        {"database x\ncount statements\n", "SELECT", WITNESS_STATEMENTS},
        {"database x\nat 1s sql y\n", "", WITNESS_NONE},
        {"database x\nat 1s sql y\nqueries z\n", "z", WITNESS_LOG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[160];
        snprintf(text, sizeof text, "target 127.0.0.1:1\nask /\nrate 1 for 2s\n%s", cases[i].lines);
        read_good(text);
        assert_int_equal(outcome.scenario->way, cases[i].way);
        assert_string_equal(outcome.scenario->statement, cases[i].statement);
    }
}

TEST(what_contradicts_itself_is_told_with_the_line_where_there_is_one)
{
    expect_complaints("ask /\n", ": there is nothing to ask: add a target (host:port) or a stack");
    expect_complaints("stack 2\n", ": nothing is asked for: add an ask (/path)");
    expect_complaints("stack 2\ntarget 127.0.0.1:1\nask /\n", ": a stack or targets");
    expect_complaints("stack 2\ndatabase x\nask /\n", ": a stack brings its own");
    expect_complaints("stack 2\nreplica\nask /\n", ": a replica needs \"proxy redis\"");
    expect_complaints("target 127.0.0.1:1\nask /\nvary X a\n", ": vary, proxy and replica need a stack");
    expect_complaints("stack 1\nask /\nvary X a a\n", ": vary has a twice");
    expect_complaints("target 127.0.0.1:1\nask /\ncount statements\n",
                      ": counting loads in the database needs its address");
    expect_complaints(
        "target 127.0.0.1:1\nask /\nwrite every 1s keys 1-2 sql x\n",
        ": write: a database is needed\n: write: the statement does not say where its key goes");
    expect_complaints("target 127.0.0.1:1\nask /\nat 1s redis kill\nat 1s sql x\non load note x\n",
                      ":3: \"redis kill\": only a stack's servers can be broken\n"
                      ":4: sql: a database is needed\n"
                      ":5: on load: only the statement log");
    expect_complaints(
        "stack 2\nask /\nat 1s catalogd 3 kill\nat 1s redis failover\nat 1s link postgres drop\n",
        ":3: \"catalogd 3 kill\": no such process (of 2)\n"
        ":4: redis failover: a line \"replica\" is missing\n"
        ":5: \"link postgres drop\": a line \"proxy postgres\" is missing");
    expect_complaints("stack 2\nask /\nrate 10 for 2s\nat 3s redis kill\nexpect loads <= 1 from 1s to 3s\n",
                      ":4: \"redis kill\" at 3000 ms: the run is over by then\n"
                      ":5: \"loads <= 1 from 1s to 3s\": the run is over by then");
    expect_complaints("stack 2\nask /\nrate 10 for 2s\nat 1s note x\nexpect recovery <= 1s\n",
                      ":5: \"recovery <= 1s\": a rate and something that is done to the service are needed");
    expect_complaints("stack 2\nask /\nburst 10\nat 1s redis kill\nexpect recovery <= 1s\n",
                      ":5: \"recovery <= 1s\": a rate and something that is done to the service are needed");
    expect_complaints("stack 2\nask /\nexpect loads <= 1 in fleet\nexpect answered of url 2 = 1\n"
                      "expect stale answers = 0\n",
                      ":3: \"in fleet\": not a value of the vary line\n"
                      ":4: \"answered of url 2 = 1\": no such ask line (of 1)\n"
                      ":5: \"stale answers = 0\": a write and a version are needed");
    expect_complaints("target 127.0.0.1:1\nask /\nexpect loads <= 1\n"
                      "expect redis commands <= 1\n",
                      ":3: \"loads <= 1\": loads are not counted: say where, by count log:PATH or database\n"
                      ":4: \"redis commands <= 1\": redis is needed");
    expect_complaints(
        "target 127.0.0.1:1\nask /\ndatabase x\nqueries y\ncount statements\nexpect loads per key <= 1\n",
        ":6: \"loads per key <= 1\": only the statement log knows");
    expect_complaints("target 127.0.0.1:1\nask /\nqueries y\n", ": queries: they are not counted");
    expect_complaints("target 127.0.0.1:1\nask /\nttl 1s\ndatabase x\nqueries y\ncount statements\n"
                      "expect loads per expiry <= 1\nexpect expiries = 1\nexpect loads <= 5\n",
                      ":7: \"loads per expiry <= 1\": only the statement log knows keys and instants\n"
                      ":8: \"expiries = 1\": only the statement log knows keys and instants");
    expect_complaints("target 127.0.0.1:1\nask /\ndatabase x\nqueries y\ncount statements\n"
                      "expect loads per expiry <= 1\n",
                      ":6: \"loads per expiry <= 1\": only the statement log knows keys and instants");
}

TEST(what_only_requests_of_the_run_can_do_at_https_is_refused)
{
    expect_complaints(
        "target https://127.0.0.1:1\nask /\nburst 5\ndatabase x\nbefore-round GET /a\n"
        "before-round redis set x /y\nredis redis://127.0.0.1:1\n"
        "write every 1s keys 1-2 sql \"{key}\" then /b?{key}\nat 1s post /c\nat 1s invalidate 7\n"
        "at 1s post HTTPS://h/d\nat 1s post http://127.0.0.1:1/e\n",
        ": before-round: GET /a: only requests of the run speak TLS: name an http:// address\n"
        ": write: /b?{key}: only requests of the run speak TLS: name an http:// address\n"
        ":9: \"post /c\": only requests of the run speak TLS\n"
        ":10: \"invalidate 7\": only requests of the run speak TLS\n"
        ":11: \"post HTTPS://h/d\": only requests of the run speak TLS\n");
    read_good("stack 1\nask /\nburst 5\nbefore-round redis set x /y\nat 1s post /c\n");
    expect_complaints("ask /\nburst 5\nredis redis://127.0.0.1:1\nbefore-round redis set x /y\n",
                      ": there is nothing to ask\n");
}

static void list_settings(const char *lines, struct result_setting out[static RESULT_SETTINGS_MAX])
{
    char text[1024];
    snprintf(text, sizeof text, "target 127.0.0.1:1\nburst 5\n%s", lines);
    read_good(text);
    memset(out, 0, RESULT_SETTINGS_MAX * sizeof *out);
    settings_list(outcome.scenario, &outcome.scenario->work, out);
}

TEST(runs_that_ask_for_other_things_have_other_settings)
{
    char keys[] = "/tmp/scenario-keys-XXXXXX", line[96];
    static struct result_setting plain[RESULT_SETTINGS_MAX], other[RESULT_SETTINGS_MAX];
    static const char *const others[] = {"ask /a\nwarm /a\n", "ask /a\nheader \"Authorization: secret\"\n"};
    list_settings("ask /a\n", plain);
    for (size_t i = 0; i < 2; i++) {
        list_settings(others[i], other);
        assert_memory_not_equal(plain, other, sizeof plain);
        for (size_t k = 0; k < RESULT_SETTINGS_MAX; k++)
            assert_null(strstr(other[k].value, "secret"));
    }
    file_make(keys, "tea\ncup\n");
    snprintf(line, sizeof line, "ask /a/{@%s}\n", keys);
    list_settings(line, plain);
    list_settings(line, other);
    assert_memory_equal(plain, other, sizeof plain);
    file_write(keys, "tea\ncap\n");
    list_settings(line, other);
    assert_memory_not_equal(plain, other, sizeof plain);
    unlink(keys);
}

TEST(no_file_and_no_text_are_mistakes_and_no_crash)
{
    char complaints[256] = "";
    struct scenario *scenario = NULL;
    FILE *stream = fmemopen(complaints, sizeof complaints, "w");
    assert_false(scenario_read("/nowhere/x.scenario", NULL, 0, stream, &scenario));
    fclose(stream);
    assert_string_equal(complaints, "/nowhere/x.scenario: cannot be read: No such file or directory\n");
    expect_complaints("", ": there is nothing to ask\n: nothing is asked for");
    expect_complaints("\\", ": there is nothing to ask\n: nothing is asked for");
}

TEST(overlong_lines_are_refused_and_the_next_one_is_read)
{
    static char text[30000];
    memset(text, 'x', 20000);
    strcpy(text + 20000, "\nask /\nstack 1\nlimit soon\n");
    read_text(text, NULL, 0);
    assert_int_equal(strncmp(outcome.complaints, ":1: the line is too long: at most 4095 bytes\n", 45), 0);
    assert_non_null(strstr(outcome.complaints, "\n:4: limit:"));
}

TEST_GROUP(.after = forget);
