/* SPDX-License-Identifier: MIT */
/* queries.c - see queries.h. */
#include "queries.h"
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- from the load thread to the loop ---- */

/* On the loop. Its answer, if it was sent, is thrown away; statement_timeout ends it in PostgreSQL. */
static void cancelled(void *context)
{
    struct query *query = context;
    struct guard_load *load = query->load;
    query->load = NULL;
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
    *queries->last = query;
    queries->last = &query->next;
    eventfd_write(queries->wake_fd, 1);
    pthread_mutex_unlock(&queries->mutex);
}

static struct query *take_query(struct queries *queries)
{
    pthread_mutex_lock(&queries->mutex);
    struct query *query = queries->first;
    if (query != NULL)
        queries->first = query->next;
    if (queries->first == NULL)
        queries->last = &queries->first;
    pthread_mutex_unlock(&queries->mutex);
    return query;
}

/* ---- one connection ---- */

static void watch(struct queries *queries, size_t i, bool writes)
{
    struct epoll_event event = {EPOLLIN | (writes ? (uint32_t)EPOLLOUT : 0u), {.u64 = i}};
    epoll_ctl(queries->fd, EPOLL_CTL_MOD, PQsocket(queries->connections[i]), &event);
}

static void end_query(struct queries *queries, size_t i, PGresult *result)
{
    struct query *query = queries->running[i];
    struct guard_load *load = query->load;
    queries->running[i] = NULL;
    free(query);
    if (load == NULL)
        ; /* it was cancelled */
    else if (PQresultStatus(result) != PGRES_TUPLES_OK)
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
    else if (PQntuples(result) == 0)
        guard_load_absent(load);
    else
        guard_load_done(load, PQgetvalue(result, 0, 0), (size_t)PQgetlength(result, 0, 0), NULL);
    PQclear(result);
}

static void send_query(struct queries *queries, size_t i, struct query *query)
{
    PGconn *connection = queries->connections[i];
    const char *key = guard_load_key(query->load);
    queries->running[i] = query;
    if (PQsendQueryParams(connection, queries->text, 1, NULL, &key, NULL, NULL, 0))
        watch(queries, i, PQflush(connection) > 0);
    else
        end_query(queries, i, NULL);
}

static void feed(struct queries *queries, size_t i)
{
    while (queries->running[i] == NULL) {
        struct query *query = take_query(queries);
        if (query == NULL)
            return;
        if (query->load != NULL)
            send_query(queries, i, query);
        else
            free(query);
    }
}

/* A server that restarts more often than this example needs PQconnectStart() here. */
static void reconnect(struct queries *queries, size_t i)
{
    struct epoll_event event = {EPOLLIN, {.u64 = i}};
    epoll_ctl(queries->fd, EPOLL_CTL_DEL, PQsocket(queries->connections[i]), NULL);
    if (queries->running[i] != NULL)
        end_query(queries, i, NULL);
    PQreset(queries->connections[i]);
    PQsetnonblocking(queries->connections[i], 1);
    epoll_ctl(queries->fd, EPOLL_CTL_ADD, PQsocket(queries->connections[i]), &event);
}

static void answered(struct queries *queries, size_t i)
{
    PGconn *connection = queries->connections[i];
    watch(queries, i, PQflush(connection) > 0);
    if (!PQconsumeInput(connection) || PQstatus(connection) != CONNECTION_OK) {
        reconnect(queries, i);
        return;
    }
    while (!PQisBusy(connection)) {
        PGresult *result = PQgetResult(connection);
        if (result == NULL)
            break;
        if (queries->running[i] != NULL)
            end_query(queries, i, result);
        else
            PQclear(result);
    }
}

void queries_ready(struct queries *queries)
{
    struct epoll_event events[QUERIES_CONNECTIONS + 1];
    eventfd_t wakes = 0;
    int count = epoll_wait(queries->fd, events, QUERIES_CONNECTIONS + 1, 0);
    for (int at = 0; at < count; at++) {
        if (events[at].data.u64 < QUERIES_CONNECTIONS)
            answered(queries, events[at].data.u64);
        else
            eventfd_read(queries->wake_fd, &wakes);
    }
    for (size_t i = 0; i < QUERIES_CONNECTIONS; i++)
        if (queries->running[i] == NULL && !PQisBusy(queries->connections[i]))
            feed(queries, i);
}

/* ---- life ---- */

bool queries_open(struct queries *queries, const char *conninfo, const char *text, struct guard_loop *loop)
{
    struct epoll_event event = {EPOLLIN, {.u64 = QUERIES_CONNECTIONS}};
    bool connected = true;
    memset(queries, 0, sizeof *queries);
    queries->text = text;
    queries->loop = loop;
    queries->last = &queries->first;
    queries->fd = epoll_create1(EPOLL_CLOEXEC);
    queries->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&queries->mutex, NULL);
    epoll_ctl(queries->fd, EPOLL_CTL_ADD, queries->wake_fd, &event);
    for (size_t i = 0; i < QUERIES_CONNECTIONS; i++) {
        PGconn *connection = queries->connections[i] = PQconnectdb(conninfo);
        connected =
            connected && PQstatus(connection) == CONNECTION_OK && PQsetnonblocking(connection, 1) == 0;
        event.data.u64 = i;
        epoll_ctl(queries->fd, EPOLL_CTL_ADD, PQsocket(connection), &event);
    }
    if (!connected)
        queries_close(queries);
    return connected;
}

void queries_close(struct queries *queries)
{
    for (size_t i = 0; i < QUERIES_CONNECTIONS; i++) {
        if (queries->running[i] != NULL)
            end_query(queries, i, NULL);
        PQfinish(queries->connections[i]);
    }
    for (struct query *query = take_query(queries); query != NULL; query = take_query(queries)) {
        if (query->load != NULL)
            guard_load_fail(query->load, GUARD_FAILURE_UNAVAILABLE);
        free(query);
    }
    close(queries->wake_fd);
    close(queries->fd);
    pthread_mutex_destroy(&queries->mutex);
}
