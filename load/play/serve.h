/* SPDX-License-Identifier: MIT */
/*
 * serve.h - a catalogd to play with, over private servers, until Ctrl-C.
 *
 * Servers that REDIS_URL and DATABASE_URL name are used as they are; every setting of catalogd may be given in the
 * environment.
 *
 * Threads: one, that of proc.h.
 */
#ifndef LOAD_PLAY_SERVE_H
#define LOAD_PLAY_SERVE_H

#include <stdint.h>

/* Returns only when something ended by itself: exit status 3. */
int serve(uint32_t product_count);

#endif
