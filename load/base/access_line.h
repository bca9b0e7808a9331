/* SPDX-License-Identifier: MIT */
/*
 * access_line.h - one line of an access log: when, what was asked for, and how.
 *
 *     combined    Apache's and nginx's; anything may follow the request. Its times are whole seconds
 *     JSON        an object a line, with a time (time, timestamp, @timestamp, time_iso8601, time_local, date, msec,
 *                 ts), a path (path, request_uri, uri, url, target) and a method (method, request_method); or with
 *                 "request" for both, as in combined
 *
 * Pure; bytes of any kind are taken.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { ACCESS_METHOD_BYTES = 32, ACCESS_PATH_BYTES = 512 };

struct access_line {
    uint64_t at_us;    /* since 1970 */
    bool has_fraction; /* of a second; otherwise it is a whole one */
    char method[ACCESS_METHOD_BYTES];
    char path[ACCESS_PATH_BYTES]; /* as a request may have it */
    bool is_too_long;             /* there is no path then */
};

/* False: it is neither, or has no time, method or path. */
bool access_line_read(const char *text, struct access_line *out);
