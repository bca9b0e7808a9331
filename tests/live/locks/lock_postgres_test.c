/* SPDX-License-Identifier: MIT */
/*
 * lock_postgres_test.c - locks by PostgreSQL on a private server, at the seam to the core.
 *
 * A side of the rig stands for a process; where one has to die or to stop for real it is this program again, started
 * with "hold" (see hold_main()).
 */
#include "tests/live/locks/lock_rig.h"

#include "load/base/clock.h"
#include "load/base/proc.h"
#include "load/stack/proxy.h"
#include "load/stack/stack.h"
#include "tests/support/files.h"
#include "tests/support/sockets.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
    LONG_MS = 30000, /* a lease that no test waits for */
    SHORT_MS = 1200, /* one that ends */
    PROMPT_MS = 200, /* a limit that passes */
    SLOW_MS = 1500,  /* one within which a server that does not hang answers */
    SIDES = 4,
    PACE_MS = 2 /* between two looks at the server */
};

static struct stack_postgres server;
static struct rig_side sides[RIG_SIDES_MAX];
static struct rig_claim claims[RIG_CLAIMS_MAX];

/* ---- the server, asked from outside ---- */

static void must(const char *statement)
{
    if (!stack_postgres_query(server.socket_url, statement, NULL, 0))
        fail_msg("%s", statement);
}

static uint64_t number_of(const char *statement)
{
    char value[64];
    if (!stack_postgres_query(server.socket_url, statement, value, sizeof value))
        fail_msg("%s", statement);
    return strtoull(value, NULL, 10);
}

/* Who stands where, for a test that fails. */
static void print_locks(void)
{
    char seen[4096];
    if (stack_postgres_query(server.socket_url,
                             "SELECT string_agg(concat_ws(' ', l.pid, granted, age(waitstart), state, "
                             "wait_event, age(state_change), query), E'\\n') FROM pg_locks l "
                             "LEFT JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory'",
                             seen, sizeof seen))
        print_message("%s\n", seen);
}

#define LOCKS "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
static const char all_locks[] = LOCKS, waiting_locks[] = LOCKS " AND NOT granted";

/* The rig's loop goes on meanwhile. */
static void wait_for_number(const char *statement, uint64_t wanted)
{
    uint64_t end_us = clock_now_us() + RIG_WAIT_MS * UINT64_C(1000);
    while (number_of(statement) != wanted) {
        if (clock_now_us() > end_us) {
            print_locks();
            fail_msg("%" PRIu64 ", never %" PRIu64 ": %s", number_of(statement), wanted, statement);
        }
        rig_pause_ms(PACE_MS);
    }
}

static bool server_up(void)
{
    return stack_postgres_start(&server, 100);
}

static bool server_down(void)
{
    stack_postgres_stop(&server);
    return true;
}

static bool test_begins(void)
{
    rig_start();
    return true;
}

/* Nothing stands at the server when a test is over. */
static bool test_ends(void)
{
    for (size_t i = 0; i < rig.side_count; i++)
        side_close(rig.sides[i]);
    wait_for_number(all_locks, 0);
    rig_finish();
    return true;
}

/* ---- sides and claims ---- */

static struct rig_side *open_side(size_t at, const char *url)
{
    side_open(&sides[at], lock_postgres_open, url);
    return &sides[at];
}

static struct rig_side *open_side_of(size_t at, const char *url, uint32_t limit_ms)
{
    struct guard_error error = {.text = ""};
    side_prepare(&sides[at], url);
    sides[at].config.limit_ms = limit_ms;
    sides[at].config.connect_limit_ms = 5 * PROMPT_MS;
    if (!side_start(&sides[at], lock_postgres_open, &error))
        fail_msg("%s", error.text);
    return &sides[at];
}

static struct rig_side *open_prompt_side(size_t at, const char *url)
{
    return open_side_of(at, url, PROMPT_MS);
}

static struct rig_claim *claim_of(size_t at, struct rig_side *side, enum guard_lock_kind kind,
                                  const char *name)
{
    claim_init(&claims[at], side, kind, name, LONG_MS);
    return &claims[at];
}

static void expect_given(struct rig_claim *claim)
{
    assert_int_equal(claim_do(claim, LOCK_GIVE), LOCK_DONE);
}

/* Where the server may be slow to answer: what is in doubt is over when it is asked again. */
static void give_at_last(struct rig_claim *claim)
{
    while (claim_do(claim, LOCK_GIVE) == LOCK_UNANSWERED)
        ;
}

static void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("not in \"%s\": %s", text, part);
}

/* ---- taking and giving ---- */

/* Whatever it is doing: the take and the give are answered, and the lock is free. */
TEST(a_claim_is_given_up_after_any_number_of_turns)
{
    struct rig_side *side = open_side(0, server.url);
    bool was_granted = false;
    for (unsigned turns = 0; !was_granted; turns++) {
        struct rig_claim *claim = &claims[0], *next = &claims[1];
        sides[0].claim_count = 0;
        claim_of(0, side, GUARD_LOCK_FAIR, "turns");
        claim_of(1, side, GUARD_LOCK_FAIR, "turns");
        claim_send(claim, LOCK_TAKE);
        for (unsigned i = 0; i < turns && claim->errands[LOCK_TAKE].is_out; i++)
            rig_turn();
        uv_timer_stop(&rig.tick);
        claim_send(claim, LOCK_GIVE);
        rig_wait_until(!claim->errands[LOCK_TAKE].is_out && !claim->errands[LOCK_GIVE].is_out);
        was_granted = claim_reply(claim, LOCK_TAKE)->kind == LOCK_GRANTED;
        assert_int_equal(claim_reply(claim, LOCK_GIVE)->kind, was_granted ? LOCK_DONE : LOCK_NOT_HELD);
        claim_acquire(next);
        expect_given(next);
    }
}

TEST(a_provider_is_closed_after_any_number_of_turns)
{
    bool was_granted = false;
    for (unsigned turns = 0; !was_granted; turns++) {
        struct rig_side *side = open_side(0, server.url);
        struct rig_claim *claim = claim_of(0, side, GUARD_LOCK_FAIR, "closed");
        claim_send(claim, LOCK_TAKE);
        for (unsigned i = 0; i < turns && claim->errands[LOCK_TAKE].is_out; i++)
            rig_turn();
        uv_timer_stop(&rig.tick);
        was_granted = !claim->errands[LOCK_TAKE].is_out;
        side_close(side);
        rig.side_count = 0;
    }
}

TEST(a_ninth_claim_stands_in_line_in_its_process)
{
    struct rig_side *side = open_side(0, server.url);
    char name[16];
    for (size_t i = 0; i < 11; i++) {
        snprintf(name, sizeof name, "many%zu", i);
        claim_of(i, side, GUARD_LOCK_FAIR, name);
        if (i < 8)
            claim_acquire(&claims[i]);
        else
            claim_queue(&claims[i]);
    }
    assert_int_equal(number_of(all_locks), 8);
    struct rig_claim *once = claim_of(11, side, GUARD_LOCK_FAIR, "many11");
    once->place_ms = 0;
    assert_int_equal(claim_do(once, LOCK_TAKE), LOCK_UNSENT);
    assert_contains(claim_why(once, LOCK_TAKE), "sessions");
    assert_int_equal(claim_do(&claims[9], LOCK_GIVE), LOCK_NOT_HELD);
    expect_given(&claims[3]);
    rig_wait_until(claims[8].told == 1);
    assert_int_equal(claims[10].told, 0);
    claim_acquire(&claims[8]);
    expect_given(&claims[0]);
    rig_wait_until(claims[10].told == 1);
    claim_acquire(&claims[10]);
    for (size_t i = 0; i < 11; i++)
        claim_do(&claims[i], LOCK_GIVE);
    assert_int_equal(side->downs, 0);
}

/* ---- who dies, and who stands still ---- */

/* A process that takes a lock, says "line" when it stands in line and "held" when it holds, and renews. */
static int hold_main(char **argv)
{
    struct rig_claim *claim = &claims[0];
    rig_start();
    side_open(&sides[0], lock_postgres_open, argv[2]);
    claim_init(claim, &sides[0], GUARD_LOCK_FAIR, argv[3], (uint32_t)atoi(argv[4]));
    enum lock_reply_kind kind = claim_do(claim, LOCK_TAKE);
    if (kind == LOCK_REFUSED)
        dprintf(STDOUT_FILENO, "line\n");
    claim_acquire(claim);
    dprintf(STDOUT_FILENO, "held\n");
    while (claim->dropped == 0) {
        claim_send(claim, LOCK_RENEW);
        rig_pause_ms(claim->lease_ms / 3);
        rig_wait_until(!claim->errands[LOCK_RENEW].is_out);
    }
    dprintf(STDOUT_FILENO, "dropped: %s\n", claim->dropped_why);
    return 0;
}

static struct rig_child start_child(const char *name, uint32_t lease_ms)
{
    return child_start(server.url, name, lease_ms);
}

TEST(the_lock_of_a_killed_process_is_granted_at_once)
{
    struct rig_child holder = start_child("killed", LONG_MS);
    struct rig_claim *next = claim_of(0, open_side(0, server.url), GUARD_LOCK_FAIR, "killed");
    child_expect(&holder, "held");
    claim_queue(next);
    wait_for_number(waiting_locks, 1);
    uint64_t before_us = clock_now_us();
    child_end(&holder);
    claim_acquire(next);
    assert_in_range(clock_now_us() - before_us, 0, LONG_MS * 1000 / 2);
    expect_given(next);
}

TEST(the_server_ends_the_lease_of_a_stopped_process, P125)
{
    struct rig_child holder = start_child("stopped", SHORT_MS);
    struct rig_claim *next = claim_of(0, open_side(0, server.url), GUARD_LOCK_FAIR, "stopped");
    child_expect(&holder, "held");
    assert_true(proc_pause(holder.pid));
    uint64_t stopped_us = clock_now_us();
    claim_acquire(next);
    print_message("granted %.1f ms after the stop, of a lease of %d\n",
                  (double)(clock_now_us() - stopped_us) / 1000, SHORT_MS);
    proc_resume(holder.pid);
    child_expect(&holder, "dropped: PostgreSQL 127.0.0.1");
    child_end(&holder);
    expect_given(next);
}

/* One that came to the head of the line while it was stopped. */
TEST(a_stopped_waiter_holds_for_no_longer_than_its_lease)
{
    struct rig_claim *holder = claim_of(0, open_side(0, server.url), GUARD_LOCK_FAIR, "head");
    struct rig_claim *next = claim_of(1, open_side(1, server.url), GUARD_LOCK_FAIR, "head");
    claim_acquire(holder);
    struct rig_child stopped = start_child("head", SHORT_MS);
    child_expect(&stopped, "line");
    wait_for_number(waiting_locks, 1);
    claim_queue(next);
    wait_for_number(waiting_locks, 2);
    assert_true(proc_pause(stopped.pid));
    expect_given(holder);
    claim_acquire(next);
    proc_resume(stopped.pid);
    expect_given(next);
    child_expect(&stopped, "held"); /* it has stood in line anew */
    child_end(&stopped);
}

static const char end_backends[] =
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'";

TEST(a_holder_hears_at_once_that_its_session_was_ended)
{
    struct rig_claim *holder = claim_of(0, open_side(0, server.url), GUARD_LOCK_FAIR, "ended");
    claim_acquire(holder);
    must(end_backends);
    uint64_t ended_us = clock_now_us();
    rig_wait_until(holder->dropped == 1);
    print_message("dropped %.1f ms later\n", (double)(holder->dropped_us - ended_us) / 1000);
    assert_contains(holder->dropped_why, "PostgreSQL 127.0.0.1");
    assert_contains(holder->dropped_why, "terminating connection due to administrator command");
    assert_int_equal(claim_do(holder, LOCK_RENEW), LOCK_NOT_HELD);
    assert_int_equal(claim_do(holder, LOCK_GIVE), LOCK_NOT_HELD);
    assert_int_equal(holder->told, 0);
}

TEST(a_waiter_whose_session_was_ended_stands_in_line_again)
{
    struct rig_claim *holder = claim_of(0, open_side(0, server.url), GUARD_LOCK_FAIR, "again");
    struct rig_claim *waiter = claim_of(1, open_side(1, server.url), GUARD_LOCK_FAIR, "again");
    claim_acquire(holder);
    claim_queue(waiter);
    wait_for_number(waiting_locks, 1);
    must("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
    rig_wait_until(waiter->told == 1);
    assert_int_equal(waiter->dropped, 0);
    claim_queue(waiter);
    wait_for_number(waiting_locks, 1);
    expect_given(holder);
    claim_acquire(waiter);
    expect_given(waiter);
}

/* ---- the server ---- */

TEST(the_fence_goes_on_after_the_server_was_killed, P119)
{
    struct rig_claim *holder = claim_of(0, open_side(0, server.url), GUARD_LOCK_FAIR, "crash");
    struct rig_claim *waiter = claim_of(1, open_side(1, server.url), GUARD_LOCK_FAIR, "crash");
    uint64_t fence = claim_acquire(holder);
    claim_queue(waiter);
    proc_kill_tree(&server.pid);
    rig_wait_until(holder->dropped == 1 && waiter->told == 1);
    assert_int_equal(claim_do(waiter, LOCK_TAKE), LOCK_UNSENT);
    assert_contains(claim_why(waiter, LOCK_TAKE), "127.0.0.1");
    rig_wait_until(!sides[1].is_up);
    assert_contains(sides[1].down_why, "onnection refused");
    assert_true(stack_postgres_restart(&server));
    rig_wait_until(sides[1].is_up);
    assert_true(claim_acquire(waiter) > fence);
    expect_given(waiter);
}

TEST(a_holder_outlives_a_server_that_hangs_for_less_than_its_lease)
{
    struct rig_side *side = open_prompt_side(0, server.url);
    struct rig_claim *holder = claim_of(0, side, GUARD_LOCK_FAIR, "hangs");
    claim_acquire(holder);
    uint64_t mark = stack_postgres_mark(&server);
    proc_pause(server.pid);
    assert_int_equal(claim_do(holder, LOCK_RENEW), LOCK_UNANSWERED);
    claim_send(holder, LOCK_RENEW);
    proc_resume(server.pid);
    rig_wait_until(!holder->errands[LOCK_RENEW].is_out);
    while (claim_reply(holder, LOCK_RENEW)->kind == LOCK_UNANSWERED)
        claim_do(holder, LOCK_RENEW);
    assert_int_equal(claim_reply(holder, LOCK_RENEW)->kind, LOCK_DONE);
    assert_true(stack_postgres_count(&server, mark, "pg_backend_pid() AND granted") >
                1); /* one answer each */
    assert_int_equal(holder->dropped, 0);
    give_at_last(holder);
}

/* Nothing of the loop runs meanwhile; then the limit is over, and what the server has answered lies in the socket. */
static void stand_still_until(const char *statement, uint64_t wanted)
{
    uint64_t begun_us = clock_now_us();
    WAIT_UNTIL(number_of(statement) == wanted);
    WAIT_UNTIL(clock_now_us() - begun_us > (SLOW_MS + 100) * UINT64_C(1000));
}

TEST(what_was_answered_while_the_process_stood_still_is_heard_before_its_limit, P125)
{
    static const char renewed[] = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'rig:%' "
                                  "AND query LIKE '%count(*) = %' AND state = 'idle'";
    struct rig_side *side = open_side_of(0, server.url, SLOW_MS);
    struct rig_claim *claim = claim_of(0, side, GUARD_LOCK_FAIR, "stands");
    claim_acquire(claim);
    give_at_last(claim);
    uint64_t backend = number_of("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'rig:%'");
    claim_new_token(claim);
    claim_send(claim, LOCK_TAKE);
    stand_still_until(all_locks, 1);
    rig_wait_until(!claim->errands[LOCK_TAKE].is_out);
    assert_int_equal(claim_reply(claim, LOCK_TAKE)->kind, LOCK_GRANTED);
    claim_send(claim, LOCK_RENEW);
    stand_still_until(renewed, 1);
    rig_wait_until(!claim->errands[LOCK_RENEW].is_out);
    assert_int_equal(claim_reply(claim, LOCK_RENEW)->kind, LOCK_DONE);
    claim_send(claim, LOCK_GIVE);
    stand_still_until(all_locks, 0);
    rig_wait_until(!claim->errands[LOCK_GIVE].is_out);
    assert_int_equal(claim_reply(claim, LOCK_GIVE)->kind, LOCK_DONE);
    assert_int_equal(number_of("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'rig:%'"),
                     backend);
    assert_int_equal(side->downs, 0);
}

TEST(a_standby_grants_nothing)
{
    char path[PROC_PATH_BYTES + 32];
    struct rig_side *side = open_side(0, server.url);
    rig_wait_until(side->is_up);
    snprintf(path, sizeof path, "%s/data/standby.signal", server.folder);
    file_write(path, "");
    assert_int_equal(chmod(path, 0666), 0);
    assert_true(stack_postgres_restart(&server));
    struct rig_claim *claim = claim_of(0, side, GUARD_LOCK_FAIR, "standby");
    while (claim_do(claim, LOCK_TAKE) != LOCK_UNSENT ||
           side->downs == 0) { /* its idle session is gone, too */
        assert_true(claim_reply(claim, LOCK_TAKE)->kind == LOCK_UNSENT ||
                    claim_reply(claim, LOCK_TAKE)->kind == LOCK_UNANSWERED);
        rig_pause_ms(RIG_ASK_MS);
    }
    assert_contains(side->down_why, "this is a standby");
    must("SELECT pg_promote()");
    claim_acquire(claim);
    expect_given(claim);
}

/* ---- what stands in between ---- */

static void expect_pooler(const char *mode)
{
    struct stack_pgbouncer pooler;
    char value[32];
    assert_true(stack_pgbouncer_start(&pooler, &server, mode));
    struct rig_side *side = open_side(rig.side_count, pooler.url);
    struct rig_claim *claim = claim_of(rig.side_count - 1, side, GUARD_LOCK_FAIR, "pooled");
    assert_int_equal(claim_do(claim, LOCK_TAKE), LOCK_IMPOSSIBLE);
    assert_contains(claim_why(claim, LOCK_TAKE), "need a direct connection");
    assert_true(side->is_up); /* it answers: requests are told at once, not when their time is over */
    assert_false(side_look(side, "pooled"));
    side_close(side);
    assert_true(stack_postgres_query(pooler.url, "SHOW idle_session_timeout", value, sizeof value));
    assert_string_equal(value, "0"); /* the session that others get is as it was */
    stack_pgbouncer_stop(&pooler);
}

TEST(a_pooler_is_recognised_in_every_mode, P125)
{
    expect_pooler("session");
    expect_pooler("transaction");
}

/* The reply to the number is lost with the connection: the grant is in doubt, the lock is not. */
TEST(a_take_whose_reply_is_lost_is_in_doubt_and_may_be_repeated)
{
    struct proxy *proxy;
    char url[96];
    assert_true(proxy_open_to(server.port, &proxy));
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%u/postgres", (unsigned)proxy_port(proxy, 0));
    struct rig_claim *claim = claim_of(0, open_side(0, url), GUARD_LOCK_FAIR, "reply");
    claim_acquire(claim);
    expect_given(claim);
    uint64_t fence = number_of("SELECT fence FROM lock_fences WHERE name = 'rig:reply'");
    proxy_mark(proxy, 0, "INSERT INTO public.lock_fences", PROXY_FREEZE_REPLIES);
    claim_new_token(claim);
    claim_send(claim, LOCK_TAKE);
    wait_for_number("SELECT fence FROM lock_fences WHERE name = 'rig:reply'", fence + 1);
    assert_true(claim->errands[LOCK_TAKE].is_out);
    proxy_retarget(proxy, 0, server.port); /* resets it */
    rig_wait_until(!claim->errands[LOCK_TAKE].is_out);
    assert_int_equal(claim_reply(claim, LOCK_TAKE)->kind, LOCK_UNANSWERED);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    assert_int_equal(claim_acquire(claim), fence + 2);
    expect_given(claim);
    side_close(&sides[0]);
    proxy_close(&proxy);
}

/* Seconds until the server asks the client of this port whether it is there; 0: nothing is said of that. */
static double next_keepalive_s(uint64_t client_port)
{
    char line[256];
    double next_s = 0;
    FILE *file = fopen("/proc/net/tcp", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned local, remote, timer;
        unsigned long ticks;
        if (sscanf(line, "%*s %*x:%x %*x:%x %*x %*x:%*x %x:%lx", &local, &remote, &timer, &ticks) == 4 &&
            local == server.port && remote == client_port && timer == 2)
            next_s = (double)ticks / (double)sysconf(_SC_CLK_TCK);
    }
    fclose(file);
    return next_s;
}

/* What is on its way comes before it. There is one that is granted, or waits. */
static double keepalive_s_of(bool granted)
{
    char statement[192];
    double next_s;
    uint64_t end_us = clock_now_us() + RIG_WAIT_MS * UINT64_C(1000);
    snprintf(statement, sizeof statement,
             "SELECT client_port FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE locktype = 'advisory' "
             "AND granted = %s",
             granted ? "true" : "false");
    uint64_t port = number_of(statement);
    while ((next_s = next_keepalive_s(port)) == 0 && clock_now_us() < end_us)
        rig_pause_ms(PACE_MS);
    assert_true(next_s > 0);
    return next_s;
}

/* Returns when the server will ask for its client, in seconds from the begin of this. */
static double acquire_for_keepalive_s(struct rig_claim *claim)
{
    uint64_t begin_us = clock_now_us();
    claim_acquire(claim);
    double next_s = keepalive_s_of(true);
    return next_s + (double)(clock_now_us() - begin_us) / 1e6;
}

/* Else a holder that is cut off would lose a long lease to another before it hears of it. One that waits, or waited,
 * has nothing to lose. */
TEST(the_server_does_not_take_a_holder_for_dead_before_its_lease_is_over, P125)
{
    struct rig_side *first = open_side(0, server.url), *second = open_side(1, server.url);
    struct rig_claim *holder = claim_of(0, first, GUARD_LOCK_FAIR, "silent");
    struct rig_claim *waiter = claim_of(1, second, GUARD_LOCK_READ, "silent");
    assert_true(acquire_for_keepalive_s(holder) * 1000 > LONG_MS);
    claim_queue(waiter);
    wait_for_number(waiting_locks, 1);
    assert_true(keepalive_s_of(false) <= 5);
    expect_given(holder);
    assert_true(acquire_for_keepalive_s(waiter) * 1000 > LONG_MS);
    claim_new_token(holder);
    claim_queue(holder); /* in the session in which it had it */
    wait_for_number(waiting_locks, 1);
    assert_true(keepalive_s_of(false) <= 5);
    expect_given(waiter);
    claim_acquire(holder);
    expect_given(holder);
}

/* ---- rights and settings ---- */

TEST(a_role_without_rights_is_told_what_an_administrator_does)
{
    char url[96];
    must("SET client_min_messages = warning; DROP TABLE IF EXISTS lock_fences; CREATE ROLE plain LOGIN");
    snprintf(url, sizeof url, "postgresql://plain@127.0.0.1:%u/postgres", (unsigned)server.port);
    struct rig_side *side = open_side(0, url);
    struct rig_claim *claim = claim_of(0, side, GUARD_LOCK_FAIR, "rights");
    assert_int_equal(claim_do(claim, LOCK_TAKE), LOCK_IMPOSSIBLE);
    assert_contains(claim_why(claim, LOCK_TAKE), "permission denied for schema public");
    assert_contains(claim_why(claim, LOCK_TAKE), "CREATE TABLE lock_fences (");
    assert_int_equal(side->downs, 0);
    must("CREATE TABLE lock_fences (name text PRIMARY KEY, fence bigint NOT NULL)");
    while (strstr(claim_why(claim, LOCK_TAKE), "permission denied for table lock_fences") == NULL) {
        assert_int_equal(claim_do(claim, LOCK_TAKE), LOCK_IMPOSSIBLE);
        rig_pause_ms(RIG_ASK_MS);
    }
    must("GRANT SELECT, INSERT, UPDATE ON lock_fences TO plain");
    assert_int_equal(claim_do(claim, LOCK_TAKE), LOCK_GRANTED);
    expect_given(claim);
    side_close(side);
    must("DROP TABLE lock_fences; DROP ROLE plain");
}

/* What makes it without a word to others may come between: one is told that there is such a type, here without a
 * table. */
TEST(a_table_that_another_makes_meanwhile_is_there)
{
    struct rig_claim *holder = claim_of(0, open_side(0, server.url), GUARD_LOCK_FAIR, "made");
    claim_acquire(holder);
    must("DROP TABLE lock_fences; CREATE DOMAIN lock_fences AS integer");
    struct rig_claim *waiter = claim_of(1, open_side(1, server.url), GUARD_LOCK_FAIR, "made");
    assert_int_equal(claim_do(waiter, LOCK_TAKE), LOCK_UNSENT);
    must("DROP DOMAIN lock_fences; CREATE TABLE lock_fences (name text PRIMARY KEY, fence bigint NOT NULL)");
    expect_given(holder);
    claim_acquire(waiter);
    expect_given(waiter);
}

static struct rig_side *open_side_of_schema(size_t at, const char *schema)
{
    static char texts[SIDES][160];
    snprintf(texts[at], sizeof texts[at],
             "host=127.0.0.1 port=%u user=postgres dbname=postgres options='-c search_path=%s'",
             (unsigned)server.port, schema);
    return open_side(at, texts[at]);
}

static uint64_t fence_in_schema(size_t at, const char *schema)
{
    struct rig_claim *claim = claim_of(at, open_side_of_schema(at, schema), GUARD_LOCK_FAIR, "table");
    uint64_t fence = claim_acquire(claim);
    expect_given(claim);
    side_close(&sides[at]);
    return fence;
}

TEST(there_is_one_table_whatever_the_search_path_says_and_an_operators_is_found)
{
    must("SET client_min_messages = warning; DROP TABLE IF EXISTS lock_fences; CREATE SCHEMA one;"
         " CREATE SCHEMA \"Two\"");
    uint64_t first = fence_in_schema(0, "one");
    assert_int_equal(fence_in_schema(1, "\"Two\""), first + 1);
    assert_int_equal(fence_in_schema(2, "public"), first + 2);
    must("DROP TABLE one.lock_fences; CREATE TABLE \"Two\".lock_fences (name text PRIMARY KEY, fence bigint"
         " NOT NULL); INSERT INTO \"Two\".lock_fences VALUES ('rig:table', 1000)");
    rig.side_count = 0;
    assert_int_equal(fence_in_schema(0, "one"), 1001);
    assert_int_equal(number_of("SELECT count(*) FROM pg_class WHERE relname = 'lock_fences'"), 1);
    must("DROP TABLE \"Two\".lock_fences");
    rig.side_count = 0;
    struct rig_claim *claim = claim_of(1, open_side_of_schema(1, "nowhere"), GUARD_LOCK_FAIR, "nowhere");
    assert_int_equal(claim_do(claim, LOCK_TAKE), LOCK_IMPOSSIBLE);
    assert_contains(claim_why(claim, LOCK_TAKE), "no schema has been selected");
    side_close(&sides[1]);
    must("DROP SCHEMA one; DROP SCHEMA \"Two\"");
}

/* They are for its statements, and would end a wait for a lock. */
TEST(settings_of_a_role_do_not_end_a_wait, P176)
{
    char url[96];
    must("CREATE ROLE hasty LOGIN SUPERUSER; ALTER ROLE hasty SET lock_timeout = "
         "500;"
         "ALTER ROLE hasty SET statement_timeout = 500; ALTER ROLE hasty SET default_transaction_read_only = "
         "on;"
         "ALTER ROLE hasty SET synchronous_commit = off");
    must("DO $$ BEGIN IF current_setting('server_version_num')::int >= 170000 THEN"
         " ALTER ROLE hasty SET transaction_timeout = 500; END IF; END $$");
    snprintf(url, sizeof url, "postgresql://hasty@127.0.0.1:%u/postgres", (unsigned)server.port);
    struct rig_claim *holder = claim_of(0, open_side(0, url), GUARD_LOCK_FAIR, "hasty");
    struct rig_claim *waiter = claim_of(1, open_side(1, url), GUARD_LOCK_FAIR, "hasty");
    claim_acquire(holder);
    claim_queue(waiter);
    wait_for_number("SELECT count(*) FROM pg_locks WHERE NOT granted AND waitstart < clock_timestamp() - "
                    "'1000 ms'::interval",
                    1);
    assert_int_equal(waiter->told, 0);
    expect_given(holder);
    claim_acquire(waiter);
    expect_given(waiter);
    side_close(&sides[0]);
    side_close(&sides[1]);
    must("DROP OWNED BY hasty; DROP ROLE hasty");
}

TEST(a_host_that_never_answers_is_passed_over, P176)
{
    char url[96];
    uint16_t port;
    int silent = socket_listen(0, 16, &port); /* its kernel answers, and nobody else */
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%u,127.0.0.1:%u/postgres", (unsigned)port,
             (unsigned)server.port);
    struct rig_claim *claim = claim_of(0, open_side(0, url), GUARD_LOCK_FAIR, "reached");
    claim_acquire(claim);
    expect_given(claim);
    side_close(&sides[0]);
    close(silent);
}

TEST(a_connection_string_that_is_none_is_refused_without_its_password)
{
    static const char *const wrong[] = {"host=127.0.0.1 password=one hunter2 port=1",
                                        "postgresql://me:hunter2@[::1/db",
                                        "password='hunter2",
                                        "host=127.0.0.1 hunter2",
                                        "postgresql://me:hunter2/x@127.0.0.1/db",
                                        "postgresql://me:one@hunter2@127.0.0.1/db"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct guard_error error = {.text = ""};
        side_prepare(&sides[0], wrong[i]);
        assert_false(side_start(&sides[0], lock_postgres_open, &error));
        assert_int_equal(error.status, GUARD_INVALID);
        assert_contains(error.text, "urls[0] is not a connection string of PostgreSQL");
        assert_null(strstr(error.text, "hunter"));
    }
}

static void expect_unusable(const char *url, enum lock_reply_kind kind, const char *why)
{
    struct rig_side *side = open_side(0, url);
    struct rig_claim *claim = claim_of(0, side, GUARD_LOCK_FAIR, "unreachable");
    assert_int_equal(claim_do(claim, LOCK_TAKE), kind);
    assert_contains(claim_why(claim, LOCK_TAKE), "PostgreSQL 127.0.0.1");
    assert_contains(claim_why(claim, LOCK_TAKE), why);
    assert_null(strstr(claim_why(claim, LOCK_TAKE), "hunter2"));
    assert_null(strstr(claim_why(claim, LOCK_TAKE), "LOCATION"));
    assert_false(side_look(side, "unreachable"));
    assert_null(strstr(side->look_why, "hunter2"));
    assert_null(strstr(side->down_why, "hunter2"));
    assert_int_equal(side->ups > 0, kind == LOCK_IMPOSSIBLE); /* so that it is asked, and says so */
    side_close(side);
    rig.side_count = 0;
}

/* While the link is down the core renews nothing. */
TEST(a_server_without_room_for_another_session_is_still_up)
{
    char url[96];
    must("CREATE ROLE narrow LOGIN CONNECTION LIMIT 2; GRANT CREATE ON SCHEMA public TO narrow;"
         "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO narrow");
    snprintf(url, sizeof url, "postgresql://narrow@127.0.0.1:%u/postgres", (unsigned)server.port);
    struct rig_side *side = open_side(0, url);
    struct rig_claim *one = claim_of(0, side, GUARD_LOCK_FAIR, "one"),
                     *two = claim_of(1, side, GUARD_LOCK_FAIR, "two"),
                     *third = claim_of(2, side, GUARD_LOCK_FAIR, "third");
    claim_acquire(one);
    claim_acquire(two);
    assert_int_equal(claim_do(third, LOCK_TAKE), LOCK_UNSENT);
    assert_contains(claim_why(third, LOCK_TAKE), "too many connections for role");
    assert_int_equal(side->downs, 0);
    assert_int_equal(claim_do(one, LOCK_RENEW), LOCK_DONE);
    expect_given(one);
    claim_acquire(third);
    side_close(side);
    must("DROP OWNED BY narrow; DROP ROLE narrow");
}

/* Whoever is "guarded" needs a password. */
static void ask_for_passwords(void)
{
    char path[PROC_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/data/pg_hba.conf", server.folder);
    file_write(path,
               "host all guarded 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nlocal all "
               "all trust\n");
    must("CREATE ROLE guarded LOGIN PASSWORD 'right'; SELECT pg_reload_conf()");
}

TEST(a_server_that_cannot_be_used_says_why_and_not_the_password)
{
    char url[160];
    snprintf(url, sizeof url, "postgresql://me:hunter2@127.0.0.1:1/postgres");
    expect_unusable(url, LOCK_UNSENT, "onnection refused");
    snprintf(url, sizeof url, "host=127.0.0.1 port=%u user=postgres password=hunter2 dbname=nothing",
             (unsigned)server.port);
    expect_unusable(url, LOCK_IMPOSSIBLE, "database \"nothing\" does not exist");
    ask_for_passwords();
    snprintf(url, sizeof url, "postgresql://guarded:hunter2@127.0.0.1:%u/postgres", (unsigned)server.port);
    expect_unusable(url, LOCK_IMPOSSIBLE, "password authentication failed for user \"guarded\"");
    must("DROP ROLE guarded");
}

/* ---- the fence, where it is checked ---- */

static bool writes(PGconn *writer, uint64_t fence)
{
    char statement[128];
    snprintf(statement, sizeof statement,
             "SELECT FROM lock_fences WHERE name = 'rig:writes' AND fence = %" PRIu64 " FOR SHARE", fence);
    PQclear(PQexec(writer, "BEGIN"));
    PGresult *result = PQexec(writer, statement);
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    bool may = PQntuples(result) == 1;
    PQclear(result);
    return may;
}

/* A writer that begins with the row of its grant is alone, however late it is: the next grant waits for its
 * transaction, and one that begins later finds no row. */
TEST(a_late_writer_is_refused_and_the_next_grant_waits_for_an_early_one, P125)
{
    PGconn *writer = PQconnectdb(server.socket_url);
    assert_int_equal(PQstatus(writer), CONNECTION_OK);
    struct rig_side *side = open_prompt_side(0, server.url);
    struct rig_claim *first = claim_of(0, side, GUARD_LOCK_FAIR, "writes");
    struct rig_claim *second = claim_of(1, side, GUARD_LOCK_FAIR, "writes");
    uint64_t fence = claim_acquire(first);
    claim_queue(second);
    wait_for_number(waiting_locks, 1);
    assert_true(writes(writer, fence));
    must("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted");
    rig_wait_until(first->dropped == 1 && second->told == 1);
    assert_int_equal(claim_do(second, LOCK_TAKE), LOCK_REFUSED); /* it has the lock, and waits for the row */
    assert_int_equal(claim_do(second, LOCK_TAKE), LOCK_REFUSED);
    assert_int_equal(second->told, 1);
    PQclear(PQexec(writer, "COMMIT"));
    rig_wait_until(second->told == 2);
    assert_true(claim_acquire(second) > fence);
    assert_false(writes(writer, fence));
    PQfinish(writer);
    give_at_last(second);
}

TEST_GROUP(.up = server_up, .down = server_down, .before = test_begins, .after = test_ends);

int main(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "--hold") == 0 ? hold_main(argv) : test_main(argc, argv);
}
