/* SPDX-License-Identifier: MIT */
/* pg_cancel.c - see pg_session.h. */
#include "app/pg/pg_session.h"

#include "app/base/clock.h"
#include "app/pg/pg.h"

#include <poll.h>
#include <stdbool.h>

enum { WAIT_LIMIT_MS = 1000, LOOK_MS = 5, ERROR_BYTES = 256 };

static atomic_uint running; /* threads, of all pools */

static void *ask(void *context)
{
    PGcancel *request = context;
    char ignored[ERROR_BYTES];

    PQcancel(request, ignored, sizeof(ignored));
    PQfreeCancel(request);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

void pg_cancel_send(PGconn *conn)
{
    PGcancel *request = PQgetCancel(conn);
    const bool has_room = atomic_fetch_add(&running, 1) < PG_CANCELS_MAX;
    pthread_t thread;

    if (request != NULL && has_room && thread_start(&thread, ask, request)) {
        pthread_detach(thread);
        return;
    }
    PQfreeCancel(request);
    atomic_fetch_sub(&running, 1);
}

void pg_cancel_wait(void)
{
    const uint64_t end_ms = clock_ms() + WAIT_LIMIT_MS;

    while (atomic_load(&running) > 0 && clock_ms() < end_ms)
        poll(NULL, 0, LOOK_MS);
}
