/* SPDX-License-Identifier: MIT */
/*
 * access.h - the access log: lines from the server loops to a file, without a loop ever waiting for it.
 *
 *     loop 0: access_put() --> lane 0 --+
 *     loop 1: access_put() --> lane 1 --+--> the writer's thread --> file, pipe or stdout
 *                               ring         every ACCESS_TICK_MS, at once if a lane is filling
 *
 * A lane is a ring of ACCESS_LANE_BYTES with one writer and one reader, so that no lock and no system call is on a
 * request's way (but one eventfd when a lane passes a quarter). A line that finds its lane full is dropped and
 * counted: a full disk or a pipe that nobody reads costs lines, newest first, and never an answer. What is in the
 * lanes is written when there is room again.
 *
 * Whole lines leave together: into a pipe at most PIPE_BUF bytes at once, so that several processes may share one. A
 * file is opened anew by access_reopen(), between two lines; what was already written stays in the old one, what was
 * not goes to the new one, and if that cannot be opened the old one stays. A FIFO is kept open for reading, too: its
 * reader may come and go.
 *
 * Threads: open, reopen and close on one thread each at a time; a lane is its loop's; access_stats() on any.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* ---- a line: access_line.c ---- */

/*
 * One answered request as a line of the access log.
 *
 * It is Apache's and nginx's format combined, with seven more words behind it, "-" where there is nothing:
 *
 *     127.0.0.1 - - [23/Nov/2026:04:35:11 +0000] "GET /products/7 HTTP/1.1" 200 431 "-" "curl/7.88.1" \
 *         0.000123 product near 3f0a6c2d8b7e4f11 order-4711 4bf92f3577b34da6a3ce929d0e0e4736 done
 *         seconds  route   source load           request    trace                            end
 *
 * A reader of combined that does not know them stops before them, and awk counts from the end: none of them has a
 * space.
 *
 * Nothing that a client sends can end a line or a text in it: all but printable ASCII, quotes and backslashes are
 * written as \xNN, and so is a space in what stands for one word. Long texts are cut, so that a line has at most
 * ACCESS_LINE_MAX bytes: a pipe takes it whole or not at all.
 *
 * Pure, any thread. Time is an argument.
 */

enum { ACCESS_LINE_MAX = 4096 }; /* PIPE_BUF */

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
    char text[32];
};
size_t access_line_print(const struct access_line *line, struct access_date *date, char out[ACCESS_LINE_MAX]);

enum { ACCESS_LANE_BYTES = 1 << 20, ACCESS_TICK_MS = 200, ACCESS_CLOSE_MS = 1000 };

struct access_log;

struct access_lane {
    struct access_log *log;
    char *ring; /* owned */

    /* the loop's */
    struct access_date date;
    _Alignas(64) _Atomic size_t head; /* bytes ever put in; between two lines */
    _Atomic uint64_t lines, dropped;

    /* the writer's */
    _Alignas(64) _Atomic size_t tail; /* bytes ever taken out */
};

/* `file`: lent until access_close(); "": stdout. False: the reason was logged. */
bool access_open(const char *file, size_t lanes, struct access_log **out);
/* Writes what is left, for ACCESS_CLOSE_MS at most, and counts what cannot be. Once no loop uses its lane. Leaves
 * NULL; accepts NULL in *log. */
void access_close(struct access_log **log);
/* Soon, by the writer's thread. NULL is no log. */
void access_reopen(struct access_log *log);

/* NULL without a log. */
struct access_lane *access_lane(struct access_log *log, size_t index);
void access_put(struct access_lane *lane, const struct access_line *line);

struct access_stats {
    uint64_t lines, dropped; /* put into the lanes; lost for want of room */
};
/* Zeros without a log. */
void access_stats(const struct access_log *log, struct access_stats *out);
