/* SPDX-License-Identifier: MIT */
/*
 * service.h - a catalogd over private servers, when it is ready to be measured.
 *
 * Threads: as proc.h has it. Errors: false, and the reason on stderr.
 */
#ifndef LOAD_BENCH_SERVICE_H
#define LOAD_BENCH_SERVICE_H

#include "load/stack/stack.h"

/* With these settings ("NAME=value", ends with NULL); returns when it is ready and connected to Redis. */
bool service_start(struct stack_catalogd *catalogd, const struct stack_redis *redis,
                   const struct stack_postgres *postgres, const char *const *settings);

#endif
