/* SPDX-License-Identifier: MIT */
/* redis_slots_test.c - slots of names, and whose word counts about their owners. */
#include "guard/redis/slots.h"
#include "tests/support/test.h"

static struct redis_slots slots;
static struct redis_view view;

static bool empty_map(void)
{
    redis_slots_init(&slots);
    return true;
}

static unsigned slot_of(const char *name)
{
    return redis_slot(name, strlen(name));
}

TEST(slots_are_those_of_redis)
{
    assert_int_equal(slot_of("123456789"), 0x31c3);
    assert_int_equal(slot_of("foo"), 12182);
    assert_int_equal(slot_of("bar"), 5061);
    assert_int_equal(slot_of("hello"), 866);
    assert_int_equal(slot_of(""), 0);
    assert_int_equal(redis_slot("\xff\x00\x80", 3), 7915);
}

TEST(only_what_stands_in_braces_counts_if_anything_does)
{
    assert_int_equal(slot_of("{user1000}.following"), slot_of("user1000"));
    assert_int_equal(slot_of("csg1:{bar}:v"), 5061);
    assert_int_equal(slot_of("foo{bar}{zap}"), 5061);
    assert_int_equal(slot_of("foo{{bar}}zap"), slot_of("{bar"));
    assert_int_equal(slot_of("foo{}{bar}"), 8363);
    assert_int_equal(slot_of("foo{bar"), slot_of("x{foo{bar}"));
    assert_int_not_equal(slot_of("}bar{"), 5061);
}

/* ---- views ---- */

static void begin_view(void)
{
    memset(&view, 0, sizeof view);
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        view.owner[slot] = REDIS_NO_NODE;
}

/* id: one character. */
static void say(char id, uint16_t port, uint64_t epoch, unsigned first, unsigned last)
{
    struct redis_view_master *master = &view.masters[view.master_count];
    memset(master->id, id, REDIS_NODE_ID_BYTES);
    if (port != 0)
        strcpy(master->at.host, "127.0.0.1");
    master->at.port = port;
    master->epoch = epoch;
    for (unsigned slot = first; slot <= last; slot++)
        view.owner[slot] = (uint16_t)view.master_count;
    view.master_count++;
}

/* Its first half of the slots; what follows says the rest. */
static void begin_view_of(char id, uint16_t port, uint64_t epoch)
{
    begin_view();
    say(id, port, epoch, 0, 8191);
}

static bool take(void)
{
    return redis_slots_take(&slots, &view);
}

static struct redis_endpoint at(uint16_t port)
{
    return (struct redis_endpoint){.host = "127.0.0.1", .port = port};
}

/* That node says that the slot is at this port. */
static bool moved(unsigned from, unsigned slot, uint16_t port)
{
    struct redis_endpoint to = at(port);
    return redis_slots_moved(&slots, from, slot, &to);
}

static uint16_t owner_port(unsigned slot)
{
    unsigned owner = redis_slots_owner(&slots, slot);
    return owner != REDIS_NO_NODE ? slots.nodes[owner].at.port : 0;
}

static unsigned node_count(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++)
        count += slots.nodes[i].at.host[0] != '\0';
    return count;
}

/* Two masters, a and b; slot 5000 is a's. */
static bool take_two(void)
{
    redis_slots_init(&slots);
    begin_view_of('a', 7000, 1);
    say('b', 7001, 2, 8192, REDIS_SLOTS - 1);
    return take();
}

TEST_GROUP(.before = empty_map);

TEST(a_higher_epoch_moves_a_slot_and_an_old_view_cannot_turn_it_back, P139)
{
    begin_view_of('c', 7002, 3);
    say('b', 7001, 2, 8192, REDIS_SLOTS - 1);
    assert_true(take());
    assert_int_equal(owner_port(5000), 7002);
    begin_view_of('a', 7000, 1);
    say('b', 7001, 2, 8192, REDIS_SLOTS - 1);
    assert_false(take());
    assert_int_equal(owner_port(5000), 7002);
    assert_int_equal(node_count(), 2);
}

TEST(who_takes_the_last_slot_of_another_has_taken_its_place)
{
    begin_view();
    say('c', 7002, 3, 0, 8190);
    assert_true(take());
    assert_int_equal(slots.nodes[redis_slots_owner(&slots, 0)].takeovers, 0);
    begin_view_of('c', 7002, 3);
    assert_true(take());
    assert_int_equal(slots.nodes[redis_slots_owner(&slots, 0)].takeovers, 1);
    assert_false(take());
}

/* CLUSTER NODES of the view names these, too. */
static void name_nodes(const char *ids)
{
    for (; *ids != '\0'; ids++)
        memset(view.named[view.named_count++], *ids, REDIS_NODE_ID_BYTES);
}

/* The second has died; the first, whose epoch is lower, says that it has all slots. */
static bool claim_slots_of_the_dead(const char *named)
{
    begin_view();
    say('a', 7000, 1, 0, REDIS_SLOTS - 1);
    name_nodes(named);
    return take();
}

TEST(who_is_forgotten_and_not_reached_loses_its_slots_to_a_lower_epoch)
{
    struct redis_endpoint address = at(7001);
    unsigned dead = redis_slots_find(&slots, &address);
    redis_slots_hold(&slots, dead);
    redis_slots_hold(&slots, dead);
    assert_false(claim_slots_of_the_dead("ac")); /* it is reached */
    redis_slots_lost(&slots, dead, true);
    assert_false(claim_slots_of_the_dead("ac")); /* by somebody */
    redis_slots_lost(&slots, dead, true);
    assert_false(claim_slots_of_the_dead("abc")); /* it is not forgotten */
    assert_false(claim_slots_of_the_dead(""));
    assert_int_equal(owner_port(REDIS_SLOTS - 1), 7001);
    assert_true(claim_slots_of_the_dead("ac"));
    assert_int_equal(owner_port(REDIS_SLOTS - 1), 7000);
    assert_int_equal(slots.takeovers, 1);
    redis_slots_lost(&slots, dead, false);
    redis_slots_lost(&slots, dead, false);
    redis_slots_release(&slots, dead);
    redis_slots_release(&slots, dead);
    assert_false(claim_slots_of_the_dead("abc")); /* and the new claim is as good as any */
}

/* Another server is at its address by then, and each slot that it is asked for is redirected by itself. */
TEST(who_is_forgotten_and_redirects_loses_its_other_slots_too)
{
    struct redis_endpoint address = at(7001);
    unsigned replaced = redis_slots_find(&slots, &address);
    redis_slots_hold(&slots, replaced);
    assert_false(claim_slots_of_the_dead("ac")); /* it has redirected nothing */
    assert_true(moved(replaced, 9000, 7000));
    assert_false(claim_slots_of_the_dead("abc")); /* nor is it forgotten: a slot of many has moved */
    assert_false(claim_slots_of_the_dead("ac"));  /* and that was before the last view */
    assert_true(moved(replaced, 9001, 7002));
    assert_false(claim_slots_of_the_dead("ac")); /* it leads elsewhere: this view has never heard of it */
    assert_true(moved(replaced, 9002, 7000));
    begin_view();
    say('a', 7000, 1, 0, 9002); /* its heir takes one range after another */
    name_nodes("ac");
    assert_true(take());
    assert_int_equal(owner_port(9000), 7000);
    assert_int_equal(owner_port(REDIS_SLOTS - 1), 7001);
    assert_true(claim_slots_of_the_dead("ac"));
    assert_int_equal(owner_port(REDIS_SLOTS - 1), 7000);
    redis_slots_release(&slots, replaced);
    assert_int_equal(owner_port(9001), 7002);
}

/* No view has ever told its id, so none can name it. */
TEST(who_is_known_by_a_redirection_alone_and_not_reached_loses_its_slots)
{
    assert_true(moved(redis_slots_owner(&slots, 5000), 5000, 7002));
    unsigned stranger = redis_slots_owner(&slots, 5000);
    redis_slots_hold(&slots, stranger);
    assert_false(claim_slots_of_the_dead("ab")); /* it is reached */
    redis_slots_lost(&slots, stranger, true);
    assert_false(claim_slots_of_the_dead("")); /* nothing is known of who is there */
    assert_int_equal(owner_port(5000), 7002);
    assert_true(claim_slots_of_the_dead("ab"));
    assert_int_equal(owner_port(5000), 7000);
    redis_slots_lost(&slots, stranger, false);
    redis_slots_release(&slots, stranger);
}

TEST(a_slot_that_a_view_leaves_out_stays_where_it_was)
{
    begin_view();
    say('b', 7001, 9, 8192, REDIS_SLOTS - 1);
    assert_false(take());
    assert_int_equal(owner_port(5000), 7000);
}

TEST(moved_from_the_owner_moves_its_slot_at_once_and_the_old_claim_does_not_come_back)
{
    unsigned a = redis_slots_owner(&slots, 5000);
    assert_true(moved(a, 5000, 7001));
    assert_int_equal(owner_port(5000), 7001);
    assert_int_equal(owner_port(5001), 7000);
    begin_view_of('a', 7000, 1);
    say('b', 7001, 2, 8192, REDIS_SLOTS - 1);
    assert_false(take());
    assert_int_equal(owner_port(5000), 7001);
}

TEST(moved_from_another_node_moves_nothing, P139)
{
    unsigned b = redis_slots_owner(&slots, 9000);
    assert_false(moved(b, 5000, 7001));
    assert_false(moved(REDIS_NO_NODE, 5000, 7001));
    assert_int_equal(owner_port(5000), 7000);
}

TEST(moved_without_an_owner_names_one)
{
    redis_slots_init(&slots);
    assert_true(moved(REDIS_NO_NODE, 5000, 7001));
    assert_int_equal(owner_port(5000), 7001);
}

TEST(moved_to_itself_or_to_nowhere_moves_nothing)
{
    unsigned a = redis_slots_owner(&slots, 5000);
    assert_false(moved(a, 5000, 7000));
    struct redis_endpoint to = {.port = 7001};
    assert_false(redis_slots_moved(&slots, a, 5000, &to));
    assert_int_equal(owner_port(5000), 7000);
    assert_int_equal(node_count(), 2);
}

TEST(a_node_that_only_a_redirection_has_named_gets_its_id_from_a_view)
{
    unsigned a = redis_slots_owner(&slots, 5000);
    assert_true(moved(a, 5000, 7002));
    unsigned c = redis_slots_owner(&slots, 5000);
    assert_string_equal(slots.nodes[c].id, "");
    begin_view_of('a', 7000, 1);
    say('c', 7002, 3, 5000, 5000);
    assert_false(take());
    assert_int_equal(slots.nodes[c].id[0], 'c');
    assert_int_equal(redis_slots_owner(&slots, 5000), c);
    assert_int_equal(slots.nodes[c].slots, 1);
}

TEST(the_same_node_at_another_address_is_another_one_and_takes_over)
{
    unsigned a = redis_slots_owner(&slots, 5000);
    redis_slots_hold(&slots, a);
    begin_view_of('a', 7009, 1);
    assert_true(take());
    assert_int_equal(owner_port(5000), 7009);
    assert_int_not_equal(redis_slots_owner(&slots, 5000), a);
    assert_int_equal(slots.nodes[redis_slots_owner(&slots, 5000)].takeovers, 1);
    redis_slots_release(&slots, a);
}

TEST(a_node_without_a_known_host_stays_where_it_was)
{
    begin_view_of('a', 0, 1);
    say('x', 0, 7, 8192, REDIS_SLOTS - 1);
    assert_false(take());
    assert_int_equal(owner_port(5000), 7000);
    assert_int_equal(owner_port(9000), 7001);
}

TEST(a_view_that_knows_none_of_our_nodes_begins_the_map_anew)
{
    begin_view_of('x', 7000, 0);
    say('y', 7001, 0, 8192, REDIS_SLOTS - 1);
    assert_false(redis_slots_knows(&slots, &view));
    assert_true(take());
    assert_true(redis_slots_knows(&slots, &view));
    assert_int_equal(slots.nodes[redis_slots_owner(&slots, 0)].id[0], 'x');
    assert_int_equal(slots.nodes[redis_slots_owner(&slots, 9000)].id[0], 'y');
    assert_int_equal(node_count(), 2);
}

TEST(a_node_that_owns_nothing_is_gone_once_nobody_holds_it)
{
    unsigned a = redis_slots_owner(&slots, 5000);
    redis_slots_hold(&slots, a);
    redis_slots_hold(&slots, a);
    begin_view_of('c', 7002, 3);
    say('b', 7001, 2, 8192, REDIS_SLOTS - 1);
    assert_true(take());
    assert_false(slots.nodes[a].named);
    redis_slots_release(&slots, a);
    assert_int_equal(node_count(), 3);
    redis_slots_release(&slots, a);
    assert_int_equal(node_count(), 2);
}

TEST(a_node_that_is_asked_for_its_first_slot_stays_for_a_few_views)
{
    struct redis_endpoint to = at(7005);
    unsigned found = redis_slots_find(&slots, &to);
    assert_int_equal(redis_slots_find(&slots, &to), found);
    begin_view_of('a', 7000, 1);
    assert_false(take());
    assert_false(take());
    assert_false(take());
    assert_int_equal(node_count(), 3);
    assert_true(take());
    assert_int_equal(node_count(), 2);
}

TEST(without_room_for_another_node_its_slots_stay_and_nothing_breaks)
{
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        struct redis_endpoint to = at((uint16_t)(8000 + i));
        redis_slots_find(&slots, &to);
    }
    struct redis_endpoint one_more = at(9999);
    assert_int_equal(redis_slots_find(&slots, &one_more), REDIS_NO_NODE);
    begin_view_of('a', 7000, 1);
    say('z', 9998, 9, 5000, 5000);
    assert_false(take());
    assert_int_equal(owner_port(5000), 7000);
}

TEST_GROUP(.before = take_two);
