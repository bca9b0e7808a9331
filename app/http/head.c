/* SPDX-License-Identifier: MIT */
/* head.c - see head.h. One look at each byte: every request pays for it. */
#include "app/http/head.h"

#include "app/base/number.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

/* RFC 9110, 5.5 and 5.6.2: where a byte may stand: in names and values, in values, nowhere. Beyond ASCII:
 * in values. */
static const char PLACES[256] =
    "         v                      vnvnnnnnvvnnvnnvnnnnnnnnnnvvvvvv" /* from the space */
    "vnnnnnnnnnnnnnnnnnnnnnnnnnnvvvnn"                                 /* from @ */
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnvnvn ";                                /* from ` */

/* One of the eight bytes may be a control character, a tab included. */
static bool has_control(const char *at)
{
    const uint64_t ones = UINT64_MAX / 255, tops = ones * 0x80;
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    const uint64_t del = word ^ (ones * 0x7f);
    return (((word - ones * ' ') & ~word) | ((del - ones) & ~del)) & tops;
}

static bool is_value(const char *at, size_t bytes)
{
    const char *end = at + bytes;

    while (end - at >= 8 && !has_control(at))
        at += 8;
    while (at < end && PLACES[(unsigned char)*at] != ' ')
        at++;
    return at == end;
}

const char *head_target_end(const char *target)
{
    while ((unsigned char)*target > ' ' && *target != 0x7f)
        target++;
    return *target == '\0' ? target : NULL;
}

bool head_is_token(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (PLACES[(unsigned char)text[i]] != 'n')
            return false;
    }
    return bytes > 0;
}

/* A NUL ends it. Blanks in front are not part of it, and those behind it are no digits. */
static void take_length(struct head *head, const char *value, size_t bytes)
{
    head->lengths++;
    head->length_is_wrong = head->length_is_wrong || bytes == 0 || number_span(value) != bytes;
    head->has_body = head->has_body || strspn(value, "0") != bytes;
}

static void take_name(const char **name, const char *value)
{
    *name = *name == NULL ? value : "";
}

/* By their lengths, which all differ. */
static void take_line(struct head *head, const char *name, size_t name_bytes, const char *value,
                      size_t value_bytes)
{
    static const char host[] = "Host", trace[] = "traceparent", request[] = "X-Request-Id",
                      length[] = "Content-Length", encoding[] = "Transfer-Encoding",
                      condition[] = "If-None-Match";

    switch (name_bytes) {
    case sizeof(host) - 1:
        head->hosts += strncasecmp(name, host, name_bytes) == 0;
        break;
    case sizeof(trace) - 1:
        if (strncasecmp(name, trace, name_bytes) == 0)
            take_name(&head->names.trace, value);
        break;
    case sizeof(request) - 1:
        if (strncasecmp(name, request, name_bytes) == 0)
            take_name(&head->names.request, value);
        break;
    case sizeof(condition) - 1:
        head->names.is_conditional =
            head->names.is_conditional || strncasecmp(name, condition, name_bytes) == 0;
        break;
    case sizeof(length) - 1:
        if (strncasecmp(name, length, name_bytes) == 0)
            take_length(head, value, value_bytes);
        break;
    case sizeof(encoding) - 1:
        head->encodings += strncasecmp(name, encoding, name_bytes) == 0;
        break;
    }
}

void head_field(struct head *head, const char *name, size_t name_bytes, const char *value, size_t value_bytes)
{
    head->is_wrong = head->is_wrong || !head_is_token(name, name_bytes) || !is_value(value, value_bytes);
    if (!head->is_wrong)
        take_line(head, name, name_bytes, value, value_bytes);
}
