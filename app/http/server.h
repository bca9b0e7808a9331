/* SPDX-License-Identifier: MIT */
/*
 * server.h - the service's HTTP side: several loops that answer the catalog's paths from the guard.
 *
 *     request line -> route.c -> client.c: guard_get() -> answer.c -> reply.c
 *                                          writer_submit()  -> upload.c -> reply.c
 *
 * The room http/ owns client connections. Each loop is a thread; a connection stays on the loop that accepted it, and
 * nothing is shared between loops but counters. Reading order: route (what is asked for), client (the life of a
 * request), answer and reply (what goes out), loop and server (turns, phases, threads). Beside these: head (is it one
 * HTTP request?), selection (/products?ids=), upload (requests that write), revalidate (may it ask past
 * the cache?), listener (sockets); access, access_line and account (the access log).
 *
 * Threads: open, stop and close on one thread; the rest on any.
 */
#pragma once

#include "app/http/client.h"
#include "app/http/listener.h"
#include "app/write/writer.h"
#include "guard/guard.h"

#include <stdbool.h>
#include <stdint.h>

struct server_config {
    const char *listen; /* lent until server_open() returns, like everything that does not say longer */
    const struct given *given; /* sockets for it win over `listen`; NULL: none */
    uint32_t loops;            /* at least 1; more if more sockets were given */
    uint32_t connections_max;
    uint32_t shelf_bytes_max; /* of each loop; 0: no answer is kept prepared */
    uint32_t fresh_ms;
    const char *revalidate_token_file; /* "": none */
    struct guard *guard;               /* lent until server_close() returns, the kinds too */
    struct guard_kind *kinds[DOCUMENT_KIND_COUNT];
    struct writer *writer;     /* lent likewise; NULL: writes are off */
    struct access_log *access; /* lent likewise, with a lane for each loop; NULL: there is none */
};

struct server;

/* Listens and answers from here on. False: the reason was logged. */
bool server_open(const struct server_config *config, struct server **out);

/* The token of REVALIDATE_TOKEN_FILE as it is in the file by now. False: the reason was logged, and the old one
 * counts. */
bool server_read_token(struct server *server, const char *revalidate_token_file);

/*
 * Stops accepting at once and answers what comes on the connections that there are, each with its last answer; loop.h
 * has the phases. The guard answers what is not finished after drain_ms with CLOSING; writes that have begun are
 * waited for. Then the threads end. Until then the guard must answer requests: guard_drain() belongs after it,
 * writer_drain() with the same drain_ms before it. Blocks; once.
 */
void server_stop(struct server *server, uint32_t drain_ms);

/* After server_stop(), before guard_close(). Leaves NULL. */
void server_close(struct server **server);

/* Of the policy, when that changes. */
void server_set_fresh_ms(struct server *server, uint32_t fresh_ms);

/* Where it listens, port resolved. Lent until server_close(). */
const char *server_address(const struct server *server);

struct server_stats {
    uint64_t answers[ROUTE_TARGET_COUNT][CLIENT_STATUS_CLASSES];
    uint64_t connections_expired; /* closed for sending or reading too slowly, or to make room */
    uint32_t connections, connections_busy, connections_parked;
    uint32_t loops;
    uint64_t shelf_bytes;
    struct access_stats access; /* zeros without a log */
    uint32_t beat_age_ms;       /* of the loop that turned longest ago */
    bool writes_on;
    struct writer_stats writes; /* zeros if they are off */
};
void server_stats(const struct server *server, struct server_stats *out);
