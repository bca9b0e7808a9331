/* SPDX-License-Identifier: MIT */
/* replay_line.h - one line of an access log, combined or JSON, as replay.h has it. Pure. */
#ifndef LOAD_PLAY_REPLAY_LINE_H
#define LOAD_PLAY_REPLAY_LINE_H

#include "load/herd/work.h"

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
