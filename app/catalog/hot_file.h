/* SPDX-License-Identifier: MIT */
/*
 * hot_file.h - a list of keys on disk, the hottest first.
 *
 *     catalogd hot keys 1
 *     products product:7
 *     categories category:3:after:120
 *     end 2
 *
 * A line that is not exactly a kind and a key of that kind is left out and counted, and so is what is missing in front of
 * the last line: a damaged file costs what is damaged of it. A key with any other bytes is no key of ours and is never
 * written. A file that does not begin like this is not read.
 *
 * Written under another name in the same folder, flushed and renamed: readers see the old list or the new one. Processes
 * may share a file; of two that write at once one list is lost.
 *
 * Threads: any.
 */
#ifndef APP_HOT_FILE_H
#define APP_HOT_FILE_H

#include "app/base/document.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { HOT_KEYS_MAX = 512, HOT_FILE_BYTES_MAX = 128 << 10 };

struct hot_keys {
    size_t count;
    char keys[HOT_KEYS_MAX][DOCUMENT_KEY_SIZE];
};

/* At the end, unless it is there, no key of ours, or there is no room. */
void hot_keys_add(struct hot_keys *keys, const char *key);

struct hot_file_damage {
    bool is_foreign; /* nothing was read: its first line is not ours */
    size_t lines;    /* that were left out, or are missing */
};
/* Adds what text[0..bytes) has. */
void hot_file_parse(const char *text, size_t bytes, struct hot_keys *keys, struct hot_file_damage *damage);
void hot_file_print(const struct hot_keys *keys, FILE *out);

/* Adds to `keys`. False, with errno: it cannot be read; there may be none (ENOENT). */
bool hot_file_read(const char *path, struct hot_keys *keys, struct hot_file_damage *damage);
/* False, with errno: the file is as it was. */
bool hot_file_write(const char *path, const struct hot_keys *keys);

#endif
