/* SPDX-License-Identifier: MIT */
/* lock_check_test.c - settings and requests of locks that cannot work are refused by name. */
#include "guard/locks/lock_state.h"
#include "tests/support/test.h"

enum { ALL_KINDS = (1u << (GUARD_LOCK_LATCH + 1)) - 1 };

static const char *const URLS[] = {"redis://a", "redis://b", "redis://c", "redis://d", "redis://e",
                                   "redis://f", "redis://g", "redis://h", "redis://i", "redis://j"};

static struct guard_locks_config good_config(void)
{
    return (struct guard_locks_config)GUARD_LOCKS_CONFIG_DEFAULTS;
}

static void config_is_refused(const struct guard_locks_config *config, const char *text)
{
    struct guard_error error = {.text = ""};
    assert_int_equal(lock_check_config(config, &error), GUARD_INVALID);
    assert_int_equal(error.status, GUARD_INVALID);
    if (strstr(error.text, text) == NULL)
        fail_msg("\"%s\" does not name %s", error.text, text);
    assert_int_equal(lock_check_config(config, NULL), GUARD_INVALID);
}

#define REFUSED_CONFIG(text, ...)                                                                            \
    do {                                                                                                     \
        struct guard_locks_config config = good_config();                                                    \
        __VA_ARGS__;                                                                                         \
        config_is_refused(&config, text);                                                                    \
    } while (0)

TEST(the_defaults_are_good)
{
    struct guard_locks_config config = good_config();
    assert_int_equal(lock_check_config(&config, NULL), GUARD_OK);
}

TEST(settings_that_cannot_work_are_named, P127)
{
    config_is_refused(NULL, "struct_size");
    REFUSED_CONFIG("struct_size", config.struct_size--);
    REFUSED_CONFIG("provider", config.provider = (enum guard_lock_provider)4);
    REFUSED_CONFIG("provider", config.provider = (enum guard_lock_provider) - 1);
    REFUSED_CONFIG("urls", config.provider = GUARD_LOCKS_REDLOCK; config.url_count = 3);
    REFUSED_CONFIG("urls[0]", config.urls = (const char *const[]){NULL});
    REFUSED_CONFIG("url_count", config.url_count = 0);
    REFUSED_CONFIG("url_count", config.urls = URLS; config.url_count = 2);
    REFUSED_CONFIG("name_space", config.name_space = NULL);
    REFUSED_CONFIG("name_space", config.name_space = "");
    REFUSED_CONFIG("name_space", config.name_space = "no spaces");
    REFUSED_CONFIG("limit_ms", config.limit_ms = 0);
    REFUSED_CONFIG("limit_ms", config.limit_ms = 60001);
    REFUSED_CONFIG("connect_limit_ms", config.connect_limit_ms = 0);
    REFUSED_CONFIG("connect_limit_ms", config.connect_limit_ms = 60001);
    REFUSED_CONFIG("max_lease_ms", config.max_lease_ms = 999);
    REFUSED_CONFIG("max_lease_ms", config.max_lease_ms = 86400001);
    REFUSED_CONFIG("place_ms", config.place_ms = 999);
    REFUSED_CONFIG("max_lease_ms", config.limit_ms = 1; config.max_lease_ms = 99);
    REFUSED_CONFIG("place_ms", config.limit_ms = 1; config.place_ms = 99);
    REFUSED_CONFIG("fence_ms", config.fence_ms = 59999);
    REFUSED_CONFIG("fence_ms", config.fence_ms = 2000000001);
    REFUSED_CONFIG("warn_ms", config.warn_ms = 30001);
    REFUSED_CONFIG("max_requests", config.max_requests = 0);
    REFUSED_CONFIG("max_requests", config.max_requests = 1000001);
}

TEST(redlock_takes_an_odd_number_of_different_masters)
{
    for (size_t count = 0; count <= 10; count++) {
        struct guard_locks_config config = good_config();
        config.provider = GUARD_LOCKS_REDLOCK;
        config.urls = URLS;
        config.url_count = count;
        bool good = count == 3 || count == 5 || count == 7 || count == 9;
        assert_int_equal(lock_check_config(&config, NULL), good ? GUARD_OK : GUARD_INVALID);
    }
    REFUSED_CONFIG("[0] and [2]", config.provider = GUARD_LOCKS_REDLOCK;
                   config.urls = (const char *const[]){"redis://a", "redis://b", "redis://a"};
                   config.url_count = 3);
}

/* ---- requests ---- */

static const char *const NAMES[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};

static struct guard_lock_request good_request(void)
{
    struct guard_lock_request request = GUARD_LOCK_REQUEST_DEFAULTS;
    request.names = NAMES;
    return request;
}

static void request_is_refused(const struct guard_lock_request *request, unsigned kinds, const char *text)
{
    const struct guard_locks_config config = good_config();
    struct guard_error error = {.text = ""};
    assert_int_equal(lock_check_request(request, &config, kinds, &error), GUARD_INVALID);
    if (strstr(error.text, text) == NULL)
        fail_msg("\"%s\" does not name %s", error.text, text);
}

#define REFUSED_REQUEST(text, ...)                                                                           \
    do {                                                                                                     \
        struct guard_lock_request request = good_request();                                                  \
        __VA_ARGS__;                                                                                         \
        request_is_refused(&request, ALL_KINDS, text);                                                       \
    } while (0)

TEST(requests_that_cannot_be_granted_are_named, P127)
{
    static char long_name[GUARD_LOCK_NAME_BYTES_MAX + 2];
    memset(long_name, 'x', sizeof long_name - 1);
    request_is_refused(NULL, ALL_KINDS, "struct_size");
    REFUSED_REQUEST("struct_size", request.struct_size++);
    REFUSED_REQUEST("kind", request.kind = (enum guard_lock_kind)6);
    REFUSED_REQUEST("kind", request.kind = (enum guard_lock_kind) - 1);
    REFUSED_REQUEST("names", request.names = NULL);
    REFUSED_REQUEST("count", request.count = 0);
    REFUSED_REQUEST("count", request.count = 9);
    REFUSED_REQUEST("names[1]", request.names = (const char *const[]){"a", NULL}; request.count = 2);
    REFUSED_REQUEST("names[0]", request.names = (const char *const[]){""});
    REFUSED_REQUEST("names[0]", request.names = (const char *const[]){long_name});
    REFUSED_REQUEST("[0] and [1]", request.names = (const char *const[]){"a", "a"}; request.count = 2);
    REFUSED_REQUEST("lease_ms", request.lease_ms = 999);
    REFUSED_REQUEST("lease_ms", request.lease_ms = 60001);
    REFUSED_REQUEST("limit", request.kind = GUARD_LOCK_PERMITS; request.limit = 0);
    REFUSED_REQUEST("limit", request.kind = GUARD_LOCK_PERMITS; request.limit = 1000000);
    REFUSED_REQUEST("units", request.kind = GUARD_LOCK_PERMITS; request.units = 0);
    REFUSED_REQUEST("units", request.kind = GUARD_LOCK_PERMITS; request.units = 2);
    REFUSED_REQUEST("units", request.kind = GUARD_LOCK_LATCH; request.limit = 3; request.units = 2);
    REFUSED_REQUEST("count", request.kind = GUARD_LOCK_LATCH; request.count = 2);
}

TEST(what_is_at_its_limits_may_be_asked_for)
{
    static char long_name[GUARD_LOCK_NAME_BYTES_MAX + 1];
    const struct guard_locks_config config = good_config();
    struct guard_lock_request request = good_request();
    memset(long_name, 'x', sizeof long_name - 1);
    request.count = 8;
    assert_int_equal(lock_check_request(&request, &config, ALL_KINDS, NULL), GUARD_OK);
    request.names = (const char *const[]){long_name};
    request.count = 1;
    request.lease_ms = 1000;
    assert_int_equal(lock_check_request(&request, &config, ALL_KINDS, NULL), GUARD_OK);
    request.kind = GUARD_LOCK_PERMITS;
    request.limit = request.units = 999999;
    assert_int_equal(lock_check_request(&request, &config, ALL_KINDS, NULL), GUARD_OK);
    request.kind = GUARD_LOCK_LATCH;
    request.units = 0;
    assert_int_equal(lock_check_request(&request, &config, ALL_KINDS, NULL), GUARD_OK);
}

TEST(a_lease_is_long_enough_to_be_renewed_and_warned_of)
{
    struct guard_locks_config config = good_config();
    struct guard_lock_request request = good_request();
    config.limit_ms = 1;
    request.lease_ms = 99;
    assert_int_equal(lock_check_request(&request, &config, ALL_KINDS, NULL), GUARD_INVALID);
    request.lease_ms = 100;
    assert_int_equal(lock_check_request(&request, &config, ALL_KINDS, NULL), GUARD_OK);
    config.warn_ms = 51;
    assert_int_equal(lock_check_request(&request, &config, ALL_KINDS, NULL), GUARD_INVALID);
    request.lease_ms = 102;
    assert_int_equal(lock_check_request(&request, &config, ALL_KINDS, NULL), GUARD_OK);
}

TEST(a_kind_that_the_provider_lacks_is_refused_with_those_it_has)
{
    struct guard_lock_request request = good_request();
    request_is_refused(&request, 1u << GUARD_LOCK_MUTEX, "has MUTEX");
    request.kind = GUARD_LOCK_MUTEX;
    const struct guard_locks_config config = good_config();
    assert_int_equal(lock_check_request(&request, &config, 1u << GUARD_LOCK_MUTEX, NULL), GUARD_OK);
}
