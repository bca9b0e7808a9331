/* SPDX-License-Identifier: MIT */
/*
 * tag_memory.h - which tags entries had when they were last seen, so that the next lookup can ask for their epochs in
 * the same write. A hint: if the entry has other tags, their epochs are requested then.
 *
 * A table of fixed size, eight places for the keys whose hashes meet, taken over in turn. 512 KiB, of which the
 * system gives what is used, and texts of 4 MiB at the worst. One loop's own, no locking.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    TAG_MEMORY_TEXT_MAX = 118, /* longer ones are not remembered */
    TAG_MEMORY_KEYS = 32768,   /* places; of a third as many keys hardly one is forgotten */
};

struct tag_memory;

/* NULL, which the functions below accept, knows nothing. */
void tag_memory_free(struct tag_memory **memory);

/* key_hash: nobody chooses keys whose hashes meet. bytes 0: it has none. */
void tag_memory_put(struct tag_memory *memory, uint64_t key_hash, const char *tags, size_t bytes);
/* The same; *memory NULL: makes it. */
void tag_memory_remember(struct tag_memory **memory, uint64_t key_hash, const char *tags, size_t bytes);
/* Returns how many bytes there are, 0 for nothing known; valid until the next put. */
size_t tag_memory_get(struct tag_memory *memory, uint64_t key_hash, const char **tags);
