/* SPDX-License-Identifier: MIT */
/*
 * key_test.c - how application keys are spelled in Redis.
 */
#include "guard/base/key.h"
#include "tests/support/test.h"

#include <limits.h>

static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";

static void assert_encoded(const char *key, size_t key_bytes, const char *expected)
{
    char encoded[KEY_ENCODED_MAX + 1];
    memset(encoded, '?', sizeof(encoded));
    assert_int_equal(key_encode(key, key_bytes, encoded), strlen(expected));
    assert_string_equal(encoded, expected);
}

TEST(a_plain_key_stands_as_it_is)
{
    assert_encoded("product:7", 9, "product:7");
    assert_encoded(plain, sizeof(plain) - 1, plain);
}

TEST(every_other_byte_is_percent_encoded)
{
    for (int byte = 1; byte <= 255; byte++) {
        const char key = (char)byte;
        char expected[4] = {key};
        if (strchr(plain, byte) == NULL)
            snprintf(expected, sizeof(expected), "%%%02X", (unsigned)byte);
        assert_encoded(&key, 1, expected);
    }
    assert_encoded("a{b} c\r\n%", 9, "a%7Bb%7D%20c%0D%0A%25");
}

TEST(two_hundred_encoded_bytes_stand_and_one_more_is_hashed)
{
    char key[KEY_ENCODED_MAX + 2], expected[KEY_ENCODED_MAX + 1];
    memset(key, 'a', sizeof(key));
    snprintf(expected, sizeof(expected), "%.*s", (int)KEY_ENCODED_MAX, key);
    assert_encoded(key, KEY_ENCODED_MAX, expected);
    /* printf %0201d 0 | tr 0 a | sha256sum */
    assert_encoded(key, KEY_ENCODED_MAX + 1,
                   "%sha256:a92efd82109373e58f9a2056dee01e807e216ce6075f7051207c0a9f7d666e50");
    /* What counts is the encoded length: 198 + 3 bytes. */
    key[198] = '/';
    char encoded[KEY_ENCODED_MAX + 1];
    assert_int_equal(key_encode(key, 199, encoded), 8 + 64);
    assert_memory_equal(encoded, "%sha256:", 8);
    /* And 197 + 3 stand. */
    key[197] = '/';
    assert_int_equal(key_encode(key, 198, encoded), KEY_ENCODED_MAX);
}

TEST(the_longest_keys_that_differ_in_one_byte_have_different_names)
{
    char first[KEY_BYTES_MAX], second[KEY_BYTES_MAX];
    char first_encoded[KEY_ENCODED_MAX + 1], second_encoded[KEY_ENCODED_MAX + 1];
    memset(first, 'k', sizeof(first));
    key_encode(first, sizeof(first), first_encoded);
    const size_t places[] = {0, 1, 199, 200, 2048, KEY_BYTES_MAX - 1};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        memcpy(second, first, sizeof(second));
        second[places[i]] = 'K';
        key_encode(second, sizeof(second), second_encoded);
        assert_string_not_equal(first_encoded, second_encoded);
    }
}

TEST(no_key_can_be_spelled_like_a_hashed_one, P21)
{
    char encoded[KEY_ENCODED_MAX + 1];
    key_encode("%sha256:00", 10, encoded);
    assert_memory_equal(encoded, "%25sha256", 9);
}

TEST(a_key_is_1_to_4096_bytes_without_nul)
{
    char key[KEY_BYTES_MAX + 1];
    memset(key, '\xff', sizeof(key));
    assert_false(key_valid(key, 0));
    assert_true(key_valid(key, 1));
    assert_true(key_valid(key, KEY_BYTES_MAX));
    assert_false(key_valid(key, KEY_BYTES_MAX + 1));
    key[KEY_BYTES_MAX - 1] = '\0';
    assert_false(key_valid(key, KEY_BYTES_MAX));
    assert_true(key_valid(key, KEY_BYTES_MAX - 1));
}

TEST(a_namespace_is_1_to_32_plain_bytes_without_colon)
{
    const char *const longest = "abcdefghijklmnopqrstuvwxyzABC._-";
    assert_int_equal(strlen(longest), KEY_NAMESPACE_MAX);
    assert_true(key_namespace_valid(longest));
    assert_true(key_namespace_valid("7"));
    const char *const wrong[] = {
        "", "abcdefghijklmnopqrstuvwxyzABC._-x", "a:b", "a b", "{a", "a}", "a/b", "a%", "\xc3\xa4", "a\n"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(key_namespace_valid(wrong[i]));
}

TEST(names_share_one_hash_tag_and_differ_in_their_role)
{
    char name[KEY_NAME_SIZE];
    assert_int_equal(key_name("shop", "product:7", KEY_VALUE, name), 23);
    assert_string_equal(name, "csg1:{shop:product:7}:v");
    key_name("shop", "product:7", KEY_LEASE, name);
    assert_string_equal(name, "csg1:{shop:product:7}:l");
    key_name("shop", "product:7", KEY_FAILURE, name);
    assert_string_equal(name, "csg1:{shop:product:7}:e");
    key_name("shop", "product:7", KEY_WAITING, name);
    assert_string_equal(name, "csg1:{shop:product:7}:w");
}

TEST(the_longest_name_and_channel_fit)
{
    char encoded[KEY_ENCODED_MAX + 1], name[KEY_NAME_SIZE], channel[KEY_CHANNEL_SIZE];
    char name_space[KEY_NAMESPACE_MAX + 1];
    memset(encoded, 'e', KEY_ENCODED_MAX);
    encoded[KEY_ENCODED_MAX] = '\0';
    memset(name_space, 'n', KEY_NAMESPACE_MAX);
    name_space[KEY_NAMESPACE_MAX] = '\0';
    assert_int_equal(key_name(name_space, encoded, KEY_VALUE, name), 6 + 32 + 1 + 200 + 3);
    assert_int_equal(strlen(name), 6 + 32 + 1 + 200 + 3);
    assert_string_equal(name + strlen(name) - 3, "}:v");
    assert_int_equal(key_channel(name_space, UINT_MAX, channel), 10 + 32 + 1 + 10);
    assert_string_equal(channel, "csg1:wake:nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn:4294967295");
}

TEST(the_channel_carries_namespace_and_database)
{
    char channel[KEY_CHANNEL_SIZE];
    key_channel("shop", 3, channel);
    assert_string_equal(channel, "csg1:wake:shop:3");
}
