/* SPDX-License-Identifier: MIT */
/* witness_clients_test.c - who is told to have used a Redis. */
#include "load/witness/witness_redis.h"
#include "tests/support/test.h"

static void expect_clients(const char *list, uint64_t own_id, const char *wanted)
{
    struct witness_clients clients;
    char text[512];
    witness_clients_read(&clients, list, own_id, 5);
    assert_string_equal(witness_clients_text(&clients, text, sizeof text), wanted);
}

TEST(clients_are_told_apart_by_address_and_name)
{
    expect_clients(
        "id=3 addr=127.0.0.1:5000 laddr=127.0.0.1:6379 fd=8 name=shop age=9 idle=0 flags=N cmd=get\n"
        "id=4 addr=127.0.0.1:5001 laddr=127.0.0.1:6379 fd=9 name=shop age=9 idle=5 flags=N cmd=get\n"
        "id=5 addr=127.0.0.1:5002 laddr=127.0.0.1:6379 fd=9 name= age=9 idle=1 flags=N cmd=ping\n"
        "id=6 addr=[::1]:5003 fd=9 name=shop age=9 idle=1 flags=P cmd=subscribe\n"
        "id=7 addr=/run/redis.sock:0 fd=9 name=cron age=9 idle=1\n",
        99, "127.0.0.1 \"shop\" (2), 127.0.0.1 (1), [::1] \"shop\" (1), /run/redis.sock \"cron\" (1)");
}

TEST(our_own_and_those_that_were_idle_all_the_time_are_left_out)
{
    expect_clients("id=3 addr=127.0.0.1:5000 name= idle=0\nid=4 addr=127.0.0.1:5001 name=old idle=6\n"
                   "id=13 addr=127.0.0.1:5002 name=new idle=5\n",
                   3, "127.0.0.1 \"new\" (1)");
}

TEST(what_is_no_list_has_no_clients)
{
    static const char *const lists[] = {"",           "\n\n", "id", "id=", "id=x", "addr=127.0.0.1:1 name=x",
                                        "id=0 addr=x"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        expect_clients(lists[i], 3, "");
    expect_clients("id=4", 3, " (1)");
}

TEST(more_kinds_than_fit_are_counted)
{
    char list[2048] = "";
    size_t used = 0;
    for (int i = 0; i < 10; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "id=%d addr=10.0.0.%d:1 name= idle=0\n",
                                 i + 1, i);
    expect_clients(
        list, 99,
        "10.0.0.0 (1), 10.0.0.1 (1), 10.0.0.2 (1), 10.0.0.3 (1), 10.0.0.4 (1), 10.0.0.5 (1) and 4 more");
}
