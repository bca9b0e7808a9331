/* SPDX-License-Identifier: MIT */
/*
 * nginx.h - a private nginx whose proxy_cache stands before one server: what most people would put there.
 *
 * One worker, proxy_cache_lock on, kept-alive connections on both sides, nothing logged, everything in a
 * temporary folder that goes with this program (see proc.h). What came with 200 is cached as long as the options say,
 * whatever its Cache-Control says.
 *
 * Threads: as proc.h has it. Errors: false, and the reason with the end of the log on stderr.
 */
#ifndef LOAD_STACK_NGINX_H
#define LOAD_STACK_NGINX_H

#include "load/stack/rival.h"

struct nginx_options {
    uint16_t origin_port;
    uint32_t valid_s;  /* what came with 200 is cached so long */
    bool serves_stale; /* an expired document is served while one request renews it in the background */
};

/* Returns when it answers; its pid is the master's, the worker is its child. rival_stop() stops it. */
bool nginx_start(struct rival *nginx, const struct nginx_options *options);

#endif
