/* SPDX-License-Identifier: MIT */
/*
 * result_json_read.c - a report out of JSON, see result.h; what is read, is said in result_fields.c.
 *
 * The file is anybody's: every number is checked for its range, every list for its length. The first thing that is
 * wrong is named with its place, "results[1].marks[3].at_ms". Members that nobody knows are passed over.
 */
#include "load/report/result_fields.h"
#include "load/report/result_text.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PLACE_BYTES = 96, FILE_BYTES_MAX = 256 << 20 };

struct reader {
    const char *path;
    char *why; /* RESULT_WHY_BYTES; the first error stays */
    char place[PLACE_BYTES];
    bool failed;
};

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

static bool take_value(struct reader *reader, const struct field *field, const json_t *json, void *at)
{
    uint64_t number;
    switch (field->kind) {
    case FIELD_TEXT:
    case FIELD_LINES:
        return take_text(reader, field, json, at);
    case FIELD_BOOL:
        if (!json_is_boolean(json))
            return fail(reader, "must be true or false");
        *(bool *)at = json_is_true(json);
        return true;
    case FIELD_U32:
        if (!take_number(reader, json, UINT32_MAX, &number))
            return false;
        *(uint32_t *)at = (uint32_t)number;
        return true;
    case FIELD_U64:
        return take_number(reader, json, INT64_MAX, at);
    case FIELD_DOUBLE:
        if (!json_is_number(json) || json_number_value(json) < 0)
            return fail(reader, "must be a number, not negative");
        *(double *)at = json_number_value(json);
        return true;
    case FIELD_MARK_KIND:
        return take_mark_kind(reader, json, at);
    }
    return false;
}

static bool take_object(struct reader *reader, const struct field *fields, const json_t *json, void *base)
{
    if (!json_is_object(json))
        return fail(reader, "must be an object");
    for (; fields->name != NULL; fields++) {
        const json_t *value = json_object_get(json, fields->name);
        size_t back = enter(reader, fields->name, 0);
        if (value == NULL)
            return fail(reader, "is missing");
        if (!take_value(reader, fields, value, (char *)base + fields->offset))
            return false;
        leave(reader, back);
    }
    return true;
}

/* The member, of the type that is expected; NULL: it is not there, or something else. */
static const json_t *member(struct reader *reader, const json_t *json, const char *name, json_type type)
{
    const json_t *value = json_object_get(json, name);
    enter(reader, name, 0);
    if (value == NULL)
        fail(reader, "is missing");
    else if (json_typeof(value) != type)
        fail(reader, "must be %s", type == JSON_ARRAY ? "a list" : "an object");
    return reader->failed ? NULL : value;
}

/* ---- lists ---- */

static bool take_items(struct reader *reader, const struct field *fields, const json_t *json, void *items,
                       size_t item_bytes)
{
    for (size_t i = 0; i < json_array_size(json); i++) {
        size_t back = enter(reader, NULL, i);
        if (!take_object(reader, fields, json_array_get(json, i), (char *)items + i * item_bytes))
            return false;
        leave(reader, back);
    }
    return true;
}

static bool has_room(struct reader *reader, const json_t *json, size_t most)
{
    return json_array_size(json) <= most || fail(reader, "has more than %zu items", most);
}

static bool take_list(struct reader *reader, const struct field_list *list, const json_t *json,
                      struct result *result)
{
    size_t back = strlen(reader->place);
    const json_t *items = member(reader, json, list->name, JSON_ARRAY);
    if (items == NULL || !has_room(reader, items, list->most) ||
        !take_items(reader, list->fields, items, (char *)result + list->offset, list->item_bytes))
        return false;
    size_t count = json_array_size(items);
    memcpy((char *)result + list->count_offset, &count, sizeof count);
    leave(reader, back);
    return true;
}

static bool take_slices(struct reader *reader, const json_t *json, struct result *result)
{
    size_t back = strlen(reader->place);
    const json_t *items = member(reader, json, "slices", JSON_ARRAY);
    if (items == NULL || !has_room(reader, items, RESULT_SLICES_MAX))
        return false;
    if (json_array_size(items) > 0 && result->slice_ms == 0)
        return fail(reader, "are there, but slice_ms is 0");
    result->slices = calloc(json_array_size(items) + 1, sizeof *result->slices);
    if (result->slices == NULL)
        return fail(reader, "is too much: no memory");
    result->slice_count = json_array_size(items);
    if (!take_items(reader, fields_of_slice, items, result->slices, sizeof *result->slices))
        return false;
    leave(reader, back);
    return true;
}

/* ---- under names ---- */

static bool take_counts(struct reader *reader, const struct field_counts *counts, const json_t *json,
                        struct result *result)
{
    size_t back = strlen(reader->place), known = 0;
    const json_t *object = member(reader, json, counts->name, JSON_OBJECT);
    if (object == NULL)
        return false;
    for (size_t i = 0; i < counts->count; i++) {
        const json_t *value = json_object_get(object, counts->name_of(i));
        size_t inner = strlen(reader->place);
        if (value == NULL)
            continue;
        enter(reader, counts->name_of(i), 0);
        known++;
        if (!take_number(reader, value, INT64_MAX, (uint64_t *)(void *)((char *)result + counts->offset) + i))
            return false;
        leave(reader, inner);
    }
    if (known < json_object_size(object))
        return fail(reader, "has a name that nobody knows");
    leave(reader, back);
    return true;
}

static bool take_by_cache(struct reader *reader, const json_t *json, struct result *result)
{
    size_t back = strlen(reader->place);
    const json_t *object = member(reader, json, "latency_by_cache", JSON_OBJECT);
    for (size_t i = 0; object != NULL && i < RECORD_CACHES; i++) {
        const char *name = record_cache_name((enum record_cache)i);
        const json_t *value = json_object_get(object, name);
        size_t inner = enter(reader, name, 0);
        if (value != NULL && !take_object(reader, fields_of_quantiles, value, &result->by_cache[i]))
            return false;
        leave(reader, inner);
    }
    leave(reader, back);
    return object != NULL;
}

static bool take_block(struct reader *reader, const json_t *json, uint32_t counts[static RESULT_BUCKETS])
{
    const char *name;
    json_t *value;
    if (!json_is_object(json))
        return fail(reader, "must be an object");
    json_object_foreach((json_t *)json, name, value)
    {
        char *end;
        uint64_t number;
        unsigned long bucket = strtoul(name, &end, 10);
        size_t back = enter(reader, name, 0);
        if (name[0] < '0' || name[0] > '9' || *end != '\0' || bucket >= RESULT_BUCKETS)
            return fail(reader, "is not the number of a bucket");
        if (!take_number(reader, value, UINT32_MAX, &number))
            return false;
        counts[bucket] = (uint32_t)number;
        leave(reader, back);
    }
    return true;
}

static bool take_blocks(struct reader *reader, const json_t *json, struct result *result)
{
    size_t back = strlen(reader->place);
    const json_t *items = member(reader, json, "blocks", JSON_ARRAY);
    if (items == NULL || !has_room(reader, items, RESULT_BLOCKS_MAX))
        return false;
    size_t count = json_array_size(items);
    result->blocks = count > 0 ? calloc(count, sizeof *result->blocks) : NULL;
    if (count > 0 && result->blocks == NULL)
        return fail(reader, "is too much: no memory");
    result->block_count = count;
    for (size_t i = 0; i < count; i++) {
        size_t inner = enter(reader, NULL, i);
        if (!take_block(reader, json_array_get(items, i), result->blocks[i]))
            return false;
        leave(reader, inner);
    }
    leave(reader, back);
    return true;
}

/* ---- the whole ---- */

static bool take_part(struct reader *reader, const json_t *json, const char *name, const struct field *fields,
                      void *base)
{
    size_t back = strlen(reader->place);
    const json_t *object = member(reader, json, name, JSON_OBJECT);
    if (object == NULL || !take_object(reader, fields, object, base))
        return false;
    leave(reader, back);
    return true;
}

static bool take_result(struct reader *reader, const json_t *json, struct result *result)
{
    bool good = take_object(reader, fields_of_result, json, result) &&
                take_part(reader, json, "strain", fields_of_strain, &result->strain) &&
                take_part(reader, json, "latency", fields_of_quantiles, &result->all) &&
                take_part(reader, json, "latency_5xx", fields_of_quantiles, &result->errors) &&
                take_by_cache(reader, json, result) && take_blocks(reader, json, result) &&
                take_slices(reader, json, result);
    for (const struct field_counts *counts = field_counts; good && counts->name != NULL; counts++)
        good = take_counts(reader, counts, json, result);
    for (const struct field_list *list = field_lists; good && list->name != NULL; list++)
        good = take_list(reader, list, json, result);
    return good;
}

/* Half a result is in the report, too, so that clearing the report clears it. */
static bool take_results(struct reader *reader, const json_t *json, struct report *report)
{
    const json_t *items = member(reader, json, "results", JSON_ARRAY);
    if (items == NULL || !has_room(reader, items, REPORT_RESULTS_MAX))
        return false;
    for (size_t i = 0; i < json_array_size(items); i++) {
        size_t back = enter(reader, NULL, i);
        struct result *result = calloc(1, sizeof *result);
        if (result == NULL)
            return fail(reader, "is too much: no memory");
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
        return fail(reader, "is a report of version %" JSON_INTEGER_FORMAT ", and this tool reads version %d",
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
    fail(reader, S_ISREG(stat_of.st_mode) ? "is too large for a report" : "is not a file");
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
