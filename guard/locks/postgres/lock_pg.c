/* SPDX-License-Identifier: MIT */
/*
 * lock_pg.c - see lock_pg.h.
 *
 * libpq closes its socket, and may open another with the same number, inside almost any call. So the socket is
 * watched only between two calls: it is let go of before the first, watch_pg() after the last.
 */
#include "lock_pg.h"
#include <assert.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <libpq-fe.h>

/* Of the addresses: the one from which the last login came through; for all connections, which lead to one database
 * or begin with another of their own. */
static atomic_size_t first_host;

/* ---- texts ---- */

/* libpq's messages have several lines: "one; two". At full verbosity one names a place in PostgreSQL's source. */
static void add_pg_lines(const char *text, char why[LOCK_PG_WHY_SIZE])
{
    static const char place[] = "LOCATION:";
    size_t used = strlen(why);
    while (*text != '\0' && used + 1 < LOCK_PG_WHY_SIZE) {
        size_t line_bytes = strcspn(text, "\n");
        if (strncmp(text, place, sizeof place - 1) == 0)
            return;
        used += (size_t)snprintf(why + used, LOCK_PG_WHY_SIZE - used, "%.*s", (int)line_bytes, text);
        text += line_bytes;
        text += strspn(text, "\n\t ");
        if (*text != '\0' && strncmp(text, place, sizeof place - 1) != 0 && used + 1 < LOCK_PG_WHY_SIZE)
            used += (size_t)snprintf(why + used, LOCK_PG_WHY_SIZE - used, "; ");
    }
}

void lock_pg_explain(const struct lock_pg *pg, const char *what, char why[LOCK_PG_WHY_SIZE])
{
    const char *host = pg->conn != NULL ? PQhost(pg->conn) : "";
    const char *port = pg->conn != NULL ? PQport(pg->conn) : "";
    snprintf(why, LOCK_PG_WHY_SIZE, "PostgreSQL %s:%s: ", host, port);
    add_pg_lines(what, why);
}

/* From where libpq quotes more than a character on, it may be a password. */
static void cut_at_quoted(char *text)
{
    for (char *at = text; (at = strchr(at, '"')) != NULL; at += 3) {
        if (at[1] != '\0' && at[2] == '"')
            continue;
        snprintf(at, LOCK_PG_WHY_SIZE - (size_t)(at - text), "...");
        return;
    }
}

/* An '@' begins an abstract socket, and is in no other name of a host. */
static bool is_no_host(const char *hosts)
{
    for (const char *at = hosts; (at = strchr(at, '@')) != NULL; at++) {
        if (at != hosts && at[-1] != ',')
            return true;
    }
    return false;
}

/* libpq takes what is behind a '/' or '@' of a password for a port or a host, and tells it with them. */
static const char *find_misread_password(const PQconninfoOption *option)
{
    for (; option != NULL && option->keyword != NULL; option++) {
        const char *value = option->val != NULL ? option->val : "";
        bool is_port = strcmp(option->keyword, "port") == 0, is_host = strcmp(option->keyword, "host") == 0;
        if (is_port && value[strspn(value, "0123456789, ")] != '\0')
            return "its port is no number; a password with / or @ in it is written with %2F, %40";
        if (is_host && is_no_host(value))
            return "its host has an @ in it; a password with / or @ in it is written with %2F, %40";
    }
    return NULL;
}

bool lock_pg_check(const char *url, char why[LOCK_PG_WHY_SIZE])
{
    char *problem = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &problem);
    const char *misread = find_misread_password(options);
    bool is_right = options != NULL && misread == NULL;
    why[0] = '\0';
    add_pg_lines(problem != NULL ? problem : "out of memory", why);
    cut_at_quoted(why);
    if (misread != NULL)
        snprintf(why, LOCK_PG_WHY_SIZE, "%s", misread);
    PQfreemem(problem);
    PQconninfoFree(options);
    return is_right;
}

/* ---- the end ---- */

void lock_pg_close(struct lock_pg *pg)
{
    if (pg->state == LOCK_PG_CLOSED)
        return;
    host_watch(pg->host, &pg->watch, 0);
    host_soon_stop(&pg->failing);
    PQclear(pg->result);
    PQfinish(pg->conn);
    pg->result = NULL;
    pg->conn = NULL;
    pg->state = LOCK_PG_CLOSED;
}

/* The farewell says more than "server closed the connection unexpectedly". */
static void lose_pg(struct lock_pg *pg, const char *what, const char *sqlstate)
{
    char why[LOCK_PG_WHY_SIZE], state[LOCK_PG_STATE_SIZE];
    if (pg->farewell[0] != '\0')
        snprintf(why, sizeof why, "%s", pg->farewell);
    else
        lock_pg_explain(pg, what, why);
    snprintf(state, sizeof state, "%s", pg->farewell[0] != '\0' ? pg->farewell_state : sqlstate);
    lock_pg_close(pg);
    pg->heard(pg->context, &(struct lock_pg_event){.kind = LOCK_PG_LOST, .why = why, .sqlstate = state});
}

/* libpq has no accessor for the SQLSTATE of a refused login; at full verbosity its text has one. "": it was not
 * reached. */
static void find_login_state(const char *text, char state[LOCK_PG_STATE_SIZE])
{
    static const char mark[] = "FATAL:  ";
    state[0] = '\0';
    for (const char *at = text; (at = strstr(at, mark)) != NULL;) {
        at += sizeof mark - 1;
        if (strspn(at, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == LOCK_PG_STATE_SIZE - 1)
            snprintf(state, LOCK_PG_STATE_SIZE, "%s", at);
    }
}

static void lose_pg_connection(struct lock_pg *pg)
{
    const char *text = pg->conn != NULL ? PQerrorMessage(pg->conn) : "out of memory";
    char state[LOCK_PG_STATE_SIZE] = "";
    if (pg->state == LOCK_PG_CONNECTING)
        find_login_state(text, state);
    lose_pg(pg, *text != '\0' ? text : "the connection is lost", state);
}

static void fail_pg_now(void *context)
{
    lose_pg_connection(context);
}

/* ---- hearing ---- */

static void watch_pg(struct lock_pg *pg, unsigned events)
{
    pg->watch.fd = PQsocket(pg->conn);
    if (pg->watch.fd < 0 || host_watch(pg->host, &pg->watch, events) != 0)
        host_soon(pg->host, &pg->failing);
}

static const char *pg_field(const PGresult *result, int code, const char *otherwise)
{
    const char *text = PQresultErrorField(result, code);
    return text != NULL ? text : otherwise;
}

static bool pg_is_fatal(const PGresult *result)
{
    const char *severity = pg_field(result, PG_DIAG_SEVERITY_NONLOCALIZED, "");
    return strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0;
}

/* An error that comes while no statement runs arrives as a notice. Without a receiver libpq prints them. */
static void hear_pg_notice(void *context, const PGresult *notice)
{
    struct lock_pg *pg = context;
    if (!pg_is_fatal(notice))
        return;
    lock_pg_explain(pg, pg_field(notice, PG_DIAG_MESSAGE_PRIMARY, "farewell"), pg->farewell);
    snprintf(pg->farewell_state, sizeof pg->farewell_state, "%s", pg_field(notice, PG_DIAG_SQLSTATE, ""));
}

/* Each turn of the login ends with what it waits for. */
static void go_on_connecting_to_pg(struct lock_pg *pg)
{
    switch (PQconnectPoll(pg->conn)) {
    case PGRES_POLLING_READING:
        watch_pg(pg, GUARD_HOST_READABLE);
        return;
    case PGRES_POLLING_OK:
        break;
    case PGRES_POLLING_FAILED:
        lose_pg_connection(pg);
        return;
    default:
        watch_pg(pg, GUARD_HOST_WRITABLE);
        return;
    }
    if (PQsetnonblocking(pg->conn, 1) != 0) {
        lose_pg_connection(pg);
        return;
    }
    pg->state = LOCK_PG_IDLE;
    atomic_store(&first_host, (pg->first + pg->tried) % pg->host_count);
    PQsetErrorVerbosity(pg->conn, PQERRORS_DEFAULT);
    watch_pg(pg, GUARD_HOST_READABLE);
    pg->heard(pg->context, &(struct lock_pg_event){.kind = LOCK_PG_UP});
}

/* Nothing of the result may be used once the callback has closed the connection: it is taken from it first. */
static void tell_pg_result(struct lock_pg *pg)
{
    PGresult *result = pg->result;
    ExecStatusType status = PQresultStatus(result);
    struct lock_pg_event event = {.kind = LOCK_PG_ROWS, .rows = (const struct lock_pg_rows *)result};
    char why[LOCK_PG_WHY_SIZE];
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        lock_pg_explain(pg, pg_field(result, PG_DIAG_MESSAGE_PRIMARY, PQresultErrorMessage(result)), why);
        event = (struct lock_pg_event){
            .kind = LOCK_PG_REFUSED, .why = why, .sqlstate = pg_field(result, PG_DIAG_SQLSTATE, "")};
    }
    pg->result = NULL;
    pg->state = LOCK_PG_IDLE;
    pg->heard(pg->context, &event);
    PQclear(result);
}

/* True: all of the statement is there. An error is followed by nothing of worth. */
static bool take_pg_results(struct lock_pg *pg)
{
    while (!PQisBusy(pg->conn)) {
        PGresult *next = PQgetResult(pg->conn);
        if (next == NULL)
            return pg->state == LOCK_PG_RUNNING;
        if (pg->result == NULL)
            pg->result = next;
        else
            PQclear(next);
    }
    return false;
}

/* The last word of a connection that ends in the middle of a statement is its result. */
static void lose_pg_running(struct lock_pg *pg)
{
    PGresult *last = pg->result;
    pg->result = NULL;
    const char *text = last != NULL ? pg_field(last, PG_DIAG_MESSAGE_PRIMARY, "") : "";
    if (*text != '\0')
        lose_pg(pg, text, pg_field(last, PG_DIAG_SQLSTATE, ""));
    else
        lose_pg_connection(pg);
    PQclear(last);
}

static void hear_pg_server(struct lock_pg *pg)
{
    bool is_alive = PQconsumeInput(pg->conn) == 1;
    int unsent = PQflush(pg->conn);
    bool is_whole = take_pg_results(pg);
    bool is_over = !is_alive || unsent < 0 || PQstatus(pg->conn) != CONNECTION_OK ||
                   (pg->result != NULL && pg_is_fatal(pg->result)) || pg->farewell[0] != '\0';
    if (is_over) {
        lose_pg_running(pg);
        return;
    }
    watch_pg(pg, unsent > 0 ? GUARD_HOST_READABLE | GUARD_HOST_WRITABLE : GUARD_HOST_READABLE);
    if (is_whole)
        tell_pg_result(pg);
}

static void hear_pg_socket(void *context, unsigned events)
{
    struct lock_pg *pg = context;
    (void)events; /* libpq finds out what it is */
    host_watch(pg->host, &pg->watch, 0);
    if (pg->state == LOCK_PG_CONNECTING)
        go_on_connecting_to_pg(pg);
    else
        hear_pg_server(pg);
}

/* ---- saying: which hosts ---- */

enum { HOSTS_MAX = 16, HOST_BYTES = 256 };

/* Parallel lists as libpq takes them. */
struct pg_hosts {
    char host[HOSTS_MAX][HOST_BYTES], number[HOSTS_MAX][HOST_BYTES], port[HOSTS_MAX][8];
    size_t count;
};

static const char *pg_option(const PQconninfoOption *options, const char *keyword)
{
    while (options->keyword != NULL && strcmp(options->keyword, keyword) != 0)
        options++;
    return options->keyword != NULL && options->val != NULL ? options->val : "";
}

/* Of a list with commas, the last one of which holds for all that follow. */
static void copy_item(const char *list, size_t at, char *out, size_t out_bytes)
{
    for (; at > 0 && strchr(list, ',') != NULL; at--)
        list = strchr(list, ',') + 1;
    snprintf(out, out_bytes, "%.*s", (int)strcspn(list, ","), list);
}

static void add_pg_host(struct pg_hosts *hosts, const char *host, const char *number, const char *port)
{
    if (hosts->count == HOSTS_MAX)
        return;
    snprintf(hosts->host[hosts->count], sizeof hosts->host[0], "%s", host);
    snprintf(hosts->number[hosts->count], sizeof hosts->number[0], "%s", number);
    snprintf(hosts->port[hosts->count], sizeof hosts->port[0], "%s", port);
    hosts->count++;
}

/* A name that is not found is left to libpq, which says so. */
static void add_pg_addresses(struct pg_hosts *hosts, const char *host, const char *number, const char *port)
{
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char text[HOST_BYTES];
    bool is_name = *number == '\0' && *host != '\0' && *host != '/' && *host != '@';
    if (!is_name || getaddrinfo(host, NULL, &wanted, &found) != 0) {
        add_pg_host(hosts, host, number, port);
        return;
    }
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        if (getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0)
            add_pg_host(hosts, host, text, port);
    }
    freeaddrinfo(found);
}

/* None: up to libpq and its environment. */
static void find_pg_hosts(const char *url, struct pg_hosts *out)
{
    PQconninfoOption *options = PQconninfoParse(url, NULL);
    out->count = 0;
    if (options == NULL)
        return;
    const char *hosts = pg_option(options, "host"), *numbers = pg_option(options, "hostaddr");
    const char *longer = strlen(hosts) > 0 ? hosts : numbers;
    for (size_t i = 0; longer != NULL && *longer != '\0'; i++) {
        char host[HOST_BYTES], number[HOST_BYTES], port[8];
        copy_item(hosts, i, host, sizeof host);
        copy_item(numbers, i, number, sizeof number);
        copy_item(pg_option(options, "port"), i, port, sizeof port);
        add_pg_addresses(out, host, number, port);
        longer = strchr(longer, ',') != NULL ? strchr(longer, ',') + 1 : NULL;
    }
    PQconninfoFree(options);
}

/* All of them, from this one on. */
static void join_pg_hosts(const struct pg_hosts *hosts, size_t first, char *host, char *number, char *port,
                          size_t bytes)
{
    size_t used[3] = {0, 0, 0};
    for (size_t i = 0; i < hosts->count; i++) {
        size_t at = (first + i) % hosts->count;
        const char *comma = i > 0 ? "," : "";
        used[0] += (size_t)snprintf(host + used[0], bytes - used[0], "%s%s", comma, hosts->host[at]);
        used[1] += (size_t)snprintf(number + used[1], bytes - used[1], "%s%s", comma, hosts->number[at]);
        used[2] += (size_t)snprintf(port + used[2], bytes - used[2], "%s%s", comma, hosts->port[at]);
    }
}

/* What stands before dbname may be set by the connection string, what stands behind it not. Dead peers are found out
 * by keepalives, and by tcp_user_timeout when something is on its way. */
static PGconn *start_connecting_to_pg(struct lock_pg *pg)
{
    static const char *const names[] = {"fallback_application_name",
                                        "gssencmode",
                                        "keepalives_idle",
                                        "keepalives_interval",
                                        "keepalives_count",
                                        "tcp_user_timeout",
                                        "dbname",
                                        "client_encoding",
                                        "host",
                                        "hostaddr",
                                        "port",
                                        NULL};
    enum { LIST_BYTES = HOSTS_MAX * (HOST_BYTES + 1) };
    char host[LIST_BYTES] = "", number[LIST_BYTES] = "", port[LIST_BYTES] = "";
    struct pg_hosts hosts;
    find_pg_hosts(pg->url, &hosts);
    pg->host_count = hosts.count > 0 ? hosts.count : 1;
    if (hosts.count > 1)
        join_pg_hosts(&hosts, pg->first + pg->tried, host, number, port, LIST_BYTES);
    const char *const values[] = {"stampede-guard", "disable", "5",  "2",    "3",  "10000",
                                  pg->url,          "UTF8",    host, number, port, NULL};
    return PQconnectStartParams(names, values, 1);
}

static void begin_connecting(struct lock_pg *pg)
{
    pg->conn = start_connecting_to_pg(pg);
    if (pg->conn == NULL || PQstatus(pg->conn) == CONNECTION_BAD) {
        host_soon(pg->host, &pg->failing);
        return;
    }
    PQsetNoticeReceiver(pg->conn, hear_pg_notice, pg);
    PQsetErrorVerbosity(pg->conn, PQERRORS_VERBOSE); /* for find_login_state() */
    watch_pg(pg, GUARD_HOST_WRITABLE);
}

void lock_pg_connect(struct lock_pg *pg, const char *url)
{
    assert(pg->state == LOCK_PG_CLOSED);
    pg->state = LOCK_PG_CONNECTING;
    pg->url = url;
    pg->tried = 0;
    pg->first = atomic_load(&first_host);
    pg->farewell[0] = '\0';
    pg->watch = (struct guard_watch){.ready = hear_pg_socket, .context = pg};
    pg->failing = (struct host_soon){.run = fail_pg_now, .context = pg};
    begin_connecting(pg);
}

bool lock_pg_try_next(struct lock_pg *pg)
{
    const char *url = pg->url;
    if (pg->state != LOCK_PG_CONNECTING || pg->tried + 1 >= pg->host_count)
        return false;
    size_t tried = pg->tried + 1;
    lock_pg_close(pg);
    pg->state = LOCK_PG_CONNECTING;
    pg->url = url;
    pg->tried = tried;
    begin_connecting(pg);
    return true;
}

void lock_pg_run(struct lock_pg *pg, const char *statement, const char *const *params, size_t param_count)
{
    assert(pg->state == LOCK_PG_IDLE);
    pg->state = LOCK_PG_RUNNING;
    host_watch(pg->host, &pg->watch, 0);
    int sent = PQsendQueryParams(pg->conn, statement, (int)param_count, NULL, params, NULL, NULL, 0);
    int unsent = sent == 1 ? PQflush(pg->conn) : -1;
    if (unsent < 0)
        host_soon(pg->host, &pg->failing);
    else
        watch_pg(pg, unsent > 0 ? GUARD_HOST_READABLE | GUARD_HOST_WRITABLE : GUARD_HOST_READABLE);
}

/* ---- what it said ---- */

const char *lock_pg_text(const struct lock_pg_rows *rows, size_t row, size_t column)
{
    return PQgetvalue((const PGresult *)rows, (int)row, (int)column);
}

bool lock_pg_true(const struct lock_pg_rows *rows, size_t row, size_t column)
{
    return strcmp(lock_pg_text(rows, row, column), "t") == 0;
}

size_t lock_pg_row_count(const struct lock_pg_rows *rows)
{
    return (size_t)PQntuples((const PGresult *)rows);
}

int lock_pg_version(const struct lock_pg *pg)
{
    return PQserverVersion(pg->conn);
}

int lock_pg_backend(const struct lock_pg *pg)
{
    return PQbackendPID(pg->conn);
}
