/* SPDX-License-Identifier: MIT */
/*
 * deferred.c - one thread, one epoll loop, PostgreSQL and the guard: no thread waits for a query.
 *
 *     ./deferred redis://127.0.0.1:6379 postgresql://localhost/shop 'SELECT name FROM products WHERE id = $1::int' 1
 *     2 3
 *
 * Prints each row once it is there. Started again at once, it finds all of them in Redis.
 */
#include "adapters/epoll.h"
#include "queries.h"
#include <stdio.h>

enum { CONNECTIONS = 4 };

static int open_requests;

static void print_row(void *context, const struct guard_result *result)
{
    const char *text = result->value != NULL ? result->value->body : guard_status_name(result->status);
    printf("%s: %s (%s)\n", (const char *)context, text, guard_source_name(result->source));
    open_requests--;
}

/* The loop has nothing of the guard any more. */
static void detached(void *context)
{
    *(struct guard_epoll **)context = NULL;
}

/* One turn of a loop that may have any number of other descriptors. */
static void turn(int epoll, struct guard_epoll **ours, struct queries *queries)
{
    struct epoll_event events[2];
    int count = epoll_wait(epoll, events, 2, guard_epoll_before_wait(*ours, -1));
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == queries)
            queries_ready(queries);
        else if (*ours != NULL)
            guard_epoll_ready(*ours);
    }
}

static int add(int epoll, int fd, void *what)
{
    struct epoll_event event = {EPOLLIN, {.ptr = what}};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

int main(int argc, char **argv)
{
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    struct guard_policy policy = GUARD_POLICY_DEFAULTS;
    struct guard *guard = NULL;
    struct guard_kind *rows = NULL;
    struct guard_loop *loop = NULL;
    struct guard_epoll *ours = NULL;
    struct guard_error error = {.text = "usage: deferred REDIS POSTGRESQL SELECT KEY..."};
    struct queries queries;
    config.redis_url = argc > 4 ? argv[1] : "";
    config.max_loads = 1000; /* queries that may be under way or queued for a connection */
    config.load_threads = 1; /* starts them */
    policy.loader = queries_load;
    policy.context = &queries;
    if (argc < 5 || guard_open(&config, &guard, &error) != GUARD_OK ||
        guard_kind_add(guard, &policy, &rows, &error) != GUARD_OK ||
        guard_epoll_attach(guard, &ours, &loop, &error) != GUARD_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    if (!queries_open(&queries, argv[2], argv[3], CONNECTIONS, loop)) {
        fprintf(stderr, "no memory or no descriptors\n");
        return 1;
    }
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    add(epoll, ours->fd, ours);
    add(epoll, queries.fd, &queries);
    for (int i = 4; i < argc; i++) {
        struct guard_request request = {
            .kind = rows, .key = argv[i], .loop = loop, .answered = print_row, .context = argv[i]};
        open_requests += guard_get(guard, &request, NULL, NULL) == GUARD_OK;
    }
    while (open_requests > 0)
        turn(epoll, &ours, &queries);
    guard_loop_detach(&loop, detached, &ours);
    while (ours != NULL)
        turn(epoll, &ours, &queries);
    guard_close(&guard, 1000);
    queries_close(&queries);
    close(epoll);
    return 0;
}
