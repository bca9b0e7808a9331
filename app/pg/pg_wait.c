/* SPDX-License-Identifier: MIT */
/* pg_wait.c - see pg_wait.h. */
#include "app/pg/pg_wait.h"

#include "app/base/clock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

enum pg_outcome pg_wait_lost(const struct pg_wait *wait)
{
    const char *text = PQerrorMessage(wait->conn);

    return pg_fault_set(wait->fault, PG_UNAVAILABLE, "", *text != '\0' ? text : "connection lost");
}

/* Until the socket is ready for one of these events of poll(). */
static enum pg_outcome wait_ready(const struct pg_wait *wait, short events)
{
    struct pollfd fds[2] = {{.fd = PQsocket(wait->conn), .events = events},
                            {.fd = wait->cancel_fd, .events = POLLIN}};

    for (;;) {
        const uint32_t left_ms = clock_left_ms(wait->deadline_ms);
        const int ready = poll(fds, 2, left_ms > INT_MAX ? INT_MAX : (int)left_ms);

        if (ready < 0 && errno != EINTR)
            return pg_fault_set(wait->fault, PG_UNAVAILABLE, "", strerror(errno));
        if (ready > 0 && fds[1].revents != 0)
            return pg_fault_set(wait->fault, PG_CANCELLED, "", "no longer wanted");
        if (ready > 0)
            return PG_OK;
        if (clock_left_ms(wait->deadline_ms) == 0)
            return pg_fault_set(wait->fault, PG_TIMEOUT, "", wait->late);
    }
}

enum pg_outcome pg_wait_login(const struct pg_wait *wait)
{
    PostgresPollingStatusType polled = PGRES_POLLING_WRITING;

    if (PQstatus(wait->conn) == CONNECTION_BAD)
        return PG_UNAVAILABLE;
    while (polled != PGRES_POLLING_OK) {
        const enum pg_outcome outcome = wait_ready(wait, polled == PGRES_POLLING_READING ? POLLIN : POLLOUT);

        if (outcome != PG_OK)
            return outcome;
        polled = PQconnectPoll(wait->conn);
        if (polled == PGRES_POLLING_FAILED)
            return PG_UNAVAILABLE;
    }
    return PG_OK;
}

enum pg_outcome pg_wait_flush(const struct pg_wait *wait)
{
    int pending;

    while ((pending = PQflush(wait->conn)) > 0) {
        const enum pg_outcome outcome = wait_ready(wait, POLLIN | POLLOUT);

        if (outcome != PG_OK)
            return outcome;
        /* A server that is writing may not read before we do. */
        if (PQconsumeInput(wait->conn) == 0)
            return pg_wait_lost(wait);
    }
    return pending == 0 ? PG_OK : pg_wait_lost(wait);
}

enum pg_outcome pg_wait_result(const struct pg_wait *wait, PGresult **out)
{
    while (PQisBusy(wait->conn)) {
        const enum pg_outcome outcome = wait_ready(wait, POLLIN);

        if (outcome != PG_OK)
            return outcome;
        if (PQconsumeInput(wait->conn) == 0)
            return pg_wait_lost(wait);
    }
    *out = PQgetResult(wait->conn);
    return PG_OK;
}
