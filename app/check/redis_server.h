/* SPDX-License-Identifier: MIT */
/*
 * redis_server.h - are the settings of a Redis server those of a cache that forgets with the process, and its clock right?
 *
 * Asked of one server that the URL names itself, without TLS. Which masters Sentinels and a Cluster have is the guard's
 * knowledge: of those it says that nobody looked. Which server it is, and whether that will do, the guard says.
 *
 * Threads: any. Time: each command CHECK_LIMIT_MS at most, none after the first that is not answered.
 */
#ifndef APP_REDIS_SERVER_H
#define APP_REDIS_SERVER_H

#include "app/check/findings.h"

void redis_server_check(const char *redis_url, struct findings *findings);

#endif
