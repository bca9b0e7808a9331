/* SPDX-License-Identifier: MIT */
/* pg_error.c - see pg_error.h. */
#include "app/pg/pg_error.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The first row whose prefix matches; single codes stand above their class. */
static const struct {
    const char *prefix;
    enum pg_outcome outcome;
} table[] = {
    {"08", PG_UNAVAILABLE},    /* connection exception */
    {"40", PG_UNAVAILABLE},    /* rolled back: serialization, deadlock */
    {"53", PG_UNAVAILABLE},    /* out of connections, memory, disk */
    {"55P03", PG_TIMEOUT},     /* lock_timeout */
    {"57014", PG_TIMEOUT},     /* statement_timeout, or a cancel request */
    {"57P04", PG_REJECTED},    /* the database was dropped */
    {"57", PG_UNAVAILABLE},    /* operator intervention: shutdown, starting up, idle session ended */
    {"58", PG_UNAVAILABLE},    /* outside of PostgreSQL: I/O */
    {"25006", PG_UNAVAILABLE}, /* read-only: a standby, or fenced */
    {"25P03", PG_UNAVAILABLE}, /* idle transaction ended */
    {"25P04", PG_TIMEOUT},     /* transaction_timeout */
    {"", PG_REJECTED},         /* 22 data, 26 prepared statement, 28 login, 3D database, 42 schema, XX, ... */
};

const char *pg_outcome_name(enum pg_outcome outcome)
{
    static const char *const names[] = {
        [PG_OK] = "ok",
        [PG_UNAVAILABLE] = "unavailable",
        [PG_TIMEOUT] = "timeout",
        [PG_REJECTED] = "rejected",
        [PG_CANCELLED] = "cancelled",
    };

    return names[outcome];
}

enum pg_outcome pg_fault_set(struct pg_fault *fault, enum pg_outcome outcome, const char *sqlstate,
                             const char *text)
{
    if (fault->text[0] != '\0')
        return outcome;
    snprintf(fault->sqlstate, sizeof(fault->sqlstate), "%s", sqlstate);
    snprintf(fault->text, sizeof(fault->text), "%s", text);
    fault->text[strcspn(fault->text, "\n")] = '\0';
    for (char *at = fault->text; (at = strchr(at, '"')) != NULL;)
        *at = '\''; /* it will stand between quotes in the log */
    return outcome;
}

enum pg_outcome pg_error_classify(const char *sqlstate)
{
    size_t i = 0;

    while (strncmp(sqlstate, table[i].prefix, strlen(table[i].prefix)) != 0)
        i++;
    return table[i].outcome;
}

static bool is_state(const char *text)
{
    enum { LETTERS = PG_STATE_SIZE - 1 };

    return strspn(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == LETTERS &&
           (text[LETTERS] == ':' || text[LETTERS] == '\n' || text[LETTERS] == '\0');
}

bool pg_error_find_state(const char *text, char out[PG_STATE_SIZE])
{
    bool found = false;

    for (const char *at = text; (at = strstr(at, ":  ")) != NULL;) {
        at += 3;
        if (is_state(at)) {
            memcpy(out, at, PG_STATE_SIZE - 1);
            out[PG_STATE_SIZE - 1] = '\0';
            found = true;
            /* Quoted names in the rest of the line cannot pose as another one. */
            at += strcspn(at, "\n");
        }
    }
    return found;
}
