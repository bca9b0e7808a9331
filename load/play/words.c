/* SPDX-License-Identifier: MIT */
/* words.c - see words.h. */
#include "load/play/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double day_us = 86400e6;

/* ---- cutting ---- */

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* Copies one word from *from to *to; false: its quote is not closed. */
static bool cut_word(const char **from, char **to)
{
    char quote = '\0';
    for (; **from != '\0' && (quote != '\0' || !is_space(**from)); (*from)++) {
        if (quote == '\0' && (**from == '"' || **from == '\'')) {
            quote = **from;
        } else if (quote != '\0' && **from == quote) {
            quote = '\0';
        } else {
            if (quote == '"' && **from == '\\' && ((*from)[1] == '"' || (*from)[1] == '\\'))
                (*from)++;
            *(*to)++ = **from;
        }
    }
    *(*to)++ = '\0';
    return quote == '\0';
}

const char *words_split(struct words *words, const char *line)
{
    char *to = words->text;
    words->count = words->next = 0;
    if (strlen(line) * 2 >= sizeof words->text) /* each byte may become a word and its end */
        return "the line is too long";
    for (;;) {
        while (is_space(*line))
            line++;
        if (*line == '\0' || *line == '#')
            return NULL;
        if (words->count == WORDS_MAX)
            return "too many words";
        words->at[words->count++] = (uint16_t)(to - words->text);
        if (!cut_word(&line, &to))
            return "a quote is not closed";
    }
}

bool words_add(struct words *words, const char *word)
{
    size_t used = 0, bytes = strlen(word) + 1;
    if (words->count > 0) {
        used = words->at[words->count - 1];
        used += strlen(words->text + used) + 1;
    }
    if (words->count == WORDS_MAX || used + bytes > sizeof words->text)
        return false;
    memcpy(words->text + used, word, bytes);
    words->at[words->count++] = (uint16_t)used;
    return true;
}

const char *words_peek(const struct words *words)
{
    return words->next < words->count ? words->text + words->at[words->next] : NULL;
}

const char *words_next(struct words *words)
{
    return words->next < words->count ? words->text + words->at[words->next++] : NULL;
}

bool words_skip(struct words *words, const char *expected)
{
    const char *word = words_peek(words);
    if (word == NULL || strcmp(word, expected) != 0)
        return false;
    words->next++;
    return true;
}

static bool needs_quotes(const char *word)
{
    return *word == '\0' || *word == '#' || strpbrk(word, " \t\"'\\") != NULL;
}

/* Returns the bytes it takes, whether they fit or not. */
static size_t put(char *text, size_t text_bytes, size_t used, char byte)
{
    if (used + 1 < text_bytes)
        text[used] = byte;
    return used + 1;
}

static size_t put_word(char *text, size_t text_bytes, size_t used, const char *word)
{
    bool quoted = needs_quotes(word);
    if (quoted)
        used = put(text, text_bytes, used, '"');
    for (; *word != '\0'; word++) {
        if (quoted && (*word == '"' || *word == '\\'))
            used = put(text, text_bytes, used, '\\');
        used = put(text, text_bytes, used, *word);
    }
    return quoted ? put(text, text_bytes, used, '"') : used;
}

bool words_rest(struct words *words, char *text, size_t text_bytes)
{
    size_t used = 0;
    for (const char *word = words_next(words); word != NULL; word = words_next(words)) {
        if (used > 0)
            used = put(text, text_bytes, used, ' ');
        used = put_word(text, text_bytes, used, word);
    }
    text[used < text_bytes ? used : text_bytes - 1] = '\0';
    return used < text_bytes;
}

/* ---- meaning ---- */

bool word_number(const char *word, uint32_t least, uint32_t most, uint32_t *out)
{
    uint64_t number = 0;
    if (*word < '0' || *word > '9')
        return false;
    for (; *word != '\0'; word++) {
        if (*word == '_')
            continue;
        if (*word < '0' || *word > '9')
            return false;
        number = number * 10 + (uint64_t)(*word - '0');
        if (number > most)
            return false;
    }
    if (number < least)
        return false;
    *out = (uint32_t)number;
    return true;
}

/* Digits with at most one point; *end is what follows. strtod() would take "inf", "0x1p3" and the locale's comma. */
static bool read_decimal(const char *word, double *out, const char **end)
{
    double number = 0, place = 1;
    bool after_point = false;
    if (*word < '0' || *word > '9')
        return false;
    for (; (*word >= '0' && *word <= '9') || (*word == '.' && !after_point); word++) {
        if (*word == '.') {
            after_point = true;
            continue;
        }
        number = number * 10 + (*word - '0');
        place *= after_point ? 10 : 1;
    }
    *out = number / place;
    *end = word;
    return true;
}

bool word_decimal(const char *word, double *out)
{
    const char *end;
    double number;
    if (!read_decimal(word, &number, &end) || *end != '\0')
        return false;
    *out = number;
    return true;
}

bool word_percent(const char *word, double *out)
{
    const char *end;
    double number;
    if (!read_decimal(word, &number, &end) || strcmp(end, "%") != 0 || number > 100)
        return false;
    *out = number;
    return true;
}

bool word_duration_us(const char *word, double *out)
{
    static const struct {
        const char *name;
        double us;
    } units[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"m", 60e6}, {"min", 60e6}, {"h", 3600e6}};
    const char *end;
    double number;
    if (!read_decimal(word, &number, &end))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0 || number * units[i].us > day_us)
            continue;
        *out = number * units[i].us;
        return true;
    }
    return false;
}

bool word_duration_ms(const char *word, uint32_t *out)
{
    double us;
    if (!word_duration_us(word, &us) || (us > 0 && us < 1e3))
        return false;
    *out = (uint32_t)(us / 1e3 + 0.5);
    return true;
}
