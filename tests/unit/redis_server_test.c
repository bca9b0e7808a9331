/* SPDX-License-Identifier: MIT */
/* redis_server_test.c - which server it is by its own words, and whether it will do. */
#include "guard/redis/server.h"
#include "tests/support/test.h"

TEST(a_server_is_named_by_its_own_name_and_version)
{
    static const struct {
        const char *info, *name;
        bool too_old, no_getex;
    } rows[] = {
        {"# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n", "redis 7.0.15", false, false},
        {"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n", "valkey 8.0.1",
         false, false},
        {"# Server\r\nredis_version:7.2.4\r\nvalkey_version:7.2.5\r\n", "valkey 7.2.5", false, false},
        {"# Server\r\nredis_version:6.2.0\r\n", "redis 6.2.0", false, false},
        {"# Server\r\nredis_version:6.0.16\r\n", "redis 6.0.16", false, true},
        {"# Server\r\nredis_version:5.0.14\r\n", "redis 5.0.14", true, true},
        {"# Server\r\nredis_version:10\r\n", "redis 10", false, false},
        {"# Server\r\nredis_version:255.255.255\r\n", "redis 255.255.255", false, false},
        {"# Server\r\nredis_version:unstable\r\n", "redis unstable", false, false},
        {"# Server\r\nredis_version:7\x1b[31m\r\n", "redis 7", false, false},
        {"# Server\r\nredis_version:\r\n", "", false, false},
        {"# Server\r\n", "", false, false},
        {"", "", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct redis_server server = {.too_old = true};
        redis_server_read(&server, rows[i].info);
        assert_string_equal(server.name, rows[i].name);
        assert_int_equal(server.too_old, rows[i].too_old);
        assert_int_equal(server.no_getex, rows[i].no_getex);
    }
}

TEST(what_is_no_redis_is_known_by_its_first_bytes)
{
    assert_non_null(strstr(redis_server_stranger("HTTP/1.0 400", 12), "HTTP"));
    assert_non_null(strstr(redis_server_stranger("ERROR\r\n", 7), "memcached"));
    assert_non_null(strstr(redis_server_stranger("J\0\0\0\n8.0", 8), "does not speak"));
    assert_non_null(strstr(redis_server_stranger("\0\0\0", 3), "does not speak"));
    for (const char *type = "+-:$*%"; *type != '\0'; type++)
        assert_null(redis_server_stranger(type, 1));
    assert_null(redis_server_stranger("", 0));
}

TEST(a_server_is_news_once_and_again_when_it_is_another)
{
    struct redis_news news;
    redis_news_init(&news);
    assert_false(redis_news_take(NULL, "redis 7.0.15"));
    assert_false(redis_news_take(&news, ""));
    assert_true(redis_news_take(&news, "redis 7.0.15"));
    assert_false(redis_news_take(&news, "redis 7.0.15"));
    assert_false(redis_news_take(&news, ""));
    assert_false(redis_news_take(&news, "redis 7.0.15"));
    assert_true(redis_news_take(&news, "valkey 8.0.1"));
    assert_true(redis_news_take(&news, "redis 7.0.15"));
    redis_news_clear(&news);
}
