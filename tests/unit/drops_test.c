/* SPDX-License-Identifier: MIT */
/* drops_test.c - which actions of a scenario make values be loaded again, and of which key. */
#include "load/play/drops.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As a scenario would have it. */
static struct result_drop drop_of(const char *text, bool *drops)
{
    struct words words;
    char line[512], why[SCENARIO_WHY_BYTES];
    struct result_drop drop;
    struct scenario *scenario = scenario_new();
    assert_non_null(scenario);
    assert_true(work_url_add(&scenario->work, "/item/{1-900}", why));
    assert_true(work_url_add(&scenario->work, "/price/12", why));
    assert_true(work_url_add(&scenario->work, "/list", why));
    snprintf(line, sizeof line, "at 1s %s", text);
    assert_null(words_split(&words, line));
    if (!scenario_take(scenario, &words, 1, why))
        fail_msg("%s: %s", text, why);
    *drops = drops_values(&scenario->events[0].action, &scenario->work, &drop);
    scenario_free(&scenario);
    return drop;
}

static void expect_all(const char *text)
{
    bool drops;
    struct result_drop drop = drop_of(text, &drops);
    if (!drops || drop.is_of_key)
        fail_msg("%s: %s", text, drops ? "of one key" : "nothing");
}

static void expect_key(const char *text, uint32_t key)
{
    bool drops;
    struct result_drop drop = drop_of(text, &drops);
    if (!drops || !drop.is_of_key || drop.key != key)
        fail_msg("%s: not of %u", text, (unsigned)key);
}

static void expect_nothing(const char *text)
{
    bool drops;
    drop_of(text, &drops);
    if (drops)
        fail_msg("%s: it drops nothing", text);
}

TEST(a_redis_that_was_emptied_drops_all)
{
    expect_all("redis flush");
    expect_all("redis kill");
    expect_all("redis start");
    expect_all("redis restart");
    expect_nothing("redis pause");
    expect_nothing("redis failover");
    expect_nothing("catalogd all kill");
    expect_nothing("leader kill");
    expect_nothing("link redis cut");
}

TEST(an_invalidation_drops_the_key_that_it_names)
{
    expect_key("invalidate product:7", 7);
    expect_key("post /invalidate?key=product:8&why=test", 8);
    expect_key("post /invalidate?monkey=1&key=7", 7);
    expect_key("post http://127.0.0.1:8080/item/9/invalidate", 9);
    expect_key("post /item/9", 9);
    expect_key("post /price/12?now", 12);
    expect_all("post /invalidate?tag=category:3");
    expect_all("post /price/123");
    expect_all("post /category/3/invalidate");
    expect_all("post /list");
    expect_all("post /item/x");
    expect_all("post http://127.0.0.1:8080");
    expect_all("invalidate rate");
}

TEST(a_command_drops_all_if_a_word_of_it_says_so)
{
    expect_all("run \"redis-cli -p 6379 FLUSHALL async\"");
    expect_all("run \"redis-cli del item:7\"");
    expect_all("run \"curl -X PURGE http://127.0.0.1/x\"");
    expect_nothing("run \"systemctl restart shop\"");
    expect_nothing("run \"echo model delta urban\"");
    expect_nothing("sql \"UPDATE items SET price = 1\"");
    expect_nothing("note \"flush\"");
}
