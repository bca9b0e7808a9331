/* SPDX-License-Identifier: MIT */
/* matrix.c - see trial.h. */
#include "load/lab/trial.h"

#include "load/report/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIELD_BYTES = 48, HAND_OVERS_MIN = 5 };

bool matrix_concerns(const struct matrix *matrix, size_t failure, size_t scheme)
{
    return (matrix->schemes[scheme]->groups & matrix->failures[failure]->group) != 0;
}

size_t matrix_cell_count(const struct matrix *matrix)
{
    size_t count = 0;
    for (size_t i = 0; i < matrix->failure_count; i++) {
        for (size_t j = 0; j < matrix->scheme_count; j++)
            count += matrix_concerns(matrix, i, j);
    }
    return count;
}

/* ---- one failure ---- */

/* A column: its head in two lines, and what a cell has in it. */
struct column {
    struct table_column shape;
    const char *above, *below;
    void (*write)(const struct cell *cell, char field[FIELD_BYTES]); /* NULL: number, name or verdict */
};

__attribute__((format(printf, 2, 3))) static void write(char field[FIELD_BYTES], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(field, FIELD_BYTES, format, arguments);
    va_end(arguments);
}

#define WRITES(name, cell, ...)                                                                              \
    static void write_##name(const struct cell *cell, char field[FIELD_BYTES])                               \
    {                                                                                                        \
        write(field, __VA_ARGS__);                                                                           \
    }

WRITES(queries, cell, "%" PRIu32, cell->load_count)
WRITES(holders, cell, "%" PRIu32, cell->holders_peak)
WRITES(deletions, cell, "%" PRIu32, cell->wrong_deletions)
WRITES(wake, cell, cell->has_wake ? "%.1f" : "-", (double)cell->wake_us / 1e3)
WRITES(polling, cell, cell->has_polling ? "%.1f / %.1f" : "-", cell->calls, cell->polling)
WRITES(stale, cell, "%s", cell->is_stale || cell->is_stale_answer ? "yes" : "no")
WRITES(served, cell, "%" PRIu32 "/%" PRIu32, cell->answered, cell->asked)
WRITES(updates, cell, "%" PRIu32, cell->lock.lost_updates)
WRITES(told, cell, "%s", cell->lock.told > 0 ? "yes" : "-")
WRITES(waiters, cell, "%" PRIu32, cell->lock.crowd)
WRITES(idle, cell, "%.1f / %.0f", cell->lock.idle_sent_per_s, cell->lock.idle_run_per_s)
WRITES(each, cell, "%.1f / %.0f", cell->lock.hand_over_sent, cell->lock.hand_over_run)
WRITES(crowd_rate, cell, "%.0f", cell->lock.hand_overs_per_s)
WRITES(rate, cell, cell->lock.hand_over_count >= HAND_OVERS_MIN ? "%.0f" : "-", cell->lock.sections_per_s)
WRITES(hand_over, cell, cell->lock.hand_over_count >= HAND_OVERS_MIN ? "%.1f / %.1f" : "-",
       (double)cell->lock.hand_over_p50_us / 1e3, (double)cell->lock.hand_over_p99_us / 1e3)

static void write_stuck(const struct cell *cell, char field[FIELD_BYTES])
{
    const double ms = (double)cell->stuck_us / 1e3;
    if (cell->is_for_ever && !cell->is_lock)
        write(field, "> %.0f (PTTL %" PRId64 ")", ms, cell->lock_pttl_ms);
    else if (cell->is_for_ever)
        write(field, "> %.0f", ms);
    else if (cell->is_until_resumed)
        write(field, "> %.1f", ms);
    else
        write(field, cell->has_stuck ? "%.1f" : "-", ms);
}

static void write_late(const struct cell *cell, char field[FIELD_BYTES])
{
    const struct cell_lock *lock = &cell->lock;
    const bool any = lock->late_accepted + lock->late_refused > 0;
    write(field, "%s", !any ? "-" : lock->late_accepted > 0 ? "taken" : "refused");
}

static void write_order(const struct cell *cell, char field[FIELD_BYTES])
{
    if (cell->lock.has_order && cell->lock.overtaken > 0)
        write(field, "%" PRIu32 " late", cell->lock.overtaken);
    else
        write(field, "%s", cell->lock.has_order ? "kept" : "-");
}

#define FIRST(width)                                                                                         \
    {{2, 2, TABLE_LEFT, false}, "", "", NULL},                                                               \
    {                                                                                                        \
        {1, width, TABLE_LEFT, false}, "", "scheme", NULL                                                    \
    }
#define NUMBER(width, above, below, write)                                                                   \
    {                                                                                                        \
        {1, width, TABLE_RIGHT, false}, above, below, write                                                  \
    }
#define LAST                                                                                                 \
    {{2, 0, TABLE_LEFT, false}, NULL, "verdict", NULL},                                                      \
    {                                                                                                        \
        .below = NULL                                                                                        \
    }

static const struct column cache_columns[] = {
    FIRST(12),
    NUMBER(7, "", "queries", write_queries),
    NUMBER(7, "holders", "at once", write_holders),
    NUMBER(9, "wrong", "deletions", write_deletions),
    NUMBER(18, "stuck", "ms", write_stuck),
    NUMBER(8, "wake", "ms", write_wake),
    NUMBER(13, "commands /s", "sent / run", write_polling),
    NUMBER(5, "stale", "value", write_stale),
    NUMBER(6, "", "served", write_served),
    LAST,
};

static const struct column lock_columns[] = {
    FIRST(19),
    NUMBER(7, "holders", "at once", write_holders),
    NUMBER(7, "lost", "updates", write_updates),
    NUMBER(7, "late", "write", write_late),
    NUMBER(4, "", "told", write_told),
    NUMBER(7, "", "order", write_order),
    NUMBER(16, "stuck", "ms", write_stuck),
    NUMBER(13, "hand-over", "p50 / p99 ms", write_hand_over),
    NUMBER(5, "sections", "/s", write_rate),
    NUMBER(6, "", "served", write_served),
    LAST,
};

static const struct column crowd_columns[] = {
    FIRST(19),
    NUMBER(7, "", "waiters", write_waiters),
    NUMBER(16, "scripts/commands", "/s, waiting", write_idle),
    NUMBER(16, "for each", "hand-over", write_each),
    NUMBER(10, "hand-overs", "/s", write_crowd_rate),
    NUMBER(6, "", "served", write_served),
    LAST,
};
enum { COLUMNS_MAX = 12 };

/* What a row has in its columns. */
struct row {
    char fields[COLUMNS_MAX][FIELD_BYTES];
    const char *cells[COLUMNS_MAX];
};

static void fill_row(const struct column *columns, const struct scheme *scheme, const struct cell *cell,
                     struct row *row)
{
    size_t count = 0;
    row->cells[0] = scheme->number;
    row->cells[1] = lab_label(scheme);
    for (; columns[count].below != NULL; count++) {
        if (columns[count].write == NULL)
            continue;
        columns[count].write(cell, row->fields[count]);
        row->cells[count] = row->fields[count];
    }
    row->cells[count - 1] = cell->verdict;
}

/* A column in which no scheme of this failure has anything is none. */
static size_t choose_columns(const struct matrix *matrix, size_t failure, const struct column *columns,
                             bool shown[COLUMNS_MAX])
{
    size_t count = 0;
    for (; columns[count].below != NULL; count++)
        shown[count] = columns[count].write == NULL;
    for (size_t i = 0; i < matrix->scheme_count; i++) {
        const struct cell *cell = &matrix->cells[failure][i];
        struct row row;
        if (!matrix_concerns(matrix, failure, i) || cell->state != CELL_MEASURED)
            continue;
        fill_row(columns, matrix->schemes[i], cell, &row);
        for (size_t j = 0; j < count; j++)
            shown[j] = shown[j] || strcmp(row.cells[j], "-") != 0;
    }
    return count;
}

static void print_cells(const struct column *columns, size_t count, const bool shown[COLUMNS_MAX],
                        const char *const cells[COLUMNS_MAX])
{
    struct table_column shapes[COLUMNS_MAX];
    const char *kept[COLUMNS_MAX];
    size_t kept_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!shown[i] || cells[i] == NULL)
            continue;
        shapes[kept_count] = columns[i].shape;
        kept[kept_count++] = cells[i];
    }
    table_row(stdout, shapes, kept_count, kept);
}

static void print_head(const struct column *columns, size_t count, const bool shown[COLUMNS_MAX])
{
    const char *above[COLUMNS_MAX], *below[COLUMNS_MAX];
    for (size_t i = 0; i < count; i++) {
        above[i] = columns[i].above;
        below[i] = columns[i].below;
    }
    print_cells(columns, count, shown, above);
    print_cells(columns, count, shown, below);
}

static void print_unmeasured(const struct scheme *scheme, const struct cell *cell)
{
    static const struct table_column narrow[] = {
        {2, 2, TABLE_LEFT, false}, {1, 12, TABLE_LEFT, false}, {1, 0, TABLE_LEFT, false}};
    const char *const cells[] = {scheme->number, lab_label(scheme),
                                 cell->state == CELL_NOT_RUN ? "not run" : "- has no such moment"};
    table_row(stdout, narrow, 3, cells);
}

void matrix_print_failure(const struct matrix *matrix, size_t failure)
{
    const struct failure *what = matrix->failures[failure];
    const struct column *columns = what->group == GROUP_CROWD   ? crowd_columns
                                   : what->group == GROUP_CACHE ? cache_columns
                                                                : lock_columns;
    bool shown[COLUMNS_MAX];
    size_t count = choose_columns(matrix, failure, columns, shown);
    printf("\n%s: %s\n  %s\n\n", what->name, what->title, what->story);
    print_head(columns, count, shown);
    for (size_t i = 0; i < matrix->scheme_count; i++) {
        const struct cell *cell = &matrix->cells[failure][i];
        struct row row;
        if (!matrix_concerns(matrix, failure, i))
            continue;
        if (cell->state != CELL_MEASURED) {
            print_unmeasured(matrix->schemes[i], cell);
            continue;
        }
        fill_row(columns, matrix->schemes[i], cell, &row);
        print_cells(columns, count, shown, row.cells);
    }
    fflush(stdout);
}

/* ---- the matrix ---- */

static struct table_column column_of(const struct matrix *matrix, size_t failure)
{
    size_t width = strlen(matrix->failures[failure]->name);
    for (size_t i = 0; i < matrix->scheme_count; i++) {
        const size_t word = strlen(matrix->cells[failure][i].verdict);
        width = word > width ? word : width;
    }
    return (struct table_column){1, width, TABLE_LEFT, false};
}

static void explain_cache(double lease_s)
{
    printf("\n"
           "stuck      nobody served within %.0f s, and the lock has no end\n"
           "wrong del  somebody else's lock was deleted\n"
           "stale      the old row was left in Redis, or served, after the invalidation had been confirmed\n"
           "N loads    more queries than the case needs\n"
           "waits      for so long nobody else was served, or, with > , until the paused holder went on\n"
           "-          the scheme never comes by the point at which this failure strikes\n"
           "\n"
           "Leases last %.0f s. Queries: PostgreSQL's statement log. Deletions and fills: Redis's MONITOR. "
           "Commands:\n"
           "for each waiter and second in its first %.1f s, as sent by clients (MONITOR) / as run by Redis, "
           "inside\n"
           "scripts too (INFO commandstats). Times: the processes' own clocks, one clock on one machine.\n",
           lease_s * TRIAL_FOR_EVER_QUARTERS / 4, lease_s, lease_s * TRIAL_COUNT_QUARTERS / 4);
}

static void explain_locks(double lease_s)
{
    printf("\n"
           "N lost updates  two worked at once, and one overwrote what the other had written: the row counts "
           "it\n"
           "N at once       so many held it at the same time, and may not; no update was lost by chance\n"
           "fenced          two held it at once, and the row refused the late write by its fencing number\n"
           "stuck           nobody had it for as long as was watched\n"
           "waits           for so long nobody else had it, or, with > , until the paused one went on\n"
           "N overtaken     so many were served after one that came later\n"
           "refuses         the scheme says that it cannot work here\n"
           "N scripts/s     what the crowd sent while it waited\n"
           "\n"
           "Leases last %.0f s. Late write: of a holder after another one had taken the lock. Told: a holder "
           "heard that it\n"
           "no longer is. Stuck: from the failure, or the release, until the next one has it. Hand-over: "
           "from one\n"
           "process's release to another's having it.\n",
           lease_s);
}

static void print_group(const struct matrix *matrix, const struct lab_group_name *group)
{
    struct table_column wide[1 + MATRIX_FAILURES_MAX] = {{0, 23, TABLE_LEFT, false}};
    const char *cells[1 + MATRIX_FAILURES_MAX] = {group->name};
    size_t shown[1 + MATRIX_FAILURES_MAX], count = 1;
    for (size_t i = 0; i < matrix->failure_count; i++) {
        if (matrix->failures[i]->group != group->group)
            continue;
        wide[count] = column_of(matrix, i);
        cells[count] = matrix->failures[i]->name;
        shown[count++] = i;
    }
    if (count == 1)
        return;
    printf("\n");
    table_row(stdout, wide, count, cells);
    for (size_t j = 0; j < matrix->scheme_count; j++) {
        char label[FIELD_BYTES];
        if ((matrix->schemes[j]->groups & group->group) == 0)
            continue;
        snprintf(label, sizeof label, "%-3s %-19s", matrix->schemes[j]->number,
                 lab_label(matrix->schemes[j]));
        cells[0] = label;
        for (size_t i = 1; i < count; i++)
            cells[i] = matrix->cells[shown[i]][j].verdict;
        table_row(stdout, wide, count, cells);
    }
}

void matrix_print(const struct matrix *matrix)
{
    bool has_cache = false, has_locks = false;
    for (size_t i = 0; lab_groups[i].name != NULL; i++)
        print_group(matrix, &lab_groups[i]);
    for (size_t i = 0; i < matrix->failure_count; i++) {
        has_cache = has_cache || matrix->failures[i]->group == GROUP_CACHE;
        has_locks = has_locks || matrix->failures[i]->group != GROUP_CACHE;
    }
    if (has_cache)
        explain_cache(matrix->lease_s);
    if (has_locks)
        explain_locks(matrix->lease_s);
    printf("\n%s\n%s\n", matrix->machine, matrix->command);
}

/* ---- judging ours ---- */

bool matrix_judge(const struct matrix *matrix)
{
    char why[FIELD_BYTES];
    size_t kept = 0, judged = 0;
    bool good = true;
    for (size_t i = 0; i < matrix->failure_count; i++) {
        for (size_t j = 0; j < matrix->scheme_count; j++) {
            const struct cell *cell = &matrix->cells[i][j];
            if (!matrix_concerns(matrix, i, j))
                continue;
            good = good && cell->state != CELL_NOT_RUN;
            if (!matrix->schemes[j]->is_ours)
                continue;
            judged++;
            if (cell_keeps_promise(cell, &matrix->failures[i]->demand, why, sizeof why))
                kept++;
            else
                printf("%s does not keep its promise: %s: %s\n", matrix->schemes[j]->name,
                       matrix->failures[i]->name, why);
        }
    }
    if (judged > 0)
        printf("Ours kept what guard/README.md and guard/locks.h promise in %zu of %zu.\n", kept, judged);
    return good && kept == judged;
}
