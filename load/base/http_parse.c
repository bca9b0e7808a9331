/* SPDX-License-Identifier: MIT */
/* http_parse.c - see http_parse.h. */
#include "load/base/http_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HEAD_MAX_BYTES = 65536, HEAD_FIRST_BYTES = 512 };

void http_parse_init(struct http_parse *parse, http_parse_body *body, void *context)
{
    *parse = (struct http_parse){.body = body, .context = context};
}

void http_parse_clear(struct http_parse *parse)
{
    free(parse->head);
    *parse = (struct http_parse){.state = HTTP_PARSE_BAD};
}

static void start_head(struct http_parse *parse)
{
    parse->state = HTTP_PARSE_HEAD;
    parse->status = 0;
    parse->head_bytes = 0;
    parse->line_bytes = 0;
    parse->inside_chunk = false;
}

void http_parse_next(struct http_parse *parse, bool answers_head)
{
    start_head(parse);
    parse->answers_head = answers_head;
    parse->keeps_alive = false;
    parse->body_bytes = 0;
}

const char *http_parse_header(const char *head, const char *name, size_t *count)
{
    size_t name_bytes = strlen(name);
    for (const char *line = strchr(head, '\n'); line != NULL; line = strchr(line, '\n')) {
        line++;
        if (strncasecmp(line, name, name_bytes) != 0 || line[name_bytes] != ':')
            continue;
        const char *value = line + name_bytes + 1;
        value += strspn(value, " \t");
        *count = strcspn(value, "\r\n");
        while (*count > 0 && (value[*count - 1] == ' ' || value[*count - 1] == '\t'))
            --*count;
        return value;
    }
    return NULL;
}

const char *http_parse_value(const char *head, const char *name, char *value, size_t value_bytes)
{
    size_t count = 0;
    const char *found = head != NULL ? http_parse_header(head, name, &count) : NULL;
    snprintf(value, value_bytes, "%.*s", (int)count, found != NULL ? found : "");
    return value;
}

/* Is the word one of the header's, which commas separate? */
static bool header_has(const struct http_parse *parse, const char *name, const char *wanted)
{
    size_t count, wanted_bytes = strlen(wanted);
    const char *value = http_parse_header(parse->head, name, &count);
    const char *end = value != NULL ? value + count : NULL;
    while (value != end) {
        value += strspn(value, " \t");
        size_t bytes = strcspn(value, " \t,;\r\n");
        if (bytes == wanted_bytes && strncasecmp(value, wanted, bytes) == 0)
            return true;
        const char *comma = memchr(value, ',', (size_t)(end - value));
        value = comma != NULL ? comma + 1 : end;
    }
    return false;
}

/* False: there is one, and it is no decimal number. */
static bool content_length(const struct http_parse *parse, bool *has, uint64_t *length)
{
    size_t count;
    const char *value = http_parse_header(parse->head, "Content-Length", &count);
    *has = value != NULL;
    *length = 0;
    if (value == NULL)
        return true;
    if (count == 0 || count > 18 || strspn(value, "0123456789") != count)
        return false;
    *length = strtoull(value, NULL, 10);
    return true;
}

static bool read_status_line(struct http_parse *parse)
{
    const char *line = parse->head;
    if (strncmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') || line[8] != ' ')
        return false;
    if (strspn(line + 9, "0123456789") != 3 || (line[12] != ' ' && line[12] != '\r' && line[12] != '\n'))
        return false;
    parse->status = (uint16_t)strtoul(line + 9, NULL, 10);
    parse->keeps_alive = line[7] == '1' ? !header_has(parse, "Connection", "close")
                                        : header_has(parse, "Connection", "keep-alive");
    return parse->status >= 100 && parse->status != 101; /* who asked for another protocol? */
}

static enum http_parse_state state_after_head(struct http_parse *parse)
{
    bool has_length;
    if (!read_status_line(parse) || !content_length(parse, &has_length, &parse->left_bytes))
        return HTTP_PARSE_BAD;
    if (parse->answers_head || parse->status == 204 || parse->status == 304)
        return HTTP_PARSE_DONE;
    if (header_has(parse, "Transfer-Encoding", "chunked"))
        return HTTP_PARSE_CHUNK_SIZE;
    if (has_length)
        return parse->left_bytes > 0 ? HTTP_PARSE_FIXED : HTTP_PARSE_DONE;
    parse->keeps_alive = false;
    return HTTP_PARSE_UNTIL_CLOSE;
}

static bool head_reserve(struct http_parse *parse, size_t more)
{
    size_t needed = parse->head_bytes + more + 1;
    if (needed <= parse->head_capacity)
        return true;
    size_t capacity = parse->head_capacity != 0 ? parse->head_capacity : HEAD_FIRST_BYTES;
    while (capacity < needed)
        capacity *= 2;
    char *head = capacity <= HEAD_MAX_BYTES ? realloc(parse->head, capacity) : NULL;
    if (head == NULL)
        return false;
    parse->head = head;
    parse->head_capacity = capacity;
    return true;
}

/* Ends with an empty line: "\n\r\n" or "\n\n". */
static bool head_is_complete(const struct http_parse *parse)
{
    size_t count = parse->head_bytes;
    const char *head = parse->head;
    return (count >= 2 && head[count - 1] == '\n' && head[count - 2] == '\n') ||
           (count >= 3 && head[count - 1] == '\n' && head[count - 2] == '\r' && head[count - 3] == '\n');
}

/* Takes one line of the head or, if it is not complete, what there is of it. */
static size_t feed_head(struct http_parse *parse, const char *bytes, size_t count)
{
    const char *end = memchr(bytes, '\n', count);
    size_t used = end != NULL ? (size_t)(end - bytes) + 1 : count;
    if (memchr(bytes, '\0', used) != NULL || !head_reserve(parse, used)) {
        parse->state = HTTP_PARSE_BAD;
        return used;
    }
    memcpy(parse->head + parse->head_bytes, bytes, used);
    parse->head_bytes += used;
    parse->head[parse->head_bytes] = '\0';
    if (!head_is_complete(parse))
        return used;
    parse->state = state_after_head(parse);
    if (parse->status >= 100 && parse->status < 200 && parse->state != HTTP_PARSE_BAD)
        start_head(parse);
    return used;
}

static size_t feed_body(struct http_parse *parse, const char *bytes, size_t count)
{
    size_t used = count < parse->left_bytes ? count : (size_t)parse->left_bytes;
    if (parse->state == HTTP_PARSE_UNTIL_CLOSE)
        used = count;
    else
        parse->left_bytes -= used;
    parse->body_bytes += used;
    if (parse->body != NULL && used > 0)
        parse->body(parse->context, bytes, used);
    if (parse->state == HTTP_PARSE_UNTIL_CLOSE || parse->left_bytes > 0)
        return used;
    parse->inside_chunk = parse->state == HTTP_PARSE_CHUNK_DATA;
    parse->state = parse->inside_chunk ? HTTP_PARSE_CHUNK_SIZE : HTTP_PARSE_DONE;
    return used;
}

static enum http_parse_state state_after_chunk_line(struct http_parse *parse)
{
    char *end;
    if (parse->inside_chunk) {
        parse->inside_chunk = false;
        return parse->line_bytes == 0 ? HTTP_PARSE_CHUNK_SIZE : HTTP_PARSE_BAD;
    }
    if (strspn(parse->line, "0123456789abcdefABCDEF") == 0)
        return HTTP_PARSE_BAD;
    parse->left_bytes = strtoull(parse->line, &end, 16);
    if ((*end != '\0' && *end != ';' && *end != ' ') || parse->left_bytes > INT64_MAX)
        return HTTP_PARSE_BAD;
    return parse->left_bytes > 0 ? HTTP_PARSE_CHUNK_DATA : HTTP_PARSE_TRAILER;
}

/* Of a longer line only the beginning is kept: no decision needs more. */
static void line_take(struct http_parse *parse, const char *bytes, size_t count)
{
    size_t room = sizeof parse->line - 1 - parse->line_bytes;
    size_t taken = count < room ? count : room;
    memcpy(parse->line + parse->line_bytes, bytes, taken);
    parse->line_bytes += taken;
}

static size_t feed_line(struct http_parse *parse, const char *bytes, size_t count)
{
    const char *end = memchr(bytes, '\n', count);
    line_take(parse, bytes, end != NULL ? (size_t)(end - bytes) : count);
    if (end == NULL)
        return count;
    if (parse->line_bytes > 0 && parse->line[parse->line_bytes - 1] == '\r')
        parse->line_bytes--;
    parse->line[parse->line_bytes] = '\0';
    if (parse->state == HTTP_PARSE_CHUNK_SIZE)
        parse->state = state_after_chunk_line(parse);
    else if (parse->line_bytes == 0)
        parse->state = HTTP_PARSE_DONE;
    parse->line_bytes = 0;
    return (size_t)(end - bytes) + 1;
}

size_t http_parse_feed(struct http_parse *parse, const char *bytes, size_t count)
{
    size_t used = 0;
    while (used < count && parse->state != HTTP_PARSE_DONE && parse->state != HTTP_PARSE_BAD) {
        const char *rest = bytes + used;
        size_t left = count - used;
        if (parse->state == HTTP_PARSE_HEAD)
            used += feed_head(parse, rest, left);
        else if (parse->state == HTTP_PARSE_CHUNK_SIZE || parse->state == HTTP_PARSE_TRAILER)
            used += feed_line(parse, rest, left);
        else
            used += feed_body(parse, rest, left);
    }
    return used;
}

void http_parse_end(struct http_parse *parse)
{
    if (parse->state == HTTP_PARSE_UNTIL_CLOSE)
        parse->state = HTTP_PARSE_DONE;
    else if (parse->state != HTTP_PARSE_DONE)
        parse->state = HTTP_PARSE_BAD;
    parse->keeps_alive = false;
}
