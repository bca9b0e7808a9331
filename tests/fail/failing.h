/* SPDX-License-Identifier: MIT */
/*
 * failing.h - the n-th allocation or system call of our own objects fails. For one program each.
 *
 *     failing_prepare() --> what the test needs itself --> failing_begin(what, n, streak) --> the code under test
 *         --> what the test gives back --> failing_end(): did it come to that?
 *
 * The linker leads every call of malloc() and the like from an object of ours to the __wrap_ functions below
 * (-Wl,--wrap, see the Makefile); calls inside the libraries are not counted. What libuv asks the system for is
 * counted, too: it finds our eventfd(), epoll_create1(), pipe2() and epoll_ctl() before libc's, and takes its
 * memory from us (uv_replace_allocator). What is taken between begin and end
 * must be given back, and every descriptor opened since prepare closed: failing_end() looks.
 *
 * Threads: all that run between begin and end count, in the order in which they come.
 */
#pragma once

#include "tests/support/test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum failing {
    FAIL_MEMORY,         /* malloc, calloc, realloc, strdup: NULL */
    FAIL_LIBRARY_MEMORY, /* libuv's malloc and calloc: NULL */
    FAIL_SOCKET,         /* EMFILE */
    FAIL_CONNECT,        /* ENETUNREACH */
    FAIL_SEND,           /* EPIPE */
    FAIL_SEND_SIGNAL,    /* EINTR */
    FAIL_RECV,           /* ECONNRESET */
    FAIL_RECV_SIGNAL,    /* EINTR */
    FAIL_DESCRIPTOR,     /* eventfd, epoll_create1, pipe2: EMFILE */
    FAIL_WATCH,          /* epoll_ctl() of a new descriptor, with which libuv tries it: ENOSPC */
    FAIL_THREAD,         /* pthread_create: EAGAIN */
    FAIL_RANDOM,         /* getrandom: ENOSYS */
    FAIL_RANDOM_SIGNAL,  /* EINTR */
    FAIL_POLL_SIGNAL,    /* EINTR */
    FAIL_LISTEN,         /* bind, listen: EADDRINUSE */
    FAIL_ACCEPT,         /* accept4: EMFILE */
    FAIL_KINDS,
};

static struct {
    _Atomic(enum failing) what;
    atomic_bool armed;
    atomic_uint calls, first, streak; /* those from `first` on fail, `streak` of them */
    atomic_int blocks;                /* taken and not given back */
    size_t descriptors;
} failing;

/* Counts one call; true: it fails. */
static inline bool fails(enum failing what)
{
    if (!atomic_load(&failing.armed) || atomic_load(&failing.what) != what)
        return false;
    unsigned call = atomic_fetch_add(&failing.calls, 1) + 1;
    unsigned first = atomic_load(&failing.first);
    return call >= first && call - first < atomic_load(&failing.streak);
}

static inline size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static inline void failing_prepare(void)
{
    failing.descriptors = open_descriptors();
}

static inline void failing_begin(enum failing what, unsigned first, unsigned streak)
{
    atomic_store(&failing.what, what);
    atomic_store(&failing.calls, 0);
    atomic_store(&failing.first, first);
    atomic_store(&failing.streak, streak);
    atomic_store(&failing.blocks, 0);
    atomic_store(&failing.armed, true);
}

/* From here on nothing fails; blocks are still counted. */
static inline void failing_stop(void)
{
    atomic_store(&failing.first, UINT32_MAX);
}

/* False: nothing failed, for there were fewer calls. */
static inline bool failing_end(unsigned first)
{
    WAIT_UNTIL(atomic_load(&failing.blocks) == 0); /* a thread that was left to itself frees its own */
    atomic_store(&failing.armed, false);
    assert_int_equal(open_descriptors(), failing.descriptors);
    return atomic_load(&failing.calls) >= first;
}

/* ---- memory of our objects ---- */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
void __real_free(void *block);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);

static inline void *counted(void *block)
{
    if (block != NULL && atomic_load(&failing.armed))
        atomic_fetch_add(&failing.blocks, 1);
    return block;
}

void *__wrap_malloc(size_t bytes)
{
    return fails(FAIL_MEMORY) ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails(FAIL_MEMORY) ? NULL : counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *block, size_t bytes)
{
    if (fails(FAIL_MEMORY))
        return NULL;
    return block == NULL ? counted(__real_malloc(bytes)) : __real_realloc(block, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fails(FAIL_MEMORY) ? NULL : counted(__real_aligned_alloc(alignment, bytes));
}

char *__wrap_strdup(const char *text)
{
    return fails(FAIL_MEMORY) ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *block)
{
    if (block != NULL && atomic_load(&failing.armed))
        atomic_fetch_sub(&failing.blocks, 1);
    __real_free(block);
}

/* ---- system calls of our objects ---- */

static inline bool fails_with(enum failing what, int error)
{
    if (!fails(what))
        return false;
    errno = error;
    return true;
}

int __real_socket(int domain, int type, int protocol);
int __real_connect(int fd, const struct sockaddr *address, socklen_t bytes);
ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __real_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __real_getrandom(void *out, size_t bytes, unsigned flags);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_getrandom(void *out, size_t bytes, unsigned flags);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context);
int __real_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);
int __real_poll(struct pollfd *fds, nfds_t count, int limit_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int limit_ms);

int __wrap_poll(struct pollfd *fds, nfds_t count, int limit_ms)
{
    return fails_with(FAIL_POLL_SIGNAL, EINTR) ? -1 : __real_poll(fds, count, limit_ms);
}

int __wrap_socket(int domain, int type, int protocol)
{
    return fails_with(FAIL_SOCKET, EMFILE) ? -1 : __real_socket(domain, type, protocol);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    return fails_with(FAIL_CONNECT, ENETUNREACH) ? -1 : __real_connect(fd, address, bytes);
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    bool failed = fails_with(FAIL_SEND, EPIPE) || fails_with(FAIL_SEND_SIGNAL, EINTR);
    return failed ? -1 : __real_send(fd, data, bytes, flags);
}

ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
    bool failed = fails_with(FAIL_RECV, ECONNRESET) || fails_with(FAIL_RECV_SIGNAL, EINTR);
    return failed ? -1 : __real_recv(fd, data, bytes, flags);
}

ssize_t __wrap_getrandom(void *out, size_t bytes, unsigned flags)
{
    bool failed = fails_with(FAIL_RANDOM, ENOSYS) || fails_with(FAIL_RANDOM_SIGNAL, EINTR);
    return failed ? -1 : __real_getrandom(out, bytes, flags);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context)
{
    return fails(FAIL_THREAD) ? EAGAIN : __real_pthread_create(thread, attributes, run, context);
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    return fails_with(FAIL_LISTEN, EADDRINUSE) ? -1 : __real_bind(fd, address, bytes);
}

int __wrap_listen(int fd, int backlog)
{
    return fails_with(FAIL_LISTEN, EADDRINUSE) ? -1 : __real_listen(fd, backlog);
}

/* A mutex that has been destroyed is not found by any sanitizer, but glibc refuses it. */
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (__real_pthread_mutex_lock(mutex) != 0)
        abort();
    return 0;
}

/* ---- system calls of libraries ---- */

#define VISIBLE __attribute__((visibility("default")))

/* The one that libuv would have found: libc's, or a sanitizer's before it. */
#define NEXT(name)                                                                                           \
    __typeof__(&name) next = NULL;                                                                           \
    *(void **)&next = dlsym(RTLD_NEXT, #name)

/* uv_loop_init() leaks the descriptor of its epoll when it cannot have the pipe or the eventfd that come after it, in
 * this order: those two do not fail. */
static _Thread_local bool loop_begins, loop_has_pipe;

VISIBLE int eventfd(unsigned count, int flags);
VISIBLE int eventfd(unsigned count, int flags)
{
    NEXT(eventfd);
    bool spared = loop_begins && loop_has_pipe;
    loop_begins = loop_has_pipe = false;
    return !spared && fails_with(FAIL_DESCRIPTOR, EMFILE) ? -1 : next(count, flags);
}

VISIBLE int epoll_create1(int flags)
{
    NEXT(epoll_create1);
    loop_begins = !fails_with(FAIL_DESCRIPTOR, EMFILE);
    return loop_begins ? next(flags) : -1;
}

VISIBLE int pipe2(int fds[2], int flags)
{
    NEXT(pipe2);
    loop_has_pipe = loop_begins;
    return !loop_begins && fails_with(FAIL_DESCRIPTOR, EMFILE) ? -1 : next(fds, flags);
}

VISIBLE int accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict bytes, int flags)
{
    NEXT(accept4);
    return fails_with(FAIL_ACCEPT, EMFILE) ? -1 : next(fd, address, bytes, flags);
}

VISIBLE int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    NEXT(epoll_ctl);
    bool trial =
        operation == EPOLL_CTL_ADD && event->data.fd != fd; /* libuv has accepted what it names itself */
    bool failed = trial && fails_with(FAIL_WATCH, ENOSPC);
    return failed ? -1 : next(epoll, operation, fd, event);
}

/* ---- memory of libuv ---- */

static inline void *uv_memory(size_t bytes)
{
    return fails(FAIL_LIBRARY_MEMORY) ? NULL : __real_malloc(bytes);
}

static inline void *uv_zeroed_memory(size_t count, size_t bytes)
{
    return fails(FAIL_LIBRARY_MEMORY) ? NULL : __real_calloc(count, bytes);
}

/* First of all. libuv uses realloc() where it aborts if there is none; its first loop opens a pipe for good. */
static inline bool failing_take_over_libuv(void)
{
    uv_loop_t loop;
    return uv_replace_allocator(uv_memory, __real_realloc, uv_zeroed_memory, __real_free) == 0 &&
           uv_loop_init(&loop) == 0 && uv_loop_close(&loop) == 0;
}

/* ---- the sweep ---- */

enum { SWEEP_RUNS_MAX = 4000 };

/* For n = 1, 2, ...: `came_to_it`, which runs something of which the n-th call is to fail, until there are not so
 * many. */
#define SWEEP(n, came_to_it)                                                                                 \
    do {                                                                                                     \
        unsigned n = 1;                                                                                      \
        for (; came_to_it; n++)                                                                              \
            assert_true(n < SWEEP_RUNS_MAX);                                                                 \
        print_message("%u calls failed in turn\n", n - 1);                                                   \
        assert_true(n > 1);                                                                                  \
    } while (0)

/* Does its work once; with `healthy` it must succeed. */
typedef void attempt(bool healthy);

static inline bool attempt_failing(enum failing what, attempt *attempt_one, unsigned first)
{
    failing_prepare();
    failing_begin(what, first, 1);
    attempt_one(false);
    return failing_end(first);
}

/* Then once more, and nothing fails. */
static inline void sweep_alone(enum failing what, attempt *attempt_one)
{
    SWEEP(first, attempt_failing(what, attempt_one, first));
    attempt_one(true);
}

static inline unsigned sweep_setting(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

/* Likewise, for what takes long: the first few calls, and every 7th of the rest, other ones each day. FAIL_EVERY=1,
 * with which `make fail` runs, is all of them; FAIL_SEED= repeats those of a day. */
static inline void sweep_some(enum failing what, attempt *attempt_one)
{
    unsigned every = sweep_setting("FAIL_EVERY", 7);
    unsigned seed = sweep_setting("FAIL_SEED", (unsigned)(time(NULL) / 86400)) % every, first = 1, failed = 0;
    for (; attempt_failing(what, attempt_one, first); failed++) {
        assert_true(first < SWEEP_RUNS_MAX);
        first++;
        while (first > every && first % every != seed)
            first++;
    }
    print_message("%u calls failed in turn: FAIL_EVERY=%u FAIL_SEED=%u\n", failed, every, seed);
    assert_true(failed > 0);
    attempt_one(true);
}
