/* SPDX-License-Identifier: MIT */
/*
 * fuzz_trace.c - what a request says of itself: no byte of it leaves a comment, a line or a text that it stands in.
 *
 * The bytes are lines: traceparent, id, user agent, target.
 */
#include "tests/fuzz/fuzz.h"

#include "app/base/trace.h"
#include "app/http/access.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void check_trace(const struct trace *trace)
{
    static const char HEX[] = "0123456789abcdef-";
    char comment[TRACE_COMMENT_SIZE], pairs[TRACE_PAIRS_SIZE];
    assert(trace->parent[strspn(trace->parent, HEX)] == '\0');
    assert(trace->parent[0] == '\0' || strlen(trace->parent) == TRACE_PARENT_SIZE - 1);
    assert(strpbrk(trace_pairs(trace, pairs), "\"'\\\n") == NULL);
    if (trace_comment(trace, 7, comment) != NULL) {
        assert(strstr(comment, "*/") == comment + strlen(comment) - 2 && strstr(comment + 2, "/*") == NULL);
        assert(strspn(comment + 2, "abcdefghijklmnopqrstuvwxyz0123456789-=',") == strlen(comment) - 4);
    }
}

/* What is taken over is taken over again. */
static void check_parent(const struct trace *trace)
{
    struct trace again = {.request = ""};
    if (trace->parent[0] == '\0')
        return;
    assert(trace_take_parent(&again, trace->parent));
    assert(strcmp(again.parent, trace->parent) == 0 && again.sampled == trace->sampled);
}

/* Quotes that are not escaped: three texts, and nothing but printable ASCII. */
static void check_combined(const char *text, size_t bytes)
{
    size_t quotes = 0;
    for (size_t i = 0; i + 1 < bytes; i++) {
        assert(text[i] >= ' ' && text[i] <= '~');
        quotes += text[i] == '"';
    }
    assert(quotes == 6);
}

static void check_line(const struct access_line *line)
{
    char text[ACCESS_LINE_MAX];
    struct access_date date = {.second = 0};
    size_t bytes = access_line_print(line, &date, text);
    assert(memchr(text, '\n', bytes) == text + bytes - 1);
    check_combined(text, bytes);
}

void fuzz_trace(const uint8_t *data, size_t bytes)
{
    char *text = fuzz_text(data, bytes), *rest = text;
    const char *parent = strsep(&rest, "\n"), *request = strsep(&rest, "\n"), *agent = strsep(&rest, "\n");
    struct trace trace = {.request = ""};
    trace_take_parent(&trace, parent);
    trace_take_request(&trace, request);
    check_trace(&trace);
    check_parent(&trace);
    const struct access_line line = {.began = {1, 0},
                                     .method = agent,
                                     .target = rest,
                                     .user_agent = agent,
                                     .referer = rest,
                                     .request = trace.request,
                                     .trace = trace_id(&trace)};
    check_line(&line);
    free(text);
}
