/* SPDX-License-Identifier: MIT */
/*
 * redis/buffer.h - commands in RESP on their way out.
 *
 * One growing buffer, so that a command costs no allocation of its own. Pure; the owner's thread. A zeroed
 * struct is an empty one.
 */
#ifndef GUARD_REDIS_BUFFER_H
#define GUARD_REDIS_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
