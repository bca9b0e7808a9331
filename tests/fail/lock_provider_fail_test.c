/* SPDX-License-Identifier: MIT */
/*
 * lock_provider_fail_test.c - locks on PostgreSQL and on ZooKeeper while the n-th allocation, watched descriptor or
 * thread of the provider fails, for every n and on whatever thread.
 *
 * Expected of every single one: no crash, nothing lost (blocks and descriptors are counted), every accepted action
 * answered once, and, once nothing fails any more, a provider that grants, tells, renews and gives back without help.
 * Left out: what libraries take themselves, and the threads that libzookeeper asserts to get.
 */
#include "tests/fail/failing.h"
#include "tests/live/locks/lock_rig.h"

#include "load/stack/stack.h"

enum { LIMIT_MS = 250, LEASE_MS = 20000 };

static struct stack_postgres postgres;
static struct stack_zookeeper zookeeper;

static const struct provider {
    lock_provider_open *open;
    const char *url;
    uint32_t limit_ms;
    bool may_drop; /* what fails may end a session, and with it a hold */
} providers[] = {{lock_postgres_open, postgres.url, 10000, true},
                 {lock_zookeeper_open, zookeeper.url, LIMIT_MS, false}};
static const struct provider *provider; /* of this turn */

static bool server_up(void)
{
    static bool is_taken_over;
    provider = &providers[test_turn()];
    is_taken_over = is_taken_over || failing_take_over_libuv();
    return is_taken_over &&
           (provider->may_drop ? stack_postgres_start(&postgres, 20) : stack_zookeeper_start(&zookeeper, 1));
}

static bool server_down(void)
{
    stack_postgres_stop(&postgres);
    stack_zookeeper_stop(&zookeeper);
    return true;
}

/* As the core does: what was not accepted, or not answered for sure, is asked again. */
static enum lock_reply_kind ask(struct rig_claim *claim, enum lock_action_kind kind)
{
    const struct rig_errand *errand = &claim->errands[kind];
    unsigned before = errand->replies;
    do {
        if (claim_offer(claim, kind))
            rig_wait_until(!errand->is_out);
        rig_pause_ms(1);
    } while (errand->replies == before || errand->reply.kind == LOCK_UNSENT ||
             errand->reply.kind == LOCK_UNANSWERED);
    return errand->reply.kind;
}

static void take(struct rig_claim *claim)
{
    while (ask(claim, LOCK_TAKE) == LOCK_REFUSED)
        ;
    assert_int_equal(claim_reply(claim, LOCK_TAKE)->kind, LOCK_GRANTED);
}

static void expect_done(struct rig_claim *claim, enum lock_action_kind kind)
{
    bool is_done = ask(claim, kind) == LOCK_DONE;
    assert_true(is_done || (provider->may_drop && (claim->dropped == 1 || claim->errands[kind].replies > 1)));
}

static void look(struct rig_side *side)
{
    char encoded[KEY_ENCODED_MAX + 1];
    const struct lock_name name = {.encoded = encoded, .bytes = key_encode("fail", 4, encoded)};
    side->has_looked = false;
    side->is_inside = true;
    bool accepted = side->provider->look(side->provider, &name, rig_on_looked, side);
    side->is_inside = false;
    if (accepted)
        rig_wait_until(side->has_looked);
}

static void live(struct rig_side *side, struct rig_claim *first, struct rig_claim *second)
{
    struct guard_error error = {.text = ""};
    side_prepare(side, provider->url);
    side->config.limit_ms = provider->limit_ms;
    side->config.max_lease_ms = LEASE_MS;
    if (!side_start(side, provider->open, &error)) {
        assert_int_equal(error.status, GUARD_NO_MEMORY);
        return;
    }
    claim_init(first, side, GUARD_LOCK_FAIR, "fail", LEASE_MS);
    claim_init(second, side, GUARD_LOCK_FAIR, "fail", LEASE_MS);
    take(first);
    bool is_refused = ask(second, LOCK_TAKE) == LOCK_REFUSED;
    assert_true(is_refused || provider->may_drop);
    look(side);
    expect_done(first, LOCK_RENEW);
    expect_done(first, LOCK_GIVE);
    if (is_refused)
        rig_wait_until(second->told > 0);
    take(second);
    expect_done(second, LOCK_GIVE);
}

/* True: something failed. */
static bool run_with(enum failing what, unsigned n)
{
    static struct rig_side side;
    static struct rig_claim first, second;
    rig_start();
    failing_prepare();
    failing_begin(what, n, 1);
    live(&side, &first, &second);
    failing_stop();
    side_close(&side);
    rig_pause_ms(1); /* libuv closes in its next turn */
    bool failed = failing_end(n);
    rig_finish();
    return failed;
}

TEST(a_lock_is_granted_whichever_allocation_fails, P126)
{
    SWEEP(n, run_with(FAIL_MEMORY, n));
}

TEST(a_lock_is_granted_whichever_descriptor_or_thread_cannot_be_had)
{
    SWEEP(n, run_with(provider->may_drop ? FAIL_WATCH : FAIL_THREAD, n));
}

TEST_GROUP(.turns = 2, .up = server_up, .down = server_down);
