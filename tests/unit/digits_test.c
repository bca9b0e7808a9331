/* SPDX-License-Identifier: MIT */
/*
 * digits_test.c - numbers of every length, and every byte that is no digit, at every place.
 */
#include "guard/base/digits.h"
#include "tests/support/test.h"

#include <inttypes.h>

enum { DIGITS_MOST = 19 };

TEST(digits_of_every_length_are_a_number)
{
    static const char text[] = "9081726354090807060";
    for (size_t count = 0; count <= DIGITS_MOST; count++) {
        uint64_t number = 1, expected = 0;
        for (size_t i = 0; i < count; i++)
            expected = expected * 10 + (uint64_t)(text[i] - '0');
        assert_true(digits_read(text, count, &number));
        assert_int_equal(number, expected);
    }
}

TEST(all_nines_fit)
{
    uint64_t number = 0;
    assert_true(digits_read("9999999999999999999", DIGITS_MOST, &number));
    assert_true(number == UINT64_C(9999999999999999999));
}

TEST(no_other_byte_passes_for_a_digit_at_any_place)
{
    char text[DIGITS_MOST];
    for (size_t at = 0; at < DIGITS_MOST; at++) {
        for (int byte = 0; byte <= 255; byte++) {
            uint64_t number = 0;
            memset(text, '7', sizeof text);
            text[at] = (char)byte;
            assert_int_equal(digits_read(text, sizeof text, &number), byte >= '0' && byte <= '9');
        }
    }
}
