/* SPDX-License-Identifier: MIT */
/*
 * scheme_advisory.c - (13) pg_advisory_lock() on a session of its own, as wrappers in many languages do it.
 *
 * The lock lives as long as its session, and nobody looks after that: when the session is ended, the work goes on
 * over the other connection. Behind a pooler a session is nobody's own.
 */
#include "load/lab/scheme.h"

#include "load/lab/source.h"

#include <libpq-fe.h>

#include <stdio.h>
#include <stdlib.h>

struct lab_state {
    struct pg_conn *session; /* owned */
};

/* True: the server did it. A session that is gone is opened again at the next request. */
static bool run(struct lab_client *client, const char *function)
{
    char statement[LAB_NAME_BYTES + 96];
    snprintf(statement, sizeof statement, "SELECT %s(hashtextextended('%s', 0))", function,
             client->lock_name);
    PGresult *result = PQexec(client->state->session, statement);
    const bool good = PQresultStatus(result) == PGRES_TUPLES_OK;
    PQclear(result);
    return good;
}

static bool acquire(struct lab_client *client)
{
    if (PQstatus(client->state->session) != CONNECTION_OK)
        PQreset(client->state->session);
    return run(client, "pg_advisory_lock");
}

static void release(struct lab_client *client)
{
    run(client, "pg_advisory_unlock");
}

static bool begin(struct lab_client *client)
{
    client->state = calloc(1, sizeof *client->state);
    if (client->state != NULL)
        client->state->session = source_open(client->lock_urls);
    return client->state != NULL && client->state->session != NULL;
}

static void end(struct lab_client *client)
{
    source_close(&client->state->session);
    free(client->state);
    client->state = NULL;
}

const struct scheme schemes_advisory[] = {
    {"13", "pg_advisory_lock", "PostgreSQL's pg_advisory_lock() on a session of its own",
     "PostgreSQL, Explicit Locking; its wrappers", .groups = GROUP_LOCK | GROUP_FAIR | GROUP_ADVISORY,
     .place = PLACE_POSTGRES, .open = begin, .close = end, .get = lab_get_locked, .acquire = acquire,
     .release = release},
    {.name = NULL},
};
