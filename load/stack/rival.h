/* SPDX-License-Identifier: MIT */
/*
 * rival.h - one process of a server that is not ours: a free port, a folder that goes with the program, started when
 * it answers.
 *
 * Threads: as proc.h has it. Errors: false, and the reason with the end of the log on stderr.
 */
#ifndef LOAD_STACK_RIVAL_H
#define LOAD_STACK_RIVAL_H

#include "load/base/proc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RIVAL_ARGUMENTS_MAX = 24, RIVAL_TEXT_BYTES = 512, RIVAL_FILE_BYTES = 4096 };

struct rival {
    pid_t pid;
    uint16_t port; /* on 127.0.0.1 */
    char folder[PROC_PATH_BYTES];
    char log_path[PROC_PATH_BYTES + 16];
};

/* How to start it. In `arguments`, `settings` and `file_text`, {port} and {folder} stand for the server's own. */
struct rival_plan {
    const char *name;             /* of the folder, and of the file in it */
    const char *const *arguments; /* the program first; ends with NULL */
    const char *const *settings;  /* "NAME=value"; ends with NULL; NULL: none */
    const char *file_text;        /* its configuration, {folder}/name; NULL: none */
    const char *user;             /* NULL: ourselves */
};

/* Returns when GET /ping is answered with 200. */
bool rival_start(struct rival *rival, const struct rival_plan *plan);
/* Accepts a struct that is all zeros. */
void rival_stop(struct rival *rival);

/* The first line that a shell command prints, stderr included; false: it failed, the line says why. */
bool rival_first_line(const char *command, char *line, size_t line_bytes);

#endif
