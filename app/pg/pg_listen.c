/* SPDX-License-Identifier: MIT */
/* pg_listen.c - see pg_listen.h. */
#include "app/pg/pg_listen.h"

#include "app/base/clock.h"
#include "app/pg/pg_wait.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

enum { STATEMENT_BYTES = 80 };

struct pg_listener {
    const char *conninfo, *channel; /* lent */
    PGconn *conn;                   /* owned; NULL: none */
    bool up;
};

static void drop(struct pg_listener *listener)
{
    PQfinish(listener->conn);
    listener->conn = NULL;
    listener->up = false;
}

/* Its farewell; without this libpq would print it. */
static void ignore_notice(void *context, const PGresult *notice)
{
    (void)context, (void)notice;
}

static PGconn *start_connecting(const struct pg_listener *listener)
{
    const char *const names[] = {"fallback_application_name", "gssencmode", "keepalives_idle", "dbname",
                                 NULL};
    const char *const values[] = {"catalogd", "disable", "30", listener->conninfo, NULL};

    return PQconnectStartParams(names, values, 1);
}

static enum pg_outcome log_in(const struct pg_wait *wait)
{
    if (wait->conn == NULL)
        return pg_fault_set(wait->fault, PG_UNAVAILABLE, "", "out of memory");
    PQsetNoticeReceiver(wait->conn, ignore_notice, NULL);
    const enum pg_outcome outcome = pg_wait_login(wait);
    return outcome == PG_OK || wait->fault->text[0] != '\0' ? outcome : pg_wait_lost(wait);
}

/* The statement is shorter than any socket's buffer: it leaves at once, or the connection is of no use. */
static enum pg_outcome subscribe(const struct pg_wait *wait, const char *channel)
{
    char statement[STATEMENT_BYTES];
    PGresult *result = NULL;
    bool listens = false;

    snprintf(statement, sizeof(statement), "LISTEN %s", channel);
    if (PQsetnonblocking(wait->conn, 1) != 0 || PQsendQuery(wait->conn, statement) != 1 ||
        PQflush(wait->conn) != 0)
        return pg_wait_lost(wait);
    do {
        const enum pg_outcome outcome = pg_wait_result(wait, &result);

        if (outcome != PG_OK)
            return outcome;
        listens = listens || PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
    } while (result != NULL);
    return listens ? PG_OK : pg_wait_lost(wait);
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
    drop(listener);
    *fault = (struct pg_fault){.in_doubt = false};
    listener->conn = start_connecting(listener);
    const struct pg_wait wait = {.conn = listener->conn,
                                 .deadline_ms = clock_ms() + limit_ms,
                                 .cancel_fd = cancel_fd,
                                 .fault = fault,
                                 .late = "no answer in time"};
    enum pg_outcome outcome = log_in(&wait);
    if (outcome == PG_OK)
        outcome = subscribe(&wait, listener->channel);
    if (outcome == PG_OK)
        listener->up = true;
    else
        drop(listener);
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
