/* SPDX-License-Identifier: MIT */
/* record_test.c - records of several generators become one list. */
#include "load/herd/record.h"
#include "tests/support/test.h"

TEST(the_first_three_of_each_kind_are_samples)
{
    static struct record_samples samples;
    for (uint32_t slot = 0; slot < 100; slot++) {
        uint16_t status = slot % 2 == 0 ? 503 : 404;
        struct record_sample *sample = record_samples_take(&samples, slot, RECORD_ANSWERED, status);
        if (sample != NULL)
            record_sample_add(sample, "first", 5);
        assert_true((sample != NULL) == (slot < 6));
    }
    assert_int_equal(samples.count, 6);
    struct record_sample *again = record_samples_take(&samples, 4, RECORD_ANSWERED, 503);
    assert_ptr_equal(again, &samples.at[4]);
    record_sample_add(again, ", then", 6);
    assert_int_equal(again->text_bytes, 11);
    assert_memory_equal(again->text, "first, then", 11);
    for (size_t i = 0; i < RECORD_SAMPLE_BYTES; i++)
        record_sample_add(again, "xyz", 3);
    assert_int_equal(again->text_bytes, RECORD_SAMPLE_BYTES);
    for (uint16_t status = 400; status < 500; status++)
        record_samples_take(&samples, status, RECORD_ANSWERED, status);
    assert_int_equal(samples.count, RECORD_SAMPLES_MAX);
    assert_null(record_samples_take(&samples, 1000, RECORD_RESET, 0));
    assert_true(record_is_sampled(RECORD_ANSWERED, 400) && record_is_sampled(RECORD_REFUSED, 0));
    assert_false(record_is_sampled(RECORD_ANSWERED, 399) || record_is_sampled(RECORD_LEFT, 0) ||
                 record_is_sampled(RECORD_CUT, 0));
}

TEST(records_of_several_generators_become_one_list_by_due_time)
{
    struct record first[] = {{.due_us = 1, .key = 1}, {.due_us = 4, .key = 4}, {.due_us = 4, .key = 5}};
    struct record second[] = {{.due_us = 2, .key = 2}, {.due_us = 3, .key = 3}, {.due_us = 9, .key = 6}};
    const struct records parts[] = {{.at = first, .count = 3}, {.count = 0}, {.at = second, .count = 3}};
    struct records all;
    assert_true(records_merge(parts, 3, &all));
    assert_int_equal(all.count, 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(all.at[i].key, i + 1);
    records_clear(&all);
    assert_null(all.at);
    assert_true(records_merge(parts, 0, &all));
    assert_int_equal(all.count, 0);
    records_clear(&all);
}
