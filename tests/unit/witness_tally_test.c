/* SPDX-License-Identifier: MIT */
/* witness_tally_test.c - Redis's counters: read, compared, sorted, reset, and rubbish. */
#include "load/witness/witness_redis.h"
#include "tests/support/test.h"

TEST(calls_are_read_by_command)
{
    static struct witness_tally tally;
    witness_tally_read(
        &tally, "# Commandstats\r\ncmdstat_get:calls=31,usec=90,usec_per_call=2.90,rejected_calls=0\r\n"
                "cmdstat_client|setname:calls=2,usec=9\r\nother_get:calls=7\r\n"
                "cmdstat_a_command_of_some_module_with_a_long_name:calls=4,usec=1\r\n"
                "cmdstat_torn:cal\r\ncmdstat_:calls=1\r\n\r\ncmdstat_last:calls=18446744073709551615");
    assert_int_equal(witness_tally_get(&tally, "get"), 31);
    assert_int_equal(witness_tally_get(&tally, "client|setname"), 2);
    assert_int_equal(witness_tally_get(&tally, "a_command_of_some_modul"), 4);
    assert_true(witness_tally_get(&tally, "last") == UINT64_MAX);
    assert_int_equal(tally.count, 4);
    witness_tally_read(&tally, "");
    assert_int_equal(tally.count, 0);
}

TEST(what_was_added_between_two_readings_is_summed_up)
{
    static struct witness_tally sum, before, now;
    witness_tally_read(&before, "cmdstat_get:calls=5,\ncmdstat_set:calls=5,\n");
    witness_tally_read(&now, "cmdstat_get:calls=9,\ncmdstat_set:calls=5,\ncmdstat_del:calls=2,\n");
    memset(&sum, 0, sizeof sum);
    assert_false(witness_tally_advance(&sum, &before, &now));
    assert_int_equal(witness_tally_get(&sum, "get"), 4);
    assert_int_equal(witness_tally_get(&sum, "set"), 0);
    assert_int_equal(witness_tally_get(&sum, "del"), 2);
}

TEST(counters_that_were_reset_count_from_nothing)
{
    static struct witness_tally sum, before, now;
    witness_tally_read(&before, "cmdstat_get:calls=5,\ncmdstat_set:calls=5,\n");
    witness_tally_read(&now, "cmdstat_get:calls=6,\n"); /* no set any more */
    memset(&sum, 0, sizeof sum);
    assert_true(witness_tally_advance(&sum, &before, &now));
    assert_int_equal(witness_tally_get(&sum, "get"), 6);
    assert_int_equal(witness_tally_get(&sum, "set"), 0);
}

TEST(the_view_has_the_most_frequent_first_and_the_sum_of_all)
{
    static struct witness_tally tally;
    struct witness_view view = {.way = WITNESS_NONE};
    char name[16];
    memset(&tally, 0, sizeof tally);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "c%u", i);
        witness_tally_add(&tally, name, i);
    }
    witness_tally_subtract(&tally, "c7", 3);
    witness_tally_subtract(&tally, "c8", 9);
    witness_tally_show(&tally, &view);
    assert_int_equal(view.command_sum, 999 * 1000 / 2 - 3 - 8);
    assert_int_equal(view.command_count, WITNESS_COMMANDS_MAX);
    assert_string_equal(view.commands[0].name, "other"); /* those beyond the room */
    assert_string_equal(view.commands[1].name, "c510");
    assert_int_equal(view.commands[1].calls, 510);
    for (size_t i = 1; i < view.command_count; i++)
        assert_true(view.commands[i].calls <= view.commands[i - 1].calls);
}
