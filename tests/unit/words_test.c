/* SPDX-License-Identifier: MIT */
/* words_test.c - lines cut into words, and words put together again. */
#include "load/play/words.h"
#include "tests/support/test.h"

static struct words words;

static void expect_words(const char *line, const char *joined)
{
    char text[256] = "";
    size_t used = 0;
    assert_null(words_split(&words, line));
    for (const char *word = words_next(&words); word != NULL; word = words_next(&words))
        used += (size_t)snprintf(text + used, sizeof text - used, "[%s]", word);
    assert_string_equal(text, joined);
}

TEST(quotes_keep_words_together)
{
    expect_words("at 2s  run\t\"a  b\"", "[at][2s][run][a  b]");
    expect_words("version \"\\\"version\\\":\"", "[version][\"version\":]");
    expect_words("run 'echo \"x\" \\n'", "[run][echo \"x\" \\n]");
    expect_words("a\"b c\"d", "[ab cd]");
    expect_words("\"\" x", "[][x]");
    expect_words("ask /p#frag # a comment", "[ask][/p#frag]");
    expect_words("   # nothing", "");
    expect_words("", "");
}

TEST(what_cannot_be_cut_is_refused)
{
    static char line[WORDS_LINE_BYTES + 2];
    assert_string_equal(words_split(&words, "run \"echo"), "a quote is not closed");
    memset(line, 'x', sizeof line - 1);
    assert_string_equal(words_split(&words, line), "the line is too long: at most 4095 bytes");
    memset(line, 0, sizeof line);
    for (size_t i = 0; i <= WORDS_MAX; i++)
        memcpy(line + i * 2, "x ", 2);
    assert_string_equal(words_split(&words, line), "too many words: at most 64");
}

TEST(words_are_written_as_they_would_be_read_again)
{
    static const char line[] = "a \"b c\" \"\" \"x\\\"y\\\\z\" d";
    char text[64], small[8];
    assert_null(words_split(&words, line));
    struct words copy = words;
    assert_true(words_rest(&words, text, sizeof text));
    assert_string_equal(text, line);
    assert_false(words_rest(&copy, small, sizeof small));
    assert_string_equal(small, "a \"b c\"");
}

TEST(words_can_be_added_one_by_one)
{
    memset(&words, 0, sizeof words);
    assert_true(words_add(&words, "queries"));
    assert_true(words_add(&words, "# not a comment"));
    assert_true(words_skip(&words, "queries"));
    assert_false(words_skip(&words, "queries"));
    assert_string_equal(words_next(&words), "# not a comment");
    assert_null(words_next(&words));
    for (size_t i = 2; i < WORDS_MAX; i++)
        assert_true(words_add(&words, "x"));
    assert_false(words_add(&words, "x"));
}
