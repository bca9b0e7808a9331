/* SPDX-License-Identifier: MIT */
/*
 * replay.h - an access log as a script of requests: the same paths at the same distances in time.
 *
 * Lines are combined or JSON (access_line.h). The requests of one whole second are spread evenly over it.
 *
 * Each line is one or the other. Lines are put in the order of their times, for a log has them in the order in which
 * requests ended. A line is left out that is neither, whose method is not wanted, or whose path does not fit into a
 * request; `note` counts them.
 *
 * Errors: false, and one line of text.
 */
#pragma once

#include "load/base/access_line.h"
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
