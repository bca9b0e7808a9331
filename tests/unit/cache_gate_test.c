/* SPDX-License-Identifier: MIT */
/* cache_gate_test.c - what a cache is called in the database, where others read it. */
#include "app/catalog/cache_gate.h"
#include "tests/support/test.h"
#include <string.h>

static void expect_label(const char *url, const char *label)
{
    struct cache_gate gate;
    const struct settings settings = {.guard = {.redis_url = url, .name_space = "shop"},
                                      .write_database_url = ""};
    cache_gate_init(&gate, &settings, NULL);
    assert_string_equal(gate.label, label);
    assert_null(strstr(gate.label, "hush"));
    cache_gate_clear(&gate);
}

TEST(a_cache_is_named_by_its_namespace_and_hosts_and_never_by_a_secret)
{
    expect_label("redis://127.0.0.1:6379/0", "shop in 127.0.0.1:6379/0");
    expect_label("rediss://me:hush@cache:6380/2?ssl_ca_certs=/ca.pem", "shop in cache:6380/2");
    expect_label("unix:///run/redis.sock?db=2", "shop in /run/redis.sock");
    expect_label("redis+sentinel://:hush@s1,s2:26380/cache?sentinel_password=hush@hush",
                 "shop in s1,s2:26380/cache");
    expect_label("redis+cluster://n1,n2?password_file=/hush@n", "shop in n1,n2");
}
