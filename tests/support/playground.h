/* SPDX-License-Identifier: MIT */
/*
 * playground.h - `stampede serve` for tests: started over its own servers, asked over HTTP as its page asks it.
 *
 * There is one at a time. Threads: all from one, see proc.h. Errors: false, said on stderr.
 */
#pragma once

#include "load/base/proc.h"

#include <stdbool.h>
#include <stdint.h>

enum { PLAYGROUND_LIMIT_MS = 90000, PLAYGROUND_OUTPUT_BYTES = 16384, PLAYGROUND_ASK_LIMIT_MS = 20000 };

struct playground {
    pid_t pid; /* 0: it does not run */
    char output[PLAYGROUND_OUTPUT_BYTES];
    char output_path[PROC_PATH_BYTES + 16];
    char folder[PROC_PATH_BYTES]; /* of its servers */
    char url[128], host[32], token[64];
    char origin[64]; /* the line of its own */
    uint16_t port;
};

extern struct playground playground;

/* "NAME=value", up to NULL. Until it has printed its address. */
bool playground_start(const char *const *settings);
/* Ctrl-C, and until it has ended. */
bool playground_stop(void);

/* The status of a request, `format` but for its "Connection: close"; nobody is let in by what it says. */
unsigned playground_ask(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* POST /act with these; `from`: the line of the Origin. */
unsigned playground_act(const char *body, const char *said_token, const char *from, const char *type);
/* The same as its own page sends it. */
unsigned playground_press(const char *body);
