/* SPDX-License-Identifier: MIT */
/*
 * herd_server.h - a server for those who ask: one process that answers by path, well or badly.
 *
 *     /ok            200 "ok", kept            /hang         never
 *     /key/N         200 {"version": N+1}      /reset        closes without an answer
 *     /cache/STATUS  200, Cache-Status: STATUS (a "+" stands for "; ")
 *     /close         200, then closes          /half         half of a body, then closes
 *     /until-close   a body without a length   /garbage      no HTTP
 *     /stall         half of a body, no more   /more         "ok" and two bytes more than it says, then closes
 *     /switching     101, nobody asked for it
 *     /typed         200 "typed", kept, text/x-typed
 *     /chunked       200 in two chunks         /status/NNN   that status
 *     /trailers      200 in chunks, and trailers
 *     /bytes/N       200 with N times 'x'      /gather       200, but to nobody before gather_target have asked
 *     anything else  404
 *
 * Other ports of the same process: RUBBISH says something that is not HTTP, TLS what a TLS server says to
 * plain HTTP, CLOSING closes every connection at once, IMPATIENT the first `closing` of them when they are
 * HERD_SERVER_PATIENCE_MS old, STRICT those that ask for OPTIONS, as civetweb does.
 *
 * It is gone when the thread that started it is.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { HERD_SERVER_PATIENCE_MS = 250 };

enum herd_server_port {
    HERD_SERVER_HTTP = 0,
    HERD_SERVER_HTTP_TOO, /* the same once more */
    HERD_SERVER_RUBBISH,
    HERD_SERVER_TLS,
    HERD_SERVER_CLOSING,
    HERD_SERVER_IMPATIENT,
    HERD_SERVER_STRICT,
    HERD_SERVER_PORTS
};

/* In shared memory: what the server has seen since herd_server_forget(). */
struct herd_server_seen {
    atomic_uint accepted[HERD_SERVER_PORTS];
    atomic_uint requests[HERD_SERVER_PORTS]; /* but for OPTIONS */
    atomic_uint sources[256];                /* connections by the last byte of the address they came from */
    atomic_uint keys[1024];                  /* requests for /key/N */
    atomic_uint gather_target;               /* the test's: set before requests for /gather are sent */
    atomic_uint closing;                     /* the test's: set before port IMPATIENT is connected to */
    char last_request[1024];                 /* but for OPTIONS */
};

struct herd_server {
    pid_t pid;
    uint16_t ports[HERD_SERVER_PORTS];
    struct herd_server_seen *seen;
};

bool herd_server_start(struct herd_server *server);
void herd_server_forget(struct herd_server *server);
void herd_server_stop(struct herd_server *server);
