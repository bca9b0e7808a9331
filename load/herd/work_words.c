/* SPDX-License-Identifier: MIT */
/* work_words.c - keys out of a file; see work.h. */
#include "load/herd/work.h"

#include "load/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool wrong_line(const struct work_words *words, size_t line, const char *what, char *why)
{
    snprintf(why, WORK_WHY_BYTES, "%.100s:%zu: %s", words->path, line, what);
    return false;
}

static bool check_word(const struct work_words *words, const char *word, size_t line, size_t room, char *why)
{
    if (strlen(word) > room) {
        snprintf(why, WORK_WHY_BYTES, "%.100s:%zu: a key of %zu bytes; at most %zu fit into its URL",
                 words->path, line, strlen(word), room);
        return false;
    }
    for (; *word != '\0'; word++) {
        if ((unsigned char)*word <= ' ' || (unsigned char)*word >= 127 || *word == '#')
            return wrong_line(words, line,
                              "a key with a byte that cannot stand in a request; percent-encode it", why);
    }
    return true;
}

static bool read_all(struct work_words *words, char *why)
{
    char chunk[65536];
    struct text text = {.bytes = NULL};
    FILE *file = fopen(words->path, "re");
    errno = file == NULL ? errno : 0;
    for (size_t got; file != NULL && (got = fread(chunk, 1, sizeof chunk, file)) > 0;)
        text_add(&text, chunk, got);
    bool good = file != NULL && ferror(file) == 0;
    if (!good)
        snprintf(why, WORK_WHY_BYTES, "keys: %.100s cannot be read: %s", words->path, strerror(errno));
    if (good && text.bytes != NULL && strlen(text.bytes) < text.count)
        good = wrong_line(words, 1, "not a text: it has a NUL", why);
    if (file != NULL)
        fclose(file);
    words->text = text.bytes;
    return good;
}

static bool cut_lines(struct work_words *words, size_t room, char *why)
{
    size_t line = 0, list_room = 0;
    char *rest = words->text;
    for (char *word; (word = strsep(&rest, "\n")) != NULL;) {
        line++;
        word[strcspn(word, "\r")] = '\0';
        if (word[0] == '\0')
            continue;
        char **at = list_grow(words->at, words->count, &list_room, sizeof *at);
        words->at = at != NULL ? at : words->at;
        if (at == NULL || words->count == WORK_REQUESTS_MAX)
            return wrong_line(words, line, "more keys than there is room for", why);
        if (!check_word(words, word, line, room, why))
            return false;
        words->at[words->count++] = word;
    }
    return words->count > 0 || wrong_line(words, 1, "no key is in it: write one on each line", why);
}

bool work_words_read(const char *path, size_t path_bytes, size_t room, struct work_words **out,
                     char why[static WORK_WHY_BYTES])
{
    struct work_words *words = calloc(1, sizeof *words);
    if (words != NULL)
        words->path = strndup(path, path_bytes);
    if (words == NULL || words->path == NULL)
        snprintf(why, WORK_WHY_BYTES, "keys: no memory");
    else if (read_all(words, why) && cut_lines(words, room, why)) {
        *out = words;
        return true;
    }
    work_words_free(&words);
    return false;
}

void work_words_free(struct work_words **words)
{
    if (*words == NULL)
        return;
    free((*words)->path);
    free((*words)->text);
    free((*words)->at);
    free(*words);
    *words = NULL;
}
