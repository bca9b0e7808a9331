/* SPDX-License-Identifier: MIT */
/*
 * replay.h - an access log as a script of requests: the same paths at the same distances in time.
 *
 *     combined    Apache's and nginx's; anything may follow the request. Its times are whole seconds: the requests of one
 *                 are spread evenly over it
 *     JSON        an object a line, with a time (time, timestamp, @timestamp, time_iso8601, time_local, date, msec, ts), a
 *                 path (path, request_uri, uri, url, target) and a method (method, request_method); or with "request" for
 *                 both, as in combined
 *
 * Each line is one or the other. Lines are put in the order of their times, for a log has them in the order in which
 * requests ended. A line is left out that is neither, whose method is not wanted, or whose path does not fit into a
 * request; `note` counts them.
 *
 * Errors: false, and one line of text.
 */
#ifndef LOAD_PLAY_REPLAY_H
#define LOAD_PLAY_REPLAY_H

#include "load/herd/work.h"

struct replay {
    const char *path;   /* "-": the standard input */
    const char *method; /* the only one that is wanted; "GET": HEAD, too */
    double speed;       /* 2: in half the time */
    uint32_t span_ms;   /* only so much of it, at that speed; 0: all */
};

/* The path's last part; "-" is the standard input. */
const char *replay_name(const char *path);

/* *out is yours: replay_free(). `note` is what it is, and what was left out. */
bool replay_read(const struct replay *replay, struct work_script **out, char note[static WORK_WHY_BYTES],
                 char why[static WORK_WHY_BYTES]);
void replay_free(struct work_script **script); /* accepts NULL */

/* ---- one line: replay_line.c ---- */

/* One line of an access log, combined or JSON, as replay.h has it. Pure. */

enum { REPLAY_METHOD_BYTES = 32 };

struct replay_line {
    uint64_t at_us;    /* since 1970 */
    bool has_fraction; /* of a second; otherwise it is a whole one */
    char method[REPLAY_METHOD_BYTES];
    char path[WORK_PATH_BYTES]; /* as a request may have it */
    bool is_too_long;           /* there is no path then */
};

/* False: it is neither, or has no time, method or path. */
bool replay_line_read(const char *text, struct replay_line *out);

#endif
