/* SPDX-License-Identifier: MIT */
/* load_number_test.c - numbers, times and shares as people write them. */
#include "load/base/number.h"
#include "tests/support/test.h"

TEST(a_number_has_digits_only_and_a_range)
{
    static const char *const wrong[] = {"",    "-1", "+1",         "1.5", "0x10", "ten",
                                        "1e3", " 1", "4294967296", "_1",  "6",    "0"};
    uint32_t number = 7;
    assert_true(number_read("1_000", 1, 1000, &number));
    assert_int_equal(number, 1000);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(number_read(wrong[i], 1, i < 10 ? UINT32_MAX : 5, &number));
    assert_int_equal(number, 1000);
}

TEST(a_scan_stops_behind_the_number_and_takes_none_above_its_limit)
{
    const char *text = "18446744073709551615-x", *above = "18446744073709551616", *small = "7";
    uint64_t number = 0;
    assert_true(number_scan(&text, UINT64_MAX, &number));
    assert_true(number == UINT64_MAX);
    assert_string_equal(text, "-x");
    assert_false(number_scan(&above, UINT64_MAX, &number));
    assert_string_equal(above, "18446744073709551616");
    assert_false(number_scan(&small, 6, &number));
    assert_true(number_scan(&small, 7, &number));
    assert_int_equal(number, 7);
}

TEST(a_time_has_a_unit)
{
    static const struct {
        const char *word;
        uint32_t ms;
    } right[] = {{"250ms", 250},   {"1.5s", 1500},  {"2m", 120000},
                 {"2min", 120000}, {"1h", 3600000}, {"0s", 0}};
    static const char *const wrong[] = {"", "5", "s", "-1s", "1 s", "1.5.2s", "300us", "infs", "25h", "1S"};
    uint32_t ms;
    double us;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_true(number_read_ms(right[i].word, &ms));
        assert_int_equal(ms, right[i].ms);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(number_read_ms(wrong[i], &ms));
    assert_true(number_read_us("300us", &us));
    assert_true(us > 299.9 && us < 300.1);
}

TEST(a_percentage_ends_at_a_hundred)
{
    double percent;
    assert_true(number_read_percent("99.5%", &percent));
    assert_true(percent > 99.49 && percent < 99.51);
    assert_true(number_read_percent("100%", &percent));
    assert_false(number_read_percent("100.1%", &percent));
    assert_false(number_read_percent("50", &percent));
    assert_false(number_read_percent("%", &percent));
}
