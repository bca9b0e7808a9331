/* SPDX-License-Identifier: MIT */
/* check_database.c - PostgreSQL: the statements of sql/check_*.sql, as the reader and as the writer. */
#include "app/check/check.h"

#include "app/base/clock.h"
#include "app/pg/pg.h"
#include "app_statements.h"

#include <stdlib.h>
#include <string.h>

enum { SERVER, SCHEMA, WRITER, STATEMENTS, ROWS_BYTES = 65536, LISTED_BYTES = 400, OLDEST_VERSION = 130000 };
enum {
    COLUMN_NUMBER,
    COLUMN_VERSION,
    COLUMN_NOW_MS,
    COLUMN_IS_STANDBY,
    COLUMN_MOST,
    COLUMN_USED,
    COLUMN_USER,
    COLUMN_ISOLATION
};

static const struct pg_statement statements[STATEMENTS] = {
    [SERVER] = {"check_server", SQL_CHECK_SERVER, 0},
    [SCHEMA] = {"check_schema", SQL_CHECK_SCHEMA, 0},
    [WRITER] = {"check_writer", SQL_CHECK_WRITER, 0},
};

struct database {
    struct findings *findings;
    const char *what; /* "database", "database for writes" */
    bool writes;
    struct pg_pool *pool;
    struct rows rows;
};

static bool ask(struct database *database, size_t statement)
{
    const struct pg_request request = {.statement = statement, .left_ms = CHECK_LIMIT_MS, .cancel_fd = -1};
    struct pg_fault fault = {.text = ""};
    const enum pg_outcome outcome = pg_query(database->pool, &request, &database->rows, &fault);

    if (outcome == PG_OK)
        return true;
    findings_add(database->findings, VERDICT_WRONG, database->what,
                 outcome == PG_REJECTED ? "mend the login or the name of the database"
                                        : "is it running, and reached from here?",
                 "%s%s%s", fault.text, fault.sqlstate[0] != '\0' ? ", SQLSTATE " : "", fault.sqlstate);
    return false;
}

static const char *cell(const struct database *database, size_t column)
{
    const char *text = rows_text(&database->rows, 0, column);

    return text != NULL ? text : "";
}

static long number(const struct database *database, size_t column)
{
    return strtol(cell(database, column), NULL, 10);
}

static void list_rows(const struct rows *rows, char out[static LISTED_BYTES])
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t row = 0; row < rows->row_count && used < LISTED_BYTES; row++) {
        const char *text = rows_text(rows, row, 0);

        used += (size_t)snprintf(out + used, LISTED_BYTES - used, "%s%s", row > 0 ? ", " : "",
                                 text != NULL ? text : "?");
    }
}

static void check_connections(const struct settings *settings, const struct database *database)
{
    const long most = number(database, COLUMN_MOST), used = number(database, COLUMN_USED);
    const long needed = (long)limits_database_connections(settings);

    if (needed <= most - used)
        findings_ok(database->findings, "database connections", "needs %ld, %ld of %ld are free", needed,
                    most - used, most);
    else
        findings_add(database->findings, needed > most ? VERDICT_WRONG : VERDICT_WARNING,
                     "database connections",
                     "raise max_connections, lower MAX_LOADS, or put a pooler before it (PREPARE=off)",
                     "needs %ld, but %ld of %ld are free", needed, most - used, most);
}

static void check_standby(const struct settings *settings, const struct database *database)
{
    const bool will_do = settings->database_standby && !database->writes;

    if (strcmp(cell(database, COLUMN_IS_STANDBY), "t") != 0)
        return;
    findings_add(database->findings, will_do ? VERDICT_WARNING : VERDICT_WRONG, database->what,
                 "name the primary, or all hosts: the one that is the primary is found",
                 "a standby: what it has not replayed yet %s",
                 will_do ? "is cached as new (DATABASE_STANDBY)"
                         : "would be cached as new, so it is not used");
}

/* Sessions set it themselves; behind a pooler that cannot keep settings it is up to the login. */
static void check_isolation(const struct database *database)
{
    const char *isolation = cell(database, COLUMN_ISOLATION);

    if (strcmp(isolation, "read committed") != 0)
        findings_add(database->findings, VERDICT_WARNING, database->what,
                     "ALTER ROLE ... SET default_transaction_isolation = 'read committed'",
                     "default_transaction_isolation is %s: of those who buy at once most are refused",
                     isolation);
}

static void check_server(const struct settings *settings, struct database *database, int64_t before_ms)
{
    char what[64];

    if (number(database, COLUMN_NUMBER) < OLDEST_VERSION)
        findings_add(database->findings, VERDICT_WRONG, database->what, "use 13 or later",
                     "PostgreSQL %s as %s", cell(database, COLUMN_VERSION), cell(database, COLUMN_USER));
    else
        findings_ok(database->findings, database->what, "PostgreSQL %s as %s", cell(database, COLUMN_VERSION),
                    cell(database, COLUMN_USER));
    check_standby(settings, database);
    check_isolation(database);
    snprintf(what, sizeof(what), "clock of the %s", database->what);
    check_clock(database->findings, what, strtoll(cell(database, COLUMN_NOW_MS), NULL, 10), before_ms);
    check_connections(settings, database);
}

/* A statement that lists what is not as it must be. */
static void check_list(struct database *database, size_t statement, const char *what, const char *good,
                       const char *advice)
{
    char listed[LISTED_BYTES];

    if (!ask(database, statement))
        return;
    list_rows(&database->rows, listed);
    if (database->rows.row_count == 0)
        findings_ok(database->findings, what, "%s", good);
    else
        findings_add(database->findings, VERDICT_WRONG, what, advice, "lacks %s", listed);
}

static bool database_open(struct database *database, const struct settings *settings, const char *conninfo)
{
    const struct pg_config config = {.conninfo = conninfo,
                                     .connection_count = 1,
                                     .prepare = settings->prepare,
                                     .standby_will_do = true, /* check_server() says so */
                                     .statement_limit_ms = CHECK_LIMIT_MS,
                                     .statements = statements,
                                     .statement_count = STATEMENTS,
                                     .writes = database->writes,
                                     .lock_limit_ms = CHECK_LIMIT_MS};

    rows_init(&database->rows, ROWS_BYTES);
    return pg_pool_open(&config, &database->pool);
}

static void database_close(struct database *database)
{
    rows_clear(&database->rows);
    pg_pool_close(&database->pool);
}

void check_database(const struct settings *settings, struct findings *findings)
{
    struct database reader = {.findings = findings, .what = "database"};
    struct database writer = {.findings = findings, .what = "database for writes", .writes = true};
    int64_t before_ms = (int64_t)clock_wall_ms();

    if (database_open(&reader, settings, settings->database_url) && ask(&reader, SERVER)) {
        check_server(settings, &reader, before_ms);
        check_list(
            &reader, SCHEMA, "schema", "is the one that this program wants, and may be read",
            "make db DATABASE_URL=... (or psql -f of the installed sql/schema.sql) as its owner brings it "
            "up to date and grants the rights");
    }
    database_close(&reader);
    if (settings->write_database_url[0] == '\0')
        return;
    before_ms = (int64_t)clock_wall_ms();
    if (database_open(&writer, settings, settings->write_database_url) && ask(&writer, SERVER)) {
        check_server(settings, &writer, before_ms);
        check_list(&writer, WRITER, "rights to write", "all that catalog_writer has",
                   "GRANT catalog_writer TO the login of WRITE_DATABASE_URL");
    }
    database_close(&writer);
}
