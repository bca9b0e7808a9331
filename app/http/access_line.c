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
    strftime(date->text, sizeof(date->text), "%d/%b/%Y:%H:%M:%S +0000", &parts);
}

/* ---- words ---- */

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

static void print_words(struct text *text, const struct access_line *line, const struct access_date *date)
{
    put_word(text, line->remote, WORD_MAX);
    put_text(text, "- - [");
    put_text(text, date->text);
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

size_t access_line_print(const struct access_line *line, struct access_date *date, char out[ACCESS_LINE_MAX])
{
    struct text text = {.at = out};

    note_second(date, line->began.tv_sec);
    print_words(&text, line, date);
    *text.at++ = '\n';
    assert(text.at <= out + ACCESS_LINE_MAX);
    return (size_t)(text.at - out);
}
