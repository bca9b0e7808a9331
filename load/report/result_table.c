/* SPDX-License-Identifier: MIT */
/* result_table.c - a report for the terminal, see result.h. Every text is cleaned before it gets there: a key could
 * hold the terminal's own commands. */
#include "load/report/result_sheet.h"
#include "load/report/result_text.h"
#include "load/report/table.h"

#include <stdio.h>
#include <string.h>

enum { PAGE_COLUMNS = 100, LABEL_COLUMNS = 34, CELL_COLUMNS = 16, CLEAN_BYTES = 1400, SAMPLES_SHOWN = 6 };

struct table {
    const struct report *report;
    FILE *out;
    bool is_terminal;
};

enum ink { PLAIN = 0, BOLD, GREEN, RED };

static const char *ink(const struct table *table, enum ink ink)
{
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[32m", "\033[31m"};
    return table->is_terminal ? codes[ink] : "";
}

static void print_words(const struct table *table, const char *text, size_t text_bytes, size_t used,
                        size_t indent)
{
    char clean[CLEAN_BYTES];
    text_clean(clean, sizeof clean, text, text_bytes, false);
    table_words(table->out, clean, PAGE_COLUMNS, used, indent);
}

/* ---- parts ---- */

static void print_head(const struct table *table)
{
    const struct report *report = table->report;
    fputs(ink(table, BOLD), table->out);
    print_words(table, report->title, sizeof report->title, 0, 0);
    fputs(ink(table, PLAIN), table->out);
    if (report->about[0] != '\0')
        print_words(table, report->about, sizeof report->about, 0, 0);
    if (report->machine[0] != '\0')
        print_words(table, report->machine, sizeof report->machine, 0, 0);
}

/* ---- texts that several results share ---- */

/* The text that stands at `offset` of each result, once for all that share it, unless it is said elsewhere. */
static void print_shared(const struct table *table, const char *what, size_t offset,
                         bool (*is_said)(const struct result *))
{
    const struct report *report = table->report;
    const char *texts[REPORT_RESULTS_MAX];
    for (size_t i = 0; i < report->result_count; i++)
        texts[i] = (const char *)report->results[i] + offset;
    for (size_t i = 0; i < report->result_count; i++) {
        char who[REPORT_RESULTS_MAX * RESULT_TEXT_BYTES], line[CLEAN_BYTES];
        if (!report_shares(report, texts, i, who, sizeof who) ||
            (is_said != NULL && is_said(report->results[i])))
            continue;
        snprintf(line, sizeof line, "%s%.600s%s%s", what, who, who[0] != '\0' ? ": " : "", texts[i]);
        print_words(table, line, sizeof line, 0, strlen(what));
    }
}

/* ---- the headline ---- */

static void print_headline(const struct table *table)
{
    static struct headline headline;
    headline_make(table->report, &headline);
    if (headline.text[0] == '\0')
        return;
    fprintf(table->out, "\n%s", ink(table, BOLD));
    print_words(table, headline.text, sizeof headline.text, 0, 0);
    fputs(ink(table, PLAIN), table->out);
    for (size_t i = 0; i < headline.caveat_count; i++) {
        fprintf(table->out, "%s! %s", ink(table, RED), ink(table, PLAIN));
        print_words(table, headline.caveats[i], sizeof headline.caveats[i], 2, 2);
    }
}

/* ---- figures ---- */

static size_t column_width(size_t column_count)
{
    size_t width = (PAGE_COLUMNS - LABEL_COLUMNS) / column_count;
    return width < CELL_COLUMNS ? width : CELL_COLUMNS;
}

static void print_names(const struct table *table, size_t first, size_t count)
{
    struct table_column columns[SHEET_COLUMNS];
    char names[SHEET_COLUMNS][RESULT_TEXT_BYTES];
    const char *cells[SHEET_COLUMNS];
    for (size_t i = 0; i < count; i++) {
        columns[i] = (struct table_column){2, column_width(count) - 2, TABLE_RIGHT, true};
        text_clean(names[i], sizeof names[i], table->report->results[first + i]->name, sizeof names[i],
                   false);
        cells[i] = names[i];
    }
    columns[0].gap += LABEL_COLUMNS;
    fputc('\n', table->out);
    table_row(table->out, columns, count, cells);
}

static void print_row(const struct table *table, const struct sheet_row *row, size_t first, size_t count)
{
    size_t indent = row->weight == FIELD_PART ? 2 : 0;
    struct table_column columns[1 + SHEET_COLUMNS] = {{indent, LABEL_COLUMNS - indent, TABLE_LEFT, true}};
    const char *cells[1 + SHEET_COLUMNS] = {row->label};
    if (row->cells[0][0] == '\0') {
        fprintf(table->out, "%s\n", row->label);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        columns[1 + i] = (struct table_column){0, column_width(count), TABLE_RIGHT, true};
        cells[1 + i] = row->cells[first + i];
    }
    fputs(row->weight == FIELD_HEADLINE ? ink(table, BOLD) : "", table->out);
    table_cells(table->out, columns, 1 + count, cells);
    fputs(row->weight == FIELD_HEADLINE ? ink(table, PLAIN) : "", table->out);
    fputc('\n', table->out);
}

static void print_figures(const struct table *table)
{
    static struct sheet sheet;
    const size_t result_count = table->report->result_count;
    sheet_fill(&sheet, table->report);
    for (size_t first = 0; first < result_count; first += SHEET_COLUMNS) {
        size_t left = result_count - first, count = left < SHEET_COLUMNS ? left : SHEET_COLUMNS;
        print_names(table, first, count);
        for (size_t i = 0; i < sheet.row_count; i++)
            print_row(table, &sheet.rows[i], first, count);
    }
}

/* ---- what had to hold ---- */

static void print_check(const struct table *table, const struct result *result,
                        const struct result_check *check)
{
    const char *verdict = check->held ? "held      " : "NOT HELD  ";
    char line[2 * RESULT_TEXT_BYTES + RESULT_TEXT_BYTES + 8];
    bool alone = table->report->result_count == 1;
    snprintf(line, sizeof line, "%.*s%s%.*s: %.*s", RESULT_TEXT_BYTES, alone ? "" : result->name,
             alone ? "" : ": ", RESULT_TEXT_BYTES, check->text, RESULT_TEXT_BYTES, check->measured);
    fprintf(table->out, "%s%s%s", ink(table, check->held ? GREEN : RED), verdict, ink(table, PLAIN));
    print_words(table, line, sizeof line, strlen(verdict), strlen(verdict));
}

static void print_checks(const struct table *table)
{
    fputc('\n', table->out);
    for (size_t i = 0; i < table->report->result_count; i++) {
        const struct result *result = table->report->results[i];
        for (size_t j = 0; j < result->check_count; j++)
            print_check(table, result, &result->checks[j]);
    }
}

/* ---- what went wrong ---- */

static void print_sample(const struct table *table, const struct result *result,
                         const struct result_sample *sample)
{
    char line[CLEAN_BYTES], took[TEXT_NUMBER_BYTES];
    bool alone = table->report->result_count == 1;
    snprintf(line, sizeof line, "%.*s%s%.24s at %.3f s, %.*s, after %s ms%s%.*s", RESULT_TEXT_BYTES,
             alone ? "" : result->name, alone ? "" : ": ", sample->kind, sample->at_ms / 1e3,
             RESULT_TEXT_BYTES, sample->url, text_ms(took, sample->took_us),
             sample->text[0] != '\0' ? ": " : "", RESULT_SAMPLE_BYTES, sample->text);
    print_words(table, line, sizeof line, 6, 6);
}

/* The first of each kind; the file and the page have more. */
static void print_samples(const struct table *table)
{
    size_t printed = 0;
    for (size_t i = 0; i < table->report->result_count; i++) {
        const struct result *result = table->report->results[i];
        for (size_t j = 0; j < result->sample_count && printed < SAMPLES_SHOWN; j++) {
            if (!result_sample_is_first(result, j))
                continue;
            fputs("first ", table->out);
            print_sample(table, result, &result->samples[j]);
            printed++;
        }
    }
}

static void print_worst(const struct table *table)
{
    for (size_t i = 0; i < table->report->result_count; i++) {
        const struct result *result = table->report->results[i];
        char worst[SHEET_WORST_BYTES], line[SHEET_WORST_BYTES + RESULT_TEXT_BYTES + 32];
        if (sheet_worst(result, worst)[0] == '\0')
            continue;
        snprintf(line, sizeof line, "most loads of one expiry: %s%s%s",
                 table->report->result_count > 1 ? result->name : "",
                 table->report->result_count > 1 ? ": " : "", worst);
        print_words(table, line, sizeof line, 0, 6);
    }
}

void report_table(const struct report *report, FILE *out, bool is_terminal)
{
    const struct table table = {.report = report, .out = out, .is_terminal = is_terminal};
    print_head(&table);
    print_shared(&table, "", offsetof(struct result, what), NULL);
    print_headline(&table);
    print_figures(&table);
    print_checks(&table);
    print_worst(&table);
    print_samples(&table);
    print_shared(&table, "generator: ", offsetof(struct result, strain.verdict), headline_doubts_times);
    print_shared(&table, "counting: ", offsetof(struct result, caveat), headline_doubts_loads);
    fflush(out);
}

/* ---- ten lines for those who see it for the first time ---- */

/* Rows of the sheet, and what they are called where no heading is above them. */
static const struct {
    const char *label, *shown;
} brief_rows[] = {
    {"queries", "queries"},
    {"seconds until the last answer", "seconds until the last answer"},
    {"timeout", "no answer in time"},
    {"p50", "latency, p50, ms"},
    {"p99", "  p99"},
    {"Redis commands", "Redis commands"},
};

static void print_brief_row(const struct table *table, const struct sheet *sheet, size_t index, size_t count)
{
    for (size_t i = 0; i < sheet->row_count; i++) {
        struct sheet_row row = sheet->rows[i];
        if (strcmp(row.label, brief_rows[index].label) != 0)
            continue;
        snprintf(row.label, sizeof row.label, "%s", brief_rows[index].shown);
        row.weight = FIELD_WHOLE;
        print_row(table, &row, 0, count);
        return;
    }
}

void report_brief(const struct report *report, FILE *out)
{
    static struct sheet sheet;
    const struct table table = {.report = report, .out = out};
    const size_t count = report->result_count < SHEET_COLUMNS ? report->result_count : SHEET_COLUMNS;
    char line[CLEAN_BYTES];
    size_t held = 0, all = 0;
    sheet_fill(&sheet, report);
    snprintf(line, sizeof line, "%s%s%s", report->title, count > 0 ? ": " : "",
             count > 0 ? report->results[0]->what : "");
    print_words(&table, line, sizeof line, 0, 0);
    if (count > 0)
        print_names(&table, 0, count);
    for (size_t i = 0; i < sizeof brief_rows / sizeof *brief_rows && count > 0; i++)
        print_brief_row(&table, &sheet, i, count);
    fputc('\n', out);
    for (size_t i = 0; i < report->result_count; i++) {
        const struct result *result = report->results[i];
        all += result->check_count;
        held += result_held(result);
        for (size_t j = 0; j < result->check_count; j++) {
            if (!result->checks[j].held)
                print_check(&table, result, &result->checks[j]);
        }
    }
    fprintf(out, "held      %zu of %zu checks\n", held, all);
    fflush(out);
}
