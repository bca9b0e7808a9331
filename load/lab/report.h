/* SPDX-License-Identifier: MIT */
/*
 * report.h - the tables, the matrix and the JSON of a run.
 *
 * Threads: one. Errors: false, and the reason on stderr.
 */
#ifndef LOAD_LAB_REPORT_H
#define LOAD_LAB_REPORT_H

#include "load/lab/cell.h"
#include "load/lab/trial.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { REPORT_SCHEMES_MAX = 16, REPORT_FAILURES_MAX = 16, REPORT_TEXT_BYTES = 256 };

/* What was chosen, and what came of it: cells[failure][scheme]. */
struct report {
    const struct scheme *schemes[REPORT_SCHEMES_MAX];
    size_t scheme_count;
    const struct failure *failures[REPORT_FAILURES_MAX];
    size_t failure_count;
    struct cell cells[REPORT_FAILURES_MAX][REPORT_SCHEMES_MAX];
    char machine[REPORT_TEXT_BYTES], command[REPORT_TEXT_BYTES];
    uint32_t lease_s;
};

/* The machine and its servers in one line. */
void report_machine(struct report *report, struct lab *lab);

/* One failure: a row for each scheme. */
void report_failure(const struct report *report, size_t failure);
void report_matrix(const struct report *report);

/* Says on stdout what ours has kept or not. True: everything, and every cell could be run. */
bool report_judge(const struct report *report);

/* `path` is for the reason only. */
bool report_json(const struct report *report, FILE *file, const char *path);

#endif
