/* SPDX-License-Identifier: MIT */
/*
 * workers_test.c - the threads that run loaders: one verdict per job, cancelling, ending.
 *
 * Loaders stand at a gate; what the workers report is collected under a mutex and waited for.
 */
#include "guard/base/clock.h"
#include "guard/run/workers.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { WAIT_S = 20, MOST = 64 };

static struct bench {
    struct desk *desk;
    struct workers *workers;
    struct guard_policy policy;
    const char *previous_validator; /* of the next job; NULL: none */
    uint64_t batch;                 /* of the next job */
    int gate;                       /* an eventfd; readable: open */
    atomic_uint begun, over, cancelled, wrong;
    atomic_uint threads_begun, threads_ended;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct finished_load *finished[MOST]; /* ours */
    size_t count;
    char refused[256];
} bench;

static void on_done(void *context, struct finished_load *finished)
{
    (void)context;
    pthread_mutex_lock(&bench.mutex);
    for (; finished != NULL; finished = finished->next) {
        assert_true(bench.count < MOST);
        bench.finished[bench.count++] = finished;
    }
    pthread_cond_signal(&bench.changed);
    pthread_mutex_unlock(&bench.mutex);
}

/* What was refused last. */
static void on_refused(void *context, const char *function, const char *wrong)
{
    (void)context;
    pthread_mutex_lock(&bench.mutex);
    snprintf(bench.refused, sizeof bench.refused, "%s: %s", function, wrong);
    pthread_mutex_unlock(&bench.mutex);
}

static void wait_finished(uint64_t count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&bench.mutex);
    int waited = 0;
    while (bench.count < count && waited == 0)
        waited = pthread_cond_timedwait(&bench.changed, &bench.mutex, &until);
    pthread_mutex_unlock(&bench.mutex);
    assert_int_equal(waited, 0);
}

static void wait_for(const atomic_uint *counter, unsigned value)
{
    for (int i = 0; i < WAIT_S * 1000 && atomic_load(counter) < value; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(atomic_load(counter), value);
}

static void thread_begins(void *context)
{
    (void)context;
    atomic_fetch_add(&bench.threads_begun, 1);
}

static void thread_ends(void *context)
{
    (void)context;
    atomic_fetch_add(&bench.threads_ended, 1);
}

static void bench_open(uint32_t count, guard_loader *loader)
{
    memset(&bench, 0, sizeof bench);
    bench.policy = (struct guard_policy)GUARD_POLICY_DEFAULTS;
    bench.policy.loader = loader;
    bench.policy.context = NULL;
    bench.gate = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&bench.mutex, NULL);
    pthread_cond_init(&bench.changed, NULL);
    bench.desk = desk_open(on_done, on_refused, NULL);
    bench.workers = workers_open(&(struct workers_config){.count = count,
                                                          .desk = bench.desk,
                                                          .thread_begins = thread_begins,
                                                          .thread_ends = thread_ends,
                                                          .thread_context = NULL});
    assert_non_null(bench.workers);
}

static void bench_start_until(uint64_t load, const char *key, uint64_t deadline_us)
{
    const char *validator = bench.previous_validator;
    struct value *previous = validator != NULL ? value_new("", 0, validator, strlen(validator), "", 0) : NULL;
    const struct core_action action = {
        .kind = CORE_LOAD,
        .load = load,
        .key = {.plain = key, .plain_bytes = strlen(key)},
        .policy = &bench.policy,
        .deadline_us = deadline_us,
        .previous = previous,
        .batch = bench.batch,
    };
    assert_true(workers_start(bench.workers, &(struct job){.action = &action}));
    value_unref(&previous);
}

static void bench_start(uint64_t load, const char *key)
{
    bench_start_until(load, key, clock_now_us() + 5000000);
}

static void bench_clear(void)
{
    for (size_t i = 0; i < bench.count; i++)
        finished_load_free(bench.finished[i]);
    close(bench.gate);
    pthread_cond_destroy(&bench.changed);
    pthread_mutex_destroy(&bench.mutex);
}

/* The end of each test; one that looks at what is left calls it before. */
static void bench_close(void)
{
    if (bench.workers == NULL)
        return;
    assert_true(workers_close(&bench.workers, true));
    assert_null(bench.workers);
    assert_int_equal(bench.threads_begun, bench.threads_ended);
    desk_close(bench.desk);
    bench_clear();
    desk_unref(bench.desk);
}

/* Job n is the n-th that is finished. */
static void bench_run(uint64_t load, const char *key)
{
    bench_start(load, key);
    wait_finished(load);
}

static const struct core_loaded *verdict_of(uint64_t load)
{
    for (size_t i = 0; i < bench.count; i++)
        if (bench.finished[i]->load == load)
            return &bench.finished[i]->loaded;
    fail_msg("load %llu was never reported", (unsigned long long)load);
    return NULL;
}

/* ---- loaders ---- */

static void load_at_the_gate(struct guard_load *load, void *context)
{
    (void)context;
    struct pollfd fds[] = {{bench.gate, POLLIN, 0}, {guard_load_cancel_fd(load), POLLIN, 0}};
    atomic_fetch_add(&bench.begun, 1);
    while (poll(fds, 2, -1) < 0)
        ;
    if (fds[1].revents != 0) {
        assert_true(guard_load_cancelled(load));
        atomic_fetch_add(&bench.cancelled, 1);
        guard_load_fail(load, GUARD_FAILURE_TIMEOUT);
    } else {
        guard_load_done(load, guard_load_key(load), strlen(guard_load_key(load)), "v");
    }
    atomic_fetch_add(&bench.over, 1);
}

static void load_stubbornly(struct guard_load *load, void *context)
{
    (void)context;
    struct pollfd gate = {bench.gate, POLLIN, 0};
    atomic_fetch_add(&bench.begun, 1);
    while (poll(&gate, 1, -1) < 0)
        ;
    guard_load_absent(load);
    atomic_fetch_add(&bench.over, 1);
}

/* What to do wrong stands in the key. */
static void load_wrongly(struct guard_load *load, void *context)
{
    const char *key = guard_load_key(load);
    (void)context;
    errno = 0;
    if (strcmp(key, "exits") == 0)
        pthread_exit(NULL);
    if (strcmp(key, "exits after its verdict") == 0) {
        guard_load_absent(load);
        pthread_exit(NULL);
    }
    if (strcmp(key, "validator") == 0)
        guard_load_done(load, "x", 1, "new\nline");
    if (strcmp(key, "failure") == 0)
        guard_load_fail(load, (enum guard_failure)77);
    if (strcmp(key, "twice") == 0) {
        guard_load_absent(load);
        guard_load_done(load, "x", 1, NULL);
        guard_load_fail(load, GUARD_FAILURE_REJECTED);
    }
}

/* Compares with "7". */
static void load_if_changed(struct guard_load *load, void *context)
{
    const char *previous = guard_load_previous_validator(load);
    (void)context;
    if (previous == NULL || strcmp(previous, "7") == 0)
        guard_load_unchanged(load);
    else
        guard_load_done(load, "x", 1, "7");
}

/* ---- the tests ---- */

TEST(a_job_is_run_with_its_key_and_reported_once)
{
    bench_open(2, load_at_the_gate);
    eventfd_write(bench.gate, 1);
    bench_start(11, "a");
    bench_start(12, "");
    wait_finished(2);
    assert_int_equal(verdict_of(11)->outcome, LOAD_OK);
    assert_string_equal(verdict_of(11)->value->public.body, "a");
    assert_string_equal(verdict_of(11)->value->public.validator, "v");
    assert_string_equal(verdict_of(12)->value->public.body, "");
}

TEST(no_more_jobs_run_at_a_time_than_there_are_workers)
{
    bench_open(3, load_at_the_gate);
    for (uint64_t i = 1; i <= 10; i++)
        bench_start(i, "k");
    wait_for(&bench.begun, 3);
    eventfd_write(bench.gate, 1);
    wait_finished(10);
    bench_close();
    assert_int_equal(bench.over, 10);
}

TEST(a_cancelled_loader_sees_it_on_its_descriptor_and_the_next_job_does_not)
{
    bench_open(1, load_at_the_gate);
    for (uint64_t i = 1; i <= 3; i++) {
        bench_start(i, "k");
        wait_for(&bench.begun, (unsigned)i);
        load_cancel(bench.desk, 999);
        load_cancel(bench.desk, i);
        load_cancel(bench.desk, i);
        wait_finished(i);
        assert_int_equal(verdict_of(i)->failure, GUARD_FAILURE_TIMEOUT);
    }
    eventfd_write(bench.gate, 1);
    bench_run(4, "k");
    assert_int_equal(verdict_of(4)->outcome, LOAD_OK);
    assert_int_equal(bench.cancelled, 3);
}

TEST(a_job_cancelled_before_a_worker_takes_it_is_told_when_it_begins)
{
    bench_open(1, load_at_the_gate);
    bench_start(1, "first");
    wait_for(&bench.begun, 1);
    bench_start(2, "second");
    load_cancel(bench.desk, 2);
    load_cancel(bench.desk, 1);
    wait_finished(2);
    assert_int_equal(bench.cancelled, 2);
}

/* Until the gate opens or nobody wants any of it; the last one is left unfinished. */
static void batch_at_the_gate(struct guard_load *const *loads, size_t count, void *context)
{
    (void)context;
    struct pollfd fds[] = {{bench.gate, POLLIN, 0}, {guard_load_cancel_fd(loads[0]), POLLIN, 0}};
    atomic_fetch_add(&bench.begun, (unsigned)count);
    while (poll(fds, 2, -1) <= 0)
        continue;
    for (size_t i = 0; i < count; i++) {
        bool right = guard_load_cancel_fd(loads[i]) == guard_load_cancel_fd(loads[0]) &&
                     guard_load_left_ms(loads[i]) <= 1000; /* the earliest limit of all */
        atomic_fetch_add(&bench.wrong, !right);
        atomic_fetch_add(&bench.cancelled, guard_load_cancelled(loads[i]));
        if (i + 1 < count)
            guard_load_done(loads[i], guard_load_key(loads[i]), strlen(guard_load_key(loads[i])), NULL);
    }
    atomic_fetch_add(&bench.over, (fds[1].revents & POLLIN) != 0);
}

/* Jobs 1 to 3; `over` counts descriptors that spoke. */
static void start_batch(void)
{
    bench.policy.batch_loader = batch_at_the_gate;
    bench.batch = 7;
    bench_start(1, "one");
    bench_start_until(2, "two", clock_now_us() + 1000000);
    bench_start(3, "three");
    assert_int_equal(bench.begun, 0); /* it may not be complete yet */
    workers_commit(bench.workers);
    wait_for(&bench.begun, 3);
}

TEST(a_batch_is_one_call_and_a_verdict_for_each)
{
    bench_open(1, load_at_the_gate);
    start_batch();
    load_cancel(bench.desk, 2);
    eventfd_write(bench.gate, 1);
    wait_finished(3);
    assert_int_equal(bench.cancelled, 1);
    assert_int_equal(bench.wrong, 0);
    assert_int_equal(bench.over, 0); /* one key that is not wanted ends nothing */
    assert_string_equal(verdict_of(1)->value->public.body, "one");
    assert_string_equal(verdict_of(2)->value->public.body, "two");
    assert_int_equal(verdict_of(3)->failure, GUARD_FAILURE_INTERNAL);
}

TEST(a_batch_that_nobody_wants_is_told_so)
{
    bench_open(1, load_at_the_gate);
    start_batch();
    for (uint64_t load = 1; load <= 3; load++)
        load_cancel(bench.desk, load);
    wait_finished(3);
    assert_int_equal(bench.cancelled, 3);
    assert_int_equal(bench.over, 1);
}

TEST(batches_do_not_mix_and_one_of_one_is_a_load)
{
    bench_open(1, load_at_the_gate);
    eventfd_write(bench.gate, 1);
    for (uint64_t load = 1; load <= 3; load++) {
        bench.batch = load;
        bench_start(load, "k");
    }
    workers_commit(bench.workers);
    wait_finished(3);
    assert_int_equal(bench.begun, 3);
}

TEST(a_broken_contract_is_an_internal_failure_and_costs_no_worker, P17)
{
    static const char *const WRONG[] = {"exits", "validator", "failure", "nothing"};
    uint64_t id = 0;
    bench_open(1, load_wrongly);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
            bench_run(++id, WRONG[i]);
            assert_int_equal(verdict_of(id)->outcome, LOAD_FAILED);
            assert_int_equal(verdict_of(id)->failure, GUARD_FAILURE_INTERNAL);
        }
    bench_run(++id, "twice");
    assert_int_equal(verdict_of(id)->outcome, LOAD_ABSENT);
    bench_run(++id, "exits after its verdict");
    assert_int_equal(verdict_of(id)->outcome, LOAD_ABSENT);
}

static void look_at_the_time(struct guard_load *load, void *context)
{
    (void)context;
    uint32_t left_ms = guard_load_left_ms(load);
    atomic_store(&bench.over, left_ms);
    guard_load_absent(load);
}

TEST(what_is_left_follows_the_deadline_and_ends_at_zero)
{
    bench_open(1, look_at_the_time);
    bench_run(1, "k");
    assert_in_range(bench.over, 1, 5000);
    bench_start_until(2, "k", clock_now_us() - 1);
    wait_finished(2);
    assert_int_equal(bench.over, 0);
}

TEST(a_load_is_unchanged_only_if_there_was_something_to_compare_with)
{
    bench_open(1, load_if_changed);
    bench_start(1, "k");
    bench.previous_validator = "7";
    bench_start(2, "k");
    bench.previous_validator = "";
    bench_run(3, "k");
    assert_int_equal(verdict_of(1)->outcome, LOAD_FAILED);
    assert_int_equal(verdict_of(1)->failure, GUARD_FAILURE_INTERNAL);
    assert_int_equal(verdict_of(2)->outcome, LOAD_UNCHANGED);
    assert_null(verdict_of(2)->value);
    assert_int_equal(verdict_of(3)->outcome, LOAD_OK);
}

TEST(closing_waits_for_idle_workers_however_slow_they_are)
{
    for (int i = 0; i < 50; i++) {
        bench_open(8, load_at_the_gate);
        eventfd_write(bench.gate, 1);
        for (uint64_t load = 1; load <= 8; load++)
            bench_start(load, "k");
        wait_finished(8);
        bench_close();
    }
}

/* ---- deferred loads ---- */

/* Handles that loaders have deferred; the test finishes them. */
static struct {
    struct guard_load *loads[MOST];
    atomic_uint count;
    atomic_uint called; /* back */
    void (*on_cancel)(void *context);
    int fd_before, fd_after;
    int other_fd;
} later;

static void called_back(void *context)
{
    (void)context;
    atomic_fetch_add(&later.called, 1);
}

static void put_off(struct guard_load *load)
{
    unsigned at = atomic_load(&later.count);
    assert_true(at < MOST);
    assert_int_equal(guard_load_defer(load, NULL, later.on_cancel, NULL), GUARD_OK);
    later.loads[at] = load;
    atomic_store(&later.count, at + 1);
}

static void load_later(struct guard_load *load, void *context)
{
    (void)context;
    put_off(load);
}

static void bench_open_later(uint32_t count, guard_loader *loader)
{
    memset(&later, 0, sizeof later);
    later.on_cancel = called_back;
    bench_open(count, loader);
}

static const struct finished_load *report_of(size_t at, uint64_t load, bool deferred)
{
    const struct finished_load *report = bench.finished[at];
    assert_int_equal(report->load, load);
    assert_int_equal(report->deferred, deferred);
    return report;
}

/* The whole of a load that is deferred. */
static void defer_one(uint64_t load)
{
    size_t before = bench.count;
    bench_start(load, "k");
    wait_finished(before + 1);
    report_of(before, load, true);
    load_told(bench.desk, load);
}

TEST(a_deferred_load_is_told_first_and_finished_on_any_thread_later)
{
    bench_open_later(1, load_later);
    defer_one(1);
    defer_one(2); /* on the same thread, which is free */
    guard_load_done(later.loads[1], "two", 3, "v");
    wait_finished(3);
    guard_load_absent(later.loads[0]);
    wait_finished(4);
    assert_string_equal(report_of(2, 2, false)->loaded.value->public.body, "two");
    assert_int_equal(report_of(3, 1, false)->loaded.outcome, LOAD_ABSENT);
}

static void load_later_at_the_gate(struct guard_load *load, void *context)
{
    (void)context;
    struct pollfd gate = {bench.gate, POLLIN, 0};
    put_off(load);
    while (poll(&gate, 1, -1) < 0)
        ;
}

TEST(one_that_is_finished_before_its_loader_has_returned_is_told_once_and_the_first_verdict_stands)
{
    bench_open_later(1, load_later_at_the_gate);
    bench_start(1, "k");
    wait_for(&later.count, 1);
    guard_load_done(later.loads[0], "first", 5, NULL);
    guard_load_fail(later.loads[0], GUARD_FAILURE_REJECTED);
    load_cancel(bench.desk, 1);
    assert_int_equal(bench.count, 0);
    eventfd_write(bench.gate, 1);
    wait_finished(1);
    const struct finished_load *report = report_of(0, 1, false);
    assert_string_equal(report->loaded.value->public.body, "first");
    assert_non_null(strstr(report->breach, "a second time"));
    bench_close();
    assert_int_equal(later.called, 0);
}

/* As fast as it can, on another thread than the loader's. */
static void *finish_all(void *context)
{
    const unsigned *count = context;
    for (unsigned i = 0; i < *count; i++) {
        while (atomic_load(&later.count) <= i)
            sched_yield();
        guard_load_absent(later.loads[i]);
    }
    return NULL;
}

TEST(whoever_is_first_the_loader_or_the_verdict_each_is_told_once_and_in_order)
{
    unsigned count = MOST / 2;
    pthread_t thread;
    bench_open_later(1, load_later);
    assert_int_equal(pthread_create(&thread, NULL, finish_all, &count), 0);
    for (uint64_t load = 1; load <= count; load++)
        bench_start(load, "k");
    pthread_join(thread, NULL);
    wait_for(&later.count, count);
    bool deferred[MOST] = {false}, over[MOST] = {false};
    for (unsigned waited = 0, done = 0; done < count; waited++) {
        wait_finished(waited + 1);
        const struct finished_load *report = bench.finished[waited];
        assert_false(over[report->load]);
        assert_false(report->deferred && deferred[report->load]);
        deferred[report->load] = deferred[report->load] || report->deferred;
        over[report->load] = !report->deferred;
        done += !report->deferred;
    }
}

TEST(it_is_called_back_once_when_the_guard_knows_of_it_and_not_after_its_end)
{
    bench_open_later(1, load_later_at_the_gate);
    bench_start(1, "k");
    wait_for(&later.count, 1);
    load_cancel(bench.desk, 1);
    assert_true(guard_load_cancelled(later.loads[0]));
    assert_int_equal(later.called, 0); /* its loader has not returned */
    eventfd_write(bench.gate, 1);
    wait_finished(1);
    load_told(bench.desk, 1);
    assert_int_equal(later.called, 1);
    load_cancel(bench.desk, 1);
    assert_int_equal(later.called, 1);
    defer_one(2);
    guard_load_absent(later.loads[1]);
    load_cancel(bench.desk, 2);
    assert_int_equal(later.called, 1);
    guard_load_absent(later.loads[0]);
}

static bool is_readable(int fd)
{
    struct pollfd poll_fd = {fd, POLLIN, 0};
    return poll(&poll_fd, 1, 0) == 1;
}

static void load_later_with_descriptor(struct guard_load *load, void *context)
{
    (void)context;
    later.fd_before = guard_load_cancel_fd(load);
    put_off(load);
    later.fd_after = guard_load_cancel_fd(load);
}

static void look_at_descriptor(struct guard_load *load, void *context)
{
    (void)context;
    later.other_fd = guard_load_cancel_fd(load);
    guard_load_absent(load);
}

TEST(a_descriptor_that_was_asked_for_before_stays_and_the_thread_gets_another_one)
{
    bench_open_later(1, load_later_with_descriptor);
    defer_one(1);
    assert_int_equal(later.fd_before, later.fd_after);
    bench.policy.loader = look_at_descriptor;
    bench_run(2, "k");
    assert_int_not_equal(later.other_fd, later.fd_before);
    assert_false(is_readable(later.fd_before));
    load_cancel(bench.desk, 1);
    assert_true(is_readable(later.fd_before));
    guard_load_fail(later.loads[0], GUARD_FAILURE_UNAVAILABLE);
}

static unsigned descriptors_open(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST(deferred_loads_have_no_descriptor_until_they_ask_for_one)
{
    bench_open_later(1, load_later);
    unsigned before = descriptors_open();
    for (uint64_t load = 1; load <= 20; load++)
        defer_one(load);
    assert_int_equal(descriptors_open(), before);
    load_cancel(bench.desk, 3);
    assert_true(is_readable(guard_load_cancel_fd(later.loads[2]))); /* cancelled before it asked */
    assert_int_equal(descriptors_open(), before + 1);
    for (unsigned i = 0; i < 20; i++)
        guard_load_absent(later.loads[i]);
}

/* The first finishes at once, the second asks for its descriptor and is deferred, the third is deferred. */
static void batch_later(struct guard_load *const *loads, size_t count, void *context)
{
    (void)context;
    assert_int_equal(count, 3);
    later.fd_before = guard_load_cancel_fd(loads[0]);
    guard_load_absent(loads[0]);
    put_off(loads[1]);
    put_off(loads[2]);
}

TEST(in_a_batch_each_key_is_deferred_or_finished_by_itself)
{
    bench_open_later(1, load_later);
    bench.policy.batch_loader = batch_later;
    bench.batch = 7;
    for (uint64_t load = 1; load <= 3; load++)
        bench_start(load, "k");
    workers_commit(bench.workers);
    wait_finished(3);
    report_of(0, 1, false); /* what is over comes first */
    report_of(1, 2, true);
    report_of(2, 3, true);
    int own = guard_load_cancel_fd(later.loads[0]);
    assert_int_not_equal(own, later.fd_before);
    load_cancel(bench.desk, 2);
    assert_true(is_readable(own));
    assert_false(is_readable(later.fd_before)); /* one of the batch is still wanted */
    load_cancel(bench.desk, 3);
    assert_true(is_readable(later.fd_before));
    guard_load_absent(later.loads[1]);
    guard_load_absent(later.loads[0]);
    wait_finished(5);
}

static void defer_wrongly(struct guard_load *load, void *context)
{
    (void)context;
    put_off(load);
    atomic_fetch_add(&bench.wrong, guard_load_tag(load, "t") == GUARD_INVALID);
}

TEST(a_breach_after_deferring_fails_the_load_when_it_is_finished_and_not_before)
{
    bench_open_later(1, defer_wrongly);
    defer_one(1);
    assert_int_equal(bench.wrong, 1);
    assert_int_equal(bench.count, 1);
    guard_load_done(later.loads[0], "x", 1, NULL);
    wait_finished(2);
    const struct finished_load *report = report_of(1, 1, false);
    assert_int_equal(report->loaded.failure, GUARD_FAILURE_INTERNAL);
    assert_null(report->loaded.value);
}

TEST(a_handle_outlives_its_guard_and_can_be_used_until_it_is_finished)
{
    bench_open_later(1, load_later_with_descriptor);
    defer_one(1);
    defer_one(2);
    load_cancel(bench.desk, 1);
    bench_close();
    assert_string_equal(guard_load_key(later.loads[0]), "k");
    assert_true(guard_load_cancelled(later.loads[0]));
    assert_true(is_readable(guard_load_cancel_fd(later.loads[0])));
    guard_load_done(later.loads[1], "nobody hears", 12, NULL);
    guard_load_fail(later.loads[0], GUARD_FAILURE_UNAVAILABLE);
}

/* ---- verdicts that come at any time, and again ---- */

/* Where the answer of a loader's query comes from: as fast as it can, on a thread of its own. */
static struct {
    _Atomic(struct guard_load *) asked; /* NULL: not asked, or answered */
    atomic_bool over;
    atomic_uint right, deferred;
} query;

static void *answer_queries(void *unused)
{
    while (!atomic_load(&query.over)) {
        struct guard_load *load = atomic_exchange(&query.asked, NULL);
        if (load != NULL)
            atomic_fetch_add(&query.right, guard_load_done(load, "row", 3, NULL) == GUARD_OK);
    }
    return unused;
}

static void ask_and_defer(struct guard_load *load, void *context)
{
    (void)context;
    atomic_store(&query.asked, load);
    atomic_fetch_add(&query.deferred, guard_load_defer(load, NULL, called_back, NULL) == GUARD_OK);
}

/* Answered before it is deferred. */
static void ask_wait_and_defer(struct guard_load *load, void *context)
{
    unsigned before = atomic_load(&query.right);
    (void)context;
    atomic_store(&query.asked, load);
    while (atomic_load(&query.right) == before)
        sched_yield();
    atomic_fetch_add(&query.deferred, guard_load_defer(load, NULL, called_back, NULL) == GUARD_OK);
}

static void expect_each_load_told_once(guard_loader *loader, unsigned count)
{
    pthread_t thread;
    memset(&query, 0, sizeof query);
    bench_open_later(1, loader);
    assert_int_equal(pthread_create(&thread, NULL, answer_queries, NULL), 0);
    for (uint64_t load = 1; load <= count; load++) {
        size_t over = 0;
        bench_start(load, "k");
        while (over == 0) {
            wait_finished(1);
            pthread_mutex_lock(&bench.mutex);
            for (size_t i = 0; i < bench.count; i++) {
                over += !bench.finished[i]->deferred;
                if (!bench.finished[i]->deferred)
                    assert_string_equal(bench.finished[i]->loaded.value->public.body, "row");
                finished_load_free(bench.finished[i]);
            }
            bench.count = 0;
            pthread_mutex_unlock(&bench.mutex);
        }
        assert_int_equal(over, 1);
    }
    atomic_store(&query.over, true);
    pthread_join(thread, NULL);
    bench_close();
    assert_int_equal(query.right, count);
    assert_int_equal(query.deferred, count);
    assert_string_equal(bench.refused, "");
}

TEST(an_answer_that_comes_while_its_loader_defers_is_right_whichever_is_first, P152)
{
    expect_each_load_told_once(ask_and_defer, 3000);
    expect_each_load_told_once(ask_wait_and_defer, 100);
}

static void expect_over(struct guard_load *load)
{
    const struct guard_keep keep = {.how = GUARD_SHARE};
    assert_string_equal(guard_load_key(load), "");
    assert_int_equal(guard_load_left_ms(load), 0);
    assert_true(guard_load_cancelled(load));
    assert_int_equal(guard_load_cancel_fd(load), -1);
    assert_null(guard_load_previous_validator(load));
    assert_null(guard_load_asker(load));
    assert_int_equal(guard_load_id(load), 0);
    assert_int_equal(guard_load_tag(load, "t"), GUARD_INVALID);
    assert_int_equal(guard_load_keep(load, &keep), GUARD_INVALID);
    assert_int_equal(guard_load_defer(load, NULL, NULL, NULL), GUARD_INVALID);
    assert_int_equal(guard_load_absent(load), GUARD_INVALID);
    assert_int_equal(guard_load_unchanged(load), GUARD_INVALID);
    assert_int_equal(guard_load_fail(load, GUARD_FAILURE_TIMEOUT), GUARD_INVALID);
    assert_int_equal(guard_load_done(load, "again", 5, NULL), GUARD_INVALID);
}

TEST(whatever_is_said_of_a_load_that_is_over_is_refused)
{
    bench_open_later(1, load_later);
    defer_one(1);
    assert_int_equal(guard_load_done(later.loads[0], "row", 3, NULL), GUARD_OK);
    wait_finished(2);
    assert_string_equal(report_of(1, 1, false)->loaded.value->public.body, "row");
    finished_load_free(bench.finished[1]);
    bench.count = 0; /* the report of its deferral went with it */
    expect_over(later.loads[0]);
    assert_non_null(strstr(bench.refused, "guard_load_done: the load is over"));
    defer_one(2); /* perhaps where the first one was */
    expect_over(later.loads[0]);
    assert_string_equal(guard_load_key(later.loads[1]), "k");
    guard_load_absent(later.loads[1]);
    wait_finished(2);
    bench_close();
    expect_over(later.loads[0]); /* the guard is gone, and nobody is told */
    expect_over(later.loads[1]);
    expect_over(NULL);
}

static void *finish_too(void *context)
{
    return guard_load_done(context, "too", 3, NULL) == GUARD_OK ? context : NULL;
}

TEST(of_two_verdicts_at_once_one_is_the_first, P152)
{
    for (int i = 0; i < 500; i++) {
        pthread_t thread;
        void *other = NULL;
        bench_open_later(1, load_later);
        defer_one(1);
        assert_int_equal(pthread_create(&thread, NULL, finish_too, later.loads[0]), 0);
        bool mine = guard_load_done(later.loads[0], "one", 3, NULL) == GUARD_OK;
        pthread_join(thread, &other);
        assert_int_equal(mine, other == NULL);
        wait_finished(2);
        assert_string_equal(report_of(1, 1, false)->loaded.value->public.body, mine ? "one" : "too");
        bench_close();
    }
}

/* ---- what cancelled() uses ---- */

static struct {
    atomic_bool called, finishing, finished;
    atomic_bool early; /* it was finished while cancelled() ran */
} race;

static void be_called_long(void *context)
{
    enum { ROUNDS = 100 }; /* of 1 ms: longer than finishing takes */
    (void)context;
    atomic_store(&race.called, true);
    while (!atomic_load(&race.finishing))
        sched_yield();
    for (int i = 0; i < ROUNDS && !atomic_load(&race.finished); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_store(&race.early, atomic_load(&race.finished));
}

static void *finish_when_called(void *context)
{
    while (!atomic_load(&race.called))
        sched_yield();
    atomic_store(&race.finishing, true);
    guard_load_absent(context);
    atomic_store(&race.finished, true);
    return NULL;
}

TEST(a_verdict_waits_for_the_call_back_that_runs_on_another_thread, P152)
{
    pthread_t thread;
    memset(&race, 0, sizeof race);
    bench_open_later(1, load_later);
    later.on_cancel = be_called_long;
    defer_one(1);
    assert_int_equal(pthread_create(&thread, NULL, finish_when_called, later.loads[0]), 0);
    load_cancel(bench.desk, 1);
    pthread_join(thread, NULL);
    assert_true(race.finished);
    assert_false(race.early);
    wait_finished(2);
}

static void finish_in_call_back(void *context)
{
    (void)context;
    guard_load_fail(later.loads[0], GUARD_FAILURE_UNAVAILABLE);
}

TEST(it_may_be_finished_in_the_call_back_itself)
{
    bench_open_later(1, load_later);
    later.on_cancel = finish_in_call_back;
    defer_one(1);
    load_cancel(bench.desk, 1);
    wait_finished(2);
    assert_int_equal(report_of(1, 1, false)->loaded.outcome, LOAD_FAILED);
}

static void exit_or_stay(struct guard_load *load, void *context)
{
    if (strcmp(guard_load_key(load), "exits") == 0)
        pthread_exit(NULL);
    load_at_the_gate(load, context);
}

TEST(each_thread_begins_before_its_first_load_and_ends_after_its_last_also_if_a_loader_ends_it)
{
    bench_open(1, exit_or_stay);
    assert_int_equal(bench.threads_begun, 0);
    bench_run(1, "exits");
    assert_int_equal(bench.threads_ended, 1);
    eventfd_write(bench.gate, 1);
    bench_start(2, "k");
    bench_run(3, "k");
    assert_int_equal(bench.threads_begun, 2);
    assert_int_equal(bench.threads_ended, 1);
    bench_close(); /* as often as they began */
}

static void note_stack(struct guard_load *load, void *context)
{
    (void)context;
    pthread_attr_t attributes;
    size_t bytes = 0;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_destroy(&attributes);
    atomic_store(&bench.over, (unsigned)(bytes >> 10));
    guard_load_absent(load);
}

/* A host that has set a larger default counts on it. */
TEST(a_load_thread_has_the_stack_that_is_the_default_if_that_is_larger_than_ours)
{
    enum { STACK_BYTES = 4 << 20, GUARD_BYTES = 64 << 10 };
    pthread_attr_t before, attributes;
    pthread_getattr_default_np(&before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_setattr_default_np(&attributes);
    bench_open(1, note_stack);
    bench_run(1, "k");
    pthread_setattr_default_np(&before);
    pthread_attr_destroy(&attributes);
    assert_true(bench.over >= (STACK_BYTES - GUARD_BYTES) >> 10);
}

static struct workers *abandoned, *needed; /* reachable, as a leak checker sees it */

TEST(closing_leaves_a_running_loader_alone_and_does_not_report_it)
{
    bench_open(2, load_stubbornly);
    bench_start(1, "k");
    wait_for(&bench.begun, 1);
    abandoned = bench.workers;
    desk_close(bench.desk);
    assert_false(workers_close(&bench.workers, true));
    assert_ptr_equal(bench.workers, abandoned);
    eventfd_write(bench.gate, 1);
    wait_for(&bench.over, 1);
    assert_int_equal(bench.count, 0);
    bench.workers = NULL; /* it stays as it is */
}

TEST(closing_leaves_what_a_loader_on_a_thread_of_the_host_may_still_use)
{
    bench_open(1, load_at_the_gate);
    eventfd_write(bench.gate, 1);
    bench_run(1, "k");
    needed = bench.workers;
    assert_false(workers_close(&bench.workers, false));
    assert_ptr_equal(bench.workers, needed);
    assert_int_equal(bench.threads_ended, 1);
    desk_close(bench.desk);
    bench_clear();
    bench.workers = NULL; /* it stays as it is */
}

TEST(no_workers_are_closed_without_harm)
{
    struct workers *none = NULL;
    assert_true(workers_close(&none, true));
}

TEST_GROUP(.end = bench_close);
