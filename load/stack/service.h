/* SPDX-License-Identifier: MIT */
/*
 * service.h - a catalogd over private servers, when it is ready to be measured; and what was measured on.
 *
 * Threads: as proc.h has it. Errors: false, and the reason on stderr.
 */
#pragma once

#include "load/stack/stack.h"

/* With these settings ("NAME=value", ends with NULL); returns when it is ready and connected to Redis. */
bool service_start(struct stack_catalogd *catalogd, const struct stack_redis *redis,
                   const struct stack_postgres *postgres, const char *const *settings);

/* Until it is connected to its Redis, and hears of others there or polls for want of a right; ready does not mean that. */
bool service_wait_joined(const struct stack_catalogd *catalogd, uint32_t limit_ms);

/* ---- the machine ---- */

enum { MACHINE_BYTES = 256 };

/* "2 cores, Linux 6.1.0 x86_64; Redis 7.0.15, PostgreSQL 15.18": cores, kernel and the versions that both servers
 * tell, of those that are given; "?" for one that does not answer. */
void machine_describe(struct stack_redis *redis, const char *database_url, char text[static MACHINE_BYTES]);
