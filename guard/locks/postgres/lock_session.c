/* SPDX-License-Identifier: MIT */
/* lock_session.c - see lock_session.h. */
#include "lock_session.h"
#include "../../base/clock.h"
#include "../../base/digest.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OLDEST_SERVER = 140000, /* idle_session_timeout */
    APPLICATION_NAME_MAX = 63,
};

/* ---- statements ---- */

/* $1 is the key. */
#define OF_THE_KEY "locktype = 'advisory' AND objsubid = 1 AND (classid::int8 << 32 | objid::int8) = $1::int8"
#define OF_THIS_DATABASE "database = (SELECT oid FROM pg_database WHERE datname = current_database())"

/* The same for every session of the database, whatever its search_path: numbers of two tables would go back. The
 * operator may have put it into any schema. */
#define THE_TABLE                                                                                            \
    "SELECT format('%I.lock_fences', nspname) FROM pg_class AS found JOIN pg_namespace ON"                   \
    " pg_namespace.oid = relnamespace WHERE relname = 'lock_fences' AND relkind IN ('r', 'p') AND"           \
    " relpersistence <> 't' ORDER BY nspname <> 'public', found.oid LIMIT 1"

/* $1 the backend of the login, $2 the lease. A pooler hands out backends of its own: it is left as it is. A lock may
 * wait for long, and a number that was handed out must outlive a crash of the server. PostgreSQL before 17 has no
 * transaction_timeout. */
static const char check_sql[] =
    "SELECT pg_backend_pid() = $1::int4, pg_is_in_recovery(), (" THE_TABLE "),"
    " CASE WHEN pg_backend_pid() = $1::int4 THEN (SELECT count(set_config(name, value, false)) FROM (VALUES"
    " ('idle_session_timeout', $2::text), ('client_connection_check_interval', '1000'),"
    " ('tcp_keepalives_interval', '2'), ('tcp_keepalives_count', '3'), ('tcp_user_timeout', '0'),"
    " ('statement_timeout', '0'), ('transaction_timeout', '0'), ('lock_timeout', '0'),"
    " ('default_transaction_read_only', 'off'), ('default_transaction_isolation', 'read committed'),"
    " ('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'"
    " ELSE current_setting('synchronous_commit') END)) AS settings (name, value)"
    " WHERE current_setting(name, true) IS NOT NULL) END";

#define FENCES_TABLE "lock_fences (name text PRIMARY KEY, fence bigint NOT NULL)"
/* One after the other, or two sessions would make one each. */
static const char create_sql[] =
    "DO $$ BEGIN PERFORM pg_advisory_xact_lock(1819239275, 1); IF NOT EXISTS (" THE_TABLE ") THEN"
    " CREATE TABLE " FENCES_TABLE "; END IF; END $$";

/* After so many seconds of silence, and 6 more, the server takes the client for dead. One that waits has nothing to
 * lose; the lease of one that holds, $2, must not end by that. */
#define KEEPALIVES_OF_WAITER "set_config('tcp_keepalives_idle', '5', false)"
#define KEEPALIVES_OF_HOLDER "set_config('tcp_keepalives_idle', (5 + $2::int8 / 1000)::text, false)"

/* $1 key, $2 lease, $3 who. Whether it is granted, else how many wait already. Passes none of them. */
#define TRY_SQL(try_lock)                                                                                    \
    "SELECT got, CASE WHEN got THEN 0 ELSE (SELECT count(*) FROM pg_locks WHERE " OF_THE_KEY                 \
    " AND NOT granted AND " OF_THIS_DATABASE                                                                 \
    ") END FROM (SELECT set_config('idle_session_timeout', $2::text, false), " KEEPALIVES_OF_WAITER          \
    ", set_config('application_name', $3::text, false), " try_lock "($1::int8) AS got) AS tried"

static const char *const try_sql[] = {TRY_SQL("pg_try_advisory_lock"),
                                      TRY_SQL("pg_try_advisory_lock_shared")};
static const char *const lock_sql[] = {"SELECT pg_advisory_lock($1::int8)",
                                       "SELECT pg_advisory_lock_shared($1::int8)"};

/* The table; $1 name, $2 lease, $3 what is added */
#define RAISE_SQL                                                                                            \
    "INSERT INTO %s AS fences (name, fence) VALUES ($1::text, 1) ON CONFLICT (name)"                         \
    " DO UPDATE SET fence = fences.fence + $3::int8 RETURNING fences.fence, " KEEPALIVES_OF_HOLDER
#define READ_SQL "SELECT fence, " KEEPALIVES_OF_HOLDER " FROM %s WHERE name = $1::text"

/* $1 how many it should have. What is given back is looked at before. */
#define HAS_ALL                                                                                              \
    "(SELECT count(*) = $1::int8 FROM pg_locks WHERE pid = pg_backend_pid() AND granted AND locktype = "     \
    "'advisory')"
static const char renew_sql[] = "SELECT " HAS_ALL;
static const char give_sql[] = "SELECT " HAS_ALL ", pg_advisory_unlock_all()";

/* The table; $1 key, $2 name. A row for each, holders first; one without holder or waiter if there is none. */
#define LOOK_SQL                                                                                             \
    "SELECT coalesce((SELECT fence FROM %s WHERE name = $2::text), 0), seen.granted,"                        \
    " seen.mode = 'ShareLock', coalesce(application_name, '') FROM (SELECT 1) AS one"                        \
    " LEFT JOIN (SELECT pid, granted, mode, waitstart FROM pg_locks WHERE " OF_THE_KEY                       \
    " AND " OF_THIS_DATABASE ") AS seen ON true LEFT JOIN pg_stat_activity USING (pid)"                      \
    " ORDER BY seen.granted DESC, seen.waitstart, pid"

/* ---- names ---- */

void lock_row_init(struct lock_row *row, const char *name_space, const struct lock_name *name)
{
    uint8_t digest[DIGEST_SHA256_BYTES];
    uint64_t key = 0;
    snprintf(row->name, sizeof row->name, "%s:%.*s", name_space, (int)name->bytes, name->encoded);
    digest_sha256(row->name, strlen(row->name), digest);
    for (size_t i = 0; i < sizeof key; i++)
        key = key << 8 | digest[i];
    snprintf(row->key, sizeof row->key, "%" PRId64, (int64_t)key);
}

/* ---- the end ---- */

static void set_session_limit(struct lock_session *session, uint32_t limit_ms)
{
    session->limit_rang = false;
    host_timer_set(session->host, &session->limit, clock_now_us() + limit_ms * UINT64_C(1000));
}

void lock_session_close(struct lock_session *session)
{
    host_timer_stop(session->host, &session->limit);
    lock_pg_close(&session->pg);
    session->state = session->next = LOCK_SESSION_CLOSED;
    session->wanted = NULL;
}

/* `why` may be the connection's. */
static void end_pg_session(struct lock_session *session, enum lock_reply_kind verdict, const char *why)
{
    char copy[LOCK_PG_WHY_SIZE];
    const struct lock_session_event event = {
        .kind = LOCK_SESSION_ENDED, .state = session->state, .verdict = verdict, .why = copy};
    snprintf(copy, sizeof copy, "%s", why);
    lock_session_close(session);
    session->heard(session->context, &event);
}

/* Words of ours about this server. */
static void end_pg_session_with(struct lock_session *session, enum lock_reply_kind verdict, const char *what)
{
    char why[LOCK_PG_WHY_SIZE];
    lock_pg_explain(&session->pg, what, why);
    end_pg_session(session, verdict, why);
}

static void end_pg_session_late(struct lock_session *session, enum lock_reply_kind verdict, const char *what,
                                uint32_t limit_ms)
{
    char text[64];
    snprintf(text, sizeof text, "no %s within %" PRIu32 " ms", what, limit_ms);
    end_pg_session_with(session, verdict, text);
}

/* Each host has its share. */
static void set_connect_limit(struct lock_session *session)
{
    set_session_limit(session, session->config->connect_limit_ms / (uint32_t)session->pg.host_count);
}

static void judge_session_limit(struct lock_session *session)
{
    uint32_t limit_ms = session->config->limit_ms;
    switch (session->state) {
    case LOCK_SESSION_CONNECTING:
        if (lock_pg_try_next(&session->pg)) {
            set_connect_limit(session);
            return;
        }
        end_pg_session_late(session, LOCK_UNSENT, "login", session->config->connect_limit_ms);
        return;
    case LOCK_SESSION_CHECKING:
    case LOCK_SESSION_CREATING:
        end_pg_session_late(session, LOCK_UNSENT, "answer", limit_ms);
        return;
    case LOCK_SESSION_NUMBERING:
        session->heard(session->context, &(struct lock_session_event){.kind = LOCK_SESSION_NUMBER_LATE});
        return;
    case LOCK_SESSION_RENEWING:
        session->next = LOCK_SESSION_CLOSED;
        session->heard(session->context, &(struct lock_session_event){.kind = LOCK_SESSION_RENEWAL_LATE});
        return;
    default:
        end_pg_session_late(session, LOCK_UNANSWERED, "answer", limit_ms);
        return;
    }
}

/* If the process stood still the answer may lie in the socket: that is read before the timer rings again. */
static void hear_session_limit(void *context)
{
    struct lock_session *session = context;
    if (session->limit_rang) {
        judge_session_limit(session);
        return;
    }
    set_session_limit(session, 0);
    session->limit_rang = true;
}

/* ---- saying ---- */

static void run_sql(struct lock_session *session, enum lock_session_state state, const char *sql,
                    const char *const *params, size_t param_count)
{
    session->state = state;
    set_session_limit(session, session->config->limit_ms);
    lock_pg_run(&session->pg, sql, params, param_count);
}

/* One that names the table. */
#define RUN_SQL_OF_TABLE(session, state, format, params, param_count)                                        \
    do {                                                                                                     \
        char sql_[sizeof(format) + LOCK_TABLE_SIZE];                                                         \
        snprintf(sql_, sizeof sql_, format, (session)->table);                                               \
        run_sql(session, state, sql_, params, param_count);                                                  \
    } while (false)

static void check_pg_server(struct lock_session *session)
{
    char backend[LOCK_NUMBER_SIZE], lease_ms[LOCK_NUMBER_SIZE];
    const char *const params[] = {backend, lease_ms};
    snprintf(backend, sizeof backend, "%d", lock_pg_backend(&session->pg));
    snprintf(lease_ms, sizeof lease_ms, "%" PRIu32, session->config->max_lease_ms);
    run_sql(session, LOCK_SESSION_CHECKING, check_sql, params, 2);
}

/* Of a long name the host is cut, not the process. */
static void try_pg_lock(struct lock_session *session)
{
    const struct lock_wanted *wanted = session->wanted;
    size_t bytes = strlen(wanted->who);
    size_t cut = bytes > APPLICATION_NAME_MAX ? bytes - APPLICATION_NAME_MAX : 0;
    const char *const params[] = {wanted->rows[session->at].key, wanted->lease_ms, wanted->who + cut};
    run_sql(session, LOCK_SESSION_TRYING, try_sql[wanted->is_shared], params, 3);
}

void lock_session_try(struct lock_session *session, const struct lock_wanted *wanted)
{
    assert(session->state == LOCK_SESSION_IDLE);
    session->wanted = wanted;
    session->at = 0;
    try_pg_lock(session);
}

static void raise_pg_fence(struct lock_session *session)
{
    const struct lock_wanted *wanted = session->wanted;
    const char *const params[] = {wanted->rows[session->at].name, wanted->lease_ms,
                                  wanted->is_shared ? "0" : "1"};
    RUN_SQL_OF_TABLE(session, LOCK_SESSION_NUMBERING, RAISE_SQL, params, 3);
}

static void number_pg_lock(struct lock_session *session)
{
    const char *const params[] = {session->wanted->rows[session->at].name, session->wanted->lease_ms};
    if (session->wanted->is_shared)
        RUN_SQL_OF_TABLE(session, LOCK_SESSION_NUMBERING, READ_SQL, params, 2);
    else
        raise_pg_fence(session);
}

void lock_session_number(struct lock_session *session)
{
    assert(session->state == LOCK_SESSION_LOCKED);
    session->at = 0;
    number_pg_lock(session);
}

static void run_sql_of_hold(struct lock_session *session, enum lock_session_state state, const char *sql)
{
    char count[LOCK_NUMBER_SIZE];
    const char *const params[] = {count};
    snprintf(count, sizeof count, "%zu", session->wanted->count);
    session->next = LOCK_SESSION_CLOSED;
    run_sql(session, state, sql, params, 1);
}

/* What was sent before, and is still under way, says nothing of now. */
static void run_sql_or_wait(struct lock_session *session, enum lock_session_state state, const char *sql)
{
    assert(session->state == LOCK_SESSION_LOCKED || session->state == LOCK_SESSION_RENEWING);
    if (session->state == LOCK_SESSION_LOCKED) {
        run_sql_of_hold(session, state, sql);
        return;
    }
    session->state = state;
    session->next = state;
    set_session_limit(session, session->config->limit_ms);
}

void lock_session_renew(struct lock_session *session)
{
    run_sql_or_wait(session, LOCK_SESSION_RENEWING, renew_sql);
}

void lock_session_give(struct lock_session *session)
{
    run_sql_or_wait(session, LOCK_SESSION_GIVING, give_sql);
}

void lock_session_look(struct lock_session *session, const struct lock_row *row)
{
    const char *const params[] = {row->key, row->name};
    assert(session->state == LOCK_SESSION_IDLE);
    RUN_SQL_OF_TABLE(session, LOCK_SESSION_LOOKING, LOOK_SQL, params, 2);
}

/* ---- hearing ---- */

bool lock_session_is_beginning(enum lock_session_state state)
{
    return state == LOCK_SESSION_CONNECTING || state == LOCK_SESSION_CHECKING ||
           state == LOCK_SESSION_CREATING;
}

static void session_becomes(struct lock_session *session, enum lock_session_state state,
                            const struct lock_session_event *event)
{
    host_timer_stop(session->host, &session->limit);
    session->state = state;
    if (state == LOCK_SESSION_IDLE)
        session->wanted = NULL;
    session->heard(session->context, event);
}

static void look_for_table_again(struct lock_session *session)
{
    session->has_created = true;
    check_pg_server(session);
}

static void hear_session_check(struct lock_session *session, const struct lock_pg_rows *rows)
{
    if (!lock_pg_true(rows, 0, 0))
        end_pg_session_with(session, LOCK_IMPOSSIBLE,
                            "advisory locks need a direct connection, and this is a pooler's");
    else if (lock_pg_true(rows, 0, 1))
        end_pg_session_with(session, LOCK_UNSENT, "this is a standby; locks are kept by the primary");
    else if (lock_pg_text(rows, 0, 2)[0] == '\0' && !session->has_created)
        run_sql(session, LOCK_SESSION_CREATING, create_sql, NULL, 0);
    else if (lock_pg_text(rows, 0, 2)[0] == '\0')
        end_pg_session_with(session, LOCK_UNSENT, "the table lock_fences was made, and is gone");
    else {
        snprintf(session->table, sizeof session->table, "%s", lock_pg_text(rows, 0, 2));
        session_becomes(session, LOCK_SESSION_IDLE, &(struct lock_session_event){.kind = LOCK_SESSION_READY});
    }
}

static void hear_session_granted(struct lock_session *session)
{
    session->at++;
    if (session->at < session->wanted->count)
        try_pg_lock(session);
    else
        session_becomes(session, LOCK_SESSION_LOCKED,
                        &(struct lock_session_event){.kind = LOCK_SESSION_GRANTED});
}

/* Names that it had are given back with the session. */
static void hear_session_refused(struct lock_session *session, uint32_t before)
{
    const struct lock_session_event event = {.kind = LOCK_SESSION_REFUSED, .before = before};
    if (session->wanted->stands) {
        const char *const params[] = {session->wanted->rows[session->at].key};
        run_sql(session, LOCK_SESSION_WAITING, lock_sql[session->wanted->is_shared], params, 1);
        host_timer_stop(session->host, &session->limit); /* however long that takes */
        session->heard(session->context, &event);
    } else if (session->at == 0) {
        session_becomes(session, LOCK_SESSION_IDLE, &event);
    } else {
        lock_session_close(session);
        session->heard(session->context, &event);
    }
}

static void hear_session_number(struct lock_session *session, const struct lock_pg_rows *rows)
{
    if (lock_pg_row_count(rows) == 0) {
        raise_pg_fence(session);
        return;
    }
    session->fences[session->at++] = strtoull(lock_pg_text(rows, 0, 0), NULL, 10);
    if (session->at < session->wanted->count)
        number_pg_lock(session);
    else
        session_becomes(
            session, LOCK_SESSION_LOCKED,
            &(struct lock_session_event){.kind = LOCK_SESSION_NUMBERED, .fences = session->fences});
}

/* Also the late one, which nobody waits for. */
static void hear_session_renewal(struct lock_session *session, const struct lock_pg_rows *rows)
{
    bool is_wanted = session->limit.set;
    if (!lock_pg_true(rows, 0, 0)) {
        end_pg_session_with(session, LOCK_UNANSWERED, "the session does not have its lock any more");
        return;
    }
    host_timer_stop(session->host, &session->limit);
    session->state = LOCK_SESSION_LOCKED;
    if (is_wanted)
        session->heard(session->context, &(struct lock_session_event){.kind = LOCK_SESSION_RENEWED});
}

static void hear_session_given(struct lock_session *session, const struct lock_pg_rows *rows)
{
    if (lock_pg_true(rows, 0, 0))
        session_becomes(session, LOCK_SESSION_IDLE, &(struct lock_session_event){.kind = LOCK_SESSION_GIVEN});
    else
        end_pg_session_with(session, LOCK_NOT_HELD, "the session did not have its lock any more");
}

static void see_pg_lock(const struct lock_pg_rows *rows, size_t row, struct guard_lock_view *view)
{
    bool holds = lock_pg_true(rows, row, 1), reads = lock_pg_true(rows, row, 2);
    const char *who = lock_pg_text(rows, row, 3), *space = strrchr(who, ' ');
    if (holds)
        view->holder_count++;
    else
        view->waiter_count++;
    if (view->seen_count == GUARD_LOCK_SEEN_MAX)
        return;
    struct guard_lock_seen *seen = &view->seen[view->seen_count++];
    *seen = (struct guard_lock_seen){.units = reads ? 1 : LOCK_ALL, .limit = LOCK_ALL, .holds = holds};
    seen->since_s = space != NULL ? strtoull(space + 1, NULL, 10) : 0;
    size_t who_bytes = space != NULL ? (size_t)(space - who) : strlen(who);
    snprintf(seen->who, sizeof seen->who, "%.*s", (int)who_bytes, who);
}

static void hear_session_look(struct lock_session *session, const struct lock_pg_rows *rows)
{
    struct guard_lock_view view = {.fence = strtoull(lock_pg_text(rows, 0, 0), NULL, 10)};
    for (size_t row = 0; row < lock_pg_row_count(rows); row++) {
        if (lock_pg_text(rows, row, 1)[0] != '\0')
            see_pg_lock(rows, row, &view);
    }
    session_becomes(session, LOCK_SESSION_IDLE,
                    &(struct lock_session_event){.kind = LOCK_SESSION_SEEN, .view = &view});
}

static void hear_session_rows(struct lock_session *session, const struct lock_pg_rows *rows)
{
    if (session->next != LOCK_SESSION_CLOSED) {
        run_sql_of_hold(session, session->next, session->next == LOCK_SESSION_GIVING ? give_sql : renew_sql);
        return;
    }
    switch (session->state) {
    case LOCK_SESSION_CHECKING:
        hear_session_check(session, rows);
        return;
    case LOCK_SESSION_CREATING:
        look_for_table_again(session);
        return;
    case LOCK_SESSION_TRYING:
        if (lock_pg_true(rows, 0, 0))
            hear_session_granted(session);
        else
            hear_session_refused(session, (uint32_t)strtoul(lock_pg_text(rows, 0, 1), NULL, 10));
        return;
    case LOCK_SESSION_WAITING:
        hear_session_granted(session);
        return;
    case LOCK_SESSION_NUMBERING:
        hear_session_number(session, rows);
        return;
    case LOCK_SESSION_RENEWING:
        hear_session_renewal(session, rows);
        return;
    case LOCK_SESSION_GIVING:
        hear_session_given(session, rows);
        return;
    case LOCK_SESSION_LOOKING:
        hear_session_look(session, rows);
        return;
    default: /* nothing runs */
        return;
    }
}

/* Another has made the table at the same time. */
static bool is_there_already(const char *sqlstate)
{
    return strcmp(sqlstate, "42P07") == 0 || strcmp(sqlstate, "42710") == 0 || strcmp(sqlstate, "23505") == 0;
}

/* Not for this role or password, this database, these settings, this schema: an operator must act. */
static bool is_refused_for_good(const char *sqlstate)
{
    static const char *const good[] = {"42", "22", "28", "25006", "3D000", "3F000"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (strncmp(sqlstate, good[i], strlen(good[i])) == 0)
            return true;
    return false;
}

static void hear_session_refusal(struct lock_session *session, const struct lock_pg_event *event)
{
    static const char ADVICE[] = "; an administrator makes it: CREATE TABLE " FENCES_TABLE
                                 "; GRANT SELECT, INSERT, UPDATE ON lock_fences TO this role";
    char why[LOCK_PG_WHY_SIZE + sizeof ADVICE];
    bool for_good = is_refused_for_good(event->sqlstate);
    bool of_table = session->state == LOCK_SESSION_CREATING || session->state == LOCK_SESSION_NUMBERING;
    if (session->state == LOCK_SESSION_CREATING && is_there_already(event->sqlstate)) {
        look_for_table_again(session);
        return;
    }
    snprintf(why, sizeof why, "%s%s", event->why, for_good && of_table ? ADVICE : "");
    end_pg_session(session, for_good ? LOCK_IMPOSSIBLE : LOCK_UNSENT, why);
}

static void hear_session_pg(void *context, const struct lock_pg_event *event)
{
    struct lock_session *session = context;
    bool may_have_run = session->state == LOCK_SESSION_TRYING || session->state == LOCK_SESSION_NUMBERING;
    switch (event->kind) {
    case LOCK_PG_UP:
        if (lock_pg_version(&session->pg) >= OLDEST_SERVER)
            check_pg_server(session);
        else
            end_pg_session_with(session, LOCK_IMPOSSIBLE,
                                "locks need PostgreSQL 14 or later, for idle_session_timeout");
        return;
    case LOCK_PG_ROWS:
        hear_session_rows(session, event->rows);
        return;
    case LOCK_PG_REFUSED:
        hear_session_refusal(session, event);
        return;
    case LOCK_PG_LOST:
        if (session->state == LOCK_SESSION_CONNECTING && is_refused_for_good(event->sqlstate))
            end_pg_session(session, LOCK_IMPOSSIBLE, event->why);
        else
            end_pg_session(session, may_have_run ? LOCK_UNANSWERED : LOCK_UNSENT, event->why);
        return;
    }
}

void lock_session_open(struct lock_session *session)
{
    assert(session->state == LOCK_SESSION_CLOSED);
    session->state = LOCK_SESSION_CONNECTING;
    session->has_created = false;
    session->limit = (struct host_timer){.run = hear_session_limit, .context = session};
    session->pg = (struct lock_pg){.host = session->host, .heard = hear_session_pg, .context = session};
    lock_pg_connect(&session->pg, session->config->urls[0]);
    set_connect_limit(session);
}
