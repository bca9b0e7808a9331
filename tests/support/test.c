/* SPDX-License-Identifier: MIT */
/* test.c - see test.h. */
#include "tests/support/test.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>

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

/* ---- as cmocka wants it ---- */

static const struct test_group *group; /* the one that runs */
static unsigned turn;                  /* which of its turns */
static const struct test *current;
static bool came_to_its_end; /* the current test, with the `end` of its group */
static size_t passed, skipped, broken_downs;

static int verdict_of(bool (*fixture)(void))
{
    return fixture == NULL || fixture() ? 0 : -1;
}

static int up(void **state)
{
    (void)state;
    return verdict_of(group->up);
}

static int down(void **state)
{
    (void)state;
    int verdict = verdict_of(group->down);
    broken_downs += verdict != 0;
    return verdict;
}

static int before(void **state)
{
    current = *state;
    came_to_its_end = false;
    return verdict_of(current->alone ? current->before : group->before);
}

static int after(void **state)
{
    const struct test *test = *state;
    int verdict = verdict_of(test->alone ? test->after : group->after);
    passed += came_to_its_end && verdict == 0;
    return verdict;
}

static void run(void **state)
{
    const struct test *test = *state;
    test->run();
    if (!test->alone && group->end != NULL)
        group->end();
    came_to_its_end = true;
}

unsigned test_turn(void)
{
    return turn;
}

void test_skip(const char *why)
{
    skipped++;
    printf("skipped: %s: %s\n", current->name, why);
    _skip(__FILE__, __LINE__);
}

bool test_is_long(void)
{
    static char words[256];
    const char *wanted = getenv("LONG");
    bool is_long = wanted != NULL && strcmp(wanted, "1") == 0;
    char *rest = NULL;
    snprintf(words, sizeof words, "%s", wanted != NULL ? wanted : "");
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        is_long = is_long || strstr(program_invocation_short_name, word) != NULL;
    return is_long;
}

void test_needs_long(void)
{
    if (!test_is_long())
        test_skip("only with LONG=1");
}

static struct CMUnitTest for_cmocka(struct test *test)
{
    return (struct CMUnitTest){.name = test->name,
                               .test_func = run,
                               .setup_func = before,
                               .teardown_func = after,
                               .initial_state = test};
}

/* ---- the program ---- */

/* The first test from here on that is above `line` and selected by the pattern. */
static struct test *selected(struct test *test, unsigned line, const char *pattern)
{
    while (test != NULL && test->line < line && fnmatch(pattern, test->name, 0) != 0)
        test = test->next;
    return test != NULL && test->line < line ? test : NULL;
}

/* How many of its tests have neither passed nor been skipped, for whatever reason, and its `down` if that failed. */
static size_t run_group(struct test *from, const char *pattern, size_t *ran)
{
    size_t count = 0, before_it = passed + skipped;
    struct test *first = selected(from, group->line, pattern);
    for (struct test *test = first; test != NULL; test = selected(test->next, group->line, pattern))
        count++;
    if (count == 0)
        return 0;
    struct CMUnitTest chosen[count];
    *ran += count;
    count = 0;
    for (struct test *test = first; test != NULL; test = selected(test->next, group->line, pattern))
        chosen[count++] = for_cmocka(test);
    broken_downs = 0;
    bool is_bad = cmocka_run_group_tests_name(program_invocation_short_name, chosen, up, down) != 0;
    size_t failed = count - (passed + skipped - before_it) + broken_downs;
    return failed == 0 && is_bad ? 1 : failed;
}

int test_main(int argc, char **argv)
{
    static struct test_group rest;
    const char *pattern = argc > 1 ? argv[1] : "*";
    struct test *test = tests;
    size_t ran = 0, failed = 0;
    passed = skipped = 0;
    if (rest.line == 0) { /* not called before */
        rest.line = UINT_MAX;
        test_add_group(&rest);
    }
    for (group = groups; group != NULL; group = group->next) {
        for (turn = 0; turn == 0 || turn < group->turns; turn++)
            failed += run_group(test, pattern, &ran);
        while (test != NULL && test->line < group->line)
            test = test->next;
    }
    if (ran == 0)
        fprintf(stderr, "%s: no test is called %s\n", argv[0], pattern);
    fflush(stderr);
    printf("tests: %zu passed, %zu failed, %zu skipped\n", passed, failed, skipped);
    fflush(stdout);
    return ran == 0 || failed > 0;
}

/* What a test has lent and a thread or an `end` uses once it has returned. */
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "detect_stack_use_after_return=1";
}

__attribute__((weak)) int main(int argc, char **argv)
{
    return test_main(argc, argv);
}
