/* SPDX-License-Identifier: MIT */
/* result_table.c - a report for the terminal, see result.h. Every text is cleaned before it gets there: a key could
 * hold the terminal's own commands. */
#include "load/report/result_sheet.h"
#include "load/report/result_text.h"

#include <stdio.h>
#include <string.h>

enum { PAGE_COLUMNS = 100, LABEL_COLUMNS = 34, CELL_COLUMNS = 16, CLEAN_BYTES = 1400 };

struct table {
    const struct report *report;
    FILE *out;
    bool is_terminal;
};

enum ink { PLAIN = 0, BOLD, GREEN, RED };

static const char *ink(const struct table *table, enum ink ink)
{
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[32m", "\033[1;31m"};
    return table->is_terminal ? codes[ink] : "";
}

/* Cut to the columns, filled up with spaces before it or after it. */
static void print_cell(const struct table *table, const char *text, size_t columns, bool is_right)
{
    size_t bytes = text_fit(text, columns);
    bool cut = text[bytes] != '\0' && columns > 0;
    if (cut)
        bytes = text_fit(text, columns - 1);
    char shown[CLEAN_BYTES];
    snprintf(shown, sizeof shown, "%.*s%s", (int)bytes, text, cut ? "…" : "");
    size_t used = text_columns(shown);
    int space = (int)(used < columns ? columns - used : 0);
    if (is_right)
        fprintf(table->out, "%*s%s", space, "", shown);
    else
        fprintf(table->out, "%s%*s", shown, space, "");
}

/* Words, broken between lines; further lines are indented. `used` columns of the first line are taken already. */
static void print_wrapped(const struct table *table, const char *text, size_t text_bytes, size_t used,
                          size_t indent)
{
    char clean[CLEAN_BYTES];
    text_clean(clean, sizeof clean, text, text_bytes, false);
    bool begins = true;
    for (const char *word = clean + strspn(clean, " "); *word != '\0'; word += strspn(word, " ")) {
        char one[CLEAN_BYTES];
        size_t bytes = strcspn(word, " ");
        snprintf(one, sizeof one, "%.*s", (int)bytes, word);
        size_t columns = text_columns(one);
        if (!begins && used + 1 + columns > PAGE_COLUMNS) {
            fprintf(table->out, "\n%*s", (int)indent, "");
            used = indent;
            begins = true;
        }
        if (columns > PAGE_COLUMNS - indent) { /* no space to break it at */
            bytes = text_fit(one, PAGE_COLUMNS - indent - (begins ? 0 : 1));
            one[bytes] = '\0';
        }
        used += (size_t)fprintf(table->out, "%s", begins ? "" : " ") + text_columns(one);
        fputs(one, table->out);
        begins = false;
        word += bytes;
    }
    fputc('\n', table->out);
}

/* ---- parts ---- */

static void print_head(const struct table *table)
{
    const struct report *report = table->report;
    fputs(ink(table, BOLD), table->out);
    print_wrapped(table, report->title, sizeof report->title, 0, 0);
    fputs(ink(table, PLAIN), table->out);
    if (report->about[0] != '\0')
        print_wrapped(table, report->about, sizeof report->about, 0, 0);
    if (report->machine[0] != '\0')
        print_wrapped(table, report->machine, sizeof report->machine, 0, 0);
}

/* Once for all who share it: "off, local: 1000 connections at one instant". */
static void print_shared(const struct table *table, const char *what, sheet_text text)
{
    for (size_t i = 0; i < table->report->result_count; i++) {
        char who[REPORT_RESULTS_MAX * RESULT_TEXT_BYTES], line[CLEAN_BYTES];
        if (!sheet_is_first(table->report, i, text))
            continue;
        sheet_who(table->report, i, text, who, sizeof who);
        snprintf(line, sizeof line, "%s%.600s%s%s", what, who, who[0] != '\0' ? ": " : "",
                 text(table->report->results[i]));
        print_wrapped(table, line, sizeof line, 0, strlen(what));
    }
}

static size_t column_width(size_t column_count)
{
    size_t width = (PAGE_COLUMNS - LABEL_COLUMNS) / (column_count > 0 ? column_count : 1);
    return width < CELL_COLUMNS ? width : CELL_COLUMNS;
}

static void print_names(const struct table *table, size_t first, size_t count)
{
    fprintf(table->out, "\n%*s", LABEL_COLUMNS, "");
    for (size_t i = 0; i < count; i++) {
        char name[RESULT_TEXT_BYTES];
        text_clean(name, sizeof name, table->report->results[first + i]->name, sizeof name, false);
        fputs("  ", table->out);
        print_cell(table, name, column_width(count) - 2, true);
    }
    fputc('\n', table->out);
}

static void print_row(const struct table *table, const struct sheet_row *row, size_t first, size_t count)
{
    bool is_part = row->weight == SHEET_PART;
    fputs(row->weight == SHEET_HEADLINE ? ink(table, BOLD) : "", table->out);
    fprintf(table->out, "%s", is_part ? "  " : "");
    if (row->cells[0][0] == '\0') {
        fprintf(table->out, "%s\n", row->label);
        return;
    }
    print_cell(table, row->label, (size_t)LABEL_COLUMNS - (is_part ? 2 : 0), false);
    for (size_t i = 0; i < count; i++)
        print_cell(table, row->cells[first + i], column_width(count), true);
    fputs(row->weight == SHEET_HEADLINE ? ink(table, PLAIN) : "", table->out);
    fputc('\n', table->out);
}

static void print_check(const struct table *table, const struct result *result,
                        const struct result_check *check)
{
    const char *verdict = check->held ? "held      " : "NOT HELD  ";
    char line[2 * RESULT_TEXT_BYTES + RESULT_TEXT_BYTES + 8];
    bool alone = table->report->result_count == 1;
    snprintf(line, sizeof line, "%.*s%s%.*s: %.*s", RESULT_TEXT_BYTES, alone ? "" : result->name,
             alone ? "" : ": ", RESULT_TEXT_BYTES, check->text, RESULT_TEXT_BYTES, check->measured);
    fprintf(table->out, "%s%s%s", ink(table, check->held ? GREEN : RED), verdict, ink(table, PLAIN));
    print_wrapped(table, line, sizeof line, strlen(verdict), strlen(verdict));
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

void report_table(const struct report *report, FILE *out, bool is_terminal)
{
    struct table table = {.report = report, .out = out, .is_terminal = is_terminal};
    static struct sheet sheet;
    sheet_fill(&sheet, report);
    print_head(&table);
    print_shared(&table, "", sheet_what_of);
    for (size_t first = 0, count; first < report->result_count; first += count) {
        count = sheet_columns(report, first);
        print_names(&table, first, count);
        for (size_t i = 0; i < sheet.row_count; i++)
            print_row(&table, &sheet.rows[i], first, count);
    }
    print_checks(&table);
    print_shared(&table, "generator: ", sheet_verdict_of);
    print_shared(&table, "counting: ", sheet_caveat_of);
    fflush(out);
}
