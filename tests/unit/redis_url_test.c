/* SPDX-License-Identifier: MIT */
/* redis_url_test.c - Redis URLs: what they name, what is refused, and that no text repeats a password. */
#include "guard/redis/url.h"
#include "tests/support/test.h"

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
        struct redis_url url;
        struct guard_error error = {GUARD_OK, ""};
        char label[REDIS_LABEL_SIZE];
        if (!redis_url_read(goods[i].url, &url, &error))
            fail_msg("%s: %s", goods[i].url, error.text);
        redis_endpoint_label(&url.hosts[0], label);
        assert_string_equal(url.hosts[0].host, goods[i].host);
        assert_string_equal(url.login.user, goods[i].user);
        assert_string_equal(url.login.password, goods[i].password);
        assert_string_equal(label, goods[i].label);
        assert_int_equal(url.hosts[0].port, goods[i].port);
        assert_int_equal(url.database, goods[i].database);
        assert_int_equal(url.hosts[0].is_unix, goods[i].is_unix);
    }
}

TEST(a_url_names_hosts_and_how_the_master_is_found)
{
    struct redis_url url;
    char label[REDIS_LABEL_SIZE];
    assert_true(redis_url_read("rediss+sentinel://me:pw@s1,[::1]:1,s3:7/the%20master/3?sentinel_username=u&"
                               "sentinel_password=p%26q&strict=yes&ssl_ca_certs=/ca&ssl_cert_reqs=ca&"
                               "ssl_server_name=cache&wait_replicas=2&wait_ms=50&fence=role",
                               &url, NULL));
    assert_int_equal(url.kind, REDIS_SENTINEL);
    assert_int_equal(url.host_count, 3);
    assert_string_equal(url.hosts[0].host, "s1");
    assert_int_equal(url.hosts[0].port, 26379);
    assert_string_equal(url.hosts[1].host, "::1");
    assert_int_equal(url.hosts[2].port, 7);
    assert_string_equal(url.master_name, "the master");
    assert_int_equal(url.database, 3);
    assert_string_equal(url.login.user, "me");
    assert_string_equal(url.sentinel_login.user, "u");
    assert_string_equal(url.sentinel_login.password, "p&q");
    assert_true(url.tls.on && url.strict && url.fence_by_role);
    assert_int_equal(url.tls.verify, REDIS_TLS_CA);
    assert_string_equal(url.tls.ca, "/ca");
    assert_string_equal(url.tls.server_name, "cache");
    assert_int_equal(url.wait_replicas, 2);
    assert_int_equal(url.wait_ms, 50);
    redis_url_label(&url, label);
    assert_string_equal(label, "s1:26379 +2");
}

TEST(each_word_of_a_parameter_is_taken, P132)
{
    struct redis_url url;
    assert_true(redis_url_read("rediss://h?ssl_cert_reqs=none&ssl_certfile=/c&ssl_keyfile=/k", &url, NULL));
    assert_int_equal(url.tls.verify, REDIS_TLS_NONE);
    assert_string_equal(url.tls.cert, "/c");
    assert_string_equal(url.tls.key, "/k");
    assert_true(redis_url_read("rediss://h?ssl_cert_reqs=required&fence=write", &url, NULL));
    assert_int_equal(url.tls.verify, REDIS_TLS_REQUIRED);
    assert_false(url.fence_by_role);
    assert_true(redis_url_read("redis+sentinel://h/m?strict=no&sentinel_password_file=/s", &url, NULL));
    assert_false(url.strict);
    assert_string_equal(url.sentinel_login.password_file, "/s");
    assert_true(redis_url_read("redis+cluster://a,b/0?password_file=/p", &url, NULL));
    assert_int_equal(url.kind, REDIS_CLUSTER);
    assert_int_equal(url.hosts[1].port, 6379);
    assert_string_equal(url.login.password_file, "/p");
    assert_int_equal(url.wait_ms, 100);
}

/* What is wrong, and a word of the text that names it. Wherever a password may stand, it is "hunter2". */
static const struct {
    const char *url, *named;
} bads[] = {
    {"", "begin with"},
    {"localhost:6379", "begin with"},
    {"http://h", "begin with"},
    {"REDIS://h", "begin with"},
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
    {"redis://h/1?x=y", "?x="},
    {"redis://h?db=1", "socket"},
    {"redis://h\n", "host"},
    {"redis://h\xc3\xa9", "host"},
    {"unix://", "path"},
    {"unix://run", "path"},
    {"unix://run/redis.sock", "user:password@"},
    {"unix:///run/a%00b", "path"},
    {"unix:///run/a%", "path"},
    {"unix:///run/a?database=1", "?database="},
    {"unix:///run/a?db=", "?db="},
    {"unix:///run/a?db=1&x=2", "?x="},
    {"unix:///run/a?strict=yes", "redis+sentinel://"},
    {"redis://me:a?hunter2=x@h", "port"},
    {"redis://h?hunter2@", "%3F"},
    {"redis://h?ssl_ca_certs=/ca", "rediss://"},
    {"rediss://h?ssl_cert_reqs=hunter2", "ssl_cert_reqs"},
    {"rediss://h?ssl_certreqs=none", "ssl_certreqs"},
    {"rediss://h?ssl_certfile=/c", "each other"},
    {"rediss://h?ssl_ca_certs=", "ssl_ca_certs"},
    {"redis://h?wait_ms=0", "wait_ms"},
    {"redis://h?fence=yes", "write or role"},
    {"redis://h?fence=role&fence=write", "twice"},
    {"rediss://h?ssl_cert_reqs=required&ssl_cert_reqs=none", "twice"},
    {"rediss://h?verifyPeer=NONE", "not known"},
    {"redis://h?wait_ms=10001", "wait_ms"},
    {"redis://h?wait_replicas=101", "wait_replicas"},
    {"redis://h?sentinel_password=hunter2", "redis+sentinel://"},
    {"redis://:hunter2@h?password_file=/p", "leave one"},
    {"redis://h,i", "host"},
    {"redis+sentinel://h", "name of their master"},
    {"redis+sentinel://h/", "name of their master"},
    {"redis+sentinel://h/m/x", "database"},
    {"redis+sentinel://h,/m", "host"},
    {"redis+sentinel://a,b,c,d,e,f,g,h,i,j/m", "9 hosts"},
    {"redis+sentinel://h/m?sentinel_password=a%zzhunter2", "sentinel_password"},
    {"redis+sentinel://h/m?sentinel_password=hunter2&sentinel_password_file=/p", "leave one"},
    {"redis-sentinel://h/m", "begin with"},
    {"redis+cluster://h/1", "no database but 0"},
    {"redis+cluster://h?strict=yes", "redis+sentinel://"},
};

TEST(what_is_wrong_is_named_and_never_repeated, P132)
{
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        struct redis_url url, untouched;
        struct guard_error error = {GUARD_OK, ""};
        memset(&url, 0x5a, sizeof url);
        memset(&untouched, 0x5a, sizeof untouched);
        if (redis_url_read(bads[i].url, &url, &error))
            fail_msg("%s was accepted", bads[i].url);
        assert_int_equal(error.status, GUARD_INVALID);
        if (strstr(error.text, bads[i].named) == NULL)
            fail_msg("%s: \"%s\" does not name %s", bads[i].url, error.text, bads[i].named);
        assert_null(strstr(error.text, "hunter2"));
        assert_memory_equal(&url, &untouched, sizeof url);
    }
}

TEST(a_missing_url_and_a_missing_error_are_no_crash)
{
    struct redis_url url;
    struct guard_error error;
    assert_false(redis_url_read(NULL, &url, &error));
    assert_int_equal(error.status, GUARD_INVALID);
    assert_false(redis_url_read(NULL, &url, NULL));
    assert_false(redis_url_read("redis://", &url, NULL));
}

/* Parses `before`, `count` times x, `after`. */
static bool parses(const char *before, size_t count, const char *after, struct redis_url *out)
{
    char url[8192];
    int length = snprintf(url, sizeof url, "%s", before);
    memset(url + length, 'x', count);
    snprintf(url + length + count, sizeof url - (size_t)length - count, "%s", after);
    return redis_url_read(url, out, NULL);
}

TEST(the_longest_parts_fit_and_one_byte_more_is_refused)
{
    struct redis_url url;
    assert_true(parses("redis://", 253, ":1", &url));
    assert_int_equal(strlen(url.hosts[0].host), 253);
    assert_false(parses("redis://", 254, ":1", &url));
    assert_true(parses("redis://", 128, ":p@h", &url));
    assert_int_equal(strlen(url.login.user), 128);
    assert_false(parses("redis://", 129, ":p@h", &url));
    assert_true(parses("redis://:", 4096, "@h", &url));
    assert_int_equal(strlen(url.login.password), 4096);
    assert_false(parses("redis://:", 4097, "@h", &url));
    assert_true(parses("unix:///", 106, "?db=1", &url));
    assert_int_equal(strlen(url.hosts[0].host), 107);
    assert_false(parses("unix:///", 107, "?db=1", &url));
}

TEST(a_cleared_url_holds_no_secret)
{
    static const struct redis_url empty;
    struct redis_url url;
    memset(&url, 0, sizeof url);
    assert_true(redis_url_read("redis://me:hunter2@h", &url, NULL));
    redis_url_clear(&url);
    assert_memory_equal(&url, &empty, sizeof url);
}
