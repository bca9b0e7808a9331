/* SPDX-License-Identifier: MIT */
/*
 * permits_test.c - load permits: several guards, one real Redis, never more than S loads over all of them.
 *
 * The source counts the loaders that are at work at a time, over the whole fleet. A holder that dies is a process of
 * its own, forked before any guard is opened and killed with SIGKILL.
 */
#include "guard_rig.h"
#include "load/base/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { S = 3, KEYS = 120 };

static void init_with_permits(void)
{
    fleet_init();
    fleet.config.load_permits = S;
    fleet.config.max_loads = 2 * S;
    fleet.config.permit_ms = 15000;
}

static long long permits_out(void)
{
    return redis_number("ZCARD", "sem:load", 'p');
}

/* For NAME:0, NAME:1, ..., dealt in turn to the first so many processes. */
static void ask_many(size_t processes, struct ask *asks, size_t count, const char *name)
{
    char key[32];
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%s:%zu", name, i);
        ask_start(i % processes, &asks[i], key);
    }
}

static void expect_rows(struct ask *asks, size_t count)
{
    char row[32];
    for (size_t i = 0; i < count; i++) {
        snprintf(row, sizeof row, "key:%zu v1", i);
        expect_answer(&asks[i], row);
    }
}

TEST(never_more_loads_at_a_time_than_permits, P48)
{
    static struct ask asks[KEYS];
    init_with_permits();
    fleet_open(2);
    source_shut(&fleet.source);
    ask_many(2, asks, KEYS, "key");
    WAIT_UNTIL(FLEET_SUM(lease_acquired) == KEYS);
    WAIT_UNTIL(atomic_load(&fleet.source.running) == S);
    assert_int_equal(permits_out(), S);
    assert_int_equal(FLEET_SUM(permits_held), S);
    assert_int_equal(FLEET_SUM(loads_queued), KEYS - S);
    WAIT_UNTIL(FLEET_SUM(permits_waiting) > 0);
    source_open(&fleet.source);
    expect_rows(asks, KEYS);
    assert_int_equal(fleet.source.begun, KEYS);
    assert_int_equal(fleet.source.most, S);
    assert_in_range(FLEET_SUM(permit_granted), KEYS / 8, KEYS - 1); /* one passes through up to 8 loads */
    assert_int_equal(FLEET_SUM(permit_lost) + FLEET_SUM(permit_spared), 0);
    WAIT_UNTIL(permits_out() == 0);
}

/* After some polls the next one is a quarter of a second away at least: what comes sooner was told. */
static bool is_told_in_time(unsigned round)
{
    enum { POLLS = 6, SOON_MS = 200 };
    struct ask running, waiting;
    char key[32];
    source_shut(&fleet.source);
    snprintf(key, sizeof key, "running:%u", round);
    ask_start(0, &running, key);
    WAIT_UNTIL(atomic_load(&fleet.source.running) == 1);
    uint64_t refused = stats_of(fleet.guards[1]).permit_refused;
    snprintf(key, sizeof key, "waiting:%u", round);
    ask_start(1, &waiting, key);
    WAIT_UNTIL(stats_of(fleet.guards[1]).permit_refused >= refused + POLLS);
    unsigned begun_so_far = atomic_load(&fleet.source.begun);
    uint64_t since_ms = rig_now_ms();
    source_open(&fleet.source);
    WAIT_UNTIL(atomic_load(&fleet.source.begun) > begun_so_far);
    bool in_time = rig_now_ms() - since_ms < SOON_MS;
    ask_wait(&waiting);
    ask_wait(&running);
    ask_clear(&waiting);
    ask_clear(&running);
    return in_time;
}

TEST(who_waits_is_told_and_does_not_have_to_poll)
{
    enum { ROUNDS = 20 }; /* one of them not held up by what else the machine does */
    unsigned round = 0;
    init_with_permits();
    fleet.config.load_permits = 1;
    fleet_open(2);
    while (round < ROUNDS && !is_told_in_time(round))
        round++;
    assert_true(round < ROUNDS);
}

/* The keys in the order in which their loads began. */
static struct {
    struct source *source;
    atomic_uint count, written;
    char keys[8][16];
} begun;

static void load_in_order(struct guard_load *load, void *context)
{
    (void)context;
    unsigned number = atomic_fetch_add(&begun.count, 1);
    assert_true(number < 8);
    snprintf(begun.keys[number], sizeof begun.keys[number], "%s", guard_load_key(load));
    atomic_fetch_add(&begun.written, 1);
    source_load(load, begun.source);
}

TEST(a_waiting_user_comes_before_a_refresh_of_another_process, P48)
{
    static struct ask running, user;
    init_with_permits();
    fleet.config.load_permits = 1;
    fleet.policy.fresh_ms = 1;
    fleet.policy.stale_ms = 60000;
    fleet.policy.loader = load_in_order;
    begun.source = &fleet.source;
    fleet_open(2);
    expect_row(0, "refreshed", "refreshed v1");
    WAIT_UNTIL(permits_out() == 0);
    source_shut(&fleet.source);
    ask_start(0, &running, "running");
    WAIT_UNTIL(atomic_load(&fleet.source.running) == 1);
    test_pause(); /* a millisecond, in which it gets stale */
    WAIT_UNTIL(expect_row(0, "refreshed", "refreshed v1").source == GUARD_FROM_STALE);
    WAIT_UNTIL(stats_of(fleet.guards[0]).permit_refused > 0);
    ask_start(1, &user, "user");
    WAIT_UNTIL(stats_of(fleet.guards[1]).permit_refused > 0);
    assert_int_equal(stats_of(fleet.guards[0]).loads_queued, 1);
    source_open(&fleet.source);
    ask_wait(&user);
    ask_wait(&running);
    WAIT_UNTIL(atomic_load(&begun.written) == 4);
    assert_string_equal(begun.keys[1], "running");
    assert_string_equal(begun.keys[2], "user"); /* who came later */
    assert_string_equal(begun.keys[3], "refreshed");
    assert_int_equal(fleet.source.most, 1);
    ask_clear(&user);
    ask_clear(&running);
}

/* A process that, once it may read from `go`, loads so many keys and never ends. */
static pid_t start_holder(int count, int go)
{
    char byte;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct guard *guard = NULL;
    struct guard_kind *kind = NULL;
    if (guard_open(&fleet.config, &guard, NULL) != GUARD_OK ||
        guard_kind_add(guard, &fleet.policy, &kind, NULL) != GUARD_OK)
        _exit(1);
    while (!is_up(guard))
        test_pause();
    if (read(go, &byte, 1) != 1)
        _exit(1);
    for (int i = 0; i < count; i++) {
        char key[16];
        static struct ask asks[S];
        snprintf(key, sizeof key, "held:%d", i);
        guard_get(
            guard,
            &(struct guard_request){.kind = kind, .key = key, .answered = ask_answered, .context = &asks[i]},
            NULL, NULL);
    }
    for (;;)
        pause();
}

static void kill_it(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(the_permits_of_a_killed_process_come_back_when_they_run_out, P48)
{
    enum { PERMIT_MS = 9000, MACHINE_MS = 6000 };
    _Static_assert(MACHINE_MS < PERMIT_MS, "nobody waits for a second time of theirs");
    static struct ask asks[S];
    init_with_permits();
    fleet.config.redis_limit_ms = PERMIT_MS / 3; /* who does not hear of Redis would load without a permit */
    fleet.config.permit_ms = PERMIT_MS;
    source_shut(&fleet.source);
    uint64_t begun_ms = rig_now_ms(); /* before they were granted */
    int go[2];
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    assert_int_equal(write(go[1], "", 1), 1);
    pid_t holder = start_holder(S, go[0]);
    WAIT_UNTIL(permits_out() == S);
    fleet_open(1);
    ask_many(1, asks, S, "key");
    WAIT_UNTIL(stats_of(fleet.guards[0]).permit_refused > 0);
    uint64_t killed_ms = rig_now_ms();
    kill_it(holder);
    WAIT_UNTIL(atomic_load(&fleet.source.running) == S);
    uint64_t free_ms = rig_now_ms();
    assert_true(free_ms - begun_ms >= PERMIT_MS);
    assert_true(free_ms - killed_ms < PERMIT_MS + MACHINE_MS);
    source_open(&fleet.source);
    expect_rows(asks, S);
    assert_int_equal(fleet.source.most, S);
    fleet_close();
    close(go[0]);
    close(go[1]);
}

static long long processes_waiting(void)
{
    return redis_number("ZCARD", "sem:load", 'q');
}

/* One process has the only permit, and a second one is next, before the third. The second is stopped, so that it does
 * not take the permit that it will be told of. The third waits until the second counts as dead, and one poll. */
TEST(a_permit_whose_next_process_is_stopped_goes_to_the_one_behind, P48)
{
    enum { PLACE_MS = 2000, POLL_MS = 750, MACHINE_MS = 6000 };
    static struct ask first, third;
    int go[2];
    init_with_permits();
    fleet.config.load_permits = 1;
    fleet.config.redis_limit_ms = 3000;
    source_shut(&fleet.source);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    pid_t next = start_holder(1, go[0]);
    fleet_open(2);
    ask_start(0, &first, "first");
    WAIT_UNTIL(atomic_load(&fleet.source.running) == 1);
    assert_int_equal(write(go[1], "", 1), 1);
    WAIT_UNTIL(processes_waiting() == 1);
    ask_start(1, &third, "third");
    WAIT_UNTIL(processes_waiting() == 2);
    assert_true(proc_pause(next));
    uint64_t since_ms = rig_now_ms();
    assert_int_equal(permits_out(), 1); /* whatever it has still sent, Redis has answered before this */
    source_open(&fleet.source);
    expect_answer(&first, "first v1");
    expect_answer(&third, "third v1");
    assert_true(rig_now_ms() - since_ms < PLACE_MS + POLL_MS + MACHINE_MS);
    assert_int_equal(fleet.source.most, 1);
    WAIT_UNTIL(permits_out() == 0 && processes_waiting() == 0);
    proc_resume(next); /* it asks once more, and loads */
    WAIT_UNTIL(redis_number("EXISTS", "held:0", 'v') == 1);
    WAIT_UNTIL(permits_out() == 0 && processes_waiting() == 0);
    kill_it(next);
    close(go[0]);
    close(go[1]);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
