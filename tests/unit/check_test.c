/* SPDX-License-Identifier: MIT */
#include "guard/base/check.h"
#include "tests/support/test.h"

static void load(struct guard_load *load, void *context)
{
    (void)load;
    (void)context;
}

static struct guard_config config;
static struct guard_policy policy;
static struct guard_error error;

/* Before each test, and whenever it wants them again. */
static bool are_good(void)
{
    config = (struct guard_config)GUARD_CONFIG_DEFAULTS;
    policy = (struct guard_policy)GUARD_POLICY_DEFAULTS;
    policy.loader = load;
    error.text[0] = '\0';
    return true;
}

/* With this in its reason. */
static void config_is(enum guard_status status, const char *text)
{
    error.text[0] = '\0';
    assert_int_equal(check_config(&config, &error), status);
    assert_non_null(strstr(error.text, text));
}

static void policy_is(enum guard_status status, const char *text)
{
    error.text[0] = '\0';
    assert_int_equal(check_policy(&policy, &config, &error), status);
    assert_non_null(strstr(error.text, text));
}

/* A number at both of its limits and one beyond each. */
struct number {
    const char *name;
    size_t offset;
    uint64_t least, most;
};
#define CONFIG(field, least, most)                                                                           \
    {                                                                                                        \
#field, offsetof(struct guard_config, field), least, most                                            \
    }
#define POLICY(field, least, most)                                                                           \
    {                                                                                                        \
#field, offsetof(struct guard_policy, field), least, most                                            \
    }

static void put(void *settings, const struct number *number, uint64_t value)
{
    uint32_t span = (uint32_t)value;
    memcpy((char *)settings + number->offset, &span, sizeof span);
}

static void config_gives(const struct number *number, uint64_t value, enum guard_status expected)
{
    are_good();
    put(&config, number, value);
    if (check_config(&config, &error) != expected)
        fail_msg("%s = %llu: %s", number->name, (unsigned long long)value, error.text);
    if (expected == GUARD_OK)
        return;
    assert_int_equal(error.status, GUARD_INVALID);
    assert_non_null(strstr(error.text, number->name));
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    assert_non_null(strstr(error.text, text));
}

TEST(the_defaults_are_accepted)
{
    error = (struct guard_error){.status = GUARD_UNKNOWN, .text = "untouched"};
    assert_int_equal(check_config(&config, &error), GUARD_OK);
    assert_int_equal(check_policy(&policy, &config, &error), GUARD_OK);
    assert_string_equal(error.text, "untouched");
}

TEST(each_number_of_the_config_has_its_limits)
{
    static const struct number NUMBERS[] = {
        CONFIG(redis_limit_ms, 1, 60000),  CONFIG(connect_limit_ms, 1, 60000),
        CONFIG(max_loads, 1, 4096),        CONFIG(load_queue, 0, 1000000),
        CONFIG(max_waiters, 1, 10000000),  CONFIG(max_value_bytes, 1, 64 << 20),
        CONFIG(max_lease_ms, 10, 3600000), CONFIG(max_value_ms, 1, 2000000000),
        CONFIG(load_permits, 0, 100000),   CONFIG(permit_ms, 0, 3600000),
        CONFIG(push_bytes, 0, 1 << 20),    CONFIG(load_threads, 0, 8),
    };
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        config_gives(&NUMBERS[i], NUMBERS[i].least, GUARD_OK);
        config_gives(&NUMBERS[i], NUMBERS[i].most, GUARD_OK);
        config_gives(&NUMBERS[i], NUMBERS[i].most + 1, GUARD_INVALID);
        config_gives(&NUMBERS[i], UINT32_MAX, GUARD_INVALID);
        if (NUMBERS[i].least > 0)
            config_gives(&NUMBERS[i], NUMBERS[i].least - 1, GUARD_INVALID);
    }
}

TEST(a_permit_must_last_for_an_unanswered_renewal)
{
    config.load_permits = 1;
    config.redis_limit_ms = 1000;
    config_is(GUARD_OK, "");
    config.permit_ms = 2999;
    config_is(GUARD_INVALID, "permit_ms is 2999; it must be 3000..");
    config.load_permits = 0;
    config_is(GUARD_OK, "");
}

TEST(a_config_without_its_texts_is_refused)
{
    config.redis_url = NULL;
    config_is(GUARD_INVALID, "redis_url");
    const char *wrong[] = {NULL, "", "a b", "{x}", "caf\xc3\xa9", "123456789012345678901234567890123"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        are_good();
        config.name_space = wrong[i];
        config_is(GUARD_INVALID, "name_space");
    }
    are_good();
    config.mode = (enum guard_mode)7;
    config_is(GUARD_INVALID, "mode 7");
}

TEST(a_struct_that_is_none_or_of_a_newer_header_is_refused)
{
    struct guard_config taken;
    struct guard_policy taken_policy;
    config.struct_size = 7;
    policy.struct_size = 0;
    assert_int_equal(check_given_config(&config, &taken, &error), GUARD_INVALID);
    assert_non_null(strstr(error.text, "guard_config.struct_size is wrong"));
    assert_int_equal(check_given_policy(&policy, &taken_policy, &config, &error), GUARD_INVALID);
    assert_non_null(strstr(error.text, "guard_policy.struct_size is wrong"));
    config.struct_size = sizeof config + 1;
    policy.struct_size = sizeof policy + 8;
    assert_int_equal(check_given_config(&config, &taken, &error), GUARD_INVALID);
    assert_non_null(strstr(error.text, "guard_config.struct_size is"));
    assert_non_null(strstr(error.text, "or a newer one"));
    assert_int_equal(check_given_policy(&policy, &taken_policy, &config, &error), GUARD_INVALID);
    assert_int_equal(check_given_config(NULL, &taken, &error), GUARD_INVALID);
    assert_int_equal(check_given_policy(NULL, &taken_policy, &config, NULL), GUARD_INVALID);
}

/* What lies behind its struct is not the library's to read. */
TEST(a_host_that_knows_less_of_a_struct_gets_the_defaults_of_the_rest)
{
    const struct guard_config defaults = GUARD_CONFIG_DEFAULTS;
    const struct guard_policy policy_defaults = GUARD_POLICY_DEFAULTS;
    struct guard_config taken;
    struct guard_policy taken_policy;
    config.max_loads = 3;
    config.struct_size = offsetof(struct guard_config, load_queue);
    memset((char *)&config + config.struct_size, 0xff, sizeof config - config.struct_size);
    assert_int_equal(check_given_config(&config, &taken, NULL), GUARD_OK);
    assert_int_equal(taken.struct_size, sizeof taken);
    assert_int_equal(taken.max_loads, 3);
    assert_int_equal(taken.load_queue, defaults.load_queue);
    assert_null(taken.event);
    policy.fresh_ms = 1234;
    policy.struct_size = offsetof(struct guard_policy, stale_ms);
    memset((char *)&policy + policy.struct_size, 0xff, sizeof policy - policy.struct_size);
    assert_int_equal(check_given_policy(&policy, &taken_policy, &taken, NULL), GUARD_OK);
    assert_int_equal(taken_policy.fresh_ms, 1234);
    assert_int_equal(taken_policy.lease_ms, policy_defaults.lease_ms);
    assert_null(taken_policy.name);
}

static void policy_gives(const struct number *number, uint64_t value, enum guard_status expected)
{
    are_good();
    put(&policy, number, value);
    if (check_policy(&policy, &config, &error) != expected)
        fail_msg("%s = %llu: %s", number->name, (unsigned long long)value, error.text);
    if (expected != GUARD_OK)
        assert_non_null(strstr(error.text, number->name));
}

TEST(each_number_of_a_policy_has_its_limits, P35)
{
    /* beside the defaults: 250 redis_limit_ms, 60000 max_lease_ms, 86400000 max_value_ms, 3000 lease_ms,
     * 30000 max_hold_ms */
    static const struct number NUMBERS[] = {
        POLICY(fresh_ms, 1, 86400000),   POLICY(absent_ms, 1, 86400000),  POLICY(failure_ms, 1, 60000),
        POLICY(jitter_percent, 0, 90),   POLICY(lease_ms, 750, 30000),    POLICY(max_hold_ms, 10000, 3600000),
        POLICY(load_limit_ms, 1, 30000), POLICY(deadline_ms, 1, 3600000), POLICY(early_percent, 0, 10000),
        POLICY(outage_ms, 0, 3600000),   POLICY(loads_on, 0, 2),
    };
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        policy_gives(&NUMBERS[i], NUMBERS[i].least, GUARD_OK);
        policy_gives(&NUMBERS[i], NUMBERS[i].most, GUARD_OK);
    }
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        are_good();
        put(&policy, &NUMBERS[i], NUMBERS[i].most + 1);
        policy_is(GUARD_INVALID, "");
        put(&policy, &NUMBERS[i], UINT32_MAX);
        policy_is(GUARD_INVALID, "");
        put(&policy, &NUMBERS[i], NUMBERS[i].least - 1);
        if (NUMBERS[i].least > 0)
            assert_int_equal(check_policy(&policy, &config, NULL), GUARD_INVALID);
    }
}

TEST(fresh_and_stale_together_stay_below_the_limit)
{
    policy.fresh_ms = 1;
    policy.stale_ms = config.max_value_ms;
    policy_is(GUARD_INVALID, "fresh_ms + stale_ms");
    policy.stale_ms = UINT32_MAX; /* no overflow */
    policy_is(GUARD_INVALID, "");
    policy.stale_ms = config.max_value_ms - 1;
    policy_is(GUARD_OK, "");
}

TEST(a_soft_limit_needs_a_stale_time_and_ends_before_the_hard_one)
{
    policy.soft_ms = 1;
    policy_is(GUARD_INVALID, "soft_ms");
    assert_non_null(strstr(error.text, "stale_ms"));
    policy.stale_ms = 1;
    policy.soft_ms = policy.deadline_ms;
    policy_is(GUARD_OK, "");
    policy.soft_ms = policy.deadline_ms + 1;
    policy_is(GUARD_INVALID, "soft_ms");
}

TEST(a_near_time_without_a_near_cache_is_refused, P98)
{
    config.near_bytes = 0;
    policy.near_ms = 1;
    policy_is(GUARD_INVALID, "near_ms");
    assert_non_null(strstr(error.text, "near_bytes"));
    config.near_bytes = 65536;
    policy_is(GUARD_OK, "");
    policy.near_ms = 60001;
    policy_is(GUARD_INVALID, "");
}

TEST(a_lease_that_cannot_be_renewed_twice_is_refused_with_the_reason)
{
    config.redis_limit_ms = 1001;
    policy_is(GUARD_INVALID, "lease_ms");
    assert_non_null(strstr(error.text, "redis_limit_ms"));
    policy = (struct guard_policy)GUARD_POLICY_DEFAULTS; /* which has no loader */
    policy_is(GUARD_INVALID, "loader");
}

TEST_GROUP(.before = are_good);
