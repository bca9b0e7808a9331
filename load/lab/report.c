/* SPDX-License-Identifier: MIT */
/* report.c - see report.h. */
#include "load/lab/report.h"

#include <hiredis/hiredis.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { FIELD_BYTES = 48 };

/* ---- the machine ---- */

static void redis_version(struct lab *lab, char version[FIELD_BYTES])
{
    struct redisReply *reply = stack_redis_command(&lab->redis, "INFO server");
    const char *line = reply != NULL && reply->str != NULL ? strstr(reply->str, "redis_version:") : NULL;
    snprintf(version, FIELD_BYTES, "?");
    if (line != NULL)
        sscanf(line, "redis_version:%47[0-9.]", version);
    if (reply != NULL)
        freeReplyObject(reply);
}

void report_machine(struct report *report, struct lab *lab)
{
    struct utsname system = {.sysname = "?"};
    char redis[FIELD_BYTES], postgres[FIELD_BYTES];
    uname(&system);
    redis_version(lab, redis);
    if (!stack_postgres_query(lab->postgres.socket_url, "SHOW server_version", postgres, sizeof postgres))
        snprintf(postgres, sizeof postgres, "?");
    postgres[strcspn(postgres, " ")] = '\0';
    snprintf(report->machine, sizeof report->machine, "%ld cores, %.20s %.60s %.20s; Redis %s, PostgreSQL %s",
             sysconf(_SC_NPROCESSORS_ONLN), system.sysname, system.release, system.machine, redis, postgres);
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
    if (cell->is_for_ever)
        snprintf(field, FIELD_BYTES, "> %.0f (PTTL %" PRId64 ")", (double)cell->stuck_us / 1e3,
                 cell->lock_pttl_ms);
}

static void print_row(const struct scheme *scheme, const struct cell *cell)
{
    char stuck[FIELD_BYTES], wake[FIELD_BYTES], polling[FIELD_BYTES] = "-", served[FIELD_BYTES];
    printf("  %-2s %-12s ", scheme->number, scheme->name);
    if (cell->state != CELL_MEASURED) {
        printf("%s\n", cell->state == CELL_NOT_RUN ? "not run" : "- has no such moment");
        return;
    }
    write_stuck(stuck, cell);
    write_ms(wake, cell->has_wake, cell->wake_us);
    if (cell->has_polling)
        snprintf(polling, sizeof polling, "%.1f / %.1f", cell->calls, cell->polling);
    snprintf(served, sizeof served, "%" PRIu32 "/%" PRIu32, cell->answered, cell->asked);
    printf("%7" PRIu32 " %7" PRIu32 " %9" PRIu32 " %18s %8s %13s %5s %6s  %s\n", cell->load_count,
           cell->holders_peak, cell->wrong_deletions, stuck, wake, polling,
           cell->is_stale || cell->is_stale_answer ? "yes" : "no", served, cell->verdict);
}

void report_failure(const struct report *report, size_t failure)
{
    const struct failure *what = report->failures[failure];
    printf("\n%s: %s\n  %s\n\n", what->name, what->title, what->story);
    printf("     %-12s %7s %7s %9s %18s %8s %13s %5s %6s\n", "", "", "holders", "wrong", "stuck", "wake",
           "commands /s", "stale", "");
    printf("     %-12s %7s %7s %9s %18s %8s %13s %5s %6s  %s\n", "scheme", "queries", "at once", "deletions",
           "ms", "ms", "sent / run", "value", "served", "verdict");
    for (size_t i = 0; i < report->scheme_count; i++)
        print_row(report->schemes[i], &report->cells[failure][i]);
    fflush(stdout);
}

/* ---- the matrix ---- */

static int column_width(const struct report *report, size_t failure)
{
    size_t width = strlen(report->failures[failure]->name);
    for (size_t i = 0; i < report->scheme_count; i++) {
        const size_t word = strlen(report->cells[failure][i].verdict);
        width = word > width ? word : width;
    }
    return (int)width;
}

static void explain(double lease_s)
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

void report_matrix(const struct report *report)
{
    printf("\n%-18s", "scheme x failure");
    for (size_t i = 0; i < report->failure_count; i++)
        printf(" %-*s", column_width(report, i), report->failures[i]->name);
    printf("\n");
    for (size_t j = 0; j < report->scheme_count; j++) {
        printf("%-3s %-14s", report->schemes[j]->number, report->schemes[j]->name);
        for (size_t i = 0; i < report->failure_count; i++)
            printf(" %-*s", column_width(report, i), report->cells[i][j].verdict);
        printf("\n");
    }
    explain(report->lease_s);
    printf("\n%s\n%s\n", report->machine, report->command);
}

/* ---- judging ours ---- */

bool report_judge(const struct report *report)
{
    char why[FIELD_BYTES];
    size_t kept = 0, judged = 0;
    bool good = true;
    for (size_t i = 0; i < report->failure_count; i++) {
        for (size_t j = 0; j < report->scheme_count; j++) {
            const struct cell *cell = &report->cells[i][j];
            good = good && cell->state != CELL_NOT_RUN;
            if (!report->schemes[j]->is_ours)
                continue;
            judged++;
            if (cell_keeps_promise(cell, &report->failures[i]->demand, why, sizeof why))
                kept++;
            else
                printf("%s does not keep its promise: %s: %s\n", report->schemes[j]->name,
                       report->failures[i]->name, why);
        }
    }
    if (judged > 0)
        printf("Ours kept what guard/README.md promises in %zu of %zu.\n", kept, judged);
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
    if (has)
        fprintf(file, ", \"%s\": %.3f", name, (double)us / 1e3);
    else
        fprintf(file, ", \"%s\": null", name);
}

static void json_cell(FILE *file, const struct scheme *scheme, const struct failure *failure,
                      const struct cell *cell)
{
    static const char *const states[] = {"not run", "no such moment", "measured"};
    fprintf(file, "    {");
    json_text(file, "scheme", scheme->name);
    fprintf(file, ", ");
    json_text(file, "failure", failure->name);
    fprintf(file, ", ");
    json_text(file, "state", states[cell->state]);
    fprintf(file, ", ");
    json_text(file, "verdict", cell->verdict);
    fprintf(file,
            ", \"workers\": %" PRIu32 ", \"queries\": %" PRIu32 ", \"holders\": %" PRIu32
            ", \"wrong_deletions\": %" PRIu32 ", \"asked\": %" PRIu32 ", \"served\": %" PRIu32
            ", \"failed\": %" PRIu32,
            cell->worker_count, cell->load_count, cell->holders_peak, cell->wrong_deletions, cell->asked,
            cell->answered, cell->failed);
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
    fprintf(file, "}");
}

bool report_json(const struct report *report, FILE *file, const char *path)
{
    fprintf(file, "{\n  ");
    json_text(file, "machine", report->machine);
    fprintf(file, ",\n  ");
    json_text(file, "command", report->command);
    fprintf(file, ",\n  \"lease_ms\": %" PRIu32 ",\n  \"cells\": [\n", report->lease_s * 1000);
    for (size_t i = 0; i < report->failure_count; i++) {
        for (size_t j = 0; j < report->scheme_count; j++) {
            const bool is_last = i + 1 == report->failure_count && j + 1 == report->scheme_count;
            json_cell(file, report->schemes[j], report->failures[i], &report->cells[i][j]);
            fprintf(file, is_last ? "\n" : ",\n");
        }
    }
    fprintf(file, "  ]\n}\n");
    if (fflush(file) == 0 && ferror(file) == 0)
        return true;
    fprintf(stderr, "lab: %s: not everything could be written\n", path);
    return false;
}
