/* SPDX-License-Identifier: MIT */
/*
 * redis/command.h - the words of commands, kept, and their bytes, in RESP, on the way out.
 *
 * One growing buffer, so that a command costs no allocation of its own. Pure; the owner's thread.
 */
#pragma once

#include "types.h"

enum { REDIS_DIGEST_BYTES = 40 };

/* The words of a command, kept to send them again. One heap object: free(). */
struct redis_words {
    size_t argc;
    const char **argv;
    size_t *argv_bytes;
};

/* Those before `lent` are not copied: EVAL and a source. NULL: no memory. */
struct redis_words *redis_words_keep(size_t lent, size_t argc, const char *const *argv,
                                     const size_t *argv_bytes);

/* ---- bytes on their way out ---- */

/* A zeroed one is empty. */
struct redis_buffer {
    char *data; /* owned */
    size_t begin, end, size;
};

static inline size_t redis_buffer_bytes(const struct redis_buffer *buffer)
{
    return buffer->end - buffer->begin;
}

/* Appends one command. False, and nothing is appended: no memory. */
bool redis_buffer_command(struct redis_buffer *buffer, size_t argc, const char *const *argv,
                          const size_t *argv_bytes);
/* Takes bytes off the front. */
void redis_buffer_consume(struct redis_buffer *buffer, size_t bytes);
/* Overwrites what it held (a password may be among it) and frees. */
void redis_buffer_clear(struct redis_buffer *buffer);
