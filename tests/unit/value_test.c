/* SPDX-License-Identifier: MIT */
/*
 * value_test.c - shared immutable values: copies, ends, references.
 */
#include "guard/base/value.h"
#include "tests/support/test.h"

#include <pthread.h>

TEST(a_value_is_a_copy_with_a_zero_behind_it)
{
    char body[] = {'a', '\0', '\r', '\n', '}', (char)0xff};
    char validator[] = "\"v7\"";
    struct value *value = value_new(body, sizeof body, validator, 4, NULL, 0);
    assert_non_null(value);
    memset(body, 'x', sizeof body);
    memset(validator, 'x', 4);
    assert_int_equal(value->public.body_bytes, 6);
    assert_memory_equal(value->public.body, "a\0\r\n}\xff\0", 7);
    assert_string_equal(value->public.validator, "\"v7\"");
    assert_int_equal(value->validator_bytes, 4);
    value_unref(&value);
    assert_null(value);
    value_unref(&value);
}

TEST(its_parts_stand_behind_each_other)
{
    struct value *value = value_from(&(struct value_parts){.body = "body",
                                                           .body_bytes = 4,
                                                           .validator = "v",
                                                           .validator_bytes = 1,
                                                           .tags = "t0 t1",
                                                           .tags_bytes = 5,
                                                           .meta = "a\0b",
                                                           .meta_bytes = 3});
    assert_non_null(value);
    assert_memory_equal(value->bytes, "body\0v\0t0 t1\0a\0b", 4 + 1 + 5 + 3 + VALUE_NULS);
    assert_string_equal(value->tags, "t0 t1");
    assert_int_equal(value->public.meta_bytes, 3);
    assert_memory_equal(value->public.meta, "a\0b", 4);
    value_unref(&value);
}

TEST(an_empty_value_is_a_value)
{
    struct value *value = value_new(NULL, 0, NULL, 0, NULL, 0);
    assert_non_null(value);
    assert_int_equal(value->public.meta_bytes, 0);
    assert_string_equal(value->public.meta, "");
    assert_int_equal(value->public.body_bytes, 0);
    assert_string_equal(value->public.body, "");
    assert_string_equal(value->public.validator, "");
    value_unref(&value);
}

TEST(a_size_that_overflows_is_refused)
{
    assert_null(value_new("", SIZE_MAX, "", 1, NULL, 0));
    assert_null(value_new("", SIZE_MAX - 8, "", 0, NULL, 0));
}

TEST(the_public_pointer_keeps_it_alive)
{
    struct value *value = value_new("body", 4, "", 0, NULL, 0);
    const struct guard_value *kept = guard_value_ref(&value->public);
    assert_ptr_equal(kept, &value->public);
    value_unref(&value);
    assert_string_equal(kept->body, "body");
    guard_value_unref(&kept);
    assert_null(kept);
    guard_value_unref(&kept);
}

static void *use(void *shared)
{
    for (int i = 0; i < 20000; i++) {
        const struct guard_value *value = guard_value_ref(shared);
        guard_value_unref(&value);
    }
    return NULL;
}

TEST(references_are_counted_across_threads)
{
    struct value *value = value_new("body", 4, "", 0, NULL, 0);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, use, &value->public), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(atomic_load(&value->refs), 1);
    value_unref(&value);
}
