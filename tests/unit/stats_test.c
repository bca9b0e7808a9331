/* SPDX-License-Identifier: MIT */
/*
 * stats_test.c - the table of the numbers: it has all of them, and says of each what it is.
 */
#include "guard/base/stats.h"
#include "tests/support/test.h"

static size_t count_rows(void)
{
    size_t count = 0;
    while (guard_stat_info(count) != NULL)
        count++;
    return count;
}

/* Bytes that no number covers are those that align the next one. A flag beside a flag would go unnoticed. */
TEST(every_number_of_the_struct_is_in_the_table_once, P160)
{
    static unsigned char covered[sizeof(struct guard_stats)];
    for (size_t i = 0; guard_stat_info(i) != NULL; i++) {
        size_t offset = 0, bytes = 0;
        stats_place(i, &offset, &bytes);
        for (size_t at = offset; at < offset + bytes; at++)
            assert_int_equal(covered[at]++, 0);
    }
    for (size_t at = 0, gap = 0; at <= sizeof covered; at++) {
        bool is_gap = at < sizeof covered && covered[at] == 0;
        if (!is_gap && gap > 0 && (gap >= sizeof(uint32_t) || at % sizeof(uint32_t) != 0))
            fail_msg("%zu bytes before offset %zu of struct guard_stats are in no row of stats.c", gap, at);
        gap = is_gap ? gap + 1 : 0;
    }
}

TEST(each_number_says_what_it_is)
{
    for (size_t i = 0; guard_stat_info(i) != NULL; i++) {
        const struct guard_stat_info *info = guard_stat_info(i);
        const char *help = info->help, *units[] = {"", "us", "ms", "bytes"};
        bool known = false;
        for (size_t unit = 0; unit < sizeof units / sizeof *units; unit++)
            known = known || strcmp(info->unit, units[unit]) == 0;
        assert_true(known);
        assert_true((help[0] >= 'A' && help[0] <= 'Z') || help[0] == '1');
        assert_int_equal(help[strlen(help) - 1], '.');
        assert_null(strchr(help, '\n'));
        for (size_t other = 0; other < i; other++)
            assert_string_not_equal(guard_stat_info(other)->name, info->name);
    }
    assert_int_equal(guard_stat_value(&(struct guard_stats){.hit = 1}, count_rows()), 0);
    assert_null(guard_stat_histogram(&(struct guard_stats){.hit = 1}, count_rows()));
}

static size_t row_of(const char *name)
{
    for (size_t i = 0; guard_stat_info(i) != NULL; i++)
        if (strcmp(guard_stat_info(i)->name, name) == 0)
            return i;
    fail_msg("%s is in no row", name);
    return 0;
}

TEST(a_number_is_read_by_its_place)
{
    const struct guard_stats stats = {.replay_dropped = UINT64_MAX,
                                      .flights = 7,
                                      .breaker_open = true,
                                      .redis_state = GUARD_REDIS_FENCED,
                                      .lease_wait = {.sum_us = 9}};
    assert_true(guard_stat_value(&stats, row_of("replay_dropped")) == UINT64_MAX);
    assert_int_equal(guard_stat_value(&stats, row_of("flights")), 7);
    assert_int_equal(guard_stat_value(&stats, row_of("breaker_open")), 1);
    assert_int_equal(guard_stat_value(&stats, row_of("redis_state")), GUARD_REDIS_FENCED);
    assert_int_equal(guard_stat_value(&stats, row_of("lease_wait")), 0);
    assert_ptr_equal(guard_stat_histogram(&stats, row_of("lease_wait")), &stats.lease_wait);
    assert_null(guard_stat_histogram(&stats, row_of("hit")));
    assert_int_equal(guard_stat_info(row_of("lease_wait"))->type, GUARD_STAT_HISTOGRAM);
    assert_int_equal(guard_stat_info(row_of("flights"))->type, GUARD_STAT_GAUGE);
    assert_true(guard_stat_info(row_of("load_started"))->per_kind);
    assert_false(guard_stat_info(row_of("redis_commands"))->per_kind);
}

TEST(a_sum_has_every_number_of_its_parts, P160)
{
    struct guard_stats part, sum;
    memset(&part, 0, sizeof part);
    for (size_t i = 0; guard_stat_info(i) != NULL; i++) {
        size_t offset = 0, bytes = 0;
        stats_place(i, &offset, &bytes);
        ((unsigned char *)&part)[offset] = 1;
    }
    part.lease_wait.sum_us = 3;
    memset(&sum, 0, sizeof sum);
    stats_add(&sum, &part);
    stats_add(&sum, &part);
    for (size_t i = 0; guard_stat_info(i) != NULL; i++) {
        const struct guard_histogram *histogram = guard_stat_histogram(&sum, i);
        bool is_one = strcmp(guard_stat_info(i)->name, "breaker_open") == 0;
        assert_int_equal(histogram != NULL ? histogram->count[0] : guard_stat_value(&sum, i), is_one ? 1 : 2);
    }
    assert_int_equal(sum.lease_wait.sum_us, 6);
}
