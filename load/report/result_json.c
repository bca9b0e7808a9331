/* SPDX-License-Identifier: MIT */
/* result_json.c - a report into JSON, see result.h; what is written, is said in result_fields.c. */
#include "load/report/result_fields.h"
#include "load/report/result_file.h"
#include "load/report/result_text.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1024 };

/* jansson refuses text that is not UTF-8, and so would every reader. */
static json_t *text_to_json(const char *text, size_t text_bytes, bool keeps_lines)
{
    char clean[TEXT_BYTES_MAX];
    text_clean(clean, text_bytes < sizeof clean ? text_bytes : sizeof clean, text, text_bytes, keeps_lines);
    return json_string(clean);
}

static json_t *field_to_json(const struct field *field, const void *at)
{
    switch (field->kind) {
    case FIELD_TEXT:
    case FIELD_LINES:
        return text_to_json(at, field->bytes, field->kind == FIELD_LINES);
    case FIELD_BOOL:
        return json_boolean(*(const bool *)at);
    case FIELD_U32:
        return json_integer(*(const uint32_t *)at);
    case FIELD_U64:
        return json_integer((json_int_t) * (const uint64_t *)at);
    case FIELD_DOUBLE:
        return json_real(isfinite(*(const double *)at) ? *(const double *)at : 0);
    case FIELD_MARK_KIND:
        return json_string(result_mark_name(*(const enum result_mark_kind *)at));
    }
    return NULL;
}

/* Adding NULL to an object or a list is an error that jansson reports: one check at the end is enough. */
static json_t *object_to_json(const struct field *fields, const void *base)
{
    json_t *object = json_object();
    for (; fields->name != NULL; fields++) {
        if (json_object_set_new(object, fields->name,
                                field_to_json(fields, (const char *)base + fields->offset)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *list_to_json(const struct field *fields, const void *items, size_t item_bytes, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        if (json_array_append_new(list, object_to_json(fields, (const char *)items + i * item_bytes)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *counts_to_json(const struct field_counts *counts, const struct result *result)
{
    const uint64_t *numbers = (const uint64_t *)(const void *)((const char *)result + counts->offset);
    json_t *object = json_object();
    for (size_t i = 0; i < counts->count; i++) {
        if (numbers[i] > 0 &&
            json_object_set_new(object, counts->name_of(i), json_integer((json_int_t)numbers[i])) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *by_cache_to_json(const struct result *result)
{
    json_t *object = json_object();
    for (size_t i = 0; i < RECORD_CACHES; i++) {
        if (result->by_cache[i].count > 0 &&
            json_object_set_new(object, record_cache_name((enum record_cache)i),
                                object_to_json(fields_of_quantiles, &result->by_cache[i])) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* Most buckets are empty: "number of the bucket": count. */
static json_t *block_to_json(const uint32_t counts[static RESULT_BUCKETS])
{
    json_t *object = json_object();
    for (size_t i = 0; i < RESULT_BUCKETS; i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i);
        if (counts[i] > 0 && json_object_set_new(object, name, json_integer(counts[i])) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *blocks_to_json(const struct result *result)
{
    json_t *list = json_array();
    for (size_t i = 0; i < result->block_count; i++) {
        if (json_array_append_new(list, block_to_json(result->blocks[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static bool add_lists(json_t *object, const struct result *result)
{
    for (const struct field_list *list = field_lists; list->name != NULL; list++) {
        size_t count;
        memcpy(&count, (const char *)result + list->count_offset, sizeof count);
        const void *items = (const char *)result + list->offset;
        if (json_object_set_new(object, list->name,
                                list_to_json(list->fields, items, list->item_bytes, count)) != 0)
            return false;
    }
    return json_object_set_new(object, "slices",
                               list_to_json(fields_of_slice, result->slices, sizeof *result->slices,
                                            result->slice_count)) == 0;
}

static bool add_counts(json_t *object, const struct result *result)
{
    for (const struct field_counts *counts = field_counts; counts->name != NULL; counts++) {
        if (json_object_set_new(object, counts->name, counts_to_json(counts, result)) != 0)
            return false;
    }
    return true;
}

static json_t *result_to_json(const struct result *result)
{
    json_t *object = object_to_json(fields_of_result, result);
    if (json_object_set_new(object, "strain", object_to_json(fields_of_strain, &result->strain)) == 0 &&
        json_object_set_new(object, "latency", object_to_json(fields_of_quantiles, &result->all)) == 0 &&
        json_object_set_new(object, "latency_5xx", object_to_json(fields_of_quantiles, &result->errors)) ==
            0 &&
        json_object_set_new(object, "latency_by_cache", by_cache_to_json(result)) == 0 &&
        json_object_set_new(object, "blocks", blocks_to_json(result)) == 0 && add_counts(object, result) &&
        add_lists(object, result))
        return object;
    json_decref(object);
    return NULL;
}

json_t *report_to_json(const struct report *report)
{
    json_t *object = object_to_json(fields_of_report, report), *results = json_array();
    bool good = json_object_set_new(object, RESULT_FORMAT_NAME, json_integer(RESULT_FORMAT_VERSION)) == 0;
    for (size_t i = 0; good && i < report->result_count; i++)
        good = json_array_append_new(results, result_to_json(report->results[i])) == 0;
    if (json_object_set_new(object, "results", results) == 0 && good)
        return object;
    json_decref(object);
    return NULL;
}

bool report_write(const struct report *report, const char *path, char why[static RESULT_WHY_BYTES])
{
    struct result_file file;
    json_t *json = report_to_json(report);
    if (json == NULL) {
        snprintf(why, RESULT_WHY_BYTES, "%.150s: no memory for the report", path);
        return false;
    }
    bool good = result_file_open(&file, path, why);
    if (good) {
        json_dumpf(json, file.out, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
        fputc('\n', file.out);
        good = result_file_close(&file, true, why);
    }
    json_decref(json);
    return good;
}
