/* SPDX-License-Identifier: MIT */
/* sql.c - see sql.h. */
#include "load/base/sql.h"

#include "load/base/clock.h"
#include "load/base/net.h"

#include <libpq-fe.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>

/* libpq's messages have several lines; the first says it. */
static bool complain(const char *message, char *why)
{
    size_t bytes = strcspn(message, "\n");
    snprintf(why, SQL_WHY_BYTES, "%.*s", (int)bytes, bytes > 0 ? message : "no connection");
    return false;
}

static bool complain_time(uint32_t limit_ms, char *why)
{
    snprintf(why, SQL_WHY_BYTES, "no answer from the database within %u ms", (unsigned)limit_ms);
    return false;
}

/* False: failed, or end_us has passed. */
static bool connect_within(PGconn *connection, uint64_t end_us)
{
    PostgresPollingStatusType wants = PGRES_POLLING_WRITING;
    while (wants != PGRES_POLLING_OK && wants != PGRES_POLLING_FAILED) {
        short events = wants == PGRES_POLLING_READING ? POLLIN : POLLOUT;
        if (!net_wait(PQsocket(connection), events, end_us))
            return false;
        wants = PQconnectPoll(connection);
    }
    return wants == PGRES_POLLING_OK;
}

/* Reads until the server is through with the statement. */
static bool finish_within(PGconn *connection, uint64_t end_us)
{
    while (PQisBusy(connection)) {
        if (!net_wait(PQsocket(connection), POLLIN, end_us))
            return false;
        if (!PQconsumeInput(connection))
            return true; /* the next result says what is wrong */
    }
    return true;
}

/* One result after another; the last row seen is the value. */
static bool take_results(PGconn *connection, uint64_t end_us, char *value, size_t value_bytes, bool *in_time)
{
    bool good = true;
    for (;;) {
        *in_time = finish_within(connection, end_us);
        PGresult *result = *in_time ? PQgetResult(connection) : NULL;
        if (result == NULL)
            return good && *in_time;
        ExecStatusType status = PQresultStatus(result);
        good = good && (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK);
        if (value != NULL && PQntuples(result) > 0)
            snprintf(value, value_bytes, "%s", PQgetvalue(result, 0, 0));
        bool is_copy = status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
        PQclear(result);
        if (is_copy) /* never ends by itself */
            return false;
    }
}

bool sql_run(const char *url, const char *statement, uint32_t limit_ms, char *value, size_t value_bytes,
             char why[static SQL_WHY_BYTES])
{
    uint64_t end_us = clock_after_ms(limit_ms);
    bool good = false, in_time = true;
    PGconn *connection = PQconnectStart(url);
    if (value != NULL && value_bytes > 0)
        value[0] = '\0';
    if (connection != NULL && PQstatus(connection) != CONNECTION_BAD && connect_within(connection, end_us) &&
        PQsetnonblocking(connection, 1) == 0 && PQsendQuery(connection, statement) == 1) {
        while (PQflush(connection) == 1 && net_wait(PQsocket(connection), POLLOUT, end_us))
            ;
        good = take_results(connection, end_us, value, value_bytes, &in_time);
    }
    if (!good && (!in_time || clock_us() >= end_us))
        complain_time(limit_ms, why);
    else if (!good)
        complain(connection != NULL ? PQerrorMessage(connection) : "no memory", why);
    PQfinish(connection);
    return good;
}
