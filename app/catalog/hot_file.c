/* SPDX-License-Identifier: MIT */
/* hot_file.c - see hot_file.h. */
#include "app/catalog/hot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MODE = 0640, NAME_BYTES = 1100 };

static const char FIRST_LINE[] = "catalogd hot keys 1";
static const char LAST_WORD[] = "end ";

void hot_keys_add(struct hot_keys *keys, const char *key)
{
    if (keys->count == HOT_KEYS_MAX || !document_key_valid(key))
        return;
    for (size_t i = 0; i < keys->count; i++) {
        if (strcmp(keys->keys[i], key) == 0)
            return;
    }
    snprintf(keys->keys[keys->count++], DOCUMENT_KEY_SIZE, "%s", key);
}

/* ---- texts ---- */

static const char *kind_of(const char *key)
{
    struct document_key parsed;

    return document_key_parse(key, &parsed) ? document_kind_name(parsed.kind) : NULL;
}

void hot_file_print(const struct hot_keys *keys, FILE *out)
{
    fprintf(out, "%s\n", FIRST_LINE);
    for (size_t i = 0; i < keys->count; i++)
        fprintf(out, "%s %s\n", kind_of(keys->keys[i]), keys->keys[i]);
    fprintf(out, "%s%zu\n", LAST_WORD, keys->count);
}

struct line {
    const char *text;
    size_t bytes;
};

/* False: there is no more. What lacks its end is a line too. */
static bool next_line(const char **at, const char *end, struct line *out)
{
    if (*at == end)
        return false;
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    const char *stop = newline != NULL ? newline : end;

    *out = (struct line){*at, (size_t)(stop - *at)};
    *at = newline != NULL ? newline + 1 : end;
    return true;
}

/* False: it is not exactly what hot_file_print() writes for some key. */
static bool take_line(struct line line, struct hot_keys *keys)
{
    char text[2 * DOCUMENT_KEY_SIZE];
    const char *kind;

    if (line.bytes >= sizeof(text) || memchr(line.text, '\0', line.bytes) != NULL)
        return false;
    memcpy(text, line.text, line.bytes);
    text[line.bytes] = '\0';
    char *key = strchr(text, ' ');
    if (key == NULL)
        return false;
    *key++ = '\0';
    kind = kind_of(key);
    if (kind == NULL || strcmp(kind, text) != 0)
        return false;
    hot_keys_add(keys, key);
    return true;
}

/* False: it is not the last line. */
static bool read_end(struct line line, size_t *count)
{
    const size_t word = sizeof(LAST_WORD) - 1;
    uint64_t number;

    if (line.bytes <= word || memcmp(line.text, LAST_WORD, word) != 0 ||
        !number_parse(line.text + word, line.bytes - word, NUMBER_DIGITS_MAX, &number))
        return false;
    *count = (size_t)number;
    return true;
}

void hot_file_parse(const char *text, size_t bytes, struct hot_keys *keys, struct hot_file_damage *damage)
{
    const char *at = text, *end = text + bytes;
    size_t taken = 0, wanted = 0;
    struct line line;
    bool is_whole = false;

    *damage = (struct hot_file_damage){.is_foreign = true};
    if (!next_line(&at, end, &line) || line.bytes != sizeof(FIRST_LINE) - 1 ||
        memcmp(line.text, FIRST_LINE, line.bytes) != 0)
        return;
    damage->is_foreign = false;
    while (!is_whole && next_line(&at, end, &line)) {
        is_whole = read_end(line, &wanted);
        if (is_whole)
            break;
        const bool is_sound = take_line(line, keys);
        taken += is_sound;
        damage->lines += !is_sound;
    }
    if (!is_whole || at != end)
        damage->lines++;
    if (is_whole && wanted > taken + damage->lines)
        damage->lines = wanted - taken;
}

/* ---- files ---- */

bool hot_file_read(const char *path, struct hot_keys *keys, struct hot_file_damage *damage)
{
    *damage = (struct hot_file_damage){.lines = 0};
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    char *text = fd >= 0 ? malloc(HOT_FILE_BYTES_MAX) : NULL;
    const ssize_t bytes = text != NULL ? read(fd, text, HOT_FILE_BYTES_MAX) : -1;
    const int why = errno;

    if (bytes >= 0)
        hot_file_parse(text, (size_t)bytes, keys, damage);
    free(text);
    if (fd >= 0)
        close(fd);
    errno = why;
    return bytes >= 0;
}

/* Takes fd. */
static bool write_all(int fd, const struct hot_keys *keys)
{
    FILE *out = fdopen(fd, "w");

    if (out == NULL) {
        close(fd);
        return false;
    }
    hot_file_print(keys, out);
    const bool is_flushed = fflush(out) == 0 && ferror(out) == 0 && fsync(fd) == 0;
    return fclose(out) == 0 && is_flushed;
}

bool hot_file_write(const char *path, const struct hot_keys *keys)
{
    char name[NAME_BYTES];

    if (snprintf(name, sizeof(name), "%s.%ld.new", path, (long)getpid()) >= (int)sizeof(name)) {
        errno = ENAMETOOLONG;
        return false;
    }
    unlink(name); /* of a process that died while it wrote and had this number */
    const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (fd < 0)
        return false;
    if (write_all(fd, keys) && rename(name, path) == 0)
        return true;
    const int why = errno;
    unlink(name);
    errno = why;
    return false;
}
