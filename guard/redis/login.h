/* SPDX-License-Identifier: MIT */
/*
 * redis/login.h - user and password as they are when they are needed: a password in a file may have been changed
 * since.
 *
 * Threads  any. Reads one small file, and does not wait for anything else.
 */
#ifndef GUARD_REDIS_LOGIN_H
#define GUARD_REDIS_LOGIN_H

#include "types.h"
#include "url.h"

/* The login with what its file holds, without the end of the line; clear it with redis_login_clear(). False, and *why
 * names the file and what is wrong with it: it cannot be read, is empty, or is too long. */
bool redis_login_read(const struct redis_login *login, struct redis_login *out, char why[REDIS_WHY_SIZE]);
void redis_login_clear(struct redis_login *login);

#endif
