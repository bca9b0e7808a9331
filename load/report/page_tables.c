/* SPDX-License-Identifier: MIT */
/* page_tables.c - checks, figures and keys of a page; see page_html.h. */
#include "load/report/page_html.h"
#include "load/report/result_sheet.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- checks ---- */

static void print_check(const struct page *page, size_t index, const struct result_check *check)
{
    fputs("<tr>", page->out);
    if (page->report->result_count > 1) {
        fputs("<td>", page->out);
        html_name(page, index);
        fputs("</td>", page->out);
    }
    fputs("<th scope=\"row\">", page->out);
    html_text(page, check->text, sizeof check->text);
    fputs("</th><td>", page->out);
    html_text(page, check->measured, sizeof check->measured);
    fprintf(page->out, "</td><td class=\"held %s\">%s</td></tr>\n", check->held ? "good" : "bad",
            check->held ? "\xe2\x9c\x93 held" : "\xe2\x9c\x97 not held");
}

void html_checks(const struct page *page)
{
    bool has_any = false;
    for (size_t i = 0; i < page->report->result_count; i++)
        has_any = has_any || page->report->results[i]->check_count > 0;
    if (!has_any)
        return;
    fprintf(
        page->out,
        "<h2>What had to hold</h2>\n<table class=\"checks\">\n<thead><tr>%s<th scope=\"col\">Check</th>"
        "<th scope=\"col\" class=\"measured\">Measured</th><th scope=\"col\" class=\"judged\">Verdict</th>"
        "</tr></thead>\n<tbody>\n",
        page->report->result_count > 1 ? "<th scope=\"col\" class=\"who\">Result</th>" : "");
    for (size_t i = 0; i < page->report->result_count; i++) {
        for (size_t j = 0; j < page->report->results[i]->check_count; j++)
            print_check(page, i, &page->report->results[i]->checks[j]);
    }
    fputs("</tbody>\n</table>\n", page->out);
}

/* ---- all figures ---- */

static void print_row(const struct page *page, const struct sheet_row *row, size_t first, size_t count)
{
    static const char *const classes[] = {
        [SHEET_PART] = "part", [SHEET_WHOLE] = "whole", [SHEET_HEADLINE] = "headline"};
    bool is_heading = row->cells[0][0] == '\0';
    fprintf(page->out, "<tr class=\"%s\"><th scope=\"row\"", is_heading ? "heading" : classes[row->weight]);
    if (is_heading)
        fprintf(page->out, " colspan=\"%zu\"", count + 1);
    fputc('>', page->out);
    html_text(page, row->label, sizeof row->label);
    fputs("</th>", page->out);
    for (size_t i = 0; i < count && !is_heading; i++)
        fprintf(page->out, "<td>%s</td>", row->cells[first + i]);
    fputs("</tr>\n", page->out);
}

static void print_figures(const struct page *page, const struct sheet *sheet, size_t first, size_t count)
{
    fputs("<table class=\"figures\">\n<colgroup><col>", page->out);
    for (size_t i = 0; i < count; i++)
        fputs("<col>", page->out);
    fputs("</colgroup>\n<thead><tr><th scope=\"col\">Figure</th>", page->out);
    for (size_t i = 0; i < count; i++) {
        fputs("<th scope=\"col\">", page->out);
        html_name(page, first + i);
        fputs("</th>", page->out);
    }
    fputs("</tr></thead>\n<tbody>\n", page->out);
    for (size_t i = 0; i < sheet->row_count; i++)
        print_row(page, &sheet->rows[i], first, count);
    fputs("</tbody>\n</table>\n", page->out);
}

void html_sheet(const struct page *page)
{
    struct sheet *sheet = malloc(sizeof *sheet);
    if (sheet == NULL)
        return;
    sheet_fill(sheet, page->report);
    if (sheet->row_count > 0)
        fputs("<h2>All figures</h2>\n", page->out);
    for (size_t first = 0, count; first < page->report->result_count; first += count) {
        count = sheet_columns(page->report, first);
        print_figures(page, sheet, first, count);
    }
    free(sheet);
}

void html_hot(const struct page *page)
{
    bool has_any = false;
    for (size_t i = 0; i < page->report->result_count; i++)
        has_any = has_any || page->report->results[i]->loaded_keys > 1;
    if (!has_any)
        return;
    fputs("<h2>Most loaded keys</h2>\n<dl class=\"facts\">\n", page->out);
    for (size_t i = 0; i < page->report->result_count; i++) {
        const struct result *result = page->report->results[i];
        fputs("<dt>", page->out);
        html_name(page, i);
        fputs("</dt><dd>", page->out);
        for (size_t j = 0; j < result->hot_count; j++) {
            fputs(j > 0 ? ", " : "", page->out);
            html_text(page, result->hot[j].key[0] != '\0' ? result->hot[j].key : "without a key",
                      WITNESS_KEY_BYTES);
            fprintf(page->out, " \xc3\x97 %" PRIu64, result->hot[j].loads);
        }
        fputs("</dd>\n", page->out);
    }
    fputs("</dl>\n", page->out);
}
