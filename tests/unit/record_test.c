/* SPDX-License-Identifier: MIT */
/* record_test.c - records of several generators become one list. */
#include "load/herd/record.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(records_of_several_generators_become_one_list_by_due_time)
{
    struct record first[] = {{.due_us = 1, .key = 1}, {.due_us = 4, .key = 4}, {.due_us = 4, .key = 5}};
    struct record second[] = {{.due_us = 2, .key = 2}, {.due_us = 3, .key = 3}, {.due_us = 9, .key = 6}};
    const struct records parts[] = {{first, 3}, {NULL, 0}, {second, 3}};
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
