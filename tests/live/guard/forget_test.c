/* SPDX-License-Identifier: MIT */
/*
 * forget_test.c - guard_forget() on each kind of loop: wherever the request is, nobody is called back and its context
 * may go at once. What is forgotten here is freed, so that the sanitizers see whoever looks at it.
 */
#include "host_rig.h"

enum { ALIVE = 0x5afe, KEYS = 4, ASKS = 6 };

/* A context, freed when it is answered or forgotten. */
struct owned {
    int alive;
    struct host *host;
    size_t keys;
    guard_ticket ticket;
    struct owned **place; /* it leaves this empty */
    void (*then)(struct host *host);
};

static struct owned *owned[ASKS];

static void let_go(struct owned *one)
{
    atomic_fetch_add(&fleet.answered, (unsigned)one->keys);
    *one->place = NULL;
    one->alive = 0;
    free(one);
}

static void owned_answered(void *context, const struct guard_result *results)
{
    struct owned *one = context;
    struct host *host = one->host;
    void (*then)(struct host * host) = one->then;
    assert_int_equal(one->alive, ALIVE);
    for (size_t i = 0; i < one->keys; i++)
        assert_true(results[i].status == GUARD_OK || results[i].status == GUARD_CANCELLED);
    let_go(one);
    if (then != NULL)
        then(host);
}

static const char *const key_list[KEYS] = {"k", "cold", "k", "other"};

/* With `count` keys of the list; 0: one alone. */
static void owned_ask(struct host *host, struct owned **place, const char *key, size_t count)
{
    struct owned *one = malloc(sizeof *one);
    *one = (struct owned){
        .alive = ALIVE, .host = host, .keys = count > 0 ? count : 1, .place = place, .then = NULL};
    const struct guard_request request = {.kind = fleet.kinds[0],
                                          .key = count > 0 ? NULL : key,
                                          .keys = count > 0 ? key_list : NULL,
                                          .count = count,
                                          .loop = host->attached,
                                          .answered = owned_answered,
                                          .context = one,
                                          .asker = &asker_refs,
                                          .asker_ref = ref_asker,
                                          .asker_unref = unref_asker};
    assert_null(*place);
    *place = one;
    assert_int_equal(guard_get(fleet.guards[0], &request, NULL, &one->ticket), GUARD_OK);
    atomic_fetch_add(&fleet.accepted[0], (unsigned)one->keys);
}

static void owned_forget(struct owned **place, struct guard_loop *loop)
{
    assert_int_equal(guard_forget(fleet.guards[0], loop, (*place)->ticket), GUARD_OK);
    let_go(*place);
}

static void forget_all(struct host *host)
{
    for (size_t i = 0; i < ASKS; i++)
        if (owned[i] != NULL)
            owned_forget(&owned[i], host->attached);
}

static void forget_all_work(struct host *host, void *context)
{
    (void)context;
    forget_all(host);
}

static void ask_all(struct host *host, void *context)
{
    for (size_t i = 0; i < ASKS; i++)
        owned_ask(host, &owned[i], context, i == 1 ? KEYS : 0);
}

/* All that was asked for is over, and counted. */
static void await_quiet(void)
{
    WAIT_UNTIL(atomic_load(&fleet.answered) == fleet_accepted());
    WAIT_UNTIL(answers_counted(fleet.guards[0]) == fleet_accepted());
    WAIT_UNTIL(atomic_load(&asker_refs) == 0);
}

/* ---- the stages ---- */

static void ask_and_forget(struct host *host, void *context)
{
    ask_all(host, context);
    forget_all(host);
}

TEST(what_is_forgotten_in_the_turn_that_asked_is_never_answered, P180)
{
    struct host host;
    open_with_host(&host);
    for (int i = 0; i < 20; i++) /* before the loop's connection is up, and after */
        host_do(&host, ask_and_forget, (char *)"k");
    host_wait_up(&host, "k", "k v1");
    host_do(&host, ask_and_forget, (char *)"k");
    await_quiet();
    assert_true(stats_of(fleet.guards[0]).cancelled >= ASKS - 1 + KEYS);
    host_close(&host);
}

TEST(what_is_forgotten_while_it_waits_for_a_load_is_never_answered_and_the_load_goes_on, P14, P180)
{
    struct host host;
    struct ask other;
    open_with_host(&host);
    host_wait_up(&host, "k", "k v1");
    source_shut(&fleet.source);
    ask_start(0, &other, "slow");
    host_do(&host, ask_all, (char *)"slow");
    WAIT_UNTIL(stats_of(fleet.guards[0]).waiters == 1 + ASKS - 1 + 2); /* of the list two are hits */
    host_do(&host, forget_all_work, NULL);
    WAIT_UNTIL(stats_of(fleet.guards[0]).cancelled == ASKS - 1 + 2);
    assert_int_equal(stats_of(fleet.guards[0]).waiters, 1);
    source_open(&fleet.source);
    expect_answer(&other, "slow v1");
    await_quiet();
    host_close(&host);
}

static void ask_to_forget(struct host *host, void *context)
{
    ask_all(host, context);
    for (size_t i = 0; i < ASKS; i++)
        owned[i]->then = forget_all;
}

/* Their answers are there, and one of them has been told. */
TEST(what_is_forgotten_in_a_callback_of_the_same_turn_is_never_answered, P180)
{
    struct host host;
    open_with_host(&host);
    host_wait_up(&host, "k", "k v1");
    host_do(&host, ask_to_forget, (char *)"k");
    await_quiet();
    source_shut(&fleet.source);
    host_do(&host, ask_to_forget, (char *)"slow");
    WAIT_UNTIL(stats_of(fleet.guards[0]).waiters >= ASKS - 1);
    source_open(&fleet.source);
    await_quiet();
    host_close(&host);
}

static void detach_and_forget(struct host *host, void *context)
{
    struct guard_loop *loop = host->attached;
    ask_all(host, context);
    detach(host, NULL);
    for (size_t i = 0; i < ASKS; i++)
        owned_forget(&owned[i], loop);
}

static void forget_once_gone(struct host *host, void *context)
{
    struct guard_loop **gone = context;
    (void)host;
    assert_int_equal(guard_forget(fleet.guards[0], *gone, 1), GUARD_OK);
}

TEST(what_is_forgotten_on_a_loop_that_leaves_is_never_answered, P180)
{
    struct host host;
    open_with_host(&host);
    host_wait_up(&host, "k", "k v1");
    struct guard_loop *loop = host.attached;
    host_do(&host, detach_and_forget, (char *)"k");
    WAIT_UNTIL(host.detached);
    host_do(&host, forget_once_gone, &loop);
    await_quiet();
    host_end(&host);
}

static void forget_elsewhere(struct host *host, void *context)
{
    const struct ask *ask = context;
    assert_int_equal(guard_forget(fleet.guards[0], host->attached, ask->ticket), GUARD_INVALID);
}

TEST(who_cannot_forget_is_told_why, P180)
{
    struct host host;
    struct loop_ask asked;
    struct ask elsewhere;
    open_with_host(&host);
    source_shut(&fleet.source);
    loop_ask_start(&host, &asked, "slow");
    ask_start(0, &elsewhere, "slow");
    host_do(&host, forget_elsewhere, &elsewhere);
    assert_int_equal(guard_forget(fleet.guards[0], NULL, asked.ask.ticket), GUARD_INVALID);
    assert_int_equal(guard_forget(fleet.guards[0], host.attached, asked.ask.ticket), GUARD_INVALID);
    source_open(&fleet.source);
    expect_answer(&asked.ask, "slow v1");
    expect_answer(&elsewhere, "slow v1");
    host_close(&host);
}

/* ---- a storm ---- */

enum { STORM_HOSTS = 3, STORM_SLOTS = 12, STORM_TURNS = 120, STORM_STEPS = 12 };

static struct storm {
    struct owned *slot[STORM_SLOTS];
    uint32_t chance;
} storm[STORM_HOSTS];
static struct host storm_host[STORM_HOSTS];

static uint32_t draw(struct storm *of, uint32_t below)
{
    of->chance = of->chance * 1664525u + 1013904223u;
    return (of->chance >> 16) % below;
}

static void storm_step(struct host *host)
{
    struct storm *mine = &storm[host - storm_host];
    struct owned **place = &mine->slot[draw(mine, STORM_SLOTS)];
    char key[8];
    snprintf(key, sizeof key, "s%u", draw(mine, 6));
    if (*place == NULL && draw(mine, 4) != 0) {
        owned_ask(host, place, key, draw(mine, 3) == 0 ? KEYS : 0);
        (*place)->then = storm_step;
    } else if (*place != NULL && draw(mine, 2) == 0) {
        owned_forget(place, host->attached);
    } else if (*place != NULL) {
        guard_cancel(fleet.guards[0], host->attached, (*place)->ticket);
    }
}

static void storm_turn(struct host *host, void *context)
{
    (void)context;
    for (int i = 0; i < STORM_STEPS; i++)
        storm_step(host);
}

static void storm_ends(struct host *host, void *context)
{
    struct storm *mine = &storm[host - storm_host];
    (void)context;
    for (size_t i = 0; i < STORM_SLOTS; i++)
        if (mine->slot[i] != NULL)
            owned_forget(&mine->slot[i], host->attached);
}

TEST(a_storm_of_requests_that_are_forgotten_or_cancelled_answers_each_at_most_once, P180)
{
    fleet.policy.fresh_ms = 20;
    fleet.policy.stale_ms = 20;
    fleet_open(1);
    for (size_t i = 0; i < STORM_HOSTS; i++) {
        storm[i].chance = (uint32_t)i + 1;
        host_open(&storm_host[i], 0);
    }
    for (int turn = 0; turn < STORM_TURNS; turn++) {
        if (turn % 5 == 0)
            source_shut(&fleet.source);
        for (size_t i = 0; i < STORM_HOSTS; i++)
            host_do(&storm_host[i], storm_turn, NULL);
        if (turn % 5 == 2)
            source_open(&fleet.source);
    }
    for (size_t i = 0; i < STORM_HOSTS; i++)
        host_do(&storm_host[i], storm_ends, NULL);
    source_open(&fleet.source);
    await_quiet();
    for (size_t i = 0; i < STORM_HOSTS; i++)
        host_close(&storm_host[i]);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);

int main(int argc, char **argv)
{
    return loops_main(argc, argv);
}
