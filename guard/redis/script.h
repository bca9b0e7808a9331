/* SPDX-License-Identifier: MIT */
/*
 * redis/script.h - a call of a script as a command: EVALSHA, and after a NOSCRIPT the same by EVAL.
 *
 * Pure, any thread.
 */
#ifndef GUARD_REDIS_SCRIPT_H
#define GUARD_REDIS_SCRIPT_H

#include "../wire/scripts.h"
#include <stdbool.h>

enum { REDIS_SCRIPT_ARGS_MAX = 16, REDIS_DIGEST_BYTES = 40 };

/* The command; points into what it was composed from and may not be copied. */
struct redis_script_command {
    size_t argc;
    const char *argv[3 + REDIS_SCRIPT_ARGS_MAX];
    size_t argv_bytes[3 + REDIS_SCRIPT_ARGS_MAX];
    char key_count[8];
};

/* The arguments, kept until it is known that the script was there. One heap object: free(). */
struct redis_script_call {
    enum script script;
    size_t key_count, argc;
    size_t argv_bytes[REDIS_SCRIPT_ARGS_MAX];
    char data[]; /* the arguments one after another */
};

/* `digest`: "" makes it an EVAL with the source. argv: the keys, then the arguments. */
void redis_script_compose(struct redis_script_command *command, enum script script, const char *digest,
                          size_t key_count, size_t argc, const char *const *argv, const size_t *argv_bytes);

/* NULL: no memory. */
struct redis_script_call *redis_script_keep(enum script script, size_t key_count, size_t argc,
                                            const char *const *argv, const size_t *argv_bytes);
/* The EVAL of a kept call. */
void redis_script_compose_again(struct redis_script_command *command, const struct redis_script_call *call);

#endif
