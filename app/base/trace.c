/* SPDX-License-Identifier: MIT */
/* trace.c - see trace.h. */
#include "app/base/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where the parts of a traceparent stand. */
enum {
    AT_TRACE = 3,
    AT_PARENT = 36,
    AT_FLAGS = 53,
    PARENT_BYTES = TRACE_PARENT_SIZE - 1,
    PARENT_DIGITS = 16
};

static const char DIGITS[] = "0123456789abcdef";

bool trace_take_request(struct trace *trace, const char *text)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t bytes = text != NULL ? strspn(text, allowed) : 0;

    if (bytes == 0 || bytes > TRACE_REQUEST_MAX || text[bytes] != '\0')
        return false;
    memcpy(trace->request, text, bytes + 1);
    return true;
}

void trace_make_request(struct trace *trace, uint64_t random)
{
    snprintf(trace->request, sizeof(trace->request), "%016" PRIx64, random);
}

/* So many digits, and the byte behind them is not another one. */
static bool is_hex(const char *text, size_t digits)
{
    return strspn(text, DIGITS) == digits;
}

static bool is_zero(const char *text, size_t digits)
{
    return strspn(text, "0") >= digits;
}

/* Each look begins where the one before found a byte that is not the end. */
static bool has_form(const char *text)
{
    return is_hex(text, 2) && text[2] == '-' && is_hex(text + AT_TRACE, TRACE_ID_DIGITS) &&
           text[AT_PARENT - 1] == '-' && is_hex(text + AT_PARENT, PARENT_DIGITS) &&
           text[AT_FLAGS - 1] == '-' && is_hex(text + AT_FLAGS, 2);
}

static bool ends_right(const char *text)
{
    const bool is_first = strncmp(text, "00", 2) == 0;

    return text[PARENT_BYTES] == '\0' || (!is_first && text[PARENT_BYTES] == '-');
}

bool trace_take_parent(struct trace *trace, const char *text)
{
    if (text == NULL || !has_form(text) || !ends_right(text) || strncmp(text, "ff", 2) == 0 ||
        is_zero(text + AT_TRACE, TRACE_ID_DIGITS) || is_zero(text + AT_PARENT, PARENT_DIGITS))
        return false;
    const size_t low_digit = (size_t)(strchr(DIGITS, text[AT_FLAGS + 1]) - DIGITS);
    trace->sampled = (low_digit & 1) != 0;
    snprintf(trace->parent, sizeof(trace->parent), "00-%.*s%s", AT_FLAGS - AT_TRACE, text + AT_TRACE,
             trace->sampled ? "01" : "00");
    return true;
}

const char *trace_id(const struct trace *trace)
{
    return trace->parent[0] != '\0' ? trace->parent + AT_TRACE : NULL;
}

const char *trace_pairs(const struct trace *trace, char out[TRACE_PAIRS_SIZE])
{
    int bytes = 0;

    out[0] = '\0';
    if (trace->request[0] != '\0')
        bytes = snprintf(out, TRACE_PAIRS_SIZE, "request=%s ", trace->request);
    if (trace_id(trace) != NULL)
        snprintf(out + bytes, TRACE_PAIRS_SIZE - (size_t)bytes, "trace_id=%.*s ", TRACE_ID_DIGITS,
                 trace_id(trace));
    return out;
}

const char *trace_comment(const struct trace *trace, uint64_t load, char out[TRACE_COMMENT_SIZE])
{
    int bytes;

    if (!trace->sampled)
        return NULL;
    bytes = snprintf(out, TRACE_COMMENT_SIZE, "/*");
    if (load != 0)
        bytes += snprintf(out + bytes, TRACE_COMMENT_SIZE - (size_t)bytes, "load='%016" PRIx64 "',", load);
    snprintf(out + bytes, TRACE_COMMENT_SIZE - (size_t)bytes, "traceparent='%s'*/", trace->parent);
    return out;
}
