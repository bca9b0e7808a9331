/* SPDX-License-Identifier: MIT */
/* fuzz_replay.c - lines of an access log: what is taken from one fits into the head of a request, or nothing is. */
#include "tests/fuzz/fuzz.h"

#include "load/play/replay.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_path(const char *path)
{
    const char *at = path;
    while (*at > ' ' && *at < 127 && *at != '"' && *at != '#' && *at != '\\')
        at++;
    return path[0] == '/' && *at == '\0';
}

static bool is_method(const char *method)
{
    return method[0] != '\0' &&
           method[strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_")] == '\0';
}

/* What was taken from a line is taken again from a line made of it. */
static void check_again(const struct access_line *hit)
{
    char text[WORK_PATH_BYTES + 128];
    struct access_line again;
    snprintf(text, sizeof text, "1 - - [10/Oct/2000:13:55:36 -0700] \"%s %s HTTP/1.1\" 200", hit->method,
             hit->path);
    assert(access_line_read(text, &again));
    assert(strcmp(again.method, hit->method) == 0 && strcmp(again.path, hit->path) == 0);
}

void fuzz_replay(const uint8_t *data, size_t bytes)
{
    struct access_line hit;
    char *text = fuzz_text(data, bytes);
    if (access_line_read(text, &hit)) {
        assert(is_method(hit.method));
        assert(hit.is_too_long || is_path(hit.path));
        if (!hit.is_too_long)
            check_again(&hit);
    }
    free(text);
}
