/* SPDX-License-Identifier: MIT */
/*
 * web.h - the playground's own listener, on 127.0.0.1:
 *
 *     GET /          the page: no token, it holds nothing
 *     GET /stream    state.h, a line at a time, for as long as the reader wants it; at most STATE_READERS of them
 *     POST /act      a button; see buttons.h. 200 {"ok":true}, else {"error": text}
 *
 * gate.h says who may.
 *
 * Threads: web_open() and web_close() from one; a thread of libmicrohttpd's for each connection.
 */
#ifndef LOAD_GROUND_WEB_H
#define LOAD_GROUND_WEB_H

#include "load/ground/gate.h"
#include "load/ground/state.h"

struct MHD_Daemon;

struct web {
    struct state *state;   /* lent */
    struct ground *ground; /* lent */
    struct MHD_Daemon *daemon;
    uint16_t port;
    char token[GATE_TOKEN_BYTES];
};

/* `port` 0: a free one. False: the reason is on stderr. */
bool web_open(struct web *web, struct state *state, struct ground *ground, uint16_t port);
void web_close(struct web *web);

#endif
