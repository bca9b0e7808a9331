/* SPDX-License-Identifier: MIT */
/* rows_test.c - rows as texts within a byte limit. */
#include "app/pg/rows.h"
#include "tests/support/test.h"

TEST(texts_and_nulls_come_back_as_they_went_in, P63)
{
    struct rows rows;
    rows_init(&rows, 1 << 20);
    rows_reset(&rows, 3);
    for (unsigned i = 0; i < 1000; i++) {
        char text[16];
        int bytes = snprintf(text, sizeof text, "%u", i);
        assert_true(rows_add(&rows, text, (size_t)bytes));
        assert_true(rows_add(&rows, NULL, 0));
        assert_true(rows_add(&rows, "", 0));
    }
    assert_int_equal(rows.row_count, 1000);
    assert_string_equal(rows_text(&rows, 999, 0), "999");
    assert_null(rows_text(&rows, 500, 1));
    assert_string_equal(rows_text(&rows, 0, 2), "");
    rows_clear(&rows);
    rows_clear(&rows);
}

TEST(the_limit_holds_to_the_byte_and_after_a_reset_anew)
{
    struct rows rows;
    rows_init(&rows, 8);
    for (unsigned round = 0; round < 2; round++) {
        rows_reset(&rows, 1);
        assert_true(rows_add(&rows, "abc", 3));
        assert_false(rows_add(&rows, "abcd", 4));
        assert_true(rows_add(&rows, "abc", 3));
        assert_true(rows_add(&rows, NULL, 0));
        assert_false(rows_add(&rows, "", 0));
        assert_int_equal(rows.row_count, 3);
    }
    rows_clear(&rows);
}

TEST(a_row_is_counted_when_it_is_whole)
{
    struct rows rows;
    rows_init(&rows, 100);
    rows_reset(&rows, 2);
    assert_true(rows_add(&rows, "a", 1));
    assert_int_equal(rows.row_count, 0);
    assert_true(rows_add(&rows, "b", 1));
    assert_int_equal(rows.row_count, 1);
    rows_clear(&rows);
}
