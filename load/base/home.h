/* SPDX-License-Identifier: MIT */
/*
 * home.h - where the project's own files are, wherever the program is started from.
 *
 * The working directory, if it is the project's folder; else the folder that the program was built in, a few levels
 * above itself (build/gcc/stampede); else, installed as bin/stampede, share/stampede-guard beside bin; else the
 * working directory all the same.
 *
 * Threads: any; decided at the first call.
 */
#pragma once

#include <stdbool.h>

enum { HOME_PATH_BYTES = 512 };

/* "sql/schema.sql" as it can be opened from here. Returns `path`. */
const char *home_path(const char *file, char path[static HOME_PATH_BYTES]);

/* "catalogd": the program beside this one, else the project's build/catalogd. Returns `path`. */
const char *home_program(const char *name, char path[static HOME_PATH_BYTES]);

/* "demo.html": in the project's build/, or here if the program is installed. Returns `path`. */
const char *home_output(const char *file, char path[static HOME_PATH_BYTES]);

/* False: none of them has the project's files; says so on stderr, and what to do. */
bool home_is_found(void);
