/* SPDX-License-Identifier: MIT */
/* loads_test.c - loads read out of a log of PostgreSQL. */
#include "tests/chaos/loads.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <unistd.h>

enum { EPOCH_S = 1763662000, NOW_US = 9000000 };

#define BEGIN(pid, time, key)                                                                                \
    pid " 1763662" time " LOG:  execute load_product: /* load product */ WITH delay AS (...)\n" pid          \
        " 1763662" time " DETAIL:  parameters: $1 = '" key "', $2 = '20'\n"
#define END(pid, time) pid " 1763662" time " LOG:  duration: 21.873 ms\n"

/* The log's instants are the last digits of its time: "000.100" is 100 ms. */
static struct history history;

static void read_log(const char *text)
{
    char path[] = "/tmp/loads_test.XXXXXX";
    file_make(path, text);
    assert_true(loads_read(&history, path, 0, (uint64_t)EPOCH_S * 1000000, NOW_US));
    unlink(path);
}

static bool new_history(void)
{
    history_init(&history);
    return true;
}

static bool clear_history(void)
{
    history_clear(&history);
    return true;
}

static void expect(size_t load, uint32_t key, uint64_t begin_ms, uint64_t end_ms)
{
    assert_true(load < history.loads.count);
    assert_int_equal(history.loads.items[load].key, key);
    assert_int_equal(history.loads.items[load].begin_us, begin_ms * 1000);
    assert_int_equal(history.loads.items[load].end_us, end_ms * 1000);
}

TEST(a_load_lasts_from_its_statement_to_its_duration)
{
    read_log("11 1763662000.090 LOG:  duration: 0.1 ms\n" BEGIN("11", "000.100", "7") END("11", "000.122")
                 END("11", "000.200"));
    assert_int_equal(history.loads.count, 1);
    expect(0, 7, 100, 122);
}

TEST(a_statement_for_several_products_is_a_load_of_each)
{
    read_log("11 1763662000.100 LOG:  execute load_products: /* load products */ WITH delay AS (...)\n"
             "11 1763662000.100 DETAIL:  parameters: $1 = '{7,8,9}', $2 = '20'\n" END("11", "000.130")
                 BEGIN("11", "000.140", "5") END("11", "000.150"));
    assert_int_equal(history.loads.count, 4);
    bool seen[10] = {false};
    for (size_t i = 0; i < 3; i++) {
        expect(i, history.loads.items[i].key, 100, 130);
        seen[history.loads.items[i].key % 10] = true;
    }
    assert_true(seen[7] && seen[8] && seen[9]);
    expect(3, 5, 140, 150);
}

/* What follows the statement is written with a capital from PostgreSQL 16 on. */
TEST(parameters_are_known_in_the_words_of_every_server)
{
    read_log("11 1763662000.100 LOG:  execute load_product: /* load product */ WITH delay AS (...)\n"
             "11 1763662000.100 DETAIL:  Parameters: $1 = '7', $2 = '20'\n" END("11", "000.122"));
    assert_int_equal(history.loads.count, 1);
    expect(0, 7, 100, 122);
}

TEST(loads_of_several_backends_are_kept_apart)
{
    read_log(BEGIN("11", "000.100", "7") BEGIN("12", "000.101", "8") END("11", "000.120")
                 END("12", "000.121"));
    assert_int_equal(history.loads.count, 2);
    expect(0, 7, 100, 120);
    expect(1, 8, 101, 121);
}

TEST(an_error_ends_a_load_and_so_does_the_end_of_its_session)
{
    read_log(BEGIN("11", "000.100", "7") BEGIN(
        "12", "000.100",
        "8") "11 1763662000.130 ERROR:  canceling statement due to statement timeout\n"
             "12 1763662000.140 FATAL:  terminating connection due to administrator command\n");
    assert_int_equal(history.loads.count, 2);
    expect(0, 7, 100, 130);
    expect(1, 8, 100, 140);
}

TEST(a_server_that_begins_anew_has_no_loads_running)
{
    read_log(BEGIN("11", "000.100",
                   "7") "99 1763662001.000 LOG:  starting PostgreSQL 15.14\n" BEGIN("12", "002.000", "7"));
    assert_int_equal(history.loads.count, 2);
    expect(0, 7, 100, 1000);
    expect(1, 7, 2000, 9000);
}

TEST(other_statements_and_further_lines_are_no_loads)
{
    read_log("11 1763662000.100 LOG:  statement: UPDATE products SET stock = stock + 1\n"
             "\tWHERE id = 7\n12 oops\n\n");
    assert_int_equal(history.loads.count, 0);
}

TEST_GROUP(.before = new_history, .after = clear_history);
