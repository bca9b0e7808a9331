/* SPDX-License-Identifier: MIT */
/* cache_gate_test.c - what a cache is called in the database, where everybody who reads it can see that. */
#include "app/catalog/cache_gate.h"
#include "tests/support/test.h"

static void expect_label(const char *url, const char *wanted)
{
    struct settings settings = {.guard.redis_url = url, .guard.name_space = "shop", .write_database_url = ""};
    struct cache_gate gate;
    cache_gate_init(&gate, &settings, NULL);
    assert_string_equal(gate.label, wanted);
    cache_gate_clear(&gate);
}

TEST(a_cache_is_called_by_its_name_space_and_where_it_is)
{
    expect_label("redis://cache-1:6380/2", "shop in cache-1:6380/2");
    expect_label("unix:///run/redis.sock", "shop in /run/redis.sock");
    expect_label("redis+sentinel://a:7,b/cache", "shop in a:7,b/cache");
}

TEST(no_secret_of_the_url_is_in_its_name)
{
    expect_label("redis://me:hush@cache-1", "shop in cache-1");
    expect_label("redis+sentinel://:hush@a,b/cache?sentinel_password=hush", "shop in a,b/cache");
    expect_label("rediss+sentinel://a,b/cache?sentinel_username=x&sentinel_password=hu@sh",
                 "shop in a,b/cache");
}
