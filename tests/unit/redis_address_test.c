/* SPDX-License-Identifier: MIT */
/* redis_address_test.c - Redis URLs: what they name, what is refused, and that no text repeats a password. */
#include "guard/redis/redis.h"
#include "tests/support/test.h"
#include <stdio.h>
#include <string.h>

struct good {
    const char *url, *host, *user, *password, *label;
    unsigned port, database;
    bool is_unix;
};

static const struct good goods[] = {
    {"redis://localhost", "localhost", "", "", "localhost:6379", 6379, 0, false},
    {"redis://localhost/", "localhost", "", "", "localhost:6379", 6379, 0, false},
    {"redis://10.0.0.1:7000/15", "10.0.0.1", "", "", "10.0.0.1:7000", 7000, 15, false},
    {"redis://a_b-c.example.:65535", "a_b-c.example.", "", "", "a_b-c.example.:65535", 65535, 0, false},
    {"redis://[::1]", "::1", "", "", "[::1]:6379", 6379, 0, false},
    {"redis://[2001:db8::7]:1/2", "2001:db8::7", "", "", "[2001:db8::7]:1", 1, 2, false},
    {"redis://:secret@h", "h", "", "secret", "h:6379", 6379, 0, false},
    {"redis://me@h", "h", "me", "", "h:6379", 6379, 0, false},
    {"redis://me:se%3Acret%2f%40%25@h:1/3", "h", "me", "se:cret/@%", "h:1", 1, 3, false},
    {"redis://me:a:b@h", "h", "me", "a:b", "h:6379", 6379, 0, false},
    {"redis://me:a@b@h", "h", "me", "a@b", "h:6379", 6379, 0, false},
    {"redis://%C3%A9:p%20w@[::1]:2", "::1", "\xc3\xa9", "p w", "[::1]:2", 2, 0, false},
    {"unix:///run/redis.sock", "/run/redis.sock", "", "", "/run/redis.sock", 0, 0, true},
    {"unix:///run/redis.sock?db=7", "/run/redis.sock", "", "", "/run/redis.sock", 0, 7, true},
    {"unix://me:pw@/a%20b:c@d?db=0", "/a b:c@d", "me", "pw", "/a b:c@d", 0, 0, true},
};

TEST(a_url_names_host_port_login_and_database)
{
    for (size_t i = 0; i < sizeof goods / sizeof goods[0]; i++) {
        struct redis_address address;
        struct guard_error error = {GUARD_OK, ""};
        char label[REDIS_LABEL_SIZE];

        if (!redis_address_parse(goods[i].url, &address, &error))
            fail_msg("%s: %s", goods[i].url, error.text);
        redis_address_label(&address, label);
        assert_string_equal(address.host, goods[i].host);
        assert_string_equal(address.user, goods[i].user);
        assert_string_equal(address.password, goods[i].password);
        assert_string_equal(label, goods[i].label);
        assert_int_equal(address.port, goods[i].port);
        assert_int_equal(address.database, goods[i].database);
        assert_int_equal(address.is_unix, goods[i].is_unix);
    }
}

/* What is wrong, and a word of the text that names it. Wherever a password may stand, it is "hunter2". */
static const struct {
    const char *url, *named;
} bads[] = {
    {"", "begin with"},
    {"localhost:6379", "begin with"},
    {"http://h", "begin with"},
    {"REDIS://h", "begin with"},
    {"rediss://:hunter2@h", "TLS"},
    {"redis://", "host"},
    {"redis:///1", "host"},
    {"redis://:hunter2@", "host"},
    {"redis://:hunter2@/1", "host"},
    {"redis://:hunter2/x@h", "host"},
    {"redis://me:hunter2/@h:1", "port"},
    {"redis://me:hunter2#@h h", "host"},
    {"redis://hunter2%@h", "user"},
    {"redis://hunter2%4@h", "user"},
    {"redis://hunter2%zz@h", "user"},
    {"redis://me:hunter2%00@h", "password"},
    {"redis://me:hunter2%@h", "password"},
    {"redis://h:", "port"},
    {"redis://h:0", "port"},
    {"redis://h:65536", "port"},
    {"redis://h:99999999999999999999", "port"},
    {"redis://h:+1", "port"},
    {"redis://h: 1", "port"},
    {"redis://h:hunter2", "port"},
    {"redis://[::1", "IPv6"},
    {"redis://[localhost]", "IPv6"},
    {"redis://[]", "IPv6"},
    {"redis://[::1]6379", "port"},
    {"redis://h/x", "database"},
    {"redis://h/-1", "database"},
    {"redis://h/65536", "database"},
    {"redis://h/1/2", "database"},
    {"redis://h/1?x=y", "database"},
    {"redis://h?db=1", "host"},
    {"redis://h\n", "host"},
    {"redis://h\xc3\xa9", "host"},
    {"unix://", "path"},
    {"unix://run", "path"},
    {"unix://run/redis.sock", "user:password@"},
    {"unix:///run/a%00b", "path"},
    {"unix:///run/a%", "path"},
    {"unix:///run/a?", "?db="},
    {"unix:///run/a?database=1", "?db="},
    {"unix:///run/a?db=", "database"},
    {"unix:///run/a?db=1&x=2", "database"},
};

TEST(what_is_wrong_is_named_and_never_repeated)
{
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        struct redis_address address, untouched;
        struct guard_error error = {GUARD_OK, ""};

        memset(&address, 0x5a, sizeof address);
        memset(&untouched, 0x5a, sizeof untouched);
        if (redis_address_parse(bads[i].url, &address, &error))
            fail_msg("%s was accepted", bads[i].url);
        assert_int_equal(error.status, GUARD_INVALID);
        if (strstr(error.text, bads[i].named) == NULL)
            fail_msg("%s: \"%s\" does not name %s", bads[i].url, error.text, bads[i].named);
        assert_null(strstr(error.text, "hunter2"));
        assert_memory_equal(&address, &untouched, sizeof address);
    }
}

TEST(a_missing_url_and_a_missing_error_are_no_crash)
{
    struct redis_address address;
    struct guard_error error;

    assert_false(redis_address_parse(NULL, &address, &error));
    assert_int_equal(error.status, GUARD_INVALID);
    assert_false(redis_address_parse(NULL, &address, NULL));
    assert_false(redis_address_parse("redis://", &address, NULL));
}

/* Parses `before`, `count` times x, `after`. */
static bool parses(const char *before, size_t count, const char *after, struct redis_address *address)
{
    char url[2048];
    int length = snprintf(url, sizeof url, "%s", before);

    memset(url + length, 'x', count);
    snprintf(url + length + count, sizeof url - (size_t)length - count, "%s", after);
    return redis_address_parse(url, address, NULL);
}

TEST(the_longest_parts_fit_and_one_byte_more_is_refused)
{
    struct redis_address address;

    assert_true(parses("redis://", 253, ":1", &address));
    assert_int_equal(strlen(address.host), 253);
    assert_false(parses("redis://", 254, ":1", &address));
    assert_true(parses("redis://", 128, ":p@h", &address));
    assert_int_equal(strlen(address.user), 128);
    assert_false(parses("redis://", 129, ":p@h", &address));
    assert_true(parses("redis://:", 512, "@h", &address));
    assert_int_equal(strlen(address.password), 512);
    assert_false(parses("redis://:", 513, "@h", &address));
    assert_true(parses("unix:///", 106, "?db=1", &address));
    assert_int_equal(strlen(address.host), 107);
    assert_false(parses("unix:///", 107, "?db=1", &address));
}

TEST(a_cleared_address_holds_no_secret)
{
    static const struct redis_address empty;
    struct redis_address address;

    memset(&address, 0, sizeof address);
    assert_true(redis_address_parse("redis://me:hunter2@h", &address, NULL));
    redis_address_clear(&address);
    assert_memory_equal(&address, &empty, sizeof address);
}
