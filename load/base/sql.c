/* SPDX-License-Identifier: MIT */
/* sql.c - see sql.h. */
#include "load/base/sql.h"

#include "load/base/clock.h"

#include <libpq-fe.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

void sql_session_init(struct sql_session *session, const char *url, const char *name, const char *greeting)
{
    *session = (struct sql_session){.url = url, .name = name, .greeting = greeting};
}

void sql_session_clear(struct sql_session *session)
{
    PQfinish(session->connection);
    session->connection = NULL;
}

/* ---- waiting ---- */

/* False: end_us has passed. */
static bool wait_ready(const struct sql_session *session, short events, uint64_t end_us)
{
    struct pollfd wanted = {.fd = PQsocket(session->connection), .events = events};
    for (;;) {
        uint64_t now_us = clock_us();
        int left_ms = now_us < end_us ? (int)((end_us - now_us + 999) / 1000) : 0;
        int ready = poll(&wanted, 1, left_ms);
        if (ready == -1 && errno == EINTR)
            continue;
        return ready > 0;
    }
}

/* libpq's messages have several lines; the first says it. */
static void note_error(struct sql_session *session)
{
    const char *message = session->connection != NULL ? PQerrorMessage(session->connection) : "no memory\n";
    size_t bytes = strcspn(message, "\n");
    snprintf(session->why, sizeof session->why, "%.*s", (int)bytes,
             bytes > 0 ? message : "the connection is gone");
}

static enum sql_outcome away(struct sql_session *session, const char *why)
{
    if (why != NULL)
        snprintf(session->why, sizeof session->why, "%s", why);
    else
        note_error(session);
    sql_session_clear(session);
    return SQL_AWAY;
}

/* ---- asking ---- */

static void copy_row(const struct sql_session *session, const PGresult *result, struct sql_answer *out)
{
    if (session->value != NULL && PQntuples(result) > 0)
        snprintf(session->value, session->value_bytes, "%s", PQgetvalue(result, 0, 0));
    int count = PQntuples(result) > 0 ? PQnfields(result) : 0;
    for (int i = 0; i < count && out->cell_count < SQL_CELLS; i++)
        snprintf(out->cells[out->cell_count++], SQL_CELL_BYTES, "%s", PQgetvalue(result, 0, i));
}

static void note_refusal(struct sql_session *session, const PGresult *result)
{
    const char *message = PQresultErrorMessage(result);
    snprintf(session->why, sizeof session->why, "%.*s", (int)strcspn(message, "\n"), message);
}

/* What the server sends until it is through with the statement. COPY would never be: the connection goes. */
static enum sql_outcome take_results(struct sql_session *session, uint64_t end_us, struct sql_answer *out)
{
    enum sql_outcome outcome = SQL_ANSWERED;
    for (;;) {
        while (PQisBusy(session->connection)) {
            if (!wait_ready(session, POLLIN, end_us))
                return away(session, "the database does not answer in time");
            if (PQconsumeInput(session->connection) == 0)
                return away(session, NULL);
        }
        PGresult *result = PQgetResult(session->connection);
        if (result == NULL)
            break;
        ExecStatusType status = PQresultStatus(result);
        if (status == PGRES_TUPLES_OK) {
            copy_row(session, result, out);
        } else if (status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY && outcome == SQL_ANSWERED) {
            outcome = SQL_REFUSED;
            note_refusal(session, result);
        }
        PQclear(result);
        if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH) {
            sql_session_clear(session);
            return SQL_REFUSED;
        }
    }
    return PQstatus(session->connection) == CONNECTION_OK ? outcome : away(session, NULL);
}

static enum sql_outcome ask_now(struct sql_session *session, const char *statement, const char *const *values,
                                size_t value_count, uint64_t end_us, struct sql_answer *out)
{
    out->cell_count = 0;
    if (value_count == 0 ? PQsendQuery(session->connection, statement) == 0
                         : PQsendQueryParams(session->connection, statement, (int)value_count, NULL, values,
                                             NULL, NULL, 0) == 0)
        return away(session, NULL);
    for (int left; (left = PQflush(session->connection)) != 0;) {
        if (left == -1)
            return away(session, NULL);
        if (!wait_ready(session, POLLOUT, end_us)) /* half a question is no question */
            return away(session, "the database does not read in time");
    }
    return take_results(session, end_us, out);
}

/* ---- connecting ---- */

/* A server that is shut down says so to everybody, and by default that is printed. */
static void ignore_notice(void *context, const char *text)
{
    (void)context;
    (void)text;
}

static bool start_connection(struct sql_session *session)
{
    const char *const names[] = {"dbname", "fallback_application_name", NULL};
    const char *const values[] = {session->url, session->name, NULL};
    session->connection = PQconnectStartParams(names, values, 1);
    PQsetNoticeProcessor(session->connection, ignore_notice, NULL);
    return session->connection != NULL && PQstatus(session->connection) != CONNECTION_BAD;
}

static enum sql_outcome connect_until(struct sql_session *session, uint64_t end_us)
{
    struct sql_answer ignored = {.cell_count = 0};
    PostgresPollingStatusType wants = PGRES_POLLING_WRITING;
    if (!start_connection(session))
        return away(session, NULL);
    while (wants != PGRES_POLLING_OK && wants != PGRES_POLLING_FAILED) {
        if (!wait_ready(session, wants == PGRES_POLLING_READING ? POLLIN : POLLOUT, end_us))
            return away(session, "the database does not accept a connection in time");
        wants = PQconnectPoll(session->connection);
    }
    if (wants == PGRES_POLLING_FAILED || PQsetnonblocking(session->connection, 1) == -1)
        return away(session, NULL);
    if (session->greeting == NULL)
        return SQL_ANSWERED;
    enum sql_outcome outcome = ask_now(session, session->greeting, NULL, 0, end_us, &ignored);
    return outcome == SQL_REFUSED ? SQL_ANSWERED : outcome; /* it is a wish */
}

/* Broken while nobody looked: whoever is there now may be asked. What we ask may be asked twice. */
static enum sql_outcome ask_anew(struct sql_session *session, const char *statement,
                                 const char *const *values, size_t value_count, uint64_t end_us,
                                 struct sql_answer *out)
{
    enum sql_outcome outcome = connect_until(session, end_us);
    return outcome == SQL_ANSWERED ? ask_now(session, statement, values, value_count, end_us, out) : outcome;
}

enum sql_outcome sql_session_ask(struct sql_session *session, const char *statement,
                                 const char *const *values, size_t value_count, uint64_t end_us,
                                 struct sql_answer *out)
{
    out->cell_count = 0;
    if (session->connection == NULL)
        return ask_anew(session, statement, values, value_count, end_us, out);
    enum sql_outcome outcome = ask_now(session, statement, values, value_count, end_us, out);
    return outcome == SQL_AWAY && clock_us() < end_us
               ? ask_anew(session, statement, values, value_count, end_us, out)
               : outcome;
}

bool sql_run(const char *url, const char *statement, uint32_t limit_ms, char *value, size_t value_bytes,
             char why[static SQL_WHY_BYTES])
{
    struct sql_session session;
    struct sql_answer answer;
    if (value != NULL && value_bytes > 0)
        value[0] = '\0';
    sql_session_init(&session, url, "stampede", NULL);
    session.value = value;
    session.value_bytes = value_bytes;
    bool good =
        sql_session_ask(&session, statement, NULL, 0, clock_after_ms(limit_ms), &answer) == SQL_ANSWERED;
    if (!good)
        snprintf(why, SQL_WHY_BYTES, "%s", session.why);
    sql_session_clear(&session);
    return good;
}
