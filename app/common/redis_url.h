/* SPDX-License-Identifier: MIT */
/*
 * redis_url.h - where a Redis is, and as whom to speak to it.
 *
 *     redis://[[user]:password@]host[:port][/database]        unix://[[user]:password@]/path[?db=database]
 *
 * User, password and path may have %-escapes. Pure. Errors: false, and the reason in `why`, which never repeats a
 * part of the URL: with one character out of place a password stands where a host belongs.
 */
#ifndef COMMON_REDIS_URL_H
#define COMMON_REDIS_URL_H

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

bool redis_url_parse(const char *url, struct redis_url *out, char why[static REDIS_URL_WHY_BYTES]);

#endif
