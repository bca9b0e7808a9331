/* SPDX-License-Identifier: MIT */
/* settings_test.c - every setting right and wrong, by flag and by environment, and against the others. */
#include "app/base/address.h"
#include "app/base/settings.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

enum { MESSAGE_BYTES = 32768, ARGUMENTS_MAX = 12 };

static struct reading {
    enum settings_verdict verdict;
    struct settings settings;
    char messages[MESSAGE_BYTES];
} reading; /* the last one */

/* Both lists end with NULL; flags do not begin with the program's name. */
static void read_settings(const char *const *flags, const char *const *env)
{
    char *argv[ARGUMENTS_MAX + 2] = {"catalogd"};
    char *environment[ARGUMENTS_MAX + 1] = {NULL};
    int argc = 1;
    for (; *flags != NULL; flags++) {
        assert_true(argc <= ARGUMENTS_MAX);
        argv[argc++] = (char *)(uintptr_t)*flags;
    }
    for (size_t i = 0; env[i] != NULL; i++) {
        assert_true(i < ARGUMENTS_MAX);
        environment[i] = (char *)(uintptr_t)env[i];
    }
    memset(&reading, 0, sizeof reading);
    FILE *messages = fmemopen(reading.messages, sizeof reading.messages - 1, "w");
    assert_non_null(messages);
    reading.verdict = settings_read(argc, argv, environment, &reading.settings, messages);
    if (reading.verdict == SETTINGS_HELP)
        settings_print_help(messages);
    fclose(messages);
}

#define LIST(...)                                                                                            \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }
static const char *const nothing[] = {NULL};

static void assert_says(const char *text)
{
    if (strstr(reading.messages, text) == NULL)
        fail_msg("\"%s\" is not in:\n%s", text, reading.messages);
}

static void assert_says_not(const char *text)
{
    if (strstr(reading.messages, text) != NULL)
        fail_msg("\"%s\" is in:\n%s", text, reading.messages);
}

static size_t line_count(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

TEST(without_any_setting_the_defaults_are_right)
{
    read_settings(nothing, nothing);
    assert_string_equal(reading.messages, "");
    assert_int_equal(reading.verdict, SETTINGS_OK);

    const struct settings *s = &reading.settings;
    assert_string_equal(s->listen, "127.0.0.1:8080");
    assert_string_equal(s->ops_listen, "127.0.0.1:8081");
    assert_string_equal(s->guard.redis_url, "redis://127.0.0.1:6379/0");
    assert_string_equal(s->database_url, "postgresql:///catalog");
    assert_string_equal(s->guard.name_space, "catalog");
    assert_string_equal(s->ops_token_file, "");
    assert_int_equal(s->guard.mode, GUARD_MODE_FLEET);
    assert_true(s->prepare);
    const uint32_t numbers[][2] = {
        {s->policy.fresh_ms, 60000},
        {s->policy.stale_ms, 0},
        {s->policy.absent_ms, 10000},
        {s->policy.failure_ms, 1000},
        {s->policy.soft_ms, 0},
        {s->policy.early_percent, 0},
        {s->policy.jitter_percent, 10},
        {s->policy.lease_ms, 3000},
        {s->policy.max_hold_ms, 30000},
        {s->policy.load_limit_ms, 10000},
        {s->policy.deadline_ms, 15000},
        {s->guard.redis_limit_ms, 250},
        {s->guard.max_loads, 8},
        {s->guard.load_queue, 1000},
        {s->guard.max_waiters, 20000},
        {s->max_connections, 16000},
        {s->guard.max_value_bytes, 1048576},
        {s->server_loops, 0},
        {s->shelf_bytes, 32 << 20},
        {s->drain_ms, 5000},
        {s->access_log, SETTINGS_LOG_OFF},
        {s->load_delay_ms, 0},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        assert_int_equal(numbers[i][0], numbers[i][1]);
}

TEST(a_flag_wins_over_the_environment_in_both_spellings)
{
    read_settings(LIST("--fresh-ms", "5", "--stale-ms=7"), LIST("FRESH_MS=6", "STALE_MS=8", "ABSENT_MS=9"));
    assert_int_equal(reading.verdict, SETTINGS_OK);
    assert_int_equal(reading.settings.policy.fresh_ms, 5);
    assert_int_equal(reading.settings.policy.stale_ms, 7);
    assert_int_equal(reading.settings.policy.absent_ms, 9);
}

TEST(a_wrong_environment_under_a_right_flag_does_not_matter)
{
    read_settings(LIST("--fresh-ms", "5"), LIST("FRESH_MS=soon"));
    assert_int_equal(reading.verdict, SETTINGS_OK);
}

TEST(zero_means_zero)
{
    read_settings(nothing, LIST("JITTER_PERCENT=0", "DRAIN_MS=0", "LOAD_QUEUE=0"));
    assert_int_equal(reading.verdict, SETTINGS_OK);
    assert_int_equal(reading.settings.policy.jitter_percent, 0);
    assert_int_equal(reading.settings.drain_ms, 0);
    assert_int_equal(reading.settings.guard.load_queue, 0);
}

/* Each ends with NULL. */
static const struct {
    const char *name;
    const char *values[16];
} wrong[] = {
    {"LISTEN",
     {"", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "[::1:80", "unix:", "a b:80", ":8080",
      "localhost:65536", "off", "::1:80", "[::1]80", "[nonsense]:80", "localhost:80x"}},
    {"OPS_LISTEN", {"", "on", "localhost", "localhost:x", "[fe80]:1", "unix:"}},
    {"OPS_TOKEN_FILE", {"/nonexistent/token"}},
    {"REDIS_URL",
     {"", "127.0.0.1:6379", "http://127.0.0.1", "redis://", "unix://", "rediss+cluster://", "redis://a b",
      "localhost", "redisx://x", "redis+sentinel://", "redis+tls://x"}},
    {"DATABASE_URL", {"", "postgresql://[", "host", "nonsense=1", "mysql://x", "postgresql://[::1"}},
    {"WRITE_DATABASE_URL", {"postgresql://[", "host", "nonsense=1", "mysql://x"}},
    {"DATABASE_STANDBY", {"", "yes", "ON"}},
    {"DATABASE_SESSION_MS", {"", "999", "86400001"}},
    {"PREPARE", {"", "yes", "ON"}},
    {"GUARD_MODE", {"", "Fleet", "none"}},
    {"NAMESPACE", {"", "a b", "a{b", "a:b", "123456789012345678901234567890123", "a{b}"}},
    {"FRESH_MS",
     {"", "0", "-1", "60s", "86400001", "1e3", "99999999999", " 5", "+1", " 1", "1s",
      "99999999999999999999999"}},
    {"STALE_MS", {"", "-1", "86400001", "0x10"}},
    {"SOFT_MS", {"", "-1", "3600001"}},
    {"EARLY_PERCENT", {"", "-1", "10001", "1.5"}},
    {"ABSENT_MS", {"", "0", "86400001"}},
    {"FAILURE_MS", {"", "0", "60001"}},
    {"JITTER_PERCENT", {"", "91", "10%"}},
    {"LEASE_MS", {"", "0", "29", "60001", "4294967296"}},
    {"MAX_HOLD_MS", {"", "29", "3600001", "0"}},
    {"LOAD_LIMIT_MS", {"", "0", "3600001"}},
    {"DEADLINE_MS", {"", "0", "3600001"}},
    {"REDIS_LIMIT_MS", {"", "0", "20001"}},
    {"MAX_LOADS", {"", "0", "1025"}},
    {"LOAD_THREADS", {"", "-1", "1025"}},
    {"REVALIDATE_TOKEN_FILE", {"/nonexistent/token"}},
    {"LOAD_QUEUE", {"", "-1", "1000001"}},
    {"MERGE_LOADS", {"", "yes", "1"}},
    {"LOAD_PERMITS", {"", "-1", "100001"}},
    {"PERMIT_MS", {"", "29", "60001"}},
    {"WRITE_WORKERS", {"", "0", "257"}},
    {"WRITE_QUEUE", {"", "-1", "1000001"}},
    {"WRITE_LIMIT_MS", {"", "0", "3600001"}},
    {"WRITE_LOCK_MS", {"", "0", "3600001"}},
    {"OUTBOX_POLL_MS", {"", "0", "3600001"}},
    {"MAX_WAITERS", {"", "0", "1000001"}},
    {"MAX_CONNECTIONS", {"", "0", "1000001"}},
    {"MAX_VALUE_BYTES", {"", "0", "67108865", "1M"}},
    {"NEAR_BYTES", {"", "1", "65535", "4294967296", "64M"}},
    {"PUSH_BYTES", {"", "-1", "1048577", "16K"}},
    {"NEAR_MS", {"", "-1", "60001", "1s"}},
    {"OUTAGE_MS", {"", "-1", "3600001", "5s"}},
    {"ACCESS_LOG", {"", "on", "json"}},
    {"ACCESS_LOG_FILE", {"/nonexistent/log", "/tmp/"}},
    {"SERVER_LOOPS", {"", "257", "auto"}},
    {"SHELF_BYTES", {"", "1", "65535", "4294967296", "32M"}},
    {"DRAIN_MS", {"", "-5", "3600001"}},
    {"CORES", {"", "yes", "1"}},
    {"LOAD_DELAY_MS", {"", "-1", "3600001", "x"}},
};
enum { SETTING_COUNT = sizeof wrong / sizeof wrong[0] };

static void expect_refused(const char *name, const char *value)
{
    char setting[96], head[48];
    snprintf(setting, sizeof setting, "%s=%s", name, value);
    snprintf(head, sizeof head, "%s (environment): ", name);
    read_settings(nothing, LIST(setting));
    if (reading.verdict != SETTINGS_WRONG)
        fail_msg("%s was accepted", setting);
    assert_int_equal(line_count(reading.messages), 1);
    assert_ptr_equal(strstr(reading.messages, head), reading.messages);
    assert_says("is wrong; must be ");
}

TEST(every_setting_is_refused_by_name_when_wrong)
{
    for (size_t i = 0; i < SETTING_COUNT; i++)
        for (size_t j = 0; wrong[i].values[j] != NULL; j++)
            expect_refused(wrong[i].name, wrong[i].values[j]);
}

/* So that none is forgotten above. */
TEST(help_names_exactly_these_settings)
{
    size_t count = 0;
    read_settings(LIST("--help"), nothing);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        char entry[40];
        snprintf(entry, sizeof entry, ", %s\n", wrong[i].name);
        assert_says(entry);
    }
    for (const char *at = reading.messages; (at = strstr(at, "\n      default ")) != NULL; at++)
        count++;
    assert_int_equal(count, SETTING_COUNT);
}

TEST(all_wrong_settings_are_reported_at_once)
{
    read_settings(LIST("--fresh-ms", "soon", "--lease-ms=1"), LIST("GUARD_MODE=maybe", "PREPARE=1"));
    assert_int_equal(reading.verdict, SETTINGS_WRONG);
    assert_int_equal(line_count(reading.messages), 4);
    assert_says("FRESH_MS (flag --fresh-ms): \"soon\" is wrong; must be 1 to 86400000 (ms)");
    assert_says("LEASE_MS (flag --lease-ms): \"1\" is wrong");
    assert_says("GUARD_MODE (environment): \"maybe\" is wrong; must be fleet, local, off or shadow");
    assert_says("PREPARE (environment): \"1\" is wrong; must be on or off");
}

TEST(settings_that_contradict_each_other_are_refused, P92)
{
    static const struct {
        const char *first, *second, *says;
    } cases[] = {
        {"REDIS_LIMIT_MS=1001", "LEASE_MS=3000",
         "REDIS_LIMIT_MS (environment): \"1001\" is wrong; must be at most "
         "a third of LEASE_MS"},
        {"LEASE_MS=749", "DRAIN_MS=1", "REDIS_LIMIT_MS (default): \"250\""},
        {"LOAD_LIMIT_MS=30001", "DRAIN_MS=1", "LOAD_LIMIT_MS (environment): \"30001\""},
        {"LEASE_MS=20000", "MAX_HOLD_MS=19999", "LEASE_MS (environment): \"20000\""},
        {"FRESH_MS=86400000", "STALE_MS=1", "FRESH_MS (environment): \"86400000\""},
        {"SOFT_MS=1", "STALE_MS=0", "SOFT_MS (environment): \"1\""},
        {"WRITE_LOCK_MS=1001", "WRITE_LIMIT_MS=1000", "WRITE_LOCK_MS (environment): \"1001\""},
        {"DEADLINE_MS=249", "DRAIN_MS=1", "REDIS_LIMIT_MS (default): \"250\""},
        {"LOAD_THREADS=9", "DRAIN_MS=1",
         "LOAD_THREADS (environment): \"9\" is wrong; must be at most MAX_LOADS"},
        {"LOAD_PERMITS=1", "PERMIT_MS=749", "PERMIT_MS (environment): \"749\""},
        {"MAX_WAITERS=101", "MAX_CONNECTIONS=100", "MAX_WAITERS (environment): \"101\""},
        {"SHELF_BYTES=65535", "SERVER_LOOPS=1", "SHELF_BYTES (environment): \"65535\""},
        {"LISTEN=127.0.0.1:9", "OPS_LISTEN=127.0.0.1:9", "OPS_LISTEN (environment)"},
        {"LISTEN=0.0.0.0:9", "OPS_LISTEN=127.0.0.1:9", "OPS_LISTEN (environment)"},
        {"LISTEN=[::]:9", "OPS_LISTEN=127.0.0.1:9", "OPS_LISTEN (environment)"},
        {"LISTEN=unix:/a", "OPS_LISTEN=unix:/a", "OPS_LISTEN (environment)"},
        {"OPS_LISTEN=0.0.0.0:9", "DRAIN_MS=1",
         "OPS_LISTEN (environment): \"0.0.0.0:9\" is wrong; must be off, unix:PATH or on 127.0.0.0/8, [::1] "
         "or localhost unless OPS_TOKEN_FILE names a token; OPS_TOKEN_FILE is nothing\n"},
        {"OPS_LISTEN=[::]:9", "OPS_TOKEN_FILE=", "OPS_LISTEN (environment)"},
        {"OPS_LISTEN=10.0.0.1:9", "DRAIN_MS=1", "OPS_LISTEN (environment)"},
        {"OPS_LISTEN=128.0.0.1:9", "DRAIN_MS=1", "OPS_LISTEN (environment)"},
        {"OPS_LISTEN=[::ffff:127.0.0.1]:9", "DRAIN_MS=1", "OPS_LISTEN (environment)"},
        {"OPS_LISTEN=127.example.org:9", "DRAIN_MS=1", "OPS_LISTEN (environment)"},
        {"OPS_LISTEN=localhost.example.org:9", "DRAIN_MS=1", "OPS_LISTEN (environment)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_settings(nothing, LIST(cases[i].first, cases[i].second));
        assert_int_equal(reading.verdict, SETTINGS_WRONG);
        assert_says(cases[i].says);
    }
}

TEST(settings_at_their_common_limit_are_accepted)
{
    static const char *const cases[][2] = {
        {"REDIS_LIMIT_MS=1000", "LEASE_MS=3000"},
        {"LEASE_MS=750", "DRAIN_MS=1"},
        {"LOAD_LIMIT_MS=30000", "DRAIN_MS=1"},
        {"FRESH_MS=86399999", "STALE_MS=1"},
        {"LOAD_PERMITS=1", "PERMIT_MS=750"},
        {"LOAD_THREADS=8", "ACCESS_LOG_FILE=/tmp/log"},
        {"LOAD_PERMITS=0", "PERMIT_MS=30"},
        {"MAX_WAITERS=100", "MAX_CONNECTIONS=100"},
        {"MAX_CONNECTIONS=100", "DRAIN_MS=1"},
        {"SHELF_BYTES=65536", "SERVER_LOOPS=1"},
        {"SHELF_BYTES=0", "SERVER_LOOPS=1"},
        {"LISTEN=127.0.0.1:0", "OPS_LISTEN=127.0.0.1:0"},
        {"LISTEN=unix:/a", "OPS_LISTEN=unix:/b"},
        {"LISTEN=127.0.0.1:9", "OPS_LISTEN=127.0.0.2:9"},
        {"LISTEN=127.0.0.1:9", "OPS_LISTEN=off"},
        {"LISTEN=0.0.0.0:9", "OPS_LISTEN=127.255.0.1:10"},
        {"LISTEN=127.0.0.1:9", "OPS_LISTEN=[::1]:9"},
        {"LISTEN=127.0.0.1:9", "OPS_LISTEN=localhost:10"},
        {"OPS_LISTEN=0.0.0.0:9", "OPS_TOKEN_FILE=/dev/null"},
        {"REDIS_URL=unix:///run/redis.sock?db=2", "DATABASE_URL=host=/run dbname=x options='-c a=b'"},
        {"REDIS_URL=rediss+sentinel://:p@s1,s2/cache?sentinel_password=q", "LISTEN=[::1]:80"},
        {"REDIS_URL=redis+cluster://n1,n2:7000", "LISTEN=[::1]:80"},
        {"DATABASE_URL=postgres://u:p@h1,h2:5433/db?sslmode=require", "LISTEN=[::1]:80"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_settings(nothing, LIST(cases[i][0], cases[i][1]));
        assert_string_equal(reading.messages, "");
        assert_int_equal(reading.verdict, SETTINGS_OK);
    }
}

TEST(a_wrong_setting_is_not_blamed_twice_by_a_rule)
{
    read_settings(nothing, LIST("LEASE_MS=x", "REDIS_LIMIT_MS=20000"));
    assert_int_equal(reading.verdict, SETTINGS_WRONG);
    assert_says("LEASE_MS (environment): \"x\"");
    assert_says_not("third of LEASE_MS");
}

TEST(a_password_is_never_printed)
{
    read_settings(LIST("--database-ul=postgresql://u:hush@h/db", "postgresql://u:hush@h/db"),
                  LIST("REDIS_URL=redis ://:hush@h", "DATABASE_URL=host=h password='hush", "FRESH_MS=x"));
    assert_int_equal(reading.verdict, SETTINGS_WRONG);
    assert_int_equal(line_count(reading.messages), 5);
    assert_says("REDIS_URL (environment): (not shown)");
    assert_says("DATABASE_URL (environment): (not shown)");
    assert_says("--database-ul: unknown; did you mean --database-url?");
    assert_says("argument 2: neither a flag");
    assert_says_not("hush");
}

TEST(an_unknown_flag_is_named_with_its_nearest_match)
{
    read_settings(LIST("--fresh_ms=5", "--max-load", "3", "--completely-different", "--", "--drain-ms"),
                  nothing);
    assert_int_equal(reading.verdict, SETTINGS_WRONG);
    assert_says("--fresh_ms: unknown; did you mean --fresh-ms?");
    assert_says("--max-load: unknown; did you mean --max-loads?");
    assert_says("--completely-different: unknown; --help lists all");
    assert_says("argument 5: neither a flag");
    assert_says("--drain-ms: needs a value");
    assert_int_equal(line_count(reading.messages), 5);
}

/* ---- while the process runs ---- */

/* From what these settings say; `changes` in pairs of a name and a value. */
static bool change(const char *const *env, const char *const *changes, struct settings *out)
{
    struct settings_change list[ARGUMENTS_MAX];
    size_t count = 0;
    for (; changes[2 * count] != NULL; count++)
        list[count] = (struct settings_change){changes[2 * count], changes[2 * count + 1]};
    read_settings(nothing, env);
    assert_int_equal(reading.verdict, SETTINGS_OK);
    *out = reading.settings;
    FILE *messages = fmemopen(reading.messages, sizeof reading.messages - 1, "w");
    assert_non_null(messages);
    const bool changed = settings_change(&reading.settings, list, count, out, messages);
    fclose(messages);
    return changed;
}

TEST(times_that_change_while_the_process_runs_are_checked_together)
{
    struct settings changed;
    assert_true(change(LIST("FRESH_MS=5", "MAX_WAITERS=3"),
                       LIST("STALE_MS", "70", "SOFT_MS", "60", "NEAR_MS", "1"), &changed));
    assert_string_equal(reading.messages, "");
    assert_int_equal(changed.policy.fresh_ms, 5);
    assert_int_equal(changed.policy.stale_ms, 70);
    assert_int_equal(changed.policy.soft_ms, 60);
    assert_int_equal(changed.policy.near_ms, 1);
    assert_int_equal(changed.guard.max_waiters, 3);
    assert_true(change(nothing, nothing, &changed));
}

TEST(a_wrong_change_is_named_and_nothing_changes)
{
    static const struct {
        const char *changes[5];
        const char *says;
    } cases[] = {
        {{"FRESH_MS", "0"}, "FRESH_MS: \"0\" is wrong; must be 1 to 86400000 (ms)\n"},
        {{"STALE_MS", "5", "FRESH_MS", "x"}, "FRESH_MS: \"x\" is wrong"},
        {{"STALE_MS", "86400000"},
         "FRESH_MS (as it is): \"60000\" is wrong; must be at most 86400000 together"},
        {{"SOFT_MS", "1"}, "SOFT_MS: \"1\" is wrong; must be 0 unless STALE_MS is above 0"},
        {{"DEADLINE_MS", "100"}, "REDIS_LIMIT_MS (as it is): \"250\" is wrong"},
        {{"LEASE_MS", "3000"}, "\"LEASE_MS\": does not change while the process runs\n"},
        {{"REDIS_URL", "redis://:hush@a"}, "\"REDIS_URL\": does not change while the process runs\n"},
        {{"FRESH_MS", "1", "FRESH_MS", "2"}, "\"FRESH_MS\": given twice\n"},
        {{"fresh\n_ms", "1"}, "\"fresh\\x0a_ms\": no such setting\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct settings changed;
        assert_false(change(nothing, cases[i].changes, &changed));
        assert_says(cases[i].says);
        assert_says_not("hush");
        assert_int_equal(line_count(reading.messages), 1);
        assert_memory_equal(&changed, &reading.settings, sizeof changed);
    }
}

TEST(what_may_change_is_told_with_its_value)
{
    const char *name = NULL;
    uint32_t value = 0;
    read_settings(nothing, LIST("ABSENT_MS=77"));
    const size_t count = settings_changeable(&reading.settings, 0, &name, &value);
    assert_int_equal(count, 10);
    assert_string_equal(name, "FRESH_MS");
    assert_int_equal(value, 60000);
    settings_changeable(&reading.settings, 4, &name, &value);
    assert_string_equal(name, "ABSENT_MS");
    assert_int_equal(value, 77);
}

TEST(a_hostile_flag_of_any_length_is_survived)
{
    static char flag[MESSAGE_BYTES / 2];
    memset(flag, 'x', sizeof flag - 1);
    memcpy(flag, "--", 2);
    read_settings(LIST(flag), nothing);
    assert_int_equal(reading.verdict, SETTINGS_WRONG);
}

TEST(control_characters_of_a_value_are_not_printed)
{
    read_settings(nothing, LIST("NAMESPACE=a\n\x1b[2J"));
    assert_says("\"a\\x0a\\x1b[2J\"");
    assert_int_equal(line_count(reading.messages), 1);
}

TEST(help_prints_every_setting_with_its_default)
{
    read_settings(LIST("--fresh-ms=x", "--help"), nothing);
    assert_int_equal(reading.verdict, SETTINGS_HELP);
    assert_says("  --fresh-ms, FRESH_MS\n");
    assert_says("default 60000; 1 to 86400000 (ms)");
    assert_says("  --ops-token-file, OPS_TOKEN_FILE\n");
    assert_says("default nothing; ");
    assert_says("a third of LEASE_MS");
    read_settings(LIST("-h"), nothing);
    assert_int_equal(reading.verdict, SETTINGS_HELP);
}

TEST(the_version_is_told_whatever_else_is_wrong)
{
    read_settings(LIST("--fresh-ms=x", "--version"), LIST("STALE_MS=x"));
    assert_int_equal(reading.verdict, SETTINGS_VERSION);
    read_settings(LIST("-V"), nothing);
    assert_int_equal(reading.verdict, SETTINGS_VERSION);
    assert_string_equal(reading.messages, "");
}

TEST(help_has_each_setting_in_its_group)
{
    read_settings(LIST("--help"), nothing);
    assert_non_null(strstr(reading.messages, "\n\nHow many loads:\n  --max-loads, MAX_LOADS\n"));
}

TEST(an_address_is_taken_apart)
{
    struct address address;
    assert_true(address_parse("[::1]:8080", &address));
    assert_string_equal(address.host, "::1");
    assert_int_equal(address.port, 8080);
    assert_false(address.is_unix);
    assert_true(address_parse("unix:/run/catalogd.sock", &address));
    assert_string_equal(address.host, "/run/catalogd.sock");
    assert_true(address.is_unix);
    assert_true(address_parse("example.org:0", &address));
    assert_string_equal(address.host, "example.org");
    assert_int_equal(address.port, 0);

    char path[120] = "unix:";
    memset(path + 5, 'x', 107);
    assert_true(address_parse(path, &address));
    path[5 + 107] = 'x';
    assert_false(address_parse(path, &address));
}
