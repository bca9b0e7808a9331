/* SPDX-License-Identifier: MIT */
/* queries.c - see queries.h. */
#include "queries.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- from the load thread to the loop ---- */

static bool take_out(struct queries *queries, const struct query *query)
{
    pthread_mutex_lock(&queries->mutex);
    struct query **at = &queries->first;
    while (*at != NULL && *at != query)
        at = &(*at)->next;
    bool found = *at != NULL;
    if (found && (*at = query->next) == NULL)
        queries->last = at;
    pthread_mutex_unlock(&queries->mutex);
    return found;
}

/* On the loop. */
static void cancelled(void *context)
{
    struct query *query = context;
    struct guard_load *load = query->load;
    query->load = NULL;
    if (take_out(query->queries, query))
        free(query); /* it was not sent yet */
    guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
}

void queries_load(struct guard_load *load, void *context)
{
    struct queries *queries = context;
    struct query *query = malloc(sizeof *query);
    if (query == NULL || guard_load_defer(load, queries->loop, cancelled, query) != GUARD_OK) {
        free(query);
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
        return;
    }
    *query = (struct query){.load = load, .queries = queries};
    pthread_mutex_lock(&queries->mutex);
    if (queries->first == NULL)
        eventfd_write(queries->wake_fd, 1);
    *queries->last = query;
    queries->last = &query->next;
    pthread_mutex_unlock(&queries->mutex);
}

static struct query *take_first(struct queries *queries)
{
    pthread_mutex_lock(&queries->mutex);
    struct query *query = queries->first;
    if (query != NULL && (queries->first = query->next) == NULL)
        queries->last = &queries->first;
    pthread_mutex_unlock(&queries->mutex);
    return query;
}

/* ---- one connection ---- */

/* libpq may have taken another socket meanwhile; epoll forgets one that was closed. */
static void watch(struct queries *queries, struct connection *connection, uint32_t events)
{
    struct epoll_event event = {events, {.ptr = connection}};
    int fd = PQsocket(connection->pg);
    if (events == connection->events && !connection->connecting)
        return;
    connection->events = events;
    if (epoll_ctl(queries->fd, EPOLL_CTL_MOD, fd, &event) != 0)
        epoll_ctl(queries->fd, EPOLL_CTL_ADD, fd, &event);
}

static void end_query(struct connection *connection, const PGresult *result)
{
    struct query *query = connection->query;
    connection->query = NULL;
    if (query == NULL)
        return;
    struct guard_load *load = query->load;
    free(query);
    if (load == NULL)
        return; /* it was cancelled */
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fprintf(stderr, "%s", result != NULL ? PQresultErrorMessage(result) : PQerrorMessage(connection->pg));
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
    } else if (PQntuples(result) == 0) {
        guard_load_absent(load);
    } else {
        guard_load_done(load, PQgetvalue(result, 0, 0), (size_t)PQgetlength(result, 0, 0), NULL);
    }
}

static void become_idle(struct queries *queries, struct connection *connection)
{
    connection->busy = false;
    connection->next = queries->idle;
    queries->idle = connection;
}

/* The next query that gets it connects again. */
static void drop(struct queries *queries, struct connection *connection)
{
    end_query(connection, NULL);
    PQfinish(connection->pg);
    connection->pg = NULL;
    connection->connecting = false;
    connection->events = 0;
    if (connection->busy)
        become_idle(queries, connection);
}

static void send_query(struct queries *queries, struct connection *connection)
{
    const struct guard_load *load = connection->query->load;
    const char *key = load != NULL ? guard_load_key(load) : "";
    if (load == NULL) { /* cancelled while we connected */
        end_query(connection, NULL);
        become_idle(queries, connection);
    } else if (!PQsendQueryParams(connection->pg, queries->text, 1, NULL, &key, NULL, NULL, 0)) {
        drop(queries, connection);
    } else {
        watch(queries, connection, EPOLLIN | (PQflush(connection->pg) > 0 ? (uint32_t)EPOLLOUT : 0u));
    }
}

static void go_on_connecting(struct queries *queries, struct connection *connection)
{
    switch (PQconnectPoll(connection->pg)) {
    case PGRES_POLLING_READING:
        watch(queries, connection, EPOLLIN);
        return;
    case PGRES_POLLING_WRITING:
        watch(queries, connection, EPOLLOUT);
        return;
    case PGRES_POLLING_OK:
        watch(queries, connection, EPOLLIN);
        connection->connecting = false;
        PQsetnonblocking(connection->pg, 1);
        send_query(queries, connection);
        return;
    default:
        drop(queries, connection);
    }
}

static void connect_it(struct queries *queries, struct connection *connection)
{
    connection->pg = PQconnectStart(queries->conninfo);
    connection->connecting = true;
    if (PQstatus(connection->pg) == CONNECTION_BAD)
        drop(queries, connection);
    else
        watch(queries, connection, EPOLLOUT);
}

static void take_answer(struct queries *queries, struct connection *connection)
{
    int unsent = PQconsumeInput(connection->pg) ? PQflush(connection->pg) : -1;
    if (unsent < 0) {
        drop(queries, connection);
        return;
    }
    watch(queries, connection, EPOLLIN | (unsent > 0 ? (uint32_t)EPOLLOUT : 0u));
    while (connection->busy && !PQisBusy(connection->pg)) {
        PGresult *result = PQgetResult(connection->pg);
        if (result == NULL)
            become_idle(queries, connection);
        else
            end_query(connection, result);
        PQclear(result);
    }
}

/* ---- all of them ---- */

static void feed(struct queries *queries)
{
    struct query *query;
    while (queries->idle != NULL && (query = take_first(queries)) != NULL) {
        struct connection *connection = queries->idle;
        queries->idle = connection->next;
        connection->busy = true;
        connection->query = query;
        if (connection->pg == NULL)
            connect_it(queries, connection);
        else
            send_query(queries, connection);
    }
}

void queries_ready(struct queries *queries)
{
    struct epoll_event events[16];
    eventfd_t wakes = 0;
    int count = epoll_wait(queries->fd, events, 16, 0);
    for (int i = 0; i < count; i++) {
        struct connection *connection = events[i].data.ptr;
        if (connection == NULL)
            eventfd_read(queries->wake_fd, &wakes);
        else if (connection->connecting)
            go_on_connecting(queries, connection);
        else
            take_answer(queries, connection);
    }
    feed(queries);
}

/* ---- life ---- */

bool queries_open(struct queries *queries, const char *conninfo, const char *text, size_t count,
                  struct guard_loop *loop)
{
    struct epoll_event event = {EPOLLIN, {.ptr = NULL}};
    *queries = (struct queries){.conninfo = conninfo, .text = text, .count = count, .loop = loop};
    queries->last = &queries->first;
    queries->connections = calloc(count, sizeof *queries->connections);
    queries->fd = epoll_create1(EPOLL_CLOEXEC);
    queries->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&queries->mutex, NULL);
    bool opened =
        queries->connections != NULL && epoll_ctl(queries->fd, EPOLL_CTL_ADD, queries->wake_fd, &event) == 0;
    if (!opened)
        queries->count = 0;
    for (size_t i = 0; i < queries->count; i++)
        become_idle(queries, &queries->connections[i]);
    if (!opened)
        queries_close(queries);
    return opened;
}

void queries_close(struct queries *queries)
{
    for (size_t i = 0; i < queries->count; i++)
        drop(queries, &queries->connections[i]);
    for (struct query *query = take_first(queries); query != NULL; query = take_first(queries)) {
        guard_load_fail(query->load, GUARD_FAILURE_UNAVAILABLE);
        free(query);
    }
    if (queries->wake_fd >= 0)
        close(queries->wake_fd);
    if (queries->fd >= 0)
        close(queries->fd);
    pthread_mutex_destroy(&queries->mutex);
    free(queries->connections);
}
