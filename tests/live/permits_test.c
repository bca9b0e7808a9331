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

TEST(never_more_loads_at_a_time_than_permits)
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

/* The same without: as many as both have workers. */
TEST(without_permits_every_process_uses_all_of_its_workers)
{
    static struct ask asks[KEYS];
    init_with_permits();
    fleet.config.load_permits = 0;
    fleet_open(2);
    source_shut(&fleet.source);
    ask_many(2, asks, KEYS, "key");
    WAIT_UNTIL(atomic_load(&fleet.source.running) == 2 * fleet.config.max_loads);
    fleet_close();
    expect_rows(asks, KEYS);
}

/* How many loads had begun before that of "other". */
static struct {
    struct source *source;
    atomic_uint before;
} turn;

static void load_and_note_the_turn(struct guard_load *load, void *context)
{
    (void)context;
    if (strcmp(guard_load_key(load), "other") == 0)
        atomic_store(&turn.before, atomic_load(&turn.source->begun));
    source_load(load, turn.source);
}

/* One has more to load than it will ever get through; the other one's only load does not wait for the end of that. */
TEST(a_busy_process_does_not_keep_the_permits_from_another)
{
    static struct ask asks[KEYS];
    static struct ask other;
    init_with_permits();
    fleet.config.load_permits = 1;
    fleet.policy.loader = load_and_note_the_turn;
    turn.source = &fleet.source;
    fleet_open(2);
    source_shut(&fleet.source);
    ask_many(1, asks, KEYS, "key");
    WAIT_UNTIL(stats_of(fleet.guards[0]).loads_queued == KEYS - 1);
    ask_start(1, &other, "other");
    WAIT_UNTIL(stats_of(fleet.guards[1]).permit_refused > 0);
    source_open(&fleet.source);
    expect_answer(&other, "other v1");
    assert_in_range(atomic_load(&turn.before), 1, KEYS / 2);
    expect_rows(asks, KEYS);
    assert_int_equal(fleet.source.most, 1);
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

TEST(a_waiting_user_comes_before_a_refresh_of_another_process)
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

TEST(closing_gives_the_permits_back)
{
    static struct ask ask;
    init_with_permits();
    fleet_open(2);
    source_shut(&fleet.source);
    ask_start(0, &ask, "k");
    WAIT_UNTIL(permits_out() == 1);
    assert_int_equal(guard_close(&fleet.guards[0], 0), GUARD_OK);
    assert_int_equal(permits_out(), 0);
    ask_wait(&ask);
    assert_int_equal(ask.result.status, GUARD_CLOSING);
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

TEST(the_permits_of_a_killed_process_come_back_when_they_run_out)
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

static void stop_it(pid_t pid)
{
    assert_true(proc_pause(pid));
}

/* One process has the only permit, and a second one is next, before the third. The second is disabled, so that it does
 * not take the permit that it will be told of. The third waits until the second counts as dead, and one poll. */
static pid_t disable_the_next(void (*disable)(pid_t))
{
    enum { PLACE_MS = 2000, POLL_MS = 750, MACHINE_MS = 6000 };
    struct ask first, third;
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
    disable(next);
    uint64_t since_ms = rig_now_ms();
    assert_int_equal(permits_out(), 1); /* whatever it has still sent, Redis has answered before this */
    source_open(&fleet.source);
    expect_answer(&first, "first v1");
    expect_answer(&third, "third v1");
    assert_true(rig_now_ms() - since_ms < PLACE_MS + POLL_MS + MACHINE_MS);
    assert_int_equal(fleet.source.most, 1);
    WAIT_UNTIL(permits_out() == 0 && processes_waiting() == 0);
    close(go[0]);
    close(go[1]);
    return next;
}

TEST(a_permit_whose_next_process_is_killed_goes_to_the_one_behind)
{
    disable_the_next(kill_it);
}

TEST(a_permit_whose_next_process_is_stopped_goes_to_the_one_behind)
{
    pid_t stopped = disable_the_next(stop_it);
    proc_resume(stopped); /* it asks once more, and loads */
    WAIT_UNTIL(redis_number("EXISTS", "held:0", 'v') == 1);
    WAIT_UNTIL(permits_out() == 0 && processes_waiting() == 0);
    kill_it(stopped);
}

TEST(redis_killed_in_an_avalanche_and_back_empty_is_a_limit_again)
{
    static struct ask asks[KEYS];
    init_with_permits();
    fleet.config.redis_limit_ms = 3000; /* a machine that stands still for longer loads without permits */
    fleet.source.stubborn = true;       /* a load that lost its lease stays at the gate, and its permit out */
    fleet_open(2);
    source_shut(&fleet.source);
    ask_many(2, asks, KEYS, "key");
    WAIT_UNTIL(atomic_load(&fleet.source.running) == S);
    WAIT_UNTIL(FLEET_SUM(loads_queued) == KEYS - S);
    stack_redis_kill(&rig_redis);
    WAIT_UNTIL(atomic_load(&fleet.source.running) == 2 * fleet.config.max_loads); /* B each */
    assert_true(FLEET_SUM(permit_spared) > 0);
    assert_true(stack_redis_restart(&rig_redis));
    for (size_t i = 0; i < fleet.count; i++)
        WAIT_UNTIL(is_up(fleet.guards[i]));
    WAIT_UNTIL(permits_out() == S); /* those that are still out are counted again */
    WAIT_UNTIL(FLEET_SUM(permit_lost) == S);
    source_open(&fleet.source);
    for (size_t i = 0; i < KEYS; i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].result.status, GUARD_OK);
        ask_clear(&asks[i]);
    }
    assert_int_equal(fleet.source.most, 2 * fleet.config.max_loads);
    WAIT_UNTIL(permits_out() == 0);
    source_shut(&fleet.source);
    static struct ask later[KEYS];
    ask_many(2, later, KEYS, "later");
    WAIT_UNTIL(FLEET_SUM(loads_queued) == KEYS - S && atomic_load(&fleet.source.running) == S);
    fleet_close();
    for (size_t i = 0; i < KEYS; i++)
        ask_clear(&later[i]);
}

#define WITHOUT_SORTED_SETS                                                                                  \
    "-@all +get +set +del +pttl +pexpire +getrange +eval +evalsha +script|load +publish +subscribe +select " \
    "+auth +client|setname +role"
/* As guard/README.md has it. */
#define WITH_SORTED_SETS                                                                                     \
    "+time +zadd +zrem +zcard +zscore +zrank +zcount +zrange +zrangebyscore +zrevrangebyscore "              \
    "+zremrangebyscore"

static struct guard_stats load_as(const char *user, const char *commands)
{
    char url[RIG_URL_BYTES];
    init_with_permits();
    rig_permit(user, "on >PASSWORD ~csg1:* resetchannels &csg1:wake:*");
    rig_permit(user, commands);
    rig_url_of(user, 0, url);
    fleet.config.redis_url = url;
    fleet_open(1);
    expect_row(0, "k", "k v1");
    assert_true(is_cached("k"));
    struct guard_stats stats = stats_of(fleet.guards[0]);
    fleet_close();
    return stats;
}

TEST(a_login_that_may_not_use_the_scripts_loads_without)
{
    struct guard_stats without = load_as("old", WITHOUT_SORTED_SETS);
    assert_int_equal(without.permit_spared, 1);
    assert_int_equal(without.permit_granted, 0);
    struct guard_stats with = load_as("new", WITHOUT_SORTED_SETS " " WITH_SORTED_SETS);
    assert_int_equal(with.permit_spared, 0);
    assert_int_equal(with.permit_granted, 1);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
