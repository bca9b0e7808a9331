/* SPDX-License-Identifier: MIT */
/* page.c - see format.h. */
#include "load/report/format.h"

#include "load/report/result_fields.h"
#include "load/report/result_sheet.h"

#include "page_template.h"

#include <jansson.h>
#include <stdlib.h>

static json_t *row_to_json(const struct sheet_row *row, size_t column_count)
{
    static const char *const weights[] = {
        [FIELD_PART] = "part", [FIELD_WHOLE] = "whole", [FIELD_HEADLINE] = "headline"};
    json_t *cells = json_array();
    for (size_t i = 0; i < column_count; i++)
        json_append(&cells, json_string(row->cells[i]));
    return json_pack("{s:s, s:s, s:o}", "label", row->label, "weight", weights[row->weight], "cells", cells);
}

/* NULL: no memory. */
static json_t *headline_to_json(const struct report *report)
{
    struct headline *headline = malloc(sizeof *headline);
    if (headline == NULL)
        return NULL;
    json_t *caveats = json_array();
    headline_make(report, headline);
    for (size_t i = 0; i < headline->caveat_count; i++)
        json_append(&caveats, json_string(headline->caveats[i]));
    json_t *json = json_pack("{s:s, s:o}", "text", headline->text, "caveats", caveats);
    free(headline);
    return json;
}

/* The figures are judged and rounded in one place, for the terminal and for the page. NULL: no memory. */
static json_t *sheet_to_json(const struct report *report)
{
    struct sheet *sheet = malloc(sizeof *sheet);
    if (sheet == NULL)
        return NULL;
    json_t *rows = json_array(), *doubted = json_array();
    sheet_fill(sheet, report);
    for (size_t i = 0; i < sheet->row_count; i++)
        json_append(&rows, row_to_json(&sheet->rows[i], report->result_count));
    free(sheet);
    for (size_t i = 0; i < report->result_count; i++)
        json_append(&doubted, json_pack("{s:b, s:b}", "loads", headline_doubts_loads(report->results[i]),
                                        "times", headline_doubts_times(report->results[i])));
    return json_pack("{s:o, s:o, s:o, s:i}", "headline", headline_to_json(report), "rows", rows, "doubted",
                     doubted, "columns", (int)SHEET_COLUMNS);
}

/* "<" could end the element or begin a comment. In JSON it stands within strings only, where it has another name. */
static int print_safely(const char *bytes, size_t count, void *context)
{
    FILE *out = context;
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == '<')
            fputs("\\u003c", out);
        else
            fputc(bytes[i], out);
    }
    return 0;
}

/* Ends the life of `json`. */
static bool print_data(FILE *out, const char *id, json_t *json)
{
    fprintf(out, "<script type=\"application/json\" id=\"%s\">", id);
    bool good = json_dump_callback(json, print_safely, out,
                                   JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(17)) == 0;
    fputs("</script>\n", out);
    json_decref(json);
    return good;
}

bool page_write(const struct report *report, const char *path, char why[static RESULT_WHY_BYTES])
{
    struct result_file file;
    if (!result_file_open(&file, path, why))
        return false;
    fwrite(page_before, 1, sizeof page_before, file.out);
    bool good = print_data(file.out, "report", report_to_json(report)) &&
                print_data(file.out, "sheet", sheet_to_json(report));
    fwrite(page_after, 1, sizeof page_after, file.out);
    if (!good)
        snprintf(why, RESULT_WHY_BYTES, "%.150s: no memory for the page", path);
    return result_file_close(&file, good, why);
}
