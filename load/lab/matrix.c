/* SPDX-License-Identifier: MIT */
/* matrix.c - see matrix.h. */
#include "load/lab/matrix.h"

#include "load/report/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIELD_BYTES = 48 };

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

static void write_ms(char field[FIELD_BYTES], bool has, uint64_t us)
{
    snprintf(field, FIELD_BYTES, has ? "%.1f" : "-", (double)us / 1e3);
}

static void write_stuck(char field[FIELD_BYTES], const struct cell *cell)
{
    write_ms(field, cell->has_stuck, cell->stuck_us);
    if (cell->is_until_resumed)
        snprintf(field, FIELD_BYTES, "> %.1f", (double)cell->stuck_us / 1e3);
    if (cell->is_for_ever && cell->is_lock)
        snprintf(field, FIELD_BYTES, "> %.0f", (double)cell->stuck_us / 1e3);
    else if (cell->is_for_ever)
        snprintf(field, FIELD_BYTES, "> %.0f (PTTL %" PRId64 ")", (double)cell->stuck_us / 1e3,
                 cell->lock_pttl_ms);
}

static const struct table_column columns[] = {
    {2, 2, TABLE_LEFT, false},  {1, 12, TABLE_LEFT, false},  {1, 7, TABLE_RIGHT, false},
    {1, 7, TABLE_RIGHT, false}, {1, 9, TABLE_RIGHT, false},  {1, 18, TABLE_RIGHT, false},
    {1, 8, TABLE_RIGHT, false}, {1, 13, TABLE_RIGHT, false}, {1, 5, TABLE_RIGHT, false},
    {1, 6, TABLE_RIGHT, false}, {2, 0, TABLE_LEFT, false},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static const struct table_column lock_columns[] = {
    {2, 2, TABLE_LEFT, false},  {1, 14, TABLE_LEFT, false},  {1, 7, TABLE_RIGHT, false},
    {1, 7, TABLE_RIGHT, false}, {1, 7, TABLE_RIGHT, false},  {1, 4, TABLE_RIGHT, false},
    {1, 7, TABLE_RIGHT, false}, {1, 16, TABLE_RIGHT, false}, {1, 13, TABLE_RIGHT, false},
    {1, 5, TABLE_RIGHT, false}, {1, 6, TABLE_RIGHT, false},  {2, 0, TABLE_LEFT, false},
};
enum { LOCK_COLUMNS = sizeof lock_columns / sizeof *lock_columns, HAND_OVERS_MIN = 5 };

static const struct table_column crowd_columns[] = {
    {2, 2, TABLE_LEFT, false},   {1, 14, TABLE_LEFT, false},  {1, 7, TABLE_RIGHT, false},
    {1, 16, TABLE_RIGHT, false}, {1, 16, TABLE_RIGHT, false}, {1, 10, TABLE_RIGHT, false},
    {1, 6, TABLE_RIGHT, false},  {2, 0, TABLE_LEFT, false},
};
enum { CROWD_COLUMNS = sizeof crowd_columns / sizeof *crowd_columns };

static void print_crowd_head(void)
{
    static const char *const above[] = {"", "", "", "scripts/commands", "for each", "hand-overs", ""};
    static const char *const below[CROWD_COLUMNS] = {"",          "scheme", "waiters", "/s, waiting",
                                                     "hand-over", "/s",     "served",  "verdict"};
    table_row(stdout, crowd_columns, sizeof above / sizeof *above, above);
    table_row(stdout, crowd_columns, CROWD_COLUMNS, below);
}

static void print_crowd(const struct scheme *scheme, const struct cell *cell)
{
    const struct cell_lock *lock = &cell->lock;
    char waiters[FIELD_BYTES], idle[FIELD_BYTES], each[FIELD_BYTES], rate[FIELD_BYTES], served[FIELD_BYTES];
    snprintf(waiters, sizeof waiters, "%" PRIu32, lock->crowd);
    snprintf(idle, sizeof idle, "%.1f / %.0f", lock->idle_sent_per_s, lock->idle_run_per_s);
    snprintf(each, sizeof each, "%.1f / %.0f", lock->hand_over_sent, lock->hand_over_run);
    snprintf(rate, sizeof rate, "%.0f", lock->hand_overs_per_s);
    snprintf(served, sizeof served, "%" PRIu32 "/%" PRIu32, cell->answered, cell->asked);
    const char *const cells[CROWD_COLUMNS] = {scheme->number, scheme->name, waiters, idle,
                                              each,           rate,         served,  cell->verdict};
    table_row(stdout, crowd_columns, CROWD_COLUMNS, cells);
}

static void print_unmeasured(const struct scheme *scheme, const struct cell *cell)
{
    static const struct table_column narrow[] = {
        {2, 2, TABLE_LEFT, false}, {1, 12, TABLE_LEFT, false}, {1, 0, TABLE_LEFT, false}};
    const char *const cells[] = {scheme->number, scheme->name,
                                 cell->state == CELL_NOT_RUN ? "not run" : "- has no such moment"};
    table_row(stdout, narrow, 3, cells);
}

static void print_measured_lock(const struct scheme *scheme, const struct cell *cell)
{
    const struct cell_lock *lock = &cell->lock;
    char holders[FIELD_BYTES], updates[FIELD_BYTES], late[FIELD_BYTES] = "-", told[FIELD_BYTES];
    char order[FIELD_BYTES] = "-", stuck[FIELD_BYTES], hand_over[FIELD_BYTES] = "-", rate[FIELD_BYTES] = "-";
    char served[FIELD_BYTES];
    snprintf(holders, sizeof holders, "%" PRIu32, cell->holders_peak);
    snprintf(updates, sizeof updates, "%" PRIu32, lock->lost_updates);
    if (lock->late_accepted + lock->late_refused > 0)
        snprintf(late, sizeof late, "%s", lock->late_accepted > 0 ? "taken" : "refused");
    snprintf(told, sizeof told, "%s", lock->told > 0 ? "yes" : "-");
    if (lock->has_order)
        snprintf(order, sizeof order, lock->overtaken > 0 ? "%" PRIu32 " late" : "kept", lock->overtaken);
    write_stuck(stuck, cell);
    if (lock->hand_over_count >= HAND_OVERS_MIN) {
        snprintf(hand_over, sizeof hand_over, "%.1f / %.1f", (double)lock->hand_over_p50_us / 1e3,
                 (double)lock->hand_over_p99_us / 1e3);
        snprintf(rate, sizeof rate, "%.0f", lock->sections_per_s);
    }
    snprintf(served, sizeof served, "%" PRIu32 "/%" PRIu32, cell->answered, cell->asked);
    const char *const cells[LOCK_COLUMNS] = {scheme->number, scheme->name, holders, updates,
                                             late,           told,         order,   stuck,
                                             hand_over,      rate,         served,  cell->verdict};
    table_row(stdout, lock_columns, LOCK_COLUMNS, cells);
}

static void print_measured(const struct scheme *scheme, const struct cell *cell)
{
    char queries[FIELD_BYTES], holders[FIELD_BYTES], deletions[FIELD_BYTES], stuck[FIELD_BYTES];
    char wake[FIELD_BYTES], polling[FIELD_BYTES] = "-", served[FIELD_BYTES];
    snprintf(queries, sizeof queries, "%" PRIu32, cell->load_count);
    snprintf(holders, sizeof holders, "%" PRIu32, cell->holders_peak);
    snprintf(deletions, sizeof deletions, "%" PRIu32, cell->wrong_deletions);
    write_stuck(stuck, cell);
    write_ms(wake, cell->has_wake, cell->wake_us);
    if (cell->has_polling)
        snprintf(polling, sizeof polling, "%.1f / %.1f", cell->calls, cell->polling);
    snprintf(served, sizeof served, "%" PRIu32 "/%" PRIu32, cell->answered, cell->asked);
    const char *const stale = cell->is_stale || cell->is_stale_answer ? "yes" : "no";
    const char *const cells[COLUMNS] = {scheme->number, scheme->name, queries, holders, deletions,    stuck,
                                        wake,           polling,      stale,   served,  cell->verdict};
    table_row(stdout, columns, COLUMNS, cells);
}

static void print_row(const struct scheme *scheme, const struct cell *cell)
{
    if (cell->state != CELL_MEASURED)
        print_unmeasured(scheme, cell);
    else if (cell->lock.crowd > 0)
        print_crowd(scheme, cell);
    else if (cell->is_lock)
        print_measured_lock(scheme, cell);
    else
        print_measured(scheme, cell);
}

static void print_head(enum lab_group group)
{
    static const char *const above[] = {"",      "", "", "holders", "wrong", "stuck", "wake", "commands /s",
                                        "stale", ""};
    static const char *const below[COLUMNS] = {"",   "scheme",     "queries", "at once", "deletions", "ms",
                                               "ms", "sent / run", "value",   "served",  "verdict"};
    static const char *const lock_above[] = {"", "",      "holders",   "lost",     "late", "",
                                             "", "stuck", "hand-over", "sections", ""};
    static const char *const lock_below[LOCK_COLUMNS] = {
        "",      "scheme", "at once",      "updates", "write",  "told",
        "order", "ms",     "p50 / p99 ms", "/s",      "served", "verdict"};
    if (group == GROUP_CROWD) {
        print_crowd_head();
        return;
    }
    if (group != GROUP_CACHE) {
        table_row(stdout, lock_columns, sizeof lock_above / sizeof *lock_above, lock_above);
        table_row(stdout, lock_columns, LOCK_COLUMNS, lock_below);
        return;
    }
    table_row(stdout, columns, sizeof above / sizeof *above, above);
    table_row(stdout, columns, COLUMNS, below);
}

void matrix_print_failure(const struct matrix *matrix, size_t failure)
{
    const struct failure *what = matrix->failures[failure];
    printf("\n%s: %s\n  %s\n\n", what->name, what->title, what->story);
    print_head(what->group);
    for (size_t i = 0; i < matrix->scheme_count; i++) {
        if (matrix_concerns(matrix, failure, i))
            print_row(matrix->schemes[i], &matrix->cells[failure][i]);
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
           "heard "
           "that it\n"
           "no longer is. Stuck: from the failure, or the release, until the next one has it. Hand-over: "
           "from one\n"
           "process's release to another's having it.\n",
           lease_s);
}

static bool is_in(const struct matrix *matrix, size_t scheme, enum lab_group group)
{
    return (matrix->schemes[scheme]->groups & group) != 0;
}

static void print_group(const struct matrix *matrix, const struct lab_group_name *group)
{
    struct table_column wide[1 + MATRIX_FAILURES_MAX] = {{0, 18, TABLE_LEFT, false}};
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
        if (!is_in(matrix, j, group->group))
            continue;
        snprintf(label, sizeof label, "%-3s %-14s", matrix->schemes[j]->number, matrix->schemes[j]->name);
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

/* ---- JSON ---- */

static void json_text(FILE *file, const char *name, const char *text)
{
    fprintf(file, "\"%s\": \"", name);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, file);
    }
    fprintf(file, "\"");
}

static void json_ms(FILE *file, const char *name, bool has, uint64_t us)
{
    fprintf(file, has ? ", \"%s\": %.3f" : ", \"%s\": null", name, (double)us / 1e3);
}

static void json_numbers(FILE *file, const struct cell *cell)
{
    const struct {
        const char *name;
        uint32_t number;
    } numbers[] = {{"workers", cell->worker_count}, {"queries", cell->load_count},
                   {"holders", cell->holders_peak}, {"wrong_deletions", cell->wrong_deletions},
                   {"asked", cell->asked},          {"served", cell->answered},
                   {"failed", cell->failed}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        fprintf(file, ", \"%s\": %" PRIu32, numbers[i].name, numbers[i].number);
}

static void json_lock(FILE *file, const struct cell *cell)
{
    const struct cell_lock *lock = &cell->lock;
    const struct {
        const char *name;
        uint32_t number;
    } numbers[] = {{"lost_updates", lock->lost_updates}, {"late_taken", lock->late_accepted},
                   {"late_refused", lock->late_refused}, {"told", lock->told},
                   {"refused", lock->refused},           {"overtaken", lock->overtaken},
                   {"hand_overs", lock->hand_over_count}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        fprintf(file, ", \"%s\": %" PRIu32, numbers[i].name, numbers[i].number);
    fprintf(file, ", \"too_many_at_once\": %s", lock->is_over ? "true" : "false");
    json_ms(file, "hand_over_p50_ms", lock->hand_over_count > 0, lock->hand_over_p50_us);
    json_ms(file, "hand_over_p99_ms", lock->hand_over_count > 0, lock->hand_over_p99_us);
    if (lock->crowd > 0)
        fprintf(file,
                ", \"waiters\": %" PRIu32 ", \"idle_scripts_per_s\": %.2f, \"idle_commands_per_s\": %.2f, "
                "\"hand_over_scripts\": %.2f, \"hand_over_commands\": %.2f, \"hand_overs_per_s\": %.1f",
                lock->crowd, lock->idle_sent_per_s, lock->idle_run_per_s, lock->hand_over_sent,
                lock->hand_over_run, lock->hand_overs_per_s);
}

static void json_cell(FILE *file, const struct scheme *scheme, const struct failure *failure,
                      const struct cell *cell)
{
    static const char *const states[] = {"not run", "no such moment", "measured", "apart"};
    const char *const texts[][2] = {{"scheme", scheme->name},
                                    {"failure", failure->name},
                                    {"state", states[cell->state]},
                                    {"verdict", cell->verdict}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fprintf(file, i == 0 ? "    {" : ", ");
        json_text(file, texts[i][0], texts[i][1]);
    }
    json_numbers(file, cell);
    json_ms(file, "stuck_ms", cell->has_stuck, cell->stuck_us);
    json_ms(file, "wake_ms", cell->has_wake, cell->wake_us);
    fprintf(file, ", \"for_ever\": %s, \"stale_value\": %s, \"stale_answer\": %s",
            cell->is_for_ever ? "true" : "false", cell->is_stale ? "true" : "false",
            cell->is_stale_answer ? "true" : "false");
    if (cell->is_for_ever)
        fprintf(file, ", \"lock_pttl_ms\": %" PRId64, cell->lock_pttl_ms);
    if (cell->has_polling)
        fprintf(file, ", \"commands_sent_per_waiter_s\": %.2f, \"commands_run_per_waiter_s\": %.2f",
                cell->calls, cell->polling);
    if (cell->is_lock)
        json_lock(file, cell);
    fprintf(file, "}");
}

bool matrix_write(const struct matrix *matrix, FILE *file, const char *path)
{
    fprintf(file, "{\n  ");
    json_text(file, "machine", matrix->machine);
    fprintf(file, ",\n  ");
    json_text(file, "command", matrix->command);
    fprintf(file, ",\n  \"lease_ms\": %" PRIu32 ",\n  \"cells\": [\n", matrix->lease_s * 1000);
    const size_t count = matrix_cell_count(matrix);
    size_t written = 0;
    for (size_t i = 0; i < matrix->failure_count; i++) {
        for (size_t j = 0; j < matrix->scheme_count; j++) {
            if (!matrix_concerns(matrix, i, j))
                continue;
            json_cell(file, matrix->schemes[j], matrix->failures[i], &matrix->cells[i][j]);
            fprintf(file, ++written == count ? "\n" : ",\n");
        }
    }
    fprintf(file, "  ]\n}\n");
    if (fflush(file) == 0 && ferror(file) == 0)
        return true;
    fprintf(stderr, "lab: %s: not everything could be written\n", path);
    return false;
}
