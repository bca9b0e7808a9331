/* SPDX-License-Identifier: MIT */
/* witness_key.c - see witness_log.h. */
#include "load/witness/witness_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* What was read; the key may be longer than its room, the digest is of all of it. */
struct reading {
    const char *at, *end;
    struct witness_key *out;
    size_t key_count, form_count; /* as if there were room */
    uint32_t digest;
    size_t value_count;
    bool behind_name; /* the last thing read is a name, or the like: "IS NULL" has no value */
};

/* ---- bytes ---- */

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool begins_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

/* The byte so far ahead; 0: there is none. */
static char ahead(const struct reading *reading, size_t count)
{
    return (size_t)(reading->end - reading->at) > count ? reading->at[count] : '\0';
}

static bool is_ahead(const struct reading *reading, const char *text)
{
    size_t bytes = strlen(text);
    return (size_t)(reading->end - reading->at) >= bytes && memcmp(reading->at, text, bytes) == 0;
}

/* ---- what is kept ---- */

static void put_form(struct reading *reading, char c)
{
    if (reading->form_count + 1 < sizeof reading->out->form)
        reading->out->form[reading->form_count] = c;
    reading->form_count++;
}

static void put(struct reading *reading, char c)
{
    if (reading->key_count + 1 < sizeof reading->out->text)
        reading->out->text[reading->key_count] = (char)((unsigned char)c < ' ' ? ' ' : c);
    reading->key_count++;
    reading->digest = (reading->digest ^ (unsigned char)c) * 16777619u;
}

static void begin_value(struct reading *reading)
{
    if (reading->value_count++ > 0) {
        put(reading, ',');
        put(reading, ' ');
    }
    put_form(reading, '?');
}

static void put_all(struct reading *reading, const char *until)
{
    while (reading->at < until)
        put(reading, *reading->at++);
}

static void finish(struct reading *reading)
{
    char *key = reading->out->text;
    const size_t room = sizeof reading->out->text, form_room = sizeof reading->out->form;
    if (reading->key_count < room)
        key[reading->key_count] = '\0';
    else
        snprintf(key + room - 1 - WITNESS_TAIL_BYTES, WITNESS_TAIL_BYTES + 1, "~%08" PRIx32, reading->digest);
    reading->out->form[reading->form_count < form_room ? reading->form_count : form_room - 1] = '\0';
}

/* ---- blanks and comments ---- */

static void skip_line(struct reading *reading)
{
    while (reading->at < reading->end && *reading->at != '\n')
        reading->at++;
}

/* They nest. */
static void skip_comment(struct reading *reading)
{
    size_t depth = 0;
    do {
        bool opens = is_ahead(reading, "/*"), closes = is_ahead(reading, "*/");
        depth = depth + opens - closes;
        reading->at += opens || closes ? 2 : 1;
    } while (depth > 0 && reading->at < reading->end);
}

/* True: there was something; it is one blank of the form. */
static bool skip_gap(struct reading *reading)
{
    const char *from = reading->at;
    while (reading->at < reading->end) {
        if (is_blank(*reading->at))
            reading->at++;
        else if (is_ahead(reading, "--"))
            skip_line(reading);
        else if (is_ahead(reading, "/*"))
            skip_comment(reading);
        else
            break;
    }
    bool any = reading->at > from;
    if (any && reading->form_count > 0 && reading->at < reading->end)
        put_form(reading, ' ');
    return any;
}

/* ---- values ---- */

/* From its opening quote; two quotes within mean one, and in E'..' a backslash keeps the next byte. */
static void take_string(struct reading *reading, bool has_escapes)
{
    begin_value(reading);
    for (reading->at++; reading->at < reading->end; reading->at++) {
        if (*reading->at == '\'' && ahead(reading, 1) != '\'')
            break;
        if (*reading->at == '\'' || (has_escapes && *reading->at == '\\' && reading->end - reading->at > 1))
            reading->at++;
        put(reading, *reading->at);
    }
    reading->at += reading->at < reading->end;
}

/* "$tag$ ... $tag$" */
static bool take_dollars(struct reading *reading)
{
    const char *from = reading->at, *name = from + 1, *close;
    while (name < reading->end && (begins_name(*name) || (name > from + 1 && is_digit(*name))))
        name++;
    if (name == reading->end || *name != '$')
        return false;
    size_t mark_bytes = (size_t)(name + 1 - from);
    begin_value(reading);
    reading->at += mark_bytes;
    close = memmem(reading->at, (size_t)(reading->end - reading->at), from, mark_bytes);
    put_all(reading, close != NULL ? close : reading->end);
    reading->at += close != NULL ? mark_bytes : 0;
    return true;
}

/* "7", "-1.5e+3", "0x1F" */
static void take_number(struct reading *reading, bool is_negative)
{
    const char *to = reading->at;
    begin_value(reading);
    if (is_negative)
        put(reading, '-');
    while (to < reading->end && (is_digit(*to) || begins_name(*to) || *to == '.' ||
                                 ((*to == '+' || *to == '-') && (to[-1] == 'e' || to[-1] == 'E'))))
        to++;
    put_all(reading, to);
}

/* ---- names ---- */

static bool is_word(const char *from, size_t bytes, const char *word)
{
    return strlen(word) == bytes && strncasecmp(from, word, bytes) == 0;
}

/* E'..' and the like; false: a name. */
static bool take_prefixed(struct reading *reading, size_t bytes)
{
    static const char prefixes[] = "eEbBxXnN";
    bool is_unicode = bytes == 1 && (*reading->at == 'u' || *reading->at == 'U') &&
                      ahead(reading, 1) == '&' && ahead(reading, 2) == '\'';
    bool has_escapes = *reading->at == 'e' || *reading->at == 'E';
    if (!is_unicode && (bytes != 1 || strchr(prefixes, *reading->at) == NULL || ahead(reading, 1) != '\''))
        return false;
    reading->at += is_unicode ? 2 : 1;
    take_string(reading, has_escapes);
    return true;
}

static void take_name(struct reading *reading)
{
    const char *from = reading->at, *to = from;
    while (to < reading->end && (begins_name(*to) || is_digit(*to) || *to == '$'))
        to++;
    size_t bytes = (size_t)(to - from);
    bool is_value = !reading->behind_name && (is_word(from, bytes, "true") || is_word(from, bytes, "false") ||
                                              is_word(from, bytes, "null"));
    reading->behind_name = !is_value;
    if (is_value) {
        begin_value(reading);
        put_all(reading, to);
        return;
    }
    if (take_prefixed(reading, bytes)) {
        reading->behind_name = false;
        return;
    }
    while (reading->at < to)
        put_form(reading, *reading->at++);
}

/* From its opening quote; two quotes within are the end of one and the beginning of another. */
static void take_quoted_name(struct reading *reading)
{
    do
        put_form(reading, *reading->at++);
    while (reading->at < reading->end && *reading->at != '"');
    if (reading->at < reading->end)
        put_form(reading, *reading->at++);
    reading->behind_name = true;
}

/* ---- the whole ---- */

static void take_parameter(struct reading *reading)
{
    reading->out->has_parameters = true;
    put_form(reading, *reading->at++);
    while (reading->at < reading->end && is_digit(*reading->at))
        put_form(reading, *reading->at++);
    reading->behind_name = true;
}

static void take_one(struct reading *reading)
{
    bool is_negative = *reading->at == '-' && is_digit(ahead(reading, 1));
    reading->at += is_negative;
    char first = *reading->at;
    if (begins_name(first)) {
        take_name(reading);
        return;
    }
    if (first == '"') {
        take_quoted_name(reading);
        return;
    }
    if (first == '$' && is_digit(ahead(reading, 1))) {
        take_parameter(reading);
        return;
    }
    reading->behind_name = false;
    if (first == '\'')
        take_string(reading, false);
    else if (is_digit(first) || (first == '.' && is_digit(ahead(reading, 1))))
        take_number(reading, is_negative);
    else if (first != '$' || !take_dollars(reading))
        put_form(reading, *reading->at++);
}

void witness_key_read(const char *text, size_t bytes, struct witness_key *out)
{
    struct reading reading = {.at = text, .end = text + bytes, .out = out, .digest = 2166136261u};
    memset(out, 0, sizeof *out);
    while (reading.at < reading.end) {
        if (!skip_gap(&reading))
            take_one(&reading);
    }
    finish(&reading);
}

/* ---- the literals that are the key ---- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many bytes of the key are of whole values that this one begins, or ends, with too. */
static void look_alike(const char *key, const char *other, size_t *head, size_t *tail)
{
    size_t bytes = strlen(key), other_bytes = strlen(other), same = 0;
    while (same < least(*head, other_bytes) && key[same] == other[same])
        same++;
    *head = same;
    for (same = 0;
         same < least(*tail, other_bytes) && key[bytes - same - 1] == other[other_bytes - same - 1];)
        same++;
    *tail = same;
}

void witness_key_trim(struct witness_load *loads, size_t count)
{
    const char *key = count > 0 ? loads[0].key : "";
    size_t bytes = strlen(key), head = bytes, tail = bytes, shortest = bytes;
    for (size_t i = 1; i < count; i++) {
        look_alike(key, loads[i].key, &head, &tail);
        shortest = least(shortest, strlen(loads[i].key));
    }
    while (head > 0 && (head < 2 || memcmp(key + head - 2, ", ", 2) != 0))
        head--;
    while (tail > 0 && memcmp(key + bytes - tail, ", ", least(tail, 2)) != 0)
        tail--;
    for (size_t i = 0; head + tail < shortest && i < count; i++) {
        size_t left = strlen(loads[i].key) - head - tail;
        memmove(loads[i].key, loads[i].key + head, left);
        loads[i].key[left] = '\0';
    }
}
