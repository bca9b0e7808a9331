/* SPDX-License-Identifier: MIT */
/*
 * pg.c - see pg.h.
 *
 * A link is one connection of the pool, a query is one pg_query() on it. The functions from take_rows() to
 * run_statement() are the levels of a query; each returns an outcome, and anything but PG_OK ends the query.
 *
 * Locking: the pool's lock guards only the stack of idle links. A link belongs to the query that took it.
 */
#include "app/pg/pg.h"

#include "app/base/clock.h"
#include "app/base/log.h"
#include "app/base/number.h"
#include "app/pg/pg_session.h"

#include <assert.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { LIMITS_BYTES = 512, TRANSACTION_TIMEOUT_SINCE = 170000 };

struct link {
    PGconn *conn;           /* owned; NULL: none */
    uint32_t prepared_bits; /* statements this session knows */
    bool ready;             /* login done, session set up */
    bool dying;             /* the server said farewell */
    struct pg_life life;
    struct link *next; /* in the stack of idle links */
};

struct pg_pool {
    struct pg_config config;
    char *conninfo; /* owned, a copy */
    struct pg_place place;
    struct link *links; /* owned, connection_count of them */
    _Atomic enum pg_state state;
    pthread_mutex_t lock;
    struct link *idle; /* under lock */
};

struct query {
    struct pg_pool *pool;
    struct link *link;
    const struct pg_request *request;
    struct pg_wait wait; /* its connection is the link's */
    struct rows *rows;
    char *commented; /* owned: the statement's text with the comment; NULL: there is none */
    bool executing;  /* the statement itself may have reached the server */
    bool answered;   /* the server has answered something in this query */
};

/* ---- faults ---- */

/* Only the primary message: DETAIL may quote a row. */
static enum pg_outcome fault_result(struct query *query, const PGresult *result)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    if (sqlstate == NULL)
        return pg_wait_lost(&query->wait); /* libpq's own: the connection broke */
    query->answered = true;
    return pg_fault_set(query->wait.fault, pg_error_classify(sqlstate), sqlstate,
                        text != NULL ? text : "error without text");
}

/* ---- results ---- */

static bool add_row(struct rows *rows, const PGresult *result, int row)
{
    bool added = true;

    for (int column = 0; column < PQnfields(result) && added; column++) {
        bool null = PQgetisnull(result, row, column) == 1;

        added = rows_add(rows, null ? NULL : PQgetvalue(result, row, column),
                         (size_t)PQgetlength(result, row, column));
    }
    return added;
}

/* `rows` may be NULL: the result is of no interest. */
static enum pg_outcome take_rows(struct query *query, const PGresult *result, struct rows *rows)
{
    query->answered = true;
    if (rows == NULL)
        return PG_OK;
    if (rows->row_count == 0)
        rows_reset(rows, (size_t)PQnfields(result));
    for (int row = 0; row < PQntuples(result); row++) {
        if (!add_row(rows, result, row)) {
            return pg_fault_set(query->wait.fault, PG_REJECTED, "",
                                rows->over_limit ? "the result is too large" : "no memory for the result");
        }
    }
    return PG_OK;
}

static enum pg_outcome take_result(struct query *query, const PGresult *result, struct rows *rows)
{
    switch (PQresultStatus(result)) {
    case PGRES_SINGLE_TUPLE:
    case PGRES_TUPLES_OK:
        return take_rows(query, result, rows);
    case PGRES_COMMAND_OK:
    case PGRES_PIPELINE_SYNC:
        query->answered = true;
        return PG_OK;
    case PGRES_PIPELINE_ABORTED: /* what aborted it has been reported */
        return PG_REJECTED;
    default:
        return fault_result(query, result);
    }
}

/* All results of one statement. An error from the server is read to its end, so that the connection stays usable;
 * anything else ends the query, and the connection, at once. */
static enum pg_outcome take_results(struct query *query, struct rows *rows)
{
    enum pg_outcome first = PG_OK;

    for (;;) {
        PGresult *result = NULL;
        enum pg_outcome outcome = pg_wait_result(&query->wait, &result);

        if (outcome != PG_OK)
            return outcome;
        if (result == NULL)
            return first;
        outcome = take_result(query, result, rows);
        bool row_too_many = outcome != PG_OK && PQresultStatus(result) == PGRES_SINGLE_TUPLE;
        bool sync = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        PQclear(result);
        if (row_too_many || sync)
            return outcome;
        first = first != PG_OK ? first : outcome;
    }
}

static enum pg_outcome send_and_take(struct query *query, int sent)
{
    if (sent == 0)
        return pg_wait_lost(&query->wait);
    enum pg_outcome outcome = pg_wait_flush(&query->wait);
    return outcome != PG_OK ? outcome : take_results(query, NULL);
}

/* ---- connecting ---- */

static void hear_notice(void *context, const PGresult *notice)
{
    struct link *link = context;
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);

    if (severity != NULL && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
        link->dying = true; /* an error between queries arrives as a notice */
}

static enum pg_outcome log_in(struct query *query)
{
    struct link *link = query->link;
    struct pg_login login = {
        .place = &query->pool->place, .wait = &query->wait, .hear_notice = hear_notice, .context = link};
    const enum pg_outcome outcome = pg_session_log_in(&login);

    link->conn = query->wait.conn;
    link->life = login.life;
    link->dying = false; /* what another host may have said */
    return outcome;
}

/* Limits and safety of a session, once per connection. */
enum { OF_READERS = 1, OF_WRITERS = 2, OF_ALL = 3 };
static const struct {
    const char *name, *value; /* NULL: the number of struct pg_config that is at `offset` */
    size_t offset;
    unsigned whose;
    int server_version;
    bool required;
} session_settings[] = {
    {"statement_timeout", NULL, offsetof(struct pg_config, statement_limit_ms), OF_ALL, 0, true},
    /* Each buyer sees the one before it. */
    {"default_transaction_isolation", "read committed", 0, OF_ALL, 0, true},
    /* Ours come first, and leave the session be. */
    {"transaction_timeout", "0", 0, OF_ALL, TRANSACTION_TIMEOUT_SINCE, true},
    {"default_transaction_read_only", "on", 0, OF_READERS, 0, true},
    {"lock_timeout", NULL, offsetof(struct pg_config, lock_limit_ms), OF_WRITERS, 0, true},
    {"catalogd.pays_ms", NULL, offsetof(struct pg_config, pays_ms), OF_WRITERS, 0, true},
    /* Refused by servers on platforms that cannot see a closed connection. */
    {"client_connection_check_interval", "1000", 0, OF_ALL, 140000, false},
};

static enum pg_outcome set_setting(struct query *query, size_t at)
{
    const char *field = (const char *)&query->pool->config + session_settings[at].offset;
    const char *value = session_settings[at].value;
    char number[NUMBER_SIZE];
    const char *const params[] = {
        session_settings[at].name,
        value != NULL ? value : number_print(*(const uint32_t *)(const void *)field, number)};
    const int sent =
        PQsendQueryParams(query->wait.conn, "SELECT pg_catalog.set_config($1::text, $2::text, false)", 2,
                          NULL, params, NULL, NULL, 0);

    return send_and_take(query, sent);
}

static enum pg_outcome set_up_session(struct query *query)
{
    unsigned whose = query->pool->config.writes ? OF_WRITERS : OF_READERS;

    for (size_t i = 0; i < sizeof(session_settings) / sizeof(session_settings[0]); i++) {
        if (PQserverVersion(query->wait.conn) < session_settings[i].server_version ||
            (session_settings[i].whose & whose) == 0)
            continue;
        enum pg_outcome outcome = set_setting(query, i);
        bool refused = outcome != PG_OK && query->wait.fault->sqlstate[0] != '\0';
        if (outcome != PG_OK && (session_settings[i].required || !refused))
            return outcome;
        *query->wait.fault = (struct pg_fault){0};
    }
    return PG_OK;
}

static enum pg_outcome connect_link(struct query *query)
{
    query->wait.late = "no login in time";
    enum pg_outcome outcome = log_in(query);
    if (outcome == PG_OK && query->pool->config.prepare)
        outcome = set_up_session(query);
    query->link->ready = outcome == PG_OK;
    return outcome;
}

/* Reset rather than closed while it is busy, so that the server notices at once. */
static void drop_link(struct link *link, bool busy)
{
    if (link->conn == NULL)
        return;
    if (busy && link->ready) {
        struct linger reset = {.l_onoff = 1, .l_linger = 0};

        pg_cancel_send(link->conn);
        setsockopt(PQsocket(link->conn), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    }
    PQfinish(link->conn);
    *link = (struct link){0};
}

/* A pooled connection that the server has closed meanwhile shows it by being readable. */
static bool link_is_alive(struct link *link)
{
    struct pollfd fd = {.fd = PQsocket(link->conn), .events = POLLIN};

    while (poll(&fd, 1, 0) > 0) {
        if (PQconsumeInput(link->conn) == 0)
            return false;
        (void)PQisBusy(link->conn); /* parses what came, which may be a farewell */
        if (link->dying)
            return false;
    }
    return !link->dying && PQstatus(link->conn) == CONNECTION_OK;
}

/* ---- one statement ---- */

static const struct pg_statement *statement_of(const struct query *query)
{
    return &query->pool->config.statements[query->request->statement];
}

static bool is_prepared(const struct query *query)
{
    return query->pool->config.prepare && query->commented == NULL;
}

static bool send_unprepared(const struct query *query)
{
    const struct pg_statement *statement = statement_of(query);
    const char *text = query->commented != NULL ? query->commented : statement->text;

    return PQsendQueryParams(query->wait.conn, text, (int)statement->param_count, NULL,
                             query->request->params, NULL, NULL, 0) == 1;
}

static enum pg_outcome prepare_statement(struct query *query)
{
    const struct pg_statement *statement = statement_of(query);
    uint32_t bit = UINT32_C(1) << query->request->statement;

    if ((query->link->prepared_bits & bit) != 0)
        return PG_OK;
    int sent = PQsendPrepare(query->wait.conn, statement->name, statement->text, 0, NULL);
    enum pg_outcome outcome = send_and_take(query, sent);
    if (outcome == PG_OK)
        query->link->prepared_bits |= bit;
    return outcome;
}

static bool send_prepared(const struct query *query)
{
    const struct pg_statement *statement = statement_of(query);

    return PQsendQueryPrepared(query->wait.conn, statement->name, (int)statement->param_count,
                               query->request->params, NULL, NULL, 0) == 1;
}

/* The session has its limits. */
static enum pg_outcome run_in_session(struct query *query)
{
    const bool prepared = is_prepared(query);
    enum pg_outcome outcome = prepared ? prepare_statement(query) : PG_OK;

    if (outcome != PG_OK)
        return outcome;
    query->executing = true;
    if (!(prepared ? send_prepared(query) : send_unprepared(query)))
        return pg_wait_lost(&query->wait);
    (void)PQsetSingleRowMode(query->wait.conn); /* so that rows are counted as they come */
    outcome = pg_wait_flush(&query->wait);
    return outcome != PG_OK ? outcome : take_results(query, query->rows);
}

/* In a pipeline everything up to the sync is one transaction: the limits hold for the statement and end with it. */
static bool send_limits(struct query *query)
{
    static const char reading[] = "pg_catalog.set_config('transaction_read_only', 'on', true)";
    static const char writing[] = "pg_catalog.set_config('lock_timeout', $2::text, true),"
                                  " pg_catalog.set_config('catalogd.pays_ms', $3::text, true)";
    static const char no_other[] = ", pg_catalog.set_config('transaction_timeout', '0', true)";
    const struct pg_config *config = &query->pool->config;
    char statement[LIMITS_BYTES], limit[NUMBER_SIZE], lock_limit[NUMBER_SIZE], pays[NUMBER_SIZE];
    const uint32_t left = clock_left_ms(query->wait.deadline_ms);
    const char *const params[] = {number_print(left > 0 ? left : 1, limit), /* 0 would mean no limit */
                                  number_print(config->lock_limit_ms, lock_limit),
                                  number_print(config->pays_ms, pays)};

    snprintf(statement, sizeof(statement),
             "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.set_config('statement_timeout', $1::text, "
             "true), %s%s",
             config->writes ? writing : reading,
             PQserverVersion(query->wait.conn) >= TRANSACTION_TIMEOUT_SINCE ? no_other : "");
    return PQsendQueryParams(query->wait.conn, statement, config->writes ? 3 : 1, NULL, params, NULL, NULL,
                             0) == 1;
}

/* The login may have been at the primary; the pooler leads each statement where it likes. Nothing of a standby
 * counts. */
static enum pg_outcome take_limits(struct query *query)
{
    struct rows rows;

    rows_init(&rows, LIMITS_BYTES);
    enum pg_outcome outcome = take_results(query, &rows);
    const char *is_standby = outcome == PG_OK && rows.row_count > 0 ? rows_text(&rows, 0, 0) : "f";
    if (strcmp(is_standby, "t") == 0 && !query->pool->config.standby_will_do) {
        query->executing = false;
        query->link->dying = true;
        outcome = pg_fault_set(query->wait.fault, PG_UNAVAILABLE, "", "the pooler leads to a standby");
    }
    rows_clear(&rows);
    return outcome;
}

static bool send_pipeline(struct query *query)
{
    PGconn *conn = query->wait.conn;

    return PQenterPipelineMode(conn) == 1 && send_limits(query) && send_unprepared(query) &&
           PQpipelineSync(conn) == 1;
}

static enum pg_outcome run_pipelined(struct query *query)
{
    PGconn *conn = query->wait.conn;

    query->executing = true;
    if (!send_pipeline(query))
        return pg_wait_lost(&query->wait);
    enum pg_outcome outcome = pg_wait_flush(&query->wait);
    if (outcome != PG_OK)
        return outcome;
    enum pg_outcome limits = take_limits(query);
    if (limits != PG_OK && query->wait.fault->sqlstate[0] == '\0')
        return limits;
    (void)PQsetSingleRowMode(conn);
    outcome = take_results(query, query->rows);
    if (outcome != PG_OK && limits == PG_OK && query->wait.fault->sqlstate[0] == '\0')
        return outcome;
    outcome = limits != PG_OK ? limits : outcome;
    enum pg_outcome sync = take_results(query, NULL);
    if (sync != PG_OK || PQexitPipelineMode(conn) != 1)
        return outcome != PG_OK ? outcome : pg_wait_lost(&query->wait);
    return outcome;
}

static enum pg_outcome run_statement(struct query *query)
{
    rows_reset(query->rows, 0);
    return query->pool->config.prepare ? run_in_session(query) : run_pipelined(query);
}

/* ---- a query ---- */

/* The session forgot the statement, or the tables changed under its plan. It was refused when it was bound, so it was
 * not run, and a new connection prepares it anew. */
static bool prepared_is_outdated(const struct query *query)
{
    const char *sqlstate = query->wait.fault->sqlstate;

    return is_prepared(query) && query->rows->row_count == 0 &&
           (strcmp(sqlstate, "26000") == 0 || strcmp(sqlstate, "0A000") == 0);
}

/* What says so is fenced, or only a standby: another may be the primary by now. */
static const char READ_ONLY[] = "25006";

/* One try. *again: nothing was run, and the connection was an old one. */
static enum pg_outcome try_query(struct query *query, bool *again)
{
    struct link *link = query->link;

    *again = false;
    if (link->conn != NULL && (pg_session_is_over(&link->life) || !link_is_alive(link)))
        drop_link(link, false);
    query->wait.conn = link->conn;
    const bool pooled = link->conn != NULL;
    enum pg_outcome outcome = pooled ? PG_OK : connect_link(query);
    query->wait.late = "no answer in time";
    if (outcome == PG_OK)
        outcome = run_statement(query);
    if (outcome == PG_OK)
        return outcome;
    bool lost = outcome == PG_UNAVAILABLE && query->wait.fault->sqlstate[0] == '\0';
    bool read_only = query->pool->config.writes && strcmp(query->wait.fault->sqlstate, READ_ONLY) == 0;
    if (read_only)
        pg_session_end_reign(&link->life);
    *again = pooled && ((lost && !query->executing) || prepared_is_outdated(query) || read_only);
    return outcome;
}

/* Usable again only if the server is known to wait for the next statement. */
static bool link_is_idle(const struct link *link)
{
    return link->conn != NULL && link->ready && !link->dying && PQstatus(link->conn) == CONNECTION_OK &&
           PQtransactionStatus(link->conn) == PQTRANS_IDLE && PQpipelineStatus(link->conn) == PQ_PIPELINE_OFF;
}

static enum pg_outcome run_query(struct query *query)
{
    bool again;
    enum pg_outcome outcome = try_query(query, &again);

    if (again) {
        drop_link(query->link, false);
        *query->wait.fault = (struct pg_fault){0};
        query->executing = false;
        outcome = try_query(query, &again);
    }
    if (!link_is_idle(query->link))
        drop_link(query->link, outcome == PG_TIMEOUT || outcome == PG_CANCELLED || query->executing);
    return outcome;
}

/* ---- the pool ---- */

bool pg_pool_open(const struct pg_config *config, struct pg_pool **out)
{
    assert(config->connection_count > 0 && config->statement_count <= PG_STATEMENTS_MAX);
    struct pg_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        return false;
    pool->config = *config;
    pool->conninfo = strdup(config->conninfo);
    pool->place = (struct pg_place){.conninfo = pool->conninfo,
                                    .standby_will_do = config->standby_will_do,
                                    .session_ms = config->session_ms};
    pool->links = calloc(config->connection_count, sizeof(*pool->links));
    pthread_mutex_init(&pool->lock, NULL);
    if (pool->conninfo == NULL || pool->links == NULL) {
        pg_pool_close(&pool);
        return false;
    }
    for (size_t i = 0; i < config->connection_count; i++) {
        pool->links[i].next = pool->idle;
        pool->idle = &pool->links[i];
    }
    *out = pool;
    return true;
}

void pg_pool_close(struct pg_pool **pool)
{
    struct pg_pool *closing = *pool;

    *pool = NULL;
    if (closing == NULL)
        return;
    for (size_t i = 0; closing->links != NULL && i < closing->config.connection_count; i++)
        drop_link(&closing->links[i], false);
    pg_cancel_wait();
    pthread_mutex_destroy(&closing->lock);
    free(closing->links);
    free(closing->conninfo);
    free(closing);
}

/* Last in, first out: a quiet service uses few connections. */
static struct link *take_link(struct pg_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    struct link *link = pool->idle;
    assert(link != NULL); /* more threads than connections */
    pool->idle = link->next;
    link->next = NULL;
    pthread_mutex_unlock(&pool->lock);
    return link;
}

static void give_link(struct pg_pool *pool, struct link *link)
{
    pthread_mutex_lock(&pool->lock);
    link->next = pool->idle;
    pool->idle = link;
    pthread_mutex_unlock(&pool->lock);
}

static enum pg_state state_after(const struct query *query, enum pg_outcome outcome, enum pg_state before)
{
    switch (outcome) {
    case PG_OK:
        return PG_STATE_UP;
    case PG_UNAVAILABLE:
        return PG_STATE_DOWN;
    case PG_TIMEOUT:
        return query->wait.fault->sqlstate[0] != '\0' ? PG_STATE_UP : PG_STATE_DOUBT;
    case PG_REJECTED:
        return query->answered ? PG_STATE_UP : PG_STATE_DOWN; /* else the login */
    case PG_CANCELLED:
        return before;
    }
    return before;
}

static void note_state(struct query *query, enum pg_outcome outcome)
{
    enum pg_state before = atomic_load(&query->pool->state);
    enum pg_state now = state_after(query, outcome, before);

    if (now == before || !atomic_compare_exchange_strong(&query->pool->state, &before, now))
        return; /* nothing new, or another query was faster */
    if (now == PG_STATE_UP) {
        log_event(LOG_LEVEL_INFO, "database_up", "%s", "");
    } else {
        log_event(LOG_LEVEL_WARNING, now == PG_STATE_DOWN ? "database_down" : "database_in_doubt",
                  "sqlstate=%s reason=\"%s\"", query->wait.fault->sqlstate, query->wait.fault->text);
    }
}

/* An error from the server means that the transaction was rolled back; unless it ends the session, perhaps after a
 * COMMIT whose answer never left. */
static bool end_is_unheard(const char *sqlstate)
{
    static const char *const lost[] = {"08", "40003", "57P01", "57P02", "57P03", "57P05"};

    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
        if (strncmp(sqlstate, lost[i], strlen(lost[i])) == 0)
            return true;
    }
    return sqlstate[0] == '\0';
}

/* NULL: no comment, or no memory for one. */
static char *text_with_comment(const struct pg_pool *pool, const struct pg_request *request)
{
    char *text = NULL;

    if (request->comment == NULL ||
        asprintf(&text, "%s%s", pool->config.statements[request->statement].text, request->comment) < 0)
        return NULL;
    return text;
}

enum pg_outcome pg_query(struct pg_pool *pool, const struct pg_request *request, struct rows *rows,
                         struct pg_fault *fault)
{
    assert(request->statement < pool->config.statement_count);
    *fault = (struct pg_fault){0};
    struct query query = {
        .pool = pool,
        .link = take_link(pool),
        .request = request,
        .wait = {.deadline_ms = clock_ms() + request->left_ms,
                 .cancel_fd = request->cancel_fd,
                 .fault = fault},
        .rows = rows,
        .commented = text_with_comment(pool, request),
    };
    enum pg_outcome outcome = run_query(&query);
    free(query.commented);
    fault->in_doubt = outcome != PG_OK && query.executing && end_is_unheard(fault->sqlstate);
    note_state(&query, outcome);
    give_link(pool, query.link);
    return outcome;
}

enum pg_state pg_pool_state(const struct pg_pool *pool)
{
    return atomic_load(&pool->state);
}
