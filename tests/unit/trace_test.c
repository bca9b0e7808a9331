/* SPDX-License-Identifier: MIT */
/*
 * trace_test.c - the table of promises in tests/README.md names tests that exist.
 *
 * In a row of that table a word in backquotes with a slash and "_test" in it names a program,
 * and every other word of three parts or more is a test of the program named last. A test that is renamed, or
 * a promise that names none without saying why, fails here.
 */
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROMISES = 183, LINE_SIZE = 8192, WORD_SIZE = 160 };

/* The next word in backquotes; false: there is none. */
static bool next_word(const char **at, char word[static WORD_SIZE])
{
    const char *begin = strchr(*at, '`'), *end = begin != NULL ? strchr(begin + 1, '`') : NULL;
    if (end == NULL)
        return false;
    snprintf(word, WORD_SIZE, "%.*s", (int)(end - begin - 1), begin + 1);
    *at = end + 1;
    return true;
}

static bool is_program(const char *word)
{
    return strchr(word, '/') != NULL && strstr(word, "_test") != NULL;
}

static bool is_test(const char *word)
{
    const char *first = strchr(word, '_');
    return strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(word) && first != NULL &&
           strchr(first + 1, '_') != NULL;
}

static bool has_test(const char *text, const char *test)
{
    const size_t bytes = strlen(test);
    for (const char *at = text; (at = strstr(at, "\nTEST")) != NULL; at++) {
        const char *name = at + strcspn(at, "(") + 1;
        name += strspn(name, " \n");
        if (strncmp(name, test, bytes) == 0 && strchr("),", name[bytes]) != NULL)
            return true;
    }
    return false;
}

static unsigned count_tests(const char *row)
{
    char word[WORD_SIZE], program[WORD_SIZE] = "", path[WORD_SIZE + 16], *text = NULL;
    unsigned count = 0;
    while (next_word(&row, word)) {
        if (is_program(word)) {
            snprintf(program, sizeof program, "%s", word);
            snprintf(path, sizeof path, "tests/%s.c", word);
            free(text);
            text = access(path, R_OK) == 0 ? file_read(path, NULL) : NULL;
            if (text == NULL)
                fail_msg("tests/README.md: there is no %s", path);
        } else if (is_test(word) && text != NULL) {
            if (!has_test(text, word))
                fail_msg("tests/README.md: %s has no test %s", program, word);
            count++;
        }
    }
    free(text);
    return count;
}

TEST(every_promise_names_tests_that_exist_or_says_why_there_is_none)
{
    char line[LINE_SIZE];
    unsigned next = 1;
    FILE *readme = fopen("tests/README.md", "re");
    assert_non_null(readme);
    while (fgets(line, sizeof line, readme) != NULL) {
        char *end;
        unsigned long number = line[0] == '|' ? strtoul(line + 1, &end, 10) : 0;
        if (number == 0)
            continue;
        assert_int_equal(number, next++);
        if (count_tests(end) == 0 && strstr(line, "not in the program") == NULL)
            fail_msg("tests/README.md: promise %lu is held by nothing", number);
    }
    fclose(readme);
    assert_int_equal(next - 1, PROMISES);
}
