/* SPDX-License-Identifier: MIT */
/*
 * write.c - see write.h. Headers by hand, bodies by one table of fields for each kind.
 */
#include "app/write/write.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { FIELD_NAME_BYTES_MAX = 40, DETAIL_BYTES = 96 };

const char *write_outcome_name(enum write_outcome outcome)
{
    static const char *const names[WRITE_OUTCOME_COUNT] = {
        [WRITE_DONE] = "done",
        [WRITE_REPEATED] = "repeated",
        [WRITE_ABSENT] = "absent",
        [WRITE_CONFLICT] = "conflict",
        [WRITE_SOLD_OUT] = "sold_out",
        [WRITE_KEY_REUSED] = "key_reused",
        [WRITE_BAD_BODY] = "bad_body",
        [WRITE_SHED] = "shed",
        [WRITE_FAILED] = "failed",
        [WRITE_TIMEOUT] = "timeout",
        [WRITE_REFUSED] = "refused",
        [WRITE_UNKNOWN] = "unknown",
        [WRITE_BAD_FIELDS] = "bad_fields",
        [WRITE_CLOSING] = "closing",
    };

    assert(outcome < WRITE_OUTCOME_COUNT);
    return names[outcome];
}

/* ---- headers ---- */

/* Takes one entity tag from the front of *at. */
static bool take_tag(const char **at, struct write_versions *versions)
{
    const bool weak = strncmp(*at, "W/", 2) == 0;
    const char *open = *at + (weak ? 2 : 0);
    const char *close = open[0] == '"' ? strchr(open + 1, '"') : NULL;

    if (close == NULL)
        return false;
    const size_t bytes = (size_t)(close - open - 1);
    const bool may_match = !weak && catalog_json_is_validator(open + 1, bytes);
    if (may_match && versions->count == WRITE_VERSIONS_MAX)
        return false;
    if (may_match)
        snprintf(versions->list[versions->count++], CATALOG_VALIDATOR_SIZE, "%.*s", (int)bytes, open + 1);
    *at = close + 1;
    return true;
}

bool write_if_match(const char *line, struct write_versions *versions)
{
    const char *at = line + strspn(line, " \t");

    if (at[0] == '*' && at[1 + strspn(at + 1, " \t")] == '\0') {
        versions->any = true;
        return true;
    }
    bool some = false;
    for (at += strspn(at, ", \t"); *at != '\0'; at += strspn(at, ", \t")) {
        if (!take_tag(&at, versions))
            return false;
        some = true;
        at += strspn(at, " \t");
        if (*at != '\0' && *at != ',')
            return false;
    }
    return some;
}

void write_versions_text(const struct write_versions *versions, char out[WRITE_VERSIONS_BYTES])
{
    struct pg_array array;

    pg_array_init(&array, out, WRITE_VERSIONS_BYTES);
    for (size_t i = 0; i < versions->count; i++)
        pg_array_add(&array, versions->list[i]);
}

bool write_key_parse(const char *value, char out[WRITE_KEY_SIZE])
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
    const bool quoted = value[0] == '"';
    const char *text = value + (quoted ? 1 : 0);
    const size_t bytes = strspn(text, allowed);

    if (bytes == 0 || bytes >= WRITE_KEY_SIZE || strcmp(text + bytes, quoted ? "\"" : "") != 0)
        return false;
    memcpy(out, text, bytes);
    out[bytes] = '\0';
    return true;
}

bool write_type_is_json(const char *value)
{
    static const char type[] = "application/json";
    static const char *const parameters[] = {"charset=utf-8", "charset=\"utf-8\""};

    if (strncasecmp(value, type, sizeof(type) - 1) != 0)
        return false;
    value += sizeof(type) - 1;
    value += strspn(value, " \t");
    if (*value == '\0')
        return true;
    if (*value != ';')
        return false;
    value += 1 + strspn(value + 1, " \t");
    for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
        if (strcasecmp(value, parameters[i]) == 0)
            return true;
    }
    return false;
}

/* ---- the body ---- */

struct field {
    const char *name;
    bool is_text, optional;
    int64_t min, max; /* of the number, or of the text's characters */
    size_t offset;
};

#define FIELD(member) offsetof(struct write_fields, member)
static const struct field PRODUCT_FIELDS[] = {
    {"name", true, false, 1, 200, FIELD(name)},
    {"description", true, false, 0, 20000, FIELD(description)},
    {"price_cents", false, false, 0, INT64_C(100000000000), FIELD(price_cents)},
    {"stock", false, false, 0, INT32_MAX, FIELD(stock)},
    {"category_id", false, true, 1, INT64_C(999999999999999999), FIELD(category_id)},
};
static const struct field PURCHASE_FIELDS[] = {
    {"quantity", false, false, 1, INT32_MAX, FIELD(quantity)},
};

static const struct {
    const struct field *fields;
    size_t count;
} KINDS[] = {
    [WRITE_PRODUCT] = {PRODUCT_FIELDS, sizeof(PRODUCT_FIELDS) / sizeof(PRODUCT_FIELDS[0])},
    [WRITE_PURCHASE] = {PURCHASE_FIELDS, sizeof(PURCHASE_FIELDS) / sizeof(PURCHASE_FIELDS[0])},
};

void write_error_add(char errors[WRITE_ERRORS_BYTES], const char *field, const char *detail)
{
    const size_t used = strlen(errors);
    char text[FIELD_NAME_BYTES_MAX + DETAIL_BYTES + 32];
    const int bytes = snprintf(text, sizeof(text), "%s{\"field\":\"%s\",\"detail\":\"%s\"}",
                               used > 0 ? "," : "", field, detail);

    assert(bytes > 0 && (size_t)bytes < sizeof(text));
    if (used + (size_t)bytes < WRITE_ERRORS_BYTES)
        memcpy(errors + used, text, (size_t)bytes + 1);
}

/* A name as it came, if it can stand in a document as it is. */
static const char *shown(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    const size_t bytes = strspn(name, allowed);

    return bytes > 0 && bytes <= FIELD_NAME_BYTES_MAX && name[bytes] == '\0' ? name : "(not shown)";
}

static int64_t characters_of(const char *text)
{
    int64_t count = 0;

    for (; *text != '\0'; text++)
        count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

/* False: of another type or out of its range. */
static bool take_field(const struct field *field, const json_t *value, struct write_fields *out)
{
    char *at = (char *)out + field->offset;

    if (field->is_text ? !json_is_string(value) : !json_is_integer(value))
        return false;
    const int64_t size =
        field->is_text ? characters_of(json_string_value(value)) : (int64_t)json_integer_value(value);
    if (size < field->min || size > field->max)
        return false;
    if (field->is_text)
        *(const char **)(void *)at = json_string_value(value);
    else
        *(int64_t *)(void *)at = size;
    return true;
}

static void complain(const struct field *field, const json_t *value, char errors[WRITE_ERRORS_BYTES])
{
    char detail[DETAIL_BYTES];

    snprintf(detail, sizeof(detail), "%s%s %" PRId64 " to %" PRId64 "%s", value == NULL ? "missing; " : "",
             field->is_text ? "a text of" : "a whole number from", field->min, field->max,
             field->is_text ? " characters" : "");
    write_error_add(errors, field->name, detail);
}

static const struct field *field_named(enum write_kind kind, const char *name)
{
    for (size_t i = 0; i < KINDS[kind].count; i++) {
        if (strcmp(KINDS[kind].fields[i].name, name) == 0)
            return &KINDS[kind].fields[i];
    }
    return NULL;
}

static void take_fields(enum write_kind kind, json_t *root, struct write_fields *out,
                        char errors[WRITE_ERRORS_BYTES])
{
    const char *name;
    json_t *value;

    for (size_t i = 0; i < KINDS[kind].count; i++) {
        const struct field *field = &KINDS[kind].fields[i];

        value = json_object_get(root, field->name);
        if (value == NULL && field->optional)
            continue;
        if (!take_field(field, value, out))
            complain(field, value, errors);
    }
    json_object_foreach(root, name, value)
    {
        if (field_named(kind, name) == NULL)
            write_error_add(errors, shown(name), "unknown, or cannot be edited");
    }
}

enum write_outcome write_fields_parse(enum write_kind kind, const char *body, size_t body_bytes,
                                      struct write_fields *out, char errors[WRITE_ERRORS_BYTES])
{
    struct write_fields fields = {.root = NULL};
    json_error_t error;
    char detail[DETAIL_BYTES];

    errors[0] = '\0';
    fields.root = json_loadb(body, body_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(fields.root)) {
        snprintf(detail, sizeof(detail),
                 fields.root != NULL ? "not an object" : "not JSON in UTF-8, or a repeated name, at byte %d",
                 error.position);
        write_error_add(errors, "", detail);
        json_decref(fields.root);
        return WRITE_BAD_BODY;
    }
    take_fields(kind, fields.root, &fields, errors);
    if (errors[0] != '\0') {
        json_decref(fields.root);
        return WRITE_BAD_FIELDS;
    }
    *out = fields;
    return WRITE_DONE;
}

void write_fields_clear(struct write_fields *fields)
{
    json_decref(fields->root);
    *fields = (struct write_fields){.root = NULL};
}
