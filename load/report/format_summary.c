/* SPDX-License-Identifier: MIT */
/*
 * format_summary.c - a report as Markdown, as for GitHub's step summary: the verdict, what had to hold, the sheet.
 * Texts of a report are foreign: what Markdown or HTML would make something of is escaped.
 */
#include "load/report/format.h"

#include "load/report/result_sheet.h"

#include <stdlib.h>
#include <string.h>

static void print_text(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '<' || *text == '&' || *text == '>')
            fprintf(out, "&#%d;", *text);
        else if (strchr("\\`*_{}[]()#+!|~$@", *text) != NULL)
            fprintf(out, "\\%c", *text);
        else
            fputc(*text == '\n' ? ' ' : *text, out);
    }
}

static void print_verdict(const struct report *report, FILE *out)
{
    size_t all = 0, held = 0;
    for (size_t i = 0; i < report->result_count; i++) {
        held += result_held(report->results[i]);
        all += report->results[i]->check_count;
    }
    fputs("### ", out);
    print_text(report->title, out);
    fprintf(out, "\n\n%s **%zu of %zu checks held**", report_held(report) ? "✅" : "❌", held, all);
    fputs("\n\n", out);
}

/* What did not hold comes first. */
static void print_checks(const struct report *report, bool held, FILE *out)
{
    for (size_t i = 0; i < report->result_count; i++) {
        const struct result *result = report->results[i];
        for (size_t j = 0; j < result->check_count; j++) {
            const struct result_check *check = &result->checks[j];
            if (check->held != held)
                continue;
            fprintf(out, "- %s ", held ? "✅" : "❌");
            print_text(result->name, out);
            fputs(": ", out);
            print_text(check->text, out);
            fputs(": ", out);
            print_text(check->measured, out);
            fputc('\n', out);
        }
    }
}

static void print_row(const struct sheet_row *row, size_t count, FILE *out)
{
    const char *strong = row->weight == FIELD_HEADLINE ? "**" : "";
    fprintf(out, "| %s%s", row->weight == FIELD_PART ? "&nbsp;&nbsp;" : "", strong);
    print_text(row->label, out);
    fprintf(out, "%s |", strong);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, " %s", row->cells[i][0] != '\0' ? strong : "");
        print_text(row->cells[i], out);
        fprintf(out, "%s |", row->cells[i][0] != '\0' ? strong : "");
    }
    fputc('\n', out);
}

static bool print_sheet(const struct report *report, FILE *out)
{
    struct sheet *sheet = malloc(sizeof *sheet);
    if (sheet == NULL)
        return false;
    sheet_fill(sheet, report);
    fputs("\n| |", out);
    for (size_t i = 0; i < report->result_count; i++) {
        fputc(' ', out);
        print_text(report->results[i]->name, out);
        fputs(" |", out);
    }
    fputs("\n|:---|", out);
    for (size_t i = 0; i < report->result_count; i++)
        fputs("---:|", out);
    fputc('\n', out);
    for (size_t i = 0; i < sheet->row_count; i++)
        print_row(&sheet->rows[i], report->result_count, out);
    free(sheet);
    return true;
}

static void print_headline(const struct report *report, FILE *out)
{
    static struct headline headline;
    headline_make(report, &headline);
    print_text(headline.text, out);
    fputc('\n', out);
    for (size_t i = 0; i < headline.caveat_count; i++) {
        fputs("\n> ", out);
        print_text(headline.caveats[i], out);
        fputc('\n', out);
    }
}

bool summary_print(const struct report *report, FILE *out)
{
    print_verdict(report, out);
    print_headline(report, out);
    fputc('\n', out);
    print_checks(report, false, out);
    print_checks(report, true, out);
    bool good = report->result_count == 0 || print_sheet(report, out);
    for (size_t i = 0; i < report->result_count; i++) {
        char worst[SHEET_WORST_BYTES];
        if (sheet_worst(report->results[i], worst)[0] == '\0')
            continue;
        fputs("\nMost loads of one expiry, ", out);
        print_text(report->results[i]->name, out);
        fputs(": ", out);
        print_text(worst, out);
        fputc('\n', out);
    }
    if (report->command[0] != '\0') {
        fputs("\nAgain: ", out);
        print_text(report->command, out);
        fputc('\n', out);
    }
    return good;
}
