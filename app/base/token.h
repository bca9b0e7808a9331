/* SPDX-License-Identifier: MIT */
/*
 * token.h - the secret that operators send: read from a file once, compared without telling how much was right.
 *
 * Threads: any, once read.
 */
#ifndef APP_TOKEN_H
#define APP_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

enum { TOKEN_BYTES_MIN = 16, TOKEN_BYTES_MAX = 256 };

struct token {
    size_t bytes; /* 0: none is required */
    char text[TOKEN_BYTES_MAX + 1];
};

/* The first line of the file, which others may not read; no token for the path "". `setting` names the path. False: the
 * reason was logged. */
bool token_read(const char *setting, const char *path, struct token *out);
bool token_matches(const struct token *token, const char *given);
void token_clear(struct token *token);

#endif
