/* SPDX-License-Identifier: MIT */
/* redis/script.c - a call of a script as a command: EVALSHA, and after a NOSCRIPT the same by EVAL. */
#include "script.h"
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_word(struct redis_script_command *command, const char *argument, size_t bytes)
{
    command->argv[command->argc] = argument;
    command->argv_bytes[command->argc++] = bytes;
}

void redis_script_compose(struct redis_script_command *command, enum script script, const char *digest,
                          size_t key_count, size_t argc, const char *const *argv, const size_t *argv_bytes)
{
    int digits = snprintf(command->key_count, sizeof command->key_count, "%u", (unsigned)key_count);

    assert(argc <= REDIS_SCRIPT_ARGS_MAX && key_count <= argc);
    command->argc = 0;
    if (digest[0] != '\0') {
        add_word(command, "EVALSHA", strlen("EVALSHA"));
        add_word(command, digest, REDIS_DIGEST_BYTES);
    } else {
        add_word(command, "EVAL", strlen("EVAL"));
        add_word(command, script_source(script), script_source_bytes(script));
    }
    add_word(command, command->key_count, (size_t)digits);
    for (size_t i = 0; i < argc; i++)
        add_word(command, argv[i], argv_bytes[i]);
}

struct redis_script_call *redis_script_keep(enum script script, size_t key_count, size_t argc,
                                            const char *const *argv, const size_t *argv_bytes)
{
    size_t bytes = 0;

    assert(argc <= REDIS_SCRIPT_ARGS_MAX);
    for (size_t i = 0; i < argc; i++)
        if (__builtin_add_overflow(bytes, argv_bytes[i], &bytes))
            return NULL;
    struct redis_script_call *call = bytes <= SIZE_MAX - sizeof *call ? malloc(sizeof *call + bytes) : NULL;
    if (call == NULL)
        return NULL;

    *call = (struct redis_script_call){.script = script, .key_count = key_count, .argc = argc};
    char *to = call->data;
    for (size_t i = 0; i < argc; i++) {
        call->argv_bytes[i] = argv_bytes[i];
        if (argv_bytes[i] > 0)
            memcpy(to, argv[i], argv_bytes[i]);
        to += argv_bytes[i];
    }
    return call;
}

void redis_script_compose_again(struct redis_script_command *command, const struct redis_script_call *call)
{
    const char *argv[REDIS_SCRIPT_ARGS_MAX];
    const char *from = call->data;

    for (size_t i = 0; i < call->argc; i++) {
        argv[i] = from;
        from += call->argv_bytes[i];
    }
    redis_script_compose(command, call->script, "", call->key_count, call->argc, argv, call->argv_bytes);
}
