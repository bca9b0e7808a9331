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
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_S = 20, MOST = 64 };

struct bench {
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
};

static void on_done(void *context, struct finished_load *finished)
{
    struct bench *bench = context;
    pthread_mutex_lock(&bench->mutex);
    for (; finished != NULL; finished = finished->next) {
        assert_true(bench->count < MOST);
        bench->finished[bench->count++] = finished;
    }
    pthread_cond_signal(&bench->changed);
    pthread_mutex_unlock(&bench->mutex);
}

static void wait_finished(struct bench *bench, size_t count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&bench->mutex);
    int waited = 0;
    while (bench->count < count && waited == 0)
        waited = pthread_cond_timedwait(&bench->changed, &bench->mutex, &until);
    pthread_mutex_unlock(&bench->mutex);
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
    struct bench *bench = context;
    atomic_fetch_add(&bench->threads_begun, 1);
}

static void thread_ends(void *context)
{
    struct bench *bench = context;
    atomic_fetch_add(&bench->threads_ended, 1);
}

static void bench_open(struct bench *bench, uint32_t count, guard_loader *loader)
{
    memset(bench, 0, sizeof *bench);
    bench->policy = (struct guard_policy)GUARD_POLICY_DEFAULTS;
    bench->policy.loader = loader;
    bench->policy.context = bench;
    bench->gate = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&bench->mutex, NULL);
    pthread_cond_init(&bench->changed, NULL);
    bench->desk = desk_open(on_done, bench);
    bench->workers = workers_open(&(struct workers_config){.count = count,
                                                           .desk = bench->desk,
                                                           .thread_begins = thread_begins,
                                                           .thread_ends = thread_ends,
                                                           .thread_context = bench});
    assert_non_null(bench->workers);
}

static void bench_start_until(struct bench *bench, uint64_t load, const char *key, uint64_t deadline_us)
{
    const struct job job = {
        .load = load,
        .key = key,
        .key_bytes = strlen(key),
        .policy = &bench->policy,
        .deadline_us = deadline_us,
        .previous_validator = bench->previous_validator,
        .batch = bench->batch,
    };
    assert_true(workers_start(bench->workers, &job));
}

static void bench_start(struct bench *bench, uint64_t load, const char *key)
{
    bench_start_until(bench, load, key, clock_now_us() + 5000000);
}

static void bench_clear(struct bench *bench)
{
    for (size_t i = 0; i < bench->count; i++)
        finished_load_free(bench->finished[i]);
    close(bench->gate);
    pthread_cond_destroy(&bench->changed);
    pthread_mutex_destroy(&bench->mutex);
}

static void bench_close(struct bench *bench)
{
    assert_true(workers_close(&bench->workers));
    assert_null(bench->workers);
    assert_int_equal(bench->threads_begun, bench->threads_ended);
    desk_close(bench->desk);
    bench_clear(bench);
    desk_unref(bench->desk);
}

static const struct core_loaded *verdict_of(const struct bench *bench, uint64_t load)
{
    for (size_t i = 0; i < bench->count; i++)
        if (bench->finished[i]->load == load)
            return &bench->finished[i]->loaded;
    fail_msg("load %llu was never reported", (unsigned long long)load);
    return NULL;
}

/* ---- loaders ---- */

static void load_at_the_gate(struct guard_load *load, void *context)
{
    struct bench *bench = context;
    struct pollfd fds[] = {{bench->gate, POLLIN, 0}, {guard_load_cancel_fd(load), POLLIN, 0}};
    atomic_fetch_add(&bench->begun, 1);
    while (poll(fds, 2, -1) < 0)
        ;
    if (fds[1].revents != 0) {
        assert_true(guard_load_cancelled(load));
        atomic_fetch_add(&bench->cancelled, 1);
        guard_load_fail(load, GUARD_FAILURE_TIMEOUT);
    } else {
        guard_load_done(load, guard_load_key(load), strlen(guard_load_key(load)), "v");
    }
    atomic_fetch_add(&bench->over, 1);
}

static void load_stubbornly(struct guard_load *load, void *context)
{
    struct bench *bench = context;
    struct pollfd gate = {bench->gate, POLLIN, 0};
    atomic_fetch_add(&bench->begun, 1);
    while (poll(&gate, 1, -1) < 0)
        ;
    guard_load_absent(load);
    atomic_fetch_add(&bench->over, 1);
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
    struct bench bench;
    bench_open(&bench, 2, load_at_the_gate);
    eventfd_write(bench.gate, 1);
    bench_start(&bench, 11, "a");
    bench_start(&bench, 12, "");
    wait_finished(&bench, 2);
    assert_int_equal(verdict_of(&bench, 11)->outcome, LOAD_OK);
    assert_string_equal(verdict_of(&bench, 11)->value->public.body, "a");
    assert_string_equal(verdict_of(&bench, 11)->value->public.validator, "v");
    assert_string_equal(verdict_of(&bench, 12)->value->public.body, "");
    bench_close(&bench);
}

TEST(no_more_jobs_run_at_a_time_than_there_are_workers)
{
    struct bench bench;
    bench_open(&bench, 3, load_at_the_gate);
    for (uint64_t i = 1; i <= 10; i++)
        bench_start(&bench, i, "k");
    wait_for(&bench.begun, 3);
    eventfd_write(bench.gate, 1);
    wait_finished(&bench, 10);
    bench_close(&bench);
    assert_int_equal(bench.over, 10);
}

TEST(a_cancelled_loader_sees_it_on_its_descriptor_and_the_next_job_does_not)
{
    struct bench bench;
    bench_open(&bench, 1, load_at_the_gate);
    for (uint64_t i = 1; i <= 3; i++) {
        bench_start(&bench, i, "k");
        wait_for(&bench.begun, (unsigned)i);
        load_cancel(bench.desk, 999);
        load_cancel(bench.desk, i);
        load_cancel(bench.desk, i);
        wait_finished(&bench, i);
        assert_int_equal(verdict_of(&bench, i)->failure, GUARD_FAILURE_TIMEOUT);
    }
    eventfd_write(bench.gate, 1);
    bench_start(&bench, 4, "k");
    wait_finished(&bench, 4);
    assert_int_equal(verdict_of(&bench, 4)->outcome, LOAD_OK);
    assert_int_equal(bench.cancelled, 3);
    bench_close(&bench);
}

TEST(a_job_cancelled_before_a_worker_takes_it_is_told_when_it_begins)
{
    struct bench bench;
    bench_open(&bench, 1, load_at_the_gate);
    bench_start(&bench, 1, "first");
    wait_for(&bench.begun, 1);
    bench_start(&bench, 2, "second");
    load_cancel(bench.desk, 2);
    load_cancel(bench.desk, 1);
    wait_finished(&bench, 2);
    assert_int_equal(bench.cancelled, 2);
    bench_close(&bench);
}

/* Until the gate opens or nobody wants any of it; the last one is left unfinished. */
static void batch_at_the_gate(struct guard_load *const *loads, size_t count, void *context)
{
    struct bench *bench = context;
    struct pollfd fds[] = {{bench->gate, POLLIN, 0}, {guard_load_cancel_fd(loads[0]), POLLIN, 0}};
    atomic_fetch_add(&bench->begun, (unsigned)count);
    while (poll(fds, 2, -1) <= 0)
        continue;
    for (size_t i = 0; i < count; i++) {
        bool right = guard_load_cancel_fd(loads[i]) == guard_load_cancel_fd(loads[0]) &&
                     guard_load_left_ms(loads[i]) <= 1000; /* the earliest limit of all */
        atomic_fetch_add(&bench->wrong, !right);
        atomic_fetch_add(&bench->cancelled, guard_load_cancelled(loads[i]));
        if (i + 1 < count)
            guard_load_done(loads[i], guard_load_key(loads[i]), strlen(guard_load_key(loads[i])), NULL);
    }
    atomic_fetch_add(&bench->over, (fds[1].revents & POLLIN) != 0);
}

/* Jobs 1 to 3; `over` counts descriptors that spoke. */
static void start_batch(struct bench *bench)
{
    bench->policy.batch_loader = batch_at_the_gate;
    bench->batch = 7;
    bench_start(bench, 1, "one");
    bench_start_until(bench, 2, "two", clock_now_us() + 1000000);
    bench_start(bench, 3, "three");
    assert_int_equal(bench->begun, 0); /* it may not be complete yet */
    workers_commit(bench->workers);
    wait_for(&bench->begun, 3);
}

TEST(a_batch_is_one_call_and_a_verdict_for_each)
{
    struct bench bench;
    bench_open(&bench, 1, load_at_the_gate);
    start_batch(&bench);
    load_cancel(bench.desk, 2);
    eventfd_write(bench.gate, 1);
    wait_finished(&bench, 3);
    assert_int_equal(bench.cancelled, 1);
    assert_int_equal(bench.wrong, 0);
    assert_int_equal(bench.over, 0); /* one key that is not wanted ends nothing */
    assert_string_equal(verdict_of(&bench, 1)->value->public.body, "one");
    assert_string_equal(verdict_of(&bench, 2)->value->public.body, "two");
    assert_int_equal(verdict_of(&bench, 3)->failure, GUARD_FAILURE_INTERNAL);
    bench_close(&bench);
}

TEST(a_batch_that_nobody_wants_is_told_so)
{
    struct bench bench;
    bench_open(&bench, 1, load_at_the_gate);
    start_batch(&bench);
    for (uint64_t load = 1; load <= 3; load++)
        load_cancel(bench.desk, load);
    wait_finished(&bench, 3);
    assert_int_equal(bench.cancelled, 3);
    assert_int_equal(bench.over, 1);
    bench_close(&bench);
}

TEST(batches_do_not_mix_and_one_of_one_is_a_load)
{
    struct bench bench;
    bench_open(&bench, 1, load_at_the_gate);
    eventfd_write(bench.gate, 1);
    for (uint64_t load = 1; load <= 3; load++) {
        bench.batch = load;
        bench_start(&bench, load, "k");
    }
    workers_commit(bench.workers);
    wait_finished(&bench, 3);
    assert_int_equal(bench.begun, 3);
    bench_close(&bench);
}

TEST(a_broken_contract_is_an_internal_failure_and_costs_no_worker)
{
    static const char *const WRONG[] = {"exits", "validator", "failure", "nothing"};
    struct bench bench;
    uint64_t id = 0;
    bench_open(&bench, 1, load_wrongly);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
            bench_start(&bench, ++id, WRONG[i]);
            wait_finished(&bench, id);
            assert_int_equal(verdict_of(&bench, id)->outcome, LOAD_FAILED);
            assert_int_equal(verdict_of(&bench, id)->failure, GUARD_FAILURE_INTERNAL);
        }
    bench_start(&bench, ++id, "twice");
    wait_finished(&bench, id);
    assert_int_equal(verdict_of(&bench, id)->outcome, LOAD_ABSENT);
    bench_start(&bench, ++id, "exits after its verdict");
    wait_finished(&bench, id);
    assert_int_equal(verdict_of(&bench, id)->outcome, LOAD_ABSENT);
    bench_close(&bench);
}

static void look_at_the_time(struct guard_load *load, void *context)
{
    struct bench *bench = context;
    uint32_t left_ms = guard_load_left_ms(load);
    atomic_store(&bench->over, left_ms);
    guard_load_absent(load);
}

TEST(what_is_left_follows_the_deadline_and_ends_at_zero)
{
    struct bench bench;
    bench_open(&bench, 1, look_at_the_time);
    bench_start(&bench, 1, "k");
    wait_finished(&bench, 1);
    assert_in_range(bench.over, 1, 5000);
    bench_start_until(&bench, 2, "k", clock_now_us() - 1);
    wait_finished(&bench, 2);
    assert_int_equal(bench.over, 0);
    bench_close(&bench);
}

TEST(a_load_is_unchanged_only_if_there_was_something_to_compare_with)
{
    struct bench bench;
    bench_open(&bench, 1, load_if_changed);
    bench_start(&bench, 1, "k");
    bench.previous_validator = "7";
    bench_start(&bench, 2, "k");
    bench.previous_validator = "";
    bench_start(&bench, 3, "k");
    wait_finished(&bench, 3);
    assert_int_equal(verdict_of(&bench, 1)->outcome, LOAD_FAILED);
    assert_int_equal(verdict_of(&bench, 1)->failure, GUARD_FAILURE_INTERNAL);
    assert_int_equal(verdict_of(&bench, 2)->outcome, LOAD_UNCHANGED);
    assert_null(verdict_of(&bench, 2)->value);
    assert_int_equal(verdict_of(&bench, 3)->outcome, LOAD_OK);
    bench_close(&bench);
}

TEST(closing_waits_for_idle_workers_however_slow_they_are)
{
    for (int i = 0; i < 50; i++) {
        struct bench bench;
        bench_open(&bench, 8, load_at_the_gate);
        eventfd_write(bench.gate, 1);
        for (uint64_t load = 1; load <= 8; load++)
            bench_start(&bench, load, "k");
        wait_finished(&bench, 8);
        bench_close(&bench);
    }
}

static struct workers *abandoned; /* reachable, as a leak checker sees it */

TEST(closing_leaves_a_running_loader_alone_and_does_not_report_it)
{
    static struct bench bench; /* outlives the test, as the loader does */
    bench_open(&bench, 2, load_stubbornly);
    bench_start(&bench, 1, "k");
    wait_for(&bench.begun, 1);
    abandoned = bench.workers;
    desk_close(bench.desk);
    assert_false(workers_close(&bench.workers));
    assert_ptr_equal(bench.workers, abandoned);
    eventfd_write(bench.gate, 1);
    wait_for(&bench.over, 1);
    assert_int_equal(bench.count, 0);
}

TEST(no_workers_are_closed_without_harm)
{
    struct workers *none = NULL;
    assert_true(workers_close(&none));
}
