/* SPDX-License-Identifier: MIT */
/* words.c - see words.h. */
#include "load/play/words.h"

#include "load/base/number.h"

#include <stdio.h>
#include <string.h>

_Static_assert(WORDS_MAX == 64 && WORDS_LINE_BYTES == 8192, "as in the texts");

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
        return "the line is too long: at most 4095 bytes";
    for (;;) {
        while (is_space(*line))
            line++;
        if (*line == '\0' || *line == '#')
            return NULL;
        if (words->count == WORDS_MAX)
            return "too many words: at most 64";
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

/* Returns the bytes it takes, whether they fit or not. */
static size_t put(char *text, size_t text_bytes, size_t used, char byte)
{
    if (used + 1 < text_bytes)
        text[used] = byte;
    return used + 1;
}

static size_t put_word(char *text, size_t text_bytes, size_t used, const char *word)
{
    bool quoted = *word == '\0' || *word == '#' || strpbrk(word, " \t\"'\\") != NULL;
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

/* ---- the next word as what it must be ---- */

bool words_refuse(char why[static WORDS_WHY_BYTES], const char *reason, const char *word)
{
    if (word != NULL)
        snprintf(why, WORDS_WHY_BYTES, "%s \"%.200s\"", reason, word);
    else
        snprintf(why, WORDS_WHY_BYTES, "%s", reason);
    return false;
}

bool words_refuse_unknown(char why[static WORDS_WHY_BYTES], const char *what, const char *word,
                          const struct words_help *(*row)(size_t index))
{
    size_t used = (size_t)snprintf(why, WORDS_WHY_BYTES, "unknown %s \"%.60s\"; there are:", what, word);
    for (size_t i = 0; row(i) != NULL && used < WORDS_WHY_BYTES; i++)
        used += (size_t)snprintf(why + used, WORDS_WHY_BYTES - used, "%s %s", i > 0 ? "," : "", row(i)->name);
    return false;
}

bool words_take_number(struct words *words, uint32_t least, uint32_t most, uint32_t *out,
                       char why[static WORDS_WHY_BYTES])
{
    char reason[64];
    const char *word = words_next(words);
    if (word == NULL || number_read(word, least, most, out))
        return word != NULL;
    snprintf(reason, sizeof reason, "a number from %u to %u is needed, not", (unsigned)least, (unsigned)most);
    return words_refuse(why, reason, word);
}

bool words_take_ms(struct words *words, uint32_t *out, char why[static WORDS_WHY_BYTES])
{
    const char *word = words_next(words);
    if (word == NULL || number_read_ms(word, out))
        return word != NULL;
    return words_refuse(why, "a time like 250ms, 1.5s or 2m is needed, not", word);
}

bool words_take_percent(struct words *words, uint32_t *out, char why[static WORDS_WHY_BYTES])
{
    double percent;
    const char *word = words_next(words);
    if (word == NULL)
        return false;
    if (!number_read_percent(word, &percent))
        return words_refuse(why, "a percentage like 50% is needed, not", word);
    *out = (uint32_t)(percent + 0.5);
    return true;
}

bool words_take_text(struct words *words, char *out, size_t out_bytes, char why[static WORDS_WHY_BYTES])
{
    const char *word = words_next(words);
    if (word == NULL || word[0] == '\0')
        return false;
    if ((size_t)snprintf(out, out_bytes, "%s", word) < out_bytes)
        return true;
    char reason[64];
    snprintf(reason, sizeof reason, "too long: at most %zu bytes, not", out_bytes - 1);
    return words_refuse(why, reason, word);
}
