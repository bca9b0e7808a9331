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
    HEAD_START_MS = 250,   /* of an attempt before the next one: the Connection Attempt Delay of RFC 8305 */
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

/* ---- at one address ---- */

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

struct attempt {
    PGconn *conn; /* owned; NULL: there was no memory */
    PostgresPollingStatusType state;
    enum pg_outcome outcome; /* once it has failed, */
    struct pg_fault fault;   /* and why */
};

/* In libpq's words, with their SQLSTATE if they have one. */
static void fail(struct attempt *attempt)
{
    char sqlstate[PG_STATE_SIZE] = "";
    const char *text = attempt->conn != NULL ? PQerrorMessage(attempt->conn) : "out of memory";
    enum pg_outcome outcome = PG_UNAVAILABLE;

    if (pg_error_find_state(text, sqlstate))
        outcome = pg_error_classify(sqlstate);
    attempt->state = PGRES_POLLING_FAILED;
    attempt->outcome = pg_fault_set(&attempt->fault, outcome, sqlstate, text);
}

static bool is_going(const struct attempt *attempt)
{
    return attempt->state != PGRES_POLLING_FAILED && attempt->state != PGRES_POLLING_OK;
}

static void begin(struct pg_login *login, const struct address *address, struct attempt *attempt)
{
    *attempt = (struct attempt){.conn = start(login->place, address), .state = PGRES_POLLING_WRITING};
    if (attempt->conn != NULL) {
        PQsetErrorVerbosity(attempt->conn, PQERRORS_VERBOSE); /* for fail() */
        PQsetNoticeReceiver(attempt->conn, login->hear_notice, login->context);
    }
    if (PQstatus(attempt->conn) == CONNECTION_BAD)
        fail(attempt);
}

static void go_on(struct attempt *attempt)
{
    attempt->state = PQconnectPoll(attempt->conn);
    if (attempt->state == PGRES_POLLING_OK && PQsetnonblocking(attempt->conn, 1) != 0)
        attempt->state = PGRES_POLLING_FAILED;
    if (attempt->state == PGRES_POLLING_FAILED)
        fail(attempt);
    else if (attempt->state == PGRES_POLLING_OK)
        PQsetErrorVerbosity(attempt->conn, PQERRORS_DEFAULT);
}

/* ---- at all of them ---- */

struct attempts {
    struct pg_login *login;
    struct addresses addresses;
    struct attempt list[ADDRESSES_MAX]; /* at the addresses, from `first` on */
    size_t first, count;
    uint32_t head_start_ms;
    uint64_t next_ms; /* when another one begins, unless the last of these has failed before */
};

enum { NOBODY = ADDRESSES_MAX };

static size_t address_of(const struct attempts *attempts, size_t attempt)
{
    return (attempts->first + attempt) % attempts->addresses.count;
}

static bool is_any_going(const struct attempts *attempts)
{
    size_t i = 0;

    while (i < attempts->count && !is_going(&attempts->list[i]))
        i++;
    return i < attempts->count;
}

/* False: there is no further address, or those before have a head start. */
static bool begin_next(struct attempts *attempts)
{
    const size_t next = attempts->count;

    if (next == attempts->addresses.count ||
        (next > 0 && is_going(&attempts->list[next - 1]) && clock_ms() < attempts->next_ms))
        return false;
    begin(attempts->login, &attempts->addresses.list[address_of(attempts, next)], &attempts->list[next]);
    attempts->count++;
    attempts->next_ms = clock_ms() + attempts->head_start_ms;
    return true;
}

/* Until some can go on, and they do, or the next one is to begin. Anything but PG_OK: the end. */
static enum pg_outcome carry_on(struct attempts *attempts)
{
    const struct pg_wait *wait = attempts->login->wait;
    const bool is_last = attempts->count == attempts->addresses.count;
    const uint64_t until_ms =
        is_last || wait->deadline_ms < attempts->next_ms ? wait->deadline_ms : attempts->next_ms;
    const uint32_t left_ms = clock_left_ms(until_ms);
    struct pollfd fds[ADDRESSES_MAX + 1];

    fds[attempts->count] = (struct pollfd){.fd = wait->cancel_fd, .events = POLLIN};
    for (size_t i = 0; i < attempts->count; i++) {
        const struct attempt *attempt = &attempts->list[i];
        fds[i] = (struct pollfd){.fd = is_going(attempt) ? PQsocket(attempt->conn) : -1,
                                 .events = attempt->state == PGRES_POLLING_READING ? POLLIN : POLLOUT};
    }
    const int ready = poll(fds, attempts->count + 1, left_ms > INT_MAX ? INT_MAX : (int)left_ms);
    if (ready < 0 && errno != EINTR)
        return pg_fault_set(wait->fault, PG_UNAVAILABLE, "", strerror(errno));
    if (fds[attempts->count].revents != 0)
        return pg_fault_set(wait->fault, PG_CANCELLED, "", "no longer wanted");
    for (size_t i = 0; i < attempts->count && ready > 0; i++) {
        if (fds[i].revents != 0)
            go_on(&attempts->list[i]);
    }
    return ready > 0 || clock_left_ms(wait->deadline_ms) > 0 ? PG_OK : PG_TIMEOUT;
}

/* The first that has come to a session. */
static size_t find_session(const struct attempts *attempts)
{
    for (size_t i = 0; i < attempts->count; i++) {
        if (attempts->list[i].state == PGRES_POLLING_OK)
            return i;
    }
    return NOBODY;
}

/* What a server has said is worth more than that another was not reached. */
static bool says_more(const struct pg_fault *fault, const struct pg_fault *than)
{
    return than->text[0] == '\0' || (than->sqlstate[0] == '\0' && fault->sqlstate[0] != '\0');
}

/* Why there is none: of those that have not failed, that they are late. */
static enum pg_outcome tell_why(struct attempts *attempts, enum pg_outcome ended)
{
    const struct pg_wait *wait = attempts->login->wait;
    enum pg_outcome outcome = PG_UNAVAILABLE;

    if (ended == PG_CANCELLED || ended == PG_UNAVAILABLE)
        return ended; /* which has been told */
    for (size_t i = 0; i < attempts->count; i++) {
        struct attempt *attempt = &attempts->list[i];
        if (is_going(attempt))
            attempt->outcome = pg_fault_set(&attempt->fault, PG_TIMEOUT, "", wait->late);
        if (!says_more(&attempt->fault, wait->fault))
            continue;
        *wait->fault = attempt->fault;
        outcome = attempt->outcome;
    }
    return outcome;
}

/* The others are given up. */
static void keep(struct attempts *attempts, size_t session)
{
    PQfinish(attempts->login->wait->conn);
    attempts->login->wait->conn = session != NOBODY ? attempts->list[session].conn : NULL;
    for (size_t i = 0; i < attempts->count; i++) {
        if (i != session)
            PQfinish(attempts->list[i].conn);
    }
}

static void prepare(struct attempts *attempts, struct pg_login *login)
{
    static const struct address any;

    attempts->login = login;
    attempts->count = 0;
    find_addresses(login->place->conninfo, &attempts->addresses);
    if (attempts->addresses.count == 0)
        add(&attempts->addresses, &any);
    attempts->first = atomic_load(&login->place->first);
    attempts->head_start_ms =
        clock_left_ms(login->wait->deadline_ms) / (uint32_t)(attempts->addresses.count + 1);
    if (attempts->head_start_ms > HEAD_START_MS)
        attempts->head_start_ms = HEAD_START_MS;
}

enum pg_outcome pg_session_log_in(struct pg_login *login)
{
    const uint64_t number = present_reign(); /* first: what ends meanwhile is not this session's */
    enum pg_outcome outcome = PG_OK;
    struct attempts attempts;

    prepare(&attempts, login);
    while (outcome == PG_OK && find_session(&attempts) == NOBODY) {
        if (begin_next(&attempts))
            continue; /* it may have failed already */
        if (!is_any_going(&attempts))
            break;
        outcome = carry_on(&attempts);
    }
    const size_t session = find_session(&attempts);
    if (session == NOBODY)
        outcome = tell_why(&attempts, outcome);
    else
        begin_life(login, address_of(&attempts, session), number);
    keep(&attempts, session);
    return outcome;
}
