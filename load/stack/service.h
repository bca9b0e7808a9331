/* SPDX-License-Identifier: MIT */
/*
 * service.h - a catalogd over private servers, when it is ready to be measured; and pairs of them, with or without an
 * nginx or a Varnish before each; and what was measured on.
 *
 * Threads: as proc.h has it. Errors: false, and the reason on stderr.
 */
#ifndef LOAD_STACK_SERVICE_H
#define LOAD_STACK_SERVICE_H

#include "load/stack/rival.h"
#include "load/stack/stack.h"

/* With these settings ("NAME=value", ends with NULL); returns when it is ready and connected to Redis. */
bool service_start(struct stack_catalogd *catalogd, const struct stack_redis *redis,
                   const struct stack_postgres *postgres, const char *const *settings);

enum { PAIR = 2 };

struct service_pair {
    struct stack_catalogd catalogd[PAIR];
    struct rival before[PAIR]; /* pid 0: nothing */
};

/* One before each; `options` but for the origin. */
bool service_pair_start_nginx(struct service_pair *pair, struct nginx_options options);
bool service_pair_start_varnish(struct service_pair *pair, struct varnish_options options);
/* Where it is asked. */
uint16_t service_pair_port(const struct service_pair *pair, size_t index);
/* Accepts one that is all zeros. */
void service_pair_stop(struct service_pair *pair);

/* ---- the machine ---- */

enum { MACHINE_BYTES = 256 };

/* "2 cores, Linux 6.1.0 x86_64; Redis 7.0.15, PostgreSQL 15.18": cores, kernel and the versions that both servers
 * tell; "?" for one that does not answer. */
void machine_describe(struct stack_redis *redis, const struct stack_postgres *postgres,
                      char text[static MACHINE_BYTES]);

#endif
