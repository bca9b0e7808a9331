/* SPDX-License-Identifier: MIT */
/*
 * redis/command.h - commands: the call of a script as one, EVALSHA and after a NOSCRIPT the same by EVAL; and the
 * bytes of commands, in RESP, on their way out.
 *
 * One growing buffer, so that a command costs no allocation of its own. Pure; the owner's thread.
 */
#ifndef GUARD_REDIS_COMMAND_H
#define GUARD_REDIS_COMMAND_H

#include "types.h"

enum { REDIS_DIGEST_BYTES = 40 };

/* ---- a call of a script ---- */

/* The command; points into what it was composed from and may not be copied. */
struct redis_script_command {
    size_t argc;
    const char *argv[3 + REDIS_SCRIPT_ARGS_MAX];
    size_t argv_bytes[3 + REDIS_SCRIPT_ARGS_MAX];
    char key_count[8];
};

/* The arguments, kept until it is known that the script was there. One heap object: free(). */
struct redis_script_call {
    const struct redis_script *script; /* lent */
    size_t key_count, argc;
    size_t argv_bytes[]; /* behind them the arguments themselves, one after another */
};

/* `digest`: "" makes it an EVAL with the source. argv: the keys, then the arguments. */
void redis_script_compose(struct redis_script_command *command, const struct redis_script *script,
                          const char *digest, size_t key_count, size_t argc, const char *const *argv,
                          const size_t *argv_bytes);

/* script: NULL for a command that is none, of which all words are arguments. NULL: no memory. */
struct redis_script_call *redis_script_keep(const struct redis_script *script, size_t key_count, size_t argc,
                                            const char *const *argv, const size_t *argv_bytes);
/* Its words: the keys, then the arguments. */
void redis_script_words(const struct redis_script_call *call, const char *words[REDIS_SCRIPT_ARGS_MAX]);
/* The EVAL of a kept call. */
void redis_script_compose_again(struct redis_script_command *command, const struct redis_script_call *call);

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

#endif
