/* SPDX-License-Identifier: MIT */
/*
 * asker.h - what a load may know of the request that started it: the token that its client sent.
 *
 * Threads: any. Ownership: counted; whoever has a reference gives it back.
 */
#ifndef APP_ASKER_H
#define APP_ASKER_H

enum { ASKER_TOKEN_MAX = 256 };

struct asker;

/* Of `Authorization: Bearer TOKEN`. NULL: it is none, or no token of 1 to ASKER_TOKEN_MAX printable ASCII characters, or
 * there is no memory: a client without a token sees what all see. */
struct asker *asker_new(const char *authorization);
/* For guard_request.asker_ref and asker_unref. */
void asker_ref(void *asker);
void asker_unref(void *asker);
/* "" if asker is NULL. */
const char *asker_token(const struct asker *asker);

#endif
