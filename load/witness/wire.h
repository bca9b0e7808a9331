/* SPDX-License-Identifier: MIT */
/*
 * wire.h - which statements or requests pass over one connection, and when each began and ended.
 *
 *     bytes of the client --> wire_client() --+
 *     bytes of the server --> wire_server() --+--> `tell`, once for each statement, when it has ended
 *
 *     PostgreSQL   simple Query; Execute of the extended protocol, with the text of its Parse and the values of its
 *                  Bind. It ends with CommandComplete or an error, a simple one with ReadyForQuery. The further rows
 *                  of a portal are no statement, nor is what stands behind a Parse or Bind that failed.
 *     MySQL        COM_QUERY, and COM_STMT_EXECUTE with the text of its COM_STMT_PREPARE; it ends with the last
 *                  packet of its last result.
 *     HTTP/1.1     a request, its target as a literal: GET '/item/7'; it ends with its response.
 *
 * What a connection leaves open when it closes ends then. One that turns to TLS, compression or anything else that
 * cannot be read is opaque from there on, and says why: it is passed on, and nothing of it is told.
 *
 * Pure: time is an argument. Memory is bounded by WIRE_TEXT_MAX a statement and WIRE_OPEN_MAX of them. Threads: one
 * at a time.
 */
#pragma once

#include "load/base/http_parse.h"
#include "load/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wire_protocol { WIRE_POSTGRES = 0, WIRE_MYSQL, WIRE_HTTP, WIRE_PROTOCOLS };

enum { WIRE_TEXT_MAX = 1 << 18, WIRE_OPEN_MAX = 1024, WIRE_NAMED_MAX = 512 };

enum wire_kind { WIRE_COUNTS = 0, WIRE_SIMPLE, WIRE_UNSEEN, WIRE_FETCH, WIRE_STEP, WIRE_SYNC };

struct wire_statement {
    char *text, *parameters; /* owned by the wire; parameters: "$1 = '7', $2 = NULL", or "" */
    uint64_t begun_us, ended_us;
    enum wire_kind kind; /* the wire's own */
};

typedef void wire_tell(void *context, const struct wire_statement *statement);

/* Prepared, or bound. */
struct wire_named {
    char *name, *text, *parameters; /* owned; NULL: free */
    uint32_t values;                /* of MySQL: how many parameters it has */
    bool is_portal, is_unseen, has_run;
};

/* One direction: a message that has not come whole. */
struct wire_side {
    struct text part;
    uint64_t skip; /* bytes of a message that is not looked at */
};

struct wire {
    enum wire_protocol protocol;
    wire_tell *tell;
    void *context;      /* lent */
    const char *opaque; /* why nothing is seen; NULL: all is */

    struct wire_side client, server;
    struct wire_statement open[WIRE_OPEN_MAX]; /* a ring */
    size_t first, count;
    struct wire_named named[WIRE_NAMED_MAX];
    size_t next_named;

    bool is_started; /* past greetings and login */
    bool asked_tls, skips;
    uint32_t offered, abilities; /* MySQL: what the server can, and what both can */
    uint32_t last_prepared;
    struct wire_mysql_response {
        enum { MYSQL_NONE = 0, MYSQL_FIRST, MYSQL_COLUMNS, MYSQL_ROWS, MYSQL_PREPARED } state;
        uint64_t left;
        bool continues; /* the packet before was as long as one can be */
        char command;
    } response;
    struct http_parse request, answer;
    bool in_body;
};

void wire_init(struct wire *wire, enum wire_protocol protocol, wire_tell *tell, void *context);
void wire_client(struct wire *wire, const char *bytes, size_t count, uint64_t now_us);
void wire_server(struct wire *wire, const char *bytes, size_t count, uint64_t now_us);
/* The connection is over. */
void wire_clear(struct wire *wire, uint64_t now_us);

/* ---- for the protocols: wire_postgres.c, wire_mysql.c, wire_http.c ---- */

/* A text that need not end with a NUL is copied; `text` NULL: none. */
void wire_begin(struct wire *wire, const char *text, size_t count, const char *parameters,
                enum wire_kind kind, uint64_t now_us);
/* The oldest that is open; false: none is. `is_told`: it has run. */
bool wire_end(struct wire *wire, bool is_told, uint64_t now_us);
/* NULL: none of the name; where `makes`, one that is empty. */
struct wire_named *wire_find(struct wire *wire, const char *name, bool is_portal, bool makes);
void wire_name_text(struct wire_named *named, const char *text, size_t count);
void wire_forget(struct wire_named *named); /* NULL: nothing */

/* How many bytes the message has that begins here; 0: not to be known yet. `is_wanted` says whether to keep it. */
typedef size_t wire_measure(struct wire *wire, const unsigned char *bytes, size_t count, bool *is_wanted);
/* A whole message; one that is longer than WIRE_TEXT_MAX is cut. */
typedef void wire_message(struct wire *wire, const unsigned char *bytes, size_t count, uint64_t now_us);
void wire_cut(struct wire *wire, struct wire_side *side, const char *bytes, size_t count,
              wire_measure *measure, wire_message *take, uint64_t now_us);

void wire_postgres_client(struct wire *wire, const char *bytes, size_t count, uint64_t now_us);
void wire_postgres_server(struct wire *wire, const char *bytes, size_t count, uint64_t now_us);
void wire_mysql_client(struct wire *wire, const char *bytes, size_t count, uint64_t now_us);
void wire_mysql_server(struct wire *wire, const char *bytes, size_t count, uint64_t now_us);
void wire_http_client(struct wire *wire, const char *bytes, size_t count, uint64_t now_us);
void wire_http_server(struct wire *wire, const char *bytes, size_t count, uint64_t now_us);
