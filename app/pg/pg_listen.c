/* SPDX-License-Identifier: MIT */
/* pg_listen.c - see pg_listen.h. */
#include "app/pg/pg_listen.h"

#include "app/base/clock.h"
#include "app/pg/pg_session.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    STATEMENT_BYTES = 80,
    SILENCE_MS = 5000, /* then it is asked for a sign of life */
    SIGN_MS = 3000,    /* which comes within this */
    IDLE_TIMEOUT_SINCE = 140000,
};

struct pg_listener {
    struct pg_place place;
    const char *channel; /* lent */
    PGconn *conn;        /* owned; NULL: none */
    struct pg_life life;
    uint64_t due_ms; /* of the next look */
    bool up, asked;
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

/* The statement is shorter than any socket's buffer: it leaves at once, or the connection is of no use. */
static enum pg_outcome command(const struct pg_wait *wait, const char *statement)
{
    PGresult *result = NULL;
    bool done = false;

    if (PQsendQuery(wait->conn, statement) != 1 || PQflush(wait->conn) != 0)
        return pg_wait_lost(wait);
    do {
        const enum pg_outcome outcome = pg_wait_result(wait, &result);

        if (outcome != PG_OK)
            return outcome;
        done = done || PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
    } while (result != NULL);
    return done ? PG_OK : pg_wait_lost(wait);
}

static enum pg_outcome subscribe(const struct pg_wait *wait, const char *channel)
{
    const bool has_idle_timeout = PQserverVersion(wait->conn) >= IDLE_TIMEOUT_SINCE;
    char statement[STATEMENT_BYTES];

    enum pg_outcome outcome = has_idle_timeout ? command(wait, "SET idle_session_timeout TO 0") : PG_OK;
    snprintf(statement, sizeof(statement), "LISTEN %s", channel);
    if (outcome == PG_OK)
        outcome = command(wait, statement);
    return outcome == PG_OK && PQenterPipelineMode(wait->conn) != 1 ? pg_wait_lost(wait) : outcome;
}

static void heard_of(struct pg_listener *listener)
{
    listener->asked = false;
    listener->due_ms = clock_ms() + SILENCE_MS;
}

struct pg_listener *pg_listener_open(const char *conninfo, const char *channel, uint32_t session_ms)
{
    struct pg_listener *listener = calloc(1, sizeof(*listener));

    if (listener != NULL) {
        listener->place = (struct pg_place){.conninfo = conninfo, .session_ms = session_ms};
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
    struct pg_wait wait = {.deadline_ms = clock_ms() + limit_ms,
                           .cancel_fd = cancel_fd,
                           .fault = fault,
                           .late = "no answer in time"};
    struct pg_login login = {.place = &listener->place, .wait = &wait, .hear_notice = ignore_notice};
    enum pg_outcome outcome = pg_session_log_in(&login);
    if (outcome == PG_OK)
        outcome = subscribe(&wait, listener->channel);
    listener->conn = wait.conn;
    listener->life = login.life;
    listener->up = outcome == PG_OK;
    if (listener->up)
        heard_of(listener);
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

/* The signs of life among what came. */
static bool take_signs(struct pg_listener *listener)
{
    bool is_whole = true;

    while (is_whole && !PQisBusy(listener->conn)) {
        PGresult *result = PQgetResult(listener->conn);
        if (result == NULL)
            break;
        is_whole = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        PQclear(result);
    }
    return is_whole;
}

uint32_t pg_listener_hear(struct pg_listener *listener)
{
    uint32_t count = 0;

    if (!listener->up)
        return 0;
    const bool lost = PQconsumeInput(listener->conn) == 0 || !take_signs(listener);
    for (PGnotify *heard = PQnotifies(listener->conn); heard != NULL; heard = PQnotifies(listener->conn)) {
        PQfreemem(heard);
        count++;
    }
    if (lost || PQstatus(listener->conn) != CONNECTION_OK)
        drop(listener);
    else
        heard_of(listener);
    return count;
}

bool pg_listener_look(struct pg_listener *listener, const char **why)
{
    *why = NULL;
    if (!listener->up)
        return false;
    if (pg_session_is_over(&listener->life)) {
        drop(listener);
        return false;
    }
    if (clock_ms() < listener->due_ms)
        return true;
    if (!listener->asked && PQpipelineSync(listener->conn) == 1 && PQflush(listener->conn) == 0) {
        listener->asked = true;
        listener->due_ms = clock_ms() + SIGN_MS;
        return true;
    }
    *why = listener->asked ? "no sign of life: the connection is half-open" : "the connection was lost";
    drop(listener);
    return false;
}

uint64_t pg_listener_due_ms(const struct pg_listener *listener)
{
    const uint64_t over_ms = listener->life.until_ms;

    if (!listener->up)
        return UINT64_MAX;
    return listener->due_ms < over_ms ? listener->due_ms : over_ms;
}
