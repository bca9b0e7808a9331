/* SPDX-License-Identifier: MIT */
/*
 * keeper_line_test.c - the line for a name in ZooKeeper: names of nodes, their order past 2^31, what is served and
 * who waits for whom; and every short line against the rule as it is written down.
 */
#include "guard/base/chance.h"
#include "guard/locks/zookeeper/keeper_line.h"
#include "tests/support/test.h"

enum { ALL = 1000000 };
#define UUID "0123456789abcdef0123456789abcdef0123"

static struct keeper_node parse(const char *name)
{
    struct keeper_node node;
    assert_true(keeper_node_parse(name, &node));
    return node;
}

/* ---- names ---- */

TEST(a_name_is_read_and_written_as_zookeeper_has_it)
{
    char text[KEEPER_NODE_SIZE];
    struct keeper_node node = parse("_c_" UUID "-3-10-0000000041");
    assert_memory_equal(node.uuid, UUID, KEEPER_UUID_BYTES);
    assert_int_equal(node.units, 3);
    assert_int_equal(node.limit, 10);
    assert_int_equal(node.number, 41);
    keeper_node_prefix(&node, text);
    assert_string_equal(text, "_c_" UUID "-3-10-");
    keeper_node_name(&node, text);
    assert_string_equal(text, "_c_" UUID "-3-10-0000000041");
}

TEST(numbers_below_zero_are_read_and_written)
{
    char text[KEEPER_NODE_SIZE];
    struct keeper_node node = parse("_c_" UUID "-1000000-1000000--2147483648");
    assert_int_equal(node.number, 0x80000000u);
    keeper_node_name(&node, text);
    assert_string_equal(text, "_c_" UUID "-1000000-1000000--2147483648");
    assert_int_equal(parse("_c_" UUID "-1-1--000000001").number, 0xffffffffu);
}

TEST(what_is_none_of_ours_is_no_node)
{
    static const char *const others[] = {
        "",
        "_c_",
        "lock-0000000001",
        "_c_" UUID,
        "_c_" UUID "-",
        "_c_" UUID "-1-1",
        "_c_" UUID "-1-1-",
        "_c_" UUID "-0-1-0000000001",
        "_c_" UUID "-1-0-0000000001",
        "_c_" UUID "--1-1-0000000001",
        "_c_" UUID "-1000001-1000001-0000000001",
        "_c_" UUID "-99999999999999999999-1-0000000001",
        "_c_" UUID "-1-1-0000000001x",
        "_c_" UUID "-1-1-2147483648",
        "_c_" UUID "-1-1--2147483649",
        "_c_" UUID "-1-1- 000000001",
        "_c_" UUID "_1-1-0000000001",
        "_c_" UUID "-1-1-0000000000000000000000000000000000000000000001",
    };
    struct keeper_node node;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (keeper_node_parse(others[i], &node))
            fail_msg("\"%s\" is taken for a node", others[i]);
    }
}

/* ---- lines ---- */

/* A line of these units and limits, in this order. */
static struct keeper_node line[16];

#define line_of(...)                                                                                         \
    line_of_pairs((const uint32_t[][2]){__VA_ARGS__}, sizeof((const uint32_t[][2]){__VA_ARGS__}) / 8)

static size_t line_of_pairs(const uint32_t (*pairs)[2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        line[i] = (struct keeper_node){.units = pairs[i][0], .limit = pairs[i][1], .number = (uint32_t)i};
        memset(line[i].uuid, 'a' + (int)i, KEEPER_UUID_BYTES);
    }
    return count;
}

TEST(the_order_goes_on_past_the_largest_number)
{
    size_t count = line_of({1, 1}, {1, 1}, {1, 1}, {1, 1});
    line[0].number = 0x80000001u;
    line[1].number = 0x7ffffffeu;
    line[2].number = 0x80000000u;
    line[3].number = 0x7fffffffu;
    keeper_line_sort(line, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(line[i].number, 0x7ffffffeu + i);
    line[0].number = 0xffffffffu;
    line[1].number = 0;
    keeper_line_sort(line, 2);
    assert_int_equal(line[0].number, 0xffffffffu);
}

TEST(a_node_is_found_by_its_number_and_its_uuid)
{
    size_t count = line_of({1, 1}, {1, 1}, {1, 1});
    struct keeper_node wanted = line[1];
    assert_int_equal(keeper_line_find(line, count, &wanted), 1);
    wanted.uuid[3] = 'z';
    assert_int_equal(keeper_line_find(line, count, &wanted), count);
    wanted.number = 7;
    assert_int_equal(keeper_line_find(line, count, &wanted), count);
    assert_int_equal(keeper_line_find(line, 0, &wanted), 0);
}

TEST(one_writer_is_served_and_the_next_waits_for_it)
{
    size_t count = line_of({ALL, ALL}, {ALL, ALL}, {ALL, ALL});
    assert_int_equal(keeper_line_served(line, count), 1);
    assert_int_equal(keeper_line_blocker(line, 1), 0);
    assert_int_equal(keeper_line_blocker(line, 2), 1);
}

TEST(readers_are_served_together_and_wait_for_the_last_writer_before_them)
{
    size_t count = line_of({1, ALL}, {1, ALL}, {ALL, ALL}, {1, ALL}, {1, ALL});
    assert_int_equal(keeper_line_served(line, count), 2);
    assert_int_equal(keeper_line_blocker(line, 2), 1);
    assert_int_equal(keeper_line_blocker(line, 3), 2);
    assert_int_equal(keeper_line_blocker(line, 4), 2);
}

TEST(permits_are_counted_in_units_and_wait_for_any_that_leaves)
{
    size_t count = line_of({2, 4}, {1, 4}, {2, 4}, {1, 4});
    assert_int_equal(keeper_line_served(line, count),
                     2); /* the last would fit, but is behind one that waits */
    assert_int_equal(keeper_line_blocker(line, 2), 2);
    count = line_of({3, 4}, {3, 4});
    assert_int_equal(keeper_line_served(line, count), 1);
    assert_int_equal(keeper_line_blocker(line, 1), 0);
}

TEST(nothing_is_served_twice_where_kinds_meet)
{
    size_t count = line_of({1, ALL}, {1, 1}, {1, ALL}); /* a reader, a permit of one, a reader */
    assert_int_equal(keeper_line_served(line, count), 1);
    assert_int_equal(keeper_line_served(line + 1, count - 1), 1);
}

TEST(an_empty_line_serves_nothing)
{
    keeper_line_sort(line, 0);
    assert_int_equal(keeper_line_served(line, 0), 0);
}

/* ---- any line ---- */

static const uint32_t kinds[][2] = {{ALL, ALL}, {1, ALL}, {1, 3}, {2, 3}, {3, 3}};

static bool fits_alone(const struct keeper_node *nodes, size_t count)
{
    uint32_t units = 0, limit = ALL;
    for (size_t i = 0; i < count; i++) {
        units += nodes[i].units;
        limit = nodes[i].limit < limit ? nodes[i].limit : limit;
    }
    return units <= limit;
}

/* Served are the first ones that fit together. Who leaves never takes its turn from another. The blocker is in the
 * way even if it is the only one left. */
TEST(any_line_keeps_the_rule, P126)
{
    struct chance chance = {.state = 11};
    for (int round = 0; round < 20000; round++) {
        size_t count = 1 + (size_t)chance_below(&chance, 8);
        for (size_t i = 0; i < count; i++) {
            const uint32_t *kind = kinds[chance_below(&chance, 5)];
            line[i] = (struct keeper_node){.units = kind[0], .limit = kind[1], .number = (uint32_t)i};
        }
        size_t served = keeper_line_served(line, count);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(i < served, fits_alone(line, i + 1));
        for (size_t i = served; i < count; i++) {
            size_t blocker = keeper_line_blocker(line, i);
            assert_true(blocker <= i);
            if (blocker < i)
                assert_false(fits_alone((struct keeper_node[]){line[blocker], line[i]}, 2));
        }
        size_t gone = (size_t)chance_below(&chance, count);
        memmove(&line[gone], &line[gone + 1], (count - gone - 1) * sizeof *line);
        assert_true(keeper_line_served(line, count - 1) + (gone < served) >= served);
    }
}
