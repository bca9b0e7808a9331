/* SPDX-License-Identifier: MIT */
/*
 * lock_postgres_fail_test.c - a lock on PostgreSQL while the n-th allocation or watched descriptor of the provider fails,
 * for every n: it is granted in the end, its actions are answered, and nothing leaks.
 */
#include "tests/fail/failing.h"
#include "tests/live/lock_rig.h"

#include "load/stack/stack.h"

enum { LEASE_MS = 30000 };

static struct stack_postgres server;

static bool server_up(void)
{
    return failing_take_over_libuv() && stack_postgres_start(&server, 20);
}

static bool server_down(void)
{
    stack_postgres_stop(&server);
    return true;
}

static bool is_settled(const struct rig_errand *errand)
{
    enum lock_reply_kind kind = errand->reply.kind;
    return errand->replies > 0 && kind != LOCK_UNSENT && kind != LOCK_UNANSWERED && kind != LOCK_REFUSED;
}

/* As the core does: what was not accepted, refused, or not answered for sure is asked again. */
static enum lock_reply_kind insist(struct rig_claim *claim, enum lock_action_kind kind)
{
    const struct rig_errand *errand = &claim->errands[kind];
    while (!is_settled(errand)) {
        if (claim_offer(claim, kind))
            rig_wait_until(!errand->is_out);
        rig_pause_ms(1);
    }
    return errand->reply.kind;
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

static void live(struct rig_side *side, struct rig_claim *claim)
{
    struct guard_error error = {.text = ""};
    side_prepare(side, server.url);
    if (!side_start(side, lock_postgres_open, &error)) {
        assert_int_equal(error.status, GUARD_NO_MEMORY);
        return;
    }
    claim_init(claim, side, GUARD_LOCK_FAIR, "fail", LEASE_MS);
    assert_int_equal(insist(claim, LOCK_TAKE), LOCK_GRANTED);
    look(side);
    bool is_held = insist(claim, LOCK_RENEW) == LOCK_DONE;
    assert_true(is_held || claim->dropped == 1);
    bool was_held = insist(claim, LOCK_GIVE) == LOCK_DONE;
    assert_true(was_held || claim->dropped == 1 || claim->errands[LOCK_GIVE].replies > 1);
}

/* True: something failed. */
static bool run_with(enum failing what, unsigned first)
{
    static struct rig_side side;
    static struct rig_claim claim;
    rig_start();
    failing_prepare();
    failing_begin(what, first, 1);
    live(&side, &claim);
    failing_stop();
    side_close(&side);
    rig_pause_ms(1); /* libuv closes in its next turn */
    bool failed = failing_end(first);
    rig_finish();
    return failed;
}

TEST(a_lock_is_granted_whichever_allocation_fails)
{
    SWEEP(first, run_with(FAIL_MEMORY, first));
}

TEST(a_lock_is_granted_whichever_descriptor_cannot_be_watched)
{
    SWEEP(first, run_with(FAIL_WATCH, first));
}

TEST_GROUP(.up = server_up, .down = server_down);
