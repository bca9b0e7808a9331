/* SPDX-License-Identifier: MIT */
/*
 * lock_zookeeper_test.c - locks on a real ZooKeeper: its provider as the core sees it, with servers, connections and
 * holders that die, stop or lose a reply.
 *
 * Each side has a session of its own, as a process has. What is to be killed is a program of its own: this one, with
 * the argument --hold.
 */
#include "load/base/clock.h"
#include "load/base/proc.h"
#include "load/stack/proxy.h"
#include "load/stack/stack.h"
#include "tests/live/locks/lock_rig.h"

#include <signal.h>
#include <stdlib.h>

enum { CALM_MS = 20000 /* a session that stands a slow machine */, SHORT_MS = 3000, SIDES = 4, CLAIMS = 64 };

static struct stack_zookeeper zookeeper;
static struct proxy *proxy;

/* Two faults of libzookeeper_mt 3.8, which has no symbols by which to name the functions. When a handle is closed it
 * forgets the commands that were not answered (destroy() leaves them in completions_to_process). And the text of an
 * address, which only its log wants, is made by vsprintf() in one buffer for all handles (format_endpoint_info()).
 * Whatever else a callback on the library's thread does is looked at. */
#define VISIBLE __attribute__((visibility("default")))
VISIBLE const char *__lsan_default_suppressions(void);
VISIBLE const char *__tsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libzookeeper_mt.so\n";
}

const char *__tsan_default_suppressions(void)
{
    return "race_top:vsprintf\n";
}

/* ---- sides and claims ---- */

static struct rig_side sides[SIDES];
static struct rig_claim claims[CLAIMS];
static size_t side_count, claim_count;

static struct rig_side *join_away(const char *url, uint32_t session_ms)
{
    struct guard_error error = {.text = ""};
    assert_in_range(side_count, 0, SIDES - 1);
    struct rig_side *side = &sides[side_count++];
    side_prepare(side, url);
    side->config.provider = GUARD_LOCKS_ZOOKEEPER;
    side->config.limit_ms = CALM_MS;
    side->config.max_lease_ms = session_ms;
    if (!side_start(side, lock_zookeeper_open, &error))
        fail_msg("%s", error.text);
    return side;
}

static struct rig_side *join(const char *url, uint32_t session_ms)
{
    struct rig_side *side = join_away(url, session_ms);
    rig_wait_until(side->is_up);
    return side;
}

static struct rig_side *join_calmly(void)
{
    return join(zookeeper.url, CALM_MS);
}

static struct rig_claim *claim_of(struct rig_side *side, enum guard_lock_kind kind, const char *name)
{
    assert_in_range(claim_count, 0, CLAIMS - 1);
    struct rig_claim *claim = &claims[claim_count++];
    claim_init(claim, side, kind, name, SHORT_MS);
    return claim;
}

static struct rig_claim *writer_of(struct rig_side *side, const char *name)
{
    return claim_of(side, GUARD_LOCK_WRITE, name);
}

static struct rig_claim *reader_of(struct rig_side *side, const char *name)
{
    return claim_of(side, GUARD_LOCK_READ, name);
}

static void expect(struct rig_claim *claim, enum lock_action_kind kind, enum lock_reply_kind wanted)
{
    enum lock_reply_kind got = claim_do(claim, kind);
    if (got != wanted)
        fail_msg("action %d: reply %d (%s), not %d", (int)kind, (int)got, claim_why(claim, kind),
                 (int)wanted);
}

static uint64_t expect_granted(struct rig_claim *claim)
{
    expect(claim, LOCK_TAKE, LOCK_GRANTED);
    const struct lock_reply *reply = claim_reply(claim, LOCK_TAKE);
    assert_true(reply->fence[0] > 0);
    assert_in_range(reply->valid_ms, 1, claim->lease_ms);
    return reply->fence[0];
}

static void expect_refused(struct rig_claim *claim, uint32_t before)
{
    expect(claim, LOCK_TAKE, LOCK_REFUSED);
    assert_int_equal(claim_reply(claim, LOCK_TAKE)->before, before);
}

static uint64_t wait_for_turn(struct rig_claim *claim)
{
    rig_wait_until(claim->told > 0);
    return expect_granted(claim);
}

/* What another side has begun may not be there yet. */
static void wait_for_line(struct rig_side *side, const char *name, uint32_t holders, uint32_t waiters)
{
    uint64_t end_us = clock_after_ms(RIG_WAIT_MS);
    do {
        if (!side_look(side, name))
            fail_msg("%s", side->look_why);
        if (clock_us() >= end_us)
            fail_msg("%s: %u hold it and %u wait", name, side->view.holder_count, side->view.waiter_count);
    } while (side->view.holder_count != holders || side->view.waiter_count != waiters);
}

/* ---- groups ---- */

static bool start_one(void)
{
    uv_loop_t first; /* what libuv opens once is opened here */
    return uv_loop_init(&first) == 0 && uv_loop_close(&first) == 0 && stack_zookeeper_start(&zookeeper, 1) &&
           proxy_open_to(zookeeper.servers[0].port, &proxy);
}

static bool stop_one(void)
{
    proxy_close(&proxy);
    stack_zookeeper_stop(&zookeeper);
    return true;
}

static size_t descriptors_of_no_side;

static bool before_each(void)
{
    side_count = claim_count = 0;
    rig_start();
    descriptors_of_no_side = count_descriptors();
    return true;
}

/* The proxy's thread, and what is left of a library that was not waited for, are a moment behind. */
static bool after_each(void)
{
    for (size_t i = 0; i < rig.side_count; i++)
        side_close(rig.sides[i]);
    for (uint64_t end_us = clock_after_ms(RIG_WAIT_MS);
         count_descriptors() > descriptors_of_no_side && clock_us() < end_us;)
        clock_pause_ms(1);
    rig_finish();
    return true;
}

static char *proxy_url(void)
{
    static char url[32];
    snprintf(url, sizeof url, "127.0.0.1:%u", (unsigned)proxy_port(proxy, 0));
    return url;
}

/* ---- granting, waiting, giving back ---- */

TEST(a_turn_that_is_not_taken_up_can_be_given_back)
{
    struct rig_side *one = join_calmly(), *two = join_calmly();
    struct rig_claim *held = writer_of(one, "served"), *next = writer_of(two, "served");
    struct rig_claim *last = writer_of(one, "served");
    expect_granted(held);
    expect_refused(next, 1);
    expect_refused(last, 2);
    expect(held, LOCK_GIVE, LOCK_DONE);
    rig_wait_until(next->told > 0);
    expect(next, LOCK_RENEW, LOCK_NOT_HELD);
    expect(next, LOCK_GIVE, LOCK_DONE);
    wait_for_turn(last);
}

/* Empty containers are taken away twice a second, also while one is about to use them. */
TEST(a_name_outlives_its_container)
{
    struct rig_side *one = join_calmly();
    struct rig_claim *claim = writer_of(one, "container");
    uint64_t end_us = clock_after_ms(1500);
    for (unsigned rounds = 0; clock_us() < end_us || rounds < 20; rounds++) {
        claim_new_token(claim);
        expect_granted(claim);
        expect(claim, LOCK_GIVE, LOCK_DONE);
    }
}

static uint64_t commands_received(void)
{
    char text[1024];
    assert_true(stack_zookeeper_ask(&zookeeper, 0, "srvr", text, sizeof text));
    const char *received = strstr(text, "Received: ");
    assert_non_null(received);
    return strtoull(received + strlen("Received: "), NULL, 10);
}

TEST(a_line_costs_a_hand_over_nothing_for_its_length)
{
    enum { LINE = 30 };
    struct rig_side *one = join_calmly(), *two = join_calmly();
    struct rig_claim *held = writer_of(one, "long"), *line[LINE];
    expect_granted(held);
    for (uint32_t i = 0; i < LINE; i++) {
        line[i] = writer_of(two, "long");
        expect_refused(line[i], i + 1);
    }
    uint64_t before = commands_received();
    expect(held, LOCK_GIVE, LOCK_DONE);
    wait_for_turn(line[0]);
    /* a deletion, a listing, a watch and a proof; two of our own questions, and perhaps the sessions' pings */
    assert_in_range(commands_received() - before, 5, 12);
}

/* ---- holders that die, sessions that end ---- */

static struct rig_child holder;

static void start_holder(const char *name)
{
    holder = child_start(zookeeper.url, name, SHORT_MS);
    child_expect(&holder, "held");
}

TEST(a_killed_holder_blocks_for_its_session)
{
    struct rig_side *one = join_calmly();
    struct rig_claim *claim = writer_of(one, "killed");
    start_holder("killed");
    expect_refused(claim, 1);
    uint64_t killed_us = clock_us();
    kill(holder.pid, SIGKILL);
    wait_for_turn(claim);
    assert_true(clock_us() - killed_us >= UINT64_C(1000) * SHORT_MS / 3); /* it was last heard of before */
    child_end(&holder);
}

TEST(a_holder_that_is_stopped_past_its_session_hears_that_it_has_lost)
{
    struct rig_side *one = join_calmly();
    struct rig_claim *claim = writer_of(one, "stopped");
    start_holder("stopped");
    expect_refused(claim, 1);
    assert_true(proc_pause(holder.pid));
    wait_for_turn(claim);
    proc_resume(holder.pid);
    child_expect(&holder, "dropped");
    child_expect(&holder, "refused"); /* it asks anew, and stands behind */
    wait_for_line(one, "stopped", 1, 1);
    child_end(&holder);
}

TEST(an_expired_session_loses_what_it_held_and_forgets_what_it_waited_for)
{
    struct rig_side *one = join(proxy_url(), SHORT_MS), *two = join_calmly();
    struct rig_claim *held = writer_of(one, "expired"), *wanted = writer_of(two, "expired");
    struct rig_claim *other = writer_of(two, "busy"), *waiting = writer_of(one, "busy");
    expect_granted(held);
    expect_refused(wanted, 1);
    expect_granted(other);
    expect_refused(waiting, 1);
    unsigned ups = one->ups;
    proxy_set(proxy, 0, PROXY_SILENT, 0);
    wait_for_turn(wanted);
    wait_for_line(two, "busy", 1, 0);
    assert_int_not_equal(claim_do(held, LOCK_RENEW), LOCK_DONE);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    rig_wait_until(held->dropped > 0 && one->is_up && one->ups > ups);
    assert_int_equal(held->dropped, 1);
    expect(held, LOCK_RENEW, LOCK_NOT_HELD);
    expect_refused(waiting, 1);
    expect(other, LOCK_GIVE, LOCK_DONE);
    wait_for_turn(waiting);
}

/* As an operator does. */
TEST(a_node_that_another_deletes_is_lost)
{
    struct rig_side *one = join_calmly();
    struct rig_claim *held = writer_of(one, "deleted"), *waiting = writer_of(one, "deleted");
    char command[512], text[512];
    expect_granted(held);
    expect_refused(waiting, 1);
    snprintf(command, sizeof command,
             "java -Xshare:auto -XX:TieredStopAtLevel=1 -cp "
             "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar "
             "org.apache.zookeeper.ZooKeeperMain -server %s deleteall '/csg1:rig/lock:deleted' >/dev/null",
             zookeeper.url);
    if (!proc_output(command, text, sizeof text))
        fail_msg("%s", text);
    rig_wait_until(waiting->told > 0);
    expect(held, LOCK_RENEW, LOCK_NOT_HELD);
    expect_granted(waiting);
}

/* ---- replies that are lost ---- */

/* Another is there, so that nothing but the node itself is to be created. */
static struct rig_side *join_beside(const char *name)
{
    struct rig_side *two = join_calmly();
    expect_granted(reader_of(two, name));
    return two;
}

/* The fault strikes with the first command that says the token, which is the creation of its node. */
static void take_under(struct rig_claim *claim, enum proxy_fault fault)
{
    static char uuid[LOCK_UUID_BYTES + 1];
    memcpy(uuid, claim->token, LOCK_UUID_BYTES);
    proxy_mark(proxy, 0, uuid, fault);
    claim_send(claim, LOCK_TAKE);
    rig_wait_until((rig_pause_ms(1), proxy_wait_marked(proxy, 0, 1, 0)));
}

static void reconnect(void)
{
    proxy_set(proxy, 0, PROXY_RESET, 0);
    proxy_set(proxy, 0, PROXY_NONE, 0);
}

/* What was asked before the connection was lost is answered, or asked again. */
static void expect_granted_after_all(struct rig_claim *claim)
{
    rig_wait_until(!claim->errands[LOCK_TAKE].is_out);
    if (claim_reply(claim, LOCK_TAKE)->kind != LOCK_GRANTED)
        expect_granted(claim);
}

TEST(a_node_whose_creation_was_not_answered_is_found, P126)
{
    struct rig_side *one = join(proxy_url(), CALM_MS), *two = join_beside("lost");
    struct rig_claim *claim = reader_of(one, "lost");
    take_under(claim, PROXY_FREEZE_REPLIES);
    wait_for_line(two, "lost", 2, 0);
    reconnect();
    expect_granted_after_all(claim);
    wait_for_line(two, "lost", 2, 0);
    expect(claim, LOCK_GIVE, LOCK_DONE);
    wait_for_line(two, "lost", 1, 0);
}

TEST(a_node_whose_creation_was_not_heard_is_created_again, P126)
{
    struct rig_side *one = join(proxy_url(), CALM_MS), *two = join_beside("unheard");
    struct rig_claim *claim = reader_of(one, "unheard");
    take_under(claim, PROXY_FREEZE_REQUESTS);
    reconnect();
    expect_granted_after_all(claim);
    wait_for_line(two, "unheard", 2, 0);
}

/* A session that is over may leave its nodes for a moment. Another session plays it. */
TEST(a_node_of_a_past_session_is_not_taken_for_its_own, P126)
{
    struct rig_side *past = join_calmly(), *one = join(proxy_url(), CALM_MS);
    struct rig_claim *left = writer_of(past, "past"), *claim = writer_of(one, "past");
    memcpy(claim->token, left->token, sizeof claim->token);
    expect_granted(left);
    take_under(claim, PROXY_FREEZE_REQUESTS);
    reconnect();
    rig_wait_until(!claim->errands[LOCK_TAKE].is_out);
    expect_refused(claim, 1);
    expect(left, LOCK_GIVE, LOCK_DONE);
    wait_for_turn(claim);
}

TEST(a_request_that_is_given_up_before_its_node_is_known_leaves_none)
{
    struct rig_side *one = join(proxy_url(), CALM_MS), *two = join_beside("early");
    struct rig_claim *claim = reader_of(one, "early");
    take_under(claim, PROXY_FREEZE_REPLIES);
    wait_for_line(two, "early", 2, 0);
    claim_send(claim, LOCK_GIVE);
    rig_wait_until(!claim->errands[LOCK_TAKE].is_out);
    assert_int_equal(claim_reply(claim, LOCK_TAKE)->kind, LOCK_UNANSWERED);
    assert_true(claim->errands[LOCK_GIVE].is_out);
    reconnect();
    rig_wait_until(!claim->errands[LOCK_GIVE].is_out);
    assert_int_equal(claim_reply(claim, LOCK_GIVE)->kind, LOCK_DONE);
    wait_for_line(two, "early", 1, 0);
}

TEST(giving_back_goes_on_until_it_is_answered)
{
    struct rig_side *one = join(proxy_url(), CALM_MS), *two = join_calmly();
    struct rig_claim *held = writer_of(one, "giving"), *next = writer_of(two, "giving");
    expect_granted(held);
    expect_refused(next, 1);
    proxy_set(proxy, 0, PROXY_FREEZE_REQUESTS, 0);
    one->config.limit_ms = 50;
    expect(held, LOCK_GIVE, LOCK_UNANSWERED);
    one->config.limit_ms = CALM_MS;
    reconnect();
    wait_for_turn(next);
    rig_wait_until(one->is_up);
    expect(held, LOCK_GIVE, LOCK_DONE); /* it is known until this is heard */
    expect(held, LOCK_GIVE, LOCK_NOT_HELD);
}

TEST(a_waiter_goes_on_after_a_lost_connection)
{
    struct rig_side *one = join(proxy_url(), CALM_MS), *two = join_calmly();
    struct rig_claim *held = writer_of(two, "reconnect"), *waiting = writer_of(one, "reconnect");
    expect_granted(held);
    expect_refused(waiting, 1);
    proxy_set(proxy, 0, PROXY_RESET, 0);
    rig_wait_until(!one->is_up);
    expect(waiting, LOCK_TAKE, LOCK_UNSENT);
    expect(held, LOCK_GIVE, LOCK_DONE);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    wait_for_turn(waiting);
}

TEST(a_server_that_is_silent_is_not_waited_for)
{
    struct rig_side *one = join(proxy_url(), CALM_MS);
    struct rig_claim *held = writer_of(one, "silent");
    expect_granted(held);
    proxy_set(proxy, 0, PROXY_SILENT, 0);
    one->config.limit_ms = 50;
    expect(held, LOCK_RENEW, LOCK_UNANSWERED);
    one->config.limit_ms = CALM_MS;
    unsigned ups = one->ups;
    reconnect();
    rig_wait_until(one->is_up && one->ups > ups); /* a short end between may go untold */
    expect(held, LOCK_RENEW, LOCK_DONE);
}

/* ---- closing ---- */

TEST(closing_ends_the_session_at_once)
{
    struct rig_side *one = join_calmly(), *two = join_calmly();
    struct rig_claim *held = writer_of(one, "close"), *waiting = writer_of(one, "close");
    struct rig_claim *next = writer_of(two, "close");
    expect_granted(held);
    expect_refused(waiting, 1);
    expect_refused(next, 2);
    uint64_t start_us = clock_us();
    side_close(one);
    wait_for_turn(next);
    assert_true(clock_us() - start_us <
                UINT64_C(1000) * CALM_MS / 2); /* it would have ended by itself later */
}

static void expect_closed_in_time(struct rig_side *side)
{
    uint64_t start_us = clock_us();
    side->config.connect_limit_ms = 100;
    side_close(side);
    assert_in_range((clock_us() - start_us) / 1000, 0, 5000);
}

TEST(closing_waits_for_no_server)
{
    struct rig_side *one = join(proxy_url(), CALM_MS);
    struct rig_claim *held = writer_of(one, "hang"), *asked = writer_of(one, "hang");
    expect_granted(held);
    proxy_set(proxy, 0, PROXY_SILENT, 0);
    claim_send(held, LOCK_RENEW);
    claim_send(asked, LOCK_TAKE);
    expect_closed_in_time(one);
    proxy_set(proxy, 0, PROXY_NONE, 0);
}

/* The library waits for the answer to its goodbye, longer than the look may last. ASan sees whether the look's limit
 * touches what went with the session. */
TEST(closing_may_outlast_the_limit_of_a_look)
{
    struct rig_side *one = join_calmly();
    assert_true(proc_pause(zookeeper.servers[0].pid));
    one->config.connect_limit_ms = one->config.limit_ms = 1;
    side_send_look(one, "looked");
    one->config.connect_limit_ms = CALM_MS;
    uint64_t start_us = clock_us();
    side_close(one);
    uint64_t took_us = clock_us() - start_us;
    proc_resume(zookeeper.servers[0].pid);
    assert_true(took_us > 2000); /* both limits */
    assert_false(one->has_looked);
}

/* ---- what cannot be ---- */

static void expect_wrong(const char *url, const char *why)
{
    struct guard_error error = {.text = ""};
    side_prepare(&sides[0], url);
    assert_false(side_start(&sides[0], lock_zookeeper_open, &error));
    assert_int_equal(error.status, GUARD_INVALID);
    if (strstr(error.text, why) == NULL || strstr(error.text, "urls[0]") == NULL ||
        strstr(error.text, "hunter2") != NULL)
        fail_msg("%s: %s", url, error.text);
}

TEST(wrong_urls_are_refused_by_name)
{
    static const char *const servers[] = {"",
                                          "host",
                                          "host:",
                                          ":2181",
                                          "host:0",
                                          "host:x",
                                          "host:65536",
                                          "host:2181,",
                                          "a:1,,b:2",
                                          "zookeeper://host:2181x",
                                          "me:hunter2@host:2181"};
    static const char *const chroots[] = {"host:2181/", "host:2181/a/", "host:2181/a//b"};
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++)
        expect_wrong(servers[i], "each server must be host:port");
    for (size_t i = 0; i < sizeof chroots / sizeof *chroots; i++)
        expect_wrong(chroots[i], "the chroot must be a path");
}

static void expect_impossible(struct rig_claim *claim, const char *why)
{
    expect(claim, LOCK_TAKE, LOCK_IMPOSSIBLE);
    if (strstr(claim_why(claim, LOCK_TAKE), why) == NULL)
        fail_msg("%s", claim_why(claim, LOCK_TAKE));
}

TEST(a_chroot_that_is_missing_is_told)
{
    char url[96];
    snprintf(url, sizeof url, "%s/missing", zookeeper.url);
    expect_impossible(writer_of(join(url, CALM_MS), "chroot"), "chroot");
}

/* What the servers say of themselves may be read, and nothing may be made below it. */
TEST(a_chroot_that_may_not_be_written_is_told)
{
    char url[96];
    snprintf(url, sizeof url, "%s/zookeeper/config", zookeeper.url);
    expect_impossible(writer_of(join(url, CALM_MS), "rights"),
                      "the access list of the nodes above forbids it");
}

TEST(a_lease_longer_than_any_session_is_told)
{
    struct rig_side *one = join(zookeeper.url, 90000); /* the server allows a minute */
    struct rig_claim *claim = writer_of(one, "lease");
    claim->lease_ms = 90000;
    expect_impossible(claim, "maxSessionTimeout");
    claim->lease_ms = 60000;
    expect_granted(claim);
    assert_int_equal(claim_reply(claim, LOCK_TAKE)->valid_ms, 40000); /* two thirds of the session */
}

TEST(a_host_that_is_unknown_is_told)
{
    struct rig_side *one = join_away("no-such-host.invalid:2181", CALM_MS);
    rig_wait_until(strstr(one->down_why, "resolved") != NULL);
    assert_false(one->is_up);
}

TEST_GROUP(.up = start_one, .down = stop_one, .before = before_each, .after = after_each);

/* ---- an ensemble ---- */

static bool start_ensemble(void)
{
    return stack_zookeeper_start(&zookeeper, STACK_ZOOKEEPER_MOST);
}

static bool stop_ensemble(void)
{
    stack_zookeeper_stop(&zookeeper);
    return true;
}

/* As the core does: as often as needed. */
static void do_until(struct rig_claim *claim, enum lock_action_kind kind, enum lock_reply_kind wanted)
{
    uint64_t end_us = clock_after_ms(RIG_WAIT_MS);
    while (claim_do(claim, kind) != wanted) {
        if (clock_us() >= end_us)
            fail_msg("action %d: reply %d, %s", (int)kind, (int)claim_reply(claim, kind)->kind,
                     claim_why(claim, kind));
        rig_pause_ms(RIG_ASK_MS);
    }
}

TEST(locks_outlive_any_one_server)
{
    struct rig_side *one = join_calmly(), *two = join_calmly();
    struct rig_claim *held = writer_of(one, "server"), *waiting = writer_of(two, "server");
    uint64_t fence = expect_granted(held);
    expect_refused(waiting, 1);
    for (size_t i = 0; i < zookeeper.count; i++) {
        proc_kill_tree(&zookeeper.servers[i].pid);
        do_until(held, LOCK_RENEW, LOCK_DONE);
        assert_true(stack_zookeeper_restart(&zookeeper, i));
    }
    assert_int_equal(held->dropped + waiting->told, 0);
    do_until(held, LOCK_GIVE, LOCK_DONE);
    rig_wait_until(waiting->told > 0);
    do_until(waiting, LOCK_TAKE, LOCK_GRANTED);
    assert_true(claim_reply(waiting, LOCK_TAKE)->fence[0] > fence);
}

/* A server that has lost the others goes on to answer those that only read, for ten seconds here: that proves
 * nothing. */
TEST(without_a_majority_nothing_is_granted_or_confirmed, P126)
{
    char last[32];
    snprintf(last, sizeof last, "127.0.0.1:%u", (unsigned)zookeeper.servers[2].port);
    struct rig_side *one = join(last, CALM_MS);
    struct rig_claim *held = writer_of(one, "majority"), *other = writer_of(one, "other");
    expect_granted(held);
    one->config.limit_ms = 300;
    proc_pause(zookeeper.servers[0].pid);
    proc_pause(zookeeper.servers[1].pid);
    claim_do(held, LOCK_RENEW); /* until this is over both of them have stopped */
    assert_int_not_equal(claim_do(held, LOCK_RENEW), LOCK_DONE);
    assert_int_not_equal(claim_do(other, LOCK_TAKE), LOCK_GRANTED);
    one->config.limit_ms = CALM_MS;
    proc_resume(zookeeper.servers[0].pid);
    proc_resume(zookeeper.servers[1].pid);
    do_until(held, LOCK_RENEW, LOCK_DONE);
}

TEST_GROUP(.up = start_ensemble, .down = stop_ensemble, .before = before_each, .after = after_each);

/* ---- the holder ---- */

static void say_reply(struct rig_claim *claim)
{
    puts(claim_do(claim, LOCK_TAKE) == LOCK_GRANTED ? "held" : "refused");
    fflush(stdout);
}

/* Holds the name until it is killed; asks for it again once it was dropped. */
static int hold(char **argv)
{
    rig_start();
    struct rig_side *side = join(argv[2], (uint32_t)strtoul(argv[4], NULL, 10));
    struct rig_claim *claim = writer_of(side, argv[3]);
    say_reply(claim);
    rig_wait_until(claim->dropped > 0);
    puts("dropped");
    rig_wait_until(side->is_up);
    say_reply(claim);
    rig_wait_until(false);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--hold") == 0)
        return hold(argv);
    return test_main(argc, argv);
}
