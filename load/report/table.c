/* SPDX-License-Identifier: MIT */
/* table.c - see table.h. */
#include "load/report/table.h"

#include "load/report/result_text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_cell(FILE *out, const struct table_column *column, const char *text)
{
    size_t bytes = column->cuts ? text_fit(text, column->width) : strlen(text);
    bool is_cut = text[bytes] != '\0' && column->width > 0;
    if (is_cut)
        bytes = text_fit(text, column->width - 1);
    size_t used = text_columns_of(text, bytes) + is_cut;
    int space = (int)(used < column->width ? column->width - used : 0);
    fprintf(out, "%*s%*s%.*s%s%*s", (int)column->gap, "", column->side == TABLE_RIGHT ? space : 0, "",
            (int)bytes, text, is_cut ? "…" : "", column->side == TABLE_LEFT ? space : 0, "");
}

void table_cells(FILE *out, const struct table_column *columns, size_t count, const char *const *cells)
{
    for (size_t i = 0; i < count; i++)
        print_cell(out, &columns[i], cells[i]);
}

void table_row(FILE *out, const struct table_column *columns, size_t count, const char *const *cells)
{
    table_cells(out, columns, count, cells);
    fputc('\n', out);
}

void table_words(FILE *out, const char *text, size_t width, size_t used, size_t indent)
{
    bool begins = true;
    for (const char *word = text + strspn(text, " "); *word != '\0'; word += strspn(word, " ")) {
        size_t bytes = strcspn(word, " "), shown = bytes;
        size_t columns = text_columns_of(word, bytes);
        if (!begins && used + 1 + columns > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            used = indent;
            begins = true;
        }
        if (columns > width - indent) { /* no space to break it at */
            shown = text_fit(word, width - indent - (begins ? 0 : 1));
            columns = text_columns_of(word, shown);
        }
        fprintf(out, "%s%.*s", begins ? "" : " ", (int)shown, word);
        used += columns + !begins;
        begins = false;
        word += shown;
    }
    fputc('\n', out);
}

/* ---- samples ---- */

void samples_add(struct samples *samples, double sample)
{
    assert(samples->count < SAMPLES_MAX);
    samples->at[samples->count++] = sample;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static struct samples sorted(const struct samples *samples)
{
    struct samples copy = *samples;
    qsort(copy.at, copy.count, sizeof *copy.at, by_size);
    return copy;
}

double samples_median(const struct samples *samples)
{
    const struct samples in_order = sorted(samples);
    size_t middle = in_order.count / 2;
    if (in_order.count == 0)
        return 0;
    return in_order.count % 2 != 0 ? in_order.at[middle]
                                   : (in_order.at[middle - 1] + in_order.at[middle]) / 2;
}

double samples_smallest(const struct samples *samples)
{
    return samples->count > 0 ? sorted(samples).at[0] : 0;
}

double samples_largest(const struct samples *samples)
{
    return samples->count > 0 ? sorted(samples).at[samples->count - 1] : 0;
}

double samples_rounded(double number, unsigned decimals)
{
    char text[64];
    snprintf(text, sizeof text, "%.*f", (int)decimals, number);
    return strtod(text, NULL);
}
