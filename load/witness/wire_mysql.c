/* SPDX-License-Identifier: MIT */
/* wire_mysql.c - the protocol of MySQL and MariaDB; see wire.h. */
#include "load/witness/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    CAN_COMPRESS = 1 << 5 | 1 << 26,
    CAN_TLS = 1 << 11,
    CAN_END_WITHOUT_EOF = 1 << 24,
    CAN_ATTRIBUTES = 1 << 27
};
enum { MORE_RESULTS = 8 };
enum { COM_QUERY = 3, COM_PREPARE = 22, COM_EXECUTE = 23, COM_LONG_DATA = 24, COM_CLOSE = 25, COM_QUIT = 1 };
enum { HEAD_BYTES = 4, SHOWN_MAX = 256, PACKET_MAX = 0xffffff, EOF_MAX_BYTES = 9 };
#define LAST_PREPARED UINT32_MAX /* MariaDB's id for it */

static const char has_attributes[] = "its queries have attributes: switch them off in its driver";
static const char is_ahead[] = "commands are sent before they are answered, or a cursor is read";

static uint32_t number_at(const unsigned char *bytes, size_t size)
{
    uint32_t number = 0;
    for (size_t i = 0; i < size; i++)
        number |= (uint32_t)bytes[i] << (8 * i);
    return number;
}

static size_t measure(struct wire *wire, const unsigned char *bytes, size_t count, bool *is_wanted)
{
    (void)wire;
    *is_wanted = true;
    return count < HEAD_BYTES ? 0 : HEAD_BYTES + (size_t)number_at(bytes, 3);
}

/* 1 to 9 bytes; at + *used. */
static uint64_t length_at(const unsigned char *body, size_t count, size_t *used)
{
    static const size_t sizes[] = {2, 3, 8};
    size_t size = body[0] >= 0xfc && body[0] <= 0xfe ? sizes[body[0] - 0xfc] : 0;
    uint64_t number = size == 0 ? body[0] : 0;
    *used = 1 + size;
    for (size_t i = 0; i < size && i + 1 < count; i++)
        number |= (uint64_t)body[1 + i] << (8 * i);
    return number;
}

/* ---- the client ---- */

static void log_in(struct wire *wire, const unsigned char *body, size_t count)
{
    if (count < 4)
        return;
    wire->abilities = number_at(body, 4) & wire->offered;
    if ((wire->abilities & CAN_TLS) != 0 && count <= 32)
        wire->opaque = "it is encrypted: switch TLS off where the service connects to the proxy";
    else if ((wire->abilities & CAN_COMPRESS) != 0)
        wire->opaque = "it is compressed: switch compression off where the service connects to the proxy";
}

static struct wire_named *statement_of(struct wire *wire, uint32_t number)
{
    char name[16];
    snprintf(name, sizeof name, "%" PRIu32, number == LAST_PREPARED ? wire->last_prepared : number);
    return wire_find(wire, name, false, false);
}

/* Where the types end, each with a name where attributes may be among them. */
static size_t behind_types(const struct wire *wire, const unsigned char *body, size_t count, size_t at,
                           uint32_t values)
{
    size_t used;
    for (uint32_t i = 0; i < values && at < count; i++) {
        at += 2;
        if ((wire->abilities & CAN_ATTRIBUTES) != 0 && at < count)
            at += length_at(body + at, count - at, &used) + used;
    }
    return at;
}

/* NULLs, types where they are sent, and values: for a key, NULLs and values are shown as they are. */
static void show_values(struct wire *wire, const unsigned char *body, size_t count, uint32_t values,
                        struct text *out)
{
    size_t at = 10, used = 0;
    if ((wire->abilities & CAN_ATTRIBUTES) != 0 && at < count) {
        if (length_at(body + at, count - at, &used) != values)
            wire->opaque = has_attributes;
        at += used;
    }
    size_t nulls_end = at + (values + 7) / 8, shown = 0;
    size_t from = nulls_end + 1;
    if (nulls_end < count && body[nulls_end] == 1)
        from = behind_types(wire, body, count, from, values);
    text_add_line(out, "$1 = '");
    for (; at < count && shown < SHOWN_MAX; at = at + 1 == nulls_end ? from : at + 1, shown++) {
        char piece[4];
        snprintf(piece, sizeof piece, "%02x", (unsigned)body[at]);
        text_add_line(out, piece);
    }
    text_add_line(out, "'");
}

static void execute(struct wire *wire, const unsigned char *body, size_t count, uint64_t now_us)
{
    struct text values = {.bytes = NULL};
    const struct wire_named *named = count >= 10 ? statement_of(wire, number_at(body + 1, 4)) : NULL;
    if (named != NULL && named->values > 0)
        show_values(wire, body, count, named->values, &values);
    wire_begin(wire, named != NULL ? named->text : "", named != NULL ? strlen(named->text) : 0,
               values.bytes != NULL ? values.bytes : "", named != NULL ? WIRE_COUNTS : WIRE_UNSEEN, now_us);
    text_clear(&values);
}

/* Behind the counts of its attributes, where it may have some. */
static void query(struct wire *wire, const unsigned char *body, size_t count, uint64_t now_us)
{
    size_t text = (wire->abilities & CAN_ATTRIBUTES) != 0 ? 3 : 1;
    if (text == 3 && (count < 3 || body[1] != 0))
        wire->opaque = has_attributes;
    else
        wire_begin(wire, (const char *)body + text, count - text, "", WIRE_COUNTS, now_us);
}

static void take_client(struct wire *wire, const unsigned char *bytes, size_t count, uint64_t now_us)
{
    const unsigned char *body = bytes + HEAD_BYTES;
    size_t size = count - HEAD_BYTES;
    if (!wire->is_started) {
        if (wire->abilities == 0)
            log_in(wire, body, size);
        else if (bytes[3] == 0)
            wire->opaque = is_ahead;
        return;
    }
    if (bytes[3] != 0 || size == 0) /* more of a command, or a file that the server asked for */
        return;
    char command = (char)body[0];
    if (command == COM_CLOSE && size >= 5)
        wire_forget(statement_of(wire, number_at(body + 1, 4)));
    if (command == COM_LONG_DATA || command == COM_CLOSE || command == COM_QUIT)
        return;
    if (wire->response.state != MYSQL_NONE)
        wire->opaque = is_ahead;
    wire->response = (struct wire_mysql_response){.state = MYSQL_FIRST, .command = command};
    if (command == COM_QUERY)
        query(wire, body, size, now_us);
    else if (command == COM_EXECUTE)
        execute(wire, body, size, now_us);
    else if (command == COM_PREPARE) /* it gets its number with the answer */
        wire_name_text(wire_find(wire, "", false, true), (const char *)body + 1, size - 1);
}

void wire_mysql_client(struct wire *wire, const char *bytes, size_t count, uint64_t now_us)
{
    wire_cut(wire, &wire->client, bytes, count, measure, take_client, now_us);
}

/* ---- the server ---- */

/* What the server can stands behind its version, a number and a scramble, in two halves. */
static void greet(struct wire *wire, const unsigned char *body, size_t count)
{
    size_t at = strnlen((const char *)body, count) + 1 + 4 + 8 + 1;
    wire->offered =
        at + 7 <= count ? number_at(body + at, 2) | number_at(body + at + 5, 2) << 16 : UINT32_MAX;
}

/* The flags of OK, or of EOF. */
static uint32_t status_of(const unsigned char *body, size_t count, bool is_eof)
{
    size_t at = 3, used;
    if (!is_eof) {
        at = 1;
        for (int i = 0; i < 2 && at < count; i++) {
            length_at(body + at, count - at, &used);
            at += used;
        }
    }
    return at + 2 <= count ? number_at(body + at, 2) : 0;
}

static void end_result(struct wire *wire, uint32_t status, uint64_t now_us)
{
    bool is_statement = wire->response.command == COM_QUERY || wire->response.command == COM_EXECUTE;
    bool has_more = is_statement && (status & MORE_RESULTS) != 0;
    wire->response.state = has_more ? MYSQL_FIRST : MYSQL_NONE;
    if (is_statement && !has_more)
        wire_end(wire, true, now_us);
}

static void prepared(struct wire *wire, const unsigned char *body, size_t count)
{
    const struct wire_named *asked = wire_find(wire, "", false, false);
    char name[16];
    if (body[0] != 0 || count < 9 || asked == NULL) {
        wire->response.state = MYSQL_NONE;
        return;
    }
    uint32_t columns = number_at(body + 5, 2), values = number_at(body + 7, 2);
    bool has_eof = (wire->abilities & CAN_END_WITHOUT_EOF) == 0;
    wire->last_prepared = number_at(body + 1, 4);
    snprintf(name, sizeof name, "%" PRIu32, wire->last_prepared);
    struct text text = {.bytes = NULL}; /* finding a place for the one may be at the cost of the other */
    text_add_line(&text, asked->text);
    struct wire_named *made = wire_find(wire, name, false, true);
    wire_name_text(made, text.bytes, text.count);
    made->values = values;
    text_clear(&text);
    wire->response.left = columns + values + (has_eof && columns > 0) + (has_eof && values > 0);
    wire->response.state = wire->response.left > 0 ? MYSQL_PREPARED : MYSQL_NONE;
}

/* Of a result: OK, an error, a wanted file, or how many columns it has; 0 behind that: the client knows them. */
static void first_packet(struct wire *wire, const unsigned char *body, size_t count, uint64_t now_us)
{
    bool has_eof = (wire->abilities & CAN_END_WITHOUT_EOF) == 0;
    bool is_statement = wire->response.command == COM_QUERY || wire->response.command == COM_EXECUTE;
    size_t used;
    if (wire->response.command == COM_PREPARE)
        prepared(wire, body, count);
    else if (body[0] == 0 || body[0] == 0xff || !is_statement)
        end_result(wire, body[0] == 0 ? status_of(body, count, false) : 0, now_us);
    else if (body[0] != 0xfb) {
        uint64_t columns = length_at(body, count, &used);
        wire->response.left = (used < count && body[used] == 0 ? 0 : columns) + has_eof;
        wire->response.state = wire->response.left > 0 ? MYSQL_COLUMNS : MYSQL_ROWS;
    }
}

static void row(struct wire *wire, const unsigned char *bytes, size_t count, uint64_t now_us)
{
    const unsigned char *body = bytes + HEAD_BYTES;
    bool has_eof = (wire->abilities & CAN_END_WITHOUT_EOF) == 0;
    bool is_end = body[0] == 0xfe && number_at(bytes, 3) < (has_eof ? EOF_MAX_BYTES : PACKET_MAX);
    if (is_end || body[0] == 0xff)
        end_result(wire, is_end ? status_of(body, count - HEAD_BYTES, has_eof) : 0, now_us);
}

static void take_server(struct wire *wire, const unsigned char *bytes, size_t count, uint64_t now_us)
{
    const unsigned char *body = bytes + HEAD_BYTES;
    size_t size = count - HEAD_BYTES;
    bool continues = wire->response.continues;
    wire->response.continues = number_at(bytes, 3) == PACKET_MAX;
    if (size == 0 || continues)
        return;
    if (!wire->is_started) { /* OK ends the login */
        if (wire->abilities == 0)
            greet(wire, body, size);
        wire->is_started = wire->abilities != 0 && bytes[3] >= 2 && body[0] == 0;
        return;
    }
    switch (wire->response.state) {
    case MYSQL_NONE:
        break;
    case MYSQL_FIRST:
        first_packet(wire, body, size, now_us);
        break;
    case MYSQL_COLUMNS:
    case MYSQL_PREPARED:
        if (--wire->response.left == 0)
            wire->response.state = wire->response.state == MYSQL_COLUMNS ? MYSQL_ROWS : MYSQL_NONE;
        break;
    case MYSQL_ROWS:
        row(wire, bytes, count, now_us);
        break;
    }
}

void wire_mysql_server(struct wire *wire, const char *bytes, size_t count, uint64_t now_us)
{
    wire_cut(wire, &wire->server, bytes, count, measure, take_server, now_us);
}
