/* SPDX-License-Identifier: MIT */
/*
 * result_fields.h - what a report consists of, said once: of each member its name and shape in JSON, and the row that
 * shows it.
 *
 *     fields_of_report, fields_of_result ---> result_json.c     what is written and what is read
 *                                        ---> result_sheet.c    the rows of the terminal's table and of the page
 *     fields_of_quantiles                ---> result_latency.c  which percentiles are computed
 *                                        ---> result_compare.c  ... and which are compared
 *
 * JSON has its members in the order of the tables, a sheet its rows in the order of their places. A member that is
 * added to a struct of result.h needs its line in result_fields.c: the sizes asserted there remind of it.
 */
#pragma once

#include "load/report/result.h"

enum { RESULT_FORMAT_VERSION = 3 };

#define RESULT_FORMAT_NAME "stampede_report"

/* How a member stands in its struct, and thereby in JSON. */
enum field_kind {
    FIELD_TEXT,
    FIELD_LINES, /* text of several lines */
    FIELD_BOOL,
    FIELD_U32,
    FIELD_U64,
    FIELD_DOUBLE,
    FIELD_MARK_KIND,
    FIELD_OBJECT,  /* a struct with fields of its own */
    FIELD_LIST,    /* an array of such structs; a size_t at count_offset says how many are in use */
    FIELD_SERIES,  /* the same, allocated */
    FIELD_COUNTS,  /* an array of uint64_t, of which those above zero are written under their names */
    FIELD_BUCKETS, /* RESULT_BUCKETS uint32_t, of which those above zero are written under their numbers */
};

/* Which results have a value for a row at all. */
enum field_owner {
    EVERYBODY = 0,
    COUNTED, /* a figure of result_quantiles: there are answers enough for it */
    RECEIVED,
    LOADS,
    EXPIRIES,
    LOADS_BY_KEY,
    PEAK,
    REDIS,
    WRITES,
    RECOVERY,
    RATES,
    BURSTS,
    STRAIN,
    PARTIAL,
};

enum field_weight { FIELD_PART = 0 /* of the row above */, FIELD_WHOLE, FIELD_HEADLINE };

/* How a row shows a number. */
enum field_show {
    SHOW_COUNT = 0,
    SHOW_SECONDS, /* of milliseconds */
    SHOW_RECOVERY,
    SHOW_MS, /* of microseconds */
    SHOW_PER_SECOND,
    SHOW_LOADS,   /* a count, "at least" where there may have been more */
    SHOW_MB,      /* of bytes */
    SHOW_EACH,    /* see text_each() */
    SHOW_PERCENT, /* of a share */
    SHOW_YES,
    SHOW_COMMAND, /* the calls of the Redis command that the row is named after */
};

/* The first places of the sections of a sheet. */
enum { PLACE_LOADS = 10, PLACE_REQUESTS = 20, PLACE_LATENCY = 30, PLACE_STRAIN = 40, PLACES_EACH = 10 };

struct field_row {
    unsigned place; /* 0: no row */
    const char *label;
    enum field_weight weight;
    enum field_owner owner;
    enum field_show show;
};

struct field {
    const char *name; /* NULL ends a table; "": what the table is of is this one value */
    enum field_kind kind;
    size_t offset;
    size_t bytes;                         /* LIST and SERIES: of one item */
    const struct field *fields;           /* OBJECT, LIST, SERIES */
    size_t most, count_offset;            /* LIST, SERIES; COUNTS: how many there are */
    const char *(*name_of)(size_t index); /* COUNTS; lent until the next call */
    struct field_row row;
    uint32_t per_10000; /* fields_of_quantiles: which percentile; 10 000: the maximum; 0: none */
    bool is_compared;   /* ... between two reports */
    bool is_brief;      /* ... and shown of parts of a latency, too */
};

extern const struct field fields_of_report[], fields_of_result[], fields_of_strain[], fields_of_quantiles[];

/* "1", "2", ... "10 to 99", ...: so many loads of an expiry. */
const char *field_expiry_class(size_t index);

/* Are there answers enough for it? */
bool field_is_supported(const struct result_quantiles *quantiles, const struct field *figure);

/* ---- result_sheet.c ---- */

/* Was it measured? A sheet has a dash where it was not, JSON null. */
bool field_is_owned(const struct result *result, enum field_owner owner);

/* ---- result_json.c ---- */

struct json_t;

/* What report_write() writes; yours. NULL: no memory. */
struct json_t *report_to_json(const struct report *report);

/* Takes the value; *list is NULL from the first one on that could not be added. */
void json_append(struct json_t **list, struct json_t *value);
