/* SPDX-License-Identifier: MIT */
/*
 * files.h - what the example servers share: a slow source that the guard protects, and parts of a server.
 *
 * GET /name answers with FOLDER/name. Every load is a line on stderr.
 */
#pragma once

#include "guard.h"

enum { FILES_KEY_BYTES = 512 };

struct files {
    const char *folder;
    int delay_ms;         /* reading takes so long, as a database would */
    guard_loader *loader; /* NULL: files_load() */
    struct guard *guard;
    struct guard_kind *kind;
};

/* From the command line of all these servers: NAME PORT FOLDER [REDIS_URL [DELAY_MS]]. A guard whose loader reads
 * below FOLDER. Exits if it cannot; the reason is on stderr. */
void files_open(struct files *files, int argc, char **argv);

/* The loader: takes its time, then files_answer(). */
void files_load(struct guard_load *load, void *files);
/* Reads the file and finishes the load. */
void files_answer(struct guard_load *load, const struct files *files);

/* The key for a path: "/" and letters, digits, ".", "_", "-", no dot first. False: none of these. */
bool files_key(const char *path, size_t path_bytes, char key[FILES_KEY_BYTES]);

/* A socket that listens on 127.0.0.1; port 0 takes a free one, and a line on stdout names it. Exits if it cannot. */
int files_listen(const char *port);
void files_listening(unsigned port); /* that line */

/*
 * A descriptor that delivers SIGTERM and SIGINT, which are blocked from now on. Call it before any thread exists, so
 * that all threads inherit that.
 */
int files_signals(void);
