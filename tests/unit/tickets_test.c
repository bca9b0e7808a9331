/* SPDX-License-Identifier: MIT */
#include "guard/base/tickets.h"
#include "tests/support/test.h"

enum { MANY = 10000 };

static char things[MANY];

TEST(a_ticket_names_what_it_was_given_for)
{
    static guard_ticket names[MANY];
    struct tickets tickets = {.table = 7};
    for (size_t i = 0; i < MANY; i++) {
        names[i] = tickets_add(&tickets, &things[i]);
        assert_true(names[i] != 0);
    }
    for (size_t i = 0; i < MANY; i++)
        assert_ptr_equal(tickets_find(&tickets, names[i]), &things[i]);
    tickets_clear(&tickets);
    assert_null(tickets_find(&tickets, names[0]));
}

TEST(an_old_ticket_never_names_what_came_into_its_slot)
{
    struct tickets tickets = {.table = 0};
    guard_ticket seen[50];
    for (size_t i = 0; i < 50; i++) {
        seen[i] = tickets_add(&tickets, &things[i]);
        for (size_t j = 0; j < i; j++) {
            assert_true(seen[j] != seen[i]);
            assert_null(tickets_find(&tickets, seen[j]));
        }
        tickets_remove(&tickets, seen[i]);
        assert_null(tickets_find(&tickets, seen[i]));
    }
    assert_int_equal(tickets.count, 64); /* one slot did it all */
    tickets_clear(&tickets);
}

TEST(a_ticket_of_another_table_names_nothing)
{
    struct tickets first = {.table = 1}, second = {.table = 2};
    guard_ticket here = tickets_add(&first, &things[0]);
    guard_ticket there = tickets_add(&second, &things[1]);
    assert_true(here != there);
    assert_null(tickets_find(&first, there));
    assert_null(tickets_find(&second, here));
    tickets_clear(&first);
    tickets_clear(&second);
}

TEST(nonsense_names_nothing)
{
    struct tickets tickets = {.table = 255};
    assert_null(tickets_find(&tickets, 1));
    guard_ticket real = tickets_add(&tickets, &things[0]);
    const guard_ticket wrong[] = {
        0, 1, UINT64_MAX, real + 1, real - 1, real ^ (1ULL << 32), real ^ (1ULL << 24)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_null(tickets_find(&tickets, wrong[i]));
    tickets_clear(&tickets);
}

TEST(a_slot_whose_uses_are_used_up_is_given_up)
{
    struct tickets tickets = {.table = 0};
    guard_ticket first = tickets_add(&tickets, &things[0]);
    tickets_remove(&tickets, first);
    tickets.slots[0].use = UINT32_MAX - 1;
    guard_ticket last = tickets_add(&tickets, &things[1]);
    assert_int_equal(last >> 32, UINT32_MAX);
    tickets_remove(&tickets, last);
    for (size_t i = 0; i < 200; i++)
        assert_true((tickets_add(&tickets, &things[2]) & 0xffffff) != (last & 0xffffff));
    tickets_clear(&tickets);
}
