/* SPDX-License-Identifier: MIT */
/*
 * server.h - one process of a peer: a free port, a folder that goes with the program, started when it answers.
 *
 * Threads: as proc.h has it. Errors: false, and the reason with the end of the log on stderr.
 */
#ifndef LOAD_PEERS_SERVER_H
#define LOAD_PEERS_SERVER_H

#include "load/base/proc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SERVER_ARGUMENTS_MAX = 24, SERVER_TEXT_BYTES = 512 };

struct server {
    pid_t pid;
    uint16_t port; /* on 127.0.0.1 */
    char folder[PROC_PATH_BYTES];
    char log_path[PROC_PATH_BYTES + 16];
};

/* How to start it. In `arguments` and `settings`, {port} and {folder} stand for the server's own. */
struct server_plan {
    const char *name;             /* of the folder */
    const char *const *arguments; /* the program first; ends with NULL */
    const char *const *settings;  /* "NAME=value"; ends with NULL; NULL: none */
    const char *user;             /* NULL: ourselves */
};

/* Returns when GET /ping is answered with 200. */
bool server_start(struct server *server, const struct server_plan *plan);
/* Accepts a struct that is all zeros. */
void server_stop(struct server *server);

/* The first line that a shell command prints, stderr included; false: it failed, the line says why. */
bool server_first_line(const char *command, char *line, size_t line_bytes);

#endif
