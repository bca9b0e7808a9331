/* SPDX-License-Identifier: MIT */
/*
 * redis_link.h - one connection to one Redis, of hiredis: connected, logged in, its database chosen.
 *
 * Threads: any; a connection has one at a time. Errors: NULL.
 */
#ifndef COMMON_REDIS_LINK_H
#define COMMON_REDIS_LINK_H

#include "app/common/redis_url.h"

#include <hiredis/hiredis.h>

/* Each step, and each command from then on, is given up after limit_ms. redisFree() is yours. */
struct redisContext *redis_link_open(const struct redis_url *url, uint32_t limit_ms);
/* Without a password: a port of 127.0.0.1, or a socket's path. */
struct redisContext *redis_link_to_port(uint16_t port, uint32_t limit_ms);
struct redisContext *redis_link_to_path(const char *path, uint32_t limit_ms);

#endif
