/* SPDX-License-Identifier: MIT */
/*
 * result_fields.h - what a report's JSON holds, said once, by tables that writing and reading both follow, so that
 * nothing is written that is not read.
 *
 * Who adds a field to a struct of result.h adds it to its table in result_fields.c: the sizes asserted there remind
 * of it.
 */
#ifndef LOAD_REPORT_RESULT_FIELDS_H
#define LOAD_REPORT_RESULT_FIELDS_H

#include "load/report/result.h"

enum { RESULT_FORMAT_VERSION = 1 };

#define RESULT_FORMAT_NAME "stampede_report"

enum field_kind { FIELD_TEXT, FIELD_LINES, FIELD_BOOL, FIELD_U32, FIELD_U64, FIELD_DOUBLE, FIELD_MARK_KIND };

struct field {
    const char *name; /* NULL ends a table */
    enum field_kind kind;
    size_t offset, bytes;
};

/* A list in a result: an array with room for `most` and the count of those that are there. */
struct field_list {
    const char *name;
    const struct field *fields;
    size_t offset, item_bytes, most, count_offset;
};

/* Counts under names, of which those above zero are written. */
struct field_counts {
    const char *name;
    const char *(*name_of)(size_t index);
    size_t offset, count;
};

extern const struct field fields_of_report[], fields_of_result[], fields_of_strain[], fields_of_quantiles[],
    fields_of_slice[];
extern const struct field_list field_lists[]; /* end with a NULL name */
extern const struct field_counts field_counts[];

/* What report_write() writes; yours. NULL: no memory. */
struct json_t *report_to_json(const struct report *report);

#endif
