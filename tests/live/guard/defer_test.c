/* SPDX-License-Identifier: MIT */
/*
 * defer_test.c - whole guards whose loads are finished later: on loops and threads, with PostgreSQL on an epoll loop,
 * at their limits and at the end; and loads that are abandoned.
 */
#include "guard/adapters/epoll.h"
#include "guard/adapters/libuv.h"
#include "guard/example/queries.c"
#include "guard/run/state.h"
#include "guard_rig.h"

#include <malloc.h>
#include <semaphore.h>

enum { HANDLES = 1100 };

/* ---- a loader that defers; the test finishes ---- */

static struct {
    _Atomic(struct guard_load *) loads[HANDLES];
    struct guard_loop *loop; /* to defer to; NULL: any thread */
    void (*on_cancel)(void *context);
    atomic_uint count, called;
    atomic_uint threads_begun, threads_ended;
    pthread_t called_on;
} later;

static void note_call(void *context)
{
    (void)context;
    later.called_on = pthread_self();
    atomic_fetch_add(&later.called, 1);
}

static void load_later(struct guard_load *load, void *context)
{
    struct pollfd gate = {fleet.source.gate, POLLIN, 0};
    (void)context;
    while (poll(&gate, 1, -1) < 0)
        continue;
    assert_int_equal(guard_load_defer(load, later.loop, later.on_cancel, NULL), GUARD_OK);
    unsigned at = atomic_fetch_add(&later.count, 1);
    assert_true(at < HANDLES);
    atomic_store(&later.loads[at], load);
}

static void finish_later(unsigned at)
{
    struct guard_load *load = later.loads[at];
    char row[64];
    int bytes = snprintf(row, sizeof row, "%s v1", guard_load_key(load));
    guard_load_done(load, row, (size_t)bytes, NULL);
}

static bool later_before(void)
{
    fleet_init();
    memset(&later, 0, sizeof later);
    later.on_cancel = note_call;
    fleet.policy.loader = load_later;
    return true;
}

static void wait_deferred(unsigned count)
{
    WAIT_UNTIL(atomic_load(&later.count) == count && atomic_load(&later.loads[count - 1]) != NULL);
}

TEST(a_deferred_load_answers_and_is_stored_as_any_other)
{
    static struct ask ask, other;
    fleet_open(2);
    ask_start(0, &ask, "k");
    wait_deferred(1);
    ask_start(1, &other, "k");
    finish_later(0);
    expect_answer(&ask, "k v1");
    expect_answer(&other, "k v1");
    expect_row(1, "k", "k v1");
}

static void begins(void *context)
{
    (void)context;
    atomic_fetch_add(&later.threads_begun, 1);
}

static void ends(void *context)
{
    (void)context;
    atomic_fetch_add(&later.threads_ended, 1);
}

static size_t bytes_used(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* And what each costs beyond its request, which waits in any case. */
TEST(a_thousand_are_deferred_at_once_over_two_threads_for_two_kilobytes_each, P152)
{
    enum { MANY = 1000, MOST_BYTES = 2048 };
    static struct ask asks[MANY];
    char key[16];
    fleet.config.max_loads = MANY;
    fleet.config.load_threads = 2;
    fleet.config.thread_begins = begins;
    fleet.config.thread_ends = ends;
    fleet_open(1);
    source_shut(&fleet.source);
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "k%d", i);
        ask_start(0, &asks[i], key);
    }
    WAIT_UNTIL(stats_of(fleet.guards[0]).loads_queued == MANY - 2);
    size_t before = bytes_used();
    source_open(&fleet.source);
    wait_deferred(MANY);
    WAIT_UNTIL(stats_of(fleet.guards[0]).loads_running == MANY);
    size_t bytes = (bytes_used() - before) / MANY;
    if (bytes > MOST_BYTES) /* 0 with a sanitizer, whose malloc says nothing */
        fail_msg("%zu bytes for each deferred load", bytes);
    printf("    %zu bytes for each deferred load\n", bytes);
    for (unsigned i = 0; i < MANY; i++)
        finish_later(i);
    for (int i = 0; i < MANY; i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].result.status, GUARD_OK);
        ask_clear(&asks[i]);
    }
    fleet_close();
    assert_in_range(later.threads_begun, 1, 2);
    assert_int_equal(later.threads_begun, later.threads_ended);
}

/* ---- a guard's thread that is held up ---- */

static struct {
    sem_t begun, over;
} stay;

static void stay_if_invalidated(void *context, const struct guard_event *event)
{
    (void)context;
    if (event->what != GUARD_EVENT_INVALIDATED)
        return;
    sem_post(&stay.begun);
    while (sem_wait(&stay.over) != 0)
        continue;
}

static void open_one_to_hold_up(void)
{
    sem_init(&stay.begun, 0, 0);
    sem_init(&stay.over, 0, 0);
    fleet.config.event = stay_if_invalidated;
    fleet_open(1);
}

/* Until stay.over is posted. */
static void hold_up(void)
{
    assert_int_equal(guard_invalidate(fleet.guards[0], &(struct guard_change){.key = "other"}), GUARD_OK);
    while (sem_wait(&stay.begun) != 0)
        continue;
}

static void expect_stored_answer(struct ask *ask)
{
    ask_wait(ask);
    assert_row(&ask->result, "k v1");
    assert_true(ask->result.stored);
    ask_clear(ask);
}

TEST(one_finished_in_time_counts_if_the_guards_thread_hears_of_it_behind_the_limit, P152)
{
    enum { LIMIT_MS = 3000 }; /* it is finished by then */
    static struct ask ask;
    fleet.policy.load_limit_ms = LIMIT_MS;
    open_one_to_hold_up();
    ask_start(0, &ask, "k");
    wait_deferred(1);
    hold_up();
    uint64_t over_ms = rig_now_ms() + LIMIT_MS; /* the limit's end is not later */
    finish_later(0);
    WAIT_UNTIL(rig_now_ms() > over_ms);
    sem_post(&stay.over);
    expect_stored_answer(&ask);
}

static void *close_it(void *unused)
{
    assert_int_equal(guard_close(&fleet.guards[0], 20000), GUARD_OK);
    return unused;
}

TEST(one_finished_before_the_close_is_answered_and_stored, P152)
{
    static struct ask ask;
    pthread_t closer;
    open_one_to_hold_up();
    ask_start(0, &ask, "k");
    wait_deferred(1);
    hold_up();
    const struct guard *guard = fleet.guards[0];
    finish_later(0);
    assert_int_equal(pthread_create(&closer, NULL, close_it, NULL), 0);
    WAIT_UNTIL(atomic_load(&guard->refusing));
    sem_post(&stay.over);
    pthread_join(closer, NULL);
    expect_stored_answer(&ask);
}

/* ---- the end ---- */

TEST(closing_does_not_wait_for_what_is_deferred_and_a_handle_can_be_finished_afterwards, P152)
{
    static struct ask ask;
    const struct guard_request request = {.key = "other"};
    struct guard_result result;
    fleet_open(1);
    ask_start(0, &ask, "k");
    wait_deferred(1);
    WAIT_UNTIL(stats_of(fleet.guards[0]).loads_running == 1);
    uint64_t start_ms = rig_now_ms();
    assert_int_equal(guard_close(&fleet.guards[0], 20000), GUARD_OK);
    assert_true(rig_now_ms() - start_ms < 15000);
    ask_wait(&ask);
    assert_int_equal(ask.result.status, GUARD_CLOSING);
    assert_true(guard_load_cancelled(later.loads[0]));
    assert_string_equal(guard_load_key(later.loads[0]), "k");
    assert_int_equal(guard_load_get(later.loads[0], &request, &result), GUARD_INVALID);
    assert_int_equal(guard_load_defer(later.loads[0], NULL, NULL, NULL), GUARD_INVALID);
    finish_later(0);
}

/* ---- what a deferred load needs ---- */

static void ask_within(struct ask *ask, struct guard_load *load, const char *key)
{
    struct guard_request request = {
        .kind = fleet.kinds[0], .key = key, .within = load, .answered = ask_answered, .context = ask};
    memset(ask, 0, sizeof *ask);
    atomic_fetch_add(&fleet.accepted[0], 1);
    assert_int_equal(guard_get(fleet.guards[0], &request, NULL, NULL), GUARD_OK);
}

static struct ask needed;

/* The guard hears of a deferral when the loader has returned, which here it does not before its query has begun to
 * need another key. */
static void need_before_returning(struct guard_load *load, void *context)
{
    (void)context;
    if (strcmp(guard_load_key(load), "outer") != 0) {
        guard_load_done(load, "inner v1", 8, NULL);
        return;
    }
    assert_int_equal(guard_load_defer(load, NULL, NULL, NULL), GUARD_OK);
    ask_within(&needed, load, "inner");
    ask_wait(&needed);
    guard_load_done(load, "outer v1", 8, NULL);
}

TEST(a_deferred_load_may_need_a_key_before_its_loader_has_returned)
{
    static struct ask ask;
    fleet.policy.loader = need_before_returning;
    fleet_open(1);
    ask_start(0, &ask, "outer");
    expect_answer(&ask, "outer v1");
    expect_answer(&needed, "inner v1");
}

static atomic_int within_status;

static void ask_within_itself(struct guard_load *load, void *context)
{
    struct guard_request request = {
        .kind = fleet.kinds[0], .key = "other", .within = load, .answered = ask_answered};
    (void)context;
    atomic_store(&within_status, (int)guard_get(fleet.guards[0], &request, NULL, NULL));
    guard_load_absent(load);
}

TEST(within_a_load_that_is_not_deferred_is_refused)
{
    static struct ask ask;
    fleet.config.log = guard_log_none;
    fleet.policy.loader = ask_within_itself;
    fleet_open(1);
    ask_start(0, &ask, "k");
    WAIT_UNTIL(atomic_load(&within_status) != 0);
    assert_int_equal(within_status, GUARD_INVALID);
    ask_wait(&ask);
}

/* ---- loops ---- */

struct uv_host {
    uv_loop_t loop;
    struct guard_loop *guard_loop;
    bool detached;
};

static void uv_host_detached(void *context)
{
    ((struct uv_host *)context)->detached = true;
}

static void turn_until(struct uv_host *host, const atomic_uint *counter, unsigned value)
{
    WAIT_UNTIL((uv_run(&host->loop, UV_RUN_NOWAIT), atomic_load(counter) >= value));
}

static void uv_host_open(struct uv_host *host)
{
    memset(host, 0, sizeof *host);
    assert_int_equal(uv_loop_init(&host->loop), 0);
    assert_int_equal(guard_loop_attach(fleet.guards[0], &host->loop, &host->guard_loop, NULL), GUARD_OK);
    later.loop = host->guard_loop;
}

static void uv_host_close(struct uv_host *host)
{
    if (host->guard_loop != NULL)
        guard_loop_detach(&host->guard_loop, uv_host_detached, host);
    uv_run(&host->loop, UV_RUN_DEFAULT);
    assert_true(host->detached);
    assert_int_equal(uv_loop_close(&host->loop), 0);
}

TEST(on_a_loop_it_is_called_back_on_that_loops_thread_and_not_once_it_was_finished_there)
{
    struct uv_host host;
    static struct ask asks[2];
    fleet.policy.load_limit_ms = 1000;
    fleet.policy.failure_ms = 1;
    fleet_open(1);
    uv_host_open(&host);
    ask_start(0, &asks[0], "k");
    wait_deferred(1);
    turn_until(&host, &later.called, 1);
    assert_true(pthread_equal(later.called_on, pthread_self()));
    guard_load_fail(later.loads[0], GUARD_FAILURE_UNAVAILABLE);
    ask_wait(&asks[0]);
    ask_start(0, &asks[1], "j");
    wait_deferred(2);
    WAIT_UNTIL(guard_load_cancelled(later.loads[1]));
    guard_load_fail(later.loads[1], GUARD_FAILURE_UNAVAILABLE); /* before its call back has run */
    ask_wait(&asks[1]);
    uv_host_close(&host);
    assert_int_equal(later.called, 1);
}

static struct {
    sem_t begun;
    _Atomic(struct guard_loop *) loop; /* NULL: any thread */
    atomic_int status;                 /* of the deferral; -1: not yet */
} outliving;

static void load_to_its_loop(struct guard_load *load, void *context)
{
    struct guard_loop *loop = atomic_load(&outliving.loop); /* before it goes */
    if (loop == NULL) {
        load_later(load, context);
        return;
    }
    sem_post(&outliving.begun);
    struct pollfd gate = {fleet.source.gate, POLLIN, 0};
    while (poll(&gate, 1, -1) < 0)
        continue;
    int status = (int)guard_load_defer(load, loop, note_call, NULL);
    assert_true(guard_load_cancelled(load));
    guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE); /* says nothing about the source */
    atomic_store(&outliving.status, status);
}

TEST(a_loader_may_outlive_the_loop_that_it_defers_to, P162)
{
    static struct ask ask;
    struct uv_host host;
    sem_init(&outliving.begun, 0, 0);
    atomic_store(&outliving.status, -1);
    fleet.policy.loader = load_to_its_loop;
    fleet_open(1);
    uv_host_open(&host);
    atomic_store(&outliving.loop, host.guard_loop);
    later.loop = NULL;
    source_shut(&fleet.source);
    ask_start(0, &ask, "k");
    while (sem_wait(&outliving.begun) != 0)
        continue;
    uv_host_close(&host);
    atomic_store(&outliving.loop, NULL);
    source_open(&fleet.source);
    WAIT_UNTIL(atomic_load(&outliving.status) != -1);
    assert_int_equal(outliving.status, GUARD_CLOSING);
    wait_deferred(1); /* again, for the same request */
    finish_later(0);
    expect_answer(&ask, "k v1");
    assert_int_equal(later.called, 0);
}

TEST(a_loop_that_is_gone_can_still_be_named, P162)
{
    struct uv_host host;
    fleet.config.log = guard_log_none;
    fleet_open(1);
    uv_host_open(&host);
    struct guard_loop *gone = host.guard_loop, *copy = gone;
    const struct guard_request request = {
        .kind = fleet.kinds[0], .key = "k", .loop = gone, .answered = ask_answered};
    uv_host_close(&host);
    assert_int_equal(guard_get(fleet.guards[0], &request, NULL, NULL), GUARD_CLOSING);
    guard_cancel(fleet.guards[0], gone, 1);
    guard_loop_detach(&copy, uv_host_detached, NULL); /* refused: `detached` would write to NULL */
    assert_null(copy);
}

static atomic_uint blocking_refused;

static void wait_when_called(void *context)
{
    atomic_fetch_add(&blocking_refused, rig_blocking_refused(0));
    note_call(context);
}

static void wait_when_detached(void *context)
{
    atomic_fetch_add(&blocking_refused, rig_blocking_refused(0));
    uv_host_detached(context);
}

TEST(whatever_blocks_is_refused_in_the_callbacks_of_a_loop_as_well, P162)
{
    static struct ask ask, other;
    struct uv_host host;
    atomic_store(&blocking_refused, 0);
    fleet.config.log = guard_log_none;
    fleet.config.load_threads = 1;
    later.on_cancel = wait_when_called;
    fleet_open(1);
    uv_host_open(&host);
    ask_start(0, &ask, "k");
    wait_deferred(1);
    WAIT_UNTIL(stats_of(fleet.guards[0]).loads_running == 1);
    later.loop = NULL;
    ask_start(0, &other, "j"); /* on the same thread */
    wait_deferred(2);
    finish_later(1);
    expect_answer(&other, "j v1"); /* so the guard knows that the first one is deferred */
    guard_loop_detach(&host.guard_loop, wait_when_detached, &host);
    uv_run(&host.loop, UV_RUN_DEFAULT);
    assert_true(host.detached);
    assert_int_equal(uv_loop_close(&host.loop), 0);
    assert_int_equal(later.called, 1);
    assert_int_equal(blocking_refused, 2 * RIG_BLOCKING);
    guard_load_fail(later.loads[0], GUARD_FAILURE_UNAVAILABLE);
    wait_deferred(3);
    finish_later(2);
    expect_answer(&ask, "k v1");
}

/* ---- PostgreSQL on an epoll loop ---- */

struct epoll_host {
    int epoll;
    struct guard_epoll *ours;
    struct guard_loop *loop;
    struct queries queries;
    bool detached;
};

static void epoll_host_turn(struct epoll_host *host)
{
    struct epoll_event events[2];
    int count = epoll_wait(host->epoll, events, 2, guard_epoll_before_wait(host->ours, 10));
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == &host->queries)
            queries_ready(&host->queries);
        else
            guard_epoll_ready(host->ours);
    }
}

static void epoll_host_open(struct epoll_host *host, const char *url)
{
    memset(host, 0, sizeof *host);
    host->epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(guard_epoll_attach(fleet.guards[0], &host->ours, &host->loop, NULL), GUARD_OK);
    assert_true(queries_open(&host->queries, url, "SELECT 'row ' || $1::text WHERE $1::text <> 'none'", 4,
                             host->loop));
    struct epoll_event event = {EPOLLIN, {.ptr = host->ours}};
    epoll_ctl(host->epoll, EPOLL_CTL_ADD, host->ours->fd, &event);
    event.data.ptr = &host->queries;
    epoll_ctl(host->epoll, EPOLL_CTL_ADD, host->queries.fd, &event);
}

static void epoll_host_detached(void *context)
{
    ((struct epoll_host *)context)->detached = true;
}

static void epoll_host_close(struct epoll_host *host)
{
    guard_loop_detach(&host->loop, epoll_host_detached, host);
    WAIT_UNTIL((epoll_host_turn(host), host->detached));
    fleet_close();
    queries_close(&host->queries);
    close(host->epoll);
}

TEST(libpq_on_an_epoll_loop_answers_any_number_of_keys_with_one_load_thread, P152)
{
    enum { KEYS = 200 };
    struct stack_postgres postgres;
    static struct ask asks[KEYS];
    static struct epoll_host host;
    static char keys[KEYS][8];
    assert_true(stack_postgres_start(&postgres, 20));
    fleet.config.max_loads = KEYS;
    fleet.config.load_threads = 1;
    fleet.policy.loader = queries_load;
    fleet.policy.context = &host.queries;
    fleet_open(1);
    epoll_host_open(&host, postgres.url);
    const uint64_t threads = proc_status(getpid(), "Threads");
    for (int i = 0; i < KEYS; i++) {
        snprintf(keys[i], sizeof keys[i], i > 0 ? "k%d" : "none", i);
        struct guard_request request = {
            .kind = fleet.kinds[0], .key = keys[i], .loop = host.loop, .answered = ask_answered};
        request.context = &asks[i];
        memset(&asks[i], 0, sizeof asks[i]);
        atomic_fetch_add(&fleet.accepted[0], 1);
        assert_int_equal(guard_get(fleet.guards[0], &request, NULL, NULL), GUARD_OK);
    }
    WAIT_UNTIL((epoll_host_turn(&host), atomic_load(&fleet.answered) == KEYS));
    assert_in_range(proc_status(getpid(), "Threads"), threads, threads + 1);
    assert_int_equal(asks[0].result.status, GUARD_ABSENT);
    for (int i = 1; i < KEYS; i++) {
        char row[32];
        snprintf(row, sizeof row, "row k%d", i);
        assert_row(&asks[i].result, row);
        ask_clear(&asks[i]);
    }
    epoll_host_close(&host);
    stack_postgres_stop(&postgres);
}

/* ---- abandoned loads ---- */

static bool abandoning_before(void)
{
    fleet_init();
    fleet.policy.abandon = true;
    source_shut(&fleet.source);
    return true;
}

TEST_WITH(a_load_that_its_only_request_leaves_is_cancelled_and_the_next_one_is_not, abandoning_before, NULL,
          P153)
{
    static struct ask ask;
    fleet_open(2);
    ask_start(0, &ask, "k");
    WAIT_UNTIL(atomic_load(&fleet.source.begun) == 1);
    guard_cancel(fleet.guards[0], NULL, ask.ticket);
    ask_wait(&ask);
    WAIT_UNTIL(atomic_load(&fleet.source.saw_cancel) == 1);
    ask_start(1, &ask, "k"); /* in another process */
    WAIT_UNTIL(atomic_load(&fleet.source.begun) == 2);
    guard_cancel(fleet.guards[1], NULL, ask.ticket);
    ask_wait(&ask);
    source_open(&fleet.source);
    WAIT_UNTIL(FLEET_SUM(fill_stored) == 1);
    assert_int_equal(fleet.source.saw_cancel, 1);
    expect_row(0, "k", "k v1");
    fleet_close();
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = later_before, .end = fleet_close);
