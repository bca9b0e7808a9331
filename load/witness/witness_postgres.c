/* SPDX-License-Identifier: MIT */
/* witness_postgres.c - see witness_postgres.h. */
#include "load/witness/witness_postgres.h"

#include "load/base/clock.h"
#include "load/base/number.h"
#include "load/base/sql.h"
#include "load/witness/witness_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OPEN_LIMIT_MS = 3000,
    BEGIN_LIMIT_MS = 3000,
    FINISH_LIMIT_MS = 700,
    FREQUENT_LIMIT_MS = 200,
    RUNNING_LIMIT_MS = 300,
    QUERY_BYTES = 1024
};

struct witness_postgres {
    struct witness_options options; /* its texts are lent */
    struct sql_session session;
    char counter[QUERY_BYTES]; /* STATEMENTS: the number, and what changes when it begins anew */
    char others[QUERY_BYTES];  /* STATEMENTS: what is asked most often */
    bool sees_all;             /* other roles' statements, too */
    bool is_loud_by_default;   /* log_statement, as the last mark found it */
    uint64_t count_before;
    char epoch_before[SQL_CELL_BYTES];
};

static bool explain(char *why, const struct sql_session *session)
{
    snprintf(why, WITNESS_WHY_BYTES, "database: %.200s", session->why);
    return false;
}

/* ---- what is asked ---- */

/* Whoever may not set these goes on without. */
static const char quiet[] =
    WITNESS_OURS " */ SELECT set_config('default_transaction_read_only', 'on', false),"
                 " CASE WHEN current_setting('is_superuser') = 'on' THEN"
                 " set_config('log_statement', 'none', false) || set_config('log_duration', 'off', false)"
                 " || set_config('log_min_duration_statement', '-1', false) END";

/* Now, and for whoever does not set it: a superuser hears itself, and may be the only one. */
static const char loud[] =
    WITNESS_OURS " */ SELECT CASE WHEN current_setting('is_superuser') = 'on'"
                 " THEN set_config('log_statement', 'all', false)"
                 " WHEN current_setting('log_min_duration_statement') = '0' THEN 'all'"
                 " ELSE current_setting('log_statement') END,"
                 " CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_settings WHERE reset_val ="
                 " CASE name WHEN 'log_statement' THEN 'all' WHEN 'log_min_duration_statement' THEN '0' END) "
                 "THEN 'all' END";

static const char visible[] = WITNESS_OURS " */ SELECT pg_has_role('pg_read_all_stats', 'USAGE')";

static const char running[] =
    WITNESS_OURS " */ SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'active' AND "
                 "backend_type = 'client backend'"
                 " AND strpos(query, $1) > 0 AND strpos(query, '" WITNESS_OURS "') = 0";

static const char extension[] =
    WITNESS_OURS " */ SELECT quote_ident(nspname), to_regclass(quote_ident(nspname) || "
                 "'.pg_stat_statements_info') IS NOT NULL"
                 " FROM pg_catalog.pg_extension JOIN pg_catalog.pg_namespace AS n ON n.oid = extnamespace"
                 " WHERE extname = 'pg_stat_statements'";

static const char statements[] =
    WITNESS_OURS " */ SELECT coalesce(sum(calls), 0)::bigint, %s%s%s FROM %s.pg_stat_statements"
                 " WHERE dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())"
                 " AND strpos(query, $1) > 0 AND strpos(query, '" WITNESS_OURS "') = 0";

static const char frequent[] = WITNESS_OURS
    " */ SELECT calls, query FROM %s.pg_stat_statements"
    " WHERE dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())"
    " AND query ~* '(SELECT|WITH) ' AND strpos(query, '" WITNESS_OURS "') = 0 ORDER BY calls DESC LIMIT 1";

static const char place[] =
    WITNESS_OURS " */ SELECT current_setting('log_destination'),"
                 " CASE WHEN has_function_privilege('pg_current_logfile()', 'EXECUTE')"
                 " THEN coalesce(pg_current_logfile(), '') ELSE '' END,"
                 " coalesce((SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory'), ''), "
                 "pg_backend_pid()";

/* ---- the counter ---- */

static bool whole_number(const char *text, uint64_t *out)
{
    return number_scan(&text, UINT64_MAX, out) && *text == '\0';
}

/* False: no number to be had; the reason is in `why`. */
static bool take_count(struct witness_postgres *postgres, uint64_t end_us, uint64_t *count,
                       char epoch[static SQL_CELL_BYTES], char why[static WITNESS_WHY_BYTES])
{
    struct sql_answer answer;
    if (sql_session_ask(&postgres->session, postgres->counter, &postgres->options.statement, 1, end_us,
                        &answer) != SQL_ANSWERED)
        return explain(why, &postgres->session);
    if (answer.cell_count == 0 || !whole_number(answer.cells[0], count)) {
        snprintf(why, WITNESS_WHY_BYTES,
                 "database: the query that counts loads gave %s%.100s%s, not a whole number",
                 answer.cell_count > 0 ? "\"" : "no row", answer.cells[0], answer.cell_count > 0 ? "\"" : "");
        return false;
    }
    snprintf(epoch, SQL_CELL_BYTES, "%s", answer.cells[1]);
    return true;
}

static bool find_statements(struct witness_postgres *postgres, uint64_t end_us,
                            char why[static WITNESS_WHY_BYTES])
{
    struct sql_answer answer;
    if (sql_session_ask(&postgres->session, extension, NULL, 0, end_us, &answer) != SQL_ANSWERED)
        return explain(why, &postgres->session);
    if (answer.cell_count == 0) {
        snprintf(
            why, WITNESS_WHY_BYTES,
            "database: no pg_stat_statements here: CREATE EXTENSION pg_stat_statements in this database, and "
            "shared_preload_libraries = 'pg_stat_statements' with a restart");
        return false;
    }
    const char *schema = answer.cells[0];
    bool has_info = strcmp(answer.cells[1], "t") == 0; /* from 14 on */
    snprintf(postgres->counter, sizeof postgres->counter, statements,
             has_info ? "(SELECT stats_reset::text FROM " : "''", has_info ? schema : "",
             has_info ? ".pg_stat_statements_info)" : "", schema);
    snprintf(postgres->others, sizeof postgres->others, frequent, schema);
    return true;
}

static bool try_counter(struct witness_postgres *postgres, uint64_t end_us,
                        char why[static WITNESS_WHY_BYTES])
{
    uint64_t count;
    char epoch[SQL_CELL_BYTES];
    return postgres->options.way != WITNESS_STATEMENTS ||
           (find_statements(postgres, end_us, why) && take_count(postgres, end_us, &count, epoch, why));
}

bool witness_postgres_open(const struct witness_options *options, struct witness_postgres **out,
                           char why[static WITNESS_WHY_BYTES])
{
    struct sql_answer answer;
    uint64_t end_us = clock_after_ms(OPEN_LIMIT_MS);
    struct witness_postgres *postgres = calloc(1, sizeof *postgres);
    if (postgres == NULL) {
        snprintf(why, WITNESS_WHY_BYTES, "no memory");
        return false;
    }
    postgres->options = *options;
    sql_session_init(&postgres->session, options->database_url, "stampede witness", quiet);
    bool good = sql_session_ask(&postgres->session, visible, NULL, 0, end_us, &answer) == SQL_ANSWERED;
    postgres->sees_all = good && strcmp(answer.cells[0], "t") == 0;
    if (!good)
        explain(why, &postgres->session);
    if (good && try_counter(postgres, end_us, why)) {
        *out = postgres;
        return true;
    }
    witness_postgres_close(&postgres);
    return false;
}

/* ---- begin, end ---- */

bool witness_postgres_begin(struct witness_postgres *postgres, char why[static WITNESS_WHY_BYTES])
{
    return postgres->options.way != WITNESS_STATEMENTS ||
           take_count(postgres, clock_after_ms(BEGIN_LIMIT_MS), &postgres->count_before,
                      postgres->epoch_before, why);
}

uint32_t witness_postgres_running(struct witness_postgres *postgres)
{
    struct sql_answer answer;
    uint64_t count = 0;
    return sql_session_ask(&postgres->session, running, &postgres->options.statement, 1,
                           clock_after_ms(RUNNING_LIMIT_MS), &answer) == SQL_ANSWERED &&
                   whole_number(answer.cells[0], &count)
               ? (uint32_t)count
               : 0;
}

/* A text that has never been in a statement may be a slip of the pen: here is what it might have been. */
static void note_nothing(struct witness_postgres *postgres, struct witness_view *view)
{
    struct sql_answer answer;
    struct witness_key key;
    if (view->load_count > 0 || view->knows_text ||
        sql_session_ask(&postgres->session, postgres->others, NULL, 0, clock_after_ms(FREQUENT_LIMIT_MS),
                        &answer) != SQL_ANSWERED ||
        answer.cell_count < 2)
        return;
    witness_key_read(answer.cells[1], strlen(answer.cells[1]), &key);
    witness_note(view, "no statement has \"%.80s\" in it; the most frequent query is %s x \"%s\"",
                 postgres->options.statement, answer.cells[0], key.form);
}

static void finish_count(struct witness_postgres *postgres, struct witness_view *view)
{
    char epoch[SQL_CELL_BYTES], why[WITNESS_WHY_BYTES];
    uint64_t count = 0;
    if (!take_count(postgres, clock_after_ms(FINISH_LIMIT_MS), &count, epoch, why)) {
        view->way = WITNESS_NONE;
        witness_note(view, "loads are unknown: %.100s", why);
        return;
    }
    bool anew = count < postgres->count_before || strcmp(epoch, postgres->epoch_before) != 0;
    view->load_count = anew ? count : count - postgres->count_before;
    view->misses_loads = anew;
    view->knows_text = postgres->count_before > 0;
    if (anew)
        witness_note(view, "the counter was reset during the run: loads before that are missing");
    note_nothing(postgres, view);
}

void witness_postgres_finish(struct witness_postgres *postgres, struct witness_view *view)
{
    if (view->way != WITNESS_STATEMENTS)
        return;
    finish_count(postgres, view);
    witness_note(view, "pg_stat_statements leaves out loads that failed or were cancelled");
    view->misses_loads = view->misses_loads || !postgres->sees_all;
    if (!postgres->sees_all)
        witness_note(view, "only statements of this role are seen: GRANT pg_read_all_stats");
}

/* ---- the log ---- */

enum witness_mark witness_postgres_mark(struct witness_postgres *postgres, uint64_t number, uint32_t limit_ms,
                                        char why[static WITNESS_WHY_BYTES])
{
    struct sql_answer answer;
    char statement[96];
    struct sql_session *session = &postgres->session;
    uint64_t end_us = clock_after_ms(limit_ms);
    /* Unlike anybody's: pg_stat_statements takes for one what differs in comments only, theirs and ours. */
    snprintf(statement, sizeof statement,
             WITNESS_OURS " %" PRIu64 " */ SELECT 1, 2, 'stampede', 3, 'witness'", number);
    if (sql_session_ask(session, loud, NULL, 0, end_us, &answer) != SQL_ANSWERED) {
        explain(why, session);
        return WITNESS_UNMARKED;
    }
    postgres->is_loud_by_default = strcmp(answer.cells[1], "all") == 0;
    if (strcmp(answer.cells[0], "all") != 0) {
        snprintf(
            why, WITNESS_WHY_BYTES,
            "neither log_statement 'all' nor log_min_duration_statement 0 is set for the role that looks");
        return WITNESS_UNLOGGED;
    }
    bool good = sql_session_ask(session, statement, NULL, 0, end_us, &answer) == SQL_ANSWERED;
    if (!good)
        explain(why, session);
    else
        sql_session_ask(session, quiet, NULL, 0, end_us, &answer);
    return good ? WITNESS_MARKED : WITNESS_UNMARKED;
}

bool witness_postgres_is_loud_by_default(const struct witness_postgres *postgres)
{
    return postgres->is_loud_by_default;
}

void witness_postgres_log_place(struct witness_postgres *postgres, char *text, size_t text_bytes)
{
    struct sql_answer answer;
    text[0] = '\0';
    if (sql_session_ask(&postgres->session, place, NULL, 0, clock_after_ms(FINISH_LIMIT_MS), &answer) !=
        SQL_ANSWERED)
        return;
    snprintf(text, text_bytes, "log_destination is '%s'%s%s", answer.cells[0],
             answer.cells[1][0] != '\0' ? ", the file " : "", answer.cells[1]);
}

/* Without a collector a server process writes to where its stderr leads. */
bool witness_postgres_find_log(struct witness_postgres *postgres, char path[static WITNESS_PATH_BYTES],
                               char why[static WITNESS_WHY_BYTES])
{
    struct sql_answer answer;
    struct stat found;
    char link[64];
    if (sql_session_ask(&postgres->session, place, NULL, 0, clock_after_ms(OPEN_LIMIT_MS), &answer) !=
        SQL_ANSWERED)
        return explain(why, &postgres->session);
    const char *file = answer.cells[1];
    snprintf(path, WITNESS_PATH_BYTES, "%s%s%s", file[0] == '/' ? "" : answer.cells[2],
             file[0] == '/' ? "" : "/", file);
    snprintf(link, sizeof link, "/proc/%.20s/fd/2", answer.cells[3]);
    ssize_t bytes = file[0] == '\0' ? readlink(link, path, WITNESS_PATH_BYTES - 1) : 0;
    if (bytes > 0)
        path[bytes] = '\0';
    if (bytes >= 0 && stat(path, &found) == 0 && S_ISREG(found.st_mode) && access(path, R_OK) == 0)
        return true;
    snprintf(why, WITNESS_WHY_BYTES,
             "database: its log cannot be read here%s%.80s%s: name it by [--]count log:PATH, or use "
             "[--]count statements",
             bytes >= 0 ? " (" : "", bytes >= 0 ? path : "", bytes >= 0 ? ")" : "");
    return false;
}

void witness_postgres_close(struct witness_postgres **slot)
{
    struct witness_postgres *postgres = *slot;
    *slot = NULL;
    if (postgres == NULL)
        return;
    sql_session_clear(&postgres->session);
    free(postgres);
}
