/* SPDX-License-Identifier: MIT */
/*
 * fuzz_head.c - heads of requests: what libmicrohttpd leaves of any bytes is accepted exactly if the bytes were what
 * RFC 9112 calls the lines of a head.
 */
#include "tests/fuzz/fuzz.h"

#include "tests/support/left_head.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_tchar(uint8_t byte)
{
    return byte < 128 && byte != 0 && (isalnum(byte) || strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static bool ends_here(const uint8_t *at, const uint8_t *end)
{
    return end - at >= 2 && at[0] == '\r' && at[1] == '\n';
}

static bool is_head(const uint8_t *at, const uint8_t *end)
{
    for (at += 2; at < end && !ends_here(at, end); at += 2) {
        const uint8_t *name = at;
        while (at < end && is_tchar(*at))
            at++;
        if (at == name || at == end || *at++ != ':')
            return false;
        while (at < end && (*at == '\t' || (*at >= ' ' && *at != 127)))
            at++;
        if (!ends_here(at, end))
            return false;
    }
    return at + 2 == end;
}

/* What cannot be told apart, see head.h: within the head a NUL and LF; at its end any four that leave nothing. */
static void take_nul_for_cr(char *text, size_t end)
{
    size_t gone = 0;
    for (size_t i = 1; i < end; i++)
        if (text[i] == '\n' && text[i - 1] == '\0')
            text[i - 1] = '\r';
    for (size_t i = end < 4 ? end : end - 4; i < end; i++)
        gone += text[i] == '\0' || text[i] == '\n' || (text[i] == '\r' && text[i + 1] == '\n');
    if (gone == 4)
        memcpy(text + end - 4, "\r\n\r\n", 4);
}

void fuzz_head(const uint8_t *data, size_t bytes)
{
    struct head head;
    size_t end;
    bool sound;
    char *text = fuzz_text(data, bytes), *left = fuzz_text(data, bytes);
    if (left_head(left, bytes, &end, &head, &sound)) {
        take_nul_for_cr(text, end);
        const uint8_t *begin = (const uint8_t *)text;
        assert(sound == (ends_here(begin, begin + end) && is_head(begin, begin + end)));
        assert(!(head.has_body || head.length_is_wrong) || head.lengths > 0);
    }
    free(left);
    free(text);
}
