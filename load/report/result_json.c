/* SPDX-License-Identifier: MIT */
/*
 * result_json.c - a report into JSON and out of it, see result.h; which members there are, is said in
 * result_fields.c.
 *
 * A file that is read may hold anything: every number is checked for its range, every list for its length. The first
 * thing that is wrong is named with its place, "results[1].marks[3].at_ms". Unknown members are passed over.
 *
 * A number that was not measured is null, and so is a percentile of too few answers: just where a table has a dash.
 */
#include "load/report/format.h"
#include "load/report/result_fields.h"
#include "load/report/result_text.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TEXT_BYTES_MAX = 1024, PLACE_BYTES = 96, FILE_BYTES_MAX = 256 << 20 };

/* ==== writing ==== */

static json_t *value_to_json(const struct result *result, const struct field *field, const void *base);
static json_t *object_to_json(const struct result *result, const struct field *fields, const void *base);

/* Adding NULL is an error that jansson reports. */
void json_append(json_t **list, json_t *item)
{
    if (*list == NULL) {
        json_decref(item);
    } else if (json_array_append_new(*list, item) != 0) {
        json_decref(*list);
        *list = NULL;
    }
}

static void json_put(json_t **object, const char *name, json_t *value)
{
    if (*object == NULL) {
        json_decref(value);
    } else if (json_object_set_new(*object, name, value) != 0) {
        json_decref(*object);
        *object = NULL;
    }
}

/* jansson refuses text that is not UTF-8, and so would every reader. */
static json_t *text_to_json(const char *text, size_t text_bytes, bool keeps_lines)
{
    char clean[TEXT_BYTES_MAX];
    text_clean(clean, text_bytes < sizeof clean ? text_bytes : sizeof clean, text, text_bytes, keeps_lines);
    return json_string(clean);
}

static json_t *list_to_json(const struct result *result, const struct field *field, const void *items,
                            size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_append(&list, object_to_json(result, field->fields, (const char *)items + i * field->bytes));
    return list;
}

static json_t *counts_to_json(const struct field *field, const uint64_t *counts)
{
    json_t *object = json_object();
    for (size_t i = 0; i < field->most; i++) {
        if (counts[i] > 0)
            json_put(&object, field->name_of(i), json_integer((json_int_t)counts[i]));
    }
    return object;
}

/* Only the buckets that have something: most have not. */
static json_t *buckets_to_json(const uint32_t counts[static RESULT_BUCKETS])
{
    json_t *object = json_object();
    for (size_t i = 0; i < RESULT_BUCKETS; i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i);
        if (counts[i] > 0)
            json_put(&object, name, json_integer(counts[i]));
    }
    return object;
}

static bool is_number(const struct field *field)
{
    return field->kind == FIELD_U32 || field->kind == FIELD_U64 || field->kind == FIELD_DOUBLE;
}

/* Nothing received is a measurement; a recovery that never came has no time. */
static bool is_measured(const struct result *result, const struct field *field, const void *base)
{
    if (field->row.owner == COUNTED)
        return field_is_supported(base, field);
    if (result == NULL || !is_number(field) || field->row.owner == RECEIVED)
        return true;
    return field_is_owned(result, field->row.owner) &&
           (field->row.show != SHOW_RECOVERY || result->has_recovered);
}

/* `result`: of which it is a part; NULL: of none, or of one of its parts. */
static json_t *value_to_json(const struct result *result, const struct field *field, const void *base)
{
    const void *at = (const char *)base + field->offset;
    if (!is_measured(result, field, base))
        return json_null();
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
    case FIELD_OBJECT:
        return object_to_json(result, field->fields, at);
    case FIELD_LIST:
    case FIELD_SERIES:
        return list_to_json(result, field, field->kind == FIELD_LIST ? at : *(void *const *)at,
                            *(const size_t *)(const void *)((const char *)base + field->count_offset));
    case FIELD_COUNTS:
        return counts_to_json(field, at);
    case FIELD_BUCKETS:
        return buckets_to_json(at);
    }
    return NULL;
}

static json_t *object_to_json(const struct result *result, const struct field *fields, const void *base)
{
    if (fields->name[0] == '\0')
        return value_to_json(result, fields, base);
    json_t *object = json_object();
    for (; fields->name != NULL; fields++)
        json_put(&object, fields->name, value_to_json(result, fields, base));
    return object;
}

json_t *report_to_json(const struct report *report)
{
    json_t *object = object_to_json(NULL, fields_of_report, report), *results = json_array();
    for (size_t i = 0; i < report->result_count; i++)
        json_append(&results, object_to_json(report->results[i], fields_of_result, report->results[i]));
    json_put(&object, RESULT_FORMAT_NAME, json_integer(RESULT_FORMAT_VERSION));
    json_put(&object, "results", results);
    return object;
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

/* ==== reading ==== */

struct reader {
    const char *path;
    char *why; /* RESULT_WHY_BYTES; the first error stays */
    char place[PLACE_BYTES];
    bool failed;
};

static bool take_object(struct reader *reader, const struct field *fields, const json_t *json, void *base);

/* ---- errors and places ---- */

__attribute__((format(printf, 2, 3))) static bool fail(struct reader *reader, const char *format, ...)
{
    va_list arguments;
    if (reader->failed)
        return false;
    reader->failed = true;
    int used = snprintf(reader->why, RESULT_WHY_BYTES, "%.100s: %s%s", reader->path, reader->place,
                        reader->place[0] != '\0' ? " " : "");
    va_start(arguments, format);
    if (used > 0 && used < RESULT_WHY_BYTES)
        vsnprintf(reader->why + used, RESULT_WHY_BYTES - (size_t)used, format, arguments);
    va_end(arguments);
    text_clean(reader->why, RESULT_WHY_BYTES, reader->why, RESULT_WHY_BYTES, false);
    return false;
}

/* Goes into a member or, without a name, an item; returns where to go back to. */
static size_t enter(struct reader *reader, const char *name, size_t index)
{
    size_t used = strlen(reader->place);
    if (name != NULL)
        snprintf(reader->place + used, PLACE_BYTES - used, "%s%.32s", used > 0 ? "." : "", name);
    else
        snprintf(reader->place + used, PLACE_BYTES - used, "[%zu]", index);
    return used;
}

static void leave(struct reader *reader, size_t used)
{
    if (!reader->failed)
        reader->place[used] = '\0';
}

/* ---- values ---- */

static bool take_number(struct reader *reader, const json_t *json, uint64_t most, uint64_t *out)
{
    if (!json_is_integer(json) || json_integer_value(json) < 0)
        return fail(reader, "must be a whole number, not negative");
    *out = (uint64_t)json_integer_value(json);
    return *out <= most || fail(reader, "must be at most %" PRIu64, most);
}

static bool take_u32(struct reader *reader, const json_t *json, uint32_t *out)
{
    uint64_t number;
    if (!take_number(reader, json, UINT32_MAX, &number))
        return false;
    *out = (uint32_t)number;
    return true;
}

static bool take_text(struct reader *reader, const struct field *field, const json_t *json, char *at)
{
    if (!json_is_string(json))
        return fail(reader, "must be text");
    text_clean(at, field->bytes, json_string_value(json), json_string_length(json),
               field->kind == FIELD_LINES);
    return true;
}

static bool take_mark_kind(struct reader *reader, const json_t *json, enum result_mark_kind *out)
{
    for (enum result_mark_kind kind = RESULT_EXPIRY; kind <= RESULT_NOTE; kind++) {
        if (json_is_string(json) && strcmp(json_string_value(json), result_mark_name(kind)) == 0) {
            *out = kind;
            return true;
        }
    }
    return fail(reader, "must be \"expiry\", \"fault\" or \"note\"");
}

/* ---- lists ---- */

/* All zeros. */
static void *new_items(struct reader *reader, size_t count, size_t item_bytes)
{
    void *items = calloc(count > 0 ? count : 1, item_bytes);
    if (items == NULL)
        fail(reader, "is too much: no memory");
    return items;
}

static bool is_list(struct reader *reader, const json_t *json, size_t most)
{
    if (!json_is_array(json))
        return fail(reader, "must be a list");
    return json_array_size(json) <= most || fail(reader, "has more than %zu items", most);
}

/* A SERIES is allocated before its items are read, so that half of it is cleared, too. */
static bool take_list(struct reader *reader, const struct field *field, const json_t *json, void *base)
{
    void *at = (char *)base + field->offset;
    size_t count = json_array_size(json);
    if (!is_list(reader, json, field->most))
        return false;
    if (field->kind == FIELD_SERIES && (*(void **)at = new_items(reader, count, field->bytes)) == NULL)
        return false;
    char *items = field->kind == FIELD_SERIES ? *(void **)at : at;
    memcpy((char *)base + field->count_offset, &count, sizeof count);
    for (size_t i = 0; i < count; i++) {
        size_t back = enter(reader, NULL, i);
        if (!take_object(reader, field->fields, json_array_get(json, i), items + i * field->bytes))
            return false;
        leave(reader, back);
    }
    return true;
}

static bool take_buckets(struct reader *reader, const json_t *json, uint32_t counts[static RESULT_BUCKETS])
{
    const char *name;
    json_t *value;
    if (!json_is_object(json))
        return fail(reader, "must be an object");
    json_object_foreach((json_t *)json, name, value)
    {
        char *end;
        unsigned long bucket = strtoul(name, &end, 10);
        size_t back = enter(reader, name, 0);
        if (name[0] < '0' || name[0] > '9' || *end != '\0' || bucket >= RESULT_BUCKETS)
            return fail(reader, "is not the number of a bucket");
        if (!take_u32(reader, value, &counts[bucket]))
            return false;
        leave(reader, back);
    }
    return true;
}

/* ---- under names ---- */

static bool take_counts(struct reader *reader, const struct field *field, const json_t *json,
                        uint64_t *counts)
{
    size_t known = 0;
    if (!json_is_object(json))
        return fail(reader, "must be an object");
    for (size_t i = 0; i < field->most; i++) {
        const json_t *value = json_object_get(json, field->name_of(i));
        if (value == NULL)
            continue;
        size_t back = enter(reader, field->name_of(i), 0);
        if (!take_number(reader, value, INT64_MAX, &counts[i]))
            return false;
        leave(reader, back);
        known++;
    }
    return known == json_object_size(json) || fail(reader, "has a name that nobody knows");
}

/* ---- the whole ---- */

static bool take_value(struct reader *reader, const struct field *field, const json_t *json, void *base)
{
    void *at = (char *)base + field->offset;
    if (json_is_null(json) && is_number(field) && field->row.owner != EVERYBODY)
        return true;
    switch (field->kind) {
    case FIELD_TEXT:
    case FIELD_LINES:
        return take_text(reader, field, json, at);
    case FIELD_BOOL:
        *(bool *)at = json_is_true(json);
        return json_is_boolean(json) || fail(reader, "must be true or false");
    case FIELD_U32:
        return take_u32(reader, json, at);
    case FIELD_U64:
        return take_number(reader, json, INT64_MAX, at);
    case FIELD_DOUBLE:
        *(double *)at = json_number_value(json);
        return (json_is_number(json) && *(double *)at >= 0) || fail(reader, "must be a number, not negative");
    case FIELD_MARK_KIND:
        return take_mark_kind(reader, json, at);
    case FIELD_OBJECT:
        return take_object(reader, field->fields, json, at);
    case FIELD_LIST:
    case FIELD_SERIES:
        return take_list(reader, field, json, base);
    case FIELD_COUNTS:
        return take_counts(reader, field, json, at);
    case FIELD_BUCKETS:
        return take_buckets(reader, json, at);
    }
    return false;
}

static bool take_object(struct reader *reader, const struct field *fields, const json_t *json, void *base)
{
    if (fields->name[0] == '\0')
        return take_value(reader, fields, json, base);
    if (!json_is_object(json))
        return fail(reader, "must be an object");
    for (; fields->name != NULL; fields++) {
        const json_t *value = json_object_get(json, fields->name);
        size_t back = enter(reader, fields->name, 0);
        if (value == NULL)
            return fail(reader, "is missing");
        if (!take_value(reader, fields, value, base))
            return false;
        leave(reader, back);
    }
    return true;
}

static bool take_result(struct reader *reader, const json_t *json, struct result *result)
{
    if (!take_object(reader, fields_of_result, json, result))
        return false;
    if (result->slice_count == 0 || result->slice_ms > 0)
        return true;
    enter(reader, "slices", 0);
    return fail(reader, "are there, but slice_ms is 0");
}

/* Half a result is in the report, too, so that clearing the report clears it. */
static bool take_results(struct reader *reader, const json_t *json, struct report *report)
{
    const json_t *items = json_object_get(json, "results");
    enter(reader, "results", 0);
    if (items == NULL)
        return fail(reader, "is missing");
    if (!is_list(reader, items, REPORT_RESULTS_MAX))
        return false;
    for (size_t i = 0; i < json_array_size(items); i++) {
        size_t back = enter(reader, NULL, i);
        struct result *result = new_items(reader, 1, sizeof *result);
        if (result == NULL)
            return false;
        report_add(report, result);
        if (!take_result(reader, json_array_get(items, i), result))
            return false;
        leave(reader, back);
    }
    return true;
}

static bool take_report(struct reader *reader, const json_t *json, struct report *report)
{
    const json_t *version = json_object_get(json, RESULT_FORMAT_NAME);
    if (!json_is_integer(version))
        return fail(reader, "is JSON, but not a report of this tool: it has no \"" RESULT_FORMAT_NAME "\"");
    if (json_integer_value(version) != RESULT_FORMAT_VERSION)
        return fail(reader,
                    "is a report of version %" JSON_INTEGER_FORMAT
                    ", and this tool reads version %d: read it with the tool that wrote it, or run it again",
                    json_integer_value(version), RESULT_FORMAT_VERSION);
    return take_object(reader, fields_of_report, json, report) && take_results(reader, json, report);
}

static FILE *open_file(struct reader *reader)
{
    struct stat stat_of;
    FILE *file = fopen(reader->path, "re");
    if (file == NULL) {
        fail(reader, "cannot be read: %s", strerror(errno));
        return NULL;
    }
    if (fstat(fileno(file), &stat_of) == 0 && S_ISREG(stat_of.st_mode) && stat_of.st_size <= FILE_BYTES_MAX)
        return file;
    fail(reader, S_ISREG(stat_of.st_mode) ? "is larger than 256 MiB: no report is" : "is not a file");
    fclose(file);
    return NULL;
}

bool report_read(struct report *report, const char *path, char why[static RESULT_WHY_BYTES])
{
    struct reader reader = {.path = path, .why = why};
    json_error_t error;
    memset(report, 0, sizeof *report);
    FILE *file = open_file(&reader);
    if (file == NULL)
        return false;
    json_t *json = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    if (json == NULL)
        return fail(&reader, "line %d, column %d: is not JSON: %s", error.line, error.column, error.text);
    bool good = take_report(&reader, json, report);
    json_decref(json);
    if (!good)
        report_clear(report);
    return good;
}
