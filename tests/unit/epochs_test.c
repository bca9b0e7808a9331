/* SPDX-License-Identifier: MIT */
#include "guard/wire/epochs.h"
#include "tests/support/test.h"

static struct epochs epochs;

static int add(const char *tag)
{
    return epochs_add(&epochs, "shop", &(struct tag){tag, strlen(tag)});
}

TEST(each_tag_is_asked_for_once, P76)
{
    epochs_begin(&epochs);
    assert_int_equal(add("red"), 0);
    assert_int_equal(add("re"), 1);
    assert_int_equal(add("red"), 0);
    assert_int_equal(add("edr"), 2);
    assert_int_equal(add("re"), 1);
    epochs_begin(&epochs);
    assert_int_equal(add("re"), 0);
}

/* Some of the longer ones stand where the shorter one is looked for. */
TEST(a_tag_with_which_another_begins_is_one_of_its_own, P76)
{
    char tag[8];
    for (int i = 0; i < 1000; i++) {
        snprintf(tag, sizeof tag, "r%d", i);
        epochs_begin(&epochs);
        assert_int_equal(add(tag), 0);
        assert_int_equal(add("r"), 1);
    }
}

/* Many of them meet in one place. */
TEST(a_full_question_still_knows_what_it_has)
{
    char tag[8];
    epochs_begin(&epochs);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < EPOCHS_MAX; i++) {
            snprintf(tag, sizeof tag, "%d", i);
            assert_int_equal(add(tag), i);
        }
    }
    assert_int_equal(add("another"), -1);
    assert_int_equal(add("0"), 0);
}

TEST(the_longest_tags_of_one_entry_fit_into_a_new_question)
{
    char tag[TAGS_ENCODED_MAX + 1], name_space[KEY_NAMESPACE_MAX + 1];
    memset(tag, 'x', TAGS_ENCODED_MAX);
    tag[TAGS_ENCODED_MAX] = '\0';
    memset(name_space, 'n', KEY_NAMESPACE_MAX);
    name_space[KEY_NAMESPACE_MAX] = '\0';
    int count = 0, index;
    epochs_begin(&epochs);
    do {
        tag[0] = (char)('a' + count);
        index = epochs_add(&epochs, name_space, &(struct tag){tag, TAGS_ENCODED_MAX});
    } while (index == count && ++count < EPOCHS_MAX);
    assert_int_equal(index, -1);
    assert_in_range(count, GUARD_TAGS_MAX, EPOCHS_MAX - 1);
}
