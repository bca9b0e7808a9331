/* SPDX-License-Identifier: MIT */
/*
 * redis_link.h - one connection to one Redis, of hiredis: where its URL says, logged in, its database chosen.
 *
 *     redis://[[user]:password@]host[:port][/database]        unix://[[user]:password@]/path[?db=database]
 *
 * User, password and path may have %-escapes.
 *
 * Threads: any; a connection has one at a time.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

enum { REDIS_URL_WHY_BYTES = 128 };

struct redis_url {
    bool is_unix;
    char host[256]; /* a name, an address without brackets, or the socket's path */
    uint16_t port;
    char user[128], password[512]; /* "": none */
    uint32_t database;
};

/* Pure. False: `why` has the reason, which never repeats a part of the URL: with one character out of place a
 * password stands where a host belongs. */
bool redis_url_parse(const char *url, struct redis_url *out, char why[static REDIS_URL_WHY_BYTES]);

/* NULL: it cannot be had. Each step, and each command from then on, is given up after limit_ms. redisFree() is
 * yours. */
struct redisContext *redis_link_open(const struct redis_url *url, uint32_t limit_ms);
/* Without a password: a port of 127.0.0.1, or a socket's path. */
struct redisContext *redis_link_to_port(uint16_t port, uint32_t limit_ms);
struct redisContext *redis_link_to_path(const char *path, uint32_t limit_ms);
