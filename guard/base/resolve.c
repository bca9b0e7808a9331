/* SPDX-License-Identifier: MIT */
/* base/resolve.c - from the host of a URL to addresses. See base/resolve.h. */
#include "resolve.h"
#include "process.h"
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- digits ---- */

static bool read_v6(const char *host, struct sockaddr_in6 *out)
{
    char digits[INET6_ADDRSTRLEN];
    const char *zone = strchr(host, '%');
    size_t bytes = zone != NULL ? (size_t)(zone - host) : strlen(host);
    if (bytes >= sizeof digits)
        return false;
    memcpy(digits, host, bytes);
    digits[bytes] = '\0';
    out->sin6_scope_id = zone != NULL ? if_nametoindex(zone + 1) : 0;
    return inet_pton(AF_INET6, digits, &out->sin6_addr) == 1;
}

socklen_t resolve_digits(const char *host, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(out, &v4, sizeof v4);
        return sizeof v4;
    }
    if (read_v6(host, &v6)) {
        memcpy(out, &v6, sizeof v6);
        return sizeof v6;
    }
    return 0;
}

/* ---- names ---- */

static atomic_uint threads_running;
static pthread_once_t threads_once = PTHREAD_ONCE_INIT;

/* In the child of a fork, where none of them runs. */
static void forget_threads(void)
{
    atomic_store(&threads_running, 0);
}

static void watch_for_children(void)
{
    pthread_atfork(NULL, NULL, forget_threads);
}

/* Two own it, the loop and the thread; the one that leaves last frees it. */
struct resolve {
    char name[256], port[8];
    resolve_done *done;
    void *context;
    struct host_wake wake;
    pthread_mutex_t mutex;  /* below */
    bool forgotten, ended;  /* by the loop; by the thread */
    int failed;             /* as getaddrinfo() */
    struct addrinfo *found; /* owned */
};

static void free_resolve(struct resolve *resolve)
{
    if (resolve->found != NULL)
        freeaddrinfo(resolve->found);
    pthread_mutex_destroy(&resolve->mutex);
    free(resolve);
}

/* The wake is sent under the mutex: once it is released, the loop may be gone. */
static void *run_resolve(void *context)
{
    struct resolve *resolve = context;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(resolve->name, resolve->port, &hints, &found);
    pthread_mutex_lock(&resolve->mutex);
    resolve->failed = failed;
    resolve->found = failed == 0 ? found : NULL;
    resolve->ended = true;
    bool forgotten = resolve->forgotten;
    if (!forgotten)
        host_wake_send(&resolve->wake);
    pthread_mutex_unlock(&resolve->mutex);
    if (forgotten)
        free_resolve(resolve);
    atomic_fetch_sub(&threads_running, 1);
    return NULL;
}

static void on_resolved(void *context)
{
    struct resolve *resolve = context;
    const char *problem = NULL;
    pthread_mutex_lock(&resolve->mutex); /* waits for a thread that is still leaving */
    pthread_mutex_unlock(&resolve->mutex);
    if (resolve->failed != 0)
        problem = gai_strerror(resolve->failed);
    else if (resolve->found == NULL)
        problem = "no address";
    host_wake_clear(&resolve->wake);
    resolve->done(resolve->context, resolve->found, problem);
    free_resolve(resolve);
}

static int begin_resolver(struct resolve *resolve)
{
    pthread_t thread;
    int failed = EAGAIN;
    pthread_once(&threads_once, watch_for_children);
    if (atomic_fetch_add(&threads_running, 1) < RESOLVE_THREADS_MAX)
        failed = thread_begin(&thread, run_resolve, resolve);
    if (failed == 0)
        pthread_detach(thread);
    else
        atomic_fetch_sub(&threads_running, 1);
    return failed;
}

struct resolve *resolve_start(struct guard_host *host, const char *name, uint16_t port, resolve_done *done,
                              void *context)
{
    struct resolve *resolve = calloc(1, sizeof *resolve);
    if (resolve == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    snprintf(resolve->name, sizeof resolve->name, "%s", name);
    snprintf(resolve->port, sizeof resolve->port, "%u", (unsigned)port);
    resolve->done = done;
    resolve->context = context;
    pthread_mutex_init(&resolve->mutex, NULL);
    host_wake_init(host, &resolve->wake, on_resolved, resolve);
    int failed = begin_resolver(resolve);
    if (failed == 0)
        return resolve;
    host_wake_clear(&resolve->wake);
    free_resolve(resolve);
    errno = failed;
    return NULL;
}

void resolve_forget(struct resolve **forgetting)
{
    struct resolve *resolve = *forgetting;
    *forgetting = NULL;
    if (resolve == NULL)
        return;
    pthread_mutex_lock(&resolve->mutex);
    host_wake_clear(&resolve->wake); /* the thread sends under the mutex, and not once it is forgotten */
    resolve->forgotten = true;
    bool ended = resolve->ended;
    pthread_mutex_unlock(&resolve->mutex);
    if (ended)
        free_resolve(resolve);
}
