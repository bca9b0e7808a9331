/* SPDX-License-Identifier: MIT */
/*
 * token_test.c - which files hold a token, and who has shown it.
 */
#include "app/base/token.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <sys/stat.h>
#include <unistd.h>

static const char SECRET[] = "0123456789abcdef";

static char folder[] = "/tmp/token_test.XXXXXX";
static char path[sizeof(folder) + 8];

static bool make_folder(void)
{
    if (mkdtemp(folder) == NULL)
        return false;
    snprintf(path, sizeof(path), "%s/token", folder);
    return true;
}

static bool remove_folder(void)
{
    unlink(path);
    return rmdir(folder) == 0;
}

static bool read_from(const char *text, mode_t mode, struct token *token)
{
    unlink(path); /* the one before may be read-only */
    file_write(path, text);
    assert_int_equal(chmod(path, mode), 0);
    return token_read("TOKEN_FILE", path, token);
}

TEST(the_first_line_is_the_token)
{
    struct token token;
    assert_true(read_from("0123456789abcdef\nand a comment\n", 0600, &token));
    assert_int_equal(token.bytes, 16);
    assert_true(token_matches(&token, SECRET));
    assert_true(read_from("0123456789abcdef\r\n", 0640, &token));
    assert_true(token_matches(&token, SECRET));
    assert_true(read_from(SECRET, 0400, &token));
    assert_true(token_matches(&token, SECRET));
}

TEST(nothing_but_the_token_matches)
{
    static const char *const others[] = {
        "", "0", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0", "X123456789abcdef"};
    struct token token;
    char endless[4 * TOKEN_BYTES_MAX];
    assert_true(read_from(SECRET, 0600, &token));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(token_matches(&token, others[i]));
    memset(endless, '0', sizeof(endless));
    endless[sizeof(endless) - 1] = '\0';
    assert_false(token_matches(&token, endless));
}

TEST(the_longest_token_is_compared_to_its_end)
{
    char text[TOKEN_BYTES_MAX + 2];
    struct token token;
    memset(text, 'a', sizeof(text));
    text[TOKEN_BYTES_MAX] = '\0';
    assert_true(read_from(text, 0600, &token));
    assert_true(token_matches(&token, text));
    text[TOKEN_BYTES_MAX - 1] = 'b';
    assert_false(token_matches(&token, text));
    text[TOKEN_BYTES_MAX] = 'a';
    text[TOKEN_BYTES_MAX + 1] = '\0';
    assert_false(read_from(text, 0600, &token));
}

TEST(a_file_that_others_can_open_is_refused)
{
    struct token token;
    assert_false(read_from(SECRET, 0644, &token));
    assert_false(read_from(SECRET, 0660, &token));
    assert_false(read_from(SECRET, 0602, &token));
}

TEST(what_is_no_token_is_refused)
{
    static const char *const texts[] = {"",
                                        "\n",
                                        "short",
                                        "0123456789abcde",
                                        "0123456789 abcdef",
                                        "\n0123456789abcdef",
                                        "0123456789abcd\xc3\xa9",
                                        "0123456789\tabcdef"};
    struct token token;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(read_from(texts[i], 0600, &token));
    assert_false(token_read("TOKEN_FILE", folder, &token));
    assert_false(token_read("TOKEN_FILE", "/nonexistent/token", &token));
}

TEST(without_a_file_none_is_asked_for)
{
    struct token token;
    assert_true(token_read("TOKEN_FILE", "", &token));
    assert_int_equal(token.bytes, 0);
}

TEST_GROUP(.up = make_folder, .down = remove_folder);
