/* SPDX-License-Identifier: MIT */
/*
 * files.h - whole files in one call, open descriptors, and what a program says, for tests.
 *
 * Threads: any, but only the test's may fail; program_run() as proc.h has it. Errors: what cannot be written, or is
 * not there to be read, fails the test, unless the function says otherwise.
 */
#pragma once

#include "load/base/proc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Anew, whatever was there. */
void file_write(const char *path, const char *text);
/* A new one: `path` ends with "XXXXXX" and gets its name. Only we may read it; unlink() is yours. */
void file_make(char *path, const char *text);

/* The whole of it and a NUL; yours: free(). `bytes` may be NULL. */
char *file_read(const char *path, size_t *bytes);
/* The same, cut to fit; false, and "": there is none. */
bool file_look(const char *path, char *text, size_t text_bytes);

/* Open in this process, and as many more each time as it takes to look. */
size_t count_descriptors(void);

/* Runs it to its end; what it wrote to its output_path goes into `text`, cut to fit. Returns its exit status; -1: a
 * signal ended it, be it ours after limit_ms. */
int program_run(const struct proc_options *options, uint32_t limit_ms, char *text, size_t text_bytes);

/* How often it is in there. */
unsigned text_times(const char *text, const char *wanted);
