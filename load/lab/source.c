/* SPDX-License-Identifier: MIT */
/* source.c - see source.h. */
#include "load/lab/source.h"

#include "load/base/clock.h"

#include <libpq-fe.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATEMENT_BYTES = 512, NUMBER_BYTES = 24 };

struct pg_conn *source_open(const char *url)
{
    PGconn *connection = PQconnectdb(url);
    if (PQstatus(connection) == CONNECTION_OK)
        return connection;
    fprintf(stderr, "lab: PostgreSQL: %s", PQerrorMessage(connection));
    PQfinish(connection);
    return NULL;
}

void source_close(struct pg_conn **connection)
{
    PQfinish(*connection);
    *connection = NULL;
}

/* Runs one statement, printf-like; the first column of the first row goes into `number` ("" if none; may be NULL). */
__attribute__((format(printf, 3, 4))) static bool run(PGconn *connection, char number[NUMBER_BYTES],
                                                      const char *format, ...)
{
    char statement[STATEMENT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(statement, sizeof statement, format, arguments);
    va_end(arguments);
    PGresult *result = PQexec(connection, statement);
    ExecStatusType status = PQresultStatus(result);
    bool good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    if (!good)
        fprintf(stderr, "lab: %s: %s", statement, PQerrorMessage(connection));
    if (number != NULL)
        snprintf(number, NUMBER_BYTES, "%s", good && PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return good;
}

const char *source_marker(const char *key, char marker[static SOURCE_MARKER_BYTES])
{
    snprintf(marker, SOURCE_MARKER_BYTES, "/* lab load %s */", key);
    return marker;
}

/* Keys are ours: letters, digits, ":" and "-". */
int32_t source_load(struct pg_conn *connection, const char *key, uint32_t worker)
{
    char marker[SOURCE_MARKER_BYTES], version[NUMBER_BYTES];
    bool good = run(connection, version,
                    "%s SELECT version, pg_advisory_xact_lock_shared(hashtext('%s'), %" PRIu32
                    ") FROM lab WHERE key = '%s'",
                    source_marker(key, marker), key, worker, key);
    return good ? (int32_t)strtol(version, NULL, 10) : LAB_FAILED;
}

/* True: the statement, which ends with RETURNING, found the row. */
static bool run_on_row(PGconn *connection, const char *statement)
{
    char found[NUMBER_BYTES];
    if (!run(connection, found, "%s", statement))
        exit(1);
    return found[0] != '\0';
}

bool source_claim(struct pg_conn *connection, const char *key, uint64_t fence)
{
    char statement[STATEMENT_BYTES];
    snprintf(statement, sizeof statement,
             "UPDATE lab SET fence = %" PRIu64 " WHERE key = '%s' AND fence <= %" PRIu64 " RETURNING 1",
             fence, key, fence);
    return run_on_row(connection, statement);
}

bool source_store(struct pg_conn *connection, const char *key, int32_t version, uint64_t fence)
{
    char statement[STATEMENT_BYTES];
    snprintf(statement, sizeof statement,
             "UPDATE lab SET version = %" PRId32 ", writes = writes + 1 WHERE key = '%s' AND (%" PRIu64
             " = 0 OR fence <= %" PRIu64 ") RETURNING 1",
             version, key, fence, fence);
    return run_on_row(connection, statement);
}

int32_t source_lost_updates(struct pg_conn *connection, const char *key)
{
    char count[NUMBER_BYTES];
    bool good = run(connection, count, "SELECT writes - (version - 1) FROM lab WHERE key = '%s'", key);
    return good && count[0] != '\0' ? (int32_t)strtol(count, NULL, 10) : -1;
}

int32_t source_waiting(struct pg_conn *connection)
{
    char count[NUMBER_BYTES];
    bool good =
        run(connection, count,
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND NOT granted");
    return good ? (int32_t)strtol(count, NULL, 10) : -1;
}

bool source_end_holders(struct pg_conn *connection)
{
    char count[NUMBER_BYTES];
    return run(connection, count,
               "SELECT count(pg_terminate_backend(pid)) FROM pg_locks"
               " WHERE locktype = 'advisory' AND objsubid = 1 AND granted") &&
           strtol(count, NULL, 10) > 0;
}

bool source_prepare(struct pg_conn *connection)
{
    return run(connection, NULL,
               "CREATE TABLE lab (key text PRIMARY KEY, version integer NOT NULL,"
               " writes integer NOT NULL DEFAULT 0, fence bigint NOT NULL DEFAULT 0)");
}

bool source_insert(struct pg_conn *connection, const char *key)
{
    return run(
        connection, NULL,
        "INSERT INTO lab VALUES ('%s', 1) ON CONFLICT (key) DO UPDATE SET version = 1, writes = 0, fence = 0",
        key);
}

bool source_change(struct pg_conn *connection, const char *key)
{
    return run(connection, NULL, "UPDATE lab SET version = version + 1 WHERE key = '%s'", key);
}

int32_t source_version(struct pg_conn *connection, const char *key)
{
    char version[NUMBER_BYTES];
    bool good = run(connection, version, "SELECT version FROM lab WHERE key = '%s'", key);
    return good ? (int32_t)strtol(version, NULL, 10) : LAB_FAILED;
}

bool source_hold(struct pg_conn *connection, const char *key, uint32_t first, uint32_t last)
{
    return run(connection, NULL,
               "SELECT pg_advisory_lock(hashtext('%s'), worker) FROM generate_series(%" PRIu32 ", %" PRIu32
               ") AS worker",
               key, first, last);
}

bool source_let_go(struct pg_conn *connection, const char *key, uint32_t worker)
{
    return run(connection, NULL, "SELECT pg_advisory_unlock(hashtext('%s'), %" PRIu32 ")", key, worker);
}

bool source_let_go_all(struct pg_conn *connection)
{
    return run(connection, NULL, "SELECT pg_advisory_unlock_all()");
}

bool source_wait_held(struct pg_conn *connection, uint32_t wanted, uint32_t limit_ms)
{
    const uint64_t end_us = clock_after_ms(limit_ms);
    char count[NUMBER_BYTES];
    while (
        run(connection, count,
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND NOT granted")) {
        if (strtoul(count, NULL, 10) >= wanted)
            return true;
        if (clock_us() >= end_us) {
            fprintf(stderr, "lab: fewer than %" PRIu32 " loads in PostgreSQL after %" PRIu32 " ms\n", wanted,
                    limit_ms);
            return false;
        }
        clock_pause_ms(1);
    }
    return false;
}
