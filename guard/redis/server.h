/* SPDX-License-Identifier: MIT */
/*
 * redis/server.h - what answers at an address: which server by its own words, whether it will do, or which other
 * protocol.
 *
 * INFO of Valkey calls itself Redis 7.2.4 for those who ask nothing else: its own name and version stand beside that.
 *
 * Threads  any; the news under a mutex of its own.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { REDIS_SERVER_SIZE = 64 };

struct redis_server {
    char name[REDIS_SERVER_SIZE]; /* "redis 7.0.15", "valkey 8.0.1"; "": it may not be asked */
    bool too_old;                 /* it lacks what nothing here can do without: REDIS_NEEDED */
    bool no_getex;
};
#define REDIS_NEEDED "use Redis 6.2 or later, or Valkey"

/* From the answer to INFO server. */
void redis_server_read(struct redis_server *server, const char *info);

/* Of the first bytes that came: what it is that does not speak Redis's protocol, and what to do; NULL: it may. */
const char *redis_server_stranger(const char *bytes, size_t count);

/* What was said of the servers of one URL, so that it is said once. */
struct redis_news {
    pthread_mutex_t mutex;
    char said[2 * REDIS_SERVER_SIZE];
};
void redis_news_init(struct redis_news *news);
void redis_news_clear(struct redis_news *news);
/* True: it is to be said now, for it is known and another than the last time. NULL: nobody says it. */
bool redis_news_take(struct redis_news *news, const char *text);
