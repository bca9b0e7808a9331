/* SPDX-License-Identifier: MIT */
/* test.c - see test.h. */
#include "tests/support/test.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>

/* Both in the order of their lines: constructors of one file need not run in it. */
static struct test *tests;
static struct test_group *groups;

void test_add(struct test *test)
{
    struct test **at = &tests;
    while (*at != NULL && (*at)->line < test->line)
        at = &(*at)->next;
    test->next = *at;
    *at = test;
}

void test_add_group(struct test_group *group)
{
    struct test_group **at = &groups;
    while (*at != NULL && (*at)->line < group->line)
        at = &(*at)->next;
    group->next = *at;
    *at = group;
}

static struct CMUnitTest in_group(const struct test *test, const struct test_group *group)
{
    return (struct CMUnitTest){.name = test->name,
                               .test_func = test->run,
                               .setup_func = test->alone ? test->before : group->before,
                               .teardown_func = test->alone ? test->after : group->after};
}

/* The first test from here on that is above `line` and selected by the pattern. */
static const struct test *selected(const struct test *test, unsigned line, const char *pattern)
{
    while (test != NULL && test->line < line && fnmatch(pattern, test->name, 0) != 0)
        test = test->next;
    return test != NULL && test->line < line ? test : NULL;
}

static int run_group(const struct test *from, const struct test_group *group, const char *pattern,
                     size_t *ran)
{
    size_t count = 0;
    const struct test *first = selected(from, group->line, pattern);
    for (const struct test *test = first; test != NULL; test = selected(test->next, group->line, pattern))
        count++;
    if (count == 0)
        return 0;
    struct CMUnitTest chosen[count];
    *ran += count;
    count = 0;
    for (const struct test *test = first; test != NULL; test = selected(test->next, group->line, pattern))
        chosen[count++] = in_group(test, group);
    return cmocka_run_group_tests_name(program_invocation_short_name, chosen, group->up, group->down);
}

int test_main(int argc, char **argv)
{
    const struct test_group rest = {.line = UINT_MAX};
    const char *pattern = argc > 1 ? argv[1] : "*";
    const struct test *test = tests;
    size_t ran = 0;
    int failed = 0;
    for (const struct test_group *group = groups; group != NULL; group = group->next) {
        failed += run_group(test, group, pattern, &ran);
        while (test != NULL && test->line < group->line)
            test = test->next;
    }
    failed += run_group(test, &rest, pattern, &ran);
    if (ran == 0)
        fprintf(stderr, "%s: no test is called %s\n", argv[0], pattern);
    return ran == 0 ? 1 : failed;
}

__attribute__((weak)) int main(int argc, char **argv)
{
    return test_main(argc, argv);
}
