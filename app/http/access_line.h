/* SPDX-License-Identifier: MIT */
/*
 * access_line.h - one answered request as a line of the access log.
 *
 * combined is Apache's and nginx's format of that name, with seven more words behind it, "-" where there is nothing:
 *
 *     127.0.0.1 - - [23/Nov/2026:04:35:11 +0000] "GET /products/7 HTTP/1.1" 200 431 "-" "curl/7.88.1" \
 *         0.000123 product near 3f0a6c2d8b7e4f11 order-4711 4bf92f3577b34da6a3ce929d0e0e4736 done
 *         seconds  route   source load           request    trace                            end
 *
 * A reader of combined that does not know them stops before them, and awk counts from the end: none of them has a space.
 * json is an object a line, and leaves out what there is not.
 *
 * Nothing that a client sends can end a line or a text in it: combined writes all but printable ASCII, quotes and
 * backslashes as \xNN, and a space in what stands for one word; json escapes as RFC 8259 has it, writes control characters
 * beyond ASCII as \u00NN, too, and U+FFFD for each byte that is not UTF-8. Long texts are cut, so that a line has at most
 * ACCESS_LINE_MAX bytes: a pipe takes it whole or not at all.
 *
 * Pure, any thread. Time is an argument.
 */
#ifndef APP_ACCESS_LINE_H
#define APP_ACCESS_LINE_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum { ACCESS_LINE_MAX = 4096 }; /* PIPE_BUF */

enum access_format { ACCESS_OFF = 0, ACCESS_COMBINED, ACCESS_JSON };

/* How the request ended. */
enum access_end {
    ACCESS_DONE,    /* all of the answer went out */
    ACCESS_HUNG_UP, /* the client left before */
    ACCESS_EXPIRED, /* it was closed because it took too long, or to make room */
    ACCESS_STOPPED, /* the process ended */
};

/* All texts are lent; NULL or "": there is none. */
struct access_line {
    struct timespec began; /* the date */
    uint64_t duration_us;
    const char *remote, *method, *target, *protocol;
    unsigned status;
    size_t bytes; /* of the body */
    const char *referer, *user_agent;
    const char *route, *source;
    uint64_t load; /* 0: none */
    const char *request;
    const char *trace; /* TRACE_ID_DIGITS of it */
    enum access_end end;
};

/* The newline included; returns its length. The date's text is kept from line to line. */
struct access_date {
    time_t second; /* 0: none yet */
    char combined[32], json[24];
};
size_t access_line_print(enum access_format format, const struct access_line *line, struct access_date *date,
                         char out[ACCESS_LINE_MAX]);

#endif
