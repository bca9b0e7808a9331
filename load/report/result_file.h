/* SPDX-License-Identifier: MIT */
/*
 * result_file.h - a file that is there as a whole or not at all.
 *
 *     result_file_open() ---> write to ->out ---> result_file_close(keep)
 *
 * What is written goes to a new file beside it, which takes its place at the end: an earlier report stays as it was
 * until then. A path that is something else than a file (/dev/stdout, a pipe) is written to directly.
 *
 * Errors: false, and path and reason in `why`.
 */
#ifndef LOAD_REPORT_RESULT_FILE_H
#define LOAD_REPORT_RESULT_FILE_H

#include "load/report/result.h"

#include <limits.h>

struct result_file {
    FILE *out;
    const char *path;         /* lent */
    char temporary[PATH_MAX]; /* "": none */
};

bool result_file_open(struct result_file *file, const char *path, char why[static RESULT_WHY_BYTES]);

/* !keep: nothing is left behind, and `why` is not touched. */
bool result_file_close(struct result_file *file, bool keep, char why[static RESULT_WHY_BYTES]);

#endif
