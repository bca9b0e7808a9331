/* SPDX-License-Identifier: MIT */
/*
 * test.h - cmocka, the headers that nearly every test needs, and tests that register themselves.
 *
 *     TEST(a_lease_has_a_ttl, P1)
 *     {
 *         assert_...
 *     }
 *
 *     TEST_GROUP(.up = start_servers, .down = stop_servers, .before = empty_servers);
 *
 * A group comprises the tests above it, up to the group before; tests below the last group are one that needs
 * nothing. Tests run in the order of their file. What its functions make ready is for the whole program to see: there
 * is one of it. They return whether all is well, and may assert.
 *
 * `end` is as the last line of each of the tests: one that has failed does not come to it, and what it asserts fails
 * the test. But the test has returned, so whatever it has lent until then is static.
 *
 * A group with `turns` runs so often, from its `up` to its `down`: what is promised of several things is written
 * once, and test_turn() says which of them it is about.
 *
 * The program's main() runs them all, or those that its argument selects, a name that may contain '*' and '?'. A
 * program that has other roles too has a main() of its own and calls test_main(). Its last line, "tests: N passed, N
 * failed, N skipped", is what support/run.sh counts: what cmocka says of it differs by its version.
 */
#pragma once

/* cmocka wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#undef skip /* test_skip() instead: a test that only left would count as failed */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct test {
    unsigned line;
    bool alone; /* has its own `before` and `after`, not those of its group, and no `end` */
    const char *name;
    void (*run)(void);
    bool (*before)(void), (*after)(void);
    struct test *next;
};

/* Whatever is not named is not done. */
struct test_group {
    unsigned line;
    bool (*up)(void), (*down)(void);      /* once */
    bool (*before)(void), (*after)(void); /* each of its tests */
    void (*end)(void);                    /* each that has not failed */
    unsigned turns;                       /* 0: one */
    struct test_group *next;
};

void test_add(struct test *test);
void test_add_group(struct test_group *group);
int test_main(int argc, char **argv); /* 0: all passed or were skipped; may be called again */

unsigned test_turn(void); /* 0 to its group's turns - 1 */

/* Ends a test that has nothing to try on this machine or with these versions: it counts as skipped, by its name. */
void test_skip(const char *why);

/* LONG=1: what takes minutes is wanted, too; LONG="lab peers": in programs with one of these words in their name. A
 * test that needs it is skipped by its name without. */
bool test_is_long(void);
void test_needs_long(void);

/* Behind the name the promises that it holds, of tests/promises, for whoever reads the source: TEST(a_name, P7,
 * P39). */
#define TEST(...) TEST_NAMED(__VA_ARGS__, )
#define TEST_NAMED(name, ...) TEST_REGISTERED(name, .alone = false)

/* One that needs something else before and after it than the others of its group. */
#define TEST_WITH(...) TEST_NAMED_WITH(__VA_ARGS__, )
#define TEST_NAMED_WITH(name, before_it, after_it, ...)                                                      \
    TEST_REGISTERED(name, .alone = true, .before = (before_it), .after = (after_it))

#define TEST_REGISTERED(test_name, ...)                                                                      \
    static void test_name(void);                                                                             \
    __attribute__((constructor)) static void test_name##_is_added(void)                                      \
    {                                                                                                        \
        static struct test test = {.line = __LINE__, .name = #test_name, .run = test_name, __VA_ARGS__};     \
        test_add(&test);                                                                                     \
    }                                                                                                        \
    static void test_name(void)

#define TEST_GROUP(...) TEST_GROUP_AT(__LINE__, __VA_ARGS__)
#define TEST_GROUP_AT(at, ...) TEST_GROUP_AS(at, __VA_ARGS__) /* the number itself, not its name */
#define TEST_GROUP_AS(at, ...) TEST_GROUP_NAMED(test_group_##at, at, __VA_ARGS__)
#define TEST_GROUP_NAMED(group, at, ...)                                                                     \
    static struct test_group group;                                                                          \
    __attribute__((constructor)) static void group##_is_added(void)                                          \
    {                                                                                                        \
        test_add_group(&group);                                                                              \
    }                                                                                                        \
    static struct test_group group = {.line = (at), __VA_ARGS__}

/* ---- waiting for what another thread or process does ---- */

enum { TEST_LIMIT_MS = 40000 }; /* generous: nothing is measured with it */

static inline uint64_t test_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static inline void test_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

/* Evaluates the condition until it holds, and not once more. */
#define WAIT_UNTIL(condition)                                                                                \
    do {                                                                                                     \
        uint64_t end_ms_ = test_now_ms() + TEST_LIMIT_MS;                                                    \
        bool holds_ = false;                                                                                 \
        while (!(holds_ = (condition)) && test_now_ms() < end_ms_)                                           \
            test_pause();                                                                                    \
        if (!holds_)                                                                                         \
            fail_msg("waited in vain for: %s", #condition);                                                  \
    } while (0)
