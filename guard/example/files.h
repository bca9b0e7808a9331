/* SPDX-License-Identifier: MIT */
/*
 * files.h - what both example servers share: a slow source that the guard protects, and parts of a server.
 *
 * GET /name answers with FOLDER/name. Every load is a line on stderr.
 */
#ifndef EXAMPLE_FILES_H
#define EXAMPLE_FILES_H

#include "guard.h"

enum { FILES_KEY_BYTES = 512, FILES_REQUEST_BYTES = 4096 };

struct files {
    const char *folder;
    int delay_ms; /* reading takes so long, as a database would */
    struct guard *guard;
    struct guard_kind *kind;
};

/* A guard whose loader reads below `folder`; false: the reason is on stderr. redis_url NULL: the default. */
bool files_open(struct files *files, const char *name_space, const char *redis_url);

/* The name in "GET /name HTTP/1.x", terminated in place, or NULL: letters, digits, ".", "_", "-", no dot first. */
const char *files_requested(char *request);

/* A socket that listens on 127.0.0.1; port 0 takes a free one, and a line on stdout names it. Exits if it cannot. */
int files_listen(uint16_t port);

/*
 * A descriptor that delivers SIGTERM and SIGINT, which are blocked from now on. Call it before any thread exists, so that
 * all threads inherit that.
 */
int files_signals(void);

#endif
