/* SPDX-License-Identifier: MIT */
/* bench_report.c - rows and verdicts of the benchmark's one table; see bench.h. */
#include "load/base/clock.h"
#include "load/bench/bench.h"
#include "load/report/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ROWS_MAX = 1024, HEADING_BYTES = 112, WHAT_BYTES = 64, PROGRESS_COLUMNS = 66, BAR_COLUMNS = 40 };

struct row {
    char heading[HEADING_BYTES]; /* "" : a row of numbers */
    char what[WHAT_BYTES];
    const char *unit; /* lent */
    unsigned decimals;
    struct samples samples;
    struct goal goal;
    double height; /* of a point of a curve, up to 1; else 0 */
};

static struct row rows[ROWS_MAX];
static size_t row_count;

/* ---- rows ---- */

static struct row *new_row(void)
{
    assert(row_count < ROWS_MAX);
    return &rows[row_count++];
}

void report_heading(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(new_row()->heading, HEADING_BYTES, format, arguments);
    va_end(arguments);
}

void report_row(const char *what, const char *unit, unsigned decimals, const struct samples *samples,
                struct goal goal)
{
    struct row *row = new_row();
    assert(samples->count > 0);
    *row = (struct row){.unit = unit, .decimals = decimals, .samples = *samples, .goal = goal};
    snprintf(row->what, sizeof row->what, "%s", what);
}

void report_row_of(const char *who, const char *what, const char *unit, unsigned decimals,
                   const struct samples *samples, struct goal goal)
{
    char both[WHAT_BYTES];
    snprintf(both, sizeof both, "%s: %s", who, what);
    report_row(both, unit, decimals, samples, goal);
}

void report_curve(const char *what, const char *unit, unsigned decimals, const char *of, const double *xs,
                  const double *ys, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = ys[i] > most ? ys[i] : most;
    for (size_t i = 0; i < count; i++) {
        struct samples samples = {.at = {ys[i]}, .count = 1};
        char text[WHAT_BYTES];
        snprintf(text, sizeof text, "%s, %.0f %s", what, xs[i], of);
        report_row(text, unit, decimals, &samples, none);
        rows[row_count - 1].height = most > 0 ? ys[i] / most : 0;
    }
}

/* What is judged is the number that is printed. */
static bool is_met(const struct row *row)
{
    double number = samples_rounded(samples_median(&row->samples), row->decimals);
    return row->goal.kind == GOAL_AT_LEAST ? number >= row->goal.limit : number <= row->goal.limit;
}

static void print_line(const char *what, const char *median, const char *unit, const char *spread,
                       const char *goal, const char *verdict)
{
    static const struct table_column columns[] = {
        {2, 52, TABLE_LEFT, false},  {1, 10, TABLE_RIGHT, false}, {1, 6, TABLE_LEFT, false},
        {1, 20, TABLE_RIGHT, false}, {2, 9, TABLE_LEFT, false},   {1, 0, TABLE_LEFT, false},
    };
    const char *const cells[] = {what, median, unit, spread, goal, verdict};
    table_row(stdout, columns, sizeof columns / sizeof *columns, cells);
}

/* Its bar grows to the right, where others have a spread, a goal and a verdict. */
static void print_point(const char *what, const char *number, const char *unit, const char *bar)
{
    static const struct table_column columns[] = {{2, 52, TABLE_LEFT, false},
                                                  {1, 10, TABLE_RIGHT, false},
                                                  {1, 6, TABLE_LEFT, false},
                                                  {1, 0, TABLE_LEFT, false}};
    const char *const cells[] = {what, number, unit, bar};
    table_row(stdout, columns, sizeof columns / sizeof *columns, cells);
}

static void print_row(const struct row *row)
{
    static const char *const signs[] = {[GOAL_AT_LEAST] = ">=", [GOAL_AT_MOST] = "<="};
    const struct samples *samples = &row->samples;
    int decimals = (int)row->decimals;
    bool has_goal = row->goal.kind != GOAL_NONE;
    char median[32], spread[48] = "", goal[32] = "";
    snprintf(median, sizeof median, "%.*f", decimals, samples_median(samples));
    for (size_t i = 0; i < BAR_COLUMNS && row->height * BAR_COLUMNS > (double)i; i++)
        strcat(spread, "#");
    if (samples->count > 1)
        snprintf(spread, sizeof spread, "%.*f .. %.*f", decimals, samples_smallest(samples), decimals,
                 samples_largest(samples));
    if (has_goal)
        snprintf(goal, sizeof goal, "%s %g", signs[row->goal.kind], row->goal.limit);
    if (row->height > 0)
        print_point(row->what, median, row->unit, spread);
    else
        print_line(row->what, median, row->unit, spread, goal,
                   !has_goal     ? ""
                   : is_met(row) ? "met"
                                 : "missed");
}

void report_print(void)
{
    printf("\n");
    print_line("", "median", "", "smallest .. largest", "goal", "verdict");
    for (size_t i = 0; i < row_count; i++) {
        if (rows[i].heading[0] != '\0')
            printf("%s\n", rows[i].heading);
        else
            print_row(&rows[i]);
    }
    fflush(stdout);
}

/* ---- progress ---- */

static uint64_t begin_us;
static int columns_used;

void progress_begin(const char *text)
{
    begin_us = clock_us();
    columns_used = printf("  %s", text);
    fflush(stdout);
}

void progress_repetition(size_t number)
{
    columns_used += printf(" %zu", number);
    fflush(stdout);
}

bool progress_end(bool good)
{
    int left = PROGRESS_COLUMNS - columns_used;
    if (good)
        printf("%*s%6.1f s\n", left > 0 ? left : 1, "", (double)(clock_us() - begin_us) / 1e6);
    else
        printf(" failed\n");
    fflush(stdout);
    return good;
}
