/* SPDX-License-Identifier: MIT */
/* number_test.c - whole numbers and lists of them: what is one, what is not, and nothing in between. */
#include "app/base/number.h"
#include "app/pg/rows.h"
#include "tests/support/test.h"

TEST(a_number_is_all_digits_within_its_length)
{
    static const char *const wrong[] = {"", " 1", "1 ", "+1", "-1", "1.0", "1e3", "0x7", "1234567"};
    uint64_t number = 7;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(number_parse(wrong[i], strlen(wrong[i]), 6, &number));
    assert_int_equal(number, 7);
    assert_true(number_parse("0012;", 4, 6, &number));
    assert_int_equal(number, 12);
    assert_true(number_parse("999999999999999999", NUMBER_DIGITS_MAX, NUMBER_DIGITS_MAX, &number));
    assert_true(number == UINT64_C(999999999999999999));
}

TEST(a_signed_number_fits_64_bits_or_is_none)
{
    static const char *const wrong[] = {
        "", "-", "--1", "+1", " 1", "1 ", "12x", "9223372036854775808", "-9223372036854775809"};
    char text[NUMBER_SIZE];
    int64_t number = 7;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(number_parse_signed(wrong[i], &number));
    assert_int_equal(number, 7);
    assert_true(number_parse_signed("-9223372036854775808", &number));
    assert_true(number == INT64_MIN);
    number_print(number, text);
    assert_string_equal(text, "-9223372036854775808");
}

TEST(digits_are_those_of_the_number_and_nothing_else)
{
    static const char *const texts[] = {"0", "9", "10", "99", "100", "4294967295", "18446744073709551615"};
    char out[NUMBER_DIGITS + 1];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        memset(out, '!', sizeof(out));
        assert_int_equal(number_digits(strtoull(texts[i], NULL, 10), out), strlen(texts[i]));
        assert_memory_equal(out, texts[i], strlen(texts[i]));
        assert_int_equal(out[strlen(texts[i])], '!');
    }
}

TEST(an_array_is_whole_after_every_element)
{
    char text[PG_ARRAY_NUMBERS_SIZE(3)];
    struct pg_array array;

    pg_array_init(&array, text, sizeof(text));
    assert_string_equal(text, "{}");
    pg_array_add_number(&array, INT64_MIN);
    assert_string_equal(text, "{-9223372036854775808}");
    pg_array_add_number(&array, INT64_MIN);
    pg_array_add(&array, "-9223372036854775808");
    assert_string_equal(text, "{-9223372036854775808,-9223372036854775808,-9223372036854775808}");
    assert_int_equal(array.count, 3);
}
