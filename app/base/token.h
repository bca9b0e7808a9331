/* SPDX-License-Identifier: MIT */
/*
 * token.h - the secret that operators send: read from a file, compared without telling how much was right.
 *
 * Threads: any, once read, while one replaces it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { TOKEN_BYTES_MIN = 16, TOKEN_BYTES_MAX = 256 };

struct token {
    bool required; /* does not change once it was read */
    size_t bytes;
    char text[TOKEN_BYTES_MAX + 1];
};

/* The first line of the file, which others may not read; no token for the path "". `setting` names the path. False:
 * the reason was logged. */
bool token_read(const char *setting, const char *path, struct token *out);
/* The same again, for one that was read from this path. False: the reason was logged, and the token is as it was. */
bool token_replace(const char *setting, const char *path, struct token *token);
bool token_matches(const struct token *token, const char *given);
void token_clear(struct token *token);
