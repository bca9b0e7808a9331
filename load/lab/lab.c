/* SPDX-License-Identifier: MIT */
/*
 * lab.c - the locks of the literature against what breaks them, on real servers.
 *
 *     lab [GROUP ...] [SCHEME ...] [FAILURE ...]
 *     lab --list
 *
 * A group is all its failures. Without a failure or a group named, all failures that concern the schemes; without a
 * scheme named, all that the failures concern. For every failure a fleet of processes per scheme, one after the
 * other; then a table for each failure and a matrix for each group. Exits with 1 if a cell could not be run or ours
 * did not keep what it promises, with 2 if it was called wrongly.
 */
#include "load/lab/scheme.h"

#include "load/base/clock.h"
#include "load/base/proc.h"
#include "load/lab/note.h"
#include "load/lab/source.h"
#include "load/lab/trial.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LEASE_S = 2 };

/* ---- the run ---- */

/* On a terminal one line that changes, otherwise nothing: the tables come when all has run. */
static void show_progress(const struct matrix *matrix, size_t failure, size_t scheme, size_t done)
{
    if (isatty(STDERR_FILENO) != 1)
        return;
    fprintf(stderr, "\r\033[K%3zu of %zu  %s: %s %s", done + 1, matrix_cell_count(matrix),
            matrix->failures[failure]->name, matrix->schemes[scheme]->number, matrix->schemes[scheme]->name);
}

static void end_progress(void)
{
    if (isatty(STDERR_FILENO) == 1)
        fprintf(stderr, "\r\033[K");
}

static void run_all(struct lab *lab, struct matrix *matrix)
{
    size_t done = 0;
    for (size_t i = 0; i < matrix->failure_count; i++) {
        for (size_t j = 0; j < matrix->scheme_count; j++) {
            if (matrix_concerns(matrix, i, j))
                show_progress(matrix, i, j, done++);
            trial_run(lab, matrix->schemes[j], matrix->failures[i], &matrix->cells[i][j]);
        }
        end_progress();
    }
}

static bool run_and_report(struct lab *lab, struct matrix *matrix)
{
    const uint64_t begin_us = clock_us();
    if (!lab_start(lab))
        return false;
    machine_describe(&lab->redis, lab->postgres.socket_url, matrix->machine);
    run_all(lab, matrix);
    matrix_print(matrix);
    for (size_t i = 0; i < matrix->failure_count; i++)
        matrix_print_failure(matrix, i);
    printf("\n%zu cells in %.0f s.\n", matrix_cell_count(matrix), (double)(clock_us() - begin_us) / 1e6);
    return matrix_judge(matrix);
}

static int run(struct matrix *matrix)
{
    static struct lab lab;
    lab.lease_s = matrix->lease_s;
    proc_clean_on_signals();
    const bool good = run_and_report(&lab, matrix);
    lab_stop(&lab);
    return good ? 0 : 1;
}

/* ---- arguments ---- */

static void list_group(const struct lab_group_name *group)
{
    printf("%s: %s\n", group->name, group->title);
    for (size_t i = 0; scheme_at(i) != NULL; i++) {
        if ((scheme_at(i)->groups & group->group) != 0)
            printf("  %-2s %-16s %-58s %s\n", scheme_at(i)->number, scheme_at(i)->name, scheme_at(i)->title,
                   scheme_at(i)->source);
    }
    for (size_t i = 0; failure_at(i) != NULL; i++) {
        if (failure_at(i)->group == group->group)
            printf("     %-16s %s\n", failure_at(i)->name, failure_at(i)->title);
    }
}

static int list(void)
{
    printf("Groups, with their schemes (by number or name) and their failures\n\n");
    for (size_t i = 0; lab_groups[i].name != NULL; i++)
        list_group(&lab_groups[i]);
    return 0;
}

static void choose_scheme(struct matrix *matrix, const struct scheme *scheme)
{
    for (size_t i = 0; i < matrix->scheme_count; i++) {
        if (matrix->schemes[i] == scheme)
            return;
    }
    matrix->schemes[matrix->scheme_count++] = scheme;
}

static void choose_failure(struct matrix *matrix, const struct failure *failure)
{
    for (size_t i = 0; i < matrix->failure_count; i++) {
        if (matrix->failures[i] == failure)
            return;
    }
    matrix->failures[matrix->failure_count++] = failure;
}

static bool take_scheme(struct matrix *matrix, const char *word)
{
    for (size_t i = 0; scheme_at(i) != NULL; i++) {
        if (strcmp(scheme_at(i)->name, word) != 0 && strcmp(scheme_at(i)->number, word) != 0)
            continue;
        choose_scheme(matrix, scheme_at(i));
        return true;
    }
    return false;
}

static bool take_failure(struct matrix *matrix, const char *word)
{
    for (size_t i = 0; failure_at(i) != NULL; i++) {
        if (strcmp(failure_at(i)->name, word) != 0)
            continue;
        choose_failure(matrix, failure_at(i));
        return true;
    }
    return false;
}

static bool take_group(struct matrix *matrix, const char *word)
{
    for (size_t i = 0; lab_groups[i].name != NULL; i++) {
        if (strcmp(lab_groups[i].name, word) != 0)
            continue;
        for (size_t j = 0; failure_at(j) != NULL; j++) {
            if (failure_at(j)->group == lab_groups[i].group)
                choose_failure(matrix, failure_at(j));
        }
        return true;
    }
    return false;
}

/* What was not named follows from what was. */
static void choose_rest(struct matrix *matrix)
{
    uint32_t groups = 0;
    const bool has_failure = matrix->failure_count > 0, has_scheme = matrix->scheme_count > 0;
    for (size_t i = 0; i < matrix->scheme_count; i++)
        groups |= matrix->schemes[i]->groups;
    for (size_t i = 0; !has_failure && failure_at(i) != NULL; i++) {
        if (!has_scheme || (groups & failure_at(i)->group) != 0)
            choose_failure(matrix, failure_at(i));
    }
    for (size_t i = 0; i < matrix->failure_count; i++)
        groups |= matrix->failures[i]->group;
    for (size_t i = 0; !has_scheme && scheme_at(i) != NULL; i++) {
        if ((groups & scheme_at(i)->groups) != 0)
            choose_scheme(matrix, scheme_at(i));
    }
}

static bool take_arguments(int argc, char **argv, struct matrix *matrix)
{
    for (int i = 1; i < argc; i++) {
        if (!take_scheme(matrix, argv[i]) && !take_group(matrix, argv[i]) && !take_failure(matrix, argv[i])) {
            fprintf(stderr,
                    "lab: %s: no group, scheme or failure (lab --list names them)\n"
                    "usage: lab [GROUP ...] [SCHEME ...] [FAILURE ...] | lab --list\n",
                    argv[i]);
            return false;
        }
    }
    choose_rest(matrix);
    return true;
}

static void note_command(int argc, char **argv, struct matrix *matrix)
{
    size_t used = 0;
    for (int i = 0; i < argc && used < sizeof matrix->command; i++)
        used += (size_t)snprintf(matrix->command + used, sizeof matrix->command - used, i > 0 ? " %s" : "%s",
                                 argv[i]);
}

int main(int argc, char **argv)
{
    static struct matrix matrix = {.lease_s = LEASE_S};
    proc_begin();
    if (argc == WORKER_ARGUMENTS && strcmp(argv[1], "worker") == 0)
        return worker_main(argv);
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list();
    if (!take_arguments(argc, argv, &matrix))
        return 2;
    note_command(argc, argv, &matrix);
    return run(&matrix);
}
