/* SPDX-License-Identifier: MIT */
/* access_line.c - see access.h. Every text has a limit, and the sum of them is less than a line. */
#include "app/http/access.h"

#include "app/base/number.h"
#include "app/base/trace.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* As written: at most so many bytes of each. */
enum {
    METHOD_MAX = 64,
    TARGET_MAX = 1500,
    HEADER_MAX = 850,
    WORD_MAX = 64, /* of our own, and ids */
    REST_MAX = 640 /* numbers, dates, names and quotes */
};
_Static_assert(2 * METHOD_MAX + TARGET_MAX + 2 * HEADER_MAX + REST_MAX <= ACCESS_LINE_MAX, "a line fits");

static const char *const ENDS[] = {[ACCESS_DONE] = "done",
                                   [ACCESS_HUNG_UP] = "hung-up",
                                   [ACCESS_EXPIRED] = "expired",
                                   [ACCESS_STOPPED] = "stopped"};
static const char HEX[] = "0123456789abcdef";

/* What is being written; it is known to be large enough. */
struct text {
    char *at;
};

static void put(struct text *text, const char *bytes, size_t count)
{
    memcpy(text->at, bytes, count);
    text->at += count;
}

static void put_text(struct text *text, const char *words)
{
    put(text, words, strlen(words));
}

static void put_number(struct text *text, uint64_t number)
{
    text->at += number_digits(number, text->at);
}

static void put_padded(struct text *text, uint32_t number, size_t digits)
{
    for (size_t i = digits; i-- > 0; number /= 10)
        text->at[i] = (char)('0' + number % 10);
    text->at += digits;
}

static void put_load(struct text *text, uint64_t load)
{
    for (unsigned shift = 64; shift > 0; shift -= 4)
        *text->at++ = HEX[load >> (shift - 4) & 15];
}

/* ---- dates ---- */

static void note_second(struct access_date *date, time_t second)
{
    struct tm parts;

    if (date->second == second && second != 0)
        return;
    date->second = second;
    gmtime_r(&second, &parts);
    strftime(date->combined, sizeof(date->combined), "%d/%b/%Y:%H:%M:%S +0000", &parts);
    strftime(date->json, sizeof(date->json), "%Y-%m-%dT%H:%M:%S", &parts);
}

/* ---- combined ---- */

static bool is_plain(unsigned char byte, bool is_word)
{
    return byte > ' ' ? byte < 0x7f && byte != '"' && byte != '\\' : byte == ' ' && !is_word;
}

/* At most `most` bytes of it. */
static void put_escaped(struct text *text, const char *from, bool is_word, size_t most)
{
    const char *end = text->at + most;

    for (; *from != '\0'; from++) {
        const unsigned char byte = (unsigned char)*from;

        if (text->at + (is_plain(byte, is_word) ? 1 : 4) > end)
            return;
        if (is_plain(byte, is_word)) {
            *text->at++ = (char)byte;
        } else {
            put(text, "\\x", 2);
            *text->at++ = HEX[byte >> 4];
            *text->at++ = HEX[byte & 15];
        }
    }
}

static void put_word(struct text *text, const char *word, size_t most)
{
    if (word == NULL || word[0] == '\0')
        *text->at++ = '-';
    else
        put_escaped(text, word, true, most);
    *text->at++ = ' ';
}

static void put_quoted(struct text *text, const char *words)
{
    *text->at++ = '"';
    if (words == NULL || words[0] == '\0')
        *text->at++ = '-';
    else
        put_escaped(text, words, false, HEADER_MAX);
    put(text, "\" ", 2);
}

static void put_request(struct text *text, const struct access_line *line)
{
    *text->at++ = '"';
    put_word(text, line->method, METHOD_MAX);
    put_word(text, line->target, TARGET_MAX);
    put_word(text, line->protocol, METHOD_MAX);
    text->at[-1] = '"'; /* in place of the last space */
    *text->at++ = ' ';
}

static void put_ids(struct text *text, const struct access_line *line)
{
    if (line->load != 0)
        put_load(text, line->load);
    else
        *text->at++ = '-';
    *text->at++ = ' ';
    put_word(text, line->request, WORD_MAX);
    if (line->trace != NULL)
        put(text, line->trace, TRACE_ID_DIGITS);
    else
        *text->at++ = '-';
    *text->at++ = ' ';
}

static void print_combined(struct text *text, const struct access_line *line, const struct access_date *date)
{
    put_word(text, line->remote, WORD_MAX);
    put_text(text, "- - [");
    put_text(text, date->combined);
    put(text, "] ", 2);
    put_request(text, line);
    put_number(text, line->status);
    *text->at++ = ' ';
    put_number(text, line->bytes);
    *text->at++ = ' ';
    put_quoted(text, line->referer);
    put_quoted(text, line->user_agent);
    put_number(text, line->duration_us / 1000000);
    *text->at++ = '.';
    put_padded(text, (uint32_t)(line->duration_us % 1000000), 6);
    *text->at++ = ' ';
    put_word(text, line->route, WORD_MAX);
    put_word(text, line->source, WORD_MAX);
    put_ids(text, line);
    put_text(text, ENDS[line->end]);
}

/* ---- json ---- */

/* Bytes of the UTF-8 sequence at `at`, as RFC 3629 has it: no overlong one, no surrogate; 0: it is none. */
static size_t utf8_bytes(const unsigned char *at)
{
    static const struct {
        unsigned char first, last, low, high;
        size_t bytes;
    } FORMS[] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
                 {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
                 {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};

    if (at[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof(FORMS) / sizeof(FORMS[0]); i++) {
        if (at[0] < FORMS[i].first || at[0] > FORMS[i].last || at[1] < FORMS[i].low || at[1] > FORMS[i].high)
            continue;
        for (size_t k = 2; k < FORMS[i].bytes; k++) {
            if (at[k] < 0x80 || at[k] > 0xbf)
                return 0;
        }
        return FORMS[i].bytes;
    }
    return 0;
}

static bool is_control(const unsigned char *at)
{
    return at[0] < ' ' || at[0] == 0x7f || (at[0] == 0xc2 && at[1] <= 0x9f);
}

/* One character, as it is or escaped, into `out`; returns its length. *bytes: how many it is in the source. */
static size_t json_character(const unsigned char *at, char out[8], size_t *bytes)
{
    *bytes = utf8_bytes(at);
    if (*bytes == 0) {
        *bytes = 1;
        memcpy(out, "\xef\xbf\xbd", 3);
        return 3;
    }
    if (is_control(at))
        return (size_t)snprintf(out, 8, "\\u%04x", at[*bytes - 1]); /* C2 80 is U+0080 */
    if (at[0] == '"' || at[0] == '\\') {
        out[0] = '\\';
        out[1] = (char)at[0];
        return 2;
    }
    memcpy(out, at, *bytes);
    return *bytes;
}

static void put_json(struct text *text, const char *from, size_t most)
{
    const char *end = text->at + most;
    const unsigned char *at = (const unsigned char *)from;

    while (*at != '\0') {
        char character[8];
        size_t bytes;
        const size_t length = json_character(at, character, &bytes);

        if (text->at + length > end)
            return;
        put(text, character, length);
        at += bytes;
    }
}

/* ,"name":"value"; nothing if there is no value. */
static void put_member(struct text *text, const char *name, const char *value, size_t most)
{
    if (value == NULL || value[0] == '\0')
        return;
    put_text(text, ",\"");
    put_text(text, name);
    put_text(text, "\":\"");
    put_json(text, value, most);
    *text->at++ = '"';
}

static void put_count(struct text *text, const char *name, uint64_t number)
{
    put_text(text, ",\"");
    put_text(text, name);
    put_text(text, "\":");
    put_number(text, number);
}

static void put_json_ids(struct text *text, const struct access_line *line)
{
    put_member(text, "request_id", line->request, WORD_MAX);
    if (line->trace != NULL) {
        put_text(text, ",\"trace_id\":\"");
        put(text, line->trace, TRACE_ID_DIGITS);
        *text->at++ = '"';
    }
    if (line->load != 0) {
        put_text(text, ",\"load\":\"");
        put_load(text, line->load);
        *text->at++ = '"';
    }
}

static void print_json(struct text *text, const struct access_line *line, const struct access_date *date)
{
    put_text(text, "{\"time\":\"");
    put_text(text, date->json);
    *text->at++ = '.';
    put_padded(text, (uint32_t)(line->began.tv_nsec / 1000), 6);
    put_text(text, "Z\"");
    put_member(text, "remote", line->remote, WORD_MAX);
    put_member(text, "method", line->method, METHOD_MAX);
    put_member(text, "path", line->target, TARGET_MAX);
    put_member(text, "protocol", line->protocol, METHOD_MAX);
    put_count(text, "status", line->status);
    put_count(text, "bytes", line->bytes);
    put_count(text, "duration_us", line->duration_us);
    put_member(text, "route", line->route, WORD_MAX);
    put_member(text, "source", line->source, WORD_MAX);
    put_json_ids(text, line);
    put_member(text, "end", ENDS[line->end], WORD_MAX);
    put_member(text, "user_agent", line->user_agent, HEADER_MAX);
    put_member(text, "referer", line->referer, HEADER_MAX);
    *text->at++ = '}';
}

size_t access_line_print(enum access_format format, const struct access_line *line, struct access_date *date,
                         char out[ACCESS_LINE_MAX])
{
    struct text text = {.at = out};

    assert(format != ACCESS_OFF);
    note_second(date, line->began.tv_sec);
    if (format == ACCESS_JSON)
        print_json(&text, line, date);
    else
        print_combined(&text, line, date);
    *text.at++ = '\n';
    assert(text.at <= out + ACCESS_LINE_MAX);
    return (size_t)(text.at - out);
}
