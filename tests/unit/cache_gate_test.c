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

/* ---- how long entries may live ---- */

static void gate_with(struct cache_gate *gate, struct settings *settings, const char *write_url)
{
    *settings = (struct settings){.guard.redis_url = "redis://a",
                                  .guard.name_space = "shop",
                                  .write_database_url = write_url,
                                  .policy = {.fresh_ms = 60000, .absent_ms = 1, .max_hold_ms = 30000}};
    cache_gate_init(gate, settings, NULL);
}

TEST(a_longer_life_counts_once_it_was_announced_and_a_shorter_one_at_once)
{
    struct settings settings;
    struct cache_gate gate;
    bool is_news;
    gate_with(&gate, &settings, "host=b");
    const uint64_t before_ms = cache_gate_silence_ms(&gate, &is_news);
    assert_true(is_news);
    cache_gate_registered(&gate, "id", before_ms, 0);
    assert_true(cache_gate_set_life(&gate, &settings, 0));
    settings.policy.fresh_ms += 5000;
    assert_false(cache_gate_set_life(&gate, &settings, 1)); /* nobody announces it */
    assert_int_equal(cache_gate_silence_ms(&gate, &is_news), before_ms + 5000);
    assert_true(is_news);
    cache_gate_registered(&gate, "id", before_ms, 0); /* was under way */
    assert_false(cache_gate_set_life(&gate, &settings, 1));
    cache_gate_registered(&gate, "id", before_ms + 5000, 0);
    assert_true(cache_gate_set_life(&gate, &settings, 0));
    settings.policy.fresh_ms = 1;
    assert_true(cache_gate_set_life(&gate, &settings, 0));
    assert_int_equal(cache_gate_silence_ms(&gate, &is_news), before_ms + 5000);
    assert_false(is_news);
    cache_gate_clear(&gate);
}

TEST(without_writes_there_is_nobody_to_announce_it_to)
{
    struct settings settings;
    struct cache_gate gate;
    gate_with(&gate, &settings, "");
    settings.policy.stale_ms = 86000000;
    assert_true(cache_gate_set_life(&gate, &settings, 0));
    cache_gate_clear(&gate);
}
