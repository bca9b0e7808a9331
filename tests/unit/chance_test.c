/* SPDX-License-Identifier: MIT */
/*
 * chance_test.c - jitter and backoff: bounds, spread, and the published numbers of the generator.
 */
#include "guard/base/chance.h"
#include "tests/support/test.h"

TEST(the_generator_is_splitmix64)
{
    struct chance chance = {.state = 1234567}; /* vectors of Vigna's splitmix64.c for this seed */
    const uint64_t expected[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                 UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                 UINT64_C(16408922859458223821)};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_true(chance_next(&chance) == expected[i]);
}

TEST(below_stays_below_and_reaches_everything)
{
    struct chance chance = {.state = 1};
    bool seen[10] = {false};
    for (int i = 0; i < 1000; i++)
        seen[chance_below(&chance, 10)] = true;
    for (int i = 0; i < 10; i++)
        assert_true(seen[i]);
    assert_int_equal(chance_below(&chance, 0), 0);
    assert_int_equal(chance_below(&chance, 1), 0);
}

TEST(shortening_takes_at_most_its_percentage_and_never_everything, P35)
{
    struct chance chance = {.state = 1};
    uint32_t shortest = UINT32_MAX, longest = 0;
    for (int i = 0; i < 10000; i++) {
        uint32_t value = chance_shorten(&chance, 1000, 30);
        shortest = value < shortest ? value : shortest;
        longest = value > longest ? value : longest;
    }
    assert_int_equal(shortest, 700);
    assert_int_equal(longest, 1000);
    assert_int_equal(chance_shorten(&chance, 1000, 0), 1000);
    assert_int_equal(chance_shorten(&chance, 0, 90), 1);
    assert_int_equal(chance_shorten(&chance, 1, 100), 1);
    for (int i = 0; i < 1000; i++)
        assert_true(chance_shorten(&chance, UINT32_MAX, 90) >= UINT32_MAX / 10);
}

/* Half of them above ln 2 means, e^-3 above three, the mean itself right. */
TEST(exponential_numbers_have_their_mean_and_their_tail)
{
    enum { COUNT = 100000, MEAN = 1000000 };
    struct chance chance = {.state = 1};
    uint64_t sum = 0, longest = 0;
    unsigned above_half = 0, above_three = 0;
    for (int i = 0; i < COUNT; i++) {
        uint64_t number = chance_exponential(&chance, MEAN);
        sum += number;
        above_half += number > 693147;
        above_three += number > 3 * MEAN;
        longest = number > longest ? number : longest;
    }
    assert_in_range(sum / COUNT, MEAN * 99 / 100, MEAN * 101 / 100);
    assert_in_range(above_half, COUNT * 49 / 100, COUNT * 51 / 100);
    assert_in_range(above_three, COUNT * 45 / 1000, COUNT * 55 / 1000); /* 0.0498 */
    assert_in_range(longest, 8 * MEAN, UINT64_C(45) * MEAN);
    assert_int_equal(chance_exponential(&chance, 0), 0);
}

TEST(backoff_doubles_with_jitter_up_to_its_limit)
{
    struct chance chance = {.state = 1};
    for (uint32_t attempt = 0; attempt < 100; attempt++) {
        uint64_t base = attempt < 10 ? UINT64_C(20) << attempt : 500;
        base = base > 500 ? 500 : base;
        for (int i = 0; i < 100; i++)
            assert_in_range(chance_backoff(&chance, 20, 500, attempt), base / 2, base / 2 + base);
    }
    assert_int_equal(chance_backoff(&chance, 0, 0, 3), 1);
    assert_true(chance_backoff(&chance, UINT32_MAX, UINT32_MAX / 2, UINT32_MAX) > 0);
}

TEST(what_comes_of_a_secret_never_comes_again_and_says_nothing_of_another_one)
{
    enum { DRAWS = 200 };
    struct chance_secret secrets[2] = {{.bytes = {1}}, {.bytes = {2}}};
    static uint8_t drawn[2 * DRAWS][CHANCE_SECRET_BYTES];
    for (size_t i = 0; i < 2 * DRAWS; i++) {
        chance_from_secret(&secrets[i % 2], drawn[i]);
        for (size_t before = 0; before < i; before++)
            assert_memory_not_equal(drawn[before], drawn[i], 16); /* what a token takes of it */
    }
}
