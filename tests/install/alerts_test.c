/* SPDX-License-Identifier: MIT */
/*
 * alerts_test.c - what an operator's Prometheus makes of a process that writes: promtool reads its metrics and our
 * rules, every number that a rule, the dashboard or the runbook names is there, and a rule fires when its cause is
 * real.
 */
#include "load/base/clock.h"
#include "load/base/net.h"
#include "tests/support/files.h"
#include "tests/support/probe.h"
#include "tests/support/test.h"
#include "tests/support/writes.h"

#include <ctype.h>
#include <jansson.h>
#include <signal.h>

enum { TOOL_LIMIT_MS = 30000, TEXT_BYTES = 512, FILE_BYTES = 65536 };

static const char RULES[] = "app/deploy/alerts.yml", TESTS[] = "app/deploy/alerts_test.yml",
                  BOARD[] = "app/deploy/dashboard.json", RUNBOOK[] = "app/deploy/RUNBOOK.md";

static char folder[PROC_PATH_BYTES];
static struct http_answer metrics; /* of a process with everything on */

static bool start(void)
{
    return fleet_start(1, writes_settings((const char *const[]){"NEAR_MS=1000", "LOAD_PERMITS=4",
                                                                "PERMIT_MS=15000", NULL})) &&
           fleet_wait_registered(0) && fleet_ask_ops(0, NULL, "/metrics", &metrics);
}

static bool up(void)
{
    return proc_folder("alerts", NULL, folder) && writes_up() && start();
}

static bool down(void)
{
    http_answer_clear(&metrics);
    return fleet_end() && fleet_down();
}

/* ---- files ---- */

static char *read_file(const char *path)
{
    static char text[FILE_BYTES];
    assert_true(file_look(path, text, sizeof text));
    assert_in_range(strlen(text), 1, sizeof text - 2);
    return text;
}

static const char *in_folder(const char *name)
{
    static char path[PROC_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void promtool(const char *arguments, const char *path)
{
    char command[TEXT_BYTES], said[2048] = "";
    snprintf(command, sizeof command, "promtool %s '%s'", arguments, path);
    if (!proc_output(command, said, sizeof said))
        fail_msg("%s: %s", command, said);
}

/* ---- numbers ---- */

static bool is_metric(const char *name, size_t bytes)
{
    const char *text = metrics.body;
    for (const char *at = strstr(text, "\n"); at != NULL; at = strstr(at + 1, "\n"))
        if (strncmp(at + 1, name, bytes) == 0 && (at[1 + bytes] == '{' || at[1 + bytes] == ' '))
            return true;
    return false;
}

/* Every word of the text that looks like a metric is one of the process's. Returns how many there were. */
static size_t check_names(const char *path, const char *text)
{
    static const char *const PREFIXES[] = {"guard_", "catalogd_", "process_"};
    size_t found = 0;
    for (size_t i = 0; i < sizeof PREFIXES / sizeof PREFIXES[0]; i++) {
        for (const char *at = strstr(text, PREFIXES[i]); at != NULL; at = strstr(at + 1, PREFIXES[i])) {
            size_t bytes = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
            if (at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))
                continue;
            if (!is_metric(at, bytes) && at[bytes] != '.') {
                char histogram[TEXT_BYTES];
                snprintf(histogram, sizeof histogram, "%.*s_bucket", (int)bytes, at);
                if (!is_metric(histogram, strlen(histogram)))
                    fail_msg("%s: there is no metric %.*s", path, (int)bytes, at);
            }
            found++;
        }
    }
    return found;
}

TEST(promtool_finds_nothing_wrong_with_the_metrics)
{
    assert_int_equal(metrics.status, 200);
    file_write(in_folder("metrics"), metrics.body);
    promtool("check metrics <", in_folder("metrics"));
}

TEST(the_rules_are_right_and_each_fires_where_its_test_says)
{
    promtool("check rules", RULES);
    promtool("test rules", TESTS);
}

TEST(every_number_that_a_rule_the_dashboard_or_the_runbook_names_is_measured)
{
    static const char *const FILES[] = {RULES, TESTS, BOARD, RUNBOOK};
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++)
        assert_in_range(check_names(FILES[i], read_file(FILES[i])), 20, FILE_BYTES);
}

/* ---- the same alerts everywhere ---- */

static bool names(const char *path, const char *before, const char *alert)
{
    char line[TEXT_BYTES];
    snprintf(line, sizeof line, "%s%s\n", before, alert);
    return strstr(read_file(path), line) != NULL;
}

static size_t count(const char *path, const char *text)
{
    size_t found = 0;
    for (const char *at = strstr(read_file(path), text); at != NULL; at = strstr(at + 1, text))
        found++;
    return found;
}

TEST(every_alert_has_a_test_and_a_section_of_the_runbook)
{
    char *rules = strdup(read_file(RULES));
    size_t alerts = 0;
    for (char *at = strstr(rules, "- alert: "); at != NULL; at = strstr(at, "- alert: ")) {
        at += strlen("- alert: ");
        at[strcspn(at, "\n")] = '\0';
        if (!names(TESTS, "      - alertname: ", at))
            fail_msg("%s has no test for %s", TESTS, at);
        if (!names(RUNBOOK, "\n## ", at))
            fail_msg("%s has no section %s", RUNBOOK, at);
        at += strlen(at) + 1;
        alerts++;
    }
    free(rules);
    assert_in_range(alerts, 20, 100);
    assert_int_equal(count(RUNBOOK, "\n## Catalogd"), alerts);
}

/* ---- the dashboard ---- */

/* Grafana's variables as Prometheus would get them. */
static void write_expression(FILE *out, size_t number, const char *expression)
{
    static const char *const VARIABLES[][2] = {
        {"$__rate_interval", "5m"}, {"$instance", "a"}, {"$job", "catalogd"}, {"$kind", "a"}};
    fprintf(out, "  - record: expression:%zu\n    expr: |\n      ", number);
    while (*expression != '\0') {
        size_t i = 0;
        while (i < 4 && strncmp(expression, VARIABLES[i][0], strlen(VARIABLES[i][0])) != 0)
            i++;
        if (i < 4)
            fputs(VARIABLES[i][1], out);
        else
            fputc(*expression, out);
        expression += i < 4 ? strlen(VARIABLES[i][0]) : 1;
    }
    fputc('\n', out);
}

TEST(prometheus_understands_every_expression_of_the_dashboard)
{
    json_t *board = json_load_file(BOARD, JSON_REJECT_DUPLICATES, NULL);
    FILE *out = fopen(in_folder("board.yml"), "w");
    size_t expressions = 0, i, j;
    json_t *panel, *target;
    assert_non_null(board);
    assert_non_null(out);
    fputs("groups:\n- name: board\n  rules:\n", out);
    json_array_foreach(json_object_get(board, "panels"), i, panel)
    {
        json_array_foreach(json_object_get(panel, "targets"), j, target)
        {
            write_expression(out, ++expressions, json_string_value(json_object_get(target, "expr")));
        }
    }
    assert_int_equal(fclose(out), 0);
    assert_in_range(expressions, 30, 200);
    promtool("check rules", in_folder("board.yml"));
    json_decref(board);
}

/* ---- a real one ---- */

static struct {
    pid_t pid;
    uint16_t port;
} prometheus;

static bool says(const char *path, const char *text)
{
    struct http_answer answer;
    http_ask(
        &(struct http_request){
            .host = "127.0.0.1", .port = prometheus.port, .path = path, .deadline_ms = FLEET_LIMIT_MS},
        &answer);
    bool found = answer.status == 200 && strstr(answer.body, text) != NULL;
    http_answer_clear(&answer);
    return found;
}

static bool is_up(void *nothing)
{
    (void)nothing;
    return says("/-/ready", "");
}

/* Our rules without their patience, and all of it several times a second. */
static void write_config(void)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "sed '/^    for:/d' %s >'%s'", RULES, in_folder("rules.yml"));
    assert_int_equal(system(text), 0);
    snprintf(text, sizeof text,
             "global: {scrape_interval: 200ms, evaluation_interval: 200ms}\nrule_files: [rules.yml]\n"
             "scrape_configs:\n- job_name: catalogd\n  static_configs: [{targets: ['127.0.0.1:%u']}]\n",
             (unsigned)fleet.catalogd[0].ops_port);
    file_write(in_folder("config.yml"), text);
}

static bool prometheus_start(void)
{
    char config[TEXT_BYTES], data[TEXT_BYTES], listen[64], log[TEXT_BYTES];
    const char *argv[] = {"prometheus", config, data, listen, NULL};
    write_config();
    prometheus.port = net_free_port();
    snprintf(config, sizeof config, "--config.file=%s", in_folder("config.yml"));
    snprintf(data, sizeof data, "--storage.tsdb.path=%s", in_folder("data"));
    snprintf(listen, sizeof listen, "--web.listen-address=127.0.0.1:%u", (unsigned)prometheus.port);
    snprintf(log, sizeof log, "%s", in_folder("log"));
    const struct proc_options options = {.argv = argv, .output_path = log};
    prometheus.pid = proc_start_up(&options, is_up, NULL, TOOL_LIMIT_MS);
    if (prometheus.pid == 0)
        proc_show_tail(log);
    return prometheus.pid != 0;
}

TEST(an_alert_fires_when_redis_is_killed_and_is_over_when_it_is_back)
{
    assert_true(prometheus_start());
    WAIT_UNTIL(says("/api/v1/query?query=up", "\"1\"]"));
    WAIT_UNTIL(!says("/api/v1/rules", "\"health\":\"unknown\""));
    assert_false(says("/api/v1/rules", "\"health\":\"err\""));
    assert_false(says("/api/v1/alerts", "CatalogdRedisDown"));
    stack_redis_kill(&fleet.redis);
    WAIT_UNTIL(says("/api/v1/alerts", "CatalogdRedisDown"));
    assert_true(stack_redis_restart(&fleet.redis));
    WAIT_UNTIL(!says("/api/v1/alerts", "CatalogdRedisDown"));
    assert_true(proc_stop(&prometheus.pid, SIGTERM, TOOL_LIMIT_MS));
}

TEST_GROUP(.up = up, .down = down);
