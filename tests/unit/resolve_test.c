/* SPDX-License-Identifier: MIT */
/* resolve_test.c - hosts become addresses: digits at once, names on threads that nothing waits for. */
#include "guard/base/resolve.h"
#include "tests/support/test.h"
#include "tests/support/uv_host.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

enum { WAIT_S = 40 };

/* ---- getaddrinfo() behind a gate ---- */

static atomic_bool held, hears_signals;
static sem_t gate, entered, left;

static void wait_for(sem_t *semaphore)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    assert_int_equal(sem_timedwait(semaphore, &until), 0);
}

__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
                                                       const struct addrinfo *hints, struct addrinfo **out)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    sigset_t blocked;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (sigismember(&blocked, SIGTERM) != 1 || sigismember(&blocked, SIGPIPE) != 1)
        atomic_store(&hears_signals, true);
    if (!atomic_load(&held))
        return real(node, service, hints, out);
    sem_post(&entered);
    wait_for(&gate);
    int failed = real(node, service, hints, out);
    sem_post(&left);
    return failed;
}

/* ---- pthread_create() that may refuse ---- */

static atomic_bool refuses_threads;

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                          void *(*run)(void *), void *context)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return atomic_load(&refuses_threads) ? EPERM : real(thread, attributes, run, context);
}

/* ---- a loop, and what it was told ---- */

static struct scene {
    uv_loop_t loop;
    struct guard_host *host;
    struct guard_host_state host_state;
    struct resolve *resolve;
    unsigned done, addresses;
    bool problem;
} scene;

static void on_done(void *context, const struct addrinfo *found, const char *problem)
{
    (void)context;
    scene.done++;
    scene.problem = problem != NULL;
    for (; found != NULL; found = found->ai_next)
        scene.addresses++;
}

static bool begin_scene(void)
{
    memset(&scene, 0, sizeof scene);
    sem_init(&gate, 0, 0);
    sem_init(&entered, 0, 0);
    sem_init(&left, 0, 0);
    atomic_store(&held, false);
    if (uv_loop_init(&scene.loop) != 0)
        return false;
    scene.host = uv_host_attach(&scene.loop, &scene.host_state);
    return scene.host != NULL;
}

static bool end_scene(void)
{
    host_close(scene.host, NULL, NULL);
    uv_run(&scene.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&scene.loop) == 0;
}

static struct resolve *start(const char *name)
{
    return resolve_start(scene.host, name, 7, on_done, NULL);
}

static void resolve_now(const char *name)
{
    assert_non_null(start(name));
    assert_int_equal(scene.done, 0);
    while (scene.done == 0)
        uv_run(&scene.loop, UV_RUN_ONCE);
}

TEST(digits_need_nobody)
{
    struct sockaddr_storage address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
    static const char *const names[] = {"",
                                        "localhost",
                                        "1.2.3",
                                        "1.2.3.256",
                                        "::g",
                                        "1:2",
                                        "1111:1111:1111:1111:1111:1111:1111:1111:1111:1111"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(resolve_digits(names[i], 1, &address), 0);
    assert_int_equal(resolve_digits("127.0.0.1", 6379, &address), sizeof(struct sockaddr_in));
    assert_int_equal(address.ss_family, AF_INET);
    assert_int_equal(((const struct sockaddr_in *)&address)->sin_port, htons(6379));
    assert_int_equal(resolve_digits("::1", 6379, &address), sizeof(struct sockaddr_in6));
    assert_int_equal(v6->sin6_family, AF_INET6);
    assert_int_equal(v6->sin6_port, htons(6379));
    assert_int_equal(v6->sin6_scope_id, 0);
    assert_int_equal(resolve_digits("fe80::1%lo", 6379, &address), sizeof(struct sockaddr_in6));
    assert_int_equal(v6->sin6_scope_id, if_nametoindex("lo"));
}

TEST(a_name_is_resolved_on_a_thread_that_hears_no_signal)
{
    resolve_now("localhost");
    assert_false(scene.problem);
    assert_in_range(scene.addresses, 1, 100);
    assert_false(atomic_load(&hears_signals));
}

TEST(a_name_that_is_unknown_says_why)
{
    resolve_now("no-such-host.invalid");
    assert_true(scene.problem);
    assert_int_equal(scene.addresses, 0);
}

TEST(a_thread_that_is_refused_is_an_error_of_the_start_and_counts_for_nothing)
{
    atomic_store(&refuses_threads, true);
    for (unsigned i = 0; i < 2 * RESOLVE_THREADS_MAX; i++) {
        errno = 0;
        assert_null(start("localhost"));
        assert_int_equal(errno, EPERM);
    }
    atomic_store(&refuses_threads, false);
    resolve_now("localhost");
    assert_false(scene.problem);
}

TEST(one_that_is_forgotten_says_nothing_whether_it_has_ended_or_not)
{
    struct resolve *resolve;
    atomic_store(&held, true);
    for (int ended = 0; ended <= 1; ended++) {
        resolve = start("localhost");
        assert_non_null(resolve);
        wait_for(&entered);
        if (!ended)
            resolve_forget(&resolve);
        sem_post(&gate);
        wait_for(&left);
        if (ended)
            resolve_forget(&resolve);
        assert_null(resolve);
        uv_run(&scene.loop, UV_RUN_NOWAIT);
    }
    resolve_forget(&resolve); /* nothing */
    assert_int_equal(scene.done, 0);
}

/* In a child, which may not start threads under every sanitizer, and need not: they are refused there. */
static int errno_of_child(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        atomic_store(&refuses_threads, true);
        errno = 0;
        start("localhost");
        _exit(errno);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(only_so_many_threads_hang_at_a_time_and_none_of_them_in_a_forked_child)
{
    struct resolve *hanging[RESOLVE_THREADS_MAX], *one_more = NULL;
    unsigned count = 0;
    atomic_store(&held, true);
    /* Threads of tests before this one may be leaving still. */
    for (time_t end = time(NULL) + WAIT_S; count < RESOLVE_THREADS_MAX && time(NULL) < end;)
        count += (hanging[count] = start("localhost")) != NULL;
    assert_int_equal(count, RESOLVE_THREADS_MAX);
    errno = 0;
    assert_null(start("localhost"));
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(errno_of_child(), EPERM);
    for (unsigned i = 0; i < RESOLVE_THREADS_MAX; i++) {
        wait_for(&entered);
        resolve_forget(&hanging[i]);
    }
    sem_post(&gate);
    wait_for(&left);
    for (time_t end = time(NULL) + WAIT_S; one_more == NULL && time(NULL) < end;)
        one_more = start("localhost");
    assert_non_null(one_more);
    resolve_forget(&one_more);
    for (unsigned i = 0; i < RESOLVE_THREADS_MAX; i++)
        sem_post(&gate);
    for (unsigned i = 0; i < RESOLVE_THREADS_MAX; i++)
        wait_for(&left);
    assert_int_equal(scene.done, 0);
}

TEST_GROUP(.before = begin_scene, .after = end_scene);
