/* SPDX-License-Identifier: MIT */
/* tag_memory_test.c - which tags a key had: a hint, but one that holds for thousands of keys in turn. */
#include "guard/base/chance.h"
#include "guard/run/tag_memory.h"
#include "tests/support/test.h"

enum { IN_TURN = TAG_MEMORY_KEYS / 3 };

static bool is_remembered(struct tag_memory *memory, uint64_t key_hash, const char *tags)
{
    const char *found = NULL;
    size_t bytes = tag_memory_get(memory, key_hash, &found);
    return bytes == strlen(tags) && memcmp(found, tags, bytes) == 0;
}

TEST(thousands_of_keys_are_remembered_at_a_time, P76)
{
    static uint64_t hashes[IN_TURN];
    struct chance chance = {.state = 1};
    struct tag_memory *memory = NULL;
    char tags[32];
    unsigned remembered = 0;
    for (unsigned i = 0; i < IN_TURN; i++) {
        hashes[i] = chance_next(&chance);
        snprintf(tags, sizeof tags, "category:%u", i);
        tag_memory_remember(&memory, hashes[i], tags, strlen(tags));
    }
    for (unsigned i = 0; i < IN_TURN; i++) {
        snprintf(tags, sizeof tags, "category:%u", i);
        remembered += is_remembered(memory, hashes[i], tags);
    }
    assert_in_range(remembered, IN_TURN - IN_TURN / 100, IN_TURN);
    tag_memory_free(&memory);
    assert_null(memory);
}

TEST(the_last_ones_of_a_key_hold_and_none_is_none)
{
    const char *tags = NULL;
    char longest[TAG_MEMORY_TEXT_MAX + 2];
    struct tag_memory *memory = NULL;
    memset(longest, 'x', sizeof longest);
    longest[TAG_MEMORY_TEXT_MAX] = '\0';
    tag_memory_remember(&memory, 7, "a b", 3);
    assert_true(is_remembered(memory, 7, "a b"));
    tag_memory_put(memory, 7, longest, TAG_MEMORY_TEXT_MAX);
    assert_true(is_remembered(memory, 7, longest));
    tag_memory_put(memory, 7, longest, TAG_MEMORY_TEXT_MAX + 1);
    assert_int_equal(tag_memory_get(memory, 7, &tags), 0);
    tag_memory_put(memory, 7, "a", 1);
    tag_memory_put(memory, 7, "", 0);
    assert_int_equal(tag_memory_get(memory, 7, &tags), 0);
    assert_int_equal(tag_memory_get(memory, 0, &tags), 0);
    tag_memory_free(&memory);
}

TEST(without_memory_nothing_is_known)
{
    const char *tags = NULL;
    tag_memory_put(NULL, 7, "a", 1);
    assert_int_equal(tag_memory_get(NULL, 7, &tags), 0);
}
