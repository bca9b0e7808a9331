/* SPDX-License-Identifier: MIT */
/*
 * redis/error.h - what went wrong, as one line for people. What an error reply means is in redis/types.h.
 *
 * Pure, any thread.
 */
#ifndef GUARD_REDIS_ERROR_H
#define GUARD_REDIS_ERROR_H

#include "types.h"

enum { REDIS_WHY_SIZE = 320 }; /* of one line that says why; without the address */

/* The words of Redis by which an error is known, "" if it is not: nothing of what was sent is among them. */
const char *redis_error_name(const char *text, size_t text_bytes);
/* What an operator can do about it; "" if that is not known. */
const char *redis_error_advice(const char *text, size_t text_bytes);

/* `what`, then the error that Redis has replied, printable and cut short, and what to do about it. secret: it may
 * repeat a password, so only words that are known are told. */
void redis_explain(const struct redisReply *reply, const char *what, bool secret, char why[REDIS_WHY_SIZE]);

/* "connect: connection refused": `what` failed for this reason; its first letter becomes a small one, for no sentence
 * begins there. */
void redis_explain_problem(const char *what, const char *problem, char why[REDIS_WHY_SIZE]);
/* The same for a number of errno's. */
void redis_explain_errno(const char *what, int error, char why[REDIS_WHY_SIZE]);

#endif
