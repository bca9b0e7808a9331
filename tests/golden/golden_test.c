/* SPDX-License-Identifier: MIT */
/*
 * golden_test.c - what others rely on byte for byte, compared with the files beside this one:
 *
 *   redis.txt     what two guards send to Redis, what their scripts store and publish there: keys, entries, tokens
 *                 and messages as MONITOR shows them. Each line once, sorted; what chance and time make is named <so>
 *   metrics.txt   names and types of /metrics, and the labels of each with their values, each once
 *   http.txt      refusals: all texts of the catalog and of writes, and some answers of both listeners with their
 *                 heads
 *
 * `make golden` writes the files anew when a change is meant; the difference then belongs to the commit. Not repeated
 * here: every byte of an entry with its checksum (unit/envelope_test: the_layout_is_the_published_one), how odd and
 * long keys are spelled (unit/key_test), what is wrong with a setting and what --help says of it
 * (unit/settings_test), which options there are (install/package_test).
 */
#include "app/http/answer.h"
#include "app/http/upload.h"
#include "app/write/write.h"
#include "load/base/home.h"
#include "load/base/http.h"
#include "tests/live/guard/guard_rig.h"
#include "tests/support/files.h"

#include <hiredis/hiredis.h>
#include <regex.h>
#include <signal.h>

enum { ANSWER_LIMIT_MS = 20000, LINES_MAX = 8192, FAMILY_BYTES = 2048, LABEL_BYTES = 128 };

/* Text that is compared with a file, or written there: GOLDEN in the environment, which `make golden` sets. */
struct golden {
    FILE *out; /* where the text goes */
    char *text;
    size_t bytes;
};

static void assert_same_lines(const char *name, const char *known, const char *text)
{
    for (unsigned line = 1; *known != '\0' || *text != '\0'; line++) {
        const size_t known_bytes = strcspn(known, "\n"), bytes = strcspn(text, "\n");
        if (known_bytes != bytes || memcmp(known, text, bytes) != 0)
            fail_msg("tests/golden/%s:%u\n  is    %.*s\n  known %.*s\nIf that is meant, run `make golden` "
                     "and say why in the commit.",
                     name, line, (int)bytes, text, (int)known_bytes, known);
        known += known_bytes + (known[known_bytes] != '\0');
        text += bytes + (text[bytes] != '\0');
    }
}

static void golden_open(struct golden *golden)
{
    *golden = (struct golden){.out = NULL};
    golden->out = open_memstream(&golden->text, &golden->bytes);
    assert_non_null(golden->out);
}

/* Fails with the first line that differs. */
static void golden_close(struct golden *golden, const char *name)
{
    char file[64], path[HOME_PATH_BYTES];
    snprintf(file, sizeof file, "tests/golden/%s", name);
    home_path(file, path);
    assert_int_equal(fclose(golden->out), 0);
    if (getenv("GOLDEN") != NULL)
        file_write(path, golden->text);
    char *known = access(path, R_OK) == 0 ? file_read(path, NULL) : strdup("");
    assert_same_lines(name, known, golden->text);
    free(known);
    free(golden->text);
}

/* ---- a catalogd without servers ---- */

static struct stack_catalogd lonely;

static bool start_lonely(void)
{
    static const char *const SETTINGS[] = {"REDIS_URL=unix:///nowhere/redis.sock",
                                           "DATABASE_URL=host=/nowhere", NULL};
    return stack_catalogd_start(&lonely, SETTINGS);
}

static bool stop_lonely(void)
{
    proc_stop(&lonely.pid, SIGTERM, ANSWER_LIMIT_MS);
    return true;
}

/* The labels of one of its series, those that are new. */
static void add_labels(char family[FAMILY_BYTES], char *series)
{
    char *rest = NULL;
    strtok_r(series, "{", &rest);
    for (const char *label; (label = strtok_r(NULL, ",}", &rest)) != NULL;) {
        char added[LABEL_BYTES];
        snprintf(added, sizeof added, " %s", label);
        if (strstr(family, added) != NULL)
            continue;
        assert_true(strlen(family) + strlen(added) < FAMILY_BYTES);
        strcat(family, added);
    }
}

TEST(metrics_have_their_names)
{
    static const char TYPE[] = "# TYPE ";
    struct http_request request = {
        .host = "127.0.0.1", .port = lonely.ops_port, .path = "/metrics", .deadline_ms = ANSWER_LIMIT_MS};
    struct http_answer answer;
    struct golden golden;
    char *rest = NULL, family[FAMILY_BYTES] = "";
    assert_true(http_ask(&request, &answer));
    golden_open(&golden);
    for (char *line = strtok_r(answer.body, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, TYPE, strlen(TYPE)) == 0) {
            fprintf(golden.out, "%s%s", family, family[0] != '\0' ? "\n" : "");
            snprintf(family, sizeof family, "%s", line + strlen(TYPE));
        } else if (line[0] != '#') {
            *strrchr(line, ' ') = '\0';
            add_labels(family, line);
        }
    }
    fprintf(golden.out, "%s\n", family);
    http_answer_clear(&answer);
    golden_close(&golden, "metrics.txt");
}

/* ---- refusals ---- */

static void add_answer(FILE *out, const char *of, const struct answer *answer)
{
    fprintf(out, "%s\n  %u %s, %s%s%s%s%s%s\n  %s\n", of, answer->status, answer->content_type,
            answer->cache_control, answer->allow != NULL ? ", Allow: " : "",
            answer->allow != NULL ? answer->allow : "",
            answer->retry_after[0] != '\0' ? ", Retry-After: " : "", answer->retry_after,
            answer->close ? ", closes" : "", answer->text);
}

static void add_tables(FILE *out)
{
    struct answer answer;
    for (int problem = 0; problem < PROBLEM_COUNT; problem++) {
        answer_problem((enum problem)problem, "/products/7", &answer);
        add_answer(out, "refused", &answer);
    }
    for (int outcome = 0; outcome < WRITE_OUTCOME_COUNT; outcome++) {
        const struct write_result result = {.outcome = (enum write_outcome)outcome, .version = 3, .stock = 2};
        upload_answer(&result, WRITE_PURCHASE, 7, "/products/7/purchase", &answer);
        add_answer(out, write_outcome_name((enum write_outcome)outcome), &answer);
    }
}

static void name_load(char *line)
{
    char *load = strstr(line, "; load=\"");
    if (load != NULL)
        memset(load + strlen("; load=\""), 'x', 16);
}

static void add_exchange(FILE *out, uint16_t port, const char *request)
{
    char bytes[512];
    struct http_raw raw;
    int count = snprintf(
        bytes, sizeof bytes,
        "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: golden\r\nConnection: close\r\n\r\n", request);
    http_raw_ask("127.0.0.1", port, bytes, (size_t)count, ANSWER_LIMIT_MS, &raw);
    fprintf(out, "> %s\n", request);
    char *rest = NULL;
    for (char *line = strtok_r(raw.bytes, "\r\n", &rest); line != NULL; line = strtok_r(NULL, "\r\n", &rest))
        if (strncmp(line, "Date: ", 6) != 0) {
            name_load(line);
            fprintf(out, "  %s\n", line);
        }
    fputc('\n', out);
    http_raw_clear(&raw);
}

TEST(refusals_have_their_texts)
{
    static const char *const CATALOG[] = {
        "GET /ping",          "GET /nothing",        "GET /products/%37",
        "GET /products/x",    "GET /products/7?x=1", "GET /products?ids=1,1",
        "DELETE /products/7", "PUT /products/7",     "GET /products/7"};
    static const char *const OPS[] = {"GET /nothing",
                                      "DELETE /readyz",
                                      "POST /invalidate?key=x",
                                      "POST /invalidate?key=product:7",
                                      "POST /expire?tag=product:7",
                                      "POST /refresh",
                                      "POST /clear",
                                      "POST /policy?FRESH_MS=0&LEASE_MS=1"};
    struct golden golden;
    golden_open(&golden);
    add_tables(golden.out);
    for (size_t i = 0; i < sizeof CATALOG / sizeof *CATALOG; i++)
        add_exchange(golden.out, lonely.port, CATALOG[i]);
    for (size_t i = 0; i < sizeof OPS / sizeof *OPS; i++)
        add_exchange(golden.out, lonely.ops_port, OPS[i]);
    golden_close(&golden, "http.txt");
}

TEST_GROUP(.up = start_lonely, .down = stop_lonely);

/* ---- what goes to Redis ---- */

static const char END[] = "everything was seen";

static redisContext *monitor_start(void)
{
    redisContext *monitor = redisConnectUnix(rig_redis.socket_path);
    assert_true(monitor != NULL && monitor->err == 0);
    redisSetTimeout(monitor, (struct timeval){.tv_sec = RIG_LIMIT_MS / 1000});
    freeReplyObject(redisCommand(monitor, "MONITOR"));
    return monitor;
}

/* All that it shows until END is echoed. */
static size_t monitor_read(redisContext *monitor, char *lines[LINES_MAX])
{
    for (size_t count = 0; count < LINES_MAX; count++) {
        redisReply *reply = NULL;
        assert_int_equal(redisGetReply(monitor, (void **)&reply), REDIS_OK);
        lines[count] = strdup(reply->str);
        freeReplyObject(reply);
        if (strstr(lines[count], END) != NULL) {
            free(lines[count]);
            return count;
        }
    }
    fail_msg("more than %d commands", LINES_MAX);
    return 0;
}

/* Replaces whatever the pattern matches. */
static void name_all(char **line, const char *pattern, const char *name)
{
    regex_t regex;
    regmatch_t match;
    char *out = NULL;
    size_t out_bytes = 0;
    FILE *file = open_memstream(&out, &out_bytes);
    const char *at = *line;
    assert_non_null(file);
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED), 0);
    for (; regexec(&regex, at, 1, &match, at == *line ? 0 : REG_NOTBOL) == 0; at += match.rm_eo)
        fprintf(file, "%.*s%s", (int)match.rm_so, at, name);
    fputs(at, file);
    fclose(file);
    regfree(&regex);
    free(*line);
    *line = out;
}

static void name_what_varies(char **line)
{
    static const char *const NAMES[][2] = {
        {"^[0-9.]+ \\[0 lua\\] ", "  "},
        {"^[0-9.]+ \\[[^]]*\\] ", ""},
        {"\"EVALSHA\" \"[0-9a-f]{40}\"", "\"EVALSHA\" <script>"},
        {"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"},
        {"[^ ]+:[0-9]+ [0-9]{10}\"", "<host:pid> <since>\""},
        {"csg3 v ---------- - [0-9]{13}", "csg3 v ---------- - <load_us>"},
        {"csg3 a ---------- - [0-9]{13}", "csg3 a ---------- - <load_us>"},
        {"[0-9]{16}\\.", "<era>."},
        {"<era>\\.0?[1-9][0-9]{10,}", "<era>.<ms since 2026>"},
        {"[0-9a-f]{40}", "<40 hex>"},
        {"[0-9a-f]{16}", "<16 hex>"},
        {"\"c <uuid> [0-9]+\"", "\"c <uuid> <count>\""},
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        name_all(line, NAMES[i][0], NAMES[i][1]);
}

/* Of a script only what it stores and publishes; how it finds out is the script's. */
static bool is_kept(const char *line)
{
    if (line[0] == ' ')
        return strncmp(line, "  \"SET\"", 7) == 0 || strncmp(line, "  \"PUBLISH\"", 11) == 0;
    return strstr(line, "\"csg1:") != NULL && strncmp(line, "\"SCRIPT\"", 8) != 0;
}

static int in_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_lines(FILE *out, char **lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        name_what_varies(&lines[i]);
    qsort(lines, count, sizeof *lines, in_order);
    for (size_t i = 0; i < count; i++)
        if (is_kept(lines[i]) && (i + 1 == count || strcmp(lines[i], lines[i + 1]) != 0))
            fprintf(out, "%s\n", lines[i]);
}

static void load(struct guard_load *load, void *source)
{
    const char *previous = guard_load_previous_validator(load);
    if (previous != NULL && previous[0] != '\0')
        guard_load_unchanged(load);
    else
        source_load(load, source);
}

/* Whoever waits for a permit and is cancelled leaves the queue. */
static void leave_queue(void)
{
    struct ask leaver;
    ask_start(1, &leaver, "other");
    WAIT_UNTIL(redis_number("ZCARD", "sem:load", 'q') == 1);
    guard_cancel(fleet.guards[1], NULL, leaver.ticket);
    ask_wait(&leaver);
    ask_clear(&leaver);
    WAIT_UNTIL(redis_number("ZCARD", "sem:load", 'q') == 0);
}

/* 0 leads behind the gate; 1 waits for its value, and with another key for its permit, until all has been renewed and
 * asked for again. */
static void wait_for_each_other(void)
{
    struct ask leader, waiter, queued;
    source_shut(&fleet.source);
    ask_start(0, &leader, "slow");
    WAIT_UNTIL(atomic_load(&fleet.source.running) == 1);
    leave_queue();
    ask_start(1, &waiter, "slow");
    ask_start(1, &queued, "other");
    WAIT_UNTIL(stats_of(fleet.guards[1]).wake_polls >= 2);
    WAIT_UNTIL(stats_of(fleet.guards[0]).lease_renewed >= 1 && stats_of(fleet.guards[1]).lease_renewed >= 1);
    source_open(&fleet.source);
    expect_answer(&leader, "slow v1");
    expect_answer(&waiter, "slow v1");
    expect_answer(&queued, "other v1");
}

static void invalidate(void)
{
    struct guard_invalidated invalidated;
    char id[GUARD_CACHE_ID_BYTES + 1];
    guard_invalidate_wait(fleet.guards[0], KEY_CHANGE("product:7", 0), &invalidated);
    assert_true(invalidated.status == GUARD_OK && invalidated.value_dropped);
    guard_invalidate_wait(fleet.guards[0], TAG_CHANGE("cat:7", 0), &invalidated);
    assert_int_equal(invalidated.status, GUARD_OK);
    WAIT_UNTIL(guard_cache(fleet.guards[0], id));
}

static void play(void)
{
    expect_row(0, "product:7", "product:7 v1");
    age_value("product:7", 4500); /* stale */
    expect_row(1, "product:7", "product:7 v1");
    WAIT_UNTIL(stats_of(fleet.guards[1]).load_unchanged == 1);
    wait_for_each_other();
    atomic_store(&fleet.source.verdict, SOURCE_ABSENT);
    expect(0, "a{b} c", GUARD_ABSENT);
    atomic_store(&fleet.source.verdict, SOURCE_FAIL);
    expect(0, "broken", GUARD_FAILED);
    invalidate();
}

TEST(redis_hears_what_it_heard)
{
    static char *lines[LINES_MAX];
    struct golden golden;
    redisContext *monitor = monitor_start();
    fleet.config.load_permits = 1;
    fleet.config.redis_limit_ms = 3000;
    fleet.config.permit_ms = 9000;
    fleet.policy.lease_ms = 10500; /* renewed after the permit */
    fleet.policy.stale_ms = 5000;
    fleet.policy.tagged = true;
    fleet.policy.loader = load;
    fleet.source.tag = "cat:7";
    fleet.source.validator = "v1";
    fleet_open(2);
    play();
    fleet_close();
    freeReplyObject(stack_redis_command(&rig_redis, "ECHO %s", END));
    size_t count = monitor_read(monitor, lines);
    redisFree(monitor);
    golden_open(&golden);
    add_lines(golden.out, lines, count);
    for (size_t i = 0; i < count; i++)
        free(lines[i]);
    golden_close(&golden, "redis.txt");
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before);
