/* SPDX-License-Identifier: MIT */
/*
 * metrics_test.c - the text is one a Prometheus server accepts, and says what was counted.
 */
#include "app/ops/paths.h"
#include "tests/support/test.h"

static char *text; /* what was rendered last */

static bool forget(void)
{
    free(text);
    text = NULL;
    return true;
}

static void render(const struct metrics *metrics)
{
    size_t bytes = 0;
    forget();
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    metrics_write(metrics, out);
    assert_int_equal(fclose(out), 0);
}

/* The value of a sample, by everything before its space. */
static const char *sample(const char *name)
{
    static char value[64];
    const size_t bytes = strlen(name);

    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (strncmp(line, name, bytes) == 0 && line[bytes] == ' ') {
            snprintf(value, sizeof(value), "%.*s", (int)strcspn(line + bytes + 1, "\n"), line + bytes + 1);
            return value;
        }
    }
    return "(none)";
}

TEST(a_counter_is_written_under_its_label)
{
    const struct metrics metrics = {
        .guard = {.hit = 3, .near_hit = 6, .collapsed_fleet = 4, .load_duplicate = 5}};
    render(&metrics);

    assert_string_equal(sample("guard_gets_total{outcome=\"hit\"}"), "3");
    assert_string_equal(sample("guard_gets_total{outcome=\"near\"}"), "6");
    assert_string_equal(sample("guard_gets_total{outcome=\"collapsed_fleet\"}"), "4");
    assert_string_equal(sample("guard_gets_total{outcome=\"stale\"}"), "0");
    assert_string_equal(sample("guard_loads_duplicate_total"), "5");
}

TEST(what_is_of_a_kind_is_a_family_of_its_own_with_the_name_of_the_kind)
{
    static struct metrics_kind kinds[2] = {{.name = "products"}, {.name = "pages"}};
    struct metrics metrics = {.guard = {.hit = 7, .load_nested = 3}, .kinds = kinds, .kind_count = 2};

    kinds[0].stats = (struct guard_stats){.hit = 5, .load_nested = 3, .redis_commands = 9};
    kinds[1].stats = (struct guard_stats){.hit = 2, .lease_wait = {.sum_us = 1500000}};
    kinds[1].stats.lease_wait.count[0] = 4;
    render(&metrics);
    assert_string_equal(sample("guard_gets_total{outcome=\"hit\"}"), "7");
    assert_string_equal(sample("guard_kind_gets_total{kind=\"products\",outcome=\"hit\"}"), "5");
    assert_string_equal(sample("guard_kind_gets_total{kind=\"pages\",outcome=\"hit\"}"), "2");
    assert_string_equal(sample("guard_kind_loads_nested_total{kind=\"products\"}"), "3");
    assert_string_equal(sample("guard_kind_lease_wait_seconds_bucket{kind=\"pages\",le=\"+Inf\"}"), "4");
    assert_string_equal(sample("guard_kind_lease_wait_seconds_sum{kind=\"pages\"}"), "1.500000");
    assert_null(strstr(text, "guard_kind_redis_commands"));
    assert_null(strstr(text, "guard_kind_wakes_total{kind=\"pages\",by=\"message\"}"));
}

/* By its own name or in a family: a new one needs no line here. */
TEST(no_number_of_the_guard_is_missing, P160)
{
    size_t samples = 0, buckets = 0, numbers = 0, histograms = 0;
    const struct metrics metrics = {.uptime_ms = 1};
    render(&metrics);
    for (; guard_stat_info(numbers) != NULL; numbers++)
        histograms += guard_stat_info(numbers)->type == GUARD_STAT_HISTOGRAM;
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        samples += strncmp(line, "guard_", 6) == 0 && strncmp(line, "guard_redis_state", 17) != 0;
        buckets += strncmp(line, "guard_", 6) == 0 && strstr(line, "_seconds_bucket{") != NULL &&
                   strstr(line, "_seconds_bucket{") < strchr(line, '\n');
    }
    /* Near hits are in two families, the two states are a gauge for each. */
    assert_int_equal(buckets, histograms * GUARD_HISTOGRAM_BUCKETS);
    assert_int_equal(samples - buckets - 2 * histograms, numbers - histograms + 1 - 2);
}

TEST(the_largest_counter_is_not_cut)
{
    const struct metrics metrics = {.guard = {.redis_commands = UINT64_MAX}};
    render(&metrics);

    assert_string_equal(sample("guard_redis_commands_total"), "18446744073709551615");
}

TEST(answers_are_counted_by_route_and_hundreds)
{
    struct metrics metrics = {.server = {.connections = 12}};

    metrics.server.answers[ROUTE_PRODUCT][2] = 8;
    metrics.server.answers[ROUTE_OTHER][4] = 9;
    render(&metrics);
    assert_string_equal(sample("catalogd_http_requests_total{route=\"product\",status=\"2xx\"}"), "8");
    assert_string_equal(sample("catalogd_http_requests_total{route=\"other\",status=\"4xx\"}"), "9");
    assert_string_equal(sample("catalogd_connections"), "12");
}

TEST(a_histogram_is_cumulative_and_in_seconds)
{
    struct metrics metrics = {.guard = {.load_duration = {.sum_us = 20000001}}};

    metrics.guard.load_duration.count[0] = 1;
    metrics.guard.load_duration.count[2] = 2;
    metrics.guard.load_duration.count[GUARD_HISTOGRAM_BUCKETS - 1] = 3;
    render(&metrics);
    assert_string_equal(sample("guard_load_duration_seconds_bucket{le=\"0.000250\"}"), "1");
    assert_string_equal(sample("guard_load_duration_seconds_bucket{le=\"0.000500\"}"), "1");
    assert_string_equal(sample("guard_load_duration_seconds_bucket{le=\"0.001000\"}"), "3");
    assert_string_equal(sample("guard_load_duration_seconds_bucket{le=\"10.000000\"}"), "3");
    assert_string_equal(sample("guard_load_duration_seconds_bucket{le=\"+Inf\"}"), "6");
    assert_string_equal(sample("guard_load_duration_seconds_count"), "6");
    assert_string_equal(sample("guard_load_duration_seconds_sum"), "20.000001");
}

TEST(states_are_one_gauge_each)
{
    const struct metrics metrics = {
        .guard = {.redis_state = GUARD_REDIS_DENIED, .wake_state = GUARD_REDIS_UP, .breaker_open = true},
        .mode = GUARD_MODE_LOCAL,
        .database_ready = true,
        .started_at_ms = 1700000000250,
        .uptime_ms = 1500};
    render(&metrics);

    assert_string_equal(sample("guard_redis_state{connection=\"commands\",state=\"denied\"}"), "1");
    assert_string_equal(sample("guard_redis_state{connection=\"commands\",state=\"up\"}"), "0");
    assert_string_equal(sample("guard_redis_state{connection=\"wake\",state=\"up\"}"), "1");
    assert_string_equal(sample("guard_breaker_open"), "1");
    assert_string_equal(sample("catalogd_database_ready"), "1");
    assert_string_equal(sample("catalogd_uptime_seconds"), "1.500000");
    assert_string_equal(sample("process_start_time_seconds"), "1700000000.250000");
    assert_non_null(strstr(text, "catalogd_build_info{version=\"" GUARD_VERSION "\",mode=\"local\"} 1\n"));
}

/* The family a sample belongs to, written to out. */
static void family_of(const char *line, bool is_histogram, char out[128])
{
    static const char *const suffixes[] = {"_bucket", "_sum", "_count"};

    snprintf(out, 128, "%.*s", (int)strcspn(line, "{ "), line);
    for (size_t i = 0; is_histogram && i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        const size_t bytes = strlen(out), suffix_bytes = strlen(suffixes[i]);

        if (bytes > suffix_bytes && strcmp(out + bytes - suffix_bytes, suffixes[i]) == 0)
            out[bytes - suffix_bytes] = '\0';
    }
}

TEST(every_sample_follows_the_help_and_type_of_its_family)
{
    const struct metrics metrics = {.uptime_ms = 1};
    char *rest = NULL;
    render(&metrics);
    char helped[128] = "", name[128], type[32] = "";

    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "# HELP %127s", helped) == 1)
            continue;
        if (sscanf(line, "# TYPE %127s %31s", name, type) == 2) {
            assert_string_equal(name, helped);
            continue;
        }
        family_of(line, strcmp(type, "histogram") == 0, name);
        assert_string_equal(name, helped);
        const size_t bytes = strlen(name);
        assert_int_equal(strcmp(type, "counter") == 0, bytes > 6 && strcmp(name + bytes - 6, "_total") == 0);
    }
}

TEST(no_family_appears_twice)
{
    const struct metrics metrics = {.uptime_ms = 1};
    render(&metrics);
    char name[140];

    for (const char *line = strstr(text, "# TYPE "); line != NULL; line = strstr(line + 1, "# TYPE ")) {
        snprintf(name, sizeof(name), "%.*s ", (int)strcspn(line + 7, " ") + 7, line);
        assert_null(strstr(line + 1, name));
    }
}

TEST_GROUP(.after = forget);
