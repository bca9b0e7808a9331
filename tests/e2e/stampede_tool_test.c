/* SPDX-License-Identifier: MIT */
/*
 * stampede_tool_test.c - the tester as its users meet it: what it prints, how it exits, what it leaves behind.
 *
 * The program under test is `stampede` beside $CATALOGD. A server of tests/support answers it, well or badly;
 * scenarios start their own.
 */
#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/base/proc.h"
#include "load/report/result.h"
#include "load/stack/rival.h"
#include "tests/support/files.h"
#include "tests/support/fleet.h"
#include "tests/support/herd_server.h"
#include "tests/support/stack_certificates.h"
#include "tests/support/test.h"

#include <hiredis/hiredis.h>

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 90000, OUTPUT_BYTES = 65536, ARGUMENTS_MAX = 40, PIDS_MAX = 256 };
enum { HELD = 0, DID_NOT_HOLD = 1, BAD_USAGE = 2, NOT_RUN = 3, ENDED_EARLY = 130 };

static char folder[PROC_PATH_BYTES], program[256], output_path[PROC_PATH_BYTES + 16];
static char output[OUTPUT_BYTES]; /* of the last run */
static struct herd_server server;
static char urls[HERD_SERVER_PORTS][64]; /* http://127.0.0.1:port */

/* ---- running it ---- */

static pid_t start_with(const char *const *argv, const char *const *settings)
{
    unlink(output_path);
    pid_t pid = proc_start(&(struct proc_options){
        .argv = argv, .settings = settings, .output_path = output_path, .end_signal = SIGTERM});
    assert_true(pid > 0);
    return pid;
}

static pid_t start(const char *const *arguments)
{
    const char *argv[ARGUMENTS_MAX + 1] = {program};
    for (size_t i = 0; arguments[i] != NULL && i + 2 < ARGUMENTS_MAX; i++)
        argv[i + 1] = arguments[i];
    return start_with(argv, NULL);
}

/* The exit status; 1000 and the signal if it was killed. */
static int finish(pid_t pid)
{
    int status = 0;
    bool ended = proc_wait(pid, LIMIT_MS, &status);
    if (!ended)
        proc_kill_tree(&pid);
    file_look(output_path, output, sizeof output);
    if (!ended)
        fail_msg("it does not end:\n%s", output);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define TOOL(...) finish(start((const char *const[]){__VA_ARGS__, NULL}))

/* A shell's command, with these settings (ends with NULL; NULL: none) in its environment. */
static int run_shell(const char *const *settings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int run_shell(const char *const *settings, const char *format, ...)
{
    char command[3 * PATH_MAX];
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    assert_in_range(bytes, 1, sizeof command - 1);
    return finish(start_with(argv, settings));
}

static void expect_said(const char *text)
{
    if (strstr(output, text) == NULL)
        fail_msg("\"%s\" is not in:\n%s", text, output);
}

static void expect_status(int status, int wanted)
{
    if (status == wanted)
        return;
    fputs(output, stderr); /* whole: a message of cmocka's is cut */
    fail_msg("exit status %d, not %d", status, wanted);
}

static void wait_until_said(const char *text)
{
    uint64_t end_us = clock_after_ms(LIMIT_MS);
    do {
        clock_pause_ms(5);
        file_look(output_path, output, sizeof output);
    } while (strstr(output, text) == NULL && clock_us() < end_us);
    expect_said(text);
}

static const char *path_of(const char *name)
{
    static char paths[4][PROC_PATH_BYTES + 32];
    static size_t turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *write_file(const char *name, const char *text)
{
    const char *path = path_of(name);
    file_write(path, text);
    return path;
}

static const char *url_of(enum herd_server_port port, const char *path)
{
    static char all[4][128];
    static size_t turn;
    char *url = all[turn++ % 4];
    snprintf(url, sizeof all[0], "%s%s", urls[port], path);
    return url;
}

/* Five requests at once, with further options. */
#define BURST(...) TOOL("--url", url_of(HERD_SERVER_HTTP, "/ok"), "--burst", "5", __VA_ARGS__)

/* ---- what it leaves ---- */

static struct report report; /* that was read last */

/* Lent until the next one; its first result. */
static const struct result *read_report(const char *path)
{
    char why[RESULT_WHY_BYTES];
    report_clear(&report);
    if (!report_read(&report, path, why))
        fail_msg("%s", why);
    return report.results[0];
}

static void expect_all_gone(const pid_t *pids, size_t count)
{
    uint64_t end_us = clock_after_ms(LIMIT_MS);
    for (size_t i = 0; i < count; i++) {
        while (kill(pids[i], 0) == 0) {
            if (clock_us() >= end_us)
                fail_msg("process %d of %zu is still there", (int)pids[i], count);
            clock_pause_ms(5);
        }
    }
}

/* ---- words ---- */

/* Each command line, and a sentence of what it is answered. */
static const char *const refused[][2] = {
    {"--url / --rate fast", "stampede: --rate fast: rate: a number from 1 to 10000000 is needed"},
    {"--url / --ttl soon", "stampede: --ttl soon: ttl: a time like 250ms"},
    {"--expect 'lodas <= 1'", "expect: unknown figure \"lodas\"; there are: requests"},
    {"--count magic", "stampede: --count magic: count: write: --count WAY"},
    {"--url /", "there is nothing to ask: add --target HOST:PORT, or name it in --url"},
    {"--burst 5", "nothing is asked for: add --url URL"},
    {"--url $URL --expect 'loads <= 1'",
     "loads are not counted: say where, by --count log:PATH or --database"},
    {"--url $URL --expect 'redis commands <= 1'", "redis is needed: add --redis URL"},
    {"--burst 10 --rate 10", "either burst or rate or replay"},
    {"--url $URL --replay /dev/null --rate 5", "either burst or rate or replay"},
    {"--url $URL --burst 10 --for 1s", "--for goes with --rate or --replay"},
    {"--url $URL --queries 'FROM items'", "queries: they are not counted: say where, by --database URL"},
    {"--nonsense", "stampede: --nonsense: there is no such option\n"},
    {"--brust 5", "stampede: --brust: there is no such option; did you mean --burst?"},
    {"'--expct=p99 <= 1s'", "--expct=p99 <= 1s: there is no such option; did you mean --expect?"},
    {"--url / --burst", "stampede: --burst: a value is missing"},
    {"demo --table=yes", "stampede: --table=yes: it takes no value"},
    {"demo --requests 1", "--requests 1: not a number from 2 to 2000"},
    {"nonsense", "stampede: nonsense is neither an option nor a command"},
    {"compare one.json", ""},
    {"scenario", "stampede scenario FILE..."},
    {"scenario /nowhere.scenario", "/nowhere.scenario: cannot be read: No such file or directory"},
    {"scenario no-such-name", "no-such-name: neither a file nor one of the scenarios in load/scenarios"},
    {"scenario cold-burst --set NO_SUCH=1",
     "cold-burst.scenario: --set NO_SUCH: the scenario has no such name; it has: MAX LOAD_DELAY_MS"},
    {"--url $URL --replay /dev/null", "it asks for what the log has: no ask, and no URL but targets"},
    {"--target a:1 --replay /dev/null --speed fast",
     "a speed is a number from 0.001 to 1000, like 2 or 2x, not \"fast\""},
    {"--target a:1 --replay /nowhere", "/nowhere: cannot be read: No such file or directory"},
    {"--url $URL --burst 9 --before-round 'redis del x'", "which Redis? Add --redis URL"},
    {"--url $URL --burst 9 --before-round 'fly away'",
     "write: redis COMMAND ..., or GET, POST or DELETE with a URL"},
    {"--url $URL --burst 9 --before-round 'GET ftp://x'",
     "a URL is /path or http://host:port/path, not \"ftp://x\""},
    {"--url $URL --rate 10 --before-round 'GET /'", ""},
    {"proxy oracle a:1=b:2 --log x", "it reads postgres, mysql and http; name one of them"},
    {"proxy http a:1 --log x", "write LISTEN=ORIGIN"},
    {"proxy http 127.0.0.1:1=https://127.0.0.1:2 --log x",
     "the proxy speaks no TLS to an origin: name a plain HOST:PORT"},
    {"proxy postgres 127.0.0.1:1=127.0.0.1 --log x", "name a plain HOST:PORT"},
    {"proxy mysql 127.0.0.1=127.0.0.1:2 --log x", "name a plain HOST:PORT"},
    {"proxy http 127.0.0.1:1=127.0.0.1:2", "where do statements go? Add --log FILE"},
    {"proxy http", ""},
};

TEST(what_is_not_understood_is_refused_one_by_one, P102)
{
    char url[80];
    const char *const settings[] = {url, NULL};
    snprintf(url, sizeof url, "URL=%s/", urls[HERD_SERVER_HTTP]);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        expect_status(run_shell(settings, "exec '%s' %s", program, refused[i][0]), BAD_USAGE);
        expect_said(refused[i][1]);
    }
    expect_status(TOOL("--url", "/", "--rate", "fast", "--ttl", "soon"), BAD_USAGE); /* all of them */
    expect_said("--rate fast: rate: ");
    expect_said("--ttl soon: ttl: ");
}

TEST(a_wrong_scenario_names_file_and_line_of_every_mistake)
{
    char said[PROC_PATH_BYTES + 64];
    const char *path =
        write_file("wrong.scenario", "# nothing\nstack 99\nask /x\nburst many\nexpect p99 <= 3\n");
    expect_status(TOOL("scenario", path), BAD_USAGE);
    for (unsigned line = 2; line <= 5; line += line == 2 ? 2 : 1) {
        snprintf(said, sizeof said, "%s:%u: ", path, line);
        expect_said(said);
    }
    path = write_file("setting.scenario", "stack 1 LOAD_DELYA_MS=3\nask /x\n");
    expect_status(TOOL("scenario", path), NOT_RUN);
    expect_said("LOAD_DELYA_MS=3: catalogd has no such setting");
}

/* ---- targets ---- */

TEST(a_target_that_is_not_there_or_not_http_is_told)
{
    char nobody[64];
    snprintf(nobody, sizeof nobody, "http://127.0.0.1:%u/", (unsigned)net_free_port());
    expect_status(TOOL("--url", nobody, "--burst", "5"), NOT_RUN);
    expect_said("no connection");
    expect_status(TOOL("--url", url_of(HERD_SERVER_RUBBISH, "/"), "--burst", "5"), NOT_RUN);
    expect_said("HTTP");
    expect_status(TOOL("--url", url_of(HERD_SERVER_HTTP, "/garbage"), "--burst", "5"), DID_NOT_HOLD);
    expect_said("rubbish");
    expect_said("failed = 0: 5 of 5 (100%)");
}

TEST(a_redis_that_is_not_there_is_told_with_its_address)
{
    char url[64], said[96];
    const unsigned port = net_free_port();
    snprintf(url, sizeof url, "redis://localhost:%u", port);
    snprintf(said, sizeof said, " port %u: Connection refused", port);
    expect_status(BURST("--redis", url), NOT_RUN);
    expect_said("stampede: Redis at ");
    expect_said(said);
    expect_status(BURST("--redis", "unix:///nowhere/redis.sock"), NOT_RUN);
    expect_said("Redis at /nowhere/redis.sock: No such file or directory");
}

TEST(a_run_that_was_served_nothing_shows_nothing)
{
    expect_status(TOOL("--url", url_of(HERD_SERVER_HTTP, "/mistyped"), "--burst", "5"), DID_NOT_HOLD);
    expect_said("failed = 0: not known: nothing was served: no answer is a 2xx or 304");
    expect_status(TOOL("--url", url_of(HERD_SERVER_HTTP, "/status/302"), "--burst", "5"), DID_NOT_HOLD);
    expect_said("! Nothing was served: 5 answers are redirects, 0 are 4xx");
}

TEST(a_run_against_any_service_is_judged_and_kept)
{
    const char *json = path_of("any.json");
    expect_status(TOOL("--url", url_of(HERD_SERVER_HTTP, "/key/{1-9} weight 3"), "--url",
                       url_of(HERD_SERVER_HTTP_TOO, "/cache/me+hit"), "--rate", "400", "--for", "500ms",
                       "--poisson", "--connections", "20", "--header", "X-Test: yes", "--name", "mine",
                       "--json", json, "--expect", "answered = 100%", "--expect", "requests = 200",
                       "--expect", "cache hit >= 10%"),
                  HELD);
    expect_said("held");
    assert_string_equal(read_report(json)->name, "mine");
    assert_int_equal(report.results[0]->requests, 200);
    assert_int_equal(report.results[0]->check_count, 4);
    assert_non_null(strstr(report.command, "--header 'X-Test: yes'"));
    expect_status(TOOL("report", json), HELD);
    expect_said("mine");
    expect_status(TOOL("compare", json, json), HELD);
    expect_status(TOOL("report", write_file("rubbish.json", "{\"x\": ")), BAD_USAGE);
    expect_said("rubbish.json");
}

static void expect_file(const char *name, const char *text)
{
    static char read_text[OUTPUT_BYTES];
    if (!file_look(path_of(name), read_text, sizeof read_text))
        fail_msg("%s is not there", path_of(name));
    if (strstr(read_text, text) == NULL)
        fail_msg("\"%s\" is not in %s:\n%s", text, name, read_text);
}

/* What it prints goes into none of its connections. */
TEST(it_runs_without_0_and_2)
{
    expect_status(run_shell(NULL, "exec '%s' --url %s/key/7 --burst 20 <&- 2>&-", program, urls[0]), HELD);
    expect_said("20");
    expect_status(run_shell(NULL, "ulimit -f 1; exec '%s' --url %s/key/7 --burst 20 --out '%s'", program,
                            urls[0], path_of("small")),
                  NOT_RUN);
}

TEST(a_folder_gets_the_report_in_every_format_and_a_job_its_summary)
{
    char setting[PROC_PATH_BYTES + 64];
    const char *const settings[] = {setting, NULL};
    snprintf(setting, sizeof setting, "GITHUB_STEP_SUMMARY=%s", path_of("steps.md"));
    expect_status(run_shell(settings, "exec '%s' --url %s --burst 5 --name 'my run/1' --out '%s'", program,
                            url_of(HERD_SERVER_HTTP, "/ok"), path_of("out")),
                  HELD);
    expect_file("out/my_run_1.json", "\"stampede_report\"");
    expect_file("out/my_run_1.html", "<!DOCTYPE html>");
    expect_file("out/my_run_1.junit.xml",
                "<testcase classname=\"A stampede on /ok.my run/1\" name=\"failed = 0\"");
    expect_file("out/my_run_1.md", "**1 of 1 checks held**");
    expect_file("steps.md", "**1 of 1 checks held**");
    expect_status(TOOL("report", path_of("out/my_run_1.json"), "--junit", path_of("again.xml")), HELD);
    expect_said("JUnit  ");
    assert_null(strstr(output, "requests ")); /* what is written is not shown, too */
    expect_file("again.xml", "name=\"failed = 0\"");
    expect_status(run_shell(settings, "exec '%s' scenario '%s' --junit '%s'", program,
                            write_file("tiny.scenario", "target 127.0.0.1:1\nask /\nburst 5\n"),
                            path_of("junits")),
                  NOT_RUN);
}

TEST(a_log_is_asked_again)
{
    const char *log =
        write_file("access.log", "- - - [10/Oct/2000:20:55:36 +0000] \"GET /key/7 HTTP/1.1\" 200 1\n"
                                 "- - - [10/Oct/2000:20:55:36 +0000] \"POST /key/8 HTTP/1.1\" 200 1\n"
                                 "- - - [10/Oct/2000:20:55:38 +0000] \"GET /key/7 HTTP/1.1\" 200 1\n"
                                 "- - - [10/Oct/2000:20:55:38 +0000] \"HEAD /key/9 HTTP/1.1\" 200 1\n");
    const char *target = urls[HERD_SERVER_HTTP] + strlen("http://");
    herd_server_forget(&server);
    expect_status(TOOL("--target", target, "--replay", log, "--speed", "10x", "--expect", "requests = 3",
                       "--expect", "status 200 = 100%"),
                  HELD);
    expect_said("A replay of access.log");
    expect_said("access.log at 10 times its speed: 3 of 4 lines, 2 different requests; left out: 1 neither "
                "GET nor HEAD");
    expect_said("3 requests as in a log, over 0.251 s, 1 target");
    assert_int_equal(atomic_load(&server.seen->keys[7]), 2);
    assert_int_equal(atomic_load(&server.seen->keys[8]), 0);
    expect_status(TOOL("--target", target, "--replay", log, "--method", "POST"), HELD);
    assert_int_equal(atomic_load(&server.seen->keys[8]), 1);
    expect_status(run_shell(NULL, "exec '%s' --target %s --replay - < %s", program, target, log), HELD);
    expect_said("A replay of standard input");
    expect_status(run_shell(NULL, "gzip < %s > %s.gz; exec '%s' --target %s --replay %s.gz", log, log,
                            program, target, log),
                  BAD_USAGE);
    expect_said("access.log.gz is compressed: zcat FILE | stampede ... --replay -");
}

TEST(secrets_of_the_command_line_are_in_no_report)
{
    static const char never[] = "20s sql \"SELECT 1\""; /* so that the database is named for something */
    const char *json = path_of("secret.json");
    expect_status(BURST("--json", json, "--header", "authorization: Bearer hunter1", "--database",
                        "host=nowhere password=hunter2 user=me", "--at", never, "--header", "X-Test: kept"),
                  DID_NOT_HOLD);
    read_report(json);
    assert_null(strstr(report.command, "hunter"));
    assert_non_null(strstr(report.command, "--header authorization:... "));
    assert_non_null(strstr(report.command, "'host=nowhere password=... user=me'"));
    assert_non_null(strstr(report.command, "'X-Test: kept'"));
    expect_status(BURST("--json", json, "--database",
                        "postgresql://me:hun@ter3@nowhere/x?password=hunter4&a=b", "--at", never),
                  DID_NOT_HOLD);
    read_report(json);
    assert_null(strstr(report.command, "ter3"));
    assert_null(strstr(report.command, "ter4"));
    assert_non_null(strstr(report.command, "postgresql://me:...@nowhere/x?password=...&a=b"));
}

TEST(a_report_that_nobody_takes_is_no_success)
{
    expect_status(
        run_shell(NULL, "exec '%s' --url %s --burst 5 >/dev/full", program, url_of(HERD_SERVER_HTTP, "/ok")),
        NOT_RUN);
    expect_said("stdout cannot be written");
}

TEST(what_became_worse_than_the_baseline_is_exit_1)
{
    const char *json = path_of("baseline.json");
    expect_status(TOOL("--url", url_of(HERD_SERVER_HTTP, "/ok"), "--burst", "50", "--json", json), HELD);
    expect_status(TOOL("--url", url_of(HERD_SERVER_HTTP, "/status/503"), "--burst", "50", "--expect",
                       "answered = 50", "--baseline", json, "--allow-different"),
                  DID_NOT_HOLD);
    expect_said("WORSE");
    expect_status(BURST("--baseline", "/nowhere.json"), NOT_RUN);
    expect_said("/nowhere.json");
}

TEST(a_baseline_of_other_settings_is_refused_before_anybody_is_asked)
{
    const char *json = path_of("six.json"), *now = path_of("five.json");
    const char *url = url_of(HERD_SERVER_HTTP, "/ok");
    expect_status(TOOL("--url", url, "--rate", "100", "--for", "600ms", "--json", json), HELD);
    herd_server_forget(&server);
    expect_status(TOOL("--url", url, "--rate", "100", "--for", "500ms", "--baseline", json), BAD_USAGE);
    expect_said("  requests: 100 requests a second for 0.6 s, 1 target, at most 1000 connections -> "
                "100 requests a second for 0.5 s, 1 target, at most 1000 connections\n");
    expect_said("six.json: not comparable: it had other settings; --allow-different compares all the same");
    assert_int_equal(atomic_load(&server.seen->requests[HERD_SERVER_HTTP]), 0);
    expect_status(TOOL("--url", url, "--rate", "100", "--for", "500ms", "--json", now), HELD);
    expect_status(TOOL("compare", json, now), BAD_USAGE);
    expect_said("  requests: 100 requests a second for 0.6 s");
    expect_said("verdict: not comparable");
}

TEST(results_without_a_name_in_common_are_not_compared_until_they_are_paired)
{
    const char *mine = path_of("mine.json"), *yours = path_of("yours.json");
    expect_status(BURST("--name", "mine one", "--json", mine), HELD);
    expect_status(BURST("--name", "yours", "--json", yours), HELD);
    expect_status(TOOL("compare", mine, yours), BAD_USAGE);
    expect_said("mine.json has: mine one\n");
    expect_said("yours.json has: yours\n");
    expect_said("--as 'yours=mine one'");
    expect_status(TOOL("compare", mine, yours, "--as", "yours=mine one", "--as", "x=mine one"), BAD_USAGE);
    expect_said("yours.json has no result called \"x\", it has: mine one");
    expect_status(TOOL("compare", mine, yours, "--as", "yours=x"), BAD_USAGE);
    expect_said("mine.json has no result called \"x\", it has: mine one");
    int status = TOOL("compare", mine, yours, "--as", "yours=mine one");
    if (status != HELD && status != DID_NOT_HOLD) /* by chance it may be slower */
        expect_status(status, HELD);
    expect_said("verdict: ");
    herd_server_forget(&server);
    expect_status(BURST("--baseline", mine), BAD_USAGE);
    expect_said("it has no result called \"run\", it has: mine one");
    assert_int_equal(atomic_load(&server.seen->requests[HERD_SERVER_HTTP]), 0);
}

/* Nobody shall measure for an hour and then hear that it cannot be kept. */
TEST(what_a_report_needs_is_looked_for_before_anybody_is_asked)
{
    static const char *const options[] = {"--baseline", "--json", "--html"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        herd_server_forget(&server);
        expect_status(BURST(options[i], "/nowhere/at-all.json"), NOT_RUN);
        expect_said("/nowhere");
        assert_int_equal(atomic_load(&server.seen->requests[HERD_SERVER_HTTP]), 0);
    }
}

TEST(what_is_told_to_happen_happens_or_the_check_fails)
{
    char touch[PROC_PATH_BYTES + 64];
    const char *touched = path_of("touched");
    snprintf(touch, sizeof touch, "100ms run \"echo $TARGET > %s\"", touched);
    expect_status(
        TOOL("--url", url_of(HERD_SERVER_HTTP, "/ok"), "--rate", "50", "--for", "3s", "--at", touch), HELD);
    char line[64];
    assert_true(file_look(touched, line, sizeof line));
    assert_int_equal(strncmp(line, urls[HERD_SERVER_HTTP], strlen(urls[HERD_SERVER_HTTP])), 0);
    expect_status(TOOL("--url", url_of(HERD_SERVER_HTTP, "/ok"), "--rate", "50", "--for", "3s", "--at",
                       "100ms run 'echo it broke; exit 3'"),
                  DID_NOT_HOLD);
    expect_said("it ended with status 3: it broke");
    expect_status(BURST("--at", "20s note never"), DID_NOT_HOLD);
    expect_said("the run was over by then");
}

/* ---- Ctrl-C ---- */

static const char long_scenario[] = "stack 1\nproducts 200\nask /products/7\nrate 200 per second for 60s\n"
                                    "at 1s note \"under way\"\n";

TEST(ended_in_the_middle_it_reports_and_leaves_nothing)
{
    pid_t pids[PIDS_MAX];
    pid_t pid = start((const char *const[]){"scenario", write_file("long.scenario", long_scenario), "--json",
                                            folder, NULL});
    wait_until_said("under way");
    size_t count = proc_family(pid, pids, PIDS_MAX);
    assert_true(count > 4); /* generators, janitor, Redis, PostgreSQL and its own, catalogd */
    kill(pid, SIGINT);
    expect_status(finish(pid), ENDED_EARLY);
    expect_all_gone(pids, count);
    expect_said("ended early");
    const struct result *result = read_report(path_of("long.json"));
    assert_true(result->is_partial);
    assert_in_range(result->outcomes[RECORD_ANSWERED], 20, 11900);
    assert_int_equal(result->check_count, 0);
}

/* The second one may come when it has ended already: then it is as above. */
TEST(a_second_wish_ends_it_at_once_and_leaves_nothing_either)
{
    pid_t pids[PIDS_MAX];
    pid_t pid = start((const char *const[]){"scenario", write_file("long.scenario", long_scenario), NULL});
    wait_until_said("under way");
    size_t count = proc_family(pid, pids, PIDS_MAX);
    kill(pid, SIGINT);
    wait_until_said("ended early");
    kill(pid, SIGINT);
    int status = finish(pid);
    if (status != ENDED_EARLY && status != 1000 + SIGINT)
        fail_msg("exit status %d:\n%s", status, output);
    expect_all_gone(pids, count);
}

/* ---- on a terminal ---- */

/* With this setting; bsdutils' script has a terminal of its own. */
static int on_terminal(const char *setting, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int on_terminal(const char *setting, const char *format, ...)
{
    char command[PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return run_shell(NULL, "unset NO_COLOR; TERM=xterm %s LC_ALL=C exec script -qec \"'%s' %s\" /dev/null",
                     setting, program, command);
}

static size_t count_of(const char *part)
{
    size_t count = 0;
    for (const char *at = output; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

TEST(a_terminal_shows_the_run_as_it_goes_and_keeps_a_line_of_it)
{
    const char *url = url_of(HERD_SERVER_HTTP, "/ok");
    expect_status(on_terminal("", "--url %s --rate 100 --for 2s", url), HELD);
    assert_in_range(count_of("/s)  failed 0  5xx 0\033[K"), 2, 1000);
    expect_said("\r\033[K  ");
    expect_said(" s  due 200  answered 200 (");
    static const char *const wants_none[] = {"NO_COLOR=1", "TERM=dumb", "TERM="};
    for (size_t i = 0; i < sizeof wants_none / sizeof *wants_none; i++) {
        expect_status(on_terminal(wants_none[i], "--url %s --burst 5", url), HELD);
        expect_said(" s  due ");
        assert_null(strstr(output, "\033[K"));
    }
    expect_status(TOOL("--url", url, "--burst", "5"), HELD);
    expect_said(" s  due ");
    assert_null(strchr(output, '\033'));
    expect_status(on_terminal("", "--url %s --burst 5 --quiet", url), HELD);
    assert_null(strstr(output, " s  due "));
    assert_int_equal(count_of("A stampede on /ok"), 1); /* the report's */
}

/* ---- the demo ---- */

/* Small. It exits with 0 only if the fleet made one query. */
TEST(the_demo_shows_one_query_for_the_fleet_in_ten_lines_and_a_page)
{
    const char *json = path_of("demo.json"), *html = path_of("demo.html");
    expect_status(
        on_terminal("", "demo --scale 300 --requests 120 --delay 100 --json %s --html %s", json, html), HELD);
    const char *shown =
        strstr(output, "One cold product, everybody at once: 120 requests at one instant, 2 targets");
    assert_non_null(shown);
    const size_t lines = count_of("\n");
    shown = strstr(shown, "\nqueries  ");
    assert_non_null(shown);
    assert_in_range(lines, 10, 14);
    expect_said("\nRedis commands  ");
    expect_said("\nheld      5 of 5 checks");
    expect_said("\npage  ");
    expect_said("\ntable stampede report ");
    expect_status(TOOL("report", json), HELD);
    expect_said("at the same time, most");
}

/* ---- scenarios ---- */

TEST(a_scenario_exits_with_0_if_it_held_and_with_1_if_not)
{
    const char *path = write_file(
        "small.scenario", "# Small.\nlet WANTED 1\nstack 1 LOAD_DELAY_MS=50\nproducts 200\nask /products/7\n"
                          "burst 50 connections\nexpect loads = ${WANTED}\nexpect answered = 100%\n");
    expect_status(TOOL("scenario", path), HELD);
    expect_said("loads = 1: 1");
    expect_status(TOOL("scenario", path, "--set", "WANTED=2"), DID_NOT_HOLD);
    expect_said("loads = 2: 1");
}

TEST(the_playground_takes_no_servers_that_it_could_break)
{
    static const char *const settings[] = {"REDIS_URL=redis://127.0.0.1:1/0", NULL};
    expect_status(run_shell(settings, "'%s' serve", program), NOT_RUN);
    expect_said("unset REDIS_URL and DATABASE_URL");
}

/* Everything that scenario.h names, done to real servers; one that does not happen is a check that fails. The
 * requests last well beyond it all: on a busy machine each restart of PostgreSQL takes seconds. */
static const char eventful_scenario[] =
    "stack 2 LOAD_DELAY_MS=20 FRESH_MS=200 JITTER_PERCENT=0 REDIS_LIMIT_MS=1000\n"
    "products 200\n"
    "proxy redis postgres\n"
    "replica\n"
    "ask /products/{1-20}\n"
    "rate 100 per second for 30s over 50 connections\n"
    "limit 5s\n"
    "on load 2 note \"the second load\"\n"
    "on load 3 after 10ms leader pause for 100ms\n"
    "at 300ms link redis delay 5ms for 100ms\n"
    "at 350ms link postgres drop for 100ms\n"
    "at 500ms link redis silent\n"
    "at 600ms link redis heal\n"
    "at 650ms catalogd 2 pause for 50ms\n"
    "at 750ms catalogd 2 stop\n"
    "at 800ms catalogd 2 start\n"
    "at 900ms catalogd all restart\n"
    "at 1200ms postgres pause for 100ms\n"
    "at 1400ms postgres restart\n"
    "at 1700ms postgres kill for 50ms\n"
    "at 2000ms redis restart\n"
    "at 2200ms redis flush\n"
    "at 2300ms redis kill for 50ms\n"
    "at 2500ms redis pause for 50ms\n"
    "at 2650ms redis failover\n"
    "at 2900ms sql \"UPDATE products SET stock = stock WHERE id = 7\"\n"
    "at 3000ms invalidate product:7\n"
    "at 3050ms post /invalidate?key=product:8\n"
    "at 3100ms run \"test -n \\\"$TARGET\\\" -a -n \\\"$REDIS_URL\\\" -a -n \\\"$DATABASE_URL\\\"\"\n"
    "at 3200ms leader kill for 50ms\n"
    "expect answered > 0\n"
    "expect failed < 100%\n";

TEST(whatever_can_happen_to_the_servers_happens)
{
    expect_status(TOOL("scenario", write_file("eventful.scenario", eventful_scenario), "--json", folder),
                  HELD);
    const struct result *result = read_report(path_of("eventful.json"));
    size_t faults = 0;
    for (size_t i = 0; i < result->mark_count; i++) {
        const struct result_mark *mark = &result->marks[i];
        faults += mark->kind == RESULT_FAULT;
        if (strncmp(mark->text, "leader pause for 100ms (catalogd ", 33) == 0)
            assert_in_range(mark->until_ms - mark->at_ms, 99, LIMIT_MS);
    }
    assert_int_equal(faults, 18);
}

/* By their plain names, with the project's own files, and with catalogd where make puts it. */
TEST(scenarios_and_demo_are_found_from_any_folder)
{
    char absolute[PATH_MAX], catalogd[PATH_MAX], setting[PATH_MAX + 16];
    const char *const settings[] = {setting, NULL};
    const char *service = getenv("CATALOGD");
    assert_non_null(realpath(program, absolute));
    assert_non_null(realpath(service != NULL ? service : "build/catalogd", catalogd));
    snprintf(setting, sizeof setting, "CATALOGD=%s", catalogd);
    expect_status(run_shell(settings,
                            "cd '%s' && '%s' scenario no-such-name; '%s' demo --scale 200 --requests 20 "
                            "--delay 1 --json j.json --html h.html && test -s j.json && test -s h.html",
                            folder, absolute, absolute),
                  HELD);
    expect_said("no-such-name: neither a file nor one of the scenarios in /");
}

/* Copied away from its project it cannot know where that is. */
TEST(away_from_its_project_it_says_where_to_go)
{
    expect_status(
        run_shell(NULL, "cp '%s' '%s/stampede' && cd '%s' && exec ./stampede demo", program, folder, folder),
        BAD_USAGE);
    expect_said("go to the project's folder");
}

/* ---- what may not hold ---- */

/* Whoever is served nothing but errors has failed, whatever else is expected of it. */
TEST(that_nobody_fails_stays_expected_beside_other_expectations, P104)
{
    const char *broken = url_of(HERD_SERVER_HTTP, "/status/503"),
               *missing = url_of(HERD_SERVER_HTTP, "/none");
    expect_status(
        TOOL("--url", broken, "--burst", "150", "--expect", "answered = 100%", "--expect", "max <= 60s"),
        DID_NOT_HOLD);
    expect_said("failed = 0: 150 of 150 (100%)");
    expect_status(TOOL("--url", broken, "--burst", "150", "--expect", "failed = 100%"), HELD);
    expect_status(TOOL("--url", missing, "--burst", "5", "--expect", "answered = 100%"), DID_NOT_HOLD);
    expect_said("failed = 0: not known: nothing was served");
    expect_status(TOOL("--url", missing, "--burst", "5", "--expect", "status 404 = 100%"), HELD);
    expect_said("failed = 0: 0 of 5");
}

static bool set_up(void)
{
    const char *service = getenv("CATALOGD");
    unsetenv("GITHUB_STEP_SUMMARY"); /* of the job that these tests are a part of */
    snprintf(program, sizeof program, "%s", service != NULL ? service : "build/catalogd");
    char *slash = strrchr(program, '/');
    strcpy(slash != NULL ? slash : program, slash != NULL ? "/stampede" : "stampede");
    if (!proc_folder("tool", NULL, folder) || !herd_server_start(&server))
        return false;
    snprintf(output_path, sizeof output_path, "%s/output", folder);
    for (size_t i = 0; i < HERD_SERVER_PORTS; i++)
        snprintf(urls[i], sizeof urls[i], "http://127.0.0.1:%u", (unsigned)server.ports[i]);
    return true;
}

static bool tear_down(void)
{
    herd_server_stop(&server);
    return true;
}

TEST_GROUP(.up = set_up, .down = tear_down);

/* ---- with servers of our own ---- */

static bool services_up(void)
{
    return set_up() && fleet_up();
}

static bool services_down(void)
{
    tear_down();
    return fleet_down();
}

/* The example for a service of one's own, against processes that the tester has not started. */
static int run_own_service(const char *set)
{
    char target[64], database[160], redis[96], log[160];
    snprintf(target, sizeof target, "TARGET=127.0.0.1:%u", (unsigned)fleet.catalogd[0].port);
    snprintf(database, sizeof database, "DATABASE=%s", fleet.postgres.url);
    snprintf(redis, sizeof redis, "REDIS=%s", fleet.redis.url);
    snprintf(log, sizeof log, "LOG=%s", fleet.postgres.log_path);
    return TOOL("scenario", "own-service", "--set", target, "--set", database, "--set", redis, "--set", log,
                "--set", "MOST=60s", "--set", set);
}

TEST(the_example_for_ones_own_service_holds_for_ours_and_deletes_one_key, P102)
{
    char key[FLEET_KEY_BYTES], set[FLEET_KEY_BYTES + 8];
    assert_true(fleet_start(2, (const char *const[]){"LOAD_DELAY_MS=20", NULL}));
    fleet_redis_key(key, 7, 'v');
    freeReplyObject(stack_redis_command(&fleet.redis, "SET somebody-elses 1"));
    snprintf(set, sizeof set, "KEY=%s", key);
    expect_status(run_own_service(set), HELD);
    expect_said("loads per key <= 2: 2");
    assert_int_equal(fleet_redis_number("EXISTS", "somebody-elses"), 1);
    expect_status(run_own_service("KEY=no-such-key"), DID_NOT_HOLD);
    expect_said("del 'no-such-key' said 0, not 1");
    assert_int_equal(fleet_redis_number("EXISTS", "somebody-elses"), 1);
}

/* README's one line: no log, no text. */
TEST(with_a_database_alone_it_counts_what_its_log_has)
{
    char url[96];
    assert_true(fleet_start(2, (const char *const[]){"LOAD_DELAY_MS=20", NULL}));
    snprintf(url, sizeof url, "http://127.0.0.1:%u/products/7", (unsigned)fleet.catalogd[0].port);
    expect_status(TOOL("--url", url, "--burst", "200", "--database", fleet.postgres.url, "--expect",
                       "loads per expiry <= 1"),
                  HELD);
    expect_said("loads per expiry <= 1: ");
    expect_status(TOOL("--url", url, "--burst", "5", "--database", fleet.postgres.url, "--queries",
                       "FROM products", "--expect", "loads = 0"),
                  HELD);
}

/* Each of 10 requests asks the database, 8 at a time, and a life of 60 s makes one expiry of each key. */
TEST(a_service_that_shields_nothing_does_not_hold)
{
    char target[32];
    const char *json = path_of("unguarded.json"), *database = fleet.postgres.url;
    assert_true(stack_postgres_log_ends(&fleet.postgres, true));
    assert_true(
        fleet_start(1, (const char *const[]){"GUARD_MODE=off", "FRESH_MS=1", "STALE_MS=0", "JITTER_PERCENT=0",
                                             "MAX_LOADS=8", "LOAD_DELAY_MS=1000", NULL}));
    snprintf(target, sizeof target, "127.0.0.1:%u", (unsigned)fleet.catalogd[0].port);
    pid_t pid =
        start((const char *const[]){"--target", target, "--url", "/products/{each:7-9}", "--burst", "10",
                                    "--database", database, "--queries", FLEET_LOAD_PRODUCT, "--ttl", "60s",
                                    "--json", json, "--expect", "most loads per expiry <= 1", NULL});
    bool ran_at_once = fleet_wait_running(FLEET_LOAD_PRODUCT, 8);
    expect_status(finish(pid), DID_NOT_HOLD);
    assert_true(ran_at_once);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 10);
    expect_said("asked 10 times for 3 expiries: up to 4 times for one (key 7, ");
    expect_said("NOT HELD  most loads per expiry <= 1: 4 (key 7, ");
    assert_true(read_report(json)->has_peak);
    assert_int_equal(report.results[0]->peak_running, 8);
    expect_status(TOOL("--target", target, "--url", "/products/7", "--burst", "2", "--rounds", "2",
                       "--database", database, "--queries", FLEET_LOAD_PRODUCT, "--expect",
                       "loads per expiry <= 9"),
                  DID_NOT_HOLD);
    expect_said("asked 4 times for 1 key.");
    expect_said("! Loads per expiry: not known: how long a value lives was not said (--ttl)");
    expect_said("NOT HELD  loads per expiry <= 9: not known: how long a value lives was not said (--ttl)");
    assert_true(stack_postgres_log_ends(&fleet.postgres, false));
}

TEST(keys_from_a_file_are_those_of_writes_too, P106)
{
    char url[160], write[200];
    const char *keys = write_file("keys", "1\n2\n3\n"), *others = write_file("others", "1\n");
    snprintf(url, sizeof url, "%s{@%s}", url_of(HERD_SERVER_HTTP, "/key/"), keys);
    snprintf(write, sizeof write, "every 50ms keys @%s sql \"SELECT '{key}'::int + 100\"", keys);
    expect_status(TOOL("--url", url, "--rate", "300", "--for", "2s", "--database", fleet.postgres.url,
                       "--write", write, "--version-after", "\"version\": ", "--expect", "stale answers > 0",
                       "--expect", "requests = 600"),
                  HELD);
    snprintf(write, sizeof write, "every 50ms keys @%s sql \"SELECT {key}\"", others);
    expect_status(TOOL("--url", url, "--database", fleet.postgres.url, "--write", write), BAD_USAGE);
    expect_said("no URL has its keys from");
}

/* ---- cold rounds ---- */

#define COLD(...)                                                                                            \
    TOOL("--url", url, "--burst", "20", "--rounds", "3", "--redis", fleet.redis.url, "--database",           \
         fleet.postgres.url, "--count", count, "--queries", FLEET_LOAD_PRODUCT, __VA_ARGS__)

TEST(a_round_finds_the_key_that_was_deleted_before_it_cold, P102)
{
    char key[FLEET_KEY_BYTES], line[FLEET_KEY_BYTES + 16], url[80], count[160];
    assert_true(fleet_start(2, (const char *const[]){"LOAD_DELAY_MS=20", NULL}));
    fleet_redis_key(key, 7, 'v');
    snprintf(line, sizeof line, "redis del %s", key);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/products/7", (unsigned)fleet.catalogd[0].port);
    snprintf(count, sizeof count, "log:%s", fleet.postgres.log_path);
    expect_status(COLD("--before-round", line, "--expect", "loads = 3", "--expect", "cache hit = 0", "--ttl",
                       "60s", "--expect", "loads per expiry <= 1"),
                  HELD);
    expect_status(COLD("--before-round", line, "--before-round", "GET /products/7", "--pause", "50ms",
                       "--expect", "cache hit = 60"),
                  HELD);
    expect_status(COLD("--before-round", "redis no-such-command x"), NOT_RUN);
    expect_said("redis no-such-command: ERR unknown command");
    expect_status(COLD("--before-round", "GET /no/such/path"), NOT_RUN);
    expect_said("GET /no/such/path: status 404");
}

TEST(a_round_begins_when_the_key_has_expired, P102)
{
    char key[FLEET_KEY_BYTES], url[80], count[160];
    assert_true(fleet_start(2, (const char *const[]){"LOAD_DELAY_MS=20", "FRESH_MS=400", "JITTER_PERCENT=0",
                                                     "STALE_MS=0", NULL}));
    fleet_redis_key(key, 8, 'v');
    snprintf(url, sizeof url, "http://127.0.0.1:%u/products/8", (unsigned)fleet.catalogd[0].port);
    snprintf(count, sizeof count, "log:%s", fleet.postgres.log_path);
    expect_status(COLD("--at-expiry", key), NOT_RUN);
    expect_said("load it first: --before-round 'GET URL'");
    expect_status(COLD("--before-round", "GET /products/8", "--at-expiry", key, "--expect", "cache hit = 0",
                       "--expect", "loads >= 4", "--expect", "loads per expiry <= 1"),
                  HELD);
    freeReplyObject(stack_redis_command(&fleet.redis, "SET forever 1"));
    expect_status(COLD("--at-expiry", "forever"), NOT_RUN);
    expect_said("the key forever never expires");
}

/* ---- TLS ---- */

static struct stack_certificates certificates;
static struct rival front; /* an nginx that ends TLS before the server */

static const char front_configuration[] =
    "daemon off;\npid nginx.pid;\nworker_processes 1;\nevents { worker_connections 1024; }\n"
    "http {\n"
    "  log_format lines escape=json '{\"msec\":\"$msec\",\"request\":\"$request\"}';\n"
    "  access_log requests lines;\n  client_body_temp_path body;\n  proxy_temp_path temp;\n  "
    "fastcgi_temp_path temp;\n"
    "  uwsgi_temp_path temp;\n  scgi_temp_path temp;\n"
    "  server { listen 127.0.0.1:{port} ssl default_server;\n" /* whoever names nobody */
    "    ssl_certificate %s/other.pem; ssl_certificate_key %s/other.key; }\n"
    "  server {\n"
    "    listen 127.0.0.1:{port} ssl;\n    server_name localhost;\n"
    "    ssl_certificate %s/shop.pem;\n    ssl_certificate_key %s/shop.key;\n"
    "    location / { proxy_pass http://127.0.0.1:%u; proxy_http_version 1.1; }\n"
    "  }\n"
    "}\n";

static bool takes_connections(void *rival)
{
    const struct rival *nginx = rival;
    int fd = net_connect_by("127.0.0.1", nginx->port, clock_after_ms(1000));
    bool is_up = fd != -1;
    net_shut(&fd);
    return is_up;
}

static void front_up(void)
{
    char text[RIVAL_FILE_BYTES];
    assert_true(stack_certificates_start(&certificates));
    assert_true(stack_certificates_issue(&certificates, "shop", "DNS:localhost", -1, 1));
    assert_true(stack_certificates_issue(&certificates, "other", "DNS:elsewhere.example", -1, 1));
    snprintf(text, sizeof text, front_configuration, certificates.folder, certificates.folder,
             certificates.folder, certificates.folder, (unsigned)server.ports[HERD_SERVER_HTTP]);
    assert_true(nginx_start_as(&front, text, takes_connections));
}

static bool front_down(void)
{
    rival_stop(&front);
    stack_certificates_stop(&certificates);
    return true;
}

TEST(a_service_behind_tls_is_asked_by_its_name, P106)
{
    char url[96], large[96];
    front_up();
    snprintf(url, sizeof url, "https://localhost:%u/key/{1-9}", (unsigned)front.port);
    snprintf(large, sizeof large, "https://localhost:%u/bytes/300000", (unsigned)front.port);
    herd_server_forget(&server);
    expect_status(TOOL("--url", url, "--cacert", certificates.ca, "--burst", "50", "--rounds", "3", "--warm",
                       large, "--expect", "status 200 = 150"),
                  HELD);
    assert_int_equal(server.seen->requests[HERD_SERVER_HTTP], 151);
    expect_status(TOOL("--url", url, "--insecure", "--rate", "100", "--for", "1s", "--close", "--expect",
                       "status 200 = 100"),
                  HELD);
    expect_status(TOOL("--url", large, "--cacert", certificates.ca, "--burst", "10", "--rounds", "2",
                       "--expect", "status 200 = 20", "--expect", "failed = 0"),
                  HELD);
    expect_said("received, MB                                  6.0");
    front_down();
}

TEST(a_certificate_that_is_not_trusted_is_refused_by_name, P106)
{
    char localhost[64], address[64], plain[64], folder_path[CERTIFICATES_PATH_BYTES];
    front_up();
    snprintf(localhost, sizeof localhost, "https://localhost:%u/", (unsigned)front.port);
    snprintf(address, sizeof address, "https://127.0.0.1:%u/", (unsigned)front.port);
    snprintf(plain, sizeof plain, "https://127.0.0.1:%u/", (unsigned)server.ports[HERD_SERVER_HTTP]);
    expect_status(TOOL("--url", localhost), BAD_USAGE);
    expect_said("its certificate is not trusted: ");
    expect_said("name its authority with --cacert FILE, or do without with --insecure");
    expect_status(TOOL("--url", address, "--cacert", certificates.ca), BAD_USAGE);
    expect_said("its certificate is not trusted: IP address mismatch");
    expect_status(TOOL("--url", plain, "--insecure"), BAD_USAGE);
    expect_said("is that a port for http://?");
    expect_status(TOOL("--url", localhost, "--cacert", "/no/such/file"), BAD_USAGE);
    expect_said("cacert /no/such/file: No such file or directory");
    expect_status(
        TOOL("--url", localhost, "--cacert", stack_certificates_path(&certificates, "shop.key", folder_path)),
        BAD_USAGE);
    expect_said("cacert ");
    front_down();
}

/* ---- a witness for any origin ---- */

/* Its process; the log is path_of("statements"). */
static pid_t proxy_up(const char *protocol, uint16_t origin, uint16_t *port)
{
    char route[64];
    *port = net_free_port();
    snprintf(route, sizeof route, "127.0.0.1:%u=127.0.0.1:%u", (unsigned)*port, (unsigned)origin);
    unlink(path_of("statements"));
    pid_t pid = start((const char *const[]){"proxy", protocol, route, "--log", path_of("statements"), NULL});
    wait_until_said("; Ctrl-C ends it");
    return pid;
}

static void proxy_down(pid_t pid)
{
    assert_true(proc_stop(&pid, SIGINT, LIMIT_MS));
}

/* Twenty of them and four once more, by this client, while the server is asked something else. */
static int count_through_proxy(const char *client, const char *expect)
{
    char count[PROC_PATH_BYTES + 48], run[640];
    snprintf(count, sizeof count, "log:%s", path_of("statements"));
    snprintf(run, sizeof run,
             "1ms run \"for id in $(seq 20) 3 5 7 9; do echo \\\"SELECT n FROM goods WHERE id = $id;\\\"; "
             "done | %s\"",
             client);
    return TOOL("--url", url_of(HERD_SERVER_HTTP, "/key/{each:1-20}"), "--rate", "100", "--for", "500ms",
                "--count", count, "--queries", "FROM goods", "--ttl", "60s", "--at", run, "--expect", expect,
                "--expect", "loads per expiry <= 1.2", "--expect", "loads at once <= 1");
}

/* nginx is the origin. */
TEST(requests_in_an_origins_access_log_are_its_loads)
{
    char url[64], count[PROC_PATH_BYTES + 48];
    front_up();
    snprintf(url, sizeof url, "https://localhost:%u/key/{each:1-20}", (unsigned)front.port);
    snprintf(count, sizeof count, "log:%s/requests", front.folder);
    expect_status(TOOL("--url", url, "--insecure", "--rate", "100", "--for", "500ms", "--count", count,
                       "--queries", "/key/", "--ttl", "60s", "--expect", "loads = 50", "--expect",
                       "loads per expiry = 2.5"),
                  HELD);
    expect_status(TOOL("--url", url, "--insecure", "--burst", "9", "--count", count, "--queries", "/key/",
                       "--expect", "loads at once = 1"),
                  DID_NOT_HOLD);
    front_down();
}

TEST(the_proxys_count_is_that_of_postgresqls_log)
{
    uint16_t port;
    char client[160];
    assert_true(stack_postgres_query(fleet.postgres.url, "CREATE TABLE IF NOT EXISTS goods (id int, n int)",
                                     NULL, 0));
    pid_t pid = proxy_up("postgres", fleet.postgres.port, &port);
    snprintf(client, sizeof client, "psql -qX -v ON_ERROR_STOP=1 postgresql://postgres@127.0.0.1:%u/postgres",
             (unsigned)port);
    uint64_t mark = stack_postgres_mark(&fleet.postgres);
    expect_status(count_through_proxy(client, "loads = 24"), HELD);
    assert_int_equal(stack_postgres_count(&fleet.postgres, mark, "FROM goods"), 24);
    proxy_down(pid);
}

static void mariadb_prints(uint16_t port, const char *statement, char *line, size_t line_bytes)
{
    char command[256];
    snprintf(command, sizeof command,
             "mariadb --no-defaults -h 127.0.0.1 -P %u -u root --skip-ssl -N -B -e \"%s\"", (unsigned)port,
             statement);
    assert_true(rival_first_line(command, line, line_bytes));
}

TEST(loads_of_a_service_over_mariadb_are_counted)
{
    struct rival mariadb = {.pid = 0};
    uint16_t port;
    char client[160], prepared[64], before[32], after[32];
    if (access("/usr/sbin/mariadbd", X_OK) != 0)
        test_skip("no mariadbd: sh load/deps.sh mariadb");
    const struct rival_plan plan = {
        .name = "mariadb",
        .arguments = (const char *const[]){"/bin/sh", "-c",
                                           "mariadb-install-db --no-defaults --datadir={folder}/data "
                                           "--auth-root-authentication-method=normal >/dev/null && "
                                           "exec /usr/sbin/mariadbd --no-defaults --datadir={folder}/data "
                                           "--socket={folder}/socket --port={port} --bind-address=127.0.0.1",
                                           NULL},
        .user = proc_plain_user(),
        .is_up = takes_connections};
    assert_true(rival_start(&mariadb, &plan));
    mariadb_prints(mariadb.port, "CREATE TABLE test.goods (id int, n int); SELECT 1", before, sizeof before);
    pid_t pid = proxy_up("mysql", mariadb.port, &port);
    snprintf(client, sizeof client, "mariadb --no-defaults -h 127.0.0.1 -P %u -u root --skip-ssl test",
             (unsigned)port);
    snprintf(prepared, sizeof prepared, "/usr/bin/python3 tests/support/prepared.py %u", (unsigned)port);
    mariadb_prints(mariadb.port, "SHOW GLOBAL STATUS LIKE 'Com_select'", before, sizeof before);
    expect_status(count_through_proxy(client, "loads = 24"), HELD);
    expect_status(count_through_proxy(prepared, "loads = 24"), HELD);
    mariadb_prints(mariadb.port, "SHOW GLOBAL STATUS LIKE 'Com_select'", after, sizeof after);
    assert_in_range(strtoul(strpbrk(after, "0123456789"), NULL, 10) -
                        strtoul(strpbrk(before, "0123456789"), NULL, 10),
                    48, 51); /* the client asks for its version, too */
    proxy_down(pid);
    rival_stop(&mariadb);
}

TEST(requests_to_an_http_origin_are_its_loads)
{
    uint16_t port;
    char url[64], count[PROC_PATH_BYTES + 48];
    pid_t pid = proxy_up("http", server.ports[HERD_SERVER_HTTP], &port);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/key/{each:1-20}", (unsigned)port);
    snprintf(count, sizeof count, "log:%s", path_of("statements"));
    herd_server_forget(&server);
    expect_status(TOOL("--url", url, "--rate", "100", "--for", "500ms", "--count", count, "--queries",
                       "/key/", "--ttl", "60s", "--expect", "loads = 50", "--expect",
                       "loads per expiry = 2.5"),
                  HELD);
    assert_int_equal(server.seen->requests[HERD_SERVER_HTTP], 50);
    proxy_down(pid);
}

TEST_GROUP(.up = services_up, .down = services_down, .after = fleet_end);
