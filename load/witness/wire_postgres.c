/* SPDX-License-Identifier: MIT */
/* wire_postgres.c - PostgreSQL's protocol 3; see wire.h. */
#include "load/witness/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { STARTUP_MAX_BYTES = 10000 };
enum { CODE_TLS = 80877103, CODE_GSS = 80877104, CODE_CANCEL = 80877102, VALUES_MAX = 256, SHOWN_MAX = 256 };

static uint32_t number_at(const unsigned char *bytes, size_t size)
{
    uint32_t number = 0;
    for (size_t i = 0; i < size; i++)
        number = number << 8 | bytes[i];
    return number;
}

/* ---- the fields of a message ---- */

struct fields {
    const unsigned char *at, *end;
};

/* "" where it does not end: the message was cut, or is none. */
static const char *take_text(struct fields *fields)
{
    const unsigned char *from = fields->at, *nul = memchr(from, '\0', (size_t)(fields->end - from));
    fields->at = nul != NULL ? nul + 1 : fields->end;
    return nul != NULL ? (const char *)from : "";
}

static uint32_t take_number(struct fields *fields, size_t size)
{
    bool is_there = (size_t)(fields->end - fields->at) >= size;
    uint32_t number = is_there ? number_at(fields->at, size) : 0;
    fields->at = is_there ? fields->at + size : fields->end;
    return number;
}

/* ---- values: as DETAIL of the log has them ---- */

static void show_value(struct text *out, const unsigned char *value, size_t bytes, bool is_binary)
{
    char piece[32];
    size_t shown = bytes < SHOWN_MAX ? bytes : SHOWN_MAX;
    uint64_t number = 0;
    for (size_t i = 0; is_binary && bytes <= 8 && i < bytes; i++)
        number = number << 8 | value[i];
    int64_t sign = bytes == 2 ? (int16_t)number : bytes == 4 ? (int32_t)number : (int64_t)number;
    text_add(out, "'", 1);
    if (is_binary && (bytes == 2 || bytes == 4 || bytes == 8)) {
        snprintf(piece, sizeof piece, "%" PRId64, sign);
        text_add_line(out, piece);
    }
    for (size_t i = 0; i < shown && !(is_binary && (bytes == 2 || bytes == 4 || bytes == 8)); i++) {
        snprintf(piece, sizeof piece,
                 is_binary          ? "%02x"
                 : value[i] == '\'' ? "''"
                                    : "%c",
                 (unsigned)value[i]);
        text_add_line(out, piece);
    }
    text_add(out, "'", 1);
}

/* Behind the names of Bind: formats, then values. */
static void show_values(struct fields *fields, struct text *out)
{
    struct fields formats = *fields;
    uint32_t format_count = take_number(fields, 2);
    for (uint32_t i = 0; i < format_count && fields->at < fields->end; i++)
        take_number(fields, 2);
    uint32_t value_count = take_number(fields, 2), format = 0;
    take_number(&formats, 2);
    for (uint32_t i = 0; i < value_count && i < VALUES_MAX && fields->at < fields->end; i++) {
        char name[24];
        uint32_t bytes = take_number(fields, 4);
        size_t left = (size_t)(fields->end - fields->at);
        format = i < format_count ? take_number(&formats, 2) : format_count == 1 ? format : 0;
        snprintf(name, sizeof name, "%s$%" PRIu32 " = ", i > 0 ? ", " : "", i + 1);
        text_add_line(out, name);
        if (bytes == UINT32_MAX) {
            text_add_line(out, "NULL");
            continue;
        }
        bytes = bytes < left ? bytes : (uint32_t)left;
        show_value(out, fields->at, bytes, format == 1);
        fields->at += bytes;
    }
}

/* ---- the client ---- */

static size_t measure_client(struct wire *wire, const unsigned char *bytes, size_t count, bool *is_wanted)
{
    size_t head = wire->is_started ? 1 : 0;
    if (count < head + 4)
        return 0;
    uint32_t size = number_at(bytes + head, 4);
    *is_wanted = !wire->is_started || memchr("QPBESFC", bytes[0], 7) != NULL;
    if (size < 4 || (!wire->is_started && (size < 8 || size > STARTUP_MAX_BYTES)))
        wire->opaque = "it is encrypted, or not PostgreSQL's protocol: set sslmode=disable where the service "
                       "connects to the proxy";
    return head + (size < 4 ? 4 : size);
}

static void start(struct wire *wire, const unsigned char *bytes)
{
    uint32_t code = number_at(bytes + 4, 4);
    wire->asked_tls = code == CODE_TLS || code == CODE_GSS;
    wire->is_started = !wire->asked_tls;
    if (code == CODE_CANCEL)
        wire->opaque = "";
    else if (!wire->asked_tls && code >> 16 != 3)
        wire->opaque = "it does not speak PostgreSQL's protocol 3";
}

static void bind(struct wire *wire, struct fields *fields)
{
    struct text values = {.bytes = NULL};
    struct wire_named *portal = wire_find(wire, take_text(fields), true, true);
    const struct wire_named *prepared = wire_find(wire, take_text(fields), false, false);
    show_values(fields, &values);
    portal->is_unseen = prepared == NULL;
    if (prepared != NULL)
        wire_name_text(portal, prepared->text, strlen(prepared->text));
    if (values.bytes != NULL) {
        char *before = portal->parameters;
        portal->parameters = values.bytes;
        values.bytes = before;
    }
    text_clear(&values);
}

static void execute(struct wire *wire, struct fields *fields, uint64_t now_us)
{
    struct wire_named *portal = wire_find(wire, take_text(fields), true, false);
    if (portal == NULL || portal->is_unseen) {
        wire_begin(wire, "", 0, "", WIRE_UNSEEN, now_us);
        return;
    }
    wire_begin(wire, portal->text, strlen(portal->text), portal->parameters,
               portal->has_run ? WIRE_FETCH : WIRE_COUNTS, now_us);
    portal->has_run = true;
}

/* Parse, Bind or Close: the server confirms each, or skips what follows. */
static void take_step(struct wire *wire, char step, struct fields *fields, uint64_t now_us)
{
    wire_begin(wire, "", 0, "", WIRE_STEP, now_us);
    if (step == 'P') {
        struct wire_named *prepared = wire_find(wire, take_text(fields), false, true);
        size_t left = (size_t)(fields->end - fields->at);
        wire_name_text(prepared, (const char *)fields->at, strnlen((const char *)fields->at, left));
    } else if (step == 'B') {
        bind(wire, fields);
    } else {
        bool is_portal = take_number(fields, 1) == 'P';
        wire_forget(wire_find(wire, take_text(fields), is_portal, false));
    }
}

static void take_client(struct wire *wire, const unsigned char *bytes, size_t count, uint64_t now_us)
{
    struct fields fields = {bytes + 5, bytes + count};
    if (!wire->is_started) {
        start(wire, bytes);
    } else if (bytes[0] == 'Q') {
        size_t size = count > 5 ? count - 5 : 0;
        wire_begin(wire, (const char *)bytes + 5, strnlen((const char *)bytes + 5, size), "", WIRE_SIMPLE,
                   now_us);
    } else if (memchr("PBC", bytes[0], 3) != NULL) {
        take_step(wire, (char)bytes[0], &fields, now_us);
    } else if (bytes[0] == 'E') {
        execute(wire, &fields, now_us);
    } else { /* Sync, FunctionCall: ReadyForQuery answers it */
        wire_begin(wire, "", 0, "", WIRE_SYNC, now_us);
    }
}

void wire_postgres_client(struct wire *wire, const char *bytes, size_t count, uint64_t now_us)
{
    wire_cut(wire, &wire->client, bytes, count, measure_client, take_client, now_us);
}

/* ---- the server ---- */

static size_t measure_server(struct wire *wire, const unsigned char *bytes, size_t count, bool *is_wanted)
{
    if (wire->asked_tls) /* one byte says yes or no */
        return 1;
    if (count < 5)
        return 0;
    *is_wanted = memchr("CIsEZ123", bytes[0], 8) != NULL;
    uint32_t size = number_at(bytes + 1, 4);
    if (size < 4)
        wire->opaque = "its server does not speak PostgreSQL's protocol";
    return 1 + (size_t)(size < 4 ? 4 : size);
}

static enum { NONE_OPEN, SIMPLE_OPEN, OTHER_OPEN } kind_of_oldest(const struct wire *wire)
{
    if (wire->count == 0)
        return NONE_OPEN;
    enum wire_kind kind = wire->open[wire->first].kind;
    return kind == WIRE_SIMPLE || kind == WIRE_SYNC ? SIMPLE_OPEN : OTHER_OPEN;
}

/* After an error the server skips what comes before the next Sync. */
static void take_server(struct wire *wire, const unsigned char *bytes, size_t count, uint64_t now_us)
{
    (void)count;
    if (wire->asked_tls) {
        wire->asked_tls = false;
        wire->opaque = bytes[0] == 'S' || bytes[0] == 'G'
                           ? "it is encrypted: set sslmode=disable where the service connects to the proxy"
                           : NULL;
        return;
    }
    if (bytes[0] != 'Z') {
        if (kind_of_oldest(wire) == OTHER_OPEN) {
            wire_end(wire, !wire->skips, now_us);
            wire->skips = wire->skips || bytes[0] == 'E';
        }
        return;
    }
    while (kind_of_oldest(wire) == OTHER_OPEN)
        wire_end(wire, !wire->skips, now_us);
    wire_end(wire, true, now_us);
    wire->skips = false;
}

void wire_postgres_server(struct wire *wire, const char *bytes, size_t count, uint64_t now_us)
{
    wire_cut(wire, &wire->server, bytes, count, measure_server, take_server, now_us);
}
