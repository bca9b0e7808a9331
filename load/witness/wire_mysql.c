/* SPDX-License-Identifier: MIT */
/* wire_mysql.c - the protocol of MySQL and MariaDB; see wire.h. */
#include "load/witness/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CAN_COMPRESS = 1 << 5, CAN_TLS = 1 << 11, CAN_END_WITHOUT_EOF = 1 << 24, MORE_RESULTS = 8 };
enum { COM_QUERY = 3, COM_PREPARE = 22, COM_EXECUTE = 23, COM_LONG_DATA = 24, COM_CLOSE = 25, COM_QUIT = 1 };
enum { HEAD_BYTES = 4, SHOWN_MAX = 256, PACKET_MAX = 0xffffff, EOF_MAX_BYTES = 9 };

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

/* ---- the client ---- */

static void log_in(struct wire *wire, const unsigned char *body, size_t count)
{
    if (count < 4)
        return;
    wire->abilities = number_at(body, 4);
    if ((wire->abilities & CAN_TLS) != 0 && count <= 32)
        wire->opaque = "it is encrypted: switch TLS off where the service connects to the proxy";
    else if ((wire->abilities & CAN_COMPRESS) != 0)
        wire->opaque = "it is compressed: switch compression off where the service connects to the proxy";
}

static struct wire_named *statement_of(struct wire *wire, uint32_t number)
{
    char name[16];
    snprintf(name, sizeof name, "%" PRIu32, number);
    return wire_find(wire, name, false, false);
}

/* Behind the NULLs, and the types where they are sent: the values as they are, for a key. */
static void execute(struct wire *wire, const unsigned char *body, size_t count, uint64_t now_us)
{
    char values[2 * SHOWN_MAX + 16] = "";
    const struct wire_named *named = count >= 10 ? statement_of(wire, number_at(body + 1, 4)) : NULL;
    size_t nulls = named != NULL ? (named->values + 7) / 8 : 0, at = 10 + nulls;
    if (named != NULL && named->values > 0 && at < count) {
        at += 1 + (body[at] == 1 ? 2 * (size_t)named->values : 0);
        size_t used = (size_t)snprintf(values, sizeof values, "$1 = '");
        for (size_t i = 10; i < count && i < at + SHOWN_MAX; i = i + 1 == 10 + nulls ? at : i + 1)
            used += (size_t)snprintf(values + used, sizeof values - used, "%02x", (unsigned)body[i]);
        snprintf(values + (used < sizeof values - 2 ? used : sizeof values - 2), 2, "'");
    }
    wire_begin(wire, named != NULL ? named->text : "", named != NULL ? strlen(named->text) : 0, values,
               WIRE_COUNTS, now_us);
}

static void take_client(struct wire *wire, const unsigned char *bytes, size_t count, uint64_t now_us)
{
    const unsigned char *body = bytes + HEAD_BYTES;
    size_t size = count - HEAD_BYTES;
    if (!wire->is_started) {
        if (wire->abilities == 0)
            log_in(wire, body, size);
        return;
    }
    if (bytes[3] != 0 || size == 0) /* more of a command, or a file that the server asked for */
        return;
    char command = (char)body[0];
    if (command == COM_LONG_DATA || command == COM_CLOSE || command == COM_QUIT)
        return;
    wire->response = (struct wire_mysql_response){.state = MYSQL_FIRST, .command = command};
    if (command == COM_QUERY)
        wire_begin(wire, (const char *)body + 1, size - 1, "", WIRE_COUNTS, now_us);
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
    snprintf(name, sizeof name, "%" PRIu32, number_at(body + 1, 4));
    struct text text = {.bytes = NULL}; /* finding a place for the one may be at the cost of the other */
    text_add_line(&text, asked->text);
    struct wire_named *made = wire_find(wire, name, false, true);
    wire_name_text(made, text.bytes, text.count);
    made->values = values;
    text_clear(&text);
    wire->response.left = columns + values + (has_eof && columns > 0) + (has_eof && values > 0);
    wire->response.state = wire->response.left > 0 ? MYSQL_PREPARED : MYSQL_NONE;
}

/* Of a result: OK, an error, a file that is wanted, or how many columns it has. */
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
        wire->response.left = length_at(body, count, &used) + has_eof;
        wire->response.state = MYSQL_COLUMNS;
    }
}

static void row(struct wire *wire, const unsigned char *body, size_t count, uint64_t now_us)
{
    bool has_eof = (wire->abilities & CAN_END_WITHOUT_EOF) == 0;
    bool is_end = body[0] == 0xfe && count < (has_eof ? EOF_MAX_BYTES : PACKET_MAX);
    if (is_end || body[0] == 0xff)
        end_result(wire, is_end ? status_of(body, count, has_eof) : 0, now_us);
}

static void take_server(struct wire *wire, const unsigned char *bytes, size_t count, uint64_t now_us)
{
    const unsigned char *body = bytes + HEAD_BYTES;
    size_t size = count - HEAD_BYTES;
    if (size == 0)
        return;
    if (!wire->is_started) { /* OK ends the login */
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
        row(wire, body, size, now_us);
        break;
    }
}

void wire_mysql_server(struct wire *wire, const char *bytes, size_t count, uint64_t now_us)
{
    wire_cut(wire, &wire->server, bytes, count, measure, take_server, now_us);
}
