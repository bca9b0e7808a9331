/* SPDX-License-Identifier: MIT */
/*
 * change.h - what an operator may do to the cache, as ops.h lists it: drop, expire, refresh, clear.
 *
 * Threads: that of the connection, which blocks until Redis has confirmed, or for CHANGE_LIMIT_MS; a refresh and a clearing
 * for CHANGE_MANY_LIMIT_MS.
 */
#ifndef APP_CHANGE_H
#define APP_CHANGE_H

#include "app/ops/parts.h"

#include <microhttpd.h>

enum { CHANGE_LIMIT_MS = 1000, CHANGE_MANY_LIMIT_MS = 20000, CHANGE_KEYS_MAX = 100 };

bool change_invalidate(const struct ops_parts *parts, struct MHD_Connection *connection);
bool change_expire(const struct ops_parts *parts, struct MHD_Connection *connection);
bool change_refresh(const struct ops_parts *parts, struct MHD_Connection *connection);
bool change_clear(const struct ops_parts *parts, struct MHD_Connection *connection);

#endif
