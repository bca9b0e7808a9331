/* SPDX-License-Identifier: MIT */
/* pg_session.c - see pg_session.h. */
#include "app/pg/pg_session.h"

#include "app/base/clock.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    ADDRESSES_MAX = 16, /* more are not tried */
    HOST_BYTES = 256,
    NUMBER_BYTES = 64, /* of a numeric address, scope and all */
    PORT_BYTES = 8,
    AGE_SPREAD = 4,        /* sessions end up to a quarter of their life sooner, not all at once */
    REIGN_LEAST_MS = 1000, /* a database that stays read-only is not logged in to all the time */
};

/* ---- waiting ---- */

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

/* Until the login is done. PG_UNAVAILABLE without a fault: libpq's message says why. */
static enum pg_outcome wait_login(const struct pg_wait *wait)
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

/* ---- where it may be ---- */

struct address {
    char host[HOST_BYTES], number[NUMBER_BYTES], port[PORT_BYTES]; /* "": up to libpq */
};

struct addresses {
    struct address list[ADDRESSES_MAX];
    size_t count;
};

/* Of a list with commas; a list of one holds for all. */
static void nth_of(const char *list, size_t at, char *out, size_t out_bytes)
{
    const char *item = list;

    for (size_t i = 0; i < at && strchr(item, ',') != NULL; i++)
        item = strchr(item, ',') + 1;
    snprintf(out, out_bytes, "%.*s", (int)strcspn(item, ","), item);
}

static size_t length_of(const char *list)
{
    size_t count = 1;

    for (const char *at = list; (at = strchr(at, ',')) != NULL; at++)
        count++;
    return list[0] != '\0' ? count : 0;
}

static void add(struct addresses *addresses, const struct address *address)
{
    if (addresses->count < ADDRESSES_MAX)
        addresses->list[addresses->count++] = *address;
}

/* A host that is not found is left to libpq, which says so. */
static void add_numbers(struct addresses *addresses, struct address *address)
{
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const bool has_name = address->number[0] == '\0' && address->host[0] != '\0' && address->host[0] != '/' &&
                          address->host[0] != '@';

    if (!has_name || getaddrinfo(address->host, NULL, &wanted, &found) != 0) {
        add(addresses, address);
        return;
    }
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        if (getnameinfo(at->ai_addr, at->ai_addrlen, address->number, sizeof(address->number), NULL, 0,
                        NI_NUMERICHOST) == 0)
            add(addresses, address);
    }
    freeaddrinfo(found);
}

static const char *value_of(const PQconninfoOption *options, const char *keyword)
{
    while (options->keyword != NULL && strcmp(options->keyword, keyword) != 0)
        options++;
    return options->keyword != NULL && options->val != NULL ? options->val : "";
}

/* None: up to libpq, its environment and its service file, and to complain of lists that do not match. */
static void find_addresses(const char *conninfo, struct addresses *out)
{
    PQconninfoOption *options = PQconninfoParse(conninfo, NULL);

    out->count = 0;
    if (options == NULL)
        return;
    const char *hosts = value_of(options, "host"), *numbers = value_of(options, "hostaddr");
    const size_t host_count = length_of(hosts), number_count = length_of(numbers);
    const size_t port_count = length_of(value_of(options, "port"));
    const size_t count = host_count > 0 ? host_count : number_count;
    const bool do_match =
        (number_count == 0 || number_count == count) && (port_count <= 1 || port_count == count);
    for (size_t i = 0; do_match && i < count; i++) {
        struct address address = {.host = ""};

        nth_of(hosts, i, address.host, sizeof(address.host));
        nth_of(numbers, i, address.number, sizeof(address.number));
        nth_of(value_of(options, "port"), i, address.port, sizeof(address.port));
        add_numbers(out, &address);
    }
    PQconninfoFree(options);
}

/* ---- logging in ---- */

/* The conninfo may override what stands before dbname, not what stands after it. libpq skips NULL and "". */
static PGconn *start(const struct pg_place *place, const struct address *address)
{
    const char *const role = place->standby_will_do ? NULL : "primary";
    const char *const names[] = {"fallback_application_name",
                                 "gssencmode",
                                 "keepalives_idle",
                                 "tcp_user_timeout",
                                 "dbname",
                                 "client_encoding",
                                 "target_session_attrs",
                                 "host",
                                 "hostaddr",
                                 "port",
                                 NULL};
    const char *const values[] = {"catalogd",      "disable",     "30", "10000",
                                  place->conninfo, "UTF8",        role, address->host,
                                  address->number, address->port, NULL};

    return PQconnectStartParams(names, values, 1);
}

/* libpq's words, with their SQLSTATE if they have one. */
static enum pg_outcome fault_login(const struct pg_wait *wait)
{
    char sqlstate[PG_STATE_SIZE] = "";
    const char *text = PQerrorMessage(wait->conn);
    enum pg_outcome outcome = PG_UNAVAILABLE;

    if (pg_error_find_state(text, sqlstate))
        outcome = pg_error_classify(sqlstate);
    return pg_fault_set(wait->fault, outcome, sqlstate, text);
}

static enum pg_outcome log_in_at(const struct pg_wait *wait)
{
    if (wait->conn == NULL)
        return pg_fault_set(wait->fault, PG_UNAVAILABLE, "", "out of memory");
    PQsetErrorVerbosity(wait->conn, PQERRORS_VERBOSE); /* for fault_login() */
    const enum pg_outcome outcome = wait_login(wait);
    if (outcome != PG_OK)
        return wait->fault->text[0] != '\0' ? outcome : fault_login(wait);
    PQsetErrorVerbosity(wait->conn, PQERRORS_DEFAULT);
    return PQsetnonblocking(wait->conn, 1) == 0 ? PG_OK : pg_wait_lost(wait);
}

/* ---- how long it lasts ---- */

static struct {
    pthread_mutex_t lock;
    uint64_t number, since_ms, ends_ms; /* under lock; the last: UINT64_MAX while none was found read-only */
} reign = {.lock = PTHREAD_MUTEX_INITIALIZER, .ends_ms = UINT64_MAX};

static uint64_t present_reign(void)
{
    const uint64_t now_ms = clock_ms();

    pthread_mutex_lock(&reign.lock);
    if (now_ms >= reign.ends_ms) {
        reign.number++;
        reign.since_ms = now_ms;
        reign.ends_ms = UINT64_MAX;
    }
    const uint64_t number = reign.number;
    pthread_mutex_unlock(&reign.lock);
    return number;
}

bool pg_session_is_over(const struct pg_life *life)
{
    return life->reign != present_reign() || clock_ms() >= life->until_ms;
}

/* One that comes too soon is put off, not dropped: pools that only read have no other way to hear of it. */
void pg_session_end_reign(const struct pg_life *life)
{
    const uint64_t now_ms = clock_ms();

    pthread_mutex_lock(&reign.lock);
    const uint64_t least_ms = reign.since_ms + REIGN_LEAST_MS;
    if (life->reign == reign.number && reign.ends_ms == UINT64_MAX)
        reign.ends_ms = now_ms > least_ms ? now_ms : least_ms;
    pthread_mutex_unlock(&reign.lock);
}

static void begin_life(struct pg_login *login, size_t at, uint64_t number)
{
    const uint32_t session_ms = login->place->session_ms;
    const uint64_t life_ms = session_ms - clock_fine_us() % (session_ms / AGE_SPREAD + 1);

    atomic_store(&login->place->first, at);
    login->life =
        (struct pg_life){.reign = number, .until_ms = session_ms > 0 ? clock_ms() + life_ms : UINT64_MAX};
}

/* At one address, with this share of the time left. */
static enum pg_outcome try_address(struct pg_login *login, const struct address *address, size_t share,
                                   struct pg_fault *fault)
{
    struct pg_wait *wait = login->wait;

    PQfinish(wait->conn);
    wait->conn = start(login->place, address);
    const struct pg_wait attempt = {.conn = wait->conn,
                                    .deadline_ms = clock_ms() + clock_left_ms(wait->deadline_ms) / share,
                                    .cancel_fd = wait->cancel_fd,
                                    .fault = fault,
                                    .late = wait->late};
    if (wait->conn != NULL)
        PQsetNoticeReceiver(wait->conn, login->hear_notice, login->context);
    return log_in_at(&attempt);
}

/* What a server has said is worth more than that another was not reached. */
static bool says_more(const struct pg_fault *fault, const struct pg_fault *than)
{
    return than->text[0] == '\0' || (than->sqlstate[0] == '\0' && fault->sqlstate[0] != '\0');
}

enum pg_outcome pg_session_log_in(struct pg_login *login)
{
    static const struct address any;
    const uint64_t number = present_reign(); /* first: what ends meanwhile is not this session's */
    enum pg_outcome outcome = PG_UNAVAILABLE;
    struct addresses addresses;

    find_addresses(login->place->conninfo, &addresses);
    if (addresses.count == 0)
        add(&addresses, &any);
    const size_t first = atomic_load(&login->place->first);
    for (size_t i = 0; i < addresses.count; i++) {
        const size_t at = (first + i) % addresses.count;
        struct pg_fault fault = {.text = ""};
        const enum pg_outcome tried = try_address(login, &addresses.list[at], addresses.count - i, &fault);

        if (tried == PG_OK || tried == PG_CANCELLED || says_more(&fault, login->wait->fault)) {
            *login->wait->fault = fault;
            outcome = tried;
        }
        if (tried == PG_OK)
            begin_life(login, at, number);
        if (tried == PG_OK || tried == PG_CANCELLED)
            break;
    }
    return outcome;
}
