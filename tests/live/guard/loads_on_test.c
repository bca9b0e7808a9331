/* SPDX-License-Identifier: MIT */
/*
 * loads_on_test.c - loaders on threads of the host's: on the loop of the request, with each kind of loop, and on the
 * thread that waits for the answer.
 */
#include "guard/run/defer.h"
#include "host_rig.h"

static struct {
    pthread_t thread; /* where the last loader began */
    atomic_uint begun;
    bool defers;
    struct guard_loop *loop;                 /* to defer to */
    void (*within)(struct guard_load *load); /* in the loader; NULL: nothing */
    _Atomic(struct guard_load *) deferred;   /* to be finished by the test */
    char asker[16];                          /* as the last loader saw it; "": none */
    atomic_uint threads_begun;               /* load threads */
    atomic_uint told;                        /* deferred loads, that they are cancelled */
} here;

static struct host host, second;

static void on_cancelled(void *context)
{
    (void)context;
    assert_true(pthread_equal(pthread_self(), host.thread));
    atomic_fetch_add(&here.told, 1);
}

static void load_here(struct guard_load *load, void *context)
{
    const char *asker = guard_load_asker(load);
    here.thread = pthread_self();
    snprintf(here.asker, sizeof here.asker, "%s", asker != NULL ? asker : "");
    atomic_fetch_add(&here.begun, 1);
    if (here.within != NULL)
        here.within(load);
    if (!here.defers) {
        source_row(context, load, atomic_load(&fleet.source.version));
        return;
    }
    assert_int_equal(guard_load_defer(load, here.loop, on_cancelled, NULL), GUARD_OK);
    atomic_store(&here.deferred, load);
}

static void finish_deferred(struct host *of, void *context)
{
    (void)of, (void)context;
    source_row(&fleet.source, atomic_exchange(&here.deferred, NULL), 1);
}

static void thread_begins(void *context)
{
    (void)context;
    atomic_fetch_add(&here.threads_begun, 1);
}

static bool before(void)
{
    fleet_init();
    memset(&here, 0, sizeof here);
    fleet.config.thread_begins = thread_begins;
    fleet.policy.loader = load_here;
    fleet.policy.loads_on = GUARD_ON_LOOP;
    fleet.policy.stale_ms = 60000;
    return true;
}

static void open_here(void)
{
    fleet_open(1);
    host_open(&host, 0);
}

/* A load that does not begin is given back soon, and has no other end. */
static void shorten_lease(void)
{
    fleet.config.redis_limit_ms = 100;
    fleet.policy.lease_ms = 300;
    fleet.policy.load_limit_ms = fleet.policy.max_hold_ms = 3 * RIG_LIMIT_MS;
}

/* Beside it a guard that loads on threads. */
static void open_with_other(void)
{
    shorten_lease();
    fleet_add();
    fleet.policy.loads_on = GUARD_ON_THREAD;
    fleet.policy.loader = source_load;
    fleet_open(2);
    host_open(&host, 0);
}

static void began_on_loop(unsigned count)
{
    WAIT_UNTIL(atomic_load(&here.begun) == count);
    assert_true(pthread_equal(here.thread, host.thread));
    assert_int_equal(atomic_load(&here.threads_begun), 0);
}

/* ---- on the loop ---- */

static void call_what_blocks(struct guard_load *load)
{
    const struct guard_request request = {.kind = fleet.kinds[0], .key = "other"};
    struct guard_result result;
    assert_int_equal(rig_blocking_refused(0), RIG_BLOCKING);
    assert_int_equal(guard_load_get(load, &request, &result), GUARD_INVALID);
    assert_non_null(strstr(result.wrong, "it blocks, and this is a callback"));
    assert_true(guard_load_cancel_fd(load) >= 0);
    assert_false(guard_load_cancelled(load));
}

TEST(a_loader_on_the_loop_runs_there_and_no_thread_is_made, P187)
{
    open_here();
    here.within = call_what_blocks;
    loop_expect(&host, "k", "k v1");
    began_on_loop(1);
    WAIT_UNTIL(is_cached("k"));
    host_close(&host);
}

TEST(it_may_defer_its_load_to_that_loop, P187)
{
    struct loop_ask asked;
    open_here();
    here.defers = true;
    here.loop = host.attached;
    loop_ask_start(&host, &asked, "k");
    WAIT_UNTIL(atomic_load(&here.deferred) != NULL);
    host_do(&host, finish_deferred, NULL);
    expect_answer(&asked.ask, "k v1");
    began_on_loop(1);
    host_close(&host);
}

TEST(what_a_deferred_one_needs_begins_on_the_loop_too, P187)
{
    struct loop_ask outer, inner = {.key = "inner"};
    fleet.config.max_loads = 1;
    open_here();
    here.defers = true;
    here.loop = host.attached;
    loop_ask_start(&host, &outer, "k");
    WAIT_UNTIL(atomic_load(&here.deferred) != NULL);
    here.defers = false;
    inner.more.within = atomic_load(&here.deferred);
    host_do(&host, loop_ask, &inner);
    expect_answer(&inner.ask, "inner v1");
    host_do(&host, finish_deferred, NULL);
    expect_answer(&outer.ask, "k v1");
    began_on_loop(2);
    host_close(&host);
}

static struct guard_refreshed refreshed;
static atomic_bool refresh_over;

static void on_refreshed(void *context, const struct guard_refreshed *result)
{
    (void)context;
    refreshed = *result;
    atomic_store(&refresh_over, true);
}

static void begin_refresh(struct guard_loop *loop)
{
    const char *const keys[] = {"k"};
    const struct guard_refresh_request request = {
        .kind = fleet.kinds[0], .keys = keys, .count = 1, .loop = loop, .done = on_refreshed};
    atomic_store(&refresh_over, false);
    atomic_fetch_add(&fleet.accepted[0], 2); /* a look, and what comes of it */
    atomic_fetch_add(&fleet.answered, 2);
    assert_int_equal(guard_refresh(fleet.guards[0], &request), GUARD_OK);
}

static void refresh_key(struct guard_loop *loop)
{
    begin_refresh(loop);
    WAIT_UNTIL(atomic_load(&refresh_over));
}

TEST(what_a_list_of_keys_loads_begins_on_the_loop_that_it_names, P187)
{
    struct guard_loop *name = NULL;
    open_here();
    name = host.attached;
    refresh_key(name);
    assert_int_equal(refreshed.loaded, 1);
    began_on_loop(1);
    age_value("k", 30000);
    host_close(&host);
    refresh_key(name);
    assert_int_equal(refreshed.shed, 1);
    assert_int_equal(atomic_load(&here.begun), 1);
}

static _Atomic(struct host *) leaving;

/* The linker leads the guard's calls here: the loop of a refresh goes when it has been chosen. */
bool __real_defer_start(struct desk *desk, const struct job *job);
bool __wrap_defer_start(struct desk *desk, const struct job *job);
bool __wrap_defer_start(struct desk *desk, const struct job *job)
{
    struct host *host_of_refresh = job->of_refresh ? atomic_exchange(&leaving, NULL) : NULL;
    if (host_of_refresh != NULL)
        host_do(host_of_refresh, detach, NULL);
    return __real_defer_start(desk, job);
}

/* The refresh queues behind a load that holds the one place, and is the oldest of its flight. */
static void join_a_refresh_whose_loop_goes(bool once_chosen)
{
    static struct loop_ask slow, user;
    fleet.config.max_loads = 1;
    open_here();
    host_open(&second, 0);
    here.defers = true;
    here.loop = second.attached;
    loop_ask_start(&second, &slow, "slow");
    WAIT_UNTIL(atomic_load(&here.deferred) != NULL);
    here.defers = false;
    begin_refresh(host.attached);
    WAIT_UNTIL(stats_of(fleet.guards[0]).loads_queued == 1);
    loop_ask_start(&second, &user, "k");
    WAIT_UNTIL(stats_of(fleet.guards[0]).waiters == 3);
    if (once_chosen)
        atomic_store(&leaving, &host);
    else
        host_do(&host, detach, NULL);
    finish_deferred(&second, NULL);
    expect_answer(&slow.ask, "slow v1");
    expect_answer(&user.ask, "k v1");
    WAIT_UNTIL(atomic_load(&refresh_over));
    assert_int_equal(refreshed.loaded, 1);
    assert_true(pthread_equal(here.thread, second.thread));
    WAIT_UNTIL(host.detached);
    host_end(&host);
    host_close(&second);
}

TEST(who_joins_a_refresh_whose_loop_goes_is_answered, P187)
{
    join_a_refresh_whose_loop_goes(false);
}

TEST(and_if_the_loop_goes_when_it_has_been_chosen, P187)
{
    join_a_refresh_whose_loop_goes(true);
}

/* ---- in the background ---- */

/* For this client. */
static struct loop_ask ask_for(const char *client, unsigned flags)
{
    return (struct loop_ask){
        .key = "k",
        .more = {
            .flags = flags, .asker = (char *)client, .asker_ref = ref_asker, .asker_unref = unref_asker}};
}

/* Without a lookup, which the loop would have to send. */
static void ask_and_let_queue(struct host *of, struct loop_ask *asked)
{
    loop_ask(of, asked);
    WAIT_UNTIL(stats_of(fleet.guards[0]).loads_running == 1);
}

static void detach_within(struct guard_load *load)
{
    (void)load;
    detach(&host, NULL);
}

/* Over a lookup of the loop's own, and over the guard's thread, which alone can revalidate. */
TEST(behind_a_stale_answer_it_begins_on_the_loop_and_has_the_asker_of_that_request, P145, P187)
{
    struct loop_ask asked = ask_for("client", 0);
    open_here();
    host_wait_up(&host, "k", "k v1");
    age_value("k", 30000);
    atomic_store(&fleet.source.version, 2);
    host_do(&host, loop_ask, &asked);
    ask_wait(&asked.ask);
    assert_int_equal(asked.ask.result.source, GUARD_FROM_STALE);
    expect_answer(&asked.ask, "k v1");
    began_on_loop(2);
    assert_string_equal(here.asker, "client");
    WAIT_UNTIL(atomic_load(&asker_refs) == 0);
    host_close(&host);
}

TEST(a_loop_may_be_detached_by_a_loader_that_runs_on_it, P187)
{
    struct loop_ask asked = ask_for("client", 0);
    open_here();
    host_wait_up(&host, "k", "k v1");
    age_value("k", 30000);
    here.within = detach_within;
    host_do(&host, loop_ask, &asked);
    expect_answer(&asked.ask, "k v1");
    began_on_loop(2);
    WAIT_UNTIL(host.detached);
    WAIT_UNTIL(atomic_load(&asker_refs) == 0);
    host_end(&host);
}

/* Behind a stale answer: no request of the loop waits for it. The guard has been told so before "other" is
 * answered. */
static void leave_deferred(const char *key)
{
    age_value(key, 30000);
    here.defers = true;
    here.loop = host.attached;
    loop_expect(&host, key, "k v1");
    WAIT_UNTIL(atomic_load(&here.deferred) != NULL);
    here.defers = false;
    loop_expect(&host, "other", "other v1");
}

static void deferred_is_told(void)
{
    WAIT_UNTIL(host.detached);
    assert_int_equal(atomic_load(&here.told), 1);
    finish_deferred(&host, NULL);
    host_end(&host);
}

TEST(what_is_deferred_is_told_when_a_loader_detaches_its_loop, P187)
{
    open_here();
    host_wait_up(&host, "k", "k v1");
    leave_deferred("k");
    age_value("other", 30000);
    here.within = detach_within;
    loop_expect(&host, "other", "other v1");
    deferred_is_told();
}

static void answered_detaches(void *context, const struct guard_result *result)
{
    (void)context, (void)result;
    detach(&host, NULL);
}

TEST(what_is_deferred_is_told_when_a_callback_detaches_its_loop, P187)
{
    struct loop_ask asked = {.key = "last", .more = {.answered = answered_detaches}};
    open_here();
    host_wait_up(&host, "k", "k v1");
    leave_deferred("k");
    host_do(&host, loop_ask, &asked);
    expect_answer(&asked.ask, "last v1");
    deferred_is_told();
}

/* ---- a loop that does not come to it ---- */

static struct ask other;

static void ask_and_block(struct host *of, void *context)
{
    ask_and_let_queue(of, context);
    ask_start(1, &other, "k");
    expect_answer(&other, "k v1");
}

TEST(the_lease_of_a_load_that_a_blocked_loop_does_not_begin_goes_to_another_process, P187)
{
    struct loop_ask asked = ask_for("client", GUARD_REVALIDATE);
    open_with_other();
    host_do(&host, ask_and_block, &asked);
    expect_answer(&asked.ask, "k v1");
    host_close(&host);
}

static struct loop_ask theirs;

static void block_until_another_loop_loads(struct host *of, void *context)
{
    theirs = ask_for("client 2", GUARD_REVALIDATE);
    ask_and_let_queue(of, context);
    host_do(&second, loop_ask, &theirs);
    ask_wait(&theirs.ask);
    assert_true(pthread_equal(here.thread, second.thread));
}

TEST(what_a_blocked_loop_does_not_begin_is_loaded_on_that_of_another_waiter, P187)
{
    struct loop_ask asked = ask_for("client 1", GUARD_REVALIDATE);
    shorten_lease();
    open_here();
    host_open(&second, 0);
    host_do(&host, block_until_another_loop_loads, &asked);
    expect_answer(&theirs.ask, "k v1");
    expect_answer(&asked.ask, "k v1");
    assert_string_equal(here.asker, "client 2");
    assert_int_equal(atomic_load(&here.begun), 1);
    host_close(&second);
    host_close(&host);
}

static void pass_it(struct guard_load *load)
{
    static const struct guard_keep passed = {.how = GUARD_PASS, .pass_ms = 60000};
    assert_int_equal(guard_load_keep(load, &passed), GUARD_OK);
}

TEST(what_is_passed_there_is_for_that_waiter_alone, P149, P187)
{
    struct loop_ask asked = ask_for("client 1", GUARD_REVALIDATE);
    shorten_lease();
    open_here();
    host_open(&second, 0);
    atomic_store(&fleet.source.of_asker, true);
    here.within = pass_it;
    host_do(&host, block_until_another_loop_loads, &asked);
    expect_answer(&theirs.ask, "client 2");
    expect_answer(&asked.ask, "client 1");
    assert_true(pthread_equal(here.thread, host.thread));
    host_close(&second);
    host_close(&host);
}

static void ask_and_detach(struct host *of, void *context)
{
    ask_and_let_queue(of, context);
    detach(of, NULL);
}

TEST(a_load_that_is_queued_to_a_loop_that_goes_is_for_others, P187)
{
    struct loop_ask asked = ask_for("client", GUARD_REVALIDATE);
    open_with_other();
    host_do(&host, ask_and_detach, &asked);
    ask_start(1, &other, "k");
    expect_answer(&other, "k v1");
    ask_wait(&asked.ask);
    assert_int_equal(asked.ask.result.status, GUARD_CLOSING);
    assert_int_equal(atomic_load(&here.begun), 0);
    WAIT_UNTIL(host.detached);
    host_end(&host);
}

/* ---- forgotten ---- */

static void forget(struct host *of, void *context)
{
    const struct loop_ask *asked = context;
    assert_int_equal(guard_forget(fleet.guards[0], of->attached, asked->ask.ticket), GUARD_OK);
    atomic_fetch_add(&fleet.answered, 1);
}

static struct loop_ask forgotten;

static void forget_within(struct guard_load *load)
{
    (void)load;
    forget(&host, &forgotten);
}

TEST(the_load_of_a_request_that_is_forgotten_goes_on, P180, P187)
{
    open_here();
    here.defers = true;
    loop_ask_start(&host, &forgotten, "k");
    WAIT_UNTIL(atomic_load(&here.deferred) != NULL);
    host_do(&host, forget, &forgotten);
    host_do(&host, finish_deferred, NULL);
    WAIT_UNTIL(is_cached("k"));
    here.defers = false;
    here.within = forget_within;
    loop_ask_start(&host, &forgotten, "other");
    WAIT_UNTIL(is_cached("other"));
    assert_int_equal(atomic_load(&forgotten.ask.answers), 0);
    began_on_loop(2);
    host_close(&host);
}

/* ---- on the thread that waits ---- */

static void open_callers(void)
{
    fleet.policy.loads_on = GUARD_ON_CALLER;
    fleet_open(1);
}

static void get_another(struct guard_load *load)
{
    const struct guard_request request = {.kind = fleet.kinds[0], .key = "inner"};
    struct guard_result result;
    here.within = NULL;
    assert_int_equal(guard_get_wait(fleet.guards[0], &request, &result), GUARD_INVALID);
    atomic_fetch_add(&fleet.accepted[0], 1);
    assert_int_equal(guard_load_get(load, &request, &result), GUARD_OK);
    atomic_fetch_add(&fleet.answered, 1);
    assert_row(&result, "inner v1");
    assert_true(pthread_equal(here.thread, pthread_self()));
    guard_value_unref(&result.value);
}

TEST(a_thread_that_waits_runs_the_load_that_it_starts_and_what_that_needs, P188)
{
    open_callers();
    here.within = get_another;
    assert_int_equal(expect_row(0, "k", "k v1").source, GUARD_FROM_LOAD);
    assert_true(pthread_equal(here.thread, pthread_self()));
    assert_int_equal(atomic_load(&here.begun), 2);
    assert_int_equal(atomic_load(&here.threads_begun), 0);
    assert_int_equal(expect_row(0, "k", "k v1").source, GUARD_FROM_CACHE);
}

TEST(a_request_that_does_not_wait_and_a_refresh_use_load_threads, P188)
{
    static struct ask ask;
    open_callers();
    ask_start(0, &ask, "k");
    expect_answer(&ask, "k v1");
    assert_int_equal(atomic_load(&here.threads_begun), 1);
    age_value("k", 30000);
    expect_row(0, "k", "k v1");
    WAIT_UNTIL(atomic_load(&here.begun) == 2 && stats_of(fleet.guards[0]).fill_stored == 2);
    assert_false(pthread_equal(here.thread, pthread_self()));
}

static void wait_for_cancel(struct guard_load *load)
{
    struct pollfd cancelled = {guard_load_cancel_fd(load), POLLIN, 0};
    while (poll(&cancelled, 1, -1) <= 0)
        ;
    assert_true(guard_load_cancelled(load));
    here.within = NULL;
    guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
}

static void load_or_fail(struct guard_load *load, void *context)
{
    atomic_fetch_add(&here.begun, 1);
    if (here.within != NULL)
        here.within(load);
    else
        source_row(context, load, 1);
}

static enum guard_status get_within(uint32_t deadline_ms)
{
    struct guard_result result;
    const struct guard_request request = {.kind = fleet.kinds[0], .key = "k", .deadline_ms = deadline_ms};
    atomic_fetch_add(&fleet.accepted[0], 1);
    enum guard_status status = guard_get_wait(fleet.guards[0], &request, &result);
    atomic_fetch_add(&fleet.answered, 1);
    guard_value_unref(&result.value);
    return status;
}

TEST(a_loader_on_the_waiting_thread_is_told_at_its_deadline_and_its_failure_is_nobodys, P188)
{
    fleet.policy.loader = load_or_fail;
    fleet.policy.failure_ms = 60000;
    open_callers();
    here.within = wait_for_cancel;
    assert_int_equal(get_within(200), GUARD_TIMEOUT);
    expect_row(0, "k", "k v1");
    assert_int_equal(stats_of(fleet.guards[0]).load_failed, 0);
}

/* The answer to "other" comes after the one at the soft limit. */
static void outlast_soft_limit(struct guard_load *load)
{
    static struct ask after;
    here.within = NULL;
    WAIT_UNTIL(stats_of(fleet.guards[0]).stale_soft == 1);
    ask_start(0, &after, "other");
    expect_answer(&after, "other v2");
    assert_false(guard_load_cancelled(load));
}

TEST(a_loader_on_the_waiting_thread_may_outlast_the_soft_limit, P188)
{
    fleet.policy.soft_ms = 1;
    open_callers();
    expect_row(0, "k", "k v1");
    age_value("k", 30000);
    atomic_store(&fleet.source.version, 2);
    here.within = outlast_soft_limit;
    assert_int_equal(expect_row(0, "k", "k v1").source, GUARD_FROM_STALE);
    WAIT_UNTIL(stats_of(fleet.guards[0]).fill_stored == 3);
    assert_int_equal(expect_row(0, "k", "k v2").source, GUARD_FROM_CACHE);
}

static void end_thread(struct guard_load *load)
{
    (void)load;
    pthread_exit(NULL);
}

static void *get_and_end(void *context)
{
    (void)context;
    get_within(0);
    return &host; /* never */
}

TEST(a_loader_that_ends_the_waiting_thread_fails_its_load, P188)
{
    pthread_t caller;
    void *returned = &host;
    fleet.config.log = guard_log_none;
    open_callers();
    here.within = end_thread;
    assert_int_equal(pthread_create(&caller, NULL, get_and_end, NULL), 0);
    assert_int_equal(pthread_join(caller, &returned), 0);
    assert_null(returned);
    atomic_fetch_add(&fleet.answered, 1);
    assert_int_equal(expect(0, "k", GUARD_FAILED).failure, GUARD_FAILURE_INTERNAL);
}

/* ---- refused ---- */

static char said[512];

static void hear(void *context, const char *text, bool good)
{
    (void)context, (void)good;
    if (strstr(text, "loads_on") != NULL)
        snprintf(said, sizeof said, "%s", text);
}

static void heard(const char *text)
{
    assert_non_null(strstr(said, text));
    said[0] = '\0';
}

TEST(a_kind_that_loads_on_the_loop_is_not_asked_without_one, P187)
{
    struct guard_request request = {.key = "k", .answered = now_unasked};
    struct guard_result result;
    struct guard_loop *loop = NULL;
    const char *const keys[] = {"k"};
    struct ask peek;
    fleet.config.log = hear;
    open_here();
    request.kind = fleet.kinds[0];
    assert_int_equal(guard_get(fleet.guards[0], &request, NULL, NULL), GUARD_INVALID);
    heard("guard_get: request->loop is NULL, but the kind's guard_policy.loads_on is GUARD_ON_LOOP");
    assert_int_equal(guard_get_wait(fleet.guards[0], &request, &result), GUARD_INVALID);
    assert_non_null(strstr(result.wrong, "guard_policy.loads_on is GUARD_ON_LOOP"));
    heard("guard_get_wait: ");
    const struct guard_refresh_request refresh = {
        .kind = fleet.kinds[0], .keys = keys, .count = 1, .loop = loop};
    assert_int_equal(guard_refresh(fleet.guards[0], &refresh), GUARD_INVALID);
    heard("guard_refresh: guard_refresh_request.loop is NULL");
    assert_int_equal(ask_try_as(0, &peek, "k", 0, GUARD_PEEK), GUARD_OK);
    ask_wait(&peek);
    assert_int_equal(peek.result.status, GUARD_MISS);
    host_close(&host);
}

TEST(a_refresh_does_not_look_at_the_loop_if_its_kind_loads_elsewhere, P187)
{
    fleet.policy.loads_on = GUARD_ON_THREAD;
    fleet_open(2);
    host_open(&second, 1);
    refresh_key(second.attached);
    assert_int_equal(refreshed.loaded, 1);
    assert_int_equal(atomic_load(&here.threads_begun), 1);
    host_close(&second);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = before, .end = fleet_close);

int main(int argc, char **argv)
{
    return loops_main(argc, argv);
}
