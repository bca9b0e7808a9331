/* SPDX-License-Identifier: MIT */
/* pg_listen.c - see pg_listen.h. */
#include "app/pg/pg_listen.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STATEMENT_BYTES = 80 };

struct pg_listener {
    const char *conninfo, *channel; /* lent */
    PGconn *conn;                   /* owned; NULL: none */
    bool up;
};

struct attempt {
    struct pg_listener *listener;
    uint64_t deadline_ms;
    int cancel_fd;
    struct pg_fault *fault;
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void drop(struct pg_listener *listener)
{
    PQfinish(listener->conn);
    listener->conn = NULL;
    listener->up = false;
}

static enum pg_outcome fail(struct attempt *attempt, enum pg_outcome outcome, const char *text)
{
    struct pg_fault *fault = attempt->fault;
    *fault = (struct pg_fault){.in_doubt = false};
    snprintf(fault->text, sizeof(fault->text), "%s", text);
    fault->text[strcspn(fault->text, "\n")] = '\0';
    for (char *at = fault->text; (at = strchr(at, '"')) != NULL;)
        *at = '\''; /* it will stand between quotes in the log */
    drop(attempt->listener);
    return outcome;
}

static enum pg_outcome fail_connection(struct attempt *attempt)
{
    return fail(attempt, PG_UNAVAILABLE, PQerrorMessage(attempt->listener->conn));
}

static enum pg_outcome wait_ready(struct attempt *attempt, short events)
{
    struct pollfd fds[2] = {{.fd = PQsocket(attempt->listener->conn), .events = events},
                            {.fd = attempt->cancel_fd, .events = POLLIN}};
    for (;;) {
        uint64_t now = now_ms();
        if (now >= attempt->deadline_ms)
            return fail(attempt, PG_TIMEOUT, "no answer in time");
        int ready = poll(fds, 2, (int)(attempt->deadline_ms - now));
        if (ready > 0 && fds[1].revents != 0)
            return fail(attempt, PG_CANCELLED, "no longer wanted");
        if (ready > 0)
            return PG_OK;
    }
}

/* Its farewell; without this libpq would print it. */
static void ignore_notice(void *context, const PGresult *notice)
{
    (void)context, (void)notice;
}

static enum pg_outcome log_in(struct attempt *attempt)
{
    const char *const names[] = {"fallback_application_name", "gssencmode", "keepalives_idle", "dbname",
                                 NULL};
    const char *const values[] = {"catalogd", "disable", "30", attempt->listener->conninfo, NULL};
    PostgresPollingStatusType polled = PGRES_POLLING_WRITING;
    PGconn *conn = attempt->listener->conn = PQconnectStartParams(names, values, 1);
    if (conn == NULL || PQstatus(conn) == CONNECTION_BAD)
        return fail_connection(attempt);
    PQsetNoticeReceiver(conn, ignore_notice, NULL);
    while (polled != PGRES_POLLING_OK) {
        enum pg_outcome outcome = wait_ready(attempt, polled == PGRES_POLLING_READING ? POLLIN : POLLOUT);
        if (outcome != PG_OK)
            return outcome;
        polled = PQconnectPoll(conn);
        if (polled == PGRES_POLLING_FAILED)
            return fail_connection(attempt);
    }
    return PG_OK;
}

/* The statement is shorter than any socket's buffer: it leaves at once, or the connection is of no use. */
static enum pg_outcome subscribe(struct attempt *attempt)
{
    PGconn *conn = attempt->listener->conn;
    char statement[STATEMENT_BYTES];
    snprintf(statement, sizeof(statement), "LISTEN %s", attempt->listener->channel);
    if (PQsetnonblocking(conn, 1) != 0 || PQsendQuery(conn, statement) != 1 || PQflush(conn) != 0)
        return fail_connection(attempt);
    PGresult *result = NULL;
    bool listens = false;
    do {
        while (PQisBusy(conn)) {
            enum pg_outcome outcome = wait_ready(attempt, POLLIN);
            if (outcome != PG_OK)
                return outcome;
            if (PQconsumeInput(conn) == 0)
                return fail_connection(attempt);
        }
        result = PQgetResult(conn);
        listens = listens || PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
    } while (result != NULL);
    return listens ? PG_OK : fail_connection(attempt);
}

struct pg_listener *pg_listener_open(const char *conninfo, const char *channel)
{
    struct pg_listener *listener = calloc(1, sizeof(*listener));
    if (listener != NULL) {
        listener->conninfo = conninfo;
        listener->channel = channel;
    }
    return listener;
}

void pg_listener_close(struct pg_listener **listener)
{
    if (*listener != NULL)
        drop(*listener);
    free(*listener);
    *listener = NULL;
}

enum pg_outcome pg_listener_connect(struct pg_listener *listener, uint32_t limit_ms, int cancel_fd,
                                    struct pg_fault *fault)
{
    struct attempt attempt = {listener, now_ms() + limit_ms, cancel_fd, fault};
    drop(listener);
    enum pg_outcome outcome = log_in(&attempt);
    if (outcome == PG_OK)
        outcome = subscribe(&attempt);
    listener->up = outcome == PG_OK;
    return outcome;
}

bool pg_listener_is_up(const struct pg_listener *listener)
{
    return listener->up;
}

int pg_listener_fd(const struct pg_listener *listener)
{
    return listener->up ? PQsocket(listener->conn) : -1;
}

uint32_t pg_listener_hear(struct pg_listener *listener)
{
    uint32_t count = 0;
    if (!listener->up)
        return 0;
    bool lost = PQconsumeInput(listener->conn) == 0;
    (void)PQisBusy(listener->conn); /* parses what came, which may be a farewell */
    for (PGnotify *heard = PQnotifies(listener->conn); heard != NULL; heard = PQnotifies(listener->conn)) {
        PQfreemem(heard);
        count++;
    }
    if (lost || PQstatus(listener->conn) != CONNECTION_OK)
        drop(listener);
    return count;
}
