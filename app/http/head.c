/* SPDX-License-Identifier: MIT */
/* head.c - see head.h. One look at each byte: every request pays for it. */
#include "app/http/head.h"

#include "app/base/number.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

/* RFC 9110, 5.5 and 5.6.2: where a byte may stand: in names and values, in values, nowhere. Beyond ASCII: in values. */
static const char PLACES[256] = "         v                      "
                                "vnvnnnnnvvnnvnnvnnnnnnnnnnvvvvvv"  /* from the space */
                                "vnnnnnnnnnnnnnnnnnnnnnnnnnnvvvnn"  /* from @ */
                                "nnnnnnnnnnnnnnnnnnnnnnnnnnnvnvn "; /* from ` */

/* Both spans end at a NUL at the latest: head_begin() has checked that there is one. */
static size_t name_span(const char *from)
{
    const char *at = from;

    while (PLACES[(unsigned char)*at] == 'n')
        at++;
    return (size_t)(at - from);
}

/* One of the eight bytes may be a control character, a tab included. */
static bool has_control(const char *at)
{
    const uint64_t ones = UINT64_MAX / 255, tops = ones * 0x80;
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    const uint64_t del = word ^ (ones * 0x7f);
    return (((word - ones * ' ') & ~word) | ((del - ones) & ~del)) & tops;
}

static size_t value_span(const char *from, const char *end)
{
    const char *at = from;

    while (end - at >= 8 && !has_control(at))
        at += 8;
    while (PLACES[(unsigned char)*at] != ' ')
        at++;
    return (size_t)(at - from);
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

/* What CR LF have become. */
static bool line_ends(const char *at, const char *end)
{
    return end - at >= 2 && at[0] == '\0' && at[1] == '\0';
}

void head_begin(struct head *head, const char *left, size_t bytes)
{
    const char *end = left + bytes;
    const bool begun = line_ends(left, end) && end[-1] == '\0';

    *head = (struct head){.at = begun ? left + 2 : NULL, .end = end};
}

void head_line(struct head *head, const char *name, const char *value)
{
    if (head->at == NULL || name != head->at || name >= head->end)
        goto wrong;
    const size_t name_bytes = name_span(name);
    const char *colon = name + name_bytes, *from = colon + 1;
    if (name_bytes == 0 || *colon != '\0')
        goto wrong;
    while (from < head->end && (*from == ' ' || *from == '\t'))
        from++;
    if (from != value || from >= head->end)
        goto wrong;
    const size_t value_bytes = value_span(from, head->end);
    if (!line_ends(from + value_bytes, head->end))
        goto wrong;
    take_line(head, name, name_bytes, value, value_bytes);
    head->at = value + value_bytes + 2;
    return;
wrong:
    head->at = NULL;
}

bool head_end(const struct head *head)
{
    return head->at != NULL && head->end - head->at == 2 && line_ends(head->at, head->end);
}
