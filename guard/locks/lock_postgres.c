/* SPDX-License-Identifier: MIT */
/*
 * lock_postgres.c - locks by PostgreSQL: session advisory locks, and a row that counts the grants of each name.
 *
 * A token that waits or holds has a session to itself, so the server's own lock manager queues, wakes and ends what is
 * dead. At most SESSIONS_MAX of them run in a process; further tokens stand in line here, in their order. A session whose
 * lock was given back and confirmed serves the next token; the server ends one that is idle for a lease.
 *
 *                logged in          direct, primary           a token            granted at once
 *   CONNECTING -----------> CHECKING ------------> IDLE ---------------> TRYING ------------------> NUMBERING --> HELD
 *                            |  ^   no table        ^  ^                    | refused                 ^   | late    |
 *                            v  |                   |  | looked             v            asked again  |   v         |
 *                          CREATING                 |  LOOKING           WAITING --> LOCKED (told) ---+---+         |
 *                                                   +------------------------------ GIVING <----------------- given +
 *   any --> NONE: lost, late, not to be trusted, or given back on the way. The connection is closed and never used
 *           again: whatever was under way in it ends with it.
 *
 *   key      the first 8 bytes of SHA-256 of "<namespace>:<encoded name>"; two names with one key wait for each other
 *   lease    the server ends a session that is silent for so long (idle_session_timeout). It is never silent for longer
 *            before the core thinks so, because the core counts from the sending of what the server answers
 *   fence    the row of lock_fences with that name: an exclusive grant adds 1, a reader sees what is there. While a
 *            transaction has the row FOR SHARE the next exclusive grant waits, here as NUMBERING
 *   renewal  a look into pg_locks; the end of the session tells by itself
 *
 * A waiter whose process dies leaves the server's queue within client_connection_check_interval, one whose host is cut
 * off with the keepalives, one that is stopped holds for a lease once its turn comes.
 */
#ifdef GUARD_LOCKS_WITH_POSTGRES

#include "../base/chance.h"
#include "../base/check.h"
#include "../base/clock.h"
#include "../base/digest.h"
#include "../base/table.h"
#include "lock_pg.h"
#include "provider.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    SESSIONS_MAX = 8,
    SESSIONS_ALL = SESSIONS_MAX + 1, /* the last one only looks */
    FIRST_BACKOFF_MS = 50,
    MOST_BACKOFF_MS = 1000,
    OLDEST_SERVER = 140000, /* idle_session_timeout */
    NUMBER_SIZE = 24,
    NAME_SIZE = KEY_NAMESPACE_MAX + 1 + KEY_ENCODED_MAX + 1,
    APPLICATION_NAME_MAX = 63,
};

enum session_state {
    SESSION_NONE, /* not connected */
    SESSION_CONNECTING,
    SESSION_CHECKING,  /* who is there; its settings */
    SESSION_CREATING,  /* lock_fences */
    SESSION_IDLE,      /* up, and works for no token */
    SESSION_TRYING,    /* from here on it may have the lock */
    SESSION_WAITING,   /* in the server's queue */
    SESSION_LOCKED,    /* it has the lock; the core is told and asks again */
    SESSION_NUMBERING, /* the fence */
    SESSION_HELD,
    SESSION_GIVING,
    SESSION_LOOKING,
};

/* An action that is to be answered. */
struct errand {
    uint64_t op;
    struct lock_reply reply; /* once it is among the answers */
    char why[LOCK_PG_WHY_SIZE];
    struct errand *prev, *next;
};

struct token {
    char text[LOCK_TOKEN_SIZE];
    char name[NAME_SIZE]; /* of its row: "<namespace>:<encoded>" */
    const char *encoded;  /* in `name` */
    char key[NUMBER_SIZE], lease[NUMBER_SIZE];
    bool is_shared, stands;             /* stands: it wants a place in the queue */
    struct session *session;            /* NULL: it is in the provider's queue */
    uint64_t turn;                      /* there; one that leaves out of turn leaves a gap */
    struct errand *take, *renew, *give; /* owned; NULL: none is out */
    UT_hash_handle hh;
    bool unlisted;
    struct token *prev, *next; /* in that queue */
};

struct session {
    struct lock_postgres *provider;
    struct lock_pg pg;
    enum session_state state;
    struct token *token; /* NULL: none */
    struct host_timer limit;
    uint32_t before; /* of its token, as of TRYING */
    bool is_stale;   /* what runs was sent before the errand that waits came */
};

struct look {
    struct lock_name name;
    char row_name[NAME_SIZE], key[NUMBER_SIZE];
    lock_looked *looked;
    void *context;
    struct look *prev, *next;
};

struct lock_postgres {
    struct lock_provider face; /* first */
    struct guard_host *host;
    const struct guard_locks_config *config;
    struct lock_provider_hooks hooks;
    struct session sessions[SESSIONS_ALL];
    struct token *tokens; /* owned, by their text */
    struct token *queue;  /* those without a session, in their order */
    uint64_t turns;
    struct look *looks; /* owned, in their order; the first may be under way */
    struct errand *answers;
    struct host_soon answering;
    bool is_failing;              /* the last attempt to connect has failed */
    enum lock_reply_kind verdict; /* failing: what a take is answered that finds no session, and why */
    char why[LOCK_PG_WHY_SIZE];
    struct host_timer again; /* failing: the next attempt */
    uint32_t failures;
    bool has_told, told_up; /* of the link */
    struct chance chance;
    struct host_soon closing;
    void (*closed)(void *context);
    void *closed_context;
    bool is_closing;
};

/* ---- statements ---- */

/* $1 is the key. */
#define OF_THE_KEY "locktype = 'advisory' AND objsubid = 1 AND (classid::int8 << 32 | objid::int8) = $1::int8"
#define OF_THIS_DATABASE "database = (SELECT oid FROM pg_database WHERE datname = current_database())"

/* $1 the backend of the login, $2 the lease. A pooler hands out backends of its own: it is left as it is. A lock may wait
 * for long, and a number that was handed out must outlive a crash of the server. */
static const char check_sql[] =
    "SELECT pg_backend_pid() = $1::int4, pg_is_in_recovery(), to_regclass('lock_fences') IS NOT NULL,"
    " CASE WHEN pg_backend_pid() = $1::int4 THEN (SELECT count(set_config(name, value, false)) FROM (VALUES"
    " ('idle_session_timeout', $2::text), ('client_connection_check_interval', '1000'),"
    " ('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '2'), ('tcp_keepalives_count', '3'),"
    " ('statement_timeout', '0'), ('lock_timeout', '0'), ('default_transaction_read_only', 'off'),"
    " ('default_transaction_isolation', 'read committed'),"
    " ('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'"
    " ELSE current_setting('synchronous_commit') END)) AS settings (name, value)) END";

#define FENCES_TABLE "lock_fences (name text PRIMARY KEY, fence bigint NOT NULL)"
static const char create_sql[] = "CREATE TABLE IF NOT EXISTS " FENCES_TABLE;

/* $1 key, $2 lease, $3 who. Whether it is granted, else how many wait already. Passes none of them. */
#define TRY_SQL(try_lock)                                                                                    \
    "SELECT got, CASE WHEN got THEN 0 ELSE (SELECT count(*) FROM pg_locks WHERE " OF_THE_KEY                 \
    " AND NOT granted AND " OF_THIS_DATABASE                                                                 \
    ") END FROM (SELECT set_config('idle_session_timeout', $2::text, false),"                                \
    " set_config('application_name', $3::text, false), " try_lock "($1::int8) AS got) AS tried"

static const char *const try_sql[] = {TRY_SQL("pg_try_advisory_lock"),
                                      TRY_SQL("pg_try_advisory_lock_shared")};
static const char *const lock_sql[] = {"SELECT pg_advisory_lock($1::int8)",
                                       "SELECT pg_advisory_lock_shared($1::int8)"};
static const char *const unlock_sql[] = {"SELECT pg_advisory_unlock($1::int8)",
                                         "SELECT pg_advisory_unlock_shared($1::int8)"};

/* $1 name, $2 what is added */
static const char raise_sql[] =
    "INSERT INTO lock_fences AS fences (name, fence) VALUES ($1::text, 1) ON CONFLICT (name)"
    " DO UPDATE SET fence = fences.fence + $2::int8 RETURNING fences.fence";
static const char read_sql[] = "SELECT fence FROM lock_fences WHERE name = $1::text";

static const char renew_sql[] =
    "SELECT count(*) > 0 FROM pg_locks WHERE pid = pg_backend_pid() AND granted AND " OF_THE_KEY;

/* $1 key, $2 name. A row for each, holders first; one without holder or waiter if there is none. */
static const char look_sql[] =
    "SELECT coalesce((SELECT fence FROM lock_fences WHERE name = $2::text), 0), seen.granted,"
    " seen.mode = 'ShareLock', coalesce(application_name, '') FROM (SELECT 1) AS one"
    " LEFT JOIN (SELECT pid, granted, mode, waitstart FROM pg_locks WHERE " OF_THE_KEY
    " AND " OF_THIS_DATABASE ") AS seen ON true LEFT JOIN pg_stat_activity USING (pid)"
    " ORDER BY seen.granted DESC, seen.waitstart, pid";

/* ---- answers: never from inside perform() ---- */

static void tell_answers(void *context)
{
    struct lock_postgres *self = context;
    struct errand *errand;
    while ((errand = self->answers) != NULL) {
        DL_DELETE(self->answers, errand);
        errand->reply.why = errand->why[0] != '\0' ? errand->why : NULL;
        self->hooks.replied(self->hooks.context, errand->op, &errand->reply);
        free(errand);
        if (self->is_closing)
            return;
    }
}

/* Leaves NULL; accepts NULL in *errand. The reply's `why` is copied. */
static void answer(struct lock_postgres *self, struct errand **errand, const struct lock_reply *reply)
{
    struct errand *told = *errand;
    *errand = NULL;
    if (told == NULL)
        return;
    told->reply = *reply;
    snprintf(told->why, sizeof told->why, "%s", reply->why != NULL ? reply->why : "");
    DL_APPEND(self->answers, told);
    host_soon(self->host, &self->answering);
}

static void answer_kind(struct lock_postgres *self, struct errand **errand, enum lock_reply_kind kind,
                        const char *why)
{
    answer(self, errand, &(struct lock_reply){.kind = kind, .why = why});
}

/* ---- tokens ---- */

static void name_row(const struct lock_postgres *self, const struct lock_name *name, char out[NAME_SIZE])
{
    snprintf(out, NAME_SIZE, "%s:%.*s", self->config->name_space, (int)name->bytes, name->encoded);
}

static void key_of(const char *row_name, char out[NUMBER_SIZE])
{
    uint8_t digest[DIGEST_SHA256_BYTES];
    uint64_t key = 0;
    digest_sha256(row_name, strlen(row_name), digest);
    for (size_t i = 0; i < sizeof key; i++)
        key = key << 8 | digest[i];
    snprintf(out, NUMBER_SIZE, "%" PRId64, (int64_t)key);
}

static struct token *find_token(struct lock_postgres *self, const char *text)
{
    struct token *token;
    HASH_FIND_STR(self->tokens, text, token);
    return token;
}

/* At the end of the queue. NULL: no memory. */
static struct token *new_token(struct lock_postgres *self, const struct lock_action *action)
{
    struct token *token = calloc(1, sizeof *token);
    if (token == NULL)
        return NULL;
    snprintf(token->text, sizeof token->text, "%s", action->token);
    name_row(self, action->names, token->name);
    token->encoded = strchr(token->name, ':') + 1;
    key_of(token->name, token->key);
    snprintf(token->lease, sizeof token->lease, "%" PRIu32, action->lease_ms);
    token->is_shared = action->lock == GUARD_LOCK_READ;
    HASH_ADD_STR(self->tokens, text, token);
    if (token->unlisted) {
        free(token);
        return NULL;
    }
    token->turn = self->turns++;
    DL_APPEND(self->queue, token);
    return token;
}

static void leave_queue(struct lock_postgres *self, struct token *token)
{
    DL_DELETE(self->queue, token);
    token->prev = token->next = NULL;
}

/* Its session is another's, or closed, already. */
static void forget_token(struct lock_postgres *self, struct token *token)
{
    if (token->session == NULL)
        leave_queue(self, token);
    HASH_DEL(self->tokens, token);
    free(token);
}

/* ---- sessions: what they say ---- */

static void set_limit(struct session *session, uint32_t limit_ms)
{
    host_timer_set(session->provider->host, &session->limit, clock_now_us() + limit_ms * UINT64_C(1000));
}

static void clear_limit(struct session *session)
{
    host_timer_stop(session->provider->host, &session->limit);
}

static void run_sql(struct session *session, enum session_state state, const char *sql,
                    const char *const *params, size_t param_count)
{
    session->state = state;
    lock_pg_run(&session->pg, sql, params, param_count);
}

static void check_server(struct session *session)
{
    const struct lock_postgres *self = session->provider;
    char backend[NUMBER_SIZE], lease[NUMBER_SIZE];
    const char *const params[] = {backend, lease};
    snprintf(backend, sizeof backend, "%d", lock_pg_backend(&session->pg));
    snprintf(lease, sizeof lease, "%" PRIu32, self->config->max_lease_ms);
    set_limit(session, self->config->limit_ms);
    run_sql(session, SESSION_CHECKING, check_sql, params, 2);
}

static void create_table(struct session *session)
{
    set_limit(session, session->provider->config->limit_ms);
    run_sql(session, SESSION_CREATING, create_sql, NULL, 0);
}

/* The end of the token's text is for people. Of a long one the host is cut, not its process. */
static void try_lock(struct session *session)
{
    const struct token *token = session->token;
    const char *who = token->text + LOCK_TOKEN_HEAD_BYTES;
    who += *who == ' ';
    size_t bytes = strlen(who);
    const char *const params[] = {token->key, token->lease,
                                  bytes > APPLICATION_NAME_MAX ? who + (bytes - APPLICATION_NAME_MAX) : who};
    set_limit(session, session->provider->config->limit_ms);
    run_sql(session, SESSION_TRYING, try_sql[token->is_shared], params, 3);
}

static void wait_for_lock(struct session *session)
{
    const struct token *token = session->token;
    const char *const params[] = {token->key};
    clear_limit(session);
    run_sql(session, SESSION_WAITING, lock_sql[token->is_shared], params, 1);
}

static void raise_fence(struct session *session)
{
    const struct token *token = session->token;
    const char *const params[] = {token->name, token->is_shared ? "0" : "1"};
    run_sql(session, SESSION_NUMBERING, raise_sql, params, 2);
}

static void number_grant(struct session *session)
{
    const struct token *token = session->token;
    const char *const params[] = {token->name};
    set_limit(session, session->provider->config->limit_ms);
    if (token->is_shared)
        run_sql(session, SESSION_NUMBERING, read_sql, params, 1);
    else
        raise_fence(session);
}

static void renew_hold(struct session *session)
{
    const char *const params[] = {session->token->key};
    session->is_stale = false;
    run_sql(session, SESSION_HELD, renew_sql, params, 1);
}

static void unlock(struct session *session)
{
    const struct token *token = session->token;
    const char *const params[] = {token->key};
    session->is_stale = false;
    run_sql(session, SESSION_GIVING, unlock_sql[token->is_shared], params, 1);
}

static void look_now(struct session *session)
{
    const struct look *look = session->provider->looks;
    const char *const params[] = {look->key, look->row_name};
    set_limit(session, session->provider->config->limit_ms);
    run_sql(session, SESSION_LOOKING, look_sql, params, 2);
}

/* ---- sessions: whose they are ---- */

static void start_session(struct session *session)
{
    struct lock_postgres *self = session->provider;
    session->state = SESSION_CONNECTING;
    set_limit(session, self->config->connect_limit_ms);
    lock_pg_connect(&session->pg, self->config->urls[0]);
}

static void close_session(struct session *session)
{
    clear_limit(session);
    lock_pg_close(&session->pg);
    session->state = SESSION_NONE;
    session->token = NULL;
}

static bool is_beginning(const struct session *session)
{
    return session->state == SESSION_CONNECTING || session->state == SESSION_CHECKING ||
           session->state == SESSION_CREATING;
}

/* In the order in which they are of use: one that is up, one that soon is, one that may connect. */
static struct session *free_session(struct lock_postgres *self)
{
    struct session *found = NULL;
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = &self->sessions[i];
        if (session->token == NULL && session->state == SESSION_IDLE)
            return session;
        if (session->token == NULL && is_beginning(session))
            found = session;
        else if (session->state == SESSION_NONE && !self->is_failing && found == NULL)
            found = session;
    }
    return found;
}

/* Those that stand in line here get what sessions there are. */
static void serve_queue(struct lock_postgres *self)
{
    struct session *session;
    while (self->queue != NULL && (session = free_session(self)) != NULL) {
        struct token *token = self->queue;
        leave_queue(self, token);
        token->session = session;
        session->token = token;
        if (session->state == SESSION_IDLE)
            try_lock(session);
        else if (session->state == SESSION_NONE)
            start_session(session);
    }
}

/* By one that is up, else by the one that is there for it. */
static void serve_looks(struct lock_postgres *self)
{
    struct session *idle = NULL;
    if (self->looks == NULL)
        return;
    for (size_t i = 0; i < SESSIONS_ALL; i++) {
        struct session *session = &self->sessions[i];
        if (session->state == SESSION_LOOKING)
            return;
        if (session->state == SESSION_IDLE)
            idle = session;
    }
    struct session *own = &self->sessions[SESSIONS_MAX];
    if (idle != NULL)
        look_now(idle);
    else if (own->state == SESSION_NONE)
        start_session(own);
}

static void end_looks(struct lock_postgres *self, const char *why)
{
    struct look *ended = self->looks, *look, *next;
    self->looks = NULL;
    DL_FOREACH_SAFE (ended, look, next) {
        if (!self->is_closing)
            look->looked(look->context, NULL, why);
        free(look);
    }
}

/* ---- the link ---- */

static bool has_session(const struct lock_postgres *self)
{
    for (size_t i = 0; i < SESSIONS_ALL; i++)
        if (self->sessions[i].state >= SESSION_IDLE)
            return true;
    return false;
}

/* While it is down the core asks for nothing and renews nothing. So it is up as long as there is a session, and also
 * where the server answers and cannot be used: that is to be told. */
static void tell_link(struct lock_postgres *self, bool is_news)
{
    bool is_up = has_session(self) || (self->is_failing && self->verdict == LOCK_IMPOSSIBLE);
    if (self->is_closing || (!is_up && !self->is_failing))
        return;
    if (self->has_told && self->told_up == is_up && (is_up || !is_news))
        return;
    self->has_told = true;
    self->told_up = is_up;
    self->hooks.link(self->hooks.context, is_up, is_up ? NULL : self->why);
}

/* True: the reason is another one than before. */
static bool note_failure(struct lock_postgres *self, enum lock_reply_kind verdict, const char *why)
{
    bool is_news = strcmp(self->why, why) != 0;
    uint32_t in_ms = chance_backoff(&self->chance, FIRST_BACKOFF_MS, MOST_BACKOFF_MS, self->failures++);
    self->is_failing = true;
    self->verdict = verdict;
    snprintf(self->why, sizeof self->why, "%s", why);
    host_timer_set(self->host, &self->again, clock_now_us() + in_ms * UINT64_C(1000));
    return is_news;
}

static void note_success(struct lock_postgres *self)
{
    self->is_failing = false;
    self->failures = 0;
    self->why[0] = '\0';
    host_timer_stop(self->host, &self->again);
}

/* One session tries it for all. */
static void connect_again(void *context)
{
    struct lock_postgres *self = context;
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        if (self->sessions[i].state == SESSION_NONE) {
            start_session(&self->sessions[i]);
            return;
        }
    }
    host_timer_set(self->host, &self->again, clock_now_us() + MOST_BACKOFF_MS * UINT64_C(1000));
}

/* It is up and has nothing to do. */
static void rest(struct session *session)
{
    struct lock_postgres *self = session->provider;
    clear_limit(session);
    session->state = SESSION_IDLE;
    if (session->token != NULL)
        try_lock(session);
    serve_queue(self);
    serve_looks(self);
    tell_link(self, false);
}

static void begin_work(struct session *session)
{
    note_success(session->provider);
    rest(session);
}

/* ---- the end of a session ---- */

/* What the core hears of it, when everything here is in order again. */
struct loss {
    bool dropped, told;
    char token[LOCK_TOKEN_SIZE], encoded[KEY_ENCODED_MAX + 1];
};

/* What it held is dropped; what stood in line is to be asked for anew. */
static void lose_token(struct lock_postgres *self, struct token *token, bool held,
                       const struct lock_reply *take, struct loss *loss)
{
    loss->dropped = held;
    loss->told = !held && token->take == NULL && token->give == NULL;
    snprintf(loss->token, sizeof loss->token, "%s", token->text);
    snprintf(loss->encoded, sizeof loss->encoded, "%s", token->encoded);
    answer(self, &token->take, take);
    answer_kind(self, &token->renew, LOCK_NOT_HELD, take->why);
    answer_kind(self, &token->give, LOCK_UNANSWERED, take->why);
    forget_token(self, token);
}

static void tell_loss(struct lock_postgres *self, const struct loss *loss, const char *why)
{
    const struct lock_provider_hooks *hooks = &self->hooks;
    if (loss->dropped && !self->is_closing)
        hooks->dropped(hooks->context, loss->token, why);
    if (loss->told && !self->is_closing)
        hooks->told(hooks->context, loss->token, loss->encoded, strlen(loss->encoded));
}

/* `kind` is what a take under way is answered. */
static void end_session(struct session *session, enum lock_reply_kind kind, const char *lent_why)
{
    struct lock_postgres *self = session->provider;
    struct token *token = session->token;
    enum session_state state = session->state;
    bool began = is_beginning(session);
    struct loss loss = {.told = false};
    char why[LOCK_PG_WHY_SIZE];
    snprintf(why, sizeof why, "%s", lent_why);
    close_session(session);
    bool is_news = began && note_failure(self, kind, why);
    if (token != NULL)
        lose_token(self, token, state == SESSION_HELD, &(struct lock_reply){.kind = kind, .why = why}, &loss);
    serve_queue(self);
    tell_link(self, is_news);
    tell_loss(self, &loss, why);
    if (!self->is_closing && (state == SESSION_LOOKING || (began && token == NULL)))
        end_looks(self, why);
}

/* Its own words about this server. */
static void end_with(struct session *session, enum lock_reply_kind kind, const char *what)
{
    char why[LOCK_PG_WHY_SIZE];
    lock_pg_explain(&session->pg, what, why);
    end_session(session, kind, why);
}

static void end_late(struct session *session, enum lock_reply_kind kind, const char *what, uint32_t limit_ms)
{
    char text[64];
    snprintf(text, sizeof text, "no %s within %" PRIu32 " ms", what, limit_ms);
    end_with(session, kind, text);
}

static void hear_limit(void *context)
{
    struct session *session = context;
    struct lock_postgres *self = session->provider;
    uint32_t limit_ms = self->config->limit_ms;
    switch (session->state) {
    case SESSION_CONNECTING:
        end_late(session, LOCK_UNSENT, "login", self->config->connect_limit_ms);
        return;
    case SESSION_CHECKING:
    case SESSION_CREATING:
        end_late(session, LOCK_UNSENT, "answer", limit_ms);
        return;
    case SESSION_NUMBERING: /* a transaction has the row: this one stands in front, and keeps its place */
        answer(self, &session->token->take,
               &(struct lock_reply){.kind = LOCK_REFUSED, .before = session->before});
        return;
    case SESSION_HELD: /* the server may be back before the lease is over */
        answer_kind(self, &session->token->renew, LOCK_UNANSWERED, NULL);
        return;
    default:
        end_late(session, LOCK_UNANSWERED, "answer", limit_ms);
        return;
    }
}

/* ---- sessions: what they hear ---- */

/* A table that another makes at the same time is as good. */
static bool is_there_already(const char *sqlstate)
{
    return strcmp(sqlstate, "42P07") == 0 || strcmp(sqlstate, "23505") == 0;
}

/* Not for the role, the settings or the schema as they are. */
static bool is_refused_for_good(const char *sqlstate)
{
    return strncmp(sqlstate, "42", 2) == 0 || strncmp(sqlstate, "22", 2) == 0 ||
           strcmp(sqlstate, "25006") == 0;
}

static void end_refused(struct session *session, const struct lock_pg_event *event)
{
    char why[2 * LOCK_PG_WHY_SIZE];
    bool lacks_table = session->state == SESSION_CREATING ||
                       (session->state == SESSION_NUMBERING && is_refused_for_good(event->sqlstate));
    snprintf(why, sizeof why, "%s%s", event->why,
             lacks_table ? "; an administrator makes the table: CREATE TABLE " FENCES_TABLE
                           "; GRANT SELECT, INSERT, UPDATE ON lock_fences TO this role"
                         : "");
    end_session(session, is_refused_for_good(event->sqlstate) ? LOCK_IMPOSSIBLE : LOCK_UNSENT, why);
}

static void hear_login(struct session *session)
{
    if (lock_pg_version(&session->pg) < OLDEST_SERVER)
        end_with(session, LOCK_IMPOSSIBLE, "locks need PostgreSQL 14 or later, for idle_session_timeout");
    else
        check_server(session);
}

static void hear_check(struct session *session, const struct lock_pg_rows *rows)
{
    if (!lock_pg_true(rows, 0, 0))
        end_with(
            session, LOCK_IMPOSSIBLE,
            "advisory locks need a direct connection, and this is a pooler: it hands out sessions of others");
    else if (lock_pg_true(rows, 0, 1))
        end_with(session, LOCK_UNSENT, "this is a standby; locks are kept by the primary");
    else if (!lock_pg_true(rows, 0, 2))
        create_table(session);
    else
        begin_work(session);
}

static void refuse_take(struct session *session)
{
    struct token *token = session->token;
    answer(session->provider, &token->take,
           &(struct lock_reply){.kind = LOCK_REFUSED, .before = session->before});
}

/* It has the lock. Without a take under way the core is told, and asks. */
static void hear_grant(struct session *session)
{
    struct lock_postgres *self = session->provider;
    struct token *token = session->token;
    session->state = SESSION_LOCKED;
    clear_limit(session);
    if (token->take != NULL)
        number_grant(session);
    else
        self->hooks.told(self->hooks.context, token->text, token->encoded, strlen(token->encoded));
}

static void hear_try(struct session *session, const struct lock_pg_rows *rows)
{
    struct lock_postgres *self = session->provider;
    struct token *token = session->token;
    if (lock_pg_true(rows, 0, 0)) {
        hear_grant(session);
        return;
    }
    session->before = (uint32_t)strtoul(lock_pg_text(rows, 0, 1), NULL, 10);
    refuse_take(session);
    if (token->stands) {
        wait_for_lock(session);
        return;
    }
    session->token = NULL;
    forget_token(self, token);
    rest(session);
}

/* A number without a take is of no use: the lease has gone on meanwhile, so the next take fetches another. */
static void hear_number(struct session *session, const struct lock_pg_rows *rows)
{
    struct token *token = session->token;
    struct lock_reply reply = {.kind = LOCK_GRANTED};
    if (lock_pg_row_count(rows) == 0) {
        raise_fence(session);
        return;
    }
    if (token->take == NULL) {
        hear_grant(session);
        return;
    }
    reply.fence[0] = strtoull(lock_pg_text(rows, 0, 0), NULL, 10);
    clear_limit(session);
    session->state = SESSION_HELD;
    answer(session->provider, &token->take, &reply);
}

static void hear_renewal(struct session *session, const struct lock_pg_rows *rows)
{
    struct token *token = session->token;
    if (!lock_pg_true(rows, 0, 0)) {
        end_with(session, LOCK_UNANSWERED, "the session does not have its lock any more");
        return;
    }
    if (token->renew != NULL && session->is_stale) {
        renew_hold(session);
        return;
    }
    if (token->renew != NULL)
        clear_limit(session);
    answer_kind(session->provider, &token->renew, LOCK_DONE, NULL);
}

/* What is heard first may be a renewal that was under way. */
static void hear_given(struct session *session, const struct lock_pg_rows *rows)
{
    struct lock_postgres *self = session->provider;
    struct token *token = session->token;
    if (session->is_stale) {
        unlock(session);
        return;
    }
    bool was_held = lock_pg_true(rows, 0, 0);
    answer_kind(self, &token->give, was_held ? LOCK_DONE : LOCK_NOT_HELD, NULL);
    session->token = NULL;
    forget_token(self, token);
    if (was_held)
        rest(session);
    else
        end_with(session, LOCK_UNANSWERED, "a lock was not there to be given back");
}

static void see(const struct lock_pg_rows *rows, size_t row, struct guard_lock_view *view)
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
    snprintf(seen->who, sizeof seen->who, "%.*s", (int)(space != NULL ? space - who : (ptrdiff_t)strlen(who)),
             who);
}

static void hear_look(struct session *session, const struct lock_pg_rows *rows)
{
    struct lock_postgres *self = session->provider;
    struct look *look = self->looks;
    struct guard_lock_view view = {.fence = strtoull(lock_pg_text(rows, 0, 0), NULL, 10)};
    for (size_t row = 0; row < lock_pg_row_count(rows); row++) {
        if (lock_pg_text(rows, row, 1)[0] != '\0')
            see(rows, row, &view);
    }
    DL_DELETE(self->looks, look);
    look->looked(look->context, &view, NULL);
    free(look);
    if (!self->is_closing)
        rest(session);
}

static void hear_rows(struct session *session, const struct lock_pg_rows *rows)
{
    switch (session->state) {
    case SESSION_CHECKING:
        hear_check(session, rows);
        return;
    case SESSION_CREATING:
        begin_work(session);
        return;
    case SESSION_TRYING:
        hear_try(session, rows);
        return;
    case SESSION_WAITING:
        hear_grant(session);
        return;
    case SESSION_NUMBERING:
        hear_number(session, rows);
        return;
    case SESSION_HELD:
        hear_renewal(session, rows);
        return;
    case SESSION_GIVING:
        hear_given(session, rows);
        return;
    case SESSION_LOOKING:
        hear_look(session, rows);
        return;
    default: /* nothing runs */
        return;
    }
}

static bool may_have_run(const struct session *session)
{
    return session->state == SESSION_TRYING || session->state == SESSION_NUMBERING;
}

static void hear_session(void *context, const struct lock_pg_event *event)
{
    struct session *session = context;
    switch (event->kind) {
    case LOCK_PG_UP:
        hear_login(session);
        return;
    case LOCK_PG_ROWS:
        hear_rows(session, event->rows);
        return;
    case LOCK_PG_REFUSED:
        if (session->state == SESSION_CREATING && is_there_already(event->sqlstate))
            begin_work(session);
        else
            end_refused(session, event);
        return;
    case LOCK_PG_LOST:
        end_session(session, may_have_run(session) ? LOCK_UNANSWERED : LOCK_UNSENT, event->why);
        return;
    }
}

/* ---- actions ---- */

/* No session is to be had now. */
static void answer_queued(struct lock_postgres *self, struct token *token)
{
    struct lock_reply reply = {.kind = LOCK_REFUSED, .before = (uint32_t)(token->turn - self->queue->turn)};
    if (!self->is_failing && token->stands) {
        answer(self, &token->take, &reply);
        return;
    }
    if (self->is_failing)
        answer_kind(self, &token->take, self->verdict, self->why);
    else
        answer_kind(self, &token->take, LOCK_UNSENT, "all 8 sessions of this process are in use");
    forget_token(self, token);
}

static void go_on_taking(struct token *token)
{
    struct session *session = token->session;
    switch (session->state) {
    case SESSION_WAITING:
    case SESSION_NUMBERING:
        refuse_take(session);
        return;
    case SESSION_HELD:
    case SESSION_LOCKED:
        if (session->pg.state == LOCK_PG_IDLE)
            number_grant(session);
        else
            answer_kind(session->provider, &token->take, LOCK_UNSENT, NULL);
        return;
    case SESSION_GIVING:
        answer_kind(session->provider, &token->take, LOCK_GONE, NULL);
        return;
    default: /* it is on its way */
        return;
    }
}

static bool take(struct lock_postgres *self, const struct lock_action *action, struct errand *errand)
{
    struct token *token = find_token(self, action->token);
    if (token == NULL)
        token = new_token(self, action);
    if (token == NULL)
        return false;
    answer_kind(self, &token->take, LOCK_UNSENT, "it was asked for again");
    token->take = errand;
    token->stands = action->place_ms > 0;
    if (token->session != NULL) {
        go_on_taking(token);
        return true;
    }
    serve_queue(self);
    if (token->session == NULL)
        answer_queued(self, token);
    return true;
}

static bool renew(struct lock_postgres *self, const struct lock_action *action, struct errand *errand)
{
    struct token *token = find_token(self, action->token);
    struct session *session = token != NULL ? token->session : NULL;
    if (session == NULL || session->state != SESSION_HELD) {
        answer_kind(self, &errand, LOCK_NOT_HELD, NULL);
        return true;
    }
    answer_kind(self, &token->renew, LOCK_UNANSWERED, NULL);
    token->renew = errand;
    set_limit(session, self->config->limit_ms);
    session->is_stale = session->pg.state != LOCK_PG_IDLE;
    if (!session->is_stale)
        renew_hold(session);
    return true;
}

/* A session that may have the lock, or comes to have it, and cannot be asked now, is closed. */
static void leave(struct lock_postgres *self, struct token *token)
{
    struct session *session = token->session;
    answer_kind(self, &token->take, LOCK_UNSENT, NULL);
    if (session != NULL) {
        session->token = NULL;
        if (!is_beginning(session))
            close_session(session);
    }
    forget_token(self, token);
    serve_queue(self);
}

static bool give(struct lock_postgres *self, const struct lock_action *action, struct errand *errand)
{
    struct token *token = find_token(self, action->token);
    struct session *session = token != NULL ? token->session : NULL;
    bool has_lock = session != NULL && (session->state == SESSION_HELD || session->state == SESSION_LOCKED);
    if (token != NULL && !has_lock)
        leave(self, token);
    if (!has_lock) {
        answer_kind(self, &errand, LOCK_NOT_HELD, NULL);
        return true;
    }
    answer_kind(self, &token->renew, LOCK_UNANSWERED, NULL);
    token->give = errand;
    set_limit(session, self->config->limit_ms);
    session->is_stale = session->pg.state != LOCK_PG_IDLE;
    session->state = SESSION_GIVING;
    if (!session->is_stale)
        unlock(session);
    return true;
}

static bool perform_on_postgres(struct lock_provider *face, const struct lock_action *action)
{
    struct lock_postgres *self = (struct lock_postgres *)face;
    struct errand *errand = calloc(1, sizeof *errand);
    bool accepted = false;
    if (errand == NULL)
        return false;
    errand->op = action->op;
    switch (action->kind) {
    case LOCK_TAKE:
        accepted = take(self, action, errand);
        break;
    case LOCK_RENEW:
        accepted = renew(self, action, errand);
        break;
    case LOCK_GIVE:
        accepted = give(self, action, errand);
        break;
    case LOCK_STAY: /* places need no renewing here: `stays` is false */
        break;
    }
    if (!accepted)
        free(errand);
    return accepted;
}

static bool look_at_postgres(struct lock_provider *face, const struct lock_name *name, lock_looked *looked,
                             void *context)
{
    struct lock_postgres *self = (struct lock_postgres *)face;
    struct look *look = calloc(1, sizeof *look);
    if (look == NULL)
        return false;
    name_row(self, name, look->row_name);
    key_of(look->row_name, look->key);
    look->looked = looked;
    look->context = context;
    DL_APPEND(self->looks, look);
    serve_looks(self);
    return true;
}

/* ---- open and close ---- */

static void free_errands(struct token *token)
{
    free(token->take);
    free(token->renew);
    free(token->give);
}

static void finish_closing(void *context)
{
    struct lock_postgres *self = context;
    void (*closed)(void *context) = self->closed;
    void *closed_context = self->closed_context;
    free(self);
    closed(closed_context);
}

/* Sessions end with their connections, and locks with their sessions. */
static void close_postgres(struct lock_provider *face, void (*closed)(void *context), void *context)
{
    struct lock_postgres *self = (struct lock_postgres *)face;
    struct token *token, *next_token;
    struct errand *errand, *next;
    self->is_closing = true;
    for (size_t i = 0; i < SESSIONS_ALL; i++)
        close_session(&self->sessions[i]);
    HASH_ITER (hh, self->tokens, token, next_token) {
        HASH_DEL(self->tokens, token);
        free_errands(token);
        free(token);
    }
    DL_FOREACH_SAFE (self->answers, errand, next)
        free(errand);
    self->answers = NULL;
    end_looks(self, NULL);
    host_soon_stop(&self->answering);
    host_timer_stop(self->host, &self->again);
    self->closed = closed;
    self->closed_context = context;
    host_soon(self->host, &self->closing);
}

static void init_sessions(struct lock_postgres *self)
{
    for (size_t i = 0; i < SESSIONS_ALL; i++) {
        struct session *session = &self->sessions[i];
        session->provider = self;
        session->pg = (struct lock_pg){.host = self->host, .heard = hear_session, .context = session};
        session->limit = (struct host_timer){.run = hear_limit, .context = session};
    }
}

/* The first session tells whether the server can be used, and serves the first token. */
struct lock_provider *lock_postgres_open(const struct lock_provider_config *config, struct guard_error *error)
{
    char why[LOCK_PG_WHY_SIZE];
    if (!lock_pg_check(config->locks->urls[0], why)) {
        check_failed(error, GUARD_INVALID, "urls[0]: no connection string of PostgreSQL: %s", why);
        return NULL;
    }
    struct lock_postgres *self = calloc(1, sizeof *self);
    if (self == NULL) {
        check_failed(error, GUARD_NO_MEMORY, "no memory for the locks");
        return NULL;
    }
    self->face = (struct lock_provider){.kinds = 1U << GUARD_LOCK_FAIR | 1U << GUARD_LOCK_MUTEX |
                                                 1U << GUARD_LOCK_WRITE | 1U << GUARD_LOCK_READ,
                                        .perform = perform_on_postgres,
                                        .look = look_at_postgres,
                                        .close = close_postgres};
    self->host = config->host;
    self->config = config->locks;
    self->hooks = config->hooks;
    self->answering = (struct host_soon){.run = tell_answers, .context = self};
    self->again = (struct host_timer){.run = connect_again, .context = self};
    self->closing = (struct host_soon){.run = finish_closing, .context = self, .last = true};
    clock_random(&self->chance.state, sizeof self->chance.state);
    init_sessions(self);
    start_session(&self->sessions[0]);
    return &self->face;
}

#endif
