/* SPDX-License-Identifier: MIT */
/*
 * machine.h - what was measured on: "2 cores, Linux 6.1.0 x86_64; Redis 7.0.15, PostgreSQL 15.18".
 *
 * Threads: any, one at a time with the servers.
 */
#ifndef LOAD_STACK_MACHINE_H
#define LOAD_STACK_MACHINE_H

#include "load/stack/stack.h"

enum { MACHINE_BYTES = 256 };

/* Cores, kernel and the versions that both servers tell; "?" for one that does not answer. */
void machine_describe(struct stack_redis *redis, const struct stack_postgres *postgres,
                      char text[static MACHINE_BYTES]);

#endif
