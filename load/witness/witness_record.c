/* SPDX-License-Identifier: MIT */
/* witness_record.c - csvlog, jsonlog and access logs; see witness_log.h. */
#include "load/witness/witness_log.h"

#include "load/base/access_line.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Where a CSV record has what; later releases only append. */
enum { CSV_TIME = 0, CSV_PROCESS = 3, CSV_SEVERITY = 11, CSV_MESSAGE = 13, CSV_DETAIL, CSV_STATEMENT = 19 };

/* ---- access logs ---- */

enum { ACCESS_LINE_BYTES = 4096, ACCESS_PROCESS = 1 };

/* False also of a line that is longer than any request that counts. */
static bool read_access_line(const char *line, size_t bytes, struct access_line *out)
{
    char text[ACCESS_LINE_BYTES];
    if (bytes >= sizeof text || (line[0] != '{' && memmem(line, bytes, "] \"", 3) == NULL))
        return false;
    memcpy(text, line, bytes);
    text[bytes] = '\0';
    return access_line_read(text, out) && !out->is_too_long;
}

static bool read_access(const char *text, size_t bytes, struct witness_record *record)
{
    static const char head[] = "execute request: ", key_head[] = "parameters: $1 = '";
    struct access_line line;
    if (!read_access_line(text, bytes, &line))
        return false;
    record->line = (struct witness_line){.kind = WITNESS_LINE_LOG,
                                         .process = ACCESS_PROCESS, /* each line is whole */
                                         .stamp_us = line.at_us,
                                         .is_utc = true};
    record->is_coarse = !line.has_fraction;
    text_add(&record->message, head, sizeof head - 1);
    text_add(&record->message, line.method, strlen(line.method));
    text_add(&record->message, " ", 1);
    text_add(&record->message, line.path, strlen(line.path));
    text_add(&record->detail, key_head, sizeof key_head - 1);
    text_add(&record->detail, line.path, strlen(line.path));
    text_add(&record->detail, "'", 1);
    return true;
}

enum witness_format witness_format_of(const char *line, size_t bytes)
{
    static const char json[] = "{\"timestamp\":\"", severity[] = "\"error_severity\":";
    struct witness_line ignored = {.text = line};
    struct access_line request;
    size_t used = 0;
    if (bytes >= sizeof json && memcmp(line, json, sizeof json - 1) == 0 &&
        memmem(line, bytes, severity, sizeof severity - 1) != NULL)
        return WITNESS_JSON;
    bool is_csv = bytes > 0 && witness_line_date(line, bytes, &ignored, &used) && used + 1 < bytes &&
                  line[used] == ',' && (line[used + 1] == ',' || line[used + 1] == '"');
    if (is_csv)
        return WITNESS_CSV;
    return bytes > 0 && read_access_line(line, bytes, &request) ? WITNESS_ACCESS : WITNESS_STDERR;
}

static bool take_severity(struct witness_record *record, const char *word, size_t bytes)
{
    enum witness_line_kind kind = witness_line_severity(word, bytes);
    record->line.kind = kind != WITNESS_LINE_RUBBISH ? kind : WITNESS_LINE_WORDLESS;
    return true;
}

static bool take_time(struct witness_record *record, const char *text, size_t bytes)
{
    size_t used;
    return witness_line_date(text, bytes, &record->line, &used);
}

/* ---- CSV ---- */

/* One field, without its quotes; behind it and its comma. */
static const char *read_field(const char *at, const char *end, struct text *out)
{
    bool is_quoted = false;
    text_add(out, "", 0);
    text_empty(out);
    for (; at < end && (is_quoted || *at != ','); at++) {
        bool is_escaped = is_quoted && *at == '"' && at + 1 < end && at[1] == '"';
        at += is_escaped;
        if (*at == '"' && !is_escaped)
            is_quoted = !is_quoted;
        else
            text_add(out, at, 1);
    }
    return at < end ? at + 1 : NULL;
}

static bool take_field(struct witness_record *record, size_t number, const struct text *field)
{
    switch (number) {
    case CSV_TIME:
        return take_time(record, field->bytes, field->count);
    case CSV_PROCESS:
        record->line.process = strtoull(field->bytes, NULL, 10);
        return true;
    case CSV_SEVERITY:
        return take_severity(record, field->bytes, field->count);
    case CSV_DETAIL:
        text_add(&record->detail, field->bytes, field->count);
        return true;
    case CSV_STATEMENT:
        text_add(&record->statement, field->bytes, field->count);
        return true;
    default:
        return true;
    }
}

static bool read_csv(const char *text, size_t bytes, struct witness_record *record)
{
    struct text field = {.bytes = NULL};
    const char *at = text, *end = text + bytes;
    size_t number = 0;
    bool good = true;
    for (; good && at != NULL && number <= CSV_STATEMENT; number++) {
        at = read_field(at, end, number == CSV_MESSAGE ? &record->message : &field);
        good = number == CSV_MESSAGE || take_field(record, number, &field);
    }
    text_clear(&field);
    return good && number > CSV_DETAIL;
}

/* ---- JSON ---- */

static const char *member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

static bool read_json(const char *text, size_t bytes, struct witness_record *record)
{
    json_t *object = json_loadb(text, bytes, 0, NULL);
    const char *time = member(object, "timestamp"), *severity = member(object, "error_severity");
    const char *message = member(object, "message"), *detail = member(object, "detail");
    const char *statement = member(object, "statement");
    record->line.process = (uint64_t)json_integer_value(json_object_get(object, "pid"));
    record->is_of_proxy = strcmp(member(object, "backend_type"), WITNESS_PROXY) == 0;
    text_add(&record->message, message, strlen(message));
    text_add(&record->detail, detail, strlen(detail));
    text_add(&record->statement, statement, strlen(statement));
    bool good = take_time(record, time, strlen(time)) && take_severity(record, severity, strlen(severity));
    json_decref(object);
    return good;
}

bool witness_record_read(enum witness_format format, const char *text, size_t bytes,
                         struct witness_record *out)
{
    out->line = (struct witness_line){.kind = WITNESS_LINE_WORDLESS};
    out->is_of_proxy = out->is_coarse = false;
    text_empty(&out->message);
    text_empty(&out->detail);
    text_empty(&out->statement);
    bool good = format == WITNESS_CSV    ? read_csv(text, bytes, out)
                : format == WITNESS_JSON ? read_json(text, bytes, out)
                                         : read_access(text, bytes, out);
    out->line.text = out->message.bytes;
    out->line.text_bytes = out->message.count;
    return good && out->line.process != 0;
}

void witness_record_clear(struct witness_record *record)
{
    text_clear(&record->message);
    text_clear(&record->detail);
    text_clear(&record->statement);
}
