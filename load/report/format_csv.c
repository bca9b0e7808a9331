/* SPDX-License-Identifier: MIT */
/*
 * format_csv.c - a report as CSV (RFC 4180, but with plain line ends): "result,at_ms,figure,value", a row for each value.
 * Figures have the names of JSON, "latency.p99_us"; those of the series have an instant, the others none.
 */
#include "load/report/format.h"

#include "load/report/result_fields.h"

#include <jansson.h>
#include <string.h>

enum { FIGURE_BYTES = 256 };

struct csv {
    FILE *out;
    const char *result; /* whose figures these are */
    char at_ms[24];     /* "": of the whole run */
};

static void print_text(const char *text, FILE *out)
{
    if (strpbrk(text, ",\"\n\r") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++)
        fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', out);
}

static void print_row(const struct csv *csv, const char *figure, const char *value)
{
    print_text(csv->result, csv->out);
    fprintf(csv->out, ",%s,", csv->at_ms);
    print_text(figure, csv->out);
    fputc(',', csv->out);
    print_text(value, csv->out);
    fputc('\n', csv->out);
}

static void print_value(const struct csv *csv, const char *figure, const json_t *value)
{
    char number[64];
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%.9g", json_real_value(value));
    else
        snprintf(number, sizeof number, "%d", json_is_true(value));
    print_row(csv, figure, json_is_string(value) ? json_string_value(value) : number);
}

/* Objects within it one below the other; no lists. */
static void print_object(const struct csv *csv, const char *before, json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        char figure[FIGURE_BYTES];
        snprintf(figure, sizeof figure, "%s%s%s", before, before[0] != '\0' ? "." : "", name);
        if (!json_is_object(value) && !json_is_array(value))
            print_value(csv, figure, value);
        else if (json_is_object(value) && strchr(before, '.') == NULL)
            print_object(csv, figure, value);
    }
}

/* "name" and what it counts. */
static void print_named(const struct csv *csv, const char *before, json_t *list, const char *name,
                        const char *value)
{
    size_t index;
    json_t *item;
    json_array_foreach(list, index, item)
    {
        char figure[FIGURE_BYTES];
        snprintf(figure, sizeof figure, "%s.%s", before, json_string_value(json_object_get(item, name)));
        print_value(csv, figure, json_object_get(item, value));
    }
}

static void print_series(struct csv *csv, json_t *slices, json_int_t slice_ms)
{
    size_t index;
    json_t *slice;
    json_array_foreach(slices, index, slice)
    {
        snprintf(csv->at_ms, sizeof csv->at_ms, "%" JSON_INTEGER_FORMAT, (json_int_t)index * slice_ms);
        print_object(csv, "", slice);
    }
    csv->at_ms[0] = '\0';
}

bool csv_print(const struct report *report, FILE *out)
{
    json_t *json = report_to_json(report), *result;
    size_t index;
    fputs("result,at_ms,figure,value\n", out);
    json_array_foreach(json_object_get(json, "results"), index, result)
    {
        struct csv csv = {.out = out, .result = report->results[index]->name};
        print_object(&csv, "", result);
        print_named(&csv, "redis", json_object_get(result, "commands"), "name", "calls");
        print_named(&csv, "held", json_object_get(result, "checks"), "text", "held");
        print_series(&csv, json_object_get(result, "slices"), report->results[index]->slice_ms);
    }
    json_decref(json);
    return json != NULL;
}
