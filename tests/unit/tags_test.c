/* SPDX-License-Identifier: MIT */
#include "guard/base/tags.h"
#include "tests/support/test.h"

static const struct tags_clock born = {7, 5};

static enum tags_verdict judged(size_t tag_count, struct tags_clock first, struct tags_clock second)
{
    const struct tags_epochs epochs = {.answered = true, .count = 2, .of = {first, second}};
    return tags_judge(&epochs, tag_count, &born);
}

/* ---- epochs ---- */

TEST(an_entry_is_good_unless_one_of_its_tags_was_invalidated_after_it_was_born)
{
    assert_int_equal(judged(2, (struct tags_clock){7, 5}, (struct tags_clock){7, 1}), TAGS_GOOD);
    assert_int_equal(judged(2, (struct tags_clock){7, 6}, (struct tags_clock){7, 1}), TAGS_OUTDATED);
    assert_int_equal(judged(2, (struct tags_clock){7, 1}, (struct tags_clock){7, 6}), TAGS_OUTDATED);
}

TEST(a_tag_without_an_epoch_or_of_another_era_is_not_good)
{
    assert_int_equal(judged(2, (struct tags_clock){7, 5}, (struct tags_clock){0, 0}), TAGS_OUTDATED);
    assert_int_equal(judged(2, (struct tags_clock){6, 1}, (struct tags_clock){7, 5}), TAGS_OUTDATED);
    assert_int_equal(judged(2, (struct tags_clock){8, 1}, (struct tags_clock){7, 5}), TAGS_OUTDATED);
    const struct tags_epochs lost = {.answered = true, .count = 1, .of = {{0, 0}}};
    assert_int_equal(tags_judge(&lost, 1, &(struct tags_clock){0, 0}), TAGS_OUTDATED);
}

TEST(an_answer_that_does_not_fit_is_not_good_and_none_is_no_verdict)
{
    assert_int_equal(judged(1, born, born), TAGS_OUTDATED);
    assert_int_equal(judged(3, born, born), TAGS_OUTDATED);
    const struct tags_epochs none = {.answered = false};
    assert_int_equal(tags_judge(&none, 2, &born), TAGS_UNANSWERED);
}

TEST(a_clock_is_read_as_it_was_written)
{
    const struct tags_clock clock = {1763777777000000, 42};
    struct tags_clock read;
    char text[TAGS_CLOCK_BYTES + 1];
    tags_clock_write(&clock, text);
    assert_string_equal(text, "1763777777000000.000000000042");
    assert_true(tags_clock_read(text, TAGS_CLOCK_BYTES, &read));
    assert_true(read.era == clock.era && read.count == clock.count);
}

TEST(what_is_no_clock_is_not_known)
{
    static const char *const wrong[] = {"",
                                        "1763777777000000.00000000004",
                                        "1763777777000000.0000000000420",
                                        "1763777777000000 000000000042",
                                        "176377777700000x.000000000042",
                                        "1763777777000000.00000000004-",
                                        "0000000000000000.000000000042"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct tags_clock clock = {1, 1};
        assert_false(tags_clock_read(wrong[i], strlen(wrong[i]), &clock));
        assert_true(clock.era == 0);
    }
}

/* ---- the tags of one entry ---- */

TEST(tags_are_encoded_and_each_is_there_once)
{
    char text[TAGS_TEXT_MAX + 1] = "";
    size_t bytes = 0;
    struct tag tags[GUARD_TAGS_MAX];
    assert_true(tags_add(text, &bytes, "category:7", strlen("category:7")));
    assert_true(tags_add(text, &bytes, "a b{c}", strlen("a b{c}")));
    assert_true(tags_add(text, &bytes, "category:7", strlen("category:7")));
    assert_string_equal(text, "category:7 a%20b%7Bc%7D");
    assert_int_equal(bytes, strlen(text));
    assert_int_equal(tags_split(text, bytes, tags), 2);
    assert_int_equal(tags_count(text, bytes), 2);
    assert_memory_equal(tags[1].at, "a%20b%7Bc%7D", tags[1].bytes);
    assert_int_equal(tags_split("", 0, tags), 0);
    assert_int_equal(tags_count("", 0), 0);
}

TEST(there_is_room_for_the_longest_tags_and_for_no_more)
{
    char text[TAGS_TEXT_MAX + 1] = "", tag[GUARD_TAG_BYTES_MAX + 2];
    size_t bytes = 0;
    struct tag tags[GUARD_TAGS_MAX];
    memset(tag, ' ', sizeof tag);
    tag[GUARD_TAG_BYTES_MAX + 1] = '\0';
    assert_false(tags_add(text, &bytes, tag, strlen(tag)));
    assert_false(tags_add(text, &bytes, "", strlen("")));
    tag[GUARD_TAG_BYTES_MAX] = '\0';
    for (char i = 0; i < GUARD_TAGS_MAX; i++) {
        tag[0] = (char)('\x01' + i);
        assert_true(tags_add(text, &bytes, tag, strlen(tag)));
    }
    assert_int_equal(bytes, TAGS_TEXT_MAX);
    assert_int_equal(tags_split(text, bytes, tags), GUARD_TAGS_MAX);
    assert_true(tags_add(text, &bytes, tag, strlen(tag)));
    assert_false(tags_add(text, &bytes, "one more", strlen("one more")));
    assert_int_equal(bytes, TAGS_TEXT_MAX);
}

TEST(a_text_that_nobody_wrote_is_none)
{
    static const char *const wrong[] = {" ", "a ", " a", "a  b", "a b c d e f g h i", "a\n", "{a}"};
    struct tag tags[GUARD_TAGS_MAX];
    char long_tag[TAGS_ENCODED_MAX + 1];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tags_split(wrong[i], strlen(wrong[i]), tags), -1);
    memset(long_tag, 'a', sizeof long_tag);
    assert_int_equal(tags_split(long_tag, sizeof long_tag, tags), -1);
    assert_int_equal(tags_split(long_tag, sizeof long_tag - 1, tags), 1);
}
