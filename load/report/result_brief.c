/* SPDX-License-Identifier: MIT */
/* result_brief.c - report_brief() of result.h: a few rows of the sheet, under what was asked, above what held. */
#include "load/report/result_sheet.h"
#include "load/report/result_text.h"
#include "load/report/table.h"

#include <string.h>

enum { PAGE_COLUMNS = 100, LABEL_COLUMNS = 34, CELL_COLUMNS = 16 };

/* Rows of the sheet, and what they are called where no heading is above them. */
static const struct {
    const char *label, *shown;
} rows[] = {
    {"queries", "queries"},
    {"seconds until the last answer", "seconds until the last answer"},
    {"timeout", "no answer in time"},
    {"p50", "latency, p50, ms"},
    {"p99", "  p99"},
    {"Redis commands", "Redis commands"},
};

static const struct sheet_row *find_row(const struct sheet *sheet, const char *label)
{
    for (size_t i = 0; i < sheet->row_count; i++) {
        if (strcmp(sheet->rows[i].label, label) == 0)
            return &sheet->rows[i];
    }
    return NULL;
}

static void print_line(const struct report *report, const char *label, const struct sheet_row *row, FILE *out)
{
    struct table_column columns[1 + SHEET_COLUMNS] = {{0, LABEL_COLUMNS, TABLE_LEFT, true}};
    char names[SHEET_COLUMNS][RESULT_TEXT_BYTES];
    const char *cells[1 + SHEET_COLUMNS] = {label};
    size_t count = report->result_count < SHEET_COLUMNS ? report->result_count : SHEET_COLUMNS;
    for (size_t i = 0; i < count; i++) {
        columns[1 + i] = (struct table_column){0, CELL_COLUMNS, TABLE_RIGHT, true};
        text_clean(names[i], sizeof names[i], report->results[i]->name, RESULT_TEXT_BYTES, false);
        cells[1 + i] = row != NULL ? row->cells[i] : names[i];
    }
    table_row(out, columns, 1 + count, cells);
}

static void print_checks(const struct report *report, FILE *out)
{
    char line[3 * RESULT_TEXT_BYTES + 8];
    size_t held = 0, all = 0;
    for (size_t i = 0; i < report->result_count; i++) {
        for (size_t j = 0; j < report->results[i]->check_count; j++) {
            const struct result_check *check = &report->results[i]->checks[j];
            held += check->held;
            all++;
            if (check->held)
                continue;
            snprintf(line, sizeof line, "%s: %s: %s", report->results[i]->name, check->text, check->measured);
            text_clean(line, sizeof line, line, sizeof line, false);
            fprintf(out, "NOT HELD  %s\n", line);
        }
    }
    fprintf(out, "held      %zu of %zu checks\n", held, all);
}

void report_brief(const struct report *report, FILE *out)
{
    static struct sheet sheet;
    char clean[RESULT_TEXT_BYTES];
    sheet_fill(&sheet, report);
    text_clean(clean, sizeof clean, report->title, sizeof report->title, false);
    fprintf(out, "%s", clean);
    if (report->result_count > 0) {
        text_clean(clean, sizeof clean, report->results[0]->what, RESULT_TEXT_BYTES, false);
        fprintf(out, ": %s", clean);
    }
    fputs("\n\n", out);
    print_line(report, "", NULL, out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct sheet_row *row = find_row(&sheet, rows[i].label);
        if (row != NULL)
            print_line(report, rows[i].shown, row, out);
    }
    fputc('\n', out);
    print_checks(report, out);
    fflush(out);
}
